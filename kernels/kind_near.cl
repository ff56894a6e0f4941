// SPDX-License-Identifier: GPL-3.0-or-later
// NVIDIA's tensor cores for one row: blocks of 32 inputs by way of local memory. They have 17, 18 or 34 bytes, so a lane that
// loads its own by words touches a sector with each, and each sector is touched nine times. Instead a warp's next
// NEAR_PIECES of each row are copied to local memory as they lie, 16 bytes at a time, and each lane takes its own from there
// into registers, as piece_load does: the sums are the same. Where there is room for no more, of 8 rows, then of the other 8.
// NEAR is 1 where a kind has this.
#if defined(KIND) && PIECES && NVIDIA_MMA && !SHAPE_CPU &&                                                             \
    (defined(KIND_IS_Q4_0) || defined(KIND_IS_Q8_0) || defined(KIND_IS_IQ4_NL) || defined(KIND_IS_MXFP4))
#define NEAR 1
#define NEAR_OWN    2 // pieces of a lane
#define NEAR_PIECES (4 * NEAR_OWN)
#define NEAR_BYTES  (NEAR_PIECES * BLOCK_BYTES)
// uint4 from row to row wherever rows begin, an odd number, that lanes find theirs in different banks; and where all of them
// begin at multiples of 16 bytes.
#define NEAR_STRIDE ((NEAR_BYTES + 30) / 16 | 1)
#define NEAR_WHOLE  (NEAR_BYTES % 16 == 0 ? NEAR_BYTES / 16 : NEAR_STRIDE)

struct near_place {
    __local uint4 *quads; // the warp's
    uint stride;
    uint rows; // that it takes at once, 16 or 8; 0: there is too little room
};

// `room` uint4 for rows of in_dim inputs, the first of which begins at a multiple of 16 where `whole`.
INLINE struct near_place near_place_of(__local uint4 *quads, uint room, uint in_dim, bool whole)
{
    struct near_place place = {quads, NEAR_STRIDE, 0};
    if (whole && in_dim / BLOCK_INPUTS * BLOCK_BYTES % 16 == 0)
        place.stride = NEAR_WHOLE;
    place.rows = room >= 16 * place.stride ? 16 : room >= 8 * place.stride ? 8 : 0;
    return place;
}

// Begins to copy the pieces from number n on, of all rows, or of the upper half or the lower one. Four lanes share a row.
INLINE void near_copy(const struct kind_row *rows, uint n, uint n_pieces, const uint lower, const struct near_place *to)
{
    uint g = get_local_id(0) % 32 / 4, j = get_local_id(0) % 4;
    uint bytes = min(n_pieces - n, (uint)NEAR_PIECES) * BLOCK_BYTES;
    UNROLL
    for (uint i = 0; i < 2; i++) {
        if (to->rows == 8 && i != lower)
            continue;
        BYTES from = rows[i].p + n * BLOCK_BYTES;
        uint before = (uint)(ulong)from & 15;
        __local uint4 *row = to->quads + (to->rows == 8 ? g : g + 8 * i) * to->stride;
        UNROLL
        for (uint k = 0; k < NEAR_STRIDE; k += 4)
            if ((k + j) * 16 < before + bytes)
                copy_16(row + k + j, from - before + (k + j) * 16);
    }
}

INLINE void near_piece(__local const uchar *p, struct piece *to)
{
    uint shift = ((uint)(ulong)p & 3) * 8, words[QUANTA_WORDS + 1];
    __local const uint *from = (__local const uint *)(p - (shift >> 3));
    UNROLL
    for (uint i = 0; i <= QUANTA_WORDS; i++)
        words[i] = from[i];
    to->head = words_apart(words, shift, HEADER_BYTES, QUANTA_WORDS, to->w);
}

// The lane's pieces of a row. Of blocks behind the row's last it gets what lies there, numbers in any case.
INLINE void near_pieces(const struct kind_row *row, uint n, uint number, const struct near_place *from, struct piece *to)
{
    uint before = (uint)(ulong)(row->p + n * BLOCK_BYTES) & 15;
    __local const uchar *p = (__local const uchar *)(from->quads + number * from->stride) + before;
    UNROLL
    for (uint k = 0; k < NEAR_OWN; k++)
        near_piece(p + (get_local_id(0) % 4 * NEAR_OWN + k) * BLOCK_BYTES, to + k);
}

// What near_copy of the upper half began, or of all: the lane's pieces of its two rows. All of the warp come together, and
// then the place is free.
INLINE void near_load(const struct kind_row *rows, uint n, uint n_pieces, const struct near_place *place,
                      struct piece (*to)[NEAR_OWN])
{
    uint g = get_local_id(0) % 32 / 4;
    copies_wait();
    warp_barrier(); // others' have come, too
    near_pieces(&rows[0], n, g, place, to[0]);
    if (place->rows == 8) {
        warp_barrier();
        near_copy(rows, n, n_pieces, 1, place);
        copies_wait();
        warp_barrier();
    }
    near_pieces(&rows[1], n, place->rows == 8 ? g : g + 8, place, to[1]);
    warp_barrier();
}
#endif
