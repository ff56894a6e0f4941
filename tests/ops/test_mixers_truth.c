// SPDX-License-Identifier: GPL-3.0-or-later
// The ops of gated delta nets and of grouped attention, on every device, ref first, against what transformers' own
// modules make of the same numbers in float32 (tests/ops/data/mixers.bin, by make_mixers.py).
#include "tests/ops/rig.h"

enum { MOST_FLOATS = 1 << 16 };

static struct rigs rigs; // opened once: building kernels takes seconds

// The file, and where the next array is.
static float data[MOST_FLOATS];
static size_t n_data, at;

struct array {
    const float *values;
    size_t n;
};

static void read_data(void)
{
    FILE *f = fopen("tests/ops/data/mixers.bin", "rb");
    n_data = f ? fread(data, sizeof *data, MOST_FLOATS, f) : 0;
    if (n_data == 0 || n_data == MOST_FLOATS) {
        fprintf(stderr, "tests/ops/data/mixers.bin cannot be read; run from the root\n");
        exit(70);
    }
    fclose(f);
}

// n: how long it must be.
static struct array next(size_t n)
{
    uint32_t found;
    memcpy(&found, &data[at], sizeof found);
    if (found != n || n > n_data - at - 1) {
        fprintf(stderr, "tests/ops/data/mixers.bin: an array of %u numbers, not %zu\n", found, n);
        exit(70);
    }
    struct array array = {data + at + 1, n};
    at += n + 1;
    return array;
}

static gpu_buf *given(gpu *g, struct array array)
{
    return upload(g, array.values, array.n * 4);
}

static gpu_buf *blank(gpu *g, size_t n)
{
    float *values = poisoned(n);
    gpu_buf *buf = upload(g, values, n * 4);
    free(values);
    return buf;
}

// Frees the buffer.
static int is(const struct rig *rig, const char *what, gpu_buf *buf, struct array want, double tolerance)
{
    char label[128];
    float *got = download(rig->g, buf), *terms = must(malloc(want.n * sizeof *terms));
    for (size_t i = 0; i < want.n; i++)
        terms[i] = 1.0f + fabsf(want.values[i]);
    snprintf(label, sizeof label, "%s of %s", what, rig->label);
    int good = close_to(label, got, want.values, terms, want.n, tolerance);
    free(got), free(terms);
    gpu_buf_free(buf);
    return good;
}

// Every device does the same part of the file.
typedef void part(struct harness *t, struct rig *rig);

static void everywhere(struct harness *t, part *check)
{
    size_t begin = at;
    for (unsigned d = 0; d < rigs.n; d++) {
        at = begin;
        check(t, &rigs.items[d]);
    }
}

static void convolution(struct harness *t, struct rig *rig)
{
    struct args_short_conv a = {.n_rows = 9, .channels = 19, .in_stride = 19, .out_stride = 19};
    struct array weight = next(19 * 4), history = next(3 * 19), x = next(9 * 19), y = next(9 * 19);
    struct gpu_short_conv_bufs b = {given(rig->g, weight), given(rig->g, x), given(rig->g, history),
                                    blank(rig->g, 3 * 19), blank(rig->g, 9 * 19)};
    gpu_op_short_conv(rig->g, &a, &b);
    CHECK(t, is(rig, "convolution", b.y, y, 4e-7));
    CHECK(t, is(rig, "history", b.to, (struct array){x.values + 6 * 19, 3 * 19}, 0));
    gpu_buf_free(b.weight), gpu_buf_free(b.x), gpu_buf_free(b.from);
}

// The heads, dims and decay of `a` are given; one chunk from a state.
static void delta(struct harness *t, struct rig *rig, struct args_delta a)
{
    uint32_t keys = a.n_key_heads * a.key_dim, values = a.n_value_heads * a.value_dim;
    uint32_t decays = a.n_value_heads * (a.decay == DECAY_HEAD ? 1 : a.key_dim);
    a.k_offset = keys;
    a.v_offset = 2 * keys;
    a.in_stride = 2 * keys + values;
    a.decay_offset = a.n_value_heads;
    a.gate_stride = a.n_value_heads + decays;
    a.out_stride = values;
    a.norm_eps = 1e-6f;
    struct array rate = next(a.n_value_heads), dt_bias = next(decays), x = next((size_t)a.n_rows * a.in_stride);
    struct array gate = next((size_t)a.n_rows * a.gate_stride), state = next((size_t)values * a.key_dim);
    struct array last = next(state.n), out = next((size_t)a.n_rows * values);
    struct gpu_delta_bufs b = {given(rig->g, rate),  given(rig->g, dt_bias), given(rig->g, x),    given(rig->g, gate),
                               given(rig->g, state), blank(rig->g, state.n), blank(rig->g, out.n)};
    gpu_op_delta(rig->g, &a, &b);
    CHECK(t, is(rig, "out", b.out, out, 2e-6));
    CHECK(t, is(rig, "state", b.to, last, 2e-6));
    gpu_buf_free(b.rate), gpu_buf_free(b.dt_bias), gpu_buf_free(b.x), gpu_buf_free(b.gate), gpu_buf_free(b.from);
}

