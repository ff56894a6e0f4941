// SPDX-License-Identifier: GPL-3.0-or-later
// CPU: many rows of x times a matrix. Lanes are tokens: x is packed into vectors of VECTOR tokens, input by input, and a
// work-item dequantises a tile of MATMUL_ROWS weight rows once for up to MATMUL_TOKENS tokens. Every lane adds its inputs
// one by one in one order (the planes' order, in which weights come out of their words), whatever the launch.
//
// Order of inputs: within each 128 (4 bits) or 64 (8 bits) plane by plane, k-th inputs of 16 words; within each 32 that
// remain the same with 4 or 8 words. Plain inputs stand in their own order.
#if SHAPE_CPU

#define TOKEN_VECTORS (MATMUL_TOKENS / VECTOR)

#ifndef KIND
// Groups: x over blocks of BLOCK inputs, y over vectors of tokens. Lanes without a token are zero.
__kernel GROUP_SIZE(1, 1) void pack(const struct args_matmul a, const struct tiling t, __global const float *x,
                                    __global float *packed)
{
    uint in_dim = a.matrix.in_dim;
    uint per_word = inputs_per_word(bits_of(&a.matrix));
    uint block = 16 * per_word;
    uint first_token = get_group_id(1) * VECTOR;
    uint end = min((uint)(get_group_id(0) + 1) * BLOCK, in_dim);
    for (uint input = get_group_id(0) * BLOCK; input < end;) {
        uint n = input + block <= end ? block : 32;
        uint words = n / per_word;
        __global float *to = packed + ((ulong)get_group_id(1) * in_dim + input) * VECTOR;
        for (uint lane = 0; lane < VECTOR; lane++) {
            uint r = first_token + lane;
            __global const float *from = x + (ulong)min(r, a.n_rows - 1) * a.in_stride + a.in_offset + input;
            for (uint k = 0; k < per_word; k++)
                for (uint j = 0; j < words; j++)
                    to[(k * words + j) * VECTOR + lane] = r < a.n_rows ? from[j * per_word + k] : 0.0f;
        }
        input += n;
    }
}

// Weights of one row, inputs first .. first + n - 1, in the packed order.
static void dequantise(const struct args_matrix *m, __global const uchar *matrix, uint row, uint first, uint n, float16 *tile)
{
    __global const uint *words = row_words(m, matrix, row);
    __global const ushort *scales = row_scales(m, matrix, row);
    __global const ushort *biases = row_biases(m, matrix, row);
    uint per_word = inputs_per_word(bits_of(m));
    uint block = 16 * per_word;
    if (per_word == 1) {
        for (uint i = 0; i < n; i += 16)
            tile[i / 16] = plain16(words, bits_of(m), (first + i) / 16);
        return;
    }
    uint shift = group_shift_of(m);
    uint n_groups = max(block >> shift, 1u);
    uint end = first + n;
    uint input = first;
    for (; input + block <= end; input += block, tile += per_word) {
        uint16 w = vload16(0, words + input / per_word);
        float16 scale = spread(scales + (input >> shift), n_groups);
        float16 bias = spread(biases + (input >> shift), n_groups);
        if (bits_of(m) == 4) {
            UNROLL
            for (uint k = 0; k < 8; k++)
                tile[k] = fma(convert_float16(as_int16(w >> 4 * k & 15u)), scale, bias);
        } else {
            UNROLL
            for (uint k = 0; k < 4; k++)
                tile[k] = fma(convert_float16(as_int16(w >> 8 * k & 255u)), scale, bias);
        }
    }
    uint mask = (1u << bits_of(m)) - 1;
    for (float *last = (float *)tile; input < end; input += 32, last += 32) {
        float scale = bf16(scales[input >> shift]);
        float bias = bf16(biases[input >> shift]);
        uint n_words = 32 / per_word;
        for (uint k = 0; k < per_word; k++)
            for (uint j = 0; j < n_words; j++)
                last[k * n_words + j] = fma((float)(words[input / per_word + j] >> k * bits_of(m) & mask), scale, bias);
    }
}

// A row's inputs from `first` on that a tile has.
INLINE void fetch_row(const struct args_matrix *m, __global const uchar *matrix, uint row, uint first)
{
    uint line = 512 / bits_of(m); // inputs of 64 bytes
    for (uint i = 0; i < MATMUL_INPUTS; i += line)
        fetch((__global const uchar *)row_words(m, matrix, row) + (first + i) / line * 64, 64);
}

