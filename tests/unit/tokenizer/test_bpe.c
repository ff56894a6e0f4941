// SPDX-License-Identifier: GPL-3.0-or-later
// Run from the root of the tree: reads tests/unit/data. With --ids TYPE FILE it is the comparison's other half instead:
// texts on standard input, a line of hexadecimal digits each, become lines of ids, which are seen to give the bytes
// back.
#include "tokenizer/composed.h"
#include "tokenizer/newer.h"
#include "tokenizer/pattern.h"
#include "tokenizer/tok.h"

#include <json_c_version.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/harness.h"
#include "tests/ids_rig.h"

#define DATA "tests/unit/data/"

static const struct small {
    const char *type, *path, *ids;
    bool changes; // text: added tokens take spaces in, or letters and marks are composed, which don't come back
} smalls[] = {
    {"huggingface", DATA "bpe-v2.json", DATA "bpe-v2.ids", true},
    {"huggingface", DATA "bpe-v3.json", DATA "bpe-v3.ids", false},
    {"huggingface", DATA "bpe-glm.json", DATA "bpe-glm.ids", false},
    {"tiktoken", DATA "kimi/tiktoken.model", DATA "kimi.ids", false},
    {"huggingface", DATA "bpe-qwen.json", DATA "bpe-qwen.ids", true},
};
enum { N_SMALLS = sizeof smalls / sizeof smalls[0] };

static tok *open_small(struct harness *t, const struct small *small)
{
    tok *tokenizer = NULL;
    struct tok_err err = {0};
    if (!CHECK_EQ(t, tok_open(small->type, small->path, &tokenizer, &err), TOK_OK))
        printf("    %s\n", err.text);
    return tokenizer;
}

// FNV-1a over the ids, little endian.
static uint32_t hash_ids(const struct tok_ids *list)
{
    uint32_t hash = 0x811c9dc5u;
    for (size_t i = 0; i < list->count; i++)
        for (int k = 0; k < 4; k++)
            hash = (hash ^ ((uint32_t)list->ids[i] >> 8 * k & 0xFF)) * 0x01000193u;
    return hash;
}

// The texts of make_small_bpe.py, with what tokenizers or tiktoken made of each.
static void compare_all(struct harness *t, const struct small *small, const tok *tokenizer)
{
    FILE *texts = fopen(DATA "nasty.bin", "rb"), *hashes = fopen(small->ids, "rb");
    unsigned char size[2], want[4];
    static char text[65536];
    struct tok_ids list = {0};
    int count = 0, wrong = 0;
    if (!CHECK(t, texts && hashes))
        return;
    for (; fread(size, 1, 2, texts) == 2 && fread(want, 1, 4, hashes) == 4; count++) {
        size_t length = size[0] | (size_t)size[1] << 8;
        CHECK_EQ(t, fread(text, 1, length, texts), length);
        list.count = 0;
        CHECK_EQ(t, tok_encode(tokenizer, text, length, &list, NULL), TOK_OK);
        uint32_t hash = want[0] | (uint32_t)want[1] << 8 | (uint32_t)want[2] << 16 | (uint32_t)want[3] << 24;
        if (hash_ids(&list) != hash && wrong++ == 0)
            printf("    %s: text %d: %.*s\n", small->path, count, (int)length, text);
        if (!small->changes)
            CHECK(t, comes_back(tokenizer, &list, text, length));
    }
    CHECK_EQ(t, count, 5200);
    CHECK_EQ(t, wrong, 0);
    CHECK(t, fgetc(texts) == EOF && fgetc(hashes) == EOF);
    tok_ids_release(&list);
    fclose(texts);
    fclose(hashes);
}

static void ids_are_the_libraries(struct harness *t)
{
    for (size_t i = 0; i < N_SMALLS; i++) {
        tok *tokenizer = open_small(t, &smalls[i]);
        if (tokenizer)
            compare_all(t, &smalls[i], tokenizer);
        tok_close(tokenizer);
    }
}

static void any_bytes_come_back(struct harness *t)
{
    for (size_t k = 0; k < N_SMALLS; k++) {
        tok *tokenizer = smalls[k].changes ? NULL : open_small(t, &smalls[k]);
        struct tok_ids list = {0};
        char all[600];
        uint32_t random = 1;
        for (int round = 0; tokenizer && round < 3000; round++) {
            size_t length = (size_t)round % sizeof all;
            for (size_t i = 0; i < length; i++) {
                random = random * 1664525u + 1013904223u;
                all[i] = round % 2 ? (char)(random >> 24) : " the\xE2\x96\x81\xC3\xA9\xF0\x9F\x98\x80<|>"[random >> 28];
            }
            list.count = 0;
            CHECK_EQ(t, tok_encode(tokenizer, all, length, &list, NULL), TOK_OK);
            if (!CHECK(t, comes_back(tokenizer, &list, all, length)))
                break;
        }
        tok_ids_release(&list);
        tok_close(tokenizer);
    }
    // Where the vocabulary has no such byte, U+FFFD stands for it.
    tok *v2 = open_small(t, &smalls[0]);
    struct tok_ids list = {0};
    if (v2) {
        CHECK_EQ(t, tok_encode(v2, "a\xFF\x80\xC0z", 5, &list, NULL), TOK_OK);
        CHECK(t, comes_back(v2, &list, "a\xEF\xBF\xBD\x80\xEF\xBF\xBDz", 9));
    }
    tok_ids_release(&list);
    tok_close(v2);
}

