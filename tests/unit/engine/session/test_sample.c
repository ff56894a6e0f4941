// SPDX-License-Identifier: GPL-3.0-or-later
// The sampler: greedy and its ties, each cut on its own, the penalty, seeds, and frequencies against probabilities.
#include <math.h>
#include <stdlib.h>

#include "tests/harness.h"
#include "engine/moe.h"

static const struct moe_sampling plain = {.temperature = 1, .top_p = 1, .repetition_penalty = 1, .seed = 7};

enum { VOCAB = 5, DRAWS = 20000 };
// Probabilities 0.5, 0.25, 0.125, 0.0625, 0.0625 in the order of ids 2, 0, 4, 1, 3.
static const float logits[VOCAB] = {-1.3862944f, -2.7725887f, -0.6931472f, -2.7725887f, -2.0794415f};
static const double probability[VOCAB] = {0.25, 0.0625, 0.5, 0.0625, 0.125};

// Draws DRAWS times and counts ids.
static void count_draws(struct harness *t, const struct moe_sampling *settings, int counts[VOCAB])
{
    moe_sampler *sampler = moe_sampler_new(settings, VOCAB);
    memset(counts, 0, VOCAB * sizeof *counts);
    if (!CHECK(t, sampler != NULL))
        return;
    for (int i = 0; i < DRAWS; i++) {
        int32_t id = moe_sample(sampler, logits, NULL, 0);
        if (CHECK(t, id >= 0 && id < VOCAB))
            counts[id]++;
    }
    moe_sampler_free(sampler);
}

// With a bias that changes nothing it goes the way of all settings, without one a short way.
static void greedy_takes_the_largest(struct harness *t)
{
    static const struct moe_logit_bias none = {.id = 0, .bias = 0};
    for (size_t n_biases = 0; n_biases < 2; n_biases++) {
        struct moe_sampling settings = plain;
        settings.temperature = 0;
        settings.biases = &none;
        settings.n_biases = n_biases;
        moe_sampler *sampler = moe_sampler_new(&settings, VOCAB);
        CHECK_EQ(t, moe_sample(sampler, logits, NULL, 0), 2);
        const float ties[VOCAB] = {1, 3, 3, 2, 3};
        CHECK_EQ(t, moe_sample(sampler, ties, NULL, 0), 1);
        const float broken[VOCAB] = {NAN, INFINITY, -1, -INFINITY, -2};
        CHECK_EQ(t, moe_sample(sampler, broken, NULL, 0), 2);
        const float nothing[VOCAB] = {NAN, NAN, INFINITY, -INFINITY, NAN};
        CHECK_EQ(t, moe_sample(sampler, nothing, NULL, 0), -1);
        moe_sampler_free(sampler);
    }
}

static void frequencies_follow_probabilities(struct harness *t)
{
    int counts[VOCAB];
    count_draws(t, &plain, counts);
    for (int i = 0; i < VOCAB; i++)
        CHECK(t, fabs(counts[i] / (double)DRAWS - probability[i]) < 0.015);
}

static void temperature_sharpens(struct harness *t)
{
    struct moe_sampling settings = plain;
    settings.temperature = 0.5f; // squares the probabilities: 64, 16, 4, 1, 1 of 86
    int counts[VOCAB];
    count_draws(t, &settings, counts);
    CHECK(t, fabs(counts[2] / (double)DRAWS - 64.0 / 86) < 0.015);
    CHECK(t, fabs(counts[0] / (double)DRAWS - 16.0 / 86) < 0.015);
}

static void each_cut_cuts(struct harness *t)
{
    int counts[VOCAB];
    struct moe_sampling settings = plain;
    settings.top_k = 2;
    count_draws(t, &settings, counts);
    CHECK(t, counts[2] && counts[0] && !counts[1] && !counts[3] && !counts[4]);
    CHECK(t, fabs(counts[2] / (double)DRAWS - 2.0 / 3) < 0.015);
    settings = plain;
    settings.top_p = 0.8f;
    count_draws(t, &settings, counts);
    CHECK(t, counts[2] && counts[0] && counts[4] && !counts[1] && !counts[3]);
    settings = plain;
    settings.min_p = 0.3f;
    count_draws(t, &settings, counts);
    CHECK(t, counts[2] && counts[0] && !counts[4] && !counts[1] && !counts[3]);
    settings = plain;
    settings.top_p = 0.0001f;
    count_draws(t, &settings, counts);
    CHECK_EQ(t, counts[2], DRAWS);
}

