// SPDX-License-Identifier: GPL-3.0-or-later
// What a folder's files call a tensor, and what the engine asks for it by. Most names are the same; these are not:
//
// language_model.X (MLX), model.language_model.X                   X, model.X
// .mlp.experts.gate_up_proj (stacked)                              .mlp.switch_mlp.gate_up_proj.weight
// .mlp.experts.down_proj                                           .mlp.switch_mlp.down_proj.weight
// kimi_linear's .block_sparse_moe.                                 .mlp.
//   .experts.E.w1, w3, w2                                          .experts.E.gate_proj, up_proj, down_proj
// glm5_next's .hc_attn_fn, .hc_ffn_fn, .index_kpool_compress_gate  the same with .weight
// MLX's kimi_linear .mlp.e_score_correction_bias                   .mlp.gate.e_score_correction_bias
//   .self_attn.q_conv.conv.weight (k, v, qkv)                      .self_attn.q_conv1d.weight
#ifndef MOECHAT_ENGINE_FILES_FOLDER_NAMES_H
#define MOECHAT_ENGINE_FILES_FOLDER_NAMES_H

#include <stddef.h>

enum { FOLDER_NAME_GROWTH = 16 }; // bytes that our name may be longer by

// Our name for it into `ours`, of strlen(name) + FOLDER_NAME_GROWTH + 1 bytes. Returns its end, behind the 0.
char *folder_name(const char *name, char *ours);

#endif
