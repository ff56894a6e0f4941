// SPDX-License-Identifier: GPL-3.0-or-later
// What readline writes before its line. Where it scrolls the line along one row, a label with bytes of no width (its
// colours, between \001 and \002) makes it go round for ever on a screen about as wide as them: there it has none, and
// so have the words of its modes (show-mode-in-prompt). A file of key bindings that is read, or another size, may
// change where that is. UI thread only, as all that is readline's.
#ifndef MOECHAT_APP_TERM_LABEL_H
#define MOECHAT_APP_TERM_LABEL_H

#include <stdbool.h>

struct label {
    char *given, *plain; // ours
};

bool label_take(struct label *label, const char *given); // NULL: ""; false: no memory
void label_release(struct label *label);                 // zeroed is fine
// As it is to be on the terminal as it is, once readline has begun; the modes' words are made so as well. The label's.
const char *label_now(const struct label *label);

#endif
