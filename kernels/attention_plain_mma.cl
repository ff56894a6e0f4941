// SPDX-License-Identifier: GPL-3.0-or-later
// NVIDIA's tensor cores: attention of a prompt's rows over keys and values made of the latent rows, head by head, 128 +
// 64 and 128 wide, as DeepSeek's models have them. A fragment is 16 rows of one head, a warp's; four warps share the
// keys, 32 at a time. All that is no float16 of the cache's goes in as two halves, as in attention_mma.cl.
//
// Keys and values lie in the order in which lanes hold B (ptx.cl), first halves and second (plain_expand_mma.cl). Each
// key is divided by a power of 2 of its own, and so are its values, so that no bit depends on what rows there are
// behind: the key's is taken back in its score. The values' is a part of the weight: exp(score) 2^e = exp(score + e ln
// 2).
#if NVIDIA_MMA

#define PLAIN_STEPS       (PLAIN_KEY / 16)
#define PLAIN_ROPE_STEPS  (PLAIN_ROPE / 16)
#define PLAIN_EIGHTS      (PLAIN_TILE / 8)              // of keys
#define PLAIN_COLUMNS     (PLAIN_VALUE / 8)             // eights of them
#define PLAIN_DEPTHS      (PLAIN_TILE / 16)             // steps of keys under values
#define PLAIN_PIECES      (PLAIN_TILE * PLAIN_KEY / 4)  // of a tile's keys and of its values: 4 numbers each
#define PLAIN_ROPE_PIECES (PLAIN_TILE * PLAIN_ROPE / 8) // of what all heads share: 8 of the cache's
#define PLAIN_TILE_PIECES (2 * PLAIN_PIECES + PLAIN_TILE)

// Where tiles are: [head][tile] keys, marks, values. A mark, of a key: what its score is multiplied with, what is
// added, and what its weight is multiplied with in the sum of weights.
INLINE __global uint4 *plain_tile_of(const struct tiling *t, __global uint4 *tiles, uint head, uint tile)
{
    return tiles + ((ulong)head * t->n_tiles + tile) * PLAIN_TILE_PIECES;
}

// [tile], behind all heads'
INLINE __global uint4 *plain_rope_of(const struct args_attention_plain *a, const struct tiling *t,
                                     __global uint4 *tiles, uint tile)
{
    return plain_tile_of(t, tiles, a->heads, 0) + (ulong)tile * PLAIN_ROPE_PIECES;
}

INLINE float plain_largest(float4 four)
{
    four = fabs(four);
    return fmax(fmax(four.x, four.y), fmax(four.z, four.w));
}

struct plain_space {
    uint4 keys[PLAIN_PIECES];
    float4 marks[PLAIN_TILE];
    uint4 rope[PLAIN_ROPE_PIECES];
    uint4 values[PLAIN_PIECES];
};

// A warp's rows of one head, in fragments: first halves and second.
struct plain_queries {
    uint4 of[PLAIN_STEPS + PLAIN_ROPE_STEPS][2];
    float scale[2]; // of rows g and g + 8
};

struct plain_sums {
    float4 of[PLAIN_COLUMNS]; // of values
    float largest[2], total[2];
};

// Weights of a tile's keys as A.
struct plain_weights {
    uint4 of[PLAIN_DEPTHS][2];
    float factors[2]; // of the sums before
};

INLINE void plain_copy(__local uint4 *to, __global const uint4 *from, const uint n)
{
    UNROLL
    for (uint i = 0; i < n / PLAIN_ITEMS; i++)
        copy_16(to + i * PLAIN_ITEMS + get_local_id(0), from + i * PLAIN_ITEMS + get_local_id(0));
}

INLINE void plain_copy_keys(__local struct plain_space *space, __global const uint4 *tile, __global const uint4 *rope)
{
    plain_copy(space->keys, tile, PLAIN_PIECES);
    if (get_local_id(0) < PLAIN_TILE)
        copy_16(&space->marks[get_local_id(0)], tile + PLAIN_PIECES + get_local_id(0));
    plain_copy(space->rope, rope, PLAIN_ROPE_PIECES);
}

