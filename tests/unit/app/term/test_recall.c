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
        CHECK_EQ(t, recall_open(&recall), 0);
        recall.searched_from = strdup(shown ? "a second draft" : "a draft");
        CHECK(t, recall_close(&recall, shown ? "" : NULL) && !recall.searched_from);
        recall_open(&next);
        if (CHECK_EQ(t, next.history.count, (size_t)shown + 1))
            CHECK_STR(t, next.history.entries[shown], shown ? "a second draft" : "a draft");
        CHECK(t, recall_close(&next, NULL));
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

// On a disk that is full an older draft stays in its file, and the newest is told to be lost.
static void what_is_lost_is_told(struct harness *t)
{
    static char older[2001], newest[4001];
    struct recall recall = {.not_kept = not_kept}, next = {.not_kept = not_kept};
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
    CHECK(t, !recall_close(&recall, newest));
    setrlimit(RLIMIT_FSIZE, &usual);
    signal(SIGXFSZ, SIG_DFL);
    CHECK_EQ(t, recall_open(&next), 1);
    if (CHECK(t, next.history.count > 0))
        CHECK_STR(t, next.history.entries[next.history.count - 1], older);
    CHECK(t, recall_close(&next, NULL));
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(the_draft_of_a_search_is_kept), TEST(what_is_lost_is_told)};
    char command[100];
    if (!mkdtemp(folder) || setenv("XDG_STATE_HOME", folder, 1))
        return 2;
    int code = HARNESS_RUN(tests, argc, argv);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) ? 2 : code;
}
