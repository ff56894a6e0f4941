// SPDX-License-Identifier: GPL-3.0-or-later
// GPU: many rows of x times a matrix, in tiles of 8T tokens by 8O outputs. The MATMUL_ITEMS work-items of a group form
// MATMUL_SLICES slices, each of which sums its 8 of every 32 inputs; one computes T tokens by O outputs. In what order
// inputs are summed depends on none but their number, so tiles may have any size. Weights and x lie in local memory
// turned over, tokens and outputs beside each other; places are mixed by slice so that storing meets no bank twice.
#if !SHAPE_CPU

#define MATMUL_SIDE 8 // work-items of a slice along each side of a tile
#define MATMUL_SLICE (MATMUL_DEPTH / MATMUL_SLICES)
#define MATMUL_PAD 4
#define MATMUL_STRIDE(n) (MATMUL_SIDE * (n) + MATMUL_PAD)
#define MATMUL_FLOATS(T, O) (2 * MATMUL_DEPTH * (MATMUL_STRIDE(T) + MATMUL_STRIDE(O))) // of local memory

// Where a tile's weights come from: rows of a matrix, the same rows of two (the first half of the tile's outputs from one,
// the second from the other), or columns of some rows.
enum matmul_kind { OF_ROWS, OF_PAIRS, OF_COLUMNS };

struct matmul_job {
    const struct args_matrix *m;
    const struct args_matrix *other; // of OF_PAIRS
    __global const uchar *matrix;
    __global const float *x; // the first row
    ulong x_stride;
    uint depth; // inputs
    uint n_rows;
    uint n_outputs;
    uint first_row;   // of the matrix: its row for output 0, or for input 0 where outputs are columns
    uint first_token; // of the tile
    uint first_output;
    bool whole; // x may be loaded 16 bytes at a time
};

static struct matmul_job matmul_job_of(const struct args_matrix *m, __global const uchar *matrix, __global const float *x,
                                       ulong x_stride, uint n_rows)
{
    struct matmul_job job = {m, m, matrix, x, x_stride, m->in_dim, n_rows, m->out_dim, 0, 0, 0};
    job.whole = ((ulong)x & 15) == 0 && x_stride % 4 == 0;
    return job;
}

// What a work-item brings of MATMUL_DEPTH inputs: fours of x, and weights, which wait as they came.
struct matmul_load {
    float4 x[2];
    uint words[2];
    float4 plain[2];
    float scale[2];
    float bias[2];
};

// Four floats from column `at` on; beyond `depth` they count as 0.
static float4 matmul_x(const struct matmul_job *job, __global const float *row, uint at)
{
    if (job->whole && at + 4 <= job->depth)
        return *(__global const float4 *)(row + at);
    float4 four;
    four.x = at < job->depth ? row[at] : 0;
    four.y = at + 1 < job->depth ? row[at + 1] : 0;
    four.z = at + 2 < job->depth ? row[at + 2] : 0;
    four.w = at + 3 < job->depth ? row[at + 3] : 0;
    return four;
}

// Words of 8 inputs in 4 bits, else of 4.
static uint matmul_per_word(uint bits)
{
    return bits == 4 ? 8 : 4;
}

// Which of the tile's words a work-item brings as its i-th, and whether it has one.
struct matmul_place {
    uint output; // of the tile; the first of the word's, where outputs are columns
    uint input;  // of the MATMUL_DEPTH; the first of the word's
    bool is_there;
};

static struct matmul_place matmul_place(const enum matmul_kind kind, uint bits, uint i, const uint O)
{
    uint per_word = matmul_per_word(bits);
    uint number = (get_local_id(0) + MATMUL_ITEMS / 2) % MATMUL_ITEMS + i * MATMUL_ITEMS; // who has no x comes first
    struct matmul_place place;
    if (kind == OF_COLUMNS) {
        uint words = MATMUL_SIDE * O / per_word;
        place.output = number % words * per_word;
        place.input = number / words;
    } else {
        uint words = MATMUL_DEPTH / per_word;
        place.output = number / words;
        place.input = number % words * per_word;
    }
    place.is_there = number < MATMUL_SIDE * O * MATMUL_DEPTH / per_word;
    return place;
}

