// SPDX-License-Identifier: GPL-3.0-or-later
// What hands type that know other programs, ollama, llama.cpp, weechat, vi, and what to say of it. Pure.
#ifndef MOECHAT_APP_TALK_HABITS_H
#define MOECHAT_APP_TALK_HABITS_H

#include <stdbool.h>
#include <stddef.h>

// Of a name behind a slash that is no command: a sentence, NULL: none of these.
const char *habits_command(const char *name, size_t length);
// Our name of such a command, with its argument; NULL: none of these.
const char *habits_our_command(const char *name, size_t length);
// Of a message that is seldom meant to be sent: what does that here, half a sentence; NULL: it is as any. *which
// becomes its number, below HABITS_MESSAGES, as one is told of each but once.
enum { HABITS_MESSAGES = 32 };
const char *habits_message(const char *text, size_t length, unsigned *which);

// What other programs call a setting, and what there is in its place: a setting of ours, else what its words say.
struct habits_setting {
    const char *names; // "a|b"
    const char *ours, *words;
};
const struct habits_setting *habits_setting(const char *name); // NULL: none of these

#endif
