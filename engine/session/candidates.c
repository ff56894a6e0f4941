// SPDX-License-Identifier: GPL-3.0-or-later
// The likeliest tokens with their probabilities, for /inspect.
#include <math.h>
#include <string.h>

#include "engine/moe.h"

// e^x for x <= 0 in a nanosecond, within 3 % of itself and right on average: x * log2(e) as the bits of a float, whose
// exponent is its whole part and whose mantissa nearly 2 to its part (Schraudolph 1999, the constant for the mean).
static inline float exp_roughly(float x)
{
    float clamped = x > -87.0F ? x : -87.0F;
    int32_t bits = (int32_t)(clamped * 12102203.2F) + 1064866805;
    float power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

// Puts a candidate where it belongs among those found so far.
static size_t insert(struct moe_candidate *candidates, size_t found, size_t n, struct moe_candidate new)
{
    size_t at = found < n ? found++ : n - 1;
    for (; at > 0 && candidates[at - 1].probability < new.probability; at--)
        candidates[at] = candidates[at - 1];
    candidates[at] = new;
    return found;
}

size_t moe_candidates(const float *logits, uint32_t vocab_size, struct moe_candidate *candidates, size_t n)
{
    size_t found = 0;
    float least = -INFINITY;
    for (uint32_t i = 0; i < vocab_size && n > 0; i++) {
        if (!(logits[i] > least) || logits[i] == INFINITY)
            continue;
        found = insert(candidates, found, n, (struct moe_candidate){(int32_t)i, logits[i]});
        least = found < n ? -INFINITY : candidates[n - 1].probability;
    }
    if (found == 0)
        return 0;
    float largest = candidates[0].probability, sum = 0;
    for (uint32_t i = 0; i < vocab_size; i++)
        sum += logits[i] <= largest ? exp_roughly(logits[i] - largest) : 0; // those that are no candidates: infinite
    for (size_t i = 0; i < found; i++) {                                    // those that weigh most are added exactly
        float above = candidates[i].probability - largest;
        candidates[i].probability = expf(above);
        sum += candidates[i].probability - exp_roughly(above);
    }
    for (size_t i = 0; i < found; i++)
        candidates[i].probability /= sum;
    return found;
}

float moe_probability(const float *logits, const struct moe_candidate *likeliest, int32_t id)
{
    return likeliest->probability * expf(logits[id] - logits[likeliest->id]);
}
