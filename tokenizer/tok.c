// SPDX-License-Identifier: GPL-3.0-or-later
// Opens a tokenizer by its type; text to ids and back.
#include "tokenizer/tok.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/bpe.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/tok_err.h"
#include "tokenizer/tok_file.h"

#define REPLACEMENT "\xEF\xBF\xBD"
enum { TEXT_BYTES_MAX = 16 << 20, SPACE_MARK = 0x2581 };

// Either a SentencePiece model, with its library, or a byte-level BPE.
struct tok {
    struct vocab own; // of SentencePiece
    struct pieces *pieces;
    struct bpe *bpe;
    const struct vocab *vocab;
    struct pattern_stop stop;
};

void tok_ids_release(struct tok_ids *list)
{
    free(list->ids);
    memset(list, 0, sizeof *list);
}

int tok_ids_append(struct tok_ids *list, int32_t id, struct tok_err *err)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 64;
        int32_t *grown = capacity <= SIZE_MAX / sizeof *grown ? realloc(list->ids, capacity * sizeof *grown) : NULL;
        if (!grown)
            return tok_fail(err, TOK_NO_MEMORY, "out of memory for %zu token ids", capacity);
        list->ids = grown;
        list->capacity = capacity;
    }
    list->ids[list->count++] = id;
    return TOK_OK;
}

int tok_ids_append_all(struct tok_ids *list, const int32_t *ids, size_t count, struct tok_err *err)
{
    int failed = TOK_OK;
    for (size_t i = 0; i < count && !failed; i++)
        failed = tok_ids_append(list, ids[i], err);
    return failed;
}

static int open_sentencepiece(const char *path, tok *made, struct tok_err *err)
{
    char *file = NULL;
    size_t length = 0;
    int failed = tok_file_read(path, "SentencePiece model", &file, &length, err);
    if (failed)
        return failed;
    failed = vocab_init(&made->own, file, length, path, err);
    if (!failed)
        failed = sentencepiece_open(file, length, path, &made->pieces, err);
    if (!failed && sentencepiece_vocab_size(made->pieces) != made->own.size)
        failed = tok_fail(err, TOK_FORMAT, "%.300s: its pieces can't be counted: fetch the file again", path);
    made->vocab = &made->own;
    free(file);
    return failed;
}

static int open_huggingface(const char *path, tok *made, struct tok_err *err)
{
    char *file = NULL;
    size_t length = 0;
    int failed = tok_file_read(path, "tokenizer.json", &file, &length, err);
    if (!failed)
        failed = bpe_huggingface(file, length, path, &made->bpe, err);
    free(file);
    return failed;
}

// tokenizer_config.json beside the ranks names the control symbols.
static int open_tiktoken(const char *path, tok *made, struct tok_err *err)
{
    static const char config[] = "tokenizer_config.json";
    const char *slash = strrchr(path, '/');
    int folder = slash ? (int)(slash + 1 - path) : 0;
    size_t room = (size_t)folder + sizeof config;
    char *config_path = malloc(room), *ranks = NULL, *json = NULL;
    struct bpe_tiktoken_files files = {.ranks_path = path, .config_path = config_path};
    if (!config_path)
        return tok_fail(err, TOK_NO_MEMORY, "%.300s: out of memory", path);
    snprintf(config_path, room, "%.*s%s", folder, path, config);
    int failed = tok_file_read(path, "tiktoken.model", &ranks, &files.ranks_length, err);
    if (!failed)
        failed = tok_file_read(config_path, "tokenizer_config.json", &json, &files.config_length, err);
    files.ranks = ranks;
    files.config = json;
    if (!failed)
        failed = bpe_tiktoken(&files, &made->bpe, err);
    free(ranks);
    free(json);
    free(config_path);
    return failed;
}

int tok_open(const char *type, const char *path, tok **tokenizer, struct tok_err *err)
{
    static const struct {
        const char *type;
        int (*open)(const char *path, tok *made, struct tok_err *err);
    } types[] = {{"sentencepiece", open_sentencepiece}, {"huggingface", open_huggingface}, {"tiktoken", open_tiktoken}};
    size_t i = 0, n = sizeof types / sizeof types[0];
    while (i < n && strcmp(types[i].type, type) != 0)
        i++;
    if (i == n)
        return tok_fail(err, TOK_UNSUPPORTED,
                        "%.300s: tokenizer type %.100s is not known: it must be sentencepiece, huggingface or tiktoken",
                        path, type);
    tok *made = calloc(1, sizeof *made);
    if (!made)
        return tok_fail(err, TOK_NO_MEMORY, "%.300s: out of memory", path);
    int failed = types[i].open(path, made, err);
    if (made->bpe)
        made->vocab = &made->bpe->vocab;
    if (failed)
        tok_close(made);
    else
        *tokenizer = made;
    return failed;
}

