// SPDX-License-Identifier: GPL-3.0-or-later
// Layers whose experts all have slots: their choice stays on the device, and nobody can tell but by the waits. Bits,
// records, counters, traces, errors and cancels are those of the streamed way.
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tests/harness.h"
#include "engine/model/model.h"
#include "engine/walk/telemetry.h"

#define MODEL "tests/golden/tiny-a/package"

enum { N_PROMPT = 60, N_TOKENS = 3 * TELEMETRY_EVERY };

static const char *const devices[] = {"ref", "cpu"};
enum { N_DEVICES = 2 };

struct opened {
    moe_model *model;
    moe_session *session;
    const char *trace;
    enum moe_prefetch prefetch;
};

static bool fail(struct harness *t, const struct moe_err *err)
{
    printf("    %s\n", err->text);
    return CHECK(t, 0);
}

static bool open_model(struct harness *t, const char *device, struct opened *o)
{
    struct moe_model_options options = {.device = device,
                                        .kernel_cache_dir = "build/cache/kernels",
                                        .expert_cache_bytes = MOE_CACHE_ALL,
                                        .trace_file = o->trace};
    struct moe_err err;
    return moe_model_open(MODEL, &options, &o->model, &err) ? fail(t, &err) : true;
}

// With a prompt after which every expert is there, unless it is shorter.
static bool open_session(struct harness *t, struct opened *o, unsigned without, int n_prompt)
{
    struct moe_session_options options = {.prefetch = o->prefetch, .without = without};
    struct moe_err err;
    int32_t ids[N_PROMPT];
    for (int i = 0; i < N_PROMPT; i++)
        ids[i] = (i * 37 + i * i) % 320;
    struct moe_feed feed = {.ids = ids, .count = (size_t)n_prompt};
    if (moe_session_open(o->model, &options, &o->session, &err) || moe_session_prefill(o->session, &feed, &err))
        return fail(t, &err);
    return true;
}

static void close_all(struct opened *o)
{
    moe_session_close(o->session);
    moe_model_close(o->model);
}

