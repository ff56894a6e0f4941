// SPDX-License-Identifier: GPL-3.0-or-later
// Words and numbers for people and scripts, in thousands of cases each; and slips against a plain model of them.
#include <json-c/json.h>
#include <locale.h>
#include <stdlib.h>

#include "app/util/files.h"
#include "app/util/format.h"
#include "app/util/json_out.h"
#include "app/util/progress.h"
#include "app/util/quote.h"
#include "app/util/sanitize.h"
#include "app/util/texts.h"
#include "app/util/words.h"
#include "tests/cases.h"

// Around each power of ten and what stands before it, half a step, and the units' borders.
static void numbers(struct harness *t)
{
    struct cases cases = cases_begin("numbers");
    char text[FORMAT_SIZE], other[FORMAT_SIZE];
    for (uint64_t power = 1; power < UINT64_MAX / 10; power *= 10) {
        static const uint64_t parts[] = {1000, 1001, 994,  995,  996,  999,  1500, 2000,
                                         2499, 2500, 9949, 9950, 9994, 9995, 9999};
        for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
            for (int off = -1; off <= 1; off++) {
                uint64_t n = (power > UINT64_MAX / 10000 ? power : power * parts[i] / 1000) + (uint64_t)off;
                cases_say(&cases, "%s, %s, %s, %s\n", format_bytes(text, sizeof text, n), format_s(n),
                          format_count(other, sizeof other, n), json_out_rate(n, power) > 1 ? "more" : "less");
            }
        }
    }
    for (int tenths = -2; tenths < 80000; tenths += tenths < 700 ? 1 : 37) {
        double seconds = (double)tenths / 10;
        cases_say(&cases, "%s %s, ", format_duration(text, sizeof text, seconds),
                  format_duration(other, sizeof other, seconds + 0.0499));
        cases_say(&cases, "%s\n", format_tokens(text, sizeof text, (uint64_t)(tenths < 0 ? 0 : tenths), seconds / 100));
    }
    cases_say(&cases, "%s\n", format_duration(text, sizeof text, 1e30));
    CHECK_CASES(t, &cases, 0x28f1e8882387e69b);
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

// As it is defined, from the words' ends: every way to make one of the other.
static int changes(const char *a, int n, const char *b, int m)
{
    if (n == 0 || m == 0)
        return n + m;
    int best = changes(a, n - 1, b, m - 1) + (a[n - 1] != b[m - 1]);
    best = least(best, least(changes(a, n - 1, b, m), changes(a, n, b, m - 1)) + 1);
    if (n > 1 && m > 1 && a[n - 1] == b[m - 2] && a[n - 2] == b[m - 1])
        best = least(best, changes(a, n - 2, b, m - 2) + 1);
    return best;
}

static void letters_of(int n, int length, char *text)
{
    for (int i = 0; i < length; i++, n /= 3)
        text[i] = "abc"[n % 3];
    text[length] = 0;
}

// Words of three letters, all up to four of them long; and longer ones, one of another by some change.
static void slips(struct harness *t)
{
    char a[16], b[16];
    for (int n = 0; n < 81 + 27 + 9; n++) {
        letters_of(n < 81 ? n : n < 108 ? n - 81 : n - 108, n < 81 ? 4 : n < 108 ? 3 : 2, a);
        for (int m = 0; m < 81 + 27 + 9; m++) {
            letters_of(m < 81 ? m : m < 108 ? m - 81 : m - 108, m < 81 ? 4 : m < 108 ? 3 : 2, b);
            int length = (int)strlen(a), other = (int)strlen(b), far = changes(a, length, b, other);
            bool begins = length < other && strncmp(a, b, (size_t)length) == 0;
            int wanted = begins ? 1 : length > 2 && far == 1 ? 1 : 0;
            if (!CHECK_EQ(t, words_slip(a, (size_t)length, b), wanted))
                printf("    %s for %s\n", a, b);
        }
    }
    static const char *const typed[] = {"sesions",  "sessoins", "sessiosn", "xession", "sessionsss", "sess",
                                        "ssions",   "esssions", "sessions", "essions", "abcdefgh",   "sXssiXns",
                                        "sXsXiXns", "conv",     "covnert",  "cnovret", "conver"};
    for (size_t i = 0; i < sizeof typed / sizeof typed[0]; i++) {
        for (int which = 0; which < 2; which++) {
            const char *word = which ? "convert" : "sessions";
            int length = (int)strlen(typed[i]), far = changes(typed[i], length, word, (int)strlen(word));
            bool begins = length < (int)strlen(word) && strncmp(typed[i], word, (size_t)length) == 0;
            CHECK_EQ(t, words_slip(typed[i], (size_t)length, word), begins ? 1 : far <= (length > 4 ? 2 : 1) ? far : 0);
        }
    }
    char same[128];
    memset(same, 'x', sizeof same);
    same[100] = 0;
    CHECK(t, words_slip(same, 99, same) == 1 && words_slip(same, 33, "x") == 0 && words_slip(same, 32, same) == 1);
    same[100] = 'x', same[101] = 0;
    CHECK_EQ(t, words_slip(same, 99, same), 0); // longer than words are
}

