// SPDX-License-Identifier: GPL-3.0-or-later
// The conversation on the screen: entries, scrolling, folding, searching.
#include "app/view/transcript.h"

#include <locale.h>
#include <stdlib.h>

#include "app/view/table.h"
#include "tests/harness.h"

enum { ROOM = 16384 };

// The window as text, its rows joined by newlines, without the empty ones at its end.
static const char *screen(struct transcript *transcript, int rows, int columns)
{
    static char out[ROOM];
    struct cells cells = {0};
    size_t length = 0, kept = 0;
    transcript_resize(transcript, rows, columns);
    cells_resize(&cells, rows, columns);
    transcript_draw(transcript, &cells);
    for (int row = 0; row < rows; row++) {
        size_t got = cells_text(&cells, row, out + length, ROOM - length - 1);
        length += got;
        kept = got ? length : kept;
        out[length++] = '\n';
    }
    out[kept] = 0;
    cells_release(&cells);
    return out;
}

static void say(struct transcript *transcript, enum entry_kind kind, const char *text)
{
    transcript_add(transcript, kind, text, strlen(text));
}

// An answer of the lines "line 1" to "line n".
static void say_lines(struct transcript *transcript, int n)
{
    transcript_begin(transcript, ENTRY_ASSISTANT);
    for (int i = 1; i <= n; i++) {
        char line[32];
        transcript_append(transcript, line, (size_t)snprintf(line, sizeof line, "line %d\n", i));
    }
}

// What is said beside an answer, or thinking, leaves it as it was: in the middle of a character, of code.
static void an_answer_goes_on_before_what_is_said_beside_it(struct harness *t)
{
    struct transcript *transcript = transcript_new(false);
    transcript_begin(transcript, ENTRY_THINKING);
    transcript_append(transcript, "so", 2);
    say(transcript, ENTRY_NOTICE, "first");
    transcript_append(transcript, "on", 2);
    transcript_begin(transcript, ENTRY_ASSISTANT);
    transcript_append(transcript, "one \xC3", 5);
    say(transcript, ENTRY_NOTICE, "\nsaid");
    say(transcript, ENTRY_ERROR, "wrong \xC3");
    transcript_append(transcript, "\xA4 two", 5);
    CHECK_EQ(t, transcript_entries(transcript), 5);
    CHECK_STR(t, screen(transcript, 14, 40),
              "thought (Alt-o: show all)\nsoon\n\nfirst\n\n\u25C6 one \u00E4 two\n\nsaid\n\nerror: wrong \uFFFD");
    transcript_finish(transcript);
    transcript_append(transcript, "more", 4); // to nothing
    say(transcript, ENTRY_NOTICE, "end");
    say(transcript, ENTRY_USER, "next");
    CHECK(t,
          strstr(screen(transcript, 20, 40), "two\n\nsaid\n\nerror: wrong \uFFFD\n\nend\n\nyou \u203A next") != NULL);
    transcript_free(transcript);
}

// As much as the sanitiser lets stand on one character, in each of a row.
static void full_characters_leave_room(struct harness *t)
{
    static const char full[] = "\u263A\uFE0F\U0001F3FD\U0001D167\U0001D168\U0001D169\U0001D167";
    struct transcript *transcript = transcript_new(false);
    transcript_begin(transcript, ENTRY_ASSISTANT);
    for (int i = 0; i < 37; i++)
        transcript_append(transcript, full, sizeof full - 1);
    transcript_append(transcript, "z", 1);
    const char *shown = screen(transcript, 3, 40);
    CHECK(t, strchr(shown, 'z') != NULL);
    transcript_free(transcript);
}

// What is cut into more rows than there were when the window left the end has none that are new.
static void tables_are_not_new(struct harness *t)
{
    static const char text[] = "  /word       what it does, said in so many words that a row has no room for them\n"
                               "  /other      the same, in as many words, so that what is cut anew is longer by far\n";
    struct transcript *transcript = transcript_new(false);
    say(transcript, ENTRY_NOTICE, text);
    CHECK(t, transcript_make_table(transcript, 14, 8));
    screen(transcript, 1, 100);
    transcript_scroll(transcript, -1);
    static const int columns[] = {30, 44, 100};
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        screen(transcript, 1, columns[i]);
        CHECK_EQ(t, transcript_new_rows(transcript), 0);
    }
    say(transcript, ENTRY_NOTICE, "behind");
    screen(transcript, 1, 30);
    CHECK_EQ(t, transcript_new_rows(transcript), 1);
    transcript_free(transcript);
}

