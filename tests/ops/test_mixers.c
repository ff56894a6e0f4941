// SPDX-License-Identifier: GPL-3.0-or-later
// The ops of gated delta nets and of grouped attention, on every device and in both shapes of kernels, against ref.c:
// odd sizes, poisoned outputs, chunks cut anywhere.
#include "tests/ops/rig.h"

static struct rigs rigs; // opened once: building kernels takes seconds

// Floats of an op's buffer on both sides: what ref.c works on, and the device's copy of what stood there before.
struct twin {
    float *host;
    gpu_buf *buf;
    size_t n;
};

static struct twin twin_of(gpu *g, float *host, size_t n)
{
    return (struct twin){host, upload(g, host, n * sizeof *host), n};
}

static struct twin random_twin(gpu *g, size_t n, uint32_t seed)
{
    return twin_of(g, random_floats(n, seed), n);
}

static struct twin poisoned_twin(gpu *g, size_t n)
{
    return twin_of(g, poisoned(n), n);
}

static void twin_free(struct twin *twin)
{
    free(twin->host);
    gpu_buf_free(twin->buf);
}

// The device's side within tolerance * terms of ref's; terms 0: of each number itself.
static int twin_close(const struct rig *rig, const char *what, const struct twin *twin, float terms, double tolerance)
{
    char label[128];
    float *got = download(rig->g, twin->buf);
    float *each = must(malloc(twin->n * sizeof *each));
    for (size_t i = 0; i < twin->n; i++)
        each[i] = terms;
    snprintf(label, sizeof label, "%s of %s", what, rig->label);
    int good = close_to(label, got, twin->host, terms > 0 ? each : NULL, twin->n, tolerance);
    free(got), free(each);
    return good;
}

// Rows of a chunk, cut into launches.
static const uint32_t cuts[] = {1, 3, 8, 2, 1, 16, 30, 64, 200};

static uint32_t cut(uint32_t k, uint32_t first, uint32_t n_rows)
{
    return cuts[k] < n_rows - first ? cuts[k] : n_rows - first;
}

static int same(const struct rig *rig, const char *what, const gpu_buf *one, const gpu_buf *parts)
{
    float *a = download(rig->g, (gpu_buf *)one), *b = download(rig->g, (gpu_buf *)parts);
    int good = a && b && memcmp(a, b, gpu_buf_bytes(one)) == 0;
    if (!good)
        printf("    %s of %s: other bits in several launches\n", what, rig->label);
    free(a), free(b);
    return good;
}

// The history of a convolution, and the rows of a chunk.
static void check_conv(struct harness *t, struct rig *rig, struct args_short_conv a, int in_place)
{
    gpu *g = rig->g;
    size_t history = (size_t)(CONV_TAPS - 1) * a.channels;
    a.weight = 8;
    a.from = 5;
    a.to = in_place ? 5 : 3;
    struct twin weight = random_twin(g, (size_t)CONV_TAPS * a.channels + 2, 1);
    struct twin x = random_twin(g, (size_t)a.n_rows * a.in_stride + a.in_offset, 2);
    struct twin from = random_twin(g, history + 6, 3), to = poisoned_twin(g, history + 6);
    struct twin y = poisoned_twin(g, (size_t)a.n_rows * a.out_stride + a.out_offset + 3);
    struct twin *after = in_place ? &from : &to;
    struct gpu_short_conv_bufs b = {weight.buf, x.buf, from.buf, after->buf, y.buf};
    gpu_op_short_conv(g, &a, &b);
    ref_short_conv(&a, &(struct gpu_short_conv_bufs){HOST(weight.host), HOST(x.host), HOST(from.host),
                                                     HOST(after->host), HOST(y.host)});
    if (!CHECK(t, twin_close(rig, "y", &y, 4.0f, 2e-7) && twin_close(rig, "history", after, 0, 0)))
        printf("    %u rows of %u channels\n", a.n_rows, a.channels);
    twin_free(&weight), twin_free(&x), twin_free(&from), twin_free(&to), twin_free(&y);
}

