// SPDX-License-Identifier: GPL-3.0-or-later
// What the worker drives: a model with its tokenizer, or a script that plays one (backend_fake.c). All calls come from
// the thread that called open, but for cancel. Errors: 0 or a moe_code with *err filled; then the timeline is
// unchanged.
#ifndef MOECHAT_APP_DRIVER_BACKEND_H
#define MOECHAT_APP_DRIVER_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/util/process_reads.h"
#include "engine/moe.h"
#include "app/driver/model_settings.h"
#include "app/driver/sampling.h"
#include "app/store/saved.h"
#include "tokenizer/tok.h"

struct backend_info {
    char name[64]; // the model's
    char device[128];
    char notice[320]; // as moe_model_notice
    uint64_t parameters, active_parameters;
    struct moe_cache_plan cache;
    uint64_t n_experts;                  // of all layers
    bool folder;                         // the model is a folder from the hub, its experts read in nine pieces
    uint32_t max_context, context_limit; // the model's own; 0: unknown
    uint32_t vocab_size;                 // 0: unknown
    uint64_t row_bytes;                  // of a token, all layers
    struct origin origin;                // of its token ids and cache rows
    struct tok_template_about turns;     // name NULL: there is no template
    struct moe_suggestion suggestion;
    struct process_reads to_start; // read until the model was open; the worker's to fill in
};

// The text to feed next. An empty timeline begins with what begins a conversation; the whole ends where the model's
// answer is to follow.
struct backend_prompt {
    const struct tok_turn *turns;
    size_t n_turns;
    bool begin;         // the conversation begins here
    bool behind_system; // as tok_prompt has it
    bool raw;           // no template: the texts alone
    enum think think;
};

// How the answer to such a prompt begins.
struct backend_answer {
    bool has_marks;     // <think> and </think> in it are marks
    const char *opened; // what of it the prompt already has, "<think>" and such; "": nothing
};

struct backend_ops {
    int (*open)(void *self, moe_progress_fn *progress, void *context, struct moe_err *err);
    // Frees self, opened or not. False, and said on standard error: something else than the answer that was asked for,
    // such as a trace, could not be written.
    bool (*close)(void *self);
    void (*describe)(void *self, struct backend_info *info);
    // Appends the prompt's ids; ends[i] becomes the number of ids up to the end of turn i.
    int (*encode)(void *self, const struct backend_prompt *prompt, struct tok_ids *ids, size_t *ends,
                  struct moe_err *err);
    struct backend_answer (*answer)(void *self, bool raw, enum think think);
    struct tok_sections (*sections)(void *self, bool raw, enum think think); // of the answer, none of it taken
    // Progress goes to open's. borders, [MOE_BORDERS]: places that the timeline can be cut to, as moe_feed's. NULL:
    // none.
    int (*prefill)(void *self, const int32_t *ids, size_t count, const uint32_t *borders, struct moe_err *err);
    uint32_t (*held)(void *self); // as moe_session_held_tokens
    int (*decode)(void *self, int32_t id, struct moe_err *err);
    int (*start_sampling)(void *self, const struct sampling *sampling, struct moe_err *err);
    int32_t (*sample)(void *self, const int32_t *recent, size_t n_recent); // all ids so far; -1: no finite logit
    bool (*is_end)(void *self, int32_t id);
    // Closes an answer in the timeline; -1: nothing does, as without a template, where nothing follows.
    int32_t (*end_id)(void *self, bool raw);
    size_t (*bytes)(void *self, int32_t id, const char **bytes); // any thread, once open has returned 0
    uint32_t (*length)(void *self);
    uint32_t (*floor)(void *self,
                      uint32_t length); // as moe_session_floor: where it can be cut to, at or before `length`
    int (*truncate)(void *self, uint32_t length, struct moe_err *err); // to such a place
    // Remembers the logits of now; puts them back when the timeline is as long as it was then and was never cut
    // shorter, else false.
    void (*keep_logits)(void *self);
    bool (*recall_logits)(void *self);
    // Cache rows on disk, see moe.h; with only_logits the timeline ends where the record does.
    int (*write_record)(void *self, const struct saved_slot *slot, struct moe_record *record, struct moe_err *err);
    int (*read_record)(void *self, const struct moe_record_io *io, const struct moe_record *record, bool only_logits,
                       struct moe_err *err);
    void (*cancel)(void *self); // any thread, once open has returned 0: the call under way ends with MOE_CANCELLED
    void (*resume)(void *self);
    void (*make_room)(void *self, uint32_t tokens); // as moe_session_make_room
    struct moe_stats (*stats)(void *self);
    // The likeliest tokens after the timeline, as moe_candidates.
    size_t (*candidates)(void *self, struct moe_candidate *candidates, size_t n);
    float (*probability)(void *self, const struct moe_candidate *likeliest, int32_t id); // as moe_probability
    // As moe_session_telemetry and moe_session_heat.
    const struct moe_telemetry *(*telemetry)(void *self);
    const struct moe_telemetry *(*so_far)(void *self); // as moe_session_so_far
    const struct moe_telemetry *(*settle)(void *self); // as moe_session_settle
    const uint32_t *(*heat)(void *self);
    void (*clear_heat)(void *self);
    void (*tiers)(void *self, uint8_t *tiers); // as moe_model_tiers, and as many as heat
};

struct backend {
    const struct backend_ops *ops;
    void *self;
};

// Neither opens anything yet; settings must outlive the backend. False: no memory, or *err says what is wrong with the
// script.
bool backend_moe_new(struct backend *backend, const struct model_settings *settings, struct moe_err *err);
bool backend_fake_new(struct backend *backend, const char *script_file, struct moe_err *err);
// The one that the settings ask for.
bool backend_new(struct backend *backend, const struct model_settings *settings, struct moe_err *err);

// Fills *err with a printf sentence and returns code.
__attribute__((format(printf, 3, 4))) int backend_fail(struct moe_err *err, enum moe_code code, const char *format,
                                                       ...);

#endif