INLINE void plain_load(__global const float *const *rows, struct plain_queries *queries)
{
    uint j = get_local_id(0) % 4;
    float inverse[2];
    UNROLL
    for (uint h = 0; h < 2; h++) {
        float largest = 0;
        UNROLL
        for (uint s = 0; s < PLAIN_STEPS + PLAIN_ROPE_STEPS; s++)
            largest = fmax(largest, plain_largest(vload4(0, rows[h] + s * 16 + j * 4)));
        largest = fmax(largest, of_lane(largest, 1));
        largest = fmax(largest, of_lane(largest, 2));
        uint exponent = clamp(as_uint(largest) >> 23, 15u, 254u); // it becomes 2^13 and more
        queries->scale[h] = as_float((exponent - 13) << 23);
        inverse[h] = as_float((254u << 23) - as_uint(queries->scale[h]));
    }
    UNROLL
    for (uint s = 0; s < PLAIN_STEPS + PLAIN_ROPE_STEPS; s++) {
        float4 low = vload4(0, rows[0] + s * 16 + j * 4) * inverse[0];
        float4 high = vload4(0, rows[1] + s * 16 + j * 4) * inverse[1];
        uint2 a0 = halves(low.x, low.y), a1 = halves(high.x, high.y);
        uint2 a2 = halves(low.z, low.w), a3 = halves(high.z, high.w);
        queries->of[s][0] = (uint4)(a0.x, a1.x, a2.x, a3.x);
        queries->of[s][1] = (uint4)(a0.y, a1.y, a2.y, a3.y);
    }
}

// [key / 8] of the tile, not yet scaled by the rows' own powers of 2.
INLINE void plain_scores(const struct plain_queries *queries, __local const struct plain_space *space, float4 *scores)
{
    uint lane = get_local_id(0) % 32;
    UNROLL
    for (uint n = 0; n < PLAIN_EIGHTS; n++)
        scores[n] = 0;
    UNROLL
    for (uint s = 0; s < PLAIN_STEPS; s++) {
        uint4 keys[PLAIN_EIGHTS];
        UNROLL
        for (uint n = 0; n < PLAIN_EIGHTS; n++)
            keys[n] = space->keys[(n * PLAIN_STEPS + s) * 32 + lane];
        UNROLL
        for (uint n = 0; n < PLAIN_EIGHTS; n++)
            mma(&scores[n], queries->of[s][0], keys[n].x, keys[n].y);
        UNROLL
        for (uint n = 0; n < PLAIN_EIGHTS; n++)
            mma(&scores[n], queries->of[s][1], keys[n].x, keys[n].y);
        UNROLL
        for (uint n = 0; n < PLAIN_EIGHTS; n++)
            mma(&scores[n], queries->of[s][0], keys[n].z, keys[n].w);
    }
    UNROLL
    for (uint n = 0; n < PLAIN_EIGHTS; n++) {
        __local const float4 *marks = space->marks + n * 8 + lane % 4 * 2;
        float2 both = (float2)(marks[0].x, marks[1].x);
        scores[n] *= (float4)(both, both);
    }
    UNROLL
    for (uint s = 0; s < PLAIN_ROPE_STEPS; s += 2) {
        const uint at = PLAIN_STEPS + s;
        uint4 keys[PLAIN_EIGHTS];
        UNROLL
        for (uint n = 0; n < PLAIN_EIGHTS; n++)
            keys[n] = space->rope[(n * (PLAIN_ROPE_STEPS / 2) + s / 2) * 32 + lane];
        UNROLL
        for (uint part = 0; part < 2; part++) {
            UNROLL
            for (uint n = 0; n < PLAIN_EIGHTS; n++)
                mma(&scores[n], queries->of[at][part], keys[n].x, keys[n].y);
            UNROLL
            for (uint n = 0; n < PLAIN_EIGHTS; n++)
                mma(&scores[n], queries->of[at + 1][part], keys[n].z, keys[n].w);
        }
    }
}