static void delta_net(struct harness *t, struct rig *rig)
{
    delta(t, rig,
          (struct args_delta){.n_rows = 11, .n_key_heads = 2, .n_value_heads = 4, .key_dim = 16, .value_dim = 24});
}

static void kimi_delta(struct harness *t, struct rig *rig)
{
    struct args_delta a = {.n_rows = 7, .n_key_heads = 3, .n_value_heads = 3, .key_dim = 16, .value_dim = 16};
    a.decay = DECAY_CHANNEL;
    delta(t, rig, a);
    a.decay = DECAY_CHANNEL_BOUNDED;
    a.bound = -5.0f;
    delta(t, rig, a);
}

static void gated_norm(struct harness *t, struct rig *rig)
{
    struct args_gated_norm a = {
        .n_rows = 5, .n_heads = 3, .dim = 24, .in_stride = 72, .gate_stride = 72, .out_stride = 72, .eps = 1e-6f};
    for (a.act = GATE_SILU; a.act <= GATE_SIGMOID; a.act++, a.eps = 1e-5f) {
        struct array weight = next(24), x = next(360), gate = next(360), y = next(360);
        struct gpu_gated_norm_bufs b = {given(rig->g, weight), given(rig->g, x), given(rig->g, gate),
                                        blank(rig->g, 360)};
        gpu_op_gated_norm(rig->g, &a, &b);
        CHECK(t, is(rig, "gated norm", b.y, y, 1e-6));
        gpu_buf_free(b.weight), gpu_buf_free(b.x), gpu_buf_free(b.gate);
    }
}

// From q (with gates), k and v to what o_proj takes; prefill, and the last token decoded again.
static void grouped_attention(struct harness *t, struct rig *rig)
{
    enum { ROWS = 6, HEADS = 4, KV = 2, DIM = 32, TURNED = 8, WIDTH = HEADS * DIM };
    gpu *g = rig->g;
    struct array q_norm = next(DIM), k_norm = next(DIM), inv_freq = next(TURNED / 2);
    struct array q = next(ROWS * 2 * WIDTH), kv = next(ROWS * 2 * KV * DIM), y = next(ROWS * WIDTH);
    struct args_gqa_append append = {.n_rows = ROWS,
                                     .n_heads = HEADS,
                                     .n_kv_heads = KV,
                                     .head_dim = DIM,
                                     .rope_dim = TURNED,
                                     .q_stride = 2 * WIDTH,
                                     .q_head_stride = 2 * DIM,
                                     .kv_stride = 2 * KV * DIM,
                                     .v_offset = KV * DIM,
                                     .plus_one = 1,
                                     .eps = 1e-6f,
                                     .scale = 1};
    struct gpu_gqa_append_bufs b = {given(g, q_norm), given(g, k_norm), given(g, inv_freq),
                                    given(g, q),      given(g, kv),     blank(g, kv.n)};
    gpu_op_gqa_append(g, &append, &b);
    struct args_gqa a = {.n_rows = ROWS,
                         .n_heads = HEADS,
                         .n_kv_heads = KV,
                         .head_dim = DIM,
                         .q_stride = 2 * WIDTH,
                         .q_head_stride = 2 * DIM,
                         .softmax_scale = 1.0f / sqrtf(DIM)};
    struct gpu_gqa_bufs attended = {b.q, b.cache, blank(g, y.n)};
    gpu_op_gqa_prefill(g, &a, &attended);
    struct args_gate_product gate = {.n_rows = ROWS,
                                     .n_heads = HEADS,
                                     .dim = DIM,
                                     .stride = WIDTH,
                                     .gate_stride = 2 * WIDTH,
                                     .gate_head_stride = 2 * DIM,
                                     .gate_offset = DIM};
    gpu_op_gate_product(g, &gate, b.q, attended.out);
    CHECK(t, is(rig, "prefill", attended.out, y, 2e-6));
    a.n_rows = gate.n_rows = 1;
    a.position = ROWS - 1;
    a.q_offset = (ROWS - 1) * 2 * WIDTH;
    gate.gate_offset += a.q_offset;
    attended.out = blank(g, WIDTH);
    gpu_op_gqa_decode(g, &a, &attended);
    gpu_op_gate_product(g, &gate, b.q, attended.out);
    CHECK(t, is(rig, "decode", attended.out, (struct array){y.values + (ROWS - 1) * WIDTH, WIDTH}, 2e-6));
    gpu_buf_free(b.q_norm), gpu_buf_free(b.k_norm), gpu_buf_free(b.inv_freq);
    gpu_buf_free(b.q), gpu_buf_free(b.kv), gpu_buf_free(b.cache);
}

