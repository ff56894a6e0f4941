// SPDX-License-Identifier: GPL-3.0-or-later
// Fills struct tok_err.
#include "tokenizer/tok_err.h"

#include <stdarg.h>
#include <stdio.h>

int tok_fail(struct tok_err *err, enum tok_code code, const char *format, ...)
{
    if (err) {
        err->code = code;
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(err->text, sizeof err->text, format, arguments);
        va_end(arguments);
    }
    return (int)code;
}
