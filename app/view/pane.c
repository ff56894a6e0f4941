// SPDX-License-Identifier: GPL-3.0-or-later
// Draws the figures of each layer.
#include "app/view/pane.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "app/figures/figures.h"
#include "app/util/format.h"
#include "engine/moe.h"

// The table's columns as they stand; the rank says which are left out first when there is no room (the highest).
enum column { LAYER, DEVICE, HOST, AHEAD, LATE, MISSED, WASTED, READ, DISK, COPIED, WAITED, N_COLUMNS };
static const struct {
    const char *title;
    int width, rank;
} table[N_COLUMNS] = {
    [LAYER] = {"layer", 11, 0}, [DEVICE] = {"device", 7, 1},  [HOST] = {"host", 6, 5},     [AHEAD] = {"ahead", 6, 6},
    [LATE] = {"late", 5, 8},    [MISSED] = {"missed", 7, 2},  [WASTED] = {"wasted", 7, 9}, [READ] = {"read", 9, 3},
    [DISK] = {"disk", 9, 7},    [COPIED] = {"copied", 9, 10}, [WAITED] = {"waited", 9, 4},
};

static bool shows(int columns, enum column column)
{
    int width = 0;
    for (int i = 0; i < N_COLUMNS; i++)
        width += table[i].rank <= table[column].rank ? table[i].width : 0;
    return width <= columns;
}

static void put_row(struct cells *cells, int row, char values[N_COLUMNS][FORMAT_SIZE], enum style style)
{
    struct cells_at at = cells_row(cells, row);
    for (int i = 0; i < N_COLUMNS; i++) {
        if (i == LAYER)
            cells_print(&at, style, "%-*s", table[i].width, values[i]);
        else if (shows(cells->columns, (enum column)i))
            cells_print(&at, style, "%*s%s", table[i].width - cells_width(values[i], strlen(values[i])), "", values[i]);
    }
}

// In so many columns, 4 or more: all figures, or "123k", "1.235M" with as many as there is room for, two or more.
static void count_words(char out[FORMAT_SIZE], uint64_t count, int room)
{
    double value = (double)count;
    if (snprintf(out, FORMAT_SIZE, "%" PRIu64, count) <= room)
        return;
    for (const char *unit = "kMGTPE"; *unit; unit++) {
        value /= 1000;
        if (value >= 999.5) // that would be 1000 of them
            continue;
        for (int places = 3; places >= 0; places--)
            if (snprintf(out, FORMAT_SIZE, "%.*f%c", places, value, *unit) <= room)
                return;
    }
}

// A space is before it.
static int room_in(enum column column)
{
    return table[column].width - 1;
}

// A layer's, or those of all.
static void put_tally(struct cells *cells, int row, const char *name, const struct tally *tally)
{
    char values[N_COLUMNS][FORMAT_SIZE];
    static const enum column of[MOE_ORIGINS] = {DEVICE, HOST, AHEAD, LATE, MISSED};
    snprintf(values[LAYER], FORMAT_SIZE, "%s", name);
    for (int origin = 0; origin < MOE_ORIGINS; origin++)
        count_words(values[of[origin]], tally->from[origin], room_in(of[origin]));
    if (!shows(cells->columns, LATE)) // as a miss is counted elsewhere
        count_words(values[MISSED], tally->from[MOE_FROM_DISK] + tally->from[MOE_FROM_LATE], room_in(MISSED));
    count_words(values[WASTED], tally->wasted, room_in(WASTED));
    format_bytes(values[READ], FORMAT_SIZE, tally->bytes_read);
    format_bytes(values[DISK], FORMAT_SIZE, tally->bytes_read - tally->bytes_cached);
    format_bytes(values[COPIED], FORMAT_SIZE, tally->bytes_copied);
    snprintf(values[WAITED], FORMAT_SIZE, "%.3f s", (double)tally->wait_ns / 1e9);
    put_row(cells, row, values, STYLE_TEXT);
}