static void router(struct harness *t, struct rig *rig)
{
    struct args_router a = {.n_rows = 5,
                            .n_experts = 13,
                            .n_group = 1,
                            .topk_group = 1,
                            .top_k = 3,
                            .norm_topk_prob = 1,
                            .scoring = ROUTER_SOFTMAX,
                            .topk_method = TOPK_GREEDY,
                            .routed_scaling_factor = 1};
    struct array logits = next(5 * 13), weights = next(15), experts = next(15);
    struct gpu_router_bufs b = {given(rig->g, logits), NULL, blank(rig->g, 15), blank(rig->g, 15)};
    gpu_op_router(rig->g, &a, &b);
    int32_t *ids = download(rig->g, b.ids);
    for (uint32_t i = 0; i < 15; i++)
        CHECK(t, ids && ids[i] == (int32_t)experts.values[i]);
    CHECK(t, is(rig, "weights", b.weights, weights, 4e-7));
    free(ids);
    gpu_buf_free(b.logits), gpu_buf_free(b.ids);
}

static void shared_gate(struct harness *t, struct rig *rig)
{
    struct args_gate_product a = {.n_rows = 4, .n_heads = 1, .dim = 30, .stride = 30, .gate_stride = 1, .one_each = 1};
    struct array x = next(120), gate = next(4), y = next(120);
    gpu_buf *gates = given(rig->g, gate), *rows = given(rig->g, x);
    gpu_op_gate_product(rig->g, &a, gates, rows);
    CHECK(t, is(rig, "shared expert", rows, y, 4e-7));
    gpu_buf_free(gates);
}

static void mixers_are_those_of_transformers(struct harness *t)
{
    static part *const parts[] = {convolution,       delta_net, kimi_delta, gated_norm,
                                  grouped_attention, router,    shared_gate};
    at = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        everywhere(t, parts[i]);
    CHECK_EQ(t, at, n_data);
}

// A query and a key as small as their norm's epsilon, which is added to the sum of squares, not to their mean: one
// token from a state of zeros, by hand.
static void the_epsilon_is_in_the_sum(struct harness *t)
{
    enum { KEYS = 16, VALUES = 24 };
    static const double sums[] = {1e-8, 1e-6, 3e-5, 1};
    float zeros[KEYS * VALUES] = {0}, x[2 * KEYS + VALUES], out[VALUES], state[KEYS * VALUES];
    struct args_delta a = {.n_rows = 1,
                           .n_key_heads = 1,
                           .n_value_heads = 1,
                           .key_dim = KEYS,
                           .value_dim = VALUES,
                           .in_stride = 2 * KEYS + VALUES,
                           .k_offset = KEYS,
                           .v_offset = 2 * KEYS,
                           .gate_stride = 2,
                           .decay_offset = 1,
                           .out_stride = VALUES,
                           .norm_eps = 1e-6f};
    for (unsigned i = 0; i < rigs.n * (sizeof sums / sizeof *sums); i++) {
        struct rig *rig = &rigs.items[i % rigs.n];
        double sum = sums[i / rigs.n], each = sqrt(sum / KEYS), normed = each / sqrt(sum + 1e-6);
        for (uint32_t k = 0; k < 2 * KEYS + VALUES; k++)
            x[k] = (float)(k < 2 * KEYS ? each : 16 + k);
        for (uint32_t j = 0; j < VALUES; j++) {
            double d = 0.5 * x[2 * KEYS + j]; // the gate is sigmoid(0)
            out[j] = (float)(d * normed * normed * KEYS / sqrt(KEYS));
            for (uint32_t k = 0; k < KEYS; k++)
                state[k * VALUES + j] = (float)(d * normed);
        }
        struct gpu_delta_bufs b = {given(rig->g, (struct array){zeros, 1}),
                                   given(rig->g, (struct array){zeros, 1}),
                                   given(rig->g, (struct array){x, 2 * KEYS + VALUES}),
                                   given(rig->g, (struct array){zeros, 2}),
                                   given(rig->g, (struct array){zeros, KEYS * VALUES}),
                                   blank(rig->g, KEYS * VALUES),
                                   blank(rig->g, VALUES)};
        gpu_op_delta(rig->g, &a, &b);
        CHECK(t, is(rig, "out", b.out, (struct array){out, VALUES}, 2e-6));
        CHECK(t, is(rig, "state", b.to, (struct array){state, KEYS * VALUES}, 2e-6));
        gpu_buf_free(b.rate), gpu_buf_free(b.dt_bias), gpu_buf_free(b.x), gpu_buf_free(b.gate), gpu_buf_free(b.from);
    }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(mixers_are_those_of_transformers),
                                                TEST(the_epsilon_is_in_the_sum)};
    read_data();
    rigs = open_rigs();
    int failed = HARNESS_RUN(tests, argc, argv);
    close_rigs(&rigs);
    return failed;
}
