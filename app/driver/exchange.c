// SPDX-License-Identifier: GPL-3.0-or-later
// Takes a turn from its prompt to what is saved of its answer.
#include "app/driver/exchange.h"

#include <stdio.h>

#include "app/driver/queue.h"
#include "app/util/format.h"

void exchange_release(struct exchange *exchange)
{
    answer_text_release(&exchange->answer.text);
}

// Makes the logits after the message at hand those of now: it was just read, as it had not been, or they were kept,
// else saved, else its last token is fed again.
static int recall(struct exchange *exchange, const struct turn *turn, struct turn_result *result, bool just_read)
{
    const struct backend_ops *ops = exchange->backend->ops;
    void *self = exchange->backend->self;
    int code = ops->start_sampling(self, &turn->sampling, &result->err);
    if (code == 0 && ops->length(self) == 0)
        code = backend_fail(&result->err, MOE_BAD_ARGUMENT, "no message to answer");
    if (code == 0 && just_read) {
        ops->keep_logits(self);
        steps_begin_saving(exchange->steps);
        keeper_save_read(exchange->keeper);
        steps_end_saving(exchange->steps);
        return 0;
    }
    if (code || ops->recall_logits(self) || keeper_logits(exchange->keeper))
        return code;
    code = timeline_repeat(exchange->timeline, turn->last_id, &result->err);
    if (code == 0)
        ops->keep_logits(self);
    return code;
}

// Encodes the prompt and cuts the timeline back to where it begins, or to where it differs from what is known to be
// there. One that does not fit cuts nothing: what was said before it is still in the engine.
static int place(struct exchange *exchange, const struct turn *turn, struct turn_result *result)
{
    const struct tok_ids *prompt = &result->prompt;
    uint32_t same = 0;
    result->answer_room = turn_answer_room(exchange->backend, turn->raw, turn->think);
    int code = turn->again ? 0 : turn_encode(turn, exchange->backend, result);
    if (code == 0 && answer_must_stop(&exchange->answer))
        code = MOE_CANCELLED;
    // Whether it has room was not found out, or is for another try to say: its text stays, as any that was stopped.
    if (code == MOE_CANCELLED && !turn->again && (!result->n_prompt_ends || !turn_has_room(turn, result)))
        turn_stay_unfed(turn, result);
    bool follows = turn->position <= timeline_length(exchange->timeline); // else there is no place to cut at
    bool itself = turn->position > result->context_total && !turn->again; // too long: settle() says so
    if (code == 0 && follows && !turn_has_room(turn, result))
        return itself ? 0 : turn_does_not_fit(turn, exchange->backend, result);
    if (code == 0)
        same = timeline_has(exchange->timeline, turn->position, &turn->known, prompt);
    if (turn->known.count && code == 0 && result->prompt_ends[turn->n_turns - 2] > same)
        result->reread_tokens = (uint32_t)(result->prompt_ends[turn->n_turns - 2] - same);
    bool back = turn->position + same < exchange->backend->ops->length(exchange->backend->self);
    uint32_t stands = exchange->backend->ops->floor(exchange->backend->self, turn->position + same);
    result->for_states = back && stands < turn->position + same;
    if (back && stands >= turn->position) // what is missing up to there comes with the prompt
        same = stands - turn->position;
    if (code == 0)
        code = timeline_cut(exchange->timeline, turn->position + same, &result->err);
    if (code == 0 && back)
        result->replayed_tokens = timeline_unread(exchange->timeline);
    return code;
}

// Where one will want to stand: at the end of the answer that the prompt has in other words, as people take their own
// message back, and before this one's thinking.
static void choose_borders(const struct exchange *exchange, const struct turn *turn, const struct turn_result *result,
                           uint32_t borders[MOE_BORDERS])
{
    uint32_t there = exchange->backend->ops->length(exchange->backend->self);
    uint32_t before = turn->n_turns > 1 ? turn->position + (uint32_t)result->prompt_ends[turn->n_turns - 2] : 0;
    size_t same = turn_unchanged(turn, exchange->backend, result, there - turn->position);
    borders[0] = before > there ? before : 0;
    borders[1] = same ? there + (uint32_t)same : 0;
}

