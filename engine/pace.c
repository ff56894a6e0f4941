// SPDX-License-Identifier: GPL-3.0-or-later
#include "pace.h"

#include "clock.h"

// A part of a layer's experts says too little of the whole: the first reads come slowly or are hits.
static const double enough_of_a_layer = 0.3;

// Multiplications of a token in a layer's beginning, and in its experts.
static double begin_work(const struct shape *s)
{
    double hidden = s->hidden_size, heads = s->n_heads, head = s->qk_nope_head_dim + s->qk_rope_head_dim;
    double q = s->q_lora_rank ? s->q_lora_rank * (hidden + heads * head) : hidden * heads * head;
    double folded = heads * s->kv_lora_rank * ((double)s->qk_nope_head_dim + s->v_head_dim);
    double kv = hidden * ((double)s->kv_lora_rank + s->qk_rope_head_dim);
    double shared = 3 * hidden * s->n_shared_experts * s->moe_intermediate_size;
    return q + kv + folded + heads * s->v_head_dim * hidden + hidden * s->n_routed_experts + shared;
}

static double experts_work(const struct shape *s)
{
    return 3.0 * s->hidden_size * s->top_k * s->moe_intermediate_size;
}

void pace_begin(struct pace *pace, const struct shape *shape, uint64_t tokens, uint64_t groups)
{
    uint64_t now = clock_ns();
    *pace = (struct pace){
        .all = {(double)tokens * shape->n_layers, (double)groups * (shape->n_layers - shape->first_k_dense_replace)},
        .guess = experts_work(shape) / begin_work(shape) * (double)tokens / (double)groups,
        .began_ns = now,
        .since_ns = now,
    };
}

double pace_done(struct pace *pace, enum pace_part part, double amount)
{
    uint64_t now = clock_ns();
    pace->ns[part] += (double)(now - pace->since_ns);
    pace->done[part] += amount;
    pace->since_ns = now;
    double token = pace->done[PACE_BEGIN] > 0 ? pace->ns[PACE_BEGIN] / pace->done[PACE_BEGIN] : 0;
    double layer = pace->done[PACE_EXPERTS] > enough_of_a_layer ? pace->ns[PACE_EXPERTS] / pace->done[PACE_EXPERTS]
                                                                : pace->guess * token;
    double rest = (pace->all[PACE_BEGIN] - pace->done[PACE_BEGIN]) * token +
                  (pace->all[PACE_EXPERTS] - pace->done[PACE_EXPERTS]) * layer;
    double elapsed = (double)(now - pace->began_ns);
    double share = rest > 0 ? elapsed / (elapsed + rest) : 1;
    if (share > pace->share)
        pace->share = share < 1 ? share : 1;
    return pace->share;
}
