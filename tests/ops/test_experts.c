// SPDX-License-Identifier: GPL-3.0-or-later
// Ops on several experts at once: the same bits as one by one, in any order and number.
#include "tests/host_combine.h"
#include "tests/ops/rig.h"

static struct rigs rigs; // opened once: building kernels takes seconds

struct expert_case {
    uint32_t hidden, inner, n, bits, group_size;
};

static const struct expert_case expert_cases[] = {
    {32, 32, 1, 4, 32},     {64, 96, 2, 4, 32},   {448, 192, 3, 8, 64},
    {384, 128, 4, 4, 64},   {160, 32, 7, 16, 32}, {96, 160, 5, 32, 32},
    {2048, 1408, 6, 4, 64}, {7168, 64, 8, 4, 64}, {256, 128, MOST_EXPERTS, 8, 128},
};

// Blobs of gate, up (2 matrices of hidden -> inner) and down, one behind the other, of the same layout.
struct blobs {
    struct args_matrix gate, up, down;
    unsigned char *bytes;
    size_t each, size;
};

static struct blobs random_blobs(const struct expert_case *c, uint32_t n)
{
    struct blobs b = {0};
    for (uint32_t k = 0; k < n; k++) {
        struct test_matrices in = random_matrices(
            (struct args_matrix){
                .in_dim = c->hidden, .out_dim = c->inner, .kind = kind_of(c->bits), .group_size = c->group_size},
            2, 300 + k);
        struct test_matrices out = random_matrices(
            (struct args_matrix){.in_dim = c->inner, .out_dim = c->hidden, .kind = kind_of(c->bits), .group_size = 32},
            1, 400 + k);
        size_t first = (in.size + 3) / 4 * 4;
        if (k == 0) {
            b.gate = in.at[0];
            b.up = in.at[1];
            b.down = gpu_matrix_behind(&out.at[0], first);
            b.each = (first + out.size + 3) / 4 * 4 + 4;
            b.size = n * b.each;
            b.bytes = must(calloc(1, b.size));
        }
        memcpy(b.bytes + k * b.each, in.bytes, in.size);
        memcpy(b.bytes + k * b.each + first, out.bytes, out.size);
        free(in.bytes), free(out.bytes);
    }
    return b;
}

// Of gate and up, beyond which many are; every other case has none.
static float limit_of(const struct expert_case *c)
{
    return c->n % 2 ? 0.75f : 0;
}

// And of those with a limit every third bends instead.
static float situ_beta_of(const struct expert_case *c)
{
    return c->n % 6 == 3 ? 0.5f : 0;
}

static int same(const struct rig *rig, const char *what, gpu_buf *a, gpu_buf *b)
{
    char *first = download(rig->g, a), *second = download(rig->g, b);
    int good = first && second && memcmp(first, second, gpu_buf_bytes(a)) == 0;
    if (!good)
        printf("    %s: %s differs\n", rig->label, what);
    free(first), free(second);
    return good;
}

// Rank k is blob (5 k + 1) mod n's where that is a permutation, and launches hold the ranks from the last to the first.
static uint32_t blob_of(uint32_t rank, uint32_t n)
{
    return n % 5 ? (5 * rank + 1) % n : n - 1 - rank;
}

