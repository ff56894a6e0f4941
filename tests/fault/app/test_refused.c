// SPDX-License-Identifier: GPL-3.0-or-later
// Each allocation of a call refused, one after the other: the call says so, and what it worked on is as before or as
// its header has it. The whole program is refused them one by one in tests/screens/test_no_memory.py; here are the
// parts that a chat has and a command has not.
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "app/driver/answer_text.h"
#include "app/driver/backend.h"
#include "app/driver/queue.h"
#include "app/driver/stops.h"
#include "app/figures/figures.h"
#include "app/figures/hit_curve.h"
#include "app/store/branches.h"
#include "app/store/history.h"
#include "app/talk/candidates.h"
#include "app/talk/chat.h"
#include "app/talk/export.h"
#include "app/view/draft.h"
#include "app/view/transcript.h"
#include "tests/harness.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *block, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *block, size_t size);
ssize_t __real_read(int fd, void *to, size_t length);
ssize_t __real_write(int fd, const void *from, size_t length);
ssize_t __wrap_read(int fd, void *to, size_t length);
ssize_t __wrap_write(int fd, const void *from, size_t length);

static struct {
    unsigned left;       // that are granted yet
    bool armed, refused; // one was
} memory;

static int interrupted; // how many reads and writes end for a signal yet

static bool interrupt(void)
{
    if (interrupted == 0)
        return false;
    interrupted--;
    errno = EINTR;
    return true;
}

ssize_t __wrap_read(int fd, void *to, size_t length)
{
    return interrupt() ? -1 : __real_read(fd, to, length);
}

ssize_t __wrap_write(int fd, const void *from, size_t length)
{
    return interrupt() ? -1 : __real_write(fd, from, length);
}

static bool refuse(void)
{
    if (!memory.armed || memory.refused || memory.left-- > 0)
        return false;
    memory.refused = true;
    errno = ENOMEM;
    return true;
}

void *__wrap_malloc(size_t size)
{
    return refuse() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return refuse() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *block, size_t size)
{
    return refuse() ? NULL : __real_realloc(block, size);
}

static bool end(bool done)
{
    memory.armed = false;
    return done;
}
#define ARMED(call) (memory.armed = true, end(call))

// Tries `act` with each of its allocations refused, then with none. It returns whether all was said to be done.
static void each_refused(struct harness *t, bool (*act)(struct harness *t))
{
    for (unsigned n = 0; n < 1000; n++) {
        memory.left = n;
        memory.refused = false;
        bool done = act(t);
        if (!CHECK_EQ(t, done, !memory.refused))
            printf("    allocation %u\n", n);
        if (!memory.refused) {
            CHECK(t, n > 0); // there was one to refuse
            return;
        }
    }
    CHECK(t, false && "it ends");
}

static bool make_turn(struct harness *t)
{
    size_t n = 0;
    uint32_t left = 0;
    memory.armed = true;
    struct turn *turn = turn_new();
    while (turn && n < 5 && turn_add(turn, TOK_USER, "hi", 2))
        n++;
    while (turn && n == 5 && left < 5 && turn_leaves(turn, left))
        left++;
    memory.armed = false;
    CHECK(t, !turn || (turn->n_turns == n && turn->n_left == left));
    for (size_t i = 0; i < n; i++)
        CHECK(t, turn->turns[i].length == 2 && strcmp(turn->turns[i].text, "hi") == 0);
    turn_free(turn);
    return n == 5 && left == 5;
}

static void turns(struct harness *t)
{
    each_refused(t, make_turn);
}

static bool read_script(struct harness *t)
{
    static const char script[] =
        "experts 2 4 2\nturn\ntext one two\ntoken a\nrepeat 3 b\necho\ncount 1 2 3\nturn\nhang\n";
    char name[] = "/tmp/moechat-refused-XXXXXX";
    struct backend backend;
    struct moe_err err = {.text = ""};
    int fd = mkstemp(name);
    CHECK_EQ(t, files_write(fd, script, strlen(script)), 0);
    close(fd);
    bool made = ARMED(backend_fake_new(&backend, name, &err));
    unlink(name);
    CHECK_EQ(t, *err.text != 0, !made);
    if (made)
        backend.ops->close(backend.self);
    return made;
}

static void scripts(struct harness *t)
{
    each_refused(t, read_script);
}