#else
#ifdef KIND_PLANES
// A part of a block, from bytes.
#define PART_OF_TILE(n)                                                                                                \
    UNROLL                                                                                                             \
    for (uint h = 0; h < HALVES; h++) {                                                                                \
        WORDS q = part_bytes(p, n, h);                                                                                 \
        SIXTEEN_OF_TILE(q.s0123, SIXTEEN_AT(n, 8 * h))                                                                 \
        SIXTEEN_OF_TILE(q.s4567, SIXTEEN_AT(n, 8 * h + 4))                                                             \
        MORE_OF_TILE(n)                                                                                                \
    }
#if HALVES == 1
#define MORE_OF_TILE(n)                                                                                                \
    SIXTEEN_OF_TILE(q.s89ab, SIXTEEN_AT(n, 8))                                                                         \
    SIXTEEN_OF_TILE(q.scdef, SIXTEEN_AT(n, 12))
#else
#define MORE_OF_TILE(n)
#endif
#define SIXTEEN_AT(n, j) (((n) / PARTS * SPAN + (n) % PARTS * PART_AT + LANE_AT(j)) / 16)
#define SIXTEEN_OF_TILE(words, t)                                                                                      \
    tile[t] = fma(convert_float16(convert_int16(as_uchar16(words))), (float16)(s[(t) * 16 / KIND_SCALES]),             \
                  (float16)(b[(t) * 16 / KIND_SCALES]));
#endif

static void dequantise(const struct args_matrix *m, __global const uchar *matrix, uint row, uint first, uint n, float16 *tile)
{
    struct kind_row from = kind_row_of(m, matrix, row);
#ifdef KIND_PLANES // and MATMUL_INPUTS is a block
    float s[BLOCK_SETS], b[BLOCK_SETS];
    BYTES p = from.p + first / 256 * BLOCK_BYTES;
    SCALES scales = scales_in(p, d_in(p));
    SCALES_STORE(scales, 0, s);
#if KIND_BIAS
    SCALES_STORE(biases_in(p, m_in(p)), 0, b);
#else
    SCALES_STORE(scales * -MIDDLE_OF_BYTES, 0, b);
#endif
    KEEP_IN_MEMORY(s, b);
    PART_OF_TILE(0)
    PART_OF_TILE(1)
    PART_OF_TILE(2)
    PART_OF_TILE(3)
#elif defined(KIND_TABLES)
    table_tile(from.p + first / 256 * BLOCK_BYTES, tile);
#elif defined(KIND_NIBBLES)
    for (uint i = 0; i < n / 32; i++)
        block_tile(from.p + (first / 32 + i) * BLOCK_BYTES, tile + 2 * i);
#elif BLOCK_INPUTS == 256 // and MATMUL_INPUTS is as many
    float s[BLOCK_SETS], b[BLOCK_SETS];
    block_scales(from.p + first / 256 * BLOCK_BYTES, s, b);
    UNROLL_2
    for (uint i = 0; i < n / 16; i++) {
        float16 w = kind_sixteen(&from, first / 16 + i) * s[i * 16 / KIND_SCALES];
        tile[i] = KIND_BIAS ? w + b[i * 16 / KIND_SCALES] : w;
    }
#else
#ifdef KIND_STREAMS
    if (n == MATMUL_INPUTS) {
        stream_tile(&from, first, tile);
        return;
    }
#endif
    for (uint i = 0; i < n / 16; i += 2, tile += 2) {
        float2 scale = kind_own_scale(&from, first / 16 + i);
        float2 next = KIND_SCALES == 32 ? scale : kind_own_scale(&from, first / 16 + i + 1);
        tile[0] = kind_weights(&from, first / 16 + i, scale);
        tile[1] = kind_weights(&from, first / 16 + i + 1, next);
    }
#endif
}

INLINE void fetch_row(const struct args_matrix *m, __global const uchar *matrix, uint row, uint first)
{
    const uint bytes = MATMUL_INPUTS / BLOCK_INPUTS * BLOCK_BYTES;
    fetch(kind_row_of(m, matrix, row).p + first / BLOCK_INPUTS * BLOCK_BYTES, bytes + 63); // they may lie in one line more
}
#endif

