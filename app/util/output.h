// SPDX-License-Identifier: GPL-3.0-or-later
// Standard output and standard error as streams that wait: a parent of ours may have left a pipe or a terminal that
// does not (O_NONBLOCK is of what is open, and so of all who share it: we leave it), and stdio loses what does not go
// at once.
#ifndef MOECHAT_APP_UTIL_OUTPUT_H
#define MOECHAT_APP_UTIL_OUTPUT_H

// Puts them in the place of stdout and stderr, which have no fileno then; to be called before either is written to.
// Without memory for it they stay what they are.
void output_begin(void);

#endif
