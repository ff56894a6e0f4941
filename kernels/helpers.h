// SPDX-License-Identifier: GPL-3.0-or-later
// Processes that do a job each beside this one, as many at a time as there are processors. A helper's standard input is
// a pipe that ends when this process does, or when it wants no more of it; what it says is read, and kept if it fails.
// All of it belongs to one thread.
#ifndef MOECHAT_HELPERS_H
#define MOECHAT_HELPERS_H

#include <stdbool.h>

enum { HELPER_SAID = 160 };

struct helpers;

// Starts `command` (ended by NULL) with each of n jobs behind it; the jobs are copied. NULL: no memory.
struct helpers *helpers_start(const char *const *command, const char *const *jobs, unsigned n);
// Waits until one more has ended. False: none is left.
bool helpers_next(struct helpers *helpers);
// How many have ended but not well, or could not be started, and what the first of these said, as a line; `said` stays
// as it was where there are none.
unsigned helpers_failed(const struct helpers *helpers, char said[HELPER_SAID]);
// Those that are left are ended. NULL is fine.
void helpers_release(struct helpers *helpers);

// In a helper: from here on it ends when its standard input does.
void helper_follows(void);

#endif
