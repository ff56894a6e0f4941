// SPDX-License-Identifier: GPL-3.0-or-later
// Rows of a table. Groups: x over a row's elements, y over rows; a work-item makes those of one word, one of a plain row,
// or EMBED_TOGETHER of another kind's.

#ifdef KIND
#define EMBED_TOGETHER (SHAPE_CPU ? 16 : 8)

#if BUILD_PARTS & PART_ELEMENTS
__kernel GROUP_SIZE(ELEMENTS_GROUP, 1) void embed(const struct args_embed a, const struct tiling t,
                                                  __global const uchar *table, __global const int *ids,
                                                  __global float *out)
{
    uint at = get_global_id(0);
    uint r = get_global_id(1);
    if (r >= a.n_rows || at * EMBED_TOGETHER >= a.table.in_dim)
        return;
    uint id = min((uint)ids[r], a.table.out_dim - 1); // the caller has checked; stay inside the table all the same
    struct kind_row row = kind_row_of(&a.table, table, id);
    __global float *to = out + (ulong)r * a.table.in_dim;
#if SHAPE_CPU
    vstore16(kind_weights16(&row, at), at, to);
#else
    vstore8(kind_weights8(&row, at), at, to);
#endif
}
#endif
#else
#if BUILD_PARTS & PART_ELEMENTS
__kernel GROUP_SIZE(ELEMENTS_GROUP, 1) void embed(const struct args_embed a, const struct tiling t,
                                                  __global const uchar *table, __global const int *ids,
                                                  __global float *out)
{
    uint word = get_global_id(0);
    uint r = get_global_id(1);
    if (r >= a.n_rows)
        return;
    uint per_word = inputs_per_word(bits_of(&a.table));
    if (word * per_word >= a.table.in_dim)
        return;
    uint row = min((uint)ids[r], a.table.out_dim - 1); // the caller has checked; stay inside the table all the same
    if (per_word == 1) {
        out[(ulong)r * a.table.in_dim + word] = plain1(row_words(&a.table, table, row), bits_of(&a.table), word);
        return;
    }
    uint group = word * per_word / group_size_of(&a.table);
    float scale = bf16(row_scales(&a.table, table, row)[group]);
    float bias = bf16(row_biases(&a.table, table, row)[group]);
    uint bits = row_words(&a.table, table, row)[word];
    __global float *to = out + (ulong)r * a.table.in_dim + word * per_word;
    if (bits_of(&a.table) == 4)
        vstore8(fma(nibbles(bits), (float8)(scale), (float8)(bias)), 0, to);
    else
        vstore4(fma(octets(bits), (float4)(scale), (float4)(bias)), 0, to);
}
#endif
#endif
