// SPDX-License-Identifier: GPL-3.0-or-later
// Tokenizers from a GGUF's arrays: their ids are those of the tokenizer.json or tiktoken.model that the arrays come
// from, which test_bpe compares with the libraries. Run from the root of the tree: reads tests/unit/data. With --ids
// PRE FILE it is ids_rig.h's half of a comparison, for the arrays of a tokenizer.json.
#include <stdlib.h>
#include <unistd.h>

#include "tests/harness.h"
#include "tests/ids_rig.h"
#include "tests/pieces_rig.h"

#define DATA   "tests/unit/data/"
#define GAP    "\xE2\x96\x81"
#define BAR(x) "<\xEF\xBD\x9C" x "\xEF\xBD\x9C>"
// Added tokens of bpe-v2.json that take in the spaces around them.
#define STRIPS "\xC3\xB6\xC3\xB6 \xC3\xBC\xC3\xBC"

static tok *open_rig(struct harness *t, const struct pieces_rig *rig)
{
    tok *tokenizer = NULL;
    struct tok_err err = {0};
    if (!CHECK_EQ(t, tok_open_pieces(&rig->pieces, &tokenizer, &err), TOK_OK))
        printf("    %s\n", err.text);
    return tokenizer;
}

static bool same_ids(const tok *const both[2], const char *text, size_t length)
{
    struct tok_ids lists[2] = {{0}, {0}};
    bool same = true;
    for (int i = 0; i < 2; i++)
        same = same && tok_encode(both[i], text, length, &lists[i], NULL) == TOK_OK;
    same = same && lists[0].count == lists[1].count &&
           (!lists[0].count || memcmp(lists[0].ids, lists[1].ids, lists[0].count * sizeof *lists[0].ids) == 0);
    for (int i = 0; i < 2; i++)
        tok_ids_release(&lists[i]);
    return same;
}

// The texts of make_small_bpe.py, then random bytes and marks.
static void compare(struct harness *t, const tok *const both[2])
{
    static const char *const parts[] = {"<think>",  " ",  "the",      "\n",       "[PAD12]", BAR("User"),
                                        "<|user|>", "12", "\xC3\xBC", "/nothink", "\xFF",    "<|im_end|>"};
    static char text[65536];
    FILE *texts = fopen(DATA "nasty.bin", "rb");
    unsigned char size[2];
    int count = 0, wrong = 0;
    uint32_t random = 1;
    if (!CHECK(t, texts && both[0] && both[1]))
        return;
    for (; fread(size, 1, 2, texts) == 2; count++) {
        size_t length = size[0] | (size_t)size[1] << 8;
        CHECK_EQ(t, fread(text, 1, length, texts), length);
        if (!same_ids(both, text, length) && wrong++ == 0)
            printf("    text %d: %.*s\n", count, (int)length, text);
    }
    CHECK_EQ(t, count, 5200);
    for (count = 0; count < 2000; count++) {
        size_t length = 0;
        for (int i = 0; i < count % 40; i++) {
            random = random * 1664525u + 1013904223u;
            size_t part = random >> 24;
            if (part < sizeof parts / sizeof parts[0] * 16)
                length += (size_t)sprintf(text + length, "%s", parts[part / 16]);
            else
                text[length++] = (char)(random >> 16);
        }
        wrong += !same_ids(both, text, length);
    }
    CHECK_EQ(t, wrong, 0);
    fclose(texts);
}

// What an id stands for. A mark of the files may be a control symbol of the arrays, which is not shown.
static void compare_pieces(struct harness *t, const tok *const both[2])
{
    if (!both[0] || !both[1])
        return;
    CHECK_EQ(t, tok_vocab_size(both[0]), tok_vocab_size(both[1]));
    for (int32_t id = 0; id < (int32_t)tok_vocab_size(both[1]); id++) {
        const char *bytes[2];
        size_t length[2];
        for (int i = 0; i < 2; i++)
            length[i] = tok_bytes(both[i], id, &bytes[i]);
        if (length[0] == 0 && length[1] > 0) {
            char name[64];
            snprintf(name, sizeof name, "%.*s", (int)length[1], bytes[1]);
            CHECK_EQ(t, tok_control(both[0], name), id);
        } else {
            CHECK(t, length[0] == length[1] && memcmp(bytes[0], bytes[1], length[0]) == 0);
        }
    }
}

