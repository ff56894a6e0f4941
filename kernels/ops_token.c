// SPDX-License-Identifier: GPL-3.0-or-later
// What a decoded token does in one launch where groups can wait for each other.
#include "kernels/ops_check.h"

enum { TIMES = 8 }; // that groups meet for a proof

// So many groups meet a few times in each of n kernels. False: not all of them came, or the driver refused. The count
// must have begun anew.
static bool do_meet(gpu *g, const struct program *program, uint32_t groups, const struct launch *launches, unsigned n)
{
    gpu_buf *count = g->meeting.count;
    uint32_t seen[2];
    for (unsigned k = 0; k < n; k++) {
        struct launch l = launches[k];
        l.program = program;
        l.groups[0] = groups;
        for (unsigned i = 0; i < kernel_info(l.kernel)->n_buffers; i++)
            l.buffers[i] = count;
        launch(g, &l);
    }
    return gpu_read(g, count, 0, seen, sizeof seen, NULL) == GPU_OK && seen[0] == n * TIMES * groups && !seen[1];
}

static bool is_wanted(const gpu *g, enum kernel_id id)
{
    uint32_t mixers = kernel_info(id)->uses & USE_MIXERS;
    return !g->mixers || !mixers || (mixers & g->mixers);
}

// Every kernel whose groups meet: all that a program of several kinds has, or of that of all ops those that need no
// care (states_meet).
static bool all_meet(gpu *g, const struct program *program, uint32_t groups)
{
    const struct args_moe_token moe = {.meetings = TIMES};
    struct args_mla_in in = {.meetings = TIMES};
    struct args_mla_out out = {.meetings = TIMES};
    struct args_delta_layer layer = {.meetings = TIMES};
    struct launch launches[4] = {{.kernel = KERNEL_MOE_TOKEN, .args = &moe}};
    unsigned n = 1;
    if (is_wanted(g, KERNEL_MLA_IN)) {
        in.met = n * TIMES * groups;
        launches[n++] = (struct launch){.kernel = KERNEL_MLA_IN, .args = &in};
        out.met = n * TIMES * groups;
        launches[n++] = (struct launch){.kernel = KERNEL_MLA_OUT, .args = &out};
    }
    if (program && is_wanted(g, KERNEL_DELTA_LAYER)) {
        layer.met = n * TIMES * groups;
        launches[n++] = (struct launch){.kernel = KERNEL_DELTA_LAYER, .args = &layer};
    }
    return do_meet(g, program, groups, launches, n);
}

// Its kernel takes more registers than two groups of a unit have, unless the driver is told (addresses.c).
static bool states_meet(gpu *g, uint32_t groups)
{
    const struct args_delta_layer layer = {.meetings = TIMES};
    return is_wanted(g, KERNEL_DELTA_LAYER) && g->program.by_address && kernel_group(g, KERNEL_DELTA_LAYER) &&
           do_meet(g, NULL, groups, &(struct launch){.kernel = KERNEL_DELTA_LAYER, .args = &layer}, 1);
}

// The count begins anew.
static void begin_meetings(gpu *g)
{
    const uint32_t zero[2] = {0, 0};
    g->meeting.met = g->meeting.asked = 0;
    gpu_write(g, g->meeting.count, 0, zero, sizeof zero);
}

void gpu_prove_meeting(gpu *g, uint32_t per_unit)
{
    struct meeting *m = &g->meeting;
    m->groups = m->met = m->asked = 0;
    if (!kernel_group(g, KERNEL_MOE_TOKEN) || gpu_failed(g))
        return;
    if (!m->count)
        m->count = gpu_buf_new(g, sizeof(uint32_t[2]), NULL);
    m->has_states = false;
    if (m->count)
        begin_meetings(g);
    if (m->count && all_meet(g, NULL, per_unit * g->info.compute_units))
        m->groups = per_unit * g->info.compute_units;
    if (m->groups) {
        begin_meetings(g);
        m->has_states = states_meet(g, m->groups);
        begin_meetings(g);
    }
    gpu_check(g, NULL);
    g->counts = (struct gpu_counts){0};
}

bool gpu_prove_token(gpu *g, const struct program *program)
{
    struct gpu_counts counts = g->counts;
    if (gpu_failed(g))
        return false;
    begin_meetings(g); // else what this read finds would be taken for what launches before have left
    bool good = all_meet(g, program, g->meeting.groups);
    begin_meetings(g);
    gpu_check(g, NULL);
    g->counts = counts;
    return good;
}

void op_token_launch(gpu *g, struct launch *l, uint32_t *met, uint32_t times)
{
    *met = g->meeting.met;
    g->meeting.met += times * g->meeting.groups;
    l->groups[0] = g->meeting.groups;
    launch(g, l);
    if (gpu_failed(g))
        g->meeting.met = *met; // for nobody will come
}

