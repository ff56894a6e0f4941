// SPDX-License-Identifier: GPL-3.0-or-later
// The rows of bench stream: what was not measured is no number, and what can't be is marked.
#include <stdio.h>
#include <unistd.h>

#include "tests/harness.h"
#include "app/subcommands/stream_table.h"

// What a row prints where nothing cuts it, without the times.
static const char *row_words(const struct stream_row *row)
{
    static char words[1024];
    fflush(stdout);
    int out = dup(STDOUT_FILENO);
    FILE *file = tmpfile();
    words[0] = '\0';
    if (!file)
        return words;
    dup2(fileno(file), STDOUT_FILENO);
    stream_table_row(0, row);
    fflush(stdout);
    dup2(out, STDOUT_FILENO);
    close(out);
    rewind(file);
    words[fread(words, 1, sizeof words - 1, file)] = '\0';
    fclose(file);
    enum { COLUMNS = 2 + 24 + 92 };
    words[strlen(words) < COLUMNS ? strlen(words) : COLUMNS] = '\0';
    return words;
}

static void what_can_not_be_is_marked(struct harness *t)
{
    struct stream_row row = {.name = "direct reads",
                             .cache_bytes = 2000000,
                             .prefill = 257.1,
                             .decode = 84.17,
                             .read_share = 0.5,
                             .hits = 0.431,
                             .drift = 1.02,
                             .disk = 1180000,
                             .ratio = 1.22,
                             .reads_ratio = 1.3};
    CHECK_STR(
        t, row_words(&row),
        "  direct reads             2.00 MB    257.1    50.0   84.17  43.1     1.18     0.00     0.00    0.0   1.22  "
        " 1.30  102");
    row.read_share = 1.516; // of the time there was
    row.ratio = 0.78;
    row.reads_ratio = row.drift = 0; // its reads go another way than those that were measured
    CHECK_STR(
        t, row_words(&row),
        "  direct reads             2.00 MB    257.1  151.6*   84.17  43.1     1.18     0.00     0.00    0.0  0.78*  "
        "    -    -");
    row.read_share = 1.05; // as noise would have it
    CHECK(t, strstr(row_words(&row), " 105.0  ") != NULL);
    row.read_share = 0;
    CHECK(t, strstr(row_words(&row), "     0.0  ") != NULL);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(what_can_not_be_is_marked),
    };
    return HARNESS_RUN(tests, argc, argv);
}
