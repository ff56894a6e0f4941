// SPDX-License-Identifier: GPL-3.0-or-later
// The arguments of every op: one plain struct each, compiled by the host's C and by OpenCL C alike.
// Only 4- and 8-byte fields, the 8-byte ones first, so that both compilers lay them out the same; program.c proves it
// on each device with a probe kernel. Offsets of weights are in bytes, offsets and strides of activations in elements
// (float32). "rows" are tokens. All activations are float32, row-major.
#ifndef MOECHAT_ARGS_H
#define MOECHAT_ARGS_H

#ifdef __OPENCL_VERSION__
typedef ulong arg_u64;
typedef uint arg_u32;
typedef float arg_f32;
#else
#include <stdint.h>
typedef uint64_t arg_u64;
typedef uint32_t arg_u32;
typedef float arg_f32;
#endif

// How a matrix's weights are stored; kinds.h tells of each. GGUF's kinds have ggml's names, all others are MLX's:
// affine ones of so many bits, and the fp modes.
enum matrix_kind {
    KIND_NONE, // no matrix has it: what was left out is not taken for something else
    KIND_F32,
    KIND_F16,
    KIND_BF16,
    KIND_MLX_2,
    KIND_MLX_3,
    KIND_MLX_4,
    KIND_MLX_5,
    KIND_MLX_6,
    KIND_MLX_8,
    KIND_MLX_MXFP4,
    KIND_MLX_NVFP4,
    KIND_MLX_MXFP8,
    KIND_Q4_0,
    KIND_Q4_1,
    KIND_Q5_0,
    KIND_Q5_1,
    KIND_Q8_0,
    KIND_Q2_K,
    KIND_Q3_K,
    KIND_Q4_K,
    KIND_Q5_K,
    KIND_Q6_K,
    KIND_IQ4_NL,
    KIND_IQ4_XS,
    KIND_IQ1_S,
    KIND_IQ1_M,
    KIND_IQ2_XXS,
    KIND_IQ2_XS,
    KIND_IQ2_S,
    KIND_IQ3_XXS,
    KIND_IQ3_S,
    KIND_MXFP4,
    KIND_NVFP4,
    KIND_TQ1_0,
    KIND_TQ2_0,
    KIND_COUNT
};
enum scale_type { SCALE_BF16, SCALE_F16, SCALE_F32 };
// A float32 that all of a matrix is multiplied with: NVFP4 (GGUF's STEM.scale) and nvfp4 may have one. MLX writes what
// the largest weight would be, 448 * 6 times the factor.
enum matrix_factor { FACTOR_NONE, FACTOR_ITSELF, FACTOR_OF_LARGEST };
#define LARGEST_NVFP4 2688.0f

// What ops do with a kind's matrices: kernels are built for what is used.
#define USE_ROWS     1  // embed
#define USE_PRODUCTS 2  // matvec, matmul, swiglu
#define USE_EXPERTS  4  // the same of experts, one token's and many tokens'
#define USE_HEADS    8  // heads
#define USE_KEYS     16 // q_prime
// What a model's layers need besides, by the kinds of mixers.
#define USE_LATENT 64   // multi-head latent attention
#define USE_LISTS  128  // the same over chosen positions
#define USE_GROUPS 256  // grouped-query attention
#define USE_STATES 512  // delta nets
#define USE_HYPER  1024 // several residual streams
#define USE_BANK   2048 // residuals of earlier layers
// And where a layer's ops go together for a token (ops_token.c).
#define USE_TOKEN  4096
#define USE_MIXERS (USE_HEADS | USE_KEYS | USE_LATENT | USE_LISTS | USE_GROUPS | USE_STATES | USE_HYPER | USE_BANK)

// A matrix W[o][i], o < out_dim, i < in_dim, which is a multiple of 32 and of the kind's block. Its rows lie one behind
// the other from `weight` on, blocks as the kind says. MLX's affine kinds: W = q * scale + bias, with q in a stream of
// bits, the first input in the lowest bits of a u32 word, and a scale and a bias of scale_type for each group_size
// inputs, 32, 64 or 128, in arrays of their own. MLX's fp modes have scales of a byte there, and no biases. A factor,
// of the kinds that may have one, lies at `biases`. To all other kinds scales, biases, group_size and scale_type mean
// nothing.
struct args_matrix {
    arg_u64 weight; // byte offsets in the op's matrix buffer, multiples of 4
    arg_u64 scales;
    arg_u64 biases;
    arg_u32 in_dim;
    arg_u32 out_dim;
    arg_u32 kind; // enum matrix_kind
    arg_u32 group_size;
    arg_u32 scale_type; // enum scale_type
    arg_u32 factor;     // enum matrix_factor
};

