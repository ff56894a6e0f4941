// SPDX-License-Identifier: GPL-3.0-or-later
// What /stats prints, from figures made here.
#include "tests/harness.h"

#include <stdlib.h>

#include "app/view/stats.h"

static const char *printed(const struct stats *stats)
{
    static char out[4096];
    FILE *file = fmemopen(out, sizeof out, "w");
    stats_print(file, stats);
    fclose(file);
    return out;
}

static void says_what_was_counted(struct harness *t)
{
    struct moe_layer_record layers[2] = {{.layer = 1, .n_from = {[MOE_FROM_DEVICE] = 5, [MOE_FROM_LATE] = 1}},
                                         {.layer = 2, .n_from = {[MOE_FROM_DISK] = 4}, .bytes_device = 7000}};
    struct moe_telemetry sums = {.total_ns = 2000000000,
                                 .ns = {[MOE_ON_DISK] = 1500000000, [MOE_ON_EXPERTS] = 500000000},
                                 .n_moe_layers = 2,
                                 .layers = layers};
    struct backend_info info = {.name = "small", .device = "a device", .max_context = 4096};
    info.cache = (struct moe_cache_plan){
        .experts = 64, .slots = 16, .slot_bytes = 1000000, .cache_bytes = 16000000, .smallest_bytes = 4000000};
    struct stats stats = {.info = &info, .context_used = 12, .messages = 1, .seed = 7};
    stats_rooms(&stats);
    CHECK_EQ(t, stats.rooms[0].experts, 4);
    CHECK_EQ(t, stats.rooms[STATS_ROOMS - 1].experts, 64);
    const char *out = printed(&stats); // nothing happened yet
    CHECK(t, strstr(out, "small on a device\n") && strstr(out, "12 of 4096 tokens, 1 message\n"));
    CHECK(t, strstr(out, "read (prefill)   0 tokens\n") && strstr(out, "answered         0 tokens\n"));
    CHECK(t, strstr(out, " 0 hits, 0 misses (0.0 % hits)") && strstr(out, "off: 0 read ahead"));
    CHECK(t, !strstr(out, "hit curve") && !strstr(out, "  time ") && !strstr(out, "nan"));
    CHECK(t, strstr(out, "seed             7\n") != NULL);
    CHECK(t, !strstr(out, "memory"));
    info.row_bytes = 1000;
    info.cache.state_bytes = 66000000;
    info.cache.snapshot_bytes = 660000000;
    CHECK(t, strstr(printed(&stats), "its memory       12.0 KB of rows, 66.0 MB of states\n") != NULL);
    info.cache.state_bytes = 0;

    stats.session = &sums;
    stats.messages = 2;
    stats.seed_was_used = true;
    stats.counters = (struct moe_stats){.hits = 6, .misses = 4, .bytes_read = 4000000, .prefetch_policy = "router"};
    stats.counters.prefetched = 3, stats.counters.used = 2, stats.counters.wasted = 1;
    stats.counters.decoded_tokens = 10, stats.counters.decode_ns = 500000000;
    for (int i = 0; i < STATS_ROOMS; i++)
        stats.rooms[i].share = 0.25 * i;
    out = printed(&stats);
    CHECK(t, strstr(out, "6 hits, 4 misses (60.0 % hits); 4.00 MB read") != NULL);
    stats.counters.bytes_cached = 1000000;
    CHECK(t, strstr(printed(&stats), "4.00 MB read, 1.00 MB of it from the page cache; waited") != NULL);
    stats.counters.bytes_cached = 4000000;
    out = printed(&stats);
    CHECK(t, strstr(out, "4.00 MB read, all from the page cache; waited") != NULL);
    CHECK(t,
          strstr(out, "5 on the device, 0 in host memory, 0 prefetched, 1 prefetched late, 4 read; 7.00 KB copied") !=
              NULL);
    CHECK(t, strstr(out, "time             2.00 s: disk 75.0 %, experts 25.0 %; bound by reads\n") != NULL);
    CHECK(t, strstr(out, "a cache of 4 experts (4.00 MB) would have hit 0 %, 8 (8.00 MB) 25 %") != NULL);
    CHECK(t, strstr(out, "16 of 64 experts cached (16.0 MB; minimum 4.00 MB)") != NULL);
    CHECK(t, strstr(out, "prefetch         router: 3 read ahead, 2 used, 1 wasted\n") != NULL);
    CHECK(t, strstr(out, "10 tokens, 20.0 tokens/s\n") && strstr(out, "2 messages\n"));
    CHECK(t, strstr(out, "seed             7 in the last turn\n") != NULL);
    stats.counters.decoded_tokens = 1;
    CHECK(t, strstr(printed(&stats), "answered         1 token, 2.0 tokens/s\n") != NULL);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(says_what_was_counted)};
    return HARNESS_RUN(tests, argc, argv);
}
