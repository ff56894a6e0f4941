// SPDX-License-Identifier: GPL-3.0-or-later
// Opens a model: package, device, weights, expert store.
#include "engine/model/model.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/amounts.h"
#include "engine/base/err.h"
#include "engine/files/verify.h"
#include "engine/model/context_plan.h"
#include "engine/model/formats.h"
#include "engine/walk/memory.h"
#include "engine/walk/ring.h"
#include "engine/walk/scratch.h"

// The device's progress, in the engine's words.
struct device_progress {
    moe_progress_fn *report;
    void *context;
};

static void device_progress(void *context, const char *kernel, unsigned done, unsigned total)
{
    (void)kernel; // one activity under one name, else each step looks like a new one
    struct device_progress *to = context;
    struct moe_progress progress = {.what = "building kernels", .unit = "steps", .done = done, .total = total};
    if (total)
        to->report(to->context, &progress);
}

// What its layers mix tokens with, as kernels are asked for.
static unsigned mixers_of(const struct shape *s)
{
    static const unsigned uses[LAYER_KINDS] = {
        [LAYER_MLA] = USE_LATENT | USE_HEADS | USE_KEYS,
        [LAYER_GQA] = USE_GROUPS,
        [LAYER_GDN] = USE_STATES,
        [LAYER_KDA] = USE_STATES,
        [LAYER_DSA] = USE_LATENT | USE_HEADS | USE_KEYS | USE_LISTS,
        [LAYER_DSA_SHARED] = USE_LATENT | USE_HEADS | USE_KEYS | USE_LISTS,
    };
    unsigned all = (s->bank_every ? USE_BANK : 0) | (s->hyper.n_streams ? USE_HYPER : 0);
    for (uint32_t i = 0; i < s->n_layers; i++)
        all |= uses[shape_layer_kind(s, i)];
    return all;
}

// What open_formats will ask for, before there is a device: its helpers need not wait for weights.
static int foresee_formats(const moe_model *model, struct formats *formats, struct moe_err *err)
{
    struct weights_source source = {.package = &model->package};
    struct weights unread;
    int code = weights_load(NULL, &source, &unread, err);
    if (!code)
        formats_of(&model->package, &unread, formats);
    weights_release(&unread);
    return code;
}

static int open_device(moe_model *model, const struct moe_model_options *options, struct moe_err *err)
{
    struct device_progress to = {options->progress, options->progress_context};
    struct formats formats = {.n = 0};
    int code = options->kernel_helper ? foresee_formats(model, &formats, err) : MOE_OK;
    if (code)
        return code;
    struct gpu_options device = {
        .selector = options->device,
        .cache_dir = options->kernel_cache_dir,
        .helper = options->kernel_helper,
        .formats = formats.items,
        .n_formats = formats.n,
        .progress = options->progress ? device_progress : NULL,
        .progress_context = &to,
        .mixers = mixers_of(&model->package.shape),
        .nice_value = options->nice_value,
        .map = options->force_mapping,
        .profile = options->profile,
    };
    struct gpu_error failure;
    model->gpu = gpu_open(&device, &failure);
    return model->gpu ? MOE_OK : moe_fail_gpu(err, &failure);
}

// Kernels for the kinds of matrices that the model has.
static int open_formats(moe_model *model, const struct moe_model_options *options, struct moe_err *err)
{
    struct device_progress to = {options->progress, options->progress_context};
    struct gpu_options device = {.progress = options->progress ? device_progress : NULL, .progress_context = &to};
    struct gpu_error failure;
    struct formats formats;
    formats_of(&model->package, &model->weights, &formats);
    return gpu_open_formats(model->gpu, formats.items, formats.n, &device, &failure) ? moe_fail_gpu(err, &failure)
                                                                                     : MOE_OK;
}

static uint32_t model_ring(const struct moe_model_options *options)
{
    return options->ring ? options->ring : RING_DEPTH;
}

static int check_ring(moe_model *model, const struct moe_model_options *options, struct moe_err *err)
{
    model->ring = model_ring(options);
    if (model->ring <= RING_DEPTH)
        return MOE_OK;
    return moe_fail(err, MOE_BAD_ARGUMENT, "at most %d layers' experts can be in flight, not %u", RING_DEPTH,
                    model->ring);
}

// A session's states and the copies of them that it keeps.
static void plan_states(moe_model *model)
{
    model->state_bytes = memory_state_bytes(&model->package.shape);
    if (model->state_bytes)
        model->snapshots = (uint32_t)memory_copies(model->state_bytes, gpu_host_memory_left(model->gpu));
}

