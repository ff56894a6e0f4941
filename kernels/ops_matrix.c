// SPDX-License-Identifier: GPL-3.0-or-later
// Products of matrices with rows: of one token, of several experts, of many tokens.
#include <string.h>

#include "kernels/ops_check.h"
#include "kernels/ref.h"
#include "kernels/source.h"

// One row a team gives few rows groups for the whole device; where there are many, more rows share each load of x.
// Teams have a row of each of `together` matrices.
static struct tiling cut_rows_gpu(const gpu *g, uint64_t n_rows, uint32_t together)
{
    enum { GROUPS_PER_UNIT = 4 };
    uint32_t most = TEAMS * TEAM_ROWS / together;
    bool few = ceil_div(n_rows, most) < (uint64_t)GROUPS_PER_UNIT * g->info.compute_units;
    return (struct tiling){.rows_per_group = few ? TEAMS : most, .n_groups = 1};
}

// Tiles of tensor cores: a group computes as many as leave each unit GROUPS_PER_UNIT, which are there at once, and lays
// x out once for all of them, if that is one chunk. Rows that are short leave warps for others beside them.
uint32_t op_cut_tiles(const gpu *g, const struct args_matrix *m, uint64_t n_rows, uint32_t together)
{
    enum { GROUPS_PER_UNIT = 4 };
    uint32_t beside = TEAM * TEAMS / 32 / TEAM_ROW_WARPS(m->in_dim) * (TEAM_MMA_ROWS / together), n = 1;
    uint64_t at_once = (uint64_t)GROUPS_PER_UNIT * g->info.compute_units * beside;
    if (m->in_dim <= source_inputs_at_hand(m->kind))
        n = (uint32_t)(n_rows < at_once * TEAM_MMA_MOST ? ceil_div(n_rows, at_once) : TEAM_MMA_MOST);
    uint32_t most = TEAM_MMA_MOST / together / beside;
    return beside * (n < most ? n : most);
}

// Kinds whose rows are lanes, where a CPU has AVX2 or AVX-512 (kind_lookups.cl).
static bool looks_up(uint32_t kind)
{
    return kind == KIND_Q2_K || kind == KIND_MLX_2;
}

uint32_t op_packed_floats(const struct args_matrix *m)
{
    enum { WHOLE = 64 }; // inputs behind the last so many are there as they are, too
    return looks_up(m->kind) ? m->in_dim / 32 * PACKED_SUMS + m->in_dim % WHOLE : m->in_dim / 32 * PACKED_UNIT;
}

// How the rows of a matvec are cut, or of several that one launch computes. CPU: a second group must be worth its
// launch and its packing of x; many let cores that are late still share. GPU: what a group's teams compute together.
static struct tiling cut_rows(const gpu *g, const struct args_matrix *m, uint32_t n_matrices, uint32_t together)
{
    enum { LEAST_BYTES = 64 << 10, GROUPS_PER_UNIT = 8 };
    const uint32_t rows_together = looks_up(m->kind) ? 16 : 4;
    if (!g->cpu_shape)
        return op_team_takes_mma(g, m)
                   ? (struct tiling){.rows_per_group = op_cut_tiles(g, m, (uint64_t)m->out_dim * n_matrices, together),
                                     .n_groups = 1}
                   : cut_rows_gpu(g, (uint64_t)m->out_dim * n_matrices, together);
    uint64_t most = ceil_div((uint64_t)GROUPS_PER_UNIT * g->info.compute_units, n_matrices);
    uint64_t groups = ceil_div(m->out_dim * matrix_row_bytes(m), LEAST_BYTES);
    uint64_t rows = ceil_div(m->out_dim, groups < most ? groups : most);
    rows = (rows + rows_together - 1) / rows_together * rows_together;
    return (struct tiling){.rows_per_group = (uint32_t)rows,
                           .n_groups = (uint32_t)ceil_div(m->out_dim, rows),
                           .scratch_stride = op_packed_floats(m)};
}

void gpu_op_matvec(gpu *g, const struct args_matmul *a, gpu_buf *matrix, gpu_buf *x, gpu_buf *y)
{
    const struct args_matrix *m = &a->matrix;
    if (gpu_failed(g) || !op_need(g, a->n_rows == 1, "matvec", "n_rows must be 1") ||
        !op_need_matrix(g, matrix, m, "matvec") ||
        !op_need(g, op_holds_rows(x, 1, 0, a->in_offset, m->in_dim), "matvec", "the input is too small") ||
        !op_need(g, op_holds_rows(y, 1, 0, a->out_offset, m->out_dim), "matvec", "the output is too small"))
        return;
    if (op_is_ref(g)) {
        op_done_by_ref(g, ref_matmul(a, matrix->host, x->host, y->host));
        return;
    }
    struct tiling t = cut_rows(g, m, 1, 1);
    gpu_buf *scratch = gpu_scratch(g, 4 * (uint64_t)t.n_groups * t.scratch_stride);
    launch(g, &(struct launch){.kernel = KERNEL_MATVEC,
                               .program = op_program(g, m),
                               .args = a,
                               .tiling = t,
                               .buffers = {matrix, x, y, scratch},
                               .groups = {ceil_div(m->out_dim, t.rows_per_group)}});
}

