// SPDX-License-Identifier: GPL-3.0-or-later
// Every op on every device, in both shapes of kernels, against ref.c: odd sizes, poisoned outputs.
#include "tests/ops/rig.h"

// Relative to the sum of a product's terms. float32's unit is 6e-8; the longest sums here have 7168 terms.
static const double product_tolerance = 5e-7;

struct product_case {
    uint32_t n_rows, in_dim, out_dim, bits, group_size, add;
};

static const struct product_case product_cases[] = {
    {1, 32, 1, 4, 32, 0},      {1, 64, 7, 4, 64, 1},      {1, 96, 33, 4, 32, 0},    {1, 160, 17, 8, 32, 0},
    {1, 384, 100, 4, 64, 0},   {1, 384, 64, 8, 128, 1},   {1, 448, 131, 4, 64, 1},  {1, 448, 40, 8, 64, 0},
    {1, 1024, 12, 4, 128, 0},  {1, 7168, 19, 4, 64, 0},   {1, 7168, 5, 8, 32, 0},   {2, 32, 9, 4, 32, 1},
    {7, 96, 16, 4, 32, 0},     {16, 160, 7, 8, 32, 0},    {17, 384, 33, 4, 128, 1}, {33, 448, 64, 4, 64, 0},
    {33, 448, 65, 8, 64, 1},   {130, 192, 24, 4, 64, 0},  {145, 256, 8, 8, 128, 0}, {300, 64, 3, 4, 32, 0},
    {5, 7168, 10, 4, 64, 0},   {66, 2048, 70, 4, 128, 0}, {64, 1024, 96, 4, 64, 0}, {1, 32, 3, 16, 32, 1},
    {1, 96, 33, 32, 32, 0},    {1, 7168, 13, 16, 32, 0},  {1, 1024, 70, 32, 32, 1}, {19, 160, 9, 16, 32, 0},
    {130, 288, 21, 32, 32, 1}, {7, 448, 65, 16, 32, 1},   {1, 7168, 20, 4, 64, 0},  {1, 5120, 6, 8, 64, 1},
    {1, 608, 2050, 4, 32, 0},  {1, 96, 1030, 8, 32, 1},
};
enum { N_PRODUCTS = sizeof product_cases / sizeof *product_cases };

static int check_product(struct rig *rig, const struct product_case *c, int decode)
{
    struct args_matrix shape = {
        .in_dim = c->in_dim, .out_dim = c->out_dim, .kind = kind_of(c->bits), .group_size = c->group_size};
    struct test_matrices m = random_matrices(shape, 1, 77 + c->in_dim);
    struct args_matmul a = {.matrix = m.at[0],
                            .n_rows = c->n_rows,
                            .in_stride = c->in_dim + 3,
                            .in_offset = 2,
                            .out_stride = c->out_dim + 5,
                            .out_offset = 4,
                            .add = c->add};
    size_t n_in = (size_t)c->n_rows * a.in_stride + 2;
    size_t n_out = (size_t)c->n_rows * a.out_stride + 4;
    float *x = random_floats(n_in, 5 + c->n_rows);
    float *want = poisoned(n_out);
    float *terms = poisoned(n_out);
    uint32_t seed = 99;
    for (uint32_t r = 0; r < c->n_rows; r++)
        for (uint32_t o = 0; o < c->out_dim; o++) {
            size_t at = (size_t)r * a.out_stride + a.out_offset + o;
            if (c->add)
                want[at] = random_float(&seed);
            terms[at] = product_terms(&m, 0, o, x + (size_t)r * a.in_stride + a.in_offset) + (c->add ? 1.0f : 0.0f);
        }
    gpu_buf *matrix = upload(rig->g, m.bytes, m.size);
    gpu_buf *in = upload(rig->g, x, n_in * sizeof *x);
    gpu_buf *out = upload(rig->g, want, n_out * sizeof *want);
    ref_matmul(&a, m.bytes, x, want);
    (decode ? gpu_op_matvec : gpu_op_matmul)(rig->g, &a, matrix, in, out);
    float *got = download(rig->g, out);
    int good = close_to(rig->label, got, want, terms, n_out, product_tolerance);
    if (!good)
        printf("    %u rows, %ux%u, %u bits, groups of %u, %s\n", c->n_rows, c->in_dim, c->out_dim, c->bits,
               c->group_size, decode ? "matvec" : "matmul");
    free(got), free(x), free(want), free(terms), free(m.bytes);
    gpu_buf_free(matrix), gpu_buf_free(in), gpu_buf_free(out);
    return good;
}

