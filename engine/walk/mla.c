// SPDX-License-Identifier: GPL-3.0-or-later
// Multi-head latent attention, absorbed: queries are taken into the latent space, so that keys and values are the
// cached rows themselves. Over all positions, or over those that an indexer chooses, the layer's own or that of the
// last layer before it that has one. transformers: DeepseekV3Attention, DeepseekV32Attention, GlmMoeDsaAttention,
// Glm5NextTextAttention.
#include <assert.h>

#include "engine/walk/indexer.h"
#include "engine/walk/loader.h"
#include "engine/walk/mixer.h"
#include "engine/walk/pass.h"

// The buffers of a chunk.
enum {
    MLA_Q_LORA,   // [rows, q_lora_rank]
    MLA_Q_NORMED, // the same, normed
    MLA_Q,        // [rows, n_heads * (nope + rope)]
    MLA_KV,       // [rows, kv_lora_rank + rope]
    MLA_Q_LATENT, // [rows, n_heads, kv_lora_rank]
    MLA_ATTENDED, // [rows, n_heads, kv_lora_rank]
    MLA_HEADS,    // [rows, n_heads * v_head_dim]
    MLA_GATE,     // the same, where the output has one; no model with an indexer does
    MLA_BUFFERS = MLA_GATE
};
static_assert((int)MLA_BUFFERS <= (int)INDEXER_KEYS, "the indexer's buffers are behind these");

// kv_b whole, or by halves, as MLX has it: keys turned round, and values.
static void want_kv_b(struct loader *l, struct mla_weights *w)
{
    const struct shape *s = l->shape;
    uint32_t heads = s->n_heads;
    if (loader_has(l, "self_attn.kv_b_proj") || !loader_has(l, "self_attn.embed_q")) {
        uint32_t rows = heads * (s->qk_nope_head_dim + s->v_head_dim);
        loader_matrix(l, &w->kv_b, "self_attn.kv_b_proj", rows, s->kv_lora_rank);
        return;
    }
    struct want keys = {.matrix = &w->embed_q, .stem = "self_attn.embed_q", .heads = heads};
    keys.out_dim = heads * s->kv_lora_rank;
    keys.in_dim = s->qk_nope_head_dim;
    loader_matrices(l, &keys, 1);
    struct want values = {.matrix = &w->unembed_out, .stem = "self_attn.unembed_out", .heads = heads};
    values.out_dim = heads * s->v_head_dim;
    values.in_dim = s->kv_lora_rank;
    loader_matrices(l, &values, 1);
}

static void want(struct loader *l, struct layer_weights *layer)
{
    const struct shape *s = l->shape;
    struct mla_weights *w = &layer->mla;
    uint32_t hidden = s->hidden_size, q_out = s->n_heads * (s->qk_nope_head_dim + s->qk_rope_head_dim);
    if (s->q_lora_rank) {
        loader_matrix(l, &w->q_a, "self_attn.q_a_proj", s->q_lora_rank, hidden);
        loader_vector(l, &w->q_a_layernorm, "self_attn.q_a_layernorm.weight", s->q_lora_rank);
        loader_matrix(l, &w->q_b, "self_attn.q_b_proj", q_out, s->q_lora_rank);
    } else {
        loader_matrix(l, &w->q, "self_attn.q_proj", q_out, hidden);
    }
    loader_matrix(l, &w->kv_a, "self_attn.kv_a_proj_with_mqa", s->kv_lora_rank + s->qk_rope_head_dim, hidden);
    loader_vector(l, &w->kv_a_layernorm, "self_attn.kv_a_layernorm.weight", s->kv_lora_rank);
    want_kv_b(l, w);
    if (s->gated_latents)
        loader_matrix(l, &w->gate, "self_attn.g_proj", s->n_heads * s->v_head_dim, hidden);
    loader_matrix(l, &w->o, "self_attn.o_proj", hidden, s->n_heads * s->v_head_dim);
}

static void want_dsa(struct loader *l, struct layer_weights *layer)
{
    want(l, layer);
    indexer_want(l, &layer->indexer);
}

