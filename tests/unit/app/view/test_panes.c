// SPDX-License-Identifier: GPL-3.0-or-later
// The status row, the stats pane and the heat map, drawn from records made here.
#include <locale.h>

#include "tests/harness.h"
#include "app/view/heat.h"
#include "engine/moe.h"
#include "app/view/pane.h"
#include "app/view/status.h"

static const char *row_text(const struct cells *cells, int row)
{
    static char text[CELLS_TEXT_ROOM(300)];
    cells_text(cells, row, text, sizeof text);
    return text;
}

static const char *status_text(const struct status_figures *figures, int columns)
{
    static char text[CELLS_TEXT_ROOM(300)];
    struct cells cells = {0};
    cells_resize(&cells, 1, columns);
    status_draw(cells_row(&cells, 0), figures);
    cells_text(&cells, 0, text, sizeof text);
    cells_release(&cells);
    return text;
}

static const struct status_figures answering = {
    .doing = DOING_ANSWERING,
    .model = "demo",
    .context_used = 812,
    .context_total = 8192,
    .tokens_now = 7.42,
    .tokens_mean = 7.1,
    .hits = 0.834,
    .prefetch = true,
    .prefetch_used = 12,
    .prefetch_wasted = 3,
    .read_bytes = 1.25e9,
    .bound = BOUND_DISK,
    .new_rows = 5,
    .queued = 1,
    .ascii = true,
};

static void status_in_words(struct harness *t)
{
    CHECK_STR(t, status_text(&answering, 250),
              " answering | 5 new lines below | 1 queued | context 812 of 8192 | now 7.4 tokens/s | mean 7.1 | "
              "expert hits 83 % | disk 1.25 GB a token | prefetch 12 used, 3 wasted | bound by reads | demo");
    CHECK_STR(t, status_text(&answering, 84),
              " answering | 5 new lines below | 1 queued | context 812 of 8192 | now 7.4 tokens/s");
    struct status_figures slow = answering;
    slow.tokens_now = slow.tokens_mean = slow.hits = 0.04;
    CHECK(t, strstr(status_text(&slow, 250), "| now 0.0 tokens/s | mean 0.0 | expert hits 4 % |") != NULL);
    struct status_figures warm = answering;
    warm.cached_bytes = warm.read_bytes;
    CHECK(t, strstr(status_text(&warm, 250), "| page cache 1.25 GB a token |") != NULL);
    warm.cached_bytes = 1e9;
    CHECK(t, strstr(status_text(&warm, 250), "| disk 250 MB, page cache 1.00 GB a token |") != NULL);
    warm.hits = 0.997, warm.read_bytes = 99.4, warm.cached_bytes = 49.8;
    CHECK(t, strstr(status_text(&warm, 250), "| expert hits 99 % | disk 50 B, page cache 50 B a token |") != NULL);
    CHECK_STR(t, status_text(&answering, 10), " answering");
    CHECK_STR(t, status_text(&answering, 4), " ans");
    CHECK_STR(t, status_text(&answering, 1), "a");
    struct status_figures idle = {
        .doing = DOING_IDLE, .tokens_now = -1, .tokens_mean = -1, .hits = -1, .read_bytes = -1, .context_used = -1};
    CHECK_STR(t, status_text(&idle, 80), " idle \xC2\xB7 prefetch off");
    idle.prefetch_used = 7, idle.prefetch_wasted = 1; // it ended off
    CHECK_STR(t, status_text(&idle, 80), " idle \xC2\xB7 prefetch off, 7 used, 1 wasted");
    idle.prefetch_used = idle.prefetch_wasted = -1; // its turn is in the conversation no more
    CHECK_STR(t, status_text(&idle, 80), " idle \xC2\xB7 prefetch off");
    idle.prefetch = true;
    CHECK_STR(t, status_text(&idle, 80), " idle");
    idle.prefetch_used = idle.prefetch_wasted = 0;
    CHECK_STR(t, status_text(&idle, 80), " idle \xC2\xB7 prefetch 0 used, 0 wasted");
    idle.prefetch = false;
    idle.scrolled = true;
    idle.percent = 37;
    CHECK_STR(t, status_text(&idle, 80), " idle \xC2\xB7 at 37 % \xC2\xB7 prefetch off");
    idle.notice = "copied"; // the rest shares what it leaves
    CHECK_STR(t, status_text(&idle, 80), " idle \xC2\xB7 copied \xC2\xB7 at 37 % \xC2\xB7 prefetch off");
    CHECK_STR(t, status_text(&idle, 30), " idle \xC2\xB7 copied \xC2\xB7 at 37 %");
    CHECK_STR(t, status_text(&idle, 20), " idle \xC2\xB7 copied");
    struct status_figures noticed = answering;
    noticed.notice = "not found: wolf";
    CHECK_STR(t, status_text(&noticed, 80), " answering | not found: wolf | 5 new lines below | 1 queued");
    noticed.notice = "help; Space and b page, / searches, q closes"; // by whole clauses, too
    CHECK_STR(t, status_text(&noticed, 40), " answering | help; Space and b page");
    CHECK_STR(t, status_text(&noticed, 20), " answering | help");
    noticed.notice = "no room: Alt-z for the figures"; // which fits by itself only
    CHECK_STR(t, status_text(&noticed, 40), " no room: Alt-z for the figures");
    CHECK_STR(t, status_text(&noticed, 20), " no room: Alt-z for");
}

