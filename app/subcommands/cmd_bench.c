// SPDX-License-Identifier: GPL-3.0-or-later
// How fast: prefill, decode, and the device's own copy in the same run to compare with.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/driver/backend.h"
#include "app/subcommands/bench_parts.h"
#include "app/subcommands/cmd.h"
#include "app/util/files.h"
#include "app/util/format.h"
#include "app/figures/figures_json.h"
#include "app/util/json_out.h"
#include "app/view/plan_words.h"
#include "app/driver/predict_log.h"
#include "app/figures/profile_out.h"
#include "app/util/progress.h"
#include "app/util/report.h"
#include "app/term/term.h"

enum { MAX_RUNS = 1000 };

struct bench {
    const struct options *options;
    char *directory;
    moe_model *model;
    moe_session *session;
    int32_t *ids; // prefill_tokens, then decode_tokens
    struct progress progress;
    struct predict_log predictions;
    struct moe_err err;
    double prefill_rates[MAX_RUNS], decode_rates[MAX_RUNS];
    struct tally tally; // of the last run
    uint64_t hash;      // of the last logits
    double copy_rate;   // bytes a second, read and written
};

static bool make_ids(struct bench *bench)
{
    size_t count = (size_t)bench->options->asked.prefill_tokens + bench->options->asked.decode_tokens;
    bench->ids = bench_ids(count, moe_model_describe(bench->model)->vocab_size);
    return bench->ids != NULL;
}

static int measure_once(struct bench *bench, size_t run)
{
    const struct options *options = bench->options;
    struct moe_feed feed = {.ids = bench->ids, .count = options->asked.prefill_tokens};
    int code = moe_session_truncate(bench->session, 0, &bench->err);
    struct moe_stats before = moe_session_stats(bench->session);
    uint64_t began = format_clock_ns();
    if (code == 0)
        code = moe_session_prefill(bench->session, &feed, &bench->err);
    uint64_t between = format_clock_ns();
    for (uint32_t i = 0; i < options->asked.decode_tokens && code == 0; i++)
        code = moe_session_decode(bench->session, bench->ids[options->asked.prefill_tokens + i], &bench->err);
    uint64_t ended = format_clock_ns();
    if (code)
        return code;
    const float *logits = moe_session_logits(bench->session, &bench->err);
    if (!logits)
        return (int)bench->err.code;
    bench->prefill_rates[run] = json_out_rate(options->asked.prefill_tokens, between - began);
    bench->decode_rates[run] = json_out_rate(options->asked.decode_tokens, ended - between);
    bench->hash = bench_hash(BENCH_HASH_BEGIN, logits, moe_model_describe(bench->model)->vocab_size * sizeof *logits);
    struct moe_stats after = moe_session_stats(bench->session);
    bench->tally = tally_between(&before, &after);
    bench->tally.ahead += before.prefetched - before.used - before.wasted; // in this run they are used, or wasted
    return 0;
}

static int print_result(struct bench *bench)
{
    const struct options *options = bench->options;
    const struct moe_description *about = moe_model_describe(bench->model);
    struct moe_cache_plan cache = moe_model_cache(bench->model);
    double prefill = bench_median(bench->prefill_rates, options->asked.runs),
           decode = bench_median(bench->decode_rates, options->asked.runs);
    double weights = decode * (double)about->active_bytes,
           ratio = bench->copy_rate > 0 ? weights / bench->copy_rate : 0;
    char hash[24], read[FORMAT_SIZE], found[TALLY_FOUND_SIZE];
    snprintf(hash, sizeof hash, "%016" PRIx64, bench->hash);
    if (options->asked.json) {
        struct json_out out = {0};
        json_out_open(&out, NULL, '{');
        json_out_string(&out, "model", about->name);
        json_out_string(&out, "device", moe_model_device(bench->model));
        json_out_whole(&out, "runs", options->asked.runs);
        json_out_whole(&out, "prefill_tokens", options->asked.prefill_tokens);
        json_out_whole(&out, "decode_tokens", options->asked.decode_tokens);
        json_out_real(&out, "prefill_tokens_per_s", prefill);
        json_out_real(&out, "decode_tokens_per_s", decode);
        json_out_whole(&out, "bytes_per_token", about->active_bytes);
        json_out_real(&out, "weights_gb_per_s", weights / 1e9);
        json_out_real(&out, "copy_gb_per_s", bench->copy_rate / 1e9);
        json_out_real(&out, "ratio_to_copy", ratio);
        figures_json_experts(&out, &bench->tally);
        json_out_whole(&out, "expert_slots", cache.slots);
        figures_json_plan(&out, &cache);
        json_out_string(&out, "logits_hash", hash);
        json_out_close(&out, '}');
        return json_out_finish(&out);
    }
    char words[PLAN_WORDS_SIZE];
    printf("%s\n", plan_words(words, sizeof words, &cache));
    if (*plan_warning(words, sizeof words, &cache, options->model.host_cache != MOE_CACHE_AUTO))
        printf("%s\n", words);
    report_text(stdout, about->name, strlen(about->name));
    printf(" on ");
    report_text(stdout, moe_model_device(bench->model), strlen(moe_model_device(bench->model)));
    printf(", %s\n", bench_runs_words(words, sizeof words, options->asked.runs, "runs"));
    printf("  prefill   %9.1f tokens/s   (%s)\n", prefill,
           format_tokens(read, sizeof read, options->asked.prefill_tokens, 0));
    printf("  decode    %9.1f tokens/s   (%s)\n", decode,
           format_tokens(read, sizeof read, options->asked.decode_tokens, 0));
    printf("  weights   %9.2f GB/s       (%s of packed weights a token)\n", weights / 1e9,
           format_bytes(read, sizeof read, about->active_bytes));
    printf("  copy      %9.2f GB/s       (read + written, same device, same run)\n", bench->copy_rate / 1e9);
    printf("  ratio     %9.3f            (weights to copy)\n", ratio);
    printf("  experts   %s, %s read in the last run; %" PRIu64 " slot%s\n", tally_found_words(found, &bench->tally),
           format_bytes(read, sizeof read, bench->tally.bytes_read), cache.slots, format_s(cache.slots));
    printf("  logits    %s (FNV-1a of the last)\n", hash);
    return STATUS_DONE;
}

