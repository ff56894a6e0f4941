// SPDX-License-Identifier: GPL-3.0-or-later
// Laying out an expert store: slots within the budgets, files, readers, and how the disk is read best.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/experts/cache_plan.h"
#include "engine/experts/disk_probe.h"
#include "engine/base/err.h"
#include "engine/experts/expert_parts.h"
#include "engine/files/spans.h"

enum { DEFAULT_READERS = 8, MOST_FLIGHTS = 64, SLOT_ALIGNMENT = 4096, LEAST_COPY = 1 << 20 };
#define HOST_SLAB_BYTES (UINT64_C(1) << 30)

static bool two_tiers(const expert_store *store, const struct expert_store_options *options)
{
    const struct gpu_info *device = gpu_describe(store->g);
    return options->force_two_tiers || !(device->shares_host_memory || device->maps_host_memory);
}

static int check_shape(const expert_store *store, struct moe_err *err)
{
    const struct shape *s = &store->package->shape;
    const struct gpu_info *device = gpu_describe(store->g);
    uint64_t slot = package_slot_bytes(store->package);
    if (store->first_moe_layer >= store->n_layers || !s->top_k || s->top_k > store->n_experts)
        return moe_fail(err, MOE_UNSUPPORTED, "the model has no routed experts");
    if (!slot || slot % SLOT_ALIGNMENT || slot > SIZE_MAX)
        return moe_fail(err, MOE_FORMAT, "experts of %" PRIu64 " bytes: not a multiple of %d", slot, SLOT_ALIGNMENT);
    if (slot > device->max_alloc_bytes)
        return moe_fail(err, MOE_NO_MEMORY,
                        "one expert takes %" PRIu64 " bytes, %s allows allocations of %" PRIu64
                        "; choose another device",
                        slot, device->name, device->max_alloc_bytes);
    uint64_t experts = (uint64_t)(store->n_layers - store->first_moe_layer) * store->n_experts;
    if (experts >= CACHE_NO_SLOT)
        return moe_fail(err, MOE_UNSUPPORTED, "%" PRIu64 " experts are too many", experts);
    return MOE_OK;
}

// Which size each layer's experts are for.
static int make_classes(expert_store *store, const struct cache_size *sizes, uint32_t n, struct moe_err *err)
{
    free(store->classes);
    store->classes = calloc(n, sizeof *store->classes);
    store->n_classes = store->classes ? n : 0;
    if (!store->classes)
        return moe_fail(err, MOE_NO_MEMORY, "no memory for the expert store");
    for (uint32_t i = 0; i < n; i++)
        store->classes[i].slot_bytes = sizes[i].slot_bytes;
    for (uint32_t layer = store->first_moe_layer; layer < store->n_layers; layer++) {
        store->layer_class[layer] = n == 1 ? 0 : store->layer_class[layer];
        store->layer_rank[layer] = store->classes[store->layer_class[layer]].n_layers++;
    }
    return MOE_OK;
}

// What the budgets give, in slots of as many sizes as are worth while, or of one where they are too small for that.
static int plan_sizes(expert_store *store, struct cache_question *question, struct cache_answer *answer,
                      struct cache_size sizes[CACHE_SIZES], struct moe_err *err)
{
    uint64_t *bytes = calloc(store->n_layers, sizeof *bytes);
    if (!bytes)
        return moe_fail(err, MOE_NO_MEMORY, "no memory for the expert store");
    for (uint32_t layer = store->first_moe_layer; layer < store->n_layers; layer++)
        bytes[layer] = package_experts(store->package, layer)->blob_bytes;
    uint32_t n = cache_sizes(bytes, store->n_layers, store->n_experts, sizes, store->layer_class);
    free(bytes);
    for (;;) {
        question->slot_bytes = cache_mean(sizes, n);
        int failed = cache_plan(question, answer, err);
        if (!failed && cache_share(question, answer, sizes, n))
            return make_classes(store, sizes, n, err);
        if (n == 1 || (failed && failed != MOE_BUDGET))
            return failed;
        sizes[0] = (struct cache_size){.slot_bytes = sizes[n - 1].slot_bytes, .n_experts = question->n_experts};
        n = 1;
    }
}

