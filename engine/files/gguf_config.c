// SPDX-License-Identifier: GPL-3.0-or-later
// Makes config.json of a GGUF's keys.
#include "engine/files/gguf_config.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/document.h"
#include "engine/base/err.h"
#include "engine/files/gguf_fields.h"

static const struct integer_range any_count = {0, INT32_MAX};
static const struct number_range any_number = {-1e30, 1e30};

// Whole numbers that config.json has under another name, or none.
struct count {
    const char *key, *field;
};
static const struct count mla_counts[] = {
    {".context_length", "max_position_embeddings"}, {".embedding_length", "hidden_size"},
    {".feed_forward_length", "intermediate_size"},  {".attention.head_count", "num_attention_heads"},
    {".attention.kv_lora_rank", "kv_lora_rank"},    {".rope.dimension_count", "qk_rope_head_dim"},
    {".expert_count", "n_routed_experts"},          {".expert_used_count", "num_experts_per_tok"},
    {".expert_shared_count", "n_shared_experts"},   {".expert_feed_forward_length", "moe_intermediate_size"},
};

// Of qwen35moe and qwen3next.
static const struct count qwen_counts[] = {
    {".context_length", "max_position_embeddings"},
    {".embedding_length", "hidden_size"},
    {".attention.head_count", "num_attention_heads"},
    {".attention.head_count_kv", "num_key_value_heads"},
    {".attention.key_length", "head_dim"},
    {".expert_count", "num_experts"},
    {".expert_used_count", "num_experts_per_tok"},
    {".expert_feed_forward_length", "moe_intermediate_size"},
    {".expert_shared_feed_forward_length", "shared_expert_intermediate_size"},
    {".ssm.conv_kernel", "linear_conv_kernel_dim"},
    {".ssm.state_size", "linear_key_head_dim"},
    {".ssm.group_count", "linear_num_key_heads"},
    {".ssm.time_step_rank", "linear_num_value_heads"},
};

// What config.json makes of other keys, where the number is the key's own: messages are of the key.
static const struct {
    const char *key, *field;
} others[] = {
    {".attention.layer_norm_rms_epsilon", "rms_norm_eps"},
    {".attention.q_lora_rank", "q_lora_rank"},
    {".rope.freq_base", "rope_theta"},
    {".rope.scaling.factor", "rope_scaling.factor"},
    {".rope.scaling.original_context_length", "rope_scaling.original_max_position_embeddings"},
    {".rope.scaling.yarn_beta_fast", "rope_scaling.beta_fast"},
    {".rope.scaling.yarn_beta_slow", "rope_scaling.beta_slow"},
    {".leading_dense_block_count", "first_k_dense_replace"},
    {".expert_group_count", "n_group"},
    {".expert_group_used_count", "topk_group"},
    {".expert_weights_scale", "routed_scaling_factor"},
    {".expert_weights_norm", "norm_topk_prob"},
    {".vocab_size", "vocab_size"},
    {".ssm.inner_size", "linear_value_head_dim"},
    {".rope.dimension_count", "rope_parameters.partial_rotary_factor"},
    {".rope.freq_base", "rope_parameters.rope_theta"},
    {".rope.scaling.factor", "rope_parameters.factor"},
    {".rope.scaling.original_context_length", "rope_parameters.original_max_position_embeddings"},
    {".attention.indexer.head_count", "index_n_heads"},
    {".attention.indexer.key_length", "index_head_dim"},
    {".attention.indexer.top_k", "index_topk"},
    {".attention.indexer.types", "indexer_types"},
    {".kda.head_dim", "linear_head_dim"},
    {".ssm.conv_kernel", "linear_conv_kernel_dim"},
    {".kda.gate_lower_bound", "linear_lower_bound"},
    {".kda.gate_lower_bound", "gate_lower_bound"},
    {".expert_latent_length", "routed_expert_hidden_size"},
    {".attn_res.block_size", "attn_res_block_size"},
    {".activation.situ_beta", "activation_situ_beta"},
    {".activation.situ_linear_beta", "activation_situ_linear_beta"},
    {".attention.indexer.kpool", "index_kpool"},
    {".attention.indexer.kpool_select_tail", "index_kpool_always_select_tail"},
    {".hyper_connection.count", "hc_mult"},
    {".hyper_connection.sinkhorn_iterations", "hc_sinkhorn_iters"},
    {".hyper_connection.epsilon", "hc_eps"},
    {".swiglu_clamp_exp", "swiglu_limit"},
};

