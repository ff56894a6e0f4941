// SPDX-License-Identifier: GPL-3.0-or-later
// What is typed while nobody reads it: its order, and what it says.
#include "tests/harness.h"

#include <unistd.h>

#include "app/term/input.h"
#include "app/term/typed.h"

static void bytes_come_in_their_order(struct harness *t)
{
    struct typed typed = {0};
    CHECK_EQ(t, typed_take(&typed), -1);
    CHECK(t, typed_add(&typed, "ab", 2) && typed_add(&typed, "\xFF", 1));
    CHECK_EQ(t, typed_left(&typed), 3);
    CHECK_EQ(t, typed_take(&typed), 'a');
    CHECK(t, typed_add(&typed, "c", 1));
    CHECK_EQ(t, typed_take(&typed), 'b');
    CHECK_EQ(t, typed_take(&typed), 0xFF);
    CHECK_EQ(t, typed_take(&typed), 'c');
    CHECK_EQ(t, typed_take(&typed), -1);
    CHECK(t, typed_add(&typed, "d", 1));
    CHECK_EQ(t, typed.bytes.length, 1); // what was taken is no burden
    CHECK_EQ(t, typed_take(&typed), 'd');
    typed_release(&typed);
}

static void a_terminal_is_read_to_its_end(struct harness *t)
{
    struct typed typed = {0};
    int ends[2];
    char block[5000];
    memset(block, 'x', sizeof block);
    CHECK(t, pipe(ends) == 0);
    typed_read(&typed, ends[0]); // which has nothing
    CHECK_EQ(t, typed_left(&typed), 0);
    CHECK(t, !typed_read(&typed, ends[0]));
    CHECK(t, write(ends[1], block, sizeof block) == sizeof block);
    CHECK(t, typed_read(&typed, ends[0]) && typed_read(&typed, ends[0]) && !typed_read(&typed, ends[0]));
    CHECK_EQ(t, typed_left(&typed), sizeof block);
    close(ends[1]);
    CHECK(t, !typed_read(&typed, ends[0]));
    CHECK_EQ(t, typed_left(&typed), sizeof block);
    close(ends[0]);
    typed_release(&typed);
}

static void what_is_put_in_front_is_taken_first(struct harness *t)
{
    struct typed typed = {0};
    CHECK(t, typed_put(&typed, "b", 1) && typed_put(&typed, "xa", 2) && typed_add(&typed, "c", 1));
    CHECK_EQ(t, typed_take(&typed), 'x');
    CHECK(t, typed_put(&typed, "yz", 2));
    for (const char *c = "yzabc"; *c; c++)
        CHECK_EQ(t, typed_take(&typed), *c);
    CHECK_EQ(t, typed_left(&typed), 0);
    typed_release(&typed);
}

// Byte by byte: the marks may come in pieces.
static void pastes_are_whole(struct harness *t)
{
    static const char all[] = "\033[200~a\rb\r\nc\n\td\x01\033[201\x7F\r\n\xC3\xA9\033[201~e\033[201~";
    struct typed typed = {0};
    struct bytes text = {0};
    for (size_t i = 0; i < 6; i++)
        CHECK(t, typed_add(&typed, all + i, 1) && (typed_next(&typed, 0) == TYPED_KEY) == (i < 5));
    CHECK(t, typed.pasting && !typed_left(&typed));
    size_t end = (size_t)(strstr(all, "\033[201~") + 6 - all);
    for (size_t i = 6; i < sizeof all - 1; i++) {
        CHECK_EQ(t, typed_is_ready(&typed, 0), i >= end);
        CHECK(t, typed_next(&typed, 0) == TYPED_PASTE && typed_add(&typed, all + i, 1));
    }
    CHECK(t, typed_take_paste(&typed, &text));
    CHECK_STR(t, text.data, "a\nb\nc\n\td[201\n\xC3\xA9");
    CHECK_EQ(t, typed.left_out, 3);
    CHECK(t, !typed.unended && typed_next(&typed, 0) == TYPED_KEY);
    CHECK_EQ(t, typed_take(&typed), 'e');
    text.length = 0;
    typed_begin_paste(&typed, 0);
    CHECK(t,
          typed_is_ready(&typed, 0) && typed_take_paste(&typed, &text) && !text.length && !typed_is_ready(&typed, 0));
    typed_begin_paste(&typed, 0);
    CHECK(t, typed_add(&typed, "fg\033[201", 7) && !typed_is_ready(&typed, 0));
    CHECK(t, typed_put(&typed, "\033[201~", 6) && typed_is_ready(&typed, 0)); // what was looked at moves
    CHECK(t, typed_take_paste(&typed, &text) && !text.length && !typed.unended);
    CHECK(t, typed_take_paste(&typed, &text) && typed.unended); // as far as it came
    CHECK_STR(t, text.data, "fg[201");
    typed.left_out = 0;
    CHECK(t, typed_add(&typed, "\xC2\x85h\xC2\x9Bi\xC2\xA0\xC2", 9) && typed_take_paste(&typed, &text));
    CHECK_STR(t, text.data, "fg[201hi\xC2\xA0\xC2");
    CHECK_EQ(t, typed.left_out, 2);
    CHECK_EQ(t, typed_left(&typed), 0);
    bytes_release(&text);
    typed_release(&typed);
}

