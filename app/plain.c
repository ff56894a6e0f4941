// SPDX-License-Identifier: GPL-3.0-or-later
#include "plain.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "format.h"
#include "json_out.h"
#include "plain_parts.h"
#include "prompt.h"
#include "sampling.h"
#include "term.h"

// Our own words, cut between them where a line of the terminal ends.
void plain_say(struct plain *plain, const char *text)
{
    int columns = plain->from_terminal ? term_columns() : INT_MAX, column = 0;
    fputs(plain->color ? "\033[2m" : "", stdout);
    while (*text) {
        int length = (int)strcspn(text, " ");
        if (column && column + 1 + length > columns) {
            fputc('\n', stdout);
            column = 0;
        }
        column += printf("%s%.*s", column ? " " : "", length, text);
        text += length + (text[length] == ' ');
    }
    fputs(plain->color ? "\033[0m\n" : "\n", stdout);
}

// Writes what is buffered; a reader that has gone, or a full disk, ends the chat.
void plain_flush(struct plain *plain)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return;
    if (plain->status == STATUS_DONE)
        plain->status = errno == EPIPE ? STATUS_EPIPE : STATUS_FAILED;
    if (plain->status == STATUS_FAILED)
        report("cannot write the answer: %s", strerror(errno));
    plain->state = LEAVING;
}

static void leave(struct plain *plain, int status)
{
    plain->status = status;
    plain->state = LEAVING;
}

void plain_ask(struct plain *plain)
{
    plain->state = IDLE;
    if (plain->from_terminal)
        prompt_show();
}

// Figures of a turn, in words.
static void say_figures(struct plain *plain, const struct turn_result *result)
{
    const struct moe_stats *used = &result->used;
    char read[FORMAT_SIZE], prefetch[96] = "off", line[512];
    const char *policy = used->prefetch_policy ? used->prefetch_policy : "off";
    if (strcmp(policy, "off") != 0)
        snprintf(prefetch, sizeof prefetch, "%.20s: %" PRIu64 " used, %" PRIu64 " wasted", policy, used->used,
                 used->wasted);
    snprintf(line, sizeof line,
             "(%" PRIu32 " tokens, %.1f tokens/s; experts: %" PRIu64 " hits, %" PRIu64
             " misses, %s read; context %" PRIu32 " of %" PRIu32 "; prefetch %s)",
             result->generated_tokens, json_out_rate(used->decoded_tokens, used->decode_ns), used->hits, used->misses,
             format_bytes(read, sizeof read, used->bytes_read), result->context_used, result->context_total, prefetch);
    plain_say(plain, line);
}

static void say_reason(struct plain *plain, const struct turn_result *result)
{
    if (result->reason == STOP_CANCELLED)
        plain_say(plain, result->kept ? "Stopped; what is there stays part of the conversation."
                                      : "Stopped before an answer; the message is taken back. /retry sends it again.");
    else if (result->reason == STOP_MAX_TOKENS)
        plain_say(plain, "Stopped at max-tokens; /set max-tokens 0 lifts the limit.");
    else if (result->reason == STOP_CONTEXT_FULL) {
        char line[640];
        snprintf(line, sizeof line, "%s%s; /undo takes messages back, /new begins anew, --context makes more room.",
                 result->kept ? "Stopped: the context is full" : "Not sent: ", result->kept ? "" : result->err.text);
        plain_say(plain, line);
    } else if (result->reason == STOP_ERROR) {
        plain_flush(plain);
        report("%s", result->err.text);
        plain_say(plain, "The message is taken back; /retry sends it again.");
    }
}

static void begin_answer(struct plain *plain)
{
    if (plain->begun)
        return;
    progress_clear(&plain->progress);
    fputs(plain->color ? "\033[1;36mAssistant:\033[0m " : "Assistant: ", stdout);
    plain->begun = true;
    plain->last_shown = ' ';
}

static void show_text(struct plain *plain, const char *bytes, size_t length)
{
    char shown[SANITIZE_ROOM(256)];
    begin_answer(plain);
    size_t size = sanitize_push(&plain->sanitize, bytes, length, shown);
    fwrite(shown, 1, size, stdout);
    if (size)
        plain->last_shown = shown[size - 1];
    if (!bytes_append(&plain->answer, bytes, length)) {
        report("no memory for the answer");
        leave(plain, STATUS_FAILED);
    }
}