static void put_layer(struct cells *cells, int row, const struct moe_layer_record *layer)
{
    char name[FORMAT_SIZE];
    struct tally tally = {0};
    tally_add_record(&tally, &(struct moe_telemetry){.n_moe_layers = 1, .layers = layer});
    snprintf(name, sizeof name, "%" PRIu32, layer->layer);
    put_tally(cells, row, name, &tally);
}

// Does it end within so many rows, cut between words?
static bool flows(const char *text, int rows, int columns)
{
    int row = 1, column = 0;
    for (const char *word = text; *word;) {
        int length = (int)strcspn(word + 1, " ") + 1;
        if (column + length > columns) {
            row++;
            column = -(*word == ' ');
        }
        column += length;
        word += length;
    }
    return row <= rows;
}

// "expert cache: 1.2 GB of 3.0 GB; prefetch off, not faster: ...", between words over at most so many rows; before it
// what the conversation takes, where that is rows and states.
// Returns how many it took.
static int put_cache(struct cells *cells, int row, int rows, const struct pane_figures *figures)
{
    char used[FORMAT_SIZE], limit[FORMAT_SIZE], memory[80] = "", text[336];
    struct cells_at at = cells_row(cells, row);
    int taken = 1;
    if (!figures->cache_bytes || rows < 1)
        return 0;
    const char *policy = figures->since_start->policy, *reason = figures->since_start->reason;
    if (figures->state_bytes)
        snprintf(memory, sizeof memory, "rows %s, states %s; ", format_bytes(used, sizeof used, figures->row_bytes),
                 format_bytes(limit, sizeof limit, figures->state_bytes));
    snprintf(text, sizeof text, "%sexpert cache: %s of %s%s%s%s%s", memory,
             format_bytes_up(used, sizeof used, figures->cache_used_bytes),
             format_bytes_up(limit, sizeof limit, figures->cache_bytes), policy ? "; prefetch " : "",
             policy ? policy : "", policy && *reason ? ", " : "", policy ? reason : "");
    for (size_t end = strlen(text); !flows(text, rows, cells->columns) && end > 0;) { // by whole clauses
        do
            end--;
        while (end > 0 && !strchr(",;:", text[end]));
        text[end] = 0;
    }
    for (const char *word = text; *word;) {
        int length = (int)strcspn(word + 1, " ") + 1; // with the space before it
        if (at.column + length > at.end) {
            if (taken == rows)
                return taken;
            at = cells_row(cells, row + taken++);
            length -= *word == ' ';
            word += *word == ' ';
        }
        cells_put(&at, word, (size_t)length, STYLE_TEXT);
        word += length;
    }
    return taken;
}

// Where the time of a step or of the turn went, the larger shares first, over as many rows as there are. Returns how
// many it took.
static int put_split(struct cells *cells, int row, int rows, const struct pane_figures *figures)
{
    const struct moe_telemetry *now = figures->now;
    struct cells_at at = cells_row(cells, row);
    bool told[MOE_INTERVALS] = {false};
    int taken = 1;
    if (!now || !now->total_ns || rows < 1)
        return 0;
    if (now == figures->turn)
        cells_print(&at, STYLE_TEXT, "turn %.2f s:", (double)now->total_ns / 1e9);
    else if (figures->under_way)
        cells_print(&at, STYLE_TEXT, "step so far %.2f s:", (double)now->total_ns / 1e9);
    else
        cells_print(&at, STYLE_TEXT, "last %s %.1f ms:", now->decode ? "token" : "step", (double)now->total_ns / 1e6);
    for (int n = 0; n < MOE_INTERVALS; n++) {
        int most = -1;
        for (int i = 0; i < MOE_INTERVALS; i++)
            if (!told[i] && now->ns[i] && (most < 0 || now->ns[i] > now->ns[most]))
                most = i;
        if (most < 0)
            break;
        told[most] = true;
        char words[48];
        int width = snprintf(words, sizeof words, " %s %s%.1f %%", figures_interval_word((enum moe_interval)most),
                             figures_is_estimate(now->shared_out, (enum moe_interval)most) ? "~" : "",
                             100 * (double)now->ns[most] / (double)now->total_ns);
        if (at.column + width > at.end) {
            if (taken == rows)
                break;
            at = cells_row(cells, row + taken++);
        }
        cells_print(&at, STYLE_TEXT, "%s", words);
    }
    return taken;
}

