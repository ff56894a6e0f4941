// SPDX-License-Identifier: GPL-3.0-or-later
// A draft's file, and those that killed chats left.
#include "app/store/draft_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/store/swap_file.h"

static const char front[] = "draft-", elsewhere_front[] = "moechat-", draft_elsewhere[] = "moechat-draft-";
enum { LETTERS = 6, NAME = sizeof front - 1 + LETTERS };

// An editor's file, and what is left beside it where the editor is killed, the newest last: what Emacs had before, and
// what nano (which takes another name where the first is there) and Emacs had not saved yet.
static const struct around {
    const char *front, *behind;
} edits[] = {{"edit-", "~"}, {"edit-", ""}, {"edit-", ".save"}, {"edit-", ".save.1"}, {"#edit-", "#"}};
enum { N_EDITS = sizeof edits / sizeof edits[0], EDITED = 1, MOST_AROUND = 7 };

void draft_file_begin(struct draft_file *file, const char *history_path)
{
    const char *slash = history_path ? strrchr(history_path, '/') : NULL;
    *file =
        (struct draft_file){.fd = -1, .folder = slash ? strndup(history_path, (size_t)(slash - history_path)) : NULL};
}

// What a name has between `begins` and `ends`, NULL: it is no such name.
static const char *letters_of(const char *name, const char *begins, const char *ends)
{
    size_t length = strlen(begins);
    return strncmp(name, begins, length) == 0 && strlen(name) == length + LETTERS + strlen(ends) &&
                   strcmp(name + length + LETTERS, ends) == 0
               ? name + length
               : NULL;
}

// Opens one that nobody holds, and holds it. -1: it is another's, a link, no file, or of more bytes than `most`, which
// *large says; or another chat has taken and removed it since it was opened.
static int open_left(int folder, const char *name, off_t most, bool *large)
{
    struct stat about;
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -1;
    bool ours = fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_uid == geteuid();
    *large = ours && about.st_size > most;
    if (ours && !*large && flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &about) == 0 && about.st_nlink > 0)
        return fd;
    close(fd);
    return -1;
}

// The last of the texts goes first. False: one of them is not safe.
static bool take_texts(const struct bytes *texts, bool (*take)(void *context, const char *text), void *context)
{
    bool done = true;
    for (size_t end = texts->length; end > 0;) {
        size_t begin = end;
        while (begin > 0 && texts->data[begin - 1])
            begin--;
        if (begin < end)
            done = take(context, texts->data + begin) && done;
        end = begin ? begin - 1 : 0;
    }
    return done;
}

bool draft_file_stays(const struct bytes *texts)
{
    bool stays = false;
    for (size_t at = 0, length; at < texts->length && !stays; at += length + 1) {
        length = strlen(texts->data + at);
        stays = history_refusal(length);
    }
    return stays;
}

struct taker {
    const struct draft_taker *to;
    const char *path; // of the folder
    size_t count;     // chats that left something
};

static void say_stays(const struct draft_taker *to, const char *folder, const char *name)
{
    char path[4096];
    if (to->stays && snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path)
        to->stays(to->context, path);
}

// As a draft has it: no NUL, and no line's end behind it.
static void tidy(struct bytes *text)
{
    bytes_without_zeros(text);
    while (text->length && text->data[text->length - 1] == '\n')
        text->data[--text->length] = 0;
}

// One of the files of a killed chat's editor; its draft's file, or one of these before it, had these texts. Returns
// whether it had another.
static bool adopt_edited(int folder, const char *name, struct bytes *texts, const struct taker *taker)
{
    struct bytes text = {0};
    bool large = false, takes = false;
    int fd = open_left(folder, name, HISTORY_ENTRY_LIMIT, &large);
    if (large)
        say_stays(taker->to, taker->path, name);
    if (fd < 0)
        return false;
    bool done = files_read_fd(fd, HISTORY_ENTRY_LIMIT, &text) == 0;
    tidy(&text);
    takes = done && text.length && !bytes_have_text(texts, text.data);
    if (takes)
        done = taker->to->take(taker->to->context, text.data) && bytes_append(texts, "", texts->length > 0) &&
               bytes_append(texts, text.data, text.length);
    if (done)
        unlinkat(folder, name, 0);
    close(fd);
    bytes_release(&text);
    return takes;
}

static void adopt_edits(int folder, const char *letters, struct bytes *texts, struct taker *taker)
{
    bool drafted = texts->length, takes = false;
    for (size_t i = 0; i < N_EDITS; i++) {
        char name[NAME + MOST_AROUND + 1];
        snprintf(name, sizeof name, "%s%.*s%s", edits[i].front, LETTERS, letters, edits[i].behind);
        takes = adopt_edited(folder, name, texts, taker) || takes;
    }
    taker->count += takes && !drafted;
}

