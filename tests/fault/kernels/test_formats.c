// SPDX-License-Identifier: GPL-3.0-or-later
// What a device's driver does not build, or builds wrong: kernels of a token, without which ops go apart, and that is
// said; those of a kind, without which no model that has it is opened.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/device.h"
#include "kernels/kinds.h"
#include "tests/harness.h"

static struct {
    bool builds;
    unsigned proofs, closed; // after how many proofs it is right; 0: never
    bool flushes;            // float16 numbers that are subnormal are zero
} driver;

static struct program pretended;

struct program *__wrap_program_open_token(gpu *g, uint64_t kinds, struct gpu_error *err);
bool __wrap_gpu_prove_token(gpu *g, const struct program *program);
bool __wrap_program_for_two_groups(gpu *g, struct program *p);
void __wrap_program_close(struct program *p);
void __real_program_close(struct program *p);
struct program *__wrap_program_open_kind(gpu *g, const struct gpu_format *format, struct gpu_error *err);
void __wrap_gpu_op_embed(gpu *g, const struct args_embed *a, gpu_buf *table, gpu_buf *ids, gpu_buf *out);
void __real_gpu_op_embed(gpu *g, const struct args_embed *a, gpu_buf *table, gpu_buf *ids, gpu_buf *out);
void __wrap_gpu_op_matvec(gpu *g, const struct args_matmul *a, gpu_buf *matrix, gpu_buf *x, gpu_buf *y);
void __real_gpu_op_matvec(gpu *g, const struct args_matmul *a, gpu_buf *matrix, gpu_buf *x, gpu_buf *y);

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

struct program *__wrap_program_open_kind(gpu *g, const struct gpu_format *format, struct gpu_error *err)
{
    (void)g, (void)format, (void)err;
    return &pretended;
}

static bool is_subnormal(unsigned half)
{
    return (half & 0x7c00) == 0;
}

static void flush_block(uint32_t kind, unsigned char *block)
{
    const struct kind_info *info = kind_info(kind);
    for (int i = 0; i < info->halves.count; i++) {
        unsigned char *half = block + info->halves.at[i];
        if (is_subnormal(half[0] | (unsigned)half[1] << 8))
            half[0] = half[1] = 0;
    }
    unsigned spread = 0;
    for (int i = 0; i < 4 && kind == KIND_IQ1_M; i++)
        spread |= (unsigned)(block[49 + 2 * i] >> 4) << 4 * i;
    for (int i = 0; i < 4 && kind == KIND_IQ1_M && is_subnormal(spread); i++)
        block[49 + 2 * i] &= 0x0f;
}

static void flush(gpu *g, const struct args_matrix *m, gpu_buf *matrix)
{
    struct gpu_error err;
    size_t bytes = (size_t)(m->out_dim * matrix_row_bytes(m));
    unsigned char *rows = malloc(bytes);
    if (rows && gpu_read(g, matrix, 0, rows, bytes, &err) == GPU_OK) {
        for (size_t at = 0; at < bytes; at += kind_info(m->kind)->block_bytes)
            flush_block(m->kind, rows + at);
        gpu_write(g, matrix, 0, rows, bytes);
    }
    free(rows);
}

// The device under test says that it is a CPU, so that its kernels are built and proved, and computes in plain C.
void __wrap_gpu_op_embed(gpu *g, const struct args_embed *a, gpu_buf *table, gpu_buf *ids, gpu_buf *out)
{
    enum gpu_kind kind = g->info.kind;
    g->info.kind = GPU_KIND_REF;
    if (driver.flushes)
        flush(g, &a->table, table);
    __real_gpu_op_embed(g, a, table, ids, out);
    g->info.kind = kind;
}

void __wrap_gpu_op_matvec(gpu *g, const struct args_matmul *a, gpu_buf *matrix, gpu_buf *x, gpu_buf *y)
{
    enum gpu_kind kind = g->info.kind;
    g->info.kind = GPU_KIND_REF;
    __real_gpu_op_matvec(g, a, matrix, x, y);
    g->info.kind = kind;
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

// Most super-scales of real files are subnormal: a model of zeroes would answer, and nobody would know why so badly.
static void a_device_that_flushes_scales_is_refused(struct harness *t)
{
    for (uint32_t kind = KIND_NONE + 1; kind < KIND_COUNT; kind++) {
        if (!kind_info(kind)->halves.count && kind != KIND_IQ1_M)
            continue;
        for (int flushes = 0; flushes < 2; flushes++) {
            struct gpu_error err;
            char words[256];
            gpu *g = gpu_open(&(struct gpu_options){.selector = "ref"}, &err);
            if (!CHECK(t, g != NULL))
                return;
            driver.flushes = flushes;
            driver.closed = 0;
            g->info.kind = GPU_KIND_CPU;
            const struct gpu_format format = {.kind = kind, .uses = USE_PRODUCTS};
            int code = gpu_open_formats(g, &format, 1, NULL, &err);
            snprintf(words, sizeof words, "%s computes matrices of kind %s wrongly; choose another device",
                     g->info.name, kind_name(kind));
            if (!CHECK_EQ(t, code, flushes ? GPU_BUILD : GPU_OK))
                fprintf(stderr, "%s %s\n", kind_name(kind), flushes ? "flushed" : "as it is");
            if (code)
                CHECK_STR(t, err.text, words);
            CHECK_EQ(t, driver.closed, flushes); // and so nothing of it is left
            CHECK_EQ(t, g->formats[kind][0] == &pretended, !flushes);
            g->formats[kind][0] = NULL;
            g->info.kind = GPU_KIND_REF;
            gpu_close(g);
        }
    }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(a_token_without_its_kernels_is_told),
                                                TEST(a_device_that_flushes_scales_is_refused)};
    return HARNESS_RUN(tests, argc, argv);
}
