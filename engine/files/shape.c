// SPDX-License-Identifier: GPL-3.0-or-later
// Reads a model's shape from config.json, and refuses settings that would have to be ignored.
#include "engine/files/shape_reader.h"

#include <json-c/json.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/args.h"

// Whether the fields are in text_config.
enum nesting { FLAT, MAY_NEST, NESTED };

static const struct model_type {
    const char *name;
    enum family family;
    enum nesting nesting;
} model_types[] = {
    {"deepseek_v2", DEEPSEEK_V2, FLAT},      {"deepseek_v3", DEEPSEEK_V3, FLAT},
    {"kimi_k2", DEEPSEEK_V3, FLAT},          {"kimi_k25", DEEPSEEK_V3, NESTED},
    {"glm4_moe_lite", GLM4_MOE_LITE, FLAT},  {"kimi_linear", KIMI_LINEAR, FLAT},
    {"deepseek_v32", DEEPSEEK_V32, FLAT},    {"glm_moe_dsa", GLM_MOE_DSA, FLAT},
    {"qwen3_next", QWEN3_NEXT, FLAT},        {"qwen3_5_moe", QWEN3_5_MOE, MAY_NEST},
    {"qwen3_5_moe_text", QWEN3_5_MOE, FLAT}, {"kimi_k3", KIMI_LINEAR, NESTED},
    {"kimi_k3_text", KIMI_LINEAR, FLAT},     {"glm5_next", GLM5_NEXT, MAY_NEST},
    {"glm5_next_text", GLM5_NEXT, FLAT},
};

// What the classes with MLA differ by, besides the dimensions' defaults.
static const struct traits {
    enum router_scoring scoring;
    const char *scoring_name;
    double rms_norm_eps, routed_scaling_factor;
    struct token_ids ids;
    uint32_t q_lora_rank;
    uint32_t n_group, topk_group; // where they are not said, but for DEEPSEEK_V2
} family_traits[MLA_FAMILIES] = {
    [DEEPSEEK_V2] = {ROUTER_SOFTMAX, "softmax", 1e-6, 1.0, {1, 2}, 1536, 1, 1},
    [DEEPSEEK_V3] = {ROUTER_SIGMOID, "sigmoid", 1e-6, 2.5, {0, 1}, 1536, 8, 4},
    [GLM4_MOE_LITE] = {ROUTER_SIGMOID, "sigmoid", 1e-5, 1.8, {0, 1}, 768, 1, 1},
    [KIMI_LINEAR] = {ROUTER_SIGMOID, "sigmoid", 1e-5, 2.446, {163584, 163586}, 0, 1, 1},
    [DEEPSEEK_V32] = {ROUTER_SIGMOID, "sigmoid", 1e-6, 2.5, {0, 1}, 1536, 8, 4},
    [GLM_MOE_DSA] = {ROUTER_SIGMOID, "sigmoid", 1e-5, 2.5, {0, 1}, 2048, 1, 1},
    [GLM5_NEXT] = {ROUTER_SIGMOID, "sigmoid", 1e-5, 2.5, {-1, -1}, 1536, 1, 1},
};

enum { REQUIRED = INT32_MAX };

// Dimensions by name. The ranges keep every product of ours (heads x head width x 16, rows x width) far from overflow;
// the defaults are those of the classes DeepseekV2Config, DeepseekV3Config, Glm4MoeLiteConfig, KimiLinearConfig,
// DeepseekV32Config, GlmMoeDsaConfig and Glm5NextTextConfig.
static const struct dimension {
    const char *key;
    size_t offset;
    uint32_t min, max, fallback[MLA_FAMILIES];
} dimensions[] = {
    {"vocab_size",
     offsetof(struct shape, vocab_size),
     1,
     MOST_VOCABULARY,
     {102400, 129280, 154880, 163840, 129280, 154880, 154880}},
    {"hidden_size", offsetof(struct shape, hidden_size), 32, MOST_WIDTH, {4096, 7168, 2048, 2304, 7168, 6144, 4096}},
    {"num_hidden_layers", offsetof(struct shape, n_layers), 1, MOST_LAYERS, {32, 61, 47, 27, 61, 78, 45}},
    {"num_attention_heads", offsetof(struct shape, n_heads), 1, 4096, {32, 128, 20, 32, 128, 64, 64}},
    {"kv_lora_rank", offsetof(struct shape, kv_lora_rank), 32, 65536, {512, 512, 512, 512, 512, 512, 512}},
    {"qk_nope_head_dim", offsetof(struct shape, qk_nope_head_dim), 1, 16384, {128, 128, 192, 128, 128, 192, 256}},
    {"qk_rope_head_dim", offsetof(struct shape, qk_rope_head_dim), 2, 16384, {64, 64, 64, 64, 64, 64, 0}},
    {"v_head_dim", offsetof(struct shape, v_head_dim), 1, 16384, {128, 128, 256, 128, 128, 256, 256}},
    {"intermediate_size",
     offsetof(struct shape, intermediate_size),
     32,
     MOST_WIDTH,
     {11008, 18432, 10240, 9216, 18432, 12288, 12288}},
    {"moe_intermediate_size",
     offsetof(struct shape, moe_intermediate_size),
     32,
     MOST_WIDTH,
     {1407, 2048, 1536, 1024, 2048, 2048, 2048}},
    {"n_routed_experts", offsetof(struct shape, n_routed_experts), 2, MOST_ROUTED, {64, 256, 64, 256, 256, 256, 288}},
    {"num_experts_per_tok", offsetof(struct shape, top_k), 1, MOST_ROUTED, {REQUIRED, 8, 4, 8, 8, 8, 8}},
    {"first_k_dense_replace", offsetof(struct shape, first_k_dense_replace), 0, 4096, {0, 3, 1, 1, 3, 3, 3}},
    {"max_position_embeddings",
     offsetof(struct shape, max_position_embeddings),
     1,
     MOST_TOKENS,
     {2048, 4096, 202752, 1048576, 163840, 202752, 1048576}},
};