// Keys that change what is computed in ways that we don't; files of our models lack them or say what does nothing.
static const struct {
    const char *key;
    double neutral;
} foreign[] = {
    {".attention.scale", 0},
    {".attention.temperature_scale", 0},
    {".attention.temperature_length", 0},
    {".attention.clamp_kqv", 0},
    {".logit_scale", 0},
    {".residual_scale", 0},
    {".embedding_scale", 0},
    {".attn_logit_softcapping", 0},
    {".final_logit_softcapping", 0},
    {".rope.scaling.attn_factor", 1},
    {".rope.scaling.yarn_ext_factor", 1},
    {".rope.scaling.yarn_attn_factor", 1},
    {".attention.sliding_window", 0},
    {".moe_every_n_layers", 1},
};

static const char glm5_next[] = "glm5-next", kimi_linear[] = "kimi-linear", kimi_k3[] = "kimi-k3";

struct maker {
    const struct gguf_set *set;
    struct gguf_fields f;
    struct json_object *config;
    struct document document; // that config is
    uint32_t vocab_size, n_layers, n_nextn, n_experts;
    bool sigmoid;
};

// One that we speak.
struct architecture {
    const char *name;
    const struct count *counts;
    size_t n_counts;
    void (*read)(struct maker *m);
};

const struct tensor *gguf_set_tensor(const struct gguf_set *set, const char *name)
{
    const struct tensor *found = NULL;
    for (uint32_t i = 0; i < set->n_files && !found; i++)
        found = tensor_file_find(&set->files[i], name);
    return found;
}

static void add_number(struct maker *m, struct json_object *to, const char *field, double number)
{
    document_add(&m->document, to, field, json_object_new_double(number));
}

static void add_count(struct maker *m, const char *field, uint64_t count)
{
    document_add(&m->document, m->config, field, json_object_new_int64((int64_t)count));
}

static void add_text(struct maker *m, struct json_object *to, const char *field, const char *text)
{
    document_add_text(&m->document, to, field, text);
}

static void add_flag(struct maker *m, const char *field, bool flag)
{
    document_add(&m->document, m->config, field, json_object_new_boolean(flag));
}

// An object or array of config's own; NULL: there was no memory for it.
static struct json_object *add_object(struct maker *m, const char *field)
{
    return document_add(&m->document, m->config, field, document_object(&m->document));
}

static struct json_object *add_list(struct maker *m, const char *field)
{
    return document_add(&m->document, m->config, field, document_array(&m->document));
}

static bool has(const struct maker *m, const char *key)
{
    return gguf_fields_find(&m->f, key) != NULL;
}

static uint64_t count_or(struct maker *m, const char *key, uint64_t otherwise)
{
    return has(m, key) ? gguf_fields_integer(&m->f, key, any_count) : otherwise;
}

static double number_or(struct maker *m, const char *key, double otherwise)
{
    return has(m, key) ? gguf_fields_number(&m->f, key, any_number) : otherwise;
}

// ---- Is it ours?

static const struct architecture *find_architecture(const char *name);

static void check_general(struct maker *m, char architecture[64])
{
    char type[64] = "model";
    struct gguf_fields *f = &m->f;
    if (has(m, "general.type"))
        gguf_fields_text(f, "general.type", type, sizeof type);
    gguf_fields_text(f, "general.architecture", architecture, 64);
    if (f->failed)
        return;
    f->architecture = architecture;
    if (strcmp(type, "mmproj") == 0 || strcmp(architecture, "clip") == 0)
        gguf_fields_fail(f, MOE_UNSUPPORTED, "general.architecture",
                         "is \"%s\": the vision half of a model; name the file of its other half", architecture);
    else if (strcmp(type, "model") != 0)
        gguf_fields_fail(f, MOE_UNSUPPORTED, "general.type", "is \"%s\"; name the file of a whole model", type);
    else if (!find_architecture(architecture))
        gguf_fields_fail(f, MOE_UNSUPPORTED, "general.architecture",
                         "is \"%s\"; moechat speaks deepseek2: DeepSeek-V2, V3, R1, V3.1, Kimi K2, Moonlight and "
                         "GLM-4.7-Flash; deepseek32: V3.2; glm-dsa: GLM-5, 5.1, 5.2; qwen35moe: Qwen3.5, Qwen3.6; "
                         "qwen3next; kimi-linear; kimi-k3; glm5-next: GLM-5.3-Flash",
                         architecture);
    if (has(m, "general.quantization_version") &&
        gguf_fields_integer(f, "general.quantization_version", any_count) != 2)
        gguf_fields_fail(f, MOE_UNSUPPORTED, "general.quantization_version", "is not 2; get a newer file of the model");
}

static void check_foreign(struct maker *m)
{
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        double number = number_or(m, foreign[i].key, foreign[i].neutral);
        if (number < foreign[i].neutral || number > foreign[i].neutral)
            gguf_fields_fail(&m->f, MOE_UNSUPPORTED, foreign[i].key,
                             "is %g: a model that moechat does not compute, though its architecture is %s", number,
                             m->f.architecture);
    }
}

// ---- What it is