// out[r][:] = table[ids[r]][:]; the table's rows are the vocabulary (out_dim), in_dim wide.
struct args_embed {
    struct args_matrix table;
    arg_u32 n_rows;
    arg_u32 pad;
};

// y = x / sqrt(mean(x^2) + eps) * weight (float32), over dim elements of each row; y may be x. With plus_one, here and
// below, what multiplies is 1 + weight: files of transformers' Qwen3-Next family hold the rest.
struct args_rmsnorm {
    arg_u64 weight; // byte offset, a multiple of 4
    arg_u32 n_rows;
    arg_u32 dim;
    arg_u32 in_stride;
    arg_u32 in_offset;
    arg_u32 out_stride;
    arg_u32 out_offset;
    arg_f32 eps;
    arg_u32 plus_one;
};

// y[r][o] = sum_i W[o][i] x[r][i], or += when add is 1. matvec: n_rows is 1 and the decode kernels run; matmul: the
// prefill kernels, whose result for a row does not depend on n_rows or on the row's place in the launch.
struct args_matmul {
    struct args_matrix matrix;
    arg_u32 n_rows;
    arg_u32 in_stride;
    arg_u32 in_offset;
    arg_u32 out_stride;
    arg_u32 out_offset;
    arg_u32 add;
};

// matvec for n matrices of one width and one row: rmsnorm of x, which goes to `normed`, and y_k = W_k normed. The sums
// of those ops, one after the other.
enum { MOST_BESIDE = 4 };
struct args_norm_matvecs {
    struct args_matrix matrix[MOST_BESIDE];
    arg_u64 norm; // byte offset of the norm's weight, float32
    arg_u32 n;
    arg_u32 in_offset; // of x
    arg_u32 normed_offset;
    arg_u32 out_offset[MOST_BESIDE];
    arg_f32 eps;
    arg_u32 plus_one;
};

// y[r][o] = silu(gate[o] . x[r]) * (up[o] . x[r]); gate and up have one shape and lie in one buffer. With a limit, here
// and below, gate's product counts as no more than it, and up's as no more and no less than minus it (swiglu_limit of
// GLM-5.3's Glm5NextTextMLP). 0: there is none. With a situ_beta, too, it is no edge but a bend (SiTU of Kimi K3, whose
// activation_situ_linear_beta is the limit): situ_beta tanh(gate / situ_beta) sigmoid(gate) * limit tanh(up / limit).
struct args_swiglu {
    struct args_matrix gate;
    struct args_matrix up;
    arg_u32 n_rows;
    arg_u32 in_stride;
    arg_u32 in_offset;
    arg_u32 out_stride;
    arg_u32 out_offset;
    arg_f32 limit;
    arg_f32 situ_beta;
    arg_u32 indexed; // rows of x where an index says which are meant (gpu_op_swiglu_each); 0: none does
};

// matmul or swiglu for several matrices of one layout in one buffer, each with rows of its own: `of` for the first, and
// what differs for each: how far behind the first's its matrix lies, its rows and where they are.
enum { MOST_EACH = 32 };
struct args_each {
    arg_u64 behind[MOST_EACH];
    arg_u32 n_rows[MOST_EACH];
    arg_u32 in_offset[MOST_EACH];
    arg_u32 out_offset[MOST_EACH];
};
struct args_matmul_each {
    struct args_matmul of;
    struct args_each at;
};
struct args_swiglu_each {
    struct args_swiglu of;
    struct args_each at;
};

// x for tensor cores: the rows of each of `at`, dim wide, in halves and in the order of fragments, beginning with row
// out_offset of those. With head_stride, the rows of each head: of head h from in_offset + h * head_stride on,
// beginning with row h * n_rows.
struct args_split {
    struct args_each at;
    arg_u32 dim;
    arg_u32 in_stride;
    arg_u32 head_stride; // 0: no heads
    arg_u32 pad;
};

// Several experts of one layout in one buffer: the matrices of number k, k < n, lie some bytes behind the offsets that
// the op's args_matrix names, and some rank, distinct, is its row of the activations. Either the host says which:
// place[k] and rank[k], n at most MOST_EXPERTS. Or, with by_id, the device does, by a router's choice: number k, of
// rank k, is expert ids[first_id + k] of n_experts that lie from `base` on, `stride` bytes apart.
enum { MOST_EXPERTS = 16 };
struct args_places {
    arg_u64 place[MOST_EXPERTS];
    arg_u64 base;
    arg_u64 stride;
    arg_u32 rank[MOST_EXPERTS];
    arg_u32 n;
    arg_u32 by_id;
    arg_u32 first_id;
    arg_u32 n_experts;
};

