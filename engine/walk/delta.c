// SPDX-License-Identifier: GPL-3.0-or-later
// The delta rule's layers, which keep a state of fixed size instead of rows: the gated delta net, whose state decays as
// a whole, and Kimi delta attention, where each channel of the keys decays by itself. Both: a short convolution over
// queries, keys and values, then token by token the state takes in what it does not say yet, and answers; each head's
// answer is normed and gated. transformers: Qwen3NextGatedDeltaNet, Qwen3_5MoeGatedDeltaNet, KimiLinearDeltaAttention,
// Glm5NextTextLinearAttention.
#include <stdlib.h>

#include "engine/base/err.h"
#include "engine/walk/loader.h"
#include "engine/walk/mixer.h"
#include "engine/walk/pass.h"

// The buffers of a chunk.
enum {
    DELTA_QKV,   // [rows, queries | keys | values]
    DELTA_CONV,  // the same after the convolution
    DELTA_GATE,  // [rows, beta's inputs | the decay's]
    DELTA_Z,     // [rows, n_value_heads * value_head_dim]: the output's gate
    DELTA_OUT,   // as wide
    DELTA_INNER, // [rows, key_head_dim]: between the two factors of KDA's gates
};

enum { STATE_CONV, STATE_DELTA };

static uint32_t keys_of(const struct shape *s)
{
    return s->linear.n_key_heads * s->linear.key_head_dim;
}

static uint32_t values_of(const struct shape *s)
{
    return s->linear.n_value_heads * s->linear.value_head_dim;
}

static uint32_t channels_of(const struct shape *s)
{
    return 2 * keys_of(s) + values_of(s);
}

// ---- Tensors

// exp(A_log) a head; a GGUF has it ready, but negative.
static void want_rate(struct loader *l, struct delta_weights *w, const char *const names[2])
{
    w->rate_given = loader_has_tensor(l, names[1]);
    const struct want_numbers numbers = {&names[w->rate_given], 1, l->shape->linear.n_value_heads, 1,
                                         l->shape->linear.full_gate}; // Kimi K3's is padded
    loader_numbers(l, &w->rate, &numbers);
}

// qwen3_next's own files join what the others have apart, by key heads: [n_key_heads][part 0 | part 1 | ...]. Of such
// a tensor's rows, these parts from the first on, each of all key heads.
struct joined {
    const char *stem;
    uint32_t rows[4]; // of each part, of one key head
    uint32_t first, n;
};
static void want_joined(struct loader *l, struct matrix *matrix, const struct joined *j)
{
    const struct shape *s = l->shape;
    uint32_t heads = s->linear.n_key_heads, before = 0, block = j->rows[0] + j->rows[1] + j->rows[2] + j->rows[3];
    struct row_run *runs = calloc((size_t)heads * j->n, sizeof *runs);
    struct want want = {.matrix = matrix, .stem = j->stem, .in_dim = s->hidden_size, .runs = runs};
    if (!runs && !l->failed)
        l->failed = moe_fail(l->err, MOE_NO_MEMORY, "no memory for the order of rows");
    for (uint32_t part = 0; part < j->first + j->n && runs; before += j->rows[part++])
        for (uint32_t head = 0; head < heads && part >= j->first; head++) {
            runs[want.n_runs++] = (struct row_run){head * block + before, j->rows[part]};
            want.out_dim += j->rows[part];
        }
    want.stored_rows = heads * block;
    loader_matrices(l, &want, 1);
    free(runs);
}

