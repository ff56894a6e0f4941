// SPDX-License-Identifier: GPL-3.0-or-later
// The engine's thread with a script in the model's place.
#include "tests/worker_rig.h"

#include <stdlib.h>

#include "app/util/format.h"

static void text_comes_in_whole_characters(struct harness *t)
{
    struct worker *worker =
        start(t, "load 3 1\nturn\ntoken \\xe2\ntoken \\x82\ntoken \\xac!\ntoken \\xff\ntoken \\xe2\\x82\n");
    struct event event;
    struct bytes answer = {0};
    struct turn_result *result = NULL;
    await_ready(t, worker);
    post(worker, "hi", 0, 0);
    while (next_event(worker, &event) && event.kind != EVENT_DONE) {
        if (event.kind != EVENT_TEXT)
            continue;
        CHECK(t, event.text.length != 1 || (unsigned char)event.text.bytes[0] != 0xe2);
        bytes_append(&answer, event.text.bytes, event.text.length);
    }
    result = event.result;
    CHECK_STR(t, answer.data, "\xe2\x82\xac!\xff\xe2\x82"); // byte for byte, the unfinished end included
    CHECK_EQ(t, result->reason, STOP_END);
    CHECK_EQ(t, result->generated_tokens, 5);
    CHECK_EQ(t, result->answer.count, 6);
    CHECK_EQ(t, result->tally.read_tokens, 6); // begin, role, 2 bytes, end, role
    CHECK_EQ(t, result->context_used, 6 + 6);
    turn_result_free(result);
    bytes_release(&answer);
    worker_free(worker);
}

static void long_tokens_arrive_whole(struct harness *t)
{
    char script[4096];
    int size = snprintf(script, sizeof script, "turn\ntoken ");
    for (int i = 0; i < 600; i++)
        size += snprintf(script + size, sizeof script - (size_t)size, "\xe2\x82\xac");
    struct worker *worker = start(t, script);
    struct event event;
    size_t total = 0;
    await_ready(t, worker);
    post(worker, "hi", 0, 0);
    while (next_event(worker, &event) && event.kind != EVENT_DONE) {
        if (event.kind == EVENT_TEXT) {
            CHECK_EQ(t, event.text.length % 3, 0); // cut between characters
            total += event.text.length;
        }
    }
    CHECK_EQ(t, total, 1800);
    turn_result_free(event.result);
    worker_free(worker);
}

static void turns_follow_each_other(struct harness *t)
{
    struct worker *worker = start(t, "turn\ntext one two\nturn\necho\n");
    struct bytes answer = {0};
    struct figures figures = {0};
    await_ready(t, worker);
    post(worker, "a", 0, 0);
    struct turn_result *first = collect(t, worker, &answer, 0);
    post(worker, "xyz", first->context_used, 0);
    struct turn_result *second = collect(t, worker, &answer, 0);
    CHECK_STR(t, answer.data, "xyz");
    CHECK_EQ(t, second->tally.read_tokens, 6);  // no begin: role, 3 bytes, end, role
    CHECK_EQ(t, second->tally.answer_steps, 2); // from one of three to the next; the mark at the end is none
    CHECK_EQ(t, second->context_used, first->context_used + 6 + 4);
    CHECK_EQ(t, second->tally.answered_tokens, second->generated_tokens);
    worker_figures(worker, &figures);
    CHECK_EQ(t, figures.tallies[FIGURES_CONVERSATION].read_tokens, first->tally.read_tokens + 6);
    CHECK_EQ(t, figures.tallies[FIGURES_CONVERSATION].answered_tokens, 2 + 3);
    post(worker, "b", first->context_used, 0); // back to the border
    struct turn_result *third = collect(t, worker, &answer, 0);
    CHECK_EQ(t, third->context_used, first->context_used + 4 + 3);
    post(worker, "b", 9999, 0); // beyond the end
    struct turn_result *wrong = collect(t, worker, &answer, 0);
    CHECK_EQ(t, wrong->reason, STOP_ERROR);
    CHECK_EQ(t, wrong->err.code, MOE_POSITION);
    CHECK_EQ(t, wrong->context_used, third->context_used);
    turn_result_free(first);
    turn_result_free(second);
    turn_result_free(third);
    turn_result_free(wrong);
    bytes_release(&answer);
    worker_free(worker);
}

static void limits_end_an_answer(struct harness *t)
{
    struct worker *worker = start(t, "context 20\nturn\nrepeat 100 x\n");
    struct bytes answer = {0};
    await_ready(t, worker);
    post(worker, "a", 0, 4);
    struct turn_result *result = collect(t, worker, &answer, 0);
    CHECK_EQ(t, result->reason, STOP_MAX_TOKENS);
    CHECK_STR(t, answer.data, "xxxx");
    CHECK_EQ(t, result->context_used, 5 + 4 + 1);
    turn_result_free(result);
    post(worker, "a", 0, 0);
    result = collect(t, worker, &answer, 0);
    CHECK_EQ(t, result->reason, STOP_CONTEXT_FULL);
    CHECK(t, result->kept);
    CHECK_EQ(t, result->context_used, 20); // to the last row, the end of the answer included
    turn_result_free(result);
    post(worker, "a", 20, 0);
    result = collect(t, worker, &answer, 0);
    CHECK_EQ(t, result->reason, STOP_CONTEXT_FULL);
    CHECK(t, !result->kept);
    CHECK_EQ(t, result->context_used, 20);
    CHECK(t, strstr(result->err.text, "20 of 20") != NULL);
    turn_result_free(result);
    struct turn *anew = turn_new(); // a conversation that is fed again: nothing of it is used
    turn_add(anew, TOK_USER, "a long question", 15);
    turn_add(anew, TOK_ASSISTANT, "yes", 3);
    turn_add(anew, TOK_USER, "b", 1);
    worker_send(worker, anew);
    result = collect(t, worker, &answer, 0);
    CHECK_STR(t, result->err.text, "the conversation is too long now: with this message it needs 29 tokens of 20");
    CHECK(t, !result->shorter_fits);
    CHECK_EQ(t, result->context_used, 20); // what is not sent takes nothing away
    turn_result_free(result);
    post(worker, "what does not fit", 0, 0);
    result = collect(t, worker, &answer, 0);
    CHECK_STR(t, result->err.text, "the message is too long: it needs 23 tokens of 20");
    CHECK(t, result->shorter_fits);
    turn_result_free(result);
    bytes_release(&answer);
    worker_free(worker);
}

