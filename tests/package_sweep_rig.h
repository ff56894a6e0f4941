// SPDX-License-Identifier: GPL-3.0-or-later
// An opened source of weights as one number, for sweeps: its tensors and where they lie, its experts' layouts and
// spans.
#ifndef MOECHAT_PACKAGE_SWEEP_RIG_H
#define MOECHAT_PACKAGE_SWEEP_RIG_H

#include <unistd.h>

#include "engine/walk/weights.h"
#include "tests/fuzz/place.h"
#include "tests/sweep_rig.h"

static inline void print_matrix(FILE *out, const struct args_matrix *m)
{
    fprintf(out, "%llu %llu %llu %u %u %u %u %u %u|", (unsigned long long)m->weight, (unsigned long long)m->scales,
            (unsigned long long)m->biases, m->in_dim, m->out_dim, m->kind, m->group_size, m->scale_type, m->factor);
}

static inline void print_experts(FILE *out, const struct package *p, uint32_t layer)
{
    const struct expert_layout *experts = package_experts(p, layer);
    print_matrix(out, &experts->gate);
    print_matrix(out, &experts->up);
    print_matrix(out, &experts->down);
    fprintf(out, "%llu;", (unsigned long long)experts->blob_bytes);
    for (uint32_t e = 0; e < p->shape.n_routed_experts; e += p->shape.n_routed_experts - 1) {
        struct expert_span spans[MAX_EXPERT_SPANS];
        uint32_t n = package_spans(p, layer, e, spans);
        for (uint32_t i = 0; i < n; i++)
            fprintf(out, "%u %llu %llu %llu %d|", spans[i].file, (unsigned long long)spans[i].offset,
                    (unsigned long long)spans[i].bytes, (unsigned long long)spans[i].at, spans[i].own_pages);
    }
    struct expert_part parts[MAX_EXPERT_PARTS];
    uint32_t n = package_parts(experts, parts);
    for (uint32_t i = 0; i < n; i++)
        fprintf(out, "%u %d %llu %llu|", parts[i].projection, parts[i].array, (unsigned long long)parts[i].offset,
                (unsigned long long)parts[i].bytes);
}

static inline void print_tensors(FILE *out, const struct checkpoint *c)
{
    for (size_t i = 0; i < c->count; i++) {
        const struct tensor *at = c->tensors[i].at;
        fprintf(out, "%s %s %u %d %u %llu %llu", c->tensors[i].name, at->name, c->tensors[i].shard, at->dtype,
                at->dtype == DTYPE_GGML ? at->ggml_type : 0, (unsigned long long)at->offset,
                (unsigned long long)at->bytes);
        for (uint32_t d = 0; d < at->n_dims; d++)
            fprintf(out, " %llu", (unsigned long long)at->dims[d]);
        fputc('\n', out);
    }
    fprintf(out, "%u %u %u %u %s %s|", c->vision.count, c->mtp.count, c->buffers.count, c->spare.count, c->mtp.example,
            c->spare.example);
    fputs(json_object_to_json_string_ext(c->config, JSON_C_TO_STRING_PLAIN), out);
}

static inline void print_facts(FILE *out, const struct moe_description *d)
{
    const uint64_t sizes[] = {d->parameters,   d->active_parameters, d->active_bytes,      d->resident_bytes,
                              d->expert_bytes, d->expert_reads,      d->all_experts_bytes, d->kv_row_bytes_f32,
                              d->state_bytes,  d->package_bytes,     d->weights_bytes,     d->n_layers,
                              d->n_moe_layers, d->n_routed_experts,  d->n_shared_experts,  d->top_k,
                              d->hidden_size,  d->n_heads,           d->vocab_size,        d->max_position_embeddings};
    fprintf(out, "%s|%s|%s|%s|%s|%s|%d %d %d", d->model_type, d->template_name, d->tokenizer_type, d->mixers, d->layout,
            d->left_out, d->vocabulary, d->package, d->runs);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        fprintf(out, " %llu", (unsigned long long)sizes[i]);
    for (size_t i = 0; i < MOE_GROUPS; i++)
        fprintf(out, "|%s %s %llu %llu", d->groups[i].name ? d->groups[i].name : "", d->groups[i].types,
                (unsigned long long)d->groups[i].weights, (unsigned long long)d->groups[i].bytes);
    fprintf(out, "|%.4g %s %d %llu", d->foreseen_bits, d->foreseen_from, d->foreseen_guess,
            (unsigned long long)d->declared_bytes);
}

static inline void print_description(FILE *out, const struct package *p)
{
    struct moe_description d;
    struct moe_err err = {.text = ""};
    int code = package_describe(p, &d, &err);
    fprintf(out, "%d %s", code, err.text);
    if (!code)
        print_facts(out, &d);
}

// What opening a model says. It is released.
static inline void ask_package(const char *path, char answer[SWEEP_ANSWER])
{
    static struct package package; // large
    struct moe_err err = {.text = ""};
    char *text = NULL;
    size_t length = 0;
    int code = weights_open_package(path, &package, &err);
    if (code) {
        const char *said = strncmp(err.text, place(), strlen(place())) == 0 ? err.text + strlen(place()) : err.text;
        sweep_refused(answer, code, said);
        return;
    }
    FILE *out = open_memstream(&text, &length);
    if (!out)
        exit(70);
    fprintf(out, "%d %u|", package.kind, package.n_files);
    if (package.layers)
        for (uint32_t layer = package.shape.first_k_dense_replace; layer < package.shape.n_layers; layer++)
            print_experts(out, &package, layer);
    if (package.checkpoint)
        print_tensors(out, package.checkpoint);
    print_description(out, &package);
    package_release(&package);
    fclose(out);
    uint64_t digest = sweep_digest(0, text, length);
    snprintf(answer, SWEEP_ANSWER, "#%08x", (unsigned)(digest ^ digest >> 32));
    free(text);
}

#endif
