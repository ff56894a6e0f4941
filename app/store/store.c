// SPDX-License-Identifier: GPL-3.0-or-later
// The folder of saved conversations: names, locks, what is used, removal.
#include "app/store/store_parts.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "app/store/own_copy.h"
#include "app/util/format.h"
#include "app/util/quote.h"

enum { LOCK_LINE = 12 };

static const char gone[] = ".deleted-"; // a folder on its way out; no name begins so

enum store_code store_fail(struct store_error *error, enum store_code code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    error->code = code;
    error->of_rows = 0;
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    return code;
}

enum store_code store_no_memory(struct store_error *error)
{
    return store_fail(error, STORE_NO_MEMORY, "no memory for the transcript");
}

enum store_code store_newer(const char *name, const struct manifest *manifest, struct store_error *error)
{
    return store_fail(error, STORE_NEWER,
                      "session \"%s\" is of a newer moechat: its format is %" PRIu32 ", and this one knows up to %d; "
                      "update moechat to open it",
                      name, manifest->format, MANIFEST_FORMAT);
}

enum store_code store_fail_denied(const char *path, int folder, int code, struct store_error *error)
{
    return store_fail(error, STORE_IO, "%.500s: %s; reading and writing must be allowed in %.*s (see ls -ld)", path,
                      strerror(code), folder < 500 ? folder : 500, path);
}

enum store_code store_fail_path(const char *path, int code, struct store_error *error)
{
    const char *name = strrchr(path, '/');
    struct bytes quoted = {0};
    if (code == EACCES || code == EPERM)
        return store_fail_denied(path, name ? (int)(name - path) : 0, code, error);
    if (code == EROFS)
        return store_fail(error, STORE_IO,
                          "%.400s: %s: nothing can be saved or changed there; with XDG_DATA_HOME=DIR sessions are "
                          "elsewhere, with --no-session nothing is saved",
                          path, strerror(code));
    if (code != EFBIG)
        return store_fail(error, STORE_IO, "%.900s: %s", path, strerror(code));
    static_assert(TRANSCRIPT_LIMIT == 1 << 30 && MANIFEST_LIMIT == 64 << 20, "as the words have it");
    bool manifest = name && strcmp(name, "/session.json") == 0;
    if (manifest || !quote_shell(&quoted, path))
        store_fail(error, STORE_IO, "%.900s: longer than the %s that can be read%s", path,
                   manifest ? "64 MiB" : "1 GiB", manifest ? "; without it the transcript tells the conversation" : "");
    else
        store_fail(error, STORE_IO, "%.500s: longer than the 1 GiB that can be read; its text: jq -r .text %.600s",
                   path, quoted.data);
    bytes_release(&quoted);
    return STORE_IO;
}

int store_read_file(const struct store *store, const char *path, size_t limit, struct bytes *bytes)
{
    struct stat about;
    if (lstat(path, &about) == 0 && S_ISREG(about.st_mode) && (uint64_t)about.st_size > limit)
        return EFBIG;
    return store_io_read(store->io, path, limit, bytes);
}

enum store_code store_succeed(struct store_error *error)
{
    *error = (struct store_error){.code = STORE_OK};
    return STORE_OK;
}

// Takes the links out of a path, as far as it is there.
static bool follow_links(char path[STORE_ROOT_SIZE])
{
    char found[PATH_MAX], whole[PATH_MAX];
    size_t length = strlen(path), end = length;
    while (end > 0) {
        char kept = path[end];
        path[end] = 0;
        bool there = realpath(path, found) != NULL;
        path[end] = kept;
        if (there)
            break;
        while (--end > 0 && path[end] != '/')
            ;
    }
    if (end == 0)
        return true;
    int n = snprintf(whole, sizeof whole, "%s%s", strcmp(found, "/") == 0 && path[end] ? "" : found, path + end);
    if (n < 0 || n >= STORE_ROOT_SIZE)
        return false;
    memcpy(path, whole, (size_t)n + 1);
    return true;
}

bool store_init(struct store *store, const char *root)
{
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    *store = (struct store){
        .io = &store_io_posix, .kv_cap = UINT64_MAX, .limits = {TRANSCRIPT_LIMIT, MANIFEST_LIMIT, PARTS_LIMIT}};
    int length = -1;
    if (root)
        length = snprintf(store->root, sizeof store->root, "%s", root);
    else if (data && data[0] == '/') // the specification says to ignore others
        length = snprintf(store->root, sizeof store->root, "%s/moechat/sessions", data);
    else if (home && home[0] == '/')
        length = snprintf(store->root, sizeof store->root, "%s/.local/share/moechat/sessions", home);
    return length > 0 && (size_t)length < sizeof store->root && follow_links(store->root);
}

