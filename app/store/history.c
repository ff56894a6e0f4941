// SPDX-License-Identifier: GPL-3.0-or-later
// The input history's file: read, appended to, shortened.
#include "app/store/history.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tokenizer/tok.h"

static const char plain[] = "\\\n\r\t", escaped[] = "\\nrt";

void history_release(struct history *history)
{
    for (size_t i = 0; i < history->count; i++)
        free(history->entries[i]);
    free(history->entries);
    *history = (struct history){0};
}

// ---- the codec ----

// How many bytes of a text's front are a character that a line may hold as it is. 0: its first byte is escaped.
static size_t clean_bytes(const char *text, size_t length)
{
    uint32_t code;
    int found = tok_utf8(text, length, &code);
    return found > 0 && code >= 0x20 && !(code >= 0x7F && code < 0xA0) ? (size_t)found : 0;
}

// Only what has something to see and no byte that would end it.
static bool is_kept(const char *text, size_t length)
{
    bool seen = false;
    for (size_t i = 0; i < length && !seen; i++)
        seen = (unsigned char)text[i] > ' ';
    return seen && !history_refusal(length) && !memchr(text, 0, length);
}

const char *history_refusal(size_t length)
{
    return length > HISTORY_ENTRY_LIMIT ? "it is longer than 4 MiB" : NULL;
}

// One byte, or a whole character, as a line has it. False: no memory.
static bool encode_next(const char *text, size_t length, size_t *at, struct bytes *line)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char byte = (unsigned char)text[*at];
    const char *special = memchr(plain, byte, sizeof plain - 1);
    size_t clean = clean_bytes(text + *at, length - *at);
    const char *from = text + *at;
    char letters[4] = {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
    size_t count = clean;
    if (special)
        letters[1] = escaped[special - plain];
    if (special || !clean)
        from = letters, count = special ? 2 : 4;
    *at += clean ? clean : 1;
    return bytes_append(line, from, count);
}

bool history_encode(const char *text, size_t length, struct bytes *line)
{
    size_t before = line->length;
    bool fine = is_kept(text, length);
    for (size_t at = 0; at < length && fine;)
        fine = encode_next(text, length, &at, line);
    if (fine && bytes_append(line, "\n", 1))
        return true;
    line->length = before;
    return false;
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// What stands behind a backslash. 0: nothing that encode_next writes.
static size_t unescape(const char *line, size_t length, char *c)
{
    const char *letter = length ? memchr(escaped, *line, sizeof escaped - 1) : NULL;
    if (letter) {
        *c = plain[letter - escaped];
        return 1;
    }
    int high = length > 2 && *line == 'x' ? digit_of(line[1]) : -1, low = high < 0 ? -1 : digit_of(line[2]);
    if (low < 0)
        return 0;
    *c = (char)(high * 16 + low);
    return 3;
}

bool history_decode(const char *line, size_t length, struct bytes *text)
{
    size_t before = text->length;
    for (size_t at = 0; at < length;) {
        char c;
        size_t clean = clean_bytes(line + at, length - at), taken = clean;
        const char *from = line + at;
        if (*from == '\\') {
            size_t behind = unescape(line + at + 1, length - at - 1, &c);
            taken = behind ? behind + 1 : 0;
            from = &c, clean = 1;
        }
        if (!taken || !bytes_append(text, from, clean))
            goto cut;
        at += taken;
    }
    if (text->data && is_kept(text->data + before, text->length - before))
        return true;
cut:
    text->length = before;
    if (text->data)
        text->data[before] = 0;
    return false;
}

// ---- the file ----

const char *history_reason(int code)
{
    return code == EAGAIN ? "another process holds a lock on it" : strerror(code);
}

// Locks the file, which others do for moments. 0 or an errno; EAGAIN: one of them kept it.
static int lock_file(int fd, bool patient)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    const struct timespec moment = {.tv_nsec = 10000000};
    for (int tries = patient ? 200 : 1; tries > 0; tries--) {
        if (fcntl(fd, F_SETLK, &lock) == 0)
            return 0;
        if (errno != EAGAIN && errno != EACCES)
            return errno;
        if (tries > 1)
            nanosleep(&moment, NULL);
    }
    return EAGAIN;
}

// Opens and locks the file that has the name once the lock is held. -1 with errno.
static int open_locked(const char *path, bool *held)
{
    for (;;) {
        struct stat opened, named;
        int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0)
            return -1;
        int code = lock_file(fd, !*held);
        *held = code == EAGAIN;
        if (code == 0 && fstat(fd, &opened) != 0)
            code = errno;
        if (code == 0 && stat(path, &named) == 0 && named.st_ino == opened.st_ino && named.st_dev == opened.st_dev)
            return fd;
        close(fd); // written anew meanwhile, if it could be locked
        if (code != 0) {
            errno = code;
            return -1;
        }
    }
}

// Reads the lines, or as many of the last as the limit allows.
static int read_lines(int fd, struct bytes *file)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return errno;
    if (!S_ISREG(status.st_mode))
        return bytes_append(file, "", 0) ? 0 : ENOMEM;
    off_t from = status.st_size > HISTORY_FILE_LIMIT ? status.st_size - HISTORY_FILE_LIMIT : 0;
    if (lseek(fd, from, SEEK_SET) < 0)
        return errno;
    return files_read_fd(fd, (size_t)HISTORY_FILE_LIMIT + HISTORY_ENTRY_LIMIT, file);
}

