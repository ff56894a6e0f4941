// SPDX-License-Identifier: GPL-3.0-or-later
// Tokens fed to a session, in groups of chunks. An error leaves length and logits where they were, however many chunks
// were done; rows beyond the length mean nothing.
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/session/session.h"
#include "engine/walk/forward.h"

static int check_feed(const moe_session *session, const struct moe_feed *feed, struct moe_err *err)
{
    uint32_t room = session->memory.max_rows - session->length;
    if (feed->position != session->length)
        return moe_fail(err, MOE_POSITION, "tokens for position %u fed to a session of %u tokens", feed->position,
                        session->length);
    if (!feed->count)
        return moe_fail(err, MOE_BAD_ARGUMENT, "no tokens to feed");
    if (session->snapshots.bytes && session->stands != session->length)
        return moe_fail(err, MOE_POSITION, "the states are those after %u tokens, the rows those of %u: cut them first",
                        session->stands, session->length);
    if (feed->count > room)
        return moe_fail(err, MOE_CONTEXT_FULL, "the context is full: no room for %zu more tokens, %u of %u used",
                        feed->count, session->memory.max_rows, session->length);
    uint32_t vocab = session->model->package.shape.vocab_size;
    for (size_t i = 0; i < feed->count; i++)
        if (feed->ids[i] < 0 || (uint32_t)feed->ids[i] >= vocab)
            return moe_fail(err, MOE_BAD_TOKEN, "token %zu is %d, outside the vocabulary of %u", i, (int)feed->ids[i],
                            vocab);
    return MOE_OK;
}

static struct pass make_pass(moe_session *session, bool decode)
{
    moe_model *model = session->model;
    return (struct pass){
        .gpu = model->gpu,
        .package = &model->package,
        .shape = &model->package.shape,
        .weights = &model->weights,
        .memory = &session->memory,
        .scratch = &session->scratch,
        .stream = &session->stream,
        .routed = &session->routed,
        .observer = &session->observer,
        .position = session->length,
        .decode = decode,
    };
}

// Logits of every row of the pass to whoever asked for them.
static int show_logits(const struct pass *pass, const struct moe_feed *feed, struct moe_err *err)
{
    float *logits = pass->scratch->host_rows;
    for (uint32_t first = 0; first < pass->rows; first += pass->scratch->logit_rows) {
        uint32_t count = pass->rows - first;
        if (count > pass->scratch->logit_rows)
            count = pass->scratch->logit_rows;
        int code = forward_head(pass, &(struct head_rows){first, count, logits}, err);
        for (uint32_t r = 0; r < count && !code; r++) {
            code =
                feed->on_row(feed->context, pass->position + first + r, logits + (size_t)r * pass->shape->vocab_size);
            if (code)
                moe_fail(err, (enum moe_code)code, "stopped by the reader of the logits");
        }
        if (code)
            return code;
    }
    return MOE_OK;
}

// Logits of the last row, beside the session's: whatever fails behind them leaves those as they were.
static int last_logits(moe_session *session, const struct pass *pass, struct moe_err *err)
{
    float *logits = pass->scratch->last_rows[!session->shown];
    return forward_head(pass, &(struct head_rows){pass->rows - 1, 1, logits}, err);
}

// The feed has succeeded, to its end.
static void take_logits(moe_session *session)
{
    session->shown = !session->shown;
    session->has_logits = true;
}

// What was copied on the way is a snapshot once the group counts.
static void keep_border(moe_session *session, const struct pass_border *border, bool good)
{
    if (border->states && good)
        snapshots_keep(&session->snapshots, border->states, border->position, true);
    else if (border->states)
        snapshots_give_back(&session->snapshots, border->states);
}

// A border of a group that begins, or that goes on, where its first layers have copied it. The last one of a feed is
// where thinking begins that goes later: for it an old border goes, for others only where there are more than two.
static struct pass_border make_border(moe_session *session, const struct pass *pass, const struct moe_feed *feed, int i)
{
    uint32_t position = feed->borders[i];
    struct pass_border border = session->held.borders[i];
    session->held.borders[i] = (struct pass_border){0};
    bool inside = position > pass->position && position - pass->position < pass->rows;
    if (border.states && inside && border.position == position)
        return border;
    if (border.states)
        snapshots_give_back(&session->snapshots, border.states);
    border.states = NULL;
    if (inside && session->snapshots.bytes && !session->held.rows) // without memory for it there is none
        border.states = snapshots_room(&session->snapshots, i + 1 == MOE_BORDERS);
    border.position = border.states ? position : 0;
    return border;
}

