// SPDX-License-Identifier: GPL-3.0-or-later
// What Tab offers.
#include "app/talk/candidates.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/talk/commands.h"
#include "tests/harness.h"

// "start: word word", or "" when there is nothing to offer.
static const char *offered(const char *line)
{
    static char text[2048];
    static const char *const names[] = {"zoe", "trip", "tree"};
    struct candidates found;
    text[0] = 0;
    if (candidates_find(&found, line, strlen(line), &(struct candidate_names){names, 3})) {
        size_t length = (size_t)snprintf(text, sizeof text, "%zu:", found.start);
        for (size_t i = 0; i < found.count && length < sizeof text; i++)
            length += (size_t)snprintf(text + length, sizeof text - length, " %s", found.words[i]);
    }
    candidates_release(&found);
    return text;
}

static void commands(struct harness *t)
{
    CHECK_STR(t, offered("/re"), "0: /redo /rename /resume /retry");
    CHECK_STR(t, offered("/quit"), "0: /quit");
    CHECK_STR(t, offered("/nothing"), "");
    CHECK_STR(t, offered("re"), "");
    CHECK_STR(t, offered(""), "");
    CHECK_STR(t, offered(" /re"), "");
    CHECK(t, strncmp(offered("/"), "0: /bye /clear ", 15) == 0);
    CHECK_STR(t, offered("/help ren"), "6: rename");
}

static void arguments(struct harness *t)
{
    CHECK_STR(t, offered("/load "), "6: tree trip zoe");
    CHECK_STR(t, offered("/switch  tr"), "9: tree trip");
    CHECK_STR(t, offered("/load trip "), "");
    CHECK_STR(t, offered("/load t"), "6: tree trip");
    CHECK_STR(t, offered("/load r"), "6: tree trip"); // none begins so
    CHECK_STR(t, offered("/load oe"), "6: zoe");
    CHECK_STR(t, offered("/load x"), "");
    CHECK_STR(t, offered("/set op-k"), "");
    CHECK_STR(t, offered("/set to"), "5: top-k top-p");
    CHECK_STR(t, offered("/undo "), "");
    CHECK_STR(t, offered("/nothing tr"), "");
}

static void names_that_would_not_be_seen_as_they_are(struct harness *t)
{
    static const char *const names[] = {"plain",    "caf\xC3\xA9",    "\xE2\x80\xAEtxt.exe",
                                        "a\x1B[2J", "x\xE2\x80\x8Bz", "\xFF"};
    char folder[] = "/tmp/moechat-candidates-XXXXXX", path[128], wanted[128];
    CHECK(t, mkdtemp(folder) != NULL);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        CHECK(t, mkdir(path, 0700) == 0);
    }
    snprintf(path, sizeof path, "/file %s/", folder);
    snprintf(wanted, sizeof wanted, "6: %s/caf\xC3\xA9/ %s/plain/", folder, folder);
    CHECK_STR(t, offered(path), wanted);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        rmdir(path);
    }
    rmdir(folder);
}

// ~ is the home, by itself before a slash alone; any other name is here, however short.
static void files_are_at_home_or_here(struct harness *t)
{
    static const char *const folders[] = {"home", "home/plans", "home/.hidden", "q", "q/inner", "~x", "~x/deep"};
    char folder[] = "/tmp/moechat-candidates-XXXXXX", path[128], here[4096];
    if (!CHECK(t, getcwd(here, sizeof here) && mkdtemp(folder) && chdir(folder) == 0))
        return;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        CHECK(t, mkdir(folders[i], 0700) == 0);
    fclose(fopen("home/letter", "w"));
    snprintf(path, sizeof path, "%s/home", folder);
    char *before = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
    setenv("HOME", path, 1);
    CHECK_STR(t, offered("/file ~/"), "6: ~/letter ~/plans/");
    CHECK_STR(t, offered("/file ~/p"), "6: ~/plans/");
    CHECK_STR(t, offered("/file ~/."), "6: ~/.hidden/");
    CHECK_STR(t, offered("/file q/"), "6: q/inner/");
    CHECK_STR(t, offered("/file ~x/"), "6: ~x/deep/");
    CHECK_STR(t, offered("/file "), "6: home/ q/ ~x/");
    unsetenv("HOME");
    CHECK_STR(t, offered("/file ~/"), ""); // whose it is nobody says
    if (before)
        setenv("HOME", before, 1);
    free(before);
    unlink("home/letter");
    for (size_t i = sizeof folders / sizeof folders[0]; i > 0; i--)
        rmdir(folders[i - 1]);
    CHECK(t, chdir(here) == 0 && rmdir(folder) == 0);
}

static void only_up_to_the_point(struct harness *t)
{
    struct candidates found;
    CHECK(t, candidates_find(&found, "/qxyz", 2, &(struct candidate_names){0}) && found.count == 1);
    CHECK_STR(t, found.words[0], "/quit");
    candidates_release(&found);
}

// /file takes a path up to a space, or in quotes; that of /export is all that follows.
static void paths_with_spaces_are_quoted(struct harness *t)
{
    static const char *const files[] = {"d one/a b", "d one/c", "d one/q\"q", "lone", "l two", "k\"k"};
    char folder[] = "/tmp/moechat-candidates-XXXXXX", here[4096];
    CHECK(t, mkdtemp(folder) && getcwd(here, sizeof here) && chdir(folder) == 0 && mkdir("d one", 0700) == 0);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        fclose(fopen(files[i], "w"));
    CHECK_STR(t, offered("/file d"), "6: \"d one/");
    CHECK_STR(t, offered("/file \"d"), "6: \"d one/");
    CHECK_STR(t, offered("/file \"d one/"), "9: one/a b\" one/c\"");
    CHECK_STR(t, offered("/file \"d one/a"), "9: one/a b\"");
    CHECK_STR(t, offered("/file  \"d one/a "), "16: b\"");
    CHECK_STR(t, offered("/file \"d one/c\""), "");
    CHECK_STR(t, offered("/file \"d one/c\" l"), ""); // words
    CHECK_STR(t, offered("/file d one/"), "");
    CHECK_STR(t, offered("/file l"), "6: \"l two\" lone");
    CHECK_STR(t, offered("/file \"l"), "6: \"l two\" \"lone\"");
    CHECK_STR(t, offered("/file k"), "6: k\"k");
    CHECK_STR(t, offered("/file \"k"), "");
    CHECK_STR(t, offered("/export md d"), "11: d one/");
    CHECK_STR(t, offered("/export md d one/c"), "13: one/c");
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        unlink(files[i]);
    CHECK(t, rmdir("d one") == 0 && chdir(here) == 0 && rmdir(folder) == 0);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(commands),
                                                TEST(arguments),
                                                TEST(only_up_to_the_point),
                                                TEST(files_are_at_home_or_here),
                                                TEST(paths_with_spaces_are_quoted),
                                                TEST(names_that_would_not_be_seen_as_they_are)};
    return HARNESS_RUN(tests, argc, argv);
}
