// SPDX-License-Identifier: GPL-3.0-or-later
// How well experts stream: the disk's and the copy's ceilings, then prompts and answers at several budgets and with
// each technique switched off in turn. Variants take turns, so that a busy machine is busy for all of them alike; the
// answer's ids are sampled and must be the same everywhere.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/driver/backend.h"
#include "app/subcommands/bench_parts.h"
#include "app/subcommands/cmd.h"
#include "app/subcommands/stream_table.h"
#include "app/figures/figures.h"
#include "app/util/files.h"
#include "app/util/format.h"
#include "app/util/json_out.h"
#include "app/util/process_reads.h"
#include "app/util/progress.h"
#include "app/util/report.h"
#include "app/term/term.h"

enum { MAX_RUNS = 100, N_DEPTHS = 5, N_BUDGETS = 5, N_PAIRS = 5 };
enum { READS_RULE = 10 }; // times the compute: then the reads alone are a bound, too

static const unsigned depths[N_DEPTHS] = {1, 2, 4, 8, 16};
static const double raw_seconds = 0.5, fetch_seconds = 0.3, drift_seconds = 0.15;

// A technique: what is changed of the usual options.
struct variant {
    const char *name;
    struct moe_session_options session;
    struct moe_model_options model;
    uint64_t host_bytes; // instead of the usual budget of the host's cache, 0: as usual
    bool reopens, chunk_groups;
};

// clang-format off
static const struct variant variants[] = {
    {.name = "baseline"},
    {.name = "no prefetch", .session = {.prefetch = MOE_PREFETCH_OFF}},
    {.name = "prefetch: previous", .session = {.prefetch = MOE_PREFETCH_PREVIOUS}},
    {.name = "prefetch: router", .session = {.prefetch = MOE_PREFETCH_ROUTER}},
    {.name = "prefetch: router-shared", .session = {.prefetch = MOE_PREFETCH_ROUTER_SHARED}},
    {.name = "ring of 1", .session = {.prefetch = MOE_PREFETCH_OFF, .ring = 1}},
    {.name = "hits not first", .session = {.prefetch = MOE_PREFETCH_OFF, .without = MOE_WITHOUT_HITS_FIRST}},
    {.name = "experts one by one", .session = {.prefetch = MOE_PREFETCH_OFF, .without = MOE_WITHOUT_BATCHES}},
    {.name = "unfused", .session = {.prefetch = MOE_PREFETCH_OFF, .without = MOE_WITHOUT_FUSED}},
    {.name = "no resident layers", .session = {.prefetch = MOE_PREFETCH_OFF, .without = MOE_WITHOUT_RESIDENT}},
    {.name = "shared expert last", .session = {.prefetch = MOE_PREFETCH_OFF, .without = MOE_WITHOUT_SHARED_FIRST}},
    {.name = "waits not split", .session = {.prefetch = MOE_PREFETCH_OFF, .without = MOE_WITHOUT_MARKS}},
    {.name = "no read-ahead", .session = {.prefetch = MOE_PREFETCH_OFF, .without = MOE_WITHOUT_READ_AHEAD}},
    {.name = "groups of one chunk", .session = {.prefetch = MOE_PREFETCH_OFF}, .chunk_groups = true},
    {.name = "1 reader", .reopens = true, .model = {.readers = 1}, .session = {.prefetch = MOE_PREFETCH_OFF}},
    {.name = "16 readers", .reopens = true, .model = {.readers = 16}, .session = {.prefetch = MOE_PREFETCH_OFF}},
    {.name = "direct reads", .reopens = true, .model = {.io = MOE_IO_DIRECT}, .session = {.prefetch = MOE_PREFETCH_OFF}},
    {.name = "buffered reads", .reopens = true, .model = {.io = MOE_IO_BUFFERED}, .session = {.prefetch = MOE_PREFETCH_OFF}},
    {.name = "one read per expert",
     .reopens = true,
     .model = {.read_piece_bytes = MOE_READ_WHOLE},
     .session = {.prefetch = MOE_PREFETCH_OFF}},
    {.name = "reads of 1 MiB",
     .reopens = true,
     .model = {.read_piece_bytes = 1 << 20},
     .session = {.prefetch = MOE_PREFETCH_OFF}},
    {.name = "no write-back",
     .reopens = true,
     .model = {.write_back = MOE_WRITE_BACK_OFF},
     .session = {.prefetch = MOE_PREFETCH_OFF}},
    {.name = "always write back",
     .reopens = true,
     .model = {.write_back = MOE_WRITE_BACK_ON},
     .session = {.prefetch = MOE_PREFETCH_OFF}},
    {.name = "no host cache", .reopens = true, .host_bytes = MOE_CACHE_NONE, .session = {.prefetch = MOE_PREFETCH_OFF}},
};
// clang-format on
enum { N_VARIANTS = sizeof variants / sizeof variants[0], N_PLAIN = 2 }; // the first two are measured at each budget

