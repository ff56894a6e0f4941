// SPDX-License-Identifier: GPL-3.0-or-later
// Which parts of a saved conversation say the same thing that was said once. A template that leaves out the thinking of
// earlier answers has an exchange fed otherwise once another message follows, and where a branch stands behind it as it
// was, both stay on the disk. Parts say so themselves (part_made.anew); those of builds that did not write it are found
// by one text, one time and one place, and other ids.
#include "app/talk/chat_parts.h"
#include "app/talk/firsts.h"

#include <stdlib.h>
#include <string.h>

struct search {
    struct chat_turn **turns; // ascending by number
    size_t n_turns;
    int64_t *before;      // of each, once it was looked at: what was said before it, by that one's `said`
    struct firsts places; // turns that say something, alike where they say the same in the same place at the same time
    struct firsts labels; // turns, alike where they are said as the same
    bool *otherwise;      // it was found with other ids, too
};

static struct chat_turn *with_number(const struct search *search, int64_t number)
{
    size_t low = 0, high = search->n_turns;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (search->turns[middle]->number == number)
            return search->turns[middle];
        if (search->turns[middle]->number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static int64_t said_before(const struct search *search, const struct chat_turn *turn)
{
    const struct chat_turn *before = turn->after == PART_NONE ? NULL : with_number(search, turn->after);
    return before ? before->said : PART_NONE;
}

static int by_number(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

// But for when.
static int by_words(const struct search *search, size_t a, size_t b)
{
    const struct chat_turn *x = search->turns[a], *y = search->turns[b];
    int order = by_number(x->role, y->role);
    if (!order)
        order = by_number(search->before[a], search->before[b]);
    if (!order)
        order = (x->text.length > y->text.length) - (x->text.length < y->text.length);
    return order || !x->text.length ? order : memcmp(x->text.data, y->text.data, x->text.length);
}

static int by_place(const void *context, size_t a, size_t b)
{
    const struct search *search = context;
    uint64_t x = search->turns[a]->made.time, y = search->turns[b]->made.time;
    return x == y ? by_words(search, a, b) : x < y ? -1 : 1;
}

// As one says of itself. When what is damaged on the disk was said nobody knows: the words in its place have no time.
static bool can_be_same(const struct search *search, size_t n, size_t first)
{
    uint64_t time = search->turns[n]->made.time, then = search->turns[first]->made.time;
    return (time == then || !then) && by_words(search, n, first) == 0;
}

static int by_label(const void *context, size_t a, size_t b)
{
    const struct search *search = context;
    return by_number(search->turns[a]->said, search->turns[b]->said);
}

static bool same_ids(const struct tok_ids *a, const struct tok_ids *b)
{
    return a->count == b->count && (!a->count || memcmp(a->ids, b->ids, a->count * sizeof *a->ids) == 0);
}

static void look_up(struct search *search, size_t n)
{
    struct chat_turn *turn = search->turns[n];
    size_t first = firsts_of(&search->places, n);
    if (first == n)
        return;
    // The same ids alone: it was typed twice within a second.
    if (search->otherwise[first] || !same_ids(&search->turns[first]->ids, &turn->ids)) {
        search->otherwise[first] = true;
        turn->said = search->turns[first]->said;
    }
}

// What says that it was said before counts where it says the same in the same place: so none is its own predecessor.
static void check(struct search *search, size_t n)
{
    struct chat_turn *turn = search->turns[n];
    const struct chat_turn *there = with_number(search, turn->said);
    if (!there || there->said == turn->said) { // else that one is another itself
        size_t first = firsts_of(&search->labels, n);
        if (first == n || can_be_same(search, n, first))
            return;
    }
    turn->said = turn->number;
    firsts_of(&search->labels, n);
}

static bool begin(struct search *search, size_t n)
{
    search->places = (struct firsts){.compare = by_place, .context = search};
    search->labels = (struct firsts){.compare = by_label, .context = search};
    search->turns = calloc(n + 1, sizeof(void *));
    search->before = calloc(n + 1, sizeof *search->before);
    search->otherwise = calloc(n + 1, sizeof *search->otherwise);
    return firsts_begin(&search->places, n) && firsts_begin(&search->labels, n) && search->turns && search->before &&
           search->otherwise;
}

bool chat_find_same(struct chat *chat)
{
    size_t n = chat->n_turns + chat->n_others, i = 0, k = 0;
    struct search search = {0};
    bool fine = begin(&search, n);
    for (; fine && search.n_turns < n; search.n_turns++)
        search.turns[search.n_turns] =
            k == chat->n_others || (i < chat->n_turns && chat->turns[i].number < chat->others[k].number)
                ? &chat->turns[i++]
                : &chat->others[k++];
    for (size_t at = 0; fine && at < n; at++) {
        struct chat_turn *turn = search.turns[at];
        if (turn->number == PART_NONE)
            continue;
        search.before[at] = said_before(&search, turn);
        // Else nothing is known of when it was said; and two answers may be alike to the second.
        if (turn->role == TOK_USER && turn->made.time && turn->said == turn->number)
            look_up(&search, at);
        check(&search, at);
    }
    free(search.turns);
    free(search.before);
    free(search.otherwise);
    firsts_release(&search.places);
    firsts_release(&search.labels);
    return fine;
}
