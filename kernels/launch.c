// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/launch.h"

#include "kernels/device.h"

// clang-format off
static const struct kernel_info kernels[KERNEL_COUNT] = {
    [KERNEL_EMBED]             = {"embed", sizeof(struct args_embed), 3, {ELEMENTS_GROUP, ELEMENTS_GROUP}},
    [KERNEL_RMSNORM]           = {"rmsnorm", sizeof(struct args_rmsnorm), 3, {1, NORM_LANES}},
    [KERNEL_ROPE]              = {"rope", sizeof(struct args_rope), 2, {32, 32}},
    [KERNEL_KV_APPEND]         = {"kv_append", sizeof(struct args_kv_append), 4, {1, NORM_LANES}},
    [KERNEL_GATHER]            = {"gather", sizeof(struct args_gather), 3, {1, ELEMENTS_GROUP}},
    [KERNEL_SCATTER_ADD]       = {"scatter_add", sizeof(struct args_gather), 4, {1, ELEMENTS_GROUP}},
    [KERNEL_COMBINE]           = {"combine", sizeof(struct args_combine), 3, {ELEMENTS_GROUP, ELEMENTS_GROUP}},
    [KERNEL_COMBINE_NORM]      = {"combine_norm", sizeof(struct args_combine_norm), 5, {1, NORM_LANES}},
    [KERNEL_COPY]              = {"copy", sizeof(struct args_copy), 2, {ELEMENTS_GROUP, ELEMENTS_GROUP}},
    [KERNEL_ROUTER]            = {"router", sizeof(struct args_router), 4, {1, ROUTER_LANES}},
    [KERNEL_MATVEC]            = {"matvec", sizeof(struct args_matmul), 4, {1, TEAM * TEAMS}},
    [KERNEL_SWIGLU_VEC]        = {"swiglu_vec", sizeof(struct args_swiglu), 4, {1, TEAM * TEAMS}},
    [KERNEL_SWIGLU_EXPERTS]    = {"swiglu_experts", sizeof(struct args_swiglu_experts), 5, {1, TEAM * TEAMS}},
    [KERNEL_MATVEC_EXPERTS]    = {"matvec_experts", sizeof(struct args_matvec_experts), 5, {1, TEAM * TEAMS}},
    [KERNEL_Q_PRIME]           = {"q_prime", sizeof(struct args_kv_b), 4, {1, Q_WORDS * Q_PARTS}},
    [KERNEL_HEADS]             = {"heads", sizeof(struct args_heads), 4, {1, TEAM * TEAMS}},
    [KERNEL_MATMUL]            = {"matmul", sizeof(struct args_matmul), 3, {1, 0}},
    [KERNEL_MATMUL_2_4]        = {"matmul_2_4", sizeof(struct args_matmul_each), 3, {0, MATMUL_ITEMS}},
    [KERNEL_MATMUL_4_4]        = {"matmul_4_4", sizeof(struct args_matmul_each), 3, {0, MATMUL_ITEMS}},
    [KERNEL_MATMUL_8_8]        = {"matmul_8_8", sizeof(struct args_matmul_each), 3, {0, MATMUL_ITEMS}},
    [KERNEL_SWIGLU_2_4]        = {"swiglu_2_4", sizeof(struct args_swiglu_each), 3, {0, MATMUL_ITEMS}},
    [KERNEL_SWIGLU_4_4]        = {"swiglu_4_4", sizeof(struct args_swiglu_each), 3, {0, MATMUL_ITEMS}},
    [KERNEL_SWIGLU_8_8]        = {"swiglu_8_8", sizeof(struct args_swiglu_each), 3, {0, MATMUL_ITEMS}},
    [KERNEL_HEADS_ROWS]        = {"heads_rows", sizeof(struct args_heads), 3, {0, MATMUL_ITEMS}},
    [KERNEL_Q_PRIME_ROWS]      = {"q_prime_rows", sizeof(struct args_kv_b), 3, {0, MATMUL_ITEMS}},
    [KERNEL_ATTENTION_TILES]   = {"attention_tiles", sizeof(struct args_attention), 4, {1, 128}},
    [KERNEL_ATTENTION_MERGE]   = {"attention_merge", sizeof(struct args_attention), 2, {1, ELEMENTS_GROUP}},
    [KERNEL_ATTENTION_PREFILL] = {"attention_prefill", sizeof(struct args_attention), 5, {1, PREFILL_ITEMS}},
    [KERNEL_PACK]              = {"pack", sizeof(struct args_matmul), 2, {1, 0}},
    [KERNEL_SWIGLU_MAT]        = {"swiglu_mat", sizeof(struct args_swiglu), 3, {1, 0}},
};
// clang-format on

const struct kernel_info *kernel_info(enum kernel_id id)
{
    return &kernels[id];
}

size_t kernel_group(const gpu *g, enum kernel_id id)
{
    return kernels[id].group[g->cpu_shape ? 0 : 1];
}

void launch(gpu *g, const struct launch *l)
{
    if (gpu_failed(g))
        return;
    const struct kernel_info *k = &kernels[l->kernel];
    cl_kernel kernel = g->kernels[l->kernel];
    cl_int rc = clSetKernelArg(kernel, 0, k->args_bytes, l->args);
    rc |= clSetKernelArg(kernel, 1, sizeof l->tiling, &l->tiling);
    for (unsigned i = 0; i < k->n_buffers; i++)
        rc |= clSetKernelArg(kernel, 2 + i, sizeof(cl_mem), &l->buffers[i]->memory);
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
