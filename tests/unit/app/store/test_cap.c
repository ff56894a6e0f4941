// SPDX-License-Identifier: GPL-3.0-or-later
// --kv-cap: whose rows go when all sessions need more than there is to be, and that it is said.
#include "tests/store_place.h"

static void the_cap_drops_the_oldest_rows(struct harness *t)
{
    struct place *p = open_place();
    struct saved *old = new_session(t, p, "old"), *saved;
    exchange(t, p, old, "one", "first");
    uint64_t bytes = p->engine.length * sizeof(uint64_t);
    saved_close(old);
    p->store.kv_cap = bytes + 8;
    p->engine.length = 0;
    saved = new_session(t, p, "new");
    CHECK(t, rig_append(saved, TOK_USER, "ab", &p->engine));
    struct saved_rows rows = rig_rows(&p->engine);
    CHECK_EQ(t, saved_commit(saved, &rows, &p->error), STORE_OK);
    CHECK(t, strstr(p->error.text, "\"old\"") && strstr(p->error.text, "--kv-cap"));
    check_session(t, p, "old", "one|first", false);
    p->store.kv_cap = 8;
    CHECK(t, rig_append(saved, TOK_ASSISTANT, "c", &p->engine));
    rows = rig_rows(&p->engine);
    CHECK_EQ(t, saved_commit(saved, &rows, &p->error), STORE_OK);
    CHECK(t, strstr(p->error.text, "only the text is saved") != NULL);
    saved_close(saved);
    check_session(t, p, "new", "ab|c", false);
    CHECK_EQ(t, store_kv_bytes(&p->store, "new"), 0);
    close_place(p);
}

// Lowered since they were saved: what others have goes for rows that are kept, not for text. With 0 none are kept.
static void text_takes_no_rows_from_others(struct harness *t)
{
    for (int act = 0; act < 3; act++) {
        struct place *p = open_place();
        struct saved *saved = new_session(t, p, "old");
        exchange(t, p, saved, "one", "first");
        saved_close(saved);
        uint64_t bytes = store_kv_bytes(&p->store, "old");
        struct rig_engine *engine = rig_engine_new(false);
        *engine = p->engine;
        bool kept = act < 2;
        p->store.kv_cap = act == 0 ? 0 : bytes - 1;
        saved = new_session(t, p, "new");
        p->engine.length = 0;
        CHECK(t, rig_append(saved, TOK_USER, "ab", &p->engine));
        struct saved_rows rows = rig_rows(&p->engine);
        CHECK_EQ(t, saved_commit(saved, act == 1 ? NULL : &rows, &p->error), STORE_OK);
        CHECK_EQ(t, strstr(p->error.text, "\"old\"") != NULL, !kept);
        CHECK_EQ(t, store_kv_bytes(&p->store, "old"), kept ? bytes : 0);
        CHECK_EQ(t, store_kv_bytes(&p->store, "new") > 0, act == 2);
        saved_close(saved);
        p->engine = *engine;
        free(engine);
        check_session(t, p, "old", "one|first", kept);
        close_place(p);
    }
}

static void states_count_for_the_cap(struct harness *t)
{
    struct place *p = open_place();
    struct saved *saved = new_session(t, p, "old");
    p->engine.states = true;
    exchange(t, p, saved, "ab", "c");
    CHECK_EQ(t, store_kv_bytes(&p->store, "old"), (5 + 2) * sizeof(uint64_t));
    saved_close(saved);
    p->store.kv_cap = (5 + 2 + 3) * sizeof(uint64_t);
    p->engine.length = 0;
    saved = new_session(t, p, "new");
    CHECK(t, rig_append(saved, TOK_USER, "ab", &p->engine));
    struct saved_rows rows = rig_rows(&p->engine);
    CHECK_EQ(t, saved_commit(saved, &rows, &p->error), STORE_OK);
    CHECK(t, strstr(p->error.text, "\"old\"") != NULL);
    CHECK_EQ(t, store_kv_bytes(&p->store, "old"), 0);
    p->store.kv_cap = 3 * sizeof(uint64_t);
    CHECK(t, rig_append(saved, TOK_ASSISTANT, "c", &p->engine));
    rows = rig_rows(&p->engine);
    CHECK_EQ(t, saved_commit(saved, &rows, &p->error), STORE_OK);
    CHECK(t, strstr(p->error.text, "only the text is saved") != NULL);
    CHECK_EQ(t, store_kv_bytes(&p->store, "new"), 0);
    saved_close(saved);
    close_place(p);
}

#define ROWS(n) ((n) * sizeof(uint64_t))

// Saves a message whose rows push others out.
static void push(struct harness *t, struct place *p, const char *name, const char *text)
{
    struct saved *saved = new_session(t, p, name);
    p->engine.length = 0;
    CHECK(t, rig_append(saved, TOK_USER, text, &p->engine));
    struct saved_rows rows = rig_rows(&p->engine);
    CHECK_EQ(t, saved_commit(saved, &rows, &p->error), STORE_OK);
    saved_close(saved);
}

