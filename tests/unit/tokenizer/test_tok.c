// SPDX-License-Identifier: GPL-3.0-or-later
// Run from the root of the tree: reads tests/unit/data.
#include "tokenizer/tok.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/harness.h"

#define MODEL "tests/unit/data/small.model"
#define IDS   "tests/unit/data/small.ids"

static tok *open_small(struct harness *t)
{
    tok *tokenizer = NULL;
    struct tok_err err;
    if (!CHECK_EQ(t, tok_open("sentencepiece", MODEL, &tokenizer, &err), TOK_OK))
        printf("    %s\n", err.text);
    return tokenizer;
}

// Encodes and decodes `text`; what comes back must be the same, and no id may be silent.
static int survives(const tok *tokenizer, const char *text, size_t length)
{
    struct tok_ids list = {0};
    size_t at = 0;
    int good = tok_encode(tokenizer, text, length, &list, NULL) == TOK_OK;
    for (size_t i = 0; good && i < list.count; i++) {
        const char *bytes;
        size_t n = tok_bytes(tokenizer, list.ids[i], &bytes);
        good = n > 0 && n <= length - at && memcmp(bytes, text + at, n) == 0;
        at += n;
    }
    tok_ids_release(&list);
    return good && at == length;
}

// Undoes make_small_model.py's escapes in place; returns the length.
static size_t unescape(char *text)
{
    char *out = text;
    for (const char *in = text; *in; in++) {
        if (*in == '\\') {
            in++;
            *out++ = *in == 'n' ? '\n' : *in == 't' ? '\t' : '\\';
        } else {
            *out++ = *in;
        }
    }
    return (size_t)(out - text);
}

static void ids_are_pythons(struct harness *t)
{
    tok *tokenizer = open_small(t);
    FILE *file = fopen(IDS, "r");
    char line[4096];
    int lines = 0;
    if (!CHECK(t, tokenizer && file))
        return;
    while (fgets(line, sizeof line, file)) {
        char *next = strchr(line, '\t');
        struct tok_ids list = {0};
        *next++ = '\0';
        size_t length = unescape(line);
        CHECK_EQ(t, tok_encode(tokenizer, line, length, &list, NULL), TOK_OK);
        for (size_t i = 0; i < list.count; i++)
            if (!CHECK_EQ(t, list.ids[i], strtol(next, &next, 10)))
                printf("    id %zu of \"%s\"\n", i, line);
        CHECK_EQ(t, strspn(next, " \n"), strlen(next));
        tok_ids_release(&list);
        lines++;
    }
    CHECK(t, lines > 20);
    fclose(file);
    tok_close(tokenizer);
}

static void any_bytes_come_back(struct harness *t)
{
    static const char *const texts[] = {"\xE2\x96\x81",
                                        "a\xE2\x96\x81 b\xE2\x96",
                                        "\xFF",
                                        "\xC3",
                                        "a\xC3",
                                        "\xC3(",
                                        "\xE2\x82",
                                        "\xE2\x82 x",
                                        "\xF0\x9F\x98",
                                        "\xF0\x9F\x98\x80",
                                        "\xED\xA0\x80",
                                        "\xF4\x90\x80\x80",
                                        "\xC0\xAF",
                                        "\xEF\xBF\xBD \xFF",
                                        "  two  ",
                                        "\r\n\t",
                                        "<0x41>\xFE<unk>",
                                        "\xEF\xBB\xBF"};
    tok *tokenizer = open_small(t);
    char all[256];
    uint32_t random = 1;
    if (!tokenizer)
        return;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (!CHECK(t, survives(tokenizer, texts[i], strlen(texts[i]))))
            printf("    text %zu\n", i);
    CHECK(t, survives(tokenizer, "\0a\0\0b", 5));
    for (int i = 0; i < 256; i++)
        all[i] = (char)i;
    CHECK(t, survives(tokenizer, all, sizeof all));
    for (int round = 0; round < 2000; round++) {
        size_t length = (size_t)round % sizeof all;
        for (size_t i = 0; i < length; i++) {
            random = random * 1664525u + 1013904223u;
            all[i] = round % 2 ? (char)(random >> 24) : " the\xE2\x96\x81\xC3\xA9\xF0\x9F\x98\x80<|>"[random >> 28];
        }
        if (!CHECK(t, survives(tokenizer, all, length)))
            break;
    }
    tok_close(tokenizer);
}

