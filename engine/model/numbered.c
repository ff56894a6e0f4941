// SPDX-License-Identifier: GPL-3.0-or-later
// Reads a name from its end.
#include "engine/model/numbered.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static const char *digits(const char *at, uint32_t *number)
{
    const char *begin = at;
    for (*number = 0; isdigit((unsigned char)*at) && at - begin < 6; at++)
        *number = *number * 10 + (uint32_t)(*at - '0');
    return at - begin >= 5 ? at : NULL;
}

bool numbered_parse(const char *path, const char *suffix, struct numbered *numbered)
{
    size_t length = strlen(path), tail = strlen(suffix);
    for (size_t i = length; i-- > 0 && path[i] != '/';) {
        if (path[i] != '-')
            continue;
        const char *at = digits(path + i + 1, &numbered->number);
        if (!at || strncmp(at, "-of-", 4) != 0 || !(at = digits(at + 4, &numbered->count)))
            continue;
        numbered->prefix = i;
        return strlen(at) == tail && strcasecmp(at, suffix) == 0 && numbered->number >= 1 &&
               numbered->number <= numbered->count;
    }
    return false;
}