// A session of a user's "ab" and an answer, closed; with "c" it has 5 rows.
static void keep_session(struct harness *t, struct place *p, const char *name, const char *answer)
{
    struct saved *saved = new_session(t, p, name);
    p->engine.length = 0;
    exchange(t, p, saved, "ab", answer);
    saved_close(saved);
}

// One that does not fit by itself takes nothing from others: nothing of it would be kept.
static void what_is_over_the_cap_takes_nothing_from_others(struct harness *t)
{
    struct place *p = open_place();
    keep_session(t, p, "a1", "c");
    keep_session(t, p, "a2", "c");
    p->store.kv_cap = 2 * ROWS(5) + ROWS(1);
    push(t, p, "big", "a message that is longer than both");
    CHECK_STR(t, p->error.text,
              "the KV cache of this conversation reached 280 B, over --kv-cap (88 B; 560 would have kept it); only the "
              "text is "
              "saved");
    CHECK_EQ(t, store_kv_bytes(&p->store, "big"), 0);
    CHECK_EQ(t, store_kv_bytes(&p->store, "a1"), ROWS(5));
    CHECK_EQ(t, store_kv_bytes(&p->store, "a2"), ROWS(5));
    check_session(t, p, "big", "a message that is longer than both", false);
    close_place(p);
}

// What a save says after one more message of 4 rows.
static const char *say_more(struct harness *t, struct place *p, struct saved *saved)
{
    CHECK(t, rig_append(saved, TOK_USER, "abc", &p->engine));
    struct saved_rows rows = rig_rows(&p->engine);
    CHECK_EQ(t, saved_commit(saved, &rows, &p->error), STORE_OK);
    return p->error.text;
}

// While it still fits: whoever comes back with a larger cap keeps all of it. Once, and not for other branches' rows.
static void a_cap_that_comes_near_is_said_in_time(struct harness *t)
{
    struct place *p = open_place();
    struct saved *saved = new_session(t, p, "grows");
    p->store.kv_cap = ROWS(40);
    for (int i = 0; i < 3; i++)
        CHECK_STR(t, say_more(t, p, saved), "");
    saved_cut(saved, 4); // 8 are another branch's
    p->engine.length = 4;
    for (int i = 0; i < 6; i++)
        CHECK_STR(t, say_more(t, p, saved), "");
    CHECK_EQ(t, p->engine.length, 28);
    CHECK_STR(t, say_more(t, p, saved),
              "the KV cache of this conversation (256 B) nears --kv-cap (320 B), beyond which only the text is saved; "
              "continue it with --kv-cap 512 to keep all of it");
    CHECK_STR(t, say_more(t, p, saved),
              "this conversation's KV cache reached --kv-cap (320 B): dropped that of its other branches, whose text "
              "stays");
    CHECK_STR(t, say_more(t, p, saved), "");
    CHECK_STR(t, say_more(t, p, saved),
              "the KV cache of this conversation reached 352 B, over --kv-cap (320 B; 704 would have kept it); only "
              "the text is "
              "saved");
    saved_close(saved);
    close_place(p);
}

// Nor when it fits up to its answer alone; what does fit waits for the answer, or for the end of the session.
static void an_answer_is_waited_for_before_others_give_way(struct harness *t)
{
    for (int act = 0; act < 3; act++) { // its answer is too long, or fits, or never comes
        struct place *p = open_place();
        keep_session(t, p, "other", "c");
        p->store.kv_cap = ROWS(9);
        struct saved *saved = new_session(t, p, "open");
        p->engine.length = 0;
        CHECK(t, rig_append(saved, TOK_USER, "abcd", &p->engine));
        struct saved_rows rows = rig_rows(&p->engine);
        rows.answer_follows = true;
        CHECK_EQ(t, saved_commit(saved, &rows, &p->error), STORE_OK);
        CHECK_STR(t, p->error.text, "");
        CHECK_EQ(t, store_kv_bytes(&p->store, "other"), ROWS(5));
        CHECK(t, store_kv_bytes(&p->store, "open") > ROWS(4) && saved_owes_cap(saved));
        if (act < 2)
            CHECK(t, rig_append(saved, TOK_ASSISTANT, act ? "c" : "an answer of many letters", &p->engine));
        CHECK_EQ(t, saved_commit(saved, NULL, &p->error), STORE_OK); // the text alone comes first
        CHECK_EQ(t, store_kv_bytes(&p->store, "other"), ROWS(5));
        rows = rig_rows(&p->engine);
        CHECK_EQ(t, saved_commit(saved, &rows, &p->error), STORE_OK);
        CHECK(t, !saved_owes_cap(saved));
        CHECK_EQ(t, store_kv_bytes(&p->store, "other"), act ? 0 : ROWS(5));
        CHECK_EQ(t, store_kv_bytes(&p->store, "open") > 0, act > 0);
        saved_close(saved);
        close_place(p);
    }
}

