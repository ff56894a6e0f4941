// SPDX-License-Identifier: GPL-3.0-or-later
// The kernels' program: built from the embedded sources or taken from the cache, proved, warmed up.
//
// The cache holds one file a program: a header, then the driver's binary. Its name is a hash of all that the binary
// depends on: sources, options, device, driver, platform. It is written beside and renamed, so a reader sees all or
// nothing; whatever is wrong with a file only costs a build. It is machine code: a folder or file that is another
// user's, or that others may write to, is not used. A driver that keeps its own is left to it, under a seal.
#include "kernels/device.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

// By embed.sh.
extern const char kernels_text[], kind_text[];
extern const size_t kernels_text_bytes, kind_text_bytes;
extern const char token_text[], token_names[], token_kind_text[], token_names_end[], token_last_text[];

enum { MAX_BINARY_BYTES = 256 << 20, CACHE_NAME = 64 };

// SHA-256: what is loaded here runs in this process.
enum { DIGEST = 32 };
struct digest {
    unsigned char bytes[DIGEST];
};

struct cache_header {
    char magic[16];
    struct digest key, checksum;
    uint64_t bytes;
};

static const char cache_magic[16] = "moechat kernel2";

struct digested {
    const void *data;
    size_t bytes;
};

// False: there is no such digest, and nothing is cached.
static bool digest(const struct digested *parts, size_t n, struct digest *out)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool good = context && EVP_DigestInit_ex(context, EVP_sha256(), NULL);
    for (size_t i = 0; i < n && good; i++)
        good = EVP_DigestUpdate(context, &parts[i].bytes, sizeof parts[i].bytes) &&
               EVP_DigestUpdate(context, parts[i].data, parts[i].bytes);
    good = good && EVP_DigestFinal_ex(context, out->bytes, NULL);
    EVP_MD_CTX_free(context);
    return good;
}

// What a program is made of.
struct source {
    const char *text;
    size_t bytes;
    uint32_t uses; // of a kind's matrices; 0: all ops
    char options[256];
};

// No warnings: a compiler in our process may print them over the screen, as PoCL's does of loops it can't unroll.
static struct source source_of_all(const gpu *g)
{
    struct source s = {kernels_text, kernels_text_bytes, 0, ""};
    snprintf(s.options, sizeof s.options, "-cl-std=CL1.2 -w -DSHAPE_CPU=%d -DNVIDIA_MMA=%d -DCALLS=%d", g->cpu_shape,
             g->has_mma, g->calls);
    return s;
}

static struct source source_of_kind(const gpu *g, const struct gpu_format *format)
{
    struct source s = {kind_text, kind_text_bytes, format->uses, ""};
    const struct kind_info *info = kind_info(format->kind);
    char name[32];
    if (info->scales == SCALES_AFFINE)
        snprintf(name, sizeof name, "AFFINE=%u", info->quantum_bits);
    else
        snprintf(name, sizeof name, "%s", info->name);
    snprintf(s.options, sizeof s.options,
             "-cl-std=CL1.2 -w -DSHAPE_CPU=%d -DNVIDIA_MMA=%d -DCALLS=%d -DKIND=%u -DKIND_IS_%s -DBLOCK_INPUTS=%u "
             "-DBLOCK_BYTES=%u -DPIECES=%d -DSCALE_TYPE=%u -DUSES=%u",
             g->cpu_shape, g->has_mma, g->calls, format->kind, name, info->block_inputs, info->block_bytes,
             info->by_pieces, format->scale_type, format->uses);
    return s;
}

// What a kind's text is told of it.
static void tell_kind(FILE *out, uint32_t kind, unsigned slot)
{
    const struct kind_info *info = kind_info(kind);
    fprintf(out,
            "#define SLOT %u\n#define KIND %u\n#define KIND_IS_%s 1\n#define BLOCK_INPUTS %u\n#define BLOCK_BYTES %u\n"
            "#define PIECES 1\n#define SCALE_TYPE 0\n",
            slot, kind, info->name, info->block_inputs, info->block_bytes);
}