static void convolutions(struct harness *t)
{
    static const struct args_short_conv cases[] = {
        {.n_rows = 1, .channels = 1, .in_stride = 1, .out_stride = 1},
        {.n_rows = 2, .channels = 37, .in_stride = 40, .in_offset = 2, .out_stride = 50, .out_offset = 7},
        {.n_rows = 3, .channels = 160, .in_stride = 160, .out_stride = 160},
        {.n_rows = 65, .channels = 275, .in_stride = 300, .in_offset = 9, .out_stride = 280, .out_offset = 1},
        {.n_rows = 130, .channels = 16, .in_stride = 17, .out_stride = 16},
    };
    for (unsigned d = 0; d < rigs.n; d++)
        for (unsigned i = 0; i < 2 * sizeof cases / sizeof *cases; i++)
            check_conv(t, &rigs.items[d], cases[i / 2], i % 2);
}

struct delta_case {
    uint32_t n_rows, key_heads, value_heads, key_dim, value_dim, tiled, decay, rate_given;
};

static const struct delta_case delta_cases[] = {
    {1, 1, 1, 1, 1, 0, DECAY_HEAD, 0},
    {1, 2, 4, 16, 24, 0, DECAY_HEAD, 0},
    {17, 2, 4, 16, 24, 1, DECAY_HEAD, 1},
    {9, 3, 3, 37, 41, 0, DECAY_CHANNEL, 0},
    {8, 2, 2, 128, 128, 0, DECAY_CHANNEL, 1},
    {7, 2, 6, 128, 16, 1, DECAY_HEAD, 0},
    {33, 1, 3, 100, 50, 0, DECAY_HEAD, 1},
    {20, 4, 4, 16, 16, 0, DECAY_CHANNEL_BOUNDED, 0},
    {65, 2, 2, 64, 24, 0, DECAY_CHANNEL_BOUNDED, 1},
    {1, 4, 8, 128, 128, 0, DECAY_HEAD, 0},
};
enum { N_DELTAS = sizeof delta_cases / sizeof *delta_cases };

// A chunk's inputs and states. Sizes with something before and behind.
struct delta_rig {
    struct args_delta a;
    struct twin rate, dt_bias, x, gate, from, to, out;
};

static struct delta_rig delta_rig_of(gpu *g, const struct delta_case *c)
{
    uint32_t keys = c->key_heads * c->key_dim, values = c->value_heads * c->value_dim;
    uint32_t decays = c->value_heads * (c->decay == DECAY_HEAD ? 1 : c->key_dim);
    size_t states = (size_t)values * c->key_dim;
    struct delta_rig d = {.a = {.rate = 4,
                                .dt_bias = 8,
                                .from = 2,
                                .to = 1,
                                .n_rows = c->n_rows,
                                .n_key_heads = c->key_heads,
                                .n_value_heads = c->value_heads,
                                .key_dim = c->key_dim,
                                .value_dim = c->value_dim,
                                .in_stride = 2 * keys + values + 5,
                                .q_offset = 1,
                                .k_offset = keys + 2,
                                .v_offset = 2 * keys + 3,
                                .gate_stride = c->value_heads + decays + 4,
                                .beta_offset = 1,
                                .decay_offset = c->value_heads + 2,
                                .out_stride = values + 3,
                                .out_offset = 2,
                                .tiled_heads = c->tiled,
                                .decay = c->decay,
                                .rate_given = c->rate_given,
                                .bound = -5.0f,
                                .norm_eps = 1e-6f}};
    d.rate = random_twin(g, c->value_heads + 1, 11);
    if (c->rate_given) { // minus what is multiplied with
        for (size_t i = 0; i < d.rate.n; i++)
            d.rate.host[i] = -expf(d.rate.host[i]);
        gpu_write(g, d.rate.buf, 0, d.rate.host, d.rate.n * 4);
    }
    d.dt_bias = random_twin(g, decays + 2, 12);
    d.x = random_twin(g, (size_t)c->n_rows * d.a.in_stride, 13);
    d.gate = random_twin(g, (size_t)c->n_rows * d.a.gate_stride, 14);
    for (size_t i = 0; i < d.gate.n; i += 7) // also where softplus is the identity, and where it is nearly 0
        d.gate.host[i] *= i % 2 ? 30.0f : -30.0f;
    gpu_write(g, d.gate.buf, 0, d.gate.host, d.gate.n * 4);
    d.from = random_twin(g, states + 3, 15);
    d.to = poisoned_twin(g, states + 3);
    d.out = poisoned_twin(g, (size_t)c->n_rows * d.a.out_stride + 4);
    return d;
}

