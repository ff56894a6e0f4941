// SPDX-License-Identifier: GPL-3.0-or-later
// What an open session does where its files are no longer what it made of them, and where a save would make more of
// them than can be read back: it writes nothing there, and says why and what helps.
#include <sys/stat.h>

#include "tests/store_place.h"

#define FORK "; /fork NAME saves this conversation under a new name"

static void run_in(struct harness *t, const struct place *p, const char *command)
{
    char line[PATH_MAX + 200];
    snprintf(line, sizeof line, "cd '%s' && %s", store_path(&p->store, "d", NULL).text, command);
    CHECK_EQ(t, system(line), 0);
}

static uint64_t size_of(const struct place *p, const char *file)
{
    struct stat about;
    return lstat(store_path(&p->store, "d", file).text, &about) == 0 ? (uint64_t)about.st_size : UINT64_MAX;
}

// The sentence that a save of one message more ends with.
static void check_refused(struct harness *t, struct place *p, struct saved *saved, const char *said)
{
    struct saved_rows rows = rig_rows(&p->engine);
    CHECK(t, rig_append(saved, TOK_USER, "one more", NULL));
    CHECK_EQ(t, saved_commit(saved, NULL, &p->error), STORE_IO);
    CHECK_STR(t, p->error.text, said);
    CHECK_EQ(t, saved_commit(saved, &rows, &p->error), STORE_IO); // it stays so
    CHECK_STR(t, p->error.text, said);
    CHECK_EQ(t, saved_compact(saved, &p->error), STORE_IO);
    CHECK_STR(t, p->error.text, said);
    CHECK_EQ(t, saved_rename(saved, "other", &p->error), STORE_IO);
    CHECK_STR(t, p->error.text, said);
}

static void files_that_others_changed_are_left_alone(struct harness *t)
{
#define CHANGED "conversation not saved: session \"d\" was changed by another program ("
    static const char lock[] = "conversation not saved: the lock of session \"d\" was removed or replaced, so that "
                               "another moechat may have it open" FORK;
    static const char gone[] = "conversation not saved: the folder of session \"d\" was removed or moved" FORK;
    static const struct {
        const char *command, *said;
        bool resumed; // the session was there before
    } changes[] = {
        {"truncate -s 100 transcript.jsonl", CHANGED "its transcript.jsonl is shorter than it was)" FORK, false},
        {"truncate -s 100 transcript.jsonl", CHANGED "its transcript.jsonl is shorter than it was)" FORK, true},
        {"echo >> transcript.jsonl", CHANGED "its transcript.jsonl is longer than it was)" FORK, true},
        {"rm transcript.jsonl", CHANGED "its transcript.jsonl is gone)" FORK, false},
        {"cp -p transcript.jsonl new && rm transcript.jsonl && mv new transcript.jsonl",
         CHANGED "its transcript.jsonl was replaced)" FORK, false},
        {"cp -p session.json new && mv new session.json", CHANGED "its session.json was replaced)" FORK, true},
        {"rm session.json", CHANGED "its session.json is gone)" FORK, false},
        {"rm lock", lock, false},
        {"rm lock && touch lock", lock, true},
        {"mv ../d ../e", gone, false},
        {"rm -r ../d", gone, true},
    };
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        struct place *p = open_place();
        struct saved *saved = new_session(t, p, "d");
        struct saved_content content = {0};
        exchange(t, p, saved, "one", "first");
        if (changes[i].resumed) {
            saved_close(saved);
            if (!CHECK_EQ(t, saved_open(&p->store, "d", &saved, &content, &p->error), STORE_OK))
                break;
            saved_content_release(&content);
        }
        run_in(t, p, changes[i].command);
        uint64_t sizes[] = {size_of(p, "transcript.jsonl"), size_of(p, "session.json"), size_of(p, "kv.bin")};
        check_refused(t, p, saved, changes[i].said);
        CHECK_EQ(t, size_of(p, "transcript.jsonl"), sizes[0]);
        CHECK_EQ(t, size_of(p, "session.json"), sizes[1]);
        CHECK_EQ(t, size_of(p, "kv.bin"), sizes[2]);
        saved_close(saved);
        close_place(p);
    }
}

// What is its own doing is none of that: cuts, compactions, renames, and a save after one that failed half-way.
static void own_changes_are_no_others(struct harness *t)
{
    struct place *p = open_place();
    struct saved *saved = new_session(t, p, "d");
    exchange(t, p, saved, "one", "first");
    exchange(t, p, saved, "two", "second");
    saved_cut(saved, 10);
    p->engine.length = 10;
    commit(t, p, saved);
    CHECK_EQ(t, saved_prune(saved, &p->error), STORE_OK);
    CHECK_EQ(t, saved_rename(saved, "moved", &p->error), STORE_OK);
    exchange(t, p, saved, "three", "third");
    saved_close(saved);
    check_session(t, p, "moved", "one|first|three|third", true);
    close_place(p);
}