// What the op stands for.
static void apart(gpu *g, const struct args_moe_token *a, const struct gpu_moe_token_bufs *b)
{
    const struct args_places at = {.base = a->base,
                                   .stride = a->stride,
                                   .n = a->choice.top_k,
                                   .by_id = 1,
                                   .first_id = a->choice.first,
                                   .n_experts = a->choice.n_experts};
    bool has_factor = a->shared_factor.kind != KIND_NONE;
    struct args_norm_matvecs logits = {.matrix = {a->router, a->shared_factor},
                                       .norm = a->norm,
                                       .n = has_factor ? 2 : 1,
                                       .eps = a->eps,
                                       .plus_one = a->plus_one};
    struct args_swiglu_experts in = {.gate = a->gate,
                                     .up = a->up,
                                     .shared_gate = a->shared_gate,
                                     .shared_up = a->shared_up,
                                     .at = at,
                                     .out_stride = a->gate.out_dim,
                                     .shared_offset = a->shared_offset,
                                     .limit = a->limit,
                                     .situ_beta = a->situ_beta,
                                     .is_gated = has_factor};
    struct args_add_experts out = {.matrix = a->down,
                                   .shared = a->shared_down,
                                   .at = at,
                                   .in_stride = a->gate.out_dim,
                                   .shared_offset = a->shared_offset,
                                   .first_weight = a->choice.first};
    gpu_op_norm_matvecs(g, &logits,
                        &(struct gpu_norm_matvecs_bufs){
                            b->norm, b->out, b->normed, {b->router, b->shared_factor}, {b->logits, b->factor}});
    gpu_op_router(g, &a->choice, &(struct gpu_router_bufs){b->logits, b->bias, b->ids, b->weights});
    gpu_op_swiglu_experts(g, &in,
                          &(struct gpu_experts_bufs){b->experts, b->ids, b->normed, b->act, b->shared, b->factor});
    gpu_op_add_experts(g, &out,
                       &(struct gpu_add_experts_bufs){
                           {b->experts, b->ids, b->act, NULL, b->shared_down, NULL}, b->weights, b->partial, b->out});
}

// A matrix that the kernel can take: with whole quads of words.
bool op_token_takes(const gpu *g, const struct args_matrix *m)
{
    return (m->kind == KIND_MLX_4 || m->kind == KIND_MLX_8) && !op_program(g, m) && m->weight % 16 == 0 &&
           m->in_dim <= TOKEN_INPUTS;
}

_Static_assert(TOKEN_KIND_INPUTS <= TEAM_SPAN_INPUTS * 3 / 4, "x of the longest row fits at once, whatever the kind");

bool op_token_takes_kind(const gpu *g, const struct args_matrix *m)
{
    return gpu_goes_together(m) && g->token_kinds >> m->kind & 1 && m->weight % 16 == 0;
}

static bool takes_all(const gpu *g, const struct args_moe_token *a,
                      bool (*takes)(const gpu *g, const struct args_matrix *m))
{
    return takes(g, &a->gate) && takes(g, &a->up) && takes(g, &a->down) &&
           (a->shared_gate.kind == KIND_NONE ||
            (takes(g, &a->shared_gate) && takes(g, &a->shared_up) && takes(g, &a->shared_down)));
}

bool op_token_takes_plain(const struct args_matrix *m)
{
    return (m->kind == KIND_F32 || m->kind == KIND_BF16) && m->weight % 16 == 0 && m->in_dim <= TOKEN_INPUTS;
}

// May it be one launch, and of which program?
static bool is_together(const gpu *g, const struct args_moe_token *a, const struct program **program)
{
    bool has_factor = a->shared_factor.kind != KIND_NONE;
    bool common = op_token_takes(g, &a->router) && takes_all(g, a, op_token_takes) &&
                  (!has_factor || op_token_takes(g, &a->shared_factor));
    *program = common ? NULL : g->token;
    return g->meeting.groups &&
           (common ||
            (g->token && op_token_takes_plain(&a->router) && (!has_factor || op_token_takes_plain(&a->shared_factor)) &&
             takes_all(g, a, op_token_takes_kind))) &&
           op_same_shape(&a->gate, &a->up) &&
           (a->shared_gate.kind == KIND_NONE || op_same_shape(&a->shared_gate, &a->shared_up)) && a->base % 16 == 0 &&
           a->stride % 16 == 0 && a->norm % 16 == 0 && a->shared_offset % 4 == 0 &&
           a->choice.n_experts <= TOKEN_EXPERTS && a->choice.top_k <= MOST_EXPERTS;
}

