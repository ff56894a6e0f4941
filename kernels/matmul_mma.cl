// SPDX-License-Identifier: GPL-3.0-or-later
// NVIDIA's tensor cores: many rows of x times a matrix. Quanta are small whole numbers, exact in float16; x goes in as two
// halves, 22 bits, after a power of 2 per row and chunk that its largest sets. A chunk's sums are the units', its scales,
// biases and the sums of chunks are float32. In what order inputs are summed depends on none but their number, so tiles
// may have any size. Fragments as in mma.cl. Of each unit of 32 inputs lane j has the inputs 8j to 8j + 7, and two that
// stand in one register are four apart, as a word's nibbles are when they are masked two at a time. Of single kinds it has
// inputs 4j to 4j + 3 of either 16, for these may have a scale of their own, in the pairs that kind_pieces.cl says.
#if NVIDIA_MMA && !SHAPE_CPU

#define PRODUCT_CHUNK 64 // inputs
#define PRODUCT_ITEMS MATMUL_ITEMS
#define PRODUCT_MOST 8 // fragments of a warp: M * N
#define PRODUCT_PASSES(tokens) (((tokens) + 31) / 32)

#ifdef KIND
#define PRODUCT_SETS (32 / KIND_SCALES) // of a unit, each with a scale
#define PRODUCT_BIAS KIND_BIAS
#else
#define PRODUCT_SETS 1
#define PRODUCT_BIAS 1
#endif

struct product_weights {
    uint4 quanta[PRODUCT_OUTPUTS / 8][2][32]; // fragments of two steps, by unit; places as quanta_place says
    float scales[PRODUCT_OUTPUTS][2][PRODUCT_SETS];
    float biases[PRODUCT_OUTPUTS][2][PRODUCT_SETS];
#if PIECES
    uint table[TABLE_WORDS] __attribute__((aligned(8)));
#endif
};

struct product_tokens {
    uint2 x[2][2][2][2][32]; // by unit, step, half of the number and of the rows
    float scale[16];
    float sums[16][2][PRODUCT_SETS];
};

struct product_job {
    const struct args_matrix *m;
    const struct args_matrix *other; // of pairs: every second fragment's
    __global const uchar *matrix;
    __global const float *x;
    ulong x_stride;
    uint n_rows;
    uint n_outputs;
    uint first_row; // of the matrix: output 0's
    uint first_token;
    uint first_output;
    bool pairs;
    bool whole; // rows of x begin at multiples of 16 bytes
};

// What a work-item brings of a chunk, as it came: 8 inputs of a row in each pass, and a unit of a row of the matrix.
struct product_load {
    float4 low[2], high[2]; // of x
#if PIECES
    struct piece piece;
    uint n;
#elif defined(KIND)
    uint2 quanta[8];
    float2 scales[PRODUCT_SETS];
#else
    uint4 words[2];
    ushort scale, bias;
#endif
};

INLINE float4 four_floats(__global const float *from, bool whole)
{
    return whole ? *(__global const float4 *)from : vload4(0, from);
}

// Where the fragment's quanta of an output and lane j lie: so that neither storing nor loading meets a bank twice.
INLINE uint quanta_place(uint output, uint j)
{
    return output * 4 + (j ^ output / 2);
}

// 8 inputs of each token: a four and the next one, or the same one of the next 16.
INLINE void product_fetch_x(const struct product_job *job, uint first, const uint tokens, struct product_load *load)
{
    uint item = get_local_id(0);
#ifdef KIND
    const uint apart = 16;
    uint at = first + item / 4 % 2 * 32 + item % 4 * 4;
#else
    const uint apart = 4;
    uint at = first + item % 8 * 8;
#endif
    UNROLL
    for (uint pass = 0; pass < PRODUCT_PASSES(tokens); pass++) {
        uint token = job->first_token + pass * 32 + item / 8;
        __global const float *row = job->x + token * job->x_stride;
        bool there = token < job->n_rows && at < job->m->in_dim;
        load->low[pass] = load->high[pass] = 0;
        if (there) {
            load->low[pass] = four_floats(row + at, job->whole);
            load->high[pass] = four_floats(row + at + apart, job->whole);
        }
    }
}

