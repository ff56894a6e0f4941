// SPDX-License-Identifier: GPL-3.0-or-later
// Says the cache plan in a sentence, and what is wrong with it in another.
#include "app/view/plan_words.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "app/util/format.h"

// Appends, cutting off what does not fit.
__attribute__((format(printf, 3, 4))) static void add(char *out, size_t size, const char *format, ...)
{
    size_t used = strlen(out);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(out + used, size - used, format, arguments);
    va_end(arguments);
}

double plan_cached(const struct moe_cache_plan *plan)
{
    uint64_t host = plan->host_only_passes ? 0 : plan->host_slots, slots = plan->slots + host;
    if (plan->all)
        return 1;
    double share = plan->experts ? (double)slots / (double)plan->experts : 0;
    return share < 1 ? share : 1;
}

// What the disk allows, a token that takes so long with nothing cached. With a full cache at least as many are there as
// if experts were used evenly: some are used far more often.
static void add_speeds(char *out, size_t size, const struct moe_cache_plan *plan, double seconds)
{
    double there = plan_cached(plan);
    if (seconds < 0.02) // computing takes longer
        return;
    add(out, size, ": %.2g tokens/s", 1 / seconds);
    if (there >= 1)
        add(out, size, ", and no reads once every expert was used");
    else
        add(out, size, ", with the cache full %.2g or more", 1 / (seconds * (1 - there)));
    add(out, size, ", without the time to compute");
}

static char *write_plan(char *out, size_t size, const struct moe_cache_plan *plan, bool speeds)
{
    char a[FORMAT_SIZE], b[FORMAT_SIZE];
    *out = 0;
    if (plan->resident_bytes)
        add(out, size, "%s of resident weights; ", format_bytes(a, sizeof a, plan->resident_bytes));
    if (plan->state_bytes)
        add(out, size, "a conversation's states (2 x %s) and %" PRIu64 " %s of them in host memory (%s); ",
            format_bytes(a, sizeof a, plan->state_bytes), plan->snapshot_bytes / plan->state_bytes,
            plan->snapshot_bytes / plan->state_bytes == 1 ? "copy" : "copies",
            format_bytes(b, sizeof b, plan->snapshot_bytes));
    if (plan->all)
        add(out, size, "all %" PRIu64 " experts cached%s", plan->slots, plan->host_slots ? " on the device" : "");
    else
        add(out, size, "%" PRIu64 " of %" PRIu64 " experts cached%s", plan->slots, plan->experts,
            plan->host_slots ? " on the device" : "");
    // What caches take is rounded up wherever it is told: typed behind --expert-cache it is room for as many. So is
    // what a token of as many experts reads, which stands beside it.
    format_bytes_up(a, sizeof a, plan->cache_bytes);
    if (strcmp(a, format_bytes_up(b, sizeof b, plan->smallest_bytes)) == 0)
        add(out, size, " (%s, the minimum)", a);
    else
        add(out, size, " (%s; minimum %s)", a, b);
    if (plan->host_slots)
        add(out, size, " and %" PRIu64 " in host memory (%s%s)", plan->host_slots,
            format_bytes_up(a, sizeof a, plan->host_cache_bytes),
            plan->host_only_passes ? ", on their way to the device" : "");
    add(out, size, "; a token with nothing cached reads %s", format_bytes_up(b, sizeof b, plan->cold_bytes));
    const char *how = plan->direct ? "past the page cache" : "through the page cache";
    if (plan->disk_bytes_per_s) {
        double seconds = (double)plan->cold_bytes / (double)plan->disk_bytes_per_s;
        format_bytes(a, sizeof a, plan->disk_bytes_per_s);
        if (seconds < 0.1)
            add(out, size, ", about %.*f ms", seconds < 0.001 ? 2 : 0, seconds * 1e3);
        else
            add(out, size, ", about %s", format_duration(b, sizeof b, seconds));
        add(out, size, " (disk %s/s, %u reader%s, %s)", a, plan->readers, format_s(plan->readers), how);
        if (speeds)
            add_speeds(out, size, plan, seconds);
    } else if (plan->readers && !plan->foreseen) {
        const char *doubt = speeds ? plan->disk_doubt : NULL;
        add(out, size, " (%u reader%s, %s%s%s)", plan->readers, format_s(plan->readers), how,
            doubt ? "; disk not measured: " : "", doubt ? doubt : "");
    }
    add(out, size, ".");
    return out;
}

char *plan_words(char *out, size_t size, const struct moe_cache_plan *plan)
{
    return write_plan(out, size, plan, true);
}

char *plan_without_speeds(char *out, size_t size, const struct moe_cache_plan *plan)
{
    return write_plan(out, size, plan, false);
}

char *plan_context(char *out, size_t size, const struct context_figures *figures)
{
    char full[FORMAT_SIZE];
    *out = 0;
    add(out, size, "room for %" PRIu32 " token%s of conversation (%s when full", figures->context,
        format_s(figures->context), format_bytes(full, sizeof full, figures->context * figures->row_bytes));
    uint64_t of_rows = figures->kv_cap > figures->turn_bytes ? figures->kv_cap - figures->turn_bytes : 0;
    uint64_t kept = figures->row_bytes ? of_rows / figures->row_bytes : 0;
    if (figures->kv_cap && figures->row_bytes && !kept)
        add(out, size, "; only its text is saved, see --kv-cap");
    else if (figures->kv_cap && kept < figures->context && figures->row_bytes)
        add(out, size, "; beyond %" PRIu64 ", in many turns sooner, only its text is saved, see --kv-cap", kept);
    if (figures->limit > figures->context)
        add(out, size, "; the model's limit is %" PRIu32, figures->limit);
    add(out, size, ")");
    return out;
}

char *plan_limit(char out[PLAN_LIMIT_SIZE], const struct context_figures *figures)
{
    *out = 0;
    if (figures->limit && figures->context >= figures->limit)
        snprintf(out, PLAN_LIMIT_SIZE, "This model takes at most %" PRIu32 " token%s", figures->limit,
                 format_s(figures->limit));
    return out;
}

char *plan_warning(char *out, size_t size, const struct moe_cache_plan *plan, bool host_cache_given)
{
    char a[FORMAT_SIZE];
    *out = 0;
    if (plan->per_layer)
        add(out, size,
            "The expert cache cannot hold the %" PRIu64 " experts of one token, so layers get fixed shares of it; "
            "--expert-cache %s or more works better. ",
            plan->token_experts, format_bytes_typed(a, sizeof a, plan->token_experts * plan->slot_bytes));
    if (plan->direct_refused)
        add(out, size, "This file system has no direct I/O; experts are read through the page cache. ");
    if (host_cache_given && !plan->host_slots)
        add(out, size, "The device computes in host memory: there is one cache, and --host-cache has no effect. ");
    size_t length = strlen(out);
    if (length)
        out[length - 1] = 0;
    return out;
}
