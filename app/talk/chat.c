// SPDX-License-Identifier: GPL-3.0-or-later
// Keeps the turns of a conversation.
#include "app/talk/chat_parts.h"

#include <stdlib.h>
#include <string.h>

static void turn_release(struct chat_turn *turn)
{
    bytes_release(&turn->text);
    tok_ids_release(&turn->ids);
}

void chat_put_aside(struct chat *chat, struct chat_turn *turn)
{
    if (turn->number == PART_NONE) {
        turn_release(turn);
        return;
    }
    struct chat_turn *others = chat->others;
    size_t at = chat->n_others++;
    for (; at > 0 && others[at - 1].number > turn->number; at--)
        others[at] = others[at - 1];
    others[at] = *turn;
    others[at].end = 0;
}

// To the other branches. False: without memory it is forgotten here; on the disk it stays.
static bool keep_aside(struct chat *chat, struct chat_turn *turn)
{
    if (chat->n_others == chat->others_room) {
        size_t room = 2 * chat->others_room + 4; // a tree may be of 100,000
        struct chat_turn *grown = realloc(chat->others, room * sizeof *grown);
        if (!grown) {
            turn_release(turn);
            return false;
        }
        chat->others = grown;
        chat->others_room = room;
    }
    chat_put_aside(chat, turn);
    return true;
}

void chat_cut(struct chat *chat, size_t n_turns)
{
    for (size_t i = n_turns; i < chat->n_turns; i++) // ascending, so that each goes behind those that are there
        keep_aside(chat, &chat->turns[i]);
    if (chat->n_turns > n_turns)
        chat->n_turns = n_turns;
}

// The turns from there on, and all other branches, are forgotten.
static void forget(struct chat *chat, size_t n_turns)
{
    while (chat->n_turns > n_turns)
        turn_release(&chat->turns[--chat->n_turns]);
    chat_prune(chat);
}

void chat_prune(struct chat *chat)
{
    while (chat->n_others > 0)
        turn_release(&chat->others[--chat->n_others]);
    free(chat->others);
    chat->others = NULL;
    chat->others_room = 0;
}

void chat_release(struct chat *chat)
{
    forget(chat, 0);
    free(chat->turns);
    bytes_release(&chat->unsent);
    *chat = (struct chat){.about = chat->about, .think = chat->think, .fed_think = chat->think};
}

const struct chat_turn *chat_system(const struct chat *chat)
{
    return chat->n_turns && chat->turns[0].role == TOK_SYSTEM ? &chat->turns[0] : NULL;
}

bool chat_system_is(const struct chat *chat, const char *text, size_t length)
{
    const struct chat_turn *system = chat_system(chat);
    size_t now = system ? system->text.length : 0;
    return now == length && (!length || memcmp(system->text.data, text, length) == 0);
}

void chat_clear(struct chat *chat)
{
    forget(chat, chat_system(chat) ? 1 : 0);
    bytes_release(&chat->unsent);
    chat->tried = (struct turn_parts){0};
}

void chat_count_anew(struct chat *chat)
{
    const struct chat_turn *system = chat_system(chat);
    chat->next_number = system && system->number != PART_NONE ? (uint32_t)system->number + 1 : 0;
    chat->undid = false;
}

static bool insert_turn(struct chat *chat, size_t at, enum tok_role role, const struct tok_turn *what)
{
    if (chat->n_turns == chat->turns_room) {
        size_t room = 2 * chat->turns_room + 4;
        struct chat_turn *grown = realloc(chat->turns, room * sizeof *grown);
        if (!grown)
            return false;
        chat->turns = grown;
        chat->turns_room = room;
    }
    struct chat_turn turn = {.role = role, .number = PART_NONE, .after = PART_NONE};
    if (!bytes_append(&turn.text, what->text, what->length))
        return false;
    memmove(chat->turns + at + 1, chat->turns + at, (chat->n_turns - at) * sizeof *chat->turns);
    chat->turns[at] = turn;
    chat->n_turns++;
    return true;
}

