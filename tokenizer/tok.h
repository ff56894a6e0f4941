// SPDX-License-Identifier: GPL-3.0-or-later
// The face of the tokenizer room: bytes <-> ids, turns -> ids, ids -> whole characters. Knows no model and no terminal.
// A tok is const after tok_open and may be used by any thread; ids and streams belong to whoever made them.
// A call that fails leaves its list as it was.
#ifndef MOECHAT_TOK_H
#define MOECHAT_TOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tok tok;

enum tok_code {
    TOK_OK = 0,
    TOK_NOT_FOUND,   // no such file
    TOK_FORMAT,      // the file is damaged
    TOK_UNSUPPORTED, // a type or template we do not know
    TOK_NO_MEMORY,
    TOK_CANCELLED, // tok_set_cancelled
};

struct tok_err {
    enum tok_code code;
    char text[512]; // one line: file, what, remedy
};

// A growing list of ids. Zero-initialise; ids_release frees it.
struct tok_ids {
    int32_t *ids;
    size_t count;
    size_t capacity;
};
void tok_ids_release(struct tok_ids *list);
int tok_ids_append(struct tok_ids *list, int32_t id, struct tok_err *err);
// One after the other: without memory for all the first of them are there.
int tok_ids_append_all(struct tok_ids *list, const int32_t *ids, size_t count, struct tok_err *err);

// type: "sentencepiece", whose path is a .model file; "huggingface", a tokenizer.json with byte-level BPE; "tiktoken",
// Kimi's tiktoken.model with its tokenizer_config.json beside it.
int tok_open(const char *type, const char *path, tok **tokenizer, struct tok_err *err);

// A tokenizer from arrays that were read elsewhere: a GGUF's keys tokenizer.ggml.*, named after them, everything
// copied. For model "gpt2", byte-level BPE, with a `pre` that is known: deepseek-llm, deepseek-v3, kimi-k2, glm4 and
// their kin. Anything else is TOK_UNSUPPORTED, and *err names it: a caller that then finds a tokenizer.json beside the
// file (tok_folder_read) may tok_open that in its place. TOK_FORMAT: the arrays do not belong together. add_bos_token
// is not asked for, since templates write the beginning; unknown and padding tokens are made by no text.
struct tok_view {
    const char *bytes; // any, without a 0 behind them
    size_t length;
};
struct tok_pieces {
    const char *where;             // the file's name, for messages
    struct tok_view model, pre;    // length 0: the file does not say
    const struct tok_view *tokens; // [n_tokens], in the alphabet of byte-level BPE, but for types 3 to 5
    const int32_t *types; // [n_types]: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte; or NULL
    const struct tok_view *merges; // [n_merges], "left right", or NULL
    size_t n_tokens, n_types, n_merges;
    int32_t bos, eos, eot, eom; // ids, -1: the file names none. The last three end answers, whatever the template is
};
int tok_open_pieces(const struct tok_pieces *pieces, tok **tokenizer, struct tok_err *err);
void tok_close(tok *tokenizer); // NULL is fine
uint32_t tok_vocab_size(const tok *tokenizer);
// Appends the ids of any bytes (NUL included), 16 MiB at most. Control symbols and marks are never produced by text,
// however it is spelled; bytes that are not UTF-8 survive the round trip as bytes. (DeepSeek-V2's vocabulary has none
// of the 13 bytes that no UTF-8 holds, C0, C1 and F5 to FF: there each of them becomes U+FFFD. Qwen's text is composed,
// Unicode's NFC, so a letter and its mark come back as one.)
int tok_encode(const tok *tokenizer, const char *text, size_t length, struct tok_ids *list, struct tok_err *err);
// Asked while a pattern cuts a text, which takes seconds where a text was made for that; once it is true tok_encode
// ends with TOK_CANCELLED, and no ids of that text. Set before anything is encoded; called in the thread that encodes.
void tok_set_cancelled(tok *tokenizer, bool (*cancelled)(void *context), void *context);
// The bytes that `id` stands for, 0 of them for control symbols and ids outside the vocabulary; *bytes points into the
// tok. A mark, such as <think> or <|EOT|> where the vocabulary does not call it special, has its spelling.
size_t tok_bytes(const tok *tokenizer, int32_t id, const char **bytes);
// The id of a control symbol or mark by its spelling, -1 if there is none.
int32_t tok_control(const tok *tokenizer, const char *symbol);

// What a folder from the hub has of a tokenizer. files[0] is what tok_open takes; a copy needs the others beside it.
struct tok_folder {
    char type[16]; // for tok_open; "": the folder has no tokenizer
    char files[3][32];
    unsigned n_files;
    bool has_template;      // a chat_template, known or not
    char template_name[32]; // "": it has none, or none we know, so people must choose
};
int tok_folder_read(const char *directory, struct tok_folder *folder, struct tok_err *err);

// The name of the template that a chat_template (Jinja) is, NULL: none we know. Never a guess: what makes the
// difference between ours must be there letter by letter.
// A GGUF's is the text of tokenizer.chat_template, or where it has only others, of tokenizer.chat_template.default;
// those of other names (tool_use, rag) are not for conversations.
const char *tok_template_detect(const char *text, size_t length);

