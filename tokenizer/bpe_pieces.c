// SPDX-License-Identifier: GPL-3.0-or-later
// A GGUF's arrays. Source of what types mean and what spellings the tokens of each have: get_vocab_base and the Kimi
// branch of llama.cpp's converter: text is in the byte-level alphabet, what was added to it (control, user-defined) is
// spelled as it is, an id without a token is called [PADn] and unused.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/alphabet.h"
#include "tokenizer/bpe.h"
#include "tokenizer/pre.h"
#include "tokenizer/tok_err.h"
#include "tokenizer/tok_file.h"

enum { MERGES_A_TOKEN = 8, NAME_ROOM = 48 };
enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };

struct reading {
    const struct tok_pieces *in;
    struct tok_err *err;
    struct bpe *bpe;
    struct vocab_piece *pieces; // [in->n_tokens]
    char *pool;                 // the pieces' bytes
    size_t used;
    struct alphabet alphabet;
};

// A name from the file as it may stand in a message.
static const char *shown(struct tok_view name, char out[NAME_ROOM])
{
    size_t n = name.length < NAME_ROOM - 1 ? name.length : NAME_ROOM - 1;
    for (size_t i = 0; i < n; i++)
        out[i] = (char)(name.bytes[i] >= ' ' && name.bytes[i] <= '~' ? name.bytes[i] : '?');
    out[n] = 0;
    return out;
}

static int damaged(const struct reading *r, const char *array, size_t at, const char *what)
{
    return tok_fail(r->err, TOK_FORMAT, "%.250s: tokenizer.ggml.%s[%zu] %s: fetch the file again", r->in->where, array,
                    at, what);
}

static bool is(struct tok_view view, const char *text)
{
    return view.length == strlen(text) && memcmp(view.bytes, text, view.length) == 0;
}

static bool is_padding(struct tok_view token, size_t id)
{
    char name[32];
    snprintf(name, sizeof name, "[PAD%zu]", id);
    return token.length == 0 || is(token, name);
}

// The marks of thinking are said to be control symbols in Kimi's files, and are shown when the model says them.
static bool is_thinking(struct tok_view token)
{
    return is(token, "<think>") || is(token, "</think>");
}

static int read_token(struct reading *r, size_t id)
{
    struct tok_view token = r->in->tokens[id];
    int32_t type = r->in->types ? r->in->types[id] : NORMAL;
    struct vocab_piece *piece = &r->pieces[id];
    char *bytes = r->pool + r->used;
    if (token.length > BPE_TOKEN_BYTES)
        return damaged(r, "tokens", id, "is too long");
    if (type < NORMAL || type > UNUSED)
        return damaged(r, "token_type", id, type == BYTE ? "is 6, which belongs to SentencePiece" : "is not 1 to 5");
    if (type == UNUSED || is_padding(token, id))
        return TOK_OK;
    *piece = (struct vocab_piece){.bytes = bytes, .length = (uint32_t)token.length};
    ptrdiff_t n = type == NORMAL ? alphabet_bytes(&r->alphabet, token.bytes, token.length, bytes) : -1;
    if (n >= 0) {
        piece->length = (uint32_t)n;
        piece->kind = VOCAB_TEXT;
        piece->flags = VOCAB_MERGED;
    } else {
        memcpy(bytes, token.bytes, token.length);
        bool plain = type == USER_DEFINED && bpe_is_plain(token.bytes, token.length);
        bool silent = type == CONTROL && !is_thinking(token);
        piece->kind = type == UNKNOWN ? VOCAB_UNKNOWN : silent ? VOCAB_CONTROL : plain ? VOCAB_TEXT : VOCAB_MARK;
        piece->flags = VOCAB_ADDED;
    }
    r->used += piece->length;
    return TOK_OK;
}