static void set_aside(uint64_t *left, uint64_t bytes)
{
    *left -= bytes < *left ? bytes : *left;
}

static int fail_set_aside(uint64_t bytes, uint64_t left, struct moe_err *err)
{
    return moe_fail(err, MOE_NO_MEMORY,
                    "a conversation would take %" PRIu64 " MiB, and %" PRIu64
                    " MiB are free beside the weights: give a smaller --context, or --kv f16",
                    bytes >> 20, left >> 20);
}

static int plan(expert_store *store, const struct expert_store_options *options, uint64_t cache_bytes,
                struct cache_size sizes[CACHE_SIZES], struct moe_err *err)
{
    const struct gpu_info *device = gpu_describe(store->g);
    const struct shape *s = &store->package->shape;
    uint64_t n_moe_layers = store->n_layers - store->first_moe_layer;
    uint64_t held = options->resident_bytes < device->global_bytes ? options->resident_bytes : device->global_bytes;
    struct cache_answer answer;
    struct cache_question question = {
        .n_experts = n_moe_layers * store->n_experts,
        .per_dispatch = store->per_dispatch,
        .dispatches = options->dispatches ? options->dispatches : 1,
        .device_bytes = cache_bytes,
        .host_bytes = options->host_bytes,
        .host_left = gpu_host_memory_left(store->g),
        .two_tiers = two_tiers(store, options),
    };
    bool shares = device->shares_host_memory;
    set_aside(&question.host_left, options->host_set_aside);
    question.device_left = shares ? question.host_left : device->global_bytes - held;
    if (options->device_set_aside > question.device_left)
        return fail_set_aside(options->device_set_aside, question.device_left, err);
    set_aside(shares ? &question.host_left : &question.device_left, options->device_set_aside);
    if (shares)
        question.device_left = question.host_left;
    if (device->maps_host_memory && question.host_left < question.device_left)
        question.device_left = question.host_left;
    int failed = plan_sizes(store, &question, &answer, sizes, err);
    if (failed)
        return failed;
    store->plan = (struct moe_cache_plan){
        .slots = answer.device_slots,
        .slot_bytes = question.slot_bytes,
        .smallest_bytes = cache_least(&question) * package_slot_bytes(store->package),
        .all = answer.device_slots == question.n_experts,
        .host_slots = answer.host_slots,
        .host_only_passes = answer.host_only_passes,
        .experts = question.n_experts,
        .token_experts = n_moe_layers * s->top_k,
        .per_layer = answer.device_slots < n_moe_layers * s->top_k,
        .resident_bytes = options->resident_bytes,
        .free_bytes = question.device_left,
        .readers = options->readers ? options->readers : DEFAULT_READERS,
    };
    for (uint32_t i = 0; i < store->n_classes; i++) {
        store->plan.cache_bytes += sizes[i].device_slots * sizes[i].slot_bytes;
        store->plan.host_cache_bytes += sizes[i].host_slots * sizes[i].slot_bytes;
    }
    for (uint32_t layer = store->first_moe_layer; layer < store->n_layers; layer++)
        store->plan.cold_bytes += s->top_k * spans_bytes(&store->package->layers[layer]);
    return MOE_OK;
}

static int open_tier(const expert_store *store, const struct size_class *size, struct tier *tier, uint64_t n_slots,
                     struct moe_err *err)
{
    struct cache_shape shape = {
        .n_slots = (uint32_t)n_slots,
        .n_layers = store->n_layers,
        .n_experts = store->n_experts,
        .n_moe_layers = size->n_layers,
        .layer_rank = store->layer_rank,
        .top_k = store->package->shape.top_k,
        .shared_slots = store->per_dispatch,
    };
    int failed = tier_open(tier, &shape, err);
    for (uint32_t i = 0; i < tier->n_slots; i++)
        tier->slots[i].size_class = (uint32_t)(size - store->classes);
    return failed;
}

static uint64_t free_device_slabs(expert_store *store)
{
    uint64_t last = 0;
    for (uint32_t p = 0; p < store->n_classes; p++) {
        struct size_class *size = &store->classes[p];
        for (uint32_t i = 0; i < size->n_device_slabs; i++) {
            last = gpu_buf_bytes(size->device_slabs[i]);
            gpu_buf_free(size->device_slabs[i]);
        }
        free(size->device_slabs);
        size->device_slabs = NULL;
        size->n_device_slabs = 0;
    }
    return last;
}

