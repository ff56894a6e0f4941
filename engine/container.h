// SPDX-License-Identifier: GPL-3.0-or-later
// A package's manifest, model.json (moechat-model(5)), read and checked. Every file it names is proved to be inside the
// package folder, to exist and to have the size that it should.
#ifndef MOECHAT_CONTAINER_H
#define MOECHAT_CONTAINER_H

#include "args.h"
#include "shape.h"

struct package_layer {
    char file[64]; // name inside the package
    char sha256[65];
    uint64_t bytes;
};

struct package {
    char directory[4096];
    char name[64];
    char template_name[64];
    char tokenizer_type[32];
    char tokenizer_file[64];
    char tokenizer_sha256[65];
    uint64_t tokenizer_bytes;
    char fingerprint[65];
    struct package_layer resident;
    struct shape shape;
    // One expert's blob: gate, up, down with offsets relative to its start. All layers are alike.
    struct args_matrix gate, up, down;
    uint64_t blob_bytes;
    struct package_layer *layers; // [n_layers], file "" for dense ones; owned
};

// Reads directory/model.json. On failure nothing is left allocated.
int package_open(const char *directory, struct package *package, struct moe_err *err);
void package_release(struct package *package);
// What moe.h says of a package; tensors are not looked at.
void package_describe(const struct package *package, struct moe_description *description);
// Full path of a file of the package into path[4200].
void package_path(const struct package *package, const char *file, char path[4200]);
// Parses manifest text alone (no file is touched): the fuzz target's way in. package->directory, for messages, is the
// caller's.
int package_parse(const char *text, size_t length, struct package *package, struct moe_err *err);

// bits and group_size of a matrix whose in_dim is set, from the columns of its u32 words and of its scales. False when
// they are not 4 or 8 bits in groups of 32, 64 or 128.
bool package_quantisation(struct args_matrix *matrix, uint64_t word_cols, uint64_t scale_cols);

#endif
