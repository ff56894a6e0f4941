// SPDX-License-Identifier: GPL-3.0-or-later
// Every op by itself in the shapes of real models, by the device's own clock: microseconds, packed weights or cache
// rows a second beside the device's copy, products a second. `bench_kernels [--device D] [--model NAME] [--op NAME]
// [--rows N]`. With --calls N: what each call takes of N in a row, by the wall's clock, and what giving it takes the
// host. An event for each kernel, as else, adds to small ones; here the device is kept busy until the host has given
// all. With --kind NAME,NAME.., or "all": products of V3's experts with matrices of that kind, each beside 4 bits in
// turn; with --model besides, that model's ops on matrices of the kind. The weights move on through a large buffer from
// run to run, so that no cache holds them.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/clock.h"
#include "kernels/gpu.h"

struct shape {
    const char *name;
    uint32_t hidden, moe, dense, experts, top_k, heads, q_lora, rank, rope, nope, v, vocab;
};
enum { MOST_WIDTH = 576, MOST_ROWS = 512, MOST_KEYS = 131072, RUNS = 20, MOST_KERNELS = 64 };

static const struct shape shapes[] = {
    {"moonlight", 2048, 1408, 11264, 64, 6, 16, 0, 512, 64, 128, 128, 163840},
    {"v3", 7168, 2048, 18432, 256, 8, 128, 1536, 512, 64, 128, 128, 129280},
    {"glm", 2048, 1536, 10240, 64, 4, 20, 768, 512, 64, 192, 256, 154880},
    {"k2", 7168, 2048, 18432, 384, 8, 64, 1536, 512, 64, 128, 128, 163840},
    {"demo", 384, 128, 768, 32, 4, 6, 128, 128, 32, 64, 64, 4096},
};

struct kind_run {
    uint32_t kind, n_rows, n_experts;
};

struct bench {
    gpu *g;
    const char *only_op;
    const struct shape *shape;
    const struct mixer_shape *mixer;
    gpu_buf *weights, *x, *y, *z, *cache, *ids;
    uint64_t weight_bytes, next; // where the next matrix lies
    double copy;                 // bytes a second, read and written
    int calls;                   // in a row; 0: each has an event
    uint32_t kind;               // of all matrices; KIND_NONE: MLX's
    struct kind_run kind_run;    // of run_kind
};

// What a run of an op works through.
struct work {
    const char *op;
    char what[40];
    uint64_t bytes;
    double products;
};

// The next matrix of the buffer: what was used before has left the caches.
static struct args_matrix matrix(struct bench *b, uint32_t out_dim, uint32_t in_dim, uint32_t bits)
{
    struct args_matrix m = {.in_dim = in_dim, .out_dim = out_dim, .kind = kind_affine(bits), .group_size = 64};
    m.kind = b->kind != KIND_NONE ? b->kind : m.kind;
    if (b->next + matrix_bytes(&m) + 4096 > b->weight_bytes)
        b->next = 0;
    m.weight = b->next;
    m.scales = m.weight + out_dim * matrix_row_bytes(&m);
    m.biases = m.scales + out_dim * matrix_scale_bytes(&m);
    b->next = (b->next + matrix_bytes(&m) + 4095) / 4096 * 4096;
    return m;
}

static uint64_t kernels_ns(const gpu *g)
{
    struct gpu_kernel_time times[MOST_KERNELS];
    unsigned n = gpu_profile(g, times, MOST_KERNELS);
    uint64_t ns = 0;
    for (unsigned i = 0; i < n; i++)
        ns += times[i].ns;
    return ns;
}

typedef struct work one_run(struct bench *b, uint32_t n);

static double now_us(void)
{
    return (double)clock_ns() / 1e3;
}

struct calls {
    double device_us, host_us; // of each
};

// The best of a few times. On a GPU copies run before, as long as it may take the host to give what follows.
static struct calls in_a_row(struct bench *b, one_run *run, uint32_t n)
{
    enum { TIMES = 3, BEFORE_BYTES = 64 << 20 };
    const struct args_copy before = {.bytes = BEFORE_BYTES};
    int copies = gpu_describe(b->g)->kind == GPU_KIND_GPU ? b->calls / 2 : 0;
    struct calls best = {INFINITY, INFINITY};
    for (int time = 0; time < TIMES; time++) {
        double us[2], host = 0;
        for (int with = 0; with < 2; with++) {
            gpu_finish(b->g, NULL);
            double began = now_us();
            for (int i = 0; i < copies; i++)
                gpu_op_copy(b->g, &before, b->weights, b->cache);
            gpu_flush(b->g);
            double given = now_us();
            for (int i = 0; with && i < b->calls; i++)
                run(b, n);
            host = now_us() - given;
            gpu_finish(b->g, NULL);
            us[with] = now_us() - began;
        }
        best.device_us = fmin(best.device_us, (us[1] - us[0]) / b->calls);
        best.host_us = fmin(best.host_us, host / b->calls);
    }
    return best;
}

