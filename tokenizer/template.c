// SPDX-License-Identifier: GPL-3.0-or-later
// The turn templates, as tables. Between braces is a control symbol, all else is text, encoded together with the turn's
// own text where they meet. Sources: the chat_template of each model (tests/unit/data/templates), for cogito-v2 the
// Cogito renderer of ollama, for deepseek-v3.2 the formats in its encoding_dsv32.py, for kimi-k3 llama.cpp's Jinja of
// its encoding_k3.py. Of kimi-linear's the lines that make a turn were at hand, but not how it ends.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/sections.h"
#include "tokenizer/tok_err.h"
#include "tokenizer/vocab.h"

#define BOS                                                                                                            \
    "{<\xEF\xBD\x9C"                                                                                                   \
    "begin\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>}"
#define EOS                                                                                                            \
    "{<\xEF\xBD\x9C"                                                                                                   \
    "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>}"
#define USER "{<\xEF\xBD\x9CUser\xEF\xBD\x9C>}"
#define ASSISTANT                                                                                                      \
    "{<\xEF\xBD\x9C"                                                                                                   \
    "Assistant\xEF\xBD\x9C>}"
#define COGITO                                                                                                         \
    "You are Cogito, an AI assistant created by Deep Cogito, which is an AI research lab based in San Francisco."
#define KIMI         "You are Kimi, an AI assistant created by Moonshot AI."
#define IM_SYSTEM    "{<|im_system|>}system{<|im_middle|>}"
#define IM_USER      "{<|im_user|>}user{<|im_middle|>}"
#define IM_ASSISTANT "{<|im_assistant|>}assistant{<|im_middle|>}"
#define IM_END       "{<|im_end|>}"
#define QWEN_THINKS  "\n{<|im_start|>}assistant\n{<think>}\n"
#define QWEN_SAYS    QWEN_THINKS "\n{</think>}\n\n"
#define GLM_BEGIN    "{[gMASK]}{<sop>}"
#define GLM_EFFORT   "{<|system|>}Reasoning Effort: Max"
#define CHATML_BEFORE(assistant)                                                                                       \
    .between = "\n", .before = {"{<|im_start|>}system\n", "{<|im_start|>}user\n", assistant},                          \
    .after = {IM_END, IM_END, IM_END}
#define CHATML_ENDS         .ends = {IM_END, "{<|endoftext|>}"}
#define OPEN_SECTION(what)  "{<|open|>}" what "{<|sep|>}"
#define CLOSE_SECTION(what) "{<|close|>}" what "{<|sep|>}"
#define K3_MESSAGE(role)    OPEN_SECTION("message role=\"" role "\"")
#define K3_END              CLOSE_SECTION("message") "{<|end_of_msg|>}"
#define K3_THINKS           OPEN_SECTION("think")
#define K3_THOUGHT          CLOSE_SECTION("think")
#define K3_SAYS             OPEN_SECTION("response")
#define K3_EFFORT                                                                                                      \
    OPEN_SECTION("message role=\"system\" type=\"thinking-effort\"")                                                   \
    "`thinking_effort` guides on how much to think in your thinking channel (not including the response channel), "    \
    "supported values include `low`, `medium`, `high`, and `max`.\n"                                                   \
    "Now the system is invoked with `thinking_effort=max`." K3_END
#define GLM_TURNS .after = {"", "", ""}, .ends = {"", "{<|endoftext|>}", "{<|user|>}", "{<|observation|>}"}
#define GLM_SAYS  "{<|assistant|>}{<think>}{</think>}"

enum { N_ROLES = TOK_ASSISTANT + 1, ENDS = 4, PARTS = 24, SYMBOL_SIZE = 48 };

// What of an earlier answer is fed: all of it, what follows its last or first </think>, or that without the white
// space around it. AFTER_LINES: what follows the last without the line breaks in front. LINES: that, of an answer
// without white space around it. KEPT: that, behind the thinking, which has its marks even where there was none. WHOLE:
// the thinking as it was, with its marks even where there was none, then STRIPPED. SECTIONS: all of it, thinking and
// answer in sections (tok_sections).
enum earlier { ALL, AFTER_LAST, AFTER_FIRST, STRIPPED, SECTIONS, AFTER_LINES, LINES, KEPT, WHOLE };