// MOE_NO_MEMORY: the device gave *given bytes and no more.
static int make_device_slabs(expert_store *store, struct size_class *size, uint32_t n_slots, uint64_t *given,
                             struct moe_err *err)
{
    uint64_t per_slab = store->maps ? 1 : gpu_describe(store->g)->max_alloc_bytes / size->slot_bytes;
    if (store->plan.all && per_slab >= store->n_experts)
        per_slab -= per_slab % store->n_experts; // layers lie whole, see expert_layer_stays
    size->device_slab_slots = per_slab < n_slots ? (uint32_t)per_slab : n_slots;
    size->device_slabs = calloc((n_slots - 1) / size->device_slab_slots + 1, sizeof *size->device_slabs);
    if (!size->device_slabs)
        return moe_fail(err, MOE_NO_MEMORY, "no memory for the table of %" PRIu32 " expert slots", n_slots);
    for (uint32_t left = n_slots; left;) {
        uint32_t here = left < size->device_slab_slots ? left : size->device_slab_slots;
        struct gpu_error device;
        gpu_buf *slab = gpu_buf_new_shared(store->g, here * size->slot_bytes, &device);
        if (!slab)
            return moe_fail(err, MOE_NO_MEMORY,
                            "no room for %" PRIu64 " expert slots of %" PRIu64
                            " bytes, try a smaller --expert-cache: %.248s",
                            store->plan.slots, store->plan.slot_bytes, device.text);
        size->device_slabs[size->n_device_slabs++] = slab;
        *given += here * size->slot_bytes;
        left -= here;
    }
    return MOE_OK;
}

// Chosen by itself, the cache is what the device really gives, less one slab for those who come after; one that was
// asked for is refused.
static int make_device_slots(expert_store *store, const struct expert_store_options *options,
                             struct cache_size sizes[CACHE_SIZES], struct moe_err *err)
{
    int failed;
    do {
        uint64_t given = 0;
        failed = MOE_OK;
        for (uint32_t i = 0; i < store->n_classes && !failed; i++)
            failed = make_device_slabs(store, &store->classes[i], (uint32_t)sizes[i].device_slots, &given, err);
        if (!failed)
            break;
        given -= free_device_slabs(store);
        if (options->cache_bytes != MOE_CACHE_AUTO || given < store->plan.smallest_bytes)
            return failed;
        failed = plan(store, options, given, sizes, err);
    } while (!failed);
    for (uint32_t i = 0; i < store->n_classes && !failed; i++)
        failed = open_tier(store, &store->classes[i], &store->classes[i].device, sizes[i].device_slots, err);
    return failed;
}

static int make_host_slots(expert_store *store, struct size_class *size, uint32_t n_slots, struct moe_err *err)
{
    if (!n_slots)
        return MOE_OK;
    uint64_t most = gpu_describe(store->g)->max_alloc_bytes;
    uint64_t per_slab = (most < HOST_SLAB_BYTES ? most : HOST_SLAB_BYTES) / size->slot_bytes;
    size->host_slab_slots = !per_slab ? 1 : per_slab < n_slots ? (uint32_t)per_slab : n_slots;
    size->host_slabs = calloc((n_slots - 1) / size->host_slab_slots + 1, sizeof *size->host_slabs);
    if (!size->host_slabs)
        return moe_fail(err, MOE_NO_MEMORY, "no memory for the table of %" PRIu32 " host slots", n_slots);
    for (uint32_t left = n_slots; left; size->n_host_slabs++) {
        uint32_t here = left < size->host_slab_slots ? left : size->host_slab_slots;
        struct gpu_error device;
        void *slab = gpu_host_alloc(store->g, here * size->slot_bytes, &device);
        if (!slab)
            return moe_fail(err, MOE_NO_MEMORY,
                            "no page-locked memory for %" PRIu32 " experts of %" PRIu64
                            " bytes, try a smaller --host-cache or none: %.248s",
                            n_slots, size->slot_bytes, device.text);
        size->host_slabs[size->n_host_slabs] = slab;
        left -= here;
    }
    return open_tier(store, size, &size->host, n_slots, err);
}

