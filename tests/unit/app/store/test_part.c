// SPDX-License-Identifier: GPL-3.0-or-later
// Lines of a transcript: what is read of an answer's, each field at its edges, and where lines are in a file.
#include "app/store/part.h"

#include "tests/sealed_rig.h"

static const char body[] =
    "\"part\":3,\"after\":1,\"role\":\"assistant\",\"time\":1000,\"text\":\"hi \xc3\xa9\",\"ids\":[0,2147483647],"
    "\"tokenizer\":\"t\",\"template\":\"c\",\"settings\":{\"temp\":0.5,\"top_k\":40,\"top_p\":0.75,\"min_p\":0,"
    "\"repeat_penalty\":1.25,\"max_tokens\":100},\"seed\":7,\"stop\":\"end\"";

static bool read_line(const struct bytes *line, struct part *part)
{
    uint64_t sum;
    return part_parse(line->data, line->length - 1, part, &sum) && sum == sealed_sum(line->data, line->length - 1);
}

static void an_answer_is_read_and_written(struct harness *t)
{
    struct bytes line = {0}, written = {0};
    struct part part;
    seal(body, sizeof body - 1, &line);
    if (!CHECK(t, read_line(&line, &part)))
        return;
    const struct moe_sampling *sampling = &part.made.sampling;
    CHECK(t, part.number == 3 && part.after == 1 && part.role == TOK_ASSISTANT && part.made.time == 1000);
    CHECK_STR(t, part.text.data, "hi \xc3\xa9");
    CHECK(t, part.ids.count == 2 && part.ids.ids[0] == 0 && part.ids.ids[1] == INT32_MAX);
    CHECK_STR(t, part.language.tokenizer, "t");
    CHECK_STR(t, part.language.template_name, "c");
    CHECK(t, sampling->temperature == 0.5F && sampling->top_k == 40 && sampling->top_p == 0.75F);
    CHECK(t, sampling->min_p == 0 && sampling->repetition_penalty == 1.25F && sampling->seed == 7);
    CHECK(t, part.made.max_tokens == 100);
    CHECK_STR(t, part.made.stop, "end");
    CHECK(t, part_render(&part, &written));
    CHECK_STR(t, written.data, line.data);
    CHECK(t, !part.made.anew);
    size_t length = written.length;
    part.made = (struct part_made){
        .time = 1000, .anew = true, .before = 2, .sampling = *sampling, .max_tokens = 100, .stop = "end"};
    struct part back;
    uint64_t sum;
    CHECK(t, part_render(&part, &written) && strstr(written.data + length, "\"said\":2,"));
    if (CHECK(t, part_parse(written.data + length, written.length - length - 1, &back, &sum)))
        CHECK(t, back.made.anew && back.made.before == 2);
    part_release(&back);
    part.made.before = 3; // nor was it said before as itself
    length = written.length;
    CHECK(t, !part_render(&part, &written) && written.length == length);
    part.made.anew = false;
    part.made.before = 0;
    part.after = 3; // no line is behind itself
    CHECK(t, !part_render(&part, &written) && written.length == length);
    part.after = PART_NONE;
    CHECK(t, part_render(&part, &written) && strstr(written.data + length, "\"after\":null,"));
    part_release(&part);
    bytes_release(&line);
    bytes_release(&written);
}

#define LETTERS_15 "aaaaaaaaaaaaaaa"
#define LETTERS_63 LETTERS_15 LETTERS_15 LETTERS_15 LETTERS_15 "aaa"

