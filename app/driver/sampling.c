// SPDX-License-Identifier: GPL-3.0-or-later
// Reads what sampling has as texts.
#include "app/driver/sampling.h"

#include <ctype.h>
#include <inttypes.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool read_bias(const char *text, struct moe_logit_bias *bias)
{
    char *end;
    errno = 0;
    unsigned long id = isdigit((unsigned char)*text) ? strtoul(text, &end, 10) : ULONG_MAX;
    if (id > INT32_MAX || *end != '=' || !end[1])
        return false;
    const char *number = end + 1;
    bias->id = (int32_t)id;
    bias->bias = strcmp(number, "-inf") == 0 ? -INFINITY : strtof(number, &end);
    return (isinf(bias->bias) && number[0] == '-' && strcmp(number, "-inf") == 0) ||
           (isfinite(bias->bias) && *end == 0 && end != number && !isspace((unsigned char)*number));
}

size_t sampling_biases(const struct sampling *sampling, struct moe_logit_bias biases[TEXTS_MOST])
{
    char text[TEXTS_EACH];
    size_t n = 0;
    for (const char *rest = sampling->logit_bias.line; n < TEXTS_MOST && texts_next(&rest, text);)
        n += read_bias(text, &biases[n]);
    return n;
}

#define TAKES "takes ID=X,... with a number or -inf, such as 42=-2.5,7=-inf"

const char *sampling_biases_check(const char *line)
{
    char text[TEXTS_EACH];
    struct moe_logit_bias bias;
    for (const char *rest = line; texts_next(&rest, text);)
        if (!read_bias(text, &bias))
            return TAKES;
    return NULL;
}

const char *sampling_check(const struct sampling *sampling)
{
    return sampling_biases_check(sampling->logit_bias.line) ? "logit-bias " TAKES
                                                            : moe_sampling_check(&sampling->numbers);
}

bool sampling_outside(char out[SAMPLING_OUTSIDE], const struct sampling *sampling, uint32_t vocab_size)
{
    struct moe_logit_bias biases[TEXTS_MOST];
    size_t n = vocab_size ? sampling_biases(sampling, biases) : 0;
    for (size_t i = 0; i < n; i++) {
        if ((uint32_t)biases[i].id < vocab_size)
            continue;
        snprintf(out, SAMPLING_OUTSIDE, "logit-bias: token %" PRIi32 " is outside the vocabulary of %" PRIu32 " tokens",
                 biases[i].id, vocab_size);
        return true;
    }
    return false;
}

static bool has(const char *bytes, size_t length, const char *text, size_t text_length)
{
    for (size_t i = 0; i + text_length <= length; i++)
        if (memcmp(bytes + i, text, text_length) == 0)
            return true;
    return false;
}

bool sampling_breaks(const struct sampling *sampling, const char *bytes, size_t length)
{
    char text[TEXTS_EACH];
    size_t text_length;
    for (const char *rest = sampling->dry_breakers.line; (text_length = texts_next(&rest, text));)
        if (has(bytes, length, text, text_length))
            return true;
    return false;
}
