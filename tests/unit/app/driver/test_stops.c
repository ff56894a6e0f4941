// SPDX-License-Identifier: GPL-3.0-or-later
// Stop strings in texts that come in pieces, lists of texts, and biases as people write them.
#include <math.h>
#include <stdlib.h>

#include "tests/harness.h"
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

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(stops_are_found_whatever_the_pieces),
                                                TEST(lists_are_checked_and_printed), TEST(biases_are_read),
                                                TEST(breakers_are_within_tokens)};
    return HARNESS_RUN(tests, argc, argv);
}
