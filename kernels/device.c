// SPDX-License-Identifier: GPL-3.0-or-later
// Devices: what there is, which one a selector names, what is peculiar about it.
#include "kernels/device.h"
#include "kernels/binary_cache.h"
#include "kernels/helpers.h"

#include <CL/cl_ext.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <strings.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MAX_PLATFORMS = 16, MAX_DEVICES = 64, GROUPS_THAT_MEET = 2 }; // the last for each unit

struct found_device {
    cl_platform_id platform;
    cl_device_id device;
};

struct found {
    struct found_device items[MAX_DEVICES];
    unsigned n;
};

void gpu_error_set(struct gpu_error *err, enum gpu_code code, int native, const char *format, ...)
{
    if (!err)
        return;
    va_list list;
    va_start(list, format);
    err->code = code;
    err->native = native;
    vsnprintf(err->text, sizeof err->text, format, list);
    va_end(list);
}

void gpu_fail(gpu *g, enum gpu_code code, int native, const char *format, ...)
{
    if (gpu_failed(g))
        return;
    va_list list;
    va_start(list, format);
    g->error.code = code;
    g->error.native = native;
    vsnprintf(g->error.text, sizeof g->error.text, format, list);
    va_end(list);
}

bool gpu_failed(const gpu *g)
{
    return g->error.code != GPU_OK;
}

// All devices, in the drivers' order. Threads that a driver starts here must not take signals meant for the program.
static void find_devices(struct found *found)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    cl_platform_id platforms[MAX_PLATFORMS];
    cl_uint n_platforms = 0;
    found->n = 0;
    if (clGetPlatformIDs(MAX_PLATFORMS, platforms, &n_platforms) != CL_SUCCESS)
        n_platforms = 0;
    for (cl_uint p = 0; p < n_platforms && p < MAX_PLATFORMS; p++) {
        cl_device_id devices[MAX_DEVICES];
        cl_uint n = 0;
        if (clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, MAX_DEVICES, devices, &n) != CL_SUCCESS)
            continue;
        for (cl_uint d = 0; d < n && d < MAX_DEVICES && found->n < MAX_DEVICES; d++)
            found->items[found->n++] = (struct found_device){platforms[p], devices[d]};
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void describe_ref(struct gpu_info *info)
{
    *info = (struct gpu_info){.selector = "ref",
                              .name = "plain C on one thread",
                              .platform = "moechat",
                              .driver = "ref",
                              .kind = GPU_KIND_REF,
                              .shares_host_memory = true,
                              .compute_units = 1};
    info->global_bytes = info->max_alloc_bytes = memory_left("");
}

static void describe(const struct found *found, unsigned index, struct gpu_info *info)
{
    cl_device_id device = found->items[index].device;
    *info = (struct gpu_info){.kind = GPU_KIND_GPU};
    snprintf(info->selector, sizeof info->selector, "%u", index);
    // A string that does not fit fills nothing; the zeroes stay.
    clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof info->name, info->name, NULL);
    clGetPlatformInfo(found->items[index].platform, CL_PLATFORM_NAME, sizeof info->platform, info->platform, NULL);
    clGetDeviceInfo(device, CL_DRIVER_VERSION, sizeof info->driver, info->driver, NULL);
    info->name[sizeof info->name - 1] = info->platform[sizeof info->platform - 1] = 0;
    info->driver[sizeof info->driver - 1] = 0;
    cl_device_type type = 0;
    cl_ulong global = 0;
    cl_ulong most = 0;
    cl_ulong local = 0;
    cl_uint units = 0;
    clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof type, &type, NULL);
    clGetDeviceInfo(device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof global, &global, NULL);
    clGetDeviceInfo(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof most, &most, NULL);
    clGetDeviceInfo(device, CL_DEVICE_LOCAL_MEM_SIZE, sizeof local, &local, NULL);
    clGetDeviceInfo(device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL);
    info->global_bytes = global;
    info->max_alloc_bytes = most;
    info->local_bytes = local;
    info->compute_units = units;
    if (type & CL_DEVICE_TYPE_CPU) {
        info->kind = GPU_KIND_CPU;
        info->shares_host_memory = true; // buffers are made of host memory that we own
        info->global_bytes = memory_left("");
    } else {
        cl_bool unified = CL_FALSE;
        clGetDeviceInfo(device, CL_DEVICE_HOST_UNIFIED_MEMORY, sizeof unified, &unified, NULL);
        info->maps_host_memory = unified;
    }
}

