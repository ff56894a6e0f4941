// SPDX-License-Identifier: GPL-3.0-or-later
// The kernels' program: built from the embedded sources or taken from the cache, proved, warmed up.
//
// The cache holds one file a program: a header, then the driver's binary. Its name is a hash of all that the binary
// depends on: sources, options, device, driver, platform. It is written beside and renamed, so a reader sees all or
// nothing; whatever is wrong with a file only costs a build. A driver that keeps its own is left to it.
#include "kernels/device.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern const char kernels_text[]; // by embed.sh
extern const size_t kernels_text_bytes;

enum { MAX_BINARY_BYTES = 256 << 20 };

struct cache_header {
    char magic[16];
    uint64_t key;
    uint64_t bytes;
    uint64_t checksum;
};

static const char cache_magic[16] = "moechat kernel1";

enum { HASH_START = 1469 };

static uint64_t hash(uint64_t h, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < bytes; i++)
        h = (h ^ p[i]) * 1099511628211u;
    return h;
}

static void build_options(const gpu *g, char *options, size_t bytes)
{
    // No warnings: a compiler in our process may print them over the screen, as PoCL's does of loops it can't unroll.
    snprintf(options, bytes, "-cl-std=CL1.2 -w -DSHAPE_CPU=%d -DNVIDIA_MMA=%d", g->cpu_shape, g->has_mma);
}

static uint64_t cache_key(const gpu *g, const char *options)
{
    char version[256] = "";
    char device_version[256] = "";
    clGetPlatformInfo(g->platform, CL_PLATFORM_VERSION, sizeof version - 1, version, NULL);
    clGetDeviceInfo(g->device, CL_DEVICE_VERSION, sizeof device_version - 1, device_version, NULL);
    const char *const parts[] = {options, g->info.name, g->info.driver, g->info.platform, version, device_version};
    uint64_t key = hash(HASH_START, kernels_text, kernels_text_bytes);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        key = hash(key, parts[i], strlen(parts[i]) + 1);
    return key;
}

static bool cache_path(const char *folder, uint64_t key, const char *suffix, char *path, size_t bytes)
{
    int n = snprintf(path, bytes, "%s/kernels-%016llx%s", folder, (unsigned long long)key, suffix);
    return n > 0 && (size_t)n < bytes;
}

