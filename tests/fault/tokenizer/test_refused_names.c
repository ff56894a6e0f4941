// SPDX-License-Identifier: GPL-3.0-or-later
// Names of a tokenizer.json for which json-c finds no memory: it leaves the field out and says nothing. The file is
// then refused, or the ids are those of the whole file.
#include <stdlib.h>
#include <string.h>

#include "tests/harness.h"
#include "tokenizer/tok.h"

static long copies, refused_at = -1;
static const char *names[64]; // that json-c has read and not added yet
static size_t n_names;

// In the place of the C library's, for json-c, too. One that it can't read a name without would end the program, so
// that is not refused; each copy of such a name is one that it adds.
char *strdup(const char *text)
{
    size_t length = strlen(text) + 1;
    bool adds = n_names && names[n_names - 1] == text;
    n_names -= adds;
    char *copy = adds && copies++ == refused_at ? NULL : malloc(length);
    if (copy)
        memcpy(copy, text, length);
    if (!adds)
        names[n_names++ % 64] = copy;
    return copy;
}

// json-c loses the value whose name it leaves out.
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return 1;
}

// A sum of some text's ids; 0: there is no memory.
static uint64_t ids_of(struct harness *t, const char *path)
{
    static const char text[] = "Two words, \xC3\xA9 \xE4\xB8\xAD\xE6\x96\x87\n\tand 1234567 <|end|> don't "
                               "<|im_end|> <think> \xF0\x9F\x98\x80 a\xCC\x81 abcdefghijklm\xFF";
    tok *tokenizer = NULL;
    struct tok_err err = {.code = TOK_OK};
    struct tok_ids ids = {0};
    uint64_t sum = 14695981039346656037U;
    copies = 0;
    n_names = 0;
    int code = tok_open("huggingface", path, &tokenizer, &err);
    refused_at = -1;
    if (!code)
        code = tok_encode(tokenizer, text, sizeof text - 1, &ids, &err);
    for (size_t i = 0; i < ids.count; i++)
        sum = (sum ^ (uint32_t)ids.ids[i]) * 1099511628211U;
    if (code && !CHECK_EQ(t, code, TOK_NO_MEMORY))
        printf("    %s\n", err.text);
    tok_ids_release(&ids);
    tok_close(tokenizer);
    return code ? 0 : sum;
}

static void names_say_it(struct harness *t)
{
    static const char *const paths[] = {"tests/unit/data/bpe-v3.json", "tests/unit/data/bpe-qwen.json",
                                        "tests/unit/data/bpe-glm.json"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        uint64_t whole = ids_of(t, paths[i]), wrong = 0;
        long n = copies, n_refused = 0;
        CHECK(t, whole && n > 500);
        for (long at = (long)i; at < n; at += 5) {
            refused_at = at;
            uint64_t sum = ids_of(t, paths[i]);
            n_refused += !sum;
            wrong += sum && sum != whole;
        }
        CHECK_EQ(t, wrong, 0);
        CHECK(t, n_refused > 0);
        if (wrong)
            printf("    %s: %llu of %ld, %ld refused\n", paths[i], (unsigned long long)wrong, n, n_refused);
    }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(names_say_it)};
    return HARNESS_RUN(tests, argc, argv);
}
