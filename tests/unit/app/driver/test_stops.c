// SPDX-License-Identifier: GPL-3.0-or-later
// Stop strings in texts that come in pieces, lists of texts, and biases as people write them.
#include <math.h>
#include <stdlib.h>

#include "tests/cases.h"
#include "app/driver/sampling.h"
#include "app/driver/stops.h"

// What is let through of `text`, which comes in pieces of so many bytes; with a | behind it when a stop string ended
// it.
static void let_through(struct harness *t, const char *line, const char *text, size_t piece, char out[256])
{
    struct stops stops = {0};
    struct texts texts;
    size_t used = 0, ready, length = strlen(text);
    snprintf(texts.line, sizeof texts.line, "%s", line);
    stops_begin(&stops, &texts);
    for (size_t at = 0; at < length; at += piece) {
        size_t part = length - at < piece ? length - at : piece;
        if (!CHECK(t, stops_push(&stops, text + at, part, &ready)))
            break;
        memcpy(out + used, stops.held.data, ready);
        used += ready;
        stops_take(&stops, ready);
    }
    if (!stops.found) { // what is held is text after all
        memcpy(out + used, stops.held.data ? stops.held.data : "", stops.held.length);
        used += stops.held.length;
    }
    CHECK_EQ(t, used + stops.dropped, length);
    snprintf(out + used, 256 - used, "%s", stops.found ? "|" : "");
    stops_release(&stops);
}

static void stops_are_found_whatever_the_pieces(struct harness *t)
{
    static const struct {
        const char *line, *text, *out;
    } cases[] = {
        {"END", "all ENDs well", "all |"},
        {"END", "EN EN EEND END", "EN EN E|"},
        {"END", "no end EN", "no end EN"},
        {"aab", "aaaab", "aa|"},
        {"x,END", "what END x", "what |"},
        {"abcd,bc", "abcd", "|"},
        {"\\n\\n", "one\n\ntwo", "one|"},
        {"a\\,b", "a,a,b", "a,|"},
        {"END", "END", "|"},
        {"none at all", "", ""},
        {"\xe2\x82\xac", "5 \xe2\x82\xac", "5 |"},
        {",,END,", "the END", "the |"},
        {"ab,abc", "xab", "x|"}, // one that is whole waits for none that is longer
    };
    char out[256];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (size_t piece = 1; piece < 6; piece++) {
            if (i == 5 && piece < 4)
                continue; // "bc" is whole before "abcd" is
            let_through(t, cases[i].line, cases[i].text, piece, out);
            CHECK_STR(t, out, cases[i].out);
        }
}

static void lists_are_checked_and_printed(struct harness *t)
{
    char text[TEXTS_EACH], line[2 * TEXTS_SIZE], printed[64] = "";
    const char *rest = "a\\tb,,\\\\n,\\,,";
    CHECK(t, texts_next(&rest, text) == 3 && strcmp(text, "a\tb") == 0);
    CHECK(t, texts_next(&rest, text) == 2 && strcmp(text, "\\n") == 0);
    CHECK(t, texts_next(&rest, text) == 1 && strcmp(text, ",") == 0);
    CHECK_EQ(t, texts_next(&rest, text), 0);
    memset(line, 'x', sizeof line);
    line[TEXTS_EACH - 1] = 0;
    CHECK(t, !texts_check(line));
    line[TEXTS_EACH - 1] = 'x';
    line[TEXTS_EACH] = 0;
    CHECK(t, texts_check(line) != NULL);
    memset(line, ',', sizeof line);
    line[TEXTS_SIZE - 1] = 0;
    CHECK(t, texts_check(line) != NULL); // commas without texts
    for (int i = 0; i < TEXTS_SIZE; i += 2)
        line[i] = 'x';
    line[2 * TEXTS_MOST + 1] = 0;
    CHECK(t, texts_check(line) != NULL); // a text too many
    line[2 * TEXTS_MOST - 1] = 0;
    CHECK(t, !texts_check(line));
    memset(line, 'x', sizeof line);
    for (int i = 100; i < TEXTS_SIZE; i += 101)
        line[i] = ',';
    line[TEXTS_SIZE - 1] = 0;
    CHECK(t, !texts_check(line));
    line[TEXTS_SIZE - 1] = 'x';
    line[TEXTS_SIZE] = 0;
    CHECK(t, texts_check(line) != NULL); // a byte too many
    FILE *out = fmemopen(printed, sizeof printed, "w");
    texts_print(out, &(struct texts){"a\nb,\\n"});
    fclose(out);
    CHECK_STR(t, printed, "a\\nb,\\n");
}

