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
    CHECK(t, stats.n_rooms == 5 && stats.rooms[4].experts == 64 && stats.rooms[2].here && !stats.rooms[1].here);
    info.cache.slots = 20; // the plan's: a room of its own
    stats_rooms(&stats);
    CHECK(t, stats.n_rooms == 6 && stats.rooms[3].experts == 20 && stats.rooms[3].here && !stats.rooms[2].here);
    info.cache.host_slots = 30; // what the device gives up stays there
    stats_rooms(&stats);
    CHECK(t, stats.n_rooms == 6 && stats.rooms[4].experts == 50 && stats.rooms[4].here);
    info.cache.host_only_passes = true;
    stats_rooms(&stats);
    CHECK(t, stats.rooms[3].experts == 20 && stats.rooms[3].here);
    info.cache.host_slots = 0, info.cache.slots = 2;
    stats_rooms(&stats);
    CHECK(t, stats.n_rooms == 6 && stats.rooms[0].experts == 2 && stats.rooms[0].here);
    info.cache.slots = 8, info.cache.experts = 8; // a small model: no room for none
    stats_rooms(&stats);
    CHECK(t, stats.n_rooms == 4 && stats.rooms[0].experts == 1 && stats.rooms[3].experts == 8);
    stats.rooms[0].share = 0;
    CHECK(t, strstr(printed(&stats), ": room for 1 expert (1.00 MB) 0 %, 2 (2.00 MB)") != NULL);
    info.cache.slot_bytes = 1001000; // typed as --expert-cache it has room for as many
    CHECK(t, strstr(printed(&stats), ": room for 1 expert (1.01 MB) 0 %, 2 (2.01 MB)") != NULL);
    info.cache.slot_bytes = 1000000;
    info.cache.slots = 16, info.cache.experts = 64;
    stats_rooms(&stats);
    const char *out = printed(&stats); // nothing happened yet
    CHECK(t, strstr(out, "small on a device\n") && strstr(out, "12 of 4096 tokens, 1 message\n"));
    stats.context_then = 3544;
    CHECK(t, strstr(printed(&stats), "12 of 4096 tokens (3544 with the message that waits), 1 message\n") != NULL);
    stats.context_then = 12;
    out = printed(&stats);
    CHECK(t, strstr(out, "12 of 4096 tokens, 1 message\n") != NULL);
    CHECK(t, strstr(out, "read (prefill)   0 tokens\n") && strstr(out, "answered         0 tokens\n"));
    CHECK(t,
          strstr(out, "  experts          none yet\n") && !strstr(out, "0 hits") && strstr(out, "off: 0 read ahead"));
    CHECK(t, !strstr(out, "whole process")); // not counted here
    stats.conversation.bytes_read = 4000000;
    CHECK(t, strstr(printed(&stats), "  experts          none yet; 4.00 MB read\n") != NULL);
    stats.conversation.bytes_read = 0;
    stats.process = (struct process_reads){true, 90000000, 100000000};
    CHECK(t, !strstr(printed(&stats), "whole process"));
    info.to_start = (struct process_reads){true, 80000000, 85000000};
    CHECK(t, strstr(printed(&stats),
                    "  whole process    90.0 MB from disks, as the system counts: 80.0 MB to start "
                    "(program, kernels, weights, disk probe), 10.0 MB since (experts, kernels, sessions)\n") != NULL);
    info.to_start = stats.process = (struct process_reads){0};
    out = printed(&stats);
    CHECK(t, !strstr(out, "hit curve") && !strstr(out, "  time ") && !strstr(out, "nan"));
    CHECK(t, strstr(out, "seed             7\n") != NULL);
    CHECK(t, !strstr(out, "memory"));
    info.row_bytes = 1000;
    info.cache.state_bytes = 66000000;
    info.cache.snapshot_bytes = 660000000;
    CHECK(t, strstr(printed(&stats), "its memory       12.0 KB of rows, 66.0 MB of states\n") != NULL);
    info.cache.state_bytes = 0;

    struct tally *tally = &stats.conversation;
    stats.sum = &sums;
    stats.messages = 2;
    stats.seed_was_used = true;
    tally_add_record(tally, &sums);
    tally->bytes_read = 4000000, tally->policy = "router";
    tally->single_asked = 8, tally->single_hits = 6;
    tally->ahead = 3, tally->wasted = 1;
    tally->answered_tokens = 11, tally->answer_steps = 10, tally->answer_ns = 500000000;
    stats.program = *tally;
    for (int i = 0; i < stats.n_rooms; i++)
        stats.rooms[i].share = 0.25 * i;
    out = printed(&stats);
    CHECK(t, strstr(out, "5 hits, 5 misses (50.0 % hits); 4.00 MB read") != NULL);
    char found[TALLY_FOUND_SIZE];
    CHECK_STR(t, tally_found_words(found, &(struct tally){.hits = 1, .misses = 2}), "1 hit, 2 misses");
    CHECK_STR(t, tally_found_words(found, &(struct tally){.hits = 0, .misses = 1}), "0 hits, 1 miss");
    tally->bytes_cached = 1000000;
    CHECK(t, strstr(printed(&stats), "4.00 MB read, 1.00 MB of it from the page cache; waited") != NULL);
    tally->bytes_cached = 3999999;
    CHECK(t, strstr(printed(&stats), "4.00 MB read, nearly all from the page cache; waited") != NULL);
    tally->policy = "off", memcpy(tally->reason, "on trial", sizeof "on trial");
    CHECK(t, strstr(printed(&stats), "prefetch         on trial, now off: 3 read ahead") != NULL);
    tally->policy = "router", *tally->reason = 0;
    tally->bytes_cached = 4000000;
    out = printed(&stats);
    CHECK(t, strstr(out, "4.00 MB read, all from the page cache; waited") != NULL);
    CHECK(t, strstr(out, "5 on the device, 0 in host memory, 0 prefetched; missed: 1 prefetched late, 4 read; "
                         "7.00 KB copied") != NULL);
    CHECK(t, strstr(out, "time             2.00 s: reads 75.0 %, experts 25.0 %; bound by reads\n") != NULL);
    sums.shared_out = true;
    CHECK(t, strstr(printed(&stats), "2.00 s: reads 75.0 %, experts ~25.0 %; bound by reads; ~ is estimated: only one "
                                     "token in 64 is timed part by part\n") != NULL);
    sums.shared_out = false;
    out = printed(&stats);
    CHECK(t,
          strstr(out, "room for 4 experts (4.00 MB) 0 %, 8 (8.00 MB) 25 %, 16 (16.0 MB: you are here) 50 %") != NULL);
    CHECK(t, strstr(out, "the policy that acts (recency and frequency) hit 75 %\n") != NULL);
    tally->single_ahead = 2; // the curve's experts are not read ahead: like with like
    CHECK(t, strstr(printed(&stats), "frequency) hit 50 %, and 75 % with what was read ahead\n") != NULL);
    tally->single_ahead = 0;
    out = printed(&stats);
    CHECK(t, strstr(out, "16 of 64 experts cached (16.0 MB; minimum 4.00 MB)") != NULL);
    const struct moe_cache_plan was = info.cache; // one size is one number, which --expert-cache takes
    info.cache.slot_bytes = 86016;
    info.cache.cache_bytes = 16 * info.cache.slot_bytes, info.cache.smallest_bytes = 8 * info.cache.slot_bytes;
    out = printed(&stats);
    CHECK(t, strstr(out, " 8 (689 KB) 25 %, 16 (1.38 MB: you are here) ") != NULL);
    CHECK(t, strstr(out, "experts cached (1.38 MB; minimum 689 KB)") != NULL);
    info.cache = was;
    out = printed(&stats);
    CHECK(t, strstr(out, "prefetch         router: 3 read ahead, 1 used, 1 wasted, 1 still unused\n") != NULL);
    CHECK(t, strstr(out, "11 tokens, 20.0 tokens/s\n") && strstr(out, "2 messages\n"));
    CHECK(t, strstr(out, "seed             7 in the last turn\n") != NULL);
    CHECK(t, !strstr(out, "since start") && !strstr(out, "before this conversation"));
    CHECK(t, strstr(out, "an expert's first use is a miss (sizes rounded up, as --expert-cache needs them): room") &&
                 !strstr(out, "every expert has a slot"));
    info.cache.all = true; // and first uses were another conversation's
    tally->ahead = 1;
    out = printed(&stats);
    CHECK(t, strstr(out, "every expert has a slot and stays from one turn to the next: that hit 75 %\n") != NULL);
    CHECK(t, strstr(out, "1 read ahead, 1 used, 1 wasted; some were read ahead before this conversation\n") != NULL);
    tally->answered_tokens = 1;
    out = printed(&stats);
    CHECK(t, strstr(out, "answered         1 token, 20.0 tokens/s\n") != NULL);
    CHECK(t,
          strstr(out, "since start      0 tokens read, 11 answered; experts: 5 hits, 5 misses, 4.00 MB read") != NULL);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(says_what_was_counted)};
    return HARNESS_RUN(tests, argc, argv);
}