static void want_gdn_inputs(struct loader *l, struct delta_weights *w)
{
    const struct shape *s = l->shape;
    const struct linear_dims *d = &s->linear;
    uint32_t each = d->n_value_heads / d->n_key_heads, values = each * d->value_head_dim;
    struct joined qkvz = {"linear_attn.in_proj_qkvz", {d->key_head_dim, d->key_head_dim, values, values}, 0, 3};
    struct joined ba = {"linear_attn.in_proj_ba", {each, each}, 0, 1};
    if (loader_has(l, qkvz.stem)) {
        want_joined(l, &w->qkv[0], &qkvz);
        qkvz.first = 3, qkvz.n = 1;
        want_joined(l, &w->z, &qkvz);
    } else {
        loader_matrix(l, &w->qkv[0], "linear_attn.in_proj_qkv", channels_of(s), s->hidden_size);
        loader_matrix(l, &w->z, "linear_attn.in_proj_z", values_of(s), s->hidden_size);
    }
    if (loader_has(l, ba.stem)) {
        want_joined(l, &w->beta, &ba);
        ba.first = 1;
        want_joined(l, &w->decay, &ba);
    } else {
        loader_matrix(l, &w->beta, "linear_attn.in_proj_b", d->n_value_heads, s->hidden_size);
        loader_matrix(l, &w->decay, "linear_attn.in_proj_a", d->n_value_heads, s->hidden_size);
    }
}

static void want_gdn(struct loader *l, struct layer_weights *layer)
{
    static const char *const rate[2] = {"linear_attn.A_log", "linear_attn.A"};
    static const char *const conv[1] = {"linear_attn.conv1d.weight"};
    const struct shape *s = l->shape;
    struct delta_weights *w = &layer->delta;
    want_gdn_inputs(l, w);
    loader_numbers(l, &w->conv, &(struct want_numbers){conv, 1, channels_of(s), s->linear.conv_kernel, false});
    want_rate(l, w, rate);
    loader_vector(l, &w->dt_bias, "linear_attn.dt_bias", s->linear.n_value_heads);
    loader_vector(l, &w->norm, "linear_attn.norm.weight", s->linear.value_head_dim);
    loader_matrix(l, &w->out, "linear_attn.out_proj", s->hidden_size, values_of(s));
}

static void want_kda(struct loader *l, struct layer_weights *layer)
{
    static const char *const rate[2] = {"self_attn.A_log", "self_attn.A"};
    static const char *const conv[3] = {"self_attn.q_conv1d.weight", "self_attn.k_conv1d.weight",
                                        "self_attn.v_conv1d.weight"};
    static const char *const joined_conv[1] = {"self_attn.qkv_conv1d.weight"};
    static const char *const qkv[3] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"};
    const struct shape *s = l->shape;
    struct delta_weights *w = &layer->delta;
    uint32_t hidden = s->hidden_size, wide = keys_of(s), head = s->linear.key_head_dim;
    bool joined = loader_has(l, "self_attn.qkv_proj"), one = loader_has_tensor(l, joined_conv[0]);
    if (joined)
        loader_matrix(l, &w->qkv[0], "self_attn.qkv_proj", 3 * wide, hidden);
    for (int i = 0; i < 3 && !joined; i++)
        loader_matrix(l, &w->qkv[i], qkv[i], wide, hidden);
    const struct want_numbers taps = {one ? joined_conv : conv, one ? 1 : 3, one ? 3 * wide : wide,
                                      s->linear.conv_kernel, false};
    loader_numbers(l, &w->conv, &taps);
    want_rate(l, w, rate);
    loader_vector(l, &w->dt_bias, "self_attn.dt_bias", wide);
    loader_matrix(l, &w->beta, "self_attn.b_proj", s->linear.n_value_heads, hidden);
    loader_matrix(l, &w->inner[0], "self_attn.f_a_proj", head, hidden);
    loader_matrix(l, &w->decay, "self_attn.f_b_proj", wide, head);
    if (s->linear.full_gate) {
        loader_matrix(l, &w->z, "self_attn.g_proj", wide, hidden);
    } else {
        loader_matrix(l, &w->inner[1], "self_attn.g_a_proj", head, hidden);
        loader_matrix(l, &w->z, "self_attn.g_b_proj", wide, head);
    }
    loader_vector(l, &w->norm, "self_attn.o_norm.weight", head);
    loader_matrix(l, &w->out, "self_attn.o_proj", hidden, wide);
}

