// SPDX-License-Identifier: GPL-3.0-or-later
// Which kinds of matrices a model has, and for what: the device builds kernels for these alone.
#ifndef MOECHAT_ENGINE_MODEL_FORMATS_H
#define MOECHAT_ENGINE_MODEL_FORMATS_H

#include "engine/files/package.h"
#include "engine/walk/weights.h"
#include "kernels/gpu.h"

enum { MOST_FORMATS = KIND_COUNT * (SCALE_F32 + 1) };

struct formats {
    struct gpu_format items[MOST_FORMATS];
    unsigned n;
};

// Of the resident matrices, which may be loaded without a device, and the routed experts of all layers. USE_TOKEN: of
// at most two kinds, those with which most of a token's launches can be merged.
void formats_of(const struct package *package, const struct weights *weights, struct formats *formats);

#endif
