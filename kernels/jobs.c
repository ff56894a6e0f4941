// SPDX-License-Identifier: GPL-3.0-or-later
// What helpers build for a device whose compiler takes seconds, and how they are told.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/device.h"
#include "kernels/helpers.h"
#include "kernels/source.h"

// A job is a line: the numbers of a wish and of the device, as it was opened, then the cache's folder.
#define JOB_READ    "%u %" SCNx32 " %" SCNu32 " %" SCNu32 " %" SCNx32 " %" SCNx64 " %u %u %x %x %n"
#define JOB_WRITTEN "%u %" PRIx32 " %" PRIu32 " %" PRIu32 " %" PRIx32 " %" PRIx64 " %s %u %x %x %s"
enum { JOB_NUMBERS = 10, JOB_ROOM = 160, MOST_JOBS = 128 };

// Bits of the last number.
enum { JOB_ALWAYS_CACHE = 1, JOB_WARM_LATE = 2, JOB_MAP = 4, JOB_APART = 8, JOB_DIVIDE = 16 };

struct jobs {
    char *items[MOST_JOBS];
    unsigned n;
};

static void release_jobs(struct jobs *jobs)
{
    for (unsigned i = 0; i < jobs->n; i++)
        free(jobs->items[i]);
}

static void add_job(const gpu *g, const struct wish *wish, struct jobs *jobs)
{
    const struct gpu_format *f = &wish->format;
    size_t room = JOB_ROOM + strlen(g->cache_folder);
    unsigned flags = (g->always_cache ? JOB_ALWAYS_CACHE : 0u) | (g->warm_late ? JOB_WARM_LATE : 0u) |
                     (g->opened_mapping ? JOB_MAP : 0u) | (g->opened_apart ? JOB_APART : 0u) |
                     (g->divided && !g->has_mma ? JOB_DIVIDE : 0u);
    char *job = jobs->n < MOST_JOBS ? malloc(room) : NULL;
    if (!job)
        return; // what nobody builds beside is built here
    snprintf(job, room, JOB_WRITTEN, (unsigned)wish->of, wish->parts, f->kind, f->scale_type, f->uses, wish->kinds,
             g->info.selector, (unsigned)g->shape, g->mixers, flags, g->cache_folder);
    jobs->items[jobs->n++] = job;
}

static void add_wish(const gpu *g, const struct wish *wish, struct jobs *jobs)
{
    struct wish parts[MOST_PARTS];
    unsigned n = source_divide(g, wish, g->mixers, parts);
    for (unsigned i = 0; i < n; i++)
        if (!wish_is_kept(g, &parts[i]))
            add_job(g, &parts[i], jobs);
}

// What is asked for: the program of all ops or not, and those of formats, with a token's.
struct asked {
    bool ops;
    const struct gpu_format *formats;
    unsigned n;
};

// A job for each part that the cache lacks, the longest first.
static void add_missing(const gpu *g, const struct asked *asked, struct jobs *jobs)
{
    uint64_t kinds = asked->n ? formats_token_kinds(g, asked->formats, asked->n) : 0;
    struct gpu_format *lacking = calloc(asked->n + 1, sizeof *lacking);
    unsigned n = lacking ? formats_lacking(g, asked->formats, asked->n, lacking) : 0;
    if (kinds)
        add_wish(g, &(struct wish){.of = WISH_TOKEN, .kinds = kinds}, jobs);
    if (asked->ops)
        add_wish(g, &(struct wish){.of = WISH_ALL}, jobs);
    for (unsigned i = 0; i < n; i++)
        add_wish(g, &(struct wish){.of = WISH_KIND, .format = lacking[i]}, jobs);
    free(lacking);
}

