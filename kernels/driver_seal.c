// SPDX-License-Identifier: GPL-3.0-or-later
// Seals on what PoCL keeps: lists, marks, and what is removed.
#define _GNU_SOURCE // dl_iterate_phdr
#include "kernels/driver_seal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

enum { MOST_LISTED = 4096, PATIENCE_MS = 2000, DEPTH = 6 };

struct record {
    uint64_t hash, bytes;
    struct seal_path path;
};

// As it stands in its file: a header, then the records.
struct header {
    char magic[16];
    uint64_t hash; // of what follows it
    uint32_t n;
    uint32_t wanted;
};
static const char magic[16] = "moechat seal 1";

struct list {
    struct record *records;
    size_t n, capacity;
    unsigned wanted;
};

static bool append_path(struct seal_paths *paths, const char *text, size_t length)
{
    if (length >= SEAL_PATH)
        return true; // none that we know of is as long; it is not listed
    if (paths->n == paths->capacity) {
        size_t capacity = paths->capacity ? 2 * paths->capacity : 64;
        struct seal_path *items = realloc(paths->items, capacity * sizeof *items);
        if (!items)
            return false;
        paths->items = items;
        paths->capacity = capacity;
    }
    struct seal_path *path = &paths->items[paths->n++];
    memset(path, 0, sizeof *path);
    memcpy(path->text, text, length);
    return true;
}

// Is `text` one of them, or, with `within`, in one of them?
static bool has_path(const struct seal_paths *paths, const char *text, bool within)
{
    for (size_t i = 0; i < paths->n; i++) {
        size_t n = strlen(paths->items[i].text);
        if (strncmp(paths->items[i].text, text, n) == 0 && (!text[n] || (within && text[n] == '/')))
            return true;
    }
    return false;
}

// A program's folder is two names long: XX/YYYY of XX/YYYY/program.bc. 0: it is in none.
static size_t program_length(const char *path)
{
    const char *first = strchr(path, '/'), *second = first ? strchr(first + 1, '/') : NULL;
    return second ? (size_t)(second - path) : 0;
}

static bool append_program(struct seal_paths *programs, const char *path)
{
    size_t n = program_length(path);
    return n == 0 || has_path(programs, path, true) || append_path(programs, path, n);
}

// The libraries of the cache that this process has loaded.
struct gathering {
    const char *folder;
    struct seal_paths *paths;
};

static int gather(struct dl_phdr_info *info, size_t bytes, void *context)
{
    (void)bytes;
    const struct gathering *to = context;
    size_t n = strlen(to->folder);
    if (strncmp(info->dlpi_name, to->folder, n) != 0 || info->dlpi_name[n] != '/')
        return 0;
    const char *path = info->dlpi_name + n + strspn(info->dlpi_name + n, "/");
    return !append_path(to->paths, path, strlen(path));
}

static bool gather_loaded(const char *folder, struct seal_paths *paths)
{
    return dl_iterate_phdr(gather, &(struct gathering){folder, paths}) == 0;
}

static int open_in(int within, const char *path)
{
    int fd = openat(within, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat about;
    if (fd >= 0 && (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode))) {
        close(fd);
        return -1;
    }
    return fd;
}

static bool hash_file(int fd, struct record *record)
{
    char piece[1 << 16];
    XXH3_state_t *state = XXH3_createState();
    bool good = state && XXH3_64bits_reset(state) == XXH_OK;
    record->bytes = 0;
    while (good) {
        ssize_t n = read(fd, piece, sizeof piece);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            break;
        good = n > 0 && XXH3_64bits_update(state, piece, (size_t)n) == XXH_OK;
        record->bytes += n > 0 ? (uint64_t)n : 0;
    }
    if (good)
        record->hash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return good;
}

static bool append_record(struct list *list, const struct record *record)
{
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->records[i].path.text, record->path.text) == 0) {
            list->records[i] = *record;
            return true;
        }
    if (list->n == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 64;
        struct record *records = realloc(list->records, capacity * sizeof *records);
        if (!records)
            return false;
        list->records = records;
        list->capacity = capacity;
    }
    list->records[list->n++] = *record;
    return true;
}

static void list_name(const char *key, char name[NAME_MAX + 1])
{
    snprintf(name, NAME_MAX + 1, "moechat-%s.list", key);
}

// Leads it to a file inside the cache?
static bool is_sound(const struct record *record)
{
    const char *text = record->path.text;
    return memchr(text, 0, SEAL_PATH) && program_length(text) && *text != '/' && !strstr(text, "..");
}

