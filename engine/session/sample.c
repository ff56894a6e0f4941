// SPDX-License-Identifier: GPL-3.0-or-later
// Logits -> one id. In this order: biases, repetition penalty (as in transformers: positive logits of recent ids are
// divided, negative ones multiplied), DRY, temperature, top_k, top_p, min_p, then a draw. Only sums of doubles in a
// fixed order and a generator of our own (splitmix64), so a seed gives the same ids everywhere.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/session/dry.h"

struct candidate {
    int32_t id;
    float logit;
    double weight; // exp(logit - largest), not normalised
};

struct moe_sampler {
    struct moe_sampling settings;
    uint32_t vocab_size;
    uint64_t state;
    struct candidate *candidates; // [vocab_size]
    float *adjusted;              // [vocab_size], the logits as biases and penalties leave them
    bool *penalised;              // [vocab_size], all false between calls
    float *bias;                  // [vocab_size], NULL: none
    struct dry dry;               // open if its multiplier is not 0
};

const char *moe_sampling_check(const struct moe_sampling *s)
{
    if (!(s->temperature >= 0 && s->temperature <= 100))
        return "temperature must be from 0 to 100";
    if (!(s->top_p > 0 && s->top_p <= 1))
        return "top_p must be above 0 and at most 1";
    if (!(s->min_p >= 0 && s->min_p <= 1))
        return "min_p must be from 0 to 1";
    if (!(s->repetition_penalty > 0 && s->repetition_penalty <= 100))
        return "repetition_penalty must be above 0 and at most 100";
    if (!(s->dry.multiplier >= 0 && s->dry.multiplier <= 100))
        return "dry_multiplier must be from 0 to 100";
    if (s->dry.multiplier > 0 && !(s->dry.base >= 1 && s->dry.base <= 100))
        return "dry_base must be from 1 to 100";
    for (size_t i = 0; i < s->n_biases; i++)
        if (isnan(s->biases[i].bias) || s->biases[i].bias == INFINITY || s->biases[i].id < 0)
            return "logit_bias takes numbers, or -inf, of token ids";
    return NULL;
}

// False: no memory, or no such id.
static bool take_biases(moe_sampler *sampler, const struct moe_sampling *sampling)
{
    if (!sampling->n_biases)
        return true;
    sampler->bias = calloc(sampler->vocab_size, sizeof *sampler->bias);
    bool fine = sampler->bias;
    for (size_t i = 0; i < sampling->n_biases && fine; i++) {
        fine = (uint32_t)sampling->biases[i].id < sampler->vocab_size;
        if (fine)
            sampler->bias[sampling->biases[i].id] = sampling->biases[i].bias;
    }
    return fine;
}

moe_sampler *moe_sampler_new(const struct moe_sampling *sampling, uint32_t vocab_size)
{
    if (moe_sampling_check(sampling))
        return NULL;
    moe_sampler *sampler = calloc(1, sizeof *sampler);
    if (!sampler)
        return NULL;
    sampler->settings = *sampling;
    sampler->vocab_size = vocab_size;
    sampler->state = sampling->seed;
    sampler->candidates = calloc(vocab_size, sizeof *sampler->candidates);
    sampler->adjusted = calloc(vocab_size, sizeof *sampler->adjusted);
    sampler->penalised = calloc(vocab_size, sizeof *sampler->penalised);
    bool fine = take_biases(sampler, sampling) &&
                (sampling->dry.multiplier == 0 || dry_open(&sampler->dry, &sampling->dry, vocab_size));
    sampler->settings.biases = NULL;
    sampler->settings.dry.breakers = NULL; // they have their copies
    if (!sampler->candidates || !sampler->adjusted || !sampler->penalised || !fine) {
        moe_sampler_free(sampler);
        return NULL;
    }
    return sampler;
}

void moe_sampler_free(moe_sampler *sampler)
{
    if (!sampler)
        return;
    free(sampler->candidates);
    free(sampler->adjusted);
    free(sampler->penalised);
    free(sampler->bias);
    dry_release(&sampler->dry);
    free(sampler);
}

