// SPDX-License-Identifier: GPL-3.0-or-later
// Tokenizers that are nearly right: each field of tokenizer.json and of Kimi's tokenizer_config.json at its edges, each
// character of patterns left out, a GGUF's arrays that hardly belong together, lines of tiktoken.model. What texts
// become then, and what is refused in which words. Run from the root of the tree.
#include <stdlib.h>
#include <string.h>

#include "tests/pieces_rig.h"
#include "tests/cases.h"
#include "tests/sweep_rig.h"
#include "tokenizer/bpe.h"
#include "tokenizer/pattern.h"

#define DATA   "tests/unit/data/"
#define TABLES "tests/unit/tokenizer/data/"

static const char sample[] =
    "Hello  the <s>~\n\xC3\xA9 aaaaAAaa 12345 \xE4\xB8\xAD\xE6\x96\x87's \xC3\xBC\t\t <think>x\r\n"
    "e\xCC\x81 It'll <\xEF\xBD\x9C"
    "User\xEF\xBD\x9C><|user|>. [gMASK] \xC3\xB8 \xC3\xBA,\n\n  of ";

// Which of PCRE2's own words a refusal ends with is its version's business.
static void refused_as(char answer[SWEEP_ANSWER], int code, const char *text)
{
    const char *own = strstr(text, "is not one: ");
    snprintf(answer, SWEEP_ANSWER, "%d %.*s", code, own ? (int)(own - text) + 10 : SWEEP_ANSWER - 16, text);
}

static void encoded_by(const struct bpe *bpe, char answer[SWEEP_ANSWER])
{
    struct tok_ids list = {0};
    struct tok_err err = {0};
    int code = bpe_encode(bpe, &(struct pattern_stop){0}, sample, sizeof sample - 1, &list, &err);
    uint64_t digest = sweep_digest(0, list.ids, list.count * sizeof *list.ids);
    const struct vocab *v = &bpe->vocab;
    digest = sweep_digest(digest, v->kind, v->size * sizeof *v->kind);
    digest = sweep_digest(digest, v->flags, v->size * sizeof *v->flags);
    digest = sweep_digest(digest, v->bytes, v->start[v->size]);
    if (code)
        refused_as(answer, code, err.text);
    else
        snprintf(answer, SWEEP_ANSWER, "#%08x of %zu", (unsigned)(digest ^ digest >> 32), list.count);
    tok_ids_release(&list);
}

// ---- tokenizer.json ----
static void ask_json(void *context, const char *text, size_t length, char answer[SWEEP_ANSWER])
{
    struct bpe *bpe = NULL;
    struct tok_err err = {0};
    (void)context;
    int code = bpe_huggingface(text, length, "J", &bpe, &err);
    if (code)
        refused_as(answer, code, err.text);
    else
        encoded_by(bpe, answer);
    bpe_free(bpe);
}

// A whole tokenizer.json with the first `most` pieces alone, and what merges make those.
static char *smaller(const char *path, int32_t most)
{
    struct json_object *root = json_object_from_file(path), *model, *vocab, *merges, *added, *few, *fewer;
    if (!root)
        exit(70);
    model = json_object_object_get(root, "model");
    vocab = json_object_object_get(model, "vocab");
    merges = json_object_object_get(model, "merges");
    added = json_object_object_get(root, "added_tokens");
    few = json_object_new_object();
    fewer = json_object_new_array();
    struct json_object_iter member;
    json_object_object_foreachC(vocab, member)
    {
        if (json_object_get_int(member.val) < most)
            json_object_object_add(few, member.key, json_object_get(member.val));
    }
    for (size_t i = 0; i < json_object_array_length(merges); i++) {
        struct json_object *merge = json_object_array_get_idx(merges, i);
        char joined[256];
        if (!json_object_is_type(merge, json_type_array))
            continue;
        snprintf(joined, sizeof joined, "%s%s", json_object_get_string(json_object_array_get_idx(merge, 0)),
                 json_object_get_string(json_object_array_get_idx(merge, 1)));
        if (json_object_object_get_ex(few, joined, NULL))
            json_object_array_add(fewer, json_object_get(merge));
    }
    for (size_t i = 0; i < json_object_array_length(added); i++)
        json_object_object_add(json_object_array_get_idx(added, i), "id", json_object_new_int(most + (int32_t)i));
    json_object_object_add(model, "vocab", few);
    json_object_object_add(model, "merges", fewer);
    char *text = strdup(json_object_to_json_string_ext(root, JSON_C_TO_STRING_PLAIN));
    json_object_put(root);
    return text;
}

