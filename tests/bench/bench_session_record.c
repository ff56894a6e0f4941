// SPDX-License-Identifier: GPL-3.0-or-later
// A long session of a V3 shape (rows of 512 + 64, a few layers) saved as records and read back, as a share of what the
// same file's plain sequential read gives in the same run. Rows are noise: no model is needed for what is measured.
//
//     bench_session_record [--device D] [--rows N] [--layers N] [--part ROWS] [--f16] [--indexed] [--file PATH]
//
// With --indexed each layer has rows of an indexer too, as V3.2's have. Cold means that the kernel was told to forget
// the file (posix_fadvise) after it was synced. Medians of ROUNDS.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "engine/session/session.h"

enum { ROUNDS = 5, VOCAB = 129280, PIECE = 2 << 20, STREAMS = 2 };

struct bench {
    const char *device;
    const char *path;
    uint32_t rows, layers, part;
    bool indexed;
    enum moe_kv_type type;
    moe_model model;
    moe_session saved, restored;
    struct moe_record_io io;
    struct moe_record *records;
    uint32_t n_records;
    uint64_t bytes;
};

static void must(int good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "bench_session_record: %s\n", what);
    exit(1);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void open_session(struct bench *b, moe_session *session)
{
    struct moe_err err = {.text = ""};
    struct memory_layout layout = {&b->model.package.shape, b->rows, b->type};
    session->model = &b->model;
    session->scratch.last_rows[0] = calloc(VOCAB, sizeof(float));
    must(!memory_open(b->model.gpu, &layout, &session->memory, &err), err.text);
    must(!memory_reserve(b->model.gpu, &session->memory, b->rows, &err), err.text);
}

static void open_all(struct bench *b)
{
    struct gpu_error err = {.text = ""};
    struct gpu_options options = {.selector = b->device};
    b->model.gpu = gpu_open(&options, &err);
    must(b->model.gpu != NULL, err.text);
    b->model.package.shape =
        (struct shape){.n_layers = b->layers, .kv_lora_rank = 512, .qk_rope_head_dim = 64, .vocab_size = VOCAB};
    if (b->indexed) {
        b->model.package.shape.indexer =
            (struct indexer_dims){.n_heads = 64, .head_dim = 128, .top_k = 2048, .pool = 1};
        memset(b->model.package.shape.layer_kinds, LAYER_DSA, b->layers);
    }
    memset(b->model.package.fingerprint, '7', 64);
    open_session(b, &b->saved);
    open_session(b, &b->restored);
    b->saved.length = b->rows;
    uint64_t words = gpu_buf_bytes(b->saved.memory.layers[0].rows[0]) / 8;
    uint64_t *noise = malloc(words * 8);
    uint64_t state = 88172645463325252u;
    for (uint32_t i = 0; i < b->layers * STREAMS; i++) {
        gpu_buf *rows = b->saved.memory.layers[i / STREAMS].rows[i % STREAMS];
        for (uint64_t k = 0; rows && k < words; k++) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            noise[k] = state;
        }
        if (rows)
            gpu_write(b->model.gpu, rows, 0, noise, gpu_buf_bytes(rows));
    }
    free(noise);
    must(!gpu_finish(b->model.gpu, &err), err.text);
}

// Appends all parts; the seconds without the sync that follows.
static double save_all(struct bench *b)
{
    struct moe_err err;
    must(!ftruncate(b->io.fd, 0), "the file can't be emptied");
    double start = seconds();
    b->n_records = 0;
    b->bytes = 0;
    for (uint32_t first = 0; first < b->rows; first += b->part) {
        struct moe_record *record = &b->records[b->n_records++];
        struct moe_record_part part = {.offset = b->bytes, .first = first, .logits = b->saved.scratch.last_rows[0]};
        part.count = b->rows - first < b->part ? b->rows - first : b->part;
        must(!moe_session_write_record(&b->saved, &b->io, &part, record, &err), err.text);
        b->bytes += record->bytes;
    }
    double took = seconds() - start;
    must(!fsync(b->io.fd), strerror(errno));
    return took;
}

static void forget(const struct bench *b, int cold)
{
    if (cold)
        must(!posix_fadvise(b->io.fd, 0, 0, POSIX_FADV_DONTNEED), "posix_fadvise");
}

static double read_plainly(const struct bench *b, char *buffer, int cold)
{
    forget(b, cold);
    double start = seconds();
    for (uint64_t at = 0; at < b->bytes;) {
        ptrdiff_t got = pread(b->io.fd, buffer, PIECE, (off_t)at);
        must(got > 0, "the file can't be read");
        at += (uint64_t)got;
    }
    return seconds() - start;
}

