// SPDX-License-Identifier: GPL-3.0-or-later
// CPU: what kind_lookups.cl has for blocks of Q2_K. Each byte of a word has quanta of four scales.
#if defined(KIND_LOOKUPS) && defined(KIND_IS_Q2_K)
// The byte of its word in which the scale of a half's n-th 16 inputs, or those behind them, has the lower nibble. Vectors
// of 8 floats leave scales and minima where they stand, so that x and totals are smaller; at the top is no room for a sign.
#define SCALE_BYTE(n, behind) ((2 * (n) + (behind)) % 4)
#define SCALE_SHIFT(byte) (HALVES == 1 ? 0 : 8 * (byte))
#define MINIMUM_SHIFT(byte) (HALVES == 1 || (byte) == 3 ? 0 : 8 * (byte) + 4)

// 16 lanes: a nibble has two inputs of two scales, so words of a row exchange halves of their nibbles first, which then
// have inputs i and i + 4 of one: 8 sums, in the order of add_block's sixteens. 8 lanes: four words exchange quanta until
// each has one scale's.
static void pack_lookups(__global const float *x, __global float *packed, uint in_dim)
{
    __global FLOATS *sums = (__global FLOATS *)packed;
    for (uint sixteen = 0; sixteen < in_dim / 16; sixteen++, sums += WORD_SUMS) {
        // Of 128 inputs those of quanta n of 16 bytes, and then of the 16 behind them.
        uint n = sixteen % 4, behind = sixteen / 4 % 2;
        __global const float *from = x + sixteen / 8 * 128 + n * 32 + behind * 16;
        float in[16], factor = as_float(127 - SCALE_SHIFT(SCALE_BYTE(n, behind)) << 23);
        for (uint i = 0; i < 16; i++)
            in[i] = factor * (HALVES == 1 ? from[i / 8 * 8 + i % 2 * 4 + i / 2 % 4] : from[i % 4 * 4 + i / 4]);
        pack_word(in, sums);
    }
    for (uint sixteen = 0; sixteen < in_dim / 16; sixteen++)
        packed[SUMS_FLOATS(in_dim) + sixteen] =
            sum16(vload16(sixteen, x)) * as_float(127 - MINIMUM_SHIFT(sixteen % 4) << 23);
}

#if HALVES == 1
// 16 inputs, of which two words have two each in a nibble of each byte, the lower one or the upper.
INLINE float16 sixteen_sums(const uint16 *w, const uint upper, __global const float16 *sums, const struct shifts *shifts)
{
    float16 first = LOOKED_UP_SUM(sums[0], w[0], 4 * upper), second = LOOKED_UP_SUM(sums[4], w[1], 4 * upper);
    UNROLL
    for (uint j = 1; j < 4; j++) {
        first += LOOKED_UP_SUM(sums[j], w[0], 8 * j + 4 * upper);
        second += LOOKED_UP_SUM(sums[4 + j], w[1], 8 * j + 4 * upper);
    }
    return first + second;
}

// What a block's scale and minimum, the nibbles of a byte of w, make of 16 inputs.
#define ADD_SIXTEEN(w, byte, part, upper, n)                                                                           \
    {                                                                                                                  \
        dots = fma(__builtin_ia32_permvarsf512(numbers, as_int16(w >> byte * 8)),                                      \
                   sixteen_sums(part, upper, sums + 8 * n, &shifts), dots);                                            \
        minima = fma(__builtin_ia32_permvarsf512(numbers, as_int16(w >> byte * 8 + 4)), (float16)(totals[2 * n]), minima); \
    }

// all and the products of a block of each row.
INLINE void add_block(const BYTES *p, __global const float16 *sums, __global const float *totals, float16 *all)
{
    const struct shifts shifts = shifts_hidden();
    const float16 numbers = convert_float16(LANES_16);
    float16 dots = 0, minima = 0;
    uint16 scales[4], next[4];
    four_turned(p, 0, scales);
    four_turned(p, 16, next);
    NO_UNROLL
    for (uint part = 0; part < 4; part++, sums += 32) {
        uint16 w[4] = {next[0], next[1], next[2], next[3]};
        four_turned(p, 16 + 16 * min(part + 1, 3u), next); // ahead, or there is nothing to do while they come
        uint16 even[2] = {either_bits(0x33333333, w[0], w[1] << 2), either_bits(0x33333333, w[2], w[3] << 2)};
        uint16 odd[2] = {either_bits(0x33333333, w[0] >> 2, w[1]), either_bits(0x33333333, w[2] >> 2, w[3])};
        uint16 s = scales[part / 2 * 2] >> part % 2 * 8, t = scales[part / 2 * 2 + 1] >> part % 2 * 8;
        ADD_SIXTEEN(s, 0, even, 0, 0)
        ADD_SIXTEEN(s, 2, odd, 0, 1)
        ADD_SIXTEEN(t, 0, even, 1, 2)
        ADD_SIXTEEN(t, 2, odd, 1, 3)
        totals += part == 1 ? 7 : 1;
    }
    uint16 units = (uint16)(u32_at(p[0] + 80), u32_at(p[1] + 80), u32_at(p[2] + 80), u32_at(p[3] + 80),
                            u32_at(p[4] + 80), u32_at(p[5] + 80), u32_at(p[6] + 80), u32_at(p[7] + 80),
                            u32_at(p[8] + 80), u32_at(p[9] + 80), u32_at(p[10] + 80), u32_at(p[11] + 80),
                            u32_at(p[12] + 80), u32_at(p[13] + 80), u32_at(p[14] + 80), u32_at(p[15] + 80));
    all[0] += fma(halves_in(units), dots, -halves_in(units >> 16) * minima);
}