static bool shapes_fit(const struct args_moe_token *a)
{
    uint32_t hidden = a->router.in_dim;
    bool shared = a->shared_gate.kind != KIND_NONE;
    return a->router.out_dim == a->choice.n_experts && a->choice.n_rows == 1 && a->choice.n_experts > 0 &&
           a->gate.in_dim == hidden && a->down.out_dim == hidden && a->down.in_dim == a->gate.out_dim &&
           op_same_dims(&a->gate, &a->up) && shared == (a->shared_down.kind != KIND_NONE) &&
           (!shared || (a->shared_gate.in_dim == hidden && op_same_dims(&a->shared_gate, &a->shared_up) &&
                        a->shared_down.out_dim == hidden && a->shared_down.in_dim == a->shared_gate.out_dim)) &&
           (a->shared_factor.kind == KIND_NONE ||
            (shared && a->shared_factor.in_dim == hidden && a->shared_factor.out_dim == 1));
}

// Of what goes together; what is done apart is looked at there.
static bool buffers_fit(gpu *g, const struct args_moe_token *a, const struct gpu_moe_token_bufs *b)
{
    static const char op[] = "moe_token";
    const struct args_router *r = &a->choice;
    const struct args_places at = {.base = a->base,
                                   .stride = a->stride,
                                   .n = r->top_k,
                                   .by_id = 1,
                                   .first_id = r->first,
                                   .n_experts = r->n_experts};
    const struct gpu_experts_bufs of = {.matrices = b->experts, .ids = b->ids};
    bool shared = a->shared_gate.kind != KIND_NONE;
    uint64_t hidden = a->router.in_dim, inner = a->gate.out_dim;
    return op_need(g, op_router_fits(r), op, "experts, groups and top_k do not fit each other") &&
           op_need_matrix(g, b->router, &a->router, op) &&
           op_need(g,
                   op_holds_experts(&of, &a->gate, &at) && op_holds_experts(&of, &a->up, &at) &&
                       op_holds_experts(&of, &a->down, &at),
                   op, "an expert lies outside its buffer") &&
           (!shared ||
            (op_need_matrix(g, b->shared, &a->shared_gate, op) && op_need_matrix(g, b->shared, &a->shared_up, op) &&
             op_need_matrix(g, b->shared_down, &a->shared_down, op) &&
             op_need(g, op_holds_rows(b->act, 1, 0, a->shared_offset, a->shared_gate.out_dim), op,
                     "too little room for the shared expert"))) &&
           (a->shared_factor.kind == KIND_NONE ||
            (op_need_matrix(g, b->shared_factor, &a->shared_factor, op) &&
             op_need(g, op_holds_rows(b->factor, 1, 0, 0, 1), op, "no room for the shared expert's factor"))) &&
           op_need(g,
                   op_holds(b->norm, a->norm, 4 * hidden) &&
                       (!r->has_bias || op_holds(b->bias, r->bias, 4 * (uint64_t)r->n_experts)),
                   op, "a vector lies outside its buffer") &&
           op_need(g, op_holds_rows(b->logits, 1, 0, 0, r->n_experts), op, "too few logits") &&
           op_need(g,
                   op_holds_rows(b->weights, 1, 0, r->first, r->top_k) &&
                       op_holds_rows(b->act, r->top_k, inner, 0, inner) &&
                       op_holds_rows(b->partial, r->top_k + (shared ? 1 : 0), hidden, 0, hidden) &&
                       op_holds_rows(b->out, 1, 0, 0, hidden),
                   op, "an output is too small");
}

void gpu_op_moe_token(gpu *g, const struct args_moe_token *a, const struct gpu_moe_token_bufs *b)
{
    enum { MEETINGS = 3 };
    if (gpu_failed(g) || !op_need(g, shapes_fit(a), "moe_token", "the matrices do not fit each other"))
        return;
    const struct program *program;
    if (!is_together(g, a, &program)) {
        apart(g, a, b);
        return;
    }
    if (!buffers_fit(g, a, b))
        return;
    struct args_moe_token args = *a;
    args.meetings = 0;
    struct launch l = {.kernel = KERNEL_MOE_TOKEN,
                       .program = program,
                       .args = &args,
                       .buffers = {b->norm, b->router, b->bias ? b->bias : b->norm, b->experts,
                                   b->shared ? b->shared : b->experts, b->shared_down ? b->shared_down : b->experts,
                                   b->shared_factor ? b->shared_factor : b->experts, b->logits, b->ids, b->weights,
                                   b->act, b->factor ? b->factor : b->act, b->partial, b->out, g->meeting.count}};
    op_token_launch(g, &l, &args.met, MEETINGS);
}
