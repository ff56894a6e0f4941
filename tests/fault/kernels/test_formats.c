// SPDX-License-Identifier: GPL-3.0-or-later
// Kernels of a token that a device's driver does not build, or builds wrong: ops go apart, and that is said.
#include <string.h>

#include "kernels/device.h"
#include "kernels/kinds.h"
#include "tests/harness.h"

static struct {
    bool builds;
    unsigned proofs, closed; // after how many proofs it is right; 0: never
} driver;

static struct program pretended;

struct program *__wrap_program_open_token(gpu *g, uint64_t kinds, struct gpu_error *err);
bool __wrap_gpu_prove_token(gpu *g, const struct program *program);
bool __wrap_program_for_two_groups(gpu *g, struct program *p);
void __wrap_program_close(struct program *p);
void __real_program_close(struct program *p);

struct program *__wrap_program_open_token(gpu *g, uint64_t kinds, struct gpu_error *err)
{
    (void)g, (void)kinds;
    if (driver.builds)
        return &pretended;
    snprintf(err->text, sizeof err->text, "ptxas: out of registers");
    return NULL;
}

bool __wrap_gpu_prove_token(gpu *g, const struct program *program)
{
    (void)g, (void)program;
    return driver.proofs && --driver.proofs == 0;
}

bool __wrap_program_for_two_groups(gpu *g, struct program *p)
{
    (void)g, (void)p;
    return true;
}

void __wrap_program_close(struct program *p)
{
    if (p == &pretended)
        driver.closed++;
    else
        __real_program_close(p);
}

static void a_token_without_its_kernels_is_told(struct harness *t)
{
    static const char apart[] = "tokens take longer than they might, for kernels of whole layers ";
    static const struct {
        bool builds;
        unsigned proofs;
        const char *why;
    } cases[] = {{false, 0, "did not build: ptxas: out of registers"},
                 {true, 0, "did not compute as they should on this device"},
                 {true, 1, NULL},
                 {true, 2, NULL}};
    const struct gpu_format format = {.kind = KIND_Q4_K, .uses = USE_TOKEN};
    const struct gpu_format another = {.kind = KIND_Q6_K, .uses = USE_TOKEN};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gpu_error err;
        gpu *g = gpu_open(&(struct gpu_options){.selector = "ref"}, &err);
        if (!CHECK(t, g != NULL))
            return;
        g->has_mma = true;
        g->meeting.groups = 1;
        driver.builds = cases[i].builds;
        driver.proofs = cases[i].proofs;
        driver.closed = 0;
        if (i == 1) // behind what was said before
            snprintf(g->notice, sizeof g->notice, "first");
        CHECK_EQ(t, gpu_open_formats(g, &format, 1, NULL, &err), GPU_OK);
        const char *said = gpu_notice(g) + (i == 1 ? strlen("first; ") : 0);
        CHECK_EQ(t, strncmp(said, apart, sizeof apart - 1) == 0, cases[i].why != NULL);
        CHECK_STR(t, cases[i].why ? said + sizeof apart - 1 : said, cases[i].why ? cases[i].why : "");
        CHECK_EQ(t, g->token == &pretended, cases[i].why == NULL);
        CHECK_EQ(t, driver.closed, i == 1);
        if (cases[i].why) { // of the next model's it is not said again
            char before[sizeof g->notice];
            snprintf(before, sizeof before, "%s", g->notice);
            CHECK_EQ(t, gpu_open_formats(g, &another, 1, NULL, &err), GPU_OK);
            CHECK_STR(t, gpu_notice(g), before);
        }
        g->token = NULL;
        gpu_close(g);
    }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(a_token_without_its_kernels_is_told)};
    return HARNESS_RUN(tests, argc, argv);
}
