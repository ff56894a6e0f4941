// SPDX-License-Identifier: GPL-3.0-or-later
// Unicode's normalization form C: a letter and the marks behind it as one character where there is one. What tokenizers
// with the normalizer NFC make of text before they cut it. Source: Unicode Standard Annex 15 and chapter 3.12.
#ifndef MOECHAT_COMPOSED_H
#define MOECHAT_COMPOSED_H

#include <stdbool.h>
#include <stddef.h>

// UTF-8 to UTF-8. *out NULL: it is composed already; else the caller frees it. Takes n steps. False: no memory.
bool composed_text(const char *text, size_t length, char **out, size_t *out_length);

#endif
