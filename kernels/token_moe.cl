// SPDX-License-Identifier: GPL-3.0-or-later
// NVIDIA: the routed half of a layer of one token in one launch (token.cl): norm and router's logits, beside the shared
// expert's gate and up; the choice, by each group for itself; gate and up of the chosen; all down projections; their sum.
// The sums of norm_matvecs, router, swiglu_experts and add_experts.
#if NVIDIA_MMA && !SHAPE_CPU && !defined(KIND)

#define TOKEN_BLOCK (2 * TOKEN_TEAMS) // rows of a down projection that a group computes together: two a team

struct routed_space {
    float4 choice[TOKEN_EXPERTS / 4];
    float4 group[TOKEN_EXPERTS / 4];
    float4 score[TOKEN_EXPERTS / 4];
    int ids[MOST_EXPERTS];
    float weights[MOST_EXPERTS];
};

INLINE ulong token_expert(const struct args_moe_token *a, __local const struct routed_space *chosen, uint k)
{
    return a->base + min((uint)chosen->ids[k], a->choice.n_experts - 1) * a->stride;
}

// What is done between two meetings: the router's logits and the shared expert's gate and up; gate and up of the chosen; all
// down projections. A task is a group's: TOKEN_TEAMS rows of gate and up, or TOKEN_BLOCK of another matrix.
enum { STAGE_CHOICE, STAGE_GATES, STAGE_DOWN, STAGES };

struct moe_memory {
    __global const uchar *router;
    __global const uchar *experts;
    __global const uchar *shared;
    __global const uchar *shared_down;
    __global const uchar *shared_factor;
};

// The stage's tasks of the group: from `first` on every step-th before `end`. The shared expert's down projection, the
// longest, is the whole share of some groups.
struct moe_share {
    uint first;
    uint step;
    uint end;
};

INLINE uint has_factor(const struct args_moe_token *a)
{
    return a->shared_factor.kind != KIND_NONE;
}

INLINE struct moe_share share_of(const struct args_moe_token *a, uint stage)
{
    uint group = get_group_id(0), n_groups = get_num_groups(0), has_shared = a->shared_down.kind != KIND_NONE;
    uint blocks = blocks_of(a->down.out_dim, TOKEN_BLOCK);
    struct moe_share share = {group, n_groups, 0};
    if (stage == STAGE_CHOICE)
        share.end = blocks_of(a->router.out_dim, TOKEN_BLOCK) + has_factor(a) +
                    (has_shared ? blocks_of(a->shared_gate.out_dim, TOKEN_TEAMS) : 0);
    else if (stage == STAGE_GATES)
        share.end = a->choice.top_k * blocks_of(a->gate.out_dim, TOKEN_TEAMS);
    else
        share.end = (a->choice.top_k + has_shared) * blocks;
    if (stage == STAGE_DOWN && has_shared && 2 * blocks <= n_groups)
        share.step = group < blocks ? share.end : n_groups - blocks;
    return share;
}

struct moe_task {
    uint k;     // expert: its rank; top_k is the shared one
    uint first; // output
    bool gated;
    bool is_factor; // the shared expert's
};

INLINE struct moe_task task_of(const struct args_moe_token *a, uint stage, uint number)
{
    uint has_shared = a->shared_down.kind != KIND_NONE;
    struct moe_task task;
    task.gated = stage != STAGE_DOWN;
    task.is_factor = false;
    if (stage == STAGE_CHOICE) {
        uint blocks = blocks_of(a->router.out_dim, TOKEN_BLOCK), before = blocks + has_factor(a);
        task.k = a->choice.top_k;
        task.gated = number >= before;
        task.is_factor = number >= blocks && !task.gated;
        task.first = task.gated ? (number - before) * TOKEN_TEAMS : number % blocks * TOKEN_BLOCK;
    } else if (stage == STAGE_GATES) {
        uint blocks = blocks_of(a->gate.out_dim, TOKEN_TEAMS);
        task.k = number / blocks;
        task.first = number % blocks * TOKEN_TEAMS;
    } else {
        uint blocks = blocks_of(a->down.out_dim, TOKEN_BLOCK), k = number / blocks;
        task.k = has_shared ? (k ? k - 1 : a->choice.top_k) : k; // the longest first
        task.first = number % blocks * TOKEN_BLOCK;
    }
    return task;
}

// The rows of the work-item's team.
INLINE void task_begin(const struct args_moe_token *a, uint stage, uint number, const struct moe_memory *memory,
                       __local const struct routed_space *chosen, struct token_pair *pair)
{
    struct moe_task task = task_of(a, stage, number);
    bool is_shared = task.k == a->choice.top_k;
    __global const uchar *expert = memory->experts + (is_shared ? 0 : token_expert(a, chosen, task.k));
    uint o = task.first + get_local_id(0) / TEAM * (task.gated ? 1 : 2);
    if (task.gated) {
        struct args_matrix gate = either_matrix(&a->gate, &a->shared_gate, is_shared);
        struct args_matrix up = either_matrix(&a->up, &a->shared_up, is_shared);
        o = min(o, gate.out_dim - 1);
        pair_begin(pair, &gate, o, &up, o, is_shared ? memory->shared : expert);
    } else {
        struct args_matrix first = either_matrix(&a->router, &a->shared_factor, task.is_factor);
        struct args_matrix other = either_matrix(&first, &a->shared_down, stage == STAGE_DOWN);
        struct args_matrix m = either_matrix(&a->down, &other, is_shared);
        __global const uchar *shared = stage == STAGE_DOWN ? memory->shared_down
                                       : task.is_factor    ? memory->shared_factor
                                                           : memory->router;
        pair_begin(pair, &m, min(o, m.out_dim - 1), &m, min(o + 1, m.out_dim - 1), is_shared ? shared : expert);
    }
}