// With a limit of 0 there is none; of about a third of a product's size, many are beyond it. situ_beta: less than it.
static int check_swiglu(struct rig *rig, const struct product_case *c, int decode, float limit, float situ_beta)
{
    struct args_matrix shape = {
        .in_dim = c->in_dim, .out_dim = c->out_dim, .kind = kind_of(c->bits), .group_size = c->group_size};
    struct test_matrices m = random_matrices(shape, 2, 177 + c->in_dim);
    struct args_swiglu a = {.gate = m.at[0],
                            .up = m.at[1],
                            .n_rows = c->n_rows,
                            .in_stride = c->in_dim,
                            .in_offset = 0,
                            .out_stride = c->out_dim + 1,
                            .out_offset = 1,
                            .limit = limit,
                            .situ_beta = situ_beta};
    size_t n_in = (size_t)c->n_rows * a.in_stride;
    size_t n_out = (size_t)c->n_rows * a.out_stride + 1;
    float *x = random_floats(n_in, 6 + c->n_rows);
    float *want = poisoned(n_out);
    float *terms = poisoned(n_out);
    for (uint32_t r = 0; r < c->n_rows; r++)
        for (uint32_t o = 0; o < c->out_dim; o++) {
            const float *in = x + (size_t)r * a.in_stride;
            // |d(silu(g) u)| <= 1.1 |dg| |u| + (|g| + 0.3) |du|, and neither exceeds its terms
            float g = product_terms(&m, 0, o, in);
            float u = product_terms(&m, 1, o, in);
            if (limit > 0) { // neither is larger, and SiTU is flatter
                terms[(size_t)r * a.out_stride + a.out_offset + o] = (1.1f * limit) * g + (limit + 0.3f) * u;
                continue;
            }
            terms[(size_t)r * a.out_stride + a.out_offset + o] = 2.5f * g * u + 0.3f * u;
        }
    gpu_buf *matrices = upload(rig->g, m.bytes, m.size);
    gpu_buf *in = upload(rig->g, x, n_in * sizeof *x);
    gpu_buf *out = upload(rig->g, want, n_out * sizeof *want);
    ref_swiglu(&a, m.bytes, x, want);
    (decode ? gpu_op_swiglu_vec : gpu_op_swiglu_mat)(rig->g, &a, matrices, in, out);
    float *got = download(rig->g, out);
    int good = close_to(rig->label, got, want, terms, n_out, product_tolerance);
    if (!good)
        printf("    swiglu: %u rows, %ux%u, %u bits, limit %g, SiTU %g\n", c->n_rows, c->in_dim, c->out_dim, c->bits,
               (double)limit, (double)situ_beta);
    free(got), free(x), free(want), free(terms), free(m.bytes);
    gpu_buf_free(matrices), gpu_buf_free(in), gpu_buf_free(out);
    return good;
}

static struct rigs rigs; // opened once: building kernels takes seconds

static void products(struct harness *t)
{
    for (unsigned d = 0; d < rigs.n; d++)
        for (int i = 0; i < N_PRODUCTS; i++) {
            CHECK(t, check_product(&rigs.items[d], &product_cases[i], 0));
            if (product_cases[i].n_rows == 1)
                CHECK(t, check_product(&rigs.items[d], &product_cases[i], 1));
        }
}

static void swiglus(struct harness *t)
{
    for (unsigned d = 0; d < rigs.n; d++)
        for (int i = 0; i < N_PRODUCTS; i++) {
            CHECK(t, check_swiglu(&rigs.items[d], &product_cases[i], 0, 0, 0));
            CHECK(t, check_swiglu(&rigs.items[d], &product_cases[i], 0, 1.5f, 0));
            CHECK(t, check_swiglu(&rigs.items[d], &product_cases[i], 0, 1.5f, 1.25f));
            if (product_cases[i].n_rows == 1) {
                CHECK(t, check_swiglu(&rigs.items[d], &product_cases[i], 1, 0, 0));
                CHECK(t, check_swiglu(&rigs.items[d], &product_cases[i], 1, 1.5f, 0));
                CHECK(t, check_swiglu(&rigs.items[d], &product_cases[i], 1, 1.5f, 1.25f));
            }
        }
}

static void embeddings(struct harness *t)
{
    static const struct args_matrix shapes[] = {
        {.in_dim = 32, .out_dim = 3, .kind = KIND_MLX_4, .group_size = 32},
        {.in_dim = 448, .out_dim = 100, .kind = KIND_MLX_8, .group_size = 64},
        {.in_dim = 7168, .out_dim = 20, .kind = KIND_MLX_4, .group_size = 128},
        {.in_dim = 288, .out_dim = 5, .kind = KIND_BF16, .group_size = 32},
        {.in_dim = 32, .out_dim = 4, .kind = KIND_F32, .group_size = 32},
    };
    static const int32_t ids[] = {0, 2, 1, 2};
    for (unsigned d = 0; d < rigs.n; d++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            gpu *g = rigs.items[d].g;
            struct test_matrices m = random_matrices(shapes[i], 1, 3);
            struct args_embed a = {.table = m.at[0], .n_rows = 4};
            size_t n = (size_t)4 * shapes[i].in_dim + 3;
            float *want = poisoned(n);
            gpu_buf *table = upload(g, m.bytes, m.size);
            gpu_buf *id_buf = upload(g, ids, sizeof ids);
            gpu_buf *out = upload(g, want, n * sizeof *want);
            ref_embed(&a, m.bytes, ids, want);
            gpu_op_embed(g, &a, table, id_buf, out);
            float *got = download(g, out);
            // q * scale may be rounded before bias is added, or not
            float *terms = must(malloc(n * sizeof *terms));
            for (size_t k = 0; k < n; k++)
                terms[k] = 1.0f;
            CHECK(t, close_to(rigs.items[d].label, got, want, terms, n, 1.2e-7));
            free(got), free(want), free(terms), free(m.bytes);
            gpu_buf_free(table), gpu_buf_free(id_buf), gpu_buf_free(out);
        }
}

static void norms(struct harness *t)
{
    static const struct args_rmsnorm cases[] = {
        {.weight = 12, .n_rows = 1, .dim = 7, .in_stride = 7, .out_stride = 7, .eps = 1e-6f},
        {.weight = 4, .n_rows = 3, .dim = 100, .in_stride = 123, .in_offset = 5, .out_stride = 101, .eps = 1e-5f},
        {.n_rows = 33, .dim = 448, .in_stride = 448, .out_stride = 500, .out_offset = 9, .eps = 1e-6f},
        {.n_rows = 2, .dim = 7168, .in_stride = 7168, .out_stride = 7168, .eps = 1e-6f},
        {.weight = 8, .n_rows = 3, .dim = 77, .in_stride = 77, .out_stride = 77, .eps = 1e-6f, .plus_one = 1},
    };
    for (unsigned d = 0; d < rigs.n; d++)
        for (int i = 0; i < 5; i++) {
            gpu *g = rigs.items[d].g;
            struct args_rmsnorm a = cases[i];
            size_t n_in = (size_t)a.n_rows * a.in_stride + a.in_offset;
            size_t n_out = (size_t)a.n_rows * a.out_stride + a.out_offset;
            float *x = random_floats(n_in, 8);
            float weights[7200];
            uint32_t seed = 21;
            for (int k = 0; k < 7200; k++)
                weights[k] = 1.0f + 0.5f * random_float(&seed);
            float *want = poisoned(n_out);
            gpu_buf *weight = upload(g, weights, sizeof weights);
            gpu_buf *in = upload(g, x, n_in * sizeof *x);
            gpu_buf *out = upload(g, want, n_out * sizeof *want);
            ref_rmsnorm(&a, weights, x, want);
            gpu_op_rmsnorm(g, &a, weight, in, out);
            float *got = download(g, out);
            CHECK(t, close_to(rigs.items[d].label, got, want, NULL, n_out, 1e-6));
            if (a.in_stride == a.out_stride) { // in place
                gpu_op_rmsnorm(g, &a, weight, in, in);
                float *again = download(g, in);
                CHECK(t, again && memcmp(again, got, (size_t)a.n_rows * a.dim * sizeof *got) == 0);
                free(again);
            }
            free(got), free(x), free(want);
            gpu_buf_free(weight), gpu_buf_free(in), gpu_buf_free(out);
        }
}

