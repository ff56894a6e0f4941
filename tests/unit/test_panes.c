// SPDX-License-Identifier: GPL-3.0-or-later
// The status row, the stats pane and the heat map, drawn from records made here.
#include <locale.h>

#include "harness.h"
#include "heat.h"
#include "moe.h"
#include "pane.h"
#include "status.h"

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
    .disk_bytes = 1.25e9,
    .bound = BOUND_DISK,
    .new_rows = 5,
    .queued = 1,
    .ascii = true,
};

static void status_in_words(struct harness *t)
{
    CHECK_STR(t, status_text(&answering, 250),
              " answering | 5 new lines below | 1 message waits | context 812 of 8192 | 7.4 tokens/s | mean 7.1 | "
              "expert hits 83 % | disk 1.25 GB a token | prefetch 12 used, 3 wasted | bound by disk | demo");
    CHECK_STR(t, status_text(&answering, 80), " answering | 5 new lines below | 1 message waits | context 812 of 8192");
    CHECK_STR(t, status_text(&answering, 10), " answering");
    CHECK_STR(t, status_text(&answering, 4), " ans");
    CHECK_STR(t, status_text(&answering, 1), "a");
    struct status_figures idle = {
        .doing = DOING_IDLE, .tokens_now = -1, .tokens_mean = -1, .hits = -1, .disk_bytes = -1, .context_used = -1};
    CHECK_STR(t, status_text(&idle, 80), " idle \xC2\xB7 prefetch off");
    idle.scrolled = true;
    idle.percent = 37;
    CHECK_STR(t, status_text(&idle, 80), " idle \xC2\xB7 at 37 % of the chat \xC2\xB7 prefetch off");
    idle.notice = "copied";
    CHECK_STR(t, status_text(&idle, 80), " idle \xC2\xB7 copied");
}

static void status_progress(struct harness *t)
{
    struct status_figures reading = {.doing = DOING_READING,
                                     .what = "reading prompt",
                                     .unit = "tokens",
                                     .done = 128,
                                     .total = 512,
                                     .seconds = 4,
                                     .tokens_now = -1,
                                     .tokens_mean = -1,
                                     .hits = -1,
                                     .disk_bytes = -1,
                                     .context_used = -1,
                                     .ascii = true};
    CHECK_STR(t, status_text(&reading, 80),
              " reading prompt 128 of 512 tokens | ###....... 25 % | 12 s left | prefetch off");
    reading.bytes_read = 1500000000;
    CHECK_STR(t, status_text(&reading, 80),
              " reading prompt 128 of 512 tokens | ###....... 25 % | 12 s left | 1.50 GB read");
    CHECK_STR(t, status_text(&reading, 66), " reading prompt 128 of 512 tokens | ###....... 25 % | 12 s left");
    reading.bytes_read = 0;
    CHECK_STR(t, status_text(&reading, 55), " reading prompt 128 of 512 tokens | ###....... 25 %");
    reading.seconds = 0.1;
    CHECK_STR(t, status_text(&reading, 64), " reading prompt 128 of 512 tokens | ###....... 25 %");
    reading.done = 9999;
    reading.unit = "bytes";
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
    struct status_figures figures = {0};
    status_take(&figures, &step, &turn);
    CHECK(t, figures.bound == BOUND_COPY && figures.prefetch_used == 4 * LAYERS && figures.prefetch_wasted == 10);
    CHECK(t, figures.hits > 0.857 && figures.hits < 0.8572 && figures.disk_bytes == 1e6 * LAYERS / 4);
    status_take(&figures, NULL, NULL);
    CHECK(t, figures.hits < 0 && figures.disk_bytes < 0 && figures.bound == BOUND_NONE);
}