// From turn `from` on, nothing counts as fed.
static void forget_fed(struct chat *chat, size_t from)
{
    for (size_t i = from; i < chat->n_turns; i++)
        chat->turns[i].end = 0;
}

bool chat_set_system(struct chat *chat, const char *text, size_t length)
{
    struct tok_turn what = {.role = TOK_SYSTEM, .text = text, .length = length};
    bool had = chat_system(chat) != NULL;
    if (length && !insert_turn(chat, 0, TOK_SYSTEM, &what))
        return false;
    if (had) {
        size_t old = length ? 1 : 0;
        keep_aside(chat, &chat->turns[old]);
        memmove(chat->turns + old, chat->turns + old + 1, (--chat->n_turns - old) * sizeof *chat->turns);
    }
    forget_fed(chat, 0);
    chat->system_set = true;
    return true;
}

size_t chat_exchanges(const struct chat *chat)
{
    size_t count = 0;
    for (size_t i = 0; i < chat->n_turns; i++)
        count += chat->turns[i].role == TOK_USER;
    return count;
}

static size_t first_unfed(const struct chat *chat)
{
    size_t i = 0;
    while (i < chat->n_turns && chat->turns[i].end)
        i++;
    return i;
}

uint32_t chat_position(const struct chat *chat)
{
    size_t unfed = first_unfed(chat);
    return unfed ? chat->turns[unfed - 1].end : 0;
}

bool chat_waits(const struct chat *chat)
{
    const struct chat_turn *last = chat->n_turns ? &chat->turns[chat->n_turns - 1] : NULL;
    return last && !last->end && turn_parts_end_with(&chat->tried, last->number);
}

// And what it is to be fed behind is as it was when its ids were made.
static bool waits_as_it_is(const struct chat *chat)
{
    return chat_waits(chat) && !chat_system_waits(chat);
}

uint32_t chat_tokens(const struct chat *chat)
{
    uint32_t tokens = chat_position(chat);
    for (size_t i = waits_as_it_is(chat) ? first_unfed(chat) : chat->n_turns; i < chat->n_turns; i++)
        tokens += (uint32_t)chat->turns[i].ids.count;
    return tokens;
}

uint32_t chat_answered(const struct chat *chat)
{
    const struct chat_turn *last = chat->n_turns ? &chat->turns[chat->n_turns - 1] : NULL;
    bool counted = last && last->role == TOK_USER && (last->end || waits_as_it_is(chat));
    return chat_tokens(chat) - (counted ? (uint32_t)last->ids.count : 0);
}

void chat_leave_unanswered(struct chat *chat)
{
    if (!chat->n_turns || chat->turns[chat->n_turns - 1].role != TOK_USER)
        return;
    chat->left = chat->turns[chat->n_turns - 1].number + 1;
    chat_cut(chat, chat->n_turns - 1);
}

static bool copy_ids(struct tok_ids *list, const int32_t *ids, size_t count)
{
    struct tok_err err;
    return tok_ids_append_all(list, ids, count, &err) == 0;
}

bool chat_has_thinking(const struct bytes *answer)
{
    static const char open[] = "<think>", close[] = "</think>";
    if (answer->length >= 7 && memcmp(answer->data, open, 7) == 0)
        return true;
    for (size_t at = 0; at + 8 <= answer->length; at++)
        if (memcmp(answer->data + at, close, 8) == 0)
            return true;
    return false;
}

struct parts_of_answer {
    struct bytes *thought, *said;
    bool fine;
};

static void take_part(void *context, bool thinking, const char *bytes, size_t length)
{
    struct parts_of_answer *parts = context;
    parts->fine = parts->fine && bytes_append(thinking ? parts->thought : parts->said, bytes, length);
}

bool chat_part_answer(const struct bytes *answer, struct bytes *thought, struct bytes *said)
{
    struct parts_of_answer parts = {thought, said, bytes_append(thought, "", 0) && bytes_append(said, "", 0)};
    struct tok_think_out out = {take_part, &parts};
    struct tok_think think;
    tok_think_begin(&think, true, false);
    tok_think_push(&think, answer->data, answer->length, &out);
    tok_think_flush(&think, &out);
    return parts.fine;
}