struct result {
    double prefill[MAX_RUNS], decode[MAX_RUNS]; // tokens a second
    double read_share[MAX_RUNS];                // of the prompt's time, that its reads would take at the raw speed
    double ratio[MAX_RUNS];                     // of a token's time to its bound
    double reads_ratio[MAX_RUNS];               // to its reads alone; 0: they are not what takes its time
    double drift[MAX_RUNS];    // of the disk's speed, between the prompt and the answer; 0: as stream's
    struct moe_telemetry sums; // of decoded tokens, all runs
    double hits, asked, bytes_read, bytes_cached, bytes_device; // cached: of those read, from the page cache
    size_t runs;
    uint64_t hash;
};

// What a token takes when all of its experts are there.
struct calibration {
    double other_ns;  // all but the experts
    double expert_ns; // one of them, or a shared one
};

// The expert caches by themselves, beside what bounds them; medians of pairs that take turns.
struct alone {
    double rate, ceiling, ratio; // bytes a second; 0: not measured
};

struct stream {
    const struct options *options;
    char *directory;
    int32_t *ids; // of the prompt
    struct progress progress;
    struct moe_err err;
    double disk[N_DEPTHS], copy; // bytes a second; copy 0: none is needed
    double from_device;          // of what was read for these, the share that the disk delivered; < 0: not known
    bool direct;                 // how the disk was measured
    double drift;                // the disk's speed beside the row that is measured, to what it was then;
    bool drifts;                 // false: it was not measured again, and is taken for the same
    struct alone from_disk, from_host;
    struct calibration calibration;
    uint64_t hash; // of the first answer, 0: none yet
    struct json_out rows;
    bool differs, measured; // some row
    bool beaten;            // some bound or ceiling was
    int columns;            // of the terminal; 0: there is none, and lines are as long as they are
};

static int open_model(struct stream *stream, uint64_t budget, const struct variant *variant, moe_model **model)
{
    char *kernel_cache;
    model_settings_say_pipe(&stream->options->model);
    struct moe_model_options options = model_settings_open(&stream->options->model, &kernel_cache);
    options.expert_cache_bytes = budget;
    if (variant->model.readers)
        options.readers = variant->model.readers;
    if (variant->model.io)
        options.io = variant->model.io;
    options.read_piece_bytes = variant->model.read_piece_bytes;
    options.write_back = variant->model.write_back;
    if (variant->host_bytes)
        options.host_cache_bytes = variant->host_bytes;
    options.progress = progress_take;
    options.progress_context = &stream->progress;
    int code = moe_model_open(stream->directory, &options, model, &stream->err);
    free(kernel_cache);
    return code;
}

static int open_session(struct stream *stream, moe_model *model, const struct variant *variant, moe_session **session)
{
    const struct options *options = stream->options;
    struct moe_session_options session_options = variant->session;
    session_options.max_context = options->asked.prefill_tokens + options->asked.decode_tokens + 1;
    session_options.kv_type = options->model.kv;
    session_options.prefill_chunk = options->model.chunk;
    session_options.prefill_group = variant->chunk_groups ? 1 : options->model.group;
    return moe_session_open(model, &session_options, session, &stream->err);
}

// What a token could take at best.
struct bound {
    double all_ns;   // of everything
    double reads_ns; // of its reads alone, a layer's after the other's
};

static double calibrated_token_ns(const struct calibration *c, const struct moe_description *about)
{
    return c->other_ns + c->expert_ns * (double)about->n_moe_layers * (about->top_k + about->n_shared_experts);
}

