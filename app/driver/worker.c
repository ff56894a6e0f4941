// SPDX-License-Identifier: GPL-3.0-or-later
// The engine's thread: opens the model, runs turns, reports through the queue.
#include "app/driver/worker.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "app/util/format.h"
#include "app/driver/answer_text.h"
#include "app/driver/move.h"
#include "app/driver/queue.h"
#include "app/driver/steps.h"
#include "app/driver/timeline.h"

enum { N_EVENTS = 128 };

enum job_kind { JOB_TURN, JOB_OPEN, JOB_GO, JOB_SAVE, JOB_SYSTEM, JOB_CLOSE, JOB_ANEW };

struct job {
    enum job_kind kind;
    struct turn *turn;
    struct worker_session session;
    struct worker_place place;
    char name[STORE_NAME_SIZE];
    struct bytes text; // the system message
    uint32_t number;
};

struct worker {
    struct backend backend;
    int nice_value;
    pthread_t thread;
    struct queue *commands; // of struct job
    struct queue *events;
    unsigned sent;             // turns so far; face's thread
    atomic_uint cancelled;     // the newest turn that shall stop
    atomic_bool loaded, ready; // open has returned; and the model is open
    struct steps steps;
    // From here on: the engine's thread alone.
    unsigned serial; // of the turn under way
    struct timeline timeline;
    uint32_t read_before; // of the prompt under way, by earlier tries
    struct answer_text text;
    struct tok_sections sections; // of the answer under way
    uint64_t began_ns;            // the turn
    struct keeper keeper;
    bool wrote_all; // what the backend's close said
};

void event_release(struct event *event)
{
    if (event->kind == EVENT_DONE)
        turn_result_free(event->result);
    if (event->kind == EVENT_TOKEN)
        free(event->token.step);
}

// Progress replaces progress that nobody has seen yet.
static bool supersedes(const void *last, const void *item)
{
    const struct event *a = last, *b = item;
    return a->kind == EVENT_PROGRESS && b->kind == EVENT_PROGRESS;
}

static void on_progress(void *context, const struct moe_progress *progress)
{
    struct worker *worker = context;
    struct event event = {.kind = EVENT_PROGRESS, .progress = *progress};
    if (worker->timeline.reading_again)
        event.progress.what = "reading again";
    uint32_t before = worker->timeline.reading_again ? timeline_reread(&worker->timeline) : worker->read_before;
    event.progress.done += before;
    event.progress.total += before;
    if (atomic_load(&worker->ready))
        steps_note(&worker->steps);
    queue_push(worker->events, &event, supersedes);
}

static int fail_text(struct moe_err *err)
{
    return backend_fail(err, MOE_NO_MEMORY, "no memory for the answer's text");
}

static bool stop_wanted(struct worker *worker)
{
    return atomic_load(&worker->cancelled) >= worker->serial;
}

static int append_id(struct tok_ids *list, int32_t id, struct moe_err *err)
{
    struct tok_err tok_err;
    return tok_ids_append(list, id, &tok_err) == 0 ? 0 : backend_fail(err, MOE_NO_MEMORY, "%s", tok_err.text);
}

// Takes `step` over.
static void send_figures(struct worker *worker, int32_t id, struct moe_telemetry *step)
{
    const char *bytes;
    size_t length = worker->backend.ops->bytes(worker->backend.self, id, &bytes);
    struct event event = {.kind = EVENT_TOKEN};
    event.token.id = id;
    event.token.seconds = (double)(format_clock_ns() - worker->began_ns) / 1e9;
    event.token.tally = steps_tally(&worker->steps);
    event.token.length = (uint32_t)(length < sizeof event.token.bytes ? length : sizeof event.token.bytes);
    memcpy(event.token.bytes, bytes, event.token.length);
    event.token.step = step;
    answer_text_token(&worker->text, &event);
}

