// SPDX-License-Identifier: GPL-3.0-or-later
// Every kind of matrix on every device and both shapes: weights are gguf-py's bit for bit (tests/ops/data/kinds.bin, by
// make_kinds.py), products are those of the weights in float64.
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/ops_check.h"
#include "tests/ops/rig.h"

enum { MOST_RECORDS = 80 };

struct record {
    char name[16];
    uint32_t scale_type, group_size, in_dim, n_rows, weight_bytes, scale_bytes, bias_bytes;
};

// Rows of one kind, and what they are.
struct known {
    struct args_matrix m;
    const unsigned char *bytes;
    size_t size;
    const float *rows;
};

static struct rigs rigs; // opened once: building kernels takes seconds
static struct known all[MOST_RECORDS];
static unsigned n_known;

static uint32_t kind_called(const char *name)
{
    for (uint32_t kind = KIND_NONE + 1; kind < KIND_COUNT; kind++)
        if (strcmp(kind_name(kind), name) == 0)
            return kind;
    fprintf(stderr, "kinds.bin: no kind is called %s\n", name);
    exit(70);
}

static void read_known(void)
{
    static unsigned char file[1 << 20];
    FILE *f = fopen("tests/ops/data/kinds.bin", "rb");
    size_t size = f ? fread(file, 1, sizeof file, f) : 0;
    if (!f || size == 0 || size == sizeof file) {
        fprintf(stderr, "tests/ops/data/kinds.bin cannot be read; run from the root\n");
        exit(70);
    }
    fclose(f);
    struct record r;
    for (size_t at = 0; at < size; n_known++) {
        memcpy(&r, file + at, sizeof r);
        at += sizeof r;
        struct known *k = &all[n_known];
        k->size = (size_t)r.weight_bytes + r.scale_bytes + r.bias_bytes;
        k->bytes = file + at;
        k->m = (struct args_matrix){.scales = r.weight_bytes,
                                    .biases = r.weight_bytes + r.scale_bytes,
                                    .in_dim = r.in_dim,
                                    .out_dim = r.n_rows,
                                    .kind = kind_called(r.name),
                                    .group_size = r.group_size,
                                    .scale_type = r.scale_type};
        k->rows = must(malloc((size_t)r.n_rows * r.in_dim * sizeof *k->rows));
        at += k->size;
        memcpy((float *)k->rows, file + at, (size_t)r.n_rows * r.in_dim * sizeof *k->rows);
        at += (size_t)r.n_rows * r.in_dim * sizeof *k->rows;
        const char *only = getenv("MOECHAT_TEST_KIND");
        n_known -= only && strcmp(only, "every") != 0 && strcmp(only, r.name) != 0;
    }
}

// The same rows with a factor behind them.
static void add_with_factor(const struct known *from, uint32_t how)
{
    const float stored = how == FACTOR_OF_LARGEST ? 3.7f : 0.0137f;
    const float factor = how == FACTOR_OF_LARGEST ? stored * (1 / 2688.0f) : stored;
    struct known *k = &all[n_known++];
    size_t at = (from->size + 3) / 4 * 4, n = (size_t)from->m.out_dim * from->m.in_dim;
    unsigned char *bytes = must(calloc(1, at + 4));
    float *rows = must(malloc(n * sizeof *rows));
    memcpy(bytes, from->bytes, from->size);
    memcpy(bytes + at, &stored, 4);
    for (size_t i = 0; i < n; i++)
        rows[i] = from->rows[i] * factor;
    *k = (struct known){from->m, bytes, at + 4, rows};
    k->m.biases = at;
    k->m.factor = how;
}

static void add_factors(void)
{
    for (unsigned i = 0, n = n_known; i < n; i++)
        for (uint32_t how = FACTOR_ITSELF; kind_takes_factor(all[i].m.kind) && how <= FACTOR_OF_LARGEST; how++)
            add_with_factor(&all[i], how);
}