// The other branches of the one that is open go before other sessions, and these only as far as they must.
static void own_branches_go_before_other_sessions(struct harness *t)
{
    for (uint64_t room = 0; room < 2; room++) {
        struct place *p = open_place();
        keep_session(t, p, "a1", "c");
        keep_session(t, p, "a2", "c");
        used_at(t, p, "a1", 100);
        used_at(t, p, "a2", 200);
        struct saved *saved = new_session(t, p, "open");
        p->engine.length = 0;
        exchange(t, p, saved, "ab", "an answer to be taken back");
        saved_cut(saved, 3);
        p->engine.length = 3;
        CHECK(t, rig_append(saved, TOK_ASSISTANT, "short", &p->engine));
        p->store.kv_cap = room ? ROWS(9) + 2 * ROWS(5) : ROWS(9) + ROWS(5);
        struct saved_rows rows = rig_rows(&p->engine);
        CHECK_EQ(t, saved_commit(saved, &rows, &p->error), STORE_OK);
        CHECK(t, strstr(p->error.text, "dropped that of its other branches") != NULL);
        CHECK_EQ(t, strstr(p->error.text, "; saved KV caches reached --kv-cap: dropped those of \"a2\";") != NULL,
                 !room);
        CHECK(t, !strstr(p->error.text, "\"a1\""));
        CHECK_EQ(t, store_kv_bytes(&p->store, "open"), ROWS(9));
        CHECK_EQ(t, store_kv_bytes(&p->store, "a1"), ROWS(5));
        CHECK_EQ(t, store_kv_bytes(&p->store, "a2"), room ? ROWS(5) : 0);
        saved_close(saved);
        check_session(t, p, "open", "ab|short", true);
        close_place(p);
    }
}

// Dead bytes are nobody's: without them the branches fit, and stay.
static void dead_bytes_go_before_branches(struct harness *t)
{
    struct place *p = open_place();
    struct saved *saved = new_session(t, p, "open");
    exchange(t, p, saved, "ab", "one");
    saved_cut(saved, 3);
    p->engine.length = 3;
    CHECK(t, rig_append(saved, TOK_ASSISTANT, "an answer to be dropped", &p->engine));
    commit(t, p, saved);
    saved_cut(saved, 3);
    saved_drop(saved, 2);
    p->engine.length = 3;
    CHECK(t, rig_append(saved, TOK_ASSISTANT, "three", &p->engine));
    p->store.kv_cap = ROWS(3 + 4 + 6);
    commit(t, p, saved);
    CHECK_EQ(t, store_kv_bytes(&p->store, "open"), ROWS(3 + 4 + 6));
    CHECK_EQ(t, saved_manifest(saved)->n_other_records, 1);
    saved_close(saved);
    check_session(t, p, "open", "ab|three", true);
    close_place(p);
}

// All that are dropped are named, the least recently used first.
static void whatever_is_dropped_is_named(struct harness *t)
{
    enum { MANY = 40 };
    struct place *p = open_place();
    char name[STORE_NAME_SIZE];
    unsigned named = 0, more = 0;
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "a-session-whose-name-is-as-long-as-a-name-can-be-in-the-store-%02d", i);
        keep_session(t, p, name, "c");
        used_at(t, p, name, 60 * (i + 1)); // the later ones longer ago, however long this takes
    }
    p->store.kv_cap = MANY * ROWS(5);
    for (int first = MANY - 1, last = MANY - 1; first >= MANY - 6; last = first - 1, first -= 5) { // one, then five
        push(t, p, first == last ? "new1" : "new5", first == last ? "abcd" : "a message of 24 letters.");
        for (int i = 0; i < MANY; i++) {
            snprintf(name, sizeof name, "a-session-whose-name-is-as-long-as-a-name-can-be-in-the-store-%02d", i);
            CHECK_EQ(t, strstr(p->error.text, name) != NULL, i >= first && i <= last);
            CHECK_EQ(t, store_kv_bytes(&p->store, name), i >= first ? 0 : ROWS(5));
        }
    }
    p->store.kv_cap = ROWS(5); // more than a line has room for: they are counted
    push(t, p, "last", "abcd");
    for (const char *c = p->error.text; (c = strchr(c, '"')); c++)
        named++;
    const char *counted = strstr(p->error.text, " and ");
    if (CHECK(t, counted && sscanf(counted, " and %u more; their text stays", &more) == 1))
        CHECK_EQ(t, named / 2 + more, MANY - 6 + 2);
    CHECK(t, named / 2 >= 20);
    close_place(p);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(the_cap_drops_the_oldest_rows),
        TEST(text_takes_no_rows_from_others),
        TEST(states_count_for_the_cap),
        TEST(what_is_over_the_cap_takes_nothing_from_others),
        TEST(a_cap_that_comes_near_is_said_in_time),
        TEST(an_answer_is_waited_for_before_others_give_way),
        TEST(own_branches_go_before_other_sessions),
        TEST(dead_bytes_go_before_branches),
        TEST(whatever_is_dropped_is_named),
    };
    return HARNESS_RUN(tests, argc, argv);
}
