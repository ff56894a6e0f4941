// SPDX-License-Identifier: GPL-3.0-or-later
// Laying out an expert store: slots within the budgets, files, readers, and how the disk is read best.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/experts/cache_plan.h"
#include "engine/experts/disk_probe.h"
#include "engine/base/err.h"
#include "engine/experts/expert_parts.h"

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
    uint64_t slot = store->slot_bytes;
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

static int plan(expert_store *store, const struct expert_store_options *options, struct cache_answer *answer,
                struct moe_err *err)
{
    const struct gpu_info *device = gpu_describe(store->g);
    const struct shape *s = &store->package->shape;
    uint64_t n_moe_layers = store->n_layers - store->first_moe_layer;
    uint64_t held = options->resident_bytes < device->global_bytes ? options->resident_bytes : device->global_bytes;
    struct cache_question question = {
        .slot_bytes = store->slot_bytes,
        .n_experts = n_moe_layers * store->n_experts,
        .per_dispatch = store->per_dispatch,
        .dispatches = options->dispatches ? options->dispatches : 1,
        .device_bytes = options->cache_bytes,
        .host_bytes = options->host_bytes,
        .host_left = gpu_host_memory_left(store->g),
        .two_tiers = two_tiers(store, options),
    };
    question.device_left = device->shares_host_memory ? question.host_left : device->global_bytes - held;
    if (device->maps_host_memory && question.host_left < question.device_left)
        question.device_left = question.host_left;
    int failed = cache_plan(&question, answer, err);
    if (failed)
        return failed;
    store->plan = (struct moe_cache_plan){
        .slots = answer->device_slots,
        .slot_bytes = store->slot_bytes,
        .smallest_bytes = cache_least(&question) * store->slot_bytes,
        .all = answer->device_slots == question.n_experts,
        .host_slots = answer->host_slots,
        .host_only_passes = answer->host_only_passes,
        .experts = question.n_experts,
        .token_experts = n_moe_layers * s->top_k,
        .per_layer = answer->device_slots < n_moe_layers * s->top_k,
        .resident_bytes = options->resident_bytes,
        .readers = options->readers ? options->readers : DEFAULT_READERS,
    };
    for (uint32_t layer = store->first_moe_layer; layer < store->n_layers; layer++)
        store->plan.cold_bytes += s->top_k * package_experts(store->package, layer)->blob_bytes;
    return MOE_OK;
}

static int open_tier(const expert_store *store, struct tier *tier, uint64_t n_slots, struct moe_err *err)
{
    struct cache_shape shape = {
        .n_slots = (uint32_t)n_slots,
        .n_layers = store->n_layers,
        .n_experts = store->n_experts,
        .n_moe_layers = store->n_layers - store->first_moe_layer,
        .top_k = store->package->shape.top_k,
        .shared_slots = store->per_dispatch,
    };
    return tier_open(tier, &shape, err);
}

// Chosen by itself, the cache is what the device really gives, less one slab for those who come after; one that was
// asked for is refused.
static bool make_do(expert_store *store, const struct expert_store_options *options)
{
    if (options->cache_bytes != MOE_CACHE_AUTO || store->n_device_slabs < 2)
        return false;
    gpu_buf_free(store->device_slabs[--store->n_device_slabs]);
    store->plan.slots = (uint64_t)store->n_device_slabs * store->device_slab_slots;
    store->plan.all = false;
    store->plan.per_layer = store->plan.slots < store->plan.token_experts;
    return store->plan.slots * store->slot_bytes >= store->plan.smallest_bytes;
}

static int make_device_slots(expert_store *store, const struct expert_store_options *options, struct moe_err *err)
{
    uint32_t n_slots = (uint32_t)store->plan.slots;
    uint64_t per_slab = store->maps ? 1 : gpu_describe(store->g)->max_alloc_bytes / store->slot_bytes;
    if (store->plan.all && per_slab >= store->n_experts)
        per_slab -= per_slab % store->n_experts; // layers lie whole, see expert_layer_stays
    store->device_slab_slots = per_slab < n_slots ? (uint32_t)per_slab : n_slots;
    store->device_slabs = calloc((n_slots - 1) / store->device_slab_slots + 1, sizeof *store->device_slabs);
    if (!store->device_slabs)
        return moe_fail(err, MOE_NO_MEMORY, "no memory for the table of %" PRIu32 " expert slots", n_slots);
    for (uint32_t left = n_slots; left;) {
        uint32_t here = left < store->device_slab_slots ? left : store->device_slab_slots;
        struct gpu_error device;
        gpu_buf *slab = gpu_buf_new_shared(store->g, here * store->slot_bytes, &device);
        if (slab) {
            store->device_slabs[store->n_device_slabs++] = slab;
            left -= here;
        } else if (make_do(store, options)) {
            left = 0;
        } else {
            return moe_fail(err, MOE_NO_MEMORY,
                            "no room for %" PRIu32 " expert slots of %" PRIu64
                            " bytes, try a smaller --expert-cache: %.248s",
                            n_slots, store->slot_bytes, device.text);
        }
    }
    return open_tier(store, &store->device, store->plan.slots, err);
}

