// SPDX-License-Identifier: GPL-3.0-or-later
// What the ops on each number by itself, and on matrices, ask for before they touch memory.
#include "tests/ops/refusals.h"

// ---- Each number by itself ----
static void embed(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_embed bad[7], a = {.table = plain_matrix(4, 3), .n_rows = 2};
    (void)kv_type;
    ALL_ARE(bad, a);
    bad[1].n_rows = 0, bad[2].table.in_dim = 31, bad[3].table.kind = KIND_COUNT, bad[4].table.kind = KIND_NONE;
    bad[5].table.weight = 2, bad[6].table.out_dim = 0;
    gpu_op_embed(g, &bad[how], b[0], b[1], b[2]);
}

static void rmsnorm(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_rmsnorm bad[6], a = {8, 2, 5, 7, 3, 6, 1, 1e-5f, 0};
    (void)kv_type;
    ALL_ARE(bad, a);
    bad[1].n_rows = 0, bad[2].weight = 6, bad[3].dim = 0, bad[4].in_stride = 4, bad[5].out_stride = 4;
    gpu_op_rmsnorm(g, &bad[how], b[0], b[1], b[2]);
}

static void rope(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_rope bad[7], a = {.n_rows = 2,
                                  .n_heads = 2,
                                  .row_stride = 20,
                                  .head_stride = 8,
                                  .offset = 1,
                                  .rope_dim = 6,
                                  .position = 3,
                                  .scale = 1};
    (void)kv_type;
    ALL_ARE(bad, a);
    bad[1].n_rows = 0, bad[2].n_heads = 0, bad[3].rope_dim = 0, bad[4].rope_dim = 5, bad[5].head_stride = 5;
    bad[6].row_stride = 13;
    gpu_op_rope(g, &bad[how], b[0], b[1]);
}

static void kv_append(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_kv_append bad[10], a = {.norm = 4,
                                        .n_rows = 2,
                                        .kv_lora_rank = 5,
                                        .rope_dim = 4,
                                        .in_stride = 10,
                                        .position = 1,
                                        .kv_type = kv_type,
                                        .eps = 1e-5f,
                                        .scale = 1,
                                        .n_heads = 2,
                                        .q_row_stride = 16,
                                        .q_head_stride = 7,
                                        .q_offset = 3};
    ALL_ARE(bad, a);
    bad[1].n_rows = 0, bad[2].kv_lora_rank = 0, bad[3].kv_type = 2, bad[4].rope_dim = 3, bad[5].rope_dim = 0;
    bad[6].norm = 2, bad[7].in_stride = 8, bad[8].q_head_stride = 3;
    gpu_op_kv_append(g, &bad[how], &(struct gpu_kv_append_bufs){b[0], b[1], b[2], b[3], how == 9 ? b[2] : b[4]});
}

static void least_kv_append(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_kv_append a = {.n_rows = 1, .kv_lora_rank = 1, .no_rope = 1, .eps = 1e-5f};
    (void)how, (void)kv_type;
    gpu_op_kv_append(g, &a, &(struct gpu_kv_append_bufs){b[0], NULL, b[1], b[2], NULL});
}

static void gather(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_gather bad[] = {{3, 5, 2, 0}, {0, 5, 2, 0}, {3, 0, 2, 0}};
    (void)kv_type;
    gpu_op_gather(g, &bad[how], b[0], b[1], b[2]);
}

static void scatter_add(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_gather bad[] = {{2, 5, 1, 1}, {0, 5, 1, 1}, {2, 0, 1, 1}};
    (void)kv_type;
    gpu_op_scatter_add(g, &bad[how], &(struct gpu_scatter_bufs){b[0], b[1], b[2], b[3], b[4]});
}

static void combine(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_combine bad[] = {{3, 5, 2, 0}, {0, 5, 2, 0}, {3, 0, 2, 0}};
    (void)kv_type;
    gpu_op_combine(g, &bad[how], b[0], b[1], b[2]);
}

static void combine_norm(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_combine_norm bad[] = {{.norm = 4, .n_partials = 3, .dim = 5, .first_weight = 2, .eps = 1e-5f},
                                      {.norm = 4, .dim = 5, .first_weight = 2},
                                      {.norm = 4, .n_partials = 3, .first_weight = 2},
                                      {.norm = 2, .n_partials = 3, .dim = 5, .first_weight = 2}};
    (void)kv_type;
    gpu_op_combine_norm(g, &bad[how], &(struct gpu_combine_bufs){b[0], b[1], b[2], b[3], b[4]});
}