// The first turn of the exchange before the last message, where its answer is fed as it was said but is to be fed
// otherwise now; else the last message.
static size_t first_changed(const struct chat *chat)
{
    size_t last = chat->n_turns - 1;
    const struct chat_turn *answer = last >= 2 ? &chat->turns[last - 1] : NULL;
    if (!answer || answer->role != TOK_ASSISTANT || !answer->end || !chat->about.forgets)
        return last;
    return chat->about.marks_earlier || chat_has_thinking(&answer->text) ? last - 2 : last;
}

// The first turn that is to be fed with the last message. One that was fed as a message to be answered is fed anew
// where words stand in its answer's place: they have the opening of an answer that its tokens end with themselves.
static size_t first_to_feed(const struct chat *chat)
{
    size_t unfed = first_unfed(chat);
    return unfed && chat->turns[unfed].role == TOK_ASSISTANT ? unfed - 1 : first_changed(chat);
}

// Is the first message to be fed behind another beginning than the one that it was said behind?
static bool begins_otherwise(const struct chat *chat)
{
    const struct chat_turn *system = chat_system(chat);
    size_t first = system ? 1 : 0;
    if (first >= chat->n_turns || chat->turns[first].number == PART_NONE)
        return false;
    return system ? system->number == PART_NONE || chat->turns[first].after != system->number
                  : chat->turns[first].after != PART_NONE;
}

bool chat_system_waits(const struct chat *chat)
{
    const struct chat_turn *system = chat_system(chat);
    bool alone = system && chat->n_turns == 1 && system->number == PART_NONE; // as all was taken back
    return chat->system_set && (begins_otherwise(chat) || (alone && chat->n_others));
}

// What the first message was said behind; NULL: nothing.
static const struct chat_turn *replaced_system(const struct chat *chat)
{
    size_t first = chat_system(chat) != NULL;
    return first < chat->n_turns ? chat_find(chat, chat->turns[first].after) : NULL;
}

size_t chat_messages(const struct chat *chat)
{
    if (!chat_system_waits(chat))
        return chat->n_turns;
    return chat->n_turns - (chat_system(chat) != NULL) + (replaced_system(chat) != NULL);
}

bool chat_as_said(const struct chat *chat, struct chat *said)
{
    const struct chat_turn *replaced = replaced_system(chat);
    size_t first = chat_system(chat) != NULL;
    *said = *chat;
    said->n_turns = said->n_others = 0;
    said->turns = calloc(chat->n_turns + 1, sizeof *said->turns);
    said->others = calloc(chat->n_others + 1, sizeof *said->others);
    if (!said->turns || !said->others) {
        chat_forget_said(said);
        return false;
    }
    if (replaced)
        said->turns[said->n_turns++] = *replaced;
    for (size_t i = first; i < chat->n_turns; i++)
        said->turns[said->n_turns++] = chat->turns[i];
    for (size_t i = 0; i < chat->n_others; i++)
        if (&chat->others[i] != replaced)
            said->others[said->n_others++] = chat->others[i];
    return true;
}

void chat_forget_said(struct chat *said)
{
    free(said->turns);
    free(said->others);
}

// Was this message sent before, the last time, and came to nothing?
static bool is_tried(const struct chat *chat, const char *text, size_t length)
{
    const struct turn_parts *tried = &chat->tried;
    const struct chat_turn *turn = tried->count ? chat_find(chat, (int64_t)tried->first + tried->count - 1) : NULL;
    return turn && turn->text.length == length && memcmp(turn->text.data, text, length) == 0;
}

// How the turn came to be, for its part on the disk: anew, or as what is said there first.
static struct part_made made_as(const struct chat_turn *turn, bool anew)
{
    struct part_made made = turn->made;
    made.anew = anew;
    made.before = anew ? (uint32_t)turn->said : 0;
    return made;
}

static int64_t said_as(const struct part *part)
{
    return part->made.anew ? (int64_t)part->made.before : (int64_t)part->number;
}

