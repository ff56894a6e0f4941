// SPDX-License-Identifier: GPL-3.0-or-later
// What the readers of model types have in common; shape.h is the face. A reader takes config.json's fields one by one,
// and refuses by name what it would have to ignore.
#ifndef MOECHAT_ENGINE_FILES_SHAPE_READER_H
#define MOECHAT_ENGINE_FILES_SHAPE_READER_H

#include "engine/base/fields.h"
#include "engine/files/shape.h"

enum { MOST_WIDTH = 1 << 20, MOST_TOKENS = 1 << 30, MOST_VOCABULARY = 1 << 24 };

// A class of transformers that computes a model type; kimi_k2's own code, and the text model of kimi_k25, are
// DeepseekV3's.
enum family {
    DEEPSEEK_V2,
    DEEPSEEK_V3,
    GLM4_MOE_LITE,
    KIMI_LINEAR,
    DEEPSEEK_V32,
    GLM_MOE_DSA,
    GLM5_NEXT,
    MLA_FAMILIES, // those before it have latent attention, be it in some of the layers
    QWEN3_NEXT = MLA_FAMILIES,
    QWEN3_5_MOE,
    FAMILIES
};

// A field that is there must say this.
void shape_must_be_integer(struct fields *f, const char *key, uint64_t want);
void shape_must_be_text(struct fields *f, const char *key, const char *want);
void shape_must_be_false(struct fields *f, const char *key, const char *why);

// One of the widths that matrices read: quantised, so whole groups of at least 32.
void shape_check_width(struct fields *f, const char *key, uint64_t width);
// Where the file has none: -1, no such id.
struct token_ids {
    int64_t bos, eos;
};
void shape_read_token_ids(struct fields *f, struct token_ids fallback, struct shape *s);
// rope_parameters or rope_scaling; head_dim of the heads that turn. `partial` is the part of them that does where the
// file does not say; 1: it may not say anything else.
void shape_read_rope(struct fields *f, uint32_t head_dim, double partial, struct shape *s);
// config.layer_types, a name for each layer of one of two kinds; else `fallback`, by the layer's number.
struct kinds_by_name {
    enum layer_kind linear, full;
    bool (*is_full)(uint32_t layer, uint32_t every);
    uint32_t every;
};
void shape_read_kinds(struct fields *f, const struct kinds_by_name *names, struct shape *s);

// The text of an array's element, or "".
const char *shape_text_at(struct json_object *list, uint32_t i);
// index_n_heads, index_head_dim, index_topk, of pools of 1.
void shape_read_index_dims(struct fields *f, uint32_t n_heads, struct shape *s);
// shape_indexer.c: what DEEPSEEK_V32 and GLM_MOE_DSA have beyond DEEPSEEK_V3; the layers' kinds.
void shape_read_indexer(struct fields *f, enum family family, struct shape *s);

// shape_kimi_k3.c: what a KIMI_LINEAR may have as Kimi K3's; `linear` is its linear_attn_config.
void shape_read_kimi_k3(struct fields *f, struct fields *linear, struct shape *s);

// shape_glm5_next.c: what GLM5_NEXT has beyond DEEPSEEK_V3; the layers' kinds.
void shape_read_glm5_next(struct fields *f, struct shape *s);

// shape_qwen.c: QWEN3_NEXT and QWEN3_5_MOE.
void shape_read_qwen(struct fields *f, enum family family, struct shape *s);

#endif
