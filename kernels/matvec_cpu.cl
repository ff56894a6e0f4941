// SPDX-License-Identifier: GPL-3.0-or-later
// CPU: one row of x times a matrix. A work-item takes a range of output rows, ROWS together. The 16 words of a vector are
// taken apart by planes: plane k holds the k-th input of each word, so x is packed first, plane by plane. A plane is
// masked out of the words where it stands, 16^k or 256^k too large; packed x is that much smaller, which is exact.
//
// packed x, 4 bits: for each block of 128 inputs 8 planes of 16 lanes, lane j of plane k being x[8j + k] / 16^k, and the
//                   16 sums of each word's inputs; then for each 32 inputs that remain the same with 4 lanes.
// packed x, 8 bits: for each 64 inputs 4 planes of 16 lanes, x[4j + k] / 256^k, and the sums; then the same with 8 lanes.
// packed x, plain:  x.
#if SHAPE_CPU

#ifndef KIND
static void pack_words(__global const float *x, __global float *packed, uint lanes, uint per_word)
{
    float step = per_word == 8 ? 1.0f / 16 : 1.0f / 256;
    for (uint j = 0; j < lanes; j++) {
        float sum = 0;
        float factor = 1;
        for (uint k = 0; k < per_word; k++) {
            float value = x[j * per_word + k];
            sum += value;
            // The highest plane is shifted down instead: it would be the sign.
            packed[k * lanes + j] = k + 1 == per_word ? value : value * factor;
            factor *= step;
        }
        packed[per_word * lanes + j] = sum;
    }
}

static void pack_row(__global const float *x, __global float *packed, uint in_dim, uint bits)
{
    uint per_word = inputs_per_word(bits);
    uint block = 16 * per_word;
    uint input = 0;
    if (per_word == 1) {
        for (; input < in_dim; input += 16)
            vstore16(vload16(0, x + input), 0, packed + input);
        return;
    }
    for (; input + block <= in_dim; input += block, packed += block + 16)
        pack_words(x + input, packed, 16, per_word);
    for (; input < in_dim; input += 32, packed += 32 + 32 / per_word)
        pack_words(x + input, packed, 32 / per_word, per_word);
}

struct row_set {
    __global const uint *words[ROWS];
    __global const ushort *scales[ROWS];
    __global const ushort *biases[ROWS];
};

// Rows `first` to `first + n - 1`; beyond, the last again.
static void take_rows(struct row_set *rows, const struct args_matrix *m, __global const uchar *matrix, uint first, uint n)
{
    UNROLL
    for (uint i = 0; i < ROWS; i++) {
        uint row = first + min(i, n - 1);
        rows->words[i] = row_words(m, matrix, row);
        rows->scales[i] = row_scales(m, matrix, row);
        rows->biases[i] = row_biases(m, matrix, row);
    }
}

#define PLANE4(k) fma(convert_float16(as_int16(w & (15u << 4 * k))), vload16(k, x), part)
#define PLANE8(k) fma(convert_float16(as_int16(w & (255u << 8 * k))), vload16(k, x), part)

