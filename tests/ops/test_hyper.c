// SPDX-License-Identifier: GPL-3.0-or-later
// Hyper-connections on every device and in both shapes of kernels: against ref, on odd sizes, into poisoned outputs, in
// launches that are cut. And ref against the definition, in double.
#include "tests/ops/rig.h"

static struct rigs rigs; // opened once: building kernels takes seconds

struct hyper_case {
    uint32_t n_rows, dim, first, steps;
};

static const struct hyper_case cases[] = {
    {1, 4096, 0, 19}, {3, 37, 2, 19}, {1, 1, 1, 0}, {70, 160, 0, 3}, {2, 5121, 5, 40},
};
enum { N_CASES = sizeof cases / sizeof *cases, N = HYPER_STREAMS };

// Buffers of a case, each on the device and as ref's.
struct buffer {
    float *host;
    gpu_buf *buf;
    size_t n;
};

static struct buffer buffer_of(gpu *g, float *host, size_t n)
{
    return (struct buffer){host, upload(g, host, n * 4), n};
}

static void buffer_free(struct buffer *b)
{
    free(b->host);
    gpu_buf_free(b->buf);
}

static bool is_close(const struct rig *rig, const char *what, const struct buffer *b, double tolerance)
{
    char label[96];
    float *got = download(rig->g, b->buf), *ones = must(malloc(b->n * 4));
    for (size_t i = 0; i < b->n; i++)
        ones[i] = 1;
    snprintf(label, sizeof label, "%s: %s", rig->label, what);
    bool good = close_to(label, got, b->host, ones, b->n, tolerance);
    free(got), free(ones);
    return good;
}

static struct args_hyper_mix mix_of(const struct hyper_case *c)
{
    return (struct args_hyper_mix){.base = 4,
                                   .scale = 8,
                                   .n_rows = c->n_rows,
                                   .dim = c->dim,
                                   .first = c->first,
                                   .steps = c->steps,
                                   .norm_eps = 1e-5f,
                                   .eps = 1e-3f};
}

struct mix_rig {
    struct buffer base, scale, streams, logits, parts, y;
};

static struct mix_rig open_mix(gpu *g, const struct hyper_case *c)
{
    size_t rows = c->first + c->n_rows;
    struct mix_rig m = {
        .base = buffer_of(g, random_floats(HYPER_LOGITS + 1, 1), HYPER_LOGITS + 1),
        .scale = buffer_of(g, random_floats(HYPER_SCALES + 2, 2), HYPER_SCALES + 2),
        .streams = buffer_of(g, random_floats(rows * N * c->dim, 3), rows * N * c->dim),
        .logits = buffer_of(g, random_floats(rows * HYPER_LOGITS, 4), rows * HYPER_LOGITS),
        .parts = buffer_of(g, poisoned(rows * HYPER_PARTS + 1), rows * HYPER_PARTS + 1),
        .y = buffer_of(g, poisoned(rows * c->dim + 1), rows * c->dim + 1),
    };
    return m;
}

static void close_mix(struct mix_rig *m)
{
    buffer_free(&m->base), buffer_free(&m->scale), buffer_free(&m->streams), buffer_free(&m->logits);
    buffer_free(&m->parts), buffer_free(&m->y);
}

static struct gpu_hyper_mix_bufs mix_bufs(const struct mix_rig *m)
{
    return (struct gpu_hyper_mix_bufs){m->base.buf,   m->scale.buf, m->streams.buf,
                                       m->logits.buf, m->parts.buf, m->y.buf};
}

// As ref takes them: they live as long as the block that says it.
#define MIX_HOST(m)                                                                                                    \
    (&(struct gpu_hyper_mix_bufs){HOST((m).base.host), HOST((m).scale.host), HOST((m).streams.host),                   \
                                  HOST((m).logits.host), HOST((m).parts.host), HOST((m).y.host)})

static bool same_bits(const struct rig *rig, const char *what, gpu_buf *buf, const void *before)
{
    void *now = download(rig->g, buf);
    bool good = now && before && memcmp(now, before, gpu_buf_bytes(buf)) == 0;
    if (!good)
        printf("    %s: other bits of %s when rows come one by one\n", rig->label, what);
    free(now);
    return good;
}

