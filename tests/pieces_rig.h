// SPDX-License-Identifier: GPL-3.0-or-later
// A GGUF's arrays made from the files of tests/unit/data as llama.cpp's converter makes them, for tests.
#ifndef MOECHAT_TEST_PIECES_RIG_H
#define MOECHAT_TEST_PIECES_RIG_H

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/tok.h"

enum { RIG_TOKENS = 1 << 18, RIG_MERGES = 1 << 19, RIG_TOKEN = 1024 };

struct pieces_rig {
    struct tok_pieces pieces; // shows what is below
    struct tok_view tokens[RIG_TOKENS], merges[RIG_MERGES];
    int32_t types[RIG_TOKENS];
    char *token_text[RIG_TOKENS], *merge_text[RIG_MERGES];
};

static inline void rig_stop(const char *what, const char *which)
{
    printf("no room, or no file, for the %s %s\n", what, which);
    exit(1);
}

static inline void rig_token(struct pieces_rig *rig, size_t id, const char *text, int32_t type)
{
    if (id >= RIG_TOKENS || strlen(text) >= RIG_TOKEN)
        rig_stop("token", text);
    free(rig->token_text[id]);
    rig->token_text[id] = strdup(text);
    rig->tokens[id] = (struct tok_view){rig->token_text[id], strlen(text)};
    rig->types[id] = type;
    for (; rig->pieces.n_tokens <= id; rig->pieces.n_tokens++) { // ids without a token so far
        size_t gap = rig->pieces.n_tokens;
        if (gap == id)
            continue;
        char name[32];
        snprintf(name, sizeof name, "[PAD%zu]", gap);
        rig->token_text[gap] = strdup(name);
        rig->tokens[gap] = (struct tok_view){rig->token_text[gap], strlen(name)};
        rig->types[gap] = 5;
    }
    rig->pieces.n_types = rig->pieces.n_tokens;
}

static inline void rig_merge(struct pieces_rig *rig, const char *left, const char *right)
{
    size_t at = rig->pieces.n_merges++;
    size_t n = strlen(left), m = strlen(right);
    if (at >= RIG_MERGES || n + m + 2 > RIG_TOKEN)
        rig_stop("merge", left);
    char text[RIG_TOKEN];
    memcpy(text, left, n + 1);
    if (m) {
        text[n++] = ' ';
        memcpy(text + n, right, m + 1);
    }
    rig->merge_text[at] = strdup(text);
    rig->merges[at] = (struct tok_view){rig->merge_text[at], n + m};
}

static inline struct pieces_rig *rig_new(const char *where, const char *pre)
{
    struct pieces_rig *rig = calloc(1, sizeof *rig);
    if (!rig)
        rig_stop("arrays of", where);
    rig->pieces = (struct tok_pieces){.where = where,
                                      .model = {"gpt2", 4},
                                      .pre = {pre, strlen(pre)},
                                      .tokens = rig->tokens,
                                      .types = rig->types,
                                      .merges = rig->merges,
                                      .bos = -1,
                                      .eos = -1,
                                      .eot = -1,
                                      .eom = -1};
    return rig;
}

static inline void rig_free(struct pieces_rig *rig)
{
    for (size_t i = 0; i < RIG_TOKENS; i++)
        free(rig->token_text[i]);
    for (size_t i = 0; i < RIG_MERGES; i++)
        free(rig->merge_text[i]);
    free(rig);
}

static inline bool rig_looks_special(const char *text)
{
    static const char *const ends[][2] = {{"<|", "|>"}, {"<\xEF\xBD\x9C", "\xEF\xBD\x9C>"}};
    size_t length = strlen(text);
    for (int i = 0; i < 2; i++) {
        size_t n = strlen(ends[i][0]), m = strlen(ends[i][1]);
        if (length >= n && memcmp(text, ends[i][0], n) == 0 && memcmp(text + length - m, ends[i][1], m) == 0)
            return true;
    }
    return false;
}

