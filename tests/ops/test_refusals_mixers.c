// SPDX-License-Identifier: GPL-3.0-or-later
// What the ops that mix tokens ask for before they touch memory: attention, indexers, delta nets, streams and banks.
#include "tests/ops/refusals.h"

// ---- Latent attention ----
static void q_prime(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_kv_b bad[9], a = {.kv_b = plain_matrix(0, 10),
                                  .n_rows = 2,
                                  .n_heads = 2,
                                  .qk_nope_head_dim = 3,
                                  .v_head_dim = 2,
                                  .q_row_stride = 12,
                                  .q_head_stride = 4};
    (void)kv_type;
    ALL_ARE(bad, a);
    bad[1].n_rows = 0, bad[2].decode = 1, bad[3].n_heads = 0, bad[4].v_head_dim = 3, bad[5].q_head_stride = 2;
    bad[6].qk_nope_head_dim = 0, bad[6].v_head_dim = 5, bad[7].v_head_dim = 0, bad[7].qk_nope_head_dim = 5;
    bad[7].q_head_stride = 5, bad[8].q_row_stride = 6;
    gpu_op_q_prime(g, &bad[how], b[0], b[1], b[2]);
}

static void heads(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_heads bad[9], a = {.matrix = plain_matrix(0, 10),
                                   .n_rows = 2,
                                   .n_heads = 2,
                                   .n_out = 2,
                                   .head_rows = 5,
                                   .first_row = 3,
                                   .row_stride = 70,
                                   .head_stride = 33};
    (void)kv_type;
    ALL_ARE(bad, a);
    bad[1].n_rows = 0, bad[2].decode = 1, bad[3].n_heads = 0, bad[4].n_out = 0, bad[5].first_row = 4;
    bad[6].head_rows = 6, bad[7].head_stride = 31, bad[8].row_stride = 64;
    gpu_op_heads(g, &bad[how], b[0], b[1], b[2]);
}

static struct args_attention attention(uint32_t kv_type)
{
    return (struct args_attention){.n_rows = 2,
                                   .n_heads = 2,
                                   .kv_lora_rank = 32,
                                   .rope_dim = 4,
                                   .q_row_stride = 12,
                                   .q_head_stride = 5,
                                   .q_rope_offset = 1,
                                   .position = 1,
                                   .kv_type = kv_type,
                                   .first_row = 1,
                                   .softmax_scale = 1};
}

static void attention_prefill(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_attention bad[8];
    ALL_ARE(bad, attention(kv_type));
    bad[1].n_rows = 0, bad[2].n_heads = 0, bad[3].kv_lora_rank = 0, bad[4].kv_lora_rank = 33, bad[5].kv_type = 2;
    bad[6].q_head_stride = 3, bad[7].q_row_stride = 8;
    gpu_op_attention_prefill(g, &bad[how], &(struct gpu_attention_bufs){b[0], b[1], b[2], b[3], NULL});
}

static void attention_listed(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_attention a = attention(kv_type);
    a.n_listed = 1, a.first_listed = 2, a.pool = 3;
    (void)how;
    gpu_op_attention_prefill(g, &a, &(struct gpu_attention_bufs){b[0], b[1], b[2], b[3], b[4]});
}

static void attention_decode(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_attention a = attention(kv_type);
    a.n_rows = how ? how + 1 : 1, a.first_row = 0;
    gpu_op_attention_decode(g, &a, &(struct gpu_attention_bufs){b[0], b[1], b[2], b[3], NULL});
}

// ---- An indexer ----
static void index_append(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_index_append bad[10], a = {.norm = 4,
                                           .bias = 8,
                                           .n_rows = 2,
                                           .dim = 8,
                                           .rope_dim = 4,
                                           .in_stride = 12,
                                           .in_offset = 1,
                                           .position = 1,
                                           .kv_type = kv_type,
                                           .eps = 1e-5f,
                                           .scale = 1,
                                           .n_behind = 2};
    ALL_ARE(bad, a);
    bad[1].n_rows = 0, bad[2].dim = 4, bad[3].dim = 136, bad[3].in_stride = 138, bad[4].kv_type = 2;
    bad[5].rope_dim = 3, bad[6].rope_dim = 10, bad[7].norm = 2, bad[8].bias = 2, bad[9].in_stride = 9;
    gpu_op_index_append(g, &bad[how], &(struct gpu_index_append_bufs){b[0], b[1], b[2], b[3], b[4]});
}

