// SPDX-License-Identifier: GPL-3.0-or-later
// Helpers that build kernels: what they do, and what becomes of those that are killed, talk nonsense, leave nothing or
// can't be started. This program is its own helper: its first argument says how it behaves.
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/binary_cache.h"
#include "kernels/device.h"
#include "kernels/helpers.h"
#include "tests/harness.h"

enum { JOBS = 40, PATIENCE_MS = 60000 }; // the last ends a test that would wait for ever

static const char self[] = "/proc/self/exe";

// ---- as a helper: argv[1] is one of these, argv[2] the job

static int behave(const char *how, const char *job)
{
    struct gpu_error err = {0};
    if (strcmp(how, "die") == 0)
        raise(SIGKILL);
    if (strcmp(how, "pause") == 0)
        for (;;)
            pause();
    if (strcmp(how, "follow") == 0) {
        helper_follows();
        for (;;)
            pause();
    }
    if (strcmp(how, "refuse") == 0) {
        puts("no, not that one\nnor another");
        return 3;
    }
    if (strcmp(how, "talk") == 0) {
        for (int i = 0; i < 100000; i++)
            fputs("\033[2J\xff garbage %s\n", stdout);
        return 0;
    }
    if (strcmp(how, "touch") == 0) {
        FILE *file = fopen(job, "wx");
        return !file || fclose(file) != 0;
    }
    if (strcmp(how, "build") == 0 && gpu_build(job, &err) != GPU_OK) {
        puts(err.text);
        return 1;
    }
    return 0;
}

// ---- the processes

static unsigned run_all(const char *program, const char *how, const char *const *jobs, unsigned n, char *said)
{
    const char *const command[] = {program, how, NULL};
    struct helpers *helpers = helpers_start(command, jobs, n);
    unsigned ended = 0;
    *said = 0;
    while (helpers && helpers_next(helpers))
        ended++;
    unsigned failed = helpers ? helpers_failed(helpers, said) : n + 1;
    helpers_release(helpers);
    return failed * 1000 + ended;
}

static bool has_children(void)
{
    return waitpid(-1, NULL, WNOHANG) >= 0 || errno != ECHILD;
}

// More jobs than processors: each is done once.
static void each_job_is_done(struct harness *t)
{
    char folder[] = "/tmp/moechat-helpers-XXXXXX", paths[JOBS][64], said[HELPER_SAID];
    const char *jobs[JOBS];
    CHECK(t, mkdtemp(folder) != NULL);
    for (int i = 0; i < JOBS; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/%d", folder, i);
        jobs[i] = paths[i];
    }
    CHECK_EQ(t, run_all(self, "touch", jobs, JOBS, said), JOBS);
    CHECK_STR(t, said, "");
    for (int i = 0; i < JOBS; i++)
        CHECK_EQ(t, unlink(paths[i]), 0);
    CHECK_EQ(t, rmdir(folder), 0);
    CHECK(t, !has_children());
}

static void failures_are_told(struct harness *t)
{
    const char *const jobs[] = {"a", "b", "c"};
    char said[HELPER_SAID];
    CHECK_EQ(t, run_all(self, "die", jobs, 3, said), 3003);
    CHECK_STR(t, said, "it was killed by signal 9");
    CHECK_EQ(t, run_all(self, "refuse", jobs, 3, said), 3003);
    CHECK_STR(t, said, "no, not that one");
    CHECK_EQ(t, run_all(self, "talk", jobs, 3, said), 3);
    CHECK_EQ(t, run_all("/no/such/program", "", jobs, 3, said), 3000);
    CHECK_STR(t, said, "No such file or directory");
    CHECK(t, !has_children());
}

static void what_is_not_waited_for_is_ended(struct harness *t)
{
    const char *const command[] = {self, "pause", NULL}, *const jobs[] = {"a", "b"};
    struct helpers *helpers = helpers_start(command, jobs, 2);
    CHECK(t, helpers && has_children());
    helpers_release(helpers);
    CHECK(t, !has_children());
}

