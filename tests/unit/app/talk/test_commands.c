// SPDX-License-Identifier: GPL-3.0-or-later
// How a line is told from a command, what may be done during an answer, and the help.
#include "tests/harness.h"

#include <stdlib.h>

#include "app/util/words.h"
#include "app/talk/commands.h"
#include "app/options/options.h"
#include "app/talk/habits.h"
#include "app/talk/help.h"
#include "app/term/keys.h"
#include "app/options/options.h"

static void tells_messages_from_commands(struct harness *t)
{
    static const struct {
        const char *typed;
        enum line_kind kind;
        const char *command;
        const char *text;
    } lines[] = {
        {"", LINE_EMPTY, NULL, ""},
        {" \t\n ", LINE_EMPTY, NULL, ""},
        {"hello", LINE_MESSAGE, NULL, "hello"},
        {"  hello ", LINE_MESSAGE, NULL, "  hello "},
        {"two\nlines\r\n\n", LINE_MESSAGE, NULL, "two\nlines"},
        {"what is 1/2?", LINE_MESSAGE, NULL, "what is 1/2?"},
        {"/help", LINE_COMMAND, "help", ""},
        {"/quit", LINE_COMMAND, "quit", ""},
        {"  /quit", LINE_SPACED, NULL, "quit"},
        {"\"\"\"\none\n/two\n\"\"\"", LINE_MESSAGE, NULL, "one\n/two"},
        {"\"\"\"one\"\"\" \n", LINE_MESSAGE, NULL, "one"},
        {"\"\"\"one", LINE_MESSAGE, NULL, "\"\"\"one"}, // the face waits for its end
        {"\"\"\"\"\"\"", LINE_EMPTY, NULL, ""},
        {"\"\"\"\n\"\"\"", LINE_EMPTY, NULL, ""},
        {"\"\"\"\n \n\"\"\"\n", LINE_EMPTY, NULL, " "},
        {"\"\" a", LINE_MESSAGE, NULL, "\"\" a"},
        {"\n/new x", LINE_SPACED, NULL, "new"},
        {" /nonsense", LINE_UNKNOWN, NULL, "nonsense"},
        {"/export md a b", LINE_COMMAND, "export", "md a b"},
        {"/copy code 2", LINE_COMMAND, "copy", "code 2"},
        {"/exit", LINE_COMMAND, "quit", ""},
        {"/bye  ", LINE_COMMAND, "quit", ""},
        {"/clear", LINE_COMMAND, "new", ""},
        {"/undo 3 ", LINE_COMMAND, "undo", "3"},
        {"/save", LINE_COMMAND, "save", ""},
        {"/save trip ", LINE_COMMAND, "save", "trip"},
        {"/resume trip", LINE_COMMAND, "load", "trip"},
        {"/switch trip", LINE_COMMAND, "load", "trip"},
        {"/rename a b", LINE_COMMAND, "rename", "a b"},
        {"/system  Be brief. \n", LINE_COMMAND, "system", "Be brief."},
        {"/system two\nlines", LINE_COMMAND, "system", "two\nlines"},
        {"/set temp 0", LINE_COMMAND, "set", "temp 0"},
        {"/nonsense here", LINE_UNKNOWN, NULL, "nonsense"},
        {"/hel", LINE_UNKNOWN, NULL, "hel"},
        {"/helpx", LINE_UNKNOWN, NULL, "helpx"},
        {"/", LINE_UNKNOWN, NULL, ""},
        {"/HELP", LINE_UNKNOWN, NULL, "HELP"},
        {"//help", LINE_MESSAGE, NULL, "/help"},
        {" //x y", LINE_MESSAGE, NULL, " //x y"},
        {"\n//x\n", LINE_MESSAGE, NULL, "\n//x"},
        {"//", LINE_MESSAGE, NULL, "/"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct line got = commands_parse(lines[i].typed, strlen(lines[i].typed));
        bool same = got.kind == lines[i].kind && got.length == strlen(lines[i].text) &&
                    strncmp(got.text, lines[i].text, got.length) == 0 &&
                    (got.kind != LINE_COMMAND || !strcmp(got.row->name, lines[i].command));
        if (!CHECK(t, same))
            printf("    \"%s\" gave kind %d, \"%.*s\"\n", lines[i].typed, got.kind, (int)got.length, got.text);
    }
}

// What shows beside the conversation need not wait for the answer under way.
// What /edit and a command's output put where messages are typed is sent as that very text.
static void any_text_can_be_typed(struct harness *t)
{
    static const struct {
        const char *text, *typed;
    } cases[] = {
        {"hello", "hello"},
        {"/help", "//help"},
        {"//x", "///x"},
        {" /help", "\\ /help"},
        {"!ls", "\\!ls"},
        {"!", "!"},
        {"!note\ntouch x",
         "\\!note\ntouch x"}, // of several lines it is no command of the shell, but may become one line
        {"\\!ls", "\\\\!ls"},
        {"\\frac{1}{2}", "\\frac{1}{2}"},
        {"\"\"\"Docstring.\"\"\"\nx = \"\"\"y\"\"\"", "\\\"\"\"Docstring.\"\"\"\nx = \"\"\"y\"\"\""},
        {"\"\"\"q", "\\\"\"\"q"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bytes typed = {0};
        CHECK(t, commands_quote(&typed, cases[i].text, strlen(cases[i].text)));
        CHECK_STR(t, typed.data, cases[i].typed);
        struct line line = commands_parse(typed.data, typed.length);
        CHECK_EQ(t, line.kind, LINE_MESSAGE);
        CHECK_STR(t, line.text, cases[i].text);
        CHECK_EQ(t, line.length, strlen(cases[i].text));
        CHECK(t, !commands_is_shell(typed.data, typed.length) && !commands_is_open(typed.data, typed.length));
        bytes_release(&typed);
    }
    CHECK(t, commands_is_shell("!ls", 3) && !commands_is_shell("!ls\nb", 5));
}

static void some_need_not_wait(struct harness *t)
{
    static const struct {
        const char *typed;
        bool meanwhile;
    } lines[] = {{"/help undo", true}, {"/keys", true},       {"/heat", true},       {"/log", true},
                 {"/bye", true},       {"/think show", true}, {"/think fold", true}, {"/think on", false},
                 {"/think", false},    {"/stats", true},      {"/undo", false},      {"/set temp 1", false}};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct line line = commands_parse(lines[i].typed, strlen(lines[i].typed));
        if (!CHECK(t, line.kind == LINE_COMMAND && commands_meanwhile(&line) == lines[i].meanwhile))
            printf("    %s\n", lines[i].typed);
    }
}

// Names are found as they are typed, so each may stand in one row alone.
static void names_are_not_taken_twice(struct harness *t)
{
    const struct command_row *row;
    char name[32];
    for (size_t i = 0; (row = commands_row(i)); i++) {
        CHECK(t, commands_find(row->name, strlen(row->name)) == row && *row->help);
        for (const char *rest = row->aliases; words_next(&rest, name, sizeof name);)
            CHECK(t, commands_find(name, strlen(name)) == row);
    }
    CHECK(t, !commands_find("resume|switch", 13) && !commands_find("", 0));
}

static void slips_are_told(struct harness *t)
{
    static const char *const slips[][2] = {{"hel", "help"},
                                           {"hlep", "help"},
                                           {"exprot", "export"},
                                           {"sesions", "sessions"},
                                           {"retyr", "retry"},
                                           {"x", NULL},
                                           {"banana", NULL},
                                           {"", NULL},
                                           {"sets", "set"},
                                           {"undoo", "undo"},
                                           // of other programs
                                           {"regen", "retry"},
                                           {"regenerate", "retry"},
                                           {"read", "file"},
                                           {"context", "stats"},
                                           {"info", "stats"},
                                           {"nothink", "think off"},
                                           {"reset", "new"}};
    for (size_t i = 0; i < sizeof slips / sizeof slips[0]; i++) {
        const char *near = commands_near(slips[i][0], strlen(slips[i][0]));
        if (!CHECK(t, slips[i][1] ? near && !strcmp(near, slips[i][1]) : !near))
            printf("    %s gave %s\n", slips[i][0], near ? near : "nothing");
    }
    CHECK(t, !strcmp(commands_find("?", 1)->name, "help") && !strcmp(commands_find("list", 4)->name, "sessions"));
    CHECK(t, !strcmp(commands_find("show", 4)->name, "stats"));
}

static void habits_are_answered(struct harness *t)
{
    static const char *const messages[][2] = {
        {":q", "/quit"},   {"quit", "/quit"}, {":w", "/save"},     {":w file", "/save"}, {":e x", "/load"},
        {"help", "/help"}, {":h x", "/help"}, {":set nu", "/set"}, {"clear", "/new"},    {":quip", NULL},
        {"quit it", NULL}, {"help me", NULL}, {":whatever", NULL}, {"", NULL},           {"hello", NULL}};
    unsigned which = HABITS_MESSAGES, seen = 0;
    for (size_t i = 0; i < sizeof messages / sizeof messages[0]; i++) {
        const char *said = habits_message(messages[i][0], strlen(messages[i][0]), &which);
        if (!CHECK(t, messages[i][1] ? said && strstr(said, messages[i][1]) && which < HABITS_MESSAGES : !said))
            printf("    %s gave %s\n", messages[i][0], said ? said : "nothing");
        seen |= said ? 1U << which : 0;
    }
    CHECK(t, (seen & (seen - 1)) != 0); // several numbers
    CHECK(t, strstr(habits_command("models", 6), "moechat MODEL_DIR") && strstr(habits_command("glob", 4), "/file"));
    CHECK(t, !habits_command("mode", 4) && !habits_setting("temp"));
    CHECK_STR(t, habits_setting("num_predict")->ours, "max-tokens");
    // What is a command or a setting here is no habit of elsewhere: it would never be done.
    for (size_t i = 0; commands_row(i); i++) {
        const char *name = commands_row(i)->name;
        CHECK(t, !habits_command(name, strlen(name)) && !habits_our_command(name, strlen(name)));
    }
    for (size_t i = 0; options_setting(i); i++)
        CHECK(t, !habits_setting(options_setting(i)));
}

static void zeros_are_the_messages(struct harness *t)
{
    struct line line = commands_parse("a\0b", 3);
    CHECK(t, line.kind == LINE_MESSAGE && line.length == 3 && !memcmp(line.text, "a\0b", 3));
    line = commands_parse("//\0b", 4);
    CHECK(t, line.kind == LINE_MESSAGE && line.length == 3);
    line = commands_parse("\0", 1);
    CHECK(t, line.kind == LINE_MESSAGE && line.length == 1);
    line = commands_parse("/system a\0b ", 12);
    CHECK(t, line.kind == LINE_COMMAND && line.length == 3);
}

static void counts(struct harness *t)
{
    size_t count = 0;
    CHECK(t, commands_count("", 1, &count) && count == 1);
    CHECK(t, commands_count("12", 1, &count) && count == 12);
    CHECK(t, commands_count("2 ", 1, &count) && count == 2);
    CHECK(t, !commands_count("0", 1, &count));
    CHECK(t, !commands_count("-1", 1, &count));
    CHECK(t, !commands_count("2x", 1, &count));
    CHECK(t, !commands_count("two", 1, &count));
    CHECK(t, !commands_count("99999999999999999999999", 1, &count));
}

static void files_are_named(struct harness *t)
{
    static const char *const cases[][3] = {
        {"a.txt", "a.txt", ""},
        {"a.txt what is this?", "a.txt", "what is this?"},
        {"\"a b\" sum  up", "a b", "sum  up"},
        {"\"a b\"", "a b", ""},
        {"~/x", "~/x", ""},
    };
    struct line path, words;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct line line = {.text = cases[i][0], .length = strlen(cases[i][0])};
        CHECK(t, commands_file(&line, &path, &words));
        CHECK(t, path.length == strlen(cases[i][1]) && strncmp(path.text, cases[i][1], path.length) == 0);
        CHECK(t, words.length == strlen(cases[i][2]) && strncmp(words.text, cases[i][2], words.length) == 0);
    }
    CHECK(t, !commands_file(&(struct line){.text = "", .length = 0}, &path, &words));
    CHECK(t, !commands_file(&(struct line){.text = "\"a", .length = 2}, &path, &words));
    CHECK(t, !commands_file(&(struct line){.text = "\"\" x", .length = 4}, &path, &words));
}

