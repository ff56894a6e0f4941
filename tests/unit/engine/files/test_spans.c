// SPDX-License-Identifier: GPL-3.0-or-later
// Where spans go in a slot: in files' own places mod 4096 where that holds for every expert, else packed; never over
// each other or each other's pages.
#include "engine/files/spans.h"
#include "tests/harness.h"

enum { PAGE = SPANS_PAGE };

static struct expert_span span(uint64_t offset, uint64_t bytes)
{
    return (struct expert_span){.offset = offset, .bytes = bytes};
}

static void a_ggufs_spans_keep_their_place_in_the_page(struct harness *t)
{
    // Gate, up and down of Moonlight in Q4_K, at multiples of 32.
    const uint64_t bytes = 1622016;
    struct package_layer layer = {
        .n_spans = 3, .spans = {span(9013344, bytes), span(9013344 + 64 * bytes + 32, bytes), span(0, bytes)}};
    spans_place(&layer, 32);
    CHECK_EQ(t, layer.spans[0].at, 9013344 % PAGE);
    CHECK_EQ(t, layer.spans[1].at, (bytes / PAGE + 1) * PAGE + (9013344 + 32) % PAGE);
    CHECK_EQ(t, layer.spans[2].at, 2 * (bytes / PAGE + 1) * PAGE); // at a page: needs no other for itself
    CHECK_EQ(t, layer.experts.blob_bytes, 3 * bytes + 2 * PAGE);
    CHECK_EQ(t, spans_bytes(&layer), 3 * bytes);
    for (int i = 0; i < 3; i++)
        CHECK(t, layer.spans[i].own_pages);
}

static void others_are_packed(struct harness *t)
{
    struct package_layer layer = {
        .n_spans = 5,
        .spans = {span(100, 2 * PAGE), span(64, 3000), span(7, 65), span(4224, 2 * PAGE), span(4160, 10)}};
    spans_place(&layer, 64);
    CHECK_EQ(t, layer.spans[0].at, 0); // at no multiple of 64 in its file
    CHECK_EQ(t, layer.spans[1].at, 2 * PAGE);
    CHECK_EQ(t, layer.spans[2].at, 2 * PAGE + 3008);
    CHECK_EQ(t, layer.spans[3].at, 3 * PAGE + 128);
    CHECK_EQ(t, layer.spans[4].at, 6 * PAGE); // not in the pages of the one before
    CHECK_EQ(t, layer.experts.blob_bytes, 7 * PAGE);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(t, layer.spans[i].own_pages, i == 3);
}

static uint64_t draw(uint64_t *state, uint64_t below)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*state >> 33) % below;
}

// Bytes, or whole pages where reads fill them, that no other span has.
static void nothing_overlaps(struct harness *t)
{
    uint64_t state = 1;
    for (int round = 0; round < 2000; round++) {
        struct package_layer layer = {.n_spans = 1 + (uint32_t)draw(&state, MAX_EXPERT_SPANS)};
        uint32_t alignment = 1u << draw(&state, 7);
        for (uint32_t i = 0; i < layer.n_spans; i++)
            layer.spans[i] = span(draw(&state, 1 << 20) * (draw(&state, 2) ? 32 : 1),
                                  draw(&state, 2) ? PAGE * (1 + draw(&state, 4)) : 1 + draw(&state, 20000));
        spans_place(&layer, alignment);
        uint64_t end = 0, bytes = 0;
        for (uint32_t i = 0; i < layer.n_spans; i++) {
            const struct expert_span *s = &layer.spans[i];
            uint64_t first = s->at, last = s->at + s->bytes;
            if (s->own_pages) {
                CHECK_EQ(t, s->at % PAGE, s->offset % PAGE);
                CHECK_EQ(t, (s->offset + 5 * s->bytes) % PAGE, s->at % PAGE);
                first = first / PAGE * PAGE;
                last = (last + PAGE - 1) / PAGE * PAGE;
            }
            CHECK_EQ(t, s->at % alignment, 0);
            CHECK(t, first >= end);
            end = last;
            bytes += s->bytes;
        }
        CHECK(t, layer.experts.blob_bytes >= end && layer.experts.blob_bytes % PAGE == 0);
        CHECK(t, layer.experts.blob_bytes <= bytes + layer.n_spans * 2 * PAGE);
    }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(a_ggufs_spans_keep_their_place_in_the_page),
        TEST(others_are_packed),
        TEST(nothing_overlaps),
    };
    return HARNESS_RUN(tests, argc, argv);
}
