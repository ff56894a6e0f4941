// SPDX-License-Identifier: GPL-3.0-or-later
// The one launcher: kernels by name, their argument struct, their buffers, the number of work-groups.
#ifndef MOECHAT_LAUNCH_H
#define MOECHAT_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/gpu.h"
#include "kernels/rows.h"

#define ROW_ID(id, ...) KERNEL_##id,
enum kernel_id { KERNEL_ROWS(ROW_ID) KERNEL_COUNT };
#undef ROW_ID

struct kernel_info {
    const char *name;
    size_t args_bytes;
    unsigned n_buffers;
    size_t group[2]; // work-items of a group in the CPU and the GPU shape; 0: that shape has no such kernel
    unsigned uses;   // programs of single kinds have it for them
};

const struct kernel_info *kernel_info(enum kernel_id id);
size_t kernel_group(const gpu *g, enum kernel_id id);

struct program;

struct launch {
    enum kernel_id kernel;
    const struct program *program; // NULL: that of all ops
    const void *args;              // the op's struct
    struct tiling tiling;
    gpu_buf *buffers[MAX_KERNEL_BUFFERS];
    size_t groups[3]; // 0 counts as 1
};

// Enqueues; a failure becomes the sticky error. Does nothing while one is kept.
void launch(gpu *g, const struct launch *l);

#endif
