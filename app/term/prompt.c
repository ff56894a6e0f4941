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

#include "app/term/bounds.h"
#include "app/term/inputrc.h"
#include "app/term/keymaps.h"
#include "app/term/keys.h"
#include "app/term/matches.h"
#include "app/term/recall.h"
#include "app/term/term.h"
#include "app/term/vi.h"

#define IN_THE_MIDDLE                                                                                                  \
    (RL_STATE_ISEARCH | RL_STATE_NSEARCH | RL_STATE_MULTIKEY | RL_STATE_NUMERICARG | RL_STATE_VIMOTION |               \
     RL_STATE_CHARSEARCH)

enum { KEY_SEQUENCES = 6 };

static struct {
    struct prompt_face face;
    char *label;
    bool shown;
    struct recall recall;
    FILE *nowhere;      // what readline would write when the face draws
    struct typed typed; // that readline is to get
    bool quoting;       // the next byte is text, whatever it is
    struct keymaps keymaps;
    bool lent;    // its searches are readline's own, as one goes on
    bool within;  // a function that readline has called
    bool in_line; // that one which takes a line: readline forgets the draft behind it
    char *next;   // so this becomes the draft then, NULL: nothing does
    size_t next_point;
    bool next_command; // in vi's command mode
    bool undrawn;      // readline's own line, as more was typed at once
} prompt;

static bool draws(void)
{
    return prompt.face.screen != NULL;
}

static int press(bool (*take)(struct tui *tui), rl_command_func_t *otherwise, int count, int code)
{
    bool before = prompt.within;
    prompt.within = true;
    bool taken = draws() && take(prompt.face.screen);
    prompt.within = before;
    return taken ? 0 : otherwise(count, code);
}

static int nothing(int count, int code)
{
    (void)count;
    (void)code;
    return 0;
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
        rl_redisplay_function = rl_redisplay;
}

static void draw_line(void)
{
    draw_as_ever();
    if (prompt.undrawn && prompt.shown)
        rl_redisplay();
    prompt.undrawn = false;
}

static void mend_keymaps(void);