static const struct form {
    struct tok_template_about about;
    const char *begin[2];                         // without and with thinking, as below
    const char *no_system;                        // where the first turn is none of the system's
    const char *between;                          // before every turn but the first
    const char *after_answer;                     // before a turn that an answer precedes; NULL: nothing more
    const char *before[N_ROLES], *after[N_ROLES]; // the text of a turn
    const char *after_system_thinking;            // in the place of after[TOK_SYSTEM]; NULL: the same
    const char *answer[2];                        // what the answer follows
    const char *opened[2];                        // and what of that is the answer's
    enum earlier earlier;
    bool strips;            // white space around what people and the system say
    const char *ends[ENDS]; // the first closes an answer, unless it is ""; all but that may be missing
} forms[] = {
    {.about = {.name = "moechat-demo"},
     .begin = {"{<s>}"},
     .before = {"{<|system|>}", "{<|user|>}", "{<|assistant|>}"},
     .after = {"{<|end|>}", "{<|end|>}", "{<|end|>}"},
     .answer = {"{<|assistant|>}"},
     .ends = {"{<|end|>}"}},
    {.about = {.name = "deepseek-v2"},
     .begin = {BOS},
     .before = {"", "User: ", "Assistant: "},
     .after = {"\n\n", "\n\n", EOS},
     .answer = {"Assistant:"},
     .ends = {EOS}},
    {.about = {.name = "deepseek-v3", .thinks = true, .forgets = true},
     .begin = {BOS},
     .before = {"", USER, ASSISTANT},
     .after = {"", "", EOS},
     .answer = {ASSISTANT},
     .earlier = AFTER_LAST,
     .ends = {EOS}},
    {.about = {.name = "deepseek-r1", .thinks = true, .thinks_unasked = true, .forgets = true},
     .begin = {BOS, BOS},
     .before = {"", USER, ASSISTANT},
     .after = {"", "", EOS},
     .answer = {ASSISTANT "{<think>}\n", ASSISTANT "{<think>}\n"},
     .opened = {"<think>\n", "<think>\n"},
     .earlier = AFTER_LAST,
     .ends = {EOS}},
    {.about = {.name = "deepseek-v3.1", .thinks = true, .can_switch = true, .forgets = true},
     .begin = {BOS, BOS},
     .before = {"", USER, ASSISTANT "{</think>}"},
     .after = {"", "", EOS},
     .answer = {ASSISTANT "{</think>}", ASSISTANT "{<think>}"},
     .opened = {"", "<think>"},
     .earlier = AFTER_FIRST,
     .ends = {EOS}},
    {.about = {.name = "deepseek-v3.2", // the encoder that its makers ship in the place of a Jinja
               .thinks = true,
               .can_switch = true,
               .thinks_unasked = true,
               .forgets = true},
     .begin = {BOS, BOS},
     .before = {"", USER, ASSISTANT "{</think>}"},
     .after = {"", "", EOS},
     .answer = {ASSISTANT "{</think>}", ASSISTANT "{<think>}"},
     .opened = {"", "<think>"},
     .earlier = AFTER_FIRST,
     .ends = {EOS}},
    {.about = {.name = "cogito-v2", .thinks = true, .can_switch = true, .begins_anew = true, .forgets = true},
     .begin = {BOS COGITO, BOS "Enable deep thinking subroutine.\n\n" COGITO},
     .before = {"\n\n", USER, ASSISTANT},
     .after = {"", "", EOS},
     .after_system_thinking = "\n\n",
     .answer = {ASSISTANT, ASSISTANT "{<think>}\n"},
     .opened = {"", "<think>\n"},
     .earlier = AFTER_LAST,
     .ends = {EOS}},
    {.about = {.name = "kimi-k2"},
     .no_system = IM_SYSTEM "You are a helpful assistant" IM_END,
     .before = {IM_SYSTEM, IM_USER, IM_ASSISTANT},
     .after = {IM_END, IM_END, IM_END},
     .answer = {IM_ASSISTANT},
     .ends = {IM_END, "{[EOS]}", "{[EOT]}"}},
    {.about = {.name = "kimi-k2-0905"},
     .no_system = IM_SYSTEM KIMI IM_END,
     .before = {IM_SYSTEM, IM_USER, IM_ASSISTANT},
     .after = {IM_END, IM_END, IM_END},
     .answer = {IM_ASSISTANT},
     .ends = {IM_END, "{[EOS]}", "{[EOT]}"}},
    {.about =
         {.name = "kimi-k2-thinking", .thinks = true, .thinks_unasked = true, .forgets = true, .marks_earlier = true},
     .no_system = IM_SYSTEM KIMI IM_END,
     .before = {IM_SYSTEM, IM_USER, IM_ASSISTANT "{<think>}{</think>}"},
     .after = {IM_END, IM_END, IM_END},
     .answer = {IM_ASSISTANT, IM_ASSISTANT},
     .earlier = AFTER_LAST,
     .ends = {IM_END, "{[EOS]}", "{[EOT]}"}},
    {.about = {.name = "kimi-k2.5", .thinks = true, .can_switch = true, .thinks_unasked = true, .forgets = true},
     .before = {IM_SYSTEM, IM_USER, IM_ASSISTANT "{<think>}{</think>}"},
     .after = {IM_END, IM_END, IM_END},
     .answer = {IM_ASSISTANT "{<think>}{</think>}", IM_ASSISTANT "{<think>}"},
     .opened = {"", "<think>"},
     .earlier = AFTER_LAST,
     .ends = {IM_END, "{[EOS]}", "{[EOT]}"}},
    {.about = {.name = "kimi-linear"},
     .before = {IM_SYSTEM, IM_USER, IM_ASSISTANT},
     .after = {IM_END, IM_END, IM_END},
     .answer = {IM_ASSISTANT},
     .ends = {IM_END, "{[EOS]}", "{[EOT]}"}},
    {.about = {.name = "kimi-k3", // its makers ship a program in the place of a Jinja
               .thinks = true,
               .can_switch = true,
               .thinks_unasked = true,
               .begins_anew = true},
     .begin = {"", K3_EFFORT},
     .after_answer = "response{<|sep|>}" K3_END,
     .before = {K3_MESSAGE("system"), K3_MESSAGE("user"), K3_MESSAGE("assistant")},
     .after = {K3_END, K3_END, "{<|close|>}"},
     .answer = {K3_MESSAGE("assistant") K3_SAYS, K3_MESSAGE("assistant") K3_THINKS},
     .opened = {"", "<think>"},
     .earlier = SECTIONS,
     .ends = {"{<|close|>}", "{<|end_of_msg|>}", "{[EOS]}", "{[EOT]}"}},
    {.about = {.name = "moonlight"},
     .no_system = IM_SYSTEM "You are a helpful assistant provided by Moonshot-AI." IM_END,
     .before = {IM_SYSTEM, IM_USER, IM_ASSISTANT},
     .after = {IM_END, IM_END, IM_END},
     .answer = {IM_ASSISTANT},
     .ends = {IM_END, "{[EOS]}", "{[EOT]}"}},
    {.about = {.name = "glm-4.7", .thinks = true, .can_switch = true, .thinks_unasked = true, .forgets = true},
     .begin = {GLM_BEGIN, GLM_BEGIN},
     .before = {"{<|system|>}", "{<|user|>}", "{<|assistant|>}{</think>}"},
     .answer = {"{<|assistant|>}{</think>}", "{<|assistant|>}{<think>}"},
     .opened = {"", "<think>"},
     .earlier = STRIPPED,
     GLM_TURNS},
    {.about = {.name = "glm-5.2",
               .thinks = true,
               .can_switch = true,
               .thinks_unasked = true,
               .begins_anew = true,
               .forgets = true,
               .marks_earlier = true},
     .begin = {GLM_BEGIN, GLM_BEGIN GLM_EFFORT},
     .before = {"{<|system|>}", "{<|user|>}", GLM_SAYS},
     .answer = {GLM_SAYS, "{<|assistant|>}{<think>}"},
     .opened = {"", "<think>"},
     .earlier = STRIPPED,
     GLM_TURNS},
    {.about = {.name = "glm-5.3", .thinks = true, .thinks_unasked = true, .forgets = true, .marks_earlier = true},
     .begin = {GLM_BEGIN GLM_EFFORT, GLM_BEGIN GLM_EFFORT},
     .before = {"{<|system|>}", "{<|user|>}", GLM_SAYS},
     .answer = {GLM_SAYS, "{<|assistant|>}{<think>}"},
     .opened = {"", "<think>"},
     .earlier = STRIPPED,
     GLM_TURNS},
    {.about = {.name = "glm-5.3-kept", .thinks = true, .thinks_unasked = true},
     .begin = {GLM_BEGIN GLM_EFFORT, GLM_BEGIN GLM_EFFORT},
     .before = {"{<|system|>}", "{<|user|>}", "{<|assistant|>}{<think>}"},
     .answer = {GLM_SAYS, "{<|assistant|>}{<think>}"},
     .opened = {"", "<think>"},
     .earlier = WHOLE,
     GLM_TURNS},
    {.about = {.name = "qwen3-thinking",
               .thinks = true,
               .thinks_unasked = true,
               .forgets = true,
               .marks_earlier = true}, // by having none, where the answer itself followed some
     CHATML_BEFORE("{<|im_start|>}assistant\n"),
     .answer = {QWEN_THINKS, QWEN_THINKS},
     .opened = {"<think>\n", "<think>\n"},
     .earlier = AFTER_LINES,
     CHATML_ENDS},
    {.about = {.name = "qwen3.5",
               .thinks = true,
               .can_switch = true,
               .thinks_unasked = true,
               .forgets = true,
               .marks_earlier = true}, // by having none, where the answer itself followed some
     CHATML_BEFORE("{<|im_start|>}assistant\n"),
     .answer = {QWEN_SAYS, QWEN_THINKS},
     .opened = {"", "<think>\n"},
     .earlier = LINES,
     .strips = true,
     CHATML_ENDS},
    {.about = {.name = "qwen3.5-kept", .thinks = true, .can_switch = true, .thinks_unasked = true},
     CHATML_BEFORE("{<|im_start|>}assistant\n{<think>}\n"),
     .answer = {QWEN_SAYS, QWEN_THINKS},
     .opened = {"", "<think>\n"},
     .earlier = KEPT,
     .strips = true,
     CHATML_ENDS},
    {.about = {.name = "chatml"},
     CHATML_BEFORE("{<|im_start|>}assistant\n"),
     .answer = {"\n{<|im_start|>}assistant\n"},
     CHATML_ENDS},
};
enum { N_FORMS = sizeof forms / sizeof forms[0] };

