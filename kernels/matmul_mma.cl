// SPDX-License-Identifier: GPL-3.0-or-later
// NVIDIA's tensor cores: a matrix times many rows of x. Quanta are small whole numbers, exact in float16; x goes in as two
// halves, 22 bits, after a power of 2 per row and chunk that its largest sets. A chunk's sums are the units', its scales,
// biases and the sums of chunks are float32. In what order inputs are summed depends on none but their number, so tiles
// may have any size.
//
// split_rows makes the halves once for all tiles, in the order of fragments (mma.cl): the matrix is A, 16 outputs a
// fragment, and x is B, 8 tokens. Of each unit of 32 inputs lane j has the inputs 8j to 8j + 7, and two that stand in one
// register are four apart, as a word's nibbles are when they are masked two at a time. Of single kinds it has inputs 4j
// to 4j + 3 of either 16, for these may have a scale of their own, in the pairs that kind_pieces.cl says.
#if NVIDIA_MMA && !SHAPE_CPU

#define PRODUCT_WARPS (PRODUCT_OUTPUTS / PRODUCT_WARP_OUTPUTS)
#define PRODUCT_FRAGMENTS (PRODUCT_WARP_OUTPUTS / 16)
#define PRODUCT_STEPS (PRODUCT_CHUNK / 16)
#define PRODUCT_PIECES (PRODUCT_STEPS * 4) // of a row's chunk: 16 bytes for a lane and a step, two halves

#ifdef KIND
#define PRODUCT_SETS (32 / KIND_SCALES) // of a unit, each with a scale
#define PRODUCT_BIAS KIND_BIAS
#else
#define PRODUCT_SETS 1
#define PRODUCT_BIAS 1
#endif
#define PRODUCT_SCALES (2 * PRODUCT_SETS) // of a chunk
#define PRODUCT_TAIL (!PRODUCT_BIAS ? 1 : PRODUCT_SETS == 2 ? 8 : 4) // floats that a chunk of x has besides

// ---- x in two halves

// The sum of a row's four lanes.
INLINE float four_lanes(float4 four)
{
    float sum = (four.x + four.y) + (four.z + four.w);
    sum += of_lane(sum, 1);
    return sum + of_lane(sum, 2);
}

INLINE float4 four_floats(__global const float *from, bool whole)
{
    return whole ? *(__global const float4 *)from : vload4(0, from);
}

struct split_each {
    ulong in_offset;
    uint n_rows, first;
};

INLINE struct split_each split_each_of(const struct args_split *a)
{
    uint h = a->head_stride ? get_group_id(1) : 0, k = get_group_id(1) - h;
    struct split_each found = {a->at.in_offset[k] + (ulong)h * a->head_stride, a->at.n_rows[k], 0};
    found.first = a->at.out_offset[k] + h * found.n_rows;
    return found;
}

// Where the tails begin, behind the pieces of t.scratch_stride chunks.
INLINE ulong tails_behind(const struct tiling *t)
{
    return (ulong)t->scratch_stride * (PRODUCT_PIECES * 4);
}