// Ranks are rows from 1 on when the host says where experts lie, from 0 on when their ids do.
static void check_experts(struct harness *t, struct rig *rig, const struct expert_case *c, uint32_t by_id)
{
    gpu *g = rig->g;
    struct blobs blobs = random_blobs(c, c->n);
    uint32_t stride = c->inner + 3, out_stride = c->hidden + 1, rows = c->n + 2;
    float *x = random_floats(c->hidden + 5, 500);
    float *blank = poisoned((size_t)rows * (stride + out_stride));
    gpu_buf *matrices = upload(g, blobs.bytes, blobs.size), *in = upload(g, x, (c->hidden + 5) * 4);
    gpu_buf *act[2], *out[2];
    for (int i = 0; i < 2; i++) {
        act[i] = upload(g, blank, (size_t)rows * stride * 4);
        out[i] = upload(g, blank, (size_t)rows * out_stride * 4);
    }
    struct args_swiglu_experts swiglu = {.gate = blobs.gate,
                                         .up = blobs.up,
                                         .in_offset = 5,
                                         .out_stride = stride,
                                         .limit = limit_of(c),
                                         .situ_beta = situ_beta_of(c)};
    int32_t ids[MOST_EXPERTS + 3] = {-1, 1 << 30, -1};
    for (uint32_t k = c->n; k-- > 0;) {
        uint32_t row = by_id ? k : k + 1;
        uint64_t place = blob_of(k, c->n) * blobs.each;
        ids[3 + k] = (int32_t)blob_of(k, c->n);
        struct args_swiglu one = {.gate = gpu_matrix_behind(&blobs.gate, place),
                                  .up = gpu_matrix_behind(&blobs.up, place),
                                  .n_rows = 1,
                                  .in_offset = 5,
                                  .out_offset = row * stride,
                                  .limit = limit_of(c),
                                  .situ_beta = situ_beta_of(c)};
        struct args_matmul down = {.matrix = gpu_matrix_behind(&blobs.down, place),
                                   .n_rows = 1,
                                   .in_offset = row * stride,
                                   .out_offset = row * out_stride};
        gpu_op_swiglu_vec(g, &one, matrices, in, act[0]);
        gpu_op_matvec(g, &down, matrices, act[0], out[0]);
        swiglu.at.place[swiglu.at.n] = place;
        swiglu.at.rank[swiglu.at.n++] = row;
    }
    if (by_id)
        swiglu.at = (struct args_places){.stride = blobs.each, .n = c->n, .by_id = 1, .first_id = 3, .n_experts = c->n};
    gpu_buf *id_buf = upload(g, ids, (3 + c->n) * sizeof *ids);
    struct args_matvec_experts matvec = {
        .matrix = blobs.down, .at = swiglu.at, .in_stride = stride, .out_stride = out_stride};
    uint64_t launches = gpu_counters(g).launches;
    gpu_op_swiglu_experts(g, &swiglu,
                          &(struct gpu_experts_bufs){matrices, by_id ? id_buf : NULL, in, act[1], NULL, NULL});
    gpu_op_matvec_experts(g, &matvec,
                          &(struct gpu_experts_bufs){matrices, by_id ? id_buf : NULL, act[1], out[1], NULL, NULL});
    CHECK_EQ(t, gpu_counters(g).launches - launches, 2);
    if (!CHECK(t, same(rig, "swiglu_experts", act[0], act[1]) && same(rig, "matvec_experts", out[0], out[1])))
        printf("    %u experts, %u -> %u, %u bits\n", c->n, c->hidden, c->inner, c->bits);
    for (int i = 0; i < 2; i++)
        gpu_buf_free(act[i]), gpu_buf_free(out[i]);
    gpu_buf_free(matrices), gpu_buf_free(in), gpu_buf_free(id_buf);
    free(blobs.bytes), free(x), free(blank);
}

static void several_at_once(struct harness *t)
{
    for (unsigned d = 0; d < rigs.n; d++)
        for (size_t i = 0; i < sizeof expert_cases / sizeof *expert_cases; i++)
            for (uint32_t by_id = 0; by_id < 2; by_id++)
                check_experts(t, &rigs.items[d], &expert_cases[i], by_id);
}