static void delta_rig_free(struct delta_rig *d)
{
    twin_free(&d->rate), twin_free(&d->dt_bias), twin_free(&d->x), twin_free(&d->gate);
    twin_free(&d->from), twin_free(&d->to), twin_free(&d->out);
}

static struct gpu_delta_bufs delta_bufs(const struct delta_rig *d)
{
    return (struct gpu_delta_bufs){d->rate.buf, d->dt_bias.buf, d->x.buf,  d->gate.buf,
                                   d->from.buf, d->to.buf,      d->out.buf};
}

static void ref_delta_rig(struct delta_rig *d)
{
    ref_delta(&d->a,
              &(struct gpu_delta_bufs){HOST(d->rate.host), HOST(d->dt_bias.host), HOST(d->x.host), HOST(d->gate.host),
                                       HOST(d->from.host), HOST(d->to.host), HOST(d->out.host)});
}

static void deltas(struct harness *t)
{
    for (unsigned d = 0; d < rigs.n; d++)
        for (int i = 0; i < N_DELTAS; i++) {
            struct rig *rig = &rigs.items[d];
            struct delta_rig one = delta_rig_of(rig->g, &delta_cases[i]);
            struct gpu_delta_bufs b = delta_bufs(&one);
            gpu_op_delta(rig->g, &one.a, &b);
            ref_delta_rig(&one);
            if (!CHECK(t,
                       twin_close(rig, "out", &one.out, 1.0f, 2e-6) && twin_close(rig, "state", &one.to, 1.0f, 2e-6)))
                printf("    case %d\n", i);
            delta_rig_free(&one);
        }
}

// The same chunk in pieces, the first from one half of a state to the other, the rest in place: the same bits.
static void deltas_cut(struct harness *t)
{
    for (unsigned d = 0; d < rigs.n; d++)
        for (int i = 0; i < N_DELTAS; i++) {
            struct rig *rig = &rigs.items[d];
            struct delta_rig one = delta_rig_of(rig->g, &delta_cases[i]);
            struct delta_rig parts = delta_rig_of(rig->g, &delta_cases[i]);
            struct gpu_delta_bufs b = delta_bufs(&one);
            gpu_op_delta(rig->g, &one.a, &b);
            struct args_delta a = parts.a;
            b = delta_bufs(&parts);
            for (uint32_t first = 0, k = 0; first < one.a.n_rows; first += a.n_rows, k++) {
                a.n_rows = cut(k, first, one.a.n_rows);
                a.q_offset = one.a.q_offset + first * a.in_stride;
                a.k_offset = one.a.k_offset + first * a.in_stride;
                a.v_offset = one.a.v_offset + first * a.in_stride;
                a.beta_offset = one.a.beta_offset + first * a.gate_stride;
                a.decay_offset = one.a.decay_offset + first * a.gate_stride;
                a.out_offset = one.a.out_offset + first * a.out_stride;
                gpu_op_delta(rig->g, &a, &b);
                b.from = b.to;
                a.from = a.to;
            }
            if (!CHECK(t, same(rig, "out", one.out.buf, parts.out.buf) && same(rig, "state", one.to.buf, parts.to.buf)))
                printf("    case %d\n", i);
            delta_rig_free(&one), delta_rig_free(&parts);
        }
}

static void gated_norms(struct harness *t)
{
    static const struct args_gated_norm cases[] = {
        {.weight = 4, .n_rows = 1, .n_heads = 1, .dim = 1, .in_stride = 1, .gate_stride = 1, .out_stride = 1},
        {.n_rows = 3,
         .n_heads = 4,
         .dim = 24,
         .in_stride = 99,
         .in_offset = 2,
         .gate_stride = 100,
         .gate_offset = 3,
         .out_stride = 96,
         .act = GATE_SIGMOID},
        {.weight = 12, .n_rows = 2, .n_heads = 3, .dim = 128, .in_stride = 384, .gate_stride = 384, .out_stride = 400},
        {.n_rows = 5,
         .n_heads = 2,
         .dim = 300,
         .in_stride = 600,
         .gate_stride = 601,
         .out_stride = 600,
         .out_offset = 5},
    };
    for (unsigned d = 0; d < rigs.n; d++)
        for (unsigned i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
            struct rig *rig = &rigs.items[d];
            struct args_gated_norm a = cases[i / 2];
            a.eps = 1e-6f;
            int in_place = i % 2 && a.in_stride == a.out_stride && a.in_offset == a.out_offset;
            struct twin weight = random_twin(rig->g, a.dim + 3, 21);
            struct twin x = random_twin(rig->g, (size_t)a.n_rows * a.in_stride + a.in_offset, 22);
            struct twin gate = random_twin(rig->g, (size_t)a.n_rows * a.gate_stride + a.gate_offset, 23);
            struct twin y = poisoned_twin(rig->g, (size_t)a.n_rows * a.out_stride + a.out_offset + 1);
            struct twin *to = in_place ? &x : &y;
            struct gpu_gated_norm_bufs b = {weight.buf, x.buf, gate.buf, to->buf};
            gpu_op_gated_norm(rig->g, &a, &b);
            ref_gated_norm(
                &a, &(struct gpu_gated_norm_bufs){HOST(weight.host), HOST(x.host), HOST(gate.host), HOST(to->host)});
            if (!CHECK(t, twin_close(rig, "y", to, 0, 2e-6)))
                printf("    case %u\n", i);
            twin_free(&weight), twin_free(&x), twin_free(&gate), twin_free(&y);
        }
}

