// SPDX-License-Identifier: GPL-3.0-or-later
// Everything that is drawn, in thousands of cases each: sizes, figures at their edges, texts of the letters that
// matter.
#include <locale.h>
#include <stdlib.h>

#include "app/view/draft.h"
#include "app/view/flow.h"
#include "app/view/heat.h"
#include "app/view/layout.h"
#include "app/view/markdown.h"
#include "app/view/pane.h"
#include "app/view/status.h"
#include "app/view/table.h"
#include "app/view/transcript.h"
#include "app/view/transcript_parts.h"
#include "app/view/wrap.h"
#include "engine/moe.h"
#include "tests/some_figures.h"

#define KANJI "\346\227\245"
#define ACUTE "\314\201"

static void say_cells(struct cases *cases, const struct cells *cells)
{
    char text[CELLS_TEXT_ROOM(300)];
    for (int row = 0; row < cells->rows; row++) {
        size_t length = cells_text(cells, row, text, sizeof text);
        cases_bytes(cases, text, length);
        cases_bytes(cases, "\n", 1);
        for (int column = 0; column < cells->columns; column++) // styles, told by letters
            cases_bytes(
                cases,
                &"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"[cells->cells[row * cells->columns + column]
                                                                            .style],
                1);
        cases_bytes(cases, "\n", 1);
    }
}

static void say_styles(struct cases *cases, const char *text, size_t length, size_t cut, struct harness *t)
{
    struct markdown state = {0};
    struct style_runs runs = {0};
    cut = cut < length ? cut : length;
    bool fine = markdown_push(&state, text, cut, &runs) && markdown_push(&state, text + cut, length - cut, &runs) &&
                markdown_finish(&state, &runs);
    if (!CHECK(t, fine && style_runs_add(NULL, 1, STYLE_TEXT)))
        return;
    cases_say(cases, "%.*s:", (int)length, text);
    for (size_t byte = 0, end; byte <= length; byte++) {
        enum style style = style_runs_at(&runs, byte, &end);
        cases_say(cases, " %d-%zd", style, (ssize_t)end);
    }
    for (size_t n = 1; n < 4; n++) {
        const char *code;
        size_t bytes;
        if (!markdown_code_block(text, length, n, &code, &bytes))
            break;
        cases_say(cases, ", code %zd %zu", code - text, bytes);
    }
    cases_bytes(cases, "\n", 1);
    style_runs_release(&runs);
}

// All short texts of its letters, then longer ones.
static void markdown(struct harness *t)
{
    static const char letters[] = "`*#-1. \n\\a", *const pieces[] = {"```", "~~~", "**", "`",    "\n",  "a",
                                                                     " ",   "# ",  "- ", "12. ", "\\",  "\303\251",
                                                                     "***", "``",  ")",  "\t",   KANJI, "_"};
    enum { N_PIECES = sizeof pieces / sizeof pieces[0] };
    struct cases cases = cases_begin("markdown");
    for (int length = 0, all = 1; length < 5; length++, all *= (int)sizeof letters - 1) {
        for (int n = 0; n < all; n++) {
            char text[8];
            for (int i = 0, left = n; i < length; i++, left /= (int)sizeof letters - 1)
                text[i] = letters[left % ((int)sizeof letters - 1)];
            say_styles(&cases, text, (size_t)length, (size_t)length / 2, t);
        }
    }
    for (int n = 0; n < 3000; n++) {
        char text[256] = "";
        for (uint32_t i = cases_draw(&cases, 30) + 1; i > 0; i--)
            strcat(text, pieces[cases_draw(&cases, N_PIECES)]);
        say_styles(&cases, text, strlen(text), cases_draw(&cases, 20), t);
    }
    CHECK_CASES(t, &cases, 0x23f0506c2b76f4c2);
}

static void say_rectangle(struct cases *cases, struct rectangle r)
{
    cases_say(cases, " %d,%d+%dx%d", r.row, r.column, r.rows, r.columns);
}

