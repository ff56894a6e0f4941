// SPDX-License-Identifier: GPL-3.0-or-later
// Adds up what was done.
#include "app/figures/tally.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "app/util/format.h"
#include "app/util/json_out.h"

static bool is_hit(enum moe_origin origin)
{
    return origin != MOE_FROM_LATE && origin != MOE_FROM_DISK;
}

void tally_add_record(struct tally *tally, const struct moe_telemetry *step)
{
    tally->rows += step->rows;
    for (uint32_t i = 0; i < step->n_moe_layers; i++) {
        const struct moe_layer_record *layer = &step->layers[i];
        for (int origin = 0; origin < MOE_ORIGINS; origin++) {
            bool hit = is_hit((enum moe_origin)origin);
            uint64_t n = layer->n_from[origin];
            tally->from[origin] += n;
            tally->hits += hit ? n : 0;
            tally->misses += hit ? 0 : n;
        }
        tally->wasted += layer->wasted;
        tally->bytes_read += layer->bytes_disk;
        tally->bytes_cached += layer->bytes_cached;
        tally->bytes_copied += layer->bytes_device;
        tally->wait_ns += layer->wait_ns;
    }
}

void tally_add_single(struct tally *tally, const struct moe_telemetry *step)
{
    struct tally of = {.hits = 0};
    tally_add_record(&of, step);
    tally->single_hits += of.hits;
    tally->single_asked += of.hits + of.misses;
    tally->single_ahead += of.from[MOE_FROM_PREFETCH];
}

void tally_clear(struct tally *tally)
{
    struct tally kept = {.policy = tally->policy};
    memcpy(kept.reason, tally->reason, sizeof kept.reason);
    *tally = kept;
}

void tally_add(struct tally *tally, const struct tally *more)
{
    tally->read_tokens += more->read_tokens;
    tally->read_ns += more->read_ns;
    tally->answered_tokens += more->answered_tokens;
    tally->answer_steps += more->answer_steps;
    tally->answer_ns += more->answer_ns;
    for (int origin = 0; origin < MOE_ORIGINS; origin++)
        tally->from[origin] += more->from[origin];
    tally->hits += more->hits;
    tally->misses += more->misses;
    tally->ahead += more->ahead;
    tally->wasted += more->wasted;
    tally->bytes_read += more->bytes_read;
    tally->bytes_cached += more->bytes_cached;
    tally->bytes_copied += more->bytes_copied;
    tally->wait_ns += more->wait_ns;
    tally->rows += more->rows;
    tally->single_hits += more->single_hits;
    tally->single_asked += more->single_asked;
    tally->single_ahead += more->single_ahead;
    if (!more->policy)
        return;
    tally->policy = more->policy;
    memcpy(tally->reason, more->reason, sizeof tally->reason);
}

struct tally tally_between(const struct moe_stats *then, const struct moe_stats *now)
{
    uint64_t late = now->late - then->late, used = now->used - then->used;
    struct tally tally = {
        .read_tokens = now->prefilled_tokens - then->prefilled_tokens,
        .read_ns = now->prefill_ns - then->prefill_ns,
        .from[MOE_FROM_LATE] = late,
        .from[MOE_FROM_PREFETCH] = used > late ? used - late : 0,
        .hits = now->hits - then->hits - late,
        .misses = now->misses - then->misses + late,
        .ahead = now->prefetched - then->prefetched,
        .wasted = now->wasted - then->wasted,
        .bytes_read = now->bytes_read - then->bytes_read,
        .bytes_cached = now->bytes_cached - then->bytes_cached,
        .wait_ns = now->wait_ns - then->wait_ns,
        .policy = now->prefetch_policy ? now->prefetch_policy : "off",
    };
    memcpy(tally.reason, now->prefetch_reason, sizeof tally.reason);
    return tally;
}

double tally_read_a_token(const struct tally *tally)
{
    return tally->rows && tally->hits + tally->misses ? (double)tally->bytes_read / (double)tally->rows : -1;
}

double tally_cached_a_token(const struct tally *tally)
{
    return tally->rows ? (double)tally->bytes_cached / (double)tally->rows : 0;
}

double tally_hit_share(const struct tally *tally)
{
    uint64_t asked = tally->hits + tally->misses;
    return asked ? (double)tally->hits / (double)asked : -1;
}

double tally_read_speed(const struct tally *tally)
{
    return json_out_rate(tally->read_tokens, tally->read_ns);
}

double tally_answer_speed(const struct tally *tally)
{
    return json_out_rate(tally->answer_steps, tally->answer_ns);
}

uint64_t tally_used(const struct tally *tally)
{
    return tally->from[MOE_FROM_PREFETCH] + tally->from[MOE_FROM_LATE];
}

uint64_t tally_unused(const struct tally *tally)
{
    uint64_t over = tally_used(tally) + tally->wasted; // of those, too, that were read ahead before
    return tally->ahead > over ? tally->ahead - over : 0;
}

char *tally_read_words(char *out, size_t size, const struct tally *tally)
{
    char all[FORMAT_SIZE], part[FORMAT_SIZE];
    format_bytes(all, sizeof all, tally->bytes_read);
    format_bytes(part, sizeof part, tally->bytes_cached);
    if (!tally->bytes_cached)
        snprintf(out, size, "%s read", all);
    else if (tally->bytes_cached >= tally->bytes_read)
        snprintf(out, size, "%s read, all from the page cache", all);
    else if (strcmp(all, part) == 0)
        snprintf(out, size, "%s read, nearly all from the page cache", all);
    else
        snprintf(out, size, "%s read, %s of it from the page cache", all, part);
    return out;
}

char *tally_found_words(char out[TALLY_FOUND_SIZE], const struct tally *tally)
{
    snprintf(out, TALLY_FOUND_SIZE, "%" PRIu64 " hit%s, %" PRIu64 " miss%s", tally->hits, format_s(tally->hits),
             tally->misses, tally->misses == 1 ? "" : "es");
    return out;
}

// Between two policies that are tried in turn.
static bool tries_out(const struct tally *tally)
{
    return tally->policy && strcmp(tally->policy, "off") == 0 && strcmp(tally->reason, "on trial") == 0;
}

char *tally_prefetch_words(char out[TALLY_PREFETCH_SIZE], const struct tally *tally)
{
    bool trial = tries_out(tally), reason = *tally->reason && !trial;
    snprintf(out, TALLY_PREFETCH_SIZE, "%s%s%s",
             trial           ? "on trial, now off"
             : tally->policy ? tally->policy
                             : "off",
             reason ? ", " : "", reason ? tally->reason : "");
    return out;
}