static void gate_products(struct harness *t)
{
    static const struct args_gate_product cases[] = {
        {.n_rows = 1, .n_heads = 1, .dim = 1, .stride = 1, .gate_stride = 1},
        {.n_rows = 3,
         .n_heads = 5,
         .dim = 32,
         .stride = 170,
         .offset = 4,
         .gate_stride = 400,
         .gate_head_stride = 64,
         .gate_offset = 32},
        {.n_rows = 4, .n_heads = 1, .dim = 301, .stride = 301, .gate_stride = 1, .one_each = 1},
        {.n_rows = 2, .n_heads = 3, .dim = 100, .stride = 300, .gate_stride = 20, .gate_head_stride = 4, .one_each = 1},
    };
    for (unsigned d = 0; d < rigs.n; d++)
        for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
            struct rig *rig = &rigs.items[d];
            const struct args_gate_product *a = &cases[i];
            size_t width = (size_t)a->n_heads * a->dim, n = (size_t)a->n_rows * a->stride + a->offset + 2;
            struct twin gate = random_twin(rig->g, (size_t)a->n_rows * a->gate_stride + a->gate_offset, 31);
            struct twin y = poisoned_twin(rig->g, n);
            uint32_t seed = 32;
            for (uint32_t r = 0; r < a->n_rows; r++)
                for (size_t k = 0; k < width; k++)
                    y.host[r * a->stride + a->offset + k] = random_float(&seed);
            gpu_write(rig->g, y.buf, 0, y.host, n * 4);
            gpu_op_gate_product(rig->g, a, gate.buf, y.buf);
            ref_gate_product(a, gate.host, y.host);
            CHECK(t, twin_close(rig, "y", &y, 0, 1e-6));
            twin_free(&gate), twin_free(&y);
        }
}

struct gqa_case {
    uint32_t n_rows, heads, kv_heads, dim, rope_offset, rope_dim, position, kv_type, interleaved, plus_one;
};

static const struct gqa_case gqa_cases[] = {
    {1, 1, 1, 8, 0, 2, 0, KV_F32, 0, 1},       {1, 4, 2, 32, 0, 8, 70, KV_F16, 0, 1},
    {17, 4, 2, 32, 0, 8, 3, KV_F32, 0, 1},     {5, 6, 2, 256, 0, 64, 61, KV_F16, 0, 1},
    {3, 15, 3, 72, 40, 32, 0, KV_F16, 1, 0},   {2, 16, 2, 256, 0, 64, 130, KV_F32, 0, 1},
    {1, 32, 2, 256, 0, 64, 700, KV_F16, 0, 1}, {4, 7, 7, 40, 0, 0, 9, KV_F32, 0, 0},
};
enum { N_GQAS = sizeof gqa_cases / sizeof *gqa_cases };