// False: there is none, or it is not as it was written.
static bool read_list(int within, const char *key, struct list *list)
{
    char name[NAME_MAX + 1];
    struct header header;
    struct stat about;
    list_name(key, name);
    int fd = open_in(within, name);
    bool good = fd >= 0 && fstat(fd, &about) == 0 && read(fd, &header, sizeof header) == sizeof header &&
                memcmp(header.magic, magic, sizeof magic) == 0 && header.n <= MOST_LISTED &&
                (uint64_t)about.st_size == sizeof header + header.n * sizeof *list->records;
    size_t bytes = good ? header.n * sizeof *list->records : 0;
    list->records = good ? malloc(bytes + 1) : NULL;
    good = list->records && read(fd, list->records, bytes) == (ssize_t)bytes &&
           header.hash == XXH3_64bits_withSeed(list->records, bytes, header.wanted);
    for (uint32_t i = 0; good && i < header.n; i++)
        good = is_sound(&list->records[i]);
    if (fd >= 0)
        close(fd);
    if (good) {
        list->n = list->capacity = header.n;
        list->wanted = header.wanted;
        return true;
    }
    free(list->records);
    *list = (struct list){0};
    return false;
}

static bool sync_at(int within, const char *path, int flags)
{
    int fd = openat(within, path, O_RDONLY | O_CLOEXEC | flags);
    bool good = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    return good;
}

// A file, and the folders on its way.
static bool sync_path(int within, const char *path)
{
    char folder[SEAL_PATH];
    snprintf(folder, sizeof folder, "%s", path);
    bool good = sync_at(within, path, O_NOFOLLOW);
    for (char *slash; good && (slash = strrchr(folder, '/'));) {
        *slash = 0;
        good = sync_at(within, folder, O_DIRECTORY);
    }
    return good;
}

