// SPDX-License-Identifier: GPL-3.0-or-later
// The engine's figures as parts of a JSON object, the same for every command that prints them.
#ifndef MOECHAT_APP_FIGURES_FIGURES_JSON_H
#define MOECHAT_APP_FIGURES_FIGURES_JSON_H

#include "app/figures/tally.h"
#include "app/util/json_out.h"
#include "app/util/process_reads.h"
#include "engine/moe.h"

// "experts": {hits, misses, bytes_read, bytes_cached, prefetched, used, wasted, unused, policy, reason}
void figures_json_experts(struct json_out *out, const struct tally *tally);
// "step": where its time went, and for each MoE layer where its experts came from.
void figures_json_step(struct json_out *out, const struct moe_telemetry *step);
// "rest": what a sum of steps is, by layer; see moechat(1), JSON.
void figures_json_rest(struct json_out *out, const struct moe_telemetry *sum);
// "process": what the system says that was read from disks until the model was open, and since; left out where that is
// not counted.
void figures_json_process(struct json_out *out, const struct process_reads *to_start);
// "cache": the plan of the expert caches.
void figures_json_plan(struct json_out *out, const struct moe_cache_plan *plan);

#endif
