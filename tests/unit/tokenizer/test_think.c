// SPDX-License-Identifier: GPL-3.0-or-later
// What a model thinks is told from what it says.
#include <stdlib.h>

#include "tests/harness.h"
#include "tokenizer/tok.h"

struct heard {
    char thought[256], said[256];
    size_t n_thought, n_said;
};

static void hear(void *context, bool thinking, const char *bytes, size_t length)
{
    struct heard *heard = context;
    memcpy(thinking ? heard->thought + heard->n_thought : heard->said + heard->n_said, bytes, length);
    *(thinking ? &heard->n_thought : &heard->n_said) += length;
}

static const struct parting {
    bool marks, inside;
    const char *text, *thought, *said;
} partings[] = {
    {true, false, "<think>\nhm, 1 < 2\n</think>\n\nyes <b>", "hm, 1 < 2\n", "yes <b>"},
    {true, true, "\nhm</think>yes", "hm", "yes"},
    {true, true, "</think>\n\nyes", "", "yes"},
    {true, true, "hm </thin </think", "hm </thin </think", ""},
    {true, true, "a<</think>b", "a<", "b"},
    {true, false, "yes <think>no</think>", "", "yes <think>no</think>"},
    {true, false, "\n <think> </think> \nyes", "", "yes"},
    {true, false, "<thin", "", "<thin"},
    {true, false, "<thinking>", "", "<thinking>"},
    {true, false, " \n \n \n \n \n \n <think>x", "", " \n \n \n \n \n \n <think>x"},
    {true, false, "\n\nyes\n", "", "\n\nyes\n"},
    {true, false, "", "", ""},
    {true, false, "<think>a</think>b</think>c<think>d", "a", "b</think>c<think>d"},
    {false, false, "<think>hm</think>", "", "<think>hm</think>"},
    {true, true, "\xE4\xB8\xAD<\xE6\x96\x87</think>\xC3\xA9", "\xE4\xB8\xAD<\xE6\x96\x87", "\xC3\xA9"},
};

static void thought_is_told_from_said(struct harness *t)
{
    for (size_t i = 0; i < sizeof partings / sizeof partings[0]; i++) {
        const struct parting *p = &partings[i];
        size_t length = strlen(p->text);
        for (size_t step = 1; step <= length + 1; step++) {
            struct heard heard = {.n_said = 0};
            struct tok_think_out out = {hear, &heard};
            struct tok_think think;
            tok_think_begin(&think, p->marks, p->inside);
            for (size_t at = 0; at < length; at += step) {
                size_t n = length - at < step ? length - at : step;
                char *piece = malloc(n); // its own block, so that a sanitizer sees a read too far
                memcpy(piece, p->text + at, n);
                tok_think_push(&think, piece, n, &out);
                free(piece);
            }
            tok_think_flush(&think, &out);
            if (!CHECK(t, strcmp(heard.thought, p->thought) == 0 && strcmp(heard.said, p->said) == 0))
                printf("    parting %zu, step %zu: \"%s\", \"%s\"\n", i, step, heard.thought, heard.said);
        }
    }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(thought_is_told_from_said)};
    return HARNESS_RUN(tests, argc, argv);
}
