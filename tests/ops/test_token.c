// SPDX-License-Identifier: GPL-3.0-or-later
// The routed half of a layer of one token: the same bits as the ops that it stands for, in one launch where groups can
// meet; and what becomes of groups that can't.
#include "tests/ops/rig.h"

static struct rigs rigs; // opened once: building kernels takes seconds

struct token_case {
    uint32_t hidden, inner, n_experts, top_k, router_bits, bits;
    uint32_t shared; // as many times as wide, of the other width; 0: none
    uint32_t n_group, scoring, has_bias;
    uint32_t factor_bits; // of the shared expert's own factor; 0: there is none
    struct {
        uint32_t gate, down, shared, shared_down; // instead of bits: kinds of blocks
    } kinds;
};

static const struct token_case token_cases[] = {
    {64, 32, 4, 2, 8, 4, 0, 1, ROUTER_SOFTMAX, 0, 0, {0}},
    {160, 96, 12, 3, 4, 8, 1, 3, ROUTER_SIGMOID, 1, 0, {0}},
    {2048, 1408, 16, 6, 8, 4, 2, 1, ROUTER_SIGMOID, 1, 0, {0}},
    {7168, 32, 256, 8, 8, 4, 1, 8, ROUTER_SIGMOID, 1, 0, {0}},
    {384, 128, 32, 4, 8, 4, 1, 1, ROUTER_SIGMOID, 0, 0, {0}},
    {8192, 64, 6, 5, 8, 8, 3, 1, ROUTER_SOFTMAX, 0, 0, {0}},
};

// A shared expert with a factor of its own, as Qwen's.
static const struct token_case factor_cases[] = {
    {.hidden = 256,
     .inner = 64,
     .n_experts = 12,
     .top_k = 4,
     .router_bits = 8,
     .bits = 4,
     .shared = 1,
     .n_group = 1,
     .scoring = ROUTER_SOFTMAX,
     .factor_bits = 8},
    {.hidden = 2048,
     .inner = 512,
     .n_experts = 256,
     .top_k = 8,
     .router_bits = 4,
     .bits = 4,
     .shared = 1,
     .n_group = 1,
     .scoring = ROUTER_SOFTMAX,
     .factor_bits = 4},
};

// A router that is plain, and two kinds or three, as GGUFs have them.
static const struct token_case kinds_cases[] = {
    {512, 256, 12, 3, 32, 0, 2, 3, ROUTER_SIGMOID, 1, 0, {KIND_Q4_0, KIND_Q4_0, KIND_Q8_0, KIND_Q8_0}},
    {2048, 1408, 16, 6, 32, 0, 2, 1, ROUTER_SIGMOID, 1, 0, {KIND_Q4_0, KIND_Q4_0, KIND_Q8_0, KIND_Q8_0}},
    {160, 96, 8, 2, 16, 0, 0, 1, ROUTER_SOFTMAX, 0, 0, {KIND_Q4_0, KIND_Q8_0, 0, 0}},
    {3072, 64, 256, 8, 32, 0, 1, 8, ROUTER_SIGMOID, 1, 0, {KIND_Q8_0, KIND_Q4_0, KIND_Q8_0, KIND_Q4_0}},
    {3104, 64, 8, 4, 32, 0, 1, 1, ROUTER_SIGMOID, 1, 0, {KIND_Q8_0, KIND_Q4_0, KIND_Q8_0, KIND_Q4_0}}, // op by op
    {768, 512, 12, 3, 32, 0, 2, 3, ROUTER_SIGMOID, 1, 0, {KIND_Q4_K, KIND_Q6_K, KIND_Q4_K, KIND_Q6_K}},
    {2048, 256, 16, 6, 32, 0, 2, 1, ROUTER_SIGMOID, 1, 0, {KIND_Q4_K, KIND_Q4_K, KIND_Q6_K, KIND_Q6_K}},
    {64, 32, 6, 1, 32, 0, 1, 1, ROUTER_SOFTMAX, 0, 0, {KIND_Q8_0, KIND_Q4_0, KIND_Q4_0, KIND_Q8_0}}, // as many groups
                                                                                                     // as tiles
    {3072, 256, 8, 4, 32, 0, 1, 1, ROUTER_SIGMOID, 1, 0, {KIND_Q6_K, KIND_Q6_K, KIND_Q4_K, KIND_Q4_K}},
    {512, 256, 12, 3, 16, 0, 1, 1, ROUTER_SOFTMAX, 0, 16, {KIND_Q4_0, KIND_Q4_0, KIND_Q8_0, KIND_Q8_0}},
    {2048, 512, 32, 8, 32, 0, 1, 1, ROUTER_SOFTMAX, 0, 32, {KIND_Q4_K, KIND_Q6_K, KIND_Q4_K, KIND_Q6_K}},
};

// Matrices of one blob, each at a multiple of 64 bytes.
struct blob {
    unsigned char *bytes;
    size_t size, room;
};

static void make_room(struct blob *blob, size_t size)
{
    if (size <= blob->room)
        return;
    blob->room = 2 * size;
    blob->bytes = must(realloc(blob->bytes, blob->room));
}

