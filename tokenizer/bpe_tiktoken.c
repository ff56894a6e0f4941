// SPDX-License-Identifier: GPL-3.0-or-later
// tiktoken.model: a line "BASE64 RANK" for each piece; the rank is its id and the order of merging. Control symbols are
// the 256 ids after them, named in tokenizer_config.json's added_tokens_decoder.
// Source of the number of control symbols: Moonshot's tokenization_kimi.py (Kimi K2, Moonlight). That also cuts runs of
// more than 25000 characters; the tiktoken library, which this follows, does not.
#include "tokenizer/bpe.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/json_text.h"
#include "tokenizer/pre.h"
#include "tokenizer/tok_err.h"

enum { PIECE_BYTES_MAX = 512, CONTROLS = 256, NAME_SIZE = 32 };

struct reading {
    const struct bpe_tiktoken_files *files;
    struct tok_err *err;
    struct bpe *bpe;
    struct vocab_piece *pieces;
    uint32_t n_ranks;
    char *pool;
    size_t used;
    char (*reserved)[NAME_SIZE];
};

static int digit_of(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

// Decodes base64 up to `end` to `out`; -1: it is none.
static ptrdiff_t decode(const char *text, const char *end, char *out)
{
    char *begin = out;
    while (end > text && end[-1] == '=' && (end - text) % 4 != 1)
        end--;
    uint32_t bits = 0;
    int n_bits = 0;
    for (; text < end; text++) {
        int digit = digit_of(*text);
        if (digit < 0)
            return -1;
        bits = bits << 6 | (uint32_t)digit;
        n_bits += 6;
        if (n_bits >= 8) {
            n_bits -= 8;
            *out++ = (char)(bits >> n_bits & 0xFF);
        }
    }
    return n_bits >= 6 || (bits & ((1u << n_bits) - 1)) ? -1 : out - begin;
}

static int bad_line(const struct reading *r, uint32_t line)
{
    return tok_fail(r->err, TOK_FORMAT, "%.300s: line %u is not a piece and the next rank: fetch the file again",
                    r->files->ranks_path, (unsigned)line + 1);
}

// Ranks must count up from 0, as they do in Kimi's files.
static int read_ranks(struct reading *r)
{
    const char *at = r->files->ranks, *end = at + r->files->ranks_length;
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop : end;
        const char *space = memchr(at, ' ', (size_t)(stop - at));
        char number[16];
        int length = snprintf(number, sizeof number, "%u", (unsigned)r->n_ranks);
        const char *text_end = stop > at && stop[-1] == '\r' ? stop - 1 : stop;
        if (!space || space == at || text_end - space - 1 != length || memcmp(space + 1, number, (size_t)length) != 0 ||
            r->n_ranks >= BPE_IDS - CONTROLS)
            return bad_line(r, r->n_ranks);
        char *bytes = r->pool + r->used;
        ptrdiff_t n = decode(at, space, bytes);
        if (n <= 0 || n > PIECE_BYTES_MAX)
            return bad_line(r, r->n_ranks);
        r->pieces[r->n_ranks++] =
            (struct vocab_piece){.bytes = bytes, .length = (uint32_t)n, .kind = VOCAB_TEXT, .flags = VOCAB_MERGED};
        r->used += (size_t)n;
        at = stop < end ? stop + 1 : end;
    }
    return TOK_OK;
}

static int bad_config(const struct reading *r, const char *what)
{
    return tok_fail(r->err, TOK_FORMAT, "%.250s: added_tokens_decoder %.100s: fetch the file again",
                    r->files->config_path, what);
}

static int name_control(struct reading *r, const char *key, struct json_object *token)
{
    struct json_object *content = NULL, *special = NULL;
    char *end;
    long id = *key >= '0' && *key <= '9' ? strtol(key, &end, 10) : -1;
    if (id < 0 || *end || !json_object_object_get_ex(token, "content", &content) ||
        !json_object_is_type(content, json_type_string) || json_object_get_string_len(content) == 0)
        return bad_config(r, "has a symbol without id or content");
    if (id < (long)r->n_ranks || id >= (long)r->n_ranks + CONTROLS)
        return bad_config(r, "has an id outside the 256 after the ranks");
    if (json_object_get_string_len(content) > BPE_TOKEN_BYTES) {
        char what[80];
        snprintf(what, sizeof what, "has a symbol of more than %d bytes", BPE_TOKEN_BYTES);
        return bad_config(r, what);
    }
    bool silent = !json_object_object_get_ex(token, "special", &special) || json_object_get_boolean(special);
    r->pieces[id] = (struct vocab_piece){.bytes = json_object_get_string(content),
                                         .length = (uint32_t)json_object_get_string_len(content),
                                         .kind = silent ? VOCAB_CONTROL : VOCAB_MARK,
                                         .flags = VOCAB_ADDED};
    return TOK_OK;
}

static int read_controls(struct reading *r, struct json_object *config)
{
    struct json_object *symbols;
    int failed = TOK_OK;
    if (!json_object_object_get_ex(config, "added_tokens_decoder", &symbols) ||
        !json_object_is_type(symbols, json_type_object))
        return bad_config(r, "is missing");
    for (uint32_t i = 0; i < CONTROLS; i++) {
        uint32_t id = r->n_ranks + i;
        int length = snprintf(r->reserved[i], sizeof r->reserved[i], "<|reserved_token_%u|>", (unsigned)id);
        r->pieces[id] = (struct vocab_piece){
            .bytes = r->reserved[i], .length = (uint32_t)length, .kind = VOCAB_CONTROL, .flags = VOCAB_ADDED};
    }
    json_object_object_foreach(symbols, key, token)
    {
        failed = failed ? failed : name_control(r, key, token);
    }
    return failed;
}

static int read_all(struct reading *r, struct json_object *config)
{
    int failed = read_ranks(r);
    if (!failed)
        failed = read_controls(r, config);
    if (!failed)
        failed = vocab_fill(&r->bpe->vocab, r->pieces, r->n_ranks + CONTROLS, r->files->ranks_path, r->err);
    if (!failed)
        failed = bpe_finish_vocab(r->bpe, r->files->ranks_path, r->err);
    if (!failed)
        failed = bpe_merge_ranks(r->bpe, r->err);
    return failed ? failed : pre_apply(pre_find("kimi-k2", 7), r->bpe, r->files->ranks_path, r->err);
}

int bpe_tiktoken(const struct bpe_tiktoken_files *files, struct bpe **bpe, struct tok_err *err)
{
    struct reading r = {.files = files, .err = err, .bpe = calloc(1, sizeof *r.bpe)};
    size_t lines = 1;
    int failed;
    for (size_t i = 0; i < files->ranks_length; i++)
        lines += files->ranks[i] == '\n';
    r.pieces = lines < BPE_IDS ? calloc(lines + CONTROLS, sizeof *r.pieces) : NULL;
    r.pool = malloc(files->ranks_length + 1);
    r.reserved = calloc(CONTROLS, sizeof *r.reserved);
    struct json_object *config = NULL;
    if (!r.bpe || !r.pieces || !r.pool || !r.reserved)
        failed = tok_fail(err, TOK_NO_MEMORY, "%.300s: out of memory for %zu pieces", files->ranks_path, lines);
    else
        failed = json_text_parse(files->config, files->config_length, files->config_path, &config, err);
    if (!failed)
        failed = read_all(&r, config);
    json_object_put(config);
    free(r.pieces);
    free(r.pool);
    free(r.reserved);
    if (failed)
        bpe_free(r.bpe);
    else
        *bpe = r.bpe;
    return failed;
}
