// SPDX-License-Identifier: GPL-3.0-or-later
// config.json to a model's shape: every type's defaults, and refusals by name.
#include <json-c/json.h>
#include <math.h>
#include <stdlib.h>

#include "tests/harness.h"
#include "engine/files/shape.h"

// A small deepseek_v3 configuration; texts here are JSON with ' for ".
static const char base[] =
    "{'model_type':'deepseek_v3','vocab_size':300,'hidden_size':160,'intermediate_size':256,'moe_intermediate_size':64,"
    "'num_hidden_layers':3,'num_attention_heads':5,'num_key_value_heads':5,'n_shared_experts':1,'n_routed_experts':16,"
    "'routed_scaling_factor':2.5,'kv_lora_rank':64,'q_lora_rank':96,'qk_rope_head_dim':8,'v_head_dim':32,"
    "'qk_nope_head_dim':24,'n_group':4,'topk_group':2,'num_experts_per_tok':4,'first_k_dense_replace':1,"
    "'norm_topk_prob':true,'hidden_act':'silu','max_position_embeddings':512,'rms_norm_eps':1e-5,"
    "'tie_word_embeddings':false,'rope_interleave':true,'attention_bias':false,'bos_token_id':1,'eos_token_id':[2,3]}";

static struct json_object *parsed(const char *text)
{
    char *copy = strdup(text);
    for (char *c = copy; *c; c++)
        if (*c == '\'')
            *c = '"';
    struct json_object *object = json_tokener_parse(copy);
    free(copy);
    return object;
}

// base with the members of `changes` put over it; a member '-' is taken away.
static int read_changed(const char *changes, struct shape *shape, struct moe_err *err)
{
    struct json_object *config = parsed(base);
    struct json_object *change = parsed(changes);
    struct json_object_iter member;
    json_object_object_foreachC(change, member)
    {
        if (json_object_is_type(member.val, json_type_string) && strcmp(json_object_get_string(member.val), "-") == 0)
            json_object_object_del(config, member.key);
        else
            json_object_object_add(config, member.key, json_object_get(member.val));
    }
    int code = change ? shape_read(config, "config.json", shape, err) : -1;
    json_object_put(change);
    json_object_put(config);
    return code;
}

// Made once by transformers 5.17.0: DeepseekV3RotaryEmbedding's inv_freq and attention_scaling, DeepseekV3Attention's
// scaling.
static const struct rope_case {
    const char *name, *changes;
    float softmax_scale, rope_scale;
    int n;
    float inv_freq[32];
} rope_cases[] = {
    {"plain 10000",
     "{'qk_rope_head_dim':16,'qk_nope_head_dim':32,'rope_theta':10000.0}",
     0.144337565F,
     1.0F,
     8,
     {1.0F, 0.316227764F, 0.100000001F, 0.0316227786F, 0.00999999978F, 0.00316227786F, 0.00100000005F,
      0.000316227786F}},
    {"plain 50000",
     "{'qk_rope_head_dim':8,'qk_nope_head_dim':24,'rope_parameters':{'rope_type':'default','rope_theta':50000.0}}",
     0.176776692F,
     1.0F,
     4,
     {1.0F, 0.0668740347F, 0.00447213603F, 0.000299069769F}},
    {"V3",
     "{'qk_rope_head_dim':64,'qk_nope_head_dim':128,'max_position_embeddings':163840,'rope_theta':10000,'rope_scaling':"
     "{'type':'yarn','factor':40,'original_max_position_embeddings':4096,'mscale':1.0,'mscale_all_dim':1.0,'beta_fast':"
     "32,'beta_slow':1}}",
     0.135233775F,
     1.0F,
     32,
     {1.0F,
      0.749894202F,
      0.562341332F,
      0.421696514F,
      0.316227764F,
      0.237137362F,
      0.177827939F,
      0.133352146F,
      0.100000001F,
      0.0749894157F,
      0.0562341288F,
      0.0390069261F,
      0.0268793609F,
      0.0183781441F,
      0.012447956F,
      0.0083345091F,
      0.00550000044F,
      0.00356199732F,
      0.00224936521F,
      0.00137051346F,
      0.000790569407F,
      0.000414990413F,
      0.00017782794F,
      3.3338034e-05F,
      2.49999994e-05F,
      1.87473543e-05F,
      1.40585325e-05F,
      1.05424124e-05F,
      7.90569447e-06F,
      5.92843435e-06F,
      4.44569832e-06F,
      3.33380353e-06F}},
    {"mscale differs",
     "{'qk_rope_head_dim':32,'qk_nope_head_dim':64,'max_position_embeddings':4096,'rope_parameters':{'rope_type':'yarn'"
     ",'rope_theta':50000.0,'factor':8.0,'original_max_position_embeddings':512,'mscale':0.707,'mscale_all_dim':1.3}}",
     0.164700806F,
     0.902929842F,
     16,
     {1.0F, 0.508527458F, 0.220887616F, 0.0931495577F, 0.0376166441F, 0.0141696986F, 0.00468369294F, 0.00109928579F,
      0.000559017004F, 0.000284275477F, 0.000144561869F, 7.35136782e-05F, 3.73837211e-05F, 1.90106457e-05F,
      9.66743482e-06F, 4.91615583e-06F}},
    {"attention_factor",
     "{'qk_rope_head_dim':32,'qk_nope_head_dim':64,'max_position_embeddings':4096,'rope_parameters':{'rope_type':'yarn'"
     ",'rope_theta':10000.0,'factor':4.0,'original_max_position_embeddings':1024,'attention_factor':1.25,'mscale_all_"
     "dim':0.5,'beta_fast':16.0,'beta_slow':2.0}}",
     0.116701238F,
     1.25F,
     16,
     {1.0F, 0.562341332F, 0.316227764F, 0.177827939F, 0.100000001F, 0.045690231F, 0.0197642371F, 0.00777997263F,
      0.00249999994F, 0.00140585331F, 0.000790569466F, 0.000444569858F, 0.000250000012F, 0.000140585325F,
      7.90569466e-05F, 4.44569851e-05F}},
    {"not truncated",
     "{'qk_rope_head_dim':32,'qk_nope_head_dim':64,'max_position_embeddings':4096,'rope_parameters':{'rope_type':'yarn'"
     ",'rope_theta':50000.0,'factor':4.0,'original_max_position_embeddings':1024,'truncate':false}}",
     0.102062076F,
     1.13862944F,
     16,
     {1.0F, 0.508527458F, 0.258600146F, 0.120097764F, 0.0512866378F, 0.0211040229F, 0.00820121728F, 0.00288358424F,
      0.00111803401F, 0.000568550953F, 0.000289123738F, 0.000147027356F, 7.47674421e-05F, 3.80212914e-05F,
      1.93348696e-05F, 9.83231166e-06F}},
    {"outside",
     "{'qk_rope_head_dim':32,'qk_nope_head_dim':64,'max_position_embeddings':4096,'original_max_position_embeddings':"
     "256,'rope_parameters':{'rope_type':'yarn','rope_theta':10000.0,'factor':4.0,'original_max_position_embeddings':"
     "1024}}",
     0.102062076F,
     1.13862944F,
     16,
     {1.0F, 0.502090454F, 0.248464689F, 0.120668955F, 0.0571428537F, 0.0261087008F, 0.011293849F, 0.00444569858F,
      0.00249999994F, 0.00140585331F, 0.000790569466F, 0.000444569858F, 0.000250000012F, 0.000140585325F,
      7.90569466e-05F, 4.44569851e-05F}},
    {"no original",
     "{'qk_rope_head_dim':32,'qk_nope_head_dim':64,'max_position_embeddings':4096,'rope_parameters':{'rope_type':'yarn'"
     ",'rope_theta':10000.0,'factor':4.0,'beta_fast':null,'mscale':0}}",
     0.102062076F,
     1.13862944F,
     16,
     {1.0F, 0.562341332F, 0.316227764F, 0.177827939F, 0.100000001F, 0.0562341288F, 0.0282346234F, 0.0139721958F,
      0.00678571407F, 0.00321337907F, 0.00146820047F, 0.00063509983F, 0.000250000012F, 0.000140585325F, 7.90569466e-05F,
      4.44569851e-05F}},
};

