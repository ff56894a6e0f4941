// SPDX-License-Identifier: GPL-3.0-or-later
// /export and /copy: their arguments, and the bytes that they write.
#include "app/talk/export.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "app/util/json_out.h"
#include "tests/harness.h"

static struct chat_turn turns[] = {
    {.role = TOK_USER, .text = {.data = "hi\n\tthere", .length = 9}},
    {.role = TOK_ASSISTANT, .text = {.data = "a\n```c\nint x;\n```\nb\n```\ny\n```", .length = 29}},
    {.role = TOK_USER, .text = {.data = "\x1B[2J\xFF", .length = 5}},
    {.role = TOK_ASSISTANT, .text = {.data = "last", .length = 4}},
};
static const struct chat chat = {.turns = turns, .n_turns = 4};

// What a saved session's export says of a message, and what the chat's own does, is the same.
static void one_writer_for_both(struct harness *t)
{
    struct part part = {.number = 4,
                        .after = 3,
                        .role = TOK_ASSISTANT,
                        .text = {.data = "yes", .length = 3},
                        .ids = {.ids = (int32_t[]){7, 8}, .count = 2},
                        .made = {.time = 12, .sampling = {.seed = 34, .temperature = 0.5f}, .stop = "end"}};
    struct chat_turn turn = {
        .number = 4, .after = 3, .role = TOK_ASSISTANT, .text = part.text, .ids = part.ids, .made = part.made};
    struct json_out object = {0};
    struct bytes out = {0};
    export_open(&object, &(struct export_head){"zoe", "demo"});
    export_parts(&object, "messages", &part, 1);
    export_turns(&object, "branches", &turn, 1);
    json_out_close(&object, '}');
    CHECK(t, json_out_render(&object, &out));
    static const char message[] =
        "{\"part\":4,\"after\":3,\"role\":\"assistant\",\"text\":\"yes\",\"time\":12,\"ids\":[7,8],"
        "\"seed\":34,\"temp\":0.5,\"stop_reason\":\"end\"}";
    char wanted[600];
    snprintf(wanted, sizeof wanted, "{\"name\":\"zoe\",\"model\":\"demo\",\"messages\":[%s],\"branches\":[%s]}\n",
             message, message);
    CHECK_STR(t, out.data, wanted);
    bytes_release(&out);
}

// A first message with two answers, one gone on from twice; and another beginning.
static struct chat_turn way[] = {
    {.role = TOK_USER, .text = {.data = "one", .length = 3}, .number = 0, .said = 0, .after = PART_NONE},
    {.role = TOK_ASSISTANT, .text = {.data = "first", .length = 5}, .number = 1, .said = 1, .after = 0},
};
static struct chat_turn aside[] = {
    {.role = TOK_ASSISTANT, .text = {.data = "second", .length = 6}, .number = 2, .said = 2, .after = 0},
    {.role = TOK_USER, .text = {.data = "two", .length = 3}, .number = 3, .said = 3, .after = 2},
    {.role = TOK_USER, .text = {.data = "zwei", .length = 4}, .number = 4, .said = 4, .after = 2},
    {.role = TOK_SYSTEM, .text = {.data = "be", .length = 2}, .number = 5, .said = 5, .after = PART_NONE},
    {.role = TOK_USER, .text = {.data = "uno", .length = 3}, .number = 6, .said = 6, .after = 5},
};
static const struct chat tree = {.turns = way, .n_turns = 2, .others = aside, .n_others = 5};

static void other_branches_follow(struct harness *t)
{
    struct bytes out = {0};
    CHECK(t, export_chat(&out, EXPORT_TEXT, &(struct export_head){"zoe", "demo"}, &tree));
    CHECK_STR(t, out.data,
              "You: one\n\nAssistant: first\n"
              "\n--- Another branch, after \"one\"\n\nAssistant: second\n\nYou: two\n"
              "\n--- Another branch, after \"second\"\n\nYou: zwei\n"
              "\n--- Another beginning\n\nSystem: be\n\nYou: uno\n");
    out.length = 0;
    CHECK(t, export_chat(&out, EXPORT_MARKDOWN, &(struct export_head){"zoe", "demo"}, &tree));
    CHECK(t, strstr(out.data, "\n# Another branch, after \"second\"\n\n## You\n\nzwei\n") != NULL);
    out.length = 0;
    CHECK(t, export_chat(&out, EXPORT_JSON, &(struct export_head){"zoe", "demo"}, &tree));
    CHECK(t, strstr(out.data, "{\"part\":4,\"after\":2,\"role\":\"user\",\"text\":\"zwei\"") != NULL);
    CHECK(t, strstr(out.data, "\"branches\":[{\"part\":2,") != NULL);
    bytes_release(&out);
}

