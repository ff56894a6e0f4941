// SPDX-License-Identifier: GPL-3.0-or-later
// Predictors, their scores, and when the one that acts is worth it.
#include "engine/experts/prefetch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"

// What `auto` has act: its prediction is there with the router's own choice, and right in most cases.
enum { AUTO_PREDICTOR = MOE_PREFETCH_ROUTER };

// Faster by less than this is chance.
static const double worth_it = 0.98;
// Experts missing a token: from so many on a trial is worth its while, below so many nothing is.
static const double try_from = 0.5, rest_below = 0.125;

const char *prefetch_name(enum moe_prefetch policy)
{
    static const char *const names[] = {
        [MOE_PREFETCH_AUTO] = "auto",
        [MOE_PREFETCH_OFF] = "off",
        [MOE_PREFETCH_PREVIOUS] = "previous",
        [MOE_PREFETCH_ROUTER] = "router",
        [MOE_PREFETCH_ROUTER_SHARED] = "router-shared",
    };
    return names[policy];
}

// Predictors are numbered from the first that predicts.
static unsigned number_of(enum moe_prefetch predictor)
{
    return (unsigned)predictor - MOE_PREFETCH_PREVIOUS;
}

static gpu_buf *new_floats(gpu *g, uint32_t n, struct gpu_error *device, bool *fine)
{
    gpu_buf *buf = *fine ? gpu_buf_new(g, n * sizeof(float), device) : NULL;
    *fine = buf;
    return buf;
}

static int open_looks(struct prefetch *p, struct moe_err *err)
{
    const struct shape *s = p->shape;
    struct gpu_error device = {.code = GPU_OUT_OF_MEMORY, .text = "no memory for predictions"};
    bool fine = true;
    struct prefetch_look look = {.normed = new_floats(p->gpu, s->hidden_size, &device, &fine),
                                 .logits = new_floats(p->gpu, s->n_routed_experts, &device, &fine),
                                 .weights = new_floats(p->gpu, s->top_k, &device, &fine)};
    // Page-locked, or a driver may have the host wait for what is to come, and nothing else is given meanwhile.
    int32_t *looked =
        fine ? gpu_host_alloc(p->gpu, PREFETCH_LOOKS * (uint64_t)s->top_k * sizeof *looked, &device) : NULL;
    fine = looked;
    for (unsigned i = 0; i < PREFETCH_LOOKS; i++) {
        p->looks[i] = look;
        p->looks[i].ids = new_floats(p->gpu, s->top_k, &device, &fine);
        p->looked[i] = looked ? looked + (size_t)i * s->top_k : NULL;
    }
    return fine ? MOE_OK : moe_fail_gpu(err, &device);
}

int prefetch_open(const struct prefetch_options *options, struct prefetch *p, struct moe_err *err)
{
    const struct shape *shape = options->shape;
    size_t chosen = (size_t)(shape->n_layers - shape->first_k_dense_replace) * shape->top_k;
    *p = (struct prefetch){
        .shape = shape,
        .gpu = options->gpu,
        .asked = options->policy,
        .acting = options->policy == MOE_PREFETCH_AUTO ? MOE_PREFETCH_OFF : options->policy,
        .n = PREFETCH_KEEP,
        .on_predictions = options->on_predictions,
        .context = options->context,
        .previous = malloc(chosen * sizeof *p->previous),
        .predictions = calloc((size_t)MOE_PREDICTORS * shape->top_k, sizeof *p->predictions),
        .there = calloc((size_t)MOE_PREDICTORS * shape->top_k, sizeof *p->there),
    };
    if (!p->previous || !p->predictions || !p->there) {
        prefetch_release(p);
        return moe_fail(err, MOE_NO_MEMORY, "no memory for predictions");
    }
    memset(p->previous, -1, chosen * sizeof *p->previous);
    if (options->policy == MOE_PREFETCH_AUTO && options->all) {
        p->asked = p->acting = MOE_PREFETCH_OFF;
        p->fills = true;
        snprintf(p->reason, sizeof p->reason, "all experts fit; missing ones are read meanwhile");
    } else if (options->policy == MOE_PREFETCH_AUTO) {
        snprintf(p->reason, sizeof p->reason, "no misses in answers yet");
    } else {
        snprintf(p->reason, sizeof p->reason, "as asked");
    }
    int code = p->gpu ? open_looks(p, err) : MOE_OK;
    if (code)
        prefetch_release(p);
    return code;
}