// The ids of the symbols that a form has, in the order of the tables that are searched for them.
struct tok_template {
    const tok *tokenizer;
    const struct form *form;
    struct symbol {
        char name[SYMBOL_SIZE];
        int32_t id; // -1: there is none, the name is text
    } symbols[PARTS];
    size_t n_symbols, n_written; // those that are not written are only looked for, and come last
    int32_t ends[ENDS];
    struct tok_ids between;              // what closes thinking where it is kept; in sections it opens the answer, too
    struct tok_ids begins[TOK_USER + 1]; // tok_template_about's
};

// One rendering: text is held back until a control symbol or the turn's end, and encoded at once.
struct rendering {
    const tok_template *turns;
    struct tok_ids *list;
    char *text;
    size_t length, room;
    struct tok_err *err;
};

const char *tok_template_name(size_t index)
{
    return index < N_FORMS ? forms[index].about.name : NULL;
}

// Marks of thinking may be text where a vocabulary has none for them, all others must be there.
static int add_symbol(tok_template *turns, const char *name, size_t length, bool needed, struct tok_err *err)
{
    for (size_t i = 0; i < turns->n_symbols; i++)
        if (strlen(turns->symbols[i].name) == length && memcmp(turns->symbols[i].name, name, length) == 0)
            return TOK_OK;
    struct symbol *symbol = &turns->symbols[turns->n_symbols++];
    memcpy(symbol->name, name, length);
    symbol->id = tok_control(turns->tokenizer, symbol->name);
    const struct vocab *vocab = tok_vocab(turns->tokenizer);
    if (symbol->id < 0 && needed && !strstr(symbol->name, "think>"))
        return tok_fail(err, TOK_UNSUPPORTED,
                        "template %s: the tokenizer has no control symbol %s: name another template with --template",
                        turns->form->about.name, symbol->name);
    if (symbol->id >= 0 && vocab->flags && vocab->flags[symbol->id] & (VOCAB_STRIP_LEFT | VOCAB_STRIP_RIGHT))
        return tok_fail(err, TOK_UNSUPPORTED, "template %s: %s takes in the spaces around it, which is not done here",
                        turns->form->about.name, symbol->name);
    return TOK_OK;
}

