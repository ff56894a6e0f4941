// SPDX-License-Identifier: GPL-3.0-or-later
#ifndef MOECHAT_APP_UTIL_MARKS_H
#define MOECHAT_APP_UTIL_MARKS_H

#include <stdbool.h>
#include <stdint.h>

// Whether a code point is drawn onto the one before it: general categories Mn and Me of Unicode 14, and the Hangul
// vowels and finals.
bool is_mark(uint32_t code);

#endif