// A group of inputs that have a scale is 1 << shift.
static void dots4(const struct row_set *rows, __global const float *x, uint in_dim, uint shift, float *dots)
{
    float16 sums[ROWS] = {0};
    uint n_groups = max(128u >> shift, 1u);
    uint blocks = in_dim / 128;
    for (uint b = 0; b < blocks; b++, x += 144) {
        UNROLL
        for (uint i = 0; i < ROWS; i++) {
            uint16 w = vload16(b, rows->words[i]);
            fetch_ahead(rows->words[i] + 16 * b, in_dim / 2, 64);
            float16 part = convert_float16(as_int16(w >> 28)) * vload16(7, x);
            part = PLANE4(0);
            part = PLANE4(1);
            part = PLANE4(2);
            part = PLANE4(3);
            part = PLANE4(4);
            part = PLANE4(5);
            part = PLANE4(6);
            sums[i] = fma(spread(rows->scales[i] + b * n_groups, n_groups), part, sums[i]);
            sums[i] = fma(spread(rows->biases[i] + b * n_groups, n_groups), vload16(8, x), sums[i]);
        }
    }
    UNROLL
    for (uint i = 0; i < ROWS; i++)
        dots[i] = sum16(sums[i]);
    for (uint input = blocks * 128; input < in_dim; input += 32, x += 36) {
        UNROLL
        for (uint i = 0; i < ROWS; i++) {
            uint4 w = vload4(input / 32, rows->words[i]);
            float4 part = convert_float4(w >> 28) * vload4(7, x);
            for (uint k = 0; k < 7; k++)
                part = fma(convert_float4(w & (15u << 4 * k)), vload4(k, x), part);
            part = fma((float4)(bf16(rows->scales[i][input >> shift])), part,
                       (float4)(bf16(rows->biases[i][input >> shift])) * vload4(8, x));
            dots[i] += (part.x + part.z) + (part.y + part.w);
        }
    }
}

static void dots8(const struct row_set *rows, __global const float *x, uint in_dim, uint shift, float *dots)
{
    float16 sums[ROWS] = {0};
    uint n_groups = max(64u >> shift, 1u);
    uint blocks = in_dim / 64;
    for (uint b = 0; b < blocks; b++, x += 80) {
        UNROLL
        for (uint i = 0; i < ROWS; i++) {
            uint16 w = vload16(b, rows->words[i]);
            fetch_ahead(rows->words[i] + 16 * b, in_dim, 64);
            float16 part = convert_float16(as_int16(w >> 24)) * vload16(3, x);
            part = PLANE8(0);
            part = PLANE8(1);
            part = PLANE8(2);
            uint group = b * 64 >> shift;
            sums[i] = fma(spread(rows->scales[i] + group, n_groups), part, sums[i]);
            sums[i] = fma(spread(rows->biases[i] + group, n_groups), vload16(4, x), sums[i]);
        }
    }
    UNROLL
    for (uint i = 0; i < ROWS; i++)
        dots[i] = sum16(sums[i]);
    if (blocks * 64 == in_dim)
        return;
    UNROLL
    for (uint i = 0; i < ROWS; i++) {
        uint8 w = vload8(blocks * 2, rows->words[i]);
        float8 part = convert_float8(w >> 24) * vload8(3, x);
        for (uint k = 0; k < 3; k++)
            part = fma(convert_float8(w & (255u << 8 * k)), vload8(k, x), part);
        uint group = blocks * 64 >> shift;
        part = fma((float8)(bf16(rows->scales[i][group])), part, (float8)(bf16(rows->biases[i][group])) * vload8(4, x));
        float4 halves = part.lo + part.hi;
        dots[i] += (halves.x + halves.z) + (halves.y + halves.w);
    }
}

static void dots_plain(const struct row_set *rows, __global const float *x, uint in_dim, uint bits, float *dots)
{
    float16 sums[ROWS] = {0};
    for (uint b = 0; b < in_dim / 16; b++) {
        float16 in = vload16(b, x);
        UNROLL
        for (uint i = 0; i < ROWS; i++)
            sums[i] = fma(plain16(rows->words[i], bits, b), in, sums[i]);
    }
    UNROLL
    for (uint i = 0; i < ROWS; i++)
        dots[i] = sum16(sums[i]);
}

// The dot products of rows first .. first + n - 1 (n <= ROWS) with packed x.
static void dots_of(const struct args_matrix *m, __global const uchar *matrix, uint first, uint n,
                    __global const float *packed, float *dots)
{
    struct row_set rows;
    take_rows(&rows, m, matrix, first, n);
    if (bits_of(m) == 4)
        dots4(&rows, packed, m->in_dim, group_shift_of(m), dots);
    else if (bits_of(m) == 8)
        dots8(&rows, packed, m->in_dim, group_shift_of(m), dots);
    else
        dots_plain(&rows, packed, m->in_dim, bits_of(m), dots);
}
#endif