static const struct sealed_change changes[] = {
    {"\"part\":3", "\"part\":4294967294", true},
    {"\"part\":3", "\"part\":4294967295", false},
    {"\"part\":3", "\"part\":-1", false},
    {"\"after\":1", "\"after\":2", true},
    {"\"after\":1", "\"after\":3", false}, // itself
    {"\"after\":1", "\"after\":null", true},
    {"\"after\":1", "\"after\":\"1\"", false},
    {"\"after\":1,", "", false},
    {"\"assistant\"", "\"user\"", true},
    {"\"assistant\"", "\"system\"", true},
    {"\"assistant\"", "\"robot\"", false},
    {"\"assistant\"", "\"\"", false},
    {"\"time\":1000", "\"time\":9223372036854775807", true},
    {"\"time\":1000", "\"time\":-1", false},
    {"\"time\":1000", "\"time\":1000,\"said\":2", true},
    {"\"time\":1000", "\"time\":1000,\"said\":0", true},
    {"\"time\":1000", "\"time\":1000,\"said\":3", false}, // itself
    {"\"time\":1000", "\"time\":1000,\"said\":-1", false},
    {"\"time\":1000", "\"time\":1000,\"said\":null", false},
    {"\"text\":\"hi \xc3\xa9\"", "\"text\":\"\"", true},
    {"\"text\":\"hi \xc3\xa9\"", "\"text\":5", false},
    {"\"text\":\"hi \xc3\xa9\",", "", false},
    {"\"ids\":", "\"text_hex\":\"00ff9a\",\"ids\":", true},
    {"\"ids\":", "\"text_hex\":\"\",\"ids\":", true},
    {"\"ids\":", "\"text_hex\":\"00f\",\"ids\":", false},
    {"\"ids\":", "\"text_hex\":\"g0\",\"ids\":", false},
    {"\"ids\":", "\"text_hex\":\"0g\",\"ids\":", false},
    {"\"ids\":", "\"text_hex\":\"0/\",\"ids\":", false},
    {"\"ids\":", "\"text_hex\":\"0:\",\"ids\":", false},
    {"\"ids\":", "\"text_hex\":\"`0\",\"ids\":", false},
    {"\"ids\":", "\"text_hex\":\"AB\",\"ids\":", false},
    {"\"ids\":", "\"text_hex\":17,\"ids\":", false},
    {"[0,2147483647]", "[]", true},
    {"[0,2147483647]", "[-1]", false},
    {"[0,2147483647]", "[2147483648]", false},
    {"[0,2147483647]", "[1.5]", false},
    {"[0,2147483647]", "[\"1\"]", false},
    {"[0,2147483647]", "{}", false},
    {"\"tokenizer\":\"t\"", "\"tokenizer\":\"" LETTERS_63 "a\"", true},
    {"\"tokenizer\":\"t\"", "\"tokenizer\":\"" LETTERS_63 "aa\"", false},
    {"\"template\":\"c\"", "\"template\":\"" LETTERS_63 "\"", true},
    {"\"template\":\"c\"", "\"template\":\"" LETTERS_63 "a\"", false},
    {"\"settings\":{", "\"settings\":[],\"x\":{", false},
    {"\"temp\":0.5", "\"temp\":0", true},
    {"\"temp\":0.5", "\"temp\":1000000", true},
    {"\"temp\":0.5", "\"temp\":1000001", false},
    {"\"temp\":0.5", "\"temp\":-0.1", false},
    {"\"temp\":0.5", "\"temp\":\"hot\"", false},
    {"\"top_k\":40", "\"top_k\":4294967295", true},
    {"\"top_k\":40", "\"top_k\":4294967296", false},
    {"\"top_p\":0.75", "\"top_p\":-1", false},
    {"\"top_p\":0.75", "\"top_p\":null", false},
    {"\"min_p\":0", "\"min_p\":1e7", false},
    {"\"min_p\":0,", "", false},
    {"\"repeat_penalty\":1.25", "\"repeat_penalty\":-1", false},
    {"\"repeat_penalty\":1.25,", "", false},
    {"\"max_tokens\":100", "\"max_tokens\":4294967295", true},
    {"\"max_tokens\":100", "\"max_tokens\":4294967296", false},
    {"\"seed\":7", "\"seed\":18446744073709551615", true},
    {"\"seed\":7", "\"seed\":-7", false},
    {"\"stop\":\"end\"", "\"stop\":\"" LETTERS_15 "\"", true},
    {"\"stop\":\"end\"", "\"stop\":\"" LETTERS_15 "a\"", false},
};

static void of_what_has_no_tokens_some_is_to_be_fed(struct harness *t)
{
    static const struct {
        enum tok_role role;
        const char *text;
        size_t n_ids;
        bool unfed;
    } cases[] = {
        {TOK_ASSISTANT, "", 0, false},
        {TOK_ASSISTANT, "<think>", 0, false}, // the model ended it at once
        {TOK_ASSISTANT, "<think>\n", 0, false},
        {TOK_ASSISTANT, "<think>so", 0, true},
        {TOK_ASSISTANT, "<thin", 0, true},
        {TOK_ASSISTANT, "Hi.", 0, true},
        {TOK_ASSISTANT, "Hi.", 1, false},
        {TOK_USER, "<think>", 0, true},
        {TOK_USER, "", 0, false},
        {TOK_SYSTEM, "Be kind.", 0, true},
        {TOK_SYSTEM, "Be kind.", 3, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bytes text = {0};
        bytes_append(&text, cases[i].text, strlen(cases[i].text));
        if (!CHECK_EQ(t, part_is_unfed(cases[i].role, &text, cases[i].n_ids), cases[i].unfed))
            printf("    %s\n", cases[i].text);
        bytes_release(&text);
    }
    for (int role = 0; role < 3; role++) {
        struct part lost = {.role = (enum tok_role)role};
        CHECK(t, part_make_lost(&lost) && part_is_unfed(lost.role, &lost.text, 0));
        part_release(&lost);
    }
}

static void each_field_is_checked(struct harness *t)
{
    struct bytes line = {0};
    struct part part;
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        const struct sealed_change *change = &changes[i];
        if (!seal_changed(t, body, change, &line))
            continue;
        if (!CHECK_EQ(t, read_line(&line, &part), change->fine))
            printf("    %s -> %s\n", change->from, change->to);
        CHECK(t, change->fine || (!part.text.data && !part.ids.ids));
        if (strstr(change->to, "00ff9a"))
            CHECK(t, part.text.length == 3 && memcmp(part.text.data, "\0\xff\x9a", 3) == 0);
        part_release(&part);
    }
    bytes_release(&line);
}