static void clear(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_clear bad[] = {{2, 5}, {2, 0}, {2, UINT64_MAX / 4}};
    (void)kv_type;
    gpu_op_clear(g, &bad[how], b[0]);
}

static void copy(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_copy bad[] = {{128}, {0}, {100}};
    (void)kv_type;
    gpu_op_copy(g, &bad[how], b[0], b[1]);
}

static void router(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_router bad[13], a = {.bias = 4,
                                     .n_rows = 2,
                                     .n_experts = 6,
                                     .n_group = 2,
                                     .topk_group = 1,
                                     .top_k = 2,
                                     .topk_method = TOPK_NOAUX,
                                     .has_bias = 1,
                                     .routed_scaling_factor = 1,
                                     .first = 3};
    (void)kv_type;
    ALL_ARE(bad, a);
    bad[1].n_rows = 0, bad[2].n_experts = 5, bad[3].n_group = 0, bad[4].topk_group = 0, bad[5].topk_group = 3;
    bad[6].top_k = 0, bad[7].top_k = 4, bad[8].scoring = 2, bad[9].topk_method = 3, bad[10].scoring = ROUTER_SOFTMAX;
    bad[11].bias = 2, bad[12].n_experts = MOST_ROUTED + 2;
    gpu_op_router(g, &bad[how], &(struct gpu_router_bufs){b[0], b[1], b[2], b[3]});
}

// ---- Matrices ----
static void matvec(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_matmul bad[6], a = {.matrix = plain_matrix(4, 3), .n_rows = 1, .in_offset = 2, .out_offset = 1};
    (void)kv_type;
    ALL_ARE(bad, a);
    bad[1].n_rows = 2, bad[2].n_rows = 0, bad[3].matrix.kind = KIND_NONE, bad[4].matrix.in_dim = 33;
    bad[5].matrix.weight = 2;
    gpu_op_matvec(g, &bad[how], b[0], b[1], b[2]);
}

static void norm_matvecs(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_norm_matvecs bad[6], a = {.matrix = {plain_matrix(0, 3), plain_matrix(0, 2)},
                                          .norm = 4,
                                          .n = 2,
                                          .in_offset = 1,
                                          .normed_offset = 2,
                                          .out_offset = {1, 0},
                                          .eps = 1e-5f};
    (void)kv_type;
    ALL_ARE(bad, a);
    bad[1].n = 0, bad[2].n = MOST_BESIDE + 1, bad[3].matrix[1].in_dim = 64, bad[4].norm = 2;
    gpu_op_norm_matvecs(
        g, &bad[how], &(struct gpu_norm_matvecs_bufs){b[0], b[1], how == 5 ? b[1] : b[2], {b[3], b[4]}, {b[5], b[6]}});
}

static void swiglu_vec(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_swiglu bad[5],
        a = {.gate = plain_matrix(0, 3), .up = plain_matrix(384, 3), .n_rows = 1, .in_offset = 2, .out_offset = 1};
    (void)kv_type;
    ALL_ARE(bad, a);
    bad[1].n_rows = 2, bad[2].up.out_dim = 2, bad[3].gate.kind = KIND_NONE, bad[4].up.kind = KIND_NONE;
    gpu_op_swiglu_vec(g, &bad[how], b[0], b[1], b[2]);
}

static void matmul(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_matmul bad[5], a = {.matrix = plain_matrix(0, 3),
                                    .n_rows = 2,
                                    .in_stride = 40,
                                    .in_offset = 2,
                                    .out_stride = 5,
                                    .out_offset = 1};
    (void)kv_type;
    ALL_ARE(bad, a);
    bad[1].n_rows = 0, bad[2].in_stride = 31, bad[3].out_stride = 2, bad[4].matrix.kind = KIND_NONE;
    gpu_op_matmul(g, &bad[how], b[0], b[1], b[2]);
}

static void matmul_each(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_matmul two[MOST_EACH + 1] = {
        {.matrix = plain_matrix(0, 3), .n_rows = 2, .in_stride = 40, .out_stride = 5}};
    uint32_t n = how == 1 ? 0 : how == 2 ? MOST_EACH + 1 : 2;
    (void)kv_type;
    for (int i = 1; i <= MOST_EACH; i++)
        two[i] = two[0];
    two[1].matrix.weight = 384, two[1].n_rows = how == 3 ? 0 : 1, two[1].in_offset = 80, two[1].out_offset = 12;
    two[1].in_stride += how == 4, two[1].out_stride += how == 5, two[1].add = how == 6;
    two[1].matrix.out_dim -= how == 7;
    gpu_op_matmul_each(g, two, n, &(struct gpu_product_bufs){b[0], b[1], b[2], NULL});
}