static const struct status_figures prompt_under_way = {
    .doing = DOING_READING,
    .progress = {.what = "reading prompt", .unit = "tokens", .done = 128, .total = 512},
    .seconds_left = 12,
    .tokens_now = -1,
    .tokens_mean = -1,
    .hits = -1,
    .read_bytes = -1,
    .context_used = -1,
    .ascii = true};

static void a_stop_is_heard(struct harness *t)
{
    struct status_figures stopping = prompt_under_way;
    stopping.doing = DOING_STOPPING;
    CHECK_STR(t, status_text(&stopping, 60), " stopping... | ###....... 25 % | prefetch off"); // none of what won't be
    stopping.progress.bytes_read = 1500000000;
    stopping.progress.bytes_left = 3000000000;
    CHECK_STR(t, status_text(&stopping, 100), " stopping... | ###....... 25 % | 1.50 GB read | prefetch off");
    stopping.progress.bytes_read = stopping.progress.bytes_left = 0;
    stopping.seconds_left = -1;
    CHECK_STR(t, status_text(&stopping, 30), " stopping... | ###....... 25 %");
    stopping.ascii = false;
    CHECK_STR(t, status_text(&stopping, 12), " stopping\xE2\x80\xA6");
}

static void status_progress(struct harness *t)
{
    struct status_figures reading = prompt_under_way;
    CHECK_STR(t, status_text(&reading, 80),
              " reading prompt 128 of 512 tokens | ###....... 25 % | 12 s left | prefetch off");
    reading.context_used = 512; // rows come by the group: beside tokens read they would contradict those
    reading.context_total = 4096;
    CHECK_STR(t, status_text(&reading, 120),
              " reading prompt 128 of 512 tokens | ###....... 25 % | 12 s left | prefetch off");
    reading.doing = DOING_IDLE;
    reading.progress.total = 0;
    CHECK_STR(t, status_text(&reading, 120), " idle | context 512 of 4096 | prefetch off");
    reading = prompt_under_way;
    reading.progress.bytes_read = 1500000000;
    CHECK_STR(t, status_text(&reading, 80),
              " reading prompt 128 of 512 tokens | ###....... 25 % | 12 s left | 1.50 GB read");
    CHECK_STR(t, status_text(&reading, 66), " reading prompt 128 of 512 tokens | ###....... 25 % | 12 s left");
    reading.seconds_left = 20;
    CHECK_STR(t, status_text(&reading, 66), " reading prompt 128 of 512 tokens | ###....... 25 % | 20 s left");
    reading.progress.bytes_read = 0;
    CHECK_STR(t, status_text(&reading, 55), " reading prompt 128 of 512 tokens | ###....... 25 %");
    reading.seconds_left = -1;
    CHECK_STR(t, status_text(&reading, 64), " reading prompt 128 of 512 tokens | ###....... 25 %");
    reading.progress.done = 9999;
    reading.progress.unit = "bytes";
    CHECK_STR(t, status_text(&reading, 64), " reading prompt 512 B of 512 B | ########## 100 % | prefetch off");
}

// At every width each field is there whole or not at all.
static void status_drops_whole_fields(struct harness *t)
{
    char fields[16][80], whole[512];
    int n = 0;
    strcpy(whole, status_text(&answering, 250));
    for (char *at = strtok(whole, "|"); at; at = strtok(NULL, "|"))
        snprintf(fields[n++], 80, "%.79s", at);
    CHECK_EQ(t, n, 11);
    for (int columns = 10; columns < 250; columns++) {
        char got[512];
        strcpy(got, status_text(&answering, columns));
        for (char *at = strtok(got, "|"); at; at = strtok(NULL, "|")) {
            bool known = false;
            for (int i = 0; i < n; i++)
                known |= strncmp(fields[i], at, strlen(at)) == 0 && strlen(fields[i]) <= strlen(at) + 1;
            if (!CHECK(t, known))
                printf("    \"%s\" at %d columns\n", at, columns);
        }
    }
}

enum { LAYERS = 20 };

static void make_sums(struct moe_layer_record layers[LAYERS], uint32_t times)
{
    for (uint32_t i = 0; i < LAYERS; i++)
        layers[i] = (struct moe_layer_record){.layer = i + 1,
                                              .n_from = {10 * times, 5 * times, 3 * times, times, 2 * times},
                                              .wasted = i % 2,
                                              .bytes_disk = 1000000 * times,
                                              .bytes_cached = 400000 * times,
                                              .wait_ns = 1500000000};
}

