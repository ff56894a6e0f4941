// SPDX-License-Identifier: GPL-3.0-or-later
// A byte-wise filter from untrusted text to UTF-8 that is safe to show.
#include "app/util/sanitize.h"

#include <string.h>

#include "app/util/marks.h"
#include "tokenizer/tok.h"

enum { REPLACEMENT = 0xFFFD, BOX = 0x25AF, ZWJ = 0x200D, TEXT_STYLE = 0xFE0E, EMOJI_STYLE = 0xFE0F, KEYCAP = 0x20E3 };
enum { MARKS_MAX = 4 };

struct range {
    uint32_t first;
    uint32_t last;
};

static bool in_ranges(uint32_t code, const struct range *ranges, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (code >= ranges[i].first && code <= ranges[i].last)
            return true;
    return false;
}

// Unicode's Default_Ignorable_Code_Point (tags, bidi controls, variation selectors and zero-width characters are all in
// it) with the interlinear, Syriac and Egyptian format controls, which show as nothing too.
static bool is_invisible(uint32_t code)
{
    static const struct range ranges[] = {
        {0x00AD, 0x00AD},   {0x034F, 0x034F},   {0x061C, 0x061C},   {0x070F, 0x070F},   {0x115F, 0x1160},
        {0x17B4, 0x17B5},   {0x180B, 0x180F},   {0x200B, 0x200F},   {0x202A, 0x202E},   {0x2060, 0x206F},
        {0x3164, 0x3164},   {0xFE00, 0xFE0F},   {0xFEFF, 0xFEFF},   {0xFFA0, 0xFFA0},   {0xFFF0, 0xFFFB},
        {0x13430, 0x1343F}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF},
    };
    return in_ranges(code, ranges, sizeof ranges / sizeof ranges[0]);
}

// The blocks that emoji stand in, neighbouring symbols included.
static bool is_emoji(uint32_t code)
{
    static const struct range ranges[] = {
        {0x00A9, 0x00A9}, {0x00AE, 0x00AE}, {0x203C, 0x203C}, {0x2049, 0x2049}, {0x2122, 0x2122},   {0x2139, 0x2139},
        {0x2190, 0x21FF}, {0x2300, 0x23FF}, {0x24C2, 0x24C2}, {0x25A0, 0x27BF}, {0x2934, 0x2935},   {0x2B00, 0x2BFF},
        {0x3030, 0x3030}, {0x303D, 0x303D}, {0x3297, 0x3297}, {0x3299, 0x3299}, {0x1F000, 0x1FAFF},
    };
    return in_ranges(code, ranges, sizeof ranges / sizeof ranges[0]);
}

// Drawn onto the emoji before it: as wide as nothing there (cells.h).
static bool is_tone(uint32_t code)
{
    return code >= 0x1F3FB && code <= 0x1F3FF;
}

uint32_t sanitize_visible(uint32_t code)
{
    if (code == '\n' || code == '\t')
        return code;
    if (code < 0x20)
        return 0x2400 + code;
    if (code < 0x7F)
        return code;
    if (code == 0x7F)
        return 0x2421;
    if (code < 0xA0)
        return REPLACEMENT;
    if (code == 0x2028 || code == 0x2029)
        return 0x2424;
    return is_invisible(code) ? BOX : code;
}

size_t sanitize_write_utf8(uint32_t code, char *out)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--, code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3F));
    out[0] = (char)((0xF00u >> length & 0xF0) | code);
    return length;
}

// The joiner that waited is followed by `code`, or by nothing (0).
static size_t settle_joiner(struct sanitize *state, uint32_t code, char *out)
{
    uint32_t joiner = state->joiner;
    if (!joiner)
        return 0;
    state->joiner = 0;
    if (joiner == ZWJ ? is_emoji(code) && !is_tone(code) : code == KEYCAP)
        return sanitize_write_utf8(joiner, out);
    state->last = SANITIZE_OTHER;
    state->marks = 0;
    return sanitize_write_utf8(BOX, out);
}

static bool is_keycap(uint32_t code)
{
    return (code >= '0' && code <= '9') || code == '#' || code == '*';
}

static size_t put(struct sanitize *state, uint32_t code, char *out)
{
    size_t written = settle_joiner(state, code, out);
    bool styled = code == TEXT_STYLE || code == EMOJI_STYLE;
    bool after_emoji = state->last == SANITIZE_EMOJI || state->last == SANITIZE_EMOJI_STYLED;
    if ((code == ZWJ && after_emoji) || (code == EMOJI_STYLE && state->last == SANITIZE_KEYCAP)) {
        state->joiner = code;
        return written;
    }
    if (styled && state->last == SANITIZE_EMOJI) {
        state->last = SANITIZE_EMOJI_STYLED;
        return written + sanitize_write_utf8(code, out + written);
    }
    if (!is_invisible(code) && is_mark(code)) {
        state->last = SANITIZE_OTHER;
        return state->marks++ < MARKS_MAX ? written + sanitize_write_utf8(code, out + written) : written;
    }
    if (is_tone(code) && after_emoji && !state->toned) {
        state->toned = true;
        return written + sanitize_write_utf8(code, out + written);
    }
    state->marks = 0;
    state->toned = false;
    if (is_tone(code)) {
        state->last = SANITIZE_OTHER;
        return written + sanitize_write_utf8(BOX, out + written);
    }
    if (is_emoji(code))
        state->last = SANITIZE_EMOJI;
    else
        state->last = is_keycap(code) ? SANITIZE_KEYCAP : SANITIZE_OTHER;
    return written + sanitize_write_utf8(sanitize_visible(code), out + written);
}

size_t sanitize_push(struct sanitize *state, const char *bytes, size_t length, char *out)
{
    size_t written = 0;
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        bool ascii = (byte >= 0x20 && byte < 0x7F) || byte == '\n' || byte == '\t';
        if (ascii && state->n_held == 0 && !state->joiner) { // as put() would, which is what most text is
            out[written++] = bytes[i];
            state->marks = 0;
            state->last = is_keycap(byte) ? SANITIZE_KEYCAP : SANITIZE_OTHER;
            continue;
        }
        state->held[state->n_held++] = bytes[i];
        while (state->n_held > 0) {
            uint32_t code;
            int found = tok_utf8(state->held, state->n_held, &code);
            if (found == 0)
                break;
            unsigned taken = (unsigned)(found > 0 ? found : -found);
            written += put(state, found > 0 ? code : REPLACEMENT, out + written);
            state->n_held -= taken;
            memmove(state->held, state->held + taken, state->n_held);
        }
    }
    return written;
}

size_t sanitize_flush(struct sanitize *state, char *out)
{
    size_t written = state->n_held ? put(state, REPLACEMENT, out) : settle_joiner(state, 0, out);
    *state = (struct sanitize){0};
    return written;
}