#if BUILD_PARTS & PART_ELEMENTS
// Groups: x over all chunks of the rows, y over matrices or heads. Eight work-items have a chunk: 8 inputs each, a four
// and the next one, or the same one of the next 16. A chunk's tail: a power of 2 that takes back what the chunk was divided by; the sums of its units, and of both; of single
// kinds those of its sets.
__kernel GROUP_SIZE(SPLIT_ITEMS, 1) void split_rows(const struct args_split a, const struct tiling t,
                                                    __global const float *x, __global float *parts)
{
    struct split_each each = split_each_of(&a);
    uint chunks = (a.dim + PRODUCT_CHUNK - 1) / PRODUCT_CHUNK;
    uint item = get_local_id(0);
    uint n = get_group_id(0) * (SPLIT_ITEMS / 8) + item / 8;
    uint row = n / max(chunks, 1u);
    uint unit = item / 4 % 2, j = item % 4;
#ifdef KIND
    const uint apart = 16;
    uint at = (n - row * chunks) * PRODUCT_CHUNK + unit * 32 + j * 4;
#else
    const uint apart = 4;
    uint at = (n - row * chunks) * PRODUCT_CHUNK + unit * 32 + j * 8;
#endif
    bool there = row < each.n_rows;
    float4 low = 0, high = 0;
    if (there && at < a.dim) {
        __global const float *from = x + each.in_offset + (ulong)row * a.in_stride + at;
        bool whole = ((ulong)from & 15) == 0;
        low = four_floats(from, whole);
        high = four_floats(from + apart, whole);
    }
    float4 most = fmax(fabs(low), fabs(high));
    float largest = fmax(fmax(most.x, most.y), fmax(most.z, most.w));
    float sums[2];
    sums[0] = PRODUCT_SETS == 2 ? four_lanes(low) : four_lanes(low + high);
    sums[1] = PRODUCT_SETS == 2 ? four_lanes(high) : of_lane(sums[0], 4);
    largest = fmax(largest, of_lane(largest, 1));
    largest = fmax(largest, of_lane(largest, 2));
    largest = fmax(largest, of_lane(largest, 4));
    uint exponent = clamp(as_uint(largest) >> 23, 15u, 254u); // the largest becomes 2^14 and more
    float factor = as_float((268u - exponent) << 23);
    low *= factor;
    high *= factor;
#ifndef KIND
    uint2 two[4] = {halves(low.x, high.x), halves(low.y, high.y), halves(low.z, high.z), halves(low.w, high.w)};
#elif PIECES && PIECE_NEIGHBOURS
    uint2 two[4] = {halves(low.x, low.y), halves(low.z, low.w), halves(high.x, high.y), halves(high.z, high.w)};
#else
    uint2 two[4] = {halves(low.x, low.z), halves(low.y, low.w), halves(high.x, high.z), halves(high.y, high.w)};
#endif
    if (!there)
        return;
    n += each.first * chunks;
    __global uint4 *to = (__global uint4 *)parts + (ulong)n * PRODUCT_PIECES + unit * 8 + j;
    to[0] = (uint4)(two[0].x, two[1].x, two[0].y, two[1].y);
    to[4] = (uint4)(two[2].x, two[3].x, two[2].y, two[3].y);
    __global float *tail = parts + tails_behind(&t) + (ulong)n * PRODUCT_TAIL;
    if (j == 0) {
        float scale = as_float((exponent - 14) << 23);
#if !PRODUCT_BIAS
        if (unit == 0)
            tail[0] = scale;
#elif PRODUCT_SETS == 2
        ((__global float2 *)tail)[unit] = (float2)(sums[0], sums[1]);
        if (unit == 0)
            tail[4] = scale;
#else
        if (unit == 0)
            *(__global float4 *)tail = (float4)(sums[0], sums[1], sums[1] + sums[0], scale);
#endif
    }
}
#endif

// ---- tiles

struct product_weights {
#if PRODUCT_BIAS
    float2 scales[PRODUCT_WARPS][PRODUCT_SCALES][PRODUCT_WARP_OUTPUTS]; // and biases
#else
    float scales[PRODUCT_WARPS][PRODUCT_SCALES][PRODUCT_WARP_OUTPUTS];
#endif
#ifdef KIND
    uint2 quanta[PRODUCT_WARPS][4][32] __attribute__((aligned(16))); // on their way to the lanes: of 16 outputs and two steps
#endif
#if PIECES
    uint table[TABLE_WORDS] __attribute__((aligned(8)));
#endif
};

// x's two chunks that a tile has at hand, one that is used and one that comes.
struct product_tokens {
    __local uint4 *pieces; // of a token, mixed as piece_place says
    __local float *tails;
};

struct product_job {
    const struct args_matrix *m;
    const struct args_matrix *other; // of pairs: every second eight outputs'
    __global const uchar *matrix;
    __global const uint4 *pieces;
    __global const float *tails;
    __local const uint *rows; // of those, of the tile's tokens
    uint chunks;
    uint n_tokens; // from the tile's first on
    uint n_outputs;
    uint first_row; // of the matrix: output 0's
    uint group_row; // of the group's first output
    uint first_token;
    uint first_output; // the warp's
    bool pairs;
};

// What a work-item brings of a chunk of the matrix, as it came.
struct product_load {
#if PIECES
    struct piece piece[PRODUCT_FRAGMENTS];
    uint n;
#elif defined(KIND)
    uint2 quanta[PRODUCT_FRAGMENTS][8];
    float2 scales[PRODUCT_FRAGMENTS][PRODUCT_SETS];
#else
    uint from[PRODUCT_FRAGMENTS][2];
    __global const ushort *scales_of, *biases_of;
    uint words[PRODUCT_FRAGMENTS][2][2]; // of outputs g and g + 8, by unit; of 8 bits the first halves
    ushort scales[2], biases[2];         // of the lane's output, by unit
#endif
};