static void what_is_typed_is_text(struct harness *t)
{
    static const char *const symbols[] = {"<think>",
                                          "</think>",
                                          "<\xEF\xBD\x9CUser\xEF\xBD\x9C>",
                                          "<|EOT|>",
                                          "<|user|>",
                                          "[gMASK]",
                                          "<|im_end|>",
                                          "[EOT]",
                                          "<|im_user|>",
                                          "/nothink",
                                          "<|reserved_token_1506|>",
                                          "<sop>"};
    int known = 0;
    for (size_t k = 0; k < N_SMALLS; k++) {
        tok *tokenizer = open_small(t, &smalls[k]);
        for (size_t i = 0; tokenizer && i < sizeof symbols / sizeof symbols[0]; i++) {
            int32_t id = tok_control(tokenizer, symbols[i]);
            struct tok_ids list = {0};
            char text[128];
            int length = snprintf(text, sizeof text, "%s a%s %s", symbols[i], symbols[i], symbols[i]);
            known += id >= 0;
            CHECK_EQ(t, tok_encode(tokenizer, text, (size_t)length, &list, NULL), TOK_OK);
            CHECK(t, comes_back(tokenizer, &list, text, (size_t)length));
            for (size_t n = 0; n < list.count; n++)
                CHECK(t, list.ids[n] != id);
            tok_ids_release(&list);
        }
        tok_close(tokenizer);
    }
    CHECK_EQ(t, known, 20);
    // A mark is shown when the model says it, a control symbol is not.
    tok *v3 = open_small(t, &smalls[1]);
    const char *bytes;
    if (v3) {
        CHECK_EQ(t, tok_bytes(v3, tok_control(v3, "<think>"), &bytes), 7);
        CHECK_EQ(t, tok_bytes(v3, tok_control(v3, "<\xEF\xBD\x9C\xE2\x96\x81pad\xE2\x96\x81\xEF\xBD\x9C>"), &bytes), 0);
    }
    tok_close(v3);
}

// Merging and cutting take n log n steps: with n * n of them this would take minutes.
static void a_word_of_a_megabyte(struct harness *t)
{
    static const char *const words[] = {"a", "thequickbrown", " ", "\xE4\xB8\xAD", "\n", "A", "/*-"};
    enum { LENGTH = 300000 };
    char *text = malloc(LENGTH);
    for (size_t k = 0; k < N_SMALLS && text; k++) {
        tok *tokenizer = open_small(t, &smalls[k]);
        for (size_t w = 0; tokenizer && w < sizeof words / sizeof words[0]; w++) {
            struct tok_ids list = {0};
            for (size_t i = 0; i < LENGTH; i++)
                text[i] = words[w][i % strlen(words[w])];
            text[LENGTH - 1] = 'x';
            CHECK_EQ(t, tok_encode(tokenizer, text, LENGTH, &list, NULL), TOK_OK);
            CHECK(t, comes_back(tokenizer, &list, text, LENGTH));
            tok_ids_release(&list);
        }
        tok_close(tokenizer);
    }
    free(text);
}

// Marks beyond any text's: their order is found in n steps, and what is composed has the ids of what was so already.
static void letters_and_marks_are_composed(struct harness *t)
{
    enum { MARKS = 200000 };
    tok *tokenizer = open_small(t, &smalls[4]);
    struct tok_ids two = {0}, one = {0};
    char *text = malloc(4 * MARKS);
    if (!tokenizer || !CHECK(t, text != NULL))
        return;
    CHECK_EQ(t, tok_encode(tokenizer, "e\xCC\x81 A\xCC\x8A \xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB", 17, &two, NULL),
             TOK_OK);
    CHECK_EQ(t, tok_encode(tokenizer, "\xC3\xA9 \xE2\x84\xAB \xED\x95\x9C", 10, &one, NULL), TOK_OK);
    CHECK(t, one.count == two.count && memcmp(one.ids, two.ids, one.count * sizeof *one.ids) == 0);
    CHECK(t, comes_back(tokenizer, &one, "\xC3\xA9 \xC3\x85 \xED\x95\x9C", 9));
    for (size_t i = 0; i < MARKS; i++)
        memcpy(text + 2 * i, i % 2 ? "\xCC\x96" : "\xCC\x81", 2); // below and above
    two.count = one.count = 0;
    CHECK_EQ(t, tok_encode(tokenizer, text, 2 * MARKS, &two, NULL), TOK_OK);
    for (size_t i = 0; i < MARKS; i++)
        memcpy(text + 2 * i, i < MARKS / 2 ? "\xCC\x96" : "\xCC\x81", 2);
    CHECK(t, comes_back(tokenizer, &two, text, 2 * MARKS));
    tok_ids_release(&one);
    tok_ids_release(&two);
    tok_close(tokenizer);
    free(text);
}

static int tok_of_text(const char *text, tok **tokenizer, struct tok_err *err)
{
    char path[] = "/tmp/moechat-bpe-XXXXXX";
    int fd = mkstemp(path);
    FILE *file = fd >= 0 ? fdopen(fd, "wb") : NULL;
    *tokenizer = NULL;
    if (!file || fwrite(text, 1, strlen(text), file) != strlen(text) || fclose(file) != 0)
        exit(1);
    int code = tok_open("huggingface", path, tokenizer, err);
    remove(path);
    return code;
}

static int open_text(const char *text, struct tok_err *err)
{
    tok *tokenizer;
    int code = tok_of_text(text, &tokenizer, err);
    tok_close(tokenizer);
    return code;
}

