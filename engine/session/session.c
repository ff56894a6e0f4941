// SPDX-License-Identifier: GPL-3.0-or-later
// One timeline of tokens over a model, opened and closed: how large its chunks and groups are, its logits, its
// counters.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/session/session.h"

enum {
    DEFAULT_CHUNK = 512,
    LARGEST_CHUNK = 2048,
    MOST_EXPERT_ROWS = 4,
    LARGEST_GROUP = 8192,
    SNAPSHOT_EVERY = 4096,
    ROOM_AFTER = 4096
};

static int check_options(const moe_model *model, const struct moe_session_options *options, uint32_t *context,
                         struct moe_err *err)
{
    *context = options->max_context ? options->max_context : model_context(model, options->kv_type);
    int code = model_check_context(model, *context, err);
    if (code)
        return code;
    if (options->kv_type != MOE_KV_F32 && options->kv_type != MOE_KV_F16)
        return moe_fail(err, MOE_BAD_ARGUMENT, "KV rows are f32 or f16");
    if (options->ring > model->ring)
        return moe_fail(err, MOE_BAD_ARGUMENT,
                        "a ring of %u is deeper than the %u that the model was opened with: its cache may be too small",
                        options->ring, model->ring);
    return MOE_OK;
}

// What the rows of a chunk may take of a device: a 32nd of its memory, ops' intermediate values counted like the rest.
static bool chunk_fits(const moe_session *session, uint32_t chunk, uint32_t expert_rows)
{
    uint64_t row = scratch_row_bytes(&session->model->package.shape, expert_rows);
    return chunk <= gpu_describe(session->model->gpu)->global_bytes / 32 / (2 * row);
}

static bool has_units_to_fill(const moe_session *session)
{
    const struct gpu_info *device = gpu_describe(session->model->gpu);
    return device->kind == GPU_KIND_GPU && !device->shares_host_memory;
}

// By model and device alone, so that chunk boundaries never depend on a budget; large enough that an expert gets a few
// dozen rows. A GPU has units that these don't fill: there a chunk may be larger.
static uint32_t choose_chunk(const moe_session *session, const struct moe_session_options *options)
{
    uint32_t chunk = DEFAULT_CHUNK;
    if (options->prefill_chunk)
        return options->prefill_chunk;
    while (has_units_to_fill(session) && chunk < LARGEST_CHUNK && chunk_fits(session, 2 * chunk, 1))
        chunk *= 2;
    return chunk;
}

// Rows of several experts that compute together, for each of a chunk: launches that fill a GPU.
static uint32_t choose_expert_rows(const moe_session *session)
{
    uint32_t top_k = session->model->package.shape.top_k, n = 1;
    while (has_units_to_fill(session) && n < MOST_EXPERT_ROWS && n < top_k &&
           chunk_fits(session, session->chunk, n + 1))
        n++;
    return n;
}

// Tokens that go through the layers together: each expert is read once for all of them, so as many as a 32nd of the
// device's memory holds. Where no expert is ever read again a chunk is enough, and more of it is kept by a cancel.
static uint32_t choose_group(const moe_session *session, const struct moe_session_options *options, uint32_t context)
{
    const moe_model *model = session->model;
    const struct shape *shape = &model->package.shape;
    uint64_t fit =
        gpu_describe(model->gpu)->global_bytes / 32 / (stream_group_bytes(shape) + scratch_group_bytes(shape));
    uint64_t group = options->prefill_group, most = stream_most_group(shape);
    if (session->chunk == 1 || (!group && expert_store_plan(model->store).all))
        group = session->chunk;
    else if (!group)
        group = fit < LARGEST_GROUP ? fit : LARGEST_GROUP;
    most = most < context ? most : context;
    group = group < most ? group : most;
    return group < session->chunk ? session->chunk : (uint32_t)(group / session->chunk * session->chunk);
}

