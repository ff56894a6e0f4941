// SPDX-License-Identifier: GPL-3.0-or-later
// What leaves the screen for a while, or altogether: the editor, the bare view, the clipboard, help and the log.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/store/swap_file.h"
#include "app/term/shell.h"
#include "app/term/term.h"
#include "app/term/tui_parts.h"
#include "app/util/format.h"

enum { DRAFT_LIMIT = 16 << 20, COPY_LIMIT = 74000 }; // terminals take about 100 KB of base64

enum { NOT_FOUND = 127 }; // the status of a shell

// How $VISUAL ended; why "": well.
struct edit_end {
    char why[112];
    bool killed; // it, or the chat meanwhile: what it had written was meant to be the draft
    bool leaves; // the chat
};

// A draft, and its file.
struct edited {
    struct bytes before;
    char path[4096];
    int fd; // open where nothing else says that the file is in use
};

// Runs it on the file.
static struct edit_end run_editor(const char *path)
{
    const char *editor = getenv("VISUAL");
    if (!editor || !*editor)
        editor = getenv("EDITOR");
    if (!editor || !*editor)
        editor = "vi";
    char command[4096];
    if (snprintf(command, sizeof command, "%s \"$1\" 2>&1", editor) >= (int)sizeof command)
        return (struct edit_end){.why = "VISUAL is too long"};
    struct edit_end end = {0};
    int status = shell_run(&(struct shell_command){.text = command, .argument = path});
    if (status < 0 && errno != EINTR)
        snprintf(end.why, sizeof end.why, "%s", strerror(errno));
    if (*end.why || status == 0)
        return end;
    int number = status < 0            ? 0
                 : WIFSIGNALED(status) ? WTERMSIG(status)
                                       : WEXITSTATUS(status) - 128; // as shells say it
    end.leaves = status < 0;
    end.killed = end.leaves || (number > 0 && number <= SIGRTMAX && number != SIGINT);
    if (status > 0 && WIFEXITED(status) && WEXITSTATUS(status) == NOT_FOUND)
        snprintf(end.why, sizeof end.why, "the editor %.80s was not found", editor);
    else
        snprintf(end.why, sizeof end.why, "the editor %s", end.killed ? "was killed" : "failed");
    return end;
}

// A file of our own with that text, its name in `path`: where the next chat finds it if this one is killed, else where
// there is room for it. 0 or an errno.
static int make_file(struct edited *edited)
{
    const struct bytes *text = &edited->before;
    char *path = edited->path;
    int fd = prompt_edit(path, sizeof edited->path);
    if (fd >= 0 && files_write(fd, text->data, text->length) == 0) {
        close(fd);
        return 0;
    }
    if (fd >= 0) {
        close(fd);
        unlink(path);
    }
    fd = edited->fd = draft_file_edit_elsewhere(path, sizeof edited->path);
    int code = fd < 0 ? errno : files_write(fd, text->data, text->length);
    if (fd >= 0 && code) {
        unlink(path);
        close(fd);
    }
    return code;
}

// Without the lines' ends behind it. A NUL, which no draft can hold, becomes a line's end, for it ends names where it
// is printed. Its length.
static size_t tidy_text(struct tui *tui, struct bytes *text)
{
    if (bytes_without_zeros(text))
        tui_notice(tui, "NUL bytes of it became newlines");
    while (text->length && text->data[text->length - 1] == '\n')
        text->data[--text->length] = 0;
    return text->length;
}

// Makes it the draft.
static size_t take_text(struct tui *tui, struct bytes *text)
{
    size_t length = tidy_text(tui, text);
    tui_replace_draft(tui, length ? text->data : "");
    bytes_release(text);
    return length;
}

// The same of what nobody typed, and Enter sends: it is no command.
static size_t take_output(struct tui *tui, struct bytes *text)
{
    struct bytes typed = {0};
    size_t length = tidy_text(tui, text);
    bool fine = !length || commands_quote(&typed, text->data, length);
    tui_replace_draft(tui, fine && length ? typed.data : "");
    if (!fine)
        tui_notice(tui, "no memory for what the command printed");
    bytes_release(&typed);
    bytes_release(text);
    return length;
}

static const char *history_words(bool kept)
{
    return kept ? "the history" : "this chat's history";
}

