// SPDX-License-Identifier: GPL-3.0-or-later
// The feed-forward half of a layer: a dense MLP, or the router, the shared expert and the routed experts.
// The streamed way: the chosen ids come back to the host, which asks the store for their slots.
#include "forward.h"

#include <string.h>

#include "err.h"

static bool cancelled(void *context)
{
    return atomic_load((const atomic_bool *)context);
}

// Where a router's input and output go.
struct routing {
    const struct layer_weights *weights;
    struct rows normed;
    gpu_buf *logits, *ids, *chosen_weights;
};

static void route(const struct pass *pass, const struct routing *to)
{
    const struct shape *s = pass->shape;
    const struct layer_weights *w = to->weights;
    struct rows logits = {to->logits, s->n_routed_experts, 0};
    pass_norm(pass, &(struct normalisation){&w->post_attention_layernorm, pass_stream(pass), to->normed, s->hidden_size,
                                            s->rms_norm_eps});
    pass_project(pass, &(struct projection){&w->router, to->normed, logits, false});
    struct args_router args = {
        .bias = w->router_bias.offset,
        .n_rows = pass->rows,
        .n_experts = s->n_routed_experts,
        .n_group = s->n_group,
        .topk_group = s->topk_group,
        .top_k = s->top_k,
        .norm_topk_prob = s->norm_topk_prob,
        .scoring = s->scoring,
        .topk_method = s->topk_method,
        .has_bias = s->has_correction_bias,
        .routed_scaling_factor = s->routed_scaling_factor,
    };
    struct gpu_router_bufs bufs = {logits.buf, w->router_bias.buf, to->ids, to->chosen_weights};
    gpu_op_router(pass->gpu, &args, &bufs);
}

// Brings ids and weights to the host, and proves that they are what a router can say.
static int read_choice(const struct pass *pass, uint32_t layer, struct moe_err *err)
{
    const struct shape *s = pass->shape;
    struct scratch *scratch = pass->scratch;
    size_t count = (size_t)pass->rows * s->top_k, first = (size_t)pass->first * s->top_k;
    int32_t *chosen = scratch->router_ids + first;
    float *weights = scratch->router_weights + first;
    const struct gpu_range choice[] = {
        {scratch->buf[SCRATCH_ROUTER_IDS], 0, chosen, count * sizeof *chosen},
        {scratch->buf[SCRATCH_ROUTER_WEIGHTS], 0, weights, count * sizeof *weights},
    };
    struct gpu_error device;
    telemetry_settle(pass->telemetry, pass->gpu, MOE_ON_ROUTER);
    int failed = gpu_read_ranges(pass->gpu, choice, 2, &device);
    telemetry_switch(pass->telemetry, MOE_ON_HOST);
    if (failed)
        return moe_fail_gpu(err, &device);
    for (uint32_t row = 0; row < pass->rows; row++) {
        const int32_t *ids = chosen + (size_t)row * s->top_k;
        for (uint32_t k = 0; k < s->top_k; k++) {
            bool fine = ids[k] >= 0 && (uint32_t)ids[k] < s->n_routed_experts;
            for (uint32_t j = 0; j < k; j++)
                fine &= ids[j] != ids[k];
            if (fine)
                continue;
            int code = moe_fail(err, MOE_BAD_NUMBERS,
                                "layer %u chose no proper experts for token %u: its numbers are not finite; "
                                "`moechat info --verify` checks the files, `--device ref` the device",
                                layer, pass->position + row);
            if (err)
                err->layer = (int)layer;
            return code;
        }
    }
    return MOE_OK;
}

static struct args_matrix at_place(const struct args_matrix *part, const struct expert_place *place)
{
    struct args_matrix at = *part;
    at.weight += place->offset;
    at.scales += place->offset;
    at.biases += place->offset;
    return at;
}

// One expert over `rows` rows of `from`, into `to`.
static void run_expert(const struct pass *pass, const struct expert_place *place, struct rows from, struct rows to)
{
    const struct expert_layout *experts = package_experts(pass->package, place->layer);
    struct rows act = scratch_rows(pass->scratch, SCRATCH_MLP, pass->shape->moe_intermediate_size);
    struct args_swiglu args = {
        .gate = at_place(&experts->gate, place),
        .up = at_place(&experts->up, place),
        .n_rows = pass->rows,
        .in_stride = from.stride,
        .in_offset = from.offset,
        .out_stride = act.stride,
    };
    if (pass->decode)
        gpu_op_swiglu_vec(pass->gpu, &args, place->buf, from.buf, act.buf);
    else
        gpu_op_swiglu_mat(pass->gpu, &args, place->buf, from.buf, act.buf);
    struct matrix down = {place->buf, at_place(&experts->down, place)};
    pass_project(pass, &(struct projection){&down, act, to, false});
}