static void pane_adds_up(struct harness *t)
{
    struct moe_layer_record turn_layers[LAYERS], session_layers[LAYERS];
    make_sums(turn_layers, 1);
    make_sums(session_layers, 3);
    struct moe_telemetry turn = {.n_moe_layers = LAYERS, .layers = turn_layers};
    struct moe_telemetry session = {.n_moe_layers = LAYERS, .layers = session_layers};
    struct moe_telemetry last = {
        .decode = true, .total_ns = 20000000, .ns = {[MOE_ON_DISK] = 5000000, [MOE_ON_EXPERTS] = 15000000}};
    struct pane_figures figures = {
        .last = &last, .turn = &turn, .session = &session, .cache_used_bytes = 1200000000, .cache_bytes = 3000000000};
    struct cells cells = {0};
    cells_resize(&cells, 13, 60);
    pane_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 0), "layer       hits  missed  ahead wasted     read   waited");
    CHECK_STR(t, row_text(&cells, 1), "1             15       3      3      0  1.00 MB  1.500 s");
    CHECK_STR(t, row_text(&cells, 6), "15 more layers: Alt-z, then PgDn");
    CHECK_STR(t, row_text(&cells, 7), "turn         300      60     60     10  20.0 MB 30.000 s");
    CHECK_STR(t, row_text(&cells, 8), "session      900     180    180     10  60.0 MB 30.000 s");
    CHECK_STR(t, row_text(&cells, 9), "expert cache: 1.20 GB of 3.00 GB used");
    CHECK_STR(t, row_text(&cells, 10), "last token 20.0 ms: experts 75.0 % disk 25.0 %");
    CHECK_EQ(t, pane_scroll_limit(&cells, &figures), LAYERS - 6);
    figures.scroll = 1000;
    pane_draw(&cells, &figures);
    CHECK(t, strncmp(row_text(&cells, 6), "20 ", 3) == 0 && strncmp(row_text(&cells, 7), "turn", 4) == 0);
    cells_resize(&cells, 13, 30);
    pane_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 7), "turn         300      60");
    CHECK_STR(t, row_text(&cells, 11), " experts 75.0 % disk 25.0 %");
    for (int rows = 1; rows < 40; rows++)
        for (int columns = 1; columns < 70; columns += 3) {
            cells_resize(&cells, rows, columns);
            pane_draw(&cells, &figures);
        }
    pane_draw(&cells, &(struct pane_figures){0});
    CHECK_STR(t, row_text(&cells, 0), "no experts were used yet");
    cells_release(&cells);
}

static void heat_steps(struct harness *t)
{
    CHECK_EQ(t, heat_step(0, 100), 0);
    CHECK_EQ(t, heat_step(100, 100), 9);
    CHECK_EQ(t, heat_step(99, 100), 8);
    CHECK_EQ(t, heat_step(10, 100), 5);
    CHECK_EQ(t, heat_step(1, 2), 1);
    CHECK_EQ(t, heat_step(1, 1000000), 1);
    CHECK_EQ(t, heat_step(1, 1), 9);
    for (uint64_t uses = 1; uses < 300; uses++)
        CHECK(t, heat_step(uses, 300) <= heat_step(uses + 1, 300) && heat_step(uses, 300) > 0);
}

static void heat_map(struct harness *t)
{
    enum { N_LAYERS = 4, N_EXPERTS = 8 };
    uint32_t uses[N_LAYERS * N_EXPERTS] = {0};
    uses[0] = 16;
    uses[1 * N_EXPERTS + 2] = 8;
    uses[1 * N_EXPERTS + 3] = 9;
    uses[3 * N_EXPERTS + 7] = 1;
    struct moe_choice choices[N_LAYERS] = {{.expert = 5, .origin = MOE_FROM_DISK}, {.expert = 2}, {.expert = 99}};
    struct heat_figures figures = {
        .uses = uses, .n_layers = N_LAYERS, .n_experts = N_EXPERTS, .first_layer = 1, .choices = choices, .top_k = 1};
    struct cells cells = {0};
    cells_resize(&cells, 6, 60);
    heat_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 0), "uses in this turn: layers down, experts across");
    CHECK_STR(t, row_text(&cells, 1), "   1 @");
    CHECK_STR(t, row_text(&cells, 2), "   2   ##");
    CHECK_STR(t, row_text(&cells, 4), "   4        .");
    CHECK_STR(t, row_text(&cells, 5), "never  .:-=+*#%@ most, 16 times");
    CHECK_EQ(t, cells.cells[1 * 60 + 5].style, STYLE_HEAT_9);
    CHECK_EQ(t, cells.cells[1 * 60 + 6].style, STYLE_HEAT_0);
    figures.marks = true;
    heat_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 0), "now: d device h host p prefetched l late r read");
    CHECK_STR(t, row_text(&cells, 1), "   1 @    r");
    CHECK_STR(t, row_text(&cells, 2), "   2   d#");
    cells_resize(&cells, 4, 9); // 2 rows of 4 marks: 2 layers x 2 experts each
    heat_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 1), "   1 %@");
    CHECK_STR(t, row_text(&cells, 2), "   3    .");
    for (int rows = 1; rows < 12; rows++)
        for (int columns = 1; columns < 20; columns++) {
            cells_resize(&cells, rows, columns);
            heat_draw(&cells, &figures);
        }
    figures.uses = NULL;
    heat_draw(&cells, &figures);
    CHECK_STR(t, row_text(&cells, 0), "no experts were use");
    cells_release(&cells);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(status_in_words),  TEST(status_progress), TEST(status_drops_whole_fields),
        TEST(bound_and_shares), TEST(pane_adds_up),    TEST(heat_steps),
        TEST(heat_map),
    };
    setlocale(LC_CTYPE, "C.UTF-8");
    return HARNESS_RUN(tests, argc, argv);
}
