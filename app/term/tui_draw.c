// SPDX-License-Identifier: GPL-3.0-or-later
// The screen as cells, from the model each time.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/util/format.h"
#include "app/view/heat.h"
#include "app/view/pane.h"
#include "app/util/progress.h"
#include "app/util/sanitize.h"
#include "app/term/term.h"
#include "app/term/tui_parts.h"

// Text of anyone's, one line of it.
static void put_safe(struct cells_at *at, const char *text, size_t length, enum style style)
{
    struct sanitize state = {0};
    char out[SANITIZE_ROOM(64)];
    for (size_t i = 0, part; i < length; i += part) {
        part = length - i < 64 ? length - i : 64;
        size_t size = sanitize_push(&state, text + i, part, out);
        for (size_t c = 0; c < size; c++)
            if (out[c] == '\n' || out[c] == '\t')
                out[c] = ' ';
        if (!cells_put(at, out, size, style))
            return;
    }
    cells_put(at, out, sanitize_flush(&state, out), style);
}

static int queue_rows(const struct tui *tui)
{
    return tui->n_queue < TUI_QUEUE_ROWS ? (int)tui->n_queue : TUI_QUEUE_ROWS;
}

static size_t word_columns(const struct tui *tui, int columns, int *width)
{
    *width = 1;
    for (size_t i = 0; i < tui->n_words; i++) {
        int this = cells_width(tui->words[i], strlen(tui->words[i])) + 2;
        *width = this > *width ? this : *width;
    }
    *width = *width < columns ? *width : columns;
    return *width > 0 ? (size_t)(columns / *width) : 1;
}

static int words_rows(const struct tui *tui, int columns)
{
    int width;
    if (!tui->n_words)
        return 0;
    size_t across = word_columns(tui, columns, &width), rows = (tui->n_words + across - 1) / across;
    return rows < 10 ? (int)rows : 10;
}

// What the keys do once something was found, the most of it for which there are the columns.
static const char *found_words(const struct tui *tui, int columns)
{
    const char *const words[] = {tui->search_back ? "found: n earlier, N later, Esc ends "
                                                  : "found: n later, N earlier, Esc ends ",
                                 "found: n, N, Esc ", "found: "};
    size_t i = 0;
    while (i + 1 < sizeof words / sizeof *words && cells_width(words[i], strlen(words[i])) > columns)
        i++;
    return words[i];
}

// Cut at its beginning, as a search's words stand at its end; one that has no room is left out.
static void fit_label(struct tui *tui, int columns)
{
    const char *mark = tui->ascii ? "<" : "\u2026";
    char *label = tui->label;
    size_t length = strlen(label), marked = strlen(mark), cut = 0;
    while (cut < length && cells_width(label + cut, length - cut) + (cut ? 1 : 0) > columns)
        cut += cells_glyph(label + cut, length - cut).bytes;
    if (!cut || cut == length || marked + length - cut >= sizeof tui->label)
        return;
    memmove(label + marked, label + cut, length - cut + 1);
    memcpy(label, mark, marked);
}

// The draft's label: what readline or the search wants to say, else the mark of a message.
static void update_draft(struct tui *tui, int columns)
{
    char *label = tui->label;
    size_t size = sizeof tui->label;
    struct prompt_draft line = prompt_draft();
    struct sanitize state = {0};
    int room = columns / 2 - 1; // draft.h: a wider label is left out
    if (tui->mode != MODE_WRITE)
        snprintf(label, size, "%s", tui->mode == MODE_SEARCH ? "search: " : found_words(tui, room));
    else if (*line.label && strlen(line.label) < size / 4)
        label[sanitize_push(&state, line.label, strlen(line.label), label)] = 0;
    else {
        size_t mode = strlen(line.mode) < size / 4 ? sanitize_push(&state, line.mode, strlen(line.mode), label) : 0;
        snprintf(label + mode, size - mode, "> ");
    }
    fit_label(tui, room);
    tui->draft.label = label;
    tui->draft.columns = columns > 0 ? columns : 1;
    draft_update(&tui->draft, line.text, line.length, line.point);
}

static void resize_view(struct tui *tui)
{
    const struct rectangle *chat = &tui->layout.chat;
    transcript_resize(tui->chat, chat->rows, chat->columns);
    transcript_resize(tui->help, chat->rows, chat->columns);
}