// Does the system message stand before the i-th turn?
static bool is_behind_system(const struct chat *chat, size_t i)
{
    return i > 0 && chat->turns[i - 1].role == TOK_SYSTEM;
}

static bool thinks(const struct chat *chat, enum think think)
{
    return think == THINK_UNASKED ? chat->about.thinks_unasked : think == THINK_ON;
}

bool chat_begins_anew(const struct chat *chat, enum think think)
{
    const struct chat_turn *first = chat->n_turns ? &chat->turns[0] : NULL;
    if (!chat->about.begins_anew || !first || !first->end)
        return false;
    const struct tok_ids *begins = &chat->about.begins[first->role];
    bool thought = first->ids.count >= begins->count &&
                   memcmp(first->ids.ids, begins->ids, begins->count * sizeof *begins->ids) == 0;
    return thought != thinks(chat, think);
}

struct turn *chat_request(struct chat *chat, const char *text, size_t length)
{
    struct tok_turn what = {.role = TOK_USER, .text = text, .length = length};
    struct turn *turn = turn_new();
    chat_leave_unanswered(chat);
    if (!turn || !insert_turn(chat, chat->n_turns, TOK_USER, &what)) {
        turn_free(turn);
        chat->left = 0;
        return NULL;
    }
    chat->was_fed = first_unfed(chat);
    chat->was_think = chat->fed_think;
    if (chat_begins_anew(chat, chat->think))
        forget_fed(chat, 0);
    chat->held = first_unfed(chat);
    bool known = true;
    size_t first = first_to_feed(chat), unfed = first_unfed(chat);
    turn->fills = unfed + 1 < chat->n_turns;
    for (size_t i = first; i < unfed; i++)
        known = known && copy_ids(&turn->known, chat->turns[i].ids.ids, chat->turns[i].ids.count);
    forget_fed(chat, first);
    turn->position = chat_position(chat);
    turn->behind_system = is_behind_system(chat, first_unfed(chat));
    turn->think = chat->fed_think = chat->think;
    bool otherwise = begins_otherwise(chat); // then what was said behind the old beginning stays as a branch
    if (is_tried(chat, text, length))
        turn->instead = chat->tried;
    for (size_t i = 0; i < chat->n_others && known; i++)
        known = chat->others[i].role != TOK_SYSTEM || turn_leaves(turn, (uint32_t)chat->others[i].number);
    bool noted = !otherwise;
    for (size_t i = first_unfed(chat); i < chat->n_turns && known; i++) {
        const struct chat_turn *fed = &chat->turns[i];
        noted = noted && fed->number != PART_NONE && !part_is_unfed(fed->role, &fed->text, fed->ids.count);
        known = turn_add(turn, fed->role, fed->text.data, fed->text.length) &&
                (fed->number == PART_NONE || otherwise || turn_leaves(turn, (uint32_t)fed->number)) &&
                (!noted || turn_was_noted(turn, &fed->ids));
        const struct part_made made = made_as(fed, fed->number != PART_NONE && !otherwise);
        if (known)
            turn_was_made(turn, &made);
    }
    turn->number = chat->asked = chat->next_number;
    chat->next_number += (uint32_t)turn->n_turns + 1; // and the answer
    if (known)
        return turn;
    turn_free(turn);
    chat_cut(chat, chat->n_turns - 1);
    chat->left = 0;
    return NULL;
}

bool chat_has_unsent(const struct chat *chat)
{
    return chat->unsent.data && !chat->refused;
}

void chat_forget_refused(struct chat *chat)
{
    if (chat->refused)
        bytes_release(&chat->unsent);
    chat->refused = false;
}

bool chat_is_followed(const struct chat *chat, int64_t number)
{
    for (size_t i = 0; i < chat->n_others; i++)
        if (chat->others[i].after == number)
            return true;
    return false;
}

