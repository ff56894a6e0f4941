// SPDX-License-Identifier: GPL-3.0-or-later
// NVIDIA: what stands before and behind a token's attention over latent rows, each in one launch (token.cl).
#if NVIDIA_MMA && !SHAPE_CPU && !defined(KIND)

#if BUILD_PARTS & PART_TOKEN_LATENT
// The norm, beside each other q, or what its way begins with, and the latent; with q_lora its norm and q; then the cache's
// row, the turned heads of q and its absorbed ones. The sums of norm_matvecs, kv_append and q_prime.
__kernel GROUP_SIZE(TOKEN_ITEMS, 1) void mla_in(const struct args_mla_in a, const struct tiling t,
                                                __global const uchar *norms, __global const uchar *lora_norms,
                                                __global const uchar *latent_norms, __global const float *inv_freq,
                                                __global const float *x, __global const uchar *q_first,
                                                __global const uchar *q_last, __global const uchar *kv_a,
                                                __global const uchar *kv_b, __global float *lora, __global float *q,
                                                __global float *kv, __global void *cache, __global float *latent,
                                                volatile __global uint *meeting)
{
    __local struct staged_space space;
    uint group = get_group_id(0), n_groups = get_num_groups(0), met = a.met;
    meet_often(meeting, a.met, a.meetings);
    if (a.kv_a.in_dim == 0)
        return;
    bool has_lora = a.q_last.kind != KIND_NONE;
    uint q_blocks = blocks_of(a.q_first.out_dim, TOKEN_TEAMS), tasks = q_blocks + blocks_of(a.kv_a.out_dim, TOKEN_TEAMS);
    struct normed_row row = {(__global const float *)(norms + a.norm), a.kv_a.in_dim, a.eps, a.plus_one};
    struct token_task own;
    token_norm_begin(x, row.dim, &space);
    for (uint task = group; task < tasks || task == group; task += n_groups) {
        bool is_q = task < q_blocks;
        struct args_matrix m = either_matrix(&a.q_first, &a.kv_a, !is_q);
        product_begin(&own, &m, 0, m.out_dim, (is_q ? task : min(task, tasks - 1) - q_blocks) * TOKEN_TEAMS,
                      is_q ? q_first : kv_a);
        if (task == group) {
            token_norm_end(&row, &space);
        }
        if (task < tasks)
            product_end(&own, &space, !is_q ? kv : has_lora ? lora : q);
    }
    if (has_lora) {
        struct normed_row lora_row = {(__global const float *)(lora_norms + a.lora_norm), a.q_last.in_dim, a.lora_eps, 0};
        tasks = blocks_of(a.q_last.out_dim, TOKEN_TEAMS);
        for (uint task = group; task < tasks || task == group; task += n_groups) {
            product_begin(&own, &a.q_last, 0, a.q_last.out_dim, min(task, tasks - 1) * TOKEN_TEAMS, q_last);
            if (task == group) {
                met += n_groups;
                meet(meeting, met);
                token_norm_begin(lora, lora_row.dim, &space);
                token_norm_end(&lora_row, &space);
            }
            if (task < tasks)
                product_end(&own, &space, q);
        }
    }
    uint parts = 1 + blocks_of(a.append.n_heads, TURNED_HEADS);
    uint blocks = blocks_of(a.absorb.kv_b.in_dim / inputs_per_word(bits_of(&a.absorb.kv_b)), Q_WORDS);
    met += n_groups;
    meet(meeting, met);

    tasks = parts + blocks * a.absorb.n_heads;
    for (uint task = group; task < tasks; task += n_groups) {
        barrier(CLK_LOCAL_MEM_FENCE); // what stood here has been used
        if (task < parts)
            append_part(&a.append, task, 0, latent_norms, inv_freq, kv, cache, q, space.norm);
        else
            q_prime_part(&a.absorb, (task - parts) % blocks * Q_WORDS, (task - parts) / blocks, 0, kv_b, q, latent,
                         (__local float(*)[Q_WORDS * 8])space.x);
    }
}
#endif

#if BUILD_PARTS & PART_TOKEN_LATENT
// The tiles' sum, the heads' values and the last product, added to the stream. The sums of attention_merge, heads and
// matvec.
__kernel GROUP_SIZE(TOKEN_ITEMS, 1) void mla_out(const struct args_mla_out a, const struct tiling t,
                                                 __global const float *partials, __global float *attended,
                                                 __global const uchar *values, __global float *heads,
                                                 __global const uchar *o, __global float *out,
                                                 volatile __global uint *meeting)
{
    __local struct staged_space space;
    uint group = get_group_id(0), n_groups = get_num_groups(0);
    const struct args_heads *h = &a.values;
    meet_often(meeting, a.met, a.meetings);
    if (a.o.in_dim == 0)
        return;
    uint blocks = blocks_of(h->n_out, TOKEN_TEAMS), tasks = blocks * h->n_heads, columns = blocks_of(a.attention.kv_lora_rank, MERGE_LANES);
    for (uint task = group; task < columns * h->n_heads; task += n_groups) {
        barrier(CLK_LOCAL_MEM_FENCE); // what stood here has been used
        merge_part(&a.attention, t.n_tiles, task % columns * MERGE_LANES, task / columns, partials,
                   (__local struct merge_space *)space.x, attended);
    }
    struct token_task own;
    for (uint task = group; task < tasks || task == group; task += n_groups) {
        uint at = min(task, tasks - 1), head = at / blocks;
        product_begin(&own, &h->matrix, head * h->head_rows + h->first_row, h->n_out, at % blocks * TOKEN_TEAMS, values);
        if (task == group)
            meet(meeting, a.met + n_groups);
        barrier(CLK_LOCAL_MEM_FENCE);
        token_stage(attended + head * h->head_stride, h->matrix.in_dim, 1, &space);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (task < tasks)
            product_end(&own, &space, heads + head * h->n_out);
    }
    tasks = blocks_of(a.o.out_dim, TOKEN_TEAMS);
    for (uint task = group; task < tasks || task == group; task += n_groups) {
        product_begin(&own, &a.o, 0, a.o.out_dim, min(task, tasks - 1) * TOKEN_TEAMS, o);
        if (task == group) {
            meet(meeting, a.met + 2 * n_groups);
            token_stage(heads, a.o.in_dim, 1, &space);
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        float sum = token_end(&own.rows, &space);
        if (task < tasks && own.is_there)
            out[own.o] += sum;
    }
}
#endif

#endif
