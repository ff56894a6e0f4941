// SPDX-License-Identifier: GPL-3.0-or-later
// Encodes and decodes by ranks: special tokens, words, merges.
#include "tokenizer/bpe.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/composed.h"
#include "tokenizer/newer.h"
#include "tokenizer/tok_err.h"

void bpe_free(struct bpe *bpe)
{
    if (!bpe)
        return;
    for (size_t i = 0; i < bpe->n_steps; i++)
        pattern_free(bpe->steps[i]);
    lexicon_release(&bpe->lexicon);
    for (int i = 0; i < 2; i++)
        lexicon_release(&bpe->added[i].lexicon);
    merges_release(&bpe->merges);
    vocab_release(&bpe->vocab);
    free(bpe);
}

int bpe_add_step(struct bpe *bpe, const struct pattern_source *source, struct tok_err *err)
{
    if (bpe->n_steps == BPE_STEPS)
        return tok_fail(err, TOK_UNSUPPORTED, "%.300s: more than %d steps", source->where, BPE_STEPS);
    int failed = pattern_new(source, &bpe->steps[bpe->n_steps], err);
    bpe->n_steps += !failed;
    return failed;
}

// Control symbols have something that letters, digits and spaces have not; DeepSeek's have U+FF5C or U+2581.
bool bpe_is_plain(const char *content, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)content[i];
        bool letter = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
        if (c > ' ' && c < 0x80 && !letter)
            return false;
        if (length - i >= 3 &&
            (memcmp(content + i, "\xEF\xBD\x9C", 3) == 0 || memcmp(content + i, "\xE2\x96\x81", 3) == 0))
            return false;
    }
    return true;
}

static void note_length(struct bpe_added *added, uint32_t length)
{
    size_t at = 0;
    while (at < added->n_lengths && added->lengths[at] > length)
        at++;
    if (at < added->n_lengths && added->lengths[at] == length)
        return;
    memmove(added->lengths + at + 1, added->lengths + at, (added->n_lengths - at) * sizeof *added->lengths);
    added->lengths[at] = length;
    added->n_lengths++;
}

// Half a character, cut out of a text, would leave the patterns two texts that are none.
static bool is_whole_text(const char *bytes, size_t length)
{
    uint32_t code;
    int n = 1;
    for (size_t at = 0; at < length && n > 0; at += (size_t)(n > 0 ? n : 0))
        n = tok_utf8(bytes + at, length - at, &code);
    return n > 0;
}

static int fill_added(struct bpe *bpe, struct bpe_added *added, unsigned flags, const char *path, struct tok_err *err)
{
    const struct vocab *vocab = &bpe->vocab;
    struct lexicon_filter filter = {VOCAB_ADDED | VOCAB_NORMALIZED, flags};
    int failed = lexicon_init(&added->lexicon, vocab, filter, err);
    for (uint32_t id = 0; id < vocab->size && !failed; id++) {
        uint32_t length = vocab->start[id + 1] - vocab->start[id];
        if (vocab->kind[id] != VOCAB_TEXT || (vocab->flags[id] & filter.mask) != flags || !length)
            continue;
        if (added->n_lengths == BPE_LENGTHS)
            return tok_fail(err, TOK_UNSUPPORTED, "%.300s: added_tokens: more than %d lengths", path, BPE_LENGTHS - 1);
        if (!is_whole_text(vocab->bytes + vocab->start[id], length))
            return tok_fail(err, TOK_FORMAT, "%.300s: added_tokens: %u is not UTF-8: fetch the file again", path, id);
        note_length(added, length);
        added->begins[(unsigned char)vocab->bytes[vocab->start[id]]] = true;
    }
    return failed;
}

int bpe_finish_vocab(struct bpe *bpe, const char *path, struct tok_err *err)
{
    int failed = lexicon_init(&bpe->lexicon, &bpe->vocab, (struct lexicon_filter){VOCAB_MERGED, VOCAB_MERGED}, err);
    for (int i = 0; i < 256 && !failed; i++)
        if (bpe->vocab.byte_ids[i] < 0 && i != 0xC0 && i != 0xC1 && i < 0xF5)
            failed = tok_fail(err, TOK_UNSUPPORTED,
                              "%.300s: the vocabulary has no piece for the byte 0x%02X, so not every text has ids",
                              path, (unsigned)i);
    if (!failed)
        failed = fill_added(bpe, &bpe->added[0], VOCAB_ADDED, path, err);
    return failed ? failed : fill_added(bpe, &bpe->added[1], VOCAB_ADDED | VOCAB_NORMALIZED, path, err);
}

