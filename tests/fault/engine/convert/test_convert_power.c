// SPDX-License-Identifier: GPL-3.0-or-later
// The power goes at every call to the disk of a conversion, plain and with --consume, and at its end; what was not
// synced is lost, there, or torn. The same command then comes to the same package as without; a package that has its
// name is whole; once the command has returned, it has it. Leave out any one of the syncs, and this fails.
// MOECHAT_POWER_LIVES says how many lives with several cuts are led (make power: many); without it each loss meets
// every second call, which is half of the time.
#define _GNU_SOURCE // fallocate, O_DIRECT
#include <sys/wait.h>

#include "tests/power_calls.h"
#include "tests/convert_rig.h"

#define GGUF "tests/golden/gguf-sizes/checkpoint" // one file, two layers of different kinds

enum { LIVES = 8, CUTS = 4 };

static char disk[48], image[48];

// What is removed from the source is gone at once, however little the disk has of the rest.
static int punch(void *context, int fd, uint64_t offset, uint64_t bytes)
{
    (void)context;
    int code = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes);
    if (code || !power_now)
        return code;
    struct bytes *on_disk = &power_now->disk[power_now->fds[fd]];
    if (offset < on_disk->length)
        memset(on_disk->data + offset, 0, bytes < on_disk->length - offset ? bytes : on_disk->length - offset);
    return 0;
}

static bool agree(void *context, const struct moe_consumption *what)
{
    (void)context, (void)what;
    return true;
}

static int convert_it(bool consume, struct moe_err *err)
{
    const struct moe_convert_options options = {.threads = 1, .consume = consume, .confirm = agree, .punch = punch};
    // A folder as it came is known by the times of its files, which the disk's pictures do not have.
    return convert(consume ? source : GGUF, &options, err);
}

static bool live(void *context)
{
    struct moe_err err;
    if (!convert_it(*(bool *)context, &err))
        return true;
    printf("    %s\n", err.text);
    fflush(stdout);
    return false;
}

static void begin_again(void)
{
    char command[400];
    snprintf(command, sizeof command, "rm -rf '%s' '%s' && mkdir '%s' && cp -r '%s' '%s'", disk, image, disk, GGUF,
             source);
    if (system(command))
        exit(70);
}

// The package under its name; the journal may be beside it, when its removal did not reach the disk.
static bool is_whole(void)
{
    char path[200];
    snprintf(path, sizeof path, "%s/convert.journal", target);
    unlink(path);
    return same_folder(undisturbed, target);
}

// What is left is whole, or the same command makes it so.
static bool goes_on(bool consume, bool ended)
{
    struct moe_err err = {.text = ""};
    char journal[200];
    snprintf(journal, sizeof journal, "%s/convert.journal", target);
    if (access(journal, F_OK) != 0 && (ended || access(target, F_OK) == 0))
        return is_whole();
    return (convert_it(consume, &err) == 0 && access(journal, F_OK) != 0 && is_whole()) ||
           (printf("    %s\n", err.text), false);
}

static void check_points(struct harness *t, bool consume)
{
    bool all = getenv("MOECHAT_POWER_LIVES");
    int points = 0;
    make_undisturbed(t, GGUF);
    for (int loss = 0; loss < POWER_LOSSES; loss++) {
        int status = POWER_CUT;
        for (int at = all ? 0 : loss % 2; status == POWER_CUT && t->failures < 3; at += all ? 1 : 2, points++) {
            begin_again();
            const struct power_life life = {live, &consume, (enum power_loss)loss, (unsigned)at * 7919u + 17, at};
            status = power_lead(&life, disk, image);
            if (!CHECK(t, status != 1) || !CHECK(t, goes_on(consume, status == 0)))
                printf("    call %d, loss %d%s\n", at, loss, status ? "" : ", after its end");
        }
    }
    printf("%s: %d points\n", consume ? "with --consume" : "convert", points);
    CHECK(t, points > 30 * POWER_LOSSES);
}

static void converted(struct harness *t)
{
    check_points(t, false);
}

static void consumed(struct harness *t)
{
    check_points(t, true);
}

// The power goes again while the rest is made, and again.
static void cut_after_cut(struct harness *t)
{
    const char *asked = getenv("MOECHAT_POWER_LIVES");
    int lives = asked ? atoi(asked) : LIVES;
    unsigned random = 20;
    make_undisturbed(t, GGUF);
    for (int i = 0; i < lives && t->failures < 3; i++) {
        bool consume = i % 2;
        int status = POWER_CUT;
        begin_again();
        for (int cut = 0; cut < CUTS && status == POWER_CUT && access(target, F_OK) != 0; cut++) {
            random = random * 1664525u + 1013904223u;
            const struct power_life life = {live, &consume, (enum power_loss)(random >> 8 & 3), random,
                                            (int)(random >> 10) % 60};
            status = power_lead(&life, disk, image);
        }
        if (!CHECK(t, status != 1) || !CHECK(t, goes_on(consume, status == 0)))
            printf("    life %d\n", i);
    }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(converted), TEST(consumed), TEST(cut_after_cut)};
    if (!begin_conversions())
        return 2;
    snprintf(disk, sizeof disk, "%s/disk", scratch);
    snprintf(image, sizeof image, "%s/image", scratch);
    snprintf(source, sizeof source, "%s/source", disk);
    snprintf(target, sizeof target, "%s/target", disk);
    snprintf(partial, sizeof partial, "%s/target.partial", disk);
    if (mkdir(disk, 0700))
        return 2;
    int code = HARNESS_RUN(tests, argc, argv);
    char command[200];
    snprintf(command, sizeof command, "rm -rf '%s'", scratch);
    return system(command) || code;
}