// That a token of a conversation takes: its rows, and what layers need to choose among all of them.
static uint64_t token_bytes(const struct shape *shape, enum moe_kv_type type)
{
    return memory_row_bytes(shape, type) + scratch_position_bytes(shape);
}

uint32_t model_context(const moe_model *model, enum moe_kv_type type)
{
    const struct shape *shape = &model->package.shape;
    const struct moe_cache_plan *plan = &model->plan;
    uint64_t widest = memory_widest_row(shape, type), chosen = scratch_position_bytes(shape);
    struct context_question question = {
        .free_bytes = plan->free_bytes,
        .cache_bytes = plan->cache_bytes,
        .all_cached = plan->all,
        .row_bytes = token_bytes(shape, type),
        .array_bytes = widest > chosen ? widest : chosen,
        .alloc_bytes = gpu_describe(model->gpu)->max_alloc_bytes,
        .limit = shape->max_position_embeddings,
    };
    return plan->context_chosen ? context_choose(&question) : plan->context;
}

// What the store's plan does not say, and the room for a conversation in what that leaves.
static void complete_plan(moe_model *model, const struct moe_model_options *options)
{
    struct moe_cache_plan *plan = &model->plan;
    plan->state_bytes = model->state_bytes;
    plan->snapshot_bytes = model->snapshots * model->state_bytes;
    plan->row_bytes = memory_row_bytes(&model->package.shape, options->kv_type);
    plan->context = options->context;
    plan->context_chosen = !options->context;
    plan->context = model_context(model, options->kv_type);
}

static int check_context(uint32_t limit, uint32_t context, struct moe_err *err)
{
    if (context <= limit)
        return MOE_OK;
    return moe_fail(err, MOE_BAD_ARGUMENT,
                    "a context of %u tokens is over the model's limit of %u (max_position_embeddings)", context, limit);
}

int moe_check_context(const struct moe_description *about, uint32_t context, struct moe_err *err)
{
    return check_context(about->max_position_embeddings, context, err);
}

int model_check_context(const moe_model *model, uint32_t context, struct moe_err *err)
{
    return check_context(model->package.shape.max_position_embeddings, context, err);
}

static struct expert_store_options store_options(const moe_model *model, const struct moe_model_options *options)
{
    return (struct expert_store_options){
        .cache_bytes = options->expert_cache_bytes,
        .host_bytes = options->host_cache_bytes,
        .readers = options->readers,
        .read_piece_bytes = options->read_piece_bytes,
        .write_back = options->write_back,
        .io = options->io,
        .read = options->read,
        .read_context = options->read_context,
        .force_two_tiers = options->force_two_tiers,
        .trace_file = options->trace_file,
        .dispatches = model_ring(options),
        .resident_bytes = model->description.resident_bytes,
        .host_set_aside = model->snapshots * model->state_bytes,
        .device_set_aside =
            2 * model->state_bytes + options->context * token_bytes(&model->package.shape, options->kv_type),
    };
}

// `unread`: weights that would lie in the host's memory, were they there.
static int open_store(moe_model *model, const struct moe_model_options *options, uint64_t unread, struct moe_err *err)
{
    plan_states(model);
    struct expert_store_options store = store_options(model, options);
    store.host_set_aside += unread;
    int code = model_check_context(model, options->context, err);
    if (!code)
        code = expert_store_open(model->gpu, &model->package, &store, &model->store, err);
    if (code)
        return code;
    model->plan = expert_store_plan(model->store);
    complete_plan(model, options);
    return MOE_OK;
}

// As open_store, of weights that are not there as they will be: the description says what they will take.
static int foresee_store(moe_model *model, const struct moe_model_options *options, struct moe_err *err)
{
    plan_states(model);
    struct expert_store_options store = store_options(model, options);
    store.host_set_aside += model->description.resident_bytes;
    int code = model_check_context(model, options->context, err);
    if (!code)
        code = expert_store_foresee(model->gpu, &model->package.shape, model->description.expert_bytes, &store,
                                    &model->plan, err);
    if (!code)
        complete_plan(model, options);
    return code;
}

// As it is spoken: a bf16, a float32, an fp8 checkpoint, an MLX folder.
static const char *article(const char *layout)
{
    return strncmp(layout, "bf", 2) == 0 || strncmp(layout, "float", 5) == 0 ? "a" : "an";
}