static void bound_and_shares(struct harness *t)
{
    struct moe_telemetry step = {.total_ns = 100,
                                 .ns = {[MOE_ON_DISK] = 40, [MOE_ON_EXPERTS] = 30, [MOE_ON_HEAD] = 11}};
    CHECK_EQ(t, status_bound(&step), BOUND_COMPUTE);
    step.ns[MOE_ON_DISK] = 42;
    CHECK_EQ(t, status_bound(&step), BOUND_DISK);
    step.ns[MOE_ON_HOST] = 43;
    CHECK_STR(t, status_bound_name(status_bound(&step)), "launches");
    step.ns[MOE_ON_COPY] = 44;
    CHECK_STR(t, status_bound_name(status_bound(&step)), "copy");
    CHECK_EQ(t, status_bound(NULL), BOUND_NONE);
    struct moe_layer_record layers[LAYERS];
    make_sums(layers, 1);
    struct moe_telemetry turn = {.rows = 4, .n_moe_layers = LAYERS, .layers = layers};
    struct tally tally = {0};
    struct status_figures figures = {0};
    tally_add_record(&tally, &turn);
    status_take(&figures, &step, &tally);
    CHECK(t, figures.bound == BOUND_COPY && figures.prefetch_used == 4 * LAYERS && figures.prefetch_wasted == 10);
    CHECK(t, figures.hits > 0.857 && figures.hits < 0.8572 && figures.read_bytes == 1e6 * LAYERS / 4);
    CHECK(t, figures.tokens_mean < 0 && !figures.prefetch);
    tally.answer_steps = 3, tally.answer_ns = 1000000000, tally.policy = "router";
    status_take(&figures, &step, &tally);
    CHECK(t, figures.tokens_mean == 3 && figures.prefetch);
    status_take(&figures, NULL, &(struct tally){0});
    CHECK(t, figures.hits < 0 && figures.read_bytes < 0 && figures.bound == BOUND_NONE);
}

