// SPDX-License-Identifier: GPL-3.0-or-later
// What small models of each family do, step by step, on plain C: launches, which experts and where they were, rows,
// progress, stages, predictions and plans, in every way that a session can be asked for. The numbers that they compute
// are the goldens'; here stands how often and in what order, which changes no number.
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/moe.h"
#include "tests/cases.h"

enum { N_PROMPT = 13, N_AGAIN = 5, N_DECODED = 4, CONTEXT = 96, MOST_IDS = N_PROMPT + N_AGAIN + N_DECODED };

// How a model is opened and fed.
struct way {
    const char *name;
    uint64_t cache, host; // 0: the smallest; 1: half of what is between that and all
    bool two_tiers;
    enum moe_kv_type kv_type;
    struct moe_session_options session;
};

static const struct way ways[] = {
    {.name = "all", .cache = MOE_CACHE_ALL, .kv_type = MOE_KV_F16},
    {.name = "all, streamed", .cache = MOE_CACHE_ALL, .session.without = MOE_WITHOUT_RESIDENT},
    {.name = "all, one by one", .cache = MOE_CACHE_ALL, .session.without = MOE_WITHOUT_BATCHES | MOE_WITHOUT_FUSED},
    {.name = "smallest", .session = {.prefill_chunk = 8, .prefill_group = 8, .ring = 1}},
    {.name = "half", .cache = 1, .kv_type = MOE_KV_F16, .session = {.prefill_chunk = 3, .prefill_group = 9}},
    {.name = "half, token by token", .cache = 1, .session = {.prefill_chunk = 1}},
    {.name = "half, predicted", .cache = 1, .session = {.prefetch = MOE_PREFETCH_ROUTER_SHARED, .ring = 1}},
    {.name = "two tiers", .two_tiers = true, .host = 1, .session = {.prefill_chunk = 32}},
    {.name = "two tiers, all", .two_tiers = true, .host = MOE_CACHE_ALL, .cache = 1},
};

static void say_description(struct cases *cases, const struct moe_description *d)
{
    cases_say(cases, "%s %s, %s, template %s\n", d->model_type, d->layout, d->mixers, d->template_name);
    cases_say(cases, "layers %u, %u of experts, %u + %u, %u a token; hidden %u, heads %u\n", d->n_layers,
              d->n_moe_layers, d->n_routed_experts, d->n_shared_experts, d->top_k, d->hidden_size, d->n_heads);
    cases_say(cases, "%" PRIu64 " parameters, %" PRIu64 " active in %" PRIu64 " bytes, resident %" PRIu64 "\n",
              d->parameters, d->active_parameters, d->active_bytes, d->resident_bytes);
    cases_say(cases, "an expert %" PRIu64 " in %u reads, all %" PRIu64 "; a row %" PRIu64 ", states %" PRIu64 "\n",
              d->expert_bytes, d->expert_reads, d->all_experts_bytes, d->kv_row_bytes_f32, d->state_bytes);
}

static void say_plan(struct cases *cases, const struct moe_cache_plan *p)
{
    cases_say(cases, "slots %" PRIu64 " of %" PRIu64 ", %" PRIu64 "; host %" PRIu64 ", %" PRIu64 "; smallest %" PRIu64,
              p->slots, p->slot_bytes, p->cache_bytes, p->host_slots, p->host_cache_bytes, p->smallest_bytes);
    cases_say(cases, " all %d passes %d layers' %d experts %" PRIu64 ", a token's %" PRIu64 "\n", p->all,
              p->host_only_passes, p->per_layer, p->experts, p->token_experts);
    cases_say(cases,
              "resident %" PRIu64 " cold %" PRIu64 " states %" PRIu64 ", %" PRIu64 "; a row %" PRIu64 ", %u %d\n",
              p->resident_bytes, p->cold_bytes, p->state_bytes, p->snapshot_bytes, p->row_bytes, p->context,
              p->context_chosen);
}

// Experts compute as they arrive, so that how many go in one launch is chance unless all are there.
static bool all_there(const struct moe_telemetry *s)
{
    bool there = true;
    for (uint32_t l = 0; l < s->n_moe_layers; l++)
        for (int i = MOE_FROM_DEVICE + 1; i < MOE_ORIGINS; i++)
            there = there && s->layers[l].n_from[i] == 0;
    return there;
}

