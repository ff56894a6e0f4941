// SPDX-License-Identifier: GPL-3.0-or-later
// Everything that is about readline.
#include "app/term/prompt.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <readline/history.h>
#include <readline/readline.h>

#include "app/term/bindings.h"
#include "app/term/bounds.h"
#include "app/term/drawn.h"
#include "app/term/inputrc.h"
#include "app/term/label.h"
#include "app/term/matches.h"
#include "app/term/recall.h"
#include "app/term/term.h"
#include "app/term/vi.h"

#define IN_THE_MIDDLE                                                                                                  \
    (RL_STATE_ISEARCH | RL_STATE_NSEARCH | RL_STATE_MULTIKEY | RL_STATE_NUMERICARG | RL_STATE_VIMOTION |               \
     RL_STATE_CHARSEARCH)

static struct {
    struct prompt_face face;
    struct label label;
    bool shown;
    struct recall recall;
    FILE *nowhere;            // what readline would write when the face draws
    bool undrawn;             // readline's own line, as more was typed at once
    struct typed typed;       // that readline is to get
    struct bindings bindings; // what it does with that
    bool in_line;             // within what takes a line: readline forgets the draft behind it
    char *next;               // so this becomes the draft then, NULL: nothing does
    size_t next_point;
    bool next_command; // in vi's command mode
} prompt;

struct bindings *prompt_bindings(void)
{
    return &prompt.bindings;
}

static bool draws(void)
{
    return prompt.face.screen != NULL;
}

// ---- What comes at once is drawn once: readline draws its line anew with each key that is not of a word, so a paste
// without the terminal's marks would take the square of its length.

static void draw_later(void)
{
    prompt.undrawn = true;
}

static void draw_as_ever(void)
{
    if (!draws())
        rl_redisplay_function = drawn_line;
}

void prompt_draw(void)
{
    draw_as_ever();
    if (prompt.undrawn && prompt.shown && !draws())
        drawn_line();
    prompt.undrawn = false;
}

// ---- What readline calls ----

static void on_line(char *line)
{
    draw_as_ever();
    recall_remember_left(&prompt.recall);
    if (!draws()) {
        prompt.shown = false;
        rl_callback_handler_remove();
        using_history(); // Up begins at the end again
        if (!line)
            fputc('\n', rl_outstream);
    }
    bool before = prompt.bindings.within;
    prompt.bindings.within = prompt.in_line = true;
    prompt.face.line(prompt.face.context, line);
    prompt.bindings.within = before;
    prompt.in_line = false;
}

static char **attempt(const char *word, int start, int end)
{
    struct candidates found = {0};
    rl_attempted_completion_over = 1; // names of files are no words of a message
    if (!prompt.face.complete || !prompt.face.complete(prompt.face.context, &found, rl_line_buffer, (size_t)end))
        return NULL;
    if (found.start == (size_t)start)
        return matches_of(&found, word);
    candidates_release(&found);
    return NULL;
}

static void offer(char **matches, int count, int longest)
{
    (void)longest;
    prompt.face.offer(prompt.face.context, matches + 1, (size_t)count);
}

// readline looks ahead within a key, too.
static int typed_waits(void)
{
    typed_skip_answers(&prompt.typed);
    return typed_left(&prompt.typed) > 0;
}

static int take_byte(FILE *ignored)
{
    (void)ignored;
    if (typed_left(&prompt.typed))
        return typed_take(&prompt.typed);
    if (draws())
        return EOF; // the face hands over whole keys
    // The rest of a character that is read within a command.
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    char byte;
    return poll(&input, 1, 100) > 0 && read(STDIN_FILENO, &byte, 1) == 1 ? (unsigned char)byte : EOF;
}

// ---- Its beginning and its end ----

static void draw_nothing(void)
{
    // The face looks at prompt_draft when it draws.
}

static bool set_hooks(void)
{
    prompt.nowhere = fopen("/dev/null", "w");
    if (!prompt.nowhere)
        return false;
    rl_outstream = prompt.nowhere;
    rl_redisplay_function = draw_nothing;
    rl_completion_display_matches_hook = offer;
    return true;
}