static int add_symbols(tok_template *turns, const char *parts, bool needed, struct tok_err *err)
{
    int failed = TOK_OK;
    for (const char *at = parts ? strchr(parts, '{') : NULL; at && !failed; at = strchr(at, '{')) {
        const char *close = strchr(++at, '}');
        failed = add_symbol(turns, at, (size_t)(close - at), needed, err);
    }
    return failed;
}

static int32_t symbol_id(const tok_template *turns, const char *name, size_t length)
{
    for (size_t i = 0; i < turns->n_symbols; i++)
        if (strlen(turns->symbols[i].name) == length && memcmp(turns->symbols[i].name, name, length) == 0)
            return turns->symbols[i].id;
    return -1;
}

static int find_symbols(tok_template *turns, struct tok_err *err)
{
    const struct form *form = turns->form;
    const char *const all[] = {form->begin[0],  form->no_system, form->before[0], form->before[1],
                               form->before[2], form->after[0],  form->after[1],  form->after[2],
                               form->answer[0], form->answer[1], form->ends[0]};
    int failed = TOK_OK;
    for (size_t i = 0; i < sizeof all / sizeof all[0] && !failed; i++)
        failed = add_symbols(turns, all[i], true, err);
    turns->n_written = turns->n_symbols;
    for (size_t i = 0; i < ENDS && !failed; i++) {
        const char *end = form->ends[i];
        failed = add_symbols(turns, end, false, err);
        turns->ends[i] = end && *end ? symbol_id(turns, end + 1, strlen(end) - 2) : -1;
    }
    return failed;
}