// Appends the line of a part of that number behind another.
static void add(struct harness *t, struct bytes *file, uint32_t number, int64_t after)
{
    struct part part = {.number = number, .after = after, .role = TOK_USER};
    CHECK(t, bytes_append(&part.text, "hi", 2) && part_render(&part, file));
    part_release(&part);
}

static void lines_are_found_by_number(struct harness *t)
{
    for (int disordered = 0; disordered < 2; disordered++) {
        struct bytes file = {0};
        struct part_lines lines = {0};
        for (uint32_t i = 0; i < 9; i++)
            add(t, &file, 2 * i + 1, i ? 2 * (int64_t)i - 1 : PART_NONE);
        if (disordered)
            add(t, &file, 17, 15); // once more
        CHECK(t, part_lines_scan(&file, &lines) && part_lines_clean(&file, &lines));
        CHECK(t, lines.n_damaged == 0 && !lines.by_number == !disordered);
        size_t n = 9 + (size_t)disordered;
        uint64_t at = 0;
        if (CHECK_EQ(t, lines.n_lines, n))
            for (size_t i = 0; i < n; at += lines.lines[i++].length)
                CHECK(t, lines.lines[i].offset == at && lines.lines[i].number == (i < 9 ? 2 * i + 1 : 17));
        CHECK_EQ(t, at, file.length);
        for (uint32_t i = 0; i < 9; i++) {
            const struct part_line *found = part_lines_find(&lines, n, 2 * i + 1);
            CHECK(t, found == &lines.lines[i + (i == 8 && disordered)]); // of two the last
            CHECK(t, found && found->after == (i ? 2 * (int64_t)i - 1 : PART_NONE));
            CHECK(t, !part_lines_find(&lines, n, 2 * i) && !part_lines_find(&lines, i, 2 * i + 1));
            CHECK(t, part_lines_find(&lines, i + 1, 2 * i + 1) == &lines.lines[i]);
        }
        CHECK(t, !part_lines_find(&lines, n, 18));
        part_lines_release(&lines);
        bytes_release(&file);
    }
}

static void lines_in_any_order_are_found(struct harness *t)
{
    static const uint32_t numbers[] = {7, 2, 5, 2, 9, 1, 2, 7};
    static const struct {
        size_t end;
        uint32_t number;
        int found;
    } cases[] = {{8, 7, 7},  {7, 7, 0}, {0, 7, -1}, {8, 2, 6}, {6, 2, 3},  {3, 2, 1},  {1, 2, -1}, {8, 1, 5},
                 {5, 1, -1}, {8, 9, 4}, {4, 9, -1}, {8, 5, 2}, {8, 0, -1}, {8, 3, -1}, {8, 10, -1}};
    static const size_t ascending[] = {5, 1, 3, 6, 2, 0, 7, 4};
    struct bytes file = {0};
    struct part_lines lines = {0};
    for (size_t i = 0; i < 8; i++)
        add(t, &file, numbers[i], PART_NONE);
    if (CHECK(t, part_lines_scan(&file, &lines) && lines.n_lines == 8))
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            const struct part_line *found = part_lines_find(&lines, cases[i].end, cases[i].number);
            CHECK_EQ(t, found ? found - lines.lines : -1, cases[i].found);
        }
    for (size_t i = 0; i < lines.n_lines; i++)
        CHECK(t, part_lines_ascending(&lines, i) == &lines.lines[ascending[i]]);
    part_lines_release(&lines);
    bytes_release(&file);
}

// Only a last line that was cut off leaves a file clean.
static void damage_is_counted(struct harness *t)
{
    struct bytes file = {0};
    struct part_lines lines = {0};
    CHECK(t, part_lines_scan(&file, &lines) && part_lines_clean(&file, &lines) && lines.n_lines == 0);
    add(t, &file, 0, PART_NONE);
    size_t one = file.length;
    add(t, &file, 1, 0);
    file.length -= 1; // its newline
    CHECK(t, part_lines_scan(&file, &lines) && lines.n_lines == 1 && lines.n_damaged == 1);
    CHECK(t, part_lines_clean(&file, &lines));
    part_lines_release(&lines);
    file.length += 1;
    file.data[one + 40] ^= 1;
    CHECK(t, part_lines_scan(&file, &lines) && lines.n_lines == 1 && lines.n_damaged == 1);
    CHECK(t, !part_lines_clean(&file, &lines)); // a whole line
    part_lines_release(&lines);
    file.data[one + 40] ^= 1;
    file.data[40] ^= 1;
    CHECK(t, part_lines_scan(&file, &lines) && lines.n_lines == 1 && lines.lines[0].offset == one);
    CHECK(t, !part_lines_clean(&file, &lines));
    part_lines_release(&lines);
    bytes_release(&file);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(an_answer_is_read_and_written),
        TEST(each_field_is_checked),
        TEST(of_what_has_no_tokens_some_is_to_be_fed),
        TEST(lines_are_found_by_number),
        TEST(lines_in_any_order_are_found),
        TEST(damage_is_counted),
    };
    return HARNESS_RUN(tests, argc, argv);
}
