// SPDX-License-Identifier: GPL-3.0-or-later
// Draws the heat map.
#include "app/view/heat.h"

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
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

// How the map is laid over the cells: each stands for `layers` x `experts`; where that is one, a layer takes `wraps`
// rows.
struct scale {
    uint32_t rows, columns, layers, experts, wraps;
    uint32_t first; // row of the map that is seen first
};

static uint32_t parts(uint32_t whole, uint32_t part)
{
    return whole / part + (whole % part != 0);
}

static struct scale fit(const struct heat_figures *figures, int rows, int columns)
{
    uint32_t wraps = parts(figures->n_experts, (uint32_t)columns), all = figures->n_layers * wraps;
    if (figures->each || all <= (uint32_t)rows) {
        uint32_t limit = all > (uint32_t)rows ? all - (uint32_t)rows : 0, wish = (uint32_t)figures->scroll;
        return (struct scale){.rows = all - limit,
                              .columns = parts(figures->n_experts, wraps),
                              .layers = 1,
                              .experts = 1,
                              .wraps = wraps,
                              .first = wish < limit ? wish : limit};
    }
    struct scale scale = {.layers = parts(figures->n_layers, (uint32_t)rows),
                          .experts = parts(figures->n_experts, (uint32_t)columns),
                          .wraps = 1};
    scale.rows = parts(figures->n_layers, scale.layers);
    scale.columns = parts(figures->n_experts, scale.experts);
    return scale;
}

static bool is_single(const struct scale *scale)
{
    return scale->layers == 1 && scale->experts == 1;
}

// The experts of a mark: layers and experts from these, before those.
struct span {
    uint32_t layer, layer_end, expert, expert_end;
};

static struct span span_of(const struct heat_figures *figures, const struct scale *scale, uint32_t row, uint32_t column)
{
    uint32_t at = scale->first + row, wrapped = at % scale->wraps * scale->columns + column;
    struct span span = {.layer = at / scale->wraps * scale->layers, .expert = wrapped * scale->experts};
    span.layer_end = span.layer + scale->layers < figures->n_layers ? span.layer + scale->layers : figures->n_layers;
    span.expert_end =
        span.expert + scale->experts < figures->n_experts ? span.expert + scale->experts : figures->n_experts;
    return span;
}

struct mark {
    enum moe_tier tier;
    int level;
};

// What share of several experts is in memory, in quarters; and in which kind of memory, by the most of them.
static struct mark share(const struct heat_figures *figures, const struct span *span)
{
    uint32_t in[MOE_TIERS] = {0}, used = 0, n = 0;
    for (uint32_t layer = span->layer; layer < span->layer_end; layer++)
        for (uint32_t expert = span->expert; expert < span->expert_end; expert++, n++) {
            size_t i = (size_t)layer * figures->n_experts + expert;
            in[figures->tiers[i]]++;
            used += figures->uses[i] > 0;
        }
    uint32_t there = in[MOE_TIER_HOST] + in[MOE_TIER_DEVICE];
    if (!there)
        return (struct mark){MOE_TIER_DISK, used > 0};
    enum moe_tier tier = in[MOE_TIER_DEVICE] >= in[MOE_TIER_HOST] ? MOE_TIER_DEVICE : MOE_TIER_HOST;
    return (struct mark){tier, (int)((4 * there - 1) / n)};
}

static struct mark mark_of(const struct heat_figures *figures, const struct scale *scale, const struct span *span,
                           uint64_t most)
{
    if (!is_single(scale))
        return share(figures, span);
    size_t i = (size_t)span->layer * figures->n_experts + span->expert;
    return (struct mark){(enum moe_tier)figures->tiers[i], heat_level(figures->uses[i], most)};
}

// Where the last token had one of these from, the slowest, as a letter; 0: it chose none of them.
static char choice_mark(const struct heat_figures *figures, const struct span *span)
{
    static const char letters[MOE_ORIGINS] = {'d', 'h', 'p', 'l', 'r'};
    int slowest = -1;
    for (uint32_t layer = span->layer; figures->choices && layer < span->layer_end; layer++)
        for (uint32_t i = 0; i < figures->top_k; i++) {
            const struct moe_choice *choice = &figures->choices[(size_t)layer * figures->top_k + i];
            bool is_here = choice->expert >= span->expert && choice->expert < span->expert_end;
            if (is_here && choice->origin < MOE_ORIGINS && choice->origin > slowest)
                slowest = choice->origin;
        }
    return slowest < 0 ? 0 : letters[slowest];
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
        struct span span = span_of(figures, scale, row, 0);
        if (span.expert == 0 || row == 0)
            cells_print(&at, STYLE_DIM, "%*" PRIu32 " ", LABEL - 1, figures->first_layer + span.layer);
        else
            cells_print(&at, STYLE_DIM, "%*s", LABEL, "");
        for (uint32_t column = 0; column < scale->columns; column++) {
            span = span_of(figures, scale, row, column);
            if (span.expert >= figures->n_experts)
                break;
            struct mark mark = mark_of(figures, scale, &span, most);
            const char *glyph = heat_glyph(mark.tier, mark.level, figures->ascii);
            char letter = choice_mark(figures, &span);
            cells_put(&at, letter ? &letter : glyph, letter ? 1 : strlen(glyph),
                      letter ? STYLE_BOLD : styles[mark.tier]);
        }
    }
}

