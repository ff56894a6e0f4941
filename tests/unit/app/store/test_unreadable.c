// SPDX-License-Identifier: GPL-3.0-or-later
// Sessions that can't be opened, removed or listed as they are, and what is said of them.
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "app/store/saved_verify.h"
#include "tests/store_place.h"

static struct {
    const struct store *store;
    bool saving, damaged;
    char lacks[96], verified[200];
} seen;

// Somebody looks when rows are written and the manifest is not.
static int rename_seen(void *context, const char *from, const char *to)
{
    struct store_list list;
    struct store_error error;
    struct saved_verdict verdict;
    if (store_list(seen.store, &list, &error) == STORE_OK && list.n_entries) {
        seen.saving = list.entries[0].saving;
        seen.damaged = list.entries[0].damaged;
        snprintf(seen.lacks, sizeof seen.lacks, "%s", list.entries[0].lacks);
    }
    store_list_release(&list);
    if (saved_verify(seen.store, "first", moe_record_verify, &verdict, &error) == STORE_OK) {
        snprintf(seen.verified, sizeof seen.verified, "%s", verdict.wrong.length ? verdict.wrong.data : "");
        bytes_release(&verdict.wrong);
    }
    (void)context, (void)from, (void)to;
    errno = EIO;
    return -1;
}

static void a_first_save_is_no_damage(struct harness *t)
{
    struct place *p = open_place();
    struct store looks = p->store;
    struct store_io io = store_io_posix;
    struct store_list list;
    seen.store = &looks;
    io.rename = rename_seen;
    p->store.io = &io;
    struct saved *saved = new_session(t, p, "first");
    CHECK(t, rig_append(saved, TOK_USER, "one", &p->engine));
    struct saved_rows rows = rig_rows(&p->engine);
    CHECK_EQ(t, saved_commit(saved, &rows, &p->error), STORE_IO);
    CHECK(t, seen.saving && !seen.damaged);
    CHECK_STR(t, seen.lacks, "");
    CHECK(t, strstr(seen.verified, "session.json is still to be written: the first save of session \"first\"") != NULL);
    saved_close(saved);
    FILE *kv = fopen(store_path(&looks, "first", "kv.bin").text, "wb");
    CHECK(t, kv && fputs("rows", kv) >= 0 && fclose(kv) == 0);
    CHECK(t, store_list(&looks, &list, &p->error) == STORE_OK && list.n_entries == 1);
    CHECK(t, !list.entries[0].saving);
    CHECK_STR(t, list.entries[0].lacks, "session.json is missing");
    store_list_release(&list);
    close_place(p);
}

// Whoever looks whether a session is open does not have it open for others who look just then.
static void one_who_looks_is_not_in_the_way(struct harness *t)
{
    struct place *p = open_place();
    struct saved *saved = new_session(t, p, "talk");
    exchange(t, p, saved, "one", "first");
    CHECK(t, store_is_locked(&p->store, "talk"));
    saved_close(saved);
    CHECK(t, !store_is_locked(&p->store, "talk") && !store_is_locked(&p->store, "nobody"));
    int looks = open(store_path(&p->store, "talk", "lock").text, O_RDWR | O_CLOEXEC);
    CHECK_EQ(t, flock(looks, LOCK_SH | LOCK_NB), 0);
    CHECK(t, !store_is_locked(&p->store, "talk"));
    close(looks);
    close_place(p);
}

static struct {
    const struct store *store;
    atomic_bool done;
    atomic_uint looks;
} looker;

static void *look_on(void *unused)
{
    while (!atomic_load(&looker.done)) {
        store_is_locked(looker.store, "talk");
        atomic_fetch_add(&looker.looks, 1);
    }
    return unused;
}

// Nor for those who open it.
static void one_who_looks_is_no_other_moechat(struct harness *t)
{
    enum { TIMES = 300 };
    struct place *p = open_place();
    struct saved *saved = new_session(t, p, "talk");
    exchange(t, p, saved, "one", "first");
    saved_close(saved);
    pthread_t thread;
    unsigned refused = 0;
    looker.store = &p->store;
    CHECK_EQ(t, pthread_create(&thread, NULL, look_on, NULL), 0);
    for (int i = 0; i < TIMES || !atomic_load(&looker.looks); i++) {
        int lock;
        if (store_lock(&p->store, "talk", &lock, &p->error) == STORE_OK)
            close(lock);
        else
            refused++;
    }
    CHECK_EQ(t, refused, 0);
    atomic_store(&looker.done, true);
    pthread_join(thread, NULL);
    close_place(p);
}