static int close_to(float got, float want)
{
    return fabsf(got - want) <= 2.5e-7F * fabsf(want); // two steps of float32
}

static void rope_numbers_are_those_of_transformers(struct harness *t)
{
    for (size_t i = 0; i < sizeof rope_cases / sizeof rope_cases[0]; i++) {
        const struct rope_case *c = &rope_cases[i];
        struct shape shape;
        struct moe_err err = {0};
        if (!CHECK_EQ(t, read_changed(c->changes, &shape, &err), MOE_OK)) {
            printf("    %s: %s\n", c->name, err.text);
            continue;
        }
        float inv_freq[32];
        CHECK_EQ(t, shape.qk_rope_head_dim, 2 * c->n);
        shape_inv_freq(&shape, inv_freq);
        for (int j = 0; j < c->n; j++)
            if (!CHECK(t, close_to(inv_freq[j], c->inv_freq[j])))
                printf("    %s, pair %d: got %.9g, want %.9g\n", c->name, j, (double)inv_freq[j],
                       (double)c->inv_freq[j]);
        if (!CHECK(t, close_to(shape.softmax_scale, c->softmax_scale) && close_to(shape.rope_scale, c->rope_scale)))
            printf("    %s: got scales %.9g, %.9g\n", c->name, (double)shape.softmax_scale, (double)shape.rope_scale);
    }
}

static void fields_land_where_they_belong(struct harness *t)
{
    struct shape s;
    CHECK_EQ(t, read_changed("{}", &s, NULL), MOE_OK);
    CHECK_STR(t, s.model_type, "deepseek_v3");
    CHECK_EQ(t, s.vocab_size, 300);
    CHECK_EQ(t, s.hidden_size, 160);
    CHECK_EQ(t, s.n_layers, 3);
    CHECK_EQ(t, s.n_heads, 5);
    CHECK_EQ(t, s.q_lora_rank, 96);
    CHECK_EQ(t, s.kv_lora_rank, 64);
    CHECK_EQ(t, s.qk_nope_head_dim, 24);
    CHECK_EQ(t, s.qk_rope_head_dim, 8);
    CHECK_EQ(t, s.v_head_dim, 32);
    CHECK_EQ(t, s.intermediate_size, 256);
    CHECK_EQ(t, s.moe_intermediate_size, 64);
    CHECK_EQ(t, s.n_routed_experts, 16);
    CHECK_EQ(t, s.n_shared_experts, 1);
    CHECK_EQ(t, s.top_k, 4);
    CHECK_EQ(t, s.n_group, 4);
    CHECK_EQ(t, s.topk_group, 2);
    CHECK_EQ(t, s.first_k_dense_replace, 1);
    CHECK_EQ(t, s.max_position_embeddings, 512);
    CHECK(t, s.rms_norm_eps == 1e-5F && s.latent_norm_eps == 1e-6F && s.routed_scaling_factor == 2.5F);
    CHECK(t, s.norm_topk_prob && !s.tie_word_embeddings && s.rope_interleave);
    CHECK(t, s.rope_type == ROPE_DEFAULT && s.rope_theta == 10000);
    CHECK_EQ(t, s.bos_token_id, 1);
    CHECK_EQ(t, s.n_eos, 2);
    CHECK_EQ(t, s.eos_token_ids[1], 3);
}

static void absent_fields_take_the_defaults_of_the_class(struct harness *t)
{
    struct shape s;
    struct json_object *config = parsed("{'model_type':'deepseek_v3','kv_lora_rank':512}");
    CHECK_EQ(t, shape_read(config, "config.json", &s, NULL), MOE_OK);
    json_object_put(config);
    CHECK_EQ(t, s.hidden_size, 7168);
    CHECK_EQ(t, s.n_layers, 61);
    CHECK_EQ(t, s.q_lora_rank, 1536);
    CHECK_EQ(t, s.n_routed_experts, 256);
    CHECK_EQ(t, s.first_k_dense_replace, 3);
    CHECK_EQ(t, s.bos_token_id, 0);
    CHECK_EQ(t, s.n_eos, 1);
    CHECK_EQ(t, s.eos_token_ids[0], 1);
    CHECK(t, s.rms_norm_eps == 1e-6F && s.norm_topk_prob && s.rope_interleave && !s.tie_word_embeddings);
}

static void null_means_none(struct harness *t)
{
    struct shape s;
    CHECK_EQ(t,
             read_changed("{'q_lora_rank':null,'bos_token_id':null,'eos_token_id':null,'rope_scaling':null}", &s, NULL),
             MOE_OK);
    CHECK_EQ(t, s.q_lora_rank, 0);
    CHECK_EQ(t, read_changed("{'q_lora_rank':32}", &s, NULL), MOE_OK); // and one has 32 at least
    CHECK_EQ(t, s.q_lora_rank, 32);
    CHECK_EQ(t, read_changed("{'q_lora_rank':null,'bos_token_id':null,'eos_token_id':null}", &s, NULL), MOE_OK);
    CHECK_EQ(t, s.bos_token_id, -1);
    CHECK_EQ(t, s.n_eos, 0);
}