// A session is removed as it was seen: not where it was gone on with, or another has its name.
static void what_is_removed_is_what_was_seen(struct harness *t)
{
    static const struct {
        const char *command;
        bool more; // it was gone on with
        enum store_code code;
    } changes[] = {
        {"true", false, STORE_OK},
        {"touch lock && chmod 600 session.json", false, STORE_OK}, // somebody looked into it
        {"true", true, STORE_CHANGED},
        {"mv ../d ../moved && mv ../other ../d", false, STORE_CHANGED},
        {"rm -r ../d && mv ../other ../d", false, STORE_CHANGED},
        {"mv ../d ../moved && ln -s other ../d", false, STORE_CHANGED},
        {"cp -p session.json new && mv new session.json", false, STORE_CHANGED},
        {"rm session.json", false, STORE_CHANGED},
        {"rm -r ../d", false, STORE_NOT_FOUND},
    };
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        struct place *p = open_place();
        struct store_seen seen = {0};
        struct saved *other = new_session(t, p, "other"), *saved = new_session(t, p, "d");
        struct saved_content content;
        exchange(t, p, other, "one", "first");
        saved_close(other);
        p->engine.length = 0;
        exchange(t, p, saved, "one", "first");
        store_see(&p->store, "d", &seen);
        CHECK_EQ(t, store_remove_seen(&p->store, "d", &seen, &p->error), STORE_BUSY);
        if (changes[i].more)
            exchange(t, p, saved, "two", "second");
        saved_close(saved);
        run_in(t, p, changes[i].command);
        CHECK_EQ(t, store_remove_seen(&p->store, "d", &seen, &p->error), changes[i].code);
        bool there = changes[i].code == STORE_CHANGED;
        CHECK_EQ(t, store_find(&p->store, "d", &p->error) != STORE_NOT_FOUND, there);
        store_see(&p->store, "d", &seen); // it is told anew
        CHECK_EQ(t, store_remove_seen(&p->store, "d", &seen, &p->error), there ? STORE_OK : STORE_NOT_FOUND);
        store_see(&p->store, "d", &seen);
        saved = new_session(t, p, "d"); // which was not there
        p->engine.length = 0;
        exchange(t, p, saved, "three", "third");
        saved_close(saved);
        CHECK_EQ(t, store_remove_seen(&p->store, "d", &seen, &p->error), STORE_CHANGED);
        if (CHECK_EQ(t, saved_read(&p->store, "d", &content, &p->error), STORE_OK))
            CHECK_EQ(t, content.n_parts, 2);
        saved_content_release(&content);
        store_seen_release(&seen);
        close_place(p);
    }
}

// Nothing is written that readers refuse, and what is there stays readable.
static void no_more_is_written_than_is_read(struct harness *t)
{
    static const char *const what[] = {"transcript.jsonl", "session.json", "session.json"};
    for (int act = 0; act < 6; act++) {
        struct place *p = open_place();
        bool branches = act >= 3;
        char said[400];
        struct saved *saved = new_session(t, p, "d");
        exchange(t, p, saved, "one", "first");
        if (branches) { // the branch has the bytes that are missing
            exchange(t, p, saved, "a message that is longer than the one that takes its place", "yes");
            saved_cut(saved, 10);
            p->engine.length = 10;
            commit(t, p, saved);
        }
        struct store_limits limits = {size_of(p, "transcript.jsonl") + 20, size_of(p, "session.json") + 20,
                                      branches ? 2 : 3};
        if (act % 3 == 0)
            p->store.limits.transcript = limits.transcript;
        if (act % 3 == 1)
            p->store.limits.manifest = limits.manifest;
        if (act % 3 == 2)
            p->store.limits.entries = limits.entries;
        CHECK(t, rig_append(saved, TOK_USER, "two", &p->engine));
        CHECK(t, rig_append(saved, TOK_ASSISTANT, "2", &p->engine));
        struct saved_rows rows = rig_rows(&p->engine);
        CHECK_EQ(t, saved_commit(saved, &rows, &p->error), STORE_IO);
        snprintf(said, sizeof said, "conversation not saved: %s of session \"d\" would be longer than can be read; %s",
                 what[act % 3],
                 branches ? "/fork NAME goes on with this conversation alone, moechat sessions prune d removes the "
                            "other branches"
                          : "begin another conversation (/new)");
        CHECK_STR(t, p->error.text, said);
        saved_close(saved);
        p->engine.length = 10;
        check_session(t, p, "d", "one|first", true);
        close_place(p);
    }
}

// A part that no reader would take is told as what it is.
static void an_unfit_part_is_not_told_as_memory(struct harness *t)
{
    struct place *p = open_place();
    struct saved *saved = new_session(t, p, "d");
    struct part part = {.role = TOK_USER};
    part.ids.count = PART_IDS_LIMIT + 1;
    part.ids.ids = calloc(part.ids.count, sizeof *part.ids.ids);
    CHECK(t, part.ids.ids && !saved_append(saved, &part));
    CHECK_STR(t, saved_refused(saved),
              "a message has more than the 16777216 tokens that a session holds; send less at once");
    part_release(&part);
    part = (struct part){.role = TOK_USER};
    part.text.length = PART_TEXT_LIMIT + 1;
    part.text.data = calloc(part.text.length + 1, 1);
    CHECK(t, part.text.data && !saved_append(saved, &part));
    CHECK_STR(t, saved_refused(saved), "a message has more than the 64 MiB that a session holds; send less at once");
    part_release(&part);
    exchange(t, p, saved, "one", "first"); // nothing of it stays behind
    saved_close(saved);
    check_session(t, p, "d", "one|first", true);
    close_place(p);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(files_that_others_changed_are_left_alone), TEST(own_changes_are_no_others),
        TEST(what_is_removed_is_what_was_seen),         TEST(no_more_is_written_than_is_read),
        TEST(an_unfit_part_is_not_told_as_memory),
    };
    return HARNESS_RUN(tests, argc, argv);
}
