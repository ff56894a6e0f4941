// SPDX-License-Identifier: GPL-3.0-or-later
// Characters that came to Unicode after 14.0, which Debian's PCRE2 knows: the tokenizers library (0.23, Unicode 16)
// sees letters and marks where PCRE2 sees nothing. So patterns look at an older character in their place, of the same
// category and as many bytes, and of its script where patterns may name that. But for Cyrillic: of what could stand in
// for U+1C89 all is in ranges that V2 lists (newer.c), and nothing has four bytes, as U+1E030 to U+1E06D and U+1E08F
// have. So \p{Cyrillic}, which no pattern of the family names, lacks these.
#ifndef MOECHAT_NEWER_H
#define MOECHAT_NEWER_H

#include <stdint.h>

uint32_t newer_stand_in(uint32_t code); // the code itself when it is older

#endif
