// SPDX-License-Identifier: GPL-3.0-or-later
// What bounds the rest: copies to the device from page-locked memory, and the device's own.
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/model/model.h"

enum { COPIES_AT_ONCE = 8 }; // pieces

int moe_model_measure_copies(moe_model *model, double seconds, double *bytes_per_s, struct moe_err *err)
{
    gpu *g = model->gpu;
    uint64_t piece = package_slot_bytes(&model->package), done = 0;
    uint64_t numbers[COPIES_AT_ONCE] = {0};
    struct gpu_error device;
    *bytes_per_s = 0;
    if (gpu_describe(g)->shares_host_memory || gpu_describe(g)->maps_host_memory)
        return MOE_OK;
    gpu_buf *to = gpu_buf_new(g, piece, &device);
    char *from = to ? gpu_host_alloc(g, COPIES_AT_ONCE * piece, &device) : NULL;
    if (!from) {
        gpu_buf_free(to);
        return moe_fail_gpu(err, &device);
    }
    uint64_t began = clock_ns(), until = began + (uint64_t)(seconds * 1e9);
    for (; clock_ns() < until && !gpu_failed(g); done++) {
        uint64_t *number = &numbers[done % COPIES_AT_ONCE];
        gpu_copy_wait(g, *number);
        *number = gpu_copy(g, to, 0, from + done % COPIES_AT_ONCE * piece, piece);
    }
    for (int i = 0; i < COPIES_AT_ONCE; i++)
        gpu_copy_wait(g, numbers[i]);
    *bytes_per_s = (double)(done * piece) * 1e9 / (double)(clock_ns() - began);
    gpu_host_free(g, from);
    gpu_buf_free(to);
    return gpu_check(g, &device) ? moe_fail_gpu(err, &device) : MOE_OK;
}

// Far more than any cache holds; a GPU's must also last longer than a launch.
enum { DEVICE_BYTES = 256 << 20, DEVICE_BYTES_GPU = 1 << 30, ROUNDS = 4, REPEATS = 4 };

double moe_model_measure_device(moe_model *model)
{
    gpu *g = model->gpu;
    const struct gpu_info *info = gpu_describe(g);
    struct gpu_error none;
    uint64_t bytes = info->kind == GPU_KIND_GPU ? DEVICE_BYTES_GPU : DEVICE_BYTES;
    if (bytes > info->max_alloc_bytes / 8)
        bytes = info->max_alloc_bytes / 8;
    struct args_copy args = {.bytes = bytes / 64 * 64};
    gpu_buf *from = gpu_buf_new(g, args.bytes, &none), *to = from ? gpu_buf_new(g, args.bytes, &none) : NULL;
    double best = 0;
    for (int round = 0; round < ROUNDS && to; round++) {
        uint64_t began = clock_ns();
        for (int i = 0; i < REPEATS; i++) // in a row, so that waiting for the device counts once
            gpu_op_copy(g, &args, from, to);
        if (gpu_finish(g, &none))
            break;
        double rate = (double)(REPEATS * 2 * args.bytes) * 1e9 / (double)(clock_ns() - began);
        if (round > 0 && rate > best) // the first touches the memory
            best = rate;
    }
    gpu_buf_free(from);
    gpu_buf_free(to);
    return best;
}
