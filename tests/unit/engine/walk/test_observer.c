// SPDX-License-Identifier: GPL-3.0-or-later
// What the stages of a pass are to the record, the progress of a prompt and a cancel. No layer is computed: the test
// says where it is, and takes its time there.
#include <stdlib.h>
#include <time.h>

#include "engine/model/model.h"
#include "engine/walk/pass.h"
#include "tests/harness.h"

enum { NAP_NS = 3000000, LAYER = 1 };

struct rig {
    moe_model *model;
    atomic_bool cancel;
    struct observer observer;
    struct scratch scratch;
    struct pass pass;
    unsigned n_progress;
    struct moe_progress progress; // the last
    struct stream stream;         // no more than how far it reaches
};

static void see(void *context, const struct moe_progress *progress)
{
    struct rig *rig = context;
    rig->n_progress++;
    rig->progress = *progress;
}

static struct rig *open_rig(struct harness *t, bool decode, uint32_t tokens)
{
    struct rig *rig = calloc(1, sizeof *rig);
    struct moe_model_options options = {.device = "ref"};
    struct moe_err err;
    if (moe_model_open("tests/golden/tiny-a/package", &options, &rig->model, &err)) {
        CHECK(t, false);
        exit(1);
    }
    moe_model *m = rig->model;
    struct observer_options o = {m->gpu, &m->package.shape, m->store, &rig->cancel, 0};
    CHECK_EQ(t, observer_open(&o, &rig->observer, &err), 0);
    struct scratch_options scratch = {&m->package.shape, tokens, tokens, tokens};
    CHECK_EQ(t, scratch_open(m->gpu, &scratch, &rig->scratch, &err), 0);
    rig->pass = (struct pass){.gpu = m->gpu,
                              .package = &m->package,
                              .shape = &m->package.shape,
                              .scratch = &rig->scratch,
                              .stream = &rig->stream,
                              .observer = &rig->observer,
                              .rows = tokens,
                              .decode = decode};
    struct moe_feed feed = {.count = tokens, .progress = see, .context = rig};
    observer_begin(&rig->observer, &(struct observer_feed){&feed, decode, {tokens, tokens}, 0});
    pass_begin(&rig->pass, true);
    return rig;
}

static void close_rig(struct rig *rig)
{
    scratch_release(&rig->scratch);
    observer_release(&rig->observer);
    moe_model_close(rig->model);
    free(rig);
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
}

static const struct moe_telemetry *record(const struct rig *rig)
{
    return &rig->observer.telemetry.records[rig->observer.telemetry.shown];
}

// Time is the stage's in which it goes by; a wait's is that of what the device was given last.
static void time_is_the_stages(struct harness *t)
{
    static const struct {
        enum stage stage;
        enum moe_interval of;
    } way[] = {
        {STAGE_ATTENTION, MOE_ON_ATTENTION}, {STAGE_ROUTER, MOE_ON_ROUTER}, {STAGE_WAIT, MOE_ON_ROUTER},
        {STAGE_HOST, MOE_ON_HOST},           {STAGE_ASK, MOE_ON_HOST},      {STAGE_EXPERTS, MOE_ON_EXPERTS},
        {STAGE_MLP, MOE_ON_EXPERTS},         {STAGE_HEAD, MOE_ON_HEAD},     {STAGE_HOST, MOE_ON_HOST},
        {STAGE_WAIT, MOE_ON_HEAD},           {STAGE_CHUNK, MOE_ON_HEAD},
    };
    struct rig *rig = open_rig(t, true, 1);
    uint64_t least[MOE_INTERVALS] = {0}, sum = 0;
    for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
        pass_stage(&rig->pass, way[i].stage, LAYER);
        nap();
        least[way[i].of] += NAP_NS;
    }
    CHECK_EQ(t, record(rig)->step, 0); // none is whole yet
    pass_end(&rig->pass, MOE_OK);
    const struct moe_telemetry *step = record(rig);
    CHECK(t, step->step == 1 && step->decode && step->rows == 1);
    for (int i = 0; i < MOE_INTERVALS; i++) {
        CHECK(t, step->ns[i] >= least[i] && (least[i] || !step->ns[i]));
        sum += step->ns[i];
    }
    CHECK_EQ(t, sum, step->total_ns);
    CHECK_EQ(t, rig->n_progress, 0); // a decoded token has no pace
    observer_progress(&rig->observer, 1);
    CHECK(t, rig->n_progress == 1 && rig->progress.done == 1 && rig->progress.total == 1);
    close_rig(rig);
}

