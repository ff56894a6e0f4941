// SPDX-License-Identifier: GPL-3.0-or-later
// Fits what each kind of work costs to the times of a prefill, and says what is left.
#include "engine/walk/pace.h"

#include <math.h>
#include <string.h>

#include "engine/walk/mixer.h"

// An expert's weights are unpacked whatever its rows: as much work as so many rows.
static const double rows_of_an_expert = 8;
// A multiplication of attention, against one with packed weights.
static const double attention_costs = 2;
// Standard deviations: of the belief that the kinds are equally fast, or as they were in the prompt before; and of a
// measurement of a hundredth of the prompt.
static const double kinds_differ = 0.25, measured_differs = 0.3;
// A machine has other things to do and is not always as fast: what was measured fades by e in this share of a prompt,
// and of an earlier prompt's speeds this weight is left, but for how the kinds compare.
static const double fades = 0.25, kept = 0.03, kept_reads = 0.2;
// A session's first measurement of a kind says little of the next.
static const double cold_counts = 0.1;
// The disk as it was found counts as so many experts' reads; a step waits for reads from this share of its time on.
static const double probed_experts = 4, waits = 0.3;

uint32_t pace_group(struct pace_groups groups, uint32_t left)
{
    uint32_t n = (left - 1) / groups.largest + 1;
    uint32_t chunks = (left - 1) / groups.chunk + 1;
    uint32_t rows = ((chunks - 1) / n + 1) * groups.chunk;
    return left < rows ? left : rows;
}

// ---- Work: multiplications ----

static double shared_work(const struct shape *s, uint32_t layer)
{
    return shape_is_moe(s, layer) ? 3.0 * s->hidden_size * s->shared_intermediate_size : 0;
}

// Of a token in a layer, without the shared experts.
static double dense_work(const struct shape *s, uint32_t layer)
{
    double hidden = s->hidden_size, mixer = mixer_of(s, layer)->work(s).token;
    if (!shape_is_moe(s, layer))
        return mixer + 3 * hidden * s->intermediate_size;
    return mixer + hidden * s->n_routed_experts;
}

// Of `rows` tokens from `position` on, in one layer.
static double attention_work(const struct shape *s, uint32_t layer, double position, double rows)
{
    struct mixer_work work = mixer_of(s, layer)->work(s);
    double all = rows * position + rows * (rows + 1) / 2, looked_at = all;
    if (work.most) {
        double few = fmin(fmax(work.most - position, 0), rows); // that see no more than so many
        looked_at = few * position + few * (few + 1) / 2 + (rows - few) * work.most;
    }
    return attention_costs * (looked_at * work.pair + all * work.score);
}

// The whole prompt's, in all layers.
static double all_attention_work(const struct pace_plan *plan)
{
    double work = 0;
    for (uint32_t layer = 0; layer < plan->shape->n_layers; layer++)
        work += attention_work(plan->shape, layer, plan->position, plan->tokens);
    return work;
}

static double experts_work(const struct shape *s, double choices, double busy)
{
    return 3.0 * shape_expert_size(s) * s->moe_intermediate_size * (choices + busy * rows_of_an_expert);
}

static uint32_t n_moe_layers(const struct shape *s)
{
    return s->n_layers - s->first_k_dense_replace;
}

static double logits_work(const struct shape *s, double rows)
{
    return rows * s->hidden_size * s->vocab_size;
}

// So many experts of a layer have something to do for `rows` tokens, if all are alike.
static double busy_experts(const struct shape *s, double rows)
{
    return s->n_routed_experts * (1 - pow(1 - (double)s->top_k / s->n_routed_experts, rows));
}

// To be read for a layer of which so many experts are busy. Once a group has swept over all, what stays in memory is
// what was read first.
static double missing_bytes(const struct pace *pace, uint32_t layer, double busy, bool swept)
{
    const struct shape *s = pace->plan.shape;
    double missing = pace->plan.missing[layer], all = s->n_routed_experts;
    if (swept) {
        double slots = (double)pace->plan.slots - (layer - s->first_k_dense_replace) * all;
        missing = all - fmin(fmax(slots, 0), all);
    }
    return missing * busy / all * (double)pace->plan.expert_bytes;
}

// ---- What work costs ----

static double reads_ns(const struct pace *pace)
{
    const struct pace_plan *plan = &pace->plan;
    double prior = plan->disk_bytes_per_s > 0 ? probed_experts * (double)plan->expert_bytes : 0;
    double bytes = pace->learned.read_bytes + prior;
    double ns = pace->learned.read_ns + (prior > 0 ? prior / plan->disk_bytes_per_s * 1e9 : 0);
    return bytes > 0 ? ns / bytes : 0;
}

