// SPDX-License-Identifier: GPL-3.0-or-later
// What somebody has planted in the folder of sessions: links are never followed, pipes never waited for.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/store_rig.h"

struct place {
    char root[64];
    struct store store;
    struct store_error error;
};

static const char *const files[] = {"session.json", "transcript.jsonl", "kv.bin", "lock"};

// A store with the session "important", of four files.
static struct place open_place(void)
{
    struct place place;
    place.store = rig_store(place.root);
    struct rig_engine *engine = calloc(1, sizeof *engine);
    struct saved *saved;
    struct origin origin = rig_origin();
    if (!engine || saved_new(&place.store, "important", &saved, &place.error))
        abort();
    saved_set_origin(saved, &origin);
    rig_append(saved, TOK_USER, "one", engine);
    struct saved_rows rows = rig_rows(engine);
    if (saved_commit(saved, &rows, &place.error))
        abort();
    saved_close(saved);
    free(engine);
    return place;
}

static bool is_whole(const struct store *store)
{
    bool whole = true;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        whole = whole && access(store_path(store, "important", files[i]).text, F_OK) == 0;
    return whole;
}

static bool is_there(const struct store *store, const char *name)
{
    struct stat about;
    return lstat(store_path(store, name, NULL).text, &about) == 0;
}

static void plant(const struct store *store, const char *leads_to, const char *name)
{
    if (symlink(leads_to, store_path(store, name, NULL).text))
        abort();
}

static void removing_a_link_removes_the_link(struct harness *t)
{
    struct place p = open_place();
    plant(&p.store, "important", "alias");
    CHECK_EQ(t, store_remove(&p.store, "alias", &p.error), STORE_OK);
    CHECK(t, is_whole(&p.store) && !is_there(&p.store, "alias"));
    plant(&p.store, "nowhere", "alias");
    CHECK_EQ(t, store_remove(&p.store, "alias", &p.error), STORE_OK);
    CHECK(t, !is_there(&p.store, "alias"));
    rig_clean(p.root);
}

static void sweeping_follows_no_link(struct harness *t)
{
    struct place p = open_place();
    struct store_list list;
    plant(&p.store, "important", ".deleted-x");
    CHECK_EQ(t, store_remove(&p.store, "nobody", &p.error), STORE_NOT_FOUND);
    CHECK_EQ(t, store_list(&p.store, &list, &p.error), STORE_OK);
    CHECK_EQ(t, list.n_entries, 1);
    store_list_release(&list);
    CHECK(t, is_whole(&p.store) && !is_there(&p.store, ".deleted-x"));
    // Nor one within a folder on its way out.
    CHECK_EQ(t, mkdir(store_path(&p.store, "gone", NULL).text, 0700), 0);
    struct store_path within = store_path(&p.store, "gone", "kv.bin");
    CHECK_EQ(t, symlink(store_path(&p.store, "important", "kv.bin").text, within.text), 0);
    CHECK_EQ(t, store_remove(&p.store, "gone", &p.error), STORE_OK);
    CHECK(t, is_whole(&p.store) && !is_there(&p.store, "gone"));
    rig_clean(p.root);
}

static void a_link_is_no_session(struct harness *t)
{
    struct place p = open_place();
    struct store_list list;
    struct saved *saved;
    struct saved_content content;
    plant(&p.store, "important", "alias");
    CHECK_EQ(t, store_list(&p.store, &list, &p.error), STORE_OK);
    CHECK_EQ(t, list.n_entries, 1);
    store_list_release(&list);
    CHECK_EQ(t, saved_open(&p.store, "alias", &saved, &content, &p.error), STORE_IO);
    CHECK(t, strstr(p.error.text, "symbolic link") != NULL);
    CHECK_EQ(t, saved_new(&p.store, "alias", &saved, &p.error), STORE_TAKEN);
    CHECK_EQ(t, store_rename(&p.store, "alias", "other", false, &p.error), STORE_IO);
    CHECK_EQ(t, store_rename(&p.store, "important", "alias", false, &p.error), STORE_TAKEN);
    CHECK_EQ(t, saved_read(&p.store, "alias", &content, &p.error), STORE_IO);
    saved_content_release(&content);
    CHECK(t, is_whole(&p.store));
    rig_clean(p.root);
}

