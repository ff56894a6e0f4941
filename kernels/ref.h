// SPDX-License-Identifier: GPL-3.0-or-later
// Every op in plain C on host memory: the oracle of the op tests, and the device "ref". Straight from the formulas in
// args.h, one thread, no cleverness that changes what is summed; float32 with a fixed order of sums.
// All return GPU_OK, or GPU_OUT_OF_MEMORY when a scratch row could not be had (nothing useful was written then).
// Pointers are the buffers' starts, gpu_bufs have their memory at `host`; callers have checked every range.
#ifndef MOECHAT_REF_H
#define MOECHAT_REF_H

#include "kernels/gpu.h"
#include "kernels/ref_kinds.h"

uint16_t ref_float_to_half(float value); // round to nearest even; overflow becomes infinity

// float32 from a byte offset on.
const float *ref_floats_at(const gpu_buf *buf, uint64_t offset);
float ref_sigmoid(float x);
// A product of two vectors, its order fixed by n alone.
float ref_dot(const float *a, const float *b, uint32_t n);

int ref_embed(const struct args_embed *a, const void *table, const int32_t *ids, float *out);
int ref_rmsnorm(const struct args_rmsnorm *a, const void *weight, const float *x, float *y);
int ref_matmul(const struct args_matmul *a, const void *matrix, const float *x, float *y);
int ref_swiglu(const struct args_swiglu *a, const void *matrices, const float *x, float *y);
int ref_swiglu_experts(const struct args_swiglu_experts *a, const struct gpu_experts_bufs *b);
int ref_matvec_experts(const struct args_matvec_experts *a, const struct gpu_experts_bufs *b);
int ref_rope(const struct args_rope *a, const float *inv_freq, float *x);
// n elements of a cache of either type, from element `at` on.
void ref_to_cache(uint32_t kv_type, const float *x, uint64_t n, void *cache, uint64_t at);
int ref_kv_append(const struct args_kv_append *a, const struct gpu_kv_append_bufs *b);
int ref_q_prime(const struct args_kv_b *a, const void *kv_b, const float *q, float *out);
int ref_heads(const struct args_heads *a, const void *matrix, const float *x, float *out);
int ref_attention(const struct args_attention *a, const struct gpu_attention_bufs *b);
int ref_attention_plain(const struct args_attention_plain *a, const struct gpu_attention_plain_bufs *b);
int ref_index_append(const struct args_index_append *a, const struct gpu_index_append_bufs *b);
int ref_index_pool(const struct args_index_pool *a, const gpu_buf *ape, const gpu_buf *cache, gpu_buf *pools);
int ref_index_scores(const struct args_index_scores *a, const struct gpu_index_scores_bufs *b);
int ref_index_choice(const struct args_index_choice *a, const float *scores, uint32_t *list);
int ref_gqa_append(const struct args_gqa_append *a, const struct gpu_gqa_append_bufs *b);
int ref_gqa(const struct args_gqa *a, const struct gpu_gqa_bufs *b);
int ref_short_conv(const struct args_short_conv *a, const struct gpu_short_conv_bufs *b);
int ref_delta(const struct args_delta *a, const struct gpu_delta_bufs *b);
int ref_gated_norm(const struct args_gated_norm *a, const struct gpu_gated_norm_bufs *b);
int ref_gate_product(const struct args_gate_product *a, const float *gate, float *y);
int ref_router(const struct args_router *a, const struct gpu_router_bufs *b);
int ref_gather(const struct args_gather *a, const float *x, const int32_t *index, float *out);
int ref_scatter_add(const struct args_gather *a, const struct gpu_scatter_bufs *b);
int ref_combine(const struct args_combine *a, const float *partial, const float *weight, float *out);
int ref_combine_norm(const struct args_combine_norm *a, const struct gpu_combine_bufs *b);
int ref_bank_mix(const struct args_bank_mix *a, const struct gpu_bank_bufs *b);

// ref_hyper.c
int ref_hyper_mix(const struct args_hyper_mix *a, const struct gpu_hyper_mix_bufs *b);
int ref_hyper_spread(const struct args_hyper_spread *a, const struct gpu_hyper_spread_bufs *b);
int ref_hyper_mean(const struct args_hyper_spread *a, const struct gpu_hyper_spread_bufs *b);

#endif
