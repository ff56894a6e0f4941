// SPDX-License-Identifier: GPL-3.0-or-later
// Which parts of a saved conversation say the same thing that was said once. A template that leaves out the thinking of
// earlier answers has an exchange fed otherwise once another message follows, and where a branch stands behind it as it
// was, both stay on the disk. Parts say so themselves (part_made.anew); those of builds that did not write it are found
// by one text, one time and one place, and other ids.
#include "app/talk/chat_parts.h"

#include <stdlib.h>
#include <string.h>

struct search {
    struct chat_turn **turns; // ascending by number
    size_t n_turns;
    size_t *slots;  // of the first turn that says something, and 1: a hash table
    size_t *labels; // of the first turn that is said as `said`, and 1: another, of as many slots
    size_t n_slots;
    bool *otherwise; // it was found with other ids, too
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

static size_t hash(const struct search *search, const struct chat_turn *turn)
{
    uint64_t sum = 14695981039346656037U ^ turn->made.time ^ (uint64_t)said_before(search, turn) << 32;
    for (size_t i = 0; i < turn->text.length; i++)
        sum = (sum ^ (unsigned char)turn->text.data[i]) * 1099511628211U;
    return (size_t)((sum ^ sum >> 32) & (search->n_slots - 1));
}

static bool say_the_same(const struct search *search, const struct chat_turn *a, const struct chat_turn *b)
{
    return a->role == b->role && a->made.time == b->made.time && a->text.length == b->text.length &&
           said_before(search, a) == said_before(search, b) &&
           (!a->text.length || memcmp(a->text.data, b->text.data, a->text.length) == 0);
}

static bool same_ids(const struct tok_ids *a, const struct tok_ids *b)
{
    return a->count == b->count && (!a->count || memcmp(a->ids, b->ids, a->count * sizeof *a->ids) == 0);
}

static void look_up(struct search *search, struct chat_turn *turn, size_t n)
{
    size_t at = hash(search, turn);
    while (search->slots[at] && !say_the_same(search, turn, search->turns[search->slots[at] - 1]))
        at = (at + 1) & (search->n_slots - 1);
    if (!search->slots[at]) {
        search->slots[at] = n + 1;
        return;
    }
    size_t first = search->slots[at] - 1; // the same ids alone: it was typed twice within a second
    if (search->otherwise[first] || !same_ids(&search->turns[first]->ids, &turn->ids)) {
        search->otherwise[first] = true;
        turn->said = search->turns[first]->said;
    }
}

// The first of the turns up to this one that are said as what it is.
static const struct chat_turn *first_said(struct search *search, const struct chat_turn *turn, size_t n)
{
    size_t at = (size_t)((uint64_t)turn->said * 1099511628211U) & (search->n_slots - 1);
    while (search->labels[at] && search->turns[search->labels[at] - 1]->said != turn->said)
        at = (at + 1) & (search->n_slots - 1);
    if (!search->labels[at])
        search->labels[at] = n + 1;
    return search->turns[search->labels[at] - 1];
}

// What says that it was said before counts where it says the same in the same place: so none is its own predecessor.
static void check(struct search *search, struct chat_turn *turn, size_t n)
{
    const struct chat_turn *there = with_number(search, turn->said);
    if (!there || there->said == turn->said) { // else that one is another itself
        const struct chat_turn *first = first_said(search, turn, n);
        if (first == turn || say_the_same(search, turn, first))
            return;
    }
    turn->said = turn->number;
    first_said(search, turn, n);
}

bool chat_find_same(struct chat *chat)
{
    size_t n = chat->n_turns + chat->n_others, i = 0, k = 0;
    struct search search = {.n_slots = 1};
    while (search.n_slots < 2 * n + 1)
        search.n_slots *= 2;
    search.turns = calloc(n + 1, sizeof(void *));
    search.slots = calloc(search.n_slots, sizeof *search.slots);
    search.labels = calloc(search.n_slots, sizeof *search.labels);
    search.otherwise = calloc(n + 1, sizeof *search.otherwise);
    bool fine = search.turns && search.slots && search.labels && search.otherwise;
    for (; fine && search.n_turns < n; search.n_turns++)
        search.turns[search.n_turns] =
            k == chat->n_others || (i < chat->n_turns && chat->turns[i].number < chat->others[k].number)
                ? &chat->turns[i++]
                : &chat->others[k++];
    for (size_t at = 0; fine && at < n; at++) {
        struct chat_turn *turn = search.turns[at];
        if (turn->number == PART_NONE)
            continue;
        // Else nothing is known of when it was said; and two answers may be alike to the second.
        if (turn->role == TOK_USER && turn->made.time && turn->said == turn->number)
            look_up(&search, turn, at);
        check(&search, turn, at);
    }
    free(search.turns);
    free(search.slots);
    free(search.labels);
    free(search.otherwise);
    return fine;
}