#ifdef KIND
// A work-item's share of the weights: half of a chunk of 64 inputs of one output. Two that have the same output stand
// beside each other, for a row's bytes do, too.
INLINE uint product_output(void)
{
    return get_local_id(0) / 2;
}

INLINE uint product_share(void)
{
    return get_local_id(0) % 2;
}

INLINE struct kind_row product_row(const struct product_job *job)
{
    uint number = product_output();
    uint fragment = number / 8;
    uint output = job->first_output + (job->pairs ? fragment / 2 : fragment) * 8 + number % 8;
    bool second = job->pairs && fragment % 2;
    return kind_row_of(second ? job->other : job->m, job->matrix, job->first_row + min(output, job->n_outputs - 1));
}

#if PIECES
INLINE void product_fetch_weights(const struct product_job *job, uint first, struct product_load *load)
{
    uint chunk = first / PRODUCT_CHUNK;
#ifdef PIECE_STRIPES
    if (chunk % 2) // which the piece before has, too
        return;
    uint n = chunk + product_share();
#else
    uint n = PIECE_INPUTS == 64 ? chunk : chunk * 2 + product_share();
#endif
    struct kind_row row = product_row(job);
    load->n = min(n, job->m->in_dim / PIECE_INPUTS - 1);
    piece_load(&row, load->n, &load->piece);
#ifdef PIECE_TURNS
    piece_turn(&load->piece, product_share());
#endif
}

// A set of the output's piece: half of a unit.
INLINE void product_store_set(const struct product_load *load, const uint set, uint unit, uint half_of,
                              __local struct product_weights *weights)
{
    uint number = product_output();
    pair_t pairs[8];
    piece_set(&load->piece, load->n, set, weights->table, pairs);
    __local uint2 *quanta = (__local uint2 *)weights->quanta[number / 8][unit] + half_of;
    UNROLL
    for (uint f = 0; f < 4; f++)
        quanta[quanta_place(number % 8, f) * 2] = (uint2)(pairs[2 * f], pairs[2 * f + 1]);
    if (set % PIECE_TOGETHER < PIECE_TOGETHER - 1)
        return;
#ifdef PIECE_TURNS
    float2 scale = piece_scale(&load->piece, load->n, set + 2 * product_share());
#else
    float2 scale = piece_scale(&load->piece, load->n, set);
#endif
    weights->scales[number][unit][half_of % PRODUCT_SETS] = scale.x;
    weights->biases[number][unit][half_of % PRODUCT_SETS] = scale.y;
}

INLINE void product_store_weights(const struct product_job *job, uint first, const struct product_load *load,
                                  __local struct product_weights *weights)
{
    uint share = product_share();
    UNROLL
    for (uint i = 0; i < 2; i++) {
#ifdef PIECE_STRIPES
        if (first / PRODUCT_CHUNK % 2)
            product_store_set(load, 2 + i, i, share, weights);
        else
            product_store_set(load, i, i, share, weights);
#else
        product_store_set(load, i, share, i, weights);
#endif
    }
}
#else
// What has no pieces is taken apart when it comes: small numbers, exact in float16.
INLINE void product_fetch_weights(const struct product_job *job, uint first, struct product_load *load)
{
    struct kind_row row = product_row(job);
    uint unit = min(first / 32 + product_share(), job->m->in_dim / 32 - 1);
    UNROLL
    for (uint k = 0; k < 4; k++) {
        float8 q = kind_eight(&row, unit * 4 + k);
        load->quanta[2 * k] = (uint2)(halves(q.s0, q.s2).x, halves(q.s1, q.s3).x);
        load->quanta[2 * k + 1] = (uint2)(halves(q.s4, q.s6).x, halves(q.s5, q.s7).x);
    }
    UNROLL
    for (uint set = 0; set < PRODUCT_SETS; set++)
        load->scales[set] = kind_scale(&row, unit * 2 + set);
}

