// SPDX-License-Identifier: GPL-3.0-or-later
// Any bytes as a chat template, and as a conversation, its turns between bytes 0: a control symbol or mark comes from
// the template alone, so of each kind as many as when all texts are empty. Run from the root of the tree.
#include <stdlib.h>
#include <string.h>

#include "tok.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_FORMS = 5, TURNS = 6 };
struct opened {
    tok *tokenizer;
    tok_template *turns[N_FORMS];
};

static const struct opened *open_once(void)
{
    static const char *const names[N_FORMS] = {"deepseek-v3", "deepseek-r1", "deepseek-v3.1", "cogito-v2", "chatml"};
    static struct opened opened;
    if (opened.tokenizer)
        return &opened;
    if (tok_open("huggingface", "tests/unit/data/bpe-v3.json", &opened.tokenizer, NULL) != TOK_OK)
        abort();
    for (int i = 0; i < N_FORMS; i++)
        if (tok_template_open(names[i], opened.tokenizer, &opened.turns[i], NULL) != TOK_OK)
            abort();
    return &opened;
}

static size_t count_controls(const struct opened *o, const struct tok_ids *list)
{
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++) {
        const char *bytes;
        size_t n = tok_bytes(o->tokenizer, list->ids[i], &bytes);
        count += n == 0 || (n == 7 && memcmp(bytes, "<think>", 7) == 0) ||
                 (n > 7 && memcmp(bytes, "</think>", 8) == 0) || (n > 4 && memcmp(bytes, "<\xEF\xBD\x9C", 4) == 0);
    }
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
