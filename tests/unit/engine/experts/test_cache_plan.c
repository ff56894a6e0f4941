// SPDX-License-Identifier: GPL-3.0-or-later
// From budgets to slots: sizes, shares and words for both tiers, what is refused and with which remedy, and the plan in
// words.
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/amounts.h"
#include "engine/base/clock.h"
#include "engine/experts/cache_plan.h"
#include "engine/experts/disk_probe.h"
#include "tests/harness.h"
#include "app/view/plan_words.h"

#define MIB (UINT64_C(1) << 20)

// 100 experts of 1 MiB, 8 in flight, 60 MiB of device memory and 400 of the host's.
static const struct cache_question two = {.slot_bytes = MIB,
                                          .n_experts = 100,
                                          .per_dispatch = 8,
                                          .dispatches = 1,
                                          .device_left = 60 * MIB,
                                          .host_left = 400 * MIB,
                                          .two_tiers = true};

struct budgets {
    uint64_t device, host, device_slots, host_slots;
    bool only_passes;
};

static void budgets_of_two_tiers(struct harness *t)
{
    static const struct budgets cases[] = {
        {MOE_CACHE_AUTO, MOE_CACHE_AUTO, 45, 100, false}, // three quarters; all, as they fit in half
        {MOE_CACHE_AUTO, MOE_CACHE_NONE, 45, 16, true},
        {MOE_CACHE_SHARE(500), MOE_CACHE_SHARE(100), 30, 40, false},
        {8 * MIB, MOE_CACHE_NONE, 8, 8, true},
        {17 * MIB, MOE_CACHE_NONE, 17, 17, true},
        {18 * MIB, MOE_CACHE_NONE, 18, 16, true},
        {20 * MIB + 5, 70 * MIB - 1, 20, 69, false},
        {20 * MIB, MOE_CACHE_ALL, 20, 100, false},
        {20 * MIB, 16 * MIB, 20, 16, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cache_question q = two;
        struct cache_answer answer;
        q.device_bytes = cases[i].device;
        q.host_bytes = cases[i].host;
        CHECK_EQ(t, cache_plan(&q, &answer, NULL), MOE_OK);
        CHECK_EQ(t, answer.device_slots, cases[i].device_slots);
        CHECK_EQ(t, answer.host_slots, cases[i].host_slots);
        CHECK_EQ(t, answer.host_only_passes, cases[i].only_passes);
    }
    // What the host could add is no more than the device has.
    struct cache_question q = two;
    struct cache_answer answer;
    q.host_left = 80 * MIB;
    CHECK_EQ(t, cache_plan(&q, &answer, NULL), MOE_OK);
    CHECK(t, answer.host_only_passes && answer.host_slots == 16);
}

static void budgets_of_one_tier(struct harness *t)
{
    struct cache_question q = two;
    struct cache_answer answer;
    q.two_tiers = false;
    q.device_left = q.host_left;
    q.host_bytes = 50 * MIB;
    CHECK_EQ(t, cache_plan(&q, &answer, NULL), MOE_OK);
    CHECK_EQ(t, answer.device_slots, 100);
    CHECK_EQ(t, answer.host_slots, 0);
    q.device_left = 100 * MIB;
    CHECK_EQ(t, cache_plan(&q, &answer, NULL), MOE_OK);
    CHECK_EQ(t, answer.device_slots, 50);
    q.device_bytes = MOE_CACHE_SHARE(1000);
    CHECK_EQ(t, cache_plan(&q, &answer, NULL), MOE_OK);
    CHECK_EQ(t, answer.device_slots, 100);
}

static void refuse(struct harness *t, uint64_t device, uint64_t host, int code, const char *text)
{
    struct cache_question q = two;
    struct cache_answer answer;
    struct moe_err err = {0};
    q.device_bytes = device;
    q.host_bytes = host;
    CHECK_EQ(t, cache_plan(&q, &answer, &err), code);
    CHECK_STR(t, err.text, text);
}

// What is said to be enough is enough when it is typed.
static void amounts_to_type(struct harness *t)
{
    static const struct {
        uint64_t bytes;
        const char *up, *nearest;
    } cases[] = {
        {0, "0B", "0B"},
        {999, "999B", "999B"},
        {1000, "1.00KB", "1.00KB"},
        {1001, "1.01KB", "1.00KB"},
        {9991, "10.0KB", "9.99KB"},
        {99901, "100KB", "99.9KB"},
        {409600, "410KB", "410KB"},
        {688128, "689KB", "688KB"},
        {688500, "689KB", "689KB"},
        {999000, "999KB", "999KB"},
        {999001, "1.00MB", "999KB"},
        {999499, "1.00MB", "999KB"},
        {999500, "1.00MB", "1.00MB"},
        {24772608, "24.8MB", "24.8MB"},
        {UINT64_MAX, "18.5EB", "18.4EB"},
    };
    char out[AMOUNT_SIZE];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_STR(t, amount_to_type(out, cases[i].bytes, true), cases[i].up);
        CHECK_STR(t, amount_to_type(out, cases[i].bytes, false), cases[i].nearest);
    }
}

