// SPDX-License-Identifier: GPL-3.0-or-later
// Which copies of states stay when there is no room for all, and sessions that are put back to one: by hand, with
// states and no model.
#include <stdlib.h>

#include "tests/harness.h"
#include "engine/session/session.h"
#include "tests/states_rig.h"

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

// Several rooms at a time: they count as if they were kept, and the last copy goes for none.
static void rooms_count(struct harness *t)
{
    struct snapshots s = {.bytes = BYTES, .most = 3};
    keep(t, &s, 10, true);
    keep(t, &s, 20, true);
    char *rooms[2] = {snapshots_room(&s, true), snapshots_room(&s, true)};
    CHECK(t, rooms[0] && rooms[1]);
    CHECK_POSITIONS(t, &s, 20);
    CHECK(t, snapshots_room(&s, true) == NULL);
    snapshots_give_back(&s, rooms[1]);
    rooms[1] = snapshots_room(&s, true);
    for (int i = 0; i < 2 && rooms[i]; i++) {
        memset(rooms[i], 30 + i, BYTES);
        snapshots_keep(&s, rooms[i], 30 + (uint32_t)i, true);
    }
    CHECK_POSITIONS(t, &s, 20, 30, 31);
    keep(t, &s, 40, true);
    CHECK_EQ(t, s.n, 3);
    snapshots_release(&s);
}

static void what_stops_a_group_leaves_the_states(struct harness *t)
{
    struct rig rig;
    rig_open(t, &rig, 4);
    rig_check_states(t, &rig, 0);
    rig_step(&rig, 5);
    rig_check_states(t, &rig, 5);
    rig_write(&rig, 9); // and no commit
    rig_check_states(t, &rig, 5);
    struct state_halves halves = memory_state(&rig.session.memory, 1, 0, true); // a later chunk
    CHECK(t, halves.from == halves.to && halves.to != memory_state(&rig.session.memory, 1, 0, false).from);
    rig_close(&rig);
}

static void a_cut_goes_to_a_floor_and_back(struct harness *t)
{
    struct rig rig;
    struct moe_err err;
    rig_open(t, &rig, 4);
    moe_session *session = &rig.session;
    CHECK_EQ(t, session_remember(session, true, &err), 0);
    CHECK_EQ(t, session->snapshots.n, 0); // position 0 costs nothing
    rig_step(&rig, 10);
    CHECK_EQ(t, session_remember(session, true, &err), 0);
    CHECK_EQ(t, session_remember(session, true, &err), 0);
    CHECK_EQ(t, session->snapshots.n, 1);
    rig_step(&rig, 20);
    rig_step(&rig, 25);
    CHECK_EQ(t, session_remember(session, false, &err), 0);
    rig_step(&rig, 30);
    CHECK_EQ(t, moe_session_floor(session, 1000), 30);
    CHECK_EQ(t, moe_session_floor(session, 29), 25);
    CHECK_EQ(t, moe_session_floor(session, 24), 10);
    CHECK_EQ(t, moe_session_floor(session, 9), 0);
    CHECK_EQ(t, rig_cut(session, 20, &err), MOE_POSITION);
    CHECK_STR(t, err.text, "cannot cut a session of 30 tokens to 20: its states are kept after 10");
    CHECK_EQ(t, session->length, 30);
    rig_check_states(t, &rig, 30);
    CHECK_EQ(t, rig_cut(session, 25, &err), 0);
    rig_check_states(t, &rig, 25);
    rig_step(&rig, 40);
    CHECK_EQ(t, rig_cut(session, 10, &err), 0);
    rig_check_states(t, &rig, 10);
    CHECK_EQ(t, moe_session_floor(session, 1000), 10); // what was behind it is forgotten
    CHECK_EQ(t, session->snapshots.n, 1);
    rig_step(&rig, 50);
    CHECK_EQ(t, rig_cut(session, 0, &err), 0);
    rig_check_states(t, &rig, 0);
    CHECK_EQ(t, session->snapshots.n, 0);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(finds_the_last_before),
        TEST(those_within_prompts_go_first),
        TEST(borders_thin_out),
        TEST(the_two_newest_borders_stay),
        TEST(rooms_count),
        TEST(what_stops_a_group_leaves_the_states),
        TEST(a_cut_goes_to_a_floor_and_back),
    };
    return HARNESS_RUN(tests, argc, argv);
}