static bool take_figures(struct harness *t)
{
    static const struct moe_layer_record layers[2] = {{.layer = 1}, {.layer = 2}};
    static const uint32_t heat[8] = {1, 2};
    const struct moe_telemetry step = {.step = 1,
                                       .rows = 1,
                                       .total_ns = 5,
                                       .n_moe_layers = 2,
                                       .first_moe_layer = 1,
                                       .top_k = 2,
                                       .n_routed_experts = 4,
                                       .layers = layers};
    struct figures figures = {0}, copy = {0};
    memory.armed = true;
    bool taken = figures_take(&figures, &step, false, heat);
    bool copied = figures_copy(&copy, &figures);
    memory.armed = false;
    CHECK(t, taken || (!figures.last && !figures.heat && figures_take(&figures, &step, false, heat)));
    CHECK(t, copied || figures_copy(&copy, &figures));
    CHECK(t, figures.last && figures.last->total_ns == 5 && figures.sums[FIGURES_TURN]->total_ns == 5);
    CHECK(t, copy.last && copy.sums[FIGURES_TURN]->total_ns == 5 && copy.heat[1] == 2);
    figures_release(&figures);
    figures_release(&copy);
    return taken && copied;
}

static bool open_curve(struct harness *t)
{
    struct hit_curve curve = {0};
    bool made = ARMED(hit_curve_open(&curve, 10));
    if (made)
        hit_curve_use(&curve, 9);
    CHECK_EQ(t, hit_curve_share(&curve, 5) >= 0, made);
    hit_curve_release(&curve);
    return made;
}

static void figures(struct harness *t)
{
    each_refused(t, take_figures);
    each_refused(t, open_curve);
}

// A conversation of four parts with rows, and another answer to its first message.
static void fill_manifest(struct manifest *manifest)
{
    *manifest = (struct manifest){.next_part = 5, .created = 1, .updated = 2};
    for (uint32_t i = 0; i < 4; i++) {
        struct manifest_part part = {
            .number = i, .tokens = 3, .after = (int64_t)i - 1, .role = i % 2 ? TOK_ASSISTANT : TOK_USER};
        manifest_add_part(manifest, &part);
        manifest_add_record(manifest, &(struct moe_record){.first = 3 * i, .count = 3, .offset = 8 * i, .bytes = 8});
    }
    manifest_add_other(manifest, &(struct manifest_part){.number = 4, .tokens = 2, .role = TOK_ASSISTANT});
    memset(manifest->parts + manifest->n_parts, 0xff,
           (manifest->parts_room - manifest->n_parts) * sizeof *manifest->parts);
}

// Each part that is there follows one that is.
static void check_manifest(struct harness *t, const struct manifest *manifest)
{
    for (size_t i = 0; i < manifest->n_others; i++) {
        int64_t after = manifest->others[i].after;
        CHECK(t, after == PART_NONE || manifest_find(manifest, after));
    }
    for (size_t i = 0; i < manifest->n_other_records; i++)
        CHECK(t, manifest_find(manifest, manifest->other_records[i].part) != NULL);
    CHECK(t, manifest_rows(manifest) <= manifest_tokens(manifest));
}

// What is taken back, or gone away from, is kept whatever there is no memory for.
static void cut_branches(struct harness *t)
{
    for (int32_t last = -1; last < 5; last++)
        for (size_t n_parts = 0; n_parts < 6; n_parts++) {
            struct manifest manifest;
            fill_manifest(&manifest);
            memory.left = 0;
            memory.refused = false;
            memory.armed = true;
            branches_cut(&manifest, n_parts);
            CHECK_EQ(t, manifest_rows(&manifest), 3 * (n_parts < 4 ? n_parts : 4));
            bool went = branches_go(&manifest, last);
            memory.armed = false;
            CHECK(t, went && !memory.refused);
            CHECK_EQ(t, manifest.n_parts, last < 4 ? last + 1 : 2);
            CHECK_EQ(t, manifest.n_parts + manifest.n_others, 5);
            CHECK_EQ(t, manifest_rows(&manifest), last < 4 ? 3 * (last + 1) : 3);
            CHECK_EQ(t, manifest.n_records + manifest.n_other_records, 4);
            for (size_t i = 1; i < manifest.n_others; i++)
                CHECK(t, manifest.others[i - 1].number < manifest.others[i].number);
            check_manifest(t, &manifest);
            manifest_release(&manifest);
        }
}

