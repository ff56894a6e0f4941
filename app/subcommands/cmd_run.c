// SPDX-License-Identifier: GPL-3.0-or-later
// One prompt, one answer: its bytes on standard output and nothing else there.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/subcommands/cmd.h"
#include "app/util/files.h"
#include "app/figures/figures.h"
#include "app/figures/figures_json.h"
#include "app/util/json_out.h"
#include "app/view/plan_words.h"
#include "app/util/progress.h"
#include "app/util/report.h"
#include "app/util/sanitize.h"
#include "app/talk/sessions.h"
#include "app/term/term.h"
#include "app/driver/worker.h"

enum { PROMPT_LIMIT = 64 << 20 };

struct run {
    const struct options *options;
    struct talk_settings settings;
    struct worker *worker;
    struct turn *turn; // until it is sent
    struct backend_info info;
    struct progress progress;
    uint64_t seed;
    bool done, to_terminal;
    bool lost; // the session that was asked for can't be saved to
    int status;
    int signal_number;           // that stopped us, 0: none
    char last;                   // byte written
    struct bytes text, thinking; // with --json
    bool thinks;                 // what is being written is thinking
    struct moe_telemetry *told;  // with --jsonl: the sum of the steps that were
    // With a session: the conversation, and the prompt until the session is open.
    struct store store;
    struct sessions_choice choice;
    struct chat chat;
    struct bytes prompt;
    bool saving, sent, answered;
    char session[STORE_NAME_SIZE];
    struct sanitize sanitize;
};

static bool drop_newline(struct bytes *text)
{
    size_t length = text->length;
    if (length && text->data[length - 1] == '\n')
        length -= length > 1 && text->data[length - 2] == '\r' ? 2 : 1;
    text->length = length;
    return true;
}

// The prompt: -p or --prompt-file, then standard input when it is not a terminal. False: said why.
static bool read_prompt(const struct options *options, struct bytes *prompt)
{
    struct bytes input = {0};
    int code = bytes_append(prompt, "", 0) ? 0 : ENOMEM;
    if (options->asked.prompt && options->asked.prompt_file) {
        const char *operand = options->asked.operand, *quote = operand ? "\"" : "";
        report("use either %s%.60s%s or --prompt-file, not both", quote, operand ? operand : "--prompt", quote);
        return false;
    }
    if (code == 0 && options->asked.prompt_file)
        code = files_read(options->asked.prompt_file, PROMPT_LIMIT, prompt);
    if (code) {
        report("%s: %s", options->asked.prompt_file ? options->asked.prompt_file : "prompt", strerror(code));
        return false;
    }
    drop_newline(prompt);
    if (options->asked.prompt && !bytes_append(prompt, options->asked.prompt, strlen(options->asked.prompt)))
        code = ENOMEM;
    if (code == 0 && !isatty(STDIN_FILENO)) {
        code = files_read_fd(STDIN_FILENO, PROMPT_LIMIT, &input);
        if (code == EBADF)
            code = 0; // started with standard input closed
        drop_newline(&input);
    }
    if (code == 0 && input.length) {
        bool both = prompt->length > 0;
        if ((both && !bytes_append(prompt, "\n", 1)) || !bytes_append(prompt, input.data, input.length))
            code = ENOMEM;
    }
    bytes_release(&input);
    if (code)
        report("standard input: %s", strerror(code));
    else if (prompt->length == 0)
        report("no prompt; give one as an argument, with --prompt-file FILE or on standard input; moechat alone begins "
               "a chat");
    return code == 0 && prompt->length > 0;
}

// Standard output takes no more: the answer ends.
static void stop_writing(struct run *run, int code)
{
    run->status = code == EPIPE ? STATUS_EPIPE : STATUS_FAILED;
    if (code != EPIPE)
        report("cannot write the answer: %s", strerror(code));
    worker_cancel(run->worker);
    run->done = true;
}

static void write_out(struct run *run, const char *bytes, size_t length)
{
    if (run->status == STATUS_EPIPE || length == 0)
        return;
    run->last = bytes[length - 1];
    int code = files_write(STDOUT_FILENO, bytes, length);
    if (code)
        stop_writing(run, code);
}