static bool has_block(const struct maker *m, uint32_t block, const char *rest)
{
    char name[64];
    snprintf(name, sizeof name, "blk.%" PRIu32 ".%s", block, rest);
    return gguf_set_tensor(m->set, name) != NULL;
}

// Which layers have states is told by their tensors alone.
static bool has_states(struct maker *m, uint32_t block)
{
    if (m->set->head_only)
        gguf_fields_fail(&m->f, MOE_UNSUPPORTED, ".block_count",
                         "counts layers of kinds that only the other parts tell");
    return has_block(m, block, "ssm_a");
}

static void read_layers(struct maker *m)
{
    struct gguf_fields *f = &m->f;
    uint64_t blocks = gguf_fields_integer(f, ".block_count", (struct integer_range){1, 4096});
    uint64_t nextn = count_or(m, ".nextn_predict_layers", 0);
    if (f->failed)
        return;
    if (nextn >= blocks) {
        gguf_fields_fail(f, MOE_FORMAT, ".nextn_predict_layers", "is %" PRIu64 " of %" PRIu64 " layers", nextn, blocks);
        return;
    }
    m->n_layers = (uint32_t)(blocks - nextn);
    add_count(m, "num_hidden_layers", m->n_layers);
    if (m->set->head_only) // its parts will be looked at when they are here
        return;
    for (uint32_t i = m->n_layers; i < blocks; i++)
        if (has_block(m, i, "attn_norm.weight") && !has_block(m, i, "nextn.eh_proj.weight"))
            gguf_fields_fail(f, MOE_FORMAT, ".nextn_predict_layers",
                             "is %" PRIu64 ", but block %" PRIu32 " is no such layer: it has no nextn tensors", nextn,
                             i);
    for (uint32_t i = 0; i < m->n_layers; i++)
        if (has_block(m, i, "nextn.eh_proj.weight"))
            gguf_fields_fail(f, MOE_FORMAT, ".nextn_predict_layers",
                             "is %" PRIu64 ", but block %" PRIu32 " has nextn tensors; get a newer file of the model",
                             nextn, i);
    if (!has_block(m, 0, "attn_norm.weight"))
        gguf_fields_fail(f, MOE_UNSUPPORTED, ".block_count",
                         "counts layers that are not there: a file for multi-token prediction alone, or with the "
                         "vocabulary only; name the model's own file");
}

static void read_vocabulary(struct maker *m)
{
    const struct gguf_value *tokens = gguf_fields_find(&m->f, "tokenizer.ggml.tokens");
    if (has(m, ".vocab_size") || !tokens || !tokens->array)
        m->vocab_size = (uint32_t)gguf_fields_integer(&m->f, ".vocab_size", any_count);
    else
        m->vocab_size = (uint32_t)tokens->count;
    add_count(m, "vocab_size", m->vocab_size);
}

static void add_counts(struct maker *m, const struct count *counts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        add_count(m, counts[i].field, gguf_fields_integer(&m->f, counts[i].key, any_count));
}

static void read_counts(struct maker *m)
{
    const struct architecture *a = find_architecture(m->f.architecture);
    add_counts(m, a->counts, a->n_counts);
    m->n_experts = (uint32_t)json_object_get_int64(json_object_object_get(m->config, "n_routed_experts"));
}

static bool is_kimi(const struct maker *m)
{
    return strcmp(m->f.architecture, kimi_linear) == 0 || strcmp(m->f.architecture, kimi_k3) == 0;
}

static void read_heads(struct maker *m)
{
    struct gguf_fields *f = &m->f;
    bool mla = has(m, ".attention.key_length_mla");
    const char *key = mla ? ".attention.key_length_mla" : ".attention.key_length";
    uint64_t both = gguf_fields_integer(f, key, any_count);
    uint64_t rope = gguf_fields_integer(f, ".rope.dimension_count", any_count);
    if (!f->failed && both <= rope)
        gguf_fields_fail(f, MOE_FORMAT, key, "is %" PRIu64 ", not more than rope.dimension_count (%" PRIu64 ")", both,
                         rope);
    add_count(m, "qk_nope_head_dim", f->failed ? 0 : both - rope);
    add_count(m, "v_head_dim",
              gguf_fields_integer(f, mla ? ".attention.value_length_mla" : ".attention.value_length", any_count));
    bool keyed = m->set->head_only || strcmp(f->architecture, glm5_next) == 0 || is_kimi(m);  // else older than the key
    if (keyed ? !count_or(m, ".attention.q_lora_rank", 0) : has_block(m, 0, "attn_q.weight")) // none, or 0, is none
        document_add_null(&m->document, m->config, "q_lora_rank");
    else
        add_count(m, "q_lora_rank", gguf_fields_integer(f, ".attention.q_lora_rank", any_count));
}