static void finish_turn(struct plain *plain, struct turn_result *result)
{
    char shown[SANITIZE_ROOM(0)];
    progress_clear(&plain->progress);
    if (result->kept)
        begin_answer(plain);
    size_t size = sanitize_flush(&plain->sanitize, shown);
    fwrite(shown, 1, size, stdout);
    if (plain->begun && (size || plain->last_shown != '\n'))
        fputc('\n', stdout);
    say_reason(plain, result);
    if (result->kept)
        say_figures(plain, result);
    if (!chat_accept(&plain->chat, result, &plain->answer)) {
        report("no memory for the conversation");
        leave(plain, STATUS_FAILED);
    }
    bool failed = result->reason == STOP_ERROR;
    turn_result_free(result);
    if (plain->state != LEAVING)
        plain_ask(plain);
    if (failed && !plain->from_terminal)
        plain->status = STATUS_FAILED;
}

static void send_turn(struct plain *plain, struct turn *turn)
{
    if (!turn) {
        report("no memory for the message");
        plain_ask(plain);
        return;
    }
    plain->turn_seed = plain->seed + plain->n_sent++;
    turn->sampling = sampling_from(plain->options, plain->turn_seed);
    turn->max_tokens = plain->options->max_tokens;
    plain->answer.length = 0;
    plain->begun = false;
    plain->state = ANSWERING;
    bytes_append(&plain->answer, "", 0);
    worker_send(plain->worker, turn);
}

static void send_message(struct plain *plain, const char *text, size_t length)
{
    send_turn(plain, chat_request(&plain->chat, text, length));
}

static void retry(struct plain *plain)
{
    struct bytes text;
    struct turn *again = chat_again(&plain->chat);
    if (!again && !chat_take_last(&plain->chat, &text)) {
        plain_say(plain, "There is no message to send again.");
        return;
    }
    // A seed that was asked for gives the same answer again; else a new one is drawn by counting on.
    if (options_given(plain->options, "seed") && plain->n_sent > 0)
        plain->n_sent--;
    if (again) {
        plain_say_message("You: ", &plain->chat.turns[plain->chat.n_turns - 1].text);
        send_turn(plain, again);
        return;
    }
    plain_say_message("You: ", &text);
    send_message(plain, text.data, text.length);
    bytes_release(&text);
}

static void undo(struct plain *plain, const char *text)
{
    size_t count;
    char line[160];
    if (!commands_count(text, 1, &count)) {
        plain_say(plain, "/undo takes a number of messages.");
        return;
    }
    size_t taken = chat_undo(&plain->chat, count);
    snprintf(line, sizeof line, "Took back %zu message%s; %zu remain%s, context %" PRIu32 " of %" PRIu32 ".", taken,
             taken == 1 ? "" : "s", chat_exchanges(&plain->chat), chat_exchanges(&plain->chat) == 1 ? "s" : "",
             chat_position(&plain->chat), plain->info.max_context);
    plain_say(plain, line);
    if (plain->saving && taken) {
        plain->state = BUSY;
        worker_cut(plain->worker, chat_position(&plain->chat));
    }
}

static void set_system(struct plain *plain, const struct line *line)
{
    const struct chat_turn *now = chat_system(&plain->chat);
    if (line->length == 0) {
        fputs(now ? "System message: " : "There is no system message.", stdout);
        if (now)
            report_text(stdout, now->text.data, now->text.length);
        fputc('\n', stdout);
        return;
    }
    bool remove = line->length == 1 && line->text[0] == '-';
    bool fed = chat_position(&plain->chat) > 0;
    if (!chat_set_system(&plain->chat, line->text, remove ? 0 : line->length))
        plain_say(plain, "There is no memory for it.");
    else
        plain_say(plain, fed ? "Done; the whole conversation is read again with the next message." : "Done.");
}

