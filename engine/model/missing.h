// SPDX-License-Identifier: GPL-3.0-or-later
// What of a model's weights is not here, of a download that is under way or was cut: which of its files, and how much
// of each. By the names that the files give each other and by their headers; no weights are read.
#ifndef MOECHAT_ENGINE_MODEL_MISSING_H
#define MOECHAT_ENGINE_MODEL_MISSING_H

#include "engine/moe.h"

struct missing {
    uint32_t n_files, n_here, n_whole; // of weights, as far as they are known; n_files 0: they are not
    char text[320];                    // in words, "": nothing, or not known
};

// `file` is a GGUF or any part of a split one.
void missing_of_gguf(const char *file, struct missing *missing);
// A folder's safetensors: those that its index names, or that are numbered, or else those in it.
void missing_of_folder(const char *folder, struct missing *missing);

#endif