// What takes kinds apart is the same in all ops, and proved for each by its weights. Drivers take long to build the
// rest, most of all a CPU's the kernels for GPUs: those, and other ops than products, are tried with a kind of each
// layout.
static bool is_sample(const struct known *k)
{
    static const uint32_t samples[] = {KIND_Q4_0, KIND_Q4_K, KIND_Q6_K, KIND_IQ2_XS, KIND_MLX_NVFP4};
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
        if (k->m.kind == samples[i])
            return true;
    return k->m.kind == KIND_MLX_5 && k->m.group_size == 128;
}

// A program for GPUs takes PoCL seconds a kind: of those, make check takes the sample alone, and who names a kind (or
// "every" one) has it.
static bool is_tried(const struct rig *rig, const struct known *k)
{
    return is_sample(k) || getenv("MOECHAT_TEST_KIND") || rig->g->cpu_shape ||
           gpu_describe(rig->g)->kind == GPU_KIND_REF ||
           strstr(gpu_describe(rig->g)->platform, "Portable Computing Language") == NULL;
}

// For all that is tried with the kind: a program is built anew for each further use, and all its kernels with it.
static void open_kind(struct rig *rig, const struct known *k)
{
    uint32_t uses = is_sample(k)       ? USE_ROWS | USE_PRODUCTS | USE_EXPERTS | USE_HEADS | USE_KEYS
                    : is_tried(rig, k) ? USE_ROWS | USE_PRODUCTS
                                       : USE_ROWS;
    struct gpu_format format = gpu_format_of(&k->m, uses);
    struct gpu_error err = {0};
    if (gpu_open_formats(rig->g, &format, 1, NULL, &err) != GPU_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(70);
    }
}

// ---- weights

static int check_weights(struct rig *rig, const struct known *k)
{
    int32_t ids[16];
    size_t n = (size_t)k->m.out_dim * k->m.in_dim;
    struct args_embed a = {.table = k->m, .n_rows = k->m.out_dim};
    for (int i = 0; i < 16; i++)
        ids[i] = i;
    float *blank = poisoned(n);
    gpu_buf *table = upload(rig->g, k->bytes, k->size), *id_buf = upload(rig->g, ids, sizeof ids);
    gpu_buf *out = upload(rig->g, blank, n * sizeof *blank);
    gpu_op_embed(rig->g, &a, table, id_buf, out);
    float *got = download(rig->g, out);
    size_t wrong = 0;
    while (got && wrong < n && memcmp(&got[wrong], &k->rows[wrong], sizeof *got) == 0)
        wrong++;
    if (got && wrong < n)
        printf("    %s: %s, scales %u: input %zu of row %zu is %.9g (%a), not %.9g (%a)\n", rig->label,
               kind_name(k->m.kind), k->m.scale_type, wrong % k->m.in_dim, wrong / k->m.in_dim, (double)got[wrong],
               (double)got[wrong], (double)k->rows[wrong], (double)k->rows[wrong]);
    int good = got && wrong == n;
    free(got), free(blank);
    gpu_buf_free(table), gpu_buf_free(id_buf), gpu_buf_free(out);
    return good;
}

static void weights_are_as_known(struct harness *t)
{
    bool seen[KIND_COUNT] = {[KIND_NONE] = true, [KIND_F32] = true, [KIND_BF16] = true}; // test_ops has these
    for (unsigned d = 0; d < rigs.n; d++)
        for (unsigned i = 0; i < n_known; i++) {
            open_kind(&rigs.items[d], &all[i]);
            CHECK(t, check_weights(&rigs.items[d], &all[i]));
            seen[all[i].m.kind] = true;
        }
    for (uint32_t kind = 0; kind < KIND_COUNT; kind++)
        if (!CHECK(t, seen[kind] || getenv("MOECHAT_TEST_KIND")))
            printf("    %s has no record\n", kind_name(kind));
}

// ---- matrices of any size, put together from the ordinary rows' blocks