static void memory(const struct shape *s, struct mixer_needs *needs)
{
    uint64_t heads = s->n_heads;
    uint64_t *chunk = needs->chunk;
    needs->rows[0] = s->kv_lora_rank + s->qk_rope_head_dim;
    chunk[MLA_Q_LORA] = chunk[MLA_Q_NORMED] = s->q_lora_rank;
    chunk[MLA_Q] = heads * (s->qk_nope_head_dim + s->qk_rope_head_dim);
    chunk[MLA_KV] = needs->rows[0];
    chunk[MLA_Q_LATENT] = chunk[MLA_ATTENDED] = heads * s->kv_lora_rank;
    chunk[MLA_HEADS] = heads * s->v_head_dim;
    if (s->gated_latents)
        chunk[MLA_GATE] = chunk[MLA_HEADS];
}

static void memory_dsa(const struct shape *s, struct mixer_needs *needs)
{
    memory(s, needs);
    indexer_memory(s, needs);
}

static struct mixer_work work(const struct shape *s)
{
    double hidden = s->hidden_size, heads = s->n_heads, head = s->qk_nope_head_dim + s->qk_rope_head_dim;
    double q = s->q_lora_rank ? s->q_lora_rank * (hidden + heads * head) : hidden * heads * head;
    double absorbed = heads * s->kv_lora_rank * ((double)s->qk_nope_head_dim + s->v_head_dim);
    double kv = hidden * ((double)s->kv_lora_rank + s->qk_rope_head_dim);
    double out = heads * s->v_head_dim * hidden;
    return (struct mixer_work){.token = q + kv + absorbed + (s->gated_latents ? 2 : 1) * out,
                               .pair = heads * (2.0 * s->kv_lora_rank + s->qk_rope_head_dim)};
}

static struct mixer_work work_dsa_shared(const struct shape *s)
{
    struct mixer_work all = work(s);
    all.most = indexer_list(s);
    return all;
}

static struct mixer_work work_dsa(const struct shape *s)
{
    struct mixer_work all = work_dsa_shared(s);
    indexer_work(s, &all);
    return all;
}

static struct rows q_normed(const struct pass *pass)
{
    return scratch_mixer(pass->scratch, MLA_Q_NORMED, pass->shape->q_lora_rank);
}

static bool has_indexer(const struct pass *pass, uint32_t layer)
{
    return shape_layer_kind(pass->shape, layer) == LAYER_DSA;
}

// The stream -> q, by way of q_lora when the model has one, latents with keys, and what an indexer reads of it.
static void project(const struct pass *pass, const struct mla_weights *w, uint32_t layer, struct rows q)
{
    enum { OWN = 2 };
    const struct shape *s = pass->shape;
    uint32_t n = OWN, together;
    struct rows lora = scratch_mixer(pass->scratch, MLA_Q_LORA, s->q_lora_rank);
    struct projection from_x[OWN + INDEXER_PRODUCTS] = {
        {.matrix = s->q_lora_rank ? &w->q_a : &w->q, .to = s->q_lora_rank ? lora : q},
        {.matrix = &w->kv_a, .to = scratch_mixer(pass->scratch, MLA_KV, s->kv_lora_rank + s->qk_rope_head_dim)},
    };
    if (has_indexer(pass, layer))
        n += indexer_products(pass, &pass->weights->layers[layer].indexer, from_x + OWN);
    // Those of another kind would keep all from being one launch.
    for (together = n < MOST_BESIDE ? n : MOST_BESIDE;
         together > OWN && from_x[together - 1].matrix->at.kind != from_x[0].matrix->at.kind;)
        together--;
    struct rows x = stream_project(pass, layer, SITE_MIXER, from_x, together);
    for (; together < n; together++) {
        from_x[together].from = x;
        pass_project(pass, &from_x[together]);
    }
    if (!s->q_lora_rank)
        return;
    struct rows normed = q_normed(pass);
    struct normalisation norm = {&w->q_a_layernorm, lora, normed, s->q_lora_rank, s->latent_norm_eps};
    struct projection from_lora = {&w->q_b, normed, q, false};
    pass_norm_project(pass, &norm, &from_lora, 1);
}

static struct rows kv_of(const struct pass *pass)
{
    const struct shape *s = pass->shape;
    return scratch_mixer(pass->scratch, MLA_KV, s->kv_lora_rank + s->qk_rope_head_dim);
}