void prefetch_release(struct prefetch *p)
{
    free(p->previous);
    free(p->predictions);
    free(p->there);
    gpu_buf_free(p->looks[0].normed);
    gpu_buf_free(p->looks[0].logits);
    gpu_buf_free(p->looks[0].weights);
    for (unsigned i = 0; i < PREFETCH_LOOKS; i++)
        gpu_buf_free(p->looks[i].ids);
    if (p->looked[0])
        gpu_host_free(p->gpu, p->looked[0]);
    *p = (struct prefetch){0};
}

// Is this predictor's prediction wanted?
static bool wants(const struct prefetch *p, enum moe_prefetch predictor)
{
    return p->acting == predictor || p->on_predictions;
}

// What a predictor says of the layer that comes next, the likeliest first.
static void take_prediction(struct prefetch *p, enum moe_prefetch predictor, expert_store *store,
                            const struct expert_prediction *prediction)
{
    unsigned which = number_of(predictor);
    uint32_t top_k = p->shape->top_k;
    if (p->on_predictions) {
        p->predicted[which] = true;
        p->predicted_ns[which] = clock_ns();
        memcpy(p->predictions + which * top_k, prediction->ids, top_k * sizeof *prediction->ids);
        for (uint32_t k = 0; k < top_k; k++)
            p->there[which * top_k + k] = expert_has_slot(store, prediction->layer, (uint32_t)prediction->ids[k]);
    }
    if (p->acting == predictor)
        p->ahead += expert_prefetch(store, prediction);
}

void prefetch_begin_token(struct prefetch *p)
{
    p->n_looks = 0; // an error may have left some
}

bool prefetch_looks(struct prefetch *p, enum moe_prefetch predictor, uint32_t layer, struct prefetch_look *look)
{
    if (!p->gpu || p->n_looks == PREFETCH_LOOKS || layer + 1 == p->shape->n_layers || !wants(p, predictor))
        return false;
    unsigned n = p->n_looks++;
    *look = p->looks[n];
    p->looking_at = layer + 1;
    p->lookers[n] = predictor;
    p->ranges[n] = (struct gpu_range){look->ids, 0, p->looked[n], p->shape->top_k * sizeof *p->looked[n]};
    return true;
}

void prefetch_send(struct prefetch *p)
{
    if (p->n_looks)
        p->fence = gpu_read_begin(p->gpu, p->ranges, p->n_looks);
}

int prefetch_take(struct prefetch *p, expert_store *store, struct moe_err *err)
{
    struct gpu_error device;
    unsigned n = p->n_looks;
    p->n_looks = 0;
    if (n && gpu_read_end(p->gpu, p->ranges, n, p->fence, &device))
        return moe_fail_gpu(err, &device);
    for (unsigned i = 0; i < n; i++)
        take_prediction(p, p->lookers[i], store,
                        &(struct expert_prediction){p->looking_at, p->looked[i], p->shape->top_k});
    return MOE_OK;
}

