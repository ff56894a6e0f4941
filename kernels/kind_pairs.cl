// SPDX-License-Identifier: GPL-3.0-or-later
// GPU: what pieces of blocks (kind_pieces.cl) are made with: two numbers as tensor cores want them, and words of bytes that lie
// anywhere.
#if defined(KIND) && PIECES && !SHAPE_CPU

// ---- pairs: two float16 where there are tensor cores, else two floats

#define UNIT_OF(place) ((float)(1 << 24 - (place)))

#if NVIDIA_MMA
typedef uint pair_t;

INLINE uint whole_half(const uint n) // below 2048, as float16
{
    const uint digits = 31 - clz(n | 1);
    return n == 0 ? 0 : digits + 15 << 10 | (n << 10 - digits & 0x3ff);
}

// The numbers that stand `low` and `high` bits up in the lower and the upper half, 10 bits in all, less `middle`: under
// an exponent they are float16 and 1024 more.
INLINE pair_t pair_of_two(uint both, const uint low, const uint high, const uint middle)
{
    return halves_fma(both ^ 0x64006400u, (15 - low) * 0x0400u | (15 - high) * 0x04000000u,
                      whole_half((1024 >> low) + middle) | whole_half((1024 >> high) + middle) << 16 | 0x80008000u);
}

INLINE pair_t pair_of(uint both, const uint place, const uint middle)
{
    return pair_of_two(both, place, place, middle);
}

// The numbers that stand `place` bits up, 10 bits in all: float16 as they lie, subnormal, a UNIT_OF(place)-th of what they
// are.
INLINE pair_t pair_of_bits(uint both, const uint place)
{
    return both;
}

// Bytes 1 and 3 of a word, less `middle`. GPUs of this maker have half as many units for shifts and masks as for sums,
// and this is one of such steps.
INLINE pair_t pair_of_odd(uint word, const uint middle)
{
    return pair_of(pick(word, 0x64646464u, 0x4341) ^ 0x64006400u, 0, middle);
}

INLINE float pair_first(pair_t pair)
{
    return of_low_half(pair);
}

INLINE float pair_second(pair_t pair)
{
    return of_high_half(pair);
}

// Two numbers of a sign, two bits of exponent and one of mantissa, twice: 0 1 2 3 4 6 8 12 and the negatives. They
// stand `place` bits up in both halves; those bits, where float16 has its own, are a 2^-15th of them.
INLINE pair_t pair_of_e2m1(uint word, const uint place)
{
    uint signs = word << 12 - place;
    uint sizes = place > 9 ? word >> place - 9 : word << 9 - place;
    return halves_mul((signs & 0x80008000u) ^ (sizes & 0x0e000e00u), 0x78007800u);
}

// Two floats of 4 bits of exponent and 3 of mantissa: the bytes 0 and 2 of a word, or 1 and 3. Where float16 has its
// own, those bits are a 2^-8th of them.
INLINE pair_t pair_of_e4m3(uint word, const uint odd)
{
    uint sizes = odd ? word >> 1 : word << 7, signs = odd ? word : word << 8;
    return halves_mul((signs & 0x80008000u) | (sizes & 0x3f803f80u), 0x5c005c00u);
}

// Numbers of two bits, less 1 and an eighth more or less, a UNIT_OF(15)-th of them: one that is the same for all places.
INLINE pair_t pair_near_one(uint both, const uint place, bool minus)
{
    return halves_fma(both, (30 - place) * 0x04000400u, minus ? 0x98809880u : 0x97009700u);
}

// Halves, subnormal ones too.
INLINE float piece_half(uint bits)
{
    return of_low_half(bits);
}
#else
INLINE ulong constant_8(__constant const ulong *from)
{
    return *from;
}

typedef float2 pair_t;

INLINE pair_t pair_of_two(uint both, const uint low, const uint high, const uint middle)
{
    float2 bits = as_float2((uint2)(both & 0x3ff, both >> 16 & 0x3ff) | 0x4b000000u) - 8388608.0f;
    return bits * (float2)(1.0f / (float)(1 << low), 1.0f / (float)(1 << high)) - (float)middle;
}

INLINE pair_t pair_of(uint both, const uint place, const uint middle)
{
    return pair_of_two(both, place, place, middle);
}

INLINE pair_t pair_of_bits(uint both, const uint place)
{
    return pair_of(both, place, 0) * (1 / UNIT_OF(place));
}

INLINE pair_t pair_of_odd(uint word, const uint middle)
{
    return pair_of(word >> 8 & 0x00ff00ffu, 0, middle);
}

INLINE float pair_first(pair_t pair)
{
    return pair.x;
}