// For each of them, with the sums of the ops on one, in their order:
// swiglu_experts: y[rank][o] = silu(gate[o] . x) * (up[o] . x), x being one row for all; and of the shared expert,
// which
//                 may be wider, in a buffer of its own: it has one unless its kind is KIND_NONE, and with is_gated its
//                 row is multiplied by the sigmoid of a number, as gate_product does
// matvec_experts: y[rank][o] = sum_i W[o][i] x[rank][i]
struct args_swiglu_experts {
    struct args_matrix gate;
    struct args_matrix up;
    struct args_matrix shared_gate;
    struct args_matrix shared_up;
    struct args_places at;
    arg_u32 in_offset;
    arg_u32 out_stride;
    arg_u32 shared_offset; // in y
    arg_f32 limit;
    arg_f32 situ_beta;
    arg_u32 is_gated;
};
struct args_matvec_experts {
    struct args_matrix matrix;
    struct args_places at;
    arg_u32 in_stride; // 0: one row for all
    arg_u32 in_offset;
    arg_u32 out_stride;
    arg_u32 pad;
};

// matvec_experts of all of a token's experts and what becomes of it: out[:] += W x of the shared expert, as matvec
// adds, if there is one; then out[:] += sum over k = 0 .. n - 1, in that order, of weight[first_weight + k] * (W_k
// x_k)[:], as combine does. Number k's rank is k.
struct args_add_experts {
    struct args_matrix matrix;
    struct args_matrix shared;
    struct args_places at;
    arg_u32 in_stride;
    arg_u32 shared_offset; // in x
    arg_u32 first_weight;
    arg_u32 pad;
};

// y[row][i] = silu(gate[row][i]) * y[row][i], i < dim, within a limit; both have rows out_stride apart from out_offset
// on. The rows are 0 .. n_rows - 1, or, where at.n is not 0, the ranks of `at`. swiglu of two kinds is two products and
// this.
struct args_silu_product {
    struct args_places at;
    arg_u32 n_rows;
    arg_u32 dim;
    arg_u32 out_stride;
    arg_u32 out_offset;
    arg_f32 limit;
    arg_f32 situ_beta;
};

// Rotates, in place, rope_dim elements of each head of each row: pair j by the angle position * inv_freq[j], cos and
// sin times scale. Pairs are (2j, 2j+1) when interleaved, else (j, j + rope_dim/2). The result stays where its inputs
// were.
struct args_rope {
    arg_u32 n_rows;
    arg_u32 n_heads;
    arg_u32 row_stride;
    arg_u32 head_stride;
    arg_u32 offset; // of the first rotated element in a head
    arg_u32 rope_dim;
    arg_u32 position; // of row 0
    arg_u32 interleaved;
    arg_f32 scale;
    arg_u32 pad;
};

enum { KV_F32 = 0, KV_F16 = 1 };

// cache[position + r] = rmsnorm of x[r][0..kv_lora_rank) and behind it rope of the rope_dim elements that follow there,
// as those two ops do, converted to the cache's type. And q's heads are turned, in place, as rope does: n_heads of
// them, which may be 0. With no_rope nothing is turned, the elements behind stay as they are, of which there may be
// none, and inv_freq is not read (Kimi-Linear's MLA).
struct args_kv_append {
    arg_u64 norm; // byte offset of the norm's weight, float32
    arg_u32 n_rows;
    arg_u32 kv_lora_rank;
    arg_u32 rope_dim;
    arg_u32 in_stride;
    arg_u32 position; // of row 0
    arg_u32 kv_type;
    arg_u32 interleaved;
    arg_f32 eps;
    arg_f32 scale;
    arg_u32 no_rope;
    arg_u32 n_heads;
    arg_u32 q_row_stride;
    arg_u32 q_head_stride;
    arg_u32 q_offset; // of the first turned element of a row
};

// The key half of kv_b, absorbed. kv_b's rows are, head by head, qk_nope_head_dim rows of keys and then v_head_dim rows
// of values, each kv_lora_rank (= in_dim) wide. out[r][h][c] = sum_d q[r][h][d] * kv_b[h * (nope + v) + d][c] out is
// [n_rows, n_heads, in_dim]. With decode 1, n_rows is 1 and the decode kernels run, as with matvec; so in args_heads.
struct args_kv_b {
    struct args_matrix kv_b;
    arg_u32 n_rows;
    arg_u32 n_heads;
    arg_u32 qk_nope_head_dim;
    arg_u32 v_head_dim;
    arg_u32 q_row_stride; // of q's rows and heads
    arg_u32 q_head_stride;
    arg_u32 decode;
    arg_u32 pad;
};