static void swiglu_mat(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_swiglu bad[6], a = {.gate = plain_matrix(0, 3),
                                    .up = plain_matrix(384, 3),
                                    .n_rows = 2,
                                    .in_stride = 40,
                                    .in_offset = 2,
                                    .out_stride = 5,
                                    .out_offset = 1};
    (void)kv_type;
    ALL_ARE(bad, a);
    bad[1].n_rows = 0, bad[2].up.out_dim = 2, bad[3].indexed = 1, bad[4].in_stride = 31, bad[5].out_stride = 2;
    gpu_op_swiglu_mat(g, &bad[how], b[0], b[1], b[2]);
}

static void swiglu_each(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_swiglu two[MOST_EACH + 1] = {
        {.gate = plain_matrix(0, 3), .up = plain_matrix(384, 3), .n_rows = 2, .in_stride = 40, .out_stride = 5}};
    uint32_t n = how == 1 ? 0 : how == 2 ? MOST_EACH + 1 : 2;
    (void)kv_type;
    for (int i = 1; i <= MOST_EACH; i++)
        two[i] = two[0];
    two[1].gate.weight = 768, two[1].up.weight = how == 3 ? 1156 : 1152, two[1].n_rows = how == 4 ? 0 : 1;
    two[1].in_offset = 80, two[1].out_offset = 12, two[1].in_stride += how == 5, two[1].out_stride += how == 6;
    two[1].limit = how == 7, two[1].situ_beta = how == 8;
    gpu_op_swiglu_each(g, two, n, &(struct gpu_product_bufs){b[0], b[1], b[2], NULL});
}

// Two experts, said by the host or, with by_id, by the device.
static struct args_places places(bool by_id)
{
    return (struct args_places){.place = {0, 768},
                                .base = 0,
                                .stride = 772,
                                .rank = {0, 1},
                                .n = 2,
                                .by_id = by_id,
                                .first_id = 1,
                                .n_experts = 2};
}

static void swiglu_experts_of(gpu *g, gpu_buf *const *b, unsigned how, bool by_id)
{
    struct args_swiglu_experts bad[14], a = {.gate = plain_matrix(0, 3),
                                             .up = plain_matrix(384, 3),
                                             .shared_gate = plain_matrix(0, 2),
                                             .shared_up = plain_matrix(256, 2),
                                             .at = places(by_id),
                                             .in_offset = 1,
                                             .out_stride = 4,
                                             .shared_offset = 8,
                                             .is_gated = 1};
    ALL_ARE(bad, a);
    bad[1].at.n = 0, bad[2].gate.kind = KIND_NONE, bad[3].up.kind = KIND_NONE, bad[4].up.out_dim = 2;
    bad[5].gate.weight = 2, bad[6].shared_up.out_dim = 1, bad[7].shared_gate.in_dim = bad[7].shared_up.in_dim = 64;
    bad[8].shared_gate.kind = KIND_NONE, bad[9].out_stride = 2, bad[11].at.n = MOST_EXPERTS + 1;
    bad[12].at.place[1] = 766, bad[13].shared_up.kind = KIND_NONE;
    if (by_id)
        bad[11].at.n_experts = 0, bad[12].at.stride = 766, bad[13].at.base = 2;
    gpu_op_swiglu_experts(
        g, &bad[how], &(struct gpu_experts_bufs){b[0], by_id ? b[5] : NULL, b[1], b[2], b[3], how == 10 ? b[2] : b[4]});
}

static void swiglu_experts(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    (void)kv_type;
    swiglu_experts_of(g, b, how, false);
}

static void swiglu_experts_by_id(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    (void)kv_type;
    swiglu_experts_of(g, b, how, true);
}

static void matvec_experts(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_matvec_experts bad[7],
        a = {.matrix = plain_matrix(0, 3), .at = places(false), .in_stride = 33, .in_offset = 1, .out_stride = 4};
    (void)kv_type;
    ALL_ARE(bad, a);
    bad[1].at.n = 0, bad[2].matrix.kind = KIND_NONE, bad[3].at.n = MOST_EXPERTS + 1, bad[4].at.place[1] = 766;
    bad[5].in_stride = 31, bad[6].out_stride = 2;
    gpu_op_matvec_experts(g, &bad[how], &(struct gpu_experts_bufs){b[0], NULL, b[1], b[2], NULL, NULL});
}

