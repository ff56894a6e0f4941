// SPDX-License-Identifier: GPL-3.0-or-later
// Writes conversations as Markdown, JSON or text.
#include "app/talk/export.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/talk/commands.h"
#include "app/talk/tree.h"
#include "app/util/json_out.h"
#include "app/view/cells.h"
#include "app/view/markdown.h"

static const char *const endings[] = {[EXPORT_MARKDOWN] = "md", [EXPORT_JSON] = "json", [EXPORT_TEXT] = "txt"};

static bool find_format(const char *name, size_t length, enum export_format *format)
{
    for (enum export_format i = EXPORT_MARKDOWN; i <= EXPORT_TEXT; i++)
        if (strlen(endings[i]) == length && strncmp(endings[i], name, length) == 0) {
            *format = i;
            return true;
        }
    return false;
}

struct export_request export_parse(const char *typed, size_t length)
{
    struct export_request request = {.format = EXPORT_MARKDOWN};
    size_t word = 0;
    while (word < length && typed[word] != ' ')
        word++;
    bool named = find_format(typed, word, &request.format);
    size_t at = named ? word : 0;
    while (at < length && typed[at] == ' ')
        at++;
    // A word with neither dot nor slash that others follow is a format's place.
    request.unknown = !named && word < length && !memchr(typed, '.', word) && !memchr(typed, '/', word);
    request.path = typed + at;
    request.path_length = length - at;
    for (size_t dot = length; !named && dot > at && typed[dot - 1] != '/'; dot--)
        if (typed[dot - 1] == '.') {
            find_format(typed + dot, length - dot, &request.format);
            break;
        }
    return request;
}

static bool add(struct bytes *out, const char *text)
{
    return bytes_append(out, text, strlen(text));
}

const char *export_speaker(enum tok_role role)
{
    static const char *const names[] = {[TOK_SYSTEM] = "System", [TOK_USER] = "You", [TOK_ASSISTANT] = "Assistant"};
    return names[role];
}

bool export_message(struct bytes *out, enum export_format format, size_t index, enum tok_role role,
                    const struct bytes *text)
{
    bool headings = format == EXPORT_MARKDOWN;
    return add(out, index ? "\n" : "") && add(out, headings ? "## " : "") && add(out, export_speaker(role)) &&
           add(out, headings ? "\n\n" : ": ") && bytes_append(out, text->data, text->length) && add(out, "\n");
}

static void put_number(struct json_out *out, const char *key, int64_t number)
{
    if (number == PART_NONE)
        json_out_null(out, key);
    else
        json_out_number(out, key, number);
}

// What is not fed has no ids, and what was never fed no part and no time either.
static void add_turn(struct json_out *out, const struct chat_turn *turn, bool damaged)
{
    const struct part_made *made = &turn->made;
    json_out_open(out, NULL, '{');
    put_number(out, "part", turn->number);
    put_number(out, "after", turn->after);
    json_out_string(out, "role", part_role_name(turn->role));
    json_out_text(out, "text", turn->text.data ? turn->text.data : "", turn->text.length);
    put_number(out, "time", made->time ? (int64_t)made->time : PART_NONE);
    json_out_open(out, "ids", '[');
    for (size_t n = 0; n < turn->ids.count; n++)
        json_out_number(out, NULL, turn->ids.ids[n]);
    json_out_close(out, ']');
    if (turn->role == TOK_ASSISTANT) {
        json_out_whole(out, "seed", made->sampling.seed);
        json_out_float(out, "temp", made->sampling.temperature);
        json_out_string(out, "stop_reason", made->stop);
    }
    if (damaged)
        json_out_flag(out, "damaged", true);
    json_out_close(out, '}');
}

void export_turns(struct json_out *out, const char *key, const struct chat_turn *turns, size_t n_turns)
{
    json_out_open(out, key, '[');
    for (size_t i = 0; i < n_turns; i++)
        add_turn(out, &turns[i], false);
    json_out_close(out, ']');
}

void export_parts(struct json_out *out, const char *key, const struct part *parts, size_t n_parts)
{
    json_out_open(out, key, '[');
    for (size_t i = 0; i < n_parts; i++) {
        const struct part *part = &parts[i];
        struct chat_turn turn = {.role = part->role,
                                 .text = part->text, // borrowed
                                 .ids = part->ids,
                                 .number = part->number,
                                 .after = part->after,
                                 .made = part->made};
        add_turn(out, &turn, part->lost);
    }
    json_out_close(out, ']');
}

