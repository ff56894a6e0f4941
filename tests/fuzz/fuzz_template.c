// SPDX-License-Identifier: GPL-3.0-or-later
// Any bytes as a chat template, and as a conversation, its turns between bytes 0: a control symbol or mark comes from
// the template alone, so of each kind as many as when all texts are empty. Run from the root of the tree.
#include <stdlib.h>
#include <string.h>

#include "tokenizer/tok.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BAR "<\xEF\xBD\x9C"
#define END "\xEF\xBD\x9C>"
#define GAP "\xE2\x96\x81"
enum { N_FORMS = 5, TURNS = 6, N_SYMBOLS = 9 };
struct opened {
    tok *tokenizer;
    tok_template *turns[N_FORMS];
    int32_t symbols[N_SYMBOLS];
};

static const struct opened *open_once(void)
{
    static const char *const names[N_FORMS] = {"deepseek-v3", "deepseek-r1", "deepseek-v3.1", "cogito-v2", "chatml"};
    static const char *const symbols[N_SYMBOLS] = {BAR "begin" GAP "of" GAP "sentence" END,
                                                   BAR "end" GAP "of" GAP "sentence" END,
                                                   BAR GAP "pad" GAP END,
                                                   BAR "User" END,
                                                   BAR "Assistant" END,
                                                   "<think>",
                                                   "</think>",
                                                   "<|im_start|>",
                                                   "<|im_end|>"};
    static struct opened opened;
    if (opened.tokenizer)
        return &opened;
    if (tok_open("huggingface", "tests/unit/data/bpe-v3.json", &opened.tokenizer, NULL) != TOK_OK)
        abort();
    for (int i = 0; i < N_FORMS; i++)
        if (tok_template_open(names[i], opened.tokenizer, &opened.turns[i], NULL) != TOK_OK)
            abort();
    for (int i = 0; i < N_SYMBOLS; i++)
        if ((opened.symbols[i] = tok_control(opened.tokenizer, symbols[i])) < 0)
            abort();
    return &opened;
}

static size_t count_controls(const struct opened *o, const struct tok_ids *list)
{
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++)
        for (int k = 0; k < N_SYMBOLS; k++)
            count += list->ids[i] == o->symbols[k];
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct opened *o = open_once();
    struct tok_turn turns[TURNS], empty[TURNS];
    struct tok_prompt prompt = {.turns = turns, .begin = size % 2, .thinking = size % 3};
    struct tok_ids list = {0}, bare = {0};
    const char *at = (const char *)data, *end = at + size;
    tok_template_detect(at, size);
    while (prompt.n_turns < TURNS) {
        const char *stop = at < end ? memchr(at, 0, (size_t)(end - at)) : NULL;
        enum tok_role role = prompt.n_turns % 2 ? TOK_ASSISTANT : TOK_USER;
        turns[prompt.n_turns] = (struct tok_turn){role, at, (size_t)((stop ? stop : end) - at)};
        empty[prompt.n_turns++] = (struct tok_turn){role, "", 0};
        if (!stop)
            break;
        at = stop + 1;
    }
    for (int i = 0; i < N_FORMS; i++) {
        size_t ends[TURNS];
        list.count = bare.count = 0;
        if (tok_template_encode(o->turns[i], &prompt, &list, ends, NULL) != TOK_OK ||
            ends[prompt.n_turns - 1] != list.count)
            abort();
        struct tok_prompt without = prompt;
        without.turns = empty;
        if (tok_template_encode(o->turns[i], &without, &bare, NULL, NULL) != TOK_OK ||
            count_controls(o, &list) != count_controls(o, &bare))
            abort();
    }
    tok_ids_release(&list);
    tok_ids_release(&bare);
    return 0;
}
