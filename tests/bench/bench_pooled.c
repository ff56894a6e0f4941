// SPDX-License-Identifier: GPL-3.0-or-later
// The hardest op of DeepSeek-V4, a model that does not open: attention of a token over its window, the pools that an
// indexer chooses and a sink, made of the ops that there are, with what is new (pools that overlap, the sink, the
// turning back) in plain C; beside the same in float64 (transformers 5.17: DeepseekV4Attention and its compressors).
// docs/models.md judges by it what the model would take. Random rows, V4-Flash's widths.
//
//     build/tests/bench/bench_pooled [--device NAME] [--tokens 1100] [--top 96]
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "kernels/gpu.h"

enum { HEADS = 64, DIM = 512, ROPE = 64, INDEX_HEADS = 64, INDEX_DIM = 128, WINDOW = 128, MOST_TOP = 512, STEP = 7 };

// What is left out of the sums in float64, to see that it would be missed.
enum trap { NOTHING, SINK, OVERLAP, BIAS, TURNING_BACK, N_TRAPS };

// Of each token value and gate of `wide` numbers, dim or twice as many; the softmax over a pool's tokens, channel by
// channel, of gates and biases weighs the values, and the sum is normed and turned. Where they are twice as many the
// first half is for the pool behind the token's own.
struct pooling {
    uint32_t dim, wide, pool, n;       // n: of pools that are complete
    float *value, *gate, *bias, *norm; // [tokens][wide], the same, [pool][wide], [dim]
    float *ours;                       // [n][dim]
    double *truth;                     // the same
};

struct bench {
    gpu *g;
    uint32_t tokens, top;
    struct pooling rows, keys; // of attention; of the indexer, if it has one
    float *window;             // [tokens][DIM], rows by position
    float sinks[HEADS];
    gpu_buf *all, *index, *q, *index_q, *weight, *scores, *list, *out; // all: pools, then rows by position
    uint64_t ns;                                                       // of scores, choice and attention
};

// What a token asks with, and what it looks at: rows of `all`, the window's first.
struct query {
    uint32_t position, seen, window, chosen; // pools; the rest: rows of the list
    float q[HEADS][DIM], index[INDEX_HEADS][INDEX_DIM], weight[INDEX_HEADS];
    uint32_t list[WINDOW + MOST_TOP];
};

__attribute__((noreturn)) static void fail(const char *what)
{
    fprintf(stderr, "bench_pooled: %s\n", what);
    exit(1);
}

static void *memory(uint64_t count, size_t size)
{
    void *all = calloc(count + 1, size);
    if (!all)
        fail("no memory");
    return all;
}

// Near enough to normal, standard deviation 1.
static void draw(uint64_t seed, float *to, uint64_t n)
{
    seed = seed * 0x9e3779b97f4a7c15U + 1;
    for (uint64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int k = 0; k < 4; k++) {
            seed = seed * 6364136223846793005U + 1442695040888963407U;
            sum += (double)(seed >> 40) / (1 << 24);
        }
        to[i] = (float)((sum - 2) * 1.7320508);
    }
}

// ---- float64

// The last ROPE of x, in pairs of neighbours; direction -1 turns back.
static void turn_truth(double *x, uint32_t dim, uint32_t position, int direction)
{
    for (uint32_t i = 0; i < ROPE; i += 2) {
        double *pair = x + dim - ROPE + i, angle = direction * (position * pow(160000, -(double)i / ROPE));
        double first = pair[0] * cos(angle) - pair[1] * sin(angle);
        pair[1] = pair[1] * cos(angle) + pair[0] * sin(angle);
        pair[0] = first;
    }
}

static void pool_truth(const struct pooling *p, uint32_t index, enum trap without, double *out)
{
    bool overlaps = p->wide > p->dim;
    uint32_t own = index * p->pool, first = overlaps && index && without != OVERLAP ? own - p->pool : own;
    double squares = 0;
    for (uint32_t c = 0; c < p->dim; c++) {
        double sum = 0, weights = 0;
        for (uint32_t t = first; t < own + p->pool; t++) {
            uint64_t channel = overlaps && t >= own ? p->dim + c : c, at = (uint64_t)t * p->wide + channel;
            double bias = without == BIAS ? 0 : (double)p->bias[(uint64_t)(t % p->pool) * p->wide + channel];
            double weight = exp((double)p->gate[at] + bias);
            weights += weight;
            sum += weight * (double)p->value[at];
        }
        out[c] = sum / weights;
        squares += out[c] * out[c];
    }
    for (uint32_t c = 0; c < p->dim; c++)
        out[c] *= (double)p->norm[c] / sqrt(squares / p->dim + 1e-6);
    turn_truth(out, p->dim, own, 1);
}

