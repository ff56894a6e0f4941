// SPDX-License-Identifier: GPL-3.0-or-later
// The real model: a package, its session and its tokenizer.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/driver/backend.h"
#include "app/util/files.h"
#include "app/driver/model_tokenizer.h"
#include "app/driver/predict_log.h"
#include "app/figures/profile_out.h"
#include "app/util/report.h"

struct real {
    const struct model_settings *settings;
    char *directory;
    moe_model *model;
    moe_session *session;
    tok *tokenizer;
    tok_template *turns; // NULL: none is known, and none was needed
    moe_sampler *sampler;
    uint8_t *breakers; // [vocab_size], of breakers_of; NULL: not yet
    struct texts breakers_of;
    struct predict_log predictions;
    float *kept; // logits after kept_length tokens; NULL: none
    uint32_t kept_length;
    char tokenizer_digest[17];
    moe_progress_fn *progress;
    void *progress_context;
};

static int fail_tok(struct moe_err *err, const struct tok_err *tok_err)
{
    static const enum moe_code codes[] = {MOE_OK,          MOE_NOT_FOUND, MOE_FORMAT,
                                          MOE_UNSUPPORTED, MOE_NO_MEMORY, MOE_CANCELLED};
    return backend_fail(err, codes[tok_err->code], "%s", tok_err->text);
}

// The template's name: as asked for, as the package has it, or as the model's own template is recognised. "": none.
static int find_template(struct real *real, struct model_tokenizer *own, char name[64], struct moe_err *err)
{
    const struct moe_description *about = moe_model_describe(real->model);
    snprintf(name, 64, "%s", real->settings->template_name ? real->settings->template_name : about->template_name);
    if (*name || real->settings->no_template)
        return 0;
    int code = model_tokenizer_find_template(real->directory, about, own, err);
    snprintf(name, 64, "%s", own->template_name);
    if (code || *name)
        return code;
    return backend_fail(err, MOE_UNSUPPORTED,
                        "%.300s: %s; choose one with --template NAME (any wrong name lists them), or continue "
                        "plain text with moechat run --no-template",
                        real->directory, own->has_template ? "unknown chat template" : "no chat template");
}

static int open_template(struct real *real, struct model_tokenizer *own, struct moe_err *err)
{
    struct tok_err tok_err;
    char name[64];
    int code = find_template(real, own, name, err);
    if (code || !*name)
        return code;
    if (tok_template_open(name, real->tokenizer, &real->turns, &tok_err))
        return fail_tok(err, &tok_err);
    model_tokenizer_bind(own, real->turns);
    struct tok_template_about about = tok_template_describe(real->turns);
    bool thinks = real->settings->think == THINK_ON;
    if (real->settings->think != THINK_UNASKED && !about.can_switch && thinks != about.thinks_unasked)
        return backend_fail(err, MOE_UNSUPPORTED, "the template %s cannot turn thinking %s; leave out --think",
                            about.name, thinks ? "on" : "off");
    return 0;
}

// For the tokenizer, which is opened before the session.
static bool is_cancelled(void *self)
{
    const struct real *real = self;
    return real->session && moe_session_is_cancelled(real->session);
}

static int open_tokenizer(struct real *real, struct moe_err *err)
{
    struct model_tokenizer own;
    int code = model_tokenizer_open(real->directory, moe_model_describe(real->model), &own, err);
    if (code)
        return code;
    real->tokenizer = own.tokenizer;
    tok_set_cancelled(own.tokenizer, is_cancelled, real);
    code = open_template(real, &own, err);
    memcpy(real->tokenizer_digest, own.digest, sizeof real->tokenizer_digest);
    return code;
}

static int real_open(void *self, moe_progress_fn *progress, void *context, struct moe_err *err)
{
    struct real *real = self;
    char *kernel_cache;
    struct moe_model_options model_options = model_settings_open(real->settings, &kernel_cache);
    model_options.progress = real->progress = progress;
    model_options.progress_context = real->progress_context = context;
    int code = moe_model_open(real->directory, &model_options, &real->model, err);
    free(kernel_cache);
    if (code == 0)
        code = open_tokenizer(real, err);
    if (code)
        return code;
    struct moe_session_options session_options = model_settings_session(real->settings);
    if (real->settings->predict_log) {
        code = predict_log_open(&real->predictions, real->settings->predict_log, err);
        session_options.on_predictions = predict_log_take;
        session_options.predictions_context = &real->predictions;
    }
    if (code)
        return code;
    return moe_session_open(real->model, &session_options, &real->session, err);
}

