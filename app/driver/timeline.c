// SPDX-License-Identifier: GPL-3.0-or-later
// Cuts the engine's tokens to what they share with a turn's, and feeds the rest.
#include "app/driver/timeline.h"

#include <string.h>

void timeline_release(struct timeline *timeline)
{
    tok_ids_release(&timeline->fed);
    tok_ids_release(&timeline->pending);
    tok_ids_release(&timeline->part);
}

static uint32_t fed_length(const struct timeline *timeline)
{
    return timeline->backend->ops->length(timeline->backend->self);
}

uint32_t timeline_length(const struct timeline *timeline)
{
    return timeline->part.count ? timeline->part_from : fed_length(timeline) + (uint32_t)timeline->pending.count;
}

uint32_t timeline_unread(const struct timeline *timeline)
{
    return (uint32_t)timeline->unread;
}

bool timeline_unread_for_states(const struct timeline *timeline)
{
    return timeline->unread && timeline->for_states;
}

uint32_t timeline_reread(const struct timeline *timeline)
{
    return timeline->reread;
}

static int append(struct tok_ids *list, int32_t id, struct moe_err *err)
{
    struct tok_err tok_err;
    int code = tok_ids_append(list, id, &tok_err);
    return code == 0 ? 0 : backend_fail(err, MOE_NO_MEMORY, "%s", tok_err.text);
}

// What is about to be fed is noted first: there must be memory for it.
static int note_ids(struct timeline *timeline, const int32_t *ids, size_t count, struct moe_err *err)
{
    int code = 0;
    uint32_t length = fed_length(timeline);
    if (length > timeline->fed.capacity) // what was restored could not be noted
        return backend_fail(err, MOE_NO_MEMORY, "no memory for the tokens of this conversation");
    timeline->fed.count = length;
    for (size_t i = 0; i < count && code == 0; i++)
        code = append(&timeline->fed, ids[i], err);
    return code;
}

// As far as it was fed it stays.
static int end_feed(struct timeline *timeline, int code)
{
    timeline->fed.count = fed_length(timeline);
    steps_note(timeline->steps);
    return code;
}

int timeline_decode(struct timeline *timeline, int32_t id, struct moe_err *err)
{
    int code = note_ids(timeline, &id, 1, err);
    if (code == 0)
        code = timeline->backend->ops->decode(timeline->backend->self, id, err);
    return end_feed(timeline, code);
}

int timeline_prefill(struct timeline *timeline, const int32_t *ids, size_t count, const uint32_t *borders,
                     struct moe_err *err)
{
    int code = note_ids(timeline, ids, count, err);
    if (code == 0)
        code = timeline->backend->ops->prefill(timeline->backend->self, ids, count, borders, err);
    return end_feed(timeline, code);
}

int timeline_add(struct timeline *timeline, int32_t id, struct moe_err *err)
{
    return append(&timeline->pending, id, err);
}

// The first `count` are fed.
static void drop_pending(struct timeline *timeline, size_t count)
{
    struct tok_ids *pending = &timeline->pending;
    pending->count -= count;
    if (count)
        memmove(pending->ids, pending->ids + count, pending->count * sizeof *pending->ids);
}

void timeline_restore(struct timeline *timeline, struct tok_ids *ids, uint32_t fed, bool for_states)
{
    struct moe_err ignored; // without memory for what is fed the first turn fails, and says so
    tok_ids_release(&timeline->pending);
    timeline->pending = *ids;
    *ids = (struct tok_ids){0};
    timeline->fed.count = 0;
    for (uint32_t i = 0; i < fed && append(&timeline->fed, timeline->pending.ids[i], &ignored) == 0; i++)
        ;
    drop_pending(timeline, fed);
    timeline->unread = timeline->pending.count;
    timeline->for_states = for_states;
    timeline->reread = 0;
    timeline->new_from = UINT32_MAX;
}

void timeline_note_new(struct timeline *timeline, uint32_t count)
{
    timeline->new_from = count ? timeline_length(timeline) - count : UINT32_MAX;
}

uint32_t timeline_same(const struct timeline *timeline, const struct tok_ids *ids)
{
    const struct tok_ids *fed = &timeline->fed, *pending = &timeline->pending;
    size_t same = 0, known = fed->count == fed_length(timeline) ? fed->count : 0;
    while (same < ids->count && same < known && ids->ids[same] == fed->ids[same])
        same++;
    while (!timeline->part.count && same >= known && same < ids->count && same - known < pending->count &&
           ids->ids[same] == pending->ids[same - known])
        same++;
    if (timeline->part.count && same > timeline->part_from)
        same = timeline->part_from; // what is behind that was read for nothing
    return (uint32_t)same;
}

// Feeds what was restored without its rows.
static int read_again(struct timeline *timeline, struct moe_err *err)
{
    const struct backend *backend = timeline->backend;
    struct backend_info info;
    uint32_t length = fed_length(timeline);
    backend->ops->describe(backend->self, &info);
    if (timeline->unread > info.max_context - length)
        return backend_fail(err, MOE_CONTEXT_FULL, "the context is full: this conversation has %zu tokens of %u",
                            length + timeline->unread, (unsigned)info.max_context);
    timeline->reading_unread = true;
    timeline->reading_again = length < timeline->new_from;
    int code = timeline_prefill(timeline, timeline->pending.ids, timeline->unread, NULL, err);
    timeline->reading_unread = false;
    size_t done = fed_length(timeline) - length;
    timeline->unread -= done;
    timeline->reread = timeline->unread ? timeline->reread + (uint32_t)done : 0;
    drop_pending(timeline, done);
    return code;
}