// Of an answer that has ended, so that it is kept whatever is cancelled now.
static int encode_rest(struct worker *worker, const struct backend_prompt *rest, struct turn_result *result)
{
    const struct backend_ops *ops = worker->backend.ops;
    size_t end;
    int code;
    while ((code = ops->encode(worker->backend.self, rest, &result->answer, &end, &result->err)) == MOE_CANCELLED)
        ops->resume(worker->backend.self);
    return code;
}

// The answer was ended by a stop string: what the timeline has of it is what is said, too. Where the string begins
// within a token, that token gives way to those of its beginning.
static int cut_at_stop(struct worker *worker, const struct turn *turn, uint32_t begin, struct turn_result *result)
{
    const struct backend_ops *ops = worker->backend.ops;
    void *self = worker->backend.self;
    const char *bytes = NULL;
    uint64_t left = answer_text_length(&worker->text);
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
    int code = timeline_cut(&worker->timeline, begin + (uint32_t)whole, &result->err);
    result->answer.count = whole;
    if (code == 0 && left)
        code = encode_rest(worker, &head, result);
    for (size_t i = whole; i < result->answer.count && code == 0; i++)
        code = timeline_add(&worker->timeline, result->answer.ids[i], &result->err);
    return code;
}

// What is missing before the end of an answer that was stopped while it thought.
static int close_sections(struct worker *worker, struct turn_result *result)
{
    struct tok_ids ids = {0};
    struct tok_err err;
    int code = tok_sections_close(&worker->sections, &ids, &err)
                   ? backend_fail(&result->err, MOE_NO_MEMORY, "%s", err.text)
                   : 0;
    for (size_t i = 0; i < ids.count && code == 0; i++) {
        code = append_id(&result->answer, ids.ids[i], &result->err);
        code = code ? code : timeline_add(&worker->timeline, ids.ids[i], &result->err);
    }
    tok_ids_release(&ids);
    return code;
}

// Samples and feeds tokens until something ends the answer. On 0, result->reason says what, and the timeline has what
// is still to be fed. The context has room for the answer's next id and its end whenever an id is sampled.
static int generate(struct worker *worker, const struct turn *turn, struct turn_result *result)
{
    const struct backend_ops *ops = worker->backend.ops;
    void *self = worker->backend.self;
    const struct tok_ids *fed = &worker->timeline.fed;
    uint32_t begin = timeline_length(&worker->timeline);
    int32_t id;
    int code;
    for (;;) {
        id = steps_sample(&worker->steps, fed->ids, fed->count);
        if (id < 0)
            return backend_fail(&result->err, MOE_BAD_NUMBERS, "the model's output has no finite number");
        const char *mark;
        enum tok_section section = TOK_SECTION_END;
        if (ops->is_end(self, id) || (section = tok_sections_take(&worker->sections, id, &mark)) == TOK_SECTION_END) {
            result->reason = STOP_END;
            break;
        }
        if ((code = append_id(&result->answer, id, &result->err)))
            return code;
        if (!(section == TOK_SECTION_MARK ? answer_text_mark(&worker->text, mark)
                                          : answer_text_push(&worker->text, id)))
            return fail_text(&result->err);
        result->generated_tokens++;
        steps_were_held_up(&worker->steps, queue_waited(worker->events));
        struct moe_telemetry *step = steps_end(&worker->steps), *shown = NULL;
        if (turn->tokens && step)
            shown = figures_clone(step);
        steps_keep(&worker->steps, step);
        if (turn->tokens)
            send_figures(worker, id, shown);
        result->reason = STOP_TEXT;
        if (answer_text_stopped(&worker->text))
            break;
        result->reason = STOP_CANCELLED;
        if (stop_wanted(worker))
            break;
        result->reason = STOP_MAX_TOKENS;
        if (turn->max_tokens && result->generated_tokens >= turn->max_tokens)
            break;
        result->reason = STOP_CONTEXT_FULL;
        if (ops->length(self) + 2 + turn_closing(&worker->backend, turn->raw, &worker->sections) >
            result->context_total)
            break;
        code = timeline_decode(&worker->timeline, id, &result->err);
        if (code) { // such as a read error: what was said stays, and the next turn feeds the rest or fails
            result->reason = code == MOE_CANCELLED ? STOP_CANCELLED : STOP_ERROR;
            break;
        }
    }
    if (result->reason == STOP_TEXT)
        code = cut_at_stop(worker, turn, begin, result);
    else
        code = result->reason == STOP_END ? 0 : timeline_add(&worker->timeline, id, &result->err);
    if (code == 0)
        code = close_sections(worker, result);
    if (code)
        return code;
    // Where the template has the turns closed in its own way, that counts, not how the model said it.
    int32_t end = result->reason == STOP_END && turn->raw ? id : ops->end_id(self, turn->raw);
    if (end < 0)
        return 0;
    code = append_id(&result->answer, end, &result->err);
    return code ? code : timeline_add(&worker->timeline, end, &result->err);
}

