// SPDX-License-Identifier: GPL-3.0-or-later
#include "pane.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "figures.h"
#include "format.h"
#include "moe.h"

// The table's columns as they stand; the rank says which are left out first when there is no room (the highest).
enum column { LAYER, HITS, MISSED, AHEAD, WASTED, READ, WAITED, N_COLUMNS };
static const struct {
    const char *title;
    int width, rank;
} table[N_COLUMNS] = {
    [LAYER] = {"layer", 8, 0},   [HITS] = {"hits", 8, 1}, [MISSED] = {"missed", 8, 2}, [AHEAD] = {"ahead", 7, 5},
    [WASTED] = {"wasted", 7, 6}, [READ] = {"read", 9, 3}, [WAITED] = {"waited", 9, 4},
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
            cells_print(&at, style, "%*s", table[i].width, values[i]);
    }
}

static void put_record(struct cells *cells, int row, const char *name, const struct moe_layer_record *record)
{
    const uint32_t *from = record->n_from;
    char values[N_COLUMNS][FORMAT_SIZE];
    snprintf(values[LAYER], FORMAT_SIZE, "%s", name);
    snprintf(values[HITS], FORMAT_SIZE, "%" PRIu64, (uint64_t)from[MOE_FROM_DEVICE] + from[MOE_FROM_HOST]);
    snprintf(values[MISSED], FORMAT_SIZE, "%" PRIu64, (uint64_t)from[MOE_FROM_DISK] + from[MOE_FROM_LATE]);
    snprintf(values[AHEAD], FORMAT_SIZE, "%" PRIu32, from[MOE_FROM_PREFETCH]);
    snprintf(values[WASTED], FORMAT_SIZE, "%" PRIu32, record->wasted);
    format_bytes(values[READ], FORMAT_SIZE, record->bytes_disk);
    snprintf(values[WAITED], FORMAT_SIZE, "%.3f s", (double)record->wait_ns / 1e9);
    put_row(cells, row, values, STYLE_TEXT);
}

static struct moe_layer_record total(const struct moe_telemetry *sums)
{
    struct moe_layer_record all = {0};
    for (uint32_t i = 0; sums && i < sums->n_moe_layers; i++) {
        const struct moe_layer_record *layer = &sums->layers[i];
        for (int origin = 0; origin < MOE_ORIGINS; origin++)
            all.n_from[origin] += layer->n_from[origin];
        all.wasted += layer->wasted;
        all.bytes_disk += layer->bytes_disk;
        all.bytes_device += layer->bytes_device;
        all.wait_ns += layer->wait_ns;
    }
    return all;
}

// "cache 1.2 GB of 3.0 GB"
static void put_cache(struct cells *cells, int row, const struct pane_figures *figures)
{
    char used[FORMAT_SIZE], limit[FORMAT_SIZE];
    struct cells_at at = cells_row(cells, row);
    if (figures->cache_bytes)
        cells_print(&at, STYLE_TEXT, "expert cache: %s of %s used",
                    format_bytes(used, sizeof used, figures->cache_used_bytes),
                    format_bytes(limit, sizeof limit, figures->cache_bytes));
}

// Where the last token's time went, the larger shares first, over as many rows as there are.
static void put_split(struct cells *cells, int row, int rows, const struct moe_telemetry *last)
{
    struct cells_at at = cells_row(cells, row);
    bool told[MOE_INTERVALS] = {false};
    if (!last || !last->total_ns || rows < 1)
        return;
    cells_print(&at, STYLE_TEXT, "last %s %.1f ms:", last->decode ? "token" : "step", (double)last->total_ns / 1e6);
    for (int n = 0; n < MOE_INTERVALS; n++) {
        int most = -1;
        for (int i = 0; i < MOE_INTERVALS; i++)
            if (!told[i] && last->ns[i] && (most < 0 || last->ns[i] > last->ns[most]))
                most = i;
        if (most < 0)
            return;
        told[most] = true;
        char words[48];
        int width = snprintf(words, sizeof words, " %s %.1f %%", figures_interval_name((enum moe_interval)most),
                             100 * (double)last->ns[most] / (double)last->total_ns);
        if (at.column + width > at.end) {
            if (--rows < 1)
                return;
            at = cells_row(cells, ++row);
        }
        cells_print(&at, STYLE_TEXT, "%s", words);
    }
}

// Rows below the layers: turn, session, cache, and up to three for the last token.
static int foot_rows(int rows)
{
    return rows >= 12 ? 6 : rows >= 8 ? 4 : rows >= 5 ? 2 : rows >= 2 ? 1 : 0;
}

int pane_scroll_limit(const struct cells *cells, const struct pane_figures *figures)
{
    int layers = figures->turn ? (int)figures->turn->n_moe_layers : 0;
    int room = cells->rows - 1 - foot_rows(cells->rows);
    return layers > room ? layers - room : 0;
}

void pane_draw(struct cells *cells, const struct pane_figures *figures)
{
    char titles[N_COLUMNS][FORMAT_SIZE];
    int foot = foot_rows(cells->rows), room = cells->rows - 1 - foot, limit = pane_scroll_limit(cells, figures);
    int first = figures->scroll < limit ? figures->scroll : limit;
    cells_clear(cells);
    if (!figures->turn) {
        struct cells_at at = cells_row(cells, 0);
        cells_print(&at, STYLE_DIM, "no experts were used yet");
        return;
    }
    for (int i = 0; i < N_COLUMNS; i++)
        snprintf(titles[i], FORMAT_SIZE, "%s", table[i].title);
    put_row(cells, 0, titles, STYLE_TITLE);
    int row = 1;
    for (int i = first > 0 ? first : 0; i < (int)figures->turn->n_moe_layers && row <= room; i++, row++) {
        char name[FORMAT_SIZE];
        int left = (int)figures->turn->n_moe_layers - i;
        if (row == room && room > 1 && left > 1) {
            struct cells_at at = cells_row(cells, row++);
            cells_print(&at, STYLE_DIM, "%d more layers: Alt-z, then PgDn", left);
            break;
        }
        snprintf(name, sizeof name, "%" PRIu32, figures->turn->layers[i].layer);
        put_record(cells, row, name, &figures->turn->layers[i]);
    }
    struct moe_layer_record turn = total(figures->turn), session = total(figures->session);
    if (foot >= 1)
        put_record(cells, row++, "turn", &turn);
    if (foot >= 2)
        put_record(cells, row++, "session", &session);
    if (foot >= 4) {
        put_cache(cells, row, figures);
        put_split(cells, row + 1, foot - 3, figures->last);
    }
}
