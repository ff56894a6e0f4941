// SPDX-License-Identifier: GPL-3.0-or-later
// How much memory is left: of made-up machines with cgroups of both versions, and of this one.
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/device.h"
#include "tests/harness.h"

static char root[] = "/tmp/moechat-memory-XXXXXX";

// Writes a file below the root, making its folders.
static void put(const char *name, const char *text)
{
    char path[400];
    snprintf(path, sizeof path, "%s%s", root, name);
    for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    if (file) {
        fputs(text, file);
        fclose(file);
    }
}

static void clear(void)
{
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s/proc %s/sys", root, root);
    if (system(command))
        printf("    could not clear %s\n", root);
    put("/proc/meminfo", "MemTotal:  4000 kB\nMemFree:  100 kB\nMemAvailable:  3000 kB\n");
}

static void without_groups_it_is_what_the_machine_has(struct harness *t)
{
    clear();
    CHECK_EQ(t, memory_left(root), 3000 * 1024);
    put("/proc/self/cgroup", "0::/\n");
    CHECK_EQ(t, memory_left(root), 3000 * 1024);
    put("/sys/fs/cgroup/memory.max", "max\n");
    put("/sys/fs/cgroup/memory.current", "5000000\n");
    CHECK_EQ(t, memory_left(root), 3000 * 1024);
}

static void version_2_its_parents_and_its_page_cache(struct harness *t)
{
    clear();
    put("/proc/self/cgroup", "0::/user/me\n");
    put("/sys/fs/cgroup/user/me/memory.max", "2000000\n");
    put("/sys/fs/cgroup/user/me/memory.current", "500000\n");
    CHECK_EQ(t, memory_left(root), 1500000);
    put("/sys/fs/cgroup/user/me/memory.stat", "anon 100000\nfile 400000\ninactive_file 300000\nactive_file 100000\n");
    CHECK_EQ(t, memory_left(root), 1800000);
    put("/sys/fs/cgroup/user/memory.max", "1000000\n");
    put("/sys/fs/cgroup/user/memory.current", "900000\n");
    CHECK_EQ(t, memory_left(root), 100000);
    put("/sys/fs/cgroup/user/memory.current", "1200000\n");
    CHECK_EQ(t, memory_left(root), 0);
    // Inside a container the path is the host's, and only the top is to be seen.
    put("/proc/self/cgroup", "0::/somewhere/else\n");
    put("/sys/fs/cgroup/memory.max", "700000\n");
    put("/sys/fs/cgroup/memory.current", "600000\n");
    CHECK_EQ(t, memory_left(root), 100000);
}

static void version_1_by_its_controller(struct harness *t)
{
    clear();
    put("/proc/self/cgroup", "3:cpu,cpuacct:/a\n2:memory:/box\n1:name=systemd:/b\n");
    put("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "1000000\n");
    put("/sys/fs/cgroup/memory/box/memory.usage_in_bytes", "400000\n");
    CHECK_EQ(t, memory_left(root), 600000);
    put("/sys/fs/cgroup/memory/box/memory.stat", "inactive_file 5\ntotal_inactive_file 100000\n");
    CHECK_EQ(t, memory_left(root), 700000);
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "8000000000\n");
    CHECK_EQ(t, memory_left(root), 700000);
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "8000050000\n");
    CHECK_EQ(t, memory_left(root), 50000);
}

static void this_machine_has_some(struct harness *t)
{
    CHECK(t, memory_left("") > 1 << 20);
    CHECK_EQ(t, gpu_host_memory_left(NULL) > 1 << 20, 1);
}

// Large ones lie where huge pages can begin.
static void pages_are_aligned_for_direct_reads(struct harness *t)
{
    static const uint64_t sizes[] = {1, 4096, (2 << 20) - 1, 2 << 20, (5 << 20) + 7};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *pages = gpu_pages(sizes[i]);
        CHECK_EQ(t, (uintptr_t)pages % (sizes[i] < 2 << 20 ? 4096 : 2 << 20), 0);
        memset(pages, 1, (sizes[i] + 4095) / 4096 * 4096);
        free(pages);
    }
    CHECK(t, !gpu_pages(UINT64_MAX / 2));
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(without_groups_it_is_what_the_machine_has),
        TEST(version_2_its_parents_and_its_page_cache),
        TEST(version_1_by_its_controller),
        TEST(this_machine_has_some),
        TEST(pages_are_aligned_for_direct_reads),
    };
    if (!mkdtemp(root))
        return 1;
    int failed = HARNESS_RUN(tests, argc, argv);
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command) || failed;
}