// Solves the normal equations, with the belief of how the kinds compare: three unknowns, by elimination.
static void solve(struct pace *pace)
{
    double a[PACE_KINDS][PACE_KINDS], y[PACE_KINDS], mean_work = 0, mean_ns = 0;
    const double belief = 1 / (kinds_differ * kinds_differ);
    memcpy(a, pace->learned.squares, sizeof a);
    memcpy(y, pace->learned.products, sizeof y);
    for (int i = 0; i < PACE_KINDS; i++) {
        for (int j = 0; j < PACE_KINDS; j++)
            mean_work += a[i][j];
        mean_ns += y[i];
        double ratio = pace->learned.ratios[i] > 0 ? pace->learned.ratios[i] : 1;
        if (i) {
            a[0][0] += belief;
            a[i][i] += belief / (ratio * ratio);
            a[0][i] -= belief / ratio;
            a[i][0] -= belief / ratio;
        }
    }
    if (!(mean_work > 0))
        return;
    for (int i = 0; i < PACE_KINDS; i++)
        for (int j = i + 1; j < PACE_KINDS; j++) {
            double factor = a[j][i] / a[i][i];
            for (int k = i; k < PACE_KINDS; k++)
                a[j][k] -= factor * a[i][k];
            y[j] -= factor * y[i];
        }
    double mean = mean_ns / mean_work;
    for (int i = PACE_KINDS - 1; i >= 0; i--) {
        for (int k = i + 1; k < PACE_KINDS; k++)
            y[i] -= a[i][k] * y[k];
        y[i] /= a[i][i];
    }
    for (int i = 0; i < PACE_KINDS; i++)
        pace->ns[i] = fmin(fmax(y[i], mean / 20), mean * 20);
}

static double all_work(const struct pace_plan *plan)
{
    const struct shape *s = plan->shape;
    double work = all_attention_work(plan);
    work += experts_work(s, (double)plan->tokens * s->top_k, 0) * n_moe_layers(s);
    return work + (dense_work(s, s->n_layers - 1) + shared_work(s, s->n_layers - 1)) * plan->tokens * s->n_layers;
}

static void fade(struct pace_learned *learned, double left)
{
    for (int i = 0; i < PACE_KINDS; i++) {
        for (int j = 0; j < PACE_KINDS; j++)
            learned->squares[i][j] *= left;
        learned->products[i] *= left;
    }
}

// Takes in that this work took so long. Trust: 0 to 1.
static void learn_work(struct pace *pace, const double *work, double ns, double trust)
{
    double sum = 0;
    for (int i = 0; i < PACE_KINDS; i++)
        sum += work[i];
    if (!(sum > 0) || !(ns > 0))
        return;
    double share = sum / pace->all, weight = trust * share * 100 / (measured_differs * measured_differs);
    fade(&pace->learned, exp(-share / fades));
    bool cold = false; // kernels and memory are met for the first time
    for (int i = 0; i < PACE_KINDS; i++) {
        cold |= work[i] > 0 && !pace->learned.warm[i];
        pace->learned.warm[i] |= work[i] > 0;
    }
    if (cold)
        weight *= cold_counts;
    for (int i = 0; i < PACE_KINDS; i++) {
        for (int j = 0; j < PACE_KINDS; j++)
            pace->learned.squares[i][j] += weight * work[i] / sum * work[j] / sum;
        pace->learned.products[i] += weight * work[i] / sum * ns / sum;
    }
    solve(pace);
}

static void learn_reads(struct pace *pace, double bytes, double ns, bool waited)
{
    if (bytes > 0 && (waited || ns < bytes * reads_ns(pace))) {
        pace->learned.read_bytes += bytes;
        pace->learned.read_ns += ns;
    }
    pace->read_ns = reads_ns(pace);
}

// What was seen until `at`. Where reads were waited for, the experts' compute was hidden behind them, up to the last
// step among the experts; from then on the device had the beginning of the chunk to do.
static void learn(struct pace *pace, const struct pace_clock *at, double trust)
{
    const struct pace_clock *from = &pace->layer_began, *to = &pace->last;
    double ns = (double)(at->now_ns - pace->since.now_ns), experts_ns = 0, bytes = 0, waited = 0;
    if (from->now_ns >= pace->since.now_ns && to->now_ns > from->now_ns) {
        experts_ns = (double)(to->now_ns - from->now_ns);
        bytes = (double)(to->bytes_read - from->bytes_read);
        waited = bytes > 0 ? (double)(to->wait_ns - from->wait_ns) : 0;
    }
    bool by_reads = waited > waits * experts_ns;
    if (by_reads) {
        const double begun[PACE_KINDS] = {pace->seen[PACE_DENSE], pace->seen[PACE_ATTENTION], 0};
        const double hidden[PACE_KINDS] = {[PACE_EXPERTS] = pace->seen[PACE_EXPERTS]};
        learn_work(pace, begun, ns - experts_ns, trust);
        if (pace->ns[PACE_EXPERTS] * hidden[PACE_EXPERTS] > experts_ns) // it took no longer than the reads
            learn_work(pace, hidden, experts_ns, trust);
    } else {
        learn_work(pace, pace->seen, ns - waited, trust);
    }
    if (experts_ns > 0)
        learn_reads(pace, bytes, experts_ns, by_reads);
}

