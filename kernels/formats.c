// SPDX-License-Identifier: GPL-3.0-or-later
// Which kinds of matrices a device has programs for, and the proof of each on the device before it is used.
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/device.h"
#include "kernels/ref_kinds.h"

struct gpu_format gpu_format_of(const struct args_matrix *m, uint32_t uses)
{
    const struct kind_info *info = kind_info(m->kind);
    return (struct gpu_format){m->kind, info && info->scales == SCALES_AFFINE ? m->scale_type : 0, uses};
}

// Those that the program of all ops knows.
static bool is_common(const struct gpu_format *f)
{
    return f->kind == KIND_F32 || f->kind == KIND_BF16 ||
           ((f->kind == KIND_MLX_4 || f->kind == KIND_MLX_8) && f->scale_type == SCALE_BF16);
}

bool format_program(const gpu *g, const struct args_matrix *m, const struct program **program)
{
    struct gpu_format f = gpu_format_of(m, 0);
    *program = NULL;
    if (is_common(&f) || g->info.kind == GPU_KIND_REF)
        return true;
    if (f.kind >= KIND_COUNT || f.scale_type > SCALE_F32)
        return false;
    *program = g->formats[f.kind][f.scale_type];
    return *program != NULL;
}

// ---- the proof: rows of any bytes, as the device reads them and as ref_kinds.c does

enum { PROOF_INPUTS = 256, PROOF_ROWS = 64 };

struct proof {
    struct args_matrix m;
    size_t bytes;
    unsigned char *matrix;
    int32_t ids[PROOF_ROWS];
    float x[PROOF_INPUTS];
    float rows[PROOF_ROWS][PROOF_INPUTS]; // of ref_kinds.c
    float embedded[PROOF_ROWS][PROOF_INPUTS], products[PROOF_ROWS];
};

static uint32_t next_random(uint32_t *state)
{
    return (*state = *state * 1664525u + 1013904223u) >> 8;
}

// The float16 scales of all of a row's blocks.
static void scale_row(const struct proof *p, uint32_t row, uint16_t scale)
{
    const struct kind_info *info = kind_info(p->m.kind);
    unsigned char *block = p->matrix + row * matrix_row_bytes(&p->m);
    for (uint32_t done = 0; done < PROOF_INPUTS; done += info->block_inputs, block += info->block_bytes) {
        for (uint32_t i = 0; i < info->halves.count; i++) {
            block[info->halves.at[i]] = (unsigned char)scale;
            block[info->halves.at[i] + 1] = (unsigned char)(scale >> 8);
        }
        for (int i = 0; i < 4 && p->m.kind == KIND_IQ1_M; i++) // four bits of it in each of four words
            block[49 + 2 * i] = (unsigned char)((block[49 + 2 * i] & 0x0f) | (scale >> 4 * i & 15) << 4);
    }
}

// Any bytes are some block: scales take all sizes. Of subnormal ones, which most real files have and some devices take
// for zero, two rows are full. Only MLX's scales are made ordinary, for they may be float32, and its bytes numbers.
static bool make_proof(struct proof *p, const struct gpu_format *f)
{
    static const uint16_t subnormal[] = {0x0155, 0x8001};
    const struct kind_info *info = kind_info(f->kind);
    uint32_t seed = 7;
    p->m = (struct args_matrix){
        .in_dim = PROOF_INPUTS, .out_dim = PROOF_ROWS, .kind = f->kind, .group_size = 64, .scale_type = f->scale_type};
    p->m.scales = PROOF_ROWS * matrix_row_bytes(&p->m);
    p->m.biases = p->m.scales + PROOF_ROWS * matrix_scale_bytes(&p->m);
    p->bytes = matrix_bytes(&p->m);
    p->matrix = malloc(p->bytes);
    for (size_t i = 0; p->matrix && i < p->bytes; i++)
        p->matrix[i] = (unsigned char)next_random(&seed);
    for (size_t i = p->m.scales; p->matrix && i < p->bytes; i++)
        if (info->scales == SCALES_BYTES)
            p->matrix[i] = (unsigned char)(100 + p->matrix[i] % 26);
        else if (f->scale_type == SCALE_F32 ? i % 4 == 3 : f->scale_type == SCALE_BF16 && i % 2)
            p->matrix[i] = (unsigned char)(0x3c | (p->matrix[i] & 0x81));
    for (int i = 0; p->matrix && i < 2; i++)
        scale_row(p, (uint32_t)i, subnormal[i]);
    for (int i = 0; i < PROOF_ROWS; i++)
        p->ids[i] = i;
    for (int i = 0; i < PROOF_INPUTS; i++)
        p->x[i] = (float)next_random(&seed) / 8388608.0f - 1.0f;
    for (uint32_t i = 0; p->matrix && i < PROOF_ROWS; i++)
        ref_matrix_row(&p->m, p->matrix, i, p->rows[i]);
    return p->matrix != NULL;
}