// The cap locks a session to drop its rows; one whose lines don't tell the conversation stays as it is.
static void the_cap_writes_no_manifest_over_damage(struct harness *t)
{
    struct place *p = open_place();
    struct saved *saved = new_session(t, p, "torn");
    exchange(t, p, saved, "one", "first");
    saved_close(saved);
    struct store_path manifest = store_path(&p->store, "torn", "session.json");
    FILE *transcript = fopen(store_path(&p->store, "torn", "transcript.jsonl").text, "ab");
    CHECK(t, transcript && fputs("torn\n", transcript) >= 0 && fclose(transcript) == 0);
    CHECK_EQ(t, unlink(manifest.text), 0);
    p->store.kv_cap = 1;
    store_trim(&p->store, "", &p->error);
    CHECK(t, access(manifest.text, F_OK) != 0);
    CHECK(t, store_kv_bytes(&p->store, "torn") > 1);
    close_place(p);
}

// One may be root, who may do anything: then as somebody else.
static void what_is_not_allowed_is_said(struct harness *t)
{
    struct place *p = open_place();
    saved_close(new_session(t, p, "talk"));
    struct saved *saved = new_session(t, p, "chat");
    exchange(t, p, saved, "one", "first");
    saved_close(saved);
    for (int inside = 0; inside < 2; inside++) {
        struct store_path folder = store_path(&p->store, inside ? "chat" : ".", NULL);
        char data[80];
        snprintf(data, sizeof data, "%s/data", p->root);
        CHECK(t, chmod(p->root, 0777) == 0 && chmod(data, 0777) == 0 && chmod(p->store.root, 0777) == 0 &&
                     chmod(folder.text, 0) == 0);
        pid_t child = fork();
        if (child == 0) {
            if (geteuid() == 0 && seteuid(65534) != 0)
                _exit(9);
            struct store_list list;
            bool said = store_remove(&p->store, "chat", &p->error) == STORE_IO &&
                        strstr(p->error.text, "Permission denied; reading and writing must be allowed in /tmp/") &&
                        strstr(p->error.text, inside ? "/chat (see ls -ld)" : "/sessions (see ls -ld)");
            if (!said)
                printf("    %s\n", p->error.text);
            enum store_code code = store_list(&p->store, &list, &p->error);
            bool listed = code == STORE_OK ? list.n_entries && list.entries[0].closed &&
                                                 !strcmp(list.entries[0].lacks, "session.json: Permission denied")
                                           : code == STORE_IO && strstr(p->error.text, "/sessions (see ls -ld)");
            fflush(stdout);
            _exit(!said + 2 * (!listed || (code == STORE_OK) != inside));
        }
        int status = 1;
        waitpid(child, &status, 0);
        CHECK_EQ(t, status, 0);
        chmod(folder.text, 0700);
    }
    close_place(p);
}

static int unlinking_fails(void *context, const char *path)
{
    errno = EACCES;
    return strstr(path, "transcript") ? -1 : store_io_posix.unlink(context, path);
}

// Somebody lists the sessions, and so sweeps up, as soon as one is on its way out.
static int rename_swept(void *context, const char *from, const char *to)
{
    struct store_list list;
    struct store_error error;
    int code = store_io_posix.rename(context, from, to);
    store_list(seen.store, &list, &error);
    store_list_release(&list);
    return code;
}

static void what_somebody_else_sweeps_up_is_removed(struct harness *t)
{
    struct place *p = open_place();
    struct store looks = p->store;
    struct store_io io = store_io_posix;
    struct saved *saved = new_session(t, p, "talk");
    exchange(t, p, saved, "one", "first");
    saved_close(saved);
    seen.store = &looks;
    io.rename = rename_swept;
    p->store.io = &io;
    CHECK_EQ(t, store_remove(&p->store, "talk", &p->error), STORE_OK);
    CHECK_STR(t, p->error.text, "");
    CHECK_EQ(t, store_find(&p->store, "talk", &p->error), STORE_NOT_FOUND);
    close_place(p);
}

static void what_could_not_be_removed_is_said(struct harness *t)
{
    struct place *p = open_place();
    struct store_io io = store_io_posix;
    struct saved *saved = new_session(t, p, "talk");
    exchange(t, p, saved, "one", "first");
    saved_close(saved);
    io.unlink = unlinking_fails;
    p->store.io = &io;
    CHECK_EQ(t, store_remove(&p->store, "talk", &p->error), STORE_IO);
    CHECK(t, strstr(p->error.text, "\"talk\" is no session any more, but its files are still there: ") &&
                 strstr(p->error.text, "/.deleted-talk-") && strstr(p->error.text, ": Permission denied"));
    close_place(p);
}

