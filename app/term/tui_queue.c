// SPDX-License-Identifier: GPL-3.0-or-later
// What was entered: it is done at once, waits in the queue, or stays in the draft.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/term/term.h"
#include "app/term/tui_parts.h"

static size_t count_lines(const char *text)
{
    size_t count = 0;
    for (const char *end = text; (end = strchr(end, '\n')); end++)
        count++;
    return count;
}

static void mark_kept(struct tui *tui, const char *text)
{
    tui->kept_back = true;
    tui->kept_lines = count_lines(text);
}

void tui_echo(struct tui *tui)
{
    const char *text = tui->command;
    struct bytes echo = {0};
    tui->command = NULL;
    if (text && bytes_append(&echo, "\n", 1) && bytes_append(&echo, text, strlen(text)) &&
        transcript_add(tui->chat, ENTRY_NOTICE, echo.data, echo.length))
        tui->echo = transcript_entries(tui->chat);
    bytes_release(&echo);
}

void tui_replace_draft(struct tui *tui, const char *text)
{
    tui->kept_back = false;
    prompt_replace(text);
}

// Text that is not sent stays in the draft, with a line of its own behind it for what is typed next.
static void keep_back(struct tui *tui, const char *text)
{
    struct bytes longer = {0};
    bool fine = bytes_append(&longer, text, strlen(text)) && bytes_append(&longer, "\n", 1);
    prompt_replace(fine ? longer.data : text);
    mark_kept(tui, fine ? longer.data : text);
    tui->kept_several = false;
    bytes_release(&longer);
}

static void put_into_queue(struct tui *tui, const char *text)
{
    bool room = tui->n_queue < TUI_QUEUE;
    if (room && bytes_append(&tui->queue[tui->n_queue], text, strlen(text))) {
        tui->n_queue++;
        return;
    }
    tui_notice(tui, room ? "no memory for the queue" : "no room in the queue");
    keep_back(tui, text);
}

// Is it done now, or is there room in the queue? What fills the draft is put back there, but while TALK_BUSY it waits.
static bool finds_room(const struct tui *tui, const char *text)
{
    struct line line = commands_parse(text, strlen(text));
    bool fills_draft = talk_fills_draft(text, strlen(text)) && tui->talk.state != TALK_BUSY;
    return tui->talk.state == TALK_IDLE || tui->n_queue < TUI_QUEUE || commands_is_shell(text, strlen(text)) ||
           (line.kind == LINE_COMMAND && (commands_meanwhile(&line) || fills_draft));
}

// Behind text that was kept back the last line may be a command of its own, where that alone was typed after it: lines
// that were pasted, or brought, are no commands. NULL: it isn't.
static const char *command_behind(const struct tui *tui, const char *text)
{
    const char *end = tui->kept_back && count_lines(text) == tui->kept_lines ? strrchr(text, '\n') : NULL;
    enum line_kind kind = end ? commands_parse(end + 1, strlen(end + 1)).kind : LINE_EMPTY;
    return kind == LINE_COMMAND || kind == LINE_UNKNOWN ? end + 1 : NULL;
}

// Do lines begin with a command that is none of what follows? One of several lines may be meant so, if it was not put
// before others here.
static bool begins_with_command(const struct tui *tui, const char *text)
{
    const char *end = strchr(text, '\n');
    struct line line = commands_parse(text, strlen(text));
    bool more = end && end[strspn(end, "\n")];
    return more && (line.kind == LINE_COMMAND || line.kind == LINE_UNKNOWN) &&
           (tui->kept_several || (line.kind == LINE_COMMAND && !line.row->lines));
}

static void refuse_draft(struct tui *tui, const char *text, const char *words)
{
    prompt_replace(text);
    transcript_add(tui->chat, ENTRY_NOTICE, words, strlen(words));
}

// Commands that waited behind a message would be words of it, as all that went back into the draft is sent as one. That
// is said once; then the draft stays. It stays, too, where they would all be the first one's.
static bool tells_of_commands(struct tui *tui, const char *text)
{
    enum { MOST_NAME = 24 };
    char words[120];
    if (tui->kept_back && begins_with_command(tui, text)) {
        size_t name = strcspn(text, " \n");
        snprintf(words, sizeof words,
                 "Not sent: the draft begins with the command %.*s; / before it sends all as a message.",
                 (int)(name < MOST_NAME ? name : MOST_NAME), text);
        refuse_draft(tui, text, words);
        return true;
    }
    if (!tui->kept_back || tui->commands_told)
        return false;
    for (const char *line = strchr(text, '\n'); line; line = strchr(line, '\n')) {
        size_t length = strcspn(++line, "\n");
        struct line parsed = commands_parse(line, length);
        if (parsed.kind != LINE_COMMAND)
            continue;
        tui->commands_told = true;
        snprintf(words, sizeof words, "Not sent: /%s would be words of the message; Enter once more sends it so.",
                 parsed.row->name);
        refuse_draft(tui, text, words);
        return true;
    }
    return false;
}

struct bytes tui_unqueue(struct tui *tui, size_t at)
{
    struct bytes taken = tui->queue[at];
    tui->n_queue--;
    memmove(tui->queue + at, tui->queue + at + 1, (tui->n_queue - at) * sizeof taken);
    tui->queue[tui->n_queue] = (struct bytes){0};
    return taken;
}

// What was typed while something is under way. What it would take the place of stays before it.
static void put_off(struct tui *tui, const char *text)
{
    struct bytes longer = {0};
    bool loading = tui->talk.state == TALK_LOADING;
    if (tui->talk.state == TALK_BUSY || !talk_fills_draft(text, strlen(text))) {
        put_into_queue(tui, text);
        return;
    }
    struct prompt_draft draft = prompt_draft();
    bool fine = bytes_append(&longer, draft.text, draft.length) && bytes_append(&longer, text, strlen(text));
    prompt_replace(fine ? longer.data : text);
    bytes_release(&longer);
    tui_notice(tui, loading ? "/edit can't wait in the queue; Enter does it once the model is open"
                            : "/edit can't wait in the queue; Esc stops the answer, then Enter does it");
}