static void index_pool(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_index_pool bad[7], a = {.ape = 4, .n_rows = 3, .dim = 8, .pool = 4, .position = 2, .kv_type = kv_type};
    ALL_ARE(bad, a);
    bad[1].n_rows = 0, bad[2].pool = 0, bad[3].pool = 3, bad[4].dim = 12, bad[5].kv_type = 2, bad[6].ape = 2;
    gpu_op_index_pool(g, &bad[how], b[0], b[1], b[2]);
}

static void index_scores(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_index_scores bad[9], a = {.n_rows = 2,
                                          .n_heads = 2,
                                          .dim = 8,
                                          .q_stride = 20,
                                          .q_offset = 1,
                                          .weight_stride = 3,
                                          .weight_offset = 1,
                                          .position = 1,
                                          .kv_type = kv_type,
                                          .out_stride = 4,
                                          .scale = 1};
    ALL_ARE(bad, a);
    bad[1].n_rows = 0, bad[2].pool = 8, bad[3].dim = 4, bad[4].n_heads = 0, bad[5].kv_type = 2, bad[6].q_stride = 15;
    bad[7].weight_stride = 1, bad[8].out_stride = 2;
    gpu_op_index_scores(g, &bad[how], &(struct gpu_index_scores_bufs){b[0], b[1], b[2], b[3]});
}

static void index_choice(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_index_choice bad[] = {{2, 2, 1, 4, 1, 0},   {0, 2, 1, 4, 1, 0}, {2, 0, 1, 4, 1, 0},
                                      {2, 3, 1, 4, 1, 0},   {2, 2, 1, 2, 1, 0}, {2, 1, 300, 400, 1, 129},
                                      {2, 1, 129, 0, 1, 65}};
    (void)kv_type;
    gpu_op_index_choice(g, &bad[how], b[0], b[1]);
}

static void index_choice_of_pools(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_index_choice bad[] = {{2, 1, 2, 2, 1, 2}, {2, 1, 0, 2, 1, 2}}; // of row 0 no pool is complete
    (void)kv_type;
    gpu_op_index_choice(g, &bad[how], b[0], b[1]);
}

// ---- Other mixers ----
static void gqa_append(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_gqa_append bad[14], a = {.q_norm = 4,
                                         .k_norm = 8,
                                         .n_rows = 2,
                                         .n_heads = 4,
                                         .n_kv_heads = 2,
                                         .head_dim = 8,
                                         .rope_offset = 2,
                                         .rope_dim = 4,
                                         .q_stride = 40,
                                         .q_head_stride = 9,
                                         .q_offset = 1,
                                         .kv_stride = 40,
                                         .k_offset = 1,
                                         .v_offset = 20,
                                         .position = 1,
                                         .kv_type = kv_type,
                                         .eps = 1e-5f,
                                         .scale = 1};
    ALL_ARE(bad, a);
    bad[1].n_rows = 0, bad[2].n_heads = 0, bad[3].n_kv_heads = 0, bad[4].n_kv_heads = 5, bad[5].head_dim = 12;
    bad[5].q_head_stride = 12, bad[5].q_stride = 100, bad[6].head_dim = 264, bad[6].q_head_stride = 264;
    bad[6].q_stride = bad[6].kv_stride = 1100, bad[7].kv_type = 2, bad[8].rope_dim = 3, bad[9].rope_offset = 5;
    bad[10].q_norm = 2, bad[11].k_norm = 2, bad[12].q_head_stride = 7, bad[13].kv_stride = 15;
    gpu_op_gqa_append(g, &bad[how], &(struct gpu_gqa_append_bufs){b[0], b[1], b[2], b[3], b[4], b[5]});
}