// Of the group's tokens, those that the step did the work of: counters of tokens, of bytes and of time are about the
// same, in a step that is stopped on its way and in that which goes on there.
static void count_tokens(moe_session *session, uint32_t rows)
{
    telemetry_set_rows(&session->observer.telemetry, rows);
    session->counted += rows;
    session->counted_at_ns = clock_ns();
}

// Ends what the group was about. Cancelled it is held, if it has come anywhere. `counted` of its tokens were by the
// step before.
static void leave_group(moe_session *session, const struct pass *pass, const struct moe_feed *feed, int code,
                        uint32_t counted)
{
    const struct stream_reach *reach = &session->stream.reach;
    bool shown = feed->on_row || feed->on_hidden;
    if (code == MOE_CANCELLED && !pass->decode && !shown && (reach->layer || reach->rows)) {
        uint32_t worth = stream_tokens(reach, pass->rows, &session->model->package.shape);
        worth = worth < counted ? counted : worth;
        count_tokens(session, worth - counted);
        held_group_keep(&session->held, pass, feed->ids + (pass->position - feed->position), &session->snapshots);
        session->held.counted = worth;
        return;
    }
    if (!code)
        count_tokens(session, pass->rows - counted);
    for (int i = 0; i < MOE_BORDERS; i++)
        keep_border(session, &pass->borders[i], code == MOE_OK);
    held_group_forget(&session->held, &session->snapshots);
}

// Runs one group of `rows` tokens, or the rest of the one that is held; `last` when the feed ends with it.
static int run_group(moe_session *session, const struct pass *pass, const struct moe_feed *feed, bool last,
                     struct moe_err *err)
{
    const int32_t *ids = feed->ids + (pass->position - feed->position);
    struct stream_reach *reach = &session->stream.reach;
    bool begins = !session->held.rows;
    uint32_t counted = session->held.counted < pass->rows ? session->held.counted : pass->rows;
    if (!begins && reach->rows > pass->rows) // not all of its tokens are in this feed
        reach->rows = pass->rows;
    if (session->model->store_used_by != session)
        telemetry_pass_over(&session->observer.telemetry, session->model->store);
    session->model->store_used_by = session;
    pass_begin(pass, begins);
    session->under_way = pass->decode ? 0 : pass->rows;
    gpu_write(pass->gpu, session->scratch.buf[SCRATCH_IDS], 0, ids, pass->rows * sizeof *ids);
    struct pass with_borders = *pass;
    for (int i = MOE_BORDERS; i-- > 0;)
        with_borders.borders[i] = make_border(session, pass, feed, i);
    int code = forward_layers(&with_borders, begins, err);
    if (!code && feed->on_row)
        code = show_logits(pass, feed, err);
    if (!code && last)
        code = last_logits(session, pass, err);
    if (!code)
        code = forward_end(pass, err);
    pass_end(pass, code);
    session->under_way = 0;
    struct gpu_error device;
    bool fine = gpu_check(pass->gpu, &device) == 0;
    if (!code && !fine) // else what the device says of it comes second; it is clean for the next call
        code = moe_fail_gpu(err, &device);
    leave_group(session, &with_borders, feed, fine || !code ? code : MOE_DEVICE, counted);
    return code;
}

static bool is_border(const struct moe_feed *feed, uint32_t position)
{
    bool is = false;
    for (int i = 0; i < MOE_BORDERS; i++)
        is |= feed->borders[i] == position;
    return is;
}

// The group that was run is part of the session. *since: where the last snapshot of the feed is, or its beginning.
static int advance(moe_session *session, const struct pass *pass, const struct moe_feed *feed, uint32_t *since,
                   struct moe_err *err)
{
    bool last = session->length + pass->rows == feed->position + feed->count;
    memory_commit(&session->memory);
    session->length += pass->rows;
    session->stands = session->length;
    session->has_logits = false;
    if (is_border(feed, session->length) && !last) {
        int code = session_remember(session, true, err);
        return code == MOE_NO_MEMORY ? MOE_OK : code;
    }
    if (last || session->length - *since < session->snapshot_every)
        return MOE_OK;
    *since = session->length;
    return session_remember(session, false, err);
}

