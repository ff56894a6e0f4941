// SPDX-License-Identifier: GPL-3.0-or-later
// Prints /stats.
#include "app/view/stats.h"

#include <inttypes.h>
#include <string.h>

#include "app/figures/figures.h"
#include "app/util/format.h"
#include "app/view/plan_words.h"
#include "app/view/status.h"

// Those that keep experts; a host cache that only passes them on keeps none.
static uint64_t slots_of(const struct moe_cache_plan *plan)
{
    uint64_t host = plan->host_only_passes ? 0 : plan->host_slots, all = plan->slots + host;
    return plan->all || all > plan->experts ? plan->experts : all;
}

void stats_rooms(struct stats *stats)
{
    const struct moe_cache_plan *plan = &stats->info->cache;
    uint64_t here = slots_of(plan), before = 0;
    stats->n_rooms = 0;
    for (int i = STATS_ROOMS - 2; i >= 0; i--) {
        uint64_t part = plan->experts >> i;
        if (!part)
            continue; // a small model
        if (here > before && here < part)
            stats->rooms[stats->n_rooms++] = (struct stats_room){.experts = here, .share = -1, .here = true};
        stats->rooms[stats->n_rooms++] = (struct stats_room){.experts = part, .share = -1, .here = here == part};
        before = part;
    }
}

static void print_experts(FILE *out, const struct tally *tally)
{
    double share = tally_hit_share(tally);
    char bytes[FORMAT_SIZE], read[96];
    const uint64_t *from = tally->from;
    if (share < 0) { // those that were read are of a step that was stopped
        bool some = tally->bytes_read > 0;
        fprintf(out, "  experts          none yet%s%s\n", some ? "; " : "",
                some ? tally_read_words(read, sizeof read, tally) : "");
        return;
    }
    char found[TALLY_FOUND_SIZE], hits[FORMAT_SIZE];
    fprintf(out, "  experts          %s (%s %% hits); %s; waited %.2f s\n", tally_found_words(found, tally),
            format_percent(hits, sizeof hits, share, 1), tally_read_words(read, sizeof read, tally),
            (double)tally->wait_ns / 1e9);
    fprintf(out,
            "  found            %" PRIu64 " on the device, %" PRIu64 " in host memory, %" PRIu64
            " prefetched; missed: %" PRIu64 " prefetched late, %" PRIu64 " read; %s copied to the device\n",
            from[MOE_FROM_DEVICE], from[MOE_FROM_HOST], from[MOE_FROM_PREFETCH], from[MOE_FROM_LATE],
            from[MOE_FROM_DISK], format_bytes(bytes, sizeof bytes, tally->bytes_copied));
}

// The larger shares first.
static void print_time(FILE *out, const struct moe_telemetry *session)
{
    bool told[MOE_INTERVALS] = {false};
    if (!session || !session->total_ns)
        return;
    fprintf(out, "  time             %.2f s", (double)session->total_ns / 1e9);
    for (int n = 0; n < MOE_INTERVALS; n++) {
        int most = -1;
        for (int i = 0; i < MOE_INTERVALS; i++)
            if (!told[i] && session->ns[i] && (most < 0 || session->ns[i] > session->ns[most]))
                most = i;
        if (most < 0)
            break;
        told[most] = true;
        fprintf(out, "%s %s %s%.1f %%", n ? "," : ":", figures_interval_word((enum moe_interval)most),
                figures_is_estimate(session->shared_out, (enum moe_interval)most) ? "~" : "",
                100 * (double)session->ns[most] / (double)session->total_ns);
    }
    enum bound bound = status_bound(session);
    fprintf(out, "%s%s%s\n", bound == BOUND_NONE ? "" : "; bound by ", status_bound_name(bound),
            session->shared_out ? "; ~ is estimated: only one token in 64 is timed part by part" : "");
}

static void print_rooms(FILE *out, const struct stats *stats)
{
    const struct tally *tally = &stats->conversation;
    char bytes[FORMAT_SIZE], hits[FORMAT_SIZE];
    if (stats->rooms[0].share < 0)
        return;
    fputs("  hit curve        answers' hits, were the experts that were unused longest given up first (LRU), from an "
          "empty cache on, so that an expert's first use is a miss (sizes rounded up, as --expert-cache needs them):",
          out);
    for (int i = 0; i < stats->n_rooms; i++) {
        const struct stats_room *room = &stats->rooms[i];
        const char *what = i ? "" : room->experts == 1 ? " expert" : " experts";
        uint64_t size = room->experts * stats->info->cache.slot_bytes;
        fprintf(out, "%s %" PRIu64 "%s (%s%s) %s %%", i ? "," : " room for", room->experts, what,
                format_bytes_up(bytes, sizeof bytes, size), room->here ? ": you are here" : "",
                format_percent(hits, sizeof hits, room->share, 0));
    }
    const struct moe_cache_plan *plan = &stats->info->cache;
    double asked = (double)tally->single_asked, ahead = (double)tally->single_hits / asked;
    double acting = (double)(tally->single_hits - tally->single_ahead) / asked;
    if (tally->single_asked && slots_of(plan) == plan->experts)
        fprintf(out, "; every expert has a slot and stays from one turn to the next: that hit %s %%",
                format_percent(hits, sizeof hits, acting, 0));
    else if (tally->single_asked)
        fprintf(out, "; the policy that acts (%s) hit %s %%", figures_policy_name(plan),
                format_percent(hits, sizeof hits, acting, 0));
    if (tally->single_ahead) // the curve knows of no reading ahead
        fprintf(out, ", and %s %% with what was read ahead", format_percent(hits, sizeof hits, ahead, 0));
    fputc('\n', out);
}

