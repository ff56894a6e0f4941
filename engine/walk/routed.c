// SPDX-License-Identifier: GPL-3.0-or-later
// Opening and closing what brings routed experts.
#include "engine/walk/routed.h"

#include <stdlib.h>

#include "engine/base/err.h"

int routed_open(const struct routed_options *options, struct routed *routed, struct moe_err *err)
{
    const struct moe_session_options *session = options->session;
    const struct shape *s = options->shape;
    unsigned without = session->without;
    *routed = (struct routed){
        .store = options->store,
        .sweep.stays_within = without & MOE_WITHOUT_READ_AHEAD,
        .ring.depth = session->ring ? session->ring : options->ring,
        .places = calloc(s->top_k, sizeof *routed->places),
        .done = calloc(s->top_k, sizeof *routed->done),
        .stays = calloc(s->n_layers, sizeof *routed->stays),
        .most_at_once = without & MOE_WITHOUT_BATCHES ? 1 : MOST_EXPERTS,
        .all_first = without & MOE_WITHOUT_HITS_FIRST,
        .shared_last = without & MOE_WITHOUT_SHARED_FIRST,
    };
    // All predictors are asked of each layer, if somebody wants to know what they say.
    routed->may_stay = !(without & (MOE_WITHOUT_RESIDENT | MOE_WITHOUT_BATCHES)) && routed->ring.depth == RING_DEPTH &&
                       !session->on_predictions;
    struct prefetch_options prefetch = {.shape = s,
                                        .gpu = options->gpu,
                                        .policy = session->prefetch,
                                        .on_predictions = session->on_predictions,
                                        .context = session->predictions_context,
                                        .all = expert_store_plan(options->store).all};
    int code = MOE_OK;
    if (!routed->places || !routed->done || !routed->stays)
        code = moe_fail(err, MOE_NO_MEMORY, "no memory for a token's experts");
    if (!code)
        code = prefetch_open(&prefetch, &routed->prefetch, err);
    if (code)
        routed_release(routed);
    return code;
}

void routed_release(struct routed *routed)
{
    prefetch_release(&routed->prefetch);
    free(routed->places);
    free(routed->done);
    free(routed->stays);
    *routed = (struct routed){0};
}

void routed_end(struct routed *routed, gpu *g)
{
    sweep_drop(&routed->sweep, routed->store);
    ring_discard(&routed->ring, g);
}
