// SPDX-License-Identifier: GPL-3.0-or-later
// Drafts that are in the history when a chat ends.
#include "tests/harness.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/term/recall.h"

static char folder[] = "/tmp/moechat-recall-XXXXXX";

static void not_kept(void *context, const char *why)
{
    (void)context;
    printf("    not kept: %s\n", why);
}

// A search that is under way when the chat ends with no line to be edited: it began from a draft.
static void the_draft_of_a_search_is_kept(struct harness *t)
{
    for (int shown = 0; shown < 2; shown++) {
        struct recall recall = {.not_kept = not_kept}, next = {.not_kept = not_kept};
        struct bytes lost = {0};
        CHECK_EQ(t, recall_open(&recall), 0);
        recall.searched_from = strdup(shown ? "a second draft" : "a draft");
        CHECK(t, recall_close(&recall, shown ? "" : NULL, "", &lost).told && !recall.searched_from);
        recall_open(&next);
        if (CHECK_EQ(t, next.history.count, (size_t)shown + 1))
            CHECK_STR(t, next.history.entries[shown], shown ? "a second draft" : "a draft");
        CHECK(t, recall_close(&next, NULL, "", &lost).told && !lost.length);
    }
}

static void make_long_history(void)
{
    char path[100];
    snprintf(path, sizeof path, "%s/moechat", folder);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/moechat/history", folder);
    FILE *file = fopen(path, "w");
    for (int i = 0; file && i < 400; i++)
        fprintf(file, "line %d\n", i);
    if (file)
        fclose(file);
}

// On a disk that is full an older draft stays in its file, and the newest is told.
static void what_is_lost_is_told(struct harness *t)
{
    static char older[2001], newest[4001];
    struct recall recall = {.not_kept = not_kept}, next = {.not_kept = not_kept};
    struct bytes lost = {0};
    struct rlimit usual;
    memset(older, 'a', 2000);
    memset(newest, 'b', 4000);
    make_long_history();
    recall_open(&recall);
    recall_keep_draft(&recall, older, 1000);
    recall_keep_draft(&recall, older, 2000);
    CHECK_EQ(t, getrlimit(RLIMIT_FSIZE, &usual), 0);
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){3000, usual.rlim_max});
    CHECK(t, recall_close(&recall, newest, "", &lost).told);
    setrlimit(RLIMIT_FSIZE, &usual);
    signal(SIGXFSZ, SIG_DFL);
    CHECK_EQ(t, recall_open(&next), 1);
    if (CHECK(t, next.history.count > 0))
        CHECK_STR(t, next.history.entries[next.history.count - 1], older);
    CHECK_STR(t, lost.data ? lost.data : "", newest);
    bytes_release(&lost);
    CHECK(t, recall_close(&next, NULL, "", &lost).told && !lost.length);
}

// What the disk did not take is tried again when the same is typed again, or asked for: it was no line of the history.
static void what_was_not_kept_is_tried_again(struct harness *t)
{
    struct recall recall = {.not_kept = not_kept}, next = {.not_kept = not_kept};
    struct bytes lost = {0};
    recall_open(&recall);
    char *path = recall.history_path;
    recall.history_path = strdup("/dev/full");
    CHECK(t, !recall_remember(&recall, "typed twice") && !recall_remember(&recall, "typed twice"));
    CHECK(t, !recall_keeps(&recall, "typed twice") && recall_keeps(&recall, " \n"));
    free(recall.history_path);
    recall.history_path = path;
    CHECK(t, recall_keeps(&recall, "typed twice"));
    CHECK(t, recall_close(&recall, NULL, "", &lost).told && !lost.length);
    recall_open(&next);
    if (CHECK(t, next.history.count > 0))
        CHECK_STR(t, next.history.entries[next.history.count - 1], "typed twice");
    CHECK(t, recall_close(&next, NULL, "", &lost).told && !lost.length);
}