static char *read_v3(void)
{
    FILE *file = fopen(smalls[1].path, "rb");
    char *text = calloc(1, 1 << 17);
    if (!file || !text || fread(text, 1, (1 << 17) - 1, file) == 0)
        exit(1);
    fclose(file);
    return text;
}

// In bpe-v3.json `old` is replaced by `new`.
static const struct change {
    const char *old, *new;
    int code;
    const char *says;
} changes[] = {
    {"\"truncation\":null", "\"truncation\":{\"max_length\":5}", TOK_UNSUPPORTED, "truncation"},
    {"\"normalizer\":null", "\"normalizer\":{\"type\":\"NFKC\"}", TOK_UNSUPPORTED, "normalizer: NFKC"},
    {"\"normalizer\":null", "\"normalizer\":{\"type\":\"NFC\"}", TOK_OK, ""},
    {"\"normalizer\":null", "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Lowercase\"}]}",
     TOK_UNSUPPORTED, "normalizer: Lowercase"},
    {"\"normalizer\":null", "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[]}", TOK_OK, ""},
    // Composed text has no such token; of one that is not looked for there, or is no text, nothing is said.
    {"],\"normalizer\":null",
     ",{\"id\":1510,\"content\":\"e\\u0301\",\"normalized\":true}],\"normalizer\":{\"type\":\"NFC\"}", TOK_UNSUPPORTED,
     "added_tokens: \"e\xCC\x81\" is normalized and not in form C"},
    {"],\"normalizer\":null",
     ",{\"id\":1510,\"content\":\"\\u00e9\",\"normalized\":true}],\"normalizer\":{\"type\":\"NFC\"}", TOK_OK, ""},
    {"],\"normalizer\":null", ",{\"id\":1510,\"content\":\"e\\u0301\"}],\"normalizer\":{\"type\":\"NFC\"}", TOK_OK, ""},
    {"],\"normalizer\":null", ",{\"id\":1510,\"content\":\"e\\u0301\",\"normalized\":true}],\"normalizer\":null",
     TOK_OK, ""},
    {"],\"normalizer\":null",
     ",{\"id\":1510,\"content\":\"<e\\u0301>\",\"normalized\":true}],\"normalizer\":{\"type\":\"NFC\"}", TOK_OK, ""},
    {"\"version\"", "\"novelty\":{\"type\":\"New\"},\"version\"", TOK_UNSUPPORTED, "novelty: New"},
    {"\"behavior\":\"Isolated\"", "\"behavior\":\"Removed\"", TOK_UNSUPPORTED, "behavior Removed"},
    {"\"add_prefix_space\":false", "\"add_prefix_space\":true", TOK_UNSUPPORTED, "add_prefix_space"},
    {"{\"type\":\"Split\"", "{\"type\":\"Punctuation\"", TOK_UNSUPPORTED, "Punctuation"},
    {"\"Regex\":\"\\\\p{N}{1,3}\"", "\"Regex\":\"\\\\w+\"", TOK_UNSUPPORTED, "the pattern has \\w"},
    {"\"Regex\":\"\\\\p{N}{1,3}\"", "\"Regex\":\"(?#x)\"", TOK_UNSUPPORTED, "the pattern has (?#"},
    {"\"Regex\":\"\\\\p{N}{1,3}\"", "\"Regex\":\"(a)\\\\1\"", TOK_UNSUPPORTED, "the pattern has \\1"},
    {"\"Regex\":\"\\\\p{N}{1,3}\"", "\"Regex\":\"[a-z&&[aeiou]]\"", TOK_UNSUPPORTED, "&& in a class"},
    // What only looks like a class of categories: a script among them, half a name, nothing.
    {"\"Regex\":\"\\\\p{N}{1,3}\"", "\"Regex\":\"[\\\\p{Latin}&&[^\\\\p{Han}]]\"", TOK_UNSUPPORTED, "&& in a class"},
    {"\"Regex\":\"\\\\p{N}{1,3}\"", "\"Regex\":\"[\\\\p{L}\\\\p{Cyrillic}&&[^\\\\p{Han}]]\"", TOK_UNSUPPORTED,
     "&& in a class"},
    {"\"Regex\":\"\\\\p{N}{1,3}\"", "\"Regex\":\"[\\\\p{Cc}&&[^\\\\p{Han}]]\"", TOK_UNSUPPORTED, "&& in a class"},
    {"\"Regex\":\"\\\\p{N}{1,3}\"", "\"Regex\":\"[a&&[^\\\\p{Han}]]\"", TOK_UNSUPPORTED, "&& in a class"},
    {"\"Regex\":\"\\\\p{N}{1,3}\"", "\"Regex\":\"[\\\\p{L}\\\\p{Nd}&&[^\\\\p{Han}]]\"", TOK_OK, ""},
    {"\"Regex\":\"\\\\p{N}{1,3}\"", "\"Regex\":\"[\\\\p{Alphabetic}]\"", TOK_UNSUPPORTED, "\\p{Alphabetic}"},
    {"\"Regex\":\"\\\\p{N}{1,3}\"", "\"Regex\":\"a{2\"", TOK_OK, ""},
    {"\"Regex\":\"\\\\p{N}{1,3}\"", "\"Regex\":\"a{2}x{1,3}?{\"", TOK_OK, ""},
    {"\"Regex\":\"\\\\p{N}{1,3}\"", "\"Regex\":\"\\\\p{N}{1,3}+\"", TOK_UNSUPPORTED, "the pattern has {1,3}+"},
    {"\"Regex\":\"\\\\p{N}{1,3}\"", "\"Regex\":\"a{2}+\"", TOK_UNSUPPORTED, "the pattern has {2}+"},
    {"\"Regex\":\"\\\\p{N}{1,3}\"", "\"Regex\":\"a{2}?\"", TOK_UNSUPPORTED, "the pattern has {2}?"},
    {"\"Regex\":\"\\\\p{N}{1,3}\"", "\"Regex\":\"(ab){2,}*\"", TOK_UNSUPPORTED, "the pattern has {2,}*"},
    {"\"Regex\":\"\\\\p{N}{1,3}\"", "\"Regex\":\"a{,3}{2}\"", TOK_UNSUPPORTED, "the pattern has {,3}{"},
    {"\"Regex\":\"\\\\p{N}{1,3}\"", "\"Regex\":\"a**(\"", TOK_FORMAT, ": pre_tokenizer Split: the pattern is not one"},
    {"\"Regex\":\"\\\\p{N}{1,3}\"", "\"String\":\"**(\"", TOK_OK, ""},
    {"\"pattern\":{\"Regex\"", "\"pattern\":{\"Other\"", TOK_FORMAT, "has no pattern"},
    {"\"pattern\":{\"Regex\":\"\\\\p{N}{1,3}\"", "\"pattern\":{\"Regex\":7", TOK_FORMAT, "a pattern that is no text"},
    {"{\"type\":\"Split\"", "{\"type\":\"ByteLevel\"", TOK_UNSUPPORTED, "ByteLevel here: known are Split and Digits"},
    {"{\"type\":\"Split\"", "{\"type\":\"Digits\"", TOK_OK, ""},
    {"\"Sequence\",\"pretokenizers\":[", "\"Sequence\",\"pretokenizers\":[],\"x\":[", TOK_FORMAT, "an empty sequence"},
    {"\"Sequence\",\"pretokenizers\":[", "\"ByteLevel\",\"x\":[", TOK_OK, ""},
    {"\"Sequence\",\"pretokenizers\":[", "\"Whitespace\",\"x\":[", TOK_UNSUPPORTED,
     "Whitespace is the last: known are"},
    {"\"Sequence\",\"pretokenizers\":[", "\"ByteLevel\",\"add_prefix_space\":true,\"x\":[", TOK_UNSUPPORTED,
     "add_prefix_space"},
    {"\"type\":\"Sequence\",\"pretokenizers\":[", "\"x\":[", TOK_UNSUPPORTED, "a step without a type is the last"},
    {"\"pre_tokenizer\":{", "\"x\":null,\"pre_tokenizer\":null,\"version\":{", TOK_UNSUPPORTED,
     "pre_tokenizer: there is none"},
    {"\"dropout\":null", "\"dropout\":0.1", TOK_UNSUPPORTED, "model.dropout"},
    {"\"type\":\"BPE\"", "\"type\":\"Unigram\"", TOK_UNSUPPORTED, "model.type: Unigram"},
    {"\"continuing_subword_prefix\":null", "\"continuing_subword_prefix\":\"##\"", TOK_UNSUPPORTED,
     "model.continuing_subword_prefix"},
    {"\"end_of_word_suffix\":null", "\"end_of_word_suffix\":\"</w>\"", TOK_UNSUPPORTED, "model.end_of_word_suffix"},
    {"\"single_word\":false", "\"single_word\":true", TOK_UNSUPPORTED, "single_word"},
    {"\"decoder\":{\"type\":\"ByteLevel\"", "\"decoder\":{\"type\":\"Metaspace\"", TOK_UNSUPPORTED,
     "decoder: Metaspace"},
    {"\"!\":0", "\"!\":-1", TOK_FORMAT, "model.vocab"},
    {"\"!\":0", "\"!\":99999999", TOK_FORMAT, "model.vocab"},
    {"\"!\":0", "\"!\":1", TOK_FORMAT, "two meanings"},
    {"\"!\":0", "\"!!!!!!\":0", TOK_UNSUPPORTED, "byte 0x21"},
    {"\"merges\":[", "\"merges\":[[\"no\",\"such\"],", TOK_FORMAT, "model.merges[0]"},
    {"\"merges\":[", "\"merges\":[\"a\",", TOK_FORMAT, "model.merges[0]"},
    {"\"merges\":[", "\"merges\":[7,", TOK_FORMAT, "model.merges[0]"},
    {"\"merges\":[", "\"nothing\":[", TOK_FORMAT, "model"},
    {"\"added_tokens\":[", "\"added_tokens\":[{\"id\":-3,\"content\":\"x\"},", TOK_FORMAT, "added_tokens"},
    {"\"added_tokens\":[", "\"added_tokens\":[{\"id\":3},", TOK_FORMAT, "added_tokens"},
    {"\"added_tokens\":[", "\"added_tokens\":[7,", TOK_FORMAT, "added_tokens"},
};