// What has to be spelled in bytes does not change the ids of the text around it: the demo was trained on such ids.
static void spelling_stays_small(struct harness *t)
{
    static const char *const odd[] = {"\xE2\x96\x81", "\xFF", "\xE2\x82"};
    tok *tokenizer = open_small(t);
    struct tok_ids list = {0};
    if (!tokenizer)
        return;
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        char text[32];
        size_t n = strlen(odd[i]);
        int length = snprintf(text, sizeof text, "hello%shello", odd[i]);
        list.count = 0;
        CHECK_EQ(t, tok_encode(tokenizer, text, (size_t)length, &list, NULL), TOK_OK);
        if (!CHECK_EQ(t, list.count, 3 + n + 3))
            continue;
        CHECK(t, memcmp(list.ids, list.ids + 3 + n, 3 * sizeof list.ids[0]) == 0);
        for (size_t k = 0; k < n; k++) {
            const char *byte;
            CHECK(t, tok_bytes(tokenizer, list.ids[3 + k], &byte) == 1 && *byte == odd[i][k]);
        }
        int32_t first[3];
        memcpy(first, list.ids, sizeof first);
        list.count = 0;
        CHECK_EQ(t, tok_encode(tokenizer, text, 5 + n, &list, NULL), TOK_OK); // where the text ends in it
        CHECK(t, list.count == 3 + n && memcmp(list.ids, first, sizeof first) == 0);
    }
    tok_ids_release(&list);
    tok_close(tokenizer);
}

static void text_makes_no_control_symbol(struct harness *t)
{
    static const char *const symbols[] = {"<s>", "</s>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"};
    static const char *const frames[] = {"%s", " %s", "%s%s", "a%sb", "\n%s\n", "<|end|>%s", "\xFF%s", "%s\xC3"};
    tok *tokenizer = open_small(t);
    struct tok_ids list = {0};
    if (!tokenizer)
        return;
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        CHECK(t, tok_control(tokenizer, symbols[i]) >= 0);
        for (size_t f = 0; f < sizeof frames / sizeof frames[0]; f++) {
            char text[64];
            char *at = text;
            for (const char *in = frames[f]; *in; in++) {
                size_t n = *in == '%' ? strlen(symbols[i]) : 1;
                memcpy(at, *in == '%' ? symbols[i] : in, n);
                at += n;
                in += *in == '%';
            }
            list.count = 0;
            CHECK_EQ(t, tok_encode(tokenizer, text, (size_t)(at - text), &list, NULL), TOK_OK);
            CHECK(t, survives(tokenizer, text, (size_t)(at - text)));
            for (size_t k = 0; k < list.count; k++)
                for (size_t s = 0; s < sizeof symbols / sizeof symbols[0]; s++)
                    CHECK(t, list.ids[k] != tok_control(tokenizer, symbols[s]));
        }
    }
    tok_ids_release(&list);
    tok_close(tokenizer);
}