static void refusals_say_what_works(struct harness *t)
{
    refuse(t, 1, 0, MOE_BUDGET,
           "an expert cache of 1B holds 0 of the 8 experts that 1 layer in flight needs: give --expert-cache 8.39MB or "
           "more");
    refuse(t, 8 * MIB - 1, 0, MOE_BUDGET,
           "an expert cache of 8388607B holds 7 of the 8 experts that 1 layer in flight needs: give "
           "--expert-cache 8.39MB or more");
    refuse(t, 7 * MIB + 606000, 0, MOE_BUDGET,
           "an expert cache of 7.95MB holds 7 of the 8 experts that 1 layer in flight needs: give "
           "--expert-cache 8.39MB or more");
    refuse(t, MOE_CACHE_SHARE(100), 0, MOE_BUDGET,
           "an expert cache of 6.29MB holds 6 of the 8 experts that 1 layer in flight needs: give "
           "--expert-cache 8.39MB or more");
    refuse(
        t, 61 * MIB, 0, MOE_NO_MEMORY,
        "--expert-cache: 61 MiB are more than the 60 MiB of memory that are free; give it at most 54 MiB, a share such "
        "as 50%, or auto");
    refuse(t, 20 * MIB, 15 * MIB, MOE_BUDGET,
           "a host cache of 15.7MB holds 15 experts and 16 pass through it at once: give --host-cache none, or "
           "16.8MB or more");
    struct cache_question q = two;
    struct cache_answer answer;
    struct moe_err err = {0};
    q.dispatches = 2;
    q.device_bytes = 16 * MIB - 1;
    CHECK_EQ(t, cache_plan(&q, &answer, &err), MOE_BUDGET);
    CHECK_STR(t, err.text,
              "an expert cache of 16777215B holds 15 of the 16 experts that 2 layers in flight need: give "
              "--expert-cache 16.8MB or more");
    q.device_bytes++;
    CHECK_EQ(t, cache_plan(&q, &answer, &err), MOE_OK);
    q.n_experts = 11; // of all layers: more slots than that are never needed
    q.device_bytes = 11 * MIB;
    CHECK_EQ(t, cache_plan(&q, &answer, &err), MOE_OK);
    CHECK_EQ(t, answer.device_slots, 11);
    q.device_bytes--;
    CHECK_EQ(t, cache_plan(&q, &answer, &err), MOE_BUDGET);
    q = two;
    q.host_bytes = MOE_CACHE_ALL;
    q.host_left = 90 * MIB;
    CHECK_EQ(t, cache_plan(&q, &answer, &err), MOE_NO_MEMORY);
    CHECK_STR(t, err.text,
              "--host-cache: 100 MiB are more than the 90 MiB of memory that are free; give it at most 81 MiB, a share "
              "such as 50%, or auto");
}

// ---- Sizes