int bpe_merge_ranks(struct bpe *bpe, struct tok_err *err)
{
    const struct vocab *vocab = &bpe->vocab;
    size_t most = 0;
    for (int pass = 0; pass < 2; pass++) {
        int failed = pass ? merges_init(&bpe->merges, most, err) : TOK_OK;
        if (failed)
            return failed;
        for (uint32_t id = 0; id < vocab->size; id++) {
            const char *bytes = vocab->bytes + vocab->start[id];
            uint32_t length = vocab->start[id + 1] - vocab->start[id];
            if (vocab->kind[id] != VOCAB_TEXT || !(vocab->flags[id] & VOCAB_MERGED))
                continue;
            for (uint32_t cut = 1; cut < length; cut++) {
                int32_t left = lexicon_find(&bpe->lexicon, bytes, cut);
                int32_t right = left < 0 ? -1 : lexicon_find(&bpe->lexicon, bytes + cut, length - cut);
                if (right < 0 || vocab->kind[left] != VOCAB_TEXT || vocab->kind[right] != VOCAB_TEXT)
                    continue;
                most++;
                if (pass)
                    merges_add(&bpe->merges, &(struct merge){(uint32_t)left, (uint32_t)right, id, id});
            }
        }
    }
    return TOK_OK;
}

// One text on its way to ids: `text` as it is, `seen` as the patterns see it.
struct encoding {
    const struct bpe *bpe;
    const char *text, *seen;
    struct pattern_search *search;
    struct tok_ids *list;
    struct tok_err *err;
};

struct range {
    size_t start, end;
};

static int reserve(struct encoding *e, size_t count)
{
    struct tok_ids *list = e->list;
    size_t capacity = list->capacity ? list->capacity : 64;
    if (count <= list->capacity - list->count)
        return TOK_OK;
    while (capacity - list->count < count)
        capacity *= 2;
    int32_t *grown = realloc(list->ids, capacity * sizeof *grown);
    if (!grown)
        return tok_fail(e->err, TOK_NO_MEMORY, "out of memory for %zu token ids", capacity);
    list->ids = grown;
    list->capacity = capacity;
    return TOK_OK;
}

static int encode_word(struct encoding *e, struct range word)
{
    const struct bpe *bpe = e->bpe;
    size_t length = word.end - word.start;
    if (length > BPE_WORD_BYTES)
        return tok_fail(e->err, TOK_UNSUPPORTED, "a word of %zu bytes is too long: give at most %d MiB without a break",
                        length, BPE_WORD_BYTES >> 20);
    int failed = reserve(e, length);
    if (failed || length == 0)
        return failed;
    int32_t *ids = e->list->ids + e->list->count;
    int32_t whole = bpe->whole_words ? lexicon_find(&bpe->lexicon, e->text + word.start, length) : -1;
    if (whole >= 0 && bpe->vocab.kind[whole] == VOCAB_TEXT) {
        *ids = whole;
        e->list->count++;
        return TOK_OK;
    }
    for (size_t i = 0; i < length; i++)
        ids[i] = bpe->vocab.byte_ids[(unsigned char)e->text[word.start + i]];
    ptrdiff_t left = merges_apply(&bpe->merges, ids, length);
    if (left < 0)
        return tok_fail(e->err, TOK_NO_MEMORY, "out of memory for a word of %zu bytes", length);
    e->list->count += (size_t)left;
    return TOK_OK;
}

// Cuts with the steps from `step` on; a step sees each piece of the one before as a text of its own.
static int cut(struct encoding *e, size_t step, struct range piece)
{
    if (step == e->bpe->n_steps || piece.start == piece.end)
        return encode_word(e, piece);
    struct pattern_subject subject = {.text = e->seen + piece.start, .length = piece.end - piece.start};
    size_t done = 0;
    int found, failed = TOK_OK;
    while (!failed && (found = pattern_find(e->bpe->steps[step], e->search, &subject, e->err)) != 0) {
        if (found < 0)
            return -found;
        size_t start = subject.start, end = subject.end;
        if (start > done)
            failed = cut(e, step + 1, (struct range){piece.start + done, piece.start + start});
        if (!failed && end > start)
            failed = cut(e, step + 1, (struct range){piece.start + start, piece.start + end});
        done = end;
    }
    if (!failed && done < subject.length)
        failed = cut(e, step + 1, (struct range){piece.start + done, piece.end});
    return failed;
}