void tui_arrange(struct tui *tui)
{
    int rows = screen_rows(tui->screen), columns = screen_columns(tui->screen);
    struct layout_wishes wishes = {
        .stats = tui->stats,
        .input_rows = (int)(tui->draft.n_rows < 1000 ? tui->draft.n_rows : 1000) + queue_rows(tui),
        .popup_rows = words_rows(tui, columns),
        .status = tui->progress.total || tui->stopping || *tui->notice || tui->help_open || tui->mode == MODE_FOUND,
        .zoom = tui->zoom};
    if (tui->figures.last)
        wishes.heat_columns = heat_columns(&(struct heat_figures){.n_experts = tui->figures.last->n_routed_experts});
    if (wishes.input_rows < 1)
        wishes.input_rows = 1;
    struct layout before = tui->layout;
    tui->layout = layout_of(rows, columns, &wishes);
    if (memcmp(&before.chat, &tui->layout.chat, sizeof before.chat) != 0)
        resize_view(tui);
}

void tui_show_stats(struct tui *tui, enum stats_view view)
{
    tui->stats = view;
    tui_arrange(tui);
    if ((view == STATS_PANE || view == STATS_HEAT) && !tui->layout.stats.rows)
        tui_notice(tui, "no room: Alt-z for the %s", view == STATS_HEAT ? "heat map" : "figures");
    tui->notice_of_room = *tui->notice && !tui->layout.stats.rows;
}

void tui_resized(struct tui *tui)
{
    bool had = tui->layout.stats.rows > 0;
    tui_arrange(tui);
    if (had && !tui->layout.stats.rows)
        tui_show_stats(tui, tui->stats);
    else if (tui->notice_of_room && tui->layout.stats.rows)
        *tui->notice = 0; // it was about the size before
}

// A pane has cells of its own, which are put in their place.
static void place(struct tui *tui, const struct rectangle *at)
{
    for (int row = 0; row < at->rows && row < tui->part.rows; row++)
        memcpy(&tui->cells.cells[(size_t)(at->row + row) * (size_t)tui->cells.columns + (size_t)at->column],
               &tui->part.cells[(size_t)row * (size_t)tui->part.columns],
               (size_t)tui->part.columns * sizeof *tui->part.cells);
}

static void draw_chat(struct tui *tui)
{
    const struct rectangle *at = &tui->layout.chat;
    if (at->rows <= 0 || at->columns <= 0 || !cells_resize(&tui->part, at->rows, at->columns))
        return;
    transcript_draw(tui_view(tui), &tui->part);
    place(tui, at);
}

static void draw_words(struct tui *tui)
{
    const struct rectangle *popup = &tui->layout.popup;
    int width;
    if (popup->rows <= 0)
        return;
    size_t across = word_columns(tui, popup->columns, &width), shown = 0;
    for (int row = 0; row < popup->rows; row++) {
        struct cells_at at = cells_row(&tui->cells, popup->row + row);
        at.column = popup->column;
        for (size_t i = 0; i < across && shown < tui->n_words; i++, shown++) {
            int begin = at.column;
            if (row == popup->rows - 1 && i + 1 == across && shown + 1 < tui->n_words) {
                cells_print(&at, STYLE_DIM, "%zu more", tui->n_words - shown);
                shown = tui->n_words;
                break;
            }
            put_safe(&at, tui->words[shown], strlen(tui->words[shown]), STYLE_BOLD);
            while (at.column < begin + width && cells_put(&at, " ", 1, STYLE_TEXT)) {
            }
        }
        cells_fill(&at, STYLE_TEXT);
    }
}

static enum doing doing(const struct tui *tui)
{
    const struct talk *talk = &tui->talk;
    if (talk->state == TALK_LOADING)
        return DOING_LOADING;
    if (talk->state == TALK_BUSY || talk->state == TALK_LEAVING)
        return DOING_SAVING;
    if (talk->state == TALK_IDLE)
        return DOING_IDLE;
    if (tui->stopping)
        return DOING_STOPPING;
    return !talk->begun ? DOING_READING : tui->thinking ? DOING_THINKING : DOING_ANSWERING;
}

// Tokens a second of the last second of answering, kept while less has come since.
static void update_speed(struct tui *tui, const struct tally *now)
{
    struct tally since = {.answer_steps = now->answer_steps - tui->speed_from.answer_steps,
                          .answer_ns = now->answer_ns - tui->speed_from.answer_ns};
    bool enough = since.answer_ns >= 1000000000u;
    if (tui->speed_known && !enough)
        return;
    tui->tokens_now = tally_answer_speed(&since);
    tui->speed_known = enough;
    if (enough)
        tui->speed_from = *now;
}

// Of the turn under way; NULL: there was none yet.
static const struct moe_telemetry *last_step(const struct figures *figures)
{
    return figures->last_is_now ? figures->last : NULL;
}

