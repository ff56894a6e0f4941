// SPDX-License-Identifier: GPL-3.0-or-later
// Samples an answer and feeds it, up to its end.
#include "app/driver/answer.h"

#include <string.h>

#include "app/util/format.h"

static int fail_text(struct moe_err *err)
{
    return backend_fail(err, MOE_NO_MEMORY, "no memory for the answer's text");
}

bool answer_must_stop(const struct answer *answer)
{
    return atomic_load(answer->cancelled) >= answer->serial;
}

static int append_id(struct tok_ids *list, int32_t id, struct moe_err *err)
{
    struct tok_err tok_err;
    return tok_ids_append(list, id, &tok_err) == 0 ? 0 : backend_fail(err, MOE_NO_MEMORY, "%s", tok_err.text);
}

// Takes `step` over.
static void send_figures(struct answer *answer, int32_t id, struct moe_telemetry *step)
{
    const struct backend *backend = answer->timeline->backend;
    const char *bytes;
    size_t length = backend->ops->bytes(backend->self, id, &bytes);
    struct event event = {.kind = EVENT_TOKEN};
    event.token.id = id;
    event.token.seconds = (double)(format_clock_ns() - answer->began_ns) / 1e9;
    event.token.tally = steps_tally(answer->timeline->steps);
    event.token.length = (uint32_t)(length < sizeof event.token.bytes ? length : sizeof event.token.bytes);
    memcpy(event.token.bytes, bytes, event.token.length);
    event.token.step = step;
    answer_text_token(&answer->text, &event);
}

// Of an answer that has ended, so that it is kept whatever is cancelled now.
static int encode_rest(struct answer *answer, const struct backend_prompt *rest, struct turn_result *result)
{
    const struct backend *backend = answer->timeline->backend;
    size_t end;
    int code;
    while ((code = backend->ops->encode(backend->self, rest, &result->answer, &end, &result->err)) == MOE_CANCELLED)
        backend->ops->resume(backend->self);
    return code;
}

// The answer was ended by a stop string: what the timeline has of it is what is said, too. Where the string begins
// within a token, that token gives way to those of its beginning.
static int cut_at_stop(struct answer *answer, const struct turn *turn, uint32_t begin, struct turn_result *result)
{
    const struct backend_ops *ops = answer->timeline->backend->ops;
    void *self = answer->timeline->backend->self;
    const char *bytes = NULL;
    uint64_t left = answer_text_length(&answer->text);
    struct tok_sections sections = ops->sections(self, turn->raw, turn->think);
    size_t whole = 0, length = 0;
    for (; whole < result->answer.count; whole++) {
        int32_t id = result->answer.ids[whole];
        bool mark = tok_sections_take(&sections, id, &bytes) == TOK_SECTION_MARK;
        length = mark ? strlen(bytes) : ops->bytes(self, id, &bytes);
        if (length > left)
            break;
        left -= length;
    }
    struct tok_turn rest = {.role = TOK_ASSISTANT, .text = bytes, .length = (size_t)left};
    struct backend_prompt head = {.turns = &rest, .n_turns = 1, .raw = true};
    int code = timeline_cut(answer->timeline, begin + (uint32_t)whole, &result->err);
    result->answer.count = whole;
    if (code == 0 && left)
        code = encode_rest(answer, &head, result);
    for (size_t i = whole; i < result->answer.count && code == 0; i++)
        code = timeline_add(answer->timeline, result->answer.ids[i], &result->err);
    return code;
}

// What is missing before the end of an answer that was stopped while it thought.
static int close_sections(struct answer *answer, struct turn_result *result)
{
    struct tok_ids ids = {0};
    struct tok_err err;
    int code = tok_sections_close(&answer->sections, &ids, &err)
                   ? backend_fail(&result->err, MOE_NO_MEMORY, "%s", err.text)
                   : 0;
    for (size_t i = 0; i < ids.count && code == 0; i++) {
        code = append_id(&result->answer, ids.ids[i], &result->err);
        code = code ? code : timeline_add(answer->timeline, ids.ids[i], &result->err);
    }
    tok_ids_release(&ids);
    return code;
}