static void read_router(struct maker *m)
{
    struct gguf_fields *f = &m->f;
    const char *key = ".expert_gating_func";
    bool glm = strcmp(f->architecture, "glm-dsa") == 0 || strcmp(f->architecture, glm5_next) == 0;
    bool indexed = glm || strcmp(f->architecture, "deepseek32") == 0;
    bool flash = m->vocab_size == 154880 && (m->n_layers == 47 || m->n_layers == 48);
    uint64_t gating = count_or(m, key, indexed || flash ? 2 : 1);
    if (gating != 1 && gating != 2)
        gguf_fields_fail(f, MOE_UNSUPPORTED, key, "is %" PRIu64 "; moechat computes 1 (softmax) and 2 (sigmoid)",
                         gating);
    m->sigmoid = gating == 2;
    uint64_t groups = 1;
    uint64_t used = 1;
    bool kimi = is_kimi(m);
    if (m->n_experts == 256 && m->sigmoid && !glm && !kimi)
        groups = 8, used = 4;
    else if (m->n_experts == 160 && !m->sigmoid)
        groups = 8, used = 3;
    // Of Kimi's the converter writes the one group that is used and not that there is one: they call it otherwise.
    bool lone = kimi && !has(m, ".expert_group_count") && count_or(m, ".expert_group_used_count", 1) == 1;
    if (!lone && has(m, ".expert_group_count") != has(m, ".expert_group_used_count"))
        gguf_fields_fail(f, MOE_FORMAT, ".expert_group_count",
                         "and .expert_group_used_count come together or not at "
                         "all; get a newer file of the model");
    groups = count_or(m, ".expert_group_count", groups);
    add_count(m, "n_group", groups);
    add_count(m, "topk_group", count_or(m, ".expert_group_used_count", used));
    add_text(m, m->config, "scoring_func", m->sigmoid ? "sigmoid" : "softmax");
    add_text(m, m->config, "topk_method", m->sigmoid ? "noaux_tc" : groups > 1 ? "group_limited_greedy" : "greedy");
    add_number(m, m->config, "routed_scaling_factor", number_or(m, ".expert_weights_scale", 1));
    bool norm = has(m, ".expert_weights_norm") && gguf_fields_flag(f, ".expert_weights_norm");
    add_flag(m, "norm_topk_prob", norm);
}

// mscale itself is in no GGUF: the models of this architecture have it as large as mscale_all_dim.
static void read_yarn(struct maker *m)
{
    struct gguf_fields *f = &m->f;
    struct json_object *scaling = add_object(m, "rope_scaling");
    bool kimi = m->vocab_size == 163840; // whose own config says 1, 1
    char text[32];
    double multiplier = gguf_fields_number(f, ".rope.scaling.yarn_log_multiplier", (struct number_range){0, 100});
    snprintf(text, sizeof text, "%.9g", 10 * multiplier); // 0.0707 is 0.707, not 0.7070000000000001
    double mscale = strtod(text, NULL);
    add_text(m, scaling, "type", "yarn");
    add_number(m, scaling, "factor", gguf_fields_number(f, ".rope.scaling.factor", any_number));
    document_add_number(&m->document, scaling, "original_max_position_embeddings",
                        gguf_fields_integer(f, ".rope.scaling.original_context_length", any_count));
    add_number(m, scaling, "mscale", mscale);
    add_number(m, scaling, "mscale_all_dim", mscale);
    add_number(m, scaling, "beta_fast", number_or(m, ".rope.scaling.yarn_beta_fast", kimi ? 1 : 32));
    add_number(m, scaling, "beta_slow", number_or(m, ".rope.scaling.yarn_beta_slow", 1));
}

static void read_rope(struct maker *m)
{
    const char *key = ".rope.scaling.type";
    char type[32] = "none";
    add_number(m, m->config, "rope_theta", number_or(m, ".rope.freq_base", 10000));
    if (has(m, key))
        gguf_fields_text(&m->f, key, type, sizeof type);
    if (strcmp(type, "yarn") == 0)
        read_yarn(m);
    else if (strcmp(type, "none") != 0)
        gguf_fields_fail(&m->f, MOE_UNSUPPORTED, key, "is \"%s\"; moechat computes \"yarn\" and \"none\"", type);
}