static void layouts(struct harness *t)
{
    static const int rows[] = {-1, 1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 14, 15, 16, 17, 18, 24, 41},
                     columns[] = {0,   1,   19,  20,  21,  80,  119, 120, 121, 136,
                                  137, 159, 160, 161, 165, 166, 167, 200, 300},
                     inputs[] = {0, 1, 2, 20}, popups[] = {-1, 0, 1, 2, 9}, heats[] = {0, 56, 70, 300};
    struct cases cases = cases_begin("layouts");
    for (int n = 0; n < 30000; n++) {
        int height = rows[cases_draw(&cases, 19)], width = columns[cases_draw(&cases, 19)];
        struct layout_wishes wishes = {.stats = (enum stats_view)cases_draw(&cases, 4),
                                       .input_rows = inputs[cases_draw(&cases, 4)],
                                       .popup_rows = popups[cases_draw(&cases, 5)],
                                       .status = cases_draw(&cases, 2),
                                       .zoom = cases_draw(&cases, 4) == 0,
                                       .heat_columns = heats[cases_draw(&cases, 4)]};
        struct layout l = layout_of(height, width, &wishes);
        cases_say(&cases, "%d x %d, %d %d %d %d %d %d:", height, width, wishes.stats, wishes.input_rows,
                  wishes.popup_rows, wishes.status, wishes.zoom, wishes.heat_columns);
        say_rectangle(&cases, l.chat);
        say_rectangle(&cases, l.stats);
        say_rectangle(&cases, l.status);
        say_rectangle(&cases, l.input);
        say_rectangle(&cases, l.popup);
        cases_say(&cases, " %d\n", l.rule);
    }
    CHECK_CASES(t, &cases, 0x83e53e23f6f7d74b);
}

static void statuses(struct harness *t)
{
    static const char *const notices[] = {NULL, NULL, "copied", "help; Space and b page, / searches, q closes",
                                          KANJI KANJI "; a"};
    struct cases cases = cases_begin("statuses");
    struct cells cells = {0};
    for (int n = 0; n < 8000; n++) {
        struct status_figures figures = {.doing = (enum doing)cases_draw(&cases, DOING_SAVING + 1),
                                         .seconds_left = some_real(&cases),
                                         .model = cases_draw(&cases, 4) ? "demo" : NULL,
                                         .context_used = (int64_t)some_whole(&cases) - 1,
                                         .context_total = (int64_t)some_whole(&cases),
                                         .tokens_now = some_real(&cases),
                                         .tokens_mean = some_real(&cases),
                                         .hits = some_real(&cases),
                                         .prefetch = cases_draw(&cases, 2),
                                         .prefetch_used = (int64_t)some_whole(&cases),
                                         .prefetch_wasted = (int64_t)some_whole(&cases),
                                         .read_bytes = 1e6 * some_real(&cases),
                                         .cached_bytes = 1e6 * some_real(&cases),
                                         .bound = (enum bound)cases_draw(&cases, BOUND_LAUNCHES + 1),
                                         .queued = cases_draw(&cases, 3),
                                         .scrolled = cases_draw(&cases, 3) == 0,
                                         .percent = (int)cases_draw(&cases, 101),
                                         .new_rows = cases_draw(&cases, 3),
                                         .notice = notices[cases_draw(&cases, 5)],
                                         .ascii = cases_draw(&cases, 2)};
        if (cases_draw(&cases, 2)) {
            static const char *const units[] = {"bytes", "tokens", "steps"};
            figures.progress = (struct moe_progress){.what = "reading",
                                                     .unit = units[cases_draw(&cases, 3)],
                                                     .done = some_whole(&cases),
                                                     .total = some_whole(&cases),
                                                     .bytes_read = some_whole(&cases)};
        }
        if (!CHECK(t, cells_resize(&cells, 1, 1 + (int)cases_draw(&cases, cases_draw(&cases, 2) ? 220 : 90))))
            break;
        status_draw(cells_row(&cells, 0), &figures);
        say_cells(&cases, &cells);
    }
    cells_release(&cells);
    CHECK_CASES(t, &cases, 0xe6aa1554f0fc2d59);
}