static struct disk_probed probe(expert_store *store, bool direct, uint64_t seed)
{
    struct disk_probe disk = {.seed = seed};
    struct tier *tier = expert_read_tier(store, &store->classes[store->n_classes - 1]); // any expert fits there
    flights_set_direct(&store->flights, direct);
    while (disk.n_targets < tier->n_slots && disk.n_targets < store->plan.readers && disk.n_targets < PROBE_TARGETS) {
        void *target = expert_open_target(store, &tier->slots[disk.n_targets]);
        if (!target)
            break;
        disk.targets[disk.n_targets++] = target;
    }
    struct disk_probed probed = disk_probe(&store->flights, &disk);
    while (disk.n_targets)
        expert_close_target(store, &tier->slots[--disk.n_targets]);
    return probed;
}

// The page cache is worth having when the whole model fits into it; else the faster way of the two is taken, and
// direct reads when they are about equal, since they leave the machine's memory alone.
static void choose_io(expert_store *store, const struct expert_store_options *options)
{
    if (options->read) // a test's reads: there is no disk to measure
        return;
    uint64_t all = store->plan.experts * store->plan.slot_bytes;
    uint64_t left = gpu_host_memory_left(store->g);
    uint64_t ours = expert_has_host(store) ? store->plan.host_cache_bytes : store->plan.cache_bytes;
    struct disk_probed past_cache = probe(store, true, 1);
    uint64_t direct_rate = past_cache.bytes_per_s;
    bool refused = store->flights.refused > 0;
    bool direct = options->io == MOE_IO_DIRECT;
    if (options->io == MOE_IO_AUTO && !refused && !(all < left && ours < left - all)) {
        uint64_t buffered_rate = probe(store, false, 2).bytes_per_s;
        direct = direct_rate > buffered_rate / 10 * 9;
    }
    flights_set_direct(&store->flights, direct);
    store->plan.probed_bytes_per_s = direct_rate;
    store->plan.disk_doubt = disk_probe_doubt(&past_cache, all);
    store->plan.disk_bytes_per_s = store->plan.disk_doubt ? 0 : direct_rate;
}

static int open_flights(expert_store *store, const struct expert_store_options *options, struct moe_err *err)
{
    uint64_t slots = expert_has_host(store) ? store->plan.host_slots : store->plan.slots;
    struct flights_options how = {
        .n_flights = slots < MOST_FLIGHTS ? (uint32_t)slots : MOST_FLIGHTS,
        .readers = store->plan.readers,
        .direct = options->io == MOE_IO_DIRECT,
        .watches = expert_has_host(store) && sysconf(_SC_NPROCESSORS_ONLN) > (long)store->plan.readers,
        .piece_bytes = options->read_piece_bytes,
        .read = options->read,
        .read_context = options->read_context,
    };
    int failed = flights_open(&store->flights, store->package, &how, err);
    if (failed)
        return failed;
    choose_io(store, options);
    store->writes_back = options->write_back == MOE_WRITE_BACK_ON ||
                         (options->write_back == MOE_WRITE_BACK_AUTO && store->flights.direct);
    store->writes_back = store->writes_back && expert_has_host(store) && !store->plan.host_only_passes;
    store->plan.direct = store->flights.direct && !store->flights.refused;
    store->plan.direct_refused = options->io == MOE_IO_DIRECT && store->flights.refused;
    return MOE_OK;
}

static int open_trace(expert_store *store, const struct expert_store_options *options, struct moe_err *err)
{
    if (!options->trace_file)
        return MOE_OK;
    struct trace_header header = {
        .n_layers = store->n_layers,
        .first_moe_layer = store->first_moe_layer,
        .n_routed_experts = store->n_experts,
        .top_k = store->package->shape.top_k,
        .slot_bytes = store->plan.slot_bytes,
    };
    snprintf(header.model, sizeof header.model, "%.24s", store->package->name);
    return trace_create(options->trace_file, &header, &store->trace, err);
}

