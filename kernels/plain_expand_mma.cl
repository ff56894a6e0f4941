// SPDX-License-Identifier: GPL-3.0-or-later
// NVIDIA's tensor cores: keys and values of each head, made of the latent rows for attention_plain_mma.cl. What makes
// them, kv_b or its halves, comes in float32 and goes in as two halves, after a power of 2 for each output; the latents
// are float16 in the cache. Sums of all 512 products are the units', which cut off 24 bits at a time: an error of 3e-6
// of the largest at most was seen.
#if NVIDIA_MMA

#define PLAIN_SIDE        (PLAIN_PIECES / 2) // pieces of a step of 16 latents: of keys, and as many of values
#define PLAIN_MAKERS      (2 * PLAIN_SIDE)
#define PLAIN_MAKER_STEPS (PLAIN_RANK / 16)
#define PLAIN_OUTPUTS     (PLAIN_KEY + PLAIN_VALUE)

// [head][step] pieces, and behind all heads' [head][output] powers of 2.
INLINE __global float *plain_scales_of(const struct args_attention_plain *a, __global uint4 *makers, uint head)
{
    return (__global float *)(makers + (ulong)a->heads * PLAIN_MAKER_STEPS * PLAIN_MAKERS) + head * PLAIN_OUTPUTS;
}

// A head's number c of the latents in output o.
INLINE float4 plain_weights_at(const struct args_attention_plain *a, __global const float *keys,
                               __global const float *values, uint head, uint o, uint c)
{
    if (!a->turned)
        return vload4(0, keys + ((ulong)head * PLAIN_OUTPUTS + o) * PLAIN_RANK + c);
    if (o >= PLAIN_KEY)
        return vload4(0, values + ((ulong)head * PLAIN_VALUE + o - PLAIN_KEY) * PLAIN_RANK + c);
    __global const float *from = keys + ((ulong)head * PLAIN_RANK + c) * PLAIN_KEY + o;
    return (float4)(from[0], from[PLAIN_KEY], from[2 * PLAIN_KEY], from[3 * PLAIN_KEY]);
}

#if BUILD_PARTS & PART_PLAIN
// Weights in halves, keys' as B, two eights of outputs beside each other, values' as A. Groups: x over 16 outputs, y
// over heads.
__kernel GROUP_SIZE(PLAIN_ITEMS, 1) void plain_weights(const struct args_attention_plain a, const struct tiling t,
                                                       __global const float *keys, __global const float *values,
                                                       __global uint4 *makers)
{
    enum { SHARE = PLAIN_MAKER_STEPS / 2 }; // steps of a work-item, every second
    __local float space[PLAIN_ITEMS / 32][8];
    if (a.n_rows == 0)
        return;
    uint block = get_group_id(0), head = get_group_id(1), lane = get_local_id(0) % 32, warp = get_local_id(0) / 32;
    uint which = warp % 2; // eight of a key's, row of a value's fragment
    bool is_key = block < PLAIN_KEY / 16;
    uint o = block * 16 + (is_key ? lane / 8 * 4 + which * 2 + lane / 4 % 2 : which * 8 + lane / 4);
    float4 own[SHARE];
    float largest = 0;
    UNROLL
    for (uint i = 0; i < SHARE; i++) {
        own[i] = plain_weights_at(&a, keys, values, head, o, (i * 2 + warp / 2) * 16 + lane % 4 * 4);
        largest = fmax(largest, plain_largest(own[i]));
    }
    largest = fmax(largest, of_lane(largest, 1));
    largest = fmax(largest, of_lane(largest, 2));
    if (lane % 4 == 0)
        space[warp][lane / 4] = largest;
    barrier(CLK_LOCAL_MEM_FENCE);
    largest = fmax(largest, space[warp ^ 2][lane / 4]);
    uint exponent = clamp(as_uint(largest) >> 23, 15u, 254u); // it becomes 2^14 and more
    if (warp < 2 && lane % 4 == 0)
        plain_scales_of(&a, makers, head)[o] = as_float((exponent - 14) << 23);
    UNROLL
    for (uint i = 0; i < SHARE; i++) {
        float4 four = own[i] * as_float((268u - exponent) << 23);
        uint2 low = halves(four.x, four.y), high = halves(four.z, four.w);
        __global uint4 *step = makers + ((ulong)head * PLAIN_MAKER_STEPS + i * 2 + warp / 2) * PLAIN_MAKERS;
        if (is_key) {
            step[(block * 2 + which) * 32 + lane] = (uint4)(low.x, high.x, low.y, high.y);
        } else {
            __global uint *first = (__global uint *)(step + PLAIN_SIDE + (block - PLAIN_KEY / 16) * 64 + lane) + which;
            first[0] = low.x;
            first[2] = high.x;
            first[128] = low.y;
            first[130] = high.y;
        }
    }
}
#endif