struct turn *chat_again(struct chat *chat)
{
    size_t n = chat->n_turns;
    n -= n > 0 && chat->turns[n - 1].role == TOK_ASSISTANT;
    const struct chat_turn *message = n > 0 ? &chat->turns[n - 1] : NULL;
    bool otherwise = thinks(chat, chat->think) != thinks(chat, chat->fed_think) || chat_begins_anew(chat, chat->think);
    if (chat_has_unsent(chat) || otherwise || !message || message->role != TOK_USER || !message->end ||
        !message->ids.count)
        return NULL;
    struct turn *turn = turn_new();
    size_t count = message->ids.count;
    if (!turn || !copy_ids(&turn->known, message->ids.ids, count) ||
        !turn_add(turn, TOK_USER, message->text.data ? message->text.data : "", message->text.length) ||
        (message->number != PART_NONE && !turn_leaves(turn, (uint32_t)message->number))) {
        turn_free(turn);
        return NULL;
    }
    const struct part_made made = made_as(message, message->number != PART_NONE);
    turn_was_made(turn, &made);
    turn->again = chat->again = true;
    turn->number = chat->asked = chat->next_number;
    chat->next_number += 2; // of the answer; or of the message, where it is fed once more, and the answer
    turn->position = message->end - (uint32_t)count;
    turn->behind_system = is_behind_system(chat, n - 1);
    turn->think = chat->think;
    turn->last_id = message->ids.ids[count - 1];
    turn->unanswered = n == chat->n_turns && !chat_is_followed(chat, message->number) ? (uint32_t)count : 0;
    chat_cut(chat, n);
    return turn;
}

// A turn that is fed otherwise now, but in another branch stands as it was.
static bool leave_to_branches(struct chat *chat, const struct chat_turn *turn)
{
    struct chat_turn old = *turn;
    old.text = (struct bytes){0};
    old.ids = (struct tok_ids){0};
    bool fine = bytes_append(&old.text, turn->text.data ? turn->text.data : "", turn->text.length) &&
                copy_ids(&old.ids, turn->ids.ids, turn->ids.count);
    if (fine)
        keep_aside(chat, &old);
    else
        turn_release(&old);
    return fine;
}

static void remove_other(struct chat *chat, size_t at)
{
    turn_release(&chat->others[at]);
    memmove(chat->others + at, chat->others + at + 1, (--chat->n_others - at) * sizeof *chat->others);
}

void chat_drop_unused(struct chat *chat)
{
    for (size_t i = chat->n_others; i > 0; i--) {
        const struct chat_turn *system = &chat->others[i - 1];
        bool used = system->role != TOK_SYSTEM || chat_is_followed(chat, system->number);
        for (size_t k = 0; k < chat->n_turns && !used; k++) // the first message, where another beginning waits
            used = chat->turns[k].number != PART_NONE && chat->turns[k].after == system->number;
        if (!used)
            remove_other(chat, i - 1);
    }
}

uint32_t chat_number_system(struct chat *chat)
{
    uint32_t number = chat->next_number;
    if (chat_system(chat)) {
        chat->turns[0].number = chat->turns[0].said = chat->next_number++;
        chat->turns[0].after = PART_NONE;
    }
    chat_drop_unused(chat);
    return number;
}

// Gives the turns that were fed their ids, ends and numbers. What keeper_save_prompt does to the parts on the disk is
// the same.
static bool accept_prompt(struct chat *chat, const struct turn_result *result)
{
    size_t first = first_unfed(chat), begin = 0;
    uint32_t position = chat_position(chat);
    bool otherwise = begins_otherwise(chat);
    for (size_t i = result->n_prompt_ends; i > result->n_same; i--) {
        const struct chat_turn *turn = &chat->turns[first + i - 1];
        if (turn->number != PART_NONE && (otherwise || chat_is_followed(chat, turn->number)) &&
            !leave_to_branches(chat, turn))
            return false;
    }
    for (size_t i = 0; i < result->n_prompt_ends && first + i < chat->n_turns; i++) {
        struct chat_turn *turn = &chat->turns[first + i];
        tok_ids_release(&turn->ids);
        turn->ids = (struct tok_ids){0};
        if (!copy_ids(&turn->ids, result->prompt.ids + begin, result->prompt_ends[i] - begin))
            return false;
        begin = result->prompt_ends[i];
        turn->end = position + (uint32_t)begin;
        turn->after = first + i ? chat->turns[first + i - 1].number : PART_NONE;
        if (i >= result->n_same) {
            bool same = turn->number != PART_NONE && !otherwise;
            turn->number = (int64_t)chat->asked + (int64_t)i;
            turn->said = same ? turn->said : turn->number;
        }
        if (!turn->made.time)
            turn->made.time = result->asked;
    }
    chat_drop_unused(chat);
    return true;
}

