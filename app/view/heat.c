// SPDX-License-Identifier: GPL-3.0-or-later
// Draws the heat map.
#include "app/view/heat.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LABEL = 5 }; // columns of a layer's number and a space

// Of these the screens of consoles have all, too. What is used most but has to be read each time calls for attention.
static const char *const glyphs[2][MOE_TIERS][HEAT_LEVELS] = {
    {
        [MOE_TIER_DISK] = {" ", "\u00B7", ":", "!"},
        [MOE_TIER_HOST] = {"_", "-", "=", "\u2261"},
        [MOE_TIER_DEVICE] = {"\u2591", "\u2592", "\u2593", "\u2588"},
    },
    {
        [MOE_TIER_DISK] = {" ", ".", ":", "!"},
        [MOE_TIER_HOST] = {"_", "-", "=", "#"},
        [MOE_TIER_DEVICE] = {"c", "o", "O", "@"},
    },
};
static const enum style styles[MOE_TIERS] = {
    [MOE_TIER_DISK] = STYLE_ON_DISK, [MOE_TIER_HOST] = STYLE_IN_HOST, [MOE_TIER_DEVICE] = STYLE_ON_DEVICE};

const char *heat_glyph(enum moe_tier tier, int level, bool ascii)
{
    return glyphs[ascii][tier][level];
}

// uses >= most to the power of third/3, without rounding: uses^3 >= most^third.
static bool reaches(uint64_t uses, uint64_t most, int third)
{
    double power = 1;
    for (int i = 0; i < third; i++)
        power *= (double)most;
    return (double)uses * (double)uses * (double)uses >= power;
}