static void silent_ids(struct harness *t)
{
    tok *tokenizer = open_small(t);
    const char *bytes = NULL;
    if (!tokenizer)
        return;
    CHECK_EQ(t, tok_vocab_size(tokenizer), 600);
    CHECK_EQ(t, tok_bytes(tokenizer, tok_control(tokenizer, "<|end|>"), &bytes), 0);
    CHECK_EQ(t, tok_bytes(tokenizer, 0, &bytes), 0); // <unk>
    CHECK_EQ(t, tok_bytes(tokenizer, -1, &bytes), 0);
    CHECK_EQ(t, tok_bytes(tokenizer, 600, &bytes), 0);
    CHECK_EQ(t, tok_bytes(tokenizer, INT32_MAX, &bytes), 0);
    CHECK_EQ(t, tok_control(tokenizer, "<unk>"), -1);
    CHECK_EQ(t, tok_control(tokenizer, "<0x41>"), -1);
    CHECK_EQ(t, tok_control(tokenizer, "the"), -1);
    CHECK_EQ(t, tok_control(tokenizer, ""), -1);
    tok_close(tokenizer);
}

static void lists_are_appended_to(struct harness *t)
{
    tok *tokenizer = open_small(t);
    struct tok_ids list = {0};
    struct tok_err err;
    if (!tokenizer)
        return;
    CHECK_EQ(t, tok_ids_append(&list, 7, NULL), TOK_OK);
    CHECK_EQ(t, tok_encode(tokenizer, "hello", 5, &list, NULL), TOK_OK);
    CHECK_EQ(t, tok_encode(tokenizer, "", 0, &list, NULL), TOK_OK);
    CHECK_EQ(t, list.count, 4);
    CHECK_EQ(t, list.ids[0], 7);
    CHECK_EQ(t, tok_encode(tokenizer, "hello", (size_t)17 << 20, &list, &err), TOK_UNSUPPORTED);
    CHECK_EQ(t, list.count, 4);
    tok_ids_release(&list);
    CHECK_EQ(t, list.capacity, 0);
    tok_close(tokenizer);
}

// small.model's bytes and room for `extra` more.
static char *read_small(struct harness *t, size_t *length, size_t extra)
{
    FILE *file = fopen(MODEL, "rb");
    char *bytes = malloc(65536 + extra);
    if (!CHECK(t, file && bytes))
        exit(1);
    *length = fread(bytes, 1, 65536, file);
    fclose(file);
    return bytes;
}

// Opens a file of `length` bytes in the scratch directory.
static int open_bytes(const char *bytes, size_t length, tok **tokenizer, struct tok_err *err)
{
    const char *folder = getenv("TMPDIR");
    char path[512];
    snprintf(path, sizeof path, "%s/moechat-test-XXXXXX", folder ? folder : "/tmp");
    int fd = mkstemp(path);
    FILE *file = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (!file || fwrite(bytes, 1, length, file) != length || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
    int code = tok_open("sentencepiece", path, tokenizer, err);
    remove(path);
    return code;
}

static void a_pointer_says_how_to_fetch(struct harness *t)
{
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 4995584\n";
    struct tok_err err = {.text = ""};
    tok *tokenizer = NULL;
    CHECK_EQ(t, open_bytes(pointer, sizeof pointer - 1, &tokenizer, &err), TOK_NOT_FOUND);
    CHECK(t, strstr(err.text, "run git lfs pull") != NULL);
}

// In a protocol buffer a field that is repeated at the end overrides or adds: a few bytes make any other model.
static void unsafe_models_are_refused(struct harness *t)
{
    static const struct {
        const char *bytes;
        size_t length;
        int code;
        const char *says;
    } tails[] = {
        {"\x12\x02\x18\x01", 4, TOK_UNSUPPORTED, "not BPE"},
        {"\x12\x03\x98\x02\x00", 5, TOK_UNSUPPORTED, "byte_fallback"},
        {"\x1A\x03\x12\x01x", 5, TOK_UNSUPPORTED, "identity"},
        {"\x2A\x03\x12\x01x", 5, TOK_UNSUPPORTED, "identity"},
        {"\x1A\x02\x18\x01", 4, TOK_UNSUPPORTED, "add_dummy_prefix"},
        {"\x1A\x02\x20\x01", 4, TOK_UNSUPPORTED, "remove_extra_whitespaces"},
        {"\x1A\x02\x28\x00", 4, TOK_UNSUPPORTED, "escape_whitespaces"},
        {"\x0A\x06\x0A\x02xy\x18\x04", 8, TOK_UNSUPPORTED, "user-defined"},
        {"\x0A\x06\x0A\x02xy\x18\x05", 8, TOK_UNSUPPORTED, "unused"},
        {"\x0A\x0A\x0A\x06<0xGG>\x18\x06", 12, TOK_FORMAT, "damaged"},
        {"\x0A\x02\x0A\x00", 4, TOK_FORMAT, "damaged"},
        {"\x0A\x03\x0A\x01x\x0A\x03\x0A\x01x", 10, TOK_FORMAT, "damaged"},
        {"\x0A\x07\x0A\x03<s>\x18\x03", 9, TOK_FORMAT, "damaged"},
        {"\x0A\x7F", 2, TOK_FORMAT, "damaged"},
        {"\x9A\x80\x80\x80\x10\x02\x18\x01", 8, TOK_FORMAT, "damaged"}, // normalizer_spec by an overlong tag
        {"\x0B", 1, TOK_FORMAT, "damaged"},
    };
    size_t length;
    char *bytes = read_small(t, &length, 64);
    for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
        tok *tokenizer = NULL;
        struct tok_err err = {0};
        memcpy(bytes + length, tails[i].bytes, tails[i].length);
        CHECK_EQ(t, open_bytes(bytes, length + tails[i].length, &tokenizer, &err), tails[i].code);
        CHECK_EQ(t, err.code, tails[i].code);
        if (!CHECK(t, !tokenizer && strstr(err.text, tails[i].says) && !strchr(err.text, '\n')))
            printf("    tail %zu: %s\n", i, err.text);
    }
    free(bytes);
}

