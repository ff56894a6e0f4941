// SPDX-License-Identifier: GPL-3.0-or-later
// Room for one expert, and what state it is in. Bookkeeping only; no byte is moved here.
//
//            tier_take           slot_read                  slot_arrive
//     EMPTY ----------> QUEUED ----------> READING ----------------------------> READY
//                        | |                  |                                  ^ ^ |
//                        | |  slot_copy       | slot_copy                        | | |
//                        | +----------------> +-------> COPYING -- slot_arrive --+ | |
//                        |                                                         | |
//                        +-- slot_write_back --> WRITING_BACK ---- slot_arrive ----+ |
//                                                                                    |
//                       QUEUED <------------- tier_take, for another expert ---------+
//                       QUEUED <--- READING: slot_read_again
//     EMPTY <--- tier_clear, from all: nobody wants it any more, or its bytes cannot be had
//
// From QUEUED on it has a key; the key's bytes are there, and may be used, when it is READY and not before. Where the
// device has its own memory, files are read into the host's slots, and a slot of the device's is READING while it waits
// for its source, a host slot that is; else files are read into the device's slots.
#ifndef MOECHAT_ENGINE_EXPERTS_SLOT_H
#define MOECHAT_ENGINE_EXPERTS_SLOT_H

#include "engine/experts/flights.h"

// Slots in order, linked through themselves.
struct slot_list {
    struct slot *first;
    struct slot *last;
    uint32_t count;
};

enum slot_state {
    SLOT_EMPTY,
    SLOT_QUEUED,       // it waits for its turn, or is on no list: whoever took it goes on with it at once
    SLOT_READING,      // from a file
    SLOT_COPYING,      // to the device, from the host
    SLOT_WRITING_BACK, // from the device, which gives the expert up, to the host
    SLOT_READY,
};

struct slot {
    struct slot_list *list; // the one that it is in, NULL: none
    struct slot *previous;
    struct slot *next;
    enum slot_state state;
    uint32_t size_class; // the store's that it belongs to
    uint32_t key;        // layer * n_routed_experts + expert, unless EMPTY
    uint32_t pins;
    bool followed;               // COPYING: ops were given that run behind its copy, which is counted
    bool joined;                 // READING: the read was begun for nobody who still waits, and then asked for
    bool prefetched;             // its load was begun before anybody asked for it, and nobody has yet
    uint64_t fence;              // COPYING, READY: of the last release; 0: there was none
    uint64_t arrived;            // READY: serial of when it became that
    uint64_t copy;               // COPYING, WRITING_BACK, READING with copied > 0: number of its last copy
    uint64_t copied;             // READING with a source, COPYING: bytes that were given to copies
    struct flight *flight;       // READING without a source: its read
    struct slot *source;         // READING, COPYING: the host slot that it waits for, which is pinned for it
    struct read_failure failure; // EMPTY: why, for those who still wait
};

void slots_append(struct slot_list *list, struct slot *slot);
void slots_remove(struct slot *slot);

// Its key is taken, its bytes are not there.
static inline bool slot_is_loading(const struct slot *slot)
{
    return slot->state != SLOT_EMPTY && slot->state != SLOT_READY;
}

// The transitions that concern the slot alone; tier.h has the two that concern its key, too. Each leaves the list that
// the slot was in.
void slot_read(struct slot *slot, struct flight *flight);          // NULL: its source's
void slot_read_again(struct slot *slot, struct slot_list *queued); // its read failed, its source is let go of
void slot_copy(struct slot *slot, struct slot_list *copying);
void slot_write_back(struct slot *slot, struct slot_list *writing_back);
void slot_arrive(struct slot *slot, uint64_t arrival);

#endif