static void pane_adds_up(struct harness *t)
{
    struct moe_layer_record turn_layers[LAYERS], all_layers[LAYERS];
    make_sums(turn_layers, 1);
    make_sums(all_layers, 3);
    struct moe_telemetry turn = {.n_moe_layers = LAYERS, .layers = turn_layers};
    struct moe_telemetry all = {.n_moe_layers = LAYERS, .layers = all_layers};
    struct tally totals = {0}, since_start = {0};
    tally_add_record(&totals, &turn);
    tally_add_record(&since_start, &all);
    struct moe_telemetry last = {
        .decode = true, .total_ns = 20000000, .ns = {[MOE_ON_DISK] = 5000000, [MOE_ON_EXPERTS] = 15000000}};
    struct pane_figures figures = {.now = &last,
                                   .turn = &turn,
                                   .totals = &totals,
                                   .since_start = &since_start,
                                   .cache_used_bytes = 1200000000,
                                   .cache_bytes = 3000000000};
    struct cells cells = {0};
    cells_resize(&cells, 13, 64);
    pane_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 0), "layer       device  host ahead missed     read     disk   waited");
    // Late ones, of which each layer has one, have no column.
    CHECK_STR(t, row_text(&cells, 1), "1               10     5     3      3  1.00 MB   600 KB  1.500 s");
    CHECK_STR(t, row_text(&cells, 6), "15 more layers: Alt-z");
    CHECK_STR(t, row_text(&cells, 7), "turn           200   100    60     60  20.0 MB  12.0 MB 30.000 s");
    CHECK_STR(t, row_text(&cells, 8), "since start    600   300   180    180  60.0 MB  36.0 MB 30.000 s");
    CHECK_STR(t, row_text(&cells, 9), "expert cache: 1.20 GB of 3.00 GB");
    CHECK_STR(t, row_text(&cells, 10), "last token 20.0 ms: experts 75.0 % reads 25.0 %");
    last.shared_out = true;
    pane_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 10), "last token 20.0 ms: experts ~75.0 % reads 25.0 %");
    last.shared_out = false;
    since_start.policy = "router";
    snprintf(since_start.reason, sizeof since_start.reason, "faster: 4.03 ms a token with it, 9.83 without");
    pane_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 9), "expert cache: 1.20 GB of 3.00 GB; prefetch router, faster: 4.03");
    CHECK_STR(t, row_text(&cells, 10), "ms a token with it, 9.83 without");
    CHECK_STR(t, row_text(&cells, 11), "last token 20.0 ms: experts 75.0 % reads 25.0 %");
    cells_resize(&cells, 8, 80); // whole clauses
    snprintf(since_start.reason, sizeof since_start.reason, "not faster: 3.16 ms a token with it, 3.00 without it");
    pane_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 6), "expert cache: 1.20 GB of 3.00 GB; prefetch router, not faster");
    cells_resize(&cells, 13, 64);
    *since_start.reason = 0;
    pane_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 9), "expert cache: 1.20 GB of 3.00 GB; prefetch router");
    figures.row_bytes = 12000;
    figures.state_bytes = 66000000;
    pane_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 9), "rows 12.0 KB, states 66.0 MB; expert cache: 1.20 GB of 3.00 GB;");
    figures.state_bytes = 0;
    pane_draw(&cells, &figures);
    turn.total_ns = turn.ns[MOE_ON_COPY] = 2500000000;
    figures.now = &turn;
    pane_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 10), "turn 2.50 s: copy 100.0 %");
    figures.now = &last;
    figures.by_wait = figures.zoomed = true;
    pane_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 0), "layer       device  host ahead missed     read     disk waited \u2193");
    CHECK_STR(t, row_text(&cells, 6), "15 more layers: PgDn");
    figures.zoomed = false;
    figures.ascii = true;
    turn_layers[11].wait_ns = 2500000000, turn_layers[3].wait_ns = 2000000000;
    pane_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 0), "layer       device  host ahead missed     read     disk waited v");
    CHECK(t, strncmp(row_text(&cells, 1), "12 ", 3) == 0 && strncmp(row_text(&cells, 2), "4 ", 2) == 0);
    CHECK(t, strncmp(row_text(&cells, 3), "1 ", 2) == 0 && strncmp(row_text(&cells, 5), "3 ", 2) == 0);
    figures.by_wait = false;
    turn_layers[11].wait_ns = turn_layers[3].wait_ns = 1500000000;
    CHECK_EQ(t, pane_scroll_limit(&cells, &figures), LAYERS - 6);
    figures.scroll = 1000;
    pane_draw(&cells, &figures);
    CHECK(t, strncmp(row_text(&cells, 6), "20 ", 3) == 0 && strncmp(row_text(&cells, 7), "turn", 4) == 0);
    cells_resize(&cells, 13, 56);
    pane_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 0), "layer       device  host ahead missed     read   waited");
    cells_resize(&cells, 13, 80);
    turn_layers[14].n_from[MOE_FROM_DEVICE] = 1234567;
    turn_layers[14].n_from[MOE_FROM_HOST] = 4000000000u;
    turn_layers[14].bytes_device = 7000;
    pane_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 0), "layer       device  host ahead late missed wasted     read     disk   waited");
    cells_resize(&cells, 13, 85);
    pane_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 0),
              "layer       device  host ahead late missed wasted     read     disk   copied   waited");
    CHECK_STR(t, row_text(&cells, 1),
              "15          1.235M 4.00G     3    1      2      0  1.00 MB   600 KB  7.00 KB  1.500 s");
    // All figures where there is room for them, with a space before them; else as many as there is room for.
    struct moe_layer_record *full = &turn_layers[14];
    full->n_from[MOE_FROM_DEVICE] = full->n_from[MOE_FROM_DISK] = 999999;
    full->n_from[MOE_FROM_HOST] = full->n_from[MOE_FROM_PREFETCH] = 99999;
    full->n_from[MOE_FROM_LATE] = 9999;
    full->wasted = 123456;
    pane_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 1),
              "15          999999 99999 99999 9999 999999 123456  1.00 MB   600 KB  7.00 KB  1.500 s");
    full->n_from[MOE_FROM_DEVICE] = 1000000;
    full->n_from[MOE_FROM_HOST] = 100000;
    full->n_from[MOE_FROM_PREFETCH] = 12345678;
    full->n_from[MOE_FROM_LATE] = 12345;
    full->n_from[MOE_FROM_DISK] = 123456789;
    full->wasted = 999950000; // it is never 1000M
    pane_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 1),
              "15          1.000M  100k 12.3M  12k 123.5M 1.000G  1.00 MB   600 KB  7.00 KB  1.500 s");
    make_sums(turn_layers, 1);
    cells_resize(&cells, 13, 30);
    pane_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 7), "turn           200     60");
    CHECK_STR(t, row_text(&cells, 12), " experts 75.0 % reads 25.0 %");
    for (int rows = 1; rows < 40; rows++)
        for (int columns = 1; columns < 70; columns += 3) {
            cells_resize(&cells, rows, columns);
            pane_draw(&cells, &figures);
        }
    struct moe_telemetry step = {.total_ns = 12340000000, .ns[MOE_ON_DISK] = 12340000000};
    figures.now = &step;
    figures.under_way = true;
    cells_resize(&cells, 13, 60);
    pane_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 10), "step so far 12.34 s: reads 100.0 %");
    pane_draw(&cells, &(struct pane_figures){0});
    CHECK_STR(t, row_text(&cells, 0), "no experts used yet");
    cells_release(&cells);
}

