// SPDX-License-Identifier: GPL-3.0-or-later
// Bytes of ids into whole characters.
#include "tokenizer/tok.h"

#include <string.h>

size_t tok_stream_push(struct tok_stream *stream, const char *bytes, size_t length, char *out)
{
    size_t written = 0;
    for (size_t i = 0; i < length; i++) {
        stream->held[stream->n_held++] = (unsigned char)bytes[i];
        while (stream->n_held > 0) {
            uint32_t code;
            int found = tok_utf8((const char *)stream->held, stream->n_held, &code);
            if (found == 0)
                break;
            unsigned ready = (unsigned)(found > 0 ? found : -found);
            memcpy(out + written, stream->held, ready);
            written += ready;
            stream->n_held -= ready;
            memmove(stream->held, stream->held + ready, stream->n_held);
        }
    }
    return written;
}

size_t tok_stream_flush(struct tok_stream *stream, char *out)
{
    size_t written = stream->n_held;
    memcpy(out, stream->held, written);
    stream->n_held = 0;
    return written;
}
