// SPDX-License-Identifier: GPL-3.0-or-later
// CPU: blocks of 32 inputs, whose nibbles are 16 bytes, the low ones first. A block's inputs are made signed bytes at once,
// their middle taken off. Tiles of prompts widen them at once; a row of x leaves 8 blocks of each row of the matrix in memory
// and widens them from there, without a shift, mask or constant for each vector. So it does with a block of 256.
#if defined(KIND) && SHAPE_CPU && BLOCK_INPUTS == 256 && !defined(KIND_GRIDS)
typedef char __attribute__((ext_vector_type(32))) char32;

struct open_block {
    char32 q[8];
    float scales[256 / KIND_SCALES];
};

INLINE void block_eights(const struct open_block *b, uint g, float8 *w)
{
    UNROLL
    for (uint l = 0; l < 4; l++)
        w[l] = convert_float8(convert_int8(as_char8(((const ulong *)b->q)[4 * g + l])));
}
#endif

#if defined(KIND) && SHAPE_CPU &&                                                                                      \
    (defined(KIND_IS_Q4_0) || defined(KIND_IS_Q4_1) || defined(KIND_IS_Q5_0) || defined(KIND_IS_Q5_1) ||               \
     defined(KIND_IS_IQ4_NL) || defined(KIND_IS_IQ4_XS) || defined(KIND_IS_MXFP4) || defined(KIND_IS_NVFP4))
#ifndef KIND_IS_IQ4_XS
#ifndef KIND_IS_NVFP4
#define KIND_NIBBLES
#endif
typedef char __attribute__((ext_vector_type(32))) char32;
#endif
typedef uchar __attribute__((ext_vector_type(32))) uchar32;

#define BYTES_0_15 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
#define TWICE(first, second)                                                                                           \
    __builtin_shufflevector(first, second, BYTES_0_15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31)

#if defined(KIND_IS_IQ4_NL) || defined(KIND_IS_IQ4_XS) || defined(KIND_IS_MXFP4) || defined(KIND_IS_NVFP4)
#if defined(KIND_IS_MXFP4) || defined(KIND_IS_NVFP4)
#define NIBBLE_TABLE TABLE_F
#define NIBBLES_AT 1
#else
#define NIBBLE_TABLE TABLE_T
#define NIBBLES_AT 2
#endif
// The numbers that 16 bytes have. By the compiler's builtin where it has one: of a generic look-up whose bytes go to memory
// LLVM makes one of each byte.
INLINE char32 found32(BYTES p)
{
    uchar16 n = vload16(0, p);
    uchar16 table = as_uchar16(NIBBLE_TABLE);
#ifdef __AVX2__
    uchar32 both = TWICE(n, as_uchar16(as_ushort8(n) >> (ushort8)(4))) & (uchar)15;
    uchar32 tables = TWICE(table, table);
    return __builtin_ia32_pshufb256(__builtin_astype(tables, char32), __builtin_astype(both, char32));
#else
    uchar16 low = __builtin_shufflevector(table, n & (uchar16)(15));
    uchar16 high = __builtin_shufflevector(table, n >> (uchar16)(4));
    return __builtin_astype(TWICE(low, high), char32);
#endif
}
#endif

// Of the block at p: q.
#ifdef KIND_IS_IQ4_XS
#if defined(__AVX2__) && !defined(__AVX512F__)
#define KIND_BYTES
static void block_scales(BYTES p, float *s, float *b);

INLINE void block_open(BYTES p, struct open_block *b)
{
    block_scales(p, b->scales, b->scales);
    UNROLL
    for (uint g = 0; g < 8; g++)
        b->q[g] = found32(p + 8 + 16 * g);
}
#endif
#elif defined(KIND_IS_IQ4_NL) || defined(KIND_IS_MXFP4)
INLINE char32 block_bytes(BYTES p)
{
    return found32(p + NIBBLES_AT);
}
#elif defined(KIND_NIBBLES)
INLINE uchar32 block_nibbles(BYTES p)
{
    uchar16 n = vload16(0, p);
    uchar16 high = as_uchar16(as_ushort8(n) >> (ushort8)(4));
    return TWICE(n, high) & (uchar)15;
}