static void a_paste_that_comes_no_further_is_ready(struct harness *t)
{
    struct typed typed = {0};
    struct bytes text = {0};
    CHECK_EQ(t, typed_paste_ms(&typed, 7), -1);
    CHECK(t, !typed_is_ready(&typed, 7) && typed_pasted(&typed, &text) && !text.length);
    CHECK(t, typed_add(&typed, "\033[200~ab\r\x01", 10) && typed_is_ready(&typed, 7));
    CHECK_EQ(t, typed_next(&typed, 1000), TYPED_PASTE_BEGINS);
    CHECK_EQ(t, typed_paste_ms(&typed, 1000), INPUT_PASTE_MS);
    CHECK_EQ(t, typed_paste_ms(&typed, 999 + INPUT_PASTE_MS), 1);
    CHECK(t, !typed_is_ready(&typed, 999 + INPUT_PASTE_MS));
    typed.came_ms = 2000; // there was more
    CHECK(t, !typed_is_ready(&typed, 1000 + INPUT_PASTE_MS));
    CHECK_EQ(t, typed_paste_ms(&typed, 9000 + INPUT_PASTE_MS), 0);
    CHECK(t, typed_pasted(&typed, &text) && typed.pasting && !typed.unended && !typed.left_out);
    CHECK_STR(t, text.data, "ab\n");
    CHECK(t, typed_is_ready(&typed, 2000 + INPUT_PASTE_MS) && typed_next(&typed, 9000) == TYPED_PASTE);
    CHECK(t, typed_take_paste(&typed, &text) && typed.unended && typed.left_out == 1 && !typed.pasting);
    CHECK_STR(t, text.data, "ab\nab\n");
    CHECK(t, !typed_is_ready(&typed, 9000) && typed_paste_ms(&typed, 9000) == -1);
    bytes_release(&text);
    typed_release(&typed);
}

static void the_rest_of_a_key_is_none(struct harness *t)
{
    struct typed typed = {.skipping = true};
    CHECK(t, typed_add(&typed, "1;5Xa", 5)); // ESC [ was read
    for (int i = 0; i < 4; i++)
        CHECK_EQ(t, typed_next(&typed, 0), TYPED_NO_KEY);
    CHECK_EQ(t, typed_next(&typed, 0), TYPED_KEY);
    CHECK_EQ(t, typed_take(&typed), 'a');
    typed.skipping = true;
    CHECK(t, typed_add(&typed, "b\033]1;x\a", 7)); // its last byte ends it
    CHECK_EQ(t, typed_next(&typed, 0), TYPED_NO_KEY);
    CHECK(t, !typed.skipping && typed_next(&typed, 0) == TYPED_NO_KEY && !typed_is_ready(&typed, 0));
    typed_release(&typed);
}

