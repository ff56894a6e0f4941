// SPDX-License-Identifier: GPL-3.0-or-later
// A folder from the hub as an opened source of weights: which layout its weights have, and where its routed experts lie
// when they can be read as they are.
#ifndef MOECHAT_ENGINE_FILES_FOLDER_H
#define MOECHAT_ENGINE_FILES_FOLDER_H

#include "engine/files/checkpoint.h"
#include "engine/files/package.h"

// How a folder keeps its routed experts.
enum weight_layout {
    LAYOUT_PLAIN, // bf16, f16 or float32, a tensor each
    LAYOUT_FP8,   // DeepSeek's e4m3 with a scale for each block of 128 x 128
    LAYOUT_INT4,  // compressed-tensors, packed, symmetric
    LAYOUT_MXFP4, // the same of mxfp4, as Kimi K3 has it
    LAYOUT_MLX,   // affine, all experts of a layer in one tensor
};

// By the first MoE layer's first expert. MOE_UNSUPPORTED names what it has instead.
int folder_layout(const struct checkpoint *checkpoint, enum weight_layout *layout, struct moe_err *err);
// For people: "bf16 checkpoint".
const char *folder_layout_name(const struct checkpoint *checkpoint, enum weight_layout layout);

bool folder_is_one(const char *directory); // it has a config.json

// Opens package->directory (zeroed otherwise). On failure nothing is left allocated.
int folder_open(struct package *package, struct moe_err *err);

// What config.json's "quantization" says of a matrix: mode, bits and group size of its own or for all. MOE_UNSUPPORTED
// for modes other than affine, mxfp4, nvfp4 and mxfp8.
struct declared {
    bool known;    // there is such a declaration
    bool plain;    // the matrix is said not to be quantised
    uint32_t kind; // of an fp mode; KIND_NONE: affine
    uint32_t bits, group_size;
};
int folder_declared(const struct checkpoint *checkpoint, const char *stem, struct declared *declared,
                    struct moe_err *err);

#endif