// With a small host cache it is chance which expert has left it by then: what comes from there and from disk is told
// together. Which prediction was in time is chance, too: then nothing is told.
enum places { ALL_PLACES, HOST_OR_DISK, NO_PLACES };

static enum places places_of(const struct way *way)
{
    return way->session.prefetch ? NO_PLACES : way->host == 1 ? HOST_OR_DISK : ALL_PLACES;
}

static void say_step(struct cases *cases, const moe_session *session, enum places places)
{
    const struct moe_telemetry *s = moe_session_telemetry(session);
    cases_say(cases, "step %" PRIu64 " at %u: %u rows, %d %d, length %u", s->step, s->position, s->rows, s->decode,
              s->stopped, moe_session_length(session));
    if (places != NO_PLACES && all_there(s))
        cases_say(cases, ", %" PRIu64 " launches", s->launches);
    for (uint32_t l = 0; l < s->n_moe_layers; l++) {
        const struct moe_layer_record *layer = &s->layers[l];
        cases_say(cases, "\n %u:", layer->layer);
        for (int i = 0; places == ALL_PLACES && i < MOE_ORIGINS; i++)
            cases_say(cases, " %u", layer->n_from[i]);
        if (places == HOST_OR_DISK)
            cases_say(cases, " %u %u", layer->n_from[MOE_FROM_DEVICE],
                      layer->n_from[MOE_FROM_HOST] + layer->n_from[MOE_FROM_DISK]);
        for (uint32_t k = 0; s->choices && k < s->top_k; k++)
            cases_say(cases, "%c%u from %u", k ? ',' : ';', s->choices[l * s->top_k + k].expert,
                      places == ALL_PLACES ? s->choices[l * s->top_k + k].origin : 0);
    }
    cases_say(cases, "\n");
}

struct heard {
    struct cases *cases;
    uint64_t done, total;
};

static void hear_progress(void *context, const struct moe_progress *progress)
{
    struct heard *heard = context;
    if (progress->done == progress->total && heard->done != heard->total)
        cases_say(heard->cases, "%s %" PRIu64 " of %" PRIu64 " %s\n", progress->what, progress->done, progress->total,
                  progress->unit);
    heard->done = progress->done, heard->total = progress->total;
}

static void hear_hidden(void *context, uint32_t stage, uint32_t position, uint32_t rows, const float *hidden)
{
    struct heard *heard = context;
    cases_say(heard->cases, "stage %u at %u: %u rows%s\n", stage, position, rows, hidden ? "" : ", none");
}

static int hear_row(void *context, uint32_t position, const float *logits)
{
    struct heard *heard = context;
    cases_say(heard->cases, "row %u%s\n", position, logits ? "" : ", none");
    return 0;
}

static void hear_predictions(void *context, uint32_t position, const struct moe_prediction *predictions)
{
    cases_say(context, "predicted for %u:", position);
    for (int i = 0; i < MOE_PREDICTORS; i++)
        cases_say(context, " %u of %u", predictions[i].right, predictions[i].predicted);
    cases_say(context, "\n");
}

static void say_session(struct harness *t, struct cases *cases, moe_session *session, enum places places)
{
    int32_t ids[MOST_IDS];
    struct moe_err err = {.text = ""};
    struct heard heard = {.cases = cases, .total = 1};
    for (int i = 0; i < MOST_IDS; i++)
        ids[i] = (i * 37 + i * i) % 96;
    struct moe_feed feed = {
        .ids = ids, .count = N_PROMPT, .borders = {5, 11}, .progress = hear_progress, .context = &heard};
    CHECK_EQ(t, moe_session_prefill(session, &feed, &err), 0);
    say_step(cases, session, places);
    feed = (struct moe_feed){.ids = ids + N_PROMPT,
                             .count = N_AGAIN,
                             .position = N_PROMPT,
                             .on_row = hear_row,
                             .on_hidden = hear_hidden,
                             .context = &heard};
    CHECK_EQ(t, moe_session_prefill(session, &feed, &err), 0);
    say_step(cases, session, places);
    for (int i = N_PROMPT + N_AGAIN; i < MOST_IDS; i++) {
        CHECK_EQ(t, moe_session_decode(session, ids[i], &err), 0);
        say_step(cases, session, places);
    }
    for (uint32_t length = 0; length <= MOST_IDS + 1; length++)
        cases_say(cases, "%s%u", length ? " " : "floors ", moe_session_floor(session, length));
    struct moe_stats stats = moe_session_stats(session);
    cases_say(cases, "\n%" PRIu64 " + %" PRIu64 " tokens, %" PRIu64 " waits, asked %" PRIu64 "\n",
              stats.prefilled_tokens, stats.decoded_tokens, stats.waits, stats.hits + stats.misses);
    if (places == ALL_PLACES)
        cases_say(cases, "hits %" PRIu64 ", evictions %" PRIu64 ", %" PRIu64 " bytes\n", stats.hits, stats.evictions,
                  stats.bytes_read);
    if (*err.text)
        printf("%s\n", err.text);
}