static void appends(struct harness *t)
{
    for (unsigned d = 0; d < rigs.n; d++)
        for (int i = 0; i < N_GQAS; i++) {
            struct rig *rig = &rigs.items[d];
            const struct gqa_case *c = &gqa_cases[i];
            uint32_t width = c->kv_heads * c->dim, row = 2 * c->dim + 3; // a gate behind each head of q
            struct args_gqa_append a = {.q_norm = 4,
                                        .k_norm = 8,
                                        .n_rows = c->n_rows,
                                        .n_heads = c->heads,
                                        .n_kv_heads = c->kv_heads,
                                        .head_dim = c->dim,
                                        .rope_offset = c->rope_offset,
                                        .rope_dim = c->rope_dim,
                                        .q_stride = c->heads * row + 1,
                                        .q_head_stride = row,
                                        .q_offset = 2,
                                        .kv_stride = 2 * width + 7,
                                        .k_offset = 1,
                                        .v_offset = width + 4,
                                        .position = c->position,
                                        .kv_type = KV_F32,
                                        .interleaved = c->interleaved,
                                        .plus_one = c->plus_one,
                                        .eps = 1e-6f,
                                        .scale = 1};
            struct twin q_norm = random_twin(rig->g, c->dim + 1, 41), k_norm = random_twin(rig->g, c->dim + 2, 42);
            struct twin inv_freq = random_twin(rig->g, c->rope_dim / 2 + 1, 43);
            struct twin q = random_twin(rig->g, (size_t)c->n_rows * a.q_stride + 2, 44);
            struct twin kv = random_twin(rig->g, (size_t)c->n_rows * a.kv_stride, 45);
            size_t rows = (size_t)c->position + c->n_rows + 1;
            struct twin cache = poisoned_twin(rig->g, rows * 2 * width);
            struct gpu_gqa_append_bufs b = {q_norm.buf, k_norm.buf, inv_freq.buf, q.buf, kv.buf, cache.buf};
            struct gpu_gqa_append_bufs host = {HOST(q_norm.host), HOST(k_norm.host), HOST(inv_freq.host),
                                               HOST(q.host),      HOST(kv.host),     HOST(cache.host)};
            float *q_before = random_floats(q.n, 44);
            gpu_op_gqa_append(rig->g, &a, &b);
            ref_gqa_append(&a, &host);
            if (!CHECK(t, twin_close(rig, "q", &q, 4.0f, 1e-6) && twin_close(rig, "cache", &cache, 4.0f, 1e-6)))
                printf("    case %d\n", i);
            // Rows of 16 bits are those of 32, rounded.
            float *wide = download(rig->g, cache.buf), *blank = poisoned(cache.n);
            uint16_t *want = must(malloc(cache.n * 4));
            memcpy(want, blank, cache.n * 4);
            if (wide)
                ref_to_cache(KV_F16, wide + (size_t)c->position * 2 * width, (size_t)c->n_rows * 2 * width, want,
                             (size_t)c->position * 2 * width);
            gpu_write(rig->g, cache.buf, 0, blank, cache.n * 4);
            gpu_write(rig->g, q.buf, 0, q_before, q.n * 4);
            a.kv_type = KV_F16;
            gpu_op_gqa_append(rig->g, &a, &b);
            uint16_t *got = download(rig->g, cache.buf);
            CHECK(t, got && wide && memcmp(got, want, cache.n * 4) == 0);
            free(wide), free(blank), free(want), free(got), free(q_before);
            twin_free(&q_norm), twin_free(&k_norm), twin_free(&inv_freq), twin_free(&q), twin_free(&kv);
            twin_free(&cache);
        }
}

struct gqa_rig {
    struct args_gqa a;
    struct twin q, out;
    void *rows; // of the cache
    size_t row_bytes;
};

static struct gqa_rig gqa_rig_of(gpu *g, const struct gqa_case *c)
{
    size_t width = 2 * (size_t)c->kv_heads * c->dim, n = (c->position + c->n_rows) * width;
    struct gqa_rig r = {.a = {.n_rows = c->n_rows,
                              .n_heads = c->heads,
                              .n_kv_heads = c->kv_heads,
                              .head_dim = c->dim,
                              .q_stride = c->heads * (c->dim + 3) + 5,
                              .q_head_stride = c->dim + 3,
                              .q_offset = 4,
                              .position = c->position,
                              .kv_type = c->kv_type,
                              .softmax_scale = 3.0f / sqrtf((float)c->dim)}};
    r.q = random_twin(g, (size_t)c->n_rows * r.a.q_stride + 4, 51);
    r.out = poisoned_twin(g, (size_t)c->n_rows * c->heads * c->dim + 2);
    float *rows = random_floats(n, 52);
    r.row_bytes = width * (c->kv_type == KV_F16 ? 2 : 4);
    r.rows = must(malloc(n * 4));
    ref_to_cache(c->kv_type, rows, n, r.rows, 0);
    free(rows);
    return r;
}