// Everything that a pass needs of the session.
static int open_parts(moe_session *session, const struct moe_session_options *options, uint32_t context,
                      struct moe_err *err)
{
    moe_model *model = session->model;
    const struct shape *shape = &model->package.shape;
    struct memory_layout layout = {shape, context, options->kv_type};
    struct scratch_options scratch = {shape, session->chunk, session->group,
                                      session->chunk * choose_expert_rows(session)};
    struct stream_options stream = {model->gpu, shape, session->group, options->without};
    struct routed_options routed = {model->gpu, shape, model->store, options, model->ring};
    struct observer_options observer = {model->gpu, shape, model->store, &session->cancel, options->without};
    int code = memory_open(model->gpu, &layout, &session->memory, err);
    if (!code)
        code = scratch_open(model->gpu, &scratch, &session->scratch, err);
    if (!code)
        code = stream_open(&stream, &session->stream, err);
    if (!code)
        code = routed_open(&routed, &session->routed, err);
    if (!code)
        code = observer_open(&observer, &session->observer, err);
    return code;
}

int moe_session_open(moe_model *model, const struct moe_session_options *options, moe_session **out,
                     struct moe_err *err)
{
    *out = NULL;
    uint32_t context;
    int code = check_options(model, options, &context, err);
    if (code)
        return code;
    moe_session *session = calloc(1, sizeof *session);
    if (!session)
        return moe_fail(err, MOE_NO_MEMORY, "no memory for a session");
    session->model = model;
    session->chunk = choose_chunk(session, options);
    if (session->chunk > context)
        session->chunk = context;
    session->group = choose_group(session, options, context);
    session->snapshot_every = options->snapshot_every ? options->snapshot_every : SNAPSHOT_EVERY;
    session->snapshots.bytes = model->state_bytes;
    session->snapshots.most = options->snapshots ? options->snapshots : model->snapshots;
    if (session->snapshots.most < SNAPSHOTS_LEAST)
        session->snapshots.most = SNAPSHOTS_LEAST;
    session->context_asked = options->max_context || !model->plan.context_chosen;
    model->n_sessions++;
    code = open_parts(session, options, context, err);
    if (code)
        moe_session_close(session);
    else
        *out = session;
    return code;
}

void moe_session_close(moe_session *session)
{
    if (!session)
        return;
    session_record_release(session);
    memory_release(&session->memory);
    held_group_forget(&session->held, &session->snapshots);
    snapshots_release(&session->snapshots);
    scratch_release(&session->scratch);
    stream_release(&session->stream);
    routed_release(&session->routed);
    observer_release(&session->observer);
    session->model->n_sessions--;
    if (session->model->store_used_by == session)
        session->model->store_used_by = NULL;
    free(session);
}

void session_start_counting(moe_session *session)
{
    session->experts = expert_store_counts(session->model->store);
    session->device = gpu_counters(session->model->gpu);
    session->began_ns = clock_ns();
}

// What the call under way has added to the model's counters so far.
static void add_counts(const moe_session *session, struct moe_stats *stats)
{
    struct expert_counts after = expert_store_counts(session->model->store);
    struct gpu_counts now = gpu_counters(session->model->gpu);
    const struct expert_counts *before = &session->experts;
    stats->hits += after.hits - before->hits;
    stats->misses += after.misses - before->misses;
    stats->late += after.late - before->late;
    stats->bytes_read += after.bytes_read - before->bytes_read;
    stats->bytes_cached += after.bytes_cached - before->bytes_cached;
    stats->prefetched += after.prefetched - before->prefetched;
    stats->used += after.used - before->used;
    stats->wasted += after.wasted - before->wasted;
    stats->wait_ns += after.wait_ns - before->wait_ns;
    stats->evictions += after.evictions - before->evictions;
    stats->launches += now.launches - session->device.launches;
    stats->waits += now.waits - session->device.waits;
}

uint64_t session_stop_counting(moe_session *session)
{
    uint64_t took = clock_ns() - session->began_ns;
    add_counts(session, &session->stats);
    session->began_ns = 0;
    return took;
}

const float *moe_session_logits(const moe_session *session, struct moe_err *err)
{
    if (session->has_logits)
        return session->scratch.last_rows[session->shown];
    moe_fail(err, MOE_NOT_READY, "no logits yet: no token was fed since the session was opened, cut or restored");
    return NULL;
}

void moe_session_set_logits(moe_session *session, const float *logits)
{
    float *own = session->scratch.last_rows[session->shown];
    memmove(own, logits, session->model->package.shape.vocab_size * sizeof *own);
    session->has_logits = session->length > 0;
}

