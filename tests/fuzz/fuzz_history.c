// SPDX-License-Identifier: GPL-3.0-or-later
// Any line: what can be read is written again as the same text; any text that is kept comes back.
#include <stdlib.h>
#include <string.h>

#include "app/store/history.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must_come_back(const char *text, size_t length)
{
    struct bytes line = {0}, again = {0};
    if (history_encode(text, length, &line)) {
        if (!history_decode(line.data, line.length - 1, &again) || again.length != length ||
            memcmp(again.data, text, length) != 0)
            abort();
    }
    bytes_release(&line);
    bytes_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes text = {0};
    must_come_back((const char *)data, size);
    if (history_decode((const char *)data, size, &text))
        must_come_back(text.data, text.length);
    bytes_release(&text);
    return 0;
}