// After an error the session is where the feed began; states that were passed by are put back from their copy.
static void go_back(moe_session *session, uint32_t length, bool has_logits)
{
    struct moe_err ignored; // should the device not even take them back, what was fed stays
    if (session_stand(session, length, &ignored) == MOE_OK) {
        session->length = length;
        session->has_logits = has_logits;
    }
    snapshots_cut(&session->snapshots, session->length); // other tokens may follow
}

// Rows for so many tokens, and what is made of them on the way: both grow with the conversation.
static int reserve(moe_session *session, uint32_t tokens, struct moe_err *err)
{
    int code = memory_reserve(session->model->gpu, &session->memory, tokens, err);
    return code ? code : scratch_reserve(&session->scratch, session->memory.rows, err);
}

static int feed_tokens(moe_session *session, const struct moe_feed *feed, bool decode, struct moe_err *err)
{
    int code = check_feed(session, feed, err);
    if (!code)
        code = reserve(session, session->length + (uint32_t)feed->count, err);
    if (code)
        return code;
    struct observer_feed about = {feed, decode, {session->chunk, session->group}, sweep_ahead(&session->routed.sweep)};
    struct pass pass = make_pass(session, decode);
    uint32_t length = session->length, since = length;
    bool has_logits = session->has_logits;
    uint32_t held = decode ? 0 : held_group_same(&session->held, feed, session->snapshots.bytes > 0);
    if (!held)
        held_group_forget(&session->held, &session->snapshots);
    observer_begin(&session->observer, &about);
    while (!code && session->length < feed->position + feed->count) {
        uint32_t left = feed->position + (uint32_t)feed->count - session->length;
        pass.position = session->length;
        pass.rows = decode ? 1 : held ? held : pace_group(about.groups, left);
        held = 0;
        code = run_group(session, &pass, feed, pass.rows == left, err);
        if (!code)
            code = advance(session, &pass, feed, &since, err);
        if (!code) // also between two groups: whoever takes their records has this one before another takes its place
            observer_progress(&session->observer, session->length - feed->position);
    }
    routed_end(&session->routed, session->model->gpu);
    if (code && code != MOE_CANCELLED)
        go_back(session, length, has_logits);
    return code;
}

// With a border before it, and one behind it.
static int feed_prompt(moe_session *session, const struct moe_feed *feed, struct moe_err *err)
{
    uint32_t length = session->length;
    bool has_logits = session->has_logits;
    int code = session->stands == length ? session_remember(session, true, err) : MOE_OK;
    if (!code)
        code = feed_tokens(session, feed, session->chunk == 1, err);
    if (code)
        return code;
    code = session_remember(session, true, err);
    if (code == MOE_NO_MEMORY) // whoever cuts back to here later will hear of it
        return MOE_OK;
    if (code)
        go_back(session, length, has_logits);
    return code;
}

int moe_session_prefill(moe_session *session, const struct moe_feed *feed, struct moe_err *err)
{
    session->counted = 0;
    session->counted_at_ns = 0;
    session->reads_prompt = true;
    prefetch_forget(&session->routed.prefetch, session->model->store);
    session_start_counting(session);
    int code = feed_prompt(session, feed, err);
    if (!code)
        take_logits(session);
    session->stats.prefill_ns += session_stop_counting(session);
    session->stats.prefilled_tokens += session->counted;
    session->reads_prompt = false;
    return code;
}

// Experts of the last step that prefetching can help with, or did: those that had no slot of the device's by
// themselves.
static uint64_t count_missing(const moe_session *session)
{
    const struct moe_telemetry *step = moe_session_telemetry(session);
    uint64_t missing = 0;
    for (uint32_t i = 0; i < step->n_moe_layers; i++)
        for (int origin = MOE_FROM_HOST; origin < MOE_ORIGINS; origin++)
            missing += step->layers[i].n_from[origin];
    return missing;
}

int moe_session_decode(moe_session *session, int32_t id, struct moe_err *err)
{
    struct moe_feed feed = {.ids = &id, .count = 1, .position = session->length};
    session_start_counting(session);
    int code = feed_tokens(session, &feed, true, err);
    if (!code)
        take_logits(session);
    uint64_t took_ns = session_stop_counting(session);
    session->stats.decode_ns += took_ns;
    session->stats.decoded_tokens += !code;
    if (code)
        prefetch_forget(&session->routed.prefetch, session->model->store);
    else
        prefetch_end_token(&session->routed.prefetch, session->length - 1, took_ns, count_missing(session));
    return code;
}
