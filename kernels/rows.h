// SPDX-License-Identifier: GPL-3.0-or-later
// One row for each kernel: the only place that says its name, its arguments, its buffers and its groups. The enum, the
// launcher's table and the probe of layouts are made of it, on the host and on the device.
#ifndef MOECHAT_ROWS_H
#define MOECHAT_ROWS_H

#include "kernels/tiling.h"

// X(ID, name, struct of args.h, its last field, number of buffers, work-items of a group in the CPU and in the GPU
// shape, its uses: programs of single kinds have what their matrices are used for, and a device is made ready for its
// model's mixers). 0 work-items: that shape has no such kernel. matmul_T_O and swiglu_T_O: tiles of 8T tokens by 8O
// outputs.
#define USE_MANY   (USE_PRODUCTS | USE_EXPERTS)
#define USE_NO_MMA 32 // but only where there are no tensor cores
// Where a compiler takes seconds for all of them, programs are built in parts: -DBUILD_PARTS says which (source.c).
#define PART_ELEMENTS     0x1     // what is small, and every model needs
#define PART_VECTORS      0x2     // matvec, norm_matvecs, swiglu_vec
#define PART_EXPERTS      0x4     // swiglu_experts, matvec_experts, add_experts
#define PART_HEADS        0x8     // heads, q_prime, of one row and of many
#define PART_TILES        0x10    // matmul_T_O
#define PART_GATES        0x20    // swiglu_T_O
#define PART_PRODUCTS     0x40    // matmul_mma_T
#define PART_PAIRS        0x80    // swiglu_mma_T
#define PART_TOKEN        0x100   // moe_token
#define PART_TOKEN_LATENT 0x200   // mla_in, mla_out
#define PART_TOKEN_STATES 0x400   // delta_layer
#define PART_LATENT       0x800   // attention_tiles, _merge, _prefill
#define PART_LATENT_MMA   0x1000  // the same with tensor cores
#define PART_PLAIN        0x2000  // attention_plain_mma, and what makes its tiles
#define PART_LISTS        0x4000  // list_
#define PART_GROUPS       0x8000  // gqa_
#define PART_STATES       0x10000 // delta, delta_token, gated_norm, short_conv
#define PART_STREAMS      0x20000 // hyper_, bank_mix
#define PART_INDEX        0x40000 // index_
// clang-format off
#define KERNEL_ROWS(X)                                                                                                 \
    X(EMBED,             embed,             args_embed,          pad,           3, ELEMENTS_GROUP, ELEMENTS_GROUP,    USE_ROWS)             \
    X(RMSNORM,           rmsnorm,           args_rmsnorm,        plus_one,      3, 1,              NORM_LANES,        0)                    \
    X(ROPE,              rope,              args_rope,           pad,           2, 32,             32,                0)                    \
    X(KV_APPEND,         kv_append,         args_kv_append,      q_offset,      5, 1,              NORM_LANES,        USE_LATENT)           \
    X(GATHER,            gather,            args_gather,         row,           3, 1,              ELEMENTS_GROUP,    0)                    \
    X(SCATTER_ADD,       scatter_add,       args_gather,         row,           5, 1,              ELEMENTS_GROUP,    0)                    \
    X(COMBINE,           combine,           args_combine,        pad,           3, ELEMENTS_GROUP, ELEMENTS_GROUP,    0)                    \
    X(COMBINE_NORM,      combine_norm,      args_combine_norm,   pad,           5, 1,              NORM_LANES,        0)                    \
    X(SILU_PRODUCT,      silu_product,      args_silu_product,   situ_beta,     3, ELEMENTS_GROUP, ELEMENTS_GROUP,    0)                    \
    X(CLEAR,             clear,             args_clear,          n,             1, ELEMENTS_GROUP, ELEMENTS_GROUP,    0)                    \
    X(COPY,              copy,              args_copy,           bytes,         2, ELEMENTS_GROUP, ELEMENTS_GROUP,    0)                    \
    X(ROUTER,            router,            args_router,         pad,           4, 1,              ROUTER_LANES,      0)                    \
    X(MATVEC,            matvec,            args_matmul,         add,           4, 1,              TEAM * TEAMS,      USE_PRODUCTS)         \
    X(NORM_MATVECS,      norm_matvecs,      args_norm_matvecs,   plus_one,     12, 1,              TEAM * TEAMS,      USE_PRODUCTS)         \
    X(SWIGLU_VEC,        swiglu_vec,        args_swiglu,         indexed,       4, 1,              TEAM * TEAMS,      USE_PRODUCTS)         \
    X(SWIGLU_EXPERTS,    swiglu_experts,    args_swiglu_experts, is_gated,      7, 1,              TEAM * TEAMS,      USE_EXPERTS)          \
    X(MATVEC_EXPERTS,    matvec_experts,    args_matvec_experts, pad,           5, 1,              TEAM * TEAMS,      USE_EXPERTS)          \
    X(ADD_EXPERTS,       add_experts,       args_add_experts,    pad,           8, 1,              TEAM * TEAMS,      USE_EXPERTS)          \
    X(Q_PRIME,           q_prime,           args_kv_b,           pad,           4, 1,              Q_WORDS * Q_PARTS, USE_KEYS)             \
    X(HEADS,             heads,             args_heads,          decode,        4, 1,              TEAM * TEAMS,      USE_HEADS)            \
    X(PACK,              pack,              args_matmul,         add,           2, 1,              0,                 0)                    \
    X(MATMUL,            matmul,            args_matmul,         add,           3, 1,              0,                 USE_MANY | USE_HEADS) \
    X(SWIGLU_MAT,        swiglu_mat,        args_swiglu,         indexed,       3, 1,              0,                 0)                    \
    X(MATMUL_2_4,        matmul_2_4,        args_matmul_each,    at.out_offset, 3, 0,              MATMUL_ITEMS,      USE_MANY | USE_NO_MMA) \
    X(MATMUL_4_4,        matmul_4_4,        args_matmul_each,    at.out_offset, 3, 0,              MATMUL_ITEMS,      USE_MANY | USE_NO_MMA) \
    X(MATMUL_8_8,        matmul_8_8,        args_matmul_each,    at.out_offset, 3, 0,              MATMUL_ITEMS,      USE_MANY | USE_NO_MMA) \
    X(SWIGLU_2_4,        swiglu_2_4,        args_swiglu_each,    at.out_offset, 3, 0,              MATMUL_ITEMS,      0)                    \
    X(SWIGLU_4_4,        swiglu_4_4,        args_swiglu_each,    at.out_offset, 3, 0,              MATMUL_ITEMS,      0)                    \
    X(SWIGLU_8_8,        swiglu_8_8,        args_swiglu_each,    at.out_offset, 3, 0,              MATMUL_ITEMS,      0)                    \
    X(HEADS_ROWS,        heads_rows,        args_heads,          decode,        3, 0,              MATMUL_ITEMS,      USE_HEADS | USE_NO_MMA) \
    X(Q_PRIME_ROWS,      q_prime_rows,      args_kv_b,           pad,           3, 0,              MATMUL_ITEMS,      USE_KEYS)             \
    X(ATTENTION_TILES,   attention_tiles,   args_attention,      softmax_scale, 4, 1,              128,               USE_LATENT)           \
    X(ATTENTION_MERGE,   attention_merge,   args_attention,      softmax_scale, 2, 1,              ELEMENTS_GROUP,    USE_LATENT)           \
    X(ATTENTION_PREFILL, attention_prefill, args_attention,      softmax_scale, 5, 1,              PREFILL_ITEMS,     USE_LATENT)           \
    X(LIST_TILES,        list_tiles,        args_attention,      softmax_scale, 5, 1,              128,               USE_LISTS)            \
    X(LIST_PREFILL,      list_prefill,      args_attention,      softmax_scale, 6, 1,              PREFILL_ITEMS,     USE_LISTS)            \
    X(INDEX_APPEND,      index_append,      args_index_append,   pad,           5, 1,              HEAD_LANES,        USE_LISTS)            \
    X(INDEX_POOL,        index_pool,        args_index_pool,     pad,           3, 1,              HEAD_LANES,        USE_LISTS)            \
    X(INDEX_SCORES,      index_scores,      args_index_scores,   pool,          5, 1,              INDEX_ITEMS,       USE_LISTS)            \
    X(INDEX_CHOICE,      index_choice,      args_index_choice,   pool,          2, 1,              ELEMENTS_GROUP,    USE_LISTS)            \
    X(INDEX_COUNT,       index_count,       args_index_choice,   pool,          2, 0,              ELEMENTS_GROUP,    USE_LISTS)            \
    X(INDEX_LIST,        index_list,        args_index_choice,   pool,          3, 0,              ELEMENTS_GROUP,    USE_LISTS)            \
    X(GQA_APPEND,        gqa_append,        args_gqa_append,     scale,         6, 1,              HEAD_LANES,        USE_GROUPS)           \
    X(GQA_TILES,         gqa_tiles,         args_gqa,            softmax_scale, 3, 1,              GQA_ITEMS,         USE_GROUPS)           \
    X(GQA_MERGE,         gqa_merge,         args_gqa,            softmax_scale, 2, 1,              0,                 USE_GROUPS)           \
    X(GQA_PREFILL,       gqa_prefill,       args_gqa,            softmax_scale, 4, 1,              GQA_ITEMS,         USE_GROUPS)           \
    X(SHORT_CONV,        short_conv,        args_short_conv,     out_offset,    5, 1,              ELEMENTS_GROUP,    USE_STATES)           \
    X(DELTA,             delta,             args_delta,          pad,           7, 1,              SCAN_ITEMS,        USE_STATES)           \
    X(DELTA_TOKEN,       delta_token,       args_delta_token,    norm,         12, 0,              TOKEN_ITEMS,       USE_STATES)           \
    X(GATED_NORM,        gated_norm,        args_gated_norm,     pad,           4, 1,              HEAD_LANES,        USE_STATES)           \
    X(GATE_PRODUCT,      gate_product,      args_gate_product,   pad,           2, ELEMENTS_GROUP, ELEMENTS_GROUP,    0)                    \
    X(HYPER_MIX,         hyper_mix,         args_hyper_mix,      eps,           6, 1,              NORM_LANES,        USE_HYPER)            \
    X(HYPER_SPREAD,      hyper_spread,      args_hyper_spread,   keep,          4, 1,              ELEMENTS_GROUP,    USE_HYPER)            \
    X(HYPER_MEAN,        hyper_mean,        args_hyper_spread,   keep,          4, 1,              ELEMENTS_GROUP,    USE_HYPER)            \
    X(BANK_MIX,          bank_mix,          args_bank_mix,       eps,           5, 1,              NORM_LANES,        USE_BANK)             \
    MMA_ROWS(X)

