// SPDX-License-Identifier: GPL-3.0-or-later
// Sessions whose files have a second name in another session's folder, as cp -al makes them: what is saved in one of
// them changes nothing in the other.
#include <sys/stat.h>

#include "tests/store_place.h"

static void run_in_root(struct harness *t, const struct place *p, const char *command)
{
    char line[PATH_MAX + 200];
    snprintf(line, sizeof line, "cd '%s' && %s", p->store.root, command);
    CHECK_EQ(t, system(line), 0);
}

static nlink_t names_of(const struct place *p, const char *session, const char *file)
{
    struct stat about = {0};
    lstat(store_path(&p->store, session, file).text, &about);
    return about.st_nlink;
}

static void go_on(struct harness *t, struct place *p, const char *name, const char *user, const char *answer)
{
    struct saved *saved;
    struct saved_content content = {0};
    if (!CHECK_EQ(t, saved_open(&p->store, name, &saved, &content, &p->error), STORE_OK))
        return;
    CHECK_STR(t, content.damage, "");
    exchange(t, p, saved, user, answer);
    saved_content_release(&content);
    saved_close(saved);
}

static void two_that_shared_their_files(struct harness *t)
{
    struct place *p = open_place();
    struct saved *saved = new_session(t, p, "one");
    exchange(t, p, saved, "hi", "first");
    saved_close(saved);
    run_in_root(t, p, "cp -al one backup");
    CHECK_EQ(t, names_of(p, "one", "transcript.jsonl"), 2);
    struct rig_engine then = p->engine;
    go_on(t, p, "one", "more", "second"); // has files of its own from here on
    CHECK_EQ(t, names_of(p, "one", "transcript.jsonl"), 1);
    CHECK_EQ(t, names_of(p, "one", "kv.bin"), 1);
    struct rig_engine now = p->engine;
    p->engine = then;
    go_on(t, p, "backup", "other", "third");
    struct saved_content one, backup;
    char texts[200];
    if (CHECK_EQ(t, saved_read(&p->store, "one", &one, &p->error), STORE_OK)) {
        rig_texts(&one, texts, sizeof texts);
        CHECK(t, strstr(texts, "hi") && strstr(texts, "second") && !strstr(texts, "third") && !*one.damage);
        saved_content_release(&one);
    }
    if (CHECK_EQ(t, saved_read(&p->store, "backup", &backup, &p->error), STORE_OK)) {
        rig_texts(&backup, texts, sizeof texts);
        CHECK(t, strstr(texts, "hi") && strstr(texts, "third") && !strstr(texts, "second") && !*backup.damage);
        saved_content_release(&backup);
    }
    p->engine = now;
    struct rig_engine *back = calloc(1, sizeof *back);
    struct saved_content content = {0};
    if (back && CHECK_EQ(t, saved_open(&p->store, "one", &saved, &content, &p->error), STORE_OK)) {
        CHECK(t, rig_restore(saved, back) && back->length == now.length);
        saved_content_release(&content);
        saved_close(saved);
    }
    free(back);
    close_place(p);
}

// The files that are written anew, too, and the lock, where what is written is a process's number.
static void nothing_is_written_through_another_name(struct harness *t)
{
    static const char *const files[] = {"lock", "session.json.new", "transcript.jsonl.new", "copy.new"};
    struct place *p = open_place();
    struct saved *saved = new_session(t, p, "one");
    exchange(t, p, saved, "hi", "first");
    saved_close(saved);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char line[200], text[40] = "";
        snprintf(line, sizeof line, "echo precious > victim && ln -f victim one/%s && ln -f one/kv.bin kept", files[i]);
        run_in_root(t, p, line);
        go_on(t, p, "one", "more", "said");
        FILE *victim = fopen(store_path(&p->store, "victim", NULL).text, "r");
        CHECK(t, victim && fgets(text, sizeof text, victim));
        CHECK_STR(t, text, "precious\n");
        if (victim)
            fclose(victim);
    }
    close_place(p);
}

static int rename_refused(void *context, const char *from, const char *to)
{
    (void)context, (void)from, (void)to;
    errno = ENOSPC;
    return -1;
}

// It can't be copied: it is not opened, and both are as they were.
static void what_cannot_be_copied_is_not_opened(struct harness *t)
{
    struct place *p = open_place();
    struct saved *saved = new_session(t, p, "one");
    exchange(t, p, saved, "hi", "first");
    saved_close(saved);
    run_in_root(t, p, "cp -al one backup");
    struct store_io io = store_io_posix;
    struct saved_content content = {0};
    io.rename = rename_refused;
    p->store.io = &io;
    CHECK_EQ(t, saved_open(&p->store, "one", &saved, &content, &p->error), STORE_IO);
    CHECK(t,
          NULL != strstr(p->error.text, "transcript.jsonl is a file with another name elsewhere, and can't be copied: "
                                        "No space left on device"));
    p->store.io = &store_io_posix;
    CHECK_EQ(t, names_of(p, "one", "transcript.jsonl"), 2);
    CHECK(t, access(store_path(&p->store, "one", "copy.new").text, F_OK) != 0);
    run_in_root(t, p, "touch one/copy.new"); // as a process that was killed leaves it
    CHECK_EQ(t, store_remove(&p->store, "one", &p->error), STORE_OK);
    check_session(t, p, "backup", "hi|first", true);
    close_place(p);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(two_that_shared_their_files),
                                                TEST(nothing_is_written_through_another_name),
                                                TEST(what_cannot_be_copied_is_not_opened)};
    return HARNESS_RUN(tests, argc, argv);
}
