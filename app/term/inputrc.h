// SPDX-License-Identifier: GPL-3.0-or-later
// What is looked at before readline reads a file of key bindings, which it does without a limit: one that includes
// itself would end us in its recursion, and a pipe would be waited for.
#ifndef MOECHAT_APP_TERM_INPUTRC_H
#define MOECHAT_APP_TERM_INPUTRC_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

enum { INPUTRC_DEEP = 8, INPUTRC_FILES = 64, INPUTRC_REASON_SIZE = PATH_MAX + 100 };

// Whether readline can read it, with all that its $include lines name, in whatever $if. What is not there is no
// hindrance. False: `reason` says which file and why not.
bool inputrc_is_sane(const char *path, char reason[INPUTRC_REASON_SIZE]);

// readline begins, with $INPUTRC or ~/.inputrc; one that is not sane is not read, and that is reported.
void inputrc_initialize(void);
bool inputrc_read_again(void); // the same file. False: not read, or it could not be read
void inputrc_read_own(void);   // moechat's, last: it may change every key

#endif
