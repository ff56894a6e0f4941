// SPDX-License-Identifier: GPL-3.0-or-later
// CPU: one row of x times a matrix. A work-item takes a range of output rows, ROWS together. The 16 words of a vector are
// taken apart by planes: plane k holds the k-th input of each word, so x is packed first, plane by plane. A plane is
// masked out of the words where it stands, 16^k or 256^k too large; packed x is that much smaller, which is exact.
//
// packed x, 4 bits: for each block of 128 inputs 8 planes of 16 lanes, lane j of plane k being x[8j + k] / 16^k, and the
//                   16 sums of each word's inputs; then for each 32 inputs that remain the same with 4 lanes.
// packed x, 8 bits: for each 64 inputs 4 planes of 16 lanes, x[4j + k] / 256^k, and the sums; then the same with 8 lanes.
// packed x, plain:  x.
#if SHAPE_CPU

#define ROWS 4

// The bytes of a row's place in the next ROWS rows: the processor foresees how a row goes on, not where the next ones begin.
INLINE void fetch_ahead(__global const void *p, uint row_bytes, uint bytes)
{
    fetch((__global const uchar *)p + ROWS * row_bytes, bytes);
}

#ifdef KIND
// packed x of all other kinds: x, or the planes of kind_planes.cl or kind_streams.cl, and behind it the sum of every
// KIND_SCALES, or TABLE_DELTA.
static void pack_row(__global const float *x, __global float *packed, uint in_dim, uint bits)
{
    uint totals = in_dim;
#if defined(KIND_PLANES) && !defined(KIND_BYTES)
    pack_planes(x, packed, in_dim);
#elif defined(KIND_STREAMS)
    pack_streams(x, packed, in_dim);
    totals = stream_totals(in_dim);
#else
    for (uint input = 0; input < in_dim; input += 16)
        vstore16(vload16(0, x + input), 0, packed + input);
#endif
#ifdef TABLE_DELTA
    for (uint input = 0; input < in_dim; input += TABLE_DELTA) {
        float8 sum = vload8(0, x + input);
        if (TABLE_DELTA == 32)
            sum += vload8(1, x + input) + (vload8(2, x + input) + vload8(3, x + input));
        packed[in_dim + input / TABLE_DELTA] = sum8(sum);
    }
#endif
    if (!KIND_BIAS)
        return;
    for (uint input = 0; input < in_dim; input += KIND_SCALES) {
        float sum = sum16(vload16(0, x + input));
        packed[totals + input / KIND_SCALES] = KIND_SCALES == 32 ? sum + sum16(vload16(1, x + input)) : sum;
    }
}

#if defined(KIND_PLANES) && !defined(KIND_BYTES)
// A part of each row's block: rows inside, so that its planes of x stay in registers.
#define PART_OF_ROWS(n)                                                                                                \
    {                                                                                                                  \
        UNROLL                                                                                                         \
        for (uint h = 0; h < HALVES; h++) {                                                                            \
            FLOATS planes[4];                                                                                          \
            UNROLL                                                                                                     \
            for (uint c = 0; c < 4; c++)                                                                               \
                planes[c] = LANES_LOAD(HALVES * (4 * n + c) + h, x);                                                   \
            UNROLL                                                                                                     \
            for (uint i = 0; i < ROWS; i++)                                                                            \
                sums[h][i] = fma(SPREAD(scales[i], n, h), part_dot(rows[i], n, h, planes), sums[h][i]);                \
        }                                                                                                              \
    }
