// SPDX-License-Identifier: GPL-3.0-or-later
// Runs a fuzz target without a fuzzer: every file of the corpus folders given, and some mutants of each, MUTANTS of a
// folder, made by a fixed generator (bytes changed, cut, doubled). For `make check`, where only gcc's sanitizers are at
// hand; `make fuzz` searches for real. Prints a PASS line a folder; a finding ends the program as the sanitizers do.
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MUTANTS = 3000, LARGEST = 1 << 20 };

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

// Changes data[0..size) into something near it and returns the new size, at most LARGEST.
static size_t mutate(uint8_t *data, size_t size, uint32_t *state)
{
    for (uint32_t change = next_random(state) % 6; change > 0 && size > 0; change--) {
        size_t at = next_random(state) % size;
        size_t span = 1 + next_random(state) % 16;
        if (span > size - at)
            span = size - at;
        switch (next_random(state) % 4) {
        case 0:
            data[at] = (uint8_t)next_random(state);
            break;
        case 1:
            data[at] ^= (uint8_t)(1u << next_random(state) % 8);
            break;
        case 2:
            memmove(data + at, data + at + span, size - at - span);
            size -= span;
            break;
        default:
            if (size + span > LARGEST)
                break;
            memmove(data + at + span, data + at, size - at);
            size += span;
        }
    }
    return size;
}

// An input in a block of exactly its size, so that a sanitizer sees the first byte read beyond it.
static void run_exactly(const uint8_t *data, size_t size)
{
    uint8_t *exact = malloc(size ? size : 1);
    if (!exact)
        abort();
    memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

static int run_file(const char *path, int mutants)
{
    FILE *file = fopen(path, "rb");
    uint8_t *original = malloc(LARGEST);
    uint8_t *mutant = malloc(LARGEST);
    if (!file || !original || !mutant)
        abort();
    size_t size = fread(original, 1, LARGEST, file);
    fclose(file);
    uint32_t state = 2463534242u;
    run_exactly(original, size);
    for (int i = 0; i < mutants; i++) {
        memcpy(mutant, original, size);
        run_exactly(mutant, mutate(mutant, size, &state));
    }
    free(original);
    free(mutant);
    return 1;
}

// How many files there are, or, given `mutants`, how many were run.
static int visit(const char *path, int mutants)
{
    DIR *folder = opendir(path);
    int files = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char file[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        files += mutants ? run_file(file, mutants) : 1;
    }
    if (folder)
        closedir(folder);
    return files;
}

int main(int argc, char **argv)
{
    int failed = argc < 2;
    for (int i = 1; i < argc; i++) {
        int files = visit(argv[i], 0);
        files = files ? visit(argv[i], 1 + MUTANTS / files) : 0;
        printf("%s fuzz corpus %s (%d files)\n", files ? "PASS" : "FAIL", argv[i], files);
        failed |= !files;
    }
    return failed;
}
