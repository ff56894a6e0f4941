// SPDX-License-Identifier: GPL-3.0-or-later
// What is typed: keys, lines, pastes.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/talk/sessions.h"
#include "app/term/term.h"
#include "app/term/tui_parts.h"
#include "app/term/typed.h"

void tui_forget_words(struct tui *tui)
{
    for (size_t i = 0; i < tui->n_words; i++)
        free(tui->words[i]);
    free(tui->words);
    tui->words = NULL;
    tui->n_words = 0;
}

void tui_offer(void *context, char **words, size_t count)
{
    struct tui *tui = context;
    tui_forget_words(tui);
    tui->words = calloc(count, sizeof *tui->words);
    for (size_t i = 0; tui->words && i < count; i++) {
        tui->words[i] = strdup(words[i]);
        if (!tui->words[i])
            break;
        tui->n_words++;
    }
}

bool tui_complete(void *context, struct candidates *found, const char *line, size_t point)
{
    struct tui *tui = context;
    return tui->mode == MODE_WRITE && sessions_complete(&tui->talk.store, found, line, point);
}

// Figures lie over an answer, beside which one commands.
bool tui_slash_commands(const struct tui *tui)
{
    return tui->help_open && tui->page == FACE_PAGE_STATS && tui->mode == MODE_WRITE && !prompt_draft().length;
}

// ---- the search of the chat ----

static void begin_search(struct tui *tui)
{
    if (tui->mode == MODE_WRITE) {
        struct prompt_draft draft = prompt_draft();
        free(tui->kept);
        tui->kept = strndup(draft.text, draft.length);
        tui->kept_point = draft.point;
    }
    if (tui->mode == MODE_WRITE)
        tui->kept_command = prompt_vi_command();
    tui->mode = MODE_SEARCH;
    tui->search_back = !tui->help_open;
    prompt_replace("");
    prompt_set_vi_command(false); // what is searched for is typed
}

void tui_end_search(struct tui *tui)
{
    if (tui->mode == MODE_WRITE)
        return;
    transcript_search_end(tui_view(tui));
    tui->mode = MODE_WRITE;
    prompt_replace(tui->kept ? tui->kept : "");
    prompt_set_vi_command(tui->kept_command);
    prompt_point(tui->kept_point);
    free(tui->kept);
    tui->kept = NULL;
}

// No words: the last ones once more, as in less.
static void search(struct tui *tui, const char *words)
{
    prompt_replace("");
    char *sought = *words ? strdup(words) : NULL;
    if (sought) {
        free(tui->sought);
        tui->sought = sought;
    }
    if (!*words && tui->sought)
        words = tui->sought;
    if (!*words) {
        tui_end_search(tui);
    } else if (transcript_search(tui_view(tui), words, strlen(words), tui->search_back)) {
        tui->mode = MODE_FOUND;
    } else {
        tui_notice(tui, "not found: %.80s", words);
        tui_end_search(tui);
    }
}

// In the mode that follows a search a key means something else; false: it ends the mode and is a key as any.
static bool found_key(struct tui *tui, const struct input_item *item)
{
    char key = item->length == 1 ? item->bytes[0] : 0;
    if (key == 'n' || key == 'N') {
        if (!transcript_search_next(tui_view(tui), (key == 'n') == tui->search_back))
            tui_notice(tui, "no more matches");
        else if (transcript_matches(tui_view(tui)).count == 1)
            tui_notice(tui, "only match");
        return true;
    }
    bool pages = item->length > 1 && item->bytes[0] == '\033'; // and the like
    if (pages || (tui->help_open && key != 'q'))               // a page's own keys leave the search as it is
        return false;
    tui_end_search(tui);
    if (key == 'q')
        tui->help_open = false;
    return key == '\r' || key == 'q';
}

static void move_to_history(struct tui *tui)
{
    struct prompt_draft draft = prompt_draft();
    char *text = strndup(draft.text, draft.length);
    bool kept = text && prompt_put_away(text);
    free(text);
    tui_notice(tui, kept ? "draft moved to the history; Up brings it back"
                         : "draft moved to the history of this chat alone; Up brings it back");
}

// ---- keys ----

// vi's command mode stands on a character of a line, not behind it.
static size_t on_character(const struct prompt_draft *draft, size_t point)
{
    bool behind = point == draft->length || draft->text[point] == '\n';
    if (!prompt_vi_command() || !behind || !point || draft->text[point - 1] == '\n')
        return point;
    do
        point--;
    while (point && ((unsigned char)draft->text[point] & 0xC0) == 0x80);
    return point;
}