static void ids_are_those_of_tokenizer_json(struct harness *t)
{
    static const char *const files[][2] = {{DATA "bpe-v3.json", "deepseek-v3"},
                                           {DATA "bpe-glm.json", "glm4"},
                                           {DATA "bpe-glm.json", "chatglm-bpe"},
                                           {DATA "bpe-qwen.json", "qwen2"}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct pieces_rig *rig = rig_json(files[i][0], files[i][1], NULL);
        tok *wanted = NULL, *made = open_rig(t, rig);
        rig_free(rig); // everything has been copied
        CHECK_EQ(t, tok_open("huggingface", files[i][0], &wanted, NULL), TOK_OK);
        compare(t, (const tok *const[]){made, wanted});
        compare_pieces(t, (const tok *const[]){made, wanted});
        tok_close(made);
        tok_close(wanted);
    }
}

// Opens what json_object_from_file read and somebody changed.
static tok *open_json(struct harness *t, struct json_object *root)
{
    char path[] = "/tmp/moechat-pieces-XXXXXX";
    int fd = mkstemp(path);
    tok *tokenizer = NULL;
    CHECK(t, fd >= 0 && json_object_to_fd(fd, root, JSON_C_TO_STRING_PLAIN) == 0);
    CHECK_EQ(t, tok_open("huggingface", path, &tokenizer, NULL), TOK_OK);
    close(fd);
    remove(path);
    return tokenizer;
}

// bpe-v2.json without the tokens whose flags a GGUF does not have.
static void ids_of_deepseek_v2(struct harness *t)
{
    struct pieces_rig *rig = rig_json(DATA "bpe-v2.json", "deepseek-llm", STRIPS);
    struct json_object *root = json_object_from_file(DATA "bpe-v2.json"), *kept = json_object_new_array();
    struct json_object *added = json_object_object_get(root, "added_tokens");
    for (size_t i = 0; i < json_object_array_length(added); i++) {
        struct json_object *token = json_object_array_get_idx(added, i);
        if (!strstr(STRIPS, json_object_get_string(json_object_object_get(token, "content"))))
            json_object_array_add(kept, json_object_get(token));
    }
    CHECK_EQ(t, json_object_array_length(kept), 14); // the letters of STRIPS alone are left out, too
    json_object_object_add(root, "added_tokens", kept);
    tok *wanted = open_json(t, root), *made = open_rig(t, rig);
    compare(t, (const tok *const[]){made, wanted});
    tok_close(made);
    tok_close(wanted);
    rig_free(rig);
    json_object_put(root);
}