const char *tok_template_symbol(const tok_template *turns, size_t index, int32_t *id)
{
    if (index >= turns->n_written)
        return NULL;
    *id = turns->symbols[index].id;
    return turns->symbols[index].name;
}

struct tok_template_about tok_template_describe(const tok_template *turns)
{
    struct tok_template_about about = turns->form->about;
    about.begins = about.begins_anew ? turns->begins : NULL;
    return about;
}

static int put_text(struct rendering *r, const char *text, size_t length)
{
    if (length > r->room - r->length) {
        size_t room = (r->length + length) * 2;
        char *grown = room > length ? realloc(r->text, room) : NULL;
        if (!grown)
            return tok_fail(r->err, TOK_NO_MEMORY, "out of memory for a message of %zu bytes", length);
        r->text = grown;
        r->room = room;
    }
    if (length)
        memcpy(r->text + r->length, text, length);
    r->length += length;
    return TOK_OK;
}

static int flush(struct rendering *r)
{
    int failed = r->length ? tok_encode(r->turns->tokenizer, r->text, r->length, r->list, r->err) : TOK_OK;
    r->length = 0;
    return failed;
}

static int put_parts(struct rendering *r, const char *parts)
{
    int failed = TOK_OK;
    for (const char *at = parts ? parts : ""; *at && !failed;) {
        const char *close = *at == '{' ? strchr(at, '}') : NULL;
        int32_t id = close ? symbol_id(r->turns, at + 1, (size_t)(close - at - 1)) : -1;
        size_t length = close ? (size_t)(close - at - 1) : strcspn(at, "{");
        if (id >= 0) {
            failed = flush(r);
            failed = failed ? failed : tok_ids_append(r->list, id, r->err);
        } else {
            failed = put_text(r, close ? at + 1 : at, length);
        }
        at = close ? close + 1 : at + length;
    }
    return failed;
}