static void penalty_turns_from_recent(struct harness *t)
{
    struct moe_sampling settings = plain;
    settings.temperature = 0;
    settings.repetition_penalty = 3;
    moe_sampler *sampler = moe_sampler_new(&settings, VOCAB);
    const int32_t recent[] = {2, 99, -4};
    CHECK_EQ(t, moe_sample(sampler, logits, recent, 3), 0);
    CHECK_EQ(t, moe_sample(sampler, logits, NULL, 0), 2);
    const float positive[VOCAB] = {1, 2, 4, 1, 1};
    CHECK_EQ(t, moe_sample(sampler, positive, recent, 1), 1);
    moe_sampler_free(sampler);
}

static void seeds_repeat(struct harness *t)
{
    struct moe_sampling other = plain;
    other.seed = 8;
    moe_sampler *a = moe_sampler_new(&plain, VOCAB);
    moe_sampler *b = moe_sampler_new(&plain, VOCAB);
    moe_sampler *c = moe_sampler_new(&other, VOCAB);
    int different = 0;
    for (int i = 0; i < 200; i++) {
        int32_t id = moe_sample(a, logits, NULL, 0);
        CHECK_EQ(t, moe_sample(b, logits, NULL, 0), id);
        different += moe_sample(c, logits, NULL, 0) != id;
    }
    CHECK(t, different > 20);
    moe_sampler_free(a);
    moe_sampler_free(b);
    moe_sampler_free(c);
}

// Of as likely tokens each number chooses its own: those of splitmix64 as they are published for this seed.
static void numbers_are_those_of_splitmix64(struct harness *t)
{
    static const uint64_t published[] = {6457827717110365317u, 3203168211198807973u, 9817491932198370423u,
                                         4593380528125082431u, 16408922859458223821u};
    enum { ALIKE = 4096 };
    static const float zeros[ALIKE];
    struct moe_sampling settings = plain;
    settings.seed = 1234567;
    moe_sampler *sampler = moe_sampler_new(&settings, ALIKE);
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++)
        CHECK_EQ(t, moe_sample(sampler, zeros, NULL, 0), (int32_t)(published[i] >> 52));
    moe_sampler_free(sampler);
}

// ---- drawn from all, in the plainest way

enum { MANY = 3000, RECENT = 20 };
struct ranked {
    int32_t id;
    float logit;
    double weight;
};

static int by_rank(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit < y->logit ? 1 : -1;
    return x->id - y->id;
}