static int say_answer(struct worker *worker, const struct turn *turn, struct turn_result *result)
{
    struct backend_answer about = worker->backend.ops->answer(worker->backend.self, turn->raw, turn->think);
    worker->sections = worker->backend.ops->sections(worker->backend.self, turn->raw, turn->think);
    struct answer_begins begins = {about.has_marks, about.opened, &turn->sampling.stop};
    if (!answer_text_begin(&worker->text, &result->text, &begins))
        return fail_text(&result->err);
    steps_turn_to(&worker->steps, STEPS_ANSWERING);
    int code = generate(worker, turn, result);
    return answer_text_end(&worker->text) || code ? code : fail_text(&result->err);
}

// Makes the logits after the message at hand those of now: it was just read, as it had not been, or they were kept,
// else saved, else its last token is fed again.
static int recall(struct worker *worker, const struct turn *turn, struct turn_result *result, bool just_read)
{
    const struct backend_ops *ops = worker->backend.ops;
    void *self = worker->backend.self;
    int code = ops->start_sampling(self, &turn->sampling, &result->err);
    if (code == 0 && ops->length(self) == 0)
        code = backend_fail(&result->err, MOE_BAD_ARGUMENT, "no message to answer");
    if (code == 0 && just_read) {
        ops->keep_logits(self);
        steps_begin_saving(&worker->steps);
        keeper_save_read(&worker->keeper);
        steps_end_saving(&worker->steps);
        return 0;
    }
    if (code || ops->recall_logits(self) || keeper_logits(&worker->keeper))
        return code;
    code = timeline_repeat(&worker->timeline, turn->last_id, &result->err);
    if (code == 0)
        ops->keep_logits(self);
    return code;
}

// Encodes the prompt and cuts the timeline back to where it begins, or to where it differs from what is known to be
// there. One that does not fit cuts nothing: what was said before it is still in the engine.
static int place(struct worker *worker, const struct turn *turn, struct turn_result *result)
{
    const struct tok_ids *prompt = &result->prompt;
    uint32_t same = 0;
    result->answer_room = turn_answer_room(&worker->backend, turn->raw, turn->think);
    int code = turn->again ? 0 : turn_encode(turn, &worker->backend, result);
    if (code == 0 && stop_wanted(worker))
        code = MOE_CANCELLED;
    bool follows = turn->position <= timeline_length(&worker->timeline);  // else there is no place to cut at
    bool itself = turn->position > result->context_total && !turn->again; // too long: settle() says so
    if (code == 0 && follows && !turn_has_room(turn, result))
        return itself ? 0 : turn_does_not_fit(turn, &worker->backend, result);
    if (code == 0)
        same = timeline_has(&worker->timeline, turn->position, &turn->known, prompt);
    if (turn->known.count && code == 0 && result->prompt_ends[turn->n_turns - 2] > same)
        result->reread_tokens = (uint32_t)(result->prompt_ends[turn->n_turns - 2] - same);
    bool back = turn->position + same < worker->backend.ops->length(worker->backend.self);
    uint32_t stands = worker->backend.ops->floor(worker->backend.self, turn->position + same);
    result->for_states = back && stands < turn->position + same;
    if (back && stands >= turn->position) // what is missing up to there comes with the prompt
        same = stands - turn->position;
    if (code == 0)
        code = timeline_cut(&worker->timeline, turn->position + same, &result->err);
    if (code == 0 && back)
        result->replayed_tokens = timeline_unread(&worker->timeline);
    return code;
}

