// SPDX-License-Identifier: GPL-3.0-or-later
// What buffers, copies, fences, launches and their times ask of a driver, call by call; and what comes of it when any
// one of these calls fails or any command is lost: it is told, once, nothing is kept, and what follows is right again.
#include "tests/fake_driver.h"

enum { SMALL = 96, PAGES = 3 * 4096, LARGE = 9 << 20 };

struct script {
    gpu *g;
    struct cases *cases;
    char *bytes; // LARGE of them, of which each is known
    char *back;
    struct gpu_error err;
};

static void say_state(struct script *s, const char *what)
{
    gpu *g = s->g;
    struct gpu_counts counts = gpu_counters(g);
    s->err = (struct gpu_error){0};
    int code = gpu_check(g, &s->err);
    cases_say(s->cases,
              "%s: %d, %d, %s; %" PRIu64 " launches, %" PRIu64 " waits, %" PRIu64 " bytes, fences %" PRIu64
              " of %" PRIu64 ", %" PRIu64 " of %" PRIu64 "\n",
              what, code, s->err.native, s->err.text, counts.launches, counts.waits, counts.bytes_written,
              g->fences.passed, g->fences.last, g->copies.passed, g->copies.last);
}

static gpu_buf *buffer(struct script *s, uint64_t bytes)
{
    gpu_buf *made = gpu_buf_new(s->g, bytes, &s->err);
    if (!made)
        cases_say(s->cases, "%d, %s\n", s->err.code, s->err.text);
    return made;
}

static char *pinned(struct script *s)
{
    char *made = gpu_host_alloc(s->g, PAGES, &s->err);
    if (!made)
        cases_say(s->cases, "%d, %s\n", s->err.code, s->err.text);
    return made;
}

static void say_back(struct script *s, size_t from, size_t bytes)
{
    size_t wrong = 0;
    for (size_t i = 0; i < bytes; i++)
        wrong += s->back[i] != s->bytes[from + i];
    cases_say(s->cases, "%zu of %zu bytes are others\n", wrong, bytes);
    memset(s->back, 0, bytes);
}

// Fences that nobody enqueued: the next one is theirs, a wait makes one, and what waits for all passes them.
static void to_come(struct script *s, gpu_buf *a, gpu_buf *b)
{
    gpu *g = s->g;
    uint64_t fences[4] = {gpu_fence_to_come(g)};
    gpu_op_copy(g, &(struct args_copy){64}, b, a);
    fences[1] = gpu_fence_to_come(g);
    cases_say(s->cases, "to come %" PRIu64 " %" PRIu64 ": %d", fences[0], fences[1], gpu_fence_passed(g, fences[1]));
    gpu_op_copy(g, &(struct args_copy){64}, b, a);
    cases_say(s->cases, ", is %" PRIu64 ",", gpu_fence(g));
    gpu_fence_wait(g, fences[1]);
    cases_say(s->cases, " %d\n", gpu_fence_passed(g, fences[1]));
    gpu_op_copy(g, &(struct args_copy){64}, b, a);
    fences[2] = gpu_fence_to_come(g);
    gpu_fence_wait(g, fences[2]);
    cases_say(s->cases, "waited for %" PRIu64 ": %d\n", fences[2], gpu_fence_passed(g, fences[2]));
    gpu_op_copy(g, &(struct args_copy){64}, b, a);
    fences[3] = gpu_fence_to_come(g);
    cases_say(s->cases, "read %d: ", gpu_read(g, b, 0, s->back, 2, &s->err));
    cases_say(s->cases, "%" PRIu64 " %d, then %" PRIu64 "\n", fences[3], gpu_fence_passed(g, fences[3]), gpu_fence(g));
}

// Where one of the reads fails, those before it are waited for all the same.
static void part_of_reads(struct script *s, gpu_buf *a)
{
    gpu *g = s->g;
    struct gpu_range ranges[] = {{a, 0, s->back, 8}, {a, 8, s->back + 8, 8}, {a, PAGES, s->back + 16, 1}};
    cases_say(s->cases, "idle %d, ", !g->dirty);
    uint64_t fence = gpu_read_begin(g, ranges, 3);
    cases_say(s->cases, "under way %d: ", g->dirty);
    cases_say(s->cases, "%d, idle %d\n", gpu_read_end(g, ranges, 3, fence, &s->err), !g->dirty);
    memset(s->back, 0, 16);
    s->err = (struct gpu_error){0};
}

