// SPDX-License-Identifier: GPL-3.0-or-later
// Scores a text: how likely the model finds each token after those before it.
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "app/driver/backend.h"
#include "app/driver/model_tokenizer.h"
#include "app/subcommands/cmd.h"
#include "app/util/files.h"
#include "app/util/format.h"
#include "app/figures/figures_json.h"
#include "app/util/json_out.h"
#include "app/util/progress.h"
#include "app/util/report.h"
#include "app/term/term.h"
#include "tokenizer/tok.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the files written here are little-endian");

enum { FILE_LIMIT = 256 << 20 };

struct eval {
    const struct options *options;
    char *directory;
    struct moe_description about;
    struct tok_ids ids;
    moe_model *model;
    moe_session *session;
    struct progress progress;
    struct new_file logits;
    struct new_file *stages; // n_layers + 1 of them with --dump-layers
    size_t n_stages;
    double nll; // summed over positions 1 and on
    struct moe_err err;
    int write_code; // errno of the first write that failed
};

static void on_progress(void *context, const struct moe_progress *progress)
{
    progress_show(&((struct eval *)context)->progress, progress);
}

// Whitespace-separated ids, each of them in the vocabulary. False: said why.
static bool parse_ids(struct eval *eval, const char *file, const struct bytes *text)
{
    struct tok_err err;
    const char *at = text->data, *end = text->data + text->length;
    for (size_t number = 1;; number++) {
        while (at < end && isspace((unsigned char)*at))
            at++;
        if (at == end)
            return true;
        const char *word = at;
        uint64_t id = 0;
        for (; at < end && isdigit((unsigned char)*at) && id < UINT32_MAX; at++)
            id = id * 10 + (uint64_t)(*at - '0');
        if (at == word || (at < end && !isspace((unsigned char)*at))) {
            for (at = word; at < end && at < word + 40 && !isspace((unsigned char)*at);)
                at++;
            report("%s: entry %zu, \"%.*s\", is not a token id", file, number, (int)(at - word), word);
            return false;
        }
        if (id >= eval->about.vocab_size) {
            report("%s: entry %zu is %" PRIu64 ", but the vocabulary ends at %" PRIu32, file, number, id,
                   eval->about.vocab_size - 1);
            return false;
        }
        if (tok_ids_append(&eval->ids, (int32_t)id, &err)) {
            report("%s", err.text);
            return false;
        }
    }
}

static bool tokenise(struct eval *eval, const struct bytes *text)
{
    struct model_tokenizer own;
    struct moe_err failure;
    struct tok_err err;
    int code = 0;
    if (!*eval->about.tokenizer_file && !eval->about.vocabulary) {
        report("%s: no tokenizer; use --tokens with token ids", eval->directory);
        return false;
    }
    if (model_tokenizer_open(eval->directory, &eval->about, &own, &failure)) {
        report("%s", failure.text);
        return false;
    }
    if (eval->about.bos_token_id >= 0)
        code = tok_ids_append(&eval->ids, eval->about.bos_token_id, &err);
    if (code == 0)
        code = tok_encode(own.tokenizer, text->data, text->length, &eval->ids, &err);
    if (code)
        report("%s", err.text);
    tok_close(own.tokenizer);
    return code == 0;
}

// Fills eval->ids. False: said why.
static bool read_ids(struct eval *eval)
{
    const char *file = eval->options->asked.tokens ? eval->options->asked.tokens : eval->options->asked.text;
    struct bytes text = {0};
    bool standard = strcmp(file, "-") == 0;
    int code = standard ? files_read_fd(STDIN_FILENO, FILE_LIMIT, &text) : files_read(file, FILE_LIMIT, &text);
    file = standard ? "standard input" : file;
    bool fine = code == 0;
    if (code)
        report("%s: %s", file, strerror(code));
    else if (text.length == 0) {
        report("%s: empty file", file);
        fine = false;
    } else
        fine = eval->options->asked.tokens ? parse_ids(eval, file, &text) : tokenise(eval, &text);
    bytes_release(&text);
    if (fine && eval->ids.count == 0) {
        report("%s: no tokens", file);
        fine = false;
    }
    uint32_t limit = eval->about.max_position_embeddings;
    if (fine && eval->ids.count > limit) {
        report("%s: has %zu tokens, but %s takes at most %" PRIu32, file, eval->ids.count, eval->about.name, limit);
        fine = false;
    }
    return fine;
}