// A turn template: how a conversation becomes ids, as the model's chat_template renders it. Found by its name; needs
// its tokenizer for as long as it lives, and is const then.
enum tok_role { TOK_SYSTEM, TOK_USER, TOK_ASSISTANT };
typedef struct tok_template tok_template;
struct tok_turn {
    enum tok_role role;
    const char *text; // an answer's with its thinking, from <think> to </think>, if it has any
    size_t length;
};
struct tok_prompt {
    const struct tok_turn *turns;
    size_t n_turns;
    bool begin;         // the conversation begins here
    bool thinking;      // the answer shall think first; only where that can be chosen
    bool behind_system; // it goes on behind its system message; else, unless it begins here, behind an answer
};
struct tok_template_about {
    const char *name;
    bool thinks;         // answers may begin with thinking
    bool can_switch;     // whether they do is the prompt's choice
    bool thinks_unasked; // where nobody chooses
    bool begins_anew;    // the choice changes how the conversation begins
    // Then, by the role of its first turn (TOK_SYSTEM, TOK_USER): the first ids of one whose answers think, as many as
    // tell it from one whose answers don't. They live as long as the template.
    const struct tok_ids *begins;
    bool forgets;       // an answer's thinking is left out once another turn follows
    bool marks_earlier; // and its place is marked, even where there was none
};
int tok_template_open(const char *name, const tok *tokenizer, tok_template **turns, struct tok_err *err);
void tok_template_close(tok_template *turns);
const char *tok_template_name(size_t index); // of those there are, NULL behind the last
struct tok_template_about tok_template_describe(const tok_template *turns);
// The control symbols and marks that it writes, one by one, NULL behind the last. *id -1: its spelling is text here.
const char *tok_template_symbol(const tok_template *turns, size_t index, int32_t *id);
// Appends the turns, and, unless the last is an answer, what the model's answer follows. ends[i], where ends is not
// NULL, becomes the number of ids up to the end of turn i.
int tok_template_encode(const tok_template *turns, const struct tok_prompt *prompt, struct tok_ids *list, size_t *ends,
                        struct tok_err *err);
// The beginning of the answer that the prompt already has: "<think>\n" and such, "" for none.
const char *tok_template_opened(const tok_template *turns, bool thinking);
int32_t tok_template_end(const tok_template *turns); // the id that closes an answer in the timeline, -1: none does
bool tok_template_ends(const tok_template *turns, int32_t id); // does the model end its answer with it?

// Answers in sections, as Kimi K3's: <|open|>think<|sep|> ... <|close|>think<|sep|><|open|>response<|sep|> ...
// <|close|>. Its tags are no text, the end of the first section is </think>, and that of the second the answer's. Where
// a template has none all is text; but where it keeps the thinking of earlier answers between marks, what closes it may
// be missing all the same. Pure state; the template is to live as long.
struct tok_sections {
    const tok_template *turns; // NULL: there are none, and nothing is to be closed
    bool marks;                // there are none, but for marks
    int32_t open, close, sep;
    bool thinking, tag, opened; // in the first; within a tag; which opens a section
    bool closing;               // between the sections, n_closing ids behind the first
    unsigned n_closing;
};
enum tok_section { TOK_SECTION_TEXT, TOK_SECTION_MARK, TOK_SECTION_END };
void tok_sections_begin(struct tok_sections *sections, const tok_template *turns, bool thinking);
// What the next id is. A mark's text is *text, which may be "".
enum tok_section tok_sections_take(struct tok_sections *sections, int32_t id, const char **text);
// Appends what is missing before the id that closes an answer, when it was stopped before it said anything. The ids are
// known since the template was opened: nothing is encoded, so nobody's tok_set_cancelled keeps an answer from its end.
int tok_sections_close(const struct tok_sections *sections, struct tok_ids *list, struct tok_err *err);
size_t tok_sections_left(const struct tok_sections *sections); // how many that are; never more after a further id

// Looks at the start of `length` bytes, 1 or more. > 0: a whole UTF-8 character of that many bytes, *code set.
// 0: so far a character, but unfinished. < 0: that many bytes (1 to 3) can't begin one.
int tok_utf8(const char *bytes, size_t length, uint32_t *code);

// Ids -> text in whole UTF-8 characters: holds back at most 3 bytes of an unfinished one. Bytes that can't become a
// character come out as they are once that is certain; sanitising is the display's business. Pure state, no allocation.
struct tok_stream {
    unsigned char held[4];
    unsigned n_held;
};
// Writes what is complete of held + bytes to out (room for length + 3) and returns how much that is.
size_t tok_stream_push(struct tok_stream *stream, const char *bytes, size_t length, char *out);
// Writes what is held (at most 3 bytes) and forgets it.
size_t tok_stream_flush(struct tok_stream *stream, char *out);

// An answer's text parted into what is thought, from <think> to </think>, and what is said; the marks and the space
// around them are neither. Marks may come in any pieces. Only an answer's beginning is thought. Pure state.
struct tok_think {
    int state;
    unsigned n_held;
    char held[16];
};
struct tok_think_out {
    void (*text)(void *context, bool thinking, const char *bytes, size_t length);
    void *context;
};
// has_marks: else all is said. inside: the answer begins behind <think>.
void tok_think_begin(struct tok_think *think, bool has_marks, bool inside);
void tok_think_push(struct tok_think *think, const char *bytes, size_t length, const struct tok_think_out *out);
void tok_think_flush(struct tok_think *think, const struct tok_think_out *out); // what might have become a mark

#ifdef __cplusplus
}
#endif
#endif