#ifndef DOT_ROWS // that dots_of takes at most
#define DOT_ROWS ROWS
#endif

// The rows of W x that are work-group x's, of those of `matrix`, into y, or added to it.
static void range_matvec(const struct args_matrix *m, __global const uchar *matrix, __global const float *packed,
                         uint rows_per_group, uint add, __global float *y)
{
    uint first = get_group_id(0) * rows_per_group;
    uint end = min(first + rows_per_group, m->out_dim);
    for (; first < end; first += DOT_ROWS) {
        float dots[DOT_ROWS];
        uint n = min(end - first, (uint)DOT_ROWS);
        dots_of(m, matrix, first, n, packed, dots);
        for (uint i = 0; i < n; i++)
            y[first + i] = add ? y[first + i] + dots[i] : dots[i];
    }
}

// y of what n <= DOT_ROWS rows gave: without limits side by side, for PoCL 3.1 makes ten branches of one number's exponential.
static void put_swiglus(const float *gates, const float *ups, uint n, float2 limits, __global float *y)
{
    if (limits.x > 0.0f || limits.y > 0.0f) {
        for (uint i = 0; i < n; i++)
            y[i] = swiglu(gates[i], ups[i], limits);
        return;
    }
    for (uint first = 0; first < n; first += 4) {
        float4 gate = vload4(0, gates + first);
        float4 four = gate / (1.0f + exp16((float16)(-gate, (float4)(0), (float8)(0))).s0123) * vload4(0, ups + first);
        float put[4];
        vstore4(four, 0, put);
        for (uint i = 0; i < min(n - first, 4u); i++)
            y[first + i] = put[i];
    }
}

struct gated {
    const struct args_matrix *gate;
    const struct args_matrix *up;
    __global const uchar *matrices;
    float2 limits;
};

// The same of silu(gate x) * (up x).
static void range_swiglu(const struct gated *g, __global const float *packed, uint rows_per_group, __global float *y)
{
    uint first = get_group_id(0) * rows_per_group;
    uint end = min(first + rows_per_group, g->gate->out_dim);
    for (; first < end; first += DOT_ROWS) {
        float gates[DOT_ROWS];
        float ups[DOT_ROWS];
        uint n = min(end - first, (uint)DOT_ROWS);
        dots_of(g->gate, g->matrices, first, n, packed, gates);
        dots_of(g->up, g->matrices, first, n, packed, ups);
        put_swiglus(gates, ups, n, g->limits, y + first);
    }
}

#if USES & USE_PRODUCTS
__kernel GROUP_SIZE(1, 1) void matvec(const struct args_matmul a, const struct tiling t, __global const uchar *matrix,
                                      __global const float *x, __global float *y, __global float *scratch)
{
    if (a.n_rows == 0)
        return;
    __global float *packed = scratch + get_group_id(0) * t.scratch_stride;
    pack_row(x + a.in_offset, packed, a.matrix.in_dim, bits_of(&a.matrix));
    range_matvec(&a.matrix, matrix, packed, t.rows_per_group, a.add, y + a.out_offset);
}
CALLABLE(matvec, args_matmul, 4)
#endif

