// SPDX-License-Identifier: GPL-3.0-or-later
// A tokenizer's files: read whole, refused when they are too large or no files.
#ifndef MOECHAT_TOK_FILE_H
#define MOECHAT_TOK_FILE_H

#include "tokenizer/tok.h"

enum { TOK_FILE_BYTES = 64 << 20 };

// The whole file in memory that the caller frees; `wanted` says in the error what kind of file is meant.
int tok_file_read(const char *path, const char *wanted, char **bytes, size_t *length, struct tok_err *err);

#endif