bool prompt_open(const struct prompt_face *face)
{
    prompt.face = *face;
    prompt.bindings.face = &prompt.face;
    prompt.bindings.recall = &prompt.recall;
    prompt.bindings.typed = &prompt.typed;
    if (!label_take(&prompt.label, face->label) || (draws() && !set_hooks()))
        return false;
    rl_getc_function = take_byte;
    rl_input_available_hook = typed_waits;
    rl_readline_name = "moechat";
    rl_catch_signals = 0;
    rl_catch_sigwinch = 0;
    rl_change_environment = 0;
    // Raw mode is ours and lasts, so that what is typed during an answer waits unechoed for the next prompt.
    rl_prep_term_function = NULL;
    rl_deprep_term_function = NULL;
    rl_attempted_completion_function = attempt;
    rl_completer_word_break_characters = " \t\n";
    rl_completer_quote_characters = "";
    bindings_name();
    if (draws())
        rl_variable_bind("show-all-if-ambiguous", "on"); // the window is in nobody's way; an inputrc may say otherwise
    inputrc_initialize();
    bounds_ask_size();
    bindings_read(&prompt.bindings);
    const char *pastes = rl_variable_value("enable-bracketed-paste");
    draw_as_ever();
    if (!draws() && !term_raw(pastes && strcmp(pastes, "on") == 0))
        return false;
    // Only now is anything said: a terminal that Ctrl-S has stopped goes on in raw mode, else it would wait with that.
    prompt.recall.not_kept = face->not_kept;
    prompt.recall.stays = face->stays;
    prompt.recall.apart = face->apart;
    prompt.recall.context = face->context;
    size_t adopted = recall_open(&prompt.recall);
    if (adopted)
        face->adopted(face->context, adopted);
    if (draws()) {
        prompt_show("");
        return true;
    }
    bounds_grow_lines();
    return true;
}

static void read_char(void)
{
    bool searches = RL_ISSTATE(RL_STATE_NSEARCH);
    bindings_settle(&prompt.bindings);
    recall_part_changes(&prompt.recall);
    rl_callback_read_char();
    if (searches && !RL_ISSTATE(RL_STATE_NSEARCH))
        recall_end_search(&prompt.recall);
}

// At readline's own prompt, as prompt_cancel: before what waits to be typed. A search gives the draft back, in the
// place of what it has found.
static void leave_key(void)
{
    bindings_end_wait(&prompt.bindings);
    bool key = RL_ISSTATE(RL_STATE_MULTIKEY) != 0;
    for (int i = 0; i < 4 && RL_ISSTATE(IN_THE_MIDDLE) && typed_put(&prompt.typed, "\007", 1); i++)
        read_char();
    if (key)
        vi_take_bell_out();
}

// The line at readline's own prompt with those of its message before it, which `whole` is for. Without memory those are
// put away alone.
static const char *line_behind(const char *before, struct bytes *whole)
{
    const char *line = prompt.shown && rl_line_buffer ? rl_line_buffer : "";
    if (!*before || !*line)
        return *before ? before : line;
    if (bytes_append(whole, before, strlen(before)) && bytes_append(whole, "\n", 1) &&
        bytes_append(whole, line, strlen(line)))
        return whole->data;
    prompt_put_away(before);
    return line;
}

struct recall_end prompt_close(const char *draft, const char *behind, struct bytes *lost)
{
    struct bytes whole = {0};
    if (!draws() && prompt.shown)
        leave_key();
    if (!draws())
        draft = line_behind(draft, &whole);
    struct recall_end end = // nothing is lost by leaving
        recall_close(&prompt.recall, prompt.shown || *draft ? draft : NULL, behind, lost);
    bytes_release(&whole);
    if (prompt.shown)
        rl_callback_handler_remove();
    prompt.shown = false;
    label_release(&prompt.label);
    free(prompt.next);
    prompt.next = NULL;
    if (prompt.nowhere)
        fclose(prompt.nowhere);
    prompt.nowhere = NULL;
    typed_release(&prompt.typed);
    bindings_release(&prompt.bindings);
    term_restore();
    return end;
}

// ---- What Up brings back ----

bool prompt_remember(const char *text)
{
    return recall_remember(&prompt.recall, text);
}

bool prompt_put_away(const char *draft)
{
    return recall_put_away(&prompt.recall, draft);
}

bool prompt_keeps(const char *text)
{
    return recall_keeps(&prompt.recall, text);
}

void prompt_sent(const char *text)
{
    recall_sent(&prompt.recall, text);
}

void prompt_sent_came_back(const char *text)
{
    recall_sent_came_back(&prompt.recall, text);
}

void prompt_sent_is_safe(void)
{
    recall_sent_is_safe(&prompt.recall);
}

bool prompt_remember_other(const char *text)
{
    bool in_history = current_history() != NULL; // it is a line of its own then, not what Up shows
    char *line = in_history ? strdup(rl_line_buffer) : NULL;
    int point = rl_point;
    if (in_history && !line)
        return false;
    bool kept = prompt_remember(text);
    if (line)
        rl_replace_line(line, 1);
    rl_point = point;
    free(line);
    return kept;
}