static struct args_gqa gqa(uint32_t kv_type)
{
    return (struct args_gqa){.n_rows = 2,
                             .n_heads = 4,
                             .n_kv_heads = 2,
                             .head_dim = 8,
                             .q_stride = 40,
                             .q_head_stride = 9,
                             .q_offset = 1,
                             .position = 1,
                             .kv_type = kv_type,
                             .softmax_scale = 1};
}

static void gqa_prefill(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_gqa bad[8];
    ALL_ARE(bad, gqa(kv_type));
    bad[1].n_rows = 0, bad[2].n_heads = 0, bad[3].n_kv_heads = 3, bad[4].head_dim = 4, bad[5].kv_type = 2;
    bad[6].q_head_stride = 7, bad[7].q_stride = 34;
    gpu_op_gqa_prefill(g, &bad[how], &(struct gpu_gqa_bufs){b[0], b[1], b[2]});
}

static void gqa_decode(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_gqa a = gqa(kv_type);
    a.n_rows = how ? how + 1 : 1;
    gpu_op_gqa_decode(g, &a, &(struct gpu_gqa_bufs){b[0], b[1], b[2]});
}

static void short_conv(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_short_conv bad[8], a = {.weight = 4,
                                        .from = 2,
                                        .to = 1,
                                        .n_rows = 2,
                                        .channels = 3,
                                        .in_stride = 5,
                                        .in_offset = 1,
                                        .out_stride = 4,
                                        .out_offset = 2};
    (void)kv_type;
    ALL_ARE(bad, a);
    bad[1].n_rows = 0, bad[2].channels = 0, bad[3].weight = 2, bad[4].in_stride = 2, bad[5].out_stride = 2;
    gpu_op_short_conv(g, &bad[how],
                      &(struct gpu_short_conv_bufs){b[0], b[1], b[2], how == 6 ? b[2] : b[3],
                                                    how == 7 ? b[1] : b[4]}); // 6: overlapping in part
}

static void delta(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_delta bad[18], a = {.rate = 4,
                                    .dt_bias = 8,
                                    .from = 1,
                                    .to = 2,
                                    .n_rows = 2,
                                    .n_key_heads = 1,
                                    .n_value_heads = 2,
                                    .key_dim = 4,
                                    .value_dim = 3,
                                    .in_stride = 20,
                                    .k_offset = 4,
                                    .v_offset = 8,
                                    .gate_stride = 6,
                                    .decay_offset = 2,
                                    .out_stride = 7,
                                    .out_offset = 1,
                                    .norm_eps = 1e-6f};
    (void)kv_type;
    ALL_ARE(bad, a);
    bad[1].n_rows = 0, bad[2].n_key_heads = 0, bad[3].n_value_heads = 0, bad[4].n_key_heads = 3, bad[5].key_dim = 0;
    bad[6].key_dim = MOST_KEY_DIM + 1, bad[6].in_stride = 200, bad[7].value_dim = 0, bad[8].decay = 3;
    bad[9].decay = DECAY_CHANNEL_BOUNDED, bad[9].gate_stride = 20, bad[10].rate = 2, bad[11].dt_bias = 2;
    bad[12].in_stride = 5, bad[13].gate_stride = 1, bad[14].out_stride = 5;
    gpu_op_delta(g, &bad[how],
                 &(struct gpu_delta_bufs){b[0], b[1], b[2], b[3], b[4], how == 15 ? b[4] : b[5],
                                          how == 16   ? b[2]
                                          : how == 17 ? b[3]
                                                      : b[6]});
}

static void gated_norm(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_gated_norm bad[9], a = {.weight = 4,
                                        .n_rows = 2,
                                        .n_heads = 2,
                                        .dim = 3,
                                        .in_stride = 7,
                                        .in_offset = 1,
                                        .gate_stride = 8,
                                        .gate_offset = 2,
                                        .out_stride = 6,
                                        .out_offset = 3,
                                        .eps = 1e-5f};
    (void)kv_type;
    ALL_ARE(bad, a);
    bad[1].n_rows = 0, bad[2].n_heads = 0, bad[3].dim = 0, bad[4].act = 2, bad[5].weight = 2, bad[6].in_stride = 5;
    bad[7].gate_stride = 5, bad[8].out_stride = 5;
    gpu_op_gated_norm(g, &bad[how], &(struct gpu_gated_norm_bufs){b[0], b[1], b[2], b[3]});
}

