// SPDX-License-Identifier: GPL-3.0-or-later
// What Tab offers, as readline wants it.
#ifndef MOECHAT_APP_TERM_MATCHES_H
#define MOECHAT_APP_TERM_MATCHES_H

#include "app/talk/candidates.h"

// What `word` may become: an array that begins with what all have in common, ends with NULL and is the caller's to
// free, with its texts. Takes *found over. Sets what readline puts behind a single one. NULL: nothing, or no memory.
char **matches_of(struct candidates *found, const char *word);

#endif
