// SPDX-License-Identifier: GPL-3.0-or-later
// CPU with vectors of 16 floats: a row of x times kinds of 2 bits, by sums of x that are looked up. Four bits of a row are
// two inputs, so what they add is one of 16 sums, and a permutation finds it in a vector of them: half a look-up and half
// an addition for 16 weights, without a mask, a conversion or a product. All lanes of a look-up share its sums, so lanes
// are rows, DOT_ROWS together, whose words are turned. packed x: the sums in the order in which they are taken, a vector
// for two inputs, which the second cache has room for, and behind them the totals of LOOKUP_GROUP inputs each.
#if defined(KIND) && SHAPE_CPU && defined(__AVX512BW__) && defined(__F16C__) &&                                         \
    (defined(KIND_IS_Q2_K) || (defined(KIND_IS_AFFINE) && KIND_IS_AFFINE == 2))
#define KIND_LOOKUPS
#define DOT_ROWS 16

// Four words from p[r] + at on of each row: lanes of w are rows.
typedef uint4 __attribute__((aligned(1))) any_uint4;
#define ROW_WORDS(r) *(__global const any_uint4 *)(p[r] + at)
#define FOUR_ROWS(r) (uint16)(ROW_WORDS(r), ROW_WORDS(4 + r), ROW_WORDS(8 + r), ROW_WORDS(12 + r))
#define LOW_WORDS(a, b)  __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29)
#define HIGH_WORDS(a, b) __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31)
#define LOW_PAIRS(a, b)  __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29)
#define HIGH_PAIRS(a, b) __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31)
INLINE void four_turned(const BYTES *p, ulong at, uint16 *w)
{
    uint16 a = FOUR_ROWS(0), b = FOUR_ROWS(1), c = FOUR_ROWS(2), d = FOUR_ROWS(3);
    uint16 ab = LOW_WORDS(a, b), cd = LOW_WORDS(c, d);
    w[0] = LOW_PAIRS(ab, cd);
    w[1] = HIGH_PAIRS(ab, cd);
    ab = HIGH_WORDS(a, b);
    cd = HIGH_WORDS(c, d);
    w[2] = LOW_PAIRS(ab, cd);
    w[3] = HIGH_PAIRS(ab, cd);
}

// Row i of n from `first` on, `stride` bytes from one to the next; beyond, the last again.
INLINE void take_lanes(BYTES first, ulong stride, uint n, BYTES *p)
{
    for (uint r = 0; r < DOT_ROWS; r++)
        p[r] = first + min(r, n - 1) * stride;
}

// The lower halves of words.
INLINE float16 halves_16(uint16 words)
{
    return __builtin_ia32_vcvtph2ps512_mask(convert_short16(as_int16(words)), (float16)(0), (ushort)0xffff, 4);
}

// Words shifted by 4, 8 and 12 as products of their halves with 2^12, 2^8 and 2^4, for some processors (Zen 4) multiply
// where they don't permute, but shift where they do. Only the lowest 4 bits are heeded. Compilers that see the powers shift.
typedef short short32_bits __attribute__((ext_vector_type(32)));
struct shifts {
    short32_bits by[3];
};

INLINE struct shifts shifts_hidden(void)
{
    struct shifts s = {{(short32_bits)(0x1000), (short32_bits)(0x100), (short32_bits)(0x10)}};
    UNROLL
    for (uint i = 0; i < 3; i++)
        __asm__("" : "+v"(s.by[i]));
    return s;
}

INLINE int16 shifted(uint16 w, const uint by, const struct shifts *s)
{
    uint16 half_words = by < 16 ? w : w >> 16;
    if (by % 16 == 0)
        return as_int16(half_words);
    short32_bits halves = __builtin_astype(half_words, short32_bits);
    return __builtin_astype(__builtin_ia32_pmulhuw512(halves, s->by[by % 16 / 4 - 1]), int16);
}

#define LOOKED_UP_SUM(sums, w, by) __builtin_ia32_permvarsf512(sums, shifted(w, by, shifts))

// The sums of two inputs: how much of each.
#define FIRSTS  convert_float16(as_int16(LANES_16 & 3))
#define SECONDS convert_float16(as_int16(LANES_16 >> 2))