// Renames the outermost fields of this tag to one that nobody reads.
static void hide_fields(char *bytes, size_t length, char tag)
{
    for (size_t at = 0; at + 1 < length;) {
        char *field = bytes + at++;
        size_t size = 0;
        for (unsigned shift = 0, more = 1; more && at < length; shift += 7) {
            more = (unsigned char)bytes[at] >> 7;
            size |= (size_t)(bytes[at++] & 0x7F) << shift;
        }
        if (*field == tag)
            *field = 0x7A; // 15
        at += size;
    }
}

// What a model does not say is as the library takes it: a space before the text, no spaces in a row, another kind.
static void what_is_not_said_is_the_default(struct harness *t)
{
    static const struct {
        char hidden;
        const char *bytes;
        size_t length;
        const char *says; // NULL: it is opened
    } cases[] = {
        {0x12, "", 0, "not BPE"},
        {0x12, "\x12\x02\x18\x02", 4, "byte_fallback"},
        {0x1A, "", 0, "add_dummy_prefix"},
        {0x1A, "\x1A\x02\x18\x00", 4, "remove_extra_whitespaces"},
        {0x1A, "\x1A\x04\x18\x00\x20\x00", 6, NULL},
    };
    size_t length;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *bytes = read_small(t, &length, 64);
        tok *tokenizer = NULL;
        struct tok_err err = {0};
        hide_fields(bytes, length, cases[i].hidden);
        memcpy(bytes + length, cases[i].bytes, cases[i].length);
        int code = open_bytes(bytes, length + cases[i].length, &tokenizer, &err);
        if (!CHECK_EQ(t, code, cases[i].says ? TOK_UNSUPPORTED : TOK_OK) ||
            !CHECK(t, !cases[i].says || strstr(err.text, cases[i].says)))
            printf("    case %zu: %s\n", i, err.text);
        tok_close(tokenizer);
        free(bytes);
    }
}