static bool real_close(void *self)
{
    struct real *real = self;
    struct moe_err err;
    moe_sampler_free(real->sampler);
    free(real->kept);
    free(real->breakers);
    tok_template_close(real->turns);
    tok_close(real->tokenizer);
    moe_session_close(real->session);
    bool written = predict_log_close(&real->predictions);
    if (real->settings->profile && real->model)
        profile_print(real->model, stderr);
    if (real->model && moe_model_end_trace(real->model, &err)) {
        report("%s", err.text);
        written = false;
    }
    moe_model_close(real->model);
    free(real->directory);
    free(real);
    return written;
}

static void real_describe(void *self, struct backend_info *info)
{
    const struct real *real = self;
    const struct moe_description *about = moe_model_describe(real->model);
    *info = (struct backend_info){
        .parameters = about->parameters,
        .active_parameters = about->active_parameters,
        .cache = moe_model_cache(real->model),
        .n_experts = (uint64_t)about->n_moe_layers * about->n_routed_experts,
        .folder = about->expert_reads == MOE_FOLDER_READS,
        .max_context = moe_session_max_context(real->session),
        .context_limit = about->max_position_embeddings,
        .vocab_size = about->vocab_size,
        .row_bytes = about->kv_row_bytes_f32 / (real->settings->kv == MOE_KV_F16 ? 2 : 1),
        .suggestion = about->suggestion,
    };
    snprintf(info->name, sizeof info->name, "%s", about->name);
    snprintf(info->device, sizeof info->device, "%s", moe_model_device(real->model));
    snprintf(info->notice, sizeof info->notice, "%s", moe_model_notice(real->model));
    struct origin *origin = &info->origin;
    origin->kv_type = (uint32_t)real->settings->kv;
    origin->n_layers = about->n_layers;
    origin->states = about->state_bytes > 0;
    uint32_t width = about->kv_lora_rank + about->qk_rope_head_dim; // 0: layers differ
    origin->row_width = about->kv_row_bytes_f32 == sizeof(float) * (uint64_t)width * about->n_layers ? width : 0;
    snprintf(origin->model_name, sizeof origin->model_name, "%s", about->name);
    char *path = realpath(real->directory, NULL);
    snprintf(origin->model_path, sizeof origin->model_path, "%s", path ? path : real->directory);
    free(path);
    snprintf(origin->weights, sizeof origin->weights, "%s", about->fingerprint);
    snprintf(origin->weights_once, sizeof origin->weights_once, "%s", about->fingerprint_once);
    snprintf(origin->language.tokenizer, sizeof origin->language.tokenizer, "%s", real->tokenizer_digest);
    if (real->turns)
        info->turns = tok_template_describe(real->turns);
    snprintf(origin->language.template_name, sizeof origin->language.template_name, "%s",
             real->turns ? info->turns.name : "");
}

static int encode_raw(struct real *real, const struct backend_prompt *prompt, struct tok_ids *ids, size_t *ends,
                      struct tok_err *err)
{
    int32_t bos = moe_model_describe(real->model)->bos_token_id;
    if (prompt->begin && bos >= 0 && tok_ids_append(ids, bos, err))
        return -1;
    for (size_t i = 0; i < prompt->n_turns; i++) {
        if (tok_encode(real->tokenizer, prompt->turns[i].text, prompt->turns[i].length, ids, err))
            return -1;
        ends[i] = ids->count;
    }
    return 0;
}

static bool thinks(const struct real *real, enum think think)
{
    return think == THINK_UNASKED ? tok_template_describe(real->turns).thinks_unasked : think == THINK_ON;
}

static int encode_turns(struct real *real, const struct backend_prompt *prompt, struct tok_ids *ids, size_t *ends,
                        struct tok_err *err)
{
    struct tok_prompt turns = {.turns = prompt->turns,
                               .n_turns = prompt->n_turns,
                               .begin = prompt->begin,
                               .behind_system = prompt->behind_system,
                               .thinking = thinks(real, prompt->think)};
    return tok_template_encode(real->turns, &turns, ids, ends, err);
}

static int real_encode(void *self, const struct backend_prompt *prompt, struct tok_ids *ids, size_t *ends,
                       struct moe_err *err)
{
    struct real *real = self;
    struct tok_err tok_err = {0};
    int failed =
        prompt->raw ? encode_raw(real, prompt, ids, ends, &tok_err) : encode_turns(real, prompt, ids, ends, &tok_err);
    return failed ? fail_tok(err, &tok_err) : 0;
}

static struct backend_answer real_answer(void *self, bool raw, enum think think)
{
    const struct real *real = self;
    if (raw || !real->turns)
        return (struct backend_answer){.opened = ""};
    return (struct backend_answer){.has_marks = tok_template_describe(real->turns).thinks,
                                   .opened = tok_template_opened(real->turns, thinks(real, think))};
}

