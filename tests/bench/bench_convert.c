// SPDX-License-Identifier: GPL-3.0-or-later
// A folder in MLX's layout and a model's true shapes (random bytes), converted: bytes a second as a share of what the
// same disk takes from one thread that only writes, peak memory, and how much faster a package's experts are read than
// the folder's nine spans.
//
//     bench_convert [CONFIG.json [LAYERS [FOLDER]]]         default: GLM-4.7-Flash, 4 layers, in /tmp
#include <fcntl.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/files/checkpoint.h"
#include "engine/experts/flights.h"

enum { GROUP = 64, BUFFER = 4 << 20, ROUNDS = 3, READS = 96, IN_FLIGHT = 8 };

struct maker {
    struct shape shape;
    struct json_object *header;
    uint64_t end;
    char folder[256];
};

__attribute__((format(printf, 2, 3))) static void must(bool good, const char *format, ...)
{
    if (good)
        return;
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

static double cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void add(struct maker *m, const char *name, const char *dtype, uint64_t bytes, const uint64_t dims[3])
{
    struct json_object *entry = json_object_new_object();
    struct json_object *shape = json_object_new_array();
    struct json_object *range = json_object_new_array();
    for (int i = 0; i < 3; i++)
        if (dims[i])
            json_object_array_add(shape, json_object_new_uint64(dims[i]));
    json_object_array_add(range, json_object_new_uint64(m->end));
    json_object_array_add(range, json_object_new_uint64(m->end += bytes));
    json_object_object_add(entry, "dtype", json_object_new_string(dtype));
    json_object_object_add(entry, "shape", shape);
    json_object_object_add(entry, "data_offsets", range);
    json_object_object_add(m->header, name, entry);
}

static void add_vector(struct maker *m, const char *in, const char *name, uint64_t dim)
{
    char full[200];
    snprintf(full, sizeof full, "%s%s", in, name);
    bool bias = strstr(name, "correction") != NULL;
    add(m, full, bias ? "F32" : "BF16", dim * (bias ? 4 : 2), (uint64_t[]){dim, 0, 0});
}

// [count, rows, cols] in 4 bits, count 0: [rows, cols].
static void add_matrix(struct maker *m, const char *in, const char *name, const uint64_t dims[3])
{
    static const char *const suffixes[] = {"weight", "scales", "biases"};
    uint64_t rows = (dims[0] ? dims[0] : 1) * dims[1];
    for (int i = 0; i < 3; i++) {
        char full[200];
        uint64_t cols = i ? dims[2] / GROUP : dims[2] / 8;
        snprintf(full, sizeof full, "%s%s.%s", in, name, suffixes[i]);
        add(m, full, i ? "BF16" : "U32", rows * cols * (i ? 2 : 4),
            dims[0] ? (uint64_t[]){dims[0], dims[1], cols} : (uint64_t[]){dims[1], cols, 0});
    }
}

static void add_layer(struct maker *m, uint32_t layer)
{
    const struct shape *s = &m->shape;
    uint64_t hidden = s->hidden_size, heads = s->n_heads, inner = s->intermediate_size;
    uint64_t q_out = heads * (s->qk_nope_head_dim + s->qk_rope_head_dim);
    char in[64];
    snprintf(in, sizeof in, "model.layers.%" PRIu32 ".", layer);
    add_vector(m, in, "input_layernorm.weight", hidden);
    add_vector(m, in, "post_attention_layernorm.weight", hidden);
    if (s->q_lora_rank) {
        add_matrix(m, in, "self_attn.q_a_proj", (uint64_t[]){0, s->q_lora_rank, hidden});
        add_vector(m, in, "self_attn.q_a_layernorm.weight", s->q_lora_rank);
        add_matrix(m, in, "self_attn.q_b_proj", (uint64_t[]){0, q_out, s->q_lora_rank});
    } else {
        add_matrix(m, in, "self_attn.q_proj", (uint64_t[]){0, q_out, hidden});
    }
    add_matrix(m, in, "self_attn.kv_a_proj_with_mqa", (uint64_t[]){0, s->kv_lora_rank + s->qk_rope_head_dim, hidden});
    add_vector(m, in, "self_attn.kv_a_layernorm.weight", s->kv_lora_rank);
    add_matrix(m, in, "self_attn.kv_b_proj",
               (uint64_t[]){0, heads * (s->qk_nope_head_dim + s->v_head_dim), s->kv_lora_rank});
    add_matrix(m, in, "self_attn.o_proj", (uint64_t[]){0, hidden, heads * s->v_head_dim});
    bool moe = shape_is_moe(s, layer);
    uint64_t experts = s->n_routed_experts;
    for (int shared = 0; shared < (moe ? 2 : 1); shared++) {
        static const char *const names[] = {"gate_proj", "up_proj", "down_proj"};
        uint64_t width = !moe     ? inner
                         : shared ? s->moe_intermediate_size * s->n_shared_experts
                                  : s->moe_intermediate_size;
        for (int i = 0; i < 3; i++) {
            char name[64];
            snprintf(name, sizeof name, "mlp.%s%s", !moe ? "" : shared ? "shared_experts." : "switch_mlp.", names[i]);
            add_matrix(m, in, name,
                       (uint64_t[]){moe && !shared ? experts : 0, i == 2 ? hidden : width, i == 2 ? width : hidden});
        }
    }
    if (moe) {
        char name[100];
        snprintf(name, sizeof name, "%smlp.gate.weight", in);
        add(m, name, "BF16", experts * hidden * 2, (uint64_t[]){experts, hidden, 0});
        add_vector(m, in, "mlp.gate.e_score_correction_bias", experts);
    }
}

static void fill_random(uint64_t *words, size_t n, uint64_t *state)
{
    for (size_t i = 0; i < n; i++) {
        *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
        words[i] = *state;
    }
}

// One thread that writes what it has: the speed that conversions are compared with.
static double write_alone(const char *path, uint64_t bytes)
{
    uint64_t *buffer = malloc(BUFFER);
    uint64_t state = 88172645463325252u;
    must(buffer != NULL, "no memory");
    fill_random(buffer, BUFFER / 8, &state);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    double begin = now();
    for (uint64_t done = 0; done < bytes; done += BUFFER)
        must(pwrite(fd, buffer, BUFFER, (off_t)done) == BUFFER, "%s: cannot be written", path);
    must(fd >= 0 && fsync(fd) == 0 && close(fd) == 0, "%s: cannot be written", path);
    double seconds = now() - begin;
    free(buffer);
    unlink(path);
    return (double)bytes / seconds;
}

static void write_folder(struct maker *m, struct json_object *config)
{
    char path[300];
    mkdir(m->folder, 0700);
    snprintf(path, sizeof path, "%s/config.json", m->folder);
    must(json_object_to_file(path, config) == 0, "%s: cannot be written", path);
    snprintf(path, sizeof path, "%s/model.safetensors", m->folder);
    const char *text = json_object_to_json_string_ext(m->header, JSON_C_TO_STRING_PLAIN);
    uint64_t length = (strlen(text) + 7) / 8 * 8;
    FILE *file = fopen(path, "wb");
    must(file && fwrite(&length, 8, 1, file) == 1 && fprintf(file, "%-*s", (int)length, text) == (int)length,
         "%s: cannot be written", path);
    uint64_t *buffer = malloc(BUFFER);
    uint64_t state = 2463534242u;
    for (uint64_t left = m->end; left;) {
        size_t part = left < BUFFER ? (size_t)left : BUFFER;
        fill_random(buffer, BUFFER / 8, &state);
        for (size_t i = 0; i < BUFFER / 8; i++)
            buffer[i] &= UINT64_C(0x3fff3fff3fff3fff); // as bf16 or float32 each is a finite number
        must(fwrite(buffer, 1, part, file) == part, "%s: cannot be written", path);
        left -= part;
    }
    free(buffer);
    must(fflush(file) == 0 && fsync(fileno(file)) == 0 && fclose(file) == 0, "%s: cannot be written", path);
}

static void forget(const char *path) // so that the next read comes from the disk
{
    int fd = open(path, O_RDONLY);
    if (fd >= 0) {
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        close(fd);
    }
}

// Bytes a second of random experts, IN_FLIGHT at a time, past the page cache where the disk lets us.
static double read_experts(const char *directory, uint64_t seed)
{
    struct package p;
    struct moe_err err;
    struct flights flights = {.pool = NULL};
    must(!package_open(directory, &p, &err), "%s", err.text);
    const struct flights_options options = {.n_flights = IN_FLIGHT, .readers = 4, .direct = true};
    must(!flights_open(&flights, &p, &options, &err), "%s", err.text);
    for (uint32_t i = 0; i < p.n_files; i++)
        forget(p.files[i].path);
    char *memory = aligned_alloc(4096, (size_t)package_slot_bytes(&p) * IN_FLIGHT);
    must(memory != NULL, "no memory");
    uint64_t bytes = 0;
    uint32_t begun = 0, over = 0;
    double begin = now();
    while (over < READS) {
        for (; begun < READS && begun - over < IN_FLIGHT; begun++) {
            uint64_t random;
            fill_random(&random, 1, &seed);
            uint32_t n_moe = p.shape.n_layers - p.shape.first_k_dense_replace;
            struct flight_order order = {.layer = p.shape.first_k_dense_replace + (uint32_t)(random >> 32) % n_moe,
                                         .expert = (uint32_t)random % p.shape.n_routed_experts};
            order.target = memory + package_slot_bytes(&p) * (begun % IN_FLIGHT);
            struct read_failure failure;
            must(flights_begin(&flights, &order, &failure) != NULL, "%s: no read can begin: %s", directory,
                 strerror(failure.sys_errno));
        }
        struct flight *flight = flights_reap(&flights, READER_FOREVER);
        must(flight && flight->failure.result == READ_FULL, "%s: an expert cannot be read: %s", directory,
             flight ? strerror(flight->failure.sys_errno) : "nothing is under way");
        bytes += flight->delivered;
        flights_done(&flights, flight);
        over++;
    }
    double seconds = now() - begin;
    free(memory);
    flights_close(&flights);
    package_release(&p);
    return (double)bytes / seconds;
}

static void remove_folder(const char *directory, const struct shape *s)
{
    static const char *const names[] = {"config.json", "model.safetensors", "resident.safetensors", "model.json"};
    char path[300];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        unlink(path);
    }
    for (uint32_t i = 0; i < s->n_layers; i++) {
        snprintf(path, sizeof path, "%s/layer-%03" PRIu32 ".experts", directory, i);
        unlink(path);
    }
    rmdir(directory);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double values[ROUNDS])
{
    qsort(values, ROUNDS, sizeof *values, by_value);
    return values[ROUNDS / 2];
}