// ---- What they need

static void memory(const struct shape *s, struct mixer_needs *needs, uint32_t decay_inputs)
{
    const struct linear_dims *d = &s->linear;
    needs->states[STATE_CONV] = (uint64_t)(d->conv_kernel - 1) * channels_of(s);
    needs->states[STATE_DELTA] = (uint64_t)values_of(s) * d->key_head_dim;
    needs->chunk[DELTA_QKV] = needs->chunk[DELTA_CONV] = channels_of(s);
    needs->chunk[DELTA_GATE] = (uint64_t)d->n_value_heads + decay_inputs;
    needs->chunk[DELTA_Z] = needs->chunk[DELTA_OUT] = values_of(s);
}

static void memory_gdn(const struct shape *s, struct mixer_needs *needs)
{
    memory(s, needs, s->linear.n_value_heads);
}

static void memory_kda(const struct shape *s, struct mixer_needs *needs)
{
    memory(s, needs, keys_of(s));
    needs->chunk[DELTA_INNER] = s->linear.key_head_dim;
}

// The state's own: it decays, is asked, takes in, and is asked again.
static double scan_work(const struct shape *s)
{
    return 4.0 * values_of(s) * s->linear.key_head_dim + (double)s->linear.conv_kernel * channels_of(s);
}

static struct mixer_work work_gdn(const struct shape *s)
{
    double wide = (double)channels_of(s) + 2.0 * values_of(s) + 2.0 * s->linear.n_value_heads;
    return (struct mixer_work){.token = s->hidden_size * wide + scan_work(s)};
}

static struct mixer_work work_kda(const struct shape *s)
{
    double hidden = s->hidden_size, wide = keys_of(s), head = s->linear.key_head_dim;
    double low_rank = head * (hidden + wide), gate = s->linear.full_gate ? hidden * wide : low_rank;
    return (struct mixer_work){.token = hidden * (4 * wide + s->linear.n_value_heads) + low_rank + gate + scan_work(s)};
}

// ---- A pass

// What the two kinds differ by once their inputs are there.
struct rule {
    uint32_t decay_inputs;
    enum delta_decay decay;
    enum gate_act act;
};

static struct args_short_conv convolution(const struct pass *pass, const struct delta_weights *w)
{
    const struct shape *s = pass->shape;
    struct rows x = scratch_mixer(pass->scratch, DELTA_QKV, channels_of(s));
    struct rows y = scratch_mixer(pass->scratch, DELTA_CONV, channels_of(s));
    return (struct args_short_conv){
        .weight = w->conv.offset,
        .n_rows = pass->rows,
        .channels = channels_of(s),
        .in_stride = x.stride,
        .in_offset = x.offset,
        .out_stride = y.stride,
        .out_offset = y.offset,
    };
}

static struct args_delta scan(const struct pass *pass, const struct delta_weights *w, const struct rule *rule)
{
    const struct shape *s = pass->shape;
    const struct linear_dims *d = &s->linear;
    struct rows x = scratch_mixer(pass->scratch, DELTA_CONV, channels_of(s));
    struct rows gate = scratch_mixer(pass->scratch, DELTA_GATE, d->n_value_heads + rule->decay_inputs);
    struct rows out = scratch_mixer(pass->scratch, DELTA_OUT, values_of(s));
    return (struct args_delta){
        .rate = w->rate.offset,
        .dt_bias = w->dt_bias.offset,
        .n_rows = pass->rows,
        .n_key_heads = d->n_key_heads,
        .n_value_heads = d->n_value_heads,
        .key_dim = d->key_head_dim,
        .value_dim = d->value_head_dim,
        .in_stride = x.stride,
        .q_offset = x.offset,
        .k_offset = x.offset + keys_of(s),
        .v_offset = x.offset + 2 * keys_of(s),
        .gate_stride = gate.stride,
        .beta_offset = gate.offset,
        .decay_offset = gate.offset + d->n_value_heads,
        .out_stride = out.stride,
        .out_offset = out.offset,
        .tiled_heads = d->tiled,
        .decay = rule->decay,
        .rate_given = w->rate_given,
        .bound = d->bound,
        .norm_eps = 1e-6F, // in transformers' code, whatever rms_norm_eps is
    };
}

