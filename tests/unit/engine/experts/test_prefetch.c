// SPDX-License-Identifier: GPL-3.0-or-later
// When `auto` lets the predictor act: by what tokens took with it and without, and not at all where nothing is missing.
#include "tests/harness.h"
#include "engine/experts/prefetch.h"

// A token's time in ns, if the predictor acts and if it doesn't; what is missing of its experts.
struct life {
    uint64_t with, without, falls_by; // a token
    uint64_t missing;
};

// Lives through tokens; returns for how many of them the predictor acted.
static unsigned live(struct prefetch *p, const struct life *life, unsigned n)
{
    unsigned acted = 0;
    for (unsigned i = 0; i < n; i++) {
        bool on = p->acting != MOE_PREFETCH_OFF;
        acted += on;
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
    prefetch_release(&p);
    begin(t, &p);
    unsigned n = 5 * PREFETCH_KEEP;
    CHECK(t, live(&p, &(struct life){.with = 95, .without = 100, .missing = 3}, n) >= n - 5 * PREFETCH_TRY - 2);
    prefetch_release(&p);
    begin(t, &p);
    live(&p, &(struct life){.with = 99, .without = 100, .missing = 3}, 3 * PREFETCH_TRY); // chance
    CHECK(t, !p.trying);
    CHECK_EQ(t, p.acting, MOE_PREFETCH_OFF);
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

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(rests_where_nothing_is_missing),
        TEST(does_what_is_faster),
        TEST(is_not_fooled_by_warming_up),
    };
    return HARNESS_RUN(tests, argc, argv);
}