static void measure(struct bench *b, one_run *run, uint32_t n)
{
    struct gpu_error err = {0};
    struct work work = run(b, n);
    if (b->only_op && strcmp(b->only_op, work.op) != 0 && strcmp(work.op, "copy") != 0) {
        gpu_finish(b->g, &err);
        return;
    }
    run(b, n);
    int failed = gpu_finish(b->g, &err);
    if (b->calls && !failed) {
        struct calls calls = in_a_row(b, run, n);
        printf("%-10s %-18s %-22s %9.2f us, %7.0f GB/s, %9.2f us of the host\n", b->shape->name, work.op, work.what,
               calls.device_us, (double)work.bytes / calls.device_us / 1e3, calls.host_us);
        fflush(stdout);
        return;
    }
    uint64_t before = kernels_ns(b->g);
    clock_t began = clock();
    int runs = 0;
    for (; runs < RUNS && clock() - began < CLOCKS_PER_SEC / 2; runs++)
        run(b, n);
    if (failed || gpu_finish(b->g, &err)) {
        printf("%-10s %-18s %s\n", b->shape->name, work.op, err.text);
        return;
    }
    double seconds = (double)(kernels_ns(b->g) - before) / 1e9 / runs;
    double rate = (double)work.bytes / seconds;
    printf("%-10s %-18s %-22s %9.1f us %7.0f GB/s %5.1f %% of copy", b->shape->name, work.op, work.what, seconds * 1e6,
           rate / 1e9, b->copy > 0 ? 100 * rate / b->copy : 0);
    if (work.products > 0)
        printf(" %7.2f TFLOP/s", 2 * work.products / seconds / 1e12);
    printf("\n");
    fflush(stdout);
}

static struct work product(struct bench *b, uint32_t n_rows, struct args_matrix m)
{
    struct args_matmul a = {.matrix = m, .n_rows = n_rows, .in_stride = m.in_dim, .out_stride = m.out_dim};
    (n_rows > 1 ? gpu_op_matmul : gpu_op_matvec)(b->g, &a, b->weights, b->x, b->y);
    struct work work = {.op = n_rows > 1 ? "matmul" : "matvec",
                        .bytes = matrix_bytes(&m),
                        .products = (double)n_rows * m.in_dim * m.out_dim};
    snprintf(work.what, sizeof work.what, "%ux%ux%u %s", n_rows, m.out_dim, m.in_dim, kind_name(m.kind));
    return work;
}

static struct work run_q(struct bench *b, uint32_t n)
{
    uint32_t in = b->shape->q_lora ? b->shape->q_lora : b->shape->hidden;
    return product(b, n, matrix(b, b->shape->heads * (b->shape->nope + b->shape->rope), in, 4));
}
static struct work run_kv_a(struct bench *b, uint32_t n)
{
    return product(b, n, matrix(b, b->shape->rank + b->shape->rope, b->shape->hidden, 4));
}
static struct work run_o(struct bench *b, uint32_t n)
{
    return product(b, n, matrix(b, b->shape->hidden, b->shape->heads * b->shape->v, 4));
}
static struct work run_logits(struct bench *b, uint32_t n)
{
    return product(b, n, matrix(b, b->shape->experts, b->shape->hidden, 8));
}
static struct work run_down(struct bench *b, uint32_t n)
{
    return product(b, n, matrix(b, b->shape->hidden, b->shape->moe, 4));
}
static struct work run_head(struct bench *b, uint32_t n)
{
    return product(b, n, matrix(b, b->shape->vocab, b->shape->hidden, 8));
}

// The first half of a matrix's rows, and the other one.
static struct args_matrix either_half(const struct args_matrix *m, struct args_matrix *second)
{
    struct args_matrix first = *m;
    first.out_dim /= 2;
    *second = first;
    second->weight += first.out_dim * matrix_row_bytes(m);
    second->scales += first.out_dim * matrix_scale_bytes(m);
    second->biases += first.out_dim * matrix_scale_bytes(m);
    return first;
}

static struct work run_swiglu(struct bench *b, uint32_t n)
{
    uint32_t out = b->shape->moe, in = b->shape->hidden;
    struct args_matrix gate = matrix(b, 2 * out, in, 4), up; // one place for both
    gate = either_half(&gate, &up);
    struct args_swiglu a = {.gate = gate, .up = up, .n_rows = n, .in_stride = in, .out_stride = out};
    (n > 1 ? gpu_op_swiglu_mat : gpu_op_swiglu_vec)(b->g, &a, b->weights, b->x, b->y);
    struct work work = {
        .op = n > 1 ? "swiglu_mat" : "swiglu_vec", .bytes = 2 * matrix_bytes(&gate), .products = 2.0 * n * out * in};
    snprintf(work.what, sizeof work.what, "%ux%ux%u", n, out, in);
    return work;
}

