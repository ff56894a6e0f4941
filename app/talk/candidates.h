// SPDX-License-Identifier: GPL-3.0-or-later
// What Tab offers for a line that is being typed: commands, then what the command takes: names of sessions, settings,
// words, paths, in quotes where the command wants them so. All begin with what is typed, but for such quotes; where no
// session's name does, those that hold it somewhere are offered.
// Reads folders for paths; else pure.
#ifndef MOECHAT_APP_TALK_CANDIDATES_H
#define MOECHAT_APP_TALK_CANDIDATES_H

#include <stdbool.h>
#include <stddef.h>

struct candidate_names {
    const char *const *names; // of sessions
    size_t count;
};

// Zero-initialise.
struct candidates {
    size_t start; // where the word that they complete begins, behind any blanks, in bytes of the line
    char **words; // whole words, sorted; a folder's ends with /
    size_t count;
};
// False: nothing to offer. Words that there is no memory for are missing.
bool candidates_find(struct candidates *candidates, const char *line, size_t point,
                     const struct candidate_names *sessions);
void candidates_release(struct candidates *candidates);

#endif
