// SPDX-License-Identifier: GPL-3.0-or-later
// The residual stream: who reads it gets it by that reader's norm, looking changes nothing, and what is added is there,
// whether the next norm comes with it or by itself.
#include <math.h>
#include <stdlib.h>

#include "engine/model/model.h"
#include "engine/walk/pass.h"
#include "tests/harness.h"

enum { GROUP = 5, HIDDEN = 160 };

struct rig {
    moe_model *model;
    struct scratch scratch;
    struct stream stream;
    struct pass pass;
};

static struct rig *open_rig(struct harness *t, const char *device, unsigned without)
{
    struct rig *rig = calloc(1, sizeof *rig);
    struct moe_model_options options = {.device = device, .kernel_cache_dir = "build/cache/kernels"};
    struct moe_err err;
    if (!rig || moe_model_open("tests/golden/tiny-a/package", &options, &rig->model, &err)) {
        CHECK(t, false);
        exit(1);
    }
    moe_model *m = rig->model;
    struct stream_options s = {m->gpu, &m->package.shape, GROUP, without};
    if (!CHECK_EQ(t, m->package.shape.hidden_size, HIDDEN))
        exit(1);
    CHECK_EQ(t, stream_open(&s, &rig->stream, &err), 0);
    struct scratch_options scratch = {&m->package.shape, GROUP, GROUP, GROUP};
    CHECK_EQ(t, scratch_open(m->gpu, &scratch, &rig->scratch, &err), 0);
    rig->pass = (struct pass){.gpu = m->gpu,
                              .package = &m->package,
                              .shape = &m->package.shape,
                              .weights = &m->weights,
                              .scratch = &rig->scratch,
                              .stream = &rig->stream,
                              .rows = GROUP};
    const int32_t ids[GROUP] = {3, 1, 4, 1, 5};
    gpu_write(m->gpu, rig->scratch.buf[SCRATCH_IDS], 0, ids, sizeof ids);
    stream_begin(&rig->pass);
    return rig;
}

static void close_rig(struct harness *t, struct rig *rig)
{
    CHECK_EQ(t, gpu_finish(rig->model->gpu, NULL), 0);
    scratch_release(&rig->scratch);
    stream_release(&rig->stream);
    moe_model_close(rig->model);
    free(rig);
}

static void read_rows(struct harness *t, const struct rig *rig, struct rows rows, uint32_t n, float *out)
{
    CHECK_EQ(t, rows.stride, HIDDEN);
    CHECK_EQ(t, gpu_read(rig->model->gpu, rows.buf, rows.offset * sizeof *out, out, n * HIDDEN * sizeof *out, NULL), 0);
}

// Is y the norm of x by these weights?
static bool is_norm(struct harness *t, const struct rig *rig, const struct vector *weight, const float *x,
                    const float *y)
{
    float w[HIDDEN];
    double squares = 0, worst = 0;
    CHECK_EQ(t, gpu_read(rig->model->gpu, weight->buf, weight->offset, w, sizeof w, NULL), 0);
    for (int i = 0; i < HIDDEN; i++)
        squares += (double)x[i] * x[i];
    double scale = 1 / sqrt(squares / HIDDEN + rig->pass.shape->rms_norm_eps);
    for (int i = 0; i < HIDDEN; i++)
        worst = fmax(worst, fabs(x[i] * scale * w[i] - y[i]));
    return worst < 1e-5;
}