void export_open(struct json_out *out, const struct export_head *head)
{
    json_out_open(out, NULL, '{');
    json_out_string(out, "name", head->name);
    json_out_string(out, "model", head->model);
}

static bool export_json(struct bytes *line, const struct export_head *head, const struct chat *chat)
{
    struct json_out out = {0};
    export_open(&out, head);
    export_turns(&out, "messages", chat->turns, chat->n_turns);
    export_turns(&out, "branches", chat->others, chat->n_others);
    json_out_close(&out, '}');
    return json_out_render(&out, line);
}

static int by_number(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

// Of other branches' turns those that say something else than was said, by what they follow, in their order: looked for
// once, for there may be thousands behind one.
struct follower {
    int64_t said; // by the turn before it
    const struct chat_turn *turn;
};
struct followers {
    struct follower *items;
    size_t n;
    int64_t *own; // what the conversation says, ascending
    size_t n_own;
};

// Is what this turn says in the conversation?
static bool is_own(const struct followers *found, const struct chat_turn *turn)
{
    return bsearch(&turn->said, found->own, found->n_own, sizeof *found->own, by_number);
}

static int by_what_was_said(const void *a, const void *b)
{
    const struct follower *x = a, *y = b;
    if (x->said != y->said)
        return x->said < y->said ? -1 : 1;
    return x->turn < y->turn ? -1 : x->turn > y->turn;
}

static bool find_followers(const struct chat *chat, struct followers *found)
{
    *found = (struct followers){.items = calloc(chat->n_others + 1, sizeof *found->items),
                                .own = calloc(chat->n_turns + 1, sizeof *found->own)};
    if (!found->items || !found->own)
        return false;
    for (size_t i = 0; i < chat->n_turns; i++)
        found->own[found->n_own++] = chat->turns[i].said;
    qsort(found->own, found->n_own, sizeof *found->own, by_number);
    for (size_t i = 0; i < chat->n_others; i++) {
        const struct chat_turn *turn = &chat->others[i], *before = chat_find(chat, turn->after);
        if (before && chat_is_first(chat, turn) && !is_own(found, turn))
            found->items[found->n++] = (struct follower){before->said, turn};
    }
    if (found->n)
        qsort(found->items, found->n, sizeof *found->items, by_what_was_said);
    return true;
}

// The first of them that follows that one.
static const struct chat_turn *first_behind(const struct followers *all, const struct chat_turn *turn)
{
    size_t low = 0, high = all->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (all->items[middle].said < turn->said)
            low = middle + 1;
        else
            high = middle;
    }
    return low < all->n && all->items[low].said == turn->said ? all->items[low].turn : NULL;
}

static bool is_blank(const struct bytes *text)
{
    size_t at = 0;
    while (at < text->length && isspace((unsigned char)text->data[at]))
        at++;
    return at == text->length;
}

// Says where a branch leaves the others.
static bool export_fork(struct bytes *out, enum export_format format, const struct chat_turn *before)
{
    enum { WORDS = 60 };
    struct bytes words = {0};
    bool fine = add(out, format == EXPORT_MARKDOWN ? "\n# " : "\n--- ");
    if (!before || before->role == TOK_SYSTEM)
        return fine && add(out, "Another beginning\n");
    fine = fine && (tree_words(&words, &before->text, TREE_WORDS) || is_blank(&before->text));
    size_t length = cells_fitting(words.data ? words.data : "", words.length, WORDS);
    fine = fine && add(out, "Another branch, after \"") && bytes_append(out, words.data ? words.data : "", length) &&
           add(out, length < words.length ? "...\"\n" : "\"\n");
    bytes_release(&words);
    return fine;
}

// What is of other branches, each piece of it once, from where it leaves what came before.
static bool export_others(struct bytes *out, enum export_format format, const struct chat *chat)
{
    struct followers followers;
    bool fine = find_followers(chat, &followers);
    for (size_t i = 0; i < chat->n_others && fine; i++) {
        const struct chat_turn *turn = &chat->others[i], *before = chat_find(chat, turn->after);
        if (!chat_is_first(chat, turn) || is_own(&followers, turn)) // it is there already
            continue;
        if (before && !is_own(&followers, before) && first_behind(&followers, before) == turn) // goes on what was begun
            continue;
        fine = export_fork(out, format, before);
        for (; turn && fine; turn = first_behind(&followers, turn))
            fine = export_message(out, format, 1, turn->role, &turn->text);
    }
    free(followers.items);
    free(followers.own);
    return fine;
}