// Rows below the layers: turn, session, and those of the cache and the time. What a few layers leave is theirs, too.
static int foot_rows(const struct cells *cells, const struct pane_figures *figures)
{
    int rows = cells->rows, layers = figures->turn ? (int)figures->turn->n_moe_layers : 0, left = rows - 1 - layers;
    int least = rows >= 16 ? 8 : rows >= 12 ? 6 : rows >= 8 ? 4 : rows >= 5 ? 2 : rows >= 2 ? 1 : 0;
    return left > least ? left : least;
}

int pane_scroll_limit(const struct cells *cells, const struct pane_figures *figures)
{
    int layers = figures->turn ? (int)figures->turn->n_moe_layers : 0;
    int room = cells->rows - 1 - foot_rows(cells, figures);
    return layers > room ? layers - room : 0;
}

// The cache has half of the rows, and what the time leaves of the other half, which stands below it.
static void put_cache_and_split(struct cells *cells, int row, int rows, const struct pane_figures *figures)
{
    int split = put_split(cells, row, rows - rows / 2, figures); // to see how many rows it takes
    for (int i = 0; i < split; i++) {
        struct cells_at at = cells_row(cells, row + i);
        cells_fill(&at, STYLE_TEXT);
    }
    int taken = put_cache(cells, row, rows - split, figures);
    put_split(cells, row + taken, rows - taken, figures);
}

enum { SORTED_MOST = 1024 };

// The layers' places in the table, those that waited longest first; of equals the earlier.
static void sort_by_wait(const struct moe_telemetry *turn, uint16_t order[SORTED_MOST])
{
    for (uint32_t i = 0; i < turn->n_moe_layers; i++) {
        uint32_t at = i;
        for (; at && turn->layers[order[at - 1]].wait_ns < turn->layers[i].wait_ns; at--)
            order[at] = order[at - 1];
        order[at] = (uint16_t)i;
    }
}

void pane_draw(struct cells *cells, const struct pane_figures *figures)
{
    char titles[N_COLUMNS][FORMAT_SIZE];
    int foot = foot_rows(cells, figures), room = cells->rows - 1 - foot, limit = pane_scroll_limit(cells, figures);
    int first = figures->scroll < limit ? figures->scroll : limit;
    cells_clear(cells);
    if (!figures->turn) {
        struct cells_at at = cells_row(cells, 0);
        cells_print(&at, STYLE_DIM, "no experts used yet");
        return;
    }
    for (int i = 0; i < N_COLUMNS; i++)
        snprintf(titles[i], FORMAT_SIZE, "%s", table[i].title);
    uint16_t order[SORTED_MOST];
    bool sorted = figures->by_wait && figures->turn->n_moe_layers <= SORTED_MOST;
    if (sorted) {
        sort_by_wait(figures->turn, order);
        snprintf(titles[WAITED], FORMAT_SIZE, figures->ascii ? "waited v" : "waited \u2193");
    }
    put_row(cells, 0, titles, STYLE_TITLE);
    int row = 1;
    for (int i = first > 0 ? first : 0; i < (int)figures->turn->n_moe_layers && row <= room; i++, row++) {
        int left = (int)figures->turn->n_moe_layers - i;
        if (row == room && room > 1 && left > 1) {
            struct cells_at at = cells_row(cells, row++);
            cells_print(&at, STYLE_DIM, "%d more layers: %s", left, figures->zoomed ? "PgDn" : "Alt-z");
            break;
        }
        put_layer(cells, row, &figures->turn->layers[sorted ? order[i] : i]);
    }
    if (foot >= 1)
        put_tally(cells, row++, "turn", figures->totals);
    if (foot >= 2)
        put_tally(cells, row++, "since start", figures->since_start);
    if (foot > 2)
        put_cache_and_split(cells, row, foot - 2, figures);
}