INLINE void product_store_weights(const struct product_job *job, uint first, const struct product_load *load,
                                  __local struct product_weights *weights)
{
    uint number = product_output(), unit = product_share();
    __local uint4 *quanta = weights->quanta[number / 8][unit];
    UNROLL
    for (uint f = 0; f < 4; f++)
        quanta[quanta_place(number % 8, f)] = (uint4)(load->quanta[f], load->quanta[4 + f]);
    UNROLL
    for (uint set = 0; set < PRODUCT_SETS; set++) {
        weights->scales[number][unit][set] = load->scales[set].x;
        weights->biases[number][unit][set] = load->scales[set].y;
    }
}
#endif
#else
INLINE void product_fetch_weights(const struct product_job *job, uint first, struct product_load *load)
{
    uint item = get_local_id(0);
    uint fragment = item / 16;
    uint output = job->first_output + (job->pairs ? fragment / 2 : fragment) * 8 + item / 2 % 8;
    bool second = job->pairs && fragment % 2;
    ulong row = job->first_row + min(output, job->n_outputs - 1);
    uint input = min(first + item % 2 * 32, job->m->in_dim - 32);
    ulong weight = second ? job->other->weight : job->m->weight;
    ulong scales = second ? job->other->scales : job->m->scales;
    ulong biases = second ? job->other->biases : job->m->biases;
    uint bits = bits_of(job->m);
    __global const uint *words = (__global const uint *)(job->matrix + weight) + (row * job->m->in_dim + input) / 32 * bits;
    bool aligned = ((ulong)words & 15) == 0;
    load->words[0] = aligned ? ((__global const uint4 *)words)[0] : vload4(0, words);
    if (bits == 8)
        load->words[1] = aligned ? ((__global const uint4 *)words)[1] : vload4(1, words);
    uint shift = 5 + group_size_of(job->m) / 64;
    ulong group = row * (job->m->in_dim >> shift) + (input >> shift);
    load->scale = ((__global const ushort *)(job->matrix + scales))[group];
    load->bias = ((__global const ushort *)(job->matrix + biases))[group];
}

// Two whole numbers below 1024 in the halves of a register, as float16.
INLINE uint whole_halves(uint both)
{
    uint numbers;
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(numbers) : "r"(both | 0x64006400u), "r"(0x64006400u));
    return numbers;
}

INLINE uint4 quanta_of_4(uint word)
{
    return (uint4)(whole_halves(word & 0x000f000fu), whole_halves(word >> 4 & 0x000f000fu),
                   whole_halves(word >> 8 & 0x000f000fu), whole_halves(word >> 12 & 0x000f000fu));
}

INLINE uint4 quanta_of_8(uint low, uint high)
{
    return (uint4)(whole_halves(pick(low, high, 0x0400) & 0x00ff00ffu), whole_halves(pick(low, high, 0x0501) & 0x00ff00ffu),
                   whole_halves(pick(low, high, 0x0602) & 0x00ff00ffu), whole_halves(pick(low, high, 0x0703) & 0x00ff00ffu));
}

INLINE void product_store_weights(const struct product_job *job, uint first, const struct product_load *load,
                                  __local struct product_weights *weights)
{
    uint item = get_local_id(0);
    __local uint4 *quanta = weights->quanta[item / 16][item % 2];
    uint output = item / 2 % 8;
    if (bits_of(job->m) == 4) {
        quanta[quanta_place(output, 0)] = quanta_of_4(load->words[0].x);
        quanta[quanta_place(output, 1)] = quanta_of_4(load->words[0].y);
        quanta[quanta_place(output, 2)] = quanta_of_4(load->words[0].z);
        quanta[quanta_place(output, 3)] = quanta_of_4(load->words[0].w);
    } else {
        quanta[quanta_place(output, 0)] = quanta_of_8(load->words[0].x, load->words[0].y);
        quanta[quanta_place(output, 1)] = quanta_of_8(load->words[0].z, load->words[0].w);
        quanta[quanta_place(output, 2)] = quanta_of_8(load->words[1].x, load->words[1].y);
        quanta[quanta_place(output, 3)] = quanta_of_8(load->words[1].z, load->words[1].w);
    }
    weights->scales[item / 2][item % 2][0] = bf16(load->scale);
    weights->biases[item / 2][item % 2][0] = bf16(load->bias);
}
#endif

// The sum of a row's four lanes.
INLINE float four_lanes(float4 four)
{
    float sum = (four.x + four.y) + (four.z + four.w);
    sum += of_lane(sum, 1);
    return sum + of_lane(sum, 2);
}

