// SPDX-License-Identifier: GPL-3.0-or-later
// The residual stream. A layer's halves read it normed (stream_in) and hand over what they have to add; nobody else
// knows how it is kept or adds to it. How it is kept is a residual's affair: a table, a row each, by the shape. To add
// one: its row in stream.c's residual_of, its file.
#ifndef MOECHAT_ENGINE_WALK_STREAM_H
#define MOECHAT_ENGINE_WALK_STREAM_H

#include "engine/files/shape.h"
#include "engine/walk/scratch.h"
#include "kernels/gpu.h"

struct layer_weights;
struct weights;
struct loader;
struct matrix;
struct pass;
struct projection;

enum { RESIDUAL_BUFFERS = 4 };

// Who reads it.
enum site { SITE_MIXER, SITE_FFN, SITE_HEAD }; // the head's layer: n_layers

// How far the group has come that is in it: the layers before this one are done; of this one, so many rows up to the
// routed experts; and where those are all, the routed experts before this one.
struct stream_reach {
    uint32_t layer, rows, expert;
};
// How many tokens' worth of the way of a group of so many rows is done: never falls as the group goes on.
double stream_worth(const struct stream_reach *reach, uint32_t rows, const struct shape *shape);
// The same in whole tokens, rounded down: whatever is told of it has these.
uint32_t stream_tokens(const struct stream_reach *reach, uint32_t rows, const struct shape *shape);

struct stream_options {
    gpu *gpu;
    const struct shape *shape;
    uint32_t group;   // tokens
    unsigned without; // of MOE_WITHOUT_: MOE_WITHOUT_FUSED
};

struct stream;
// What all sublayers add to is stream.hidden: the stream itself, or what is new since its last reader. The norms, and
// who adds what, are no residual's affair.
struct residual {
    // Asks for its tensors of one layer. NULL: it has none.
    void (*want)(struct loader *loader, struct layer_weights *weights);
    void (*want_head)(struct loader *loader, struct weights *weights); // the head's, the same
    // Its own buffers, for a group; stream_release frees them. NULL: it has none.
    int (*open)(const struct stream_options *options, struct stream *stream, struct moe_err *err);
    uint64_t (*group_floats)(const struct shape *shape); // that each token of a group takes in them; with `open`
    // What a reader gets, before its norm, of the pass's tokens; valid until the next is read. Each reads once, in the
    // layers' order, but for the head's, which may read again.
    struct rows (*read)(const struct pass *pass, uint32_t layer, enum site site);
    // What a layer's ffn would get if it read now, of a decoded token. Nothing changes.
    struct rows (*peek)(const struct pass *pass, uint32_t layer);
    // The stream between two layers, as people look at it. NULL: it is stream.hidden.
    struct rows (*show)(const struct pass *pass);
};
extern const struct residual residual_plain; // stream.c
extern const struct residual residual_bank;  // bank.c
extern const struct residual residual_hyper; // hyper.c

const struct residual *residual_of(const struct shape *shape);

struct stream {
    gpu_buf *hidden; // [group, hidden_size]
    gpu_buf *normed; // [group, hidden_size], as it was read last
    gpu_buf *own[RESIDUAL_BUFFERS];
    const struct residual *residual;
    uint32_t group; // tokens
    struct stream_reach reach;
    bool unfused;        // a decoded token's norms, shared experts and sums are launches of their own
    bool head_is_normed; // the last sum of a decoded token has brought the head's norm
};

// Do layers' halves read and add to `hidden` itself, and may ops be gathered?
bool stream_is_simple(const struct pass *pass);
// Device bytes that each token of a group takes.
uint64_t stream_group_bytes(const struct shape *shape);
// How many tokens a group has at most: places of rows are counted in 32 bits, here and in scratch.
uint32_t stream_most_group(const struct shape *shape);
int stream_open(const struct stream_options *options, struct stream *stream, struct moe_err *err);
void stream_release(struct stream *stream);

// The pass's tokens become their embeddings; it reaches nowhere yet.
void stream_begin(const struct pass *pass);
// The normed stream of the pass's tokens, for a reader of this layer: valid until the next is read, in a prefill for
// each chunk by itself.
struct rows stream_in(const struct pass *pass, uint32_t layer, enum site site);
// The same, and n <= MOST_BESIDE projections of it, into their `to`.
struct rows stream_project(const struct pass *pass, uint32_t layer, enum site site,
                           const struct projection *projections, uint32_t n);
// What was read last, of a whole group.
struct rows stream_read_last(const struct pass *pass);
// What a layer's ffn would read now, elsewhere: for a prediction.
void stream_peek(const struct pass *pass, uint32_t layer, struct rows to);

// stream += W x, of the pass's tokens.
void stream_add(const struct pass *pass, const struct matrix *matrix, struct rows from);
// stream += the sum of a decoded token's experts, by rank; their partial sums are in scratch, their weights in the
// router's from `first_weight` on.
void stream_add_ranked(const struct pass *pass, uint32_t layer, uint32_t first_weight);
// stream += a decoded token's experts, as gpu_op_add_experts has them: their activations and matrices.
void stream_add_experts(const struct pass *pass, const struct args_add_experts *args,
                        const struct gpu_experts_bufs *of);
// stream += rows of one expert, by their tokens' weights: args.first, n_rows and row as gpu_op_scatter_add has them.
void stream_add_rows(const struct pass *pass, const struct args_gather *args);
// Blocks. [rows, hidden_size]
int stream_read(const struct pass *pass, float *rows, struct moe_err *err);

#endif