// What kimi_linear's own config.json calls fields; transformers reads, and writes, either name.
static const struct {
    const char *key, *other;
} kimi_names[] = {
    {"n_routed_experts", "num_experts"},
    {"n_routed_experts", "num_local_experts"},
    {"num_experts_per_tok", "num_experts_per_token"},
    {"max_position_embeddings", "model_max_length"},
    {"n_shared_experts", "num_shared_experts"},
    {"n_group", "num_expert_group"},
    {"norm_topk_prob", "moe_renormalize"},
    {"scoring_func", "moe_router_activation_func"},
};

// A field's name as this file has it.
static const char *name_of(const struct fields *f, enum family family, const char *key)
{
    for (size_t i = 0; family == KIMI_LINEAR && i < sizeof kimi_names / sizeof *kimi_names; i++)
        if (strcmp(kimi_names[i].key, key) == 0 && json_object_object_get_ex(f->object, kimi_names[i].other, NULL))
            return kimi_names[i].other;
    return key;
}

static uint32_t u32_or(struct fields *f, const char *key, struct integer_range range, uint32_t fallback)
{
    return (uint32_t)fields_integer_or(f, key, range, fallback);
}

static void read_dimensions(struct fields *f, enum family family, struct shape *s)
{
    for (size_t i = 0; i < sizeof dimensions / sizeof dimensions[0]; i++) {
        const struct dimension *d = &dimensions[i];
        const struct integer_range range = {d->min, d->max};
        uint32_t fallback = d->fallback[family];
        const char *key = name_of(f, family, d->key);
        if (family == GLM5_NEXT && d->offset == offsetof(struct shape, qk_rope_head_dim)) {
            shape_must_be_integer(f, key, 0); // no rope, and no part of a head for one
            continue;
        }
        uint32_t value =
            fallback == (uint32_t)REQUIRED ? (uint32_t)fields_integer(f, key, range) : u32_or(f, key, range, fallback);
        memcpy((char *)s + d->offset, &value, sizeof value);
    }
    if (!json_object_object_get_ex(f->object, "q_lora_rank", NULL))
        s->q_lora_rank = family_traits[family].q_lora_rank;
    else if (fields_has(f, "q_lora_rank")) // null: the model has q_proj
        s->q_lora_rank = (uint32_t)fields_integer(f, "q_lora_rank", (struct integer_range){32, 65536});
    const char *shared = name_of(f, family, "n_shared_experts");
    if (!json_object_object_get_ex(f->object, shared, NULL))
        s->n_shared_experts = family == DEEPSEEK_V2 ? 2 : 1;
    else if (fields_has(f, shared)) // null: the checkpoints' own code has none then
        s->n_shared_experts = (uint32_t)fields_integer(f, shared, (struct integer_range){0, 256});
    s->shared_intermediate_size = s->n_shared_experts * s->moe_intermediate_size; // at most 2^28
}

void shape_must_be_integer(struct fields *f, const char *key, uint64_t want)
{
    if (fields_has(f, key))
        fields_integer(f, key, (struct integer_range){want, want});
}

