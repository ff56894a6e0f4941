// SPDX-License-Identifier: GPL-3.0-or-later
// The kinds of a model's matrices, by the ops that take them.
#include "engine/model/formats.h"

static void add(struct formats *formats, const struct args_matrix *m, uint32_t uses)
{
    struct gpu_format f = gpu_format_of(m, uses);
    if (f.kind == KIND_NONE) // the model has no such matrix
        return;
    for (unsigned i = 0; i < formats->n; i++)
        if (formats->items[i].kind == f.kind && formats->items[i].scale_type == f.scale_type) {
            formats->items[i].uses |= uses;
            return;
        }
    if (formats->n < MOST_FORMATS)
        formats->items[formats->n++] = f;
}

// Where a token's ops may go together.
static void add_token(struct formats *formats, const struct layer_weights *layer)
{
    const struct mla_weights *mla = &layer->mla;
    const struct delta_weights *delta = &layer->delta;
    const struct matrix *const all[] = {&layer->gate,   &layer->up, &layer->down,  &mla->q,           &mla->q_a,
                                        &mla->q_b,      &mla->kv_a, &mla->embed_q, &mla->unembed_out, &mla->o,
                                        &delta->qkv[0], &delta->z,  &delta->beta,  &delta->decay,     &delta->out};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        add(formats, &all[i]->at, USE_TOKEN);
}

static void add_layer(struct formats *formats, const struct layer_weights *layer)
{
    const struct mla_weights *mla = &layer->mla;
    const struct gqa_weights *gqa = &layer->gqa;
    const struct delta_weights *delta = &layer->delta;
    const struct matrix *const products[] = {&mla->q,           &mla->q_a,
                                             &mla->q_b,         &mla->kv_a,
                                             &mla->o,           &layer->indexer.q_b,
                                             &layer->indexer.k, &layer->indexer.weights,
                                             &gqa->q,           &gqa->k,
                                             &gqa->v,           &gqa->o,
                                             &delta->qkv[0],    &delta->qkv[1],
                                             &delta->qkv[2],    &delta->inner[0],
                                             &delta->inner[1],  &delta->beta,
                                             &delta->decay,     &delta->z,
                                             &delta->out,       &layer->gate,
                                             &layer->up,        &layer->down,
                                             &layer->router,    &layer->shared_gate};
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        add(formats, &products[i]->at, USE_PRODUCTS);
    add(formats, &mla->kv_b.at, USE_HEADS | USE_KEYS);
    add(formats, &mla->embed_q.at, USE_HEADS);
    add(formats, &mla->unembed_out.at, USE_HEADS);
}

void formats_of(const struct package *package, const struct weights *weights, struct formats *formats)
{
    formats->n = 0;
    add(formats, &weights->embed.at, USE_ROWS);
    add(formats, &weights->head.at, USE_PRODUCTS);
    for (uint32_t i = 0; i < package->shape.n_layers; i++) {
        add_layer(formats, &weights->layers[i]);
        if (package->layers[i].n_spans == 0)
            continue;
        const struct expert_layout *experts = package_experts(package, i);
        add_token(formats, &weights->layers[i]);
        add(formats, &experts->gate, USE_EXPERTS | USE_TOKEN);
        add(formats, &experts->up, USE_EXPERTS | USE_TOKEN);
        add(formats, &experts->down, USE_EXPERTS | USE_TOKEN);
    }
}
