// SPDX-License-Identifier: GPL-3.0-or-later
// Attention residuals' mixtures on every device and in both shapes of kernels: against ref.c, on odd sizes, into
// poisoned outputs, and cut by rows; and what is cleared.
#include "tests/ops/rig.h"

static struct rigs rigs; // opened once: building kernels takes seconds

static const struct args_bank_mix mix_cases[] = {
    {.n_rows = 1, .dim = 64, .n = 0, .most = 1, .appends = 1, .eps = 1e-5f},
    {.n_rows = 3, .dim = 33, .first = 2, .n = 1, .most = 3, .eps = 1e-5f},
    {.n_rows = 2, .dim = 7, .to = 1, .n = 2, .most = 3, .appends = 1, .eps = 1e-6f},
    {.n_rows = 5, .dim = 1000, .first = 1, .to = 4, .n = 7, .most = 8, .appends = 1, .eps = 1e-5f},
    {.n_rows = 1, .dim = 7168, .n = 8, .most = 8, .eps = 1e-5f},
    {.n_rows = 2, .dim = 130, .n = MOST_BANK, .most = MOST_BANK, .eps = 1e-5f},
};

static void check_mix(struct harness *t, struct rig *rig, struct args_bank_mix a)
{
    gpu *g = rig->g;
    a.norm = 8, a.proj = 4;
    size_t rows = a.first + a.n_rows, n_x = (rows + 1) * a.dim, n_bank = (rows + 1) * a.most * a.dim;
    size_t n_y = (a.to + a.n_rows + 1) * (size_t)a.dim;
    float *norm = random_floats(a.dim + 2, 1), *proj = random_floats(a.dim + 1, 2);
    float *x[2] = {random_floats(n_x, 3), random_floats(n_x, 3)};
    float *bank[2] = {random_floats(n_bank, 4), random_floats(n_bank, 4)};
    float *y = poisoned(n_y);
    for (uint32_t i = 0; i < a.dim + 1; i++)
        proj[i] *= 3; // far from an even mixture
    struct gpu_bank_bufs b = {upload(g, norm, (a.dim + 2) * 4), upload(g, proj, (a.dim + 1) * 4),
                              upload(g, x[0], n_x * 4), upload(g, bank[0], n_bank * 4), upload(g, y, n_y * 4)};
    ref_bank_mix(&a, &(struct gpu_bank_bufs){HOST(norm), HOST(proj), HOST(x[1]), HOST(bank[1]), HOST(y)});
    struct args_bank_mix part = a;
    part.n_rows = 1 + a.n_rows / 2; // in two launches
    gpu_op_bank_mix(g, &part, &b);
    part.first += part.n_rows;
    part.to += part.n_rows;
    part.n_rows = a.n_rows - part.n_rows;
    gpu_op_bank_mix(g, &part, &b);
    float *got[3] = {download(g, b.y), download(g, b.x), download(g, b.bank)},
          *terms = must(malloc(n_y * sizeof *terms));
    for (size_t i = 0; i < n_y; i++)
        terms[i] = 1 + fabsf(y[i]);
    CHECK(t, close_to(rig->label, got[0], y, terms, n_y, 4e-6));
    CHECK(t, got[1] && memcmp(got[1], x[1], n_x * 4) == 0);
    bool appended = got[2] && memcmp(got[2], bank[1], n_bank * 4) == 0;
    if (!CHECK(t, appended))
        printf("    %s: %u rows of %u, %u entries\n", rig->label, a.n_rows, a.dim, a.n);
    for (int i = 0; i < 3; i++)
        free(got[i]);
    free(terms), free(norm), free(proj), free(y), free(x[0]), free(x[1]), free(bank[0]), free(bank[1]);
    gpu_buf_free(b.norm), gpu_buf_free(b.proj), gpu_buf_free(b.x), gpu_buf_free(b.bank), gpu_buf_free(b.y);
}

static void mixtures(struct harness *t)
{
    for (unsigned d = 0; d < rigs.n; d++)
        for (size_t i = 0; i < sizeof mix_cases / sizeof *mix_cases; i++)
            check_mix(t, &rigs.items[d], mix_cases[i]);
}

static void what_is_cleared(struct harness *t)
{
    enum { N = 1000 };
    for (unsigned d = 0; d < rigs.n; d++) {
        gpu *g = rigs.items[d].g;
        float *given = random_floats(N, 9);
        gpu_buf *y = upload(g, given, N * 4);
        gpu_op_clear(g, &(struct args_clear){.first = 3, .n = N - 10}, y);
        float *got = download(g, y);
        for (size_t i = 0; got && i < N; i++)
            if (!CHECK(t, got[i] == (i >= 3 && i < N - 7 ? 0 : given[i])))
                break;
        free(got), free(given), gpu_buf_free(y);
    }
}

static bool refused(gpu *g)
{
    struct gpu_error err;
    return gpu_check(g, &err) == GPU_ARGUMENT;
}

static void what_does_not_fit_is_refused(struct harness *t)
{
    for (unsigned d = 0; d < rigs.n; d++) {
        gpu *g = rigs.items[d].g;
        float *numbers = random_floats(4 * 64, 1);
        gpu_buf *some = upload(g, numbers, 4 * 64 * 4), *other = upload(g, numbers, 4 * 64 * 4);
        gpu_buf *more = upload(g, numbers, 4 * 64 * 4);
        const struct args_bank_mix good = {.n_rows = 2, .dim = 64, .n = 1, .most = 2, .appends = 1, .eps = 1e-5f};
        struct args_bank_mix bad[] = {good, good, good, good, good, good, good};
        bad[0].n = 2, bad[1].most = MOST_BANK + 1, bad[2].n_rows = 3, bad[3].norm = 3 * 64 * 4 + 4, bad[4].proj = 2;
        bad[5].to = 3, bad[6].dim = 0;
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            gpu_op_bank_mix(g, &bad[i], &(struct gpu_bank_bufs){some, some, some, other, more});
            CHECK(t, refused(g));
        }
        gpu_op_bank_mix(g, &good, &(struct gpu_bank_bufs){some, some, some, other, some});
        CHECK(t, refused(g));
        gpu_op_clear(g, &(struct args_clear){.first = 1, .n = 4 * 64}, some);
        CHECK(t, refused(g));
        free(numbers), gpu_buf_free(some), gpu_buf_free(other), gpu_buf_free(more);
    }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(mixtures), TEST(what_is_cleared),
                                                TEST(what_does_not_fit_is_refused)};
    rigs = open_rigs();
    int failed = HARNESS_RUN(tests, argc, argv);
    close_rigs(&rigs);
    return failed;
}
