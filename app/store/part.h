// SPDX-License-Identifier: GPL-3.0-or-later
// transcript.jsonl: one sealed line for each part of a conversation, only ever appended to (moechat-session(5)). A part
// names the part it follows, so a conversation can be read from the lines alone. Pure.
#ifndef MOECHAT_APP_STORE_PART_H
#define MOECHAT_APP_STORE_PART_H

#include "app/util/files.h"
#include "engine/moe.h"
#include "tokenizer/tok.h"

enum {
    TRANSCRIPT_LIMIT = 1 << 30,
    PART_TEXT_LIMIT = 64 << 20,
    PART_IDS_LIMIT = 1 << 24,
    PARTS_LIMIT = 1 << 20,
    PART_NONE = -1
};

// The highest number that what follows a session that is opened may have: with more there would be none left some day.
#define PART_NEXT_MOST (UINT32_MAX - PARTS_LIMIT)

// How ids came to be, and what they are worth to another model.
struct part_language {
    char tokenizer[65]; // a digest of what decides ids
    char template_name[64];
};

// How a part came to be.
struct part_made {
    uint64_t time;   // seconds since 1970; 0: it is still to be
    bool anew;       // it was said before, and is fed otherwise now
    uint32_t before; // then: as which part it was fed first, which may be there no more
    // Of an answer:
    struct moe_sampling sampling;
    uint32_t max_tokens;
    char stop[16];
};

struct part {
    uint32_t number; // unique in its file, ascending
    int64_t after;   // the number of the part before it in the conversation, PART_NONE for the first
    enum tok_role role;
    struct bytes text;  // byte for byte
    struct tok_ids ids; // as they were fed, markers included
    struct part_made made;
    struct part_language language;
    bool lost; // its line is damaged: `text` says so in its place, and it has no ids
};
void part_release(struct part *part);

// What stands in the place of a part that can't be read, of the same number, predecessor and role. False: no memory.
bool part_make_lost(struct part *part);

// Do ids of the one mean in the other what they mean here?
bool part_language_same(const struct part_language *a, const struct part_language *b);

// Is it still to be fed? It has no tokens then, as a system message before the first message and words in the place of
// what is lost; but an answer that ended before it said anything has none either, and nothing of it is missing.
bool part_is_unfed(enum tok_role role, const struct bytes *text, size_t n_ids);

// Why no line of it could be read back, for people; NULL: it could.
const char *part_unfit(const struct part *part);
// Appends the part's line, which has been read back. False: no memory, or it is no part that can be read.
bool part_render(const struct part *part, struct bytes *line);
// Reads a line without its newline. False: it is damaged, or with errno ENOMEM there is no memory; *part is empty.
bool part_parse(const char *line, size_t length, struct part *part, uint64_t *sum);
const char *part_role_name(enum tok_role role); // "system", "user", "assistant"
bool part_role_find(const char *name, enum tok_role *role);

// Where a sound line is. `length` has the newline in it.
struct part_line {
    uint64_t offset, length, sum;
    uint32_t number;
    int64_t after;
};
struct part_lines {
    struct part_line *lines;
    size_t n_lines;
    size_t n_damaged; // lines that could not be read, a last one without a newline included
    // Where a number does not follow those before it: the same, ascending by number, and by place.
    const struct part_line **by_number;
};
void part_lines_release(struct part_lines *transcript);
// Finds all sound lines of a file's bytes. False: no memory.
bool part_lines_scan(const struct bytes *file, struct part_lines *transcript);
// Are all lines sound, but for a last one that was cut off?
bool part_lines_clean(const struct bytes *file, const struct part_lines *transcript);
// The i-th by its number; of several of one the last stands last.
const struct part_line *part_lines_ascending(const struct part_lines *transcript, size_t i);
// The line of that number among the first `end`, NULL if there is none; of several the last.
const struct part_line *part_lines_find(const struct part_lines *transcript, size_t end, uint32_t number);

#endif