// Writes, launches and reads in the order of the calls.
static void in_order(struct script *s)
{
    gpu *g = s->g;
    gpu_buf *a = buffer(s, PAGES), *b = buffer(s, PAGES + 1);
    say_state(s, "two buffers");
    if (!a || !b)
        goto end;
    gpu_write(g, a, 32, s->bytes + 5, SMALL);
    gpu_op_copy(g, &(struct args_copy){PAGES}, a, b);
    gpu_write(g, a, 32, s->bytes, SMALL);
    say_state(s, "written, copied, written");
    gpu_flush(g);
    cases_say(s->cases, "%d\n", gpu_read(g, a, 32, s->back, SMALL, &s->err));
    say_back(s, 0, SMALL);
    struct gpu_range ranges[] = {{a, 32, s->back, 40}, {b, 0, s->back + 50, 0}, {a, 72, s->back + 40, 56}};
    cases_say(s->cases, "%d\n", gpu_read_ranges(g, ranges, 3, &s->err));
    say_back(s, 0, SMALL);
    cases_say(s->cases, "%d\n", gpu_read(g, b, PAGES, s->back, 2, &s->err));
    cases_say(s->cases, "%d\n", gpu_read(g, b, PAGES + 1, s->back, 0, &s->err));
    gpu_write(g, a, PAGES - 4, s->bytes, 5);
    say_state(s, "beyond");
    uint64_t first = gpu_fence(g), same = gpu_fence(g);
    gpu_op_copy(g, &(struct args_copy){64}, b, a);
    uint64_t read = gpu_read_begin(g, ranges, 3), last = gpu_fence(g);
    cases_say(s->cases, "fences %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 ": %d", first, same, read, last,
              gpu_fence_passed(g, last));
    cases_say(s->cases, " %d %d\n", gpu_fence_passed(g, first), gpu_fence_passed(g, read));
    cases_say(s->cases, "%d\n", gpu_read_end(g, ranges, 3, read, &s->err));
    say_back(s, 0, g->info.shares_host_memory ? 0 : SMALL);
    for (int i = 0; i < 3; i++) {
        gpu_op_copy(g, &(struct args_copy){64}, b, a);
        gpu_fence(g);
    }
    gpu_fence_wait(g, g->fences.last - 1);
    say_state(s, "all but one");
    cases_say(s->cases, "%d\n", gpu_finish(g, &s->err));
    to_come(s, a, b);
    cases_say(s->cases, "%d\n", gpu_finish(g, &s->err));
    part_of_reads(s, a);
end:
    gpu_buf_free(a);
    gpu_buf_free(b);
    say_state(s, "in order");
}

// More than the halves of the memory that writes pass through, and from page-locked memory past it.
static void large_writes(struct script *s)
{
    gpu *g = s->g;
    gpu_buf *a = buffer(s, 2 * LARGE);
    char *from = pinned(s);
    if (a) {
        gpu_write(g, a, 0, s->bytes, LARGE);
        gpu_write(g, a, LARGE, s->bytes, LARGE);
        say_state(s, "through both halves");
        cases_say(s->cases, "%d\n", gpu_read(g, a, 0, s->back, LARGE, &s->err));
        say_back(s, 0, LARGE);
        cases_say(s->cases, "%d\n", gpu_read(g, a, LARGE, s->back, LARGE, &s->err));
        say_back(s, 0, LARGE);
    }
    if (a && from) {
        memcpy(from, s->bytes + 9, PAGES);
        gpu_op_copy(g, &(struct args_copy){64}, a, a);
        gpu_write(g, a, 0, from, PAGES); // which is the caller's again
        memset(from, 0, PAGES);
        cases_say(s->cases, "%d\n", gpu_read(g, a, 0, s->back, PAGES, &s->err));
        say_back(s, 9, PAGES);
    }
    if (from)
        gpu_host_free(g, from);
    gpu_buf_free(a);
    say_state(s, "large writes");
}

// On their queue, there and back, with ops that follow.
static void copies(struct script *s)
{
    gpu *g = s->g;
    gpu_buf *a = buffer(s, PAGES);
    char *there = pinned(s), *back = pinned(s);
    if (!a || !there || !back)
        goto end;
    memcpy(there, s->bytes + 3, PAGES);
    memset(back, 0, PAGES);
    uint64_t first = gpu_copy(g, a, 0, there, PAGES / 2),
             second = gpu_copy(g, a, PAGES / 2, there + PAGES / 2, PAGES / 2);
    gpu_follow(g, first);
    gpu_op_copy(g, &(struct args_copy){64}, a, a);
    uint64_t third = gpu_copy_back(g, a, 0, back, PAGES);
    cases_say(s->cases, "copies %" PRIu64 " %" PRIu64 " %" PRIu64 ": %d\n", first, second, third,
              gpu_copy_passed(g, third));
    gpu_copy_wait(g, second);
    gpu_copy_wait(g, third);
    cases_say(s->cases, "%d %d\n", gpu_copy_passed(g, first), gpu_copy_passed(g, third));
    say_state(s, "there and back");
    memcpy(s->back, back, PAGES);
    say_back(s, 3, PAGES);
    gpu_copy(g, a, PAGES - 4, there, 5);
    say_state(s, "beyond");
    gpu_copy(g, a, 0, there, SMALL); // nobody waits: who frees does
end:
    if (there)
        gpu_host_free(g, there);
    if (back)
        gpu_host_free(g, back);
    gpu_buf_free(a);
    say_state(s, "copies");
}