static void what_is_too_long_is_said(struct harness *t)
{
    struct place *p = open_place();
    struct store_list list;
    struct saved_content content;
    struct saved *saved = new_session(t, p, "talk");
    exchange(t, p, saved, "one", "first");
    saved_close(saved);
    struct store_path transcript = store_path(&p->store, "talk", "transcript.jsonl");
    CHECK_EQ(t, truncate(transcript.text, TRANSCRIPT_LIMIT + 1L), 0); // a hole
    CHECK(t, store_list(&p->store, &list, &p->error) == STORE_OK && list.n_entries == 1);
    CHECK(t, list.entries[0].closed && !list.entries[0].damaged);
    CHECK_STR(t, list.entries[0].lacks, "transcript.jsonl is longer than the 1 GiB that can be read");
    store_list_release(&list);
    CHECK_EQ(t, saved_open(&p->store, "talk", &saved, &content, &p->error), STORE_IO);
    CHECK(t, strstr(p->error.text,
                    "transcript.jsonl: longer than the 1 GiB that can be read; its text: jq -r .text /") != NULL);
    CHECK_EQ(t, truncate(store_path(&p->store, "talk", "session.json").text, MANIFEST_LIMIT + 1L), 0);
    CHECK_EQ(t, saved_open(&p->store, "talk", &saved, &content, &p->error), STORE_IO);
    CHECK(t, strstr(p->error.text, "session.json: longer than the 64 MiB that can be read; without it") != NULL);
    close_place(p);
}

static void what_must_be_allowed_is_said(struct harness *t)
{
    static const struct {
        int code;
        bool denied;
    } codes[] = {{EACCES, true}, {EPERM, true}, {ENOENT, false}, {EIO, false}};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        struct store_error error;
        CHECK_EQ(t, store_fail_path("/a/b/session.json", codes[i].code, &error), STORE_IO);
        CHECK(t,
              strstr(error.text, "/a/b/session.json: ") == error.text && strstr(error.text, strerror(codes[i].code)));
        CHECK_EQ(t, strstr(error.text, "; reading and writing must be allowed in /a/b (see ls -ld)") != NULL,
                 codes[i].denied);
    }
}

static int open_to_read(void *context, const char *path, int flags)
{
    if (!(flags & (O_CREAT | O_RDWR | O_WRONLY)))
        return store_io_posix.open(context, path, flags);
    errno = EROFS;
    return -1;
}

static int make_nothing(void *context, const char *path)
{
    struct stat about;
    (void)context;
    errno = lstat(path, &about) == 0 ? EEXIST : EROFS;
    return -1;
}

// A disk that only reads: a session that is to be made, one that is continued, and one whose disk becomes so.
static void a_read_only_disk_is_told_with_what_helps(struct harness *t)
{
    static const char says[] = ": Read-only file system: nothing can be saved or changed there; with XDG_DATA_HOME=DIR "
                               "sessions are elsewhere, with --no-session nothing is saved";
    char root[64];
    struct store store = rig_store(root);
    struct rig_engine *engine = rig_engine_new(false);
    struct saved_rows rows = rig_rows(engine);
    struct store_error error;
    struct saved_content content;
    struct saved *saved;
    struct store_io io = store_io_posix;
    io.open = open_to_read;
    io.mkdir = make_nothing;
    CHECK_EQ(t, saved_new(&store, "talk", &saved, &error), STORE_OK);
    CHECK(t, rig_append(saved, TOK_USER, "hi", engine) && saved_commit(saved, &rows, &error) == STORE_OK);
    store.io = &io;
    CHECK(t, rig_append(saved, TOK_ASSISTANT, "yes", engine));
    CHECK_EQ(t, saved_commit(saved, NULL, &error), STORE_IO);
    if (!CHECK(t, strncmp(error.text, "conversation not saved: /", 25) == 0 && strstr(error.text, says) &&
                      strstr(error.text, says)[sizeof says - 1] == 0))
        printf("    %s\n", error.text);
    saved_close(saved);
    CHECK_EQ(t, saved_open(&store, "talk", &saved, &content, &error), STORE_IO);
    CHECK(t, strstr(error.text, says) != NULL);
    saved_content_release(&content);
    saved_close(saved);
    CHECK_EQ(t, saved_new(&store, "", &saved, &error), STORE_OK);
    CHECK(t, rig_append(saved, TOK_USER, "hi", engine));
    CHECK_EQ(t, saved_commit(saved, NULL, &error), STORE_IO);
    CHECK(t, strncmp(error.text, "conversation not saved: /", 25) == 0 && strstr(error.text, says));
    saved_close(saved);
    free(engine);
    rig_clean(root);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(a_first_save_is_no_damage),         TEST(one_who_looks_is_not_in_the_way),
        TEST(one_who_looks_is_no_other_moechat), TEST(the_cap_writes_no_manifest_over_damage),
        TEST(what_is_not_allowed_is_said),       TEST(what_somebody_else_sweeps_up_is_removed),
        TEST(what_could_not_be_removed_is_said), TEST(what_is_too_long_is_said),
        TEST(what_must_be_allowed_is_said),      TEST(a_read_only_disk_is_told_with_what_helps),
    };
    return HARNESS_RUN(tests, argc, argv);
}