// What else was done since the start, where that is more than this conversation.
static void print_program(FILE *out, const struct stats *stats)
{
    const struct tally *all = &stats->program, *here = &stats->conversation;
    char tokens[FORMAT_SIZE], read[96], found[TALLY_FOUND_SIZE];
    if (all->read_tokens == here->read_tokens && all->answered_tokens == here->answered_tokens &&
        all->bytes_read == here->bytes_read)
        return;
    fprintf(out, "  since start      %s read, %" PRIu64 " answered; experts: %s, %s\n",
            format_tokens(tokens, sizeof tokens, all->read_tokens, 0), all->answered_tokens,
            tally_found_words(found, all), tally_read_words(read, sizeof read, all));
}

// What the system says that the whole process read, beside what we say of experts.
static void print_process(FILE *out, const struct stats *stats)
{
    const struct process_reads *all = &stats->process, *start = &stats->info->to_start;
    char sum[FORMAT_SIZE], before[FORMAT_SIZE], after[FORMAT_SIZE];
    uint64_t since;
    if (!process_reads_between(start, all, &since))
        return;
    fprintf(out,
            "  whole process    %s from disks, as the system counts: %s to start (program, kernels, weights, disk "
            "probe), %s since (experts, kernels, sessions)\n",
            format_bytes(sum, sizeof sum, all->device_bytes), format_bytes(before, sizeof before, start->device_bytes),
            format_bytes(after, sizeof after, since));
}

void stats_print(FILE *out, const struct stats *stats)
{
    const struct tally *tally = &stats->conversation;
    const struct backend_info *info = stats->info;
    char words[PLAN_WORDS_SIZE], tokens[FORMAT_SIZE], rows[FORMAT_SIZE], states[FORMAT_SIZE], then[48] = "";
    char prefetch[TALLY_PREFETCH_SIZE], unused[48] = "";
    if (stats->context_then > stats->context_used)
        snprintf(then, sizeof then, " (%" PRIu32 " with the message that waits)", stats->context_then);
    fprintf(out, "  model            %s on %s\n", info->name, info->device);
    fprintf(out, "  context          %" PRIu32 " of %" PRIu32 " tokens%s, %zu message%s%s\n", stats->context_used,
            info->max_context, then, stats->messages, format_s(stats->messages),
            stats->to_read_anew ? "; your next message reads everything again" : "");
    if (info->cache.state_bytes)
        fprintf(out, "  its memory       %s of rows, %s of states\n",
                format_bytes(rows, sizeof rows, stats->context_used * info->row_bytes),
                format_bytes(states, sizeof states, info->cache.state_bytes));
    fprintf(out, "  read (prefill)   %s\n",
            format_tokens(tokens, sizeof tokens, tally->read_tokens, tally_read_speed(tally)));
    fprintf(out, "  answered         %s\n",
            format_tokens(tokens, sizeof tokens, tally->answered_tokens, tally_answer_speed(tally)));
    print_time(out, stats->sum);
    print_experts(out, tally);
    print_rooms(out, stats);
    if (tally_unused(tally))
        snprintf(unused, sizeof unused, ", %" PRIu64 " still unused", tally_unused(tally));
    fprintf(out, "  prefetch         %s: %" PRIu64 " read ahead, %" PRIu64 " used, %" PRIu64 " wasted%s%s\n",
            tally_prefetch_words(prefetch, tally), tally->ahead, tally_used(tally), tally->wasted, unused,
            tally_used(tally) + tally->wasted > tally->ahead ? "; some were read ahead before this conversation" : "");
    fprintf(out, "  seed             %" PRIu64 "%s\n", stats->seed, stats->seed_was_used ? " in the last turn" : "");
    print_program(out, stats);
    print_process(out, stats);
    fprintf(out, "  plan             %s\n", plan_words(words, sizeof words, &info->cache));
}