// With the next text that the disk takes, or at the end; a message that was sent is not owed.
static void a_draft_that_was_put_away_is_owed(struct harness *t)
{
    for (int room = 0; room < 3; room++) { // never again, at the end, before another text
        struct recall recall = {.not_kept = not_kept}, next = {.not_kept = not_kept};
        struct bytes lost = {0};
        recall_open(&recall);
        size_t before = recall.history.count;
        char *path = recall.history_path;
        recall.history_path = strdup("/dev/full");
        CHECK(t, !recall_remember(&recall, "sent"));
        CHECK(t, !recall_put_away(&recall, room == 1 ? "one" : room == 2 ? "three" : "five"));
        CHECK(t, !recall_put_away(&recall, "sent then") && !recall_remember(&recall, "sent then"));
        CHECK(t, !recall_put_away(&recall, room == 1 ? "two" : room == 2 ? "four" : "six"));
        if (room) {
            free(recall.history_path);
            recall.history_path = path;
            CHECK(t, room == 1 || (recall_remember(&recall, "another") && !recall.owed.length));
        } else {
            free(path);
            draft_file_end(&recall.draft_file, true);
            recall.draft_file = (struct draft_file){.fd = -1}; // that disk is full, too
        }
        CHECK(t, recall_close(&recall, NULL, "", &lost).told);
        CHECK_EQ(t, recall_open(&next), 0);
        if (CHECK_EQ(t, next.history.count, before + (room ? 1 + (size_t)room : 0)) && room)
            for (size_t i = 0; i < 2; i++)
                CHECK_STR(t, next.history.entries[before + i], room == 1 ? i ? "two" : "one" : i ? "four" : "three");
        CHECK_EQ(t, lost.length, room ? 0 : sizeof "five" + sizeof "six" - 1);
        CHECK(t, room || (bytes_have_text(&lost, "five") && bytes_have_text(&lost, "six")));
        bytes_release(&lost);
        CHECK(t, recall_close(&next, NULL, "", &lost).told && !lost.length);
    }
}

// As where a file stands in the folder's place: this chat's Up has it, no later one does.
static void without_a_folder_nothing_is_kept(struct harness *t)
{
    struct recall recall = {.not_kept = not_kept};
    struct bytes lost = {0};
    char path[100];
    snprintf(path, sizeof path, "%s/moechat/history", folder);
    setenv("XDG_STATE_HOME", path, 1);
    recall_open(&recall);
    setenv("XDG_STATE_HOME", folder, 1);
    CHECK(t, !recall.history_path && !recall_remember(&recall, "typed") && !recall_keeps(&recall, "typed"));
    CHECK(t, recall_remember(&recall, "  ")); // there is nothing in it to see
    CHECK(t, recall_close(&recall, "a draft", "", &lost).told);
    CHECK_STR(t, lost.data ? lost.data : "", "a draft");
    bytes_release(&lost);
}

// Where the history can't be written the draft's file takes all that there is: what waited, the draft, one left for it,
// and what came behind the line that left. Up finds the newest first.
static void the_file_takes_all_that_the_history_does_not(struct harness *t)
{
    static const char *const texts[] = {"waited", "waited, too", "left for a search", "a draft", "behind"};
    struct recall recall = {.not_kept = not_kept}, next = {.not_kept = not_kept};
    struct bytes lost = {0};
    recall_open(&recall);
    free(recall.history_path);
    recall.history_path = strdup("/dev/full");
    recall.searched_from = strdup(texts[2]);
    CHECK(t, recall_lose(&lost, texts[0]) && recall_lose(&lost, texts[1]));
    struct recall_end end = recall_close(&recall, texts[3], texts[4], &lost);
    CHECK(t, end.told && end.behind && !lost.length);
    CHECK_EQ(t, recall_open(&next), 1);
    for (size_t i = 0; i < 5 && CHECK(t, next.history.count >= 5); i++)
        CHECK_STR(t, next.history.entries[next.history.count - 5 + i], texts[i]);
    bytes_release(&lost);
    CHECK(t, recall_close(&next, NULL, "", &lost).told && !lost.length);
}

// What it has no room for stays with who tells it, and what the history has is not said to be lost.
static void what_no_file_takes_is_told_by_itself(struct harness *t)
{
    static char large[DRAFT_FILE_LIMIT];
    struct recall recall = {.not_kept = not_kept}, next = {.not_kept = not_kept};
    struct bytes lost = {0};
    memset(large, 'l', sizeof large - 1);
    recall_open(&recall);
    CHECK(t, recall_lose(&lost, "first") && recall_lose(&lost, large) && recall_lose(&lost, "second"));
    struct recall_end end = recall_close(&recall, "a draft", "behind the line", &lost);
    CHECK(t, end.told && end.behind && bytes_have_text(&lost, large));
    CHECK_EQ(t, lost.length, sizeof large - 1);
    bytes_release(&lost);
    CHECK_EQ(t, recall_open(&next), 1);
    CHECK(t, recall_close(&next, NULL, "", &lost).told && !lost.length);
}

static void take_path(void *context, const char *path)
{
    snprintf(context, 200, "%s", path);
}