// The sum over the layers of attention, router and the other parts that need no expert, then of the larger of two: what
// the layer's misses take at the disk's raw speed of that many reads at once (or, if that is more, what goes to the
// device takes at the copy's speed), and the compute of the experts that are there and the shared one; then the
// compute of the last expert that comes. What was prefetched in time is there; what came late is a miss.
static struct bound bound_of(const struct stream *stream, const struct moe_telemetry *step,
                             const struct moe_cache_plan *plan, uint32_t n_shared)
{
    double one = stream->calibration.expert_ns;
    struct bound bound = {.all_ns = stream->calibration.other_ns};
    for (uint32_t i = 0; i < step->n_moe_layers; i++) {
        const struct moe_layer_record *layer = &step->layers[i];
        uint32_t misses = layer->n_from[MOE_FROM_DISK] + layer->n_from[MOE_FROM_LATE];
        unsigned depth = 0;
        while (depth + 1 < N_DEPTHS && depths[depth + 1] <= misses && depths[depth + 1] <= plan->readers)
            depth++;
        double speed = stream->disk[depth] * stream->drift;
        double disk = speed > 0 ? misses * (double)plan->slot_bytes * 1e9 / speed : 0;
        double copy = stream->copy > 0 ? (double)layer->bytes_device * 1e9 / stream->copy : 0;
        double moved = disk > copy ? disk : copy;
        bool waits = layer->bytes_device > 0 || misses > 0;
        uint32_t arrive = misses + (stream->copy > 0 ? layer->n_from[MOE_FROM_HOST] : 0);
        double there = (step->top_k + n_shared - arrive) * one;
        bound.all_ns += waits ? (moved > there ? moved : there) + one : there;
        bound.reads_ns += disk;
    }
    return bound;
}

static void add_step(struct result *result, const struct moe_telemetry *step)
{
    result->sums.step++;
    result->sums.total_ns += step->total_ns;
    result->sums.waits += step->waits;
    result->sums.launches += step->launches;
    result->sums.shared_out |= step->shared_out;
    for (int i = 0; i < MOE_INTERVALS; i++)
        result->sums.ns[i] += step->ns[i];
    for (uint32_t i = 0; i < step->n_moe_layers; i++) {
        const struct moe_layer_record *layer = &step->layers[i];
        for (int from = 0; from < MOE_ORIGINS; from++)
            result->asked += layer->n_from[from];
        result->hits +=
            layer->n_from[MOE_FROM_DEVICE] + layer->n_from[MOE_FROM_HOST] + layer->n_from[MOE_FROM_PREFETCH];
        result->bytes_read += (double)layer->bytes_disk;
        result->bytes_cached += (double)layer->bytes_cached;
        result->bytes_device += (double)layer->bytes_device;
    }
}

// Disks that are shared change within minutes: what plain reads give now, between the prompt and the answer, to what
// they gave at first.
static int measure_drift(struct stream *stream, moe_model *model)
{
    struct moe_cache_plan plan = moe_model_cache(model);
    unsigned depth = 0;
    while (depth + 1 < N_DEPTHS && depths[depth + 1] <= plan.readers)
        depth++;
    struct moe_raw_reads how = {depths[depth], plan.direct, drift_seconds, format_clock_ns()};
    double now = 0;
    bool same_way = plan.direct == stream->direct && stream->disk[depth] > 0;
    int code = plan.all || !same_way ? 0 : moe_model_measure_reads(model, &how, &now, &stream->err);
    stream->drifts = now > 0;
    stream->drift = now > 0 ? now / stream->disk[depth] : 1;
    return code;
}

// Samples an answer. Its ids follow from the logits alone.
static int answer(struct stream *stream, moe_model *model, moe_session *session, struct result *result)
{
    const struct moe_description *about = moe_model_describe(model);
    struct moe_cache_plan plan = moe_model_cache(model);
    struct moe_sampling sampling = {.temperature = 0.8F, .top_p = 0.95F, .repetition_penalty = 1, .seed = 7};
    moe_sampler *sampler = moe_sampler_new(&sampling, about->vocab_size);
    if (!sampler)
        return backend_fail(&stream->err, MOE_NO_MEMORY, "no memory for the sampler");
    uint64_t hash = BENCH_HASH_BEGIN, took_ns = 0;
    struct bound bound = {0};
    int code = 0;
    for (uint32_t i = 0; i < stream->options->asked.decode_tokens && code == 0; i++) {
        const float *logits = moe_session_logits(session, &stream->err);
        int32_t id = logits ? moe_sample(sampler, logits, NULL, 0) : -1;
        code = logits ? moe_session_decode(session, id, &stream->err) : (int)stream->err.code;
        if (code)
            break;
        const struct moe_telemetry *step = moe_session_telemetry(session);
        hash = bench_hash(hash, &id, sizeof id);
        took_ns += step->total_ns;
        struct bound best = bound_of(stream, step, &plan, about->n_shared_experts);
        bound.all_ns += best.all_ns;
        bound.reads_ns += best.reads_ns;
        add_step(result, step);
    }
    moe_sampler_free(sampler);
    const float *logits = code ? NULL : moe_session_logits(session, &stream->err);
    if (!logits)
        return code ? code : (int)stream->err.code;
    result->decode[result->runs] = json_out_rate(stream->options->asked.decode_tokens, took_ns);
    double compute_ns = stream->options->asked.decode_tokens * calibrated_token_ns(&stream->calibration, about);
    result->ratio[result->runs] = bound.all_ns > 0 ? (double)took_ns / bound.all_ns : 0;
    result->reads_ratio[result->runs] =
        bound.reads_ns >= READS_RULE * compute_ns ? (double)took_ns / bound.reads_ns : 0;
    result->hash = bench_hash(hash, logits, about->vocab_size * sizeof *logits);
    return 0;
}