INLINE float pair_second(pair_t pair)
{
    return pair.y;
}

INLINE float e2m1(uint n)
{
    uint three = n & 7;
    uint size = three < 5 ? three : (three & 3) == 1 ? 6 : three * 4 - 16;
    return as_float(as_uint((float)size) | (n & 8) << 28);
}

INLINE pair_t pair_of_e2m1(uint word, const uint place)
{
    return (pair_t)(e2m1(word >> place & 15), e2m1(word >> place + 16 & 15));
}

#ifdef KIND_IS_mxfp8
INLINE pair_t pair_of_e4m3(uint word, const uint odd)
{
    uint first = word >> 8 * odd, second = first >> 16;
    return as_float2(as_uint2((float2)(e4m3(first & 127), e4m3(second & 127))) | (uint2)(first << 24, second << 24) & 0x80000000u);
}
#endif

// Bytes of two words, numbered by the digits of `which`, the lowest first.
INLINE uint pick(uint a, uint b, uint which)
{
    ulong all = (ulong)b << 32 | a;
    uint4 bytes = (uint4)(all >> (which & 7) * 8, all >> (which >> 4 & 7) * 8, all >> (which >> 8 & 7) * 8,
                          all >> (which >> 12 & 7) * 8) & 255;
    return bytes.x | bytes.y << 8 | bytes.z << 16 | bytes.w << 24;
}

INLINE pair_t pair_signed(pair_t pair, uint signs)
{
    return as_float2(as_uint2(pair) ^ ((uint2)(signs << 16, signs) & 0x80000000u));
}

INLINE pair_t pair_near_one(uint both, const uint place, bool minus)
{
    return (pair_of(both, place, 1) + (minus ? -0.125f : 0.125f)) * (1 / UNIT_OF(15));
}

INLINE float piece_half(uint bits)
{
    return half_of(bits & 0xffff);
}
#endif

// A byte as a number.
INLINE float byte_of(uint word, uint at)
{
    return as_float((word >> at * 8 & 255) | 0x4b000000u) - 8388608.0f;
}

// ---- bytes as words

INLINE uint word_across(uint low, uint high, uint shift)
{
    return (uint)(((ulong)high << 32 | low) >> shift);
}

// n words, 4 at most, from any place that is a multiple of 2: those around are loaded, and shifted. None is touched
// that has none of these bytes. No loop: compilers left some as they were, and the words in memory.
INLINE void words_at(BYTES p, const uint n, uint *to)
{
    uint shift = ((uint)(ulong)p & 2) * 8;
    __global const uint *from = (__global const uint *)(p - (shift >> 3));
    uint last = from[shift ? n : n - 1];
    uint first = from[0], second = n > 1 ? from[1] : last, third = n > 2 ? from[2] : last, fourth = n > 3 ? from[3] : last;
    to[0] = word_across(first, second, shift);
    if (n > 1)
        to[1] = word_across(second, third, shift);
    if (n > 2)
        to[2] = word_across(third, fourth, shift);
    if (n > 3)
        to[3] = word_across(fourth, last, shift);
}

// The n words behind a header of 1 or 2 bytes, which is returned: of n + 1 in which it begins `shift` bits up.
INLINE uint words_apart(const uint *words, uint shift, const uint header, const uint n, uint *to)
{
    UNROLL
    for (uint i = 0; i < n; i++)
        to[i] = word_across(words[i], words[i + 1], shift + header * 8);
    return words[0] >> shift & (1u << header * 8) - 1;
}

INLINE uint words_behind(BYTES p, const uint header, const uint n, uint *to)
{
    uint shift = ((uint)(ulong)p & 3) * 8, words[9];
    __global const uint *from = (__global const uint *)(p - (shift >> 3));
    UNROLL
    for (uint i = 0; i <= n; i++)
        words[i] = from[i];
    return words_apart(words, shift, header, n, to);
}

// n words, 2 or a multiple of 4, from a multiple of 4, or where `whole` of as many bytes.
INLINE void words_from(BYTES p, const uint n, bool whole, uint *to)
{
    __global const uint *from = (__global const uint *)p;
    if (n == 2) {
        uint2 two = whole ? *(__global const uint2 *)p : vload2(0, from);
        to[0] = two.x;
        to[1] = two.y;
        return;
    }
    UNROLL
    for (uint i = 0; i < n; i += 4) {
        uint4 four = whole ? ((__global const uint4 *)p)[i / 4] : vload4(i / 4, from);
        to[i] = four.x;
        to[i + 1] = four.y;
        to[i + 2] = four.z;
        to[i + 3] = four.w;
    }
}

#endif