static bool export_said(struct bytes *out, enum export_format format, const struct export_head *head,
                        const struct chat *chat)
{
    bool fine = true;
    if (format == EXPORT_JSON)
        return export_json(out, head, chat);
    for (size_t i = 0; i < chat->n_turns && fine; i++)
        fine = export_message(out, format, i, chat->turns[i].role, &chat->turns[i].text);
    return fine && export_others(out, format, chat);
}

bool export_chat(struct bytes *out, enum export_format format, const struct export_head *head, const struct chat *chat)
{
    struct chat said;
    if (!chat_system_waits(chat))
        return export_said(out, format, head, chat);
    if (!chat_as_said(chat, &said))
        return false;
    bool fine = export_said(out, format, head, &said);
    chat_forget_said(&said);
    return fine;
}

char *export_path(const struct export_request *request, const char *name)
{
    const char *home = getenv("HOME"), *path = request->path;
    size_t length = request->path_length, size = length + strlen(name) + (home ? strlen(home) : 0) + 16;
    char *out = malloc(size);
    if (!out)
        return NULL;
    if (length == 0)
        snprintf(out, size, "%s.%s", *name ? name : "conversation", endings[request->format]);
    else if (length > 1 && path[0] == '~' && path[1] == '/' && home)
        snprintf(out, size, "%s%.*s", home, (int)length - 1, path + 1);
    else
        snprintf(out, size, "%.*s", (int)length, path);
    return out;
}

// Into a pipe that somebody reads, as long as they do. ETIMEDOUT: they no longer do.
static int write_pipe(int fd, const struct bytes *text)
{
    enum { PATIENCE_MS = 2000 };
    for (size_t done = 0; done < text->length;) {
        ssize_t wrote = write(fd, text->data + done, text->length - done);
        if (wrote > 0)
            done += (size_t)wrote;
        else if (wrote < 0 && errno != EINTR && errno != EAGAIN)
            return errno;
        else if (wrote < 0 && errno == EAGAIN &&
                 poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, PATIENCE_MS) == 0)
            return ETIMEDOUT;
    }
    return 0;
}

int export_write(const char *path, const struct bytes *text, bool replace)
{
    struct new_file file;
    struct stat status;
    if (!replace && stat(path, &status) == 0 && S_ISREG(status.st_mode))
        return EEXIST;
    if (files_is_pipe(path)) {
        int reader = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC), failed = reader < 0 ? errno : 0;
        failed = failed ? failed : write_pipe(reader, text);
        if (reader >= 0)
            close(reader);
        return failed;
    }
    int code = files_create(&file, path);
    if (code)
        return code;
    code = files_write_at(&file, text->data, text->length, 0);
    if (code == 0)
        return files_commit(&file);
    files_discard(&file);
    return code;
}

bool export_pick(const struct chat *chat, const char *which, struct bytes *piece, const char **wrong)
{
    size_t n = 1, code = 0, at = chat->n_turns;
    bool block = strncmp(which, "code", 4) == 0 && (which[4] == 0 || which[4] == ' ');
    *wrong = "/copy takes N for the Nth last answer, or code K for a code block.";
    if (!commands_count(block ? which + 4 + strspn(which + 4, " ") : which, 1, block ? &code : &n))
        return false;
    *wrong = "No such answer to copy.";
    while (at > 0 && n > 0)
        n -= chat->turns[--at].role == TOK_ASSISTANT;
    if (n > 0)
        return false;
    struct bytes thought = {0}, said = {0};
    bool fine = chat_part_answer(&chat->turns[at].text, &thought, &said);
    const char *found = said.data;
    size_t length = said.length;
    *wrong = "The last answer has no such code block.";
    if (fine && block && !markdown_code_block(said.data, said.length, code, &found, &length))
        goto release;
    *wrong = "Out of memory.";
    fine = fine && bytes_append(piece, found, length);
    if (fine)
        *wrong = NULL;
release:
    bytes_release(&thought);
    bytes_release(&said);
    return *wrong == NULL;
}
