// SPDX-License-Identifier: GPL-3.0-or-later
// Sends an answer's text, and the events of its tokens, as far as they may be seen.
#include "app/driver/answer_text.h"

#include <stdlib.h>
#include <string.h>

void answer_text_release(struct answer_text *text)
{
    for (size_t i = 0; i < text->n_tokens; i++)
        event_release(&text->tokens[i]);
    free(text->tokens);
    free(text->ends);
    stops_release(&text->stops);
}

static void send(struct answer_text *text, bool thinking, const char *bytes, size_t length)
{
    while (length > 0) {
        struct event event = {.kind = EVENT_TEXT};
        event.text.thinking = thinking;
        event.text.tokens = text->ids;
        text->ids = 0;
        size_t part = length < sizeof event.text.bytes ? length : sizeof event.text.bytes;
        if (part < length) // cut long tokens between characters
            for (int i = 0; i < 3 && part > 1 && ((unsigned char)bytes[part] & 0xC0) == 0x80; i++)
                part--;
        memcpy(event.text.bytes, bytes, part);
        event.text.length = (uint32_t)part;
        queue_push(text->events, &event, NULL);
        bytes += part;
        length -= part;
    }
}

static void take_part(void *context, bool thinking, const char *bytes, size_t length)
{
    struct answer_text *text = context;
    size_t ready;
    if (thinking || !text->stops.n_strings) {
        send(text, thinking, bytes, length);
    } else if (stops_push(&text->stops, bytes, length, &ready)) {
        send(text, false, text->stops.held.data, ready);
        stops_take(&text->stops, ready);
    } else {
        text->failed = true;
    }
}

bool answer_text_begin(struct answer_text *text, struct bytes *said, const struct answer_begins *begins)
{
    text->said = said;
    text->failed = false;
    text->ids = 0;
    text->came = text->streamed = text->seen = 0;
    stops_begin(&text->stops, begins->stop);
    tok_think_begin(&text->think, begins->has_marks, *begins->opened);
    return bytes_append(said, begins->opened, strlen(begins->opened));
}

bool answer_text_stopped(const struct answer_text *text)
{
    return text->stops.found;
}

uint64_t answer_text_length(const struct answer_text *text)
{
    return text->streamed - text->stops.dropped;
}

// What was dropped is no part of what the answer says either: said last, it is its end. NULL: nothing follows.
static bool push(struct answer_text *text, const char *bytes, size_t length)
{
    struct tok_think_out out = {take_part, text};
    uint64_t before = text->stops.dropped;
    text->streamed += length;
    if (bytes && !bytes_append(text->said, bytes, length))
        return false;
    if (bytes)
        tok_think_push(&text->think, bytes, length, &out);
    else
        tok_think_flush(&text->think, &out);
    text->said->length -= (size_t)(text->stops.dropped - before);
    text->said->data[text->said->length] = 0;
    return !text->failed;
}

bool answer_text_push(struct answer_text *text, int32_t id)
{
    const char *bytes;
    size_t length = text->backend->ops->bytes(text->backend->self, id, &bytes);
    char small[256], *out = length + 3 <= sizeof small ? small : malloc(length + 3);
    if (!out)
        return false;
    text->came += length;
    text->ids++;
    size_t whole = tok_stream_push(&text->stream, bytes, length, out);
    bool fine = !whole || push(text, out, whole);
    if (out != small)
        free(out);
    return fine;
}

bool answer_text_mark(struct answer_text *text, const char *mark)
{
    char held[4]; // what came before it is whole, or never will be
    size_t length = strlen(mark), whole = tok_stream_flush(&text->stream, held);
    text->came += length;
    text->ids++;
    return (!whole || push(text, held, whole)) && (!length || push(text, mark, length));
}

// The text up to here is out, or will never be.
static uint64_t settled(const struct answer_text *text, bool ended)
{
    if (ended || text->stops.found || !text->stops.n_strings)
        return UINT64_MAX;
    return text->streamed - text->stops.held.length;
}

static void send_tokens(struct answer_text *text, bool ended)
{
    uint64_t out = settled(text, ended), visible = text->stops.found ? answer_text_length(text) : UINT64_MAX;
    size_t sent = 0;
    for (; sent < text->n_tokens && text->ends[sent] <= out; sent++) {
        struct event *event = &text->tokens[sent];
        uint64_t begin = text->seen, left = visible > begin ? visible - begin : 0;
        if (event->token.length > left)
            event->token.length = (uint32_t)left;
        text->seen = text->ends[sent];
        if (!queue_push(text->events, event, NULL))
            event_release(event);
    }
    text->n_tokens -= sent;
    if (sent && text->n_tokens) {
        memmove(text->tokens, text->tokens + sent, text->n_tokens * sizeof *text->tokens);
        memmove(text->ends, text->ends + sent, text->n_tokens * sizeof *text->ends);
    }
}

static bool make_room(struct answer_text *text)
{
    if (text->n_tokens < text->capacity)
        return true;
    size_t capacity = text->capacity ? 2 * text->capacity : 16;
    struct event *tokens = realloc(text->tokens, capacity * sizeof *tokens);
    text->tokens = tokens ? tokens : text->tokens;
    uint64_t *ends = tokens ? realloc(text->ends, capacity * sizeof *ends) : NULL;
    text->ends = ends ? ends : text->ends;
    text->capacity = ends ? capacity : text->capacity;
    return ends;
}

void answer_text_token(struct answer_text *text, struct event *event)
{
    if (!make_room(text)) { // it is missing from what is seen, as an event without memory is anywhere
        event_release(event);
        return;
    }
    text->tokens[text->n_tokens] = *event;
    text->ends[text->n_tokens++] = text->came;
    send_tokens(text, false);
}

bool answer_text_end(struct answer_text *text)
{
    char held[4];
    size_t whole = tok_stream_flush(&text->stream, held);
    bool fine = (!whole || push(text, held, whole)) && push(text, NULL, 0);
    if (!text->stops.found)
        send(text, false, text->stops.held.data, text->stops.held.length);
    stops_take(&text->stops, text->stops.held.length);
    send_tokens(text, true);
    return fine;
}