// Float16 scales of ordinary size in any bytes of blocks.
static void settle_blocks(const struct args_matrix *m, unsigned char *bytes, uint32_t seed)
{
    const struct kind_info *info = kind_info(m->kind);
    uint64_t end = m->weight + m->out_dim * matrix_row_bytes(m);
    for (uint64_t at = m->weight; info->halves.count && at < end; at += info->block_bytes)
        for (unsigned i = 0; i < info->halves.count; i++) {
            uint16_t half = (uint16_t)(0x1400 | (random_next(&seed) >> 7 & 0x83ff));
            memcpy(bytes + at + info->halves.at[i], &half, sizeof half);
        }
}

// kind: one of blocks, or, if it is none, MLX's or plain of so many bits.
static struct args_matrix put_kind(struct blob *blob, uint32_t out_dim, uint32_t in_dim, uint32_t kind, uint32_t seed)
{
    struct args_matrix shape = {
        .in_dim = in_dim, .out_dim = out_dim, .kind = kind, .group_size = in_dim % 64 ? 32 : 64};
    struct test_matrices m = random_matrices(shape, 1, seed);
    settle_blocks(&m.at[0], m.bytes, seed + 1);
    size_t at = (blob->size + 63) / 64 * 64 + (16 - m.at[0].weight % 16) % 16; // of the weight: a multiple of 16
    make_room(blob, at + m.size + 64);
    memset(blob->bytes + blob->size, 0, at - blob->size);
    memcpy(blob->bytes + at, m.bytes, m.size);
    blob->size = at + m.size;
    struct args_matrix placed = gpu_matrix_behind(&m.at[0], at);
    free(m.bytes);
    return placed;
}

static struct args_matrix put(struct blob *blob, uint32_t out_dim, uint32_t in_dim, uint32_t bits, uint32_t seed)
{
    return put_kind(blob, out_dim, in_dim, kind_of(bits), seed);
}

// A case's arguments, and its buffers but for those that are written.
struct token_rig {
    struct args_moe_token a;
    struct gpu_moe_token_bufs b;
    uint32_t n_act;
};

static struct token_rig token_rig_of(gpu *g, const struct token_case *c)
{
    struct token_rig r = {0};
    struct blob experts = {0}, shared = {0}, down = {0}, router = {0}, factor = {0};
    struct args_moe_token *a = &r.a;
    struct token_case of = *c;
    if (!of.kinds.gate) {
        of.kinds.gate = of.kinds.down = kind_of(c->bits);
        of.kinds.shared = of.kinds.shared_down = kind_of(c->bits == 4 ? 8 : 4);
    }
    for (uint32_t e = 0; e < c->n_experts; e++) {
        if (e)
            experts.size = e * a->stride;
        struct args_matrix gate = put_kind(&experts, c->inner, c->hidden, of.kinds.gate, 3 * e + 1);
        struct args_matrix up = put_kind(&experts, c->inner, c->hidden, of.kinds.gate, 3 * e + 2);
        struct args_matrix below = put_kind(&experts, c->hidden, c->inner, of.kinds.down, 3 * e + 3);
        if (e == 0) {
            a->gate = gate, a->up = up, a->down = below;
            a->stride = (experts.size + 63) / 64 * 64 + 64;
        }
        size_t end = (e + 1) * a->stride;
        make_room(&experts, end);
        memset(experts.bytes + experts.size, 0, end - experts.size);
    }
    experts.size = c->n_experts * a->stride;
    a->router = put(&router, c->n_experts, c->hidden, c->router_bits, 900);
    if (c->shared) {
        a->shared_gate = put_kind(&shared, c->shared * c->inner, c->hidden, of.kinds.shared, 901);
        a->shared_up = put_kind(&shared, c->shared * c->inner, c->hidden, of.kinds.shared, 902);
        a->shared_down = put_kind(&down, c->hidden, c->shared * c->inner, of.kinds.shared_down, 903);
        r.b.shared = upload(g, shared.bytes, shared.size);
        r.b.shared_down = upload(g, down.bytes, down.size);
    }
    if (c->factor_bits) {
        a->shared_factor = put(&factor, 1, c->hidden, c->factor_bits, 904);
        r.b.shared_factor = upload(g, factor.bytes, factor.size);
    }
    a->choice = (struct args_router){.bias = 16,
                                     .n_rows = 1,
                                     .n_experts = c->n_experts,
                                     .n_group = c->n_group,
                                     .topk_group = (c->n_group + 1) / 2,
                                     .top_k = c->top_k,
                                     .norm_topk_prob = 1,
                                     .scoring = c->scoring,
                                     .topk_method = c->n_group > 1 ? TOPK_NOAUX : TOPK_GREEDY,
                                     .has_bias = c->has_bias,
                                     .routed_scaling_factor = 2.5f,
                                     .first = 3};
    a->norm = 16;
    a->limit = c->n_group > 1 ? 0.25f : 0;
    a->eps = 1e-5f;
    a->plus_one = c->bits == 8;
    a->shared_offset = c->top_k * c->inner;
    r.n_act = (c->top_k + c->shared) * c->inner;
    float *norm = random_floats(c->hidden + 4, 910), *bias = random_floats(c->n_experts + 4, 911);
    r.b.norm = upload(g, norm, (c->hidden + 4) * 4);
    r.b.bias = upload(g, bias, (c->n_experts + 4) * 4);
    r.b.router = upload(g, router.bytes, router.size);
    r.b.experts = upload(g, experts.bytes, experts.size);
    free(norm), free(bias), free(router.bytes), free(experts.bytes), free(shared.bytes), free(down.bytes);
    free(factor.bytes);
    return r;
}