INLINE void product_store_x(const uint tokens, const struct product_load *load, __local struct product_tokens *space)
{
    uint item = get_local_id(0);
    uint unit = item / 4 % 2;
    UNROLL
    for (uint pass = 0; pass < PRODUCT_PASSES(tokens); pass++) {
        uint row = pass * 32 + item / 8;
        float4 low = load->low[pass], high = load->high[pass];
        float4 most = fmax(fabs(low), fabs(high));
        float largest = fmax(fmax(most.x, most.y), fmax(most.z, most.w));
        float sums[2];
        if (PRODUCT_SETS == 2) {
            sums[0] = four_lanes(low);
            sums[1] = four_lanes(high);
        } else {
            sums[0] = four_lanes(low + high);
        }
        largest = fmax(largest, of_lane(largest, 1));
        largest = fmax(largest, of_lane(largest, 2));
        largest = fmax(largest, of_lane(largest, 4));
        uint exponent = clamp(as_uint(largest) >> 23, 15u, 254u); // the largest becomes 2^14 and more
        float factor = as_float((268u - exponent) << 23);
        low *= factor;
        high *= factor;
#ifndef KIND
        uint2 parts[4] = {halves(low.x, high.x), halves(low.y, high.y), halves(low.z, high.z), halves(low.w, high.w)};
#elif PIECES && PIECE_NEIGHBOURS
        uint2 parts[4] = {halves(low.x, low.y), halves(low.z, low.w), halves(high.x, high.y), halves(high.z, high.w)};
#else
        uint2 parts[4] = {halves(low.x, low.z), halves(low.y, low.w), halves(high.x, high.z), halves(high.y, high.w)};
#endif
        if (row < tokens) {
            __local struct product_tokens *to = space + row / 16;
            uint lane = row % 8 * 4 + item % 4;
            to->x[unit][0][0][row / 8 % 2][lane] = (uint2)(parts[0].x, parts[1].x);
            to->x[unit][0][1][row / 8 % 2][lane] = (uint2)(parts[0].y, parts[1].y);
            to->x[unit][1][0][row / 8 % 2][lane] = (uint2)(parts[2].x, parts[3].x);
            to->x[unit][1][1][row / 8 % 2][lane] = (uint2)(parts[2].y, parts[3].y);
            to->scale[row % 16] = as_float((exponent - 14) << 23);
            UNROLL
            for (uint set = 0; set < PRODUCT_SETS; set++)
                to->sums[row % 16][unit][set] = sums[set];
        }
    }
}

// A warp's part of a tile: M fragments of 16 tokens, from `token` on, by N of 8 outputs, from `output` on.
struct product_warp {
    uint token, output; // fragments
};

// totals += the sums of a unit of the chunk or of a set of it, or, after the second unit, of both, where they have one
// scale.
INLINE void product_close(const struct product_warp *warp, const uint M, const uint N,
                          __local const struct product_weights *weights, __local const struct product_tokens *space,
                          uint unit, const uint set, bool both, float4 *sums, float4 *totals)
{
    uint lane = get_local_id(0) % 32;
    UNROLL
    for (uint i = 0; i < M; i++) {
        __local const struct product_tokens *from = space + warp->token + i;
        float2 scale = (float2)(from->scale[lane / 4], from->scale[lane / 4 + 8]);
        float2 x = (float2)(from->sums[lane / 4][unit][set], from->sums[lane / 4 + 8][unit][set]);
        if (both)
            x += (float2)(from->sums[lane / 4][unit - 1][set], from->sums[lane / 4 + 8][unit - 1][set]);
        UNROLL
        for (uint j = 0; j < N; j++) {
            uint output = (warp->output + j) * 8 + lane % 4 * 2;
            float2 scales = (float2)(weights->scales[output][unit][set], weights->scales[output + 1][unit][set]);
            float4 sum = sums[i * N + j] * (float4)((float2)(scale.x), (float2)(scale.y));
            totals[i * N + j] = fma(sum, (float4)(scales, scales), totals[i * N + j]);
            if (PRODUCT_BIAS) {
                float2 biases = (float2)(weights->biases[output][unit][set], weights->biases[output + 1][unit][set]);
                totals[i * N + j] =
                    fma((float4)((float2)(x.x), (float2)(x.y)), (float4)(biases, biases), totals[i * N + j]);
            }
        }
    }
}

