// SPDX-License-Identifier: GPL-3.0-or-later
// The commands of the chat that are not about sessions.
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/util/format.h"
#include "app/util/words.h"
#include "app/talk/habits.h"
#include "app/talk/help.h"
#include "app/view/plan_words.h"
#include "app/view/stats.h"
#include "app/talk/talk_parts.h"

struct talk_argument talk_argument(const struct line *line)
{
    struct talk_argument argument;
    snprintf(argument.text, sizeof argument.text, "%.*s", (int)(line->length < 150 ? line->length : 150), line->text);
    return argument;
}

void talk_do_retry(struct talk *talk, const struct line *line)
{
    (void)line;
    struct bytes text;
    bool unsent = chat_has_unsent(&talk->chat) || chat_waits(&talk->chat); // then its seed is still to be used
    const struct chat_turn *answer = unsent ? NULL : chat_last_answer(&talk->chat);
    bool known = answer && *answer->made.stop; // else its line in the session is damaged
    uint64_t seed = known ? answer->made.sampling.seed : 0;
    const struct chat_place place = chat_place(&talk->chat);
    size_t there = talk->chat.n_turns;
    struct turn *again = chat_again(&talk->chat);
    if (!again && !chat_take_last(&talk->chat, &text)) {
        talk_refuse(talk, "No message to answer again.");
        return;
    }
    if (talk->chat.n_turns < there) // else there was no answer to take back
        talk->chat.back = place;
    // A seed that was asked for gives the same answer again, whatever chat it came in; else a new one is drawn by
    // counting on, and so where one is to be tried that was set since.
    talk->seeded_again = talk->settings.seed.given && known && !talk->seed_is_new;
    talk->asked_seed = seed;
    talk->face->cut(talk->self, chat_exchanges(&talk->chat) - (again != NULL));
    if (again) {
        talk_show_turn(talk, talk->chat.n_turns - 1);
        talk_send(talk, again);
        return;
    }
    talk->face->message(talk->self, &(struct face_message){.role = TOK_USER, .text = text.data, .length = text.length});
    talk_send(talk, chat_request(&talk->chat, text.data, text.length));
    bytes_release(&text);
}

static void print_system(const struct talk *talk, FILE *out)
{
    const struct chat_turn *system = chat_system(&talk->chat);
    fputs(system ? "System message: " : "No system message.", out);
    if (system)
        fwrite(system->text.data, 1, system->text.length, out);
    fputc('\n', out);
}

void talk_do_system(struct talk *talk, const struct line *line)
{
    const struct chat_turn *now = chat_system(&talk->chat);
    struct talk_lines lines;
    if (line->length == 0 && !now) {
        talk_say(talk, "No system message.");
    } else if (line->length == 0 && talk_lines_begin(talk, &lines)) {
        print_system(talk, lines.out);
        talk_lines_show(talk, &lines);
    }
    if (line->length == 0)
        return;
    size_t length = line->length == 1 && line->text[0] == '-' ? 0 : line->length;
    if (chat_system_is(&talk->chat, line->text, length)) {
        talk_say(talk, "Nothing changed%s.",
                 chat_exchanges(&talk->chat) && chat_system_waits(&talk->chat)
                     ? "; it still waits for your next message"
                     : "");
    } else if (!chat_change_system(&talk->chat, line->text, length)) {
        talk_fail(talk, "out of memory");
    } else if (chat_position(&talk->chat)) {
        enum talk_editing editing = talk->editing;
        talk_say(talk, "The system message is as it was before.");
        talk_follow(talk); // where the conversation went meanwhile, its rows are read back
        talk->editing = editing;
    } else if (chat_exchanges(&talk->chat)) {
        talk_say(talk, "Done; with your next message the whole conversation is read again%s.",
                 talk->saving ? ", and this saved" : "");
        talk->system_waits = talk->saving;
    } else {
        talk_say(talk, "Done.");
        if (talk->saving)
            talk_save_system(talk);
    }
}