enum store_code store_no_place(struct store_error *error)
{
    return store_fail(error, STORE_IO, "nowhere to save sessions: neither HOME nor XDG_DATA_HOME is an absolute path");
}

struct store_path store_path(const struct store *store, const char *name, const char *file)
{
    struct store_path path;
    if (snprintf(path.text, sizeof path.text, "%s/%s%s%s", store->root, name, file ? "/" : "", file ? file : "") >=
        (int)sizeof path.text)
        path.text[0] = 0; // longer than any name of ours can make it; nothing opens so
    return path;
}

enum store_code store_bad_name(const char *name, struct store_error *error)
{
    return store_fail(
        error, STORE_NAME,
        "invalid session name \"%.70s\": use letters, digits, - and _, not starting with -, at most 64 bytes", name);
}

enum store_code store_not_found(const char *name, struct store_error *error)
{
    return store_fail(error, STORE_NOT_FOUND, "no session \"%.64s\"; moechat sessions lists them", name);
}

static bool is_link(const struct store *store, const char *name)
{
    struct stat about;
    return lstat(store_path(store, name, NULL).text, &about) == 0 && S_ISLNK(about.st_mode);
}

bool store_is_folder(const struct store *store, const char *name)
{
    struct stat about;
    if (lstat(store_path(store, name, NULL).text, &about) != 0)
        return false;
    errno = ENOTDIR;
    return S_ISDIR(about.st_mode);
}

enum store_code store_find(const struct store *store, const char *name, struct store_error *error)
{
    if (!store_name_valid(name))
        return store_bad_name(name, error);
    if (is_link(store, name))
        return store_fail(error, STORE_IO, "%s: a symbolic link, not a session; moechat sessions rm removes the link",
                          store_path(store, name, NULL).text);
    if (store_is_folder(store, name))
        return store_succeed(error);
    bool none = errno == ENOENT || errno == ENOTDIR;
    return none ? store_not_found(name, error) : store_fail_path(store_path(store, name, NULL).text, errno, error);
}

bool store_lock_is_there(int lock, const char *path)
{
    struct stat ours, named;
    return fstat(lock, &ours) == 0 && lstat(path, &named) == 0 && ours.st_ino == named.st_ino &&
           ours.st_dev == named.st_dev;
}

// A lock's file holds the number of the process that has it, which may have gone long ago. 0: none.
static long lock_holder(const struct store_io *io, int fd)
{
    char text[LOCK_LINE + 1] = "";
    ptrdiff_t got = io->read(io->context, fd, text, LOCK_LINE, 0);
    long holder = got > 0 ? strtol(text, NULL, 10) : 0;
    return holder > 0 ? holder : 0;
}

static enum store_code fail_busy(const char *name, long holder, struct store_error *error)
{
    if (holder == (long)getpid())
        return store_fail(error, STORE_BUSY, "session \"%s\" is open in this moechat", name);
    char process[40] = "";
    if (holder)
        snprintf(process, sizeof process, " (pid %ld)", holder);
    return store_fail(error, STORE_BUSY, "session \"%s\" is open in another moechat%s; quit that one first", name,
                      process);
}

// A list that looks whether a session is open holds its lock for an instant, which is no reason to refuse it.
static int lock_exclusively(int fd)
{
    enum { LOOKS = 20 };
    const struct timespec while_others_look = {0, 2000000};
    int locked = flock(fd, LOCK_EX | LOCK_NB);
    for (int i = 0; i < LOOKS && locked != 0 && errno == EWOULDBLOCK; i++) {
        nanosleep(&while_others_look, NULL);
        locked = flock(fd, LOCK_EX | LOCK_NB);
    }
    return locked;
}

// Whoever has a lock writes into its file. One that has another name, as what cp -al copies has, is replaced first.
// False: it could not be, and *fd stays.
static bool own_lock(const struct store *store, const char *name, int *fd)
{
    const struct store_io *io = store->io;
    struct stat about;
    if (fstat(*fd, &about) == 0 && about.st_nlink < 2)
        return true;
    struct store_path fresh = store_path(store, name, OWN_COPY_NEW);
    int own = store_io_create(io, fresh.text, O_RDWR);
    bool fine = own >= 0 && flock(own, LOCK_EX | LOCK_NB) == 0 &&
                io->rename(io->context, fresh.text, store_path(store, name, "lock").text) == 0;
    int other = fine ? *fd : own;
    if (fine)
        *fd = own;
    else
        io->unlink(io->context, fresh.text);
    if (other >= 0)
        io->close(io->context, other);
    return fine;
}