// What the editor has written becomes the draft, or goes to the history where it failed, as :cq of vi asks for. Where
// it was killed it may have come to half of it, and where it left nothing that may be a mistake: the draft as it was is
// in the history then. False: nothing takes what is in the file.
static bool take_edited(struct tui *tui, const struct edit_end *end, const struct edited *edited, struct bytes *text)
{
    const struct bytes *before = &edited->before;
    bool empty = !tidy_text(tui, text), old = before->length && (*end->why || empty);
    if (*end->why && empty) {
        tui_notice(tui, "%s; draft unchanged", end->why);
    } else if (*end->why && !end->killed) {
        bool kept = prompt_remember_other(text->data);
        tui_notice(tui, "%s, %s has what it wrote%s; draft unchanged", end->why, kept ? "the history" : edited->path,
                   kept ? " (Up)" : "");
        return kept;
    } else {
        bool kept = !old || prompt_remember_other(before->data);
        if (!kept) // told when the chat ends
            recall_lose(&tui->unkept, before->data);
        take_text(tui, text);
        if (empty && old)
            tui_notice(tui, "the editor left nothing; %s has the draft (Up)", history_words(kept));
        else if (old)
            tui_notice(tui, "%s, the draft is what it wrote; %s has the old one (Up)", end->why, history_words(kept));
        else if (*end->why)
            tui_notice(tui, "%s, the draft is what it wrote", end->why);
    }
    return true;
}

// Also what an editor that keeps backups, as Emacs does outside of /tmp, left beside it.
static void remove_file(const char *path)
{
    char backup[4097];
    snprintf(backup, sizeof backup, "%s~", path); // Emacs' autosave has what was not saved: the next chat sees to it
    unlink(path);
    unlink(backup);
}

static bool is_same(const struct bytes *text, const struct bytes *other)
{
    return text->length == other->length && (!text->length || memcmp(text->data, other->data, text->length) == 0);
}

// What an editor left.
struct left {
    struct bytes text;
    int code;         // an errno: why there is none
    char saved[4102]; // the file beside its own that the text is from; "": none
    bool told;        // what its own had is in no history, and the file is told
};

// nano, where it is killed, writes what it has beside the file, and fails. What the file itself has is older then.
static void take_saved(struct tui *tui, struct edit_end *end, const struct edited *edited, struct left *left)
{
    struct bytes saved = {0};
    snprintf(left->saved, sizeof left->saved, "%s.save", edited->path);
    int code = *end->why && (!left->code || left->code == ENOENT) ? files_read_regular(left->saved, DRAFT_LIMIT, &saved)
                                                                  : ENOENT;
    if (code && code != ENOENT)
        recall_lose(&tui->stays, left->saved);
    if (code) {
        *left->saved = 0;
        bytes_release(&saved);
        return;
    }
    snprintf(end->why, sizeof end->why, "the editor was killed");
    end->killed = true;
    left->code = 0;
    bool older = !is_same(&left->text, &edited->before) && !is_same(&left->text, &saved) && tidy_text(tui, &left->text);
    left->told = older && !prompt_remember_other(left->text.data);
    bytes_release(&left->text);
    left->text = saved;
}

// What vim had not written only vim can read. As the chat ends it is told where nothing hides it.
static void tell_of_swap(struct tui *tui, const struct edit_end *end, const char *path)
{
    char swap[4102], words[RECALL_STAYS_SIZE];
    if (!*end->why || !swap_file_path(swap, sizeof swap, path) || !swap_file_holds(AT_FDCWD, swap))
        return;
    recall_stays_words(words, sizeof words, swap);
    if (!end->leaves)
        transcript_add(tui->chat, ENTRY_NOTICE, words, strlen(words));
    recall_lose(&tui->stays, swap);
}

// The file goes once what it has is kept elsewhere.
static void end_edit(struct tui *tui, struct edit_end *end, const struct edited *edited)
{
    const struct bytes *before = &edited->before;
    const char *path = edited->path;
    bool taken = true;
    struct left left = {0};
    left.code = files_read_regular(path, DRAFT_LIMIT, &left.text);
    take_saved(tui, end, edited, &left);
    bool same = is_same(&left.text, before);
    int code = left.code;
    if (code == ESPIPE)
        tui_notice(tui, "the editor left a pipe or device in the file's place; draft unchanged");
    else if (code == ENOENT)
        tui_notice(tui, "%s; draft unchanged", *end->why ? end->why : "the editor left no file");
    else if (code)
        tui_notice(tui, "%s: %s; it stays there", path, strerror(code));
    else if (!same)
        taken = take_edited(tui, end, edited, &left.text);
    else if (*end->why)
        tui_notice(tui, "%s; draft unchanged", end->why);
    tui_keep_draft(tui);
    if (*left.saved)
        unlink(left.saved);
    if ((!code && taken && !left.told) || code == ESPIPE)
        remove_file(path);
    else if (code != ENOENT)
        recall_lose(&tui->stays, path); // told once more in the end; without memory it was told now
    tell_of_swap(tui, end, path);
    bytes_release(&left.text);
}