// The ids that the vocabulary gives a meaning; a missing one is said to be none, so that no class's own is taken.
static void read_token_ids(struct maker *m)
{
    static const char *const ends[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    const char *bos = "tokenizer.ggml.bos_token_id";
    const struct integer_range ids = {0, m->vocab_size ? m->vocab_size - 1 : 0};
    if (has(m, bos))
        add_count(m, "bos_token_id", gguf_fields_integer(&m->f, bos, ids));
    else
        document_add_null(&m->document, m->config, "bos_token_id");
    struct json_object *list = add_list(m, "eos_token_id");
    for (size_t i = 0; list && i < sizeof ends / sizeof *ends; i++) {
        if (!has(m, ends[i]))
            continue;
        int64_t id = (int64_t)gguf_fields_integer(&m->f, ends[i], ids);
        bool known = false;
        for (size_t k = 0; k < json_object_array_length(list); k++)
            known |= json_object_get_int64(json_object_array_get_idx(list, k)) == id;
        if (!known)
            document_append(&m->document, list, json_object_new_int64(id));
    }
}

// The class of transformers that computes it: what tells them apart is how they route.
static const char *model_type(const struct maker *m)
{
    int64_t dense = json_object_get_int64(json_object_object_get(m->config, "first_k_dense_replace"));
    if (!m->sigmoid)
        return "deepseek_v2";
    if (m->vocab_size == 154880 && dense == 1) // that class has no other number of dense layers
        return "glm4_moe_lite";
    return m->vocab_size == 163840 && m->n_experts == 384 ? "kimi_k2" : "deepseek_v3";
}

static void read_mla(struct maker *m)
{
    read_counts(m);
    add_count(m, "first_k_dense_replace", count_or(m, ".leading_dense_block_count", 0));
    read_heads(m);
    read_router(m);
    read_rope(m);
    read_token_ids(m);
    add_text(m, m->config, "model_type", model_type(m));
}

// ---- deepseek32 and glm-dsa

// Which layers have an indexer of their own: flags, or numbers that are not 0. Files of GLM-5.2 before there was this
// key are told from those of GLM-5 and 5.1, whose layers all have one, by their context, as llama.cpp tells them.
static void read_indexer_types(struct maker *m)
{
    enum { LONG_CONTEXT = 1 << 20 };
    static const char key[] = ".attention.indexer.types";
    const struct gguf_value *types = gguf_fields_find(&m->f, key);
    uint64_t context = (uint64_t)json_object_get_int64(json_object_object_get(m->config, "max_position_embeddings"));
    if (!types) {
        add_count(m, "index_topk_freq", context >= LONG_CONTEXT ? 4 : 1);
        add_count(m, "index_skip_topk_offset", 3);
        return;
    }
    struct json_object *list = add_list(m, "indexer_types");
    for (uint32_t i = 0; i < m->n_layers && !m->f.failed; i++) {
        uint64_t full = 1;
        if ((types->array && types->count < m->n_layers) || !gguf_integer_at(types, types->array ? i : 0, &full))
            gguf_fields_fail(&m->f, MOE_FORMAT, key, "is no list of a flag for each of %" PRIu32 " layers",
                             m->n_layers);
        document_append_text(&m->document, list, full > 0 ? "full" : "shared");
    }
}

static const struct count indexer_counts[] = {{".attention.indexer.head_count", "index_n_heads"},
                                              {".attention.indexer.key_length", "index_head_dim"},
                                              {".attention.indexer.top_k", "index_topk"}};
enum { N_INDEXER_COUNTS = sizeof indexer_counts / sizeof *indexer_counts };

static void need_sigmoid(struct maker *m)
{
    if (!m->sigmoid)
        gguf_fields_fail(&m->f, MOE_UNSUPPORTED, ".expert_gating_func",
                         "is 1; moechat computes only 2 (sigmoid) for %s", m->f.architecture);
}

static void read_dsa(struct maker *m)
{
    bool glm = strcmp(m->f.architecture, "glm-dsa") == 0;
    read_mla(m);
    add_counts(m, indexer_counts, N_INDEXER_COUNTS);
    if (glm)
        read_indexer_types(m);
    need_sigmoid(m);
    add_text(m, m->config, "model_type", glm ? "glm_moe_dsa" : "deepseek_v32");
}

// ---- qwen35moe and qwen3next

static void read_kinds(struct maker *m)
{
    struct json_object *list = add_list(m, "layer_types");
    for (uint32_t i = 0; i < m->n_layers; i++)
        document_append_text(&m->document, list, has_states(m, i) ? "linear_attention" : "full_attention");
}

// A softmax over all experts, whose chosen weights are divided by their sum: by the programs, whatever the file says.
static void check_softmax(struct maker *m)
{
    static const struct {
        const char *key;
        double only;
    } keys[] = {{".expert_gating_func", 1}, {".expert_weights_scale", 1}, {".expert_group_count", 1}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        double number = number_or(m, keys[i].key, keys[i].only);
        if (number < keys[i].only || number > keys[i].only)
            gguf_fields_fail(&m->f, MOE_UNSUPPORTED, keys[i].key, "is %g; moechat computes only %g for %s", number,
                             keys[i].only, m->f.architecture);
    }
    if (has(m, ".expert_weights_norm") && !gguf_fields_flag(&m->f, ".expert_weights_norm"))
        gguf_fields_fail(&m->f, MOE_UNSUPPORTED, ".expert_weights_norm", "is false; moechat computes only true for %s",
                         m->f.architecture);
}

// Scaled with the factors' own defaults: these models have no mscale.
static void read_qwen_rope(struct maker *m, uint64_t head_dim)
{
    struct gguf_fields *f = &m->f;
    struct json_object *rope = add_object(m, "rope_parameters");
    char type[32] = "none";
    uint64_t turned = gguf_fields_integer(f, ".rope.dimension_count", (struct integer_range){2, INT32_MAX});
    add_number(m, rope, "partial_rotary_factor", head_dim ? (double)turned / (double)head_dim : 1);
    add_number(m, rope, "rope_theta", number_or(m, ".rope.freq_base", 10000));
    if (has(m, ".rope.scaling.type"))
        gguf_fields_text(f, ".rope.scaling.type", type, sizeof type);
    bool yarn = strcmp(type, "yarn") == 0;
    add_text(m, rope, "rope_type", yarn ? "yarn" : "default");
    if (!yarn && strcmp(type, "none") != 0)
        gguf_fields_fail(f, MOE_UNSUPPORTED, ".rope.scaling.type", "is \"%s\"; moechat computes \"yarn\" and \"none\"",
                         type);
    if (!yarn)
        return;
    uint64_t original = gguf_fields_integer(f, ".rope.scaling.original_context_length", any_count);
    add_number(m, rope, "factor", gguf_fields_number(f, ".rope.scaling.factor", any_number));
    document_add_number(&m->document, rope, "original_max_position_embeddings", original);
}

static void read_qwen(struct maker *m)
{
    struct gguf_fields *f = &m->f;
    read_counts(m);
    uint64_t heads = (uint64_t)json_object_get_int64(json_object_object_get(m->config, "linear_num_value_heads"));
    uint64_t head_dim = (uint64_t)json_object_get_int64(json_object_object_get(m->config, "head_dim"));
    uint64_t inner = gguf_fields_integer(f, ".ssm.inner_size", any_count);
    if (!f->failed && (!heads || inner % heads))
        gguf_fields_fail(f, MOE_FORMAT, ".ssm.inner_size",
                         "is %" PRIu64 ", no multiple of ssm.time_step_rank (%" PRIu64 ")", inner, heads);
    add_count(m, "linear_value_head_dim", f->failed ? 0 : inner / heads);
    if (!f->failed && count_or(m, ".attention.value_length", head_dim) != head_dim)
        gguf_fields_fail(f, MOE_UNSUPPORTED, ".attention.value_length", "is not attention.key_length (%" PRIu64 ")",
                         head_dim);
    read_kinds(m);
    check_softmax(m);
    read_qwen_rope(m, head_dim);
    read_token_ids(m);
    bool next = strcmp(f->architecture, "qwen3next") == 0;
    add_text(m, m->config, "model_type", next ? "qwen3_next" : "qwen3_5_moe_text");
    add_flag(m, "linear_value_heads_tiled", !next);
}

// ---- kimi-linear

static const struct count delta_counts[] = {{".kda.head_dim", "linear_head_dim"},
                                            {".attention.head_count", "linear_num_heads"},
                                            {".ssm.conv_kernel", "linear_conv_kernel_dim"}};
enum { N_DELTA_COUNTS = sizeof delta_counts / sizeof *delta_counts };

// Layers of delta attention have no key head; where the tensors are here, those tell.
static bool has_no_key_head(struct maker *m, uint32_t layer)
{
    const struct gguf_value *heads = gguf_fields_find(&m->f, ".attention.head_count_kv");
    uint64_t n = 0;
    if (m->set->head_only && heads && heads->array && heads->count >= m->n_layers && gguf_integer_at(heads, layer, &n))
        return n == 0;
    return has_states(m, layer);
}

// As deepseek2's, but for the layers of delta attention.
static void read_kimi(struct maker *m)
{
    static const char *const linear = "linear_attention";
    read_counts(m);
    add_count(m, "first_k_dense_replace", count_or(m, ".leading_dense_block_count", 0));
    struct json_object *list = add_list(m, "layer_types");
    for (uint32_t i = 0; i < m->n_layers; i++)
        document_append_text(&m->document, list, has_no_key_head(m, i) ? linear : "full_attention");
    read_heads(m);
    read_router(m);
    need_sigmoid(m);
    if (!has(m, ".expert_weights_norm")) // the programs divide, and the converter does not say so
        add_flag(m, "norm_topk_prob", true);
    add_counts(m, delta_counts, N_DELTA_COUNTS);
    read_token_ids(m);
    add_text(m, m->config, "model_type", "kimi_linear");
}

// What it has beyond Kimi-Linear. There is no key for its gates and the norm behind its experts, which it always has: a
// file without them lacks tensors.
static void read_kimi_k3(struct maker *m)
{
    static const struct count own[] = {{".expert_latent_length", "routed_expert_hidden_size"},
                                       {".attn_res.block_size", "attn_res_block_size"}};
    struct gguf_fields *f = &m->f;
    const char *bound = ".kda.gate_lower_bound";
    read_kimi(m);
    add_counts(m, own, sizeof own / sizeof *own);
    if (has(m, bound))
        add_number(m, m->config, "gate_lower_bound", gguf_fields_number(f, bound, any_number));
    add_text(m, m->config, "hidden_act", "situ");
    add_number(m, m->config, "activation_situ_beta", gguf_fields_number(f, ".activation.situ_beta", any_number));
    add_number(m, m->config, "activation_situ_linear_beta",
               gguf_fields_number(f, ".activation.situ_linear_beta", any_number));
    static const char *const flags[] = {"use_full_rank_gate", "mla_use_output_gate", "latent_moe_use_norm"};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        add_flag(m, flags[i], true);
    add_text(m, m->config, "model_type", "kimi_k3_text");
}

// ---- glm5-next

// Layers without a key head are those of delta attention.
static void read_next_kinds(struct maker *m)
{
    static const char key[] = ".attention.head_count_kv";
    const struct gguf_value *heads = gguf_fields_find(&m->f, key);
    struct json_object *list = add_list(m, "layer_types");
    if (!heads || !heads->array || heads->count < m->n_layers)
        gguf_fields_fail(&m->f, MOE_FORMAT, key, "is no list of a number for each of %" PRIu32 " layers", m->n_layers);
    for (uint32_t i = 0; i < m->n_layers && !m->f.failed; i++) {
        uint64_t n = 0;
        if (!gguf_integer_at(heads, i, &n))
            gguf_fields_fail(&m->f, MOE_FORMAT, key, "has no whole number for layer %" PRIu32, i);
        document_append_text(&m->document, list, n ? "deepseek_sparse_attention" : "linear_attention");
    }
}

static void add_dense_layers(struct maker *m)
{
    uint64_t dense = count_or(m, ".leading_dense_block_count", 0);
    struct json_object *list = add_list(m, "mlp_layer_types");
    for (uint32_t i = 0; i < m->n_layers; i++)
        document_append_text(&m->document, list, i < dense ? "dense" : "sparse");
}

// One limit for all layers and all experts: a number, or as many of the same.
static double read_limit(struct maker *m, const char *key)
{
    const struct gguf_value *value = gguf_fields_find(&m->f, key);
    double limit = 0, other = 0;
    if (!value || !value->count || !gguf_number_at(value, 0, &limit))
        gguf_fields_fail(&m->f, MOE_FORMAT, key, "is missing, or no number; get a newer file of the model");
    for (uint64_t i = 1; !m->f.failed && i < value->count; i++)
        if (!gguf_number_at(value, i, &other) || other < limit || other > limit)
            gguf_fields_fail(&m->f, MOE_UNSUPPORTED, key,
                             "differs from layer to layer, which moechat does not compute");
    return limit;
}

static void add_limit(struct maker *m)
{
    const char *of_shared = ".swiglu_clamp_shexp";
    double limit = read_limit(m, ".swiglu_clamp_exp"), shared = has(m, of_shared) ? read_limit(m, of_shared) : limit;
    if (shared < limit || shared > limit)
        gguf_fields_fail(&m->f, MOE_UNSUPPORTED, of_shared, "is %g, not swiglu_clamp_exp (%g)", shared, limit);
    add_number(m, m->config, "swiglu_limit", limit);
}

static void check_layer_norm(struct maker *m)
{
    const char *key = ".attention.layer_norm_epsilon";
    double eps = number_or(m, key, 1e-6);
    if (eps < 0.99e-6 || eps > 1.01e-6)
        gguf_fields_fail(&m->f, MOE_UNSUPPORTED, key, "is %g; the indexer of %s has 1e-06", eps, m->f.architecture);
}

static void read_glm5_next(struct maker *m)
{
    static const struct count own[] = {{".attention.indexer.kpool", "index_kpool"},
                                       {".hyper_connection.count", "hc_mult"},
                                       {".hyper_connection.sinkhorn_iterations", "hc_sinkhorn_iters"}};
    const char *bound = ".kda.gate_lower_bound", *tail = ".attention.indexer.kpool_select_tail";
    struct gguf_fields *f = &m->f;
    read_counts(m);
    read_next_kinds(m);
    add_dense_layers(m);
    read_heads(m);
    read_router(m);
    need_sigmoid(m);
    add_counts(m, indexer_counts, N_INDEXER_COUNTS);
    add_counts(m, delta_counts, N_DELTA_COUNTS);
    add_counts(m, own, sizeof own / sizeof *own);
    if (has(m, ".attention.indexer.types"))
        read_indexer_types(m);
    add_flag(m, "index_kpool_always_select_tail", !has(m, tail) || gguf_fields_flag(f, tail));
    if (has(m, bound))
        add_number(m, m->config, "linear_lower_bound", gguf_fields_number(f, bound, any_number));
    else
        document_add_null(&m->document, m->config, "linear_lower_bound");
    add_number(m, m->config, "hc_eps", gguf_fields_number(f, ".hyper_connection.epsilon", any_number));
    add_limit(m);
    check_layer_norm(m);
    read_token_ids(m);
    add_text(m, m->config, "model_type", "glm5_next_text");
}

static const struct architecture architectures[] = {
    {"deepseek2", mla_counts, sizeof mla_counts / sizeof *mla_counts, read_mla},
    {"deepseek32", mla_counts, sizeof mla_counts / sizeof *mla_counts, read_dsa},
    {"glm-dsa", mla_counts, sizeof mla_counts / sizeof *mla_counts, read_dsa},
    {"qwen35moe", qwen_counts, sizeof qwen_counts / sizeof *qwen_counts, read_qwen},
    {"qwen3next", qwen_counts, sizeof qwen_counts / sizeof *qwen_counts, read_qwen},
    {kimi_linear, mla_counts, sizeof mla_counts / sizeof *mla_counts, read_kimi},
    {kimi_k3, mla_counts, sizeof mla_counts / sizeof *mla_counts, read_kimi_k3},
    {glm5_next, mla_counts, sizeof mla_counts / sizeof *mla_counts, read_glm5_next},
};

static const struct architecture *find_architecture(const char *name)
{
    for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++)
        if (strcmp(architectures[i].name, name) == 0)
            return &architectures[i];
    return NULL;
}