static struct moe_stats says_router(void *self)
{
    (void)self;
    return (struct moe_stats){.prefetch_policy = "router", .prefetch_reason = "as asked", .prefilled_tokens = 7};
}

static void let_prefetch_be_the_routers(struct backend *backend)
{
    static struct backend_ops ops;
    ops = *backend->ops;
    ops.stats = says_router;
    backend->ops = &ops;
}

static void a_refused_turn_knows_what_prefetch_does(struct harness *t)
{
    struct worker *worker = start_changed(t, "context 8\nturn\necho\n", let_prefetch_be_the_routers);
    struct bytes answer = {0};
    await_ready(t, worker);
    post(worker, "what does not fit", 0, 0);
    struct turn_result *result = collect(t, worker, &answer, 0);
    CHECK(t, !result->begun && result->tally.read_tokens == 0);
    CHECK_STR(t, result->tally.policy ? result->tally.policy : "not known", "router");
    CHECK_STR(t, result->tally.reason, "as asked");
    turn_result_free(result);
    bytes_release(&answer);
    worker_free(worker);
}

static int32_t no_end(void *self, bool raw)
{
    (void)self;
    (void)raw;
    return -1;
}

static void let_nothing_close_answers(struct backend *backend)
{
    static struct backend_ops ops;
    ops = *backend->ops;
    ops.end_id = no_end;
    backend->ops = &ops;
}

// As with GLM's template, where the next message's mark ends an answer: it takes the token that an end would need.
static void an_answer_that_nothing_closes_fills_the_context(struct harness *t)
{
    struct worker *worker = start_changed(t, "context 20\nturn\nrepeat 100 x\n", let_nothing_close_answers);
    struct bytes answer = {0};
    await_ready(t, worker);
    post(worker, "a", 0, 0);
    struct turn_result *result = collect(t, worker, &answer, 0);
    CHECK_EQ(t, result->reason, STOP_CONTEXT_FULL);
    CHECK_EQ(t, result->context_used, 20);
    CHECK_EQ(t, result->answer.count, 15);
    turn_result_free(result);
    for (int more = 0; more < 2; more++) {
        post(worker, more ? "0123456789abcdef" : "0123456789abcde", 0, 0);
        result = collect(t, worker, &answer, 0);
        CHECK_EQ(t, result->reason, STOP_CONTEXT_FULL);
        CHECK_EQ(t, result->kept, !more);
        CHECK_EQ(t, result->context_used, 20);
        if (!more)
            CHECK_EQ(t, result->prompt.count, 19);
        turn_result_free(result);
    }
    bytes_release(&answer);
    worker_free(worker);
}

static void cancel_keeps_what_is_there(struct harness *t)
{
    struct worker *worker = start(t, "turn\ntext one two three\nhang\nturn\nprefill 60000\nturn\necho\n");
    struct bytes answer = {0};
    struct event event = {0};
    await_ready(t, worker);
    worker_cancel(worker); // nothing to cancel: the next turn is not touched
    post(worker, "a", 0, 0);
    struct turn_result *result = collect(t, worker, &answer, 13);
    CHECK_EQ(t, result->reason, STOP_CANCELLED);
    CHECK(t, result->kept);
    CHECK_STR(t, answer.data, "one two three");
    CHECK_EQ(t, result->context_used, 5 + 3 + 1);
    uint32_t kept = result->context_used;
    turn_result_free(result);
    post(worker, "c", kept, 0);
    while (next_event(worker, &event) && event.kind != EVENT_DONE)
        worker_cancel(worker); // at the first progress: while the prompt is read
    CHECK_EQ(t, event.result->reason, STOP_CANCELLED);
    CHECK(t, !event.result->kept);
    CHECK_EQ(t, event.result->context_used, kept);
    turn_result_free(event.result);
    post(worker, "d", kept, 0);
    result = collect(t, worker, &answer, 0);
    CHECK_EQ(t, result->reason, STOP_END);
    CHECK_EQ(t, result->context_used, kept + 4 + 2);
    turn_result_free(result);
    bytes_release(&answer);
    worker_free(worker);
}

// Cancels while the prompt is read, once some of it was.
static struct turn_result *stop_reading(struct harness *t, struct worker *worker, const char *text)
{
    struct event event = {0};
    post(worker, text, 0, 0);
    while (next_event(worker, &event) && event.kind != EVENT_DONE)
        if (event.kind == EVENT_PROGRESS && event.progress.done >= 32)
            worker_cancel(worker);
    CHECK_EQ(t, event.result->reason, STOP_CANCELLED);
    CHECK(t, !event.result->kept && event.result->context_used == 0);
    CHECK(t, event.result->read_tokens >= 32 && event.result->read_tokens < event.result->prompt.count);
    return event.result;
}

// What was read of a prompt that was stopped is not read again by one that begins alike; by others it is forgotten.
static void a_stopped_prompt_goes_on(struct harness *t)
{
    struct worker *worker =
        start(t, "turn\nprefill 40\nturn\necho\nturn\nprefill 40\nturn\necho\nturn\nprefill 40\nturn\necho\n");
    struct bytes answer = {0};
    char text[200], other[200];
    await_ready(t, worker);
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    memcpy(other, text, sizeof text);
    other[20] = 'y';
    for (int i = 0; i < 3; i++) { // the same again; one that differs after 20 letters; from the first on
        struct turn_result *stopped = stop_reading(t, worker, text);
        const char *then = i == 0 ? text : i == 1 ? other : other + 20;
        post(worker, then, 0, 0);
        struct turn_result *result = collect(t, worker, &answer, 0);
        CHECK_EQ(t, result->reason, STOP_END);
        CHECK_STR(t, answer.data, then);
        uint32_t begins = 2; // the marks before the text
        CHECK_EQ(t, result->cached_tokens, i == 0 ? stopped->read_tokens : i == 1 ? begins + 20 : begins);
        CHECK_EQ(t, result->tally.read_tokens, result->prompt.count - result->cached_tokens);
        turn_result_free(stopped);
        turn_result_free(result);
    }
    bytes_release(&answer);
    worker_free(worker);
}