// A product for each head. With kv_b: its value half (head_rows nope + v, first_row nope). With MLX's embed_q, which
// holds the keys transposed: what q_prime computes; with unembed_out: what kv_b's value half does.
// out[r][h][o] = sum_i x[r * row_stride + h * head_stride + i] * matrix[h * head_rows + first_row + o][i], o < n_out;
// out is [n_rows, n_heads, n_out]
struct args_heads {
    struct args_matrix matrix;
    arg_u32 n_rows;
    arg_u32 n_heads;
    arg_u32 n_out;
    arg_u32 head_rows;
    arg_u32 first_row;
    arg_u32 row_stride;
    arg_u32 head_stride;
    arg_u32 decode;
};

// Causal attention over latent rows. Row r stands at position + r and sees cache rows 0 .. position + r.
// score = softmax_scale * (q_latent[r][h] . row[0..kv_lora_rank) + q[r][h][q_rope_offset..] . row[kv_lora_rank..)),
// out[r][h][c] = sum over rows of softmax(score) * row[c], c < kv_lora_rank.
// With n_listed it sees that many cache rows by a list instead: those in list[first_listed + r * n_listed ..], whose
// order is that of the sums. Row r is row first_row + r of q_latent, q and out. With a pool above 1 it sees those of
// its open pool besides, (position + r + 1) % pool of them, which stand behind the others; lists lie n_listed + pool -
// 1 apart.
struct args_attention {
    arg_u32 n_rows;
    arg_u32 n_heads;
    arg_u32 kv_lora_rank;
    arg_u32 rope_dim;
    arg_u32 q_row_stride;
    arg_u32 q_head_stride;
    arg_u32 q_rope_offset;
    arg_u32 position;
    arg_u32 kv_type;
    arg_u32 first_row;
    arg_u32 n_listed;
    arg_u32 first_listed;
    arg_u32 pool;
    arg_f32 softmax_scale;
};

// The same over all rows before, with keys and values made of the latent rows instead of queries taken into their
// space: k[p][h] = kv_b's keys . row[0..kv_lora_rank), v[p][h] = kv_b's values . the same;
// score = softmax_scale * (q[r][h][0..nope) . k[p][h] + q[r][h][nope..] . row[kv_lora_rank..)),
// out[r][h][d] = sum over rows of softmax(score) * v[p][h][d]; out is [n_rows, n_heads, v_head_dim].
struct args_attention_plain {
    struct args_matrix keys;   // kv_b as in args_kv_b, or embed_q, which has them turned round,
    struct args_matrix values; // and unembed_out. KIND_NONE: kv_b has them
    arg_u32 n_rows;
    arg_u32 n_heads;
    arg_u32 rope_dim;
    arg_u32 kv_lora_rank;
    arg_u32 qk_nope_head_dim;
    arg_u32 v_head_dim;
    arg_u32 q_row_stride;
    arg_u32 q_head_stride;
    arg_u32 position; // of row 0
    arg_u32 kv_type;
    arg_u32 first_head; // the heads of a launch, and whether `keys` are turned round: the op's own
    arg_u32 heads;
    arg_u32 turned;
    arg_f32 softmax_scale;
};

// Attention that chooses its rows: an indexer scores the positions before a token, and only the best are looked at
// (transformers: DeepseekV32Indexer, GlmMoeDsaIndexer).
// index_append: cache[position + r] = (x - mean x) / sqrt(mean (x - mean x)^2 + eps) * norm + bias, over the dim
// elements of a row x, whose first rope_dim are then turned as rope does, if any; converted to the cache's type. Its
// rows are n_behind wider: so many elements behind x's go there as they are.
enum { MOST_INDEX_DIM = 128 };
struct args_index_append {
    arg_u64 norm; // byte offsets of float32 [dim]
    arg_u64 bias;
    arg_u32 n_rows;
    arg_u32 dim; // a multiple of 8, at most MOST_INDEX_DIM; so below
    arg_u32 rope_dim;
    arg_u32 in_stride;
    arg_u32 in_offset;
    arg_u32 position; // of row 0
    arg_u32 kv_type;
    arg_u32 interleaved;
    arg_f32 eps;
    arg_f32 scale; // of cos and sin
    arg_u32 n_behind;
    arg_u32 pad;
};