// What a token asks of n experts: gate and up, then down and their sum.
static struct args_places beside_each_other(uint32_t n, uint64_t bytes)
{
    struct args_places at = {.n = n};
    for (uint32_t k = 0; k < n; k++) {
        at.place[k] = k * bytes;
        at.rank[k] = k;
    }
    return at;
}

static struct work run_swiglu_experts(struct bench *b, uint32_t n)
{
    uint32_t out = b->shape->moe, in = b->shape->hidden;
    struct args_matrix all = matrix(b, 2 * n * out, in, 4), one = all, up;
    one.out_dim = 2 * out;
    one.scales = one.weight + 2 * out * matrix_row_bytes(&one);
    one.biases = one.scales + 2 * out * matrix_scale_bytes(&one);
    struct args_swiglu_experts a = {
        .gate = either_half(&one, &up), .at = beside_each_other(n, matrix_bytes(&one)), .out_stride = out};
    a.up = up;
    gpu_op_swiglu_experts(b->g, &a, &(struct gpu_experts_bufs){.matrices = b->weights, .x = b->x, .y = b->y});
    struct work work = {.op = "swiglu_experts", .bytes = matrix_bytes(&all), .products = 2.0 * n * out * in};
    snprintf(work.what, sizeof work.what, "%ux%ux%u", n, out, in);
    return work;
}

static struct work run_add_experts(struct bench *b, uint32_t n)
{
    uint32_t out = b->shape->hidden, in = b->shape->moe;
    struct args_matrix all = matrix(b, n * out, in, 4), one = all;
    one.out_dim = out;
    one.scales = one.weight + out * matrix_row_bytes(&one);
    one.biases = one.scales + out * matrix_scale_bytes(&one);
    struct args_add_experts a = {.matrix = one, .at = beside_each_other(n, matrix_bytes(&one)), .in_stride = in};
    gpu_op_add_experts(b->g, &a, &(struct gpu_add_experts_bufs){{.matrices = b->weights, .x = b->x}, b->x, b->z, b->y});
    struct work work = {.op = "add_experts", .bytes = matrix_bytes(&all), .products = (double)n * out * in};
    snprintf(work.what, sizeof work.what, "%ux%ux%u", n, out, in);
    return work;
}

static struct work run_q_prime(struct bench *b, uint32_t n)
{
    const struct shape *s = b->shape;
    uint32_t stride = s->nope + s->rope;
    struct args_kv_b a = {.kv_b = matrix(b, s->heads * (s->nope + s->v), s->rank, 4),
                          .n_rows = n,
                          .n_heads = s->heads,
                          .qk_nope_head_dim = s->nope,
                          .v_head_dim = s->v,
                          .q_row_stride = s->heads * stride,
                          .q_head_stride = stride,
                          .decode = n == 1};
    gpu_op_q_prime(b->g, &a, b->weights, b->x, b->y);
    struct work work = {.op = "q_prime",
                        .bytes = matrix_bytes(&a.kv_b) * s->nope / (s->nope + s->v),
                        .products = (double)n * s->heads * s->nope * s->rank};
    snprintf(work.what, sizeof work.what, "%u rows", n);
    return work;
}

static struct work run_heads(struct bench *b, uint32_t n)
{
    const struct shape *s = b->shape;
    struct args_heads a = {.matrix = matrix(b, s->heads * (s->nope + s->v), s->rank, 4),
                           .n_rows = n,
                           .n_heads = s->heads,
                           .n_out = s->v,
                           .head_rows = s->nope + s->v,
                           .first_row = s->nope,
                           .row_stride = s->heads * s->rank,
                           .head_stride = s->rank,
                           .decode = n == 1};
    gpu_op_heads(b->g, &a, b->weights, b->x, b->y);
    struct work work = {.op = "heads",
                        .bytes = matrix_bytes(&a.matrix) * s->v / (s->nope + s->v),
                        .products = (double)n * s->heads * s->v * s->rank};
    snprintf(work.what, sizeof work.what, "%u rows", n);
    return work;
}

static struct args_attention attention(const struct bench *b, uint32_t n_rows, uint32_t position, uint32_t kv_type)
{
    uint32_t stride = b->shape->nope + b->shape->rope;
    return (struct args_attention){.n_rows = n_rows,
                                   .n_heads = b->shape->heads,
                                   .kv_lora_rank = b->shape->rank,
                                   .rope_dim = b->shape->rope,
                                   .q_row_stride = b->shape->heads * stride,
                                   .q_head_stride = stride,
                                   .q_rope_offset = b->shape->nope,
                                   .position = position,
                                   .kv_type = kv_type,
                                   .softmax_scale = 0.1f};
}