static int note(struct eval *eval, int code)
{
    if (code && !eval->write_code)
        eval->write_code = code;
    return code;
}

// The signal that asks us to end; 0: none came.
static int interrupted(void)
{
    for (size_t i = 0; i < TERM_STOPS; i++)
        if (term_signal_pending(term_stops[i]))
            return term_stops[i];
    return 0;
}

static int on_row(void *context, uint32_t position, const float *logits)
{
    struct eval *eval = context;
    size_t vocab = eval->about.vocab_size;
    if (interrupted())
        return MOE_CANCELLED;
    if (eval->options->asked.logits && note(eval, files_write_at(&eval->logits, logits, vocab * sizeof *logits,
                                                                 (uint64_t)position * vocab * sizeof *logits)))
        return MOE_IO;
    if ((size_t)position + 1 >= eval->ids.count)
        return 0;
    double largest = -INFINITY, sum = 0;
    for (size_t i = 0; i < vocab; i++)
        largest = logits[i] > largest ? logits[i] : largest;
    for (size_t i = 0; i < vocab; i++)
        sum += exp((double)logits[i] - largest);
    eval->nll += largest + log(sum) - (double)logits[eval->ids.ids[position + 1]];
    return 0;
}

static void on_hidden(void *context, uint32_t stage, uint32_t position, uint32_t rows, const float *hidden)
{
    struct eval *eval = context;
    size_t row_bytes = eval->about.hidden_size * sizeof *hidden;
    if (stage < eval->n_stages && !eval->write_code)
        note(eval, files_write_at(&eval->stages[stage], hidden, rows * row_bytes, position * (uint64_t)row_bytes));
}

// As a shell's > does, it waits for a pipe's reader, but says so. 0 or an errno; ENXIO: a signal came first.
static int create_output(struct new_file *file, const char *path)
{
    const struct timespec moment = {.tv_nsec = 20000000};
    int code = files_create(file, path);
    if (code == ENXIO && files_is_pipe(path))
        report(FILES_PIPE_WAITS, path);
    while (code == ENXIO && files_is_pipe(path) && !interrupted()) {
        nanosleep(&moment, NULL);
        code = files_create(file, path);
    }
    return code;
}