// Keys of pools: `pool` positions each, from 0 on (transformers: Glm5NextTextIndexer). A row of the cache is a key and
// a gate, dim each. Of the pools that positions .. position + n_rows - 1 lie in, those that are complete then: pools[p]
// = sum over their positions j of softmax_j(gate_j + ape[j]) * key_j, channel by channel; of the one that is not, the
// shares of the positions that are there, dim / pool each, become 0.
struct args_index_pool {
    arg_u64 ape; // byte offset of float32 [pool][dim]
    arg_u32 n_rows;
    arg_u32 dim;
    arg_u32 pool; // divides dim
    arg_u32 position;
    arg_u32 kv_type;
    arg_u32 pad;
};

// scores[r][s] = sum over heads h of (scale * weight[r][h]) * max(0, q[r][h] . cache[s]), s <= position + r; what lies
// behind means nothing. The product is dim terms by fma, the sum n_heads by fma, both ascending, from 0 on: the same
// bits in plain C, and on every device but where tensor cores do it. With a pool above 1 the cache has pools, and the
// row sees those that are complete: s < (position + r + 1) / pool.
struct args_index_scores {
    arg_u32 n_rows;
    arg_u32 n_heads;
    arg_u32 dim;
    arg_u32 q_stride; // heads lie side by side
    arg_u32 q_offset;
    arg_u32 weight_stride;
    arg_u32 weight_offset;
    arg_u32 position; // of row 0
    arg_u32 kv_type;
    arg_u32 out_stride;
    arg_f32 scale;
    arg_u32 pool;
};

// list[first + r * top_k ..] = the positions of the top_k largest of scores[r][0 .. position + r], ascending; of equal
// ones the lower come first, and -0 is 0. There are at least top_k. With a pool above 1 scores are of pools, and the
// list is of their positions, then of those of the open pool: top_k * pool and up to pool - 1, which is how far lists
// lie apart.
struct args_index_choice {
    arg_u32 n_rows;
    arg_u32 top_k;
    arg_u32 position; // of row 0
    arg_u32 in_stride;
    arg_u32 first;
    arg_u32 pool;
};

// Grouped attention: n_heads queries over n_kv_heads keys and values, all head_dim wide. A row of the cache is the keys
// of all heads, then their values: 2 * n_kv_heads * head_dim elements.
// gqa_append: each head of q, in place, and each of k, which becomes the row at position + r with v behind it, is
// normed by rmsnorm and then turned by rope, rope_dim elements from rope_offset on, as those ops do. Heads of q lie
// q_head_stride apart, those of k and v head_dim. rope_dim 0: nothing is turned.
struct args_gqa_append {
    arg_u64 q_norm; // byte offsets of float32 [head_dim]
    arg_u64 k_norm;
    arg_u32 n_rows;
    arg_u32 n_heads;
    arg_u32 n_kv_heads;
    arg_u32 head_dim;
    arg_u32 rope_offset;
    arg_u32 rope_dim;
    arg_u32 q_stride;
    arg_u32 q_head_stride;
    arg_u32 q_offset;
    arg_u32 kv_stride; // of the rows with k and v
    arg_u32 k_offset;
    arg_u32 v_offset;
    arg_u32 position; // of row 0
    arg_u32 kv_type;
    arg_u32 interleaved;
    arg_u32 plus_one;
    arg_f32 eps;
    arg_f32 scale; // of cos and sin
};

// Row r stands at position + r and sees cache rows 0 .. position + r; head h takes key and value head
// h / (n_heads / n_kv_heads). score = softmax_scale * q[r][h] . key; out[r][h] = sum of softmax(score) * value.
struct args_gqa {
    arg_u32 n_rows;
    arg_u32 n_heads;
    arg_u32 n_kv_heads;
    arg_u32 head_dim; // a multiple of 8, at most MOST_HEAD_DIM
    arg_u32 q_stride;
    arg_u32 q_head_stride;
    arg_u32 q_offset;
    arg_u32 position;
    arg_u32 kv_type;
    arg_f32 softmax_scale;
};
enum { MOST_HEAD_DIM = 256 };

// A short causal convolution of each channel, as gated delta nets have before them (transformers: causal_conv1d_fn):
// y[t][c] = silu(sum over j = 0 .. CONV_TAPS - 1 of weight[c][j] * x[t - (CONV_TAPS - 1) + j][c]), the last tap being
// the newest. What came before row 0 are the CONV_TAPS - 1 rows [channels] of the history, the oldest first, read at
// `from`; the last ones including this launch's are written at `to`. Cut anywhere, rows have the same bits.
enum { CONV_TAPS = 4 };
struct args_short_conv {
    arg_u64 weight; // byte offset of float32 [channels][CONV_TAPS]
    arg_u64 from;   // in elements; the two are the same range, or do not touch
    arg_u64 to;
    arg_u32 n_rows;
    arg_u32 channels;
    arg_u32 in_stride;
    arg_u32 in_offset;
    arg_u32 out_stride;
    arg_u32 out_offset;
};

