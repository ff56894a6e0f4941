// SPDX-License-Identifier: GPL-3.0-or-later
// What each row of bench stream measured, for people.
#include "app/subcommands/stream_table.h"

#include <stdarg.h>
#include <stdio.h>

#include "app/figures/figures.h"
#include "app/util/format.h"
#include "app/view/table.h"

// The columns before those of times.
static const struct {
    const char *name, *unit;
    int width, decimals;
    bool lacks; // where it is 0, it was not measured, or there is none
} columns_of[] = {
    {"cache", "", 8, 0, false},          {"prefill", "tokens/s", 9, 1, false}, {"read", "%", 8, 1, false},
    {"decode", "tok/s", 8, 2, false},    {"hits", "%", 6, 1, false},           {"disk", "MB/token", 9, 2, false},
    {"cached", "MB/token", 9, 2, false}, {"copied", "MB/token", 9, 2, false},  {"waits", "/token", 7, 1, false},
    {"bound", "x", 7, 2, true},          {"reads", "x", 7, 2, true},           {"now", "%", 5, 0, true}};
enum { READ = 2, BOUND = 9, READS = 10 }; // those with a bound
enum { N_COLUMNS = sizeof columns_of / sizeof columns_of[0], NAME_WIDTH = 24, TIME_WIDTH = 10, TEXT_COLUMNS = 120 };
static const char times_head[] = "about so many ms of a token on";

typedef char row_values[N_COLUMNS][FORMAT_SIZE]; // in the order of the columns

bool stream_is_beaten(double time_to_bound)
{
    return time_to_bound > 0 && time_to_bound < 0.95;
}

double stream_time_to_reads(double read_share)
{
    return read_share > 0 ? 1 / read_share : 0;
}

bool stream_is_engines(int interval)
{
    return interval != MOE_ON_SAMPLING && interval != MOE_ON_SAVING;
}

void stream_say(int columns, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    table_fold(stdout, text, &(struct table){.columns = columns, .second = 2});
}

int stream_text_columns(int columns)
{
    return columns && columns < TEXT_COLUMNS ? columns : TEXT_COLUMNS;
}

static bool is_narrow(int columns)
{
    int width = 2 + NAME_WIDTH;
    for (int i = 0; i < N_COLUMNS; i++)
        width += columns_of[i].width;
    for (int i = 0; i < MOE_INTERVALS; i++)
        width += stream_is_engines(i) ? TIME_WIDTH : 0;
    return columns && columns < width;
}

void stream_table_head(int columns)
{
    putchar('\n');
    if (is_narrow(columns))
        return;
    printf("  %-*s", NAME_WIDTH, "");
    for (int i = 0; i < N_COLUMNS; i++)
        printf("%*s", columns_of[i].width, columns_of[i].name);
    printf("  %s\n  %-*s", times_head, NAME_WIDTH, "");
    for (int i = 0; i < N_COLUMNS; i++)
        printf("%*s", columns_of[i].width, columns_of[i].unit);
    for (int i = 0; i < MOE_INTERVALS; i++)
        if (stream_is_engines(i))
            printf("%*s", TIME_WIDTH, figures_interval_name((enum moe_interval)i));
    putchar('\n');
}

static void print_in_columns(const struct stream_row *row, row_values values)
{
    printf("  %-*s", NAME_WIDTH, row->name);
    for (int i = 0; i < N_COLUMNS; i++)
        printf("%*s", columns_of[i].width, values[i]);
    for (int i = 0; i < MOE_INTERVALS; i++)
        if (stream_is_engines(i))
            printf("%*.3f", TIME_WIDTH, row->ms[i]);
    putchar('\n');
}

// "cache 12 MB, prefill 80.0 tokens/s, ...".
static void print_as_text(int columns, const struct stream_row *row, row_values values)
{
    char text[2048];
    size_t end = 0;
    for (int i = 0; i < N_COLUMNS && end < sizeof text; i++) {
        bool has_unit = *columns_of[i].unit && values[i][0] != '-', apart = columns_of[i].unit[0] != '/';
        end += (size_t)snprintf(text + end, sizeof text - end, "%s%s %s%s%s", i ? ", " : "    ", columns_of[i].name,
                                values[i], has_unit && apart ? " " : "", has_unit ? columns_of[i].unit : "");
    }
    const char *before = ": ";
    if (end < sizeof text)
        end += (size_t)snprintf(text + end, sizeof text - end, "\n    %s", times_head);
    for (int i = 0; i < MOE_INTERVALS && end < sizeof text; i++)
        if (stream_is_engines(i)) {
            end += (size_t)snprintf(text + end, sizeof text - end, "%s%s %.3f", before,
                                    figures_interval_name((enum moe_interval)i), row->ms[i]);
            before = ", ";
        }
    printf("  %s\n", row->name);
    table_fold(stdout, text, &(struct table){.columns = columns, .second = 4});
}

void stream_table_row(int columns, const struct stream_row *row)
{
    row_values values;
    const double numbers[N_COLUMNS] = {0,
                                       row->prefill,
                                       100 * row->read_share,
                                       row->decode,
                                       100 * row->hits,
                                       row->disk / 1e6,
                                       row->page_cache / 1e6,
                                       row->copied / 1e6,
                                       row->waits,
                                       row->ratio,
                                       row->reads_ratio,
                                       100 * row->drift};
    const double to_bound[N_COLUMNS] = {
        [READ] = stream_time_to_reads(row->read_share), [BOUND] = row->ratio, [READS] = row->reads_ratio};
    for (int i = 0; i < N_COLUMNS; i++)
        if (columns_of[i].lacks && !(numbers[i] > 0))
            snprintf(values[i], FORMAT_SIZE, "-");
        else
            snprintf(values[i], FORMAT_SIZE, "%.*f%s", columns_of[i].decimals, numbers[i],
                     stream_is_beaten(to_bound[i]) ? "*" : "");
    format_bytes_up(values[0], FORMAT_SIZE, row->cache_bytes);
    if (is_narrow(columns))
        print_as_text(columns, row, values);
    else
        print_in_columns(row, values);
}