enum store_code store_lock(const struct store *store, const char *name, int *lock, struct store_error *error)
{
    const struct store_io *io = store->io;
    *lock = -1;
    enum store_code code = store_find(store, name, error);
    if (code)
        return code;
    struct store_path path = store_path(store, name, "lock");
    int fd = io->open(io->context, path.text, O_RDWR | O_CREAT);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return store_not_found(name, error);
    if (fd < 0)
        return store_fail_path(path.text, errno, error);
    int locked = lock_exclusively(fd), failed = errno;
    if (locked != 0 && failed != EWOULDBLOCK) {
        io->close(io->context, fd);
        return store_fail(error, STORE_IO, "%s: cannot be locked: %s", path.text, strerror(failed));
    }
    // It may have been renamed or removed before we had the lock.
    if (locked != 0 || !store_lock_is_there(fd, path.text)) {
        long holder = locked != 0 ? lock_holder(io, fd) : 0;
        io->close(io->context, fd);
        return fail_busy(name, holder, error);
    }
    char line[LOCK_LINE + 1];
    snprintf(line, sizeof line, "%*ld\n", LOCK_LINE - 1, (long)getpid());
    if (!own_lock(store, name, &fd) || io->write(io->context, fd, line, LOCK_LINE, 0) != LOCK_LINE) {
        // Only who asks for the session meanwhile is told less.
    }
    *lock = fd;
    return store_succeed(error);
}

bool store_is_locked(const struct store *store, const char *name)
{
    int fd = store->io->open(store->io->context, store_path(store, name, "lock").text, O_RDWR);
    // Shared: others who only look, too, are nobody who has it open.
    bool locked = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (fd >= 0)
        store->io->close(store->io->context, fd);
    return locked;
}

int store_sweep_away(const struct store *store, const char *name)
{
    static const char *const files[] = {
        "kv.bin",     "kv.2.bin", "session.json", "session.json.new", "transcript.jsonl", "transcript.jsonl.new",
        OWN_COPY_NEW, "lock"};
    const struct store_io *io = store->io;
    if (is_link(store, name))
        return io->unlink(io->context, store_path(store, name, NULL).text) && errno != ENOENT ? errno : 0;
    int left = 0;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (io->unlink(io->context, store_path(store, name, files[i]).text) && errno != ENOENT)
            left = errno;
    for (unsigned i = 0; i < STATE_FILES; i++)
        io->unlink(io->context, store_path(store, name, manifest_state_name(i)).text);
    if (io->rmdir(io->context, store_path(store, name, NULL).text) == 0 || errno == ENOENT)
        return 0; // also where a list has swept it away meanwhile
    return left ? left : errno;
}

bool store_is_gone(const char *name)
{
    return strncmp(name, gone, sizeof gone - 1) == 0;
}

// All of them, those included that an earlier removal left behind.
static void sweep(const struct store *store)
{
    DIR *folder = opendir(store->root);
    for (struct dirent *found; folder && (found = readdir(folder));)
        if (store_is_gone(found->d_name))
            store_sweep_away(store, found->d_name);
    if (folder)
        closedir(folder);
}

// Makes a folder, and sees that its name is on the disk; one that is there is fine.
static int make_folder(const struct store_io *io, char *path)
{
    if (io->mkdir(io->context, path) != 0)
        return errno == EEXIST ? 0 : errno;
    char *slash = strrchr(path, '/');
    *slash = 0;
    int code = store_io_sync_folder(io, slash == path ? "/" : path);
    *slash = '/';
    return code == EACCES ? 0 : code; // it may be written to and not read: done without
}

// Makes the folder of all sessions and what is above it.
static int make_root(const struct store *store)
{
    char path[STORE_ROOT_SIZE];
    snprintf(path, sizeof path, "%s", store->root);
    for (char *c = path + 1; *c; c++) {
        if (*c != '/')
            continue;
        *c = 0;
        int code = make_folder(store->io, path);
        if (code && code != EROFS && code != EACCES)
            return code;
        *c = '/';
    }
    return make_folder(store->io, path);
}

static enum store_code fail_made(const struct store *store, const char *name, int code, struct store_error *error)
{
    struct store_path path = store_path(store, name, NULL);
    return code == EROFS ? store_fail_path(path.text, code, error)
                         : store_fail(error, STORE_IO, "cannot create the session: %s: %s", path.text, strerror(code));
}

