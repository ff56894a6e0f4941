// SPDX-License-Identifier: GPL-3.0-or-later
// Whether a model would fit here, at the edges; the share of its experts that a cache holds; speeds in words.
#include "app/subcommands/room_here.h"

#include <string.h>

#include "engine/moe.h"
#include "tests/harness.h"

static void fits_to_the_byte(struct harness *t)
{
    struct room_needed needed = {.bytes = 1000, .resident_bytes = 500, .cold_bytes = 300, .n_moe_layers = 3};
    struct room_here here = {.disk = 1000, .disk_known = true, .memory = 500 + 2 * 100 + 300000000};
    CHECK(t, room_here_on_disk(&here, &needed) && room_here_in_memory(&here, &needed, MOE_CACHE_AUTO));
    here.disk--;
    here.memory--;
    CHECK(t, !room_here_on_disk(&here, &needed) && !room_here_in_memory(&here, &needed, MOE_CACHE_AUTO));
    here.disk_known = false;
    needed.n_moe_layers = 0; // no experts, no cache
    CHECK(t, room_here_on_disk(&here, &needed) && room_here_in_memory(&here, &needed, MOE_CACHE_AUTO));
}

// What is asked for has to fit beside the weights, but no more of it than there are experts.
static void caches_fit_to_the_byte(struct harness *t)
{
    struct room_needed needed = {.resident_bytes = 1000000000, .experts_bytes = 9000000000, .n_moe_layers = 3};
    struct room_here here = {.memory = 5000000000};
    CHECK(t, room_here_in_memory(&here, &needed, 4000000000));
    CHECK(t, !room_here_in_memory(&here, &needed, 4000000001));
    CHECK(t, room_here_in_memory(&here, &needed, MOE_CACHE_SHARE(1000)));
    CHECK(t, !room_here_in_memory(&here, &needed, MOE_CACHE_ALL));
    needed.experts_bytes = 4000000000;
    CHECK(t, room_here_in_memory(&here, &needed, MOE_CACHE_ALL));
    CHECK(t, room_here_in_memory(&here, &needed, UINT64_C(100000000000)));
}

static void shares_of_experts(struct harness *t)
{
    struct room_needed needed = {.resident_bytes = 1000, .experts_bytes = 4000};
    struct room_here here = {.memory = 5000};
    CHECK(t, room_here_cached(&here, &needed, MOE_CACHE_AUTO) == 0.5);
    CHECK(t, room_here_cached(&here, &needed, MOE_CACHE_SHARE(250)) == 0.25);
    CHECK(t, room_here_cached(&here, &needed, MOE_CACHE_SHARE(1000)) == 1);
    CHECK(t, room_here_cached(&here, &needed, 1000) == 0.25);
    CHECK(t, room_here_cached(&here, &needed, 9000) == 1);
    here.memory = 1000; // the weights take all
    CHECK(t, room_here_cached(&here, &needed, MOE_CACHE_AUTO) == 0);
    needed.experts_bytes = 0;
    CHECK(t, room_here_cached(&here, &needed, MOE_CACHE_AUTO) == 1);
}

static void speeds_are_told(struct harness *t)
{
    char out[64];
    CHECK_STR(t, room_here_speeds(out, sizeof out, 1000000000, 1), "no reads");
    CHECK_STR(t, room_here_speeds(out, sizeof out, 1000000000, 0), "1-7");
    CHECK_STR(t, room_here_speeds(out, sizeof out, 1000000000, 0.5), "2-14");
    CHECK_STR(t, room_here_speeds(out, sizeof out, 100000000, 0), "10-50+");
    CHECK_STR(t, room_here_speeds(out, sizeof out, 10000000, 0), "over 50");
}

static void a_model_that_is_here_tells_its_own_disk(struct harness *t)
{
    char out[ROOM_SPEED_SIZE];
    struct room_speed speed = {.cold_bytes = 1000000000, .cached = 0.5, .here = true, .disk_bytes_per_s = 5e8};
    CHECK_STR(
        t, room_here_speed(out, &speed),
        "0.5 tokens/s with nothing cached, 1 or more with the cache full: of this disk, 500 MB/s, without the time "
        "to compute");
    speed.cached = 1;
    CHECK_STR(
        t, room_here_speed(out, &speed),
        "0.5 tokens/s with nothing cached, no reads with the cache full: of this disk, 500 MB/s, without the time "
        "to compute");
    speed = (struct room_speed){.cold_bytes = 10000000, .cached = 0.5, .here = true, .disk_bytes_per_s = 5e8};
    CHECK(t, strstr(room_here_speed(out, &speed), "50 tokens/s with nothing cached, over 50 with the cache full: ") ==
                 out);
    speed = (struct room_speed){.cold_bytes = 1000000000, .cached = 0.5, .here = true}; // not known of its disk
    CHECK_STR(
        t, room_here_speed(out, &speed),
        "1-7 tokens/s with nothing cached, 2-14 with the cache full: of a disk of 1 to 7 GB/s (this one could not "
        "be measured), without the time to compute");
    speed.here = false;
    CHECK_STR(
        t, room_here_speed(out, &speed),
        "1-7 tokens/s with nothing cached, 2-14 with the cache full: of a disk of 1 to 7 GB/s, without the time to "
        "compute");
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(fits_to_the_byte), TEST(caches_fit_to_the_byte),
                                                TEST(shares_of_experts), TEST(speeds_are_told),
                                                TEST(a_model_that_is_here_tells_its_own_disk)};
    return HARNESS_RUN(tests, argc, argv);
}