// Thinking is shown on a terminal and kept apart in JSON; a pipe gets the answer alone.
static void take_text(struct run *run, const struct event *event)
{
    const char *bytes = event->text.bytes;
    size_t length = event->text.length;
    bool thinking = event->text.thinking;
    if (run->options->asked.json || run->options->asked.jsonl || run->to_terminal)
        progress_clear(&run->progress);
    if (run->options->asked.json || run->options->asked.jsonl) {
        if (!bytes_append(thinking ? &run->thinking : &run->text, bytes, length)) {
            report("no memory for the answer");
            run->status = STATUS_FAILED;
            run->done = true;
        }
    } else if (run->to_terminal) {
        char shown[SANITIZE_ROOM(256)];
        if (thinking != run->thinks)
            write_out(run, thinking ? "(thinking) " : "\n\n", thinking ? 11 : 2);
        run->thinks = thinking;
        write_out(run, shown, sanitize_push(&run->sanitize, bytes, length, shown));
    } else if (!thinking) {
        progress_clear(&run->progress);
        write_out(run, bytes, length);
    }
}

static void print_token(struct run *run, const struct event *event)
{
    struct json_out out = {0};
    const struct tally *tally = &event->token.tally;
    progress_clear(&run->progress);
    json_out_open(&out, NULL, '{');
    json_out_whole(&out, "token", (uint64_t)event->token.id);
    json_out_text(&out, "text", event->token.bytes, event->token.length);
    json_out_real(&out, "seconds", event->token.seconds);
    json_out_whole(&out, "prefilled_tokens", tally->read_tokens);
    json_out_real(&out, "decode_tokens_per_s", tally_answer_speed(tally));
    figures_json_experts(&out, tally);
    if (event->token.step) {
        figures_json_step(&out, event->token.step);
        figures_add(&run->told, event->token.step); // without memory more is left for the last line
    }
    json_out_close(&out, '}');
    int code = json_out_print(&out);
    if (code && run->status != STATUS_EPIPE)
        stop_writing(run, code);
}

// The steps of the turn that led to no token: the mark that ended the answer, parts of a long prompt. Where it was
// refused, or stopped before the first of them, the sum of none.
static void add_rest(struct json_out *out, const struct run *run, const struct turn_result *result)
{
    static const struct moe_telemetry none;
    struct figures figures = {0};
    if (worker_figures(run->worker, &figures)) {
        struct moe_telemetry *rest = figures.sums[FIGURES_TURN];
        if (run->told)
            figures_take_away(rest, run->told);
        figures_json_rest(out, rest);
    } else if (!result->tally.rows) { // else there is no memory for them
        figures_json_rest(out, &none);
    }
    figures_release(&figures);
}

static void print_json(struct run *run, const struct turn_result *result)
{
    struct json_out out = {0};
    json_out_open(&out, NULL, '{');
    json_out_text(&out, "text", run->text.data ? run->text.data : "", run->text.length);
    if (run->thinking.length)
        json_out_text(&out, "thinking", run->thinking.data, run->thinking.length);
    json_out_string(&out, "model", run->info.name);
    json_out_string(&out, "device", run->info.device);
    json_out_whole(&out, "seed", run->seed);
    if (*run->session)
        json_out_string(&out, "session", run->session);
    else
        json_out_null(&out, "session");
    json_out_whole(&out, "cached_tokens", result->cached_tokens);
    json_out_whole(&out, "prefilled_tokens", result->tally.read_tokens);
    json_out_whole(&out, "generated_tokens", result->generated_tokens);
    json_out_real(&out, "prefill_tokens_per_s", tally_read_speed(&result->tally));
    json_out_real(&out, "decode_tokens_per_s", tally_answer_speed(&result->tally));
    figures_json_experts(&out, &result->tally);
    if (run->options->asked.jsonl)
        add_rest(&out, run, result);
    json_out_whole(&out, "expert_slots", run->info.cache.slots);
    figures_json_plan(&out, &run->info.cache);
    figures_json_process(&out, &run->info.to_start);
    json_out_real(&out, "seconds", result->seconds);
    json_out_whole(&out, "context_used", result->context_used);
    json_out_whole(&out, "context_total", result->context_total);
    json_out_string(&out, "stop_reason", stop_reason_name(result->reason));
    if (*result->err.text)
        json_out_string(&out, "error", result->err.text);
    json_out_close(&out, '}');
    int status = json_out_finish(&out);
    if (status != STATUS_DONE)
        run->status = status;
}