static struct matmul_load matmul_fetch(const struct matmul_job *job, const enum matmul_kind kind, const uint T,
                                       const uint O, uint first)
{
    struct matmul_load load;
    UNROLL
    for (uint i = 0; i < 2; i++) {
        uint number = get_local_id(0) + i * MATMUL_ITEMS;
        uint row = min(job->first_token + number / (MATMUL_DEPTH / 4), job->n_rows - 1);
        if (number < MATMUL_SIDE * T * MATMUL_DEPTH / 4)
            load.x[i] = matmul_x(job, job->x + row * job->x_stride, first + number % (MATMUL_DEPTH / 4) * 4);
        struct matmul_place place = matmul_place(kind, job->m->bits, i, O);
        if (!place.is_there)
            continue;
        struct args_matrix m = *job->m;
        uint output = job->first_output + place.output;
        if (kind == OF_PAIRS && place.output >= MATMUL_SIDE * O / 2) {
            m.weight = job->other->weight;
            m.scales = job->other->scales;
            m.biases = job->other->biases;
            output -= MATMUL_SIDE * O / 2;
        }
        bool columns = kind == OF_COLUMNS;
        uint line = columns ? min(first + place.input, job->depth - 1) : min(output, job->n_outputs - 1);
        uint at = columns ? min(output, job->n_outputs - 4) : first + place.input; // plain: the last four, or all
        __global const uint *words = row_words(&m, job->matrix, job->first_row + line);
        if (m.bits > 8) {
            load.plain[i] = plain4(words, m.bits, at / 4);
            continue;
        }
        load.words[i] = words[at / matmul_per_word(m.bits)];
        uint group = at / m.group_size;
        load.scale[i] = bf16(row_scales(&m, job->matrix, job->first_row + line)[group]);
        load.bias[i] = bf16(row_biases(&m, job->matrix, job->first_row + line)[group]);
    }
    return load;
}

static void matmul_store_four(__local float *to, uint stride, float4 four)
{
    to[0] = four.x;
    to[stride] = four.y;
    to[2 * stride] = four.z;
    to[3 * stride] = four.w;
}

// The load into one of the two halves of local memory.
static void matmul_store(const struct matmul_job *job, const enum matmul_kind kind, const uint T, const uint O,
                         const struct matmul_load *load, __local float *half_of)
{
    __local float *weights = half_of + MATMUL_DEPTH * MATMUL_STRIDE(T);
    uint bits = job->m->bits;
    UNROLL
    for (uint i = 0; i < 2; i++) {
        uint number = get_local_id(0) + i * MATMUL_ITEMS;
        uint input = number % (MATMUL_DEPTH / 4) * 4;
        uint token = number / (MATMUL_DEPTH / 4) ^ input / MATMUL_SLICE * 4;
        if (number < MATMUL_SIDE * T * MATMUL_DEPTH / 4)
            matmul_store_four(half_of + input * MATMUL_STRIDE(T) + token, MATMUL_STRIDE(T), load->x[i]);
        struct matmul_place place = matmul_place(kind, bits, i, O);
        if (!place.is_there)
            continue;
        __local float *to =
            weights + place.input * MATMUL_STRIDE(O) + (place.output ^ place.input / MATMUL_SLICE * MATMUL_SIDE);
        float4 four;
        float4 more;
        if (bits == 4) {
            float4 scale = load->scale[i] * places(4);
            four = fma(low_nibbles(load->words[i]), scale, (float4)(load->bias[i]));
            more = fma(low_nibbles(load->words[i] >> 16), scale, (float4)(load->bias[i]));
        } else if (bits == 8) {
            float4 scale = load->scale[i] * places(8);
            four = fma(octets_apart(load->words[i]), scale, (float4)(load->bias[i]));
        } else {
            four = load->plain[i];
        }
        if (kind == OF_COLUMNS) {
            ((__local float4 *)to)[0] = four;
            if (bits == 4)
                ((__local float4 *)to)[1] = more;
        } else {
            matmul_store_four(to, MATMUL_STRIDE(O), four);
            if (bits == 4)
                matmul_store_four(to + 4 * MATMUL_STRIDE(O), MATMUL_STRIDE(O), more);
        }
    }
}

