// SPDX-License-Identifier: GPL-3.0-or-later
// The folder of all sessions: names, locks, lists, removal and the cap on cache rows. A session is a folder of its own
// (0700) with the files `lock`, transcript.jsonl, session.json and kv.bin or kv.2.bin (moechat-session(5)). What an
// open session does is saved.h's. No thread, no terminal.
#ifndef MOECHAT_APP_STORE_STORE_H
#define MOECHAT_APP_STORE_STORE_H

#include <limits.h>

#include "app/store/manifest.h"
#include "app/store/own_file.h"
#include "app/store/store_io.h"
#include "app/store/store_name.h"

enum { STORE_ROOT_SIZE = PATH_MAX - 256 };
enum { STORE_TEXT_SIZE = 1600 }; // of a message, which may name many sessions

enum store_code {
    STORE_OK,
    STORE_NOT_FOUND, // no session of that name
    STORE_NAME,      // not a name
    STORE_TAKEN,     // the name is another session's
    STORE_BUSY,      // open in another process, or in this one
    STORE_CHANGED,   // not what it was when it was looked at
    STORE_DAMAGED,
    STORE_NEWER, // sound, of a format that only a newer moechat knows; nothing is changed
    STORE_IO,
    STORE_NO_MEMORY,
};
struct store_error {
    enum store_code code;
    char text[STORE_TEXT_SIZE]; // one line for people; with STORE_OK what else there is to say, or ""
    size_t of_rows;             // bytes at its beginning say what is not saved of rows and states, until the next save
};
__attribute__((format(printf, 3, 4))) enum store_code store_fail(struct store_error *error, enum store_code code,
                                                                 const char *format, ...);

enum store_code store_newer(const char *name, const struct manifest *manifest, struct store_error *error);
enum store_code store_no_memory(struct store_error *error); // for a transcript

// No more is written than what readers take; store_init sets those, tests lower them.
struct store_limits {
    uint64_t transcript, manifest; // bytes
    size_t entries;                // of each list in a manifest
};
struct store {
    const struct store_io *io;
    uint64_t kv_cap; // bytes of cache rows over all sessions
    struct store_limits limits;
    char root[STORE_ROOT_SIZE];
};
// Where sessions are: `root`, or NULL for the XDG data folder; links above the sessions are followed here, once.
// Touches nothing. False: there is no home, or the path is too long.
bool store_init(struct store *store, const char *root);
enum store_code store_no_place(struct store_error *error); // the sentence about it

// What the errno of a session's file, or of its folder, means for people and what helps.
enum store_code store_fail_path(const char *path, int code, struct store_error *error);
// Reads a file of a session, at most `limit` bytes. 0, or an errno (EFBIG: it has more).
int store_read_file(const struct store *store, const char *path, size_t limit, struct bytes *bytes);

enum store_code store_not_found(const char *name, struct store_error *error);
enum store_code store_bad_name(const char *name, struct store_error *error); // the sentence about it

// Is there such a session? A link in its place is none, and nothing but removing it is done to it.
enum store_code store_find(const struct store *store, const char *name, struct store_error *error);
// The same of one that has something: not of a folder that a chat made and was killed before anything was saved.
enum store_code store_find_saved(const struct store *store, const char *name, struct store_error *error);

// A path of a session, or of a file in it when file is not NULL.
struct store_path {
    char text[PATH_MAX];
};
struct store_path store_path(const struct store *store, const char *name, const char *file);

// Locks a session that is there, and writes our number into the lock's file for who comes next. *lock is to be closed.
// STORE_NOT_FOUND, STORE_BUSY, STORE_IO.
enum store_code store_lock(const struct store *store, const char *name, int *lock, struct store_error *error);
bool store_is_locked(const struct store *store, const char *name); // somebody has it open
// Is the file that `lock` is still the one at that path?
bool store_lock_is_there(int lock, const char *path);
// Makes a session's folder and locks it; with `other` a taken name is made unique by a number, in place.
enum store_code store_make(const struct store *store, char *name, bool other, int *lock, struct store_error *error);

struct store_entry {
    char name[STORE_NAME_SIZE];
    bool damaged;             // the manifest could not be read; the rest is not looked at
    bool saving;              // it has none yet, as its first save is under way
    bool closed;              // a file can't be read: it is too long, not allowed, or the disk fails
    char lacks[96];           // that one, or else what is missing or shorter than the manifest has it, for people
    struct manifest manifest; // empty where it is damaged
    uint64_t updated;         // 0: not known
    uint32_t updated_ns;      // as of a manifest; of a damaged one the file's
    uint64_t kv_bytes, transcript_bytes; // store_kv_bytes
    uint64_t state_bytes;                // of kv_bytes
};
// Makes a manifest that was read from the disk say when its session was used last, which orders them: what a clock that
// was ahead says counts up to now, and the nanoseconds that it lacks are its file's. Once saved with it they stay,
// however often the file is replaced.
void store_note_use(const struct store *store, const char *name, struct manifest *manifest);
struct store_list {
    struct store_entry *entries; // the last used first
    size_t n_entries;
};
// Also removes what a removal that was cut short has left.
enum store_code store_list(const struct store *store, struct store_list *list, struct store_error *error);
void store_list_release(struct store_list *list);

// Of a link, removes the link.
enum store_code store_remove(const struct store *store, const char *name, struct store_error *error);
// A session as somebody was told of it. Zero-initialise; to be released.
struct store_seen {
    struct own_file transcript, manifest;
};
void store_see(const struct store *store, const char *name, struct store_seen *seen); // as it is now
void store_seen_release(struct store_seen *seen);
// As store_remove, as long as it is that session, and as it was, else STORE_CHANGED; seen NULL: whatever it is.
enum store_code store_remove_seen(const struct store *store, const char *name, const struct store_seen *seen,
                                  struct store_error *error);
// Renames a session that nobody has open, or whose lock the caller holds.
enum store_code store_rename(const struct store *store, const char *from, const char *to, bool locked,
                             struct store_error *error);
// Drops the rows of sessions, the least recently used first and never those of `keep`, until the cap holds. error->text
// names them all, as far as there is room, and counts the rest; "" when there was nothing to do.
void store_trim(const struct store *store, const char *keep, struct store_error *error);
// What a session's KV cache takes on the disk, with what no branch needs any more: its size wherever one is told, and
// for the cap.
uint64_t store_kv_bytes(const struct store *store, const char *name); // rows and states
uint64_t store_row_bytes(const struct store *store, const char *name);
uint64_t store_state_bytes(const struct store *store, const char *name);
// Opens a session's rows (manifest_kv_name) for reading. -1 and errno; to be closed.
int store_open_rows(const struct store *store, const char *name, unsigned kv_file);
int store_open_states(const struct store *store, const char *name, unsigned file);

#endif
