// SPDX-License-Identifier: GPL-3.0-or-later
// Which copies of states stay when there is no room for all, and sessions that are put back to one: by hand, with
// states and no model.
#include <stdlib.h>

#include "tests/harness.h"
#include "engine/session/session.h"

enum { BYTES = 8 };

static void keep(struct harness *t, struct snapshots *s, uint32_t position, bool border)
{
    char *room = snapshots_room(s, border);
    if (!CHECK(t, room != NULL))
        return;
    memset(room, (int)position, BYTES);
    snapshots_keep(s, room, position, border);
}

static void check_positions(struct harness *t, const struct snapshots *s, const uint32_t *positions, uint32_t n)
{
    if (!CHECK_EQ(t, s->n, n))
        return;
    for (uint32_t i = 0; i < n; i++) {
        CHECK_EQ(t, s->kept[i].position, positions[i]);
        CHECK_EQ(t, s->kept[i].bytes[BYTES - 1], (char)positions[i]);
    }
}
#define CHECK_POSITIONS(t, s, ...)                                                                                     \
    check_positions(t, s, (const uint32_t[]){__VA_ARGS__}, sizeof(const uint32_t[]){__VA_ARGS__} / sizeof(uint32_t))

static void finds_the_last_before(struct harness *t)
{
    struct snapshots s = {.bytes = BYTES, .most = 4};
    CHECK(t, snapshots_find(&s, 100) == NULL);
    keep(t, &s, 30, true);
    keep(t, &s, 10, true);
    keep(t, &s, 20, false);
    CHECK_POSITIONS(t, &s, 10, 20, 30);
    CHECK(t, snapshots_find(&s, 9) == NULL);
    CHECK_EQ(t, snapshots_find(&s, 10)->position, 10);
    CHECK_EQ(t, snapshots_find(&s, 29)->position, 20);
    CHECK_EQ(t, snapshots_find(&s, 1000)->position, 30);
    CHECK(t, !snapshots_mark(&s, 21));
    CHECK(t, snapshots_mark(&s, 20));
    CHECK(t, s.kept[1].border);
    keep(t, &s, 20, false); // again: in its place
    CHECK_POSITIONS(t, &s, 10, 20, 30);
    CHECK(t, s.kept[1].border);
    snapshots_cut(&s, 20);
    CHECK_POSITIONS(t, &s, 10, 20);
    snapshots_cut(&s, 9);
    CHECK_EQ(t, s.n, 0);
    snapshots_release(&s);
}

static void those_within_prompts_go_first(struct harness *t)
{
    struct snapshots s = {.bytes = BYTES, .most = 4};
    keep(t, &s, 10, true);
    keep(t, &s, 20, false);
    keep(t, &s, 30, false);
    keep(t, &s, 40, true);
    keep(t, &s, 50, true);
    CHECK_POSITIONS(t, &s, 10, 30, 40, 50);
    keep(t, &s, 60, false);
    CHECK_POSITIONS(t, &s, 10, 40, 50, 60);
    keep(t, &s, 70, false);
    CHECK_POSITIONS(t, &s, 10, 40, 50, 70);
    snapshots_release(&s);
}

// Turns of one length: every second border goes, and the two newest never.
static void borders_thin_out(struct harness *t)
{
    struct snapshots s = {.bytes = BYTES, .most = 6};
    for (uint32_t i = 1; i <= 6; i++)
        keep(t, &s, 10 * i, true);
    keep(t, &s, 70, true);
    CHECK_POSITIONS(t, &s, 20, 30, 40, 50, 60, 70);
    keep(t, &s, 80, true);
    CHECK_POSITIONS(t, &s, 20, 40, 50, 60, 70, 80);
    keep(t, &s, 90, true);
    CHECK_POSITIONS(t, &s, 20, 40, 60, 70, 80, 90);
    for (uint32_t i = 10; i <= 12; i++) {
        keep(t, &s, 10 * i, true);
        CHECK_EQ(t, s.kept[4].position, 10 * (i - 1));
        CHECK_EQ(t, s.kept[5].position, 10 * i);
    }
    snapshots_release(&s);
}

static void the_two_newest_borders_stay(struct harness *t)
{
    struct snapshots s = {.bytes = BYTES, .most = SNAPSHOTS_LEAST};
    keep(t, &s, 10, true);
    keep(t, &s, 20, true);
    CHECK(t, snapshots_room(&s, false) == NULL);
    CHECK_POSITIONS(t, &s, 10, 20);
    keep(t, &s, 30, true);
    CHECK_POSITIONS(t, &s, 20, 30);
    snapshots_release(&s);
}

// A session of three layers: rows alone, states alone, both.
struct rig {
    struct moe_model model;
    moe_session session;
    struct layer_memory layers[3];
};

static void open_rig(struct harness *t, struct rig *rig, uint32_t most)
{
    static const struct mixer_needs needs[3] = {
        {.rows = {4, 2}}, {.states = {5000, 7}}, {.rows = {3}, .states = {0, 33}}};
    struct gpu_error err;
    *rig = (struct rig){.model.gpu = gpu_open(&(struct gpu_options){.selector = "ref"}, &err)};
    CHECK(t, rig->model.gpu != NULL);
    rig->session.model = &rig->model;
    struct memory *memory = &rig->session.memory;
    *memory = (struct memory){.layers = rig->layers, .n_layers = 3, .max_rows = 100};
    rig->session.snapshots = (struct snapshots){.most = most};
    for (int i = 0; i < 3; i++) {
        rig->layers[i].needs = needs[i];
        for (int k = 0; k < MIXER_STATES; k++)
            for (int half = 0; half < 2 && needs[i].states[k]; half++)
                rig->layers[i].states[half][k] = gpu_buf_new(rig->model.gpu, needs[i].states[k] * 4, &err);
        rig->session.snapshots.bytes += 4 * (needs[i].states[0] + needs[i].states[1]);
    }
    memory_clear(rig->model.gpu, memory);
    memory_commit(memory);
}

