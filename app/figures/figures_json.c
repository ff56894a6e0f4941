// SPDX-License-Identifier: GPL-3.0-or-later
// Step records, counters and the cache plan as JSON.
#include "app/figures/figures_json.h"

#include "app/figures/figures.h"

void figures_json_experts(struct json_object *object, const struct tally *tally)
{
    struct json_object *experts = json_object_new_object();
    json_out_whole(experts, "hits", tally->hits);
    json_out_whole(experts, "misses", tally->misses);
    json_out_whole(experts, "bytes_read", tally->bytes_read);
    json_out_whole(experts, "bytes_cached", tally->bytes_cached);
    json_out_whole(experts, "prefetched", tally->ahead);
    json_out_whole(experts, "used", tally_used(tally));
    json_out_whole(experts, "wasted", tally->wasted);
    json_out_string(experts, "policy", tally->policy ? tally->policy : "off");
    if (*tally->reason)
        json_out_string(experts, "reason", tally->reason);
    json_object_object_add(object, "experts", experts);
}

static struct json_object *choices_of(const struct moe_telemetry *step, uint32_t layer)
{
    struct json_object *list = json_object_new_array();
    for (uint32_t k = 0; k < step->top_k; k++) {
        const struct moe_choice *choice = &step->choices[(size_t)layer * step->top_k + k];
        struct json_object *entry = json_object_new_object();
        json_out_whole(entry, "expert", choice->expert);
        json_out_real(entry, "weight", (double)choice->weight);
        json_out_string(entry, "from", figures_origin_name((enum moe_origin)choice->origin));
        json_out_whole(entry, "wait_us", choice->wait_us);
        json_object_array_add(list, entry);
    }
    return list;
}

static struct json_object *layers_of(const struct moe_telemetry *step)
{
    struct json_object *layers = json_object_new_array();
    for (uint32_t i = 0; i < step->n_moe_layers; i++) {
        const struct moe_layer_record *record = &step->layers[i];
        struct json_object *layer = json_object_new_object();
        json_out_whole(layer, "layer", record->layer);
        for (int origin = 0; origin < MOE_ORIGINS; origin++)
            json_out_whole(layer, figures_origin_name((enum moe_origin)origin), record->n_from[origin]);
        json_out_whole(layer, "wasted", record->wasted);
        json_out_whole(layer, "bytes_read", record->bytes_disk);
        json_out_whole(layer, "bytes_cached", record->bytes_cached);
        json_out_whole(layer, "bytes_device", record->bytes_device);
        json_out_whole(layer, "wait_ns", record->wait_ns);
        if (step->choices)
            json_object_object_add(layer, "experts", choices_of(step, i));
        json_object_array_add(layers, layer);
    }
    return layers;
}

void figures_json_step(struct json_object *object, const struct moe_telemetry *step)
{
    struct json_object *out = json_object_new_object();
    struct json_object *ns = json_object_new_object();
    json_out_whole(out, "number", step->step);
    json_out_whole(out, "position", step->position);
    json_out_whole(out, "tokens", step->rows);
    json_object_object_add(out, "decode", json_object_new_boolean(step->decode));
    json_out_whole(out, "total_ns", step->total_ns);
    for (int i = 0; i < MOE_INTERVALS; i++)
        json_out_whole(ns, figures_interval_name((enum moe_interval)i), step->ns[i]);
    json_object_object_add(out, "ns", ns);
    json_out_whole(out, "launches", step->launches);
    json_out_whole(out, "waits", step->waits);
    json_object_object_add(out, "layers", layers_of(step));
    json_object_object_add(object, "step", out);
}

void figures_json_rest(struct json_object *object, const struct moe_telemetry *sum)
{
    struct json_object *rest = json_object_new_object();
    json_out_whole(rest, "steps", sum->step);
    json_out_whole(rest, "tokens", sum->rows);
    json_out_whole(rest, "total_ns", sum->total_ns);
    json_object_object_add(rest, "layers", layers_of(sum));
    json_object_object_add(object, "rest", rest);
}

void figures_json_process(struct json_object *object, const struct process_reads *to_start)
{
    struct process_reads now = process_reads_now();
    uint64_t since;
    if (!process_reads_between(to_start, &now, &since))
        return;
    struct json_object *process = json_object_new_object();
    json_out_whole(process, "disk_bytes_to_start", to_start->device_bytes);
    json_out_whole(process, "disk_bytes_since", since);
    json_object_object_add(object, "process", process);
}

void figures_json_plan(struct json_object *object, const struct moe_cache_plan *plan)
{
    struct json_object *cache = json_object_new_object();
    const struct {
        const char *key;
        uint64_t value;
    } wholes[] = {
        {"slots", plan->slots},
        {"slot_bytes", plan->slot_bytes},
        {"smallest_bytes", plan->smallest_bytes},
        {"host_slots", plan->host_slots},
        {"experts", plan->experts},
        {"token_experts", plan->token_experts},
        {"resident_bytes", plan->resident_bytes},
        {"readers", plan->readers},
        {"disk_bytes_per_s", plan->disk_bytes_per_s},
        {"cold_token_bytes", plan->cold_bytes},
        {"context", plan->context},
        {"row_bytes", plan->row_bytes},
    };
    for (size_t i = 0; i < sizeof wholes / sizeof wholes[0]; i++)
        json_out_whole(cache, wholes[i].key, wholes[i].value);
    if (plan->state_bytes) {
        json_out_whole(cache, "state_bytes", plan->state_bytes);
        json_out_whole(cache, "snapshot_bytes", plan->snapshot_bytes);
    }
    json_out_string(cache, "io", plan->direct ? "direct" : "buffered");
    json_out_string(cache, "policy", figures_policy_name(plan));
    json_object_object_add(object, "cache", cache);
}