// Fresh places for what is written.
static void renew(gpu *g, struct token_rig *r, const struct token_case *c)
{
    float *x = random_floats(c->hidden, 920),
          *blank = poisoned((size_t)(c->top_k + 1) * c->hidden + r->n_act + c->n_experts);
    r->b.out = upload(g, x, c->hidden * 4);
    r->b.logits = upload(g, blank, c->n_experts * 4);
    r->b.ids = upload(g, blank, (c->top_k + 4) * 4);
    r->b.weights = upload(g, blank, (c->top_k + 4) * 4);
    r->b.act = upload(g, blank, r->n_act * 4);
    r->b.partial = upload(g, blank, (c->top_k + 1) * c->hidden * 4);
    r->b.normed = upload(g, blank, c->hidden * 4);
    r->b.factor = upload(g, blank, 4);
    free(x), free(blank);
}

static void forget(const struct gpu_moe_token_bufs *b)
{
    gpu_buf_free(b->out), gpu_buf_free(b->logits), gpu_buf_free(b->ids), gpu_buf_free(b->weights);
    gpu_buf_free(b->act), gpu_buf_free(b->partial), gpu_buf_free(b->normed), gpu_buf_free(b->factor);
}

static void release(const struct token_rig *r)
{
    gpu_buf_free(r->b.norm), gpu_buf_free(r->b.bias), gpu_buf_free(r->b.router), gpu_buf_free(r->b.experts);
    gpu_buf_free(r->b.shared), gpu_buf_free(r->b.shared_down), gpu_buf_free(r->b.shared_factor);
}

static int begin_alike(const struct rig *rig, const char *what, gpu_buf *a, gpu_buf *b, uint64_t bytes)
{
    char *first = download(rig->g, a), *second = download(rig->g, b);
    int good = first && second && memcmp(first, second, bytes) == 0;
    if (!good)
        printf("    %s: %s differs\n", rig->label, what);
    free(first), free(second);
    return good;
}

static int same(const struct rig *rig, const char *what, gpu_buf *a, gpu_buf *b)
{
    return begin_alike(rig, what, a, b, gpu_buf_bytes(a));
}

static void one_by_one(gpu *g, const struct token_rig *r)
{
    const struct args_moe_token *a = &r->a;
    const struct gpu_moe_token_bufs *b = &r->b;
    uint32_t hidden = a->router.in_dim, top_k = a->choice.top_k, inner = a->gate.out_dim;
    struct args_rmsnorm norm = {.weight = a->norm, .n_rows = 1, .dim = hidden, .eps = a->eps, .plus_one = a->plus_one};
    struct args_matmul logits = {.matrix = a->router, .n_rows = 1};
    const struct args_places at = {
        .stride = a->stride, .n = top_k, .by_id = 1, .first_id = 3, .n_experts = a->choice.n_experts};
    struct args_swiglu_experts in = {.gate = a->gate, .up = a->up, .at = at, .out_stride = inner, .limit = a->limit};
    struct args_matvec_experts out = {.matrix = a->down, .at = at, .in_stride = inner, .out_stride = hidden};
    struct args_combine sum = {.n_partials = top_k, .dim = hidden, .first_weight = 3};
    gpu_op_rmsnorm(g, &norm, b->norm, b->out, b->normed);
    gpu_op_matvec(g, &logits, b->router, b->normed, b->logits);
    gpu_op_router(g, &a->choice, &(struct gpu_router_bufs){b->logits, b->bias, b->ids, b->weights});
    gpu_op_swiglu_experts(g, &in, &(struct gpu_experts_bufs){b->experts, b->ids, b->normed, b->act, NULL, NULL});
    gpu_op_matvec_experts(g, &out, &(struct gpu_experts_bufs){b->experts, b->ids, b->act, b->partial, NULL, NULL});
    if (b->shared) {
        struct args_swiglu wide = {
            .gate = a->shared_gate, .up = a->shared_up, .n_rows = 1, .out_offset = a->shared_offset, .limit = a->limit};
        struct args_matmul below = {.matrix = a->shared_down, .n_rows = 1, .in_offset = a->shared_offset, .add = 1};
        struct args_matmul factor = {.matrix = a->shared_factor, .n_rows = 1};
        struct args_gate_product gated = {.n_rows = 1,
                                          .n_heads = 1,
                                          .dim = a->shared_gate.out_dim,
                                          .stride = a->shared_gate.out_dim,
                                          .offset = a->shared_offset,
                                          .gate_stride = 1,
                                          .gate_head_stride = 1,
                                          .one_each = 1};
        gpu_op_swiglu_vec(g, &wide, b->shared, b->normed, b->act);
        if (b->shared_factor) {
            gpu_op_matvec(g, &factor, b->shared_factor, b->normed, b->factor);
            gpu_op_gate_product(g, &gated, b->factor, b->act);
        }
        gpu_op_matvec(g, &below, b->shared_down, b->act, b->out);
    }
    gpu_op_combine(g, &sum, b->partial, b->weights, b->out);
}