static struct work attention_decode(struct bench *b, uint32_t keys, uint32_t kv_type)
{
    struct args_attention a = attention(b, 1, keys - 1, kv_type);
    gpu_op_attention_decode(b->g, &a, &(struct gpu_attention_bufs){b->x, b->x, b->cache, b->y, NULL});
    struct work work = {.op = "attention_decode",
                        .bytes = (uint64_t)keys * (b->shape->rank + b->shape->rope) * (kv_type == KV_F16 ? 2 : 4),
                        .products = (double)keys * b->shape->heads * (2 * b->shape->rank + b->shape->rope)};
    snprintf(work.what, sizeof work.what, "%u keys, %s", keys, kv_type == KV_F16 ? "f16" : "f32");
    return work;
}

static struct work run_attention(struct bench *b, uint32_t keys)
{
    return attention_decode(b, keys, KV_F32);
}

static struct work run_attention_f16(struct bench *b, uint32_t keys)
{
    return attention_decode(b, keys, KV_F16);
}

static struct work attention_prefill(struct bench *b, uint32_t n, uint32_t kv_type)
{
    struct args_attention a = attention(b, n, 0, kv_type);
    gpu_op_attention_prefill(b->g, &a, &(struct gpu_attention_bufs){b->x, b->x, b->cache, b->y, NULL});
    struct work work = {.op = "attention_prefill",
                        .bytes = (uint64_t)n * (b->shape->rank + b->shape->rope) * (kv_type == KV_F16 ? 2 : 4),
                        .products = (double)n * (n + 1) / 2 * b->shape->heads * (2 * b->shape->rank + b->shape->rope)};
    snprintf(work.what, sizeof work.what, "%u rows, %s", n, kv_type == KV_F16 ? "f16" : "f32");
    return work;
}

static struct work run_attention_rows(struct bench *b, uint32_t n)
{
    return attention_prefill(b, n, KV_F32);
}

static struct work run_attention_rows_f16(struct bench *b, uint32_t n)
{
    return attention_prefill(b, n, KV_F16);
}

static struct work run_rmsnorm(struct bench *b, uint32_t n)
{
    uint32_t dim = b->shape->hidden;
    struct args_rmsnorm a = {.n_rows = n, .dim = dim, .in_stride = dim, .out_stride = dim, .eps = 1e-6f};
    gpu_op_rmsnorm(b->g, &a, b->weights, b->x, b->y);
    struct work work = {.op = "rmsnorm", .bytes = 8 * (uint64_t)n * dim};
    snprintf(work.what, sizeof work.what, "%ux%u", n, dim);
    return work;
}

static struct work run_rope(struct bench *b, uint32_t n)
{
    uint32_t stride = b->shape->nope + b->shape->rope;
    struct args_rope a = {.n_rows = n,
                          .n_heads = b->shape->heads,
                          .row_stride = b->shape->heads * stride,
                          .head_stride = stride,
                          .offset = b->shape->nope,
                          .rope_dim = b->shape->rope,
                          .position = 100,
                          .interleaved = 1,
                          .scale = 1};
    gpu_op_rope(b->g, &a, b->z, b->y);
    struct work work = {.op = "rope", .bytes = 8 * (uint64_t)n * b->shape->heads * b->shape->rope};
    snprintf(work.what, sizeof work.what, "%u rows", n);
    return work;
}

static struct work run_kv_append(struct bench *b, uint32_t n)
{
    struct args_kv_append a = {.n_rows = n,
                               .kv_lora_rank = b->shape->rank,
                               .rope_dim = b->shape->rope,
                               .in_stride = b->shape->rank + b->shape->rope,
                               .eps = 1e-6f,
                               .scale = 1};
    gpu_op_kv_append(b->g, &a, &(struct gpu_kv_append_bufs){b->weights, b->z, b->x, b->cache, NULL});
    struct work work = {.op = "kv_append", .bytes = 8 * (uint64_t)n * a.in_stride};
    snprintf(work.what, sizeof work.what, "%u rows", n);
    return work;
}

static struct work run_router(struct bench *b, uint32_t n)
{
    bool grouped = b->shape->experts == 256;
    struct args_router a = {.n_rows = n,
                            .n_experts = b->shape->experts,
                            .n_group = grouped ? 8 : 1,
                            .topk_group = grouped ? 4 : 1,
                            .top_k = b->shape->top_k,
                            .norm_topk_prob = 1,
                            .topk_method = TOPK_NOAUX,
                            .routed_scaling_factor = 1};
    gpu_op_router(b->g, &a, &(struct gpu_router_bufs){b->x, NULL, b->ids, b->y});
    struct work work = {.op = "router", .bytes = 4 * (uint64_t)n * a.n_experts};
    snprintf(work.what, sizeof work.what, "%ux%u", n, a.n_experts);
    return work;
}