static void read_char(void)
{
    bool searches = RL_ISSTATE(RL_STATE_NSEARCH);
    if (prompt.lent && !RL_ISSTATE(RL_STATE_ISEARCH))
        mend_keymaps();
    recall_part_changes();
    prompt.quoting = false;
    rl_callback_read_char();
    if (searches && !RL_ISSTATE(RL_STATE_NSEARCH))
        recall_end_search(&prompt.recall);
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

// readline ends its line where it was drawn last.
static int accept_line(int count, int code)
{
    draw_line();
    return rl_newline(count, code);
}

static int insert_newline(int count, int code)
{
    (void)count;
    (void)code;
    rl_insert_text("\n");
    return 0;
}

// Commands are completed; in a message a tab is a tab.
static int complete(int count, int code)
{
    if (rl_line_buffer[strspn(rl_line_buffer, " ")] != '/')
        return rl_insert(count, '\t');
    (void)code;
    draw_line();
    return rl_complete_internal(rl_completion_mode(complete));
}

#define EDIT_KEY(...)
#define SCREEN_KEY(id, function, sequences, otherwise, ...)                                                            \
    static int key_##id(int count, int code)                                                                           \
    {                                                                                                                  \
        return press(tui_key_##id, otherwise, count, code);                                                            \
    }
#define OTHER_KEY(...)
#include "app/term/keys.def"
#undef EDIT_KEY
#undef SCREEN_KEY

static const struct bound_key {
    const char *function;                 // its name for inputrc
    const char *sequences[KEY_SEQUENCES]; // ends with NULL when fewer
    rl_command_func_t *does;
    bool in_lines; // at readline's own prompt, too
} keys[] = {
#define AT(...)                                                                                                        \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }
#define EDIT_KEY(id, function, sequences, does, ...)        {function, sequences, does, true},
#define SCREEN_KEY(id, function, sequences, otherwise, ...) {function, sequences, key_##id, false},
#include "app/term/keys.def"
#undef AT
#undef EDIT_KEY
#undef SCREEN_KEY
#undef OTHER_KEY
};
enum { N_KEYS = sizeof keys / sizeof keys[0] };

// emacs' first, vi's command mode last.
static const Keymap maps[] = {emacs_standard_keymap, vi_insertion_keymap, vi_movement_keymap};
enum { N_MAPS = sizeof maps / sizeof maps[0] };

// ---- What readline's callbacks can't be trusted with (keymaps.h) ----

static int unknown(int count, int code)
{
    (void)count;
    (void)code;
    return rl_ding();
}

static int skip(int count, int code)
{
    prompt.typed.skipping = true;
    return unknown(count, code);
}

static int begin_paste(int count, int code)
{
    typed_begin_paste(&prompt.typed, term_clock_ms());
    return nothing(count, code);
}

static int play_macro(int count, int code)
{
    const char *text = keymaps_macro(&prompt.keymaps, rl_executing_keymap, rl_executing_key);
    return text && typed_put_macro(&prompt.typed, text) ? 0 : unknown(count, code);
}

static void read_bindings(void);

static int reread(int count, int code)
{
    if (!inputrc_read_again())
        unknown(count, code);
    read_bindings();
    return 0;
}

static void begin_search(void);

static int search_back(int count, int code)
{
    begin_search();
    return rl_reverse_search_history(count, code);
}

static int search_forth(int count, int code)
{
    begin_search();
    return rl_forward_search_history(count, code);
}

static int quote(int count, int code)
{
    prompt.quoting = true;
    return rl_quoted_insert(count, code);
}

// No state of readline's says that it waits for that byte.
static void end_quote(void)
{
    if (prompt.quoting)
        rl_callback_sigcleanup();
    prompt.quoting = false;
}

static const struct keymaps_functions functions = {unknown, skip,        begin_paste,  play_macro,
                                                   reread,  search_back, search_forth, quote};

static void mend_keymaps(void)
{
    for (size_t i = 0; i < N_MAPS; i++)
        keymaps_mend(&prompt.keymaps, maps[i], &functions);
    prompt.lent = false;
}

// It takes the line, and what stands in it may have been typed just now.
static void begin_search(void)
{
    prompt.face.keep(prompt.face.context);
    for (size_t i = 0; i < N_MAPS; i++)
        keymaps_lend_searches(maps[i], &functions);
    prompt.lent = true;
}

// A key that an inputrc has given to one of our functions stays theirs.
static bool is_ours(const char *sequence, Keymap map)
{
    int type;
    rl_command_func_t *bound = rl_function_of_keyseq(sequence, map, &type);
    for (size_t i = 0; i < N_KEYS && type == ISFUNC; i++)
        if (bound == keys[i].does)
            return true;
    return false;
}

// Where an inputrc leaves the key as readline has it.
static void bind_instead(const char *sequence, Keymap map, rl_command_func_t *was, rl_command_func_t *does)
{
    if (rl_function_of_keyseq(sequence, map, NULL) == was)
        rl_bind_keyseq_in_map(sequence, does, map);
}

static void bind_keys(void)
{
    for (size_t n = 0; n < N_KEYS; n++) {
        const struct bound_key *key = &keys[n];
        for (int i = 0; i < KEY_SEQUENCES && key->sequences[i]; i++)
            for (size_t map = 0; map < N_MAPS && (key->in_lines || draws()); map++)
                if (!is_ours(key->sequences[i], maps[map]))
                    rl_bind_keyseq_in_map(key->sequences[i], key->does, maps[map]);
    }
    static const struct {
        const char *sequence, *function;
    } usual[] = {
        {"\033[3~", "delete-char"},       {"\033[1~", "beginning-of-line"}, {"\033[4~", "end-of-line"},
        {"\033[7~", "beginning-of-line"}, {"\033[8~", "end-of-line"},       {"\033[1;5C", "forward-word"},
        {"\033[1;5D", "backward-word"},
    };
    if (draws()) { // by lines of the draft first, as the arrows go; v as bash has it
        rl_bind_keyseq_if_unbound_in_map("v", rl_named_function("moechat-editor"), vi_movement_keymap);
        bind_instead("k", vi_movement_keymap, rl_get_previous_history, key_up);
        bind_instead("j", vi_movement_keymap, rl_get_next_history, key_down);
    }
    for (size_t map = 0; map < N_MAPS && !draws(); map++) {
        bind_instead("\r", maps[map], rl_newline, accept_line);
        bind_instead("\n", maps[map], rl_newline, accept_line);
        bind_instead("\f", maps[map], rl_insert, rl_clear_screen); // vi's insert mode would insert it
    }
    // A # before the draft sends it to the model, as no shell would.
    bind_instead("\033#", emacs_standard_keymap, rl_insert_comment, nothing);
    bind_instead("#", vi_movement_keymap, rl_insert_comment, nothing);
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++)
        for (size_t map = 0; map < 2; map++)
            rl_bind_keyseq_if_unbound_in_map(usual[i].sequence, rl_named_function(usual[i].function), maps[map]);
}

// vi's / and n match patterns, which takes the square of a line's length: seconds where one of the history is a long
// paste. In any other keymap readline looks for the text itself.
#define SEARCH(function)                                                                                               \
    static int plain_##function(int count, int code)                                                                   \
    {                                                                                                                  \
        Keymap map = rl_get_keymap();                                                                                  \
        prompt.face.keep(prompt.face.context);                                                                         \
        recall_begin_search(&prompt.recall);                                                                           \
        rl_set_keymap(vi_insertion_keymap);                                                                            \
        int status = rl_##function(count, code);                                                                       \
        rl_set_keymap(map);                                                                                            \
        if (!RL_ISSTATE(RL_STATE_NSEARCH))                                                                             \
            recall_end_search(&prompt.recall);                                                                         \
        return status;                                                                                                 \
    }
SEARCH(vi_search)
SEARCH(vi_search_again)
SEARCH(noninc_forward_search)
SEARCH(noninc_reverse_search)
#undef SEARCH

static void bind_searches(void)
{
    bind_instead("/", vi_movement_keymap, rl_vi_search, plain_vi_search);
    bind_instead("?", vi_movement_keymap, rl_vi_search, plain_vi_search);
    bind_instead("n", vi_movement_keymap, rl_vi_search_again, plain_vi_search_again);
    bind_instead("N", vi_movement_keymap, rl_vi_search_again, plain_vi_search_again);
    bind_instead("\033n", emacs_standard_keymap, rl_noninc_forward_search, plain_noninc_forward_search);
    bind_instead("\033p", emacs_standard_keymap, rl_noninc_reverse_search, plain_noninc_reverse_search);
}

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
    bool before = prompt.within;
    prompt.within = prompt.in_line = true;
    prompt.face.line(prompt.face.context, line);
    prompt.within = before;
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

// Ours, then what moechat's own inputrc changes; last what must be so.
static void read_bindings(void)
{
    bind_keys();
    bind_searches();
    inputrc_read_own();
    rl_variable_bind("isearch-terminators", "\033\012"); // Esc: readline does not survive other keys that end a search
    if (draws()) {
        rl_variable_bind("bell-style", "none"); // it would go to standard error
    } else {                                    // readline would wait for the answer, and nothing else be heard
        rl_variable_bind("completion-query-items", "0");
        rl_variable_bind("page-completions", "off");
    }
    mend_keymaps();
}

bool prompt_open(const struct prompt_face *face)
{
    prompt.face = *face;
    prompt.label = strdup(face->label ? face->label : "");
    if (!prompt.label || (draws() && !set_hooks()))
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
    for (size_t i = 0; i < N_KEYS; i++)
        rl_add_defun(keys[i].function, keys[i].does, -1);
    if (draws())
        rl_variable_bind("show-all-if-ambiguous", "on"); // the window is in nobody's way; an inputrc may say otherwise
    inputrc_initialize();
    bounds_keep_screen();
    read_bindings();
    const char *pastes = rl_variable_value("enable-bracketed-paste");
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

// At readline's own prompt, as prompt_cancel: before what waits to be typed. A search gives the draft back, in the
// place of what it has found.
static void leave_key(void)
{
    end_quote();
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
    free(prompt.label);
    free(prompt.next);
    prompt.label = prompt.next = NULL;
    if (prompt.nowhere)
        fclose(prompt.nowhere);
    prompt.nowhere = NULL;
    typed_release(&prompt.typed);
    keymaps_release(&prompt.keymaps);
    term_restore();
    return end;
}

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

void prompt_show(const char *draft)
{
    prompt.shown = true;
    rl_reset_screen_size(); // it may have changed while nothing was shown
    bounds_keep_screen();
    rl_tty_set_echoing(1); // else readline takes it from the settings that its own preparation would have read
    rl_callback_handler_install(prompt.label, on_line);
    if (*draft) {
        rl_insert_text(draft);
        rl_redisplay();
    }
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
        recall_insert(text.data);
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

// The next key, or what of it readline asks for; or all that was pasted.
static void type_next(void)
{
    switch (typed_next(&prompt.typed, term_clock_ms())) {
    case TYPED_KEY:
        take_key(typed_left(&prompt.typed));
        break;
    case TYPED_PASTE_BEGINS: // in no search, which would end with its first line
        end_quote();
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
    draw_line();
}

void prompt_feed(void)
{
    if (typed_read(&prompt.typed, STDIN_FILENO))
        vi_await_key(&prompt.typed);
    prompt.typed.came_ms = term_clock_ms();
    type_waiting();
}

void prompt_draw(void)
{
    draw_line();
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
    rl_redisplay();
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

void prompt_resize(void)
{
    rl_resize_terminal();
    bounds_keep_screen();
}

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
    else if (rl_editing_mode == 0 && wanted != prompt_vi_command())
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
        recall_insert(text);
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
    end_quote();
    bool key = RL_ISSTATE(RL_STATE_MULTIKEY) != 0;
    for (int i = 0; i < 4 && !prompt.within && RL_ISSTATE(IN_THE_MIDDLE); i++)
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
    return false;
}
