// SPDX-License-Identifier: GPL-3.0-or-later
// The tokenizer and the template that a model comes with: in a file beside its weights, or, of a GGUF, in its own keys.
#ifndef MOECHAT_APP_DRIVER_MODEL_TOKENIZER_H
#define MOECHAT_APP_DRIVER_MODEL_TOKENIZER_H

#include "engine/moe.h"
#include "tokenizer/tok.h"

struct model_tokenizer {
    tok *tokenizer;         // the caller's to close
    const char *kind;       // for people: "gguf", or the type of the file
    char digest[17];        // token ids mean the same only with the same tokenizer
    char template_name[64]; // of a GGUF's own chat template; "": none that is known
    bool has_template;      // known or not
};

// `directory` is what the model was opened by. A GGUF's own vocabulary goes first; where it can't be used, since its
// kind is not known, a tokenizer's file beside it does. MOE_UNSUPPORTED: the model has neither, so it can't talk.
int model_tokenizer_open(const char *directory, const struct moe_description *about, struct model_tokenizer *out,
                         struct moe_err *err);
// Recognises the chat template: a GGUF's own, or, where it has none, that of the folder. template_name and has_template
// then say what was found.
int model_tokenizer_find_template(const char *directory, const struct moe_description *about,
                                  struct model_tokenizer *own, struct moe_err *err);
// Of a tiktoken.model another file says which ids the template's symbols have: `digest` is of these, too, from here on,
// unless they are those of Kimi's own files, which older programs knew by the ranks alone. Of any other nothing
// changes.
void model_tokenizer_bind(struct model_tokenizer *own, const tok_template *turns);

#endif
