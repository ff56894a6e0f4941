// SPDX-License-Identifier: GPL-3.0-or-later
// Conversations as files and as pieces to copy: the bytes that were said, never what the screen made of them. Pure but
// for export_write.
#ifndef MOECHAT_APP_TALK_EXPORT_H
#define MOECHAT_APP_TALK_EXPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "app/talk/chat.h"
#include "app/util/files.h"
#include "app/util/json_out.h"

enum export_format { EXPORT_MARKDOWN, EXPORT_JSON, EXPORT_TEXT };

// What "/export md FILE" asks for. The format comes from its name, else from the file's ending, else it is Markdown.
struct export_request {
    enum export_format format;
    const char *path; // part of what was typed; length 0: none
    size_t path_length;
    bool unknown; // a word stands before the path that is no format
};
struct export_request export_parse(const char *typed, size_t length);

const char *export_speaker(enum tok_role role); // "You" and such
// All of these append; false: no memory. One message, with a heading or a name before it; `index` counts them from 0.
bool export_message(struct bytes *out, enum export_format format, size_t index, enum tok_role role,
                    const struct bytes *text);
// The conversation, then what its other branches have beside it, each under a heading that says where it leaves.
struct export_head {
    const char *name, *model; // of the session, "" without one
};
bool export_chat(struct bytes *out, enum export_format format, const struct export_head *head, const struct chat *chat);
// As JSON: an object with the head in it, which is left open, then messages, of a conversation under way or of a saved
// one.
void export_open(struct json_out *out, const struct export_head *head);
void export_turns(struct json_out *out, const char *key, const struct chat_turn *turns, size_t n_turns);
void export_parts(struct json_out *out, const char *key, const struct part *parts, size_t n_parts);

// A path: as typed, with ~/ for the home folder, else "name.ending". malloc'd, NULL: no memory.
char *export_path(const struct export_request *request, const char *name);
// Writes a file whole or not at all. 0 or an errno; EEXIST: it is there and `replace` is not set; ENXIO: a
// pipe that nobody reads; ETIMEDOUT: one whose reader stopped to.
int export_write(const char *path, const struct bytes *text, bool replace);

// What "/copy", "/copy 2" or "/copy code 3" means: the last answer, the one before it, the third code block of the last
// answer; never what was thought. Appended to *piece. False: *wrong says why not, as a sentence.
bool export_pick(const struct chat *chat, const char *which, struct bytes *piece, const char **wrong);

#endif
