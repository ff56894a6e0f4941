// SPDX-License-Identifier: GPL-3.0-or-later
// Which files of an unfinished conversion are whole: a line each, written after the file is durable; and of which the
// source is being removed, and was, a line more each; and what the source was like (likeness.h). Bound to one
// conversion by a key; one process at a time.
#ifndef MOECHAT_ENGINE_CONVERT_JOURNAL_H
#define MOECHAT_ENGINE_CONVERT_JOURNAL_H

#include "engine/moe.h"

struct journal_file {
    char file[64];
    uint64_t bytes;
    char sha256[65];
    bool consuming; // what it was made of may be gone from the source in part
    bool consumed;  // and is gone
};

struct journal {
    char path[4300];
    int fd;
    struct journal_file *entries;
    size_t count;
    char likeness[65]; // in hex; "": not noted
};

// Opens or makes folder/convert.journal. A journal with another key, or one that another process holds, is refused, and
// so is a folder that is a link, another user's, or has files and no journal. A line that was cut off is forgotten, and
// so is a file that has not the size it should have. What is left is written and synced again: of lines whose sync
// failed once the disk may know nothing.
int journal_open(const char *folder, const char key[65], struct journal *journal, struct moe_err *err);
const struct journal_file *journal_find(const struct journal *journal, const char *file); // NULL: not whole
int journal_add(struct journal *journal, const struct journal_file *entry, struct moe_err *err);
// Before the first piece is removed, and behind the last. MOE_FORMAT when the journal is opened and such a file is not
// there as it was.
int journal_note_consuming(struct journal *journal, const char *file, struct moe_err *err);
int journal_note_consumed(struct journal *journal, const char *file, struct moe_err *err);
int journal_note_likeness(struct journal *journal, const char hex[65], struct moe_err *err);
void journal_close(struct journal *journal);

#endif