// Parameters and scales as transformers 5.17.0 has them for the class of each model (kimi_k2 and kimi_k25's text model:
// DeepseekV3), from models made on its meta device.
static const struct real_model {
    const char *file;
    uint64_t total, active;
    double softmax_scale;
    uint32_t n_layers, first_dense, n_experts, n_shared, top_k, n_group, topk_group, q_lora_rank;
    enum router_scoring scoring;
    enum topk_method method;
    double routed_scaling_factor;
} real_models[] = {
    {"deepseek-v2-lite", 15706484224, 2451435008, 0.1147213867929261, 27, 1, 64, 2, 6, 1, 1, 0, ROUTER_SOFTMAX,
     TOPK_GREEDY, 1.0},
    {"deepseek-v2", 235741434880, 20851512320, 0.1147213867929261, 60, 1, 160, 2, 6, 8, 3, 1536, ROUTER_SOFTMAX,
     TOPK_GROUP_LIMITED, 16.0},
    {"deepseek-v2.5", 235741434880, 20851512320, 0.1352337788608801, 60, 1, 160, 2, 6, 8, 3, 1536, ROUTER_SOFTMAX,
     TOPK_GROUP_LIMITED, 16.0},
    {"deepseek-v3", 671026404352, 36625603584, 0.1352337788608801, 61, 3, 256, 1, 8, 8, 4, 1536, ROUTER_SIGMOID,
     TOPK_NOAUX, 2.5},
    {"moonlight", 15960108544, 2579230208, 0.07216878364870322, 27, 1, 64, 2, 6, 1, 1, 0, ROUTER_SIGMOID, TOPK_NOAUX,
     2.446},
    {"kimi-k2", 1026408209408, 31687072768, 0.13086079996295005, 61, 1, 384, 1, 8, 1, 1, 1536, ROUTER_SIGMOID,
     TOPK_NOAUX, 2.827},
    {"kimi-k2-thinking", 1026408209408, 31687072768, 0.14467962580268923, 61, 1, 384, 1, 8, 1, 1, 1536, ROUTER_SIGMOID,
     TOPK_NOAUX, 2.827},
    {"kimi-k2.5", 1026408209408, 31687072768, 0.14467962580268923, 61, 1, 384, 1, 8, 1, 1, 1536, ROUTER_SIGMOID,
     TOPK_NOAUX, 2.827},
    {"glm-4.7-flash", 29943390976, 3579568896, 0.0625, 47, 1, 64, 1, 4, 1, 1, 768, ROUTER_SIGMOID, TOPK_NOAUX, 1.8},
    {"deepseek-v3.2", 671877929216, 37477128448, 0.1352337788608801, 61, 3, 256, 1, 8, 8, 4, 1536, ROUTER_SIGMOID,
     TOPK_NOAUX, 2.5},
    {"glm-5", 743911199232, 40833126912, 0.0625, 78, 3, 256, 1, 8, 1, 1, 2048, ROUTER_SIGMOID, TOPK_NOAUX, 2.5},
    {"glm-5.2", 743377000704, 40298928384, 0.0625, 78, 3, 256, 1, 8, 1, 1, 2048, ROUTER_SIGMOID, TOPK_NOAUX, 2.5},
    {"glm-5.3-flash", 313326799870, 16742321150, 0.0625, 45, 3, 288, 1, 8, 1, 1, 1536, ROUTER_SIGMOID, TOPK_NOAUX, 2.5},
    {"kimi-linear-48b-a3b", 49122675072, 3106965888, 0.07216878364870322, 27, 1, 256, 1, 8, 1, 1, 0, ROUTER_SIGMOID,
     TOPK_NOAUX, 2.446},
    // no class has it: counted from its tensors' shapes, 2.8 T and 104 B by its makers
    {"kimi-k3", 2779484393568, 104189530208, 0.07216878364870322, 93, 1, 896, 2, 16, 1, 1, 1536, ROUTER_SIGMOID,
     TOPK_NOAUX, 1.0},
    {"qwen3-next-80b-a3b", 79674391296, 3563764480, 0.0625, 48, 0, 512, 1, 10, 1, 1, 0, ROUTER_SOFTMAX, TOPK_GREEDY,
     1.0},
    {"qwen3.5-397b-a17b", 396346350336, 16331922176, 0.0625, 60, 0, 512, 1, 10, 1, 1, 0, ROUTER_SOFTMAX, TOPK_GREEDY,
     1.0},
    {"qwen3.6-35b-a3b", 34660610688, 2946429568, 0.0625, 40, 0, 256, 1, 8, 1, 1, 0, ROUTER_SOFTMAX, TOPK_GREEDY, 1.0},
};

static void the_real_models_are_what_they_are(struct harness *t)
{
    for (size_t i = 0; i < sizeof real_models / sizeof real_models[0]; i++) {
        const struct real_model *m = &real_models[i];
        char path[128];
        struct shape s;
        struct moe_err err = {0};
        snprintf(path, sizeof path, "tests/bench/configs/%s.json", m->file);
        struct json_object *config = json_object_from_file(path);
        bool good = CHECK(t, config && shape_read(config, path, &s, &err) == MOE_OK);
        json_object_put(config);
        if (!good) {
            printf("    %s: %s\n", path, err.text);
            continue;
        }
        struct parameter_counts counts = shape_parameters(&s);
        good = CHECK_EQ(t, counts.total, m->total) & CHECK_EQ(t, counts.active, m->active);
        good &= CHECK(t, close_to(s.softmax_scale, (float)m->softmax_scale) && s.rope_scale == 1.0F);
        good &= CHECK(t, s.n_layers == m->n_layers && s.first_k_dense_replace == m->first_dense);
        good &= CHECK(t, s.n_routed_experts == m->n_experts && s.n_shared_experts == m->n_shared);
        good &= CHECK(t, s.top_k == m->top_k && s.n_group == m->n_group && s.topk_group == m->topk_group);
        good &= CHECK(t, s.q_lora_rank == m->q_lora_rank && s.scoring == m->scoring && s.topk_method == m->method);
        good &= CHECK(t, s.routed_scaling_factor == (float)m->routed_scaling_factor);
        bool qwen = s.norms_from_one;
        float latent = qwen ? 0 : s.hyper.n_streams ? s.rms_norm_eps : 1e-6F;
        good &= CHECK(t, s.rope_interleave != qwen && s.latent_norm_eps == latent);
        good &= CHECK(t, s.has_correction_bias == (m->scoring == ROUTER_SIGMOID));
        good &= CHECK(t, s.norm_topk_prob == (qwen || m->scoring == ROUTER_SIGMOID) && !s.tie_word_embeddings);
        if (!good)
            printf("    %s\n", path);
    }
}

static void each_class_has_its_own_defaults(struct harness *t)
{
    static const struct {
        const char *config;
        uint32_t vocab, hidden, layers, dense, experts, shared, top_k, n_group, topk_group, q_lora, length, nope, v,
            bos, eos;
        float eps, factor;
    } cases[] = {
        {"{'model_type':'deepseek_v2','num_experts_per_tok':6,'moe_intermediate_size':1408}", 102400, 4096, 32, 0, 64,
         2, 6, 1, 1, 1536, 2048, 128, 128, 1, 2, 1e-6F, 1.0F},
        {"{'model_type':'deepseek_v3'}", 129280, 7168, 61, 3, 256, 1, 8, 8, 4, 1536, 4096, 128, 128, 0, 1, 1e-6F, 2.5F},
        {"{'model_type':'kimi_k2'}", 129280, 7168, 61, 3, 256, 1, 8, 8, 4, 1536, 4096, 128, 128, 0, 1, 1e-6F, 2.5F},
        {"{'model_type':'kimi_k25','text_config':{}}", 129280, 7168, 61, 3, 256, 1, 8, 8, 4, 1536, 4096, 128, 128, 0, 1,
         1e-6F, 2.5F},
        {"{'model_type':'glm4_moe_lite'}", 154880, 2048, 47, 1, 64, 1, 4, 1, 1, 768, 202752, 192, 256, 0, 1, 1e-5F,
         1.8F},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct shape s;
        struct moe_err err = {0};
        struct json_object *config = parsed(cases[i].config);
        bool good = CHECK_EQ(t, shape_read(config, "config.json", &s, &err), MOE_OK);
        json_object_put(config);
        good = good && CHECK(t, s.vocab_size == cases[i].vocab && s.hidden_size == cases[i].hidden) &&
               CHECK(t, s.n_layers == cases[i].layers && s.first_k_dense_replace == cases[i].dense) &&
               CHECK(t, s.n_routed_experts == cases[i].experts && s.n_shared_experts == cases[i].shared) &&
               CHECK(t, s.top_k == cases[i].top_k && s.n_group == cases[i].n_group) &&
               CHECK(t, s.topk_group == cases[i].topk_group && s.q_lora_rank == cases[i].q_lora) &&
               CHECK(t, s.max_position_embeddings == cases[i].length && s.qk_nope_head_dim == cases[i].nope) &&
               CHECK(t, s.v_head_dim == cases[i].v && s.rms_norm_eps == cases[i].eps) &&
               CHECK(t, s.bos_token_id == (int32_t)cases[i].bos && s.eos_token_ids[0] == (int32_t)cases[i].eos) &&
               CHECK(t, s.routed_scaling_factor == cases[i].factor && s.kv_lora_rank == 512 && s.rope_theta == 10000) &&
               CHECK(t, s.n_heads >= 20 && s.intermediate_size >= 9216 && s.moe_intermediate_size >= 1024);
        if (!good)
            printf("    %s: %s\n", cases[i].config, err.text);
    }
}

static int read_text(const char *text, struct shape *s, struct moe_err *err)
{
    struct json_object *config = parsed(text);
    int code = shape_read(config, "config.json", s, err);
    json_object_put(config);
    return code;
}

// Of layers 0 to 7 by what keeps their tokens: g grouped attention, m MLA, d gated delta net, k KDA.
static void kinds_of(const struct shape *s, char out[9])
{
    memset(out, 0, 9);
    for (uint32_t i = 0; i < 8 && i < s->n_layers; i++)
        out[i] = "mgdkFS"[shape_layer_kind(s, i)];
}