// The dot products of rows first .. first + n - 1 (n <= ROWS) with packed x.
static void dots_of(const struct args_matrix *m, __global const uchar *matrix, uint first, uint n,
                    __global const float *packed, float *dots)
{
    BYTES rows[ROWS];
    FLOATS sums[HALVES][ROWS] = {{0}};
    BLOCK_SCALES scales[ROWS];
    SCALES biases[ROWS] = {0};
    UNROLL
    for (uint i = 0; i < ROWS; i++)
        rows[i] = kind_row_of(m, matrix, first + min(i, n - 1)).p;
    uint blocks = m->in_dim / 256;
    for (uint block = 0; block < blocks; block++) {
        __global const float *x = packed + block * 256;
        __global const float *totals = packed + m->in_dim + block * (256 / KIND_SCALES);
        UNROLL
        for (uint i = 0; i < ROWS; i++) {
            fetch_ahead(rows[i], blocks * BLOCK_BYTES, BLOCK_BYTES);
            SCALES_TAKE(scales[i], rows[i]);
#if KIND_BIAS
            biases[i] = fma(biases_in(rows[i]), SCALES_LOAD(0, totals), biases[i]);
#endif
        }
#if HALVES == 2
        KEEP_IN_MEMORY(scales, scales);
#endif
        PART_OF_ROWS(0)
        PART_OF_ROWS(1)
        PART_OF_ROWS(2)
        PART_OF_ROWS(3)
        UNROLL
        for (uint i = 0; i < ROWS; i++)
            rows[i] += BLOCK_BYTES;
    }
    UNROLL
    for (uint i = 0; i < ROWS; i++)
        dots[i] = SUM_OF_HALVES(sums, i) + SCALES_SUM(biases[i]);
}
#elif defined(KIND_STREAMS)
// A vector of each row's words: rows inside, so that a plane of x stays in a register.
#define STREAM_VECTOR(v)                                                                                               \
    {                                                                                                                  \
        uint16 w[ROWS];                                                                                                \
        float16 parts[ROWS];                                                                                           \
        UNROLL                                                                                                         \
        for (uint i = 0; i < ROWS; i++) {                                                                              \
            __global const uint *words = (__global const uint *)rows[i].p + (span * STREAM_BITS + v) * 16;             \
            w[i] = vload16(0, words);                                                                                  \
            fetch_ahead(words, m->in_dim / 8 * STREAM_BITS, 64);                                                       \
        }                                                                                                              \
        UNROLL                                                                                                         \
        for (uint k = 0; k < STREAM_PLANES; k++) {                                                                     \
            float16 plane = vload16(v * STREAM_PLANES + k, packed + span * SPAN_PACKED);                               \
            UNROLL                                                                                                     \
            for (uint i = 0; i < ROWS; i++)                                                                            \
                parts[i] = k == 0 ? stream_digits(w[i], v, k) * plane                                                  \
                                  : fma(stream_digits(w[i], v, k), plane, parts[i]);                                   \
        }                                                                                                              \
        UNROLL                                                                                                         \
        for (uint i = 0; i < ROWS; i++)                                                                                \
            sums[i] = fma(OF_GROUPS(scales[i], v), parts[i], sums[i]);                                                 \
    }
// The dot products of rows first .. first + n - 1 (n <= ROWS) with packed x.
static void dots_of(const struct args_matrix *m, __global const uchar *matrix, uint first, uint n,
                    __global const float *packed, float *dots)
{
    struct kind_row rows[ROWS];
    float16 sums[ROWS] = {0}, biases[ROWS] = {0};
    float last[ROWS] = {0}; // of the biases
    uint spans = m->in_dim / SPAN;
    __global const float *totals = packed + stream_totals(m->in_dim);
    __global const float *rest = packed + spans * (SPAN_PACKED - SPAN);
    UNROLL
    for (uint i = 0; i < ROWS; i++)
        rows[i] = kind_row_of(m, matrix, first + min(i, n - 1));
    for (uint span = 0; span < spans; span++) {
        float16 scales[ROWS][STREAM_SETS];
        UNROLL
        for (uint i = 0; i < ROWS; i++) {
            UNROLL
            for (uint k = 0; k < STREAM_SETS; k++)
                scales[i][k] = stream_scales(rows[i].scales, span * STREAM_SETS + k, rows[i].group_shift);
#if KIND_BIAS
            biases[i] = fma(stream_scales(rows[i].biases, span, rows[i].group_shift), vload16(span, totals), biases[i]);
#endif
        }
        STREAM_VECTOR(0)
        STREAM_VECTOR(1)
#if STREAM_BITS > 2
        STREAM_VECTOR(2)
#endif
#if STREAM_BITS > 3
        STREAM_VECTOR(3)
#endif
#if STREAM_BITS > 4
        STREAM_VECTOR(4)
#endif
#if STREAM_BITS > 5
        STREAM_VECTOR(5)
#endif
#if STREAM_BITS > 6
        STREAM_VECTOR(6)
        STREAM_VECTOR(7)
#endif
    }
    for (uint j = spans * (SPAN / 16); j < m->in_dim / 16; j += 2) {
        UNROLL
        for (uint i = 0; i < ROWS; i++) {
            float2 scale = kind_own_scale(&rows[i], j);
            float16 part = kind_sixteen(&rows[i], j) * vload16(j, rest);
            if (KIND_SCALES == 16) {
                sums[i] = fma((float16)(scale.x), part, sums[i]);
                scale = kind_own_scale(&rows[i], j + 1);
                part = 0;
            }
            part = fma(kind_sixteen(&rows[i], j + 1), vload16(j + 1, rest), part);
            sums[i] = fma((float16)(scale.x), part, sums[i]);
            if (KIND_BIAS)
                last[i] = fma(scale.y, totals[j / 2], last[i]);
        }
    }
    UNROLL
    for (uint i = 0; i < ROWS; i++) {
        dots[i] = sum16(sums[i]) + (sum16(biases[i]) + last[i]);
#ifdef KIND_FACTOR
        dots[i] *= rows[i].factor;
#endif
    }
}
#elif defined(KIND_TABLES) || defined(KIND_BYTES)
// sum and the products of a block's g-th 32 inputs.
INLINE float8 block_dot(const struct open_block *b, uint g, const float8 *x, float8 sum)
{
    float8 w[4];
    block_eights(b, g, w);
    float8 part = w[0] * x[0];
    part = fma(w[1], x[1], part);
#if KIND_SCALES == 16
    sum = fma((float8)(b->scales[2 * g]), part, sum);
    part = w[2] * x[2];
#else
    part = fma(w[2], x[2], part);
#endif
    part = fma(w[3], x[3], part);
    return fma((float8)(b->scales[g * (32 / KIND_SCALES) + 32 / KIND_SCALES - 1]), part, sum);
}