// The disk's best with at most so many reads at once, as it is now.
static double fastest_reads(const struct stream *stream, unsigned readers)
{
    double best = stream->disk[0];
    for (int i = 1; i < N_DEPTHS && depths[i] <= readers; i++)
        best = stream->disk[i] > best ? stream->disk[i] : best;
    return best * stream->drift;
}

static int measure_once(struct stream *stream, moe_model *model, const struct variant *variant, struct result *result)
{
    moe_session *session;
    int code = open_session(stream, model, variant, &session);
    struct moe_feed feed = {.ids = stream->ids, .count = stream->options->asked.prefill_tokens};
    if (code)
        return code;
    uint64_t began = format_clock_ns();
    code = moe_session_prefill(session, &feed, &stream->err);
    uint64_t took_ns = format_clock_ns() - began;
    if (code == 0)
        code = measure_drift(stream, model);
    result->prefill[result->runs] = json_out_rate(feed.count, took_ns);
    result->read_share[result->runs] = json_out_rate(moe_session_stats(session).bytes_read, took_ns) /
                                       fastest_reads(stream, moe_model_cache(model).readers);
    result->drift[result->runs] = stream->drifts ? stream->drift : 0;
    if (code == 0)
        code = answer(stream, model, session, result);
    result->runs += code == 0;
    moe_session_close(session);
    if (code == 0 && stream->hash == 0)
        stream->hash = result->hash;
    stream->differs |= code == 0 && result->hash != stream->hash;
    return code;
}

// Decodes a token twice: the second time its experts are there.
static int calibrate(struct stream *stream, moe_model *model)
{
    enum { TRIES = 9 };
    const struct moe_description *about = moe_model_describe(model);
    static const struct variant plain = {.session = {.prefetch = MOE_PREFETCH_OFF}};
    double other[TRIES], experts[TRIES];
    moe_session *session;
    int code = open_session(stream, model, &plain, &session);
    if (code)
        return code;
    struct moe_feed feed = {.ids = stream->ids, .count = stream->options->asked.prefill_tokens};
    code = moe_session_prefill(session, &feed, &stream->err);
    for (int i = 0; i < 2 * TRIES && code == 0; i++) {
        code = moe_session_truncate(session, (uint32_t)feed.count, &stream->err);
        if (code == 0)
            code = moe_session_decode(session, stream->ids[(size_t)(i / 2) % feed.count], &stream->err);
        const struct moe_telemetry *step = moe_session_telemetry(session);
        if (code || i % 2 == 0)
            continue;
        experts[i / 2] = (double)step->ns[MOE_ON_EXPERTS];
        other[i / 2] =
            (double)(step->total_ns - step->ns[MOE_ON_EXPERTS] - step->ns[MOE_ON_DISK] - step->ns[MOE_ON_COPY]);
    }
    moe_session_close(session);
    if (code)
        return code;
    double used = (double)about->n_moe_layers * (about->top_k + about->n_shared_experts);
    stream->calibration = (struct calibration){bench_median(other, TRIES), bench_median(experts, TRIES) / used};
    return 0;
}

static int measure_ceilings(struct stream *stream, moe_model *model)
{
    struct moe_cache_plan plan = moe_model_cache(model);
    int code = 0;
    struct process_reads before = process_reads_now();
    stream->direct = plan.direct;
    for (int i = 0; i < N_DEPTHS && code == 0; i++) {
        progress_show(&stream->progress,
                      &(struct moe_progress){
                          .what = "measuring the disk", .unit = "depths", .done = (uint64_t)i, .total = N_DEPTHS});
        struct moe_raw_reads how = {depths[i], plan.direct, raw_seconds, (uint64_t)i + 1};
        code = moe_model_measure_reads(model, &how, &stream->disk[i], &stream->err);
    }
    struct process_reads after = process_reads_now();
    uint64_t delivered, called = after.call_bytes - before.call_bytes;
    stream->from_device = -1;
    if (process_reads_between(&before, &after, &delivered) && called)
        stream->from_device = delivered < called ? (double)delivered / (double)called : 1;
    if (code == 0)
        code = moe_model_measure_copies(model, raw_seconds, &stream->copy, &stream->err);
    return code;
}