static void sizes_waste_little(struct harness *t)
{
    // One layer without experts; a mix of types as in the middle of a UD file; two layers far from the others.
    static const uint64_t alike[] = {0, 100, 97, 98, 100}, mix[] = {0, 100, 70, 72, 70, 100, 71, 70, 69},
                          many[] = {10, 20, 30, 40, 50, 60};
    struct cache_size sizes[CACHE_SIZES];
    uint32_t of_layer[9];
    CHECK_EQ(t, cache_sizes(alike, 5, 8, sizes, of_layer), 1);
    CHECK(t, sizes[0].slot_bytes == 100 && sizes[0].n_experts == 4 * 8 && cache_mean(sizes, 1) == 100);
    CHECK_EQ(t, cache_sizes(mix, 9, 8, sizes, of_layer), 2);
    CHECK(t, sizes[0].slot_bytes == 72 && sizes[0].n_experts == 6 * 8);
    CHECK(t, sizes[1].slot_bytes == 100 && sizes[1].n_experts == 2 * 8);
    for (int layer = 1; layer < 9; layer++)
        CHECK_EQ(t, of_layer[layer], mix[layer] == 100);
    CHECK_EQ(t, cache_mean(sizes, 2), 79); // (6 * 72 + 2 * 100) / 8
    // Three at most: 10, 20 | 30, 40 | 50, 60 waste least.
    CHECK_EQ(t, cache_sizes(many, 6, 1, sizes, of_layer), 3);
    for (uint32_t i = 0; i < 3; i++)
        CHECK(t, sizes[i].slot_bytes == 20 * (i + 1) && sizes[i].n_experts == 2);
}

// Whatever the budget: the slots of all sizes take no more than it, each size has what is in flight, and where they are
// few there is one size that works.
static void sizes_share_the_budgets(struct harness *t)
{
    const struct cache_size mix[2] = {{.slot_bytes = 72, .n_experts = 480}, {.slot_bytes = 100, .n_experts = 160}};
    uint32_t shared = 0;
    for (uint64_t budget = 0; budget < 55000; budget += 37)
        for (uint64_t host = 0; host < 4; host++) {
            struct cache_question q = {.slot_bytes = 79,
                                       .n_experts = 640,
                                       .per_dispatch = 8,
                                       .dispatches = 2,
                                       .device_bytes = budget + 1,
                                       .host_bytes = host ? 20000 * host : MOE_CACHE_NONE,
                                       .device_left = 60000,
                                       .host_left = 60000,
                                       .two_tiers = host < 3};
            struct cache_size sizes[2] = {mix[0], mix[1]};
            struct cache_answer answer;
            if (cache_plan(&q, &answer, NULL) || !cache_share(&q, &answer, sizes, 2))
                continue;
            shared++;
            uint64_t device = 0, kept = 0;
            for (int i = 0; i < 2; i++) {
                CHECK(t, sizes[i].device_slots >= 16 && sizes[i].device_slots <= sizes[i].n_experts);
                CHECK(t, !q.two_tiers || sizes[i].host_slots >= 16);
                device += sizes[i].device_slots * sizes[i].slot_bytes;
                kept += sizes[i].host_slots * sizes[i].slot_bytes;
            }
            CHECK(t, device <= budget + 1 && device + 2 * 100 + 79 > (budget < 50560 ? budget + 1 : 50560));
            CHECK(t, !q.two_tiers || answer.host_only_passes || kept <= q.host_bytes);
            CHECK_EQ(t, answer.device_slots, sizes[0].device_slots + sizes[1].device_slots);
            CHECK_EQ(t, answer.host_slots, q.two_tiers ? sizes[0].host_slots + sizes[1].host_slots : 0);
            CHECK(t, budget < 50560 || (sizes[0].device_slots == 480 && sizes[1].device_slots == 160));
        }
    CHECK(t, shared > 4000);
}

// To the last byte of what the host has left.
static void sizes_may_take_all(struct harness *t)
{
    const struct cache_size mix[2] = {{.slot_bytes = 72, .n_experts = 480}, {.slot_bytes = 100, .n_experts = 160}};
    struct cache_question q = {.per_dispatch = 8, .dispatches = 2, .two_tiers = true};
    for (uint64_t short_of = 0; short_of < 2; short_of++) {
        struct cache_size sizes[2] = {mix[0], mix[1]};
        struct cache_answer answer = {.device_slots = 64, .host_slots = 640};
        q.host_left = 480 * 72 + 160 * 100 - short_of;
        CHECK_EQ(t, cache_share(&q, &answer, sizes, 2), short_of == 0);
    }
}