static struct test_matrices build(const struct known *k, uint32_t out_dim, uint32_t in_dim, unsigned n)
{
    static const uint32_t ordinary[] = {0, 6, 7, 8};
    const struct kind_info *info = kind_info(k->m.kind);
    uint32_t seed = 77 + in_dim + out_dim, n_ordinary = k->m.out_dim > 8 ? 4 : 1;
    struct args_matrix shape = k->m;
    shape.in_dim = in_dim;
    shape.out_dim = out_dim;
    const uint64_t step = k->m.kind == KIND_IQ4_XS ? 8 : 4; // matrices lie at multiples of it
    struct test_matrices m = {.size = step};
    uint64_t known_row = matrix_row_bytes(&k->m), known_scales = matrix_scale_bytes(&k->m);
    uint32_t unit = info->block_inputs == 1 ? 2 : info->block_bytes; // bytes that go together
    uint32_t width = info->scales == SCALES_BYTES ? 1 : shape.scale_type == SCALE_F32 ? 4 : 2;
    m.bytes = must(malloc(step + n * (matrix_bytes(&shape) + 24)));
    for (unsigned i = 0; i < n; i++) {
        m.at[i] = shape;
        m.at[i].weight = (m.size + step - 1) / step * step;
        m.at[i].scales = (m.at[i].weight + out_dim * matrix_row_bytes(&shape) + 3) / 4 * 4;
        m.at[i].biases = (m.at[i].scales + out_dim * matrix_scale_bytes(&shape) + 3) / 4 * 4;
        m.size = (m.at[i].biases + out_dim * matrix_bias_bytes(&shape) + matrix_factor_bytes(&shape) + 3) / 4 * 4;
        memcpy(m.bytes + m.at[i].biases, k->bytes + k->m.biases, matrix_factor_bytes(&shape));
        for (uint64_t at = 0; at < out_dim * matrix_row_bytes(&shape); at += unit) {
            uint64_t row = ordinary[random_next(&seed) % n_ordinary] * known_row;
            memcpy(m.bytes + m.at[i].weight + at, k->bytes + row + random_next(&seed) % (known_row / unit) * unit,
                   unit);
        }
        for (uint64_t at = 0; at < out_dim * matrix_scale_bytes(&shape); at += width) {
            uint64_t from = random_next(&seed) % (known_scales / width) * width;
            from += info->scales == SCALES_BYTES ? known_scales : 0; // the first row has E8M0's extremes
            memcpy(m.bytes + m.at[i].scales + at, k->bytes + k->m.scales + from, width);
            if (matrix_bias_bytes(&shape))
                memcpy(m.bytes + m.at[i].biases + at, k->bytes + k->m.biases + from, width);
        }
    }
    if (info->block_inputs == 1) // numbers of ordinary size
        for (uint64_t at = m.at[0].weight; at < m.size; at += 2) {
            uint16_t half = ref_float_to_half(random_float(&seed));
            memcpy(m.bytes + at, &half, 2);
        }
    return m;
}

// The product of a row and x in float64, and its terms.
static double product(const struct test_matrices *m, unsigned which, uint32_t row, const float *x, double *terms)
{
    float *w = must(malloc(m->at[which].in_dim * sizeof *w));
    ref_matrix_row(&m->at[which], m->bytes, row, w);
    double sum = 0;
    *terms = 0;
    for (uint32_t i = 0; i < m->at[which].in_dim; i++) {
        sum += (double)w[i] * (double)x[i];
        *terms += fabs((double)w[i] * (double)x[i]);
    }
    free(w);
    return sum;
}

// Of the terms. A matmul of the CPU's sums its inputs one by one; all else sums many side by side.
static const double bound = 4.0 / (1 << 24), bound_of_rows = 8.0 / (1 << 24);
static double worst;

static int is_near(double got, double want, double terms, uint32_t n_rows)
{
    double error = fabs(got - want) / (terms + 1e-30);
    worst = error > worst ? error : worst;
    return error <= (n_rows == 1 ? bound : bound_of_rows);
}