// rmsnorm, and matvec for each: what the op stands for.
static void norm_matvecs_apart(gpu *g, const struct args_norm_matvecs *a, const struct gpu_norm_matvecs_bufs *b)
{
    struct args_rmsnorm norm = {.weight = a->norm,
                                .n_rows = 1,
                                .dim = a->matrix[0].in_dim,
                                .in_offset = a->in_offset,
                                .out_offset = a->normed_offset,
                                .eps = a->eps,
                                .plus_one = a->plus_one};
    gpu_op_rmsnorm(g, &norm, b->norm, b->x, b->normed);
    for (uint32_t k = 0; k < a->n; k++) {
        struct args_matmul product = {
            .matrix = a->matrix[k], .n_rows = 1, .in_offset = a->normed_offset, .out_offset = a->out_offset[k]};
        gpu_op_matvec(g, &product, b->matrix[k], b->normed, b->y[k]);
    }
}

bool op_norm_matvecs_fit(gpu *g, const struct args_norm_matvecs *a, const struct gpu_norm_matvecs_bufs *b)
{
    static const char op[] = "norm_matvecs";
    uint64_t dim = a->matrix[0].in_dim;
    bool good = op_need(g, a->n > 0 && a->n <= MOST_BESIDE, op, "too many at once");
    for (uint32_t k = 0; good && k < a->n; k++)
        good = op_need_matrix(g, b->matrix[k], &a->matrix[k], op) &&
               op_need(g, a->matrix[k].in_dim == dim, op, "matrices of several widths") &&
               op_need(g, op_holds_rows(b->y[k], 1, 0, a->out_offset[k], a->matrix[k].out_dim), op,
                       "an output is too small");
    return good &&
           op_need(g, op_holds_vector(b->norm, a->norm, dim), op, "the norm's weight lies outside its buffer") &&
           op_need(g, op_holds_rows(b->x, 1, 0, a->in_offset, dim), op, "the input is too small") &&
           op_need(g, b->normed != b->x && op_holds_rows(b->normed, 1, 0, a->normed_offset, dim), op,
                   "the normed row's place is too small, or x");
}

void gpu_op_norm_matvecs(gpu *g, const struct args_norm_matvecs *a, const struct gpu_norm_matvecs_bufs *b)
{
    if (gpu_failed(g) || !op_norm_matvecs_fit(g, a, b))
        return;
    struct args_matrix all = {0}; // as if they were one
    uint32_t tallest = 0;
    bool together = !op_is_ref(g);
    for (uint32_t k = 0; k < a->n; k++) {
        uint32_t rows = a->matrix[k].out_dim;
        uint32_t before = all.out_dim;
        tallest = rows > tallest ? rows : tallest;
        together &= op_is_one_program(g, &a->matrix[k], a->matrix) && rows <= UINT32_MAX - before;
        all = a->matrix[k];
        all.out_dim += before;
    }
    if (!together) {
        norm_matvecs_apart(g, a, b);
        return;
    }
    struct tiling t = cut_rows(g, &all, 1, 1);
    t.n_groups = (uint32_t)ceil_div(tallest, t.rows_per_group);
    if (!op_team_takes_mma(g, &all)) // there the normed row goes through no memory
        t.scratch_stride += all.in_dim;
    gpu_buf *scratch = gpu_scratch(g, 4 * (uint64_t)a->n * t.n_groups * t.scratch_stride);
    struct launch l = {.kernel = KERNEL_NORM_MATVECS,
                       .program = op_program(g, a->matrix),
                       .args = a,
                       .tiling = t,
                       .buffers = {b->norm, b->x, b->normed},
                       .groups = {t.n_groups, a->n}};
    for (uint32_t k = 0; k < MOST_BESIDE; k++) {
        l.buffers[3 + k] = b->matrix[k < a->n ? k : 0];
        l.buffers[3 + MOST_BESIDE + k] = b->y[k < a->n ? k : 0];
    }
    l.buffers[3 + 2 * MOST_BESIDE] = scratch;
    launch(g, &l);
}

// ---- swiglu of two kinds: two products, gate's beside, and silu(gate) * up

static void silu_product(gpu *g, const struct args_silu_product *a, gpu_buf *ids, gpu_buf *y)
{
    launch(g, &(struct launch){.kernel = KERNEL_SILU_PRODUCT,
                               .args = a,
                               .buffers = {g->gates, ids ? ids : y, y},
                               .groups = {ceil_div(a->dim, ELEMENTS_GROUP), a->at.n ? a->at.n : a->n_rows}});
}

typedef void one_product(gpu *g, const struct args_matmul *a, gpu_buf *matrix, gpu_buf *x, gpu_buf *y);

static struct args_matmul product_of(const struct args_swiglu *a, const struct args_matrix *m)
{
    return (struct args_matmul){.matrix = *m,
                                .n_rows = a->n_rows,
                                .in_stride = a->in_stride,
                                .in_offset = a->in_offset,
                                .out_stride = a->out_stride,
                                .out_offset = a->out_offset};
}

