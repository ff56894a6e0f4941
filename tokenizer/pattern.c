// SPDX-License-Identifier: GPL-3.0-or-later
// Rewrites split patterns for PCRE2 and runs them.
#include "tokenizer/pattern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "tokenizer/tok_err.h"

// A match may go back MATCH_LIMIT steps and one for each byte, from each place where it begins; and a text may take
// SECONDS of the processor and a second for each BYTES_A_SECOND, which no pattern of the family comes near. What needs
// more is an error, not a guess, and ends soon: the clock is looked at after so many calls, of which each tries so many
// places.
enum { PATTERN_BYTES_MAX = 16384, NESTING_MAX = 32, MATCH_LIMIT = 20000, NAME_BYTES = 24 };
enum { SECONDS = 3, BYTES_A_SECOND = 100000, CALLS = 32, PLACES = 256 };

struct pattern {
    pcre2_code *code;
    char where[200];
};

struct pattern_search {
    pcre2_match_data *data;
    pcre2_match_context *context;
    unsigned calls;
    double began; // seconds of this thread
    const struct pattern_stop *stop;
};

#define SPACES                                                                                                         \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

// Rewriting: reads `in`, writes `out`, whose room every call keeps in mind.
struct rewriting {
    const char *in, *end;
    char *out;
    size_t length, room;
    int nesting;
    char wrong[96]; // "": all is well
};

static void put(struct rewriting *r, const char *text, size_t length)
{
    if (length > r->room - r->length) {
        snprintf(r->wrong, sizeof r->wrong, "is too long");
        return;
    }
    memcpy(r->out + r->length, text, length);
    r->length += length;
}

static void put_text(struct rewriting *r, const char *text)
{
    put(r, text, strlen(text));
}

static void refuse(struct rewriting *r, const char *what, size_t length)
{
    if (!*r->wrong)
        snprintf(r->wrong, sizeof r->wrong, "has %.*s, which this program does not know", (int)length, what);
}

// \p{Name}, the p read. The scripts that the family's patterns name; PCRE2 would take in their extensions.
static void property(struct rewriting *r, const char *escape)
{
    static const char *const scripts[] = {"Han", "Hiragana", "Katakana", "Hangul", "Latin", "Cyrillic", "Thai"};
    const char *name = r->in + 1;
    const char *close = r->in < r->end && *r->in == '{' ? memchr(name, '}', (size_t)(r->end - name)) : NULL;
    size_t length = close ? (size_t)(close - name) : 0;
    bool script = false;
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++)
        script = script || (strlen(scripts[i]) == length && memcmp(scripts[i], name, length) == 0);
    bool category = (length == 1 || length == 2) && memchr("CLMNPSZ", name[0], 7);
    if (!script && !category) {
        refuse(r, escape, close && length < NAME_BYTES ? (size_t)(close + 1 - escape) : 2);
        return;
    }
    put(r, escape, 2);
    put_text(r, script ? "{sc:" : "{");
    put(r, name, length + 1);
    r->in = close + 1;
}

// \uHHHH and \x{H..}.
static void code_point(struct rewriting *r, const char *escape)
{
    static const char digits[] = "0123456789abcdefABCDEF";
    bool braced = r->in < r->end && *r->in == '{';
    const char *at = r->in + braced;
    size_t length = 0;
    while (at + length < r->end && length < 6 && memchr(digits, at[length], sizeof digits - 1) &&
           (braced || length < 4))
        length++;
    bool whole = braced ? length > 0 && at + length < r->end && at[length] == '}' : escape[1] == 'u' && length == 4;
    if (!whole) {
        refuse(r, escape, 2);
        return;
    }
    put_text(r, "\\x{");
    put(r, at, length);
    put_text(r, "}");
    r->in = at + length + braced;
}

// One escape; in a class its items alone, else a class of its own where it needs one.
static void escaped(struct rewriting *r, bool in_class)
{
    const char *escape = r->in++;
    if (r->in == r->end) {
        refuse(r, "a \\ at its end", 14);
        return;
    }
    char c = *r->in++;
    if (c == 'p' || c == 'P')
        property(r, escape);
    else if (c == 'u' || c == 'x')
        code_point(r, escape);
    else if (c == 's')
        put_text(r, in_class ? SPACES : "[" SPACES "]");
    else if (c == 'S' && !in_class)
        put_text(r, "[^" SPACES "]");
    else if (c == 'd')
        put_text(r, "\\p{Nd}");
    else if (c == 'n' || c == 'r' || c == 't' || c == 'f' || !((c | 32) >= 'a' && (c | 32) <= 'z'))
        c >= '0' && c <= '9' ? refuse(r, escape, 2) : put(r, escape, 2);
    else
        refuse(r, escape, 2);
}

