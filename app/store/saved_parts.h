// SPDX-License-Identifier: GPL-3.0-or-later
// What saved.c, saved_open.c and saved_cap.c share; nobody else looks in.
#ifndef MOECHAT_APP_STORE_SAVED_PARTS_H
#define MOECHAT_APP_STORE_SAVED_PARTS_H

#include "app/store/own_file.h"
#include "app/store/saved.h"

struct saved {
    const struct store *store;
    char name[STORE_NAME_SIZE];
    int lock; // -1: there is no folder yet
    struct manifest manifest;
    // A manifest on the disk may name bytes before these; nothing before them is ever touched.
    uint64_t transcript_end;
    uint64_t kv_ends[2];
    unsigned state_files; // as those
    // As we left them; another program that writes to them has made them its own.
    struct own_file transcript, manifest_file;
    bool settled; // a manifest of ours is on the disk, and the other rows' file is gone
    bool over_cap;
    bool cap_told;                 // that it nears the cap
    bool made;                     // the folder is of our making
    bool cap_owed;                 // rows were added since the cap over all sessions was last seen to
    char rows_of[STORE_NAME_SIZE]; // the damaged session that the manifest's rows are still those of; "": our own
    const char *rows_unknown;      // why nothing tells what rows that were there are of; NULL: there were none
    bool nameless;                 // it is named after the time alone,
    char wanted[STORE_NAME_SIZE];  // and is to have this name, with a number if it is taken; "": none
    const char *refused;           // see saved_refused
};

// A session that has no name yet gets one from the first message.
void saved_name_by(struct saved *saved, const struct part *part);
// Adds the part's line to the manifest as `entry`, by manifest_add_part or manifest_add_other; its number is new.
// False: saved_refused.
bool saved_note_part(struct saved *saved, const struct part *part, struct manifest_part *entry,
                     bool (*add)(struct manifest *, const struct manifest_part *));
void saved_note_files(struct saved *saved); // takes down how its files are now
enum store_code saved_replace_manifest(struct saved *saved, struct store_error *error);
void saved_settle(struct saved *saved); // after the manifest is safe: what it does not name may go

// Keeps the cap over all sessions after rows were added. What does not fit by itself takes nothing from others; only
// what then stays does, and not before it is known whether the answer that is still to come fits, too. What was
// dropped, or nears the cap, is said behind what *error says already.
void saved_keep_cap(struct saved *saved, bool answer_follows, struct store_error *error);

#endif
