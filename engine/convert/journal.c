// SPDX-License-Identifier: GPL-3.0-or-later
// convert.journal: a line for each file that is complete.
#include "engine/convert/journal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/file.h"

static const char consuming_word[] = "consuming ", consumed_word[] = "consumed ", like_word[] = "like ";

enum { MOST_BYTES = 1 << 20, LINE_BYTES = 256 };

static int append(struct journal *j, const char *line, struct moe_err *err)
{
    size_t length = strlen(line), done = 0;
    while (done < length) {
        ssize_t wrote = write(j->fd, line + done, length - done);
        if (wrote > 0)
            done += (size_t)wrote;
        else if (wrote == 0 || errno != EINTR)
            return moe_fail_file(err, MOE_IO, j->path, wrote == 0 ? ENOSPC : errno, "cannot be written");
    }
    return file_sync(j->fd) ? moe_fail_file(err, MOE_IO, j->path, errno, "cannot be written") : MOE_OK;
}

static int remember(struct journal *j, const struct journal_file *entry, struct moe_err *err)
{
    for (size_t i = 0; i < j->count; i++)
        if (strcmp(j->entries[i].file, entry->file) == 0) { // it was written once more
            j->entries[i] = *entry;
            return MOE_OK;
        }
    struct journal_file *more = realloc(j->entries, (j->count + 1) * sizeof *more);
    if (!more)
        return moe_fail_file(err, MOE_NO_MEMORY, j->path, 0, "no memory for its lines");
    j->entries = more;
    j->entries[j->count++] = *entry;
    return MOE_OK;
}

static void mark(struct journal *j, const char *file, const char *word)
{
    for (size_t i = 0; i < j->count; i++)
        if (strcmp(j->entries[i].file, file) == 0) {
            j->entries[i].consuming = true;
            j->entries[i].consumed = j->entries[i].consumed || word == consumed_word;
        }
}

static int read_mark(struct journal *j, const char *folder, const char *line, const char *word, struct moe_err *err)
{
    const char *file = line + strlen(word);
    mark(j, file, word);
    if (journal_find(j, file))
        return MOE_OK;
    return moe_fail(err, MOE_FORMAT,
                    "%.300s: %.63s is not there as it was written, and its weights %s the source: they are lost; "
                    "remove the folder and download the model again",
                    folder, file, word == consumed_word ? "were removed from" : "were being removed from");
}

static const char *mark_word(const char *line)
{
    return strncmp(line, consuming_word, sizeof consuming_word - 1) == 0 ? consuming_word
           : strncmp(line, consumed_word, sizeof consumed_word - 1) == 0 ? consumed_word
                                                                         : NULL;
}

// A file that a line tells of must be there with its size; lines that tell of others are passed over.
static int read_line(struct journal *j, const char *folder, const char *line, struct moe_err *err)
{
    struct journal_file entry = {.consumed = false};
    struct stat status;
    char path[4300];
    const char *word = mark_word(line);
    if (word)
        return read_mark(j, folder, line, word, err);
    if (strncmp(line, like_word, sizeof like_word - 1) == 0) {
        snprintf(j->likeness, sizeof j->likeness, "%s", line + sizeof like_word - 1);
        return MOE_OK;
    }
    if (sscanf(line, "%63s %" SCNu64 " %64s", entry.file, &entry.bytes, entry.sha256) != 3 ||
        strspn(entry.sha256, "0123456789abcdef") != 64 || strchr(entry.file, '/'))
        return MOE_OK;
    snprintf(path, sizeof path, "%.4200s/%s", folder, entry.file);
    if (lstat(path, &status) || !S_ISREG(status.st_mode) || (uint64_t)status.st_size != entry.bytes)
        return MOE_OK;
    return remember(j, &entry, err);
}

// The text's whole lines; what follows the last newline was cut off, and is cut off the file too.
static int read_lines(struct journal *j, const char *folder, const char *key, char *text, struct moe_err *err)
{
    char *end = strrchr(text, '\n');
    if (!end) {
        if (ftruncate(j->fd, 0))
            return moe_fail_file(err, MOE_IO, j->path, errno, "cannot be written");
        char line[LINE_BYTES];
        snprintf(line, sizeof line, "moechat-convert 1 %s\n", key);
        return append(j, line, err);
    }
    end[1] = '\0';
    if (ftruncate(j->fd, (off_t)strlen(text)))
        return moe_fail_file(err, MOE_IO, j->path, errno, "cannot be written");
    char first[LINE_BYTES];
    snprintf(first, sizeof first, "moechat-convert 1 %s\n", key);
    bool other = strncmp(text, first, strlen(first)) != 0;
    bool removed = false;
    for (const char *at = text; at && !removed; at = strchr(at, '\n'))
        removed = mark_word(at += *at == '\n');
    if (other && removed) // to remove this folder would be to lose the model
        return moe_fail(err, MOE_BAD_ARGUMENT,
                        "%.300s has experts that --consume removed from their source, so do not remove it; only the "
                        "command that began it goes on, with --consume and the model where it was then",
                        folder);
    if (other)
        return moe_fail(err, MOE_BAD_ARGUMENT,
                        "%.300s was left by another conversion (other source or other options); remove it, or choose "
                        "another name",
                        folder);
    if (lseek(j->fd, 0, SEEK_SET) < 0)
        return moe_fail_file(err, MOE_IO, j->path, errno, "cannot be written");
    int code = append(j, text, err);
    char *rest;
    strtok_r(text, "\n", &rest);
    for (char *line = strtok_r(NULL, "\n", &rest); line && !code; line = strtok_r(NULL, "\n", &rest))
        code = read_line(j, folder, line, err);
    return code;
}