// Scores become weights. `ends`: how many keys of the tile rows g and g + 8 see.
INLINE void plain_softmax(float4 *scores, const float *scale, const int *ends, __local const struct plain_space *space,
                          struct plain_sums *sums, struct plain_weights *weights)
{
    int j = get_local_id(0) % 4;
    __local const float4 *marks = space->marks + j * 2;
    float most[2] = {-INFINITY, -INFINITY};
    UNROLL
    for (uint n = 0; n < PLAIN_EIGHTS; n++) {
        int key = n * 8 + j * 2;
        float2 more = (float2)(marks[n * 8].y, marks[n * 8 + 1].y);
        scores[n] = fma(scores[n], (float4)((float2)(scale[0]), (float2)(scale[1])), (float4)(more, more));
        scores[n].x = key < ends[0] ? scores[n].x : -INFINITY;
        scores[n].y = key + 1 < ends[0] ? scores[n].y : -INFINITY;
        scores[n].z = key < ends[1] ? scores[n].z : -INFINITY;
        scores[n].w = key + 1 < ends[1] ? scores[n].w : -INFINITY;
        most[0] = fmax(most[0], fmax(scores[n].x, scores[n].y));
        most[1] = fmax(most[1], fmax(scores[n].z, scores[n].w));
    }
    UNROLL
    for (uint h = 0; h < 2; h++) {
        most[h] = fmax(most[h], of_lane(most[h], 1));
        most[h] = fmax(most[h], of_lane(most[h], 2));
        float before = sums->largest[h];
        sums->largest[h] = fmax(before, most[h]);
        weights->factors[h] = exp_near(before - sums->largest[h]);
        sums->total[h] *= weights->factors[h];
    }
    UNROLL
    for (uint depth = 0; depth < PLAIN_DEPTHS; depth++) {
        uint2 parts[4];
        UNROLL
        for (uint n = 0; n < 2; n++) {
            float even_mark = marks[(depth * 2 + n) * 8].z, odd_mark = marks[(depth * 2 + n) * 8 + 1].z;
            UNROLL
            for (uint h = 0; h < 2; h++) {
                float4 four = scores[depth * 2 + n];
                float even = exp_near((h ? four.z : four.x) - sums->largest[h]);
                float odd = exp_near((h ? four.w : four.y) - sums->largest[h]);
                sums->total[h] = fma(even, even_mark, fma(odd, odd_mark, sums->total[h]));
                parts[n * 2 + h] = halves(even * 0x1p14f, odd * 0x1p14f);
            }
        }
        weights->of[depth][0] = (uint4)(parts[0].x, parts[1].x, parts[2].x, parts[3].x);
        weights->of[depth][1] = (uint4)(parts[0].y, parts[1].y, parts[2].y, parts[3].y);
    }
}

// sums = sums * factors + weights times the tile's values, whose own sums are short: the units cut them off.
INLINE void plain_values(const struct plain_weights *weights, __local const struct plain_space *space,
                         struct plain_sums *sums)
{
    enum { TOGETHER = 4 };
    uint lane = get_local_id(0) % 32;
    float4 factors = (float4)((float2)(weights->factors[0]), (float2)(weights->factors[1]));
    UNROLL
    for (uint first = 0; first < PLAIN_COLUMNS; first += TOGETHER) {
        float4 parts[TOGETHER];
        UNROLL
        for (uint n = 0; n < TOGETHER; n++)
            parts[n] = 0;
        UNROLL
        for (uint depth = 0; depth < PLAIN_DEPTHS; depth++) {
            uint4 values[TOGETHER];
            UNROLL
            for (uint n = 0; n < TOGETHER; n++)
                values[n] = space->values[((first + n) * PLAIN_DEPTHS + depth) * 32 + lane];
            UNROLL
            for (uint n = 0; n < TOGETHER; n++)
                mma(&parts[n], weights->of[depth][0], values[n].x, values[n].y);
            UNROLL
            for (uint n = 0; n < TOGETHER; n++)
                mma(&parts[n], weights->of[depth][1], values[n].x, values[n].y);
            UNROLL
            for (uint n = 0; n < TOGETHER; n++)
                mma(&parts[n], weights->of[depth][0], values[n].z, values[n].w);
        }
        UNROLL
        for (uint n = 0; n < TOGETHER; n++)
            sums->of[first + n] = fma(sums->of[first + n], factors, parts[n] * 0x1p-14f);
    }
}