static void gqa_rig_free(struct gqa_rig *r)
{
    twin_free(&r->q), twin_free(&r->out);
    free(r->rows);
}

static void attentions(struct harness *t)
{
    for (unsigned d = 0; d < rigs.n; d++)
        for (int i = 0; i < N_GQAS; i++) {
            struct rig *rig = &rigs.items[d];
            struct gqa_rig r = gqa_rig_of(rig->g, &gqa_cases[i]);
            gpu_buf *cache = upload(rig->g, r.rows, (r.a.position + r.a.n_rows) * r.row_bytes);
            struct gpu_gqa_bufs b = {r.q.buf, cache, r.out.buf};
            ref_gqa(&r.a, &(struct gpu_gqa_bufs){HOST(r.q.host), HOST(r.rows), HOST(r.out.host)});
            gpu_op_gqa_prefill(rig->g, &r.a, &b);
            CHECK(t, twin_close(rig, "prefill", &r.out, 1.0f, 2e-6));
            if (r.a.n_rows == 1) {
                float *blank = poisoned(r.out.n);
                gpu_write(rig->g, r.out.buf, 0, blank, r.out.n * 4);
                gpu_op_gqa_decode(rig->g, &r.a, &b);
                CHECK(t, twin_close(rig, "decode", &r.out, 1.0f, 2e-6));
                free(blank);
            }
            gpu_buf_free(cache);
            gqa_rig_free(&r);
        }
}

// One half of a state to the other, then in place, against all at once.
static void convolutions_cut(struct harness *t)
{
    enum { ROWS = 140, CHANNELS = 275, HISTORY = (CONV_TAPS - 1) * CHANNELS };
    for (unsigned d = 0; d < rigs.n; d++) {
        struct rig *rig = &rigs.items[d];
        struct args_short_conv a = {
            .n_rows = ROWS, .channels = CHANNELS, .in_stride = CHANNELS, .out_stride = CHANNELS};
        struct twin weight = random_twin(rig->g, CONV_TAPS * CHANNELS, 1), x = random_twin(rig->g, ROWS * CHANNELS, 2);
        struct twin from = random_twin(rig->g, HISTORY, 3), to[2], y[2];
        for (int i = 0; i < 2; i++) {
            to[i] = poisoned_twin(rig->g, HISTORY);
            y[i] = poisoned_twin(rig->g, ROWS * CHANNELS);
        }
        struct gpu_short_conv_bufs b = {weight.buf, x.buf, from.buf, to[0].buf, y[0].buf};
        gpu_op_short_conv(rig->g, &a, &b);
        b.to = to[1].buf;
        b.y = y[1].buf;
        for (uint32_t first = 0, k = 0; first < ROWS; first += a.n_rows, k++) {
            a.n_rows = cut(k, first, ROWS);
            a.in_offset = a.out_offset = first * CHANNELS;
            gpu_op_short_conv(rig->g, &a, &b);
            b.from = b.to;
        }
        CHECK(t, same(rig, "y", y[0].buf, y[1].buf));
        CHECK(t, same(rig, "history", to[0].buf, to[1].buf));
        twin_free(&weight), twin_free(&x), twin_free(&from);
        for (int i = 0; i < 2; i++)
            twin_free(&to[i]), twin_free(&y[i]);
    }
}

