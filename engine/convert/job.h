// SPDX-License-Identifier: GPL-3.0-or-later
// What a conversion will write, decided and checked before a byte of it is: every resident tensor's place in
// resident.safetensors, and every layer's experts.
#ifndef MOECHAT_ENGINE_CONVERT_JOB_H
#define MOECHAT_ENGINE_CONVERT_JOB_H

#include "engine/files/package.h"
#include "engine/files/source.h"

// A tensor of the resident file: one of the source as it is stored, or a part of a matrix.
struct job_tensor {
    char name[168];
    enum tensor_dtype dtype;
    uint32_t n_dims;
    uint64_t dims[TENSOR_DIMS];
    uint64_t offset, bytes;               // in the file
    const struct checkpoint_tensor *copy; // NULL: of `matrix`; with one dimension its only row, rounded to bf16
    struct source_matrix matrix;
    enum source_part part;
    struct quantisation how;
    bool exact; // the part is copied
};

struct job_matrix {
    struct quantisation how;
    bool exact;
    uint32_t kind; // of what is written
};

struct job_layer {
    struct expert_layout experts;       // blob_bytes 0: a dense layer
    const struct package_layer *direct; // of the source, whose arrays are copied as they are; NULL: made by `matrices`
    struct job_matrix matrices[3];
};

struct job {
    const struct checkpoint *from;
    const struct shape *shape;
    const struct package_layer *source_layers; // [n_layers] of a source that runs as it is; NULL: it doesn't
    uint32_t expert_bits, resident_bits;       // 0: as the source has it
    uint32_t group_size;                       // of what is quantised; 0: 64
    bool quantised_source;                     // MLX's: matrices that it left plain were left so on purpose
    struct job_tensor *tensors;                // [count], in the file's order
    size_t count;
    const char *resident_file; // resident.safetensors; of GGUF files resident.gguf, with all of their keys
    char *header;              // of that file, all in front of its data
    uint64_t header_bytes;
    uint64_t resident_bytes;  // of the file
    uint32_t version;         // of the package: 1 where that says it all
    struct job_layer *layers; // [n_layers]
    uint64_t bytes;           // of everything
    size_t n_routed;          // tensors that the experts are made of
    // For what is said to people.
    uint64_t n_copied, n_quantised, n_requantised; // matrices, an expert's counted for all of its layer
    uint64_t n_rounded;                            // norms that were not stored in bf16
};

// `job` has from, shape and bits set. On failure nothing is left allocated.
int job_make(struct job *job, struct moe_err *err);
void job_release(struct job *job);
// How the experts of a layer are stored, for people: "Q4_K, down Q6_K", "4 bits in groups of 64". `text` has 128 bytes.
void job_say_layer(const struct job_layer *layer, char text[128]);
// An expert's matrix (0 gate, 1 up, 2 down) in the source.
int job_expert(const struct job *job, uint32_t layer, uint32_t expert, uint32_t which, struct source_matrix *matrix,
               struct moe_err *err);

#endif
