// SPDX-License-Identifier: GPL-3.0-or-later
// An indexer's keys, scores and choice, and attention over lists, on every device and in both shapes of kernels:
// against ref.c, on odd sizes, into poisoned outputs, and in launches that are cut.
#include "kernels/numbers.h"
#include "tests/ops/rig.h"

static struct rigs rigs; // opened once: building kernels takes seconds

static size_t cache_bytes(uint32_t kv_type, size_t n)
{
    return n * (kv_type == KV_F16 ? 2 : 4);
}

static void *random_cache(uint32_t kv_type, size_t n, uint32_t seed)
{
    float *rows = random_floats(n, seed);
    void *cache = must(malloc(4 * n));
    ref_to_cache(kv_type, rows, n, cache, 0);
    free(rows);
    return cache;
}

static const struct args_index_append appends_cases[] = {
    {.n_rows = 1, .dim = 128, .rope_dim = 64, .position = 700, .eps = 1e-6f, .scale = 1},
    {.n_rows = 5, .dim = 128, .rope_dim = 64, .kv_type = KV_F16, .interleaved = 1, .eps = 1e-6f, .scale = 1},
    {.n_rows = 3, .dim = 40, .rope_dim = 6, .position = 9, .eps = 1e-5f, .scale = 0.7f},
    {.n_rows = 2, .dim = 8, .rope_dim = 8, .position = 3, .interleaved = 1, .eps = 1e-6f, .scale = 1.3f},
    {.n_rows = 7, .dim = 96, .rope_dim = 94, .eps = 1e-6f, .scale = 1},
    {.n_rows = 3, .dim = 128, .position = 5, .eps = 1e-6f, .n_behind = 128},
    {.n_rows = 2, .dim = 24, .position = 1, .kv_type = KV_F16, .eps = 1e-6f, .n_behind = 7},
};

static void check_append(struct harness *t, struct rig *rig, struct args_index_append a)
{
    gpu *g = rig->g;
    uint32_t width = a.dim + a.n_behind;
    a.norm = 8, a.bias = 12, a.in_stride = width + 5, a.in_offset = 3;
    size_t n_x = (size_t)a.n_rows * a.in_stride, n_cache = (size_t)(a.position + a.n_rows) * width + 1;
    float *norm = random_floats(a.dim + 2, 1), *bias = random_floats(a.dim + 3, 2);
    float *x = random_floats(n_x, 3), *inv_freq = random_floats(a.rope_dim / 2, 4);
    for (size_t i = 0; i < n_x; i++)
        x[i] += 2; // a mean that must go
    for (uint32_t j = 0; j < a.rope_dim / 2; j++)
        inv_freq[j] = fabsf(inv_freq[j]);
    float *want = poisoned(n_cache);
    struct gpu_index_append_bufs b = {upload(g, norm, (a.dim + 2) * 4), upload(g, bias, (a.dim + 3) * 4),
                                      a.rope_dim ? upload(g, inv_freq, a.rope_dim * 2) : NULL, upload(g, x, n_x * 4),
                                      upload(g, want, n_cache * 4)};
    ref_index_append(&a, &(struct gpu_index_append_bufs){HOST(norm), HOST(bias), HOST(inv_freq), HOST(x), HOST(want)});
    gpu_op_index_append(g, &a, &b);
    float *got = download(g, b.cache);
    int good = got != NULL;
    for (size_t i = 0; good && i < n_cache - 1; i++) {
        bool half = a.kv_type == KV_F16;
        float w = half ? number_from_half(((uint16_t *)want)[i]) : want[i],
              v = half ? number_from_half(((uint16_t *)got)[i]) : got[i];
        if (half ? i / width < a.position : memcmp(&want[i], &poison, 4) == 0)
            good = half ? ((uint16_t *)want)[i] == ((uint16_t *)got)[i] : memcmp(&got[i], &want[i], 4) == 0;
        else
            good = fabsf(v - w) <= (half ? 2e-3f : 4e-6f) * (1 + fabsf(w));
    }
    good = good && memcmp((char *)got + cache_bytes(a.kv_type, n_cache - 1),
                          (char *)want + cache_bytes(a.kv_type, n_cache - 1), cache_bytes(a.kv_type, 1)) == 0;
    if (!CHECK(t, good))
        printf("    %s: %u rows of %u, %u turned, %u behind\n", rig->label, a.n_rows, a.dim, a.rope_dim, a.n_behind);
    free(norm), free(bias), free(x), free(inv_freq), free(want), free(got);
    gpu_buf_free(b.norm), gpu_buf_free(b.bias), gpu_buf_free(b.inv_freq), gpu_buf_free(b.x), gpu_buf_free(b.cache);
}

