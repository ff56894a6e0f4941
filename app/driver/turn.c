// SPDX-License-Identifier: GPL-3.0-or-later
// Makes and frees turns and their results.
#include "app/driver/turn.h"
#include "app/util/format.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *stop_reason_name(enum stop_reason reason)
{
    static const char *const names[] = {"end", "max_tokens", "context_full", "cancelled", "error", "stop"};
    return names[reason];
}

struct turn *turn_new(void)
{
    struct turn *turn = calloc(1, sizeof *turn);
    if (turn)
        turn->result = calloc(1, sizeof *turn->result);
    if (!turn || turn->result)
        return turn;
    free(turn);
    return NULL;
}

bool turn_add(struct turn *turn, enum tok_role role, const char *text, size_t length)
{
    struct tok_turn *grown = realloc(turn->turns, (turn->n_turns + 1) * sizeof *grown);
    if (!grown)
        return false;
    turn->turns = grown;
    struct part_made *made = realloc(turn->made, (turn->n_turns + 1) * sizeof *made);
    if (!made)
        return false;
    turn->made = made;
    char *copy = malloc(length + 1);
    if (!copy)
        return false;
    if (length)
        memcpy(copy, text, length);
    copy[length] = 0;
    made[turn->n_turns] = (struct part_made){.time = 0};
    grown[turn->n_turns++] = (struct tok_turn){.role = role, .text = copy, .length = length};
    return true;
}

void turn_was_made(struct turn *turn, const struct part_made *made)
{
    turn->made[turn->n_turns - 1] = *made;
}

bool turn_was_noted(struct turn *turn, const struct tok_ids *ids)
{
    struct turn_noted *noted = &turn->noted;
    struct tok_err err;
    uint32_t *grown = realloc(noted->ends, (noted->n + 1) * sizeof *grown);
    if (!grown)
        return false;
    noted->ends = grown;
    if (tok_ids_append_all(&noted->ids, ids->ids, ids->count, &err))
        return false;
    grown[noted->n++] = (uint32_t)noted->ids.count;
    return true;
}

bool turn_leaves(struct turn *turn, uint32_t part)
{
    uint32_t *grown = realloc(turn->left, (turn->n_left + 1) * sizeof *grown);
    if (!grown)
        return false;
    turn->left = grown;
    grown[turn->n_left++] = part;
    return true;
}

void turn_free(struct turn *turn)
{
    if (!turn)
        return;
    for (size_t i = 0; i < turn->n_turns; i++)
        free((char *)turn->turns[i].text);
    free(turn->turns);
    free(turn->made);
    free(turn->left);
    tok_ids_release(&turn->known);
    tok_ids_release(&turn->noted.ids);
    free(turn->noted.ends);
    turn_result_free(turn->result);
    free(turn);
}

void turn_note_answer(const struct turn *turn, struct turn_result *result)
{
    result->made = (struct part_made){
        .time = format_unix_time(), .sampling = turn->sampling.numbers, .max_tokens = turn->max_tokens};
    snprintf(result->made.stop, sizeof result->made.stop, "%s", stop_reason_name(result->reason));
}

void turn_result_free(struct turn_result *result)
{
    if (!result)
        return;
    tok_ids_release(&result->prompt);
    tok_ids_release(&result->answer);
    bytes_release(&result->text);
    free(result->prompt_ends);
    free(result);
}

size_t turn_closing(const struct backend *backend, bool raw, const struct tok_sections *sections)
{
    return (backend->ops->end_id(backend->self, raw) >= 0) + tok_sections_left(sections);
}

size_t turn_answer_room(const struct backend *backend, bool raw, enum think think)
{
    struct tok_sections sections = backend->ops->sections(backend->self, raw, think);
    return 1 + turn_closing(backend, raw, &sections);
}

int turn_encode(const struct turn *turn, const struct backend *backend, struct turn_result *result)
{
    struct backend_prompt prompt = {.turns = turn->turns,
                                    .n_turns = turn->n_turns,
                                    .begin = turn->position == 0,
                                    .behind_system = turn->behind_system,
                                    .raw = turn->raw,
                                    .think = turn->think};
    result->prompt_ends = calloc(turn->n_turns + 1, sizeof(size_t));
    if (!result->prompt_ends)
        return backend_fail(&result->err, MOE_NO_MEMORY, "no memory for the turn");
    int code = backend->ops->encode(backend->self, &prompt, &result->prompt, result->prompt_ends, &result->err);
    if (code == 0 && result->prompt.count == 0)
        code = backend_fail(&result->err, MOE_BAD_ARGUMENT, "the prompt is empty");
    result->n_prompt_ends = code ? 0 : turn->n_turns;
    return code;
}

