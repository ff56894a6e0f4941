// SPDX-License-Identifier: GPL-3.0-or-later
// The way through the branches of a conversation.
#include "app/talk/chat_parts.h"

#include <stdlib.h>
#include <string.h>

static const struct chat_turn *other(const struct chat *chat, int64_t number)
{
    size_t low = 0, high = chat->n_others;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (chat->others[middle].number == number)
            return &chat->others[middle];
        if (chat->others[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

// Of the conversation; its numbers ascend but where a last message has none, or the system message was set again.
static const struct chat_turn *own(const struct chat *chat, int64_t number)
{
    size_t low = 0, high = chat->n_turns;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (chat->turns[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < chat->n_turns && chat->turns[low].number == number)
        return &chat->turns[low];
    for (size_t i = 0; i < chat->n_turns; i++)
        if (chat->turns[i].number == number)
            return &chat->turns[i];
    return NULL;
}

const struct chat_turn *chat_find(const struct chat *chat, int64_t number)
{
    const struct chat_turn *found = number != PART_NONE ? other(chat, number) : NULL;
    return found || number == PART_NONE ? found : own(chat, number);
}

// What a turn stands behind: what was said before it, but PART_NONE where that is a system message.
static int64_t place_of(const struct chat *chat, const struct chat_turn *turn)
{
    const struct chat_turn *before = chat_find(chat, turn->after);
    return before && before->role != TOK_SYSTEM ? before->said : PART_NONE;
}

bool chat_is_first(const struct chat *chat, const struct chat_turn *turn)
{
    if (turn->number == turn->said)
        return true;
    for (size_t i = 0; i < chat->n_turns + chat->n_others; i++) {
        const struct chat_turn *one = i < chat->n_turns ? &chat->turns[i] : &chat->others[i - chat->n_turns];
        if (one->number != PART_NONE && one->said == turn->said && one->number < turn->number)
            return false;
    }
    return true;
}

static bool is_beside(const struct chat *chat, const struct chat_turn *turn, const struct chat_turn *candidate)
{
    return candidate->role == turn->role && candidate->said != turn->said &&
           place_of(chat, candidate) == place_of(chat, turn) && chat_is_first(chat, candidate);
}

const struct chat_turn *chat_last_answer(const struct chat *chat)
{
    const struct chat_turn *last = chat->n_turns ? &chat->turns[chat->n_turns - 1] : NULL;
    if (!last || last->role != TOK_USER)
        return last && last->role == TOK_ASSISTANT ? last : NULL;
    for (size_t i = chat->n_others; i > 0 && last->number != PART_NONE; i--) {
        const struct chat_turn *answer = &chat->others[i - 1];
        const struct chat_turn *before = answer->role == TOK_ASSISTANT ? chat_find(chat, answer->after) : NULL;
        if (before && before->said == last->said)
            return answer;
    }
    return NULL;
}

// From the i-th turn on, those of other branches behind those of the conversation.
static struct chat_rank rank_among(const struct chat *chat, const struct chat_turn *turn, size_t from)
{
    struct chat_rank rank = {.count = 1};
    if (turn->role == TOK_SYSTEM || turn->number == PART_NONE)
        return rank;
    for (size_t i = from; i < chat->n_turns + chat->n_others; i++) {
        const struct chat_turn *one = i < chat->n_turns ? &chat->turns[i] : &chat->others[i - chat->n_turns];
        bool beside = one != turn && one->number != PART_NONE && is_beside(chat, turn, one);
        rank.count += beside;
        rank.index += beside && one->said < turn->said;
    }
    return rank;
}

struct chat_rank chat_rank(const struct chat *chat, size_t turn)
{
    return rank_among(chat, &chat->turns[turn], chat->n_turns); // no two of the conversation are beside each other
}

struct chat_rank chat_rank_of(const struct chat *chat, int64_t number)
{
    const struct chat_turn *turn = chat_find(chat, number);
    return turn ? rank_among(chat, turn, 0) : (struct chat_rank){0};
}

bool chat_last_choice(const struct chat *chat, size_t *turn)
{
    for (*turn = chat->n_turns; *turn > 0;)
        if (chat_rank(chat, --*turn).count > 1)
            return true;
    return false;
}

int64_t chat_beside(const struct chat *chat, size_t at, int step)
{
    const struct chat_turn *turn = &chat->turns[at];
    int64_t found = PART_NONE;
    for (size_t i = 0; i < chat->n_others && turn->number != PART_NONE; i++) {
        size_t n = step < 0 ? chat->n_others - 1 - i : i;
        const struct chat_turn *candidate = &chat->others[n];
        bool towards = step < 0 ? candidate->said < turn->said : candidate->said > turn->said;
        if (!towards || !is_beside(chat, turn, candidate))
            continue;
        found = candidate->number;
        if ((step += step < 0 ? 1 : -1) == 0)
            return found;
    }
    return PART_NONE;
}

// Does that turn follow the other by any way, or is it the same?
static bool follows(const struct chat *chat, int64_t number, int64_t first)
{
    const struct chat_turn *turn = chat_find(chat, number);
    while (turn && turn->number != first)
        turn = chat_find(chat, turn->after);
    return turn;
}

static bool is_undone(const struct chat *chat)
{
    return chat->undid && other(chat, chat->undone);
}

int64_t chat_end_behind(const struct chat *chat, int64_t number)
{
    if (is_undone(chat) && follows(chat, chat->undone, number))
        number = chat->undone; // which is an end itself, but in sessions of before
    for (size_t i = chat->n_others; i > 0 && chat->others[i - 1].number > number; i--)
        if (follows(chat, chat->others[i - 1].number, number))
            return chat->others[i - 1].number;
    return number;
}

// Was that said on the way to this turn, or is it what this turn says?
static bool follows_what_was_said(const struct chat *chat, int64_t number, int64_t said)
{
    const struct chat_turn *turn = chat_find(chat, number);
    while (turn && turn->said != said)
        turn = chat_find(chat, turn->after);
    return turn;
}

int64_t chat_end_of(const struct chat *chat, int64_t number)
{
    const struct chat_turn *turn = chat_find(chat, number);
    if (!turn)
        return number;
    if (is_undone(chat) && follows_what_was_said(chat, chat->undone, turn->said))
        return chat_end_behind(chat, chat->undone);
    for (size_t i = chat->n_others; i > 0 && chat->others[i - 1].number > number; i--)
        if (follows_what_was_said(chat, chat->others[i - 1].number, turn->said))
            return chat->others[i - 1].number;
    return number;
}

int64_t chat_last(const struct chat *chat)
{
    int64_t number = PART_NONE;
    for (size_t i = 0; i < chat->n_turns; i++)
        if (chat->turns[i].number != PART_NONE)
            number = chat->turns[i].number;
    return number;
}

// Where the conversation would go on: its newest end behind what is there, or behind nothing.
static int64_t end_ahead(const struct chat *chat, bool begins)
{
    if (!begins)
        return chat_end_behind(chat, chat_last(chat));
    if (is_undone(chat))
        return chat_end_behind(chat, chat->undone);
    return chat->n_others ? chat->others[chat->n_others - 1].number : PART_NONE;
}

int64_t chat_redo(const struct chat *chat, size_t *n)
{
    size_t wanted = *n, n_way = 0;
    bool begins = !chat_exchanges(chat);
    int64_t from = begins ? PART_NONE : chat_last(chat), end = end_ahead(chat, begins), found = PART_NONE;
    const struct chat_turn **way = calloc(chat->n_others + 1, sizeof(void *));
    *n = 0;
    for (const struct chat_turn *turn = other(chat, end); way && turn && turn->number != from;
         turn = other(chat, turn->after))
        way[n_way++] = turn;
    for (; n_way > 0; n_way--) {
        const struct chat_turn *turn = way[n_way - 1];
        if (turn->role == TOK_USER && *n == wanted)
            break;
        *n += turn->role == TOK_USER || (turn->role == TOK_ASSISTANT && !*n);
        found = turn->role == TOK_SYSTEM ? found : turn->number;
    }
    free(way);
    return found;
}

// Takes a turn out of the others.
static struct chat_turn take(struct chat *chat, int64_t number)
{
    size_t at = (size_t)(other(chat, number) - chat->others);
    struct chat_turn taken = chat->others[at];
    memmove(chat->others + at, chat->others + at + 1, (--chat->n_others - at) * sizeof taken);
    return taken;
}

void chat_count_fed(struct chat *chat)
{
    bool waits = chat->n_turns && turn_parts_end_with(&chat->tried, chat->turns[chat->n_turns - 1].number), fed = true;
    uint32_t end = 0;
    for (size_t i = 0; i < chat->n_turns; i++) {
        struct chat_turn *turn = &chat->turns[i];
        fed = fed && !part_is_unfed(turn->role, &turn->text, turn->ids.count) &&
              !(waits && turn->number >= chat->tried_unfed);
        end += (uint32_t)turn->ids.count;
        turn->end = fed ? end : 0;
    }
}

static bool go(struct chat *chat, int64_t number)
{
    size_t n = 0, same = 0;
    for (const struct chat_turn *turn = chat_find(chat, number); turn; turn = chat_find(chat, turn->after))
        n++;
    int64_t *way = calloc(n + 1, sizeof *way);
    size_t turns_room = n + chat->n_turns + 1;
    struct chat_turn *turns = calloc(turns_room, sizeof *turns);
    size_t room = n + chat->n_turns + chat->n_others + 1;
    struct chat_turn *others = calloc(room, sizeof *others);
    bool fine = n && way && turns && others;
    for (size_t i = n; fine && i > 0; i--) {
        way[i - 1] = number;
        number = chat_find(chat, number)->after;
    }
    while (fine && same < n && same < chat->n_turns && chat->turns[same].number == way[same])
        same++;
    if (fine) { // with room for all that moves
        for (size_t i = 0; i < chat->n_turns; i++)
            turns[i] = chat->turns[i];
        for (size_t i = 0; i < chat->n_others; i++)
            others[i] = chat->others[i];
        free(chat->turns);
        free(chat->others);
        chat->turns = turns;
        chat->turns_room = turns_room;
        chat->others = others;
        chat->others_room = room;
        turns = others = NULL;
        for (size_t i = same; i < chat->n_turns; i++)
            chat_put_aside(chat, &chat->turns[i]);
        chat->n_turns = same;
    }
    for (size_t i = same; fine && i < n; i++)
        chat->turns[chat->n_turns++] = take(chat, way[i]);
    if (fine)
        chat_count_fed(chat);
    free(way);
    free(turns);
    free(others);
    return fine;
}

bool chat_go(struct chat *chat, int64_t number)
{
    const struct chat_turn *now = chat_system(chat);
    struct bytes set = {0};
    if (now && chat->n_turns == 1 && !chat_is_followed(chat, now->number)) // nobody spoke behind it yet: it goes along
        chat->system_set = true;
    bool fine = bytes_append(&set, now ? now->text.data : "", now ? now->text.length : 0) && go(chat, number);
    if (fine && chat->system_set && !chat_system_is(chat, set.data, set.length))
        fine = chat_set_system(chat, set.data, set.length);
    bytes_release(&set);
    return fine;
}

// Is that the system message, or with length 0 none, that the first message was said behind?
static bool said_behind(const struct chat *chat, const char *text, size_t length)
{
    size_t first = chat_system(chat) ? 1 : 0;
    const struct chat_turn *message = first < chat->n_turns ? &chat->turns[first] : NULL;
    if (!message || message->number == PART_NONE || message->after == PART_NONE)
        return message && message->number != PART_NONE && !length;
    const struct chat_turn *system = chat_find(chat, message->after);
    return system && system->text.length == length && memcmp(system->text.data, text, length) == 0;
}

bool chat_change_system(struct chat *chat, const char *text, size_t length)
{
    if (!said_behind(chat, text, length))
        return chat_set_system(chat, text, length);
    if (!go(chat, chat_last(chat)))
        return false;
    chat->system_set = true;
    return true;
}