static bool vertical(struct tui *tui, int direction)
{
    if (tui->mode == MODE_FOUND || (tui->help_open && tui->mode == MODE_WRITE)) {
        transcript_scroll(tui_view(tui), direction);
        return true;
    }
    struct prompt_draft draft = prompt_draft();
    draft_update(&tui->draft, draft.text, draft.length, draft.point);
    size_t point = draft_vertical(&tui->draft, direction);
    if (point != SIZE_MAX) {
        prompt_point(on_character(&draft, point));
        return true;
    }
    if (direction > 0 || !tui->n_queue || tui->mode != MODE_WRITE)
        return tui->mode != MODE_WRITE;
    if (draft.length)
        move_to_history(tui);
    struct bytes text = tui_unqueue(tui, tui->n_queue - 1);
    prompt_replace(text.data);
    bytes_release(&text);
    return true;
}

// What is large: the chat, or the figures in its place.
static void scroll(struct tui *tui, int rows)
{
    if (!tui->zoom || tui->help_open)
        transcript_scroll(tui_view(tui), rows);
    else
        tui->stats_top = tui->stats_top + rows > 0 ? tui->stats_top + rows : 0;
}

static int rows_seen(const struct tui *tui)
{
    return tui->zoom && !tui->help_open ? tui->layout.stats.rows - 3 : tui->layout.chat.rows;
}

static void page(struct tui *tui, int direction)
{
    int rows = rows_seen(tui);
    scroll(tui, direction * (rows > 2 ? rows - 2 : 1));
}

static void half_page(struct tui *tui, int direction)
{
    int rows = rows_seen(tui);
    scroll(tui, direction * (rows > 3 ? rows / 2 : 1));
}

bool tui_key_up(struct tui *tui)
{
    return vertical(tui, -1);
}

bool tui_key_down(struct tui *tui)
{
    return vertical(tui, 1);
}

bool tui_key_page_up(struct tui *tui)
{
    page(tui, -1);
    return true;
}

bool tui_key_page_down(struct tui *tui)
{
    page(tui, 1);
    return true;
}

bool tui_key_line_up(struct tui *tui)
{
    scroll(tui, -1);
    return true;
}

bool tui_key_line_down(struct tui *tui)
{
    scroll(tui, 1);
    return true;
}

bool tui_key_to_begin(struct tui *tui)
{
    transcript_to_begin(tui_view(tui));
    return true;
}

bool tui_key_follow(struct tui *tui)
{
    transcript_follow(tui_view(tui));
    return true;
}

// Where nothing is typed. False: readline's.
static bool beside(struct tui *tui, int step)
{
    if (tui->mode == MODE_WRITE && tui->help_open)
        return true; // the draft below is not looked at
    if (tui->mode != MODE_WRITE || prompt_draft().length)
        return false;
    const char *why =
        tui->talk.state == TALK_IDLE ? talk_beside(&tui->talk, step) : "other answers can be shown once this is done";
    if (why)
        tui_notice(tui, "%s", why);
    return true;
}

bool tui_key_earlier(struct tui *tui)
{
    return beside(tui, -1);
}

bool tui_key_later(struct tui *tui)
{
    return beside(tui, 1);
}

bool tui_key_search(struct tui *tui)
{
    begin_search(tui);
    return true;
}

bool tui_key_stats(struct tui *tui)
{
    tui_show_stats(tui, tui->stats == STATS_OFF ? STATS_ROW : (enum stats_view)(tui->stats + 1));
    return true;
}

bool tui_key_sort(struct tui *tui)
{
    tui->by_wait = !tui->by_wait;
    tui->stats_top = 0;
    if (tui->stats != STATS_PANE)
        tui_show_stats(tui, STATS_PANE);
    return true;
}

bool tui_key_zoom(struct tui *tui)
{
    tui->zoom = !tui->zoom;
    tui->stats_top = 0;
    if (tui->zoom && (tui->stats == STATS_ROW || tui->stats == STATS_OFF))
        tui->stats = STATS_PANE;
    return true;
}

bool tui_key_fold_thinking(struct tui *tui)
{
    bool open = transcript_thinking(tui->chat) == THINKING_OPEN;
    transcript_show_thinking(tui->chat, open ? THINKING_FOLDED : THINKING_OPEN);
    return true;
}