static void ropes(struct harness *t)
{
    static const struct args_rope cases[] = {
        {.n_rows = 1, .n_heads = 1, .row_stride = 2, .head_stride = 2, .rope_dim = 2, .position = 0, .scale = 1},
        {.n_rows = 3,
         .n_heads = 5,
         .row_stride = 60,
         .head_stride = 12,
         .offset = 2,
         .rope_dim = 10,
         .position = 255,
         .interleaved = 1,
         .scale = 1},
        {.n_rows = 17,
         .n_heads = 33,
         .row_stride = 33 * 96,
         .head_stride = 96,
         .offset = 64,
         .rope_dim = 32,
         .position = 256,
         .interleaved = 1,
         .scale = 1.25f},
        {.n_rows = 2,
         .n_heads = 128,
         .row_stride = 128 * 192,
         .head_stride = 192,
         .offset = 128,
         .rope_dim = 64,
         .position = 8191,
         .interleaved = 0,
         .scale = 0.7f},
        {.n_rows = 1,
         .n_heads = 3,
         .row_stride = 400,
         .head_stride = 130,
         .rope_dim = 130,
         .position = 257,
         .scale = 1},
    };
    for (unsigned d = 0; d < rigs.n; d++)
        for (int i = 0; i < 5; i++) {
            gpu *g = rigs.items[d].g;
            struct args_rope a = cases[i];
            size_t n = (size_t)a.n_rows * a.row_stride;
            float inv_freq[65];
            for (uint32_t j = 0; j < 65; j++)
                inv_freq[j] = powf(10000.0f, -2.0f * (float)j / (float)a.rope_dim);
            float *want = random_floats(n, 31);
            float *terms = must(malloc(n * sizeof *terms));
            for (size_t k = 0; k < n; k++)
                terms[k] = 2.0f;
            gpu_buf *freq = upload(g, inv_freq, sizeof inv_freq);
            gpu_buf *x = upload(g, want, n * sizeof *want);
            ref_rope(&a, inv_freq, want);
            gpu_op_rope(g, &a, freq, x);
            float *got = download(g, x);
            CHECK(t, close_to(rigs.items[d].label, got, want, terms, n, 5e-7));
            free(got), free(want), free(terms);
            gpu_buf_free(freq), gpu_buf_free(x);
        }
}

// The bits of norm and rope one after the other, converted as ref does; and of rope of q.
static void check_append(struct harness *t, struct rig *rig, struct args_kv_append a)
{
    gpu *g = rig->g;
    uint32_t width = a.kv_lora_rank + a.rope_dim;
    size_t n_in = (size_t)a.n_rows * a.in_stride, n = (size_t)(a.position + a.n_rows + 1) * width;
    float *x = random_floats(n_in, 41), *blank = poisoned(n), *inv_freq = random_floats(a.rope_dim / 2, 43);
    float *key = x + a.kv_lora_rank; // at position 0 it stays as it is
    key[0] = 1e-6f;                  // a subnormal half
    key[1] = 70000.0f;
    key[2] = 1.00048828125f; // between two halves: to even
    key[3] = -0.0f;
    float *norm = must(malloc((a.kv_lora_rank + 3) * sizeof *norm));
    for (uint32_t i = 0; i < a.kv_lora_rank + 3; i++)
        norm[i] = 0.5f + (float)(i * 37 % 256) / 300.0f;
    struct gpu_kv_append_bufs b = {upload(g, norm, (a.kv_lora_rank + 3) * sizeof *norm),
                                   upload(g, inv_freq, a.rope_dim / 2 * sizeof *inv_freq), upload(g, x, n_in * 4),
                                   upload(g, blank, n * 4), NULL};
    size_t n_q = (size_t)a.n_rows * a.q_row_stride;
    float *queries = random_floats(n_q + 1, 45);
    gpu_buf *q_apart = upload(g, queries, (n_q + 1) * 4);
    b.q = upload(g, queries, (n_q + 1) * 4);
    if (a.no_rope)
        gpu_buf_free(b.inv_freq), b.inv_freq = NULL;
    gpu_buf *apart = upload(g, x, n_in * 4);
    struct args_rmsnorm rmsnorm = {.weight = a.norm,
                                   .n_rows = a.n_rows,
                                   .dim = a.kv_lora_rank,
                                   .in_stride = a.in_stride,
                                   .out_stride = a.in_stride,
                                   .eps = a.eps};
    struct args_rope rope = {.n_rows = a.n_rows,
                             .n_heads = 1,
                             .row_stride = a.in_stride,
                             .offset = a.kv_lora_rank,
                             .rope_dim = a.rope_dim,
                             .position = a.position,
                             .interleaved = a.interleaved,
                             .scale = a.scale};
    gpu_op_kv_append(g, &a, &b);
    gpu_op_rmsnorm(g, &rmsnorm, b.norm, apart, apart);
    if (!a.no_rope)
        gpu_op_rope(g, &rope, b.inv_freq, apart);
    rope.n_heads = a.n_heads;
    rope.row_stride = a.q_row_stride;
    rope.head_stride = a.q_head_stride;
    rope.offset = a.q_offset;
    if (!a.no_rope)
        gpu_op_rope(g, &rope, b.inv_freq, q_apart);
    float *rows = download(g, apart), *got = download(g, b.cache);
    float *turned = download(g, b.q), *turned_apart = download(g, q_apart);
    CHECK(t, turned && turned_apart && memcmp(turned, turned_apart, (n_q + 1) * 4) == 0);
    for (uint32_t r = 0; rows && r < a.n_rows; r++)
        ref_to_cache(a.kv_type, rows + (size_t)r * a.in_stride, width, blank, (uint64_t)(a.position + r) * width);
    if (!CHECK(t, rows && got && memcmp(got, blank, n * 4) == 0))
        printf("    %s: %u rows of %u + %u at %u\n", rig->label, a.n_rows, a.kv_lora_rank, a.rope_dim, a.position);
    gpu_buf_free(b.norm), gpu_buf_free(b.inv_freq), gpu_buf_free(b.x), gpu_buf_free(b.cache), gpu_buf_free(apart);
    gpu_buf_free(b.q), gpu_buf_free(q_apart);
    free(x), free(blank), free(inv_freq), free(norm), free(rows), free(got);
    free(queries), free(turned), free(turned_apart);
}