static void fields_of_tokenizer_json(struct harness *t)
{
    static const char *const names[] = {"v3", "glm", "qwen"};
    struct sweep *s = sweep_begin(ask_json, NULL);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[64];
        snprintf(path, sizeof path, DATA "bpe-%s.json", names[i]);
        char *text = smaller(path, 290);
        sweep_json(s, names[i], text, strlen(text));
        free(text);
    }
    sweep_end(t, s, TABLES "tokenizer_json.txt");
}

// ---- tiktoken.model and tokenizer_config.json ----
static void ask_config(void *context, const char *text, size_t length, char answer[SWEEP_ANSWER])
{
    struct bpe_tiktoken_files files = *(const struct bpe_tiktoken_files *)context;
    struct bpe *bpe = NULL;
    struct tok_err err = {0};
    files.config = text;
    files.config_length = length;
    int code = bpe_tiktoken(&files, &bpe, &err);
    if (code)
        refused_as(answer, code, err.text);
    else
        encoded_by(bpe, answer);
    bpe_free(bpe);
}

static void ask_ranks(void *context, const char *text, size_t length, char answer[SWEEP_ANSWER])
{
    struct bpe_tiktoken_files files = *(const struct bpe_tiktoken_files *)context;
    files.ranks = text;
    files.ranks_length = length;
    ask_config(&files, files.config, files.config_length, answer);
}

static void kimis_files(struct harness *t)
{
    struct bpe_tiktoken_files files = {.ranks_path = "R", .config_path = "C"};
    char *ranks = sweep_file(DATA "kimi/tiktoken.model", &files.ranks_length);
    char *config = sweep_file(DATA "kimi/tokenizer_config.json", &files.config_length);
    struct sweep *s = sweep_begin(ask_config, &files);
    if (!ranks || !config)
        exit(70);
    files.ranks = ranks;
    files.config = config;
    sweep_json(s, "tokenizer_config.json", config, files.config_length);
    s->ask = ask_ranks;
    sweep_good(s, "tiktoken.model", ranks, files.ranks_length);
    static const char others[] = {' ', '\n', '=', 'A', '0', '9', '-', 0};
    for (size_t at = 0; at < 24; at++) { // the first lines and the last one
        size_t place = at < 16 ? at : files.ranks_length - 24 + at;
        char was = ranks[place], name[40];
        for (size_t i = 0; i < sizeof others; i++) {
            ranks[place] = others[i];
            snprintf(name, sizeof name, "%02x", (unsigned)others[i]);
            sweep_try(s, name, ranks, files.ranks_length);
        }
        ranks[place] = was;
        sweep_try(s, "cut", ranks, place);
        snprintf(name, sizeof name, "byte %zu", place);
        sweep_place(s, name);
    }
    free(ranks);
    free(config);
    sweep_end(t, s, TABLES "tiktoken.txt");
}

