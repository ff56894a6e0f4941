// SPDX-License-Identifier: GPL-3.0-or-later
// Where the spans of an expert go in its slot.
//
// A direct read (O_DIRECT) moves whole blocks of a file to memory that has the same place in its block. So a span whose
// bytes are a multiple of 4096 (then each expert's has the same offset mod 4096) is placed congruent to its offset mod
// 4096, and the pages that it touches in the slot are its own: a read of the whole blocks around it goes straight
// there, and its neighbours' bytes in the file land beside it. It costs less than a page more. Other spans are packed,
// and come there through the readers' bounce buffers. Numbers only.
#ifndef MOECHAT_ENGINE_FILES_SPANS_H
#define MOECHAT_ENGINE_FILES_SPANS_H

#include "engine/files/package.h"

enum { SPANS_PAGE = 4096 };

// Of a layer whose spans[0..n_spans) have file, offset and bytes (each at most 2^44): sets their `at`, in their order,
// a multiple of `alignment` (a power of two, at most 4096: what kernels want of a matrix; 32 for GGUF), and own_pages,
// and experts.blob_bytes. A span whose offset is no such multiple is packed.
void spans_place(struct package_layer *layer, uint32_t alignment);
// What an expert of the layer takes in its files: its slot has some room besides.
uint64_t spans_bytes(const struct package_layer *layer);

#endif
