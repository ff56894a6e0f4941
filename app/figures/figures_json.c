// SPDX-License-Identifier: GPL-3.0-or-later
// Step records, counters and the cache plan as JSON.
#include "app/figures/figures_json.h"

#include "app/figures/figures.h"

void figures_json_experts(struct json_out *out, const struct tally *tally)
{
    json_out_open(out, "experts", '{');
    json_out_whole(out, "hits", tally->hits);
    json_out_whole(out, "misses", tally->misses);
    json_out_whole(out, "bytes_read", tally->bytes_read);
    json_out_whole(out, "bytes_cached", tally->bytes_cached);
    json_out_whole(out, "prefetched", tally->ahead);
    json_out_whole(out, "used", tally_used(tally));
    json_out_whole(out, "wasted", tally->wasted);
    json_out_whole(out, "unused", tally_unused(tally));
    json_out_string(out, "policy", tally->policy ? tally->policy : "off");
    if (*tally->reason)
        json_out_string(out, "reason", tally->reason);
    json_out_close(out, '}');
}

static void add_choices(struct json_out *out, const struct moe_telemetry *step, uint32_t layer)
{
    json_out_open(out, "experts", '[');
    for (uint32_t k = 0; k < step->top_k; k++) {
        const struct moe_choice *choice = &step->choices[(size_t)layer * step->top_k + k];
        json_out_open(out, NULL, '{');
        json_out_whole(out, "expert", choice->expert);
        json_out_real(out, "weight", (double)choice->weight);
        json_out_string(out, "from", figures_origin_name((enum moe_origin)choice->origin));
        json_out_whole(out, "wait_us", choice->wait_us);
        json_out_close(out, '}');
    }
    json_out_close(out, ']');
}

static void add_layers(struct json_out *out, const struct moe_telemetry *step)
{
    json_out_open(out, "layers", '[');
    for (uint32_t i = 0; i < step->n_moe_layers; i++) {
        const struct moe_layer_record *record = &step->layers[i];
        json_out_open(out, NULL, '{');
        json_out_whole(out, "layer", record->layer);
        for (int origin = 0; origin < MOE_ORIGINS; origin++)
            json_out_whole(out, figures_origin_name((enum moe_origin)origin), record->n_from[origin]);
        json_out_whole(out, "wasted", record->wasted);
        json_out_whole(out, "bytes_read", record->bytes_disk);
        json_out_whole(out, "bytes_cached", record->bytes_cached);
        json_out_whole(out, "bytes_device", record->bytes_device);
        json_out_whole(out, "wait_ns", record->wait_ns);
        if (step->choices)
            add_choices(out, step, i);
        json_out_close(out, '}');
    }
    json_out_close(out, ']');
}

void figures_json_step(struct json_out *out, const struct moe_telemetry *step)
{
    json_out_open(out, "step", '{');
    json_out_whole(out, "number", step->step);
    json_out_whole(out, "position", step->position);
    json_out_whole(out, "tokens", step->rows);
    json_out_flag(out, "decode", step->decode);
    json_out_whole(out, "total_ns", step->total_ns);
    json_out_flag(out, "estimated", step->shared_out);
    json_out_open(out, "ns", '{');
    for (int i = 0; i < MOE_INTERVALS; i++)
        json_out_whole(out, figures_interval_name((enum moe_interval)i), step->ns[i]);
    json_out_close(out, '}');
    json_out_whole(out, "launches", step->launches);
    json_out_whole(out, "waits", step->waits);
    add_layers(out, step);
    json_out_close(out, '}');
}

void figures_json_rest(struct json_out *out, const struct moe_telemetry *sum)
{
    json_out_open(out, "rest", '{');
    json_out_whole(out, "steps", sum->step);
    json_out_whole(out, "tokens", sum->rows);
    json_out_whole(out, "total_ns", sum->total_ns);
    add_layers(out, sum);
    json_out_close(out, '}');
}

void figures_json_process(struct json_out *out, const struct process_reads *to_start)
{
    struct process_reads now = process_reads_now();
    uint64_t since;
    if (!process_reads_between(to_start, &now, &since))
        return;
    json_out_open(out, "process", '{');
    json_out_whole(out, "disk_bytes_to_start", to_start->device_bytes);
    json_out_whole(out, "disk_bytes_since", since);
    json_out_close(out, '}');
}

void figures_json_plan(struct json_out *out, const struct moe_cache_plan *plan)
{
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
    json_out_open(out, "cache", '{');
    for (size_t i = 0; i < sizeof wholes / sizeof wholes[0]; i++)
        json_out_whole(out, wholes[i].key, wholes[i].value);
    if (plan->state_bytes) {
        json_out_whole(out, "state_bytes", plan->state_bytes);
        json_out_whole(out, "snapshot_bytes", plan->snapshot_bytes);
    }
    if (plan->foreseen)
        json_out_null(out, "io");
    else
        json_out_string(out, "io", plan->direct ? "direct" : "buffered");
    json_out_string(out, "policy", figures_policy_name(plan));
    json_out_close(out, '}');
}