static void swiglu_apart(gpu *g, const struct args_swiglu *a, uint32_t n, const struct gpu_product_bufs *b,
                         one_product *product)
{
    gpu_buf *gates = gpu_gates(g, b->y->bytes);
    for (uint32_t k = 0; gates && k < n; k++) {
        struct args_matmul gate = product_of(&a[k], &a[k].gate), up = product_of(&a[k], &a[k].up);
        struct args_silu_product both = {.n_rows = a[k].n_rows,
                                         .dim = a[k].gate.out_dim,
                                         .out_stride = a[k].out_stride,
                                         .out_offset = a[k].out_offset,
                                         .limit = a[k].limit,
                                         .situ_beta = a[k].situ_beta};
        product(g, &gate, b->matrices, b->x, gates);
        product(g, &up, b->matrices, b->x, b->y);
        silu_product(g, &both, NULL, b->y);
    }
}

static void swiglu_experts_apart(gpu *g, const struct args_swiglu_experts *a, const struct gpu_experts_bufs *b)
{
    struct gpu_experts_bufs gates = *b;
    struct args_matvec_experts product = {
        .matrix = a->gate, .at = a->at, .in_offset = a->in_offset, .out_stride = a->out_stride};
    struct args_silu_product both = {
        .at = a->at, .dim = a->gate.out_dim, .out_stride = a->out_stride, .limit = a->limit, .situ_beta = a->situ_beta};
    gates.y = gpu_gates(g, b->y->bytes);
    if (!gates.y)
        return;
    gpu_op_matvec_experts(g, &product, &gates);
    product.matrix = a->up;
    gpu_op_matvec_experts(g, &product, b);
    silu_product(g, &both, b->ids, b->y);
}

void gpu_op_swiglu_vec(gpu *g, const struct args_swiglu *a, gpu_buf *matrices, gpu_buf *x, gpu_buf *y)
{
    const struct args_matrix *m = &a->gate;
    if (gpu_failed(g) || !op_need(g, a->n_rows == 1, "swiglu_vec", "n_rows must be 1") ||
        !op_need_matrix(g, matrices, m, "swiglu_vec") || !op_need_matrix(g, matrices, &a->up, "swiglu_vec") ||
        !op_need(g, op_same_dims(m, &a->up), "swiglu_vec", "gate and up are of two shapes") ||
        !op_need(g, op_holds_rows(x, 1, 0, a->in_offset, m->in_dim), "swiglu_vec", "the input is too small") ||
        !op_need(g, op_holds_rows(y, 1, 0, a->out_offset, m->out_dim), "swiglu_vec", "the output is too small"))
        return;
    if (op_is_ref(g)) {
        op_done_by_ref(g, ref_swiglu(a, matrices->host, x->host, y->host));
        return;
    }
    if (!op_same_shape(m, &a->up)) {
        swiglu_apart(g, a, 1, &(struct gpu_product_bufs){matrices, x, y, NULL}, gpu_op_matvec);
        return;
    }
    struct tiling t = cut_rows(g, m, 1, 2);
    gpu_buf *scratch = gpu_scratch(g, 4 * (uint64_t)t.n_groups * t.scratch_stride);
    launch(g, &(struct launch){.kernel = KERNEL_SWIGLU_VEC,
                               .program = op_program(g, m),
                               .args = a,
                               .tiling = t,
                               .buffers = {matrices, x, y, scratch},
                               .groups = {ceil_div(m->out_dim, t.rows_per_group)}});
}

// Each expert's row of an activation, or with stride 0 one for all.
static bool holds_ranks(const gpu_buf *buf, const struct args_places *at, uint32_t stride, uint32_t offset,
                        uint32_t width)
{
    if (stride == 0)
        return op_holds_rows(buf, 1, 0, offset, width);
    uint64_t rows = at->by_id ? at->n : 0;
    for (uint32_t k = 0; !at->by_id && k < at->n; k++)
        rows = at->rank[k] >= rows ? at->rank[k] + UINT64_C(1) : rows;
    return op_holds_rows(buf, rows, stride, offset, width);
}

// Several experts and the shared one, if any (else NULL), in one launch. `together`: products of each row.
struct experts_cut {
    const struct args_matrix *expert, *shared;
    uint32_t n, together;
};

static void launch_experts(gpu *g, struct launch *l, const struct experts_cut *cut, const struct gpu_experts_bufs *b)
{
    const struct args_matrix *m = cut->expert, *shared = cut->shared;
    uint32_t tallest = shared && shared->out_dim > m->out_dim ? shared->out_dim : m->out_dim;
    uint32_t n = cut->n + (shared ? 1 : 0);
    l->program = op_program(g, m);
    l->tiling = cut_rows(g, m, n, cut->together);
    l->tiling.n_groups = (uint32_t)ceil_div(tallest, l->tiling.rows_per_group);
    gpu_buf *scratch = gpu_scratch(g, 4 * (uint64_t)n * l->tiling.n_groups * l->tiling.scratch_stride);
    l->groups[0] = l->tiling.n_groups;
    l->groups[1] = n;
    gpu_buf *const buffers[] = {b->matrices, b->shared ? b->shared : b->matrices, b->ids ? b->ids : b->x, b->x, b->y,
                                scratch};
    memcpy(l->buffers, buffers, sizeof buffers);
    launch(g, l);
}