unsigned gpu_list(struct gpu_info *infos, unsigned max)
{
    struct found found;
    find_devices(&found);
    if (max > 0)
        describe_ref(&infos[0]);
    for (unsigned i = 0; i < found.n && i + 1 < max; i++)
        describe(&found, i, &infos[i + 1]);
    return found.n + 1;
}

static bool contains(const char *text, const char *part)
{
    size_t n = strlen(part);
    for (; *text; text++)
        if (strncasecmp(text, part, n) == 0)
            return true;
    return false;
}

// The device that the selector names; found->n when there is none.
static unsigned pick(const struct found *found, const char *selector, struct gpu_info *info)
{
    static const enum gpu_kind by_preference[] = {GPU_KIND_GPU, GPU_KIND_CPU};
    bool any = !selector || !selector[0];
    for (int k = 0; k < 2; k++) {
        const char *kind = by_preference[k] == GPU_KIND_GPU ? "gpu" : "cpu";
        for (unsigned i = 0; i < found->n; i++) {
            describe(found, i, info);
            if (info->kind != by_preference[k])
                continue;
            if (any || strcasecmp(selector, kind) == 0 || strcmp(selector, info->selector) == 0)
                return i;
        }
    }
    bool number = !any && strspn(selector, "0123456789") == strlen(selector);
    for (unsigned i = 0; !any && !number && i < found->n; i++) {
        describe(found, i, info);
        if (contains(info->name, selector) || contains(info->platform, selector))
            return i;
    }
    return found->n;
}

static bool open_queue(gpu *g, bool profile, struct gpu_error *err)
{
    cl_int rc;
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)g->platform, 0};
    g->context = clCreateContext(properties, 1, &g->device, NULL, NULL, &rc);
    if (rc == CL_SUCCESS)
        g->queue = clCreateCommandQueue(g->context, g->device, profile ? CL_QUEUE_PROFILING_ENABLE : 0, &rc);
    if (rc != CL_SUCCESS)
        gpu_error_set(err, GPU_NO_DEVICE, rc, "device %s (%s): the driver gives no queue", g->info.selector,
                      g->info.name);
    return rc == CL_SUCCESS;
}

