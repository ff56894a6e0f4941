// SPDX-License-Identifier: GPL-3.0-or-later
// A list of a repository's files, as the hub's API and other programs print it. Text from outside, so nothing in it is
// believed but for names and sizes. Read are:
//
// {"id": "owner/name", "siblings": [{"rfilename": "a.gguf", "size": 12}, ...]}    /api/models/owner/name?blobs=true
// [{"type": "file", "path": "a.gguf", "size": 12, "lfs": {"size": 12}}, ...]      .../tree/main?recursive=true
// ["a.gguf", ...]                                                                 names alone
// and lines: ls -l (-lh, -lR), git lfs ls-files -s, hf download --dry-run, "SIZE NAME", "NAME SIZE", "NAME", and du -a
// (-ab, -ah): its sizes without a unit are KiB where all of them are whole blocks of 4, as it is with -ab only by
// chance.
#ifndef MOECHAT_ENGINE_FILES_FILE_LIST_H
#define MOECHAT_ENGINE_FILES_FILE_LIST_H

#include "engine/moe.h"

enum { FILE_LIST_MOST = 20000 };

struct file_listed {
    char *path;     // relative, without "./" before it; 1 to 1000 bytes without control characters
    uint64_t bytes; // below 2^45
    bool sized;     // else `bytes` is 0
};

struct file_list {
    char repository[160];      // "owner/name"; "": the list does not say
    struct file_listed *files; // by path, each path once
    size_t count;              // at least 1; folders, which du lists too, are none
    bool kib;                  // the sizes are du's, in KiB
};

// `name` is for messages. MOE_FORMAT: the text is no such list; MOE_NO_MEMORY. On failure the list is empty.
int file_list_read(const char *text, size_t length, const char *name, struct file_list *list, struct moe_err *err);
void file_list_release(struct file_list *list);

#endif