int moe_model_open(const char *directory, const struct moe_model_options *options, moe_model **out, struct moe_err *err)
{
    *out = NULL;
    moe_model *model = calloc(1, sizeof *model);
    if (!model)
        return moe_fail(err, MOE_NO_MEMORY, "no memory to open %s", directory);
    int code = check_ring(model, options, err);
    if (!code)
        code = weights_open_package(directory, &model->package, err);
    if (!code)
        code = package_describe(&model->package, &model->description, err);
    char bytes[AMOUNT_SIZE];
    if (!code && !model->description.runs)
        code = moe_fail(err, MOE_UNSUPPORTED,
                        "%.200s is %s %s, which must be converted first: moechat convert DIR NEWDIR (%s)", directory,
                        article(model->description.layout), model->description.layout,
                        amount_of_bytes(bytes, model->description.package_bytes));
    if (!code)
        code = verify_no_holes(&model->package, err);
    if (!code)
        code = open_device(model, options, err);
    struct weights_source source = {&model->package, options->progress, options->progress_context};
    if (!code)
        code = weights_load(model->gpu, &source, &model->weights, err);
    if (!code)
        code = open_formats(model, options, err);
    if (!code)
        code = open_store(model, options, 0, err);
    if (code)
        moe_model_close(model);
    else
        *out = model;
    return code;
}

void moe_model_close(moe_model *model)
{
    if (!model)
        return;
    assert(model->n_sessions == 0);
    expert_store_close(model->store);
    weights_release(&model->weights);
    gpu_close(model->gpu);
    package_release(&model->package);
    free(model);
}

int moe_model_end_trace(moe_model *model, struct moe_err *err)
{
    return expert_store_end_trace(model->store, err);
}

const struct moe_description *moe_model_describe(const moe_model *model)
{
    return &model->description;
}

const char *moe_model_device(const moe_model *model)
{
    return gpu_describe(model->gpu)->name;
}

const char *moe_model_notice(const moe_model *model)
{
    return gpu_notice(model->gpu);
}

unsigned moe_model_profile(const moe_model *model, struct moe_kernel_time *times, unsigned max)
{
    struct gpu_kernel_time kernels[64];
    unsigned n = gpu_profile(model->gpu, kernels, max < 64 ? max : 64);
    for (unsigned i = 0; i < n; i++)
        times[i] = (struct moe_kernel_time){kernels[i].name, kernels[i].launches, kernels[i].ns};
    return n;
}

struct moe_cache_plan moe_model_cache(const moe_model *model)
{
    return model->plan;
}

void moe_model_tiers(const moe_model *model, uint8_t *tiers)
{
    expert_store_tiers(model->store, tiers);
}

// Host memory's plan, of a package of which the shape is known and a description.
static int plan_here(moe_model *model, const struct moe_model_options *options, struct moe_err *err)
{
    struct moe_model_options plain = *options;
    bool runs = model->description.runs;
    plain.device = "ref";
    if (!runs)
        plain.kernel_helper = NULL; // would look for weights
    int code = open_device(model, &plain, err);
    if (code)
        return code;
    return runs ? open_store(model, options, model->description.resident_bytes, err)
                : foresee_store(model, options, err);
}

int moe_plan(const char *directory, const struct moe_model_options *options, struct moe_cache_plan *plan,
             struct moe_err *err)
{
    moe_model *model = calloc(1, sizeof *model);
    if (!model)
        return moe_fail(err, MOE_NO_MEMORY, "no memory to open %s", directory);
    int code = check_ring(model, options, err);
    if (!code)
        code = weights_open_package(directory, &model->package, err);
    if (!code)
        code = package_describe(&model->package, &model->description, err);
    if (!code)
        code = plan_here(model, options, err);
    if (!code)
        *plan = model->plan;
    moe_model_close(model);
    return code;
}

int moe_plan_foreseen(const char *path, const struct moe_model_options *options, struct moe_cache_plan *plan,
                      struct moe_err *err)
{
    moe_model *model = calloc(1, sizeof *model);
    if (!model)
        return moe_fail(err, MOE_NO_MEMORY, "no memory to tell of %s", path);
    int code = check_ring(model, options, err);
    if (!code)
        code = foresee_shape(path, &model->description, &model->package.shape, err);
    if (!code)
        code = plan_here(model, options, err);
    if (!code)
        *plan = model->plan;
    moe_model_close(model);
    return code;
}