static void each_reader_has_its_norm(struct harness *t)
{
    struct rig *rig = open_rig(t, "ref", 0);
    const struct weights *w = &rig->model->weights;
    uint32_t n_layers = rig->pass.shape->n_layers;
    const struct {
        uint32_t layer;
        enum site site;
        const struct vector *norm;
    } readers[] = {
        {0, SITE_MIXER, &w->layers[0].input_layernorm},
        {1, SITE_FFN, &w->layers[1].post_attention_layernorm},
        {2, SITE_MIXER, &w->layers[2].input_layernorm},
        {n_layers, SITE_HEAD, &w->norm},
    };
    float hidden[GROUP * HIDDEN], after[GROUP * HIDDEN], normed[2 * HIDDEN];
    CHECK_EQ(t, stream_read(&rig->pass, hidden, NULL), 0);
    CHECK(t, memcmp(hidden + HIDDEN, hidden + 3 * HIDDEN, HIDDEN * sizeof *hidden) == 0); // both of id 1
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
        struct pass chunk = rig->pass; // the last two tokens
        chunk.first = 3;
        chunk.rows = 2;
        struct rows x = stream_in(&chunk, readers[i].layer, readers[i].site);
        CHECK(t, x.offset == 3 * HIDDEN && stream_read_last(&chunk).offset == x.offset);
        read_rows(t, rig, x, 2, normed);
        for (int r = 0; r < 2; r++)
            CHECK(t, is_norm(t, rig, readers[i].norm, hidden + (3 + r) * HIDDEN, normed + r * HIDDEN));
    }
    // A look elsewhere changes neither the stream nor what was read.
    gpu_buf *elsewhere = gpu_buf_new(rig->model->gpu, sizeof after, NULL);
    stream_peek(&rig->pass, 1, (struct rows){elsewhere, HIDDEN, 0});
    read_rows(t, rig, (struct rows){elsewhere, HIDDEN, 0}, 1, after);
    CHECK(t, is_norm(t, rig, &w->layers[1].post_attention_layernorm, hidden, after));
    read_rows(t, rig, (struct rows){rig->stream.normed, HIDDEN, 3 * HIDDEN}, 2, after);
    CHECK(t, memcmp(after, normed, sizeof normed) == 0);
    CHECK_EQ(t, stream_read(&rig->pass, after, NULL), 0);
    CHECK(t, memcmp(after, hidden, sizeof hidden) == 0);
    gpu_buf_free(elsewhere);
    close_rig(t, rig);
}

// Adds partial sums in one layer, and reads the stream and what the next reader sees.
static void add_and_read(struct harness *t, const struct rig *rig, uint32_t layer, float *hidden, float *normed)
{
    struct pass token = rig->pass;
    const struct shape *s = token.shape;
    float partial[8 * HIDDEN], weight[8];
    token.decode = true;
    token.rows = 1;
    for (uint32_t i = 0; i < s->top_k * HIDDEN; i++)
        partial[i] = (float)((i * 37 + 11) % 101) / 50 - 1;
    for (uint32_t k = 0; k < s->top_k; k++)
        weight[k] = 0.5F / (float)(k + 1);
    gpu_write(token.gpu, rig->scratch.buf[SCRATCH_EXPERT_OUT], 0, partial, s->top_k * HIDDEN * sizeof *partial);
    gpu_write(token.gpu, rig->scratch.buf[SCRATCH_ROUTER_WEIGHTS], s->top_k * sizeof *weight, weight,
              s->top_k * sizeof *weight);
    CHECK_EQ(t, stream_read(&token, hidden, NULL), 0);
    for (int i = 0; i < HIDDEN; i++) {
        float sum = 0;
        for (uint32_t k = 0; k < s->top_k; k++)
            sum = fmaf(weight[k], partial[k * HIDDEN + (uint32_t)i], sum);
        hidden[i] += sum; // what it must be
    }
    stream_add_ranked(&token, layer, s->top_k);
    bool last = layer + 1 == s->n_layers;
    read_rows(t, rig, stream_in(&token, layer + 1, last ? SITE_HEAD : SITE_MIXER), 1, normed);
    float got[HIDDEN];
    CHECK_EQ(t, stream_read(&token, got, NULL), 0);
    CHECK(t, memcmp(got, hidden, sizeof got) == 0);
    CHECK(t, is_norm(t, rig, last ? &token.weights->norm : &token.weights->layers[layer + 1].input_layernorm, got,
                     normed));
}

