// SPDX-License-Identifier: GPL-3.0-or-later
// An answer under way: sampled and fed token by token, told as it comes, until the model, a stop string, a limit or
// somebody ends it; and what then is missing to its end. The engine's thread alone, but for `cancelled`.
#ifndef MOECHAT_APP_DRIVER_ANSWER_H
#define MOECHAT_APP_DRIVER_ANSWER_H

#include <stdatomic.h>

#include "app/driver/answer_text.h"
#include "app/driver/timeline.h"
#include "app/driver/turn.h"

// Zero-initialise but for the first three.
struct answer {
    struct timeline *timeline;
    struct answer_text text; // but for its own first two
    atomic_uint *cancelled;  // the newest turn that shall stop
    unsigned serial;         // of the turn under way
    uint64_t began_ns;       // that turn
    struct tok_sections sections;
};
// Shall the turn under way stop?
bool answer_must_stop(const struct answer *answer);
// Behind the prompt, which is in the timeline with its logits. On 0, result->reason says what ended the answer, and the
// timeline has what is still to be fed; else a code with result->err.
int answer_say(struct answer *answer, const struct turn *turn, struct turn_result *result);

#endif