// letters: those that an editor's file beside it has; NULL: none can be there.
static void adopt_draft(int folder, const char *name, const char *letters, struct taker *taker)
{
    struct bytes texts = {0};
    bool large = false;
    int fd = open_left(folder, name, DRAFT_FILE_LIMIT, &large);
    bool done = fd >= 0 && files_read_fd(fd, DRAFT_FILE_LIMIT, &texts) == 0, stays = large || draft_file_stays(&texts);
    if (stays)
        say_stays(taker->to, taker->path, name);
    if (fd < 0)
        return;
    while (texts.length && !texts.data[texts.length - 1]) // made longer, and killed before the text was there
        texts.length--;
    if (done && !stays && texts.length) {
        done = take_texts(&texts, taker->to->take, taker->to->context);
        taker->count++;
    }
    if (letters)
        adopt_edits(folder, letters, &texts, taker);
    if (done && !stays)
        unlinkat(folder, name, 0);
    close(fd);
    bytes_release(&texts);
}

// Its draft's file is gone, as a chat that goes removes that last.
static bool is_alone(int folder, const char *letters)
{
    char name[NAME + 1];
    struct stat about;
    snprintf(name, sizeof name, "%s%.*s", front, LETTERS, letters);
    return fstatat(folder, name, &about, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT;
}

static const char *letters_of_edit(const char *name)
{
    const char *letters = NULL;
    for (size_t i = 0; i < N_EDITS && !letters; i++)
        letters = letters_of(name, edits[i].front, edits[i].behind);
    return letters;
}

// What vim had not written is told once the rest is taken over.
static void see_to_swap(int folder, const char *name, const char *begins, const struct taker *taker)
{
    size_t length = strlen(begins);
    if (swap_file_is(name) && strncmp(name + 1, begins, length) == 0 &&
        strlen(name) == 1 + length + LETTERS + SWAP_FILE_END && swap_file_holds(folder, name))
        say_stays(taker->to, taker->path, name);
}

static const char *elsewhere(void)
{
    const char *folder = getenv("TMPDIR");
    return folder && *folder ? folder : "/tmp";
}

static void adopt_elsewhere(struct taker *taker)
{
    taker->path = elsewhere();
    DIR *folder = opendir(taker->path);
    const struct dirent *entry;
    while (folder && (entry = readdir(folder)))
        if (letters_of(entry->d_name, draft_elsewhere, ""))
            adopt_draft(dirfd(folder), entry->d_name, NULL, taker);
    if (folder)
        closedir(folder);
}

size_t draft_file_adopt(const struct draft_file *file, const struct draft_taker *to)
{
    struct taker taker = {to, file->folder, 0};
    DIR *folder = file->folder ? opendir(file->folder) : NULL;
    const struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        const char *draft = letters_of(entry->d_name, front, ""), *edited = letters_of_edit(entry->d_name);
        struct bytes none = {0};
        if (draft)
            adopt_draft(dirfd(folder), entry->d_name, draft, &taker);
        else if (edited && is_alone(dirfd(folder), edited))
            adopt_edits(dirfd(folder), edited, &none, &taker);
        bytes_release(&none);
    }
    if (folder)
        rewinddir(folder);
    while (folder && (entry = readdir(folder)))
        see_to_swap(dirfd(folder), entry->d_name, edits[EDITED].front, &taker);
    if (folder)
        closedir(folder);
    adopt_elsewhere(&taker);
    return taker.count;
}

void draft_file_find_elsewhere(const struct draft_taker *to)
{
    struct taker taker = {to, elsewhere(), 0};
    DIR *folder = opendir(taker.path);
    const struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        bool large;
        see_to_swap(dirfd(folder), entry->d_name, elsewhere_front, &taker);
        int fd = letters_of(entry->d_name, elsewhere_front, "") || letters_of(entry->d_name, elsewhere_front, ".save")
                     ? open_left(dirfd(folder), entry->d_name, INT64_MAX, &large)
                     : -1;
        if (fd < 0)
            continue;
        close(fd);
        say_stays(to, taker.path, entry->d_name);
    }
    if (folder)
        closedir(folder);
}

bool draft_file_is_elsewhere(const char *path)
{
    const char *slash = strrchr(path, '/');
    return letters_of(slash ? slash + 1 : path, draft_elsewhere, "");
}

int draft_file_edit_elsewhere(char *path, size_t size)
{
    if (snprintf(path, size, "%s/%sXXXXXX", elsewhere(), elsewhere_front) >= (int)size) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = mkstemp(path);
    if (fd >= 0) {
        fcntl(fd, F_SETFD, FD_CLOEXEC);
        flock(fd, LOCK_EX | LOCK_NB);
    }
    return fd;
}