// A text longer than the history takes: this end tells the file, and so does each that comes later.
static void a_long_draft_stays_in_its_file(struct harness *t)
{
    char told[200] = "";
    static char large[HISTORY_ENTRY_LIMIT + 2];
    struct recall recall = {.not_kept = not_kept};
    struct bytes lost = {0};
    memset(large, 'l', sizeof large - 1);
    recall_open(&recall);
    struct recall_end end = recall_close(&recall, large, "behind", &lost);
    CHECK(t, end.told && end.behind && !lost.length && end.stays);
    for (int later = 0; later < 2; later++, told[0] = 0) {
        struct recall next = {.not_kept = not_kept, .stays = take_path, .context = told};
        CHECK_EQ(t, recall_open(&next), 0);
        CHECK_STR(t, told, end.stays ? end.stays : "");
        CHECK(t, recall_close(&next, NULL, "", &lost).told);
    }
    CHECK(t, end.stays && unlink(end.stays) == 0);
    free(end.stays);
}

static void take_apart(void *context, const char *path, const char *why)
{
    snprintf(context, 200, "%s: %s", path ? path : "nowhere", why);
}

// In $TMPDIR, where the next chat finds it, as it does a message that was sent and that neither the history nor a
// session has; and that is said.
static void what_has_no_place_is_kept_elsewhere(struct harness *t)
{
    char told[200] = "", path[100], words[RECALL_APART_SIZE];
    struct recall recall = {.not_kept = not_kept, .apart = take_apart, .context = told}, next = {.not_kept = not_kept};
    struct bytes lost = {0};
    setenv("TMPDIR", folder, 1);
    snprintf(path, sizeof path, "%s/moechat/history", folder);
    setenv("XDG_STATE_HOME", path, 1); // no folder
    recall_open(&recall);
    setenv("XDG_STATE_HOME", folder, 1);
    CHECK(t, !recall_remember(&recall, "saved") && !recall_remember(&recall, "sent"));
    recall_sent(&recall, "saved");
    recall_sent(&recall, "refused");
    recall_sent_came_back(&recall, "refused");
    recall_sent_is_safe(&recall);
    recall_sent(&recall, "sent");
    CHECK(t, bytes_have_text(&recall.owed, "refused") && !bytes_have_text(&recall.sent, "refused"));
    recall_keep_draft_now(&recall, "typed");
    CHECK(t, recall.draft_file.path && strncmp(recall.draft_file.path, folder, strlen(folder)) == 0);
    CHECK(t, strstr(told, recall.draft_file.path) == told && strstr(told, "Not a directory"));
    CHECK_STR(t, recall_apart_words(words, sizeof words, "/tmp/a", "no room"),
              "What you type can't be kept beside the history (no room); it is kept in /tmp/a.");
    told[0] = 0;
    recall_keep_draft_now(&recall, "typed on");
    CHECK_STR(t, told, "");      // once
    close(recall.draft_file.fd); // as if it was killed
    CHECK_EQ(t, recall_open(&next), 1);
    size_t count = next.history.count;
    CHECK(t, count >= 3 && strcmp(next.history.entries[count - 1], "typed on") == 0 &&
                 strcmp(next.history.entries[count - 2], "refused") == 0 &&
                 strcmp(next.history.entries[count - 3], "sent") == 0);
    CHECK(t, recall_close(&next, NULL, "", &lost).told && !lost.length);
    recall.draft_file.fd = -1;
    free(recall.draft_file.path);
    recall.draft_file.path = NULL;
    recall.draft_file.elsewhere = false;
    setenv("TMPDIR", "/nonexistent", 1);
    recall_keep_draft_now(&recall, "typed");
    CHECK_STR(t, told, "nowhere: Not a directory");
    setenv("TMPDIR", folder, 1);
    struct recall_end end = recall_close(&recall, "typed", "", &lost);
    CHECK(t, end.told && !lost.length && end.stays && unlink(end.stays) == 0); // as later chats may not look there
    free(end.stays);
    setenv("TMPDIR", "/nonexistent", 1);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(the_draft_of_a_search_is_kept),        TEST(what_is_lost_is_told),
        TEST(what_was_not_kept_is_tried_again),     TEST(a_draft_that_was_put_away_is_owed),
        TEST(without_a_folder_nothing_is_kept),     TEST(the_file_takes_all_that_the_history_does_not),
        TEST(what_no_file_takes_is_told_by_itself), TEST(a_long_draft_stays_in_its_file),
        TEST(what_has_no_place_is_kept_elsewhere)};
    char command[100];
    if (!mkdtemp(folder) || setenv("XDG_STATE_HOME", folder, 1) || setenv("TMPDIR", "/nonexistent", 1))
        return 2;
    int code = HARNESS_RUN(tests, argc, argv);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) ? 2 : code;
}