// All but DeepSeek's older configs may list their layers, the dense ones first; without a list only the first is dense
// in a Glm4MoeLiteConfig, the first three in a Glm5NextTextConfig, in others as many as first_k_dense_replace says.
static void read_layer_types(struct fields *f, enum family family, struct shape *s)
{
    const char *key = "mlp_layer_types";
    if (!fields_has(f, key)) {
        if (family == GLM4_MOE_LITE || family == GLM5_NEXT) // these classes look at the list alone
            shape_must_be_integer(f, "first_k_dense_replace", family == GLM5_NEXT ? 3 : 1);
        return;
    }
    struct json_object *list = fields_array(f, key, (struct integer_range){s->n_layers, s->n_layers});
    uint32_t n_dense = 0;
    for (uint32_t i = 0; !f->failed && i < s->n_layers; i++) {
        const char *name = shape_text_at(list, i);
        bool dense = strcmp(name, "dense") == 0;
        if (!dense && strcmp(name, "sparse") != 0)
            fields_fail(f, MOE_FORMAT, key, "names layer %u neither \"dense\" nor \"sparse\"", i);
        else if (dense && n_dense < i)
            fields_fail(f, MOE_UNSUPPORTED, key,
                        "has dense layer %u after a sparse one; moechat takes dense layers first", i);
        n_dense += dense;
    }
    if (!f->failed && fields_has(f, "first_k_dense_replace") && s->first_k_dense_replace != n_dense)
        fields_fail(f, MOE_FORMAT, "first_k_dense_replace", "is %u, but mlp_layer_types begins with %u dense layers",
                    s->first_k_dense_replace, n_dense);
    s->first_k_dense_replace = n_dense;
}

// One of the widths that matrices read: quantised, so whole groups of at least 32.
void shape_check_width(struct fields *f, const char *key, uint64_t width)
{
    if (width % 32)
        fields_fail(f, MOE_UNSUPPORTED, key,
                    "gives a matrix input of %llu, not a multiple of 32: it cannot be quantised",
                    (unsigned long long)width);
}

static void check_dimensions(struct fields *f, const struct shape *s)
{
    if (f->failed)
        return;
    shape_check_width(f, "hidden_size", s->hidden_size);
    shape_check_width(f, "intermediate_size", s->first_k_dense_replace ? s->intermediate_size : 0);
    shape_check_width(f, "moe_intermediate_size", s->moe_intermediate_size);
    shape_check_width(f, "q_lora_rank", s->q_lora_rank);
    shape_check_width(f, "kv_lora_rank", s->kv_lora_rank);
    shape_check_width(f, "v_head_dim", (uint64_t)s->n_heads * s->v_head_dim);
    if (s->qk_rope_head_dim % 2)
        fields_fail(f, MOE_FORMAT, "qk_rope_head_dim", "is %u; it must be even", s->qk_rope_head_dim);
    if (s->first_k_dense_replace >= s->n_layers)
        fields_fail(f, MOE_UNSUPPORTED, "first_k_dense_replace",
                    "is %u of %u layers: not a mixture of experts; use another program for dense models",
                    s->first_k_dense_replace, s->n_layers);
}

void shape_must_be_text(struct fields *f, const char *key, const char *want)
{
    char text[32];
    if (!fields_has(f, key))
        return;
    fields_text(f, key, text, sizeof text);
    if (strcmp(text, want) != 0)
        fields_fail(f, MOE_UNSUPPORTED, key, "is \"%s\"; moechat computes only \"%s\"", text, want);
}

// How a token's experts are chosen, and that groups and counts go together.
static void read_router(struct fields *f, enum family family, struct shape *s)
{
    const struct integer_range counts = {1, 65536};
    const struct traits *traits = &family_traits[family];
    s->scoring = traits->scoring;
    s->has_correction_bias = family != DEEPSEEK_V2;
    s->topk_method = TOPK_NOAUX;
    shape_must_be_text(f, name_of(f, family, "scoring_func"), traits->scoring_name);
    if (family == DEEPSEEK_V2) {
        char method[32] = "greedy";
        if (fields_has(f, "topk_method"))
            fields_text(f, "topk_method", method, sizeof method);
        s->topk_method = strcmp(method, "greedy") == 0 ? TOPK_GREEDY : TOPK_GROUP_LIMITED;
        if (s->topk_method != TOPK_GREEDY && strcmp(method, "group_limited_greedy") != 0)
            fields_fail(f, MOE_UNSUPPORTED, "topk_method",
                        "is \"%s\"; moechat computes \"greedy\" and \"group_limited_greedy\" for deepseek_v2", method);
    } else {
        shape_must_be_text(f, "topk_method", "noaux_tc");
    }
    s->n_group = s->topk_group = 1;
    if (s->topk_method == TOPK_GROUP_LIMITED) {
        s->n_group = (uint32_t)fields_integer(f, "n_group", counts);
        s->topk_group = (uint32_t)fields_integer(f, "topk_group", counts);
    } else if (s->topk_method == TOPK_NOAUX) {
        s->n_group = u32_or(f, name_of(f, family, "n_group"), counts, traits->n_group);
        s->topk_group = u32_or(f, "topk_group", counts, traits->topk_group);
    }
    if (f->failed)
        return;
    uint32_t least = s->topk_method == TOPK_NOAUX ? 2 : 1;
    uint32_t group = s->n_routed_experts / s->n_group;
    if (s->n_routed_experts % s->n_group || group < least)
        fields_fail(f, MOE_FORMAT, "n_group", "is %u; it must divide n_routed_experts (%u) into groups of %u or more",
                    s->n_group, s->n_routed_experts, least);
    if (s->topk_group > s->n_group)
        fields_fail(f, MOE_FORMAT, "topk_group", "is %u; it must be at most n_group (%u)", s->topk_group, s->n_group);
    if ((uint64_t)s->top_k > (uint64_t)s->topk_group * group)
        fields_fail(f, MOE_FORMAT, "num_experts_per_tok", "is %u; the %u groups that are chosen hold only %u experts",
                    s->top_k, s->topk_group, s->topk_group * group);
}