// A table is cut for the columns that there are, not twice: for those that there were, and again.
static void tables_are_cut_anew(struct harness *t)
{
    static const char text[] = "  /word       what it does, said in so many words that a row has no room for them\n"
                               "  /other      23.8 MB\n";
    struct transcript *transcript = transcript_new(false);
    CHECK(t, transcript_make_table(transcript, 14, 8)); // there is none
    say(transcript, ENTRY_NOTICE, "before");
    screen(transcript, 20, 100);
    say(transcript, ENTRY_NOTICE, text);
    CHECK(t, transcript_make_table(transcript, 14, 8));
    say(transcript, ENTRY_NOTICE, "behind");
    static const int columns[] = {100, 30, 44, 100, 31};
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        char wanted[ROOM], *folded = NULL;
        size_t length = 0;
        FILE *out = open_memstream(&folded, &length);
        table_fold(out, text, &(struct table){columns[i], 14, 8});
        fclose(out);
        snprintf(wanted, sizeof wanted, "before\n%sbehind", folded);
        free(folded);
        CHECK_STR(t, screen(transcript, 20, columns[i]), wanted);
    }
    CHECK(t, transcript_search(transcript, "23.8", 4, true) && transcript_matches(transcript).count == 1);
    screen(transcript, 20, 100);
    CHECK(t, transcript_search_next(transcript, true) && transcript_matches(transcript).count == 1);
    transcript_free(transcript);
}

// How likely tokens were is told by colours, of the last entry alone.
static void likely_tokens_have_colours(struct harness *t)
{
    struct transcript *transcript = transcript_new(false);
    struct cells cells = {0};
    CHECK(t, transcript_style_likely(transcript));
    say(transcript, ENTRY_NOTICE, "99 %");
    say(transcript, ENTRY_NOTICE, "1 \"a\" 97.5 %, 2 \"b\" 12 %, 3 \"c\" 0.2 %, 4 %%");
    CHECK(t, transcript_style_likely(transcript));
    transcript_resize(transcript, 2, 60);
    cells_resize(&cells, 2, 60);
    transcript_draw(transcript, &cells);
    const struct cell *row = cells.cells + 60;
    CHECK_EQ(t, cells.cells[0].style, STYLE_NOTICE);
    CHECK_EQ(t, row[0].style, STYLE_NOTICE);
    CHECK(t, row[6].style == STYLE_LIKELY && row[6].base == '9' && row[11].style == STYLE_LIKELY);
    CHECK_EQ(t, row[12].style, STYLE_NOTICE);
    CHECK(t, row[20].base == '1' && row[20].style == STYLE_TEXT);
    CHECK(t, row[32].base == '0' && row[32].style == STYLE_UNLIKELY && row[36].style == STYLE_UNLIKELY);
    say(transcript, ENTRY_NOTICE, "a 50 %, b 10 %"); // each at its edge
    CHECK(t, transcript_style_likely(transcript));
    transcript_resize(transcript, 2, 60);
    transcript_draw(transcript, &cells);
    CHECK(t, row[2].base == '5' && row[2].style == STYLE_LIKELY);
    CHECK(t, row[10].base == '1' && row[10].style == STYLE_TEXT);
    cells_release(&cells);
    transcript_free(transcript);
}

// A long answer is wrapped in blocks: going back, its rows come one by one across their edges, up to the first.
static void every_row_comes_going_back(struct harness *t)
{
    enum { LINES = 3000 }; // 30 KB
    struct transcript *transcript = transcript_new(true);
    say_lines(transcript, LINES);
    int wrong = 0;
    for (int i = LINES; i >= 1; i--) {
        char want[32];
        snprintf(want, sizeof want, "%sline %d", i == 1 ? "* " : "", i);
        wrong += strcmp(screen(transcript, 1, 20), want) != 0;
        transcript_scroll(transcript, -1);
    }
    CHECK_EQ(t, wrong, 0);
    transcript_free(transcript);
}

