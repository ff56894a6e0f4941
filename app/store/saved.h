// SPDX-License-Identifier: GPL-3.0-or-later
// A session on disk as a conversation grows: append parts, cut, commit. The transcript is written first, then the cache
// rows, then the manifest takes the old one's place; so whatever fails or is killed, what the last manifest names is
// there. Rows are a cache: when they can't be written, the text still is. A session is locked while it is open. One
// thread at a time.
#ifndef MOECHAT_APP_STORE_SAVED_H
#define MOECHAT_APP_STORE_SAVED_H

#include "app/store/store.h"

// What a session's folder holds, as far as it can be read.
struct saved_content {
    struct manifest manifest;
    struct part *parts;
    size_t n_parts;
    struct part *others; // of its other branches, ascending by number
    size_t n_others;
    bool found;       // the manifest, or one told from sound lines; without it the parts are those of the last line
    bool no_manifest; // there is no file of it
    char damage[320]; // a sentence; "": all is well. What can't be read has its place among the parts (part.lost)
};
void saved_content_release(struct saved_content *content);
// Reads without a lock.
enum store_code saved_read(const struct store *store, const char *name, struct saved_content *content,
                           struct store_error *error);

// Reads one line of the transcript, where the manifest says it is. False: it is not there, or it is long.
bool saved_read_part(const struct store *store, const char *name, const struct manifest_part *named, struct part *part);

struct saved;

// A session that does not exist yet; its first commit makes it. name: "" to be made of the date and the first message,
// else it is made at once and must be free.
enum store_code saved_new(const struct store *store, const char *name, struct saved **saved, struct store_error *error);
// Opens a session and reads it. A damaged one is left as it is: content->damage says why, and *saved is a new session
// of another name that already has what could be read, with words in the place of the rest. Until its first commit its
// manifest names those rows of the damaged one that are of the tokens before the first part that is lost.
enum store_code saved_open(const struct store *store, const char *name, struct saved **saved,
                           struct saved_content *content, struct store_error *error);
// A new session of another name with the messages that an open one has on disk, all branches of them, and none of its
// rows; the open one stays as it is, and open.
enum store_code saved_fork(const struct saved *saved, struct saved **fork, struct store_error *error);
void saved_close(struct saved *saved); // NULL is fine; commits nothing

const char *saved_name(const struct saved *saved); // "" until it has one
// Nobody has named it, and nothing was said in it: a system message alone.
bool saved_is_blank(const struct saved *saved);
// A save of it has ended, so that it is there when it is closed.
bool saved_is_kept(const struct saved *saved);
const struct manifest *saved_manifest(const struct saved *saved);

// Whose rows and ids these are from now on. Rows of another origin are forgotten.
void saved_set_origin(struct saved *saved, const struct origin *origin);
// Takes back what lies beyond `tokens`, in memory; the next commit makes it so on the disk. It stays as a branch.
void saved_cut(struct saved *saved, uint32_t tokens);
// The same to the end of a message that is to be answered: an answer without tokens goes, too.
void saved_cut_for_answer(struct saved *saved, uint32_t tokens);
// Makes the branch that ends with that part the conversation, see branches_go.
bool saved_go(struct saved *saved, int64_t last);
// The last part of what was taken back last, PART_NONE; that ends with the next message or answer that is appended.
void saved_set_undone(struct saved *saved, int64_t last);
// Forgets a part of another branch that nothing follows.
void saved_drop(struct saved *saved, uint32_t part);
// Forgets the conversation's records from row `rows` on, in memory.
void saved_forget_rows(struct saved *saved, uint32_t rows);
// Adds a part; its predecessor and time are set here, and its number unless that is a new one. False: saved_refused
// says why.
bool saved_append(struct saved *saved, struct part *part);
const char *saved_refused(const struct saved *saved); // why the last part was not added, for people
// Fills a session that holds nothing with parts of another, which keep their numbers; both lists ascend. Those that
// follow none that is there are left out. False: saved_refused says why.
struct saved_tree {
    struct part *parts, *others;
    size_t n_parts, n_others;
};
bool saved_adopt(struct saved *saved, struct saved_tree tree);

// Where the rows that are not on the disk yet are to be written, with the logits after the last one, if they are kept.
struct saved_slot {
    const struct moe_record_io *io;
    uint64_t offset;
    uint32_t first, count;
    bool states; // no rows, but the states after the first `first` tokens
};
struct saved_rows {
    uint32_t length;               // that the engine holds
    bool answer_follows;           // these are a prompt's: what they push out is seen to with the answer's
    bool states;                   // the engine's layers have some: those of now are saved, too,
    uint32_t borders[MOE_BORDERS]; // and those after so many tokens, ascending, where it could stand; 0: none
    int (*write)(void *context, const struct saved_slot *slot, struct moe_record *record, struct moe_err *err);
    void *context;
};
// Makes the disk say what was appended and cut, and with `rows` saves those that are missing there. After a failure the
// next commit tries again. Nothing is written where another program has changed or removed the session's files, nor
// more than what can be read back; error->text has the remedy. With STORE_OK, error->text may hold what there is to
// say, such as that rows were not saved.
enum store_code saved_commit(struct saved *saved, const struct saved_rows *rows, struct store_error *error);
// The rows of a prompt without an answer may still have to push out others': the next commit with rows sees to it.
bool saved_owes_cap(const struct saved *saved);
// Removes dead bytes; the other branches stay. This is no use of the session, nor is pruning: the time stays.
enum store_code saved_compact(struct saved *saved, struct store_error *error);
// Removes all other branches, from the disk, too.
enum store_code saved_prune(struct saved *saved, struct store_error *error);
enum store_code saved_rename(struct saved *saved, const char *name, struct store_error *error);
// The rows that the manifest names are a damaged session's; and forgets them, as what follows is our own.
bool saved_has_others_rows(const struct saved *saved);
void saved_own_rows(struct saved *saved);
const char *saved_why_no_rows(const struct saved *saved); // where the manifest names none, or too few
// For reading the records back: the file's name for messages, and the file (-1 and errno), to be closed.
struct store_path saved_kv_path(const struct saved *saved);
int saved_open_rows(const struct saved *saved);
struct store_path saved_state_path(const struct saved *saved, unsigned file); // the same for states
int saved_open_state(const struct saved *saved, unsigned file);
const struct store *saved_store(const struct saved *saved);

#endif