// Stopped again and again, before anything more of it was read: what the first try has read stays, and each try's
// progress and figures are of the whole prompt.
static void a_stop_at_once_keeps_what_was_read(struct harness *t)
{
    struct worker *worker = start(t, "turn\ntext yes\nturn\nprefill 40\nturn\nprefill 40\nturn\nprefill 40\n"
                                     "turn\nprefill 40\nturn\necho\n");
    struct bytes answer = {0};
    struct event event = {0};
    char text[200];
    await_ready(t, worker);
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    post(worker, "first", 0, 0);
    struct turn_result *result = collect(t, worker, &answer, 0);
    uint32_t position = result->context_used, read = 0, whole = 0;
    turn_result_free(result);
    for (int i = 0; i < 4; i++) {
        bool begun = false;
        post(worker, text, position, 0);
        while (next_event(worker, &event) && event.kind != EVENT_DONE) {
            if (event.kind != EVENT_PROGRESS)
                continue;
            CHECK(t, i == 0 || event.progress.total == whole);
            CHECK(t, begun || event.progress.done >= read);
            whole = (uint32_t)event.progress.total;
            begun = true;
            if (i > 0 || event.progress.done >= 64)
                worker_cancel(worker);
        }
        CHECK(t, begun && event.result->reason == STOP_CANCELLED && !event.result->kept);
        CHECK_EQ(t, event.result->context_used, position);
        CHECK_EQ(t, event.result->to_read, whole);
        CHECK(t, event.result->read_tokens >= 64 && event.result->read_tokens >= read);
        read = event.result->read_tokens;
        turn_result_free(event.result);
    }
    post(worker, text, position, 0);
    result = collect(t, worker, &answer, 0);
    CHECK(t, result->kept && result->to_read == 0);
    CHECK_EQ(t, result->cached_tokens, position + read);
    CHECK_EQ(t, result->tally.read_tokens, whole - read);
    turn_result_free(result);
    bytes_release(&answer);
    worker_free(worker);
}

static struct turn_result *go_on(struct harness *t, struct worker *worker, uint32_t position, const char *text,
                                 struct bytes *answer)
{
    post(worker, text, position, 0);
    return collect(t, worker, answer, 0);
}

static struct turn_result *stop_later(struct harness *t, struct worker *worker, uint32_t position, const char *text)
{
    struct event event = {0};
    post(worker, text, position, 0);
    while (next_event(worker, &event) && event.kind != EVENT_DONE)
        if (event.kind == EVENT_PROGRESS && event.progress.done >= 32)
            worker_cancel(worker);
    CHECK(t, event.result->reason == STOP_CANCELLED && event.result->read_tokens >= 32);
    return event.result;
}

// Under another name a conversation goes on where a message was stopped; gone elsewhere it does not, and says so.
static void a_part_stays_under_another_name(struct harness *t)
{
    struct worker *worker = start(t, "turn\ntext yes\nturn\nprefill 40\nturn\necho\nturn\nprefill 40\n");
    struct bytes answer = {0};
    struct store store;
    struct store_error error;
    struct worker_session session = {.saved = NULL};
    struct event event = {0};
    char root[64] = "/tmp/moechat-worker-XXXXXX", text[200];
    CHECK(t, mkdtemp(root) && store_init(&store, root));
    await_ready(t, worker);
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    struct turn_result *first = go_on(t, worker, 0, "first", &answer);
    uint32_t position = first->context_used;
    struct turn_result *stopped = stop_later(t, worker, position, text);
    CHECK_EQ(t, saved_new(&store, "fork", &session.saved, &error), STORE_OK);
    session.keep = position;
    worker_open_session(worker, session);
    while (next_event(worker, &event) && event.kind != EVENT_SESSION)
        event_release(&event);
    struct turn_result *result = go_on(t, worker, position, text, &answer);
    CHECK_EQ(t, result->cached_tokens, position + stopped->read_tokens);
    turn_result_free(stopped);
    position = result->context_used;
    turn_result_free(result);
    stopped = stop_later(t, worker, position, text);
    struct worker_place place = {.last = PART_NONE};
    struct tok_err err;
    for (size_t i = 0; i < first->prompt.count; i++)
        tok_ids_append(&place.ids, first->prompt.ids[i], &err);
    worker_close_session(worker);
    worker_go(worker, place);
    for (int i = 0; i < 3; i++) // behind the turn's and the close's
        while (next_event(worker, &event) && event.kind != EVENT_SESSION)
            event_release(&event);
    CHECK(t, strstr(event.session.text, "What was read of the message that was stopped, ") != NULL);
    turn_result_free(stopped);
    turn_result_free(first);
    bytes_release(&answer);
    worker_free(worker);
    store_remove(&store, "fork", &error);
    char path[80];
    snprintf(path, sizeof path, "%s/sessions", root);
    rmdir(path);
    rmdir(root);
}

static void append_ids(struct tok_ids *list, const struct tok_ids *more)
{
    struct tok_err err;
    for (size_t i = 0; i < more->count; i++)
        tok_ids_append(list, more->ids[i], &err);
}

// Back to so many of the tokens that were fed, of which the last may be a message that nobody answered.
static struct session_news go_to(struct worker *worker, const struct tok_ids *fed, uint32_t position,
                                 uint32_t unanswered)
{
    struct event event = {0};
    struct worker_place place = {.last = PART_NONE, .unanswered = unanswered};
    append_ids(&place.ids, fed);
    place.ids.count = position;
    worker_go(worker, place);
    while (next_event(worker, &event) && event.kind != EVENT_SESSION)
        event_release(&event);
    return event.session;
}

static struct session_news cut_to(struct worker *worker, const struct tok_ids *fed, uint32_t position)
{
    return go_to(worker, fed, position, 0);
}

// The message that ends `fed` is answered, after it was read, `again` or for the first time: which is stopped once so
// much more was.
static struct turn_result *stop_reading_again(struct harness *t, struct worker *worker, const struct tok_ids *fed,
                                              uint32_t message, bool again)
{
    struct event event = {0};
    struct turn *turn = turn_new();
    turn->again = true;
    turn->position = (uint32_t)fed->count;
    turn->last_id = fed->ids[fed->count - 1];
    turn->unanswered = message;
    worker_send(worker, turn);
    uint64_t from = UINT64_MAX;
    while (next_event(worker, &event) && event.kind != EVENT_DONE) {
        if (event.kind != EVENT_PROGRESS)
            continue;
        CHECK_STR(t, event.progress.what, again ? "reading again" : "reading prompt");
        from = event.progress.done < from ? event.progress.done : from;
        if (event.progress.done >= from + 32)
            worker_cancel(worker);
    }
    CHECK(t, event.result->reason == STOP_CANCELLED && event.result->rereading == again);
    return event.result;
}