// What follows the thinking of an earlier answer that is fed with it; NULL: none is.
static const char *thinking_closes(const struct form *form)
{
    static const char *const closes[] = {
        [SECTIONS] = K3_THOUGHT K3_SAYS, [KEPT] = "\n{</think>}\n\n", [WHOLE] = "{</think>}"};
    return closes[form->earlier];
}

static int find_between(tok_template *turns, struct tok_err *err)
{
    struct rendering r = {.turns = turns, .list = &turns->between, .err = err};
    int failed = put_parts(&r, thinking_closes(turns->form));
    failed = failed ? failed : flush(&r);
    free(r.text);
    return failed;
}

static int put_beginning(struct rendering *r, bool thinking, bool has_system)
{
    const struct form *form = r->turns->form;
    int failed = put_parts(r, form->begin[thinking]);
    return failed || has_system ? failed : put_parts(r, form->no_system);
}

// The ids of a beginning with thinking up to the first that one without it has not, if there is one. Else that one goes
// on with people's words, and what no words come to follows here: all of it counts.
static int find_begins(tok_template *turns, struct tok_err *err)
{
    struct tok_ids other = {0};
    struct rendering r = {.turns = turns, .err = err};
    int failed = TOK_OK;
    for (enum tok_role role = TOK_SYSTEM; role <= TOK_USER && turns->form->about.begins_anew && !failed; role++) {
        struct tok_ids *begins = &turns->begins[role];
        for (int thinking = 0; thinking < 2 && !failed; thinking++) {
            r.list = thinking ? begins : &other;
            r.list->count = 0;
            failed = put_beginning(&r, thinking, role == TOK_SYSTEM);
            failed = failed ? failed : put_parts(&r, turns->form->before[role]);
            failed = failed ? failed : flush(&r);
        }
        size_t same = 0, most = other.count < begins->count ? other.count : begins->count;
        while (same < most && begins->ids[same] == other.ids[same])
            same++;
        begins->count = same < most ? same + 1 : begins->count;
    }
    free(r.text);
    tok_ids_release(&other);
    return failed;
}

int tok_template_open(const char *name, const tok *tokenizer, tok_template **turns, struct tok_err *err)
{
    size_t i = 0;
    while (i < N_FORMS && strcmp(forms[i].about.name, name) != 0)
        i++;
    if (i == N_FORMS) {
        char known[480] = "";
        for (size_t k = 0, at = 0; k < N_FORMS && at < sizeof known; k++)
            at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", k ? ", " : "", forms[k].about.name);
        return tok_fail(err, TOK_UNSUPPORTED, "template %.100s is not known: there are %s", name, known);
    }
    tok_template *made = calloc(1, sizeof *made);
    if (!made)
        return tok_fail(err, TOK_NO_MEMORY, "template %s: out of memory", name);
    made->tokenizer = tokenizer;
    made->form = &forms[i];
    int failed = find_symbols(made, err);
    failed = failed ? failed : find_between(made, err);
    failed = failed ? failed : find_begins(made, err);
    if (failed)
        tok_template_close(made);
    else
        *turns = made;
    return failed;
}

