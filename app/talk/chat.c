// SPDX-License-Identifier: GPL-3.0-or-later
// Keeps the turns of a conversation.
#include "app/talk/chat_parts.h"

#include <stdlib.h>
#include <string.h>

void chat_turn_release(struct chat_turn *turn)
{
    bytes_release(&turn->text);
    tok_ids_release(&turn->ids);
}

void chat_put_aside(struct chat *chat, struct chat_turn *turn)
{
    if (turn->number == PART_NONE) {
        chat_turn_release(turn);
        return;
    }
    struct chat_turn *others = chat->others;
    size_t at = chat->n_others++;
    for (; at > 0 && others[at - 1].number > turn->number; at--)
        others[at] = others[at - 1];
    others[at] = *turn;
    others[at].end = 0;
}

bool chat_keep_aside(struct chat *chat, struct chat_turn *turn)
{
    if (chat->n_others == chat->others_room) {
        size_t room = 2 * chat->others_room + 4; // a tree may be of 100,000
        struct chat_turn *grown = realloc(chat->others, room * sizeof *grown);
        if (!grown) {
            chat_turn_release(turn);
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
        chat_keep_aside(chat, &chat->turns[i]);
    if (chat->n_turns > n_turns)
        chat->n_turns = n_turns;
}

// The turns from there on, and all other branches, are forgotten.
static void forget(struct chat *chat, size_t n_turns)
{
    while (chat->n_turns > n_turns)
        chat_turn_release(&chat->turns[--chat->n_turns]);
    chat_prune(chat);
}

void chat_prune(struct chat *chat)
{
    while (chat->n_others > 0)
        chat_turn_release(&chat->others[--chat->n_others]);
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

bool chat_insert_turn(struct chat *chat, size_t at, enum tok_role role, const struct tok_turn *what)
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
    if (length && !chat_insert_turn(chat, 0, TOK_SYSTEM, &what))
        return false;
    if (had) {
        size_t old = length ? 1 : 0;
        chat_keep_aside(chat, &chat->turns[old]);
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

size_t chat_first_unfed(const struct chat *chat)
{
    size_t i = 0;
    while (i < chat->n_turns && chat->turns[i].end)
        i++;
    return i;
}

uint32_t chat_position(const struct chat *chat)
{
    size_t unfed = chat_first_unfed(chat);
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
    for (size_t i = waits_as_it_is(chat) ? chat_first_unfed(chat) : chat->n_turns; i < chat->n_turns; i++)
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

bool chat_copy_ids(struct tok_ids *list, const int32_t *ids, size_t count)
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
    size_t unfed = chat_first_unfed(chat);
    return unfed && chat->turns[unfed].role == TOK_ASSISTANT ? unfed - 1 : first_changed(chat);
}

bool chat_begins_otherwise(const struct chat *chat)
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
    return chat->system_set && (chat_begins_otherwise(chat) || (alone && chat->n_others));
}

// What the first message was said behind; NULL: nothing.
static const struct chat_turn *replaced_system(const struct chat *chat)
{
    size_t first = chat_system(chat) != NULL;
    return first < chat->n_turns ? chat_find(chat, chat->turns[first].after) : NULL;
}

size_t chat_messages(const struct chat *chat)
{
    const struct chat_turn *system = chat_system(chat);
    if (!chat_system_waits(chat))
        return chat->n_turns - (system && system->number == PART_NONE);
    return chat->n_turns - (system != NULL) + (replaced_system(chat) != NULL);
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
    if (!turn || !chat_insert_turn(chat, chat->n_turns, TOK_USER, &what)) {
        turn_free(turn);
        chat->left = 0;
        return NULL;
    }
    chat->was_fed = chat_first_unfed(chat);
    chat->was_think = chat->fed_think;
    if (chat_begins_anew(chat, chat->think))
        forget_fed(chat, 0);
    chat->held = chat_first_unfed(chat);
    bool known = true;
    size_t first = first_to_feed(chat), unfed = chat_first_unfed(chat);
    turn->fills = unfed + 1 < chat->n_turns;
    for (size_t i = first; i < unfed; i++)
        known = known && chat_copy_ids(&turn->known, chat->turns[i].ids.ids, chat->turns[i].ids.count);
    forget_fed(chat, first);
    turn->position = chat_position(chat);
    turn->behind_system = is_behind_system(chat, chat_first_unfed(chat));
    turn->think = chat->fed_think = chat->think;
    bool otherwise = chat_begins_otherwise(chat); // then what was said behind the old beginning stays as a branch
    if (is_tried(chat, text, length))
        turn->instead = chat->tried;
    for (size_t i = 0; i < chat->n_others && known; i++)
        known = chat->others[i].role != TOK_SYSTEM || turn_leaves(turn, (uint32_t)chat->others[i].number);
    bool noted = !otherwise;
    for (size_t i = chat_first_unfed(chat); i < chat->n_turns && known; i++) {
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
    if (!turn || !chat_copy_ids(&turn->known, message->ids.ids, count) ||
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

uint32_t chat_number_system(struct chat *chat, uint64_t time)
{
    uint32_t number = chat->next_number;
    if (chat_system(chat)) {
        chat->turns[0].made.time = time;
        chat->turns[0].number = chat->turns[0].said = chat->next_number++;
        chat->turns[0].after = PART_NONE;
    }
    chat_drop_unused(chat);
    return number;
}

bool chat_last_is_fed(const struct chat *chat)
{
    return chat->n_turns && chat->turns[chat->n_turns - 1].end;
}

struct chat_place chat_place(const struct chat *chat)
{
    return (struct chat_place){true, chat_last(chat), chat->undid, chat->undone};
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

// A last message of a session that was stopped before it had ids is another try's, as it was in the chat that it was
// said in.
static void note_unfed(struct chat *chat)
{
    const struct chat_turn *last = &chat->turns[chat->n_turns - 1];
    if (last->role != TOK_USER || last->number == PART_NONE || chat_waits(chat) ||
        !part_is_unfed(last->role, &last->text, last->ids.count))
        return;
    chat->tried = (struct turn_parts){(uint32_t)last->number, 1};
    chat->tried_unfed = last->number;
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
        note_unfed(chat);
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
        if (!chat_insert_turn(chat, i, part->role, &what) ||
            !chat_copy_ids(&chat->turns[i].ids, part->ids.ids, part->ids.count))
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
            (known && !chat_copy_ids(&turn.ids, part->ids.ids, part->ids.count))) {
            chat_turn_release(&turn);
            return false;
        }
        if (!chat_keep_aside(chat, &turn))
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
    size_t n = chat_first_unfed(chat);
    for (size_t i = 0; i < n; i++)
        if (!chat_copy_ids(ids, chat->turns[i].ids.ids, chat->turns[i].ids.count))
            return false;
    return true;
}

bool chat_save(const struct chat *chat, struct saved *saved, const struct part_language *language)
{
    size_t n = chat_first_unfed(chat), end = chat_begins_otherwise(chat) ? n : chat->n_turns;
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
