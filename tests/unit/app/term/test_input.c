// SPDX-License-Identifier: GPL-3.0-or-later
// Bytes of a terminal to keys and pastes, wherever they are split.
#include "tests/cases.h"

#include <stdlib.h>

#include "app/term/input.h"

struct heard {
    char text[4096];
    size_t length;
};

static void hear(void *context, const struct input_item *item)
{
    static const char *const names[] = {"", "<esc>", "<paste:", "<burst:", "<up>", "<down>"};
    struct heard *heard = context;
    heard->length += (size_t)snprintf(heard->text + heard->length, sizeof heard->text - heard->length, "%s%.*s%s",
                                      names[item->kind], (int)item->length, item->bytes,
                                      item->kind == INPUT_PASTE || item->kind == INPUT_BURST ? ">" : "");
    if (item->left_out)
        heard->length +=
            (size_t)snprintf(heard->text + heard->length, sizeof heard->text - heard->length, "-%zu", item->left_out);
}

static struct input new_input(struct heard *heard)
{
    *heard = (struct heard){.length = 0};
    return (struct input){.take = hear, .context = heard, .escape_ms = 30};
}

static void splits_do_not_matter(struct harness *t)
{
    static const struct {
        const char *sent, *heard;
    } cases[] = {
        {"abc\r\t", "abc\r\t"},
        {"\303\251\346\227\245", "\303\251\346\227\245"},
        {"\303a\346\227\033[A\377\251", "\303a\346\227\033[A\377\251"},
        {"\033\303\251\303\033", "\033\303\251\303<esc>"},
        {"\033[A\033OB\033[1;5C\033x", "\033[A\033OB\033[1;5C\033x"},
        {"\033\033[A", "<esc>\033[A"},
        {"\033[200~a\rb\r\nc\nd\033[201~e", "<paste:a\nb\nc\nd>e"},
        {"\033[200~\033[31m\007\000x\177y\tz\033[20\033[201~", "<paste:[31mxy\tz[20>-5"},
        {"\033[200~\033[201~q", "q"},
        {"\033[200~\r\n\033\033[201~q", "<paste:\n>-1q"},
        {"\033[200~\a\033[201~", "<paste:>-1"},
        {"\033[201~", ""},
        {"\033[200~a\302\205\302\302\233\233\302\240\303\033[201~", "<paste:a\302\240\303>-3"},
        {"\033[<64;3;4M\033[<65;3;4M\033[<0;3;4M\033[<0;3;4m", "<up><down>"},
        {"\033[?62;c\033[>1;2c!", "!"},
        {"a\033]11;rgb:1e1e/1e1e/1e1e\abc\033P>|xterm(370)\033\\d", "abcd"},
        {"\033_Gi=1;OK\033\\\033^x\033\\\033Xy\ae", "e"},
        {"\033]1\rb\033]1\033Ac\033_xy\033\0", "\rb\033Ac\033_xy<esc>"},
        {"\033[1;2;3;4;5;6;7;8;9;10;11;12;13;14;15Q", "\033[1;2;3;4;5;6;7;8;9;10;11;12;13;14;15Q"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        // The eighth has a zero in it.
        size_t length = i == 7 ? 25 : strlen(cases[i].sent);
        for (size_t cut = 0; cut <= length; cut++) {
            struct heard heard;
            struct input input = new_input(&heard);
            input_push(&input, cases[i].sent, cut, 100);
            input_push(&input, cases[i].sent + cut, length - cut, 110);
            input_tick(&input, 9000);
            if (i != 18 && !CHECK(t, strcmp(heard.text, cases[i].heard) == 0))
                printf("    case %zu cut at %zu: %s\n", i, cut, heard.text);
            CHECK(t, i != 18 || strstr(heard.text, "14;15Q"));
            input_release(&input);
        }
    }
}

static void count_items(void *context, const struct input_item *item)
{
    (void)item;
    ++*(int *)context;
}

static void characters_are_one_key(struct harness *t)
{
    int items = 0;
    struct input input = {.take = count_items, .context = &items, .escape_ms = 30};
    for (int i = 0; i < 3; i++) // given when they are whole, not when time has passed
        input_push(&input, &"\346\227\245"[i], 1, 0);
    CHECK_EQ(t, items, 1);
    items = 0;
    input_push(&input, "\346\227\245\033\303\251\033[A", 9, 0);
    CHECK_EQ(t, items, 3);
    items = 0;
    input_push(&input, "\033[1 q\033[!~\033[/0\177", 14,
               0); // from a space to a slash they belong to it; what breaks it ends it
    CHECK_EQ(t, items, 3);
    input_release(&input);
}

static void the_clock_tells_escape(struct harness *t)
{
    struct heard heard;
    struct input input = new_input(&heard);
    CHECK_EQ(t, input_wait_ms(&input, 0), -1);
    input_push(&input, "\033", 1, 1000);
    CHECK_EQ(t, input_wait_ms(&input, 1010), 20);
    input_tick(&input, 1029);
    CHECK_STR(t, heard.text, "");
    input_tick(&input, 1030);
    CHECK_STR(t, heard.text, "<esc>");
    input_push(&input, "\033", 1, 2000);
    input_push(&input, "b", 1, 2020); // in time: Alt-b
    CHECK_STR(t, heard.text, "<esc>\033b");
    input_push(&input, "\033", 1, 3000);
    input_push(&input, "b", 1, 3031); // too late, though nobody asked meanwhile
    CHECK_STR(t, heard.text, "<esc>\033b<esc>b");
    input_push(&input, "\033[", 2, 4000); // Alt-[ is a key in the end
    input_tick(&input, 4000 + INPUT_KEY_MS - 1);
    CHECK_STR(t, heard.text, "<esc>\033b<esc>b");
    input_tick(&input, 4000 + INPUT_KEY_MS);
    CHECK_STR(t, heard.text, "<esc>\033b<esc>b\033[");
    input_release(&input);
}

static void answers_are_no_keys(struct harness *t)
{
    struct heard heard;
    struct input input = new_input(&heard);
    input_push(&input, "\033]", 2, 1000); // Alt-] and 1, typed by hand
    input_push(&input, "1", 1, 1030);
    CHECK_STR(t, heard.text, "\033]1");
    input_push(&input, "\033P", 2, 2000);
    CHECK_EQ(t, input_wait_ms(&input, 2000), 30);
    input_tick(&input, 2030);
    CHECK_STR(t, heard.text, "\033]1\033P");
    input_push(&input, "\033]11;rgb", 8, 3000); // never ends
    CHECK_EQ(t, input_wait_ms(&input, 3000), INPUT_KEY_MS);
    input_push(&input, "k", 1, 3000 + INPUT_KEY_MS);
    CHECK_STR(t, heard.text, "\033]1\033Pk");
    input_push(&input, "\033]52;", 5, 4000); // nor is endless
    for (int i = 0; i < INPUT_ANSWER_MOST; i++)
        input_push(&input, "x", 1, 4000);
    CHECK(t, heard.length > 6 && heard.length < 20);
    input_push(&input, "\033]52;", 5, 5000);
    input_drop(&input);
    input_push(&input, "l", 1, 5000);
    CHECK(t, heard.text[heard.length - 1] == 'l');
    input_release(&input);
}

static void pastes_end(struct harness *t)
{
    struct heard heard;
    struct input input = new_input(&heard);
    input_push(&input, "\033[200~never ends", 16, 1000);
    CHECK_EQ(t, input_wait_ms(&input, 1000), INPUT_PASTE_MS);
    input_push(&input, "x", 1, 1000 + INPUT_PASTE_MS);
    CHECK_STR(t, heard.text, "<paste:never ends>x");
    CHECK(t, !input_is_alone(&input, 2, 9000) && input_is_alone(&input, 1, 9000));
    input_push(&input, "\033[200~dropped", 13, 9000);
    input_drop(&input);
    CHECK(t, !input_is_alone(&input, 1, 9000 + INPUT_ALONE_MS - 1));
    input_push(&input, "k", 1, 9001);
    CHECK_STR(t, heard.text, "<paste:never ends>xk");
    input_push(&input, "\033[200~is ended\033[2", 17, 9002);
    input_end_paste(&input);
    input_end_paste(&input);
    CHECK_STR(t, heard.text, "<paste:never ends>xk<paste:is ended>");
    input_release(&input);
}

// A terminal that does not mark pastes: no line of one runs in the shell.
static void lines_at_once_are_pasted(struct harness *t)
{
    static const struct {
        const char *sent[3];
        unsigned apart_ms;
        const char *heard;
    } cases[] = {
        {{"a\r!ls\rb\r"}, 0, "<burst:a\n!ls\nb\n>"},
        {{"!ls\rb"}, 0, "<burst:!ls\nb>"},
        {{"a\r", "!ls\r", "b\r"}, 5, "a\r<burst:!ls\n><burst:b\n>"},
        {{"a\r", "!ls\r", "b\r"}, 50, "a\r!ls\rb\r"},
        {{"!ls\r"}, 0, "!ls\r"},
        {{"!ls\r\n"}, 0, "!ls\r\n"},
        {{"a\rb!\rc\r"}, 0, "a\rb!\rc\r"},
        {{"a\r!\rc\r"}, 0, "a\r!\rc\r"},
        // A key before it may have done nothing, or left the line empty; and it may begin with the last byte that came.
        {{"a\r\033[A!ls\r"}, 0, "<burst:a\n[A!ls\n>-1"},
        {{"a\r\001!ls\rb\r"}, 0, "<burst:a\n!ls\nb\n>-1"},
        {{"a\rx\177!ls\rb\r"}, 0, "<burst:a\nx!ls\nb\n>-1"},
        {{"a\r\033[K!ls\rb\r"}, 0, "<burst:a\n[K!ls\nb\n>-1"},
        {{"a\rb\r!", "ls\rc\r"}, 5, "<burst:a\nb\n!><burst:ls\nc\n>"},
        // Escapes that a paste holds hide no command, whether before it, behind it, cut in two or in its line.
        {{"\033[32mgreen\033[0m\r!ls\rb\r"}, 0, "<burst:[32mgreen[0m\n!ls\nb\n>-2"},
        {{"a\r!ls\r\tx\033[31mred\r"}, 0, "<burst:a\n!ls\n\tx[31mred\n>-1"},
        {{"a\r\033[3", "1mb\r!ls\r", "c\r"}, 5, "a\r<burst:[31mb\n!ls\n>-1<burst:c\n>"},
        {{"a\r\033[31m!ls\rb\r"}, 0, "<burst:a\n[31m!ls\nb\n>-1"},
        {{"a\033x\r!ls\rb"}, 0, "<burst:ax\n!ls\nb>-1"},
        {{"!ls\r\033[A\033[B"}, 0, "!ls\r\033[A\033[B"}, // one line and keys
        {{"a\r\033[200~!ls\rb\033[201~"}, 0, "a\r<paste:!ls\nb>"},
        {{"a\r\033[20", "0~!ls\rb\033[201~"}, 5, "a\r<paste:!ls\nb>"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct heard heard;
        struct input input = new_input(&heard);
        for (unsigned k = 0; k < 3 && cases[i].sent[k]; k++)
            input_push(&input, cases[i].sent[k], strlen(cases[i].sent[k]), 1000 + k * cases[i].apart_ms);
        if (!CHECK_STR(t, heard.text, cases[i].heard))
            printf("    case %zu\n", i);
        input_release(&input);
    }
}

static void count(void *context, const struct input_item *item)
{
    size_t *counts = context;
    counts[0] += item->cut;
    counts[1] += item->length;
}

static void pastes_are_bounded(struct harness *t)
{
    size_t counts[2] = {0};
    struct input input = {.take = count, .context = counts, .escape_ms = 30};
    static char block[1 << 20];
    memset(block, 'x', sizeof block);
    input_push(&input, "\033[200~", 6, 0);
    for (int i = 0; i < 17; i++)
        input_push(&input, block, sizeof block, 0);
    input_push(&input, "\033[201~", 6, 0);
    CHECK_EQ(t, counts[0], 1);
    CHECK_EQ(t, counts[1], INPUT_PASTE_LIMIT);
    input_release(&input);
}

static void say_item(void *context, const struct input_item *item)
{
    struct cases *cases = context;
    cases_say(cases, "%d:%zu:", item->kind, item->left_out);
    cases_bytes(cases, item->bytes, item->bytes ? item->length : 0);
    cases_bytes(cases, "\n", 1);
}

// Whatever comes, in whatever pieces and pauses.
static void all_that_may_come(struct harness *t)
{
    static const char *const pieces[] = {"\033",  "[",         "O",         "A",        "~",       "1;5C", "200~",
                                         "201~",  "\033[200~", "\033[201~", "\r",       "\n",      "!ls",  "a",
                                         "\303",  "\251",      "<64;3;4M",  "<65;3;4M", "<0;3;4m", "\t",   "\177",
                                         "?62;c", ">1c",       " ",         "/"};
    static const unsigned pauses[] = {0, 0, 0, 1, 19, 20, 21, 29, 30, 31, 499, 500, 4999, 5000};
    struct cases cases = cases_begin("all_that_may_come");
    for (int n = 0; n < 12000; n++) {
        struct input input = {.take = say_item, .context = &cases, .escape_ms = 30};
        uint64_t now = 1000;
        for (uint32_t i = 1 + cases_draw(&cases, 12); i > 0; i--) {
            char text[64] = "";
            for (uint32_t k = 1 + cases_draw(&cases, 5); k > 0; k--)
                strcat(text, pieces[cases_draw(&cases, sizeof pieces / sizeof pieces[0])]);
            input_push(&input, text, strlen(text), now);
            cases_say(&cases, "wait %d\n", input_wait_ms(&input, now + cases_draw(&cases, 20)));
            now += pauses[cases_draw(&cases, sizeof pauses / sizeof pauses[0])];
            if (cases_draw(&cases, 2))
                input_tick(&input, now);
            if (cases_draw(&cases, 40) == 0)
                input_drop(&input);
        }
        input_tick(&input, now + 9000);
        input_release(&input);
    }
    CHECK_CASES(t, &cases, 0x7d8c28a1993e7e89);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(splits_do_not_matter),
                                                TEST(characters_are_one_key),
                                                TEST(the_clock_tells_escape),
                                                TEST(answers_are_no_keys),
                                                TEST(pastes_end),
                                                TEST(pastes_are_bounded),
                                                TEST(lines_at_once_are_pasted),
                                                TEST(all_that_may_come)};
    return HARNESS_RUN(tests, argc, argv);
}