static void appends(struct harness *t)
{
    for (unsigned d = 0; d < rigs.n; d++)
        for (size_t i = 0; i < sizeof appends_cases / sizeof *appends_cases; i++)
            check_append(t, &rigs.items[d], appends_cases[i]);
}

static const struct args_index_pool pools_cases[] = {
    {.n_rows = 1, .dim = 128, .pool = 4, .position = 3},   {.n_rows = 9, .dim = 128, .pool = 4, .position = 6},
    {.n_rows = 70, .dim = 40, .pool = 8, .position = 1},   {.n_rows = 5, .dim = 24, .pool = 2, .kv_type = KV_F16},
    {.n_rows = 2, .dim = 128, .pool = 16, .position = 40}, {.n_rows = 31, .dim = 16, .pool = 16, .kv_type = KV_F16},
};

// The feeds that a prompt may be cut into, with the same bits.
static const uint32_t feeds[] = {1, 3, 64, 65};

static void check_pools(struct harness *t, struct rig *rig, struct args_index_pool a)
{
    gpu *g = rig->g;
    uint32_t end = a.position + a.n_rows, each = a.dim / a.pool;
    bool half = a.kv_type == KV_F16;
    a.ape = 8;
    size_t n = (size_t)end * each + 3, bytes = cache_bytes(a.kv_type, n);
    float *ape = random_floats((size_t)a.pool * a.dim + 2, 31), *want = poisoned(n);
    void *cache = random_cache(a.kv_type, (size_t)end * 2 * a.dim, 32);
    gpu_buf *by = upload(g, ape, ((size_t)a.pool * a.dim + 2) * 4);
    gpu_buf *rows = upload(g, cache, cache_bytes(a.kv_type, (size_t)end * 2 * a.dim)), *pools = upload(g, want, bytes);
    gpu_op_index_pool(g, &a, by, rows, pools);
    ref_index_pool(&a, HOST(ape), HOST(cache), HOST(want));
    char *got = download(g, pools);
    bool good = got != NULL;
    for (size_t i = 0; good && i < n; i++) {
        bool is_new = i >= (size_t)(a.position / a.pool) * a.dim && i < (size_t)end * each;
        float w = half ? number_from_half(((uint16_t *)want)[i]) : want[i], v;
        v = half ? number_from_half(((uint16_t *)(void *)got)[i]) : ((float *)(void *)got)[i];
        good = is_new ? fabsf(v - w) <= (half ? 1e-3f : 2e-6f)
                      : memcmp(got + cache_bytes(a.kv_type, i), (char *)want + cache_bytes(a.kv_type, i),
                               cache_bytes(a.kv_type, 1)) == 0;
    }
    for (size_t k = 0; good && k < sizeof feeds / sizeof *feeds; k++) {
        struct args_index_pool part = a;
        for (; part.position < end; part.position += part.n_rows) {
            part.n_rows = end - part.position < feeds[k] ? end - part.position : feeds[k];
            gpu_op_index_pool(g, &part, by, rows, pools);
        }
        char *parts = download(g, pools);
        good = parts && memcmp(parts, got, bytes) == 0;
        free(parts);
    }
    if (!CHECK(t, good))
        printf("    %s: %u rows at %u, pools of %u\n", rig->label, a.n_rows, a.position, a.pool);
    free(ape), free(want), free(cache), free(got);
    gpu_buf_free(by), gpu_buf_free(rows), gpu_buf_free(pools);
}