static bool write_list(int within, const char *key, const struct list *list)
{
    char name[NAME_MAX + 1], beside[NAME_MAX + 1];
    size_t bytes = list->n * sizeof *list->records;
    struct header header = {.n = (uint32_t)list->n, .wanted = list->wanted};
    memcpy(header.magic, magic, sizeof magic);
    header.hash = XXH3_64bits_withSeed(list->records, bytes, header.wanted);
    list_name(key, name);
    snprintf(beside, sizeof beside, "moechat-%s.%ld.new", key, (long)getpid());
    unlinkat(within, beside, 0); // of an earlier process of our number
    int fd = list->n <= MOST_LISTED ? openat(within, beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600)
                                    : -1;
    if (fd < 0)
        return false;
    bool good = write(fd, &header, sizeof header) == sizeof header &&
                write(fd, list->records, bytes) == (ssize_t)bytes && fsync(fd) == 0;
    if (close(fd) != 0 || !good || renameat(within, beside, within, name) != 0) {
        unlinkat(within, beside, 0);
        return false;
    }
    return fsync(within) == 0;
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

// One process at a time looks and removes. Whoever holds it longer is not waited for: false.
static bool lock_cache(int within)
{
    const struct timespec nap = {.tv_nsec = 10000000};
    const int64_t end = now_ms() + PATIENCE_MS;
    bool locked;
    while (!(locked = flock(within, LOCK_EX | LOCK_NB) == 0) && (errno == EWOULDBLOCK || errno == EINTR) &&
           now_ms() < end)
        nanosleep(&nap, NULL);
    return locked;
}

static bool has_end(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n > m && strcmp(name + n - m, end) == 0;
}

static DIR *open_dir(int within, const char *path)
{
    int fd = openat(within, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (fd >= 0 && !dir)
        close(fd);
    return dir;
}

// Calls `visit` for all files in a folder of the cache, in its folders, too. `path` is given back as it was.
typedef void visitor(void *context, const char *path);
static void walk(int within, char path[SEAL_PATH], int depth, visitor *visit, void *context)
{
    DIR *dir = open_dir(within, path);
    size_t n = strlen(path);
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        struct stat about;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            snprintf(path + n, SEAL_PATH - n, "/%s", entry->d_name) >= (int)(SEAL_PATH - n) ||
            fstatat(within, path, &about, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (!S_ISDIR(about.st_mode))
            visit(context, path);
        else if (depth > 0)
            walk(within, path, depth - 1, visit, context);
    }
    path[n] = 0;
    if (dir)
        closedir(dir);
}

// Of a program's files those that a list lacks. Folders may stay: PoCL asks for files.
struct removal {
    int within;
    unsigned removed;
    const struct list *but; // NULL: none stays
    struct timespec before; // and which are as old; 0: however old
};

static struct timespec when_booted(void)
{
    struct timespec now, up;
    clock_gettime(CLOCK_REALTIME, &now);
    clock_gettime(CLOCK_BOOTTIME, &up);
    now.tv_sec -= up.tv_sec + 1;
    return now;
}

static bool is_before(struct timespec a, struct timespec b)
{
    return a.tv_sec < b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec < b.tv_nsec);
}

static void remove_unlisted(void *context, const char *path)
{
    struct removal *r = context;
    struct stat about;
    if (has_end(path, "/last_accessed"))
        return;
    if (r->before.tv_sec &&
        (fstatat(r->within, path, &about, AT_SYMLINK_NOFOLLOW) != 0 || !is_before(about.st_mtim, r->before)))
        return;
    for (size_t i = 0; r->but && i < r->but->n; i++)
        if (strcmp(r->but->records[i].path.text, path) == 0)
            return;
    r->removed += unlinkat(r->within, path, 0) == 0;
}

static void remove_from(struct removal *r, const char *program)
{
    char path[SEAL_PATH];
    snprintf(path, sizeof path, "%s", program);
    walk(r->within, path, DEPTH, remove_unlisted, r);
}

static void remove_from_listed(struct removal *r)
{
    struct seal_paths programs = {0};
    for (size_t i = 0; i < r->but->n; i++)
        append_program(&programs, r->but->records[i].path.text);
    for (size_t i = 0; i < programs.n; i++)
        remove_from(r, programs.items[i].text);
    free(programs.items);
}

// What is no file that can be opened in a file's place, which PoCL would wait for or fall over: a pipe, a folder.
// False: there is nothing, or it cannot be removed.
static bool remove_odd(int within, const char *path)
{
    struct stat about;
    if (fstatat(within, path, &about, AT_SYMLINK_NOFOLLOW) != 0)
        return false;
    if (!S_ISDIR(about.st_mode))
        return unlinkat(within, path, 0) == 0;
    remove_from(&(struct removal){.within = within}, path);
    return unlinkat(within, path, AT_REMOVEDIR) == 0;
}

// Files that are gone or differ leave the list, and those that differ the cache. Returns how many differed; *missing:
// some are not there.
static unsigned check_listed(int within, struct list *list, bool *missing)
{
    unsigned torn = 0;
    size_t kept = 0;
    *missing = false;
    for (size_t i = 0; i < list->n; i++) {
        struct record found, *wanted = &list->records[i];
        int fd = open_in(within, wanted->path.text);
        bool same = fd >= 0 && hash_file(fd, &found) && found.bytes == wanted->bytes && found.hash == wanted->hash;
        if (fd >= 0)
            close(fd);
        if (!same)
            torn += remove_odd(within, wanted->path.text);
        *missing = *missing || !same;
        if (same)
            list->records[kept++] = *wanted;
    }
    list->n = kept;
    return torn;
}

// Marks of processes: of those that live, and of those that are no more, whose names are kept.
struct marks {
    unsigned living;
    struct seal_paths dead;
    struct timespec eldest, latest; // of the dead
};

static void look_at_mark(int within, const char *name, struct marks *marks)
{
    struct stat about;
    int fd = open_in(within, name);
    if (fd < 0)
        return;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 || fstat(fd, &about) != 0) {
        marks->living++;
    } else {
        if (marks->dead.n == 0 || is_before(about.st_mtim, marks->eldest))
            marks->eldest = about.st_mtim;
        if (marks->dead.n == 0 || is_before(marks->latest, about.st_mtim))
            marks->latest = about.st_mtim;
        append_path(&marks->dead, name, strlen(name));
    }
    close(fd);
}

static void look_at_marks(int within, struct marks *marks)
{
    DIR *root = open_dir(within, ".");
    for (const struct dirent *entry; root && (entry = readdir(root));)
        if (strncmp(entry->d_name, "moechat-", strlen("moechat-")) == 0 && has_end(entry->d_name, ".building"))
            look_at_mark(within, entry->d_name, marks);
    if (root)
        closedir(root);
}

// Removes from the programs that lists have what they lack, and tells which these programs are.
static void keep_to_lists(struct removal *r, struct seal_paths *programs)
{
    DIR *root = open_dir(r->within, ".");
    for (const struct dirent *entry; root && (entry = readdir(root));) {
        int n = (int)strlen(entry->d_name) - (int)strlen("moechat-.list");
        char key[NAME_MAX + 1];
        struct list list = {0};
        if (n <= 0 || strncmp(entry->d_name, "moechat-", strlen("moechat-")) != 0 || !has_end(entry->d_name, ".list"))
            continue;
        snprintf(key, sizeof key, "%.*s", n, entry->d_name + strlen("moechat-"));
        if (!read_list(r->within, key, &list))
            continue;
        r->but = &list;
        remove_from_listed(r);
        for (size_t i = 0; i < list.n; i++)
            append_program(programs, list.records[i].path.text);
        free(list.records);
    }
    r->but = NULL;
    if (root)
        closedir(root);
}

