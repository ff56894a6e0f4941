// SPDX-License-Identifier: GPL-3.0-or-later
// NVIDIA's tensor cores: many rows of x times a matrix. Quanta are small whole numbers, exact in float16; x goes in as two
// halves, 22 bits, after a power of 2 per row and chunk that its largest sets. A chunk's sums are the units', its scales,
// biases and the sums of chunks are float32. In what order inputs are summed depends on none but their number, so tiles
// may have any size. Fragments as in attention_mma.cl: of each unit of 32 inputs lane j has the inputs 8j to 8j + 7, and two
// that stand in one register are four apart, as a word's nibbles are when they are masked two at a time.
#if NVIDIA_MMA

#define PRODUCT_CHUNK 64 // inputs
#define PRODUCT_ITEMS MATMUL_ITEMS
#define PRODUCT_MOST 8 // fragments of a warp: M * N
#define PRODUCT_PASSES(tokens) (((tokens) + 31) / 32)

struct product_weights {
    uint4 quanta[PRODUCT_OUTPUTS / 8][2][32]; // fragments of two steps, by unit
    float scales[PRODUCT_OUTPUTS][2];
    float biases[PRODUCT_OUTPUTS][2];
};

struct product_tokens {
    uint2 x[2][2][2][2][32]; // by unit, step, half of the number and of the rows
    float scale[16];
    float sums[16][2];
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
    float8 x[2];
    uint4 words[2];
    ushort scale, bias;
};

INLINE float8 eight_of(__global const float *from, bool whole)
{
    if (whole) // 16 bytes at a time
        return (float8)(((__global const float4 *)from)[0], ((__global const float4 *)from)[1]);
    return vload8(0, from);
}