static void what_is_not_done_is_refused_by_name(struct harness *t)
{
    char *text = read_v3();
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        const struct change *change = &changes[i];
        struct tok_err err = {0};
        const char *at = strstr(text, change->old);
        if (!CHECK(t, at != NULL)) {
            printf("    %s\n", change->old);
            continue;
        }
        size_t room = strlen(text) + strlen(change->new) + 1;
        char *changed = malloc(room);
        snprintf(changed, room, "%.*s%s%s", (int)(at - text), text, change->new, at + strlen(change->old));
        int code = open_text(changed, &err);
        if (!CHECK(t, code == change->code && strstr(err.text, change->says) && !strchr(err.text, '\n')))
            printf("    change %zu: %s\n", i, err.text);
        free(changed);
    }
    free(text);
}

// V3's with `new` behind the first `old`.
static char *v3_with(const char *old, const char *new)
{
    char *text = read_v3(), *at = strstr(text, old);
    if (!at || strlen(text) + strlen(new) >= 1 << 17)
        exit(1);
    at += strlen(old);
    memmove(at + strlen(new), at, strlen(at) + 1);
    memcpy(at, new, strlen(new));
    return text;
}

// As long as a token of a GGUF may be, and no longer: searching a text for one takes its bytes at each place.
static void a_token_has_a_longest(struct harness *t)
{
    static const struct {
        const char *behind, *format, *says;
    } places[] = {
        {"\"vocab\":{", "\"%0*d\":1999,", "model.vocab has a token of more than 1024 bytes: fetch the file again"},
        {"\"added_tokens\":[", "{\"id\":1999,\"content\":\"%0*d\"},",
         "added_tokens has a token of more than 1024 bytes: fetch the file again"},
    };
    for (size_t i = 0; i < 2; i++)
        for (int length = 1024; length <= 1025; length++) {
            char new[1100];
            struct tok_err err = {0};
            snprintf(new, sizeof new, places[i].format, length, 0);
            char *text = v3_with(places[i].behind, new);
            CHECK_EQ(t, open_text(text, &err), length > 1024 ? TOK_FORMAT : TOK_OK);
            if (!CHECK(t, length <= 1024 || strstr(err.text, places[i].says)))
                printf("    %s\n", err.text);
            free(text);
        }
}