// Its part of y, or nothing. Of two kinds it is a product by itself.
static bool shared_fits(gpu *g, const struct args_swiglu_experts *a, const struct gpu_experts_bufs *b)
{
    const struct args_matrix *m = &a->shared_gate;
    return m->kind == KIND_NONE || (op_need_matrix(g, b->shared, m, "swiglu_experts") &&
                                    op_need_matrix(g, b->shared, &a->shared_up, "swiglu_experts") &&
                                    op_need(g, op_same_dims(m, &a->shared_up) && m->in_dim == a->gate.in_dim,
                                            "swiglu_experts", "the shared expert has another shape") &&
                                    op_need(g, op_holds_rows(b->y, 1, 0, a->shared_offset, m->out_dim),
                                            "swiglu_experts", "the output is too small for the shared expert"));
}

static bool gate_fits(gpu *g, const struct args_swiglu_experts *a, const struct gpu_experts_bufs *b)
{
    return !a->is_gated || op_need(g, a->shared_gate.kind != KIND_NONE && b->gate != b->y && op_holds(b->gate, 0, 4),
                                   "swiglu_experts", "no shared expert, or no gate of its own");
}

static void swiglu_shared(gpu *g, const struct args_swiglu_experts *a, const struct gpu_experts_bufs *b)
{
    struct args_swiglu one = {.gate = a->shared_gate,
                              .up = a->shared_up,
                              .n_rows = 1,
                              .in_offset = a->in_offset,
                              .out_offset = a->shared_offset,
                              .limit = a->limit,
                              .situ_beta = a->situ_beta};
    struct args_gate_product gate = {.n_rows = 1,
                                     .n_heads = 1,
                                     .dim = a->shared_gate.out_dim,
                                     .stride = a->shared_gate.out_dim,
                                     .offset = a->shared_offset,
                                     .one_each = 1};
    gpu_op_swiglu_vec(g, &one, b->shared, b->x, b->y);
    if (a->is_gated)
        gpu_op_gate_product(g, &gate, b->gate, b->y);
}

void gpu_op_swiglu_experts(gpu *g, const struct args_swiglu_experts *a, const struct gpu_experts_bufs *b)
{
    const struct args_matrix *m = &a->gate, *shared = a->shared_gate.kind == KIND_NONE ? NULL : &a->shared_gate;
    if (gpu_failed(g) || a->at.n == 0 || !op_need_kind(g, m, "swiglu_experts") ||
        !op_need_kind(g, &a->up, "swiglu_experts") ||
        !op_need(g, op_holds_experts(b, m, &a->at) && op_holds_experts(b, &a->up, &a->at) && op_same_dims(m, &a->up),
                 "swiglu_experts", "gate and up have no valid shape or lie outside their buffer") ||
        !op_need(g, op_holds_rows(b->x, 1, 0, a->in_offset, m->in_dim), "swiglu_experts", "the input is too small") ||
        !op_need(g, holds_ranks(b->y, &a->at, a->out_stride, 0, m->out_dim), "swiglu_experts",
                 "the output is too small") ||
        !shared_fits(g, a, b) || !gate_fits(g, a, b))
        return;
    bool alike = op_same_shape(m, &a->up);
    bool takes_shared = shared && alike && op_same_shape(shared, &a->shared_up) && op_is_one_program(g, m, shared);
    if (shared && (op_is_ref(g) || !takes_shared))
        swiglu_shared(g, a, b);
    if (op_is_ref(g))
        op_done_by_ref(g, ref_swiglu_experts(a, b));
    else if (!alike)
        swiglu_experts_apart(g, a, b);
    else
        launch_experts(
            g, &(struct launch){.kernel = KERNEL_SWIGLU_EXPERTS, .args = a, .buffers[6] = a->is_gated ? b->gate : b->x},
            &(struct experts_cut){m, takes_shared ? shared : NULL, a->at.n, 2}, b);
}

static void launch_matvec_experts(gpu *g, const struct args_matvec_experts *a, const struct gpu_experts_bufs *b)
{
    const struct args_matrix *m = &a->matrix;
    struct tiling t = cut_rows(g, m, a->at.n, 1);
    gpu_buf *scratch = gpu_scratch(g, 4 * (uint64_t)a->at.n * t.n_groups * t.scratch_stride);
    launch(g, &(struct launch){.kernel = KERNEL_MATVEC_EXPERTS,
                               .program = op_program(g, m),
                               .args = a,
                               .tiling = t,
                               .buffers = {b->matrices, b->ids ? b->ids : b->x, b->x, b->y, scratch},
                               .groups = {ceil_div(m->out_dim, t.rows_per_group), a->at.n}});
}

