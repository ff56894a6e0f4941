// SPDX-License-Identifier: GPL-3.0-or-later
// CPU: queries times the key half of kv_b, whose rows are summed: lanes are columns, plane by plane as in matvec_cpu.cl.
// Groups: x over ranges of rows_per_group tokens, y over heads, z over blocks of BLOCK columns.
#if SHAPE_CPU

struct columns {
    const struct args_kv_b *a;
    __global const uchar *kv_b;
    uint first_row; // of the head's keys
    uint column;
};

// 32 columns of a plain matrix, or one of another kind, for two tokens.
static void sum_plain_columns(const struct columns *c, __global const float *const *q, __global float *const *out)
{
    const struct args_matrix *m = &c->a->kv_b;
    float16 sums[2][2] = {{0}};
    for (uint d = 0; d < c->a->qk_nope_head_dim; d++) {
#ifdef KIND
        struct kind_row row = kind_row_of(m, c->kv_b, c->first_row + d);
#else
        __global const uint *row = row_words(m, c->kv_b, c->first_row + d);
#endif
        UNROLL
        for (uint k = 0; k < 2; k++) {
#ifdef KIND
            float16 weight = kind_weights16(&row, c->column / 16 + k);
#else
            float16 weight = plain16(row, bits_of(m), c->column / 16 + k);
#endif
            sums[0][k] = fma((float16)(q[0][d]), weight, sums[0][k]);
            sums[1][k] = fma((float16)(q[1][d]), weight, sums[1][k]);
        }
    }
    UNROLL
    for (uint k = 0; k < 2; k++) {
        vstore16(sums[0][k], k, out[0] + c->column);
        vstore16(sums[1][k], k, out[1] + c->column);
    }
}

#ifndef KIND
// 16 words a row: 128 columns of 4 bits, or 64 of 8. Two tokens share each weight; the second may be the first again.
// `bits` is a constant where this is called, so that shifts are.
INLINE void sum_columns(const struct columns *c, uint bits, __global const float *const *q, __global float *const *out)
{
    const struct args_matrix *m = &c->a->kv_b;
    uint per_word = 32 / bits;
    uint shift = group_shift_of(m);
    uint n_groups = max(16 * per_word >> shift, 1u);
    uint mask = (1u << bits) - 1;
    float16 sums[2][8] = {{0}};
    for (uint d = 0; d < c->a->qk_nope_head_dim; d++) {
        uint row = c->first_row + d;
        uint16 w = vload16(0, row_words(m, c->kv_b, row) + c->column / per_word);
        float16 scale = spread(row_scales(m, c->kv_b, row) + (c->column >> shift), n_groups);
        float16 bias = spread(row_biases(m, c->kv_b, row) + (c->column >> shift), n_groups);
        float16 query = q[0][d];
        float16 other = q[1][d];
        // Half of the planes are empty with 8 bits, and are not stored.
        UNROLL
        for (uint k = 0; k < 8; k++) {
            float16 weight = fma(convert_float16(as_int16((w >> k * bits % 32) & mask)), scale, bias);
            sums[0][k] = fma(query, weight, sums[0][k]);
            sums[1][k] = fma(other, weight, sums[1][k]);
        }
    }
    for (uint i = 0; i < 2; i++) {
        float lanes[8][16];
        UNROLL
        for (uint k = 0; k < 8; k++)
            vstore16(i ? sums[1][k] : sums[0][k], 0, lanes[k]);
        for (uint j = 0; j < 16; j++)
            for (uint k = 0; k < per_word; k++)
                out[i][c->column + j * per_word + k] = lanes[k][j];
    }
}

// 32 columns at the end: 4 or 8 words a row.
static void sum_last_columns(const struct columns *c, uint bits, __global const float *q, __global float *out)
{
    const struct args_matrix *m = &c->a->kv_b;
    uint per_word = 32 / bits;
    uint mask = (1u << bits) - 1;
    float sums[32] = {0};
    for (uint d = 0; d < c->a->qk_nope_head_dim; d++) {
        uint row = c->first_row + d;
        __global const uint *words = row_words(m, c->kv_b, row) + c->column / per_word;
        float scale = bf16(row_scales(m, c->kv_b, row)[c->column >> group_shift_of(m)]);
        float bias = bf16(row_biases(m, c->kv_b, row)[c->column >> group_shift_of(m)]);
        for (uint i = 0; i < 32; i++)
            sums[i] = fma(q[d], fma((float)((words[i / per_word] >> i % per_word * bits) & mask), scale, bias), sums[i]);
    }
    for (uint i = 0; i < 32; i++)
        out[c->column + i] = sums[i];
}
#endif

#if USES & USE_KEYS
__kernel GROUP_SIZE(1, 1) void q_prime(const struct args_kv_b a, const struct tiling t, __global const uchar *kv_b,
                                       __global const float *q, __global float *out, __global float *scratch)
{
    uint h = get_group_id(1);
    uint end = min((uint)(get_group_id(0) + 1) * t.rows_per_group, a.n_rows);
#ifdef KIND
    uint step = 32;
#else
    uint bits = bits_of(&a.kv_b);
    uint step = bits == 4 ? 128 : bits == 8 ? 64 : 32;
#endif
    uint last = min((uint)(get_group_id(2) + 1) * BLOCK, a.kv_b.in_dim);
    struct columns c = {&a, kv_b, h * (a.qk_nope_head_dim + a.v_head_dim)};
    for (c.column = get_group_id(2) * BLOCK; c.column < last;) {
        uint wide = c.column + step <= last;
        for (uint r = get_group_id(0) * t.rows_per_group; r < end; r += 2) {
            __global const float *queries[2];
            __global float *to[2];
            for (uint i = 0; i < 2; i++) {
                uint token = min(r + i, end - 1);
                queries[i] = q + (ulong)token * a.q_row_stride + (ulong)h * a.q_head_stride;
                to[i] = out + ((ulong)token * a.n_heads + h) * a.kv_b.in_dim;
            }
#ifdef KIND
            sum_plain_columns(&c, queries, to);
#else
            if (bits > 8) {
                sum_plain_columns(&c, queries, to);
            } else if (!wide) {
                sum_last_columns(&c, bits, queries[0], to[0]);
                sum_last_columns(&c, bits, queries[1], to[1]);
            } else if (bits == 4) {
                sum_columns(&c, 4, queries, to);
            } else {
                sum_columns(&c, 8, queries, to);
            }
#endif
        }
        c.column += wide ? step : 32;
    }
}
CALLABLE(q_prime, args_kv_b, 4)
#endif

#endif