// What a command said stands in the chat, which comes back where the figures have its place; `before`: entries then.
static void show_said(struct tui *tui, const struct line *line, size_t before)
{
    bool command = line->kind == LINE_COMMAND || line->kind == LINE_UNKNOWN;
    if (command && transcript_entries(tui->chat) > before)
        tui->zoom = false;
}

// A command stands above what it has to say; one that shows something elsewhere needs no mention until it has.
static void submit(struct tui *tui, const char *text, size_t length)
{
    struct line line = commands_parse(text, length);
    bool command = line.kind == LINE_COMMAND || line.kind == LINE_UNKNOWN;
    tui->command = command ? text : NULL;
    if (command && (line.kind == LINE_UNKNOWN || strcmp(line.row->meanwhile, "*") != 0))
        tui_echo(tui);
    size_t before = transcript_entries(tui->chat);
    talk_line(&tui->talk, text, length);
    show_said(tui, &line, before);
    tui->command = NULL;
    tui->echo = 0;
}

void tui_send_queued(struct tui *tui)
{
    // What was queued was said behind a message as it was, not in the middle of its change.
    while (tui->talk.state == TALK_IDLE && tui->n_queue && !tui->talk.editing) {
        struct bytes text = tui_unqueue(tui, 0);
        submit(tui, text.data, text.length);
        bytes_release(&text);
    }
}

void tui_take_queue_back(struct tui *tui)
{
    struct bytes all = {0};
    size_t count = tui->n_queue;
    while (tui->n_queue) {
        struct bytes text = tui_unqueue(tui, 0);
        bytes_append(&all, text.data, text.length);
        bytes_append(&all, "\n", 1);
        bytes_release(&text);
    }
    struct prompt_draft draft = prompt_draft();
    if (all.length && bytes_append(&all, draft.text, draft.length)) {
        prompt_replace(all.data);
        mark_kept(tui, all.data);
        tui->commands_told = false;
        tui->kept_several = count > 1 || draft.length > 0;
        tui_notice(tui,
                   begins_with_command(tui, all.data)
                       ? "what waited is back in the draft, which begins with a command; Ctrl-C moves "
                         "it to the history"
                   : count == 1
                       ? "what waited is the draft; Enter sends it, Ctrl-C moves it to the history"
                       : "the %zu that waited are back in the draft; Enter sends them as one, Ctrl-C moves them "
                         "to the history",
                   count);
        tui->notice_of_work = false;
    }
    bytes_release(&all);
}

// Is the line no more than a draft yet: quotes that are open, or a command of the shell, of which one is told first?
static bool goes_on(struct tui *tui, const char *line)
{
    struct bytes longer = {0};
    if (commands_is_open(line, strlen(line))) {
        if (bytes_append(&longer, line, strlen(line)) && bytes_append(&longer, "\n", 1))
            prompt_replace(longer.data);
        bytes_release(&longer);
        return true;
    }
    if (!commands_is_shell(line, strlen(line)))
        return false;
    bool consents = term_clock_ms() > tui->shell_told_ms + INPUT_BURST_MS; // what came with the line answers nothing
    if (tui->shell_told && consents)
        return false;
    static const char words[] = "Enter once more runs this in your shell and makes what it prints the draft; with a "
                                "space before the ! it is a message.";
    if (!tui->shell_told)
        transcript_add(tui->chat, ENTRY_NOTICE, words, sizeof words - 1);
    tui->shell_told = true;
    tui->shell_told_ms = term_clock_ms();
    prompt_replace(line);
    return true;
}

static void meanwhile(struct tui *tui, const char *text)
{
    struct line line = commands_parse(text, strlen(text));
    size_t before = transcript_entries(tui->chat);
    tui->command = text;
    if (talk_line_meanwhile(&tui->talk, text, strlen(text)))
        show_said(tui, &line, before);
    else
        put_off(tui, text);
    tui->command = NULL;
    tui->echo = 0;
}

// A message, a command, or one that stands behind a draft that stays.
static void take_line(struct tui *tui, const char *text)
{
    const char *command = command_behind(tui, text), *line = command ? command : text;
    if (!command && tells_of_commands(tui, text))
        return;
    if (!finds_room(tui, line)) {
        keep_back(tui, text);
        tui_notice(tui, "%d messages wait already; this one stays in the draft", TUI_QUEUE);
        return;
    }
    char *rest = command ? strndup(text, (size_t)(command - text)) : NULL;
    tui->kept_back = false;
    if (rest) {
        mark_kept(tui, rest);
        prompt_replace(rest); // what fills the draft moves it to the history, and says so
    } else {
        line = text; // also without memory: nothing is sent that would lose the rest
    }
    free(rest);
    if (!prompt_remember(line) && commands_parse(line, strlen(line)).kind == LINE_MESSAGE)
        prompt_sent(line);
    tui->help_open = tui->help_open && tui->burst.of_line; // nobody has seen it yet
    tui->burst.of_line = true;
    transcript_follow(tui->chat);
    if (commands_is_shell(line, strlen(line)))
        tui_shell(tui, line + 1);
    else if (tui->talk.state == TALK_IDLE)
        submit(tui, line, strlen(line));
    else
        meanwhile(tui, line);
}

void tui_enter(struct tui *tui, const char *text)
{
    if (!goes_on(tui, text))
        take_line(tui, text);
}
