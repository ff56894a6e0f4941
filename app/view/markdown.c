// SPDX-License-Identifier: GPL-3.0-or-later
// Tells styles from the bytes of an answer as they come.
#include "app/view/markdown.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

void style_runs_release(struct style_runs *runs)
{
    free(runs->at);
    *runs = (struct style_runs){0};
}

bool style_runs_add(struct style_runs *runs, size_t length, enum style style)
{
    if (!runs || length == 0)
        return true;
    size_t begin = runs->count ? runs->at[runs->count - 1].end : 0;
    if (length > UINT32_MAX - begin)
        return false;
    if (runs->count && runs->at[runs->count - 1].style == style) {
        runs->at[runs->count - 1].end += (uint32_t)length;
        return true;
    }
    if (runs->count == runs->capacity) {
        size_t capacity = runs->capacity ? 2 * runs->capacity : 16;
        struct style_run *grown = realloc(runs->at, capacity * sizeof *grown);
        if (!grown)
            return false;
        runs->at = grown;
        runs->capacity = capacity;
    }
    runs->at[runs->count++] = (struct style_run){.end = (uint32_t)(begin + length), .style = (uint8_t)style};
    return true;
}

enum style style_runs_at(const struct style_runs *runs, size_t byte, size_t *end)
{
    size_t low = 0, high = runs->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (runs->at[middle].end > byte)
            high = middle;
        else
            low = middle + 1;
    }
    *end = low < runs->count ? runs->at[low].end : SIZE_MAX;
    return low < runs->count ? runs->at[low].style : STYLE_TEXT;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

// The styles of a line's text, and what has to be remembered for it.
struct sink {
    struct style_runs *runs;
    bool failed;
};

static void emit(struct sink *sink, size_t length, enum style style)
{
    if (!style_runs_add(sink->runs, length, style))
        sink->failed = true;
}

static enum style inline_style(const struct markdown *state)
{
    if (state->code_ticks)
        return STYLE_CODE;
    return state->bold && state->base != STYLE_HEADING ? STYLE_BOLD : state->base;
}

// Is `before` the first byte of a letter or digit? What has two bytes and more is one up to U+1FFF, but Latin signs.
static bool in_word(unsigned char before)
{
    return before < 0x80 ? isalnum(before) || before == '_' : before >= 0xC3 && before <= 0xE1;
}

// The run of marks has ended before `next`.
static void settle_run(struct markdown *state, char next, struct sink *sink)
{
    size_t length = state->run_length;
    char mark = state->run;
    enum style style = inline_style(state);
    state->run = 0;
    if (mark == '`' && state->code_ticks == length) {
        state->code_ticks = 0;
        style = STYLE_MARKUP;
    } else if (mark == '`' && !state->code_ticks && next != '\n') {
        state->code_ticks = length;
        style = STYLE_MARKUP;
    } else if (mark == '*' && (length == 2 || length == 3)) {
        if (state->bold && !is_blank((char)state->before)) {
            state->bold = false;
            style = STYLE_MARKUP;
        } else if (!state->bold && !is_blank(next) && next != '\n' && !in_word(state->before)) {
            state->bold = true;
            style = STYLE_MARKUP;
        }
    }
    emit(sink, length, style);
    state->before = (unsigned char)mark;
}

static void begin_line(struct markdown *state)
{
    state->line = MARKDOWN_BEGIN;
    state->base = STYLE_TEXT;
    state->prefix_length = 0;
    state->code_ticks = 0;
    state->bold = state->escaped = false;
    state->closing = 0;
    state->no_closing = state->closing_ended = false;
    state->before = ' ';
}

static void take_inline(struct markdown *state, char c, struct sink *sink)
{
    if (state->run == c && c) {
        state->run_length++;
        return;
    }
    if (state->run)
        settle_run(state, c, sink);
    if (c == '\n') {
        emit(sink, 1, state->base);
        begin_line(state);
        return;
    }
    if (!state->escaped && (c == '`' || (c == '*' && !state->code_ticks))) {
        state->run = c;
        state->run_length = 1;
        return;
    }
    emit(sink, 1, inline_style(state));
    state->escaped = c == '\\' && !state->escaped && !state->code_ticks;
    if (((unsigned char)c & 0xC0) != 0x80)
        state->before = (unsigned char)c;
}

static void take_fenced(struct markdown *state, char c, struct sink *sink)
{
    emit(sink, 1, STYLE_CODE_BLOCK);
    if (c == '\n') {
        if (!state->no_closing && state->closing >= state->fence_length)
            state->fence_length = 0;
        begin_line(state);
    } else if (c == state->fence_mark && !state->closing_ended) {
        state->closing++;
    } else if (is_blank(c)) {
        state->closing_ended = state->closing > 0;
    } else {
        state->no_closing = true;
    }
    if (c == state->fence_mark && state->closing_ended)
        state->no_closing = true;
}

enum verdict { UNDECIDED, IS_TEXT, IS_HEADING, IS_ITEM, IS_FENCE };

