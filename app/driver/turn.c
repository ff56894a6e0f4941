// SPDX-License-Identifier: GPL-3.0-or-later
// Makes and frees turns and their results.
#include "app/driver/turn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *stop_reason_name(enum stop_reason reason)
{
    static const char *const names[] = {"end", "max_tokens", "context_full", "cancelled", "error", "stop"};
    return names[reason];
}

struct turn *turn_new(void)
{
    struct turn *turn = calloc(1, sizeof *turn);
    if (turn)
        turn->result = calloc(1, sizeof *turn->result);
    if (!turn || turn->result)
        return turn;
    free(turn);
    return NULL;
}

bool turn_add(struct turn *turn, enum tok_role role, const char *text, size_t length)
{
    struct tok_turn *grown = realloc(turn->turns, (turn->n_turns + 1) * sizeof *grown);
    if (!grown)
        return false;
    turn->turns = grown;
    struct part_made *made = realloc(turn->made, (turn->n_turns + 1) * sizeof *made);
    if (!made)
        return false;
    turn->made = made;
    char *copy = malloc(length + 1);
    if (!copy)
        return false;
    if (length)
        memcpy(copy, text, length);
    copy[length] = 0;
    made[turn->n_turns] = (struct part_made){.time = 0};
    grown[turn->n_turns++] = (struct tok_turn){.role = role, .text = copy, .length = length};
    return true;
}

void turn_was_made(struct turn *turn, const struct part_made *made)
{
    turn->made[turn->n_turns - 1] = *made;
}

bool turn_leaves(struct turn *turn, uint32_t part)
{
    uint32_t *grown = realloc(turn->left, (turn->n_left + 1) * sizeof *grown);
    if (!grown)
        return false;
    turn->left = grown;
    grown[turn->n_left++] = part;
    return true;
}

void turn_free(struct turn *turn)
{
    if (!turn)
        return;
    for (size_t i = 0; i < turn->n_turns; i++)
        free((char *)turn->turns[i].text);
    free(turn->turns);
    free(turn->made);
    free(turn->left);
    tok_ids_release(&turn->known);
    turn_result_free(turn->result);
    free(turn);
}

void turn_note_answer(const struct turn *turn, struct turn_result *result)
{
    result->made = (struct part_made){
        .time = (uint64_t)time(NULL), .sampling = turn->sampling.numbers, .max_tokens = turn->max_tokens};
    snprintf(result->made.stop, sizeof result->made.stop, "%s", stop_reason_name(result->reason));
}

void turn_result_free(struct turn_result *result)
{
    if (!result)
        return;
    tok_ids_release(&result->prompt);
    tok_ids_release(&result->answer);
    bytes_release(&result->text);
    free(result->prompt_ends);
    free(result);
}