static void appends(struct harness *t)
{
    static const struct args_kv_append cases[] = {
        {.norm = 12, .n_rows = 1, .kv_lora_rank = 512, .rope_dim = 64, .in_stride = 580, .eps = 1e-6f, .scale = 1},
        {.norm = 4,
         .n_rows = 17,
         .kv_lora_rank = 512,
         .rope_dim = 64,
         .in_stride = 576,
         .position = 3,
         .interleaved = 1},
        {.n_rows = 3, .kv_lora_rank = 37, .rope_dim = 6, .in_stride = 50, .position = 900, .eps = 1e-5f, .scale = 0.7f},
        {.n_rows = 2, .kv_lora_rank = 160, .rope_dim = 10, .in_stride = 170, .interleaved = 1, .scale = 1},
        {.n_rows = 3, .kv_lora_rank = 32, .rope_dim = 7, .in_stride = 40, .position = 2, .eps = 1e-5f, .no_rope = 1},
    };
    for (unsigned d = 0; d < rigs.n; d++)
        for (uint32_t i = 0; i < 10; i++) {
            struct args_kv_append a = cases[i / 2];
            a.kv_type = i % 2;
            a.n_heads = i % 2 ? 1 + 4 * i : 0; // 5 to 29, and none
            a.q_offset = 3;
            a.q_head_stride = a.rope_dim + i;
            a.q_row_stride = a.n_heads * a.q_head_stride + 7;
            check_append(t, &rigs.items[d], a);
        }
}

struct kv_b_case {
    uint32_t n_rows, n_heads, nope, v, rank, bits, group_size, decode;
};

static const struct kv_b_case kv_b_cases[] = {
    {1, 1, 1, 1, 32, 4, 32, 0},        {2, 3, 5, 7, 96, 4, 32, 0},       {7, 4, 32, 48, 160, 8, 32, 0},
    {17, 5, 64, 64, 192, 4, 64, 0},    {33, 8, 64, 32, 128, 4, 64, 0},   {1, 8, 128, 128, 512, 4, 64, 0},
    {16, 2, 192, 256, 512, 8, 128, 0}, {5, 3, 20, 24, 160, 16, 32, 0},   {18, 2, 7, 33, 96, 32, 32, 0},
    {1, 1, 1, 1, 32, 4, 32, 1},        {1, 3, 5, 7, 96, 4, 32, 1},       {1, 4, 32, 48, 160, 8, 32, 1},
    {1, 8, 128, 128, 512, 4, 64, 1},   {1, 2, 192, 256, 512, 8, 128, 1}, {1, 3, 20, 24, 160, 16, 32, 1},
    {1, 2, 7, 33, 96, 32, 32, 1},      {1, 2, 130, 60, 576, 4, 64, 1},
};

