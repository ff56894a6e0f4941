// SPDX-License-Identifier: GPL-3.0-or-later
// deepseek_v32 and glm_moe_dsa: attention over the positions that an indexer chooses, which in some GLM models several
// layers share. transformers: DeepseekV32Config, GlmMoeDsaConfig.
#include "engine/files/shape_reader.h"

#include <json-c/json.h>
#include <string.h>

#include "kernels/args.h"

enum { MOST_CHOSEN = 65536, MOST_INDEX_HEADS = 1024 };

const char *shape_text_at(struct json_object *list, uint32_t i)
{
    struct json_object *item = json_object_array_get_idx(list, i);
    return json_object_is_type(item, json_type_string) ? json_object_get_string(item) : "";
}

// Of which kind the class says all layers are; other words would be another attention.
static void check_layer_types(struct fields *f, const struct shape *s)
{
    const char *key = "layer_types";
    struct json_object *list = NULL;
    if (fields_has(f, key))
        list = fields_array(f, key, (struct integer_range){s->n_layers, s->n_layers});
    for (uint32_t i = 0; list && !f->failed && i < s->n_layers; i++)
        if (strcmp(shape_text_at(list, i), "deepseek_sparse_attention") != 0 &&
            strcmp(shape_text_at(list, i), "indexed_attention") != 0)
            fields_fail(f, MOE_UNSUPPORTED, key,
                        "names layer %u \"%.40s\"; moechat computes only \"deepseek_sparse_attention\" for %s", i,
                        shape_text_at(list, i), s->model_type);
}

// A layer has an indexer of its own, or shares.
static void take_kind(struct fields *f, const char *key, uint32_t layer, const char *word, struct shape *s)
{
    bool full = strcmp(word, "full") == 0 || strcmp(word, "F") == 0;
    if (!full && strcmp(word, "shared") != 0 && strcmp(word, "S") != 0)
        fields_fail(f, MOE_UNSUPPORTED, key, "names layer %u neither \"full\" nor \"shared\"", layer);
    else if (!full && layer == 0)
        fields_fail(f, MOE_FORMAT, key, "makes layer 0 share an indexer; there is none before it");
    s->layer_kinds[layer] = (uint8_t)(full ? LAYER_DSA : LAYER_DSA_SHARED);
}

static void take_list(struct fields *f, const char *key, struct shape *s)
{
    struct json_object *list = fields_array(f, key, (struct integer_range){s->n_layers, s->n_layers});
    for (uint32_t i = 0; list && !f->failed && i < s->n_layers; i++)
        take_kind(f, key, i, shape_text_at(list, i), s);
}

// "FFFSSSF...", a letter a layer.
static void take_pattern(struct fields *f, const char *key, struct shape *s)
{
    char text[MOST_LAYERS + 1] = "";
    fields_text(f, key, text, sizeof text);
    if (!f->failed && strlen(text) != s->n_layers)
        fields_fail(f, MOE_FORMAT, key, "has %zu letters for %u layers", strlen(text), s->n_layers);
    for (uint32_t i = 0; !f->failed && i < s->n_layers; i++)
        take_kind(f, key, i, (char[]){text[i], 0}, s);
}

// GlmMoeDsaConfig: the list, else the pattern, else every so many layers from the offset on.
static void read_kinds(struct fields *f, struct shape *s)
{
    const char *list = "indexer_types", *pattern = "index_topk_pattern";
    bool text =
        fields_has(f, pattern) && json_object_is_type(json_object_object_get(f->object, pattern), json_type_string);
    if (fields_has(f, list) || (fields_has(f, pattern) && !text)) {
        take_list(f, fields_has(f, list) ? list : pattern, s);
        return;
    }
    if (text) {
        take_pattern(f, pattern, s);
        return;
    }
    const struct integer_range layers = {0, MOST_LAYERS};
    uint32_t freq = (uint32_t)fields_integer_or(f, "index_topk_freq", layers, 1);
    uint32_t offset = (uint32_t)fields_integer_or(f, "index_skip_topk_offset", layers, 2);
    for (uint32_t i = 0; !f->failed && i < s->n_layers; i++) {
        uint32_t since = i + 1 > offset ? i + 1 - offset : 0;
        take_kind(f, "index_topk_freq", i, since % (freq ? freq : 1) == 0 ? "full" : "shared", s);
    }
}

// What the class fixes may be said, not changed.
static void check_rope(struct fields *f, enum family family, struct shape *s)
{
    const char *key = "indexer_rope_interleave";
    s->indexer.interleaved = family == GLM_MOE_DSA;
    if (fields_has(f, key) && fields_flag(f, key) != s->indexer.interleaved && !f->failed)
        fields_fail(f, MOE_UNSUPPORTED, key, "is %s; the indexer of %s turns %s",
                    s->indexer.interleaved ? "false" : "true", s->model_type,
                    s->indexer.interleaved ? "neighbours" : "halves");
    if (!f->failed && s->qk_rope_head_dim > s->indexer.head_dim)
        fields_fail(f, MOE_FORMAT, "index_head_dim", "is %u, less than qk_rope_head_dim (%u)", s->indexer.head_dim,
                    s->qk_rope_head_dim);
}

void shape_read_index_dims(struct fields *f, uint32_t n_heads, struct shape *s)
{
    struct indexer_dims *d = &s->indexer;
    const struct integer_range heads = {1, MOST_INDEX_HEADS}, dims = {8, MOST_INDEX_DIM}, chosen = {1, MOST_CHOSEN};
    d->pool = 1;
    d->n_heads = (uint32_t)fields_integer_or(f, "index_n_heads", heads, n_heads);
    d->head_dim = (uint32_t)fields_integer_or(f, "index_head_dim", dims, 128);
    d->top_k = (uint32_t)fields_integer_or(f, "index_topk", chosen, 2048);
    if (!f->failed && d->head_dim % 8)
        fields_fail(f, MOE_UNSUPPORTED, "index_head_dim", "is %u; moechat computes multiples of 8", d->head_dim);
    if (!f->failed && !s->q_lora_rank)
        fields_fail(f, MOE_UNSUPPORTED, "q_lora_rank", "is null; the indexer of %s reads what it makes", s->model_type);
}

void shape_read_indexer(struct fields *f, enum family family, struct shape *s)
{
    shape_read_index_dims(f, family == GLM_MOE_DSA ? 32 : 64, s);
    check_rope(f, family, s);
    check_layer_types(f, s);
    if (f->failed)
        return;
    if (family == GLM_MOE_DSA) {
        read_kinds(f, s);
        return;
    }
    memset(s->layer_kinds, LAYER_DSA, s->n_layers); // that class shares none
    shape_must_be_integer(f, "index_topk_freq", 1);
    if (fields_has(f, "indexer_types") || fields_has(f, "index_topk_pattern"))
        fields_fail(f, MOE_UNSUPPORTED, fields_has(f, "indexer_types") ? "indexer_types" : "index_topk_pattern",
                    "is there; layers of %s share no indexers", s->model_type);
}