// An id that the file gives a role is a control symbol, whatever its type says; `ends`: one that ends answers.
static int read_role(struct reading *r, const char *role, int32_t id, bool ends)
{
    if (id == -1)
        return TOK_OK;
    struct vocab_piece *piece = id >= 0 && (size_t)id < r->in->n_tokens ? &r->pieces[id] : NULL;
    if (!piece || !piece->kind)
        return tok_fail(r->err, TOK_FORMAT, "%.250s: tokenizer.ggml.%s_token_id is %d, which no token has: %s",
                        r->in->where, role, (int)id, "fetch the file again");
    if (piece->kind == VOCAB_TEXT && (piece->length == 1 || bpe_is_plain(piece->bytes, piece->length)))
        return tok_fail(r->err, TOK_FORMAT, "%.250s: tokenizer.ggml.%s_token_id is %d, which is ordinary text: %s",
                        r->in->where, role, (int)id, "fetch the file again");
    piece->kind = VOCAB_CONTROL;
    piece->flags |= ends ? VOCAB_ADDED | VOCAB_ENDS : VOCAB_ADDED;
    return TOK_OK;
}

static int read_tokens(struct reading *r)
{
    const struct tok_pieces *in = r->in;
    size_t bytes = 0;
    if (in->n_tokens == 0 || in->n_tokens > BPE_IDS)
        return tok_fail(r->err, TOK_FORMAT, "%.250s: tokenizer.ggml.tokens has %zu of them, not 1 to %d: %s", in->where,
                        in->n_tokens, BPE_IDS, "fetch the file again");
    if (in->types && in->n_types != in->n_tokens)
        return tok_fail(r->err, TOK_FORMAT, "%.250s: tokenizer.ggml.token_type has %zu numbers for %zu tokens: %s",
                        in->where, in->n_types, in->n_tokens, "fetch the file again");
    for (size_t id = 0; id < in->n_tokens && bytes <= TOK_FILE_BYTES; id++)
        bytes += in->tokens[id].length < TOK_FILE_BYTES ? in->tokens[id].length : TOK_FILE_BYTES;
    if (bytes > TOK_FILE_BYTES)
        return tok_fail(r->err, TOK_FORMAT, "%.250s: tokenizer.ggml.tokens has more than %d MiB: fetch the file again",
                        in->where, TOK_FILE_BYTES >> 20);
    r->pool = malloc(bytes + 1);
    r->pieces = calloc(in->n_tokens, sizeof *r->pieces);
    if (!r->pool || !r->pieces)
        return tok_fail(r->err, TOK_NO_MEMORY, "%.300s: out of memory for %zu tokens", in->where, in->n_tokens);
    int failed = TOK_OK;
    for (size_t id = 0; id < in->n_tokens && !failed; id++)
        failed = read_token(r, id);
    const struct {
        const char *role;
        int32_t id;
    } roles[] = {{"bos", in->bos}, {"eos", in->eos}, {"eot", in->eot}, {"eom", in->eom}};
    for (size_t i = 0; i < sizeof roles / sizeof roles[0] && !failed; i++)
        failed = read_role(r, roles[i].role, roles[i].id, i > 0);
    return failed;
}

// Two ids for one spelling would make ids depend on which is found.
static int check_duplicates(const struct reading *r)
{
    const struct vocab *vocab = &r->bpe->vocab;
    for (uint32_t id = 0; id < vocab->size; id++) {
        const char *bytes = vocab->bytes + vocab->start[id];
        size_t length = vocab->start[id + 1] - vocab->start[id];
        const struct lexicon *lexicon = vocab->flags[id] & VOCAB_MERGED  ? &r->bpe->lexicon
                                        : vocab->flags[id] & VOCAB_ADDED ? &r->bpe->added[0].lexicon
                                                                         : NULL;
        if (lexicon && lexicon_find(lexicon, bytes, length) != (int32_t)id)
            return damaged(r, "tokens", id, "is there twice");
    }
    return TOK_OK;
}