static void kv_b_halves(struct harness *t)
{
    for (unsigned d = 0; d < rigs.n; d++)
        for (size_t i = 0; i < sizeof kv_b_cases / sizeof *kv_b_cases; i++) {
            gpu *g = rigs.items[d].g;
            const struct kv_b_case *c = &kv_b_cases[i];
            struct args_matrix shape = {.in_dim = c->rank,
                                        .out_dim = c->n_heads * (c->nope + c->v),
                                        .kind = kind_of(c->bits),
                                        .group_size = c->group_size};
            struct test_matrices m = random_matrices(shape, 1, 51);
            struct args_kv_b a = {.kv_b = m.at[0],
                                  .n_rows = c->n_rows,
                                  .n_heads = c->n_heads,
                                  .qk_nope_head_dim = c->nope,
                                  .v_head_dim = c->v,
                                  .q_row_stride = c->n_heads * (c->nope + 16) + 1,
                                  .q_head_stride = c->nope + 16,
                                  .decode = c->decode};
            size_t heads = (size_t)c->n_rows * c->n_heads;
            size_t n_q = (size_t)c->n_rows * a.q_row_stride;
            size_t n_latent = heads * c->rank;
            size_t n_out = heads * c->v;
            float *q = random_floats(n_q, 52);
            float *latent = poisoned(n_latent + 1);
            float *out = poisoned(n_out + 1);
            gpu_buf *kv_b = upload(g, m.bytes, m.size);
            gpu_buf *q_buf = upload(g, q, n_q * sizeof *q);
            gpu_buf *latent_buf = upload(g, latent, (n_latent + 1) * sizeof *latent);
            gpu_buf *out_buf = upload(g, out, (n_out + 1) * sizeof *out);
            ref_q_prime(&a, m.bytes, q, latent);
            gpu_op_q_prime(g, &a, kv_b, q_buf, latent_buf);
            float *got = download(g, latent_buf);
            float *terms = must(malloc((n_latent + n_out + 2) * sizeof *terms));
            for (size_t k = 0; k < n_latent + n_out + 2; k++)
                terms[k] = (float)c->nope;
            CHECK(t, close_to(rigs.items[d].label, got, latent, terms, n_latent + 1, product_tolerance));
            free(got);
            struct args_heads b = {.matrix = m.at[0],
                                   .n_rows = c->n_rows,
                                   .n_heads = c->n_heads,
                                   .n_out = c->v,
                                   .head_rows = c->nope + c->v,
                                   .first_row = c->nope,
                                   .row_stride = c->n_heads * c->rank,
                                   .head_stride = c->rank,
                                   .decode = c->decode};
            ref_heads(&b, m.bytes, latent, out);
            gpu_write(g, latent_buf, 0, latent, n_latent * sizeof *latent);
            gpu_op_heads(g, &b, kv_b, latent_buf, out_buf);
            got = download(g, out_buf);
            for (size_t k = 0; k < n_out; k++) {
                uint32_t h = (uint32_t)(k / c->v % c->n_heads);
                terms[k] = product_terms(&m, 0, h * (c->nope + c->v) + c->nope + (uint32_t)(k % c->v),
                                         latent + k / c->v * c->rank);
            }
            CHECK(t, close_to(rigs.items[d].label, got, out, terms, n_out + 1, product_tolerance));
            free(got), free(q), free(latent), free(out), free(terms), free(m.bytes);
            gpu_buf_free(kv_b), gpu_buf_free(q_buf), gpu_buf_free(latent_buf), gpu_buf_free(out_buf);
        }
}

// As MLX's embed_q is used: all of a head's rows, inputs apart from each other.
static void heads_of_strided_rows(struct harness *t)
{
    static const struct product_case cases[] = {{3, 96, 64, 4, 32, 0},
                                                {17, 192, 160, 8, 64, 0},
                                                {1, 64, 33, 16, 32, 0},
                                                {1, 64, 33, 16, 32, 1},
                                                {1, 192, 162, 8, 64, 1}}; // the last says: decode
    for (unsigned d = 0; d < rigs.n; d++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            enum { HEADS = 3, GAP = 10 };
            gpu *g = rigs.items[d].g;
            const struct product_case *c = &cases[i];
            struct args_matrix shape = {.in_dim = c->in_dim,
                                        .out_dim = HEADS * c->out_dim,
                                        .kind = kind_of(c->bits),
                                        .group_size = c->group_size};
            struct test_matrices m = random_matrices(shape, 1, 61);
            struct args_heads a = {.matrix = m.at[0],
                                   .n_rows = c->n_rows,
                                   .n_heads = HEADS,
                                   .n_out = c->out_dim,
                                   .head_rows = c->out_dim,
                                   .row_stride = HEADS * (c->in_dim + GAP) + 1,
                                   .head_stride = c->in_dim + GAP,
                                   .decode = c->add};
            size_t n_in = (size_t)c->n_rows * a.row_stride;
            size_t n_out = (size_t)c->n_rows * HEADS * c->out_dim;
            float *x = random_floats(n_in, 62);
            float *want = poisoned(n_out);
            float *terms = poisoned(n_out);
            for (size_t k = 0; k < n_out; k++) {
                uint32_t h = (uint32_t)(k / c->out_dim % HEADS);
                terms[k] = product_terms(&m, 0, h * c->out_dim + (uint32_t)(k % c->out_dim),
                                         x + k / c->out_dim / HEADS * a.row_stride + (size_t)h * a.head_stride);
            }
            gpu_buf *matrix = upload(g, m.bytes, m.size);
            gpu_buf *in = upload(g, x, n_in * sizeof *x);
            gpu_buf *out = upload(g, want, n_out * sizeof *want);
            ref_heads(&a, m.bytes, x, want);
            gpu_op_heads(g, &a, matrix, in, out);
            float *got = download(g, out);
            CHECK(t, close_to(rigs.items[d].label, got, want, terms, n_out, product_tolerance));
            free(got), free(x), free(want), free(terms), free(m.bytes);
            gpu_buf_free(matrix), gpu_buf_free(in), gpu_buf_free(out);
        }
}

struct attention_case {
    uint32_t n_rows, n_heads, rank, rope, position, kv_type;
};

static const struct attention_case attention_cases[] = {
    {1, 1, 32, 2, 0, KV_F32},       {1, 6, 128, 32, 1, KV_F32},      {1, 8, 128, 32, 255, KV_F16},
    {1, 17, 96, 10, 256, KV_F32},   {1, 33, 160, 16, 257, KV_F16},   {1, 128, 512, 64, 300, KV_F32},
    {1, 8, 128, 32, 8191, KV_F32},  {2, 3, 32, 4, 0, KV_F32},        {7, 5, 64, 6, 63, KV_F32},
    {17, 8, 128, 32, 250, KV_F16},  {33, 16, 96, 8, 0, KV_F32},      {70, 6, 128, 32, 100, KV_F32},
    {16, 40, 512, 64, 120, KV_F16}, {3, 4, 64, 16, 8189, KV_F32},    {1, 16, 512, 64, 0, KV_F16},
    {1, 17, 512, 64, 64, KV_F16},   {1, 128, 512, 64, 1000, KV_F16}, {1, 20, 512, 64, 16500, KV_F16},
    {5, 16, 512, 64, 60, KV_F16},
};