void tok_template_close(tok_template *turns)
{
    if (!turns)
        return;
    tok_ids_release(&turns->between);
    for (int i = 0; i <= TOK_USER; i++)
        tok_ids_release(&turns->begins[i]);
    free(turns);
}

// As Python's str.strip sees it.
static bool is_space(uint32_t code)
{
    return (code >= 9 && code <= 13) || (code >= 0x1C && code <= 0x20) || code == 0x85 || code == 0xA0 ||
           code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F ||
           code == 0x205F || code == 0x3000;
}

static void strip(const char **text, size_t *length)
{
    uint32_t code;
    for (int n; *length && (n = tok_utf8(*text, *length, &code)) > 0 && is_space(code); *length -= (size_t)n)
        *text += n;
    for (size_t n = 1; n <= 3 && n <= *length; n++)
        if (tok_utf8(*text + *length - n, n, &code) == (int)n && is_space(code)) {
            *length -= n;
            n = 0;
        }
}

static const char mark_open[] = "<think>", mark_close[] = "</think>";
enum { OPEN = sizeof mark_open - 1, CLOSE = sizeof mark_close - 1 };

static bool begins_with(const char *text, size_t length, const char *mark, size_t n)
{
    return length >= n && memcmp(text, mark, n) == 0;
}

// Cuts an earlier answer's thinking off: all of it, where it was stopped before it ended. *thought_length bytes of what
// was there before its last mark are left for those who keep it.
static void cut_thinking(enum earlier earlier, const char **text, size_t *length, size_t *thought_length)
{
    size_t after = 0, before = 0;
    for (size_t at = 0; earlier != ALL && at + CLOSE <= *length; at++)
        if (memcmp(*text + at, mark_close, CLOSE) == 0 &&
            (after == 0 || (earlier != AFTER_FIRST && earlier != SECTIONS))) {
            before = after ? before : at; // KEPT: the first part is what was thought
            after = at + CLOSE;
        }
    if (earlier != ALL && after == 0 && begins_with(*text, *length, mark_open, OPEN))
        before = after = *length;
    *thought_length = before;
    *text += after;
    *length -= after;
    if (earlier == STRIPPED || earlier == WHOLE)
        strip(text, length);
    while (earlier >= AFTER_LINES && after && *length && **text == '\n')
        ++*text, --*length;
}

// An earlier answer's thinking, between its marks; but for WHOLE without white space around it.
static int put_kept(struct rendering *r, const char *thought, size_t length)
{
    for (size_t at = length; at-- > 0;) // behind the last mark that opens it
        if (begins_with(thought + at, length - at, mark_open, OPEN)) {
            thought += at + OPEN;
            length -= at + OPEN;
            break;
        }
    if (r->turns->form->earlier != WHOLE)
        strip(&thought, &length);
    int failed = put_text(r, thought, length);
    return failed ? failed : put_parts(r, thinking_closes(r->turns->form));
}

// An earlier answer's section of thinking, which is there, even empty, whenever the model is to think and never else,
// and the beginning of that of the answer.
static int put_sections(struct rendering *r, const char *thought, size_t length, bool thinking)
{
    bool thought_some = begins_with(thought, length, mark_open, OPEN);
    const char *text = thought_some ? thought + OPEN : "", *stripped = text;
    size_t n = thought_some ? length - OPEN : 0, n_stripped = n;
    strip(&stripped, &n_stripped);
    int failed = thinking ? put_parts(r, K3_THINKS) : TOK_OK;
    if (!failed && thinking && n_stripped)
        failed = put_text(r, text, n);
    if (!failed && thinking)
        failed = put_parts(r, K3_THOUGHT);
    return failed ? failed : put_parts(r, K3_SAYS);
}