// sums += tile * x, for as many rows and vectors of tokens as registers hold the sums of.
#ifdef __AVX512F__ // 24 of 32 registers
#define SUM_ROWS    12
#define SUM_VECTORS 2
#else // 12 of 16, or 24 of 32
#define SUM_ROWS    6
#define SUM_VECTORS 1
#endif

#if SUM_VECTORS == 2
static void multiply_two(const float *tile, __global const float *x0, __global const float *x1, uint n, float16 *sums)
{
    float16 s[2 * SUM_ROWS];
    UNROLL
    for (uint i = 0; i < SUM_ROWS; i++) {
        s[2 * i] = sums[i * TOKEN_VECTORS];
        s[2 * i + 1] = sums[i * TOKEN_VECTORS + 1];
    }
    for (uint k = 0; k < n; k++) {
        float16 a = vload16(k, x0);
        float16 b = vload16(k, x1);
        UNROLL
        for (uint i = 0; i < SUM_ROWS; i++) {
            float16 w = tile[i * MATMUL_INPUTS + k];
            s[2 * i] = fma(w, a, s[2 * i]);
            s[2 * i + 1] = fma(w, b, s[2 * i + 1]);
        }
    }
    UNROLL
    for (uint i = 0; i < SUM_ROWS; i++) {
        sums[i * TOKEN_VECTORS] = s[2 * i];
        sums[i * TOKEN_VECTORS + 1] = s[2 * i + 1];
    }
}
#endif

static void multiply_one(const float *tile, __global const float *x, uint n, float16 *sums)
{
    float16 s[SUM_ROWS];
    UNROLL
    for (uint i = 0; i < SUM_ROWS; i++)
        s[i] = sums[i * TOKEN_VECTORS];
    for (uint k = 0; k < n; k++) {
        float16 a = vload16(k, x);
        UNROLL
        for (uint i = 0; i < SUM_ROWS; i++)
            s[i] = fma((float16)(tile[i * MATMUL_INPUTS + k]), a, s[i]);
    }
    UNROLL
    for (uint i = 0; i < SUM_ROWS; i++)
        sums[i * TOKEN_VECTORS] = s[i];
}

// The same for at most 8 tokens, the lower lanes: half the work.
static void multiply_half(const float *tile, __global const float *x, uint n, float16 *sums)
{
    float8 s[MATMUL_ROWS];
    UNROLL
    for (uint i = 0; i < MATMUL_ROWS; i++)
        s[i] = sums[i * TOKEN_VECTORS].lo;
    for (uint k = 0; k < n; k++) {
        float8 a = vload8(2 * k, x);
        UNROLL
        for (uint i = 0; i < MATMUL_ROWS; i++)
            s[i] = fma((float8)(tile[i * MATMUL_INPUTS + k]), a, s[i]);
    }
    UNROLL
    for (uint i = 0; i < MATMUL_ROWS; i++)
        sums[i * TOKEN_VECTORS].lo = s[i];
}

struct tile_place {
    uint first_row;   // of MATMUL_ROWS outputs; beyond the last, the last again
    uint first_token; // of n_tokens
    uint n_tokens;
};

// sums[row * TOKEN_VECTORS + vector], lanes are tokens.
static void multiply(const struct args_matrix *m, __global const uchar *matrix, __global const float *packed,
                     const struct tile_place *place, float16 *sums)
{
    float16 weights[MATMUL_ROWS * MATMUL_INPUTS / 16];
    const float *tile = (const float *)weights;
    uint vectors = (place->n_tokens + VECTOR - 1) / VECTOR;
    for (uint i = 0; i < MATMUL_ROWS * TOKEN_VECTORS; i++)
        sums[i] = 0;
    for (uint first = 0; first < m->in_dim; first += MATMUL_INPUTS) {
        uint n = min((uint)MATMUL_INPUTS, m->in_dim - first);
        uint last = first + n == m->in_dim;
        for (uint i = 0; i < MATMUL_ROWS; i++) {
            uint row = place->first_row + i;
            dequantise(m, matrix, min(row, m->out_dim - 1), first, n, weights + i * (MATMUL_INPUTS / 16));
            fetch_row(m, matrix, last ? row + MATMUL_ROWS : row, last ? 0 : first + n);
        }
        __global const float *x = packed + ((ulong)(place->first_token / VECTOR) * m->in_dim + first) * VECTOR;
        ulong next = (ulong)m->in_dim * VECTOR;
        uint v = 0;
#if SUM_VECTORS == 2
        for (; v + 2 <= vectors; v += 2)
            for (uint row = 0; row < MATMUL_ROWS; row += SUM_ROWS)
                multiply_two(tile + row * MATMUL_INPUTS, x + v * next, x + (v + 1) * next, n, sums + row * TOKEN_VECTORS + v);
#endif
        for (; v < vectors; v++)
            if (place->n_tokens - v * VECTOR <= VECTOR / 2)
                multiply_half(tile, x + v * next, n, sums + v); // all rows
            else
                for (uint row = 0; row < MATMUL_ROWS; row += SUM_ROWS)
                    multiply_one(tile + row * MATMUL_INPUTS, x + v * next, n, sums + row * TOKEN_VECTORS + v);
    }
}

