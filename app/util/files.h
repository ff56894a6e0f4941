// SPDX-License-Identifier: GPL-3.0-or-later
// Files as the commands use them: read whole, written whole or not at all, and the places where things are.
#ifndef MOECHAT_APP_UTIL_FILES_H
#define MOECHAT_APP_UTIL_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct bytes {
    char *data; // ends with a 0 that is not counted
    size_t length, capacity;
};
void bytes_release(struct bytes *bytes);
bool bytes_append(struct bytes *bytes, const void *data, size_t length); // false: no memory
bool bytes_without_zeros(struct bytes *bytes); // each becomes a newline, as a draft has none; false: there was none
bool bytes_have_text(const struct bytes *bytes, const char *text); // of texts with a zero byte between two

// Raises the limit of open files to this where it is lower and may be. False: it is *most, and may not.
bool files_may_open(unsigned count, unsigned *most);

// Whoever opens a pipe by its name waits for its other end; a chat does not.
bool files_is_pipe(const char *path);
// One to be written that may have no reader yet: not what a shell gave us open, as in >(gzip) or /dev/stdout. Others
// are not tried, as that would be taken for all that comes.
bool files_waits_as_pipe(const char *path);
#define FILES_PIPE_WAITS "%s: a pipe; waiting for its reader"

// Reads all of a file, at most `limit` bytes. 0, or an errno (EFBIG: more than the limit).
int files_read(const char *path, size_t limit, struct bytes *bytes);
// The same of what never lets one wait for long: ESPIPE for a pipe, a terminal or another device, EISDIR for a folder.
int files_read_regular(const char *path, size_t limit, struct bytes *bytes);
int files_read_fd(int fd, size_t limit, struct bytes *bytes);

// As write(2), but waits, too, where another process has made a file of ours one that does not: O_NONBLOCK is shared.
ssize_t files_write_some(int fd, const void *data, size_t length);
// Writes everything, waiting as long as it takes. 0, or an errno.
int files_write(int fd, const void *data, size_t length);

// A file that appears under its name only when it is complete: written beside it, synced, renamed. A name that stands
// for a pipe or device is written to directly, and offsets must then ascend without gaps. A link stays one: it is the
// file that it leads to, which must be there, that is replaced. Who may read what was there may read what takes its
// place. ENXIO: a pipe that nobody reads.
struct new_file {
    int fd;
    char *path, *temporary; // path NULL: released
};
int files_create(struct new_file *file, const char *path); // 0 or an errno
int files_write_at(struct new_file *file, const void *data, size_t length, uint64_t offset);
int files_commit(struct new_file *file);   // 0 or an errno; the file is released either way
void files_discard(struct new_file *file); // harmless on one that was released or zero-initialised

// The package to open: `named`, or without it models/demo beside the program, else the installed one. malloc'd, NULL:
// no memory. Its existence is not promised.
char *files_model(const char *named);
// A file of ours in an XDG folder: "$variable/moechat/name", without the variable "$HOME/otherwise/moechat/name"; with
// `make` its folder is made. malloc'd; NULL: there is no such place, errno says why.
struct files_place {
    const char *variable, *otherwise, *name;
    bool make;
};
char *files_place(const struct files_place *place);
// Where built kernels go: `wanted` unless NULL, else the XDG cache folder, made when missing. NULL: nowhere. malloc'd.
char *files_kernel_cache(const char *wanted);

#endif