static int check_product(struct rig *rig, const struct known *k, const uint32_t *size)
{
    uint32_t n_rows = size[0], in_dim = size[1], out_dim = size[2];
    struct test_matrices m = build(k, out_dim, in_dim, 1);
    struct args_matmul a = {.matrix = m.at[0],
                            .n_rows = n_rows,
                            .in_stride = in_dim + 3,
                            .in_offset = 2,
                            .out_stride = out_dim + 5,
                            .out_offset = 4};
    size_t n_in = (size_t)n_rows * a.in_stride + 2, n_out = (size_t)n_rows * a.out_stride + 4;
    float *x = random_floats(n_in, 5 + n_rows), *blank = poisoned(n_out);
    gpu_buf *matrix = upload(rig->g, m.bytes, m.size), *in = upload(rig->g, x, n_in * sizeof *x);
    gpu_buf *out = upload(rig->g, blank, n_out * sizeof *blank);
    (n_rows == 1 ? gpu_op_matvec : gpu_op_matmul)(rig->g, &a, matrix, in, out);
    float *got = download(rig->g, out);
    int good = got != NULL;
    for (size_t i = 0; i < n_out && good; i++) {
        size_t r = (i - 4) / a.out_stride, o = (i - 4) % a.out_stride;
        double terms = 0, want = 0;
        if (i >= 4 && r < n_rows && o < out_dim) {
            want = product(&m, 0, (uint32_t)o, x + r * a.in_stride + 2, &terms);
            good = is_near((double)got[i], want, terms, n_rows);
        } else {
            good = memcmp(&got[i], &poison, sizeof poison) == 0;
        }
        if (!good)
            printf("    %s, %s: %u rows, %u to %u: output %zu of row %zu is %.9g, not %.9g; error %.2g of the terms\n",
                   rig->label, kind_name(k->m.kind), n_rows, in_dim, out_dim, o, r, (double)got[i], want,
                   fabs((double)got[i] - want) / terms);
    }
    free(got), free(x), free(blank), free(m.bytes);
    gpu_buf_free(matrix), gpu_buf_free(in), gpu_buf_free(out);
    return good;
}

static void products_are_near(struct harness *t)
{
    static const uint32_t sizes[][3] = {{1, 256, 1}, {1, 7424, 35}, {1, 512, 131},
                                        {5, 256, 9}, {19, 768, 33}, {70, 512, 65}};
    static const uint32_t large[][3] = {{1, 8704, 19},
                                        {1, 256, 17000}}; // of several chunks, and for groups of many rows
    static const uint32_t narrow[][3] = {{1, 96, 7}, {1, 1408, 5}, {1, 960, 6}, {3, 160, 17}}; // of blocks of 32 or 64
    for (unsigned d = 0; d < rigs.n; d++) {
        worst = 0;
        for (unsigned i = 0; i < n_known; i++) {
            if (!is_tried(&rigs.items[d], &all[i]))
                continue;
            open_kind(&rigs.items[d], &all[i]);
            for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++)
                CHECK(t, check_product(&rigs.items[d], &all[i], sizes[j]));
            for (size_t j = 0; is_sample(&all[i]) && j < sizeof large / sizeof *large; j++)
                CHECK(t, check_product(&rigs.items[d], &all[i], large[j]));
            uint32_t block = kind_info(all[i].m.kind)->block_inputs;
            bool small = block <= 64 && all[i].m.group_size <= 32;
            for (size_t j = 0; small && j < sizeof narrow / sizeof *narrow; j++)
                CHECK(t, narrow[j][1] % block || check_product(&rigs.items[d], &all[i], narrow[j]));
        }
        printf("%s: the largest error is %.2f / 2^24 of the terms\n", rigs.items[d].label, worst * (1 << 24));
    }
}

// ---- what a row of x takes when it is packed: CPUs have room for as much as its kind was said to need, and no more

static int stays_within(struct rig *rig, const struct known *k, uint32_t in_dim)
{
    enum { OUT = 7, BEHIND = 64 };
    struct test_matrices m = build(k, OUT, in_dim, 1);
    struct args_matmul a = {.matrix = m.at[0], .n_rows = 1};
    size_t room = op_packed_floats(&a.matrix), n = room + BEHIND;
    float *x = random_floats(in_dim, 3), *blank = poisoned(n);
    gpu_buf *matrix = upload(rig->g, m.bytes, m.size), *in = upload(rig->g, x, in_dim * sizeof *x);
    gpu_buf *out = upload(rig->g, blank, OUT * sizeof *blank), *scratch = gpu_scratch(rig->g, n * sizeof *blank);
    gpu_write(rig->g, scratch, 0, blank, n * sizeof *blank);
    gpu_op_matvec(rig->g, &a, matrix, in, out);
    float *got = download(rig->g, scratch);
    int good = got != NULL;
    for (size_t i = room; i < n && good; i++)
        good = memcmp(&got[i], &poison, sizeof poison) == 0;
    if (!good)
        printf("    %s, %s: %u inputs take more than %zu floats\n", rig->label, kind_name(k->m.kind), in_dim, room);
    free(got), free(x), free(blank), free(m.bytes);
    gpu_buf_free(matrix), gpu_buf_free(in), gpu_buf_free(out);
    return good;
}