// Appends, whole or not at all.
__attribute__((format(printf, 2, 3))) static void add_title(struct cells_at *at, const char *format, ...)
{
    char text[96];
    va_list arguments;
    va_start(arguments, format);
    int width = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (width <= at->end - at->column)
        cells_print(at, STYLE_TITLE, "%s", text);
}

static void draw_title(struct cells *cells, const struct heat_figures *figures, const struct scale *scale)
{
    struct cells_at at = cells_row(cells, 0);
    uint32_t shown = parts(scale->rows, scale->wraps), first = scale->first / scale->wraps;
    if (figures->choices)
        add_title(&at, cells->columns < 48 ? "d device h host p ahead l late r read"
                                           : "last: d device h host p prefetched l late r read");
    else if (is_single(scale))
        add_title(&at, cells->columns < 46 ? "uses in this turn" : "uses in this turn: layers down, experts across");
    if (!is_single(scale)) {
        add_title(&at, "%seach mark: %" PRIu32 " layer%s x %" PRIu32 " expert%s", figures->choices ? "; " : "",
                  scale->layers, scale->layers == 1 ? "" : "s", scale->experts, scale->experts == 1 ? "" : "s");
        add_title(&at, "%s", figures->zooms ? "; Alt-z shows each" : "");
    } else if (shown < figures->n_layers) {
        add_title(&at, "; from layer %" PRIu32 ", PgUp and PgDn", figures->first_layer + first);
    }
}

// Of a folded map: "in memory: c to 25 o 50 O 75 @ 100 % . none". Returns its columns.
static void put_shares(struct cells *cells, int row, const struct heat_figures *figures)
{
    static const char *const words[HEAT_LEVELS] = {" to 25", " 50", " 75", " 100 %"};
    bool host = false;
    for (size_t i = 0; i < (size_t)figures->n_layers * figures->n_experts && !host; i++)
        host = figures->tiers[i] == MOE_TIER_HOST;
    struct cells_at at = cells_row(cells, row);
    cells_print(&at, STYLE_DIM, "%s", cells->columns < (host ? 47 : 43) ? "" : "in memory:");
    for (int level = 0; level < HEAT_LEVELS; level++) {
        cells_print(&at, STYLE_DIM, " ");
        for (enum moe_tier tier = MOE_TIER_DEVICE; tier >= (host ? MOE_TIER_HOST : MOE_TIER_DEVICE); tier--) {
            const char *glyph = heat_glyph(tier, level, figures->ascii);
            cells_put(&at, glyph, strlen(glyph), styles[tier]);
        }
        cells_print(&at, STYLE_DIM, "%s", words[level]);
    }
    const char *dot = heat_glyph(MOE_TIER_DISK, 1, figures->ascii);
    cells_print(&at, STYLE_DIM, " ");
    cells_put(&at, dot, strlen(dot), styles[MOE_TIER_DISK]);
    cells_print(&at, STYLE_DIM, " none");
}

enum { PLACES = 45 }; // columns of put_places where there is room for them