// Feeds the prompt, which begins at `from`, then generates. Returns 0 or a code with result->err.
static int answer(struct exchange *exchange, const struct turn *turn, struct turn_result *result, uint32_t from,
                  bool just_read)
{
    const struct backend_ops *ops = exchange->backend->ops;
    void *self = exchange->backend->self;
    uint32_t length = ops->length(self);
    int code = turn->again ? recall(exchange, turn, result, just_read) : 0;
    if (turn->again)
        return code ? code : answer_say(&exchange->answer, turn, result);
    size_t there = length - turn->position, count = result->prompt.count - there;
    if (answer_must_stop(&exchange->answer))
        return MOE_CANCELLED;
    code = ops->start_sampling(self, &turn->sampling, &result->err);
    uint32_t borders[MOE_BORDERS];
    choose_borders(exchange, turn, result, borders);
    exchange->read_before = length - from;
    if (code == 0)
        code = timeline_prefill(exchange->timeline, result->prompt.ids + there, count, borders, &result->err);
    exchange->read_before = 0;
    if (code == 0 && answer_must_stop(&exchange->answer))
        code = MOE_CANCELLED;
    if (code)
        return code;
    ops->keep_logits(self);
    if (exchange->keeper->saved) {
        steps_begin_saving(exchange->steps);
        keeper_save_prompt(exchange->keeper, turn, borders);
        steps_end_saving(exchange->steps);
    }
    return answer_say(&exchange->answer, turn, result);
}

// A turn that came to nothing: the timeline is as it was found, but for what a stopped prompt left to go on from.
static void leave(struct exchange *exchange, const struct turn *turn, struct turn_result *result, int code,
                  uint32_t found)
{
    struct moe_err ignored; // should this fail, the next turn cuts first
    if (code != MOE_CANCELLED || turn->again) {
        timeline_cut(exchange->timeline, found, &ignored);
        return;
    }
    timeline_keep_part(exchange->timeline, turn->position, found, &result->prompt);
    result->to_read = turn->position + (uint32_t)result->prompt.count - found;
    result->read_tokens = exchange->backend->ops->length(exchange->backend->self) - timeline_length(exchange->timeline);
    result->held_tokens = exchange->backend->ops->held(exchange->backend->self);
}

// Feeds what the turn finds pending. Where that is stopped while it is read a prompt's way, what was read of it stays
// for the next turn.
static int settle(struct exchange *exchange, struct turn_result *result)
{
    struct timeline *timeline = exchange->timeline;
    uint32_t to_read = timeline_reread(timeline) + timeline_unread(timeline);
    int code = timeline_settle(timeline, &result->err);
    if (code == 0 && to_read) // those after its end are there now: another answer needs no token again for them
        exchange->backend->ops->keep_logits(exchange->backend->self);
    bool left = code == MOE_CANCELLED && timeline_unread(timeline) > 0;
    if (!left)
        return code;
    result->rereading = timeline->reading_again;
    result->to_read = to_read;
    result->read_tokens = timeline_reread(timeline);
    result->held_tokens = exchange->backend->ops->held(exchange->backend->self);
    return code;
}

// Before anything is read, which may take hours.
static void tell_unsaved(struct exchange *exchange)
{
    struct event event = {.kind = EVENT_UNSAVED};
    const char *why = keeper_tell(exchange->keeper);
    if (!why)
        return;
    snprintf(event.unsaved, sizeof event.unsaved, "%s", why);
    queue_push(exchange->answer.text.events, &event, NULL);
}

// Before anything is read, once place() has returned the code: what of the turn is on the disk already.
static void note_message(struct exchange *exchange, const struct turn *turn, struct turn_result *result, int code)
{
    struct saved *saved = exchange->keeper->saved;
    bool encoded = (code == 0 || code == MOE_CANCELLED) && result->n_prompt_ends;
    result->n_same = encoded ? turn_same(turn, saved, result) : 0;
    result->instead = turn->instead;
    result->noted = encoded && turn_has_room(turn, result);
    if (saved && result->noted) {
        steps_begin_saving(exchange->steps);
        keeper_save_message(exchange->keeper, turn, result);
        steps_end_saving(exchange->steps);
        tell_unsaved(exchange);
    }
}

// Before that, of another answer to the message that ends at token `end` (0: it is none): the one that it had is taken
// back whatever becomes of the turn, unless that has no room. Is the message the end of what is to be saved?
static bool leave_answer(struct exchange *exchange, uint32_t end, int code)
{
    bool leaves = end && code != MOE_CONTEXT_FULL && exchange->keeper->saved;
    if (leaves)
        keeper_leave_answer(exchange->keeper, end);
    return leaves;
}

// What need not be computed. Of a conversation that the context has no room for the session may have more.
static uint32_t count_cached(const struct exchange *exchange, const struct turn *turn, const struct turn_result *result)
{
    const struct keeper *keeper = exchange->keeper;
    if (turn->position > result->context_total && keeper_has_more(keeper))
        return manifest_rows(saved_manifest(keeper->saved));
    return exchange->backend->ops->length(exchange->backend->self);
}

// What a turn finds where it begins.
struct found {
    uint32_t stopped_from; // where what was read of a message that was stopped begins
    bool left;             // the answer that is made anew was taken out of what is saved
};