static void show_settings(struct talk *talk)
{
    struct talk_lines lines;
    if (!talk_lines_begin(talk, &lines))
        return;
    options_print_settings(lines.out, &talk->settings, NULL);
    if (talk_lines_fold(talk, &lines, SETTINGS_SECOND, 16))
        talk_lines_show(talk, &lines);
}

static void say_setting(struct talk *talk, const char *name, bool changed, const char *how)
{
    char value[TEXTS_SIZE + 40];
    struct options_error error;
    const char *full = options_get(value, sizeof value, &talk->settings, name, !changed, &error);
    if (full)
        talk_say(talk, "%s is %s%s%s.", full, how, value, changed && strchr(value, '"') ? ", the quotes included" : "");
    else
        talk_refuse(talk, "%s.", error.text);
}

// The word that a line begins with, and what is behind it.
static void part_setting(const struct line *line, char *name, size_t size, char value[TEXTS_SIZE])
{
    size_t length = 0, end = line->length;
    while (length < end && !isspace((unsigned char)line->text[length]))
        length++;
    snprintf(name, size, "%.*s", (int)length, line->text);
    while (length < end && isspace((unsigned char)line->text[length]))
        length++;
    snprintf(value, TEXTS_SIZE, "%.*s", (int)(end - length), line->text + length);
}

void talk_do_set(struct talk *talk, const struct line *line)
{
    char name[40], value[TEXTS_SIZE];
    part_setting(line, name, sizeof name, value);
    bool parameter = strcmp(name, "parameter") == 0 && *value; // as ollama has it
    if (parameter) {
        struct line rest = {.text = value, .length = strlen(value)};
        char text[TEXTS_SIZE];
        part_setting(&rest, name, sizeof name, text);
        snprintf(value, sizeof value, "%s", text);
    }
    char *equals = strchr(name, '=');
    if (equals && equals > name) {
        *equals = 0;
        talk_refuse(talk, "A space stands between the two: /set %s %s%s%.60s.", name, equals + 1, *value ? " " : "",
                    value);
        return;
    }
    const struct habits_setting *foreign = habits_setting(name);
    if (foreign && strstr(foreign->names, "num_ctx")) {
        talk_refuse(talk, "The context has room for %" PRIu32 " tokens; %s.", talk->info.max_context, foreign->words);
        return;
    }
    if (foreign && !foreign->ours) {
        talk_refuse(talk, "%s", foreign->words);
        return;
    }
    if (parameter || foreign) {
        talk_refuse(talk, "%s: /set %s%s%.40s.", parameter ? "Without \"parameter\"" : "Here it has another name",
                    foreign ? foreign->ours : name, *value ? " " : "", value);
        return;
    }
    if (!*name || (!*value && words_are("parameter|parameters", name, strlen(name)))) {
        show_settings(talk);
        return;
    }
    if (!*value) {
        say_setting(talk, name, false, "");
        return;
    }
    struct options_error error;
    struct talk_settings changed = talk->settings;
    bool back = strcmp(value, "default") == 0; // to what it was before any /set
    bool fine =
        back ? options_take_back(&changed, &talk->began, name, &error) : options_set(&changed, name, value, &error);
    struct sampling sampling = talk_settings_sampling(&changed, changed.seed.number);
    char outside[SAMPLING_OUTSIDE];
    const char *wrong = fine ? sampling_check(&sampling) : error.text;
    if (!wrong && sampling_outside(outside, &sampling, talk->info.vocab_size))
        wrong = outside;
    if (wrong) {
        talk_refuse(talk, "%s.", wrong);
        return;
    }
    if (strcmp(name, "seed") == 0) {
        talk->n_sent = 0;
        talk->seed_is_new = true;
    }
    talk->settings = changed;
    bool drawn = strcmp(name, "seed") == 0 && !changed.seed.given; // and it may be another one
    say_setting(talk, name, !back, !back ? "now " : drawn ? "" : "again ");
}