// What is read again of a message that was resumed, and stopped, is as good as what is read of one when it is sent:
// it outlasts that the message is taken back, and brought back, and is changed behind what was read.
static void what_is_read_again_stays_while_it_is_taken_back(struct harness *t)
{
    static const char *const scripts[] = {
        "turn\ntext yes\nturn\nprefill 40\nturn\nprefill 40\nturn\nprefill 40\nturn\necho\n",
        "states 1000\nturn\ntext yes\nturn\nprefill 40\nturn\nprefill 40\nturn\nprefill 40\nturn\necho\n"};
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        struct worker *worker = start(t, scripts[i]);
        struct bytes answer = {0};
        struct tok_ids fed = {0};
        char text[300];
        await_ready(t, worker);
        memset(text, 'x', sizeof text);
        text[sizeof text - 1] = 0;
        struct turn_result *first = go_on(t, worker, 0, "first", &answer);
        uint32_t position = first->context_used;
        append_ids(&fed, &first->prompt);
        append_ids(&fed, &first->answer);
        CHECK_EQ(t, fed.count, position);
        struct turn_result *stopped = stop_later(t, worker, position, text);
        append_ids(&fed, &stopped->prompt);
        uint32_t message = (uint32_t)stopped->prompt.count, whole = position + message, read = 0;
        turn_result_free(stopped);
        cut_to(worker, &fed, position - 1); // elsewhere, so that nothing of it stays
        cut_to(worker, &fed, whole);        // as it is in a session that has no rows of it
        for (int n = 0; n < 2; n++) {
            stopped = stop_reading_again(t, worker, &fed, message, n == 0);
            CHECK(t, stopped->read_tokens >= read + 32 && stopped->to_read >= message);
            read = stopped->read_tokens;
            uint32_t left = stopped->to_read - read;
            turn_result_free(stopped);
            CHECK_STR(t, cut_to(worker, &fed, position).text, "");
            CHECK_EQ(t, go_to(worker, &fed, whole, message).missing, left); // which nobody has read yet
        }
        cut_to(worker, &fed, position);
        text[290] = 'y';
        struct turn_result *result = go_on(t, worker, position, text, &answer);
        CHECK_STR(t, answer.data, text);
        CHECK(t, result->kept && result->cached_tokens >= position + read - 8); // what is before it was read, too
        turn_result_free(result);
        turn_result_free(first);
        tok_ids_release(&fed);
        bytes_release(&answer);
        worker_free(worker);
    }
}

// A model whose layers have states stands at borders: undo and retry read nothing again, and a cut in between reads
// what is missing and says how much.
static void states_stand_at_borders(struct harness *t)
{
    struct worker *worker = start(t, "states 1000\nturn\ntext one two three\n");
    struct bytes answer = {0};
    struct tok_ids fed = {0};
    uint32_t ends[4] = {0}, prompts[4];
    await_ready(t, worker);
    for (int i = 1; i < 4; i++) {
        struct turn_result *result = go_on(t, worker, ends[i - 1], "and then?", &answer);
        CHECK_EQ(t, result->replayed_tokens, 0);
        CHECK_EQ(t, result->cached_tokens, i == 1 ? 0 : ends[i - 1]); // with the id that closes the answer
        prompts[i] = ends[i - 1] + (uint32_t)result->prompt.count;
        ends[i] = prompts[i] + (uint32_t)result->answer.count;
        append_ids(&fed, &result->prompt);
        append_ids(&fed, &result->answer);
        turn_result_free(result);
    }
    CHECK_STR(t, cut_to(worker, &fed, ends[1]).text, ""); // undo two
    struct turn_result *result = go_on(t, worker, ends[1], "really?", &answer);
    CHECK(t, result->replayed_tokens == 0 && !result->for_states && result->cached_tokens == ends[1]);
    CHECK_EQ(t, result->tally.read_tokens, result->prompt.count);
    turn_result_free(result);
    CHECK_STR(t, cut_to(worker, &fed, prompts[1] + 2).text, // in an answer
              "The layers' states were kept only further back; your next message reads 2 of its 15 tokens again.");
    tok_ids_release(&fed);
    result = go_on(t, worker, prompts[1] + 2, "what?", &answer);
    CHECK_EQ(t, result->cached_tokens, prompts[1]);
    CHECK_EQ(t, result->tally.read_tokens, result->prompt.count + 2);
    CHECK_EQ(t, result->again_tokens, 2); // as it was announced
    CHECK(t, result->for_states);
    turn_result_free(result);
    result = go_on(t, worker, prompts[1] - 1, "no, this", &answer); // at once, within a prompt
    CHECK_EQ(t, result->cached_tokens, 0);
    CHECK_EQ(t, result->replayed_tokens, prompts[1] - 1);
    CHECK_EQ(t, result->again_tokens, prompts[1] - 1);
    CHECK(t, result->for_states);
    CHECK_EQ(t, result->tally.read_tokens, result->prompt.count + prompts[1] - 1);
    uint32_t end = prompts[1] - 1 + (uint32_t)result->prompt.count;
    int32_t last_id = result->prompt.ids[result->prompt.count - 1];
    turn_result_free(result);
    struct turn *again = turn_new(); // retry
    again->position = end;
    again->again = true;
    again->last_id = last_id;
    worker_send(worker, again);
    result = collect(t, worker, &answer, 0);
    CHECK(t, result->reason == STOP_END && result->replayed_tokens == 0 && result->tally.read_tokens == 0);
    turn_result_free(result);
    bytes_release(&answer);
    worker_free(worker);
}

static void a_cancel_is_never_lost(struct harness *t)
{
    struct worker *worker = start(t, "turn\nprefill 60000\n");
    struct bytes answer = {0};
    await_ready(t, worker);
    for (int i = 0; i < 60; i++) {
        post(worker, "a", 0, 0);
        if (i % 3)
            pause_us((i % 7) * 100);
        worker_cancel(worker);
        struct turn_result *result = collect(t, worker, &answer, 0);
        if (!CHECK(t, result && result->reason == STOP_CANCELLED && !result->kept))
            break;
        turn_result_free(result);
    }
    bytes_release(&answer);
    worker_free(worker);
}

// After a failed turn the next message is answered.
static void answers_again(struct harness *t, struct worker *worker, uint32_t border)
{
    struct bytes answer = {0};
    post(worker, "again", border, 0);
    struct turn_result *result = collect(t, worker, &answer, 0);
    CHECK_EQ(t, result->reason, STOP_END);
    CHECK_STR(t, answer.data, "again");
    turn_result_free(result);
    bytes_release(&answer);
}

