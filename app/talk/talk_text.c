// SPDX-License-Identifier: GPL-3.0-or-later
// The commands about texts: /file, /copy and /export; the heat map as lines, and /inspect.
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "app/util/format.h"
#include "app/view/cells.h"
#include "app/talk/export.h"
#include "app/figures/figures.h"
#include "app/view/heat.h"
#include "app/view/inspect.h"
#include "app/talk/talk_parts.h"

enum { FILE_MOST = 1 << 20 };

// The words, an empty line and the file's text. 0 or an errno.
static int compose(struct bytes *message, const char *path, const struct line *words)
{
    struct bytes text = {0};
    int code = files_read_regular(path, FILE_MOST, &text);
    bool fine = code == 0 && bytes_append(message, words->text, words->length) &&
                bytes_append(message, "\n\n", words->length ? 2 : 0) && bytes_append(message, text.data, text.length);
    while (fine && message->length && message->data[message->length - 1] == '\n')
        message->data[--message->length] = 0;
    bytes_release(&text);
    return code ? code : fine ? 0 : ENOMEM;
}

void talk_do_file(struct talk *talk, const struct line *line)
{
    struct line named, words;
    struct bytes message = {0};
    if (!commands_file(line, &named, &words)) {
        talk_refuse(talk, "/file takes a path, in double quotes if it has spaces.");
        return;
    }
    char *path = export_path(&(struct export_request){.path = named.text, .path_length = named.length}, "");
    int code = path ? compose(&message, path, &words) : ENOMEM;
    if (code == 0 && message.length) {
        talk->face->message(
            talk->self,
            &(struct face_message){.role = TOK_USER, .text = message.data, .length = message.length, .typed = true});
        talk_send(talk, chat_request(&talk->chat, message.data, message.length));
    } else {
        talk_refuse(talk, "Not sent: %s%s%s.", path ? path : "the path", code && code != EFBIG ? ": " : "",
                    code == 0        ? " is empty"
                    : code == EFBIG  ? " is larger than 1 MiB"
                    : code == ESPIPE ? "it is no regular file"
                                     : strerror(code));
    }
    bytes_release(&message);
    free(path);
}

void talk_do_copy(struct talk *talk, const struct line *line)
{
    struct bytes piece = {0};
    const char *wrong;
    if (!export_pick(&talk->chat, talk_argument(line).text, &piece, &wrong))
        talk_refuse(talk, "%s", wrong);
    else if (talk->face->copy)
        talk->face->copy(talk->self, piece.data, piece.length);
    else
        talk_refuse(talk, "Copying needs the full screen; /export writes the conversation to a file.");
    bytes_release(&piece);
}

static void write_export(struct talk *talk, const struct export_request *request, const char *path)
{
    struct bytes text = {0};
    struct export_head head = {.name = talk->session, .model = talk->info.name};
    bool again = talk->export_asked.data && strcmp(talk->export_asked.data, path) == 0;
    if (!export_chat(&text, request->format, &head, &talk->chat)) {
        talk_fail(talk, "out of memory");
        goto release;
    }
    int code = export_write(path, &text, again);
    talk->export_asked.length = 0;
    bool noted = bytes_append(&talk->export_asked, code == EEXIST ? path : "", code == EEXIST ? strlen(path) + 1 : 1);
    if (code == EEXIST)
        talk_refuse(talk, "%s exists already%s.", path, noted ? "; repeat the command to replace it" : "");
    else if (code)
        talk_fail(talk, "cannot write %s: %s", path,
                  code == ENXIO       ? "nobody reads that pipe"
                  : code == ETIMEDOUT ? "the reader of that pipe has stopped reading"
                                      : strerror(code));
    else
        talk_say(talk, "Wrote %zu bytes to %s.", text.length, path);
release:
    bytes_release(&text);
}

void talk_do_export(struct talk *talk, const struct line *line)
{
    struct export_request request = export_parse(line->text, line->length);
    if (!chat_messages(&talk->chat)) {
        talk_refuse(talk, talk->chat.n_others ? "Nothing to export here; /tree lists what was said elsewhere."
                                              : "Nothing to export yet.");
        return;
    }
    if (request.path_length == 1 && *request.path == '-') { // elsewhere that is the standard output, here the screen's
        talk_refuse(talk, "/export writes a file; ./- is one of that name, and moechat sessions export NAME prints.");
        return;
    }
    if (request.unknown) {
        talk_refuse(talk, "No format \"%.*s\"; md, json and txt are.", (int)strcspn(line->text, " "), line->text);
        return;
    }
    char *path = export_path(&request, talk->session);
    if (path)
        write_export(talk, &request, path);
    else
        talk_fail(talk, "out of memory");
    free(path);
}

