// SPDX-License-Identifier: GPL-3.0-or-later
// What ops check before they launch: a caller's error becomes the sticky GPU_ARGUMENT, and nothing is launched. Private
// to the room. All but op_split, op_matmul_cpu and op_done_by_ref are free of effects when what they look at is good.
#ifndef MOECHAT_OPS_CHECK_H
#define MOECHAT_OPS_CHECK_H

#include "kernels/device.h"

bool op_need(gpu *g, bool good, const char *op, const char *what);
bool op_holds(const gpu_buf *buf, uint64_t offset, uint64_t bytes);
// n floats from a byte offset on.
bool op_holds_vector(const gpu_buf *buf, uint64_t offset, uint64_t n);
// Rows of `width` floats (or ids), `stride` apart, n_rows > 0. offset + width must not overflow.
bool op_holds_rows(const gpu_buf *buf, uint64_t n_rows, uint64_t stride, uint64_t offset, uint64_t width);
// Is the matrix well shaped, and inside the buffer?
bool op_holds_matrix(const gpu_buf *buf, const struct args_matrix *m);
// Are there kernels for it? Refuses by the kind's name.
bool op_need_kind(gpu *g, const struct args_matrix *m, const char *op);
// Both.
bool op_need_matrix(gpu *g, const gpu_buf *buf, const struct args_matrix *m, const char *op);
// The program for a matrix that is of a kind as ops need it; NULL: that of all ops.
const struct program *op_program(const gpu *g, const struct args_matrix *m);
// May one launch compute with both?
bool op_is_one_program(const gpu *g, const struct args_matrix *a, const struct args_matrix *b);
// Has b a's dimensions; is it of a's kind, too?
bool op_same_dims(const struct args_matrix *a, const struct args_matrix *b);
bool op_same_shape(const struct args_matrix *a, const struct args_matrix *b);
// Do the device's tensor cores compute its products of many rows (matmul_mma.cl)?
bool op_takes_mma(const gpu *g, const struct args_matrix *m);
// And one row of x, in kernels of a kind that have fragments of TEAM_MMA_ROWS?
bool op_team_takes_mma(const gpu *g, const struct args_matrix *m);
// Then: the rows that a group of such a launch has, of n_rows of all its matrices. `together`: products of each row.
uint32_t op_cut_tiles(const gpu *g, const struct args_matrix *m, uint64_t n_rows, uint32_t together);

// Lays the rows of x that n matrices or heads have out in scratch, as tensor cores want them (matmul_mma.cl), and sets
// t->scratch_stride; a->at.out_offset of each becomes the first of its rows there. NULL: sticky error.
gpu_buf *op_split(gpu *g, const struct program *program, struct args_split *a, uint32_t n, gpu_buf *x,
                  struct tiling *t);

// CPU: the product of many rows, of what has been checked; rows of a matrix may begin anywhere in it.
void op_matmul_cpu(gpu *g, const struct args_matmul *a, const struct gpu_product_bufs *b);

bool op_is_ref(const gpu *g);
// Counts what ref.c has done; its code becomes the sticky error.
void op_done_by_ref(gpu *g, int code);

static inline size_t ceil_div(uint64_t a, uint64_t b)
{
    return (size_t)((a + b - 1) / b);
}

// Do all of a launch's experts lie in their buffer, whichever of them are chosen?
bool op_holds_experts(const struct gpu_experts_bufs *b, const struct args_matrix *m, const struct args_places *at);

// Is there such a router? Its softmax takes no bias.
bool op_router_fits(const struct args_router *a);

// The arguments of ops that are parts of others, too.
bool op_kv_append_fits(gpu *g, const struct args_kv_append *a, const struct gpu_kv_append_bufs *b);
bool op_q_prime_fits(gpu *g, const struct args_kv_b *a, gpu_buf *kv_b, gpu_buf *q, gpu_buf *out);
bool op_heads_fit(gpu *g, const struct args_heads *a, gpu_buf *matrix, gpu_buf *x, gpu_buf *out);
bool op_norm_matvecs_fit(gpu *g, const struct args_norm_matvecs *a, const struct gpu_norm_matvecs_bufs *b);
bool op_delta_token_fits(gpu *g, const struct args_delta_token *a, const struct gpu_delta_token_bufs *b);
// Do the rows of one of its ops become those of the next, and does one kernel take them?
bool op_is_delta_token(const gpu *g, const struct args_delta_token *a, const struct gpu_delta_token_bufs *b);
// attention_decode on a GPU without its merge: where the tiles' parts are, and how they are cut. NULL: sticky error.
gpu_buf *op_attention_tiles(gpu *g, const struct args_attention *a, const struct gpu_attention_bufs *b,
                            struct tiling *tiling);

// ops_token.c: a matrix that kernels take whose groups meet; and a launch that has them meet so many times: `met`, of
// its arguments, becomes how many had met before. A launch that is refused counts for nothing.
bool op_token_takes(const gpu *g, const struct args_matrix *m);
// The same of the program of several kinds, which all of a launch's must be.
bool op_token_takes_kind(const gpu *g, const struct args_matrix *m);
// A plain one, beside those of kinds.
bool op_token_takes_plain(const struct args_matrix *m);
void op_token_launch(gpu *g, struct launch *l, uint32_t *met, uint32_t times);

// CPU: the floats that a row of x takes when it is packed for the matrix. By ops_matrix.c.
uint32_t op_packed_floats(const struct args_matrix *m);

#endif