static void an_error_leaves_the_timeline(struct harness *t)
{
    struct worker *worker = start(t, "turn\ntext fine\nturn\nerror layer 3, expert 7: read failed\nturn\necho\n");
    struct bytes answer = {0};
    await_ready(t, worker);
    post(worker, "a", 0, 0);
    struct turn_result *result = collect(t, worker, &answer, 0);
    uint32_t border = result->context_used;
    turn_result_free(result);
    post(worker, "b", border, 0);
    result = collect(t, worker, &answer, 0);
    CHECK_EQ(t, result->reason, STOP_ERROR);
    CHECK_EQ(t, result->err.code, MOE_IO);
    CHECK_STR(t, result->err.text, "layer 3, expert 7: read failed");
    CHECK(t, !result->kept);
    CHECK_EQ(t, result->context_used, border);
    turn_result_free(result);
    answers_again(t, worker, border);
    bytes_release(&answer);
    worker_free(worker);
}

// What was on the screen is part of the conversation, closed as a stopped answer is.
static void an_error_in_mid_answer_keeps_what_it_said(struct harness *t)
{
    struct worker *worker = start(t, "turn\ntext one\nerror layer 3, expert 7: read failed\n"
                                     "error still\nerror and still\nturn\necho\n");
    struct bytes answer = {0};
    await_ready(t, worker);
    post(worker, "a", 0, 0);
    struct turn_result *result = collect(t, worker, &answer, 0);
    CHECK_EQ(t, result->reason, STOP_ERROR);
    CHECK_STR(t, result->err.text, "layer 3, expert 7: read failed");
    CHECK(t, result->kept);
    CHECK_STR(t, result->text.data, "one");
    CHECK_EQ(t, result->answer.count, 2); // with what closes it
    CHECK_EQ(t, result->context_used, result->prompt.count + 2);
    uint32_t border = result->context_used;
    turn_result_free(result);
    post(worker, "again", border, 0); // as long as the rest of it can't be fed, that is said, and it stays
    result = collect(t, worker, &answer, 0);
    CHECK_EQ(t, result->reason, STOP_ERROR);
    CHECK_STR(t, result->err.text, "and still");
    CHECK(t, !result->kept);
    CHECK_EQ(t, result->context_used, border);
    turn_result_free(result);
    answers_again(t, worker, border);
    bytes_release(&answer);
    worker_free(worker);
}

// A cancel has its end with the answer it ended: what follows in the same turn is done, and is not the next one's.
static void a_cancel_ends_with_its_answer(struct harness *t)
{
    struct worker *worker = start(t, "turn\ntext one two three\nhang\nturn\necho\n");
    struct bytes answer = {0};
    await_ready(t, worker);
    post(worker, "a", 0, 0);
    struct turn_result *first = collect(t, worker, &answer, 13);
    CHECK_EQ(t, first->reason, STOP_CANCELLED);
    post(worker, "xyz", first->context_used, 0);
    struct turn_result *second = collect(t, worker, &answer, 0);
    CHECK_STR(t, answer.data, "xyz");
    CHECK_EQ(t, second->cached_tokens, first->context_used); // the first answer's end was fed before
    turn_result_free(first);
    turn_result_free(second);
    bytes_release(&answer);
    worker_free(worker);
}

static void leaving_never_waits_for_readers(struct harness *t)
{
    // More text than the queue holds, and nobody reads it: the answer stands still before its last third.
    struct worker *worker = start(t, "turn\nrepeat 5000 x\nhang\n");
    await_ready(t, worker);
    post(worker, "a", 0, 0);
    struct figures figures;
    uint64_t said = 0, before = 1;
    while (said == 0 || said != before) {
        before = said;
        pause_us(50000);
        worker_figures(worker, &figures);
        said = figures.tallies[FIGURES_CONVERSATION].answered_tokens;
    }
    CHECK(t, said < 4000);
    uint64_t began = format_clock_ns();
    worker_free(worker);
    CHECK(t, format_clock_ns() - began < 5000000000u);
    worker = start(t, "load-error no such weights\n");
    struct event event = {0};
    CHECK(t, next_event(worker, &event));
    CHECK_EQ(t, event.kind, EVENT_FAILED);
    CHECK_STR(t, event.failed.text, "no such weights");
    worker_free(worker);
}

// Of an answer that thought, the rows stay as far as its new ids are the same: up to the beginning of its thinking.
static void thinking_is_told_apart_and_left_out(struct harness *t)
{
    struct worker *worker =
        start(t, "thinks\nturn\ntoken <thi\ntoken nk>\\nhm <\ntoken /think>\\n\\nyes\nturn\ntext no\n");
    struct event event;
    struct bytes thought = {0}, said = {0};
    uint32_t tokens[2] = {0};
    await_ready(t, worker);
    post(worker, "sum?", 0, 0);
    while (next_event(worker, &event) && event.kind != EVENT_DONE)
        if (event.kind == EVENT_TEXT) {
            bytes_append(event.text.thinking ? &thought : &said, event.text.bytes, event.text.length);
            tokens[event.text.thinking] += event.text.tokens;
        }
    CHECK(t, tokens[true] == 2 && tokens[false] == 1); // each counts once, those of the marks and without text, too
    CHECK_STR(t, thought.data, "hm ");
    CHECK_STR(t, said.data, "yes");
    CHECK_STR(t, event.result->text.data, "<think>\nhm </think>\n\nyes");
    struct turn *turn = turn_new();
    struct tok_err err;
    for (size_t i = 0; i < event.result->prompt.count; i++)
        tok_ids_append(&turn->known, event.result->prompt.ids[i], &err);
    for (size_t i = 0; i < event.result->answer.count; i++)
        tok_ids_append(&turn->known, event.result->answer.ids[i], &err);
    turn_add(turn, TOK_USER, "sum?", 4);
    turn_add(turn, TOK_ASSISTANT, event.result->text.data, event.result->text.length);
    turn_add(turn, TOK_USER, "and?", 4);
    turn_result_free(event.result);
    worker_send(worker, turn);
    struct turn_result *second = collect(t, worker, &said, 0);
    CHECK_EQ(t, second->cached_tokens, 1 + 6 + 1); // begin, the message, the role of the answer
    CHECK_EQ(t, second->reread_tokens, 5 + 1);     // "\n\nyes" and its end
    CHECK_EQ(t, second->again_tokens, 5 + 1);
    CHECK_EQ(t, second->tally.read_tokens, 6 + 6 + 1); // those, the message, the role
    CHECK_EQ(t, second->context_used, 8 + 13 + 2);
    turn_result_free(second);
    bytes_release(&thought);
    bytes_release(&said);
    worker_free(worker);
}