#define NEXT "{'model_type':'qwen3_next'"
#define Q35  "{'model_type':'qwen3_5_moe','text_config':{'num_hidden_layers':8"
#define KIMI "{'model_type':'kimi_linear'"
#define V32  "{'model_type':'deepseek_v32'"
#define GLM5 "{'model_type':'glm_moe_dsa'"
#define G53  "{'model_type':'glm5_next','text_config':{'num_hidden_layers':8"

static void layers_of_several_kinds(struct harness *t)
{
    static const struct {
        const char *config, *kinds;
        uint32_t rotary_dim, frequencies, shared;
    } cases[] = {
        {NEXT "}", "dddgdddg", 64, 32, 512},
        {NEXT ",'num_hidden_layers':5,'full_attention_interval':2,'partial_rotary_factor':0.5,'head_dim':64}", "dgdgd",
         32, 16, 512},
        {NEXT ",'num_hidden_layers':2,'layer_types':['full_attention','linear_attention'],"
              "'shared_expert_intermediate_size':96}",
         "gd", 64, 32, 96},
        {Q35 "}}", "dddgdddg", 64, 32, 512},
        {Q35 ",'rope_parameters':{'partial_rotary_factor':0.125}}}", "dddgdddg", 32, 16, 512},
        {"{'model_type':'qwen3_5_moe_text','num_hidden_layers':4}", "dddg", 64, 32, 512},
        {KIMI "}", "kkkkmkkk", 0, 32, 1024},
        {KIMI ",'num_hidden_layers':4,'num_shared_experts':2,'linear_attn_config':{'head_dim':64,'num_heads':3,"
              "'full_attn_layers':[2,4],'kda_layers':[3,1]}}",
         "kmkm", 0, 32, 2048},
        {KIMI ",'num_hidden_layers':2,'layer_types':['full_attention','linear_attention']}", "mk", 0, 32, 1024},
        {V32 ",'moe_intermediate_size':96}", "FFFFFFFF", 64, 32, 96},
        {GLM5 ",'moe_intermediate_size':96}", "FFFFFFFF", 64, 32, 96},
        {GLM5 ",'index_topk_freq':4,'index_skip_topk_offset':3,'moe_intermediate_size':96}", "FFFSSSFS", 64, 32, 96},
        {GLM5 ",'index_topk_freq':2,'moe_intermediate_size':96}", "FFSFSFSF", 64, 32, 96},
        {GLM5 ",'index_topk_freq':0,'moe_intermediate_size':96}", "FFFFFFFF", 64, 32, 96},
        {GLM5 ",'num_hidden_layers':4,'index_topk_freq':4,'indexer_types':['full','shared','full','shared'],'moe_"
              "intermediate_size':96}",
         "FSFS", 64, 32, 96},
        {GLM5 ",'num_hidden_layers':4,'index_topk_freq':4,'index_topk_pattern':'FFSS','moe_intermediate_size':96}",
         "FFSS", 64, 32, 96},
        {GLM5 ",'num_hidden_layers':4,'index_topk_pattern':['full','full','shared','full'],'moe_intermediate_size':96}",
         "FFSF", 64, 32, 96},
        {G53 "}}", "kkkFkkkF", 0, 0, 2048},
        {"{'model_type':'glm5_next_text','num_hidden_layers':4,'layer_types':['full_attention','linear_attention',"
         "'deepseek_sparse_attention','indexed_attention'],'moe_intermediate_size':96,"
         "'linear_attn_config':{'kda_layers':[0],'full_attn_layers':[1]}}",
         "FkFF", 0, 0, 96},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct shape s;
        struct moe_err err = {0};
        char kinds[9];
        if (!CHECK_EQ(t, read_text(cases[i].config, &s, &err), MOE_OK)) {
            printf("    %s: %s\n", cases[i].config, err.text);
            continue;
        }
        kinds_of(&s, kinds);
        if (!CHECK(t, strcmp(kinds, cases[i].kinds) == 0 && s.rotary_dim == cases[i].rotary_dim &&
                          shape_frequencies(&s) == cases[i].frequencies &&
                          s.shared_intermediate_size == cases[i].shared))
            printf("    %s: %s, %u, %u, %u\n", cases[i].config, kinds, s.rotary_dim, shape_frequencies(&s),
                   s.shared_intermediate_size);
        float inv_freq[64];
        shape_inv_freq(&s, inv_freq);
        uint32_t n_shared = s.shared_intermediate_size == 2048 && !s.hyper.n_streams ? 2 : 1;
        CHECK(t, (s.rotary_dim == 0 || inv_freq[0] > 0) && s.n_shared_experts == n_shared);
        CHECK(t, s.rotary_dim > 0 || !shape_frequencies(&s) || inv_freq[0] == 0);
    }
}

static void what_qwen_and_kimi_linear_are(struct harness *t)
{
    struct shape s;
    CHECK_EQ(t, read_text(NEXT "}", &s, NULL), MOE_OK);
    CHECK(t, s.linear.n_key_heads == 16 && s.linear.n_value_heads == 32 && s.linear.conv_kernel == 4);
    CHECK(t, s.linear.key_head_dim == 128 && s.linear.value_head_dim == 128 && !s.linear.tiled);
    CHECK(t, s.n_kv_heads == 2 && s.head_dim == 256 && s.top_k == 10 && s.n_routed_experts == 512);
    CHECK(t, s.has_shared_gate && s.norms_from_one && s.norm_topk_prob && !s.has_correction_bias);
    CHECK(t, s.softmax_scale == 0.0625F && s.rope_scale == 1 && !s.rope_interleave && s.n_eos == 0);
    CHECK(t, s.bos_token_id == -1 && s.rope_theta == 10000);
    CHECK_EQ(t, read_text(NEXT ",'norm_topk_prob':false}", &s, NULL), MOE_OK);
    CHECK(t, !s.norm_topk_prob);
    CHECK_EQ(t, read_text(Q35 ",'tie_word_embeddings':true},'tie_word_embeddings':false}", &s, NULL), MOE_OK);
    CHECK(t, !s.tie_word_embeddings && strcmp(s.model_type, "qwen3_5_moe") == 0 && s.vocab_size == 248320);
    CHECK_EQ(t,
             read_text(Q35 ",'rope_parameters':{'rope_type':'yarn','factor':4,"
                           "'original_max_position_embeddings':262144}}}",
                       &s, NULL),
             MOE_OK); // the longer rope of these models turns more, and scales nothing but cos and sin
    CHECK(t, s.softmax_scale == 0.0625F && close_to(s.rope_scale, 1.13862944F));
    CHECK_EQ(t, read_text(KIMI "}", &s, NULL), MOE_OK);
    CHECK(t, s.linear.n_key_heads == 32 && s.linear.n_value_heads == 32 && s.linear.key_head_dim == 128);
    CHECK(t, s.q_lora_rank == 0 && s.n_group == 1 && s.has_correction_bias && !s.has_shared_gate && !s.norms_from_one);
    CHECK(t, s.bos_token_id == 163584 && s.eos_token_ids[0] == 163586 && s.rms_norm_eps == 1e-5F);
    CHECK(t, s.latent_norm_eps == 1e-6F && s.routed_scaling_factor == 2.446F && s.norm_topk_prob);
    CHECK_EQ(t,
             read_text(KIMI ",'num_experts':16,'num_experts_per_token':3,'model_max_length':99,'moe_renormalize':false,"
                            "'num_expert_group':4,'topk_group':2,'head_dim':72}",
                       &s, NULL),
             MOE_OK);
    CHECK(t, s.n_routed_experts == 16 && s.top_k == 3 && s.max_position_embeddings == 99 && !s.norm_topk_prob);
    CHECK(t, s.n_group == 4 && s.topk_group == 2);
}

