// SPDX-License-Identifier: GPL-3.0-or-later
// Sources: tokenizer.json of deepseek-ai/DeepSeek-V2-Lite, deepseek-ai/DeepSeek-V3, zai-org/GLM-4.5, Qwen/Qwen3-30B-A3B
// and Qwen/Qwen3.5-9B; tokenization_kimi.py of moonshotai/Kimi-K2-Instruct. Which names are one: llama-vocab.cpp of
// llama.cpp.
#include "tokenizer/pre.h"

#include <stdio.h>
#include <string.h>

#define V2_LETTERS                                                                                                     \
    "\\x{41}-\\x{5A}\\x{61}-\\x{7A}\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}"             \
    "\\x{1C4}-\\x{293}\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}"             \
    "\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}"                    \
    "\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}"                    \
    "\\x{1CBD}-\\x{1CBF}\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}"                  \
    "\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}"                   \
    "\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}"                   \
    "\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}"                  \
    "\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}"                    \
    "\\x{2126}\\x{2128}\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}"                             \
    "\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}"                             \
    "\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}"                   \
    "\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}"                  \
    "\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}"                                 \
    "\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{118DF}"                             \
    "\\x{1E900}-\\x{1E943}"
#define V2_CJK   "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+"
#define V2_MARKS "[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+"
#define V3_KANA  "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+"
#define V3_WORDS                                                                                                       \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "                \
    "?[\\p{P}\\p{S}]+[\r\n]*"
#define CASES "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define WORDS "[^\\r\\n\\p{L}\\p{N}]?"
#define MARKS " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
#define GAPS  "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"

static const struct pre table[] = {
    {.names = {"deepseek-llm"},
     .steps = {"[\r\n]", "\\s?[" V2_LETTERS "]+", "\\s?" V2_MARKS, "\\s+$", V2_CJK, "\\p{N}"}},
    {.names = {"deepseek-v3"}, .steps = {"\\p{N}{1,3}", V3_KANA, V3_WORDS "|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"}},
    {.names = {"kimi-k2"},
     .steps = {"[\\p{Han}]+|" WORDS UPPER "*" LOWER "+" CASES "?|" WORDS UPPER "+" LOWER "*" CASES
               "?|\\p{N}{1,3}|" MARKS "|" GAPS},
     .whole_words = true,
     .ranks = true},
    {.names = {"glm4", "chatglm-bpe", "glm5"},
     .steps = {CASES "|" WORDS "\\p{L}+|\\p{N}{1,3}|" MARKS "|" GAPS},
     .whole_words = true},
    {.names = {"qwen2", "deepseek-r1-qwen"},
     .steps = {CASES "|" WORDS "\\p{L}+|\\p{N}|" MARKS "|" GAPS},
     .composes = true},
    {.names = {"qwen35"},
     .steps = {CASES "|" WORDS "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" GAPS},
     .composes = true},
};
enum { N_ROWS = sizeof table / sizeof table[0], N_NAMES = sizeof table[0].names / sizeof table[0].names[0] };

const struct pre *pre_find(const char *name, size_t length)
{
    for (size_t i = 0; i < N_ROWS; i++)
        for (size_t k = 0; k < N_NAMES && table[i].names[k]; k++)
            if (strlen(table[i].names[k]) == length && memcmp(table[i].names[k], name, length) == 0)
                return &table[i];
    return NULL;
}

void pre_list(char *out, size_t room)
{
    size_t at = 0;
    for (size_t i = 0; i < N_ROWS; i++)
        for (size_t k = 0; k < N_NAMES && table[i].names[k] && at < room; k++)
            at += (size_t)snprintf(out + at, room - at, "%s%s", at ? ", " : "", table[i].names[k]);
}

int pre_apply(const struct pre *pre, struct bpe *bpe, const char *where, struct tok_err *err)
{
    int failed = TOK_OK;
    for (size_t i = 0; i < PRE_STEPS && pre->steps[i] && !failed; i++) {
        struct pattern_source source = {.text = pre->steps[i], .length = strlen(pre->steps[i]), .where = where};
        failed = bpe_add_step(bpe, &source, err);
    }
    bpe->whole_words = pre->whole_words;
    bpe->composes = pre->composes;
    return failed;
}
