// SPDX-License-Identifier: GPL-3.0-or-later
// GPU: the kernels of one row of x, whose teams matvec_team.cl and matvec_mma.cl have.
#if !SHAPE_CPU

#if USES & USE_PRODUCTS && BUILD_PARTS & PART_VECTORS
__kernel GROUP_SIZE(TEAM_ITEMS, 1) void matvec(const struct args_matmul a, const struct tiling t,
                                               __global const uchar *matrix, __global const float *x,
                                               __global float *y, __global float *scratch)
{
    __local struct team_space space;
    if (a.n_rows > 0)
        team_matvec(&a.matrix, TEAM_SHARE(t.rows_per_group), matrix, x + a.in_offset, &space, a.add, y + a.out_offset);
}
#endif

// Groups: x over rows, y over matrices. Each norms x for itself.
#if USES & USE_PRODUCTS && BUILD_PARTS & PART_VECTORS
__kernel GROUP_SIZE(TEAM_ITEMS, 1) void norm_matvecs(const struct args_norm_matvecs a, const struct tiling t,
                                                     __global const uchar *norms, __global const float *x,
                                                     __global float *normed, __global const uchar *matrix0,
                                                     __global const uchar *matrix1, __global const uchar *matrix2,
                                                     __global const uchar *matrix3, __global float *y0,
                                                     __global float *y1, __global float *y2, __global float *y3,
                                                     __global float *scratch)
{
    __local struct team_space space;
    uint k = get_group_id(1);
    if (k >= a.n)
        return;
    struct args_matrix m = either_matrix(&a.matrix[0], &a.matrix[1], k == 1);
    m = either_matrix(&m, &a.matrix[2], k == 2);
    m = either_matrix(&m, &a.matrix[3], k == 3);
    if (get_group_id(0) * t.rows_per_group >= m.out_dim)
        return;
    struct normed_row row = {(__global const float *)(norms + a.norm), m.in_dim, a.eps, a.plus_one};
    __global const uchar *matrix = k == 0 ? matrix0 : k == 1 ? matrix1 : k == 2 ? matrix2 : matrix3;
    __global float *y = k == 0   ? y0 + a.out_offset[0]
                        : k == 1 ? y1 + a.out_offset[1]
                        : k == 2 ? y2 + a.out_offset[2]
                                 : y3 + a.out_offset[3];
    struct team_normed to = {k == 0 ? normed + a.normed_offset : 0,
                             scratch + (ulong)(k * t.n_groups + get_group_id(0)) * t.scratch_stride};
    team_norm_matvec(&m, TEAM_SHARE(t.rows_per_group), &row, x + a.in_offset, &to, matrix, &space, y);
}
#endif

#if USES & USE_PRODUCTS && BUILD_PARTS & PART_VECTORS
__kernel GROUP_SIZE(TEAM_ITEMS, 1) void swiglu_vec(const struct args_swiglu a, const struct tiling t,
                                                   __global const uchar *matrices, __global const float *x,
                                                   __global float *y, __global float *scratch)
{
    __local struct team_space space;
    if (a.n_rows > 0)
        team_swiglu(&a.gate, &a.up, TEAM_SHARE(t.rows_per_group), matrices, x + a.in_offset, &space, LIMITS(a),
                    y + a.out_offset);
}
#endif

// Groups: x over rows, y over experts and, last, the shared one.
#if USES & USE_EXPERTS && BUILD_PARTS & PART_EXPERTS
__kernel GROUP_SIZE(TEAM_ITEMS, 1) void swiglu_experts(const struct args_swiglu_experts a, const struct tiling t,
                                                       __global const uchar *matrices, __global const uchar *shared,
                                                       __global const int *ids, __global const float *x,
                                                       __global float *y, __global float *scratch,
                                                       __global const float *shared_gate)
{
    __local struct team_space space;
    uint k = get_group_id(1);
    if (a.at.n == 0)
        return;
    struct args_matrix gate = either_matrix(&a.gate, &a.shared_gate, k == a.at.n);
    struct args_matrix up = either_matrix(&a.up, &a.shared_up, k == a.at.n);
    if (get_group_id(0) * t.rows_per_group >= gate.out_dim)
        return;
    struct expert_at at = expert_at(&a.at, ids, min(k, a.at.n - 1));
    __global float *out = y + (k < a.at.n ? (ulong)at.rank * a.out_stride : a.shared_offset);
    team_swiglu(&gate, &up, TEAM_SHARE(t.rows_per_group), k < a.at.n ? matrices + at.place : shared, x + a.in_offset,
                &space, LIMITS(a), out);
    gate_own(k == a.at.n && a.is_gated, t.rows_per_group, gate.out_dim, shared_gate, out);
}
#endif

