// SPDX-License-Identifier: GPL-3.0-or-later
// Experts on their way to the device: from a file into the host's slot, from there by a copy; or from the file into the
// device's slot at once.
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/experts/expert_parts.h"

#define WATCH_NS 1000000u // of a copy: 50 MB

gpu_buf *expert_device_place(const expert_store *store, const struct slot *slot, uint64_t *offset)
{
    const struct size_class *size = class_of(store, slot);
    uint32_t index = tier_index(&size->device, slot);
    *offset = index % size->device_slab_slots * size->slot_bytes;
    return size->device_slabs[index / size->device_slab_slots];
}

void *expert_host_place(const expert_store *store, const struct slot *slot)
{
    const struct size_class *size = class_of(store, slot);
    uint32_t index = tier_index(&size->host, slot);
    return (char *)size->host_slabs[index / size->host_slab_slots] + index % size->host_slab_slots * size->slot_bytes;
}

void *expert_open_target(expert_store *store, const struct slot *slot)
{
    if (expert_has_host(store))
        return expert_host_place(store, slot);
    uint64_t offset;
    char *target = gpu_map(store->g, expert_device_place(store, slot, &offset));
    return target ? target + offset : NULL;
}

void expert_close_target(expert_store *store, struct slot *slot)
{
    uint64_t offset;
    if (store->maps)
        slot->copy = gpu_unmap(store->g, expert_device_place(store, slot, &offset));
}

void expert_take(expert_store *store, struct tier *tier, struct slot *slot, uint32_t key)
{
    if (slot->state == SLOT_READY) {
        store->evictions += tier == &class_of(store, slot)->device;
        store->layers[slot->key / store->n_experts].wasted += slot->prefetched;
    }
    tier_take(tier, slot, key);
}

void expert_became_ready(expert_store *store, struct slot *slot)
{
    slot_arrive(slot, ++store->arrivals);
}

// A device slot is done with the host slot that it waited for.
static void let_go_of_source(expert_store *store, struct slot *slot)
{
    struct slot *source = slot->source;
    slot->source = NULL;
    if (!source || !tier_unpin(&class_of(store, slot)->host, source))
        return;
    if (!slot_is_loading(source))
        tier_free(&class_of(store, slot)->host, source);
}

uint64_t expert_blob_bytes(const expert_store *store, const struct slot *slot)
{
    return package_experts(store->package, slot->key / store->n_experts)->blob_bytes;
}

// Of a source that is being read some copies may have begun.
static void await_copies(expert_store *store, const struct slot *slot)
{
    if (slot->copied)
        gpu_copy_wait(store->g, slot->copy);
}

static void clear_copy(expert_store *store, struct slot *slot)
{
    let_go_of_source(store, slot);
    tier_clear(&class_of(store, slot)->device, slot);
}

// The device lost a command and doesn't say which: nothing that was on its way between the tiers counts as arrived, and
// what was begun is copied again. The error goes to whoever can be told; else it stays there.
static int lose_copies(expert_store *store, struct moe_err *err)
{
    gpu_copy_wait(store->g, store->last_copy);
    expert_end_write_backs(store);
    while (store->copying.first)
        clear_copy(store, store->copying.first);
    for (uint32_t p = 0; p < store->n_classes; p++)
        for (uint32_t i = 0; i < store->classes[p].device.n_slots; i++)
            store->classes[p].device.slots[i].copied = 0;
    struct gpu_error device;
    if (err == &store->untold)
        return MOE_DEVICE;
    gpu_check(store->g, &device);
    return moe_fail_gpu(err, &device);
}

// What the device says of a copy.
static int end_copy(expert_store *store, struct slot *slot, struct moe_err *err)
{
    if (gpu_failed(store->g)) {
        int failed = lose_copies(store, err);
        if (slot->state == SLOT_READING) // a part of its copy was lost
            clear_copy(store, slot);
        return failed;
    }
    let_go_of_source(store, slot);
    if (expert_has_host(store) && !slot->followed)
        store->layers[slot->key / store->n_experts].bytes_device += expert_blob_bytes(store, slot);
    expert_became_ready(store, slot);
    if (slot->pins)
        return MOE_OK;
    if (gpu_fence_passed(store->g, slot->fence)) // nobody waits any more, and the next request may use it
        tier_free(&class_of(store, slot)->device, slot);
    else // ops were given that follow the copy
        tier_cool(&class_of(store, slot)->device, slot, gpu_fence_to_come(store->g));
    return MOE_OK;
}

// Copies up to `there`, of what the source has.
static void copy_on(expert_store *store, struct slot *slot, uint64_t there)
{
    uint64_t offset;
    gpu_buf *slab = expert_device_place(store, slot, &offset);
    const char *source = expert_host_place(store, slot->source);
    slot->copy = gpu_copy(store->g, slab, offset + slot->copied, source + slot->copied, there - slot->copied);
    store->last_copy = slot->copy;
    slot->copied = there;
}