// What there was no room for, and what helps.
static void report_full(const struct run *run, const struct turn_result *result)
{
    const char *full = *result->err.text ? result->err.text : "the context is full";
    struct context_figures context = {.context = run->info.max_context, .limit = run->info.context_limit};
    char limit[PLAN_LIMIT_SIZE];
    if (!*plan_limit(limit, &context)) {
        report("%s; --context N makes more room, up to the model's limit", full);
        return;
    }
    const char *help = run->chat.n_turns > 2  ? "; a new session starts over"
                       : result->kept         ? "; a shorter prompt leaves the answer more room"
                       : result->shorter_fits ? "; a shorter one fits"
                                              : "";
    report("%s%s. %s", full, help, limit);
}

static void finish(struct run *run, const struct turn_result *result)
{
    static const int statuses[] = {[STOP_END] = STATUS_DONE,
                                   [STOP_MAX_TOKENS] = STATUS_DONE,
                                   [STOP_CONTEXT_FULL] = STATUS_CONTEXT_FULL,
                                   [STOP_CANCELLED] = STATUS_INTERRUPTED,
                                   [STOP_ERROR] = STATUS_FAILED,
                                   [STOP_TEXT] = STATUS_DONE};
    char shown[SANITIZE_ROOM(0)];
    progress_clear(&run->progress);
    run->done = !run->saving;
    run->answered = true;
    run->status = run->signal_number ? term_exit_status(run->signal_number) : statuses[result->reason];
    if (run->lost && run->status == STATUS_DONE)
        run->status = STATUS_FAILED;
    if (run->options->asked.json || run->options->asked.jsonl) {
        print_json(run, result);
    } else if (run->to_terminal) {
        write_out(run, shown, sanitize_flush(&run->sanitize, shown));
        if (run->last && run->last != '\n')
            write_out(run, "\n", 1);
    }
    if (result->reason == STOP_ERROR)
        report("%s", result->err.text);
    else if (result->reason == STOP_CONTEXT_FULL)
        report_full(run, result);
}

// The prompt after what the session holds.
static void send_in_session(struct run *run, const struct session_news *news)
{
    const char *system = run->options->talk.system;
    if (*run->choice.note || *news->text)
        report("%s%s%s", run->choice.note, *news->text && *run->choice.note ? " But " : "", news->text);
    if (run->chat.n_turns && run->chat.turns[run->chat.n_turns - 1].role == TOK_USER)
        report("the last message of the session has no answer; this one takes its place (/retry in a chat answers it)");
    if (news->stale)
        chat_feed_anew(&run->chat);
    if (chat_begins_anew(&run->chat, run->chat.think))
        report("%s changes how the session begins, so all of it is read again; --think %s keeps it as it is",
               chat_begins_anew(&run->chat, THINK_ON) ? "to think first" : "to answer at once",
               chat_begins_anew(&run->chat, THINK_ON) ? "off" : "on");
    if (system && !run->chat.n_turns)
        chat_set_system(&run->chat, system, strlen(system));
    else if (system && !chat_system_is(&run->chat, system, strlen(system)))
        report("the session keeps its own system message; --system is ignored");
    struct turn *turn = chat_request(&run->chat, run->prompt.data, run->prompt.length);
    if (!turn) {
        report("no memory for the conversation");
        run->status = STATUS_FAILED;
        run->done = true;
        return;
    }
    turn->max_tokens = run->settings.max_tokens;
    turn->sampling = talk_settings_sampling(&run->settings, run->seed);
    turn->tokens = run->options->asked.jsonl;
    worker_send(run->worker, turn);
    run->sent = true;
}