// Groups: x over ranges of rows_per_group rows, y over matrices. Each norms x for itself, behind its packed one.
#if USES & USE_PRODUCTS
__kernel GROUP_SIZE(1, 1) void norm_matvecs(const struct args_norm_matvecs a, const struct tiling t,
                                            __global const uchar *norms, __global const float *x,
                                            __global float *normed, __global const uchar *matrix0,
                                            __global const uchar *matrix1, __global const uchar *matrix2,
                                            __global const uchar *matrix3, __global float *y0,
                                            __global float *y1, __global float *y2, __global float *y3,
                                            __global float *scratch)
{
    uint k = get_group_id(1);
    if (k >= a.n)
        return;
    struct args_matrix m = either_matrix(&a.matrix[0], &a.matrix[1], k == 1);
    m = either_matrix(&m, &a.matrix[2], k == 2);
    m = either_matrix(&m, &a.matrix[3], k == 3);
    if (get_group_id(0) * t.rows_per_group >= m.out_dim)
        return;
    struct normed_row row = {(__global const float *)(norms + a.norm), m.in_dim, a.eps, a.plus_one};
    __global float *packed = scratch + (ulong)(k * t.n_groups + get_group_id(0)) * t.scratch_stride;
    __global float *own = packed + t.scratch_stride - m.in_dim;
    norm_row(&row, x + a.in_offset, own, 1, 0);
    for (uint i = 0; k == 0 && get_group_id(0) == 0 && i < m.in_dim; i += 16)
        vstore16(vload16(0, own + i), 0, normed + a.normed_offset + i);
    pack_row(own, packed, m.in_dim, bits_of(&m));
    __global const uchar *matrix = k == 0 ? matrix0 : k == 1 ? matrix1 : k == 2 ? matrix2 : matrix3;
    __global float *y = k == 0   ? y0 + a.out_offset[0]
                        : k == 1 ? y1 + a.out_offset[1]
                        : k == 2 ? y2 + a.out_offset[2]
                                 : y3 + a.out_offset[3];
    range_matvec(&m, matrix, packed, t.rows_per_group, 0, y);
}
CALLABLE(norm_matvecs, args_norm_matvecs, 12)
#endif

#if USES & USE_PRODUCTS
__kernel GROUP_SIZE(1, 1) void swiglu_vec(const struct args_swiglu a, const struct tiling t,
                                          __global const uchar *matrices, __global const float *x, __global float *y,
                                          __global float *scratch)
{
    if (a.n_rows == 0)
        return;
    __global float *packed = scratch + get_group_id(0) * t.scratch_stride;
    pack_row(x + a.in_offset, packed, a.gate.in_dim, bits_of(&a.gate));
    struct gated g = {&a.gate, &a.up, matrices, LIMITS(a)};
    range_swiglu(&g, packed, t.rows_per_group, y + a.out_offset);
}
CALLABLE(swiglu_vec, args_swiglu, 4)
#endif

// Groups: x over ranges of rows_per_group rows, y over experts and, last, the shared one.
#if USES & USE_EXPERTS
__kernel GROUP_SIZE(1, 1) void swiglu_experts(const struct args_swiglu_experts a, const struct tiling t,
                                              __global const uchar *matrices, __global const uchar *shared,
                                              __global const int *ids, __global const float *x, __global float *y,
                                              __global float *scratch, __global const float *shared_gate)
{
    uint k = get_group_id(1);
    if (a.at.n == 0)
        return;
    struct args_matrix gate = either_matrix(&a.gate, &a.shared_gate, k == a.at.n);
    struct args_matrix up = either_matrix(&a.up, &a.shared_up, k == a.at.n);
    if (get_group_id(0) * t.rows_per_group >= gate.out_dim)
        return;
    struct expert_at at = expert_at(&a.at, ids, min(k, a.at.n - 1));
    __global float *packed = scratch + (ulong)(k * t.n_groups + get_group_id(0)) * t.scratch_stride;
    pack_row(x + a.in_offset, packed, gate.in_dim, bits_of(&gate));
    struct gated g = {&gate, &up, k < a.at.n ? matrices + at.place : shared, LIMITS(a)};
    __global float *out = y + (k < a.at.n ? (ulong)at.rank * a.out_stride : a.shared_offset);
    range_swiglu(&g, packed, t.rows_per_group, out);
    gate_own(k == a.at.n && a.is_gated, t.rows_per_group, gate.out_dim, shared_gate, out);
}
CALLABLE(swiglu_experts, args_swiglu_experts, 7)
#endif