struct maker_space {
    uint4 makers[2][PLAIN_MAKERS];
    uint2 latents[2][PLAIN_KEYS][4] __attribute__((aligned(16))); // four of a row each
    float largest[2][2][PLAIN_KEYS];                              // of keys and of values, by halves of outputs
};

INLINE void maker_fetch(const struct args_attention_plain *a, __global const uint4 *makers, __global const uchar *cache,
                        uint step, __local struct maker_space *space)
{
    uint item = get_local_id(0), to = step % 2;
    UNROLL
    for (uint i = 0; i < PLAIN_MAKERS; i += PLAIN_MAKER_ITEMS)
        copy_16(&space->makers[to][i + item], makers + step * PLAIN_MAKERS + i + item);
    uint first = get_group_id(0) * PLAIN_KEYS, key = min(first + item / 2, a->position + a->n_rows - 1);
    copy_16(&space->latents[to][item / 2][item % 2 * 2],
            (__global const uint4 *)(cache + (ulong)key * ((PLAIN_RANK + PLAIN_ROPE) * 2)) + step * 2 + item % 2);
}

// A warp's 64 keys and 64 outputs: sums[keys / 16][outputs / 8], keys as A.
INLINE void maker_keys(__local const struct maker_space *space, uint now, uint first_key, uint half_of,
                       float4 (*sums)[8])
{
    uint lane = get_local_id(0) % 32;
    uint4 rows[4];
    UNROLL
    for (uint m = 0; m < 4; m++) {
        uint2 upper = space->latents[now][first_key + m * 16 + lane / 4][lane % 4];
        uint2 lower = space->latents[now][first_key + m * 16 + 8 + lane / 4][lane % 4];
        rows[m] = (uint4)(upper.x, lower.x, upper.y, lower.y);
    }
    UNROLL
    for (uint n = 0; n < 8; n++) {
        uint4 piece = space->makers[now][(half_of * 8 + n) * 32 + lane];
        UNROLL
        for (uint m = 0; m < 4; m++)
            mma(&sums[m][n], rows[m], piece.x, piece.y);
        UNROLL
        for (uint m = 0; m < 4; m++)
            mma(&sums[m][n], rows[m], piece.z, piece.w);
    }
}

// The same of values: sums[outputs / 16][keys / 8], weights as A.
INLINE void maker_values(__local const struct maker_space *space, uint now, uint first_key, uint half_of,
                         float4 (*sums)[8])
{
    uint lane = get_local_id(0) % 32;
    uint2 columns[8];
    UNROLL
    for (uint n = 0; n < 8; n++)
        columns[n] = space->latents[now][first_key + n * 8 + lane / 4][lane % 4];
    UNROLL
    for (uint m = 0; m < 4; m++)
        UNROLL
    for (uint part = 0; part < 2; part++) {
        uint4 weights = space->makers[now][PLAIN_SIDE + ((half_of * 4 + m) * 2 + part) * 32 + lane];
        UNROLL
        for (uint n = 0; n < 8; n++)
            mma(&sums[m][n], weights, columns[n].x, columns[n].y);
    }
}

// The exponent that a key's largest has, or its values'.
INLINE uint maker_exponent(__local const struct maker_space *space, const uint side, uint key)
{
    float largest = fmax(space->largest[side][0][key], space->largest[side][1][key]);
    return clamp(as_uint(largest) >> 23, side ? 103u : 15u,
                 254u); // values so small that weights would vanish don't matter
}

INLINE float maker_factor(__local const struct maker_space *space, const uint side, uint key)
{
    return as_float((268u - maker_exponent(space, side, key)) << 23); // the largest becomes 2^14 and more
}

