// SPDX-License-Identifier: GPL-3.0-or-later
// The one launcher: kernels by name, their argument struct, their buffers, the number of work-groups.
#ifndef MOECHAT_LAUNCH_H
#define MOECHAT_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/gpu.h"
#include "kernels/tiling.h"

enum kernel_id {
    KERNEL_EMBED,
    KERNEL_RMSNORM,
    KERNEL_ROPE,
    KERNEL_KV_APPEND,
    KERNEL_GATHER,
    KERNEL_SCATTER_ADD,
    KERNEL_COMBINE,
    KERNEL_COMBINE_NORM,
    KERNEL_COPY,
    KERNEL_ROUTER,
    KERNEL_MATVEC,
    KERNEL_SWIGLU_VEC,
    KERNEL_SWIGLU_EXPERTS,
    KERNEL_MATVEC_EXPERTS,
    KERNEL_Q_PRIME,
    KERNEL_HEADS,
    KERNEL_MATMUL,     // CPU shape only
    KERNEL_MATMUL_2_4, // GPU shape only, as what follows: products for tiles of 8 times so many tokens, outputs
    KERNEL_MATMUL_4_4,
    KERNEL_MATMUL_8_8,
    KERNEL_SWIGLU_2_4,
    KERNEL_SWIGLU_4_4,
    KERNEL_SWIGLU_8_8,
    KERNEL_HEADS_ROWS,
    KERNEL_Q_PRIME_ROWS,
    KERNEL_ATTENTION_TILES,
    KERNEL_ATTENTION_MERGE,
    KERNEL_ATTENTION_PREFILL,
    KERNEL_PACK,       // CPU shape only
    KERNEL_SWIGLU_MAT, // CPU shape only
    KERNEL_COUNT
};

enum { MAX_KERNEL_BUFFERS = 5 };

struct kernel_info {
    const char *name;
    size_t args_bytes;
    unsigned n_buffers;
    size_t group[2]; // work-items of a group in the CPU and the GPU shape; 0: that shape has no such kernel
};

const struct kernel_info *kernel_info(enum kernel_id id);
size_t kernel_group(const gpu *g, enum kernel_id id);

struct launch {
    enum kernel_id kernel;
    const void *args; // the op's struct
    struct tiling tiling;
    gpu_buf *buffers[MAX_KERNEL_BUFFERS];
    size_t groups[3]; // 0 counts as 1
};

// Enqueues; a failure becomes the sticky error. Does nothing while one is kept.
void launch(gpu *g, const struct launch *l);

#endif