static void check_token(struct harness *t, struct rig *rig, const struct token_case *c)
{
    gpu *g = rig->g;
    struct token_rig r = token_rig_of(g, c);
    renew(g, &r, c);
    const struct gpu_moe_token_bufs want = r.b;
    one_by_one(g, &r);
    for (int times = 0; times < 3; times++) { // what groups count goes on from launch to launch
        renew(g, &r, c);
        uint32_t groups = g->meeting.groups;
        if (times == 2)
            g->meeting.groups = 0;
        uint64_t launches = gpu_counters(g).launches;
        gpu_op_moe_token(g, &r.a, &r.b);
        launches = gpu_counters(g).launches - launches;
        bool is_short = c->bits || c->hidden <= TOKEN_KIND_INPUTS;
        if (!CHECK(t, g->meeting.groups && is_short ? launches == 1 : launches > 1))
            printf("    %u -> %u: %u launches\n", c->hidden, c->inner, (unsigned)launches);
        g->meeting.groups = groups;
        uint64_t act_bytes = 4 * (c->factor_bits ? c->top_k * c->inner : r.n_act); // the shared expert's: see gpu.h
        if (!CHECK(t, same(rig, "an id", want.ids, r.b.ids) && same(rig, "a weight", want.weights, r.b.weights) &&
                          begin_alike(rig, "an activation", want.act, r.b.act, act_bytes) &&
                          same(rig, "the sum", want.out, r.b.out)))
            printf("    %u -> %u, %u of %u, %u bits, gates %s, shared %u\n", c->hidden, c->inner, c->top_k,
                   c->n_experts, c->bits, kind_name(c->kinds.gate), c->shared);
        forget(&r.b);
    }
    forget(&want);
    release(&r);
}

static void as_one_by_one(struct harness *t)
{
    for (unsigned d = 0; d < rigs.n; d++)
        for (size_t i = 0; i < sizeof token_cases / sizeof *token_cases; i++)
            check_token(t, &rigs.items[d], &token_cases[i]);
}

static void with_a_factor(struct harness *t)
{
    for (unsigned d = 0; d < rigs.n; d++)
        for (size_t i = 0; i < sizeof factor_cases / sizeof *factor_cases; i++)
            check_token(t, &rigs.items[d], &factor_cases[i]);
}

// Opens a program for each two kinds of GGUFs.
static bool open_kinds(struct rig *rig, const uint32_t *kinds, unsigned n)
{
    enum { USES = USE_PRODUCTS | USE_EXPERTS | USE_HEADS | USE_TOKEN };
    struct gpu_format formats[4];
    for (unsigned i = 0; i < n; i++)
        formats[i] = (struct gpu_format){.kind = kinds[i], .uses = USES};
    struct gpu_error err;
    bool good = gpu_open_formats(rig->g, formats, n, NULL, &err) == GPU_OK;
    if (!good)
        printf("    %s: %s\n", rig->label, err.text);
    return good;
}

static bool open_pairs(struct rig *rig)
{
    static const uint32_t four[] = {KIND_Q4_0, KIND_Q8_0, KIND_Q4_K, KIND_Q6_K};
    return open_kinds(rig, four, 2) && open_kinds(rig, four + 2, 2);
}

static void kinds_as_one_by_one(struct harness *t)
{
    for (unsigned d = 0; d < rigs.n; d++) {
        if (!CHECK(t, open_pairs(&rigs.items[d])))
            continue;
        const gpu *g = rigs.items[d].g;
        bool emulated = g->has_mma && getenv("MOECHAT_WARPS_CACHE"); // where all of this can be
        CHECK(t, !emulated || (g->token && g->addresses.of && g->program.by_address && g->token->by_address));
        for (size_t i = 0; i < sizeof kinds_cases / sizeof *kinds_cases; i++)
            check_token(t, &rigs.items[d], &kinds_cases[i]);
    }
}

// ---- attention over latent rows

struct mla_case {
    uint32_t hidden, lora, heads, nope, rope, v, rank, position;
    uint32_t bits, kv_type;
    uint32_t kind, last; // instead of bits: of all but q's last matrix and o; and of these
};

static const struct mla_case mla_cases[] = {
    {64, 0, 2, 32, 16, 32, 64, 0, 4, KV_F32, 0, 0},
    {160, 96, 5, 32, 8, 64, 32, 40, 8, KV_F16, 0, 0},
    {2048, 0, 16, 128, 64, 128, 512, 200, 4, KV_F16, 0, 0},
    {2048, 768, 20, 192, 64, 256, 512, 700, 4, KV_F16, 0, 0},
};

// Keys turned round, as GGUFs have them.
static const struct mla_case mla_kinds_cases[] = {
    {512, 0, 2, 32, 16, 32, 64, 0, 0, KV_F32, KIND_Q8_0, KIND_Q4_0},
    {160, 96, 5, 64, 8, 64, 32, 40, 0, KV_F16, KIND_Q4_0, KIND_Q8_0},
    {2048, 0, 16, 128, 64, 128, 512, 200, 0, KV_F16, KIND_Q8_0, KIND_Q8_0},
    {2048, 768, 20, 192, 64, 256, 512, 700, 0, KV_F16, KIND_Q8_0, KIND_Q4_0},
    {2048, 512, 4, 256, 64, 256, 512, 70, 0, KV_F16, KIND_Q4_K, KIND_Q6_K},
    {1024, 256, 4, 256, 64, 256, 512, 70, 0, KV_F16, KIND_Q6_K, KIND_Q4_K},
    {3104, 64, 2, 32, 16, 32, 64, 5, 0, KV_F32, KIND_Q8_0, KIND_Q4_0}, // the first rows are too long
    {64, 0, 33, 32, 16, 256, 64, 5, 0, KV_F32, KIND_Q8_0, KIND_Q4_0},  // o is wider than x fits
    {512, 0, 33, 32, 16, 256, 64, 5, 0, KV_F32, KIND_Q4_0, KIND_Q4_K},
    {256, 0, 33, 32, 16, 256, 64, 5, 0, KV_F32, KIND_Q8_0, KIND_Q6_K},
};