// Goes to where the turn begins, if there is room for it, and saves its message.
static int begin(struct exchange *exchange, struct turn *turn, struct turn_result *result, struct found *found)
{
    struct backend_info info;
    exchange->backend->ops->describe(exchange->backend->self, &info);
    result->context_total = info.max_context;
    uint32_t end = turn->again ? turn->position + (uint32_t)turn->known.count : 0;
    int code = turn_reopen(turn, exchange->backend, &result->err);
    found->stopped_from = timeline_part_from(exchange->timeline, turn->position);
    result->asked = format_unix_time();
    code = code ? code : place(exchange, turn, result);
    bool fits = code != MOE_CONTEXT_FULL && turn_has_room(turn, result);
    if (fits) // else the message before it, which may wait for an answer, still does
        keeper_leave_message(exchange->keeper);
    // What is refused leaves the last turn's figures as they are.
    result->begun = code == 0 && fits;
    if (result->begun)
        steps_begin_turn(exchange->steps, exchange->answer.began_ns); // encoding is part of it
    else
        result->tally = steps_refuse_turn(exchange->steps);
    found->left = leave_answer(exchange, end, code);
    note_message(exchange, turn, result, code);
    result->cached_tokens = count_cached(exchange, turn, result);
    result->for_states = result->for_states || timeline_unread_for_states(exchange->timeline);
    return code;
}

// Feeds what is pending and the message, and answers.
static int feed_and_answer(struct exchange *exchange, struct turn *turn, struct turn_result *result,
                           uint32_t stopped_from)
{
    const struct backend_ops *ops = exchange->backend->ops;
    void *self = exchange->backend->self;
    uint32_t unread = timeline_unread(exchange->timeline);
    bool just_read = unread && timeline_length(exchange->timeline) == ops->length(self) + unread; // will have been
    int code = settle(exchange, result);
    if (code)
        return code;
    uint32_t there = ops->length(self), known = there < stopped_from ? there : stopped_from; // the rest: earlier tries'
    code = answer(exchange, turn, result, known, just_read);
    if (code) {
        ops->resume(self);
        leave(exchange, turn, result, code, known);
    }
    return code;
}

static void note_end(struct exchange *exchange, const struct turn *turn, struct turn_result *result, int code)
{
    result->kept = code == 0;
    if (code && code != MOE_CONTEXT_FULL)
        result->reason = code == MOE_CANCELLED ? STOP_CANCELLED : STOP_ERROR;
    else if (code)
        result->reason = STOP_CONTEXT_FULL;
    result->context_used = timeline_length(exchange->timeline);
    steps_end_turn(exchange->steps, result->context_used);
    if (result->begun) { // one that was refused has used nothing: what was fed before it is the next one's
        steps_turn_to(exchange->steps, STEPS_BETWEEN);
        result->tally = steps_tally(exchange->steps);
        result->again_tokens = turn_count_again(turn, result);
    }
    result->seconds = (double)(format_clock_ns() - exchange->answer.began_ns) / 1e9;
    turn_note_answer(turn, result);
}

// Feeds the rest of what was answered.
static void settle_rest(struct exchange *exchange)
{
    struct moe_err err; // what fails here fails again, and is reported, when the next turn begins
    if (timeline_settle(exchange->timeline, &err) != MOE_CANCELLED || !exchange->keeper->saved)
        return;
    exchange->backend->ops->resume(exchange->backend->self); // a cancel that came after the answer: what is saved has
    timeline_settle(exchange->timeline, &err);               // its end all the same
}

void exchange_take(struct exchange *exchange, struct turn *turn)
{
    const struct backend *backend = exchange->backend;
    struct keeper *keeper = exchange->keeper;
    struct turn_result *result = turn->result;
    struct found found;
    turn->result = NULL;
    exchange->answer.began_ns = format_clock_ns();
    exchange->answer.serial++;
    backend->ops->resume(backend->self);
    int code = begin(exchange, turn, result, &found);
    if (code == 0)
        code = feed_and_answer(exchange, turn, result, found.stopped_from);
    note_end(exchange, turn, result, code);
    uint32_t context = result->context_used;
    // First, as feeding the rest may take seconds where experts come from a disk: what was shown outlives the process.
    bool kept = result->kept, saved = false;
    steps_begin_saving(exchange->steps);
    if (kept && keeper->saved)
        saved = keeper_save_answer(keeper, turn, result);
    else if (found.left)
        keeper_save_text_first(keeper);
    steps_end_saving(exchange->steps);
    backend->ops->resume(backend->self); // before the face knows: what it cancels from then on is the next turn
    result->news_follow = keeper->saved != NULL;
    struct event event = {.kind = EVENT_DONE, .result = result};
    if (!queue_push(exchange->answer.text.events, &event, NULL))
        turn_result_free(result);
    // What was stopped while it was read again, or what failed, waits for the turn that needs it.
    if (!turn->only && (kept || !timeline_unread(exchange->timeline)))
        settle_rest(exchange);
    steps_end_turn(exchange->steps, context);
    if (saved)
        keeper_commit(keeper);
    else if (keeper->saved && keeper->unsaved)
        keeper_save_text(keeper);
    if (keeper->saved)
        keeper_end_turn(keeper);
}