static struct args_gated_norm norm_and_gate(const struct pass *pass, const struct delta_weights *w,
                                            const struct rule *rule)
{
    const struct shape *s = pass->shape;
    struct rows z = scratch_mixer(pass->scratch, DELTA_Z, values_of(s));
    struct rows out = scratch_mixer(pass->scratch, DELTA_OUT, values_of(s));
    return (struct args_gated_norm){
        .weight = w->norm.offset,
        .n_rows = pass->rows,
        .n_heads = s->linear.n_value_heads,
        .dim = s->linear.value_head_dim,
        .in_stride = out.stride,
        .in_offset = out.offset,
        .gate_stride = z.stride,
        .gate_offset = z.offset,
        .out_stride = out.stride,
        .out_offset = out.offset,
        .act = rule->act,
        .eps = s->rms_norm_eps,
    };
}

static struct args_delta_token token_args(const struct pass *pass, const struct delta_weights *w,
                                          const struct rule *rule)
{
    return (struct args_delta_token){convolution(pass, w), scan(pass, w, rule), norm_and_gate(pass, w, rule)};
}

static struct gpu_delta_token_bufs token_bufs(const struct pass *pass, uint32_t layer)
{
    const struct delta_weights *w = &pass->weights->layers[layer].delta;
    gpu_buf *const *buf = pass->scratch->buf + SCRATCH_MIXER;
    struct state_halves history = pass_state(pass, layer, STATE_CONV), state = pass_state(pass, layer, STATE_DELTA);
    return (struct gpu_delta_token_bufs){
        .conv = {w->conv.buf, buf[DELTA_QKV], history.from, history.to, buf[DELTA_CONV]},
        .scan = {w->rate.buf, w->dt_bias.buf, buf[DELTA_CONV], buf[DELTA_GATE], state.from, state.to, buf[DELTA_OUT]},
        .norm = {w->norm.buf, buf[DELTA_OUT], buf[DELTA_Z], buf[DELTA_OUT]},
    };
}

// From the inputs on.
static void mix(const struct pass *pass, uint32_t layer, const struct rule *rule)
{
    const struct delta_weights *w = &pass->weights->layers[layer].delta;
    struct args_delta_token args = token_args(pass, w, rule);
    struct gpu_delta_token_bufs bufs = token_bufs(pass, layer);
    if (pass->decode && !pass->stream->unfused) {
        gpu_op_delta_token(pass->gpu, &args, &bufs);
    } else {
        gpu_op_short_conv(pass->gpu, &args.conv, &bufs.conv);
        gpu_op_delta(pass->gpu, &args.scan, &bufs.scan);
        gpu_op_gated_norm(pass->gpu, &args.norm, &bufs.norm);
    }
    stream_add(pass, &w->out, scratch_mixer(pass->scratch, DELTA_OUT, values_of(pass->shape)));
}

// From the stream on and into it, in as few launches as the device allows.
static void run_token(const struct pass *pass, uint32_t layer, const struct projection *from_x, const struct rule *rule)
{
    const struct delta_weights *w = &pass->weights->layers[layer].delta;
    const struct vector *norm = &pass->weights->layers[layer].input_layernorm;
    struct args_delta_layer args = {
        .in = {.norm = norm->offset, .n = MOST_BESIDE, .eps = pass->shape->rms_norm_eps},
        .token = token_args(pass, w, rule),
        .last = w->out.at,
    };
    struct gpu_delta_layer_bufs bufs = {
        .in = {.norm = norm->buf, .x = pass->stream->hidden, .normed = pass->stream->normed},
        .token = token_bufs(pass, layer),
        .last = w->out.buf,
    };
    for (uint32_t k = 0; k < MOST_BESIDE; k++) {
        args.in.matrix[k] = from_x[k].matrix->at;
        args.in.out_offset[k] = from_x[k].to.offset;
        bufs.in.matrix[k] = from_x[k].matrix->buf;
        bufs.in.y[k] = from_x[k].to.buf;
    }
    gpu_op_delta_layer(pass->gpu, &args, &bufs);
}

