// SPDX-License-Identifier: GPL-3.0-or-later
// Any bytes as model.json: refused with one line that names the file, or a package whose every number is within what
// the engine computes with.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/files/package.h"
#include "kernels/kinds.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool so)
{
    if (!so)
        abort();
}

static void check_experts(const struct expert_layout *experts)
{
    struct expert_part parts[MAX_EXPERT_PARTS];
    must(matrix_is_shaped(&experts->gate) && matrix_is_shaped(&experts->up) && matrix_is_shaped(&experts->down));
    uint32_t n = package_parts(experts, parts);
    uint64_t end = 0;
    for (uint32_t i = 0; i < n; i++) {
        must(parts[i].offset % 64 == 0 && parts[i].offset >= end);
        end = parts[i].offset + parts[i].bytes;
        must(end > parts[i].offset && end <= experts->blob_bytes);
    }
    must(n >= 3);
}

static void check_package(const struct package *p)
{
    const struct shape *s = &p->shape;
    must(s->n_routed_experts % s->n_group == 0);
    must(s->n_routed_experts / s->n_group >= (s->topk_method == TOPK_NOAUX ? 2U : 1U));
    must(s->top_k <= s->topk_group * (s->n_routed_experts / s->n_group));
    must(isfinite(s->softmax_scale) && s->softmax_scale > 0 && isfinite(s->rope_scale) && s->rope_scale > 0);
    float *inv_freq = malloc(s->qk_rope_head_dim / 2 * sizeof *inv_freq);
    shape_inv_freq(s, inv_freq);
    for (uint32_t i = 0; i < s->qk_rope_head_dim / 2; i++)
        must(isfinite(inv_freq[i]));
    free(inv_freq);
    for (uint32_t layer = 0; layer < s->n_layers; layer++) {
        const struct expert_layout *experts = package_experts(p, layer);
        struct expert_span span[MAX_EXPERT_SPANS];
        must((p->layers[layer].n_spans == 1) == shape_is_moe(s, layer));
        if (!shape_is_moe(s, layer))
            continue;
        check_experts(experts);
        must(package_spans(p, layer, s->n_routed_experts - 1, span) == 1 && span->file < p->n_files);
        must(span->offset + span->bytes == p->files[span->file].bytes && span->bytes <= package_slot_bytes(p));
        must(strncmp(p->files[span->file].path, "P/", 2) == 0 && !strchr(p->files[span->file].path + 2, '/'));
    }
    struct parameter_counts counts = shape_parameters(s);
    must(counts.total >= counts.active && counts.active > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct package package;
    struct moe_err err = {.text = ""};
    strcpy(package.directory, "P");
    int code = package_parse((const char *)data, size, &package, &err);
    if (code) {
        must((int)err.code == code && strncmp(err.text, "P/model.json: ", 14) == 0 && !strchr(err.text, '\n'));
        return 0;
    }
    check_package(&package);
    package_release(&package);
    return 0;
}
