// SPDX-License-Identifier: GPL-3.0-or-later
// The kernels' program: built from the embedded sources or taken from the cache, proved, warmed up.
// A driver that keeps its own binaries is left to it, under a seal.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/binary_cache.h"
#include "kernels/device.h"
#include "kernels/source.h"

enum { MAX_BINARY_BYTES = 256 << 20 };

bool driver_keeps(const gpu *g)
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

// Is it none of a mixer's, or of one that the device's model has?
static bool is_of_model(const gpu *g, enum kernel_id id)
{
    uint32_t mixers = kernel_info(id)->uses & USE_MIXERS;
    return !g->mixers || !mixers || (mixers & g->mixers);
}

// Programs of single kinds have tiles of one sort: with tensor cores or without. A token's has what the model needs.
static bool has_kernel(const gpu *g, const struct source *source, enum kernel_id id)
{
    uint32_t uses = kernel_info(id)->uses;
    return kernel_group(g, id) && (!source->uses || (uses & source->uses && !(uses & USE_NO_MMA && g->has_mma))) &&
           (source->uses != USE_TOKEN || is_of_model(g, id));
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
        if (rc == CL_INVALID_KERNEL_NAME && source->parts)
            continue; // it is of another part
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
    return has_kernel(g, source, id) && (source->uses || is_of_model(g, id));
}

static unsigned count_wanted(const gpu *g, const struct source *source)
{
    unsigned n = 0;
    for (int id = 0; id < KERNEL_COUNT; id++)
        n += is_wanted(g, source, (enum kernel_id)id);
    return n;
}