static int put_turn(struct rendering *r, const struct tok_turn *turn, bool thinking)
{
    const struct form *form = r->turns->form;
    const char *text = turn->text, *before = form->before[turn->role], *after = form->after[turn->role];
    size_t length = turn->length, n_before = strlen(before), n_thought = 0;
    if (turn->role == TOK_ASSISTANT ? form->earlier == LINES || form->earlier == KEPT : form->strips)
        strip(&text, &length);
    const char *thought = text;
    if (turn->role == TOK_ASSISTANT)
        cut_thinking(form->earlier, &text, &length, &n_thought);
    if (turn->role == TOK_SYSTEM && thinking && form->after_system_thinking)
        after = form->after_system_thinking;
    int failed = put_parts(r, before);
    // The model says the space after "Assistant:" itself.
    if (!failed && turn->role == TOK_ASSISTANT && n_before && before[n_before - 1] == ' ' && length && *text == ' ')
        r->length--;
    if (!failed && turn->role == TOK_ASSISTANT && form->earlier >= KEPT)
        failed = put_kept(r, thought, n_thought);
    if (!failed && turn->role == TOK_ASSISTANT && form->earlier == SECTIONS)
        failed = put_sections(r, thought, n_thought, thinking);
    if (!failed)
        failed = put_text(r, text, length);
    return failed ? failed : put_parts(r, after);
}

int tok_template_encode(const tok_template *turns, const struct tok_prompt *prompt, struct tok_ids *list, size_t *ends,
                        struct tok_err *err)
{
    const struct form *form = turns->form;
    bool thinking = form->about.can_switch ? prompt->thinking : form->about.thinks_unasked;
    struct rendering r = {.turns = turns, .list = list, .err = err};
    size_t before = list->count;
    bool has_system = prompt->n_turns && prompt->turns[0].role == TOK_SYSTEM;
    int failed = prompt->begin ? put_beginning(&r, thinking, has_system) : TOK_OK;
    for (size_t i = 0; i < prompt->n_turns && !failed; i++) {
        const struct tok_turn *turn = &prompt->turns[i];
        failed = i || !prompt->begin ? put_parts(&r, form->between) : TOK_OK;
        if (!failed && (i ? turn[-1].role == TOK_ASSISTANT : !prompt->begin && !prompt->behind_system))
            failed = put_parts(&r, form->after_answer);
        if (!failed)
            failed = put_turn(&r, turn, thinking);
        if (!failed && i + 1 == prompt->n_turns && turn->role != TOK_ASSISTANT)
            failed = put_parts(&r, form->answer[thinking]);
        if (!failed)
            failed = flush(&r);
        if (ends)
            ends[i] = list->count;
    }
    free(r.text);
    if (failed)
        list->count = before;
    return failed;
}

const char *tok_template_opened(const tok_template *turns, bool thinking)
{
    const struct form *form = turns->form;
    const char *opened = form->opened[form->about.can_switch ? thinking : form->about.thinks_unasked];
    return opened ? opened : "";
}

int32_t tok_template_end(const tok_template *turns)
{
    return turns->ends[0];
}

bool tok_template_ends(const tok_template *turns, int32_t id)
{
    for (int i = turns->form->earlier == SECTIONS; i < ENDS; i++) // the first may close thinking
        if (turns->ends[i] >= 0 && turns->ends[i] == id)
            return true;
    const struct vocab *vocab = tok_vocab(turns->tokenizer);
    return vocab->flags && id >= 0 && (uint32_t)id < vocab->size && vocab->flags[id] & VOCAB_ENDS;
}

void tok_template_sections(const tok_template *turns, struct tok_sections *s)
{
    bool marks = turns->form->earlier != SECTIONS;
    s->close = marks ? symbol_id(turns, mark_close, CLOSE) : symbol_id(turns, "<|close|>", 9);
    if (!thinking_closes(turns->form) || s->close < 0) // a mark that is text to a vocabulary is not looked for
        return;
    s->turns = turns;
    s->marks = marks;
    s->thinking = marks ? *tok_template_opened(turns, s->thinking) != 0 : s->thinking;
    s->open = symbol_id(turns, "<|open|>", 8);
    s->sep = symbol_id(turns, "<|sep|>", 7);
}

const struct tok_ids *tok_template_between(const tok_template *turns)
{
    return &turns->between;
}