// bpe-qwen.json with the pattern of Qwen 3.5, where marks belong to letters.
static void ids_of_qwen35(struct harness *t)
{
    static const char pattern[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| "
                                  "?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|"
                                  "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
    struct pieces_rig *rig = rig_json(DATA "bpe-qwen.json", "qwen35", NULL);
    struct json_object *root = json_object_from_file(DATA "bpe-qwen.json"), *pre, *steps;
    CHECK(t, json_object_object_get_ex(root, "pre_tokenizer", &pre) &&
                 json_object_object_get_ex(pre, "pretokenizers", &steps));
    struct json_object *regex = json_object_object_get(json_object_array_get_idx(steps, 0), "pattern");
    json_object_object_add(regex, "Regex", json_object_new_string(pattern));
    tok *wanted = open_json(t, root), *made = open_rig(t, rig);
    compare(t, (const tok *const[]){made, wanted});
    tok_close(made);
    tok_close(wanted);
    rig_free(rig);
    json_object_put(root);
}

static void ids_of_kimi(struct harness *t)
{
    struct pieces_rig *rig = rig_tiktoken(DATA "kimi/tiktoken.model", DATA "kimi/tokenizer_config.json");
    tok *wanted = NULL;
    CHECK_EQ(t, tok_open("tiktoken", DATA "kimi/tiktoken.model", &wanted, NULL), TOK_OK);
    for (int merges = 0; merges < 2; merges++) { // whatever the file's merges are
        if (merges)
            rig_merge(rig, "x", "y");
        tok *made = open_rig(t, rig);
        compare(t, (const tok *const[]){made, wanted});
        compare_pieces(t, (const tok *const[]){made, wanted});
        tok_close(made);
    }
    tok_close(wanted);
    rig_free(rig);
}

static void compare_template(struct harness *t, const char *name, const tok *const both[2])
{
    static const char thought[] = "<think>\nHm.\n</think>\n\nThe sum is 42.";
    const struct tok_turn turns[] = {{TOK_SYSTEM, "Be kind.", 8},
                                     {TOK_USER, "sum? <think>", 12},
                                     {TOK_ASSISTANT, thought, sizeof thought - 1},
                                     {TOK_USER, "\n\nWhy?", 6}};
    tok_template *opened[2] = {NULL, NULL};
    struct tok_ids lists[2] = {{0}, {0}};
    for (int i = 0; i < 2; i++) {
        const struct tok_prompt prompt = {turns, 4, true, true, false};
        if (!CHECK_EQ(t, tok_template_open(name, both[i], &opened[i], NULL), TOK_OK) ||
            !CHECK_EQ(t, tok_template_encode(opened[i], &prompt, &lists[i], NULL, NULL), TOK_OK))
            return;
    }
    CHECK(t, lists[0].count > 10 && lists[0].count == lists[1].count &&
                 memcmp(lists[0].ids, lists[1].ids, lists[0].count * sizeof *lists[0].ids) == 0);
    for (int32_t id = 0; id < (int32_t)tok_vocab_size(both[0]); id++)
        CHECK_EQ(t, tok_template_ends(opened[0], id), tok_template_ends(opened[1], id));
    for (int i = 0; i < 2; i++) {
        tok_ids_release(&lists[i]);
        tok_template_close(opened[i]);
    }
}

static void templates_render_the_same(struct harness *t)
{
    static const char *const names[3][6] = {{"deepseek-v3", "deepseek-r1", "deepseek-v3.1", "cogito-v2", "chatml"},
                                            {"glm-4.7"},
                                            {"kimi-k2", "kimi-k2-0905", "kimi-k2-thinking", "kimi-k2.5", "moonlight"}};
    for (int i = 0; i < 3; i++) {
        const char *file = i == 0 ? DATA "bpe-v3.json" : i == 1 ? DATA "bpe-glm.json" : DATA "kimi/tiktoken.model";
        struct pieces_rig *rig = i == 2 ? rig_tiktoken(file, DATA "kimi/tokenizer_config.json")
                                        : rig_json(file, i ? "glm4" : "deepseek-v3", NULL);
        tok *wanted = NULL, *made = open_rig(t, rig);
        CHECK_EQ(t, tok_open(i == 2 ? "tiktoken" : "huggingface", file, &wanted, NULL), TOK_OK);
        for (int k = 0; names[i][k] && made && wanted; k++)
            compare_template(t, names[i][k], (const tok *const[]){made, wanted});
        tok_close(made);
        tok_close(wanted);
        rig_free(rig);
    }
}

// Where the arrays of bpe-v3.json have what they call by other names in real files.
static void what_types_mean(struct harness *t)
{
    struct pieces_rig *rig = rig_json(DATA "bpe-v3.json", "deepseek-v3", NULL);
    size_t n = rig->pieces.n_tokens;
    rig_token(rig, n, "jqxz", 5);                         // unused: never made
    rig_token(rig, n + 1, "", 1);                         // no token
    rig_token(rig, n + 2, "zq zq", 4);                    // plain text, found first
    rig_token(rig, n + 3, "\xE4\xB8\xAD\xE4\xB8\xAD", 1); // not of the alphabet: from its id alone
    rig_token(rig, n + 4, "<unk>", 2);
    rig_token(rig, n + 6, "[PAD99]", 3); // another's name is a name; n + 5 is a gap
    tok *tokenizer = open_rig(t, rig);
    const char *bytes;
    struct tok_ids list = {0};
    if (!tokenizer)
        return;
    CHECK_EQ(t, tok_vocab_size(tokenizer), n + 7);
    CHECK_EQ(t, tok_bytes(tokenizer, (int32_t)n, &bytes), 0);
    CHECK_EQ(t, tok_bytes(tokenizer, (int32_t)n + 1, &bytes), 0);
    CHECK_EQ(t, tok_bytes(tokenizer, (int32_t)n + 3, &bytes), 6);
    CHECK_EQ(t, tok_bytes(tokenizer, (int32_t)n + 4, &bytes), 0);
    CHECK_EQ(t, tok_bytes(tokenizer, (int32_t)n + 5, &bytes), 0);
    CHECK_EQ(t, tok_bytes(tokenizer, (int32_t)n + 6, &bytes), 0);
    CHECK_EQ(t, tok_control(tokenizer, "[PAD99]"), n + 6);
    CHECK_EQ(t, tok_control(tokenizer, "jqxz"), -1);
    // A mark of thinking is shown, and so is any user-defined mark; what looks special is silent.
    CHECK_EQ(t, tok_bytes(tokenizer, tok_control(tokenizer, "</think>"), &bytes), 8);
    CHECK_EQ(t, tok_bytes(tokenizer, tok_control(tokenizer, BAR("User")), &bytes), 0);
    CHECK_EQ(t, tok_encode(tokenizer, "jqxz", 4, &list, NULL), TOK_OK);
    CHECK(t, list.count >= 2);
    list.count = 0;
    CHECK_EQ(t, tok_encode(tokenizer, "zq zq<unk>\xE4\xB8\xAD\xE4\xB8\xAD", 16, &list, NULL), TOK_OK);
    CHECK(t, list.count > 3 && list.ids[0] == (int32_t)n + 2);
    for (size_t i = 1; i < list.count; i++)
        CHECK(t, list.ids[i] < (int32_t)n);
    tok_ids_release(&list);
    tok_close(tokenizer);
    // Without types, what is not of the alphabet is a mark.
    rig_token(rig, n + 1, "x", 5);
    rig->pieces.types = NULL;
    rig->pieces.n_types = 0;
    rig->pieces.eos = 1501;
    rig->tokens[n + 1].length = 0;
    tokenizer = open_rig(t, rig);
    if (tokenizer)
        CHECK_EQ(t, tok_control(tokenizer, BAR("User")), 1503);
    tok_close(tokenizer);
    rig_free(rig);
}

static void thinking_of_kimi_is_shown(struct harness *t)
{
    struct pieces_rig *rig = rig_tiktoken(DATA "kimi/tiktoken.model", DATA "kimi/tokenizer_config.json");
    tok *tokenizer = open_rig(t, rig);
    const char *bytes;
    if (tokenizer) {
        CHECK_EQ(t, tok_bytes(tokenizer, tok_control(tokenizer, "<think>"), &bytes), 7);
        CHECK_EQ(t, tok_bytes(tokenizer, tok_control(tokenizer, "[EOS]"), &bytes), 0);
        CHECK_EQ(t, tok_control(tokenizer, "<|reserved_token_1506|>"), 1506);
    }
    tok_close(tokenizer);
    rig_free(rig);
}

static void answers_end_where_the_file_says(struct harness *t)
{
    struct pieces_rig *rig = rig_json(DATA "bpe-v3.json", "deepseek-v3", NULL);
    tok_template *turns = NULL;
    rig->pieces.bos = 1500;
    rig->pieces.eos = 1501;
    rig->pieces.eot = 1505; // <|EOT|>
    rig->types[1505] = 1;   // by its type, it could be made by text
    rig->pieces.eom = 300;  // and so it was: merges make it
    tok *tokenizer = open_rig(t, rig);
    if (!tokenizer || !CHECK_EQ(t, tok_template_open("deepseek-v3", tokenizer, &turns, NULL), TOK_OK))
        return;
    CHECK(t, tok_template_ends(turns, 1501) && tok_template_ends(turns, 1505));
    CHECK(t, !tok_template_ends(turns, 1500) && !tok_template_ends(turns, 1502) && !tok_template_ends(turns, -1) &&
                 !tok_template_ends(turns, 1510) && !tok_template_ends(turns, INT32_MAX));
    CHECK_EQ(t, tok_template_end(turns), 1501);
    CHECK_EQ(t, tok_control(tokenizer, "<|EOT|>"), 1505);
    CHECK(t, tok_template_ends(turns, 300));
    struct tok_ids list = {0};
    CHECK_EQ(t, tok_encode(tokenizer, "a>\n", 3, &list, NULL), TOK_OK);
    for (size_t i = 0; i < list.count; i++)
        CHECK(t, list.ids[i] != 300);
    tok_ids_release(&list);
    tok_template_close(turns);
    tok_close(tokenizer);
    rig_free(rig);
}

enum damage {
    NOTHING,
    NO_TOKENS,
    TOO_MANY_TOKENS,
    FEWER_TYPES,
    STRANGE_TYPE,
    BYTE_TYPE,
    LONG_TOKEN,
    TWICE,
    HALF_A_CHARACTER,
    CONTROL_TWICE,
    NO_BYTE,
    NO_MERGES,
    TOO_MANY_MERGES,
    MERGE_WITHOUT_SPACE,
    MERGE_OF_NOTHING,
    MERGE_OF_THREE,
    MERGE_UNKNOWN,
    MERGE_NEW,
    LONG_MERGE,
    BOS_BEYOND,
    EOS_NEGATIVE,
    EOT_UNUSED,
    EOM_TEXT,
    EOS_BYTE,
    LLAMA,
    NO_MODEL,
    NO_PRE,
    DEFAULT_PRE,
    STRANGE_PRE,
};

static const struct broken {
    enum damage damage;
    int code;
    const char *says;
} broken[] = {
    {NOTHING, TOK_OK, ""},
    {NO_TOKENS, TOK_FORMAT, "tokenizer.ggml.tokens has 0"},
    {TOO_MANY_TOKENS, TOK_FORMAT, "tokenizer.ggml.tokens has"},
    {FEWER_TYPES, TOK_FORMAT, "tokenizer.ggml.token_type has 1509 numbers for 1510 tokens"},
    {STRANGE_TYPE, TOK_FORMAT, "tokenizer.ggml.token_type[7] is not 1 to 5"},
    {BYTE_TYPE, TOK_FORMAT, "tokenizer.ggml.token_type[7] is 6, which belongs to SentencePiece"},
    {LONG_TOKEN, TOK_FORMAT, "tokenizer.ggml.tokens[300] is too long"},
    {TWICE, TOK_FORMAT, "tokenizer.ggml.tokens[301] is there twice"},
    {CONTROL_TWICE, TOK_FORMAT, "tokenizer.ggml.tokens[1502] is there twice"},
    {HALF_A_CHARACTER, TOK_FORMAT, "added_tokens: 1502 is not UTF-8"},
    {NO_BYTE, TOK_UNSUPPORTED, "no piece for the byte 0x21"},
    {NO_MERGES, TOK_FORMAT, "tokenizer.ggml.merges has 0"},
    {TOO_MANY_MERGES, TOK_FORMAT, "tokenizer.ggml.merges has"},
    {MERGE_WITHOUT_SPACE, TOK_FORMAT, "tokenizer.ggml.merges[3] is not of the vocabulary"},
    {MERGE_OF_NOTHING, TOK_FORMAT, "tokenizer.ggml.merges[3] is not"},
    {MERGE_OF_THREE, TOK_FORMAT, "tokenizer.ggml.merges[3] is not"},
    {MERGE_UNKNOWN, TOK_FORMAT, "tokenizer.ggml.merges[3] is not"},
    {MERGE_NEW, TOK_FORMAT, "tokenizer.ggml.merges[3] is not"},
    {LONG_MERGE, TOK_FORMAT, "tokenizer.ggml.merges[3] is not"},
    {BOS_BEYOND, TOK_FORMAT, "tokenizer.ggml.bos_token_id is 1510, which no token has"},
    {EOS_NEGATIVE, TOK_FORMAT, "tokenizer.ggml.eos_token_id is -7"},
    {EOT_UNUSED, TOK_FORMAT, "tokenizer.ggml.eot_token_id is 1502, which no token has"},
    {EOM_TEXT, TOK_FORMAT, "tokenizer.ggml.eom_token_id is 959, which is ordinary text"},
    {EOS_BYTE, TOK_FORMAT, "tokenizer.ggml.eos_token_id is 0, which is ordinary text"},
    {LLAMA, TOK_UNSUPPORTED, "tokenizer.ggml.model is \"llama\", and known is gpt2: put the model's tokenizer.json"},
    {NO_MODEL, TOK_UNSUPPORTED, "tokenizer.ggml.model is \"\""},
    {NO_PRE, TOK_UNSUPPORTED, "tokenizer.ggml.pre is \"\", and known are deepseek-llm, deepseek-v3, kimi-k2, glm4"},
    {DEFAULT_PRE, TOK_UNSUPPORTED, "tokenizer.ggml.pre is \"default\""},
    {STRANGE_PRE, TOK_UNSUPPORTED, "tokenizer.ggml.pre is \"te?ken\""},
};

static void set_merge(struct pieces_rig *rig, const char *text)
{
    rig->merges[3] = (struct tok_view){text, strlen(text)};
}

static void damage_arrays(struct pieces_rig *rig, enum damage damage)
{
    static char many[4000];
    struct tok_pieces *pieces = &rig->pieces;
    memset(many, 'a', sizeof many);
    many[2000] = ' ';
    switch (damage) {
    case HALF_A_CHARACTER: // user-defined: cut out of texts
        rig->tokens[1502] = (struct tok_view){"\xC3", 1};
        rig->types[1502] = 4;
        break;
    case NO_TOKENS:
        pieces->n_tokens = pieces->n_types = 0;
        break;
    case TOO_MANY_TOKENS:
        pieces->n_tokens = pieces->n_types = (size_t)1 << 32;
        break;
    case FEWER_TYPES:
        pieces->n_types--;
        break;
    case STRANGE_TYPE:
        rig->types[7] = INT32_MIN;
        break;
    case BYTE_TYPE:
        rig->types[7] = 6;
        break;
    case LONG_TOKEN:
        rig->tokens[300] = (struct tok_view){many, 1025};
        break;
    case TWICE:
        rig->tokens[301] = rig->tokens[300];
        break;
    case CONTROL_TWICE:
        rig->tokens[1502] = rig->tokens[1501];
        break;
    case NO_BYTE:
        rig->types[0] = 5;
        break;
    case NO_MERGES:
        pieces->n_merges = 0;
        break;
    case TOO_MANY_MERGES:
        pieces->n_merges = (size_t)1 << 40;
        break;
    case MERGE_WITHOUT_SPACE:
        set_merge(rig, "ab");
        break;
    case MERGE_OF_NOTHING:
        set_merge(rig, " a");
        break;
    case MERGE_OF_THREE:
        set_merge(rig, "a b c");
        break;
    case MERGE_UNKNOWN:
        set_merge(rig, "qqqq xxxx");
        break;
    case MERGE_NEW:
        set_merge(rig, "q x");
        break;
    case LONG_MERGE:
        rig->merges[3] = (struct tok_view){many, sizeof many};
        break;
    case BOS_BEYOND:
        pieces->bos = 1510;
        break;
    case EOS_NEGATIVE:
        pieces->eos = -7;
        break;
    case EOT_UNUSED:
        rig->types[1502] = 5;
        pieces->eot = 1502;
        break;
    case EOM_TEXT:
        pieces->eom = 959; // the
        break;
    case EOS_BYTE:
        pieces->eos = 0;
        break;
    case LLAMA:
        pieces->model = (struct tok_view){"llama", 5};
        break;
    case NO_MODEL:
        pieces->model = (struct tok_view){NULL, 0};
        break;
    case NO_PRE:
        pieces->pre = (struct tok_view){NULL, 0};
        break;
    case DEFAULT_PRE:
        pieces->pre = (struct tok_view){"default", 7};
        break;
    case STRANGE_PRE:
        pieces->pre = (struct tok_view){"te\nken", 6};
        break;
    case NOTHING:
        break;
    }
}

static void arrays_that_do_not_belong_together_are_refused(struct harness *t)
{
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        struct pieces_rig *rig = rig_json(DATA "bpe-v3.json", "deepseek-v3", NULL);
        struct tok_err err = {0};
        tok *tokenizer = NULL;
        damage_arrays(rig, broken[i].damage);
        int code = tok_open_pieces(&rig->pieces, &tokenizer, &err);
        bool named = code == TOK_OK || strncmp(err.text, DATA "bpe-v3.json: ", strlen(DATA) + 13) == 0;
        if (!CHECK(t, code == broken[i].code && strstr(err.text, broken[i].says) && named && !strchr(err.text, '\n')))
            printf("    damage %d: code %d: %s\n", (int)broken[i].damage, code, err.text);
        CHECK(t, (code == TOK_OK) == (tokenizer != NULL));
        tok_close(tokenizer);
        rig_free(rig);
    }
}