// Rows that the layers of a small model leave are the cache's and the time's; each takes what the other leaves.
static void few_layers_leave_rows(struct harness *t)
{
    struct moe_layer_record layers[LAYERS];
    make_sums(layers, 1);
    struct moe_telemetry turn = {.n_moe_layers = 1, .layers = layers, .total_ns = 1000000000};
    struct tally since_start = {.policy = "off"};
    snprintf(since_start.reason, sizeof since_start.reason, "all experts fit; missing ones are read meanwhile");
    struct pane_figures figures = {
        .now = &turn, .turn = &turn, .totals = &since_start, .since_start = &since_start, .cache_bytes = 197000};
    struct cells cells = {0};
    for (int i = 0; i < MOE_INTERVALS; i++)
        turn.ns[i] = turn.total_ns / MOE_INTERVALS;
    cells_resize(&cells, 9, 60);
    pane_draw(&cells, &figures);
    CHECK_EQ(t, pane_scroll_limit(&cells, &figures), 0);
    CHECK_STR(t, row_text(&cells, 4), "expert cache: 0 B of 197 KB; prefetch off, all experts fit;");
    CHECK_STR(t, row_text(&cells, 5), "missing ones are read meanwhile");
    CHECK_STR(t, row_text(&cells, 6), "turn 1.00 s: reads 11.1 % copy 11.1 % attention 11.1 %");
    CHECK_STR(t, row_text(&cells, 7), " router 11.1 % experts 11.1 % head 11.1 % sampling 11.1 %");
    CHECK_STR(t, row_text(&cells, 8), " saving 11.1 % host 11.1 %");
    cells_resize(&cells, 9, 120); // each in a row
    pane_draw(&cells, &figures);
    CHECK(t, strstr(row_text(&cells, 4), "; missing ones are read meanwhile") != NULL);
    CHECK(t, strncmp(row_text(&cells, 5), "turn 1.00 s:", 12) == 0);
    CHECK_STR(t, row_text(&cells, 6), " saving 11.1 % host 11.1 %");
    cells_resize(&cells, 5, 60); // one for both
    pane_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 4), "turn 1.00 s: reads 11.1 % copy 11.1 % attention 11.1 %");
    turn.total_ns = 0;
    pane_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 4), "expert cache: 0 B of 197 KB; prefetch off, all experts fit");
    turn.total_ns = 1000000000;
    turn.n_moe_layers = LAYERS; // who need the rows themselves
    cells_resize(&cells, 9, 60);
    pane_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 7), "expert cache: 0 B of 197 KB; prefetch off, all experts fit");
    CHECK_STR(t, row_text(&cells, 8), "turn 1.00 s: reads 11.1 % copy 11.1 % attention 11.1 %");
    cells_release(&cells);
}

static void heat_levels(struct harness *t)
{
    CHECK_EQ(t, heat_level(0, 100), 0);
    CHECK_EQ(t, heat_level(0, 0), 0);
    CHECK_EQ(t, heat_level(1, 1), 3);
    CHECK(t, heat_level(1, 2) == 1 && heat_level(2, 2) == 3);
    CHECK(t, heat_level(1, 8) == 1 && heat_level(2, 8) == 2 && heat_level(3, 8) == 2 && heat_level(4, 8) == 3);
    CHECK(t, heat_level(9, 1000) == 1 && heat_level(10, 1000) == 2 && heat_level(99, 1000) == 2);
    CHECK(t, heat_level(100, 1000) == 3 && heat_level(UINT32_MAX, UINT32_MAX) == 3);
    for (uint64_t uses = 1; uses < 300; uses++)
        CHECK(t, heat_level(uses, 300) <= heat_level(uses + 1, 300) && heat_level(uses, 300) > 0);
}

// Each kind and level has a glyph that no other has, one cell wide, in ASCII and beyond; only what is on disk and
// unused is blank. Without colours that alone tells them apart.
static void heat_glyphs_tell_places_apart(struct harness *t)
{
    for (int ascii = 0; ascii < 2; ascii++) {
        const char *all[MOE_TIERS * HEAT_LEVELS];
        for (int i = 0; i < MOE_TIERS * HEAT_LEVELS; i++) {
            all[i] = heat_glyph((enum moe_tier)(i / HEAT_LEVELS), i % HEAT_LEVELS, ascii);
            CHECK_EQ(t, cells_width(all[i], strlen(all[i])), 1);
            CHECK(t, !ascii || (strlen(all[i]) == 1 && all[i][0] >= ' '));
            CHECK_EQ(t, strcmp(all[i], " ") == 0, i == MOE_TIER_DISK * HEAT_LEVELS);
            CHECK(t, !ascii || !strchr("dhplr", all[i][0])); // the last token's letters
            for (int before = 0; before < i; before++)
                CHECK(t, strcmp(all[before], all[i]) != 0);
        }
    }
}

enum { N_LAYERS = 4, N_EXPERTS = 8 };