static void packed_rows_have_room(struct harness *t)
{
    static const uint32_t widths[] = {32, 96, 256, 288};
    CHECK(t, rigs.n > 0); // in the shape of GPUs nothing is packed
    for (unsigned d = 0; d < rigs.n; d++)
        for (unsigned i = 0; rigs.items[d].g->cpu_shape && i < n_known; i++) {
            uint32_t block = kind_info(all[i].m.kind)->block_inputs, group = all[i].m.group_size;
            if (!is_tried(&rigs.items[d], &all[i]))
                continue;
            open_kind(&rigs.items[d], &all[i]);
            for (size_t j = 0; j < sizeof widths / sizeof *widths; j++)
                CHECK(t, widths[j] % block || (group && widths[j] % group) ||
                             stays_within(&rigs.items[d], &all[i], widths[j]));
        }
}

// ---- head by head: with one head and all rows its own, what matmul computes; folded keys against float64

static int check_heads(struct rig *rig, const struct known *k, uint32_t n_rows)
{
    enum { HEADS = 3, OUT = 5, IN = 512, NOPE = 7, V = 6 };
    struct test_matrices m = build(k, HEADS * (NOPE + V), IN, 1);
    struct args_heads a = {.matrix = m.at[0],
                           .n_rows = n_rows,
                           .n_heads = HEADS,
                           .n_out = OUT,
                           .head_rows = NOPE + V,
                           .first_row = NOPE,
                           .row_stride = HEADS * IN,
                           .head_stride = IN,
                           .decode = n_rows == 1};
    struct args_kv_b b = {.kv_b = m.at[0],
                          .n_rows = n_rows,
                          .n_heads = HEADS,
                          .qk_nope_head_dim = NOPE,
                          .v_head_dim = V,
                          .q_row_stride = HEADS * IN,
                          .q_head_stride = IN,
                          .decode = n_rows == 1};
    size_t n_in = (size_t)n_rows * HEADS * IN, n_out = (size_t)n_rows * HEADS * OUT;
    float *x = random_floats(n_in, 9), *blank = poisoned(n_in);
    gpu_buf *matrix = upload(rig->g, m.bytes, m.size), *in = upload(rig->g, x, n_in * sizeof *x);
    gpu_buf *out = upload(rig->g, blank, n_out * sizeof *blank), *folded = upload(rig->g, blank, n_in * sizeof *blank);
    gpu_op_heads(rig->g, &a, matrix, in, out);
    gpu_op_q_prime(rig->g, &b, matrix, in, folded);
    float *got = download(rig->g, out), *keys = download(rig->g, folded);
    float *rows = must(malloc(sizeof *rows * HEADS * (NOPE + V) * IN));
    int good = got && keys;
    for (uint32_t i = 0; i < HEADS * (NOPE + V); i++)
        ref_matrix_row(&m.at[0], m.bytes, i, rows + (size_t)i * IN);
    for (uint32_t i = 0; good && i < n_rows * HEADS; i++) {
        const float *own = x + (size_t)i * IN, *head = rows + (size_t)(i % HEADS) * (NOPE + V) * IN;
        double terms;
        for (uint32_t o = 0; good && o < OUT; o++) {
            double want = product(&m, 0, i % HEADS * (NOPE + V) + NOPE + o, own, &terms);
            good = is_near((double)got[i * OUT + o], want, terms, n_rows);
        }
        for (uint32_t c = 0; good && c < IN; c++) {
            double want = terms = 0;
            for (uint32_t j = 0; j < NOPE; j++) {
                want += (double)own[j] * (double)head[j * IN + c];
                terms += fabs((double)own[j] * (double)head[j * IN + c]);
            }
            good = is_near((double)keys[(size_t)i * IN + c], want, terms, n_rows);
        }
    }
    if (!good)
        printf("    %s, %s: heads or q_prime of %u rows\n", rig->label, kind_name(k->m.kind), n_rows);
    free(got), free(keys), free(rows), free(x), free(blank), free(m.bytes);
    gpu_buf_free(matrix), gpu_buf_free(in), gpu_buf_free(out), gpu_buf_free(folded);
    return good;
}

