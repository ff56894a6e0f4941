// SPDX-License-Identifier: GPL-3.0-or-later
// The files beside the weights: where their links may lead.
#include "engine/convert/beside.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/harness.h"

static char place[] = "/tmp/moechat-beside-XXXXXX";

static const char *at(const char *name)
{
    static char paths[4][200];
    static int turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", place, name);
    return path;
}

static void put(const char *name, off_t bytes)
{
    int fd = open(at(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (ftruncate(fd, bytes))
        abort();
    close(fd);
}

static void folders(void)
{
    static const char *const names[] = {"model",         "model/inner",       "models", "hub", "hub/blobs",
                                        "hub/snapshots", "hub/snapshots/main"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        mkdir(at(names[i]), 0700);
}

static int opens(const char *folder, const char *name, struct beside_file *file, struct moe_err *err)
{
    int code = beside_open(at(folder), name, file, err);
    if (file->fd >= 0)
        close(file->fd);
    return code;
}

static void links_stay_within_the_model(struct harness *t)
{
    static const struct {
        const char *folder, *link, *leads;
        bool fine;
    } cases[] = {
        {"model", "LICENSE", "text", true},
        {"model", "tokenizer.json", "inner/text", true},
        {"model", "tokenizer.model", "../model/text", true},
        {"model", "chat_template.jinja", "/etc/passwd", false},
        {"model", "tiktoken.model", "../models/text", false}, // begins alike
        {"model", "chat_template.json", "../hub/blobs/abc", false},
        {"hub/snapshots/main", "LICENSE", "../../blobs/abc", true},
        {"hub/snapshots/main", "tokenizer.json", "../../text", false},
        {"hub/snapshots/main", "tokenizer.model", "../../../model/text", false},
    };
    struct beside_file file;
    struct moe_err err;
    char path[100];
    folders();
    put("model/text", 7);
    put("model/inner/text", 7);
    put("models/text", 7);
    put("hub/text", 7);
    put("hub/blobs/abc", 7);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(path, sizeof path, "%s/%s", cases[i].folder, cases[i].link);
        CHECK_EQ(t, symlink(cases[i].leads, at(path)), 0);
        int code = opens(cases[i].folder, cases[i].link, &file, &err);
        CHECK_EQ(t, code, cases[i].fine ? MOE_OK : MOE_FORMAT);
        CHECK(t, cases[i].fine ? file.fd >= 0 && file.bytes == 7
                               : file.fd < 0 && strstr(err.text, cases[i].link) && strstr(err.text, "leads out of"));
    }
}

static void what_is_there(struct harness *t)
{
    struct beside_file file;
    struct moe_err err;
    folders();
    CHECK_EQ(t, opens("model", "generation_config.json", &file, &err), MOE_OK);
    CHECK_EQ(t, file.fd, -1);
    CHECK_EQ(t, opens("model", "inner", &file, &err), MOE_OK); // a folder
    CHECK_EQ(t, file.fd, -1);
    put("model/largest", BESIDE_BYTES);
    CHECK_EQ(t, opens("model", "largest", &file, &err), MOE_OK);
    CHECK_EQ(t, file.bytes, BESIDE_BYTES);
    put("model/larger", BESIDE_BYTES + (off_t)1);
    CHECK_EQ(t, opens("model", "larger", &file, &err), MOE_FORMAT);
    CHECK(t, file.fd < 0 && strstr(err.text, "model/larger: is larger than 64 MiB"));
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(links_stay_within_the_model), TEST(what_is_there)};
    char remove[64];
    if (!mkdtemp(place))
        return 1;
    int code = HARNESS_RUN(tests, argc, argv);
    snprintf(remove, sizeof remove, "rm -rf %s", place);
    return system(remove) == 0 ? code : 1;
}
