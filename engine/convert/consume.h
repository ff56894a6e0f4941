// SPDX-License-Identifier: GPL-3.0-or-later
// Giving back the disk that a conversion's source takes, layer by layer: what the package has is removed from the
// source. A layer's experts are in the package, read back from disk and compared, or they are still in the source.
#ifndef MOECHAT_ENGINE_CONVERT_CONSUME_H
#define MOECHAT_ENGINE_CONVERT_CONSUME_H

#include "engine/convert/job.h"
#include "engine/convert/journal.h"

struct consume {
    const struct job *job;
    moe_punch_fn *punch; // NULL: fallocate
    void *punch_context;
    bool (*cancelled)(void *context); // may be NULL
    void *context;
    int *fds; // [n_shards] of the source, open for writing; owned
};

// job, punch, cancelled and their contexts are set. Refused, by name: matrices that are not copied as they are; files
// that are symbolic links, have a second name, are another user's or read-only, or that another conversion consumes; a
// file system that cannot take a piece out of a file (it is asked behind the file's end). Nothing is changed. On
// failure nothing is left open. The files are locked until consume_close.
int consume_open(struct consume *consume, struct moe_err *err);
// What there is to be removed.
uint64_t consume_bytes(const struct consume *consume);
// Removes a layer's experts from the source, after its file in `folder`, whole by the journal, was made durable, read
// back from disk and compared; then notes that in the journal. Does nothing when the journal has it. May be repeated
// wherever it was stopped.
int consume_layer(struct consume *consume, const char *folder, uint32_t layer, struct journal *journal,
                  struct moe_err *err);
void consume_close(struct consume *consume);

#endif