struct scored {
    double score;
    uint32_t pool;
};

static int by_score(const void *a, const void *b)
{
    const struct scored *x = a, *y = b;
    return x->score > y->score ? -1 : x->score < y->score;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void choose_truth(const struct bench *b, const struct query *query, uint32_t *chosen)
{
    struct scored *all = memory(query->seen, sizeof *all);
    for (uint32_t p = 0; p < query->seen; p++) {
        all[p].pool = p;
        for (uint32_t h = 0; h < INDEX_HEADS; h++) {
            double dot = 0;
            for (uint32_t c = 0; c < INDEX_DIM; c++)
                dot += (double)query->index[h][c] * b->keys.truth[(uint64_t)p * INDEX_DIM + c];
            all[p].score += (double)query->weight[h] * fmax(dot, 0);
        }
    }
    qsort(all, query->seen, sizeof *all, by_score);
    for (uint32_t i = 0; i < query->chosen; i++)
        chosen[i] = all[i].pool;
    qsort(chosen, query->chosen, sizeof *chosen, by_number);
    free(all);
}

// A row of `all`, in float64.
static void row_truth(const struct bench *b, uint32_t row, enum trap without, double *out)
{
    if (row < b->rows.n && without == NOTHING)
        memcpy(out, b->rows.truth + (uint64_t)row * DIM, sizeof *out * DIM);
    else if (row < b->rows.n)
        pool_truth(&b->rows, row, without, out);
    else
        for (uint32_t c = 0; c < DIM; c++)
            out[c] = (double)b->window[(uint64_t)(row - b->rows.n) * DIM + c];
}

static void attend_truth(const struct bench *b, const struct query *query, enum trap without, double *out)
{
    double weights[HEADS], row[DIM];
    memset(out, 0, sizeof *out * HEADS * DIM);
    for (uint32_t h = 0; h < HEADS; h++)
        weights[h] = without == SINK ? 0 : exp((double)b->sinks[h]);
    for (uint32_t i = 0; i < query->window + query->chosen; i++) {
        row_truth(b, query->list[i], without, row);
        for (uint32_t h = 0; h < HEADS; h++) {
            double dot = 0;
            for (uint32_t c = 0; c < DIM; c++)
                dot += (double)query->q[h][c] * row[c];
            double weight = exp(dot / sqrt(DIM));
            weights[h] += weight;
            for (uint32_t c = 0; c < DIM; c++)
                out[h * DIM + c] += weight * row[c];
        }
    }
    for (uint32_t i = 0; i < HEADS * DIM; i++)
        out[i] /= weights[i / DIM];
    for (uint32_t h = 0; h < HEADS && without != TURNING_BACK; h++)
        turn_truth(out + h * DIM, DIM, query->position, -1);
}

// ---- float32

static void turn(float *x, uint32_t dim, uint32_t position, int direction)
{
    for (uint32_t i = 0; i < ROPE; i += 2) {
        double angle = direction * (position * pow(160000, -(double)i / ROPE));
        float *pair = x + dim - ROPE + i, cosine = (float)cos(angle), sine = (float)sin(angle);
        float first = pair[0] * cosine - pair[1] * sine;
        pair[1] = pair[1] * cosine + pair[0] * sine;
        pair[0] = first;
    }
}

static void pool(const struct pooling *p, uint32_t index, float *out)
{
    bool overlaps = p->wide > p->dim;
    uint32_t own = index * p->pool, first = overlaps && index ? own - p->pool : own;
    float squares = 0;
    for (uint32_t c = 0; c < p->dim; c++) {
        float sum = 0, weights = 0;
        for (uint32_t t = first; t < own + p->pool; t++) {
            uint64_t channel = overlaps && t >= own ? p->dim + c : c, at = (uint64_t)t * p->wide + channel;
            float weight = expf(p->gate[at] + p->bias[(uint64_t)(t % p->pool) * p->wide + channel]);
            weights += weight;
            sum = fmaf(weight, p->value[at], sum);
        }
        out[c] = sum / weights;
        squares = fmaf(out[c], out[c], squares);
    }
    for (uint32_t c = 0; c < p->dim; c++)
        out[c] *= p->norm[c] / sqrtf(squares / (float)p->dim + 1e-6F);
    turn(out, p->dim, own, 1);
}

// What the softmax over the list leaves when the sink has had its part: with it in the merge, which has sums and
// largest scores already, this costs nothing.
static void take_sink(const struct bench *b, const struct query *query, float *out)
{
    for (uint32_t h = 0; h < HEADS; h++) {
        float weights = 0;
        for (uint32_t i = 0; i < query->window + query->chosen; i++) {
            uint32_t at = query->list[i];
            const float *row =
                at < b->rows.n ? b->rows.ours + (uint64_t)at * DIM : b->window + (uint64_t)(at - b->rows.n) * DIM;
            float dot = 0;
            for (uint32_t c = 0; c < DIM; c++)
                dot = fmaf(query->q[h][c], row[c], dot);
            weights += expf(dot / sqrtf(DIM));
        }
        for (uint32_t c = 0; c < DIM; c++)
            out[h * DIM + c] *= weights / (weights + expf(b->sinks[h]));
        turn(out + h * DIM, DIM, query->position, -1);
    }
}

static void choose(struct bench *b, struct query *query)
{
    struct args_index_scores scores = {.n_rows = 1,
                                       .n_heads = INDEX_HEADS,
                                       .dim = INDEX_DIM,
                                       .q_stride = INDEX_HEADS * INDEX_DIM,
                                       .weight_stride = INDEX_HEADS,
                                       .position = query->seen - 1,
                                       .kv_type = KV_F32,
                                       .out_stride = query->seen,
                                       .scale = 1};
    struct args_index_choice choice = {.n_rows = 1,
                                       .top_k = query->chosen,
                                       .position = query->seen - 1,
                                       .in_stride = query->seen,
                                       .first = query->window};
    gpu_op_index_scores(b->g, &scores, &(struct gpu_index_scores_bufs){b->index_q, b->weight, b->index, b->scores});
    gpu_op_index_choice(b->g, &choice, b->scores, b->list);
}

// A list of pools goes behind the window's, and both into attention, as latents without a rope.
static void attend(struct bench *b, struct query *query, float *out)
{
    struct gpu_error err;
    struct args_attention a = {.n_rows = 1,
                               .n_heads = HEADS,
                               .kv_lora_rank = DIM,
                               .q_row_stride = HEADS * DIM,
                               .q_head_stride = DIM,
                               .position = b->rows.n + query->position,
                               .kv_type = KV_F32,
                               .n_listed = query->window + query->chosen,
                               .softmax_scale = 1 / sqrtf(DIM)};
    gpu_write(b->g, b->q, 0, query->q, sizeof query->q);
    gpu_write(b->g, b->index_q, 0, query->index, sizeof query->index);
    gpu_write(b->g, b->weight, 0, query->weight, sizeof query->weight);
    gpu_write(b->g, b->list, 0, query->list, sizeof query->list);
    uint64_t began = clock_ns();
    if (b->keys.n && query->chosen < query->seen)
        choose(b, query);
    gpu_op_attention_decode(b->g, &a, &(struct gpu_attention_bufs){b->q, b->q, b->all, b->out, b->list});
    bool failed = gpu_finish(b->g, &err) != 0;
    b->ns += clock_ns() - began;
    if (failed || gpu_read(b->g, b->list, 0, query->list, sizeof query->list, &err) ||
        gpu_read(b->g, b->out, 0, out, sizeof *out * HEADS * DIM, &err))
        fail(err.text);
    take_sink(b, query, out);
}

// ---- one beside the other

struct difference {
    double most, largest;
};

static void differ(struct difference *d, const float *ours, const double *truth, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        d->most = fmax(d->most, fabs((double)ours[i] - truth[i]));
        d->largest = fmax(d->largest, fabs(truth[i]));
    }
}