// The dot products of rows first .. first + n - 1 (n <= ROWS) with packed x.
static void dots_of(const struct args_matrix *m, __global const uchar *matrix, uint first, uint n,
                    __global const float *packed, float *dots)
{
    BYTES rows[ROWS];
    float8 sums[ROWS] = {0};
    struct open_block blocks[ROWS];
#ifdef BLOCK_TOTALS
    float8 rests[ROWS] = {0};
#endif
    UNROLL
    for (uint i = 0; i < ROWS; i++)
        rows[i] = kind_row_of(m, matrix, first + min(i, n - 1)).p;
    uint n_blocks = m->in_dim / 256;
    for (uint block = 0; block < n_blocks; block++) {
        UNROLL
        for (uint i = 0; i < ROWS; i++) {
            fetch_ahead(rows[i], n_blocks * BLOCK_BYTES, BLOCK_BYTES);
            block_open(rows[i], &blocks[i]);
#ifdef BLOCK_TOTALS
            rests[i] += block_rest(rows[i], &blocks[i], packed + m->in_dim + block * BLOCK_TOTALS);
#endif
            rows[i] += BLOCK_BYTES;
        }
        KEEP_IN_MEMORY(blocks, blocks);
        NO_UNROLL
        for (uint g = 0; g < 8; g++) {
            float8 x[4];
            UNROLL
            for (uint l = 0; l < 4; l++)
                x[l] = vload8(block * 32 + g * 4 + l, packed);
            UNROLL
            for (uint i = 0; i < ROWS; i++)
                sums[i] = block_dot(&blocks[i], g, x, sums[i]);
        }
    }
    UNROLL
    for (uint i = 0; i < ROWS; i++) {
#ifdef BLOCK_TOTALS
        sums[i] += rests[i];
#endif
        dots[i] = sum8(sums[i]);
    }
}
#elif defined(KIND_OPEN_BLOCKS)
// The dot products of rows first .. first + n - 1 (n <= ROWS) with packed x.
static void dots_of(const struct args_matrix *m, __global const uchar *matrix, uint first, uint n,
                    __global const float *packed, float *dots)
{
    enum { VECTORS = 32 / NIBBLE_LANES };
    BYTES rows[ROWS];
    NIBBLE_FLOATS sums[ROWS] = {0};
    float rests[ROWS] = {0};
    struct open_blocks open[ROWS];
    __global const float *totals = packed + m->in_dim;
    UNROLL
    for (uint i = 0; i < ROWS; i++)
        rows[i] = kind_row_of(m, matrix, first + min(i, n - 1)).p;
    uint n_blocks = m->in_dim / 32;
    for (uint block = 0; block < n_blocks; block += 8) {
        uint count = min(8u, n_blocks - block);
        UNROLL
        for (uint i = 0; i < ROWS; i++) {
            fetch_ahead(rows[i], n_blocks * BLOCK_BYTES, 8 * BLOCK_BYTES);
            UNROLL_2
            for (uint k = 0; k < count; k++, rows[i] += BLOCK_BYTES) {
                float2 scale = scale_in(rows[i], 0);
                open[i].q[k] = block_bytes(rows[i]);
                open[i].scales[k] = scale.x;
                if (KIND_BIAS)
                    rests[i] = fma(scale.y, totals[block + k], rests[i]);
            }
        }
        KEEP_IN_MEMORY(open, open);
        NO_UNROLL
        for (uint k = 0; k < count; k++) {
            NIBBLE_FLOATS x[VECTORS];
            UNROLL
            for (uint v = 0; v < VECTORS; v++)
                x[v] = NIBBLE_LOAD((block + k) * VECTORS + v, packed);
            UNROLL
            for (uint i = 0; i < ROWS; i++) {
                NIBBLE_FLOATS part = nibble_floats(open[i].q, k * VECTORS) * x[0];
                UNROLL
                for (uint v = 1; v < VECTORS; v++)
                    part = fma(nibble_floats(open[i].q, k * VECTORS + v), x[v], part);
                sums[i] = fma((NIBBLE_FLOATS)(open[i].scales[k]), part, sums[i]);
            }
        }
    }
    UNROLL
    for (uint i = 0; i < ROWS; i++)
        dots[i] = NIBBLE_SUM(sums[i]) + rests[i];
}
#else
// The rows' scales of a block, or of 32 inputs.
#if BLOCK_INPUTS == 256
#define STEP 16 // sixteens that are taken together
#define SETS BLOCK_SETS
#else
#define STEP (BLOCK_INPUTS > 32 ? BLOCK_INPUTS / 16 : 2)
#define SETS (STEP * 16 / KIND_SCALES)
#endif

