// SPDX-License-Identifier: GPL-3.0-or-later
// Attention of a prompt with keys and values of each head: its oracle against that in the latent space, and devices
// that have kernels for it against the oracle.
#include "tests/ops/rig.h"

static struct rigs rigs; // opened once: building kernels takes seconds

// kv_b whole, or in two matrices, the keys turned round.
struct plain_case {
    uint32_t n_rows, n_heads, position, bits, apart, kv_type, rank;
};

struct plain_rig {
    struct args_attention_plain a;
    struct test_matrices keys, values; // which has no bytes where keys has them
    float *q, *want;
    void *cache;
    size_t n_q, n_out, cache_bytes;
};

static struct plain_rig plain_rig_of(const struct plain_case *c)
{
    enum { KEY = 128, VALUE = 128, ROPE = 64, GAP = 4 };
    struct plain_rig r = {.a = {.n_rows = c->n_rows,
                                .n_heads = c->n_heads,
                                .rope_dim = ROPE,
                                .kv_lora_rank = c->rank,
                                .qk_nope_head_dim = KEY,
                                .v_head_dim = VALUE,
                                .q_row_stride = c->n_heads * (KEY + ROPE + GAP) + 4,
                                .q_head_stride = KEY + ROPE + GAP,
                                .position = c->position,
                                .kv_type = c->kv_type,
                                .softmax_scale = 0.1f}};
    struct args_matrix shape = {.in_dim = c->apart ? KEY : c->rank,
                                .out_dim = c->n_heads * (c->apart ? c->rank : KEY + VALUE),
                                .kind = kind_of(c->bits),
                                .group_size = 64};
    r.keys = random_matrices(shape, 1, 71);
    r.a.keys = r.keys.at[0];
    if (c->apart) {
        shape.in_dim = c->rank;
        shape.out_dim = c->n_heads * VALUE;
        r.values = random_matrices(shape, 1, 74);
        r.a.values = r.values.at[0];
    }
    size_t n_cache = (size_t)(c->position + c->n_rows) * (c->rank + ROPE);
    r.n_q = (size_t)c->n_rows * r.a.q_row_stride;
    r.n_out = (size_t)c->n_rows * c->n_heads * VALUE;
    r.cache_bytes = n_cache * (c->kv_type == KV_F16 ? 2 : 4);
    r.q = random_floats(r.n_q, 72);
    float *rows = random_floats(n_cache, 73);
    r.cache = must(malloc(r.cache_bytes));
    ref_to_cache(c->kv_type, rows, n_cache, r.cache, 0);
    free(rows);
    r.want = poisoned(r.n_out + 1);
    ref_attention_plain(&r.a, &(struct gpu_attention_plain_bufs){HOST(r.keys.bytes), HOST(r.values.bytes), HOST(r.q),
                                                                 HOST(r.cache), HOST(r.want)});
    return r;
}

static void plain_rig_free(struct plain_rig *r)
{
    free(r->keys.bytes), free(r->values.bytes), free(r->q), free(r->want), free(r->cache);
}

static struct gpu_attention_plain_bufs plain_rig_bufs(gpu *g, const struct plain_rig *r, const struct plain_case *c)
{
    return (struct gpu_attention_plain_bufs){
        upload(g, r->keys.bytes, r->keys.size), c->apart ? upload(g, r->values.bytes, r->values.size) : NULL,
        upload(g, r->q, r->n_q * sizeof *r->q), upload(g, r->cache, r->cache_bytes),
        upload(g, r->want, (r->n_out + 1) * sizeof *r->want)};
}

static void plain_bufs_free(const struct gpu_attention_plain_bufs *b)
{
    gpu_buf_free(b->keys), gpu_buf_free(b->values), gpu_buf_free(b->q), gpu_buf_free(b->cache), gpu_buf_free(b->out);
}

// Against the oracle; and the rows from the middle on by themselves, with the same bits.
static int check_attention_plain(struct rig *rig, const struct plain_case *c)
{
    gpu *g = rig->g;
    struct plain_rig r = plain_rig_of(c);
    struct gpu_attention_plain_bufs b = plain_rig_bufs(g, &r, c);
    float *terms = must(malloc((r.n_out + 1) * sizeof *terms));
    for (size_t i = 0; i <= r.n_out; i++)
        terms[i] = 1500; // values up to 9, whose sums of 512 the units cut off
    gpu_op_attention_plain(g, &r.a, &b);
    float *got = download(g, b.out);
    int good = close_to(rig->label, got, r.want, terms, r.n_out + 1, 4e-8);
    uint32_t half = c->n_rows / 2;
    struct args_attention_plain rest = r.a;
    rest.n_rows -= half;
    rest.position += half;
    gpu_buf *q = b.q, *out = b.out;
    b.q = upload(g, r.q + (size_t)half * r.a.q_row_stride, (size_t)rest.n_rows * r.a.q_row_stride * sizeof *r.q);
    b.out = upload(g, r.want, r.n_out * sizeof *r.want);
    gpu_op_attention_plain(g, &rest, &b);
    float *again = download(g, b.out);
    size_t before = r.n_out / c->n_rows * half;
    good = good && memcmp(got + before, again, (r.n_out - before) * sizeof *got) == 0;
    if (!good)
        printf("    attention_plain: %u rows at %u, %u heads, %u bits%s\n", c->n_rows, c->position, c->n_heads, c->bits,
               c->apart ? ", two matrices" : "");
    free(got), free(again), free(terms);
    gpu_buf_free(q), gpu_buf_free(out);
    plain_bufs_free(&b);
    plain_rig_free(&r);
    return good;
}