// Ids of the tokenizers library 0.23, of the last it gives none: tokens that take blanks in, of which some are blanks.
// What a token has taken is no token again when one would have to take it from there.
static void blanks_are_taken_once(struct harness *t)
{
    static const struct {
        const char *text, *ids; // A to C are the added ones, x is itself
    } cases[] = {
        {"      x", "Ax"},
        {"\xE6\x96\x87  x", "Bx"},
        {"\xE6\x96\x87 \xC2\xA0x", "Bx"},
        {"x \xC2\xA0 \xC2\xA0\xC2\xA0x", "xCCCx"},
        {"  \xE6\x96\x87  \xC2\xA0\xE6\x96\x87 x", "ABBx"},
        {"\xC2\xA0  \xC2\xA0x    ", "CAxA"},
        {"\xE6\x96\x87\xC2\xA0  \xE6\x96\x87  ", "BB"},
    };
    char *text = v3_with("\"added_tokens\":[", "{\"id\":1510,\"content\":\"  \",\"lstrip\":true,\"rstrip\":true},"
                                               "{\"id\":1511,\"content\":\"\xE6\x96\x87\",\"rstrip\":true},"
                                               "{\"id\":1512,\"content\":\"\xC2\xA0\",\"lstrip\":true},");
    tok *tokenizer;
    CHECK_EQ(t, tok_of_text(text, &tokenizer, NULL), TOK_OK);
    for (size_t i = 0; tokenizer && i < sizeof cases / sizeof *cases; i++) {
        struct tok_ids list = {0};
        char ids[16] = "";
        CHECK_EQ(t, tok_encode(tokenizer, cases[i].text, strlen(cases[i].text), &list, NULL), TOK_OK);
        for (size_t k = 0; k < list.count && k < sizeof ids - 1; k++)
            ids[k] = (char)(list.ids[k] >= 1510 ? 'A' + list.ids[k] - 1510 : 'x');
        if (!CHECK_STR(t, ids, cases[i].ids))
            printf("    case %zu\n", i);
        tok_ids_release(&list);
    }
    tok_close(tokenizer);
    free(text);
}

// A file in the place of another, behind `before`, or whole.
static int copy_file(const char *from, const char *to, const char *before)
{
    char block[65536];
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    int failed = !in || !out || (before && fputs(before, out) < 0);
    size_t n = failed ? 0 : fread(block, 1, sizeof block, in);
    failed |= n == 0 || fwrite(block, 1, n, out) != n;
    if (in)
        fclose(in);
    if (out)
        failed |= fclose(out) != 0;
    return failed;
}

