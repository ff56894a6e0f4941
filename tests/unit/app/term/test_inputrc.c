// SPDX-License-Identifier: GPL-3.0-or-later
// Files of key bindings that include others, or themselves.
#include "tests/harness.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/term/inputrc.h"

static char folder[] = "/tmp/moechat-inputrc-XXXXXX";

static const char *place(const char *name)
{
    static char path[2][200];
    static int which;
    which = !which;
    snprintf(path[which], sizeof path[which], "%s/%s", folder, name);
    return path[which];
}

// Each @ is the folder.
static const char *put(const char *name, const char *text)
{
    FILE *file = fopen(place(name), "w");
    for (const char *at = text; file && *at; at++)
        if (*at == '@')
            fputs(folder, file);
        else
            fputc(*at, file);
    if (file)
        fclose(file);
    return place(name);
}

static void what_includes_others_is_read(struct harness *t)
{
    char reason[INPUTRC_REASON_SIZE] = "";
    put("c", "set bell-style none\n");
    put("b", "$include @/c\n$if Bash\n$include @/c\n$endif\n$include @/nowhere");
    CHECK(t, inputrc_is_sane(put("a", "# $include @/a\n\"$include @/a\"\n$included @/a\n\t$ include \t@/b\n$include\n"),
                             reason));
    CHECK(t, inputrc_is_sane(put("empty", ""), reason));
    CHECK(t, inputrc_is_sane("/nowhere", reason) && inputrc_is_sane("/dev/null", reason));
    CHECK_STR(t, reason, "");
}

static void circles_and_pipes_are_refused(struct harness *t)
{
    char reason[INPUTRC_REASON_SIZE], wanted[300];
    static const char *const circles[] = {"$include @/a\n", "  $include  @/b",
                                          "set bell-style none\r\n$include @/b\r\n", "$INCLUDE @/b\n",
                                          "$Include @/a\n"};
    put("b", "$include @/c\n");
    put("c", "\n$include @/a\n");
    for (size_t i = 0; i < sizeof circles / sizeof *circles; i++) {
        CHECK(t, !inputrc_is_sane(put("a", circles[i]), reason));
        snprintf(wanted, sizeof wanted, "%s: includes itself, or too many others", place("a"));
        CHECK_STR(t, reason, wanted);
    }
    for (char name[] = "1"; name[0] < '8'; name[0]++) { // each includes the next twice, and more than twice is too much
        char text[] = "$include @/2\n$include @/2\n";
        text[11] = text[24] = (char)(name[0] + 1);
        put(name, text);
    }
    put("8", "");
    CHECK(t, !inputrc_is_sane(place("1"), reason) && inputrc_is_sane(place("5"), reason));
    CHECK_EQ(t, mkfifo(place("pipe"), 0600), 0);
    CHECK(t, !inputrc_is_sane(put("a", "$include @/pipe\n"), reason));
    snprintf(wanted, sizeof wanted, "%s: is a pipe", place("pipe"));
    CHECK_STR(t, reason, wanted);
    CHECK(t, !inputrc_is_sane(place("pipe"), reason));
    CHECK_EQ(t, truncate(put("long", "$include @/long\n"), (1 << 20) + 1), 0); // what is not looked at is not read
    CHECK(t, !inputrc_is_sane(place("long"), reason));
    snprintf(wanted, sizeof wanted, "%s: is longer than 1 MiB", place("long"));
    CHECK_STR(t, reason, wanted);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(what_includes_others_is_read),
        TEST(circles_and_pipes_are_refused),
    };
    char command[200];
    if (!mkdtemp(folder))
        return 1;
    int status = HARNESS_RUN(tests, argc, argv);
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) ? 1 : status;
}
