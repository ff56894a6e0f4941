// SPDX-License-Identifier: GPL-3.0-or-later
// Markdown as it comes: what is styled, and that no cut changes it.
#define _GNU_SOURCE // MAP_ANONYMOUS
#include "app/view/markdown.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/harness.h"

static char letter(enum style style)
{
    switch (style) {
    case STYLE_TEXT:
        return '.';
    case STYLE_BOLD:
        return 'b';
    case STYLE_CODE:
        return 'c';
    case STYLE_CODE_BLOCK:
        return 'F';
    case STYLE_HEADING:
        return 'h';
    case STYLE_LIST:
        return 'l';
    case STYLE_MARKUP:
        return 'm';
    default:
        return '?';
    }
}

// A letter a byte for the style of each, pushed in pieces of `step`.
static void styles_in(const char *text, size_t step, char *out)
{
    struct markdown state = {0};
    struct style_runs runs = {0};
    size_t length = strlen(text), end;
    for (size_t at = 0; at < length; at += step) {
        char *piece = malloc(step);
        size_t n = length - at < step ? length - at : step;
        memcpy(piece, text + at, n);
        markdown_push(&state, piece, n, &runs);
        free(piece);
    }
    markdown_finish(&state, &runs);
    for (size_t i = 0; i < length; i++)
        out[i] = letter(style_runs_at(&runs, i, &end));
    out[length] = 0;
    style_runs_release(&runs);
}

static void styled(struct harness *t, const char *text, const char *want)
{
    char got[512];
    for (size_t step = 1; step <= strlen(text) + 1; step++) {
        styles_in(text, step, got);
        if (!CHECK_STR(t, got, want))
            printf("    of \"%s\" in pieces of %zu\n", text, step);
    }
}

static void emphasis(struct harness *t)
{
    styled(t, "a **b** c", "..mmbmm..");
    styled(t, "***b***c", "mmmbmmm.");
    styled(t, "2**3**4", ".......");
    styled(t, "a ** b **", ".........");
    styled(t, "**a\nb**", "mmb....");
    styled(t, "*a* _b_ __c__", ".............");
    styled(t, "\\**a**", "......");
    styled(t, "\xE6\x97\xA5**\xE6\x97\xA5**", "...mmbbbmm");
    styled(t, "\xC3\xA9**a** \xC3\xA9", "..........");
    styled(t, "\xE1\x83\x90**a** x", ".........."); // the last of the letters' first bytes
    styled(t, "\xE2\x80\x9C**a** x", "...mmbmm..");
    styled(t, "\xC2\xBB**a** x", "..mmbmm..");
    styled(t, "(**a**)", ".mmbmm.");
    styled(t, "****a****", ".........");
    styled(t, "**a **b", "mmbbbbb");
    styled(t, "**", "..");
}

static void code(struct harness *t)
{
    styled(t, "a `b` c", "..mcm..");
    styled(t, "`` a`b `` c", "mmcccccmm..");
    styled(t, "`**a**`", "mcccccm");
    styled(t, "**`a` b**", "mmmcmbbmm");
    styled(t, "`a\nb", "mc..");
    styled(t, "`", ".");
    styled(t, "`a\\`b", "mccm.");
    styled(t, "\\`a` b", "...mcc");
}

static void line_begins(struct harness *t)
{
    styled(t, "# h **b**\nx", "hhhhmmhmmh.");
    styled(t, "###### h", "hhhhhhhh");
    styled(t, "####### h", ".........");
    styled(t, "#h", "..");
    styled(t, "#", ".");
    styled(t, "- a\n* b\n+ c\n-d", "ll..ll..ll....");
    styled(t, "  - **a**", "..llmmbmm");
    styled(t, "1. a\n12) b\n1.5\n7", "lll..llll.......");
    styled(t, "1234567890. a", ".............");
    styled(t, "**a** b", "mmbmm..");
    styled(t, "2024", "....");
    styled(t, "-", ".");
    styled(t, "\n\n# h\n\n", "..hhhh.");
}

static void fences(struct harness *t)
{
    styled(t, "```c\n# x **y**\n```\nz", "FFFFFFFFFFFFFFFFFFF.");
    styled(t, "~~~\n```\n~~~\nz", "FFFFFFFFFFFF.");
    styled(t, "````\n```\n````  \nz", "FFFFFFFFFFFFFFFF.");
    styled(t, "```\na\n``` b\n", "FFFFFFFFFFFF");
    styled(t, "```a``` b", "mmmcmmm..");
    styled(t, "```", "FFF");
    styled(t, "``\n", "...");
    styled(t, "  ```\n  x\n  ```\ny", "FFFFFFFFFFFFFFFF.");
    styled(t, "a ```b``` c", "..mmmcmmm..");
}

