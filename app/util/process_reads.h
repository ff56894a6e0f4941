// SPDX-License-Identifier: GPL-3.0-or-later
// What this process has read, by the system's own count: to compare with what we say of ourselves.
#ifndef MOECHAT_APP_UTIL_PROCESS_READS_H
#define MOECHAT_APP_UTIL_PROCESS_READS_H

#include <stdbool.h>
#include <stdint.h>

struct process_reads {
    bool known;            // Linux counts, where /proc is there; with MOECHAT_CLOCK=fake (format.h) it is not asked
    uint64_t device_bytes; // that devices had to deliver: files that were not in the page cache, and programs' pages
    uint64_t call_bytes;   // that read calls delivered, from wherever
};
struct process_reads process_reads_now(void);
// What devices delivered from the one to the other. False: not known.
bool process_reads_between(const struct process_reads *then, const struct process_reads *now, uint64_t *bytes);

#endif
