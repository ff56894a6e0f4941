// SPDX-License-Identifier: GPL-3.0-or-later
#include "tok.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sentencepiece.h"
#include "tok_err.h"
#include "vocab.h"

enum { FILE_BYTES_MAX = 64 << 20, TEXT_BYTES_MAX = 16 << 20, SPACE_MARK = 0x2581 };

struct tok {
    struct vocab vocab;
    struct pieces *pieces;
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

// The whole file in memory that the caller frees.
static int read_file(const char *path, char **bytes, size_t *length, struct tok_err *err)
{
    int failed = TOK_OK;
    struct stat about;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe must be refused, not waited for
    FILE *file = fd < 0 ? NULL : fdopen(fd, "rb");
    if (!file || fstat(fileno(file), &about) != 0) {
        failed = tok_fail(err, TOK_NOT_FOUND, "%.300s: can't be opened: %s", path, strerror(errno));
        goto close_file;
    }
    if (!S_ISREG(about.st_mode) || about.st_size <= 0 || about.st_size > FILE_BYTES_MAX) {
        failed = tok_fail(err, TOK_FORMAT, "%.300s: not a file of 1 byte to %d MiB: name a SentencePiece model", path,
                          FILE_BYTES_MAX >> 20);
        goto close_file;
    }
    *length = (size_t)about.st_size;
    *bytes = malloc(*length);
    if (!*bytes) {
        failed = tok_fail(err, TOK_NO_MEMORY, "%.300s: out of memory for %zu bytes", path, *length);
    } else if (fread(*bytes, 1, *length, file) != *length) {
        failed = tok_fail(err, TOK_FORMAT, "%.300s: could not be read to its end: fetch the file again", path);
        free(*bytes);
    }
close_file:
    if (file)
        fclose(file);
    else if (fd >= 0)
        close(fd);
    return failed;
}

int tok_open(const char *type, const char *path, tok **tokenizer, struct tok_err *err)
{
    char *file = NULL;
    size_t length = 0;
    if (strcmp(type, "sentencepiece") != 0)
        return tok_fail(err, TOK_UNSUPPORTED, "%.300s: tokenizer type %.100s is not known: it must be sentencepiece",
                        path, type);
    int failed = read_file(path, &file, &length, err);
    if (failed)
        return failed;
    tok *made = calloc(1, sizeof *made);
    if (!made)
        failed = tok_fail(err, TOK_NO_MEMORY, "%.300s: out of memory", path);
    if (!failed)
        failed = vocab_init(&made->vocab, file, length, path, err);
    if (!failed)
        failed = sentencepiece_open(file, length, path, &made->pieces, err);
    if (!failed && sentencepiece_vocab_size(made->pieces) != made->vocab.size)
        failed = tok_fail(err, TOK_FORMAT, "%.300s: its pieces can't be counted: fetch the file again", path);
    free(file);
    if (failed)
        tok_close(made);
    else
        *tokenizer = made;
    return failed;
}

void tok_close(tok *tokenizer)
{
    if (!tokenizer)
        return;
    sentencepiece_close(tokenizer->pieces);
    vocab_release(&tokenizer->vocab);
    free(tokenizer);
}

uint32_t tok_vocab_size(const tok *tokenizer)
{
    return tokenizer->vocab.size;
}

static int spell_bytes(const tok *tokenizer, const char *text, size_t length, struct tok_ids *list, struct tok_err *err)
{
    for (size_t i = 0; i < length; i++) {
        int failed = tok_ids_append(list, tokenizer->vocab.byte_ids[(unsigned char)text[i]], err);
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
    int failed = sentencepiece_encode(tokenizer->pieces, text, length, list, err);
    if (failed == TOK_NO_MEMORY || (!failed && stands_for(tokenizer, list, first, text, length)))
        return failed;
    list->count = first;
    return spell_bytes(tokenizer, text, length, list, err);
}

// The library writes a space as U+2581 and puts U+FFFD for what is not UTF-8: both are spelled in bytes instead.
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
        if (found <= 0 || code == SPACE_MARK) {
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
    const struct vocab *vocab = &tokenizer->vocab;
    *bytes = vocab->bytes;
    if (id < 0 || (uint32_t)id >= vocab->size || (vocab->kind[id] != VOCAB_TEXT && vocab->kind[id] != VOCAB_BYTE))
        return 0;
    *bytes += vocab->start[id];
    return vocab->start[id + 1] - vocab->start[id];
}

int32_t tok_control(const tok *tokenizer, const char *symbol)
{
    const struct vocab *vocab = &tokenizer->vocab;
    size_t length = strlen(symbol);
    for (uint32_t id = 0; id < vocab->size; id++)
        if (vocab->kind[id] == VOCAB_CONTROL && vocab->start[id + 1] - vocab->start[id] == length &&
            memcmp(vocab->bytes + vocab->start[id], symbol, length) == 0)
            return (int32_t)id;
    return -1;
}