// One after the other, the ceiling first: both see the same machine.
static int measure_pairs(struct stream *stream, moe_model *model, bool from_host, struct alone *alone)
{
    struct moe_cache_plan plan = moe_model_cache(model);
    uint32_t both = 2 * moe_model_describe(model)->top_k; // requests at once
    double rates[N_PAIRS], ceilings[N_PAIRS], ratios[N_PAIRS];
    for (int i = 0; i < N_PAIRS; i++) {
        struct moe_raw_reads raw = {plan.readers < both ? plan.readers : both, plan.direct, fetch_seconds,
                                    (uint64_t)i + 100};
        struct moe_fetches fetches = {from_host, fetch_seconds, (uint64_t)i + 200};
        progress_show(&stream->progress,
                      &(struct moe_progress){
                          .what = "fetching experts", .unit = "rounds", .done = (uint64_t)i, .total = N_PAIRS});
        int code = from_host ? moe_model_measure_copies(model, fetch_seconds, &ceilings[i], &stream->err)
                             : moe_model_measure_reads(model, &raw, &ceilings[i], &stream->err);
        if (code == 0)
            code = moe_model_measure_fetches(model, &fetches, &rates[i], &stream->err);
        if (code)
            return code;
        ratios[i] = ceilings[i] > 0 ? rates[i] / ceilings[i] : 0;
    }
    *alone =
        (struct alone){bench_median(rates, N_PAIRS), bench_median(ceilings, N_PAIRS), bench_median(ratios, N_PAIRS)};
    return 0;
}

// With a small cache on the device, so that hardly an expert is found there, and for the copies as many in the host's
// as 4 GiB hold.
static int measure_alone(struct stream *stream, const struct moe_cache_plan *plan)
{
    uint64_t all = plan->experts * plan->slot_bytes, slots = 2 * plan->smallest_bytes, most = UINT64_C(4) << 30;
    for (int from_host = 0; from_host < (stream->copy > 0 ? 2 : 1); from_host++) {
        moe_model *model = NULL;
        struct variant variant = {.host_bytes = !from_host ? MOE_CACHE_NONE : all < most ? MOE_CACHE_ALL : most};
        int code = open_model(stream, slots < all ? slots : all, &variant, &model);
        if (code == 0)
            code = measure_pairs(stream, model, from_host, from_host ? &stream->from_host : &stream->from_disk);
        moe_model_close(model);
        if (code)
            return code;
    }
    return 0;
}

static void print_alone(struct stream *stream, const char *what, const struct alone *alone, const char *ceiling)
{
    bool beaten = alone->ratio > 0 && stream_is_beaten(1 / alone->ratio);
    stream->beaten |= beaten;
    if (alone->ceiling > 0)
        stream_say(
            stream->columns,
            "  experts %s, no compute: %.2f GB/s, %s beside them %.2f; by turns, %.0f %%%s of them in the median of %d "
            "pairs\n",
            what, alone->rate / 1e9, ceiling, alone->ceiling / 1e9, 100 * alone->ratio, beaten ? "*" : "", N_PAIRS);
}

static void print_head(const struct stream *stream, const moe_model *model)
{
    struct moe_cache_plan plan = moe_model_cache(model);
    const struct options *options = stream->options;
    const char *const names[] = {moe_model_describe(model)->name, moe_model_device(model)};
    report_text(stdout, names[0], strlen(names[0]));
    printf(" on ");
    report_text(stdout, names[1], strlen(names[1]));
    char runs[64];
    stream_say(stream->columns, "%s%s; %" PRIu32 " tokens of prompt, %" PRIu32 " of answer\n",
               stream->columns ? "\n  " : ", ",
               bench_runs_words(runs, sizeof runs, options->asked.runs, "interleaved runs"),
               options->asked.prefill_tokens, options->asked.decode_tokens);
    const double *disk = stream->disk;
    stream_say(stream->columns,
               "  random reads of whole experts (%.2f MB), %s: %.2f %.2f %.2f %.2f %.2f GB/s at depth 1, 2, 4, 8, 16\n",
               (double)plan.slot_bytes / 1e6, plan.direct ? "past the page cache" : "through the page cache",
               disk[0] / 1e9, disk[1] / 1e9, disk[2] / 1e9, disk[3] / 1e9, disk[4] / 1e9);
    if (stream->from_device >= 0 && stream->from_device < 0.9)
        stream_say(
            stream->columns,
            "  of these bytes the disk delivered %.0f %%; the others were in the page cache: the speed of the disk is "
            "another\n",
            100 * stream->from_device);
    if (stream->copy > 0)
        printf("  copy from page-locked memory to the device: %.1f GB/s\n", stream->copy / 1e9);
    stream_say(stream->columns, "  a token with every expert cached: %.2f ms, of which %.3f ms per expert\n",
               calibrated_token_ns(&stream->calibration, moe_model_describe(model)) / 1e6,
               stream->calibration.expert_ns / 1e6);
    fflush(stdout);
}

