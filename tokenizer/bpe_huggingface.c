// SPDX-License-Identifier: GPL-3.0-or-later
// tokenizer.json. Source of the fields: the tokenizers library's serialisation (TokenizerImpl, BPE, AddedToken, Split,
// Digits, ByteLevel), version 0.23.
#include "tokenizer/bpe.h"

#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/alphabet.h"
#include "tokenizer/composed.h"
#include "tokenizer/json_text.h"
#include "tokenizer/tok_err.h"

struct reading {
    const char *path;
    struct tok_err *err;
    struct bpe *bpe;
    struct vocab_piece *pieces; // [size]
    uint32_t size;              // ids up to the highest
    char *pool;                 // the pieces' bytes
    size_t used, room;
    struct alphabet alphabet;
};

__attribute__((format(printf, 3, 4))) static int refuse(struct reading *r, const char *field, const char *format, ...);

static int refuse(struct reading *r, const char *field, const char *format, ...)
{
    char what[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return tok_fail(r->err, TOK_UNSUPPORTED, "%.250s: %.80s: %.150s", r->path, field, what);
}

static int damaged(struct reading *r, const char *field, const char *what)
{
    return tok_fail(r->err, TOK_FORMAT, "%.250s: %.80s %.100s: fetch the file again", r->path, field, what);
}

static int too_long(struct reading *r, const char *field)
{
    char what[80];
    snprintf(what, sizeof what, "has a token of more than %d bytes", BPE_TOKEN_BYTES);
    return damaged(r, field, what);
}

static int no_memory(struct reading *r)
{
    return tok_fail(r->err, TOK_NO_MEMORY, "%.300s: out of memory", r->path);
}

static const char *text_of(struct json_object *object, const char *key)
{
    struct json_object *value;
    return json_object_object_get_ex(object, key, &value) && json_object_is_type(value, json_type_string)
               ? json_object_get_string(value)
               : "";
}

static bool is_true(struct json_object *object, const char *key)
{
    struct json_object *value;
    return json_object_object_get_ex(object, key, &value) && json_object_get_boolean(value);
}

// null, missing, "", 0, false and [] all mean: nothing is asked for.
static bool asks_nothing(struct json_object *value)
{
    return !value || (json_object_is_type(value, json_type_array) && json_object_array_length(value) == 0) ||
           (!json_object_is_type(value, json_type_array) && !json_object_is_type(value, json_type_object) &&
            !json_object_get_boolean(value));
}

static int put_piece(struct reading *r, uint32_t id, struct vocab_piece piece)
{
    struct vocab_piece *there = &r->pieces[id];
    if (there->kind && (there->length != piece.length || memcmp(there->bytes, piece.bytes, piece.length) != 0))
        return tok_fail(r->err, TOK_FORMAT, "%.300s: id %u has two meanings: fetch the file again", r->path,
                        (unsigned)id);
    *there = piece;
    return TOK_OK;
}

static int read_vocab(struct reading *r, struct json_object *vocab)
{
    int failed = TOK_OK;
    json_object_object_foreach(vocab, key, value)
    {
        char *bytes = r->pool + r->used;
        size_t length = strlen(key);
        struct vocab_piece piece = {.bytes = bytes, .kind = VOCAB_TEXT, .flags = VOCAB_MERGED};
        if (length > BPE_TOKEN_BYTES)
            return too_long(r, "model.vocab");
        if (length > r->room - r->used)
            return damaged(r, "model.vocab", "is longer than the file");
        ptrdiff_t n = alphabet_bytes(&r->alphabet, key, length, bytes);
        if (n < 0) { // it can't come from text, only from its id
            memcpy(bytes, key, length);
            n = (ptrdiff_t)length;
            piece.kind = VOCAB_MARK;
            piece.flags = 0;
        }
        piece.length = (uint32_t)n;
        r->used += (size_t)n;
        failed = failed ? failed : put_piece(r, (uint32_t)json_object_get_int64(value), piece);
    }
    return failed;
}

// The tokenizers library looks in composed text for composed tokens, of which we keep no second spelling.
static int check_composed(struct reading *r, const char *text, size_t length)
{
    char *made;
    size_t made_length;
    if (!composed_text(text, length, &made, &made_length))
        return no_memory(r);
    if (!made)
        return TOK_OK;
    free(made);
    return refuse(r, "added_tokens", "\"%.40s\" is normalized and not in form C, which this program does not do", text);
}

static int read_added_token(struct reading *r, struct json_object *token)
{
    struct json_object *content, *id;
    if (!json_object_object_get_ex(token, "content", &content) || !json_object_object_get_ex(token, "id", &id) ||
        !json_object_is_type(content, json_type_string))
        return damaged(r, "added_tokens", "has a token without id or content");
    const char *text = json_object_get_string(content);
    size_t length = (size_t)json_object_get_string_len(content);
    if (length > BPE_TOKEN_BYTES)
        return too_long(r, "added_tokens");
    if (is_true(token, "single_word"))
        return refuse(r, "added_tokens", "\"%.40s\" has single_word, which this program does not do", text);
    char *bytes = r->pool + r->used;
    if (length > r->room - r->used)
        return damaged(r, "added_tokens", "are longer than the file");
    if (length)
        memcpy(bytes, text, length);
    r->used += length;
    bool plain = !is_true(token, "special") && bpe_is_plain(text, length);
    struct vocab_piece piece = {
        .bytes = bytes,
        .length = (uint32_t)length,
        .kind = is_true(token, "special") ? VOCAB_CONTROL
                : plain                   ? VOCAB_TEXT
                                          : VOCAB_MARK,
        .flags = (unsigned char)(VOCAB_ADDED | (is_true(token, "normalized") ? VOCAB_NORMALIZED : 0) |
                                 (is_true(token, "lstrip") ? VOCAB_STRIP_LEFT : 0) |
                                 (is_true(token, "rstrip") ? VOCAB_STRIP_RIGHT : 0)),
    };
    struct vocab_piece *there = &r->pieces[json_object_get_int64(id)];
    bool same = there->length == length && (!length || memcmp(there->bytes, text, length) == 0);
    if (there->kind && same)
        piece.flags |= there->flags & VOCAB_MERGED;
    *there = piece;
    return plain && r->bpe->composes && is_true(token, "normalized") ? check_composed(r, text, length) : TOK_OK;
}

// Makes room for all ids, which are checked here once.
static int make_room(struct reading *r, struct json_object *vocab, struct json_object *added, size_t file_length)
{
    int64_t highest = -1;
    bool sane = true;
    json_object_object_foreach(vocab, key, value)
    {
        int64_t id = json_object_is_type(value, json_type_int) ? json_object_get_int64(value) : -1;
        sane = sane && *key && id >= 0 && id < BPE_IDS;
        highest = id > highest ? id : highest;
    }
    if (!sane || highest < 0)
        return damaged(r, "model.vocab", "has an id that is none");
    for (size_t i = 0; i < json_object_array_length(added); i++) {
        struct json_object *number = NULL;
        json_object_object_get_ex(json_object_array_get_idx(added, i), "id", &number);
        int64_t id = number && json_object_is_type(number, json_type_int) ? json_object_get_int64(number) : -1;
        if (id < 0 || id >= BPE_IDS)
            return damaged(r, "added_tokens", "has an id that is none");
        highest = id > highest ? id : highest;
    }
    r->size = (uint32_t)highest + 1;
    r->room = file_length;
    r->pool = malloc(r->room + 1);
    r->pieces = calloc(r->size, sizeof *r->pieces);
    return r->pool && r->pieces ? TOK_OK : no_memory(r);
}

// "a b" or ["a", "b"]; both in the byte-level alphabet.
static bool merge_halves(struct json_object *merge, const char *half[2], size_t length[2])
{
    if (json_object_is_type(merge, json_type_string)) {
        const char *text = json_object_get_string(merge), *space = strchr(text, ' ');
        if (!space || strchr(space + 1, ' '))
            return false;
        half[0] = text;
        half[1] = space + 1;
        length[0] = (size_t)(space - text);
        length[1] = strlen(space + 1);
        return true;
    }
    if (!json_object_is_type(merge, json_type_array) || json_object_array_length(merge) != 2)
        return false;
    for (size_t i = 0; i < 2; i++) {
        struct json_object *text = json_object_array_get_idx(merge, i);
        if (!json_object_is_type(text, json_type_string))
            return false;
        half[i] = json_object_get_string(text);
        length[i] = (size_t)json_object_get_string_len(text);
    }
    return true;
}

static int read_merges(struct reading *r, struct json_object *merges)
{
    size_t count = json_object_array_length(merges);
    char *bytes = r->pool; // the vocabulary has its copy by now
    int failed = merges_init(&r->bpe->merges, count, r->err);
    for (size_t i = 0; i < count && !failed; i++) {
        const char *half[2];
        size_t length[2];
        int32_t ids[3] = {-1, -1, -1};
        ptrdiff_t n[2] = {-1, -1};
        if (merge_halves(json_object_array_get_idx(merges, i), half, length) && length[0] + length[1] <= r->room) {
            n[0] = alphabet_bytes(&r->alphabet, half[0], length[0], bytes);
            n[1] = n[0] > 0 ? alphabet_bytes(&r->alphabet, half[1], length[1], bytes + n[0]) : -1;
        }
        if (n[1] > 0) {
            ids[0] = lexicon_find(&r->bpe->lexicon, bytes, (size_t)n[0]);
            ids[1] = lexicon_find(&r->bpe->lexicon, bytes + n[0], (size_t)n[1]);
            ids[2] = lexicon_find(&r->bpe->lexicon, bytes, (size_t)(n[0] + n[1]));
        }
        bool text = true;
        for (int k = 0; k < 3; k++) {
            if (ids[k] < 0)
                return tok_fail(r->err, TOK_FORMAT,
                                "%.300s: model.merges[%zu] is not of the vocabulary: fetch the file again", r->path, i);
            text = text && r->bpe->vocab.kind[ids[k]] == VOCAB_TEXT;
        }
        if (text) // never into a control symbol
            merges_add(&r->bpe->merges,
                       &(struct merge){(uint32_t)ids[0], (uint32_t)ids[1], (uint32_t)i, (uint32_t)ids[2]});
    }
    return failed;
}

static int read_split(struct reading *r, struct json_object *step)
{
    struct json_object *pattern = NULL, *text = NULL;
    char where[400];
    snprintf(where, sizeof where, "%.300s: pre_tokenizer Split", r->path);
    if (strcmp(text_of(step, "behavior"), "Isolated") != 0)
        return refuse(r, "pre_tokenizer Split", "behavior %.40s is not known, only Isolated",
                      text_of(step, "behavior"));
    json_object_object_get_ex(step, "pattern", &pattern);
    struct pattern_source source = {.where = where};
    if (pattern && json_object_object_get_ex(pattern, "String", &text))
        source.literal = true;
    else if (!pattern || !json_object_object_get_ex(pattern, "Regex", &text))
        return damaged(r, "pre_tokenizer Split", "has no pattern");
    if (!json_object_is_type(text, json_type_string))
        return damaged(r, "pre_tokenizer Split", "has a pattern that is no text");
    source.text = json_object_get_string(text);
    source.length = (size_t)json_object_get_string_len(text);
    return bpe_add_step(r->bpe, &source, r->err);
}

static int add_expression(struct reading *r, const char *expression)
{
    struct pattern_source source = {.text = expression, .length = strlen(expression), .where = r->path};
    return bpe_add_step(r->bpe, &source, r->err);
}

// One step; ByteLevel, which says that pieces are bytes, must be the last.
static int read_step(struct reading *r, struct json_object *step, bool last)
{
    const char *type = text_of(step, "type");
    if (strcmp(type, "Split") == 0 && !last)
        return read_split(r, step);
    if (strcmp(type, "Digits") == 0 && !last)
        return add_expression(r, is_true(step, "individual_digits") ? "\\p{N}" : "\\p{N}+");
    if (strcmp(type, "ByteLevel") != 0 || !last)
        return refuse(r, "pre_tokenizer", "%.40s%s: known are Split and Digits, then ByteLevel",
                      *type ? type : "a step without a type", last ? " is the last" : " here");
    if (is_true(step, "add_prefix_space"))
        return refuse(r, "pre_tokenizer ByteLevel", "add_prefix_space changes text, so its bytes would not come back");
    struct json_object *value;
    bool regex = !json_object_object_get_ex(step, "use_regex", &value) || json_object_get_boolean(value);
    return regex
               ? add_expression(r, "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+")
               : TOK_OK;
}

static int read_pre_tokenizer(struct reading *r, struct json_object *step)
{
    struct json_object *steps;
    if (!step)
        return refuse(r, "pre_tokenizer", "there is none, so it is no byte-level tokenizer");
    if (strcmp(text_of(step, "type"), "Sequence") != 0)
        return read_step(r, step, true);
    if (!json_object_object_get_ex(step, "pretokenizers", &steps) || !json_object_is_type(steps, json_type_array) ||
        json_object_array_length(steps) == 0)
        return damaged(r, "pre_tokenizer", "is an empty sequence");
    size_t count = json_object_array_length(steps);
    int failed = TOK_OK;
    for (size_t i = 0; i < count && !failed; i++)
        failed = read_step(r, json_object_array_get_idx(steps, i), i + 1 == count);
    return failed;
}

// A field must be asking nothing, or be a known object; a sequence of such too.
static int check_type(struct reading *r, const char *field, struct json_object *value, const char *const *known)
{
    const char *type = value ? text_of(value, "type") : "";
    struct json_object *parts;
    if (asks_nothing(value))
        return TOK_OK;
    if (strcmp(type, "Sequence") == 0) {
        static const char *const names[] = {"normalizers", "processors", "decoders"};
        for (size_t k = 0; k < 3; k++) {
            int failed = TOK_OK;
            if (!json_object_object_get_ex(value, names[k], &parts) || !json_object_is_type(parts, json_type_array))
                continue;
            for (size_t i = 0; i < json_object_array_length(parts) && !failed; i++)
                failed = check_type(r, field, json_object_array_get_idx(parts, i), known);
            return failed;
        }
    }
    for (; *known; known++)
        if (strcmp(*known, type) == 0)
            return TOK_OK;
    return refuse(r, field, "%.40s is not known to this program", *type ? type : "something without a type");
}

// Of a normalizer that check_type has let through: it is NFC, or a sequence that has it.
static bool composes(struct json_object *value)
{
    struct json_object *parts = NULL;
    if (!value || strcmp(text_of(value, "type"), "Sequence") != 0)
        return value && strcmp(text_of(value, "type"), "NFC") == 0;
    return json_object_object_get_ex(value, "normalizers", &parts) && json_object_is_type(parts, json_type_array) &&
           json_object_array_length(parts) > 0;
}

static int check_model(struct reading *r, struct json_object *model)
{
    // byte_fallback, unk_token and fuse_unk are about characters that no piece is for: with all bytes there are none.
    static const char *const known[] = {"type",  "byte_fallback", "unk_token",     "fuse_unk",
                                        "vocab", "merges",        "ignore_merges", NULL};
    if (*text_of(model, "type") && strcmp(text_of(model, "type"), "BPE") != 0)
        return refuse(r, "model.type", "%.40s is not known, only BPE", text_of(model, "type"));
    json_object_object_foreach(model, key, value)
    {
        char field[80];
        size_t i = 0;
        while (known[i] && strcmp(known[i], key) != 0)
            i++;
        snprintf(field, sizeof field, "model.%.60s", key);
        if (!known[i] && !asks_nothing(value))
            return refuse(r, field, "is not known to this program");
    }
    return TOK_OK;
}

static int check_fields(struct reading *r, struct json_object *root)
{
    static const char *const nothing[] = {NULL};
    static const char *const normalizers[] = {"NFC", NULL};
    static const char *const processors[] = {"ByteLevel", "TemplateProcessing", NULL}; // what they add, templates add
    static const char *const decoders[] = {"ByteLevel", NULL};
    static const char *const elsewhere[] = {"version", "added_tokens", "pre_tokenizer", "model", NULL};
    json_object_object_foreach(root, key, value)
    {
        size_t i = 0;
        while (elsewhere[i] && strcmp(elsewhere[i], key) != 0)
            i++;
        if (elsewhere[i])
            continue;
        const char *const *known = strcmp(key, "post_processor") == 0 ? processors
                                   : strcmp(key, "decoder") == 0      ? decoders
                                   : strcmp(key, "normalizer") == 0   ? normalizers
                                                                      : nothing;
        int failed = check_type(r, key, value, known);
        if (failed)
            return failed;
        r->bpe->composes = r->bpe->composes || (known == normalizers && composes(value));
    }
    return TOK_OK;
}

static int read_root(struct reading *r, struct json_object *root, size_t file_length)
{
    struct json_object *model, *vocab, *merges, *added = NULL, *step = NULL;
    if (!json_object_is_type(root, json_type_object) || !json_object_object_get_ex(root, "model", &model) ||
        !json_object_object_get_ex(model, "vocab", &vocab) || !json_object_is_type(vocab, json_type_object) ||
        !json_object_object_get_ex(model, "merges", &merges) || !json_object_is_type(merges, json_type_array))
        return damaged(r, "model", "has no vocab or no merges");
    if (json_object_object_get_ex(root, "added_tokens", &added) && added &&
        !json_object_is_type(added, json_type_array))
        return damaged(r, "added_tokens", "is no list");
    json_object_object_get_ex(root, "pre_tokenizer", &step);
    struct json_object *none = added ? NULL : json_object_new_array();
    added = added ? added : none;
    int failed = added ? check_fields(r, root) : no_memory(r);
    if (!failed)
        failed = check_model(r, model);
    if (!failed)
        failed = read_pre_tokenizer(r, step);
    if (!failed)
        failed = make_room(r, vocab, added, file_length);
    if (!failed)
        failed = read_vocab(r, vocab);
    for (size_t i = 0; !failed && i < json_object_array_length(added); i++)
        failed = read_added_token(r, json_object_array_get_idx(added, i));
    json_object_put(none);
    if (!failed)
        failed = vocab_fill(&r->bpe->vocab, r->pieces, r->size, r->path, r->err);
    if (!failed)
        failed = bpe_finish_vocab(r->bpe, r->path, r->err);
    r->bpe->whole_words = is_true(model, "ignore_merges");
    return failed ? failed : read_merges(r, merges);
}

int bpe_huggingface(const char *file, size_t length, const char *path, struct bpe **bpe, struct tok_err *err)
{
    struct reading r = {.path = path, .err = err, .bpe = calloc(1, sizeof *r.bpe)};
    struct json_object *root = NULL;
    int failed = r.bpe ? json_text_parse(file, length, path, &root, err) : no_memory(&r);
    alphabet_init(&r.alphabet);
    if (!failed)
        failed = read_root(&r, root, length);
    json_object_put(root);
    free(r.pieces);
    free(r.pool);
    if (failed)
        bpe_free(r.bpe);
    else
        *bpe = r.bpe;
    return failed;
}