// One job alone is done here as fast.
static void begin(gpu *g, const struct asked *asked)
{
    struct jobs jobs = {.n = 0};
    if (!g->helper || !g->divided || !g->cache_folder || !cache_takes(g->cache_folder) ||
        sysconf(_SC_NPROCESSORS_ONLN) < 2)
        return;
    add_missing(g, asked, &jobs);
    if (jobs.n > 1)
        g->helpers = helpers_start(g->helper, (const char *const *)jobs.items, jobs.n);
    g->n_helped = g->helpers ? jobs.n : 0;
    release_jobs(&jobs);
}

static unsigned wait_for(gpu *g, const struct asked *asked, const struct gpu_options *options)
{
    char said[HELPER_SAID] = "they left nothing in the cache";
    struct jobs left = {.n = 0};
    unsigned n = g->n_helped, done = 0;
    if (!n)
        return 0;
    do
        if (options && options->progress)
            options->progress(options->progress_context, "kernels", done < n ? done : n, n);
    while (done++, helpers_next(g->helpers));
    unsigned failed = helpers_failed(g->helpers, said);
    helpers_release(g->helpers);
    g->helpers = NULL;
    g->n_helped = 0;
    add_missing(g, asked, &left);
    if (left.n && !*g->notice)
        snprintf(g->notice, sizeof g->notice, "kernels took longer to build, for %u of %u helpers failed: %s",
                 failed ? failed : left.n, n, said);
    release_jobs(&left);
    return n;
}

void jobs_begin(gpu *g, const struct gpu_options *options)
{
    begin(g, &(struct asked){true, options->formats, options->n_formats});
}

unsigned jobs_wait(gpu *g, const struct gpu_options *options)
{
    return wait_for(g, &(struct asked){true, options->formats, options->n_formats}, options);
}

void jobs_do_formats(gpu *g, const struct gpu_format *formats, unsigned n, const struct gpu_options *options)
{
    const struct asked asked = {false, formats, n};
    begin(g, &asked);
    wait_for(g, &asked, options);
}

// False: it is none.
static bool read_job(const char *job, struct wish *wish, struct gpu_options *options, enum gpu_shape *shape,
                     char selector[16])
{
    unsigned of, index, in_shape, mixers, flags;
    int folder = 0;
    *wish = (struct wish){0};
    if (sscanf(job, JOB_READ, &of, &wish->parts, &wish->format.kind, &wish->format.scale_type, &wish->format.uses,
               &wish->kinds, &index, &in_shape, &mixers, &flags, &folder) != JOB_NUMBERS ||
        !folder || !job[folder] || of > WISH_TOKEN || in_shape > GPU_SHAPE_GPU)
        return false;
    if (of == WISH_KIND && (!kind_info(wish->format.kind) || wish->format.scale_type > SCALE_F32))
        return false;
    wish->of = of == WISH_ALL ? WISH_ALL : of == WISH_KIND ? WISH_KIND : WISH_TOKEN;
    snprintf(selector, 16, "%u", index);
    *shape = (enum gpu_shape)in_shape;
    *options = (struct gpu_options){.selector = selector,
                                    .cache_dir = job + folder,
                                    .mixers = mixers,
                                    .always_cache = (flags & JOB_ALWAYS_CACHE) != 0,
                                    .warm_late = (flags & JOB_WARM_LATE) != 0,
                                    .map = (flags & JOB_MAP) != 0,
                                    .apart = (flags & JOB_APART) != 0,
                                    .divide = (flags & JOB_DIVIDE) != 0};
    return true;
}

int gpu_build(const char *job, struct gpu_error *err)
{
    struct wish wish;
    struct gpu_options options;
    enum gpu_shape shape;
    char selector[16];
    if (!read_job(job, &wish, &options, &shape, selector)) {
        gpu_error_set(err, GPU_ARGUMENT, 0, "\"%.80s\" is no job of building kernels", job);
        return GPU_ARGUMENT;
    }
    helper_follows();
    gpu *g = gpu_open_bare(&options, shape, err);
    int code = g && program_build(g, &wish, err) ? GPU_OK : (int)err->code;
    gpu_close(g);
    return code;
}