static void print_columns(struct stream *stream)
{
    print_alone(stream, "read", &stream->from_disk, "plain reads");
    print_alone(stream, "copied to the device", &stream->from_host, "plain copies");
    putchar('\n');
    stream_say(
        stream_text_columns(stream->columns),
        "  read %%: the share of the prompt's time that its reads need at the speeds above. bound x: a token's time, "
        "as a multiple of the best that the speeds above allow (see moechat(1)); reads x: as a multiple of its reads "
        "alone, where they take %d times the compute. 1.00 is as fast as those speeds allow, 1.10 the goal. now %%: "
        "the speed of reads during this row, compared with the one above; - where they go another way than those, or "
        "none is needed. disk, cached: what a token read from the "
        "disk, and what was in the page cache.\n",
        READS_RULE);
    stream_table_head(stream->columns);
    fflush(stdout);
}

static void add_row(struct json_out *out, const struct stream_row *row, const struct moe_cache_plan *plan,
                    double launches)
{
    json_out_open(out, NULL, '{');
    json_out_string(out, "name", row->name);
    json_out_whole(out, "cache_bytes", row->cache_bytes);
    json_out_whole(out, "host_cache_bytes", plan->host_cache_bytes);
    json_out_real(out, "prefill_tokens_per_s", row->prefill);
    json_out_real(out, "decode_tokens_per_s", row->decode);
    json_out_real(out, "hits", row->hits);
    json_out_real(out, "disk_bytes_per_token", row->disk);
    json_out_real(out, "page_cache_bytes_per_token", row->page_cache);
    json_out_real(out, "copied_bytes_per_token", row->copied);
    json_out_real(out, "prefill_read_share", row->read_share);
    json_out_real(out, "waits_per_token", row->waits);
    json_out_real(out, "launches_per_token", launches);
    json_out_flag(out, "estimated", row->estimated);
    json_out_open(out, "ms_per_token", '{');
    for (int i = 0; i < MOE_INTERVALS; i++)
        if (stream_is_engines(i))
            json_out_real(out, figures_interval_name((enum moe_interval)i), row->ms[i]);
    json_out_close(out, '}');
    json_out_real(out, "reads_now_to_first", row->drift > 0 ? row->drift : NAN); // null: not measured
    json_out_real(out, "time_to_bound", row->ratio);
    json_out_flag(out, "bound_holds", !stream_is_beaten(row->ratio));
    json_out_real(out, "time_to_reads", row->reads_ratio > 0 ? row->reads_ratio : NAN); // null: they don't bound it
    json_out_close(out, '}');
}

static void print_row(struct stream *stream, const char *name, const moe_model *model, struct result *result)
{
    struct moe_cache_plan plan = moe_model_cache(model);
    double tokens = (double)result->sums.step;
    struct stream_row row = {.name = name,
                             .cache_bytes = plan.cache_bytes,
                             .prefill = bench_median(result->prefill, result->runs),
                             .decode = bench_median(result->decode, result->runs),
                             .read_share = bench_median(result->read_share, result->runs),
                             .hits = result->hits / result->asked,
                             .drift = bench_median(result->drift, result->runs),
                             .disk = (result->bytes_read - result->bytes_cached) / tokens,
                             .page_cache = result->bytes_cached / tokens,
                             .copied = result->bytes_device / tokens,
                             .waits = (double)result->sums.waits / tokens,
                             .estimated = result->sums.shared_out,
                             .ratio = bench_median(result->ratio, result->runs),
                             .reads_ratio = bench_median(result->reads_ratio, result->runs)};
    for (int i = 0; i < MOE_INTERVALS; i++)
        row.ms[i] = (double)result->sums.ns[i] / tokens / 1e6;
    stream->measured = true;
    if (stream->options->asked.json) {
        add_row(&stream->rows, &row, &plan, (double)result->sums.launches / tokens);
        return;
    }
    stream->beaten |= stream_is_beaten(row.ratio) || stream_is_beaten(row.reads_ratio);
    stream->beaten |= stream_is_beaten(stream_time_to_reads(row.read_share));
    stream_table_row(stream->columns, &row);
    fflush(stdout);
}

// The text that --only has at `only`, up to its comma, is in the name. An empty one is in every name.
static bool is_in_name(const struct variant *variant, const char *only)
{
    size_t length = strcspn(only, ",");
    for (const char *at = variant->name; strlen(at) >= length; at++)
        if (memcmp(at, only, length) == 0)
            return true;
    return false;
}