bool tui_key_bare_view(struct tui *tui)
{
    tui_bare_view(tui);
    return true;
}

bool tui_key_copy(struct tui *tui)
{
    tui_copy(tui, tui->last_answer.data, tui->last_answer.length);
    return true;
}

bool tui_key_editor(struct tui *tui)
{
    tui_edit(tui);
    return true;
}

bool tui_key_redraw(struct tui *tui)
{
    screen_resize(tui->screen);
    return true;
}

bool tui_key_help(struct tui *tui)
{
    tui_end_search(tui);
    if (tui->help_open)
        tui->help_open = false;
    else
        talk_do_help(&tui->talk, &(struct line){.text = ""});
    return true;
}

static bool half_down(struct tui *tui)
{
    half_page(tui, 1);
    return true;
}

static bool half_up(struct tui *tui)
{
    half_page(tui, -1);
    return true;
}

static bool search_back(struct tui *tui)
{
    begin_search(tui);
    tui->search_back = true;
    return true;
}

static bool close_page(struct tui *tui)
{
    tui_end_search(tui);
    tui->help_open = false;
    return true;
}

static bool is_key(const struct input_item *item, const char *key)
{
    return item->length == strlen(key) && memcmp(item->bytes, key, item->length) == 0;
}

enum { TYPED_MS = 1000, TYPED_MOST = 4096 };

static void forget_typed(struct tui *tui)
{
    tui->typed.text.length = 0;
    tui->typed.message = false;
}

static void give_typed(struct tui *tui)
{
    close_page(tui);
    prompt_set_vi_command(false);
    prompt_insert(tui->typed.text.data, tui->typed.text.length);
    forget_typed(tui);
    tui_notice(tui, "page closed: what was typed on it is in the draft");
}

// Of the keys that a page has no use for itself, the screen's do there what they do elsewhere. readline's would change
// the draft, which nobody looks at, or send it.
static void other_key(struct tui *tui, const struct input_item *item)
{
    char whole[sizeof tui->begun.bytes + sizeof tui->input.held];
    size_t length = tui->begun.length;
    bool text = !length && (unsigned char)item->bytes[0] >= ' ';
    enum prompt_key key = PROMPT_KEY_DRAFT;
    memcpy(whole, tui->begun.bytes, length);
    if (!text && length + item->length <= sizeof whole) {
        memcpy(whole + length, item->bytes, item->length);
        length += item->length;
        key = prompt_find_key(whole, length);
    }
    tui->begun.length = 0;
    if (key == PROMPT_KEY_EDITOR && tui->typed.message)
        give_typed(tui);
    if (key == PROMPT_KEY_SCREEN || key == PROMPT_KEY_EDITOR) {
        prompt_type(whole, length);
    } else if (key == PROMPT_KEY_BEGINS && length <= sizeof tui->begun.bytes) {
        memcpy(tui->begun.bytes, whole, length);
        tui->begun.length = length;
    } else if (key == PROMPT_KEY_DRAFT) {
        tui_notice(tui, "q or Esc closes this page");
    }
}

typedef bool press_fn(struct tui *tui);

// The page's own keys, as less has them. NULL: it has no use for that one.
static press_fn *find_press(const struct input_item *item)
{
    static const struct {
        press_fn *press;
        const char *keys[10];
    } presses[] = {
        {tui_key_line_down, {"j", "e", "\r", "\n", "\005", "\016", "\033[B", "\033OB"}},
        {tui_key_line_up, {"k", "y", "\013", "\020", "\031", "\033[A", "\033OA"}},
        {tui_key_page_down, {" ", "f", "z", "\006", "\026"}},
        {tui_key_page_up, {"b", "w", "\002"}},
        {half_down, {"d", "\004"}},
        {half_up, {"u", "\025"}},
        {tui_key_to_begin, {"g", "<", "\033<", "\033[H", "\033OH", "\033[1~", "\033[7~"}},
        {tui_key_follow, {"G", ">", "\033>", "\033[F", "\033OF", "\033[4~", "\033[8~"}},
        {tui_key_search, {"/"}},
        {search_back, {"?"}},
        {close_page, {"q", "Q"}},
    };
    enum { KEYS = sizeof presses[0].keys / sizeof presses[0].keys[0] };
    for (size_t i = 0; i < sizeof presses / sizeof presses[0]; i++)
        for (int key = 0; key < KEYS && presses[i].keys[key]; key++)
            if (is_key(item, presses[i].keys[key]))
                return presses[i].press;
    return NULL;
}