struct mla_out {
    gpu_buf *lora, *normed, *lora_normed, *q, *kv, *cache, *latent, *attended, *heads, *out;
};

static gpu_buf *blank(gpu *g, size_t floats)
{
    float *values = random_floats(floats, 77);
    gpu_buf *buf = upload(g, values, floats * 4);
    free(values);
    return buf;
}

// Rows of numbers around 0.1, of either type.
static gpu_buf *cache_of(gpu *g, size_t elements, uint32_t kv_type)
{
    if (kv_type == KV_F32)
        return blank(g, elements);
    uint16_t *halves = must(malloc(elements * sizeof *halves));
    uint32_t state = 9;
    for (size_t i = 0; i < elements; i++)
        halves[i] = (uint16_t)(0x2c00 | (random_next(&state) & 0x83ff));
    gpu_buf *buf = upload(g, halves, elements * sizeof *halves);
    free(halves);
    return buf;
}

static gpu_buf *placed(gpu *g, struct args_matrix *at, uint32_t out_dim, uint32_t in_dim, uint32_t kind, uint32_t seed)
{
    struct blob blob = {0};
    *at = put_kind(&blob, out_dim, in_dim, kind, seed);
    gpu_buf *buf = upload(g, blob.bytes, blob.size);
    free(blob.bytes);
    return buf;
}

// In one launch before and one behind the tiles, or op by op.
static void check_mla(struct harness *t, struct rig *rig, const struct mla_case *c)
{
    gpu *g = rig->g;
    uint32_t head = c->nope + c->rope, width = c->rank + c->rope, groups = g->meeting.groups;
    uint32_t kind = c->kind ? c->kind : kind_of(c->bits), last = c->kind ? c->last : kind;
    struct args_mla_in in = {.norm = 16, .lora_norm = 16, .eps = 1e-5f, .lora_eps = 1e-6f, .plus_one = c->bits == 8};
    struct args_mla_out out = {.attention = {.n_rows = 1,
                                             .n_heads = c->heads,
                                             .kv_lora_rank = c->rank,
                                             .rope_dim = c->rope,
                                             .q_row_stride = c->heads * head,
                                             .q_head_stride = head,
                                             .q_rope_offset = c->nope,
                                             .position = c->position,
                                             .kv_type = c->kv_type,
                                             .softmax_scale = 0.1f}};
    in.append = (struct args_kv_append){.norm = 4,
                                        .n_rows = 1,
                                        .kv_lora_rank = c->rank,
                                        .rope_dim = c->rope,
                                        .in_stride = width,
                                        .position = c->position,
                                        .kv_type = c->kv_type,
                                        .interleaved = 1,
                                        .eps = 1e-6f,
                                        .scale = 1,
                                        .n_heads = c->heads,
                                        .q_row_stride = c->heads * head,
                                        .q_head_stride = head,
                                        .q_offset = c->nope};
    struct gpu_mla_in_bufs b = {.x = blank(g, c->hidden), .norm = blank(g, c->hidden + 4)};
    b.lora_norm = c->lora ? blank(g, c->lora + 4) : NULL;
    b.latent_norm = blank(g, c->rank + 4);
    b.inv_freq = blank(g, c->rope / 2);
    b.q_first = placed(g, &in.q_first, c->lora ? c->lora : c->heads * head, c->hidden, kind, 1);
    b.q_last = c->lora ? placed(g, &in.q_last, c->heads * head, c->lora, last, 2) : NULL;
    b.kv_a = placed(g, &in.kv_a, width, c->hidden, kind, 3);
    in.turned = c->kind != 0;
    b.kv_b = in.turned ? placed(g, &in.absorb.kv_b, c->heads * c->rank, c->nope, c->nope % 256 ? KIND_Q8_0 : kind, 4)
                       : placed(g, &in.absorb.kv_b, c->heads * (c->nope + c->v), c->rank, kind, 4);
    in.absorb.n_rows = in.absorb.decode = 1;
    in.absorb.n_heads = c->heads;
    in.absorb.qk_nope_head_dim = c->nope;
    in.absorb.v_head_dim = c->v;
    in.absorb.q_row_stride = c->heads * head;
    in.absorb.q_head_stride = head;
    out.values = (struct args_heads){.matrix = in.absorb.kv_b,
                                     .n_rows = 1,
                                     .n_heads = c->heads,
                                     .n_out = c->v,
                                     .head_rows = c->nope + c->v,
                                     .first_row = c->nope,
                                     .row_stride = c->heads * c->rank,
                                     .head_stride = c->rank,
                                     .decode = 1};
    gpu_buf *values = b.kv_b;
    if (in.turned) {
        values = placed(g, &out.values.matrix, c->heads * c->v, c->rank, c->rank % 256 ? KIND_Q8_0 : kind, 6);
        out.values.head_rows = c->v;
        out.values.first_row = 0;
    }
    gpu_buf *o = placed(g, &out.o, c->hidden, c->heads * c->v, last, 5);
    struct mla_out r[2];
    for (int i = 0; i < 2; i++) {
        r[i] = (struct mla_out){.lora = blank(g, c->lora + 1),
                                .normed = blank(g, c->hidden),
                                .lora_normed = blank(g, c->lora + 1),
                                .q = blank(g, c->heads * head),
                                .kv = blank(g, width),
                                .cache = cache_of(g, (size_t)(c->position + 1) * width, c->kv_type),
                                .latent = blank(g, c->heads * c->rank),
                                .attended = blank(g, c->heads * c->rank),
                                .heads = blank(g, c->heads * c->v),
                                .out = blank(g, c->hidden)};
        b.normed = r[i].normed, b.lora = r[i].lora, b.lora_normed = r[i].lora_normed, b.q = r[i].q, b.kv = r[i].kv;
        b.cache = r[i].cache, b.latent = r[i].latent;
        struct gpu_mla_out_bufs behind = {
            {r[i].latent, r[i].q, r[i].cache, r[i].attended, NULL}, values, r[i].heads, o, r[i].out};
        g->meeting.groups = i ? groups : 0;
        uint64_t launches = gpu_counters(g).launches;
        gpu_op_mla_in(g, &in, &b);
        gpu_op_mla_out(g, &out, &behind);
        launches = gpu_counters(g).launches - launches;
        // longer rows have launches of their own
        bool is_short = c->kind ? c->hidden <= TOKEN_KIND_INPUTS && out.o.in_dim <= TOKEN_KIND_INPUTS
                                : out.o.in_dim <= TOKEN_INPUTS;
        CHECK(t, g->meeting.groups && is_short ? launches == 3 : launches > 3);
        g->meeting.groups = groups;
    }
    if (!CHECK(t, same(rig, "q", r[0].q, r[1].q) && same(rig, "the cache", r[0].cache, r[1].cache) &&
                      same(rig, "q in latent space", r[0].latent, r[1].latent) &&
                      same(rig, "the heads", r[0].heads, r[1].heads) && same(rig, "the stream", r[0].out, r[1].out)))
        printf("    %u heads, %u bits, %s, position %u\n", c->heads, c->bits, kind_name(kind), c->position);
    for (int i = 0; i < 2; i++) {
        gpu_buf_free(r[i].lora), gpu_buf_free(r[i].normed), gpu_buf_free(r[i].lora_normed), gpu_buf_free(r[i].q);
        gpu_buf_free(r[i].kv), gpu_buf_free(r[i].cache), gpu_buf_free(r[i].latent), gpu_buf_free(r[i].attended);
        gpu_buf_free(r[i].heads), gpu_buf_free(r[i].out);
    }
    gpu_buf_free(b.x), gpu_buf_free(b.norm), gpu_buf_free(b.lora_norm), gpu_buf_free(b.latent_norm);
    gpu_buf_free(b.inv_freq), gpu_buf_free(b.q_first), gpu_buf_free(b.q_last), gpu_buf_free(b.kv_a);
    gpu_buf_free(b.kv_b), gpu_buf_free(o);
    if (values != b.kv_b)
        gpu_buf_free(values);
}