void gpu_op_matvec_experts(gpu *g, const struct args_matvec_experts *a, const struct gpu_experts_bufs *b)
{
    const struct args_matrix *m = &a->matrix;
    if (gpu_failed(g) || a->at.n == 0 || !op_need_kind(g, m, "matvec_experts") ||
        !op_need(g, op_holds_experts(b, m, &a->at), "matvec_experts",
                 "a matrix has no valid shape or lies outside its buffer") ||
        !op_need(g, holds_ranks(b->x, &a->at, a->in_stride, a->in_offset, m->in_dim), "matvec_experts",
                 "the input is too small") ||
        !op_need(g, holds_ranks(b->y, &a->at, a->out_stride, 0, m->out_dim), "matvec_experts",
                 "the output is too small"))
        return;
    if (op_is_ref(g))
        op_done_by_ref(g, ref_matvec_experts(a, b));
    else
        launch_matvec_experts(g, a, b);
}

static void add_shared(gpu *g, const struct args_add_experts *a, const struct gpu_add_experts_bufs *b)
{
    struct args_matmul shared = {.matrix = a->shared, .n_rows = 1, .in_offset = a->shared_offset, .add = 1};
    if (a->shared.kind != KIND_NONE)
        gpu_op_matvec(g, &shared, b->of.shared, b->of.x, b->out);
}

// What add_experts stands for.
static void add_experts_apart(gpu *g, const struct args_add_experts *a, const struct gpu_add_experts_bufs *b)
{
    uint32_t dim = a->matrix.out_dim;
    struct args_matvec_experts experts = {
        .matrix = a->matrix, .at = a->at, .in_stride = a->in_stride, .out_stride = dim};
    struct args_combine sum = {.n_partials = a->at.n, .dim = dim, .first_weight = a->first_weight};
    struct gpu_experts_bufs bufs = b->of;
    bufs.y = b->partial;
    add_shared(g, a, b);
    gpu_op_matvec_experts(g, &experts, &bufs);
    gpu_op_combine(g, &sum, b->partial, b->weight, b->out);
}

static bool add_experts_fit(gpu *g, const struct args_add_experts *a, const struct gpu_add_experts_bufs *b)
{
    static const char op[] = "add_experts";
    const struct args_matrix *m = &a->matrix, *shared = &a->shared;
    bool in_order = true, has_shared = shared->kind != KIND_NONE;
    for (uint32_t k = 0; !a->at.by_id && a->at.n <= MOST_EXPERTS && k < a->at.n; k++)
        in_order &= a->at.rank[k] == k;
    return op_need_kind(g, m, op) &&
           op_need(g, op_holds_experts(&b->of, m, &a->at), op,
                   "a matrix has no valid shape or lies outside its buffer") &&
           op_need(g, in_order, op, "ranks are not in their order") &&
           op_need(g, holds_ranks(b->of.x, &a->at, a->in_stride, 0, m->in_dim), op, "the input is too small") &&
           (!has_shared || (op_need_matrix(g, b->of.shared, shared, op) &&
                            op_need(g, shared->out_dim == m->out_dim, op, "the shared expert has another shape") &&
                            op_need(g, op_holds_rows(b->of.x, 1, 0, a->shared_offset, shared->in_dim), op,
                                    "the input is too small for the shared expert"))) &&
           op_need(g, op_holds_rows(b->partial, a->at.n + (has_shared ? 1 : 0), m->out_dim, 0, m->out_dim), op,
                   "too little room for partial sums") &&
           op_need(g, op_holds_rows(b->weight, a->at.n, 1, a->first_weight, 1), op, "too few weights") &&
           op_need(g, op_holds_rows(b->out, 1, 0, 0, m->out_dim), op, "the output is too small");
}

void gpu_op_add_experts(gpu *g, const struct args_add_experts *a, const struct gpu_add_experts_bufs *b)
{
    enum { MATRICES_A_GROUP = 2 }; // CPU: a group packs x for each expert, so there are fewer groups
    const struct args_matrix *m = &a->matrix, *shared = a->shared.kind == KIND_NONE ? NULL : &a->shared;
    if (gpu_failed(g) || a->at.n == 0 || !add_experts_fit(g, a, b))
        return;
    if (op_is_ref(g)) {
        add_experts_apart(g, a, b);
        return;
    }
    if (shared && !op_is_one_program(g, m, shared)) { // the sum is in the same order
        struct args_add_experts routed = *a;
        routed.shared.kind = KIND_NONE;
        add_shared(g, a, b);
        gpu_op_add_experts(g, &routed, b);
        return;
    }
    struct tiling t = cut_rows(g, m, g->cpu_shape ? MATRICES_A_GROUP : 1, 1);
    if (g->cpu_shape && shared && shared->in_dim > m->in_dim)
        t.scratch_stride = op_packed_floats(shared);
    size_t groups = ceil_div(m->out_dim, t.rows_per_group);
    gpu_buf *scratch = gpu_scratch(g, 4 * (uint64_t)groups * t.scratch_stride);
    launch(g, &(struct launch){.kernel = KERNEL_ADD_EXPERTS,
                               .program = op_program(g, m),
                               .args = a,
                               .tiling = t,
                               .buffers = {b->of.matrices, shared ? b->of.shared : b->of.matrices,
                                           b->of.ids ? b->of.ids : b->of.x, b->of.x, b->weight, b->partial, b->out,
                                           scratch},
                               .groups = {groups}});
}