static struct work run_combine(struct bench *b, uint32_t n)
{
    struct args_combine a = {.n_partials = n, .dim = b->shape->hidden};
    gpu_op_combine(b->g, &a, b->x, b->z, b->y);
    struct work work = {.op = "combine", .bytes = 4 * (uint64_t)(n + 2) * a.dim};
    snprintf(work.what, sizeof work.what, "%ux%u", n, a.dim);
    return work;
}

static struct work run_copy(struct bench *b, uint32_t bytes)
{
    gpu_op_copy(b->g, &(struct args_copy){.bytes = bytes}, b->weights, b->y);
    struct work work = {.op = "copy", .bytes = 2 * (uint64_t)bytes};
    snprintf(work.what, sizeof work.what, "%u bytes", bytes);
    return work;
}

static void bench_shape(struct bench *b, uint32_t most_rows, uint32_t most_keys)
{
    static const uint32_t few[] = {8, 20, 48, 128};
    printf("\n");
    measure(b, run_copy, 64);
    measure(b, run_rmsnorm, 1);
    measure(b, run_q, 1);
    measure(b, run_kv_a, 1);
    measure(b, run_rope, 1);
    measure(b, run_kv_append, 1);
    measure(b, run_q_prime, 1);
    static const uint32_t keys[] = {20, 500, 4000, 8193, 32768, 131072};
    for (size_t i = 0; i < sizeof keys / sizeof *keys && keys[i] <= most_keys; i++) {
        measure(b, run_attention, keys[i]);
        measure(b, run_attention_f16, keys[i]);
    }
    measure(b, run_heads, 1);
    measure(b, run_o, 1);
    measure(b, run_logits, 1);
    measure(b, run_router, 1);
    measure(b, run_swiglu, 1);
    measure(b, run_down, 1);
    measure(b, run_swiglu_experts, b->shape->top_k);
    measure(b, run_add_experts, b->shape->top_k);
    measure(b, run_combine, b->shape->top_k);
    measure(b, run_head, 1);
    for (int i = 0; i < 4 && few[i] <= most_rows; i++) {
        measure(b, run_swiglu, few[i]);
        measure(b, run_down, few[i]);
    }
    static one_run *const of_prompts[] = {run_rmsnorm,
                                          run_q,
                                          run_kv_a,
                                          run_rope,
                                          run_q_prime,
                                          run_attention_rows,
                                          run_attention_rows_f16,
                                          run_heads,
                                          run_o,
                                          run_logits,
                                          run_router,
                                          run_swiglu,
                                          run_down};
    for (size_t i = 0; i < sizeof of_prompts / sizeof *of_prompts; i++)
        if (most_rows > 1)
            measure(b, of_prompts[i], most_rows);
}

// ---- what mixes tokens in models with states

struct mixer_shape {
    const char *name;
    uint32_t key_heads, value_heads, decay, heads, kv_heads, head_dim; // delta heads are 128 wide
    uint32_t hidden;                                                   // 0: no delta_layer
};

static const struct mixer_shape mixer_shapes[] = {
    {"qwen3.6", 16, 32, DECAY_HEAD, 16, 2, 256, 2048},
    {"397b", 16, 64, DECAY_HEAD, 32, 2, 256, 4096},
    {"kimi", 32, 32, DECAY_CHANNEL, 0, 0, 0, 0},
};
enum { DELTA_DIM = 128 };

// The next `n` floats of the weights, for a state.
static uint64_t state_at(struct bench *b, uint64_t n)
{
    if (b->next + 4 * n > b->weight_bytes)
        b->next = 0;
    uint64_t at = b->next / 4;
    b->next += 4 * n;
    return at;
}

// Of n rows, at the next place of states.
static struct args_delta_token delta_token_of(struct bench *b, uint32_t n)
{
    const struct mixer_shape *s = b->mixer;
    uint32_t keys = s->key_heads * DELTA_DIM, values = s->value_heads * DELTA_DIM, channels = 2 * keys + values;
    uint64_t state = (uint64_t)values * DELTA_DIM, history = (uint64_t)(CONV_TAPS - 1) * channels;
    uint32_t decays = s->decay == DECAY_HEAD ? s->value_heads : values;
    struct args_delta_token a = {
        .conv = {.n_rows = n, .channels = channels, .in_stride = channels, .out_stride = channels},
        .scan = {.n_rows = n,
                 .n_key_heads = s->key_heads,
                 .n_value_heads = s->value_heads,
                 .key_dim = DELTA_DIM,
                 .value_dim = DELTA_DIM,
                 .in_stride = channels,
                 .k_offset = keys,
                 .v_offset = 2 * keys,
                 .gate_stride = s->value_heads + decays,
                 .decay_offset = s->value_heads,
                 .out_stride = values,
                 .decay = s->decay,
                 .norm_eps = 1e-6f},
        .norm = {.n_rows = n,
                 .n_heads = s->value_heads,
                 .dim = DELTA_DIM,
                 .in_stride = values,
                 .gate_stride = values,
                 .out_stride = values,
                 .eps = 1e-6f},
    };
    a.conv.from = state_at(b, 2 * history), a.conv.to = a.conv.from + history;
    a.scan.from = state_at(b, 2 * state), a.scan.to = a.scan.from + state;
    return a;
}