// What the model is, as it was told of at the start and a little more.
static void print_model(const struct talk *talk, FILE *out)
{
    const struct backend_info *info = &talk->info;
    const struct tok_template_about *turns = &info->turns;
    char all[FORMAT_SIZE], active[FORMAT_SIZE], words[PLAN_WORDS_SIZE];
    fprintf(out, "  model            %s\n", info->name);
    if (info->parameters)
        fprintf(out, "  parameters       %s, %s active\n", format_count(all, sizeof all, info->parameters),
                format_count(active, sizeof active, info->active_parameters));
    fprintf(out, "  device           %s\n", info->device);
    fprintf(out, "  context          %s\n", talk_context(words, sizeof words, talk));
    fprintf(out, "  template         %s%s\n", turns->name ? turns->name : "none",
            turns->can_switch       ? "; /think says whether it thinks first"
            : turns->thinks_unasked ? "; it thinks first"
                                    : "");
    fprintf(out, "  plan             %s\n", plan_words(words, sizeof words, &info->cache));
    fputs("  more             /stats: figures; /set: how it is sampled; /system; moechat info MODEL, in the shell\n",
          out);
}

// Into the chat, or over an answer that is under way.
static void show_or_page(struct talk *talk, struct talk_lines *lines)
{
    if (talk->state == TALK_IDLE)
        talk_lines_show(talk, lines);
    else
        talk_lines_page(talk, lines, FACE_PAGE_STATS);
}

bool talk_show_word(struct talk *talk, const struct line *line)
{
    static const char *const words[] = {"info|model|template", "parameters|settings", "system"};
    struct talk_lines lines;
    int which = 0;
    while (which < 3 && !words_are(words[which], line->text, line->length))
        which++;
    bool elsewhere = words_are("modelfile|license", line->text, line->length);
    if (elsewhere)
        talk_refuse(talk,
                    "That is not shown here; moechat info MODEL, in the shell, says what a model is, /set and /system "
                    "show what it is run with.");
    else if (which < 3 && talk->state == TALK_LOADING)
        talk_say(talk, "The model is not open yet.");
    if (elsewhere || which == 3 || talk->state == TALK_LOADING || !talk_lines_begin(talk, &lines))
        return elsewhere || which < 3;
    if (which == 0)
        print_model(talk, lines.out);
    else if (which == 1)
        options_print_settings(lines.out, &talk->settings, NULL);
    else
        print_system(talk, lines.out);
    bool settings = which == 1;
    if (which > 1 || talk_lines_fold(talk, &lines, settings ? SETTINGS_SECOND : STATS_SECOND, settings ? 16 : 40))
        show_or_page(talk, &lines);
    return true;
}

static void print_stats(struct talk *talk, FILE *out)
{
    struct figures figures = {0};
    bool known = worker_figures(talk->worker, &figures);
    struct stats stats = {.info = &talk->info,
                          .conversation = figures.tallies[FIGURES_CONVERSATION],
                          .program = figures.tallies[FIGURES_PROGRAM],
                          .sum = known ? figures.sums[FIGURES_CONVERSATION] : NULL,
                          .context_used = talk_context_used(talk, &figures),
                          .context_then = talk->state == TALK_ANSWERING ? 0 : chat_tokens(&talk->chat),
                          .messages = talk->state == TALK_ANSWERING ? talk->chat.n_turns // the system's is sent, too
                                                                    : chat_messages(&talk->chat),
                          .to_read_anew =
                              talk->state == TALK_IDLE && chat_exchanges(&talk->chat) &&
                              (!chat_tokens(&talk->chat) || chat_begins_anew(&talk->chat, talk->chat.think)),
                          .process = process_reads_now(),
                          .seed = talk->turn_seeded               ? talk->turn_seed
                                  : talk->state == TALK_ANSWERING ? talk->asked_seed
                                                                  : talk->settings.seed.number + talk->n_sent,
                          .seed_was_used = talk->turn_seeded};
    stats_rooms(&stats);
    for (int i = 0; i < stats.n_rooms; i++)
        stats.rooms[i].share = worker_hits_with(talk->worker, stats.rooms[i].experts);
    stats_print(out, &stats);
    figures_release(&figures);
}

