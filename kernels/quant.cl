// SPDX-License-Identifier: GPL-3.0-or-later
// Where the parts of a matrix lie, and its words: MLX's 4 and 8 bits with bf16 scales, bf16 and float32. The last two
// have words only.

static uint bits_of(const struct args_matrix *m)
{
    return m->kind == KIND_MLX_4 ? 4 : m->kind == KIND_MLX_8 ? 8 : m->kind == KIND_BF16 ? 16 : 32;
}

static uint group_size_of(const struct args_matrix *m) // plain matrices may say 0
{
    return max(m->group_size, 32u);
}

static uint group_shift_of(const struct args_matrix *m) // divisions are dear where a row is short
{
    return 5 + m->group_size / 64;
}

static __global const uint *row_words(const struct args_matrix *m, __global const uchar *matrix, uint row)
{
    return (__global const uint *)(matrix + m->weight) + (ulong)row * (m->in_dim * bits_of(m) / 32);
}

static __global const ushort *row_scales(const struct args_matrix *m, __global const uchar *matrix, uint row)
{
    return (__global const ushort *)(matrix + m->scales) + (ulong)row * (m->in_dim >> group_shift_of(m));
}

static __global const ushort *row_biases(const struct args_matrix *m, __global const uchar *matrix, uint row)
{
    return (__global const ushort *)(matrix + m->biases) + (ulong)row * (m->in_dim >> group_shift_of(m));
}

// Where expert k of a launch lies and which row is its own. Indices known to the compiler only: else a GPU copies the
// arguments to memory for each work-item.
struct expert_at {
    ulong place;
    uint rank;
};

static struct expert_at expert_at(const struct args_places *at, __global const int *ids, uint k)
{
    struct expert_at found = {0, k};
    if (at->by_id) { // the router's ids are in range; stay inside all the same
        found.place = at->base + min((uint)ids[at->first_id + k], at->n_experts - 1) * at->stride;
        return found;
    }
    UNROLL
    for (uint i = 0; i < MOST_EXPERTS; i++) { // no branches: 16 of these take as long as a small row
        found.place = i == k ? at->place[i] : found.place;
        found.rank = i == k ? at->rank[i] : found.rank;
    }
    return found;
}

// What a group has just left of a row, `rows` of n, where it is to be gated: each number by the work-item that wrote it.
// No loop in a branch: PoCL 3.1 goes through it all the same.
static void gate_own(uint is_gated, uint rows, uint n, __global const float *gate, __global float *y)
{
    uint first = get_group_id(0) * rows, end = is_gated ? min(first + rows, n) : first;
#if SHAPE_CPU
    for (uint o = first; o < end; o++)
        y[o] *= sigmoid(gate[0]);
#else
    if (first + get_local_id(0) < end)
        y[first + get_local_id(0)] *= sigmoid(gate[0]);
#endif
}

// One of two, field by field: PoCL 3.1 goes wrong where a pointer is chosen between structs of a work-item.
static struct args_matrix either_matrix(const struct args_matrix *m, const struct args_matrix *other, uint take_other)
{
    struct args_matrix one;
    one.weight = take_other ? other->weight : m->weight;
    one.scales = take_other ? other->scales : m->scales;
    one.biases = take_other ? other->biases : m->biases;
    one.in_dim = take_other ? other->in_dim : m->in_dim;
    one.out_dim = take_other ? other->out_dim : m->out_dim;
    one.kind = take_other ? other->kind : m->kind;
    one.group_size = take_other ? other->group_size : m->group_size;
    one.scale_type = take_other ? other->scale_type : m->scale_type;
    one.factor = take_other ? other->factor : m->factor;
    return one;
}

// What 32 / bits inputs have in common: the planes of a vector of words. Plain inputs stand in their order.
static uint inputs_per_word(uint bits)
{
    return bits == 4 ? 8 : bits == 8 ? 4 : 1;
}

// 16 and 4 inputs of a plain row.
static float16 plain16(__global const uint *words, uint bits, uint at)
{
    if (bits == 32)
        return as_float16(vload16(at, words));
    return as_float16(convert_uint16(vload16(at, (__global const ushort *)words)) << 16);
}

static float4 plain4(__global const uint *words, uint bits, uint at)
{
    if (bits == 32)
        return as_float4(vload4(at, words));
    return as_float4(convert_uint4(vload4(at, (__global const ushort *)words)) << 16);
}