static void help_searches(struct harness *t)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    size_t all = commands_help(out, "");
    size_t undo = commands_help(out, "/undo");
    size_t none = commands_help(out, "no such word");
    size_t cases = commands_help(out, "MESSAGE"), option = options_search(out, "Temperature", 24);
    size_t key = keys_of_screen(out, "alt-w");
    fclose(out);
    CHECK(t, cases > 2 && cases < all && option == 1 && key == 1);
    CHECK(t, all >= 9);
    CHECK(t, undo >= 1 && undo < all);
    CHECK_EQ(t, none, 0);
    CHECK(t, strstr(text, "/new, /clear") != NULL);
    free(text);
}

static const char *help_on(const char *wanted, help_keys_fn *keys)
{
    static char text[16384];
    FILE *out = fmemopen(text, sizeof text, "w");
    help_print(out, wanted, keys);
    fclose(out);
    return text;
}

// One search through commands, keys and options; headings only where something is found.
static void one_help_for_all(struct harness *t)
{
    const char *text = help_on("", keys_of_screen);
    CHECK(t,
          strstr(text, "Commands\n") && strstr(text, "\nKeys\n") && !strstr(text, "Options") && strstr(text, "Alt-s"));
    CHECK(t, !strstr(help_on("", keys_of_lines), "Alt-s"));
    text = help_on("/UNDO", keys_of_screen);
    CHECK(t, strstr(text, "/undo [N]") && !strstr(text, "Keys") && !strstr(text, "Options"));
    text = help_on("temperature", keys_of_screen);
    CHECK(t, strncmp(text, "Options of moechat\n", 19) == 0 && strstr(text, "--temp T"));
    text = help_on("--mouse", keys_of_screen); // as the command line has it
    CHECK(t, strncmp(text, "Options of moechat\n", 19) == 0 && strstr(text, "--mouse"));
    CHECK(t, strstr(help_on("no such word", keys_of_lines), "Nothing found") != NULL);
}

static void quotes_are_open_until_they_close(struct harness *t)
{
    static const struct {
        const char *typed;
        bool open;
    } cases[] = {{"\"\"\"", true}, {"\"\"\"a\nb", true},   {"\"\"\"a\nb\"\"\"", false}, {"\"\"\"a\"\" \"", true},
                 {"", false},      {"a \"\"\"", false},    {"\"\"\"\"", true},          {"\"\"\"a\"\"\"\n ", false},
                 {"\"\"", false},  {"\"\"\"\"\"\"", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (!CHECK_EQ(t, commands_is_open(cases[i].typed, strlen(cases[i].typed)), cases[i].open))
            printf("    %s\n", cases[i].typed);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(quotes_are_open_until_they_close),
                                                TEST(tells_messages_from_commands),
                                                TEST(any_text_can_be_typed),
                                                TEST(some_need_not_wait),
                                                TEST(names_are_not_taken_twice),
                                                TEST(slips_are_told),
                                                TEST(habits_are_answered),
                                                TEST(zeros_are_the_messages),
                                                TEST(counts),
                                                TEST(files_are_named),
                                                TEST(help_searches),
                                                TEST(one_help_for_all)};
    return HARNESS_RUN(tests, argc, argv);
}