// Filled by the host where the device maps it.
static void mapped(struct script *s)
{
    gpu *g = s->g;
    g->info.maps_host_memory = !g->info.shares_host_memory;
    gpu_buf *a = gpu_buf_new_shared(g, PAGES, &s->err);
    char *host = a ? gpu_map(g, a) : NULL;
    if (host) {
        memcpy(host, s->bytes + 1, PAGES);
        uint64_t copy = gpu_unmap(g, a);
        gpu_follow(g, copy);
        gpu_copy_wait(g, copy);
        cases_say(s->cases, "%d, %d\n", gpu_copy_passed(g, copy), gpu_read(g, a, 0, s->back, PAGES, &s->err));
        say_back(s, 1, PAGES);
        gpu_map(g, a); // and freed so
    }
    gpu_buf_free(a);
    say_state(s, "mapped");
}

// With the times of kernels.
static void profiled(struct script *s)
{
    gpu *g = s->g;
    struct gpu_kernel_time times[4] = {{0}};
    gpu_buf *a = buffer(s, PAGES);
    g->profile = calloc(1, sizeof *g->profile);
    for (int i = 0; a && i < 3; i++)
        gpu_op_copy(g, &(struct args_copy){64}, a, a);
    cases_say(s->cases, "%d\n", gpu_finish(g, &s->err));
    unsigned n = gpu_profile(g, times, 4);
    for (unsigned i = 0; i < n && i < 4; i++)
        cases_say(s->cases, "%s %" PRIu64 " %" PRIu64 "\n", times[i].name, times[i].launches, times[i].ns);
    gpu_buf_free(a);
    say_state(s, "profiled");
}

static void (*const scripts[])(struct script *) = {in_order, large_writes, copies, mapped, profiled};
enum { N_SCRIPTS = sizeof scripts / sizeof *scripts };

// Plays it once. Returns how many calls or commands there were.
static unsigned play(struct harness *t, struct script *s, unsigned which, bool cpu_shape, unsigned fail_at,
                     unsigned lose_at)
{
    cases_say(s->cases, "== %u %d, call %u fails, command %u is lost\n", which, cpu_shape, fail_at, lose_at);
    s->g = fake_open(s->cases, cpu_shape);
    fake.fail_at = fail_at;
    fake.lose_at = lose_at;
    scripts[which](s);
    unsigned n = lose_at ? fake.moves : fake.calls;
    fake.fail_at = fake.lose_at = 0;
    cases_say(s->cases, "== again\n");
    scripts[which == 4 ? 0 : which](s); // all is well again
    CHECK_EQ(t, s->err.code, 0);
    fake_close(s->g);
    CHECK_EQ(t, fake.memories, 0);
    CHECK_EQ(t, fake.events, 0);
    return n;
}

static void each_call(struct harness *t)
{
    struct cases cases = cases_begin("driver_calls");
    struct script s = {.cases = &cases, .bytes = malloc(LARGE), .back = malloc(LARGE)};
    if (!CHECK(t, s.bytes && s.back))
        return;
    for (size_t i = 0; i < LARGE; i++)
        s.bytes[i] = (char)(i * 7 + i / 251);
    for (unsigned which = 0; which < N_SCRIPTS; which++)
        for (int cpu_shape = 0; cpu_shape < 2; cpu_shape++) {
            unsigned most = which == 1 ? 2 : 1000; // large ones, a few of them
            unsigned n = play(t, &s, which, cpu_shape, 0, 0);
            for (unsigned call = 1; call <= n && call <= most; call++)
                play(t, &s, which, cpu_shape, call, 0);
            unsigned moves = play(t, &s, which, cpu_shape, 0, 1);
            for (unsigned move = 2; move <= moves && move <= most; move++)
                play(t, &s, which, cpu_shape, 0, move);
        }
    free(s.bytes);
    free(s.back);
    CHECK_CASES(t, &cases, 0x71a393103c6de2b9);
}

// Whoever only looks at it, as the expert store does at its slots, would never see it pass.
static void a_read_that_is_refused_leaves_no_fence_that_never_passes(struct harness *t)
{
    struct cases cases = cases_begin("refused_read");
    gpu *g = fake_open(&cases, false);
    struct gpu_error err = {0};
    char back[8];
    gpu_buf *a = gpu_buf_new(g, PAGES, &err);
    if (CHECK(t, a != NULL)) {
        gpu_op_copy(g, &(struct args_copy){64}, a, a);
        fake.fail_at = fake.calls + 1;
        uint64_t fence = gpu_read_begin(g, &(struct gpu_range){a, 0, back, sizeof back}, 1);
        CHECK(t, gpu_failed(g) && fence > 0);
        CHECK(t, gpu_fence_passed(g, fence));
        CHECK_EQ(t, gpu_check(g, &err), GPU_LAUNCH);
    }
    gpu_buf_free(a);
    fake_close(g);
    if (cases.out)
        fclose(cases.out);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(each_call),
                                                TEST(a_read_that_is_refused_leaves_no_fence_that_never_passes)};
    return HARNESS_RUN(tests, argc, argv);
}
