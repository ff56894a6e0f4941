// SPDX-License-Identifier: GPL-3.0-or-later
// Names of tensors, the hub's and the engine's.
#include "engine/files/folder_names.h"

#include <string.h>

// Parts of a name; `ends`: the name ends with it.
static const struct {
    const char *theirs, *ours;
    int ends;
} parts[] = {
    {".mlp.experts.gate_up_proj", ".mlp.switch_mlp.gate_up_proj.weight", 1},
    {".mlp.experts.down_proj", ".mlp.switch_mlp.down_proj.weight", 1},
    {".hc_attn_fn", ".hc_attn_fn.weight", 1},
    {".hc_ffn_fn", ".hc_ffn_fn.weight", 1},
    {".indexer.index_kpool_compress_gate", ".indexer.index_kpool_compress_gate.weight", 1},
    {".block_sparse_moe.", ".mlp.", 0},
    {".w1.weight", ".gate_proj.weight", 0},
    {".w3.weight", ".up_proj.weight", 0},
    {".w2.weight", ".down_proj.weight", 0},
    {".mlp.e_score_correction_bias", ".mlp.gate.e_score_correction_bias", 1},
    {".q_conv.conv.weight", ".q_conv1d.weight", 1},
    {".qkv_conv.conv.weight", ".qkv_conv1d.weight", 1},
    {".k_conv.conv.weight", ".k_conv1d.weight", 1},
    {".v_conv.conv.weight", ".v_conv1d.weight", 1},
};

char *folder_name(const char *name, char *ours)
{
    static const char mlx[] = "language_model.", inner[] = "model.language_model.", model[] = "model.";
    char *at = ours;
    if (strncmp(name, mlx, sizeof mlx - 1) == 0) {
        name += sizeof mlx - 1;
    } else if (strncmp(name, inner, sizeof inner - 1) == 0) {
        name += sizeof inner - 1;
        memcpy(at, model, sizeof model - 1);
        at += sizeof model - 1;
    }
    memcpy(at, name, strlen(name) + 1);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char *found = strstr(ours, parts[i].theirs);
        size_t old = strlen(parts[i].theirs), new = strlen(parts[i].ours);
        if (!found || (parts[i].ends && found[old]))
            continue;
        memmove(found + new, found + old, strlen(found + old) + 1);
        memcpy(found, parts[i].ours, new);
    }
    return ours + strlen(ours) + 1;
}