int heat_level(uint64_t uses, uint64_t most)
{
    return uses == 0 ? 0 : reaches(uses, most, 2) ? 3 : reaches(uses, most, 1) ? 2 : 1;
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

static bool is_single(const struct scale *scale)
{
    return scale->layers == 1 && scale->experts == 1;
}

// The one of a mark's experts that it shows.
static size_t shown(const struct heat_figures *figures, const struct scale *scale, uint32_t row, uint32_t column)
{
    size_t best = SIZE_MAX;
    for (uint32_t layer = row * scale->layers; layer < (row + 1) * scale->layers && layer < figures->n_layers; layer++)
        for (uint32_t expert = column * scale->experts;
             expert < (column + 1) * scale->experts && expert < figures->n_experts; expert++) {
            size_t i = (size_t)layer * figures->n_experts + expert;
            if (best == SIZE_MAX || figures->uses[i] > figures->uses[best] ||
                (figures->uses[i] == figures->uses[best] && figures->tiers[i] > figures->tiers[best]))
                best = i;
        }
    return best;
}

// Where the last token had this expert from, as a letter; 0: it did not choose it.
static char choice_mark(const struct heat_figures *figures, uint32_t layer, uint32_t expert)
{
    static const char letters[MOE_ORIGINS] = {'d', 'h', 'p', 'l', 'r'};
    for (uint32_t i = 0; figures->choices && i < figures->top_k; i++) {
        const struct moe_choice *choice = &figures->choices[(size_t)layer * figures->top_k + i];
        if (choice->expert == expert && choice->origin < MOE_ORIGINS)
            return letters[choice->origin];
    }
    return 0;
}

// What there is to say of all of them.
struct totals {
    uint64_t all[MOE_TIERS], used[MOE_TIERS], most;
};

static struct totals count(const struct heat_figures *figures)
{
    struct totals totals = {0};
    for (size_t i = 0; i < (size_t)figures->n_layers * figures->n_experts; i++) {
        totals.all[figures->tiers[i]]++;
        totals.used[figures->tiers[i]] += figures->uses[i] > 0;
        totals.most = figures->uses[i] > totals.most ? figures->uses[i] : totals.most;
    }
    return totals;
}

static void draw_map(struct cells *cells, const struct heat_figures *figures, const struct scale *scale, uint64_t most)
{
    for (uint32_t row = 0; row < scale->rows; row++) {
        struct cells_at at = cells_row(cells, 1 + (int)row);
        cells_print(&at, STYLE_DIM, "%*" PRIu32 " ", LABEL - 1, figures->first_layer + row * scale->layers);
        for (uint32_t column = 0; column < scale->columns; column++) {
            size_t expert = shown(figures, scale, row, column);
            enum moe_tier tier = (enum moe_tier)figures->tiers[expert];
            const char *glyph = heat_glyph(tier, heat_level(figures->uses[expert], most), figures->ascii);
            char mark = is_single(scale) ? choice_mark(figures, row, column) : 0;
            cells_put(&at, mark ? &mark : glyph, mark ? 1 : strlen(glyph), mark ? STYLE_BOLD : styles[tier]);
        }
    }
}

static void draw_title(struct cells *cells, const struct heat_figures *figures, const struct scale *scale)
{
    struct cells_at at = cells_row(cells, 0);
    if (figures->choices && is_single(scale))
        cells_print(&at, STYLE_TITLE, "last: d device h host p prefetched l late r read");
    else if (is_single(scale))
        cells_print(&at, STYLE_TITLE, "uses in this turn: layers down, experts across");
    else
        cells_print(&at, STYLE_TITLE, "each mark: the most used of %" PRIu32 " layer%s x %" PRIu32 " expert%s",
                    scale->layers, scale->layers == 1 ? "" : "s", scale->experts, scale->experts == 1 ? "" : "s");
}

// "disk only  .:!  host memory _-=#  device coO@"
static void put_places(struct cells_at *at, bool ascii)
{
    static const char *const words[MOE_TIERS] = {"disk only ", "  host memory ", "  device "};
    for (int tier = MOE_TIER_DISK; tier < MOE_TIERS; tier++) {
        cells_put(at, words[tier], strlen(words[tier]), STYLE_DIM);
        for (int level = 0; level < HEAT_LEVELS; level++) {
            const char *glyph = heat_glyph((enum moe_tier)tier, level, ascii);
            cells_put(at, glyph, strlen(glyph), styles[tier]);
        }
    }
}

// The fewest uses of a level, at least `from`.
static uint64_t first_of(int level, uint64_t from, uint64_t most)
{
    while (from <= most && heat_level(from, most) < level)
        from++;
    return from;
}

// "never, 1, 2-3, 4-7 times": what the four glyphs of a kind stand for. Returns the length.
static int put_uses(char *out, size_t size, uint64_t most)
{
    uint64_t from = 1;
    if (most == 0)
        return snprintf(out, size, "none used yet");
    int length = snprintf(out, size, "never");
    for (int level = 1; level < HEAT_LEVELS; level++) {
        uint64_t beyond = level + 1 < HEAT_LEVELS ? first_of(level + 1, from, most) : most + 1;
        if (beyond - from == 1)
            length += snprintf(out + length, size - (size_t)length, ", %" PRIu64, from);
        else if (beyond > from)
            length += snprintf(out + length, size - (size_t)length, ", %" PRIu64 "-%" PRIu64, from, beyond - 1);
        from = beyond;
    }
    return length + snprintf(out + length, size - (size_t)length, most == 1 ? " time" : " times");
}

int heat_rows(const struct heat_figures *figures)
{
    enum { TITLE = 1, LEGEND = 2, TOTALS = 1 };
    return (int)figures->n_layers + TITLE + LEGEND + TOTALS;
}

// Below the map. Returns its rows.
static int draw_legend(struct cells *cells, const struct heat_figures *figures, uint64_t most)
{
    enum { PLACES = 45 }; // columns of put_places
    char uses[128];
    int width = put_uses(uses, sizeof uses, most);
    bool together = PLACES + 2 + width <= cells->columns || cells->rows < 6;
    int rows = together ? 1 : 2;
    struct cells_at at = cells_row(cells, cells->rows - rows);
    put_places(&at, figures->ascii);
    if (!together)
        at = cells_row(cells, cells->rows - 1);
    cells_print(&at, STYLE_DIM, "%s%s", together ? "  " : "", uses);
    return rows;
}

static void draw_totals(struct cells *cells, int row, const struct totals *totals)
{
    const uint64_t *used = totals->used, *all = totals->all;
    uint64_t sum = used[MOE_TIER_DISK] + used[MOE_TIER_HOST] + used[MOE_TIER_DEVICE];
    char text[160];
    int width = snprintf(text, sizeof text,
                         "%" PRIu64 " of %" PRIu64 " experts used: %" PRIu64 " on disk only, %" PRIu64
                         " in host memory, %" PRIu64 " on the device",
                         sum, all[MOE_TIER_DISK] + all[MOE_TIER_HOST] + all[MOE_TIER_DEVICE], used[MOE_TIER_DISK],
                         used[MOE_TIER_HOST], used[MOE_TIER_DEVICE]);
    if (width > cells->columns)
        snprintf(text, sizeof text, "%" PRIu64 " used: %" PRIu64 " disk only, %" PRIu64 " host, %" PRIu64 " device",
                 sum, used[MOE_TIER_DISK], used[MOE_TIER_HOST], used[MOE_TIER_DEVICE]);
    struct cells_at at = cells_row(cells, row);
    cells_print(&at, STYLE_DIM, "%s", text);
}

void heat_draw(struct cells *cells, const struct heat_figures *figures)
{
    cells_clear(cells);
    if (!figures->uses || figures->n_layers == 0 || figures->n_experts == 0) {
        struct cells_at at = cells_row(cells, 0);
        cells_print(&at, STYLE_DIM, "no experts used in this turn yet");
        return;
    }
    if (cells->rows < 3 || cells->columns <= LABEL)
        return;
    struct totals totals = count(figures);
    int rows = cells->rows - 1 - draw_legend(cells, figures, totals.most);
    struct scale scale = fit(figures, rows, cells->columns - LABEL);
    draw_title(cells, figures, &scale);
    draw_map(cells, figures, &scale, totals.most);
    if ((int)scale.rows < rows)
        draw_totals(cells, rows, &totals);
}