// The first exchange with a model that thinks.
static struct turn_result *think_first(struct harness *t, struct worker *worker, struct bytes *said)
{
    struct turn *turn = turn_new();
    turn->think = THINK_ON;
    turn_add(turn, TOK_USER, "sum?", 4);
    worker_send(worker, turn);
    return collect(t, worker, said, 0);
}

// An exchange that is fed anew without its thinking, and "and?" behind it, which `known` are there of.
static void post_anew(struct worker *worker, const struct turn_result *first, const struct tok_ids *known)
{
    struct turn *turn = turn_new();
    turn->think = THINK_ON;
    append_ids(&turn->known, known);
    turn_add(turn, TOK_USER, "sum?", 4);
    turn_add(turn, TOK_ASSISTANT, first->text.data, first->text.length);
    turn_add(turn, TOK_USER, "and?", 4);
    worker_send(worker, turn);
}

// Where thinking that the prompt opened is left out later, states are kept before it: nothing else is read again.
static void states_stand_before_the_thinking(struct harness *t)
{
    struct worker *worker = start(t, "thinks\nstates 1000\nturn\ntoken hm</think>yes\n");
    struct bytes said = {0};
    await_ready(t, worker);
    struct turn_result *first = think_first(t, worker, &said);
    CHECK_STR(t, first->text.data, "<think>hm</think>yes");
    post_anew(worker, first, &first->prompt);
    struct turn_result *second = collect(t, worker, &said, 0);
    CHECK_EQ(t, second->replayed_tokens, 0);
    CHECK_EQ(t, second->cached_tokens, first->prompt.count - 7); // bytes of <think>
    CHECK_EQ(t, second->tally.read_tokens, second->prompt.count - second->cached_tokens);
    struct tok_ids fed = {0}; // and behind the answer without it: who takes "and?" back stands there
    append_ids(&fed, &second->prompt);
    CHECK_STR(t, cut_to(worker, &fed, (uint32_t)second->prompt_ends[1]).text, "");
    struct turn_result *third = go_on(t, worker, (uint32_t)second->prompt_ends[1], "or?", &said);
    CHECK_EQ(t, third->replayed_tokens, 0);
    CHECK_EQ(t, third->tally.read_tokens, third->prompt.count);
    turn_result_free(third);
    tok_ids_release(&fed);
    turn_result_free(first);
    turn_result_free(second);
    bytes_release(&said);
    worker_free(worker);
}

// Stopped before any of the message was read, it stands where it stood: what of the exchange before is fed as it was is
// there, though the chat, which knows it no more, does not say so, and what the engine holds of a group is good behind
// that alone.
static void a_stop_keeps_what_was_there_before(struct harness *t)
{
    static const char *const scripts[] = {"thinks\nturn\ntoken hm</think>yes\nturn\nprefill 60000\nturn\necho\n",
                                          "thinks\nstates 1000\nturn\ntoken hm</think>yes\nturn\nprefill 60000\n"
                                          "turn\necho\n"};
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        struct worker *worker = start(t, scripts[i]);
        struct bytes said = {0};
        struct event event = {0};
        await_ready(t, worker);
        struct turn_result *first = think_first(t, worker, &said);
        post_anew(worker, first, &first->prompt);
        while (next_event(worker, &event) && event.kind != EVENT_DONE)
            if (event.kind == EVENT_PROGRESS)
                worker_cancel(worker);
        uint32_t there = (uint32_t)first->prompt.count - (i ? 7 : 0); // with states the prompt opens it: <think>
        CHECK_EQ(t, event.result->reason, STOP_CANCELLED);
        CHECK_EQ(t, event.result->context_used, there);
        uint32_t to_read = event.result->to_read;
        turn_result_free(event.result);
        post_anew(worker, first, &(struct tok_ids){0});
        struct turn_result *again = collect(t, worker, &said, 0);
        CHECK(t, again->kept && again->cached_tokens == there);
        CHECK_EQ(t, again->tally.read_tokens, to_read);
        turn_result_free(again);
        turn_result_free(first);
        bytes_release(&said);
        worker_free(worker);
    }
}

// The end of an answer is fed after the turn has been reported: it changes nothing of what was said of the turn.
// Another conversation has nothing of the one before.
static void figures_are_those_of_their_turn(struct harness *t)
{
    struct worker *worker = start(t, "experts 2 8 2\nturn\ntext one two three\n");
    struct bytes answer = {0};
    struct figures figures = {0};
    uint64_t steps = 0;
    await_ready(t, worker);
    post(worker, "hi", 0, 0);
    struct turn_result *result = collect(t, worker, &answer, 0);
    for (int tries = 0; tries < 2000 && steps < 4; tries++) {
        pause_us(1000);
        steps = worker_figures(worker, &figures) ? 3 + figures.sums[FIGURES_NEXT]->step : 0;
    }
    CHECK_EQ(t, steps, 4);
    if (CHECK(t, figures.last != NULL)) {
        const struct tally *turn = &figures.tallies[FIGURES_TURN], *all = &figures.tallies[FIGURES_CONVERSATION];
        CHECK_EQ(t, figures.sums[FIGURES_TURN]->step, 3);
        CHECK(t, turn->answered_tokens == 3 && turn->answer_steps == 2 && all->answered_tokens == 3);
        CHECK(t, turn->read_tokens == 6 && turn->read_tokens == result->tally.read_tokens);
        CHECK(t, turn->hits == result->tally.hits && turn->misses == result->tally.misses);
        CHECK(t, turn->bytes_read == result->tally.bytes_read && turn->bytes_read == all->bytes_read);
        CHECK(t, turn->hits + turn->misses == 3 * 4 && all->hits + all->misses == 3 * 4);
        CHECK_EQ(t, figures.context, result->context_used);
    }
    worker_begin_conversation(worker);
    worker_figures(worker, &figures); // at once
    CHECK(t, figures.tallies[FIGURES_CONVERSATION].hits == 0 && figures.tallies[FIGURES_TURN].read_tokens == 0);
    CHECK(t, figures.sums[FIGURES_TURN]->step == 0 && figures.tallies[FIGURES_PROGRAM].answered_tokens == 3);
    struct step_token token;
    uint32_t count;
    CHECK(t, !worker_inspect(worker, 1, &token, &count) && count == 0 && worker_hits_with(worker, 8) < 0);
    turn_result_free(result);
    figures_release(&figures);
    bytes_release(&answer);
    worker_free(worker);
}

