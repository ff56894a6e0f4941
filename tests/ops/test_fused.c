// SPDX-License-Identifier: GPL-3.0-or-later
// Ops that do in one launch what others do in several: the same bits as those, launch by launch.
#include "tests/ops/rig.h"

static struct rigs rigs; // opened once: building kernels takes seconds

static int same(const struct rig *rig, const char *what, gpu_buf *want_buf, gpu_buf *got_buf)
{
    float *want = download(rig->g, want_buf), *got = download(rig->g, got_buf);
    size_t n = gpu_buf_bytes(want_buf) / 4;
    int good = want && got;
    for (size_t i = 0; good && i < n; i++)
        if (memcmp(&want[i], &got[i], sizeof *want) != 0) {
            printf("    %s on %s: element %zu of %zu is %.9g in one launch, %.9g in several\n", what, rig->label, i, n,
                   (double)got[i], (double)want[i]);
            good = 0;
        }
    free(want), free(got);
    return good;
}

// Matrices of one width: their heights and kinds. A launch holds them if their program is the same.
struct beside_case {
    uint32_t in_dim, n;
    uint32_t rows[MOST_BESIDE];
    enum matrix_kind kinds[MOST_BESIDE];
};

static void check_beside(struct harness *t, struct rig *rig, const struct beside_case *c)
{
    gpu *g = rig->g;
    uint32_t dim = c->in_dim;
    float *x = random_floats(dim + 7, 900), *weight = random_floats(dim + 1, 901), *blank = poisoned(dim + 9);
    gpu_buf *in = upload(g, x, (dim + 7) * 4), *norm = upload(g, weight, (dim + 1) * 4);
    gpu_buf *normed[2] = {upload(g, blank, (dim + 9) * 4), upload(g, blank, (dim + 9) * 4)}, *out[2][MOST_BESIDE];
    struct args_norm_matvecs a = {.norm = 4, .n = c->n, .in_offset = 7, .normed_offset = 5, .eps = 1e-5f};
    struct gpu_norm_matvecs_bufs b = {.norm = norm, .x = in, .normed = normed[1]};
    struct args_rmsnorm rmsnorm = {.weight = 4, .n_rows = 1, .dim = dim, .in_offset = 7, .out_offset = 5, .eps = 1e-5f};
    gpu_op_rmsnorm(g, &rmsnorm, norm, in, normed[0]);
    for (uint32_t k = 0; k < c->n; k++) {
        struct args_matrix shape = {
            .in_dim = dim, .out_dim = c->rows[k], .kind = c->kinds[k], .group_size = 32U << (k % 2)};
        struct test_matrices m = random_matrices(shape, 1, 910 + k);
        float *nothing = poisoned(c->rows[k] + 4);
        b.matrix[k] = upload(g, m.bytes, m.size);
        for (int i = 0; i < 2; i++)
            out[i][k] = upload(g, nothing, (c->rows[k] + 4) * 4);
        b.y[k] = out[1][k];
        a.matrix[k] = m.at[0];
        a.out_offset[k] = k + 1;
        struct args_matmul product = {.matrix = m.at[0], .n_rows = 1, .in_offset = 5, .out_offset = k + 1};
        gpu_op_matvec(g, &product, b.matrix[k], normed[0], out[0][k]);
        free(m.bytes), free(nothing);
    }
    uint64_t launches = gpu_counters(g).launches;
    gpu_op_norm_matvecs(g, &a, &b);
    if (strcmp(rig->label, "ref/ref") != 0)
        CHECK_EQ(t, gpu_counters(g).launches - launches, 1);
    int good = same(rig, "the normed row", normed[0], normed[1]);
    for (uint32_t k = 0; k < c->n; k++) {
        good &= same(rig, "norm_matvecs", out[0][k], out[1][k]);
        gpu_buf_free(out[0][k]), gpu_buf_free(out[1][k]), gpu_buf_free(b.matrix[k]);
    }
    if (!CHECK(t, good))
        printf("    %u matrices of %u, the first of %u rows\n", c->n, dim, c->rows[0]);
    gpu_buf_free(in), gpu_buf_free(norm), gpu_buf_free(normed[0]), gpu_buf_free(normed[1]);
    free(x), free(weight), free(blank);
}

