// SPDX-License-Identifier: GPL-3.0-or-later
// How tensors come to the device. First each is asked for by name, checked and given a place (loader_vector,
// loader_matrix), then all are read in the files' order. The first failure stays: what is asked for after it does
// nothing. weights.c asks for what every model has, a mixer for what its layers have.
#ifndef MOECHAT_ENGINE_WALK_LOADER_H
#define MOECHAT_ENGINE_WALK_LOADER_H

#include "engine/walk/weights.h"

// How a tensor's numbers become the device's.
enum conversion {
    AS_STORED,
    TO_F32,
    TO_F32_PLUS_ONE, // float32 of 1 + w
    TO_ONES,         // 1 for each number
};

struct piece;
struct loader {
    gpu *g; // NULL: only find and check
    const struct shape *shape;
    const struct checkpoint *from;
    const char *remedy; // what to do about a tensor that is not as it should be
    struct weights *weights;
    struct moe_err *err;
    int failed;
    bool *known;         // [from->count]: tensors that the model has asked for
    bool norms_plus_one; // what loader_norm finds is w of 1 + w
    struct piece *pieces;
    size_t n_pieces, room;
    uint64_t unplaced;  // aligned bytes of tensors that have no place yet
    uint64_t slab_used; // of the last slab
    char in[32];        // "model.layers.N." in front of the names asked for
};

// g, shape, from, remedy, weights (zeros) and err are set. The caller ends it, failed or not.
int loader_begin(struct loader *loader);
// From now on names are of this layer; of none in particular.
void loader_enter(struct loader *loader, uint32_t layer);
void loader_leave(struct loader *loader);
// Does the layer have a matrix of this name? A tensor?
bool loader_has(const struct loader *loader, const char *stem);
bool loader_has_tensor(const struct loader *loader, const char *name);
// float32 [dim], whatever it was.
void loader_vector(struct loader *loader, struct vector *vector, const char *name, uint32_t dim);
// float32 [dim] of ones, in the place of a factor that is part of the tensor `name` [dim], which must be there.
void loader_ones(struct loader *loader, struct vector *vector, const char *name, uint32_t dim);
// As loader_vector of a norm, whose files may hold one less (shape.norms_from_one).
void loader_norm(struct loader *loader, struct vector *vector, const char *name, uint32_t dim);
// float32 [n * rows, cols] of n tensors behind each other, each stored as [rows, cols] with any ones between or around;
// rows * cols is a multiple of 16, if they are several.
struct want_numbers {
    const char *const *names;
    size_t n;
    uint32_t rows, cols;
    bool padded; // a tensor of one dimension may be longer: the rest means nothing
};
void loader_numbers(struct loader *loader, struct vector *vector, const struct want_numbers *want);
void loader_matrix(struct loader *loader, struct matrix *matrix, const char *stem, uint32_t out_dim, uint32_t in_dim);
// One or two matrices of one kind, all in one buffer.
struct row_run {
    uint32_t first, n;
};
struct want {
    struct matrix *matrix;
    const char *stem;
    uint32_t out_dim, in_dim;
    uint32_t heads; // not 0: stored with one more dimension, [heads, out_dim / heads, ...]
    // Not NULL: its rows are these of a tensor with more, `stored_rows`; n_runs runs, out_dim rows in all.
    const struct row_run *runs;
    uint32_t n_runs, stored_rows;
    // What was found: words, scales, biases or a factor, NULL where there is none; or a plain matrix alone, with its
    // conversion.
    const struct checkpoint_tensor *parts[3];
    enum conversion conversion;
};
void loader_matrices(struct loader *loader, struct want *wants, size_t n);
// A tensor that nobody has asked for, and that is no routed expert's, is a failure.
void loader_refuse_others(struct loader *loader);
// Reads everything. Progress may be NULL.
int loader_read(struct loader *loader, moe_progress_fn *progress, void *context);
void loader_end(struct loader *loader);

#endif
