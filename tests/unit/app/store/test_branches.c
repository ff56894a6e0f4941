// SPDX-License-Identifier: GPL-3.0-or-later
// How branches are counted and what was taken back, and what a session is before anything was said in it.
#include "app/store/branches.h"
#include "tests/store_rig.h"

struct place {
    char root[64];
    struct store store;
    struct store_error error;
};

static struct saved *begin(struct harness *t, struct place *p)
{
    struct saved *saved;
    *p = (struct place){.root = ""};
    p->store = rig_store(p->root);
    CHECK_EQ(t, saved_new(&p->store, "", &saved, &p->error), STORE_OK);
    return saved;
}

static void append(struct harness *t, struct saved *saved, enum tok_role role, const char *text)
{
    CHECK(t, rig_append(saved, role, text, NULL));
}

// How many branches there are, and how many messages the conversation would go on with and to which.
static void check(struct harness *t, const struct saved *saved, size_t branches, size_t back, int64_t ahead)
{
    size_t n;
    CHECK_EQ(t, branches_count(saved_manifest(saved)), branches);
    CHECK_EQ(t, branches_ahead(saved_manifest(saved), &n), ahead);
    CHECK_EQ(t, n, back);
}

static void an_undo_is_no_lost_conversation(struct harness *t)
{
    struct place p;
    struct saved *saved = begin(t, &p);
    check(t, saved, 1, 0, PART_NONE);
    append(t, saved, TOK_SYSTEM, "be");   // 0
    append(t, saved, TOK_USER, "one");    // 1
    append(t, saved, TOK_ASSISTANT, "1"); // 2
    append(t, saved, TOK_USER, "two");    // 3
    append(t, saved, TOK_ASSISTANT, "2"); // 4
    check(t, saved, 1, 0, PART_NONE);
    CHECK(t, saved_go(saved, 2));
    check(t, saved, 2, 2, 4); // the conversation, and what it is the beginning of
    CHECK(t, saved_go(saved, 0));
    check(t, saved, 2, 4, 4);
    append(t, saved, TOK_USER, "uno"); // 5
    check(t, saved, 2, 0, PART_NONE);
    CHECK(t, saved_go(saved, 0));
    check(t, saved, 3, 1, 5); // the newest
    CHECK(t, saved_go(saved, 2));
    check(t, saved, 3, 2, 4); // of those that follow
    CHECK(t, saved_go(saved, 4));
    check(t, saved, 2, 0, PART_NONE);
    saved_set_undone(saved, 4);
    check(t, saved, 2, 0, PART_NONE);
    CHECK(t, saved_go(saved, 0));
    check(t, saved, 3, 4, 4); // what was taken back last, not the newest
    saved_set_undone(saved, 5);
    CHECK(t, saved_go(saved, 2));
    check(t, saved, 3, 2, 4);             // it does not follow
    CHECK(t, saved_go(saved, PART_NONE)); // without the system message, too
    check(t, saved, 3, 1, 5);
    saved_close(saved);
    rig_clean(p.root);
}

static void what_is_said_ends_an_undo(struct harness *t)
{
    struct place p;
    struct saved *saved = begin(t, &p);
    append(t, saved, TOK_USER, "one");    // 0
    append(t, saved, TOK_ASSISTANT, "1"); // 1
    append(t, saved, TOK_USER, "two");    // 2
    append(t, saved, TOK_ASSISTANT, "2"); // 3
    CHECK(t, saved_go(saved, PART_NONE));
    saved_set_undone(saved, 1); // as was saved when nothing ended it
    check(t, saved, 2, 4, 3);
    CHECK(t, saved_go(saved, 1));
    saved_set_undone(saved, 3);
    append(t, saved, TOK_USER, "zwei"); // 4
    CHECK_EQ(t, saved_manifest(saved)->undone, 0);
    CHECK(t, saved_go(saved, 1));
    check(t, saved, 3, 1, 4);
    CHECK(t, saved_go(saved, PART_NONE));
    saved_set_undone(saved, 3);
    append(t, saved, TOK_SYSTEM, "be"); // 5, of which nobody speaks
    CHECK_EQ(t, saved_manifest(saved)->undone, 4);
    saved_close(saved);
    rig_clean(p.root);
}

static void a_system_message_that_nothing_follows_is_no_branch(struct harness *t)
{
    struct place p;
    struct saved *saved = begin(t, &p);
    append(t, saved, TOK_SYSTEM, "be");
    saved_cut(saved, 0);
    append(t, saved, TOK_USER, "one");
    check(t, saved, 1, 0, PART_NONE);
    saved_close(saved);
    rig_clean(p.root);
}

// A system message is there before anything was said, so not as tokens yet; and the name waits for the first message.
static void what_is_saved_before_the_first_message(struct harness *t)
{
    struct place p;
    struct saved *saved = begin(t, &p);
    struct saved_content content;
    struct part part = {.role = TOK_SYSTEM};
    CHECK(t, bytes_append(&part.text, "be kind", 7) && saved_append(saved, &part));
    part_release(&part);
    CHECK_EQ(t, saved_commit(saved, NULL, &p.error), STORE_OK);
    char alone[STORE_NAME_SIZE];
    snprintf(alone, sizeof alone, "%s", saved_name(saved));
    CHECK(t, strlen(alone) == strlen("2026-11-22-0941") && store_find(&p.store, alone, &p.error) == STORE_OK);
    CHECK_EQ(t, saved_read(&p.store, alone, &content, &p.error), STORE_OK);
    CHECK(t, content.n_parts == 1 && content.parts[0].ids.count == 0);
    CHECK_STR(t, content.parts[0].text.data, "be kind");
    saved_content_release(&content);
    saved_cut(saved, 0); // its tokens come with the first turn: it is written anew
    CHECK_EQ(t, saved_manifest(saved)->n_parts, 0);
    append(t, saved, TOK_SYSTEM, "be kind");
    append(t, saved, TOK_USER, "Hello there");
    saved_drop(saved, 0);
    CHECK_EQ(t, saved_commit(saved, NULL, &p.error), STORE_OK);
    const char *name = strchr(saved_name(saved), 'h');
    CHECK_STR(t, name ? name : saved_name(saved), "hello-there");
    CHECK(t, store_find(&p.store, saved_name(saved), &p.error) == STORE_OK);
    CHECK(t, store_find(&p.store, alone, &p.error) == STORE_NOT_FOUND);
    check(t, saved, 1, 0, PART_NONE);
    saved_close(saved);
    rig_clean(p.root);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(an_undo_is_no_lost_conversation),
        TEST(what_is_said_ends_an_undo),
        TEST(a_system_message_that_nothing_follows_is_no_branch),
        TEST(what_is_saved_before_the_first_message),
    };
    return HARNESS_RUN(tests, argc, argv);
}
