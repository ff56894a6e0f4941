// SPDX-License-Identifier: GPL-3.0-or-later
// An opened source of weights: a package's manifest, model.json (moechat-model(5)), read and checked. Every file it
// names is proved to be inside the package folder, to exist and to have the size that it should.
#ifndef MOECHAT_ENGINE_FILES_PACKAGE_H
#define MOECHAT_ENGINE_FILES_PACKAGE_H

#include "kernels/args.h"
#include "engine/files/shape.h"
#include "engine/files/tensor_file.h"

// One expert in its slot, whatever it was read from: gate, up and down with offsets relative to the slot's start.
struct expert_layout {
    struct args_matrix gate, up, down;
    uint64_t blob_bytes; // a multiple of 4096, not less than where the last part ends, nor the pages of the last span
};

// A piece of an expert in a file, and where it goes in the slot. A package's expert is one span at 0, offset and bytes
// multiples of 4096; a folder's six or nine and a GGUF's two or three, or twice as many with factors, lie anywhere, and
// spans_place says where they go.
enum { MAX_EXPERT_SPANS = 9 };
struct expert_span {
    uint32_t file;   // index of package->files
    uint64_t offset; // in the file
    uint64_t bytes;
    uint64_t at;    // offset in the slot: a multiple of 64 in packages and folders, of 32 in a GGUF
    bool own_pages; // `at` is congruent to the offset mod 4096, of each expert, and no other span touches its pages of
                    // the slot: reads may fill them whole
};

struct package_file {
    char *path; // owned
    uint64_t bytes;
    char sha256[65]; // "": none is known
};

struct package_layer {
    struct expert_layout experts;
    uint32_t n_spans;                           // 0: a dense layer
    struct expert_span spans[MAX_EXPERT_SPANS]; // of expert 0; each next expert's lie `bytes` further
};

// FOLDER_MLX: a folder from the hub whose experts are read where they are. FOLDER_SOURCE: one that must be converted:
// described, but without layers and files. GGUF_FILES: one or the parts of one, read where they are.
enum package_kind { PACKAGE, FOLDER_MLX, FOLDER_SOURCE, GGUF_FILES };

struct checkpoint;

#define PACKAGE_NAME 64 // with its end

struct package {
    enum package_kind kind;
    struct checkpoint *checkpoint; // of a folder or GGUF files, owned; NULL in a package
    char directory[4096];          // as it was named; of GGUF files it may be a file
    char layout[32];               // of what is no package, for people: "bf16 checkpoint"
    char name[PACKAGE_NAME];
    char template_name[64];
    char tokenizer_type[32];
    struct moe_suggestion suggestion;
    struct package_file tokenizer; // path NULL: none
    char fingerprint[65];          // what conversations are bound to
    char fingerprint_once[65];     // and were by older programs, of a package the manifest's; "": the same
    struct package_file resident;
    bool resident_is_gguf; // of a package that was a GGUF; else it is safetensors
    struct shape shape;
    struct package_layer *layers; // [n_layers]; owned
    struct package_file *files;   // [n_files], where the experts are; owned
    uint32_t n_files;
};

// Reads directory/model.json, or, where there is none, GGUF files (gguf_model.h) or a folder from the hub (folder.h).
// On failure nothing is left allocated.
int package_open(const char *directory, struct package *package, struct moe_err *err);
// Whether a folder is a package, or one that convert was stopped in, or what is left of one without its manifest:
// whatever it lacks, it is no download.
bool package_is_one(const char *directory);
void package_release(struct package *package);
// What moe.h says of it, for which the headers of its tensors are read.
// What follows from the shape alone.
void description_of_shape(const struct shape *shape, struct moe_description *description);
int package_describe(const struct package *package, struct moe_description *description, struct moe_err *err);
// Parses manifest text alone (no file is touched): the fuzz target's way in. package->directory is the caller's.
int package_parse(const char *text, size_t length, struct package *package, struct moe_err *err);

// A package's resident tensors, their headers read; the caller releases the checkpoint.
int package_open_resident(const struct package *package, struct checkpoint *checkpoint, struct moe_err *err);

// The arrays that a layout is made of, in its order: of gate, up and down, each its weight, scales and biases, as far
// as its kind has them.
enum expert_array { ARRAY_WEIGHT, ARRAY_SCALES, ARRAY_BIASES, ARRAY_FACTOR };
struct expert_part {
    const struct args_matrix *matrix; // of the layout
    uint32_t projection;              // 0 gate, 1 up, 2 down
    enum expert_array array;
    uint64_t offset, bytes; // in the slot
};
enum { MAX_EXPERT_PARTS = 9 };
uint32_t package_parts(const struct expert_layout *experts, struct expert_part parts[MAX_EXPERT_PARTS]);

// Of a MoE layer.
const struct expert_layout *package_experts(const struct package *package, uint32_t layer);
uint64_t package_slot_bytes(const struct package *package); // of the largest expert
// Where an expert of a MoE layer is; returns how many spans that takes.
uint32_t package_spans(const struct package *package, uint32_t layer, uint32_t expert,
                       struct expert_span spans[MAX_EXPERT_SPANS]);

// kind and group_size of a matrix whose dimensions are set, from the columns of its u32 words and of its scales. False
// when they are not 2, 3, 4, 5, 6 or 8 bits in groups of 32, 64 or 128.
bool package_quantisation(struct args_matrix *matrix, uint64_t word_cols, uint64_t scale_cols);
// The same with scales of a byte: mxfp4, nvfp4 or mxfp8.
bool package_fp_quantisation(struct args_matrix *matrix, uint64_t word_cols, uint64_t scale_cols);
// The scale_type of scales and biases that are stored so: MLX keeps them in the model's own dtype. False: none.
bool package_scale_type(enum tensor_dtype dtype, uint32_t *scale_type);

#endif