static void panes(struct harness *t)
{
    struct cases cases = cases_begin("panes");
    struct cells cells = {0};
    for (int n = 0; n < 4000; n++) {
        struct moe_layer_record layers[2][MOST_LAYERS];
        some_layers(&cases, layers[0]);
        some_layers(&cases, layers[1]);
        struct moe_telemetry now = some_record(&cases, layers[0]), turn = some_record(&cases, layers[1]);
        struct tally totals = some_tally(&cases), since = some_tally(&cases);
        struct pane_figures figures = {.now = cases_draw(&cases, 8) ? cases_draw(&cases, 5) ? &now : &turn : NULL,
                                       .turn = cases_draw(&cases, 8) ? &turn : NULL,
                                       .totals = &totals,
                                       .since_start = &since,
                                       .cache_used_bytes = some_whole(&cases),
                                       .cache_bytes = some_whole(&cases),
                                       .row_bytes = some_whole(&cases),
                                       .state_bytes = cases_draw(&cases, 2) ? some_whole(&cases) : 0,
                                       .zoomed = cases_draw(&cases, 2),
                                       .by_wait = cases_draw(&cases, 2),
                                       .scroll = (int)cases_draw(&cases, MOST_LAYERS + 2),
                                       .ascii = cases_draw(&cases, 2)};
        if (!CHECK(t, cells_resize(&cells, 1 + (int)cases_draw(&cases, 22), 1 + (int)cases_draw(&cases, 120))))
            break;
        pane_draw(&cells, &figures);
        cases_say(&cases, "%d x %d, at most %d\n", cells.rows, cells.columns, pane_scroll_limit(&cells, &figures));
        say_cells(&cases, &cells);
        struct status_figures status = {0};
        status_take(&status, figures.now, &totals);
        cases_say(&cases, "%d %.6g %.6g %.6g %.6g %llu %llu %s\n", status.bound, status.tokens_mean, status.hits,
                  status.read_bytes, status.cached_bytes, (unsigned long long)status.prefetch_used,
                  (unsigned long long)status.prefetch_wasted, status_bound_name(status_bound(figures.now)));
    }
    cells_release(&cells);
    CHECK_CASES(t, &cases, 0x17421483854fa8bf);
}

static void heats(struct harness *t)
{
    struct cases cases = cases_begin("heats");
    struct cells cells = {0};
    for (uint64_t most = 0; most < 130; most++) {
        for (uint64_t uses = 0; uses <= most; uses++)
            cases_say(&cases, "%d", heat_level(uses, most));
    }
    for (int n = 0; n < 4000; n++) {
        uint32_t uses[MOST_LAYERS * MOST_EXPERTS];
        uint8_t tiers[MOST_LAYERS * MOST_EXPERTS];
        struct moe_choice choices[MOST_LAYERS * TOP_K];
        uint32_t n_layers = cases_draw(&cases, MOST_LAYERS + 1), n_experts = 1 + cases_draw(&cases, MOST_EXPERTS),
                 most = 1 + cases_draw(&cases, cases_draw(&cases, 2) ? 3 : 2000),
                 n_tiers = 1 + cases_draw(&cases, MOE_TIERS);
        bool used = cases_draw(&cases, 5) > 0;
        for (uint32_t i = 0; i < MOST_LAYERS * MOST_EXPERTS; i++) {
            uses[i] = used && cases_draw(&cases, 3) ? cases_draw(&cases, most) : 0;
            tiers[i] = (uint8_t)cases_draw(&cases, n_tiers);
        }
        for (uint32_t i = 0; i < MOST_LAYERS * TOP_K; i++)
            choices[i] = (struct moe_choice){.expert = (uint16_t)cases_draw(&cases, n_experts),
                                             .origin = (uint8_t)cases_draw(&cases, MOE_ORIGINS)};
        struct heat_figures figures = {.uses = cases_draw(&cases, 20) ? uses : NULL,
                                       .tiers = tiers,
                                       .n_layers = n_layers,
                                       .n_experts = n_experts,
                                       .first_layer = cases_draw(&cases, 3),
                                       .choices = cases_draw(&cases, 2) ? choices : NULL,
                                       .top_k = TOP_K,
                                       .ascii = cases_draw(&cases, 2),
                                       .zooms = cases_draw(&cases, 2),
                                       .each = cases_draw(&cases, 3) == 0,
                                       .scroll = (int)cases_draw(&cases, 8)};
        if (!CHECK(t, cells_resize(&cells, 1 + (int)cases_draw(&cases, 16),
                                   1 + (int)cases_draw(&cases, cases_draw(&cases, 2) ? 110 : 40))))
            break;
        heat_draw(&cells, &figures);
        cases_say(&cases, "%d x %d, at most %d, wanted %d x %d\n", cells.rows, cells.columns,
                  heat_scroll_limit(&cells, &figures), heat_rows(&figures), heat_columns(&figures));
        say_cells(&cases, &cells);
    }
    cells_release(&cells);
    CHECK_CASES(t, &cases, 0x7429040fd72e3d6b);
}

static void some_text(struct cases *cases, char *text, size_t most)
{
    static const char *const pieces[] = {
        "a", "b", " ", " ", "\t", KANJI, "e" ACUTE, "word", "longer words", "-", "\343\200\202", "- ", "  "};
    *text = 0;
    for (uint32_t n = cases_draw(cases, (uint32_t)most); n > 0; n--)
        strcat(text, pieces[cases_draw(cases, sizeof pieces / sizeof pieces[0])]);
}