INLINE void product_clear(float4 *sums)
{
    UNROLL
    for (uint i = 0; i < PRODUCT_MOST; i++)
        sums[i] = 0;
}

INLINE void product_add(const struct product_job *job, const struct product_warp *warp, const uint M, const uint N,
                        __local const struct product_weights *weights, __local const struct product_tokens *space,
                        float4 *totals)
{
    uint lane = get_local_id(0) % 32;
#ifdef KIND
    const bool both = false;
#else
    bool both = job->m->group_size > 32;
#endif
    float4 sums[PRODUCT_MOST];
    product_clear(sums);
    _Pragma("nounroll") // twice the code would keep sums in memory
    for (uint unit = 0; unit < 2; unit++) {
        uint4 quanta[4];
        UNROLL
        for (uint j = 0; j < N; j++)
            quanta[j] = weights->quanta[warp->output + j][unit][quanta_place(lane / 4, lane % 4)];
        UNROLL
        for (uint step = 0; step < 2; step++) {
            UNROLL
            for (uint i = 0; i < M; i++)
                UNROLL
                for (uint part = 0; part < 2; part++) {
                    uint2 upper = space[warp->token + i].x[unit][step][part][0][lane];
                    uint2 lower = space[warp->token + i].x[unit][step][part][1][lane];
                    uint4 a = (uint4)(upper.x, lower.x, upper.y, lower.y);
                    UNROLL
                    for (uint j = 0; j < N; j++)
                        mma(&sums[i * N + j], a, step ? quanta[j].z : quanta[j].x, step ? quanta[j].w : quanta[j].y);
                }
            if (PRODUCT_SETS == 2 || (step == 1 && (!both || unit == 1))) {
                product_close(warp, M, N, weights, space, unit, step % PRODUCT_SETS, both, sums, totals);
                product_clear(sums);
            }
        }
    }
}