// A prompt's: each has rows of its own, 1 to `most`, that follow on each other's; the ops on one are the oracle.
static void check_rows(struct harness *t, struct rig *rig, const struct expert_case *c, uint32_t most)
{
    gpu *g = rig->g;
    struct blobs blobs = random_blobs(c, c->n);
    uint32_t in_stride = c->hidden + 1, stride = c->inner + 3, out_stride = c->hidden + 2, rows = 0;
    struct args_swiglu swiglu[MOST_EACH];
    struct args_matmul down[MOST_EACH];
    for (uint32_t k = 0; k < c->n; k++) {
        uint64_t place = blob_of(k, c->n) * blobs.each;
        uint32_t own = k == 1 ? most : (13 * k + 5) % most + 1;
        swiglu[k] = (struct args_swiglu){gpu_matrix_behind(&blobs.gate, place),
                                         gpu_matrix_behind(&blobs.up, place),
                                         own,
                                         in_stride,
                                         rows * in_stride,
                                         stride,
                                         rows * stride,
                                         limit_of(c),
                                         situ_beta_of(c),
                                         0};
        down[k] = (struct args_matmul){
            gpu_matrix_behind(&blobs.down, place), own, stride, rows * stride, out_stride, rows * out_stride, 0};
        rows += own;
    }
    float *x = random_floats((size_t)rows * in_stride, 600);
    float *blank = poisoned((size_t)rows * (stride + out_stride));
    gpu_buf *matrices = upload(g, blobs.bytes, blobs.size), *in = upload(g, x, (size_t)rows * in_stride * 4);
    gpu_buf *act[2], *out[2];
    for (int i = 0; i < 2; i++) {
        act[i] = upload(g, blank, (size_t)rows * stride * 4);
        out[i] = upload(g, blank, (size_t)rows * out_stride * 4);
    }
    for (uint32_t k = 0; k < c->n; k++) {
        gpu_op_swiglu_mat(g, &swiglu[k], matrices, in, act[0]);
        gpu_op_matmul(g, &down[k], matrices, act[0], out[0]);
    }
    gpu_op_swiglu_each(g, swiglu, c->n, &(struct gpu_product_bufs){matrices, in, act[1], NULL});
    gpu_op_matmul_each(g, down, c->n, &(struct gpu_product_bufs){matrices, act[1], out[1], NULL});
    if (!CHECK(t, same(rig, "swiglu_each", act[0], act[1]) && same(rig, "matmul_each", out[0], out[1])))
        printf("    %u experts, %u -> %u, %u bits, up to %u rows\n", c->n, c->hidden, c->inner, c->bits, most);
    struct gpu_error err;
    down[c->n - 1].out_stride++; // one launch knows one
    if (c->n > 1)
        gpu_op_matmul_each(g, down, c->n, &(struct gpu_product_bufs){matrices, act[1], out[1], NULL});
    CHECK_EQ(t, gpu_check(g, &err), c->n > 1 ? GPU_ARGUMENT : GPU_OK);
    for (int i = 0; i < 2; i++)
        gpu_buf_free(act[i]), gpu_buf_free(out[i]);
    gpu_buf_free(matrices), gpu_buf_free(in);
    free(blobs.bytes), free(x), free(blank);
}