// Where one will want to stand: at the end of the answer that the prompt has in other words, as people take their own
// message back, and before this one's thinking.
static void choose_borders(const struct worker *worker, const struct turn *turn, const struct turn_result *result,
                           uint32_t borders[MOE_BORDERS])
{
    uint32_t there = worker->backend.ops->length(worker->backend.self);
    uint32_t before = turn->n_turns > 1 ? turn->position + (uint32_t)result->prompt_ends[turn->n_turns - 2] : 0;
    size_t same = turn_unchanged(turn, &worker->backend, result, there - turn->position);
    borders[0] = before > there ? before : 0;
    borders[1] = same ? there + (uint32_t)same : 0;
}

// Feeds the prompt, which begins at `from`, then generates. Returns 0 or a code with result->err.
static int answer(struct worker *worker, const struct turn *turn, struct turn_result *result, uint32_t from,
                  bool just_read)
{
    const struct backend_ops *ops = worker->backend.ops;
    void *self = worker->backend.self;
    uint32_t length = ops->length(self);
    int code = turn->again ? recall(worker, turn, result, just_read) : 0;
    if (turn->again)
        return code ? code : say_answer(worker, turn, result);
    size_t there = length - turn->position, count = result->prompt.count - there;
    if (stop_wanted(worker))
        return MOE_CANCELLED;
    code = ops->start_sampling(self, &turn->sampling, &result->err);
    uint32_t borders[MOE_BORDERS];
    choose_borders(worker, turn, result, borders);
    worker->read_before = length - from;
    if (code == 0)
        code = timeline_prefill(&worker->timeline, result->prompt.ids + there, count, borders, &result->err);
    worker->read_before = 0;
    if (code == 0 && stop_wanted(worker))
        code = MOE_CANCELLED;
    if (code)
        return code;
    ops->keep_logits(self);
    if (worker->keeper.saved) {
        steps_begin_saving(&worker->steps);
        keeper_save_prompt(&worker->keeper, turn, borders);
        steps_end_saving(&worker->steps);
    }
    return say_answer(worker, turn, result);
}

static void send_news(struct worker *worker, bool of_turn)
{
    struct keeper *keeper = &worker->keeper;
    struct event event = {.kind = EVENT_SESSION, .session = keeper->news};
    event.session.open = keeper->saved != NULL;
    event.session.of_turn = of_turn;
    event.session.hole = keeper->saved && keeper->hole;
    event.session.unsaved = event.session.hole || (keeper->saved && keeper->unsaved);
    if (keeper->saved)
        snprintf(event.session.name, sizeof event.session.name, "%s", saved_name(keeper->saved));
    event.session.blank = keeper->saved && (saved_is_blank(keeper->saved) || !saved_is_kept(keeper->saved));
    queue_push(worker->events, &event, NULL);
    keeper->news = (struct session_news){0};
}

static void open_session(struct worker *worker, struct worker_session *session)
{
    struct keeper *keeper = &worker->keeper;
    struct backend_info info;
    struct moe_err err;
    keeper_leave(keeper);
    if (session->save && keeper->news.failed) // it was said when it failed, and here all of it is saved
        *keeper->news.text = 0;
    *keeper->news.name = 0;
    keeper->saved = session->saved;
    worker->backend.ops->resume(worker->backend.self);
    worker->backend.ops->describe(worker->backend.self, &info);
    // What was read of a stopped message stays with a conversation that goes on under another name. Not with states:
    // the end of what is saved now is where they have to stand.
    bool stays = session->keep && session->keep == timeline_length(&worker->timeline) && !info.cache.state_bytes;
    if (!stays && timeline_cut(&worker->timeline, session->keep, &err))
        snprintf(keeper->news.text, sizeof keeper->news.text, "%s", err.text);
    if (session->keep) {
        saved_set_origin(keeper->saved, &info.origin);
    } else {
        uint32_t cached = keeper_load(keeper, (uint32_t)session->ids.count);
        if (!keeper->news.stale)
            timeline_restore(&worker->timeline, &session->ids, cached, keeper->short_of_states);
    }
    if (session->save && keeper->saved)
        keeper_commit(keeper);
    tok_ids_release(&session->ids);
}

