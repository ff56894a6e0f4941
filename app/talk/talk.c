// SPDX-License-Identifier: GPL-3.0-or-later
// The conversation under way: what is typed and what the worker says, and what a face shows of it.
#include "app/talk/talk.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/util/format.h"
#include "app/util/words.h"
#include "app/view/plan_words.h"
#include "app/talk/habits.h"
#include "app/talk/talk_parts.h"
#include "app/view/table.h"

enum { LINE_SIZE = 1600 };

static void say(struct talk *talk, void (*say_it)(void *self, const char *text), const char *format, va_list arguments)
{
    char line[LINE_SIZE];
    vsnprintf(line, sizeof line, format, arguments);
    say_it(talk->self, line);
}

void talk_say(struct talk *talk, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(talk, talk->face->say, format, arguments);
    va_end(arguments);
}

void talk_say_for_now(struct talk *talk, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(talk, talk->face->say_for_now ? talk->face->say_for_now : talk->face->say, format, arguments);
    va_end(arguments);
}

// A pipe's exit status tells of the first that failed.
static void note_failure(struct talk *talk, int status)
{
    if (talk->scripted && talk->status == STATUS_DONE)
        talk->status = status;
}

void talk_refuse(struct talk *talk, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(talk, talk->face->say, format, arguments);
    va_end(arguments);
    note_failure(talk, STATUS_FAILED);
}

