// SPDX-License-Identifier: GPL-3.0-or-later
// When `auto` lets the predictor act: by what tokens took with it and without, and not at all where nothing is missing.
// And how the one that goes by the token before is scored, and what it has read when it acts.
#include "tests/expert_rig.h"
#include "engine/experts/prefetch.h"

// Nobody looks ahead here.
uint64_t gpu_read_begin(gpu *g, const struct gpu_range *ranges, unsigned n)
{
    (void)g, (void)ranges, (void)n;
    abort();
}

int gpu_read_end(gpu *g, const struct gpu_range *ranges, unsigned n, uint64_t fence, struct gpu_error *err)
{
    (void)g, (void)ranges, (void)n, (void)fence, (void)err;
    abort();
}

// A token's time in ns, if the predictor acts and if it doesn't; what is missing of its experts, and whether none of
// them could be read ahead.
struct life {
    uint64_t with, without, falls_by; // a token
    uint64_t missing;
    bool none_ahead;
};

// Lives through tokens; returns for how many of them the predictor acted.
static unsigned live(struct prefetch *p, const struct life *life, unsigned n)
{
    unsigned acted = 0;
    for (unsigned i = 0; i < n; i++) {
        bool on = p->acting != MOE_PREFETCH_OFF;
        acted += on;
        p->ahead += on && !life->none_ahead;
        prefetch_end_token(p, i, (on ? life->with : life->without) - i * life->falls_by, life->missing);
    }
    return acted;
}

static const struct shape shape = {.n_layers = 4, .first_k_dense_replace = 1, .n_routed_experts = 8, .top_k = 2};

static void begin(struct harness *t, struct prefetch *p)
{
    struct prefetch_options options = {.shape = &shape, .policy = MOE_PREFETCH_AUTO};
    CHECK_EQ(t, prefetch_open(&options, p, NULL), MOE_OK);
}

static void rests_where_nothing_is_missing(struct harness *t)
{
    struct prefetch p;
    begin(t, &p);
    CHECK_STR(t, p.reason, "no misses in answers yet"); // those of prompts don't count
    CHECK_EQ(t, live(&p, &(struct life){.with = 1, .without = 100}, 2000), 0);
    live(&p, &(struct life){.with = 90, .without = 100, .missing = 3}, 100);
    CHECK_EQ(t, p.acting, MOE_PREFETCH_ROUTER);
    CHECK(t, live(&p, &(struct life){.with = 90, .without = 100}, 2000) <= 4 * PREFETCH_TRY);
    CHECK_EQ(t, p.acting, MOE_PREFETCH_OFF);
    CHECK_STR(t, p.reason, "almost no cache misses recently");
    CHECK(t, live(&p, &(struct life){.with = 90, .without = 100, .missing = 3}, 100) > 80); // and wakes
    prefetch_release(&p);
}

static void does_what_is_faster(struct harness *t)
{
    struct prefetch p;
    begin(t, &p);
    CHECK_EQ(t, live(&p, &(struct life){.with = 110, .without = 100, .missing = 3}, 5 * PREFETCH_KEEP),
             5 * PREFETCH_TRY);
    CHECK_EQ(t, p.acting, MOE_PREFETCH_OFF);
    CHECK(t, strncmp(p.reason, "not faster: ", 12) == 0);
    prefetch_release(&p);
    begin(t, &p);
    unsigned n = 5 * PREFETCH_KEEP;
    CHECK(t, live(&p, &(struct life){.with = 95, .without = 100, .missing = 3}, n) >= n - 5 * PREFETCH_TRY - 2);
    prefetch_release(&p);
    begin(t, &p);
    live(&p, &(struct life){.with = 99, .without = 100, .missing = 3}, 3 * PREFETCH_TRY); // chance
    CHECK(t, !p.trying);
    CHECK(t, strncmp(p.reason, "hardly faster: ", 15) == 0);
    CHECK_EQ(t, p.acting, MOE_PREFETCH_OFF);
    prefetch_release(&p);
}

// Where the store reads nothing of what is foretold, tokens are faster by chance.
static void is_off_where_nothing_is_read_ahead(struct harness *t)
{
    struct prefetch p;
    const struct life none = {.with = 50, .without = 100, .missing = 3, .none_ahead = true};
    begin(t, &p);
    CHECK_EQ(t, live(&p, &none, 5 * PREFETCH_KEEP), 5 * PREFETCH_TRY);
    CHECK_EQ(t, p.acting, MOE_PREFETCH_OFF);
    CHECK_STR(t, p.reason, "the last trial read nothing ahead");
    live(&p, &(struct life){.with = 50, .without = 100, .missing = 3}, PREFETCH_KEEP); // and is tried again
    CHECK_EQ(t, p.acting, MOE_PREFETCH_ROUTER);
    live(&p, &none, PREFETCH_KEEP + 2 * PREFETCH_TRY); // what was read before the trial is none of it
    CHECK_STR(t, p.reason, "the last trial read nothing ahead");
    prefetch_release(&p);
}