INLINE struct product_load product_fetch(const struct product_job *job, uint first, const uint tokens)
{
    struct product_load load;
    uint item = get_local_id(0);
    uint at = first + item % 8 * 8;
    UNROLL
    for (uint pass = 0; pass < PRODUCT_PASSES(tokens); pass++) {
        uint token = job->first_token + pass * 32 + item / 8;
        __global const float *row = job->x + token * job->x_stride;
        bool there = token < job->n_rows && at < job->m->in_dim;
        load.x[pass] = 0;
        if (there)
            load.x[pass] = eight_of(row + at, job->whole);
    }
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
    load.words[0] = (uint4)(words[0], words[1], words[2], words[3]);
    if (bits == 8)
        load.words[1] = (uint4)(words[4], words[5], words[6], words[7]);
    uint shift = 5 + group_size_of(job->m) / 64;
    ulong group = row * (job->m->in_dim >> shift) + (input >> shift);
    load.scale = ((__global const ushort *)(job->matrix + scales))[group];
    load.bias = ((__global const ushort *)(job->matrix + biases))[group];
    return load;
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

INLINE void product_store(const struct product_job *job, const uint tokens, const struct product_load *load,
                          __local struct product_weights *weights, __local struct product_tokens *space)
{
    uint item = get_local_id(0);
    uint unit = item / 4 % 2;
    UNROLL
    for (uint pass = 0; pass < PRODUCT_PASSES(tokens); pass++) {
        uint row = pass * 32 + item / 8;
        float4 low = load->x[pass].lo, high = load->x[pass].hi;
        float4 most = fmax(fabs(low), fabs(high));
        float largest = fmax(fmax(most.x, most.y), fmax(most.z, most.w));
        float sum = ((low.x + high.x) + (low.y + high.y)) + ((low.z + high.z) + (low.w + high.w));
        largest = fmax(largest, of_lane(largest, 1));
        largest = fmax(largest, of_lane(largest, 2));
        largest = fmax(largest, of_lane(largest, 4));
        sum += of_lane(sum, 1);
        sum += of_lane(sum, 2);
        uint exponent = clamp(as_uint(largest) >> 23, 15u, 254u); // the largest becomes 2^14 and more
        float factor = as_float((268u - exponent) << 23);
        low *= factor;
        high *= factor;
        uint2 parts[4] = {halves(low.x, high.x), halves(low.y, high.y), halves(low.z, high.z), halves(low.w, high.w)};
        if (row < tokens) {
            __local struct product_tokens *to = space + row / 16;
            uint lane = row % 8 * 4 + item % 4;
            to->x[unit][0][0][row / 8 % 2][lane] = (uint2)(parts[0].x, parts[1].x);
            to->x[unit][0][1][row / 8 % 2][lane] = (uint2)(parts[0].y, parts[1].y);
            to->x[unit][1][0][row / 8 % 2][lane] = (uint2)(parts[2].x, parts[3].x);
            to->x[unit][1][1][row / 8 % 2][lane] = (uint2)(parts[2].y, parts[3].y);
            to->scale[row % 16] = as_float((exponent - 14) << 23);
            to->sums[row % 16][unit] = sum;
        }
    }
    __local uint4 *quanta = weights->quanta[item / 16][item % 2] + item / 2 % 8 * 4;
    if (bits_of(job->m) == 4) {
        quanta[0] = quanta_of_4(load->words[0].x);
        quanta[1] = quanta_of_4(load->words[0].y);
        quanta[2] = quanta_of_4(load->words[0].z);
        quanta[3] = quanta_of_4(load->words[0].w);
    } else {
        quanta[0] = quanta_of_8(load->words[0].x, load->words[0].y);
        quanta[1] = quanta_of_8(load->words[0].z, load->words[0].w);
        quanta[2] = quanta_of_8(load->words[1].x, load->words[1].y);
        quanta[3] = quanta_of_8(load->words[1].z, load->words[1].w);
    }
    weights->scales[item / 2][item % 2] = bf16(load->scale);
    weights->biases[item / 2][item % 2] = bf16(load->bias);
}

// A warp's part of a tile: M fragments of 16 tokens, from `token` on, by N of 8 outputs, from `output` on.
struct product_warp {
    uint token, output; // fragments
};

// totals += the sums of a unit of the chunk, or, after the second, of both, where they have one scale.
INLINE void product_close(const struct product_warp *warp, const uint M, const uint N,
                          __local const struct product_weights *weights, __local const struct product_tokens *space,
                          uint unit, bool both, float4 *sums, float4 *totals)
{
    uint lane = get_local_id(0) % 32;
    UNROLL
    for (uint i = 0; i < M; i++) {
        __local const struct product_tokens *from = space + warp->token + i;
        float2 scale = (float2)(from->scale[lane / 4], from->scale[lane / 4 + 8]);
        float2 x = (float2)(from->sums[lane / 4][unit], from->sums[lane / 4 + 8][unit]);
        if (both)
            x += (float2)(from->sums[lane / 4][unit - 1], from->sums[lane / 4 + 8][unit - 1]);
        UNROLL
        for (uint j = 0; j < N; j++) {
            uint output = (warp->output + j) * 8 + lane % 4 * 2;
            float2 scales = (float2)(weights->scales[output][unit], weights->scales[output + 1][unit]);
            float2 biases = (float2)(weights->biases[output][unit], weights->biases[output + 1][unit]);
            float4 sum = sums[i * N + j] * (float4)((float2)(scale.x), (float2)(scale.y));
            float4 total = fma(sum, (float4)(scales, scales), totals[i * N + j]);
            totals[i * N + j] = fma((float4)((float2)(x.x), (float2)(x.y)), (float4)(biases, biases), total);
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
    bool both = job->m->group_size > 32;
    float4 sums[PRODUCT_MOST];
    product_clear(sums);
    _Pragma("nounroll") // twice the code would keep sums in memory
    for (uint unit = 0; unit < 2; unit++) {
        uint4 quanta[4];
        UNROLL
        for (uint j = 0; j < N; j++)
            quanta[j] = weights->quanta[warp->output + j][unit][lane];
        UNROLL
        for (uint step = 0; step < 2; step++)
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
        if (!both || unit == 1) {
            product_close(warp, M, N, weights, space, unit, both, sums, totals);
            product_clear(sums);
        }
    }
}

INLINE void product_tile(struct product_job *job, const struct product_warp *warp, const uint tokens, const uint M,
                         const uint N, __local struct product_weights *weights, __local struct product_tokens *space,
                         float4 *totals)
{
    job->whole = ((ulong)job->x & 15) == 0 && job->x_stride % 4 == 0;
    product_clear(totals);
    struct product_load load = product_fetch(job, 0, tokens);
    for (uint first = 0; first < job->m->in_dim; first += PRODUCT_CHUNK) {
        product_store(job, tokens, &load, weights, space);
        barrier(CLK_LOCAL_MEM_FENCE);
        load = product_fetch(job, first + PRODUCT_CHUNK, tokens);
        product_add(job, warp, M, N, weights, space, totals);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

INLINE struct product_warp product_warp(const uint across, const uint M, const uint N)
{
    uint number = get_local_id(0) / 32;
    return (struct product_warp){number % across * M, number / across * N};
}

// Groups: x over outputs, y over tokens, z over matrices. `across` warps share the tokens, M fragments each, the others
// the outputs, N each.
#define PRODUCT(name, across, M, N)                                                                                    \
    __kernel GROUP_SIZE(PRODUCT_ITEMS, 1) void name(const struct args_matmul_each a, const struct tiling t,            \
                                                    __global const uchar *matrix, __global const float *x,             \
                                                    __global float *y)                                                 \
    {                                                                                                                  \
        __local struct product_weights weights;                                                                        \
        __local struct product_tokens space[(across) * (M)];                                                           \
        struct matmul_each each = matmul_each_of(&a.at);                                                               \
        uint first_token = get_group_id(1) * 16 * (across) * (M);                                                      \
        if (first_token >= each.n_rows)                                                                                \
            return;                                                                                                    \
        struct product_job job = {&a.of.matrix, &a.of.matrix,         matrix + each.behind, x + each.in_offset,        \
                                  a.of.in_stride, each.n_rows,        a.of.matrix.out_dim,  0,                         \
                                  first_token,    get_group_id(0) * PRODUCT_OUTPUTS, false};                           \
        struct product_warp warp = product_warp(across, M, N);                                                         \
        float4 totals[PRODUCT_MOST];                                                                                         \
        product_tile(&job, &warp, 16 * (across) * (M), M, N, &weights, space, totals);                                 \
        product_write(&job, &warp, M, N, totals, y + each.out_offset, a.of.out_stride, a.of.add);                      \
    }

INLINE float4 silu4(float4 x)
{
    return (float4)(silu(x.x), silu(x.y), silu(x.z), silu(x.w));
}

// y[r][o] = silu(gate) * up: of two fragments beside each other the first is gate's, the second up's, of the same outputs.
#define PRODUCT_SWIGLU(name, across, M, N)                                                                             \
    __kernel GROUP_SIZE(PRODUCT_ITEMS, 1) void name(const struct args_swiglu_each a, const struct tiling t,            \
                                                    __global const uchar *matrices, __global const float *x,           \
                                                    __global float *y)                                                 \
    {                                                                                                                  \
        __local struct product_weights weights;                                                                        \
        __local struct product_tokens space[(across) * (M)];                                                           \
        struct matmul_each each = matmul_each_of(&a.at);                                                               \
        uint first_token = get_group_id(1) * 16 * (across) * (M);                                                      \
        if (first_token >= each.n_rows)                                                                                \
            return;                                                                                                    \
        struct product_job job = {&a.of.gate,     &a.of.up,    matrices + each.behind, x + each.in_offset,             \
                                  a.of.in_stride, each.n_rows, a.of.gate.out_dim,      0,                              \
                                  first_token,    get_group_id(0) * (PRODUCT_OUTPUTS / 2), true};                      \
        struct product_warp warp = product_warp(across, M, N);                                                         \
        float4 totals[PRODUCT_MOST];                                                                                         \
        product_tile(&job, &warp, 16 * (across) * (M), M, N, &weights, space, totals);                                 \
        UNROLL                                                                                                         \
        for (uint i = 0; i < (M); i++)                                                                                 \
            UNROLL                                                                                                     \
            for (uint j = 0; j < (N); j += 2)                                                                          \
                totals[i * (N) / 2 + j / 2] = silu4(totals[i * N + j]) * totals[i * (N) + j + 1];                                             \
        warp.output /= 2;                                                                                              \
        product_write(&job, &warp, M, (N) / 2, totals, y + each.out_offset, a.of.out_stride, 0);                       \
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

PRODUCT(matmul_mma_16, 1, 1, 2)
PRODUCT(matmul_mma_32, 1, 2, 2)
PRODUCT(matmul_mma_64, 2, 2, 4)
PRODUCT_SWIGLU(swiglu_mma_16, 1, 1, 2)
PRODUCT_SWIGLU(swiglu_mma_32, 1, 2, 2)
PRODUCT_SWIGLU(swiglu_mma_64, 2, 2, 4)

// The heads' products for many rows. Groups: x over a head's outputs, y over tokens, z over heads.
__kernel GROUP_SIZE(PRODUCT_ITEMS, 1) void heads_mma(const struct args_heads a, const struct tiling t,
                                                     __global const uchar *matrix, __global const float *x,
                                                     __global float *out)
{
    __local struct product_weights weights;
    __local struct product_tokens space[4];
    uint h = get_group_id(2);
    uint first_token = get_group_id(1) * 64;
    if (first_token >= a.n_rows)
        return;
    struct product_job job = {&a.matrix, &a.matrix, matrix, x + h * a.head_stride, a.row_stride, a.n_rows, a.n_out,
                              h * a.head_rows + a.first_row, first_token, get_group_id(0) * PRODUCT_OUTPUTS, false};
    struct product_warp warp = product_warp(2, 2, 4);
    float4 totals[PRODUCT_MOST];
    product_tile(&job, &warp, 64, 2, 4, &weights, space, totals);
    product_write(&job, &warp, 2, 4, totals, out + h * a.n_out, a.n_heads * a.n_out, 0);
}

#endif