bool chat_last_is_fed(const struct chat *chat)
{
    return chat->n_turns && chat->turns[chat->n_turns - 1].end;
}

// What keeper_save_message did to the parts on the disk: those of the try before are forgotten that nothing follows.
static void forget_tried(struct chat *chat, const struct turn_parts *tried)
{
    for (uint32_t n = tried->count; n > 0; n--)
        for (size_t i = chat->n_others; i > 0; i--) {
            int64_t number = (int64_t)tried->first + n - 1;
            if (chat->others[i - 1].number == number && !chat_is_followed(chat, number))
                remove_other(chat, i - 1);
        }
}

// The message came to nothing, but its parts were noted: they are the conversation's end.
static bool keep_tried(struct chat *chat, const struct turn_result *result)
{
    size_t first = first_unfed(chat), same = result->n_same, begin = same ? result->prompt_ends[same - 1] : 0;
    int64_t after = first + same ? chat->turns[first + same - 1].number : PART_NONE;
    bool otherwise = begins_otherwise(chat);
    for (size_t i = same; i < result->n_prompt_ends; i++) {
        const struct chat_turn *unfed = &chat->turns[first + i];
        struct chat_turn tried = {.role = unfed->role, .number = (int64_t)chat->asked + (int64_t)i, .after = after};
        tried.said = unfed->number != PART_NONE && !otherwise ? unfed->said : tried.number;
        tried.made = unfed->made;
        tried.made.time = tried.made.time ? tried.made.time : result->asked;
        if (!bytes_append(&tried.text, unfed->text.data ? unfed->text.data : "", unfed->text.length) ||
            !copy_ids(&tried.ids, result->prompt.ids + begin, result->prompt_ends[i] - begin)) {
            turn_release(&tried);
            return false;
        }
        begin = result->prompt_ends[i];
        after = tried.number;
        keep_aside(chat, &tried);
    }
    chat->tried = (struct turn_parts){chat->asked + (uint32_t)same, (uint32_t)(result->n_prompt_ends - same)};
    size_t held = chat->held > first ? chat->held : first; // of what stays, what the engine does not have yet
    chat->tried_unfed = same && held < first + same ? chat->turns[held].number : (int64_t)chat->tried.first;
    return chat_go(chat, after);
}

// The request was refused before anything was taken back for it: what was to be fed otherwise still is as it was.
static void recall_fed(struct chat *chat)
{
    uint32_t position = chat_position(chat);
    for (size_t i = first_unfed(chat); i < chat->was_fed; i++)
        chat->turns[i].end = position += (uint32_t)chat->turns[i].ids.count;
    chat->fed_think = chat->was_think;
}

struct chat_place chat_place(const struct chat *chat)
{
    return (struct chat_place){true, chat_last(chat), chat->undid, chat->undone};
}

// A request without room, for which something had been taken back.
static bool go_back(struct chat *chat, const struct chat_place *to)
{
    if (!chat->again) {
        chat_cut(chat, chat->n_turns - 1); // the message, which is in no branch
        recall_fed(chat);
    }
    chat->again = chat->resends = false;
    chat->undid = to->undid;
    chat->undone = to->undone;
    return chat_go(chat, to->last);
}

