// SPDX-License-Identifier: GPL-3.0-or-later
// Which files of an unfinished conversion are whole: a line each, written after the file is durable. Bound to one
// conversion by a key; one process at a time.
#ifndef MOECHAT_ENGINE_CONVERT_WRITTEN_H
#define MOECHAT_ENGINE_CONVERT_WRITTEN_H

#include "engine/moe.h"

struct written_file {
    char file[64];
    uint64_t bytes;
    char sha256[65];
};

struct written {
    char path[4300];
    int fd;
    struct written_file *entries;
    size_t count;
};

// Opens or makes folder/convert.journal. A journal with another key, or one that another process holds, is refused. A
// line that was cut off is forgotten, and so is a file that has not the size it should have.
int written_open(const char *folder, const char key[65], struct written *written, struct moe_err *err);
const struct written_file *written_find(const struct written *written, const char *file); // NULL: not whole
int written_add(struct written *written, const struct written_file *entry, struct moe_err *err);
void written_close(struct written *written);

#endif