void shape_must_be_false(struct fields *f, const char *key, const char *why)
{
    if (fields_has(f, key) && fields_flag(f, key))
        fields_fail(f, MOE_UNSUPPORTED, key, "is true; %s", why);
}

// What transformers or the checkpoints' own code would compute otherwise than we do is refused.
static void read_settings(struct fields *f, enum family family, struct shape *s)
{
    const struct traits *traits = &family_traits[family];
    const struct number_range factors = {1e-6, 1e6};
    bool v2 = family == DEEPSEEK_V2;
    bool indexed = family == DEEPSEEK_V32 || family == GLM_MOE_DSA || family == GLM5_NEXT;
    s->rms_norm_eps = (float)fields_number_or(f, "rms_norm_eps", (struct number_range){1e-12, 1}, traits->rms_norm_eps);
    s->latent_norm_eps = family == GLM5_NEXT ? s->rms_norm_eps : 1e-6F;
    s->routed_scaling_factor =
        (float)fields_number_or(f, "routed_scaling_factor", factors, traits->routed_scaling_factor);
    s->norm_topk_prob = !v2 && fields_flag_or(f, name_of(f, family, "norm_topk_prob"), true);
    s->tie_word_embeddings = fields_flag_or(f, "tie_word_embeddings", false);
    s->rope_interleave = v2 || indexed || fields_flag_or(f, "rope_interleave", true);
    shape_must_be_integer(f, "num_key_value_heads", s->n_heads);
    if (family != KIMI_LINEAR && !indexed) // where it means nothing
        shape_must_be_integer(f, "head_dim", s->qk_rope_head_dim);
    shape_must_be_integer(f, "qk_head_dim", (uint64_t)s->qk_nope_head_dim + s->qk_rope_head_dim);
    shape_must_be_integer(f, "moe_layer_freq", 1);
    shape_must_be_integer(f, "num_experts", s->n_routed_experts); // transformers' other names
    shape_must_be_integer(f, "num_local_experts", s->n_routed_experts);
    if (family != KIMI_LINEAR)
        shape_must_be_text(f, "hidden_act", "silu");
    shape_must_be_false(f, "attention_bias", "moechat has no biases in attention");
    shape_must_be_false(f, "mlp_bias", "moechat has no biases in MLPs");
    if (v2)
        shape_must_be_false(f, "norm_topk_prob",
                            "transformers' deepseek_v2 never divides the chosen weights by their sum");
    if ((v2 || indexed) && fields_has(f, "rope_interleave") && !fields_flag(f, "rope_interleave"))
        fields_fail(f, MOE_UNSUPPORTED, "rope_interleave", "is false; the rope of %s is always interleaved",
                    s->model_type);
}

// The class's own ids where the file has none, unless the vocabulary is too small for them.
void shape_read_token_ids(struct fields *f, struct token_ids fallback, struct shape *s)
{
    const struct integer_range ids = {0, s->vocab_size - 1};
    s->bos_token_id = -1;
    if (fields_has(f, "bos_token_id"))
        s->bos_token_id = (int32_t)fields_integer(f, "bos_token_id", ids);
    else if (!json_object_object_get_ex(f->object, "bos_token_id", NULL) && fallback.bos <= (int64_t)ids.max)
        s->bos_token_id = (int32_t)fallback.bos;
    struct json_object *eos = json_object_object_get(f->object, "eos_token_id");
    if (json_object_is_type(eos, json_type_array)) {
        fields_array(f, "eos_token_id", (struct integer_range){0, sizeof s->eos_token_ids / sizeof(int32_t)});
        for (size_t i = 0; !f->failed && i < json_object_array_length(eos); i++)
            s->eos_token_ids[s->n_eos++] = (int32_t)fields_element(f, "eos_token_id", i, ids);
    } else if (eos) {
        s->eos_token_ids[s->n_eos++] = (int32_t)fields_integer(f, "eos_token_id", ids);
    } else if (!json_object_object_get_ex(f->object, "eos_token_id", NULL) && fallback.eos >= 0 &&
               fallback.eos <= (int64_t)ids.max) {
        s->eos_token_ids[s->n_eos++] = (int32_t)fallback.eos;
    }
}