INLINE void product_tile(struct product_job *job, const struct product_warp *warp, const uint tokens, const uint M,
                         const uint N, __local struct product_weights *weights, __local struct product_tokens *space,
                         float4 *totals)
{
    product_clear(totals);
#if PIECES
    table_fill(weights->table);
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
    struct product_load load;
    product_fetch_x(job, 0, tokens, &load);
    product_fetch_weights(job, 0, &load);
    for (uint first = 0; first < job->m->in_dim; first += PRODUCT_CHUNK) {
        product_store_x(tokens, &load, space);
        product_store_weights(job, first, &load, weights);
        barrier(CLK_LOCAL_MEM_FENCE);
        product_fetch_x(job, first + PRODUCT_CHUNK, tokens, &load);
        product_fetch_weights(job, first + PRODUCT_CHUNK, &load);
        product_add(job, warp, M, N, weights, space, totals);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

INLINE struct product_warp product_warp(const uint across, const uint M, const uint N)
{
    uint number = get_local_id(0) / 32;
    return (struct product_warp){number % across * M, number / across * N};
}

INLINE struct product_job product_job_of(const struct args_matrix *m, const struct args_matrix *other,
                                         const struct matmul_each *each, __global const uchar *matrix,
                                         __global const float *x, ulong x_stride, const uint tokens)
{
    bool pairs = m != other;
    struct product_job job = {m, other, matrix + each->behind, x + each->in_offset, x_stride, each->n_rows, m->out_dim};
    job.first_token = get_group_id(1) * tokens;
    job.first_output = get_group_id(0) * (pairs ? PRODUCT_OUTPUTS / 2 : PRODUCT_OUTPUTS);
    job.pairs = pairs;
    job.whole = ((ulong)job.x & 15) == 0 && x_stride % 4 == 0;
    return job;
}

INLINE float4 swiglu4(float4 gate, float4 up, float2 limits)
{
    return (float4)(swiglu(gate.x, up.x, limits), swiglu(gate.y, up.y, limits), swiglu(gate.z, up.z, limits),
                    swiglu(gate.w, up.w, limits));
}

INLINE void product_write(const struct product_job *job, const struct product_warp *warp, const uint M, const uint N,
                          float4 *totals, __global float *y, ulong stride, uint add)
{
    uint lane = get_local_id(0) % 32;
    UNROLL
    for (uint i = 0; i < M; i++)
        UNROLL
        for (uint half_of = 0; half_of < 2; half_of++) {
            uint r = job->first_token + (warp->token + i) * 16 + lane / 4 + half_of * 8;
            __global float *row = y + r * stride;
            UNROLL
            for (uint j = 0; j < N; j++) {
                uint o = job->first_output + (warp->output + j) * 8 + lane % 4 * 2;
                float2 two = half_of ? totals[i * N + j].zw : totals[i * N + j].xy;
                if (r < job->n_rows && o < job->n_outputs)
                    row[o] = add ? row[o] + two.x : two.x;
                if (r < job->n_rows && o + 1 < job->n_outputs)
                    row[o + 1] = add ? row[o + 1] + two.y : two.y;
            }
        }
}

// A tile of a matrix, or, of two, of silu(gate) * up: of two fragments beside each other the first is gate's, the second
// up's, of the same outputs.
INLINE void product(struct product_job *job, const uint across, const uint M, const uint N,
                    __local struct product_weights *weights, __local struct product_tokens *space, __global float *y,
                    ulong stride, uint add, float2 limits)
{
    struct product_warp warp = product_warp(across, M, N);
    float4 totals[PRODUCT_MOST];
    product_tile(job, &warp, 16 * across * M, M, N, weights, space, totals);
    if (!job->pairs) {
        product_write(job, &warp, M, N, totals, y, stride, add);
        return;
    }
    UNROLL
    for (uint i = 0; i < M; i++)
        UNROLL
        for (uint j = 0; j < N; j += 2)
            totals[i * N / 2 + j / 2] = swiglu4(totals[i * N + j], totals[i * N + j + 1], limits);
    warp.output /= 2;
    product_write(job, &warp, M, N / 2, totals, y, stride, 0);
}

// Groups: x over outputs, y over tokens, z over matrices. `across` warps share the tokens, M fragments each, the others
// the outputs, N each.
#define PRODUCT(name, args, first, second, add, limits, across, M, N)                                                  \
    __kernel GROUP_SIZE(PRODUCT_ITEMS, 1) void name(const struct args a, const struct tiling t,                        \
                                                    __global const uchar *matrices, __global const float *x,           \
                                                    __global float *y)                                                 \
    {                                                                                                                  \
        __local struct product_weights weights;                                                                        \
        __local struct product_tokens space[(across) * (M)];                                                           \
        struct matmul_each each = matmul_each_of(&a.at);                                                               \
        struct product_job job = product_job_of(&a.of.first, &a.of.second, &each, matrices, x, a.of.in_stride,         \
                                                16 * (across) * (M));                                                  \
        if (job.first_token < job.n_rows)                                                                              \
            product(&job, across, M, N, &weights, space, y + each.out_offset, a.of.out_stride, add, limits);           \
    }
#define PRODUCT_OF(name, across, M, N)                                                                                 \
    PRODUCT(matmul_mma_##name, args_matmul_each, matrix, matrix, a.of.add, NO_LIMITS, across, M, N)                    \
    PRODUCT(swiglu_mma_##name, args_swiglu_each, gate, up, 0, LIMITS(a.of), across, M, N)

#if USES & (USE_PRODUCTS | USE_EXPERTS)
PRODUCT_OF(16, 1, 1, 2)
PRODUCT_OF(32, 1, 2, 2)
PRODUCT_OF(64, 2, 2, 4)
#endif

// The heads' products for many rows. Groups: x over a head's outputs, y over tokens, z over heads.
#if USES & USE_HEADS
__kernel GROUP_SIZE(PRODUCT_ITEMS, 1) void heads_mma(const struct args_heads a, const struct tiling t,
                                                     __global const uchar *matrix, __global const float *x,
                                                     __global float *out)
{
    __local struct product_weights weights;
    __local struct product_tokens space[4];
    uint h = get_group_id(2);
    const struct matmul_each each = {0, a.n_rows, h * a.head_stride, 0};
    struct product_job job = product_job_of(&a.matrix, &a.matrix, &each, matrix, x, a.row_stride, 64);
    job.n_outputs = a.n_out;
    job.first_row = h * a.head_rows + a.first_row;
    if (job.first_token < job.n_rows)
        product(&job, 2, 2, 4, &weights, space, out + h * a.n_out, a.n_heads * a.n_out, 0, NO_LIMITS);
}
#endif

#endif