// One cache row a token: normed latent, rotated key; and the heads of q are rotated.
static struct args_kv_append append_of(const struct pass *pass, const struct mla_weights *w, struct rows q)
{
    const struct shape *s = pass->shape;
    return (struct args_kv_append){
        .norm = w->kv_a_layernorm.offset,
        .n_rows = pass->rows,
        .kv_lora_rank = s->kv_lora_rank,
        .rope_dim = s->qk_rope_head_dim,
        .in_stride = kv_of(pass).stride,
        .position = pass->position,
        .kv_type = pass->memory->type,
        .interleaved = s->rope_interleave,
        .eps = s->latent_norm_eps,
        .scale = s->rope_scale,
        .no_rope = !s->rotary_dim,
        .n_heads = s->n_heads,
        .q_row_stride = q.stride,
        .q_head_stride = s->qk_nope_head_dim + s->qk_rope_head_dim,
        .q_offset = q.offset + s->qk_nope_head_dim,
    };
}

static void append(const struct pass *pass, const struct mla_weights *w, uint32_t layer, struct rows q)
{
    struct args_kv_append args = append_of(pass, w, q);
    struct gpu_kv_append_bufs bufs = {w->kv_a_layernorm.buf, pass->weights->inv_freq, kv_of(pass).buf,
                                      pass_rows(pass, layer, 0), q.buf};
    gpu_op_kv_append(pass->gpu, &args, &bufs);
}

static struct args_kv_b keys_of(const struct pass *pass, const struct mla_weights *w, struct rows q)
{
    const struct shape *s = pass->shape;
    return (struct args_kv_b){
        .kv_b = w->kv_b.at,
        .n_rows = pass->rows,
        .n_heads = s->n_heads,
        .qk_nope_head_dim = s->qk_nope_head_dim,
        .v_head_dim = s->v_head_dim,
        .q_row_stride = q.stride,
        .q_head_stride = s->qk_nope_head_dim + s->qk_rope_head_dim,
        .decode = pass->decode,
    };
}

// q -> latent space, by the key half of kv_b, or by embed_q, which is that half turned round.
static void absorb(const struct pass *pass, const struct mla_weights *w, struct rows q, gpu_buf *latent)
{
    const struct shape *s = pass->shape;
    uint32_t head = s->qk_nope_head_dim + s->qk_rope_head_dim;
    if (w->embed_q.buf) {
        struct args_heads args = {
            .matrix = w->embed_q.at,
            .n_rows = pass->rows,
            .n_heads = s->n_heads,
            .n_out = s->kv_lora_rank,
            .head_rows = s->kv_lora_rank,
            .row_stride = q.stride,
            .head_stride = head,
            .decode = pass->decode,
        };
        gpu_op_heads(pass->gpu, &args, w->embed_q.buf, q.buf, latent);
        return;
    }
    struct args_kv_b args = keys_of(pass, w, q);
    gpu_op_q_prime(pass->gpu, &args, w->kv_b.buf, q.buf, latent);
}

static const struct matrix *values_matrix(const struct mla_weights *w)
{
    return w->unembed_out.buf ? &w->unembed_out : &w->kv_b;
}

// attended latent -> heads, by the value half of kv_b, or by unembed_out.
static struct args_heads values_of(const struct pass *pass, const struct mla_weights *w)
{
    const struct shape *s = pass->shape;
    uint32_t keys = w->unembed_out.buf ? 0 : s->qk_nope_head_dim;
    return (struct args_heads){
        .matrix = values_matrix(w)->at,
        .n_rows = pass->rows,
        .n_heads = s->n_heads,
        .n_out = s->v_head_dim,
        .head_rows = keys + s->v_head_dim,
        .first_row = keys,
        .row_stride = s->n_heads * s->kv_lora_rank,
        .head_stride = s->kv_lora_rank,
        .decode = pass->decode,
    };
}

static struct args_attention attention_of(const struct pass *pass, struct rows q)
{
    const struct shape *s = pass->shape;
    return (struct args_attention){
        .n_rows = pass->rows,
        .n_heads = s->n_heads,
        .kv_lora_rank = s->kv_lora_rank,
        .rope_dim = s->qk_rope_head_dim,
        .q_row_stride = q.stride,
        .q_head_stride = s->qk_nope_head_dim + s->qk_rope_head_dim,
        .q_rope_offset = s->qk_nope_head_dim,
        .position = pass->position,
        .kv_type = pass->memory->type,
        .softmax_scale = s->softmax_scale,
    };
}

