// SPDX-License-Identifier: GPL-3.0-or-later
// A split pattern of a tokenizer, written for Oniguruma (tokenizer.json) or Rust's regex crates (tiktoken), compiled
// for PCRE2 so that it finds the same pieces. What the three read differently is rewritten or refused by name: \s is
// Unicode's White_Space, \p{Han} the script without its extensions, [a&&[^b]] a class. const once made; any thread may
// search with a pattern_search of its own.
#ifndef MOECHAT_PATTERN_H
#define MOECHAT_PATTERN_H

#include "tokenizer/tok.h"

struct pattern;
struct pattern_search;

struct pattern_source {
    const char *text;
    size_t length;
    bool literal;      // not an expression
    const char *where; // file and field, for the error text
};
int pattern_new(const struct pattern_source *source, struct pattern **pattern, struct tok_err *err);
void pattern_free(struct pattern *pattern); // NULL is fine

// Whether nobody waits for the search any more; wanted NULL: somebody always does.
struct pattern_stop {
    bool (*wanted)(void *context);
    void *context;
};
struct pattern_search *pattern_search_new(const struct pattern_stop *stop); // which outlives it; NULL: no memory
void pattern_search_free(struct pattern_search *search);

// What is searched: UTF-8 that begins and ends where the pattern sees its ends; from `from` on, which is set to where
// the next search goes on. A match is [start, end).
struct pattern_subject {
    const char *text;
    size_t length, from, start, end;
};
// 1: found; 0: there is no more; < 0: *err says why there is no answer, and its code is this without the sign.
int pattern_find(const struct pattern *pattern, struct pattern_search *search, struct pattern_subject *subject,
                 struct tok_err *err);

#endif