// Row g's and row g + 8's, each if it is there.
INLINE void plain_put(const struct args_attention_plain *a, uint row, struct plain_sums *sums, __global float *out)
{
    uint j = get_local_id(0) % 4;
    UNROLL
    for (uint h = 0; h < 2; h++) {
        float total = sums->total[h];
        total += of_lane(total, 1);
        total += of_lane(total, 2);
        if (row + h * 8 >= a->n_rows)
            continue;
        __global float *to = out + (ulong)(row + h * 8) * a->n_heads * PLAIN_VALUE + j * 2;
        float by = 1 / total;
        UNROLL
        for (uint n = 0; n < PLAIN_COLUMNS; n++)
            *(__global float2 *)(to + n * 8) = (h ? sums->of[n].zw : sums->of[n].xy) * by;
    }
}

#if BUILD_PARTS & PART_PLAIN
// Groups: x over heads, y over PLAIN_ROWS rows each, the longest first. A tile of keys or of values comes while the
// warps compute with the other. Tiles lie at multiples of their size, and what a row doesn't see changes nothing of its
// sums.
__kernel GROUP_SIZE(PLAIN_ITEMS, 1) void attention_plain_mma(const struct args_attention_plain a, const struct tiling t,
                                                             __global const float *q, __global uint4 *tiles,
                                                             __global float *out)
{
    __local struct plain_space space;
    if (a.n_rows == 0)
        return;
    uint head = get_group_id(0), first = (get_num_groups(1) - 1 - get_group_id(1)) * PLAIN_ROWS;
    uint lane = get_local_id(0) % 32, row = first + get_local_id(0) / 32 * 16 + lane / 4, last = a.n_rows - 1;
    uint seen = a.position + min(first + PLAIN_ROWS - 1, last) + 1;
    uint own = row - lane / 4 > last ? 0 : a.position + min(row - lane / 4 + 15, last) + 1; // the warp's
    __global const uint4 *from = plain_tile_of(&t, tiles, head, 0), *rope = plain_rope_of(&a, &t, tiles, 0);
    struct plain_queries queries;
    q += (ulong)(a.first_head + head) * a.q_head_stride;
    __global const float *rows[2] = {q + (ulong)min(row, last) * a.q_row_stride,
                                     q + (ulong)min(row + 8, last) * a.q_row_stride};
    plain_load(rows, &queries);
    const float scale[2] = {queries.scale[0] * a.softmax_scale, queries.scale[1] * a.softmax_scale};
    struct plain_sums sums = {{0}, {-INFINITY, -INFINITY}, {0, 0}};
    UNROLL
    for (uint n = 0; n < PLAIN_COLUMNS; n++)
        sums.of[n] = 0;
    plain_copy_keys(&space, from, rope);
    for (uint tile = 0; tile * PLAIN_TILE < seen; tile++) {
        struct plain_weights weights;
        bool sees = tile * PLAIN_TILE < own;
        copies_wait();
        barrier(CLK_LOCAL_MEM_FENCE); // keys are there for all, and all are through with the values before
        plain_copy(space.values, from + PLAIN_PIECES + PLAIN_TILE, PLAIN_PIECES);
        if (sees) {
            float4 scores[PLAIN_EIGHTS];
            int ends[2] = {(int)(a.position + row + 1 - tile * PLAIN_TILE),
                           (int)(a.position + row + 9 - tile * PLAIN_TILE)};
            plain_scores(&queries, &space, scores);
            plain_softmax(scores, scale, ends, &space, &sums, &weights);
        }
        copies_wait();
        barrier(CLK_LOCAL_MEM_FENCE); // values are there for all, and all are through with the keys
        from += PLAIN_TILE_PIECES;
        rope += PLAIN_ROPE_PIECES;
        if ((tile + 1) * PLAIN_TILE < seen)
            plain_copy_keys(&space, from, rope);
        if (sees)
            plain_values(&weights, &space, &sums);
    }
    plain_put(&a, row, &sums, out + (ulong)(a.first_head + head) * PLAIN_VALUE);
}
#endif

#endif
