// SPDX-License-Identifier: GPL-3.0-or-later
// Text that comes in pieces, written in lines that end between words: for terminals that would cut words at their edge.
// A word is held until it is whole. Widths are those of cells.h. Sanitised text.
#ifndef MOECHAT_APP_VIEW_FLOW_H
#define MOECHAT_APP_VIEW_FLOW_H

#include <stdio.h>

#include "app/util/files.h"

// Zero-initialise.
struct flow {
    int column;         // where the next character goes
    struct bytes space; // before the word that is held
    struct bytes word;
    int width; // of the word
};
// columns: of the terminal; 0: as it comes.
void flow_push(struct flow *flow, FILE *out, int columns, const char *text, size_t length);
void flow_flush(struct flow *flow, FILE *out, int columns); // what is held, too
void flow_release(struct flow *flow);

#endif
