// SPDX-License-Identifier: GPL-3.0-or-later
// What the files of the full screen share. For tui*.c alone.
#ifndef MOECHAT_APP_TERM_TUI_PARTS_H
#define MOECHAT_APP_TERM_TUI_PARTS_H

#include "app/view/draft.h"
#include "app/figures/figures.h"
#include "app/term/input.h"
#include "app/term/keys.h"
#include "app/view/layout.h"
#include "app/term/prompt.h"
#include "app/view/status.h"
#include "app/util/progress.h"
#include "app/talk/talk.h"
#include "app/view/transcript.h"
#include "app/term/tui_log.h"
#include "app/term/screen.h"

enum { TUI_QUEUE = 16, TUI_QUEUE_ROWS = 3 };

enum tui_mode {
    MODE_WRITE,
    MODE_SEARCH, // the line is what to search for
    MODE_FOUND,  // n and N go on searching
};

struct tui {
    struct talk talk;
    struct screen *screen; // NULL: lines are printed, the screen has gone
    struct input input;
    struct tui_log log;
    bool ascii;
    // What is seen.
    struct transcript *chat, *help;
    bool help_open; // lies over the chat
    enum face_page page;
    struct cells cells, part;
    struct draft draft;
    char label[1024]; // before the draft
    struct layout layout;
    size_t draft_top; // first row of the draft that is seen
    enum stats_view stats;
    int stats_top; // first layer that is seen
    bool by_wait;  // the figures' layers, sorted
    bool zoom, dirty;
    uint64_t drawn_ms;
    char **words; // that Tab offers
    size_t n_words;
    char notice[320]; // in the status row, for a while
    uint64_t notice_until_ms;
    bool notice_of_room; // that the figures have none
    bool notice_of_work; // made while something went on, and true no longer than that
    // The draft and what waits.
    enum tui_mode mode;
    char *kept;        // the draft while something is searched for
    size_t kept_point; //
    bool kept_command; // and it was vi's command mode
    char *sought;      // what was searched for last; NULL: nothing
    bool search_back;  // n goes to earlier matches
    int keep_ms;       // until the draft is kept
    struct bytes queue[TUI_QUEUE];
    size_t n_queue;
    bool kept_back;     // the draft holds what waited, or what the queue had no room for,
    size_t kept_lines;  // so many of it, each with its end
    bool commands_told; // and it was said that commands in there would be words of a message
    bool kept_several;  // what was kept back is several lines' that were typed apart
    bool shell_told;    // what a line that begins with ! does
    uint64_t shell_told_ms;
    struct bytes unkept; // drafts that an editor's text took the place of and no history took, a zero byte between two
    struct bytes stays;  // editors' files that nothing took, as unkept
    struct bytes behind; // what came behind the line that ends the chat
    struct bytes held;   // what came with the key that ended the bare view, and is read next
    struct {
        bool read;        // something was, in this round
        uint64_t done_ms; // what was read last had been seen to
        bool of_line;     // what comes may be of one piece with a line that was entered: a page has no keys in it
    } burst;
    struct {
        char bytes[16];
        size_t length;
    } begun; // a key of several, where a page is open
    struct {
        struct bytes text; // without a pause
        bool message;      // letters that are no keys of the page are among it
        uint64_t last_ms;
    } typed; // where a page is open
    // The answer under way.
    bool thinking, stopping;
    bool begun_entry;             // in the transcript
    bool said_beside;             // what is said of the answer now is not the next row behind it
    char last_words[1600];        // why the chat ended before it began
    struct moe_progress progress; // total 0: none
    struct progress_eta eta;      // of that
    uint64_t progress_since_ns, thought_since_ns;
    uint32_t thought_tokens, answer_tokens;
    struct tally speed_from;
    bool speed_known;
    double tokens_now;
    struct figures figures;
    struct bytes last_answer;
    size_t *entries; // of the transcript, where each message of the user begins
    size_t n_entries, entries_capacity;
    size_t replaced;     // one more than where that begins in whose place the last one was said; 0: there is none
    const char *command; // under way, not seen yet: once it says something it stands above that; NULL: none
    size_t echo;         // entries with the one that is seen; 0: none is
};

static inline struct transcript *tui_view(const struct tui *tui)
{
    return tui->help_open ? tui->help : tui->chat;
}

void tui_safe(char *out, size_t size, const char *text); // made safe to show; what is too long is cut
__attribute__((format(printf, 2, 3))) void tui_notice(struct tui *tui, const char *format, ...); // a few seconds
void tui_leave(struct tui *tui);      // the terminal as it was before, for a while, in which nothing is lost by kill -9
void tui_return(struct tui *tui);     // and back
void tui_keep_draft(struct tui *tui); // in its file, at once

// tui_draw.c
void tui_arrange(struct tui *tui); // after anything that changes sizes
void tui_draw(struct tui *tui);
void tui_show_stats(struct tui *tui, enum stats_view view); // and says so where there is no room for them
void tui_resized(struct tui *tui); // says so where there is none any more, and no longer where there is some

// tui_keys.c: what is typed
void tui_take_input(void *context, const struct input_item *item);
void tui_on_line(void *context, char *line);
bool tui_complete(void *context, struct candidates *found, const char *line, size_t point);
void tui_offer(void *context, char **words, size_t count);
void tui_forget_words(struct tui *tui);
void tui_interrupt(struct tui *tui); // Ctrl-C
void tui_end_search(struct tui *tui);
bool tui_slash_commands(const struct tui *tui); // a slash leaves the page and begins a command, else it searches
void tui_put_draft_away(struct tui *tui);       // into the history, and says so; nothing when there is none

// tui_queue.c: what was entered
void tui_enter(struct tui *tui, const char *text);         // a line and Enter
void tui_send_queued(struct tui *tui);                     // as long as nothing else is under way
void tui_replace_draft(struct tui *tui, const char *text); // by what is none of what was kept back
void tui_echo(struct tui *tui);            // the command under way is seen in the chat from now on; once
void tui_take_queue_back(struct tui *tui); // before the draft, to be edited; a line is free for what is typed then
struct bytes tui_unqueue(struct tui *tui, size_t at);

// tui_side.c: what leaves the screen
void tui_edit(struct tui *tui);
void tui_bare_view(struct tui *tui);
void tui_shell(struct tui *tui, const char *command); // what it prints becomes the draft
void tui_copy(struct tui *tui, const char *text, size_t length);
// face_ops'
void tui_page(void *self, enum face_page page, const struct face_lines *lines);
void tui_log_lines(void *self, FILE *out);

#endif