void turn_stay_unfed(const struct turn *turn, struct turn_result *result)
{
    result->prompt.count = 0;
    memset(result->prompt_ends, 0, turn->n_turns * sizeof *result->prompt_ends);
    result->n_prompt_ends = turn->n_turns;
}

int turn_reopen(struct turn *turn, const struct backend *backend, struct moe_err *err)
{
    struct turn_result tried = {0};
    if (!turn->again || !turn->n_turns)
        return 0;
    int code = turn_encode(turn, backend, &tried);
    size_t count = turn->known.count;
    turn->again = code == 0 && tried.prompt.count == count &&
                  memcmp(tried.prompt.ids, turn->known.ids, count * sizeof *turn->known.ids) == 0;
    if (turn->again)
        turn->position += (uint32_t)count;
    for (; turn->again && turn->n_turns; turn->n_turns--) // nothing is fed
        free((char *)turn->turns[turn->n_turns - 1].text);
    if (code)
        *err = tried.err;
    tok_ids_release(&turn->known);
    turn->known = (struct tok_ids){0};
    tok_ids_release(&tried.prompt);
    free(tried.prompt_ends);
    return code;
}

size_t turn_same(const struct turn *turn, const struct saved *saved, const struct turn_result *result)
{
    const struct turn_noted *noted = &turn->noted;
    size_t n = 0, same = 0;
    while (same < noted->ids.count && same < result->prompt.count && noted->ids.ids[same] == result->prompt.ids[same])
        same++;
    while (same && n < noted->n && result->prompt_ends[n] <= same && result->prompt_ends[n] == noted->ends[n])
        n++;
    bool saved_too = !saved || manifest_tokens(saved_manifest(saved)) >= turn->position + noted->ids.count;
    return saved_too ? n : 0;
}

size_t turn_unchanged(const struct turn *turn, const struct backend *backend, const struct turn_result *result,
                      size_t there)
{
    const struct backend_ops *ops = backend->ops;
    void *self = backend->self;
    const char *bytes;
    size_t end = result->prompt.count, left = strlen(ops->answer(self, turn->raw, turn->think).opened);
    while (left && end > there) {
        size_t length = ops->bytes(self, result->prompt.ids[--end], &bytes);
        if (!length || length > left)
            return 0;
        left -= length;
    }
    return !left && end < result->prompt.count ? end - there : 0;
}

bool turn_has_room(const struct turn *turn, const struct turn_result *result)
{
    return turn->position + result->prompt.count + result->answer_room <= result->context_total;
}

// Would a message of one letter fit?
static int try_shorter(const struct turn *turn, const struct backend *backend, struct turn_result *result)
{
    struct turn_result tried = {.context_total = result->context_total, .answer_room = result->answer_room};
    struct tok_turn *last = &turn->turns[turn->n_turns - 1], was = *last;
    *last = (struct tok_turn){.role = was.role, .text = "a", .length = 1};
    int code = turn_encode(turn, backend, &tried);
    *last = was;
    result->shorter_fits = code == 0 && turn_has_room(turn, &tried);
    if (code)
        result->err = tried.err;
    tok_ids_release(&tried.prompt);
    free(tried.prompt_ends);
    return code;
}

int turn_does_not_fit(const struct turn *turn, const struct backend *backend, struct turn_result *result)
{
    size_t count = result->prompt.count + result->answer_room, needed = turn->position + count;
    unsigned total = result->context_total;
    if (turn->again)
        return backend_fail(&result->err, MOE_CONTEXT_FULL,
                            "the conversation up to this message has %" PRIu32
                            " tokens of %u, which leaves no room for an answer",
                            turn->position, total);
    int code = try_shorter(turn, backend, result);
    if (code)
        return code;
    result->reason = STOP_CONTEXT_FULL;
    bool fits = result->shorter_fits;
    if (turn->n_turns > 1)
        return backend_fail(&result->err, MOE_CONTEXT_FULL, "the %s needs %zu tokens of %u",
                            fits ? "message is too long: with it the conversation"
                                 : "conversation is too long now: with this message it",
                            needed, total);
    if (turn->position == 0)
        return backend_fail(&result->err, MOE_CONTEXT_FULL, "the %s needs %zu tokens of %u",
                            fits ? "message is too long: it" : "context is too small: this message", needed, total);
    return backend_fail(&result->err, MOE_CONTEXT_FULL,
                        "the %s: %zu of %u tokens are used and this message needs %zu more",
                        fits ? "message is too long" : "context is full", (size_t)turn->position, total, count);
}

uint32_t turn_count_again(const struct turn *turn, const struct turn_result *result)
{
    size_t own = turn->again ? turn->unanswered : result->prompt.count;
    if (turn->known.count && !turn->fills)
        own -= result->prompt_ends[turn->n_turns - 2];
    return result->tally.read_tokens > own ? (uint32_t)(result->tally.read_tokens - own) : 0;
}