// A link in the place of each file of a session, to a file of somebody else's.
static void no_file_is_written_through_a_link(struct harness *t)
{
    static const char *const written[] = {"kv.bin", "session.json.new", "transcript.jsonl"};
    for (size_t i = 0; i < sizeof written / sizeof written[0]; i++) {
        struct place p = open_place();
        char victim[128];
        snprintf(victim, sizeof victim, "%s/victim", p.root);
        FILE *file = fopen(victim, "w");
        if (!file || fputs("mine", file) < 0 || fclose(file))
            abort();
        struct saved *saved;
        struct saved_content content;
        struct rig_engine *engine = calloc(1, sizeof *engine);
        CHECK_EQ(t, saved_open(&p.store, "important", &saved, &content, &p.error), STORE_OK);
        struct store_path path = store_path(&p.store, "important", written[i]);
        unlink(path.text);
        if (!engine || symlink(victim, path.text))
            abort();
        rig_append(saved, TOK_USER, "one", engine);
        rig_append(saved, TOK_USER, "two", engine);
        struct saved_rows rows = rig_rows(engine);
        saved_commit(saved, &rows, &p.error);
        saved_close(saved);
        saved_content_release(&content);
        struct stat about;
        CHECK(t, stat(victim, &about) == 0 && about.st_size == 4);
        free(engine);
        rig_clean(p.root);
    }
}

// A folder of sessions that is itself a link, as people make who keep it on another disk, is followed.
static void the_folder_of_sessions_may_be_a_link(struct harness *t)
{
    struct place p = open_place();
    struct store store;
    char link[128], below[STORE_ROOT_SIZE + 16];
    snprintf(link, sizeof link, "%s/link", p.root);
    CHECK_EQ(t, symlink(p.store.root, link), 0);
    CHECK(t, store_init(&store, link));
    CHECK_STR(t, store.root, p.store.root);
    struct saved *saved;
    CHECK_EQ(t, saved_new(&store, "new", &saved, &p.error), STORE_OK);
    CHECK(t, is_there(&p.store, "new"));
    saved_close(saved);
    snprintf(below, sizeof below, "%s/not/yet", link);
    CHECK(t, store_init(&store, below));
    snprintf(below, sizeof below, "%s/not/yet", p.store.root);
    CHECK_STR(t, store.root, below);
    rig_clean(p.root);
}

// A pipe in the place of each file: an error or a file that is missing, and no waiting.
static void pipes_are_not_waited_for(struct harness *t)
{
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct place p = open_place();
        struct store_path path = store_path(&p.store, "important", files[i]);
        unlink(path.text);
        if (mkfifo(path.text, 0600))
            abort();
        pid_t child = fork();
        if (child == 0) {
            alarm(10);
            struct saved *saved;
            struct saved_content content;
            struct store_list list;
            enum store_code code = saved_open(&p.store, "important", &saved, &content, &p.error);
            bool rows = i == 2 && !code && saved_open_rows(saved) == -1 && errno == ENOTSUP;
            if (!code)
                saved_close(saved);
            store_list(&p.store, &list, &p.error);
            _exit(i == 2 ? !rows : code != STORE_IO);
        }
        int status = 1;
        waitpid(child, &status, 0);
        if (!CHECK_EQ(t, status, 0))
            printf("    %s\n", files[i]);
        rig_clean(p.root);
    }
}

// A removal that was killed after its first step is finished by whoever looks next.
static void a_killed_removal_is_finished(struct harness *t)
{
    for (int how = 0; how < 2; how++) {
        struct place p = open_place();
        struct store_list list;
        struct saved *saved;
        CHECK_EQ(t, rename(store_path(&p.store, "important", NULL).text, store_path(&p.store, ".deleted-a", NULL).text),
                 0);
        if (how == 0) {
            CHECK_EQ(t, store_list(&p.store, &list, &p.error), STORE_OK);
            store_list_release(&list);
        } else {
            CHECK_EQ(t, saved_new(&p.store, "next", &saved, &p.error), STORE_OK);
            saved_close(saved);
        }
        CHECK(t, !is_there(&p.store, ".deleted-a"));
        rig_clean(p.root);
    }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(removing_a_link_removes_the_link),
        TEST(sweeping_follows_no_link),
        TEST(a_link_is_no_session),
        TEST(no_file_is_written_through_a_link),
        TEST(the_folder_of_sessions_may_be_a_link),
        TEST(pipes_are_not_waited_for),
        TEST(a_killed_removal_is_finished),
    };
    return HARNESS_RUN(tests, argc, argv);
}