INLINE void step_scales(const struct kind_row *row, uint j, float *s, float *b)
{
#if BLOCK_INPUTS == 256
    block_scales(row->p + j / 16 * BLOCK_BYTES, s, b);
#else
    UNROLL
    for (uint i = 0; i < SETS; i++) {
        float2 scale = kind_scale(row, j + i * (KIND_SCALES / 16));
        s[i] = scale.x;
        b[i] = scale.y;
    }
#endif
}

// The dot products of rows first .. first + n - 1 (n <= ROWS) with packed x.
static void dots_of(const struct args_matrix *m, __global const uchar *matrix, uint first, uint n,
                    __global const float *packed, float *dots)
{
    struct kind_row rows[ROWS];
    float16 sums[ROWS] = {0};
    float biases[ROWS] = {0};
    float s[ROWS][SETS], b[ROWS][SETS];
    __global const float *totals = packed + m->in_dim;
    UNROLL
    for (uint i = 0; i < ROWS; i++)
        rows[i] = kind_row_of(m, matrix, first + min(i, n - 1));
    for (uint j = 0; j < m->in_dim / 16; j += STEP, totals += SETS) {
        UNROLL
        for (uint i = 0; i < ROWS; i++) {
            fetch_ahead(rows[i].p + j / (BLOCK_INPUTS / 16) * BLOCK_BYTES, m->in_dim / BLOCK_INPUTS * BLOCK_BYTES,
                        STEP * 16 / BLOCK_INPUTS * BLOCK_BYTES);
            step_scales(&rows[i], j, s[i], b[i]);
            float bias = 0;
            UNROLL
            for (uint k = 0; KIND_BIAS && k < SETS; k++)
                bias = fma(b[i][k], totals[k], bias);
            biases[i] += bias;
        }
        UNROLL_2
        for (uint k = 0; k < SETS; k++) {
            uint at = j + k * (KIND_SCALES / 16);
            float16 x0 = vload16(at, packed);
            float16 x1 = vload16(at + KIND_SCALES / 16 - 1, packed);
            UNROLL
            for (uint i = 0; i < ROWS; i++) {
                float16 part = kind_sixteen(&rows[i], at) * x0;
                if (KIND_SCALES == 32)
                    part = fma(kind_sixteen(&rows[i], at + 1), x1, part);
                sums[i] = fma((float16)(s[i][k]), part, sums[i]);
            }
        }
    }
    UNROLL
    for (uint i = 0; i < ROWS; i++)
        dots[i] = sum16(sums[i]) + biases[i];
}
#endif
#else
static void pack_words(__global const float *x, __global float *packed, uint lanes, uint per_word)
{
    float step = per_word == 8 ? 1.0f / 16 : 1.0f / 256;
    for (uint j = 0; j < lanes; j++) {
        float sum = 0;
        float factor = 1;
        for (uint k = 0; k < per_word; k++) {
            float value = x[j * per_word + k];
            sum += value;
            // The highest plane is shifted down instead: it would be the sign.
            packed[k * lanes + j] = k + 1 == per_word ? value : value * factor;
            factor *= step;
        }
        packed[per_word * lanes + j] = sum;
    }
}