// All that a device slot waits for is its copy, or its unmapping.
static int await_copy(expert_store *store, struct slot *slot, struct moe_err *err)
{
    slot_copy(slot, &store->copying);
    if (gpu_failed(store->g) || gpu_copy_passed(store->g, slot->copy))
        return end_copy(store, slot, err);
    return MOE_OK;
}

int expert_copy(expert_store *store, struct slot *slot, struct moe_err *err)
{
    copy_on(store, slot, expert_blob_bytes(store, slot));
    return await_copy(store, slot, err);
}

static int end_copies(expert_store *store, struct moe_err *err)
{
    expert_end_write_backs(store);
    if (gpu_failed(store->g))
        return lose_copies(store, err);
    while (store->copying.first && gpu_copy_passed(store->g, store->copying.first->copy)) {
        int failed = end_copy(store, store->copying.first, err);
        if (failed)
            return failed;
    }
    return MOE_OK;
}

// ---- Beginning
// -------------------------------------------------------------------------------------------------------

static void fail_slot(expert_store *store, struct slot *slot, const struct read_failure *failure)
{
    await_copies(store, slot);
    let_go_of_source(store, slot);
    slot->failure = *failure;
    tier_clear(&class_of(store, slot)->device, slot);
}

// A device slot whose read failed. Whoever it was begun for is told; who only joined it gets a read of their own, for
// what it met may be long over: the file was away and is back.
static void end_failed_read(expert_store *store, struct slot *slot, const struct read_failure *failure)
{
    if (!slot->joined || !slot->pins) {
        fail_slot(store, slot, failure);
        return;
    }
    await_copies(store, slot);
    let_go_of_source(store, slot);
    slot_read_again(slot, &store->queued);
}

enum begun { BEGUN, BEGUN_NOT, BEGUN_FAILED };

// Reads into `into`, the device slot itself or a host slot taken for it.
static enum begun begin_read(expert_store *store, struct slot *into, struct read_failure *failure)
{
    if (!store->flights.idle)
        return BEGUN_NOT;
    struct flight_order order = {
        .layer = into->key / store->n_experts,
        .expert = into->key % store->n_experts,
        .target = expert_open_target(store, into),
        .owner = into,
    };
    if (!order.target)
        return BEGUN_FAILED;
    struct flight *flight = flights_begin(&store->flights, &order, failure);
    if (flight) {
        slot_read(into, flight);
        return BEGUN;
    }
    expert_close_target(store, into);
    return failure->result == READ_FULL ? BEGUN_NOT : BEGUN_FAILED;
}

// Through the host: from there, with what is already on its way there, or by a read of its own.
static enum begun begin_through_host(expert_store *store, struct slot *slot, struct read_failure *failure)
{
    struct slot *source = tier_find(&class_of(store, slot)->host, slot->key);
    if (source) {
        slot->joined = source->flight && !source->pins;
        tier_pin(&class_of(store, slot)->host, source);
        slot->source = source;
        if (source->flight)
            flights_promote(&store->flights, source->flight);
        return BEGUN;
    }
    if (!store->flights.idle)
        return BEGUN_NOT;
    source = expert_next_of_host(store, class_of(store, slot));
    if (!source)
        return BEGUN_NOT;
    expert_take(store, &class_of(store, slot)->host, source, slot->key);
    slot->source = source;
    enum begun begun = begin_read(store, source, failure);
    if (begun != BEGUN) {
        slot->source = NULL;
        tier_unpin(&class_of(store, slot)->host, source);
        tier_clear(&class_of(store, slot)->host, source);
    }
    return begun;
}

static enum begun begin(expert_store *store, struct slot *slot, struct read_failure *failure)
{
    *failure = (struct read_failure){.result = READ_FULL};
    return expert_has_host(store) ? begin_through_host(store, slot, failure) : begin_read(store, slot, failure);
}

// A device slot that waits for a host slot which is there, or whose beginning is: a single expert's way to the device
// overlaps with its way from the disk. Each copy costs some time of its own, so a beginning waits for more of it while
// the bus has work and one copy to go on with.
static int copy_what_is_there(expert_store *store, struct slot *slot, struct moe_err *err)
{
    const struct slot *source = slot->source;
    if (source->state == SLOT_READY || source->state == SLOT_WRITING_BACK) // copies run in order
        return expert_copy(store, slot, err);
    if (slot->state == SLOT_QUEUED)
        slot_read(slot, NULL);
    if (source->flight->there < slot->copied + store->least_copy)
        return MOE_OK;
    if (!store->last_copy || gpu_copy_passed(store->g, store->last_copy - 1))
        copy_on(store, slot, source->flight->there);
    return gpu_failed(store->g) ? end_copy(store, slot, err) : MOE_OK;
}

// After begin, which said BEGUN or BEGUN_FAILED.
static int has_begun(expert_store *store, struct slot *slot, enum begun begun, const struct read_failure *failure,
                     struct moe_err *err)
{
    if (begun == BEGUN)
        return slot->source ? copy_what_is_there(store, slot, err) : MOE_OK;
    fail_slot(store, slot, failure);
    return MOE_OK;
}