static void entries(struct harness *t)
{
    struct transcript *transcript = transcript_new(true);
    CHECK_STR(t, screen(transcript, 5, 20), "");
    say(transcript, ENTRY_NOTICE, "Welcome.");
    say(transcript, ENTRY_NOTICE, "Type /help.");
    say(transcript, ENTRY_USER, "Hello there, what is the time?");
    say(transcript, ENTRY_ASSISTANT, "It is\n\n- late\n- dark\n");
    say(transcript, ENTRY_ERROR, "no disk");
    CHECK_STR(t, screen(transcript, 20, 20),
              "Welcome.\nType /help.\n\nyou > Hello there,\nwhat is the time?\n\n* It is\n\n- late\n- dark\n\nerror: "
              "no disk");
    CHECK_STR(t, screen(transcript, 3, 20), "- dark\n\nerror: no disk");
    CHECK_STR(t, screen(transcript, 1, 1), "k");
    CHECK_EQ(t, transcript_entries(transcript), 5);
    transcript_cut(transcript, 1);
    CHECK_STR(t, screen(transcript, 3, 20), "Welcome.");
    transcript_clear(transcript);
    CHECK_STR(t, screen(transcript, 3, 20), "");
    say(transcript, ENTRY_USER, "");
    CHECK_STR(t, screen(transcript, 3, 20), "you >");
    transcript_free(transcript);
}

static void text_is_made_safe(struct harness *t)
{
    struct transcript *transcript = transcript_new(true);
    transcript_begin(transcript, ENTRY_ASSISTANT);
    transcript_append(transcript, "a\x1B[2J\xE2", 6);
    CHECK_STR(t, screen(transcript, 3, 20), "* a\xE2\x90\x9B[2J");
    transcript_append(transcript, "\x82\xAC\xE2", 3);
    transcript_finish(transcript);
    CHECK_STR(t, screen(transcript, 3, 20), "* a\xE2\x90\x9B[2J\xE2\x82\xAC\xEF\xBF\xBD");
    transcript_append(transcript, "not taken", 9);
    CHECK_STR(t, screen(transcript, 3, 20), "* a\xE2\x90\x9B[2J\xE2\x82\xAC\xEF\xBF\xBD");
    transcript_free(transcript);
}

static void scrolling(struct harness *t)
{
    struct transcript *transcript = transcript_new(true);
    say_lines(transcript, 10);
    CHECK_STR(t, screen(transcript, 3, 20), "line 8\nline 9\nline 10");
    CHECK(t, transcript_following(transcript) && transcript_percent(transcript) == 100);
    transcript_scroll(transcript, 5);
    CHECK(t, transcript_following(transcript));
    transcript_scroll(transcript, -2);
    CHECK(t, !transcript_following(transcript));
    CHECK_STR(t, screen(transcript, 3, 20), "line 6\nline 7\nline 8");
    CHECK_EQ(t, transcript_new_rows(transcript), 0);
    transcript_append(transcript, "line 11\nline 12 is long enough for two rows\n", 44);
    transcript_finish(transcript);
    say(transcript, ENTRY_USER, "next");
    CHECK_STR(t, screen(transcript, 3, 20), "line 6\nline 7\nline 8");
    CHECK_EQ(t, transcript_new_rows(transcript), 5);
    transcript_scroll(transcript, -100);
    CHECK_STR(t, screen(transcript, 3, 20), "* line 1\nline 2\nline 3");
    CHECK_EQ(t, transcript_percent(transcript), 0);
    transcript_scroll(transcript, 100);
    CHECK(t, transcript_following(transcript));
    CHECK_STR(t, screen(transcript, 3, 20), "enough for two rows\n\nyou > next");
    transcript_to_begin(transcript);
    CHECK_STR(t, screen(transcript, 2, 20), "* line 1\nline 2");
    transcript_follow(transcript);
    CHECK_STR(t, screen(transcript, 1, 20), "you > next");
    transcript_scroll(transcript, -3);
    CHECK_STR(t, screen(transcript, 1, 20), "line 12 is long");
    CHECK(t, strncmp(screen(transcript, 100, 20), "* line 1\nline 2\n", 16) == 0); // nothing is left empty below
    transcript_free(transcript);
}

static void a_resize_keeps_the_line(struct harness *t)
{
    struct transcript *transcript = transcript_new(true);
    for (int i = 0; i < 300; i++) {
        char text[128];
        snprintf(text, sizeof text, "message %d with some words in it that are cut into rows of any width", i);
        say(transcript, ENTRY_NOTICE, text);
    }
    screen(transcript, 10, 80);
    transcript_scroll(transcript, -100);
    CHECK(t, strstr(screen(transcript, 10, 80), "message 190") != NULL);
    char before[ROOM];
    strcpy(before, screen(transcript, 10, 80));
    for (int columns = 1; columns < 120; columns += 7) {
        size_t same = columns < 7 ? (size_t)columns : columns < 11 ? 7 : 11;
        CHECK(t, strncmp(screen(transcript, 10, columns), "message 190", same) == 0);
    }
    CHECK_STR(t, screen(transcript, 10, 80), before);
    transcript_free(transcript);
}