// Layer 1 is on the device, 2 in host memory, 3 and 4 are on disk, but for the first of layer 4.
static void make_heat(uint32_t uses[N_LAYERS * N_EXPERTS], uint8_t tiers[N_LAYERS * N_EXPERTS])
{
    static const uint32_t each[N_EXPERTS] = {0, 1, 2, 4, 8, 3, 0, 1};
    for (int i = 0; i < N_LAYERS * N_EXPERTS; i++) {
        uses[i] = i < 3 * N_EXPERTS ? each[i % N_EXPERTS] : 0;
        tiers[i] = i < N_EXPERTS ? MOE_TIER_DEVICE : i < 2 * N_EXPERTS ? MOE_TIER_HOST : MOE_TIER_DISK;
    }
    tiers[3 * N_EXPERTS] = MOE_TIER_HOST;
}

static void heat_map(struct harness *t)
{
    uint32_t uses[N_LAYERS * N_EXPERTS];
    uint8_t tiers[N_LAYERS * N_EXPERTS];
    make_heat(uses, tiers);
    struct heat_figures figures = {.uses = uses,
                                   .tiers = tiers,
                                   .n_layers = N_LAYERS,
                                   .n_experts = N_EXPERTS,
                                   .first_layer = 1,
                                   .top_k = 1,
                                   .ascii = true};
    struct cells cells = {0};
    cells_resize(&cells, 6, 72);
    heat_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 0), "uses in this turn: layers down, experts across");
    CHECK_STR(t, row_text(&cells, 1), "   1 coO@@Oco");
    CHECK_STR(t, row_text(&cells, 2), "   2 _-=##=_-");
    CHECK_STR(t, row_text(&cells, 3), "   3  .:!!: .");
    CHECK_STR(t, row_text(&cells, 4), "   4 _");
    CHECK_STR(t, row_text(&cells, 5), "disk only  .:!  host memory _-=#  device coO@  never, 1, 2-3, 4-8 times");
    CHECK_EQ(t, cells.cells[1 * 72 + 5].style, STYLE_ON_DEVICE);
    CHECK_EQ(t, cells.cells[2 * 72 + 5].style, STYLE_IN_HOST);
    CHECK_EQ(t, cells.cells[3 * 72 + 6].style, STYLE_ON_DISK);
    figures.ascii = false;
    heat_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 1), "   1 \u2591\u2592\u2593\u2588\u2588\u2593\u2591\u2592");
    CHECK_STR(t, row_text(&cells, 2), "   2 _-=\u2261\u2261=_-");
    CHECK_STR(t, row_text(&cells, 3), "   3  \u00B7:!!: \u00B7");
    CHECK_EQ(t, heat_rows(&figures), 8);
    cells_resize(&cells, 6, 48); // the layers go before the second row of the legend
    heat_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 4), "   4 _");
    CHECK_STR(t, row_text(&cells, 5), "disk only  \u00B7:!  host memory _-=\u2261  device \u2591\u2592\u2593\u2588");
    cells_resize(&cells, 8, 48);
    heat_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 5), "18 used: 6 disk only, 6 host, 6 device");
    CHECK_STR(t, row_text(&cells, 6), "disk only  \u00B7:!  host memory _-=\u2261  device \u2591\u2592\u2593\u2588");
    CHECK_STR(t, row_text(&cells, 7), "never, 1, 2-3, 4-8 times");
    cells_resize(&cells, 8, 100);
    heat_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 6), "18 of 32 experts used: 6 on disk only, 6 in host memory, 6 on the device");
    memset(uses, 0, sizeof uses);
    heat_draw(&cells, &figures);
    CHECK(t, strstr(row_text(&cells, 7), "  none used yet") != NULL);
    CHECK_STR(t, row_text(&cells, 6),
              "no uses yet; of 32 experts 15 are on disk only, 9 in host memory, 8 on the device");
    cells_resize(&cells, 8, 48); // where the legend has two rows
    heat_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 5), "no uses; 15 disk only, 9 host, 8 device");
    cells_resize(&cells, 8, 100);
    uses[0] = 1;
    heat_draw(&cells, &figures);
    CHECK(t, strstr(row_text(&cells, 7), "  never, 1 time") != NULL);
    figures.uses = NULL;
    heat_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 0), "no experts used in this turn yet");
    cells_release(&cells);
}

static void heat_letters(struct harness *t)
{
    uint32_t uses[N_LAYERS * N_EXPERTS];
    uint8_t tiers[N_LAYERS * N_EXPERTS];
    struct moe_choice choices[N_LAYERS] = {{.expert = 5, .origin = MOE_FROM_DISK}, {.expert = 2}, {.expert = 99}};
    make_heat(uses, tiers);
    struct heat_figures figures = {.uses = uses,
                                   .tiers = tiers,
                                   .n_layers = N_LAYERS,
                                   .n_experts = N_EXPERTS,
                                   .choices = choices,
                                   .top_k = 1,
                                   .ascii = true};
    struct cells cells = {0};
    cells_resize(&cells, 6, 72);
    heat_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 0), "last: d device h host p prefetched l late r read");
    CHECK_STR(t, row_text(&cells, 1), "   0 coO@@rco");
    CHECK_STR(t, row_text(&cells, 2), "   1 _-d##=_-");
    CHECK_STR(t, row_text(&cells, 3), "   2  .:!!: .");
    cells_release(&cells);
}