static float plain1(__global const uint *words, uint bits, uint at)
{
    return bits == 32 ? as_float(words[at]) : bf16(((__global const ushort *)words)[at]);
}

#if !SHAPE_CPU
// Four of x stand beside each other; four steps on lie 8 of these, and lanes read such steps: spread them over the banks.
INLINE uint team_place(uint four)
{
    return four ^ (four >> 3 & 7);
}

// A unit of a plain row, 32 inputs: all of it is on its way before the first is used. The row begins at a multiple of 16 bytes.
struct plain_part {
    float4 w[8];
};

INLINE void plain_part_load(__global const uchar *row, const uint bits, uint unit, struct plain_part *to)
{
    UNROLL
    for (uint j = 0; j < 8; j++)
        to->w[j] = bits == 32 ? ((__global const float4 *)row)[unit * 8 + j]
                              : as_float4(convert_uint4(((__global const ushort4 *)row)[unit * 8 + j]) << 16);
}

// dot + its product with unit `own` of x.
INLINE float plain_part_dot(const struct plain_part *unit, __local const float4 *x, uint own, float dot)
{
    float4 part = 0;
    UNROLL
    for (uint j = 0; j < 8; j++)
        part = fma(unit->w[j], x[team_place(own * 8 + j)], part);
    return dot + ((part.x + part.z) + (part.y + part.w));
}

INLINE float plain_unit(__global const uchar *row, const uint bits, uint unit, __local const float4 *x, uint own, float dot)
{
    struct plain_part one;
    plain_part_load(row, bits, unit, &one);
    return plain_part_dot(&one, x, own, dot);
}
#endif

static float8 nibbles(uint word)
{
    return convert_float8((uint8)(word, word >> 4, word >> 8, word >> 12, word >> 16, word >> 20, word >> 24, word >> 28) & 15u);
}

static float4 octets(uint word)
{
    return convert_float4((uint4)(word, word >> 8, word >> 16, word >> 24) & 255u);
}

// The same without shifts and conversions, which are what a GPU has least of: a mask makes quanta, where they stand, the
// low digits of a float. Four of a word's lower half, times 1, 16, 256 and 4096; two bytes of each half, times 1 and 256.
#if NVIDIA_MMA
#define UNDER_2_TO_23(word, mask) masked_under(word, mask, 0x4b000000u)
#else
#define UNDER_2_TO_23(word, mask) ((word) & (mask) | 0x4b000000u)
#endif

static float4 low_nibbles(uint word)
{
    return as_float4((uint4)(UNDER_2_TO_23(word, 0xf), UNDER_2_TO_23(word, 0xf0), UNDER_2_TO_23(word, 0xf00),
                             UNDER_2_TO_23(word, 0xf000))) -
           8388608.0f;
}

static float4 octets_apart(uint word)
{
    uint high = word >> 16;
    return as_float4((uint4)(UNDER_2_TO_23(word, 0xff), UNDER_2_TO_23(word, 0xff00), UNDER_2_TO_23(high, 0xff),
                             UNDER_2_TO_23(high, 0xff00))) -
           8388608.0f;
}

// What must multiply these.
static float4 places(uint bits)
{
    return bits == 4 ? (float4)(1, 0x1p-4f, 0x1p-8f, 0x1p-12f) : (float4)(1, 0x1p-8f, 1, 0x1p-8f);
}

// Spreads the values of a block's 4, 2 or 1 groups over the lanes of its words: pairs of bf16 are moved as one number,
// from which each lane takes its half.
static float16 spread(__global const ushort *values, uint n_groups)
{
    if (n_groups == 2) {
        uint16 pair = as_uint(vload2(0, values));
        return as_float16(pair << (uint16)((uint8)(16), (uint8)(0)) & 0xffff0000u);
    }
    if (n_groups == 4) {
        uint2 pairs = as_uint2(vload4(0, values));
        uint16 lanes = (uint16)((uint8)(pairs.x), (uint8)(pairs.y));
        return as_float16(lanes << (uint16)((uint4)(16), (uint4)(0), (uint4)(16), (uint4)(0)) & 0xffff0000u);
    }
    return (float16)(bf16(values[0]));
}
