// SPDX-License-Identifier: GPL-3.0-or-later
// Prints the branches of a conversation.
#include "app/talk/tree.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "app/util/report.h"
#include "app/util/sanitize.h"
#include "app/view/cells.h"
#include "app/talk/export.h"
#include "app/talk/firsts.h"

// Not in the middle of a character.
static void cut_words(struct bytes *line, size_t length)
{
    if (line->length <= length)
        return;
    while (length > 0 && ((unsigned char)line->data[length] & 0xC0) == 0x80)
        length--;
    line->length = length;
    line->data[length] = 0;
}

bool tree_words(struct bytes *line, const struct bytes *text, size_t most)
{
    size_t begin = line->length, at = 0;
    bool fine = true;
    while (fine && at < text->length && line->length - begin < most) {
        size_t word = at;
        while (word < text->length && isspace((unsigned char)text->data[word]))
            word++;
        for (at = word; at < text->length && !isspace((unsigned char)text->data[at]) && at - word <= most;)
            at++;
        fine = at == word || ((line->length == begin || bytes_append(line, " ", 1)) &&
                              bytes_append(line, text->data + word, at - word));
    }
    if (line->length - begin > most)
        cut_words(line, begin + most);
    return fine && line->length > begin;
}

void tree_print_words(FILE *out, const struct bytes *line, int columns)
{
    char shown[2 * TREE_WORDS], *end = shown;
    struct sanitize state = {0};
    if (!columns) {
        report_text(out, line->data, line->length);
        fputc('\n', out);
        return;
    }
    for (size_t i = 0; i < line->length && end + SANITIZE_ROOM(1) < shown + sizeof shown; i++)
        end += sanitize_push(&state, line->data + i, 1, end);
    end += sanitize_flush(&state, end);
    size_t length = (size_t)(end - shown);
    bool whole = cells_width(shown, length) <= columns;
    fwrite(shown, 1, whole ? length : cells_fitting(shown, length, columns > 3 ? columns - 3 : 0), out);
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

// A turn and what it stands behind: the turn before it, or nothing.
struct node {
    const struct chat_turn *turn;
    struct node *before, *first, *next; // what follows it: the first, and what follows that one's place, too
    size_t n_behind, depth;
    size_t number;     // as it is listed; 0: what it says is, by another node
    struct node *same; // that one, else itself
    bool own;          // of what is under way
};

struct tree {
    FILE *out;
    int columns, wide; // of a line; of the largest number
    struct node *nodes;
    size_t n_nodes, n_listed;
    struct node root; // before all
};

static struct node *find(const struct tree *tree, int64_t number)
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

static int by_said(const void *context, size_t a, size_t b)
{
    const struct node *nodes = context;
    return (nodes[a].turn->said > nodes[b].turn->said) - (nodes[a].turn->said < nodes[b].turn->said);
}

// All turns, and what each stands behind.
static bool collect(struct tree *tree, const struct chat *chat)
{
    struct walk walk = {0};
    const struct chat_turn *turn;
    size_t n = chat->n_turns + chat->n_others;
    tree->nodes = calloc(n + 1, sizeof *tree->nodes);
    struct firsts firsts = {.compare = by_said, .context = tree->nodes};
    bool fine = firsts_begin(&firsts, n) && tree->nodes;
    while (fine && (turn = next_turn(chat, &walk)))
        tree->nodes[tree->n_nodes++] = (struct node){.turn = turn, .own = walk.own};
    for (size_t i = 0; i < tree->n_nodes; i++) {
        struct node *node = &tree->nodes[i];
        node->same = &tree->nodes[firsts_of(&firsts, i)];
        node->number = node->same == node ? ++tree->n_listed : 0;
        node->same->own = node->same->own || node->own;
    }
    for (size_t i = tree->n_nodes; i > 0; i--) {
        struct node *node = &tree->nodes[i - 1], *before = find(tree, node->turn->after);
        if (!node->number)
            continue;
        node->before = before ? before->same : &tree->root;
        node->next = node->before->first;
        node->before->first = node;
        node->before->n_behind++;
    }
    firsts_release(&firsts);
    return fine;
}

int64_t tree_turn(const struct chat *chat, size_t number)
{
    struct tree tree = {0};
    int64_t found = PART_NONE;
    collect(&tree, chat);
    for (size_t i = 0; i < tree.n_nodes; i++)
        if (number && tree.nodes[i].number == number)
            found = tree.nodes[i].turn->number;
    free(tree.nodes);
    return found;
}

static void print_node(const struct tree *tree, const struct node *node)
{
    enum { MOST_INSET = 100 };
    struct bytes thought = {0}, said = {0}, line = {0};
    const struct chat_turn *turn = node->turn;
    bool answer = turn->role == TOK_ASSISTANT && chat_part_answer(&turn->text, &thought, &said) &&
                  (said.length || !thought.length);
    int most = tree->columns ? tree->columns / 2 : MOST_INSET;
    int inset = 2 * node->depth < (size_t)most ? (int)(2 * node->depth) : most;
    int used = fprintf(tree->out, "%s%*zu  %*s%s: ", node->own ? "* " : "  ", tree->wide, node->number, inset, "",
                       export_speaker(turn->role));
    int left = !tree->columns ? 0 : tree->columns > used ? tree->columns - used : 1;
    if (tree_words(&line, answer ? &said : &turn->text, left ? TREE_WORDS : SIZE_MAX))
        tree_print_words(tree->out, &line, left);
    else
        fputc('\n', tree->out);
    bytes_release(&thought);
    bytes_release(&said);
    bytes_release(&line);
}

// What follows a node, else what is next to it or to what it follows.
static struct node *next_node(struct node *node)
{
    if (node->first)
        return node->first;
    while (node && !node->next)
        node = node->before;
    return node ? node->next : NULL;
}

bool tree_print(FILE *out, const struct chat *chat, int columns)
{
    struct tree tree = {.out = out, .columns = columns};
    bool fine = collect(&tree, chat);
    for (size_t most = tree.n_listed; most; most /= 10)
        tree.wide++;
    for (struct node *node = fine ? tree.root.first : NULL; node; node = next_node(node)) {
        node->depth = node->before->depth + (node->before->n_behind > 1); // one way on stays in its column
        print_node(&tree, node);
    }
    free(tree.nodes);
    return fine;
}