// A warp's fragments of a chunk, by step.
struct product_quanta {
    uint4 of[PRODUCT_FRAGMENTS][PRODUCT_STEPS];
};

// Which row of which matrix is number r of the warp's outputs.
INLINE bool product_second(const struct product_job *job, uint r)
{
    return job->pairs && r / 8 % 2;
}

INLINE uint product_output(const struct product_job *job, uint r)
{
    return job->first_output + (job->pairs ? r / 16 * 8 + r % 8 : r);
}

INLINE uint product_row(const struct product_job *job, uint r)
{
    return job->first_row + min(product_output(job, r), job->n_outputs - 1);
}

// Where piece k of a token lies: lanes that load one step's of eight tokens meet no bank twice.
INLINE uint piece_place(uint token, uint k)
{
    return token * PRODUCT_PIECES + (k ^ token % 2 * 4);
}

// Begins to copy a chunk of x.
INLINE void product_fetch_x(const struct product_job *job, uint chunk, const uint tokens, struct product_tokens to)
{
    const uint together = PRODUCT_ITEMS / PRODUCT_PIECES; // tokens
    uint item = get_local_id(0), token = item / PRODUCT_PIECES, k = item % PRODUCT_PIECES;
    UNROLL
    for (uint i = 0; i < tokens; i += together)
        if (i < job->n_tokens)
            copy_16(to.pieces + piece_place(i + token, k),
                    job->pieces + (job->rows[i + token] * job->chunks + chunk) * PRODUCT_PIECES + k);
    const uint fours = (PRODUCT_TAIL + 3) / 4;
    if (item < tokens * fours) {
        token = item / fours;
        __global const float *tail = job->tails + (job->rows[token] * job->chunks + chunk) * PRODUCT_TAIL;
        if (PRODUCT_TAIL == 1)
            copy_4(to.tails + token, tail);
        else
            copy_16(to.tails + item * 4, tail + item % fours * 4);
    }
}

#ifdef KIND
// A work-item's share of a fragment of weights: half of a chunk of one output. Two that have the same output stand
// beside each other, for a row's bytes do, too.
INLINE uint product_number(void)
{
    return get_local_id(0) % 32 / 2;
}

INLINE uint product_share(void)
{
    return get_local_id(0) % 2;
}

INLINE struct kind_row product_kind_row(const struct product_job *job, const uint fragment)
{
    uint r = fragment * 16 + product_number();
    return kind_row_of(product_second(job, r) ? job->other : job->m, job->matrix, product_row(job, r));
}

INLINE void product_put_scale(__local struct product_weights *weights, const uint fragment, uint number, float2 scale)
{
    uint r = fragment * 16 + product_number();
#if PRODUCT_BIAS
    weights->scales[get_local_id(0) / 32][number][r] = scale;
#else
    weights->scales[get_local_id(0) / 32][number][r] = scale.x;
#endif
}

// Where the two steps of an output's quanta lie that lane j takes: so that neither storing nor loading meets a bank
// twice.
INLINE uint quanta_place(uint output, uint j)
{
    return (output ^ j * 2) * 2;
}

// Of 16 outputs two steps come from the lanes that have them, a share each, to those that multiply with them.
INLINE void product_put(__local struct product_weights *weights, const uint *pairs)
{
    UNROLL
    for (uint j = 0; j < 4; j++)
        weights->quanta[get_local_id(0) / 32][j][quanta_place(product_number(), j) + product_share()] =
            (uint2)(pairs[2 * j], pairs[2 * j + 1]);
}

INLINE void product_take(__local struct product_weights *weights, uint4 *first, uint4 *second)
{
    uint lane = get_local_id(0) % 32, g = lane / 4, j = lane % 4;
    __local const uint2 *from = weights->quanta[get_local_id(0) / 32][j];
    uint4 upper = *(__local const uint4 *)(from + quanta_place(g, j));
    uint4 lower = *(__local const uint4 *)(from + quanta_place(g + 8, j));
    *first = (uint4)(upper.x, lower.x, upper.y, lower.y);
    *second = (uint4)(upper.z, lower.z, upper.w, lower.w);
}