static void latent_attention_as_one_by_one(struct harness *t)
{
    for (unsigned d = 0; d < rigs.n; d++)
        for (size_t i = 0; i < sizeof mla_cases / sizeof *mla_cases; i++)
            check_mla(t, &rigs.items[d], &mla_cases[i]);
}

static void latent_attention_of_kinds(struct harness *t)
{
    for (unsigned d = 0; d < rigs.n; d++) {
        if (!CHECK(t, open_pairs(&rigs.items[d])))
            continue;
        for (size_t i = 0; i < sizeof mla_kinds_cases / sizeof *mla_kinds_cases; i++)
            check_mla(t, &rigs.items[d], &mla_kinds_cases[i]);
    }
}

// ---- layers that keep a state

struct layer_case {
    uint32_t hidden, key_heads, value_heads, key_dim, value_dim, tiled;
    uint32_t bits, gate_bits;
    uint32_t kind, last; // instead of bits: kinds of blocks; gates may be plain beside them
};

struct layer_rig {
    struct args_delta_layer a;
    struct gpu_delta_layer_bufs b;
};

static struct layer_rig layer_rig_of(gpu *g, const struct layer_case *c)
{
    uint32_t keys = c->key_heads * c->key_dim, values = c->value_heads * c->value_dim, channels = 2 * keys + values;
    uint32_t rows[MOST_BESIDE] = {channels, values, c->value_heads, c->value_heads};
    uint32_t kind = c->kind ? c->kind : kind_of(c->bits), last = c->kind ? c->last : kind;
    struct layer_rig r = {0};
    struct gpu_norm_matvecs_bufs *in = &r.b.in;
    struct gpu_delta_token_bufs *t = &r.b.token;
    r.a.in = (struct args_norm_matvecs){.norm = 16, .n = MOST_BESIDE, .eps = 1e-5f, .plus_one = c->tiled};
    r.a.in.out_offset[3] = c->value_heads;
    for (uint32_t k = 0; k < MOST_BESIDE; k++)
        in->matrix[k] = placed(g, &r.a.in.matrix[k], rows[k], c->hidden, k < 2 ? kind : kind_of(c->gate_bits), 40 + k);
    r.b.last = placed(g, &r.a.last, c->hidden, values, last, 44);
    r.a.token.conv = (struct args_short_conv){.weight = 16, .n_rows = 1, .channels = channels};
    r.a.token.scan = (struct args_delta){.n_rows = 1,
                                         .n_key_heads = c->key_heads,
                                         .n_value_heads = c->value_heads,
                                         .key_dim = c->key_dim,
                                         .value_dim = c->value_dim,
                                         .k_offset = keys,
                                         .v_offset = 2 * keys,
                                         .decay_offset = c->value_heads,
                                         .tiled_heads = c->tiled,
                                         .decay = DECAY_HEAD,
                                         .norm_eps = 1e-6f};
    r.a.token.norm = (struct args_gated_norm){
        .n_rows = 1, .n_heads = c->value_heads, .dim = c->value_dim, .act = GATE_SILU, .eps = 1e-5f};
    in->norm = blank(g, c->hidden + 4);
    t->conv.weight = blank(g, 4 + (size_t)channels * CONV_TAPS);
    t->conv.from = blank(g, (size_t)channels * (CONV_TAPS - 1));
    t->scan.rate = blank(g, c->value_heads);
    t->scan.dt_bias = blank(g, c->value_heads);
    t->scan.from = blank(g, (size_t)values * c->key_dim);
    t->norm.weight = blank(g, c->value_dim);
    return r;
}