static void read_yarn(struct fields *f, struct shape *s)
{
    s->factor = fields_number(f, "factor", (struct number_range){1, 1e6});
    s->beta_fast = fields_number_or(f, "beta_fast", (struct number_range){0, 1e6}, 0);
    s->beta_slow = fields_number_or(f, "beta_slow", (struct number_range){0, 1e6}, 0);
    s->beta_fast = s->beta_fast > 0 ? s->beta_fast : 32; // transformers reads 0 so, too
    s->beta_slow = s->beta_slow > 0 ? s->beta_slow : 1;
    if (s->beta_fast < s->beta_slow)
        fields_fail(f, MOE_FORMAT, "beta_fast", "is %g; it must be at least beta_slow (%g)", s->beta_fast,
                    s->beta_slow);
    s->mscale = fields_number_or(f, "mscale", (struct number_range){0, 1e3}, 0);
    s->mscale_all_dim = fields_number_or(f, "mscale_all_dim", (struct number_range){0, 1e3}, 0);
    s->attention_factor = fields_number_or(f, "attention_factor", (struct number_range){1e-6, 1e6}, 0);
    s->truncate = fields_flag_or(f, "truncate", true);
}

// rope_scaling wins over rope_parameters when it holds anything, rope_type over type, rope_theta and
// partial_rotary_factor inside over outside, but original_max_position_embeddings outside over inside.
void shape_read_rope(struct fields *f, uint32_t head_dim, double partial, struct shape *s)
{
    const char *original = "original_max_position_embeddings";
    const struct integer_range lengths = {1, MOST_TOKENS};
    const struct number_range thetas = {1.001, 1e12};
    const struct number_range parts = {partial < 1 ? 1e-4 : 1, 1};
    struct fields config = *f;
    struct json_object *scaling = fields_has(f, "rope_scaling") ? fields_object(f, "rope_scaling") : NULL;
    struct json_object *parameters = fields_has(f, "rope_parameters") ? fields_object(f, "rope_parameters") : NULL;
    bool old_name = scaling && json_object_object_length(scaling) > 0;
    uint32_t outside = u32_or(f, original, lengths, 0);
    s->rope_theta = fields_number_or(f, "rope_theta", thetas, 10000);
    partial = fields_number_or(f, "partial_rotary_factor", parts, partial);

    f->object = old_name ? scaling : parameters;
    char prefix[64];
    snprintf(prefix, sizeof prefix, "%s%s.", config.prefix, old_name ? "rope_scaling" : "rope_parameters");
    f->prefix = prefix;
    s->rope_theta = fields_number_or(f, "rope_theta", thetas, s->rope_theta);
    partial = fields_number_or(f, "partial_rotary_factor", parts, partial);
    s->rotary_dim = (uint32_t)(head_dim * partial);
    if (s->rotary_dim < 2 || s->rotary_dim % 2)
        fields_fail(f, MOE_FORMAT, "partial_rotary_factor", "is %g: it makes the rope turn %u of %u; it must be even",
                    partial, s->rotary_dim, head_dim);
    char type[32] = "default";
    const char *key = fields_has(f, "rope_type") ? "rope_type" : "type";
    if (fields_has(f, key))
        fields_text(f, key, type, sizeof type);
    if (strcmp(type, "yarn") == 0) {
        s->rope_type = ROPE_YARN;
        read_yarn(f, s);
        uint32_t inside = u32_or(f, original, lengths, s->max_position_embeddings);
        s->original_max_position_embeddings = outside ? outside : inside;
    } else if (strcmp(type, "default") != 0) {
        fields_fail(f, MOE_UNSUPPORTED, key, "is \"%s\"; moechat computes \"default\" and \"yarn\"", type);
    }
    f->object = config.object;
    f->prefix = config.prefix;
}

static double yarn_mscale(double factor, double mscale)
{
    return factor <= 1 ? 1.0 : 0.1 * mscale * log(factor) + 1.0;
}

static void derive_scales(struct shape *s)
{
    bool mla = s->kv_lora_rank > 0;
    double scale = pow(mla ? (double)s->qk_nope_head_dim + s->qk_rope_head_dim : s->head_dim, -0.5);
    double rope_scale = 1;
    if (s->rope_type == ROPE_YARN) {
        double all_dim = yarn_mscale(s->factor, s->mscale_all_dim);
        if (mla && s->mscale_all_dim > 0)
            scale = scale * all_dim * all_dim;
        if (s->attention_factor > 0)
            rope_scale = s->attention_factor;
        else if (s->mscale > 0 && s->mscale_all_dim > 0)
            rope_scale = yarn_mscale(s->factor, s->mscale) / all_dim;
        else
            rope_scale = yarn_mscale(s->factor, 1);
    }
    s->softmax_scale = (float)scale;
    s->rope_scale = (float)rope_scale;
}