static void what_kimi_k3_has_beyond(struct harness *t)
{
    struct shape s;
    CHECK_EQ(t, read_text(KIMI "}", &s, NULL), MOE_OK);
    CHECK(t, !s.bank_every && !s.latent_size && s.situ_beta == 0 && s.swiglu_limit == 0 && !s.gated_latents);
    CHECK(t, s.linear.bound == 0 && !s.linear.full_gate && shape_expert_size(&s) == s.hidden_size);
    struct json_object *config = json_object_from_file("tests/bench/configs/kimi-k3.json");
    CHECK_EQ(t, shape_read(config, "kimi-k3.json", &s, NULL), MOE_OK);
    json_object_put(config);
    CHECK(t, strcmp(s.model_type, "kimi_k3") == 0 && s.bank_every == 12 && s.latent_size == 3584);
    CHECK(t, shape_expert_size(&s) == 3584 && s.shared_intermediate_size == 6144 && s.intermediate_size == 33792);
    CHECK(t, s.situ_beta == 4 && s.swiglu_limit == 25 && s.gated_latents && s.linear.bound == -5 && s.linear.full_gate);
    CHECK(t, s.latent_norm_eps == 1e-6F && s.rms_norm_eps == 1e-5F && s.rotary_dim == 0 && s.bos_token_id == 163584);
    CHECK(t, shape_layer_kind(&s, 2) == LAYER_KDA && shape_layer_kind(&s, 3) == LAYER_MLA);
    CHECK(t, shape_layer_kind(&s, 91) == LAYER_MLA && shape_layer_kind(&s, 92) == LAYER_MLA);
}

static void what_chooses_positions(struct harness *t)
{
    struct shape s;
    CHECK_EQ(t,
             read_text(V32 ",'layer_types':['deepseek_sparse_attention','indexed_attention'],'num_hidden_layers':2,"
                           "'mlp_layer_types':['dense','sparse'],'first_k_dense_replace':1}",
                       &s, NULL),
             MOE_OK);
    CHECK(t, s.indexer.n_heads == 64 && s.indexer.head_dim == 128 && s.indexer.top_k == 2048 && !s.indexer.interleaved);
    CHECK(t, s.n_heads == 128 && s.q_lora_rank == 1536 && s.n_group == 8 && s.topk_group == 4 && s.rope_interleave);
    CHECK(t, s.rms_norm_eps == 1e-6F && s.latent_norm_eps == 1e-6F && s.has_correction_bias && s.n_layers == 2);
    CHECK_EQ(t, read_text(GLM5 ",'head_dim':192,'index_topk':7,'indexer_rope_interleave':true}", &s, NULL), MOE_OK);
    CHECK(t, s.indexer.n_heads == 32 && s.indexer.head_dim == 128 && s.indexer.top_k == 7 && s.indexer.interleaved);
    CHECK(t, s.n_heads == 64 && s.q_lora_rank == 2048 && s.n_group == 1 && s.topk_group == 1 && s.v_head_dim == 256);
    CHECK(t, s.rms_norm_eps == 1e-5F && s.latent_norm_eps == 1e-6F && s.softmax_scale == 0.0625F);
    CHECK_EQ(t, read_text("{'model_type':'deepseek_v3'}", &s, NULL), MOE_OK);
    CHECK(t, !s.indexer.n_heads && !s.indexer.top_k);
}

// Streams, pools, bounds and limits of GLM-5.3, where the class takes them from.
static void what_glm5_next_is(struct harness *t)
{
    struct shape s;
    CHECK_EQ(t, read_text("{'model_type':'glm5_next'}", &s, NULL), MOE_OK);
    CHECK(t, s.n_layers == 45 && s.hidden_size == 4096 && s.n_heads == 64 && s.qk_nope_head_dim == 256);
    CHECK(t, s.qk_rope_head_dim == 0 && s.v_head_dim == 256 && s.q_lora_rank == 1536 && s.n_routed_experts == 288);
    CHECK(t, s.intermediate_size == 12288 && s.vocab_size == 154880 && s.max_position_embeddings == 1048576);
    CHECK(t, s.first_k_dense_replace == 3 && s.bos_token_id == -1 && s.n_eos == 0 && s.softmax_scale == 0.0625F);
    CHECK(t, s.rms_norm_eps == 1e-5F && s.latent_norm_eps == 1e-5F && s.routed_scaling_factor == 2.5F);
    CHECK(t, s.linear.n_key_heads == 64 && s.linear.n_value_heads == 64 && s.linear.key_head_dim == 128);
    CHECK(t, s.linear.bound == -5 && s.linear.value_head_dim == 128 && s.swiglu_limit == 10);
    CHECK(t, s.indexer.n_heads == 32 && s.indexer.head_dim == 128 && s.indexer.top_k == 2048 && s.indexer.pool == 16);
    CHECK(t, s.hyper.n_streams == 4 && s.hyper.iterations == 20 && s.hyper.eps == 1e-6F);
    CHECK_EQ(t,
             read_text(G53
                       ",'mlp_layer_types':['dense','sparse','sparse','sparse','sparse','sparse','sparse','sparse'],"
                       "'index_kpool':4,'swiglu_limit':7.5,'hc_sinkhorn_iters':3,'hc_eps':1e-5,'linear_num_heads':3,"
                       "'linear_attn_config':{'head_dim':64,'gate_lower_bound':-2.5},'tie_word_embeddings':true},"
                       "'tie_word_embeddings':false}",
                       &s, NULL),
             MOE_OK);
    CHECK(t, s.first_k_dense_replace == 1 && s.indexer.pool == 4 && s.swiglu_limit == 7.5F && s.hyper.iterations == 3);
    CHECK(t, s.linear.n_key_heads == 3 && s.linear.key_head_dim == 64 && s.linear.bound == -2.5F);
    CHECK(t, s.hyper.eps == 1e-5F && !s.tie_word_embeddings && strcmp(s.model_type, "glm5_next") == 0);
    static const struct {
        const char *config;
        float bound;
    } bounds[] = {
        {G53 ",'linear_lower_bound':null}}", 0},
        {G53 ",'linear_lower_bound':-3}}", -3},
        {G53 ",'linear_lower_bound':-3,'linear_attn_config':{'safe_gate':false}}}", -3},
        {G53 ",'linear_lower_bound':null,'linear_attn_config':{}}}", -5},
        {G53 ",'linear_attn_config':{'gate_lower_bound':null}}}", -5},
        {G53 ",'linear_attn_config':{'gate_lower_bound':null,'safe_gate':false}}}", 0},
    };
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
        if (CHECK_EQ(t, read_text(bounds[i].config, &s, NULL), MOE_OK) && !CHECK(t, s.linear.bound == bounds[i].bound))
            printf("    %s: %g\n", bounds[i].config, (double)s.linear.bound);
    CHECK_EQ(t, read_text(GLM5 "}", &s, NULL), MOE_OK);
    CHECK(t, s.indexer.pool == 1 && !s.hyper.n_streams && s.swiglu_limit == 0 && s.linear.bound == 0);
}