int tok_open_pieces(const struct tok_pieces *pieces, tok **tokenizer, struct tok_err *err)
{
    tok *made = calloc(1, sizeof *made);
    if (!made)
        return tok_fail(err, TOK_NO_MEMORY, "%.300s: out of memory", pieces->where);
    int failed = bpe_pieces(pieces, &made->bpe, err);
    if (failed) {
        free(made);
        return failed;
    }
    made->vocab = &made->bpe->vocab;
    *tokenizer = made;
    return TOK_OK;
}

void tok_close(tok *tokenizer)
{
    if (!tokenizer)
        return;
    sentencepiece_close(tokenizer->pieces);
    vocab_release(&tokenizer->own);
    bpe_free(tokenizer->bpe);
    free(tokenizer);
}

const struct vocab *tok_vocab(const tok *tokenizer)
{
    return tokenizer->vocab;
}

uint32_t tok_vocab_size(const tok *tokenizer)
{
    return tokenizer->vocab->size;
}

static int spell_bytes(const tok *tokenizer, const char *text, size_t length, struct tok_ids *list, struct tok_err *err)
{
    for (size_t i = 0; i < length; i++) {
        int32_t id = tokenizer->vocab->byte_ids[(unsigned char)text[i]];
        int failed = id < 0
                         ? bpe_encode(tokenizer->bpe, &tokenizer->stop, REPLACEMENT, sizeof REPLACEMENT - 1, list, err)
                         : tok_ids_append(list, id, err);
        if (failed)
            return failed;
    }
    return TOK_OK;
}

static bool stands_for(const tok *tokenizer, const struct tok_ids *list, size_t first, const char *text, size_t length)
{
    for (size_t i = first; i < list->count; i++) {
        const char *bytes;
        size_t n = tok_bytes(tokenizer, list->ids[i], &bytes);
        if (n == 0 || n > length || memcmp(bytes, text, n) != 0)
            return false;
        text += n;
        length -= n;
    }
    return length == 0;
}

// UTF-8 goes through the library; what a strange model makes it refuse, or turn into anything else (control symbols,
// for instance), is spelled in bytes.
static int encode_run(const tok *tokenizer, const char *text, size_t length, struct tok_ids *list, struct tok_err *err)
{
    size_t first = list->count;
    if (length == 0)
        return TOK_OK;
    if (tokenizer->bpe)
        return bpe_encode(tokenizer->bpe, &tokenizer->stop, text, length, list, err);
    int failed = sentencepiece_encode(tokenizer->pieces, text, length, list, err);
    if (failed == TOK_NO_MEMORY || (!failed && stands_for(tokenizer, list, first, text, length)))
        return failed;
    list->count = first;
    return spell_bytes(tokenizer, text, length, list, err);
}

void tok_set_cancelled(tok *tokenizer, bool (*cancelled)(void *context), void *context)
{
    tokenizer->stop = (struct pattern_stop){cancelled, context};
}

// What is not UTF-8 is spelled in bytes, and so is U+2581 where SentencePiece writes a space as that.
int tok_encode(const tok *tokenizer, const char *text, size_t length, struct tok_ids *list, struct tok_err *err)
{
    size_t before = list->count;
    size_t run = 0;
    int failed = TOK_OK;
    if (length > TEXT_BYTES_MAX)
        return tok_fail(err, TOK_UNSUPPORTED, "a text of %zu bytes is too long: give at most %d MiB", length,
                        TEXT_BYTES_MAX >> 20);
    for (size_t at = 0; at < length && !failed;) {
        uint32_t code;
        int found = tok_utf8(text + at, length - at, &code);
        size_t n = found > 0 ? (size_t)found : found < 0 ? (size_t)-found : length - at;
        if (found <= 0 || (code == SPACE_MARK && tokenizer->pieces)) {
            failed = encode_run(tokenizer, text + run, at - run, list, err);
            if (!failed)
                failed = spell_bytes(tokenizer, text + at, n, list, err);
            run = at + n;
        }
        at += n;
    }
    if (!failed)
        failed = encode_run(tokenizer, text + run, length - run, list, err);
    if (failed)
        list->count = before;
    return failed;
}

size_t tok_bytes(const tok *tokenizer, int32_t id, const char **bytes)
{
    const struct vocab *vocab = tokenizer->vocab;
    *bytes = vocab->bytes;
    if (id < 0 || (uint32_t)id >= vocab->size || vocab->kind[id] == VOCAB_CONTROL || vocab->kind[id] == VOCAB_UNKNOWN)
        return 0;
    *bytes += vocab->start[id];
    return vocab->start[id + 1] - vocab->start[id];
}

int32_t tok_control(const tok *tokenizer, const char *symbol)
{
    const struct vocab *vocab = tokenizer->vocab;
    size_t length = strlen(symbol);
    for (uint32_t id = 0; id < vocab->size; id++)
        if ((vocab->kind[id] == VOCAB_CONTROL || vocab->kind[id] == VOCAB_MARK) &&
            vocab->start[id + 1] - vocab->start[id] == length &&
            memcmp(vocab->bytes + vocab->start[id], symbol, length) == 0)
            return (int32_t)id;
    return -1;
}