static void pools(struct harness *t)
{
    for (unsigned d = 0; d < rigs.n; d++)
        for (size_t i = 0; i < sizeof pools_cases / sizeof *pools_cases; i++)
            check_pools(t, &rigs.items[d], pools_cases[i]);
}

static const struct args_index_scores scores_cases[] = {
    {.n_rows = 1, .n_heads = 64, .dim = 128, .position = 900},
    {.n_rows = 3, .n_heads = 32, .dim = 128, .position = 126, .kv_type = KV_F16},
    {.n_rows = 33, .n_heads = 5, .dim = 8},
    {.n_rows = 2, .n_heads = 70, .dim = 40, .position = 255},
    {.n_rows = 1, .n_heads = 16, .dim = 96, .position = 5, .kv_type = KV_F16},
    {.n_rows = 33, .n_heads = 32, .dim = 128, .position = 1022, .pool = 4},
    {.n_rows = 7, .n_heads = 17, .dim = 16, .pool = 4, .kv_type = KV_F16},
    {.n_rows = 1, .n_heads = 4, .dim = 64, .position = 16, .pool = 16},
    {.n_rows = 4, .n_heads = 40, .dim = 128, .position = 600, .kv_type = KV_F16},
    {.n_rows = 3, .n_heads = 64, .dim = 128, .position = 511},
    {.n_rows = 2, .n_heads = 64, .dim = 128, .position = 1500, .kv_type = KV_F16},
    {.n_rows = 3, .n_heads = 11, .dim = 128, .position = 700, .pool = 2, .kv_type = KV_F16},
    {.n_rows = 2, .n_heads = 65, .dim = 128, .position = 77, .kv_type = KV_F16},
};

// How many keys the rows choose from by then.
static uint32_t seen(uint32_t length, uint32_t pool)
{
    return length / (pool > 1 ? pool : 1);
}

// Tensor cores take float32 in two halves, 22 bits of a row's largest, and sum in another order.
static bool scored_by_mma(const gpu *g, const struct args_index_scores *a)
{
    return g->has_mma && a->dim == 128 && (a->kv_type == KV_F32 || a->n_heads <= INDEX_F16_HEADS);
}

static float magnitude_at(const float *q, const float *key, uint32_t dim)
{
    float sum = 0;
    for (uint32_t c = 0; c < dim; c++)
        sum += fabsf(q[c] * key[c]);
    return sum;
}

// What a score's rounding errors are measured by: sum of |weight| * sum of |products|.
static float *score_terms(const struct args_index_scores *a, const float *q, const float *weight, const void *cache)
{
    float *terms = must(calloc((size_t)a->n_rows * a->out_stride, sizeof *terms)), key[MOST_INDEX_DIM];
    for (uint32_t r = 0; r < a->n_rows; r++)
        for (uint32_t s = 0; s < seen(a->position + r + 1, a->pool); s++) {
            for (uint32_t c = 0; c < a->dim; c++)
                key[c] = a->kv_type == KV_F16 ? number_from_half(((const uint16_t *)cache)[(size_t)s * a->dim + c])
                                              : ((const float *)cache)[(size_t)s * a->dim + c];
            for (uint32_t h = 0; h < a->n_heads; h++)
                terms[(size_t)r * a->out_stride + s] +=
                    fabsf(a->scale * weight[(size_t)r * a->weight_stride + a->weight_offset + h]) *
                    magnitude_at(q + (size_t)r * a->q_stride + a->q_offset + (size_t)h * a->dim, key, a->dim);
        }
    return terms;
}

static int descending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