// The gated delta rule, token by token (transformers: torch_recurrent_gated_delta_rule of Qwen3-Next and Qwen3.5,
// recurrent_kimi_delta_attention of Kimi-Linear). Value head h has a state S [key_dim][value_dim] and takes the key
// head h / (n_value_heads / n_key_heads), or, with tiled_heads, h % n_key_heads (GGUF of qwen35moe).
//   q = q / sqrt(sum q^2 + norm_eps) / sqrt(key_dim);  k = k / sqrt(sum k^2 + norm_eps);  beta = sigmoid(b)
//   S = decay * S;  d = beta * (v - S^T k);  S = S + k d^T;  out = S^T q
// with f = input + dt_bias, where f > 20 is its own softplus, and rate = exp(A_log), or, with rate_given, minus what
// the file holds (GGUF's ssm_a), a number a head:
//   DECAY_HEAD:            decay = exp(-rate[h] * softplus(f[h])), of input and dt_bias [n_value_heads]
//   DECAY_CHANNEL:         decay[i] = exp(-rate[h] * softplus(f[h][i])), of both [n_value_heads][key_dim]
//   DECAY_CHANNEL_BOUNDED: decay[i] = exp(bound * sigmoid(rate[h] * f[h][i])), bound < 0
// A launch reads the states of all heads at `from` and leaves them at `to`. Cut anywhere, rows have the same bits.
enum delta_decay { DECAY_HEAD = 0, DECAY_CHANNEL = 1, DECAY_CHANNEL_BOUNDED = 2 };
enum { MOST_KEY_DIM = 128 };
struct args_delta {
    arg_u64 rate;    // byte offset of float32 [n_value_heads]
    arg_u64 dt_bias; // byte offset of float32
    arg_u64 from;    // in elements; the two are the same range, or do not touch
    arg_u64 to;
    arg_u32 n_rows;
    arg_u32 n_key_heads;
    arg_u32 n_value_heads;
    arg_u32 key_dim; // at most MOST_KEY_DIM
    arg_u32 value_dim;
    arg_u32 in_stride; // of the rows with q, k and v, heads side by side
    arg_u32 q_offset;
    arg_u32 k_offset;
    arg_u32 v_offset;
    arg_u32 gate_stride; // of the rows with b and the decay's inputs
    arg_u32 beta_offset;
    arg_u32 decay_offset;
    arg_u32 out_stride;
    arg_u32 out_offset;
    arg_u32 tiled_heads;
    arg_u32 decay; // enum delta_decay
    arg_u32 rate_given;
    arg_f32 bound;
    arg_f32 norm_eps;
    arg_u32 pad;
};

// y[r][h] = x[r][h] / sqrt(mean(x[r][h]^2) + eps) * weight * act(gate[r][h]), over heads of dim elements side by side;
// y may be x. transformers: Qwen3NextRMSNormGated (silu), KimiLinearRMSNormGated (sigmoid).
enum gate_act { GATE_SILU = 0, GATE_SIGMOID = 1 };
struct args_gated_norm {
    arg_u64 weight; // byte offset of float32 [dim]
    arg_u32 n_rows;
    arg_u32 n_heads;
    arg_u32 dim;
    arg_u32 in_stride;
    arg_u32 in_offset;
    arg_u32 gate_stride;
    arg_u32 gate_offset;
    arg_u32 out_stride;
    arg_u32 out_offset;
    arg_u32 act; // enum gate_act
    arg_f32 eps;
    arg_u32 pad;
};

// One token of short_conv, delta and gated_norm, one after the other, with their bits: the scan's rows are the
// convolution's, the norm's the scan's.
struct args_delta_token {
    struct args_short_conv conv;
    struct args_delta scan;
    struct args_gated_norm norm;
};

// One token of such a layer, from the stream's row on, which is in's x, and into it again: norm_matvecs, delta_token
// and out += last times what that leaves. in.matrix: queries, keys and values; the output's gate; beta's inputs; the
// decay's.
struct args_delta_layer {
    struct args_norm_matvecs in;
    struct args_delta_token token;
    struct args_matrix last;
    arg_u32 met; // these two as in args_moe_token
    arg_u32 meetings;
};