#if PIECES
INLINE void product_fetch_weights(const struct product_job *job, uint chunk, const bool both, struct product_load *load)
{
#ifdef PIECE_STRIPES
    if (chunk % 2) // which the piece before has, too
        return;
    uint n = chunk + product_share();
#else
    uint n = PIECE_INPUTS == 64 ? chunk : chunk * 2 + product_share();
#endif
    load->n = min(n, job->m->in_dim / PIECE_INPUTS - 1);
    UNROLL
    for (uint m = 0; m < PRODUCT_FRAGMENTS; m++) {
        struct kind_row row = product_kind_row(job, m);
        piece_load(&row, load->n, &load->piece[m]);
#ifdef PIECE_TURNS
        piece_turn(&load->piece[m], product_share());
#endif
    }
}

// A set of the piece, half of a unit.
INLINE void product_put_set(const struct product_load *load, const uint fragment, const uint set, uint unit,
                            uint half_of, __local struct product_weights *weights)
{
    const struct piece *piece = &load->piece[fragment];
    pair_t pairs[8];
    piece_set(piece, load->n, set, weights->table, pairs);
    product_put(weights, pairs);
    if (set % PIECE_TOGETHER < PIECE_TOGETHER - 1)
        return;
#ifdef PIECE_TURNS
    float2 scale = piece_scale(piece, load->n, set + 2 * product_share());
#else
    float2 scale = piece_scale(piece, load->n, set);
#endif
    scale.x *= PIECE_UNIT(set);
    product_put_scale(weights, fragment, unit * PRODUCT_SETS + half_of % PRODUCT_SETS, scale);
}

INLINE void product_make_quanta(const struct product_job *job, uint chunk, const bool both,
                                const struct product_load *load, __local struct product_weights *weights, struct product_quanta *quanta)
{
    uint share = product_share();
    UNROLL
    for (uint m = 0; m < PRODUCT_FRAGMENTS; m++)
        UNROLL
        for (uint i = 0; i < 2; i++) {
            warp_barrier();
#ifdef PIECE_STRIPES
            if (chunk % 2)
                product_put_set(load, m, 2 + i, i, share, weights);
            else
                product_put_set(load, m, i, i, share, weights);
            warp_barrier();
            product_take(weights, &quanta->of[m][2 * i], &quanta->of[m][2 * i + 1]);
#else
            product_put_set(load, m, i, share, i, weights);
            warp_barrier();
            product_take(weights, &quanta->of[m][i], &quanta->of[m][2 + i]);
#endif
        }
}
#else
// What has no pieces is taken apart when it comes: small numbers, exact in float16.
INLINE void product_fetch_weights(const struct product_job *job, uint chunk, const bool both, struct product_load *load)
{
    uint unit = min(chunk * 2 + product_share(), job->m->in_dim / 32 - 1);
    UNROLL
    for (uint m = 0; m < PRODUCT_FRAGMENTS; m++) {
        struct kind_row row = product_kind_row(job, m);
        UNROLL
        for (uint k = 0; k < 4; k++) {
            float8 q = kind_eight(&row, unit * 4 + k);
            load->quanta[m][2 * k] = (uint2)(halves(q.s0, q.s2).x, halves(q.s1, q.s3).x);
            load->quanta[m][2 * k + 1] = (uint2)(halves(q.s4, q.s6).x, halves(q.s5, q.s7).x);
        }
        UNROLL
        for (uint set = 0; set < PRODUCT_SETS; set++)
            load->scales[m][set] = kind_scale(&row, unit * 2 + set);
    }
}

INLINE void product_make_quanta(const struct product_job *job, uint chunk, const bool both,
                                const struct product_load *load, __local struct product_weights *weights, struct product_quanta *quanta)
{
    UNROLL
    for (uint m = 0; m < PRODUCT_FRAGMENTS; m++) {
        UNROLL
        for (uint i = 0; i < 2; i++) {
            const uint2 *q = load->quanta[m] + 4 * i;
            const uint pairs[8] = {q[0].x, q[0].y, q[1].x, q[1].y, q[2].x, q[2].y, q[3].x, q[3].y};
            warp_barrier();
            product_put(weights, pairs);
            warp_barrier();
            product_take(weights, &quanta->of[m][i], &quanta->of[m][2 + i]);
        }
        UNROLL
        for (uint set = 0; set < PRODUCT_SETS; set++)
            product_put_scale(weights, m, product_share() * PRODUCT_SETS + set, load->scales[m][set]);
    }
}
#endif
#else
// Where the words of the lane's outputs begin, behind those of the group's first output, and the scales and biases of the
// one that it brings them of.
INLINE void product_find(const struct product_job *job, struct product_load *load)
{
    uint lane = get_local_id(0) % 32, row_bytes = job->m->in_dim / 32 * bits_of(job->m) * 4;
    UNROLL
    for (uint m = 0; m < PRODUCT_FRAGMENTS; m++)
        UNROLL
        for (uint h = 0; h < 2; h++)
            load->from[m][h] = (product_row(job, m * 16 + h * 8 + lane / 4) - job->group_row) * row_bytes +
                               lane % 4 * bits_of(job->m);
    bool second = product_second(job, lane);
    ulong group = (ulong)product_row(job, lane) * (job->m->in_dim >> group_shift_of(job->m));
    load->scales_of = (__global const ushort *)(job->matrix + (second ? job->other->scales : job->m->scales)) + group;
    load->biases_of = (__global const ushort *)(job->matrix + (second ? job->other->biases : job->m->biases)) + group;
}