// How far a building is: its steps are kernels, or parts of a program. 0 of 0 while what was kept is made ready.
struct steps {
    gpu_progress *progress; // may be NULL
    void *context;
    unsigned total, done; // done: parts
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
        if (!is_wanted(g, source, (enum kernel_id)id) || !p->kernels[id])
            continue;
        if (steps->progress)
            steps->progress(steps->context, info->name, steps->total ? n++ : 0, steps->total);
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

// is_kept: the driver has it from an earlier start.
static bool build_program(gpu *g, struct program *p, const struct source *source, const struct digest *key,
                          bool is_kept, struct steps *steps, struct gpu_error *err)
{
    bool cached = g->cache_folder && key;
    steps->total = 0; // however long the disk takes
    if (cached && build_from_binary(g, p, source, key) && ready_by_address(g, p, source, steps, NULL, NULL))
        return true;
    release(p);
    steps->total = is_kept ? 0 : count_wanted(g, source) + (cached ? 1u : 0u);
    if (steps->progress && steps->total)
        steps->progress(steps->context, "kernels", 0, steps->total);
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
    const struct digest *key = source_key(g, source, &digest) ? &digest : NULL;
    open_seal(g, source, key, &seal);
    bool good = build_program(g, p, source, key, seal.complete && !g->cache_folder, steps, err);
    if (good)
        memcpy(p->seal, seal.key, sizeof p->seal);
    seal_close(&seal, good);
    return good;
}

// One of a program's, whole or a part.
static bool open_wish(gpu *g, struct program *p, const struct wish *wish, struct steps *steps, struct gpu_error *err)
{
    struct source source;
    if (!source_of(g, wish, &source)) {
        gpu_error_set(err, GPU_OUT_OF_MEMORY, 0, "no memory for the text of kernels");
        return false;
    }
    bool good = open_program(g, p, &source, steps, err);
    source_release(&source);
    return good;
}

// Its kernels, which hold its binary.
static void take_kernels(struct program *p, struct program *part)
{
    for (int id = 0; id < KERNEL_COUNT; id++)
        if (!p->kernels[id]) {
            p->kernels[id] = part->kernels[id];
            part->kernels[id] = NULL;
        }
    p->by_address = part->by_address;
    release(part);
}

enum opened { OPENED, OPENED_NOT, OPENED_MIXED };

// OPENED_MIXED: not all of them take addresses, and no kernel is left; likewise OPENED_NOT, with *err filled.
static enum opened open_each(gpu *g, struct program *p, const struct wish *parts, unsigned n, struct steps *steps,
                             struct gpu_error *err)
{
    enum opened opened = OPENED;
    for (unsigned i = 0; i < n && opened == OPENED; i++) {
        struct program part = {.uses = p->uses};
        if (steps->progress && !wish_is_kept(g, &parts[i]))
            steps->progress(steps->context, "kernels", steps->done++, steps->total);
        if (!open_wish(g, &part, &parts[i], &(struct steps){0}, err)) {
            opened = OPENED_NOT;
            break;
        }
        if (i > 0 && part.by_address != p->by_address)
            opened = OPENED_MIXED;
        take_kernels(p, &part);
    }
    if (opened != OPENED)
        release(p);
    return opened;
}

static bool has_all(const gpu *g, const struct program *p, const struct source *source, struct gpu_error *err)
{
    for (int id = 0; id < KERNEL_COUNT; id++)
        if (is_wanted(g, source, (enum kernel_id)id) && !p->kernels[id]) {
            gpu_error_set(err, GPU_BUILD, 0, "no part of the program has kernel %s, of which rows.h has a row",
                          kernel_info((enum kernel_id)id)->name);
            return false;
        }
    return true;
}

static bool open_parts(gpu *g, struct program *p, const struct wish *wish, struct steps *steps, struct gpu_error *err)
{
    struct wish parts[MOST_PARTS];
    unsigned n = source_divide(g, wish, g->mixers, parts);
    if (n == 1 && !parts[0].parts)
        return open_wish(g, p, wish, steps, err);
    struct source whole;
    for (unsigned i = 0; i < n && steps->progress; i++)
        steps->total += !wish_is_kept(g, &parts[i]);
    enum opened opened = open_each(g, p, parts, n, steps, err);
    if (opened == OPENED_MIXED) {
        cl_kernel of = g->addresses.of;
        g->addresses.of = NULL; // for none of them
        opened = open_each(g, p, parts, n, steps, err);
        g->addresses.of = of;
    }
    if (opened != OPENED || !source_of(g, wish, &whole)) // a token's text alone takes memory, and is not divided
        return false;
    bool good = has_all(g, p, &whole, err);
    source_release(&whole);
    if (!good)
        release(p);
    for (unsigned i = 0; good && wish->of == WISH_ALL && i < n; i++)
        g->parts |= parts[i].parts;
    return good;
}

bool program_open(gpu *g, const struct gpu_options *options, struct gpu_error *err)
{
    unsigned helped = jobs_wait(g, options);
    struct steps steps = {options->progress, options->progress_context, helped, helped};
    const struct wish all = {.of = WISH_ALL};
    bool good = !(g->has_mma && options->refuse_mma) && open_parts(g, &g->program, &all, &steps, err);
    if (!good && g->has_mma) { // a driver that knows no such assembly: the same without, and its name says so
        g->has_mma = false;
        g->divided = options->divide;
        snprintf(g->info.name + strlen(g->info.name), sizeof g->info.name - strlen(g->info.name),
                 " (its driver builds no kernels for tensor cores)");
        steps.total = steps.done = 0;
        good = open_parts(g, &g->program, &all, &steps, err);
    }
    if (good && options->progress)
        options->progress(options->progress_context, "ready", steps.total, steps.total);
    return good;
}

bool program_build(gpu *g, const struct wish *wish, struct gpu_error *err)
{
    struct source source;
    struct digest key;
    struct program p = {.uses = wish->of == WISH_KIND ? wish->format.uses : 0};
    bool has_key = source_of(g, wish, &source);
    if (!has_key) {
        gpu_error_set(err, GPU_OUT_OF_MEMORY, 0, "no memory for the text of kernels");
        return false;
    }
    has_key = source_key(g, &source, &key);
    source_release(&source);
    if (has_key)
        cache_lock(g->cache_folder, &key);
    if (!open_wish(g, &p, wish, &(struct steps){0}, err))
        return false;
    release(&p);
    if (has_key && cache_has(g->cache_folder, &key))
        return true;
    gpu_error_set(err, GPU_BUILD, 0, "what was built could not be kept in %.160s", g->cache_folder);
    return false;
}

cl_kernel program_open_late(gpu *g, enum kernel_id id)
{
    struct wish parts[MOST_PARTS];
    struct gpu_counts counts = g->counts;
    struct gpu_error err;
    unsigned mixers = g->mixers;
    unsigned n = source_divide(g, &(struct wish){.of = WISH_ALL}, kernel_info(id)->uses & USE_MIXERS, parts);
    g->mixers = 0; // all that a part has is wanted
    for (unsigned i = 0; i < n && !g->program.kernels[id]; i++) {
        struct program part = {0};
        if (parts[i].parts & g->parts)
            continue;
        if (open_wish(g, &part, &parts[i], &(struct steps){0}, &err) && part.by_address == g->program.by_address)
            take_kernels(&g->program, &part);
        else
            release(&part);
    }
    g->mixers = mixers;
    g->counts = counts;
    return g->program.kernels[id];
}

static struct program *open_another(gpu *g, const struct wish *wish, uint32_t uses, struct gpu_error *err)
{
    struct gpu_counts counts = g->counts;
    struct program *p = calloc(1, sizeof *p);
    if (!p) {
        gpu_error_set(err, GPU_OUT_OF_MEMORY, 0, "no memory for the kernels of matrices");
        return NULL;
    }
    p->uses = uses;
    bool good = open_parts(g, p, wish, &(struct steps){0}, err);
    g->counts = counts;
    if (good)
        return p;
    free(p);
    return NULL;
}

struct program *program_open_kind(gpu *g, const struct gpu_format *format, struct gpu_error *err)
{
    return open_another(g, &(struct wish){.of = WISH_KIND, .format = *format}, format->uses, err);
}

struct program *program_open_token(gpu *g, uint64_t kinds, struct gpu_error *err)
{
    return open_another(g, &(struct wish){.of = WISH_TOKEN, .kinds = kinds}, USE_TOKEN, err);
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