void talk_fail(struct talk *talk, const char *format, ...)
{
    char line[LINE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    talk->face->fail(talk->self, line);
    note_failure(talk, STATUS_FAILED);
}

bool talk_lines_begin(struct talk *talk, struct talk_lines *lines)
{
    *lines = (struct talk_lines){0};
    lines->out = open_memstream(&lines->text, &lines->length);
    if (!lines->out)
        talk_fail(talk, "out of memory");
    return lines->out;
}

bool talk_lines_fold(struct talk *talk, struct talk_lines *lines, int second, int least)
{
    if (talk->scripted)
        return true;
    if (talk->face->table) {
        lines->second = second;
        lines->least = least;
        return true;
    }
    bool whole = fclose(lines->out) == 0;
    char *text = lines->text;
    bool fine = whole && text && talk_lines_begin(talk, lines); // a stream in memory stays where it was opened
    if (fine)
        table_fold(lines->out, text, &(struct table){talk->face->columns(talk->self), second, least});
    free(text);
    return fine;
}

void talk_lines_show(struct talk *talk, struct talk_lines *lines)
{
    bool whole = fclose(lines->out) == 0 && lines->length;
    struct face_lines table = {lines->text, lines->length, lines->second, lines->least};
    if (whole && lines->second)
        talk->face->table(talk->self, &table);
    else if (whole)
        talk->face->show(talk->self, lines->text, lines->length);
    free(lines->text);
}

void talk_lines_tokens(struct talk *talk, struct talk_lines *lines)
{
    if (!talk->face->tokens)
        talk_lines_show(talk, lines);
    else if (fclose(lines->out) == 0 && lines->length)
        talk->face->tokens(talk->self, lines->text, lines->length);
    if (talk->face->tokens)
        free(lines->text);
}

void talk_lines_page(struct talk *talk, struct talk_lines *lines, enum face_page page)
{
    if (fclose(lines->out) == 0)
        talk->face->page(talk->self, page,
                         &(struct face_lines){lines->text, lines->length, lines->second, lines->least});
    free(lines->text);
}

void talk_enter(struct talk *talk, enum talk_state state)
{
    if (talk->state == TALK_LEAVING)
        return;
    talk->state = state;
    talk->face->changed(talk->self);
}

void talk_leave(struct talk *talk, int status)
{
    talk->status = status;
    talk_enter(talk, TALK_LEAVING);
}

uint32_t talk_context_used(const struct talk *talk, const struct figures *figures)
{
    return talk->state == TALK_ANSWERING ? figures->context : chat_answered(&talk->chat);
}

bool talk_left_figures(const struct talk *talk)
{
    const struct chat *chat = &talk->chat;
    size_t i = talk->figures_of == PART_NONE ? 0 : chat->n_turns;
    while (i > 0 && chat->turns[i - 1].number != talk->figures_of)
        i--;
    return i == 0 && talk->figures_of != PART_NONE;
}

void talk_begin_conversation(struct talk *talk)
{
    talk->face->cleared(talk->self);
    talk->turn_seeded = talk->system_waits = false;
    talk->editing = EDIT_NONE;
    talk->figures_of = PART_NONE;
    worker_begin_conversation(talk->worker);
}

static void say_speed(struct talk *talk, const struct chat_told *told)
{
    char tokens[FORMAT_SIZE];
    talk_say(talk, "(%s)", format_tokens(tokens, sizeof tokens, told->tokens, told->speed));
}

void talk_show_turn(struct talk *talk, size_t turn)
{
    const struct chat_turn *shown = &talk->chat.turns[turn];
    struct bytes thought = {0}, said = {0};
    struct face_message message = {.role = shown->role, .text = shown->text.data, .length = shown->text.length};
    bool parted = shown->role == TOK_ASSISTANT && chat_part_answer(&shown->text, &thought, &said);
    if (parted && thought.length)
        talk->face->message(
            talk->self, &(struct face_message){
                            .role = TOK_ASSISTANT, .text = thought.data, .length = thought.length, .thinking = true});
    if (parted) { // marks alone are no text, as when they came
        message.text = said.data;
        message.length = said.length;
    }
    if (message.length || !thought.length) // it may have been stopped while it thought
        talk->face->message(talk->self, &message);
    bytes_release(&thought);
    bytes_release(&said);
    if (shown->role == TOK_ASSISTANT && strcmp(shown->made.stop, stop_reason_name(STOP_CONTEXT_FULL)) == 0)
        talk_say(talk, "Stopped: the context was full.");
    if (talk->face->brief && shown->told.known)
        say_speed(talk, &shown->told);
    talk_say_choice(talk, turn);
}

// Figures of a turn, in words.
static void say_figures(struct talk *talk, const struct turn_result *result)
{
    const struct tally *tally = &result->tally;
    char read[96], found[TALLY_FOUND_SIZE], tokens[FORMAT_SIZE], policy[TALLY_PREFETCH_SIZE];
    char prefetch[sizeof policy + 64] = "off";
    bool off = !tally->policy || strcmp(tally->policy, "off") == 0;
    if (talk->face->brief) {
        say_speed(talk, &(struct chat_told){true, tally->answered_tokens, tally_answer_speed(tally)});
        return;
    }
    format_tokens(tokens, sizeof tokens, tally->answered_tokens, tally_answer_speed(tally));
    if (!off || tally->ahead || tally_used(tally) || tally->wasted)
        snprintf(prefetch, sizeof prefetch, "%s: %" PRIu64 " used, %" PRIu64 " wasted",
                 off ? tally_prefetch_words(policy, tally) : tally->policy, tally_used(tally), tally->wasted);
    talk_say(talk, "(%s; experts: %s, %s; context %" PRIu32 " of %" PRIu32 "; prefetch %s)", tokens,
             tally_found_words(found, tally), tally_read_words(read, sizeof read, tally), result->context_used,
             result->context_total, prefetch);
}

// As the chat is while the request is under way.
struct full {
    bool fed;    // the message is there, and without room for an answer
    bool before; // messages that can be taken back
    bool system;
    const char *stays; // of what was to be answered again; NULL: something else
};

static struct full full_of(const struct chat *chat, const struct turn_result *result)
{
    bool fed = !result->kept && chat_last_is_fed(chat);
    return (struct full){.fed = fed,
                         .before = result->kept || fed || chat_exchanges(chat) > 1,
                         .system = chat_system(chat),
                         .stays = fed ? "it stays, /edit changes it" : NULL};
}

// What there is no room for, and what helps: of the messages before this one, those that can be taken back; and
// --context, up to the model's limit.
static void say_full(struct talk *talk, const struct turn_result *result, const struct full *full)
{
    bool kept = result->kept, before = full->before, shorter = !kept && !full->stays && result->shorter_fits;
    const struct backend_info *info = &talk->info;
    char limit[PLAN_LIMIT_SIZE], words[256] = "";
    bool at_limit =
        *plan_limit(limit, &(struct context_figures){.context = info->max_context, .limit = info->context_limit});
    const struct {
        bool is;
        const char *words;
    } helps[] = {
        {full->stays, full->stays},
        {shorter, "a shorter one fits"},
        {before, "/undo takes back messages"},
        {!kept && !full->fed && !result->shorter_fits && full->system, "/system - removes the system message"},
        {before, "/new starts over"},
        {!at_limit, "--context makes more room"},
    };
    for (size_t i = 0, used = 0; i < sizeof helps / sizeof helps[0]; i++)
        if (helps[i].is)
            used += (size_t)snprintf(words + used, sizeof words - used, "%s%s", used ? ", " : "; ", helps[i].words);
    talk_say(talk, "%s%s%s.%s%s%s",
             kept          ? "Stopped: the context is full"
             : full->stays ? "Not answered: "
                           : "Not sent: ",
             kept ? "" : result->err.text, words, at_limit ? " " : "", limit, at_limit ? "." : "");
}

static void say_reason(struct talk *talk, const struct turn_result *result)
{
    bool fed = chat_last_is_fed(&talk->chat); // the message stays where it is, as it was there before
    uint64_t read = (uint64_t)result->read_tokens + result->held_tokens; // as progress has it
    bool stays = fed || result->noted;
    const char *back = fed ? "" : stays ? "the message stays, " : "message taken back, ";
    const char *again = stays ? "answers it" : "sends it again", *edit = fed ? "" : ", /edit changes it";
    if (result->reason == STOP_CANCELLED && result->kept)
        talk_say(talk, "Stopped; what it said is kept.");
    else if (result->reason == STOP_CANCELLED && !read)
        talk_say(talk, "Stopped before the answer; %s/retry %s%s.", back, again, edit);
    else if (result->reason == STOP_CANCELLED)
        talk_say(talk,
                 "Stopped with %d %% of the work on %" PRIu32
                 " tokens%s done, which is kept until you leave or go elsewhere; %s/retry "
                 "%s and goes on from there%s.",
                 (int)(100 * (double)read / result->to_read), result->to_read,
                 result->rereading ? " that are read again" : "", back, again, edit);
    else if (result->reason == STOP_MAX_TOKENS)
        talk_say(talk, "Stopped at max-tokens; /set max-tokens 0 lifts the limit.");
    else if (result->reason == STOP_CONTEXT_FULL) {
        const struct full full = full_of(&talk->chat, result);
        say_full(talk, result, &full);
    } else if (result->reason == STOP_ERROR) {
        talk_fail(talk, "%s", result->err.text);
        talk_say(talk, result->kept ? "What it said is kept; /retry answers anew."
                       : stays      ? "The message stays; /retry answers it."
                                    : "Message taken back; /retry sends it again.");
    }
}

// What was read again, and why, by one count.
static void say_again(struct talk *talk, const struct turn_result *result)
{
    uint32_t again = result->again_tokens, reread = result->reread_tokens;
    const char *s = format_s(again);
    if (again == reread)
        talk_say(talk,
                 "(Read the previous answer again without its thinking, as template %s wants: %" PRIu32 " token%s.)",
                 talk->info.turns.name, again, s);
    else
        talk_say(talk, "(Read %" PRIu32 " earlier token%s again%s.)", again, s,
                 result->for_states ? ": the states of the model's layers were kept only before them" : "");
}

static void begin_answer(struct talk *talk)
{
    if (talk->begun)
        return;
    talk->begun = true;
    talk->face->progress(talk->self, NULL);
    talk->face->begin_answer(talk->self);
}

// What /stats and /inspect are about from now on. A turn that was refused is as if it had not been sent.
static void note_turn(struct talk *talk, const struct turn_result *result)
{
    talk->system_waits = talk->saving && chat_system_waits(&talk->chat);
    if (result->kept || result->begun) {
        talk->turn_seed = talk->asked_seed;
        talk->turn_seeded = true;
    }
    if (result->kept) {
        talk->figures_of = chat_last(&talk->chat);
    } else {
        if (result->begun) // and its message stays, or is taken back
            talk->figures_of = chat_last_is_fed(&talk->chat) || result->noted ? chat_last(&talk->chat) : PART_NONE;
        talk->n_sent -= !talk->seeded_again;
    }
    talk->seeded_again = false;
}

// A request without room, for which something had been taken back: all is as it was before.
static bool stay(struct talk *talk, const struct turn_result *result)
{
    struct chat *chat = &talk->chat;
    bool resends = chat->again || chat->resends;
    size_t first = chat->n_turns - !chat->again;
    struct full full = full_of(chat, result);
    if (!chat_accept(chat, result, &result->text))
        return false;
    if (resends)
        full.stays =
            chat->turns[chat->n_turns - 1].role == TOK_ASSISTANT ? "its answer stays" : "it stays, /edit changes it";
    if (talk->face->whole)
        talk_show_from(talk, first);
    say_full(talk, result, &full);
    if (!resends)
        talk_say(talk, "Nothing was taken back.");
    return true;
}

static void finish_turn(struct talk *talk, struct turn_result *result)
{
    talk->face->progress(talk->self, NULL);
    if (result->kept)
        begin_answer(talk);
    if (talk->begun)
        talk->face->end_answer(talk->self, result);
    bool full = result->reason == STOP_CONTEXT_FULL && !result->kept, stays = full && talk->chat.back.noted;
    bool refused = full && !stays && !chat_last_is_fed(&talk->chat);
    if (refused)
        talk->face->cut(talk->self, chat_exchanges(&talk->chat) - 1); // it is no part of the conversation
    if (!stays)
        say_reason(talk, result);
    if (result->kept)
        say_figures(talk, result);
    if (result->kept && result->again_tokens)
        say_again(talk, result);
    if (result->reason == STOP_ERROR || result->reason == STOP_CONTEXT_FULL)
        note_failure(talk, result->reason == STOP_ERROR ? STATUS_FAILED : STATUS_CONTEXT_FULL);
    talk->untold = result->news_follow;
    talk->part_read = !result->kept && result->read_tokens > 0;
    if (stays ? !stay(talk, result) : !chat_accept(&talk->chat, result, &result->text)) {
        talk_fail(talk, "out of memory");
        talk_leave(talk, STATUS_FAILED);
    }
    if (refused && talk->chat.n_turns && talk->chat.turns[talk->chat.n_turns - 1].role == TOK_USER) {
        talk->face->cut(talk->self, chat_exchanges(&talk->chat));
        talk_say(talk, "The message before it stays; /retry answers it.");
    }
    note_turn(talk, result);
    size_t n = talk->chat.n_turns;
    if (result->kept && n >= 2) {
        const struct tally *tally = &result->tally;
        talk->chat.turns[n - 1].told = (struct chat_told){true, tally->answered_tokens, tally_answer_speed(tally)};
        size_t choice = chat_rank(&talk->chat, n - 1).count > 1 ? n - 1 : n - 2;
        talk_say_choice(talk, choice);
        if (chat_rank(&talk->chat, choice).count > 1) // else it is known, and far above
            talk_say_ways(talk);
    }
    turn_result_free(result);
    if (stays && talk->edit_sent) // whose messages were taken back in the worker, too
        talk_follow(talk);
    else
        talk_enter(talk, TALK_IDLE);
}

void talk_send(struct talk *talk, struct turn *turn)
{
    if (!turn) {
        talk->seeded_again = talk->chat.back.noted = false;
        talk_fail(talk, "out of memory");
        return;
    }
    if (!talk->seeded_again)
        talk->asked_seed = talk->settings.seed.number + talk->n_sent++;
    talk->seed_is_new = false;
    turn->sampling = talk_settings_sampling(&talk->settings, talk->asked_seed);
    turn->max_tokens = talk->settings.max_tokens;
    talk->begun = false;
    talk->edit_sent = talk->editing == EDIT_SAID;
    if (talk->edit_sent)
        talk->chat.back = talk->edited_from;
    talk->editing = EDIT_NONE;
    talk->system_waits = false;       // it is saved with this message, unless that is refused: see note_turn
    talk_enter(talk, TALK_ANSWERING); // first, so that the face sees the figures from before the turn
    worker_send(talk->worker, turn);
}

static void say_unknown(struct talk *talk, const char *name, int length)
{
    const char *near = commands_near(name, (size_t)length);
    const char *elsewhere = habits_command(name, (size_t)length);
    if (elsewhere)
        talk_refuse(talk, "%s", elsewhere);
    else if (near)
        talk_refuse(talk, "Unknown command /%.*s; did you mean /%s? // starts a message with a slash.", length, name,
                    near);
    else
        talk_refuse(talk, "Unknown command /%.*s; /help lists them, // starts a message with a slash.", length, name);
}

// The key that closes a page, typed where there was none, before a command.
static bool begins_with_a_key(const struct line *line)
{
    bool so = line->length > 2 && line->text[0] == 'q' && line->text[1] == '/';
    return so && commands_parse(line->text + 1, line->length - 1).kind == LINE_COMMAND;
}

static void run_command(struct talk *talk, const struct line *line)
{
    const struct command_row *row = line->row;
    if (line->lines && !row->lines)
        talk_refuse(
            talk,
            "Not done: all of this was taken for the command /%s, which has one line; // before it sends it as a "
            "message.",
            row->name);
    else if (*row->argument || !line->length)
        row->run(talk, line);
    else if (row->run != talk_do_stats || !talk_show_word(talk, line))
        talk_refuse(talk, "/%s takes no argument; // starts a message with a slash.", row->name);
}

void talk_line(struct talk *talk, const char *text, size_t length)
{
    struct line line = commands_parse(text, length);
    if (talk_hold(talk, &line, text, length))
        return;
    if (line.kind != LINE_COMMAND || line.row->run != talk_do_delete)
        talk_forget_delete(talk);
    unsigned which = 0;
    const struct talk_argument asked = talk->key_asked;
    *talk->key_asked.text = 0;
    bool may_slip = line.kind == LINE_MESSAGE && !talk->scripted;
    const char *habit = may_slip ? habits_message(line.text, line.length, &which) : NULL;
    if (habit && !(talk->told_habits >> which & 1)) {
        talk->told_habits |= 1U << which;
        talk_say(talk, "%s; typed once more, %.*s is sent as a message.", habit,
                 (int)(line.length < 60 ? line.length : 60), line.text);
    } else if (may_slip && begins_with_a_key(&line) && strcmp(asked.text, talk_argument(&line).text) != 0) {
        talk->key_asked = talk_argument(&line);
        talk_say(talk, "Not sent: without the q it is a command; typed once more, %.*s is sent as a message.",
                 (int)(line.length < 60 ? line.length : 60), line.text);
    } else if (line.kind == LINE_MESSAGE) {
        struct face_message message = {.role = TOK_USER, .text = line.text, .length = line.length, .typed = true};
        chat_leave_unanswered(&talk->chat);
        talk->face->message(talk->self, &message);
        talk_send(talk, chat_request(&talk->chat, line.text, line.length));
    } else if (line.kind == LINE_COMMAND) {
        run_command(talk, &line);
    } else if (line.kind == LINE_SPACED) {
        talk_refuse(talk, "Not sent: remove the spaces before it to run /%.*s, or use // to send it as a message.",
                    (int)line.length, line.text);
    } else if (line.kind == LINE_UNKNOWN) {
        say_unknown(talk, line.text, line.length < 60 ? (int)line.length : 60);
    }
    if (talk->state == TALK_IDLE)
        talk->face->changed(talk->self);
}

bool talk_line_meanwhile(struct talk *talk, const char *text, size_t length)
{
    struct line line = commands_parse(text, length);
    if (line.kind != LINE_COMMAND || !commands_meanwhile(&line))
        return false;
    run_command(talk, &line);
    return true;
}

char *talk_context(char *out, size_t size, const struct talk *talk)
{
    const struct backend_info *info = &talk->info;
    uint64_t kv_cap = talk->settings.no_session && !talk->saving ? 0 : talk->settings.kv_cap;
    return plan_context(out, size,
                        &(struct context_figures){info->max_context, info->context_limit, info->row_bytes, kv_cap,
                                                  info->vocab_size * sizeof(float)});
}

static void on_ready(struct talk *talk, const struct backend_info *info)
{
    char line[sizeof info->name + sizeof info->device + 8], suggested[SUGGESTION_SIZE];
    talk->info = *info;
    talk->chat.about = info->turns;
    talk->chat.think = talk->chat.fed_think = talk->model->think;
    talk->face->progress(talk->self, NULL);
    int length = snprintf(line, sizeof line, "%s on %s\n", info->name, info->device);
    talk->face->show(talk->self, line, (size_t)length);
    if (*info->notice)
        talk_say(talk, "Note: %s.", info->notice);
    char words[PLAN_WORDS_SIZE];
    talk_say(talk, "%s", plan_words(words, sizeof words, &info->cache));
    if (*plan_warning(words, sizeof words, &info->cache, talk->model->host_cache != MOE_CACHE_AUTO))
        talk_say(talk, "%s", words);
    if (info->folder)
        talk_say(talk, "%s", FOLDER_WORDS);
    struct sampling sampling = talk_settings_sampling(&talk->settings, 0);
    char outside[SAMPLING_OUTSIDE];
    if (sampling_outside(outside, &sampling, info->vocab_size))
        talk_fail(talk, "%s; /set logit-bias changes it", outside);
    options_suggest(&talk->began, &info->suggestion, suggested, sizeof suggested);
    options_suggest(&talk->settings, &info->suggestion, suggested, sizeof suggested);
    if (*suggested)
        talk_say(talk, "The model suggests %s; /set shows and changes it.", suggested);
    *talk_context(words, sizeof words, talk) = 'R';
    talk_say(talk, "%s. Type /help for help%s.", words, talk->face->brief ? "; Alt-s shows figures" : "");
    if (talk->choice.saved) {
        talk_open_session(talk, 0, false);
        return;
    }
    if (*talk->choice.note)
        talk_say(talk, "%s", talk->choice.note);
    *talk->choice.note = 0;
    talk_enter(talk, TALK_IDLE);
}

static void take_event(struct talk *talk, struct event *event)
{
    switch (event->kind) {
    case EVENT_PROGRESS:
        if (talk->state != TALK_IDLE && !(talk->state == TALK_ANSWERING && talk->begun))
            talk->face->progress(talk->self, &event->progress);
        break;
    case EVENT_READY:
        on_ready(talk, &event->ready);
        break;
    case EVENT_FAILED:
        talk->face->progress(talk->self, NULL);
        talk_fail(talk, "%s", event->failed.text);
        talk_leave(talk, STATUS_MODEL);
        break;
    case EVENT_TEXT:
        begin_answer(talk);
        talk->face->text(talk->self, &(struct face_text){.bytes = event->text.bytes,
                                                         .length = event->text.length,
                                                         .tokens = event->text.tokens,
                                                         .thinking = event->text.thinking});
        break;
    case EVENT_TOKEN:
        break;
    case EVENT_DONE:
        finish_turn(talk, event->result);
        break;
    case EVENT_UNSAVED:
        talk->face->progress(talk->self, NULL);
        talk->unsaved = true;
        talk_say(talk, "%s", event->unsaved);
        break;
    case EVENT_SESSION:
        talk_on_session(talk, &event->session);
        break;
    }
}

void talk_take_events(struct talk *talk)
{
    struct event event;
    while (talk->state != TALK_LEAVING && worker_event(talk->worker, &event))
        take_event(talk, &event);
}

bool talk_stop(struct talk *talk)
{
    if (talk->state != TALK_ANSWERING && talk->state != TALK_BUSY)
        return false;
    if (talk_drop_held(talk))
        return true;
    worker_cancel(talk->worker);
    return true;
}

int talk_prepare(struct talk *talk, const struct options *options)
{
    struct moe_err err;
    struct store_error error;
    struct seed_setting *seed = &talk->settings.seed;
    talk->model = &options->model;
    talk->program = options->program;
    talk->settings = options_talk(options);
    if (!seed->given)
        seed->number = talk_settings_random_seed();
    talk->began = talk->settings;
    struct sampling sampling = talk_settings_sampling(&talk->settings, seed->number);
    const char *wrong = sampling_check(&sampling);
    if (wrong || !backend_new(&talk->backend, talk->model, &err)) {
        report("%s", wrong ? wrong : err.text);
        return wrong ? STATUS_USAGE : STATUS_MODEL;
    }
    if (!sessions_choose(&talk->store, &talk->settings, true, &talk->chat, &talk->choice, &error)) {
        report("%s", error.text);
        talk->backend.ops->close(talk->backend.self);
        return sessions_status(&error);
    }
    return STATUS_DONE;
}

bool talk_start(struct talk *talk)
{
    const char *system = talk->settings.system;
    bool fine = !system || talk->choice.saved || chat_set_system(&talk->chat, system, strlen(system));
    talk->figures_of = PART_NONE;
    talk->worker = worker_new(&talk->backend, talk->model->nice_value);
    return fine && talk->worker;
}

void talk_greet(struct talk *talk)
{
    const char *path = talk->model->engine ? NULL : talk->model->directory;
    char *demo = files_model(NULL);
    if (path && demo && strcmp(path, demo) == 0) // as a session of it has it
        path = NULL;
    free(demo);
    if (!talk->scripted)
        talk_say(talk, "Opening %s; you can type already%s.",
                 path                  ? path
                 : talk->model->engine ? "the script"
                                       : "the demo model",
                 talk->face->brief ? ", and what you send waits" : "");
    for (size_t i = 0; i < MODEL_SETTINGS_WRITTEN; i++) {
        const char *pipe = model_settings_pipe(talk->model, i);
        if (pipe)
            talk_say(talk, FILES_PIPE_WAITS ".", pipe);
    }
}

void talk_finish(struct talk *talk)
{
    if (talk->worker)
        talk_finish_session(talk);
    if ((!worker_abandon(talk->worker, &talk->left) || talk->lost) && talk->status == STATUS_DONE)
        talk->status = STATUS_FAILED;
    saved_close(talk->choice.saved);
    saved_content_release(&talk->choice.content);
    chat_release(&talk->chat);
    talk_forget_delete(talk);
    bytes_release(&talk->export_asked);
    bytes_release(&talk->held);
    bytes_release(&talk->edited);
}
