// SPDX-License-Identifier: GPL-3.0-or-later
// A part of bench_kernels.c, which has struct bench and in_a_row: products of V3's experts with matrices of each kind,
// a token's and a prompt's, in turn with MLX's 4 bits.
#ifndef MOECHAT_TESTS_BENCH_KINDS_H
#define MOECHAT_TESTS_BENCH_KINDS_H

// ---- kinds: an expert's gate and up, eight experts' and one's for a prompt, in turn with MLX's 4 bits

static void run_kind(struct bench *b)
{
    const struct kind_run *r = &b->kind_run;
    uint32_t out = b->shape->moe, in = b->shape->hidden;
    struct args_matrix m = {.in_dim = in, .out_dim = out, .kind = r->kind, .group_size = 64};
    uint64_t up = (matrix_bytes(&m) + 63) / 64 * 64, expert = (up + matrix_bytes(&m) + 4095) / 4096 * 4096;
    if (b->next + (r->n_experts + 1) * expert > b->weight_bytes)
        b->next = 0;
    m.weight = b->next;
    m.scales = m.weight + out * matrix_row_bytes(&m);
    m.biases = m.scales + out * matrix_scale_bytes(&m);
    b->next += r->n_experts * expert;
    struct args_swiglu a = {.gate = m, .up = m, .n_rows = r->n_rows, .in_stride = in, .out_stride = out};
    a.up = gpu_matrix_behind(&m, up);
    if (r->n_experts == 1) {
        (r->n_rows > 1 ? gpu_op_swiglu_mat : gpu_op_swiglu_vec)(b->g, &a, b->weights, b->x, b->y);
        return;
    }
    if (r->n_rows > 1) {
        struct args_swiglu each[MOST_EACH];
        for (uint32_t k = 0; k < r->n_experts; k++) {
            each[k] = a;
            each[k].gate = gpu_matrix_behind(&a.gate, k * expert);
            each[k].up = gpu_matrix_behind(&a.up, k * expert);
        }
        gpu_op_swiglu_each(b->g, each, r->n_experts,
                           &(struct gpu_product_bufs){.matrices = b->weights, .x = b->x, .y = b->y});
        return;
    }
    struct args_swiglu_experts e = {.gate = a.gate, .up = a.up, .at = {.n = r->n_experts}, .out_stride = out};
    for (uint32_t k = 0; k < r->n_experts; k++) {
        e.at.place[k] = k * expert;
        e.at.rank[k] = k;
    }
    gpu_op_swiglu_experts(b->g, &e, &(struct gpu_experts_bufs){.matrices = b->weights, .x = b->x, .y = b->y});
}

static double kind_seconds(struct bench *b, const struct kind_run *r)
{
    struct gpu_error err;
    uint64_t before = kernels_ns(b->g);
    b->kind_run = *r;
    run_kind(b);
    if (gpu_finish(b->g, &err)) {
        fprintf(stderr, "bench_kernels: %s\n", err.text);
        exit(1);
    }
    return (double)(kernels_ns(b->g) - before) / 1e9;
}

static int by_size(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static struct work run_kind_again(struct bench *b, uint32_t n)
{
    (void)n;
    run_kind(b);
    return (struct work){0};
}

// The medians of runs that take turns, for others may load the machine; or the best of calls in a row.
static void bench_kind(struct bench *b, uint32_t kind, uint32_t n_rows, uint32_t n_experts)
{
    enum { TURNS = 15 };
    const struct kind_run runs[2] = {{.kind = KIND_MLX_4, .n_rows = n_rows, .n_experts = n_experts},
                                     {.kind = kind, .n_rows = n_rows, .n_experts = n_experts}};
    double seconds[2][TURNS], rates[2];
    for (int i = -1; i < TURNS; i++)
        for (int which = 0; which < 2 && (!b->calls || i < 1); which++) {
            b->kind_run = runs[which];
            double s = b->calls ? in_a_row(b, run_kind_again, 0).device_us / 1e6 : kind_seconds(b, &runs[which]);
            if (i >= 0)
                seconds[which][i] = s;
        }
    for (int which = 0; which < 2; which++) {
        struct args_matrix m = {
            .in_dim = b->shape->hidden, .out_dim = b->shape->moe, .kind = runs[which].kind, .group_size = 64};
        if (!b->calls)
            qsort(seconds[which], TURNS, sizeof(double), by_size);
        seconds[which][0] = seconds[which][b->calls ? 0 : TURNS / 2];
        rates[which] = 2.0 * n_experts * (double)matrix_bytes(&m) / seconds[which][0];
    }
    printf("%-8s %u experts, %3u rows %9.1f us %7.2f GB/s, %5.2f of 4 bits' bytes, %5.2f of their speed\n",
           kind_name(kind), n_experts, n_rows, seconds[1][0] * 1e6, rates[1] / 1e9, rates[1] / rates[0],
           seconds[0][0] / seconds[1][0]);
    fflush(stdout);
}

// Is the name among those of a list with commas?
static bool is_named(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, name, length) == 0 && (at[length] == 0 || at[length] == ','))
            return true;
    return false;
}

static bool open_kind(struct bench *b, uint32_t kind, uint32_t uses)
{
    struct gpu_error err;
    const struct gpu_format format = {.kind = kind, .uses = uses};
    if (gpu_open_formats(b->g, &format, 1, NULL, &err)) {
        printf("%-8s %s\n", kind_name(kind), err.text);
        return false;
    }
    return true;
}

static void bench_kinds(struct bench *b, const char *only, uint32_t most_rows)
{
    static const uint32_t rows[] = {48, 192, 512}; // of a prompt, for each expert
    b->shape = &shapes[1];                         // V3
    for (uint32_t kind = KIND_NONE + 1; kind < KIND_COUNT; kind++) {
        if ((strcmp(only, "all") != 0 && !is_named(only, kind_name(kind))) ||
            !open_kind(b, kind, USE_PRODUCTS | USE_EXPERTS))
            continue;
        bench_kind(b, kind, 1, 1);
        bench_kind(b, kind, 1, b->shape->top_k);
        for (size_t i = 0; i < sizeof rows / sizeof *rows && rows[i] <= most_rows; i++) {
            bench_kind(b, kind, rows[i], 1);
            bench_kind(b, kind, rows[i], b->shape->top_k);
        }
        if (most_rows < rows[0])
            bench_kind(b, kind, most_rows, 1);
    }
}

#endif