static int open_model(struct bench *bench)
{
    char *kernel_cache;
    const struct options *options = bench->options;
    model_settings_say_pipe(&options->model);
    struct moe_model_options model_options = model_settings_open(&options->model, &kernel_cache);
    model_options.progress = progress_take;
    model_options.progress_context = &bench->progress;
    int code = moe_model_open(bench->directory, &model_options, &bench->model, &bench->err);
    free(kernel_cache);
    struct moe_session_options session_options = model_settings_session(&options->model);
    session_options.max_context = options->asked.prefill_tokens + options->asked.decode_tokens;
    if (code == 0 && options->model.predict_log) {
        code = predict_log_open(&bench->predictions, options->model.predict_log, &bench->err);
        session_options.on_predictions = predict_log_take;
        session_options.predictions_context = &bench->predictions;
    }
    return code ? code : moe_session_open(bench->model, &session_options, &bench->session, &bench->err);
}

static int measure(struct bench *bench)
{
    if (*moe_model_notice(bench->model)) {
        progress_clear(&bench->progress);
        report("%s", moe_model_notice(bench->model));
    }
    bench->copy_rate = moe_model_measure_device(bench->model);
    int code = make_ids(bench) ? 0 : backend_fail(&bench->err, MOE_NO_MEMORY, "no memory for the token ids");
    size_t runs = bench->options->asked.runs;
    for (size_t run = 0; run <= runs && code == 0; run++) {
        progress_show(&bench->progress,
                      &(struct moe_progress){.what = "measuring", .unit = "runs", .done = run, .total = runs + 1});
        code = measure_once(bench, run ? run - 1 : 0); // the first one warms up
    }
    return code;
}

int cmd_bench(const struct options *options)
{
    if (options->asked.operand && strcmp(options->asked.operand, "cache") == 0)
        return cmd_bench_cache(options);
    if (options->asked.operand && strcmp(options->asked.operand, "stream") == 0)
        return cmd_bench_stream(options);
    if (options->asked.operand) {
        report("unknown benchmark \"%.60s\"; see moechat help bench", options->asked.operand);
        return STATUS_USAGE;
    }
    if (options->asked.only) {
        report("--only is for bench stream");
        return STATUS_USAGE;
    }
    struct bench *bench = calloc(1, sizeof *bench);
    int status = STATUS_MODEL;
    if (!bench) {
        report("no memory");
        return STATUS_FAILED;
    }
    bench->options = options;
    bench->directory = files_model(options->model.directory);
    bench->progress = (struct progress){.out = isatty(STDERR_FILENO) ? stderr : NULL, .plain = term_is_dumb()};
    int code = bench->directory ? open_model(bench) : backend_fail(&bench->err, MOE_NO_MEMORY, "no memory");
    if (code == 0) {
        status = STATUS_FAILED;
        code = measure(bench);
    }
    progress_clear(&bench->progress);
    if (code)
        report("%s", bench->err.text);
    else
        status = print_result(bench);
    moe_session_close(bench->session);
    bool written = predict_log_close(&bench->predictions);
    if (options->model.profile && bench->model)
        profile_print(bench->model, stderr);
    if (bench->model && moe_model_end_trace(bench->model, &bench->err)) {
        report("%s", bench->err.text);
        written = false;
    }
    if (!written && status == STATUS_DONE)
        status = STATUS_FAILED;
    moe_model_close(bench->model);
    free(bench->directory);
    free(bench->ids);
    free(bench);
    return status;
}