// Guesses of the next layer's experts that are on their way to the host.
struct guesses {
    uint32_t layer; // guessed of
    unsigned n;
    enum moe_prefetch guessers[2];
    struct gpu_range ranges[2];
    uint64_t fence;
};

// Lets the next layer's router look at the state as it is now.
static void begin_guess(const struct pass *pass, struct guesses *guesses, enum moe_prefetch guesser)
{
    struct scratch *scratch = pass->scratch;
    if (guesses->layer == pass->shape->n_layers || !prefetch_wants(pass->prefetch, guesser))
        return;
    unsigned which = guesser == MOE_PREFETCH_ROUTER_SHARED;
    gpu_buf *ids = scratch->buf[which ? SCRATCH_GUESS_SHARED : SCRATCH_GUESS_PLAIN];
    route(pass, &(struct routing){
                    .weights = &pass->weights->layers[guesses->layer],
                    .normed = scratch_rows(scratch, SCRATCH_GUESS_NORMED, pass->shape->hidden_size),
                    .logits = scratch->buf[SCRATCH_GUESS_LOGITS],
                    .ids = ids,
                    .chosen_weights = scratch->buf[SCRATCH_GUESS_WEIGHTS],
                });
    guesses->guessers[guesses->n] = guesser;
    guesses->ranges[guesses->n++] =
        (struct gpu_range){ids, 0, scratch->guess_ids[which], pass->shape->top_k * sizeof *scratch->guess_ids[which]};
}

// The guesses are there: hands them on.
static int take_guesses(const struct pass *pass, struct guesses *guesses, struct moe_err *err)
{
    struct gpu_error device;
    if (guesses->n && gpu_read_end(pass->gpu, guesses->ranges, guesses->n, guesses->fence, &device))
        return moe_fail_gpu(err, &device);
    for (unsigned i = 0; i < guesses->n; i++) {
        struct expert_guess guess = {guesses->layer, guesses->ranges[i].target, pass->shape->top_k};
        prefetch_guess(pass->prefetch, guesses->guessers[i], pass->store, &guess);
    }
    guesses->n = 0;
    return MOE_OK;
}

// Waits for all of a token's experts.
static int await_choice(const struct pass *pass, uint32_t layer, struct moe_err *err)
{
    int code = MOE_OK;
    for (uint32_t k = 0; k < pass->shape->top_k && !code; k++)
        code = expert_wait(pass->store, &pass->scratch->places[k], cancelled, (void *)(uintptr_t)pass->cancel, err);
    telemetry_waited(pass->telemetry, pass->store, layer);
    return code;
}

// Each expert of a token into its partial sum, in the order in which their bytes are there.
static int run_choice(const struct pass *pass, uint32_t layer, struct guesses *guesses, struct moe_err *err)
{
    struct scratch *scratch = pass->scratch;
    uint32_t top_k = pass->shape->top_k;
    struct rows partial = scratch_rows(scratch, SCRATCH_EXPERT_OUT, pass->shape->hidden_size);
    struct expert_wait_list list = {scratch->places, scratch->done, top_k, cancelled, (void *)(uintptr_t)pass->cancel};
    uint32_t there = 0; // when they were asked for
    for (uint32_t k = 0; k < top_k; k++) {
        scratch->done[k] = false;
        there += scratch->places[k].origin == MOE_FROM_DEVICE || scratch->places[k].origin == MOE_FROM_PREFETCH;
    }
    for (uint32_t n = 0; n < top_k; n++) {
        int code = n == there ? take_guesses(pass, guesses, err) : MOE_OK; // before the first wait
        if (code)
            return code;
        struct moe_err failure;
        int k = expert_wait_any(pass->store, &list, &failure);
        uint64_t waited = telemetry_waited(pass->telemetry, pass->store, layer);
        if (k < 0) {
            if (err)
                *err = failure;
            return (int)failure.code;
        }
        scratch->done[k] = true;
        telemetry_use(pass->telemetry,
                      &(struct telemetry_use){&scratch->places[k], (uint32_t)k, 1, scratch->router_weights[k], waited});
        partial.offset = (uint32_t)k * partial.stride;
        run_expert(pass, &scratch->places[k], pass_normed(pass), partial);
    }
    return MOE_OK;
}