static bool among(const int32_t *ids, uint32_t n, int32_t id)
{
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

// As if the predictor had acted: a prediction that was right and not there saves a wait, if its read would be over by
// now.
static void score(struct prefetch *p, unsigned which, const int32_t *ids, expert_store *store)
{
    uint32_t top_k = p->shape->top_k, reads = 0;
    struct moe_prediction *to = &p->scores[which];
    uint64_t gap_ns = clock_ns() - p->predicted_ns[which];
    struct moe_cache_plan plan = expert_store_plan(store);
    double read_ns = plan.probed_bytes_per_s ? 1e9 * (double)plan.slot_bytes / (double)plan.probed_bytes_per_s : 0;
    p->predicted[which] = false;
    for (uint32_t k = 0; k < top_k; k++) {
        bool right = among(ids, top_k, p->predictions[which * top_k + k]);
        bool there = p->there[which * top_k + k];
        reads += !there;
        to->predicted++;
        to->right += right;
        to->useful += right && !there;
        to->late += right && !there && reads * read_ns > (double)gap_ns;
        to->wasted_bytes += right || there ? 0 : plan.slot_bytes;
    }
}

void prefetch_chosen(struct prefetch *p, uint32_t layer, const int32_t *ids, expert_store *store)
{
    const struct shape *s = p->shape;
    for (unsigned which = 0; which < MOE_PREDICTORS; which++)
        if (p->predicted[which])
            score(p, which, ids, store);
    memcpy(p->previous + (size_t)(layer - s->first_k_dense_replace) * s->top_k, ids, s->top_k * sizeof *ids);
    // Behind the last layer comes the first of the next token, of which the routers' predictors know nothing.
    bool last = layer + 1 == s->n_layers;
    uint32_t next = last ? s->first_k_dense_replace : layer + 1;
    struct expert_prediction prediction = {next, p->previous + (size_t)(next - s->first_k_dense_replace) * s->top_k,
                                           s->top_k};
    if (prediction.ids[0] < 0)
        return;
    if (wants(p, MOE_PREFETCH_PREVIOUS))
        take_prediction(p, MOE_PREFETCH_PREVIOUS, store, &prediction);
    if (last && p->acting > MOE_PREFETCH_PREVIOUS)
        p->ahead += expert_prefetch(store, &prediction);
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static double median_ms(uint64_t *took_ns)
{
    qsort(took_ns, PREFETCH_TRY, sizeof *took_ns, compare);
    return (double)took_ns[PREFETCH_TRY / 2] / 1e6;
}

static void settle(struct prefetch *p)
{
    double without = median_ms(p->took_ns[0]), with = median_ms(p->took_ns[1]);
    bool on = p->ahead && with < worth_it * without;
    p->trying = false;
    p->n = 0;
    p->acting = on ? (enum moe_prefetch)AUTO_PREDICTOR : MOE_PREFETCH_OFF;
    if (p->ahead)
        snprintf(p->reason, sizeof p->reason, "%s: %.2f ms a token with it, %.2f without",
                 on               ? "faster"
                 : with < without ? "hardly faster"
                                  : "not faster",
                 with, without);
    else // the disk or the slots had none to spare; what took longer did so by chance
        snprintf(p->reason, sizeof p->reason, "the last trial read nothing ahead");
}

static void rest(struct prefetch *p)
{
    p->trying = false;
    p->n = 0;
    p->acting = MOE_PREFETCH_OFF;
    snprintf(p->reason, sizeof p->reason, "almost no cache misses recently");
}

// By turns, so that a cache that fills up meanwhile speaks for neither.
static void judge(struct prefetch *p, uint64_t took_ns, uint64_t missing)
{
    p->missing += ((double)missing - p->missing) / 8;
    bool was_on = p->acting != MOE_PREFETCH_OFF;
    if (p->trying) {
        p->took_ns[was_on][p->n++ / 2] = took_ns;
        p->acting = was_on ? MOE_PREFETCH_OFF : (enum moe_prefetch)AUTO_PREDICTOR;
    } else if (p->n < PREFETCH_KEEP) {
        p->n++;
    }
    if ((p->trying || was_on) && p->missing < rest_below) {
        rest(p);
    } else if (p->trying && p->n == 2 * PREFETCH_TRY) {
        settle(p);
    } else if (!p->trying && p->n == PREFETCH_KEEP && p->missing >= try_from) {
        p->trying = true;
        p->n = 0;
        p->ahead = 0;
        p->acting = (enum moe_prefetch)AUTO_PREDICTOR;
        snprintf(p->reason, sizeof p->reason, "on trial");
    }
}

void prefetch_end_token(struct prefetch *p, uint32_t position, uint64_t took_ns, uint64_t missing)
{
    if (p->on_predictions)
        p->on_predictions(p->context, position, p->scores);
    memset(p->scores, 0, sizeof p->scores);
    if (p->asked == MOE_PREFETCH_AUTO)
        judge(p, took_ns, missing);
}

void prefetch_idle(struct prefetch *p, expert_store *store)
{
    if (p->fills)
        expert_fill(store);
}

void prefetch_forget(struct prefetch *p, expert_store *store)
{
    uint32_t n_layers = p->shape->n_layers - p->shape->first_k_dense_replace;
    for (uint32_t row = 0; row < n_layers; row++)
        p->previous[(size_t)row * p->shape->top_k] = -1;
    memset(p->predicted, 0, sizeof p->predicted);
    expert_drop_prefetches(store);
}
