// SPDX-License-Identifier: GPL-3.0-or-later
// Which files of an unfinished conversion are whole: a line each, written after the file is durable; and of which the
// source was removed, a line more. Bound to one
// conversion by a key; one process at a time.
#ifndef MOECHAT_ENGINE_CONVERT_JOURNAL_H
#define MOECHAT_ENGINE_CONVERT_JOURNAL_H

#include "engine/moe.h"

struct journal_file {
    char file[64];
    uint64_t bytes;
    char sha256[65];
    bool consumed; // what it was made of is gone from the source
};

struct journal {
    char path[4300];
    int fd;
    struct journal_file *entries;
    size_t count;
};

// Opens or makes folder/convert.journal. A journal with another key, or one that another process holds, is refused, and
// so is a folder that is a link, another user's, or has files and no journal. A
// line that was cut off is forgotten, and so is a file that has not the size it should have.
int journal_open(const char *folder, const char key[65], struct journal *journal, struct moe_err *err);
const struct journal_file *journal_find(const struct journal *journal, const char *file); // NULL: not whole
int journal_add(struct journal *journal, const struct journal_file *entry, struct moe_err *err);
// MOE_FORMAT when the journal is opened and such a file is not there as it was.
int journal_note_consumed(struct journal *journal, const char *file, struct moe_err *err);
void journal_close(struct journal *journal);

#endif