// Sums get their outputs' powers of 2, and each key's largest is noted.
INLINE void maker_scale_keys(__global const float *scales, uint first_key, uint half_of, float4 (*sums)[8],
                             __local struct maker_space *space)
{
    uint lane = get_local_id(0) % 32, j = lane % 4;
    UNROLL
    for (uint n = 0; n < 8; n++) {
        float2 scale = vload2(0, scales + half_of * 64 + n / 2 * 16 + j * 4 + n % 2 * 2);
        UNROLL
        for (uint m = 0; m < 4; m++)
            sums[m][n] *= (float4)(scale, scale);
    }
    UNROLL
    for (uint m = 0; m < 4; m++) {
        float upper = 0, lower = 0;
        UNROLL
        for (uint n = 0; n < 8; n++) {
            upper = fmax(upper, fmax(fabs(sums[m][n].x), fabs(sums[m][n].y)));
            lower = fmax(lower, fmax(fabs(sums[m][n].z), fabs(sums[m][n].w)));
        }
        upper = fmax(upper, of_lane(upper, 1));
        upper = fmax(upper, of_lane(upper, 2));
        lower = fmax(lower, of_lane(lower, 1));
        lower = fmax(lower, of_lane(lower, 2));
        if (j == 0) {
            space->largest[0][half_of][first_key + m * 16 + lane / 4] = upper;
            space->largest[0][half_of][first_key + m * 16 + 8 + lane / 4] = lower;
        }
    }
}

INLINE void maker_scale_values(__global const float *scales, uint first_key, uint half_of, float4 (*sums)[8],
                               __local struct maker_space *space)
{
    uint lane = get_local_id(0) % 32;
    UNROLL
    for (uint m = 0; m < 4; m++) {
        __global const float *scale = scales + PLAIN_KEY + (half_of * 4 + m) * 16 + lane / 4;
        float4 both = (float4)((float2)(scale[0]), (float2)(scale[8]));
        UNROLL
        for (uint n = 0; n < 8; n++)
            sums[m][n] *= both;
    }
    UNROLL
    for (uint n = 0; n < 8; n++) {
        float even = 0, odd = 0;
        UNROLL
        for (uint m = 0; m < 4; m++) {
            even = fmax(even, fmax(fabs(sums[m][n].x), fabs(sums[m][n].z)));
            odd = fmax(odd, fmax(fabs(sums[m][n].y), fabs(sums[m][n].w)));
        }
        UNROLL
        for (uint apart = 4; apart < 32; apart *= 2) {
            even = fmax(even, of_lane(even, apart));
            odd = fmax(odd, of_lane(odd, apart));
        }
        if (lane < 4) {
            space->largest[1][half_of][first_key + n * 8 + lane * 2] = even;
            space->largest[1][half_of][first_key + n * 8 + lane * 2 + 1] = odd;
        }
    }
}

INLINE uint4 plain_piece(float2 first, float2 second)
{
    uint2 low = halves(first.x, first.y), high = halves(second.x, second.y);
    return (uint4)(low.x, high.x, low.y, high.y);
}

// tiles: the group's first; `there` are as many.
INLINE void maker_put_keys(__local const struct maker_space *space, uint first_key, uint half_of, float4 (*sums)[8],
                           __global uint4 *tiles, uint there)
{
    uint lane = get_local_id(0) % 32;
    UNROLL
    for (uint m = 0; m < 4; m++) {
        uint tile = first_key / PLAIN_TILE + m / 2;
        float upper = maker_factor(space, 0, first_key + m * 16 + lane / 4);
        float lower = maker_factor(space, 0, first_key + m * 16 + 8 + lane / 4);
        __global uint4 *to = tiles + tile * PLAIN_TILE_PIECES + (m % 2 * 2 * PLAIN_STEPS + half_of * 4) * 32 + lane;
        UNROLL
        for (uint s = 0; s < 4; s++)
            if (tile < there) {
                to[s * 32] = plain_piece(sums[m][2 * s].xy * upper, sums[m][2 * s + 1].xy * upper);
                to[(PLAIN_STEPS + s) * 32] = plain_piece(sums[m][2 * s].zw * lower, sums[m][2 * s + 1].zw * lower);
            }
    }
}

INLINE void maker_put_values(__local const struct maker_space *space, uint first_key, uint half_of, float4 (*sums)[8],
                             __global uint4 *tiles, uint there)
{
    uint lane = get_local_id(0) % 32;
    UNROLL
    for (uint n = 0; n < 8; n += 2) {
        uint tile = first_key / PLAIN_TILE + n / 4, key = first_key + n * 8 + lane % 4 * 2;
        float2 first = (float2)(maker_factor(space, 1, key), maker_factor(space, 1, key + 1));
        float2 second = (float2)(maker_factor(space, 1, key + 8), maker_factor(space, 1, key + 9));
        __global uint4 *to = tiles + tile * PLAIN_TILE_PIECES + PLAIN_PIECES + PLAIN_TILE + lane;
        UNROLL
        for (uint m = 0; m < 4; m++)
            if (tile < there) {
                uint at = ((half_of * 4 + m) * 2 * PLAIN_DEPTHS + n % 4 / 2) * 32;
                to[at] = plain_piece(sums[m][n].xy * first, sums[m][n + 1].xy * second);
                to[at + PLAIN_DEPTHS * 32] = plain_piece(sums[m][n].zw * first, sums[m][n + 1].zw * second);
            }
    }
}