// The ids of "left right" and what they become; false: they are not of the vocabulary.
static bool merge_ids(const struct reading *r, struct tok_view merge, int32_t ids[3])
{
    char bytes[2 * BPE_TOKEN_BYTES];
    const char *space = merge.length ? memchr(merge.bytes, ' ', merge.length) : NULL;
    if (!space || merge.length > sizeof bytes)
        return false;
    size_t left = (size_t)(space - merge.bytes), right = merge.length - left - 1;
    ptrdiff_t n = alphabet_bytes(&r->alphabet, merge.bytes, left, bytes);
    ptrdiff_t m = n > 0 ? alphabet_bytes(&r->alphabet, space + 1, right, bytes + n) : -1;
    if (m <= 0)
        return false;
    ids[0] = lexicon_find(&r->bpe->lexicon, bytes, (size_t)n);
    ids[1] = lexicon_find(&r->bpe->lexicon, bytes + n, (size_t)m);
    ids[2] = lexicon_find(&r->bpe->lexicon, bytes, (size_t)(n + m));
    return ids[0] >= 0 && ids[1] >= 0 && ids[2] >= 0;
}

static int read_merges(struct reading *r)
{
    const struct tok_pieces *in = r->in;
    const unsigned char *kind = r->bpe->vocab.kind;
    if (in->n_merges == 0 || in->n_merges / MERGES_A_TOKEN > in->n_tokens)
        return tok_fail(r->err, TOK_FORMAT, "%.250s: tokenizer.ggml.merges has %zu of them for %zu tokens: %s",
                        in->where, in->n_merges, in->n_tokens, "fetch the file again");
    int failed = merges_init(&r->bpe->merges, in->n_merges, r->err);
    for (size_t i = 0; i < in->n_merges && !failed; i++) {
        int32_t ids[3];
        if (!merge_ids(r, in->merges[i], ids))
            return damaged(r, "merges", i, "is not of the vocabulary");
        if (kind[ids[0]] == VOCAB_TEXT && kind[ids[1]] == VOCAB_TEXT && kind[ids[2]] == VOCAB_TEXT)
            merges_add(&r->bpe->merges,
                       &(struct merge){(uint32_t)ids[0], (uint32_t)ids[1], (uint32_t)i, (uint32_t)ids[2]});
    }
    return failed;
}

static int refuse_pre(const struct reading *r)
{
    char name[NAME_ROOM], known[160];
    pre_list(known, sizeof known);
    return tok_fail(r->err, TOK_UNSUPPORTED,
                    "%.200s: tokenizer.ggml.pre is \"%s\", and known are %s: put the model's tokenizer.json beside it",
                    r->in->where, shown(r->in->pre, name), known);
}

static int read_all(struct reading *r)
{
    char name[NAME_ROOM];
    if (!is(r->in->model, "gpt2"))
        return tok_fail(r->err, TOK_UNSUPPORTED,
                        "%.200s: tokenizer.ggml.model is \"%s\", and known is gpt2: put the model's tokenizer.json or "
                        "tokenizer.model beside it",
                        r->in->where, shown(r->in->model, name));
    const struct pre *pre = pre_find(r->in->pre.bytes, r->in->pre.length);
    if (!pre)
        return refuse_pre(r);
    alphabet_init(&r->alphabet);
    int failed = read_tokens(r);
    if (!failed)
        failed = vocab_fill(&r->bpe->vocab, r->pieces, (uint32_t)r->in->n_tokens, r->in->where, r->err);
    if (!failed)
        failed = bpe_finish_vocab(r->bpe, r->in->where, r->err);
    if (!failed)
        failed = check_duplicates(r);
    if (!failed)
        failed = pre->ranks ? bpe_merge_ranks(r->bpe, r->err) : read_merges(r);
    return failed ? failed : pre_apply(pre, r->bpe, r->in->where, r->err);
}

int bpe_pieces(const struct tok_pieces *pieces, struct bpe **bpe, struct tok_err *err)
{
    struct reading r = {.in = pieces, .err = err, .bpe = calloc(1, sizeof *r.bpe)};
    int failed = r.bpe ? read_all(&r) : tok_fail(err, TOK_NO_MEMORY, "%.300s: out of memory", pieces->where);
    free(r.pieces);
    free(r.pool);
    if (failed)
        bpe_free(r.bpe);
    else
        *bpe = r.bpe;
    return failed;
}