// ---- patterns ----
static void ask_pattern(void *context, const char *text, size_t length, char answer[SWEEP_ANSWER])
{
    struct pattern_source source = {text, length, *(const bool *)context, "P"};
    struct pattern *pattern = NULL;
    struct tok_err err = {0};
    int code = pattern_new(&source, &pattern, &err);
    if (code) {
        refused_as(answer, code, err.text);
        return;
    }
    struct pattern_search *search = pattern_search_new(&(struct pattern_stop){0});
    struct pattern_subject subject = {.text = sample, .length = sizeof sample - 1};
    uint64_t digest = 0;
    int found, n = 0;
    while ((found = pattern_find(pattern, search, &subject, &err)) > 0 && n++ < 1000) {
        digest = sweep_digest(digest, &subject.start, sizeof subject.start);
        digest = sweep_digest(digest, &subject.end, sizeof subject.end);
    }
    if (found < 0)
        refused_as(answer, -found, err.text);
    else
        snprintf(answer, SWEEP_ANSWER, "#%08x of %d", (unsigned)(digest ^ digest >> 32), n);
    pattern_search_free(search);
    pattern_free(pattern);
}

static void every_character_of_a_pattern(struct harness *t)
{
    static const char *const patterns[] = {
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
        "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]"
        "+|\\s+(?!\\S)|\\s+",
        "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
        "?[\\p{P}\\p{S}]+[\r\n]*",
        "[\\p{Han}]+|[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]*[\\p{Ll}\\p{M}&&[^\\p{Han}]]+",
        "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}]+|\\s+$|[^a-c\\d]\\w|\\h+",
    };
    bool literal = false;
    struct sweep *s = sweep_begin(ask_pattern, &literal);
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        size_t length = strlen(patterns[i]);
        char text[300], title[40];
        snprintf(title, sizeof title, "pattern %zu", i);
        sweep_good(s, title, patterns[i], length);
        for (size_t at = 0; at < length; at++) {
            snprintf(text, sizeof text, "%.*s%s", (int)at, patterns[i], patterns[i] + at + 1);
            snprintf(title, sizeof title, "%zu", at);
            if (!strstr(text, "{,")) // which newer libraries take for a number of times
                sweep_try(s, title, text, length - 1);
            if (at % 24 == 23 || at + 1 == length) {
                snprintf(title, sizeof title, "without one up to %zu", at);
                sweep_place(s, title);
            }
        }
    }
    sweep_end(t, s, TABLES "patterns.txt");
}

static void what_patterns_may_have(struct harness *t)
{
    static const char *const patterns[] = {
        "",
        "a",
        "\\",
        "[",
        "[]",
        "[a",
        "[^]",
        "[a-]",
        "[-a]",
        "[z-a]",
        "\\d",
        "\\D",
        "\\w",
        "\\W",
        "\\s",
        "\\S",
        "\\h",
        "\\H",
        "\\v",
        "\\R",
        "\\X",
        "\\b",
        "\\B",
        "\\A",
        "\\z",
        "\\Z",
        "\\G",
        "\\K",
        "\\1",
        "(a)\\1",
        "\\0",
        "\\9",
        "\\x41",
        "\\x{41}",
        "\\x{110000}",
        "\\x{",
        "\\u0041",
        "\\cA",
        "\\e",
        "\\n",
        "\\t",
        "\\r",
        "\\f",
        "\\a",
        "\\p{L}",
        "\\P{L}",
        "\\p{^L}",
        "\\pL",
        "\\p{Han}",
        "\\p{Latin}",
        "\\p{Nope}",
        "\\p{",
        "[\\d]",
        "[\\s]",
        "[^\\s]",
        "[\\S]",
        "[\\w-a]",
        "[[:alpha:]]",
        "[a&&b]",
        "[a&&[^b]]",
        "[&&a]",
        "[a&&]",
        "[a[b]]",
        "[^a&&[^b]]",
        "(?:a)",
        "(?i:A)",
        "(?i)a",
        "(?m:^a)",
        "(?s:.)",
        "(?=a)",
        "(?!a)",
        "(?<=a)b",
        "(?<!a)b",
        "(?>a+)",
        "(?<n>a)",
        "(?#c)a",
        "(?P<n>a)",
        "(?|a)",
        "(a",
        "a)",
        "a{2}",
        "a{2,}",
        "a{2,1}",
        "a{99999}",
        "a**",
        "a++",
        "a?+",
        "a*?",
        "^a",
        "a$",
        ".",
        "a|b|",
        "\\Q.\\E",
        "\\N",
        "\\s+$",
        "\\s+$|a",
        "[\\p{Ll}&&[^a]]",
        "\\p{Lu}\\p{Ll}",
    };
    bool literal = false;
    struct sweep *s = sweep_begin(ask_pattern, &literal);
    for (int pass = 0; pass < 2; pass++) {
        literal = pass;
        for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
            sweep_try(s, "found", patterns[i], strlen(patterns[i]));
            sweep_place(s, *patterns[i] ? patterns[i] : "nothing");
        }
    }
    static char longest[16385]; // the most bytes, and one more
    memset(longest, 'a', sizeof longest);
    sweep_try(s, "16383", longest, 16383);
    sweep_try(s, "16384", longest, 16384);
    sweep_try(s, "16385", longest, 16385);
    sweep_place(s, "long ones");
    for (int depth = 30; depth < 36; depth++) {
        char nested[256];
        int at = 0;
        for (int i = 0; i < depth; i++)
            nested[at++] = '(';
        nested[at++] = 'a';
        for (int i = 0; i < depth; i++)
            nested[at++] = ')';
        char times[16];
        snprintf(times, sizeof times, "%d", depth);
        sweep_try(s, times, nested, (size_t)at);
    }
    sweep_place(s, "nested ones");
    sweep_end(t, s, TABLES "constructs.txt");
}