static void forget_kind(FILE *out, uint32_t kind)
{
    fprintf(out,
            "\n#undef SLOT\n#undef KIND\n#undef KIND_IS_%s\n#undef BLOCK_INPUTS\n#undef BLOCK_BYTES\n#undef PIECES\n"
            "#undef SCALE_TYPE\n",
            kind_info(kind)->name);
}

char *program_token_text(uint64_t kinds)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    fprintf(out,
            "%s\n#define OF_SLOT__(name, slot) name##_##slot\n#define OF_SLOT_(name, slot) OF_SLOT__(name, slot)\n"
            "#define OF_SLOT(name) OF_SLOT_(name, SLOT)\n",
            token_text);
    for (uint32_t kind = 0, slot = 0; kind < KIND_COUNT; kind++)
        if (kinds >> kind & 1) {
            tell_kind(out, kind, slot++);
            fprintf(out, "%s\n%s\n%s", token_names, token_kind_text, token_names_end);
            forget_kind(out, kind);
        }
    fputs("#define RUN_KINDS(kind) ", out);
    for (uint32_t kind = 0, slot = 0; kind < KIND_COUNT; kind++)
        if (kinds >> kind & 1)
            fprintf(out, "if ((kind) == %u) segment_run_%u(segment, &space, scale, &staged, meeting); else ", kind,
                    slot++);
    fprintf(out, "segment_run_plain(segment, &space, scale, &staged);\n%s", token_last_text);
    bool good = !ferror(out);
    if (fclose(out) == 0 && good)
        return text;
    free(text);
    return NULL;
}

static bool cache_key(const gpu *g, const struct source *source, struct digest *key)
{
    char version[256] = "";
    char device_version[256] = "";
    clGetPlatformInfo(g->platform, CL_PLATFORM_VERSION, sizeof version - 1, version, NULL);
    clGetDeviceInfo(g->device, CL_DEVICE_VERSION, sizeof device_version - 1, device_version, NULL);
    const char *const texts[] = {source->options,  g->info.name, g->info.driver,
                                 g->info.platform, version,      device_version};
    enum { N_TEXTS = sizeof texts / sizeof *texts };
    struct digested parts[N_TEXTS + 1] = {{source->text, source->bytes}};
    for (size_t i = 0; i < N_TEXTS; i++)
        parts[i + 1] = (struct digested){texts[i], strlen(texts[i])};
    return digest(parts, N_TEXTS + 1, key);
}

// Hex digits of half of it, which name it.
static void key_digits(const struct digest *key, char digits[SEAL_KEY])
{
    _Static_assert(SEAL_KEY == DIGEST + 1, "two digits a byte");
    for (int i = 0; i < DIGEST / 2; i++)
        snprintf(digits + 2 * i, 3, "%02x", key->bytes[i]);
}

static void cache_name(const struct digest *key, char name[CACHE_NAME])
{
    char digits[SEAL_KEY];
    key_digits(key, digits);
    snprintf(name, CACHE_NAME, "kernels-%s.bin", digits);
}

static bool is_trusted(int fd, mode_t type)
{
    struct stat about;
    return fstat(fd, &about) == 0 && (about.st_mode & S_IFMT) == type && cache_is_private(&about);
}

// The folder, -1: there is none that may be trusted.
static int open_folder(const char *folder)
{
    int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd < 0 || is_trusted(fd, S_IFDIR))
        return fd;
    close(fd);
    return -1;
}

