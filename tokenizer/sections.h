// SPDX-License-Identifier: GPL-3.0-or-later
// What sections.c asks a template for.
#ifndef MOECHAT_SECTIONS_H
#define MOECHAT_SECTIONS_H

#include "tokenizer/tok.h"

// Fills turns and the symbols in, if the template has sections or keeps thinking between its marks.
void tok_template_sections(const tok_template *turns, struct tok_sections *sections);
// The ids that stand between the two, or close what is thought.
const struct tok_ids *tok_template_between(const tok_template *turns);

#endif