static void pack_row(__global const float *x, __global float *packed, uint in_dim, uint bits)
{
    uint per_word = inputs_per_word(bits);
    uint block = 16 * per_word;
    uint input = 0;
    if (per_word == 1) {
        for (; input < in_dim; input += 16)
            vstore16(vload16(0, x + input), 0, packed + input);
        return;
    }
    for (; input + block <= in_dim; input += block, packed += block + 16)
        pack_words(x + input, packed, 16, per_word);
    for (; input < in_dim; input += 32, packed += 32 + 32 / per_word)
        pack_words(x + input, packed, 32 / per_word, per_word);
}

struct row_set {
    __global const uint *words[ROWS];
    __global const ushort *scales[ROWS];
    __global const ushort *biases[ROWS];
};

// Rows `first` to `first + n - 1`; beyond, the last again.
static void take_rows(struct row_set *rows, const struct args_matrix *m, __global const uchar *matrix, uint first, uint n)
{
    UNROLL
    for (uint i = 0; i < ROWS; i++) {
        uint row = first + min(i, n - 1);
        rows->words[i] = row_words(m, matrix, row);
        rows->scales[i] = row_scales(m, matrix, row);
        rows->biases[i] = row_biases(m, matrix, row);
    }
}

#define PLANE4(k) fma(convert_float16(as_int16(w & (15u << 4 * k))), vload16(k, x), part)
#define PLANE8(k) fma(convert_float16(as_int16(w & (255u << 8 * k))), vload16(k, x), part)

// A group of inputs that have a scale is 1 << shift.
static void dots4(const struct row_set *rows, __global const float *x, uint in_dim, uint shift, float *dots)
{
    float16 sums[ROWS] = {0};
    uint n_groups = max(128u >> shift, 1u);
    uint blocks = in_dim / 128;
    for (uint b = 0; b < blocks; b++, x += 144) {
        UNROLL
        for (uint i = 0; i < ROWS; i++) {
            uint16 w = vload16(b, rows->words[i]);
            fetch_ahead(rows->words[i] + 16 * b, in_dim / 2, 64);
            float16 part = convert_float16(as_int16(w >> 28)) * vload16(7, x);
            part = PLANE4(0);
            part = PLANE4(1);
            part = PLANE4(2);
            part = PLANE4(3);
            part = PLANE4(4);
            part = PLANE4(5);
            part = PLANE4(6);
            sums[i] = fma(spread(rows->scales[i] + b * n_groups, n_groups), part, sums[i]);
            sums[i] = fma(spread(rows->biases[i] + b * n_groups, n_groups), vload16(8, x), sums[i]);
        }
    }
    UNROLL
    for (uint i = 0; i < ROWS; i++)
        dots[i] = sum16(sums[i]);
    for (uint input = blocks * 128; input < in_dim; input += 32, x += 36) {
        UNROLL
        for (uint i = 0; i < ROWS; i++) {
            uint4 w = vload4(input / 32, rows->words[i]);
            float4 part = convert_float4(w >> 28) * vload4(7, x);
            for (uint k = 0; k < 7; k++)
                part = fma(convert_float4(w & (15u << 4 * k)), vload4(k, x), part);
            part = fma((float4)(bf16(rows->scales[i][input >> shift])), part,
                       (float4)(bf16(rows->biases[i][input >> shift])) * vload4(8, x));
            dots[i] += (part.x + part.z) + (part.y + part.w);
        }
    }
}