static void print_heat(FILE *out, const struct figures *figures)
{
    enum { COLUMNS = 80, MOST_ROWS = 36 };
    const struct moe_telemetry *turn = figures->last;
    struct cells cells = {0};
    char row[CELLS_TEXT_ROOM(COLUMNS)];
    struct heat_figures heat = {.uses = figures->heat,
                                .tiers = figures->tiers,
                                .ascii = true, // for screen readers, pipes and dumb terminals
                                .n_layers = turn ? turn->n_moe_layers : 0,
                                .n_experts = turn ? turn->n_routed_experts : 0,
                                .first_layer = turn ? turn->first_moe_layer : 0};
    int rows = heat_rows(&heat) < MOST_ROWS ? heat_rows(&heat) : MOST_ROWS;
    if (!cells_resize(&cells, rows, COLUMNS))
        return;
    heat_draw(&cells, &heat);
    for (int i = 0; i < rows; i++) {
        cells_text(&cells, i, row, sizeof row);
        fprintf(out, "%s\n", row);
    }
    cells_release(&cells);
}

void talk_do_heat(struct talk *talk, const struct line *line)
{
    struct figures figures = {0};
    struct talk_lines lines;
    (void)line;
    if (talk->face->heat)
        talk->face->heat(talk->self);
    else if (!worker_figures(talk->worker, &figures))
        talk_say(talk, "No experts used yet.");
    else if (talk_lines_begin(talk, &lines)) {
        print_heat(lines.out, &figures);
        talk_lines_show(talk, &lines);
    }
    figures_release(&figures);
}

static size_t token_text(void *context, int32_t id, const char **bytes)
{
    return worker_bytes(context, id, bytes);
}

static void print_slowest(struct talk *talk, struct inspect *inspect)
{
    struct usual usual;
    uint32_t numbers[STEPS_SLOWEST], count;
    struct step_token tokens[STEPS_SLOWEST] = {{0}};
    struct inspect_slow slowest[STEPS_SLOWEST];
    int n = 0;
    worker_usual(talk->worker, &usual, numbers);
    for (int i = 0; i < STEPS_SLOWEST; i++) {
        bool there = numbers[i] && worker_inspect(talk->worker, numbers[i], &tokens[i], &count);
        if (there && tokens[i].step)
            slowest[n++] = (struct inspect_slow){numbers[i], tokens[i].step};
    }
    inspect_slowest(inspect, &usual, slowest, n);
    for (int i = 0; i < STEPS_SLOWEST; i++)
        free(tokens[i].step);
}

static void print_tokens(struct talk *talk, struct inspect *inspect, uint32_t count)
{
    struct step_token token;
    for (uint32_t n = 1; n <= count; n++) {
        if (!worker_inspect(talk->worker, n, &token, &count)) // too long ago
            continue;
        inspect_list(inspect, n, &token);
        free(token.step);
    }
    print_slowest(talk, inspect);
    fputs("\nNumber, text and probability; /inspect N shows more of token N, and why it was slow.\n", inspect->out);
}

static void print_token(struct talk *talk, struct inspect *inspect, struct inspect_number at,
                        const struct step_token *token)
{
    struct usual usual;
    uint32_t slowest[STEPS_SLOWEST];
    worker_usual(talk->worker, &usual, slowest);
    inspect_token(inspect, at, token, &usual);
}

// Which answer it is, where another one is shown.
static void print_whose(const struct talk *talk, FILE *out)
{
    const struct chat *chat = &talk->chat;
    if (!talk_left_figures(talk))
        return;
    struct chat_rank rank = chat_rank_of(chat, talk->figures_of);
    if (rank.count > 1)
        fprintf(out, "Tokens of answer %zu of %zu, the last that was made, which is not the one shown:\n",
                rank.index + 1, rank.count);
    else
        fputs("Tokens of the last answer that was made, which is no longer in the conversation:\n", out);
}

void talk_do_inspect(struct talk *talk, const struct line *line)
{
    struct step_token token = {0};
    struct talk_lines lines;
    uint32_t count = 0;
    size_t n = 0;
    bool counted = commands_count(talk_argument(line).text, 0, &n), there = false;
    if (n > 0 && n <= UINT32_MAX)
        there = worker_inspect(talk->worker, (uint32_t)n, &token, &count);
    else
        worker_inspect(talk->worker, 0, &token, &count);
    if (count == 0 || !counted || (n > 0 && !there)) {
        char tokens[FORMAT_SIZE];
        talk_refuse(talk,
                    count == 0  ? "No answer to inspect yet: /inspect is about the last one here."
                    : !counted  ? "/inspect takes the number of a token; without one it lists them."
                    : n > count ? "The last answer has %s."
                                : "That one is too long ago; the last answer has %s.",
                    format_tokens(tokens, sizeof tokens, count, 0));
        return;
    }
    if (talk_lines_begin(talk, &lines)) {
        struct inspect inspect = {
            .out = lines.out, .text = token_text, .context = talk->worker, .columns = talk->face->columns(talk->self)};
        print_whose(talk, lines.out);
        if (there)
            print_token(talk, &inspect, (struct inspect_number){(uint32_t)n, count}, &token);
        else
            print_tokens(talk, &inspect, count);
        talk_lines_tokens(talk, &lines);
    }
    free(token.step);
}
