// SPDX-License-Identifier: GPL-3.0-or-later
// What attention that chooses its rows takes: an indexer's scores, the choice and attention over lists, of one token
// and of a chunk's rows, behind so many tokens; beside attention over all rows. By the device's own clock; with --calls
// N by the wall's, of N calls in a row, for a clock's events add to small kernels. Keys move on from call to call, so
// that no cache of the device holds them.
//
//     build/tests/bench/bench_index [--device NAME] [--tokens 131072] [--calls N]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "kernels/gpu.h"

enum { TOP_K = 2048, ROWS = 32, RANK = 512, ROPE = 64, INDEX_DIM = 128, TURNS = 7, PLACES = 4 };

static const struct model {
    const char *name;
    uint32_t n_heads, index_heads;
} models[] = {{"V3.2", 128, 64}, {"GLM-5", 64, 32}};

struct bench {
    gpu *g;
    const struct model *model;
    uint32_t tokens, kv_type;
    gpu_buf *rows, *index_rows[PLACES], *q, *latent, *out, *scores, *list;
    unsigned place; // of the keys
    int calls;      // in a row; 0: each by the device's clock
    double copy;    // bytes a second, read and written
};

static gpu_buf *room(gpu *g, uint64_t bytes)
{
    enum { PIECE = 1 << 20 };
    static uint16_t piece[PIECE / 2];
    struct gpu_error err;
    gpu_buf *buf = gpu_buf_new(g, bytes, &err);
    uint32_t seed = 1;
    for (int i = 0; i < PIECE / 2; i++) { // numbers of about 0.1, as halves and as float32
        seed = seed * 1664525 + 1013904223;
        piece[i] = (uint16_t)(0x2c00 | (seed >> 16 & 0x93ff));
    }
    for (uint64_t at = 0; buf && at < bytes; at += PIECE)
        gpu_write(g, buf, at, piece, bytes - at < PIECE ? bytes - at : PIECE);
    if (!buf) {
        fprintf(stderr, "bench_index: %s\n", err.text);
        exit(1);
    }
    return buf;
}

static uint64_t kernels_ns(gpu *g)
{
    struct gpu_kernel_time times[64];
    struct gpu_error err;
    uint64_t ns = 0;
    if (gpu_finish(g, &err)) {
        fprintf(stderr, "bench_index: %s\n", err.text);
        exit(1);
    }
    for (unsigned n = gpu_profile(g, times, 64); n-- > 0;)
        ns += times[n].ns;
    return ns;
}