// A turn that came to nothing: the timeline is as it was found, but for what a stopped prompt left to go on from.
static void leave(struct worker *worker, const struct turn *turn, struct turn_result *result, int code, uint32_t found)
{
    struct moe_err ignored; // should this fail, the next turn cuts first
    if (code != MOE_CANCELLED || turn->again) {
        timeline_cut(&worker->timeline, found, &ignored);
        return;
    }
    timeline_keep_part(&worker->timeline, turn->position, found, &result->prompt);
    result->to_read = turn->position + (uint32_t)result->prompt.count - found;
    result->read_tokens = worker->backend.ops->length(worker->backend.self) - timeline_length(&worker->timeline);
    result->held_tokens = worker->backend.ops->held(worker->backend.self);
}

// Feeds what the turn finds pending. Where that is stopped while it is read a prompt's way, what was read of it stays
// for the next turn.
static int settle(struct worker *worker, struct turn_result *result)
{
    struct timeline *timeline = &worker->timeline;
    uint32_t to_read = timeline_reread(timeline) + timeline_unread(timeline);
    int code = timeline_settle(timeline, &result->err);
    if (code == 0 && to_read) // those after its end are there now: another answer needs no token again for them
        worker->backend.ops->keep_logits(worker->backend.self);
    result->rereading = code == MOE_CANCELLED && timeline_unread(timeline) > 0;
    if (!result->rereading)
        return code;
    result->to_read = to_read;
    result->read_tokens = timeline_reread(timeline);
    result->held_tokens = worker->backend.ops->held(worker->backend.self);
    return code;
}

// Before anything is read, which may take hours.
static void tell_unsaved(struct worker *worker)
{
    struct event event = {.kind = EVENT_UNSAVED};
    const char *why = keeper_tell(&worker->keeper);
    if (!why)
        return;
    snprintf(event.unsaved, sizeof event.unsaved, "%s", why);
    queue_push(worker->events, &event, NULL);
}

// Before anything is read, once place() has returned the code: what of the turn is on the disk already.
static void note_message(struct worker *worker, const struct turn *turn, struct turn_result *result, int code)
{
    struct saved *saved = worker->keeper.saved;
    bool encoded = (code == 0 || code == MOE_CANCELLED) && result->n_prompt_ends;
    result->n_same = encoded ? turn_same(turn, saved, result) : 0;
    result->instead = turn->instead;
    result->noted = encoded && turn_has_room(turn, result);
    if (saved && turn->again && code == 0)
        keeper_leave_answer(&worker->keeper, turn->position);
    if (saved && result->noted) {
        steps_begin_saving(&worker->steps);
        keeper_save_message(&worker->keeper, turn, result);
        steps_end_saving(&worker->steps);
        tell_unsaved(worker);
    }
}

// What need not be computed. Of a conversation that the context has no room for the session may have more.
static uint32_t count_cached(const struct worker *worker, const struct turn *turn, const struct turn_result *result)
{
    const struct keeper *keeper = &worker->keeper;
    if (turn->position > result->context_total && keeper_has_more(keeper))
        return manifest_rows(saved_manifest(keeper->saved));
    return worker->backend.ops->length(worker->backend.self);
}