#else
// Of a block of all rows, by sixteens in pack_lookups' order.
struct open_rows {
    uint8 words[16][HALVES];
    float8 scales[16][HALVES];
};

// a's upper quanta of each two sets and b's lower ones.
#define EXCHANGE(a, b, by, mask)                                                                                       \
    {                                                                                                                  \
        uint8 other = (a >> by ^ b) & mask;                                                                            \
        b ^= other;                                                                                                    \
        a ^= other << by;                                                                                              \
    }

// Half h of the rows, which begins at p: what its minima make of the totals.
INLINE float8 rows_open(const BYTES *p, uint h, __global const float *totals, struct open_rows *open)
{
    float8 minima = 0;
    uint8 scales[4];
    four_turned(p, 0, scales);
    UNROLL
    for (uint part = 0; part < 4; part++) {
        uint8 w[4];
        four_turned(p, 16 + 16 * part, w);
        EXCHANGE(w[0], w[1], 2, 0x33333333u)
        EXCHANGE(w[2], w[3], 2, 0x33333333u)
        EXCHANGE(w[0], w[2], 4, 0x0f0f0f0fu)
        EXCHANGE(w[1], w[3], 4, 0x0f0f0f0fu)
        UNROLL
        for (uint n = 0; n < 4; n++) {
            const uint byte = SCALE_BYTE(n, part % 2);
            uint8 both = scales[part / 2 * 2 + n / 2];
            open->words[part * 4 + n][h] = w[n];
            open->scales[part * 4 + n][h] = FLOATS_OF(both & 15u << 8 * byte);
            float8 minimum = FLOATS_OF(byte == 3 ? both >> 28 : both & 240u << 8 * byte);
            minima = fma(minimum, (float8)(totals[part / 2 * 8 + 2 * n + part % 2]), minima);
        }
    }
    return minima;
}

// all and the products of a block of each row.
INLINE void add_block(const BYTES *p, __global const float8 *sums, __global const float *totals, float8 *all)
{
    const struct shifts shifts = shifts_hidden();
    struct open_rows open;
    float8 minima[HALVES], dots[HALVES] = {0};
    NO_UNROLL
    for (uint h = 0; h < HALVES; h++)
        minima[h] = rows_open(p + LANES * h, h, totals, &open);
    KEEP_IN_MEMORY(&open, &open);
    NO_UNROLL
    for (uint i = 0; i < 16; i++, sums += WORD_SUMS) {
        UNROLL
        for (uint h = 0; h < HALVES; h++) {
            dots[h] = add_word(open.words[i][h], open.scales[i][h], sums, &shifts, dots[h]);
            SUMS_AGAIN(h)
        }
    }
    UNROLL
    for (uint h = 0; h < HALVES; h++) {
        const BYTES *q = p + LANES * h;
        uint8 units = (uint8)(u32_at(q[0] + 80), u32_at(q[1] + 80), u32_at(q[2] + 80), u32_at(q[3] + 80),
                              u32_at(q[4] + 80), u32_at(q[5] + 80), u32_at(q[6] + 80), u32_at(q[7] + 80));
        all[h] += fma(halves_in(units), dots[h], -halves_in(units >> 16) * minima[h]);
    }
}
#endif

// The dot products of rows first .. first + n - 1 (n <= DOT_ROWS) with packed x.
static void dots_of(const struct args_matrix *m, __global const uchar *matrix, uint first, uint n,
                    __global const float *packed, float *dots)
{
    __global const FLOATS *sums = (__global const FLOATS *)packed;
    __global const float *totals = packed + SUMS_FLOATS(m->in_dim);
    ulong row_bytes = m->in_dim / 256 * BLOCK_BYTES;
    FLOATS all[HALVES] = {0};
    BYTES p[DOT_ROWS];
    take_lanes(kind_row_of(m, matrix, first).p, row_bytes, n, p);
    NO_UNROLL
    for (uint block = 0; block < m->in_dim / 256; block++, sums += 16 * WORD_SUMS, totals += 16) {
        UNROLL
        for (uint r = 0; r < DOT_ROWS; r++)
            fetch(p[r] + DOT_ROWS * row_bytes, BLOCK_BYTES);
        add_block(p, sums, totals, all);
        UNROLL
        for (uint r = 0; r < DOT_ROWS; r++)
            p[r] += BLOCK_BYTES;
    }
    UNROLL
    for (uint h = 0; h < HALVES; h++)
        LANES_STORE(all[h], h, dots);
}
#endif