static bool write_manifest(struct harness *t)
{
    struct manifest manifest, back = {0};
    struct bytes file = {0};
    fill_manifest(&manifest);
    memory.armed = true;
    bool made = manifest_render(&manifest, &file);
    const char *wrong = made ? manifest_parse(file.data, file.length, &back) : NULL;
    memory.armed = false;
    CHECK(t, !wrong || wrong == manifest_no_memory);
    CHECK(t, !made || wrong || back.n_parts == 4);
    manifest_release(&back);
    manifest_release(&manifest);
    bytes_release(&file);
    return made && !wrong;
}

static bool write_part(struct harness *t)
{
    struct part part = {.number = 1, .after = 0, .role = TOK_ASSISTANT, .made.stop = "end"}, back = {.number = 0};
    struct bytes line = {0};
    struct part_lines lines = {0};
    struct tok_err err;
    uint64_t sum;
    CHECK(t, bytes_append(&part.text, "a\xff", 2) && tok_ids_append(&part.ids, 5, &err) == 0);
    memory.armed = true;
    bool made = part_render(&part, &line), read = made && part_parse(line.data, line.length - 1, &back, &sum);
    bool scanned = read && part_lines_scan(&line, &lines);
    memory.armed = false;
    CHECK(t, made || line.length == 0);
    CHECK(t, !read || (back.ids.count == 1 && back.text.length == 2));
    CHECK(t, !scanned || lines.n_lines == 1);
    part_lines_release(&lines);
    part_release(&back);
    part_release(&part);
    bytes_release(&line);
    return scanned;
}

static void what_is_saved(struct harness *t)
{
    cut_branches(t);
    each_refused(t, write_manifest);
    each_refused(t, write_part);
}

static bool ask(struct harness *t)
{
    struct chat chat = {0};
    memory.armed = true;
    bool set = chat_set_system(&chat, "be kind", 7);
    struct turn *turn = set ? chat_request(&chat, "one", 3) : NULL;
    memory.armed = false;
    CHECK_EQ(t, chat.n_turns, turn ? 2 : set); // as before
    CHECK(t, !turn || turn->n_turns == 2);
    bool done = turn;
    turn_free(turn);
    if (!done && CHECK(t, chat_set_system(&chat, "be kind", 7) && (turn = chat_request(&chat, "one", 3)) != NULL)) {
        CHECK(t, turn->n_turns == 2 && chat_exchanges(&chat) == 1);
        turn_free(turn);
    }
    chat_release(&chat);
    return done;
}

static bool restore(struct harness *t)
{
    static const enum tok_role roles[] = {TOK_SYSTEM, TOK_USER, TOK_ASSISTANT, TOK_USER, TOK_ASSISTANT};
    struct part parts[5] = {{.number = 0}};
    struct chat chat = {0};
    struct tok_err err;
    struct bytes out = {0};
    struct tok_ids ids = {0};
    for (uint32_t i = 0; i < 5; i++) {
        parts[i] = (struct part){.number = i, .after = (int64_t)i - 1, .role = roles[i]};
        CHECK(t, bytes_append(&parts[i].text, "text", 4) && tok_ids_append(&parts[i].ids, 7, &err) == 0);
    }
    memory.armed = true;
    bool all = chat_restore(&chat, parts, 3) && chat_restore_others(&chat, parts + 3, 2, &parts[0].language);
    bool done = all && chat_timeline(&chat, &ids) && chat_go(&chat, 4) && chat_go(&chat, 2) && chat_go(&chat, 4) &&
                export_chat(&out, EXPORT_MARKDOWN, &(struct export_head){"zoe", "demo"}, &chat);
    memory.armed = false;
    CHECK(t, !all || chat.n_turns + chat.n_others == 5); // wherever one goes, none is lost
    CHECK(t, !done || (chat.n_turns == 5 && ids.count == 3 && strstr(out.data, "text")));
    for (size_t i = 0; i < 5; i++)
        part_release(&parts[i]);
    tok_ids_release(&ids);
    bytes_release(&out);
    chat_release(&chat);
    return done;
}

