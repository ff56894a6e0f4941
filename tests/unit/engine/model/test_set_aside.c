// SPDX-License-Identifier: GPL-3.0-or-later
// What a model whose layers have states leaves for experts, on machines with so much memory that is free: a session's
// states in their two halves, and the copies that it keeps of them, are no room for slots.
#include "engine/model/model.h"
#include "engine/moe.h"
#include "engine/session/session.h"
#include "tests/harness.h"

#define MODEL "tests/golden/ck-qwen35moe-mlx/checkpoint" // 12 experts in slots of 4 KB, states of 11.3 KB

static uint64_t left; // linked in the machine's place (-Wl,--wrap)

uint64_t __wrap_gpu_host_memory_left(const gpu *g);
uint64_t __wrap_gpu_host_memory_left(const gpu *g)
{
    (void)g;
    return left;
}

static int open_with(uint64_t memory, const struct moe_model_options *options, moe_model **model, struct moe_err *err)
{
    struct moe_model_options plain = *options;
    left = memory;
    plain.device = "ref";
    plain.io = MOE_IO_BUFFERED;
    *err = (struct moe_err){.text = ""};
    return moe_model_open(MODEL, &plain, model, err);
}

// Of `memory`, `copies` are set aside; as many slots as fit beside them, but no more than there are experts.
static void slots_fit_beside(struct harness *t, uint64_t memory, uint64_t copies)
{
    moe_model *model;
    moe_session *session;
    struct moe_err err;
    struct moe_model_options one = {.expert_cache_bytes = MOE_CACHE_SHARE(1000)};
    struct moe_model_options two = {
        .expert_cache_bytes = 16384, .host_cache_bytes = MOE_CACHE_SHARE(1000), .force_two_tiers = true};
    struct moe_session_options plain = {.prefetch = MOE_PREFETCH_OFF};
    for (int tiers = 1; tiers <= 2; tiers++) {
        if (!CHECK_EQ(t, open_with(memory, tiers == 1 ? &one : &two, &model, &err), MOE_OK)) {
            printf("%s\n", err.text);
            return;
        }
        struct moe_cache_plan plan = moe_model_cache(model);
        uint64_t slots = tiers == 1 ? plan.slots : plan.host_slots;
        uint64_t states = plan.snapshot_bytes + 2 * plan.state_bytes;
        CHECK(t, plan.state_bytes > 0 && plan.slot_bytes > 0 && slots > 0);
        CHECK_EQ(t, plan.snapshot_bytes, copies * plan.state_bytes);
        CHECK_EQ(t, plan.free_bytes + states, memory);
        CHECK(t, slots * plan.slot_bytes + states <= memory);
        CHECK(t, slots == plan.experts || (slots + 1) * plan.slot_bytes + states > memory);
        if (CHECK_EQ(t, moe_session_open(model, &plain, &session, &err), MOE_OK)) {
            CHECK_EQ(t, session->snapshots.most, copies); // what is set aside is what it keeps
            CHECK_EQ(t, session->snapshots.bytes, plan.state_bytes);
            moe_session_close(session);
        }
        moe_model_close(model);
    }
}

static void slots_and_copies_fit_together(struct harness *t)
{
    slots_fit_beside(t, 90000, 4); // of 12 slots, what four copies leave
    slots_fit_beside(t, 105000, 4);
    slots_fit_beside(t, 2000000, 11); // a sixteenth
    slots_fit_beside(t, 100000000, 64);
}

// A plan that is made beforehand counts the weights, too, which are not there yet.
static void a_plan_sets_them_aside_too(struct harness *t)
{
    struct moe_cache_plan plan;
    struct moe_err err = {.text = ""};
    struct moe_model_options all = {.expert_cache_bytes = MOE_CACHE_SHARE(1000)};
    left = 150000;
    if (CHECK_EQ(t, moe_plan(MODEL, &all, &plan, &err), MOE_OK)) {
        CHECK_EQ(t, plan.free_bytes + plan.snapshot_bytes + 2 * plan.state_bytes + plan.resident_bytes, left);
        CHECK(t, plan.slots < plan.experts && plan.slots * plan.slot_bytes <= plan.free_bytes);
    }
}

// All experts fit where no copies are, and not beside four.
static void what_copies_leave_is_refused_by_its_number(struct harness *t)
{
    moe_model *model;
    struct moe_err err;
    struct moe_model_options all = {.expert_cache_bytes = MOE_CACHE_ALL};
    CHECK_EQ(t, open_with(100000, &all, &model, &err), MOE_NO_MEMORY);
    CHECK(t, model == NULL && strstr(err.text, "--expert-cache") != NULL);
    CHECK_EQ(t, open_with(40000, &all, &model, &err), MOE_NO_MEMORY); // nor do the states themselves
    CHECK(t, model == NULL && strstr(err.text, "a conversation would take") != NULL);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(slots_and_copies_fit_together), TEST(a_plan_sets_them_aside_too),
                                                TEST(what_copies_leave_is_refused_by_its_number)};
    return HARNESS_RUN(tests, argc, argv);
}