static void dots8(const struct row_set *rows, __global const float *x, uint in_dim, uint shift, float *dots)
{
    float16 sums[ROWS] = {0};
    uint n_groups = max(64u >> shift, 1u);
    uint blocks = in_dim / 64;
    for (uint b = 0; b < blocks; b++, x += 80) {
        UNROLL
        for (uint i = 0; i < ROWS; i++) {
            uint16 w = vload16(b, rows->words[i]);
            fetch_ahead(rows->words[i] + 16 * b, in_dim, 64);
            float16 part = convert_float16(as_int16(w >> 24)) * vload16(3, x);
            part = PLANE8(0);
            part = PLANE8(1);
            part = PLANE8(2);
            uint group = b * 64 >> shift;
            sums[i] = fma(spread(rows->scales[i] + group, n_groups), part, sums[i]);
            sums[i] = fma(spread(rows->biases[i] + group, n_groups), vload16(4, x), sums[i]);
        }
    }
    UNROLL
    for (uint i = 0; i < ROWS; i++)
        dots[i] = sum16(sums[i]);
    if (blocks * 64 == in_dim)
        return;
    UNROLL
    for (uint i = 0; i < ROWS; i++) {
        uint8 w = vload8(blocks * 2, rows->words[i]);
        float8 part = convert_float8(w >> 24) * vload8(3, x);
        for (uint k = 0; k < 3; k++)
            part = fma(convert_float8(w & (255u << 8 * k)), vload8(k, x), part);
        uint group = blocks * 64 >> shift;
        part = fma((float8)(bf16(rows->scales[i][group])), part, (float8)(bf16(rows->biases[i][group])) * vload8(4, x));
        float4 halves = part.lo + part.hi;
        dots[i] += (halves.x + halves.z) + (halves.y + halves.w);
    }
}

static void dots_plain(const struct row_set *rows, __global const float *x, uint in_dim, uint bits, float *dots)
{
    float16 sums[ROWS] = {0};
    for (uint b = 0; b < in_dim / 16; b++) {
        float16 in = vload16(b, x);
        UNROLL
        for (uint i = 0; i < ROWS; i++)
            sums[i] = fma(plain16(rows->words[i], bits, b), in, sums[i]);
    }
    UNROLL
    for (uint i = 0; i < ROWS; i++)
        dots[i] = sum16(sums[i]);
}

// The dot products of rows first .. first + n - 1 (n <= ROWS) with packed x.
static void dots_of(const struct args_matrix *m, __global const uchar *matrix, uint first, uint n,
                    __global const float *packed, float *dots)
{
    struct row_set rows;
    take_rows(&rows, m, matrix, first, n);
    if (bits_of(m) == 4)
        dots4(&rows, packed, m->in_dim, group_shift_of(m), dots);
    else if (bits_of(m) == 8)
        dots8(&rows, packed, m->in_dim, group_shift_of(m), dots);
    else
        dots_plain(&rows, packed, m->in_dim, bits_of(m), dots);
}
#endif

// The rows of W x that are work-group x's, of those of `matrix`, into y, or added to it.
static void range_matvec(const struct args_matrix *m, __global const uchar *matrix, __global const float *packed,
                         uint rows_per_group, uint add, __global float *y)
{
    uint first = get_group_id(0) * rows_per_group;
    uint end = min(first + rows_per_group, m->out_dim);
    for (; first < end; first += ROWS) {
        float dots[ROWS];
        uint n = min(end - first, (uint)ROWS);
        dots_of(m, matrix, first, n, packed, dots);
        for (uint i = 0; i < n; i++)
            y[first + i] = add ? y[first + i] + dots[i] : dots[i];
    }
}

struct gated {
    const struct args_matrix *gate;
    const struct args_matrix *up;
    __global const uchar *matrices;
    float2 limits;
};

// The same of silu(gate x) * (up x).
static void range_swiglu(const struct gated *g, __global const float *packed, uint rows_per_group, __global float *y)
{
    uint first = get_group_id(0) * rows_per_group;
    uint end = min(first + rows_per_group, g->gate->out_dim);
    for (; first < end; first += ROWS) {
        float gates[ROWS];
        float ups[ROWS];
        uint n = min(end - first, (uint)ROWS);
        dots_of(g->gate, g->matrices, first, n, packed, gates);
        dots_of(g->up, g->matrices, first, n, packed, ups);
        for (uint i = 0; i < n; i++)
            y[first + i] = swiglu(gates[i], ups[i], g->limits);
    }
}