static struct tok_sections real_sections(void *self, bool raw, enum think think)
{
    const struct real *real = self;
    struct tok_sections sections;
    tok_sections_begin(&sections, raw ? NULL : real->turns, real->turns && thinks(real, think));
    return sections;
}

static int real_prefill(void *self, const int32_t *ids, size_t count, const uint32_t *borders, struct moe_err *err)
{
    struct real *real = self;
    struct moe_feed feed = {
        .ids = ids,
        .count = count,
        .position = moe_session_length(real->session),
        .progress = real->progress,
        .context = real->progress_context,
    };
    if (borders)
        memcpy(feed.borders, borders, sizeof feed.borders);
    return moe_session_prefill(real->session, &feed, err);
}

static uint32_t real_held(void *self)
{
    return moe_session_held_tokens(((struct real *)self)->session);
}

static int real_decode(void *self, int32_t id, struct moe_err *err)
{
    return moe_session_decode(((struct real *)self)->session, id, err);
}

// The ids that DRY's breakers stand for: those with one in their text, and marks, which have none. NULL: no memory.
static const uint8_t *find_breakers(struct real *real, const struct sampling *sampling)
{
    uint32_t vocab_size = moe_model_describe(real->model)->vocab_size;
    if (real->breakers && strcmp(real->breakers_of.line, sampling->dry_breakers.line) == 0)
        return real->breakers;
    if (!real->breakers)
        real->breakers = malloc(vocab_size);
    for (uint32_t id = 0; real->breakers && id < vocab_size; id++) {
        const char *bytes;
        size_t length = tok_bytes(real->tokenizer, (int32_t)id, &bytes);
        real->breakers[id] = length == 0 || sampling_breaks(sampling, bytes, length);
    }
    real->breakers_of = sampling->dry_breakers;
    return real->breakers;
}

static int real_start_sampling(void *self, const struct sampling *sampling, struct moe_err *err)
{
    struct real *real = self;
    struct moe_sampling numbers = sampling->numbers;
    struct moe_logit_bias biases[TEXTS_MOST];
    uint32_t vocab_size = moe_model_describe(real->model)->vocab_size;
    moe_sampler_free(real->sampler);
    real->sampler = NULL;
    const char *wrong = sampling_check(sampling);
    char outside[SAMPLING_OUTSIDE];
    if (!wrong && sampling_outside(outside, sampling, vocab_size))
        wrong = outside;
    if (wrong)
        return backend_fail(err, MOE_BAD_ARGUMENT, "%s", wrong);
    numbers.biases = biases;
    numbers.n_biases = sampling_biases(sampling, biases);
    if (numbers.dry.multiplier > 0)
        numbers.dry.breakers = find_breakers(real, sampling);
    if (!(numbers.dry.multiplier > 0) || numbers.dry.breakers)
        real->sampler = moe_sampler_new(&numbers, vocab_size);
    return real->sampler ? 0 : backend_fail(err, MOE_NO_MEMORY, "no memory for the sampler");
}

static int32_t real_sample(void *self, const int32_t *recent, size_t n_recent)
{
    struct real *real = self;
    struct moe_err err;
    const float *logits = moe_session_logits(real->session, &err);
    return logits ? moe_sample(real->sampler, logits, recent, n_recent) : -1;
}

static bool real_is_end(void *self, int32_t id)
{
    const struct real *real = self;
    const struct moe_description *about = moe_model_describe(real->model);
    for (uint32_t i = 0; i < about->n_eos; i++)
        if (about->eos_token_ids[i] == id)
            return true;
    return real->turns && tok_template_ends(real->turns, id);
}

static int32_t real_end_id(void *self, bool raw)
{
    const struct real *real = self;
    const struct moe_description *about = moe_model_describe(real->model);
    if (raw)
        return -1;
    if (real->turns)
        return tok_template_end(real->turns);
    return about->n_eos ? about->eos_token_ids[0] : -1;
}

static size_t real_bytes(void *self, int32_t id, const char **bytes)
{
    return tok_bytes(((struct real *)self)->tokenizer, id, bytes);
}

static uint32_t real_length(void *self)
{
    return moe_session_length(((struct real *)self)->session);
}

static uint32_t real_floor(void *self, uint32_t length)
{
    return moe_session_floor(((struct real *)self)->session, length);
}

static int real_truncate(void *self, uint32_t length, struct moe_err *err)
{
    struct real *real = self;
    int code = moe_session_truncate(real->session, length, err);
    if (code == 0 && length < real->kept_length)
        real->kept_length = 0; // what follows may be other tokens
    return code;
}