static void make_pools(struct pooling *p, uint32_t tokens, uint64_t seed, const char *name)
{
    struct difference d = {.most = 0};
    p->n = tokens / p->pool;
    p->value = memory((uint64_t)tokens * p->wide, sizeof *p->value);
    p->gate = memory((uint64_t)tokens * p->wide, sizeof *p->gate);
    p->bias = memory((uint64_t)p->pool * p->wide, sizeof *p->bias);
    p->norm = memory(p->dim, sizeof *p->norm);
    p->ours = memory((uint64_t)p->n * p->dim, sizeof *p->ours);
    p->truth = memory((uint64_t)p->n * p->dim, sizeof *p->truth);
    draw(seed, p->value, (uint64_t)tokens * p->wide);
    draw(seed + 1, p->gate, (uint64_t)tokens * p->wide);
    draw(seed + 2, p->bias, (uint64_t)p->pool * p->wide);
    draw(seed + 3, p->norm, p->dim);
    for (uint32_t c = 0; c < p->dim; c++)
        p->norm[c] = 1 + 0.2F * p->norm[c];
    for (uint64_t i = 0; i < p->n; i++) {
        pool(p, (uint32_t)i, p->ours + i * p->dim);
        pool_truth(p, (uint32_t)i, NOTHING, p->truth + i * p->dim);
    }
    differ(&d, p->ours, p->truth, (uint64_t)p->n * p->dim);
    printf("  %s of %u: %.1e\n", name, p->pool, d.most / d.largest);
}

