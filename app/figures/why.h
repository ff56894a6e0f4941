// SPDX-License-Identifier: GPL-3.0-or-later
// Why a step took as long as it did, in words: compared with what the others of the answer took. Pure.
#ifndef MOECHAT_APP_FIGURES_WHY_H
#define MOECHAT_APP_FIGURES_WHY_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/moe.h"

// What a token of an answer took: medians, each of its own.
struct usual {
    uint64_t total_ns, ns[MOE_INTERVALS];
    bool shared_out; // some of their parts are estimates
    uint32_t tokens; // of so many; 0: there were none
};

// What made it slower than usual most of all; of one that was not, what it spent most on.
enum moe_interval why_interval(const struct moe_telemetry *step, const struct usual *usual);
// It took one and a half times as long as usual, or longer. The steps of a prompt are not compared.
bool why_is_slow(const struct moe_telemetry *step, const struct usual *usual);
// A sentence, with "about" before estimates. Returns `out`.
enum { WHY_SIZE = 320 };
char *why_words(char out[WHY_SIZE], const struct moe_telemetry *step, const struct usual *usual);

#endif