static bool holds(const struct disk_probed *probed, uint64_t all_bytes)
{
    return !disk_probe_doubt(probed, all_bytes);
}

// What is said to be the disk's speed is, or nothing is said.
static void a_probe_holds_or_not(struct harness *t)
{
    const uint64_t all = UINT64_C(8) << 30;
    struct disk_probed good = {
        .bytes_per_s = 2000000000, .bytes = 100000000, .cached = 4000000, .first_half = 1500000000, .rest = 2500000000};
    CHECK(t, holds(&good, all));
    CHECK_STR(t, disk_probe_doubt(&good, 150000000), "the model is too small"); // much of it was read twice
    CHECK(t, holds(&good, 200000000) && !holds(&good, 199999998));
    struct disk_probed bad = good;
    bad.cached = 5000000;
    CHECK(t, holds(&bad, all));
    bad.rest = 750000000; // half as fast
    CHECK(t, holds(&bad, all));
    bad.first_half = 375000000;
    CHECK(t, holds(&bad, all));
    bad.cached = 6000000;
    CHECK_STR(t, disk_probe_doubt(&bad, all), "it is in the page cache");
    bad = good;
    bad.rest = 700000000; // others came in between
    CHECK_STR(t, disk_probe_doubt(&bad, all), "its speed varied");
    bad = good;
    bad.bytes_per_s = 0;
    CHECK_STR(t, disk_probe_doubt(&bad, all), "a read failed");
    bad = good;
    bad.first_half = bad.rest = 0; // a few reads of large experts, from a slow disk
    CHECK(t, holds(&bad, all));
    bad.bytes = 3000000; // or hardly any
    bad.cached = 0;
    CHECK_STR(t, disk_probe_doubt(&bad, all), "too little came in time");
    bad = good; // a small model, where the readers got no processor: little of it was read, and that evenly
    bad.bytes = 500000;
    bad.cached = 0;
    CHECK_STR(t, disk_probe_doubt(&bad, 2000000), "the model is too small");
    CHECK_STR(t, disk_probe_doubt(&bad, (64 << 20) - 1), "the model is too small");
    CHECK(t, holds(&bad, 64 << 20));
    bad.first_half = bad.rest = 0;
    CHECK_STR(t, disk_probe_doubt(&bad, 2000000), "the model is too small");
    bad.cached = bad.bytes;
    CHECK_STR(t, disk_probe_doubt(&bad, 2000000), "the model is too small");
}

// Reads that share a disk: all that are under way end together, every 18 ms.
static ptrdiff_t read_in_waves(void *context, int fd, void *target, size_t length, uint64_t offset)
{
    enum { WAVE_NS = 18000000 };
    uint64_t began = *(const uint64_t *)context, since = clock_ns() - began;
    ptrdiff_t got = pread(fd, target, length, (off_t)offset);
    uint64_t left = (since / WAVE_NS + 1) * WAVE_NS - (clock_ns() - began);
    nanosleep(&(struct timespec){.tv_nsec = (long)(left < WAVE_NS ? left : 0)}, NULL);
    return got;
}

// A disk that reads evenly is measured, however few waves of reads there are in the time: what is on its way when half
// of it is over has come in part.
static void reads_that_end_together_are_steady(struct harness *t)
{
    enum { READERS = 8, SLOT = 1 << 20 };
    struct package package;
    struct flights flights;
    struct moe_err err;
    uint64_t began = clock_ns();
    struct flights_options options = {
        .n_flights = READERS, .readers = READERS, .read = read_in_waves, .read_context = &began};
    if (!CHECK_EQ(t, package_open("tests/golden/tiny-a/package", &package, &err), 0) ||
        !CHECK_EQ(t, flights_open(&flights, &package, &options, &err), 0))
        return;
    struct disk_probe probe = {.n_targets = READERS, .seed = 1};
    bool fine = package_slot_bytes(&package) <= SLOT;
    for (int i = 0; i < READERS; i++)
        fine = (probe.targets[i] = aligned_alloc(4096, SLOT)) && fine;
    struct disk_probed probed = {0};
    for (int i = 0; i < 3 && CHECK(t, fine); i++) { // others may compute meanwhile
        if (i && !disk_probe_doubt(&probed, UINT64_MAX))
            break;
        began = clock_ns();
        probed = disk_probe(&flights, &probe);
    }
    CHECK(t, probed.bytes_per_s > 0 && probed.first_half > 0 && probed.rest > 0);
    CHECK(t, disk_probe_doubt(&probed, UINT64_MAX) == NULL);
    for (int i = 0; i < READERS; i++)
        free(probe.targets[i]);
    flights_close(&flights);
    package_release(&package);
}