static void what_they_would_have_otherwise_is_refused(struct harness *t)
{
    static const struct {
        const char *config, *says;
    } cases[] = {
        {NEXT ",'attn_output_gate':false}", "config.attn_output_gate: is false"},
        {V32 ",'q_lora_rank':null}", "config.q_lora_rank: is null; the indexer of deepseek_v32"},
        {V32 ",'index_head_dim':100}", "config.index_head_dim: is 100; moechat computes multiples of 8"},
        {V32 ",'index_head_dim':136}", "config.index_head_dim: is 136"},
        {V32 ",'index_head_dim':32}", "config.index_head_dim: is 32, less than qk_rope_head_dim (64)"},
        {V32 ",'index_n_heads':0}", "config.index_n_heads: is 0"},
        {V32 ",'index_topk':0}", "config.index_topk: is 0"},
        {V32 ",'index_topk_freq':4}", "config.index_topk_freq: is 4"},
        {V32 ",'indexer_types':[]}", "config.indexer_types: is there; layers of deepseek_v32 share no indexers"},
        {V32 ",'indexer_rope_interleave':true}",
         "config.indexer_rope_interleave: is true; the indexer of deepseek_v32"},
        {V32 ",'rope_interleave':false}", "config.rope_interleave: is false; the rope of deepseek_v32"},
        {V32 ",'num_hidden_layers':4,'layer_types':['a','a','a','a']}", "config.layer_types: names layer 0 \"a\""},
        {GLM5 ",'indexer_rope_interleave':false}", "config.indexer_rope_interleave: is false"},
        {GLM5 ",'num_hidden_layers':4,'indexer_types':['shared','full','full','full']}",
         "config.indexer_types: makes layer 0 share an indexer"},
        {GLM5 ",'num_hidden_layers':4,'indexer_types':['full','half','full','full']}",
         "config.indexer_types: names layer 1 neither"},
        {GLM5 ",'num_hidden_layers':4,'indexer_types':['full']}", "config.indexer_types: has 1 entries"},
        {GLM5 ",'num_hidden_layers':4,'index_topk_pattern':'FFS'}", "config.index_topk_pattern: has 3 letters for 4"},
        {GLM5 ",'num_hidden_layers':4,'index_topk_pattern':'FFSX'}", "config.index_topk_pattern: names layer 3"},
        {GLM5 ",'index_topk_pattern':7}", "config.index_topk_pattern: is 7"},
        {NEXT ",'attention_bias':true}", "config.attention_bias: is true"},
        {NEXT ",'mlp_only_layers':[3]}", "config.mlp_only_layers: has 1 entries"},
        {NEXT ",'decoder_sparse_step':2}", "config.decoder_sparse_step: is 2"},
        {NEXT ",'linear_conv_kernel_dim':3}", "config.linear_conv_kernel_dim: is 3"},
        {NEXT ",'linear_num_key_heads':5}", "config.linear_num_key_heads: is 5; it must divide"},
        {NEXT ",'linear_key_head_dim':256}", "config.linear_key_head_dim: is 256"},
        {NEXT ",'num_key_value_heads':3}", "config.num_key_value_heads: is 3; it must divide"},
        {NEXT ",'head_dim':100}", "config.head_dim: is 100; moechat computes multiples of 8"},
        {NEXT ",'partial_rotary_factor':0.005}", "partial_rotary_factor: is 0.005: it makes the rope turn 1 of 256"},
        {NEXT ",'layer_types':['full_attention']}", "config.layer_types: has 1 entries"},
        {NEXT ",'num_hidden_layers':1,'layer_types':['sliding_attention']}",
         "config.layer_types: names layer 0 neither"},
        {NEXT ",'full_attention_interval':0}", "config.full_attention_interval: is 0"},
        {NEXT ",'num_experts':8,'num_experts_per_tok':9}", "config.num_experts_per_tok: is 9 of 8"},
        {Q35 ",'norm_topk_prob':false}}", "config.text_config.norm_topk_prob: is false"},
        {Q35 ",'model_type':'qwen3_next'}}", "config.text_config.model_type: is \"qwen3_next\""},
        {Q35 ",'rope_parameters':{'rope_type':'dynamic'}}}", "config.text_config.rope_parameters.rope_type"},
        {G53 ",'qk_rope_head_dim':64}}", "config.text_config.qk_rope_head_dim: is 64"},
        {G53 ",'q_lora_rank':null}}", "config.text_config.q_lora_rank: is null"},
        {G53 ",'hc_mult':2}}", "config.text_config.hc_mult: is 2"},
        {G53 ",'hc_sinkhorn_iters':0}}", "config.text_config.hc_sinkhorn_iters: is 0"},
        {G53 ",'index_kpool':1}}", "config.text_config.index_kpool: is 1; moechat computes pools of 2 and more"},
        {G53 ",'index_kpool':3}}", "config.text_config.index_kpool: is 3"},
        {G53 ",'index_topk':100}}", "config.text_config.index_topk: is 100; index_kpool (16) must divide it"},
        {G53 ",'index_kpool_always_select_tail':false}}", "index_kpool_always_select_tail: is false"},
        {G53 ",'indexer_types':['full','full','full','shared','full','full','full','full']}}",
         "config.text_config.indexer_types: names layer 3 \"shared\"; layers of glm5_next share no indexers"},
        {G53 ",'index_topk_pattern':'FFFFFFFF'}}", "config.text_config.index_topk_pattern: is there"},
        {G53 ",'index_topk_freq':4}}", "config.text_config.index_topk_freq: is 4"},
        {G53 ",'layer_types':['linear_attention','b','c','d','e','f','g','h']}}", "names layer 1 \"b\", neither"},
        {G53 ",'swiglu_limit':0}}", "config.text_config.swiglu_limit: is 0"},
        {G53 ",'linear_lower_bound':5}}", "config.text_config.linear_lower_bound: is 5"},
        {G53 ",'linear_attn_config':{'short_conv_kernel_size':3}}}",
         "config.text_config.linear_attn_config.short_conv_kernel_size: is 3"},
        {G53 ",'linear_attn_config':[]}}", "config.text_config.linear_attn_config"},
        {G53 ",'mlp_layer_types':['dense']}}", "config.text_config.mlp_layer_types: has 1 entries"},
        {"{'model_type':'glm5_next','text_config':{'model_type':'qwen3_next'}}",
         "config.text_config.model_type: is \"qwen3_next\"; the text model of glm5_next is glm5_next_text or "
         "glm5_next"},
        {KIMI ",'mla_use_nope':false}", "config.mla_use_nope: is false"},
        {KIMI ",'moe_router_activation_func':'softmax'}", "config.moe_router_activation_func: is \"softmax\""},
        {KIMI ",'hidden_act':'gelu'}", "config.hidden_act: is \"gelu\"; moechat computes \"silu\" and \"situ\""},
        {KIMI ",'hidden_act':'situ'}", "config.activation_situ_beta: is missing"},
        {KIMI ",'hidden_act':'situ','activation_situ_beta':4}", "config.activation_situ_linear_beta: is missing"},
        {KIMI ",'routed_expert_hidden_size':64}", "config.latent_moe_use_norm: is not true"},
        {KIMI ",'routed_expert_hidden_size':33,'latent_moe_use_norm':true}", "not a multiple of 32"},
        {KIMI ",'attn_res_block_size':0}", "config.attn_res_block_size: is 0"},
        {KIMI ",'num_hidden_layers':99,'attn_res_block_size':3}", "of 99 layers more than 32 residuals would be kept"},
        {KIMI ",'linear_attn_config':{'gate_lower_bound':0}}", "gate_lower_bound: is 0"},
        {"{'model_type':'kimi_k3'}", "config.text_config: is missing"},
        {"{'model_type':'kimi_k3','text_config':{'model_type':'deepseek_v3'}}",
         "config.text_config.model_type: is \"deepseek_v3\"; the text model of kimi_k3 is kimi_k3 or kimi_linear"},
        {KIMI ",'linear_attn_config':{'full_attn_layers':[0]}}", "config.linear_attn_config.full_attn_layers: is 0"},
        {KIMI ",'linear_attn_config':{'full_attn_layers':[2],'kda_layers':[2]}}", "names layer 2, which is in a list"},
        {KIMI ",'linear_attn_config':{'full_attn_layers':[2],'kda_layers':[1]}}", "leave out layer 3"},
        {KIMI ",'num_hidden_layers':2,'linear_attn_config':{'full_attn_layers':[],'kda_layers':[1,2]}}",
         "config.num_hidden_layers: is 2, and all of these layers keep states"},
        {NEXT ",'num_hidden_layers':3}", "config.num_hidden_layers: is 3, and all of these layers keep states"},
        {KIMI ",'linear_attn_config':{'short_conv_kernel_size':2}}", "short_conv_kernel_size: is 2"},
        {KIMI ",'linear_attn_config':{'head_dim':48}}", "not a multiple of 32"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct shape s;
        struct moe_err err = {0};
        if (!CHECK(t, read_text(cases[i].config, &s, &err) != MOE_OK && strstr(err.text, cases[i].says)))
            printf("    %s: %s\n", cases[i].config, err.text);
    }
}

#define V2  "'model_type':'deepseek_v2','rope_interleave':'-','norm_topk_prob':false"
#define GLM "'model_type':'glm4_moe_lite'"
#define K25 "{'model_type':'kimi_k25','text_config':{'model_type':'kimi_k2'"

static void settings_of_the_other_classes(struct harness *t)
{
    struct shape s;
    // All groups, of two experts each, and all of those.
    CHECK_EQ(t, read_changed("{'n_group':8,'topk_group':8,'num_experts_per_tok':16}", &s, NULL), MOE_OK);
    CHECK(t, s.n_group == 8 && s.topk_group == 8 && s.top_k == 16);
    CHECK_EQ(t, read_text(Q35 ",'num_experts':8,'num_experts_per_tok':8}}", &s, NULL), MOE_OK);
    CHECK(t, read_text(Q35 ",'num_experts':8,'num_experts_per_tok':9}}", &s, NULL) == MOE_FORMAT);
    CHECK_EQ(t, read_changed("{" V2 ",'n_group':null,'topk_group':null}", &s, NULL), MOE_OK);
    CHECK(t, s.scoring == ROUTER_SOFTMAX && s.topk_method == TOPK_GREEDY && s.n_group == 1 && s.topk_group == 1);
    CHECK(t, !s.has_correction_bias && !s.norm_topk_prob && s.rope_interleave);
    CHECK_EQ(t, read_changed("{" V2 ",'topk_method':'greedy'}", &s, NULL), MOE_OK); // groups are not looked at
    CHECK(t, s.topk_method == TOPK_GREEDY && s.n_group == 1);
    CHECK_EQ(t, read_changed("{" V2 ",'topk_method':'group_limited_greedy','scoring_func':'softmax'}", &s, NULL),
             MOE_OK);
    CHECK(t, s.topk_method == TOPK_GROUP_LIMITED && s.n_group == 4 && s.topk_group == 2);
    CHECK_EQ(
        t, read_changed("{" GLM ",'mlp_layer_types':['dense','dense','sparse'],'first_k_dense_replace':'-'}", &s, NULL),
        MOE_OK);
    CHECK_EQ(t, s.first_k_dense_replace, 2);
    CHECK_EQ(
        t, read_changed("{" GLM ",'mlp_layer_types':['sparse','sparse','sparse'],'first_k_dense_replace':0}", &s, NULL),
        MOE_OK);
    CHECK_EQ(t, s.first_k_dense_replace, 0);
    CHECK_EQ(t, read_changed("{'n_shared_experts':0}", &s, NULL), MOE_OK);
    CHECK_EQ(t, s.n_shared_experts, 0);
    CHECK_EQ(t, read_changed("{'n_shared_experts':null}", &s, NULL), MOE_OK);
    CHECK_EQ(t, s.n_shared_experts, 0);
}

static void the_text_model_inside(struct harness *t)
{
    struct shape s;
    CHECK_EQ(t, read_text(K25 ",'hidden_size':64,'tie_word_embeddings':true}}", &s, NULL), MOE_OK);
    CHECK(t, s.hidden_size == 64 && s.tie_word_embeddings && strcmp(s.model_type, "kimi_k25") == 0);
    CHECK_EQ(t, read_text(K25 ",'tie_word_embeddings':true},'tie_word_embeddings':false}", &s, NULL), MOE_OK);
    CHECK(t, !s.tie_word_embeddings); // the outer config is the one that ties
    CHECK_EQ(t, read_text(K25 "},'tie_word_embeddings':true}", &s, NULL), MOE_OK);
    CHECK(t, s.tie_word_embeddings);
    CHECK_EQ(t, read_text(Q35 ",'tie_word_embeddings':true}}", &s, NULL), MOE_OK);
    CHECK(t, !s.tie_word_embeddings); // Qwen3_5MoeConfig and Glm5NextConfig have their own, false
    CHECK_EQ(t, read_text(Q35 "},'tie_word_embeddings':true}", &s, NULL), MOE_OK);
    CHECK(t, s.tie_word_embeddings);
    CHECK_EQ(t, read_text(G53 ",'tie_word_embeddings':true}}", &s, NULL), MOE_OK);
    CHECK(t, !s.tie_word_embeddings);
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"{'model_type':'kimi_k25'}", "config.text_config: is missing"},
        {"{'model_type':'kimi_k25','text_config':[]}", "config.text_config"},
        {"{'model_type':'kimi_k25','text_config':{'model_type':'llama'}}",
         "config.text_config.model_type: is \"llama\""},
        {K25 ",'rope_scaling':{'type':'linear'}}}", "config.text_config.rope_scaling.type"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct moe_err err = {0};
        if (!CHECK(t, read_text(cases[i].text, &s, &err) != MOE_OK && strstr(err.text, cases[i].says)))
            printf("    %s: %s\n", cases[i].text, err.text);
    }
}

