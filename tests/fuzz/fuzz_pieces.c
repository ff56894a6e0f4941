// SPDX-License-Identifier: GPL-3.0-or-later
// Any bytes as a GGUF's arrays: refused, or a tokenizer whose ids give text back. A line of model, pre, the four ids
// and how many types there are beyond the tokens; a line for each token, its type in front; an empty line; merges.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/bpe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LINES = 4096 };

struct input {
    struct tok_pieces pieces;
    struct tok_view tokens[LINES], merges[LINES];
    int32_t types[LINES];
    char model[16], pre[24];
};

static struct tok_view next_line(const char **at, const char *end)
{
    const char *stop = memchr(*at, '\n', (size_t)(end - *at));
    struct tok_view line = {*at, (size_t)((stop ? stop : end) - *at)};
    *at = stop ? stop + 1 : end;
    return line;
}

static bool read_head(struct input *in, struct tok_view line, int *beyond)
{
    char text[120];
    struct tok_pieces *p = &in->pieces;
    snprintf(text, sizeof text, "%.*s", (int)(line.length < 100 ? line.length : 100), line.bytes);
    if (sscanf(text, "%15s %23s %6d %6d %6d %6d %6d", in->model, in->pre, &p->bos, &p->eos, &p->eot, &p->eom, beyond) !=
        7)
        return false;
    p->model = (struct tok_view){in->model, strlen(in->model)};
    p->pre = (struct tok_view){in->pre, strlen(in->pre)};
    return true;
}

static bool read_input(struct input *in, const char *at, const char *end)
{
    int beyond = 0;
    struct tok_pieces *p = &in->pieces;
    if (at == end || !read_head(in, next_line(&at, end), &beyond))
        return false;
    while (at < end && *at != '\n' && p->n_tokens < LINES) {
        struct tok_view line = next_line(&at, end);
        in->types[p->n_tokens] = line.bytes[0] - '0';
        in->tokens[p->n_tokens++] = (struct tok_view){line.bytes + 1, line.length - 1};
    }
    for (at += at < end; at < end && p->n_merges < LINES;)
        in->merges[p->n_merges++] = next_line(&at, end);
    p->where = "fuzz.gguf";
    p->tokens = in->tokens;
    p->types = beyond == 7 ? NULL : in->types;
    p->n_types = p->n_tokens + (size_t)beyond;
    p->merges = in->merges;
    return true;
}

static void check_text(const struct bpe *bpe, const char *text, size_t length)
{
    struct tok_ids list = {0};
    size_t at = 0;
    if (bpe_encode(bpe, &(struct pattern_stop){0}, text, length, &list, NULL) != TOK_OK)
        abort();
    for (size_t i = 0; i < list.count; i++) {
        uint32_t id = (uint32_t)list.ids[i];
        if (id >= bpe->vocab.size || bpe->vocab.kind[id] != VOCAB_TEXT || bpe->vocab.flags[id] & VOCAB_ENDS)
            abort();
        size_t n = bpe->vocab.start[id + 1] - bpe->vocab.start[id];
        if (n > length - at || memcmp(bpe->vocab.bytes + bpe->vocab.start[id], text + at, n) != 0)
            abort();
        at += n;
    }
    if (at != length)
        abort();
    tok_ids_release(&list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char text[] = "hello  the <s>~\n\xC3\xA9 AaaaAAaa 12345 \xE4\xB8\xAD\xE6\x96\x87's \xC3\xBC\t\t x";
    static struct input in;
    struct bpe *bpe = NULL;
    struct tok_err err = {0};
    memset(&in.pieces, 0, sizeof in.pieces);
    if (!read_input(&in, (const char *)data, (const char *)data + size))
        return 0;
    int code = bpe_pieces(&in.pieces, &bpe, &err);
    if ((code == TOK_OK) != (bpe != NULL) || (code != TOK_OK && (!*err.text || strchr(err.text, '\n'))))
        abort();
    if (bpe)
        check_text(bpe, text, sizeof text - 1);
    bpe_free(bpe);
    return 0;
}