static void plans_in_words(struct harness *t)
{
    char words[PLAN_WORDS_SIZE];
    struct moe_cache_plan plan = {.slots = 464,
                                  .slot_bytes = 24772608,
                                  .cache_bytes = 464 * UINT64_C(24772608),
                                  .smallest_bytes = 8 * UINT64_C(24772608),
                                  .experts = 14848,
                                  .token_experts = 464,
                                  .resident_bytes = UINT64_C(9800000000),
                                  .readers = 8,
                                  .direct = true,
                                  .disk_bytes_per_s = UINT64_C(7000000000),
                                  .cold_bytes = 464 * UINT64_C(24772608)};
    CHECK_STR(
        t, plan_words(words, sizeof words, &plan),
        "9.80 GB of resident weights; 464 of 14848 experts cached (11.5 GB; minimum 199 MB); a token with "
        "nothing cached "
        "reads 11.5 GB, about 1.6 s (disk 7.00 GB/s, 8 readers, past the page cache): 0.61 tokens/s, with the cache "
        "full 0.63 or more, without the time to compute.");
    CHECK(t, strstr(plan_without_speeds(words, sizeof words, &plan), "past the page cache).") != NULL);
    CHECK(t, plan_cached(&plan) == 464.0 / 14848);
    CHECK_STR(t, plan_warning(words, sizeof words, &plan, false), "");
    const struct moe_cache_plan demo = {.slots = 24,
                                        .experts = 192,
                                        .cache_bytes = 24 * UINT64_C(86016),
                                        .smallest_bytes = 8 * UINT64_C(86016),
                                        .cold_bytes = 24 * UINT64_C(86016)}; // 2.064 MB: as many experts, one size
    CHECK(t, strstr(plan_words(words, sizeof words, &demo),
                    "24 of 192 experts cached (2.07 MB; minimum 689 KB); a token with nothing cached reads 2.07 MB") !=
                 NULL);
    plan.host_slots = 14848 / 2;
    CHECK(t,
          strstr(plan_words(words, sizeof words, &plan), ": 0.61 tokens/s, with the cache full 1.3 or more, ") != NULL);
    plan.host_only_passes = true; // those keep nothing
    CHECK(t,
          strstr(plan_words(words, sizeof words, &plan), ": 0.61 tokens/s, with the cache full 0.63 or more") != NULL);
    CHECK(t, plan_cached(&plan) == 464.0 / 14848);
    plan.host_only_passes = false;
    CHECK(t, plan_cached(&plan) == (464.0 + 7424) / 14848);
    plan.all = true;
    CHECK(t, plan_cached(&plan) == 1);
    CHECK(t, strstr(plan_words(words, sizeof words, &plan),
                    "0.61 tokens/s, and no reads once every expert was used, ") != NULL);
    plan.all = false;
    plan.cold_bytes /= 1000;
    CHECK(t, strstr(plan_words(words, sizeof words, &plan),
                    "about 2 ms (disk 7.00 GB/s, 8 readers, past the page cache).") != NULL);
    plan.cold_bytes = 464 * UINT64_C(24772608);
    plan.host_slots = 4000;
    plan.host_cache_bytes = 4000 * plan.slot_bytes;
    plan.disk_bytes_per_s = 0;
    plan.resident_bytes = 0;
    CHECK_STR(t, plan_words(words, sizeof words, &plan),
              "464 of 14848 experts cached on the device (11.5 GB; minimum 199 MB) and 4000 in host memory (99.1 GB); "
              "a token "
              "with nothing cached reads 11.5 GB (8 readers, past the page cache).");
    plan.disk_doubt = "the model is too small";
    CHECK(t,
          strstr(plan_words(words, sizeof words, &plan),
                 "reads 11.5 GB (8 readers, past the page cache; disk not measured: the model is too small).") != NULL);
    CHECK(t, strstr(plan_without_speeds(words, sizeof words, &plan),
                    "reads 11.5 GB (8 readers, past the page cache).") != NULL); // who tells them says why, too
    plan.disk_doubt = NULL;
    plan.smallest_bytes = plan.cache_bytes = 393216; // of 393 KB it may not be said that 394 are the least
    CHECK(t, strstr(plan_words(words, sizeof words, &plan), " (394 KB, the minimum) and 4000 ") != NULL);
    plan.smallest_bytes = 8 * UINT64_C(24772608);
    plan.cache_bytes = 464 * UINT64_C(24772608);
    plan.state_bytes = UINT64_C(66000000);
    plan.snapshot_bytes = 22 * plan.state_bytes;
    CHECK_STR(t, plan_words(words, sizeof words, &plan),
              "a conversation's states (2 x 66.0 MB) and 22 copies of them in host memory (1.45 GB); 464 of 14848 "
              "experts cached on the device (11.5 GB; minimum 199 MB) and 4000 in host memory (99.1 GB); a token with "
              "nothing cached reads 11.5 GB (8 readers, past the page cache).");
    plan.host_slots = 0;
    plan.slots = 100;
    plan.per_layer = true;
    plan.direct_refused = true;
    CHECK_STR(t, plan_warning(words, sizeof words, &plan, true),
              "The expert cache cannot hold the 464 experts of one token, so layers get fixed shares of it; "
              "--expert-cache 11.5GB or more works better. This file system has no direct I/O; experts are read "
              "through the page cache. The device computes in host memory: there is one cache, and --host-cache has no "
              "effect.");
    for (size_t size = 1; size < sizeof words; size++) { // cut, never overrun
        words[size] = '#';
        plan_words(words, size, &plan);
        plan_warning(words, size, &plan, true);
        CHECK(t, words[size] == '#' && strlen(words) < size);
    }
}

