// SPDX-License-Identifier: GPL-3.0-or-later
// The table of moechat bench stream: a line a row where the terminal has the columns for it or there is none, else a
// paragraph of names and values. All of it is printed to standard output.
#ifndef MOECHAT_APP_SUBCOMMANDS_STREAM_TABLE_H
#define MOECHAT_APP_SUBCOMMANDS_STREAM_TABLE_H

#include "engine/moe.h"

// Medians of the runs, or means of their tokens.
struct stream_row {
    const char *name;
    uint64_t cache_bytes;
    double prefill, decode;          // tokens a second
    double read_share, hits;         // 1: all
    double drift;                    // 1: none, 0: not measured
    double disk, page_cache, copied; // bytes a token
    double waits;                    // a token
    double ratio, reads_ratio;       // of a token's time to its bound; to its reads, 0: they don't bound it
    double ms[MOE_INTERVALS];        // a token
    bool estimated;                  // some of them: see moe_telemetry, shared_out
};

// Something that can't be was measured: a bound or a ceiling that is passed by more than noise was none.
bool stream_is_beaten(double time_to_bound);
double stream_time_to_reads(double read_share); // of a prompt; 0: it read nothing
// An interval of the engine: not the caller's, of whom there is none in a benchmark.
bool stream_is_engines(int interval);

// `columns` are the terminal's, 0: there is none. Text of at most 1000 bytes is cut between words for it; what is
// continued stands two columns in.
__attribute__((format(printf, 2, 3))) void stream_say(int columns, const char *format, ...);
int stream_text_columns(int columns); // for paragraphs, which have no line ends of their own
void stream_table_head(int columns);
void stream_table_row(int columns, const struct stream_row *row);

#endif
