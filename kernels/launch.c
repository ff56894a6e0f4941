// SPDX-License-Identifier: GPL-3.0-or-later
// The table of kernels, made of rows.h, and the one launcher.
#include "kernels/launch.h"

#include <string.h>

#include "kernels/device.h"

#define ROW_INFO(id, name, args, last, n_buffers, cpu, gpu, uses)                                                      \
    [KERNEL_##id] = {#name, sizeof(struct args), n_buffers, {cpu, gpu}, uses},
static const struct kernel_info kernels[KERNEL_COUNT] = {KERNEL_ROWS(ROW_INFO)};

#define ROW_BUFFERS_FIT(id, name, args, last, n_buffers, ...)                                                          \
    _Static_assert(n_buffers <= MAX_KERNEL_BUFFERS, "kernel " #name " has more buffers than a launch");
KERNEL_ROWS(ROW_BUFFERS_FIT)

const struct kernel_info *kernel_info(enum kernel_id id)
{
    return &kernels[id];
}

size_t kernel_group(const gpu *g, enum kernel_id id)
{
    return id >= KERNEL_ATTENTION_TILES_MMA && !g->has_mma ? 0 : kernels[id].group[g->cpu_shape ? 0 : 1];
}

// What a kernel's _call takes (prelude.cl): its arguments, the tiling, and where its buffers are.
enum { MOST_CALL_BYTES = 1024 };
#define ROW_CALL_FITS(id, name, args, last, n_buffers, ...)                                                            \
    _Static_assert(sizeof(struct args) + sizeof(struct tiling) + 8 * (n_buffers + 1) <= MOST_CALL_BYTES,               \
                   "kernel " #name "'s call has room");
KERNEL_ROWS(ROW_CALL_FITS)

static cl_int set_call(cl_kernel kernel, const struct kernel_info *k, const struct launch *l)
{
    unsigned char call[MOST_CALL_BYTES];
    uint64_t place;
    size_t at = k->args_bytes;
    memcpy(call, l->args, at);
    memcpy(call + at, &l->tiling, sizeof l->tiling);
    at += sizeof l->tiling;
    memset(call + at, 0, sizeof place);
    at = (at + sizeof place - 1) / sizeof place * sizeof place;
    for (unsigned i = 0; i < k->n_buffers; i++, at += sizeof place) {
        place = (uintptr_t)l->buffers[i]->host;
        memcpy(call + at, &place, sizeof place);
    }
    return clSetKernelArg(kernel, 0, at, call);
}

// The buffer, or where it lies, which is asked once.
static cl_int set_buffer(gpu *g, const struct program *program, cl_kernel kernel, cl_uint at, gpu_buf *buf)
{
    if (!program->by_address)
        return clSetKernelArg(kernel, at, sizeof buf->memory, &buf->memory);
    if (!buf->address && !gpu_address(g, buf->memory, &buf->address))
        return CL_INVALID_MEM_OBJECT;
    return clSetKernelArg(kernel, at, sizeof buf->address, &buf->address);
}

static cl_int set_arguments(gpu *g, const struct program *program, cl_kernel kernel, const struct launch *l)
{
    const struct kernel_info *k = &kernels[l->kernel];
    cl_int rc = clSetKernelArg(kernel, 0, k->args_bytes, l->args);
    if (rc == CL_SUCCESS)
        rc = clSetKernelArg(kernel, 1, sizeof l->tiling, &l->tiling);
    for (unsigned i = 0; i < k->n_buffers && rc == CL_SUCCESS; i++)
        rc = set_buffer(g, program, kernel, 2 + i, l->buffers[i]);
    return rc;
}

void launch(gpu *g, const struct launch *l)
{
    if (gpu_failed(g))
        return;
    const struct kernel_info *k = &kernels[l->kernel];
    const struct program *program = l->program ? l->program : &g->program;
    cl_kernel kernel = program->kernels[l->kernel];
    if (!kernel && !l->program && g->divided)
        kernel = program_open_late(g, l->kernel);
    bool calls = program->calls[l->kernel] && g->info.shares_host_memory;
    if (!kernel) {
        gpu_fail(g, GPU_ARGUMENT, 0, "kernel %s was not opened for its kind of matrices", k->name);
        return;
    }
    kernel = calls ? program->calls[l->kernel] : kernel;
    cl_int rc = calls ? set_call(kernel, k, l) : set_arguments(g, program, kernel, l);
    size_t local[3] = {kernel_group(g, l->kernel), 1, 1};
    size_t global[3];
    for (int i = 0; i < 3; i++)
        global[i] = local[i] * (l->groups[i] ? l->groups[i] : 1);
    cl_event event;
    if (rc == CL_SUCCESS)
        rc = clEnqueueNDRangeKernel(g->queue, kernel, 3, NULL, global, local, 0, NULL, g->profile ? &event : NULL);
    if (rc != CL_SUCCESS) {
        gpu_fail(g, GPU_LAUNCH, rc, "kernel %s: the driver of %s refused the launch", k->name, g->info.name);
        return;
    }
    g->counts.launches++;
    g->dirty = true;
    g->fenced = false;
    if (g->profile && !profile_add(g->profile, event, l->kernel))
        gpu_wait_for_all(g);
}
