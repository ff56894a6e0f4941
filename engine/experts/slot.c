// SPDX-License-Identifier: GPL-3.0-or-later
// The transitions of a slot, and the lists that slots are in meanwhile.
#include "engine/experts/slot.h"

#include <assert.h>

void slots_append(struct slot_list *list, struct slot *slot)
{
    slot->list = list;
    slot->previous = list->last;
    slot->next = NULL;
    *(list->last ? &list->last->next : &list->first) = slot;
    list->last = slot;
    list->count++;
}

void slots_remove(struct slot *slot)
{
    struct slot_list *list = slot->list;
    *(slot->previous ? &slot->previous->next : &list->first) = slot->next;
    *(slot->next ? &slot->next->previous : &list->last) = slot->previous;
    list->count--;
    slot->list = NULL;
}

static void leave_list(struct slot *slot)
{
    if (slot->list)
        slots_remove(slot);
}

void slot_read(struct slot *slot, struct flight *flight)
{
    assert(slot->state == SLOT_QUEUED && !flight == !!slot->source);
    leave_list(slot);
    slot->state = SLOT_READING;
    slot->flight = flight;
}

void slot_read_again(struct slot *slot, struct slot_list *queued)
{
    assert(slot->state == SLOT_READING && !slot->flight && !slot->source);
    slot->state = SLOT_QUEUED;
    slot->joined = false;
    slot->copied = 0;
    slots_append(queued, slot);
}

void slot_copy(struct slot *slot, struct slot_list *copying)
{
    assert((slot->state == SLOT_QUEUED || slot->state == SLOT_READING) && !slot->flight);
    leave_list(slot);
    slot->state = SLOT_COPYING;
    slots_append(copying, slot);
}

void slot_write_back(struct slot *slot, struct slot_list *writing_back)
{
    assert(slot->state == SLOT_QUEUED && !slot->source);
    leave_list(slot);
    slot->state = SLOT_WRITING_BACK;
    slots_append(writing_back, slot);
}

void slot_arrive(struct slot *slot, uint64_t arrival)
{
    assert(slot_is_loading(slot) && slot->state != SLOT_QUEUED && !slot->flight && !slot->source);
    leave_list(slot);
    slot->state = SLOT_READY;
    slot->arrived = arrival;
}