// Uniform in [0, 1), 53 bits.
static double draw(moe_sampler *sampler)
{
    uint64_t z = sampler->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static void mark_recent(moe_sampler *sampler, const int32_t *recent, size_t n_recent, bool mark)
{
    uint32_t last = sampler->settings.repetition_last_n;
    if (sampler->settings.repetition_penalty == 1)
        return;
    for (size_t i = last && last < n_recent ? n_recent - last : 0; i < n_recent; i++)
        if (recent[i] >= 0 && (uint32_t)recent[i] < sampler->vocab_size)
            sampler->penalised[recent[i]] = mark;
}

// The logits, biases and penalties applied; minus infinity: no candidate. Those given, if nothing changes them.
static const float *adjust(moe_sampler *sampler, const float *logits, bool repeats)
{
    float penalty = sampler->settings.repetition_penalty;
    if (!sampler->bias && penalty == 1 && !repeats)
        return logits;
    for (uint32_t id = 0; id < sampler->vocab_size; id++) {
        float logit = logits[id];
        if (!isfinite(logit)) {
            sampler->adjusted[id] = -INFINITY;
            continue;
        }
        if (sampler->bias)
            logit += sampler->bias[id];
        if (sampler->penalised[id])
            logit = logit > 0 ? logit / penalty : logit * penalty;
        if (sampler->dry.lengths && sampler->dry.lengths[id])
            logit -= dry_penalty(&sampler->settings.dry, sampler->dry.lengths[id]);
        sampler->adjusted[id] = logit;
    }
    return sampler->adjusted;
}

// The id of the largest finite logit, of equals the lowest; -1: none is finite.
static int32_t largest(const float *logits, uint32_t vocab_size)
{
    int32_t best = -1;
    float most = -INFINITY;
    for (uint32_t id = 0; id < vocab_size; id++)
        if (logits[id] > most && logits[id] < INFINITY) {
            most = logits[id];
            best = (int32_t)id;
        }
    return best;
}

// Largest first, of equals the lowest id.
static int by_logit(const void *a, const void *b)
{
    const struct candidate *x = a;
    const struct candidate *y = b;
    if (x->logit != y->logit)
        return x->logit < y->logit ? 1 : -1;
    return x->id > y->id ? 1 : -1;
}

// Brings the likeliest to the front, sorted, as many as the cuts can want, or all, and returns how many: sorting a
// whole vocabulary would take longer than a small model's token. Without top_k they want to weigh so much together, at
// least.
static uint32_t sort_head(const struct moe_sampling *settings, struct candidate *candidates, uint32_t n, double wanted)
{
    for (double least = 1e-3;; least *= 1e-3) {
        uint32_t head = 0;
        double sum = 0;
        for (uint32_t i = 0; i < n; i++) {
            struct candidate candidate = candidates[i];
            if (candidate.weight < least)
                continue;
            candidates[i] = candidates[head];
            candidates[head++] = candidate;
            sum += candidate.weight;
        }
        bool enough = settings->top_k ? head >= settings->top_k : sum >= wanted || least <= (double)settings->min_p;
        if (enough || head == n) {
            qsort(candidates, head, sizeof *candidates, by_logit);
            return head;
        }
    }
}

// Cuts the sorted, weighted candidates, of all of which `total` is the weight, to what top_p and min_p leave, at least
// one.
static uint32_t cut(const struct moe_sampling *settings, const struct candidate *candidates, uint32_t n, double total)
{
    double sum = 0;
    uint32_t kept = 0;
    while (kept < n && (kept == 0 || (sum < (double)settings->top_p * total &&
                                      candidates[kept].weight >= (double)settings->min_p * candidates[0].weight)))
        sum += candidates[kept++].weight;
    return kept;
}

static double weight_of(const struct candidate *candidates, uint32_t n)
{
    double total = 0;
    for (uint32_t i = 0; i < n; i++)
        total += candidates[i].weight;
    return total;
}

// What is to be drawn from: logits of which the largest that is finite is `most`; and a number in [0, 1).
struct draw_from {
    const float *logits;
    float most;
    double drawn;
};

// The candidates whose weight is at least `least`, with their weights. 0: all.
static uint32_t gather(moe_sampler *sampler, const struct draw_from *from, double least)
{
    double temperature = (double)sampler->settings.temperature, most = (double)from->most;
    double lowest = least > 0 ? most + temperature * log(least) : -INFINITY;
    float bound = nextafterf((float)lowest, -INFINITY); // rather one more
    uint32_t n = 0;
    for (uint32_t id = 0; id < sampler->vocab_size; id++) {
        float logit = from->logits[id];
        if (logit >= bound && fabsf(logit) < INFINITY)
            sampler->candidates[n++] =
                (struct candidate){(int32_t)id, logit, exp(((double)logit - most) / temperature)};
    }
    return n;
}

// Which of the n sorted candidates the number falls on, each as wide as its weight.
static uint32_t fall(const struct candidate *candidates, uint32_t n, double target)
{
    uint32_t chosen = 0;
    for (double sum = candidates[0].weight; chosen + 1 < n && sum <= target;)
        sum += candidates[++chosen].weight;
    return chosen;
}

// What candidates weigh together: what is known of it, sums in any order included.
struct bounds {
    double low, high;
};

// With all candidates that there are gathered, and with those that weigh at least `least`.
static struct bounds bounds_of(const moe_sampler *sampler, uint32_t gathered, double least)
{
    const double slack = 1e-9;
    double sum = weight_of(sampler->candidates, gathered);
    if (least == 0)
        return (struct bounds){sum, sum};
    return (struct bounds){sum * (1 - slack), (sum + (sampler->vocab_size - gathered) * least) * (1 + slack)};
}

// Draws from the candidates whose weight is at least `least`; of all others it is known how much they can weigh
// together. -1: that can make a difference, and they must be looked at, too; never with 0.
static int32_t draw_among(moe_sampler *sampler, const struct draw_from *from, double least)
{
    const struct moe_sampling *settings = &sampler->settings;
    struct candidate *candidates = sampler->candidates;
    uint32_t gathered = gather(sampler, from, least);
    struct bounds total = bounds_of(sampler, gathered, least);
    bool cuts = settings->top_k || settings->top_p < 1 || settings->min_p > 0;
    double wanted = cuts || least == 0 ? (double)settings->top_p : from->drawn;
    uint32_t n = sort_head(settings, candidates, gathered, wanted * total.high), kept, chosen;
    if (!cuts && least > 0) { // nobody asks how far they go on
        chosen = fall(candidates, n, from->drawn * total.low);
        return chosen + 1 < n && chosen == fall(candidates, n, from->drawn * total.high) ? candidates[chosen].id : -1;
    }
    if (settings->top_k && settings->top_k <= n)
        n = settings->top_k;
    else if (settings->top_k && least > 0)
        return -1;
    if (settings->top_k)
        total.low = total.high = weight_of(candidates, n);
    kept = cut(settings, candidates, n, total.low);
    if (least > 0 && !settings->top_k && (kept == n || kept != cut(settings, candidates, n, total.high)))
        return -1;
    return candidates[fall(candidates, kept, from->drawn * weight_of(candidates, kept))].id;
}

int32_t moe_sample(moe_sampler *sampler, const float *logits, const int32_t *recent, size_t n_recent)
{
    const struct moe_sampling *settings = &sampler->settings;
    struct draw_from from;
    bool repeats = sampler->dry.lengths && n_recent;
    if (repeats && !dry_find(&sampler->dry, &settings->dry, recent, n_recent))
        return -1;
    mark_recent(sampler, recent, n_recent, true);
    from.logits = adjust(sampler, logits, repeats);
    mark_recent(sampler, recent, n_recent, false);
    if (repeats)
        dry_forget(&sampler->dry, recent, n_recent);
    int32_t best = largest(from.logits, sampler->vocab_size);
    if (best < 0 || settings->temperature == 0)
        return best;
    from.most = from.logits[best];
    from.drawn = draw(sampler);
    // What weighs little is most of a vocabulary, and seldom makes a difference.
    int32_t id = settings->top_k ? draw_among(sampler, &from, 1e-4) : -1;
    id = id >= 0 ? id : draw_among(sampler, &from, 1e-9);
    return id >= 0 ? id : draw_among(sampler, &from, 0);
}
