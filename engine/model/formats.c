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

// A token's launches that may go together, by the kinds that each has.
enum { MOST_SETS = 64, LAUNCH_MATRICES = 8 };

struct launches {
    struct {
        uint64_t kinds; // bit KIND_X of each
        unsigned n;
    } sets[MOST_SETS];
    unsigned n;
};

// Up to LAUNCH_MATRICES matrices, NULL behind the last. Plain ones go together with any.
static void add_launch(struct launches *launches, const struct args_matrix *const matrices[LAUNCH_MATRICES])
{
    uint64_t kinds = 0;
    unsigned i = 0;
    for (size_t k = 0; k < LAUNCH_MATRICES && matrices[k]; k++) {
        uint32_t kind = matrices[k]->kind;
        if (gpu_goes_together(matrices[k]))
            kinds |= UINT64_C(1) << kind;
        else if (kind != KIND_NONE && kind != KIND_F32 && kind != KIND_BF16)
            return;
    }
    while (i < launches->n && launches->sets[i].kinds != kinds)
        i++;
    if (!kinds || i == MOST_SETS)
        return;
    launches->sets[i].kinds = kinds;
    launches->sets[i].n++;
    launches->n += i == launches->n;
}

static void add_launches(struct launches *launches, const struct layer_weights *layer,
                         const struct expert_layout *experts)
{
    const struct mla_weights *mla = &layer->mla;
    const struct delta_weights *delta = &layer->delta;
    const struct args_matrix *const sets[][LAUNCH_MATRICES] = {
        {&experts->gate, &experts->up, &experts->down, &layer->gate.at, &layer->up.at, &layer->down.at},
        {&mla->q.at, &mla->q_a.at, &mla->q_b.at, &mla->kv_a.at, &mla->embed_q.at},
        {&mla->unembed_out.at, &mla->o.at},
        {&delta->qkv[0].at, &delta->z.at, &delta->beta.at, &delta->decay.at, &delta->out.at},
    };
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        add_launch(launches, sets[i]);
}

// A program could have more kinds, but its kernels have the registers that the neediest leaves to all: with three or
// four kinds tokens take longer than with two and the rest apart.
enum { MOST_TOGETHER = 2 };
_Static_assert((int)MOST_TOGETHER <= (int)MOST_TOKEN_KINDS, "they fit into a program");

// Those with which most launches go together.
static uint64_t choose_kinds(const struct launches *launches)
{
    uint64_t all = 0, chosen = 0;
    unsigned most = 0, fewest = 0;
    for (unsigned i = 0; i < launches->n; i++)
        all |= launches->sets[i].kinds;
    for (uint64_t some = all; some; some = (some - 1) & all) {
        unsigned n = 0, n_kinds = (unsigned)__builtin_popcountll(some);
        for (unsigned i = 0; i < launches->n; i++)
            n += launches->sets[i].kinds & ~some ? 0 : launches->sets[i].n;
        if (n_kinds <= MOST_TOGETHER && (n > most || (n == most && n_kinds < fewest))) {
            most = n;
            fewest = n_kinds;
            chosen = some;
        }
    }
    return chosen;
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
    struct launches launches = {.n = 0};
    formats->n = 0;
    add(formats, &weights->embed.at, USE_ROWS);
    add(formats, &weights->head.at, USE_PRODUCTS);
    for (uint32_t i = 0; i < package->shape.n_layers; i++) {
        add_layer(formats, &weights->layers[i]);
        if (package->layers[i].n_spans == 0)
            continue;
        const struct expert_layout *experts = package_experts(package, i);
        add_launches(&launches, &weights->layers[i], experts);
        add(formats, &experts->gate, USE_EXPERTS);
        add(formats, &experts->up, USE_EXPERTS);
        add(formats, &experts->down, USE_EXPERTS);
    }
    uint64_t together = choose_kinds(&launches);
    for (unsigned i = 0; i < formats->n; i++)
        if (together >> formats->items[i].kind & 1)
            formats->items[i].uses |= USE_TOKEN;
}