static void take_figures(struct tui *tui, struct status_figures *figures)
{
    struct talk *talk = &tui->talk;
    bool answering = talk->state == TALK_ANSWERING, known = worker_figures(talk->worker, &tui->figures);
    const struct tally none = {.policy = tui->figures.tallies[FIGURES_PROGRAM].policy};
    const struct tally *turn = &tui->figures.tallies[FIGURES_TURN];
    bool left = !answering && talk_left_figures(talk);
    turn = left || !turn->policy ? &none : turn;
    known = known && !left;
    const struct moe_telemetry *of = answering ? last_step(&tui->figures) : tui->figures.sums[FIGURES_TURN];
    status_take(figures, known ? of : NULL, turn);
    if (left) // none is told, which is not that there were none
        figures->prefetch_used = figures->prefetch_wasted = -1;
    figures->context_total = talk->state == TALK_LOADING ? -1 : (int64_t)talk->info.max_context;
    figures->context_used = talk_context_used(talk, &tui->figures);
    figures->tokens_now = -1;
    if (answering && turn->answer_steps) {
        update_speed(tui, turn);
        figures->tokens_now = tui->tokens_now;
    }
}

static void draw_rule(struct tui *tui)
{
    const struct rectangle *chat = &tui->layout.chat, *stats = &tui->layout.stats;
    if (!tui->layout.rule)
        return;
    bool beside = stats->column > 0;
    for (int i = 0; i < (beside ? stats->rows : stats->columns); i++) {
        struct cells_at at = cells_row(&tui->cells, beside ? stats->row + i : chat->row + chat->rows);
        at.column = beside ? stats->column - 1 : stats->column + i;
        if (tui->ascii)
            cells_put(&at, beside ? "|" : "-", 1, STYLE_DIM);
        else
            cells_put(&at, beside ? "\u2502" : "\u2500", 3, STYLE_DIM);
    }
}

static void draw_stats(struct tui *tui)
{
    const struct rectangle *at = &tui->layout.stats;
    const struct figures *figures = &tui->figures;
    if (at->rows <= 0 || at->columns <= 0 || !cells_resize(&tui->part, at->rows, at->columns))
        return;
    const struct moe_telemetry *last = figures->last;
    if (tui->stats == STATS_HEAT) {
        struct heat_figures heat = {.uses = figures->heat, .tiers = figures->tiers, .ascii = tui->ascii};
        heat.zooms = !tui->zoom;
        heat.each = tui->zoom;
        heat.scroll = tui->stats_top;
        if (last) {
            heat.n_layers = last->n_moe_layers;
            heat.n_experts = last->n_routed_experts;
            heat.first_layer = last->first_moe_layer;
            heat.choices = tui->talk.state == TALK_ANSWERING && last_step(figures) ? last->choices : NULL;
            heat.top_k = last->top_k;
        }
        int limit = heat_scroll_limit(&tui->part, &heat);
        heat.scroll = tui->stats_top = tui->stats_top < limit ? tui->stats_top : limit;
        heat_draw(&tui->part, &heat);
    } else {
        const struct moe_cache_plan *plan = &tui->talk.info.cache;
        const struct moe_telemetry *turn = figures->sums[FIGURES_TURN];
        struct pane_figures pane = {.now = tui->talk.state == TALK_ANSWERING ? last_step(figures) : turn,
                                    .under_way = figures->last_is_under_way,
                                    .turn = turn,
                                    .totals = &figures->tallies[FIGURES_TURN],
                                    .since_start = &figures->tallies[FIGURES_PROGRAM],
                                    .cache_used_bytes = figures_on_device(figures) * plan->slot_bytes,
                                    .cache_bytes = plan->cache_bytes,
                                    .row_bytes = talk_context_used(&tui->talk, figures) * tui->talk.info.row_bytes,
                                    .state_bytes = plan->state_bytes,
                                    .by_wait = tui->by_wait,
                                    .zoomed = tui->zoom,
                                    .ascii = tui->ascii};
        int limit = pane_scroll_limit(&tui->part, &pane);
        pane.scroll = tui->stats_top = tui->stats_top < limit ? tui->stats_top : limit;
        pane_draw(&tui->part, &pane);
    }
    place(tui, at);
    draw_rule(tui);
}

