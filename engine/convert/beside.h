// SPDX-License-Identifier: GPL-3.0-or-later
// The small files beside a model's weights that a package takes along as they are: tokenizer, templates, license. A
// package is given away, and a downloaded folder may hold links: none of them may put a file of one's own into it.
#ifndef MOECHAT_ENGINE_CONVERT_BESIDE_H
#define MOECHAT_ENGINE_CONVERT_BESIDE_H

#include "engine/files/package.h"
#include "engine/moe.h"

enum { BESIDE_BYTES = 64 << 20 /* what tokenizers are read up to */, BESIDE_PIECE = 1 << 20 };

struct beside_file {
    int fd; // -1: nothing to copy, as it is not there, or is no regular file
    uint64_t bytes;
    const char *path; // the caller's, for messages
};

// Opens one for reading; the caller closes fd. A link may lead to another place of the folder, and from a snapshot of
// the hub's cache to that cache's blobs. MOE_FORMAT: it leads elsewhere, or the file is larger than BESIDE_BYTES; the
// rest as file_open, and what Git LFS has left in its place is MOE_NOT_FOUND: a package without it would be another
// model's.
int beside_open(const char *folder, const char *name, struct beside_file *file, struct moe_err *err);

// It is copied as it is, in pieces, as writer_chunks asks for them; the context is the struct beside_file.
uint64_t beside_offset(const void *context, uint64_t piece);
int beside_produce(const void *context, uint64_t piece, void *buffer, struct moe_err *err);

// Their names, the tokenizer's file and what goes with it; NULL ends them.
extern const char *const beside_names[];
// Does it go along with that source? Beside a GGUF may lie what another model's maker suggests, which the GGUF does not
// heed either.
bool beside_goes_along(const char *name, const struct package *source);
// Bytes of those that are in the folder and may be copied; source NULL: all of them go along.
uint64_t beside_bytes(const char *folder, const struct package *source);
// The folder that the model is, or that its first file is in.
enum { BESIDE_FOLDER_SIZE = 4300 };
void beside_folder(const struct package *package, char path[BESIDE_FOLDER_SIZE]);

#endif