uint32_t moe_session_length(const moe_session *session)
{
    return session->length;
}

uint32_t moe_session_max_context(const moe_session *session)
{
    return session->memory.max_rows;
}

void moe_session_make_room(moe_session *session, uint32_t tokens)
{
    uint32_t limit = session->model->package.shape.max_position_embeddings;
    uint64_t room = (uint64_t)tokens + ROOM_AFTER;
    if (!session->context_asked && room > session->memory.max_rows)
        session->memory.max_rows = room < limit ? (uint32_t)room : limit;
}

int moe_session_truncate(moe_session *session, uint32_t length, struct moe_err *err)
{
    if (length > session->length)
        return moe_fail(err, MOE_POSITION, "cannot cut a session of %u tokens to %u", session->length, length);
    int code = session_cut_states(session, length, err);
    if (code)
        return code;
    if (length < session->length)
        held_group_forget(&session->held, &session->snapshots);
    if (length < session->length)
        prefetch_forget(&session->routed.prefetch, session->model->store);
    session->has_logits &= length == session->length;
    session->length = length;
    return MOE_OK;
}

static uint32_t rows_held(const moe_session *session)
{
    return session->under_way ? session->under_way : session->held.rows;
}

double moe_session_held(const moe_session *session)
{
    return stream_worth(&session->stream.reach, rows_held(session), &session->model->package.shape);
}

uint32_t moe_session_held_tokens(const moe_session *session)
{
    return stream_tokens(&session->stream.reach, rows_held(session), &session->model->package.shape);
}

void moe_session_cancel(moe_session *session)
{
    atomic_store(&session->cancel, true);
}

bool moe_session_is_cancelled(const moe_session *session)
{
    return atomic_load(&session->cancel);
}

void moe_session_resume(moe_session *session)
{
    atomic_store(&session->cancel, false);
}

const struct moe_telemetry *moe_session_telemetry(const moe_session *session)
{
    const struct telemetry *t = &session->observer.telemetry;
    return t->steps ? &t->records[t->shown] : NULL;
}

// Tokens of the group under way that count so far, as they would if it was stopped here: but for those that an earlier
// step has counted.
static uint32_t count_under_way(const moe_session *session)
{
    uint32_t worth = session->under_way ? moe_session_held_tokens(session) : 0;
    return worth > session->held.counted ? worth - session->held.counted : 0;
}

const struct moe_telemetry *moe_session_so_far(moe_session *session)
{
    struct observer *observer = &session->observer;
    const struct moe_telemetry *so_far = session->under_way ? observer_so_far(observer) : NULL;
    if (so_far)
        observer->telemetry.looked_at.rows = count_under_way(session);
    return so_far;
}

const struct moe_telemetry *moe_session_settle(moe_session *session)
{
    struct telemetry *t = &session->observer.telemetry;
    if (!t->steps || session->model->store_used_by != session)
        return NULL;
    session_start_counting(session);
    expert_store_settle(session->model->store);
    session_stop_counting(session);
    return telemetry_rest(t, session->model->store);
}

const uint32_t *moe_session_heat(const moe_session *session)
{
    return session->observer.telemetry.heat;
}

void moe_session_clear_heat(moe_session *session)
{
    const struct shape *shape = &session->model->package.shape;
    size_t rows = shape->n_layers - shape->first_k_dense_replace;
    memset(session->observer.telemetry.heat, 0,
           rows * shape->n_routed_experts * sizeof *session->observer.telemetry.heat);
}

struct moe_stats moe_session_stats(const moe_session *session)
{
    struct moe_stats stats = session->stats;
    if (session->began_ns)
        add_counts(session, &stats);
    if (session->reads_prompt && (session->counted_at_ns || session->under_way)) {
        stats.prefilled_tokens += session->counted + count_under_way(session);
        stats.prefill_ns += (session->under_way ? clock_ns() : session->counted_at_ns) - session->began_ns;
    }
    stats.prefetch_policy = prefetch_name(session->routed.prefetch.acting);
    snprintf(stats.prefetch_reason, sizeof stats.prefetch_reason, "%s", session->routed.prefetch.reason);
    return stats;
}
