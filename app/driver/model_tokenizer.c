// SPDX-License-Identifier: GPL-3.0-or-later
// Opens the tokenizer and the template of a model, wherever they are.
#include "app/driver/model_tokenizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "app/driver/backend.h"
#include "app/util/files.h"

enum { TOKENIZER_LIMIT = 256 << 20, KIMI_CONTROLS = 256 };

static int fail_tok(struct moe_err *err, const struct tok_err *tok_err)
{
    static const enum moe_code codes[] = {MOE_OK, MOE_NOT_FOUND, MOE_FORMAT, MOE_UNSUPPORTED, MOE_NO_MEMORY};
    return backend_fail(err, codes[tok_err->code], "%s", tok_err->text);
}

// ---- A GGUF's own

static struct tok_view view_of(struct moe_text text)
{
    return (struct tok_view){text.bytes, text.length};
}

static struct tok_view *views_of(const struct moe_text *texts, size_t count)
{
    struct tok_view *views = calloc(count + 1, sizeof *views);
    for (size_t i = 0; views && i < count; i++)
        views[i] = view_of(texts[i]);
    return views;
}

static void add_texts(XXH3_state_t *hash, const struct moe_text *texts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t length = texts[i].length;
        XXH3_64bits_update(hash, &length, sizeof length);
        XXH3_64bits_update(hash, texts[i].bytes, texts[i].length);
    }
}

// A role makes a control symbol of a token that would be text; of one that would not it changes no ids.
static void add_roles(XXH3_state_t *hash, const struct moe_vocabulary *v)
{
    enum { NORMAL = 1, UNKNOWN };
    const int32_t roles[] = {v->bos, v->eos, v->eot, v->eom};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        size_t id = roles[i] >= 0 ? (size_t)roles[i] : SIZE_MAX;
        int32_t type = v->types && id < v->n_types ? v->types[id] : NORMAL;
        if (id < v->n_tokens && (type == NORMAL || type == UNKNOWN))
            XXH3_64bits_update(hash, &roles[i], sizeof roles[i]);
    }
}

static bool digest_vocabulary(const struct moe_vocabulary *v, char digest[17])
{
    XXH3_state_t *hash = XXH3_createState();
    if (!hash)
        return false;
    XXH3_64bits_reset(hash);
    add_texts(hash, &v->model, 1);
    add_texts(hash, &v->pre, 1);
    add_texts(hash, v->tokens, v->n_tokens);
    add_texts(hash, v->merges, v->n_merges);
    XXH3_64bits_update(hash, v->types, v->n_types * sizeof *v->types);
    add_roles(hash, v);
    snprintf(digest, 17, "%016" PRIx64, (uint64_t)XXH3_64bits_digest(hash));
    XXH3_freeState(hash);
    return true;
}

static int open_pieces(const struct moe_vocabulary *v, struct model_tokenizer *out, struct tok_err *tok_err)
{
    struct tok_view *tokens = views_of(v->tokens, v->n_tokens);
    struct tok_view *merges = views_of(v->merges, v->n_merges);
    const struct tok_pieces pieces = {
        .where = v->where,
        .model = view_of(v->model),
        .pre = view_of(v->pre),
        .tokens = tokens,
        .types = v->types,
        .merges = v->merges ? merges : NULL,
        .n_tokens = v->n_tokens,
        .n_types = v->n_types,
        .n_merges = v->n_merges,
        .bos = v->bos,
        .eos = v->eos,
        .eot = v->eot,
        .eom = v->eom,
    };
    int code = TOK_NO_MEMORY;
    snprintf(tok_err->text, sizeof tok_err->text, "%s: no memory for its vocabulary", v->where);
    if (tokens && merges && digest_vocabulary(v, out->digest))
        code = tok_open_pieces(&pieces, &out->tokenizer, tok_err);
    tok_err->code = (enum tok_code)code;
    free(tokens);
    free(merges);
    return code;
}

static int open_vocabulary(const char *directory, struct model_tokenizer *out, struct tok_err *tok_err,
                           struct moe_err *err)
{
    struct moe_vocabulary *v;
    int code = moe_vocabulary_open(directory, &v, err);
    if (code)
        return code;
    const char *name = tok_template_detect(v->chat_template.bytes, v->chat_template.length);
    out->has_template = v->chat_template.length > 0;
    if (name)
        snprintf(out->template_name, sizeof out->template_name, "%s", name);
    out->kind = "gguf";
    if (open_pieces(v, out, tok_err))
        code = fail_tok(err, tok_err);
    moe_vocabulary_close(v);
    return code;
}

// ---- A file

static int digest_file(const char *path, char digest[17], struct moe_err *err)
{
    struct bytes file = {0};
    int code = files_read(path, TOKENIZER_LIMIT, &file);
    if (code == 0)
        snprintf(digest, 17, "%016" PRIx64, (uint64_t)XXH3_64bits(file.data, file.length));
    bytes_release(&file);
    return code ? backend_fail(err, MOE_IO, "%.300s: %s", path, strerror(code)) : 0;
}