#if USES & USE_EXPERTS && BUILD_PARTS & PART_EXPERTS
__kernel GROUP_SIZE(TEAM_ITEMS, 1) void matvec_experts(const struct args_matvec_experts a, const struct tiling t,
                                                       __global const uchar *matrices, __global const int *ids,
                                                       __global const float *x, __global float *y,
                                                       __global float *scratch)
{
    __local struct team_space space;
    uint k = get_group_id(1);
    if (k >= a.at.n)
        return;
    struct expert_at at = expert_at(&a.at, ids, k);
    team_matvec(&a.matrix, TEAM_SHARE(t.rows_per_group), matrices + at.place, x + (ulong)at.rank * a.in_stride + a.in_offset,
                &space, 0,
                y + (ulong)at.rank * a.out_stride);
}
#endif

// A group has its rows of all the matrices, one after the other, and adds up what it left in `partial` itself.
#if USES & USE_EXPERTS && BUILD_PARTS & PART_EXPERTS
__kernel GROUP_SIZE(TEAM_ITEMS, 1) void add_experts(const struct args_add_experts a, const struct tiling t,
                                                    __global const uchar *matrices, __global const uchar *shared,
                                                    __global const int *ids, __global const float *x,
                                                    __global const float *weight, __global float *partial,
                                                    __global float *out, __global float *scratch)
{
    __local struct team_space space;
    if (a.at.n == 0)
        return;
    uint dim = a.matrix.out_dim;
    uint has_shared = a.shared.kind != KIND_NONE;
    for (uint k = 0; k < a.at.n + has_shared; k++) {
        struct args_matrix m = either_matrix(&a.matrix, &a.shared, k == a.at.n);
        struct expert_at at = expert_at(&a.at, ids, min(k, a.at.n - 1));
        team_matvec(&m, TEAM_SHARE(t.rows_per_group), k < a.at.n ? matrices + at.place : shared,
                    x + (k < a.at.n ? k * a.in_stride : a.shared_offset), &space, 0, partial + (ulong)k * dim);
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
    uint item = get_local_id(0);
    uint o = get_group_id(0) * t.rows_per_group + item;
    if (item >= t.rows_per_group || o >= dim)
        return;
    float sum = 0;
    UNROLL_4
    for (uint k = 0; k < a.at.n; k++)
        sum = fma(weight[a.first_weight + k], partial[(ulong)k * dim + o], sum);
    float before = has_shared ? out[o] + partial[(ulong)a.at.n * dim + o] : out[o];
    out[o] = before + sum;
}
#endif

// Groups: x over the head's outputs, y over heads, z over rows.
#if USES & USE_HEADS && BUILD_PARTS & PART_HEADS
__kernel GROUP_SIZE(TEAM_ITEMS, 1) void heads(const struct args_heads a, const struct tiling t,
                                              __global const uchar *matrix, __global const float *x,
                                              __global float *out, __global float *scratch)
{
    __local struct team_space space;
    uint r = get_group_id(2);
    uint h = get_group_id(1);
    if (r >= a.n_rows)
        return;
    team_heads(&a.matrix, h * a.head_rows + a.first_row, a.n_out, TEAM_SHARE(t.rows_per_group), matrix,
               x + (ulong)r * a.row_stride + h * a.head_stride, &space, out + ((ulong)r * a.n_heads + h) * a.n_out);
}
#endif

// A word's columns, summed over every Q_PARTS-th row of the head, scale and bias apart; quanta as they stand in the word.
struct q_sum {
    float4 low, high;
    float bias;
};

#ifdef KIND
INLINE struct q_sum q_rows(const struct args_kv_b *a, __global const uchar *kv_b, __global const float *query, uint head,
                           uint word)
{
    struct q_sum sum = {0, 0, 0};
    for (uint d = get_local_id(0) / Q_WORDS; d < a->qk_nope_head_dim; d += Q_PARTS) {
        struct kind_row row = kind_row_of(&a->kv_b, kv_b, head * (a->qk_nope_head_dim + a->v_head_dim) + d);
        float8 weights = kind_weights8(&row, word);
        sum.low = fma((float4)(query[d]), weights.lo, sum.low);
        sum.high = fma((float4)(query[d]), weights.hi, sum.high);
    }
    return sum;
}
#else
INLINE struct q_sum q_rows(const struct args_kv_b *a, __global const uchar *kv_b, __global const float *query, uint head,
                           uint word)
{
    struct q_sum sum = {0, 0, 0};
    uint bits = bits_of(&a->kv_b);
    uint group = word * (32 / bits) / group_size_of(&a->kv_b);
    for (uint first = get_local_id(0) / Q_WORDS; first < a->qk_nope_head_dim; first += Q_FLIGHT * Q_PARTS) {
        uint words[Q_FLIGHT];
        float scales[Q_FLIGHT];
        float biases[Q_FLIGHT];
        UNROLL
        for (uint i = 0; i < Q_FLIGHT; i++) {
            uint d = min(first + i * Q_PARTS, a->qk_nope_head_dim - 1);
            uint row = head * (a->qk_nope_head_dim + a->v_head_dim) + d;
            words[i] = row_words(&a->kv_b, kv_b, row)[word];
            scales[i] = query[d] * bf16(row_scales(&a->kv_b, kv_b, row)[group]);
            biases[i] = query[d] * bf16(row_biases(&a->kv_b, kv_b, row)[group]);
        }
        UNROLL
        for (uint i = 0; i < Q_FLIGHT; i++)
            if (first + i * Q_PARTS < a->qk_nope_head_dim) {
                sum.low = fma((float4)(scales[i]), bits == 4 ? low_nibbles(words[i]) : octets_apart(words[i]), sum.low);
                if (bits == 4)
                    sum.high = fma((float4)(scales[i]), low_nibbles(words[i] >> 16), sum.high);
                sum.bias += biases[i];
            }
    }
    float4 scale = places(bits);
    sum.low = fma(sum.low, scale, (float4)(sum.bias));
    sum.high = fma(sum.high, scale, (float4)(sum.bias));
    return sum;
}

INLINE float q_rows_plain(const struct args_kv_b *a, __global const uchar *kv_b, __global const float *query, uint head,
                          uint column)
{
    float sum = 0;
    for (uint d = get_local_id(0) / Q_WORDS; d < a->qk_nope_head_dim; d += Q_PARTS) {
        uint row = head * (a->qk_nope_head_dim + a->v_head_dim) + d;
        sum = fma(query[d], plain1(row_words(&a->kv_b, kv_b, row), bits_of(&a->kv_b), column), sum);
    }
    return sum;
}
#endif

// Q_WORDS words' columns of a head, from word `first` on; a group's work-items share the sum over the head's rows, every
// Q_PARTS-th to each.
INLINE void q_prime_part(const struct args_kv_b *a, uint first, uint h, uint r, __global const uchar *kv_b,
                         __global const float *q, __global float *out, __local float (*sums)[Q_WORDS * 8])
{
    uint item = get_local_id(0);
#ifdef KIND
    const uint per_word = 8;
#else
    uint per_word = inputs_per_word(bits_of(&a->kv_b));
#endif
    uint word = min(first + item % Q_WORDS, a->kv_b.in_dim / per_word - 1);
    __global const float *query = q + (ulong)r * a->q_row_stride + (ulong)h * a->q_head_stride;
    __local float *to = sums[item / Q_WORDS] + item % Q_WORDS * per_word;
#ifndef KIND
    if (per_word == 1)
        *to = q_rows_plain(a, kv_b, query, h, word);
#endif
    if (per_word > 1) {
        struct q_sum sum = q_rows(a, kv_b, query, h, word);
        vstore4(sum.low, 0, to);
        if (per_word == 8)
            vstore4(sum.high, 1, to);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    uint column = first * per_word + item;
    if (item >= Q_WORDS * per_word || column >= a->kv_b.in_dim)
        return;
    float4 total = 0;
    UNROLL
    for (uint p = 0; p < Q_PARTS; p += 4)
        total += (float4)(sums[p][item], sums[p + 1][item], sums[p + 2][item], sums[p + 3][item]);
    out[((ulong)r * a->n_heads + h) * a->kv_b.in_dim + column] = (total.x + total.z) + (total.y + total.w);
}

// Groups: x over words, y over heads, z over rows.
#if USES & USE_KEYS && BUILD_PARTS & PART_HEADS
__kernel GROUP_SIZE(Q_WORDS *Q_PARTS, 1) void q_prime(const struct args_kv_b a, const struct tiling t,
                                                      __global const uchar *kv_b, __global const float *q,
                                                      __global float *out, __global float *scratch)
{
    __local float sums[Q_PARTS][Q_WORDS * 8];
    if (get_group_id(2) < a.n_rows)
        q_prime_part(&a, get_group_id(0) * Q_WORDS, get_group_id(1), get_group_id(2), kv_b, q, out, sums);
}
#endif

#endif