// A system message that no message followed yet is no part of what was said, and the one that it replaces still is; as
// /stats and /tree count.
static void a_system_message_that_waits_is_none(struct harness *t)
{
    struct bytes out = {0};
    struct chat_turn now[] = {
        {.role = TOK_SYSTEM, .text = {.data = "do", .length = 2}, .number = PART_NONE, .after = PART_NONE}, aside[4]};
    struct chat waits = {.turns = now, .n_turns = 2, .others = &aside[3], .n_others = 1, .system_set = true};
    CHECK_EQ(t, chat_messages(&waits), 2);
    CHECK(t, export_chat(&out, EXPORT_TEXT, &(struct export_head){"zoe", "demo"}, &waits));
    CHECK_STR(t, out.data, "System: be\n\nYou: uno\n");
    out.length = 0;
    CHECK(t, export_chat(&out, EXPORT_JSON, &(struct export_head){"zoe", "demo"}, &waits));
    CHECK(t, strstr(out.data, "\"messages\":[{\"part\":5,") && strstr(out.data, "\"branches\":[]}"));
    now[1].after = PART_NONE;
    waits.n_others = 0;
    out.length = 0;
    CHECK_EQ(t, chat_messages(&waits), 1);
    CHECK(t, export_chat(&out, EXPORT_TEXT, &(struct export_head){"zoe", "demo"}, &waits));
    CHECK_STR(t, out.data, "You: uno\n");
    bytes_release(&out);
}