// Rows that an index says: the bits of the same rows beside each other, or, without kernels for it, a refusal.
static void check_index(struct harness *t, struct rig *rig, const struct expert_case *c, uint32_t n_x)
{
    gpu *g = rig->g;
    struct blobs blobs = random_blobs(c, c->n);
    uint32_t stride = c->hidden + 1, rows = 0;
    struct args_swiglu by_index[MOST_EACH], beside[MOST_EACH];
    for (uint32_t k = 0; k < c->n; k++) {
        uint64_t place = blob_of(k, c->n) * blobs.each;
        beside[k] = (struct args_swiglu){.gate = gpu_matrix_behind(&blobs.gate, place),
                                         .up = gpu_matrix_behind(&blobs.up, place),
                                         .n_rows = (13 * k + 5) % 70 + 1,
                                         .in_stride = stride,
                                         .in_offset = rows * stride,
                                         .out_stride = c->inner,
                                         .out_offset = rows * c->inner,
                                         .limit = limit_of(c),
                                         .situ_beta = situ_beta_of(c)};
        by_index[k] = beside[k];
        by_index[k].in_offset = rows + 3;
        by_index[k].indexed = n_x;
        rows += beside[k].n_rows;
    }
    float *x = random_floats((size_t)n_x * stride, 650), *gathered = must(malloc(sizeof *x * rows * stride));
    int32_t *index = must(malloc(sizeof *index * (rows + 3)));
    for (uint32_t r = 0; r < rows + 3; r++)
        index[r] = (int32_t)(r * 7 % n_x);
    for (uint32_t r = 0; r < rows; r++)
        memcpy(gathered + (size_t)r * stride, x + (size_t)index[r + 3] * stride, sizeof *x * stride);
    float *blank = poisoned((size_t)rows * c->inner);
    gpu_buf *matrices = upload(g, blobs.bytes, blobs.size),
            *in[2] = {upload(g, gathered, sizeof *x * rows * stride), upload(g, x, sizeof *x * n_x * stride)};
    gpu_buf *y[2], *numbers = upload(g, index, sizeof *index * (rows + 3));
    for (int i = 0; i < 2; i++)
        y[i] = upload(g, blank, sizeof *x * rows * c->inner);
    if (gpu_has_swiglu_index(g, &beside[0].gate, &beside[0].up)) {
        gpu_op_swiglu_each(g, beside, c->n, &(struct gpu_product_bufs){matrices, in[0], y[0], NULL});
        gpu_op_swiglu_each(g, by_index, c->n, &(struct gpu_product_bufs){matrices, in[1], y[1], numbers});
        if (!CHECK(t, same(rig, "swiglu_each by an index", y[0], y[1])))
            printf("    %u experts, %u -> %u, %u bits\n", c->n, c->hidden, c->inner, c->bits);
        by_index[0].in_offset += 3; // one more number than there is
        by_index[0].n_rows = rows + 1;
    }
    gpu_op_swiglu_each(g, by_index, 1, &(struct gpu_product_bufs){matrices, in[1], y[1], numbers});
    CHECK_EQ(t, gpu_finish(g, NULL), GPU_ARGUMENT);
    for (int i = 0; i < 2; i++)
        gpu_buf_free(in[i]), gpu_buf_free(y[i]);
    gpu_buf_free(matrices), gpu_buf_free(numbers);
    free(blobs.bytes), free(x), free(gathered), free(index), free(blank);
}

static void rows_by_index(struct harness *t)
{
    for (unsigned d = 0; d < rigs.n; d++)
        for (size_t i = 0; i < sizeof expert_cases / sizeof *expert_cases; i++)
            if (expert_cases[i].n <= MOST_EACH)
                check_index(t, &rigs.items[d], &expert_cases[i], 41);
}

static void rows_of_several(struct harness *t)
{
    static const uint32_t most[] = {3, 30, 70};
    for (unsigned d = 0; d < rigs.n; d++)
        for (size_t i = 0; i < sizeof expert_cases / sizeof *expert_cases; i++)
            if (expert_cases[i].n <= MOST_EACH && expert_cases[i].hidden < 2048)
                for (int k = 0; k < 3; k++)
                    check_rows(t, &rigs.items[d], &expert_cases[i], most[k]);
}