// One that outlives us would go on to hold the pipe that it has from us.
static void helpers_end_with_their_parent(struct harness *t)
{
    int held[2];
    if (!CHECK(t, pipe(held) == 0))
        return;
    pid_t child = fork();
    if (child == 0) {
        const char *const command[] = {self, "follow", NULL}, *const jobs[] = {"a"};
        close(held[0]);
        _exit(helpers_start(command, jobs, 1) ? 0 : 1);
    }
    close(held[1]);
    int status = -1;
    CHECK(t, child > 0 && waitpid(child, &status, 0) == child && status == 0);
    struct pollfd end = {.fd = held[0], .events = POLLIN};
    char byte;
    CHECK_EQ(t, poll(&end, 1, PATIENCE_MS), 1);
    CHECK(t, end.revents && read(held[0], &byte, 1) == 0);
    close(held[0]);
}

// ---- devices whose programs are built in parts

struct opened {
    char folder[64], cache[96];
    const char *how;
    unsigned n_formats; // of `foreseen` that are told
    unsigned calls, last, total;
    bool backwards;
};

static void begin(struct harness *t, struct opened *o)
{
    *o = (struct opened){.folder = "/tmp/moechat-parts-XXXXXX"};
    CHECK(t, mkdtemp(o->folder) != NULL);
    snprintf(o->cache, sizeof o->cache, "%s/kernels", o->folder);
}

static unsigned count_files(const char *folder, const char *ending)
{
    unsigned n = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        size_t length = strlen(entry->d_name), more = strlen(ending);
        n += length > more && strcmp(entry->d_name + length - more, ending) == 0;
    }
    if (dir)
        closedir(dir);
    return n;
}

static void end(struct harness *t, struct opened *o)
{
    char path[PATH_MAX];
    DIR *dir = opendir(o->cache);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        snprintf(path, sizeof path, "%s/%s", o->cache, entry->d_name);
        if (entry->d_name[0] != '.')
            CHECK_EQ(t, unlink(path), 0);
    }
    if (dir)
        closedir(dir);
    rmdir(o->cache);
    CHECK_EQ(t, rmdir(o->folder), 0);
    CHECK(t, !has_children());
}

static void on_step(void *context, const char *what, unsigned done, unsigned total)
{
    struct opened *o = context;
    o->backwards |= done < o->last || done > total || !*what;
    o->calls++;
    o->last = done;
    o->total = total;
}

static const struct gpu_format foreseen = {.kind = KIND_Q8_0, .uses = USE_ROWS};

// With few mixers, for PoCL, asked for binaries, takes a second for many a kernel.
static gpu *open_divided(struct harness *t, struct opened *o, const char *cache, const char *how)
{
    const char *command[] = {self, how, NULL};
    struct gpu_error err = {0};
    struct gpu_options options = {.selector = "cpu",
                                  .cache_dir = cache,
                                  .mixers = USE_HYPER,
                                  .divide = true,
                                  .always_cache = true,
                                  .warm_late = true,
                                  .progress = on_step,
                                  .progress_context = o,
                                  .helper = how ? command : NULL,
                                  .formats = &foreseen,
                                  .n_formats = o->n_formats};
    o->calls = o->last = 0;
    gpu *g = gpu_open_shape(&options, GPU_SHAPE_GPU, &err);
    if (!CHECK(t, g != NULL))
        printf("    %s\n", err.text);
    CHECK(t, !o->backwards && o->calls > 0 && o->last == o->total);
    CHECK(t, !g || (g->program.kernels[KERNEL_MATVEC] && g->program.kernels[KERNEL_HYPER_MIX]));
    if (g)
        g->helper = NULL; // it was ours alone
    return g;
}

static void notice_has(struct harness *t, const gpu *g, const char *part)
{
    if (g && !CHECK(t, *part ? strstr(gpu_notice(g), part) != NULL : !*gpu_notice(g)))
        printf("    \"%s\"\n", gpu_notice(g));
}