// NULL after failing.
static const struct model_type *find_type(struct fields *f, const char *model_type)
{
    enum { COUNT = sizeof model_types / sizeof model_types[0] };
    char known[256] = "";
    for (size_t i = 0; !f->failed && i < COUNT; i++) {
        if (strcmp(model_type, model_types[i].name) == 0)
            return &model_types[i];
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", model_types[i].name);
    }
    fields_fail(f, MOE_UNSUPPORTED, "model_type", "is \"%s\"; moechat speaks: %s", model_type, known);
    return NULL;
}

// From an outer config to that of the text model in it: of a kimi_k25 DeepseekV3's under either name, of a qwen3_5_moe
// qwen3_5_moe_text's, of a kimi_k3 kimi_linear's, of a glm5_next glm5_next_text's. Whether the head is tied the outer
// one says, whose class ties none where it does not. Kimi_K25Config's would tie one that the checkpoint has not; there
// the inner one is heard, and the checkpoint's tensors must agree with it.
static void enter_text_config(struct fields *f, enum family family, struct shape *s)
{
    bool outer = fields_has(f, "tie_word_embeddings");
    bool tied = outer && fields_flag(f, "tie_word_embeddings");
    static const char *const names[FAMILIES][2] = {[DEEPSEEK_V3] = {"kimi_k2", "deepseek_v3"},
                                                   [KIMI_LINEAR] = {"kimi_k3", "kimi_linear"},
                                                   [QWEN3_5_MOE] = {"qwen3_5_moe_text", "qwen3_5_moe"},
                                                   [GLM5_NEXT] = {"glm5_next_text", "glm5_next"}};
    const char *const *known = names[family];
    f->object = fields_object(f, "text_config");
    f->prefix = "config.text_config.";
    char inner[32];
    snprintf(inner, sizeof inner, "%s", known[1]);
    if (!f->failed && fields_has(f, "model_type"))
        fields_text(f, "model_type", inner, sizeof inner);
    if (!f->failed && strcmp(inner, known[0]) != 0 && strcmp(inner, known[1]) != 0)
        fields_fail(f, MOE_UNSUPPORTED, "model_type", "is \"%s\"; the text model of %s is %s or %s", inner,
                    s->model_type, known[0], known[1]);
    bool inner_counts = !f->failed && family == DEEPSEEK_V3;
    s->tie_word_embeddings = outer ? tied : inner_counts && fields_flag_or(f, "tie_word_embeddings", false);
}

void shape_read_kinds(struct fields *f, const struct kinds_by_name *names, struct shape *s)
{
    const char *key = "layer_types";
    struct json_object *list = NULL;
    if (fields_has(f, key))
        list = fields_array(f, key, (struct integer_range){s->n_layers, s->n_layers});
    for (uint32_t i = 0; !f->failed && i < s->n_layers; i++) {
        const char *name = list ? shape_text_at(list, i) : "";
        bool full = list ? strcmp(name, "full_attention") == 0 : names->is_full(i, names->every);
        if (list && !full && strcmp(name, "linear_attention") != 0)
            fields_fail(f, MOE_UNSUPPORTED, key, "names layer %u neither \"linear_attention\" nor \"full_attention\"",
                        i);
        s->layer_kinds[i] = (uint8_t)(full ? names->full : names->linear);
    }
}

// One of linear_attn_config's lists, which count layers from 1.
static void take_list(struct fields *inside, const char *key, enum layer_kind kind, struct shape *s)
{
    struct json_object *list = fields_array(inside, key, (struct integer_range){0, s->n_layers});
    size_t count = list ? json_object_array_length(list) : 0;
    for (size_t i = 0; i < count && !inside->failed; i++) {
        uint64_t layer = fields_element(inside, key, i, (struct integer_range){1, s->n_layers});
        if (!inside->failed && s->layer_kinds[layer - 1] != LAYER_KINDS)
            fields_fail(inside, MOE_FORMAT, key, "names layer %u, which is in a list already", (unsigned)layer);
        s->layer_kinds[layer - 1] = (uint8_t)kind;
    }
}

static bool every_fourth(uint32_t layer, uint32_t every)
{
    return layer && layer % every == 0;
}

