// SPDX-License-Identifier: GPL-3.0-or-later
// A tokenizer's half of a comparison, for tests: texts on standard input, a line of hexadecimal digits each, become
// lines of ids.
#ifndef MOECHAT_TEST_IDS_RIG_H
#define MOECHAT_TEST_IDS_RIG_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/tok.h"

static inline bool comes_back(const tok *tokenizer, const struct tok_ids *list, const char *text, size_t length)
{
    size_t at = 0;
    for (size_t i = 0; i < list->count; i++) {
        const char *bytes;
        size_t n = tok_bytes(tokenizer, list->ids[i], &bytes);
        if (n == 0 || n > length - at || memcmp(bytes, text + at, n) != 0)
            return false;
        at += n;
    }
    return at == length;
}

static inline size_t from_hex(char *line)
{
    size_t length = 0;
    for (char *at = line; at[0] > ' ' && at[1] > ' '; at += 2) {
        char pair[3] = {at[0], at[1], 0};
        line[length++] = (char)strtol(pair, NULL, 16);
    }
    return length;
}

// back: each text's ids give it back, else the status is 1.
static inline int print_ids(const tok *tokenizer, bool back)
{
    struct tok_err err = {0};
    struct tok_ids list = {0};
    char *line = NULL;
    size_t room = 0;
    int status = 0;
    while (getline(&line, &room, stdin) > 0 && status == 0) {
        size_t length = from_hex(line);
        list.count = 0;
        if (tok_encode(tokenizer, line, length, &list, &err)) {
            fprintf(stderr, "%s\n", err.text);
            status = 1;
        } else if (back && !comes_back(tokenizer, &list, line, length)) {
            fprintf(stderr, "a text of %zu bytes did not come back\n", length);
            status = 1;
        }
        for (size_t i = 0; i < list.count; i++)
            printf("%s%d", i ? " " : "", list.ids[i]);
        putchar('\n');
    }
    free(line);
    tok_ids_release(&list);
    return status;
}

#endif