static void take_turn(struct worker *worker, struct turn *turn)
{
    const struct backend_ops *ops = worker->backend.ops;
    void *self = worker->backend.self;
    struct turn_result *result = turn->result;
    turn->result = NULL;
    struct backend_info info;
    ops->describe(self, &info);
    result->context_total = info.max_context;
    worker->began_ns = format_clock_ns();
    worker->serial++;
    ops->resume(self);
    int code = turn_reopen(turn, &worker->backend, &result->err);
    uint32_t stopped_from = timeline_part_from(&worker->timeline, turn->position);
    result->asked = format_unix_time();
    code = code ? code : place(worker, turn, result);
    bool fits = code != MOE_CONTEXT_FULL && turn_has_room(turn, result);
    if (fits) // else the message before it, which may wait for an answer, still does
        keeper_leave_message(&worker->keeper);
    // What is refused leaves the last turn's figures as they are.
    bool begins = code == 0 && fits;
    result->begun = begins;
    if (begins)
        steps_begin_turn(&worker->steps, worker->began_ns); // encoding is part of it
    else
        steps_refuse_turn(&worker->steps);
    note_message(worker, turn, result, code);
    result->cached_tokens = count_cached(worker, turn, result);
    uint32_t unread = timeline_unread(&worker->timeline);
    result->for_states = result->for_states || timeline_unread_for_states(&worker->timeline);
    bool just_read = unread && timeline_length(&worker->timeline) == ops->length(self) + unread; // will have been
    if (code == 0)
        code = settle(worker, result);
    uint32_t there = ops->length(self), found = there < stopped_from ? there : stopped_from; // the rest: earlier tries'
    if (code == 0) {
        code = answer(worker, turn, result, found, just_read);
        if (code) {
            ops->resume(self);
            leave(worker, turn, result, code, found);
        }
    }
    result->kept = code == 0;
    if (code && code != MOE_CONTEXT_FULL)
        result->reason = code == MOE_CANCELLED ? STOP_CANCELLED : STOP_ERROR;
    else if (code)
        result->reason = STOP_CONTEXT_FULL;
    result->context_used = timeline_length(&worker->timeline);
    steps_end_turn(&worker->steps, result->context_used);
    if (begins) { // one that was refused has used nothing: what was fed before it is the next one's
        steps_turn_to(&worker->steps, STEPS_BETWEEN);
        result->tally = steps_tally(&worker->steps);
        result->again_tokens = turn_count_again(turn, result);
    }
    result->seconds = (double)(format_clock_ns() - worker->began_ns) / 1e9;
    turn_note_answer(turn, result);
    uint32_t context = result->context_used;
    // First, as feeding the rest may take seconds where experts come from a disk: what was shown outlives the process.
    bool kept = result->kept, saved = false;
    if (kept && worker->keeper.saved) {
        steps_begin_saving(&worker->steps);
        saved = keeper_save_answer(&worker->keeper, turn, result);
        steps_end_saving(&worker->steps);
    }
    ops->resume(self); // before the face knows: what it cancels from then on is the next turn
    result->news_follow = worker->keeper.saved != NULL;
    struct event event = {.kind = EVENT_DONE, .result = result};
    if (!queue_push(worker->events, &event, NULL))
        turn_result_free(result);
    struct moe_err settle_err;
    // What was stopped while it was read again, or what failed, waits for the turn that needs it.
    bool settles = !turn->only && (kept || !timeline_unread(&worker->timeline));
    if (settles && timeline_settle(&worker->timeline, &settle_err) == MOE_CANCELLED && worker->keeper.saved) {
        ops->resume(self); // a cancel that came after the answer: what is saved has its end all the same
        timeline_settle(&worker->timeline, &settle_err);
    }
    steps_end_turn(&worker->steps, context);
    // What fails here fails again, and is reported, when the next turn begins.
    if (saved)
        keeper_commit(&worker->keeper);
    else if (worker->keeper.saved && (worker->keeper.unsaved || (begins && turn->again))) // the old answer is no end
        keeper_save_text(&worker->keeper);
    if (worker->keeper.saved) {
        keeper_end_turn(&worker->keeper);
        send_news(worker, true);
    }
}

static void lower_priority(int nice_value)
{
    // On Linux the 0 means this thread alone.
    if (nice_value && setpriority(PRIO_PROCESS, 0, nice_value) != 0) {
        // Only comfort depends on it.
    }
}