static void take_session(struct run *run, const struct session_news *news)
{
    snprintf(run->session, sizeof run->session, "%s", news->name);
    progress_clear(&run->progress);
    if (!run->answered && !run->sent) {
        run->lost = news->failed;
        run->saving = news->open;
        if (!run->signal_number) {
            send_in_session(run, news);
            return;
        }
        run->status = term_exit_status(run->signal_number); // it came while the rows were read back
        run->done = true;
        return;
    }
    if (*news->text)
        report("%s", news->text);
    if (news->failed && run->status == STATUS_DONE)
        run->status = STATUS_FAILED;
    run->done = run->answered;
}

// To a terminal the plan, elsewhere only what may surprise.
static void say_plan(const struct run *run)
{
    char words[PLAN_WORDS_SIZE];
    if (*run->info.notice)
        report("%s", run->info.notice);
    if (run->progress.out)
        report("%s", plan_words(words, sizeof words, &run->info.cache));
    struct context_figures context = {run->info.max_context, run->info.context_limit, run->info.row_bytes,
                                      run->choice.saved ? run->options->talk.kv_cap : 0,
                                      run->info.vocab_size * sizeof(float)};
    if (run->progress.out)
        report("%s.", plan_context(words, sizeof words, &context));
    if (run->progress.out && run->info.folder)
        report("%s", FOLDER_WORDS);
    if (*plan_warning(words, sizeof words, &run->info.cache, run->options->model.host_cache != MOE_CACHE_AUTO))
        report("%s", words);
}

// Settings that nobody gave are the model's.
static void take_suggestion(struct run *run)
{
    char said[SUGGESTION_SIZE];
    options_suggest(&run->settings, &run->info.suggestion, said, sizeof said);
    run->turn->sampling = talk_settings_sampling(&run->settings, run->seed);
    if (run->progress.out && *said)
        report("the model suggests %s", said);
}

static void begin(struct run *run)
{
    progress_clear(&run->progress);
    say_plan(run);
    take_suggestion(run);
    if (!run->choice.saved) {
        worker_send(run->worker, run->turn);
        run->turn = NULL;
        return;
    }
    struct worker_session session = {.saved = run->choice.saved};
    if (!chat_timeline(&run->chat, &session.ids)) {
        report("no memory for the session");
        tok_ids_release(&session.ids);
        run->status = STATUS_FAILED;
        run->done = true;
        return;
    }
    run->saving = true;
    run->choice.saved = NULL;
    worker_open_session(run->worker, session);
}

// What only the model's vocabulary says is wrong, said before anything is read or saved.
static bool refuse_sampling(struct run *run)
{
    struct sampling sampling = talk_settings_sampling(&run->settings, run->seed);
    char outside[SAMPLING_OUTSIDE];
    if (!sampling_outside(outside, &sampling, run->info.vocab_size))
        return false;
    progress_clear(&run->progress);
    report("%s", outside);
    run->status = STATUS_USAGE;
    run->done = true;
    return true;
}

static void take_events(struct run *run)
{
    struct event event;
    while (!run->done && worker_event(run->worker, &event)) {
        switch (event.kind) {
        case EVENT_PROGRESS:
            term_keep_signals();
            if (!run->last && !run->text.length)
                progress_show(&run->progress, &event.progress);
            break;
        case EVENT_READY:
            term_let_quit();
            run->info = event.ready;
            run->chat.about = event.ready.turns;
            run->chat.think = run->chat.fed_think = run->options->model.think;
            if (!refuse_sampling(run))
                begin(run);
            break;
        case EVENT_FAILED:
            progress_clear(&run->progress);
            report("%s", event.failed.text);
            run->status = STATUS_MODEL;
            run->done = true;
            break;
        case EVENT_TEXT:
            take_text(run, &event);
            break;
        case EVENT_TOKEN:
            print_token(run, &event);
            event_release(&event);
            break;
        case EVENT_UNSAVED:
            progress_clear(&run->progress);
            report("%s", event.unsaved);
            break;
        case EVENT_SESSION:
            take_session(run, &event.session);
            break;
        case EVENT_DONE:
            finish(run, event.result);
            event_release(&event);
            break;
        }
    }
}