static uint64_t delta_bytes(const struct args_delta *a)
{
    uint64_t state = (uint64_t)a->n_value_heads * DELTA_DIM * DELTA_DIM;
    return 8 * state + 4 * (uint64_t)a->n_rows * (a->in_stride + a->out_stride + a->gate_stride);
}

static struct work run_delta(struct bench *b, uint32_t n)
{
    struct args_delta a = delta_token_of(b, n).scan;
    struct gpu_delta_bufs bufs = {b->z, b->z, b->x, b->x, b->weights, b->weights, b->y};
    gpu_op_delta(b->g, &a, &bufs);
    struct work work = {.op = "delta", .bytes = delta_bytes(&a)};
    snprintf(work.what, sizeof work.what, "%u rows, %u heads", n, a.n_value_heads);
    return work;
}

// Convolution, scan and norm in one; only what the scan moves is counted.
static struct work run_delta_token(struct bench *b, uint32_t n)
{
    struct args_delta_token a = delta_token_of(b, n);
    gpu_buf *between = b->cache;
    struct gpu_delta_token_bufs bufs = {.conv = {b->weights, b->x, b->weights, b->weights, between},
                                        .scan = {b->z, b->z, between, b->x, b->weights, b->weights, b->y},
                                        .norm = {b->z, b->y, b->x, b->y}};
    gpu_op_delta_token(b->g, &a, &bufs);
    struct work work = {.op = "delta_token", .bytes = delta_bytes(&a.scan)};
    snprintf(work.what, sizeof work.what, "%u rows, %u heads", n, a.scan.n_value_heads);
    return work;
}

// A whole layer's token, every time with other weights and states. What is written lies beside each other in y.
static struct work run_delta_layer(struct bench *b, uint32_t n)
{
    enum { ANSWERS = 1 << 16 };
    const struct mixer_shape *s = b->mixer;
    uint32_t values = s->value_heads * DELTA_DIM;
    uint32_t rows[MOST_BESIDE] = {(2 * s->key_heads + s->value_heads) * DELTA_DIM, values, s->value_heads,
                                  s->value_heads};
    struct args_delta_layer a = {.in = {.n = MOST_BESIDE, .eps = 1e-6f}};
    struct gpu_delta_layer_bufs bufs = {.last = b->weights};
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < MOST_BESIDE; k++) {
        a.in.matrix[k] = matrix(b, rows[k], s->hidden, 4);
        bufs.in.matrix[k] = b->weights;
        bytes += matrix_bytes(&a.in.matrix[k]);
    }
    a.in.out_offset[3] = s->value_heads;
    a.last = matrix(b, s->hidden, values, 4);
    a.token = delta_token_of(b, n);
    a.token.scan.out_offset = a.token.norm.in_offset = a.token.norm.out_offset = ANSWERS;
    bufs.in.norm = b->z, bufs.in.x = b->y, bufs.in.normed = b->cache;
    bufs.in.y[0] = b->x, bufs.in.y[1] = b->cache, bufs.in.y[2] = bufs.in.y[3] = b->ids;
    bufs.token = (struct gpu_delta_token_bufs){
        .conv = {b->weights, b->x, b->weights, b->weights, b->cache},
        .scan = {b->z, b->z, b->cache, b->ids, b->weights, b->weights, b->y},
        .norm = {b->z, b->y, b->cache, b->y},
    };
    gpu_op_delta_layer(b->g, &a, &bufs);
    struct work work = {.op = "delta_layer", .bytes = bytes + matrix_bytes(&a.last) + delta_bytes(&a.token.scan)};
    snprintf(work.what, sizeof work.what, "%u rows, %u heads", n, s->value_heads);
    return work;
}

static struct work run_short_conv(struct bench *b, uint32_t n)
{
    struct args_short_conv a = delta_token_of(b, n).conv;
    gpu_op_short_conv(b->g, &a, &(struct gpu_short_conv_bufs){b->weights, b->x, b->weights, b->weights, b->y});
    struct work work = {.op = "short_conv",
                        .bytes = 4 * (uint64_t)a.channels * (2 * (CONV_TAPS - 1) + CONV_TAPS + 2 * (uint64_t)n)};
    snprintf(work.what, sizeof work.what, "%ux%u", n, a.channels);
    return work;
}

static struct work run_gated_norm(struct bench *b, uint32_t n)
{
    struct args_gated_norm a = delta_token_of(b, n).norm;
    gpu_op_gated_norm(b->g, &a, &(struct gpu_gated_norm_bufs){b->weights, b->x, b->x, b->y});
    struct work work = {.op = "gated_norm", .bytes = 12 * (uint64_t)n * a.in_stride};
    snprintf(work.what, sizeof work.what, "%ux%u", n, a.in_stride);
    return work;
}