// What of the group's keys all heads have, from the cache.
INLINE void maker_put_rope(const struct args_attention_plain *a, __global const uchar *cache, __global uint4 *to,
                           uint there)
{
    const uint warps = PLAIN_MAKER_ITEMS / 32;
    uint lane = get_local_id(0) % 32, first = get_group_id(0) * PLAIN_KEYS;
    UNROLL
    for (uint k = 0; k < PLAIN_KEYS / PLAIN_TILE * PLAIN_ROPE_PIECES / 32 / warps; k++) {
        uint i = k * warps + get_local_id(0) / 32;
        uint tile = i / (PLAIN_ROPE_PIECES / 32), n = i % (PLAIN_ROPE_PIECES / 32);
        uint key = first + tile * PLAIN_TILE + n / (PLAIN_ROPE_STEPS / 2) * 8 + lane / 4;
        uint column = PLAIN_RANK + n % (PLAIN_ROPE_STEPS / 2) * 32 + lane % 4 * 4;
        __global const uchar *row =
            cache + (ulong)min(key, a->position + a->n_rows - 1) * ((PLAIN_RANK + PLAIN_ROPE) * 2);
        uint2 low = *(__global const uint2 *)(row + column * 2),
              high = *(__global const uint2 *)(row + (column + 16) * 2);
        if (tile < there)
            to[i * 32 + lane] = (uint4)(low.x, low.y, high.x, high.y);
    }
}

#if BUILD_PARTS & PART_PLAIN
// Groups: x over PLAIN_KEYS keys, y over heads. Of each 64 keys two warps make the keys and two the values. Keys behind
// the last are it, too: nothing sees them.
__kernel GROUP_SIZE(PLAIN_MAKER_ITEMS, 1) void plain_expand(const struct args_attention_plain a, const struct tiling t,
                                                            __global uint4 *makers, __global const void *cache,
                                                            __global uint4 *tiles)
{
    __local struct maker_space space;
    if (a.n_rows == 0)
        return;
    uint head = get_group_id(1), warp = get_local_id(0) / 32, half_of = warp % 2, first_key = warp / 4 * 64;
    bool is_key = warp % 4 < 2;
    __global const uint4 *from = makers + (ulong)head * PLAIN_MAKER_STEPS * PLAIN_MAKERS;
    float4 sums[4][8];
    UNROLL
    for (uint m = 0; m < 4; m++)
        UNROLL
    for (uint n = 0; n < 8; n++)
        sums[m][n] = 0;
    maker_fetch(&a, from, cache, 0, &space);
    for (uint step = 0; step < PLAIN_MAKER_STEPS; step++) {
        copies_wait();
        barrier(CLK_LOCAL_MEM_FENCE); // the step is there for all, and all are through with the one before
        if (step + 1 < PLAIN_MAKER_STEPS)
            maker_fetch(&a, from, cache, step + 1, &space);
        if (is_key)
            maker_keys(&space, step % 2, first_key, half_of, sums);
        else
            maker_values(&space, step % 2, first_key, half_of, sums);
    }
    __global const float *scales = plain_scales_of(&a, makers, head);
    if (is_key)
        maker_scale_keys(scales, first_key, half_of, sums, &space);
    else
        maker_scale_values(scales, first_key, half_of, sums, &space);
    barrier(CLK_LOCAL_MEM_FENCE);
    uint tile = get_group_id(0) * (PLAIN_KEYS / PLAIN_TILE), there = t.n_tiles - tile;
    __global uint4 *to = plain_tile_of(&t, tiles, head, tile);
    if (is_key)
        maker_put_keys(&space, first_key, half_of, sums, to, there);
    else
        maker_put_values(&space, first_key, half_of, sums, to, there);
    uint key = get_local_id(0);
    if (key < PLAIN_KEYS && key / PLAIN_TILE < there) {
        uint exponents[2] = {maker_exponent(&space, 0, key), maker_exponent(&space, 1, key)};
        float4 mark = (float4)(as_float((exponents[0] - 14) << 23), ((int)exponents[1] - 141) * 0.693147181f,
                               as_float((268u - exponents[1]) << 23), 0);
        to[key / PLAIN_TILE * PLAIN_TILE_PIECES + PLAIN_PIECES + key % PLAIN_TILE] = as_uint4(mark);
    }
    if (head == 0)
        maker_put_rope(&a, cache, plain_rope_of(&a, &t, tiles, tile), there);
}
#endif

#endif