// Samples and feeds tokens until something ends the answer. On 0, result->reason says what, and *last is the id that
// was sampled last, which is not fed. The context has room for the answer's next id and its end whenever an id is
// sampled.
static int generate(struct answer *answer, const struct turn *turn, int32_t *last, struct turn_result *result)
{
    const struct backend_ops *ops = answer->timeline->backend->ops;
    void *self = answer->timeline->backend->self;
    struct steps *steps = answer->timeline->steps;
    const struct tok_ids *fed = &answer->timeline->fed;
    int code;
    for (;;) {
        int32_t id = *last = steps_sample(steps, fed->ids, fed->count);
        if (id < 0)
            return backend_fail(&result->err, MOE_BAD_NUMBERS, "the model's output has no finite number");
        const char *mark;
        enum tok_section section = TOK_SECTION_END;
        if (ops->is_end(self, id) || (section = tok_sections_take(&answer->sections, id, &mark)) == TOK_SECTION_END) {
            result->reason = STOP_END;
            break;
        }
        if ((code = append_id(&result->answer, id, &result->err)))
            return code;
        if (!(section == TOK_SECTION_MARK ? answer_text_mark(&answer->text, mark)
                                          : answer_text_push(&answer->text, id)))
            return fail_text(&result->err);
        result->generated_tokens++;
        steps_were_held_up(steps, queue_waited(answer->text.events));
        struct moe_telemetry *step = steps_end(steps), *shown = NULL;
        if (turn->tokens && step)
            shown = figures_clone(step);
        steps_keep(steps, step);
        if (turn->tokens)
            send_figures(answer, id, shown);
        result->reason = STOP_TEXT;
        if (answer_text_stopped(&answer->text))
            break;
        result->reason = STOP_CANCELLED;
        if (answer_must_stop(answer))
            break;
        result->reason = STOP_MAX_TOKENS;
        if (turn->max_tokens && result->generated_tokens >= turn->max_tokens)
            break;
        result->reason = STOP_CONTEXT_FULL;
        if (ops->length(self) + 2 + turn_closing(answer->timeline->backend, turn->raw, &answer->sections) >
            result->context_total)
            break;
        code = timeline_decode(answer->timeline, id, &result->err);
        if (code) { // such as a read error: what was said stays, and the next turn feeds the rest or fails
            result->reason = code == MOE_CANCELLED ? STOP_CANCELLED : STOP_ERROR;
            break;
        }
    }
    return 0;
}

// The timeline has what is still to be fed of an answer that begins there, and its end.
static int end_timeline(struct answer *answer, const struct turn *turn, uint32_t begin, int32_t last,
                        struct turn_result *result)
{
    const struct backend_ops *ops = answer->timeline->backend->ops;
    int code = 0;
    if (answer_text_stopped(&answer->text))
        code = cut_at_stop(answer, turn, begin, result);
    else if (result->reason != STOP_END)
        code = timeline_add(answer->timeline, last, &result->err);
    if (code == 0)
        code = close_sections(answer, result);
    if (code)
        return code;
    // Where the template has the turns closed in its own way, that counts, not how the model said it.
    int32_t end =
        result->reason == STOP_END && turn->raw ? last : ops->end_id(answer->timeline->backend->self, turn->raw);
    if (end < 0)
        return 0;
    code = append_id(&result->answer, end, &result->err);
    return code ? code : timeline_add(answer->timeline, end, &result->err);
}

int answer_say(struct answer *answer, const struct turn *turn, struct turn_result *result)
{
    const struct backend *backend = answer->timeline->backend;
    struct backend_answer about = backend->ops->answer(backend->self, turn->raw, turn->think);
    answer->sections = backend->ops->sections(backend->self, turn->raw, turn->think);
    struct answer_begins begins = {about.has_marks, about.opened, &turn->sampling.stop};
    if (!answer_text_begin(&answer->text, &result->text, &begins))
        return fail_text(&result->err);
    steps_turn_to(answer->timeline->steps, STEPS_ANSWERING);
    uint32_t begin = timeline_length(answer->timeline);
    int32_t last = -1;
    int code = generate(answer, turn, &last, result);
    bool fine = answer_text_end(&answer->text);
    if (code || !fine)
        return code ? code : fail_text(&result->err);
    if (answer_text_stopped(&answer->text) && result->reason != STOP_ERROR) // also in what was held back until now
        result->reason = STOP_TEXT;
    return end_timeline(answer, turn, begin, last, result);
}