// A backend that takes its time before it knows a prompt's tokens.
static struct {
    struct backend_ops ops;
    int (*encode)(void *self, const struct backend_prompt *prompt, struct tok_ids *ids, size_t *ends,
                  struct moe_err *err);
} slow;

static int encode_slowly(void *self, const struct backend_prompt *prompt, struct tok_ids *ids, size_t *ends,
                         struct moe_err *err)
{
    pause_us(100000);
    return slow.encode(self, prompt, ids, ends, err);
}

static void make_slow(struct backend *backend)
{
    slow.ops = *backend->ops;
    slow.encode = slow.ops.encode;
    slow.ops.encode = encode_slowly;
    backend->ops = &slow.ops;
}

static uint64_t all_uses(const struct figures *figures)
{
    uint64_t uses = 0;
    for (size_t i = 0; figures->last && i < (size_t)figures->last->n_moe_layers * figures->last->n_routed_experts; i++)
        uses += figures->heat[i];
    return uses;
}

// All figures are of a turn as soon as it is sent, whatever the worker does before it comes to it: with what the end of
// the answer before took, and where that used experts. A turn that is refused leaves those of the last one.
static void a_turn_begins_when_it_is_sent(struct harness *t)
{
    struct worker *worker = start_changed(t, "experts 2 8 2\nturn\ntext one two three\n", make_slow);
    struct bytes answer = {0};
    struct figures figures = {0};
    uint64_t between = 0;
    await_ready(t, worker);
    post(worker, "hi", 0, 0);
    struct turn_result *result = collect(t, worker, &answer, 0);
    uint32_t used = result->context_used;
    turn_result_free(result);
    for (int tries = 0; tries < 2000 && !between; tries++) {
        pause_us(1000);
        between = worker_figures(worker, &figures) ? figures.sums[FIGURES_NEXT]->step : 0;
    }
    const struct tally *turn = &figures.tallies[FIGURES_TURN];
    CHECK(t, between == 1 && turn->answered_tokens == 3 && all_uses(&figures) == 3 * 4);
    post(worker, "hi", used, 0);
    if (CHECK(t, worker_figures(worker, &figures))) {
        CHECK(t, turn->answered_tokens == 0 && turn->answer_steps == 0 && !figures.last_is_now);
        CHECK(t, turn->hits + turn->misses == 4 && figures.sums[FIGURES_TURN]->step == 1);
        CHECK_EQ(t, all_uses(&figures), 4);
    }
    turn_result_free(collect(t, worker, &answer, 0));
    post(worker, "hi", 1000000, 0);
    worker_figures(worker, &figures);
    CHECK_EQ(t, turn->answered_tokens, 0);
    result = collect(t, worker, &answer, 0);
    worker_figures(worker, &figures);
    CHECK(t, !result->begun && turn->answered_tokens > 0);
    turn_result_free(result);
    figures_release(&figures);
    bytes_release(&answer);
    worker_free(worker);
}

// What is behind a stop string is neither seen nor kept, as text, tokens or rows, wherever tokens begin and end.
static void a_stop_string_ends_the_answer(struct harness *t)
{
    struct worker *worker = start(t, "turn\ntoken Hel\ntoken lo E\ntoken N\ntoken D x\ntoken more\nturn\necho\n");
    struct bytes answer = {0}, tokens = {0};
    struct event event;
    await_ready(t, worker);
    struct turn *turn = turn_new();
    turn_add(turn, TOK_USER, "a", 1);
    turn->tokens = true;
    turn->sampling.stop = (struct texts){"xx,END"};
    worker_send(worker, turn);
    int n_tokens = 0;
    while (next_event(worker, &event) && event.kind != EVENT_DONE) {
        if (event.kind == EVENT_TEXT)
            bytes_append(&answer, event.text.bytes, event.text.length);
        if (event.kind == EVENT_TOKEN && ++n_tokens)
            bytes_append(&tokens, event.token.bytes, event.token.length);
        event_release(&event);
    }
    struct turn_result *result = event.result;
    CHECK_EQ(t, result->reason, STOP_TEXT);
    CHECK_STR(t, answer.data, "Hello ");
    CHECK_STR(t, tokens.data, "Hello ");
    CHECK_STR(t, result->text.data, "Hello ");
    CHECK_EQ(t, result->text.length, 6);
    CHECK_EQ(t, n_tokens, 4); // each has its event, though its text has gone
    CHECK_EQ(t, result->generated_tokens, 4);
    CHECK_EQ(t, result->answer.count, 1 + 3 + 1); // "Hel", l, o, a space, the end
    CHECK_EQ(t, result->context_used, 5 + 5);
    uint32_t position = result->context_used;
    turn_result_free(result);
    post(worker, "b", position, 0);
    result = collect(t, worker, &answer, 0);
    CHECK_EQ(t, result->context_used, position + 4 + 2);
    CHECK_EQ(t, result->cached_tokens, position);
    turn_result_free(result);
    bytes_release(&answer);
    bytes_release(&tokens);
    worker_free(worker);
}

// A backend whose texts are cancelled twice while it encodes what is left of an answer.
static struct {
    struct backend_ops ops;
    int (*encode)(void *self, const struct backend_prompt *prompt, struct tok_ids *ids, size_t *ends,
                  struct moe_err *err);
    int cancels;
} hasty;

static int encode_hastily(void *self, const struct backend_prompt *prompt, struct tok_ids *ids, size_t *ends,
                          struct moe_err *err)
{
    if (prompt->raw && hasty.cancels-- > 0)
        return backend_fail(err, MOE_CANCELLED, "cancelled");
    return hasty.encode(self, prompt, ids, ends, err);
}

static void make_hasty(struct backend *backend)
{
    hasty.ops = *backend->ops;
    hasty.encode = hasty.ops.encode;
    hasty.ops.encode = encode_hastily;
    hasty.cancels = 2;
    backend->ops = &hasty.ops;
}