// What a launch must not read of the cache is NaN.
static void attentions_cut(struct harness *t)
{
    static const struct gqa_case cases[] = {
        {150, 6, 2, 40, 0, 0, 61, KV_F16, 0, 0},
        {140, 16, 1, 32, 0, 0, 0, KV_F32, 0, 0},
        {70, 3, 3, 256, 0, 0, 100, KV_F16, 0, 0},
    };
    for (unsigned d = 0; d < rigs.n; d++)
        for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
            struct rig *rig = &rigs.items[d];
            struct gqa_rig r = gqa_rig_of(rig->g, &cases[i]);
            size_t row_out = (size_t)r.a.n_heads * r.a.head_dim, n = (r.a.position + r.a.n_rows) * r.row_bytes;
            char *seen = must(malloc(n));
            float *got[2] = {poisoned(r.a.n_rows * row_out), poisoned(r.a.n_rows * row_out)};
            for (int several = 0; several < 2; several++) {
                struct args_gqa a = r.a;
                for (uint32_t first = 0, k = 0; first < r.a.n_rows; first += a.n_rows, k++) {
                    a.n_rows = several ? cut(k, first, r.a.n_rows) : r.a.n_rows;
                    a.position = r.a.position + first;
                    a.q_offset = r.a.q_offset + first * a.q_stride;
                    memset(seen, 0xff, n);
                    memcpy(seen, r.rows, (a.position + a.n_rows) * r.row_bytes);
                    gpu_buf *out = upload(rig->g, got[several], a.n_rows * row_out * 4);
                    struct gpu_gqa_bufs b = {r.q.buf, upload(rig->g, seen, n), out};
                    gpu_op_gqa_prefill(rig->g, &a, &b);
                    struct gpu_error err = {0};
                    CHECK_EQ(t, gpu_read(rig->g, out, 0, got[several] + first * row_out, a.n_rows * row_out * 4, &err),
                             0);
                    gpu_buf_free(out), gpu_buf_free(b.cache);
                }
            }
            if (!CHECK(t, memcmp(got[0], got[1], r.a.n_rows * row_out * 4) == 0))
                printf("    case %u on %s\n", i, rig->label);
            free(seen), free(got[0]), free(got[1]);
            gqa_rig_free(&r);
        }
}

static int refused(gpu *g)
{
    struct gpu_error err = {0};
    return gpu_check(g, &err) == GPU_ARGUMENT;
}

// Each of these would read or write outside of its buffers, or compute what there is no formula for.
static void deltas_refuse(struct harness *t, gpu *g)
{
    static const struct delta_case good = {3, 2, 4, 16, 24, 0, DECAY_HEAD, 0};
    struct delta_rig d = delta_rig_of(g, &good);
    struct gpu_delta_bufs b = delta_bufs(&d);
    struct args_delta bad[] = {d.a, d.a, d.a, d.a, d.a, d.a, d.a, d.a, d.a, d.a, d.a, d.a, d.a, d.a};
    unsigned n = 0;
    bad[n++].n_key_heads = 3; // does not divide 4
    bad[n++].n_key_heads = 0;
    bad[n++].key_dim = MOST_KEY_DIM + 1;
    bad[n++].value_dim = 0x80000000u;
    bad[n++].n_value_heads = 0x80000000u;
    bad[n++].n_rows = 4;
    bad[n++].n_rows = UINT32_MAX;
    bad[n++].in_stride = 95;        // rows overlap
    bad[n++].decay = DECAY_CHANNEL; // needs more gates and biases than there are
    bad[n++].from = 4;
    bad[n++].to = UINT64_MAX - 3;
    bad[n++].dt_bias = 6; // no multiple of 4
    bad[n++].decay_offset = UINT32_MAX;
    bad[n].decay = DECAY_CHANNEL_BOUNDED;
    bad[n++].bound = 1.0f;
    for (unsigned i = 0; i < n; i++) {
        gpu_op_delta(g, &bad[i], &b);
        if (!CHECK(t, refused(g)))
            printf("    delta, bad case %u\n", i);
    }
    b.to = b.from; // the halves overlap in part
    gpu_op_delta(g, &d.a, &b);
    CHECK(t, refused(g));
    b = delta_bufs(&d);
    b.out = b.x;
    gpu_op_delta(g, &d.a, &b);
    CHECK(t, refused(g));
    delta_rig_free(&d);
}