static void draw_status(struct tui *tui)
{
    const struct rectangle *at = &tui->layout.status;
    char words[sizeof tui->notice] = "", model[160];
    if (at->rows <= 0)
        return;
    tui_safe(model, sizeof model, tui->talk.info.name);
    struct transcript_matches matches = transcript_matches(tui_view(tui));
    bool below = !transcript_shows_end(tui_view(tui));
    struct status_figures figures = {.doing = doing(tui),
                                     .progress = tui->progress,
                                     .model = tui->talk.state == TALK_LOADING ? NULL : model,
                                     .queued = (uint32_t)tui->n_queue,
                                     .scrolled = below,
                                     .percent = transcript_percent(tui_view(tui)),
                                     .new_rows = below ? transcript_new_rows(tui_view(tui)) : 0,
                                     .ascii = tui->ascii};
    double seconds = (double)(format_clock_ns() - tui->progress_since_ns) / 1e9;
    figures.seconds_left = -1;
    if (tui->progress.total)
        figures.seconds_left = progress_steady(&tui->eta, progress_seconds_left(&tui->progress, seconds), seconds);
    take_figures(tui, &figures);
    if (*tui->notice)
        snprintf(words, sizeof words, "%s", tui->notice);
    else if (tui->mode == MODE_FOUND)
        snprintf(words, sizeof words, "match %zu of %zu", matches.now, matches.count);
    else if (tui->help_open)
        snprintf(words, sizeof words, "%s; %s",
                 tui->page == FACE_PAGE_LOG     ? "log"
                 : tui->page == FACE_PAGE_STATS ? "stats"
                                                : "help",
                 tui->mode == MODE_SEARCH  ? "Esc ends the search"
                 : tui_slash_commands(tui) ? "q closes, Space and b page, / begins a command"
                                           : "q closes, Space and b page, / searches");
    figures.notice = *words ? words : NULL;
    struct cells_at row = cells_row(&tui->cells, at->row);
    status_draw(row, &figures);
}

static void draw_queue(struct tui *tui, int row)
{
    for (int i = 0; i < queue_rows(tui); i++) {
        struct cells_at at = cells_row(&tui->cells, row + i);
        if (i + 1 == TUI_QUEUE_ROWS && tui->n_queue > TUI_QUEUE_ROWS) {
            cells_print(&at, STYLE_DIM, "queued: %zu more%s", tui->n_queue - (size_t)i,
                        tui->n_queue == TUI_QUEUE ? ", and room for no others" : "");
        } else {
            cells_print(&at, STYLE_DIM, "queued: ");
            put_safe(&at, tui->queue[i].data, tui->queue[i].length, STYLE_NOTICE);
        }
        cells_fill(&at, STYLE_TEXT);
    }
}

static struct screen_cursor draw_input(struct tui *tui)
{
    const struct rectangle *at = &tui->layout.input;
    int queued = queue_rows(tui) < at->rows ? queue_rows(tui) : at->rows - 1;
    size_t rows = (size_t)(at->rows - queued);
    struct draft *draft = &tui->draft;
    if (tui->draft_top + rows > draft->n_rows)
        tui->draft_top = draft->n_rows > rows ? draft->n_rows - rows : 0;
    if (draft->cursor_row < tui->draft_top)
        tui->draft_top = draft->cursor_row;
    if (draft->cursor_row >= tui->draft_top + rows)
        tui->draft_top = draft->cursor_row - rows + 1;
    if (queued > 0)
        draw_queue(tui, at->row);
    draft_draw(draft, &(struct draft_place){.cells = &tui->cells,
                                            .row = at->row + queued,
                                            .rows = (int)rows,
                                            .first = tui->draft_top,
                                            .style = STYLE_TEXT,
                                            .label_style = STYLE_USER});
    bool fresh = strcmp(tui->label, "> ") == 0 && !draft->length && !chat_exchanges(&tui->talk.chat) && !tui->n_queue;
    if (fresh && at->rows > queued) {
        struct cells_at hint = cells_row(&tui->cells, at->row + queued);
        hint.column = draft->indent;
        cells_print(&hint, STYLE_DIM, "Send a message (/help for help)");
    }
    int column = draft->indent + draft->cursor_column;
    return (struct screen_cursor){.row = at->row + queued + (int)(draft->cursor_row - tui->draft_top),
                                  .column = column < tui->cells.columns ? column : tui->cells.columns - 1};
}

void tui_draw(struct tui *tui)
{
    tui->dirty = false;
    tui->drawn_ms = term_clock_ms();
    if (!tui->screen || !cells_resize(&tui->cells, screen_rows(tui->screen), screen_columns(tui->screen)))
        return;
    update_draft(tui, tui->cells.columns);
    tui_arrange(tui);
    draw_chat(tui);
    draw_status(tui);
    draw_stats(tui);
    draw_words(tui);
    struct screen_cursor cursor = draw_input(tui);
    screen_draw(tui->screen, &tui->cells, cursor);
}