// Lays x out in scratch as the CPU's matrix kernels want it: see matmul_cpu.cl.
static gpu_buf *pack(gpu *g, const struct args_matmul *a, gpu_buf *x)
{
    size_t vectors = ceil_div(a->n_rows, VECTOR);
    gpu_buf *packed = gpu_scratch(g, 4 * (uint64_t)vectors * VECTOR * a->matrix.in_dim);
    struct args_matmul plain = *a; // single kinds' programs want x as plain ones do, in its order
    plain.matrix.kind = KIND_F32;
    launch(g, &(struct launch){.kernel = KERNEL_PACK,
                               .args = op_program(g, &a->matrix) ? &plain : a,
                               .buffers = {x, packed},
                               .groups = {ceil_div(a->matrix.in_dim, BLOCK), vectors}});
    return packed;
}

void op_matmul_cpu(gpu *g, const struct args_matmul *a, const struct gpu_product_bufs *b)
{
    launch(g,
           &(struct launch){.kernel = KERNEL_MATMUL,
                            .program = op_program(g, &a->matrix),
                            .args = a,
                            .buffers = {b->matrices, pack(g, a, b->x), b->y},
                            .groups = {ceil_div(a->matrix.out_dim, MATMUL_ROWS), ceil_div(a->n_rows, MATMUL_TOKENS)}});
}

// GPU: the kernels for tiles of so many tokens and outputs, smallest first, without and with tensor cores.
struct tile_kernel {
    enum kernel_id id;
    uint32_t tokens, outputs;
};
enum { TILE_SIZES = 3 };
static const struct tile_kernel matmul_tiles[2][TILE_SIZES] = {
    {{KERNEL_MATMUL_2_4, 16, 32}, {KERNEL_MATMUL_4_4, 32, 32}, {KERNEL_MATMUL_8_8, 64, 64}},
    {{KERNEL_MATMUL_MMA_16, 16, PRODUCT_OUTPUTS},
     {KERNEL_MATMUL_MMA_32, 32, PRODUCT_OUTPUTS},
     {KERNEL_MATMUL_MMA_64, 64, PRODUCT_OUTPUTS}}};
static const struct tile_kernel swiglu_tiles[2][TILE_SIZES] = {
    {{KERNEL_SWIGLU_2_4, 16, 32}, {KERNEL_SWIGLU_4_4, 32, 32}, {KERNEL_SWIGLU_8_8, 64, 64}},
    {{KERNEL_SWIGLU_MMA_16, 16, PRODUCT_OUTPUTS},
     {KERNEL_SWIGLU_MMA_32, 32, PRODUCT_OUTPUTS},
     {KERNEL_SWIGLU_MMA_64, 64, PRODUCT_OUTPUTS}}};

gpu_buf *op_split(gpu *g, const struct program *program, struct args_split *a, uint32_t n, gpu_buf *x, struct tiling *t)
{
    uint64_t chunks = ceil_div(a->dim, PRODUCT_CHUNK), rows = 0;
    uint32_t most = 0, apart = a->head_stride ? 1 : n;
    for (uint32_t k = 0; k < apart; k++) {
        a->at.out_offset[k] = (uint32_t)rows;
        rows += a->at.n_rows[k];
        most = a->at.n_rows[k] > most ? a->at.n_rows[k] : most;
    }
    rows = (a->head_stride ? n * rows : rows) + PRODUCT_MOST_TOKENS; // a tile reads whole
    t->scratch_stride = (uint32_t)(rows * chunks);
    gpu_buf *parts = gpu_scratch(g, 4 * rows * chunks * (PRODUCT_CHUNK + PRODUCT_MOST_TAIL));
    if (parts)
        launch(g, &(struct launch){.kernel = KERNEL_SPLIT_ROWS,
                                   .program = program,
                                   .args = a,
                                   .tiling = *t,
                                   .buffers = {x, parts},
                                   .groups = {ceil_div(most * chunks, SPLIT_ITEMS / 8), n}});
    return parts;
}

static uint64_t count_tiles(const struct launch *l, const struct tile_kernel *size, const struct args_each *at,
                            uint64_t n_outputs)
{
    uint64_t tiles = 0;
    for (size_t k = 0; k < l->groups[2]; k++)
        tiles += ceil_div(at->n_rows[k], size->tokens) * ceil_div(n_outputs, size->outputs);
    return tiles;
}