#if USES & USE_EXPERTS
__kernel GROUP_SIZE(1, 1) void matvec_experts(const struct args_matvec_experts a, const struct tiling t,
                                              __global const uchar *matrices, __global const int *ids,
                                              __global const float *x, __global float *y,
                                              __global float *scratch)
{
    uint k = get_group_id(1);
    if (k >= a.at.n)
        return;
    struct expert_at at = expert_at(&a.at, ids, k);
    __global float *packed = scratch + (k * t.n_groups + get_group_id(0)) * t.scratch_stride;
    pack_row(x + (ulong)at.rank * a.in_stride + a.in_offset, packed, a.matrix.in_dim, bits_of(&a.matrix));
    range_matvec(&a.matrix, matrices + at.place, packed, t.rows_per_group, 0, y + (ulong)at.rank * a.out_stride);
}
CALLABLE(matvec_experts, args_matvec_experts, 5)
#endif

// A group has its range of rows of all the matrices, one after the other, and adds up what it left in `partial` itself.
#if USES & USE_EXPERTS
__kernel GROUP_SIZE(1, 1) void add_experts(const struct args_add_experts a, const struct tiling t,
                                           __global const uchar *matrices, __global const uchar *shared,
                                           __global const int *ids, __global const float *x,
                                           __global const float *weight, __global float *partial,
                                           __global float *out, __global float *scratch)
{
    if (a.at.n == 0)
        return;
    uint dim = a.matrix.out_dim;
    uint has_shared = a.shared.kind != KIND_NONE;
    __global float *packed = scratch + (ulong)get_group_id(0) * t.scratch_stride;
    for (uint k = 0; k < a.at.n + has_shared; k++) {
        struct args_matrix m = either_matrix(&a.matrix, &a.shared, k == a.at.n);
        struct expert_at at = expert_at(&a.at, ids, min(k, a.at.n - 1));
        pack_row(x + (k < a.at.n ? k * a.in_stride : a.shared_offset), packed, m.in_dim, bits_of(&m));
        range_matvec(&m, k < a.at.n ? matrices + at.place : shared, packed, t.rows_per_group, 0,
                     partial + (ulong)k * dim);
    }
    uint o = get_group_id(0) * t.rows_per_group;
    uint end = min(o + t.rows_per_group, dim);
    __global const float *of_shared = partial + (ulong)a.at.n * dim;
    for (; o + 16 <= end; o += 16) {
        float16 sum = 0;
        for (uint k = 0; k < a.at.n; k++)
            sum = fma((float16)(weight[a.first_weight + k]), vload16(0, partial + (ulong)k * dim + o), sum);
        float16 before = vload16(0, out + o);
        if (has_shared)
            before += vload16(0, of_shared + o);
        vstore16(before + sum, 0, out + o);
    }
    for (; o < end; o++) {
        float sum = 0;
        for (uint k = 0; k < a.at.n; k++)
            sum = fma(weight[a.first_weight + k], partial[(ulong)k * dim + o], sum);
        out[o] = (has_shared ? out[o] + of_shared[o] : out[o]) + sum;
    }
}
CALLABLE(add_experts, args_add_experts, 8)
#endif

// One row. Groups: y over heads.
#if USES & USE_HEADS
__kernel GROUP_SIZE(1, 1) void heads(const struct args_heads a, const struct tiling t, __global const uchar *matrix,
                                     __global const float *x, __global float *out, __global float *scratch)
{
    uint h = get_group_id(1);
    __global float *packed = scratch + h * t.scratch_stride;
    __global float *to = out + h * a.n_out;
    pack_row(x + h * a.head_stride, packed, a.matrix.in_dim, bits_of(&a.matrix));
    for (uint o = 0; o < a.n_out; o += DOT_ROWS) {
        float dots[DOT_ROWS];
        uint n = min(a.n_out - o, (uint)DOT_ROWS);
        dots_of(&a.matrix, matrix, h * a.head_rows + a.first_row + o, n, packed, dots);
        for (uint i = 0; i < n; i++)
            to[o + i] = dots[i];
    }
}
CALLABLE(heads, args_heads, 4)
#endif

#endif