// One token: its top_k experts into partial sums, added up in the router's rank order whatever came first.
static int decode_experts(const struct pass *pass, uint32_t layer, struct moe_err *err)
{
    const struct shape *s = pass->shape;
    struct scratch *scratch = pass->scratch;
    struct expert_request request = {.layer = layer,
                                     .ids = scratch->router_ids,
                                     .n = s->top_k,
                                     .cancelled = cancelled,
                                     .context = (void *)(uintptr_t)pass->cancel};
    int code = expert_acquire(pass->store, &request, scratch->places, err);
    if (code)
        return code;
    telemetry_waited(pass->telemetry, pass->store, layer);
    prefetch_chosen(pass->prefetch, layer, scratch->router_ids, pass->store);
    telemetry_switch(pass->telemetry, MOE_ON_EXPERTS);
    struct guesses guesses = {.layer = layer + 1};
    begin_guess(pass, &guesses, MOE_PREFETCH_ROUTER);
    bool shared_first = !(pass->without & MOE_WITHOUT_SHARED_FIRST);
    if (s->n_shared_experts && shared_first)
        pass_mlp(pass, &pass->weights->layers[layer]); // computes while missing experts are read
    begin_guess(pass, &guesses, MOE_PREFETCH_ROUTER_SHARED);
    if (guesses.n)
        guesses.fence = gpu_read_begin(pass->gpu, guesses.ranges, guesses.n);
    code = pass->without & MOE_WITHOUT_HITS_FIRST ? await_choice(pass, layer, err) : MOE_OK;
    if (!code)
        code = run_choice(pass, layer, &guesses, err);
    if (!code && s->n_shared_experts && !shared_first)
        pass_mlp(pass, &pass->weights->layers[layer]);
    if (!code)
        code = take_guesses(pass, &guesses, err);
    if (!code) {
        struct args_combine args = {s->top_k, s->hidden_size};
        gpu_op_combine(pass->gpu, &args, scratch->buf[SCRATCH_EXPERT_OUT], scratch->buf[SCRATCH_ROUTER_WEIGHTS],
                       scratch->buf[SCRATCH_HIDDEN]);
    }
    expert_release(pass->store, scratch->places, s->top_k);
    if (!code)
        code = ring_begin(pass->ring, pass->gpu, err);
    ring_trim(pass->ring, pass->gpu);
    return code;
}

// Sorts the group's rows by expert: expert e's rows and weights are expert_first[e] .. expert_first[e + 1).
static void sort_by_expert(const struct pass *pass)
{
    const struct shape *s = pass->shape;
    struct scratch *scratch = pass->scratch;
    size_t count = (size_t)pass->rows * s->top_k;
    uint32_t *start = scratch->expert_first + 1; // start[e] moves to the end of e while e's rows are filled in
    memset(scratch->expert_first, 0, sizeof *start * ((size_t)s->n_routed_experts + 2));
    for (size_t i = 0; i < count; i++)
        start[scratch->router_ids[i] + 1]++;
    for (uint32_t e = 0; e < s->n_routed_experts; e++)
        start[e + 1] += start[e];
    for (size_t i = 0; i < count; i++) {
        uint32_t at = start[scratch->router_ids[i]]++;
        scratch->expert_index[at] = (int32_t)(i / s->top_k);
        scratch->expert_weight[at] = scratch->router_weights[i];
    }
}

// Gathers an expert's rows, runs it on them and adds the weighted results to their tokens, a chunk's worth at a time.
static void run_expert_rows(const struct pass *pass, const struct expert_place *place)
{
    struct scratch *scratch = pass->scratch;
    uint32_t hidden = pass->shape->hidden_size;
    uint32_t end = scratch->expert_first[place->expert + 1];
    struct rows in = scratch_rows(scratch, SCRATCH_EXPERT_IN, hidden);
    struct rows out = scratch_rows(scratch, SCRATCH_EXPERT_OUT, hidden);
    struct pass some = *pass;
    for (uint32_t first = scratch->expert_first[place->expert]; first < end; first += some.rows) {
        some.rows = end - first < scratch->rows ? end - first : scratch->rows;
        struct args_gather args = {.n_rows = some.rows, .dim = hidden, .first = first};
        gpu_op_gather(pass->gpu, &args, scratch->buf[SCRATCH_NORMED], scratch->buf[SCRATCH_EXPERT_INDEX], in.buf);
        run_expert(&some, place, in, out);
        struct gpu_scatter_bufs bufs = {out.buf, scratch->buf[SCRATCH_EXPERT_INDEX],
                                        scratch->buf[SCRATCH_EXPERT_WEIGHT], scratch->buf[SCRATCH_HIDDEN]};
        gpu_op_scatter_add(pass->gpu, &args, &bufs);
    }
}