// ---- a GGUF's arrays ----
static void ask_pieces(void *context, const char *text, size_t length, char answer[SWEEP_ANSWER])
{
    const struct tok_pieces *pieces = context;
    struct bpe *bpe = NULL;
    struct tok_err err = {0};
    (void)text;
    (void)length;
    int code = bpe_pieces(pieces, &bpe, &err);
    if (code)
        refused_as(answer, code, err.text);
    else
        encoded_by(bpe, answer);
    bpe_free(bpe);
}

static void try_view(struct sweep *s, struct tok_view *view, const char *text)
{
    struct tok_view was = *view;
    *view = (struct tok_view){text, strlen(text)};
    sweep_try(s, !*text ? "nothing" : *text == (char)0xFF ? "no UTF-8" : text, "", 0);
    *view = was;
}

static void sweep_arrays_of(struct sweep *s, struct pieces_rig *rig)
{
    struct tok_pieces *p = &rig->pieces, was = *p;
    static const char *const models[] = {"gpt2", "gpt", "gpt2x", "llama", "bert", ""};
    static const char *const pres[] = {"deepseek-v3", "deepseek-llm", "kimi-k2", "glm4",
                                       "chatglm-bpe", "glm5",         "qwen2",   "deepseek-r1-qwen",
                                       "qwen35",      "deepseek-v",   "default", ""};
    static const char *const texts[] = {"a", "", "a b", "\xC4\xA0the", "\xFF", "<|x|>", "a  b", " a", "a "};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        try_view(s, &p->model, models[i]);
    sweep_place(s, "model");
    for (size_t i = 0; i < sizeof pres / sizeof *pres; i++)
        try_view(s, &p->pre, pres[i]);
    sweep_place(s, "pre");
    const size_t places[] = {0, 1, p->n_tokens / 2, p->n_tokens - 1};
    for (size_t k = 0; k < 4; k++) {
        char name[32];
        int32_t type = rig->types[places[k]];
        snprintf(name, sizeof name, "tokens[%zu]", places[k]);
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
            try_view(s, &rig->tokens[places[k]], texts[i]);
        sweep_place(s, name);
        for (int32_t other = -1; other < 9; other++) {
            rig->types[places[k]] = other;
            snprintf(name, sizeof name, "%d", other);
            sweep_try(s, name, "", 0);
        }
        rig->types[places[k]] = type;
        snprintf(name, sizeof name, "types[%zu]", places[k]);
        sweep_place(s, name);
    }
    for (size_t k = 0; k < 2 && p->n_merges; k++) {
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
            try_view(s, &rig->merges[k ? p->n_merges - 1 : 0], texts[i]);
        sweep_place(s, k ? "the last merge" : "the first merge");
    }
    size_t *counts[] = {&p->n_tokens, &p->n_types, &p->n_merges};
    static const char *const counted[] = {"n_tokens", "n_types", "n_merges"};
    for (size_t k = 0; k < 3; k++) {
        size_t n = *counts[k];
        const size_t others[] = {0, 1, n ? n - 1 : 2, n / 2};
        static const char *const names[] = {"0", "1", "one less", "half"};
        for (size_t i = 0; i < 4; i++) {
            *counts[k] = others[i];
            sweep_try(s, names[i], "", 0);
        }
        *p = was;
        sweep_place(s, counted[k]);
    }
    int32_t *ids[] = {&p->bos, &p->eos, &p->eot, &p->eom};
    for (size_t k = 0; k < 4; k++) {
        const int32_t others[] = {-2, -1, 0, (int32_t)p->n_tokens - 1, (int32_t)p->n_tokens, (int32_t)p->n_tokens + 1};
        static const char *const names[] = {"-2", "-1", "0", "the last", "beyond", "further"};
        for (size_t i = 0; i < 6; i++) {
            *ids[k] = others[i];
            sweep_try(s, names[i], "", 0);
        }
        *p = was;
        sweep_place(s, k == 0 ? "bos" : k == 1 ? "eos" : k == 2 ? "eot" : "eom");
    }
    p->types = NULL;
    sweep_try(s, "types", "", 0);
    *p = was;
    p->merges = NULL;
    p->n_merges = 0;
    sweep_try(s, "merges", "", 0);
    *p = was;
    sweep_place(s, "without");
}