static void helps(struct harness *t)
{
    struct cases cases = cases_begin("helps");
    for (int n = 0; n < 1500; n++) {
        static const char *const pieces[] = {"a ", "word ", "longer-word ", "Cache ", "\n", "  ", "cACHE", "."};
        char text[400] = "", *said = NULL;
        size_t length;
        for (uint32_t i = cases_draw(&cases, 30); i > 0; i--)
            strcat(text, pieces[cases_draw(&cases, 8)]);
        FILE *out = open_memstream(&said, &length);
        if (!CHECK(t, out != NULL))
            break;
        int indent = (int)cases_draw(&cases, 40);
        words_print(out, text, indent, (int)cases_draw(&cases, 90));
        fclose(out);
        cases_bytes(&cases, said, length);
        free(said);
        cases_say(&cases, "%d%d%d %d%d\n", words_about(text, "cache"), words_about(text, "word a"),
                  words_about(text, ""), words_are("a|word|longer-word", text, strcspn(text, " \n")),
                  words_are(text, "a ", 2));
    }
    CHECK_CASES(t, &cases, 0x4ea92b8e9f1eb740);
}

// Every character of one byte and two, and borders of those of three and four; cut, too long, out of order.
static void bytes_become_text(struct harness *t)
{
    static const unsigned char leads[] = {0x00, 0x09, 0x0A, 0x1B, 0x20, 0x22, 0x27, 0x41, 0x5C, 0x7E, 0x7F,
                                          0x80, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xCC, 0xDF, 0xE0, 0xE1,
                                          0xE2, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF},
                               others[] = {0x00, 0x41, 0x7F, 0x80, 0x81, 0x8B, 0x8D, 0x8E, 0x8F,
                                           0x90, 0x9F, 0xA0, 0xA8, 0xAE, 0xBB, 0xBF, 0xC0, 0xE2};
    struct cases cases = cases_begin("bytes_become_text");
    for (size_t n = 0; n < 256 * 64; n++) {
        unsigned char text[5] = {leads[cases_draw(&cases, sizeof leads)]};
        uint32_t length = 1 + cases_draw(&cases, 5);
        for (uint32_t i = 1; i < length; i++)
            text[i] = cases_draw(&cases, 4) ? others[cases_draw(&cases, sizeof others)]
                                            : leads[cases_draw(&cases, sizeof leads)];
        struct bytes quoted = {0}, line = {0};
        char shown[SANITIZE_ROOM(5)], flushed[SANITIZE_ROOM(0)], word[8] = "";
        struct sanitize state = {0};
        size_t cut = cases_draw(&cases, length + 1), got = sanitize_push(&state, (char *)text, cut, shown);
        got += sanitize_push(&state, (char *)text + cut, length - cut, shown + got);
        cases_bytes(&cases, shown, got);
        cases_bytes(&cases, flushed, sanitize_flush(&state, flushed));
        memcpy(word, text, length);
        CHECK(t, quote_shell(&quoted, word));
        cases_bytes(&cases, quoted.data, quoted.length);
        struct json_out object = {0};
        json_out_open(&object, NULL, '{');
        json_out_text(&object, "text", (char *)text, length);
        json_out_float(&object, "float", (float)n / 7);
        json_out_real(&object, "real", (double)n / 3e-5);
        json_out_close(&object, '}');
        CHECK(t, json_out_render(&object, &line));
        cases_bytes(&cases, line.data, line.length);
        bytes_release(&quoted);
        bytes_release(&line);
    }
    CHECK_CASES(t, &cases, 0x57960c3aed606715);
}

