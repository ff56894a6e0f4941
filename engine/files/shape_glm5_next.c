// SPDX-License-Identifier: GPL-3.0-or-later
// glm5_next: Kimi delta attention with a bound on its decay, attention without a rope over pools of positions that an
// indexer chooses, several residual streams, MLPs with a limit. transformers: Glm5NextTextConfig.
#include "engine/files/shape_reader.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "kernels/args.h"

// linear_attn_config, if it is there.
struct inner {
    struct json_object *config;
    char prefix[64];
};

// Where its field is; else around it, where fields have names of their own.
static struct fields inside_of(const struct fields *f, const char *key, const struct inner *inner)
{
    struct fields inside = *f;
    if (inner->config && json_object_object_get_ex(inner->config, key, NULL)) {
        inside.object = inner->config;
        inside.prefix = inner->prefix;
    }
    return inside;
}

struct linear_field {
    const char *inside, *outside;
    uint32_t min, max, fallback;
};

static uint32_t read_linear_field(struct fields *f, const struct inner *inner, const struct linear_field *field)
{
    struct fields from = inside_of(f, field->inside, inner);
    const char *key = from.object == f->object ? field->outside : field->inside;
    uint64_t value = fields_integer_or(&from, key, (struct integer_range){field->min, field->max}, field->fallback);
    f->failed = from.failed;
    return (uint32_t)value;
}

// linear_lower_bound, null being none; an inner one that is null is the default, unless safe_gate is false.
static float read_bound(struct fields *f, const struct inner *inner)
{
    const char *within = "gate_lower_bound", *outside = "linear_lower_bound";
    const struct number_range range = {-80, -1e-6};
    struct fields from = inside_of(f, within, inner);
    const char *key = from.object == f->object ? outside : within;
    bool given = json_object_object_get_ex(from.object, key, NULL);
    double bound = given && !fields_has(&from, key) ? 0 : fields_number_or(&from, key, range, -5);
    if (!from.failed && inner->config && bound == 0) {
        from.object = inner->config;
        from.prefix = inner->prefix;
        bound = fields_flag_or(&from, "safe_gate", true) ? -5 : 0;
    }
    f->failed = from.failed;
    return (float)bound;
}

static void read_linear(struct fields *f, struct shape *s)
{
    struct linear_dims *d = &s->linear;
    struct inner inner = {.config = NULL};
    if (fields_has(f, "linear_attn_config"))
        inner.config = fields_object(f, "linear_attn_config");
    if (f->failed)
        return;
    snprintf(inner.prefix, sizeof inner.prefix, "%slinear_attn_config.", f->prefix);
    d->n_key_heads = read_linear_field(f, &inner, &(struct linear_field){"num_heads", "linear_num_heads", 1, 4096, 64});
    d->key_head_dim = read_linear_field(f, &inner, &(struct linear_field){"head_dim", "linear_head_dim", 32, 128, 128});
    d->conv_kernel = read_linear_field(
        f, &inner, &(struct linear_field){"short_conv_kernel_size", "linear_conv_kernel_dim", 4, 4, 4});
    d->bound = read_bound(f, &inner);
    d->n_value_heads = d->n_key_heads;
    d->value_head_dim = d->key_head_dim;
    shape_check_width(f, "linear_head_dim", d->key_head_dim);
}

static void read_kinds(struct fields *f, struct shape *s)
{
    const char *key = "layer_types";
    const struct integer_range length = {s->n_layers, s->n_layers};
    struct json_object *list = fields_has(f, key) ? fields_array(f, key, length) : NULL;
    for (uint32_t i = 0; !f->failed && i < s->n_layers; i++) {
        const char *name = list ? shape_text_at(list, i) : i % 4 == 3 ? "full_attention" : "linear_attention";
        bool linear = strcmp(name, "linear_attention") == 0;
        if (!linear && strcmp(name, "full_attention") != 0 && strcmp(name, "deepseek_sparse_attention") != 0 &&
            strcmp(name, "indexed_attention") != 0)
            fields_fail(f, MOE_UNSUPPORTED, key,
                        "names layer %u \"%.40s\", neither \"linear_attention\" nor \"deepseek_sparse_attention\"", i,
                        name);
        s->layer_kinds[i] = (uint8_t)(linear ? LAYER_KDA : LAYER_DSA);
    }
}

// The class could only share a choice between neighbours, and no two layers with attention are.
static void refuse_sharing(struct fields *f, const struct shape *s)
{
    const char *key = "indexer_types", *pattern = "index_topk_pattern";
    const struct integer_range length = {s->n_layers, s->n_layers};
    struct json_object *list = fields_has(f, key) ? fields_array(f, key, length) : NULL;
    for (uint32_t i = 0; list && !f->failed && i < s->n_layers; i++)
        if (s->layer_kinds[i] == LAYER_DSA && strcmp(shape_text_at(list, i), "full") != 0)
            fields_fail(f, MOE_UNSUPPORTED, key, "names layer %u \"%.20s\"; layers of %s share no indexers", i,
                        shape_text_at(list, i), s->model_type);
    if (!list && fields_has(f, pattern))
        fields_fail(f, MOE_UNSUPPORTED, pattern, "is there; layers of %s share no indexers", s->model_type);
    if (!list)
        shape_must_be_integer(f, "index_topk_freq", 1);
}

static void read_pools(struct fields *f, struct shape *s)
{
    const char *key = "index_kpool", *tail = "index_kpool_always_select_tail";
    struct indexer_dims *d = &s->indexer;
    shape_read_index_dims(f, 32, s);
    d->pool = (uint32_t)fields_integer_or(f, key, (struct integer_range){1, 1024}, 16);
    if (!f->failed && (d->pool < 2 || d->head_dim % d->pool))
        fields_fail(f, MOE_UNSUPPORTED, key,
                    "is %u; moechat computes pools of 2 and more that divide index_head_dim (%u)", d->pool,
                    d->head_dim);
    if (!f->failed && d->top_k % d->pool)
        fields_fail(f, MOE_FORMAT, "index_topk", "is %u; index_kpool (%u) must divide it", d->top_k, d->pool);
    if (fields_has(f, tail) && !fields_flag(f, tail))
        fields_fail(f, MOE_UNSUPPORTED, tail, "is false; moechat always looks at the open pool");
}

static void read_streams(struct fields *f, struct shape *s)
{
    struct hyper_dims *d = &s->hyper;
    shape_must_be_integer(f, "hc_mult", HYPER_STREAMS);
    d->n_streams = HYPER_STREAMS;
    d->iterations = (uint32_t)fields_integer_or(f, "hc_sinkhorn_iters", (struct integer_range){1, 1000}, 20);
    d->eps = (float)fields_number_or(f, "hc_eps", (struct number_range){1e-12, 1}, 1e-6);
}

void shape_read_glm5_next(struct fields *f, struct shape *s)
{
    read_linear(f, s);
    if (!f->failed)
        read_kinds(f, s);
    if (!f->failed)
        refuse_sharing(f, s);
    read_pools(f, s);
    read_streams(f, s);
    s->swiglu_limit = (float)fields_number_or(f, "swiglu_limit", (struct number_range){1e-3, 1e6}, 10);
}