static double restore_all(struct bench *b, int cold)
{
    struct moe_err err = {.text = ""};
    forget(b, cold);
    b->restored.length = 0;
    double start = seconds();
    for (uint32_t i = 0; i < b->n_records; i++)
        must(!moe_session_read_record(&b->restored, &b->io, &b->records[i], &err), err.text);
    return seconds() - start;
}

static void compare_rows(struct bench *b)
{
    uint64_t bytes = gpu_buf_bytes(b->saved.memory.layers[0].rows[0]);
    char *want = malloc(bytes);
    char *got = malloc(bytes);
    struct gpu_error err = {.text = ""};
    for (uint32_t i = 0; i < b->layers * STREAMS; i++) {
        gpu_buf *saved = b->saved.memory.layers[i / STREAMS].rows[i % STREAMS];
        gpu_buf *restored = b->restored.memory.layers[i / STREAMS].rows[i % STREAMS];
        if (!saved)
            continue;
        bytes = gpu_buf_bytes(saved);
        must(!gpu_read(b->model.gpu, saved, 0, want, bytes, &err), err.text);
        must(!gpu_read(b->model.gpu, restored, 0, got, bytes, &err), err.text);
        must(memcmp(want, got, bytes) == 0, "the restored rows differ");
    }
    free(want);
    free(got);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values)
{
    qsort(values, ROUNDS, sizeof *values, by_size);
    return values[ROUNDS / 2];
}

static void measure(struct bench *b)
{
    double save[ROUNDS], plain[2][ROUNDS], back[2][ROUNDS];
    char *buffer = aligned_alloc(4096, PIECE);
    for (int round = 0; round < ROUNDS; round++) {
        save[round] = save_all(b);
        for (int cold = 1; cold >= 0; cold--) {
            plain[cold][round] = read_plainly(b, buffer, cold);
            back[cold][round] = restore_all(b, cold);
        }
    }
    compare_rows(b);
    free(buffer);
    double gigabytes = (double)b->bytes * 1e-9;
    printf("%s: %u rows of %u layers%s, %s, %u records, %.3f GB\n", gpu_describe(b->model.gpu)->name, b->rows,
           b->layers, b->indexed ? " with indexers" : "", b->type == MOE_KV_F16 ? "f16" : "f32", b->n_records,
           gigabytes);
    printf("saved, before the sync:  %6.2f GB/s\n", gigabytes / median(save));
    for (int cold = 1; cold >= 0; cold--) {
        double raw = median(plain[cold]);
        double took = median(back[cold]);
        printf("%s read back:  %6.2f GB/s in %.3f s, %3.0f %% of the plain read's %.2f GB/s\n", cold ? "cold" : "warm",
               gigabytes / took, took, 100 * raw / took, gigabytes / raw);
    }
}

static void close_session(moe_session *session)
{
    session_record_release(session);
    memory_release(&session->memory);
    free(session->scratch.last_rows[0]);
}

int main(int argc, char **argv)
{
    static struct bench b = {.path = "/var/tmp/moechat-bench-record", .rows = 32768, .layers = 4, .part = 1024};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--f16") == 0)
            b.type = MOE_KV_F16;
        else if (strcmp(argv[i], "--indexed") == 0)
            b.indexed = true;
        else if (strcmp(argv[i], "--device") == 0 && ++i)
            b.device = value;
        else if (strcmp(argv[i], "--file") == 0 && ++i)
            b.path = value;
        else if (strcmp(argv[i], "--rows") == 0 && ++i)
            b.rows = (uint32_t)strtoul(value, NULL, 10);
        else if (strcmp(argv[i], "--layers") == 0 && ++i)
            b.layers = (uint32_t)strtoul(value, NULL, 10);
        else if (strcmp(argv[i], "--part") == 0 && ++i)
            b.part = (uint32_t)strtoul(value, NULL, 10);
        else
            must(0, "unknown option; see the head of bench_session_record.c");
    }
    must(b.rows && b.layers && b.part, "--rows, --layers and --part are at least 1");
    b.io = (struct moe_record_io){.fd = open(b.path, O_RDWR | O_CREAT | O_EXCL, 0600), .path = b.path};
    must(b.io.fd >= 0, "the file is there already, or can't be made");
    unlink(b.path);
    b.records = calloc((b.rows + b.part - 1) / b.part, sizeof *b.records);
    open_all(&b);
    measure(&b);
    close_session(&b.saved);
    close_session(&b.restored);
    gpu_close(b.model.gpu);
    free(b.records);
    close(b.io.fd);
    return 0;
}
