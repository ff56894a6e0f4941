// SPDX-License-Identifier: GPL-3.0-or-later
// Each field of each family's config.json, gone, of another type, at and beside its edges: what is let in, with every
// number that is read or derived, and what is refused in which words.
#include "engine/base/fields.h"
#include "engine/files/shape.h"
#include "tests/sweep_rig.h"

// All that a shape holds as text: numbers as they are, derived ones to five digits, for they are rounded.
static uint64_t shape_digest(const struct shape *s)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (!out)
        exit(70);
    fprintf(out, "%s %u %u %u %u %u %u %u %u %u %d %u %u|", s->model_type, s->vocab_size, s->hidden_size, s->n_layers,
            s->n_heads, s->q_lora_rank, s->kv_lora_rank, s->qk_nope_head_dim, s->qk_rope_head_dim, s->v_head_dim,
            s->gated_latents, s->n_kv_heads, s->head_dim);
    fprintf(out, "%u %u %u %u %u %.5g %d %d|", s->linear.n_key_heads, s->linear.n_value_heads, s->linear.key_head_dim,
            s->linear.value_head_dim, s->linear.conv_kernel, s->linear.bound, s->linear.full_gate, s->linear.tiled);
    fprintf(out, "%u %u %u %u %d %u %u %.5g %u|", s->indexer.n_heads, s->indexer.head_dim, s->indexer.top_k,
            s->indexer.pool, s->indexer.interleaved, s->hyper.n_streams, s->hyper.iterations, s->hyper.eps,
            s->bank_every);
    for (uint32_t i = 0; i < s->n_layers; i++)
        fputc('0' + s->layer_kinds[i], out);
    fprintf(out, "|%u %u %u %u %u %u %u %d %d %d %u %u %d %u %u|", s->intermediate_size, s->moe_intermediate_size,
            s->n_routed_experts, s->n_shared_experts, s->top_k, s->shared_intermediate_size, s->latent_size,
            s->has_shared_gate, s->scoring, s->topk_method, s->n_group, s->topk_group, s->has_correction_bias,
            s->first_k_dense_replace, s->max_position_embeddings);
    fprintf(out, "%.5g %.5g %.5g %.5g %.5g %d %d %d %d %u %d|", s->rms_norm_eps, s->routed_scaling_factor, s->situ_beta,
            s->swiglu_limit, s->latent_norm_eps, s->norm_topk_prob, s->tie_word_embeddings, s->norms_from_one,
            s->rope_interleave, s->rotary_dim, s->rope_type);
    fprintf(out, "%.5g %.5g %.5g %.5g %.5g %.5g %.5g %d %u|", s->rope_theta, s->factor, s->beta_fast, s->beta_slow,
            s->mscale, s->mscale_all_dim, s->attention_factor, s->truncate, s->original_max_position_embeddings);
    fprintf(out, "%d %u %.5g %.5g", s->bos_token_id, s->n_eos, s->softmax_scale, s->rope_scale);
    for (uint32_t i = 0; i < s->n_eos; i++)
        fprintf(out, " %d", s->eos_token_ids[i]);
    fclose(out);
    uint64_t digest = sweep_digest(0, text, length);
    free(text);
    return digest;
}

static void ask_shape(void *context, const char *text, size_t length, char answer[SWEEP_ANSWER])
{
    (void)context;
    struct json_object *root = NULL;
    static struct shape shape; // large
    struct moe_err err = {.text = ""};
    int code = fields_parse(text, length, "config.json", &root, &err);
    if (!code)
        code = shape_read(root, "config.json", &shape, &err);
    json_object_put(root);
    if (code) {
        sweep_refused(answer, code, err.text + strlen("config.json: "));
        return;
    }
    struct parameter_counts counts = shape_parameters(&shape);
    uint32_t n = shape_frequencies(&shape);
    float *frequencies = calloc(n + 1, sizeof *frequencies);
    if (!frequencies)
        exit(70);
    shape_inv_freq(&shape, frequencies);
    int used = snprintf(answer, SWEEP_ANSWER, "%llu %llu %u", (unsigned long long)counts.active,
                        (unsigned long long)counts.total, n);
    for (uint32_t i = 0; i < n && used < 400; i++)
        used += snprintf(answer + used, SWEEP_ANSWER - (size_t)used, " %.4g", (double)frequencies[i]);
    uint64_t digest = sweep_digest(shape_digest(&shape), answer, (size_t)used);
    snprintf(answer, SWEEP_ANSWER, "#%08x", (unsigned)(digest ^ digest >> 32));
    free(frequencies);
}

static void fields_at_their_edges(struct harness *t)
{
    static const char *const families[] = {"ck-v2-lite",     "ck-v3-groups", "ck-k25",       "ck-glm",
                                           "ck-kimi-linear", "ck-kimi-k3",   "ck-qwen35moe", "ck-qwen3next",
                                           "ck-v32",         "ck-glm-list",  "ck-glm5-next"};
    struct sweep *s = sweep_begin(ask_shape, NULL);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        char path[128];
        size_t length;
        snprintf(path, sizeof path, "tests/golden/%s/checkpoint/config.json", families[i]);
        char *text = sweep_file(path, &length);
        if (CHECK(t, text != NULL))
            sweep_json(s, families[i], text, length);
        free(text);
    }
    sweep_end(t, s, "tests/unit/engine/files/data/shapes.txt");
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(fields_at_their_edges)};
    return HARNESS_RUN(tests, argc, argv);
}