// The binary in the cache, or NULL.
static unsigned char *cache_load(const char *folder, uint64_t key, size_t *bytes)
{
    char path[1024];
    if (!folder || !cache_path(folder, key, ".bin", path, sizeof path))
        return NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe in its place must not make us wait
    FILE *file = fd >= 0 ? fdopen(fd, "rb") : NULL;
    if (!file) {
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    struct cache_header header;
    unsigned char *binary = NULL;
    if (fread(&header, sizeof header, 1, file) == 1 && memcmp(header.magic, cache_magic, sizeof cache_magic) == 0 &&
        header.key == key && header.bytes > 0 && header.bytes <= MAX_BINARY_BYTES)
        binary = malloc(header.bytes);
    if (binary &&
        (fread(binary, header.bytes, 1, file) != 1 || hash(HASH_START, binary, header.bytes) != header.checksum)) {
        free(binary);
        binary = NULL;
    }
    fclose(file);
    if (binary)
        *bytes = header.bytes;
    return binary;
}

static bool make_folders(const char *folder)
{
    char path[1024];
    int n = snprintf(path, sizeof path, "%s", folder);
    if (n <= 0 || (size_t)n >= sizeof path)
        return false;
    for (char *at = path + 1; *at; at++)
        if (*at == '/') {
            *at = 0;
            if (mkdir(path, 0700) != 0 && errno != EEXIST)
                return false;
            *at = '/';
        }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

static bool write_whole(int fd, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes > 0) {
        ssize_t n = write(fd, at, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

static void cache_save(const char *folder, uint64_t key, const unsigned char *binary, size_t bytes)
{
    char path[1024];
    char beside[1024];
    char suffix[32];
    snprintf(suffix, sizeof suffix, ".%ld.tmp", (long)getpid());
    if (!make_folders(folder) || !cache_path(folder, key, ".bin", path, sizeof path) ||
        !cache_path(folder, key, suffix, beside, sizeof beside))
        return;
    int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return;
    struct cache_header header = {.key = key, .bytes = bytes, .checksum = hash(HASH_START, binary, bytes)};
    memcpy(header.magic, cache_magic, sizeof cache_magic);
    bool good = write_whole(fd, &header, sizeof header) && write_whole(fd, binary, bytes) && fsync(fd) == 0;
    if (close(fd) != 0 || !good || rename(beside, path) != 0)
        unlink(beside);
}

// Does the driver keep what it has compiled by itself? PoCL does, unless told not to; asked for binaries it compiles
// all once more, as another variant than what it launches, for about as long as the first time.
static bool driver_keeps(const gpu *g)
{
    const char *wish = getenv("POCL_KERNEL_CACHE");
    return strstr(g->info.platform, "Portable Computing Language") && !(wish && strcmp(wish, "0") == 0);
}

static void save_binary(const gpu *g, const char *folder, uint64_t key)
{
    size_t bytes = 0;
    if (clGetProgramInfo(g->program, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, NULL) != CL_SUCCESS || bytes == 0 ||
        bytes > MAX_BINARY_BYTES)
        return;
    unsigned char *binary = malloc(bytes);
    if (binary && clGetProgramInfo(g->program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL) == CL_SUCCESS)
        cache_save(folder, key, binary, bytes);
    free(binary);
}

static bool build_from_binary(gpu *g, const char *options, const unsigned char *binary, size_t bytes)
{
    cl_int rc;
    cl_int status = CL_SUCCESS;
    g->program = clCreateProgramWithBinary(g->context, 1, &g->device, &bytes, &binary, &status, &rc);
    if (rc == CL_SUCCESS && status == CL_SUCCESS &&
        clBuildProgram(g->program, 1, &g->device, options, NULL, NULL) == CL_SUCCESS)
        return true;
    if (g->program)
        clReleaseProgram(g->program);
    g->program = NULL;
    return false;
}

// The first line of the build log that tells of an error.
static void build_log(const gpu *g, char *line, size_t bytes)
{
    size_t size = 0;
    line[0] = 0;
    clGetProgramBuildInfo(g->program, g->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size);
    char *log = calloc(1, size + 1);
    if (!log)
        return;
    clGetProgramBuildInfo(g->program, g->device, CL_PROGRAM_BUILD_LOG, size, log, NULL);
    const char *from = strstr(log, "error");
    if (!from)
        from = log;
    while (from > log && from[-1] != '\n')
        from--;
    snprintf(line, bytes, "%.*s", (int)strcspn(from, "\n"), from);
    free(log);
}

static bool build_from_source(gpu *g, const char *options, struct gpu_error *err)
{
    cl_int rc;
    const char *text = kernels_text;
    g->program = clCreateProgramWithSource(g->context, 1, &text, &kernels_text_bytes, &rc);
    if (rc == CL_SUCCESS)
        rc = clBuildProgram(g->program, 1, &g->device, options, NULL, NULL);
    if (rc == CL_SUCCESS)
        return true;
    char line[160] = "";
    if (g->program)
        build_log(g, line, sizeof line);
    gpu_error_set(err, GPU_BUILD, rc, "kernels do not build for %.48s (is the disk of the driver's cache full?): %s",
                  g->info.name, line);
    return false;
}

static bool make_kernels(gpu *g, struct gpu_error *err)
{
    for (int id = 0; id < KERNEL_COUNT; id++) {
        if (!kernel_group(g, (enum kernel_id)id))
            continue;
        const char *name = kernel_info((enum kernel_id)id)->name;
        cl_int rc;
        g->kernels[id] = clCreateKernel(g->program, name, &rc);
        size_t most = 0;
        if (rc == CL_SUCCESS)
            rc = clGetKernelWorkGroupInfo(g->kernels[id], g->device, CL_KERNEL_WORK_GROUP_SIZE, sizeof most, &most,
                                          NULL);
        if (rc != CL_SUCCESS || most < kernel_group(g, (enum kernel_id)id)) {
            gpu_error_set(err, GPU_BUILD, rc, "kernel %s does not fit %s: groups of %zu, and it gives %zu (error %d)",
                          name, g->info.name, kernel_group(g, (enum kernel_id)id), most, (int)rc);
            return false;
        }
    }
    return true;
}

// Is args.h laid out on the device as here? clSetKernelArg would take a struct of the wrong size.
static bool probe_layouts(gpu *g, struct gpu_error *err)
{
#define HOST_LAYOUT(type, last)             sizeof(struct type), offsetof(struct type, last),
#define HOST_ROW(id, name, args, last, ...) HOST_LAYOUT(args, last)
    static const size_t expected[] = {KERNEL_ROWS(HOST_ROW) INNER_STRUCTS(HOST_LAYOUT)};
    _Static_assert(sizeof expected / sizeof *expected == 2 * PROBE_COUNT, "two numbers of each struct");
    cl_uint reported[2 * PROBE_COUNT] = {0};
    const size_t one = 1;
    cl_int rc;
    cl_mem out = clCreateBuffer(g->context, CL_MEM_WRITE_ONLY, sizeof reported, NULL, &rc);
    cl_kernel probe = rc == CL_SUCCESS ? clCreateKernel(g->program, "probe", &rc) : NULL;
    if (rc == CL_SUCCESS)
        rc = clSetKernelArg(probe, 0, sizeof out, &out);
    if (rc == CL_SUCCESS)
        rc = clEnqueueNDRangeKernel(g->queue, probe, 1, NULL, &one, &one, 0, NULL, NULL);
    if (rc == CL_SUCCESS)
        rc = clEnqueueReadBuffer(g->queue, out, CL_TRUE, 0, sizeof reported, reported, 0, NULL, NULL);
    if (probe)
        clReleaseKernel(probe);
    if (out)
        clReleaseMemObject(out);
    bool same = rc == CL_SUCCESS;
    for (int i = 0; i < 2 * PROBE_COUNT; i++)
        same = same && reported[i] == expected[i];
    if (!same)
        gpu_error_set(err, GPU_BUILD, rc, "%s lays out kernel arguments differently: it cannot be used", g->info.name);
    return same;
}

// Launches every kernel once with nothing to do: PoCL makes machine code only then. Binaries taken later hold it.
static bool warm_up(gpu *g, const struct gpu_options *options, unsigned steps, struct gpu_error *err)
{
#define ROW_ARGS(id, name, args, ...) struct args name;
    static const union {
        KERNEL_ROWS(ROW_ARGS)
    } nothing;
    gpu_buf *dummy = gpu_buf_new(g, 4096, err);
    if (!dummy)
        return false;
    for (int id = 0; id < KERNEL_COUNT; id++) {
        const struct kernel_info *info = kernel_info((enum kernel_id)id);
        if (options->progress)
            options->progress(options->progress_context, info->name, (unsigned)id, steps);
        if (!kernel_group(g, (enum kernel_id)id))
            continue;
        struct launch l = {.kernel = (enum kernel_id)id, .args = &nothing};
        for (unsigned i = 0; i < info->n_buffers; i++)
            l.buffers[i] = dummy;
        launch(g, &l);
        if (gpu_finish(g, err)) {
            gpu_buf_free(dummy);
            return false;
        }
    }
    if (options->progress && steps > KERNEL_COUNT)
        options->progress(options->progress_context, "saving", KERNEL_COUNT, steps);
    gpu_buf_free(dummy);
    g->counts = (struct gpu_counts){0};
    return true;
}

static bool make_ready(gpu *g, const struct gpu_options *options, unsigned steps, struct gpu_error *err)
{
    return make_kernels(g, err) && probe_layouts(g, err) && warm_up(g, options, steps, err);
}

bool program_open(gpu *g, const struct gpu_options *options, struct gpu_error *err)
{
    char flags[64];
    build_options(g, flags, sizeof flags);
    uint64_t key = cache_key(g, flags);
    size_t bytes = 0;
    const char *folder = !driver_keeps(g) || options->always_cache ? options->cache_dir : NULL;
    unsigned char *binary = cache_load(folder, key, &bytes);
    unsigned steps = KERNEL_COUNT + (folder && !binary ? 1u : 0u);
    if (options->progress)
        options->progress(options->progress_context, "kernels", 0, steps);
    bool cached = binary && build_from_binary(g, flags, binary, bytes);
    free(binary);
    if (cached && make_ready(g, options, steps, NULL))
        return true;
    program_close(g);
    bool made = build_from_source(g, flags, err) && make_ready(g, options, steps, err);
    if (!made && g->has_mma) { // a driver that knows no such assembly: the same without
        g->has_mma = false;
        program_close(g);
        return program_open(g, options, err);
    }
    if (!made)
        return false;
    if (folder)
        save_binary(g, folder, key);
    if (options->progress)
        options->progress(options->progress_context, "ready", steps, steps);
    return true;
}

void program_close(gpu *g)
{
    for (int id = 0; id < KERNEL_COUNT; id++) {
        if (g->kernels[id])
            clReleaseKernel(g->kernels[id]);
        g->kernels[id] = NULL;
    }
    if (g->program)
        clReleaseProgram(g->program);
    g->program = NULL;
}
