// SPDX-License-Identifier: GPL-3.0-or-later
// The router's choice, for its kernel and for those of a whole token. A place in the order is found by counting who comes
// before, so lanes need no contest among themselves.

#if SHAPE_CPU
#define LANES 1
#else
#define LANES ROUTER_LANES
#endif

// How many of n values come before number i: the larger ones, and equal ones of a lower index. n is a multiple of 4, or
// NaN fill it up, which come before nobody.
static uint rank_of(__local const float *values, uint n, uint i)
{
    float4 own = values[i];
    int4 before = 0;
    UNROLL_4
    for (uint k = 0; k < n; k += 4) {
        float4 four = *(__local const float4 *)(values + k);
        int4 lower = (int4)(k, k + 1, k + 2, k + 3) < (int4)(i);
        before -= (four > own) | ((four == own) & lower);
    }
    return before.x + before.y + before.z + before.w;
}

// The sum of the two best, or the best alone.
static float group_score(uint topk_method, __local const float *values, uint n)
{
    float first = -INFINITY;
    float second = -INFINITY;
    for (uint i = 0; i < n; i++) {
        float v = values[i];
        second = fmax(second, fmin(first, v));
        first = fmax(first, v);
    }
    return topk_method == TOPK_NOAUX ? first + second : first;
}

// Local memory of the choice; that of floats begins at a multiple of 16 bytes, and is used up to a multiple of 4.
struct router_space {
    __local float *choice; // [n_experts]
    __local float *group;  // [n_group]
    __local float *score;  // [n_experts]
    __local int *ids;      // [top_k], the result; may lie where the groups do
    __local float *weights; // may lie where the choice does
};

#if !SHAPE_CPU
#define RANK_PART 32         // scores that are ranked among themselves first
#define RANK_PLACES 256      // of those that may be chosen
#define RANK_EACH (512 / LANES) // scores of a lane

// The choice among many without groups: who is not among the top_k of his part isn't among those of all. Also the
// largest. What may be chosen lies behind the first MOST_EXPERTS places of space->group, and whose it is over the
// choices.
INLINE float route_parts(const struct args_router *a, const struct router_space *space)
{
    uint lane = get_local_id(0), n = a->n_experts, parts = (n + RANK_PART - 1) / RANK_PART, n_left = parts * a->top_k;
    __local float *left = space->group + MOST_EXPERTS;
    __local int *owner = (__local int *)space->choice;
    float own[RANK_EACH];
    uint rank[RANK_EACH];
    UNROLL
    for (uint j = 0; j < RANK_EACH; j++) {
        uint e = min(lane + j * LANES, n - 1), first = e / RANK_PART * RANK_PART;
        own[j] = space->choice[e];
        rank[j] = lane + j * LANES < n ? rank_of(space->choice + first, min(n - first, (uint)RANK_PART), e - first) : RANK_PART;
    }
    for (uint i = lane; i < (n_left + 3) / 4 * 4; i += LANES)
        left[i] = NAN;
    barrier(CLK_LOCAL_MEM_FENCE);
    UNROLL
    for (uint j = 0; j < RANK_EACH; j++)
        if (rank[j] < a->top_k) {
            uint e = lane + j * LANES, at = e / RANK_PART * a->top_k + rank[j];
            left[at] = own[j];
            owner[at] = (int)e;
        }
    barrier(CLK_LOCAL_MEM_FENCE);
    uint at = min(lane, n_left - 1);
    float value = left[at];
    int id = owner[at];
    int4 before = 0;
    UNROLL_4
    for (uint k = 0; k < n_left; k += 4) {
        float4 four = *(__local const float4 *)(left + k);
        before -= (four > value) | ((four == value) & (*(__local const int4 *)(owner + k) < (int4)(id)));
    }
    uint place = before.x + before.y + before.z + before.w;
    if (lane < n_left && !isnan(value) && place < a->top_k)
        space->ids[place] = id;
    float largest = left[0];
    for (uint part = 1; part < parts; part++)
        largest = fmax(largest, left[part * a->top_k]);
    return largest;
}
#endif

// Of one row's logits. All of a group's LANES come together.
static void route(const struct args_router *a, __global const float *logit, __global const float *bias,
                  const struct router_space *space)
{
    uint lane = get_local_id(0);
    uint n = a->n_experts;
    uint size = n / a->n_group;
    uint softmax = a->scoring == ROUTER_SOFTMAX;
    uint n_group = a->n_group > 1 ? a->n_group : 0; // one alone stays
    __local float *score = space->score;
    __local float *choice = space->choice;
    __local float *group = space->group;
    for (uint e = lane; e < n; e += LANES) {
        float c = softmax ? logit[e] : sigmoid(logit[e]);
        score[e] = c;
        if (a->has_bias)
            c += bias[e];
        choice[e] = isnan(c) ? -INFINITY : c; // ids stay in range whatever comes in
    }
    for (uint i = lane; i < 4; i += LANES) { // what is read behind the last
        if (i < (4 - n % 4) % 4) {
            choice[n + i] = NAN;
            score[n + i] = 0;
        }
        if (i < (4 - n_group % 4) % 4)
            group[n_group + i] = NAN;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    bool by_parts = false;
    float largest = 0;
#if !SHAPE_CPU
    by_parts = n > 2 * RANK_PART && n <= RANK_EACH * LANES && !n_group && a->top_k <= MOST_EXPERTS &&
               (n + RANK_PART - 1) / RANK_PART * a->top_k <= RANK_PLACES;
    if (by_parts)
        largest = route_parts(a, space);
#endif
    float4 most = -INFINITY;
    UNROLL_4
    for (uint k = 0; k < (softmax && !by_parts ? n : 0); k += 4)
        most = fmax(most, *(__local const float4 *)(choice + k));
    largest = by_parts ? largest : fmax(fmax(most.x, most.y), fmax(most.z, most.w));
    for (uint e = lane; softmax && e < n; e += LANES)
        score[e] = exp_near(score[e] - largest);
    for (uint g = lane; g < n_group; g += LANES)
        group[g] = group_score(a->topk_method, choice + g * size, size);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint e = lane; n_group && e < n; e += LANES)
        if (rank_of(group, n_group, e / size) >= a->topk_group)
            choice[e] = -INFINITY;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint e = lane; e < (by_parts ? 0 : n); e += LANES) {
        uint rank = rank_of(choice, n, e);
        if (rank < a->top_k)
            space->ids[rank] = (int)e;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    // Every lane for itself: PoCL 3.1 runs a loop of uniform length for all lanes even inside a branch for one.
    float total = softmax ? 0.0f : 1.0f;
    UNROLL_4
    for (uint k = 0; k < (softmax ? n : 0); k += 4) {
        float4 four = *(__local const float4 *)(score + k);
        total = (((total + four.x) + four.y) + four.z) + four.w;
    }
    float sum = 1e-20f;
    for (uint k = 0; k < a->top_k; k++)
        sum += score[space->ids[k]] / total;
    for (uint k = lane; k < a->top_k; k += LANES) {
        float s = score[space->ids[k]] / total;
        space->weights[k] = (a->norm_topk_prob ? s / sum : s) * a->routed_scaling_factor;
    }
}