// The largest that still give every unit one, but none that are half empty. With tensor cores two of the largest, and
// the smallest where there are too few of the others.
static void cut_tiles(const gpu *g, struct launch *l, const struct tile_kernel *sizes, bool mma,
                      const struct args_each *at, uint64_t n_outputs)
{
    uint32_t most = 0, least = mma ? 0 : 1;
    for (size_t k = 0; k < l->groups[2]; k++)
        most = at->n_rows[k] > most ? at->n_rows[k] : most;
    uint32_t chosen = most <= 16 ? 0 : most <= 32 ? 1 : 2;
    uint64_t enough = mma ? 2 : 1; // a unit
    while (chosen > least && count_tiles(l, &sizes[chosen], at, n_outputs) < enough * g->info.compute_units) {
        chosen--;
        enough = 1;
    }
    l->kernel = sizes[chosen].id;
    l->groups[0] = ceil_div(n_outputs, sizes[chosen].outputs);
    l->groups[1] = ceil_div(most, sizes[chosen].tokens);
}

// The rows of x of a launch's matrices, split; each then has its first row of those for in_offset. Or all of x, with
// `indexed` rows: then in_offset is where its index begins.
static void split_each(gpu *g, struct launch *l, struct args_each *at, const struct args_matmul *of, uint32_t indexed)
{
    struct args_split split = {.at = *at, .dim = of->matrix.in_dim, .in_stride = of->in_stride};
    if (indexed)
        split.at = (struct args_each){.n_rows = {indexed}};
    l->buffers[1] = op_split(g, l->program, &split, indexed ? 1 : (uint32_t)l->groups[2], l->buffers[1], &l->tiling);
    if (!indexed)
        memcpy(at->in_offset, split.at.out_offset, sizeof at->in_offset);
}

// `at`, of the launch's args, is of all.
static void launch_tiles(gpu *g, struct launch *l, const struct tile_kernel sizes[2][TILE_SIZES], bool mma,
                         const struct args_each *at, uint64_t n_outputs)
{
    cut_tiles(g, l, sizes[mma], mma, at, n_outputs);
    if (l->buffers[1])
        launch(g, l);
}

static void matmul_gpu(gpu *g, const struct args_matmul *a, uint32_t n, const struct gpu_product_bufs *b)
{
    bool mma = op_takes_mma(g, &a->matrix);
    struct args_matmul_each each = {.of = a[0]};
    for (uint32_t k = 0; k < n; k++) {
        each.at.behind[k] = a[k].matrix.weight - a[0].matrix.weight;
        each.at.n_rows[k] = a[k].n_rows;
        each.at.in_offset[k] = a[k].in_offset;
        each.at.out_offset[k] = a[k].out_offset;
    }
    struct launch l = {
        .program = op_program(g, &a->matrix), .args = &each, .buffers = {b->matrices, b->x, b->y}, .groups = {0, 0, n}};
    if (mma)
        split_each(g, &l, &each.at, a, 0);
    launch_tiles(g, &l, matmul_tiles, mma, &each.at, a->matrix.out_dim);
}

static bool matmul_fits(gpu *g, const struct args_matmul *a, const struct gpu_product_bufs *b)
{
    const struct args_matrix *m = &a->matrix;
    return op_need(g, a->n_rows > 0, "matmul", "no rows") && op_need_matrix(g, b->matrices, m, "matmul") &&
           op_need(g, op_holds_rows(b->x, a->n_rows, a->in_stride, a->in_offset, m->in_dim), "matmul",
                   "the input is too small") &&
           op_need(g, op_holds_rows(b->y, a->n_rows, a->out_stride, a->out_offset, m->out_dim), "matmul",
                   "the output is too small");
}

// May one launch compute matrix b as it does a?
static bool is_behind(const struct args_matrix *a, const struct args_matrix *b)
{
    uint64_t behind = b->weight - a->weight;
    return op_same_shape(a, b) && (!matrix_scale_bytes(a) || b->scales - a->scales == behind) &&
           ((!matrix_bias_bytes(a) && !a->factor) || b->biases - a->biases == behind);
}

void gpu_op_matmul_each(gpu *g, const struct args_matmul *a, uint32_t n, const struct gpu_product_bufs *b)
{
    bool good = !gpu_failed(g) && op_need(g, n > 0 && n <= MOST_EACH, "matmul", "too many at once");
    for (uint32_t k = 0; good && k < n; k++)
        good =
            matmul_fits(g, &a[k], b) && op_need(g,
                                                is_behind(&a->matrix, &a[k].matrix) && a[k].in_stride == a->in_stride &&
                                                    a[k].out_stride == a->out_stride && a[k].add == a->add,
                                                "matmul", "one is unlike the others");
    if (good && !op_is_ref(g) && !g->cpu_shape) {
        matmul_gpu(g, a, n, b);
        return;
    }
    for (uint32_t k = 0; good && k < n; k++)
        if (op_is_ref(g))
            op_done_by_ref(g, ref_matmul(&a[k], b->matrices->host, b->x->host, b->y->host));
        else
            op_matmul_cpu(g, &a[k], b);
}

void gpu_op_matmul(gpu *g, const struct args_matmul *a, gpu_buf *matrix, gpu_buf *x, gpu_buf *y)
{
    if (a->n_rows > 0)
        gpu_op_matmul_each(g, a, 1, &(struct gpu_product_bufs){matrix, x, y, NULL});
}

