// SPDX-License-Identifier: GPL-3.0-or-later
// A row's way into the cache of latent rows, for its kernel and for those of a whole token.

#if SHAPE_CPU
#define ROW_LANES 1
#else
#define ROW_LANES NORM_LANES
#endif

// Pair j of a head, at this position, into where it was.
static void turn_head(const struct args_kv_append *a, __global float *head, uint j, float2 turn)
{
    uint first = a->interleaved ? 2 * j : j;
    uint second = a->interleaved ? 2 * j + 1 : j + a->rope_dim / 2;
    float2 turned = turn_pair((float2)(head[first], head[second]), turn);
    head[first] = turned.x;
    head[second] = turned.y;
}

// A part of row r: on a CPU there is one, on a GPU the first makes the row of the cache and the others turn TURNED_HEADS
// heads of q each.
INLINE void append_part(const struct args_kv_append *a, uint part, uint r, __global const uchar *norms,
                        __global const float *inv_freq, __global const float *x, __global void *cache,
                        __global float *q, __local float *sums)
{
    uint appends = part == 0;
    __global const float *from = x + (ulong)r * a->in_stride;
    ulong at = (ulong)(a->position + r) * (a->kv_lora_rank + a->rope_dim);
    uint rank = appends ? a->kv_lora_rank : 0;
    struct normed_row row = {(__global const float *)(norms + a->norm), rank, a->eps, 0};
    float scale = row_scale(&row, from, ROW_LANES, sums);
    uint i = get_local_id(0);
#if SHAPE_CPU
    for (; i + 16 <= rank; i += 16) {
        float16 normed = vload16(0, row.weight + i) * (vload16(0, from + i) * scale);
        if (a->kv_type == KV_F32)
            vstore16(normed, 0, (__global float *)cache + at + i);
        else
            vstore_half16_rte(normed, 0, (__global half *)cache + at + i);
    }
#endif
    for (; i < rank; i += ROW_LANES)
        cache_put(cache, a->kv_type, at + i, row.weight[i] * (from[i] * scale));
    at += a->kv_lora_rank;
    from += a->kv_lora_rank;
    for (uint j = get_local_id(0); appends && a->no_rope && j < a->rope_dim; j += ROW_LANES)
        cache_put(cache, a->kv_type, at + j, from[j]);
    uint pairs = a->no_rope ? 0 : a->rope_dim / 2;
    float position = (float)(a->position + r);
    for (uint j = get_local_id(0); appends && j < pairs; j += ROW_LANES) {
        uint first = a->interleaved ? 2 * j : j;
        uint second = a->interleaved ? 2 * j + 1 : j + a->rope_dim / 2;
        float2 turn = cos_sin(position * inv_freq[j]) * a->scale;
        float2 turned = turn_pair((float2)(from[first], from[second]), turn);
        cache_put(cache, a->kv_type, at + first, turned.x);
        cache_put(cache, a->kv_type, at + second, turned.y);
#if SHAPE_CPU
        for (uint h = 0; h < a->n_heads; h++)
            turn_head(a, q + (ulong)r * a->q_row_stride + (ulong)h * a->q_head_stride + a->q_offset, j, turn);
#endif
    }
#if !SHAPE_CPU
    uint first_head = (part - 1) * TURNED_HEADS;
    uint n = appends ? 0 : min(a->n_heads - first_head, (uint)TURNED_HEADS) * pairs;
    for (uint k = get_local_id(0); k < n; k += ROW_LANES) {
        uint h = first_head + k / pairs;
        float2 turn = cos_sin(position * inv_freq[k % pairs]) * a->scale;
        turn_head(a, q + (ulong)r * a->q_row_stride + (ulong)h * a->q_head_stride + a->q_offset, k % pairs, turn);
    }
#endif
}