static void heads_are_near(struct harness *t)
{
    for (unsigned d = 0; d < rigs.n; d++)
        for (unsigned i = 0; i < n_known; i++) {
            if (!is_sample(&all[i]))
                continue;
            open_kind(&rigs.items[d], &all[i]);
            CHECK(t, check_heads(&rigs.items[d], &all[i], 1));
            CHECK(t, check_heads(&rigs.items[d], &all[i], 18));
        }
}

// ---- a norm on the way to two matrices is one before them, to the bit

static int same_numbers(struct rig *rig, const char *what, gpu_buf *a, gpu_buf *b)
{
    float *x = download(rig->g, a), *y = download(rig->g, b);
    int good = x && y && memcmp(x, y, gpu_buf_bytes(a)) == 0;
    if (!good)
        printf("    %s: %s\n", rig->label, what);
    free(x), free(y);
    return good;
}

static int check_normed(struct rig *rig, const struct known *k, uint32_t in_dim, uint32_t at)
{
    enum { OUT = 37 };
    gpu *g = rig->g;
    float *x = random_floats(at + in_dim, 41), *weight = random_floats(at + in_dim, 42),
          *blank = poisoned(OUT + in_dim);
    gpu_buf *in = upload(g, x, (at + in_dim) * 4), *norm = upload(g, weight, (at + in_dim) * 4);
    gpu_buf *normed[] = {upload(g, blank, in_dim * 4), upload(g, blank, in_dim * 4)}, *out[4], *matrix[2];
    struct args_norm_matvecs a = {.norm = 4 * at, .n = 2, .in_offset = at, .eps = 1e-5f, .plus_one = at == 0};
    struct args_rmsnorm before = {
        .weight = 4 * at, .n_rows = 1, .dim = in_dim, .in_offset = at, .eps = 1e-5f, .plus_one = a.plus_one};
    gpu_op_rmsnorm(g, &before, norm, in, normed[0]);
    for (uint32_t i = 0; i < 2; i++) {
        struct test_matrices m = build(k, i ? 5 : OUT, in_dim, 1);
        matrix[i] = upload(g, m.bytes, m.size);
        out[i] = upload(g, blank, OUT * 4);
        out[2 + i] = upload(g, blank, OUT * 4);
        a.matrix[i] = m.at[0];
        gpu_op_matvec(g, &(struct args_matmul){.matrix = m.at[0], .n_rows = 1}, matrix[i], normed[0], out[i]);
        free(m.bytes);
    }
    gpu_op_norm_matvecs(g, &a,
                        &(struct gpu_norm_matvecs_bufs){norm, in, normed[1], {matrix[0], matrix[1]}, {out[2], out[3]}});
    int good = same_numbers(rig, "the normed row", normed[0], normed[1]) &
               same_numbers(rig, "the first matrix", out[0], out[2]) & same_numbers(rig, "the second", out[1], out[3]);
    if (!good)
        printf("    %s: %s of %u inputs\n", rig->label, kind_name(k->m.kind), in_dim);
    for (uint32_t i = 0; i < 4; i++)
        gpu_buf_free(out[i]);
    for (uint32_t i = 0; i < 2; i++)
        gpu_buf_free(normed[i]), gpu_buf_free(matrix[i]);
    gpu_buf_free(in), gpu_buf_free(norm);
    free(x), free(weight), free(blank);
    return good;
}

static void norms_on_the_way(struct harness *t)
{
    for (unsigned d = 0; d < rigs.n; d++)
        for (unsigned i = 0; i < n_known; i++) {
            if (!is_sample(&all[i]) && !getenv("MOECHAT_TEST_KIND"))
                continue; // the others' take PoCL a second each
            open_kind(&rigs.items[d], &all[i]);
            CHECK(t, check_normed(&rigs.items[d], &all[i], 256, 7));
            CHECK(t, check_normed(&rigs.items[d], &all[i], 4864, 0)); // more than a chunk of x
        }
}

