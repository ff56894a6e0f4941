// SPDX-License-Identifier: GPL-3.0-or-later
#include "heat.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "moe.h"

const char heat_glyphs[HEAT_STEPS + 1] = " .:-=+*#%@";

enum { LABEL = 5 }; // columns of a layer's number and a space

int heat_step(uint64_t uses, uint64_t most)
{
    if (uses == 0)
        return 0;
    if (uses >= most)
        return HEAT_STEPS - 1;
    return 1 + (int)((HEAT_STEPS - 2) * log((double)uses) / log((double)most));
}

// How the map is laid over the cells: each stands for `layers` x `experts`.
struct scale {
    uint32_t rows, columns, layers, experts;
};

static uint32_t parts(uint32_t whole, uint32_t part)
{
    return whole / part + (whole % part != 0);
}

static struct scale fit(const struct heat_figures *figures, int rows, int columns)
{
    struct scale scale = {.layers = parts(figures->n_layers, (uint32_t)rows),
                          .experts = parts(figures->n_experts, (uint32_t)columns)};
    scale.rows = parts(figures->n_layers, scale.layers);
    scale.columns = parts(figures->n_experts, scale.experts);
    return scale;
}

static uint64_t sum(const struct heat_figures *figures, const struct scale *scale, uint32_t row, uint32_t column)
{
    uint64_t uses = 0;
    for (uint32_t layer = row * scale->layers; layer < (row + 1) * scale->layers && layer < figures->n_layers; layer++)
        for (uint32_t expert = column * scale->experts;
             expert < (column + 1) * scale->experts && expert < figures->n_experts; expert++)
            uses += figures->uses[(size_t)layer * figures->n_experts + expert];
    return uses;
}

// Where the last token had this expert from, as a letter; 0: it did not choose it.
static char choice_mark(const struct heat_figures *figures, uint32_t layer, uint32_t expert)
{
    static const char letters[MOE_ORIGINS] = {'d', 'h', 'p', 'l', 'r'};
    for (uint32_t i = 0; i < figures->top_k; i++) {
        const struct moe_choice *choice = &figures->choices[(size_t)layer * figures->top_k + i];
        if (choice->expert == expert && choice->origin < MOE_ORIGINS)
            return letters[choice->origin];
    }
    return 0;
}

static uint64_t most_used(const struct heat_figures *figures, const struct scale *scale)
{
    uint64_t most = 0;
    for (uint32_t row = 0; row < scale->rows; row++)
        for (uint32_t column = 0; column < scale->columns; column++) {
            uint64_t uses = sum(figures, scale, row, column);
            most = uses > most ? uses : most;
        }
    return most;
}

static void draw_map(struct cells *cells, const struct heat_figures *figures, const struct scale *scale, uint64_t most)
{
    bool single = scale->layers == 1 && scale->experts == 1, marks = figures->marks && figures->choices && single;
    for (uint32_t row = 0; row < scale->rows; row++) {
        struct cells_at at = cells_row(cells, 1 + (int)row);
        cells_print(&at, STYLE_DIM, "%*" PRIu32 " ", LABEL - 1, figures->first_layer + row * scale->layers);
        for (uint32_t column = 0; column < scale->columns; column++) {
            int step = heat_step(sum(figures, scale, row, column), most);
            char mark = marks ? choice_mark(figures, row, column) : 0;
            cells_put(&at, mark ? &mark : &heat_glyphs[step], 1, mark ? STYLE_BOLD : STYLE_HEAT_0 + (unsigned)step);
        }
    }
}

static void draw_title(struct cells *cells, const struct heat_figures *figures, const struct scale *scale,
                       uint64_t most)
{
    struct cells_at at = cells_row(cells, 0);
    if (figures->marks && figures->choices && scale->layers == 1 && scale->experts == 1)
        cells_print(&at, STYLE_TITLE, "now: d device h host p prefetched l late r read");
    else if (scale->layers == 1 && scale->experts == 1)
        cells_print(&at, STYLE_TITLE, "uses in this turn: layers down, experts across");
    else
        cells_print(&at, STYLE_TITLE, "uses in this turn: a mark is %" PRIu32 " layer%s x %" PRIu32 " expert%s",
                    scale->layers, scale->layers == 1 ? "" : "s", scale->experts, scale->experts == 1 ? "" : "s");
    at = cells_row(cells, cells->rows - 1);
    cells_print(&at, STYLE_DIM, "never ");
    for (unsigned step = 0; step < HEAT_STEPS; step++)
        cells_put(&at, &heat_glyphs[step], 1, STYLE_HEAT_0 + step);
    cells_print(&at, STYLE_DIM, " most, %" PRIu64 " times", most);
}

void heat_draw(struct cells *cells, const struct heat_figures *figures)
{
    cells_clear(cells);
    int rows = cells->rows - 2, columns = cells->columns - LABEL;
    if (!figures->uses || figures->n_layers == 0 || figures->n_experts == 0) {
        struct cells_at at = cells_row(cells, 0);
        cells_print(&at, STYLE_DIM, "no experts were used in this turn yet");
        return;
    }
    if (rows < 1 || columns < 1)
        return;
    struct scale scale = fit(figures, rows, columns);
    uint64_t most = most_used(figures, &scale);
    draw_title(cells, figures, &scale, most);
    draw_map(cells, figures, &scale, most);
}