int timeline_settle(struct timeline *timeline, struct moe_err *err)
{
    int code = timeline->unread ? read_again(timeline, err) : 0;
    if (code)
        return code;
    for (size_t i = 0; i < timeline->pending.count; i++) {
        code = timeline_decode(timeline, timeline->pending.ids[i], err);
        if (code) {
            drop_pending(timeline, i);
            return code;
        }
    }
    timeline->pending.count = 0;
    return 0;
}

void timeline_keep_part(struct timeline *timeline, uint32_t position, uint32_t from, const struct tok_ids *prompt)
{
    uint32_t end = fed_length(timeline);
    struct moe_err ignored; // what can't be cut now is cut first by the next turn
    struct tok_err err;
    bool fine = end > position && end - position <= prompt->count;
    timeline->part.count = 0;
    fine = fine && tok_ids_append_all(&timeline->part, prompt->ids, end - position, &err) == 0;
    timeline->part_at = position;
    timeline->part_from = from;
    timeline->for_states = false;
    if (!fine)
        timeline_cut(timeline, from, &ignored);
}

bool timeline_part_from_unread(struct timeline *timeline, uint32_t position)
{
    uint32_t end = fed_length(timeline);
    struct tok_err err;
    if (!timeline->unread || !timeline->reread || timeline->part.count || end <= position || timeline->fed.count != end)
        return false;
    if (tok_ids_append_all(&timeline->part, timeline->fed.ids + position, end - position, &err)) {
        timeline->part.count = 0;
        return false;
    }
    timeline->part_at = timeline->part_from = position;
    timeline->pending.count = timeline->unread = 0;
    return true;
}

// Are those at hand, which the engine has, at that place of `ids`?
static bool is_at(const struct tok_ids *ids, size_t place, const int32_t *there, size_t count)
{
    return place + count <= ids->count && memcmp(ids->ids + place, there, count * sizeof *there) == 0;
}

bool timeline_unread_from_part(struct timeline *timeline, struct tok_ids *ids)
{
    uint32_t end = fed_length(timeline), at = timeline->part_at;
    if (!timeline->part.count || ids->count <= end || timeline->fed.count != end || end - at != timeline->part.count ||
        !is_at(ids, 0, timeline->fed.ids, at) || !is_at(ids, at, timeline->part.ids, timeline->part.count))
        return false;
    uint32_t reread = timeline->reread ? timeline->reread : end - timeline->part_from;
    timeline->part.count = 0;
    timeline_restore(timeline, ids, end, timeline->for_states);
    timeline->reread = reread;
    return true;
}

uint32_t timeline_part_length(const struct timeline *timeline)
{
    return timeline->part.count ? fed_length(timeline) - timeline->part_from : 0;
}

bool timeline_has_part(const struct timeline *timeline)
{
    return timeline->part.count > 0;
}

bool timeline_part_follows(const struct timeline *timeline, const struct tok_ids *ids)
{
    return timeline->part.count && ids->count == timeline->part_at && timeline_same(timeline, ids) == ids->count;
}

uint32_t timeline_part_from(const struct timeline *timeline, uint32_t position)
{
    return timeline->part.count && timeline->part_at == position ? timeline->part_from : UINT32_MAX;
}

uint32_t timeline_has(const struct timeline *timeline, uint32_t position, const struct tok_ids *known,
                      const struct tok_ids *prompt)
{
    const struct tok_ids *there = timeline->part.count && timeline->part_at == position ? &timeline->part : known;
    uint32_t same = 0;
    while (same < there->count && same + 1 < prompt->count && there->ids[same] == prompt->ids[same])
        same++;
    return same;
}

// Nothing is pending.
static int cut_engine(struct timeline *timeline, uint32_t position, struct moe_err *err)
{
    const struct backend *backend = timeline->backend;
    uint32_t floor = backend->ops->floor(backend->self, position);
    if (timeline->fed.count < position && floor < position)
        return backend_fail(err, MOE_NO_MEMORY, "no memory for the tokens of this conversation");
    int code = 0;
    for (uint32_t i = floor; i < position && code == 0; i++)
        code = append(&timeline->pending, timeline->fed.ids[i], err);
    if (code == 0)
        code = backend->ops->truncate(backend->self, floor, err);
    timeline->pending.count = code ? 0 : position - floor;
    timeline->unread = timeline->pending.count;
    timeline->for_states = true;
    timeline->reread = 0;
    timeline->new_from = UINT32_MAX;
    timeline->fed.count = fed_length(timeline);
    return code;
}

int timeline_cut(struct timeline *timeline, uint32_t position, struct moe_err *err)
{
    uint32_t length = fed_length(timeline);
    timeline->part.count = 0;
    if (position > timeline_length(timeline))
        return backend_fail(err, MOE_POSITION, "the turn starts at token %u, past the end at %u", (unsigned)position,
                            (unsigned)timeline_length(timeline));
    if (position >= length) {
        timeline->pending.count = position - length;
        if (timeline->unread > timeline->pending.count)
            timeline->unread = timeline->pending.count;
        if (!timeline->unread)
            timeline->reread = 0;
        return 0;
    }
    timeline->pending.count = timeline->unread = 0;
    return cut_engine(timeline, position, err);
}

int timeline_repeat(struct timeline *timeline, int32_t last_id, struct moe_err *err)
{
    int code = timeline_cut(timeline, fed_length(timeline) - 1, err);
    if (code == 0)
        code = timeline_add(timeline, last_id, err);
    if (code)
        return code;
    timeline->unread++;
    return timeline_settle(timeline, err);
}
