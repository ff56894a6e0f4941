// SPDX-License-Identifier: GPL-3.0-or-later
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

char *plan_words(char *out, size_t size, const struct moe_cache_plan *plan)
{
    char a[FORMAT_SIZE], b[FORMAT_SIZE];
    *out = 0;
    if (plan->resident_bytes)
        add(out, size, "%s of weights stay resident; ", format_bytes(a, sizeof a, plan->resident_bytes));
    if (plan->all)
        add(out, size, "all %" PRIu64 " experts have a slot (%s)", plan->slots,
            format_bytes(a, sizeof a, plan->slots * plan->slot_bytes));
    else
        add(out, size, "%" PRIu64 " of %" PRIu64 " experts have a slot (%s)", plan->slots, plan->experts,
            format_bytes(a, sizeof a, plan->slots * plan->slot_bytes));
    if (plan->host_slots)
        add(out, size, "%s on the device and %" PRIu64 " in host memory (%s%s)", plan->all ? "," : "", plan->host_slots,
            format_bytes(a, sizeof a, plan->host_slots * plan->slot_bytes),
            plan->host_only_passes ? ", to pass through" : "");
    add(out, size, ", the smallest that works is %s; a cold token reads %s",
        format_bytes(a, sizeof a, plan->smallest_bytes), format_bytes(b, sizeof b, plan->cold_bytes));
    if (plan->disk_bytes_per_s) {
        double seconds = (double)plan->cold_bytes / (double)plan->disk_bytes_per_s;
        format_bytes(a, sizeof a, plan->disk_bytes_per_s);
        if (seconds < 0.1)
            add(out, size, " in %.*f ms", seconds < 0.001 ? 2 : 0, seconds * 1e3);
        else
            add(out, size, " in %s", format_duration(b, sizeof b, seconds));
        add(out, size, " (disk %s/s, %u reader%s, %s)", a, plan->readers, plan->readers == 1 ? "" : "s",
            plan->direct ? "past the page cache" : "through the page cache");
    }
    add(out, size, ".");
    return out;
}

char *plan_warning(char *out, size_t size, const struct moe_cache_plan *plan, bool host_cache_given)
{
    char a[FORMAT_SIZE];
    *out = 0;
    if (plan->per_layer)
        add(out, size,
            "The expert cache is smaller than the %" PRIu64 " experts that one token asks for, where keeping the last "
            "used never helps, so each layer keeps a share of its own; from --expert-cache %" PRIu64 "M (%s) on it "
            "works better. ",
            plan->token_experts, (plan->token_experts * plan->slot_bytes + (1 << 20) - 1) >> 20,
            format_bytes(a, sizeof a, plan->token_experts * plan->slot_bytes));
    if (plan->direct_refused)
        add(out, size, "The file system takes no direct reads, so experts are read through the page cache. ");
    if (host_cache_given && !plan->host_slots)
        add(out, size, "The device computes in host memory, so there is one cache and --host-cache changes nothing. ");
    size_t length = strlen(out);
    if (length)
        out[length - 1] = 0;
    return out;
}
