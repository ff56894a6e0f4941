// SPDX-License-Identifier: GPL-3.0-or-later
// moechat bench cache TRACE: what caches of other sizes, and other policies, would have made of recorded routing.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/subcommands/cmd.h"
#include "app/util/format.h"
#include "app/util/json_out.h"
#include "app/util/report.h"

static const char *const names[MOE_TRACE_POLICIES] = {"lru", "lfu", "moechat", "belady"};

static double share(uint64_t hits, uint64_t uses)
{
    return uses ? (double)hits / (double)uses : 0;
}

static void print_table(const struct moe_trace_replayed *replayed, bool prefill)
{
    uint64_t uses = prefill ? replayed->prefill_uses : replayed->decode_uses;
    uint64_t experts = (uint64_t)replayed->n_moe_layers * replayed->n_routed_experts;
    if (!uses)
        return;
    printf("\n%s: hit rate in %%, %" PRIu64 " request%s\n  slots            memory", prefill ? "Prefill" : "Decoding",
           uses, format_s(uses));
    for (int p = 0; p < MOE_TRACE_POLICIES; p++)
        printf("%9s", names[p]);
    putchar('\n');
    for (uint32_t i = 0; i < replayed->n_rows; i++) {
        const struct moe_trace_row *row = &replayed->rows[i];
        char memory[FORMAT_SIZE], text[FORMAT_SIZE];
        printf("  %-6" PRIu64 " %3s %%  %11s", row->slots,
               format_percent(text, sizeof text, share(row->slots, experts), 0),
               format_bytes_up(memory, sizeof memory, row->slots * replayed->slot_bytes));
        for (int p = 0; p < MOE_TRACE_POLICIES; p++)
            printf("%9s", format_percent(text, sizeof text,
                                         share(prefill ? row->prefill_hits[p] : row->decode_hits[p], uses), 1));
        putchar('\n');
    }
}

static void print_text(const struct moe_trace_replayed *replayed)
{
    report_text(stdout, replayed->model, strnlen(replayed->model, sizeof replayed->model));
    printf(": %" PRIu64 " token%s decoded, %" PRIu32 " layer%s of %" PRIu32 " experts, %" PRIu32 " per token\n",
           replayed->tokens, format_s(replayed->tokens), replayed->n_moe_layers, format_s(replayed->n_moe_layers),
           replayed->n_routed_experts, replayed->top_k);
    if (replayed->cut)
        puts("The trace ends in the middle of a request; everything before it was replayed.");
    print_table(replayed, false);
    print_table(replayed, true);
    puts("\nPrompts pass through the caches, too, a layer's experts at once; /stats counts answers alone, from an "
         "empty cache.");
    puts("belady knows the future: in prompts and answers together no policy can do better.");
}

static void add_hits(struct json_out *out, const char *key, const uint64_t hits[MOE_TRACE_POLICIES])
{
    json_out_open(out, key, '{');
    for (int p = 0; p < MOE_TRACE_POLICIES; p++)
        json_out_whole(out, names[p], hits[p]);
    json_out_close(out, '}');
}

static int print_json(const struct moe_trace_replayed *replayed)
{
    struct json_out out = {0};
    json_out_open(&out, NULL, '{');
    json_out_string(&out, "model", replayed->model);
    json_out_whole(&out, "tokens", replayed->tokens);
    json_out_whole(&out, "slot_bytes", replayed->slot_bytes);
    json_out_whole(&out, "decode_uses", replayed->decode_uses);
    json_out_whole(&out, "prefill_uses", replayed->prefill_uses);
    json_out_flag(&out, "cut", replayed->cut);
    json_out_open(&out, "rows", '[');
    for (uint32_t i = 0; i < replayed->n_rows; i++) {
        const struct moe_trace_row *row = &replayed->rows[i];
        json_out_open(&out, NULL, '{');
        json_out_whole(&out, "slots", row->slots);
        add_hits(&out, "decode_hits", row->decode_hits);
        add_hits(&out, "prefill_hits", row->prefill_hits);
        json_out_close(&out, '}');
    }
    json_out_close(&out, ']');
    json_out_close(&out, '}');
    return json_out_finish(&out);
}

int cmd_bench_cache(const struct options *options)
{
    const char *path = options->asked.more[0];
    struct moe_err err;
    if (!path) {
        report("bench cache needs a trace: moechat run --trace FILE writes one");
        return STATUS_USAGE;
    }
    struct moe_trace_replayed *replayed = calloc(1, sizeof *replayed);
    int status = STATUS_FAILED;
    if (!replayed) {
        report("no memory");
    } else if (moe_trace_replay(path, replayed, &err)) {
        report("%s", err.text);
    } else if (options->asked.json) {
        status = print_json(replayed);
    } else {
        print_text(replayed);
        status = STATUS_DONE;
    }
    free(replayed);
    return status;
}