static void check_mix(struct harness *t, struct rig *rig, const struct hyper_case *c)
{
    struct mix_rig m = open_mix(rig->g, c);
    struct args_hyper_mix a = mix_of(c);
    struct gpu_hyper_mix_bufs b = mix_bufs(&m);
    gpu_op_hyper_mix(rig->g, &a, &b);
    ref_hyper_mix(&a, MIX_HOST(m));
    bool good = is_close(rig, "parts", &m.parts, 2e-6) && is_close(rig, "y", &m.y, 4e-6);
    void *parts = download(rig->g, b.parts), *y = download(rig->g, b.y);
    for (a.n_rows = 1; a.first < c->first + c->n_rows; a.first++)
        gpu_op_hyper_mix(rig->g, &a, &b);
    good = good && same_bits(rig, "parts", b.parts, parts) && same_bits(rig, "y", b.y, y);
    if (!CHECK(t, good))
        printf("    %u rows of %u from %u, %u steps\n", c->n_rows, c->dim, c->first, c->steps);
    free(parts), free(y);
    close_mix(&m);
}

static void mixes(struct harness *t)
{
    for (unsigned d = 0; d < rigs.n; d++)
        for (int i = 0; i < N_CASES; i++)
            check_mix(t, &rigs.items[d], &cases[i]);
}

// The last row of ref's, as the formulas in args.h have it.
static void ref_is_the_definition(struct harness *t)
{
    for (int k = 0; k < N_CASES; k++) {
        const struct hyper_case *c = &cases[k];
        struct mix_rig m = open_mix(rigs.items[0].g, c);
        struct args_hyper_mix a = mix_of(c);
        ref_hyper_mix(&a, MIX_HOST(m));
        size_t row = c->first + c->n_rows - 1;
        const float *x = m.streams.host + row * N * c->dim, *part = m.parts.host + row * HYPER_PARTS;
        double squares = 0, l[HYPER_LOGITS], comb[N][N], worst = 0;
        for (size_t i = 0; i < (size_t)N * c->dim; i++)
            squares += (double)x[i] * (double)x[i];
        for (int i = 0; i < HYPER_LOGITS; i++)
            l[i] = (double)m.logits.host[row * HYPER_LOGITS + (size_t)i] / sqrt(squares / (N * c->dim) + 1e-5) *
                       (double)m.scale.host[2 + (i < N       ? 0
                                                 : i < 2 * N ? 1
                                                             : 2)] +
                   (double)m.base.host[1 + i];
        for (int i = 0; i < N; i++) {
            double sum = 0;
            for (int j = 0; j < N; j++)
                sum += exp(l[2 * N + N * i + j]);
            for (int j = 0; j < N; j++)
                comb[i][j] = exp(l[2 * N + N * i + j]) / sum + 1e-3;
            worst = fmax(worst, fabs(2 / (1 + exp(-l[N + i])) - (double)part[i]));
        }
        for (uint32_t step = 0; step < 2 * c->steps + 1; step++) // columns, then rows and columns in turn
            for (int i = 0; i < N; i++) {
                double sum = 1e-3;
                for (int j = 0; j < N; j++)
                    sum += step % 2 ? comb[i][j] : comb[j][i];
                for (int j = 0; j < N; j++)
                    *(step % 2 ? &comb[i][j] : &comb[j][i]) /= sum;
            }
        for (int i = 0; i < N * N; i++)
            worst = fmax(worst, fabs(comb[i / N][i % N] - (double)part[N + i]));
        for (uint32_t i = 0; i < c->dim; i++) {
            double y = 0;
            for (uint32_t j = 0; j < N; j++)
                y += (1 / (1 + exp(-l[j])) + 1e-3) * (double)x[j * c->dim + i];
            worst = fmax(worst, fabs(y - (double)m.y.host[row * c->dim + i]));
        }
        if (!CHECK(t, worst < 2e-6))
            printf("    %u steps: off by %.2g\n", c->steps, worst);
        close_mix(&m);
    }
}

struct spread_rig {
    struct args_hyper_spread a;
    struct buffer parts, out, from, to;
};

// In place, when `to` is where rows come from.
static struct spread_rig open_spread(gpu *g, const struct hyper_case *c, uint32_t to, bool begins)
{
    size_t rows = c->first + c->n_rows;
    return (struct spread_rig){
        .a =
            {.n_rows = c->n_rows, .dim = c->dim, .first = c->first, .to = to, .begins = begins, .keep = to != c->first},
        .parts = buffer_of(g, begins ? poisoned(rows * HYPER_PARTS) : random_floats(rows * HYPER_PARTS, 5),
                           rows * HYPER_PARTS),
        .out = buffer_of(g, random_floats(rows * c->dim, 6), rows * c->dim),
        .from =
            buffer_of(g, begins ? poisoned(rows * N * c->dim) : random_floats(rows * N * c->dim, 7), rows * N * c->dim),
        .to = buffer_of(g, poisoned((to + c->n_rows) * N * (size_t)c->dim + 1),
                        (to + c->n_rows) * N * (size_t)c->dim + 1),
    };
}