// While a cache fills up each token is faster than the one before.
static void is_not_fooled_by_warming_up(struct harness *t)
{
    struct prefetch p;
    begin(t, &p);
    live(&p, &(struct life){.with = 10000, .without = 11000, .falls_by = 300, .missing = 3}, 2 * PREFETCH_TRY + 2);
    CHECK(t, !p.trying);
    CHECK_EQ(t, p.acting, MOE_PREFETCH_ROUTER);
    prefetch_release(&p);
}

static void keep_scores(void *context, uint32_t position, const struct moe_prediction *predictions)
{
    (void)position;
    *(struct moe_prediction *)context = predictions[0]; // MOE_PREFETCH_PREVIOUS
}

// A token's layers, each with the same experts.
static void pass_token(struct prefetch *p, expert_store *store, const int32_t *ids)
{
    for (uint32_t layer = 1; layer < RIG_LAYERS; layer++)
        prefetch_chosen(p, layer, ids, store);
    prefetch_end_token(p, 0, 1, 0);
}

// Each layer's choice is the next token's prediction of that layer, but the first token's of which nothing is known.
static void the_token_before_is_scored(struct harness *t)
{
    enum { ALL = (RIG_LAYERS - 1) * RIG_TOP_K };
    struct rig rig;
    struct prefetch p;
    struct moe_prediction said = {0};
    CHECK(t, rig_open(&rig, false));
    expert_store *store = rig_store(t, &rig, RIG_ALL, NULL);
    struct prefetch_options options = {
        .shape = &rig.package.shape, .policy = MOE_PREFETCH_OFF, .on_predictions = keep_scores, .context = &said};
    CHECK_EQ(t, prefetch_open(&options, &p, NULL), MOE_OK);
    CHECK(t, rig_use_one(store, 2, 5)); // the only one that is there
    pass_token(&p, store, (int32_t[]){1, 5, 6});
    CHECK_EQ(t, said.predicted, 0);
    pass_token(&p, store, (int32_t[]){6, 5, 1});
    CHECK(t, said.predicted == ALL && said.right == ALL && said.useful == ALL - 1 && said.wasted_bytes == 0);
    pass_token(&p, store, (int32_t[]){0, 6, 7});
    CHECK(t, said.predicted == ALL && said.right == ALL / 3 && said.useful == ALL / 3);
    CHECK_EQ(t, said.wasted_bytes, (2 * ALL / 3 - 1) * RIG_BLOB);
    CHECK_EQ(t, expert_store_counts(store).bytes_read, RIG_BLOB); // nobody acts
    prefetch_forget(&p, store);
    pass_token(&p, store, (int32_t[]){0, 6, 7});
    CHECK_EQ(t, said.predicted, 0);
    prefetch_release(&p);
    expert_store_close(store);
    rig_close(&rig);
}

// It acts: what the last token had is read for this one, the first layer's behind the last.
static void the_token_before_has_its_experts_read(struct harness *t)
{
    struct rig rig;
    struct prefetch p;
    const int32_t ids[] = {1, 5, 6};
    CHECK(t, rig_open(&rig, false));
    expert_store *store = rig_store(t, &rig, RIG_ALL, NULL);
    struct prefetch_options options = {.shape = &rig.package.shape, .policy = MOE_PREFETCH_PREVIOUS};
    CHECK_EQ(t, prefetch_open(&options, &p, NULL), MOE_OK);
    for (uint32_t layer = 1; layer < RIG_LAYERS; layer++) {
        CHECK_EQ(t, expert_where(store, 1, 1), MOE_FROM_DISK);
        prefetch_chosen(&p, layer, ids, store);
    }
    CHECK(t, expert_where(store, 1, 1) != MOE_FROM_DISK && expert_where(store, 2, 1) == MOE_FROM_DISK);
    CHECK(t, rig_use(store, 1, ids, RIG_TOP_K)); // and no read is under way
    prefetch_chosen(&p, 1, ids, store);
    CHECK(t, expert_where(store, 2, 1) != MOE_FROM_DISK && expert_where(store, 3, 1) == MOE_FROM_DISK);
    prefetch_release(&p);
    expert_store_close(store);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(rests_where_nothing_is_missing),     TEST(does_what_is_faster),
        TEST(is_off_where_nothing_is_read_ahead), TEST(is_not_fooled_by_warming_up),
        TEST(the_token_before_is_scored),         TEST(the_token_before_has_its_experts_read),
    };
    return HARNESS_RUN(tests, argc, argv);
}