// ---- gate and up, of one kind and of two: in one launch or apart, of one token, of experts, of many tokens

static void check_swiglu(struct harness *t, struct rig *rig, const struct known *k, const struct known *other)
{
    enum { OUT = 37, IN = 512, ROWS = 21 };
    gpu *g = rig->g;
    struct test_matrices gate = build(k, OUT, IN, 1), up = build(other, OUT, IN, 1);
    size_t size = (gate.size + up.size + 67) / 64 * 64;
    unsigned char *bytes = must(calloc(2, size)); // two experts that are the same
    memcpy(bytes, gate.bytes, gate.size);
    memcpy(bytes + gate.size, up.bytes, up.size);
    memcpy(bytes + size, bytes, size);
    struct args_swiglu a = {.gate = gate.at[0],
                            .up = gpu_matrix_behind(&up.at[0], gate.size),
                            .n_rows = 1,
                            .in_stride = IN,
                            .out_stride = OUT};
    float *x = random_floats((size_t)ROWS * IN, 31), *blank = poisoned(ROWS * OUT);
    double some;
    a.limit = (float)fabs(product(&gate, 0, 0, x, &some)); // about half are beyond it
    gpu_buf *matrices = upload(g, bytes, 2 * size), *in = upload(g, x, (size_t)ROWS * IN * 4);
    gpu_buf *one = upload(g, blank, OUT * 4), *many = upload(g, blank, ROWS * OUT * 4);
    gpu_buf *experts = upload(g, blank, 2 * OUT * 4), *twice = upload(g, blank, 2 * OUT * 4);
    struct args_swiglu_experts e = {.gate = a.gate, .up = a.up, .out_stride = OUT, .limit = a.limit};
    e.at = (struct args_places){.place = {size, 0}, .rank = {1, 0}, .n = 2};
    gpu_op_swiglu_vec(g, &a, matrices, in, one);
    gpu_op_swiglu_experts(g, &e, &(struct gpu_experts_bufs){matrices, NULL, in, experts, NULL, NULL});
    a.n_rows = ROWS;
    gpu_op_swiglu_mat(g, &a, matrices, in, many);
    float *got = download(g, one), *rows = download(g, many);
    int good = got && rows;
    for (uint32_t i = 0; good && i < (ROWS + 1) * OUT; i++) {
        uint32_t r = i / OUT, o = i % OUT; // the last row is `one`
        const float *own = x + (size_t)(r == ROWS ? 0 : r) * IN;
        double gates, ups, to_gate = product(&gate, 0, o, own, &gates), to_up = product(&up, 0, o, own, &ups);
        to_gate = fmin(to_gate, (double)a.limit);
        to_up = fmax(fmin(to_up, (double)a.limit), -(double)a.limit);
        double want = to_gate / (1 + exp(-to_gate)) * to_up;
        // |d(silu(g) u)| <= 1.1 |dg| |u| + (|g| + 0.3) |du|, and a few roundings of silu's own
        double terms = 1.1 * gates * fabs(to_up) + (fabs(to_gate) + 0.3) * ups + 4 * fabs(want);
        good = fabs((double)(r == ROWS ? got[o] : rows[i]) - want) <= (r == ROWS ? bound : bound_of_rows) * terms;
    }
    if (!CHECK(t, good))
        printf("    %s: swiglu of %s and %s\n", rig->label, kind_name(k->m.kind), kind_name(other->m.kind));
    float *both = must(malloc(2 * OUT * 4));
    for (int i = 0; got && i < 2; i++)
        memcpy(both + (size_t)i * OUT, got, OUT * 4);
    gpu_write(g, twice, 0, both, 2 * OUT * 4);
    CHECK(t, same_numbers(rig, "swiglu of experts and of one", experts, twice));
    free(both), free(got), free(rows), free(x), free(blank), free(bytes), free(gate.bytes), free(up.bytes);
    gpu_buf_free(matrices), gpu_buf_free(in), gpu_buf_free(one), gpu_buf_free(many), gpu_buf_free(experts),
        gpu_buf_free(twice);
}