#if USES & USE_PRODUCTS
__kernel GROUP_SIZE(1, 1) void matvec(const struct args_matmul a, const struct tiling t, __global const uchar *matrix,
                                      __global const float *x, __global float *y, __global float *scratch)
{
    if (a.n_rows == 0)
        return;
    __global float *packed = scratch + get_group_id(0) * t.scratch_stride;
    pack_row(x + a.in_offset, packed, a.matrix.in_dim, bits_of(&a.matrix));
    range_matvec(&a.matrix, matrix, packed, t.rows_per_group, a.add, y + a.out_offset);
}
#endif

// Groups: x over ranges of rows_per_group rows, y over matrices. Each norms x for itself, behind its packed one.
#if USES & USE_PRODUCTS
__kernel GROUP_SIZE(1, 1) void norm_matvecs(const struct args_norm_matvecs a, const struct tiling t,
                                            __global const uchar *norms, __global const float *x,
                                            __global float *normed, __global const uchar *matrix0,
                                            __global const uchar *matrix1, __global const uchar *matrix2,
                                            __global const uchar *matrix3, __global float *y0,
                                            __global float *y1, __global float *y2, __global float *y3,
                                            __global float *scratch)
{
    uint k = get_group_id(1);
    if (k >= a.n)
        return;
    struct args_matrix m = either_matrix(&a.matrix[0], &a.matrix[1], k == 1);
    m = either_matrix(&m, &a.matrix[2], k == 2);
    m = either_matrix(&m, &a.matrix[3], k == 3);
    if (get_group_id(0) * t.rows_per_group >= m.out_dim)
        return;
    struct normed_row row = {(__global const float *)(norms + a.norm), m.in_dim, a.eps, a.plus_one};
    __global float *packed = scratch + (ulong)(k * t.n_groups + get_group_id(0)) * t.scratch_stride;
    __global float *own = packed + t.scratch_stride - m.in_dim;
    norm_row(&row, x + a.in_offset, own, 1, 0);
    for (uint i = 0; k == 0 && get_group_id(0) == 0 && i < m.in_dim; i += 16)
        vstore16(vload16(0, own + i), 0, normed + a.normed_offset + i);
    pack_row(own, packed, m.in_dim, bits_of(&m));
    __global const uchar *matrix = k == 0 ? matrix0 : k == 1 ? matrix1 : k == 2 ? matrix2 : matrix3;
    __global float *y = k == 0   ? y0 + a.out_offset[0]
                        : k == 1 ? y1 + a.out_offset[1]
                        : k == 2 ? y2 + a.out_offset[2]
                                 : y3 + a.out_offset[3];
    range_matvec(&m, matrix, packed, t.rows_per_group, 0, y);
}
#endif

#if USES & USE_PRODUCTS
__kernel GROUP_SIZE(1, 1) void swiglu_vec(const struct args_swiglu a, const struct tiling t,
                                          __global const uchar *matrices, __global const float *x, __global float *y,
                                          __global float *scratch)
{
    if (a.n_rows == 0)
        return;
    __global float *packed = scratch + get_group_id(0) * t.scratch_stride;
    pack_row(x + a.in_offset, packed, a.gate.in_dim, bits_of(&a.gate));
    struct gated g = {&a.gate, &a.up, matrices, LIMITS(a)};
    range_swiglu(&g, packed, t.rows_per_group, y + a.out_offset);
}
#endif

// Groups: x over ranges of rows_per_group rows, y over experts and, last, the shared one.
#if USES & USE_EXPERTS
__kernel GROUP_SIZE(1, 1) void swiglu_experts(const struct args_swiglu_experts a, const struct tiling t,
                                              __global const uchar *matrices, __global const uchar *shared,
                                              __global const int *ids, __global const float *x, __global float *y,
                                              __global float *scratch, __global const float *shared_gate)
{
    uint k = get_group_id(1);
    if (a.at.n == 0)
        return;
    struct args_matrix gate = either_matrix(&a.gate, &a.shared_gate, k == a.at.n);
    struct args_matrix up = either_matrix(&a.up, &a.shared_up, k == a.at.n);
    if (get_group_id(0) * t.rows_per_group >= gate.out_dim)
        return;
    struct expert_at at = expert_at(&a.at, ids, min(k, a.at.n - 1));
    __global float *packed = scratch + (ulong)(k * t.n_groups + get_group_id(0)) * t.scratch_stride;
    pack_row(x + a.in_offset, packed, gate.in_dim, bits_of(&gate));
    struct gated g = {&gate, &up, k < a.at.n ? matrices + at.place : shared, LIMITS(a)};
    __global float *out = y + (k < a.at.n ? (ulong)at.rank * a.out_stride : a.shared_offset);
    range_swiglu(&g, packed, t.rows_per_group, out);
    gate_own(k == a.at.n && a.is_gated, t.rows_per_group, gate.out_dim, shared_gate, out);
}
#endif