static bool accept(struct harness *t)
{
    struct chat chat = {0};
    struct turn *turn = chat_request(&chat, "one", 3);
    struct turn_result result = {.kept = true, .noted = true, .n_prompt_ends = 1, .context_used = 3};
    struct bytes answer = {0}, text = {0};
    struct tok_err err;
    result.prompt_ends = calloc(1, sizeof *result.prompt_ends);
    if (!CHECK(t, turn && result.prompt_ends && tok_ids_append(&result.prompt, 1, &err) == 0 &&
                      tok_ids_append(&result.answer, 2, &err) == 0 && tok_ids_append(&result.answer, 3, &err) == 0 &&
                      bytes_append(&answer, "first", 5)))
        return false;
    *result.prompt_ends = 1;
    memory.armed = true;
    bool done = chat_accept(&chat, &result, &answer), taken = done && chat_take_last(&chat, &text);
    memory.armed = false;
    bool all = taken && chat.n_others == 2; // else they are forgotten here, and the text is had all the same
    CHECK(t, !taken || (chat.n_turns == 0 && text.length == 3 && memcmp(text.data, "one", 3) == 0));
    CHECK(t, !done || taken || chat.n_turns == 2); // what can't be taken stays
    bytes_release(&text);
    bytes_release(&answer);
    tok_ids_release(&result.prompt);
    tok_ids_release(&result.answer);
    free(result.prompt_ends);
    turn_free(turn);
    chat_release(&chat);
    return all;
}

static bool say(struct harness *t)
{
    struct backend backend = {.ops = NULL};
    struct moe_err err;
    struct queue *events = queue_new(sizeof(struct event), 16);
    struct bytes said = {0};
    struct texts stop = {"END"};
    char name[] = "/tmp/moechat-refused-XXXXXX", script[500] = "turn\ntoken ";
    memset(script + strlen(script), 'x', 400); // longer than what is there for short ones
    int fd = mkstemp(name);
    CHECK_EQ(t, files_write(fd, script, strlen(script)), 0);
    close(fd);
    CHECK(t, events && backend_fake_new(&backend, name, &err));
    unlink(name);
    struct answer_text text = {.backend = &backend, .events = events};
    memory.armed = true;
    bool done = answer_text_begin(&text, &said, &(struct answer_begins){.opened = "", .stop = &stop}) &&
                answer_text_push(&text, 301) && answer_text_push(&text, 'E') && answer_text_end(&text);
    memory.armed = false;
    CHECK(t, !done || (said.length == 401 && said.data[400] == 'E'));
    struct event event;
    size_t came = 0;
    while (queue_pop(events, &event))
        came += event.kind == EVENT_TEXT ? event.text.length : 0;
    CHECK(t, !done || came == 401);
    answer_text_release(&text);
    bytes_release(&said);
    queue_free(events);
    backend.ops->close(backend.self);
    return done;
}

// A conversation with other branches, in each format: all of it or nothing.
static bool export(struct harness *t)
{
    static struct chat_turn way[] = {{.role = TOK_USER, .text = {.data = "one", .length = 3}, .after = PART_NONE},
                                     {.role = TOK_ASSISTANT, .text = {.data = "a\xff", .length = 2}, .number = 1}};
    static struct chat_turn aside[] = {{.role = TOK_ASSISTANT, .text = {.data = "b", .length = 1}, .number = 2},
                                       {.role = TOK_USER, .text = {.data = "c", .length = 1}, .number = 3, .after = 2}};
    static const struct chat chat = {.turns = way, .n_turns = 2, .others = aside, .n_others = 2};
    const struct export_head head = {"name", "model"};
    bool all = true;
    for (enum export_format format = EXPORT_MARKDOWN; format <= EXPORT_TEXT; format++) {
        struct bytes out = {0}, want = {0};
        bool done = ARMED(export_chat(&out, format, &head, &chat));
        CHECK(t, export_chat(&want, format, &head, &chat));
        CHECK(t, !done || (out.length == want.length && memcmp(out.data, want.data, want.length) == 0));
        all = all && done;
        bytes_release(&out);
        bytes_release(&want);
    }
    return all;
}

static bool complete(struct harness *t)
{
    static const char *const names[] = {"zoe", "tree", "trip", "true"};
    struct candidates found = {0};
    bool any = ARMED(candidates_find(&found, "/load t", 7, &(struct candidate_names){names, 4}));
    size_t count = found.count;
    CHECK_EQ(t, any, count > 0);
    for (size_t i = 0; i < count; i++) // each is whole
        CHECK(t, *found.words[i] == 't' && strlen(found.words[i]) == 4);
    candidates_release(&found);
    return count == 3 && !memory.refused; // one that is refused may be of a word that is not meant
}