// Over the conversation stands a page. The draft below stays as it is. What came in one piece with the line that opened
// the page was typed before it was there, and goes where it would without. False: a key as any.
static bool page_key(struct tui *tui, const struct input_item *item)
{
    bool blank = !prompt_draft().length;
    if (tui->mode == MODE_SEARCH || prompt_is_within_key())
        return false;
    if (!tui->help_open) { // the figures in the chat's place are left by their own key
        tui->begun.length = 0;
        return tui->zoom && blank && tui->mode == MODE_WRITE && is_key(item, "\004") && half_down(tui);
    }
    if (tui->burst.of_line)
        return false;
    if (tui_slash_commands(tui) && is_key(item, "/")) {
        close_page(tui);
        return false;
    }
    press_fn *press = tui->begun.length ? NULL : find_press(item);
    if (press)
        return press(tui);
    other_key(tui, item);
    return true;
}

// ---- a message that is typed on a page, by who has not looked up ----

static bool is_of_page(const struct tui *tui)
{
    return tui->help_open && tui->mode != MODE_SEARCH && !tui->burst.of_line && !prompt_is_within_key();
}

// Forgets what stands before a pause.
static bool types_message(struct tui *tui)
{
    uint64_t now = term_clock_ms();
    if (!is_of_page(tui) || now > tui->typed.last_ms + TYPED_MS)
        forget_typed(tui);
    tui->typed.last_ms = now;
    return tui->typed.message;
}

// Without a pause before it, letters that are no keys of the page make a message of all letters; those that are do what
// they do. But what would end it or take it apart (closes the page, begins a search, ends a line or changes one) gives
// the draft all of it. True: the key has done what it does.
static bool typed_key(struct tui *tui, const struct input_item *item)
{
    bool message = types_message(tui);
    if (!is_of_page(tui))
        return false;
    bool letter = !tui->begun.length && (unsigned char)item->bytes[0] >= ' ' && item->bytes[0] != '\177';
    bool own = find_press(item) || (tui->mode == MODE_FOUND && (is_key(item, "n") || is_key(item, "N")));
    bool edits = !letter && !own && prompt_find_key(item->bytes, item->length) == PROMPT_KEY_DRAFT;
    bool ends = letter ? strchr("qQ/?", item->bytes[0]) || tui->typed.text.length >= TYPED_MOST
                       : edits || is_key(item, "\r") || is_key(item, "\n");
    bool kept = letter ? bytes_append(&tui->typed.text, item->bytes, item->length) : !edits;
    if (message && ends) {
        give_typed(tui);
        return !edits;
    }
    tui->typed.message = message || (letter && !own);
    if (!kept || ends)
        forget_typed(tui);
    return false;
}

void tui_on_line(void *context, char *line)
{
    struct tui *tui = context;
    if (!line) {
        if (tui->mode == MODE_WRITE)
            talk_ask_leave(&tui->talk);
        else
            tui_end_search(tui);
        return;
    }
    if (tui->mode == MODE_SEARCH) {
        search(tui, line);
    } else if (line[strspn(line, " \t\r\n")]) {
        tui_enter(tui, line);
    }
    free(line);
}

void tui_put_draft_away(struct tui *tui)
{
    if (!prompt_draft().length)
        return;
    move_to_history(tui);
    prompt_replace("");
}

// The message that was being changed is in the history then, if it was changed.
static bool leave_edit(struct tui *tui)
{
    const struct prompt_draft draft = prompt_draft();
    const char *given = talk_edited(&tui->talk);
    if (!tui->talk.editing || tui->talk.state != TALK_IDLE)
        return false;
    prompt_set_vi_command(false); // as any line begins
    if (given && strlen(given) == draft.length && memcmp(given, draft.text, draft.length) == 0) {
        prompt_remember(""); // drafts that were left alone
        prompt_replace("");
    }
    tui_put_draft_away(tui); // first: what it says outlives the work that follows
    return talk_leave_edit(&tui->talk);
}

// With vi's keys the first Esc leaves insert mode, where nobody may notice it: nothing was typed, or no mode is shown.
static void say_next_escape(struct tui *tui)
{
    if (prompt_vi_command() && !prompt_draft().length && tui->talk.state == TALK_ANSWERING)
        tui_notice(tui, "Esc once more stops it");
}