static struct args_gate_product gates(void)
{
    return (struct args_gate_product){.n_rows = 2,
                                      .n_heads = 2,
                                      .dim = 3,
                                      .stride = 7,
                                      .offset = 1,
                                      .gate_stride = 9,
                                      .gate_head_stride = 4,
                                      .gate_offset = 2};
}

static void gate_product(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_gate_product bad[8];
    (void)kv_type;
    ALL_ARE(bad, gates());
    bad[1].n_rows = 0, bad[2].n_heads = 0, bad[3].dim = 0, bad[4].gate_head_stride = 2, bad[5].gate_stride = 6;
    bad[6].stride = 5;
    gpu_op_gate_product(g, &bad[how], how == 7 ? b[1] : b[0], b[1]);
}

static void one_gate_each(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_gate_product a = gates();
    (void)how, (void)kv_type;
    a.one_each = 1;
    gpu_op_gate_product(g, &a, b[0], b[1]);
}

// ---- Streams and banks ----
static void hyper_mix(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_hyper_mix bad[7],
        a = {.base = 4, .scale = 8, .n_rows = 2, .dim = 3, .first = 1, .steps = 2, .norm_eps = 1e-5f, .eps = 1e-6f};
    (void)kv_type;
    ALL_ARE(bad, a);
    bad[1].n_rows = 0, bad[2].dim = 0, bad[3].steps = 1001, bad[4].base = 2, bad[5].scale = 2;
    gpu_op_hyper_mix(g, &bad[how], &(struct gpu_hyper_mix_bufs){b[0], b[1], b[2], b[3], b[4], how == 6 ? b[2] : b[5]});
}

static void hyper_spread(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_hyper_spread bad[] = {
        {.n_rows = 2, .dim = 3, .first = 1, .to = 2}, {.dim = 3}, {.n_rows = 2}, {.n_rows = 2, .dim = 3, .to = 1}};
    (void)kv_type;
    gpu_op_hyper_spread(g, &bad[how], &(struct gpu_hyper_spread_bufs){b[0], b[1], b[2], how == 3 ? b[2] : b[3]});
}

static void hyper_mean(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_hyper_spread bad[] = {{.n_rows = 2, .dim = 3, .first = 1, .to = 2},
                                      {.dim = 3},
                                      {.n_rows = 2},
                                      {.n_rows = 2, .dim = 3},
                                      {.n_rows = 2, .dim = 3}};
    (void)kv_type;
    gpu_op_hyper_mean(g, &bad[how],
                      &(struct gpu_hyper_spread_bufs){b[0], b[1], b[2],
                                                      how == 3   ? b[2]
                                                      : how == 4 ? b[1]
                                                                 : b[3]});
}

static void bank_mix(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_bank_mix bad[9], a = {.norm = 4,
                                      .proj = 8,
                                      .n_rows = 2,
                                      .dim = 3,
                                      .first = 1,
                                      .to = 2,
                                      .n = 1,
                                      .most = 2,
                                      .appends = 1,
                                      .eps = 1e-5f};
    (void)kv_type;
    ALL_ARE(bad, a);
    bad[1].n_rows = 0, bad[2].dim = 0, bad[3].most = MOST_BANK + 1, bad[4].n = 2, bad[5].norm = 2, bad[6].proj = 2;
    gpu_op_bank_mix(g, &bad[how],
                    &(struct gpu_bank_bufs){b[0], b[1], b[2], b[3],
                                            how == 7   ? b[2]
                                            : how == 8 ? b[3]
                                                       : b[4]});
}

