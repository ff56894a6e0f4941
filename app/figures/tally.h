// SPDX-License-Identifier: GPL-3.0-or-later
// What was done for a turn, for a conversation, since the start: the numbers that people and scripts are told, in the
// status row, the pane, /stats, the line after an answer and JSON. Here they are added up, and nowhere else;
// moechat(1), FIGURES, says what each is. Pure.
#ifndef MOECHAT_APP_FIGURES_TALLY_H
#define MOECHAT_APP_FIGURES_TALLY_H

#include <stddef.h>
#include <stdint.h>

#include "engine/moe.h"

struct tally {
    uint64_t read_tokens, read_ns;                            // of prompts
    uint64_t answered_tokens;                                 // of answers, without the mark that ends one
    uint64_t answer_steps, answer_ns;                         // from one of those to the next: how many, how long
    uint64_t from[MOE_ORIGINS];                               // experts asked for, by where they were
    uint64_t hits, misses;                                    // of those, in memory; and read or still being read
    uint64_t ahead, wasted;                                   // experts read ahead; and of those, given up unasked
    uint64_t bytes_read, bytes_cached, bytes_copied, wait_ns; // for experts
    uint64_t rows;                                            // tokens that all this was for
    uint64_t single_hits, single_asked; // by answers' tokens, whose choices are known: what the hit curve is of
    uint64_t single_ahead;              // of those hits, those that nobody had asked for before they were read ahead
    const char *policy;                 // of prefetch, as of moe_stats, at last; NULL: not known
    char reason[96];
};
// The experts of a step.
void tally_add_record(struct tally *tally, const struct moe_telemetry *step);
// And what of them counts as an answer's alone, of a step of one.
void tally_add_single(struct tally *tally, const struct moe_telemetry *step);
void tally_clear(struct tally *tally); // but for what is so now, not counted: the policy
void tally_add(struct tally *tally, const struct tally *more);
// By a session's own counters, then and now.
struct tally tally_between(const struct moe_stats *then, const struct moe_stats *now);

// Bytes a token that were read (below 0: no expert was asked for), and of these from the system's page cache.
double tally_read_a_token(const struct tally *tally);
double tally_cached_a_token(const struct tally *tally);
double tally_hit_share(const struct tally *tally); // 0 to 1, below 0: none was asked for
// Tokens a second; 0: none were, or it was not measured.
double tally_read_speed(const struct tally *tally);
double tally_answer_speed(const struct tally *tally);
uint64_t tally_used(const struct tally *tally);   // of those read ahead, asked for later, in time or not quite
uint64_t tally_unused(const struct tally *tally); // the rest: neither asked for yet nor given up
// "1.28 MB read", and how much of it came from the system's page cache.
char *tally_read_words(char *out, size_t size, const struct tally *tally);
// "5 hits, 1 miss". Returns `out`.
enum { TALLY_FOUND_SIZE = 64 };
char *tally_found_words(char out[TALLY_FOUND_SIZE], const struct tally *tally);
// "router", "off, as asked", "on trial, now off". Returns `out`.
enum { TALLY_PREFETCH_SIZE = 140 };
char *tally_prefetch_words(char out[TALLY_PREFETCH_SIZE], const struct tally *tally);

#endif