static void escape(struct tui *tui)
{
    if (tui->mode != MODE_WRITE)
        tui_end_search(tui);
    else if (tui->n_words)
        return; // they go
    else if (tui->help_open)
        tui->help_open = false;
    else if (prompt_escape())
        say_next_escape(tui);
    else if (leave_edit(tui))
        return;
    else if (talk_stop(&tui->talk))
        tui->stopping = true;
}

void tui_interrupt(struct tui *tui)
{
    struct talk *talk = &tui->talk;
    *tui->notice = 0;
    tui_forget_words(tui);
    input_drop(&tui->input);
    tui->begun.length = 0;
    prompt_cancel();
    if (tui->mode != MODE_WRITE) {
        tui_end_search(tui);
        return;
    }
    if (talk_stop(talk)) {
        tui->stopping = true;
        tui_take_queue_back(tui);
        return;
    }
    if (tui->help_open) { // the draft below it stays as it is
        tui->help_open = false;
        return;
    }
    prompt_set_vi_command(false); // as any line begins
    if (leave_edit(tui))
        return;
    if (prompt_draft().length) {
        tui_put_draft_away(tui);
    } else if (talk->state == TALK_LOADING) {
        talk_leave(talk, STATUS_INTERRUPTED);
    } else {
        tui_notice(tui, "Ctrl-D or /quit to leave");
    }
}

// Of a paste, what one may not see in it.
static void tell_of_paste(struct tui *tui, const struct input_item *item)
{
    bool burst_only = item->kind == INPUT_BURST && !item->left_out; // else there is no room for both on 80 columns
    const char *burst = burst_only                  ? "taken for a paste, as it came at once; no line of it was run"
                        : item->kind == INPUT_BURST ? "taken for a paste: no line was run"
                        : item->unended             ? "the paste had no end"
                                                    : "";
    char count[80], left_out[96] = "";
    if (item->left_out)
        snprintf(left_out, sizeof left_out, "%s%s%s", *burst ? "; " : "",
                 typed_left_out_words(count, sizeof count, item->left_out), *burst ? "" : " of the paste");
    if (item->cut)
        tui_notice(tui, "paste cut at %d MiB", INPUT_PASTE_LIMIT >> 20);
    else if (*burst || *left_out)
        tui_notice(tui, "%s%s", burst, left_out);
}

static bool has_lines(const struct input_item *item)
{
    return memchr(item->bytes, '\n', item->length) || memchr(item->bytes, '\r', item->length);
}

void tui_take_input(void *context, const struct input_item *item)
{
    struct tui *tui = context;
    if (tui->talk.state == TALK_LEAVING && item->unended && tui->talk.status != STATUS_DONE &&
        tui->mode == MODE_WRITE) {
        prompt_insert(item->bytes, item->length); // a signal came in its middle
        return;
    }
    if (tui->talk.state == TALK_LEAVING) {
        bool text = item->length && (item->kind == INPUT_PASTE || (unsigned char)item->bytes[0] >= ' ');
        bool ends = item->length == 1 && (item->bytes[0] == '\r' || item->bytes[0] == '\n');
        bytes_append(&tui->behind, ends ? "\n" : item->bytes, ends ? 1 : text ? item->length : 0);
        return;
    }
    tui->dirty = true;
    *tui->notice = 0; // it was about what was done before
    if (item->kind == INPUT_ESCAPE && !prompt_awaits_character()) {
        escape(tui);
        tui_forget_words(tui);
        return;
    }
    tui_forget_words(tui);
    switch (item->kind) {
    case INPUT_KEYS:
        if (!typed_key(tui, item) && (tui->mode != MODE_FOUND || !found_key(tui, item)) && !page_key(tui, item))
            prompt_type(item->bytes, item->length);
        break;
    case INPUT_BURST:
    case INPUT_PASTE:
        if (types_message(tui))
            give_typed(tui);
        if (tui->mode == MODE_FOUND || (tui->mode == MODE_SEARCH && has_lines(item))) // no words to search for
            tui_end_search(tui);
        if (tui->mode == MODE_WRITE) // it is looked at where it goes
            tui->help_open = false;
        draft_pasted(&tui->draft, item->bytes, item->length);
        prompt_insert(item->bytes, item->length);
        tell_of_paste(tui, item);
        break;
    case INPUT_WHEEL_UP:
    case INPUT_WHEEL_DOWN:
        scroll(tui, item->kind == INPUT_WHEEL_UP ? -3 : 3);
        break;
    case INPUT_ESCAPE: // that a key waited for
        prompt_type("\033", 1);
        break;
    }
}