// y[r][h][i] *= sigmoid(gate[r][h][i]), i < dim; heads of y lie side by side, those of the gate gate_head_stride apart.
// With one_each a head has one gate, gate[r][h][0]: a shared expert's, of one head.
struct args_gate_product {
    arg_u32 n_rows;
    arg_u32 n_heads;
    arg_u32 dim;
    arg_u32 stride;
    arg_u32 offset;
    arg_u32 gate_stride;
    arg_u32 gate_head_stride;
    arg_u32 gate_offset;
    arg_u32 one_each;
    arg_u32 pad;
};

// transformers' DeepseekV3TopkRouter, DeepseekV2TopkRouter and Glm4MoeLiteTopkRouter; Qwen3Next's and Qwen3.5's are
// softmax, one group, norm_topk_prob, factor 1; Kimi-Linear's is DeepseekV3's.
// score = sigmoid(logit), or softmax over all experts; choice = score + bias where there is a bias, else what orders
// the experts alike: the sigmoid, or with softmax the logit itself (which keeps apart what softmax rounds to 0). A
// group's score is the sum of its two best choices (noaux) or its best one; the topk_group best groups stay, the
// others' choices count as minus infinity; the top_k best choices are the experts, in descending order (ties: the lower
// index). Weights are the scores (unbiased), divided by their sum + 1e-20 when norm_topk_prob, times
// routed_scaling_factor.
enum router_scoring { ROUTER_SIGMOID = 0, ROUTER_SOFTMAX = 1 };
enum topk_method { TOPK_GREEDY = 0, TOPK_GROUP_LIMITED = 1, TOPK_NOAUX = 2 }; // greedy: n_group and topk_group are 1
enum { MOST_ROUTED = 2048 };                                                  // experts
struct args_router {
    arg_u64 bias; // byte offset of float32 [n_experts]
    arg_u32 n_rows;
    arg_u32 n_experts;
    arg_u32 n_group;
    arg_u32 topk_group;
    arg_u32 top_k;
    arg_u32 norm_topk_prob;
    arg_u32 scoring;
    arg_u32 topk_method;
    arg_u32 has_bias; // sigmoid only
    arg_f32 routed_scaling_factor;
    arg_u32 first; // where in ids and weights the choice of row 0 goes
    arg_u32 pad;
};

// The routed half of a layer of one token, where the experts lie as args_places by_id says: rmsnorm of the row
// `out`, the router's logits and its choice, gate and up of the chosen experts and of the shared one, if its kind is
// not KIND_NONE, and the sum of all down projections, added to that row: what norm_matvecs, router, swiglu_experts and
// add_experts do one after the other. With a shared_factor, of one row, the shared expert's activations are times the
// sigmoid of its product. choice.n_rows is 1; ids and weights are written from choice.first on.
struct args_moe_token {
    struct args_matrix router;
    struct args_matrix gate;
    struct args_matrix up;
    struct args_matrix down;
    struct args_matrix shared_gate; // the three in one buffer, and shared_down in another
    struct args_matrix shared_up;
    struct args_matrix shared_down;
    struct args_matrix shared_factor; // KIND_NONE: the shared expert counts as it is
    struct args_router choice;
    arg_u64 norm;
    arg_u64 base; // of the experts
    arg_u64 stride;
    arg_u32 shared_offset; // in the activations, behind top_k rows of the experts'
    arg_u32 plus_one;
    arg_f32 eps;
    arg_u32 met;      // the launcher's: how many groups had met before
    arg_u32 meetings; // the same: to meet so often is all there is to do
    arg_f32 limit;
    arg_f32 situ_beta;
    arg_u32 pad;
};

// What stands before and behind a token's attention over latent rows. mla_in: rmsnorm of x, q and kv = their matrices
// times it, or, where q_last is there, q_first's product by way of q_last's: rmsnorm of that, then q_last; then
// kv_append and q_prime, which have these rows. mla_out: attention_decode, heads (of `values`) and out += o times
// these.
struct args_mla_in {
    struct args_matrix q_first;
    struct args_matrix q_last; // KIND_NONE: there is none
    struct args_matrix kv_a;
    struct args_kv_append append;
    struct args_kv_b absorb;
    arg_u64 norm;
    arg_u64 lora_norm;
    arg_f32 eps;
    arg_f32 lora_eps;
    arg_u32 plus_one; // of norm
    arg_u32 turned;   // absorb's matrix is embed_q: heads, of kv_lora_rank rows each, as wide as its keys
    arg_u32 met;      // these two as in args_moe_token
    arg_u32 meetings;
};
struct args_mla_out {
    struct args_attention attention;
    arg_u32 met; // these two as in args_moe_token
    arg_u32 meetings;
    struct args_heads values;
    struct args_matrix o;
};

