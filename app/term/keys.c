// SPDX-License-Identifier: GPL-3.0-or-later
// Explains the keys.
#include "app/term/keys.h"

#include <string.h>

#include "app/util/words.h"

struct key_row {
    const char *name, *on_screen, *in_lines; // NULL: nothing to say
};

static const struct key_row table[] = {
#define EDIT_KEY(id, function, sequences, does, ...)        {__VA_ARGS__},
#define SCREEN_KEY(id, function, sequences, otherwise, ...) {__VA_ARGS__},
#define OTHER_KEY(...)                                      {__VA_ARGS__},
#include "app/term/keys.def"
#undef EDIT_KEY
#undef SCREEN_KEY
#undef OTHER_KEY
};
enum { N_ROWS = sizeof table / sizeof table[0] };

static size_t print_row(FILE *out, const char *name, const char *help, const char *wanted)
{
    if (!help || (!words_about(name, wanted) && !words_about(help, wanted)))
        return 0;
    fprintf(out, "  %-20s  %s\n", name, help);
    return 1;
}

size_t keys_of_screen(FILE *out, const char *wanted)
{
    size_t shown = 0;
    for (size_t i = 0; i < N_ROWS; i++)
        shown += print_row(out, table[i].name, table[i].on_screen, wanted);
    return shown;
}

size_t keys_of_lines(FILE *out, const char *wanted)
{
    size_t shown = 0;
    for (size_t i = 0; i < N_ROWS; i++)
        shown += print_row(out, table[i].name, table[i].in_lines, wanted);
    return shown;
}

void keys_dump(FILE *out)
{
    for (size_t i = 0; i < N_ROWS; i++) {
        const struct key_row *row = &table[i];
        if (!row->on_screen && !row->in_lines)
            continue;
        fprintf(out, ".It Ic %s\n", row->name);
        if (row->on_screen)
            words_print(out, row->on_screen, 0, 0);
        if (!row->in_lines)
            fprintf(out, ".Pq on the full screen\n");
        else if (!(row->on_screen && strcmp(row->on_screen, row->in_lines) == 0))
            fprintf(out, ".Pq in plain lines: %s\n", row->in_lines);
    }
}
