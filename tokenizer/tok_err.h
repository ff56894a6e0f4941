// SPDX-License-Identifier: GPL-3.0-or-later
// Filling struct tok_err. Nothing is printed; `err` may be NULL.
#ifndef MOECHAT_TOK_ERR_H
#define MOECHAT_TOK_ERR_H

#include "tokenizer/tok.h"

#ifdef __cplusplus
extern "C" {
#endif

// Sets code and text (printf); returns code, so that `return tok_fail(err, TOK_FORMAT, "...")` works.
__attribute__((format(printf, 3, 4))) int tok_fail(struct tok_err *err, enum tok_code code, const char *format, ...);

#ifdef __cplusplus
}
#endif
#endif