static void wraps(struct harness *t)
{
    struct cases cases = cases_begin("wraps");
    for (int n = 0; n < 20000; n++) {
        char text[256];
        some_text(&cases, text, 14);
        struct wrap wrap = {.text = text, .length = strlen(text), .columns = 1 + (int)cases_draw(&cases, 14)};
        wrap.first = (int)cases_draw(&cases, 4);
        wrap.hang = cases_draw(&cases, 2) ? (int)cases_draw(&cases, 4) : wrap_hang(text, wrap.length, wrap.columns);
        wrap.anywhere = cases_draw(&cases, 4) == 0;
        cases_say(&cases, "%s|%d %d %d %d:", text, wrap.columns, wrap.first, wrap.hang, wrap.anywhere);
        for (struct wrap_row row; wrap_next(&wrap, &row);)
            cases_say(&cases, " %zu+%zu %u %u", row.start, row.length, row.column, row.indent);
        cases_say(&cases, "; %d %zu\n", cells_width("word", cases_draw(&cases, 5)),
                  cells_fitting(text, strlen(text), wrap.first));
    }
    CHECK_CASES(t, &cases, 0x0c8ba262214394b8);
}

// What is folded, and what flows.
static void tables_and_flows(struct harness *t)
{
    struct cases cases = cases_begin("tables_and_flows");
    for (int n = 0; n < 6000; n++) {
        char text[512] = "", *said = NULL;
        size_t length;
        FILE *out = open_memstream(&said, &length);
        if (!CHECK(t, out != NULL))
            break;
        for (uint32_t lines = 1 + cases_draw(&cases, 3); lines > 0; lines--) {
            some_text(&cases, text + strlen(text), 12);
            strcat(text, cases_draw(&cases, 4) ? "\n" : " 23.8 MB, 7 %\n");
        }
        if (n % 2) {
            table_fold(
                out, text,
                &(struct table){(int)cases_draw(&cases, 60), (int)cases_draw(&cases, 12), (int)cases_draw(&cases, 12)});
        } else {
            struct flow flow = {0};
            int columns = (int)cases_draw(&cases, 20);
            size_t cut = cases_draw(&cases, (uint32_t)strlen(text) + 1);
            while (cut < strlen(text) && ((unsigned char)text[cut] & 0xC0) == 0x80)
                cut++;
            flow_push(&flow, out, columns, text, cut);
            if (cases_draw(&cases, 3) == 0)
                flow_flush(&flow, out, columns);
            flow_push(&flow, out, columns, text + cut, strlen(text) - cut);
            flow_flush(&flow, out, columns);
            fprintf(out, "%d", flow.column);
            flow_release(&flow);
        }
        fclose(out);
        cases_bytes(&cases, said, length);
        cases_bytes(&cases, "\n", 1);
        free(said);
    }
    CHECK_CASES(t, &cases, 0xe107e5a1021197b5);
}

static void drafts(struct harness *t)
{
    struct cases cases = cases_begin("drafts");
    struct cells cells = {0};
    for (int n = 0; n < 5000; n++) {
        static const char *const labels[] = {"", "> ", "You: "};
        struct draft draft = {.columns = 1 + (int)cases_draw(&cases, 24), .label = labels[cases_draw(&cases, 3)]};
        char text[600] = "", paste[64] = "";
        for (uint32_t lines = cases_draw(&cases, 4); lines > 0; lines--) {
            some_text(&cases, text + strlen(text), 10);
            strcat(text, "\n");
        }
        some_text(&cases, text + strlen(text), 10);
        if (cases_draw(&cases, 3) == 0) {
            for (uint32_t lines = 6 + cases_draw(&cases, 4); lines > 0; lines--)
                strcat(paste, "x\n");
            draft_pasted(&draft, paste, strlen(paste));
            memmove(text + strlen(paste), text, strlen(text) + 1);
            memcpy(text, paste, strlen(paste));
        }
        size_t length = strlen(text), point = cases_draw(&cases, (uint32_t)length + 1);
        while (point < length && ((unsigned char)text[point] & 0xC0) == 0x80)
            point++;
        if (!CHECK(t, draft_update(&draft, text, length, point)) || !CHECK(t, cells_resize(&cells, 4, 26)))
            break;
        cases_say(&cases, "%d, at %zu: %zu rows, %zu,%d, up %zd, down %zd\n", draft.columns, point, draft.n_rows,
                  draft.cursor_row, draft.cursor_column, (ssize_t)draft_vertical(&draft, -1),
                  (ssize_t)draft_vertical(&draft, 1));
        draft_draw(&draft, &(struct draft_place){.cells = &cells,
                                                 .row = (int)cases_draw(&cases, 2),
                                                 .rows = 1 + (int)cases_draw(&cases, 3),
                                                 .first = cases_draw(&cases, (uint32_t)draft.n_rows),
                                                 .style = STYLE_TEXT,
                                                 .label_style = STYLE_USER});
        say_cells(&cases, &cells);
        draft_release(&draft);
    }
    cells_release(&cells);
    CHECK_CASES(t, &cases, 0x4f72275b52ec8d12);
}

