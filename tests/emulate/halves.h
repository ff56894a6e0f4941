// SPDX-License-Identifier: GPL-3.0-or-later
// To float16 by whole numbers, as PTX has it: subnormal ones too, rounded to nearest even, 0x7fff for what is no
// number.
#ifndef MOECHAT_EMULATE_HALVES_H
#define MOECHAT_EMULATE_HALVES_H

#include "kernels/numbers.h"

static inline uint32_t half_of(float value)
{
    uint32_t bits = number_pattern(value), size = bits & 0x7fffffff, sign = bits >> 16 & 0x8000;
    if (size > 0x7f800000)
        return 0x7fff;
    if (size >= 0x47800000) // 65536 and more
        return sign | 0x7c00;
    if (size >= 0x38800000) // 2^-14: a carry may reach the infinity
        return sign | (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13;
    return sign | (number_pattern(number_bits(size) + 0.5f) - number_pattern(0.5f)); // units of 2^-24
}

#endif