static bool is_same(const char *a, const char *b)
{
    struct stat one, other;
    return b && stat(a, &one) == 0 && stat(b, &other) == 0 && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

static char *folder_of(const char *path) // malloc'd
{
    const char *slash = strrchr(path, '/');
    return slash ? strndup(path, (size_t)(slash - path) + 1) : strdup("./");
}

// What a slip of the hand would lose: logits have no mark by which older ones could be told from other files.
static bool is_read(const struct eval *eval, const char *path)
{
    const char *dot = strrchr(path, '.');
    char *folder = folder_of(path);
    bool of_model =
        !folder || is_same(path, eval->directory) ||
        (access(path, F_OK) == 0 && (is_same(folder, eval->directory) || (dot && strcasecmp(dot, ".gguf") == 0)));
    free(folder);
    return of_model || is_same(path, eval->options->asked.tokens) || is_same(path, eval->options->asked.text);
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// Of two files to write: whether the later one would lose the other. Neither need be there yet.
static bool is_one(const char *a, const char *b)
{
    struct stat status;
    if (!a || !b)
        return false;
    if (stat(a, &status) == 0)
        return !S_ISCHR(status.st_mode) && is_same(a, b); // a device takes both
    char *folder = folder_of(a), *other = folder_of(b);
    bool one = !folder || !other || (strcmp(name_of(a), name_of(b)) == 0 && is_same(folder, other));
    free(folder);
    free(other);
    return one;
}

static int stage_path(const struct eval *eval, size_t stage, char path[PATH_MAX])
{
    int size = snprintf(path, PATH_MAX, "%s/stage-%03zu.f32", eval->options->asked.dump_layers, stage);
    return size < PATH_MAX ? 0 : ENAMETOOLONG;
}

static bool is_stage(const struct eval *eval, const char *path)
{
    char stage[PATH_MAX];
    bool one = false;
    for (size_t i = 0; eval->options->asked.dump_layers && i <= eval->about.n_layers && !one; i++)
        one = stage_path(eval, i, stage) == 0 && is_one(path, stage);
    return one;
}

// Before anything is written. False: said why.
static bool outputs_are_apart(const struct eval *eval)
{
    const struct options *options = eval->options;
    const char *logits = options->asked.logits;
    const struct {
        const char *path, *option;
        bool lost;
        const char *why;
    } outputs[] = {
        {logits, "--logits", logits && is_read(eval, logits), "belongs to what is read here, and would be lost"},
        {logits, "--logits", is_one(logits, options->model.trace), "is the trace's, too"},
        {logits, "--logits", is_stage(eval, logits), "is one of --dump-layers, too"},
        {options->model.trace, "--trace", is_stage(eval, options->model.trace), "is one of --dump-layers, too"},
    };
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++)
        if (outputs[i].lost) {
            report("%s: %s; name another file for %s", outputs[i].path, outputs[i].why, outputs[i].option);
            return false;
        }
    return true;
}

// Opens the files to write. False: said why.
static bool open_outputs(struct eval *eval)
{
    const struct options *options = eval->options;
    int code = 0;
    if (term_catch_signals(false) < 0) { // from here on: what we wrote beside is taken away
        report("cannot start: %s", strerror(errno));
        return false;
    }
    if (options->asked.logits && (code = create_output(&eval->logits, options->asked.logits))) {
        if (!interrupted()) // else while it waited for a pipe's reader
            report("%s: %s", options->asked.logits, strerror(code));
        return false;
    }
    if (!options->asked.dump_layers)
        return true;
    if (mkdir(options->asked.dump_layers, 0777) != 0 && errno != EEXIST)
        code = errno;
    size_t wanted = eval->about.n_layers + 1u;
    eval->stages = code ? NULL : calloc(wanted, sizeof *eval->stages);
    for (; code == 0 && eval->stages && eval->n_stages < wanted; eval->n_stages++) {
        char path[PATH_MAX];
        code = stage_path(eval, eval->n_stages, path);
        if (!code)
            code = files_create(&eval->stages[eval->n_stages], path);
        if (code)
            break;
    }
    if (code || !eval->stages)
        report("%s: %s", options->asked.dump_layers, strerror(code ? code : ENOMEM));
    return code == 0 && eval->stages;
}

static bool commit_outputs(struct eval *eval)
{
    int code = eval->options->asked.logits ? files_commit(&eval->logits) : 0;
    for (size_t i = 0; i < eval->n_stages && code == 0; i++)
        code = files_commit(&eval->stages[i]);
    if (code)
        report("cannot write the results: %s", strerror(code));
    return code == 0;
}

static int open_model(struct eval *eval)
{
    char *kernel_cache;
    model_settings_say_pipe(&eval->options->model);
    struct moe_model_options model_options = model_settings_open(&eval->options->model, &kernel_cache);
    model_options.progress = on_progress;
    model_options.progress_context = eval;
    int code = moe_model_open(eval->directory, &model_options, &eval->model, &eval->err);
    free(kernel_cache);
    if (code == 0 && *moe_model_notice(eval->model))
        report("%s", moe_model_notice(eval->model));
    struct moe_session_options session_options = model_settings_session(&eval->options->model);
    session_options.max_context = (uint32_t)eval->ids.count;
    return code ? code : moe_session_open(eval->model, &session_options, &eval->session, &eval->err);
}

static int print_result(struct eval *eval, double seconds)
{
    size_t scored = eval->ids.count - 1;
    double mean = scored ? eval->nll / (double)scored : NAN;
    struct moe_stats stats = moe_session_stats(eval->session);
    uint64_t ns = stats.prefill_ns + stats.decode_ns;
    double rate = json_out_rate(eval->ids.count, ns);
    if (!eval->options->asked.json) {
        if (scored)
            printf("%zu tokens, mean NLL %.6f, perplexity %.4f, %.1f tokens/s\n", eval->ids.count, mean, exp(mean),
                   rate);
        else
            printf("1 token, not scored: nothing comes before it; %.1f tokens/s\n", rate);
        return STATUS_DONE;
    }
    struct json_out out = {0};
    json_out_open(&out, NULL, '{');
    json_out_string(&out, "model", eval->about.name);
    json_out_string(&out, "device", moe_model_device(eval->model));
    json_out_string(&out, "kv", eval->options->model.kv == MOE_KV_F16 ? "f16" : "f32");
    json_out_whole(&out, "tokens", eval->ids.count);
    json_out_whole(&out, "scored_tokens", scored);
    json_out_real(&out, "mean_nll", mean);
    json_out_real(&out, "perplexity", exp(mean));
    json_out_real(&out, "tokens_per_s", rate);
    json_out_real(&out, "seconds", seconds);
    struct tally tally = tally_between(&(struct moe_stats){0}, &stats);
    figures_json_experts(&out, &tally);
    json_out_close(&out, '}');
    return json_out_finish(&out);
}

// Feeds the ids and prints what came of it.
static int score(struct eval *eval)
{
    struct moe_feed feed = {
        .ids = eval->ids.ids,
        .count = eval->ids.count,
        .on_row = on_row,
        .on_hidden = eval->options->asked.dump_layers ? on_hidden : NULL,
        .progress = on_progress,
        .context = eval,
    };
    uint64_t began = format_clock_ns();
    int code = moe_session_prefill(eval->session, &feed, &eval->err);
    progress_clear(&eval->progress);
    if (interrupted())
        return term_exit_status(interrupted());
    if (eval->write_code) {
        report("cannot write the results: %s", strerror(eval->write_code));
        return STATUS_FAILED;
    }
    if (code) {
        report("%s", eval->err.text);
        return code == MOE_CONTEXT_FULL ? STATUS_CONTEXT_FULL : STATUS_FAILED;
    }
    if (!commit_outputs(eval))
        return STATUS_FAILED;
    return print_result(eval, (double)(format_clock_ns() - began) / 1e9);
}

static void release(struct eval *eval)
{
    moe_session_close(eval->session);
    moe_model_close(eval->model);
    files_discard(&eval->logits);
    for (size_t i = 0; i < eval->n_stages; i++)
        files_discard(&eval->stages[i]);
    free(eval->stages);
    tok_ids_release(&eval->ids);
    free(eval->directory);
}

int cmd_eval(const struct options *options)
{
    if (!options->asked.tokens == !options->asked.text) {
        report("eval needs either --tokens FILE or --text FILE");
        return STATUS_USAGE;
    }
    struct eval eval = {.options = options, .directory = files_model(options->model.directory), .logits = {.fd = -1}};
    eval.progress = (struct progress){.out = isatty(STDERR_FILENO) ? stderr : NULL, .plain = term_is_dumb()};
    int status = STATUS_MODEL;
    if (!eval.directory || moe_inspect(eval.directory, &eval.about, &eval.err)) {
        report("%s", eval.directory ? eval.err.text : "no memory");
    } else if (!read_ids(&eval) || !outputs_are_apart(&eval)) {
        status = STATUS_FAILED;
    } else {
        term_note_signals();
        int code = open_model(&eval);
        term_keep_signals();
        progress_clear(&eval.progress);
        if (code)
            report("%s", eval.err.text);
        else
            status = open_outputs(&eval) ? score(&eval)
                     : interrupted()     ? term_exit_status(interrupted())
                                         : STATUS_FAILED;
        if (!code && moe_model_end_trace(eval.model, &eval.err)) {
            report("%s", eval.err.text);
            status = status == STATUS_DONE ? STATUS_FAILED : status;
        }
    }
    release(&eval);
    return status;
}