// Of how many sizes of choice the scores at the border are further apart than `apart`; -1: one of those is chosen
// differently from both arrays.
static int same_choices(const float *got, const float *want, uint32_t n, float apart)
{
    float *sorted = must(malloc(n * sizeof *sorted));
    uint32_t *lists[2] = {must(malloc(n * sizeof **lists)), must(malloc(n * sizeof **lists))};
    int compared = 0;
    memcpy(sorted, want, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, descending);
    for (uint32_t k = 1; k < n && compared >= 0; k += 1 + n / 16) {
        struct args_index_choice choice = {.n_rows = 1, .top_k = k, .position = n - 1, .in_stride = n};
        if (sorted[k - 1] - sorted[k] <= apart)
            continue;
        ref_index_choice(&choice, got, lists[0]);
        ref_index_choice(&choice, want, lists[1]);
        compared = memcmp(lists[0], lists[1], k * sizeof **lists) == 0 ? compared + 1 : -1;
    }
    free(sorted), free(lists[0]), free(lists[1]);
    return compared;
}

// Within the bound, and of the last row the same positions chosen as by plain C.
static bool near_scores(struct rig *rig, const struct args_index_scores *a, const float *got, const float *want,
                        const float *terms)
{
    enum { NEAR = 400 }; // 10^-9ths of the terms
    size_t last = (size_t)(a->n_rows - 1) * a->out_stride;
    uint32_t n = seen(a->position + a->n_rows, a->pool);
    float most = 0;
    for (uint32_t s = 0; s < n; s++)
        most = fmaxf(most, terms[last + s]);
    return close_to(rig->label, got, want, terms, (size_t)a->n_rows * a->out_stride, NEAR * 1e-9) &&
           same_choices(got + last, want + last, n, 2 * NEAR * 1e-9F * most) > 0;
}

// The same bits as in plain C but where tensor cores do it, and wherever a launch begins.
static void check_scores(struct harness *t, struct rig *rig, struct args_index_scores a)
{
    gpu *g = rig->g;
    uint32_t length = seen(a.position + a.n_rows, a.pool);
    a.q_stride = a.n_heads * a.dim + 7, a.q_offset = 4, a.weight_stride = a.n_heads + 3, a.weight_offset = 2;
    a.out_stride = length + 5, a.scale = 0.011f;
    size_t n_q = (size_t)a.n_rows * a.q_stride + 4, n_w = (size_t)a.n_rows * a.weight_stride + 2;
    size_t n_out = (size_t)a.n_rows * a.out_stride;
    float *q = random_floats(n_q, 11), *weight = random_floats(n_w, 12), *want = poisoned(n_out);
    void *cache = random_cache(a.kv_type, (size_t)length * a.dim, 13);
    struct gpu_index_scores_bufs b = {upload(g, q, n_q * 4), upload(g, weight, n_w * 4),
                                      upload(g, cache, cache_bytes(a.kv_type, (size_t)length * a.dim)),
                                      upload(g, want, n_out * 4)};
    ref_index_scores(&a, &(struct gpu_index_scores_bufs){HOST(q), HOST(weight), HOST(cache), HOST(want)});
    gpu_op_index_scores(g, &a, &b);
    float *got = download(g, b.scores), *terms = score_terms(&a, q, weight, cache);
    bool good = got != NULL;
    if (good && scored_by_mma(g, &a))
        good = near_scores(rig, &a, got, want, terms);
    for (size_t i = 0; good && !scored_by_mma(g, &a) && i < n_out; i++)
        if (memcmp(&got[i], &want[i], 4) != 0) {
            printf("    score %zu is %.9g, ref has %.9g\n", i, (double)got[i], (double)want[i]);
            good = false;
        }
    struct args_index_scores last = a; // of the last row alone
    last.q_offset += (a.n_rows - 1) * a.q_stride, last.weight_offset += (a.n_rows - 1) * a.weight_stride;
    last.position = a.position + a.n_rows - 1, last.n_rows = 1;
    gpu_op_index_scores(g, &last, &b);
    float *alone = download(g, b.scores);
    good = good && alone && memcmp(alone, got + (size_t)(a.n_rows - 1) * a.out_stride, 4 * length) == 0;
    if (!CHECK(t, good))
        printf("    %s: %u rows at %u, %u heads of %u, pools of %u\n", rig->label, a.n_rows, a.position, a.n_heads,
               a.dim, a.pool);
    free(q), free(weight), free(want), free(cache), free(got), free(alone), free(terms);
    gpu_buf_free(b.q), gpu_buf_free(b.weight), gpu_buf_free(b.cache), gpu_buf_free(b.scores);
}

