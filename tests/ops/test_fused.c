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

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(norm_and_products),
    };
    rigs = open_rigs();
    int failed = HARNESS_RUN(tests, argc, argv);
    close_rigs(&rigs);
    return failed;
}