// The first number of a seed's generator (splitmix64).
static double first_drawn(uint64_t seed)
{
    uint64_t z = seed + 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static int32_t drawn_from_all(const struct moe_sampling *s, const float *given, const int32_t *recent)
{
    static struct ranked all[MANY];
    uint32_t n = 0, kept = 0;
    double total = 0, sum = 0;
    for (int32_t id = 0; id < MANY; id++) {
        float logit = given[id];
        bool again = false;
        for (int i = 0; i < RECENT; i++)
            again |= recent[i] == id;
        if (!isfinite(logit))
            continue;
        if (again)
            logit = logit > 0 ? logit / s->repetition_penalty : logit * s->repetition_penalty;
        all[n++] = (struct ranked){id, logit, 0};
    }
    qsort(all, n, sizeof *all, by_rank);
    for (uint32_t i = 0; i < n; i++)
        all[i].weight = exp(((double)all[i].logit - (double)all[0].logit) / (double)s->temperature);
    if (s->top_k && s->top_k < n)
        n = s->top_k;
    for (uint32_t i = 0; i < n; i++)
        total += all[i].weight;
    while (kept < n &&
           (kept == 0 || (sum < (double)s->top_p * total && all[kept].weight >= (double)s->min_p * all[0].weight)))
        sum += all[kept++].weight;
    double target = first_drawn(s->seed) * sum;
    uint32_t chosen = 0;
    for (sum = all[0].weight; chosen + 1 < kept && sum <= target;)
        sum += all[++chosen].weight;
    return all[chosen].id;
}

// Steep and flat ones, with all cuts, some of which must look at every candidate.
static void as_drawn_from_all(struct harness *t)
{
    static const float temperatures[] = {0.3f, 0.6f, 1, 3}, steep[] = {0.1f, 1, 2, 6};
    static const float top_p[] = {1, 1, 0.95f, 0.5f, 0.999999f}, min_p[] = {0, 0, 0.05f, 1e-11f};
    static const uint32_t top_k[] = {0, 0, 1, 40, 2990};
    static float given[MANY];
    uint32_t state = 1;
    for (uint64_t i = 0; i < 1500; i++) {
        int32_t recent[RECENT];
        float slope = steep[i % 4];
        for (int id = 0; id < MANY; id++) {
            state = state * 1664525u + 1013904223u;
            given[id] = 9 - slope * logf(1 + (float)(state >> 20)); // many are equal
        }
        given[i % MANY] = i % 7 == 0 ? NAN : INFINITY;
        for (int k = 0; k < RECENT; k++)
            recent[k] = (int32_t)((i * 31 + (uint64_t)k * 97) % MANY);
        struct moe_sampling settings = {.temperature = temperatures[i / 4 % 4],
                                        .top_p = top_p[i / 16 % 5],
                                        .min_p = min_p[i / 5 % 4],
                                        .top_k = top_k[i / 3 % 5],
                                        .repetition_penalty = i % 3 ? 1 : 1.3f,
                                        .seed = i};
        moe_sampler *sampler = moe_sampler_new(&settings, MANY);
        int32_t id = moe_sample(sampler, given, recent, RECENT), want = drawn_from_all(&settings, given, recent);
        if (!CHECK_EQ(t, id, want))
            printf("    case %d\n", (int)i);
        moe_sampler_free(sampler);
    }
}

// A likely one, ten that weigh a millionth of it each, and thousands that weigh too little to be looked at, but
// together more than one of the ten: they decide which of these is drawn, or where top_p ends.
static void the_unlikely_weigh_together(struct harness *t)
{
    static const uint64_t seeds[] = {72812, 846459, 1080687, 1206848};
    static int32_t none[RECENT];
    memset(none, 0xff, sizeof none);
    static float given[MANY];
    for (int id = 0; id < MANY; id++)
        given[id] = id == 7 ? 0 : id % 300 == 8 ? logf(1e-6f) : logf(0.9e-9f);
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
        for (int cuts = 0; cuts < 2; cuts++) {
            struct moe_sampling settings = plain;
            settings.seed = seeds[i];
            settings.top_p = cuts ? 0.99999f : 1;
            double drawn = first_drawn(seeds[i]);
            CHECK(t, drawn > 1 - 9e-6 && drawn < 1 - 4e-6);
            moe_sampler *sampler = moe_sampler_new(&settings, MANY);
            CHECK_EQ(t, moe_sample(sampler, given, none, 0), drawn_from_all(&settings, given, none));
            moe_sampler_free(sampler);
        }
}

static void bad_settings_are_refused(struct harness *t)
{
    struct moe_sampling s = plain;
    CHECK(t, !moe_sampling_check(&s));
    s.temperature = -1;
    CHECK(t, moe_sampling_check(&s) && !moe_sampler_new(&s, VOCAB));
    s = plain;
    s.temperature = NAN;
    CHECK(t, moe_sampling_check(&s) != NULL);
    s = plain;
    s.top_p = 0;
    CHECK(t, moe_sampling_check(&s) != NULL);
    s = plain;
    s.min_p = 1.5f;
    CHECK(t, moe_sampling_check(&s) != NULL);
    s = plain;
    s.repetition_penalty = 0;
    CHECK(t, moe_sampling_check(&s) != NULL);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(greedy_takes_the_largest),
        TEST(frequencies_follow_probabilities),
        TEST(temperature_sharpens),
        TEST(each_cut_cuts),
        TEST(penalty_turns_from_recent),
        TEST(seeds_repeat),
        TEST(bad_settings_are_refused),
        TEST(as_drawn_from_all),
        TEST(numbers_are_those_of_splitmix64),
        TEST(the_unlikely_weigh_together),
    };
    return HARNESS_RUN(tests, argc, argv);
}