// gather:      out[r][:] = x[index[first + r]][:]
// scatter_add: out[index[first + r]][:] += weight[first + r] * y[row + r][:], in the order of r. Several may have one
//              index: chain[k] are the places in `index` of the last one before k with the same, and of the next behind
//              it, or NO_PLACE.
#define NO_PLACE 0xffffffffu
struct args_gather {
    arg_u32 n_rows;
    arg_u32 dim;
    arg_u32 first;
    arg_u32 row;
};

// out[:] += sum over rank = 0 .. n_partials - 1, in that order, of weight[first_weight + rank] * partial[rank][:], by
// fma.
struct args_combine {
    arg_u32 n_partials;
    arg_u32 dim;
    arg_u32 first_weight;
    arg_u32 pad;
};

// combine, and rmsnorm of what came of it: then y[:] = out / sqrt(mean(out^2) + eps) * norm (float32).
struct args_combine_norm {
    arg_u64 norm; // byte offset
    arg_u32 n_partials;
    arg_u32 dim;
    arg_u32 first_weight;
    arg_f32 eps;
    arg_u32 plus_one;
    arg_u32 pad;
};

// Hyper-connections: HYPER_STREAMS residual streams X_i a token, dim wide, side by side in a row (transformers:
// Glm5NextTextHyperConnection, of mHC). Rows of all buffers count from 0 on and lie next to each other.
// hyper_mix: what a sublayer reads, and a row of HYPER_PARTS, post [4] and comb [4][4], by which its answer and the
// streams will be mixed. With l = logits / sqrt(mean X^2 + norm_eps), logits being fn . X of all streams side by side:
//   y = sum over i of (sigmoid(l_i scale_0 + base_i) + eps) X_i
//   post_i = 2 sigmoid(l_(4 + i) scale_1 + base_(4 + i))
//   comb = softmax over j of l_(8 + 4 i + j) scale_2 + base_(8 + 4 i + j), + eps; columns divided by their sums + eps;
//   then `steps` times rows and columns so (hc_sinkhorn_iters - 1)
// hyper_spread: row `to` + r of `to` becomes X'_j = post_j out + sum over i of comb[i][j] X_i, of row `first` + r of
// all others, and that row of out 0, unless `keep`. With `begins` there are no streams yet: X'_j = out. `to` may be
// `from`. hyper_mean: the same, y = mean over j of X'_j, and out stays.
enum { HYPER_STREAMS = 4, HYPER_SCALES = 3, HYPER_LOGITS = 24, HYPER_PARTS = 20, MOST_HYPER_DIM = 1 << 20 };
struct args_hyper_mix {
    arg_u64 base;  // byte offset of float32 [HYPER_LOGITS]
    arg_u64 scale; // byte offset of float32 [HYPER_SCALES]
    arg_u32 n_rows;
    arg_u32 dim;
    arg_u32 first;
    arg_u32 steps;
    arg_f32 norm_eps;
    arg_f32 eps;
};
struct args_hyper_spread {
    arg_u32 n_rows;
    arg_u32 dim;
    arg_u32 first;
    arg_u32 to;
    arg_u32 begins;
    arg_u32 keep;
};

// Attention residuals (Kimi K3): with u_j the n entries of a row's bank and, last, its x, each dim wide,
//   y = sum over j of softmax_j(s_j) u_j, s_j = (u_j . (norm * proj)) / sqrt(mean u_j^2 + eps)
// of rows `first` + r of x and bank, into rows `to` + r of y. A row of the bank has room for `most`. With `appends` x
// becomes entry n then, and 0 itself.
enum { MOST_BANK = 32, MOST_BANK_DIM = 1 << 20 };
struct args_bank_mix {
    arg_u64 norm; // byte offsets of float32 [dim]
    arg_u64 proj;
    arg_u32 n_rows;
    arg_u32 dim;
    arg_u32 first;
    arg_u32 to;
    arg_u32 n;
    arg_u32 most;
    arg_u32 appends;
    arg_f32 eps;
};

// y[first .. first + n) = 0.
struct args_clear {
    arg_u64 first;
    arg_u64 n;
};

// dst[0..bytes) = src[0..bytes), bytes a multiple of 64: the ceiling that benchmarks compare with.
struct args_copy {
    arg_u64 bytes;
};

#endif