static void close_rig(struct rig *rig)
{
    snapshots_release(&rig->session.snapshots);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 2 * MIXER_STATES; k++)
            gpu_buf_free(rig->layers[i].states[k % 2][k / 2]);
    gpu_close(rig->model.gpu);
}

static float value_at(uint32_t layer, uint32_t which, uint32_t i, uint32_t position)
{
    return position ? (float)(layer * 1000000 + which * 100000 + i * 10) + (float)position : 0;
}

// What a pass does: writes the half that is not committed, all of it.
static void write_states(struct rig *rig, uint32_t position)
{
    static float values[5000];
    for (uint32_t layer = 0; layer < 3; layer++)
        for (uint32_t k = 0; k < MIXER_STATES; k++) {
            uint32_t n = (uint32_t)rig->layers[layer].needs.states[k];
            for (uint32_t i = 0; i < n; i++)
                values[i] = value_at(layer, k, i, position);
            if (n)
                gpu_write(rig->model.gpu, memory_state(&rig->session.memory, layer, k, false).to, 0, values, 4 * n);
        }
}

static void step(struct rig *rig, uint32_t position)
{
    write_states(rig, position);
    memory_commit(&rig->session.memory);
    rig->session.length = rig->session.stands = position;
}

static void check_states(struct harness *t, struct rig *rig, uint32_t position)
{
    static float values[5000];
    struct gpu_error err;
    CHECK_EQ(t, rig->session.stands, position);
    for (uint32_t layer = 0; layer < 3; layer++)
        for (uint32_t k = 0; k < MIXER_STATES; k++) {
            uint32_t n = (uint32_t)rig->layers[layer].needs.states[k], wrong = 0;
            gpu_buf *from = memory_state(&rig->session.memory, layer, k, false).from;
            if (n)
                CHECK_EQ(t, gpu_read(rig->model.gpu, from, 0, values, 4 * n, &err), 0);
            for (uint32_t i = 0; i < n; i++)
                wrong += values[i] != value_at(layer, k, i, position);
            CHECK_EQ(t, wrong, 0);
        }
}

static void what_stops_a_group_leaves_the_states(struct harness *t)
{
    struct rig rig;
    open_rig(t, &rig, 4);
    check_states(t, &rig, 0);
    step(&rig, 5);
    check_states(t, &rig, 5);
    write_states(&rig, 9); // and no commit
    check_states(t, &rig, 5);
    struct state_halves halves = memory_state(&rig.session.memory, 1, 0, true); // a later chunk
    CHECK(t, halves.from == halves.to && halves.to != memory_state(&rig.session.memory, 1, 0, false).from);
    close_rig(&rig);
}

static int cut(moe_session *session, uint32_t length, struct moe_err *err)
{
    int code = session_cut_states(session, length, err);
    session->length = code ? session->length : length;
    return code;
}

static void a_cut_goes_to_a_floor_and_back(struct harness *t)
{
    struct rig rig;
    struct moe_err err;
    open_rig(t, &rig, 4);
    moe_session *session = &rig.session;
    CHECK_EQ(t, session_remember(session, true, &err), 0);
    CHECK_EQ(t, session->snapshots.n, 0); // position 0 costs nothing
    step(&rig, 10);
    CHECK_EQ(t, session_remember(session, true, &err), 0);
    CHECK_EQ(t, session_remember(session, true, &err), 0);
    CHECK_EQ(t, session->snapshots.n, 1);
    step(&rig, 20);
    step(&rig, 25);
    CHECK_EQ(t, session_remember(session, false, &err), 0);
    step(&rig, 30);
    CHECK_EQ(t, moe_session_floor(session, 1000), 30);
    CHECK_EQ(t, moe_session_floor(session, 29), 25);
    CHECK_EQ(t, moe_session_floor(session, 24), 10);
    CHECK_EQ(t, moe_session_floor(session, 9), 0);
    CHECK_EQ(t, cut(session, 20, &err), MOE_POSITION);
    CHECK_STR(t, err.text, "cannot cut a session of 30 tokens to 20: its states are kept after 10");
    CHECK_EQ(t, session->length, 30);
    check_states(t, &rig, 30);
    CHECK_EQ(t, cut(session, 25, &err), 0);
    check_states(t, &rig, 25);
    step(&rig, 40);
    CHECK_EQ(t, cut(session, 10, &err), 0);
    check_states(t, &rig, 10);
    CHECK_EQ(t, moe_session_floor(session, 1000), 10); // what was behind it is forgotten
    CHECK_EQ(t, session->snapshots.n, 1);
    step(&rig, 50);
    CHECK_EQ(t, cut(session, 0, &err), 0);
    check_states(t, &rig, 0);
    CHECK_EQ(t, session->snapshots.n, 0);
    close_rig(&rig);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(finds_the_last_before),
        TEST(those_within_prompts_go_first),
        TEST(borders_thin_out),
        TEST(the_two_newest_borders_stay),
        TEST(what_stops_a_group_leaves_the_states),
        TEST(a_cut_goes_to_a_floor_and_back),
    };
    return HARNESS_RUN(tests, argc, argv);
}
