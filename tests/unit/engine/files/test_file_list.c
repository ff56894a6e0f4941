// SPDX-License-Identifier: GPL-3.0-or-later
// Lists of files as programs print them.
#include "engine/files/file_list.h"

#include <stdlib.h>

#include "tests/harness.h"

static int read_text(const char *text, struct file_list *list, struct moe_err *err)
{
    return file_list_read(text, strlen(text), "LIST", list, err);
}

// "path=bytes path=? ..." of a list that is then released.
static const char *told(const char *text)
{
    static char out[600];
    struct file_list list;
    struct moe_err err;
    size_t at = 0;
    if (read_text(text, &list, &err)) {
        snprintf(out, sizeof out, "%s", err.text);
        return out;
    }
    out[0] = '\0';
    for (size_t i = 0; i < list.count; i++)
        at += (size_t)(list.files[i].sized
                           ? snprintf(out + at, sizeof out - at, "%s%s=%llu", i ? " " : "", list.files[i].path,
                                      (unsigned long long)list.files[i].bytes)
                           : snprintf(out + at, sizeof out - at, "%s%s=?", i ? " " : "", list.files[i].path));
    file_list_release(&list);
    return out;
}

static void what_the_hub_answers(struct harness *t)
{
    struct file_list list;
    CHECK_STR(t,
              told("[{\"type\":\"directory\",\"size\":0,\"path\":\"Q4\"},{\"type\":\"file\",\"size\":134,\"path\":"
                   "\"Q4/a.gguf\",\"lfs\":{\"size\":4000000000}},{\"type\":\"file\",\"size\":7,\"path\":\"b.json\"}]"),
              "Q4/a.gguf=4000000000 b.json=7");
    CHECK_STR(t, told(" [ \"b.json\", \"a.gguf\" ]\n"), "a.gguf=? b.json=?");
    CHECK_EQ(t, read_text("{\"id\":\"x/y\",\"siblings\":[{\"rfilename\":\"a.gguf\"}]}", &list, NULL), MOE_OK);
    CHECK_STR(t, list.repository, "x/y");
    CHECK(t, list.count == 1 && !list.files[0].sized);
    file_list_release(&list);
    CHECK_STR(t, told("{\"siblings\":[{\"rfilename\":\"a\",\"size\":-1},{\"rfilename\":\"a\",\"size\":5}]}"), "a=5");
}

static void lines_of_programs(struct harness *t)
{
    CHECK_STR(t,
              told("total 12\n-rw-r--r-- 1 me me 404 Jan  1 00:00 a b.gguf\ndrwxr-xr-x 2 me me 4096 Jan 1 2026 d\n"
                   "lrwxrwxrwx 1 me me 9 Jan 1 2026 c.gguf -> ../blob\n"),
              "a b.gguf=404 c.gguf=?");
    CHECK_STR(t,
              told("./Q4:\ntotal 1\n-rw-r--r-- 1 me me 1.5K Jan  1 00:00 a.gguf\n\n.:\n-rw-r--r--. 1 m m 2 J 1 0 b\n"),
              "Q4/a.gguf=1536 b=2");
    CHECK_STR(t, told("0123456789 * a.gguf (4.3 GB)\n0123456789 - d/b.gguf (12 B)\n0123456789 - c.gguf\n"),
              "a.gguf=4300000000 c.gguf=? d/b.gguf=12");
    CHECK_STR(t,
              told("[dry-run] Will download 2 files (out of 3) totalling 23G.\nFile      Bytes to download\n"
                   "--------- ----------------- \r\na.json    -\nb.gguf    22.9G\n"),
              "a.json=? b.gguf=22900000000");
    for (int wide = 0; wide < 2; wide++) // of a newer one, as wide as its longest name or not
        CHECK_STR(
            t,
            told(wide ? "[dry-run] Will download 2 files.\nFILE   SIZE  \n------ ------\na.json -     \nb.gguf 22.9G \n"
                      : "FILE SIZE\na.json -\nb.gguf 22.9G\n"),
            "a.json=? b.gguf=22900000000");
    CHECK_STR(t, told("12 a.gguf\r\n4.3 GB b.gguf\n1.5KiB\tc c.gguf\nd.gguf 9\n./e.gguf\n\n"),
              "a.gguf=12 b.gguf=4300000000 c c.gguf=1536 d.gguf=9 e.gguf=?");
}

// du -a tells KiB, and the folders, too; -b tells bytes, and -h units.
static void lines_of_du(struct harness *t)
{
    CHECK_STR(t, told("8\t./Q4/b.json\n676\t./Q4/a.gguf\n688\t./Q4\n4\t./Q4-x\n696\t.\n"),
              "Q4-x=4096 Q4/a.gguf=692224 Q4/b.json=8192");
    CHECK_STR(t, told("7\td/b.json\n690176\td/a.gguf\n694279\td\n"), "d/a.gguf=690176 d/b.json=7");
    CHECK_STR(t, told("4.0K\td/b.json\n1.5M\td/a.gguf\n1.6M\td/\n"), "d/a.gguf=1572864 d/b.json=4096");
    CHECK_STR(t, told("8\ta.gguf\n4\tb.json\n"), "a.gguf=8 b.json=4"); // no folder: of another program
    CHECK(t, strstr(told("8\t.\n"), "folders alone") != NULL);
}

static void what_is_no_list(struct harness *t)
{
    static const char *const texts[] = {"",
                                        " \n",
                                        "<html>",
                                        "{\"error\":\"Repository not found\"}",
                                        "{\"id\":\"x/y\"}",
                                        "[]",
                                        "[3]",
                                        "[{\"size\":3}]",
                                        "[\"a\\u0007b\"]",
                                        "a\x1b[2J.gguf",
                                        "total 0\n",
                                        "[\"a\"",
                                        "{\"siblings\":[{\"path\":\"a\",\"path\":\"b\"}]}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct file_list list;
        struct moe_err err = {.text = ""};
        CHECK_EQ(t, read_text(texts[i], &list, &err), MOE_FORMAT);
        CHECK(t, strncmp(err.text, "LIST: ", 6) == 0 && !strchr(err.text, '\n') && !strchr(err.text, '\x1b'));
        CHECK(t, !list.files && list.count == 0);
    }
    CHECK(t, strstr(told("{\"error\":\"Repository not found\"}"), "not a list: Repository not found") != NULL);
    struct file_list list;
    CHECK_EQ(t, file_list_read("a\0b", 3, "LIST", &list, NULL), MOE_FORMAT);
    char *many = malloc(FILE_LIST_MOST * 8 + 16), *at = many;
    for (int i = 0; many && i <= FILE_LIST_MOST; i++)
        at += sprintf(at, "f%06d\n", i);
    CHECK(t, many && strstr(told(many), "more than 20000 files") != NULL);
    free(many);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(what_the_hub_answers), TEST(lines_of_programs), TEST(lines_of_du),
                                                TEST(what_is_no_list)};
    return HARNESS_RUN(tests, argc, argv);
}
