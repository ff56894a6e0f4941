// SPDX-License-Identifier: GPL-3.0-or-later
// Bytes, counts and durations as people write them.
#include "app/util/format.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/moe.h"

static char *scaled(char *out, size_t size, uint64_t value, const char *const units[], size_t n_units)
{
    double shown = (double)value;
    size_t unit = 0;
    while (shown >= 999.5 && unit + 1 < n_units) {
        shown /= 1000;
        unit++;
    }
    int decimals = unit == 0 || shown >= 99.95 ? 0 : shown >= 9.995 ? 1 : 2;
    snprintf(out, size, "%.*f%s", decimals, shown, units[unit]);
    return out;
}

static const char *const byte_units[] = {" B", " KB", " MB", " GB", " TB", " PB"};

char *format_bytes(char *out, size_t size, uint64_t bytes)
{
    return scaled(out, size, bytes, byte_units, sizeof byte_units / sizeof *byte_units);
}

char *format_bytes_up(char *out, size_t size, uint64_t bytes)
{
    uint64_t step = 1; // of the last of three digits
    while (bytes / step > 999 || (bytes / step == 999 && bytes % step))
        step *= 10;
    return format_bytes(out, size, bytes % step ? (bytes / step + 1) * step : bytes);
}

char *format_bytes_typed(char *out, size_t size, uint64_t bytes)
{
    char *space = strchr(format_bytes_up(out, size, bytes), ' ');
    if (space && strcmp(space, " B") == 0)
        *space = 0;
    else if (space)
        memmove(space, space + 1, strlen(space));
    return out;
}

char *format_count(char *out, size_t size, uint64_t count)
{
    static const char *const units[] = {"", " thousand", " million", " billion", " trillion"};
    return scaled(out, size, count, units, sizeof units / sizeof units[0]);
}

char *format_percent(char *out, size_t size, double share, int digits)
{
    double least = 1; // of what is told apart
    for (int i = 0; i < digits; i++)
        least /= 10;
    bool nearly = share < 1 && 100 * share > 100 - least;
    snprintf(out, size, "%.*f", digits, nearly ? 100 - least : 100 * share);
    return out;
}

char *format_duration(char *out, size_t size, double seconds)
{
    if (seconds < 9.95) {
        snprintf(out, size, "%.1f s", seconds);
        return out;
    }
    unsigned long whole = seconds < 1e9 ? (unsigned long)(seconds + 0.5) : 1000000000ul;
    if (whole < 60)
        snprintf(out, size, "%lu s", whole);
    else if (whole < 3600)
        snprintf(out, size, "%lu min %lu s", whole / 60, whole % 60);
    else
        snprintf(out, size, "%lu h %lu min", whole / 3600, whole / 60 % 60);
    return out;
}

const char *format_s(uint64_t count)
{
    return count == 1 ? "" : "s";
}

char *format_tokens(char *out, size_t size, uint64_t tokens, double per_second)
{
    char speed[FORMAT_SIZE] = "";
    if (per_second > 0)
        snprintf(speed, sizeof speed, ", %.1f tokens/s", per_second);
    snprintf(out, size, "%" PRIu64 " token%s%s", tokens, format_s(tokens), speed);
    return out;
}

bool format_clock_is_fake(void)
{
    const char *wanted = getenv("MOECHAT_CLOCK");
    return wanted && strcmp(wanted, "fake") == 0;
}

uint64_t format_unix_time(void)
{
    time_t now = time(NULL);
    return now > 0 ? (uint64_t)now : 0;
}

uint64_t format_clock_ns(void)
{
    if (format_clock_is_fake())
        return 0;
    return moe_clock_ns();
}