// A line of a tiktoken.model that is no piece and the next rank, the first as well as one among others.
static void damaged_ranks_are_refused(struct harness *t)
{
    static const char *const bad[] = {"\n",
                                      "IQ==\n",
                                      "IQ== 7\n",
                                      "IQ==  0\n",
                                      " 0\n",
                                      "!!!! 0\n",
                                      "IQ== 0\nIg== 2\n",
                                      "IQ== 0\nIg==\nIw== 2\n",
                                      "IQ== 0\nIg== 1x\n"};
    char folder[] = "/tmp/test-ranks-XXXXXX", model[64], config[64];
    CHECK(t, mkdtemp(folder) != NULL);
    snprintf(model, sizeof model, "%s/tiktoken.model", folder);
    snprintf(config, sizeof config, "%s/tokenizer_config.json", folder);
    for (size_t i = 0; i <= sizeof bad / sizeof *bad; i++) {
        bool good = i == sizeof bad / sizeof *bad;
        CHECK(t, copy_file(DATA "kimi/tokenizer_config.json", config, NULL) == 0);
        CHECK(t, copy_file(DATA "kimi/tiktoken.model", model, good ? NULL : bad[i]) == 0);
        tok *tokenizer = NULL;
        struct tok_err err = {0};
        int code = tok_open("tiktoken", model, &tokenizer, &err);
        if (!CHECK(t, good ? code == TOK_OK
                           : code == TOK_FORMAT &&
                                 strstr(err.text, "is not a piece and the next rank: fetch the file again")))
            printf("    case %zu: %d %s\n", i, code, err.text);
        tok_close(tokenizer);
    }
    // With lines as Windows ends them it is as good.
    char command[200];
    tok *same = NULL;
    snprintf(command, sizeof command, "sed 's/$/\\r/' " DATA "kimi/tiktoken.model >%s", model);
    CHECK(t, system(command) == 0 && tok_open("tiktoken", model, &same, NULL) == TOK_OK);
    tok_close(same);
    CHECK(t, copy_file(DATA "kimi/tiktoken.model", model, NULL) == 0);
    // What stands beside it is JSON, and nothing that only looks like it.
    static const char *const loose[] = {"{\"a\": 'b', \"added_tokens_decoder\": {}}", "{\"added_tokens_decoder\": {},}",
                                        "{\"a\": \"\xFF\", \"added_tokens_decoder\": {}}"};
    bool strict = json_c_version_num() < 17 << 8; // see json_text.c
    for (size_t i = strict ? 0 : 2; i < sizeof loose / sizeof *loose; i++) {
        tok *tokenizer = NULL;
        struct tok_err err = {0};
        FILE *out = fopen(config, "wb");
        CHECK(t, out && fputs(loose[i], out) >= 0 && fclose(out) == 0);
        CHECK_EQ(t, tok_open("tiktoken", model, &tokenizer, &err), TOK_FORMAT);
        if (!CHECK(t, strstr(err.text, "tokenizer_config.json: it is not a JSON object") != NULL))
            printf("    case %zu: %s\n", i, err.text);
    }
    for (int length = 1024; length <= 1025; length++) {
        tok *tokenizer = NULL;
        struct tok_err err = {0};
        FILE *out = fopen(config, "wb");
        CHECK(t, out && fprintf(out, "{\"added_tokens_decoder\":{\"1700\":{\"content\":\"%0*d\"}}}", length, 0) > 0 &&
                     fclose(out) == 0);
        CHECK_EQ(t, tok_open("tiktoken", model, &tokenizer, &err), length > 1024 ? TOK_FORMAT : TOK_OK);
        if (!CHECK(t, length <= 1024 || strstr(err.text, "has a symbol of more than 1024 bytes: fetch the file again")))
            printf("    %s\n", err.text);
        tok_close(tokenizer);
    }
    unlink(model);
    unlink(config);
    CHECK_EQ(t, rmdir(folder), 0);
}

