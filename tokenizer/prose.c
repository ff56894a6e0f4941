// SPDX-License-Identifier: GPL-3.0-or-later
// Walks through a template's tags and the text between them.
#include "tokenizer/prose.h"

#include <stdint.h>
#include <string.h>

#include "tokenizer/tok.h"

enum { MOST_DEEP = 64 };

struct piece {
    const char *at, *end;
};

// A block that is open: if, for, macro, set.
struct block {
    bool apart;  // not for our chats, by its name or that of one around it
    bool outer;  // one around it is
    bool denied; // its condition says "not tools": what follows else is for tools
};

struct walk {
    struct piece left;
    const char *const *known;
    size_t n_known;
    struct block blocks[MOST_DEEP];
    size_t depth; // may be more than MOST_DEEP: what is as deep counts as what is around it
};

static bool begins(struct piece piece, const char *with)
{
    size_t n = strlen(with);
    return (size_t)(piece.end - piece.at) >= n && memcmp(piece.at, with, n) == 0;
}

static bool has(struct piece piece, const char *word)
{
    for (; piece.at < piece.end; piece.at++)
        if (begins(piece, word))
            return true;
    return false;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void skip_blanks(struct piece *piece)
{
    while (piece->at < piece->end && (is_blank(*piece->at) || *piece->at == '-'))
        piece->at++;
}

// ---- Words

static size_t known_length(const struct walk *walk, struct piece piece)
{
    for (size_t i = 0; i < walk->n_known; i++)
        if (walk->known[i] && begins(piece, walk->known[i]))
            return strlen(walk->known[i]);
    return 0;
}

static bool is_letter(uint32_t code)
{
    return (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z') || (code >= 0xC0 && code < 0x2000);
}

// Kana, Han, Hangul: one word of which is a sentence already.
static bool is_whole(uint32_t code)
{
    return code >= 0x3040 && code < 0xD7B0;
}

static bool has_sentence(const struct walk *walk, struct piece piece)
{
    static const char punctuation[] = ",.;:!?'\")";
    enum { NOTHING, WORD, BLANK } before = NOTHING;
    while (piece.at < piece.end) {
        size_t known = known_length(walk, piece);
        uint32_t code = 0;
        int bytes = tok_utf8(piece.at, (size_t)(piece.end - piece.at), &code);
        bool escaped = begins(piece, "\\n"); // a line break in a string
        if (known) {
            before = NOTHING;
        } else if (is_whole(code) || (is_letter(code) && before == BLANK)) {
            return true;
        } else if (is_letter(code)) {
            before = WORD;
        } else if (escaped || (code < 0x80 && is_blank((char)code))) {
            before = before == NOTHING ? NOTHING : BLANK;
        } else if (code >= 0x80 || !memchr(punctuation, (int)code, sizeof punctuation - 1)) {
            before = NOTHING;
        }
        piece.at += known ? known : escaped ? 2 : bytes > 0 ? (size_t)bytes : 1;
    }
    return false;
}

// ---- Tags

static bool is_apart(struct piece name)
{
    static const char *const words[] = {"tool", "developer", "response_format", "response_schema", "raise_exception"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (has(name, words[i]))
            return true;
    return false;
}

static struct block *innermost(struct walk *walk)
{
    return walk->depth && walk->depth <= MOST_DEEP ? &walk->blocks[walk->depth - 1] : NULL;
}

static bool inside_apart(const struct walk *walk)
{
    size_t depth = walk->depth < MOST_DEEP ? walk->depth : MOST_DEEP;
    return depth && walk->blocks[depth - 1].apart;
}

static void name_block(struct block *block, struct piece condition)
{
    bool names = is_apart(condition);
    skip_blanks(&condition);
    block->denied = names && begins(condition, "not");
    block->apart = block->outer || (names && !block->denied);
}

static bool begins_block(struct piece tag)
{
    static const char *const names[] = {"if", "for", "macro", "filter", "call", "set"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (begins(tag, names[i]))
            return true;
    return false;
}

// What a statement opens, goes on with and closes.
static void take_statement(struct walk *walk, struct piece tag)
{
    struct block *inner = innermost(walk);
    struct piece rest = tag;
    while (rest.at < rest.end && *rest.at >= 'a' && *rest.at <= 'z')
        rest.at++;
    if (begins(tag, "elif") && inner) {
        name_block(inner, rest);
    } else if (begins(tag, "else") && inner) {
        inner->apart = inner->outer || inner->denied;
    } else if (begins(tag, "end")) {
        tag.at += strlen("end");
        walk->depth -= walk->depth > 0 && begins_block(tag);
    } else if (begins_block(tag) && !(begins(tag, "set") && has(tag, "="))) {
        struct block block = {.outer = inside_apart(walk)};
        name_block(&block, rest);
        walk->depth++;
        inner = innermost(walk);
        if (inner)
            *inner = block;
    }
}

// Up to the tag's end. False: a string that may come into a prompt says something.
static bool take_tag(struct walk *walk, bool statement, const char *close)
{
    struct piece *left = &walk->left;
    skip_blanks(left);
    struct piece tag = {left->at, left->at};
    bool shows = !inside_apart(walk) && (!statement || begins(*left, "set")); // a condition's strings do not
    const char *first = NULL;
    for (; left->at < left->end && !begins(*left, close); left->at++) {
        char quote = *left->at;
        if (quote != '\'' && quote != '"')
            continue;
        struct piece string = {left->at + 1, left->at + 1};
        first = first ? first : left->at;
        while (string.end < left->end && *string.end != quote)
            string.end += *string.end == '\\' && string.end + 1 < left->end ? 2 : 1;
        left->at = string.end < left->end ? string.end : left->end - 1;
        if (shows && !is_apart((struct piece){tag.at, first}) && has_sentence(walk, string))
            return false;
    }
    tag.end = left->at;
    left->at += left->at < left->end ? strlen(close) : 0;
    if (statement)
        take_statement(walk, tag);
    return true;
}

bool prose_has_other(const char *text, size_t length, const char *const *known, size_t n_known)
{
    struct walk walk = {.left = {text, text + length}, .known = known, .n_known = n_known};
    struct piece *left = &walk.left;
    bool fine = true;
    while (fine && left->at < left->end) {
        bool comment = begins(*left, "{#"), shown = begins(*left, "{{"), statement = begins(*left, "{%");
        struct piece between = {left->at, left->at};
        if (comment) {
            while (left->at < left->end && !begins(*left, "#}"))
                left->at++;
            left->at += left->at < left->end ? 2 : 0;
        } else if (shown || statement) {
            left->at += 2;
            fine = take_tag(&walk, statement, shown ? "}}" : "%}");
        } else {
            while (left->at < left->end &&
                   (left->at == between.at || !(begins(*left, "{#") || begins(*left, "{{") || begins(*left, "{%"))))
                left->at++;
            between.end = left->at;
            fine = inside_apart(&walk) || !has_sentence(&walk, between);
        }
    }
    return !fine;
}