static void blocks(struct harness *t)
{
    static const char text[] = "a\n```c\none\n\ttwo\n```\nb\n~~~\nthree\n~~~\n```\nopen";
    const char *found;
    size_t length;
    CHECK(t, markdown_code_block(text, sizeof text - 1, 1, &found, &length) && length == 9 &&
                 memcmp(found, "one\n\ttwo\n", 9) == 0);
    CHECK(t, markdown_code_block(text, sizeof text - 1, 2, &found, &length) && length == 6 &&
                 memcmp(found, "three\n", 6) == 0);
    CHECK(t, markdown_code_block(text, sizeof text - 1, 3, &found, &length) && length == 4 &&
                 memcmp(found, "open", 4) == 0);
    CHECK(t, !markdown_code_block(text, sizeof text - 1, 4, &found, &length));
    CHECK(t, !markdown_code_block("none", 4, 1, &found, &length));
    CHECK(t, markdown_code_block("```\nx\n```", 9, 1, &found, &length) && length == 2);
    CHECK(t, !markdown_code_block("", 0, 1, &found, &length));
}

// What has been told while streaming is what is told in the end.
static void nothing_flips(struct harness *t)
{
    static const char text[] = "# h\n- **b** `c` **\n```x\ny **z**\n```\n1. \\*a 2**3 `` d";
    char whole[sizeof text];
    struct markdown state = {0};
    struct style_runs runs = {0};
    styles_in(text, sizeof text, whole);
    for (size_t i = 0; i < sizeof text - 1; i++) {
        size_t end;
        markdown_push(&state, text + i, 1, &runs);
        for (size_t byte = 0; runs.count && byte < runs.at[runs.count - 1].end; byte++)
            CHECK(t, letter(style_runs_at(&runs, byte, &end)) == whole[byte]);
        CHECK(t, runs.count == 0 || runs.at[runs.count - 1].end <= i + 1);
    }
    style_runs_release(&runs);
}

// A text that ends where no memory follows.
static char *at_the_edge(char *pages, const char *text, size_t length)
{
    char *at = pages + sysconf(_SC_PAGESIZE) - length;
    memcpy(at, text, length);
    return at;
}

// Cut at `cut`, and whatever was cut: every byte has a style and the state keeps its bounds.
static struct style_runs styles_of_two(struct harness *t, const char *text, size_t length, size_t cut)
{
    struct markdown state = {0};
    struct style_runs runs = {0};
    for (size_t i = 0; i < 2; i++) {
        markdown_push(&state, i ? text + cut : text, i ? length - cut : cut, &runs);
        CHECK(t, state.prefix_length < sizeof state.prefix);
    }
    markdown_finish(&state, &runs);
    CHECK_EQ(t, runs.count ? runs.at[runs.count - 1].end : 0, length);
    return runs;
}

static void check_all_cuts(struct harness *t, const char *text, size_t length)
{
    struct style_runs whole = styles_of_two(t, text, length, length);
    for (size_t cut = 0; cut < length; cut++) {
        struct style_runs split = styles_of_two(t, text, length, cut);
        bool same = split.count == whole.count;
        for (size_t i = 0; same && i < whole.count; i++)
            same = split.at[i].end == whole.at[i].end && split.at[i].style == whole.at[i].style;
        if (!CHECK(t, same))
            printf("    \"%.*s\" cut at %zu\n", (int)length, text, cut);
        style_runs_release(&split);
    }
    style_runs_release(&whole);
}

// Indents around the room that there is for the start of a line, each mark so often, and what follows.
static void every_prefix_at_every_cut(struct harness *t)
{
    static const char marks[] = "`~#-*+1", *const tails[] = {"", "x", "`", "\n", " x\n```\n", ".", "``` `\n"};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), text[128];
    if (pages == MAP_FAILED || mprotect(pages + page, page, PROT_NONE))
        abort();
    for (size_t indent = 0; indent < 68; indent = indent == 3 ? 54 : indent + 1) {
        for (size_t n = 0; n < 8 * (sizeof marks - 1) && t->failures == 0; n++) {
            for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
                size_t count = n % 8;
                memset(text, ' ', indent);
                memset(text + indent, marks[n / 8], count);
                memcpy(text + indent + count, tails[i], strlen(tails[i]));
                size_t length = indent + count + strlen(tails[i]);
                check_all_cuts(t, at_the_edge(pages, text, length), length);
            }
        }
    }
    munmap(pages, 2 * page);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(emphasis),
        TEST(code),
        TEST(line_begins),
        TEST(fences),
        TEST(blocks),
        TEST(nothing_flips),
        TEST(every_prefix_at_every_cut),
    };
    return HARNESS_RUN(tests, argc, argv);
}