static bool holds_conversation(const struct store *store, const char *name)
{
    struct stat about;
    return lstat(store_path(store, name, "transcript.jsonl").text, &about) == 0 ||
           lstat(store_path(store, name, "session.json").text, &about) == 0;
}

// Makes the folder of that very name and locks it. STORE_TAKEN, STORE_BUSY: it is another's. STORE_NOT_FOUND: another
// has removed it meanwhile, and the name is free again.
static enum store_code make_and_lock(const struct store *store, const char *name, int *lock, struct store_error *error)
{
    static const char taken[] = "session \"%s\" already exists; choose another name";
    const struct store_io *io = store->io;
    if (io->mkdir(io->context, store_path(store, name, NULL).text) != 0)
        return errno == EEXIST ? store_fail(error, STORE_TAKEN, taken, name) : fail_made(store, name, errno, error);
    int code = store_io_sync_folder(io, store->root);
    sweep(store);
    enum store_code failed = code ? fail_made(store, name, code, error) : store_lock(store, name, lock, error);
    bool others = holds_conversation(store, name); // somebody found it before it was locked, and has left it again
    if (others && !failed) {
        io->close(io->context, *lock);
        *lock = -1;
        failed = store_fail(error, STORE_TAKEN, taken, name);
    }
    bool ours = failed && failed != STORE_BUSY && failed != STORE_NOT_FOUND && !others;
    if (ours) { // the next try finds the name free
        io->unlink(io->context, store_path(store, name, "lock").text);
        io->rmdir(io->context, store_path(store, name, NULL).text);
    }
    return failed;
}

enum store_code store_make(const struct store *store, char *name, bool other, int *lock, struct store_error *error)
{
    char wanted[STORE_NAME_SIZE];
    *lock = -1;
    if (!store_name_valid(name))
        return store_bad_name(name, error);
    snprintf(wanted, sizeof wanted, "%s", name);
    int code = make_root(store);
    if (code)
        return fail_made(store, name, code, error);
    enum store_code failed = make_and_lock(store, name, lock, error);
    if (failed == STORE_NOT_FOUND)
        failed = make_and_lock(store, name, lock, error);
    for (unsigned n = 2;
         other && n < 10000 && (failed == STORE_TAKEN || failed == STORE_BUSY || failed == STORE_NOT_FOUND); n++) {
        store_name_count(name, wanted, n);
        failed = make_and_lock(store, name, lock, error);
    }
    if (failed)
        snprintf(name, STORE_NAME_SIZE, "%s", wanted);
    return failed;
}

uint64_t store_file_bytes(const struct store *store, const char *name, const char *file, struct timespec *modified)
{
    struct stat about;
    if (lstat(store_path(store, name, file).text, &about) != 0 || !S_ISREG(about.st_mode))
        return 0;
    if (modified)
        *modified = about.st_mtim;
    return (uint64_t)about.st_size;
}

uint64_t store_state_bytes(const struct store *store, const char *name)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < STATE_FILES; i++)
        bytes += store_file_bytes(store, name, manifest_state_name(i), NULL);
    return bytes;
}

uint64_t store_row_bytes(const struct store *store, const char *name)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < 2; i++)
        bytes += store_file_bytes(store, name, manifest_kv_name(i), NULL);
    return bytes;
}

uint64_t store_kv_bytes(const struct store *store, const char *name)
{
    return store_row_bytes(store, name) + store_state_bytes(store, name);
}

int store_open_rows(const struct store *store, const char *name, unsigned kv_file)
{
    return store->io->open(store->io->context, store_path(store, name, manifest_kv_name(kv_file)).text, O_RDONLY);
}

int store_open_states(const struct store *store, const char *name, unsigned file)
{
    return store->io->open(store->io->context, store_path(store, name, manifest_state_name(file)).text, O_RDONLY);
}

void store_note_use(const struct store *store, const char *name, struct manifest *manifest)
{
    // A clock that was ahead must not make it the last for years: then the file's own time counts, and where that is
    // ahead, too, by more than clocks are set right by, none.
    enum { DAY = 24 * 60 * 60, LAST_NS = 999999999 };
    uint64_t now = format_unix_time();
    bool known = manifest->updated && manifest->updated <= now;
    if (known && manifest->updated_ns)
        return;
    struct timespec file = {.tv_sec = (time_t)now};
    store_file_bytes(store, name, "transcript.jsonl", &file);
    store_file_bytes(store, name, "session.json", &file);
    uint64_t written = (uint64_t)file.tv_sec;
    if (!known)
        manifest->updated = written <= now             ? written
                            : written - now < DAY      ? now
                            : manifest->created <= now ? manifest->created
                                                       : 0;
    // What began in that second may have come to the disk behind it.
    manifest->updated_ns = written > manifest->updated                    ? LAST_NS
                           : written == manifest->updated && file.tv_nsec ? (uint32_t)file.tv_nsec
                                                                          : 1;
}