// A mark of several experts shows which share of them is in memory: one of many that is used a lot says nothing of
// them.
static void heat_folds(struct harness *t)
{
    uint32_t uses[N_LAYERS * N_EXPERTS];
    uint8_t tiers[N_LAYERS * N_EXPERTS];
    struct moe_choice choices[N_LAYERS] = {{.expert = 0}, {.expert = 1, .origin = MOE_FROM_LATE}, {.expert = 7}};
    make_heat(uses, tiers);
    struct heat_figures figures = {.uses = uses,
                                   .tiers = tiers,
                                   .n_layers = N_LAYERS,
                                   .n_experts = N_EXPERTS,
                                   .first_layer = 1,
                                   .top_k = 1,
                                   .zooms = true,
                                   .ascii = true};
    struct cells cells = {0};
    for (int i = 2; i < N_EXPERTS; i++) // of layer 1 two are on the device, of layer 2 none is anywhere
        tiers[i] = MOE_TIER_DISK;
    for (int i = N_EXPERTS; i < 2 * N_EXPERTS; i++)
        tiers[i] = MOE_TIER_DISK;
    uses[4] = 1000;             // looks hot, and is one of four that are on disk
    cells_resize(&cells, 4, 9); // 2 rows of 4 marks: 2 layers x 2 experts each
    heat_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 1), "   1 o...");
    CHECK_STR(t, row_text(&cells, 2), "   3 _...");
    cells_resize(&cells, 4, 60);
    heat_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 0), "each mark: 2 layers x 1 expert; Alt-z shows each");
    CHECK_STR(t, row_text(&cells, 1), "   1 oo.... .");
    CHECK_STR(t, row_text(&cells, 2), "   3 -..... .");
    CHECK_STR(t, row_text(&cells, 3), "in memory: c_ to 25 o- 50 O= 75 @# 100 % . none");
    figures.choices = choices;
    cells_resize(&cells, 4, 100);
    heat_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 0),
              "last: d device h host p prefetched l late r read; each mark: 2 layers x 1 expert; Alt-z shows each");
    CHECK_STR(t, row_text(&cells, 1), "   1 dl.... .");
    CHECK_STR(t, row_text(&cells, 2), "   3 d..... d"); // layer 4 chose 0, too
    cells_resize(&cells, 4, 9);
    heat_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 1), "   1 l..."); // the slower of two
    for (int rows = 1; rows < 12; rows++)
        for (int columns = 1; columns < 20; columns++) {
            figures.each = (rows + columns) % 2;
            cells_resize(&cells, rows, columns);
            heat_draw(&cells, &figures);
        }
    cells_release(&cells);
}

// In a large pane a layer that is too long goes on in the next row; with all of the screen it scrolls.
static void heat_of_each_expert(struct harness *t)
{
    uint32_t uses[N_LAYERS * N_EXPERTS];
    uint8_t tiers[N_LAYERS * N_EXPERTS];
    make_heat(uses, tiers);
    struct heat_figures figures = {
        .uses = uses, .tiers = tiers, .n_layers = N_LAYERS, .n_experts = N_EXPERTS, .first_layer = 1, .ascii = true};
    struct cells cells = {0};
    CHECK_EQ(t, heat_columns(&figures), 5 + N_EXPERTS);
    cells_resize(&cells, 11, 10); // 5 of 8 across: two rows of 4
    heat_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 1), "   1 coO@");
    CHECK_STR(t, row_text(&cells, 2), "     @Oco");
    CHECK_STR(t, row_text(&cells, 3), "   2 _-=#");
    CHECK_EQ(t, heat_scroll_limit(&cells, &figures), 0);
    figures.each = true;
    cells_resize(&cells, 5, 70); // 3 of 4 rows
    CHECK_EQ(t, heat_scroll_limit(&cells, &figures), 1);
    heat_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 0), "uses in this turn: layers down, experts across");
    CHECK_STR(t, row_text(&cells, 1), "   1 coO@@Oco");
    figures.scroll = 99;
    cells_resize(&cells, 5, 75);
    heat_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 0), "uses in this turn: layers down, experts across; from layer 2, PgUp and PgDn");
    CHECK_STR(t, row_text(&cells, 1), "   2 _-=##=_-");
    CHECK_STR(t, row_text(&cells, 3), "   4 _");
    cells_resize(&cells, 6, 75); // all of them
    heat_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 0), "uses in this turn: layers down, experts across");
    cells_release(&cells);
}