static struct asked_list asked(void)
{
    static const struct asked all[] = {
        {"q_prime", q_prime, {1280, FLOATS(19), FLOATS(128)}, 1, 7, 0, 0},
        {"heads", heads, {1280, FLOATS(135), FLOATS(8)}, 1, 7, 0, 0},
        {"attention_prefill", attention_prefill, {FLOATS(192), FLOATS(34), FLOATS(108), FLOATS(192)}, 1, 6, 0, KV_F32},
        {"attention_prefill", attention_prefill, {FLOATS(192), FLOATS(34), 216, FLOATS(192)}, 1, 6, 0, KV_F16},
        {"attention_prefill",
         attention_listed,
         {FLOATS(192), FLOATS(34), FLOATS(108), FLOATS(192), FLOATS(8)},
         0,
         0,
         16,
         KV_F32},
        {"attention_decode", attention_decode, {FLOATS(64), FLOATS(10), FLOATS(72), FLOATS(64)}, 0, 1, 0, KV_F32},
        {"index_append", index_append, {36, 40, 8, FLOATS(23), FLOATS(30)}, 1, 8, 0, KV_F32},
        {"index_append", index_append, {36, 40, 8, FLOATS(23), 60}, 1, 8, 0, KV_F16},
        {"index_pool", index_pool, {132, FLOATS(80), FLOATS(10)}, 1, 5, 0, KV_F32},
        {"index_pool", index_pool, {132, 160, 20}, 1, 5, 0, KV_F16},
        {"index_scores", index_scores, {FLOATS(37), FLOATS(6), FLOATS(24), FLOATS(7)}, 2, 6, 0, KV_F32},
        {"index_scores", index_scores, {FLOATS(37), FLOATS(6), 48, FLOATS(7)}, 2, 6, 0, KV_F16},
        {"index_choice", index_choice, {FLOATS(7), FLOATS(5)}, 1, 5, 0, 0},
        {"index_choice", index_choice_of_pools, {FLOATS(4), FLOATS(7)}, 0, 1, 0, 0},
        {"gqa_append", gqa_append, {36, 40, 8, FLOATS(76), FLOATS(76), FLOATS(96)}, 1, 12, 0, KV_F32},
        {"gqa_append", gqa_append, {36, 40, 8, FLOATS(76), FLOATS(76), 192}, 1, 12, 0, KV_F16},
        {"gqa_prefill", gqa_prefill, {FLOATS(76), FLOATS(96), FLOATS(64)}, 1, 6, 0, KV_F32},
        {"gqa_prefill", gqa_prefill, {FLOATS(76), 192, FLOATS(64)}, 1, 6, 0, KV_F16},
        {"gqa_decode", gqa_decode, {FLOATS(36), FLOATS(64), FLOATS(32)}, 0, 1, 0, KV_F32},
        {"short_conv", short_conv, {52, FLOATS(9), FLOATS(11), FLOATS(10), FLOATS(9)}, 1, 6, 0, 0},
        {"delta", delta, {12, 16, FLOATS(34), FLOATS(10), FLOATS(25), FLOATS(26), FLOATS(14)}, 1, 16, 0, 0},
        {"gated_norm", gated_norm, {16, FLOATS(14), FLOATS(16), FLOATS(15)}, 1, 7, 0, 0},
        {"gate_product", gate_product, {FLOATS(18), FLOATS(14)}, 1, 6, 0, 0},
        {"gate_product", one_gate_each, {FLOATS(16), FLOATS(14)}, 0, 0, 0, 0},
        {"hyper_mix", hyper_mix, {100, 20, FLOATS(36), FLOATS(72), FLOATS(60), FLOATS(9)}, 1, 5, 0, 0},
        {"hyper_spread", hyper_spread, {FLOATS(60), FLOATS(9), FLOATS(36), FLOATS(48)}, 1, 2, 0, 0},
        {"hyper_mean", hyper_mean, {FLOATS(60), FLOATS(9), FLOATS(36), FLOATS(12)}, 1, 3, 0, 0},
        {"bank_mix", bank_mix, {16, 20, FLOATS(9), FLOATS(18), FLOATS(12)}, 1, 7, 0, 0},
    };
    return (struct asked_list){all, sizeof all / sizeof *all};
}

static uint64_t launches_wanted(void)
{
    return 0xf516bd3ddcac9057;
}

int main(int argc, char **argv)
{
    return HARNESS_RUN(refusals, argc, argv);
}