static void add_experts(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_add_experts bad[8], a = {.matrix = plain_matrix(0, 3),
                                         .shared = plain_matrix(4, 3),
                                         .at = places(false),
                                         .in_stride = 33,
                                         .shared_offset = 70,
                                         .first_weight = 1};
    (void)kv_type;
    ALL_ARE(bad, a);
    bad[1].at.n = 0, bad[2].matrix.kind = KIND_NONE, bad[3].at.n = MOST_EXPERTS + 1, bad[4].at.place[1] = 766;
    bad[5].at.rank[0] = 1, bad[6].shared.out_dim = 2, bad[7].shared.weight = 2;
    gpu_op_add_experts(g, &bad[how],
                       &(struct gpu_add_experts_bufs){{b[0], NULL, b[1], NULL, b[2], NULL}, b[3], b[4], b[5]});
}

static void add_experts_alone(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type)
{
    struct args_add_experts a = {.matrix = plain_matrix(0, 1), .at = places(false), .in_stride = 33};
    (void)how, (void)kv_type;
    gpu_op_add_experts(g, &a, &(struct gpu_add_experts_bufs){{b[0], NULL, b[1], NULL, NULL, NULL}, b[2], b[3], b[4]});
}

static struct asked_list asked(void)
{
    static const struct asked all[] = {
        {"embed", embed, {388, FLOATS(2), FLOATS(64)}, 1, 5, 2, 0},
        {"rmsnorm", rmsnorm, {28, FLOATS(15), FLOATS(12)}, 1, 4, 0, 0},
        {"rope", rope, {12, FLOATS(35)}, 2, 4, 0, 0},
        {"kv_append", kv_append, {24, 8, FLOATS(19), FLOATS(27), FLOATS(30)}, 1, 8, 0, KV_F32},
        {"kv_append", kv_append, {24, 8, FLOATS(19), 2 * 27, FLOATS(30)}, 1, 8, 0, KV_F16},
        {"kv_append", least_kv_append, {4, 4, 4}, 0, 0, 0, 0},
        {"gather", gather, {FLOATS(5), FLOATS(5), FLOATS(15)}, 2, 0, 2, 0},
        {"scatter_add", scatter_add, {FLOATS(15), FLOATS(3), FLOATS(3), FLOATS(6), FLOATS(5)}, 2, 0, 2, 0},
        {"combine", combine, {FLOATS(15), FLOATS(5), FLOATS(5)}, 2, 0, 0, 0},
        {"combine_norm", combine_norm, {FLOATS(15), FLOATS(5), FLOATS(5), 24, FLOATS(5)}, 2, 1, 0, 0},
        {"clear", clear, {FLOATS(7)}, 1, 1, 0, 0},
        {"copy", copy, {128, 128}, 1, 1, 0, 0},
        {"router", router, {FLOATS(12), 28, FLOATS(7), FLOATS(7)}, 1, 11, 0, 0},
        {"matvec", matvec, {388, FLOATS(34), FLOATS(4)}, 0, 5, 0, 0},
        {"norm_matvecs", norm_matvecs, {132, FLOATS(33), FLOATS(34), 384, 256, FLOATS(4), FLOATS(2)}, 0, 5, 0, 0},
        {"swiglu_vec", swiglu_vec, {768, FLOATS(34), FLOATS(4)}, 0, 4, 0, 0},
        {"matmul", matmul, {384, FLOATS(74), FLOATS(9)}, 1, 3, 0, 0},
        {"matmul", matmul_each, {768, FLOATS(112), FLOATS(15)}, 0, 7, 0, 0},
        {"swiglu_mat", swiglu_mat, {768, FLOATS(74), FLOATS(9)}, 1, 4, 0, 0},
        {"swiglu_mat", swiglu_each, {1536, FLOATS(112), FLOATS(15)}, 0, 8, 0, 0},
        {"swiglu_experts", swiglu_experts, {1536, FLOATS(33), FLOATS(10), 512, 4}, 1, 12, 0, 0},
        {"swiglu_experts", swiglu_experts_by_id, {1544, FLOATS(33), FLOATS(10), 512, 4, FLOATS(3)}, 1, 12, 32, 0},
        {"matvec_experts", matvec_experts, {1152, FLOATS(66), FLOATS(7)}, 1, 5, 0, 0},
        {"add_experts", add_experts, {1152, FLOATS(102), 388, FLOATS(3), FLOATS(9), FLOATS(3)}, 1, 6, 0, 0},
        {"add_experts", add_experts_alone, {896, FLOATS(65), FLOATS(2), FLOATS(2), FLOATS(1)}, 0, 0, 0, 0},
    };
    return (struct asked_list){all, sizeof all / sizeof *all};
}

static uint64_t launches_wanted(void)
{
    return 0xf4e7e114f7035bab;
}

int main(int argc, char **argv)
{
    return HARNESS_RUN(refusals, argc, argv);
}