static bool holds(const struct history *history, const char *text)
{
    for (size_t i = 0; i < history->count; i++)
        if (strcmp(history->entries[i], text) == 0)
            return true;
    return false;
}

// Takes the entries out of the file's bytes, the last first. Returns whether there are many more lines than that.
static bool take_lines(const struct bytes *file, struct history *history)
{
    size_t lines = 0, end = file->length, long_ones = 0, long_kept = 0;
    struct bytes text = {0};
    while (end > 0) {
        size_t begin = end - 1;
        while (begin > 0 && file->data[begin - 1] != '\n')
            begin--;
        size_t length = end - begin - (file->data[end - 1] == '\n');
        bool is_long = length > HISTORY_LONG;
        text.length = 0;
        lines++;
        long_ones += is_long;
        if (history->count < HISTORY_ENTRIES && !(is_long && long_kept == HISTORY_LONG_ONES) &&
            history_decode(file->data + begin, length, &text) && !holds(history, text.data)) {
            history->entries[history->count] = text.data;
            history->count++;
            long_kept += is_long;
            text = (struct bytes){0};
        }
        end = begin;
    }
    bytes_release(&text);
    return lines > 2 * HISTORY_ENTRIES || long_ones > 2 * HISTORY_LONG_ONES;
}

// Puts the entries in the place of the file, whose lock is held.
static int write_anew(const struct history *history, const char *path)
{
    struct new_file file;
    struct bytes lines = {0};
    bool fine = true;
    for (size_t i = 0; i < history->count && fine; i++)
        fine = history_encode(history->entries[i], strlen(history->entries[i]), &lines);
    int code = fine ? files_create(&file, path) : ENOMEM;
    if (code == 0) {
        fchmod(file.fd, 0600);
        code = files_write_at(&file, lines.data, lines.length, 0);
        if (code == 0)
            code = files_commit(&file);
        else
            files_discard(&file);
    }
    bytes_release(&lines);
    return code;
}

int history_load(struct history *history, const char *path)
{
    struct bytes file = {0};
    bool held = history->held;
    history_release(history);
    history->held = held;
    history->entries = calloc(HISTORY_ENTRIES + 1, sizeof *history->entries);
    if (!history->entries)
        return ENOMEM;
    if (access(path, F_OK) != 0)
        return errno == ENOENT ? 0 : errno;
    int fd = open_locked(path, &history->held);
    if (fd < 0)
        return errno;
    int code = read_lines(fd, &file);
    bool many = code == 0 && take_lines(&file, history);
    for (size_t i = 0; i < history->count / 2; i++) {
        char *other = history->entries[i];
        history->entries[i] = history->entries[history->count - 1 - i];
        history->entries[history->count - 1 - i] = other;
    }
    if (code == 0 && (many || file.length >= HISTORY_FILE_LIMIT))
        code = write_anew(history, path);
    close(fd);
    bytes_release(&file);
    return code;
}

static int append_line(struct history *history, const char *path, const struct bytes *line)
{
    char last = '\n';
    int fd = open_locked(path, &history->held), code = 0;
    if (fd < 0)
        return errno;
    off_t size = lseek(fd, 0, SEEK_END);
    if (size > 0 && pread(fd, &last, 1, size - 1) == 1 && last != '\n') // cut off by a crash or a full disk
        code = files_write(fd, "\n", 1);
    if (code == 0)
        code = files_write(fd, line->data, line->length);
    bool undone = code == 0 || size < 0 || ftruncate(fd, size) == 0;
    (void)undone; // else half of an entry stays, and the next begins a line of its own
    close(fd);
    return code;
}

// Takes over the entry.
static void remember(struct history *history, char *entry)
{
    size_t drop = 0;
    while (drop < history->count && strcmp(history->entries[drop], entry) != 0)
        drop++;
    if (drop == history->count)
        drop = history->count == HISTORY_ENTRIES ? 0 : SIZE_MAX;
    if (drop != SIZE_MAX) {
        free(history->entries[drop]);
        history->count--;
        memmove(history->entries + drop, history->entries + drop + 1,
                (history->count - drop) * sizeof *history->entries);
    }
    history->entries[history->count++] = entry;
}

int history_add(struct history *history, const char *path, const char *text, size_t length)
{
    struct bytes line = {0};
    if (!is_kept(text, length))
        return 0;
    bool again = history->count && strncmp(history->entries[history->count - 1], text, length) == 0 &&
                 history->entries[history->count - 1][length] == 0;
    if (again)
        return 0;
    char *entry = strndup(text, length);
    if (!history->entries)
        history->entries = calloc(HISTORY_ENTRIES + 1, sizeof *history->entries);
    int code = entry && history->entries && history_encode(text, length, &line) ? 0 : ENOMEM;
    if (code == 0 && path)
        code = append_line(history, path, &line);
    if (code == 0)
        remember(history, entry);
    else
        free(entry);
    bytes_release(&line);
    return code;
}

char *history_path(void)
{
    return files_place(&(struct files_place){
        .variable = "XDG_STATE_HOME", .otherwise = ".local/state", .name = "history", .make = true});
}
