// SPDX-License-Identifier: GPL-3.0-or-later
// Draws the status row, and leaves out what does not fit.
#include "app/view/status.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "app/util/format.h"
#include "app/util/progress.h"
#include "engine/moe.h"

// In the order in which they stand; the number is the order in which they go.
enum field { STATE, BAR, LEFT, READ, NEW, QUEUE, CONTEXT, SPEED, MEAN, HITS, DISK, PREFETCH, BOUND, MODEL, N_FIELDS };
static const enum field dropped_first[] = {MODEL, MEAN,    PREFETCH, BOUND, DISK,  HITS, SPEED,
                                           READ,  CONTEXT, LEFT,     BAR,   QUEUE, NEW};

struct row {
    char fields[N_FIELDS][80]; // "": left out
};

__attribute__((format(printf, 3, 4))) static void set(struct row *row, enum field field, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(row->fields[field], sizeof row->fields[field], format, arguments);
    va_end(arguments);
}

enum bound status_bound(const struct moe_telemetry *step)
{
    if (!step)
        return BOUND_NONE;
    const uint64_t *ns = step->ns;
    const uint64_t shares[] = {
        [BOUND_NONE] = 0,
        [BOUND_DISK] = ns[MOE_ON_DISK],
        [BOUND_COPY] = ns[MOE_ON_COPY],
        [BOUND_COMPUTE] = ns[MOE_ON_ATTENTION] + ns[MOE_ON_ROUTER] + ns[MOE_ON_EXPERTS] + ns[MOE_ON_HEAD],
        [BOUND_LAUNCHES] = ns[MOE_ON_HOST],
    };
    enum bound most = BOUND_NONE;
    for (enum bound i = BOUND_DISK; i <= BOUND_LAUNCHES; i++)
        if (shares[i] > shares[most])
            most = i;
    return most;
}

const char *status_bound_name(enum bound bound)
{
    static const char *const names[] = {"", "reads", "copy", "compute", "launches"};
    return names[bound];
}

void status_take(struct status_figures *figures, const struct moe_telemetry *now, const struct tally *turn)
{
    double speed = tally_answer_speed(turn);
    figures->bound = status_bound(now);
    figures->tokens_mean = speed > 0 ? speed : -1;
    figures->hits = tally_hit_share(turn);
    figures->prefetch = turn->policy && strcmp(turn->policy, "off") != 0;
    figures->prefetch_used = (int64_t)tally_used(turn);
    figures->prefetch_wasted = (int64_t)turn->wasted;
    figures->read_bytes = tally_read_a_token(turn);
    figures->cached_bytes = tally_cached_a_token(turn);
}

static void set_state(struct row *row, const struct status_figures *figures)
{
    const char *const words[] = {[DOING_LOADING] = "loading the model",
                                 [DOING_IDLE] = "idle",
                                 [DOING_READING] = "reading the prompt",
                                 [DOING_THINKING] = "thinking",
                                 [DOING_ANSWERING] = "answering",
                                 [DOING_STOPPING] = figures->ascii ? "stopping..." : "stopping\xE2\x80\xA6",
                                 [DOING_SAVING] = "saving"};
    enum { BAR_CELLS = 10 };
    const struct moe_progress *at = &figures->progress;
    uint64_t done = at->done < at->total ? at->done : at->total;
    char now[FORMAT_SIZE], end[FORMAT_SIZE], left[FORMAT_SIZE], bar[BAR_CELLS * 3 + 1] = "";
    set(row, STATE, "%s", words[figures->doing]);
    if (!at->total || !at->what)
        return;
    if (figures->doing == DOING_STOPPING)
        ; // that it was heard is what matters now
    else if (strcmp(at->unit, "bytes") == 0)
        set(row, STATE, "%.24s %s of %s", at->what, format_bytes(now, sizeof now, done),
            format_bytes(end, sizeof end, at->total));
    else
        set(row, STATE, "%.24s %" PRIu64 " of %" PRIu64 " %.12s", at->what, done, at->total, at->unit);
    double share = (double)done / (double)at->total;
    for (int i = 0; i < BAR_CELLS; i++) {
        bool full = i + 1 <= (int)(share * BAR_CELLS + 0.5);
        strcat(bar, figures->ascii ? full ? "#" : "." : full ? "\xE2\x96\x93" : "\xE2\x96\x91");
    }
    set(row, BAR, "%s %d %%", bar, (int)(100 * share));
    struct moe_progress read = *at;
    if (figures->doing == DOING_STOPPING) // no more will be
        read.bytes_left = 0;
    progress_bytes(row->fields[READ], sizeof row->fields[READ], &read);
    if (figures->seconds_left >= 0 && figures->doing != DOING_STOPPING)
        set(row, LEFT, "%s left", format_duration(left, sizeof left, figures->seconds_left));
}

