// SPDX-License-Identifier: GPL-3.0-or-later
// Which files a path stands for: one, any part of a set, a folder; and what is missing or mixed up is named.
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/files/gguf_set.h"
#include "tests/gguf_rig.h"
#include "tests/harness.h"

static char folder[] = "/tmp/moechat-gguf-set-XXXXXX";

static const char *path_of(const char *name)
{
    static char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void clear(void)
{
    DIR *all = opendir(folder);
    for (struct dirent *entry = readdir(all); entry; entry = readdir(all))
        if (entry->d_name[0] != '.')
            unlink(path_of(entry->d_name));
    closedir(all);
}

// One part, with a tensor named by `tensor` (NULL: without); count 0: no keys of a split.
struct part {
    const char *name, *tensor;
    uint16_t number, count;
    uint32_t sum;
};

static void write_part(const struct part *part)
{
    struct made_gguf g = {0};
    if (part->count) {
        made_u16(&g, "split.no", part->number);
        made_u16(&g, "split.count", part->count);
        made_key(&g, "split.tensors.count", GGUF_I32);
        made_put_number(&g.values, part->sum, 4);
    }
    made_string(&g, "general.name", part->name);
    if (part->tensor)
        made_tensor(&g, part->tensor, 0, 1, (uint64_t[]){8});
    made_gguf_write(&g, path_of(part->name));
    made_gguf_release(&g);
}

static void write_three(void)
{
    clear();
    write_part(&(struct part){"M-Q4_K_M-00001-of-00003.gguf", NULL, 0, 3, 2});
    write_part(&(struct part){"M-Q4_K_M-00002-of-00003.gguf", "a", 1, 3, 2});
    write_part(&(struct part){"M-Q4_K_M-00003-of-00003.gguf", "b", 2, 3, 2});
}

static void names_are_parsed(struct harness *t)
{
    static const char *const wrong[] = {"M.gguf",
                                        "-00001-of-00003.gguf",
                                        "M-00000-of-00003.gguf",
                                        "M-00004-of-00003.gguf",
                                        "M-00001-of-02049.gguf",
                                        "M-0001-of-00003.gguf",
                                        "M-00001-of-00003.ggufx",
                                        "M_00001-of-00003.gguf",
                                        "M-00001_of-00003.gguf",
                                        "M-0000a-of-00003.gguf",
                                        "M-a0001-of-00003.gguf",
                                        "M-10001-of-00003.gguf",
                                        "M-00001-of-10003.gguf"};
    struct gguf_part part;
    CHECK(t, gguf_part_parse("DeepSeek-00001-of-00009-00010-of-02048.gguf", &part));
    CHECK(t, part.prefix == strlen("DeepSeek-00001-of-00009") && part.number == 10 && part.count == 2048);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (!CHECK(t, !gguf_part_parse(wrong[i], &part)))
            printf("    %s\n", wrong[i]);
}

static void any_part_or_the_folder_opens_the_set(struct harness *t)
{
    static const char *const names[] = {"M-Q4_K_M-00001-of-00003.gguf", "M-Q4_K_M-00003-of-00003.gguf", ".", ""};
    write_three();
    write_part(&(struct part){"mmproj-F16.gguf", "v.patch", 0, 0, 0});
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct gguf_set set;
        struct moe_err err = {.text = ""};
        CHECK(t, gguf_set_is_one(path_of(names[i])));
        if (!CHECK_EQ(t, gguf_set_open(path_of(names[i]), &set, &err), MOE_OK)) {
            printf("    %s\n", err.text);
            continue;
        }
        CHECK(t, set.n_files == 3 && set.files[0].count == 0 && set.files[1].count == 1);
        CHECK(t, tensor_file_find(&set.files[2], "b") != NULL);
        CHECK(t, gguf_find(&set.head, "general.name") && gguf_find(&set.head, "general.name")->at[8] == 'M');
        gguf_set_release(&set);
    }
}

// Names of another world: X.GGUF, and all parts of a set so.
static void capitals_are_as_good(struct harness *t)
{
    struct gguf_part part;
    struct gguf_set set;
    struct moe_err err = {.text = ""};
    CHECK(t, gguf_part_parse("M-00002-of-00003.GGUF", &part) && part.number == 2 && part.count == 3);
    write_part(&(struct part){"CAPITAL-00001-of-00002.GGUF", "a", 0, 2, 2});
    write_part(&(struct part){"CAPITAL-00002-of-00002.GGUF", "b", 1, 2, 2});
    CHECK(t, gguf_set_is_one(path_of("CAPITAL-00002-of-00002.GGUF")));
    if (CHECK_EQ(t, gguf_set_open(path_of("CAPITAL-00002-of-00002.GGUF"), &set, &err), MOE_OK)) {
        CHECK_EQ(t, set.n_files, 2);
        gguf_set_release(&set);
    } else {
        printf("    %s\n", err.text);
    }
    CHECK_EQ(t, gguf_set_open(path_of("X.GGUF.part1of2"), &set, &err), MOE_UNSUPPORTED);
    CHECK(t, strstr(err.text, "cat $(ls -v X.GGUF?*) >X.GGUF") != NULL);
    unlink(path_of("CAPITAL-00001-of-00002.GGUF"));
    unlink(path_of("CAPITAL-00002-of-00002.GGUF"));
}