int expert_load(expert_store *store, struct slot *slot, struct moe_err *err)
{
    struct read_failure failure;
    enum begun begun = store->queued.first ? BEGUN_NOT : begin(store, slot, &failure); // those that wait come first
    if (begun != BEGUN_NOT)
        return has_begun(store, slot, begun, &failure, err);
    slots_append(&store->queued, slot);
    return MOE_OK;
}

int expert_load_queued(expert_store *store, struct moe_err *err)
{
    while (store->queued.first) {
        struct slot *slot = store->queued.first;
        struct read_failure failure;
        enum begun begun = begin(store, slot, &failure);
        if (begun == BEGUN_NOT)
            return MOE_OK;
        int failed = has_begun(store, slot, begun, &failure, err);
        if (failed)
            return failed;
    }
    return MOE_OK;
}

// ---- Landing
// ---------------------------------------------------------------------------------------------------------

// A part of a flight is back, or all of it. The key becomes visible here, after the bytes.
static int land(expert_store *store, struct flight *flight, struct moe_err *err)
{
    struct slot *slot = flight->owner;
    struct size_class *size = class_of(store, slot);
    struct tier *tier = expert_read_tier(store, size);
    struct slot *waiting = expert_has_host(store) ? tier_find(&size->device, slot->key) : NULL;
    if (waiting && waiting->source != slot)
        waiting = NULL;
    if (flight->n_left)
        return waiting ? copy_what_is_there(store, waiting, err) : MOE_OK;
    struct read_failure failure = flight->failure;
    store->layers[slot->key / store->n_experts].bytes_disk += flight->delivered;
    store->layers[slot->key / store->n_experts].bytes_cached += flight->cached;
    expert_count_dropped(store, flight, slot->key / store->n_experts);
    slot->flight = NULL;
    flights_done(&store->flights, flight);
    expert_close_target(store, slot);
    if (failure.result != READ_FULL) {
        if (tier == &size->host)
            tier_clear(tier, slot);
        else
            waiting = slot;
        if (waiting)
            end_failed_read(store, waiting, &failure);
        return MOE_OK;
    }
    if (store->maps)
        return await_copy(store, slot, err);
    expert_became_ready(store, slot);
    if (!slot->pins) // its request was cancelled, or there was none
        tier_free(tier, slot);
    return waiting ? copy_what_is_there(store, waiting, err) : MOE_OK;
}

// A copy is soon over, a read may take long. While parts arrive it is watched, not slept for: each of them is to go on
// to the device at once, or the bus stands still until somebody wakes up.
static struct flight *watch_copy(expert_store *store)
{
    uint64_t copy = store->copying.first->copy, until = clock_ns() + WATCH_NS;
    while (store->flights.n_flying && clock_ns() < until) {
        struct flight *flight = flights_reap(&store->flights, 0);
        if (flight || gpu_copy_passed(store->g, copy))
            return flight;
    }
    gpu_copy_wait(store->g, copy);
    return flights_reap(&store->flights, 0);
}

static struct flight *wait_for_something(expert_store *store, int wait_ms, uint32_t layer)
{
    struct expert_layer_counts *counts = &store->layers[layer];
    struct flight *flight = flights_reap(&store->flights, 0);
    if (flight || !wait_ms)
        return flight;
    uint64_t began = clock_ns();
    if (store->copying.first) {
        flight = watch_copy(store);
        counts->wait_copy_ns += clock_ns() - began;
        return flight;
    }
    if (store->writing_back.first && !store->flights.n_flying) { // whoever waits does so for its slot
        gpu_copy_wait(store->g, store->writing_back.first->copy);
        counts->wait_copy_ns += clock_ns() - began;
        return NULL;
    }
    flight = flights_reap(&store->flights, wait_ms);
    counts->wait_disk_ns += clock_ns() - began;
    return flight;
}

int expert_take_in(expert_store *store, int wait_ms, uint32_t layer, struct moe_err *err)
{
    int failed = end_copies(store, err);
    if (failed)
        return failed;
    struct flight *flight = wait_for_something(store, wait_ms, layer);
    while (flight && !failed) {
        failed = land(store, flight, err);
        if (!failed)
            flight = flights_reap(&store->flights, 0);
    }
    if (!failed)
        failed = end_copies(store, err);
    return failed ? failed : expert_load_queued(store, err);
}

void expert_abandon(expert_store *store, struct slot *slot)
{
    struct slot *reading = expert_has_host(store) ? slot->source : slot;
    if (slot->state == SLOT_READING) {
        if (reading->pins > (reading != slot) || !flights_withdraw(&store->flights, reading->flight))
            return;
        reading->flight = NULL;
        expert_close_target(store, reading);
        if (reading != slot)
            tier_clear(&class_of(store, slot)->host, reading);
        let_go_of_source(store, slot);
    }
    tier_clear(&class_of(store, slot)->device, slot);
}

void expert_cool_down(expert_store *store)
{
    for (uint32_t p = 0; p < store->n_classes; p++) {
        struct tier *tier = &store->classes[p].device;
        while (tier->cooling.first && gpu_fence_passed(store->g, tier->cooling.first->fence))
            tier_free(tier, tier->cooling.first);
    }
}