// PoCL's programs that no list has.
static void find_unlisted(int within, const struct seal_paths *listed, struct seal_paths *programs)
{
    DIR *root = open_dir(within, ".");
    for (const struct dirent *outer; root && (outer = readdir(root));) {
        DIR *dir = strlen(outer->d_name) == 2 && *outer->d_name != '.' ? open_dir(within, outer->d_name) : NULL;
        for (const struct dirent *inner; dir && (inner = readdir(dir));) {
            char path[2 * NAME_MAX];
            int n = snprintf(path, sizeof path, "%s/%s", outer->d_name, inner->d_name);
            if (*inner->d_name != '.' && !has_path(listed, path, false))
                append_path(programs, path, (size_t)n);
        }
        if (dir)
            closedir(dir);
    }
    if (root)
        closedir(root);
}

// PoCL touches a file in a program's folder when it has made the program or found it there.
static bool was_begun(int within, const char *program, struct timespec since)
{
    char path[SEAL_PATH + 16];
    struct stat about;
    snprintf(path, sizeof path, "%s/last_accessed", program);
    return fstatat(within, path, &about, AT_SYMLINK_NOFOLLOW) == 0 && !is_before(about.st_mtim, since);
}

// After starts that did not come to their end. Where it can't be told which programs they had begun: all that no list
// has. What the last of them built itself is whole, if the power has stayed: PoCL renames. Not while another builds: a
// program of its own would be among them. True: marks were left.
static bool remove_left_over(int within, unsigned *removed)
{
    struct marks marks = {0};
    struct seal_paths listed = {0}, programs = {0};
    look_at_marks(within, &marks);
    bool any = marks.dead.n > 0 && marks.living == 0, told = false;
    if (any) {
        struct removal r = {.within = within};
        if (!is_before(marks.latest, when_booted()))
            r.before = marks.latest;
        keep_to_lists(&r, &listed);
        find_unlisted(within, &listed, &programs);
        for (size_t i = 0; i < programs.n; i++)
            told = told || was_begun(within, programs.items[i].text, marks.eldest);
        for (size_t i = 0; i < programs.n; i++)
            if (!told || was_begun(within, programs.items[i].text, marks.eldest))
                remove_from(&r, programs.items[i].text);
        for (size_t i = 0; i < marks.dead.n; i++)
            unlinkat(within, marks.dead.items[i].text, 0);
        *removed = r.removed;
    }
    free(marks.dead.items);
    free(listed.items);
    free(programs.items);
    return any;
}

static void make_mark(struct driver_seal *seal)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(seal->mark, sizeof seal->mark, "moechat-%s.%ld.%09ld.building", seal->key, (long)getpid(), now.tv_nsec);
    seal->mark_fd = openat(seal->within, seal->mark, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (seal->mark_fd < 0 || flock(seal->mark_fd, LOCK_EX | LOCK_NB) != 0 || fsync(seal->mark_fd) != 0 ||
        fsync(seal->within) != 0) {
        if (seal->mark_fd >= 0)
            close(seal->mark_fd), unlinkat(seal->within, seal->mark, 0);
        seal->mark_fd = -1;
        *seal->mark = 0;
    }
}

// Lists that a process was ended in the middle of: they are written by who holds the lock.
static void remove_unfinished(int within)
{
    DIR *root = open_dir(within, ".");
    for (const struct dirent *entry; root && (entry = readdir(root));)
        if (strncmp(entry->d_name, "moechat-", strlen("moechat-")) == 0 && has_end(entry->d_name, ".new"))
            unlinkat(within, entry->d_name, 0);
    if (root)
        closedir(root);
}