static void say_window(struct cases *cases, struct transcript *transcript, struct cells *cells)
{
    size_t entries[2], begin = transcript_entries(transcript) ? transcript_window_begin(transcript, &entries[0]) : 0,
                       end = transcript_entries(transcript) ? transcript_window_end(transcript, &entries[1]) : 0;
    struct transcript_matches matches = transcript_matches(transcript);
    cases_say(cases, "%zu-%zu, %d %d %%, %zu new, %zu of %zu\n", begin, end, transcript_following(transcript),
              transcript_percent(transcript), transcript_new_rows(transcript), matches.now, matches.count);
    transcript_draw(transcript, cells);
    say_cells(cases, cells);
}

static void one_act(struct cases *cases, struct transcript *transcript)
{
    static const char *const sought[] = {"a", "WORD", "b ", KANJI, "zzz"};
    char text[1024] = "";
    const char *words = sought[cases_draw(cases, 5)];
    switch (cases_draw(cases, 16)) {
    case 0:
    case 1:
    case 2:
    case 3:
        for (uint32_t lines = cases_draw(cases, 6); lines > 0; lines--) {
            some_text(cases, text + strlen(text), 8);
            strcat(text, "\n");
        }
        some_text(cases, text + strlen(text), 8);
        transcript_add(transcript, (enum entry_kind)cases_draw(cases, ENTRY_ERROR + 1), text, strlen(text));
        break;
    case 4:
    case 5:
        some_text(cases, text, 12);
        transcript_append(transcript, text, strlen(text));
        break;
    case 6:
    case 7:
    case 8:
        transcript_scroll(transcript, (long)cases_draw(cases, 17) - 11);
        break;
    case 9:
        transcript_to_begin(transcript);
        break;
    case 10:
        transcript_show_thinking(transcript, (enum thinking_view)cases_draw(cases, 3));
        break;
    case 11:
        transcript_search(transcript, words, strlen(words), cases_draw(cases, 2));
        break;
    case 12:
        transcript_search_next(transcript, cases_draw(cases, 2));
        break;
    case 13:
        transcript_search_end(transcript);
        break;
    case 14:
        transcript_thought(transcript, cases_draw(cases, 3), some_real(cases));
        break;
    default:
        transcript_follow(transcript);
    }
}

// Lives of a conversation on the screen: what is said, moved, folded and looked for.
static void transcripts(struct harness *t)
{
    struct cases cases = cases_begin("transcripts");
    struct cells cells = {0};
    for (int life = 0; life < 200; life++) {
        struct transcript *transcript = transcript_new(life % 2);
        if (!CHECK(t, transcript != NULL))
            break;
        if (life % 5 == 0)
            transcript_begins(transcript);
        for (int act = 0; act < 40; act++) {
            if (act % 8 == 0) {
                int rows = 1 + (int)cases_draw(&cases, 12), columns = 1 + (int)cases_draw(&cases, 40);
                transcript_resize(transcript, rows, columns);
                if (!CHECK(t, cells_resize(&cells, rows, columns)))
                    break;
            }
            one_act(&cases, transcript);
            say_window(&cases, transcript, &cells);
        }
        if (transcript_entries(transcript) > 2)
            transcript_cut(transcript, 2);
        say_window(&cases, transcript, &cells);
        transcript_free(transcript);
    }
    cells_release(&cells);
    CHECK_CASES(t, &cases, 0x8a05b4d30caa4d71);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(markdown), TEST(layouts), TEST(statuses),         TEST(panes),       TEST(heats),
        TEST(wraps),    TEST(drafts),  TEST(tables_and_flows), TEST(transcripts),
    };
    setlocale(LC_CTYPE, "C.UTF-8");
    return HARNESS_RUN(tests, argc, argv);
}