// A device without kernels for it says so, and writes nothing.
static int is_refused(struct rig *rig, const struct plain_case *c)
{
    gpu *g = rig->g;
    struct plain_rig r = plain_rig_of(c);
    struct gpu_attention_plain_bufs b = plain_rig_bufs(g, &r, c);
    gpu_op_attention_plain(g, &r.a, &b);
    int good = gpu_finish(g, NULL) == GPU_ARGUMENT;
    float *got = download(g, b.out);
    good = good && got && memcmp(got, r.want, r.n_out * sizeof *got) == 0;
    free(got);
    plain_bufs_free(&b);
    plain_rig_free(&r);
    return good;
}

static void attentions_plain(struct harness *t)
{
    static const struct plain_case cases[] = {{1, 1, 0, 4, 0, KV_F16, 512},
                                              {70, 2, 0, 8, 0, KV_F16, 512},
                                              {18, 3, 63, 4, 1, KV_F16, 512},
                                              {3, 1, 700, 8, 1, KV_F16, 512}};
    const struct args_attention_plain a = {.keys = {.kind = kind_of(cases[0].bits), .in_dim = 512},
                                           .n_heads = 1,
                                           .rope_dim = 64,
                                           .kv_lora_rank = 512,
                                           .qk_nope_head_dim = 128,
                                           .v_head_dim = 128,
                                           .kv_type = KV_F16};
    for (unsigned d = 0; d < rigs.n; d++) {
        struct rig *rig = &rigs.items[d];
        bool has = strcmp(rig->label, "ref/ref") == 0 || gpu_has_attention_plain(rig->g, &a);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            CHECK(t, has ? check_attention_plain(rig, &cases[i]) : is_refused(rig, &cases[i]));
    }
}

// The oracle says what queries in the latent space, attention there and values of what comes out say, in another order.
static void plain_is_absorbed(struct harness *t)
{
    const struct plain_case c = {5, 2, 9, 8, 0, KV_F32, 64};
    struct plain_rig r = plain_rig_of(&c);
    const struct args_attention_plain *a = &r.a;
    size_t n_latent = (size_t)c.n_rows * c.n_heads * c.rank;
    float *latent = must(calloc(n_latent, sizeof *latent)), *attended = must(calloc(n_latent, sizeof *attended));
    float *got = must(calloc(r.n_out, sizeof *got)), *terms = must(calloc(r.n_out, sizeof *terms));
    struct args_kv_b q_prime = {.kv_b = a->keys,
                                .n_rows = a->n_rows,
                                .n_heads = a->n_heads,
                                .qk_nope_head_dim = a->qk_nope_head_dim,
                                .v_head_dim = a->v_head_dim,
                                .q_row_stride = a->q_row_stride,
                                .q_head_stride = a->q_head_stride};
    struct args_attention attention = {.n_rows = a->n_rows,
                                       .n_heads = a->n_heads,
                                       .kv_lora_rank = c.rank,
                                       .rope_dim = a->rope_dim,
                                       .q_row_stride = a->q_row_stride,
                                       .q_head_stride = a->q_head_stride,
                                       .q_rope_offset = a->qk_nope_head_dim,
                                       .position = a->position,
                                       .kv_type = a->kv_type,
                                       .softmax_scale = a->softmax_scale};
    struct args_heads values = {.matrix = a->keys,
                                .n_rows = a->n_rows,
                                .n_heads = a->n_heads,
                                .n_out = a->v_head_dim,
                                .head_rows = a->qk_nope_head_dim + a->v_head_dim,
                                .first_row = a->qk_nope_head_dim,
                                .row_stride = a->n_heads * c.rank,
                                .head_stride = c.rank};
    ref_q_prime(&q_prime, r.keys.bytes, r.q, latent);
    ref_attention(&attention,
                  &(struct gpu_attention_bufs){HOST(latent), HOST(r.q), HOST(r.cache), HOST(attended), NULL});
    ref_heads(&values, r.keys.bytes, attended, got);
    for (size_t i = 0; i < r.n_out; i++)
        terms[i] = 100;
    CHECK(t, close_to("absorbed", got, r.want, terms, r.n_out, 4e-8));
    free(latent), free(attended), free(got), free(terms);
    plain_rig_free(&r);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(attentions_plain),
        TEST(plain_is_absorbed),
    };
    rigs = open_rigs();
    int failed = HARNESS_RUN(tests, argc, argv);
    close_rigs(&rigs);
    return failed;
}