// What the start of a line makes of it; *marks is how many bytes belong to its mark.
static enum verdict judge(const char *text, size_t length, size_t *marks)
{
    size_t count = 0;
    if (length == 0)
        return UNDECIDED;
    while (count < length && text[count] == text[0])
        count++;
    *marks = count;
    switch (text[0]) {
    case '#':
        if (count == length)
            return count <= 6 ? UNDECIDED : IS_TEXT;
        return count <= 6 && text[count] == ' ' ? IS_HEADING : IS_TEXT;
    case '`':
    case '~':
        if (count >= 3)
            return IS_FENCE;
        return count == length ? UNDECIDED : IS_TEXT;
    case '-':
    case '*':
    case '+':
        *marks = 2;
        if (length == 1)
            return UNDECIDED;
        return text[1] == ' ' ? IS_ITEM : IS_TEXT;
    default:
        count = 0;
        while (count < length && isdigit((unsigned char)text[count]))
            count++;
        if (count == 0 || count > 9)
            return IS_TEXT;
        *marks = count + 2;
        if (count == length || (count + 1 == length && (text[count] == '.' || text[count] == ')')))
            return UNDECIDED;
        return (text[count] == '.' || text[count] == ')') && text[count + 1] == ' ' ? IS_ITEM : IS_TEXT;
    }
}

static void replay(struct markdown *state, struct sink *sink)
{
    char prefix[sizeof state->prefix];
    size_t length = state->prefix_length;
    memcpy(prefix, state->prefix, length);
    state->prefix_length = 0;
    state->line = MARKDOWN_INLINE;
    for (size_t i = 0; i < length; i++)
        take_inline(state, prefix[i], sink);
}

static void open_fence(struct markdown *state, struct sink *sink)
{
    size_t indent = 0, marks = 0;
    while (is_blank(state->prefix[indent]))
        indent++;
    judge(state->prefix + indent, state->prefix_length - indent, &marks);
    state->fence_mark = state->prefix[indent];
    state->fence_length = marks;
    emit(sink, state->prefix_length, STYLE_CODE_BLOCK);
    state->no_closing = true; // the line that opens
    state->prefix_length = 0;
    state->line = MARKDOWN_INLINE;
}

// A byte of a fence's first line, after its marks: backticks must not come again, they would be code in a line.
static void take_info(struct markdown *state, char c, struct sink *sink)
{
    size_t last = state->prefix_length - 1, indent = strspn(state->prefix, " \t");
    char mark = state->prefix[indent];
    if (c == '\n') {
        open_fence(state, sink);
        take_fenced(state, c, sink);
        return;
    }
    bool again = c == '`' && mark == '`' && state->prefix[last] != '`';
    state->prefix[state->prefix_length++] = c;
    if (again)
        replay(state, sink);
    else if (state->prefix_length == sizeof state->prefix - 1)
        open_fence(state, sink);
    else
        state->prefix[state->prefix_length] = 0;
}

static void take_begin(struct markdown *state, char c, struct sink *sink)
{
    if (c == '\n') {
        replay(state, sink);
        take_inline(state, c, sink);
        return;
    }
    state->prefix[state->prefix_length++] = c;
    state->prefix[state->prefix_length] = 0;
    size_t indent = strspn(state->prefix, " \t"), marks = 0;
    switch (judge(state->prefix + indent, state->prefix_length - indent, &marks)) {
    case UNDECIDED:
        if (state->prefix_length == sizeof state->prefix - 1)
            replay(state, sink);
        return;
    case IS_TEXT:
        replay(state, sink);
        return;
    case IS_HEADING:
        state->base = STYLE_HEADING;
        emit(sink, state->prefix_length, STYLE_HEADING);
        break;
    case IS_ITEM:
        emit(sink, indent, STYLE_TEXT);
        emit(sink, marks, STYLE_LIST);
        break;
    case IS_FENCE:
        state->line = MARKDOWN_INFO;
        if (state->prefix_length == sizeof state->prefix - 1) // no room to wait for what follows its marks
            open_fence(state, sink);
        return;
    }
    state->prefix_length = 0;
    state->line = MARKDOWN_INLINE;
}

static void take(struct markdown *state, char c, struct sink *sink)
{
    if (state->fence_length)
        take_fenced(state, c, sink);
    else if (state->line == MARKDOWN_BEGIN)
        take_begin(state, c, sink);
    else if (state->line == MARKDOWN_INFO)
        take_info(state, c, sink);
    else
        take_inline(state, c, sink);
}

bool markdown_push(struct markdown *markdown, const char *text, size_t length, struct style_runs *runs)
{
    struct sink sink = {.runs = runs};
    for (size_t i = 0; i < length; i++)
        take(markdown, text[i], &sink);
    return !sink.failed;
}

bool markdown_finish(struct markdown *markdown, struct style_runs *runs)
{
    struct sink sink = {.runs = runs};
    if (markdown->line == MARKDOWN_INFO)
        open_fence(markdown, &sink);
    else if (markdown->prefix_length)
        replay(markdown, &sink);
    if (markdown->run)
        settle_run(markdown, '\n', &sink);
    *markdown = (struct markdown){0};
    return !sink.failed;
}

bool markdown_code_block(const char *text, size_t length, size_t n, const char **code, size_t *code_length)
{
    struct markdown state = {0};
    size_t begin = 0;
    for (size_t at = 0; at < length;) {
        const char *newline = memchr(text + at, '\n', length - at);
        size_t next = newline ? (size_t)(newline - text) + 1 : length;
        bool within = state.fence_length > 0;
        markdown_push(&state, text + at, next - at, NULL);
        if (!newline)
            markdown_push(&state, "\n", 1, NULL);
        if (!within && state.fence_length) {
            begin = next;
            n--;
        }
        bool closed = within && !state.fence_length, ended = state.fence_length && next == length;
        if (n == 0 && (closed || ended)) {
            *code = text + begin;
            *code_length = (closed ? at : next) - begin;
            return true;
        }
        at = next;
    }
    return false;
}