static void project(const struct pass *pass, const struct matrix *matrix, struct rows x, struct rows y)
{
    pass_project(pass, &(struct projection){matrix, x, y, false});
}

// Rows from this element on.
static struct rows from(struct rows rows, uint32_t first)
{
    rows.offset += first;
    return rows;
}

static void run_gdn(const struct pass *pass, uint32_t layer)
{
    const struct shape *s = pass->shape;
    const struct delta_weights *w = &pass->weights->layers[layer].delta;
    const struct rule rule = {s->linear.n_value_heads, DECAY_HEAD, GATE_SILU};
    struct rows gate = scratch_mixer(pass->scratch, DELTA_GATE, 2 * s->linear.n_value_heads);
    struct projection from_x[MOST_BESIDE] = {
        {.matrix = &w->qkv[0], .to = scratch_mixer(pass->scratch, DELTA_QKV, channels_of(s))},
        {.matrix = &w->z, .to = scratch_mixer(pass->scratch, DELTA_Z, values_of(s))},
        {.matrix = &w->beta, .to = gate},
        {.matrix = &w->decay, .to = from(gate, s->linear.n_value_heads)},
    };
    if (pass->decode && stream_is_simple(pass)) {
        run_token(pass, layer, from_x, &rule);
        return;
    }
    stream_project(pass, layer, SITE_MIXER, from_x, MOST_BESIDE);
    mix(pass, layer, &rule);
}

static void run_kda(const struct pass *pass, uint32_t layer)
{
    const struct shape *s = pass->shape;
    const struct delta_weights *w = &pass->weights->layers[layer].delta;
    const struct rule rule = {keys_of(s), s->linear.bound < 0 ? DECAY_CHANNEL_BOUNDED : DECAY_CHANNEL, GATE_SIGMOID};
    struct rows qkv = scratch_mixer(pass->scratch, DELTA_QKV, channels_of(s));
    struct rows gate = scratch_mixer(pass->scratch, DELTA_GATE, s->linear.n_value_heads + keys_of(s));
    struct rows inner = scratch_mixer(pass->scratch, DELTA_INNER, s->linear.key_head_dim);
    struct projection from_x[] = {
        {.matrix = &w->qkv[0], .to = qkv},
        {.matrix = &w->beta, .to = gate},
        {.matrix = &w->qkv[1], .to = from(qkv, keys_of(s))},
        {.matrix = &w->qkv[2], .to = from(qkv, 2 * keys_of(s))},
    };
    struct rows x = stream_project(pass, layer, SITE_MIXER, from_x, w->qkv[1].buf ? 4 : 2); // some files join them
    project(pass, &w->inner[0], x, inner);
    project(pass, &w->decay, inner, from(gate, s->linear.n_value_heads));
    if (!s->linear.full_gate)
        project(pass, &w->inner[1], x, inner);
    project(pass, &w->z, s->linear.full_gate ? x : inner, scratch_mixer(pass->scratch, DELTA_Z, values_of(s)));
    mix(pass, layer, &rule);
}

const struct mixer mixer_gdn = {
    .name = "gdn", .want = want_gdn, .memory = memory_gdn, .work = work_gdn, .run = run_gdn};
const struct mixer mixer_kda = {
    .name = "kda", .want = want_kda, .memory = memory_kda, .work = work_kda, .run = run_kda};