static void arrays_of_a_gguf(struct harness *t)
{
    struct pieces_rig *rig = rig_json(DATA "bpe-v3.json", "deepseek-v3", NULL);
    struct sweep *s = sweep_begin(ask_pieces, &rig->pieces);
    sweep_good(s, "bpe-v3", "", 0);
    sweep_arrays_of(s, rig);
    rig_free(rig);
    sweep_end(t, s, TABLES "pieces.txt");
}

// Every character beside added tokens of DeepSeek-V2's, which take spaces in, and beside letters.
static void characters_beside_tokens(struct harness *t)
{
    tok *tokenizer = NULL;
    struct cases c = cases_begin("characters_beside_tokens");
    if (!CHECK_EQ(t, tok_open("huggingface", DATA "bpe-v2.json", &tokenizer, NULL), TOK_OK))
        return;
    for (uint32_t code = 1; code < 0x3100; code++) {
        char text[40], character[4] = "";
        struct tok_ids list = {0};
        if (code < 0x80)
            character[0] = (char)code;
        else if (code < 0x800)
            snprintf(character, sizeof character, "%c%c", (int)(0xC0 | code >> 6), (int)(0x80 | (code & 0x3F)));
        else
            snprintf(character, sizeof character, "%c%c%c", (int)(0xE0 | code >> 12), (int)(0x80 | (code >> 6 & 0x3F)),
                     (int)(0x80 | (code & 0x3F)));
        int length = snprintf(text, sizeof text, "a%s\xC3\xB8%s\xC3\xB6%s%sb\xC3\xBA%s", character, character,
                              character, character, character);
        CHECK_EQ(t, tok_encode(tokenizer, text, (size_t)length, &list, NULL), TOK_OK);
        for (size_t i = 0; i < list.count; i++)
            cases_say(&c, "%d ", list.ids[i]);
        tok_ids_release(&list);
    }
    tok_close(tokenizer);
    CHECK_CASES(t, &c, 0xba2668dc4d7dc6d6);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(fields_of_tokenizer_json), TEST(kimis_files),      TEST(every_character_of_a_pattern),
        TEST(what_patterns_may_have),   TEST(arrays_of_a_gguf), TEST(characters_beside_tokens)};
    return HARNESS_RUN(tests, argc, argv);
}