// "disk only  .:!  host memory _-=#  device coO@"
static void put_places(struct cells_at *at, bool ascii)
{
    static const char *const few[MOE_TIERS] = {"disk ", " host ", " device "};
    static const char *const words[MOE_TIERS] = {"disk only ", "  host memory ", "  device "};
    bool narrow = at->end - at->column < PLACES;
    for (int tier = MOE_TIER_DISK; tier < MOE_TIERS; tier++) {
        cells_print(at, STYLE_DIM, "%s", narrow ? few[tier] : words[tier]);
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

// Rows below the map.
static int legend_rows(const struct cells *cells, int width)
{
    return PLACES + 2 + width <= cells->columns || cells->rows < 6 ? 1 : 2;
}

// Over so many rows; where one is too few for all, what the uses are goes.
static void draw_legend(struct cells *cells, const struct heat_figures *figures, uint64_t most, int rows)
{
    char uses[128];
    int wanted = legend_rows(cells, put_uses(uses, sizeof uses, most));
    struct cells_at at = cells_row(cells, cells->rows - rows);
    put_places(&at, figures->ascii);
    if (rows < wanted)
        return;
    if (rows > 1)
        at = cells_row(cells, cells->rows - 1);
    cells_print(&at, STYLE_DIM, "%s%s", rows == 1 ? "  " : "", uses);
}

// Where all experts are, while none of them was used.
static int put_unused(char *text, size_t size, const uint64_t all[MOE_TIERS], int columns)
{
    uint64_t memory = all[MOE_TIER_HOST] + all[MOE_TIER_DEVICE];
    int width = snprintf(text, size,
                         "no uses yet; of %" PRIu64 " experts %" PRIu64 " are on disk only, %" PRIu64
                         " in host memory, %" PRIu64 " on the device",
                         all[MOE_TIER_DISK] + memory, all[MOE_TIER_DISK], all[MOE_TIER_HOST], all[MOE_TIER_DEVICE]);
    if (width > columns)
        width = snprintf(text, size, "no uses; %" PRIu64 " disk only, %" PRIu64 " host, %" PRIu64 " device",
                         all[MOE_TIER_DISK], all[MOE_TIER_HOST], all[MOE_TIER_DEVICE]);
    return width > columns ? snprintf(text, size, "no uses; %" PRIu64 " in memory", memory) : width;
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
    if (!sum)
        width = put_unused(text, sizeof text, all, cells->columns);
    else if (width > cells->columns)
        snprintf(text, sizeof text, "%" PRIu64 " used: %" PRIu64 " disk only, %" PRIu64 " host, %" PRIu64 " device",
                 sum, used[MOE_TIER_DISK], used[MOE_TIER_HOST], used[MOE_TIER_DEVICE]);
    if (sum && (int)strlen(text) > cells->columns)
        snprintf(text, sizeof text, "%" PRIu64 " used: %" PRIu64 " in memory", sum,
                 used[MOE_TIER_HOST] + used[MOE_TIER_DEVICE]);
    struct cells_at at = cells_row(cells, row);
    cells_print(&at, STYLE_DIM, "%s", text);
}

// Rows for the map itself, below the title and above the legend: a folded one has a legend of its own, of a row.
static struct scale lay(const struct cells *cells, const struct heat_figures *figures, uint64_t most)
{
    char uses[128];
    int legend = legend_rows(cells, put_uses(uses, sizeof uses, most));
    struct scale scale = fit(figures, cells->rows - 1 - legend, cells->columns - LABEL);
    return is_single(&scale) || legend == 1 ? scale : fit(figures, cells->rows - 2, cells->columns - LABEL);
}

static bool has_room(const struct cells *cells, const struct heat_figures *figures)
{
    return figures->uses && figures->n_layers && figures->n_experts && cells->rows >= 3 && cells->columns > LABEL;
}

int heat_scroll_limit(const struct cells *cells, const struct heat_figures *figures)
{
    if (!has_room(cells, figures))
        return 0;
    struct heat_figures at_end = *figures;
    at_end.scroll = INT_MAX;
    return (int)lay(cells, &at_end, count(figures).most).first;
}

int heat_columns(const struct heat_figures *figures)
{
    return LABEL + (int)figures->n_experts;
}

void heat_draw(struct cells *cells, const struct heat_figures *figures)
{
    cells_clear(cells);
    if (!figures->uses || figures->n_layers == 0 || figures->n_experts == 0) {
        struct cells_at at = cells_row(cells, 0);
        cells_print(&at, STYLE_DIM, "no experts used in this turn yet");
        return;
    }
    if (!has_room(cells, figures))
        return;
    struct totals totals = count(figures);
    struct scale scale = lay(cells, figures, totals.most);
    draw_title(cells, figures, &scale);
    draw_map(cells, figures, &scale, totals.most);
    int legend = cells->rows - 1;
    if (is_single(&scale)) {
        char uses[128];
        int rows = legend_rows(cells, put_uses(uses, sizeof uses, totals.most));
        int left = cells->rows - 1 - (int)scale.rows; // lay had one row for a legend, where it could not have two
        rows = left < rows && left >= 1 ? left : rows;
        legend = cells->rows - rows;
        draw_legend(cells, figures, totals.most, rows);
    } else {
        put_shares(cells, legend, figures);
    }
    if (1 + (int)scale.rows < legend)
        draw_totals(cells, legend - 1, &totals);
}
