// SPDX-License-Identifier: GPL-3.0-or-later
// RMSNorm of a row by a work-group of any size, for the kernels of all programs. The sums are NORM_LANES' on a GPU,
// whoever adds them up: all sizes give the same bits.

#define NORM_SHARES 32
#if SHAPE_CPU
#define NORM_SUMS 1 // none: a work-item has the whole row
#else
#define NORM_SUMS (NORM_LANES + NORM_SHARES) // floats of local memory
#define NORM_FLIGHT 4                        // elements that a lane loads at once: one by one, each waits for the last
#endif

#if SHAPE_CPU
static float sum_of_squares(__global const float *x, uint dim)
{
    float16 lanes = 0;
    uint whole = dim / 16;
    for (uint i = 0; i < whole; i++) {
        float16 v = vload16(i, x);
        lanes = fma(v, v, lanes);
    }
    float sum = sum16(lanes);
    for (uint i = 16 * whole; i < dim; i++)
        sum = fma(x[i], x[i], sum);
    return sum;
}
#endif

struct normed_row {
    __global const float *weight;
    uint dim;
    float eps;
    uint plus_one;
};

// Where a work-group of a GPU leaves a row that it has normed for its own products.
struct team_normed {
    __global float *row; // for others, who want it once; NULL: they get it from other groups
    __global float *own; // the group's
};

static float weight_at(const struct normed_row *row, uint i)
{
    float weight = row->weight[i];
    return row->plus_one ? 1.0f + weight : weight;
}

#if !SHAPE_CPU
// Where a work-item reads: beyond the row's end its first element, for another's may just be written.
static uint own_or_first(uint first, uint i, uint dim)
{
    return i < dim ? i : first;
}
#endif

// 1 / sqrt(mean(in^2) + eps), the same in each of the group's `items` work-items. On a GPU lanes are summed up in two
// steps: NORM_SHARES work-items add up a share each, as do all others again, for loops in branches go wrong in PoCL
// 3.1; then each adds up the shares.
INLINE float row_scale(const struct normed_row *row, __global const float *in, const uint items, __local float *sums)
{
    uint dim = row->dim;
#if SHAPE_CPU
    float sum = sum_of_squares(in, dim);
#else
    __local float *shares = sums + NORM_LANES;
    uint share = get_local_id(0) % NORM_SHARES;
    float own[NORM_LANES / 64]; // groups of 64 at least
    UNROLL
    for (uint j = 0; j < NORM_LANES / items; j++)
        own[j] = 0;
    for (uint first = get_local_id(0); first < dim; first += NORM_FLIGHT * NORM_LANES) {
        float v[NORM_FLIGHT][NORM_LANES / 64];
        UNROLL
        for (uint k = 0; k < NORM_FLIGHT; k++)
            UNROLL
            for (uint j = 0; j < NORM_LANES / items; j++)
                v[k][j] = in[own_or_first(first, first + k * NORM_LANES + j * items, dim)];
        UNROLL
        for (uint k = 0; k < NORM_FLIGHT; k++)
            UNROLL
            for (uint j = 0; j < NORM_LANES / items; j++) {
                float own_v = first + k * NORM_LANES + j * items < dim ? v[k][j] : 0.0f;
                own[j] = fma(own_v, own_v, own[j]);
            }
    }
    UNROLL
    for (uint j = 0; j < NORM_LANES / items; j++)
        sums[get_local_id(0) + j * items] = own[j];
    barrier(CLK_LOCAL_MEM_FENCE);
    float sum = 0;
    UNROLL
    for (uint i = share; i < NORM_LANES; i += NORM_SHARES)
        sum += sums[i];
    shares[share] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    sum = 0;
    UNROLL
    for (uint i = 0; i < NORM_SHARES; i++)
        sum += shares[i];
#endif
    return 1.0f / sqrt(sum / (float)dim + row->eps);
}

// `in` may be what this work-item has just written, and `out` may be `in`, where the group has NORM_LANES: each reads
// its own elements only.
INLINE void norm_row(const struct normed_row *row, __global const float *in, __global float *out, const uint items,
                     __local float *sums)
{
    float scale = row_scale(row, in, items, sums);
#if SHAPE_CPU
    uint whole = row->dim / 16;
    for (uint i = 0; i < whole; i++) {
        float16 weight = vload16(i, row->weight);
        vstore16((row->plus_one ? 1.0f + weight : weight) * (vload16(i, in) * scale), i, out);
    }
    for (uint i = 16 * whole; i < row->dim; i++)
        out[i] = weight_at(row, i) * (in[i] * scale);
#else
    for (uint first = get_local_id(0); first < row->dim; first += NORM_FLIGHT * items) {
        float v[NORM_FLIGHT], weight[NORM_FLIGHT];
        UNROLL
        for (uint k = 0; k < NORM_FLIGHT; k++) {
            uint i = own_or_first(first, first + k * items, row->dim);
            v[k] = in[i];
            weight[k] = weight_at(row, i);
        }
        UNROLL
        for (uint k = 0; k < NORM_FLIGHT; k++)
            if (first + k * items < row->dim)
                out[first + k * items] = weight[k] * (v[k] * scale);
    }
#endif
}