static void look_from(struct pace *pace, const struct pace_clock *at)
{
    pace->since = pace->last = *at;
    memset(pace->seen, 0, sizeof pace->seen);
}

// ---- Steps ----

static void plan_missing(struct pace *pace)
{
    const struct pace_plan *plan = &pace->plan;
    const struct shape *s = plan->shape;
    const uint8_t *tier = plan->tiers;
    for (uint32_t layer = s->first_k_dense_replace; layer < s->n_layers; layer++) {
        plan->missing[layer] = 0;
        for (uint32_t expert = 0; expert < s->n_routed_experts; expert++)
            plan->missing[layer] += *tier++ == MOE_TIER_DISK;
    }
}

void pace_begin(struct pace *pace, const struct pace_plan *plan, const struct pace_clock *at)
{
    const struct shape *s = plan->shape;
    for (int i = 0; i < PACE_KINDS && pace->ns[PACE_DENSE] > 0; i++)
        pace->learned.ratios[i] = fmin(fmax(pace->ns[i] / pace->ns[PACE_DENSE], 0.25), 4);
    *pace = (struct pace){.plan = *plan,
                          .position = plan->position,
                          .left = plan->tokens,
                          .learned = pace->learned,
                          .layer_began = *at}; // no layer yet, nor anything read for one
    fade(&pace->learned, kept);
    pace->learned.read_ns *= kept_reads;
    pace->learned.read_bytes *= kept_reads;
    pace->all = all_work(plan);
    plan_missing(pace);
    for (uint32_t layer = 0; layer < s->n_layers; layer++)
        pace->rest[PACE_DENSE] += plan->tokens * (dense_work(s, layer) + shared_work(s, layer));
    pace->rest[PACE_ATTENTION] = all_attention_work(plan);
    if (plan->all_logits)
        pace->rest[PACE_DENSE] += logits_work(s, plan->tokens);
    pace->read_ns = reads_ns(pace);
    solve(pace);
    look_from(pace, at);
}

// The layer's experts were all given to the device.
static void end_layer(struct pace *pace)
{
    if (!pace->in_layer)
        return;
    pace->in_layer = false;
    pace->queued[PACE_EXPERTS] += pace->layer_work;
    pace->layer++;
}

void pace_begin_group(struct pace *pace, uint32_t rows)
{
    end_layer(pace);
    pace->swept |= pace->rows > 0;
    pace->position += pace->rows;
    pace->left -= rows;
    pace->rows = rows;
    pace->layer = pace->plan.shape->first_k_dense_replace;
}

void pace_skip(struct pace *pace, uint32_t layer, uint32_t rows)
{
    const struct shape *s = pace->plan.shape;
    double dense = 0, attention = 0;
    for (uint32_t l = 0; l <= layer && l < s->n_layers; l++) {
        double done = l < layer ? pace->rows : fmin(rows, pace->rows);
        dense += done * (dense_work(s, l) + shared_work(s, l));
        attention += attention_work(s, l, pace->position, done);
    }
    pace->rest[PACE_DENSE] = fmax(0, pace->rest[PACE_DENSE] - dense);
    pace->rest[PACE_ATTENTION] = fmax(0, pace->rest[PACE_ATTENTION] - attention);
    pace->layer = layer > pace->layer ? layer : pace->layer;
}

static void finish(struct pace *pace, double *work)
{
    for (int i = 0; i < PACE_KINDS; i++) {
        pace->rest[i] = fmax(0, pace->rest[i] - work[i]);
        pace->seen[i] += work[i];
        work[i] = 0;
    }
}

void pace_chunk(struct pace *pace, const struct pace_chunk *chunk, const struct pace_clock *at)
{
    const struct shape *s = pace->plan.shape;
    end_layer(pace);
    double work[PACE_KINDS] = {chunk->rows * dense_work(s, chunk->layer),
                               attention_work(s, chunk->layer, chunk->position, chunk->rows)};
    finish(pace, pace->queued);
    finish(pace, work);
    pace->queued[PACE_DENSE] = chunk->rows * shared_work(s, chunk->layer);
    learn(pace, at, 1);
    look_from(pace, at);
}

void pace_logits(struct pace *pace, uint32_t rows)
{
    pace->queued[PACE_DENSE] += logits_work(pace->plan.shape, rows);
}

