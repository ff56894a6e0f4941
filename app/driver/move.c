// SPDX-License-Identifier: GPL-3.0-or-later
// Goes to another place in the conversation that is under way, or to another one.
#include "app/driver/move.h"
#include "app/util/format.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "app/driver/worker.h"

// Brings the timeline to those ids. Why some of them must be read again, if that is so.
static const char *follow(struct keeper *keeper, struct timeline *timeline, struct tok_ids *ids, struct moe_err *err)
{
    const struct backend *backend = keeper->backend;
    struct backend_info info;
    backend->ops->describe(backend->self, &info);
    if (timeline_part_follows(timeline, ids)) // where one was: the message may be sent again
        return NULL;
    if (timeline_unread_from_part(timeline, ids)) // and is the conversation's again
        return NULL;
    uint32_t same = timeline_same(timeline, ids);
    if (same == ids->count && timeline_part_from_unread(timeline, same))
        return NULL;
    int code = timeline_cut(timeline, same, err);
    bool stands = code == 0 && !timeline_unread(timeline);
    if (stands && timeline_length(timeline) < ids->count)
        code = timeline_settle(timeline, err);
    const char *why = code                     ? err->text
                      : info.cache.state_bytes ? "the layers' states were kept only further back"
                                               : NULL;
    bool more = timeline_unread(timeline) && !info.cache.state_bytes && keeper_has_more(keeper);
    if (timeline_length(timeline) >= ids->count && !more)
        return why;
    if (!why)
        why = keeper_restore(keeper, (uint32_t)ids->count, err);
    uint32_t length = backend->ops->length(backend->self);
    timeline_restore(timeline, ids, length, info.cache.state_bytes && length);
    return why;
}

// Taken down before the timeline takes the ids.
struct moved {
    size_t tokens;
    uint32_t unanswered; // as in the place
    uint32_t part;       // read of a message that was stopped
};

// Why rows are missing, with what is only "its" where more is said of a session. Returns how long that is.
static int print_why(char *out, size_t size, const char *why)
{
    static const char its[] = "its ";
    const char *of = strstr(why, its);
    if (!of || of - why > 40 || (of > why && of[-1] != ' '))
        return snprintf(out, size, "%.280s", why);
    return snprintf(out, size, "%.*sthe conversation's %.260s", (int)(of - why), why, of + strlen(its));
}

// What the next message will read, or what is gone of one that was stopped.
static void tell(struct keeper *keeper, const struct timeline *timeline, const struct moved *moved, const char *why,
                 bool forgets)
{
    struct session_news *news = &keeper->news;
    if (news->missing && news->missing <= moved->unanswered && keeper_has_room(keeper, moved->tokens))
        snprintf(news->text, sizeof news->text, "the last message was not answered: /retry reads %u of its %u tokens",
                 (unsigned)news->missing, (unsigned)moved->unanswered);
    else if (news->missing && keeper_has_room(keeper, moved->tokens)) {
        char reads[KEEPER_UNREAD_SIZE];
        keeper_say_unread(reads, sizeof reads,
                          &(struct keeper_unread){moved->tokens, news->missing, moved->unanswered, forgets});
        int length = print_why(news->text, sizeof news->text, why ? why : "its KV cache is not saved");
        snprintf(news->text + length, sizeof news->text - (size_t)length, "; %s", reads);
    } else if (moved->part && !*news->text && !timeline_part_length(timeline))
        snprintf(news->text, sizeof news->text,
                 "what was read of the message that was stopped, %u token%s, is not kept here", (unsigned)moved->part,
                 format_s(moved->part));
    *news->text = (char)toupper((unsigned char)*news->text);
}

void move_conversation(struct keeper *keeper, struct timeline *timeline, struct worker_place *place)
{
    const struct backend *backend = keeper->backend;
    struct session_news *news = &keeper->news;
    struct moe_err err = {.text = ""};
    struct backend_info info;
    if (place->going == GOING_TO_LEAVE) { // should it fail, the disk still has all of it
        if (keeper->saved)
            saved_go(keeper->saved, place->last);
        tok_ids_release(&place->ids);
        return;
    }
    backend->ops->describe(backend->self, &info);
    backend->ops->resume(backend->self);
    keeper_leave_message(keeper);
    const struct moved moved = {place->ids.count, place->unanswered, timeline_part_length(timeline)};
    bool there = !keeper->saved || saved_go(keeper->saved, place->last);
    if (keeper->saved)
        saved_set_undone(keeper->saved, place->undone);
    const char *why = follow(keeper, timeline, &place->ids, &err);
    timeline_note_new(timeline, moved.unanswered);
    news->cached = backend->ops->length(backend->self);
    uint32_t unread = timeline_unread(timeline), held = backend->ops->held(backend->self);
    news->missing = held < unread ? unread - held : unread; // what was done of a group's work is not done again
    if (!place->anew)
        tell(keeper, timeline, &moved, why, info.turns.forgets);
    bool says = *news->text;
    tok_ids_release(&place->ids);
    // States are those of the timeline's end, which is not the conversation's where a part of a message stays. What is
    // read of one that was stopped lasts until one leaves, wherever one has been meanwhile.
    bool saves = keeper->saved && there && place->going == GOING_TO_STAY;
    if (saves && (timeline_reread(timeline) || (info.cache.state_bytes && timeline_has_part(timeline))))
        keeper_save_text(keeper);
    else if (saves)
        keeper_commit(keeper);
    else if (keeper->saved && !there)
        keeper_lose(keeper);
    size_t length = strlen(news->text); // what a commit says stands behind it
    if (says && length + 1 < sizeof news->text)
        memcpy(news->text + length, ".", 2);
}

void move_to_session(struct keeper *keeper, struct timeline *timeline, struct worker_session *session)
{
    const struct backend *backend = keeper->backend;
    struct backend_info info;
    struct moe_err err;
    keeper_leave(keeper);
    if (session->save && keeper->news.failed) // it was said when it failed, and here all of it is saved
        *keeper->news.text = 0;
    *keeper->news.name = 0;
    keeper->saved = session->saved;
    backend->ops->resume(backend->self);
    backend->ops->describe(backend->self, &info);
    // What was read of a stopped message stays with a conversation that goes on under another name. Not with states:
    // the end of what is saved now is where they have to stand.
    bool stays = session->keep && session->keep == timeline_length(timeline) && !info.cache.state_bytes;
    if (!stays && timeline_cut(timeline, session->keep, &err))
        snprintf(keeper->news.text, sizeof keeper->news.text, "%s", err.text);
    if (session->keep) {
        saved_set_origin(keeper->saved, &info.origin);
    } else {
        uint32_t cached = keeper_load(keeper, (uint32_t)session->ids.count);
        const struct manifest_part *last = keeper->saved ? manifest_unanswered(saved_manifest(keeper->saved)) : NULL;
        if (!keeper->news.stale) {
            timeline_restore(timeline, &session->ids, cached, keeper->short_of_states);
            timeline_note_new(timeline, last ? last->tokens : 0);
        }
    }
    if (session->save && keeper->saved)
        keeper_commit(keeper);
    tok_ids_release(&session->ids);
}
