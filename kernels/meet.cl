// SPDX-License-Identifier: GPL-3.0-or-later
// NVIDIA: what kernels of a whole token have in common. All groups of a launch wait for each other, for which all must be
// resident: the host has seen that they are (ops_token.c), and nobody waits forever.
#if NVIDIA_MMA && !SHAPE_CPU && !defined(KIND)

#ifndef MEETING_TRIES
#define MEETING_TRIES (1 << 21) // a second or two
#endif

// All groups are here, and see what each has written. meeting: how many have come, of which `target` since it was 0; and
// whether anybody gave up.
INLINE void meet(volatile __global uint *meeting, uint target)
{
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (get_local_id(0) == 0) {
        come(meeting);
        uint tries = 0;
        while ((int)(look(meeting) - target) < 0) {
            if (++tries % 256 != 0)
                continue;
            if (tries >= MEETING_TRIES)
                meeting[1] = 1;
            if (look(meeting + 1) != 0)
                break;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
}

// Nothing but that, so often.
INLINE void meet_often(volatile __global uint *meeting, uint met, uint times)
{
    for (uint i = 1; i <= times; i++)
        meet(meeting, met + i * get_num_groups(0));
}

INLINE uint blocks_of(uint rows, uint block)
{
    return (rows + block - 1) / block;
}

// The sum of what a row's lanes have, in each of them, in team_sum's order.
INLINE float token_sum(float dot)
{
    uint first = get_local_id(0) & (31 & ~(TEAM - 4));
    float sum = from_lane(dot, first);
    UNROLL
    for (uint lane = 4; lane < TEAM; lane += 4)
        sum += from_lane(dot, first + lane);
    sum += of_lane(sum, 2);
    return sum + of_lane(sum, 1);
}

// add_experts' last step: out += the shared expert's product, the last of `partial`, if it has one, and what the chosen have.
INLINE void add_partials(uint dim, uint top_k, uint has_shared, __local const float *weights, __global const float *partial,
                         __global float *out)
{
    uint n_items = get_num_groups(0) * TOKEN_ITEMS;
    for (uint o = get_group_id(0) * TOKEN_ITEMS + get_local_id(0); o < dim; o += n_items) {
        float sum = 0;
        UNROLL_4
        for (uint k = 0; k < top_k; k++)
            sum = fma(weights[k], partial[(ulong)k * dim + o], sum);
        float before = has_shared ? out[o] + partial[(ulong)top_k * dim + o] : out[o];
        out[o] = before + sum;
    }
}

#endif