static void set_setting(struct plain *plain, const struct line *line)
{
    char name[32] = "", value[64] = "", extra[2] = "", text[160];
    snprintf(text, sizeof text, "%.*s", (int)(line->length < 150 ? line->length : 150), line->text);
    int words = sscanf(text, "%31s %63s %1s", name, value, extra);
    if (words <= 0) {
        options_print_settings(stdout, plain->options);
        return;
    }
    struct options_error error = {"/set takes a setting and a value; /set alone lists them"};
    struct options changed = *plain->options;
    bool fine = words == 2 && options_set(&changed, name, value, &error);
    struct moe_sampling sampling = sampling_from(&changed, changed.seed);
    const char *wrong = fine ? moe_sampling_check(&sampling) : error.text;
    if (wrong) {
        report_text(stdout, wrong, strlen(wrong));
        fputs(".\n", stdout);
        return;
    }
    if (changed.seed != plain->options->seed || strcmp(name, "seed") == 0) {
        plain->seed = changed.seed;
        plain->n_sent = 0;
    }
    *plain->options = changed;
    plain_say(plain, "Done.");
}

static void show_stats(struct plain *plain)
{
    struct moe_stats stats = worker_stats(plain->worker);
    const struct backend_info *info = &plain->info;
    char read[FORMAT_SIZE], slot[FORMAT_SIZE];
    uint64_t asked = stats.hits + stats.misses;
    printf("  model            ");
    report_text(stdout, info->name, strlen(info->name));
    printf(" on ");
    report_text(stdout, info->device, strlen(info->device));
    printf("\n  context          %" PRIu32 " of %" PRIu32 " tokens, %zu messages\n", chat_position(&plain->chat),
           info->max_context, chat_exchanges(&plain->chat));
    printf("  read (prefill)   %" PRIu64 " tokens, %.1f tokens/s\n", stats.prefilled_tokens,
           json_out_rate(stats.prefilled_tokens, stats.prefill_ns));
    printf("  answered         %" PRIu64 " tokens, %.1f tokens/s\n", stats.decoded_tokens,
           json_out_rate(stats.decoded_tokens, stats.decode_ns));
    printf("  experts          %" PRIu64 " hits, %" PRIu64 " misses (%.1f %% hits), %s read, waited %.2f s\n",
           stats.hits, stats.misses, asked ? 100.0 * (double)stats.hits / (double)asked : 0.0,
           format_bytes(read, sizeof read, stats.bytes_read), (double)stats.wait_ns / 1e9);
    printf("  expert cache     %" PRIu64 " slots of %s for %" PRIu64 " experts\n", info->cache.slots,
           format_bytes(slot, sizeof slot, info->cache.slot_bytes), info->n_experts);
    const char *policy = stats.prefetch_policy ? stats.prefetch_policy : "off";
    printf("  prefetch         %s: %" PRIu64 " read ahead, %" PRIu64 " used, %" PRIu64 " wasted\n", policy,
           stats.prefetched, stats.used, stats.wasted);
    printf("  seed             %" PRIu64 "%s\n", plain->n_sent ? plain->turn_seed : plain->seed,
           plain->n_sent ? " in the last turn" : "");
}

static void do_command(struct plain *plain, const struct line *line)
{
    char text[160];
    snprintf(text, sizeof text, "%.*s", (int)(line->length < 150 ? line->length : 150), line->text);
    switch (line->action) {
    case ACTION_HELP:
        if (commands_help(stdout, text) == 0)
            plain_say(plain, "No command is about that; /help lists them all.");
        break;
    case ACTION_KEYS:
        commands_keys(stdout);
        break;
    case ACTION_NEW:
        plain_new(plain);
        break;
    case ACTION_RETRY:
        retry(plain);
        break;
    case ACTION_UNDO:
        undo(plain, text);
        break;
    case ACTION_SAVE:
        plain_save(plain, text);
        break;
    case ACTION_RENAME:
        plain_rename(plain, text);
        break;
    case ACTION_LOAD:
        plain_load(plain, text);
        break;
    case ACTION_SESSIONS:
        plain_list_sessions(plain);
        break;
    case ACTION_DELETE:
        plain_delete(plain, text);
        break;
    case ACTION_SYSTEM:
        set_system(plain, line);
        break;
    case ACTION_SET:
        set_setting(plain, line);
        break;
    case ACTION_STATS:
        show_stats(plain);
        break;
    case ACTION_QUIT:
        leave(plain, plain->status);
        break;
    }
}

static void take_line(struct plain *plain, const char *typed)
{
    struct line line = commands_parse(typed);
    if (line.kind == LINE_MESSAGE) {
        send_message(plain, line.text, line.length);
        return;
    }
    if (line.kind == LINE_COMMAND) {
        do_command(plain, &line);
    } else if (line.kind == LINE_UNKNOWN) {
        fputs("There is no command /", stdout);
        report_text(stdout, line.text, line.length < 60 ? line.length : 60);
        fputs("; /help lists them, and // begins a message with a slash.\n", stdout);
    }
    if (plain->state == IDLE)
        plain_ask(plain);
}

