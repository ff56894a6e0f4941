// SPDX-License-Identifier: GPL-3.0-or-later
// CPU: a row of x times kinds of 2 bits, by sums of x that are looked up. Four bits of a row are two inputs, so what they
// add is one of 16 sums, and a permutation finds it in a vector of 16 floats: half a look-up and half an addition for 16
// weights, without a mask, a conversion or a product. A vector of 8 floats has the sums of three bits, one and a half
// inputs. All lanes of a look-up share its sums, so lanes are rows, DOT_ROWS together, whose words are turned; where
// vectors have 8 lanes, they are two halves, h. packed x: the sums in the order in which they are taken, WORD_SUMS vectors
// for the 16 inputs of a word, which the second cache has room for, and behind them the totals of 32 inputs each, or
// 16. Q2_K: kind_lookups_q2.cl.
#if defined(KIND) && SHAPE_CPU && defined(__F16C__) &&                                                                  \
    (defined(__AVX512BW__) || (defined(__AVX2__) && !defined(__AVX512F__))) &&                                         \
    (defined(KIND_IS_Q2_K) || (defined(KIND_IS_AFFINE) && KIND_IS_AFFINE == 2))
#define KIND_LOOKUPS
#define DOT_ROWS 16

// Four words from p[r] + at on of each of LANES rows: lanes of w are rows.
typedef uint4 __attribute__((aligned(1))) any_uint4;
#define ROW_WORDS(r) *(__global const any_uint4 *)(p[r] + at)
#if HALVES == 1
#define FOUR_ROWS(r) (uint16)(ROW_WORDS(r), ROW_WORDS(4 + r), ROW_WORDS(8 + r), ROW_WORDS(12 + r))
#define LOW_WORDS(a, b)  __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29)
#define HIGH_WORDS(a, b) __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31)
#define LOW_PAIRS(a, b)  __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29)
#define HIGH_PAIRS(a, b) __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31)
#else
#define FOUR_ROWS(r) (uint8)(ROW_WORDS(r), ROW_WORDS(4 + r))
#define LOW_WORDS(a, b)  __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define HIGH_WORDS(a, b) __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define LOW_PAIRS(a, b)  __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13)
#define HIGH_PAIRS(a, b) __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#endif
INLINE void four_turned(const BYTES *p, ulong at, WORDS *w)
{
    WORDS a = FOUR_ROWS(0), b = FOUR_ROWS(1), c = FOUR_ROWS(2), d = FOUR_ROWS(3);
    WORDS ab = LOW_WORDS(a, b), cd = LOW_WORDS(c, d);
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
INLINE FLOATS halves_in(WORDS words)
{
#if HALVES == 1
    return __builtin_ia32_vcvtph2ps512_mask(convert_short16(as_int16(words)), (float16)(0), (ushort)0xffff, 4);
#else
    typedef short short8_bits __attribute__((ext_vector_type(8)));
    return __builtin_ia32_vcvtph2ps256((short8_bits)convert_short8(as_int8(words & 0xffff)));
#endif
}

// Words shifted by less than 16 as products of their halves with powers of 2, for some processors (Zen 4) multiply where
// they don't permute, but shift where they do. Only the lowest bits are heeded. Compilers that see the powers shift.
#if HALVES == 1
#define SUM_BITS 4
#define SHIFTS 3
#define SHORTS 32
#define MULTIPLIED_HIGH __builtin_ia32_pmulhuw512
#define FOUND(sums, at) __builtin_ia32_permvarsf512(sums, as_int16(at))
#define IN_REGISTER "+v"
#else
#define SUM_BITS 3
#define SHIFTS 4
#define SHORTS 16
#define MULTIPLIED_HIGH __builtin_ia32_pmulhuw256
#define FOUND(sums, at) __builtin_ia32_permvarsf256(sums, as_int8(at))
#define IN_REGISTER "+x"
#endif
#define WORD_SUMS ((32 + SUM_BITS - 1) / SUM_BITS)
typedef short __attribute__((ext_vector_type(SHORTS))) half_words;
struct shifts {
    half_words by[SHIFTS];
};

INLINE struct shifts shifts_hidden(void)
{
    struct shifts s;
    UNROLL
    for (uint i = 0; i < SHIFTS; i++) {
        s.by[i] = (half_words)(short)(0x10000 >> SUM_BITS * (i + 1));
        __asm__("" : IN_REGISTER(s.by[i]));
    }
    return s;
}

INLINE WORDS shifted(WORDS w, const uint by, const struct shifts *s)
{
#if HALVES == 1
    WORDS from = by < 16 ? w : w >> 16;
    const uint more = by % 16;
#else
    if (by >= 16 - SUM_BITS)
        return w >> by;
    WORDS from = w;
    const uint more = by;
#endif
    return more ? __builtin_astype(MULTIPLIED_HIGH(__builtin_astype(from, half_words), s->by[more / SUM_BITS - 1]), WORDS)
                : from;
}

#define LOOKED_UP_SUM(sums, w, by) FOUND(sums, shifted(w, by, shifts))

// The sums of a word whose 16 inputs are these: how much of each input, or bit.
#if HALVES == 1
#define FIRSTS  FLOATS_OF(LANES_16 & 3)
#define SECONDS FLOATS_OF(LANES_16 >> 2)
INLINE void pack_word(const float *x, __global FLOATS *sums)
{
    for (uint k = 0; k < WORD_SUMS; k++)
        sums[k] = fma(SECONDS, (FLOATS)(x[2 * k + 1]), FIRSTS * x[2 * k]);
}
#else
#define OF_BIT(i) (FLOATS_OF(LANES_8 >> (i) & 1) * (((3 * k + (i)) % 2 + 1) * x[(3 * k + (i)) / 2]))
INLINE void pack_word(const float *x, __global FLOATS *sums)
{
    UNROLL
    for (uint k = 0; k < WORD_SUMS; k++)
        sums[k] = OF_BIT(0) + OF_BIT(1) + (k < WORD_SUMS - 1 ? OF_BIT(2) : (FLOATS)(0));
}

// all and a word's 16 inputs of each row, times their scale: of every second sum by itself, for some processors (again
// Zen 4) add where they permute, too.
INLINE FLOATS add_word(WORDS w, FLOATS scale, __global const FLOATS *sums, const struct shifts *shifts, FLOATS all)
{
    FLOATS even = LOOKED_UP_SUM(sums[0], w, 0), odd = LOOKED_UP_SUM(sums[1], w, SUM_BITS) * scale;
    UNROLL
    for (uint k = 2; k < WORD_SUMS; k += 2) {
        even += LOOKED_UP_SUM(sums[k], w, SUM_BITS * k);
        if (k + 1 < WORD_SUMS)
            odd = fma(LOOKED_UP_SUM(sums[k + 1], w, SUM_BITS * (k + 1)), scale, odd);
    }
    return fma(scale, even, odd + all);
}
#endif

#define SUMS_FLOATS(in_dim) ((in_dim) / 16 * WORD_SUMS * LANES)

// Before the second half: sums are read again, for they are an operand in memory, and more than registers hold.
#if HALVES == 1
#define SUMS_AGAIN(h)
#else
#define SUMS_AGAIN(h)                                                                                                  \
    if (h == 0)                                                                                                        \
        KEEP_IN_MEMORY(sums, sums);
#endif

#ifdef KIND_IS_AFFINE
static void pack_sums(__global const float *x, __global FLOATS *sums, uint in_dim)
{
    for (uint at = 0; at < in_dim / 16 * 16; at += 16, sums += WORD_SUMS) {
        float in[16];
        vstore16(vload16(0, x + at), 0, in);
        pack_word(in, sums);
    }
}

// all and two words' inputs of each row, times their scale.
#if HALVES == 1
INLINE FLOATS word_sums(WORDS w, __global const FLOATS *sums, const struct shifts *shifts)
{
    FLOATS all = LOOKED_UP_SUM(sums[0], w, 0);
    UNROLL
    for (uint k = 1; k < WORD_SUMS; k++)
        all += LOOKED_UP_SUM(sums[k], w, SUM_BITS * k);
    return all;
}

INLINE FLOATS add_words(const WORDS *w, FLOATS scale, __global const FLOATS *sums, const struct shifts *shifts, FLOATS all)
{
    return fma(scale, word_sums(w[0], sums, shifts) + word_sums(w[1], sums + WORD_SUMS, shifts), all);
}
#else
INLINE FLOATS add_words(const WORDS *w, FLOATS scale, __global const FLOATS *sums, const struct shifts *shifts, FLOATS all)
{
    return add_word(w[1], scale, sums + WORD_SUMS, shifts, add_word(w[0], scale, sums, shifts, all));
}
#endif

// The scales or biases of the SET_GROUPS groups from p[r] + at on of each row.
enum { SET_GROUPS = 8 };
INLINE void groups_turned(const BYTES *p, ulong at, FLOATS *to)
{
    WORDS w[4];
    UNROLL
    for (uint half_of_set = 0; half_of_set < (SCALE_TYPE == 2 ? 2 : 1); half_of_set++) {
        four_turned(p, at + 16 * half_of_set, w);
        UNROLL
        for (uint i = 0; i < 4; i++) {
#if SCALE_TYPE == 2
            to[4 * half_of_set + i] = AS_FLOATS(w[i]);
#elif SCALE_TYPE == 1
            to[2 * i] = halves_in(w[i]);
            to[2 * i + 1] = halves_in(w[i] >> 16);
#else
            to[2 * i] = AS_FLOATS(w[i] << 16);
            to[2 * i + 1] = AS_FLOATS(w[i] & 0xffff0000u);
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
INLINE uint take_groups(const struct lookup_rows *rows, uint group, FLOATS (*scales)[SET_GROUPS],
                        FLOATS (*biases)[SET_GROUPS])
{
    if (rows->n_groups < SET_GROUPS) {
        NO_UNROLL
        for (uint i = 0; i < rows->n_groups * DOT_ROWS; i++) {
            uint r = i % DOT_ROWS, at = i / DOT_ROWS * LANES + r % LANES;
            ((float *)scales[r / LANES])[at] = scale_number(rows->scales[r], i / DOT_ROWS);
            ((float *)biases[r / LANES])[at] = scale_number(rows->biases[r], i / DOT_ROWS);
        }
        return 0;
    }
    uint first = min(group, rows->n_groups - SET_GROUPS);
    UNROLL
    for (uint h = 0; h < HALVES; h++) {
        groups_turned(rows->scales + h * LANES, first * (SCALE_TYPE == 2 ? 4 : 2), scales[h]);
        groups_turned(rows->biases + h * LANES, first * (SCALE_TYPE == 2 ? 4 : 2), biases[h]);
    }
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
    __global const FLOATS *sums = (__global const FLOATS *)packed;
    __global const float *totals = packed + SUMS_FLOATS(m->in_dim);
    struct kind_row row = kind_row_of(m, matrix, first);
    struct lookup_rows rows = {.n_groups = m->in_dim / m->group_size, .shift = row.group_shift + 4};
    ulong row_bytes = m->in_dim / 4, scale_bytes = SCALE_BYTES(m->in_dim, m->group_size);
    uint whole = m->in_dim / UNIT_INPUTS * UNIT_INPUTS;
    FLOATS all[HALVES] = {0}, rests[HALVES] = {0}, scales[HALVES][SET_GROUPS], biases[HALVES][SET_GROUPS];
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
            WORDS w[HALVES][4];
            UNROLL
            for (uint h = 0; h < HALVES; h++)
                four_turned(rows.words + h * LANES, at / 4, w[h]);
            if (at % 256 == 0) {
                UNROLL
                for (uint r = 0; r < DOT_ROWS; r++)
                    fetch(rows.words[r] + at / 4 + DOT_ROWS * row_bytes, 64);
            }
            UNROLL
            for (uint i = 0; i < UNIT_INPUTS / 32; i++, sums += 2 * WORD_SUMS, totals++) {
                uint g = group + (at - set + 32 * i >> rows.shift);
                UNROLL
                for (uint h = 0; h < HALVES; h++) {
                    all[h] = add_words(w[h] + 2 * i, scales[h][g], sums, &shifts, all[h]);
                    rests[h] = fma(biases[h][g], (FLOATS)(totals[0]), rests[h]);
                    SUMS_AGAIN(h)
                }
            }
        }
    }
    UNROLL
    for (uint h = 0; h < HALVES; h++)
        LANES_STORE(all[h] + rests[h], h, dots);
    __global const float *x = packed + SUMS_FLOATS(m->in_dim) + m->in_dim / 32; // of the rest
    for (uint r = 0; whole < m->in_dim && r < n; r++) {
        row = kind_row_of(m, matrix, first + r);
        dots[r] += rest_dot(&row, m->in_dim, whole, x);
    }
}

// And behind the totals what rest_dot takes.
static void pack_lookups(__global const float *x, __global float *packed, uint in_dim)
{
    pack_sums(x, (__global FLOATS *)packed, in_dim);
    __global float *to = packed + SUMS_FLOATS(in_dim);
    for (uint input = 0; input < in_dim; input += 32)
        *to++ = sum16(vload16(0, x + input)) + sum16(vload16(1, x + input));
    for (uint input = in_dim / UNIT_INPUTS * UNIT_INPUTS; input < in_dim; input++)
        *to++ = x[input];
}
#endif
#endif
