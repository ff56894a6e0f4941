// SPDX-License-Identifier: GPL-3.0-or-later
// A seal on what PoCL keeps of one program: libraries that it writes without syncing them and loads without looking at
// them, so that what a power cut has torn would end every start in a crash, or compute wrongly.
//
// Beside PoCL's folders, in its cache, stand two sorts of files. moechat-KEY.list has the length and hash of each file
// that has been loaded for a program and has run; they are synced before it is written. What differs from it is
// removed before PoCL looks, which then builds it anew. moechat-KEY.NUMBERS.building is a mark: synced before anything
// is built that no list has, locked while its process lives, removed when the list is there, or could not be written
// (a full disk: a cut soon after may cost one start). Where one is left over its process was killed, crashed, or lost
// its power: of the programs that it had begun what no list has is removed, but for what it built itself since the
// machine was started, which is as it was written. A cache that cannot be written to has neither, and nothing in it is
// removed.
#ifndef MOECHAT_DRIVER_SEAL_H
#define MOECHAT_DRIVER_SEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <limits.h>

enum { SEAL_KEY = 33, SEAL_PATH = 240, SEAL_NOTICE = 320 };

// A name in the cache, of those that PoCL has made.
struct seal_path {
    char text[SEAL_PATH];
};
struct seal_paths {
    struct seal_path *items;
    size_t n, capacity;
};

struct driver_seal {
    char key[SEAL_KEY];       // hex digits: what the program is made of; "": there is no seal
    char folder[PATH_MAX];    // PoCL's
    char mark[NAME_MAX + 1];  // in it; "": none
    int within, mark_fd;      // -1: not open
    unsigned wanted;          // bits: what of the program is made ready, as the caller counts
    bool complete;            // all of it is on the list and was whole
    struct seal_paths before; // libraries that were loaded when it was opened
};

// Looks at what is kept of a program, before the driver does, and marks that it is built. `notice` gets a sentence,
// if it is "" and something was removed. Always to be closed.
void seal_open(struct driver_seal *seal, const char *folder, const char *key, unsigned wanted, char *notice);
// The program runs: what was loaded for it is synced and listed, where the disk takes it, and the mark removed. Not
// `good`: the mark stays.
void seal_close(struct driver_seal *seal, bool good);
// What was loaded later for a program that has a list is put on it.
void seal_renew(const char *folder, const char *key);

#endif
