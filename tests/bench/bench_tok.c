// SPDX-License-Identifier: GPL-3.0-or-later
// How fast text becomes ids: bench_tok [TYPE FILE [TEXT]], else with the small tokenizers of the tests. Run from the
// root of the tree. Also lines without a break, which must not take a time that grows with their square.
#include "tokenizer/tok.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void measure(const tok *tokenizer, const char *what, const char *text, size_t length)
{
    struct tok_ids list = {0};
    struct tok_err err = {0};
    double best = 1e9;
    int rounds = 0;
    for (double began = seconds(); rounds < 3 || (seconds() - began < 0.5 && rounds < 100); rounds++) {
        double start = seconds();
        list.count = 0;
        if (tok_encode(tokenizer, text, length, &list, &err)) {
            printf("  %-28s %s\n", what, err.text);
            tok_ids_release(&list);
            return;
        }
        double took = seconds() - start;
        best = took < best ? took : best;
    }
    printf("  %-28s %8.2f MB/s  (%zu bytes, %zu ids, best of %d)\n", what, (double)length / best / 1e6, length,
           list.count, rounds);
    tok_ids_release(&list);
}

static char *repeat(const char *pattern, size_t length)
{
    char *text = malloc(length + 1);
    size_t n = strlen(pattern);
    for (size_t i = 0; text && i < length; i++)
        text[i] = pattern[i % n];
    return text;
}

static char *read_whole(const char *path, size_t *length)
{
    enum { MOST = 8 << 20 };
    FILE *file = fopen(path, "rb");
    char *text = malloc(MOST);
    *length = file && text ? fread(text, 1, MOST, file) : 0;
    if (file)
        fclose(file);
    return text;
}

static int bench(const char *type, const char *path, const char *text_path)
{
    static const struct {
        const char *what, *pattern;
    } lines[] = {{"1 MB of one letter", "a"},
                 {"1 MB of letters", "abcdefghijklmnopqrstuvwxyzthequick"},
                 {"1 MB of capitals", "A"},
                 {"1 MB of spaces, then 1", " "},
                 {"1 MB of digits", "0123456789"},
                 {"1 MB of Han", "\xE4\xB8\xAD\xE6\x96\x87\xE5\xAD\x97"},
                 {"1 MB of Thai", "\xE0\xB8\x81\xE0\xB8\xB2\xE0\xB8\xA3"},
                 {"1 MB of punctuation", "./-=_+!"},
                 {"1 MB of newlines", "\n"}};
    tok *tokenizer = NULL;
    struct tok_err err;
    size_t length;
    double start = seconds();
    if (tok_open(type, path, &tokenizer, &err)) {
        printf("%s\n", err.text);
        return 1;
    }
    printf("%s: opened in %.2f s\n", path, seconds() - start);
    char *text = read_whole(text_path, &length);
    measure(tokenizer, text_path, text, length);
    free(text);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        length = 1 << 20;
        text = repeat(lines[i].pattern, length);
        if (!text)
            break;
        text[length - 1] = '1';
        measure(tokenizer, lines[i].what, text, length);
        free(text);
    }
    tok_close(tokenizer);
    return 0;
}

int main(int argc, char **argv)
{
    static const char *const small[][2] = {{"huggingface", "tests/unit/data/bpe-v2.json"},
                                           {"huggingface", "tests/unit/data/bpe-v3.json"},
                                           {"huggingface", "tests/unit/data/bpe-glm.json"},
                                           {"tiktoken", "tests/unit/data/kimi/tiktoken.model"}};
    if (argc >= 3)
        return bench(argv[1], argv[2], argc > 3 ? argv[3] : "docs/lab.md");
    int failed = 0;
    for (size_t i = 0; i < sizeof small / sizeof small[0]; i++)
        failed |= bench(small[i][0], small[i][1], "docs/lab.md");
    return failed;
}