// The next text of --only, NULL: there is none.
static const char *next_text(const char *only)
{
    only += strcspn(only, ",");
    return *only ? only + 1 : NULL;
}

static bool is_asked_for(const struct stream *stream, const struct variant *variant)
{
    bool asked = !stream->options->asked.only;
    for (const char *only = stream->options->asked.only; only && !asked; only = next_text(only))
        asked = is_in_name(variant, only);
    return asked;
}

// Each text of --only names a row. Otherwise says which does not, and what rows there are.
static bool names_rows(const char *given)
{
    for (const char *only = given; only; only = next_text(only)) {
        bool found = false;
        char names[1024];
        int end = 0;
        for (unsigned v = 0; v < N_VARIANTS && end < (int)sizeof names; v++) {
            found = found || is_in_name(&variants[v], only);
            end += snprintf(names + end, sizeof names - (size_t)end, "%s%s", v ? ", " : "", variants[v].name);
        }
        if (!found) {
            report("--only: no row is named like \"%.*s\"; the rows are: %s", (int)strcspn(only, ","), only, names);
            return false;
        }
    }
    return true;
}

// What needs a cache on the host, and one that keeps anything.
static bool has_meaning(const struct variant *variant, const moe_model *model)
{
    struct moe_cache_plan plan = moe_model_cache(model);
    if (variant->model.write_back && plan.host_only_passes)
        return false;
    return plan.host_slots || !(variant->host_bytes || variant->model.write_back);
}

// The variants of a model that is open, in turns.
static int measure_sessions(struct stream *stream, moe_model *model, unsigned n)
{
    struct result *results = calloc(n, sizeof *results);
    int code = results ? 0 : backend_fail(&stream->err, MOE_NO_MEMORY, "no memory for the results");
    for (size_t run = 0; run < stream->options->asked.runs && code == 0; run++)
        for (unsigned v = 0; v < n && code == 0; v++) {
            progress_show(&stream->progress, &(struct moe_progress){.what = variants[v].name,
                                                                    .unit = "runs",
                                                                    .done = run,
                                                                    .total = stream->options->asked.runs});
            if (!variants[v].reopens && is_asked_for(stream, &variants[v]))
                code = measure_once(stream, model, &variants[v], &results[v]);
        }
    progress_clear(&stream->progress);
    for (unsigned v = 0; v < n && code == 0; v++)
        if (results[v].runs)
            print_row(stream, variants[v].name, model, &results[v]);
    free(results);
    return code;
}

// Those that need a model of their own: opened for each run, so that they take turns too.
static int measure_models(struct stream *stream, uint64_t budget)
{
    struct result *results = calloc(N_VARIANTS, sizeof *results);
    int code = results ? 0 : backend_fail(&stream->err, MOE_NO_MEMORY, "no memory for the results");
    for (size_t run = 0; run < stream->options->asked.runs && code == 0; run++)
        for (unsigned v = 0; v < N_VARIANTS && code == 0; v++) {
            moe_model *model = NULL;
            if (!variants[v].reopens || !is_asked_for(stream, &variants[v]))
                continue;
            code = open_model(stream, budget, &variants[v], &model);
            if (code == 0 && !has_meaning(&variants[v], model)) {
                moe_model_close(model);
                continue;
            }
            struct result warm_up = {0};
            if (code == 0)
                code = measure_once(stream, model, &variants[v], &warm_up);
            if (code == 0)
                code = measure_once(stream, model, &variants[v], &results[v]);
            progress_clear(&stream->progress);
            if (code == 0 && run + 1 == stream->options->asked.runs)
                print_row(stream, variants[v].name, model, &results[v]);
            moe_model_close(model);
        }
    free(results);
    return code;
}

// From the largest cache to the smallest; all variants at about a quarter of the experts.
static int measure_budgets(struct stream *stream, const struct moe_cache_plan *plan)
{
    uint64_t all = plan->experts * plan->slot_bytes, largest = plan->cache_bytes;
    const uint64_t budgets[N_BUDGETS] = {largest, all / 2, all / 4, all / 8, plan->smallest_bytes};
    bool given = options_given(stream->options, "expert-cache");
    int code = 0;
    for (int i = 0; i < (given ? 1 : N_BUDGETS) && code == 0; i++) {
        bool full = given || i == 2;
        if (budgets[i] > largest || budgets[i] < plan->smallest_bytes || (i && !full && budgets[i] == largest))
            continue;
        moe_model *model = NULL;
        code = open_model(stream, budgets[i], &variants[0], &model);
        struct result warm_up = {0};
        if (code == 0)
            code = measure_once(stream, model, &variants[0], &warm_up);
        if (code == 0)
            code = measure_sessions(stream, model, full ? N_VARIANTS : N_PLAIN);
        moe_model_close(model);
        if (code == 0 && full)
            code = measure_models(stream, budgets[i]);
    }
    return code;
}