static void scores(struct harness *t)
{
    for (unsigned d = 0; d < rigs.n; d++)
        for (size_t i = 0; i < sizeof scores_cases / sizeof *scores_cases; i++)
            check_scores(t, &rigs.items[d], scores_cases[i]);
}

// Any numbers; few different ones, of both signs; zeros of both signs among negative ones; all alike; what no score is.
enum input { ANY, FEW, ZEROS, ALIKE, STRANGE, INPUTS };

static float score_of(enum input input, uint32_t *seed)
{
    static const float strange[] = {INFINITY, -INFINITY, NAN, -NAN, 1e-45f, -1e-45f, 3e38f};
    float any = random_float(seed);
    switch (input) {
    case ANY:
        return any;
    case FEW:
        return floorf(3 * any);
    case ZEROS:
        return any < -0.4f ? any : any < 0.2f ? -0.0f : 0.0f;
    case STRANGE:
        return strange[random_next(seed) % (sizeof strange / sizeof *strange)];
    default:
        return -1.5f;
    }
}

static const struct args_index_choice choices_cases[] = {
    {.n_rows = 1, .top_k = 2048, .position = 9000},
    {.n_rows = 3, .top_k = 5, .position = 4},
    {.n_rows = 9, .top_k = 64, .position = 250},
    {.n_rows = 1, .top_k = 1},
    {.n_rows = 2, .top_k = 300, .position = 4095},
    {.n_rows = 1, .top_k = 777, .position = 776},
    {.n_rows = 3, .top_k = 900, .position = 8190},
    {.n_rows = 1, .top_k = 2048, .position = 70000},
    {.n_rows = 9, .top_k = 5, .position = 22, .pool = 4},
    {.n_rows = 3, .top_k = 512, .position = 9001, .pool = 4},
    {.n_rows = 2, .top_k = 2048, .position = 70000, .pool = 4},
    {.n_rows = 5, .top_k = 1, .position = 15, .pool = 16},
    {.n_rows = 1, .top_k = 20, .position = 41, .pool = 2},
};

static void check_choice(struct harness *t, struct rig *rig, struct args_index_choice a, enum input input)
{
    gpu *g = rig->g;
    uint32_t seed = 21 + (uint32_t)input;
    uint32_t pool = a.pool > 1 ? a.pool : 1, apart = a.top_k * pool + pool - 1;
    a.in_stride = a.position + a.n_rows + 3, a.first = 7;
    size_t n = (size_t)a.n_rows * a.in_stride, n_list = a.first + (size_t)a.n_rows * apart + 1;
    float *given = must(malloc(n * sizeof *given)), *want = poisoned(n_list);
    for (size_t i = 0; i < n; i++)
        given[i] = score_of(input, &seed);
    gpu_buf *from = upload(g, given, n * 4), *list = upload(g, want, n_list * 4);
    ref_index_choice(&a, given, (uint32_t *)want);
    gpu_op_index_choice(g, &a, from, list);
    uint32_t *got = download(g, list);
    bool good = got && (input == STRANGE || memcmp(got, want, n_list * 4) == 0);
    for (uint32_t r = 0; good && r < a.n_rows; r++) // of whatever numbers: ascending, each once, none behind the row
        for (uint32_t k = 0; k < a.top_k * pool + (a.position + r + 1) % pool; k++) {
            const uint32_t *of = got + a.first + (size_t)r * apart;
            good &= of[k] <= a.position + r && (k == 0 || of[k] > of[k - 1]);
        }
    if (!CHECK(t, good))
        printf("    %s: %u of %u in pools of %u, input %d\n", rig->label, a.top_k, a.position + 1, pool, (int)input);
    free(given), free(want), free(got);
    gpu_buf_free(from), gpu_buf_free(list);
}

