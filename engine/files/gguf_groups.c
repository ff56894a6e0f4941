// SPDX-License-Identifier: GPL-3.0-or-later
// Sums up the kinds of a GGUF's tensors by what they are for.
#include "engine/files/gguf_groups.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/files/ggml_types.h"

enum { TYPES = 64 };

// By what our names contain; the first that fits.
static const struct use {
    const char *name, *contains;
} uses[MOE_GROUPS] = {
    {"experts' gate", ".switch_mlp.gate_proj."},
    {"experts' up", ".switch_mlp.up_proj."},
    {"experts' gate, up", ".switch_mlp.gate_up_proj."},
    {"experts' down", ".switch_mlp.down_proj."},
    {"shared experts", ".mlp.shared_experts."},
    {"dense layers", "_proj."}, // of .mlp., for attention's are taken before
    {"attention", ".self_attn."},
    {"embedding", "model.embed_tokens."},
    {"head", "lm_head."},
};
enum { DENSE = 5, ATTENTION = 6 };

static size_t use_of(const char *name)
{
    if (strstr(name, uses[ATTENTION].contains))
        return ATTENTION;
    for (size_t i = 0; i < MOE_GROUPS; i++)
        if (strstr(name, uses[i].contains))
            return i;
    return MOE_GROUPS;
}

static uint64_t weights_of(const struct tensor *tensor)
{
    uint64_t count = 1;
    for (uint32_t i = 0; i < tensor->n_dims; i++)
        count *= tensor->dims[i];
    return count;
}

static void add_type(struct moe_group *group, uint32_t id, uint32_t count)
{
    struct ggml_type type;
    size_t used = strlen(group->types);
    if (count && ggml_type_find(id, &type))
        snprintf(group->types + used, sizeof group->types - used, "%s%s %" PRIu32, used ? ", " : "", type.name, count);
}

void gguf_groups(const struct checkpoint *c, struct moe_group groups[MOE_GROUPS])
{
    uint32_t counts[MOE_GROUPS][TYPES] = {{0}};
    struct moe_group all[MOE_GROUPS] = {{.name = NULL}};
    size_t kept = 0;
    for (size_t i = 0; i < c->count; i++) {
        const struct checkpoint_tensor *tensor = &c->tensors[i];
        size_t use = use_of(tensor->name);
        if (use == MOE_GROUPS || tensor->at->n_dims < 2 || tensor->at->ggml_type >= TYPES)
            continue; // norms and routers
        counts[use][tensor->at->ggml_type]++;
        all[use].weights += weights_of(tensor->at);
        all[use].bytes += tensor->at->bytes;
    }
    memset(groups, 0, MOE_GROUPS * sizeof *groups);
    for (size_t i = 0; i < MOE_GROUPS; i++) {
        if (!all[i].weights)
            continue;
        groups[kept] = all[i];
        groups[kept].name = uses[i].name;
        for (uint32_t id = 0; id < TYPES; id++)
            add_type(&groups[kept], id, counts[i][id]);
        kept++;
    }
}
