// SPDX-License-Identifier: GPL-3.0-or-later
// Hands a GGUF's arrays of tokens to the tokenizer.
#include "engine/files/gguf_vocabulary.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/files/gguf_fields.h"
#include "engine/files/gguf_set.h"

enum { MAX_TEMPLATE = 1 << 20 };

struct owned {
    struct moe_vocabulary shown; // first: what people hold
    unsigned char *header;
    struct moe_text *tokens, *merges;
    int32_t *types;
};

static const char tokens_key[] = "tokenizer.ggml.tokens";

bool gguf_has_vocabulary(const struct gguf *gguf)
{
    return gguf_find(gguf, tokens_key) != NULL;
}

// A value of any type, or NULL: missing, or refused.
static const struct gguf_value *find(struct gguf_fields *f, const char *key, enum gguf_type type, bool array)
{
    const struct gguf_value *value = f->failed ? NULL : gguf_fields_find(f, key);
    if (value && (value->type != type || value->array != array)) {
        gguf_fields_fail(f, MOE_FORMAT, key, "is not %s of %s; download the file again", array ? "an array" : "one",
                         type == GGUF_STRING ? "texts" : "32-bit numbers");
        return NULL;
    }
    return value;
}

static struct moe_text text_of(struct gguf_fields *f, const char *key)
{
    const struct gguf_value *value = find(f, key, GGUF_STRING, false);
    if (!value)
        return (struct moe_text){NULL, 0};
    const unsigned char *at = value->at;
    struct gguf_string string = gguf_next_string(&at);
    if (string.length > MAX_TEMPLATE)
        gguf_fields_fail(f, MOE_FORMAT, key, "has more than 1 MiB; download the file again");
    return (struct moe_text){string.text, string.length};
}

static struct moe_text *texts_of(struct gguf_fields *f, const char *key, size_t *count)
{
    const struct gguf_value *value = find(f, key, GGUF_STRING, true);
    *count = 0;
    if (!value || !value->count)
        return NULL;
    struct moe_text *texts = calloc((size_t)value->count, sizeof *texts);
    if (!texts) {
        gguf_fields_fail(f, MOE_NO_MEMORY, key, "no memory for its texts");
        return NULL;
    }
    const unsigned char *at = value->at;
    for (; *count < value->count; ++*count) {
        struct gguf_string string = gguf_next_string(&at);
        texts[*count] = (struct moe_text){string.text, string.length};
    }
    return texts;
}

static int32_t *types_of(struct gguf_fields *f, size_t *count)
{
    const char *key = "tokenizer.ggml.token_type";
    const struct gguf_value *value = find(f, key, GGUF_I32, true);
    *count = 0;
    if (!value || !value->count)
        return NULL;
    int32_t *types = calloc((size_t)value->count, sizeof *types);
    if (!types) {
        gguf_fields_fail(f, MOE_NO_MEMORY, key, "no memory for its numbers");
        return NULL;
    }
    for (; *count < value->count; ++*count) {
        uint64_t type = 0;
        if (!gguf_integer_at(value, *count, &type))
            type = 0; // negative: no type there is
        types[*count] = (int32_t)type;
    }
    return types;
}

static int32_t id_of(struct gguf_fields *f, const char *key)
{
    static const struct integer_range ids = {0, INT32_MAX};
    return gguf_fields_find(f, key) ? (int32_t)gguf_fields_integer(f, key, ids) : -1;
}

static void read_all(struct gguf_fields *f, struct owned *o)
{
    struct moe_vocabulary *v = &o->shown;
    v->model = text_of(f, "tokenizer.ggml.model");
    v->pre = text_of(f, "tokenizer.ggml.pre");
    v->chat_template = text_of(f, "tokenizer.chat_template");
    if (!v->chat_template.length)
        v->chat_template = text_of(f, "tokenizer.chat_template.default");
    v->tokens = o->tokens = texts_of(f, tokens_key, &v->n_tokens);
    v->merges = o->merges = texts_of(f, "tokenizer.ggml.merges", &v->n_merges);
    v->types = o->types = types_of(f, &v->n_types);
    v->bos = id_of(f, "tokenizer.ggml.bos_token_id");
    v->eos = id_of(f, "tokenizer.ggml.eos_token_id");
    v->eot = id_of(f, "tokenizer.ggml.eot_token_id");
    v->eom = id_of(f, "tokenizer.ggml.eom_token_id");
}

int gguf_vocabulary_take(struct gguf *gguf, struct moe_vocabulary **vocabulary, struct moe_err *err)
{
    struct gguf_fields f = {.from = gguf, .path = gguf->file.path, .architecture = "", .err = err};
    *vocabulary = NULL;
    if (!gguf_has_vocabulary(gguf))
        return moe_fail(err, MOE_NOT_FOUND, "%.300s: has no vocabulary; get the model's own file", gguf->file.path);
    struct owned *o = calloc(1, sizeof *o);
    if (!o)
        return moe_fail(err, MOE_NO_MEMORY, "%.300s: no memory for its vocabulary", gguf->file.path);
    snprintf(o->shown.where, sizeof o->shown.where, "%.255s", gguf->file.path);
    read_all(&f, o);
    o->header = gguf->header;
    gguf->header = NULL;
    if (f.failed)
        moe_vocabulary_close(&o->shown);
    else
        *vocabulary = &o->shown;
    return f.failed;
}

int moe_vocabulary_open(const char *directory, struct moe_vocabulary **vocabulary, struct moe_err *err)
{
    struct gguf_set set;
    char resident[4200]; // of a package
    *vocabulary = NULL;
    snprintf(resident, sizeof resident, "%.4000s/resident.gguf", directory);
    if (access(resident, F_OK) == 0)
        directory = resident;
    if (!gguf_set_is_one(directory))
        return moe_fail(err, MOE_NOT_FOUND, "%.300s: is no GGUF file, so it carries no vocabulary", directory);
    int code = gguf_set_open(directory, &set, err);
    if (code)
        return code;
    memcpy(set.head.file.path, set.files[0].path, sizeof set.head.file.path);
    code = gguf_vocabulary_take(&set.head, vocabulary, err);
    gguf_set_release(&set);
    return code;
}

void moe_vocabulary_close(struct moe_vocabulary *vocabulary)
{
    struct owned *o = (struct owned *)(void *)vocabulary;
    if (!o)
        return;
    free(o->header);
    free(o->tokens);
    free(o->merges);
    free(o->types);
    free(o);
}