// Back at the size before, the window is where it was.
static void a_resize_shows_the_end(struct harness *t)
{
    struct transcript *transcript = transcript_new(true);
    CHECK(t, transcript_shows_end(transcript));
    say_lines(transcript, 10);
    screen(transcript, 3, 20);
    CHECK(t, transcript_shows_end(transcript));
    transcript_scroll(transcript, -4);
    CHECK_STR(t, screen(transcript, 3, 20), "line 4\nline 5\nline 6");
    CHECK(t, !transcript_shows_end(transcript));
    screen(transcript, 6, 20);
    CHECK(t, !transcript_shows_end(transcript));
    CHECK_STR(t, screen(transcript, 7, 20), "line 4\nline 5\nline 6\nline 7\nline 8\nline 9\nline 10");
    CHECK(t, transcript_shows_end(transcript) && !transcript_following(transcript));
    screen(transcript, 20, 20);
    CHECK(t, transcript_shows_end(transcript));
    CHECK_STR(t, screen(transcript, 3, 20), "line 4\nline 5\nline 6");
    CHECK(t, !transcript_shows_end(transcript));
    transcript_free(transcript);
}

static void thinking_folds(struct harness *t)
{
    struct transcript *transcript = transcript_new(true);
    transcript_begin(transcript, ENTRY_THINKING);
    transcript_append(transcript, "one\ntwo\nthree\nfour\nfive", 23);
    CHECK_STR(t, screen(transcript, 9, 40), "thinking (Alt-o: show all)\nthree\nfour\nfive");
    transcript_append(transcript, " and\nsix", 8);
    CHECK_STR(t, screen(transcript, 9, 40), "thinking (Alt-o: show all)\nfour\nfive and\nsix");
    say(transcript, ENTRY_ASSISTANT, "Done.");
    transcript_thought(transcript, 214, 31);
    CHECK_STR(t, screen(transcript, 9, 50),
              "thought for 31 s, 214 tokens (Alt-o: show all)\nfour\nfive and\nsix\n\n* Done.");
    transcript_show_thinking(transcript, THINKING_HIDDEN);
    CHECK_STR(t, screen(transcript, 9, 50), "thought for 31 s, 214 tokens (Alt-o: show all)\n\n* Done.");
    CHECK(t, !transcript_search(transcript, "two", 3, true));
    transcript_show_thinking(transcript, THINKING_OPEN);
    CHECK_STR(t, screen(transcript, 9, 50),
              "thought for 31 s, 214 tokens (Alt-o: fold)\none\ntwo\nthree\nfour\nfive and\nsix\n\n* Done.");
    CHECK(t, transcript_search(transcript, "two", 3, true));
    transcript_free(transcript);
}

// The window stood in what is folded away.
static void folding_moves_the_window(struct harness *t)
{
    struct transcript *transcript = transcript_new(true);
    say_lines(transcript, 5);
    transcript_begin(transcript, ENTRY_THINKING);
    for (int i = 1; i <= 40; i++) {
        char line[32];
        transcript_append(transcript, line, (size_t)snprintf(line, sizeof line, "thought %d\n", i));
    }
    transcript_finish(transcript);
    say_lines(transcript, 20);
    transcript_show_thinking(transcript, THINKING_OPEN);
    screen(transcript, 5, 40);
    transcript_scroll(transcript, -40);
    CHECK(t, strncmp(screen(transcript, 5, 40), "thought 17\n", 11) == 0);
    transcript_show_thinking(transcript, THINKING_FOLDED);
    CHECK(t, strncmp(screen(transcript, 5, 40), "thought 38\nthought 39\nthought 40\n\n* line 1", 43) == 0);
    transcript_scroll(transcript, -1);
    CHECK(t, strncmp(screen(transcript, 5, 40), "thought (Alt-o", 14) == 0);
    transcript_free(transcript);
}

