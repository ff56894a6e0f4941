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
    uint words_a_row;
    uint groups_a_row;
    uint group_shift;
};

INLINE struct matmul_job matmul_job_of(const struct args_matrix *m, __global const uchar *matrix, __global const float *x,
                                       ulong x_stride, uint n_rows)
{
    struct matmul_job job = {m, m, matrix, x, x_stride, m->in_dim, n_rows, m->out_dim, 0, 0, 0};
    job.whole = ((ulong)x & 15) == 0 && x_stride % 4 == 0;
#ifndef KIND
    job.words_a_row = m->in_dim / 32 * bits_of(m);
    job.groups_a_row = m->in_dim / group_size_of(m);
    job.group_shift = 5 + group_size_of(m) / 64; // divisions are dear
#endif
    return job;
}

// What a work-item brings of MATMUL_DEPTH inputs: fours of x, and weights, which wait as they came.
struct matmul_load {
    float4 x[2];
#ifdef KIND
    float8 weights[2]; // other kinds' are taken apart as they come
#else
    uint words[2];
    float4 plain[2];
    ushort scale[2];
    ushort bias[2];
#endif
};

#ifdef KIND
#define MATMUL_BITS(m) 4 // 8 inputs together, as words of 4 bits have them
#define MATMUL_LOADS 1   // of which a work-item has one at most
#else
#define MATMUL_LOADS 2
#define MATMUL_BITS(m) bits_of(m)
#endif

// Four floats from column `at` on; beyond `depth` they count as 0.
INLINE float4 matmul_x(const struct matmul_job *job, __global const float *row, uint at)
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
INLINE uint matmul_per_word(uint bits)
{
    return bits == 4 ? 8 : 4;
}

// Which of the tile's words a work-item brings as its i-th, and whether it has one.
struct matmul_place {
    uint output; // of the tile; the first of the word's, where outputs are columns
    uint input;  // of the MATMUL_DEPTH; the first of the word's
    bool is_there;
};

INLINE struct matmul_place matmul_place(const enum matmul_kind kind, uint bits, uint i, const uint O)
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

// The chunk of MATMUL_DEPTH inputs that begins with `first`; behind the last there are zeros of x.
INLINE struct matmul_load matmul_fetch(const struct matmul_job *job, const enum matmul_kind kind, const uint T,
                                       const uint O, uint first)
{
    struct matmul_load load;
    uint bits = MATMUL_BITS(job->m);
    UNROLL
    for (uint i = 0; i < 2; i++) {
        uint number = get_local_id(0) + i * MATMUL_ITEMS;
        uint token = min(job->first_token + number / (MATMUL_DEPTH / 4), job->n_rows - 1);
        if (number < MATMUL_SIDE * T * MATMUL_DEPTH / 4)
            load.x[i] = matmul_x(job, job->x + token * job->x_stride, first + number % (MATMUL_DEPTH / 4) * 4);
        struct matmul_place place = matmul_place(kind, bits, i, O);
        if (!place.is_there || i >= MATMUL_LOADS)
            continue;
        bool second = kind == OF_PAIRS && place.output >= MATMUL_SIDE * O / 2;
        const struct args_matrix *m = job->m;
        uint output = job->first_output + place.output - (second ? MATMUL_SIDE * O / 2 : 0);
        bool columns = kind == OF_COLUMNS;
        uint line = columns ? min(first + place.input, job->depth - 1) : min(output, job->n_outputs - 1);
#ifdef KIND
        struct kind_row from = kind_row_of(m, job->matrix, job->first_row + line);
        uint at = columns ? min(output, job->n_outputs - 8) : min(first + place.input, m->in_dim - 8);
        load.weights[i] = kind_weights8(&from, at / 8);
#else
        ulong weight = second ? job->other->weight : m->weight;
        ulong scales = second ? job->other->scales : m->scales;
        ulong biases = second ? job->other->biases : m->biases;
        uint at = columns ? min(output, job->n_outputs - 4) : min(first + place.input, job->depth - 4);
        ulong row = job->first_row + line;
        __global const uint *words = (__global const uint *)(job->matrix + weight) + row * job->words_a_row;
        if (bits > 8) {
            load.plain[i] = plain4(words, bits, at / 4);
            continue;
        }
        ulong group = row * job->groups_a_row + (at >> job->group_shift);
        load.words[i] = words[bits == 4 ? at / 8 : at / 4];
        load.scale[i] = ((__global const ushort *)(job->matrix + scales))[group];
        load.bias[i] = ((__global const ushort *)(job->matrix + biases))[group];
#endif
    }
    return load;
}

INLINE void matmul_store_four(__local float *to, uint stride, float4 four)
{
    to[0] = four.x;
    to[stride] = four.y;
    to[2 * stride] = four.z;
    to[3 * stride] = four.w;
}