static void choices(struct harness *t)
{
    for (unsigned d = 0; d < rigs.n; d++)
        for (size_t i = 0; i < sizeof choices_cases / sizeof *choices_cases; i++)
            for (int input = 0; input < INPUTS; input++)
                if (input != STRANGE || d > 0) // plain C orders numbers alone
                    check_choice(t, &rigs.items[d], choices_cases[i], (enum input)input);
}

struct list_case {
    uint32_t n_rows, n_heads, rank, rope, position, kv_type, n_listed, pool;
};

static const struct list_case list_cases[] = {
    {1, 1, 32, 2, 3, KV_F32, 2, 0},           {1, 17, 96, 10, 256, KV_F32, 65, 0},
    {1, 33, 160, 16, 400, KV_F16, 128, 0},    {3, 16, 512, 64, 300, KV_F16, 130, 0},
    {3, 6, 128, 32, 100, KV_F32, 64, 0},      {1, 40, 512, 64, 3000, KV_F16, 700, 0},
    {1, 20, 512, 64, 1000, KV_F32, 300, 0},   {4, 20, 64, 6, 90, KV_F16, 1, 0},
    {5, 17, 96, 0, 100, KV_F32, 60, 4},       {1, 33, 512, 0, 402, KV_F16, 128, 4},
    {6, 3, 512, 64, 300, KV_F16, 64, 4},      {1, 5, 32, 2, 62, KV_F32, 16, 16},
    {1, 128, 512, 64, 4200, KV_F16, 2048, 0}, {1, 5, 512, 64, 6200, KV_F32, 2048, 0},
    {3, 4, 512, 64, 4100, KV_F16, 2048, 0},   {2, 3, 512, 0, 4201, KV_F16, 2048, 4},
};

// Of a row, and how far lists lie apart.
static uint32_t listed_of(const struct list_case *c, uint32_t r)
{
    return c->n_listed + (c->pool > 1 ? (c->position + r + 1) % c->pool : 0);
}

static uint32_t list_apart(const struct list_case *c)
{
    return c->n_listed + (c->pool > 1 ? c->pool - 1 : 0);
}

// Buffers of one case, and what it must give: each row by itself, dense, over the rows of its list in a cache of their
// own.
struct list_rig {
    struct args_attention a;
    struct gpu_attention_bufs b;
    float *want;
    size_t n_out;
};