// Whether this process may have so much more: what PoCL and its compiler are, which say nothing when they may not.
static bool has_room_for_a_driver(void)
{
    enum { DRIVER_BYTES = 256 << 20 };
    void *room = mmap(NULL, DRIVER_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return false;
    munmap(room, DRIVER_BYTES);
    return true;
}

bool device_is_pocls(const struct gpu_info *info)
{
    return strstr(info->platform, "Portable Computing Language") != NULL;
}

static bool pick_device(gpu *g, const struct gpu_options *options, struct gpu_error *err)
{
    struct found found;
    errno = 0;
    find_devices(&found);
    if (found.n == 0 && (errno == ENOMEM || !has_room_for_a_driver())) { // a loader without memory finds no driver
        gpu_error_set(err, GPU_OUT_OF_MEMORY, 0, "no memory to load an OpenCL driver");
        return false;
    }
    unsigned index = pick(&found, options->selector, &g->info);
    if (found.n == 0) {
        gpu_error_set(err, GPU_NO_DEVICE, 0,
                      "no OpenCL device: install a driver (for the CPU: pocl-opencl-icd; it needs a writable "
                      "XDG_CACHE_HOME or POCL_CACHE_DIR) or use --device ref");
        return false;
    }
    if (index == found.n) {
        gpu_error_set(err, GPU_NO_DEVICE, 0, "no OpenCL device matches \"%s\"; `moechat devices` lists them",
                      options->selector);
        return false;
    }
    if (device_is_pocls(&g->info) && !driver_cache_is_ours(err))
        return false;
    g->platform = found.items[index].platform;
    g->device = found.items[index].device;
    return true;
}

// mma.sync on float16 with float32 sums, from Ampere on.
static bool has_tensor_cores(const gpu *g)
{
    cl_uint major = 0;
    return strstr(g->info.platform, "NVIDIA") &&
           clGetDeviceInfo(g->device, CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV, sizeof major, &major, NULL) ==
               CL_SUCCESS &&
           major >= 8;
}

// PoCL's CPU, unless it is another machine's, with which it can share no memory as finely.
static bool runs_in_this_process(const gpu *g)
{
    enum { SVM_CAPABILITIES = 0x1053, SVM_FINE_GRAIN_BUFFER = 2 }; // of OpenCL 2
    cl_bitfield svm = 0;
    return g->info.kind == GPU_KIND_CPU && device_is_pocls(&g->info) &&
           clGetDeviceInfo(g->device, SVM_CAPABILITIES, sizeof svm, &svm, NULL) == CL_SUCCESS &&
           svm & SVM_FINE_GRAIN_BUFFER;
}

// What kernels are built for it, and where they are kept.
static void choose_kernels(gpu *g, const struct gpu_options *options, enum gpu_shape shape)
{
    if (shape != GPU_SHAPE_OF_DEVICE) {
        g->info.shares_host_memory = shape == GPU_SHAPE_CPU;
        g->info.maps_host_memory = false;
    }
    if (options->map && g->info.shares_host_memory) {
        g->info.shares_host_memory = false;
        g->info.maps_host_memory = true;
    }
    g->shape = shape;
    g->cpu_shape = shape == GPU_SHAPE_OF_DEVICE ? g->info.kind == GPU_KIND_CPU : shape == GPU_SHAPE_CPU;
    g->calls = g->cpu_shape && g->info.shares_host_memory && !options->apart && runs_in_this_process(g);
    g->warm_late = options->warm_late;
    g->always_cache = options->always_cache;
    g->opened_mapping = options->map;
    g->opened_apart = options->apart;
    g->mixers = options->mixers;
    g->has_mma = !g->cpu_shape && (options->refuse_mma || has_tensor_cores(g));
    g->divided = g->has_mma || options->divide;
    g->helper = options->helper;
    if (options->cache_dir && (!driver_keeps(g) || options->always_cache))
        g->cache_folder = strdup(options->cache_dir); // NULL: done without
    if (!g->helper)
        cache_tidy(g->cache_folder);
}

gpu *gpu_open_bare(const struct gpu_options *options, enum gpu_shape shape, struct gpu_error *err)
{
    gpu *g = calloc(1, sizeof *g);
    if (!g) {
        gpu_error_set(err, GPU_OUT_OF_MEMORY, 0, "no memory for a device");
        return NULL;
    }
    if (options->selector && strcmp(options->selector, "ref") == 0) {
        describe_ref(&g->info);
        return g;
    }
    // Threads that a CPU driver starts inherit the nice value; that this thread keeps it too is what the caller wants.
    if (options->nice_value)
        setpriority(PRIO_PROCESS, 0, options->nice_value);
    if (!pick_device(g, options, err))
        goto free_gpu;
    choose_kernels(g, options, shape);
    jobs_begin(g, options); // beside what follows
    if (!open_queue(g, options->profile, err))
        goto free_gpu;
#ifdef M_MXFAST
    // PoCL frees in one thread what it has allocated in another: let small blocks join at once.
    if (g->info.kind == GPU_KIND_CPU)
        mallopt(M_MXFAST, 0);
#endif
    gpu_open_addresses(g);
    return g;
free_gpu:
    gpu_close(g);
    return NULL;
}

gpu *gpu_open_shape(const struct gpu_options *options, enum gpu_shape shape, struct gpu_error *err)
{
    gpu *g = gpu_open_bare(options, shape, err);
    if (!g || g->info.kind == GPU_KIND_REF)
        return g;
    if (!program_open(g, options, err)) {
        gpu_close(g);
        return NULL;
    }
    gpu_prove_sharing(g);
    gpu_prove_meeting(g, GROUPS_THAT_MEET);
    if (options->profile)
        g->profile = calloc(1, sizeof *g->profile); // from here on; without memory there is none
    return g;
}

gpu *gpu_open(const struct gpu_options *options, struct gpu_error *err)
{
    return gpu_open_shape(options, GPU_SHAPE_OF_DEVICE, err);
}

void gpu_close(gpu *g)
{
    if (!g)
        return;
    helpers_release(g->helpers);
    if (g->queue)
        clFinish(g->queue);
    gpu_release_all(g);
    free(g->profile);
    programs_close(g);
    gpu_release_addresses(g);
    if (g->queue)
        clReleaseCommandQueue(g->queue);
    if (g->context)
        clReleaseContext(g->context);
    free(g);
}

const struct gpu_info *gpu_describe(const gpu *g)
{
    return &g->info;
}

const char *gpu_notice(const gpu *g)
{
    return g->notice;
}
