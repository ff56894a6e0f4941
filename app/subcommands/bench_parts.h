// SPDX-License-Identifier: GPL-3.0-or-later
// What the kinds of moechat bench share. Pure.
#ifndef MOECHAT_APP_SUBCOMMANDS_BENCH_PARTS_H
#define MOECHAT_APP_SUBCOMMANDS_BENCH_PARTS_H

#include <stddef.h>
#include <stdint.h>

double bench_median(double *values, size_t count); // of one or more; sorts them
// FNV-1a of what was hashed before, BENCH_HASH_BEGIN for nothing, and data.
#define BENCH_HASH_BEGIN UINT64_C(0xcbf29ce484222325)
uint64_t bench_hash(uint64_t before, const void *data, size_t length);
// "median of 5 runs", "one run". Returns out.
char *bench_runs_words(char *out, size_t size, uint32_t runs, const char *what);
// The same ids on every machine, spread over the vocabulary, so that experts are asked for widely. To be freed. NULL:
// no memory.
int32_t *bench_ids(size_t count, uint32_t vocab_size);

#endif
