// SPDX-License-Identifier: GPL-3.0-or-later
// Writes states where no manifest looks, and removes those that none names any more.
#include "app/store/state_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

unsigned state_files_named(const struct manifest *manifest)
{
    unsigned named = 0;
    for (size_t i = 0; i < manifest->n_states; i++)
        named |= 1U << manifest->states[i].file;
    return named;
}

// The states of `record` in that file.
static bool write_record(const struct store_io *io, const struct store_path *path, const struct saved_rows *rows,
                         struct moe_record *record, struct moe_err *err)
{
    int fd = io->open(io->context, path->text, O_RDWR | O_CREAT);
    struct moe_record_io record_io = {
        .fd = fd, .path = path->text, .read = io->read, .write = io->write, .context = io->context};
    struct saved_slot slot = {.io = &record_io, .first = record->first, .states = true};
    bool opened = fd >= 0 && io->truncate(io->context, fd, 0) == 0;
    bool written = opened && rows->write(rows->context, &slot, record, err) == 0;
    bool fine = written && io->sync(io->context, fd) == 0;
    if (!fine && (!opened || written))
        snprintf(err->text, sizeof err->text, "%.300s: %s", path->text, strerror(errno));
    if (fd >= 0)
        io->close(io->context, fd);
    return fine;
}

// The states at `position`, behind all that are named.
static bool save_at(const struct state_files *files, struct manifest *manifest, const struct saved_rows *rows,
                    uint32_t position, struct moe_err *err)
{
    if (manifest->n_states && manifest->states[manifest->n_states - 1].record.first >= position)
        return true;
    struct manifest_state state = {.record.first = position};
    while (state.file < STATE_FILES && (files->taken | state_files_named(manifest)) >> state.file & 1)
        state.file++;
    if (state.file == STATE_FILES) { // two manifests in doubt name five each at most
        snprintf(err->text, sizeof err->text, "all %d files of states are in use", STATE_FILES);
        return false;
    }
    struct store_path path = store_path(files->store, files->name, manifest_state_name(state.file));
    if (!write_record(files->store->io, &path, rows, &state.record, err)) {
        files->store->io->unlink(files->store->io->context, path.text);
        return false;
    }
    manifest_add_state(manifest, &state);
    return true;
}

bool state_files_save(const struct state_files *files, struct manifest *manifest, const struct saved_rows *rows,
                      char *why, size_t size)
{
    struct moe_err err = {.text = ""};
    bool fine = true;
    for (int i = 0; i < MOE_BORDERS; i++)
        if (rows->borders[i])
            fine = save_at(files, manifest, rows, rows->borders[i], &err) && fine;
    fine = save_at(files, manifest, rows, rows->length, &err) && fine;
    snprintf(why, size, "%s", err.text);
    return fine;
}

static void remove_files(const struct state_files *files, unsigned which)
{
    const struct store_io *io = files->store->io;
    for (unsigned i = 0; i < STATE_FILES; i++)
        if (which >> i & 1)
            io->unlink(io->context, store_path(files->store, files->name, manifest_state_name(i)).text);
}

void state_files_take_back(const struct state_files *files, const struct manifest *manifest)
{
    remove_files(files, state_files_named(manifest) & ~files->taken);
}

void state_files_settle(struct state_files *files, const struct manifest *manifest)
{
    unsigned named = state_files_named(manifest);
    remove_files(files, files->taken & ~named);
    files->taken = named;
}