static void norm_and_products(struct harness *t)
{
    static const struct beside_case cases[] = {
        {64, 1, {5}, {KIND_MLX_4}},
        {256, 3, {3, 70, 9}, {KIND_MLX_8, KIND_MLX_4, KIND_F32}},
        {2048, 2, {3072, 576}, {KIND_MLX_4, KIND_MLX_4}},
        {2048, 1, {64}, {KIND_BF16}},
        {7168, 2, {33, 1100}, {KIND_MLX_4, KIND_MLX_8}},
    };
    for (unsigned d = 0; d < rigs.n; d++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            check_beside(t, &rigs.items[d], &cases[i]);
}

// A layer that keeps a state: heads of keys and of values, how wide both are, and what keeps it from one launch.
enum { TOGETHER, IN_PLACE, TOO_WIDE, ODD };
struct state_case {
    uint32_t key_heads, value_heads, key_dim, value_dim, tiled, apart;
    enum delta_decay decay;
};

enum { AT = 3, HISTORY = CONV_TAPS - 1 }; // something stands before everything

static gpu_buf *numbers(gpu *g, size_t n, uint32_t seed)
{
    float *floats = random_floats(AT + n + 2, seed);
    gpu_buf *buf = upload(g, floats, (AT + n + 2) * 4);
    free(floats);
    return buf;
}

static struct args_delta_token token_args(const struct state_case *c)
{
    uint32_t keys = c->key_heads * c->key_dim, values = c->value_heads * c->value_dim;
    return (struct args_delta_token){
        .conv = {.weight = 4 * AT,
                 .from = c->apart == ODD ? AT : AT + 1,
                 .to = AT + 1,
                 .n_rows = 1,
                 .channels = 2 * keys + values,
                 .in_offset = 1,
                 .out_offset = 2},
        .scan = {.rate = 4 * AT,
                 .dt_bias = 4 * AT,
                 .from = c->apart == ODD ? AT : AT + 1,
                 .to = AT + 1,
                 .n_rows = 1,
                 .n_key_heads = c->key_heads,
                 .n_value_heads = c->value_heads,
                 .key_dim = c->key_dim,
                 .value_dim = c->value_dim,
                 .q_offset = 2,
                 .k_offset = 2 + keys,
                 .v_offset = 2 + 2 * keys,
                 .beta_offset = 1,
                 .decay_offset = 1 + c->value_heads,
                 .out_offset = 3,
                 .tiled_heads = c->tiled,
                 .decay = c->decay,
                 .bound = -5.0f,
                 .norm_eps = 1e-6f},
        .norm = {.weight = 4 * AT,
                 .n_rows = 1,
                 .n_heads = c->value_heads,
                 .dim = c->value_dim,
                 .in_offset = 3,
                 .gate_offset = 2,
                 .out_offset = 3,
                 .act = c->decay == DECAY_HEAD ? GATE_SILU : GATE_SIGMOID,
                 .eps = 1e-5f},
    };
}

static void check_token(struct harness *t, struct rig *rig, const struct state_case *c)
{
    enum { HISTORY_TO, STATE_TO, OUT, WRITTEN };
    static const char *const what[WRITTEN] = {"the history", "the state", "the answer"};
    gpu *g = rig->g;
    const struct args_delta_token a = token_args(c);
    size_t channels = a.conv.channels, values = a.scan.n_value_heads * c->value_dim, states = values * c->key_dim;
    gpu_buf *taps = numbers(g, channels * CONV_TAPS, 21), *x = numbers(g, channels, 22), *out[2][WRITTEN], *between[2];
    gpu_buf *rate = numbers(g, c->value_heads, 23), *dt_bias = numbers(g, c->value_heads * (size_t)c->key_dim, 24);
    gpu_buf *gate = numbers(g, c->value_heads * (1 + (size_t)c->key_dim), 25), *norm = numbers(g, c->value_dim, 26);
    gpu_buf *z = numbers(g, values, 27), *from[2] = {numbers(g, HISTORY * channels, 28), numbers(g, states, 29)};
    uint64_t launches = 0;
    for (int i = 0; i < 2; i++) {
        out[i][HISTORY_TO] = numbers(g, HISTORY * channels, 28);
        out[i][STATE_TO] = numbers(g, states, 30);
        out[i][OUT] = numbers(g, values, 31);
        between[i] = numbers(g, channels, 32);
        struct gpu_delta_token_bufs b = {
            .conv = {taps, x, c->apart == IN_PLACE ? out[i][HISTORY_TO] : from[0], out[i][HISTORY_TO], between[i]},
            .scan = {rate, dt_bias, between[i], gate, from[1], out[i][STATE_TO], out[i][OUT]},
            .norm = {norm, out[i][OUT], z, out[i][OUT]}};
        launches = gpu_counters(g).launches;
        if (i) {
            gpu_op_delta_token(g, &a, &b);
        } else {
            gpu_op_short_conv(g, &a.conv, &b.conv);
            gpu_op_delta(g, &a.scan, &b.scan);
            gpu_op_gated_norm(g, &a.norm, &b.norm);
        }
    }
    launches = gpu_counters(g).launches - launches;
    int good = 1;
    if (strstr(rig->label, "/gpu"))
        CHECK_EQ(t, launches, c->apart == TOGETHER ? 1 : 3);
    for (int i = 0; i < WRITTEN; i++)
        good &= same(rig, what[i], out[0][i], out[1][i]);
    if (!CHECK(t, good))
        printf("    %u heads of %u keys, %u of %u values\n", c->key_heads, c->key_dim, c->value_heads, c->value_dim);
    gpu_buf *const all[] = {taps,      x,         rate,      dt_bias,    gate,      norm,
                            z,         from[0],   from[1],   out[0][0],  out[0][1], out[0][2],
                            out[1][0], out[1][1], out[1][2], between[0], between[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        gpu_buf_free(all[i]);
}

static void tokens_of_states(struct harness *t)
{
    static const struct state_case cases[] = {
        {1, 1, 1, 4, 0, TOGETHER, DECAY_HEAD},     {2, 4, 16, 24, 0, TOGETHER, DECAY_HEAD},
        {2, 6, 128, 128, 1, TOGETHER, DECAY_HEAD}, {3, 3, 37, 44, 0, TOGETHER, DECAY_CHANNEL},
        {4, 8, 128, 128, 0, TOGETHER, DECAY_HEAD}, {2, 2, 128, 128, 0, TOGETHER, DECAY_CHANNEL_BOUNDED},
        {2, 4, 16, 24, 0, IN_PLACE, DECAY_HEAD},   {1, 2, 16, 136, 0, TOO_WIDE, DECAY_CHANNEL},
        {1, 2, 16, 22, 0, ODD, DECAY_HEAD},        {1, 2, 16, 24, 0, ODD, DECAY_HEAD},
    };
    for (unsigned d = 0; d < rigs.n; d++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            check_token(t, &rigs.items[d], &cases[i]);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(norm_and_products),
        TEST(tokens_of_states),
    };
    rigs = open_rigs();
    int failed = HARNESS_RUN(tests, argc, argv);
    close_rigs(&rigs);
    return failed;
}