// The arrays of a tokenizer.json. Tokens of `left_out`, or NULL, become [PADn]: they take spaces in, which no GGUF
// says.
static inline struct pieces_rig *rig_json(const char *path, const char *pre, const char *left_out)
{
    struct json_object *root = json_object_from_file(path);
    struct pieces_rig *rig = rig_new(path, pre);
    if (!root)
        rig_stop("tokenizer", path);
    struct json_object *model = json_object_object_get(root, "model");
    json_object_object_foreach(json_object_object_get(model, "vocab"), key, value)
    {
        rig_token(rig, (size_t)json_object_get_int64(value), key, 1);
    }
    struct json_object *added = json_object_object_get(root, "added_tokens");
    for (size_t i = 0; i < json_object_array_length(added); i++) {
        struct json_object *token = json_object_array_get_idx(added, i);
        const char *content = json_object_get_string(json_object_object_get(token, "content"));
        bool special = json_object_get_boolean(json_object_object_get(token, "special"));
        if (!left_out || !strstr(left_out, content))
            rig_token(rig, (size_t)json_object_get_int64(json_object_object_get(token, "id")), content,
                      special || rig_looks_special(content) ? 3 : 4);
    }
    struct json_object *merges = json_object_object_get(model, "merges");
    for (size_t i = 0; i < json_object_array_length(merges); i++) {
        struct json_object *merge = json_object_array_get_idx(merges, i);
        bool pair = json_object_is_type(merge, json_type_array);
        rig_merge(rig, json_object_get_string(pair ? json_object_array_get_idx(merge, 0) : merge),
                  pair ? json_object_get_string(json_object_array_get_idx(merge, 1)) : "");
    }
    json_object_put(root);
    return rig;
}

// Base64 to the byte-level alphabet.
static inline void rig_respell(const char *base64, char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned bits = 0;
    for (int n = 0; *base64 && *base64 != '='; base64++) {
        bits = bits << 6 | (unsigned)(strchr(digits, *base64) - digits);
        if ((n += 6) < 8)
            continue;
        n -= 8;
        unsigned byte = bits >> n & 0xFF, code = byte;
        if (byte <= 0x20) // the bytes that are not printed, in their order
            code = 256 + byte;
        else if (byte >= 0x7F && byte <= 0xA0)
            code = 256 + 33 + byte - 0x7F;
        else if (byte == 0xAD)
            code = 256 + 33 + 34;
        if (code >= 0x80)
            *out++ = (char)(0xC0 | code >> 6);
        *out++ = (char)(code < 0x80 ? code : 0x80 | (code & 0x3F));
    }
    *out = 0;
}

// The arrays of Kimi's files, where every symbol is a control symbol. Its merges are not what tiktoken does: without
// those of pieces that other programs can't take apart.
static inline struct pieces_rig *rig_tiktoken(const char *model, const char *config)
{
    FILE *file = fopen(model, "rb");
    struct json_object *root = json_object_from_file(config);
    struct pieces_rig *rig = rig_new(model, "kimi-k2");
    char line[RIG_TOKEN], text[2 * RIG_TOKEN];
    unsigned rank = 0;
    if (!file || !root)
        rig_stop("tokenizer", model);
    while (fgets(line, sizeof line, file)) {
        char *space = strchr(line, ' ');
        *space = 0;
        rank = (unsigned)atoi(space + 1);
        rig_respell(line, text);
        rig_token(rig, rank, text, 1);
    }
    for (unsigned i = 1; i <= 256; i++) {
        snprintf(text, sizeof text, "<|reserved_token_%u|>", rank + i);
        rig_token(rig, rank + i, text, 3);
    }
    json_object_object_foreach(json_object_object_get(root, "added_tokens_decoder"), key, token)
    {
        rig_token(rig, (size_t)atoi(key), json_object_get_string(json_object_object_get(token, "content")), 3);
    }
    fclose(file);
    json_object_put(root);
    return rig;
}

#endif