static void close_spread(struct spread_rig *s)
{
    buffer_free(&s->parts), buffer_free(&s->out), buffer_free(&s->from), buffer_free(&s->to);
}

static void check_spread(struct harness *t, struct rig *rig, const struct hyper_case *c, bool begins)
{
    gpu *g = rig->g;
    bool good = true;
    for (int in_place = 0; in_place < 2; in_place++) {
        struct spread_rig s = open_spread(g, c, in_place ? c->first : c->first + 1, begins);
        struct buffer *to = in_place ? &s.from : &s.to;
        struct gpu_hyper_spread_bufs b = {s.parts.buf, s.out.buf, s.from.buf, to->buf};
        gpu_op_hyper_spread(g, &s.a, &b);
        ref_hyper_spread(&s.a, &(struct gpu_hyper_spread_bufs){HOST(s.parts.host), HOST(s.out.host), HOST(s.from.host),
                                                               HOST(to->host)});
        good = good && is_close(rig, "streams", to, 1e-6) && is_close(rig, "what was new", &s.out, 0);
        close_spread(&s);
    }
    struct spread_rig s = open_spread(g, c, c->first + 2, begins);
    struct gpu_hyper_spread_bufs b = {s.parts.buf, s.out.buf, s.from.buf, s.to.buf};
    gpu_op_hyper_mean(g, &s.a, &b);
    ref_hyper_mean(&s.a, &(struct gpu_hyper_spread_bufs){HOST(s.parts.host), HOST(s.out.host), HOST(s.from.host),
                                                         HOST(s.to.host)});
    good = good && is_close(rig, "mean", &s.to, 1e-6) && is_close(rig, "what stays", &s.out, 0);
    close_spread(&s);
    if (!CHECK(t, good))
        printf("    %u rows of %u from %u, %s\n", c->n_rows, c->dim, c->first, begins ? "the first" : "later");
}

static void spreads(struct harness *t)
{
    for (unsigned d = 0; d < rigs.n; d++)
        for (int i = 0; i < 2 * N_CASES; i++)
            check_spread(t, &rigs.items[d], &cases[i / 2], i % 2);
}

static bool refused(gpu *g)
{
    struct gpu_error err;
    return gpu_check(g, &err) == GPU_ARGUMENT;
}

static void what_does_not_fit_is_refused(struct harness *t)
{
    const struct hyper_case c = {2, 32, 1, 3};
    for (unsigned d = 0; d < rigs.n; d++) {
        gpu *g = rigs.items[d].g;
        struct mix_rig m = open_mix(g, &c);
        struct gpu_hyper_mix_bufs b = mix_bufs(&m);
        struct args_hyper_mix good = mix_of(&c), bad[] = {good, good, good, good, good, good};
        bad[0].dim = 0, bad[1].dim = 33, bad[2].n_rows = 3, bad[3].base = 8, bad[4].scale = 2, bad[5].steps = 1 << 30;
        gpu_op_hyper_mix(g, &good, &b);
        CHECK(t, !refused(g));
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            gpu_op_hyper_mix(g, &bad[i], &b);
            if (!CHECK(t, refused(g)))
                printf("    hyper_mix, bad case %zu\n", i);
        }
        struct spread_rig s = open_spread(g, &c, 1, false);
        struct gpu_hyper_spread_bufs sb = {s.parts.buf, s.out.buf, s.from.buf, s.from.buf};
        struct args_hyper_spread wrong[] = {s.a, s.a, s.a};
        wrong[0].first = 2, wrong[1].to = 0, wrong[2].dim = 31; // rows that are not there; read and written; overlap
        wrong[2].n_rows = 4;
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            gpu_op_hyper_spread(g, &wrong[i], &sb);
            if (!CHECK(t, refused(g)))
                printf("    hyper_spread, bad case %zu\n", i);
        }
        gpu_op_hyper_mean(g, &s.a, &sb); // into its input
        CHECK(t, refused(g));
        close_spread(&s);
        close_mix(&m);
    }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(mixes),
        TEST(ref_is_the_definition),
        TEST(spreads),
        TEST(what_does_not_fit_is_refused),
    };
    rigs = open_rigs();
    int failed = HARNESS_RUN(tests, argc, argv);
    close_rigs(&rigs);
    return failed;
}