// One wrong thing each; nothing is launched.
static void what_lies_outside_is_refused(struct harness *t)
{
    const struct expert_case c = {64, 32, 2, 4, 32};
    for (unsigned d = 0; d < rigs.n; d++) {
        gpu *g = rigs.items[d].g;
        struct blobs blobs = random_blobs(&c, c.n);
        float x[64] = {0};
        gpu_buf *matrices = upload(g, blobs.bytes, blobs.size), *in = upload(g, x, sizeof x);
        gpu_buf *act = upload(g, x, 2 * 32 * 4), *out = upload(g, x, 64 * 4);
        struct args_swiglu_experts good = {.gate = blobs.gate,
                                           .up = blobs.up,
                                           .at = {.n = 2, .place = {0, blobs.each}, .rank = {0, 1}},
                                           .out_stride = 32};
        gpu_buf *ids = upload(g, (int32_t[]){0, 1}, 8);
        struct gpu_experts_bufs swiglu = {matrices, ids, in, act, NULL, NULL},
                                matvec = {matrices, ids, act, out, NULL, NULL};
        for (int wrong = 0; wrong < 13; wrong++) {
            struct args_swiglu_experts a = good;
            struct args_matvec_experts m = {.matrix = blobs.down, .at = good.at, .in_stride = 32, .out_stride = 64};
            switch (wrong) {
            case 0:
                a.at.n = MOST_EXPERTS + 1;
                break;
            case 1:
                a.at.place[1] = 2 * blobs.each;
                break;
            case 2:
                a.at.place[1] = UINT64_MAX - 3;
                break;
            case 3:
                a.at.rank[0] = 2;
                break;
            case 4:
                a.at.rank[1] = UINT32_MAX;
                break;
            case 5:
                a.in_offset = 1;
                break;
            case 6:
                break; // of matvec: out has one row
            case 12:
                a.is_gated = 1; // without a shared expert
                break;
            default:
                a.at = (struct args_places){.stride = blobs.each, .n = 2, .by_id = 1, .n_experts = 2};
                a.at.first_id = wrong == 7;
                a.at.n_experts = wrong == 8 ? 3 : wrong == 9 ? 0 : 2;
                a.at.base = wrong == 10 ? blobs.each : 0;
                a.at.stride = wrong == 11 ? UINT64_MAX - 3 : blobs.each;
            }
            if (wrong == 6)
                gpu_op_matvec_experts(g, &m, &matvec);
            else
                gpu_op_swiglu_experts(g, &a, &swiglu);
            CHECK_EQ(t, gpu_check(g, NULL), GPU_ARGUMENT);
        }
        gpu_op_swiglu_experts(g, &good, &swiglu);
        good.at = (struct args_places){.stride = blobs.each, .n = 2, .by_id = 1, .n_experts = 2};
        gpu_op_swiglu_experts(g, &good, &swiglu);
        CHECK_EQ(t, gpu_finish(g, NULL), 0);
        gpu_buf_free(ids), gpu_buf_free(matrices), gpu_buf_free(in), gpu_buf_free(act), gpu_buf_free(out);
        free(blobs.bytes);
    }
}