// What a task's products go into.
struct moe_target {
    __global float *to;
    uint n_out;
};

INLINE void task_put(const struct args_moe_token *a, const struct moe_task *task, struct moe_target target, float2 dots)
{
    uint o = task->first + get_local_id(0) / TEAM * (task->gated ? 1 : 2);
    if (!is_first_lane() || o >= target.n_out)
        return;
    target.to[o] = task->gated ? swiglu(dots.x, dots.y, LIMITS(*a)) : dots.x;
    if (!task->gated && o + 1 < target.n_out)
        target.to[o + 1] = dots.y;
}

#if BUILD_PARTS & PART_TOKEN
__kernel GROUP_SIZE(TOKEN_ITEMS, 1) void moe_token(const struct args_moe_token a, const struct tiling t,
                                                   __global const uchar *norms, __global const uchar *router,
                                                   __global const uchar *biases, __global const uchar *experts,
                                                   __global const uchar *shared, __global const uchar *shared_down,
                                                   __global const uchar *shared_factor, __global float *logits,
                                                   __global int *ids, __global float *weights, __global float *act,
                                                   __global float *factor, __global float *partial, __global float *out,
                                                   volatile __global uint *meeting)
{
    __local struct staged_space space;
    __local struct routed_space chosen;
    uint group = get_group_id(0), n_groups = get_num_groups(0), item = get_local_id(0);
    meet_often(meeting, a.met, a.meetings);
    uint dim = a.router.in_dim, top_k = a.choice.top_k, has_shared = a.shared_down.kind != KIND_NONE;
    if (dim == 0)
        return;

    struct moe_memory memory = {router, experts, shared, shared_down, shared_factor};
    struct normed_row row = {(__global const float *)(norms + a.norm), dim, a.eps, a.plus_one};
    struct router_space choice = {(__local float *)chosen.choice, (__local float *)chosen.group,
                                  (__local float *)chosen.score, chosen.ids, chosen.weights};
    struct token_pair next; // to be fetched
    struct token_quads quads;
    bool fetched = false;
    token_norm_begin(out, dim, &space);
    NO_UNROLL
    for (uint stage = 0; stage < STAGES; stage++) {
        struct moe_share share = share_of(&a, stage);
        uint task = share.first;
        if (stage > 0)
            meet(meeting, a.met + stage * n_groups);
        if (stage == STAGE_GATES) {
            route(&a.choice, logits, (__global const float *)(biases + a.choice.bias), &choice);
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        NO_UNROLL
        for (bool is_first = true;; is_first = false) {
            if (task < share.end && !fetched) {
                task_begin(&a, stage, task, &memory, &chosen, &next);
                pair_fetch(&next, &quads);
            }
            if (stage == STAGE_CHOICE && is_first) // while the weights are on their way
                token_norm_end(&row, &space);
            if (task >= share.end)
                break;
            struct moe_task is = task_of(&a, stage, task);
            uint n_units = next.n_units, bits = next.bits;
            if (stage == STAGE_DOWN) {
                barrier(CLK_LOCAL_MEM_FENCE); // what was staged before has been used
                float times = is.k == top_k && has_factor(&a) ? sigmoid(factor[0]) : 1.0f;
                token_stage(act + (is.k < top_k ? is.k * a.down.in_dim : a.shared_offset), n_units * UNIT, times, &space);
                barrier(CLK_LOCAL_MEM_FENCE);
            }
            float2 dots = 0;
            uint steps = TEAM * (bits == 4 ? PAIR_STEPS(4) : PAIR_STEPS(8));
            task += share.step;
            bool goes_on = task < share.end; // or the next stage begins, if its tasks are known
            bool has_next = goes_on || (stage == STAGE_GATES && group < share_of(&a, STAGE_DOWN).end);
            NO_UNROLL
            for (uint base = 0; base < n_units; base += steps) {
                next.unit += steps;
                if (base + steps >= n_units && has_next)
                    task_begin(&a, goes_on ? stage : stage + 1, goes_on ? task : group, &memory, &chosen, &next);
                else if (base + steps >= n_units)
                    next.bits = 0;
                uint unit = base + item % TEAM;
                dots = bits == 4 ? pair_add(&quads, 4, unit, n_units, &next, &space, dots)
                                 : pair_add(&quads, 8, unit, n_units, &next, &space, dots);
            }
            fetched = next.bits == bits;
            dots.x = token_sum(dots.x);
            dots.y = token_sum(dots.y);
            bool is_shared = is.k == top_k;
            struct moe_target target = {act + (is_shared ? a.shared_offset : is.k * a.gate.out_dim),
                                        is_shared ? a.shared_gate.out_dim : a.gate.out_dim};
            if (!is.gated) {
                target.to = is.is_factor ? factor : stage == STAGE_CHOICE ? logits : partial + (ulong)is.k * dim;
                target.n_out = is.is_factor ? 1 : stage == STAGE_CHOICE ? a.router.out_dim : dim;
            }
            task_put(&a, &is, target, dots);
        }
        if (stage == STAGE_GATES && group == 0 && item < top_k) {
            ids[a.choice.first + item] = chosen.ids[item];
            weights[a.choice.first + item] = chosen.weights[item];
        }
    }
    meet(meeting, a.met + STAGES * n_groups);
    add_partials(dim, top_k, has_shared, chosen.weights, partial, out);
}
#endif

#endif