static void take_job(struct worker *worker, struct job *job)
{
    switch (job->kind) {
    case JOB_TURN:
        take_turn(worker, job->turn);
        turn_free(job->turn);
        return;
    case JOB_OPEN:
        worker->keeper.think = job->session.think;
        open_session(worker, &job->session);
        break;
    case JOB_GO:
        worker->keeper.think = job->place.think;
        move_conversation(&worker->keeper, &worker->timeline, &job->place);
        break;
    case JOB_SAVE:
        keeper_save_as(&worker->keeper, job->name);
        break;
    case JOB_SYSTEM:
        keeper_save_system(&worker->keeper, &job->text, job->number);
        bytes_release(&job->text);
        break;
    case JOB_CLOSE:
        keeper_close(&worker->keeper);
        break;
    case JOB_ANEW:
        steps_begin_conversation(&worker->steps);
        return;
    }
    send_news(worker, false);
}

static void *run(void *argument)
{
    struct worker *worker = argument;
    const struct backend *backend = &worker->backend;
    lower_priority(worker->nice_value);
    struct event event = {.kind = EVENT_FAILED};
    if (backend->ops->open(backend->self, on_progress, worker, &event.failed) == 0) {
        steps_begin_conversation(&worker->steps); // which policy of prefetch it has is known from now on
        atomic_store(&worker->ready, true);
        atomic_store(&worker->loaded, true);
        event = (struct event){.kind = EVENT_READY};
        backend->ops->describe(backend->self, &event.ready);
        event.ready.to_start = process_reads_now();
        queue_push(worker->events, &event, NULL);
        struct job job;
        while (queue_wait(worker->commands, &job))
            take_job(worker, &job);
        keeper_close(&worker->keeper);
    } else {
        atomic_store(&worker->loaded, true);
        queue_push(worker->events, &event, NULL);
    }
    worker->wrote_all = backend->ops->close(backend->self);
    return NULL;
}

static void job_release(struct job *job)
{
    turn_free(job->turn);
    saved_close(job->session.saved);
    tok_ids_release(&job->session.ids);
    tok_ids_release(&job->place.ids);
    bytes_release(&job->text);
}

static void post(struct worker *worker, const struct job *job)
{
    struct job copy = *job;
    if (!queue_push(worker->commands, &copy, NULL))
        job_release(&copy);
}

static void release(struct worker *worker)
{
    struct event event;
    struct job job;
    while (worker->events && queue_pop(worker->events, &event))
        event_release(&event);
    while (worker->commands && queue_pop(worker->commands, &job))
        job_release(&job);
    queue_free(worker->events);
    queue_free(worker->commands);
    timeline_release(&worker->timeline);
    answer_text_release(&worker->text);
    steps_release(&worker->steps);
    free(worker);
}

struct worker *worker_new(const struct backend *backend, int nice_value)
{
    struct worker *worker = calloc(1, sizeof *worker);
    if (!worker) {
        backend->ops->close(backend->self);
        return NULL;
    }
    worker->backend = *backend;
    worker->keeper = (struct keeper){.backend = &worker->backend, .progress = on_progress, .progress_context = worker};
    steps_open(&worker->steps, &worker->backend);
    worker->timeline = (struct timeline){.backend = &worker->backend, .steps = &worker->steps};
    worker->nice_value = nice_value;
    worker->commands = queue_new(sizeof(struct job), 4);
    worker->events = worker->commands ? queue_new(sizeof(struct event), N_EVENTS) : NULL;
    int failed = worker->events ? 0 : errno;
    worker->text = (struct answer_text){.backend = &worker->backend, .events = worker->events};
    // Signals are the face's: this thread and those that drivers start from it inherit a full mask.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (!failed)
        failed = pthread_create(&worker->thread, NULL, run, worker);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        backend->ops->close(backend->self);
        release(worker);
        errno = failed;
        return NULL;
    }
    return worker;
}

