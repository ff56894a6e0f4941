// SPDX-License-Identifier: GPL-3.0-or-later
// Characters that came to Unicode after 14.0, which Debian's PCRE2 knows: the tokenizers library (0.23, Unicode 16)
// sees letters and marks where PCRE2 sees nothing. So patterns look at an older character in their place, of the same
// category and as many bytes, Han or not as they are.
#ifndef MOECHAT_NEWER_H
#define MOECHAT_NEWER_H

#include <stdint.h>

uint32_t newer_stand_in(uint32_t code); // the code itself when it is older

#endif