#if USES & USE_EXPERTS
__kernel GROUP_SIZE(1, 1) void matvec_experts(const struct args_matvec_experts a, const struct tiling t,
                                              __global const uchar *matrices, __global const int *ids,
                                              __global const float *x, __global float *y,
                                              __global float *scratch)
{
    uint k = get_group_id(1);
    if (k >= a.at.n)
        return;
    struct expert_at at = expert_at(&a.at, ids, k);
    __global float *packed = scratch + (k * t.n_groups + get_group_id(0)) * t.scratch_stride;
    pack_row(x + (ulong)at.rank * a.in_stride + a.in_offset, packed, a.matrix.in_dim, bits_of(&a.matrix));
    range_matvec(&a.matrix, matrices + at.place, packed, t.rows_per_group, 0, y + (ulong)at.rank * a.out_stride);
}
#endif

// A group has its range of rows of all the matrices, one after the other, and adds up what it left in `partial` itself.
#if USES & USE_EXPERTS
__kernel GROUP_SIZE(1, 1) void add_experts(const struct args_add_experts a, const struct tiling t,
                                           __global const uchar *matrices, __global const uchar *shared,
                                           __global const int *ids, __global const float *x,
                                           __global const float *weight, __global float *partial,
                                           __global float *out, __global float *scratch)
{
    if (a.at.n == 0)
        return;
    uint dim = a.matrix.out_dim;
    uint has_shared = a.shared.kind != KIND_NONE;
    __global float *packed = scratch + (ulong)get_group_id(0) * t.scratch_stride;
    for (uint k = 0; k < a.at.n + has_shared; k++) {
        struct args_matrix m = either_matrix(&a.matrix, &a.shared, k == a.at.n);
        struct expert_at at = expert_at(&a.at, ids, min(k, a.at.n - 1));
        pack_row(x + (k < a.at.n ? k * a.in_stride : a.shared_offset), packed, m.in_dim, bits_of(&m));
        range_matvec(&m, k < a.at.n ? matrices + at.place : shared, packed, t.rows_per_group, 0,
                     partial + (ulong)k * dim);
    }
    uint o = get_group_id(0) * t.rows_per_group;
    uint end = min(o + t.rows_per_group, dim);
    __global const float *of_shared = partial + (ulong)a.at.n * dim;
    for (; o + 16 <= end; o += 16) {
        float16 sum = 0;
        for (uint k = 0; k < a.at.n; k++)
            sum = fma((float16)(weight[a.first_weight + k]), vload16(0, partial + (ulong)k * dim + o), sum);
        float16 before = vload16(0, out + o);
        if (has_shared)
            before += vload16(0, of_shared + o);
        vstore16(before + sum, 0, out + o);
    }
    for (; o < end; o++) {
        float sum = 0;
        for (uint k = 0; k < a.at.n; k++)
            sum = fma(weight[a.first_weight + k], partial[(ulong)k * dim + o], sum);
        out[o] = (has_shared ? out[o] + of_shared[o] : out[o]) + sum;
    }
}
#endif

// One row. Groups: y over heads.
#if USES & USE_HEADS
__kernel GROUP_SIZE(1, 1) void heads(const struct args_heads a, const struct tiling t, __global const uchar *matrix,
                                     __global const float *x, __global float *out, __global float *scratch)
{
    uint h = get_group_id(1);
    __global float *packed = scratch + h * t.scratch_stride;
    __global float *to = out + h * a.n_out;
    pack_row(x + h * a.head_stride, packed, a.matrix.in_dim, bits_of(&a.matrix));
    for (uint o = 0; o < a.n_out; o += ROWS) {
        float dots[ROWS];
        uint n = min(a.n_out - o, (uint)ROWS);
        dots_of(&a.matrix, matrix, h * a.head_rows + a.first_row + o, n, packed, dots);
        for (uint i = 0; i < n; i++)
            to[o + i] = dots[i];
    }
}
#endif

#endif
