// SPDX-License-Identifier: GPL-3.0-or-later
// NVIDIA: one token of a layer that keeps a state, in one launch (token.cl): its norm and the products that it begins with;
// each head's convolution, scan and gated norm (delta_token.cl); the last product, added to the stream. The sums of
// norm_matvecs, delta_token and matvec.
#if NVIDIA_MMA && !SHAPE_CPU && !defined(KIND)

enum { DELTA_QKV, DELTA_Z, DELTA_BETA, DELTA_DECAY }; // the order of the products

struct delta_memory {
    __global const uchar *qkv, *z, *beta, *decay; // matrices
    __global float *to_qkv, *to_z, *to_gates;     // what becomes of them; gates are two products'
};

// A task of the products, and where it leaves what.
INLINE __global float *delta_begin(const struct args_norm_matvecs *a, const struct delta_memory *memory, uint number,
                                   struct token_task *task)
{
    uint ends[MOST_BESIDE], blocks = 0;
    UNROLL
    for (uint k = 0; k < MOST_BESIDE; k++)
        ends[k] = blocks += blocks_of(a->matrix[k].out_dim, TOKEN_TEAMS);
    uint last = number >= ends[DELTA_BETA], second = number >= ends[DELTA_Z], third = number >= ends[DELTA_QKV];
    struct args_matrix gate = either_matrix(&a->matrix[DELTA_BETA], &a->matrix[DELTA_DECAY], last);
    struct args_matrix wide = either_matrix(&a->matrix[DELTA_QKV], &a->matrix[DELTA_Z], third);
    struct args_matrix m = either_matrix(&wide, &gate, second);
    uint before = last ? ends[DELTA_BETA] : second ? ends[DELTA_Z] : third ? ends[DELTA_QKV] : 0;
    product_begin(task, &m, 0, m.out_dim, (number - before) * TOKEN_TEAMS,
                  last     ? memory->decay
                  : second ? memory->beta
                  : third  ? memory->z
                           : memory->qkv);
    return last     ? memory->to_gates + a->out_offset[DELTA_DECAY]
           : second ? memory->to_gates + a->out_offset[DELTA_BETA]
           : third  ? memory->to_z + a->out_offset[DELTA_Z]
                    : memory->to_qkv + a->out_offset[DELTA_QKV];
}

#if BUILD_PARTS & PART_TOKEN_STATES
__kernel GROUP_SIZE(TOKEN_ITEMS, 1) void delta_layer(
    const struct args_delta_layer a, const struct tiling t, __global const uchar *in_norms, __global float *x,
    __global const uchar *in_qkv, __global const uchar *in_z, __global const uchar *in_beta,
    __global const uchar *in_decay, __global float *qkv, __global float *z, __global float *gates,
    __global const uchar *taps, __global const uchar *rates, __global const uchar *dt_biases,
    __global const uchar *norms, __global const float *conv_from, __global float *conv_to, __global const float *from,
    __global float *to, __global float *answers, __global const uchar *last, volatile __global uint *meeting)
{
    __local struct staged_space space;
    uint group = get_group_id(0), n_groups = get_num_groups(0);
    meet_often(meeting, a.met, a.meetings);
    if (a.last.in_dim == 0)
        return;
    const struct args_delta *scan = &a.token.scan;
    struct delta_memory memory = {in_qkv, in_z, in_beta, in_decay, qkv, z, gates};
    struct normed_row row = {(__global const float *)(in_norms + a.in.norm), a.in.matrix[0].in_dim, a.in.eps, a.in.plus_one};
    uint tasks = 0;
    UNROLL
    for (uint k = 0; k < MOST_BESIDE; k++)
        tasks += blocks_of(a.in.matrix[k].out_dim, TOKEN_TEAMS);
    struct token_task own;
    token_norm_begin(x + a.in.in_offset, row.dim, &space);
    for (uint task = group; task < tasks || task == group; task += n_groups) {
        __global float *y = delta_begin(&a.in, &memory, min(task, tasks - 1), &own);
        if (task == group)
            token_norm_end(&row, &space);
        if (task < tasks)
            product_end(&own, &space, y);
    }

    // The last groups have the heads, for the first ones have more of the products.
    float4 s[SCAN_ROWS];
    uint first_head = n_groups - 1 - group;
    for (uint head = first_head; head < scan->n_value_heads || head == first_head; head += n_groups) {
        bool is_there = head < scan->n_value_heads;
        if (is_there)
            token_take_state(scan, head, from, s);
        if (head == first_head)
            meet(meeting, a.met + n_groups);
        if (is_there) {
            struct token_job job = token_job_of(&a.token, head, taps, qkv, conv_from, conv_to);
            struct token_load load = token_take_inputs(&job, rates, dt_biases, norms, gates, z);
            token_answer(&job, &load, s, to, answers, (__local struct token_space *)space.x);
            barrier(CLK_LOCAL_MEM_FENCE);
        }
    }
    tasks = blocks_of(a.last.out_dim, TOKEN_TEAMS);
    for (uint task = group; task < tasks || task == group; task += n_groups) {
        product_begin(&own, &a.last, 0, a.last.out_dim, min(task, tasks - 1) * TOKEN_TEAMS, last);
        if (task == group) {
            meet(meeting, a.met + 2 * n_groups);
            token_stage(answers + a.token.norm.out_offset, a.last.in_dim, 1, &space);
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        float sum = token_end(&own.rows, &space);
        if (task < tasks && own.is_there)
            x[a.in.in_offset + own.o] += sum;
    }
}
#endif

#endif