static void biases_are_read(struct harness *t)
{
    struct moe_logit_bias biases[TEXTS_MOST];
    struct sampling sampling = {.numbers = {.top_p = 1, .repetition_penalty = 1},
                                .logit_bias = {"12=-2.5,7=-inf,0=+3"}};
    CHECK(t, !sampling_check(&sampling));
    CHECK_EQ(t, sampling_biases(&sampling, biases), 3);
    CHECK(t, biases[0].id == 12 && biases[0].bias == -2.5f);
    CHECK(t, biases[1].id == 7 && isinf(biases[1].bias) && biases[1].bias < 0);
    CHECK(t, biases[2].id == 0 && biases[2].bias == 3);
    static const char *const wrong[] = {"12",     "12=",    "=3",    "x=3",           "-1=3",    "12=x", "12=3x",
                                        "12=inf", "12=nan", "12= 3", "99999999999=1", "12=1e99", "1=1,2"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(sampling.logit_bias.line, sizeof sampling.logit_bias.line, "%s", wrong[i]);
        if (!CHECK(t, sampling_check(&sampling) != NULL))
            printf("    %s\n", wrong[i]);
    }
}

static void breakers_are_within_tokens(struct harness *t)
{
    const struct sampling sampling = {.dry_breakers = {"\\n,:,\",*"}};
    CHECK(t, sampling_breaks(&sampling, "so:\n", 4) && sampling_breaks(&sampling, ".\n", 2));
    CHECK(t, sampling_breaks(&sampling, " \"", 2) && !sampling_breaks(&sampling, "word", 4));
    CHECK(t, !sampling_breaks(&sampling, ":", 0));
}

// Where the text ends, looked for in all of it at once: at the first place where a whole one is, as soon as one is.
static size_t end_of(const char *const strings[3], const char *text, size_t known)
{
    for (size_t at = 0; at < known; at++)
        for (int i = 0; i < 3; i++)
            if (*strings[i] && at + strlen(strings[i]) <= known &&
                strncmp(text + at, strings[i], strlen(strings[i])) == 0)
                return at;
    return SIZE_MAX;
}

// Texts and strings of two letters, in pieces: what is let through, and when, is what looking at all of it says.
static void as_if_all_were_there(struct harness *t)
{
    struct cases cases = {.state = 1}; // for its draws
    for (int n = 0; n < 20000 && t->failures == 0; n++) {
        char strings[3][8], text[32], line[40], through[32];
        const char *const all[3] = {strings[0], strings[1], strings[2]};
        for (int i = 0; i < 3; i++) {
            size_t length = cases_draw(&cases, i ? 5 : 6);
            for (size_t k = 0; k < length; k++)
                strings[i][k] = "ab"[cases_draw(&cases, 2)];
            strings[i][length] = 0;
        }
        size_t length = 1 + cases_draw(&cases, 20), used = 0, ready, at = 0;
        for (size_t k = 0; k < length; k++)
            text[k] = "aabc"[cases_draw(&cases, 4)];
        text[length] = 0;
        snprintf(line, sizeof line, "%s,%s,%s", strings[0], strings[1], strings[2]);
        struct stops stops = {0};
        struct texts texts;
        snprintf(texts.line, sizeof texts.line, "%s", line);
        stops_begin(&stops, &texts);
        size_t end = SIZE_MAX;
        while (at < length) {
            size_t part = 1 + cases_draw(&cases, 3);
            part = part < length - at ? part : length - at;
            CHECK(t, stops_push(&stops, text + at, part, &ready));
            at += part;
            memcpy(through + used, stops.held.data, ready);
            used += ready;
            stops_take(&stops, ready);
            end = end == SIZE_MAX ? end_of(all, text, at) : end;
            bool right = stops.found == (end != SIZE_MAX) && memcmp(through, text, used) == 0 &&
                         (end == SIZE_MAX ? used + stops.held.length == at : used == end && stops.dropped == at - end);
            for (size_t from = 0; right && !stops.found && from < used;
                 from++) // what was let through could not become one
                for (int i = 0; i < 3; i++)
                    right = right &&
                            (!*all[i] || from + strlen(all[i]) <= at || strncmp(text + from, all[i], at - from) != 0);
            // Nothing is held that need not be.
            bool begins = used == at || stops.found;
            for (int i = 0; i < 3 && !begins; i++)
                begins = strncmp(text + used, all[i], at - used) == 0;
            if (!CHECK(t, right && begins))
                printf("    \"%s\" of \"%s\": %zu through, found %d\n", line, text, used, stops.found);
        }
        stops_release(&stops);
    }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(stops_are_found_whatever_the_pieces),
                                                TEST(lists_are_checked_and_printed), TEST(biases_are_read),
                                                TEST(breakers_are_within_tokens), TEST(as_if_all_were_there)};
    return HARNESS_RUN(tests, argc, argv);
}
