// SPDX-License-Identifier: GPL-3.0-or-later
// Drafts that killed chats left: which are taken over, and that nothing else is touched.
#include "app/store/draft_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/store/history.h"
#include "tests/harness.h"

static char folder[] = "/tmp/moechat-draft-XXXXXX", history[64];
static char taken[4][80];
static size_t n_taken;
static bool history_is_full;

static bool take(void *context, const char *text)
{
    (void)context;
    snprintf(taken[n_taken++ % 4], sizeof taken[0], "%s", text);
    return !history_is_full;
}

static char stayed[128];

static void stays(void *context, const char *path)
{
    (void)context;
    snprintf(stayed, sizeof stayed, "%s", path);
}

static void keep(struct draft_file *file, const char *text)
{
    struct bytes texts = {0};
    bytes_append(&texts, text, strlen(text));
    draft_file_keep(file, &texts);
    bytes_release(&texts);
}

static size_t adopt(void)
{
    struct draft_file other;
    n_taken = 0;
    draft_file_begin(&other, history);
    size_t count = draft_file_adopt(&other, &(struct draft_taker){take, stays, NULL});
    draft_file_end(&other, true);
    return count;
}

static size_t files(void)
{
    size_t count = 0;
    DIR *all = opendir(folder);
    for (const struct dirent *entry; (entry = readdir(all));)
        count += entry->d_name[0] != '.';
    closedir(all);
    return count;
}

static void put(const char *name, const char *text, size_t length)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    files_write(fd, text, length);
    close(fd);
}

static void one_that_lives_is_left_alone(struct harness *t)
{
    struct draft_file file;
    draft_file_begin(&file, history);
    keep(&file, "");
    CHECK_EQ(t, files(), 0); // nothing was typed
    keep(&file, "a long draft");
    keep(&file, "short");
    CHECK(t, draft_file_holds(&file, &(struct bytes){.data = (char[]){"short"}, .length = 5}));
    CHECK_EQ(t, adopt(), 0);
    CHECK_EQ(t, files(), 1);
    close(file.fd); // as a kill does
    file.fd = -1;
    CHECK_EQ(t, adopt(), 1);
    CHECK_STR(t, taken[0], "short");
    CHECK_EQ(t, files(), 0);
    draft_file_end(&file, true);
}

static void what_is_sent_is_kept_no_more(struct harness *t)
{
    struct draft_file file;
    char *large = calloc(DRAFT_FILE_LIMIT + 2, 1);
    memset(large, 'x', DRAFT_FILE_LIMIT + 1);
    draft_file_begin(&file, history);
    keep(&file, "a draft");
    keep(&file, "");
    close(file.fd);
    file.fd = -1;
    CHECK_EQ(t, adopt(), 0);
    CHECK_EQ(t, files(), 0); // its file goes all the same
    draft_file_end(&file, true);
    draft_file_begin(&file, history);
    keep(&file, "a draft");
    keep(&file, large); // no half of it, and not what was there before
    close(file.fd);
    file.fd = -1;
    CHECK_EQ(t, adopt(), 0);
    draft_file_end(&file, true);
    free(large);
}

static void what_is_planted_is_left_alone(struct harness *t)
{
    char link[128], target[128];
    snprintf(link, sizeof link, "%s/draft-linked", folder);
    snprintf(target, sizeof target, "%s/precious", folder);
    put("precious", "text", 4);
    put("draft-much-more", "text", 4);
    CHECK(t, symlink(target, link) == 0);
    snprintf(link, sizeof link, "%s/draft-piped_", folder);
    CHECK(t, mkfifo(link, 0600) == 0);
    CHECK_EQ(t, adopt(), 0); // and a pipe holds nothing up
    CHECK_EQ(t, files(), 4);
    put("draft-abcdef", "text", 4);
    CHECK_EQ(t, adopt(), 1);
    CHECK_EQ(t, files(), 4);
}