bool chat_accept(struct chat *chat, const struct turn_result *result, const struct bytes *answer)
{
    const struct chat_place back = chat->back;
    chat->back.noted = false;
    if (back.noted && !result->kept && result->reason == STOP_CONTEXT_FULL) {
        chat->left = 0;
        return go_back(chat, &back);
    }
    bool again = chat->again;
    int64_t left = result->reason == STOP_CONTEXT_FULL ? chat->left - 1 : PART_NONE;
    // What is fed once more may have been fed so before: behind that beginning, or with its thinking or without.
    size_t unfed = first_unfed(chat);
    bool otherwise = unfed < chat->n_turns && chat->turns[unfed].number != PART_NONE;
    otherwise |= begins_otherwise(chat);
    chat->again = false;
    chat->left = 0;
    if (again && result->n_prompt_ends)
        chat->turns[chat->n_turns - 1].end = 0; // turn_reopen: it was fed once more
    else if (again)
        chat->next_number = chat->asked + 1;
    if (!result->kept && chat_last_is_fed(chat))
        return true;
    bool resends = chat->resends;
    chat->resends = false;
    bool stays = !result->kept && result->noted, fine = !stays || keep_tried(chat, result);
    if (result->noted)
        forget_tried(chat, &result->instead);
    if (stays) {
        chat->undid = false;
        bytes_release(&chat->unsent);
        return fine && (!otherwise || chat_find_same(chat));
    }
    if (!result->kept) {
        if (!result->instead.count && left == PART_NONE)
            chat->tried = (struct turn_parts){0};
        bytes_release(&chat->unsent);
        chat->refused = result->reason == STOP_CONTEXT_FULL && !resends;
        chat->unsent = chat->turns[chat->n_turns - 1].text;
        chat->turns[chat->n_turns - 1].text = (struct bytes){0};
        chat_cut(chat, chat->n_turns - 1);
        if (result->reason == STOP_CONTEXT_FULL && !again)
            recall_fed(chat);
        return left == PART_NONE || chat_go(chat, left);
    }
    bytes_release(&chat->unsent);
    chat->tried = (struct turn_parts){0};
    chat->system_set = chat->undid = false;
    struct tok_turn what = {.role = TOK_ASSISTANT, .text = answer->data, .length = answer->length};
    if (!accept_prompt(chat, result) || !insert_turn(chat, chat->n_turns, TOK_ASSISTANT, &what))
        return false;
    struct chat_turn *last = &chat->turns[chat->n_turns - 1];
    if (!copy_ids(&last->ids, result->answer.ids, result->answer.count))
        return false;
    last->end = result->context_used;
    last->made = result->made;
    last->number = last->said = (int64_t)chat->asked + (int64_t)result->n_prompt_ends;
    last->after = chat->turns[chat->n_turns - 2].number;
    return !otherwise || chat_find_same(chat);
}

size_t chat_take_back(struct chat *chat, size_t n)
{
    size_t taken = 0, left = chat->n_turns;
    int64_t end = chat_last(chat);
    // What was taken back before and still follows is ahead together with this.
    bool ahead = chat->undid && chat->undone != end && chat_end_behind(chat, end) == chat->undone;
    if (chat_exchanges(chat) && !ahead) {
        chat->undid = true;
        chat->undone = chat->turns[chat->n_turns - 1].number;
    }
    for (size_t i = left; taken < n && i > 0; i--)
        if (chat->turns[i - 1].role == TOK_USER) {
            left = i - 1;
            taken++;
        }
    chat_cut(chat, left);
    return taken;
}

size_t chat_undo(struct chat *chat, size_t n)
{
    bool known = waits_as_it_is(chat);
    size_t taken = chat_take_back(chat, n);
    if (known) // what was to be fed with that message has its ids
        chat_count_fed(chat);
    return taken;
}

bool chat_take_last(struct chat *chat, struct bytes *text)
{
    if (!chat_has_unsent(chat)) {
        size_t last = chat->n_turns;
        while (last > 0 && chat->turns[last - 1].role != TOK_USER)
            last--;
        if (last == 0)
            return false;
        const struct bytes *said = &chat->turns[last - 1].text;
        struct bytes again = {0};
        if (!bytes_append(&again, said->data ? said->data : "", said->length))
            return false;
        bytes_release(&chat->unsent);
        chat->unsent = again;
        chat_cut(chat, last - 1);
    }
    *text = chat->unsent;
    chat->unsent = (struct bytes){0};
    chat->resends = true;
    return true;
}