static int measure(struct stream *stream, int *status)
{
    moe_model *model = NULL;
    *status = STATUS_MODEL;
    int code = open_model(stream, stream->options->model.expert_cache, &variants[0], &model);
    if (code)
        return code;
    *status = STATUS_FAILED;
    struct moe_cache_plan plan = moe_model_cache(model);
    stream->ids = bench_ids(stream->options->asked.prefill_tokens, moe_model_describe(model)->vocab_size);
    if (!stream->ids)
        code = backend_fail(&stream->err, MOE_NO_MEMORY, "no memory for the token ids");
    if (code == 0)
        code = measure_ceilings(stream, model);
    if (code == 0)
        code = calibrate(stream, model);
    progress_clear(&stream->progress);
    if (code == 0 && !stream->options->asked.json)
        print_head(stream, model);
    moe_model_close(model);
    if (code == 0)
        code = measure_alone(stream, &plan);
    progress_clear(&stream->progress);
    if (code == 0 && !stream->options->asked.json)
        print_columns(stream);
    return code ? code : measure_budgets(stream, &plan);
}

// null: not measured, the device shares the host's memory.
static void add_alone(struct json_out *out, const char *key, const struct alone *alone)
{
    if (!(alone->ceiling > 0)) {
        json_out_null(out, key);
        return;
    }
    json_out_open(out, key, '{');
    json_out_real(out, "bytes_per_s", alone->rate);
    json_out_real(out, "ceiling_bytes_per_s", alone->ceiling);
    json_out_real(out, "ratio", alone->ratio);
    json_out_close(out, '}');
}

static int finish(struct stream *stream)
{
    bool failed = stream->differs || !stream->measured;
    if (stream->differs)
        report("answers differ between rows; they must be the same");
    if (!stream->measured)
        report("--only: nothing was measured; these rows need a host cache, and this device and budget have none");
    if (!stream->options->asked.json && stream->beaten)
        stream_say(
            stream_text_columns(stream->columns),
            "\n  * better than possible: what it is compared with was measured slower than it was here, by a disk that "
            "was busy or a page cache that was cold then and warm now. It says nothing but that no time was lost.\n");
    if (!stream->options->asked.json)
        return failed ? STATUS_FAILED : STATUS_DONE;
    struct json_out out = {0};
    json_out_open(&out, NULL, '{');
    json_out_open(&out, "reads_bytes_per_s", '[');
    for (int i = 0; i < N_DEPTHS; i++)
        json_out_real(&out, NULL, stream->disk[i]);
    json_out_close(&out, ']');
    json_out_real(&out, "reads_from_disk_share", stream->from_device >= 0 ? stream->from_device : NAN);
    json_out_real(&out, "copy_bytes_per_s", stream->copy);
    add_alone(&out, "fetched_from_disk", &stream->from_disk);
    add_alone(&out, "fetched_from_host", &stream->from_host);
    json_out_real(&out, "expert_ms", stream->calibration.expert_ns / 1e6);
    json_out_real(&out, "other_ms", stream->calibration.other_ns / 1e6);
    json_out_flag(&out, "same_answers", !stream->differs);
    json_out_close(&stream->rows, ']');
    json_out_part(&out, "rows", &stream->rows);
    json_out_close(&out, '}');
    int status = json_out_finish(&out);
    return failed ? STATUS_FAILED : status;
}

int cmd_bench_stream(const struct options *options)
{
    if (!names_rows(options->asked.only))
        return STATUS_USAGE;
    struct stream stream = {.options = options, .directory = files_model(options->model.directory)};
    int status = STATUS_FAILED;
    stream.progress = (struct progress){.out = isatty(STDERR_FILENO) ? stderr : NULL, .plain = term_is_dumb()};
    stream.columns = isatty(STDOUT_FILENO) ? term_columns() : 0;
    json_out_open(&stream.rows, NULL, '[');
    int code = stream.directory ? 0 : backend_fail(&stream.err, MOE_NO_MEMORY, "no memory");
    if (code == 0 && options->asked.runs > MAX_RUNS)
        code = backend_fail(&stream.err, MOE_BAD_ARGUMENT, "bench stream takes at most %d runs", MAX_RUNS);
    if (code == 0)
        code = measure(&stream, &status);
    progress_clear(&stream.progress);
    if (code)
        report("%s", stream.err.text);
    else
        status = finish(&stream);
    json_out_release(&stream.rows);
    free(stream.directory);
    free(stream.ids);
    return status;
}