static void attentions_refuse(struct harness *t, gpu *g)
{
    static const struct gqa_case good = {2, 6, 2, 40, 0, 8, 5, KV_F32, 0, 0};
    struct gqa_rig r = gqa_rig_of(g, &good);
    gpu_buf *cache = upload(g, r.rows, 7 * r.row_bytes);
    struct gpu_gqa_bufs b = {r.q.buf, cache, r.out.buf};
    struct args_gqa bad[] = {r.a, r.a, r.a, r.a, r.a, r.a, r.a, r.a};
    unsigned n = 0;
    bad[n++].n_kv_heads = 4; // does not divide 6
    bad[n++].n_kv_heads = 0;
    bad[n++].head_dim = 44; // no multiple of 8
    bad[n++].head_dim = 264;
    bad[n++].position = 6; // one row too few
    bad[n++].n_rows = UINT32_MAX;
    bad[n++].q_head_stride = 39; // heads overlap
    bad[n++].kv_type = 2;
    for (unsigned i = 0; i < n; i++) {
        gpu_op_gqa_prefill(g, &bad[i], &b);
        if (!CHECK(t, refused(g)))
            printf("    gqa, bad case %u\n", i);
    }
    gpu_op_gqa_decode(g, &r.a, &b); // two rows
    CHECK(t, refused(g));
    struct args_gqa_append append = {.n_rows = 2,
                                     .n_heads = 6,
                                     .n_kv_heads = 2,
                                     .head_dim = 40,
                                     .rope_dim = 8,
                                     .q_stride = r.a.q_stride,
                                     .q_head_stride = r.a.q_head_stride,
                                     .kv_stride = 160,
                                     .v_offset = 80,
                                     .position = 5};
    struct gpu_gqa_append_bufs to = {r.out.buf, r.out.buf, r.out.buf, r.q.buf, r.out.buf, cache};
    gpu_op_gqa_append(g, &append, &to);
    CHECK(t, !refused(g));
    struct args_gqa_append odd[] = {append, append, append, append, append, append};
    n = 0;
    odd[n++].rope_dim = 7;
    odd[n++].rope_offset = 33; // behind the head
    odd[n++].position = 6;
    odd[n++].v_offset = UINT32_MAX;
    odd[n++].k_norm = gpu_buf_bytes(r.out.buf) - 156;
    odd[n++].kv_stride = 70;
    for (unsigned i = 0; i < n; i++) {
        gpu_op_gqa_append(g, &odd[i], &to);
        if (!CHECK(t, refused(g)))
            printf("    gqa_append, bad case %u\n", i);
    }
    gpu_buf_free(cache);
    gqa_rig_free(&r);
}

static void others_refuse(struct harness *t, gpu *g)
{
    struct twin x = random_twin(g, 400, 1), y = random_twin(g, 400, 2), state = random_twin(g, 60, 3);
    struct args_short_conv conv = {.n_rows = 4, .channels = 20, .in_stride = 20, .out_stride = 20};
    struct gpu_short_conv_bufs b = {y.buf, x.buf, state.buf, state.buf, y.buf};
    gpu_op_short_conv(g, &conv, &b);
    CHECK(t, !refused(g));
    struct args_short_conv bad[] = {conv, conv, conv, conv};
    bad[0].from = 1;
    bad[1].channels = 21;
    bad[2].n_rows = 21;
    bad[3].weight = 1284;
    for (unsigned i = 0; i < 4; i++) {
        gpu_op_short_conv(g, &bad[i], &b);
        if (!CHECK(t, refused(g)))
            printf("    short_conv, bad case %u\n", i);
    }
    b.y = b.x;
    gpu_op_short_conv(g, &conv, &b);
    CHECK(t, refused(g));
    struct args_gated_norm norm = {.n_rows = 2, .n_heads = 5, .dim = 20, .in_stride = 100, .gate_stride = 100};
    struct gpu_gated_norm_bufs n = {y.buf, x.buf, x.buf, y.buf};
    gpu_op_gated_norm(g, &norm, &n); // rows of the output overlap
    CHECK(t, refused(g));
    norm.out_stride = 100;
    norm.act = 2;
    gpu_op_gated_norm(g, &norm, &n);
    CHECK(t, refused(g));
    struct args_gate_product gate = {
        .n_rows = 2, .n_heads = 2, .dim = 100, .stride = 200, .gate_stride = 200, .gate_head_stride = 100};
    gpu_op_gate_product(g, &gate, x.buf, y.buf);
    CHECK(t, !refused(g));
    gate.gate_offset = 1;
    gpu_op_gate_product(g, &gate, x.buf, y.buf);
    CHECK(t, refused(g));
    twin_free(&x), twin_free(&y), twin_free(&state);
}

static void what_does_not_fit_is_refused(struct harness *t)
{
    for (unsigned d = 0; d < rigs.n; d++) {
        deltas_refuse(t, rigs.items[d].g);
        attentions_refuse(t, rigs.items[d].g);
        others_refuse(t, rigs.items[d].g);
    }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(convolutions),   TEST(deltas),
        TEST(deltas_cut),     TEST(gated_norms),
        TEST(gate_products),  TEST(appends),
        TEST(attentions),     TEST(convolutions_cut),
        TEST(attentions_cut), TEST(what_does_not_fit_is_refused),
    };
    rigs = open_rigs();
    int failed = HARNESS_RUN(tests, argc, argv);
    close_rigs(&rigs);
    return failed;
}