static void damaged_files_are_refused(struct harness *t)
{
    size_t length;
    char *bytes = read_small(t, &length, 0);
    tok *tokenizer = NULL;
    struct tok_err err;
    for (size_t cut = 0; cut < length; cut += cut < 64 || cut + 256 > length ? 1 : 37) {
        int code = open_bytes(bytes, cut, &tokenizer, &err);
        if (!CHECK(t, code == TOK_FORMAT || code == TOK_UNSUPPORTED))
            printf("    cut to %zu bytes\n", cut);
    }
    char *byte_piece = bytes;
    while (memcmp(byte_piece, "<0x42>", 6) != 0)
        byte_piece++;
    byte_piece[4] = '1'; // <0x41> twice, <0x42> never
    CHECK_EQ(t, open_bytes(bytes, length, &tokenizer, &err), TOK_UNSUPPORTED);
    CHECK(t, strstr(err.text, "<0x42>") != NULL);
    CHECK(t, tokenizer == NULL);
    free(bytes);
}

// A control symbol that is spelled as a character nobody trained on: the library takes the character for the symbol,
// and then refuses the text.
static void a_hostile_control_symbol_stays_out(struct harness *t)
{
    static const char symbol[] = "\x0A\x05\x0A\x01~\x18\x03";
    size_t length;
    char *bytes = read_small(t, &length, 64);
    tok *tokenizer = NULL;
    struct tok_ids list = {0};
    memcpy(bytes + length, symbol, sizeof symbol - 1);
    if (CHECK_EQ(t, open_bytes(bytes, length + sizeof symbol - 1, &tokenizer, NULL), TOK_OK)) {
        CHECK_EQ(t, tok_control(tokenizer, "~"), 600);
        CHECK(t, survives(tokenizer, "a ~ b", 5));
        CHECK_EQ(t, tok_encode(tokenizer, "~", 1, &list, NULL), TOK_OK);
        CHECK(t, list.count == 1 && list.ids[0] != 600);
    }
    tok_ids_release(&list);
    tok_close(tokenizer);
    free(bytes);
}

static void what_is_not_there(struct harness *t)
{
    tok *tokenizer = NULL;
    struct tok_err err;
    CHECK_EQ(t, tok_open("sentencepiece", "/nonexistent/tokenizer.model", &tokenizer, &err), TOK_NOT_FOUND);
    CHECK(t, strstr(err.text, "/nonexistent/tokenizer.model: ") == err.text);
    CHECK_EQ(t, tok_open("sentencepiece", "tests", &tokenizer, &err), TOK_FORMAT);
    char pipe[] = "/tmp/moechat-tok-XXXXXX"; // nobody will ever write to it
    CHECK(t, mkdtemp(pipe) && rmdir(pipe) == 0 && mkfifo(pipe, 0600) == 0);
    CHECK_EQ(t, tok_open("sentencepiece", pipe, &tokenizer, &err), TOK_FORMAT);
    unlink(pipe);
    CHECK_EQ(t, tok_open("wordpiece", MODEL, &tokenizer, &err), TOK_UNSUPPORTED);
    CHECK(t, strstr(err.text, "wordpiece") != NULL);
    CHECK_EQ(t, tok_open("tiktoken", MODEL, &tokenizer, &err), TOK_NOT_FOUND);
    CHECK(t, strstr(err.text, "tests/unit/data/tokenizer_config.json") == err.text);
    CHECK(t, tokenizer == NULL);
    tok_close(NULL);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(a_pointer_says_how_to_fetch),
        TEST(ids_are_pythons),
        TEST(any_bytes_come_back),
        TEST(spelling_stays_small),
        TEST(text_makes_no_control_symbol),
        TEST(silent_ids),
        TEST(lists_are_appended_to),
        TEST(unsafe_models_are_refused),
        TEST(what_is_not_said_is_the_default),
        TEST(damaged_files_are_refused),
        TEST(a_hostile_control_symbol_stays_out),
        TEST(what_is_not_there),
    };
    return HARNESS_RUN(tests, argc, argv);
}
