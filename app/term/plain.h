// SPDX-License-Identifier: GPL-3.0-or-later
// The plain face of the chat: append-only lines, readline at the prompt, or one message a line from a pipe.
#ifndef MOECHAT_APP_TERM_PLAIN_H
#define MOECHAT_APP_TERM_PLAIN_H

#include "app/options/options.h"

int plain_chat(const struct options *options); // an exit status

#endif
