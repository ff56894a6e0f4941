// SPDX-License-Identifier: GPL-3.0-or-later
// Drafts that are in the history when a chat ends.
#include "tests/harness.h"

#include <stdlib.h>
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

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(the_draft_of_a_search_is_kept)};
    char command[100];
    if (!mkdtemp(folder) || setenv("XDG_STATE_HOME", folder, 1))
        return 2;
    int code = HARNESS_RUN(tests, argc, argv);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) ? 2 : code;
}