static void what_we_cannot_compute_is_refused_by_name(struct harness *t)
{
    static const struct {
        const char *changes;
        enum moe_code code;
        const char *says;
    } cases[] = {
        {"{'model_type':'llama','kv_lora_rank':'-'}", MOE_UNSUPPORTED,
         "config.model_type: is \"llama\"; moechat speaks"},
        {"{'model_type':'deepseek_v4'}", MOE_UNSUPPORTED,
         "moechat speaks: deepseek_v2, deepseek_v3, kimi_k2, kimi_k25, glm4_moe_lite, kimi_linear, deepseek_v32, "
         "glm_moe_dsa, qwen3_next, qwen3_5_moe, qwen3_5_moe_text, kimi_k3, kimi_k3_text, glm5_next, glm5_next_text"},
        {"{'model_type':'-'}", MOE_FORMAT, "config.model_type: is missing"},
        {"{'model_type':7}", MOE_FORMAT, "config.model_type: is 7"},
        {"{'kv_lora_rank':null}", MOE_FORMAT, "config.kv_lora_rank: is null"},
        {"{'n_group':null}", MOE_FORMAT, "config.n_group: is null"},
        {"{'n_shared_experts':-1}", MOE_FORMAT, "config.n_shared_experts: is -1"},
        {"{'mlp_bias':true}", MOE_UNSUPPORTED, "config.mlp_bias: is true"},
        {"{'num_local_experts':8}", MOE_FORMAT, "config.num_local_experts: is 8"},
        {"{'num_experts':8}", MOE_FORMAT, "config.num_experts: is 8"},
        {"{'hidden_size':0}", MOE_FORMAT, "config.hidden_size: is 0"},
        {"{'hidden_size':-160}", MOE_FORMAT, "config.hidden_size: is -160"},
        {"{'hidden_size':18446744073709551616}", MOE_FORMAT, "config.hidden_size"},
        {"{'hidden_size':4294967456}", MOE_FORMAT, "config.hidden_size: is 4294967456"},
        {"{'hidden_size':160.0}", MOE_FORMAT, "config.hidden_size"},
        {"{'hidden_size':'160'}", MOE_FORMAT, "config.hidden_size: is \"160\""},
        {"{'hidden_size':null}", MOE_FORMAT, "config.hidden_size: is null"},
        {"{'hidden_size':[160]}", MOE_FORMAT, "config.hidden_size: is a list"},
        {"{'hidden_size':100}", MOE_UNSUPPORTED, "not a multiple of 32"},
        {"{'v_head_dim':24}", MOE_UNSUPPORTED, "config.v_head_dim"},
        {"{'q_lora_rank':100}", MOE_UNSUPPORTED, "config.q_lora_rank"},
        {"{'q_lora_rank':0}", MOE_FORMAT, "config.q_lora_rank"},
        {"{'qk_rope_head_dim':7}", MOE_FORMAT, "must be even"},
        {"{'n_group':3}", MOE_FORMAT, "config.n_group: is 3"},
        {"{'n_group':0}", MOE_FORMAT, "config.n_group: is 0"},
        {"{'n_group':16,'topk_group':8}", MOE_FORMAT, "groups of 2 or more"},
        {"{'topk_group':5}", MOE_FORMAT, "config.topk_group: is 5"},
        {"{'num_experts_per_tok':9}", MOE_FORMAT, "config.num_experts_per_tok: is 9"},
        {"{'num_experts_per_tok':17,'n_group':1,'topk_group':1}", MOE_FORMAT, "config.num_experts_per_tok: is 17"},
        {"{'n_routed_experts':1,'n_group':1,'topk_group':1,'num_experts_per_tok':1}", MOE_FORMAT, "n_routed_experts"},
        {"{'first_k_dense_replace':3}", MOE_UNSUPPORTED, "not a mixture of experts"},
        {"{'num_key_value_heads':1}", MOE_FORMAT, "config.num_key_value_heads: is 1"},
        {"{'head_dim':64}", MOE_FORMAT, "config.head_dim: is 64"},
        {"{'moe_layer_freq':2}", MOE_FORMAT, "config.moe_layer_freq: is 2"},
        {"{'qk_head_dim':7}", MOE_FORMAT, "config.qk_head_dim: is 7"},
        {"{'hidden_act':'gelu'}", MOE_UNSUPPORTED, "config.hidden_act: is \"gelu\""},
        {"{'scoring_func':'softmax'}", MOE_UNSUPPORTED, "config.scoring_func"},
        {"{'topk_method':'greedy'}", MOE_UNSUPPORTED, "config.topk_method"},
        {"{'attention_bias':true}", MOE_UNSUPPORTED, "config.attention_bias"},
        {"{'norm_topk_prob':1}", MOE_FORMAT, "config.norm_topk_prob: is 1"},
        {"{'rms_norm_eps':NaN}", MOE_FORMAT, "config.rms_norm_eps"},
        {"{'rms_norm_eps':1e999}", MOE_FORMAT, "config.rms_norm_eps"},
        {"{'rms_norm_eps':-1e-6}", MOE_FORMAT, "config.rms_norm_eps"},
        {"{'bos_token_id':300}", MOE_FORMAT, "config.bos_token_id: is 300"},
        {"{'eos_token_id':-1}", MOE_FORMAT, "config.eos_token_id: is -1"},
        {"{'eos_token_id':[1,300]}", MOE_FORMAT, "config.eos_token_id: is 300"},
        {"{'eos_token_id':[1,2,3,4,5,6,7,8,9]}", MOE_FORMAT, "config.eos_token_id: has 9 entries"},
        {"{'rope_scaling':7}", MOE_FORMAT, "config.rope_scaling: is 7"},
        {"{'rope_scaling':{'type':'linear','factor':2}}", MOE_UNSUPPORTED, "config.rope_scaling.type: is \"linear\""},
        {"{'rope_parameters':{'rope_type':'llama3'}}", MOE_UNSUPPORTED, "config.rope_parameters.rope_type"},
        {"{'rope_parameters':{'rope_type':'yarn'}}", MOE_FORMAT, "config.rope_parameters.factor: is missing"},
        {"{'rope_parameters':{'rope_type':'yarn','factor':0.5}}", MOE_FORMAT, "config.rope_parameters.factor"},
        {"{'rope_parameters':{'rope_theta':1}}", MOE_FORMAT, "config.rope_parameters.rope_theta"},
        {"{'rope_parameters':{'rope_theta':Infinity}}", MOE_FORMAT, "config.rope_parameters.rope_theta"},
        {"{'partial_rotary_factor':0.5}", MOE_FORMAT, "config.partial_rotary_factor"},
        {"{'rope_parameters':{'rope_type':'yarn','factor':4,'beta_fast':1,'beta_slow':2}}", MOE_FORMAT, "beta_slow"},
        {"{" V2 ",'num_experts_per_tok':'-'}", MOE_FORMAT, "config.num_experts_per_tok: is missing"},
        {"{" V2 ",'topk_method':'noaux_tc'}", MOE_UNSUPPORTED, "config.topk_method: is \"noaux_tc\""},
        {"{" V2 ",'topk_method':'group_limited_greedy','n_group':null}", MOE_FORMAT, "config.n_group: is null"},
        {"{" V2 ",'scoring_func':'sigmoid'}", MOE_UNSUPPORTED, "config.scoring_func"},
        {"{'model_type':'deepseek_v2','rope_interleave':'-'}", MOE_UNSUPPORTED, "config.norm_topk_prob: is true"},
        {"{'model_type':'deepseek_v2','norm_topk_prob':null,'rope_interleave':false}", MOE_UNSUPPORTED,
         "config.rope_interleave: is false"},
        {"{" GLM ",'topk_method':'greedy'}", MOE_UNSUPPORTED, "config.topk_method"},
        {"{" GLM ",'first_k_dense_replace':2}", MOE_FORMAT, "config.first_k_dense_replace: is 2"},
        {"{" GLM ",'mlp_layer_types':['dense','sparse']}", MOE_FORMAT, "config.mlp_layer_types: has 2 entries"},
        {"{" GLM ",'mlp_layer_types':['dense','sparse',7]}", MOE_FORMAT, "names layer 2 neither"},
        {"{" GLM ",'mlp_layer_types':['sparse','dense','sparse'],'first_k_dense_replace':'-'}", MOE_UNSUPPORTED,
         "dense layer 1 after a sparse one"},
        {"{" GLM ",'mlp_layer_types':['dense','dense','sparse']}", MOE_FORMAT, "begins with 2 dense layers"},
        {"{" GLM ",'mlp_layer_types':['dense','dense','dense'],'first_k_dense_replace':'-'}", MOE_UNSUPPORTED,
         "not a mixture of experts"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct shape shape;
        struct moe_err err = {0};
        int code = read_changed(cases[i].changes, &shape, &err);
        if (!CHECK(t, code == (int)cases[i].code && err.code == cases[i].code && strstr(err.text, cases[i].says) &&
                          strncmp(err.text, "config.json: ", 13) == 0))
            printf("    %s: code %d, \"%s\"\n", cases[i].changes, code, err.text);
    }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(rope_numbers_are_those_of_transformers),
        TEST(fields_land_where_they_belong),
        TEST(absent_fields_take_the_defaults_of_the_class),
        TEST(null_means_none),
        TEST(the_real_models_are_what_they_are),
        TEST(each_class_has_its_own_defaults),
        TEST(settings_of_the_other_classes),
        TEST(layers_of_several_kinds),
        TEST(what_qwen_and_kimi_linear_are),
        TEST(what_kimi_k3_has_beyond),
        TEST(what_chooses_positions),
        TEST(what_glm5_next_is),
        TEST(what_they_would_have_otherwise_is_refused),
        TEST(the_text_model_inside),
        TEST(what_we_cannot_compute_is_refused_by_name),
    };
    return HARNESS_RUN(tests, argc, argv);
}