// Makes the file and holds it. An errno: not this time; another chat may have found it before we held it, and removes
// it.
static int make(struct draft_file *file)
{
    struct stat about;
    const char *folder = file->elsewhere ? elsewhere() : file->folder,
               *begins = file->elsewhere ? draft_elsewhere : front;
    size_t size = folder ? strlen(folder) + strlen(begins) + LETTERS + 2 : 0;
    if (!size)
        return ENOENT;
    file->path = malloc(size);
    if (!file->path)
        return ENOMEM;
    snprintf(file->path, size, "%s/%sXXXXXX", folder, begins);
    file->fd = mkstemp(file->path);
    if (file->fd >= 0 && fcntl(file->fd, F_SETFD, FD_CLOEXEC) == 0 && flock(file->fd, LOCK_EX | LOCK_NB) == 0 &&
        fstat(file->fd, &about) == 0 && about.st_nlink == 1)
        return 0;
    int code = errno ? errno : EAGAIN;
    if (file->fd >= 0) {
        if (code != EWOULDBLOCK) // a file system without locks, where nobody would find it
            unlink(file->path);
        close(file->fd);
    }
    file->fd = -1;
    free(file->path);
    file->path = NULL;
    return code;
}

static void discard(const struct draft_file *file)
{
    if (file->path)
        unlink(file->path);
    if (file->fd >= 0)
        close(file->fd);
    free(file->path);
}

bool draft_file_holds(const struct draft_file *file, const struct bytes *texts)
{
    return !file->stale && file->texts.length == texts->length &&
           (!texts->length || memcmp(file->texts.data, texts->data, texts->length) == 0);
}

// First longer, then cut: what was there is never gone before something else is, nor where the disk is full. An errno:
// it is to be tried again.
static int write_texts(const struct draft_file *file, const char *texts, off_t length)
{
    struct stat about;
    off_t was = fstat(file->fd, &about) == 0 ? about.st_size : 0;
    int code = length > was ? posix_fallocate(file->fd, was, length - was) : 0;
    if (code) {
        if (ftruncate(file->fd, was)) {
            // Zeroes behind a text say nothing more.
        }
        return code;
    }
    errno = ENOSPC; // where less is written than was asked for
    if (pwrite(file->fd, texts, (size_t)length, 0) == (ssize_t)length && ftruncate(file->fd, length) == 0)
        return 0;
    code = errno;
    if (ftruncate(file->fd, 0)) { // no half of it
        // The next try is told, too.
    }
    return code;
}

// In a new file, which takes the place of the one there is.
static int keep_anew(struct draft_file *file, bool elsewhere, const char *texts, off_t length)
{
    struct draft_file made = {.folder = file->folder, .fd = -1, .elsewhere = elsewhere};
    int code = make(&made);
    if (!code)
        code = write_texts(&made, texts, length);
    if (code) {
        discard(&made);
        return code;
    }
    discard(file);
    file->path = made.path;
    file->fd = made.fd;
    file->elsewhere = elsewhere;
    return 0;
}

static bool name_edit(const struct draft_file *file, char *path, size_t size)
{
    const char *letters = file->path + strlen(file->path) - LETTERS;
    return snprintf(path, size, "%s/%s%s", file->folder, edits[EDITED].front, letters) < (int)size;
}

// An editor has its file by the letters of this one.
static bool is_edited(const struct draft_file *file)
{
    char path[4096];
    return file->fd >= 0 && !file->elsewhere && (!name_edit(file, path, sizeof path) || access(path, F_OK) == 0);
}

// Where it is, or beside the history, or else in $TMPDIR. False: nowhere.
static bool keep_somewhere(struct draft_file *file, const char *texts, off_t length)
{
    int code = file->fd >= 0 ? write_texts(file, texts, length) : keep_anew(file, false, texts, length);
    if (!file->elsewhere)
        file->why = code;
    if (code && !is_edited(file))
        code = keep_anew(file, !file->elsewhere, texts, length);
    if (!file->elsewhere && !code)
        file->why = 0;
    return !code;
}

void draft_file_keep(struct draft_file *file, const struct bytes *texts)
{
    size_t length = texts->length;
    if (draft_file_holds(file, texts))
        return;
    file->texts.length = 0;
    file->stale = !bytes_append(&file->texts, length ? texts->data : "", length); // without memory it is written again
    if (length > DRAFT_FILE_LIMIT)
        length = 0;
    if (file->fd < 0 && !length)
        return; // nothing needs no file
    file->stale = !keep_somewhere(file, length ? texts->data : "", (off_t)length) || file->stale;
}

int draft_file_edit(struct draft_file *file, char *path, size_t size)
{
    if (!file->folder || file->elsewhere || (file->fd < 0 && make(file)) || !name_edit(file, path, size))
        return -1;
    return open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

bool draft_file_end(struct draft_file *file, bool safe)
{
    struct stat about;
    bool kept = file->path && !safe && fstat(file->fd, &about) == 0 && about.st_size > 0;
    if (file->path && !kept)
        unlink(file->path);
    if (file->fd >= 0)
        close(file->fd);
    kept = kept && !file->stale; // else it is older: better than nothing, and not what was typed
    bytes_release(&file->texts);
    free(file->path);
    free(file->folder);
    *file = (struct draft_file){.fd = -1};
    return kept;
}