// What the store is waited for is the disk's time, the layer's and the expert's, and no stage's.
static void experts_are_the_layers(struct harness *t)
{
    struct rig *rig = open_rig(t, true, 1);
    struct pass *pass = &rig->pass;
    uint32_t top_k = pass->shape->top_k;
    struct expert_place places[8];
    int32_t ids[8];
    struct moe_err err;
    for (uint32_t k = 0; k < top_k; k++)
        ids[k] = (int32_t)k;
    struct expert_request request = {
        .layer = LAYER, .ids = ids, .n = top_k, .cancelled = observer_cancelled, .context = pass->observer};
    pass_stage(pass, STAGE_ASK, LAYER);
    CHECK_EQ(t, expert_acquire(rig->model->store, &request, places, &err), 0);
    pass_stage(pass, STAGE_EXPERTS, LAYER);
    for (uint32_t k = 0; k < top_k; k++) {
        CHECK_EQ(t, expert_wait(rig->model->store, &places[k], observer_cancelled, pass->observer, &err), 0);
        pass_used(pass, &(struct telemetry_use){&places[k], k, 1});
    }
    float weights[64] = {0};
    for (uint32_t k = 0; k < top_k; k++)
        weights[(LAYER - pass->shape->first_k_dense_replace) * top_k + k] = 0.25F + (float)k;
    pass_weighed(pass, weights);
    expert_release(rig->model->store, places, top_k);
    pass_stage(pass, STAGE_ATTENTION, LAYER + 1);
    pass_end(pass, MOE_OK);
    const struct moe_telemetry *step = record(rig);
    const struct moe_layer_record *layer = &step->layers[LAYER - step->first_moe_layer];
    struct expert_counts counts = expert_store_counts(rig->model->store);
    uint64_t wait_us = 0;
    CHECK_EQ(t, layer->n_from[MOE_FROM_DISK], top_k);
    CHECK(t, layer->bytes_disk == counts.bytes_read && layer->bytes_disk > 0);
    CHECK(t, layer->wait_ns == counts.wait_ns && step->ns[MOE_ON_DISK] + step->ns[MOE_ON_COPY] == counts.wait_ns);
    for (uint32_t k = 0; k < top_k; k++) {
        const struct moe_choice *choice = &step->choices[(LAYER - step->first_moe_layer) * top_k + k];
        CHECK(t, choice->expert == k && choice->weight == 0.25F + (float)k && choice->origin == MOE_FROM_DISK);
        CHECK_EQ(t, rig->observer.telemetry.heat[(LAYER - step->first_moe_layer) * step->n_routed_experts + k], 1);
        wait_us += choice->wait_us;
    }
    CHECK(t, wait_us <= counts.wait_ns / 1000 && wait_us + top_k >= counts.wait_ns / 1000);
    close_rig(rig);
}

// What a step that fails has read is in its own record, not in the next.
static void a_failed_step_leaves_its_own_record(struct harness *t)
{
    struct rig *rig = open_rig(t, true, 1);
    struct expert_place place;
    struct moe_err err;
    for (int round = 0; round < 2; round++) {
        const int32_t id = round;
        struct expert_request request = {.layer = LAYER, .ids = &id, .n = 1};
        if (round)
            pass_begin(&rig->pass, true);
        pass_stage(&rig->pass, STAGE_ASK, LAYER);
        CHECK_EQ(t, expert_acquire(rig->model->store, &request, &place, &err), 0);
        CHECK_EQ(t, expert_wait(rig->model->store, &place, NULL, NULL, &err), 0);
        expert_release(rig->model->store, &place, 1);
        pass_end(&rig->pass, round ? MOE_OK : MOE_IO);
        CHECK_EQ(t, record(rig)->step, round + 1);
        CHECK(t, record(rig)->stopped == !round && record(rig)->rows == (unsigned)round);
    }
    uint64_t read = expert_store_counts(rig->model->store).bytes_read;
    CHECK_EQ(t, 2 * record(rig)->layers[LAYER - record(rig)->first_moe_layer].bytes_disk, read);
    close_rig(rig);
}

static void prompts_have_a_pace(struct harness *t)
{
    enum { TOKENS = 8 };
    struct rig *rig = open_rig(t, false, TOKENS);
    const struct shape *s = rig->pass.shape;
    double last = 0;
    for (uint32_t layer = 0; layer < s->n_layers; layer++) {
        nap();
        rig->stream.reach = (struct stream_reach){layer, TOKENS, 0};
        pass_stage(&rig->pass, STAGE_CHUNK, layer);
        double begun = layer + (shape_is_moe(s, layer) ? 0.5 : 1); // of the layer the half, but for its experts
        CHECK_EQ(t, rig->progress.done, (uint64_t)(TOKENS * begun / s->n_layers));
        CHECK_EQ(t, rig->n_progress, layer + 1);
        CHECK(t, rig->progress.done <= TOKENS && rig->progress.seconds_left > 0);
        CHECK(t, last == 0 || rig->progress.seconds_left < last + 1);
        last = rig->progress.seconds_left;
    }
    CHECK(t, rig->progress.done > 0);
    close_rig(rig);
}

static void a_cancel_is_seen(struct harness *t)
{
    struct rig *rig = open_rig(t, true, 1);
    struct moe_err err;
    CHECK(t, pass_goes_on(&rig->pass, &err) == MOE_OK && !observer_cancelled(&rig->observer));
    atomic_store(&rig->cancel, true);
    CHECK(t, pass_goes_on(&rig->pass, &err) == MOE_CANCELLED && observer_cancelled(&rig->observer));
    close_rig(rig);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(time_is_the_stages),  TEST(experts_are_the_layers), TEST(a_failed_step_leaves_its_own_record),
        TEST(prompts_have_a_pace), TEST(a_cancel_is_seen),
    };
    return HARNESS_RUN(tests, argc, argv);
}