static int32_t likeliest(const moe_session *session)
{
    const float *logits = moe_session_logits(session, NULL);
    int32_t best = 0;
    for (int32_t i = 1; i < 320; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

static void a_token_waits_once(struct harness *t)
{
    for (int d = 0; d < N_DEVICES; d++) {
        struct opened o = {0};
        if (!open_model(t, devices[d], &o) || !open_session(t, &o, 0, N_PROMPT))
            continue;
        const struct moe_description *about = moe_model_describe(o.model);
        CHECK_EQ(t, moe_session_stats(o.session).misses, (uint64_t)about->n_moe_layers * about->n_routed_experts);
        uint64_t waits = 0, once = 0, shared_out = 0;
        for (int i = 0; i < N_TOKENS; i++) {
            CHECK_EQ(t, moe_session_decode(o.session, likeliest(o.session), NULL), 0);
            const struct moe_telemetry *step = moe_session_telemetry(o.session);
            uint64_t sum = 0;
            for (int k = 0; k < MOE_INTERVALS; k++)
                sum += step->ns[k];
            CHECK_EQ(t, sum, step->total_ns);
            CHECK(t, step->ns[MOE_ON_ATTENTION] && step->ns[MOE_ON_ROUTER] && step->ns[MOE_ON_EXPERTS] &&
                         step->ns[MOE_ON_HEAD]);
            waits += step->waits;
            once += step->waits == 1;
            shared_out += step->shared_out;
        }
        // One token in TELEMETRY_EVERY is looked at, which takes a wait for each part of each layer.
        bool waiting = strcmp(devices[d], "ref") != 0;
        CHECK_EQ(t, shared_out, N_TOKENS - N_TOKENS / TELEMETRY_EVERY);
        CHECK_EQ(t, once, waiting ? N_TOKENS - N_TOKENS / TELEMETRY_EVERY : 0);
        CHECK(t, waits <= N_TOKENS + N_TOKENS / TELEMETRY_EVERY * (uint64_t)(3 * about->n_layers));
        moe_session_close(o.session);
        if (open_session(t, &o, MOE_WITHOUT_RESIDENT, N_PROMPT)) {
            CHECK_EQ(t, moe_session_decode(o.session, 1, NULL), 0);
            CHECK(t, !waiting || moe_session_telemetry(o.session)->waits > about->n_moe_layers);
            CHECK(t, !moe_session_telemetry(o.session)->shared_out);
            // Streamed, a layer waits for its choice, and is looked at as rarely.
            CHECK_EQ(t, moe_session_decode(o.session, 2, NULL), 0);
            CHECK_EQ(t, moe_session_telemetry(o.session)->waits, waiting ? about->n_moe_layers + 1 : 0);
            CHECK(t, moe_session_telemetry(o.session)->shared_out);
        }
        close_all(&o);
    }
}

static void compare_steps(struct harness *t, const struct moe_telemetry *a, const struct moe_telemetry *b)
{
    CHECK(t, a->position == b->position && a->rows == b->rows && a->decode == b->decode && a->step == b->step);
    for (uint32_t l = 0; l < a->n_moe_layers; l++) {
        const struct moe_layer_record *x = &a->layers[l], *y = &b->layers[l];
        CHECK(t, x->layer == y->layer && memcmp(x->n_from, y->n_from, sizeof x->n_from) == 0);
        CHECK(t, x->wasted == y->wasted && x->bytes_disk == y->bytes_disk && x->bytes_device == y->bytes_device);
    }
    for (uint32_t k = 0; k < a->n_moe_layers * a->top_k; k++) {
        const struct moe_choice *x = &a->choices[k], *y = &b->choices[k];
        CHECK(t, x->expert == y->expert && x->origin == y->origin && memcmp(&x->weight, &y->weight, 4) == 0);
    }
}

static char *read_file(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 1 << 20);
    *bytes = file && text ? fread(text, 1, 1 << 20, file) : 0;
    if (file)
        fclose(file);
    return text;
}

// Prompts of 1 leave most layers to be streamed for a while; with a trace, those that could stay are streamed with
// them.
static void nobody_can_tell(struct harness *t)
{
    for (int run = 0; run < 4 * N_DEVICES; run++) {
        const char *device = devices[run / 4];
        int n_prompt = run & 1 ? N_PROMPT : 1, n = n_prompt == 1 ? N_TOKENS : 20;
        char traces[2][40] = {"/tmp/moechat-resident-XXXXXX", "/tmp/moechat-resident-XXXXXX"};
        struct opened o[2] = {0};
        bool fine = true;
        for (int i = 0; i < 2; i++) {
            close(mkstemp(traces[i]));
            o[i].prefetch = MOE_PREFETCH_OFF; // else the two read ahead, and not at the same time
            o[i].trace = run & 2 ? traces[i] : NULL;
            fine =
                fine && open_model(t, device, &o[i]) && open_session(t, &o[i], i ? MOE_WITHOUT_RESIDENT : 0, n_prompt);
        }
        for (int i = 0; i < n && fine; i++) {
            int32_t id = i % 5 ? likeliest(o[0].session) : i;
            for (int k = 0; k < 2; k++)
                CHECK_EQ(t, moe_session_decode(o[k].session, id, NULL), 0);
            fine = CHECK(t, memcmp(moe_session_logits(o[0].session, NULL), moe_session_logits(o[1].session, NULL),
                                   320 * sizeof(float)) == 0);
            compare_steps(t, moe_session_telemetry(o[0].session), moe_session_telemetry(o[1].session));
        }
        if (fine) {
            struct moe_stats a = moe_session_stats(o[0].session), b = moe_session_stats(o[1].session);
            const struct moe_description *about = moe_model_describe(o[0].model);
            size_t heat = (size_t)about->n_moe_layers * about->n_routed_experts * sizeof(uint32_t);
            CHECK(t, a.hits == b.hits && a.misses == b.misses && a.bytes_read == b.bytes_read && b.evictions == 0);
            CHECK(t, a.evictions == 0 && a.wasted == b.wasted && a.used == b.used);
            CHECK(t, strcmp(device, "ref") == 0 || a.waits < b.waits);
            CHECK(t, memcmp(moe_session_heat(o[0].session), moe_session_heat(o[1].session), heat) == 0);
        }
        size_t bytes[2];
        char *texts[2];
        for (int i = 0; i < 2; i++) {
            close_all(&o[i]);
            texts[i] = read_file(traces[i], &bytes[i]);
            unlink(traces[i]);
        }
        CHECK(t, bytes[0] == bytes[1] && memcmp(texts[0], texts[1], bytes[0]) == 0);
        CHECK_EQ(t, bytes[0] > 0, (run & 2) > 0);
        free(texts[0]), free(texts[1]);
    }
}

static void count_stages(void *context, uint32_t stage, uint32_t position, uint32_t rows, const float *hidden)
{
    uint64_t *hash = context;
    (void)position;
    for (uint32_t i = 0; i < rows * 64; i++) {
        uint32_t bits;
        memcpy(&bits, &hidden[i], sizeof bits);
        *hash = (*hash ^ bits ^ stage) * 1099511628211u;
    }
}

static int take_row(void *context, uint32_t position, const float *logits)
{
    (void)context, (void)position, (void)logits;
    return 0;
}

// A prompt through the decode kernels: tokens without a head, with one for each, and with hidden states.
static void prompts_token_by_token(struct harness *t)
{
    for (int d = 0; d < N_DEVICES; d++) {
        struct opened o = {0};
        if (!open_model(t, devices[d], &o) || !open_session(t, &o, 0, N_PROMPT))
            continue;
        moe_session_close(o.session);
        uint64_t hashes[2] = {1, 1};
        for (int way = 0; way < 2; way++) {
            struct moe_session_options options = {.prefill_chunk = 1, .without = way ? MOE_WITHOUT_RESIDENT : 0};
            const int32_t ids[] = {3, 1, 4, 1, 5, 9, 2, 6};
            CHECK_EQ(t, moe_session_open(o.model, &options, &o.session, NULL), 0);
            for (uint32_t i = 0; i < 3; i++) {
                struct moe_feed feed = {.ids = ids, .count = 8, .position = 8 * i, .context = &hashes[way]};
                feed.on_row = i == 1 ? take_row : NULL;
                feed.on_hidden = i == 2 ? count_stages : NULL;
                uint64_t hits = moe_session_stats(o.session).hits;
                CHECK_EQ(t, moe_session_prefill(o.session, &feed, NULL), 0);
                const struct moe_description *about = moe_model_describe(o.model);
                CHECK_EQ(t, moe_session_stats(o.session).hits - hits, 8 * about->top_k * about->n_moe_layers);
                for (int k = 0; k < 320; k++) {
                    uint32_t bits;
                    memcpy(&bits, &moe_session_logits(o.session, NULL)[k], sizeof bits);
                    hashes[way] = (hashes[way] ^ bits) * 1099511628211u;
                }
            }
            moe_session_close(o.session);
        }
        CHECK(t, hashes[0] == hashes[1]);
        moe_model_close(o.model);
    }
}

// Two sessions by turns, one of them cancelled now and then: each says what it says alone.
static void sessions_share_a_model(struct harness *t)
{
    for (int d = 0; d < N_DEVICES; d++) {
        struct opened a = {0}, b = {0};
        if (!open_model(t, devices[d], &a) || !open_session(t, &a, 0, N_PROMPT))
            continue;
        b.model = a.model;
        if (!open_session(t, &b, 0, N_PROMPT))
            continue;
        for (int i = 0; i < 30; i++) {
            struct moe_err err;
            if (i % 7 == 3) {
                moe_session_cancel(a.session);
                CHECK_EQ(t, moe_session_decode(a.session, 7, &err), MOE_CANCELLED);
                CHECK_EQ(t, moe_session_length(a.session), N_PROMPT + i);
                moe_session_resume(a.session);
            }
            int32_t id = i % 3 ? likeliest(b.session) : i;
            CHECK_EQ(t, moe_session_decode(a.session, id, &err), 0);
            CHECK_EQ(t, moe_session_decode(b.session, id, &err), 0);
            CHECK(t, memcmp(moe_session_logits(a.session, NULL), moe_session_logits(b.session, NULL),
                            320 * sizeof(float)) == 0);
        }
        moe_session_close(a.session);
        close_all(&b);
    }
}

// Not a number on its way into the last router: the token does not count, and the next has nothing of it.
static void bad_numbers_are_found(struct harness *t)
{
    for (int d = 0; d < N_DEVICES; d++) {
        struct opened o = {0};
        if (!open_model(t, devices[d], &o) || !open_session(t, &o, 0, N_PROMPT))
            continue;
        uint32_t last = o.model->package.shape.n_layers - 1;
        const struct vector *norm = &o.model->weights.layers[last].post_attention_layernorm;
        uint32_t kept, nan = 0x7fc00000;
        struct moe_err err;
        CHECK_EQ(t, gpu_read(o.model->gpu, norm->buf, norm->offset, &kept, sizeof kept, NULL), 0);
        gpu_write(o.model->gpu, norm->buf, norm->offset, &nan, sizeof nan);
        uint64_t hits = moe_session_stats(o.session).hits;
        CHECK_EQ(t, moe_session_decode(o.session, 3, &err), MOE_BAD_NUMBERS);
        CHECK_EQ(t, moe_session_length(o.session), N_PROMPT);
        if (strcmp(devices[d], "ref") == 0) { // whose router chooses one expert again and again
            CHECK_EQ(t, err.layer, (int)last);
            CHECK_EQ(t, moe_session_stats(o.session).hits, hits);
        }
        gpu_write(o.model->gpu, norm->buf, norm->offset, &kept, sizeof kept);
        CHECK_EQ(t, moe_session_decode(o.session, 3, &err), 0);
        CHECK_EQ(t, moe_session_telemetry(o.session)->layers[0].n_from[MOE_FROM_DEVICE], 3);
        close_all(&o);
    }
}

// What no token asked for is read meanwhile, so that a short prompt is enough for the last layer to stay.
static void missing_experts_are_read(struct harness *t)
{
    for (int run = 0; run < 4; run++) {
        struct opened o = {.prefetch = run & 1 ? MOE_PREFETCH_OFF : MOE_PREFETCH_AUTO};
        if (!open_model(t, "cpu", &o) || !open_session(t, &o, 0, 1))
            continue;
        struct timespec moment = {.tv_nsec = 1000000};
        int tokens = 0;
        uint64_t waits = 0;
        for (; tokens < N_TOKENS && waits != 1; tokens++) {
            CHECK_EQ(t, moe_session_truncate(o.session, 1, NULL), 0);
            CHECK_EQ(t, moe_session_decode(o.session, 7, NULL), 0); // the same experts each time
            waits = moe_session_telemetry(o.session)->waits;
            nanosleep(&moment, NULL);
        }
        struct moe_stats stats = moe_session_stats(o.session);
        struct moe_cache_plan plan = moe_model_cache(o.model);
        CHECK_EQ(t, waits == 1, o.prefetch == MOE_PREFETCH_AUTO);
        CHECK_EQ(t, stats.prefetched + stats.misses == plan.experts, o.prefetch == MOE_PREFETCH_AUTO);
        CHECK(t, stats.evictions == 0 && stats.wasted == 0);
        close_all(&o);
    }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(a_token_waits_once),     TEST(nobody_can_tell),       TEST(prompts_token_by_token),
        TEST(sessions_share_a_model), TEST(bad_numbers_are_found), TEST(missing_experts_are_read),
    };
    return HARNESS_RUN(tests, argc, argv);
}