void talk_do_stats(struct talk *talk, const struct line *line)
{
    struct talk_lines lines;
    (void)line;
    if (talk->state == TALK_LOADING) {
        talk_say(talk, "The model is not open yet.");
        return;
    }
    if (!talk_lines_begin(talk, &lines))
        return;
    print_stats(talk, lines.out);
    if (talk_lines_fold(talk, &lines, STATS_SECOND, 40))
        show_or_page(talk, &lines);
}

void talk_do_help(struct talk *talk, const struct line *line)
{
    struct talk_lines lines;
    if (!talk_lines_begin(talk, &lines))
        return;
    help_print(lines.out, talk_argument(line).text, talk->face->keys);
    if (talk_lines_fold(talk, &lines, HELP_SECOND, 8))
        talk_lines_page(talk, &lines, FACE_PAGE_HELP);
}

void talk_do_keys(struct talk *talk, const struct line *line)
{
    struct talk_lines lines;
    if (!talk_lines_begin(talk, &lines))
        return;
    help_print_keys(lines.out, talk_argument(line).text, talk->face->keys);
    if (talk_lines_fold(talk, &lines, HELP_SECOND, 8))
        talk_lines_page(talk, &lines, FACE_PAGE_HELP);
}

void talk_do_log(struct talk *talk, const struct line *line)
{
    struct talk_lines lines;
    (void)line;
    if (!talk->face->log) {
        talk_refuse(talk, "No log without the full screen: drivers print to standard error.");
    } else if (talk_lines_begin(talk, &lines)) {
        talk->face->log(talk->self, lines.out);
        talk_lines_page(talk, &lines, FACE_PAGE_LOG);
    }
}

// What of thinking is shown. False: no such view, or a face that has none.
static bool show_thinking(struct talk *talk, const char *word)
{
    static const char *const words[] = {
        [THINKING_FOLDED] = "fold", [THINKING_HIDDEN] = "hide", [THINKING_OPEN] = "show"};
    for (enum thinking_view view = THINKING_FOLDED; view <= THINKING_OPEN; view++) {
        if (strcmp(words[view], word) != 0 || !talk->face->show_thinking)
            continue;
        talk->face->show_thinking(talk->self, view);
        return true;
    }
    return false;
}

static void switch_thinking(struct talk *talk, enum think asked)
{
    const struct tok_template_about *about = &talk->info.turns;
    if (!about->can_switch) {
        talk_refuse(talk, "Thinking can't be switched for this model: %s.",
                    about->thinks_unasked ? "it always thinks"
                    : about->thinks       ? "it thinks when it wants to"
                                          : "its template has no thinking");
        return;
    }
    bool anew = chat_begins_anew(&talk->chat, asked);
    talk->chat.think = asked;
    talk_say(talk, "From the next answer on it %s%s.", asked == THINK_ON ? "thinks first" : "answers at once",
             anew ? "; this changes how the conversation begins, so all of it will be read again" : "");
}

void talk_do_think(struct talk *talk, const struct line *line)
{
    struct talk_argument word = talk_argument(line);
    if (strcmp(word.text, "on") == 0)
        switch_thinking(talk, THINK_ON);
    else if (strcmp(word.text, "off") == 0)
        switch_thinking(talk, THINK_OFF);
    else if (!show_thinking(talk, word.text))
        talk_refuse(talk, "/think takes on or off; on the full screen also show, hide or fold.");
}

void talk_do_quit(struct talk *talk, const struct line *line)
{
    (void)line;
    talk_ask_leave(talk);
}
