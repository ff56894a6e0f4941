// SPDX-License-Identifier: GPL-3.0-or-later
// What a chat makes of a request that came to its end: answered, stopped or refused.
#include "app/talk/chat_parts.h"

#include <string.h>

// A turn that is fed otherwise now, but in another branch stands as it was.
static bool leave_to_branches(struct chat *chat, const struct chat_turn *turn)
{
    struct chat_turn old = *turn;
    old.text = (struct bytes){0};
    old.ids = (struct tok_ids){0};
    bool fine = bytes_append(&old.text, turn->text.data ? turn->text.data : "", turn->text.length) &&
                chat_copy_ids(&old.ids, turn->ids.ids, turn->ids.count);
    if (fine)
        chat_keep_aside(chat, &old);
    else
        chat_turn_release(&old);
    return fine;
}

static void remove_other(struct chat *chat, size_t at)
{
    chat_turn_release(&chat->others[at]);
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

// Gives the turns that were fed their ids, ends and numbers. What keeper_save_prompt does to the parts on the disk is
// the same.
static bool accept_prompt(struct chat *chat, const struct turn_result *result)
{
    size_t first = chat_first_unfed(chat), begin = 0;
    uint32_t position = chat_position(chat);
    bool otherwise = chat_begins_otherwise(chat);
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
        if (!chat_copy_ids(&turn->ids, result->prompt.ids + begin, result->prompt_ends[i] - begin))
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
    size_t first = chat_first_unfed(chat), same = result->n_same, begin = same ? result->prompt_ends[same - 1] : 0;
    int64_t after = first + same ? chat->turns[first + same - 1].number : PART_NONE;
    bool otherwise = chat_begins_otherwise(chat);
    for (size_t i = same; i < result->n_prompt_ends; i++) {
        const struct chat_turn *unfed = &chat->turns[first + i];
        struct chat_turn tried = {.role = unfed->role, .number = (int64_t)chat->asked + (int64_t)i, .after = after};
        tried.said = unfed->number != PART_NONE && !otherwise ? unfed->said : tried.number;
        tried.made = unfed->made;
        tried.made.time = tried.made.time ? tried.made.time : result->asked;
        if (!bytes_append(&tried.text, unfed->text.data ? unfed->text.data : "", unfed->text.length) ||
            !chat_copy_ids(&tried.ids, result->prompt.ids + begin, result->prompt_ends[i] - begin)) {
            chat_turn_release(&tried);
            return false;
        }
        begin = result->prompt_ends[i];
        after = tried.number;
        chat_keep_aside(chat, &tried);
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
    for (size_t i = chat_first_unfed(chat); i < chat->was_fed; i++)
        chat->turns[i].end = position += (uint32_t)chat->turns[i].ids.count;
    chat->fed_think = chat->was_think;
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

// How a request was asked for.
struct asked {
    bool again, resends;
    int64_t left; // where the conversation goes back to where there was no room; PART_NONE: it stays
};

// Nothing of the message is in the conversation: it can be sent again.
static bool take_message_back(struct chat *chat, const struct turn_result *result, const struct asked *asked)
{
    if (!result->instead.count && asked->left == PART_NONE)
        chat->tried = (struct turn_parts){0};
    bytes_release(&chat->unsent);
    chat->refused = result->reason == STOP_CONTEXT_FULL && !asked->resends;
    chat->unsent = chat->turns[chat->n_turns - 1].text;
    chat->turns[chat->n_turns - 1].text = (struct bytes){0};
    chat_cut(chat, chat->n_turns - 1);
    if (result->reason == STOP_CONTEXT_FULL && !asked->again)
        recall_fed(chat);
    return asked->left == PART_NONE || chat_go(chat, asked->left);
}

// The prompt and what was said to it are the conversation's.
static bool accept_answer(struct chat *chat, const struct turn_result *result, const struct bytes *answer)
{
    bytes_release(&chat->unsent);
    chat->tried = (struct turn_parts){0};
    chat->system_set = chat->undid = false;
    struct tok_turn what = {.role = TOK_ASSISTANT, .text = answer->data, .length = answer->length};
    if (!accept_prompt(chat, result) || !chat_insert_turn(chat, chat->n_turns, TOK_ASSISTANT, &what))
        return false;
    struct chat_turn *last = &chat->turns[chat->n_turns - 1];
    if (!chat_copy_ids(&last->ids, result->answer.ids, result->answer.count))
        return false;
    last->end = result->context_used;
    last->made = result->made;
    last->number = last->said = (int64_t)chat->asked + (int64_t)result->n_prompt_ends;
    last->after = chat->turns[chat->n_turns - 2].number;
    return true;
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
    size_t unfed = chat_first_unfed(chat);
    bool otherwise = unfed < chat->n_turns && chat->turns[unfed].number != PART_NONE;
    otherwise |= chat_begins_otherwise(chat);
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
        chat_drop_unused(chat);
        return fine && (!otherwise || chat_find_same(chat));
    }
    if (!result->kept)
        return take_message_back(chat, result, &(struct asked){again, resends, left});
    return accept_answer(chat, result, answer) && (!otherwise || chat_find_same(chat));
}