// KimiLinearConfig: layer_types where there are, then linear_attn_config's lists, then its rule. An object that is
// there has the dimensions, too; else they have names of their own.
static void read_kimi_linear(struct fields *f, struct shape *s)
{
    const char *key = "linear_attn_config";
    const struct integer_range heads = {1, 4096}, dims = {32, 128};
    struct linear_dims *d = &s->linear;
    struct fields inside = *f;
    bool given = fields_has(f, key);
    if (given) {
        inside.object = fields_object(f, key);
        inside.prefix = "config.linear_attn_config.";
    }
    inside.failed = f->failed;
    if (inside.failed)
        return;
    d->n_key_heads = u32_or(&inside, given ? "num_heads" : "linear_num_heads", heads, 32);
    d->key_head_dim = u32_or(&inside, given ? "head_dim" : "linear_head_dim", dims, 128);
    d->conv_kernel = 4;
    shape_must_be_integer(&inside, given ? "short_conv_kernel_size" : "linear_conv_kernel_dim", 4);
    d->n_value_heads = d->n_key_heads;
    d->value_head_dim = d->key_head_dim;
    if (!fields_has(f, "layer_types") && given && fields_has(&inside, "full_attn_layers")) {
        memset(s->layer_kinds, LAYER_KINDS, s->n_layers);
        take_list(&inside, "full_attn_layers", LAYER_MLA, s);
        take_list(&inside, "kda_layers", LAYER_KDA, s);
        for (uint32_t i = 0; i < s->n_layers && !inside.failed; i++)
            if (s->layer_kinds[i] == LAYER_KINDS)
                fields_fail(&inside, MOE_FORMAT, "kda_layers", "and full_attn_layers leave out layer %u", i + 1);
        f->failed = inside.failed;
    } else {
        static const struct kinds_by_name names = {LAYER_KDA, LAYER_MLA, every_fourth, 4};
        f->failed = inside.failed;
        shape_read_kinds(f, &names, s);
    }
    if (f->failed)
        return;
    inside.failed = 0;
    shape_read_kimi_k3(f, &inside, s);
    if (fields_has(f, "mla_use_nope") && !fields_flag(f, "mla_use_nope"))
        fields_fail(f, MOE_UNSUPPORTED, "mla_use_nope", "is false; kimi_linear's attention has no rope");
    shape_check_width(f, "linear_attn_config", d->key_head_dim);
}

// The classes whose attention is latent, be it in some of the layers.
static void read_mla(struct fields *f, enum family family, struct shape *shape)
{
    const struct traits *traits = &family_traits[family];
    read_dimensions(f, family, shape);
    if (!f->failed && family >= GLM4_MOE_LITE)
        read_layer_types(f, family, shape);
    if (!f->failed && family == KIMI_LINEAR)
        read_kimi_linear(f, shape);
    if (!f->failed && (family == DEEPSEEK_V32 || family == GLM_MOE_DSA))
        shape_read_indexer(f, family, shape);
    if (!f->failed && family == GLM5_NEXT)
        shape_read_glm5_next(f, shape);
    check_dimensions(f, shape);
    read_router(f, family, shape);
    if (f->failed)
        return;
    read_settings(f, family, shape);
    shape_read_token_ids(f, traits->ids, shape);
    if (family != GLM5_NEXT) // which has none
        shape_read_rope(f, shape->qk_rope_head_dim, 1, shape);
    if (family == KIMI_LINEAR) { // whatever its fields say
        shape->rotary_dim = 0;
        shape->rope_type = ROPE_DEFAULT;
    }
}

// Without rows a conversation has nothing that its length could be planned by.
static void check_attention(struct fields *f, const struct shape *s)
{
    uint32_t states = 0;
    while (states < s->n_layers && (s->layer_kinds[states] == LAYER_GDN || s->layer_kinds[states] == LAYER_KDA))
        states++;
    if (states == s->n_layers)
        fields_fail(f, MOE_UNSUPPORTED, "num_hidden_layers",
                    "is %u, and all of these layers keep states; moechat needs one that has attention", states);
}

int shape_read(struct json_object *config, const char *file, struct shape *shape, struct moe_err *err)
{
    struct fields fields = {.object = config, .file = file, .prefix = "config.", .err = err};
    struct fields *f = &fields;
    memset(shape, 0, sizeof *shape);
    fields_text(f, "model_type", shape->model_type, sizeof shape->model_type);
    const struct model_type *type = find_type(f, shape->model_type);
    if (!type)
        return f->failed;
    enum family family = type->family;
    bool nested = type->nesting == NESTED || (type->nesting == MAY_NEST && fields_has(f, "text_config"));
    if (nested)
        enter_text_config(f, family, shape);
    bool tied = shape->tie_word_embeddings;
    if (f->failed)
        return f->failed;
    (family == QWEN3_NEXT || family == QWEN3_5_MOE ? shape_read_qwen : read_mla)(f, family, shape);
    if (nested)
        shape->tie_word_embeddings = tied;
    check_attention(f, shape);
    if (!f->failed)
        derive_scales(shape);
    return f->failed;
}