static int make_host_slots(expert_store *store, struct moe_err *err)
{
    if (!store->plan.host_slots)
        return MOE_OK;
    uint64_t most = gpu_describe(store->g)->max_alloc_bytes;
    uint64_t per_slab = (most < HOST_SLAB_BYTES ? most : HOST_SLAB_BYTES) / store->slot_bytes;
    uint32_t n_slots = (uint32_t)store->plan.host_slots;
    store->host_slab_slots = !per_slab ? 1 : per_slab < n_slots ? (uint32_t)per_slab : n_slots;
    store->host_slabs = calloc((n_slots - 1) / store->host_slab_slots + 1, sizeof *store->host_slabs);
    if (!store->host_slabs)
        return moe_fail(err, MOE_NO_MEMORY, "no memory for the table of %" PRIu32 " host slots", n_slots);
    for (uint32_t left = n_slots; left; store->n_host_slabs++) {
        uint32_t here = left < store->host_slab_slots ? left : store->host_slab_slots;
        struct gpu_error device;
        void *slab = gpu_host_alloc(store->g, here * store->slot_bytes, &device);
        if (!slab)
            return moe_fail(err, MOE_NO_MEMORY,
                            "no page-locked memory for %" PRIu32 " experts of %" PRIu64
                            " bytes, try a smaller --host-cache or none: %.248s",
                            n_slots, store->slot_bytes, device.text);
        store->host_slabs[store->n_host_slabs] = slab;
        left -= here;
    }
    return open_tier(store, &store->host, n_slots, err);
}

static uint64_t probe(expert_store *store, bool direct, uint64_t seed)
{
    struct disk_probe disk = {.seed = seed};
    struct tier *tier = expert_has_host(store) ? &store->host : &store->device;
    flights_set_direct(&store->flights, direct);
    while (disk.n_targets < tier->n_slots && disk.n_targets < store->plan.readers && disk.n_targets < PROBE_TARGETS) {
        void *target = expert_open_target(store, &tier->slots[disk.n_targets]);
        if (!target)
            break;
        disk.targets[disk.n_targets++] = target;
    }
    uint64_t rate = disk_probe(&store->flights, &disk);
    while (disk.n_targets)
        expert_close_target(store, &tier->slots[--disk.n_targets]);
    return rate;
}

// The page cache is worth having when the whole model fits into it; else the faster way of the two is taken, and
// direct reads when they are about equal, since they leave the machine's memory alone.
static void choose_io(expert_store *store, const struct expert_store_options *options)
{
    if (options->read) // a test's reads: there is no disk to measure
        return;
    uint64_t all = store->plan.experts * store->slot_bytes;
    uint64_t left = gpu_host_memory_left(store->g);
    uint64_t ours = (expert_has_host(store) ? store->plan.host_slots : store->plan.slots) * store->slot_bytes;
    uint64_t direct_rate = probe(store, true, 1);
    bool refused = store->flights.refused > 0;
    bool direct = options->io == MOE_IO_DIRECT;
    if (options->io == MOE_IO_AUTO && !refused && !(all < left && ours < left - all)) {
        uint64_t buffered_rate = probe(store, false, 2);
        direct = direct_rate > buffered_rate / 10 * 9;
    }
    flights_set_direct(&store->flights, direct);
    store->plan.disk_bytes_per_s = direct_rate;
}

static int open_flights(expert_store *store, const struct expert_store_options *options, struct moe_err *err)
{
    struct tier *tier = expert_has_host(store) ? &store->host : &store->device;
    struct flights_options how = {
        .n_flights = tier->n_slots < MOST_FLIGHTS ? tier->n_slots : MOST_FLIGHTS,
        .readers = store->plan.readers,
        .direct = options->io == MOE_IO_DIRECT,
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
        .slot_bytes = store->slot_bytes,
    };
    snprintf(header.model, sizeof header.model, "%.24s", store->package->name);
    return trace_create(options->trace_file, &header, &store->trace, err);
}

int expert_store_open(gpu *g, const struct package *package, const struct expert_store_options *options,
                      expert_store **out, struct moe_err *err)
{
    *out = NULL;
    expert_store *store = calloc(1, sizeof *store);
    if (!store)
        return moe_fail(err, MOE_NO_MEMORY, "no memory for the expert store");
    store->g = g;
    store->package = package;
    store->slot_bytes = package_slot_bytes(package);
    store->least_copy = options->read_piece_bytes ? options->read_piece_bytes : LEAST_COPY;
    store->n_layers = package->shape.n_layers;
    store->n_experts = package->shape.n_routed_experts;
    store->first_moe_layer = package->shape.first_k_dense_replace;
    store->per_dispatch = package->shape.top_k;
    store->asked = calloc(store->n_experts, sizeof *store->asked);
    store->layers = calloc(store->n_layers, sizeof *store->layers);
    store->maps = gpu_describe(g)->maps_host_memory && !two_tiers(store, options);
    store->stays = calloc(store->n_layers, sizeof *store->stays);
    struct cache_answer answer;
    int failed = store->asked && store->layers && store->stays
                     ? MOE_OK
                     : moe_fail(err, MOE_NO_MEMORY, "no memory for the expert store");
    if (!failed)
        failed = check_shape(store, err);
    if (!failed)
        failed = plan(store, options, &answer, err);
    if (!failed)
        failed = make_device_slots(store, options, err);
    if (!failed)
        failed = make_host_slots(store, err);
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
    tier_close(&store->device);
    tier_close(&store->host);
    for (uint32_t i = 0; i < store->n_host_slabs; i++)
        gpu_host_free(store->g, store->host_slabs[i]);
    for (uint32_t i = 0; i < store->n_device_slabs; i++)
        gpu_buf_free(store->device_slabs[i]);
    free(store->host_slabs);
    free(store->device_slabs);
    free(store->stays);
    free(store->layers);
    free(store->asked);
    free(store);
}
