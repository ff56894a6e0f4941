// SPDX-License-Identifier: GPL-3.0-or-later
// CPU: the dot products of ROWS rows of a kind's matrix with a row of x, for matvec_cpu.cl: how x is packed for it, and
// what is done with what the other kind_*.cl say of blocks and streams.
#if defined(KIND) && SHAPE_CPU

// packed x: x, or the planes of kind_planes.cl, kind_words.cl or kind_streams.cl, and behind it the sum of every
// KIND_SCALES, or TABLE_DELTA; or what kind_lookups.cl says.
static void pack_row(__global const float *x, __global float *packed, uint in_dim, uint bits)
{
#ifdef KIND_LOOKUPS
    pack_lookups(x, packed, in_dim);
#else
    uint totals = in_dim;
#if defined(KIND_PLANES) && !defined(KIND_BYTES)
    pack_planes(x, packed, in_dim);
#elif defined(KIND_WORDS)
    pack_vectors(x, packed, in_dim);
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
#endif
}

#if defined(KIND_LOOKUPS) // has its own
#elif defined(KIND_PLANES) && !defined(KIND_BYTES)
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
        float units[ROWS][2];
        units_of_rows(rows, units);
        KEEP_IN_MEMORY(units, units);
        UNROLL
        for (uint i = 0; i < ROWS; i++) {
            fetch_ahead(rows[i], blocks * BLOCK_BYTES, BLOCK_BYTES);
            SCALES_TAKE(scales[i], rows[i], units[i][D_AT]);
#if KIND_BIAS
            biases[i] = fma(biases_in(rows[i], units[i][1]), SCALES_LOAD(0, totals), biases[i]);
#endif
        }
#if HALVES == 2
        KEEP_IN_MEMORY(scales, scales);
