// SPDX-License-Identifier: GPL-3.0-or-later
// Finds what a slow step spent its extra time on, and says it in a sentence.
#include "app/figures/why.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "app/figures/figures.h"
#include "app/util/format.h"

bool why_is_slow(const struct moe_telemetry *step, const struct usual *usual)
{
    return step->decode && usual->tokens && (double)step->total_ns >= 1.5 * (double)usual->total_ns;
}

static bool is_fast(const struct moe_telemetry *step, const struct usual *usual)
{
    return 1.5 * (double)step->total_ns <= (double)usual->total_ns;
}

enum moe_interval why_interval(const struct moe_telemetry *step, const struct usual *usual)
{
    bool slow = why_is_slow(step, usual);
    enum moe_interval most = MOE_ON_DISK;
    int64_t most_ns = INT64_MIN;
    for (int i = 0; i < MOE_INTERVALS; i++) {
        int64_t ns = (int64_t)step->ns[i] - (slow ? (int64_t)usual->ns[i] : 0);
        if (ns <= most_ns)
            continue;
        most_ns = ns;
        most = (enum moe_interval)i;
    }
    return most;
}

static double ms(uint64_t ns)
{
    return (double)ns / 1e6;
}

// Appends, cutting off what does not fit.
__attribute__((format(printf, 2, 3))) static void add(char out[WHY_SIZE], const char *format, ...)
{
    size_t used = strlen(out);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(out + used, WHY_SIZE - used, format, arguments);
    va_end(arguments);
}

// Where its experts came from: "18 of its 24 experts were read (1.55 MB)", and which kept it longest.
static void add_experts(char out[WHY_SIZE], const struct moe_telemetry *step, bool disk)
{
    uint64_t all = 0, from = 0, bytes = 0;
    char amount[FORMAT_SIZE];
    for (uint32_t l = 0; l < step->n_moe_layers; l++) {
        const struct moe_layer_record *layer = &step->layers[l];
        for (int origin = 0; origin < MOE_ORIGINS; origin++)
            all += layer->n_from[origin];
        from += disk ? layer->n_from[MOE_FROM_DISK] + layer->n_from[MOE_FROM_LATE]
                     : layer->n_from[MOE_FROM_HOST] + layer->n_from[MOE_FROM_DISK] + layer->n_from[MOE_FROM_LATE];
        bytes += disk ? layer->bytes_disk : layer->bytes_device;
    }
    add(out, "; %" PRIu64 " of its %" PRIu64 " experts %s %s (%s)", from, all, from == 1 ? "was" : "were",
        disk ? "read" : "not on the device", format_bytes(amount, sizeof amount, bytes));
    const struct moe_choice *longest = NULL;
    uint32_t n = step->choices ? step->n_moe_layers * step->top_k : 0, at = 0;
    for (uint32_t i = 0; i < n; i++)
        if (!longest || step->choices[i].wait_us > longest->wait_us) {
            longest = &step->choices[i];
            at = i / step->top_k;
        }
    if (longest && longest->wait_us)
        add(out, ", the longest wait for expert %u of layer %" PRIu32 ", %.2f ms", longest->expert,
            step->layers[at].layer, longest->wait_us / 1e3);
}

static const char *about_of(bool shared_out, enum moe_interval interval)
{
    return figures_is_estimate(shared_out, interval) ? "about " : "";
}

char *why_words(char out[WHY_SIZE], const struct moe_telemetry *step, const struct usual *usual)
{
    static const char *const doing[MOE_INTERVALS] = {
        [MOE_ON_DISK] = "waiting for reads",
        [MOE_ON_COPY] = "waiting for copies to the device",
        [MOE_ON_ATTENTION] = "computing attention",
        [MOE_ON_ROUTER] = "computing the router",
        [MOE_ON_EXPERTS] = "computing experts",
        [MOE_ON_HEAD] = "computing the head",
        [MOE_ON_SAMPLING] = "sampling",
        [MOE_ON_SAVING] = "saving the conversation",
        [MOE_ON_HOST] = "working on the host",
    };
    enum moe_interval why = why_interval(step, usual);
    bool slow = why_is_slow(step, usual);
    const char *about = about_of(step->shared_out, why), *usually = about_of(usual->shared_out, why);
    *out = 0;
    if (slow)
        add(out, "Slow, %.1f times the usual %.2f ms: %s%.2f ms %s, usually %s%.2f",
            (double)step->total_ns / (double)usual->total_ns, ms(usual->total_ns), about, ms(step->ns[why]), doing[why],
            usually, ms(usual->ns[why]));
    else if (step->decode && usual->tokens)
        add(out, "%s (%.2f ms), mostly %s (%s%.2f ms)", is_fast(step, usual) ? "Faster than usual" : "As usual",
            ms(usual->total_ns), doing[why], about, ms(step->ns[why]));
    else
        add(out, "Mostly %s (%s%.2f ms)", doing[why], about, ms(step->ns[why]));
    if (why == MOE_ON_DISK || why == MOE_ON_COPY)
        add_experts(out, step, why == MOE_ON_DISK);
    else if (slow)
        add(out, "; other programs may have slowed it down");
    add(out, ".");
    return out;
}