static void macros_end(struct harness *t)
{
    struct typed typed = {0};
    int played = 0;
    CHECK(t, typed_add(&typed, "xy", 2));
    for (; played < 1000 && typed_put_macro(&typed, "x"); played++) // calls itself
        CHECK_EQ(t, typed_take(&typed), 'x');
    CHECK_EQ(t, played, 64);
    CHECK(t, typed_add(&typed, "z", 1) && !typed_put_macro(&typed, "x")); // it was typed behind them
    while (typed_left(&typed))
        typed_take(&typed);
    CHECK(t, !typed_put_macro(&typed, "x") && !typed_left(&typed)); // the last byte called it
    CHECK(t, typed_add(&typed, "x", 1) && typed_put_macro(&typed, "ab"));
    CHECK_EQ(t, typed_take(&typed), 'a');
    typed_release(&typed);
}

static void whole_answers_are_skipped(struct harness *t)
{
    static const char *const none[] = {"",           "\033",        "\033]",    "\033]1",        "\033]1x",
                                       "\033]1\033", "\033]1\rx\a", "\033]x\a", "\033]1\033[A\a"};
    struct typed typed = {0};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        CHECK(t, typed_add(&typed, none[i], strlen(none[i])) && !typed_skip_answers(&typed));
        typed_release(&typed);
    }
    static const char two[] = "\033]11;rgb:0/0/0\aa\033_Gi=1\033\\\033]1\033\\b";
    CHECK(t, typed_add(&typed, two, sizeof two - 1) && typed_skip_answers(&typed));
    CHECK_EQ(t, typed_take(&typed), 'a');
    CHECK(t, typed_skip_answers(&typed));
    CHECK_EQ(t, typed_take(&typed), 'b');
    typed_release(&typed);
}

static void what_a_paste_lacks_is_counted(struct harness *t)
{
    char words[80];
    CHECK_STR(t, typed_left_out_words(words, sizeof words, 1), "1 control character left out");
    CHECK_STR(t, typed_left_out_words(words, sizeof words, 2), "2 control characters left out");
}

static void what_waits_as_text(struct harness *t)
{
    static const struct {
        const char *typed, *text;
    } cases[] = {
        {"", ""},
        {"two words\r", "two words\n"},
        {"a\033]11;rgb:1/2/3\ab\033P1$r0m\033\\c\033]1", "abc1"},
        {"a\nb", "a\nb"},
        {"ab\x7F"
         "c\b",
         "a"},
        {"a\r\x7F"
         "b",
         "a\nb"}, // not over the end of a line
        {"\x7F\b"
         "a",
         "a"},
        {"\xC3\xA9\x7F"
         "e\xCC\x81\x7F",
         "e"},
        {"a\033[Ab\033[1;5Cc\033OPd\033xe", "abcde"},
        {"a\033", "a"},
        {"a\033[", "a"},
        {"a\033[1;", "a"},
        {"a\x01\x0B\tb", "ab"},
        {"\033[200~p\rq\033[201~", "p\nq"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct typed typed = {0};
        struct bytes text = {0};
        CHECK(t, bytes_append(&text, "", 0) && typed_add(&typed, "z", 1) &&
                     typed_add(&typed, cases[i].typed, strlen(cases[i].typed)));
        typed_take(&typed);
        CHECK(t, typed_text(&typed, &text));
        CHECK_STR(t, text.data, cases[i].text);
        CHECK_EQ(t, typed_left(&typed), strlen(cases[i].typed));
        bytes_release(&text);
        typed_release(&typed);
    }
}

static void what_stands_before_the_text_stays(struct harness *t)
{
    struct typed typed = {0};
    struct bytes text = {0};
    CHECK(t, bytes_append(&text, "ab", 2) &&
                 typed_add(&typed,
                           "\x7F\x7F"
                           "c",
                           3) &&
                 typed_text(&typed, &text));
    CHECK_STR(t, text.data, "abc");
    bytes_release(&text);
    typed_release(&typed);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(bytes_come_in_their_order),
        TEST(a_terminal_is_read_to_its_end),
        TEST(what_is_put_in_front_is_taken_first),
        TEST(pastes_are_whole),
        TEST(a_paste_that_comes_no_further_is_ready),
        TEST(the_rest_of_a_key_is_none),
        TEST(macros_end),
        TEST(whole_answers_are_skipped),
        TEST(what_a_paste_lacks_is_counted),
        TEST(what_waits_as_text),
        TEST(what_stands_before_the_text_stays),
    };
    return HARNESS_RUN(tests, argc, argv);
}
