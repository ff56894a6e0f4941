// SPDX-License-Identifier: GPL-3.0-or-later
// Median, hash and token ids of the benchmarks.
#include "app/subcommands/bench_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static int compare_reals(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare_reals);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

uint64_t bench_hash(uint64_t before, const void *data, size_t length)
{
    for (size_t i = 0; i < length; i++)
        before = (before ^ ((const unsigned char *)data)[i]) * UINT64_C(0x100000001b3);
    return before;
}

char *bench_runs_words(char *out, size_t size, uint32_t runs, const char *what)
{
    if (runs == 1)
        snprintf(out, size, "one run");
    else
        snprintf(out, size, "median of %" PRIu32 " %s", runs, what);
    return out;
}

int32_t *bench_ids(size_t count, uint32_t vocab_size)
{
    uint64_t state = 1;
    int32_t *ids = calloc(count, sizeof *ids);
    for (size_t i = 0; i < count && ids; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        ids[i] = (int32_t)((state >> 33) % vocab_size);
    }
    return ids;
}
