// SPDX-License-Identifier: GPL-3.0-or-later
// What talk.c, talk_command.c and talk_session.c share. For these files alone.
#ifndef MOECHAT_APP_TALK_TALK_PARTS_H
#define MOECHAT_APP_TALK_TALK_PARTS_H

#include <stdio.h>

#include "app/talk/talk.h"

__attribute__((format(printf, 2, 3))) void talk_say(struct talk *talk, const char *format, ...);
// What is true until the conversation goes on, or elsewhere.
__attribute__((format(printf, 2, 3))) void talk_say_for_now(struct talk *talk, const char *format, ...);
// A command is not done, and why; or something failed. A pipe's exit status then tells of it, as of a turn that failed.
__attribute__((format(printf, 2, 3))) void talk_refuse(struct talk *talk, const char *format, ...);
__attribute__((format(printf, 2, 3))) void talk_fail(struct talk *talk, const char *format, ...);
// "room for 8192 tokens ...". Returns `out`.
char *talk_context(char *out, size_t size, const struct talk *talk);
void talk_begin_conversation(struct talk *talk); // another one: what is shown and counted begins anew
void talk_enter(struct talk *talk, enum talk_state state);
void talk_send(struct talk *talk, struct turn *turn); // NULL: says that there is no memory
void talk_show_turn(struct talk *talk, size_t turn);  // of the chat
void talk_show_from(struct talk *talk, size_t first); // all from there on; what stands there of another branch goes

// Lines that are printed into memory and then shown.
struct talk_lines {
    FILE *out;
    char *text;
    size_t length;
    int second, least; // of a table that the face cuts itself; else 0
};
bool talk_lines_begin(struct talk *talk, struct talk_lines *lines); // false: said that there is no memory
// Cuts them as a table for the face's width (table.h); lines for a script stay whole. False: said that there is no
// memory, and they are gone.
bool talk_lines_fold(struct talk *talk, struct talk_lines *lines, int second, int least);
void talk_lines_show(struct talk *talk, struct talk_lines *lines);
void talk_lines_tokens(struct talk *talk, struct talk_lines *lines); // as face_ops.tokens
void talk_lines_page(struct talk *talk, struct talk_lines *lines, enum face_page page);

// What "/show WORD" shows elsewhere. False: nothing.
bool talk_show_word(struct talk *talk, const struct line *line);

struct talk_argument talk_argument(const struct line *line);

// The handlers of commands are talk_do_*, see commands.def. Those that the worker has to do leave the talk BUSY until
// their news come.
// Hands the chosen session to the worker, which reads its rows; `keep` tokens are in the engine already.
void talk_open_session(struct talk *talk, uint32_t keep, bool save);
// Why a conversation of which nothing is fed can't be saved or forked.
void talk_say_unread(struct talk *talk, const char *command);
void talk_follow(struct talk *talk);                  // the worker goes where the chat is now
void talk_follow_for_now(struct talk *talk);          // the same; the disk keeps it as it was before an edit
void talk_save_system(struct talk *talk);             // of a conversation in which nothing was said yet
void talk_say_choice(struct talk *talk, size_t turn); // which of several it is, where there are several
void talk_say_ways(struct talk *talk); // where Alt-Left and Alt-Right lead from here, if anywhere; last of all, so that
                                       // it stands above the draft
void talk_on_session(struct talk *talk, const struct session_news *news);
// A command that speaks of what is saved, while a save is under way: it is done once that is told of, and till then
// the talk is BUSY. False: it need not wait.
bool talk_hold(struct talk *talk, const struct line *line, const char *text, size_t length);
void talk_forget_delete(struct talk *talk);  // what /delete asked about is not meant any more
bool talk_drop_held(struct talk *talk);      // says that it is not done; false: none is held
void talk_finish_session(struct talk *talk); // waits until all is saved, and says under which name

#endif