static struct list_rig open_list(gpu *g, const struct list_case *c)
{
    struct list_rig rig = {.a = {.n_rows = c->n_rows,
                                 .n_heads = c->n_heads,
                                 .kv_lora_rank = c->rank,
                                 .rope_dim = c->rope,
                                 .q_row_stride = c->n_heads * (c->rope + 8) + 4,
                                 .q_head_stride = c->rope + 8,
                                 .q_rope_offset = 8,
                                 .position = c->position,
                                 .kv_type = c->kv_type,
                                 .first_row = 2,
                                 .n_listed = c->n_listed,
                                 .first_listed = 5,
                                 .pool = c->pool,
                                 .softmax_scale = 0.8f}};
    size_t rows = c->n_rows + 2, latent = (size_t)c->n_heads * c->rank, width = c->rank + c->rope;
    size_t n_q = rows * rig.a.q_row_stride + 8, n_cache = (size_t)(c->position + c->n_rows) * width;
    size_t row_bytes = cache_bytes(c->kv_type, width), n_list = 5 + (size_t)c->n_rows * list_apart(c);
    rig.n_out = rows * latent + 1;
    float *q_latent = random_floats(rows * latent, 61), *q = random_floats(n_q, 62);
    char *cache = random_cache(c->kv_type, n_cache, 63);
    float *own = must(malloc(list_apart(c) * width * sizeof *own)); // float32, as plain C reads halves slowly
    uint32_t *list = must(calloc(n_list, sizeof *list));
    rig.want = poisoned(rig.n_out);
    rig.b = (struct gpu_attention_bufs){upload(g, q_latent, rows * latent * 4), upload(g, q, n_q * 4),
                                        upload(g, cache, cache_bytes(c->kv_type, n_cache)),
                                        upload(g, rig.want, rig.n_out * 4), NULL};
    for (uint32_t r = 0; r < c->n_rows; r++) {
        uint32_t n = listed_of(c, r), *of = list + 5 + (size_t)r * list_apart(c), every = (c->position + r + 1) / n;
        for (uint32_t k = 0; k < n; k++) {
            of[k] = k * every + (k + r) % every;
            const char *row = cache + of[k] * row_bytes;
            for (size_t i = 0; i < width; i++)
                own[k * width + i] = c->kv_type == KV_F16 ? number_from_half(((const uint16_t *)(const void *)row)[i])
                                                          : ((const float *)(const void *)row)[i];
        }
        struct args_attention alone = rig.a;
        alone.n_rows = 1, alone.n_listed = 0, alone.position = n - 1, alone.first_row = 2 + r, alone.kv_type = KV_F32;
        ref_attention(&alone, &(struct gpu_attention_bufs){HOST(q_latent), HOST(q), HOST(own), HOST(rig.want), NULL});
    }
    rig.b.list = upload(g, list, n_list * 4);
    free(q_latent), free(q), free(cache), free(own), free(list);
    return rig;
}

static void close_list(struct list_rig *rig)
{
    free(rig->want);
    gpu_buf_free(rig->b.q_latent), gpu_buf_free(rig->b.q), gpu_buf_free(rig->b.cache), gpu_buf_free(rig->b.out);
    gpu_buf_free(rig->b.list);
}

static void check_way(struct harness *t, struct rig *rig, const struct list_case *c, const struct list_rig *opened,
                      bool decode)
{
    gpu *g = rig->g;
    struct list_rig list = *opened;
    float *terms = must(malloc(list.n_out * sizeof *terms));
    for (size_t i = 0; i < list.n_out; i++)
        terms[i] = 25.0f + (float)(c->rank + c->rope);
    (decode ? gpu_op_attention_decode : gpu_op_attention_prefill)(g, &list.a, &list.b);
    float *got = download(g, list.b.out);
    bool good = close_to(rig->label, got, list.want, terms, list.n_out, 4e-8);
    float *before = poisoned(list.n_out);
    gpu_write(g, list.b.out, 0, before, list.n_out * 4);
    for (uint32_t r = 0; r < c->n_rows && !decode; r++) { // each row by itself
        struct args_attention alone = list.a;
        alone.n_rows = 1, alone.first_row += r, alone.position += r, alone.first_listed += r * list_apart(c);
        gpu_op_attention_prefill(g, &alone, &list.b);
    }
    float *parts = download(g, list.b.out);
    good &= decode || (got && parts && memcmp(got, parts, list.n_out * 4) == 0);
    if (!CHECK(t, good))
        printf("    %s: %u rows, %u heads of %u+%u, %u listed, pools of %u, %s\n", rig->label, c->n_rows, c->n_heads,
               c->rank, c->rope, c->n_listed, c->pool, decode ? "decode" : "prefill");
    gpu_write(g, list.b.out, 0, before, list.n_out * 4);
    free(terms), free(got), free(before), free(parts);
}

static void lists(struct harness *t)
{
    for (unsigned d = 0; d < rigs.n; d++)
        for (size_t i = 0; i < sizeof list_cases / sizeof *list_cases; i++) {
            struct list_rig list = open_list(rigs.items[d].g, &list_cases[i]);
            check_way(t, &rigs.items[d], &list_cases[i], &list, false);
            if (list_cases[i].n_rows == 1)
                check_way(t, &rigs.items[d], &list_cases[i], &list, true);
            close_list(&list);
        }
}