// The line is what a search has found, or what is looked for.
static bool is_searching(void)
{
    return RL_ISSTATE(RL_STATE_ISEARCH | RL_STATE_NSEARCH);
}

int prompt_draft_wait(uint64_t now_ms)
{
    return recall_draft_wait(&prompt.recall, now_ms);
}

int prompt_keep_draft(const char *text, uint64_t now_ms)
{
    return is_searching() ? -1 : recall_keep_draft(&prompt.recall, text, now_ms);
}

void prompt_keep_draft_now(const char *text)
{
    if (!is_searching())
        recall_keep_draft_now(&prompt.recall, text);
}

int prompt_edit(char *path, size_t size)
{
    return recall_edit(&prompt.recall, path, size);
}

// ---- At readline's own prompt ----

void prompt_show(const char *draft)
{
    prompt.shown = true;
    bounds_ask_size();     // it may have changed while nothing was shown
    rl_tty_set_echoing(1); // else readline takes it from the settings that its own preparation would have read
    rl_callback_handler_install(label_now(&prompt.label), on_line);
    if (*draft) {
        rl_insert_text(draft);
        drawn_line();
    }
}

// A search's or a count's own label is made anew with its next key.
void prompt_label_again(void)
{
    if (rl_display_prompt == rl_prompt)
        rl_set_prompt(label_now(&prompt.label));
}

bool prompt_is_shown(void)
{
    return prompt.shown;
}

struct typed *prompt_typed(void)
{
    return &prompt.typed;
}

static void insert_pasted(void)
{
    struct bytes text = {0};
    if (typed_take_paste(&prompt.typed, &text) && text.length)
        recall_insert(&prompt.recall, text.data);
    bytes_release(&text);
    prompt.undrawn = true;
}

void prompt_end_paste(void)
{
    if (prompt.typed.pasting)
        insert_pasted();
}

bool prompt_can_type(void)
{
    return prompt.shown && typed_is_ready(&prompt.typed, term_clock_ms());
}

// Takes a byte, behind which so many wait. What comes singly is drawn as ever.
static void take_key(size_t waiting)
{
    enum { BURST = 64, LONG_LINE = 1024 };
    if (prompt_vi_command())
        bounds_end_with_character();
    if (!draws() && (waiting > BURST || (waiting > 1 && rl_end > LONG_LINE)))
        rl_redisplay_function = draw_later;
    read_char();
}

// The next key, or what of it readline asks for; or all that was pasted.
static void type_next(void)
{
    switch (typed_next(&prompt.typed, term_clock_ms())) {
    case TYPED_KEY:
        take_key(typed_left(&prompt.typed));
        break;
    case TYPED_PASTE_BEGINS: // in no search, which would end with its first line
        bindings_end_wait(&prompt.bindings);
        if (RL_ISSTATE(IN_THE_MIDDLE) && typed_put(&prompt.typed, "\007", 1))
            read_char();
        break;
    case TYPED_PASTE:
        insert_pasted();
        break;
    case TYPED_NO_KEY:
        break;
    }
}

// Up to the end of a line, or to what was pasted and is not all there.
static void type_waiting(void)
{
    while (prompt_can_type())
        type_next();
}

void prompt_type_held(void)
{
    type_waiting();
    prompt_draw();
}

void prompt_feed(void)
{
    if (typed_read(&prompt.typed, STDIN_FILENO))
        vi_await_key(&prompt.typed);
    prompt.typed.came_ms = term_clock_ms();
    type_waiting();
}

bool prompt_interrupt(const char *before, const char *given)
{
    struct bytes whole = {0};
    leave_key();
    prompt_end_paste();
    typed_release(&prompt.typed); // as the terminal does with what it holds
    const char *text = line_behind(before, &whole);
    bool draft = *text;
    if (draft)
        prompt_put_away(given && strcmp(given, text) == 0 ? "" : text);
    bytes_release(&whole);
    rl_point = rl_end;
    drawn_line();
    rl_free_line_state();
    rl_callback_sigcleanup();
    rl_replace_line("", 1);
    prompt_set_vi_command(false); // as any line begins
    fputs("^C\n", rl_outstream);
    rl_on_new_line();
    return draft;
}

void prompt_refresh(void)
{
    rl_on_new_line();
    rl_forced_update_display();
}

// As rl_resize_terminal does it, but for a size that readline survives.
void prompt_resize(void)
{
    if (!bounds_ask_size() || draws())
        return;
    rl_clear_visible_line();
    prompt_label_again(); // it is wrapped anew, too
    draw_as_ever();
    rl_forced_update_display();
}