static void attention(const struct pass *pass, const struct args_attention *args, const struct gpu_attention_bufs *bufs)
{
    if (pass->decode)
        gpu_op_attention_decode(pass->gpu, args, bufs);
    else
        gpu_op_attention_prefill(pass->gpu, args, bufs);
}

// q over the cache with keys and values of each head, where the device can do that and a prompt gains by it -> heads.
// Chosen without regard to the number of rows, on which no bit depends.
static bool attend_plain(const struct pass *pass, const struct mla_weights *w, struct rows q, uint32_t layer)
{
    const struct shape *s = pass->shape;
    bool apart = w->embed_q.buf != NULL;
    if (pass->decode || shape_layer_kind(s, layer) != LAYER_MLA)
        return false;
    struct args_attention_plain args = {
        .keys = apart ? w->embed_q.at : w->kv_b.at,
        .values = w->unembed_out.at, // of no kind where kv_b has them
        .n_rows = pass->rows,
        .n_heads = s->n_heads,
        .rope_dim = s->qk_rope_head_dim,
        .kv_lora_rank = s->kv_lora_rank,
        .qk_nope_head_dim = s->qk_nope_head_dim,
        .v_head_dim = s->v_head_dim,
        .q_row_stride = q.stride,
        .q_head_stride = s->qk_nope_head_dim + s->qk_rope_head_dim,
        .position = pass->position,
        .kv_type = pass->memory->type,
        .softmax_scale = s->softmax_scale,
    };
    if (!gpu_has_attention_plain(pass->gpu, &args))
        return false;
    struct gpu_attention_plain_bufs bufs = {apart ? w->embed_q.buf : w->kv_b.buf, w->unembed_out.buf, q.buf,
                                            pass_rows(pass, layer, 0), pass->scratch->buf[SCRATCH_MIXER + MLA_HEADS]};
    gpu_op_attention_plain(pass->gpu, &args, &bufs);
    return true;
}

// q over the cache, all of it for the pass's first rows and by lists for the others -> heads.
static void attend(const struct pass *pass, const struct mla_weights *w, struct rows q, uint32_t layer)
{
    const struct shape *s = pass->shape;
    gpu_buf *const *buf = pass->scratch->buf + SCRATCH_MIXER;
    absorb(pass, w, q, buf[MLA_Q_LATENT]);
    struct args_attention args = attention_of(pass, q);
    struct gpu_attention_bufs bufs = {buf[MLA_Q_LATENT], q.buf, pass_rows(pass, layer, 0), buf[MLA_ATTENDED],
                                      pass->scratch->buf[SCRATCH_LISTS]};
    uint32_t dense = shape_layer_kind(s, layer) == LAYER_MLA ? pass->rows : indexer_dense_rows(pass);
    args.n_rows = dense;
    if (dense)
        attention(pass, &args, &bufs);
    args.n_rows = pass->rows - dense;
    args.position += dense;
    args.first_row = dense;
    args.n_listed = s->indexer.top_k;
    args.pool = s->indexer.pool;
    args.first_listed = (pass->first + dense) * indexer_list(s);
    if (args.n_rows)
        attention(pass, &args, &bufs);
    struct args_heads values = values_of(pass, w);
    gpu_op_heads(pass->gpu, &values, values_matrix(w)->buf, buf[MLA_ATTENDED], buf[MLA_HEADS]);
}

// heads *= sigmoid(gate x), before the last matrix.
static void gate_heads(const struct pass *pass, const struct mla_weights *w, struct rows heads)
{
    const struct shape *s = pass->shape;
    struct rows gate = scratch_mixer(pass->scratch, MLA_GATE, heads.stride);
    pass_project(pass, &(struct projection){&w->gate, stream_read_last(pass), gate, false});
    struct args_gate_product args = {
        .n_rows = pass->rows,
        .n_heads = s->n_heads,
        .dim = s->v_head_dim,
        .stride = heads.stride,
        .offset = heads.offset,
        .gate_stride = gate.stride,
        .gate_head_stride = s->v_head_dim,
        .gate_offset = gate.offset,
    };
    gpu_op_gate_product(pass->gpu, &args, gate.buf, heads.buf);
}

