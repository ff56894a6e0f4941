// SPDX-License-Identifier: GPL-3.0-or-later
// What is said of every small model of tests/golden, and of the demo: its layers in words, what is left out, sizes.
#include <dirent.h>
#include <sys/stat.h>

#include "tests/package_sweep_rig.h"

static void ask_description(void *context, const char *path, size_t length, char answer[SWEEP_ANSWER])
{
    struct moe_description d;
    struct moe_err err = {.text = ""};
    char *said = NULL, copy[256];
    size_t n = 0;
    (void)context;
    snprintf(copy, sizeof copy, "%.*s", (int)length, path);
    int code = moe_inspect(copy, &d, &err);
    if (code) {
        sweep_refused(answer, code, err.text);
        return;
    }
    FILE *out = open_memstream(&said, &n);
    if (!out)
        exit(70);
    fprintf(out, "%s %s|", d.name, d.tokenizer_file);
    print_facts(out, &d);
    fclose(out);
    uint64_t digest = sweep_digest(0, said, n);
    free(said);
    snprintf(answer, SWEEP_ANSWER, "#%08x %.31s, %.31s, %s%s%.160s%s%.160s", (unsigned)(digest ^ digest >> 32),
             d.layout, d.model_type, d.runs ? "runs" : "to be converted", *d.mixers ? ", " : "", d.mixers,
             *d.left_out ? ", without " : "", d.left_out);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void every_golden(struct harness *t)
{
    static const char *const inside[] = {"checkpoint", "package"};
    struct sweep *s = sweep_begin(ask_description, NULL);
    DIR *folder = opendir("tests/golden");
    char *names[200];
    size_t n = 0;
    if (!CHECK(t, folder != NULL))
        return;
    for (struct dirent *entry; (entry = readdir(folder)) && n < 200;)
        if (entry->d_name[0] != '.' && !strchr(entry->d_name, '_') && strncmp(entry->d_name, "long-", 5) != 0)
            names[n++] = strdup(entry->d_name);
    closedir(folder);
    qsort(names, n, sizeof *names, by_name);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < 2; k++) {
            char path[256];
            struct stat status;
            snprintf(path, sizeof path, "tests/golden/%.100s/%s", names[i], inside[k]);
            if (stat(path, &status) != 0)
                continue;
            sweep_try(s, inside[k], path, strlen(path));
            sweep_place(s, names[i]);
        }
    for (size_t i = 0; i < n; i++)
        free(names[i]);
    sweep_try(s, "package", "models/demo", strlen("models/demo"));
    sweep_place(s, "the demo");
    sweep_try(s, "file", "tests/golden/gguf-v3-q2k/checkpoint/v3-q2k.gguf", 47);
    sweep_place(s, "a file");
    sweep_try(s, "folder", "tests/golden", 12);
    sweep_try(s, "nothing there", "tests/nowhere", 13);
    sweep_place(s, "no model");
    sweep_end(t, s, "tests/unit/engine/model/data/descriptions.txt");
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(every_golden)};
    return HARNESS_RUN(tests, argc, argv);
}