static struct tile_place tile_place(uint n_rows)
{
    struct tile_place place;
    place.first_row = get_group_id(0) * MATMUL_ROWS;
    place.first_token = get_group_id(1) * MATMUL_TOKENS;
    place.n_tokens = min((uint)MATMUL_TOKENS, n_rows - place.first_token);
    return place;
}

// Groups of matmul and swiglu_mat: x over tiles of outputs, y over tiles of tokens.
#if USES & (USE_PRODUCTS | USE_EXPERTS | USE_HEADS)
__kernel GROUP_SIZE(1, 1) void matmul(const struct args_matmul a, const struct tiling t, __global const uchar *matrix,
                                      __global const float *packed, __global float *y)
{
    if (a.n_rows == 0)
        return;
    struct tile_place place = tile_place(a.n_rows);
    float16 sums[MATMUL_ROWS * TOKEN_VECTORS];
    multiply(&a.matrix, matrix, packed, &place, sums);
    const float *sum = (const float *)sums;
    uint n = min((uint)MATMUL_ROWS, a.matrix.out_dim - place.first_row);
    for (uint r = 0; r < place.n_tokens; r++) {
        __global float *out = y + (ulong)(place.first_token + r) * a.out_stride + a.out_offset + place.first_row;
        for (uint i = 0; i < n; i++)
            out[i] = a.add ? out[i] + sum[i * MATMUL_TOKENS + r] : sum[i * MATMUL_TOKENS + r];
    }
}
#endif

#ifndef KIND
__kernel GROUP_SIZE(1, 1) void swiglu_mat(const struct args_swiglu a, const struct tiling t,
                                          __global const uchar *matrices, __global const float *packed, __global float *y)
{
    if (a.n_rows == 0)
        return;
    struct tile_place place = tile_place(a.n_rows);
    float16 gates[MATMUL_ROWS * TOKEN_VECTORS];
    float16 ups[MATMUL_ROWS * TOKEN_VECTORS];
    multiply(&a.gate, matrices, packed, &place, gates);
    multiply(&a.up, matrices, packed, &place, ups);
    uint vectors = (place.n_tokens + VECTOR - 1) / VECTOR;
    for (uint i = 0; i < MATMUL_ROWS; i++)
        for (uint v = 0; v < vectors; v++) {
            float16 gate = gates[i * TOKEN_VECTORS + v];
            float16 up = ups[i * TOKEN_VECTORS + v];
            if (a.situ_beta > 0.0f) {
                float *bent = (float *)&ups[i * TOKEN_VECTORS + v];
                for (uint s = 0; s < VECTOR; s++)
                    bent[s] = swiglu(((const float *)&gate)[s], bent[s], LIMITS(a));
                continue;
            }
            if (a.limit > 0.0f) {
                gate = select(gate, (float16)(a.limit), gate > a.limit);
                up = select(select(up, (float16)(a.limit), up > a.limit), (float16)(-a.limit), up < -a.limit);
            }
            ups[i * TOKEN_VECTORS + v] = up * (gate / (1.0f + exp16(-gate)));
        }
    const float *up = (const float *)ups;
    uint n = min((uint)MATMUL_ROWS, a.gate.out_dim - place.first_row);
    for (uint r = 0; r < place.n_tokens; r++) {
        __global float *out = y + (ulong)(place.first_token + r) * a.out_stride + a.out_offset + place.first_row;
        for (uint i = 0; i < n; i++)
            out[i] = up[i * MATMUL_TOKENS + r];
    }
}
#endif

#endif