// A copy by the kernel of another part than that with which layouts are proved.
static void computes(struct harness *t, gpu *g)
{
    uint32_t from[64], to[64] = {0};
    struct gpu_error err;
    const struct args_copy args = {.bytes = sizeof from};
    for (uint32_t i = 0; i < 64; i++)
        from[i] = i * 2654435761u;
    gpu_buf *a = g ? gpu_buf_new(g, sizeof from, &err) : NULL, *b = a ? gpu_buf_new(g, sizeof to, &err) : NULL;
    if (!CHECK(t, b != NULL)) {
        gpu_buf_free(a);
        return;
    }
    gpu_write(g, a, 0, from, sizeof from);
    gpu_op_copy(g, &args, a, b);
    CHECK_EQ(t, gpu_read(g, b, 0, to, sizeof to, &err), GPU_OK);
    CHECK(t, memcmp(from, to, sizeof to) == 0);
    gpu_buf_free(a);
    gpu_buf_free(b);
}

static void opens_foreseen(struct harness *t, gpu *g)
{
    struct gpu_error err;
    CHECK(t, g && gpu_open_formats(g, &foreseen, 1, NULL, &err) == GPU_OK);
}

// The smallest of what is kept.
static bool remove_smallest(const char *folder)
{
    char path[PATH_MAX], least[PATH_MAX] = "";
    off_t bytes = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        struct stat about;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (strstr(entry->d_name, ".bin") && stat(path, &about) == 0 && (!*least || about.st_size < bytes)) {
            bytes = about.st_size;
            snprintf(least, sizeof least, "%s", path);
        }
    }
    if (dir)
        closedir(dir);
    return *least && unlink(least) == 0;
}

// Whatever becomes of helpers, the device opens, and it is said.
static void fails(struct harness *t, struct opened *o, const char *how, const char *notice)
{
    unsigned n = count_files(o->cache, ".bin");
    CHECK(t, remove_smallest(o->cache) && remove_smallest(o->cache));
    gpu *g = open_divided(t, o, o->cache, how);
    notice_has(t, g, notice);
    opens_foreseen(t, g);
    computes(t, g);
    gpu_close(g);
    CHECK_EQ(t, count_files(o->cache, ".bin"), n);
}

// Helpers leave each part once, a foreseen kind's beside those of all ops, nothing else, and a second start starts
// none; a kernel that nobody thought of comes later.
static void parts_are_built_beside_and_loaded(struct harness *t)
{
    struct opened o;
    begin(t, &o);
    o.n_formats = 1;
    gpu *g = open_divided(t, &o, o.cache, "build");
    notice_has(t, g, "");
    unsigned n = count_files(o.cache, ".bin");
    CHECK(t, n > 5 && o.total == n);
    CHECK_EQ(t, count_files(o.cache, ".tmp"), 0);
    computes(t, g);
    opens_foreseen(t, g);
    CHECK_EQ(t, count_files(o.cache, ".bin"), n);
    gpu_close(g);
    g = open_divided(t, &o, o.cache, "die");
    notice_has(t, g, "");
    CHECK(t, o.total == 0 && o.calls == 1); // nothing was built
    CHECK_EQ(t, count_files(o.cache, ".bin"), n);
    CHECK(t, g && !g->program.kernels[KERNEL_GQA_TILES] && program_open_late(g, KERNEL_GQA_TILES));
    gpu_close(g);
    fails(t, &o, "die", "killed by signal 9");
    fails(t, &o, "talk", "left nothing");
    fails(t, &o, "build", "");
    end(t, &o);
}

