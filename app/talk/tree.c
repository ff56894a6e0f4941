// SPDX-License-Identifier: GPL-3.0-or-later
// Prints the branches of a conversation.
#include "app/talk/tree.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "app/util/sanitize.h"
#include "app/view/cells.h"
#include "app/talk/export.h"

bool tree_words(struct bytes *line, const struct bytes *text)
{
    enum { MOST = 400 };
    size_t begin = line->length, at = 0;
    bool fine = true;
    while (fine && at < text->length && line->length - begin < MOST) {
        size_t word = at;
        while (word < text->length && isspace((unsigned char)text->data[word]))
            word++;
        for (at = word; at < text->length && !isspace((unsigned char)text->data[at]) && at - word < MOST;)
            at++;
        fine = at == word || ((line->length == begin || bytes_append(line, " ", 1)) &&
                              bytes_append(line, text->data + word, at - word));
    }
    return fine && line->length > begin;
}

void tree_print_words(FILE *out, const struct bytes *line, int columns)
{
    char shown[512], *end = shown;
    struct sanitize state = {0};
    for (size_t i = 0; i < line->length && end + SANITIZE_ROOM(1) < shown + sizeof shown; i++)
        end += sanitize_push(&state, line->data + i, 1, end);
    end += sanitize_flush(&state, end);
    size_t length = (size_t)(end - shown);
    bool whole = cells_width(shown, length) <= columns;
    fwrite(shown, 1, whole ? length : cells_fitting(shown, length, columns - 3), out);
    fputs(whole ? "\n" : "...\n", out);
}

// Both lists of a chat, ascending by number.
struct walk {
    size_t i, k;
    bool own; // the last one is of what is under way
};

static const struct chat_turn *next_turn(const struct chat *chat, struct walk *walk)
{
    const struct chat_turn *turn = NULL;
    while ((!turn || turn->number == PART_NONE) && (walk->i < chat->n_turns || walk->k < chat->n_others)) {
        walk->own = walk->k == chat->n_others ||
                    (walk->i < chat->n_turns && chat->turns[walk->i].number < chat->others[walk->k].number);
        turn = walk->own ? &chat->turns[walk->i++] : &chat->others[walk->k++];
    }
    return turn && turn->number != PART_NONE ? turn : NULL;
}

int64_t tree_turn(const struct chat *chat, size_t number)
{
    struct walk walk = {0};
    const struct chat_turn *turn = NULL;
    for (size_t n = 0; n < number && (n == 0 || turn); n++)
        turn = next_turn(chat, &walk);
    return turn ? turn->number : PART_NONE;
}

// A turn and what it stands behind: the turn before it, or nothing.
struct node {
    const struct chat_turn *turn;
    const struct node *before;
    bool own; // of what is under way
};

struct tree {
    FILE *out;
    int columns, wide; // of a line; of the largest number
    struct node *nodes;
    size_t n_nodes;
};

static const struct node *find(const struct tree *tree, int64_t number)
{
    size_t low = 0, high = tree->n_nodes;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (tree->nodes[middle].turn->number == number)
            return &tree->nodes[middle];
        if (tree->nodes[middle].turn->number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

// All turns, and what each stands behind.
static bool collect(struct tree *tree, const struct chat *chat)
{
    struct walk walk = {0};
    const struct chat_turn *turn;
    tree->nodes = calloc(chat->n_turns + chat->n_others + 1, sizeof *tree->nodes);
    while (tree->nodes && (turn = next_turn(chat, &walk)))
        tree->nodes[tree->n_nodes++] = (struct node){.turn = turn, .own = walk.own};
    for (size_t i = 0; i < tree->n_nodes; i++)
        tree->nodes[i].before = find(tree, tree->nodes[i].turn->after);
    return tree->nodes;
}

static void print_node(const struct tree *tree, const struct node *node, int depth)
{
    struct bytes thought = {0}, said = {0}, line = {0};
    const struct chat_turn *turn = node->turn;
    bool answer = turn->role == TOK_ASSISTANT && chat_part_answer(&turn->text, &thought, &said) && said.length;
    int inset = 2 * depth < tree->columns / 2 ? 2 * depth : tree->columns / 2;
    int used = fprintf(tree->out, "%s%*zu  %*s%s: ", node->own ? "* " : "  ", tree->wide,
                       (size_t)(node - tree->nodes) + 1, inset, "", export_speaker(turn->role));
    if (tree_words(&line, answer ? &said : &turn->text))
        tree_print_words(tree->out, &line, tree->columns - used);
    else
        fputc('\n', tree->out);
    bytes_release(&thought);
    bytes_release(&said);
    bytes_release(&line);
}

// What follows a turn, or nothing: one way on in its column, several set in.
static void print_behind(const struct tree *tree, const struct node *before, int depth)
{
    for (;;) {
        const struct node *only = NULL;
        size_t n = 0;
        for (size_t i = 0; i < tree->n_nodes; i++) {
            const struct node *node = &tree->nodes[i];
            bool behind = node->before == before;
            only = behind ? node : only;
            n += behind;
        }
        if (n == 0)
            return;
        for (size_t i = 0; i < tree->n_nodes && n > 1; i++) {
            const struct node *node = &tree->nodes[i];
            if (node->before != before)
                continue;
            print_node(tree, node, depth + 1);
            print_behind(tree, node, depth + 1);
        }
        if (n > 1)
            return;
        print_node(tree, only, depth);
        before = only;
    }
}

bool tree_print(FILE *out, const struct chat *chat, int columns)
{
    struct tree tree = {.out = out, .columns = columns};
    bool fine = collect(&tree, chat);
    for (size_t most = tree.n_nodes; most; most /= 10)
        tree.wide++;
    if (fine)
        print_behind(&tree, NULL, 0);
    free(tree.nodes);
    return fine;
}
