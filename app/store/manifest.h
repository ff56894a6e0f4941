// SPDX-License-Identifier: GPL-3.0-or-later
// session.json: which lines of the transcript and which records of cache rows are the conversation, which are of its
// other branches, and what they belong to (moechat-session(5)). One sealed line. Pure.
#ifndef MOECHAT_APP_STORE_MANIFEST_H
#define MOECHAT_APP_STORE_MANIFEST_H

#include "app/store/part.h"
#include "engine/moe.h"

// A conversation without other branches is still written as format 1, which older programs read.
enum { MANIFEST_FORMAT = 2, MANIFEST_FORMAT_ONE_BRANCH = 1, MANIFEST_LIMIT = 64 << 20 };
// Of an exchange where a template leaves thinking out: before it, and the ends of the prompt and of the answer; and the
// ends of the two answers before. Files: two manifests' and the three that a prompt adds.
enum { ANSWERS_KEPT = 2, STATES_KEPT = ANSWERS_KEPT + 3, STATE_FILES = 2 * STATES_KEPT + MOE_BORDERS + 1 };

// What cache rows and token ids belong to.
struct origin {
    char model_name[64], model_path[1024]; // for people
    char weights[65];
    char weights_once[65]; // what older programs had for the same; never in the file. "": no other
    struct part_language language;
    uint32_t kv_type;             // enum moe_kv_type
    uint32_t n_layers, row_width; // row_width 0: layers differ
    bool states;                  // layers have some besides; older manifests say it only where some are saved
};

// Are a session's weights those of the model that is open?
bool origin_is_of(const struct origin *saved, const struct origin *open);

struct manifest_part {
    uint64_t offset, length, sum; // of its line
    uint32_t number, tokens;
    int64_t after; // the number of the part before it, PART_NONE
    enum tok_role role;
    struct bytes line; // not written yet; never in the file
    bool unfed;        // as part_is_unfed; never in the file
};

// States after record.first tokens, in a file of their own.
struct manifest_state {
    unsigned file; // below STATE_FILES
    struct moe_record record;
};

// Rows of a branch: good for whatever has this part, in which they end.
struct branch_record {
    uint32_t part;
    struct moe_record record;
};

struct manifest {
    struct origin origin;
    uint32_t format;             // as read; what is written says what it needs
    uint64_t created, updated;   // seconds since 1970
    uint32_t updated_ns;         // of that second, which tells two of it apart; 0: not known
    uint32_t next_part;          // the number of the next part to be appended
    uint32_t undone;             // the number, and one, of the last part of what was taken back last; 0: not known
    unsigned kv_file;            // 0: kv.bin, 1: kv.2.bin
    bool capped;                 // rows were dropped for --kv-cap, and none from the first on saved since
    struct manifest_part *parts; // the conversation, ascending by number
    size_t n_parts;
    struct manifest_part *others; // the rest of its branches, ascending by number
    size_t n_others, parts_room;  // there is room in both for so many parts
    struct moe_record *records;   // of the conversation, one after the other from row 0 on
    size_t n_records;
    struct branch_record *other_records;
    size_t n_other_records, records_room;      // as of parts
    struct manifest_state states[STATES_KEPT]; // ascending by position, none beyond the rows
    size_t n_states;
};

void manifest_release(struct manifest *manifest);
// False: no memory, and nothing has changed. What left one list, of parts or of records, has its place in the other:
// that takes none.
bool manifest_add_part(struct manifest *manifest, const struct manifest_part *part);
bool manifest_add_other(struct manifest *manifest, const struct manifest_part *part); // where its number belongs
bool manifest_add_other_record(struct manifest *manifest, const struct branch_record *record);
// The part of that number, of the conversation or another branch; NULL: there is none.
const struct manifest_part *manifest_find(const struct manifest *manifest, int64_t number);
size_t manifest_find_index(const struct manifest *manifest, int64_t number); // its place, others[i] at n_parts + i
bool manifest_add_record(struct manifest *manifest, const struct moe_record *record);
// Behind those that are there. Of those the ends of the two last answers stay, and what came after: so that who takes
// two turns back the next day stands at one.
void manifest_add_state(struct manifest *manifest, const struct manifest_state *state);
// Forgets what of the conversation's rows lies beyond `rows`; and all rows there are.
void manifest_forget_rows(struct manifest *manifest, uint32_t rows);
void manifest_forget_all_rows(struct manifest *manifest);
void manifest_cap(struct manifest *manifest);              // the same for --kv-cap
uint32_t manifest_tokens(const struct manifest *manifest); // of all parts
uint32_t manifest_rows(const struct manifest *manifest);   // of all records
// The tokens that need not be read again when the conversation is opened: all that have rows, or, of a model with
// states, those up to the last of these.
uint32_t manifest_cached(const struct manifest *manifest);
size_t manifest_messages(const struct manifest *manifest); // of the user, the model and the system
// The message at the end of the conversation that has no answer; NULL: there is none.
const struct manifest_part *manifest_unanswered(const struct manifest *manifest);
uint64_t manifest_transcript_end(const struct manifest *manifest);
uint64_t manifest_kv_end(const struct manifest *manifest);
uint64_t manifest_row_bytes(const struct manifest *manifest);       // of the conversation
uint64_t manifest_other_row_bytes(const struct manifest *manifest); // of its other branches
uint64_t manifest_state_bytes(const struct manifest *manifest);
const char *manifest_kv_name(unsigned kv_file);
const char *manifest_state_name(unsigned file);

// Appends the file, which has been read back. False: no memory, or it says nothing that can be read.
bool manifest_render(const struct manifest *manifest, struct bytes *file);
// NULL, or what is wrong with the bytes; then *manifest is empty. Wrong with neither: manifest_no_memory, and
// manifest_newer, a sound one of a format that is not known yet, which manifest->format is then.
extern const char manifest_no_memory[], manifest_newer[];
const char *manifest_parse(const char *data, size_t length, struct manifest *manifest);
// The same for one whose sum is wrong: what it says of the parts is true as far as their lines have the sums that it
// names, and of rows as theirs do.
const char *manifest_parse_broken(const char *data, size_t length, struct manifest *manifest);

// The manifest of a transcript that has none: a first save ended before it was written. The conversation is the last
// line and those it follows; the model is not known. NULL, or why the lines don't tell; then *manifest is empty.
const char *manifest_adopt(const struct bytes *transcript, struct manifest *manifest);

#endif