#if defined(KIND_IS_Q5_0) || defined(KIND_IS_Q5_1)
// 255 where the bit of a word is set.
INLINE uchar32 spread_bits(uint word)
{
    uint8 words = word;
    uchar32 all = __builtin_astype(words, uchar32);
    all = __builtin_shufflevector(all, all, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 18, 18, 18, 18, 18, 18, 18, 18,
                                  19, 19, 19, 19, 19, 19, 19, 19);
    const ulong4 each = 0x8040201008040201ul;
    uchar32 bits = __builtin_astype(each, uchar32);
    return __builtin_astype((all & bits) == bits, uchar32);
}
#endif

INLINE char32 block_bytes(BYTES p)
{
#if defined(KIND_IS_Q4_0)
    return __builtin_astype(block_nibbles(p + 2), char32) - (char)8;
#elif defined(KIND_IS_Q4_1)
    return __builtin_astype(block_nibbles(p + 4), char32);
#elif defined(KIND_IS_Q5_0)
    return __builtin_astype(block_nibbles(p + 6) | ~spread_bits(u32_at(p + 2)) & (uchar)0xf0, char32);
#else
    return __builtin_astype(block_nibbles(p + 8) | spread_bits(u32_at(p + 4)) & (uchar)0x10, char32);
#endif
}
#endif

// With vectors of 16 kind_words.cl has them.
#if !defined(__AVX512F__) &&                                                                                           \
    (defined(KIND_IS_Q4_0) || defined(KIND_IS_Q4_1) || defined(KIND_IS_Q5_0) || defined(KIND_IS_Q5_1) ||               \
     defined(__AVX2__) && (defined(KIND_IS_IQ4_NL) || defined(KIND_IS_MXFP4)) ||                                       \
     defined(__AVX2__) && defined(__F16C__) && defined(KIND_IS_NVFP4))
#define KIND_OPEN_BLOCKS
struct open_blocks {
    char32 q[8];
    float8 scales[KIND_SCALES == 32 ? 1 : 2];
};

// `count` times 32 inputs of the blocks at p, a multiple of OPEN_LEAST.
INLINE void open_32s(BYTES p, const uint count, struct open_blocks *open)
{
#ifdef KIND_IS_NVFP4
#define OPEN_LEAST 2
    UNROLL
    for (uint k = 0; k < count; k += 2, p += BLOCK_BYTES) {
        if (k % 4 == 0)
            open->scales[k / 4] = scales_of_two(p, k + 2 < count ? p + BLOCK_BYTES : p);
        open->q[k] = found32(p + 4);
        open->q[k + 1] = found32(p + 20);
    }
#else
#define OPEN_LEAST 1
    UNROLL
    for (uint k = 0; k < count; k++, p += BLOCK_BYTES) {
        ((float *)open->scales)[k] = scale_in(p, 0).x;
        open->q[k] = block_bytes(p);
    }
#endif
}

// The i-th 8 inputs. NVFP4's halves of 16 bytes have the inputs of a scale each.
INLINE float8 open_floats(const struct open_blocks *open, uint i)
{
#ifdef KIND_IS_NVFP4
    i = (i & ~3u) | (i & 1) << 1 | (i >> 1 & 1);
#endif
    return convert_float8(convert_int8(as_char8(((const ulong *)open->q)[i])));
}
#endif

#ifdef KIND_NIBBLES
// The block's weights, rounded once.
INLINE void block_tile(BYTES p, float16 *tile)
{
    char32 q = block_bytes(p);
    float2 scale = scale_in(p, 0);
    tile[0] = fma(convert_float16(convert_int16(q.lo)), (float16)(scale.x), (float16)(scale.y));
    tile[1] = fma(convert_float16(convert_int16(q.hi)), (float16)(scale.x), (float16)(scale.y));
}
#endif
#endif
