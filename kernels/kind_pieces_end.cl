// SPDX-License-Identifier: GPL-3.0-or-later
// GPU: what pieces of all kinds have, behind them.
#if defined(KIND) && PIECES && !SHAPE_CPU

#define PIECE_SETS (PIECE_INPUTS / 16)
#ifndef PIECE_NEIGHBOURS
#define PIECE_NEIGHBOURS 0
#endif
#ifndef PIECE_UNIT
#define PIECE_UNIT(set) 1.0f
#endif
#ifndef TABLE_WORDS
#define TABLE_WORDS 1
INLINE void table_fill(__local uint *table)
{
}
#endif

// On by n pieces: whole blocks, and whole groups of scales if n is a multiple of 4.
#define BLOCK_PIECES (BLOCK_INPUTS > PIECE_INPUTS ? BLOCK_INPUTS / PIECE_INPUTS : 1)
INLINE void row_move(struct kind_row *row, uint n)
{
    row->p += n / BLOCK_PIECES * (BLOCK_PIECES * PIECE_INPUTS / BLOCK_INPUTS * BLOCK_BYTES);
#ifdef KIND_IS_AFFINE
    uint bytes = (n >> row->group_shift - 1) * (SCALE_TYPE == 2 ? 4 : 2);
    row->scales += bytes;
    row->biases += bytes;
#elif defined(KIND_ARRAYS)
    row->scales += n * (PIECE_INPUTS / KIND_SCALES);
#endif
}

// Two pairs of a four: its inputs in order.
#if !NVIDIA_MMA
INLINE float4 four_of(const pair_t *two)
{
    return PIECE_NEIGHBOURS ? (float4)(two[0].x, two[0].y, two[1].x, two[1].y)
                            : (float4)(two[0].x, two[1].x, two[0].y, two[1].y);
}
#endif

#endif