// A word of the lane's output g or g + 8, or of 8 bits the `word`-th of two.
INLINE uint product_word(const struct product_job *job, uint input, const struct product_load *load, const uint m,
                         const uint h, const uint word)
{
    uint bits = bits_of(job->m);
    __global const uchar *first = job->matrix + (job->pairs && h ? job->other->weight : job->m->weight) +
                                  (ulong)job->group_row * (job->m->in_dim / 32 * bits * 4) + input / 8 * bits;
    return ((__global const uint *)(first + load->from[m][h]))[word];
}

INLINE uint product_input(const struct product_job *job, uint chunk, const uint unit)
{
    return min(chunk * PRODUCT_CHUNK + unit * 32, job->m->in_dim - 32);
}

INLINE void product_fetch_weights(const struct product_job *job, uint chunk, const bool both, struct product_load *load)
{
    UNROLL
    for (uint unit = 0; unit < 2; unit++) {
        uint input = product_input(job, chunk, unit);
        UNROLL
        for (uint m = 0; m < PRODUCT_FRAGMENTS; m++)
            UNROLL
            for (uint h = 0; h < 2; h++)
                load->words[m][h][unit] = product_word(job, input, load, m, h, 0);
        if (unit == 0 || !both) {
            load->scales[unit] = load->scales_of[input >> group_shift_of(job->m)];
            load->biases[unit] = load->biases_of[input >> group_shift_of(job->m)];
        }
    }
}

// Two whole numbers below 1024 in the halves of a register, as float16.
INLINE uint whole_halves(uint word, const uint mask)
{
    return halves_sub(masked_under(word, mask, 0x64006400u), 0x64006400u);
}

INLINE uint4 quanta_of_4(uint word)
{
    return (uint4)(whole_halves(word, 0x000f000fu), whole_halves(word >> 4, 0x000f000fu),
                   whole_halves(word >> 8, 0x000f000fu), whole_halves(word >> 12, 0x000f000fu));
}

INLINE uint4 quanta_of_8(uint2 words)
{
    const uint mask = 0x00ff00ffu;
    return (uint4)(whole_halves(pick(words.x, words.y, 0x0400), mask), whole_halves(pick(words.x, words.y, 0x0501), mask),
                   whole_halves(pick(words.x, words.y, 0x0602), mask), whole_halves(pick(words.x, words.y, 0x0703), mask));
}

INLINE void product_make_quanta(const struct product_job *job, uint chunk, const bool both,
                                const struct product_load *load, __local struct product_weights *weights, struct product_quanta *quanta)
{
    bool four = bits_of(job->m) == 4;
    warp_barrier();
    UNROLL
    for (uint unit = 0; unit < 2; unit++) {
        if (unit == 0 || !both)
            weights->scales[get_local_id(0) / 32][unit][get_local_id(0) % 32] = (float2)(bf16(load->scales[unit]), bf16(load->biases[unit]));
        UNROLL
        for (uint m = 0; m < PRODUCT_FRAGMENTS; m++) {
            uint upper = load->words[m][0][unit], lower = load->words[m][1][unit];
            uint4 a, b;
            if (four) {
                a = quanta_of_4(upper);
                b = quanta_of_4(lower);
            } else { // the second halves are near now
                uint input = product_input(job, chunk, unit);
                a = quanta_of_8((uint2)(upper, product_word(job, input, load, m, 0, 1)));
                b = quanta_of_8((uint2)(lower, product_word(job, input, load, m, 1, 1)));
            }
            quanta->of[m][2 * unit] = (uint4)(a.x, b.x, a.y, b.y);
            quanta->of[m][2 * unit + 1] = (uint4)(a.z, b.z, a.w, b.w);
        }
    }
}
#endif