static void set_figures(struct row *row, const struct status_figures *figures)
{
    char disk[FORMAT_SIZE], cached[FORMAT_SIZE], hits[FORMAT_SIZE];
    if (figures->new_rows)
        set(row, NEW, "%zu new line%s below", figures->new_rows, format_s(figures->new_rows));
    else if (figures->scrolled)
        set(row, NEW, "at %d %%", figures->percent);
    if (figures->queued)
        set(row, QUEUE, "%" PRIu32 " queued", figures->queued);
    bool reading = figures->progress.total && figures->progress.unit && strcmp(figures->progress.unit, "tokens") == 0;
    reading |= figures->doing == DOING_READING; // then progress says how far that is, and rows come by the group
    if (figures->context_used >= 0 && figures->context_total > 0 && !reading)
        set(row, CONTEXT, "context %" PRId64 " of %" PRId64, figures->context_used, figures->context_total);
    if (figures->tokens_now >= 0)
        set(row, SPEED, "now %.1f tokens/s", figures->tokens_now);
    if (figures->tokens_mean >= 0)
        set(row, MEAN, "mean %.1f%s", figures->tokens_mean, figures->tokens_now >= 0 ? "" : " tokens/s");
    if (figures->hits >= 0)
        set(row, HITS, "expert hits %s %%", format_percent(hits, sizeof hits, figures->hits, 0));
    if (figures->read_bytes >= 0) {
        format_bytes(disk, sizeof disk, (uint64_t)(figures->read_bytes - figures->cached_bytes + 0.5));
        format_bytes(cached, sizeof cached, (uint64_t)(figures->cached_bytes + 0.5));
        if (figures->cached_bytes <= 0)
            set(row, DISK, "disk %s a token", disk);
        else if (figures->cached_bytes >= figures->read_bytes)
            set(row, DISK, "page cache %s a token", cached);
        else
            set(row, DISK, "disk %s, page cache %s a token", disk, cached);
    }
    bool known = figures->prefetch_used >= 0, some = figures->prefetch_used > 0 || figures->prefetch_wasted > 0;
    if (known && (figures->prefetch || some))
        set(row, PREFETCH, "prefetch %s%" PRId64 " used, %" PRId64 " wasted", figures->prefetch ? "" : "off, ",
            figures->prefetch_used, figures->prefetch_wasted);
    else if (!figures->prefetch && figures->doing != DOING_LOADING)
        set(row, PREFETCH, "prefetch off");
    if (figures->bound != BOUND_NONE)
        set(row, BOUND, "bound by %s", status_bound_name(figures->bound));
    if (figures->model)
        set(row, MODEL, "%s", figures->model);
}

// As many bytes of a notice as fit, its last clauses left out rather than cut. 0: not even the first one fits.
static size_t notice_fitting(const char *notice, int columns)
{
    size_t length = strlen(notice);
    while (cells_width(notice, length) > columns) {
        size_t shorter = length;
        while (shorter > 0 && notice[shorter - 1] != ',' && notice[shorter - 1] != ';')
            shorter--;
        if (shorter < 2)
            return 0;
        length = shorter - 1;
    }
    return length;
}

// What is done now, and the notice behind it; instead of it where it would cut the notice's first clause.
static void put_now(struct cells_at *at, const char *state, const char *between, const char *notice)
{
    int room = at->end - at->column;
    size_t shown = notice ? notice_fitting(notice, room - 3 - cells_width(state, strlen(state))) : 0;
    if (!notice || shown)
        cells_put(at, state, strlen(state), STYLE_STATUS_NOW);
    if (!notice)
        return;
    if (shown)
        cells_put(at, between, strlen(between), STYLE_STATUS);
    else if (!(shown = notice_fitting(notice, room)))
        shown = cells_fitting(notice, strlen(notice), room);
    cells_put(at, notice, shown, STYLE_STATUS_NOW);
}

void status_draw(struct cells_at at, const struct status_figures *figures)
{
    const char *between = figures->ascii ? " | " : " \xC2\xB7 ";
    struct row row = {0};
    set_state(&row, figures);
    set_figures(&row, figures);
    int width = 1 + (figures->notice ? cells_width(figures->notice, strlen(figures->notice)) + 3 : 0);
    for (int i = 0; i < N_FIELDS; i++)
        width += *row.fields[i] ? cells_width(row.fields[i], strlen(row.fields[i])) + (i ? 3 : 0) : 0;
    for (size_t i = 0; i < sizeof dropped_first / sizeof dropped_first[0] && width > at.end - at.column; i++) {
        char *field = row.fields[dropped_first[i]];
        width -= *field ? cells_width(field, strlen(field)) + 3 : 0;
        *field = 0;
    }
    if (at.end - at.column > 1)
        cells_put(&at, " ", 1, STYLE_STATUS);
    put_now(&at, row.fields[STATE], between, figures->notice);
    for (int i = 1; i < N_FIELDS; i++)
        if (*row.fields[i])
            cells_print(&at, STYLE_STATUS, "%s%s", between, row.fields[i]);
    cells_fill(&at, STYLE_STATUS);
}