// A group: every busy expert once, by ascending id. The order of the sums follows from the ids alone, so neither the
// number of slots nor what was in them changes a bit.
static int prefill_experts(const struct pass *pass, uint32_t layer, struct moe_err *err)
{
    struct scratch *scratch = pass->scratch;
    struct sweep_layer of = {.layer = layer,
                             .n_experts = pass->shape->n_routed_experts,
                             .first = scratch->expert_first,
                             .cancelled = cancelled,
                             .context = (void *)(uintptr_t)pass->cancel};
    sort_by_expert(pass);
    telemetry_switch(pass->telemetry, MOE_ON_EXPERTS);
    uint64_t count = (uint64_t)pass->rows * pass->shape->top_k;
    gpu_write(pass->gpu, scratch->buf[SCRATCH_EXPERT_INDEX], 0, scratch->expert_index,
              count * sizeof *scratch->expert_index);
    gpu_write(pass->gpu, scratch->buf[SCRATCH_EXPERT_WEIGHT], 0, scratch->expert_weight,
              count * sizeof *scratch->expert_weight);
    // So many choices that nearly every expert of the next layer will be busy, too.
    of.next_too = !(pass->without & MOE_WITHOUT_READ_AHEAD) && layer + 1 < pass->shape->n_layers &&
                  count >= SWEEP_SURE * (uint64_t)of.n_experts;
    const struct expert_place *place;
    uint32_t past = 0; // experts, idle ones included
    int code = sweep_begin(pass->sweep, pass->store, &of, err);
    while (!code && (place = sweep_next(pass->sweep))) {
        uint32_t expert = place->expert; // sweep_done reuses the place
        struct telemetry_use use = {place, 0, scratch->expert_first[expert + 1] - scratch->expert_first[expert], 0, 0};
        if (cancelled(of.context)) // experts that are there are not waited for, and still take their time
            code = moe_fail(err, MOE_CANCELLED, "stopped");
        else
            code = expert_wait(pass->store, place, cancelled, of.context, err);
        telemetry_waited(pass->telemetry, pass->store, layer);
        if (code)
            break;
        telemetry_use(pass->telemetry, &use);
        run_expert_rows(pass, place);
        code = sweep_done(pass->sweep, pass->store, pass->gpu, err);
        pass_progress(pass, PACE_EXPERTS, (double)(expert + 1 - past) / of.n_experts);
        past = expert + 1;
    }
    if (!code)
        pass_progress(pass, PACE_EXPERTS, (double)(of.n_experts - past) / of.n_experts);
    return code;
}

int ffn_begin(const struct pass *pass, uint32_t layer, struct moe_err *err)
{
    const struct shape *s = pass->shape;
    const struct layer_weights *w = &pass->weights->layers[layer];
    telemetry_switch(pass->telemetry, MOE_ON_ROUTER);
    if (!shape_is_moe(s, layer)) {
        pass_norm(pass, &(struct normalisation){&w->post_attention_layernorm, pass_stream(pass), pass_normed(pass),
                                                s->hidden_size, s->rms_norm_eps});
        telemetry_switch(pass->telemetry, MOE_ON_EXPERTS);
        pass_mlp(pass, w);
        telemetry_mark(pass->telemetry, pass->gpu, MOE_ON_EXPERTS);
        return MOE_OK;
    }
    gpu_buf *const *buf = pass->scratch->buf;
    route(pass, &(struct routing){w, pass_normed(pass), buf[SCRATCH_ROUTER_LOGITS], buf[SCRATCH_ROUTER_IDS],
                                  buf[SCRATCH_ROUTER_WEIGHTS]});
    int code = read_choice(pass, layer, err);
    if (code || pass->decode || !s->n_shared_experts)
        return code;
    telemetry_switch(pass->telemetry, MOE_ON_EXPERTS);
    pass_mlp(pass, w);
    telemetry_mark(pass->telemetry, pass->gpu, MOE_ON_EXPERTS);
    return MOE_OK;
}

int ffn_experts(const struct pass *pass, uint32_t layer, struct moe_err *err)
{
    telemetry_layer_begin(pass->telemetry, layer, pass->store);
    int code = pass->decode ? decode_experts(pass, layer, err) : prefill_experts(pass, layer, err);
    telemetry_layer_end(pass->telemetry, layer, pass->store);
    telemetry_mark(pass->telemetry, pass->gpu, MOE_ON_EXPERTS);
    return code;
}