static bool refused(gpu *g)
{
    struct gpu_error err;
    return gpu_check(g, &err) == GPU_ARGUMENT;
}

static void scores_refuse(struct harness *t, gpu *g, gpu_buf *some)
{
    struct args_index_scores good = {.n_rows = 2,
                                     .n_heads = 4,
                                     .dim = 16,
                                     .q_stride = 64,
                                     .weight_stride = 4,
                                     .position = 10,
                                     .out_stride = 12,
                                     .scale = 1};
    struct args_index_scores bad[] = {good, good, good, good, good, good};
    bad[0].dim = 136, bad[1].dim = 12, bad[2].n_heads = 0, bad[3].position = 64, bad[4].out_stride = 11,
    bad[5].q_offset = 1000;
    struct gpu_index_scores_bufs b = {some, some, some, some};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        gpu_op_index_scores(g, &bad[i], &b);
        if (!CHECK(t, refused(g)))
            printf("    index_scores, bad case %zu\n", i);
    }
}

static void what_does_not_fit_is_refused(struct harness *t)
{
    for (unsigned d = 0; d < rigs.n; d++) {
        gpu *g = rigs.items[d].g;
        float *numbers = random_floats(1024, 9);
        gpu_buf *some = upload(g, numbers, 4096), *other = upload(g, numbers, 4096);
        scores_refuse(t, g, some);
        struct args_index_choice choice = {.n_rows = 2, .top_k = 12, .position = 10, .in_stride = 12};
        gpu_op_index_choice(g, &choice, some, other); // fewer scores than are chosen
        CHECK(t, refused(g));
        choice.top_k = 11, choice.first = 1010;
        gpu_op_index_choice(g, &choice, some, other);
        CHECK(t, refused(g));
        struct args_index_append append = {
            .n_rows = 2, .dim = 16, .rope_dim = 8, .in_stride = 16, .position = 63, .eps = 1e-6f, .scale = 1};
        struct gpu_index_append_bufs b = {some, some, some, some, other};
        gpu_op_index_append(g, &append, &b);
        CHECK(t, refused(g));
        append.position = 0, append.rope_dim = 18;
        gpu_op_index_append(g, &append, &b);
        CHECK(t, refused(g));
        append.rope_dim = 0, append.n_behind = 1010;
        gpu_op_index_append(g, &append, &b);
        CHECK(t, refused(g));
        struct args_index_pool pool = {.n_rows = 30, .dim = 16, .pool = 4};
        gpu_op_index_pool(g, &pool, some, some, other);
        CHECK(t, !refused(g));
        struct args_index_pool wrong[] = {pool, pool, pool, pool};
        wrong[0].pool = 5, wrong[1].n_rows = 33, wrong[2].ape = 4000, wrong[3].pool = 0;
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            gpu_op_index_pool(g, &wrong[i], some, some, other);
            if (!CHECK(t, refused(g)))
                printf("    index_pool, bad case %zu\n", i);
        }
        choice = (struct args_index_choice){.n_rows = 1, .top_k = 3, .position = 10, .in_stride = 12, .pool = 4};
        gpu_op_index_choice(g, &choice, some, other); // two pools are complete
        CHECK(t, refused(g));
        struct args_attention list = {.n_rows = 2,
                                      .n_heads = 1,
                                      .kv_lora_rank = 32,
                                      .q_row_stride = 4,
                                      .q_head_stride = 4,
                                      .position = 9,
                                      .n_listed = 8,
                                      .first_listed = 1009};
        gpu_op_attention_prefill(g, &list, &(struct gpu_attention_bufs){some, some, some, other, some});
        CHECK(t, refused(g));
        free(numbers);
        gpu_buf_free(some), gpu_buf_free(other);
    }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(appends), TEST(pools), TEST(scores), TEST(choices), TEST(lists), TEST(what_does_not_fit_is_refused),
    };
    rigs = open_rigs();
    int failed = HARNESS_RUN(tests, argc, argv);
    close_rigs(&rigs);
    return failed;
}
