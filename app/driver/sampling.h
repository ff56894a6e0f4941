// SPDX-License-Identifier: GPL-3.0-or-later
// How an answer is sampled and where it stops: the engine's numbers, and texts as people gave them, which become ids
// once there is a vocabulary. A value without pointers: whoever sends a turn copies it.
#ifndef MOECHAT_APP_DRIVER_SAMPLING_H
#define MOECHAT_APP_DRIVER_SAMPLING_H

#include "app/util/texts.h"
#include "engine/moe.h"

struct sampling {
    struct moe_sampling numbers; // breakers and biases NULL
    struct texts stop;           // the answer ends before the first of these
    struct texts dry_breakers;   // a token that has one of these in it is no part of what DRY calls a repetition
    struct texts logit_bias;     // "ID=BIAS", a finite number or -inf
};
// NULL when all is fine, else what is wrong.
const char *sampling_biases_check(const char *line); // the same of biases, behind the option's name
const char *sampling_check(const struct sampling *sampling);
// Is a bias of a token that a vocabulary of that size hasn't? Then *out says so. Size 0 is not known, and has all.
enum { SAMPLING_OUTSIDE = 96 };
bool sampling_outside(char out[SAMPLING_OUTSIDE], const struct sampling *sampling, uint32_t vocab_size);
// The biases, of which there are at most TEXTS_MOST. Returns how many.
size_t sampling_biases(const struct sampling *sampling, struct moe_logit_bias biases[TEXTS_MOST]);
// Does the token's text have a breaker in it?
bool sampling_breaks(const struct sampling *sampling, const char *bytes, size_t length);

#endif
