// SPDX-License-Identifier: GPL-3.0-or-later
// Thousands of cases, remembered by one number: what a module says to each goes into a digest, and that is compared
// with the one that is stored. For what is pure and whose rules are many: a table of cases by hand has those that
// somebody thought of, this one has the others. When what it says was meant to change, look at what else did:
//
//     MOECHAT_TEST_CASES=/tmp/before test_view_cases; ...change...; MOECHAT_TEST_CASES=/tmp/after test_view_cases
//
// writes every case into a file of that folder, named for the test; diff shows them, and the new number is printed.
#ifndef MOECHAT_CASES_H
#define MOECHAT_CASES_H

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/harness.h"

struct cases {
    uint64_t digest; // FNV-1a of all that was said
    uint64_t state;  // of cases_draw
    FILE *out;       // NULL: nobody wants to see them
};

static inline struct cases cases_begin(const char *name)
{
    struct cases cases = {.digest = 14695981039346656037u, .state = 1};
    const char *folder = getenv("MOECHAT_TEST_CASES");
    char path[512];
    if (folder && snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path)
        cases.out = fopen(path, "w");
    return cases;
}

static inline void cases_bytes(struct cases *cases, const char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        cases->digest = (cases->digest ^ (unsigned char)bytes[i]) * 1099511628211u;
    if (cases->out)
        fwrite(bytes, 1, length, cases->out);
}

static inline void __attribute__((format(printf, 2, 3))) cases_say(struct cases *cases, const char *format, ...)
{
    char text[4096];
    va_list list;
    va_start(list, format);
    int length = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (length < 0 || length >= (int)sizeof text)
        abort();
    cases_bytes(cases, text, (size_t)length);
}

// The next of numbers that are the same in each run, below n (Knuth's MMIX generator, its upper half).
static inline uint32_t cases_draw(struct cases *cases, uint32_t n)
{
    cases->state = cases->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((cases->state >> 33) % n);
}

#define CHECK_CASES(t, cases, want) cases_end(t, cases, want, __FILE__, __LINE__)

static inline void cases_end(struct harness *t, struct cases *cases, uint64_t want, const char *file, int line)
{
    if (cases->out)
        fclose(cases->out);
    if (!harness_check(t, cases->digest == want, file, line, "the cases say what they said"))
        printf("    their digest is 0x%016llx; tests/cases.h says how to see them\n",
               (unsigned long long)cases->digest);
}

#endif
