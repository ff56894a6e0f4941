// SPDX-License-Identifier: GPL-3.0-or-later
// Amounts in the engine's own sentences, with three digits, as app/util/format.h has them. Each returns `out`.
#ifndef MOECHAT_ENGINE_BASE_AMOUNTS_H
#define MOECHAT_ENGINE_BASE_AMOUNTS_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { AMOUNT_SIZE = 32 };

static inline char *amount_in(char out[AMOUNT_SIZE], uint64_t amount, const char *const units[5])
{
    double shown = (double)amount;
    int unit = 0;
    for (; shown >= 999.5 && unit < 4; unit++)
        shown /= 1000;
    snprintf(out, AMOUNT_SIZE, "%.*f%s", unit == 0 || shown >= 99.95 ? 0 : shown >= 9.995 ? 1 : 2, shown, units[unit]);
    return out;
}

static inline char *amount_of_bytes(char out[AMOUNT_SIZE], uint64_t bytes) // "812 KB"
{
    static const char *const units[5] = {" B", " KB", " MB", " GB", " TB"};
    return amount_in(out, bytes, units);
}

static inline char *amount_of_numbers(char out[AMOUNT_SIZE], uint64_t count) // "397 thousand"
{
    static const char *const units[5] = {"", " thousand", " million", " billion", " trillion"};
    return amount_in(out, count, units);
}

// So many steps are that, the last one rounded up or to the nearest.
static inline uint64_t amount_in_steps(uint64_t amount, uint64_t step, bool up)
{
    uint64_t rest = amount % step;
    return amount / step + (up ? rest != 0 : rest >= step - rest);
}

// Three digits of a size as an option takes it, "689KB": rounded up, so that it is enough as it stands, or to the
// nearest.
static inline char *amount_to_type(char out[AMOUNT_SIZE], uint64_t bytes, bool up)
{
    static const char *const units[7] = {"B", "KB", "MB", "GB", "TB", "PB", "EB"};
    uint64_t step = 1; // what the last digit counts
    unsigned tens = 0;
    for (; amount_in_steps(bytes, step, up) > 999; tens++)
        step *= 10;
    uint64_t shown = amount_in_steps(bytes, step, up);
    unsigned decimals = (3 - tens % 3) % 3, whole = decimals == 2 ? 100 : decimals == 1 ? 10 : 1;
    int n = snprintf(out, AMOUNT_SIZE, "%" PRIu64, shown / whole);
    if (decimals)
        n += snprintf(out + n, AMOUNT_SIZE - (size_t)n, ".%0*" PRIu64, (int)decimals, shown % whole);
    snprintf(out + n, AMOUNT_SIZE - (size_t)n, "%s", units[(tens + 2) / 3]);
    return out;
}

#endif