#endif
        PART_OF_ROWS(0)
        PART_OF_ROWS(3)
        PART_OF_ROWS(1)
        PART_OF_ROWS(2)
        UNROLL
        for (uint i = 0; i < ROWS; i++)
            rows[i] += BLOCK_BYTES;
    }
    UNROLL
    for (uint i = 0; i < ROWS; i++)
        dots[i] = SUM_OF_HALVES(sums, i) + SCALES_SUM(biases[i]);
}
#elif defined(KIND_WORDS)
// The dot products of rows first .. first + n - 1 (n <= ROWS) with packed x.
static void dots_of(const struct args_matrix *m, __global const uchar *matrix, uint first, uint n,
                    __global const float *packed, float *dots)
{
    struct kind_row rows[ROWS];
    float16 sums[ROWS] = {0};
    float16 rests = 0; // of the biases: four lanes a row
    float last[ROWS] = {0};
    uint row_bytes = m->in_dim / BLOCK_INPUTS * BLOCK_BYTES;
    __global const float *totals = packed + m->in_dim;
    UNROLL
    for (uint i = 0; i < ROWS; i++)
        rows[i] = kind_row_of(m, matrix, first + min(i, n - 1));
    for (uint v = 0; v < m->in_dim / WORDS_INPUTS; v++, packed += WORDS_INPUTS) {
        struct words w[ROWS];
        float16 parts[ROWS];
        ROWS_SCALES(rows, v)
#if KIND_BIAS
        float4 four = vload4(v, totals);
        rests = fma(biases, (float16)(four, four, four, four), rests);
#endif
        UNROLL
        for (uint i = 0; i < ROWS; i++) {
            w[i] = row_words_of(rows[i].p, v);
            fetch_ahead(vector_at(rows[i].p, v), row_bytes, WORDS_INPUTS * BLOCK_BYTES / BLOCK_INPUTS);
        }
        UNROLL
        for (uint k = 0; k < 8; k++) { // rows inside, so that a plane of x stays in a register
            float16 plane = vload16(k, packed);
            UNROLL
            for (uint i = 0; i < ROWS; i++)
                parts[i] = k == 0 ? word_numbers(&w[i], k) * plane : fma(word_numbers(&w[i], k), plane, parts[i]);
        }
        UNROLL
        for (uint i = 0; i < ROWS; i++)
            sums[i] = fma(ROW_SCALES(i, rows[i].p, v), parts[i], sums[i]);
    }
    for (uint j = m->in_dim / WORDS_INPUTS * (WORDS_INPUTS / 16); j < m->in_dim / 16; j++, packed += 16) {
        UNROLL
        for (uint i = 0; i < ROWS; i++) {
            float2 scale = kind_own_scale(&rows[i], j);
            sums[i] = fma(kind_sixteen(&rows[i], j) * vload16(0, packed), (float16)(scale.x), sums[i]);
            if (KIND_BIAS && j % 2 == 0)
                last[i] = fma(scale.y, totals[j / 2], last[i]);
        }
    }
    const float4 of_rows[ROWS] = {rests.s0123, rests.s4567, rests.s89ab, rests.scdef};
    UNROLL
    for (uint i = 0; i < ROWS; i++) {
        dots[i] = sum16(sums[i]);
        if (KIND_BIAS)
            dots[i] += (of_rows[i].x + of_rows[i].z) + (of_rows[i].y + of_rows[i].w) + last[i];
#ifdef KIND_FACTOR
        dots[i] *= rows[i].factor;
#endif
    }
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
// The products of `count` times 32 inputs, 8 times at most, of each row with their x.
INLINE void add_open_blocks(BYTES *rows, const uint count, uint row_bytes, __global const float *x,
                            __global const float *totals, float8 *sums, float *rests)
{
    struct open_blocks open[ROWS];
    UNROLL
    for (uint i = 0; i < ROWS; i++) {
        fetch_ahead(rows[i], row_bytes, count * 32 / BLOCK_INPUTS * BLOCK_BYTES);
        open_32s(rows[i], count, &open[i]);
        UNROLL
        for (uint k = 0; KIND_BIAS && k < count; k++)
            rests[i] = fma(scale_in(rows[i] + k * BLOCK_BYTES, 0).y, totals[k], rests[i]);
        rows[i] += count * 32 / BLOCK_INPUTS * BLOCK_BYTES;
    }
    KEEP_IN_MEMORY(open, open);
    NO_UNROLL
    for (uint k = 0; k < count; k++, x += 32) {
        float8 planes[4];
        UNROLL
        for (uint v = 0; v < 4; v++)
            planes[v] = vload8(v, x);
        UNROLL
        for (uint i = 0; i < ROWS; i++) {
            const float *scales = (const float *)open[i].scales;
            float8 part = open_floats(&open[i], 4 * k) * planes[0];
            part = fma(open_floats(&open[i], 4 * k + 1), planes[1], part);
#if KIND_SCALES == 16
            sums[i] = fma((float8)(scales[2 * k]), part, sums[i]);
            part = open_floats(&open[i], 4 * k + 2) * planes[2];
#else
            part = fma(open_floats(&open[i], 4 * k + 2), planes[2], part);
#endif
            part = fma(open_floats(&open[i], 4 * k + 3), planes[3], part);
            sums[i] = fma((float8)(scales[(k + 1) * (32 / KIND_SCALES) - 1]), part, sums[i]);
        }
    }
}

// The dot products of rows first .. first + n - 1 (n <= ROWS) with packed x.
static void dots_of(const struct args_matrix *m, __global const uchar *matrix, uint first, uint n,
                    __global const float *packed, float *dots)
{
    BYTES rows[ROWS];
    float8 sums[ROWS] = {0};
    float rests[ROWS] = {0};
    __global const float *totals = packed + m->in_dim;
    UNROLL
    for (uint i = 0; i < ROWS; i++)
        rows[i] = kind_row_of(m, matrix, first + min(i, n - 1)).p;
    uint row_bytes = m->in_dim / BLOCK_INPUTS * BLOCK_BYTES, times = m->in_dim / 32, at = 0;
    for (; at + 8 <= times; at += 8)
        add_open_blocks(rows, 8, row_bytes, packed + at * 32, totals + at, sums, rests);
    if (at + 4 <= times) {
        add_open_blocks(rows, 4, row_bytes, packed + at * 32, totals + at, sums, rests);
        at += 4;
    }
    NO_UNROLL
    for (; at < times; at += OPEN_LEAST)
        add_open_blocks(rows, OPEN_LEAST, row_bytes, packed + at * 32, totals + at, sums, rests);
    UNROLL
    for (uint i = 0; i < ROWS; i++) {
        dots[i] = sum8(sums[i]) + rests[i];
#ifdef KIND_FACTOR
        dots[i] *= kind_row_of(m, matrix, first).factor;
#endif
    }
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
#endif