// An editor that was killed with its chat: its backup, and what it had not saved, are no litter.
static void what_is_beside_an_editors_file_goes_with_it(struct harness *t)
{
    put("draft-killed", "a draft", 7);
    put("edit-killed", "saved\n", 6);
    put("edit-killed~", "a draft\n", 8);
    put("#edit-killed#", "not saved", 9);
    put("edit-alone_~", "older", 5);
    size_t before = files();
    CHECK_EQ(t, adopt(), 2);
    CHECK_EQ(t, n_taken, 4);
    CHECK_EQ(t, files(), before - 5);
    CHECK_EQ(t, adopt(), 0);
    for (int same = 0; same < 2; same++) { // nano's
        put("edit-killed", same ? "all" : "saved\n", same ? 3 : 6);
        put("edit-killed.save", "all\n", 4);
        put("edit-alone_.save", "typed", 5);
        put("edit-alone_.save.1", "", 0);
        CHECK_EQ(t, adopt(), 2);
        CHECK_EQ(t, n_taken, same ? 2 : 3);
        size_t saved = 0, all = 0;
        for (size_t i = 0; i < n_taken; i++) {
            saved = strcmp(taken[i], "saved") == 0 ? i : saved;
            all = strcmp(taken[i], "all") == 0 ? i + 1 : all;
        }
        CHECK(t, all > saved + !same); // the newest last
        CHECK_EQ(t, files(), before - 5);
    }
}

enum { SWAP = 4096 };

static const char *machine = "here";

// In the place of the system's.
int uname(struct utsname *about)
{
    *about = (struct utsname){0};
    snprintf(about->nodename, sizeof about->nodename, "%s", machine);
    return 0;
}

// The first block of a swap file.
static void put_swap(const char *name, const char *head, const char *host, long process, char changed)
{
    char block[SWAP] = {0};
    snprintf(block, 24, "%s", head);
    for (int i = 0; i < 4; i++)
        block[24 + i] = (char)(process >> 8 * i);
    snprintf(block + 68, 40, "%s", host);
    block[1007] = changed;
    put(name, block, sizeof block);
}

static bool is_there(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

// What vim had not written stays and is told; what has nothing of it goes, but not from under an editor that lives.
static void what_only_vim_can_read_stays_and_is_told(struct harness *t)
{
    static const struct {
        const char *head;
        bool lives;
        char changed;
        bool told, stays;
    } swaps[] = {
        {"b0VIM 9.0", false, 0x55, true, true},    {"b0VIM 9.0", false, 0, false, false},
        {"b0VIM 9.0", true, 0x55, false, true},    {"b0VIM 9.0", true, 0, false, true},
        {"b0nano 7.2", false, 0x55, false, false}, {"something", false, 0x55, false, true},
    };
    static const char *const names[] = {".edit-abcdef.swp", ".edit-abcdef.swo", ".moechat-abcdef.swp"};
    char wanted[128];
    pid_t gone = fork();
    if (gone == 0)
        _exit(0);
    CHECK_EQ(t, waitpid(gone, NULL, 0), gone);
    siginfo_t info;
    pid_t defunct = fork(); // as an editor's is where the first process waits for nobody
    if (defunct == 0)
        _exit(0);
    CHECK_EQ(t, waitid(P_PID, (id_t)defunct, &info, WEXITED | WNOWAIT), 0);
    setenv("TMPDIR", folder, 1);
    for (size_t i = 0; i < sizeof swaps / sizeof swaps[0]; i++)
        for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
            put_swap(names[n], swaps[i].head, n == 1 ? machine : "",
                     swaps[i].lives ? getpid()
                     : n            ? gone
                                    : defunct,
                     swaps[i].changed);
            snprintf(wanted, sizeof wanted, "%s/%s", folder, swaps[i].told ? names[n] : "");
            put("draft-abcdef", "a draft", 7);
            for (int chats = 0; chats < 2; chats++) {
                snprintf(stayed, sizeof stayed, "%s/", folder);
                CHECK_EQ(t, adopt(), !chats);
                if (n == 2)
                    draft_file_find_elsewhere(&(struct draft_taker){take, stays, NULL});
                CHECK_STR(t, stayed, wanted);
                CHECK_EQ(t, is_there(names[n]), swaps[i].stays);
            }
            snprintf(wanted, sizeof wanted, "%s/%s", folder, names[n]);
            unlink(wanted);
        }
    setenv("TMPDIR", "/nonexistent", 1);
    CHECK_EQ(t, waitpid(defunct, NULL, 0), defunct);
    put_swap(".edit-abcdef.swp", "b0VIM 9.0", "another machine", gone, 0); // may live there
    snprintf(stayed, sizeof stayed, "%s/", folder);
    adopt();
    CHECK(t, is_there(".edit-abcdef.swp"));
    snprintf(wanted, sizeof wanted, "%s/", folder);
    CHECK_STR(t, stayed, wanted);
    put(".edit-abcdef.swp", "", 0);
    put(".edit-another.swp", "", 0);
    adopt();
    CHECK(t, !is_there(".edit-abcdef.swp") && is_there(".edit-another.swp"));
    snprintf(wanted, sizeof wanted, "%s/.edit-another.swp", folder);
    unlink(wanted);
}