static int run_proof(gpu *g, struct proof *p, uint32_t uses, struct gpu_error *err)
{
    struct args_embed embed = {.table = p->m, .n_rows = PROOF_ROWS};
    struct args_matmul product = {.matrix = p->m, .n_rows = 1, .in_stride = PROOF_INPUTS, .out_stride = PROOF_ROWS};
    gpu_buf *matrix = gpu_buf_new(g, p->bytes, err);
    gpu_buf *ids = matrix ? gpu_buf_new(g, sizeof p->ids, err) : NULL;
    gpu_buf *x = ids ? gpu_buf_new(g, sizeof p->x, err) : NULL;
    gpu_buf *out = x ? gpu_buf_new(g, sizeof p->embedded, err) : NULL;
    gpu_buf *y = out ? gpu_buf_new(g, sizeof p->products, err) : NULL;
    int code = y ? GPU_OK : GPU_OUT_OF_MEMORY;
    if (y) {
        gpu_write(g, matrix, 0, p->matrix, p->bytes);
        gpu_write(g, ids, 0, p->ids, sizeof p->ids);
        gpu_write(g, x, 0, p->x, sizeof p->x);
        gpu_op_embed(g, &embed, matrix, ids, out);
        if (uses & USE_PRODUCTS)
            gpu_op_matvec(g, &product, matrix, x, y);
        const struct gpu_range ranges[] = {{out, 0, p->embedded, sizeof p->embedded},
                                           {y, 0, p->products, sizeof p->products}};
        code = gpu_read_ranges(g, ranges, 2, err);
    }
    gpu_buf *const all[] = {matrix, ids, x, out, y};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        gpu_buf_free(all[i]);
    return code;
}

// The same weights, but for those that float32 holds as subnormal or not at all, and the same products as rounding
// allows.
static bool is_proved(const struct proof *p, uint32_t uses)
{
    for (int r = 0; r < PROOF_ROWS; r++) {
        double sum = 0, size = 0;
        for (int i = 0; i < PROOF_INPUTS; i++) {
            float want = p->rows[r][i], got = p->embedded[r][i];
            if (isfinite(want) && (want == 0 || fabsf(want) >= FLT_MIN) && want != got)
                return false;
            sum += (double)want * (double)p->x[i];
            size += fabs((double)want * (double)p->x[i]);
        }
        // biases and quanta may be larger than what comes of them
        if (uses & USE_PRODUCTS && isfinite(size) && size < 1e30 &&
            fabs(sum - (double)p->products[r]) > 1e-4 * size + 1e-30)
            return false;
    }
    return true;
}

static int prove(gpu *g, const struct gpu_format *f, struct gpu_error *err)
{
    struct proof *p = calloc(1, sizeof *p);
    int code = GPU_OK;
    if (!p || !make_proof(p, f))
        code = GPU_OUT_OF_MEMORY;
    if (code)
        gpu_error_set(err, GPU_OUT_OF_MEMORY, 0, "no memory to prove the kernels of %s", kind_name(f->kind));
    else
        code = run_proof(g, p, f->uses, err);
    if (!code && !is_proved(p, f->uses)) {
        code = GPU_BUILD;
        gpu_error_set(err, GPU_BUILD, 0, "%.80s computes matrices of kind %s wrongly; choose another device",
                      g->info.name, kind_name(f->kind));
    }
    free(p ? p->matrix : NULL);
    free(p);
    return code;
}

// ---- a token's launches of several kinds

static bool is_token_kind(uint32_t kind)
{
    switch (kind) {
    case KIND_Q4_0:
    case KIND_Q4_1:
    case KIND_Q5_0:
    case KIND_Q5_1:
    case KIND_Q8_0:
    case KIND_Q2_K:
    case KIND_Q3_K:
    case KIND_Q4_K:
    case KIND_Q5_K:
    case KIND_Q6_K:
    case KIND_IQ4_NL:
    case KIND_IQ4_XS:
    case KIND_MXFP4:
        return true;
    default:
        return false;
    }
}