// A line is known to be a fence only when it ends: until then it is wrapped as words.
static void a_fence_is_known_late(struct harness *t)
{
    struct transcript *transcript = transcript_new(true);
    transcript_begin(transcript, ENTRY_ASSISTANT);
    transcript_append(transcript, "x\n```a bbbbbb cc", 16);
    CHECK_STR(t, screen(transcript, 5, 8), "* x\n```a\nbbbbbb\ncc");
    transcript_append(transcript, "\n", 1);
    CHECK_STR(t, screen(transcript, 5, 8), "* x\n```a bbb\nbbb cc");
    transcript_free(transcript);
}

static void searching(struct harness *t)
{
    struct transcript *transcript = transcript_new(true);
    say_lines(transcript, 100);
    say(transcript, ENTRY_USER, "\xC3\x84pfel, Line");
    screen(transcript, 5, 20);
    CHECK(t, transcript_search(transcript, "LINE", 4, true));
    CHECK(t, transcript_matches(transcript).now == 101 && transcript_matches(transcript).count == 101);
    CHECK(t, transcript_following(transcript)); // it is in the window
    CHECK(t, transcript_search_next(transcript, false));
    CHECK_EQ(t, transcript_matches(transcript).now, 1);
    CHECK(t, strncmp(screen(transcript, 5, 20), "* line 1\n", 9) == 0);
    CHECK(t, transcript_search_next(transcript, true) && transcript_matches(transcript).now == 101);
    for (size_t i = 100; i > 90; i--)
        CHECK(t, transcript_search_next(transcript, true) && transcript_matches(transcript).now == i);
    say(transcript, ENTRY_USER, "one more line");
    CHECK(t, transcript_search_next(transcript, false) && transcript_matches(transcript).now == 92);
    CHECK(t, transcript_matches(transcript).count == 102);
    transcript_cut(transcript, transcript_entries(transcript) - 1);
    CHECK(t, transcript_search(transcript, "\xC3\xA4PF", 4, true) && transcript_matches(transcript).count == 1);
    CHECK(t, transcript_search(transcript, "e 50", 4, true));
    CHECK(t, strstr(screen(transcript, 5, 20), "line 50\n") != NULL);
    CHECK(t, !transcript_search(transcript, "nothing", 7, true));
    CHECK(t, strstr(screen(transcript, 5, 20), "line 50\n") != NULL);
    CHECK(t, !transcript_search(transcript, "", 0, true) && !transcript_search_next(transcript, true));
    transcript_free(transcript);
    transcript = transcript_new(true); // the window begins in the empty row before a message: all of that is in it
    say(transcript, ENTRY_USER, "one");
    say(transcript, ENTRY_USER, "one");
    CHECK_STR(t, screen(transcript, 2, 20), "\nyou > one");
    CHECK(t, transcript_search(transcript, "one", 3, false));
    CHECK(t, transcript_matches(transcript).now == 2 && transcript_matches(transcript).count == 2);
    transcript_free(transcript);
}

// A letter a cell of the top row: . text, b bold, m mark, M match, N the match it stands on.
static const char *styles(struct transcript *transcript, int columns)
{
    static char out[128];
    struct cells cells = {0};
    transcript_resize(transcript, 1, columns);
    cells_resize(&cells, 1, columns);
    transcript_draw(transcript, &cells);
    for (int i = 0; i < columns; i++) {
        int style = cells.cells[i].style;
        out[i] = style == STYLE_TEXT        ? '.'
                 : style == STYLE_BOLD      ? 'b'
                 : style == STYLE_MARKUP    ? 'm'
                 : style == STYLE_MATCH     ? 'M'
                 : style == STYLE_MATCH_NOW ? 'N'
                 : style == STYLE_ASSISTANT ? 'a'
                                            : '?';
    }
    out[columns] = 0;
    cells_release(&cells);
    return out;
}

static void highlights(struct harness *t)
{
    struct transcript *transcript = transcript_new(true);
    say(transcript, ENTRY_ASSISTANT, "x **bold** x bo");
    CHECK_STR(t, styles(transcript, 20), "aa..mmbbbbmm........");
    CHECK(t, transcript_search(transcript, "Bo", 2, true));
    CHECK_STR(t, styles(transcript, 20), "aa..mmMMbbmm...NN...");
    CHECK(t, transcript_search_next(transcript, true));
    CHECK_STR(t, styles(transcript, 20), "aa..mmNNbbmm...MM...");
    transcript_search_end(transcript);
    CHECK_STR(t, styles(transcript, 20), "aa..mmbbbbmm........");
    transcript_free(transcript);
}

