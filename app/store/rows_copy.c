// SPDX-License-Identifier: GPL-3.0-or-later
// Copies the rows that a manifest names to the other file.
#include "app/store/rows_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

enum { COPY_BLOCK = 1 << 20 };

bool rows_copy_lists(const struct manifest *manifest, struct manifest *copy)
{
    bool fine = true;
    *copy = (struct manifest){.kv_file = manifest->kv_file};
    for (size_t i = 0; i < manifest->n_records && fine; i++)
        fine = manifest_add_record(copy, &manifest->records[i]);
    for (size_t i = 0; i < manifest->n_other_records && fine; i++)
        fine = manifest_add_other_record(copy, &manifest->other_records[i]);
    return fine;
}

void rows_swap(struct manifest *a, struct manifest *b)
{
    struct manifest was = *a;
    a->records = b->records;
    a->n_records = b->n_records;
    a->other_records = b->other_records;
    a->n_other_records = b->n_other_records;
    a->records_room = b->records_room;
    a->kv_file = b->kv_file;
    b->records = was.records;
    b->n_records = was.n_records;
    b->other_records = was.other_records;
    b->n_other_records = was.n_other_records;
    b->records_room = was.records_room;
    b->kv_file = was.kv_file;
}

int rows_copy(const struct store *store, const char *name, struct manifest *manifest)
{
    const struct store_io *io = store->io;
    struct store_path from_path = store_path(store, name, manifest_kv_name(manifest->kv_file));
    manifest->kv_file = !manifest->kv_file;
    struct store_path to_path = store_path(store, name, manifest_kv_name(manifest->kv_file));
    char *block = malloc(COPY_BLOCK);
    int from = io->open(io->context, from_path.text, O_RDONLY);
    int to = from < 0 ? -1 : store_io_create(io, to_path.text, O_RDWR);
    int code = !block ? ENOMEM : to < 0 ? errno : 0;
    uint64_t at = 0;
    for (size_t i = 0; i < manifest->n_records + manifest->n_other_records && code == 0; i++) {
        struct moe_record *record =
            i < manifest->n_records ? &manifest->records[i] : &manifest->other_records[i - manifest->n_records].record;
        for (uint64_t done = 0; done < record->bytes && code == 0;) {
            uint64_t left = record->bytes - done;
            ptrdiff_t got =
                io->read(io->context, from, block, left < COPY_BLOCK ? left : COPY_BLOCK, record->offset + done);
            if (got < 0 && errno == EINTR)
                continue;
            code = got < 0 ? errno : got == 0 ? EIO : store_io_write(io, to, block, (size_t)got, at + done);
            done += got > 0 ? (uint64_t)got : 0;
        }
        record->offset = at;
        at += record->bytes;
    }
    if (code == 0 && io->sync(io->context, to))
        code = errno;
    if (from >= 0)
        io->close(io->context, from);
    if (to >= 0)
        io->close(io->context, to);
    free(block);
    return code;
}