// Korean syllables are made by counting: what stands beside the letters that are counted makes none.
static void syllables_have_their_edges(struct harness *t)
{
    static const struct {
        const char *text, *made; // made: NULL, they stay as they are
    } cases[] = {
        {"\xE1\x84\x80\xE1\x85\xA1", "\xEA\xB0\x80"}, // the first of both
        {"\xE1\x84\x92\xE1\x85\xB5", "\xED\x9E\x88"}, // and the last
        {"\xE1\x84\x93\xE1\x85\xA1", NULL},           {"\xE1\x84\x92\xE1\x85\xB6", NULL},
        {"\xE1\x84\x92\xE1\x85\xA0", NULL},           {"\xEA\xB0\x80\xE1\x86\xA8", "\xEA\xB0\x81"},
        {"\xEA\xB0\x80\xE1\x87\x82", "\xEA\xB0\x9B"}, {"\xED\x9E\x88\xE1\x87\x82", "\xED\x9E\xA3"},
        {"\xEA\xB0\x80\xE1\x86\xA7", NULL},           {"\xEA\xB0\x80\xE1\x87\x83", NULL},
        {"\xEA\xB0\x81\xE1\x86\xA8", NULL}, // has one already
        {"\xED\x9E\xA4\xE1\x86\xA8", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *made = NULL;
        size_t length = 0;
        CHECK(t, composed_text(cases[i].text, strlen(cases[i].text), &made, &length));
        bool good = cases[i].made ? made && length == 3 && memcmp(made, cases[i].made, 3) == 0 : !made;
        if (!CHECK(t, good))
            printf("    case %zu: %.*s\n", i, (int)length, made ? made : "");
        free(made);
    }
}

// Each escape by what it finds, of which the parts stand between bars.
static void escapes_find_what_they_say(struct harness *t)
{
    static const char subject[] =
        "a1\xD9\xA3 \xC2\xA0\n\xE3\x80\x80_\xC3\xA9\xE4\xB8\xAD"; // 1 and an Arabic 3, four spaces
    static const struct {
        const char *pattern, *found;
    } escapes[] = {
        {"\\d", "1|\xD9\xA3|"},
        {"[\\d_]+", "1\xD9\xA3|_|"},
        {"\\s+", " \xC2\xA0\n\xE3\x80\x80|"},
        {"[^\\s]+", "a1\xD9\xA3|_\xC3\xA9\xE4\xB8\xAD|"},
        {"\\S+", "a1\xD9\xA3|_\xC3\xA9\xE4\xB8\xAD|"},
        {"\\n", "\n|"},
        {"\\x{e9}", "\xC3\xA9|"},
        {"\\u00e9\\u4E2d", "\xC3\xA9\xE4\xB8\xAD|"},
        {"\\p{Han}|\\p{Pc}", "_|\xE4\xB8\xAD|"},
        {"\\P{L}+", "1\xD9\xA3 \xC2\xA0\n\xE3\x80\x80_|"},
        {"\\_", "_|"},
        {"a\\d{,2}", "a1\xD9\xA3|"},
        {"a\\d{,1}", "a1|"},
        {"1a{,10}\\d", "1\xD9\xA3|"},
        {"_{,|a{,}|1{,x}|\\d", "1|\xD9\xA3|"}, // which say nothing of how often
    };
    struct pattern_search *search = pattern_search_new(&(struct pattern_stop){0});
    for (size_t i = 0; search && i < sizeof escapes / sizeof escapes[0]; i++) {
        struct pattern_source source = {escapes[i].pattern, strlen(escapes[i].pattern), false, "test"};
        struct pattern_subject in = {.text = subject, .length = sizeof subject - 1};
        struct pattern *pattern = NULL;
        struct tok_err err = {0};
        char found[64] = "";
        if (!CHECK_EQ(t, pattern_new(&source, &pattern, &err), TOK_OK)) {
            printf("    %s: %s\n", escapes[i].pattern, err.text);
            continue;
        }
        while (pattern_find(pattern, search, &in, &err) == 1 && strlen(found) < 40)
            snprintf(found + strlen(found), sizeof found - strlen(found), "%.*s|", (int)(in.end - in.start),
                     subject + in.start);
        if (!CHECK_STR(t, found, escapes[i].found))
            printf("    %s\n", escapes[i].pattern);
        pattern_free(pattern);
    }
    CHECK(t, search != NULL);
    pattern_search_free(search);
}

// What PCRE2 sees in the place of a newer character is of its script, where it is one of those that patterns may name.
static void newer_characters_keep_their_script(struct harness *t)
{
    static const struct {
        const char *pattern;
        uint32_t code;
        bool is;
    } cases[] = {{"\\p{Hiragana}", 0x1B132, true},  {"\\p{Katakana}", 0x1B132, false}, {"\\p{Katakana}", 0x1B155, true},
                 {"\\p{Hiragana}", 0x1B155, false}, {"\\p{Latin}", 0x10D4E, false},    {"\\p{Latin}", 0x10D6F, false},
                 {"\\p{Latin}", 0x1DF25, true},     {"\\p{Cyrillic}", 0x1C8A, true},   {"\\p{Han}", 0x31350, true}};
    struct pattern_search *search = pattern_search_new(&(struct pattern_stop){0});
    for (size_t i = 0; search && i < sizeof cases / sizeof *cases; i++) {
        uint32_t code = newer_stand_in(cases[i].code);
        bool four = code >= 0x10000;
        const char text[] = {(char)(four ? 0xF0 | code >> 18 : 0xE0 | code >> 12), (char)(0x80 | (code >> 12 & 0x3F)),
                             (char)(0x80 | (code >> 6 & 0x3F)), (char)(0x80 | (code & 0x3F))};
        char three[3] = {text[0], text[2], text[3]};
        struct pattern_subject in = {.text = four ? text : three, .length = four ? 4 : 3};
        struct pattern_source source = {cases[i].pattern, strlen(cases[i].pattern), false, "test"};
        struct pattern *pattern = NULL;
        CHECK_EQ(t, pattern_new(&source, &pattern, NULL), TOK_OK);
        if (!CHECK_EQ(t, pattern_find(pattern, search, &in, NULL), cases[i].is))
            printf("    %s U+%04X\n", cases[i].pattern, (unsigned)cases[i].code);
        pattern_free(pattern);
    }
    CHECK(t, search != NULL);
    pattern_search_free(search);
}

// Numbers of characters that are none, in memory that ends with them.
static void escapes_without_a_character_are_refused(struct harness *t)
{
    static const char *const wrong[] = {"\\x{}", "\\x{",   "\\x{e9", "\\x{0000e9}", "\\x{0000e91}",
                                        "\\ue9", "\\u00e", "\\u",    "\\x{g}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        size_t length = strlen(wrong[i]);
        char *text = malloc(length);
        struct pattern *pattern = NULL;
        struct tok_err err = {0};
        if (!CHECK(t, text != NULL))
            return;
        memcpy(text, wrong[i], length);
        struct pattern_source source = {text, length, false, "test"};
        bool good = strcmp(wrong[i], "\\x{0000e9}") == 0; // as many digits as may be
        if (!CHECK_EQ(t, pattern_new(&source, &pattern, &err) == TOK_OK, good) ||
            (!good && !CHECK(t, strstr(err.text, "which this program does not know") != NULL)))
            printf("    %s: %s\n", wrong[i], err.text);
        pattern_free(pattern);
        free(text);
    }
}

// V3's with a pattern that takes a time that doubles with each x; NULL: it has been told.
static char *read_exploding(struct harness *t)
{
    static const char old[] = "\"Regex\":\"\\\\p{N}{1,3}\"", new[] = "\"Regex\":\"(x+x+)+y\"";
    char *text = read_v3(), *at = strstr(text, old);
    if (!CHECK(t, at != NULL))
        return NULL;
    memmove(at + sizeof new - 1, at + sizeof old - 1, strlen(at + sizeof old - 1) + 1);
    memcpy(at, new, sizeof new - 1);
    return text;
}

// A pattern that takes a time that doubles with each letter ends with a sentence, and soon.
static void a_pattern_that_explodes_is_stopped(struct harness *t)
{
    char *text = read_exploding(t), xs[40000];
    if (!text)
        return;
    tok *tokenizer = NULL;
    struct tok_err err = {0};
    struct tok_ids ids = {0};
    memset(xs, 'x', sizeof xs);
    for (size_t i = 22; i < sizeof xs; i += 23) // pieces of which each takes some milliseconds alone
        xs[i] = '.';
    memcpy(xs + sizeof xs - 2, "zy", 2); // without a y there is no need to look
    CHECK_EQ(t, tok_of_text(text, &tokenizer, &err), TOK_OK);
    clock_t began = clock();
    if (tokenizer) {
        CHECK_EQ(t, tok_encode(tokenizer, xs, 12, &ids, &err), TOK_OK);
        CHECK_EQ(t, tok_encode(tokenizer, xs, sizeof xs, &ids, &err), TOK_UNSUPPORTED);
        CHECK(t, strstr(err.text, "the pattern can't split a text of 40000 bytes") != NULL);
    }
    double seconds = (double)(clock() - began) / CLOCKS_PER_SEC;
    if (!CHECK(t, seconds < 10)) // of the processor: under a sanitizer, too
        printf("    %.1f s\n", seconds);
    tok_ids_release(&ids);
    tok_close(tokenizer);
    free(text);
}

static bool after_a_while(void *context)
{
    const clock_t *until = context;
    return clock() > *until;
}

// Such a match ends when nobody waits for it any more, long before its time is over.
static void a_pattern_that_explodes_is_cancelled(struct harness *t)
{
    enum { BYTES = 400000 };
    char *text = read_exploding(t), *xs = malloc(BYTES);
    if (!text || !CHECK(t, xs != NULL))
        return;
    tok *tokenizer = NULL;
    struct tok_err err = {0};
    struct tok_ids ids = {0};
    memset(xs, 'x', BYTES);
    for (size_t i = 14; i < BYTES; i += 15) // pieces of which none is refused alone
        xs[i] = '.';
    memcpy(xs + BYTES - 2, "zy", 2);
    CHECK_EQ(t, tok_of_text(text, &tokenizer, &err), TOK_OK);
    clock_t began = clock(), until = began + CLOCKS_PER_SEC / 4;
    if (tokenizer) {
        tok_set_cancelled(tokenizer, after_a_while, &until);
        CHECK_EQ(t, tok_encode(tokenizer, "one", 3, &ids, &err), TOK_OK);
        size_t count = ids.count;
        CHECK_EQ(t, tok_encode(tokenizer, xs, BYTES, &ids, &err), TOK_CANCELLED);
        if (!CHECK(t, ids.count == count && err.code == TOK_CANCELLED))
            printf("    %s\n", err.text);
        until = clock() + 60 * (clock_t)CLOCKS_PER_SEC;
        CHECK_EQ(t, tok_encode(tokenizer, "one", 3, &ids, &err), TOK_OK); // the next one goes on as ever
        CHECK_EQ(t, ids.count, 2 * count);
    }
    double seconds = (double)(clock() - began) / CLOCKS_PER_SEC;
    if (!CHECK(t, seconds < 4)) // of the processor; its own limit is 7
        printf("    %.1f s\n", seconds);
    tok_ids_release(&ids);
    tok_close(tokenizer);
    free(text);
    free(xs);
}

static void damaged_files_are_refused(struct harness *t)
{
    char *text = read_v3();
    size_t length = strlen(text);
    struct tok_err err;
    for (size_t cut = length - 3; cut > 1000; cut -= cut > length - 40 ? 1 : 997) {
        text[cut] = 0;
        CHECK_EQ(t, open_text(text, &err), TOK_FORMAT);
    }
    free(text);
    static const char *const broken[] = {"[]",
                                         "7",
                                         "{}",
                                         "{\"model\":[]}",
                                         "{\"model\":{\"vocab\":[],\"merges\":[]}}",
                                         "{\"model\":{\"vocab\":{},\"merges\":[]}}",
                                         "\xFF"};
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++)
        CHECK(t, open_text(broken[i], &err) != TOK_OK && strstr(err.text, "/tmp/moechat-bpe-") == err.text);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(ids_are_the_libraries),
        TEST(any_bytes_come_back),
        TEST(what_is_typed_is_text),
        TEST(a_word_of_a_megabyte),
        TEST(letters_and_marks_are_composed),
        TEST(what_is_not_done_is_refused_by_name),
        TEST(a_token_has_a_longest),
        TEST(blanks_are_taken_once),
        TEST(damaged_ranks_are_refused),
        TEST(syllables_have_their_edges),
        TEST(damaged_files_are_refused),
        TEST(escapes_find_what_they_say),
        TEST(newer_characters_keep_their_script),
        TEST(escapes_without_a_character_are_refused),
        TEST(a_pattern_that_explodes_is_stopped),
        TEST(a_pattern_that_explodes_is_cancelled),
    };
    if (argc == 4 && strncmp(argv[1], "--ids", 5) == 0) {
        tok *tokenizer = NULL;
        struct tok_err err = {0};
        if (tok_open(argv[2], argv[3], &tokenizer, &err)) {
            fprintf(stderr, "%s\n", err.text);
            return 1;
        }
        int status = print_ids(tokenizer, strcmp(argv[1], "--ids") == 0);
        tok_close(tokenizer);
        return status;
    }
    return HARNESS_RUN(tests, argc, argv);
}