static void swiglu_cpu(gpu *g, const struct args_swiglu *a, gpu_buf *matrices, gpu_buf *x, gpu_buf *y)
{
    struct args_matmul input = {
        .matrix = a->gate, .n_rows = a->n_rows, .in_stride = a->in_stride, .in_offset = a->in_offset};
    gpu_buf *packed = pack(g, &input, x);
    launch(g, &(struct launch){.kernel = KERNEL_SWIGLU_MAT,
                               .args = a,
                               .buffers = {matrices, packed, y},
                               .groups = {ceil_div(a->gate.out_dim, MATMUL_ROWS), ceil_div(a->n_rows, MATMUL_TOKENS)}});
}

static void swiglu_gpu(gpu *g, const struct args_swiglu *a, uint32_t n, const struct gpu_product_bufs *b)
{
    struct args_swiglu_each each = {.of = a[0]};
    for (uint32_t k = 0; k < n; k++) {
        each.at.behind[k] = a[k].gate.weight - a[0].gate.weight;
        each.at.n_rows[k] = a[k].n_rows;
        each.at.in_offset[k] = a[k].in_offset;
        each.at.out_offset[k] = a[k].out_offset;
    }
    struct args_matmul gate = product_of(a, &a->gate);
    bool mma = op_takes_mma(g, &a->gate);
    struct launch l = {
        .program = op_program(g, &a->gate), .args = &each, .buffers = {b->matrices, b->x, b->y}, .groups = {0, 0, n}};
    if (mma) {
        l.buffers[3] = a->indexed ? b->index : b->x;
        split_each(g, &l, &each.at, &gate, a->indexed);
    }
    launch_tiles(g, &l, swiglu_tiles, mma, &each.at, 2 * (uint64_t)a->gate.out_dim);
}

bool gpu_has_swiglu_index(const gpu *g, const struct args_matrix *gate, const struct args_matrix *up)
{
    return op_takes_mma(g, gate) && op_same_shape(gate, up);
}

static bool swiglu_fits(gpu *g, const struct args_swiglu *a, const struct gpu_product_bufs *b)
{
    const struct args_matrix *m = &a->gate;
    return op_need(g, a->n_rows > 0, "swiglu_mat", "no rows") && op_need_matrix(g, b->matrices, m, "swiglu_mat") &&
           op_need_matrix(g, b->matrices, &a->up, "swiglu_mat") &&
           op_need(g, op_same_dims(m, &a->up), "swiglu_mat", "gate and up are of two shapes") &&
           op_need(g,
                   a->indexed ? op_holds_rows(b->x, a->indexed, a->in_stride, 0, m->in_dim)
                              : op_holds_rows(b->x, a->n_rows, a->in_stride, a->in_offset, m->in_dim),
                   "swiglu_mat", "the input is too small") &&
           op_need(g,
                   !a->indexed || (gpu_has_swiglu_index(g, &a->gate, &a->up) && b->index &&
                                   op_holds(b->index, 4 * (uint64_t)a->in_offset, 4 * (uint64_t)a->n_rows)),
                   "swiglu_mat", "the index is too small, or has no kernels") &&
           op_need(g, op_holds_rows(b->y, a->n_rows, a->out_stride, a->out_offset, m->out_dim), "swiglu_mat",
                   "the output is too small");
}

void gpu_op_swiglu_each(gpu *g, const struct args_swiglu *a, uint32_t n, const struct gpu_product_bufs *b)
{
    bool good = !gpu_failed(g) && op_need(g, n > 0 && n <= MOST_EACH, "swiglu_mat", "too many at once");
    for (uint32_t k = 0; good && k < n; k++)
        good = swiglu_fits(g, &a[k], b) &&
               op_need(g,
                       is_behind(&a->gate, &a[k].gate) && is_behind(&a->up, &a[k].up) &&
                           a[k].gate.weight - a->gate.weight == a[k].up.weight - a->up.weight &&
                           a[k].in_stride == a->in_stride && a[k].out_stride == a->out_stride &&
                           a[k].limit == a->limit && a[k].situ_beta == a->situ_beta && a[k].indexed == a->indexed,
                       "swiglu_mat", "one is unlike the others");
    bool by_kind =
        good && !op_is_ref(g) && op_program(g, &a->gate) && !op_takes_mma(g, &a->gate); // which has no such kernel
    if (good && !op_is_ref(g) && (!op_same_shape(&a->gate, &a->up) || by_kind)) {
        swiglu_apart(g, a, n, b, gpu_op_matmul);
        return;
    }
    if (good && !op_is_ref(g) && !g->cpu_shape) {
        swiglu_gpu(g, a, n, b);
        return;
    }
    for (uint32_t k = 0; good && k < n; k++)
        if (op_is_ref(g))
            op_done_by_ref(g, ref_swiglu(&a[k], b->matrices->host, b->x->host, b->y->host));
        else
            swiglu_cpu(g, &a[k], b->matrices, b->x, b->y);
}

void gpu_op_swiglu_mat(gpu *g, const struct args_swiglu *a, gpu_buf *matrices, gpu_buf *x, gpu_buf *y)
{
    if (a->n_rows > 0)
        gpu_op_swiglu_each(g, a, 1, &(struct gpu_product_bufs){matrices, x, y, NULL});
}
