// SPDX-License-Identifier: GPL-3.0-or-later
// Spans one after the other, in pages of their own or packed.
#include "engine/files/spans.h"

static uint64_t aligned(uint64_t bytes, uint64_t alignment)
{
    return (bytes + alignment - 1) / alignment * alignment;
}

void spans_place(struct package_layer *layer, uint32_t alignment)
{
    uint64_t end = 0; // of the slot so far
    for (uint32_t i = 0; i < layer->n_spans; i++) {
        struct expert_span *span = &layer->spans[i];
        span->own_pages = span->bytes % SPANS_PAGE == 0 && span->offset % alignment == 0;
        if (!span->own_pages) {
            span->at = aligned(end, alignment);
            end = span->at + span->bytes;
            continue;
        }
        span->at = aligned(end, SPANS_PAGE) + span->offset % SPANS_PAGE;
        end = aligned(span->at + span->bytes, SPANS_PAGE);
    }
    layer->experts.blob_bytes = aligned(end, SPANS_PAGE);
}

uint64_t spans_bytes(const struct package_layer *layer)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < layer->n_spans; i++)
        bytes += layer->spans[i].bytes;
    return bytes;
}