static int read_journal(struct journal *j, const char *folder, const char *key, struct moe_err *err)
{
    struct stat status;
    if (lockf(j->fd, F_TLOCK, 0)) {
        bool held = errno == EACCES || errno == EAGAIN;
        return moe_fail_file(err, MOE_IO, j->path, held ? 0 : errno,
                             held ? "another process is running this conversion" : "cannot be locked");
    }
    if (fstat(j->fd, &status) || status.st_size > MOST_BYTES)
        return moe_fail_file(err, MOE_FORMAT, j->path, 0, "is not the journal of a conversion; remove its folder");
    char *text = calloc(1, (size_t)status.st_size + 1);
    if (!text)
        return moe_fail_file(err, MOE_NO_MEMORY, j->path, 0, "no memory to read it");
    int code = file_read(&(struct file_range){j->fd, j->path, 0, (size_t)status.st_size}, text, err);
    if (!code)
        code = read_lines(j, folder, key, text, err);
    free(text);
    return code;
}

// Do files that we make in a folder belong to whom it belongs to? So it is where a file system gives all files to one
// user, such as a server that takes root for nobody.
static bool is_ours(const char *folder, uid_t owner)
{
    char path[4300];
    struct stat status;
    if (owner == geteuid())
        return true;
    snprintf(path, sizeof path, "%.4200s/convert.XXXXXX", folder);
    int fd = mkstemp(path);
    if (fd < 0)
        return false;
    bool ours = fstat(fd, &status) == 0 && status.st_uid == owner;
    close(fd);
    unlink(path);
    return ours;
}

// Where others can make names, a folder may have been put there so that what is in it, or what it leads to, is written
// over.
static int check_folder(const char *folder, const char *journal, struct moe_err *err)
{
    struct stat status;
    if (lstat(folder, &status))
        return moe_fail_file(err, MOE_IO, folder, errno, "cannot be examined");
    if (!S_ISDIR(status.st_mode) || !is_ours(folder, status.st_uid))
        return moe_fail_file(err, MOE_BAD_ARGUMENT, folder, 0,
                             S_ISLNK(status.st_mode)    ? "is a symbolic link; remove it, or choose another name"
                             : !S_ISDIR(status.st_mode) ? "is no folder; remove it, or choose another name"
                                                        : "is another user's; choose another name");
    if (lstat(journal, &status) == 0)
        return MOE_OK; // its key tells
    DIR *open_folder = opendir(folder);
    if (!open_folder)
        return moe_fail_file(err, MOE_IO, folder, errno, "cannot be listed");
    bool empty = true;
    const struct dirent *at;
    while (errno = 0, empty && (at = readdir(open_folder)))
        empty = strcmp(at->d_name, ".") == 0 || strcmp(at->d_name, "..") == 0 ||
                strcmp(at->d_name, "convert.journal") == 0; // another process has just made it, and its lock tells
    int failed = errno;                                     // or readdir has come to the end
    closedir(open_folder);
    if (failed)
        return moe_fail_file(err, MOE_IO, folder, failed, "cannot be listed");
    return empty ? MOE_OK
                 : moe_fail_file(err, MOE_BAD_ARGUMENT, folder, 0,
                                 "has files that no conversion left; remove it, or choose another name");
}

int journal_open(const char *folder, const char key[65], struct journal *j, struct moe_err *err)
{
    memset(j, 0, sizeof *j);
    j->fd = -1;
    snprintf(j->path, sizeof j->path, "%.4200s/convert.journal", folder);
    int code = check_folder(folder, j->path, err);
    if (code)
        return code;
    j->fd = open(j->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (j->fd < 0)
        return moe_fail_file(err, errno == ELOOP ? MOE_BAD_ARGUMENT : MOE_IO, j->path, errno, "cannot be created");
    code = read_journal(j, folder, key, err);
    if (!code)
        code = file_make_durable(folder, err); // without it, files that are there after a power cut are nobody's
    if (code)
        journal_close(j);
    return code;
}

const struct journal_file *journal_find(const struct journal *j, const char *file)
{
    for (size_t i = j->count; i-- > 0;) // the last is the newest
        if (strcmp(j->entries[i].file, file) == 0)
            return &j->entries[i];
    return NULL;
}

int journal_add(struct journal *j, const struct journal_file *entry, struct moe_err *err)
{
    char line[LINE_BYTES];
    snprintf(line, sizeof line, "%s %" PRIu64 " %s\n", entry->file, entry->bytes, entry->sha256);
    int code = append(j, line, err);
    return code ? code : remember(j, entry, err);
}

static int note(struct journal *j, const char *word, const char *file, struct moe_err *err)
{
    char line[LINE_BYTES];
    snprintf(line, sizeof line, "%s%.63s\n", word, file);
    int code = append(j, line, err);
    if (!code)
        mark(j, file, word);
    return code;
}

int journal_note_likeness(struct journal *j, const char hex[65], struct moe_err *err)
{
    char line[LINE_BYTES];
    snprintf(line, sizeof line, "%s%s\n", like_word, hex);
    snprintf(j->likeness, sizeof j->likeness, "%s", hex);
    return append(j, line, err);
}

int journal_note_consuming(struct journal *j, const char *file, struct moe_err *err)
{
    return note(j, consuming_word, file, err);
}

int journal_note_consumed(struct journal *j, const char *file, struct moe_err *err)
{
    return note(j, consumed_word, file, err);
}

void journal_close(struct journal *j)
{
    if (j->fd >= 0)
        close(j->fd);
    j->fd = -1;
    free(j->entries);
    j->entries = NULL;
    j->count = 0;
}