#ifdef KIND_IS_Q2_K
#define LOOKUP_GROUP 16 // inputs of a total
// A nibble has two inputs of two scales, so words of a row exchange halves of their nibbles first, which then have inputs
// i and i + 4 of one: 16 inputs are 8 sums, in the order of blocks_dot's sixteens.
static void pack_sums(__global const float *x, __global float16 *sums, uint in_dim)
{
    for (uint sixteen = 0; sixteen < in_dim / 16; sixteen++) {
        // Of 128 inputs those of quanta n of 16 bytes, and then of the 16 behind them.
        uint n = sixteen % 4, behind = sixteen / 4 % 2;
        __global const float *from = x + sixteen / 8 * 128 + n * 32 + behind * 16;
        for (uint i = 0; i < 8; i++, sums++) {
            __global const float *at = from + i / 4 * 8 + i % 4;
            *sums = fma(SECONDS, (float16)(at[4]), FIRSTS * at[0]);
        }
    }
}

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

// The products of a block of each row.
INLINE float16 block_dot(const BYTES *p, __global const float16 *sums, __global const float *totals)
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
    return fma(halves_16(units), dots, -halves_16(units >> 16) * minima);
}

// The dot products of rows first .. first + n - 1 (n <= DOT_ROWS) with packed x.
static void dots_of(const struct args_matrix *m, __global const uchar *matrix, uint first, uint n,
                    __global const float *packed, float *dots)
{
    __global const float16 *sums = (__global const float16 *)packed;
    __global const float *totals = packed + m->in_dim * 8;
    ulong row_bytes = m->in_dim / 256 * BLOCK_BYTES;
    float16 all = 0;
    BYTES p[DOT_ROWS];
    take_lanes(kind_row_of(m, matrix, first).p, row_bytes, n, p);
    NO_UNROLL
    for (uint block = 0; block < m->in_dim / 256; block++, sums += 128, totals += 16) {
        UNROLL
        for (uint r = 0; r < DOT_ROWS; r++)
            fetch(p[r] + DOT_ROWS * row_bytes, BLOCK_BYTES);
        all += block_dot(p, sums, totals);
        UNROLL
        for (uint r = 0; r < DOT_ROWS; r++)
            p[r] += BLOCK_BYTES;
    }
    vstore16(all, 0, dots);
}
#endif

#ifdef KIND_IS_AFFINE
#define LOOKUP_GROUP 32
static void pack_sums(__global const float *x, __global float16 *sums, uint in_dim)
{
    for (uint at = 0; at < in_dim; at += 2, sums++)
        *sums = fma(SECONDS, (float16)(x[at + 1]), FIRSTS * x[at]);
}

INLINE float16 word_sums(uint16 w, __global const float16 *sums, const struct shifts *shifts)
{
    float16 all = LOOKED_UP_SUM(sums[0], w, 0);
    UNROLL
    for (uint k = 1; k < 8; k++)
        all += LOOKED_UP_SUM(sums[k], w, 4 * k);
    return all;
}

// The scales or biases of the SET_GROUPS groups from p[r] + at on of each row.
enum { SET_GROUPS = 8 };
INLINE void groups_turned(const BYTES *p, ulong at, float16 *to)
{
    uint16 w[4];
    UNROLL
    for (uint half_of_set = 0; half_of_set < (SCALE_TYPE == 2 ? 2 : 1); half_of_set++) {
        four_turned(p, at + 16 * half_of_set, w);
        UNROLL
        for (uint i = 0; i < 4; i++) {
#if SCALE_TYPE == 2
            to[4 * half_of_set + i] = as_float16(w[i]);
#elif SCALE_TYPE == 1
            to[2 * i] = halves_16(w[i]);
            to[2 * i + 1] = halves_16(w[i] >> 16);
#else
            to[2 * i] = as_float16(w[i] << 16);
            to[2 * i + 1] = as_float16(w[i] & 0xffff0000u);
#endif
        }
    }
}

#define UNIT_INPUTS 64 // of four words

struct lookup_rows {
    BYTES words[DOT_ROWS];
    BYTES scales[DOT_ROWS];
    BYTES biases[DOT_ROWS];
    uint n_groups, shift; // a row's groups, of 1 << shift inputs
};

// Of the groups from `group` on, where the first is: sets end at the row's last group, and shorter rows have one set.
INLINE uint take_groups(const struct lookup_rows *rows, uint group, float16 *scales, float16 *biases)
{
    if (rows->n_groups < SET_GROUPS) {
        NO_UNROLL
        for (uint i = 0; i < rows->n_groups * DOT_ROWS; i++) {
            ((float *)scales)[i] = scale_number(rows->scales[i % DOT_ROWS], i / DOT_ROWS);
            ((float *)biases)[i] = scale_number(rows->biases[i % DOT_ROWS], i / DOT_ROWS);
        }
        return 0;
    }
    uint first = min(group, rows->n_groups - SET_GROUPS);
    groups_turned(rows->scales, first * (SCALE_TYPE == 2 ? 4 : 2), scales);
    groups_turned(rows->biases, first * (SCALE_TYPE == 2 ? 4 : 2), biases);
    return group - first;
}