static void what_a_stop_string_ended_outlives_a_cancel(struct harness *t)
{
    struct worker *worker = start_changed(t, "turn\ntoken Hel\ntoken lo END x\n", make_hasty);
    struct bytes answer = {0};
    await_ready(t, worker);
    struct turn *turn = turn_new();
    turn_add(turn, TOK_USER, "a", 1);
    turn->sampling.stop = (struct texts){"END"};
    worker_send(worker, turn);
    struct turn_result *result = collect(t, worker, &answer, 0);
    CHECK(t, result->kept && result->reason == STOP_TEXT && hasty.cancels < 0);
    CHECK_STR(t, result->text.data, "Hello ");
    CHECK_EQ(t, result->answer.count, 1 + 3 + 1);
    turn_result_free(result);
    bytes_release(&answer);
    worker_free(worker);
}

// A token is told as soon as nothing of it can be the beginning of a stop string any more.
static void tokens_are_told_when_they_are_out(struct harness *t)
{
    struct worker *worker = start(t, "turn\ntoken a\ntoken bE\ntoken Nd\ntoken e\n");
    struct event event;
    char order[64] = "";
    await_ready(t, worker);
    struct turn *turn = turn_new();
    turn_add(turn, TOK_USER, "a", 1);
    turn->tokens = true;
    turn->sampling.stop = (struct texts){"END"};
    worker_send(worker, turn);
    while (next_event(worker, &event) && event.kind != EVENT_DONE) {
        size_t used = strlen(order);
        bool said = event.kind == EVENT_TEXT;
        if (said || event.kind == EVENT_TOKEN)
            snprintf(order + used, sizeof order - used, said ? "%.*s " : "[%.*s] ",
                     (int)(said ? event.text.length : event.token.length), said ? event.text.bytes : event.token.bytes);
        event_release(&event);
    }
    CHECK_STR(t, order, "a [a] b ENd [bE] [Nd] e [e] ");
    turn_result_free(event.result);
    worker_free(worker);
}

static void there_is_nothing_to_answer_before_a_message(struct harness *t)
{
    struct worker *worker = start(t, "turn\necho\n");
    struct bytes answer = {0};
    await_ready(t, worker);
    struct turn *turn = turn_new();
    turn->again = true;
    worker_send(worker, turn);
    struct turn_result *result = collect(t, worker, &answer, 0);
    CHECK(t, result->reason == STOP_ERROR && result->context_used == 0);
    CHECK_STR(t, result->err.text, "no message to answer");
    turn_result_free(result);
    post(worker, "hi", 0, 0); // and it goes on
    turn_result_free(collect(t, worker, &answer, 0));
    CHECK_STR(t, answer.data, "hi");
    bytes_release(&answer);
    worker_free(worker);
}

// What may become a stop string and does not is said after all; thinking is not looked at.
static void a_stop_string_may_not_come(struct harness *t)
{
    struct worker *worker =
        start(t, "thinks\nturn\ntoken <think>END\ntoken </think>\ntoken so EN\nturn\ntoken E\ntoken ND\n");
    struct bytes answer = {0};
    await_ready(t, worker);
    for (int i = 0; i < 2; i++) {
        struct turn *turn = turn_new();
        turn_add(turn, TOK_USER, "a", 1);
        turn->sampling.stop = (struct texts){"END"};
        worker_send(worker, turn);
        struct turn_result *result = collect(t, worker, &answer, 0);
        CHECK_EQ(t, result->reason, i == 0 ? STOP_END : STOP_TEXT);
        CHECK_STR(t, answer.data, i == 0 ? "ENDso EN" : "");
        CHECK_STR(t, result->text.data, i == 0 ? "<think>END</think>so EN" : "");
        turn_result_free(result);
    }
    bytes_release(&answer);
    worker_free(worker);
}

// What may begin a mark, such as blanks and <, is held back; where nothing follows it may be a stop string after all.
static void a_stop_string_may_be_found_at_the_end(struct harness *t)
{
    static const char *const stops[] = {"<", "\\n", "b"}, *const said[] = {"", "", "a"};
    struct worker *worker = start(t, "thinks\nturn\ntoken <\nturn\ntoken \\n\nturn\ntoken ab\n");
    struct bytes answer = {0};
    await_ready(t, worker);
    for (size_t i = 0; i < 3; i++) {
        struct turn *turn = turn_new();
        turn_add(turn, TOK_USER, "a", 1);
        turn->max_tokens = i == 0; // whatever else ended it
        snprintf(turn->sampling.stop.line, sizeof turn->sampling.stop.line, "%s", stops[i]);
        worker_send(worker, turn);
        struct turn_result *result = collect(t, worker, &answer, 0);
        CHECK_EQ(t, result->reason, STOP_TEXT);
        CHECK_STR(t, answer.data ? answer.data : "", said[i]);
        CHECK_STR(t, result->text.data, said[i]);
        CHECK_EQ(t, result->answer.count, strlen(said[i]) + 1); // and the end
        turn_result_free(result);
    }
    bytes_release(&answer);
    worker_free(worker);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(a_stop_string_ends_the_answer),
        TEST(a_stop_string_may_not_come),
        TEST(a_stop_string_may_be_found_at_the_end),
        TEST(what_a_stop_string_ended_outlives_a_cancel),
        TEST(tokens_are_told_when_they_are_out),
        TEST(there_is_nothing_to_answer_before_a_message),
        TEST(thinking_is_told_apart_and_left_out),
        TEST(text_comes_in_whole_characters),
        TEST(long_tokens_arrive_whole),
        TEST(turns_follow_each_other),
        TEST(limits_end_an_answer),
        TEST(an_answer_that_nothing_closes_fills_the_context),
        TEST(cancel_keeps_what_is_there),
        TEST(an_error_leaves_the_timeline),
        TEST(an_error_in_mid_answer_keeps_what_it_said),
        TEST(a_cancel_ends_with_its_answer),
        TEST(leaving_never_waits_for_readers),
        TEST(a_stopped_prompt_goes_on),
        TEST(what_is_read_again_stays_while_it_is_taken_back),
        TEST(a_part_stays_under_another_name),
        TEST(a_stop_at_once_keeps_what_was_read),
        TEST(states_stand_at_borders),
        TEST(states_stand_before_the_thinking),
        TEST(a_stop_keeps_what_was_there_before),
        TEST(a_cancel_is_never_lost),
        TEST(figures_are_those_of_their_turn),
        TEST(a_refused_turn_knows_what_prefetch_does),
        TEST(a_turn_begins_when_it_is_sent),
    };
    return HARNESS_RUN(tests, argc, argv);
}