void pace_layer(struct pace *pace, uint32_t layer, uint32_t busy, const struct pace_clock *at)
{
    const struct shape *s = pace->plan.shape;
    double early = 0; // what was read for it while the one before was under way
    if (layer > s->first_k_dense_replace)
        early = (double)(at->bytes_read - pace->layer_began.bytes_read) - pace->layer_bytes;
    pace->layer_bytes = fmax(0, missing_bytes(pace, layer, busy, pace->swept) - fmax(0, early));
    pace->layer = layer;
    pace->layer_began = pace->last = *at;
    pace->in_layer = true;
    pace->layer_work = experts_work(s, (double)pace->rows * s->top_k, busy);
    pace->layer_done = 0;
    pace->layer_behind = pace->layer_work / (busy ? busy : 1);
}

void pace_expert(struct pace *pace, uint32_t rows, uint32_t behind, const struct pace_clock *at)
{
    pace->layer_done += experts_work(pace->plan.shape, rows, 1);
    pace->last = *at;
    struct pace so_far = *pace; // the layer's end will say it better, the beginning says little
    double done = pace->layer_done - behind * pace->layer_behind;
    if (done > 0) {
        finish(&so_far, so_far.queued);
        so_far.seen[PACE_EXPERTS] += done;
    }
    learn(&so_far, at, fmin(1, pace->layer_done / pace->layer_work));
    memcpy(pace->ns, so_far.ns, sizeof pace->ns);
    pace->read_ns = so_far.read_ns;
}

// ---- What it says ----

// Of a group's layers from this one on.
static double group_experts_ns(const struct pace *pace, uint32_t first_layer, double rows, bool swept)
{
    const struct shape *s = pace->plan.shape;
    double busy = busy_experts(s, rows), ns = 0, all = s->n_routed_experts;
    double compute = experts_work(s, rows * s->top_k, busy) * pace->ns[PACE_EXPERTS];
    double begin = 0; // of a layer
    for (uint32_t layer = first_layer; layer < s->n_layers; layer++) {
        if (layer == first_layer || shape_layer_kind(s, layer) != shape_layer_kind(s, layer - 1))
            begin = rows * (dense_work(s, layer) + shared_work(s, layer)) * pace->ns[PACE_DENSE] +
                    attention_work(s, layer, pace->position, rows) * pace->ns[PACE_ATTENTION];
        double reads = missing_bytes(pace, layer, busy, swept) * pace->read_ns;
        if (layer > s->first_k_dense_replace)
            reads -= fmin(begin, reads * fmin(1, pace->plan.ahead / all));
        ns += fmax(compute, reads);
    }
    return ns;
}

static double group_bytes(const struct pace *pace, uint32_t first_layer, double rows, bool swept)
{
    double bytes = 0, busy = busy_experts(pace->plan.shape, rows);
    for (uint32_t layer = first_layer; layer < pace->plan.shape->n_layers; layer++)
        bytes += missing_bytes(pace, layer, busy, swept);
    return bytes;
}

double pace_bytes_left(const struct pace *pace, uint64_t bytes_read)
{
    // Beyond the layer's own is for the next, some of whose experts may come while this one is computed.
    double own = pace->layer_bytes - (double)(bytes_read - pace->layer_began.bytes_read);
    bool begun = pace->in_layer || pace->layer > pace->plan.shape->first_k_dense_replace;
    double bytes = group_bytes(pace, pace->layer + pace->in_layer, pace->rows, pace->swept);
    if (begun)
        bytes = fmax(0, bytes + (pace->in_layer ? own : fmin(0, own)));
    uint32_t left = pace->left;
    while (left) {
        uint32_t rows = pace_group(pace->plan.groups, left);
        bytes += group_bytes(pace, pace->plan.shape->first_k_dense_replace, rows, true);
        left -= rows;
    }
    return bytes;
}

double pace_seconds_left(const struct pace *pace)
{
    const struct shape *s = pace->plan.shape;
    double ns = pace->rest[PACE_DENSE] * pace->ns[PACE_DENSE] + pace->rest[PACE_ATTENTION] * pace->ns[PACE_ATTENTION];
    double read_bytes = (double)(pace->last.bytes_read - pace->layer_began.bytes_read);
    if (!(pace->ns[PACE_DENSE] > 0))
        return 0;
    if (pace->in_layer)
        ns += fmax(fmax(0, pace->layer_work - pace->layer_done) * pace->ns[PACE_EXPERTS],
                   fmax(0, pace->layer_bytes - read_bytes) * pace->read_ns);
    ns += group_experts_ns(pace, pace->layer + pace->in_layer, pace->rows, pace->swept);
    if (pace->left) {
        uint32_t groups = (pace->left - 1) / pace_group(pace->plan.groups, pace->left) + 1;
        ns += groups * group_experts_ns(pace, s->first_k_dense_replace, (double)pace->left / groups, true);
    }
    return ns / 1e9;
}