// The load into one of the two halves of local memory.
INLINE void matmul_store(const struct matmul_job *job, const enum matmul_kind kind, const uint T, const uint O,
                         const struct matmul_load *load, __local float *half_of)
{
    __local float *weights = half_of + MATMUL_DEPTH * MATMUL_STRIDE(T);
    uint bits = MATMUL_BITS(job->m);
    UNROLL
    for (uint i = 0; i < 2; i++) {
        uint number = get_local_id(0) + i * MATMUL_ITEMS;
        uint input = number % (MATMUL_DEPTH / 4) * 4;
        uint token = number / (MATMUL_DEPTH / 4) ^ input / MATMUL_SLICE * 4;
        if (number < MATMUL_SIDE * T * MATMUL_DEPTH / 4)
            matmul_store_four(half_of + input * MATMUL_STRIDE(T) + token, MATMUL_STRIDE(T), load->x[i]);
        struct matmul_place place = matmul_place(kind, bits, i, O);
        if (!place.is_there || i >= MATMUL_LOADS)
            continue;
        __local float *to =
            weights + place.input * MATMUL_STRIDE(O) + (place.output ^ place.input / MATMUL_SLICE * MATMUL_SIDE);
        float4 four;
        float4 more;
#ifdef KIND
        four = load->weights[i].lo;
        more = load->weights[i].hi;
#else
        if (bits == 4) {
            float4 scale = bf16(load->scale[i]) * places(4);
            four = fma(low_nibbles(load->words[i]), scale, (float4)(bf16(load->bias[i])));
            more = fma(low_nibbles(load->words[i] >> 16), scale, (float4)(bf16(load->bias[i])));
        } else if (bits == 8) {
            float4 scale = bf16(load->scale[i]) * places(8);
            four = fma(octets_apart(load->words[i]), scale, (float4)(bf16(load->bias[i])));
        } else {
            four = load->plain[i];
        }
#endif
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
INLINE void matmul_take(__local const float *from, const uint n, float *to)
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
INLINE void matmul_add(const uint T, const uint O, __local const float *half_of, float (*sums)[MATMUL_MOST])
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
INLINE void matmul_gather(const uint T, const uint O, __local float *space, float (*sums)[MATMUL_MOST])
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

INLINE void matmul_tile(const struct matmul_job *job, const enum matmul_kind kind, const uint T, const uint O,
                        __local float4 *fours, float (*sums)[MATMUL_MOST])
{
    const uint half_of = MATMUL_FLOATS(T, O) / 2;
    __local float *space = (__local float *)fours;
    UNROLL
    for (uint i = 0; i < T; i++)
        UNROLL
        for (uint j = 0; j < O; j++)
            sums[i][j] = 0;
    // `ahead` chunks are on their way while one is worked on, each in the load of its number.
    const uint ahead = T < 8 ? MATMUL_AHEAD : 1;
    const uint round = T < 8 ? MATMUL_AHEAD : 2; // chunks; of large tiles few, for the sake of the code's size
    uint end = (job->depth + MATMUL_AHEAD * MATMUL_DEPTH - 1) / (MATMUL_AHEAD * MATMUL_DEPTH) * (MATMUL_AHEAD * MATMUL_DEPTH);
    struct matmul_load loads[MATMUL_AHEAD];
    UNROLL
    for (uint i = 0; i < ahead; i++)
        loads[i] = matmul_fetch(job, kind, T, O, i * MATMUL_DEPTH);
    matmul_store(job, kind, T, O, &loads[0], space);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint first = 0; first < end; first += round * MATMUL_DEPTH) {
        UNROLL
        for (uint i = 0; i < round; i++) {
            loads[i % ahead] = matmul_fetch(job, kind, T, O, first + (i + ahead) * MATMUL_DEPTH);
            matmul_add(T, O, space + i % 2 * half_of, sums);
            matmul_store(job, kind, T, O, &loads[(i + 1) % ahead], space + (i + 1) % 2 * half_of);
            barrier(CLK_LOCAL_MEM_FENCE);
        }
    }
    matmul_gather(T, O, space, sums);
}

// Where the work-item's tokens and outputs stand in the tile. Its outputs are two runs, one in each half.
INLINE uint matmul_token(const uint T, uint i)
{
    const uint some = T < 4 ? T : 4;
    return i / some * some * MATMUL_SIDE + get_local_id(0) / MATMUL_SIDE % MATMUL_SIDE * some + i % some;
}

INLINE uint matmul_output(const uint O, uint j)
{
    return j / (O / 2) * (O / 2) * MATMUL_SIDE + get_local_id(0) % MATMUL_SIDE * (O / 2) + j % (O / 2);
}

INLINE bool matmul_has_sums(void)
{
    return get_local_id(0) < MATMUL_SIDE * MATMUL_SIDE;
}

INLINE void matmul_write(const struct matmul_job *job, const uint T, const uint O, float (*sums)[MATMUL_MOST],
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

// The group's own of several.
struct matmul_each {
    ulong behind;
    uint n_rows, in_offset, out_offset;
};

INLINE struct matmul_each matmul_each_of(const struct args_each *at)
{
    uint k = get_group_id(2);
    struct matmul_each found = {at->behind[k], at->n_rows[k], at->in_offset[k], at->out_offset[k]};
    return found;
}

// Groups: x over outputs, y over tokens, z over matrices.
#define MATMUL(name, T, O)                                                                                             \
    __kernel GROUP_SIZE(MATMUL_ITEMS, 1) void name(const struct args_matmul_each a, const struct tiling t,             \
                                                   __global const uchar *matrix, __global const float *x,              \
                                                   __global float *y)                                                  \
    {                                                                                                                  \
        __local float4 space[MATMUL_FLOATS(T, O) / 4];                                                                 \
        struct matmul_each each = matmul_each_of(&a.at);                                                               \
        uint first_token = get_group_id(1) * MATMUL_SIDE * T;                                                          \
        if (first_token >= each.n_rows)                                                                                \
            return;                                                                                                    \
        struct matmul_job job =                                                                                        \
            matmul_job_of(&a.of.matrix, matrix + each.behind, x + each.in_offset, a.of.in_stride, each.n_rows);        \
        job.first_token = first_token;                                                                                 \
        job.first_output = get_group_id(0) * MATMUL_SIDE * O;                                                          \
        float sums[MATMUL_MOST][MATMUL_MOST];                                                                          \
        matmul_tile(&job, OF_ROWS, T, O, space, sums);                                                                 \
        matmul_write(&job, T, O, sums, y + each.out_offset, a.of.out_stride, a.of.add);                                \
    }

// y[r][o] = silu(gate) * up: a work-item has the sums of both for its outputs.
#define MATMUL_SWIGLU(name, T, O)                                                                                      \
    __kernel GROUP_SIZE(MATMUL_ITEMS, 1) void name(const struct args_swiglu_each a, const struct tiling t,             \
                                                   __global const uchar *matrices, __global const float *x,            \
                                                   __global float *y)                                                  \
    {                                                                                                                  \
        __local float4 space[MATMUL_FLOATS(T, O) / 4];                                                                 \
        struct matmul_each each = matmul_each_of(&a.at);                                                               \
        uint first_token = get_group_id(1) * MATMUL_SIDE * T;                                                          \
        if (first_token >= each.n_rows)                                                                                \
            return;                                                                                                    \
        struct matmul_job job =                                                                                        \
            matmul_job_of(&a.of.gate, matrices + each.behind, x + each.in_offset, a.of.in_stride, each.n_rows);        \
        job.other = &a.of.up;                                                                                          \
        job.first_token = first_token;                                                                                 \
        job.first_output = get_group_id(0) * MATMUL_SIDE * O / 2;                                                      \
        float sums[MATMUL_MOST][MATMUL_MOST];                                                                          \
        matmul_tile(&job, OF_PAIRS, T, O, space, sums);                                                                \
        UNROLL                                                                                                         \
        for (uint i = 0; i < T; i++)                                                                                   \
            UNROLL                                                                                                     \
            for (uint j = 0; j < O / 2; j++) {                                                                         \
                uint r = job.first_token + matmul_token(T, i);                                                         \
                uint o = job.first_output + matmul_output(O, j);                                                       \
                if (matmul_has_sums() && r < each.n_rows && o < a.of.gate.out_dim)                                     \
                    y[(ulong)r * a.of.out_stride + each.out_offset + o] =                                              \
                        swiglu(sums[i][j], sums[i][O / 2 + j], LIMITS(a.of));                                          \
            }                                                                                                          \
    }

#if USES & (USE_PRODUCTS | USE_EXPERTS) && !(defined(KIND) && NVIDIA_MMA) && BUILD_PARTS & PART_TILES
MATMUL(matmul_2_4, 2, 4)
MATMUL(matmul_4_4, 4, 4)
MATMUL(matmul_8_8, 8, 8)
#endif
#if !defined(KIND) && BUILD_PARTS & PART_GATES
MATMUL_SWIGLU(swiglu_2_4, 2, 4)
MATMUL_SWIGLU(swiglu_4_4, 4, 4)
MATMUL_SWIGLU(swiglu_8_8, 8, 8)
#endif

// The heads' products for many rows. Groups: x over a head's outputs, y over tokens, z over heads.
#if USES & USE_HEADS && !(defined(KIND) && NVIDIA_MMA) && BUILD_PARTS & PART_HEADS
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
#endif

// The same for the absorbed keys, whose outputs are columns.
#if USES & USE_KEYS && BUILD_PARTS & PART_HEADS
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

#endif