static void on_typed(void *context, char *typed)
{
    struct plain *plain = context;
    if (typed)
        take_line(plain, typed);
    else
        leave(plain, plain->status);
    free(typed);
}

static void on_ready(struct plain *plain, const struct backend_info *info)
{
    plain->info = *info;
    progress_clear(&plain->progress);
    report_text(stdout, info->name, strlen(info->name));
    fputs(" on ", stdout);
    report_text(stdout, info->device, strlen(info->device));
    char line[160], experts[96];
    if (info->cache.all)
        snprintf(experts, sizeof experts, "All %" PRIu64 " experts fit in memory", info->n_experts);
    else
        snprintf(experts, sizeof experts, "Room for %" PRIu64 " of %" PRIu64 " experts in memory", info->cache.slots,
                 info->n_experts);
    snprintf(line, sizeof line, "\n%s; context %" PRIu32 " tokens. Type /help.", experts, info->max_context);
    plain_say(plain, line);
    if (plain->choice.saved) {
        plain_open_session(plain, 0, false);
        return;
    }
    if (*plain->choice.note)
        plain_say(plain, plain->choice.note);
    *plain->choice.note = 0;
    plain_ask(plain);
}

static void take_events(struct plain *plain)
{
    struct event event;
    while (plain->state != LEAVING && worker_event(plain->worker, &event)) {
        switch (event.kind) {
        case EVENT_PROGRESS:
            if (plain->state == BUSY || plain->state == LOADING || (plain->state == ANSWERING && !plain->begun))
                progress_show(&plain->progress, event.progress.what, event.progress.unit, event.progress.done,
                              event.progress.total);
            break;
        case EVENT_READY:
            on_ready(plain, &event.ready);
            break;
        case EVENT_FAILED:
            progress_clear(&plain->progress);
            report("%s", event.failed.text);
            leave(plain, STATUS_MODEL);
            break;
        case EVENT_TEXT:
            show_text(plain, event.text.bytes, event.text.length);
            break;
        case EVENT_TOKEN:
            break;
        case EVENT_DONE:
            finish_turn(plain, event.result);
            break;
        case EVENT_SESSION:
            plain_on_session(plain, &event.session);
            break;
        }
    }
}

static bool input_waits(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&input, 1, 0) > 0;
}

// Signals overtake the keys that were typed before them.
static void read_keys(struct plain *plain)
{
    while (plain->state == IDLE && plain->from_terminal && input_waits())
        prompt_feed();
}

static void interrupt(struct plain *plain)
{
    read_keys(plain);
    if (plain->state == LEAVING)
        return;
    if (plain->state == LOADING || !plain->from_terminal)
        leave(plain, STATUS_INTERRUPTED);
    else if (plain->state == ANSWERING || plain->state == BUSY)
        worker_cancel(plain->worker);
    else if (prompt_interrupt())
        prompt_refresh();
    else {
        plain_say(plain, "Ctrl-D or /quit leaves.");
        prompt_refresh();
    }
}

static void take_signals(struct plain *plain)
{
    term_drain();
    if (term_signal_came(SIGTERM))
        leave(plain, STATUS_TERMINATED);
    if (term_signal_came(SIGHUP))
        leave(plain, term_exit_status(SIGHUP));
    if (term_signal_came(SIGINT))
        interrupt(plain);
    if (term_signal_came(SIGTSTP)) {
        read_keys(plain);
        term_suspend();
    }
    bool shown = plain->state == IDLE && prompt_is_shown();
    if (term_signal_came(SIGWINCH) && shown)
        prompt_resize();
    if (term_signal_came(SIGCONT) && shown)
        prompt_refresh();
}