static void real_keep_logits(void *self)
{
    struct real *real = self;
    struct moe_err err;
    size_t bytes = moe_model_describe(real->model)->vocab_size * sizeof(float);
    const float *logits = moe_session_logits(real->session, &err);
    if (!real->kept)
        real->kept = malloc(bytes);
    real->kept_length = logits && real->kept ? moe_session_length(real->session) : 0;
    if (real->kept_length)
        memcpy(real->kept, logits, bytes);
}

static bool real_recall_logits(void *self)
{
    struct real *real = self;
    if (!real->kept_length || real->kept_length != moe_session_length(real->session))
        return false;
    moe_session_set_logits(real->session, real->kept);
    return true;
}

static int real_write_record(void *self, const struct saved_slot *slot, struct moe_record *record, struct moe_err *err)
{
    struct real *real = self;
    struct moe_record_part part = {
        .offset = slot->offset, .first = slot->first, .count = slot->count, .states = slot->states};
    if (!slot->states && real->kept_length && real->kept_length == slot->first + slot->count)
        part.logits = real->kept;
    return moe_session_write_record(real->session, slot->io, &part, record, err);
}

static int real_read_record(void *self, const struct moe_record_io *io, const struct moe_record *record,
                            bool only_logits, struct moe_err *err)
{
    struct real *real = self;
    return only_logits ? moe_session_read_logits(real->session, io, record, err)
                       : moe_session_read_record(real->session, io, record, err);
}

static void real_cancel(void *self)
{
    moe_session_cancel(((struct real *)self)->session);
}

static void real_make_room(void *self, uint32_t tokens)
{
    moe_session_make_room(((struct real *)self)->session, tokens);
}

static void real_resume(void *self)
{
    moe_session_resume(((struct real *)self)->session);
}

static struct moe_stats real_stats(void *self)
{
    return moe_session_stats(((struct real *)self)->session);
}

static size_t real_candidates(void *self, struct moe_candidate *candidates, size_t n)
{
    struct real *real = self;
    struct moe_err err;
    const float *logits = moe_session_logits(real->session, &err);
    return logits ? moe_candidates(logits, moe_model_describe(real->model)->vocab_size, candidates, n) : 0;
}

static float real_probability(void *self, const struct moe_candidate *likeliest, int32_t id)
{
    struct moe_err err;
    const float *logits = moe_session_logits(((struct real *)self)->session, &err);
    return logits ? moe_probability(logits, likeliest, id) : -1;
}

static const struct moe_telemetry *real_telemetry(void *self)
{
    return moe_session_telemetry(((struct real *)self)->session);
}

static const struct moe_telemetry *real_so_far(void *self)
{
    return moe_session_so_far(((struct real *)self)->session);
}

static const struct moe_telemetry *real_settle(void *self)
{
    return moe_session_settle(((struct real *)self)->session);
}

static const uint32_t *real_heat(void *self)
{
    return moe_session_heat(((struct real *)self)->session);
}

static void real_clear_heat(void *self)
{
    moe_session_clear_heat(((struct real *)self)->session);
}

static void real_tiers(void *self, uint8_t *tiers)
{
    moe_model_tiers(((struct real *)self)->model, tiers);
}

bool backend_moe_new(struct backend *backend, const struct model_settings *settings, struct moe_err *err)
{
    static const struct backend_ops ops = {
        .open = real_open,
        .close = real_close,
        .describe = real_describe,
        .encode = real_encode,
        .answer = real_answer,
        .sections = real_sections,
        .prefill = real_prefill,
        .held = real_held,
        .decode = real_decode,
        .start_sampling = real_start_sampling,
        .sample = real_sample,
        .is_end = real_is_end,
        .end_id = real_end_id,
        .bytes = real_bytes,
        .length = real_length,
        .floor = real_floor,
        .truncate = real_truncate,
        .keep_logits = real_keep_logits,
        .recall_logits = real_recall_logits,
        .write_record = real_write_record,
        .read_record = real_read_record,
        .cancel = real_cancel,
        .resume = real_resume,
        .make_room = real_make_room,
        .stats = real_stats,
        .candidates = real_candidates,
        .probability = real_probability,
        .telemetry = real_telemetry,
        .so_far = real_so_far,
        .settle = real_settle,
        .heat = real_heat,
        .clear_heat = real_clear_heat,
        .tiers = real_tiers,
    };
    struct real *real = calloc(1, sizeof *real);
    if (real) {
        real->settings = settings;
        real->directory = files_model(settings->directory);
    }
    if (!real || !real->directory) {
        free(real);
        backend_fail(err, MOE_NO_MEMORY, "no memory");
        return false;
    }
    *backend = (struct backend){.ops = &ops, .self = real};
    return true;
}