int gguf_config_make(const struct gguf_set *set, struct json_object **config, struct moe_err *err)
{
    char architecture[64] = "";
    struct maker m = {.set = set};
    m.config = document_object(&m.document);
    m.f = (struct gguf_fields){.from = &set->head, .path = set->files[0].path, .architecture = "", .err = err};
    check_general(&m, architecture);
    if (!m.f.failed) {
        check_foreign(&m);
        read_layers(&m);
        read_vocabulary(&m);
        find_architecture(architecture)->read(&m);
        add_number(&m, m.config, "rms_norm_eps",
                   gguf_fields_number(&m.f, ".attention.layer_norm_rms_epsilon", any_number));
        add_flag(&m, "tie_word_embeddings", !set->head_only && !gguf_set_tensor(set, "output.weight"));
    }
    int code = m.f.failed;
    if (m.document.lost) // what looks wrong then may only be missing
        code = moe_fail(err, MOE_NO_MEMORY, "%.300s: no memory to read its keys", set->files[0].path);
    if (code) {
        json_object_put(m.config);
        m.config = NULL;
    }
    *config = m.config;
    return code;
}

// The key behind the field that `at` begins with, up to a colon; NULL: of no one key.
static const char *key_of(const struct architecture *a, const char *at, size_t *length)
{
    *length = strcspn(at, ":");
    for (size_t i = 0; i < a->n_counts; i++)
        if (strlen(a->counts[i].field) == *length && strncmp(at, a->counts[i].field, *length) == 0)
            return a->counts[i].key;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strlen(others[i].field) == *length && strncmp(at, others[i].field, *length) == 0)
            return others[i].key;
    return NULL;
}

