// SPDX-License-Identifier: GPL-3.0-or-later
// Which experts the next layer will want, predicted while this one works, for decoded tokens. What is predicted decides
// nothing but what is read early: the store loads as much of it as it can spare, and no result depends on it.
//
// Two of the predictors are the next layer's router, which looks at the state before it is what that router will see:
// the walk runs it, into memory that is kept here, and hears nothing of what it says.
//
// Prefetch is the act, a prediction what it goes by, a predictor whoever says it. One predictor acts, any number are
// scored. `auto` tries where experts are missing: tokens with and without it by turns, then whichever was faster, and
// tries again from time to time. Where hardly any is missing it rests, and costs nothing; nor is it on where nothing
// could be read ahead, whatever tokens took.
#ifndef MOECHAT_ENGINE_EXPERTS_PREFETCH_H
#define MOECHAT_ENGINE_EXPERTS_PREFETCH_H

#include "engine/experts/expert_store.h"
#include "engine/files/shape.h"

enum { PREFETCH_TRY = 8, PREFETCH_KEEP = 256 }; // tokens: of a trial each way; until the next

// Where a router that looks ahead writes, all of one token.
struct prefetch_look {
    gpu_buf *normed;  // [hidden_size], its input
    gpu_buf *logits;  // [n_routed_experts]
    gpu_buf *ids;     // int32 [top_k], its choice
    gpu_buf *weights; // [top_k]
};

enum { PREFETCH_LOOKS = 2 }; // predictors that look ahead

struct prefetch {
    const struct shape *shape;
    gpu *gpu;
    enum moe_prefetch asked;
    enum moe_prefetch acting; // for this token: MOE_PREFETCH_OFF or one that predicts
    moe_predictions_fn *on_predictions;
    void *context;
    int32_t *previous;    // [n_moe_layers * top_k], the last token's experts; a row that begins with -1 is not known
    int32_t *predictions; // [MOE_PREDICTORS * top_k], for the layer that comes next
    bool *there;          // [MOE_PREDICTORS * top_k], was it there when it was predicted?
    bool predicted[MOE_PREDICTORS];
    uint64_t predicted_ns[MOE_PREDICTORS];
    struct moe_prediction scores[MOE_PREDICTORS]; // of this token
    bool fills;                                   // experts that are missing are read one after the other
    bool trying;
    unsigned n;                        // tokens of the trial, or since the last
    uint64_t ahead;                    // experts that were read ahead in the trial
    uint64_t took_ns[2][PREFETCH_TRY]; // without and with
    double missing; // experts a token lately that were not there, or only because they were prefetched
    char reason[96];
    // The looks ahead under way.
    struct prefetch_look looks[PREFETCH_LOOKS]; // ids are their own, the rest is shared
    int32_t *looked[PREFETCH_LOOKS];            // [top_k], their choices on the host
    uint32_t looking_at;                        // the layer
    unsigned n_looks;
    enum moe_prefetch lookers[PREFETCH_LOOKS];
    struct gpu_range ranges[PREFETCH_LOOKS];
    uint64_t fence; // behind them
};

struct prefetch_options {
    const struct shape *shape;
    gpu *gpu; // NULL: nobody looks ahead
    enum moe_prefetch policy;
    moe_predictions_fn *on_predictions;
    void *context;
    bool all; // every expert has a slot
};
int prefetch_open(const struct prefetch_options *options, struct prefetch *prefetch, struct moe_err *err);
void prefetch_release(struct prefetch *prefetch);
const char *prefetch_name(enum moe_prefetch policy); // "off", "previous" ...

void prefetch_begin_token(struct prefetch *prefetch);
// Is the router of the layer after this one, which is a MoE layer, to look at the state as it is now, for this
// predictor? Then into *look.
bool prefetch_looks(struct prefetch *prefetch, enum moe_prefetch predictor, uint32_t layer, struct prefetch_look *look);
// What was looked at since the layer's choice begins its way to the host.
void prefetch_send(struct prefetch *prefetch);
// What was sent is taken for a prediction, once: waits for it.
int prefetch_take(struct prefetch *prefetch, expert_store *store, struct moe_err *err);
// The experts of a layer as the router chose them. Scores what was predicted of it, and lets the predictor that needs
// no more than this make its prediction of the next.
void prefetch_chosen(struct prefetch *prefetch, uint32_t layer, const int32_t *ids, expert_store *store);
// A token is over, in this time; so many of its experts had no slot of the device's, or have it from a prefetch.
void prefetch_end_token(struct prefetch *prefetch, uint32_t position, uint64_t took_ns, uint64_t missing);
// A moment in which the host has nothing to do: where each expert has a slot, `auto` has those read that are missing.
void prefetch_idle(struct prefetch *prefetch, expert_store *store);
// What was known of the last token no longer holds, and prefetches under way are dropped.
void prefetch_forget(struct prefetch *prefetch, expert_store *store);

#endif