static void free_pools(struct pooling *p)
{
    free(p->value), free(p->gate), free(p->bias), free(p->norm), free(p->ours), free(p->truth);
    *p = (struct pooling){.dim = 0};
}

static void make_query(const struct bench *b, uint32_t position, struct query *query)
{
    *query = (struct query){.position = position, .seen = (position + 1) / b->rows.pool};
    query->window = position + 1 < WINDOW ? position + 1 : WINDOW;
    query->chosen = b->keys.n && query->seen > b->top ? b->top : query->seen;
    draw(1000 + 3 * (uint64_t)position, query->q[0], (uint64_t)HEADS * DIM);
    draw(1001 + 3 * (uint64_t)position, query->index[0], (uint64_t)INDEX_HEADS * INDEX_DIM);
    draw(1002 + 3 * (uint64_t)position, query->weight, INDEX_HEADS);
    for (uint32_t i = 0; i < query->window; i++)
        query->list[i] = b->rows.n + position + 1 - query->window + i;
    for (uint32_t i = 0; i < query->chosen; i++)
        query->list[query->window + i] = i; // all of them, until there is a choice
}

static gpu_buf *room(struct bench *b, uint64_t bytes)
{
    struct gpu_error err;
    gpu_buf *buf = gpu_buf_new(b->g, bytes, &err);
    if (!buf)
        fail(err.text);
    return buf;
}

static void bench_queries(struct bench *b)
{
    struct query *query = memory(1, sizeof *query);
    float *ours = memory(HEADS * DIM, sizeof *ours);
    double *truth = memory(HEADS * DIM, sizeof *truth);
    struct difference d = {.most = 0}, traps[N_TRAPS] = {{.most = 0}};
    uint32_t chosen[MOST_TOP], lists = 0, others = 0, n = 0;
    make_query(b, b->tokens - 1, query);
    attend(b, query, ours); // so that no kernel is built any more
    b->ns = 0;
    for (uint32_t position = STEP; position < b->tokens; position += STEP, n++) {
        make_query(b, position, query);
        attend(b, query, ours);
        attend_truth(b, query, NOTHING, truth);
        differ(&d, ours, truth, HEADS * DIM);
        if (b->keys.n && query->chosen < query->seen) {
            choose_truth(b, query, chosen);
            lists++;
            others += memcmp(chosen, query->list + query->window, sizeof *chosen * query->chosen) != 0;
        }
        for (int trap = SINK; trap < N_TRAPS && position + STEP >= b->tokens; trap++) {
            attend_truth(b, query, (enum trap)trap, truth);
            differ(&traps[trap], ours, truth, HEADS * DIM);
        }
    }
    printf("  attention: %.1e", d.most / d.largest);
    if (b->keys.n)
        printf("; lists of %u that differ: %u of %u", b->top, others, lists);
    printf("; %.2f ms a token\n  without the sink %.2f, the gates' bias %.2f, turning back %.2f",
           (double)b->ns / 1e6 / n, traps[SINK].most / traps[SINK].largest, traps[BIAS].most / traps[BIAS].largest,
           traps[TURNING_BACK].most / traps[TURNING_BACK].largest);
    if (b->rows.wide > b->rows.dim)
        printf(", the overlap %.2f", traps[OVERLAP].most / traps[OVERLAP].largest);
    printf("\n");
    free(query), free(ours), free(truth);
}