// "FILE: config.hidden_size: MESSAGE" becomes "FILE: deepseek2.embedding_length: MESSAGE".
static void rename_field(const struct architecture *a, struct moe_err *err)
{
    static const char config[] = ": config.";
    char *at = err ? strstr(err->text, config) : NULL;
    char text[sizeof err->text];
    size_t length = 0;
    const char *field = at ? at + sizeof config - 1 : "";
    const char *key = key_of(a, field, &length);
    if (!key)
        return;
    snprintf(text, sizeof text, "%.*s: %s%s%s", (int)(at - err->text), err->text, a->name, key, field + length);
    memcpy(err->text, text, sizeof text);
}

int gguf_config_read(const struct gguf_set *set, struct json_object **config, struct shape *shape, struct moe_err *err)
{
    int code = gguf_config_make(set, config, err);
    if (code)
        return code;
    char name[64];
    struct gguf_fields f = {.from = &set->head, .path = set->files[0].path, .architecture = ""};
    gguf_fields_text(&f, "general.architecture", name, sizeof name);
    const struct architecture *a = find_architecture(name); // gguf_config_make has found it, too
    code = shape_read(*config, set->files[0].path, shape, err);
    if (code) {
        rename_field(a, err);
        json_object_put(*config);
        *config = NULL;
        return code;
    }
    return MOE_OK;
}
