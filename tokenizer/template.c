// SPDX-License-Identifier: GPL-3.0-or-later
// The built-in turn templates: a table of control symbols. A turn is its role's symbol, its text, the end symbol.
#include "tok_err.h"

#include <stdlib.h>
#include <string.h>

enum { N_ROLES = TOK_ASSISTANT + 1 };

struct tok_template {
    const tok *tokenizer;
    int32_t begin;
    int32_t end;
    int32_t role[N_ROLES];
};

struct spelling {
    const char *name;
    const char *begin;
    const char *end;
    const char *role[N_ROLES];
};

static const struct spelling spellings[] = {
    {"moechat-demo", "<s>", "<|end|>", {"<|system|>", "<|user|>", "<|assistant|>"}},
};

static int find_symbol(const tok *tokenizer, const struct spelling *spelling, const char *symbol, int32_t *id,
                       struct tok_err *err)
{
    *id = tok_control(tokenizer, symbol);
    if (*id >= 0)
        return TOK_OK;
    return tok_fail(err, TOK_UNSUPPORTED,
                    "template %s: the tokenizer has no control symbol %s: name another template in model.json",
                    spelling->name, symbol);
}

int tok_template_open(const char *name, const tok *tokenizer, tok_template **turns, struct tok_err *err)
{
    const struct spelling *spelling = NULL;
    for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++)
        if (strcmp(spellings[i].name, name) == 0)
            spelling = &spellings[i];
    if (!spelling)
        return tok_fail(err, TOK_UNSUPPORTED, "template %.100s is not known: this program has moechat-demo", name);
    tok_template found = {.tokenizer = tokenizer};
    int failed = find_symbol(tokenizer, spelling, spelling->begin, &found.begin, err);
    if (!failed)
        failed = find_symbol(tokenizer, spelling, spelling->end, &found.end, err);
    for (int i = 0; i < N_ROLES && !failed; i++)
        failed = find_symbol(tokenizer, spelling, spelling->role[i], &found.role[i], err);
    if (failed)
        return failed;
    tok_template *made = malloc(sizeof *made);
    if (!made)
        return tok_fail(err, TOK_NO_MEMORY, "template %s: out of memory", name);
    *made = found;
    *turns = made;
    return TOK_OK;
}

void tok_template_close(tok_template *turns)
{
    free(turns);
}

int tok_template_begin(const tok_template *turns, struct tok_ids *list, struct tok_err *err)
{
    return tok_ids_append(list, turns->begin, err);
}

int tok_template_turn(const tok_template *turns, const struct tok_turn *turn, struct tok_ids *list, struct tok_err *err)
{
    size_t before = list->count;
    int failed = tok_ids_append(list, turns->role[turn->role], err);
    if (!failed)
        failed = tok_encode(turns->tokenizer, turn->text, turn->length, list, err);
    if (!failed)
        failed = tok_ids_append(list, turns->end, err);
    if (failed)
        list->count = before;
    return failed;
}

int tok_template_answer(const tok_template *turns, struct tok_ids *list, struct tok_err *err)
{
    return tok_ids_append(list, turns->role[TOK_ASSISTANT], err);
}

int32_t tok_template_end(const tok_template *turns)
{
    return turns->end;
}
