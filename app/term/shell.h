// SPDX-License-Identifier: GPL-3.0-or-later
// Commands that are given the terminal for a while.
#ifndef MOECHAT_APP_TERM_SHELL_H
#define MOECHAT_APP_TERM_SHELL_H

#include <stddef.h>

#include "app/util/files.h"

struct shell_command {
    const char *text;     // for /bin/sh
    const char *argument; // its $1
    struct bytes *output; // NULL: the terminal; else what it prints is added here, and it has nothing to read
    size_t most;          // of output
};

// Runs it in a process group of its own, which the terminal belongs to meanwhile, and waits for it; when it is stopped
// we are, too, and both go on together, once the terminal is ours again. One whose output is kept is given up at the
// second Ctrl-C, if it takes no notice of the first. Its status as of waitpid, or -1 and errno: EFBIG, it printed more
// than `most` and was ended; ENOTTY, its output is kept and it draws on the screen, so it was ended; EINTR, SIGTERM or
// SIGHUP came for us and was handed on; ENOMEM. On the main thread, not in raw mode. The terminal is only given where
// it is ours: whoever goes on to write to it waits for it first (term_await).
int shell_run(const struct shell_command *command);

#endif