static void code_is_not_reflowed(struct harness *t)
{
    struct transcript *transcript = transcript_new(true);
    say(transcript, ENTRY_ASSISTANT, "words here are wrapped\n```\nint one = two + 3;\n```\nand here too, yes");
    CHECK_STR(t, screen(transcript, 20, 12),
              "* words here\nare wrapped\n```\nint one = tw\no + 3;\n```\nand here\ntoo, yes");
    transcript_free(transcript);
}

// Long lines and texts: what is appended in pieces with the window drawn between is what comes at once.
static void long_texts(struct harness *t)
{
    enum { LENGTH = 200000 };
    char *text = malloc(LENGTH);
    for (size_t i = 0; i < LENGTH; i++)
        text[i] = i % 30011 == 0 && i > 60000 ? '\n' : i % 7 == 0 ? ' ' : (char)('a' + i % 26);
    struct transcript *whole = transcript_new(true), *pieces = transcript_new(true);
    transcript_add(whole, ENTRY_ASSISTANT, text, LENGTH);
    transcript_begin(pieces, ENTRY_ASSISTANT);
    for (size_t at = 0; at < LENGTH; at += 1777) {
        transcript_append(pieces, text + at, LENGTH - at < 1777 ? LENGTH - at : 1777);
        screen(pieces, 5, 31);
    }
    transcript_finish(pieces);
    for (int i = 0; i < 50; i++) {
        char want[ROOM];
        strcpy(want, screen(whole, 7, 31));
        CHECK_STR(t, screen(pieces, 7, 31), want);
        transcript_scroll(whole, -177);
        transcript_scroll(pieces, -177);
    }
    free(text);
    transcript_free(whole);
    transcript_free(pieces);
}

static void prints(struct harness *t)
{
    struct transcript *transcript = transcript_new(false);
    char *text = NULL;
    size_t size = 0;
    say(transcript, ENTRY_USER, "a question");
    say(transcript, ENTRY_THINKING, "hm");
    transcript_thought(transcript, 1, 2);
    say(transcript, ENTRY_ASSISTANT, "a\n\tb\n");
    FILE *out = open_memstream(&text, &size);
    transcript_print(transcript, out);
    fclose(out);
    CHECK_STR(t, text, "you \xE2\x80\xBA a question\n\n(thought for 2.0 s, 1 token)\n\n\xE2\x97\x86 a\n\tb\n");
    free(text);
    transcript_free(transcript);
}

static void what_passes_goes(struct harness *t)
{
    struct transcript *transcript = transcript_new(true);
    say(transcript, ENTRY_USER, "one");
    say(transcript, ENTRY_NOTICE, "for now");
    transcript_pass(transcript);
    say(transcript, ENTRY_NOTICE, "figures");
    say(transcript, ENTRY_NOTICE, "for now, too");
    transcript_pass(transcript);
    screen(transcript, 2, 20);
    transcript_scroll(transcript, -2); // the window begins in what goes, or near it
    CHECK(t, transcript_search(transcript, "figures", 7, false) || transcript_search(transcript, "figures", 7, true));
    transcript_drop_passing(transcript);
    CHECK_EQ(t, transcript_entries(transcript), 2);
    transcript_follow(transcript);
    CHECK_STR(t, screen(transcript, 3, 20), "you > one\n\nfigures");
    CHECK(t, transcript_search(transcript, "one", 3, true) && transcript_matches(transcript).count == 1);
    transcript_drop_passing(transcript); // none is left
    CHECK_EQ(t, transcript_entries(transcript), 2);
    transcript_free(transcript);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(tables_are_cut_anew),
        TEST(tables_are_not_new),
        TEST(likely_tokens_have_colours),
        TEST(every_row_comes_going_back),
        TEST(entries),
        TEST(text_is_made_safe),
        TEST(scrolling),
        TEST(a_resize_keeps_the_line),
        TEST(a_resize_shows_the_end),
        TEST(thinking_folds),
        TEST(folding_moves_the_window),
        TEST(a_fence_is_known_late),
        TEST(searching),
        TEST(highlights),
        TEST(code_is_not_reflowed),
        TEST(long_texts),
        TEST(prints),
        TEST(what_passes_goes),
        TEST(an_answer_goes_on_before_what_is_said_beside_it),
        TEST(full_characters_leave_room),
    };
    setlocale(LC_CTYPE, "C.UTF-8");
    return HARNESS_RUN(tests, argc, argv);
}