static int open_file(const struct moe_description *about, struct model_tokenizer *out, struct moe_err *err)
{
    struct tok_err tok_err;
    out->kind = about->tokenizer_type;
    if (tok_open(about->tokenizer_type, about->tokenizer_file, &out->tokenizer, &tok_err))
        return fail_tok(err, &tok_err);
    return digest_file(about->tokenizer_file, out->digest, err);
}

// Where Kimi's own files have what their templates write, among the ids behind the ranks; -1: none of them has it.
// Sources: tokenizer_config.json of Kimi K2 and its kin, and of Kimi K3.
static int32_t kimi_place(const char *symbol)
{
    static const struct {
        const char *symbol;
        int32_t place;
    } own[] = {{"<|im_end|>", 2},     {"<|im_user|>", 3}, {"<|im_assistant|>", 4}, {"<|im_system|>", 10},
               {"<|im_middle|>", 17}, {"<think>", 22},    {"</think>", 23},        {"<|end_of_msg|>", 2},
               {"<|open|>", 3},       {"<|close|>", 4},   {"<|sep|>", 5}};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(own[i].symbol, symbol) == 0)
            return own[i].place;
    return -1;
}

void model_tokenizer_bind(struct model_tokenizer *own, const tok_template *turns)
{
    uint64_t sum = XXH3_64bits(own->digest, strlen(own->digest));
    int32_t ranks = (int32_t)tok_vocab_size(own->tokenizer) - KIMI_CONTROLS, id = -1;
    bool usual = true;
    if (strcmp(own->kind, "tiktoken") != 0)
        return;
    const char *symbol;
    for (size_t i = 0; (symbol = tok_template_symbol(turns, i, &id)) != NULL; i++) {
        int32_t place = kimi_place(symbol);
        usual = usual && place >= 0 && id == ranks + place;
        sum = XXH3_64bits_withSeed(symbol, strlen(symbol), sum);
        sum = XXH3_64bits_withSeed(&id, sizeof id, sum);
    }
    if (!usual)
        snprintf(own->digest, sizeof own->digest, "%016" PRIx64, sum);
}

// The folder that the model, or its first file, is in.
static void folder_of(const char *directory, const struct moe_description *about, char folder[4096])
{
    const char *inside = *about->tokenizer_file ? about->tokenizer_file : directory;
    struct stat status;
    snprintf(folder, 4096, "%s", directory);
    if (stat(directory, &status) == 0 && S_ISDIR(status.st_mode))
        return;
    const char *slash = strrchr(inside, '/');
    snprintf(folder, 4096, "%.*s", slash ? (int)(slash - inside) : 1, slash ? inside : ".");
}

int model_tokenizer_find_template(const char *directory, const struct moe_description *about,
                                  struct model_tokenizer *own, struct moe_err *err)
{
    struct tok_folder folder = {.n_files = 0};
    struct tok_err tok_err;
    char path[4096];
    if (own->has_template)
        return 0;
    folder_of(directory, about, path);
    if (tok_folder_read(path, &folder, &tok_err))
        return fail_tok(err, &tok_err);
    snprintf(own->template_name, sizeof own->template_name, "%s", folder.template_name);
    own->has_template = folder.has_template;
    // Their makers ship none, but a program that not every copy has.
    if (!own->has_template && strcmp(about->model_type, "deepseek_v32") == 0)
        snprintf(own->template_name, sizeof own->template_name, "deepseek-v3.2");
    if (!own->has_template && strncmp(about->model_type, "kimi_k3", 7) == 0)
        snprintf(own->template_name, sizeof own->template_name, "kimi-k3");
    return 0;
}

int model_tokenizer_open(const char *directory, const struct moe_description *about, struct model_tokenizer *out,
                         struct moe_err *err)
{
    struct tok_err tok_err = {.code = TOK_OK};
    *out = (struct model_tokenizer){.kind = ""};
    int code = 0;
    if (about->vocabulary)
        code = open_vocabulary(directory, out, &tok_err, err);
    else if (!*about->tokenizer_file)
        code = backend_fail(err, MOE_UNSUPPORTED, "%s: no tokenizer, so it cannot chat; moechat eval --tokens works",
                            directory);
    bool beside = *about->tokenizer_file && (!about->vocabulary || tok_err.code == TOK_UNSUPPORTED);
    if (beside)
        code = open_file(about, out, err);
    if (!code && tok_vocab_size(out->tokenizer) > about->vocab_size)
        code = backend_fail(err, MOE_FORMAT, "%s: has %u pieces, more than the model's vocab_size of %u",
                            beside ? about->tokenizer_file : directory, (unsigned)tok_vocab_size(out->tokenizer),
                            (unsigned)about->vocab_size);
    if (code) {
        tok_close(out->tokenizer);
        out->tokenizer = NULL;
    }
    return code;
}
