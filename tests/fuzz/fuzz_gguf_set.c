// SPDX-License-Identifier: GPL-3.0-or-later
// A folder of files with names that matter, each with any bytes: again and again a byte that chooses the name, two of
// a length, and so many bytes. The folder, and each name in it or not, is refused with one line, or opens.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/files/gguf_set.h"
#include "tests/fuzz/place.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool so)
{
    if (!so)
        abort();
}

static const char *const names[] = {
    "M-00001-of-00002.gguf", "M-00002-of-00002.gguf", "M-00003-of-00003.gguf", "N-00001-of-00002.gguf", "M.gguf",
    "mmproj-M.gguf",         "M.gguf.part1of2",       "M-00001-of-00001.gguf"};
enum { NAMES = sizeof names / sizeof *names };

static void open_one(const char *path)
{
    struct gguf_set set;
    struct moe_err err = {.text = ""};
    int code = gguf_set_open(path, &set, &err);
    if (code) {
        must((int)err.code == code && err.text[0] && !strchr(err.text, '\n'));
        return;
    }
    must(set.n_files >= 1 && set.n_files <= 2);
    for (uint32_t i = 0; i < set.n_files; i++)
        must(set.files[i].fd >= 0);
    gguf_set_release(&set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *folder = place();
    char path[96];
    for (size_t at = 0; at + 3 <= size;) {
        size_t length = data[at + 1] | (size_t)data[at + 2] << 8;
        length = length < size - at - 3 ? length : size - at - 3;
        snprintf(path, sizeof path, "%s/%s", folder, names[data[at] % NAMES]);
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        must(fd >= 0 && write(fd, data + at + 3, length) == (ssize_t)length);
        close(fd);
        at += 3 + length;
    }
    gguf_set_is_one(folder);
    open_one(folder);
    for (size_t i = 0; i < NAMES; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        gguf_set_is_one(path);
        open_one(path);
        unlink(path);
    }
    return 0;
}