// The same sums where the shared expert's matrix has another program than the routed ones'; adds to both outputs.
static void check_other_kind(struct harness *t, struct rig *rig, const struct args_add_experts *add,
                             const struct gpu_add_experts_bufs *b, gpu_buf *apart)
{
    gpu *g = rig->g;
    struct args_add_experts other = *add;
    other.shared.kind = KIND_Q8_0;
    other.shared.weight = 0;
    uint64_t size = matrix_bytes(&other.shared);
    unsigned char *bytes = must(malloc(size));
    for (uint64_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(i % 34 < 2 ? 0x2b : i * 37);
    struct gpu_add_experts_bufs bufs = *b;
    struct gpu_format format = gpu_format_of(&other.shared, USE_PRODUCTS);
    struct args_matmul shared = {.matrix = other.shared, .n_rows = 1, .in_offset = add->shared_offset, .add = 1};
    struct args_matvec_experts routed = {
        .matrix = add->matrix, .at = add->at, .in_stride = add->in_stride, .out_stride = add->matrix.out_dim};
    struct args_combine sum = {.n_partials = add->at.n, .dim = add->matrix.out_dim, .first_weight = add->first_weight};
    CHECK_EQ(t, gpu_open_formats(g, &format, 1, NULL, NULL), GPU_OK);
    bufs.of.shared = upload(g, bytes, size);
    gpu_op_matvec(g, &shared, bufs.of.shared, b->of.x, apart);
    struct gpu_experts_bufs partials = bufs.of;
    partials.y = b->partial;
    gpu_op_matvec_experts(g, &routed, &partials);
    gpu_op_combine(g, &sum, b->partial, b->weight, apart);
    uint64_t launches = gpu_counters(g).launches;
    gpu_op_add_experts(g, &other, &bufs);
    CHECK_EQ(t, gpu_counters(g).launches - launches, 2);
    CHECK(t, same(rig, "add_experts and a shared one of another kind", apart, b->out));
    gpu_buf_free(bufs.of.shared);
    free(bytes);
}

// A token's experts and the shared one in two launches, and each op by itself. The shared one is `times` as wide.
static void check_shared(struct harness *t, struct rig *rig, const struct expert_case *c, uint32_t times)
{
    gpu *g = rig->g;
    struct expert_case wide = {c->hidden, times * c->inner, 1, c->bits == 4 ? 8 : 4, 32};
    struct blobs blobs = random_blobs(c, c->n), one = random_blobs(&wide, 1);
    uint32_t stride = c->inner + 3, shared_offset = c->n * stride + 1, n_act = shared_offset + wide.inner + 2;
    float *x = random_floats(c->hidden + 5, 500), *weight = random_floats(c->n + 1, 501);
    float *hidden = random_floats(c->hidden + 1, 502), *blank = poisoned(n_act);
    gpu_buf *matrices = upload(g, blobs.bytes, blobs.size), *in = upload(g, x, (c->hidden + 5) * 4);
    gpu_buf *act[2], *out[2], *shared = times ? upload(g, one.bytes, one.size) : NULL;
    for (int i = 0; i < 2; i++) {
        act[i] = upload(g, blank, n_act * 4);
        out[i] = upload(g, hidden, (c->hidden + 1) * 4);
    }
    int32_t ids[MOST_EXPERTS];
    for (uint32_t k = 0; k < c->n; k++)
        ids[k] = (int32_t)blob_of(k, c->n);
    gpu_buf *id_buf = upload(g, ids, sizeof ids), *weights = upload(g, weight, (c->n + 1) * 4);
    gpu_buf *partial = gpu_buf_new(g, (uint64_t)(c->n + 1) * c->hidden * 4, NULL);
    struct args_swiglu_experts swiglu = {.gate = blobs.gate,
                                         .up = blobs.up,
                                         .at = {.stride = blobs.each, .n = c->n, .by_id = 1, .n_experts = c->n},
                                         .in_offset = 5,
                                         .out_stride = stride,
                                         .shared_offset = shared_offset,
                                         .limit = limit_of(c),
                                         .situ_beta = situ_beta_of(c)};
    struct args_add_experts add = {
        .matrix = blobs.down, .at = swiglu.at, .in_stride = stride, .shared_offset = shared_offset, .first_weight = 1};
    struct gpu_experts_bufs bufs = {matrices, id_buf, in, act[0], NULL, NULL};
    gpu_op_swiglu_experts(g, &swiglu, &bufs);
    if (times) {
        struct args_swiglu wide_in = {.gate = one.gate,
                                      .up = one.up,
                                      .n_rows = 1,
                                      .in_offset = 5,
                                      .out_offset = shared_offset,
                                      .limit = limit_of(c),
                                      .situ_beta = situ_beta_of(c)};
        struct args_matmul wide_out = {.matrix = one.down, .n_rows = 1, .in_offset = shared_offset, .add = 1};
        struct args_gate_product gate = {
            .n_rows = 1, .n_heads = 1, .dim = one.gate.out_dim, .offset = shared_offset, .one_each = 1};
        gpu_op_swiglu_vec(g, &wide_in, shared, in, act[0]);
        swiglu.is_gated = times == 2;
        if (swiglu.is_gated)
            gpu_op_gate_product(g, &gate, weights, act[0]);
        gpu_op_matvec(g, &wide_out, shared, act[0], out[0]);
        swiglu.shared_gate = one.gate;
        swiglu.shared_up = one.up;
        add.shared = one.down;
    }
    struct args_matvec_experts matvec = {
        .matrix = blobs.down, .at = swiglu.at, .in_stride = stride, .out_stride = c->hidden};
    gpu_op_matvec_experts(g, &matvec, &(struct gpu_experts_bufs){matrices, id_buf, act[0], partial, NULL, NULL});
    gpu_op_combine(g, &(struct args_combine){.n_partials = c->n, .dim = c->hidden, .first_weight = 1}, partial, weights,
                   out[0]);
    uint64_t launches = gpu_counters(g).launches;
    bufs.y = act[1];
    bufs.shared = shared;
    bufs.gate = weights;
    gpu_op_swiglu_experts(g, &swiglu, &bufs);
    bufs.x = act[1];
    struct gpu_add_experts_bufs add_bufs = {bufs, weights, partial, out[1]};
    gpu_op_add_experts(g, &add, &add_bufs);
    if (strcmp(rig->label, "ref/ref") != 0)
        CHECK_EQ(t, gpu_counters(g).launches - launches, 2);
    if (!CHECK(t, same(rig, "swiglu_experts", act[0], act[1]) && same(rig, "add_experts", out[0], out[1])))
        printf("    %u experts, %u -> %u, %u bits, the shared one %u times\n", c->n, c->hidden, c->inner, c->bits,
               times);
    if (times && g->cpu_shape) // a program for GPUs takes PoCL long
        check_other_kind(t, rig, &add, &add_bufs, out[0]);
    for (int i = 0; i < 2; i++)
        gpu_buf_free(act[i]), gpu_buf_free(out[i]);
    gpu_buf_free(matrices), gpu_buf_free(in), gpu_buf_free(id_buf), gpu_buf_free(shared);
    gpu_buf_free(weights), gpu_buf_free(partial);
    free(blobs.bytes), free(one.bytes), free(x), free(weight), free(hidden), free(blank);
}

static void with_the_shared_one(struct harness *t)
{
    for (unsigned d = 0; d < rigs.n; d++)
        for (size_t i = 0; i < sizeof expert_cases / sizeof *expert_cases; i++)
            check_shared(t, &rigs.items[d], &expert_cases[i], (uint32_t)(i % 3));
}

// What does not fit the shared expert, or the sum, is refused.
static void what_is_added_must_fit(struct harness *t)
{
    static const struct expert_case c = {64, 32, 2, 4, 32};
    for (unsigned d = 0; d < rigs.n; d++) {
        gpu *g = rigs.items[d].g;
        struct blobs blobs = random_blobs(&c, 2);
        float *x = random_floats(3 * 64, 500);
        gpu_buf *matrices = upload(g, blobs.bytes, blobs.size), *act = upload(g, x, 3 * 32 * 4);
        gpu_buf *weights = upload(g, x, 2 * 4), *partial = upload(g, x, 3 * 64 * 4), *out = upload(g, x, 64 * 4);
        gpu_buf *less = upload(g, x, 2 * 64 * 4);
        for (int wrong = 0; wrong < 8; wrong++) {
            struct args_add_experts a = {.matrix = blobs.down,
                                         .shared = blobs.down,
                                         .at = {.n = 2, .place = {0, blobs.each}, .rank = {0, 1}},
                                         .in_stride = 32,
                                         .shared_offset = 64};
            struct gpu_add_experts_bufs b = {{matrices, NULL, act, NULL, matrices, NULL}, weights, partial, out};
            a.at.rank[1] = wrong == 1 ? 2 : 1;
            a.shared_offset += wrong == 2;
            a.first_weight = wrong == 3;
            a.shared.out_dim -= wrong == 4;
            b.partial = wrong == 5 ? less : partial;
            b.of.shared = wrong == 6 ? NULL : matrices;
            b.out = wrong == 7 ? weights : out;
            gpu_op_add_experts(g, &a, &b);
            CHECK_EQ(t, gpu_finish(g, NULL), wrong ? GPU_ARGUMENT : GPU_OK);
        }
        gpu_buf_free(matrices), gpu_buf_free(act), gpu_buf_free(weights), gpu_buf_free(partial), gpu_buf_free(out);
        gpu_buf_free(less);
        free(blobs.bytes), free(x);
    }
}

// Adding up and norming in one launch, in two, and adding up on the host.
static void check_combine(struct harness *t, struct rig *rig, uint32_t dim, uint32_t n)
{
    gpu *g = rig->g;
    float *partial = random_floats((size_t)n * dim, 600 + dim), *hidden = random_floats(dim + 1, 700 + n);
    float *weight = random_floats(n + 2, 800), *blank = poisoned(dim + 1);
    float *norm = must(malloc((dim + 1) * sizeof *norm));
    uint32_t seed = 21;
    for (uint32_t i = 0; i <= dim; i++)
        norm[i] = 1.0f + 0.5f * random_float(&seed);
    struct gpu_combine_bufs b = {upload(g, partial, (size_t)n * dim * 4), upload(g, weight, (n + 2) * 4),
                                 upload(g, hidden, (dim + 1) * 4), upload(g, norm, (dim + 1) * sizeof *norm),
                                 upload(g, blank, (dim + 1) * 4)};
    gpu_buf *out = upload(g, hidden, (dim + 1) * 4), *y = upload(g, blank, (dim + 1) * 4);
    gpu_buf *host = upload(g, hidden, (dim + 1) * 4);
    struct args_combine combine = {.n_partials = n, .dim = dim, .first_weight = 2};
    struct args_rmsnorm rmsnorm = {.weight = 4, .n_rows = 1, .dim = dim, .eps = 1e-5f, .plus_one = n % 2};
    struct args_combine_norm both = {
        .norm = 4, .n_partials = n, .dim = dim, .first_weight = 2, .eps = 1e-5f, .plus_one = n % 2};
    gpu_op_combine(g, &combine, b.partial, b.weight, out);
    gpu_op_rmsnorm(g, &rmsnorm, b.norm, out, y);
    gpu_op_combine_norm(g, &both, &b);
    host_combine(&combine, partial, weight, hidden);
    gpu_write(g, host, 0, hidden, (dim + 1) * 4);
    if (!CHECK(t, same(rig, "combine_norm's sum", out, b.out) && same(rig, "combine_norm's norm", y, b.y) &&
                      same(rig, "the host's sum", out, host)))
        printf("    %u partial sums of %u\n", n, dim);
    gpu_buf_free(b.partial), gpu_buf_free(b.weight), gpu_buf_free(b.out), gpu_buf_free(b.norm), gpu_buf_free(b.y);
    gpu_buf_free(out), gpu_buf_free(y), gpu_buf_free(host);
    free(partial), free(hidden), free(weight), free(blank), free(norm);
}

static void combine_and_norm_in_one(struct harness *t)
{
    static const uint32_t dims[] = {1, 7, 16, 31, 100, 255, 257, 448, 2048, 5121, 7168};
    for (unsigned d = 0; d < rigs.n; d++)
        for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
            for (uint32_t n = 1; n < 12; n += 1 + n / 4)
                check_combine(t, &rigs.items[d], dims[i], n);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(several_at_once),         TEST(rows_of_several),
        TEST(rows_by_index),           TEST(what_lies_outside_is_refused),
        TEST(with_the_shared_one),     TEST(what_is_added_must_fit),
        TEST(combine_and_norm_in_one),
    };
    rigs = open_rigs();
    int failed = HARNESS_RUN(tests, argc, argv);
    close_rigs(&rigs);
    return failed;
}
