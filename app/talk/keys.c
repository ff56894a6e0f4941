// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/talk/keys.h"

#include "app/talk/commands.h"
#include "app/options/options.h"
#include "app/util/words.h"

// Meta-Enter, arrows and paging in the forms of xterm, VT, linux and rxvt.
static const struct key_row table[KEY_COUNT] = {
    [KEY_NEWLINE] = {"moechat-newline", {"\n", "\033\r", "\033\n"}, true},
    [KEY_COMPLETE] = {"moechat-complete", {"\t"}, true},
    [KEY_UP] = {"moechat-up", {"\033[A", "\033OA"}, false},
    [KEY_DOWN] = {"moechat-down", {"\033[B", "\033OB"}, false},
    [KEY_PAGE_UP] = {"moechat-page-up", {"\033[5~"}, false},
    [KEY_PAGE_DOWN] = {"moechat-page-down", {"\033[6~"}, false},
    [KEY_LINE_UP] = {"moechat-line-up", {"\033k", "\033[1;2A"}, false},
    [KEY_LINE_DOWN] = {"moechat-line-down", {"\033j", "\033[1;2B"}, false},
    [KEY_TO_BEGIN] = {"moechat-to-begin", {"\033[1;5H", "\033[7^"}, false},
    [KEY_TO_END] = {"moechat-follow", {"\033g", "\033[1;5F", "\033[8^"}, false},
    [KEY_SEARCH] = {"moechat-search", {"\033/"}, false},
    [KEY_STATS] = {"moechat-stats", {"\033s"}, false},
    [KEY_ZOOM] = {"moechat-zoom", {"\033z"}, false},
    [KEY_FOLD] = {"moechat-fold-thinking", {"\033o"}, false},
    [KEY_BARE] = {"moechat-bare-view", {"\033v"}, false},
    [KEY_COPY] = {"moechat-copy", {"\033w"}, false},
    [KEY_EDITOR] = {"moechat-editor", {"\030\005"}, false},
    [KEY_REDRAW] = {"moechat-redraw", {"\f"}, false},
    [KEY_HELP] = {"moechat-help", {"\033OP", "\033[11~", "\033[[A"}, false},
};

enum face { BOTH, FULL, PLAIN };

static const struct {
    const char *key, *help;
    enum face face;
} help[] = {
    {"Enter", "send the message; while it answers: put it in the queue", FULL},
    {"Enter", "send the message", PLAIN},
    {"Alt-Enter, Ctrl-J", "a new line within the message", BOTH},
    {"Ctrl-C", "while it answers: stop and keep what is there; else put the draft into the history", BOTH},
    {"Esc", "close what lies over the chat; else stop the answer and send what is queued", FULL},
    {"Ctrl-D", "on an empty line: save and leave", BOTH},
    {"Up, Down", "rows of the draft, then earlier and later messages; what is queued comes back first", FULL},
    {"Up, Down", "earlier and later messages", PLAIN},
    {"Ctrl-R", "search earlier messages", BOTH},
    {"Tab", "complete commands, names and paths, or list them", BOTH},
    {"PgUp, PgDn", "a page up or down", FULL},
    {"Alt-k, Alt-j", "a row up or down", FULL},
    {"Ctrl-Home, Ctrl-End", "the begin of the chat; its end, and follow it", FULL},
    {"Alt-g", "the end of the chat, and follow it", FULL},
    {"Alt-/", "search the chat; then n and N, the earlier and later matches; Esc ends it", FULL},
    {"Alt-s", "figures: row, pane, heat map, off", FULL},
    {"Alt-z", "the pane of figures in the chat's place, and back", FULL},
    {"Alt-o", "unfold and fold what the model thought", FULL},
    {"Alt-v", "bare view: the whole chat as text for the terminal to select; any key returns", FULL},
    {"Alt-w", "copy the last answer, with --clipboard", FULL},
    {"Ctrl-X Ctrl-E", "write the message in $VISUAL or $EDITOR", FULL},
    {"Ctrl-Z", "suspend; fg returns", BOTH},
    {"Ctrl-L", "draw the screen anew", FULL},
    {"Ctrl-L", "clear the screen", PLAIN},
    {"F1", "this help; Esc closes it", FULL},
};

const struct key_row *keys_row(enum key key)
{
    return &table[key];
}

size_t keys_help(FILE *out, const char *wanted, bool plain)
{
    size_t shown = 0;
    for (size_t i = 0; i < sizeof help / sizeof help[0]; i++) {
        if (help[i].face == (plain ? FULL : PLAIN) ||
            (!words_about(help[i].key, wanted) && !words_about(help[i].help, wanted)))
            continue;
        fprintf(out, "  %-20s  %s\n", help[i].key, help[i].help);
        shown++;
    }
    return shown;
}

void keys_dump(FILE *out)
{
    for (size_t i = 0; i < sizeof help / sizeof help[0]; i++) {
        fprintf(out, ".It Ic %s\n", help[i].key);
        words_print(out, help[i].help, 0, 0);
        if (help[i].face == PLAIN)
            fputs("That is without the full screen.\n", out);
    }
}