bool gpu_goes_together(const struct args_matrix *m)
{
    return is_token_kind(m->kind) && m->in_dim <= TOKEN_KIND_INPUTS;
}

uint64_t formats_token_kinds(const gpu *g, const struct gpu_format *formats, unsigned n)
{
    uint64_t kinds = g->token_kinds;
    unsigned count = 0;
    for (unsigned i = 0; i < n; i++)
        if (formats[i].uses & USE_TOKEN && is_token_kind(formats[i].kind))
            kinds |= UINT64_C(1) << formats[i].kind;
    for (uint32_t kind = 0; kind < KIND_COUNT; kind++)
        count += (unsigned)(kinds >> kind & 1);
    return !g->has_mma || kinds == g->token_kinds || count > MOST_TOKEN_KINDS ? 0 : kinds;
}

// Once: of each model that is opened after it, the same would be said.
static void say_apart(gpu *g, const char *why)
{
    static const char words[] = "tokens take longer than they might, for kernels of whole layers";
    size_t at = strlen(g->notice);
    if (strstr(g->notice, words))
        return;
    snprintf(g->notice + at, sizeof g->notice - at, "%s%s %s", at ? "; " : "", words, why);
}

// Ops go apart where this cannot be, which is said: the program of several kinds only saves time.
static void open_token(gpu *g, uint64_t kinds)
{
    struct gpu_error err = {.text = ""};
    char why[sizeof err.text + 32];
    struct program *made = program_open_token(g, kinds, &err);
    if (!made) {
        snprintf(why, sizeof why, "did not build: %s", err.text);
        say_apart(g, why);
        return;
    }
    if (!gpu_prove_token(g, made) && !(program_for_two_groups(g, made) && gpu_prove_token(g, made))) {
        program_close(made);
        say_apart(g, "did not compute as they should on this device");
        return;
    }
    if (g->token)
        program_close(g->token);
    g->token = made;
    g->token_kinds = kinds;
}

// What is to be built for a format that there are kernels for. False: nothing.
static bool is_to_be_built(const gpu *g, const struct gpu_format *f, struct gpu_format *all)
{
    const struct program *old = g->formats[f->kind][f->scale_type];
    uint32_t uses = old ? old->uses : 0;
    *all = *f;
    all->uses &= ~(uint32_t)USE_TOKEN;
    all->uses |= uses | USE_ROWS; // which is what it is proved by
    return !is_common(f) && g->info.kind != GPU_KIND_REF && !(old && (f->uses & ~uses & ~(uint32_t)USE_TOKEN) == 0);
}

static bool is_known(const struct gpu_format *f)
{
    return kind_info(f->kind) && f->scale_type <= SCALE_F32;
}

static int open_format(gpu *g, const struct gpu_format *f, struct gpu_error *err)
{
    if (!is_known(f)) {
        gpu_error_set(err, GPU_ARGUMENT, 0, "there are no kernels for matrices of kind %s", kind_name(f->kind));
        return GPU_ARGUMENT;
    }
    struct program **to = &g->formats[f->kind][f->scale_type];
    struct gpu_format all;
    if (!is_to_be_built(g, f, &all))
        return GPU_OK;
    struct gpu_counts counts = g->counts;
    struct program *made = program_open_kind(g, &all, err);
    if (!made)
        return GPU_BUILD;
    if (*to)
        program_close(*to);
    *to = made;
    int code = prove(g, &all, err);
    g->counts = counts;
    if (code) {
        program_close(made);
        *to = NULL;
    }
    return code;
}

unsigned formats_lacking(const gpu *g, const struct gpu_format *formats, unsigned n, struct gpu_format *lacking)
{
    unsigned n_lacking = 0;
    for (unsigned i = 0; i < n; i++)
        n_lacking += is_known(&formats[i]) && is_to_be_built(g, &formats[i], &lacking[n_lacking]);
    return n_lacking;
}

int gpu_open_formats(gpu *g, const struct gpu_format *formats, unsigned n, const struct gpu_options *options,
                     struct gpu_error *err)
{
    uint64_t kinds = g->meeting.groups ? formats_token_kinds(g, formats, n) : 0;
    int code = GPU_OK;
    jobs_do_formats(g, formats, n, options);
    for (unsigned i = 0; i < n && !code; i++) {
        if (options && options->progress)
            options->progress(options->progress_context, kind_name(formats[i].kind), i, n);
        code = open_format(g, &formats[i], err);
    }
    if (!code && kinds)
        open_token(g, kinds);
    return code;
}
