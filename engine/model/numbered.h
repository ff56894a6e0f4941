// SPDX-License-Identifier: GPL-3.0-or-later
// The names of files of which a model has several: "PREFIX-00002-of-000163.SUFFIX".
#ifndef MOECHAT_ENGINE_MODEL_NUMBERED_H
#define MOECHAT_ENGINE_MODEL_NUMBERED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct numbered {
    size_t prefix; // bytes
    uint32_t number, count;
};
// Both numbers of 5 or 6 digits, 1 <= number <= count; the suffix in letters of any case. False: it is named otherwise,
// and *numbered is not to be used.
bool numbered_parse(const char *path, const char *suffix, struct numbered *numbered);

#endif