// The long words are taken from the column on where all of them fit.
static void heat_words_fit(struct harness *t)
{
    static const char places[] = "disk only  .:!  host memory _-=#  device coO@";
    uint32_t uses[N_LAYERS * N_EXPERTS];
    uint8_t tiers[N_LAYERS * N_EXPERTS];
    struct moe_choice choices[N_LAYERS] = {{.expert = 0}};
    make_heat(uses, tiers);
    struct heat_figures figures = {
        .uses = uses, .tiers = tiers, .n_layers = N_LAYERS, .n_experts = N_EXPERTS, .top_k = 1, .ascii = true};
    struct cells cells = {0};
    for (int beyond = 0; beyond < 2; beyond++) {
        figures.choices = NULL;
        cells_resize(&cells, 9, 71 - beyond);
        heat_draw(&cells, &figures);
        CHECK_STR(t, row_text(&cells, 7 + !beyond),
                  beyond ? places : "disk only  .:!  host memory _-=#  device coO@  never, 1, 2-3, 4-8 times");
        CHECK(t, !beyond || strcmp(row_text(&cells, 8), "never, 1, 2-3, 4-8 times") == 0);
        cells_resize(&cells, 9, 45 - beyond);
        heat_draw(&cells, &figures);
        CHECK_STR(t, row_text(&cells, 7), beyond ? "disk  .:! host _-=# device coO@" : places);
        cells_resize(&cells, 9, 46 - beyond);
        heat_draw(&cells, &figures);
        CHECK_STR(t, row_text(&cells, 0),
                  beyond ? "uses in this turn" : "uses in this turn: layers down, experts across");
        cells_resize(&cells, 4, 47 - beyond);
        heat_draw(&cells, &figures);
        CHECK_STR(t, row_text(&cells, 3),
                  beyond ? " c_ to 25 o- 50 O= 75 @# 100 % . none" : "in memory: c_ to 25 o- 50 O= 75 @# 100 % . none");
        figures.choices = choices;
        cells_resize(&cells, 9, 48 - beyond);
        heat_draw(&cells, &figures);
        CHECK_STR(t, row_text(&cells, 0),
                  beyond ? "d device h host p ahead l late r read"
                         : "last: d device h host p prefetched l late r read");
    }
    figures.choices = NULL;
    for (int i = 0; i < N_LAYERS * N_EXPERTS; i++) // no host memory, no second glyph
        tiers[i] = tiers[i] == MOE_TIER_HOST ? MOE_TIER_DEVICE : tiers[i];
    for (int beyond = 0; beyond < 2; beyond++) {
        cells_resize(&cells, 4, 43 - beyond);
        heat_draw(&cells, &figures);
        CHECK_STR(t, row_text(&cells, 3),
                  beyond ? " c to 25 o 50 O 75 @ 100 % . none" : "in memory: c to 25 o 50 O 75 @ 100 % . none");
    }
    cells_release(&cells);
}

// The largest models in the smallest panes.
static void heat_of_wide_models(struct harness *t)
{
    enum { LAYERS_WIDE = 60, EXPERTS_WIDE = 384 };
    static uint32_t uses[LAYERS_WIDE * EXPERTS_WIDE];
    static uint8_t tiers[LAYERS_WIDE * EXPERTS_WIDE];
    struct heat_figures figures = {
        .uses = uses, .tiers = tiers, .n_layers = LAYERS_WIDE, .n_experts = EXPERTS_WIDE, .ascii = true};
    struct cells cells = {0};
    uses[0] = 5;
    tiers[0] = MOE_TIER_HOST;
    uses[LAYERS_WIDE * EXPERTS_WIDE - 1] = 1000000;
    tiers[LAYERS_WIDE * EXPERTS_WIDE - 1] = MOE_TIER_DEVICE;
    cells_resize(&cells, 37, 48);
    heat_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 0), "each mark: 2 layers x 9 experts");
    CHECK_STR(t, row_text(&cells, 1), "   0 _");
    CHECK_STR(t, row_text(&cells, 30), "  58                                           c");
    CHECK_STR(t, row_text(&cells, 35), "2 used: 0 disk only, 1 host, 1 device");
    CHECK_STR(t, row_text(&cells, 36), "in memory: c_ to 25 o- 50 O= 75 @# 100 % . none");
    cells_release(&cells);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(status_in_words),
        TEST(status_progress),
        TEST(a_stop_is_heard),
        TEST(status_drops_whole_fields),
        TEST(bound_and_shares),
        TEST(pane_adds_up),
        TEST(few_layers_leave_rows),
        TEST(heat_levels),
        TEST(heat_glyphs_tell_places_apart),
        TEST(heat_map),
        TEST(heat_letters),
        TEST(heat_folds),
        TEST(heat_of_each_expert),
        TEST(heat_words_fit),
        TEST(heat_of_wide_models),
    };
    setlocale(LC_CTYPE, "C.UTF-8");
    return HARNESS_RUN(tests, argc, argv);
}