static void swiglus_of_two_kinds(struct harness *t)
{
    for (unsigned d = 0; d < rigs.n; d++)
        for (unsigned i = 0; i < n_known; i++) {
            const struct known *next = &all[(i + 1) % n_known];
            if (!is_sample(&all[i]))
                continue;
            while (!is_sample(next))
                next = next + 1 < all + n_known ? next + 1 : all;
            open_kind(&rigs.items[d], &all[i]);
            open_kind(&rigs.items[d], next);
            check_swiglu(t, &rigs.items[d], &all[i], &all[i]);
            check_swiglu(t, &rigs.items[d], &all[i], next);
        }
}

// ---- what is not open is refused by name

static void what_was_not_opened_is_refused(struct harness *t)
{
    struct gpu_error err = {0};
    gpu *g = gpu_open_shape(&(struct gpu_options){.selector = "cpu", .warm_late = true}, GPU_SHAPE_CPU, &err);
    if (!g) {
        printf("SKIP no CPU device\n");
        return;
    }
    const struct known *k = &all[0]; // if another kind alone is asked for
    for (unsigned i = 0; i < n_known; i++)
        k = all[i].m.kind == KIND_Q6_K ? &all[i] : k;
    char refusal[80];
    snprintf(refusal, sizeof refusal, "op embed: there are no kernels for a matrix of kind %s", kind_name(k->m.kind));
    gpu_buf *table = upload(g, k->bytes, k->size), *out = upload(g, k->rows, k->m.in_dim * 4);
    gpu_op_embed(g, &(struct args_embed){.table = k->m, .n_rows = 1}, table, table, out);
    CHECK_EQ(t, gpu_check(g, &err), GPU_ARGUMENT);
    CHECK(t, strstr(err.text, refusal) != NULL);
    CHECK_EQ(t, gpu_open_formats(g, &(struct gpu_format){.kind = KIND_COUNT, .uses = USE_ROWS}, 1, NULL, &err),
             GPU_ARGUMENT);
    CHECK(t, strstr(err.text, "unknown") != NULL);
    // and what is opened for one use, and later for another, has both
    struct rig rig = {g, "opened twice"};
    struct gpu_format format = gpu_format_of(&k->m, USE_ROWS);
    CHECK_EQ(t, gpu_open_formats(g, &format, 1, NULL, &err), GPU_OK);
    CHECK(t, check_weights(&rig, k));
    gpu_op_matvec(g, &(struct args_matmul){.matrix = k->m, .n_rows = 1}, table, table, out);
    CHECK_EQ(t, gpu_check(g, &err), GPU_ARGUMENT);
    format.uses = USE_PRODUCTS;
    CHECK_EQ(t, gpu_open_formats(g, &format, 1, NULL, &err), GPU_OK);
    CHECK(t, check_weights(&rig, k));
    CHECK(t, check_product(&rig, k, (const uint32_t[]){1, 256, 3}));
    gpu_buf_free(table), gpu_buf_free(out);
    gpu_close(g);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(weights_are_as_known), TEST(products_are_near),    TEST(packed_rows_have_room),
        TEST(heads_are_near),       TEST(swiglus_of_two_kinds), TEST(what_was_not_opened_is_refused),
        TEST(norms_on_the_way),
    };
    setvbuf(stdout, NULL, _IOLBF, 0);
    // The shapes side by side, each in a process of its own: nearly all of the time is one thread that compiles.
    bool both = !getenv("MOECHAT_TEST_SHAPE");
    pid_t other = both ? fork() : 0;
    if (both && (other < 0 || setenv("MOECHAT_TEST_SHAPE", other ? "cpu" : "gpu", 1) != 0)) {
        perror("test_kinds");
        return 70;
    }
    read_known();
    add_factors();
    rigs = open_rigs_of(true);
    int failed = HARNESS_RUN(tests, argc, argv), status = 0;
    close_rigs(&rigs);
    if (other && (waitpid(other, &status, 0) != other || status != 0)) {
        fprintf(stderr, "test_kinds: the shape of GPUs ended with %d\n", status);
        return 1;
    }
    return failed;
}