// A layer whose pools are chosen, 4 tokens each, or one that looks at all of its, 128 each.
static void bench_layer(struct bench *b, bool chooses)
{
    b->rows = (struct pooling){.dim = DIM, .wide = chooses ? 2 * DIM : DIM, .pool = chooses ? 4 : 128};
    b->keys = (struct pooling){.dim = INDEX_DIM, .wide = 2 * INDEX_DIM, .pool = 4};
    printf("%u tokens, of the largest value\n", b->tokens);
    make_pools(&b->rows, b->tokens, 10, "pools");
    if (chooses)
        make_pools(&b->keys, b->tokens, 20, "the indexer's pools");
    uint64_t pools = sizeof(float) * DIM * (uint64_t)b->rows.n, rows = sizeof(float) * DIM * (uint64_t)b->tokens;
    b->all = room(b, pools + rows);
    gpu_write(b->g, b->all, pools, b->window, rows);
    if (pools)
        gpu_write(b->g, b->all, 0, b->rows.ours, pools);
    if (b->keys.n)
        gpu_write(b->g, b->index, 0, b->keys.ours, sizeof(float) * INDEX_DIM * (uint64_t)b->keys.n);
    bench_queries(b);
    gpu_buf_free(b->all);
    free_pools(&b->rows);
    free_pools(&b->keys);
}

int main(int argc, char **argv)
{
    struct gpu_options options = {.cache_dir = getenv("MOECHAT_TEST_KERNEL_CACHE")};
    struct bench b = {.tokens = 1100, .top = 96};
    struct gpu_error err;
    for (int i = 1; i + 1 < argc; i += 2) {
        options.selector = strcmp(argv[i], "--device") == 0 ? argv[i + 1] : options.selector;
        b.tokens = strcmp(argv[i], "--tokens") == 0 ? (uint32_t)strtoul(argv[i + 1], NULL, 10) : b.tokens;
        b.top = strcmp(argv[i], "--top") == 0 ? (uint32_t)strtoul(argv[i + 1], NULL, 10) : b.top;
    }
    if (b.tokens <= STEP || b.tokens > 100000 || b.top < 1 || b.top > MOST_TOP)
        fail("--tokens is 8 to 100000, --top 1 to 512");
    b.g = gpu_open(&options, &err);
    if (!b.g)
        fail(err.text);
    b.window = memory((uint64_t)b.tokens * DIM, sizeof *b.window);
    draw(1, b.window, (uint64_t)b.tokens * DIM);
    draw(2, b.sinks, HEADS);
    for (uint32_t h = 0; h < HEADS; h++)
        b.sinks[h] += 4; // so that it has a share beside some hundred rows
    const uint64_t sizes[] = {sizeof(float) * INDEX_DIM * (b.tokens / 4 + 1),
                              sizeof(float) * HEADS * DIM,
                              sizeof(float) * INDEX_HEADS * INDEX_DIM,
                              sizeof(float) * INDEX_HEADS,
                              sizeof(float) * (b.tokens / 4 + 1),
                              sizeof(uint32_t) * (WINDOW + MOST_TOP),
                              sizeof(float) * HEADS * DIM};
    gpu_buf **const bufs[] = {&b.index, &b.q, &b.index_q, &b.weight, &b.scores, &b.list, &b.out};
    for (size_t i = 0; i < sizeof bufs / sizeof *bufs; i++)
        *bufs[i] = room(&b, sizes[i]);
    printf("%s\n", gpu_describe(b.g)->name);
    bench_layer(&b, true);
    bench_layer(&b, false);
    for (size_t i = 0; i < sizeof bufs / sizeof *bufs; i++)
        gpu_buf_free(*bufs[i]);
    gpu_close(b.g);
    free(b.window);
    return 0;
}