static void take_signals(struct run *run)
{
    term_drain();
    for (size_t i = 0; i < TERM_STOPS; i++) {
        if (!term_signal_came(term_stops[i]))
            continue;
        run->signal_number = term_stops[i];
        term_hurry_signals();            // a second one need not wait
        if (run->turn && !run->saving) { // still loading: there is nothing to keep
            progress_clear(&run->progress);
            run->status = term_exit_status(term_stops[i]);
            run->done = true;
        }
        worker_cancel(run->worker);
    }
}

static void loop(struct run *run, int signals)
{
    while (!run->done) {
        struct pollfd fds[] = {{.fd = signals, .events = POLLIN}, {.fd = worker_fd(run->worker), .events = POLLIN}};
        int came = poll(fds, 2, term_patience(-1));
        if (came < 0 && errno != EINTR) {
            progress_clear(&run->progress);
            report("cannot wait for the answer: %s", strerror(errno));
            break;
        }
        if (came == 0)
            term_keep_signals();
        take_signals(run);
        take_events(run);
    }
}

static struct turn *make_turn(struct run *run, const struct bytes *prompt)
{
    const struct options *options = run->options;
    struct turn *turn = turn_new();
    if (!turn)
        return NULL;
    turn->raw = options->model.no_template;
    turn->think = options->model.think;
    turn->only = true;
    turn->tokens = options->asked.jsonl;
    turn->max_tokens = options->talk.max_tokens;
    if ((options->talk.system && !turn_add(turn, TOK_SYSTEM, options->talk.system, strlen(options->talk.system))) ||
        !turn_add(turn, TOK_USER, prompt->data, prompt->length)) {
        turn_free(turn);
        return NULL;
    }
    return turn;
}

int cmd_run(const struct options *options)
{
    struct run run = {.options = options, .settings = options_talk(options), .to_terminal = isatty(STDOUT_FILENO)};
    struct store_error store_error;
    struct session_news news;
    struct backend backend;
    struct moe_err err;
    bool left = false;
    run.progress.out = isatty(STDERR_FILENO) ? stderr : NULL;
    run.progress.plain = term_is_dumb();
    run.seed = options->talk.seed.given ? options->talk.seed.number : talk_settings_random_seed();
    struct sampling sampling = talk_settings_sampling(&options->talk, run.seed);
    const char *wrong = sampling_check(&sampling);
    run.status = STATUS_USAGE;
    if (wrong) {
        report("%s", wrong);
        goto release;
    }
    if (!read_prompt(options, &run.prompt))
        goto release;
    if (options->model.no_template && (options->talk.session || options->talk.go_on)) {
        report("--no-template cannot be used with a session");
        goto release;
    }
    if (!sessions_choose(&run.store, &options->talk, false, &run.chat, &run.choice, &store_error)) {
        report("%s", store_error.text);
        run.status = sessions_status(&store_error);
        goto release;
    }
    run.status = STATUS_MODEL;
    if (!backend_new(&backend, &options->model, &err)) {
        report("%s", err.text);
        goto release;
    }
    run.status = STATUS_FAILED;
    int signals = term_catch_signals(false);
    term_hold_quit();
    model_settings_say_pipe(&options->model);
    run.turn = make_turn(&run, &run.prompt);
    run.worker = worker_new(&backend, 0);
    if (signals >= 0 && run.turn && run.worker)
        loop(&run, signals);
    else
        report("cannot start: %s", strerror(errno));
    if (run.saving && run.worker && !run.answered)
        worker_finish_session(run.worker, &news);
    if (!worker_abandon(run.worker, &left) && run.status == STATUS_DONE)
        run.status = STATUS_FAILED;
release:
    turn_free(run.turn);
    saved_close(run.choice.saved);
    saved_content_release(&run.choice.content);
    chat_release(&run.chat);
    bytes_release(&run.prompt);
    bytes_release(&run.text);
    bytes_release(&run.thinking);
    free(run.told);
    if (left)
        term_leave(run.status);
    return run.status;
}