static double seconds_in_a_row(struct bench *b, void op(struct bench *b, uint32_t n_rows), uint32_t n_rows)
{
    struct gpu_error err;
    uint64_t began = clock_ns();
    for (int i = 0; i < b->calls; i++)
        op(b, n_rows);
    if (gpu_finish(b->g, &err)) {
        fprintf(stderr, "bench_index: %s\n", err.text);
        exit(1);
    }
    return (double)(clock_ns() - began) / 1e9 / b->calls;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

typedef void one_op(struct bench *b, uint32_t n_rows);

// The median of some turns, in seconds.
static double measure(struct bench *b, one_op *op, uint32_t n_rows)
{
    double seconds[TURNS];
    op(b, n_rows);
    kernels_ns(b->g);
    for (int i = 0; i < TURNS; i++) {
        if (b->calls) {
            seconds[i] = seconds_in_a_row(b, op, n_rows);
            continue;
        }
        uint64_t before = kernels_ns(b->g);
        op(b, n_rows);
        seconds[i] = (double)(kernels_ns(b->g) - before) / 1e9;
    }
    qsort(seconds, TURNS, sizeof *seconds, by_size);
    return seconds[TURNS / 2];
}

static void copy(struct bench *b, uint32_t n_rows)
{
    (void)n_rows;
    gpu_op_copy(b->g, &(struct args_copy){.bytes = 64 << 20}, b->q, b->latent);
}

static void scores(struct bench *b, uint32_t n_rows)
{
    uint32_t heads = b->model->index_heads;
    gpu_buf *keys = b->index_rows[b->place++ % PLACES];
    struct args_index_scores a = {.n_rows = n_rows,
                                  .n_heads = heads,
                                  .dim = INDEX_DIM,
                                  .q_stride = heads * INDEX_DIM,
                                  .weight_stride = heads,
                                  .position = b->tokens - n_rows,
                                  .kv_type = b->kv_type,
                                  .out_stride = b->tokens,
                                  .scale = 0.01F};
    gpu_op_index_scores(b->g, &a, &(struct gpu_index_scores_bufs){b->q, b->latent, keys, b->scores});
}

static void choice(struct bench *b, uint32_t n_rows)
{
    struct args_index_choice a = {
        .n_rows = n_rows, .top_k = TOP_K, .position = b->tokens - n_rows, .in_stride = b->tokens};
    gpu_op_index_choice(b->g, &a, b->scores, b->list);
}

static void attention(struct bench *b, uint32_t n_rows, uint32_t n_listed)
{
    struct args_attention a = {.n_rows = n_rows,
                               .n_heads = b->model->n_heads,
                               .kv_lora_rank = RANK,
                               .rope_dim = ROPE,
                               .q_row_stride = b->model->n_heads * ROPE,
                               .q_head_stride = ROPE,
                               .position = b->tokens - n_rows,
                               .kv_type = b->kv_type,
                               .n_listed = n_listed,
                               .softmax_scale = 0.07F};
    struct gpu_attention_bufs bufs = {b->latent, b->q, b->rows, b->out, b->list};
    (n_rows == 1 ? gpu_op_attention_decode : gpu_op_attention_prefill)(b->g, &a, &bufs);
}

static void listed(struct bench *b, uint32_t n_rows)
{
    attention(b, n_rows, TOP_K);
}

static void dense(struct bench *b, uint32_t n_rows)
{
    attention(b, n_rows, 0);
}

static void bench_rows(struct bench *b, uint32_t n_rows)
{
    uint64_t element = b->kv_type == KV_F16 ? 2 : 4, bytes = b->tokens * element * INDEX_DIM;
    double products = (double)n_rows * b->tokens * b->model->index_heads * INDEX_DIM;
    double s = measure(b, scores, n_rows), c = measure(b, choice, n_rows), l = measure(b, listed, n_rows);
    printf("%-6s %6u tokens, %2u row%s, %s: scores %8.1f us (%3.0f %% of a copy's bytes, %5.2f TFLOP/s), choice %8.1f, "
           "list %8.1f",
           b->model->name, b->tokens, n_rows, n_rows == 1 ? " " : "s", b->kv_type == KV_F16 ? "f16" : "f32", s * 1e6,
           100 * (double)bytes / s / b->copy, 2 * products / s / 1e12, c * 1e6, l * 1e6);
    if (n_rows == 1 || b->tokens <= 16384)
        printf(", dense %8.1f", measure(b, dense, n_rows) * 1e6);
    printf("\n");
    fflush(stdout);
}

static void bench_tokens(struct bench *b)
{
    for (b->kv_type = KV_F32; b->kv_type <= KV_F16; b->kv_type++)
        for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
            b->model = &models[i];
            bench_rows(b, 1);
            bench_rows(b, ROWS);
        }
}

int main(int argc, char **argv)
{
    struct gpu_options options = {.profile = true, .cache_dir = getenv("MOECHAT_TEST_KERNEL_CACHE")};
    struct bench b = {.tokens = 0};
    uint32_t most = 16384;
    for (int i = 1; i + 1 < argc; i += 2) {
        options.selector = strcmp(argv[i], "--device") == 0 ? argv[i + 1] : options.selector;
        most = strcmp(argv[i], "--tokens") == 0 ? (uint32_t)strtoul(argv[i + 1], NULL, 10) : most;
        b.calls = strcmp(argv[i], "--calls") == 0 ? atoi(argv[i + 1]) : b.calls;
    }
    options.profile = b.calls <= 0;
    struct gpu_error err;
    b.g = gpu_open(&options, &err);
    if (!b.g) {
        fprintf(stderr, "bench_index: %s\n", err.text);
        return 1;
    }
    b.rows = room(b.g, (uint64_t)most * (RANK + ROPE) * 4);
    for (int i = 0; i < PLACES; i++)
        b.index_rows[i] = room(b.g, (uint64_t)most * INDEX_DIM * 4);
    b.q = room(b.g, 64 << 20);
    b.latent = room(b.g, 64 << 20);
    b.out = room(b.g, (uint64_t)ROWS * 128 * RANK * 4);
    b.scores = room(b.g, (uint64_t)ROWS * most * 4);
    b.list = room(b.g, (uint64_t)ROWS * TOP_K * 4);
    b.copy = 2.0 * (64 << 20) / measure(&b, copy, 1);
    printf("%s: a copy reads and writes %.0f GB/s\n", gpu_describe(b.g)->name, b.copy / 1e9);
    for (b.tokens = 4096; b.tokens <= most; b.tokens *= b.tokens < 16384 ? 4 : 8)
        bench_tokens(&b);
    gpu_buf *const all[] = {b.rows, b.q, b.latent, b.out, b.scores, b.list};
    for (int i = 0; i < PLACES; i++)
        gpu_buf_free(b.index_rows[i]);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        gpu_buf_free(all[i]);
    gpu_close(b.g);
    return 0;
}