// A swap file has room for 39 bytes of the machine's name.
static void a_machine_with_a_long_name_is_known(struct harness *t)
{
    static const char *const names[] = {"ip-172-31-100-123.us-west-2.compute.internal", // 44
                                        "a-name-that-has-39-letters-and-no-more.",
                                        "a-name-that-has-40-letters-and-one-more."};
    char wanted[128], longest[sizeof(struct utsname)] = "";
    memset(longest, 'm', sizeof((struct utsname){0}.nodename) - 1);
    pid_t gone = fork();
    if (gone == 0)
        _exit(0);
    CHECK_EQ(t, waitpid(gone, NULL, 0), gone);
    for (size_t i = 0; i < 4; i++)
        for (int foreign = 0; foreign < 2; foreign++) {
            machine = i < 3 ? names[i] : longest;
            put_swap(".edit-abcdef.swp", "b0VIM 9.0", foreign ? "ip-172-31-100-124" : machine, gone, 0x55);
            snprintf(wanted, sizeof wanted, "%s/%s", folder, foreign ? "" : ".edit-abcdef.swp");
            snprintf(stayed, sizeof stayed, "%s/", folder);
            adopt();
            CHECK_STR(t, stayed, wanted);
            snprintf(wanted, sizeof wanted, "%s/.edit-abcdef.swp", folder);
            CHECK(t, unlink(wanted) == 0);
        }
    machine = "here";
}

static void what_is_too_long_stays_and_is_told(struct harness *t)
{
    char *large = calloc(HISTORY_ENTRY_LIMIT + 1, 1), wanted[128];
    memset(large, 'x', HISTORY_ENTRY_LIMIT + 1);
    put("draft-killed", "a draft", 7);
    put("edit-killed", large, HISTORY_ENTRY_LIMIT + 1);
    snprintf(wanted, sizeof wanted, "%s/edit-killed", folder);
    for (int chats = 0; chats < 2; chats++) {
        *stayed = 0;
        CHECK_EQ(t, adopt(), !chats);
        CHECK_STR(t, stayed, wanted); // once the draft is gone, too
    }
    put("edit-killed", "short", 5);
    CHECK_EQ(t, adopt(), 1);
    free(large);
    struct draft_taker taker = {take, stays, NULL};
    char path[128];
    setenv("TMPDIR", folder, 1);
    int fd = draft_file_edit_elsewhere(path, sizeof path);
    CHECK(t, fd >= 0);
    *stayed = 0;
    draft_file_find_elsewhere(&taker); // it is in use
    CHECK_STR(t, stayed, "");
    close(fd);
    draft_file_find_elsewhere(&taker);
    CHECK_STR(t, stayed, path);
    CHECK(t, unlink(path) == 0);
    setenv("TMPDIR", "/nonexistent", 1);
}