// Tokens and merges that many others hash or compare with: minutes if opening took n * n steps.
static void opening_takes_no_longer_for_being_hostile(struct harness *t)
{
    enum { COUNT = 1 << 18, LENGTH = 16 };
    struct pieces_rig *rig = rig_json(DATA "bpe-v3.json", "kimi-k2", NULL);
    size_t n = rig->pieces.n_tokens;
    struct tok_view *tokens = calloc(n + COUNT, sizeof *tokens);
    int32_t *types = malloc((n + COUNT) * sizeof *types);
    char(*names)[LENGTH] = malloc(COUNT * sizeof *names);
    tok *tokenizer = NULL;
    if (!tokens || !types || !names)
        exit(1);
    memcpy(tokens, rig->tokens, n * sizeof *tokens);
    memcpy(types, rig->types, n * sizeof *types);
    for (size_t i = 0; i < COUNT; i++) {
        memset(names[i], 'a', LENGTH);
        for (size_t k = 0; k < 6; k++)
            names[i][LENGTH - 1 - k] = (char)('a' + (i >> 3 * k & 7));
        tokens[n + i] = (struct tok_view){names[i], LENGTH};
        types[n + i] = i % 2 ? 4 : 1;
    }
    rig->pieces.tokens = tokens;
    rig->pieces.types = types;
    rig->pieces.n_tokens = rig->pieces.n_types = n + COUNT;
    CHECK_EQ(t, tok_open_pieces(&rig->pieces, &tokenizer, NULL), TOK_OK);
    tok_close(tokenizer);
    free(names);
    free(types);
    free(tokens);
    rig_free(rig);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(ids_are_those_of_tokenizer_json),
        TEST(ids_of_deepseek_v2),
        TEST(ids_of_qwen35),
        TEST(ids_of_kimi),
        TEST(templates_render_the_same),
        TEST(what_types_mean),
        TEST(thinking_of_kimi_is_shown),
        TEST(answers_end_where_the_file_says),
        TEST(arrays_that_do_not_belong_together_are_refused),
        TEST(opening_takes_no_longer_for_being_hostile),
    };
    if (argc == 4 && strncmp(argv[1], "--ids", 5) == 0) {
        struct pieces_rig *rig = rig_json(argv[3], argv[2], NULL);
        struct tok_err err = {0};
        tok *tokenizer = NULL;
        int status =
            tok_open_pieces(&rig->pieces, &tokenizer, &err) ? 1 : print_ids(tokenizer, strcmp(argv[1], "--ids") == 0);
        fputs(err.text, stderr);
        tok_close(tokenizer);
        rig_free(rig);
        return status;
    }
    return HARNESS_RUN(tests, argc, argv);
}
