// SPDX-License-Identifier: GPL-3.0-or-later
// The number formats of checkpoints, as float32 and back.
#ifndef MOECHAT_KERNELS_NUMBERS_H
#define MOECHAT_KERNELS_NUMBERS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float number_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t number_pattern(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float number_from_bf16(uint16_t bits)
{
    return number_bits((uint32_t)bits << 16);
}

// Round to nearest even; not-a-numbers stay so.
static inline uint16_t number_to_bf16(float value)
{
    uint32_t bits = number_pattern(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static inline float number_from_half(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
    uint32_t exponent = bits >> 10 & 31u;
    uint32_t mantissa = bits & 1023u;
    if (exponent == 31)
        return number_bits(sign | 0x7f800000u | mantissa << 13);
    if (exponent)
        return number_bits(sign | (exponent + 112) << 23 | mantissa << 13);
    float value = (float)mantissa * 0x1p-24f;
    return sign ? -value : value;
}

// float8_e4m3fn: no infinities, 0x7f and 0xff are not numbers.
static inline float number_from_fp8(uint8_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x80u) << 24;
    uint32_t exponent = bits >> 3 & 15u;
    uint32_t mantissa = bits & 7u;
    if ((bits & 0x7fu) == 0x7f)
        return number_bits(sign | 0x7fc00000u);
    if (exponent)
        return number_bits(sign | (exponent + 120) << 23 | mantissa << 20);
    float value = (float)mantissa * 0x1p-9f;
    return sign ? -value : value;
}

#endif