// What is written, fresh.
static void layer_renew(gpu *g, struct layer_rig *r, const struct layer_case *c)
{
    uint32_t channels = r->a.token.conv.channels, values = c->value_heads * c->value_dim;
    struct gpu_norm_matvecs_bufs *in = &r->b.in;
    struct gpu_delta_token_bufs *t = &r->b.token;
    in->x = blank(g, c->hidden);
    in->normed = blank(g, c->hidden);
    in->y[0] = t->conv.x = blank(g, channels);
    in->y[1] = t->norm.gate = blank(g, values);
    in->y[2] = in->y[3] = t->scan.gate = blank(g, 2 * c->value_heads);
    t->conv.y = t->scan.x = blank(g, channels);
    t->conv.to = blank(g, (size_t)channels * (CONV_TAPS - 1));
    t->scan.to = blank(g, (size_t)values * c->key_dim);
    t->scan.out = t->norm.x = t->norm.y = blank(g, values);
}

static void layer_forget(const struct gpu_delta_layer_bufs *b)
{
    gpu_buf *const written[] = {b->in.x,         b->in.normed,     b->in.y[0],       b->in.y[1],     b->in.y[2],
                                b->token.conv.y, b->token.conv.to, b->token.scan.to, b->token.norm.y};
    for (size_t i = 0; i < sizeof written / sizeof *written; i++)
        gpu_buf_free(written[i]);
}

static void layer_release(const struct gpu_delta_layer_bufs *b)
{
    const struct gpu_delta_token_bufs *t = &b->token;
    gpu_buf *const read[] = {b->in.norm,      b->last,         t->conv.weight,  t->conv.from,
                             t->scan.rate,    t->scan.from,    t->norm.weight,  t->scan.dt_bias,
                             b->in.matrix[0], b->in.matrix[1], b->in.matrix[2], b->in.matrix[3]};
    for (size_t i = 0; i < sizeof read / sizeof *read; i++)
        gpu_buf_free(read[i]);
}

static void check_layer(struct harness *t, struct rig *rig, const struct layer_case *c)
{
    gpu *g = rig->g;
    struct layer_rig r = layer_rig_of(g, c);
    layer_renew(g, &r, c);
    const struct gpu_delta_layer_bufs want = r.b;
    struct args_matmul last = {.matrix = r.a.last, .n_rows = 1, .add = 1};
    gpu_op_norm_matvecs(g, &r.a.in, &want.in);
    gpu_op_delta_token(g, &r.a.token, &want.token);
    gpu_op_matvec(g, &last, want.last, want.token.norm.y, want.in.x);
    for (int times = 0; times < 3; times++) {
        uint32_t groups = g->meeting.groups;
        layer_renew(g, &r, c);
        if (times == 2)
            g->meeting.groups = 0;
        uint64_t launches = gpu_counters(g).launches;
        gpu_op_delta_layer(g, &r.a, &r.b);
        launches = gpu_counters(g).launches - launches;
        bool is_short = c->bits || c->value_heads * c->value_dim <= TOKEN_KIND_INPUTS;
        CHECK(t, g->meeting.groups && is_short ? launches == 1 : launches > 1);
        g->meeting.groups = groups;
        if (!CHECK(t, same(rig, "the history", want.token.conv.to, r.b.token.conv.to) &&
                          same(rig, "the state", want.token.scan.to, r.b.token.scan.to) &&
                          same(rig, "the answer", want.token.norm.y, r.b.token.norm.y) &&
                          same(rig, "the stream", want.in.x, r.b.in.x)))
            printf("    %u, %u heads of %u\n", c->hidden, c->value_heads, c->value_dim);
        layer_forget(&r.b);
    }
    layer_forget(&want);
    layer_release(&r.b);
}