// n neighbouring floats, 2 or a multiple of 4, at a place that is a multiple of as many.
static void matmul_take(__local const float *from, const uint n, float *to)
{
    if (n == 2) {
        float2 two = *(__local const float2 *)from;
        to[0] = two.x;
        to[1] = two.y;
        return;
    }
    UNROLL
    for (uint i = 0; i < n; i += 4) {
        float4 four = *(__local const float4 *)(from + i);
        to[i] = four.x;
        to[i + 1] = four.y;
        to[i + 2] = four.z;
        to[i + 3] = four.w;
    }
}

// sums[t][o] += the slice's part of the inputs that lie there.
static void matmul_add(const uint T, const uint O, __local const float *half_of, float (*sums)[MATMUL_MOST])
{
    uint item = get_local_id(0);
    uint slice = item / (MATMUL_SIDE * MATMUL_SIDE);
    uint token = item / MATMUL_SIDE % MATMUL_SIDE;
    uint output = item % MATMUL_SIDE;
    __local const float *x = half_of + slice * MATMUL_SLICE * MATMUL_STRIDE(T);
    __local const float *weights = half_of + MATMUL_DEPTH * MATMUL_STRIDE(T) + slice * MATMUL_SLICE * MATMUL_STRIDE(O);
    const uint some = T < 4 ? T : 4; // tokens that lie beside each other
    UNROLL
    for (uint k = 0; k < MATMUL_SLICE; k++) {
        float tokens[MATMUL_MOST];
        float outputs[MATMUL_MOST];
        UNROLL
        for (uint i = 0; i < T; i += some)
            matmul_take(x + k * MATMUL_STRIDE(T) + (i * MATMUL_SIDE + token * some ^ slice * 4), some, tokens + i);
        UNROLL
        for (uint i = 0; i < O; i += O / 2)
            matmul_take(weights + k * MATMUL_STRIDE(O) + (i * MATMUL_SIDE + output * (O / 2) ^ slice * MATMUL_SIDE), O / 2,
                        outputs + i);
        UNROLL
        for (uint i = 0; i < T; i++)
            UNROLL
            for (uint j = 0; j < O; j++)
                sums[i][j] = fma(tokens[i], outputs[j], sums[i][j]);
    }
}