static struct work run_gqa_append(struct bench *b, uint32_t n)
{
    const struct mixer_shape *s = b->mixer;
    uint32_t width = s->kv_heads * s->head_dim;
    struct args_gqa_append a = {.n_rows = n,
                                .n_heads = s->heads,
                                .n_kv_heads = s->kv_heads,
                                .head_dim = s->head_dim,
                                .rope_dim = s->head_dim / 4,
                                .q_stride = 2 * s->heads * s->head_dim,
                                .q_head_stride = 2 * s->head_dim,
                                .kv_stride = 2 * width,
                                .v_offset = width,
                                .kv_type = KV_F16,
                                .eps = 1e-6f,
                                .scale = 1};
    struct gpu_gqa_append_bufs bufs = {b->z, b->z, b->z, b->y, b->x, b->cache};
    gpu_op_gqa_append(b->g, &a, &bufs);
    struct work work = {.op = "gqa_append", .bytes = (uint64_t)n * (8 * s->heads * s->head_dim + 12 * (uint64_t)width)};
    snprintf(work.what, sizeof work.what, "%u rows", n);
    return work;
}

// n rows behind `before` others.
static struct work gqa(struct bench *b, uint32_t n, uint32_t before)
{
    const struct mixer_shape *s = b->mixer;
    struct args_gqa a = {.n_rows = n,
                         .n_heads = s->heads,
                         .n_kv_heads = s->kv_heads,
                         .head_dim = s->head_dim,
                         .q_stride = 2 * s->heads * s->head_dim,
                         .q_head_stride = 2 * s->head_dim,
                         .position = before,
                         .kv_type = KV_F16,
                         .softmax_scale = 0.1f};
    struct gpu_gqa_bufs bufs = {b->x, b->cache, b->y};
    (n > 1 ? gpu_op_gqa_prefill : gpu_op_gqa_decode)(b->g, &a, &bufs);
    double pairs = (double)n * before + (double)n * (n + 1) / 2;
    struct work work = {.op = n > 1 ? "gqa_prefill" : "gqa_decode",
                        .bytes = ((uint64_t)before + n) * 4 * s->kv_heads * s->head_dim,
                        .products = 2 * pairs * s->heads * s->head_dim};
    snprintf(work.what, sizeof work.what, "%u rows after %u", n, before);
    return work;
}

static struct work run_gqa_decode(struct bench *b, uint32_t keys)
{
    return gqa(b, 1, keys - 1);
}

static struct work run_gqa_prefill(struct bench *b, uint32_t n)
{
    return gqa(b, n, 0);
}

static struct work run_gqa_prefill_late(struct bench *b, uint32_t n)
{
    return gqa(b, n, 7 * n);
}

static void bench_mixer(struct bench *b, uint32_t most_rows, uint32_t most_keys)
{
    static const uint32_t keys[] = {20, 500, 4000, 8193, 32768, 131072};
    static one_run *const runs[] = {run_short_conv, run_delta, run_gated_norm};
    measure(b, run_copy, 64); // what a launch takes that does nothing
    measure(b, run_copy,
            b->mixer->value_heads * DELTA_DIM * DELTA_DIM * 4); // and one that moves a state, always the same
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        measure(b, runs[i], 1);
        measure(b, runs[i], most_rows);
    }
    measure(b, run_delta_token, 1);
    if (b->mixer->hidden)
        measure(b, run_delta_layer, 1);
    if (!b->mixer->heads)
        return;
    measure(b, run_gqa_append, 1);
    measure(b, run_gqa_append, most_rows);
    for (size_t i = 0; i < sizeof keys / sizeof *keys && keys[i] <= most_keys; i++)
        measure(b, run_gqa_decode, keys[i]);
    measure(b, run_gqa_prefill, most_rows);
    measure(b, run_gqa_prefill_late, most_rows);
}

#include "tests/bench/bench_kinds.h"

// A model's ops on matrices of each kind.
static void bench_shape_of_kinds(struct bench *b, const char *only, uint32_t most_rows, uint32_t most_keys)
{
    for (uint32_t kind = KIND_NONE + 1; kind < KIND_COUNT; kind++)
        if (is_named(only, kind_name(kind)) && open_kind(b, kind, USE_PRODUCTS | USE_EXPERTS | USE_HEADS | USE_KEYS)) {
            printf("\n%s", kind_name(kind));
            b->kind = kind;
            bench_shape(b, most_rows, most_keys);
        }
}