void tui_edit(struct tui *tui)
{
    struct edited edited = {.fd = -1};
    struct bytes *before = &edited.before;
    struct prompt_draft draft = prompt_draft();
    int code = bytes_append(before, draft.text, draft.length) ? make_file(&edited) : ENOMEM;
    if (code) {
        tui_notice(tui, "can't make a file to edit: %s", strerror(code));
        bytes_release(before);
        return;
    }
    tui_leave(tui);
    struct edit_end end = run_editor(edited.path);
    tui_return(tui);
    end_edit(tui, &end, &edited);
    if (edited.fd >= 0)
        close(edited.fd);
    bytes_release(before);
}

void tui_shell(struct tui *tui, const char *command)
{
    struct bytes text = {0};
    tui_leave(tui);
    int status = shell_run(
        &(struct shell_command){.text = "eval \"$1\"", .argument = command, .output = &text, .most = DRAFT_LIMIT});
    int code = errno;
    tui_return(tui);
    if (status < 0 && code == EFBIG)
        tui_notice(tui, "the command printed more than %d MB, and was ended", DRAFT_LIMIT >> 20);
    else if (status < 0 && code == ENOTTY)
        tui_notice(tui, "the command needs the terminal; Ctrl-X Ctrl-E edits the draft, Ctrl-Z gives you your shell");
    else if (status < 0)
        tui_notice(tui, "%s", strerror(code));
    else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGINT)
        tui_notice(tui, "the command was stopped");
    else if (!WIFEXITED(status) || WEXITSTATUS(status))
        tui_notice(tui, WIFEXITED(status) ? "the command failed with status %d" : "the command was ended by signal %d",
                   WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    if (status < 0)
        bytes_release(&text);
    else if (!take_output(tui, &text) && status == 0)
        tui_notice(tui, "the command printed nothing");
}

static void print_bare(const struct tui *tui)
{
    fputs("\n", stdout);
    transcript_print(tui->chat, stdout);
    fputs("\n(moechat: press any key to return)", stdout);
    fflush(stdout);
}

// The key that ends the bare view, and what came with it.
struct awaited {
    struct input input; // parts it
    struct bytes came;
    size_t pushed, behind; // of those; and of them the keys behind the first
    bool over;
};

static void take_first(void *context, const struct input_item *item)
{
    struct awaited *awaited = context;
    awaited->behind += awaited->over ? item->length : 0;
    awaited->over = true;
}

// Reads what there is, up to a whole key. What is pasted is none: its first mark stays with it. False: no memory for
// it.
static bool read_awaited(struct awaited *awaited)
{
    enum { MARK = 6 };
    char block[256];
    ssize_t got = term_read(STDIN_FILENO, block, sizeof block);
    bool fine = got <= 0 || bytes_append(&awaited->came, block, (size_t)got);
    awaited->over = awaited->over || got <= 0; // gone: who reads keys next says so
    while (!awaited->over && awaited->pushed < awaited->came.length) {
        input_push(&awaited->input, awaited->came.data + awaited->pushed++, 1, term_clock_ms());
        if (awaited->input.pasting)
            awaited->behind = MARK;
        awaited->over = awaited->over || awaited->input.pasting;
    }
    if (!awaited->over && !awaited->input.n_held && !awaited->input.answer) // it was no key
        awaited->came.length = awaited->pushed = 0;
    return fine;
}

// Several characters at once are no key but text that the terminal has not marked.
static void hold_rest(struct tui *tui, struct awaited *awaited)
{
    const struct bytes *came = &awaited->came;
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    size_t key = awaited->pushed - awaited->behind - awaited->input.n_held;
    bool fine = true, character = came->length && came->data[0] != '\033';
    if (character && key == came->length && poll(&input, 1, INPUT_BURST_MS) > 0)
        fine = read_awaited(awaited);
    if (character && key < came->length)
        key = 0;
    if (!fine || (key < came->length && !bytes_append(&tui->held, came->data + key, came->length - key)))
        tui_notice(tui, "out of memory for what was typed");
}