// Takes the next line of a pipe, when there is a whole one.
static void take_piped_line(struct plain *plain)
{
    char block[4096];
    char *newline = plain->input.length ? memchr(plain->input.data, '\n', plain->input.length) : NULL;
    if (!newline && !plain->input_ended) {
        ssize_t got = read(STDIN_FILENO, block, sizeof block);
        if (got < 0 && errno == EINTR)
            return;
        plain->input_ended = got <= 0;
        if (got > 0 && !bytes_append(&plain->input, block, (size_t)got))
            leave(plain, STATUS_FAILED);
        return;
    }
    if (!newline && plain->input.length == 0) {
        leave(plain, plain->status);
        return;
    }
    size_t length = newline ? (size_t)(newline - plain->input.data) : plain->input.length;
    char *typed = strndup(plain->input.data, length);
    size_t taken = length + (newline != NULL);
    memmove(plain->input.data, plain->input.data + taken, plain->input.length - taken);
    plain->input.length -= taken;
    on_typed(plain, typed);
}

static void loop(struct plain *plain, int signals)
{
    while (plain->state != LEAVING) {
        bool idle = plain->state == IDLE;
        bool at_once = idle && !plain->from_terminal && (plain->input.length || plain->input_ended);
        struct pollfd fds[] = {
            {.fd = signals, .events = POLLIN},
            {.fd = worker_fd(plain->worker), .events = POLLIN},
            {.fd = idle ? STDIN_FILENO : -1, .events = POLLIN},
        };
        if (poll(fds, 3, at_once ? 0 : -1) < 0 && errno != EINTR)
            break;
        take_signals(plain);
        if (plain->state != LEAVING)
            take_events(plain);
        // Asked anew: what was there may have been read with a signal.
        if (idle && plain->state == IDLE && (at_once || input_waits())) {
            if (plain->from_terminal)
                prompt_feed();
            else
                take_piped_line(plain);
        }
        plain_flush(plain);
    }
}

static bool wants_color(const struct options *options)
{
    const char *no_color = getenv("NO_COLOR");
    if (options->color != COLOR_AUTO)
        return options->color == COLOR_ALWAYS;
    return isatty(STDOUT_FILENO) && !term_is_dumb() && !(no_color && *no_color);
}

int plain_chat(struct options *options)
{
    struct plain plain = {.options = options, .from_terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)};
    if (!plain.from_terminal && !options->plain) {
        report("a chat needs a terminal; moechat run answers in pipes, and --plain reads a message a line");
        return STATUS_USAGE;
    }
    plain.color = wants_color(options);
    plain.seed = options_given(options, "seed") ? options->seed : sampling_random_seed();
    options->seed = plain.seed;
    plain.progress.out = plain.from_terminal ? stdout : isatty(STDERR_FILENO) ? stderr : NULL;
    plain.progress.plain = term_is_dumb();
    struct moe_sampling sampling = sampling_from(options, plain.seed);
    const char *wrong = moe_sampling_check(&sampling);
    struct backend backend;
    struct moe_err err;
    if (wrong || !backend_new(&backend, options, &err)) {
        report("%s", wrong ? wrong : err.text);
        return wrong ? STATUS_USAGE : STATUS_MODEL;
    }
    struct store_error store_error;
    if (!sessions_choose(&plain.store, options, true, &plain.chat, &plain.choice, &store_error)) {
        report("%s", store_error.text);
        backend.ops->close(backend.self);
        return store_error.code == STORE_NAME ? STATUS_USAGE : STATUS_FAILED;
    }
    int signals = term_catch_signals(true);
    plain.worker = worker_new(&backend, BACKEND_CHAT_NICE);
    bool fine = signals >= 0 && plain.worker &&
                (!options->system || plain.choice.saved ||
                 chat_set_system(&plain.chat, options->system, strlen(options->system)));
    if (fine && plain.from_terminal)
        fine = prompt_open(plain.color ? "\001\033[1m\002You:\001\033[0m\002 " : "You: ", on_typed, &plain);
    if (fine)
        loop(&plain, signals);
    else
        report("cannot start: %s", strerror(errno));
    if (plain.from_terminal) {
        if (plain.state == LEAVING && (plain.status == STATUS_TERMINATED || plain.status == STATUS_INTERRUPTED))
            fputc('\n', stdout);
        prompt_close();
    }
    plain_flush(&plain);
    if (plain.worker)
        plain_finish_session(&plain);
    plain_flush(&plain);
    worker_abandon(plain.worker);
    saved_close(plain.choice.saved);
    saved_content_release(&plain.choice.content);
    chat_release(&plain.chat);
    bytes_release(&plain.answer);
    bytes_release(&plain.input);
    return fine ? plain.status : STATUS_FAILED;
}
