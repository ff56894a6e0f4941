// SPDX-License-Identifier: GPL-3.0-or-later
// Streams whose writes are ours.
#define _GNU_SOURCE // fopencookie
#include "app/util/output.h"

#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "app/util/files.h"

// As stdio does it itself: what a signal ends, or an error, is not gone on with. errno says which.
static ssize_t write_all(void *fd, const char *data, size_t length)
{
    size_t done = 0;
    while (done < length) {
        ssize_t wrote = files_write_some((int)(intptr_t)fd, data + done, length - done);
        if (wrote < 0)
            break;
        done += (size_t)wrote;
    }
    return (ssize_t)done;
}

static FILE *open_stream(int fd, FILE *otherwise, int buffering)
{
    static const cookie_io_functions_t functions = {.write = write_all};
    FILE *stream = fopencookie((void *)(intptr_t)fd, "w", functions);
    if (!stream)
        return otherwise;
    setvbuf(stream, NULL, buffering, BUFSIZ);
    return stream;
}

void output_begin(void)
{
#ifdef __GLIBC__ // where they are variables
    stdout = open_stream(STDOUT_FILENO, stdout, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF);
    stderr = open_stream(STDERR_FILENO, stderr, _IONBF);
#endif
}