// A store's plan: its slots' sizes, no slot is there yet. On failure, too, the caller closes the store.
static int plan_store(gpu *g, const struct package *package, const struct expert_store_options *options,
                      struct cache_size sizes[CACHE_SIZES], expert_store **out, struct moe_err *err)
{
    expert_store *store = *out = calloc(1, sizeof *store);
    if (!store)
        return moe_fail(err, MOE_NO_MEMORY, "no memory for the expert store");
    store->g = g;
    store->package = package;
    store->least_copy = options->read_piece_bytes ? options->read_piece_bytes : LEAST_COPY;
    store->n_layers = package->shape.n_layers;
    store->n_experts = package->shape.n_routed_experts;
    store->first_moe_layer = package->shape.first_k_dense_replace;
    store->per_dispatch = package->shape.top_k;
    store->asked = calloc(store->n_experts, sizeof *store->asked);
    store->layers = calloc(store->n_layers, sizeof *store->layers);
    store->maps = gpu_describe(g)->maps_host_memory && !two_tiers(store, options);
    store->stays = calloc(store->n_layers, sizeof *store->stays);
    store->layer_class = calloc(store->n_layers, sizeof *store->layer_class);
    store->layer_rank = calloc(store->n_layers, sizeof *store->layer_rank);
    int failed = store->asked && store->layers && store->stays && store->layer_class && store->layer_rank
                     ? MOE_OK
                     : moe_fail(err, MOE_NO_MEMORY, "no memory for the expert store");
    if (!failed)
        failed = check_shape(store, err);
    if (!failed)
        failed = plan(store, options, options->cache_bytes, sizes, err);
    return failed;
}

int expert_store_foresee(gpu *g, const struct shape *shape, uint64_t expert_bytes,
                         const struct expert_store_options *options, struct moe_cache_plan *plan, struct moe_err *err)
{
    struct package *package = calloc(1, sizeof *package);
    if (package)
        package->layers = calloc(shape->n_layers, sizeof *package->layers);
    if (!package || !package->layers) {
        free(package);
        return moe_fail(err, MOE_NO_MEMORY, "no memory for the expert store");
    }
    package->shape = *shape;
    for (uint32_t i = shape->first_k_dense_replace; i < shape->n_layers; i++)
        package->layers[i] = (struct package_layer){
            .experts.blob_bytes = (expert_bytes + SLOT_ALIGNMENT - 1) / SLOT_ALIGNMENT * SLOT_ALIGNMENT,
            .n_spans = 1,
            .spans[0].bytes = expert_bytes,
        };
    struct cache_size sizes[CACHE_SIZES];
    expert_store *store;
    int failed = plan_store(g, package, options, sizes, &store, err);
    if (!failed) {
        *plan = store->plan;
        plan->foreseen = true;
    }
    expert_store_close(store);
    free(package->layers);
    free(package);
    return failed;
}

int expert_store_open(gpu *g, const struct package *package, const struct expert_store_options *options,
                      expert_store **out, struct moe_err *err)
{
    *out = NULL;
    struct cache_size sizes[CACHE_SIZES];
    expert_store *store;
    int failed = plan_store(g, package, options, sizes, &store, err);
    if (!failed)
        failed = make_device_slots(store, options, sizes, err);
    for (uint32_t i = 0; i < store->n_classes && !failed; i++)
        failed = make_host_slots(store, &store->classes[i], (uint32_t)sizes[i].host_slots, err);
    if (!failed)
        failed = open_flights(store, options, err);
    if (!failed)
        failed = open_trace(store, options, err);
    if (failed)
        expert_store_close(store);
    else
        *out = store;
    return failed;
}

int expert_store_end_trace(expert_store *store, struct moe_err *err)
{
    int failed = trace_finish(store->trace, err);
    store->trace = NULL;
    return failed;
}

void expert_store_close(expert_store *store)
{
    if (!store)
        return;
    trace_finish(store->trace, NULL);
    flights_close(&store->flights); // first: readers write into what is freed below
    for (uint32_t p = 0; p < store->n_classes; p++) {
        struct size_class *size = &store->classes[p];
        tier_close(&size->device);
        tier_close(&size->host);
        for (uint32_t i = 0; i < size->n_host_slabs; i++)
            gpu_host_free(store->g, size->host_slabs[i]);
        free(size->host_slabs);
    }
    free_device_slabs(store);
    free(store->classes);
    free(store->layer_rank);
    free(store->layer_class);
    free(store->stays);
    free(store->layers);
    free(store->asked);
    free(store);
}