bool worker_free(struct worker *worker)
{
    if (!worker)
        return true;
    worker_cancel(worker);
    queue_close(worker->commands);
    queue_close(worker->events);
    pthread_join(worker->thread, NULL);
    bool wrote_all = worker->wrote_all;
    release(worker);
    return wrote_all;
}

bool worker_abandon(struct worker *worker, bool *left)
{
    *left = worker && !atomic_load(&worker->loaded);
    return *left || worker_free(worker);
}

void worker_send(struct worker *worker, struct turn *turn)
{
    worker->sent++;
    post(worker, &(struct job){.kind = JOB_TURN, .turn = turn});
}

void worker_open_session(struct worker *worker, struct worker_session session)
{
    post(worker, &(struct job){.kind = JOB_OPEN, .session = session});
}

// At once for whoever looks, and again behind what the worker still does for the last turn.
void worker_begin_conversation(struct worker *worker)
{
    steps_forget(&worker->steps);
    post(worker, &(struct job){.kind = JOB_ANEW});
}

void worker_go(struct worker *worker, struct worker_place place)
{
    post(worker, &(struct job){.kind = JOB_GO, .place = place});
}

void worker_save_session(struct worker *worker, const char *name)
{
    struct job job = {.kind = JOB_SAVE};
    snprintf(job.name, sizeof job.name, "%s", name);
    post(worker, &job);
}

void worker_save_system(struct worker *worker, struct bytes text, uint32_t number)
{
    post(worker, &(struct job){.kind = JOB_SYSTEM, .text = text, .number = number});
}

void worker_close_session(struct worker *worker)
{
    post(worker, &(struct job){.kind = JOB_CLOSE});
}

bool worker_finish_session(struct worker *worker, struct session_news *news)
{
    struct pollfd fd = {.fd = worker_fd(worker), .events = POLLIN};
    struct event event;
    *news = (struct session_news){0};
    if (!atomic_load(&worker->ready))
        return false;
    worker_cancel(worker);
    worker_close_session(worker);
    for (;;) {
        if (!worker_event(worker, &event)) {
            if (poll(&fd, 1, -1) < 0 && errno != EINTR)
                return false;
            continue;
        }
        event_release(&event);
        if (event.kind == EVENT_SESSION && event.session.open)
            *news = event.session;
        else if (event.kind == EVENT_SESSION)
            break;
    }
    if (news->failed && news->of_turn && !event.session.failed) // closing saved it after all
        *news->text = 0;
    news->failed = event.session.failed;
    news->unanswered = event.session.unanswered;
    if (*event.session.name) // it may have got it only now
        snprintf(news->name, sizeof news->name, "%s", event.session.name);
    if (*event.session.text) // closing had something to say, too
        snprintf(news->text, sizeof news->text, "%s", event.session.text);
    return true;
}

void worker_cancel(struct worker *worker)
{
    // The number first: a turn that has not begun yet sees it, one that has is stopped by the backend.
    atomic_store(&worker->cancelled, worker->sent);
    if (atomic_load(&worker->ready))
        worker->backend.ops->cancel(worker->backend.self);
}

int worker_fd(const struct worker *worker)
{
    return queue_fd(worker->events);
}

bool worker_event(struct worker *worker, struct event *event)
{
    return queue_pop(worker->events, event);
}

bool worker_inspect(struct worker *worker, uint32_t n, struct step_token *token, uint32_t *count)
{
    return steps_token(&worker->steps, n, token, count);
}

void worker_usual(struct worker *worker, struct usual *usual, uint32_t slowest[STEPS_SLOWEST])
{
    steps_usual(&worker->steps, usual, slowest);
}

double worker_hits_with(struct worker *worker, uint64_t room)
{
    return steps_hits_with(&worker->steps, room);
}

size_t worker_bytes(const struct worker *worker, int32_t id, const char **bytes)
{
    return worker->backend.ops->bytes(worker->backend.self, id, bytes);
}

bool worker_figures(struct worker *worker, struct figures *figures)
{
    bool known = steps_figures(&worker->steps, figures);
    if (figures->turn != worker->sent)
        figures_begin_turn(figures);
    return known;
}