static void measure(const struct maker *m, const char *target)
{
    double disk[ROUNDS], speed[ROUNDS], folder[ROUNDS], package[ROUNDS];
    char path[320];
    struct moe_err err;
    struct moe_convert_options options = {.threads = 0};
    snprintf(path, sizeof path, "%s/alone", m->folder);
    for (int i = 0; i < ROUNDS; i++) {
        disk[i] = write_alone(path, m->end);
        remove_folder(target, &m->shape);
        snprintf(path, sizeof path, "%s/model.safetensors", m->folder);
        forget(path);
        snprintf(path, sizeof path, "%s/alone", m->folder);
        double cpu = cpu_seconds();
        double begin = now();
        must(!moe_convert(m->folder, target, &options, &err), "%s", err.text);
        speed[i] = (double)m->end / (now() - begin);
        cpu = cpu_seconds() - cpu;
        folder[i] = read_experts(m->folder, 77 + (uint64_t)i);
        package[i] = read_experts(target, 77 + (uint64_t)i);
        printf("    round %d: disk %.0f MB/s, convert %.0f MB/s and %.2f s of a core a GB; experts of the folder %.0f "
               "MB/s, of the package %.0f "
               "MB/s\n",
               i + 1, disk[i] / 1e6, speed[i] / 1e6, cpu / (double)m->end * 1e9, folder[i] / 1e6, package[i] / 1e6);
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("convert: %.0f MB/s of packed bytes, %.0f %% of the disk's %.0f MB/s; %ld MB of memory at most\n",
           median(speed) / 1e6, 100 * median(speed) / median(disk), median(disk) / 1e6, usage.ru_maxrss / 1024);
    printf("experts: %.0f MB/s from the folder's nine spans, %.0f MB/s packed: %.2f times\n", median(folder) / 1e6,
           median(package) / 1e6, median(package) / median(folder));
}

int main(int argc, char **argv)
{
    static struct maker m;
    struct moe_err err;
    const char *name = argc > 1 ? argv[1] : "tests/bench/configs/glm-4.7-flash.json";
    struct json_object *config = json_object_from_file(name);
    must(config != NULL, "%s: no JSON", name);
    json_object_object_add(config, "num_hidden_layers", json_object_new_int(argc > 2 ? atoi(argv[2]) : 4));
    must(!shape_read(config, name, &m.shape, &err), "%s", err.text);
    m.header = json_object_new_object();
    add_matrix(&m, "", "model.embed_tokens", (uint64_t[]){0, m.shape.vocab_size, m.shape.hidden_size});
    if (!m.shape.tie_word_embeddings)
        add_matrix(&m, "", "lm_head", (uint64_t[]){0, m.shape.vocab_size, m.shape.hidden_size});
    add_vector(&m, "", "model.norm.weight", m.shape.hidden_size);
    for (uint32_t i = 0; i < m.shape.n_layers; i++)
        add_layer(&m, i);
    char target[300];
    snprintf(m.folder, sizeof m.folder, "%.200s/moechat-bench-%ld", argc > 3 ? argv[3] : "/tmp", (long)getpid());
    snprintf(target, sizeof target, "%s.package", m.folder);
    write_folder(&m, config);
    printf("%s, %" PRIu32 " layers: %.2f GB\n", m.shape.model_type, m.shape.n_layers, (double)m.end / 1e9);
    measure(&m, target);
    remove_folder(target, &m.shape);
    remove_folder(m.folder, &m.shape);
    json_object_put(m.header);
    json_object_put(config);
    return 0;
}