// A test's own reads: the disk is not measured.
static ptrdiff_t plain_read(void *context, int fd, void *target, size_t length, uint64_t offset)
{
    (void)context;
    return pread(fd, target, length, (off_t)offset);
}

static void say_way(struct harness *t, struct cases *cases, const char *directory, const struct way *way)
{
    struct moe_cache_plan plan;
    struct moe_err err;
    struct moe_model_options options = {.device = "ref",
                                        .expert_cache_bytes = MOE_CACHE_ALL,
                                        .context = CONTEXT,
                                        .kv_type = way->kv_type,
                                        .io = MOE_IO_BUFFERED,
                                        .readers = 2,
                                        .force_two_tiers = way->two_tiers,
                                        .read = plain_read};
    struct moe_session_options session_options = way->session;
    moe_model *model = NULL;
    moe_session *session = NULL;
    if (session_options.prefetch) {
        session_options.on_predictions = hear_predictions;
        session_options.predictions_context = cases;
    } else {
        session_options.prefetch = MOE_PREFETCH_OFF;
    }
    session_options.kv_type = way->kv_type;
    session_options.without |= MOE_WITHOUT_READ_AHEAD; // which ends when the choice is known, by chance
    cases_say(cases, "== %s\n", way->name);
    int code = way->cache == MOE_CACHE_ALL ? 0 : moe_plan(directory, &options, &plan, &err);
    if (code == 0 && way->cache != MOE_CACHE_ALL) {
        uint64_t half = (plan.smallest_bytes + plan.cache_bytes) / 2;
        options.expert_cache_bytes = way->cache ? half : plan.smallest_bytes;
        options.host_cache_bytes = way->host == 1 ? half : way->host;
    }
    if (code || moe_model_open(directory, &options, &model, &err) ||
        moe_session_open(model, &session_options, &session, &err)) {
        printf("%s, %s: %s\n", directory, way->name, err.text);
        CHECK(t, 0);
    } else {
        plan = moe_model_cache(model);
        say_description(cases, moe_model_describe(model));
        say_plan(cases, &plan);
        say_session(t, cases, session, places_of(way));
    }
    moe_session_close(session);
    moe_model_close(model);
}

static void each_family_in_each_way(struct harness *t)
{
    static const struct {
        const char *name, *folder;
        uint64_t digest;
    } models[] = {
        {"tiny-a", "package", 0x7efe488e9bb68953},
        {"tiny-c", "package", 0xf50d708d13129ca6},
        {"ck-v3-groups-mlx", "checkpoint", 0x5f6407da758db315},
        {"ck-v32-mlx", "checkpoint", 0xc29fc972e2133bef},
        {"ck-glm-52-mlx", "checkpoint", 0x6cbe736399481470},
        {"ck-qwen35moe-mlx", "checkpoint", 0xd2cad22c6b277ba4},
        {"ck-qwen3next-mlx", "checkpoint", 0x77416408595349f6},
        {"ck-kimi-linear-mlx", "checkpoint", 0xc0e6c44487e4966f},
        {"ck-kimi-k3-mlx", "checkpoint", 0x7cf1113b6e55827c},
        {"gguf-glm5-next", "checkpoint", 0xfd7f17f7fc8de502},
        {"gguf-sizes", "checkpoint", 0x7e4792d4128e619c},
    };
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        struct cases cases = cases_begin(models[m].name);
        char directory[128];
        snprintf(directory, sizeof directory, "tests/golden/%s/%s", models[m].name, models[m].folder);
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
            say_way(t, &cases, directory, &ways[w]);
        if (cases.digest != models[m].digest)
            printf("%s:\n", models[m].name);
        CHECK_CASES(t, &cases, models[m].digest);
    }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(each_family_in_each_way)};
    return HARNESS_RUN(tests, argc, argv);
}