// Of a warp's outputs and two fragments of 8 tokens: sums of a chunk, or of what of it has one scale.
struct product_sums {
    float4 of[PRODUCT_FRAGMENTS][2];
};

INLINE void product_clear(struct product_sums *sums)
{
    UNROLL
    for (uint m = 0; m < PRODUCT_FRAGMENTS; m++)
        sums->of[m][0] = sums->of[m][1] = 0;
}

// totals += sums, from token `first` of the tile on. `number`: of the scale in the chunk; `both` units have it.
INLINE void product_close(__local const struct product_weights *weights, __local const float *tails, uint first,
                          const uint number, const bool both, const struct product_sums *sums,
                          struct product_sums *totals)
{
    uint lane = get_local_id(0) % 32;
    UNROLL
    for (uint u = 0; u < 2; u++) {
        __local const float *tail = tails + (first + u * 8 + lane % 4 * 2) * PRODUCT_TAIL;
        const uint own = PRODUCT_BIAS ? PRODUCT_TAIL == 8 ? 4 : 3 : 0;
        float4 scale = (float4)((float2)(tail[own], tail[own + PRODUCT_TAIL]), (float2)(tail[own], tail[own + PRODUCT_TAIL]));
        UNROLL
        for (uint m = 0; m < PRODUCT_FRAGMENTS; m++) {
            float4 sum = sums->of[m][u] * scale;
#if PRODUCT_BIAS
            const uint at = both ? 2 : number;
            float4 x = (float4)((float2)(tail[at], tail[at + PRODUCT_TAIL]), (float2)(tail[at], tail[at + PRODUCT_TAIL]));
            float2 upper = weights->scales[get_local_id(0) / 32][number][m * 16 + lane / 4];
            float2 lower = weights->scales[get_local_id(0) / 32][number][m * 16 + lane / 4 + 8];
            float4 total = fma(sum, (float4)((float2)(upper.x), (float2)(lower.x)), totals->of[m][u]);
            totals->of[m][u] = fma(x, (float4)((float2)(upper.y), (float2)(lower.y)), total);
#else
            float upper = weights->scales[get_local_id(0) / 32][number][m * 16 + lane / 4];
            float lower = weights->scales[get_local_id(0) / 32][number][m * 16 + lane / 4 + 8];
            totals->of[m][u] = fma(sum, (float4)((float2)(upper), (float2)(lower)), totals->of[m][u]);
#endif
        }
    }
}

// A chunk's products of 16 tokens, from `first` of the tile on.
INLINE void product_add(const struct product_job *job, const struct product_quanta *quanta,
                        __local const struct product_weights *weights, struct product_tokens from, uint first,
                        const bool both, struct product_sums *totals)
{
    uint lane = get_local_id(0) % 32;
    struct product_sums sums;
    product_clear(&sums);
    UNROLL
    for (uint step = 0; step < PRODUCT_STEPS; step++) {
        uint4 x[2];
        UNROLL
        for (uint u = 0; u < 2; u++)
            x[u] = from.pieces[piece_place(first + u * 8 + lane / 4, step * 4 + lane % 4)];
        UNROLL
        for (uint part = 0; part < 2; part++)
            UNROLL
            for (uint u = 0; u < 2; u++)
                UNROLL
                for (uint m = 0; m < PRODUCT_FRAGMENTS; m++)
                    mma(&sums.of[m][u], quanta->of[m][step], part ? x[u].z : x[u].x, part ? x[u].w : x[u].y);
        if (PRODUCT_SETS == 2) {
            product_close(weights, from.tails, first, step, false, &sums, totals);
            product_clear(&sums);
        } else if (step % 2 && !both) {
            product_close(weights, from.tails, first, step / 2, false, &sums, totals);
            product_clear(&sums);
        }
    }
    if (both)
        product_close(weights, from.tails, first, 0, true, &sums, totals);
}

