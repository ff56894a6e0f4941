// SPDX-License-Identifier: GPL-3.0-or-later
// What talk.c, talk_command.c and talk_session.c share. For these files alone.
#ifndef MOECHAT_APP_TALK_TALK_PARTS_H
#define MOECHAT_APP_TALK_TALK_PARTS_H

#include <stdio.h>

#include "app/talk/talk.h"

__attribute__((format(printf, 2, 3))) void talk_say(struct talk *talk, const char *format, ...);
__attribute__((format(printf, 2, 3))) void talk_fail(struct talk *talk, const char *format, ...);
void talk_enter(struct talk *talk, enum talk_state state);
void talk_send(struct talk *talk, struct turn *turn); // NULL: says that there is no memory
void talk_show_turn(struct talk *talk, size_t turn);  // of the chat

// Lines that are printed into memory and then shown.
struct talk_lines {
    FILE *out;
    char *text;
    size_t length;
};
bool talk_lines_begin(struct talk *talk, struct talk_lines *lines); // false: said that there is no memory
void talk_lines_show(struct talk *talk, struct talk_lines *lines);

void talk_command(struct talk *talk, const struct line *line);

// The commands about what was said, and about experts.
void talk_file(struct talk *talk, const struct line *line);
void talk_copy(struct talk *talk, const char *which);
void talk_export(struct talk *talk, const struct line *line);
void talk_heat(struct talk *talk);
void talk_inspect(struct talk *talk, const char *number);

// The commands about sessions. Those that the worker has to do leave the talk BUSY until their news come.
// Hands the chosen session to the worker, which reads its rows; `keep` tokens are in the engine already.
void talk_open_session(struct talk *talk, uint32_t keep, bool save);
void talk_on_session(struct talk *talk, const struct session_news *news);
void talk_new(struct talk *talk);
void talk_save(struct talk *talk, const char *name);
void talk_rename(struct talk *talk, const char *name);
void talk_load(struct talk *talk, const char *name);
void talk_list_sessions(struct talk *talk);
void talk_delete(struct talk *talk, const char *name);
void talk_finish_session(struct talk *talk); // waits until all is saved, and says under which name

#endif