static bool read_whole(int fd, void *data, size_t bytes)
{
    char *at = data;
    while (bytes > 0) {
        ssize_t n = read(fd, at, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

// The binary in the cache, or NULL.
static unsigned char *cache_load(const char *folder, const struct digest *key, size_t *bytes)
{
    char name[CACHE_NAME];
    cache_name(key, name);
    int within = open_folder(folder);
    // A pipe in its place must not make us wait, nor a link lead elsewhere.
    int fd = within >= 0 ? openat(within, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
    struct cache_header header;
    struct digest found;
    unsigned char *binary = NULL;
    if (fd >= 0 && is_trusted(fd, S_IFREG) && read_whole(fd, &header, sizeof header) &&
        memcmp(header.magic, cache_magic, sizeof cache_magic) == 0 &&
        memcmp(&header.key, key, sizeof header.key) == 0 && header.bytes > 0 && header.bytes <= MAX_BINARY_BYTES)
        binary = malloc(header.bytes);
    if (binary &&
        (!read_whole(fd, binary, header.bytes) || !digest(&(struct digested){binary, header.bytes}, 1, &found) ||
         memcmp(&found, &header.checksum, sizeof found) != 0)) {
        free(binary);
        binary = NULL;
    }
    if (fd >= 0)
        close(fd);
    if (within >= 0)
        close(within);
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

// A file of ours alone; what an earlier process of our number left is in its way.
static int open_beside(int folder, const char *name)
{
    int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
    int fd = openat(folder, name, flags, 0600);
    if (fd < 0 && errno == EEXIST && unlinkat(folder, name, 0) == 0)
        fd = openat(folder, name, flags, 0600);
    return fd;
}

static void cache_save(const char *folder, const struct digest *key, const unsigned char *binary, size_t bytes)
{
    char name[CACHE_NAME], beside[CACHE_NAME + 32];
    struct cache_header header = {.key = *key, .bytes = bytes};
    int within = make_folders(folder) ? open_folder(folder) : -1;
    if (within < 0)
        return;
    cache_name(key, name);
    snprintf(beside, sizeof beside, "%s.%ld.tmp", name, (long)getpid());
    memcpy(header.magic, cache_magic, sizeof cache_magic);
    int fd = digest(&(struct digested){binary, bytes}, 1, &header.checksum) ? open_beside(within, beside) : -1;
    if (fd >= 0) {
        bool good = write_whole(fd, &header, sizeof header) && write_whole(fd, binary, bytes) && fsync(fd) == 0;
        if (close(fd) != 0 || !good || renameat(within, beside, within, name) != 0)
            unlinkat(within, beside, 0);
    }
    close(within);
}

// Does the driver keep what it has compiled by itself? PoCL does, unless told not to; asked for binaries it compiles
// all once more, as another variant than what it launches, for about as long as the first time.
static bool driver_keeps(const gpu *g)
{
    const char *wish = getenv("POCL_KERNEL_CACHE");
    return device_is_pocls(&g->info) && !(wish && strcmp(wish, "0") == 0);
}

static void save_binary(const gpu *g, const struct program *p, const struct digest *key)
{
    size_t bytes = 0;
    if (clGetProgramInfo(p->binary, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, NULL) != CL_SUCCESS || bytes == 0 ||
        bytes > MAX_BINARY_BYTES)
        return;
    unsigned char *binary = malloc(bytes);
    if (binary && clGetProgramInfo(p->binary, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL) == CL_SUCCESS)
        cache_save(g->cache_folder, key, binary, bytes);
    free(binary);
}

static bool build_from_binary(gpu *g, struct program *p, const struct source *source, const struct digest *key)
{
    size_t bytes = 0;
    unsigned char *binary = cache_load(g->cache_folder, key, &bytes);
    if (!binary)
        return false;
    cl_int rc;
    cl_int status = CL_SUCCESS;
    p->binary =
        clCreateProgramWithBinary(g->context, 1, &g->device, &bytes, (const unsigned char **)&binary, &status, &rc);
    free(binary);
    return rc == CL_SUCCESS && status == CL_SUCCESS &&
           clBuildProgram(p->binary, 1, &g->device, source->options, NULL, NULL) == CL_SUCCESS;
}

// The first line of the build log that tells of an error.
static void build_log(const gpu *g, const struct program *p, char *line, size_t bytes)
{
    size_t size = 0;
    line[0] = 0;
    clGetProgramBuildInfo(p->binary, g->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size);
    char *log = calloc(1, size + 1);
    if (!log)
        return;
    clGetProgramBuildInfo(p->binary, g->device, CL_PROGRAM_BUILD_LOG, size, log, NULL);
    const char *from = strstr(log, "error");
    if (!from)
        from = log;
    while (from > log && from[-1] != '\n')
        from--;
    snprintf(line, bytes, "%.*s", (int)strcspn(from, "\n"), from);
    free(log);
}

static bool build_from_source(gpu *g, struct program *p, const struct source *source, struct gpu_error *err)
{
    cl_int rc;
    const char *text = source->text;
    p->binary = clCreateProgramWithSource(g->context, 1, &text, &source->bytes, &rc);
    if (rc == CL_SUCCESS)
        rc = clBuildProgram(p->binary, 1, &g->device, source->options, NULL, NULL);
    if (rc == CL_SUCCESS)
        return true;
    char line[160] = "";
    if (p->binary)
        build_log(g, p, line, sizeof line);
    gpu_error_set(err, GPU_BUILD, rc, "kernels do not build for %.48s (is the disk of the driver's cache full?): %s",
                  g->info.name, line);
    return false;
}

// Programs of single kinds have tiles of one sort: with tensor cores or without.
static bool has_kernel(const gpu *g, const struct source *source, enum kernel_id id)
{
    uint32_t uses = kernel_info(id)->uses;
    return kernel_group(g, id) && (!source->uses || (uses & source->uses && !(uses & USE_NO_MMA && g->has_mma)));
}

static bool make_kernels(gpu *g, struct program *p, const struct source *source, struct gpu_error *err)
{
    for (int id = 0; id < KERNEL_COUNT; id++) {
        if (!has_kernel(g, source, (enum kernel_id)id))
            continue;
        const char *name = kernel_info((enum kernel_id)id)->name;
        cl_int rc;
        p->kernels[id] = clCreateKernel(p->binary, name, &rc);
        size_t most = 0;
        if (rc == CL_INVALID_KERNEL_NAME) {
            gpu_error_set(err, GPU_BUILD, rc, "the program has no kernel %s, of which rows.h has a row", name);
            return false;
        }
        if (rc == CL_SUCCESS)
            rc = clGetKernelWorkGroupInfo(p->kernels[id], g->device, CL_KERNEL_WORK_GROUP_SIZE, sizeof most, &most,
                                          NULL);
        if (rc != CL_SUCCESS || most < kernel_group(g, (enum kernel_id)id)) {
            gpu_error_set(err, GPU_BUILD, rc, "kernel %s does not fit %s: groups of %zu, and it gives %zu (error %d)",
                          name, g->info.name, kernel_group(g, (enum kernel_id)id), most, (int)rc);
            return false;
        }
    }
    return true;
}

// Those that take all in one struct: where there is none the launcher passes arguments one by one.
static void make_calls(const gpu *g, struct program *p)
{
    for (int id = 0; g->calls && id < KERNEL_COUNT; id++) {
        char name[64];
        cl_int rc;
        snprintf(name, sizeof name, "%s_call", kernel_info((enum kernel_id)id)->name);
        p->calls[id] = p->kernels[id] ? clCreateKernel(p->binary, name, &rc) : NULL;
    }
}

// Does a kernel reach the host's memory by addresses that stand in a struct?
static bool probe_reach(const gpu *g)
{
    cl_uint numbers[2] = {41, 0};
    const cl_ulong call[2] = {(uintptr_t)&numbers[0], (uintptr_t)&numbers[1]};
    const size_t one = 1;
    cl_int rc;
    cl_kernel reach = clCreateKernel(g->program.binary, "reach", &rc);
    bool good = rc == CL_SUCCESS && clSetKernelArg(reach, 0, sizeof call, call) == CL_SUCCESS &&
                clEnqueueNDRangeKernel(g->queue, reach, 1, NULL, &one, &one, 0, NULL, NULL) == CL_SUCCESS;
    good = clFinish(g->queue) == CL_SUCCESS && good;
    if (reach)
        clReleaseKernel(reach);
    return good && numbers[1] == 42;
}

// Is args.h laid out on the device as here? clSetKernelArg would take a struct of the wrong size.
static bool probe_layouts(gpu *g, const struct program *p, struct gpu_error *err)
{
#define HOST_LAYOUT(type, last)             sizeof(struct type), offsetof(struct type, last),
#define HOST_ROW(id, name, args, last, ...) HOST_LAYOUT(args, last)
    static const size_t expected[] = {KERNEL_ROWS(HOST_ROW) INNER_STRUCTS(HOST_LAYOUT)};
    _Static_assert(sizeof expected / sizeof *expected == 2 * PROBE_COUNT, "two numbers of each struct");
    cl_uint reported[2 * PROBE_COUNT] = {0};
    const size_t one = 1;
    cl_int rc;
    cl_mem out = clCreateBuffer(g->context, CL_MEM_WRITE_ONLY, sizeof reported, NULL, &rc);
    cl_kernel probe = rc == CL_SUCCESS ? clCreateKernel(p->binary, "probe", &rc) : NULL;
    uint64_t address = 0;
    if (rc == CL_SUCCESS && p->by_address && !gpu_address(g, out, &address))
        rc = CL_INVALID_MEM_OBJECT;
    if (rc == CL_SUCCESS)
        rc = p->by_address ? clSetKernelArg(probe, 0, sizeof address, &address)
                           : clSetKernelArg(probe, 0, sizeof out, &out);
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

// Will it be launched by the device's model?
static bool is_wanted(const gpu *g, const struct source *source, enum kernel_id id)
{
    uint32_t mixers = kernel_info(id)->uses & USE_MIXERS;
    return has_kernel(g, source, id) && (source->uses || !g->mixers || !mixers || (mixers & g->mixers));
}

static unsigned count_wanted(const gpu *g, const struct source *source)
{
    unsigned n = 0;
    for (int id = 0; id < KERNEL_COUNT; id++)
        n += is_wanted(g, source, (enum kernel_id)id);
    return n;
}

// How far a building is: its steps are kernels.
struct steps {
    gpu_progress *progress; // may be NULL
    void *context;
    unsigned total;
};

// Launches what is wanted once with nothing to do: PoCL makes machine code only then. Binaries taken later hold it.
static bool warm_up(gpu *g, const struct program *p, const struct source *source, const struct steps *steps,
                    struct gpu_error *err)
{
#define ROW_ARGS(id, name, args, ...) struct args name;
    static const union {
        KERNEL_ROWS(ROW_ARGS)
    } nothing;
    gpu_buf *dummy = gpu_buf_new(g, 4096, err);
    unsigned n = 0, wanted = count_wanted(g, source);
    if (!dummy)
        return false;
    for (int id = 0; id < KERNEL_COUNT; id++) {
        const struct kernel_info *info = kernel_info((enum kernel_id)id);
        if (!is_wanted(g, source, (enum kernel_id)id))
            continue;
        if (steps->progress)
            steps->progress(steps->context, info->name, n++, steps->total);
        struct launch l = {.kernel = (enum kernel_id)id, .program = p, .args = &nothing};
        for (unsigned i = 0; i < info->n_buffers; i++)
            l.buffers[i] = dummy;
        launch(g, &l);
        if (gpu_finish(g, err)) {
            gpu_buf_free(dummy);
            return false;
        }
    }
    if (steps->progress && steps->total > wanted)
        steps->progress(steps->context, "saving", wanted, steps->total);
    gpu_buf_free(dummy);
    g->counts = (struct gpu_counts){0};
    return true;
}

static void release(struct program *p)
{
    for (int id = 0; id < KERNEL_COUNT; id++) {
        if (p->kernels[id])
            clReleaseKernel(p->kernels[id]);
        if (p->calls[id])
            clReleaseKernel(p->calls[id]);
    }
    if (p->binary)
        clReleaseProgram(p->binary);
    *p = (struct program){.uses = p->uses};
}

static bool make_ready(gpu *g, struct program *p, const struct source *source, const struct steps *steps,
                       struct gpu_error *err)
{
    if (!make_kernels(g, p, source, err) || (!source->uses && !probe_layouts(g, p, err)))
        return false;
    g->calls = g->calls && (source->uses || probe_reach(g));
    make_calls(g, p);
    return g->warm_late || warm_up(g, p, source, steps, err);
}

// Makes a built program ready, with kernels that take addresses if that can be, and saves what was built (key is not
// NULL).
static bool ready_by_address(gpu *g, struct program *p, const struct source *source, const struct steps *steps,
                             const struct digest *key, struct gpu_error *err)
{
    struct program other = {.uses = p->uses, .by_address = true};
    other.binary = g->addresses.of ? program_with_addresses(g, p->binary) : NULL;
    bool good = other.binary && make_ready(g, &other, source, steps, NULL);
    if (!good)
        release(&other);
    if (!good && !make_ready(g, p, source, steps, err))
        return false;
    if (key)
        save_binary(g, p, key);
    if (good) {
        release(p);
        *p = other;
    }
    return true;
}

// What the driver keeps of it by itself.
static void open_seal(gpu *g, const struct source *source, const struct digest *key, struct driver_seal *seal)
{
    char digits[SEAL_KEY], folder[PATH_MAX];
    unsigned wanted = g->warm_late ? 0 : source->uses || !g->mixers ? ~0u : g->mixers;
    *seal = (struct driver_seal){.within = -1, .mark_fd = -1};
    if (!key || !driver_keeps(g) || !driver_cache_folder(folder))
        return;
    key_digits(key, digits);
    seal_open(seal, folder, digits, wanted, g->notice);
}

static bool build_program(gpu *g, struct program *p, const struct source *source, const struct digest *key,
                          struct steps *steps, struct gpu_error *err)
{
    bool cached = g->cache_folder && key;
    steps->total = count_wanted(g, source);
    if (steps->progress)
        steps->progress(steps->context, "kernels", 0, steps->total);
    if (cached && build_from_binary(g, p, source, key) && ready_by_address(g, p, source, steps, NULL, NULL))
        return true;
    release(p);
    steps->total = count_wanted(g, source) + (cached ? 1u : 0u);
    if (!build_from_source(g, p, source, err) || !ready_by_address(g, p, source, steps, cached ? key : NULL, err)) {
        release(p);
        return false;
    }
    return true;
}

static bool open_program(gpu *g, struct program *p, const struct source *source, struct steps *steps,
                         struct gpu_error *err)
{
    struct digest digest;
    struct driver_seal seal;
    const struct digest *key = cache_key(g, source, &digest) ? &digest : NULL;
    open_seal(g, source, key, &seal);
    bool good = build_program(g, p, source, key, steps, err);
    if (good)
        memcpy(p->seal, seal.key, sizeof p->seal);
    seal_close(&seal, good);
    return good;
}

bool program_open(gpu *g, const struct gpu_options *options, struct gpu_error *err)
{
    struct source source = source_of_all(g);
    struct steps steps = {options->progress, options->progress_context, 0};
    if (options->cache_dir && (!driver_keeps(g) || options->always_cache))
        g->cache_folder = strdup(options->cache_dir); // NULL: done without
    bool good = !(g->has_mma && options->refuse_mma) && open_program(g, &g->program, &source, &steps, err);
    if (!good && g->has_mma) { // a driver that knows no such assembly: the same without, and its name says so
        g->has_mma = false;
        snprintf(g->info.name + strlen(g->info.name), sizeof g->info.name - strlen(g->info.name),
                 " (its driver builds no kernels for tensor cores)");
        source = source_of_all(g);
        good = open_program(g, &g->program, &source, &steps, err);
    }
    if (good && options->progress)
        options->progress(options->progress_context, "ready", steps.total, steps.total);
    return good;
}

struct program *program_open_kind(gpu *g, const struct gpu_format *format, struct gpu_error *err)
{
    struct source source = source_of_kind(g, format);
    struct gpu_counts counts = g->counts;
    struct program *p = calloc(1, sizeof *p);
    if (!p) {
        gpu_error_set(err, GPU_OUT_OF_MEMORY, 0, "no memory for the kernels of %s", kind_name(format->kind));
        return NULL;
    }
    p->uses = format->uses;
    bool good = open_program(g, p, &source, &(struct steps){0}, err);
    g->counts = counts;
    if (good)
        return p;
    free(p);
    return NULL;
}

// Is it a kernel whose groups meet?
static bool is_of_a_token(const char *name)
{
    static const enum kernel_id all[] = {KERNEL_MOE_TOKEN, KERNEL_MLA_IN, KERNEL_MLA_OUT, KERNEL_DELTA_LAYER};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const char *of = kernel_info(all[i])->name;
        if (strncmp(name, of, strlen(of)) == 0 && name[strlen(of)] == '(')
            return true;
    }
    return false;
}

// Behind such a kernel's parameters, with how large its groups are where that is not said.
char *ptx_of_two_groups(const char *ptx)
{
    static const char begins[] = ".entry ";
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    for (const char *entry, *end; (entry = strstr(ptx, begins)) && (end = strchr(entry, ')')); ptx = end + 1) {
        const char *size = strstr(end, "ntid"), *body = strchr(end, '{');
        bool says = size && (!body || size < body);
        fprintf(out, "%.*s", (int)(end + 1 - ptx), ptx);
        if (is_of_a_token(entry + sizeof begins - 1))
            fprintf(out, says ? "\n.minnctapersm 2" : "\n.minnctapersm 2\n.maxntid %d, 1, 1", TOKEN_ITEMS);
    }
    fputs(ptx, out);
    bool good = !ferror(out);
    if (fclose(out) == 0 && good)
        return text;
    free(text);
    return NULL;
}

bool program_for_two_groups(gpu *g, struct program *p)
{
    static const struct source none = {.text = "", .uses = USE_TOKEN, .options = ""};
    struct program tight = {.uses = p->uses, .by_address = p->by_address};
    struct gpu_counts counts = g->counts;
    char *ptx = program_ptx(p->binary), *text = ptx ? ptx_of_two_groups(ptx) : NULL;
    tight.binary = text ? program_of_ptx(g, text) : NULL;
    bool good = tight.binary && make_ready(g, &tight, &none, &(struct steps){0}, NULL);
    g->counts = counts;
    free(ptx);
    free(text);
    if (!good) {
        release(&tight);
        return false;
    }
    release(p);
    *p = tight;
    return true;
}

struct program *program_open_token(gpu *g, uint64_t kinds, struct gpu_error *err)
{
    struct gpu_counts counts = g->counts;
    char *text = program_token_text(kinds);
    struct program *p = text ? calloc(1, sizeof *p) : NULL;
    if (!p) {
        gpu_error_set(err, GPU_OUT_OF_MEMORY, 0, "no memory for a token's kernels");
        free(text);
        return NULL;
    }
    struct source source = {text, strlen(text), USE_TOKEN, ""};
    snprintf(source.options, sizeof source.options, "-cl-std=CL1.2 -w -DSHAPE_CPU=0 -DNVIDIA_MMA=1 -DTOKEN_PROGRAM");
    p->uses = USE_TOKEN;
    bool good = open_program(g, p, &source, &(struct steps){0}, err);
    g->counts = counts;
    free(text);
    if (good)
        return p;
    free(p);
    return NULL;
}

// Kernels that were built since are of its program, too.
static void renew_seal(const struct program *p)
{
    char folder[PATH_MAX];
    if (*p->seal && driver_cache_folder(folder))
        seal_renew(folder, p->seal);
}

void program_close(struct program *p)
{
    renew_seal(p);
    release(p);
    free(p);
}

void programs_close(gpu *g)
{
    struct program **formats = &g->formats[0][0];
    for (size_t i = 0; i < sizeof g->formats / sizeof *formats; i++)
        if (formats[i])
            program_close(formats[i]);
    if (g->token)
        program_close(g->token);
    renew_seal(&g->program);
    release(&g->program);
    free(g->cache_folder);
}