static bool remember(struct harness *t)
{
    struct history history = {0};
    memory.armed = true;
    bool done = history_add(&history, NULL, "one", 3) == 0 && history_add(&history, NULL, "two", 3) == 0 &&
                history_add(&history, NULL, "one", 3) == 0;
    memory.armed = false;
    for (size_t i = 0; i < history.count; i++)
        CHECK(t, strlen(history.entries[i]) == 3);
    CHECK(t, !done || (history.count == 2 && strcmp(history.entries[1], "one") == 0));
    history_release(&history);
    return done;
}

static void conversations(struct harness *t)
{
    each_refused(t, ask);
    each_refused(t, restore);
    each_refused(t, accept);
    each_refused(t, say);
    each_refused(t, complete);
    each_refused(t, export);
    each_refused(t, remember);
}

static bool show(struct harness *t)
{
    memory.armed = true;
    struct transcript *transcript = transcript_new(true);
    bool done = transcript && transcript_add(transcript, ENTRY_USER, "hi", 2) &&
                transcript_add(transcript, ENTRY_ASSISTANT, "- a **b**\n- c\n", 14) &&
                transcript_add(transcript, ENTRY_NOTICE, "1 %", 3) && transcript_style_likely(transcript);
    memory.armed = false;
    CHECK(t, !done || transcript_entries(transcript) == 3);
    if (transcript) { // what is missing is missing; nothing else happens
        struct cells cells = {0};
        transcript_resize(transcript, 5, 20);
        CHECK(t, cells_resize(&cells, 5, 20));
        transcript_draw(transcript, &cells);
        cells_release(&cells);
        transcript_free(transcript);
    }
    return done;
}

static bool edit(struct harness *t)
{
    struct draft draft = {.columns = 10, .label = "> "};
    bool done = ARMED(draft_update(&draft, "some words\nand more of them", 27, 3));
    CHECK(t, done ? draft.n_rows > 2 : draft.n_rows == 0 || draft.length == 0);
    CHECK(t, draft_update(&draft, "some words\nand more of them", 27, 3) && draft.n_rows > 2);
    draft_release(&draft);
    return done;
}

static bool make_cells(struct harness *t)
{
    struct cells cells = {0};
    bool done = ARMED(cells_resize(&cells, 4, 9));
    CHECK(t, done ? cells.rows == 4 && cells.columns == 9 : cells.rows == 0 && cells.columns == 0);
    cells_release(&cells);
    return done;
}

static bool hold_back(struct harness *t)
{
    struct stops stops = {0};
    size_t ready;
    stops_begin(&stops, &(struct texts){"END"});
    bool done = ARMED(stops_push(&stops, "text E", 6, &ready));
    CHECK_EQ(t, ready, done ? 5 : 0);
    stops_release(&stops);
    return done;
}

static bool make_queue(struct harness *t)
{
    memory.armed = true;
    struct queue *queue = queue_new(8, 4);
    memory.armed = false;
    CHECK(t, !queue || queue_push(queue, "1234567", NULL));
    if (queue)
        queue_free(queue);
    return queue;
}

// The byte that wakes a face is not lost to a signal.
static void interrupted_queue(struct harness *t)
{
    struct queue *queue = queue_new(8, 4);
    char got[8];
    interrupted = 2;
    CHECK(t, queue && queue_push(queue, "1234567", NULL) && interrupted == 0);
    interrupted = 2;
    CHECK(t, queue_pop(queue, got) && strcmp(got, "1234567") == 0 && interrupted == 0);
    CHECK(t, !queue_pop(queue, got));
    queue_free(queue);
}

static void screens(struct harness *t)
{
    each_refused(t, show);
    each_refused(t, edit);
    each_refused(t, make_cells);
    each_refused(t, hold_back);
    each_refused(t, make_queue);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(turns),         TEST(scripts), TEST(figures),           TEST(what_is_saved),
        TEST(conversations), TEST(screens), TEST(interrupted_queue),
    };
    return HARNESS_RUN(tests, argc, argv);
}