// The slices' sums added up, in slice 0: first the halves, then the quarters.
static void matmul_gather(const uint T, const uint O, __local float *space, float (*sums)[MATMUL_MOST])
{
    uint item = get_local_id(0);
    UNROLL
    for (uint n = MATMUL_ITEMS / 2; n >= MATMUL_ITEMS / MATMUL_SLICES; n /= 2) {
        UNROLL
        for (uint i = 0; i < T; i++)
            UNROLL
            for (uint j = 0; j < O; j++)
                if (item >= n && item < 2 * n)
                    space[(i * O + j) * n + item - n] = sums[i][j];
        barrier(CLK_LOCAL_MEM_FENCE);
        UNROLL
        for (uint i = 0; i < T; i++)
            UNROLL
            for (uint j = 0; j < O; j++)
                if (item < n)
                    sums[i][j] += space[(i * O + j) * n + item];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

static void matmul_tile(const struct matmul_job *job, const enum matmul_kind kind, const uint T, const uint O,
                        __local float4 *fours, float (*sums)[MATMUL_MOST])
{
    const uint half_of = MATMUL_FLOATS(T, O) / 2;
    __local float *space = (__local float *)fours;
    UNROLL
    for (uint i = 0; i < T; i++)
        UNROLL
        for (uint j = 0; j < O; j++)
            sums[i][j] = 0;
    struct matmul_load load = matmul_fetch(job, kind, T, O, 0);
    matmul_store(job, kind, T, O, &load, space);
    barrier(CLK_LOCAL_MEM_FENCE);
    uint chunks = (job->depth + MATMUL_DEPTH - 1) / MATMUL_DEPTH;
    for (uint chunk = 0; chunk < chunks; chunk++) {
        load = matmul_fetch(job, kind, T, O, min(chunk + 1, chunks - 1) * MATMUL_DEPTH);
        matmul_add(T, O, space + chunk % 2 * half_of, sums);
        matmul_store(job, kind, T, O, &load, space + (chunk + 1) % 2 * half_of);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    matmul_gather(T, O, space, sums);
}

// Where the work-item's tokens and outputs stand in the tile. Its outputs are two runs, one in each half.
static uint matmul_token(const uint T, uint i)
{
    const uint some = T < 4 ? T : 4;
    return i / some * some * MATMUL_SIDE + get_local_id(0) / MATMUL_SIDE % MATMUL_SIDE * some + i % some;
}

static uint matmul_output(const uint O, uint j)
{
    return j / (O / 2) * (O / 2) * MATMUL_SIDE + get_local_id(0) % MATMUL_SIDE * (O / 2) + j % (O / 2);
}

static bool matmul_has_sums(void)
{
    return get_local_id(0) < MATMUL_SIDE * MATMUL_SIDE;
}

static void matmul_write(const struct matmul_job *job, const uint T, const uint O, float (*sums)[MATMUL_MOST],
                         __global float *y, ulong stride, uint add)
{
    UNROLL
    for (uint i = 0; i < T; i++)
        UNROLL
        for (uint j = 0; j < O; j++) {
            uint r = job->first_token + matmul_token(T, i);
            uint o = job->first_output + matmul_output(O, j);
            if (matmul_has_sums() && r < job->n_rows && o < job->n_outputs)
                y[r * stride + o] = add ? y[r * stride + o] + sums[i][j] : sums[i][j];
        }
}

// Groups: x over outputs, y over tokens.
#define MATMUL(name, T, O)                                                                                             \
    __kernel GROUP_SIZE(MATMUL_ITEMS, 1) void name(const struct args_matmul a, const struct tiling t,                  \
                                                   __global const uchar *matrix, __global const float *x,              \
                                                   __global float *y)                                                  \
    {                                                                                                                  \
        __local float4 space[MATMUL_FLOATS(T, O) / 4];                                         \
        if (a.n_rows == 0)                                                                                             \
            return;                                                                                                    \
        struct matmul_job job = matmul_job_of(&a.matrix, matrix, x + a.in_offset, a.in_stride, a.n_rows);              \
        job.first_token = get_group_id(1) * MATMUL_SIDE * T;                                                           \
        job.first_output = get_group_id(0) * MATMUL_SIDE * O;                                                          \
        float sums[MATMUL_MOST][MATMUL_MOST];                                                                          \
        matmul_tile(&job, OF_ROWS, T, O, space, sums);                                                             \
        matmul_write(&job, T, O, sums, y + a.out_offset, a.out_stride, a.add);                                         \
    }

// y[r][o] = silu(gate) * up: a work-item has the sums of both for its outputs.
#define MATMUL_SWIGLU(name, T, O)                                                                                      \
    __kernel GROUP_SIZE(MATMUL_ITEMS, 1) void name(const struct args_swiglu a, const struct tiling t,                  \
                                                   __global const uchar *matrices, __global const float *x,            \
                                                   __global float *y)                                                  \
    {                                                                                                                  \
        __local float4 space[MATMUL_FLOATS(T, O) / 4];                                         \
        if (a.n_rows == 0)                                                                                             \
            return;                                                                                                    \
        struct matmul_job job = matmul_job_of(&a.gate, matrices, x + a.in_offset, a.in_stride, a.n_rows);              \
        job.other = &a.up;                                                                                             \
        job.first_token = get_group_id(1) * MATMUL_SIDE * T;                                                           \
        job.first_output = get_group_id(0) * MATMUL_SIDE * O / 2;                                                      \
        float sums[MATMUL_MOST][MATMUL_MOST];                                                                          \
        matmul_tile(&job, OF_PAIRS, T, O, space, sums);                                                            \
        UNROLL                                                                                                         \
        for (uint i = 0; i < T; i++)                                                                                   \
            UNROLL                                                                                                     \
            for (uint j = 0; j < O / 2; j++) {                                                                         \
                uint r = job.first_token + matmul_token(T, i);                                                         \
                uint o = job.first_output + matmul_output(O, j);                                                       \
                if (matmul_has_sums() && r < a.n_rows && o < a.gate.out_dim)                                           \
                    y[(ulong)r * a.out_stride + a.out_offset + o] = silu(sums[i][j]) * sums[i][O / 2 + j];             \
            }                                                                                                          \
    }

MATMUL(matmul_2_4, 2, 4)
MATMUL(matmul_4_4, 4, 4)
MATMUL(matmul_8_8, 8, 8)
MATMUL_SWIGLU(swiglu_2_4, 2, 4)
MATMUL_SWIGLU(swiglu_4_4, 4, 4)
MATMUL_SWIGLU(swiglu_8_8, 8, 8)

// The heads' products for many rows. Groups: x over a head's outputs, y over tokens, z over heads.
__kernel GROUP_SIZE(MATMUL_ITEMS, 1) void heads_rows(const struct args_heads a, const struct tiling t,
                                                     __global const uchar *matrix, __global const float *x,
                                                     __global float *out)
{
    __local float4 space[MATMUL_FLOATS(8, 8) / 4];
    uint h = get_group_id(2);
    if (a.n_rows == 0)
        return;
    struct matmul_job job = matmul_job_of(&a.matrix, matrix, x + h * a.head_stride, a.row_stride, a.n_rows);
    job.n_outputs = a.n_out;
    job.first_row = h * a.head_rows + a.first_row;
    job.first_token = get_group_id(1) * MATMUL_SIDE * 8;
    job.first_output = get_group_id(0) * MATMUL_SIDE * 8;
    float sums[MATMUL_MOST][MATMUL_MOST];
    matmul_tile(&job, OF_ROWS, 8, 8, space, sums);
    matmul_write(&job, 8, 8, sums, out + h * a.n_out, a.n_heads * a.n_out, 0);
}

// The same for the folded keys, whose outputs are columns.
__kernel GROUP_SIZE(MATMUL_ITEMS, 1) void q_prime_rows(const struct args_kv_b a, const struct tiling t,
                                                       __global const uchar *kv_b, __global const float *q,
                                                       __global float *out)
{
    __local float4 space[MATMUL_FLOATS(8, 8) / 4];
    uint h = get_group_id(2);
    if (a.n_rows == 0)
        return;
    struct matmul_job job = matmul_job_of(&a.kv_b, kv_b, q + h * a.q_head_stride, a.q_row_stride, a.n_rows);
    job.depth = a.qk_nope_head_dim;
    job.n_outputs = a.kv_b.in_dim;
    job.first_row = h * (a.qk_nope_head_dim + a.v_head_dim);
    job.first_token = get_group_id(1) * MATMUL_SIDE * 8;
    job.first_output = get_group_id(0) * MATMUL_SIDE * 8;
    float sums[MATMUL_MOST][MATMUL_MOST];
    matmul_tile(&job, OF_COLUMNS, 8, 8, space, sums);
    matmul_write(&job, 8, 8, sums, out + h * a.kv_b.in_dim, a.n_heads * a.kv_b.in_dim, 0);
}

#endif