// ---- For a face that draws ----

struct prompt_draft prompt_draft(void)
{
    const char *label = rl_display_prompt;
    if (prompt.in_line) // readline still has the line that was taken
        return (struct prompt_draft){.label = "",
                                     .mode = "",
                                     .text = prompt.next ? prompt.next : "",
                                     .length = prompt.next ? strlen(prompt.next) : 0};
    return (struct prompt_draft){.label = label ? label : "",
                                 .mode = vi_mode_words(),
                                 .text = rl_line_buffer ? rl_line_buffer : "",
                                 .length = rl_line_buffer ? (size_t)rl_end : 0,
                                 .point = rl_line_buffer ? (size_t)rl_point : 0,
                                 .search = is_searching()};
}

const char *prompt_with_paste(const struct prompt_draft *draft, const struct bytes *paste, struct bytes *whole)
{
    size_t point = draft->point < draft->length ? draft->point : draft->length;
    bool fine = paste->length && draft->length + paste->length <= DRAFT_FILE_LIMIT &&
                bytes_append(whole, draft->text, point) && bytes_append(whole, paste->data, paste->length) &&
                bytes_append(whole, draft->text + point, draft->length - point);
    return fine ? whole->data : draft->text;
}

enum prompt_key prompt_find_key(const char *bytes, size_t length)
{
    return bindings_find(bytes, length);
}

bool prompt_awaits_character(void)
{
    return prompt.bindings.waits;
}

bool prompt_is_within_key(void)
{
    return RL_ISSTATE(IN_THE_MIDDLE);
}

bool prompt_vi_command(void)
{
    return rl_editing_mode == 0 && rl_get_keymap() == vi_movement_keymap;
}

void prompt_set_vi_command(bool wanted)
{
    if (prompt.in_line) // readline begins every line in insert mode
        prompt.next_command = wanted;
    else if (rl_editing_mode == 0 && rl_get_keymap() != (wanted ? vi_movement_keymap : vi_insertion_keymap))
        (wanted ? rl_vi_movement_mode : rl_vi_insertion_mode)(1, 0);
}

// What a line was followed by.
static void take_next(void)
{
    if (!prompt.next)
        return;
    prompt_set_vi_command(prompt.next_command);
    prompt.next_command = false;
    rl_replace_line(prompt.next, 1);
    rl_point = prompt.next_point < (size_t)rl_end ? (int)prompt.next_point : rl_end;
    free(prompt.next);
    prompt.next = NULL;
}

void prompt_type(const char *bytes, size_t length)
{
    if (!typed_add(&prompt.typed, bytes, length))
        return; // as if it had not been typed
    while (typed_waits()) {
        type_next();
        take_next();
    }
}

void prompt_insert(const char *bytes, size_t length)
{
    char *text = strndup(bytes, length);
    prompt_cancel();
    if (text)
        recall_insert(&prompt.recall, text);
    free(text);
}

void prompt_replace(const char *text)
{
    prompt_cancel();
    if (prompt.in_line) {
        free(prompt.next);
        prompt.next = strdup(text);
        prompt.next_point = SIZE_MAX;
        return;
    }
    if (current_history())
        recall_change_line(text);
    else
        rl_replace_line(text, 1);
    rl_point = rl_end;
}

void prompt_point(size_t point)
{
    if (prompt.in_line)
        prompt.next_point = point;
    rl_point = point < (size_t)rl_end ? (int)point : rl_end;
}

// By Ctrl-G alone: rl_callback_sigcleanup leaves what it knows of a key that has begun behind, and falls over it later.
void prompt_cancel(void)
{
    bindings_end_wait(&prompt.bindings);
    bool key = RL_ISSTATE(RL_STATE_MULTIKEY) != 0;
    for (int i = 0; i < 4 && !prompt.bindings.within && RL_ISSTATE(IN_THE_MIDDLE); i++)
        prompt_type("\007", 1);
    if (key)
        vi_take_bell_out();
}

bool prompt_escape(void)
{
    if (RL_ISSTATE(RL_STATE_ISEARCH) || (rl_editing_mode == 0 && rl_get_keymap() == vi_insertion_keymap)) {
        prompt_type("\033", 1);
        return true;
    }
    if (RL_ISSTATE(IN_THE_MIDDLE)) {
        prompt_cancel();
        return true;
    }
    if (rl_editing_mode == 0 && !prompt_vi_command()) { // in replace mode readline would wait for the rest of a key
        prompt_set_vi_command(true);
        return true;
    }
    return false;
}