static int check_attention(struct rig *rig, const struct attention_case *c, int decode)
{
    gpu *g = rig->g;
    struct args_attention a = {.n_rows = c->n_rows,
                               .n_heads = c->n_heads,
                               .kv_lora_rank = c->rank,
                               .rope_dim = c->rope,
                               .q_row_stride = c->n_heads * (c->rope + 8) + 4,
                               .q_head_stride = c->rope + 8,
                               .q_rope_offset = 8,
                               .position = c->position,
                               .kv_type = c->kv_type,
                               .softmax_scale = 0.8f};
    uint32_t width = c->rank + c->rope;
    size_t n_latent = (size_t)c->n_rows * c->n_heads * c->rank;
    size_t n_q = (size_t)c->n_rows * a.q_row_stride + 8;
    size_t n_cache = (size_t)(c->position + c->n_rows) * width;
    float *q_latent = random_floats(n_latent, 61);
    float *q = random_floats(n_q, 62);
    float *rows = random_floats(n_cache, 63);
    void *cache = must(malloc(n_cache * 4));
    ref_to_cache(c->kv_type, rows, n_cache, cache, 0);
    float *want = poisoned(n_latent + 1);
    float *terms = must(malloc((n_latent + 1) * sizeof *terms));
    for (size_t i = 0; i <= n_latent; i++)
        terms[i] = 25.0f + (float)width; // a weighted mean of numbers below 1: weights err by what scores do
    struct gpu_attention_bufs b = {upload(g, q_latent, n_latent * 4), upload(g, q, n_q * 4),
                                   upload(g, cache, n_cache * (c->kv_type == KV_F16 ? 2 : 4)),
                                   upload(g, want, (n_latent + 1) * 4), NULL};
    ref_attention(&a, &(struct gpu_attention_bufs){HOST(q_latent), HOST(q), HOST(cache), HOST(want), NULL});
    (decode ? gpu_op_attention_decode : gpu_op_attention_prefill)(g, &a, &b);
    float *got = download(g, b.out);
    int good = close_to(rig->label, got, want, terms, n_latent + 1, 4e-8);
    if (!good)
        printf("    attention: %u rows at %u, %u heads of %u+%u, %s\n", c->n_rows, c->position, c->n_heads, c->rank,
               c->rope, decode ? "decode" : "prefill");
    free(got), free(q_latent), free(q), free(rows), free(cache), free(want), free(terms);
    gpu_buf_free(b.q_latent), gpu_buf_free(b.q), gpu_buf_free(b.cache), gpu_buf_free(b.out);
    return good;
}

static void attentions(struct harness *t)
{
    for (unsigned d = 0; d < rigs.n; d++)
        for (size_t i = 0; i < sizeof attention_cases / sizeof *attention_cases; i++) {
            CHECK(t, check_attention(&rigs.items[d], &attention_cases[i], 0));
            if (attention_cases[i].n_rows == 1)
                CHECK(t, check_attention(&rigs.items[d], &attention_cases[i], 1));
        }
}

// The settings of real models (V2-Lite, V2, V3, K2) and odd ones.
static const struct args_router routers_cases[] = {
    {.n_experts = 1, .n_group = 1, .topk_group = 1, .top_k = 1, .has_bias = 1, .topk_method = TOPK_NOAUX},
    {.n_experts = 32,
     .n_group = 4,
     .topk_group = 2,
     .top_k = 4,
     .norm_topk_prob = 1,
     .has_bias = 1,
     .topk_method = TOPK_NOAUX},
    {.n_experts = 256,
     .n_group = 8,
     .topk_group = 4,
     .top_k = 8,
     .norm_topk_prob = 1,
     .has_bias = 1,
     .topk_method = TOPK_NOAUX},
    {.n_experts = 384,
     .n_group = 1,
     .topk_group = 1,
     .top_k = 8,
     .norm_topk_prob = 1,
     .has_bias = 1,
     .topk_method = TOPK_NOAUX},
    {.n_experts = 30, .n_group = 3, .topk_group = 1, .top_k = 10, .norm_topk_prob = 1, .topk_method = TOPK_NOAUX},
    {.n_experts = 64, .n_group = 1, .topk_group = 1, .top_k = 6, .scoring = ROUTER_SOFTMAX},
    {.n_experts = 160,
     .n_group = 8,
     .topk_group = 3,
     .top_k = 6,
     .scoring = ROUTER_SOFTMAX,
     .topk_method = TOPK_GROUP_LIMITED},
    {.n_experts = 1001,
     .n_group = 7,
     .topk_group = 2,
     .top_k = 77,
     .norm_topk_prob = 1,
     .scoring = ROUTER_SOFTMAX,
     .topk_method = TOPK_GROUP_LIMITED},
    {.n_experts = 5,
     .n_group = 5,
     .topk_group = 2,
     .top_k = 2,
     .scoring = ROUTER_SOFTMAX,
     .topk_method = TOPK_GROUP_LIMITED},
};

// Plain: logits of both signs. Negative: every logit, and every choice, below zero. Ties: all experts alike.
enum router_input { PLAIN, NEGATIVE, TIES, ROUTER_INPUTS };