static void refused(struct harness *t, const char *name, enum moe_code code, const char *says)
{
    struct gguf_set set;
    struct moe_err err = {.text = ""};
    int got = gguf_set_open(path_of(name), &set, &err);
    if (!CHECK(t, got == (int)code && err.code == code && strstr(err.text, says)))
        printf("    %s: code %d \"%s\", not \"%s\"\n", name, got, err.text, says);
    if (got == MOE_OK)
        gguf_set_release(&set);
}

static void what_is_missing_or_mixed_is_named(struct harness *t)
{
    write_three();
    unlink(path_of("M-Q4_K_M-00002-of-00003.gguf"));
    refused(t, "M-Q4_K_M-00003-of-00003.gguf", MOE_NOT_FOUND,
            "M-Q4_K_M-00002-of-00003.gguf: is not there: it is part 2 of 3, get it, too");
    write_three();
    write_part(&(struct part){"M-Q4_K_M-00002-of-00003.gguf", "a", 2, 3, 2});
    refused(t, "", MOE_FORMAT, "00002-of-00003.gguf: says that it is part 3 of 3");
    write_part(&(struct part){"M-Q4_K_M-00002-of-00003.gguf", "a", 1, 4, 2});
    refused(t, "", MOE_FORMAT, "00002-of-00003.gguf: says that it is part 2 of 4");
    write_part(&(struct part){"M-Q4_K_M-00002-of-00003.gguf", "a", 0, 0, 0});
    refused(t, "", MOE_FORMAT, "split.no and split.count don't say which part it is");
    write_part(&(struct part){"M-Q4_K_M-00002-of-00003.gguf", NULL, 1, 3, 2});
    refused(t, "", MOE_FORMAT, "split.tensors.count is 2, but the parts have 1 tensors: they are of two models");
    clear();
    write_part(&(struct part){"renamed.gguf", "a", 1, 3, 2});
    refused(t, "renamed.gguf", MOE_FORMAT, "is part 2 of 3, but not named so");
    for (int named = 0; named < 2; named++) { // one more than this number is none
        const char *name = named ? "M-Q4_K_M-00001-of-00002.gguf" : "last.gguf";
        struct made_gguf g = {0};
        made_u16(&g, "split.count", 2);
        made_key(&g, "split.no", GGUF_U64);
        made_put_number(&g.values, UINT64_MAX, 8);
        made_gguf_write(&g, path_of(name));
        made_gguf_release(&g);
        refused(t, name, MOE_FORMAT, "split.no and split.count don't say which part it is");
        unlink(path_of(name));
    }
    refused(t, "none.gguf", MOE_NOT_FOUND, "none.gguf: cannot be opened");
}

static void paths_are_of_bounded_length(struct harness *t)
{
    static char path[3746]; // 3744 bytes are the most
    struct gguf_set set;
    struct moe_err err;
    CHECK_EQ(t, gguf_set_open("", &set, &err), MOE_BAD_ARGUMENT);
    CHECK(t, strstr(err.text, "must have 1 to 3744 bytes") != NULL);
    memset(path, '/', sizeof path - 1);
    CHECK_EQ(t, gguf_set_open(path, &set, &err), MOE_BAD_ARGUMENT);
    path[sizeof path - 2] = 0;
    memcpy(path, folder, strlen(folder));
    clear();
    CHECK_EQ(t, gguf_set_open(path, &set, &err), MOE_NOT_FOUND); // the empty folder's own refusal
}

static void folders_with_several_or_none_are_refused(struct harness *t)
{
    clear();
    CHECK(t, !gguf_set_is_one(folder));
    refused(t, "", MOE_NOT_FOUND, "there is no *.gguf file in it");
    write_part(&(struct part){"mmproj-F16.gguf", "v", 0, 0, 0});
    CHECK(t, !gguf_set_is_one(folder));
    write_three();
    write_part(&(struct part){"M-Q8_0.gguf", "a", 0, 0, 0});
    refused(t, "", MOE_UNSUPPORTED, "holds more than one model");
    refused(t, "", MOE_UNSUPPORTED, "M-Q8_0.gguf");
    clear();
    write_part(&(struct part){"M.gguf.part1of2", "a", 0, 0, 0});
    CHECK(t, gguf_set_is_one(folder));
    refused(t, "", MOE_UNSUPPORTED,
            "is one piece of a file that was cut; put all together first: cat $(ls -v M.gguf?*) >M.gguf");
    refused(t, "M.gguf.part1of2", MOE_UNSUPPORTED, "is one piece of a file");
    refused(t, "M.gguf-split-a", MOE_UNSUPPORTED, "is one piece of a file");
    for (const char *name = "$(id).gguf-split-a\0M;id;.gguf-split-a\0-M.gguf-split-a\0"; *name;
         name += strlen(name) + 1)
        refused(t, name, MOE_UNSUPPORTED, "first, in their order, with cat"); // nothing to paste
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(names_are_parsed),
        TEST(any_part_or_the_folder_opens_the_set),
        TEST(capitals_are_as_good),
        TEST(what_is_missing_or_mixed_is_named),
        TEST(paths_are_of_bounded_length),
        TEST(folders_with_several_or_none_are_refused),
    };
    if (!mkdtemp(folder))
        return 1;
    int status = HARNESS_RUN(tests, argc, argv);
    clear();
    rmdir(folder);
    return status;
}