static void parses(struct harness *t)
{
    static const struct {
        const char *typed, *path;
        enum export_format format;
        bool unknown;
    } cases[] = {
        {"", "", EXPORT_MARKDOWN, false},
        {"md", "", EXPORT_MARKDOWN, false},
        {"json", "", EXPORT_JSON, false},
        {"txt a b", "a b", EXPORT_TEXT, false},
        {"x.json", "x.json", EXPORT_JSON, false},
        {"a.b/x", "a.b/x", EXPORT_MARKDOWN, false},
        {"md x.json", "x.json", EXPORT_MARKDOWN, false},
        {"mdx", "mdx", EXPORT_MARKDOWN, false},
        {".txt", ".txt", EXPORT_TEXT, false},
        {"pdf x", "pdf x", EXPORT_MARKDOWN, true},
        {"a/b c", "a/b c", EXPORT_MARKDOWN, false},
        {"x.pdf y", "x.pdf y", EXPORT_MARKDOWN, false},
        {"pdf", "pdf", EXPORT_MARKDOWN, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t length = strlen(cases[i].typed);
        char *typed = malloc(length + 1); // by itself, so that a sanitizer sees who looks beside it
        memcpy(typed, cases[i].typed, length + 1);
        struct export_request got = export_parse(typed, length);
        CHECK_EQ(t, got.unknown, cases[i].unknown);
        CHECK(t, got.format == cases[i].format && got.path_length == strlen(cases[i].path));
        CHECK(t, strncmp(got.path, cases[i].path, got.path_length) == 0);
        free(typed);
    }
}

static const char *rendered(enum export_format format, struct bytes *out)
{
    out->length = 0;
    return export_chat(out, format, &(struct export_head){"zoe", "demo"}, &chat) ? out->data : "";
}

static void renders_the_bytes(struct harness *t)
{
    struct bytes out = {0};
    CHECK_STR(
        t, rendered(EXPORT_TEXT, &out),
        "You: hi\n\tthere\n\nAssistant: a\n```c\nint x;\n```\nb\n```\ny\n```\n\nYou: \x1B[2J\xFF\n\nAssistant: last\n");
    CHECK(t, strncmp(rendered(EXPORT_MARKDOWN, &out), "## You\n\nhi\n\tthere\n\n## Assistant\n\na\n", 35) == 0);
    const char *json = rendered(EXPORT_JSON, &out);
    CHECK(t, strstr(json, "\"name\":\"zoe\",\"model\":\"demo\"") && !strchr(json, '\x1B'));
    CHECK(t, strstr(json, "\"text_hex\":\"1b5b324aff\"") && json[strlen(json) - 1] == '\n');
    bytes_release(&out);
}

static const char *picked(const char *which)
{
    static char text[64];
    struct bytes piece = {0};
    const char *wrong;
    bool got = export_pick(&chat, which, &piece, &wrong);
    snprintf(text, sizeof text, "%.60s", got ? piece.data : wrong);
    bytes_release(&piece);
    return text;
}

static void picks(struct harness *t)
{
    CHECK_STR(t, picked(""), "last");
    CHECK_STR(t, picked("1"), "last");
    CHECK(t, strncmp(picked("2"), "a\n```c", 6) == 0);
    CHECK_STR(t, picked("3"), "No such answer to copy.");
    CHECK_STR(t, picked("x"), "/copy takes N for the Nth last answer, or code K for a code ");
    CHECK_STR(t, picked("code"), "The last answer has no such code block.");
    turns[3].text = (struct bytes){.data = "<think>\n```\nno\n```\n</think>\n\nyes", .length = 32};
    CHECK(t, strstr(picked(""), "yes") && !strstr(picked(""), "no"));
    CHECK_STR(t, picked("code"), "The last answer has no such code block.");
    turns[3].text = turns[1].text;
    CHECK_STR(t, picked("code"), "int x;\n");
    CHECK_STR(t, picked("code 2"), "y\n");
    CHECK_STR(t, picked("code 3"), "The last answer has no such code block.");
    CHECK_STR(t, picked("code x"), "/copy takes N for the Nth last answer, or code K for a code ");
}

static void writes_whole_files(struct harness *t)
{
    char folder[] = "/tmp/moechat-export-XXXXXX", name[64];
    struct bytes text = {0}, read = {0};
    if (!CHECK(t, mkdtemp(folder) != NULL))
        return;
    bytes_append(&text, "one", 3);
    snprintf(name, sizeof name, "%s/a.md", folder);
    CHECK_EQ(t, export_write(name, &text, false), 0);
    bytes_append(&text, " two", 4);
    CHECK_EQ(t, export_write(name, &text, false), EEXIST);
    CHECK(t, files_read(name, 100, &read) == 0 && strcmp(read.data, "one") == 0);
    CHECK_EQ(t, export_write(name, &text, true), 0);
    read.length = 0;
    CHECK(t, files_read(name, 100, &read) == 0 && strcmp(read.data, "one two") == 0);
    CHECK_EQ(t, export_write("/nowhere/x.md", &text, false), ENOENT);
    CHECK_EQ(t, export_write("/dev/full", &text, false), ENOSPC);
    setenv("HOME", folder, 1);
    struct export_request request = export_parse("md ~/a.md", 9);
    char *path = export_path(&request, "zoe");
    CHECK_STR(t, path, name);
    free(path);
    request = export_parse("json", 4);
    path = export_path(&request, "zoe");
    CHECK_STR(t, path, "zoe.json");
    free(path);
    path = export_path(&request, "");
    CHECK_STR(t, path, "conversation.json");
    free(path);
    unlink(name);
    rmdir(folder);
    bytes_release(&text);
    bytes_release(&read);
}

// Thousands of messages behind one answer are exported in a moment, each once.
static void wide_trees(struct harness *t)
{
    enum { WIDE = 30000 };
    struct chat_turn *others = calloc(WIDE, sizeof *others);
    struct bytes out = {0};
    struct timespec from, to;
    size_t found = 0;
    if (!CHECK(t, others != NULL))
        return;
    for (int64_t i = 0; i < WIDE; i++)
        others[i] = (struct chat_turn){.role = i ? TOK_USER : TOK_ASSISTANT,
                                       .text = {.data = "here", .length = 4},
                                       .number = i + 2,
                                       .said = i + 2,
                                       .after = i ? 2 : 0};
    const struct chat wide = {.turns = way, .n_turns = 2, .others = others, .n_others = WIDE};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    CHECK(t, export_chat(&out, EXPORT_TEXT, &(struct export_head){"", ""}, &wide));
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    CHECK(t, to.tv_sec - from.tv_sec < 4);
    for (const char *at = out.data; at && (at = strstr(at, ": here\n")); at++)
        found++;
    CHECK_EQ(t, found, WIDE);
    bytes_release(&out);
    free(others);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(wide_trees),        TEST(parses), TEST(other_branches_follow), TEST(one_writer_for_both),
        TEST(renders_the_bytes), TEST(picks),  TEST(writes_whole_files),    TEST(a_system_message_that_waits_is_none)};
    return HARNESS_RUN(tests, argc, argv);
}