void seal_open(struct driver_seal *seal, const char *folder, const char *key, unsigned wanted, char *notice)
{
    *seal = (struct driver_seal){.within = -1, .mark_fd = -1, .wanted = wanted};
    struct list list = {0};
    unsigned removed = 0;
    bool missing = true;
    seal->within = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (seal->within < 0 || faccessat(seal->within, ".", W_OK, AT_EACCESS) != 0)
        return;
    snprintf(seal->key, sizeof seal->key, "%s", key);
    snprintf(seal->folder, sizeof seal->folder, "%s", folder);
    for (size_t n = strlen(seal->folder); n > 1 && seal->folder[n - 1] == '/';)
        seal->folder[--n] = 0;
    if (lock_cache(seal->within))
        remove_unfinished(seal->within);
    bool left = remove_left_over(seal->within, &removed);
    bool listed = read_list(seal->within, key, &list);
    unsigned torn = listed ? check_listed(seal->within, &list, &missing) : 0;
    if (listed) // built after the list was written, and before this boot: nobody has synced it
        remove_from_listed(&(struct removal){.within = seal->within, .but = &list, .before = when_booted()});
    if (listed && missing) { // what is built in their place is listed anew, and till then not all is there
        list.wanted = 0;
        write_list(seal->within, key, &list);
    }
    seal->complete = listed && !missing && (wanted & ~list.wanted) == 0;
    if (!seal->complete)
        make_mark(seal);
    flock(seal->within, LOCK_UN);
    free(list.records);
    gather_loaded(seal->folder, &seal->before);
    if (!*notice && torn)
        snprintf(notice, SEAL_NOTICE,
                 "%u of the files that PoCL keeps of kernels in %.160s %s damaged: removed, and built anew", torn,
                 folder, torn == 1 ? "was" : "were");
    else if (!*notice && left && removed)
        snprintf(notice, SEAL_NOTICE,
                 "an earlier start ended before its kernels ran: %u file%s of PoCL's in %.160s may have been torn: "
                 "removed, and built anew",
                 removed, removed == 1 ? "" : "s", folder);
}

// Puts a file on the list, synced. True also where it is there already.
static bool list_file(int within, const char *path, struct list *list)
{
    struct record record = {0};
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->records[i].path.text, path) == 0)
            return true;
    snprintf(record.path.text, sizeof record.path.text, "%s", path);
    int fd = open_in(within, path);
    if (fd < 0)
        return true; // another has removed it: it will be built anew
    bool good = hash_file(fd, &record) && append_record(list, &record) && sync_path(within, path);
    close(fd);
    return good;
}

// Lists what was loaded of the list's programs and of those of which nothing was loaded `before`.
static bool renew(int within, const char *folder, const struct seal_paths *before, struct list *list)
{
    struct seal_paths loaded = {0}, programs = {0};
    bool good = gather_loaded(folder, &loaded);
    for (size_t i = 0; i < list->n && good; i++)
        good = append_program(&programs, list->records[i].path.text);
    for (size_t i = 0; i < loaded.n && good; i++)
        if (before && !has_path(before, loaded.items[i].text, false))
            good = append_program(&programs, loaded.items[i].text);
    for (size_t i = 0; i < loaded.n && good; i++)
        if (has_path(&programs, loaded.items[i].text, true))
            good = list_file(within, loaded.items[i].text, list);
    for (size_t i = 0; i < programs.n && good; i++) {
        char path[SEAL_PATH + 16];
        int n = snprintf(path, sizeof path, "%s/program.bc", programs.items[i].text);
        good = n >= SEAL_PATH || list_file(within, path, list);
    }
    free(loaded.items);
    free(programs.items);
    return good;
}

void seal_close(struct driver_seal *seal, bool good)
{
    struct list list = {0};
    if (*seal->key && good) {
        lock_cache(seal->within);
        read_list(seal->within, seal->key, &list); // another may have written it meanwhile
        size_t n = list.n;
        unsigned wanted = list.wanted;
        bool all = renew(seal->within, seal->folder, &seal->before, &list);
        list.wanted |= seal->wanted;
        if (all && list.n && (list.n != n || list.wanted != wanted))
            write_list(seal->within, seal->key, &list); // where it can't, the next start tries again
        flock(seal->within, LOCK_UN);
        free(list.records);
    }
    if (seal->mark_fd >= 0 && good)
        unlinkat(seal->within, seal->mark, 0);
    if (seal->mark_fd >= 0)
        close(seal->mark_fd);
    if (seal->within >= 0)
        close(seal->within);
    free(seal->before.items);
}

void seal_renew(const char *folder, const char *key)
{
    struct driver_seal seal = {.within = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), .mark_fd = -1};
    struct list list = {0};
    if (seal.within >= 0)
        lock_cache(seal.within);
    size_t n = seal.within >= 0 && read_list(seal.within, key, &list) ? list.n : 0;
    if (n && renew(seal.within, folder, NULL, &list) && list.n != n)
        write_list(seal.within, key, &list);
    free(list.records);
    if (seal.within >= 0)
        close(seal.within);
}