static void states_as_one_by_one(struct harness *t)
{
    static const struct layer_case cases[] = {
        {64, 2, 2, 32, 32, 0, 4, 8, 0, 0},
        {256, 2, 6, 128, 64, 1, 8, 4, 0, 0},
        {512, 4, 12, 64, 128, 0, 4, 4, 0, 0}, // more heads than groups
        {2048, 16, 32, 128, 128, 0, 4, 4, 0, 0},
    };
    for (unsigned d = 0; d < rigs.n; d++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            check_layer(t, &rigs.items[d], &cases[i]);
}

static void states_of_kinds(struct harness *t)
{
    static const struct layer_case cases[] = {
        {64, 2, 2, 32, 32, 0, 0, 32, KIND_Q8_0, KIND_Q4_0},
        {512, 4, 12, 64, 128, 1, 0, 16, KIND_Q4_0, KIND_Q8_0},
        {2048, 12, 24, 128, 128, 1, 0, 32, KIND_Q4_K, KIND_Q6_K},
        {512, 16, 32, 128, 128, 1, 0, 32, KIND_Q4_K, KIND_Q4_K}, // its last rows are too long: op by op
    };
    for (unsigned d = 0; d < rigs.n; d++) {
        if (!CHECK(t, open_pairs(&rigs.items[d])))
            continue;
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            check_layer(t, &rigs.items[d], &cases[i]);
    }
}

// More groups than run at once: nobody waits forever, who reads what came of it is told, and the probe sees it.
static void groups_that_never_come(struct harness *t)
{
    const struct token_case *c = &token_cases[4];
    for (unsigned d = 0; d < rigs.n; d++) {
        gpu *g = rigs.items[d].g;
        uint32_t units = g->info.compute_units, groups = g->meeting.groups;
        CHECK(t, groups || !g->has_mma || !getenv("MOECHAT_WARPS_CACHE")); // emulated groups can
        if (!groups) {
            gpu_prove_meeting(g, 1);
            CHECK_EQ(t, g->meeting.groups, 0); // no such kernel
            continue;
        }
        struct token_rig r = token_rig_of(g, c);
        int32_t ids[4];
        renew(g, &r, c);
        g->meeting.groups = 32 * units;
        gpu_op_moe_token(g, &r.a, &r.b);
        struct gpu_error err;
        CHECK_EQ(t, gpu_read(g, r.b.ids, 3 * sizeof *ids, ids, sizeof ids, &err), GPU_LAUNCH);
        CHECK(t, strstr(err.text, "waited for each other in vain") != NULL);
        CHECK_EQ(t, g->meeting.groups, 0); // one by one from here on
        gpu_prove_meeting(g, 16);
        CHECK_EQ(t, g->meeting.groups, 0);
        gpu_prove_meeting(g, groups / units);
        CHECK_EQ(t, g->meeting.groups, groups);
        forget(&r.b);
        release(&r);
        check_token(t, &rigs.items[d], c);
    }
}

// A launch that is refused leaves the count as it was: later ones wait for nobody who has not come.
static void launches_that_are_refused(struct harness *t)
{
    const struct token_case *c = &token_cases[4];
    CHECK(t, rigs.n > 0); // groups meet on some devices alone
    for (unsigned d = 0; d < rigs.n; d++) {
        gpu *g = rigs.items[d].g;
        cl_kernel *kernel = &g->program.kernels[KERNEL_MOE_TOKEN], kept = *kernel;
        if (!g->meeting.groups)
            continue;
        struct token_rig r = token_rig_of(g, c);
        uint32_t met = g->meeting.met;
        renew(g, &r, c);
        *kernel = NULL;
        gpu_op_moe_token(g, &r.a, &r.b);
        *kernel = kept;
        CHECK_EQ(t, gpu_check(g, NULL), GPU_ARGUMENT);
        CHECK_EQ(t, g->meeting.met, met);
        forget(&r.b);
        release(&r);
        check_token(t, &rigs.items[d], c);
    }
}

static void wrong_arguments(struct harness *t)
{
    const struct token_case *c = &token_cases[4];
    for (unsigned d = 0; d < rigs.n; d++) {
        gpu *g = rigs.items[d].g;
        struct token_rig r = token_rig_of(g, c);
        renew(g, &r, c);
        for (int wrong = 0; wrong < 10; wrong++) {
            struct token_rig bad = r;
            switch (wrong) {
            case 0:
                bad.a.router.in_dim += 32;
                break;
            case 1:
                bad.a.choice.n_experts++;
                break;
            case 2:
                bad.a.choice.top_k = 33;
                break;
            case 3:
                bad.a.base = bad.a.stride;
                break;
            case 4:
                bad.a.stride *= 2;
                break;
            case 5:
                bad.b.out = r.b.weights;
                break;
            case 6:
                bad.a.choice.first = 5;
                break;
            case 7:
                bad.a.shared_offset += 4;
                break;
            case 8:
                bad.b.partial = r.b.out;
                break;
            default:
                bad.a.norm = 32;
            }
            gpu_op_moe_token(g, &bad.a, &bad.b);
            CHECK_EQ(t, gpu_check(g, NULL), GPU_ARGUMENT);
        }
        gpu_op_moe_token(g, &r.a, &r.b);
        CHECK_EQ(t, gpu_finish(g, NULL), 0);
        forget(&r.b);
        release(&r);
    }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(as_one_by_one),
                                                TEST(with_a_factor),
                                                TEST(kinds_as_one_by_one),
                                                TEST(latent_attention_as_one_by_one),
                                                TEST(latent_attention_of_kinds),
                                                TEST(states_as_one_by_one),
                                                TEST(states_of_kinds),
                                                TEST(groups_that_never_come),
                                                TEST(launches_that_are_refused),
                                                TEST(wrong_arguments)};
    rigs = open_rigs();
    int failed = HARNESS_RUN(tests, argc, argv);
    close_rigs(&rigs);
    return failed;
}
