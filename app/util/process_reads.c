// SPDX-License-Identifier: GPL-3.0-or-later
// Reads /proc/self/io.
#include "app/util/process_reads.h"

#include <inttypes.h>
#include <stdio.h>

#include "app/util/format.h"

struct process_reads process_reads_now(void)
{
    struct process_reads reads = {0};
    char line[80];
    int found = 0;
    FILE *file = format_clock_is_fake() ? NULL : fopen("/proc/self/io", "re");
    while (file && fgets(line, sizeof line, file)) {
        found += sscanf(line, "rchar: %" SCNu64, &reads.call_bytes) == 1;
        found += sscanf(line, "read_bytes: %" SCNu64, &reads.device_bytes) == 1;
    }
    if (file)
        fclose(file);
    reads.known = found == 2;
    return reads;
}

bool process_reads_between(const struct process_reads *then, const struct process_reads *now, uint64_t *bytes)
{
    *bytes = now->device_bytes - then->device_bytes;
    return then->known && now->known && now->device_bytes >= then->device_bytes;
}