static void experts_bring_the_next_norm(struct harness *t)
{
    static const char *const devices[] = {"ref", "cpu"};
    for (int d = 0; d < 2; d++) {
        float hidden[2][HIDDEN], normed[2][2][HIDDEN];
        uint64_t launches[2];
        for (int way = 0; way < 2; way++) {
            struct rig *rig = open_rig(t, devices[d], way ? MOE_WITHOUT_FUSED : 0);
            uint64_t before = gpu_counters(rig->model->gpu).launches;
            CHECK(t, rig->pass.shape->top_k <= 4 && rig->pass.shape->n_layers >= 3);
            add_and_read(t, rig, rig->pass.shape->n_layers - 2, hidden[way], normed[way][0]);
            add_and_read(t, rig, rig->pass.shape->n_layers - 1, hidden[way], normed[way][1]);
            launches[way] = gpu_counters(rig->model->gpu).launches - before;
            close_rig(t, rig);
        }
        CHECK(t, memcmp(hidden[0], hidden[1], sizeof hidden[0]) == 0);
        CHECK(t, memcmp(normed[0], normed[1], sizeof normed[0]) == 0);
        CHECK_EQ(t, launches[1] - launches[0], 1); // the head's: this mixer norms as it reads
    }
}

// Experts of a latent space that is wider than the stream.
static void experts_have_room(struct harness *t)
{
    enum { ROWS = 7, LATENT = 2 * HIDDEN };
    struct rig *rig = open_rig(t, "ref", 0);
    struct shape shape = rig->model->package.shape;
    struct scratch scratch;
    struct moe_err err;
    shape.latent_size = LATENT;
    if (CHECK_EQ(t, scratch_open(rig->model->gpu, &(struct scratch_options){&shape, ROWS, ROWS, ROWS}, &scratch, &err),
                 0)) {
        CHECK(t, gpu_buf_bytes(scratch.buf[SCRATCH_EXPERT_IN]) >= sizeof(float) * ROWS * LATENT);
        CHECK(t, gpu_buf_bytes(scratch.buf[SCRATCH_EXPERT_OUT]) >= sizeof(float) * ROWS * LATENT);
        scratch_release(&scratch);
    }
    close_rig(t, rig);
}

// The widest rows are four streams side by side, or a position's list, or a latent space.
static void offsets_have_32_bits(struct harness *t)
{
    static const struct shape shapes[] = {
        {.hidden_size = 4096, .hyper.n_streams = HYPER_STREAMS, .top_k = 8},
        {.hidden_size = 7168, .top_k = 8},
        {.hidden_size = 64, .latent_size = 1 << 20, .top_k = 2},
        {.hidden_size = 7168, .top_k = 8, .n_layers = 61, .bank_every = 12},
        {.hidden_size = 64, .n_layers = 1, .layer_kinds = {LAYER_DSA}, .indexer = {1, 128, 65536, 128, false}},
    };
    const uint64_t widest[] = {4 * 4096, 7168, 1 << 20, 7168, 65536 + 127};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        uint64_t most = stream_most_group(&shapes[i]);
        CHECK(t, most >= 1024 && most * widest[i] <= UINT32_MAX);
    }
}

// Four layers, of which the first has no experts: a group of ten rows on its way.
static void worth_grows_with_the_way(struct harness *t)
{
    const struct shape shape = {.n_layers = 4, .first_k_dense_replace = 1, .n_routed_experts = 8};
    static const struct {
        struct stream_reach reach;
        double layers;
    } ways[] = {{{0, 0, 0}, 0},     {{0, 5, 0}, 0.5}, {{1, 0, 0}, 1}, {{1, 5, 0}, 1.25}, {{1, 10, 0}, 1.5},
                {{1, 10, 4}, 1.75}, {{3, 10, 8}, 4},  {{4, 0, 0}, 4}, {{5, 3, 2}, 4}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        CHECK(t, fabs(stream_worth(&ways[i].reach, 10, &shape) - 10 * ways[i].layers / 4) < 1e-12);
        CHECK_EQ(t, stream_tokens(&ways[i].reach, 10, &shape), (uint32_t)(10 * ways[i].layers / 4));
    }
    CHECK(t, stream_worth(&(struct stream_reach){1, 0, 4}, 0, &shape) == 0);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(each_reader_has_its_norm), TEST(experts_bring_the_next_norm),
                                                TEST(experts_have_room), TEST(offsets_have_32_bits),
                                                TEST(worth_grows_with_the_way)};
    return HARNESS_RUN(tests, argc, argv);
}
