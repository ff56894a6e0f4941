// SPDX-License-Identifier: GPL-3.0-or-later
// Keeps what drivers print while the screen is drawn on.
#include "app/term/tui_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/util/report.h"

enum { LOG_LIMIT = 1 << 20, REPLAYED = 4096, SHOWN = 32768 };

// $XDG_STATE_HOME/moechat/log, its folders made. "": nowhere.
static void find_path(char *path, size_t size)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int length = state && *state == '/' ? snprintf(path, size, "%s/moechat/log", state)
                 : home && *home        ? snprintf(path, size, "%s/.local/state/moechat/log", home)
                                        : -1;
    if (length < 0 || (size_t)length >= size) {
        *path = 0;
        return;
    }
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
}

void tui_log_begin(struct tui_log *log)
{
    struct stat about;
    find_path(log->path, sizeof log->path);
    fflush(stderr);
    int fd =
        *log->path ? open(log->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600) : -1;
    if (fd >= 0 && (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode))) { // a pipe's other end would hold us up
        close(fd);
        fd = -1;
    }
    if (fd >= 0 && about.st_size > LOG_LIMIT && ftruncate(fd, 0) != 0)
        *log->path = 0;
    log->start = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;
    if (fd < 0) {
        *log->path = 0;
        fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    }
    log->before = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    if (fd >= 0) {
        dup2(fd, STDERR_FILENO);
        close(fd);
    }
}

// Copies the file from `from` on, or its last `most` bytes.
static void copy_end(const struct tui_log *log, off_t from, off_t most, FILE *out)
{
    int fd = *log->path ? open(log->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (fd < 0)
        return;
    off_t size = lseek(fd, 0, SEEK_END);
    char block[4096], last = '\n';
    for (off_t at = size - from > most ? size - most : from; at < size;) {
        ssize_t got = pread(fd, block, sizeof block, at);
        if (got <= 0)
            break;
        report_text(out, block, (size_t)got);
        last = block[got - 1];
        at += got;
    }
    if (last != '\n')
        fputc('\n', out);
    close(fd);
}

void tui_log_end(struct tui_log *log)
{
    if (log->before < 0)
        return;
    fflush(stderr);
    dup2(log->before, STDERR_FILENO);
    close(log->before);
    log->before = -1;
    copy_end(log, log->start, REPLAYED, stderr);
}

void tui_log_print(const struct tui_log *log, FILE *out)
{
    if (!*log->path) {
        fputs("No place for a log; driver output is discarded.\n", out);
        return;
    }
    struct stat about;
    bool empty = stat(log->path, &about) == 0 && about.st_size == 0;
    fprintf(out, "%s\n%s", log->path, empty ? "Drivers and libraries have printed nothing.\n" : "");
    copy_end(log, 0, SHOWN, out);
}