// What each code point is shown as, and how it is written.
static void code_points(struct harness *t)
{
    struct cases cases = cases_begin("code_points");
    for (uint32_t code = 0; code <= 0x110000; code += code < 0x3100 || code > 0xE0000 ? 1
                                                      : code % 256 == 0xFF            ? 1
                                                                                      : 5) {
        char text[4];
        uint32_t shown = sanitize_visible(code);
        cases_bytes(&cases, text, sanitize_write_utf8(shown, text));
    }
    CHECK_CASES(t, &cases, 0x607f95905a2e0cc7);
}

static void progresses(struct harness *t)
{
    struct cases cases = cases_begin("progresses");
    for (int n = 0; n < 3000; n++) {
        static const char *const units[] = {"bytes", "tokens", "steps"}, *const whats[] = {
                                                                             "reading weights", "zipping", "",
                                                                             "Building",        "`x",      "{"};
        static const double seconds[] = {0, 0.99, 1, 1.01, 8, 60, 3600};
        struct moe_progress at = {.what = whats[cases_draw(&cases, 6)],
                                  .unit = units[cases_draw(&cases, 3)],
                                  .done = cases_draw(&cases, 12),
                                  .total = cases_draw(&cases, 12),
                                  .bytes_read = cases_draw(&cases, 2) * 1500000,
                                  .bytes_left = cases_draw(&cases, 2) * 3200000,
                                  .seconds_left = (double)cases_draw(&cases, 3) * 2.5};
        char text[256];
        double left = progress_seconds_left(&at, seconds[cases_draw(&cases, 7)]);
        cases_say(&cases, "%.6g ", left);
        cases_say(&cases, "%s, ", progress_bytes(text, sizeof text, &at));
        cases_say(&cases, "%s;", progress_words(text, sizeof text, &at, left));
        struct progress_eta eta = {0};
        double now = 0;
        for (int i = 0; i < 4; i++, now += seconds[cases_draw(&cases, 5)])
            cases_say(&cases, " %.5g", progress_steady(&eta, (double)cases_draw(&cases, 12) - 2, now));
        cases_say(&cases, "\n");
    }
    CHECK_CASES(t, &cases, 0x29413f6527bb5ff2);
}

static void lists(struct harness *t)
{
    struct cases cases = cases_begin("lists");
    for (int n = 0; n < 4000; n++) {
        static const char *const pieces[] = {"a",  ",", "\\n", "\\t", "\\,",       "\\\\",
                                             "\\", "b", "\n",  "\\x", "0123456789"};
        struct texts texts = {""};
        char text[TEXTS_EACH], *said = NULL;
        size_t length;
        for (uint32_t i = cases_draw(&cases, 40); i > 0; i--)
            strcat(texts.line, pieces[cases_draw(&cases, 11)]);
        const char *wrong = texts_check(texts.line), *rest = texts.line;
        FILE *out = open_memstream(&said, &length);
        if (!CHECK(t, out != NULL))
            break;
        texts_print(out, &texts);
        fclose(out);
        cases_say(&cases, "%s: %s\n%s\n", texts.line, wrong ? wrong : "fine", said);
        free(said);
        for (size_t got; (got = texts_next(&rest, text));)
            cases_say(&cases, "%zu %s|", got, text);
    }
    CHECK_CASES(t, &cases, 0xa3786060f9891480);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(numbers),     TEST(slips),      TEST(helps), TEST(bytes_become_text),
        TEST(code_points), TEST(progresses), TEST(lists)};
    setlocale(LC_CTYPE, "C.UTF-8");
    return HARNESS_RUN(tests, argc, argv);
}