// Waits for a key, which is read whole, with what came behind it held; or for a signal that ends the chat. False: the
// terminal has had another size since, and for a while: some cut off what stands there then.
static bool await_key(struct tui *tui)
{
    enum { WAIT_MS = 200 };
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    struct awaited awaited = {.input = {.take = take_first, .context = &awaited, .escape_ms = input_escape_ms()}};
    int rows = 0, columns = 0, now_rows = 0, now_columns = 0;
    bool changed = false, over = false, again = false, fine = true;
    term_size(&rows, &columns);
    while (!awaited.over && !over && !again && fine) {
        int before_rows = now_rows, before_columns = now_columns;
        int held = input_wait_ms(&awaited.input, term_clock_ms());
        if (poll(&input, 1, held >= 0 && held < WAIT_MS ? held : WAIT_MS) > 0)
            fine = read_awaited(&awaited);
        else
            input_tick(&awaited.input, term_clock_ms());
        for (size_t i = 0; i < TERM_STOPS; i++)
            over = over || term_signal_pending(term_stops[i]);
        if (awaited.came.length || over || !term_size(&now_rows, &now_columns))
            continue;
        changed = now_rows != rows || now_columns != columns;
        again = changed && now_rows == before_rows && now_columns == before_columns;
    }
    if (!again)
        hold_rest(tui, &awaited);
    bytes_release(&awaited.came);
    input_release(&awaited.input);
    return !again;
}

void tui_bare_view(struct tui *tui)
{
    tui_leave(tui);
    term_raw_keys(); // Ctrl-C, too, is a key: a shell that runs us as a script lives on
    print_bare(tui);
    while (!await_key(tui)) {
        fputs("\033[H\033[2J", stdout);
        print_bare(tui);
    }
    tui_return(tui); // from raw to raw: a paste that is under way would be echoed, and hold signals
}

static void base64(struct bytes *out, const unsigned char *data, size_t length)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < length; i += 3) {
        uint32_t bits = (uint32_t)data[i] << 16;
        bits |= i + 1 < length ? (uint32_t)data[i + 1] << 8 : 0;
        bits |= i + 2 < length ? data[i + 2] : 0;
        char four[4] = {digits[bits >> 18], digits[bits >> 12 & 63], i + 1 < length ? digits[bits >> 6 & 63] : '=',
                        i + 2 < length ? digits[bits & 63] : '='};
        if (!bytes_append(out, four, 4))
            return;
    }
}

void tui_copy(struct tui *tui, const char *text, size_t length)
{
    struct bytes sequence = {0};
    if (!tui->talk.settings.face.clipboard) {
        tui_notice(tui, "copying is off; --clipboard allows it");
        return;
    }
    if (!length || length > COPY_LIMIT) {
        tui_notice(tui,
                   length ? "too long for a terminal's clipboard; /export writes it to a file" : "nothing to copy");
        return;
    }
    bool fine = bytes_append(&sequence, "\033]52;c;", 7);
    base64(&sequence, (const unsigned char *)text, length);
    fine = fine && bytes_append(&sequence, "\033\\", 2);
    if (fine)
        screen_send(tui->screen, sequence.data, sequence.length);
    tui_notice(tui, fine ? "%zu byte%s copied" : "out of memory to copy %zu byte%s", length, format_s(length));
    bytes_release(&sequence);
}

// Text that lies over the chat until Esc.
static void show_over(struct tui *tui, const struct face_lines *lines)
{
    tui_end_search(tui);
    transcript_clear(tui->help);
    transcript_add(tui->help, ENTRY_NOTICE, lines->text, lines->length);
    transcript_make_table(tui->help, lines->second, lines->least);
    transcript_to_begin(tui->help);
    tui->help_open = true;
}

void tui_page(void *self, enum face_page page, const struct face_lines *lines)
{
    struct tui *tui = self;
    tui->page = page;
    show_over(tui, lines);
}

void tui_log_lines(void *self, FILE *out)
{
    tui_log_print(&((struct tui *)self)->log, out);
}