static bool is_space(uint32_t code)
{
    return (code >= 9 && code <= 13) || code == 0x20 || code == 0x85 || code == 0xA0 || code == 0x1680 ||
           (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F ||
           code == 0x3000;
}

static size_t spaces_after(const char *text, size_t length)
{
    size_t at = 0;
    uint32_t code;
    for (int n; at < length && (n = tok_utf8(text + at, length - at, &code)) > 0 && is_space(code);)
        at += (size_t)n;
    return at;
}

static size_t spaces_before(const char *text, size_t from, size_t to)
{
    while (to > from) {
        size_t at = to - 1;
        uint32_t code;
        while (at > from && ((unsigned char)text[at] & 0xC0) == 0x80)
            at--;
        if (tok_utf8(text + at, to - at, &code) <= 0 || !is_space(code))
            break;
        to = at;
    }
    return to;
}

// The longest added token that begins at `at`, -1: none.
static int32_t added_at(const struct encoding *e, int which, size_t at, size_t end)
{
    const struct bpe_added *added = &e->bpe->added[which];
    const struct vocab *vocab = &e->bpe->vocab;
    if (!added->begins[(unsigned char)e->text[at]])
        return -1;
    for (size_t i = 0; i < added->n_lengths; i++) {
        int32_t id =
            added->lengths[i] <= end - at ? lexicon_find(&added->lexicon, e->text + at, added->lengths[i]) : -1;
        if (id >= 0 && vocab->kind[id] == VOCAB_TEXT)
            return id;
    }
    return -1;
}

static int encode_between(struct encoding *e, int which, struct range piece);

// Added tokens of list `which` first; what is between them goes on to the next list, then to the patterns.
// Source of the order and of what is stripped: find_matches in the tokenizers library's added_vocabulary.rs.
static int encode_added(struct encoding *e, int which, struct range piece)
{
    const struct vocab *vocab = &e->bpe->vocab;
    size_t done = piece.start;
    int failed = TOK_OK;
    for (size_t at = piece.start; at < piece.end && !failed;) {
        int32_t id = added_at(e, which, at, piece.end);
        if (id < 0) {
            at++;
            continue;
        }
        size_t end = at + (vocab->start[id + 1] - vocab->start[id]), start = at;
        at = end;
        if (vocab->flags[id] & VOCAB_STRIP_LEFT)
            start = start > done ? spaces_before(e->text, done, start) : done;
        if (vocab->flags[id] & VOCAB_STRIP_RIGHT)
            end += spaces_after(e->text + end, piece.end - end);
        if (start >= end) // blanks that the token before has taken: with none of its own it is no token
            continue;
        if (start > done)
            failed = encode_between(e, which, (struct range){done, start});
        if (!failed)
            failed = tok_ids_append(e->list, id, e->err);
        done = end;
    }
    return failed || done >= piece.end ? failed : encode_between(e, which, (struct range){done, piece.end});
}

// The text with characters that PCRE2 does not know yet replaced; *copy NULL: there are none. False: no memory.
static bool stand_ins(const char *text, size_t length, char **copy)
{
    *copy = NULL;
    for (size_t at = 0; at < length;) {
        uint32_t code = 0;
        int n = (unsigned char)text[at] < 0xE0 ? 0 : tok_utf8(text + at, length - at, &code);
        uint32_t seen = n >= 3 ? newer_stand_in(code) : code;
        if (seen != code && !*copy) {
            *copy = malloc(length);
            if (!*copy)
                return false;
            memcpy(*copy, text, length);
        }
        if (seen != code) {
            for (int i = n - 1; i > 0; i--, seen >>= 6)
                (*copy)[at + (size_t)i] = (char)(0x80 | (seen & 0x3F));
            (*copy)[at] = (char)((n == 3 ? 0xE0u : 0xF0u) | seen);
        }
        at += n > 0 ? (size_t)n : 1;
    }
    return true;
}

// The tokens that are found in what is composed, and what is between them.
static int encode_rest(struct encoding *e, struct range piece)
{
    return e->bpe->added[1].n_lengths ? encode_added(e, 1, piece) : cut(e, 0, piece);
}

static int encode_composed(struct encoding *e, struct range piece)
{
    struct encoding made = *e;
    char *text = NULL, *copy = NULL;
    size_t length = 0;
    int failed;
    if (!composed_text(e->text + piece.start, piece.end - piece.start, &text, &length))
        return tok_fail(e->err, TOK_NO_MEMORY, "out of memory for a text of %zu bytes", piece.end - piece.start);
    if (!text)
        return encode_rest(e, piece);
    if (stand_ins(text, length, &copy)) {
        made.text = text;
        made.seen = copy ? copy : text;
        failed = encode_rest(&made, (struct range){0, length});
    } else {
        failed = tok_fail(e->err, TOK_NO_MEMORY, "out of memory for a text of %zu bytes", length);
    }
    free(text);
    free(copy);
    return failed;
}

static int encode_between(struct encoding *e, int which, struct range piece)
{
    if (which > 0)
        return cut(e, 0, piece);
    return e->bpe->composes ? encode_composed(e, piece) : encode_rest(e, piece);
}

int bpe_encode(const struct bpe *bpe, const struct pattern_stop *stop, const char *text, size_t length,
               struct tok_ids *list, struct tok_err *err)
{
    char *copy = NULL;
    struct encoding e = {.bpe = bpe, .text = text, .list = list, .err = err};
    if (length == 0)
        return TOK_OK;
    e.search = pattern_search_new(stop);
    if (!e.search || !stand_ins(text, length, &copy)) {
        pattern_search_free(e.search);
        return tok_fail(err, TOK_NO_MEMORY, "out of memory for a text of %zu bytes", length);
    }
    e.seen = copy ? copy : text;
    struct range all = {0, length};
    int failed = bpe->added[0].n_lengths ? encode_added(&e, 0, all) : encode_between(&e, 0, all);
    pattern_search_free(e.search);
    free(copy);
    return failed;
}