// The last ones, for NVIDIA's GPUs with tensor cores; matmul_mma_T and swiglu_mma_T: tiles of T tokens.
#define MMA_ROWS(X)                                                                                                    \
    X(ATTENTION_TILES_MMA,   attention_tiles_mma,   args_attention,   softmax_scale, 4, 0, MMA_ITEMS, USE_LATENT)      \
    X(ATTENTION_PREFILL_MMA, attention_prefill_mma, args_attention,   softmax_scale, 4, 0, MMA_ITEMS, USE_LATENT)      \
    X(LIST_TILES_MMA,        list_tiles_mma,        args_attention,   softmax_scale, 5, 0, MMA_ITEMS, USE_LISTS)       \
    X(LIST_PREFILL_MMA,      list_prefill_mma,      args_attention,   softmax_scale, 5, 0, MMA_ITEMS, USE_LISTS)       \
    X(PLAIN_WEIGHTS,         plain_weights,         args_attention_plain, softmax_scale, 3, 0, PLAIN_ITEMS, USE_LATENT) \
    X(PLAIN_EXPAND,          plain_expand,          args_attention_plain, softmax_scale, 3, 0, PLAIN_MAKER_ITEMS, USE_LATENT) \
    X(ATTENTION_PLAIN_MMA,   attention_plain_mma,   args_attention_plain, softmax_scale, 3, 0, PLAIN_ITEMS, USE_LATENT) \
    X(INDEX_SCORES_MMA,      index_scores_mma,      args_index_scores, pool,         4, 0, INDEX_F16_ITEMS, USE_LISTS) \
    X(INDEX_SCORES_MMA_F32,  index_scores_mma_f32,  args_index_scores, pool,         4, 0, INDEX_MMA_ITEMS, USE_LISTS) \
    X(SPLIT_ROWS,            split_rows,            args_split,       pad,           2, 0, SPLIT_ITEMS, USE_MANY | USE_HEADS) \
    X(MATMUL_MMA_16,         matmul_mma_16,         args_matmul_each, at.out_offset, 3, 0, PRODUCT_ITEMS, USE_MANY) \
    X(MATMUL_MMA_32,         matmul_mma_32,         args_matmul_each, at.out_offset, 3, 0, PRODUCT_ITEMS, USE_MANY) \
    X(MATMUL_MMA_64,         matmul_mma_64,         args_matmul_each, at.out_offset, 3, 0, PRODUCT_ITEMS, USE_MANY) \
    X(SWIGLU_MMA_16,         swiglu_mma_16,         args_swiglu_each, at.out_offset, 4, 0, PRODUCT_ITEMS, USE_MANY) \
    X(SWIGLU_MMA_32,         swiglu_mma_32,         args_swiglu_each, at.out_offset, 4, 0, PRODUCT_ITEMS, USE_MANY) \
    X(SWIGLU_MMA_64,         swiglu_mma_64,         args_swiglu_each, at.out_offset, 4, 0, PRODUCT_ITEMS, USE_MANY) \
    X(HEADS_MMA,             heads_mma,             args_heads,       decode,        3, 0, PRODUCT_ITEMS, USE_HEADS) \
    X(MOE_TOKEN,             moe_token,             args_moe_token,   pad,          15, 0, TOKEN_ITEMS, USE_TOKEN)      \
    X(MLA_IN,                mla_in,                args_mla_in,      meetings,          15, 0, TOKEN_ITEMS, USE_LATENT | USE_TOKEN) \
    X(MLA_OUT,               mla_out,               args_mla_out,     o,             7, 0, TOKEN_ITEMS, USE_LATENT | USE_TOKEN) \
    X(DELTA_LAYER,           delta_layer,           args_delta_layer, meetings,     20, 0, TOKEN_ITEMS, USE_STATES | USE_TOKEN)

// Structs inside of those, and what every kernel takes besides: type and last field.
#define INNER_STRUCTS(X)                                                                                               \
    X(args_matrix, factor)                                                                                             \
    X(args_places, n_experts)                                                                                          \
    X(tiling, n_tiles)
// clang-format on

enum { MAX_KERNEL_BUFFERS = 20 };

// NVIDIA's compiler refuses macros with any number of parameters.
#define ROW_COUNT(id, name, args, last, n_buffers, cpu, gpu, uses) +1
#define INNER_COUNT(type, last)                                    +1
enum { ROWS_COUNT = 0 KERNEL_ROWS(ROW_COUNT), PROBE_COUNT = ROWS_COUNT INNER_STRUCTS(INNER_COUNT) };

#endif