bool chat_follows(const struct part *parts, size_t n_parts)
{
    for (size_t i = 0; i < n_parts; i++) {
        enum tok_role before = i ? parts[i - 1].role : TOK_ASSISTANT;
        if (parts[i].role == TOK_SYSTEM ? i > 0 : (parts[i].role == TOK_USER) != (before != TOK_USER))
            return false;
    }
    return true;
}

bool chat_restore(struct chat *chat, const struct part *parts, size_t n_parts)
{
    if (!chat_follows(parts, n_parts))
        return false;
    uint32_t end = 0;
    bool fed = true;
    chat_release(chat);
    chat->next_number = n_parts ? parts[n_parts - 1].number + 1 : 0;
    for (size_t i = 0; i < n_parts; i++) {
        const struct part *part = &parts[i];
        struct tok_turn what = {.role = part->role, .text = part->text.data, .length = part->text.length};
        if (!insert_turn(chat, i, part->role, &what) || !copy_ids(&chat->turns[i].ids, part->ids.ids, part->ids.count))
            return false;
        end += (uint32_t)part->ids.count;
        fed = fed && !part_is_unfed(part->role, &part->text, part->ids.count);
        chat->turns[i].end = fed ? end : 0;
        chat->turns[i].number = part->number;
        chat->turns[i].said = said_as(part);
        chat->turns[i].made = part->made;
        chat->turns[i].after = i ? (int64_t)parts[i - 1].number : PART_NONE;
    }
    return chat_find_same(chat);
}

bool chat_restore_others(struct chat *chat, const struct part *parts, size_t n_parts,
                         const struct part_language *language)
{
    for (size_t i = 0; i < n_parts; i++) {
        const struct part *part = &parts[i];
        struct chat_turn turn = {.role = part->role, .number = part->number, .after = part->after, .made = part->made};
        turn.said = said_as(part);
        bool known = part_language_same(&part->language, language);
        if (!bytes_append(&turn.text, part->text.data, part->text.length) ||
            (known && !copy_ids(&turn.ids, part->ids.ids, part->ids.count))) {
            turn_release(&turn);
            return false;
        }
        if (!keep_aside(chat, &turn))
            return false;
        if (part->number >= chat->next_number)
            chat->next_number = part->number + 1;
    }
    return chat_find_same(chat);
}

void chat_feed_anew(struct chat *chat)
{
    forget_fed(chat, 0);
    for (size_t i = 0; i < chat->n_turns + chat->n_others; i++) {
        struct chat_turn *turn = i < chat->n_turns ? &chat->turns[i] : &chat->others[i - chat->n_turns];
        tok_ids_release(&turn->ids);
        turn->ids = (struct tok_ids){0};
    }
}

bool chat_timeline(const struct chat *chat, struct tok_ids *ids)
{
    size_t n = first_unfed(chat);
    for (size_t i = 0; i < n; i++)
        if (!copy_ids(ids, chat->turns[i].ids.ids, chat->turns[i].ids.count))
            return false;
    return true;
}

bool chat_save(const struct chat *chat, struct saved *saved, const struct part_language *language)
{
    size_t n = first_unfed(chat), end = begins_otherwise(chat) ? n : chat->n_turns;
    while (n < end && chat->turns[n].number != PART_NONE)
        n++;
    struct part *parts = calloc(n + chat->n_others + 1, sizeof *parts);
    for (size_t i = 0; parts && i < n + chat->n_others; i++) {
        const struct chat_turn *turn = i < n ? &chat->turns[i] : &chat->others[i - n];
        parts[i] = (struct part){.role = turn->role,
                                 .text = turn->text, // borrowed
                                 .ids = turn->ids,
                                 .number = (uint32_t)turn->number,
                                 .after = turn->after,
                                 .made = made_as(turn, turn->said != turn->number),
                                 .language = *language};
    }
    bool fine = parts && saved_adopt(saved, (struct saved_tree){parts, parts + n, n, chat->n_others});
    free(parts);
    return fine;
}
