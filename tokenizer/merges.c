// SPDX-License-Identifier: GPL-3.0-or-later
// A hash table from pairs of ids to merges.
#include "tokenizer/merges.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/tok_err.h"

enum { SHORT_WORD = 32 };
static const uint32_t none = UINT32_MAX;

int merges_init(struct merges *merges, size_t most, struct tok_err *err)
{
    size_t slots = 16;
    while (slots < 2 * most)
        slots *= 2;
    merges->slots = malloc(slots * sizeof *merges->slots);
    if (!merges->slots)
        return tok_fail(err, TOK_NO_MEMORY, "out of memory for %zu merges", most);
    memset(merges->slots, 0xFF, slots * sizeof *merges->slots);
    merges->mask = slots - 1;
    merges->count = 0;
    return TOK_OK;
}

void merges_release(struct merges *merges)
{
    free(merges->slots);
    *merges = (struct merges){0};
}

// Where the pair is, or the empty slot where it belongs.
static struct merge *slot_of(const struct merges *merges, uint32_t left, uint32_t right)
{
    uint64_t mixed = ((uint64_t)left << 32 | right) * UINT64_C(0x9E3779B97F4A7C15);
    size_t at = (size_t)(mixed ^ mixed >> 32) & merges->mask;
    while (merges->slots[at].id != none && (merges->slots[at].left != left || merges->slots[at].right != right))
        at = (at + 1) & merges->mask;
    return &merges->slots[at];
}

void merges_add(struct merges *merges, const struct merge *merge)
{
    struct merge *slot = slot_of(merges, merge->left, merge->right);
    if (slot->id != none || merges->count >= merges->mask / 2 + 1)
        return;
    *slot = *merge;
    merges->count++;
}

static ptrdiff_t apply_short(const struct merges *merges, int32_t *ids, size_t count)
{
    const struct merge *pairs[SHORT_WORD];
    for (size_t i = 0; i + 1 < count; i++)
        pairs[i] = slot_of(merges, (uint32_t)ids[i], (uint32_t)ids[i + 1]);
    for (;;) {
        size_t best = count;
        uint32_t rank = none;
        for (size_t i = 0; i + 1 < count; i++)
            if (pairs[i]->id != none && pairs[i]->rank < rank) {
                best = i;
                rank = pairs[i]->rank;
            }
        if (best == count)
            return (ptrdiff_t)count;
        ids[best] = (int32_t)pairs[best]->id;
        count--;
        memmove(ids + best + 1, ids + best + 2, (count - best - 1) * sizeof *ids);
        if (best + 1 < count)
            memmove(pairs + best + 1, pairs + best + 2, (count - best - 2) * sizeof *pairs);
        if (best + 1 < count)
            pairs[best] = slot_of(merges, (uint32_t)ids[best], (uint32_t)ids[best + 1]);
        if (best > 0)
            pairs[best - 1] = slot_of(merges, (uint32_t)ids[best - 1], (uint32_t)ids[best]);
    }
}

// A long word: a list of what is left of it, and a heap of the pairs that may be merged, as rank << 32 | place.
struct long_word {
    const struct merges *merges;
    int32_t *ids;
    uint32_t *next, *before; // `count` ends the list; an id of -1 is gone
    uint32_t count;
    uint64_t *heap;
    size_t n_heap;
};

static void heap_push(struct long_word *word, uint64_t key)
{
    size_t at = word->n_heap++;
    while (at > 0 && word->heap[(at - 1) / 2] > key) {
        word->heap[at] = word->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    word->heap[at] = key;
}

static uint64_t heap_pop(struct long_word *word)
{
    uint64_t top = word->heap[0], key = word->heap[--word->n_heap];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < word->n_heap; at = child) {
        child += child + 1 < word->n_heap && word->heap[child + 1] < word->heap[child];
        if (word->heap[child] >= key)
            break;
        word->heap[at] = word->heap[child];
    }
    word->heap[at] = key;
    return top;
}

static const struct merge *pair_at(const struct long_word *word, uint32_t at)
{
    if (word->ids[at] < 0 || word->next[at] >= word->count)
        return NULL;
    const struct merge *pair = slot_of(word->merges, (uint32_t)word->ids[at], (uint32_t)word->ids[word->next[at]]);
    return pair->id == none ? NULL : pair;
}

static void offer(struct long_word *word, uint32_t at)
{
    const struct merge *pair = pair_at(word, at);
    if (pair)
        heap_push(word, (uint64_t)pair->rank << 32 | at);
}

static ptrdiff_t apply_long(const struct merges *merges, int32_t *ids, size_t count)
{
    struct long_word word = {.merges = merges, .ids = ids, .count = (uint32_t)count};
    word.next = malloc(count * sizeof *word.next);
    word.before = malloc(count * sizeof *word.before);
    word.heap = malloc(3 * count * sizeof *word.heap); // each pair of the beginning, and two for each merge
    ptrdiff_t left = -1;
    if (!word.next || !word.before || !word.heap)
        goto release;
    for (uint32_t i = 0; i < word.count; i++) {
        word.next[i] = i + 1;
        word.before[i] = i - 1; // of the first: beyond all
    }
    for (uint32_t i = 0; i < word.count; i++)
        offer(&word, i);
    while (word.n_heap > 0) {
        uint64_t key = heap_pop(&word);
        uint32_t at = (uint32_t)key;
        const struct merge *pair = pair_at(&word, at);
        if (!pair || pair->rank != key >> 32)
            continue; // what stood here has been merged meanwhile
        uint32_t gone = word.next[at], after = word.next[gone];
        ids[at] = (int32_t)pair->id;
        ids[gone] = -1;
        word.next[at] = after;
        if (after < word.count)
            word.before[after] = at;
        offer(&word, at);
        if (word.before[at] < word.count)
            offer(&word, word.before[at]);
    }
    left = 0;
    for (uint32_t i = 0; i < word.count; i++)
        if (ids[i] >= 0)
            ids[left++] = ids[i];
release:
    free(word.next);
    free(word.before);
    free(word.heap);
    return left;
}

ptrdiff_t merges_apply(const struct merges *merges, int32_t *ids, size_t count)
{
    return count <= SHORT_WORD ? apply_short(merges, ids, count) : apply_long(merges, ids, count);
}