// No cache, or one that takes nothing: nobody is asked to fill it, and a start is as it was.
static void without_a_cache_nobody_helps(struct harness *t)
{
    struct opened o;
    begin(t, &o);
    gpu *g = open_divided(t, &o, NULL, "die");
    notice_has(t, g, "");
    gpu_close(g);
    FILE *file = fopen(o.cache, "wx"); // where the folder would be
    CHECK(t, file && fclose(file) == 0);
    g = open_divided(t, &o, o.cache, "die");
    notice_has(t, g, "");
    gpu_close(g);
    CHECK_EQ(t, unlink(o.cache), 0);
    end(t, &o);
}

// Folders that take no files: what is no folder, what others may write to, and what nobody may.
static void folders_that_take_nothing_are_known(struct harness *t)
{
    char folder[] = "/tmp/moechat-takes-XXXXXX", path[64];
    CHECK(t, mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/a/b", folder);
    CHECK(t, cache_takes(path));
    CHECK_EQ(t, chmod(path, 0777), 0);
    CHECK(t, !cache_takes(path));
    CHECK_EQ(t, chmod(path, 0500), 0);
    CHECK(t, !cache_takes(path) || geteuid() == 0);
    CHECK_EQ(t, rmdir(path), 0);
    FILE *file = fopen(path, "wx");
    CHECK(t, file && fclose(file) == 0 && !cache_takes(path));
    CHECK_EQ(t, unlink(path), 0);
    snprintf(path, sizeof path, "%s/a", folder);
    CHECK(t, rmdir(path) == 0 && rmdir(folder) == 0);
}

// What a killed process has left half written goes at the next start; what one is writing stays.
static void half_written_binaries_are_removed(struct harness *t)
{
    char folder[] = "/tmp/moechat-tidy-XXXXXX", left[80], written[80], other[80];
    CHECK(t, mkdtemp(folder) != NULL);
    snprintf(left, sizeof left, "%s/kernels-0123.bin.999999.tmp", folder);
    snprintf(written, sizeof written, "%s/kernels-4567.bin.1.tmp", folder);
    snprintf(other, sizeof other, "%s/other.tmp", folder);
    const char *const paths[] = {left, written, other};
    FILE *files[3];
    for (int i = 0; i < 3; i++) {
        files[i] = fopen(paths[i], "wx");
        CHECK(t, files[i] && fputs("half", files[i]) >= 0);
    }
    CHECK_EQ(t, flock(fileno(files[1]), LOCK_EX), 0);
    cache_tidy(NULL);
    cache_tidy(folder);
    CHECK(t, access(left, F_OK) != 0 && access(written, F_OK) == 0 && access(other, F_OK) == 0);
    for (int i = 0; i < 3; i++) {
        fclose(files[i]);
        unlink(paths[i]);
    }
    CHECK_EQ(t, rmdir(folder), 0);
}

static void nonsense_is_no_job(struct harness *t)
{
    static const char *const jobs[] = {"",
                                       "x",
                                       "0 1 0 0 0 0 0 0 0",
                                       "0 1 0 0 0 0 0 0 0 0",
                                       "9 1 0 0 0 0 0 0 0 0 /tmp",
                                       "1 1 99999 0 0 0 0 0 0 0 /tmp",
                                       "1 1 0 0 0 0 0 0 0 0 /tmp",
                                       "0 1 0 0 0 0 0 7 0 0 /tmp"};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        struct gpu_error err = {0};
        CHECK_EQ(t, gpu_build(jobs[i], &err), GPU_ARGUMENT);
        CHECK(t, strstr(err.text, "is no job") != NULL);
    }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(each_job_is_done),
                                                TEST(failures_are_told),
                                                TEST(what_is_not_waited_for_is_ended),
                                                TEST(helpers_end_with_their_parent),
                                                TEST(parts_are_built_beside_and_loaded),
                                                TEST(without_a_cache_nobody_helps),
                                                TEST(folders_that_take_nothing_are_known),
                                                TEST(half_written_binaries_are_removed),
                                                TEST(nonsense_is_no_job)};
    if (argc == 3)
        return behave(argv[1], argv[2]);
    return HARNESS_RUN(tests, argc, argv);
}