static gpu_buf *filled(struct bench *b, uint64_t bytes, int as_weights)
{
    enum { PIECE = 4 << 20 };
    struct gpu_error err;
    gpu_buf *buf = gpu_buf_new(b->g, bytes, &err);
    uint16_t *piece = malloc(PIECE);
    uint32_t seed = 1;
    for (int i = 0; piece && i < PIECE / 2; i++) {
        seed = seed * 1664525 + 1013904223;
        // any half of a word is a small positive bf16, or a pair of halves a number around 0.1
        piece[i] = (uint16_t)(as_weights ? 0x3c40 | (seed >> 16 & 0x33f)
                              : i % 2    ? 0x3d00 | (seed >> 16 & 0x80ff)
                                         : seed >> 16);
    }
    for (uint64_t at = 0; buf && piece && at < bytes; at += PIECE)
        gpu_write(b->g, buf, at, piece, bytes - at < PIECE ? bytes - at : PIECE);
    free(piece);
    if (!buf) {
        fprintf(stderr, "bench_kernels: %s\n", err.text);
        exit(1);
    }
    return buf;
}

int main(int argc, char **argv)
{
    struct gpu_options options = {.profile = true, .cache_dir = getenv("MOECHAT_TEST_KERNEL_CACHE")};
    const char *model = NULL, *kind = NULL;
    uint32_t most_rows = MOST_ROWS;
    struct bench b = {0};
    for (int i = 1; i + 1 < argc; i += 2) {
        options.selector = strcmp(argv[i], "--device") == 0 ? argv[i + 1] : options.selector;
        model = strcmp(argv[i], "--model") == 0 ? argv[i + 1] : model;
        kind = strcmp(argv[i], "--kind") == 0 ? argv[i + 1] : kind;
        b.only_op = strcmp(argv[i], "--op") == 0 ? argv[i + 1] : b.only_op;
        b.calls = strcmp(argv[i], "--calls") == 0 ? atoi(argv[i + 1]) : b.calls;
        most_rows = strcmp(argv[i], "--rows") == 0 ? (uint32_t)atoi(argv[i + 1]) : most_rows;
    }
    options.profile = b.calls <= 0;
    struct gpu_error err;
    b.g = gpu_open(&options, &err);
    if (!b.g) {
        fprintf(stderr, "bench_kernels: %s\n", err.text);
        return 1;
    }
    const struct gpu_info *info = gpu_describe(b.g);
    bool large = info->kind == GPU_KIND_GPU;
    uint32_t rows = large && most_rows <= MOST_ROWS ? most_rows : 16;
    b.weight_bytes = large ? UINT64_C(2) << 30 : UINT64_C(512) << 20;
    b.weight_bytes = b.weight_bytes < info->max_alloc_bytes ? b.weight_bytes : info->max_alloc_bytes;
    b.weights = filled(&b, b.weight_bytes, 1);
    uint64_t floats = (uint64_t)(large ? MOST_ROWS : 16) * 128 * MOST_WIDTH; // of V3's queries
    b.x = filled(&b, 4 * floats, 0);
    b.y = filled(&b, 4 * floats, 0);
    b.z = filled(&b, 1 << 20, 0);
    b.ids = filled(&b, 1 << 20, 0);
    b.cache = filled(&b, (uint64_t)(large ? MOST_KEYS : 4000) * MOST_WIDTH * 4, 1); // ordinary halves, too
    b.shape = &(struct shape){.name = "all"};
    printf("%s, %s\n", info->name, info->driver);
    uint32_t bytes = 128 << 20;
    bytes = bytes < 4 * floats ? bytes : (uint32_t)(4 * floats / 64 * 64);
    measure(&b, run_copy, bytes);
    uint64_t before = kernels_ns(b.g);
    for (int i = 0; i < 5; i++)
        run_copy(&b, bytes);
    gpu_finish(b.g, &err);
    b.copy = 5 * 2.0 * bytes / ((double)(kernels_ns(b.g) - before) / 1e9);
    if (kind && !model)
        bench_kinds(&b, kind, rows);
    for (size_t i = 0; (!kind || model) && i < sizeof shapes / sizeof *shapes; i++) {
        b.shape = &shapes[i];
        if (kind && strcmp(model, b.shape->name) == 0)
            bench_shape_of_kinds(&b, kind, rows, large ? MOST_KEYS : 4000);
        else if (!kind &&
                 (model ? strcmp(model, b.shape->name) == 0 : large || i == 0 || strcmp(b.shape->name, "demo") == 0))
            bench_shape(&b, rows, large ? MOST_KEYS : 4000);
    }
    for (size_t i = 0; !kind && i < sizeof mixer_shapes / sizeof *mixer_shapes; i++) {
        b.mixer = &mixer_shapes[i];
        b.shape = &(struct shape){.name = b.mixer->name};
        if (model ? strcmp(model, b.mixer->name) == 0 : large || i == 0)
            bench_mixer(&b, rows, large ? MOST_KEYS : 4000);
    }
    gpu_buf *const all[] = {b.weights, b.x, b.y, b.z, b.ids, b.cache};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        gpu_buf_free(all[i]);
    gpu_close(b.g);
    return 0;
}
