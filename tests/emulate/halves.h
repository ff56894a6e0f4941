// SPDX-License-Identifier: GPL-3.0-or-later
// float16 by whole numbers, as PTX has it: subnormal ones too, rounded to nearest even, 0x7fff for what is no number.
#ifndef MOECHAT_EMULATE_HALVES_H
#define MOECHAT_EMULATE_HALVES_H

#include <stdint.h>
#include <string.h>

static inline float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float of_half(uint32_t half)
{
    uint32_t size = half & 0x7fff;
    // the exponent's bias is 112 more; of infinities and what is no number it is the largest
    float value = float_of_bits(size << 13) * 0x1p112f;
    uint32_t bits = bits_of_float(value) | (size >= 0x7c00 ? 0x7f800000u : 0u) | (half & 0x8000) << 16;
    return float_of_bits(bits);
}

static inline uint32_t half_of(float value)
{
    uint32_t bits = bits_of_float(value), size = bits & 0x7fffffff, sign = bits >> 16 & 0x8000;
    if (size > 0x7f800000)
        return 0x7fff;
    if (size >= 0x47800000) // 65536 and more
        return sign | 0x7c00;
    if (size >= 0x38800000) // 2^-14: a carry may reach the infinity
        return sign | (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13;
    return sign | (bits_of_float(float_of_bits(size) + 0.5f) - bits_of_float(0.5f)); // units of 2^-24
}

#endif