// `both`: the two units of a chunk have one scale. Whole tiles have no branches between their tokens.
#define PRODUCT_ADD(t) product_add(job, &quanta, weights, from, t * 16, both, &totals[t]);
INLINE void product_tile(const struct product_job *job, const uint tokens, const bool both,
                         __local struct product_weights *weights, struct product_tokens space,
                         struct product_sums *totals)
{
    struct product_load load;
#ifndef KIND
    product_find(job, &load);
#endif
    product_fetch_x(job, 0, tokens, space);
    product_fetch_weights(job, 0, both, &load);
    for (uint chunk = 0; chunk < job->chunks; chunk++) {
        struct product_quanta quanta;
        product_make_quanta(job, chunk, both, &load, weights, &quanta);
        copies_wait();
        barrier(CLK_LOCAL_MEM_FENCE); // the chunk is there for all, and all are through with the one before
        uint now = chunk % 2, next = 1 - now;
        struct product_tokens to = {space.pieces + next * tokens * PRODUCT_PIECES, space.tails + next * tokens * PRODUCT_TAIL};
        struct product_tokens from = {space.pieces + now * tokens * PRODUCT_PIECES, space.tails + now * tokens * PRODUCT_TAIL};
        if (chunk + 1 < job->chunks)
            product_fetch_x(job, chunk + 1, tokens, to);
        product_fetch_weights(job, min(chunk + 1, job->chunks - 1), both, &load);
        if (tokens == 16) {
            PRODUCT_ADD(0)
        } else if (tokens == 32) {
            PRODUCT_ADD(0)
            PRODUCT_ADD(1)
        } else if (job->n_tokens > 48) {
            PRODUCT_ADD(0)
            PRODUCT_ADD(1)
            PRODUCT_ADD(2)
            PRODUCT_ADD(3)
        } else {
            PRODUCT_ADD(0)
            if (job->n_tokens > 16)
                PRODUCT_ADD(1)
            if (job->n_tokens > 32)
                PRODUCT_ADD(2)
        }
    }
}

struct product_x {
    __global const float *parts;
    __global const uint *index; // or 0
    uint first;                 // row of them, or number of the index
};