// What a layer's mixer has, by its kind.
static uint64_t mixer_parameters(const struct shape *s, enum layer_kind kind)
{
    const struct linear_dims *d = &s->linear;
    uint64_t hidden = s->hidden_size, heads = s->n_heads;
    uint64_t keys = (uint64_t)d->n_key_heads * d->key_head_dim, values = (uint64_t)d->n_value_heads * d->value_head_dim;
    if (kind == LAYER_GQA) {
        uint64_t q = heads * s->head_dim, kv = (uint64_t)s->n_kv_heads * s->head_dim;
        return hidden * (3 * q + 2 * kv) + 2 * (uint64_t)s->head_dim;
    }
    if (kind == LAYER_GDN)
        return hidden * (2 * keys + 3 * values + 2 * d->n_value_heads) + d->conv_kernel * (2 * keys + values) +
               2 * d->n_value_heads + d->value_head_dim;
    if (kind == LAYER_KDA) {
        uint64_t low_rank = d->key_head_dim * (hidden + keys);
        uint64_t gate = d->full_gate ? hidden * keys : low_rank;
        return hidden * (4 * keys + d->n_key_heads) + low_rank + gate + (3 * d->conv_kernel + 1) * keys +
               d->n_key_heads + d->key_head_dim;
    }
    uint64_t q_out = heads * (s->qk_nope_head_dim + s->qk_rope_head_dim);
    uint64_t q = s->q_lora_rank ? s->q_lora_rank * (hidden + q_out + 1) : hidden * q_out;
    uint64_t kv_a = hidden * (s->kv_lora_rank + s->qk_rope_head_dim) + s->kv_lora_rank;
    uint64_t kv_b = s->kv_lora_rank * heads * (s->qk_nope_head_dim + s->v_head_dim);
    uint64_t indexer = 0;
    if (kind == LAYER_DSA) {
        const struct indexer_dims *i = &s->indexer;
        indexer = i->n_heads * (s->q_lora_rank * (uint64_t)i->head_dim + hidden) + i->head_dim * (hidden + 2);
        if (i->pool > 1)
            indexer += i->head_dim * (hidden + i->pool);
    }
    uint64_t out = heads * s->v_head_dim * hidden;
    return q + kv_a + kv_b + (s->gated_latents ? 2 : 1) * out + indexer;
}

struct parameter_counts shape_parameters(const struct shape *s)
{
    uint64_t hidden = s->hidden_size;
    uint64_t n_moe = s->n_layers - s->first_k_dense_replace;
    uint64_t expert = 3 * (uint64_t)shape_expert_size(s) * s->moe_intermediate_size;
    uint64_t embed = hidden * s->vocab_size;
    uint64_t every_token = s->n_layers * 2 * hidden + hidden + embed;
    for (uint32_t i = 0; i < s->n_layers; i++)
        every_token += mixer_parameters(s, shape_layer_kind(s, i));
    if (s->hyper.n_streams) // both halves of a layer
        every_token += s->n_layers * 2 * (HYPER_LOGITS * (HYPER_STREAMS * hidden + 1) + HYPER_SCALES);
    every_token += s->first_k_dense_replace * 3 * hidden * s->intermediate_size;
    every_token += n_moe * hidden * (3 * s->shared_intermediate_size + s->n_routed_experts + s->has_shared_gate);
    every_token += n_moe * s->latent_size * (2 * hidden + 1);
    if (s->bank_every)
        every_token += (2 * s->n_layers + 1) * 2 * hidden;
    uint64_t total = every_token + n_moe * expert * s->n_routed_experts + (s->tie_word_embeddings ? 0 : embed);
    return (struct parameter_counts){total, every_token + n_moe * expert * s->top_k};
}

// The dimension that turns `rotations` times over the original length.
static double correction_dim(const struct shape *s, double rotations)
{
    const double two_pi = 6.283185307179586;
    double dim = s->rotary_dim;
    return dim * log(s->original_max_position_embeddings / (rotations * two_pi)) / (2 * log(s->rope_theta));
}

void shape_inv_freq(const struct shape *shape, float *inv_freq)
{
    uint32_t dim = shape->rotary_dim;
    double low = 0;
    double high = 0;
    if (shape->rope_type == ROPE_YARN) {
        low = correction_dim(shape, shape->beta_fast);
        high = correction_dim(shape, shape->beta_slow);
        low = fmax(shape->truncate ? floor(low) : low, 0);
        high = fmin(shape->truncate ? ceil(high) : high, (double)dim - 1);
        if (low == high)
            high += 0.001;
    }
    memset(inv_freq, 0, shape_frequencies(shape) * sizeof *inv_freq);
    for (uint32_t j = 0; j < dim / 2; j++) {
        float power = powf((float)shape->rope_theta, (float)(2 * j) / (float)dim);
        float fast = 1.0F / power;
        inv_freq[j] = fast;
        if (shape->rope_type == ROPE_YARN) {
            float slow = 1.0F / ((float)shape->factor * power);
            float ramp = fminf(fmaxf(((float)j - (float)low) / (float)(high - low), 0), 1);
            float keep = 1.0F - ramp;
            inv_freq[j] = slow * (1.0F - keep) + fast * keep;
        }
    }
}