// The general categories of [items && [^items]]: all of them properties on the left, a script on the right. Written as
// what is left out, one class that PCRE2 reads in one step.
static const char *const categories[] = {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd",
                                         "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "C"};
enum { N_CATEGORIES = sizeof categories / sizeof categories[0] };

static bool intersection(struct rewriting *r, const char *items, size_t length)
{
    bool wanted[N_CATEGORIES] = {false};
    static const char tail[] = "&&[^\\p{Han}]]";
    if ((size_t)(r->end - r->in) < sizeof tail - 1 || memcmp(r->in, tail, sizeof tail - 1) != 0)
        return false;
    for (const char *at = items; at < items + length;) {
        const char *close = memchr(at, '}', (size_t)(items + length - at)), *name = at + 3;
        if (!close || close - at < 4 || memcmp(at, "\\p{", 3) != 0)
            return false;
        bool known = false;
        for (size_t i = 0; i < N_CATEGORIES; i++) {
            bool same = strncmp(categories[i], name, (size_t)(close - name)) == 0;
            wanted[i] = wanted[i] || same;
            known = known || same;
        }
        if (!known) // a script, or a part of C: not told by these
            return false;
        at = close + 1;
    }
    r->length = (size_t)(items - r->out);
    put_text(r, "^\\p{sc:Han}");
    for (size_t i = 0; i < N_CATEGORIES; i++) {
        if (wanted[i])
            continue;
        put_text(r, "\\p{");
        put_text(r, categories[i]);
        put_text(r, "}");
    }
    put_text(r, "]");
    r->in += sizeof tail - 1;
    return true;
}

// A class, its [ read; up to and with its ].
static void class_items(struct rewriting *r)
{
    put_text(r, "[");
    bool negated = r->in < r->end && *r->in == '^';
    if (negated)
        put(r, r->in++, 1);
    const char *items = r->out + r->length;
    for (bool first = true; r->in < r->end && !*r->wrong; first = false) {
        if (*r->in == ']' && !first) {
            put(r, r->in++, 1);
            return;
        }
        if (*r->in == '&' && r->in + 1 < r->end && r->in[1] == '&') {
            if (!negated && intersection(r, items, (size_t)(r->out + r->length - items)))
                return;
            refuse(r, "&& in a class", 13);
        } else if (*r->in == '[') {
            refuse(r, "[ in a class", 12);
        } else if (*r->in == '\\') {
            escaped(r, true);
        } else {
            put(r, r->in++, 1);
        }
    }
    refuse(r, "a [ without its ]", 17);
}

static void group(struct rewriting *r)
{
    static const char *const known[] = {"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
    if (r->in + 1 < r->end && r->in[1] == '?') {
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
            size_t length = strlen(known[i]);
            if ((size_t)(r->end - r->in) >= length && memcmp(r->in, known[i], length) == 0) {
                put(r, r->in, length);
                r->in += length;
                return;
            }
        }
        refuse(r, r->in, 3);
        return;
    }
    put_text(r, "(?:");
    r->in++;
}

// How long {n}, {n,}, {n,m} or {,n} is that stands here; 0: none does.
static size_t counted(const struct rewriting *r)
{
    const char *at = r->in + 1;
    unsigned digits = 0, commas = 0;
    if (*r->in != '{')
        return 0;
    for (; at < r->end && ((*at >= '0' && *at <= '9') || (*at == ',' && commas == 0)); at++)
        *at == ',' ? commas++ : digits++;
    return digits && at < r->end && *at == '}' ? (size_t)(at + 1 - r->in) : 0;
}

// Where these patterns come from, {,n} is {0,n} (five characters to PCRE2 before 10.43), and what stands behind a count
// repeats the whole or makes it optional, where to PCRE2 {n,m}+ gives nothing back and {n}? is n times: refused. {n,m}?
// is as few as can be in both. False: no count stands here.
static bool count(struct rewriting *r)
{
    size_t length = counted(r);
    if (!length)
        return false;
    const char *behind = r->in + length;
    bool lazy = memchr(r->in, ',', length) != NULL;
    if (behind < r->end && memchr("+*{?", *behind, lazy ? 3 : 4))
        refuse(r, r->in, length + 1);
    put_text(r, r->in[1] == ',' ? "{0" : "{");
    r->in++;
    return true;
}

static void rewrite(struct rewriting *r)
{
    // Without its JIT, PCRE2 tries every space of a long run anew; only the run's first can begin a match.
    if (r->end - r->in == 4 && memcmp(r->in, "\\s+$", 4) == 0)
        put_text(r, "(?<![" SPACES "])");
    while (r->in < r->end && !*r->wrong) {
        if (*r->in == '\\') {
            escaped(r, false);
        } else if (*r->in == '[') {
            r->in++;
            class_items(r);
        } else if (*r->in == '(') {
            group(r);
            if (++r->nesting > NESTING_MAX)
                refuse(r, "too many groups", 15);
        } else if (!count(r)) {
            put(r, r->in++, 1);
        }
    }
}

int pattern_new(const struct pattern_source *source, struct pattern **pattern, struct tok_err *err)
{
    uint32_t flags = PCRE2_UTF | PCRE2_USE_OFFSET_LIMIT;
    flags |= source->literal ? PCRE2_LITERAL : PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_MULTILINE;
    struct rewriting r = {.in = source->text, .end = source->text + source->length, .room = 8 * PATTERN_BYTES_MAX};
    struct pattern *made = calloc(1, sizeof *made);
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    int failed = TOK_OK, code = 0;
    PCRE2_SIZE at = 0;
    PCRE2_UCHAR why[120];
    r.out = malloc(r.room);
    if (!made || !context || !r.out) {
        failed = tok_fail(err, TOK_NO_MEMORY, "%.300s: out of memory", source->where);
        goto release;
    }
    snprintf(made->where, sizeof made->where, "%s", source->where);
    if (source->length == 0 || source->length > PATTERN_BYTES_MAX)
        snprintf(r.wrong, sizeof r.wrong, "has %zu bytes, not 1 to %d", source->length, PATTERN_BYTES_MAX);
    else if (source->literal)
        put(&r, source->text, source->length);
    else
        rewrite(&r);
    if (*r.wrong) {
        failed = tok_fail(err, TOK_UNSUPPORTED, "%.300s: the pattern %s", source->where, r.wrong);
        goto release;
    }
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_set_parens_nest_limit(context, NESTING_MAX);
    made->code = pcre2_compile((PCRE2_SPTR)r.out, r.length, flags, &code, &at, context);
    if (!made->code) {
        pcre2_get_error_message(code, why, sizeof why);
        failed = tok_fail(err, TOK_FORMAT, "%.300s: the pattern is not one: %s", source->where, (char *)why);
        goto release;
    }
    pcre2_jit_compile(made->code, PCRE2_JIT_COMPLETE); // where there is no JIT, matching is slower
    *pattern = made;
    made = NULL;
release:
    pcre2_compile_context_free(context);
    free(r.out);
    free(made);
    return failed;
}

void pattern_free(struct pattern *pattern)
{
    if (!pattern)
        return;
    pcre2_code_free(pattern->code);
    free(pattern);
}

static double thread_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

struct pattern_search *pattern_search_new(const struct pattern_stop *stop)
{
    struct pattern_search *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->data = pcre2_match_data_create(1, NULL);
    made->context = pcre2_match_context_create(NULL);
    if (!made->data || !made->context) {
        pattern_search_free(made);
        return NULL;
    }
    made->began = thread_seconds();
    made->stop = stop;
    return made;
}

void pattern_search_free(struct pattern_search *search)
{
    if (!search)
        return;
    pcre2_match_data_free(search->data);
    pcre2_match_context_free(search->context);
    free(search);
}

int pattern_find(const struct pattern *pattern, struct pattern_search *search, struct pattern_subject *subject,
                 struct tok_err *err)
{
    if (subject->from > subject->length)
        return 0;
    double seconds = SECONDS + (double)subject->length / BYTES_A_SECOND;
    int found = PCRE2_ERROR_NOMATCH;
    pcre2_set_match_limit(search->context,
                          MATCH_LIMIT + (uint32_t)(subject->length < INT32_MAX ? subject->length : INT32_MAX));
    for (size_t from = subject->from; found == PCRE2_ERROR_NOMATCH && from <= subject->length; from += PLACES) {
        // What is tried anew begins where a character does, and sees what is before it.
        while (from > 0 && from < subject->length && ((unsigned char)subject->text[from] & 0xC0) == 0x80)
            from--;
        pcre2_set_offset_limit(search->context, from + PLACES);
        if (search->stop->wanted && search->stop->wanted(search->stop->context))
            return -tok_fail(err, TOK_CANCELLED, "cancelled");
        if (search->calls++ % CALLS == CALLS - 1 && thread_seconds() - search->began > seconds)
            found = PCRE2_ERROR_MATCHLIMIT;
        else
            found = pcre2_match(pattern->code, (PCRE2_SPTR)subject->text, subject->length, from, PCRE2_NO_UTF_CHECK,
                                search->data, search->context);
    }
    if (found == PCRE2_ERROR_NOMATCH)
        return 0;
    if (found < 0) {
        PCRE2_UCHAR why[120];
        pcre2_get_error_message(found, why, sizeof why);
        return -tok_fail(err, TOK_UNSUPPORTED, "%.300s: the pattern can't split a text of %zu bytes: %s",
                         pattern->where, subject->length, (char *)why);
    }
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(search->data);
    subject->start = range[0];
    subject->end = subject->from = range[1];
    if (range[0] == range[1]) { // an empty match: on with the next character
        do
            subject->from++;
        while (subject->from < subject->length && ((unsigned char)subject->text[subject->from] & 0xC0) == 0x80);
    }
    return 1;
}
