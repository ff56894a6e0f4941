// SPDX-License-Identifier: GPL-3.0-or-later
// Any bytes: every byte gets a style, any split gives the same, what is told never changes, and code blocks lie within
// the text. The first byte chooses the split.
#include <stdlib.h>
#include <string.h>

#include "app/view/markdown.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct style_runs styles_in(const char *text, size_t length, size_t step)
{
    struct markdown state = {0};
    struct style_runs runs = {0};
    for (size_t at = 0; at < length; at += step) {
        markdown_push(&state, text + at, length - at < step ? length - at : step, &runs);
        if (runs.count && runs.at[runs.count - 1].end > at + step)
            abort();
    }
    markdown_finish(&state, &runs);
    if ((runs.count ? runs.at[runs.count - 1].end : 0) != length)
        abort();
    return runs;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    const char *text = (const char *)data + 1, *code;
    size_t length = size - 1, code_length;
    struct style_runs whole = styles_in(text, length, size), split = styles_in(text, length, 1 + data[0] % 16u);
    if (whole.count != split.count)
        abort();
    for (size_t i = 0; i < whole.count; i++)
        if (whole.at[i].end != split.at[i].end || whole.at[i].style != split.at[i].style)
            abort();
    for (size_t n = 0; n < 4 && markdown_code_block(text, length, n, &code, &code_length); n++)
        if (n == 0 || code < text || code + code_length > text + length)
            abort();
    style_runs_release(&whole);
    style_runs_release(&split);
    return 0;
}
