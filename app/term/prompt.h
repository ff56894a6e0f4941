// SPDX-License-Identifier: GPL-3.0-or-later
// readline: the line that is being typed and the history of lines. Either readline draws it itself at a prompt (the
// plain face), or it only edits, and the face draws what prompt_draft says (the full screen). With term.c the only
// state of the process. UI thread only.
#ifndef MOECHAT_APP_TERM_PROMPT_H
#define MOECHAT_APP_TERM_PROMPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/talk/candidates.h"
#include "app/term/recall.h"
#include "app/term/typed.h"

struct tui;
struct prompt_face {
    void *context;
    struct tui *screen; // that draws, and whose keys are pressed (keys.h); NULL: readline draws, behind
    const char *label;  // the prompt, colours between \001 and \002
    // A line was sent; it is the callee's to free and, whole, to remember. NULL: Ctrl-D on an empty line, or the
    // terminal is gone.
    void (*line)(void *context, char *line);
    // What Tab offers. False: nothing.
    bool (*complete)(void *context, struct candidates *found, const char *line, size_t point);
    // The first text that the history of later chats will lack, and why.
    void (*not_kept)(void *context, const char *why);
    // An editor's file of an earlier chat that no history takes.
    void (*stays)(void *context, const char *path);
    // Where what is typed is kept, as struct recall has it.
    void (*apart)(void *context, const char *path, const char *why);
    // Drafts of chats that were killed, so many, are in the history now.
    void (*adopted)(void *context, size_t count);
    // A search begins, which takes the draft's place: what is typed is to be kept now.
    void (*keep)(void *context);
    void (*offer)(void *context, char **words, size_t count); // several words fit; only for a screen
};

// Sets readline up and, without a screen, the terminal to raw mode. False: no terminal, or no memory.
bool prompt_open(const struct prompt_face *face);
// `draft` is what was typed and not sent, or "": all of it with a screen, else what stands before the line. It goes to
// the history, or stays in its file where that can't be written; the others are recall_close's.
struct recall_end prompt_close(const char *draft, const char *behind, struct bytes *lost);
bool prompt_remember(const char *text);                   // as recall_remember
bool prompt_put_away(const char *draft);                  // as recall_put_away
bool prompt_keeps(const char *text);                      // as recall_keeps
void prompt_sent(const char *text);                       // as recall_sent
void prompt_sent_is_safe(void);                           // as recall_sent_is_safe
void prompt_sent_came_back(const char *text);             // as recall_sent_came_back
bool prompt_remember_other(const char *text);             // than the line, which stays as it is
int prompt_draft_wait(uint64_t now_ms);                   // as recall_draft_wait
int prompt_keep_draft(const char *text, uint64_t now_ms); // as recall_keep_draft
void prompt_keep_draft_now(const char *text);             // as recall_keep_draft_now
int prompt_edit(char *path, size_t size);                 // as recall_edit

// At readline's own prompt.
void prompt_show(const char *draft); // begins a line with this; after `line` the prompt is hidden
void prompt_label_again(void);       // what it says, after what may have changed how the terminal is written to
bool prompt_is_shown(void);
void prompt_feed(void); // standard input is readable
void prompt_draw(void); // after one or more of those: what came at once is not drawn until then
// What waits to be typed: what came while the prompt was hidden, or behind the line that hid it.
struct typed *prompt_typed(void);
bool prompt_can_type(void);  // something of it, now
void prompt_type_held(void); // types it at the prompt, up to the end of a line, or to a paste that has not come whole
void prompt_end_paste(void); // takes one that has not come whole, now
// Ctrl-C: the line, with those `before` it ("": none), goes to the history, unless it is `given` (may be NULL), and is
// cleared. False: there was nothing.
bool prompt_interrupt(const char *before, const char *given);
void prompt_refresh(void); // draws it on a new line, after other output
void prompt_resize(void);  // the terminal has another size now

// For a face that draws.
struct prompt_draft {
    const char *label; // what readline says before the line: a search, a count; "": nothing
    const char *mode;  // vi's, as an inputrc's show-mode-in-prompt asks for it; "": nothing
    const char *text;
    size_t length, point; // bytes
    bool search;          // of the history
};
struct prompt_draft prompt_draft(void);
// The draft as it would be with what has come of a paste, which is put together in `whole`; without it where the
// history would not keep both, or there is no memory.
const char *prompt_with_paste(const struct prompt_draft *draft, const struct bytes *paste, struct bytes *whole);
void prompt_type(const char *bytes, size_t length);   // whole keys
void prompt_insert(const char *bytes, size_t length); // text, as one step to undo
void prompt_replace(const char *text);                // the draft; the cursor goes to its end
void prompt_point(size_t point);
void prompt_cancel(void); // what readline is in the middle of
// Whose these bytes are, a key's from its first on, in the keymap that readline has now.
enum prompt_key {
    PROMPT_KEY_NONE,   // nobody's
    PROMPT_KEY_BEGINS, // a key that has more
    PROMPT_KEY_SCREEN,
    PROMPT_KEY_EDITOR, // the screen's that takes the draft
    PROMPT_KEY_DRAFT,  // readline's own, and ours that edit
};
enum prompt_key prompt_find_key(const char *bytes, size_t length);
bool prompt_awaits_character(void);      // that belongs to the key before it, whatever it is
bool prompt_is_within_key(void);         // a key that has begun, a count, a search: what is typed belongs to it
bool prompt_vi_command(void);            // readline is in vi's command mode
void prompt_set_vi_command(bool wanted); // nothing without vi's keys
// Esc. False: readline has no use for it.
bool prompt_escape(void);

#endif
