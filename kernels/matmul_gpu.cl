// SPDX-License-Identifier: GPL-3.0-or-later
// GPU: many rows of x times a matrix, in tiles of MATMUL_TILE tokens by MATMUL_TILE outputs; a work-item computes 4 by 4.
// Inputs are summed in their order, one by one, whatever the launch.
#if !SHAPE_CPU

#define MATMUL_SIDE (MATMUL_TILE / 4)
#define MATMUL_ITEMS (MATMUL_SIDE * MATMUL_SIDE)

struct matmul_tiles {
    float weight[MATMUL_DEPTH][MATMUL_TILE + 1];
    float x[MATMUL_DEPTH][MATMUL_TILE + 1];
};

static void load_weights(__local struct matmul_tiles *tiles, const struct args_matrix *m, __global const uchar *matrix,
                         uint input)
{
    uint per_word = inputs_per_word(m->bits);
    uint words = MATMUL_DEPTH / per_word;
    for (uint i = get_local_id(0); i < MATMUL_TILE * words; i += MATMUL_ITEMS) {
        uint column = i / words;
        uint row = min((uint)get_group_id(0) * MATMUL_TILE + column, m->out_dim - 1);
        __global const uint *from = row_words(m, matrix, row);
        if (per_word == 1) {
            tiles->weight[i % words][column] = plain1(from, m->bits, input + i % words);
            continue;
        }
        uint word = from[input / per_word + i % words];
        float scale = bf16(row_scales(m, matrix, row)[input / m->group_size]);
        float bias = bf16(row_biases(m, matrix, row)[input / m->group_size]);
        for (uint j = 0; j < per_word; j++)
            tiles->weight[i % words * per_word + j][column] =
                fma((float)(word >> (j * m->bits) & ((1u << m->bits) - 1)), scale, bias);
    }
}

__kernel GROUP_SIZE(MATMUL_ITEMS, 1) void matmul(const struct args_matmul a, const struct tiling t,
                                                 __global const uchar *matrix, __global const float *x,
                                                 __global float *y)
{
    __local struct matmul_tiles tiles;
    if (a.n_rows == 0)
        return;
    uint item = get_local_id(0);
    uint first_token = get_group_id(1) * MATMUL_TILE;
    uint my_token = item / MATMUL_SIDE;
    uint my_output = item % MATMUL_SIDE;
    float sums[4][4] = {{0}};
    for (uint input = 0; input < a.matrix.in_dim; input += MATMUL_DEPTH) {
        load_weights(&tiles, &a.matrix, matrix, input);
        for (uint i = item; i < MATMUL_TILE * MATMUL_DEPTH; i += MATMUL_ITEMS) {
            uint r = min(first_token + i / MATMUL_DEPTH, a.n_rows - 1);
            tiles.x[i % MATMUL_DEPTH][i / MATMUL_DEPTH] = x[(ulong)r * a.in_stride + a.in_offset + input + i % MATMUL_DEPTH];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint k = 0; k < MATMUL_DEPTH; k++)
            for (uint i = 0; i < 4; i++)
                for (uint j = 0; j < 4; j++)
                    sums[i][j] = fma(tiles.x[k][my_token + i * MATMUL_SIDE], tiles.weight[k][my_output + j * MATMUL_SIDE],
                                     sums[i][j]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (uint i = 0; i < 4; i++)
        for (uint j = 0; j < 4; j++) {
            uint r = first_token + my_token + i * MATMUL_SIDE;
            uint o = get_group_id(0) * MATMUL_TILE + my_output + j * MATMUL_SIDE;
            if (r >= a.n_rows || o >= a.matrix.out_dim)
                continue;
            __global float *out = y + (ulong)r * a.out_stride + a.out_offset + o;
            *out = a.add ? *out + sums[i][j] : sums[i][j];
        }
}

// y = silu(gate) * y; gate's rows are out_dim wide.
__kernel GROUP_SIZE(ELEMENTS_GROUP, 1) void silu_mul(const struct args_swiglu a, const struct tiling t,
                                                     __global const float *gate, __global float *y)
{
    uint o = get_global_id(0);
    uint r = get_global_id(1);
    if (r >= a.n_rows || o >= a.gate.out_dim)
        return;
    __global float *out = y + (ulong)r * a.out_stride + a.out_offset + o;
    *out = silu(gate[(ulong)r * a.gate.out_dim + o]) * *out;
}

#endif
