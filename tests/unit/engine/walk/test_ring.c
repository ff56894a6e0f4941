// SPDX-License-Identifier: GPL-3.0-or-later
// Dispatches in flight: first in, first out, refused when full, drained when nobody wants them.
#include "tests/harness.h"
#include "engine/walk/ring.h"

static void first_in_first_out(struct harness *t)
{
    struct gpu_error device;
    struct moe_err err;
    gpu *g = gpu_open(&(struct gpu_options){.selector = "ref"}, &device);
    struct ring ring = {.depth = RING_DEPTH};
    CHECK(t, !ring_complete(&ring, g));
    for (int round = 0; round < 3; round++) { // around its end, too
        CHECK_EQ(t, ring_begin(&ring, g, &err), MOE_OK);
        uint64_t oldest = ring.fences[ring.first];
        CHECK_EQ(t, ring_begin(&ring, g, &err), MOE_OK);
        CHECK_EQ(t, ring_begin(&ring, g, &err), MOE_BAD_ARGUMENT);
        CHECK_EQ(t, ring.n, RING_DEPTH);
        CHECK_EQ(t, ring.fences[ring.first], oldest);
        ring_trim(&ring, g);
        CHECK_EQ(t, ring.n, RING_DEPTH - 1);
        ring_discard(&ring, g);
        CHECK_EQ(t, ring.n, 0);
        CHECK_EQ(t, ring_begin(&ring, g, &err), MOE_OK);
        CHECK(t, ring_complete(&ring, g) && !ring_complete(&ring, g));
    }
    ring.depth = 1;
    CHECK_EQ(t, ring_begin(&ring, g, &err), MOE_OK);
    ring_trim(&ring, g);
    CHECK_EQ(t, ring.n, 0);
    gpu_close(g);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(first_in_first_out)};
    return HARNESS_RUN(tests, argc, argv);
}