enum store_code store_find_saved(const struct store *store, const char *name, struct store_error *error)
{
    struct stat about;
    enum store_code code = store_find(store, name, error);
    if (code || lstat(store_path(store, name, "session.json").text, &about) == 0 || errno != ENOENT ||
        store_file_bytes(store, name, "transcript.jsonl", NULL) > 0)
        return code;
    return store_fail(error, STORE_NOT_FOUND,
                      "session \"%s\": nothing was saved in it; moechat sessions rm removes what is there", name);
}

void store_seen_release(struct store_seen *seen)
{
    own_file_release(&seen->transcript);
    own_file_release(&seen->manifest);
}

void store_see(const struct store *store, const char *name, struct store_seen *seen)
{
    store_seen_release(seen);
    if (!store_name_valid(name))
        return;
    own_file_note(&seen->transcript, store_path(store, name, "transcript.jsonl").text);
    own_file_note(&seen->manifest, store_path(store, name, "session.json").text);
}

static bool is_as_seen(const struct store *store, const char *name, const struct store_seen *seen)
{
    return !own_file_changed(&seen->transcript, store_path(store, name, "transcript.jsonl").text) &&
           !own_file_changed(&seen->manifest, store_path(store, name, "session.json").text);
}

enum store_code store_remove_seen(const struct store *store, const char *name, const struct store_seen *seen,
                                  struct store_error *error)
{
    const struct store_io *io = store->io;
    int lock = -1;
    bool alias = store_name_valid(name) && is_link(store, name);
    enum store_code code = alias ? STORE_OK : store_lock(store, name, &lock, error);
    if (code)
        return code;
    if (seen && !is_as_seen(store, name, seen)) {
        if (lock >= 0)
            io->close(io->context, lock);
        return store_fail(error, STORE_CHANGED, "session \"%s\" was changed by another program", name);
    }
    if (alias) {
        struct store_path link = store_path(store, name, NULL);
        return io->unlink(io->context, link.text) == 0
                   ? store_succeed(error)
                   : store_fail(error, STORE_IO, "%s: %s", link.text, strerror(errno));
    }
    char away[STORE_NAME_SIZE + 64];
    snprintf(away, sizeof away, "%s%s-%ld-%ld", gone, name, (long)getpid(), (long)time(NULL));
    struct store_path from = store_path(store, name, NULL), to = store_path(store, away, NULL);
    int failed = io->rename(io->context, from.text, to.text) ? errno : 0;
    bool moved = !failed;
    if (moved)
        failed = store_io_sync_folder(io, store->root);
    int left = moved ? store_sweep_away(store, away) : 0;
    sweep(store);
    io->close(io->context, lock);
    if (failed)
        return store_fail_path(moved ? store->root : from.text, failed, error);
    return left
               ? store_fail(error, STORE_IO, "\"%s\" is no session any more, but its files are still there: %.900s: %s",
                            name, to.text, strerror(left))
               : store_succeed(error);
}

enum store_code store_remove(const struct store *store, const char *name, struct store_error *error)
{
    return store_remove_seen(store, name, NULL, error);
}

enum store_code store_rename(const struct store *store, const char *from, const char *to, bool locked,
                             struct store_error *error)
{
    const struct store_io *io = store->io;
    int lock = -1;
    if (!store_name_valid(to))
        return store_bad_name(to, error);
    enum store_code code = locked ? STORE_OK : store_lock(store, from, &lock, error);
    if (code)
        return code;
    struct store_path old = store_path(store, from, NULL), new = store_path(store, to, NULL);
    struct stat about;
    // A session's folder is never empty, so the rename itself refuses a name that was taken meanwhile.
    int failed = lstat(new.text, &about) == 0 ? EEXIST : io->rename(io->context, old.text, new.text) != 0 ? errno : 0;
    if (failed == 0)
        store_io_sync_folder(io, store->root); // should it fail, a crash could bring the old name back, no more
    if (lock >= 0)
        io->close(io->context, lock);
    if (failed == EEXIST || failed == ENOTEMPTY)
        return store_fail(error, STORE_TAKEN, "session \"%s\" already exists; choose another name", to);
    return failed ? store_fail_path(new.text, failed, error) : store_succeed(error);
}