static void one_router(struct harness *t, const struct rig *rig, const struct args_router *settings,
                       enum router_input input)
{
    gpu *g = rig->g;
    struct args_router a = *settings;
    a.n_rows = 1 + a.n_experts % 7;
    a.routed_scaling_factor = 2.5f;
    a.bias = 8;
    a.first = a.n_experts % 3;
    size_t n = (size_t)a.n_rows * a.n_experts;
    size_t n_top = (size_t)a.n_rows * a.top_k + a.first;
    float *logits = random_floats(n, 71);
    float *bias = random_floats(a.n_experts + 2, 72);
    for (size_t k = 0; k < n; k++)
        logits[k] = input == PLAIN ? 4 * logits[k] : input == NEGATIVE ? -20 + 6 * logits[k] : 0.5f;
    for (uint32_t e = 0; e < a.n_experts; e++)
        bias[2 + e] = input == PLAIN ? 0.3f * bias[2 + e] : input == NEGATIVE ? -3 + bias[2 + e] : -1;
    float *want_ids = poisoned(n_top + 1);
    float *want = poisoned(n_top + 1);
    struct gpu_router_bufs b = {upload(g, logits, n * 4), a.has_bias ? upload(g, bias, (a.n_experts + 2) * 4) : NULL,
                                upload(g, want_ids, (n_top + 1) * 4), upload(g, want, (n_top + 1) * 4)};
    ref_router(&a, &(struct gpu_router_bufs){HOST(logits), HOST(bias), HOST(want_ids), HOST(want)});
    gpu_op_router(g, &a, &b);
    float *ids = download(g, b.ids);
    float *got = download(g, b.weights);
    if (!CHECK(t, ids && memcmp(ids, want_ids, (n_top + 1) * 4) == 0 &&
                      close_to(rig->label, got, want, NULL, n_top + 1, 2e-6)))
        printf("    %s: %u experts, input %d\n", rig->label, a.n_experts, input);
    free(ids), free(got), free(logits), free(bias), free(want_ids), free(want);
    gpu_buf_free(b.logits), gpu_buf_free(b.bias), gpu_buf_free(b.ids), gpu_buf_free(b.weights);
}

static void routers(struct harness *t)
{
    for (unsigned d = 0; d < rigs.n; d++)
        for (size_t i = 0; i < sizeof routers_cases / sizeof routers_cases[0]; i++)
            for (int input = 0; input < ROUTER_INPUTS; input++)
                one_router(t, &rigs.items[d], &routers_cases[i], (enum router_input)input);
}

// What transformers 5.17.0's router classes (DeepseekV2, DeepseekV3, Glm4MoeLite) chose for two rows of
// random_floats(.., 100 + i) * scale + shift, with the biases random_floats(.., 200 + i) * 0.5 - 1.5: in descending
// order of choice, with their weights. All choices of the third are below 0, and three of its four groups are masked.
static const struct router_fixture {
    struct args_router args;
    float scale, shift;
    int32_t ids[2][5];
    float weights[2][5];
} router_fixtures[] = {
    {{.n_experts = 11,
      .n_group = 1,
      .topk_group = 1,
      .top_k = 3,
      .scoring = ROUTER_SOFTMAX,
      .routed_scaling_factor = 1},
     5,
     0,
     {{4, 10, 5}, {4, 8, 0}},
     {{0.833135724f, 0.0785690323f, 0.0535276122f}, {0.580316544f, 0.331596524f, 0.0597738735f}}},
    {{.n_experts = 12,
      .n_group = 4,
      .topk_group = 2,
      .top_k = 4,
      .scoring = ROUTER_SOFTMAX,
      .topk_method = TOPK_GROUP_LIMITED,
      .routed_scaling_factor = 16},
     3,
     -9,
     {{9, 2, 11, 0}, {5, 9, 4, 10}},
     {{5.88309097f, 4.46197557f, 4.0939455f, 0.402081311f}, {5.86552954f, 3.44273376f, 1.20661938f, 0.202592954f}}},
    {{.n_experts = 12,
      .n_group = 4,
      .topk_group = 1,
      .top_k = 3,
      .topk_method = TOPK_NOAUX,
      .has_bias = 1,
      .norm_topk_prob = 1,
      .routed_scaling_factor = 2.5f},
     4,
     -2,
     {{10, 11, 9}, {8, 7, 6}},
     {{2.42448211f, 0.0640754625f, 0.0114423092f}, {1.12616277f, 1.19021463f, 0.183622539f}}},
    {{.n_experts = 9,
      .n_group = 1,
      .topk_group = 1,
      .top_k = 5,
      .topk_method = TOPK_NOAUX,
      .has_bias = 1,
      .routed_scaling_factor = 0.5f},
     6,
     1,
     {{2, 6, 8, 5, 0}, {8, 0, 6, 1, 3}},
     {{0.491728723f, 0.494909316f, 0.200458795f, 0.490138739f, 0.37262252f},
      {0.404019117f, 0.471550673f, 0.484645277f, 0.347649902f, 0.481101185f}}},
    {{.n_experts = 10,
      .n_group = 2,
      .topk_group = 1,
      .top_k = 4,
      .topk_method = TOPK_NOAUX,
      .has_bias = 1,
      .norm_topk_prob = 1,
      .routed_scaling_factor = 1.8f},
     2,
     0,
     {{8, 9, 7, 5}, {6, 9, 8, 5}},
     {{0.541988492f, 0.456913978f, 0.428190917f, 0.372906595f},
      {0.482872665f, 0.408878922f, 0.373096824f, 0.53515166f}}},
};

// On the device, or on ref when g is NULL.
static void one_fixture(struct harness *t, gpu *g, const char *label, size_t i)
{
    const struct router_fixture *f = &router_fixtures[i];
    struct args_router a = f->args;
    a.n_rows = 2;
    size_t n = 2 * (size_t)a.n_experts;
    float *logits = random_floats(n, 100 + (uint32_t)i);
    float *bias = random_floats(a.n_experts, 200 + (uint32_t)i);
    int32_t ids[10] = {0};
    float weights[10] = {0};
    for (size_t k = 0; k < n; k++)
        logits[k] = f->scale * logits[k] + f->shift;
    for (uint32_t e = 0; e < a.n_experts; e++)
        bias[e] = bias[e] * 0.5f - 1.5f;
    if (g) {
        struct gpu_router_bufs b = {upload(g, logits, n * 4), upload(g, bias, a.n_experts * 4),
                                    upload(g, ids, sizeof ids), upload(g, weights, sizeof weights)};
        struct gpu_error err;
        gpu_op_router(g, &a, &b);
        CHECK(t, gpu_read(g, b.ids, 0, ids, sizeof ids, &err) == GPU_OK &&
                     gpu_read(g, b.weights, 0, weights, sizeof weights, &err) == GPU_OK);
        gpu_buf_free(b.logits), gpu_buf_free(b.bias), gpu_buf_free(b.ids), gpu_buf_free(b.weights);
    } else {
        ref_router(&a, &(struct gpu_router_bufs){HOST(logits), HOST(bias), HOST(ids), HOST(weights)});
    }
    for (uint32_t k = 0; k < 2 * a.top_k; k++) {
        float want = f->weights[k / a.top_k][k % a.top_k];
        if (!CHECK(t, ids[k] == f->ids[k / a.top_k][k % a.top_k] && fabsf(weights[k] - want) <= 2e-6f * want))
            printf("    %s, fixture %zu, place %u: expert %d with %.9g\n", label, i, k, ids[k], (double)weights[k]);
    }
    free(logits), free(bias);
}

