// SPDX-License-Identifier: GPL-3.0-or-later
// Untrusted bytes -> UTF-8 that is safe to show: nothing moves the cursor, reorders or hides text. Before storage into
// what is displayed, in every mode; what is piped or saved stays as it was. Pure: no locale, no allocation, any thread.
//
//   newline, tab                        as they are
//   other C0, DEL, U+2028, U+2029       their pictures: U+2400 to U+241F, U+2421, U+2424
//   C1, what is not UTF-8               U+FFFD (one for each maximal part of a character, as Unicode recommends)
//   bidi controls, tags, every other    U+25AF, a visible box
//     invisible character
//   ZWJ between emoji, U+FE0E or U+FE0F as they are; anywhere else the box
//     after one or inside a keycap
//   a skin tone after an emoji          as it is, one; anywhere else the box
//   combining marks                     the first four after each character, the rest left out
//
// Width stays the caller's: what its wcwidth does not know, it replaces itself.
#ifndef MOECHAT_APP_UTIL_SANITIZE_H
#define MOECHAT_APP_UTIL_SANITIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Room for what one push of `length` bytes writes at most; a flush writes at most SANITIZE_ROOM(0).
#define SANITIZE_ROOM(length) (3 * (length) + 6)

// Zero-initialise. Text may be cut anywhere between pushes: the output is the same.
struct sanitize {
    char held[4]; // the beginning of a character
    unsigned n_held;
    uint32_t joiner; // held until the next character says whether it may stay; 0: none
    unsigned marks;
    bool toned; // the last emoji has its skin tone
    enum { SANITIZE_OTHER, SANITIZE_EMOJI, SANITIZE_EMOJI_STYLED, SANITIZE_KEYCAP } last;
};

// Both return how many bytes were written to out.
size_t sanitize_push(struct sanitize *state, const char *bytes, size_t length, char *out);
// The end of a text: what was held comes out in its visible form, and the state is as new.
size_t sanitize_flush(struct sanitize *state, char *out);

// What is shown of a code point that stands alone; itself if it is safe.
uint32_t sanitize_visible(uint32_t code);
// Writes one code point, at most 4 bytes, and returns how many.
size_t sanitize_write_utf8(uint32_t code, char *out);

#endif
