// SPDX-License-Identifier: GPL-3.0-or-later
// Numbers as people write them. Each writes at most `size` bytes with the ending 0 and returns `out`.
#ifndef MOECHAT_APP_UTIL_FORMAT_H
#define MOECHAT_APP_UTIL_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FORMAT_SIZE = 64 }; // enough for each of them

char *format_bytes(char *out, size_t size, uint64_t bytes); // "0 B", "812 KB", "1.25 GB" (powers of 1000)
// The same, rounded up: where it says how much is needed, that much is enough; and what caches of experts take, and
// beside them what a token with nothing cached reads.
char *format_bytes_up(char *out, size_t size, uint64_t bytes);
char *format_bytes_typed(char *out, size_t size, uint64_t bytes); // that as a value of an option: "560", "11.5GB"
char *format_count(char *out, size_t size, uint64_t count);       // "812", "12.3 thousand", "1.25 million"
// A share of 0 to 1 in percent, "83", with digits behind the point; 100 is all of it, never what is only nearly so.
char *format_percent(char *out, size_t size, double share, int digits);
char *format_duration(char *out, size_t size, double seconds); // "0.4 s", "12 s", "3 min 5 s", "2 h 10 min"
// "1 token", "16 tokens, 635.3 tokens/s"; a speed of 0 was not measured.
char *format_tokens(char *out, size_t size, uint64_t tokens, double per_second);
const char *format_s(uint64_t count); // "" for one, else "s": "%u token%s"
// A clock that only goes forward, to measure with. With MOECHAT_CLOCK=fake it stands still, so that tests see the same
// figures each time.
uint64_t format_clock_ns(void);
bool format_clock_is_fake(void);
// Seconds since 1970, 0 before: a board that has lost its battery may think so, and files know no such times.
uint64_t format_unix_time(void);

#endif