static void routers_are_those_of_transformers(struct harness *t)
{
    for (size_t i = 0; i < sizeof router_fixtures / sizeof router_fixtures[0]; i++) {
        one_fixture(t, NULL, "ref", i);
        for (unsigned d = 0; d < rigs.n; d++)
            one_fixture(t, rigs.items[d].g, rigs.items[d].label, i);
    }
}

static void gathers(struct harness *t)
{
    static const int32_t index[] = {-1, 4, 0, 4, 4, -1}; // three of them one row
    static const uint32_t chain[][2] = {{0, 0}, {NO_PLACE, 3}, {NO_PLACE, NO_PLACE}, {1, 4}, {3, NO_PLACE}, {0, 0}};
    static const uint32_t dims[] = {1, 7, 100, 448};
    for (unsigned d = 0; d < rigs.n; d++)
        for (int i = 0; i < 4; i++) {
            gpu *g = rigs.items[d].g;
            struct args_gather a = {.n_rows = 4, .dim = dims[i], .first = 1};
            size_t n = (size_t)6 * dims[i];
            float *x = random_floats(n, 81);
            float *y = random_floats(n, 82);
            float weight[6] = {9, 0.5f, -1.5f, 0.25f, 3, 9};
            float *want = poisoned(n);
            float *terms = must(malloc(n * sizeof *terms));
            for (size_t k = 0; k < n; k++)
                terms[k] = 4.0f;
            gpu_buf *x_buf = upload(g, x, n * 4);
            gpu_buf *index_buf = upload(g, index, sizeof index);
            gpu_buf *out = upload(g, want, n * 4);
            ref_gather(&a, x, index, want);
            gpu_op_gather(g, &a, x_buf, index_buf, out);
            float *got = download(g, out);
            CHECK(t, got && memcmp(got, want, n * 4) == 0);
            free(got);
            struct gpu_scatter_bufs b = {upload(g, y, n * 4), index_buf, upload(g, weight, sizeof weight),
                                         upload(g, chain, sizeof chain), x_buf};
            struct args_gather last = {
                .n_rows = 2, .dim = dims[i], .first = 3, .row = 1}; // what is before is not its own
            struct gpu_scatter_bufs apart = b;
            apart.out = upload(g, x, n * 4);
            struct gpu_scatter_bufs host = {HOST(y), HOST(index), HOST(weight), HOST(chain), HOST(x)};
            ref_scatter_add(&a, &host);
            ref_scatter_add(&last, &host);
            gpu_op_scatter_add(g, &a, &b);
            for (uint32_t r = 0; r < a.n_rows; r++) {
                struct args_gather one = {.n_rows = 1, .dim = dims[i], .first = a.first + r, .row = r};
                gpu_op_scatter_add(g, &one, &apart);
            }
            got = download(g, x_buf);
            float *one_by_one = download(g, apart.out);
            CHECK(t, got && one_by_one && memcmp(got, one_by_one, n * 4) == 0);
            free(got), free(one_by_one), gpu_buf_free(apart.out);
            gpu_op_scatter_add(g, &last, &b);
            got = download(g, x_buf);
            CHECK(t, close_to(rigs.items[d].label, got, x, terms, n, 3e-7));
            free(got);
            struct args_combine combine = {.n_partials = 5, .dim = dims[i]};
            ref_combine(&combine, y, weight, x);
            gpu_write(g, x_buf, 0, x, 0);
            gpu_op_combine(g, &combine, b.y, b.weight, x_buf);
            got = download(g, x_buf);
            CHECK(t, close_to(rigs.items[d].label, got, x, terms, n, 2e-6));
            free(got), free(x), free(y), free(want), free(terms);
            gpu_buf_free(x_buf), gpu_buf_free(index_buf), gpu_buf_free(out), gpu_buf_free(b.y), gpu_buf_free(b.weight),
                gpu_buf_free(b.chain);
        }
}

static void copies(struct harness *t)
{
    static const uint64_t sizes[] = {64, 640, 65536 * 3 + 64};
    for (unsigned d = 0; d < rigs.n; d++)
        for (int i = 0; i < 3; i++) {
            gpu *g = rigs.items[d].g;
            size_t n = sizes[i] / 4;
            float *x = random_floats(n, 91);
            float *want = poisoned(n + 1);
            gpu_buf *from = upload(g, x, n * 4);
            gpu_buf *to = upload(g, want, (n + 1) * 4);
            gpu_op_copy(g, &(struct args_copy){.bytes = sizes[i]}, from, to);
            float *got = download(g, to);
            CHECK(t, got && memcmp(got, x, n * 4) == 0 && memcmp(got + n, want + n, 4) == 0);
            free(got), free(x), free(want);
            gpu_buf_free(from), gpu_buf_free(to);
        }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(products),
        TEST(swiglus),
        TEST(embeddings),
        TEST(norms),
        TEST(ropes),
        TEST(appends),
        TEST(kv_b_halves),
        TEST(heads_of_strided_rows),
        TEST(attentions),
        TEST(routers),
        TEST(routers_are_those_of_transformers),
        TEST(gathers),
        TEST(copies),
    };
    rigs = open_rigs();
    int failed = HARNESS_RUN(tests, argc, argv);
    close_rigs(&rigs);
    return failed;
}
