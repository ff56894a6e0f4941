// SPDX-License-Identifier: GPL-3.0-or-later
// What takes long, on a terminal: one line that is rewritten in place, "Reading weights: 12.3 of 20.1 MB, 4 s left".
// How far it is, is the engine's struct moe_progress, handed on whole from where it is made to where it is shown.
#ifndef MOECHAT_APP_UTIL_PROGRESS_H
#define MOECHAT_APP_UTIL_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "engine/moe.h"

// When something will be over, as estimates of it come: what is shown counts down evenly and follows them slowly,
// but is never less than half of the last. Zero-initialise.
struct progress_eta {
    bool known;
    double end, at; // seconds on the caller's clock: the end, and when the last estimate came
};
// The seconds left that are to be shown, given an estimate (below 0: none). Below 0: nothing is known yet.
double progress_steady(struct progress_eta *eta, double left, double now);

// Zero-initialise; out is NULL or not a terminal: nothing is shown.
struct progress {
    FILE *out;
    bool plain; // no rewriting: one line each time the subject changes
    uint64_t began_ns, shown_ns;
    int columns; // of the line that stands there now
    char what[48];
    struct progress_eta eta;
};
void progress_show(struct progress *progress, const struct moe_progress *at);
void progress_take(void *progress, const struct moe_progress *at); // the same, as a moe_progress_fn
void progress_clear(struct progress *progress);
// The words alone; left: seconds, below 0: not known. Returns out.
char *progress_words(char *out, size_t size, const struct moe_progress *at, double left);
// What was read for it, and what is still to be read: "1.50 GB read, about 3.20 GB to read"; "": nothing.
char *progress_bytes(char *out, size_t size, const struct moe_progress *at);
// How long it may still take: as `at` says, else as what is done took. Below 0: too early to say.
double progress_seconds_left(const struct moe_progress *at, double seconds);

#endif