// A decoded token's layer without anything between its ops: in as few launches as the device allows.
static void run_token(const struct pass *pass, const struct mla_weights *w, uint32_t layer, struct rows q)
{
    const struct shape *s = pass->shape;
    gpu_buf *const *buf = pass->scratch->buf + SCRATCH_MIXER;
    const struct vector *norm = &pass->weights->layers[layer].input_layernorm;
    gpu_buf *hidden = pass->stream->hidden;
    const struct matrix *keys = w->embed_q.buf ? &w->embed_q : &w->kv_b;
    struct args_mla_in in = {
        .q_first = s->q_lora_rank ? w->q_a.at : w->q.at,
        .kv_a = w->kv_a.at,
        .append = append_of(pass, w, q),
        .absorb = keys_of(pass, w, q),
        .norm = norm->offset,
        .eps = s->rms_norm_eps,
        .lora_eps = s->latent_norm_eps,
        .turned = w->embed_q.buf != NULL,
    };
    in.absorb.kv_b = keys->at;
    struct gpu_mla_in_bufs in_bufs = {
        .norm = norm->buf,
        .x = hidden,
        .normed = pass->stream->normed,
        .q_first = s->q_lora_rank ? w->q_a.buf : w->q.buf,
        .kv_a = w->kv_a.buf,
        .latent_norm = w->kv_a_layernorm.buf,
        .inv_freq = pass->weights->inv_freq,
        .kv_b = keys->buf,
        .q = q.buf,
        .kv = buf[MLA_KV],
        .cache = pass_rows(pass, layer, 0),
        .latent = buf[MLA_Q_LATENT],
    };
    if (s->q_lora_rank) {
        in.q_last = w->q_b.at;
        in.lora_norm = w->q_a_layernorm.offset;
        in_bufs.q_last = w->q_b.buf;
        in_bufs.lora_norm = w->q_a_layernorm.buf;
        in_bufs.lora = buf[MLA_Q_LORA];
        in_bufs.lora_normed = buf[MLA_Q_NORMED];
    }
    struct args_mla_out out = {.attention = attention_of(pass, q), .values = values_of(pass, w), .o = w->o.at};
    struct gpu_mla_out_bufs out_bufs = {
        .attention = {buf[MLA_Q_LATENT], q.buf, pass_rows(pass, layer, 0), buf[MLA_ATTENDED], NULL},
        .values = values_matrix(w)->buf,
        .heads = buf[MLA_HEADS],
        .o = w->o.buf,
        .out = hidden,
    };
    gpu_op_mla_in(pass->gpu, &in, &in_bufs);
    gpu_op_mla_out(pass->gpu, &out, &out_bufs);
}

static void run(const struct pass *pass, uint32_t layer)
{
    const struct shape *s = pass->shape;
    const struct mla_weights *w = &pass->weights->layers[layer].mla;
    uint32_t head = s->qk_nope_head_dim + s->qk_rope_head_dim;
    struct rows q = scratch_mixer(pass->scratch, MLA_Q, s->n_heads * head);
    struct rows heads = scratch_mixer(pass->scratch, MLA_HEADS, s->n_heads * s->v_head_dim);
    if (pass->decode && stream_is_simple(pass) && shape_layer_kind(s, layer) == LAYER_MLA && !w->gate.buf) {
        run_token(pass, w, layer, q);
        return;
    }
    project(pass, w, layer, q);
    append(pass, w, layer, q);
    if (has_indexer(pass, layer))
        indexer_choose(pass, layer, q_normed(pass));
    if (!attend_plain(pass, w, q, layer))
        attend(pass, w, q, layer);
    if (w->gate.buf)
        gate_heads(pass, w, heads);
    stream_add(pass, &w->o, heads);
}

const struct mixer mixer_mla = {.name = "mla", .want = want, .memory = memory, .work = work, .run = run};
const struct mixer mixer_dsa = {
    .name = "dsa", .want = want_dsa, .memory = memory_dsa, .work = work_dsa, .run = run, .derive = indexer_derive};
const struct mixer mixer_dsa_shared = {
    .name = "dsa, shared", .want = want, .memory = memory, .work = work_dsa_shared, .run = run};