static void what_no_history_takes_stays(struct harness *t)
{
    struct draft_file file;
    history_is_full = true;
    put("draft-killed", "precious", 8);
    CHECK_EQ(t, adopt(), 1);
    CHECK_EQ(t, adopt(), 1); // the next chat finds it again
    CHECK_STR(t, taken[0], "precious");
    history_is_full = false;
    CHECK_EQ(t, adopt(), 1);
    CHECK_EQ(t, adopt(), 0);
    for (int safe = 0; safe < 2; safe++) {
        draft_file_begin(&file, history);
        keep(&file, "left");
        draft_file_end(&file, safe);
        CHECK_EQ(t, adopt(), !safe);
    }
    draft_file_begin(&file, history);
    keep(&file, "sent");
    keep(&file, "");
    size_t before = files();
    draft_file_end(&file, false); // there is nothing to keep
    CHECK_EQ(t, files(), before - 1);
}

// A disk without room for a longer text leaves the one that is there, and is tried again.
static void what_was_kept_outlives_a_full_disk(struct harness *t)
{
    static char texts[2][4001];
    struct draft_file file;
    struct rlimit usual, small;
    struct bytes longer = {0};
    memset(texts[0], 'a', 2000);
    memset(texts[1], 'b', 4000);
    CHECK_EQ(t, getrlimit(RLIMIT_FSIZE, &usual), 0);
    small = (struct rlimit){3000, usual.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    for (int cleared = 0; cleared < 3; cleared++) {
        draft_file_begin(&file, history);
        keep(&file, texts[0]);
        setrlimit(RLIMIT_FSIZE, &small);
        keep(&file, texts[1]);
        bytes_append(&longer, texts[1], 4000);
        CHECK(t, !draft_file_holds(&file, &longer));
        bytes_release(&longer);
        if (cleared == 1)
            keep(&file, "");
        setrlimit(RLIMIT_FSIZE, &usual);
        if (cleared == 2)
            keep(&file, texts[1]);
        CHECK_EQ(t, draft_file_end(&file, false), cleared == 2); // an older text is not what was to be kept
        CHECK_EQ(t, adopt(), cleared != 1);
        CHECK_EQ(t, n_taken, cleared != 1);
        CHECK(t, cleared == 1 || strncmp(taken[0], texts[cleared == 2], 79) == 0);
    }
    signal(SIGXFSZ, SIG_DFL);
}

// Neither is it held to be kept where no file could be made.
static void a_file_that_could_not_be_made_is_tried_again(struct harness *t)
{
    struct draft_file file;
    char away[80];
    const struct bytes draft = {.data = (char[]){"a draft"}, .length = 7};
    snprintf(away, sizeof away, "%s.away", folder);
    draft_file_begin(&file, history);
    CHECK_EQ(t, rename(folder, away), 0);
    draft_file_keep(&file, &draft);
    CHECK(t, file.fd < 0 && !draft_file_holds(&file, &draft));
    CHECK(t, !draft_file_end(&file, false));
    draft_file_begin(&file, history);
    draft_file_keep(&file, &draft);
    CHECK_EQ(t, rename(away, folder), 0);
    draft_file_keep(&file, &draft);
    CHECK(t, file.fd >= 0 && draft_file_holds(&file, &draft));
    CHECK(t, draft_file_end(&file, false));
    CHECK_EQ(t, adopt(), 1);
}

static void several_texts(struct harness *t)
{
    put("draft-abcdef", "\0newest\0\0older\0oldest\0", 22);
    CHECK_EQ(t, adopt(), 1);
    if (CHECK_EQ(t, n_taken, 3)) {
        CHECK_STR(t, taken[0], "oldest");
        CHECK_STR(t, taken[2], "newest");
    }
    CHECK_EQ(t, files(), 0);
    put("draft-abcdef", "\0\0\0", 3);
    CHECK_EQ(t, adopt(), 0); // nothing was typed
    CHECK_EQ(t, n_taken + files(), 0);
    history_is_full = true;
    put("draft-abcdef", "newest\0older", 12);
    CHECK_EQ(t, adopt(), 1);
    history_is_full = false;
    CHECK_EQ(t, adopt(), 1); // it stayed
    CHECK_EQ(t, n_taken, 2);
}

// An editor's file is its chat's while that lives, then comes behind the draft; without one, by itself.
static void what_an_editor_had(struct harness *t)
{
    struct draft_file file;
    char path[128];
    static const char *const wrote[] = {"the draft\n", "a page\0of it\n\n", "\n", ""};
    for (int had = 0; had < 2; had++)
        for (int i = 0; i < 4; i++) {
            draft_file_begin(&file, history);
            if (had)
                keep(&file, "the draft");
            int fd = draft_file_edit(&file, path, sizeof path);
            CHECK(t, fd >= 0 && draft_file_edit(&file, path, sizeof path) < 0);
            CHECK_EQ(t, files_write(fd, wrote[i], i == 1 ? 15 : strlen(wrote[i])), 0);
            close(fd);
            CHECK_EQ(t, adopt(), 0); // it lives
            CHECK_EQ(t, files(), 2);
            close(file.fd);
            file.fd = -1;
            CHECK_EQ(t, adopt(), had || i < 2);
            CHECK_EQ(t, n_taken, (size_t)(had ? 1 + (i == 1) : i < 2));
            CHECK(t, i != 1 || strcmp(taken[n_taken - 1], "a page\nof it") == 0);
            CHECK_EQ(t, files(), 0);
            draft_file_end(&file, true);
        }
    history_is_full = true;
    put("draft-abcdef", "the draft", 9);
    put("edit-abcdef", "a page", 6);
    CHECK_EQ(t, adopt(), 1);
    CHECK_EQ(t, files(), 2);
    history_is_full = false;
    snprintf(path, sizeof path, "%s/draft-abcdef", folder);
    CHECK_EQ(t, unlink(path), 0);
    put("edit-abcdef~", "a page", 6);
    CHECK_EQ(t, adopt(), 1);
    CHECK_EQ(t, n_taken, 1); // they are the same
    CHECK_STR(t, taken[0], "a page");
    CHECK_EQ(t, files(), 0);
}

static bool count_take(void *context, const char *text)
{
    (void)text;
    return write(*(int *)context, "t", 1) == 1;
}

// A chat that begins once `go` is closed.
static pid_t begin_chat(const int go[2], int takes)
{
    pid_t child = fork();
    if (child)
        return child;
    struct draft_file file;
    char end;
    close(go[1]);
    draft_file_begin(&file, history);
    if (read(go[0], &end, 1) == 0)
        draft_file_adopt(&file, &(struct draft_taker){count_take, NULL, &takes});
    _exit(0);
}

// Two that begin at once: what the one has opened the other may have taken and removed by the time that it is held.
static void two_chats_take_a_draft_once(struct harness *t)
{
    enum { ROUNDS = 150, LEFT = 20 };
    int takes[2], go[2];
    char took[2 * LEFT], name[32];
    ssize_t n = LEFT;
    CHECK_EQ(t, pipe(takes), 0);
    for (int round = 0; round < ROUNDS && n == LEFT; round++) {
        for (int i = 0; i < LEFT; i++) {
            snprintf(name, sizeof name, "%s-%06d", i % 2 ? "draft" : "edit", i);
            put(name, "a draft", 7);
        }
        CHECK_EQ(t, pipe(go), 0);
        pid_t chats[2] = {begin_chat(go, takes[1]), begin_chat(go, takes[1])};
        close(go[0]);
        close(go[1]);
        for (int i = 0; i < 2; i++)
            CHECK_EQ(t, waitpid(chats[i], NULL, 0), chats[i]);
        n = read(takes[0], took, sizeof took);
    }
    CHECK_EQ(t, n, LEFT);
    CHECK_EQ(t, files(), 0);
    close(takes[0]);
    close(takes[1]);
}

static void no_place(struct harness *t)
{
    struct draft_file file;
    draft_file_begin(&file, NULL);
    CHECK_EQ(t, draft_file_adopt(&file, &(struct draft_taker){take, stays, NULL}), 0);
    keep(&file, "a draft");
    CHECK_EQ(t, file.fd, -1);
    draft_file_end(&file, true);
}

// A file in $TMPDIR where the folder takes none, or no more, and back where that takes no more, either.
static void what_has_no_room_is_kept_elsewhere(struct harness *t)
{
    struct draft_file file;
    char away[80], other[] = "/tmp/moechat-elsewhere-XXXXXX";
    const struct bytes draft = {.data = (char[]){"a draft"}, .length = 7},
                       more = {.data = (char[]){"a draft on"}, .length = 10};
    CHECK(t, mkdtemp(other) && setenv("TMPDIR", other, 1) == 0);
    snprintf(away, sizeof away, "%s.away", folder);
    for (int kept = 0; kept < 2; kept++) { // nothing, or something of it, there before
        draft_file_begin(&file, history);
        if (kept) {
            draft_file_keep(&file, &draft);
            CHECK(t, !file.elsewhere && !file.why);
            int full = open("/dev/full", O_RDWR);
            CHECK_EQ(t, dup2(full, file.fd), file.fd);
            close(full);
        } else {
            CHECK_EQ(t, rename(folder, away), 0);
        }
        draft_file_keep(&file, &more);
        CHECK(t, file.elsewhere && file.why && draft_file_holds(&file, &more));
        CHECK(t, strncmp(file.path, other, strlen(other)) == 0);
        char path[128];
        CHECK_EQ(t, draft_file_edit(&file, path, sizeof path), -1);
        CHECK_EQ(t, kept ? 0 : rename(away, folder), 0);
        CHECK_EQ(t, files(), 0);
        CHECK_EQ(t, adopt(), 0); // it is held
        if (kept) {
            int full = open("/dev/full", O_RDWR);
            CHECK_EQ(t, dup2(full, file.fd), file.fd);
            close(full);
            draft_file_keep(&file, &draft);
            CHECK(t, !file.elsewhere && !file.why && draft_file_holds(&file, &draft));
            CHECK_EQ(t, files(), 1);
        }
        CHECK(t, draft_file_end(&file, false));
        CHECK_EQ(t, adopt(), 1);
        CHECK_STR(t, taken[0], kept ? "a draft" : "a draft on");
        CHECK_EQ(t, adopt(), 0);
    }
    // While an editor has its file by the draft's letters that one stays.
    char path[128];
    draft_file_begin(&file, history);
    draft_file_keep(&file, &draft);
    close(draft_file_edit(&file, path, sizeof path));
    int full = open("/dev/full", O_RDWR);
    dup2(full, file.fd);
    close(full);
    draft_file_keep(&file, &more);
    CHECK(t, !file.elsewhere && file.stale && files() == 2);
    CHECK_EQ(t, unlink(path), 0);
    draft_file_keep(&file, &more);
    CHECK(t, file.elsewhere && !file.stale && files() == 0);
    draft_file_end(&file, true);
    setenv("TMPDIR", "/nonexistent", 1);
    CHECK_EQ(t, rmdir(other), 0);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(one_that_lives_is_left_alone),
        TEST(what_is_sent_is_kept_no_more),
        TEST(what_no_history_takes_stays),
        TEST(what_is_beside_an_editors_file_goes_with_it),
        TEST(what_only_vim_can_read_stays_and_is_told),
        TEST(a_machine_with_a_long_name_is_known),
        TEST(what_is_too_long_stays_and_is_told),
        TEST(what_was_kept_outlives_a_full_disk),
        TEST(a_file_that_could_not_be_made_is_tried_again),
        TEST(several_texts),
        TEST(what_an_editor_had),
        TEST(two_chats_take_a_draft_once),
        TEST(no_place),
        TEST(what_has_no_room_is_kept_elsewhere),
        TEST(what_is_planted_is_left_alone),
    };
    if (!mkdtemp(folder) || setenv("TMPDIR", "/nonexistent", 1))
        return 1;
    snprintf(history, sizeof history, "%s/history", folder);
    int code = HARNESS_RUN(tests, argc, argv);
    char remove[64];
    snprintf(remove, sizeof remove, "rm -rf %s", folder);
    return system(remove) == 0 ? code : 1;
}