// V3.2's: what the default --kv-cap keeps of a long conversation is told with the room for it.
static void room_in_words(struct harness *t)
{
    static const struct {
        struct context_figures figures;
        const char *words;
    } table[] = {
        {{8192, 163840, 85888, UINT64_C(4) << 30, 517120},
         "room for 8192 tokens of conversation (704 MB when full; the model's limit is 163840)"},
        {{163840, 163840, 85888, UINT64_C(4) << 30, 0},
         "room for 163840 tokens of conversation (14.1 GB when full; beyond 50006, in many turns sooner, only its "
         "text is saved, see --kv-cap)"},
        {{163840, 163840, 85888, UINT64_C(4) << 30, 85889},
         "room for 163840 tokens of conversation (14.1 GB when full; beyond 50005, in many turns sooner, only its "
         "text is saved, see --kv-cap)"},
        {{100, 0, 8, 20, 32},
         "room for 100 tokens of conversation (800 B when full; only its text is saved, see --kv-cap)"},
        {{163840, 163840, 85888, 0, 0}, "room for 163840 tokens of conversation (14.1 GB when full)"},
        {{163840, 163840, 85888, UINT64_C(163840) * 85888, 0},
         "room for 163840 tokens of conversation (14.1 GB when full)"},
        {{1, 0, 0, 1, 0}, "room for 1 token of conversation (0 B when full)"},
    };
    char words[PLAN_WORDS_SIZE];
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        CHECK_STR(t, plan_context(words, sizeof words, &table[i].figures), table[i].words);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(sizes_may_take_all),      TEST(budgets_of_two_tiers),    TEST(budgets_of_one_tier),
        TEST(amounts_to_type),         TEST(refusals_say_what_works), TEST(sizes_waste_little),
        TEST(sizes_share_the_budgets), TEST(a_probe_holds_or_not),    TEST(reads_that_end_together_are_steady),
        TEST(plans_in_words),          TEST(room_in_words),
    };
    return HARNESS_RUN(tests, argc, argv);
}
