// SPDX-License-Identifier: GPL-3.0-or-later
// How many bits a weight will take of a model whose weights are not here: by what its config.json declares, or the
// beginning of its GGUF file.
#ifndef MOECHAT_ENGINE_MODEL_FORESEE_BITS_H
#define MOECHAT_ENGINE_MODEL_FORESEE_BITS_H

#include "engine/files/gguf_set.h"
#include "engine/files/shape.h"

// Bits a weight with its part of scales, and where they are known from, in words that go on from a size: "as moechat
// convert makes them of bf16", "a guess from ...".
struct foreseen_bits {
    double experts, embedding, rest; // embedding: the head, too
    double delicate;                 // routers, and the small matrices that convert leaves as they are
    bool guessed;
    char from[96];
};

// By "quantization" (MLX) or "quantization_config" of a config.json, `file` for messages. Matrices outside the experts
// and the embedding count as most do. MOE_UNSUPPORTED, MOE_FORMAT: "quantization" is not one that moechat computes
// with.
int foresee_bits_config(struct json_object *config, const char *file, const struct shape *shape,
                        struct foreseen_bits *bits, struct moe_err *err);

// Of experts that moechat convert makes of what is not quantised: 4 bits, with a scale and a bias for each 64.
#define FORESEE_BITS_CONVERTED 4.5

// What a name says of a GGUF file's quantisation into `mix`, "Q4_K_M"; "": nothing, and 0 bits.
double foresee_bits_name(const char *name, char mix[16]);

// By the tensors that are listed, else general.file_type, else the file's name.
void foresee_bits_gguf(const struct gguf_set *set, const char *name, struct foreseen_bits *bits);

#endif