// Which rows of x the tile's tokens are; those behind the last are it, too.
INLINE void product_rows(const struct product_x *x, uint n_rows, const uint tokens, __local uint *rows)
{
    uint first = get_group_id(1) * tokens, item = get_local_id(0);
    if (item < tokens && first < n_rows) {
        uint row = x->first + min(first + item, n_rows - 1);
        rows[item] = x->index ? x->index[row] : row;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

INLINE struct product_job product_job_of(const struct args_matrix *m, const struct args_matrix *other,
                                         __global const uchar *matrix, const struct tiling *t,
                                         __global const float *parts, uint n_rows, const uint tokens)
{
    struct product_job job = {m, other, matrix};
    job.pairs = m != other;
    job.chunks = (m->in_dim + PRODUCT_CHUNK - 1) / PRODUCT_CHUNK;
    job.first_token = get_group_id(1) * tokens;
    job.pieces = (__global const uint4 *)parts;
    job.tails = parts + tails_behind(t);
    job.n_tokens = n_rows - min(n_rows, job.first_token);
    job.n_outputs = m->out_dim;
    uint outputs = job.pairs ? PRODUCT_WARP_OUTPUTS / 2 : PRODUCT_WARP_OUTPUTS;
    job.group_row = get_group_id(0) * PRODUCT_WARPS * outputs;
    job.first_output = job.group_row + get_local_id(0) / 32 * outputs;
    return job;
}

// Two tokens' of one output.
INLINE void product_write(const struct product_job *job, uint token, uint output, float2 two, __global float *y,
                          ulong stride, uint add)
{
    __global float *to = y + (ulong)(job->first_token + token) * stride + output;
    if (output >= job->n_outputs)
        return;
    if (token < job->n_tokens)
        to[0] = add ? to[0] + two.x : two.x;
    if (token + 1 < job->n_tokens)
        to[stride] = add ? to[stride] + two.y : two.y;
}

// Of two tokens' gates and ups.
INLINE float2 swiglu2(float4 both, float2 limits)
{
    return (float2)(swiglu(both.x, both.z, limits), swiglu(both.y, both.w, limits));
}

// A tile of a matrix, or, of two, of silu(gate) * up: of the warp's outputs eight are gate's and the next eight up's, of
// the same outputs.
INLINE void product(const struct product_job *job, const uint tokens, __local struct product_weights *weights,
                    struct product_tokens space, __global float *y, ulong stride, uint add, float2 limits)
{
    struct product_sums totals[PRODUCT_MOST_TOKENS / 16];
    product_clear(&totals[0]);
    product_clear(&totals[1]);
    product_clear(&totals[2]);
    product_clear(&totals[3]);
#if PIECES
    table_fill(weights->table);
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
#ifndef KIND
    if (job->m->group_size > 32)
        product_tile(job, tokens, true, weights, space, totals);
    else
#endif
        product_tile(job, tokens, false, weights, space, totals);
    uint lane = get_local_id(0) % 32;
    UNROLL
    for (uint t = 0; t < tokens / 16; t++)
        UNROLL
        for (uint u = 0; u < 2; u++)
            UNROLL
            for (uint m = 0; m < PRODUCT_FRAGMENTS; m++) {
                float4 four = totals[t].of[m][u];
                uint token = t * 16 + u * 8 + lane % 4 * 2, output = product_output(job, m * 16 + lane / 4);
                if (job->pairs) {
                    product_write(job, token, output, swiglu2(four, limits), y, stride, 0);
                } else {
                    product_write(job, token, output, four.xy, y, stride, add);
                    product_write(job, token, output + 8, four.zw, y, stride, add);
                }
            }
}

#define PRODUCT_SPACE(tokens)                                                                                          \
    __local struct product_weights weights;                                                                            \
    __local uint4 pieces[2 * (tokens) * PRODUCT_PIECES];                                                               \
    __local float tails[2 * (tokens) * PRODUCT_TAIL] __attribute__((aligned(16)));                                     \
    __local uint rows[tokens];                                                                                         \
    struct product_tokens space = {pieces, tails};

// Groups: x over outputs, y over tokens, z over matrices.
#define PRODUCT(name, args, one, two, pairs, add, limits, tokens, taken, indexed)                                             \
    __kernel GROUP_SIZE(PRODUCT_ITEMS, 1) void name(const struct args a, const struct tiling t,                        \
                                                    __global const uchar *matrices, __global const float *parts,       \
                                                    __global float *y taken)                                           \
    {                                                                                                                  \
        PRODUCT_SPACE(tokens)                                                                                          \
        struct matmul_each each = matmul_each_of(&a.at);                                                               \
        struct product_x x = {parts, indexed, each.in_offset};                                                         \
        const struct args_matrix first = a.of.one, second = a.of.two; /* an index of `a` wants no address of it */     \
        struct product_job job = product_job_of(&first, pairs ? &second : &first, matrices + each.behind, &t, parts,   \
                                                each.n_rows, tokens);                                                  \
        product_rows(&x, each.n_rows, tokens, rows);                                                                   \
        job.rows = rows;                                                                                               \
        if (job.n_tokens > 0)                                                                                          \
            product(&job, tokens, &weights, space, y + each.out_offset, a.of.out_stride, add, limits);                 \
    }
#define AND_INDEX , __global const uint *index
#define NO_MORE
#define PRODUCT_OF(tokens)                                                                                             \
    PRODUCT(matmul_mma_##tokens, args_matmul_each, matrix, matrix, 0, a.of.add, NO_LIMITS, tokens, NO_MORE, 0)
#define GATES_OF(tokens)                                                                                               \
    PRODUCT(swiglu_mma_##tokens, args_swiglu_each, gate, up, 1, 0, LIMITS(a.of), tokens, AND_INDEX, a.of.indexed ? index : 0)

#if USES & (USE_PRODUCTS | USE_EXPERTS) && BUILD_PARTS & PART_PRODUCTS
PRODUCT_OF(16)
PRODUCT_OF(32)
PRODUCT_OF(64)
#endif
#if USES & (USE_PRODUCTS | USE_EXPERTS) && BUILD_PARTS & PART_PAIRS
GATES_OF(16)
GATES_OF(32)
GATES_OF(64)
#endif

// The heads' products for many rows. Groups: x over a head's outputs, y over tokens, z over heads.
#if USES & USE_HEADS && BUILD_PARTS & PART_HEADS
__kernel GROUP_SIZE(PRODUCT_ITEMS, 1) void heads_mma(const struct args_heads a, const struct tiling t,
                                                     __global const uchar *matrix, __global const float *parts,
                                                     __global float *out)
{
    PRODUCT_SPACE(PRODUCT_HEAD_TOKENS)
    uint h = get_group_id(2);
    struct product_x x = {parts, 0, h * a.n_rows};
    struct product_job job = product_job_of(&a.matrix, &a.matrix, matrix, &t, parts, a.n_rows, PRODUCT_HEAD_TOKENS);
    product_rows(&x, a.n_rows, PRODUCT_HEAD_TOKENS, rows);
    job.rows = rows;
    job.n_outputs = a.n_out;
    job.first_row = h * a.head_rows + a.first_row;
    job.group_row += job.first_row;
    if (job.n_tokens > 0)
        product(&job, PRODUCT_HEAD_TOKENS, &weights, space, out + h * a.n_out, (ulong)a.n_heads * a.n_out, 0, NO_LIMITS);
}
#endif

#endif