// What a row has behind its last whole unit.
static float rest_dot(const struct kind_row *row, uint in_dim, uint from, __global const float *x)
{
    float16 sum = 0;
    for (uint j = from / 16; j < in_dim / 16; j++)
        sum = fma(kind_weights16(row, j), vload16(j - from / 16, x), sum);
    return sum16(sum);
}

// The dot products of rows first .. first + n - 1 (n <= DOT_ROWS) with packed x.
static void dots_of(const struct args_matrix *m, __global const uchar *matrix, uint first, uint n,
                    __global const float *packed, float *dots)
{
    const struct shifts shifts = shifts_hidden();
    __global const float16 *sums = (__global const float16 *)packed;
    __global const float *totals = packed + m->in_dim * 8;
    struct kind_row row = kind_row_of(m, matrix, first);
    struct lookup_rows rows = {.n_groups = m->in_dim / m->group_size, .shift = row.group_shift + 4};
    ulong row_bytes = m->in_dim / 4, scale_bytes = SCALE_BYTES(m->in_dim, m->group_size);
    uint whole = m->in_dim / UNIT_INPUTS * UNIT_INPUTS;
    float16 all = 0, rests = 0, scales[SET_GROUPS], biases[SET_GROUPS];
    take_lanes(row.p, row_bytes, n, rows.words);
    take_lanes(row.scales, scale_bytes, n, rows.scales);
    take_lanes(row.biases, scale_bytes, n, rows.biases);
    for (uint set = 0; set < whole; set += SET_GROUPS << rows.shift) {
        uint group = take_groups(&rows, set >> rows.shift, scales, biases);
        uint end = min(set + (SET_GROUPS << rows.shift), whole);
        // The next rows' scales lie behind these, as many in a set as there are rows.
        const uint set_bytes = DOT_ROWS * SET_GROUPS * (SCALE_TYPE == 2 ? 4 : 2);
        fetch(row.scales + DOT_ROWS * scale_bytes + (set >> rows.shift) / SET_GROUPS * set_bytes, set_bytes);
        fetch(row.biases + DOT_ROWS * scale_bytes + (set >> rows.shift) / SET_GROUPS * set_bytes, set_bytes);
        NO_UNROLL
        for (uint at = set; at < end; at += UNIT_INPUTS) {
            uint16 w[4];
            four_turned(rows.words, at / 4, w);
            if (at % 256 == 0) {
                UNROLL
                for (uint r = 0; r < DOT_ROWS; r++)
                    fetch(rows.words[r] + at / 4 + DOT_ROWS * row_bytes, 64);
            }
            UNROLL
            for (uint i = 0; i < UNIT_INPUTS / 32; i++, sums += 16, totals++) {
                uint g = group + (at - set + 32 * i >> rows.shift);
                float16 part = word_sums(w[2 * i], sums, &shifts) + word_sums(w[2 * i + 1], sums + 8, &shifts);
                all = fma(scales[g], part, all);
                rests = fma(biases[g], (float16)(totals[0]), rests);
            }
        }
    }
    vstore16(all + rests, 0, dots);
    __global const float *x = packed + m->in_dim * 8 + m->in_dim / 32; // of the rest
    for (uint r = 0; whole < m->in_dim && r < n; r++) {
        row = kind_row_of(m, matrix, first + r);
        dots[r] += rest_dot(&row, m->in_dim, whole, x);
    }
}
#endif

// And behind the totals what rest_dot takes.
static void pack_lookups(__global const float *x, __global float *packed, uint in_dim)
{
    pack_sums(x, (__global float16 *)packed, in_dim);
    __global float *to = packed + in_dim * 8;
    for (uint input = 0; input < in_dim; input += LOOKUP_GROUP) {
        float sum = sum16(vload16(0, x + input));
        *to++ = LOOKUP_GROUP == 32 ? sum + sum16(vload16(1, x + input)) : sum;
    }
#ifdef KIND_IS_AFFINE
    for (uint input = in_dim / UNIT_INPUTS * UNIT_INPUTS; input < in_dim; input++)
        *to++ = x[input];
#endif
}
#endif
