// SPDX-License-Identifier: GPL-3.0-or-later
// The conversation, against a pretended engine that feeds every byte of a turn as one token and 3 more for its markers.
#include "tests/harness.h"

#include <stdlib.h>
#include <unistd.h>

#include "app/talk/chat.h"
#include "app/talk/tree.h"

struct engine {
    uint32_t length; // of its timeline
    size_t n_fed;    // turns of the last request
};

// Sends `text` and takes in an answer of one token for each byte; with kept false the turn fails.
static void exchange(struct harness *t, struct chat *chat, struct engine *engine, const char *text, const char *reply,
                     bool kept)
{
    struct turn *turn = chat_request(chat, text, strlen(text));
    if (!CHECK(t, turn != NULL))
        return;
    CHECK(t, turn->position <= engine->length);
    engine->length = turn->position;
    engine->n_fed = turn->n_turns;
    struct turn_result result = {.kept = kept,
                                 .noted = kept,
                                 .instead = turn->instead,
                                 .n_prompt_ends = turn->n_turns,
                                 .asked = 100 + turn->number};
    result.made = (struct part_made){.time = 200 + turn->number, .sampling.seed = turn->number, .stop = "end"};
    struct tok_err err;
    result.prompt_ends = calloc(turn->n_turns, sizeof(size_t));
    for (size_t i = 0; i < turn->n_turns; i++) {
        for (size_t n = 0; n < turn->turns[i].length + 3; n++)
            tok_ids_append(&result.prompt, (int32_t)turn->turns[i].role, &err);
        result.prompt_ends[i] = result.prompt.count;
    }
    for (size_t n = 0; n < strlen(reply) + 1; n++)
        tok_ids_append(&result.answer, 7, &err);
    if (kept)
        engine->length += (uint32_t)(result.prompt.count + result.answer.count);
    result.context_used = engine->length;
    struct bytes answer = {0};
    bytes_append(&answer, reply, strlen(reply));
    CHECK(t, chat_accept(chat, &result, &answer));
    size_t ids = 0;
    for (size_t i = 0; i < chat->n_turns; i++)
        ids += chat->turns[i].end ? chat->turns[i].ids.count : 0;
    CHECK_EQ(t, ids, chat_position(chat)); // the ids of all turns are the timeline
    if (kept)
        CHECK_EQ(t, ids, engine->length);
    bytes_release(&answer);
    tok_ids_release(&result.prompt);
    tok_ids_release(&result.answer);
    free(result.prompt_ends);
    turn_free(turn);
}

static void feeds_only_what_is_new(struct harness *t)
{
    struct chat chat = {0};
    struct engine engine = {0};
    exchange(t, &chat, &engine, "one", "first", true);
    CHECK_EQ(t, engine.n_fed, 1);
    exchange(t, &chat, &engine, "two", "second", true);
    CHECK_EQ(t, engine.n_fed, 1);
    CHECK_EQ(t, chat_exchanges(&chat), 2);
    CHECK_EQ(t, engine.length, 3 + 3 + 6 + 3 + 3 + 7);
    CHECK_STR(t, chat.turns[3].text.data, "second");
    chat_release(&chat);
}

static void undo_goes_back_to_a_border(struct harness *t)
{
    struct chat chat = {0};
    struct engine engine = {0};
    exchange(t, &chat, &engine, "one", "first", true);
    uint32_t border = engine.length;
    exchange(t, &chat, &engine, "two", "second", true);
    exchange(t, &chat, &engine, "three", "third", true);
    CHECK_EQ(t, chat_undo(&chat, 2), 2);
    CHECK_EQ(t, chat_position(&chat), border);
    exchange(t, &chat, &engine, "four", "fourth", true);
    CHECK_EQ(t, engine.n_fed, 1);
    CHECK_EQ(t, chat_undo(&chat, 99), 2);
    CHECK_EQ(t, chat_position(&chat), 0);
    CHECK_EQ(t, chat_undo(&chat, 1), 0);
    chat_release(&chat);
}

static void a_system_message_feeds_all_again(struct harness *t)
{
    struct chat chat = {0};
    struct engine engine = {0};
    CHECK(t, chat_set_system(&chat, "Be kind.", 8));
    exchange(t, &chat, &engine, "one", "first", true);
    CHECK_EQ(t, engine.n_fed, 2);
    exchange(t, &chat, &engine, "two", "second", true);
    CHECK(t, chat_set_system(&chat, "Be brief.", 9));
    CHECK_STR(t, chat_system(&chat)->text.data, "Be brief.");
    CHECK_EQ(t, chat_position(&chat), 0);
    CHECK_EQ(t, chat_exchanges(&chat), 2);
    exchange(t, &chat, &engine, "three", "third", true);
    CHECK_EQ(t, engine.n_fed, 6); // system, two exchanges, the message
    CHECK_EQ(t, chat_undo(&chat, 1), 1);
    exchange(t, &chat, &engine, "four", "fourth", true);
    CHECK_EQ(t, engine.n_fed, 1);
    CHECK(t, chat_set_system(&chat, "", 0));
    CHECK(t, chat_system(&chat) == NULL);
    CHECK_EQ(t, chat.turns[0].role, TOK_USER);
    chat_clear(&chat);
    CHECK_EQ(t, chat.n_turns, 0);
    chat_release(&chat);
}

static void new_keeps_the_system_message(struct harness *t)
{
    struct chat chat = {0};
    struct engine engine = {0};
    chat_set_system(&chat, "S", 1);
    exchange(t, &chat, &engine, "one", "first", true);
    uint32_t fed = chat.turns[0].end;
    chat_clear(&chat);
    CHECK_EQ(t, chat.n_turns, 1);
    CHECK_EQ(t, chat_position(&chat), fed); // its rows are still good
    exchange(t, &chat, &engine, "two", "second", true);
    CHECK_EQ(t, engine.n_fed, 1);
    chat_release(&chat);
}

static void a_failed_turn_can_be_sent_again(struct harness *t)
{
    struct chat chat = {0};
    struct engine engine = {0};
    struct bytes text;
    CHECK(t, !chat_take_last(&chat, &text));
    exchange(t, &chat, &engine, "one", "first", true);
    uint32_t border = engine.length;
    exchange(t, &chat, &engine, "two", "", false);
    CHECK_EQ(t, chat_exchanges(&chat), 1);
    CHECK_EQ(t, chat_position(&chat), border);
    CHECK(t, chat_take_last(&chat, &text));
    CHECK_STR(t, text.data, "two");
    bytes_release(&text);
    CHECK_EQ(t, chat_exchanges(&chat), 1);
    CHECK(t, chat_take_last(&chat, &text)); // nothing unsent any more: the last exchange
    CHECK_STR(t, text.data, "one");
    bytes_release(&text);
    CHECK_EQ(t, chat_position(&chat), 0);
    chat_release(&chat);
}

static void another_answer_feeds_nothing(struct harness *t)
{
    struct chat chat = {0};
    struct engine engine = {0};
    CHECK(t, chat_again(&chat) == NULL && chat_last_answer(&chat) == NULL);
    exchange(t, &chat, &engine, "one", "first", true);
    CHECK(t, chat_last_answer(&chat) == &chat.turns[1] && chat_answered(&chat) == engine.length);
    uint32_t message_end = chat.turns[0].end;
    struct turn *turn = chat_again(&chat);
    if (CHECK(t, turn != NULL)) {
        CHECK(t, turn->again && turn->n_turns == 1);
        CHECK_EQ(t, turn->position + turn->known.count, message_end);
        CHECK_EQ(t, turn->last_id, TOK_USER);
        turn_free(turn);
    }
    CHECK_EQ(t, chat.n_turns, 1); // the message stays, and what failed leaves it so
    struct turn_result failed = {.kept = false};
    CHECK(t, chat_accept(&chat, &failed, &(struct bytes){0}) && chat.n_turns == 1 && !chat.unsent.data);
    CHECK(t, chat_last_answer(&chat) == &chat.others[0]); // what was answered before is known there
    CHECK(t, chat_answered(&chat) == 0 && chat_tokens(&chat) == message_end);
    turn = chat_again(&chat);
    CHECK(t, turn != NULL);
    turn_free(turn);
    turn = chat_request(&chat, "two", 3); // another message takes its place
    CHECK(t, turn && turn->position == 0 && turn->n_turns == 1 && chat_exchanges(&chat) == 1);
    turn_free(turn);
    chat_release(&chat);
}

static void a_saved_conversation_goes_on(struct harness *t)
{
    static const enum tok_role roles[] = {TOK_SYSTEM, TOK_USER, TOK_ASSISTANT, TOK_USER};
    struct part parts[4] = {{0}};
    struct chat chat = {0};
    struct tok_ids ids = {0};
    struct tok_err err;
    for (size_t i = 0; i < 4; i++) {
        parts[i].role = roles[i];
        bytes_append(&parts[i].text, "text", 4);
        for (size_t n = 0; n <= i; n++)
            tok_ids_append(&parts[i].ids, (int32_t)i, &err);
    }
    CHECK(t, chat_restore(&chat, parts, 4));
    CHECK_EQ(t, chat_position(&chat), 1 + 2 + 3 + 4);
    CHECK(t, chat_answered(&chat) == 1 + 2 + 3 && chat_tokens(&chat) == 1 + 2 + 3 + 4); // the last has no answer yet
    CHECK(t, chat_last_answer(&chat) == NULL);
    CHECK(t, chat_timeline(&chat, &ids) && ids.count == 10 && ids.ids[9] == 3);
    struct turn *turn = chat_again(&chat);
    CHECK(t, turn && turn->position + turn->known.count == 10 && turn->last_id == 3);
    turn_free(turn);
    chat_feed_anew(&chat);
    CHECK_EQ(t, chat_position(&chat), 0);
    CHECK_EQ(t, chat.n_turns, 4);
    parts[1].role = TOK_ASSISTANT; // an answer to nothing
    CHECK(t, !chat_restore(&chat, parts, 4));
    for (size_t i = 0; i < 4; i++)
        part_release(&parts[i]);
    tok_ids_release(&ids);
    chat_release(&chat);
}

// Where the template forgets thinking, the last exchange is fed again, with the ids that are there now.
static void thinking_is_fed_once(struct harness *t)
{
    struct chat chat = {.about = {.name = "roles", .thinks = true, .forgets = true}};
    struct engine engine = {0};
    chat_set_system(&chat, "be", 2);
    exchange(t, &chat, &engine, "one", "<think>hm</think>first", true);
    CHECK_EQ(t, engine.n_fed, 2);
    uint32_t before = chat.turns[0].end;
    size_t ids = chat.turns[1].ids.count + chat.turns[2].ids.count;
    struct turn *turn = chat_request(&chat, "two", 3);
    CHECK(t, turn && turn->position == before && turn->n_turns == 3 && turn->known.count == ids);
    CHECK_STR(t, turn->turns[1].text, "<think>hm</think>first"); // what of it is fed is the template's business
    turn_free(turn);
    CHECK_EQ(t, chat_position(&chat), before);
    chat.think = THINK_OFF;
    struct turn_result refused = {.reason = STOP_CONTEXT_FULL};
    CHECK(t, chat_accept(&chat, &refused, &(struct bytes){0}));
    CHECK_EQ(t, chat_position(&chat), engine.length); // nothing was fed otherwise
    turn_free(chat_request(&chat, "two", 3));
    CHECK(t, chat_accept(&chat, &refused, &(struct bytes){0}) && chat.think != chat.fed_think);
    chat.think = chat.fed_think;
    turn_free(chat_request(&chat, "two", 3));
    chat_undo(&chat, 1); // of the message that was not sent
    exchange(t, &chat, &engine, "two", "second", true);
    CHECK_EQ(t, engine.n_fed, 3);
    exchange(t, &chat, &engine, "three", "third", true); // nothing was thought
    CHECK_EQ(t, engine.n_fed, 1);
    chat.about.marks_earlier = true;
    exchange(t, &chat, &engine, "four", "fourth", true);
    CHECK_EQ(t, engine.n_fed, 3);
    struct bytes thought = {0}, said = {0};
    CHECK(t, chat_part_answer(&chat.turns[2].text, &thought, &said));
    CHECK_STR(t, thought.data, "hm");
    CHECK_STR(t, said.data, "first");
    bytes_release(&thought);
    bytes_release(&said);
    chat_release(&chat);
}

// The texts of what is under way.
static void check_texts(struct harness *t, const struct chat *chat, const char *wanted)
{
    char got[256] = "";
    size_t at = 0;
    for (size_t i = 0; i < chat->n_turns; i++)
        at += (size_t)snprintf(got + at, sizeof got - at, "%s%s", i ? "|" : "", chat->turns[i].text.data);
    CHECK_STR(t, got, wanted);
}

// Goes and says where the engine would be then: the ids of all turns are its timeline.
static void go(struct harness *t, struct chat *chat, struct engine *engine, int64_t number)
{
    struct tok_ids ids = {0};
    CHECK(t, chat_go(chat, number));
    CHECK(t, chat_timeline(chat, &ids));
    CHECK_EQ(t, ids.count, chat_position(chat));
    engine->length = (uint32_t)ids.count;
    tok_ids_release(&ids);
}

static void nothing_is_lost_by_undo(struct harness *t)
{
    struct chat chat = {0};
    struct engine engine = {0};
    exchange(t, &chat, &engine, "one", "1", true);
    exchange(t, &chat, &engine, "two", "2", true);
    exchange(t, &chat, &engine, "three", "3", true);
    uint32_t end = engine.length;
    size_t n = 9;
    CHECK_EQ(t, chat_redo(&chat, &n), PART_NONE); // nothing was taken back
    CHECK_EQ(t, chat_undo(&chat, 99), 3);
    n = 1;
    go(t, &chat, &engine, chat_redo(&chat, &n));
    CHECK_EQ(t, n, 1);
    check_texts(t, &chat, "one|1");
    exchange(t, &chat, &engine, "deux", "II", true); // something else meanwhile
    CHECK_EQ(t, chat_undo(&chat, 1), 1);
    n = 9; // of two ways the one that was undone
    go(t, &chat, &engine, chat_redo(&chat, &n));
    CHECK_EQ(t, n, 1);
    check_texts(t, &chat, "one|1|deux|II");
    size_t choice;
    CHECK(t, chat_last_choice(&chat, &choice) && choice == 2);
    struct chat_rank rank = chat_rank(&chat, choice);
    CHECK(t, rank.count == 2 && rank.index == 1);
    CHECK_EQ(t, chat_beside(&chat, choice, 1), PART_NONE);
    go(t, &chat, &engine, chat_end_of(&chat, chat_beside(&chat, choice, -1)));
    check_texts(t, &chat, "one|1|two|2|three|3");
    CHECK_EQ(t, chat_position(&chat), end);
    exchange(t, &chat, &engine, "four", "4", true);
    CHECK_EQ(t, engine.n_fed, 1); // the message alone
    CHECK(t, !chat_go(&chat, 99) && !chat_go(&chat, PART_NONE));
    chat_release(&chat);
}

// Undos one after the other are as one of them all; what was said meanwhile ends that.
static void single_undos_are_brought_back_together(struct harness *t)
{
    struct chat chat = {0};
    struct engine engine = {0};
    exchange(t, &chat, &engine, "one", "1", true);
    exchange(t, &chat, &engine, "two", "2", true);
    exchange(t, &chat, &engine, "three", "3", true);
    int64_t end = chat_last(&chat);
    for (size_t left = 3; left > 0; left--)
        CHECK_EQ(t, chat_undo(&chat, 1), 1);
    CHECK_EQ(t, chat_undo(&chat, 1), 0); // there is none, and nothing is forgotten
    CHECK(t, chat.undid && chat.undone == end);
    size_t n = 2;
    go(t, &chat, &engine, chat_redo(&chat, &n));
    CHECK_EQ(t, n, 2);
    check_texts(t, &chat, "one|1|two|2");
    CHECK_EQ(t, chat_undo(&chat, 1), 1);
    n = 9;
    go(t, &chat, &engine, chat_redo(&chat, &n));
    CHECK_EQ(t, n, 2);
    check_texts(t, &chat, "one|1|two|2|three|3");
    CHECK_EQ(t, chat_undo(&chat, 2), 2);
    exchange(t, &chat, &engine, "deux", "II", true);
    CHECK_EQ(t, chat_undo(&chat, 1), 1);
    CHECK(t, chat.undone != end);
    chat_release(&chat);
}

// Takes back n messages and brings m of them back.
static void to_and_fro(struct harness *t, struct chat *chat, struct engine *engine, size_t n, size_t m)
{
    CHECK(t, chat_undo(chat, n) > 0);
    go(t, chat, engine, chat_redo(chat, &m));
}

// What was said after an undo or a redo is where the branch ends that one comes back to.
static void who_comes_back_is_where_they_last_spoke(struct harness *t)
{
    for (int n = 0; n < 4; n++) {
        struct chat chat = {0};
        struct engine engine = {0};
        exchange(t, &chat, &engine, "one", "1", true);
        chat_undo(&chat, 1);
        exchange(t, &chat, &engine, "two", "2", true);
        exchange(t, &chat, &engine, "three", "3", true);
        if (n == 1)
            to_and_fro(t, &chat, &engine, 1, 1);
        if (n == 2)
            to_and_fro(t, &chat, &engine, 99, 99);
        if (n == 3) // in its place something else was said
            chat_undo(&chat, 1);
        exchange(t, &chat, &engine, "four", "4", true);
        go(t, &chat, &engine, chat_end_of(&chat, chat_beside(&chat, 0, -1)));
        check_texts(t, &chat, "one|1");
        go(t, &chat, &engine, chat_end_of(&chat, chat_beside(&chat, 0, 1)));
        check_texts(t, &chat, n == 3 ? "two|2|four|4" : "two|2|three|3|four|4");
        chat_release(&chat);
    }
}

// As sessions have it that were saved when the end of the last undo did not go on with what was said.
static void an_old_end_of_an_undo_leads_on(struct harness *t)
{
    struct chat chat = {0};
    struct engine engine = {0};
    exchange(t, &chat, &engine, "one", "1", true);
    int64_t middle = chat_last(&chat);
    exchange(t, &chat, &engine, "two", "2", true);
    int64_t end = chat_last(&chat);
    chat_undo(&chat, 2);
    chat.undone = middle;
    CHECK_EQ(t, chat_end_of(&chat, 0), end);
    size_t n = 9;
    CHECK_EQ(t, chat_redo(&chat, &n), end);
    CHECK_EQ(t, n, 2);
    chat_release(&chat);
}

static void other_first_messages_stand_side_by_side(struct harness *t)
{
    struct chat chat = {0};
    struct engine engine = {0};
    chat_set_system(&chat, "kind", 4);
    exchange(t, &chat, &engine, "one", "1", true);
    chat_undo(&chat, 1);
    exchange(t, &chat, &engine, "uno", "I", true);
    CHECK_EQ(t, engine.n_fed, 1); // the system message stands
    chat_set_system(&chat, "brief", 5);
    exchange(t, &chat, &engine, "due", "II", true); // all is fed again, and what was said behind the other stays
    CHECK_EQ(t, engine.n_fed, 4);
    CHECK_EQ(t, chat.n_others, 5);
    struct chat_rank rank = chat_rank(&chat, 1);
    CHECK(t, rank.count == 3 && rank.index == 2); // whatever system message stands before them
    CHECK_EQ(t, chat_rank(&chat, 0).count, 1);
    go(t, &chat, &engine, chat_end_of(&chat, chat_beside(&chat, 1, -1)));
    check_texts(t, &chat, "kind|uno|I");
    go(t, &chat, &engine, chat_end_of(&chat, chat_beside(&chat, 1, -1)));
    check_texts(t, &chat, "kind|one|1");
    CHECK_EQ(t, chat_exchanges(&chat), 1);
    go(t, &chat, &engine, chat_end_of(&chat, chat_beside(&chat, 1, 2)));
    check_texts(t, &chat, "brief|uno|I|due|II");
    chat_set_system(&chat, "terse", 5);
    chat_set_system(&chat, "curt", 4); // nothing was said behind the one before
    exchange(t, &chat, &engine, "tre", "III", true);
    CHECK_EQ(t, chat.n_others, 10);
    chat_set_system(&chat, "", 0);
    exchange(t, &chat, &engine, "quattro", "IV", true);
    CHECK_EQ(t, chat.n_others, 17);
    check_texts(t, &chat, "uno|I|due|II|tre|III|quattro|IV");
    chat_release(&chat);
}

static void a_system_message_goes_along(struct harness *t)
{
    struct chat chat = {0};
    struct engine engine = {0};
    exchange(t, &chat, &engine, "one", "1", true);
    exchange(t, &chat, &engine, "two", "2", true);
    CHECK(t, !chat_system_waits(&chat));
    chat_set_system(&chat, "be", 2);
    CHECK(t, chat_system_waits(&chat));
    size_t n = 1;
    CHECK_EQ(t, chat_undo(&chat, 1), 1);
    go(t, &chat, &engine, chat_redo(&chat, &n));
    check_texts(t, &chat, "be|one|1|two|2");
    CHECK(t, chat_system_waits(&chat) && chat_position(&chat) == 0);
    chat_undo(&chat, 9);
    CHECK(t, chat_system_waits(&chat)); // nothing else is there
    n = 9;
    go(t, &chat, &engine, chat_redo(&chat, &n));
    exchange(t, &chat, &engine, "three", "3", true);
    check_texts(t, &chat, "be|one|1|two|2|three|3");
    CHECK(t, !chat_system_waits(&chat));
    go(t, &chat, &engine, 3); // it is fed, and stays where it is
    check_texts(t, &chat, "one|1|two|2");
    go(t, &chat, &engine, chat_last(&chat));
    chat_set_system(&chat, "be", 2);
    chat_set_system(&chat, "", 0);
    CHECK(t, !chat_system_waits(&chat)); // as it was
    chat_set_system(&chat, "be", 2);
    exchange(t, &chat, &engine, "four", "4", true);
    chat_set_system(&chat, "", 0);
    chat_undo(&chat, 9);
    n = 9;
    go(t, &chat, &engine, chat_redo(&chat, &n)); // that it was removed goes along, too
    check_texts(t, &chat, "one|1|two|2|four|4");
    CHECK(t, chat_system_waits(&chat));
    chat_release(&chat);
}

// What the engine has is of use again.
static void a_system_message_that_is_set_back_feeds_nothing_again(struct harness *t)
{
    struct chat chat = {0};
    struct engine engine = {0};
    CHECK(t, chat_system_is(&chat, "", 0) && !chat_system_is(&chat, "be", 2));
    exchange(t, &chat, &engine, "one", "1", true);
    uint32_t fed = chat_position(&chat);
    CHECK(t, chat_change_system(&chat, "be", 2) && chat_position(&chat) == 0);
    CHECK(t, chat_change_system(&chat, "do", 2) && chat_position(&chat) == 0);
    CHECK(t, chat_change_system(&chat, "", 0));
    CHECK_EQ(t, chat_position(&chat), fed);
    check_texts(t, &chat, "one|1");
    CHECK(t, chat_change_system(&chat, "be", 2));
    exchange(t, &chat, &engine, "two", "2", true);
    CHECK_EQ(t, engine.n_fed, 4);
    fed = chat_position(&chat);
    CHECK(t, chat_change_system(&chat, "", 0) && chat_position(&chat) == 0); // that is the other branch's
    CHECK(t, chat_change_system(&chat, "bee", 3) && chat_position(&chat) == 0);
    CHECK(t, chat_change_system(&chat, "be", 2));
    CHECK_EQ(t, chat_position(&chat), fed);
    check_texts(t, &chat, "be|one|1|two|2");
    CHECK(t, chat_system_is(&chat, "be", 2) && !chat_system_waits(&chat));
    exchange(t, &chat, &engine, "three", "3", true);
    CHECK_EQ(t, engine.n_fed, 1);
    chat_release(&chat);
}

// For templates that begin a message otherwise behind an answer.
static void a_message_knows_what_it_stands_behind(struct harness *t)
{
    for (int system = 0; system < 2; system++) {
        struct chat chat = {0};
        struct engine engine = {0};
        if (system)
            chat_set_system(&chat, "be", 2);
        exchange(t, &chat, &engine, "one", "1", true);
        struct turn *again = chat_again(&chat); // once more, it might have to be fed
        CHECK(t, again && again->behind_system == system && (again->position > 0) == system);
        turn_free(again);
        chat.again = false;
        chat_undo(&chat, 9);
        struct turn *turn = chat_request(&chat, "two", 3);
        CHECK(t, turn && turn->n_turns == 1 && turn->behind_system == system && (turn->position > 0) == system);
        turn_free(turn);
        chat_cut(&chat, chat.n_turns - 1);
        exchange(t, &chat, &engine, "two", "2", true);
        turn = chat_request(&chat, "three", 5);
        CHECK(t, turn && turn->position > 0 && !turn->behind_system);
        turn_free(turn);
        chat_release(&chat);
    }
}

// Words in the place of the first message are fed with the next one, and what comes first of these counts.
static void words_for_a_lost_message_stand_behind_the_system_message(struct harness *t)
{
    static const char *const texts[] = {"be", "lost", "1", "two", "2"};
    static const enum tok_role roles[] = {TOK_SYSTEM, TOK_USER, TOK_ASSISTANT, TOK_USER, TOK_ASSISTANT};
    struct part parts[5];
    struct chat chat = {0};
    struct tok_err err;
    for (uint32_t i = 0; i < 5; i++) {
        parts[i] =
            (struct part){.number = i, .after = i ? (int64_t)i - 1 : PART_NONE, .role = roles[i], .lost = i == 1};
        bytes_append(&parts[i].text, texts[i], strlen(texts[i]));
        if (!parts[i].lost)
            tok_ids_append(&parts[i].ids, 7, &err);
    }
    CHECK(t, chat_restore(&chat, parts, 5));
    struct turn *turn = chat_request(&chat, "three", 5);
    CHECK(t, turn && turn->position == 1 && turn->behind_system && turn->n_turns == 5);
    turn_free(turn);
    chat_release(&chat);
    for (size_t i = 0; i < 5; i++)
        part_release(&parts[i]);
}

// Sends a message whose reading is stopped.
static void try(struct harness *t, struct chat *chat, const char *text)
{
    struct turn *turn = chat_request(chat, text, strlen(text));
    struct tok_err err;
    size_t ends[8];
    if (!CHECK(t, turn && turn->n_turns <= 8))
        return;
    struct turn_result result = {.noted = true, .instead = turn->instead, .n_prompt_ends = turn->n_turns};
    for (size_t i = 0; i < turn->n_turns; i++) {
        tok_ids_append(&result.prompt, 40 + (int32_t)i, &err);
        ends[i] = i + 1;
    }
    result.prompt_ends = ends;
    CHECK(t, chat_accept(chat, &result, &(struct bytes){0}));
    tok_ids_release(&result.prompt);
    turn_free(turn);
}

// What was set meanwhile is another beginning, behind which nothing was fed.
static void what_is_taken_back_is_fed_no_more_behind_another_beginning(struct harness *t)
{
    for (int removed = 0; removed < 2; removed++) {
        struct chat chat = {0};
        struct engine engine = {0};
        chat_set_system(&chat, "be", 2);
        exchange(t, &chat, &engine, "one", "1", true);
        try(t, &chat, "two");
        chat_set_system(&chat, "kind", removed ? 0 : 4);
        CHECK_EQ(t, chat_undo(&chat, 1), 1);
        CHECK(t, chat_system_waits(&chat) && chat_position(&chat) == 0 && chat_tokens(&chat) == 0);
        chat_release(&chat);
    }
}

// One that was stopped before it had ids, in a session: another try takes its place.
static void a_saved_message_without_ids_is_tried_again(struct harness *t)
{
    struct chat chat = {0};
    struct bytes text;
    struct part part = {.role = TOK_USER, .number = 0, .after = PART_NONE};
    bytes_append(&part.text, "one", 3);
    CHECK(t, chat_restore(&chat, &part, 1) && !chat_last_is_fed(&chat) && !chat_again(&chat));
    CHECK(t, chat_take_last(&chat, &text));
    struct turn *turn = chat_request(&chat, text.data, text.length);
    CHECK(t, turn && turn->instead.first == 0 && turn->instead.count == 1);
    turn_free(turn);
    bytes_release(&text);
    chat_release(&chat);
    part_release(&part);
}

static void a_stopped_message_stays_as_a_branch(struct harness *t)
{
    for (int system = 0; system < 2; system++) {
        struct chat chat = {0};
        struct engine engine = {0};
        struct bytes text;
        if (system)
            chat_set_system(&chat, "kind", 4);
        try(t, &chat, "one"); // the last message, with nothing of it fed
        check_texts(t, &chat, system ? "kind|one" : "one");
        CHECK_EQ(t, chat.n_others, 0);
        CHECK_EQ(t, chat.turns[system].after, system ? 0 : PART_NONE);
        CHECK(t, chat_waits(&chat) && chat_position(&chat) == 0 && chat_tokens(&chat) == 1 + (uint32_t)system);
        CHECK_EQ(t, chat_answered(&chat), system);
        CHECK_EQ(t, chat_undo(&chat, 1), 1); // and back
        CHECK(t,
              !chat_waits(&chat) && chat_position(&chat) == (uint32_t)system && chat_tokens(&chat) == (uint32_t)system);
        size_t n = 1;
        go(t, &chat, &engine, chat_redo(&chat, &n));
        CHECK(t, chat_waits(&chat) && chat_position(&chat) == 0 && chat_tokens(&chat) == 1 + (uint32_t)system);
        CHECK(t, chat_take_last(&chat, &text)); // sent again, and stopped again, it is there once
        try(t, &chat, text.data);
        bytes_release(&text);
        CHECK_EQ(t, chat.n_others, 0);
        turn_free(chat_request(&chat, "too long", 8)); // it does not fit, and takes nothing away
        const struct turn_result refused = {.reason = STOP_CONTEXT_FULL};
        CHECK(t, chat_accept(&chat, &refused, &(struct bytes){0}) && chat_waits(&chat));
        check_texts(t, &chat, system ? "kind|one" : "one");
        CHECK_EQ(t, chat.n_others, 0);
        try(t, &chat, "two");
        CHECK_EQ(t, chat.n_others, 1 + system);
        check_texts(t, &chat, system ? "kind|two" : "two");
        exchange(t, &chat, &engine, "two", "2", true); // answered it is no branch of its own
        CHECK_EQ(t, chat.n_others, 1 + system);
        CHECK_EQ(t, chat_rank(&chat, (size_t)system).count, 2);
        try(t, &chat, "three");
        exchange(t, &chat, &engine, "four", "4", true);
        CHECK_EQ(t, chat_rank(&chat, (size_t)system + 2).count, 2);
        go(t, &chat, &engine, chat_beside(&chat, (size_t)system + 2, -1));
        check_texts(t, &chat, system ? "kind|two|2|three" : "two|2|three");
        CHECK(t, chat.turns[chat.n_turns - 1].end > 0); // its ids are known, so it can be answered as it is
        chat_release(&chat);
    }
}

// What something was taken back for and has no room: all is as it was, what the last undo left and what is unsent, too.
static void without_room_all_is_as_it_was(struct harness *t)
{
    const struct turn_result refused = {.reason = STOP_CONTEXT_FULL};
    for (int undoes = 0; undoes < 2; undoes++) {
        struct chat chat = {0};
        struct engine engine = {0};
        struct bytes text;
        exchange(t, &chat, &engine, "one", "1", true);
        exchange(t, &chat, &engine, "two", "2", true);
        exchange(t, &chat, &engine, "three", "3", true);
        const char *there = undoes ? "one|1|two|2" : "one|1|two|2|three|3";
        int64_t ahead = chat_last(&chat);
        if (undoes)
            chat_undo(&chat, 1);
        const uint32_t position = chat_position(&chat);
        const size_t n_others = chat.n_others;
        for (int act = 0; act < 3; act++) {
            const struct chat_place place = chat_place(&chat);
            if (act == 0)
                chat_undo(&chat, 2);
            struct turn *turn = act == 2 ? chat_again(&chat) : NULL;
            if (act == 1 && chat_take_last(&chat, &text)) {
                turn = chat_request(&chat, text.data, text.length);
                bytes_release(&text);
            } else if (act == 0) {
                turn = chat_request(&chat, "long", 4);
            }
            CHECK(t, turn && chat_position(&chat) < position);
            turn_free(turn);
            chat.back = place;
            CHECK(t, chat_accept(&chat, &refused, &(struct bytes){0}) && !chat.back.noted);
            check_texts(t, &chat, there);
            CHECK(t, !chat.unsent.data && !chat.again && !chat.resends && chat.undid == (undoes == 1));
            CHECK_EQ(t, chat_position(&chat), position);
            CHECK_EQ(t, chat.n_others, n_others);
        }
        size_t n = 1;
        CHECK_EQ(t, chat_redo(&chat, &n), undoes ? ahead : PART_NONE);
        exchange(t, &chat, &engine, "four", "4", true); // a place is noted for one request
        turn_free(chat_request(&chat, "long", 4));
        CHECK(t, chat_accept(&chat, &refused, &(struct bytes){0}) && strcmp(chat.unsent.data, "long") == 0);
        chat_release(&chat);
    }
}

// What is fed otherwise now stays as it was where another branch follows it.
static void a_shared_turn_stays_with_its_branches(struct harness *t)
{
    struct chat chat = {.about = {.name = "roles", .thinks = true, .forgets = true}};
    struct engine engine = {0};
    exchange(t, &chat, &engine, "one", "<think>a</think>1", true);
    struct turn *turn = chat_again(&chat);
    struct turn_result other = {.kept = true, .context_used = chat.turns[0].end + 2};
    struct tok_err err;
    tok_ids_append(&other.answer, 7, &err);
    tok_ids_append(&other.answer, 8, &err);
    struct bytes text = {0};
    bytes_append(&text, "<think>b</think>2", 17);
    CHECK(t, turn && chat_accept(&chat, &other, &text));
    turn_free(turn);
    engine.length = other.context_used;
    exchange(t, &chat, &engine, "two", "3", true); // as the pretended engine has it, "one" is not the same either
    check_texts(t, &chat, "one|<think>b</think>2|two|3");
    CHECK_EQ(t, chat.n_others, 2);             // the first answer and the message as it was fed for it
    CHECK_EQ(t, chat_rank(&chat, 0).count, 1); // it was typed once, and has two answers
    CHECK(t, chat_rank(&chat, 1).count == 2 && chat_rank(&chat, 1).index == 1);
    go(t, &chat, &engine, chat_end_of(&chat, chat_beside(&chat, 1, -1)));
    check_texts(t, &chat, "one|<think>a</think>1");
    go(t, &chat, &engine, chat_end_of(&chat, chat_beside(&chat, 1, 1)));
    check_texts(t, &chat, "one|<think>b</think>2|two|3");
    bytes_release(&text);
    tok_ids_release(&other.answer);
    chat_release(&chat);
}

// Seed, settings, time and end of what was said are kept whatever becomes of it: read again, taken back, saved anew.
static void what_is_known_of_a_turn_stays(struct harness *t)
{
    struct chat chat = {0}, back = {0};
    struct engine engine = {0};
    exchange(t, &chat, &engine, "one", "first", true);
    exchange(t, &chat, &engine, "two", "second", true);
    CHECK(t, chat.turns[2].made.time == 102 && chat.turns[3].made.time == 202 && chat.turns[3].made.sampling.seed == 2);
    chat_set_system(&chat, "be", 2);
    struct turn *turn = chat_request(&chat, "three", 5);
    if (CHECK(t, turn && turn->n_turns == 6)) {
        CHECK(t, turn->made[2].time == 200 && turn->made[4].sampling.seed == 2 && turn->made[5].time == 0);
        CHECK_STR(t, turn->made[4].stop, "end");
    }
    turn_free(turn);
    chat_cut(&chat, 5);
    exchange(t, &chat, &engine, "three", "third", true); // all of it with other numbers
    CHECK(t, chat.turns[3].made.time == 102 && chat.turns[4].made.sampling.seed == 2);
    chat_undo(&chat, 1);
    char root[] = "/tmp/moechat-chat-XXXXXX";
    struct store store;
    struct store_error error;
    struct saved *saved = NULL;
    struct saved_content content;
    if (!CHECK(t, mkdtemp(root) && store_init(&store, root) && saved_new(&store, "copy", &saved, &error) == STORE_OK))
        return;
    CHECK(t, chat_save(&chat, saved, &(struct part_language){.tokenizer = "t"}));
    CHECK_EQ(t, saved_commit(saved, NULL, &error), STORE_OK);
    saved_close(saved);
    CHECK_EQ(t, saved_read(&store, "copy", &content, &error), STORE_OK);
    CHECK(t, chat_restore(&back, content.parts, content.n_parts));
    CHECK(t, chat_restore_others(&back, content.others, content.n_others, &content.manifest.origin.language));
    for (size_t i = 0; i < back.n_turns && CHECK_EQ(t, back.n_turns, chat.n_turns); i++)
        CHECK(t, memcmp(&back.turns[i].made.time, &chat.turns[i].made.time, sizeof(uint64_t)) == 0 &&
                     strcmp(back.turns[i].made.stop, chat.turns[i].made.stop) == 0 &&
                     back.turns[i].made.sampling.seed == chat.turns[i].made.sampling.seed);
    if (CHECK_EQ(t, back.n_others, 6)) // the two exchanges without a system message, and the third
        CHECK_EQ(t, back.others[5].made.time, chat.others[5].made.time);
    saved_content_release(&content);
    store_remove(&store, "copy", &error);
    rmdir(root);
    chat_release(&chat);
    chat_release(&back);
}

// Parts as a session has them whose first exchange was fed anew twice, by two branches, in the same way, and another
// that says of itself that it is what it follows.
static void what_was_fed_anew_is_one(struct harness *t)
{
    static const struct {
        uint32_t number, before; // before: what it says that it was first
        int64_t after;
        const char *text;
    } saved[] = {{2, 0, PART_NONE, "one"}, {3, 1, 2, "first"},  {4, 4, 3, "two"},   {5, 5, 4, "second"},
                 {8, 0, PART_NONE, "one"}, {9, 1, 8, "first"},  {10, 10, 9, "tea"}, {11, 11, 10, "third"},
                 {12, 8, 11, "one"},       {13, 13, 12, "last"}};
    struct part parts[10];
    struct chat chat = {0};
    struct tok_err err;
    for (size_t i = 0; i < 10; i++) {
        parts[i] = (struct part){.number = saved[i].number,
                                 .after = saved[i].after,
                                 .role = i % 2 ? TOK_ASSISTANT : TOK_USER,
                                 .made = {.time = 100, .before = saved[i].before},
                                 .language = {.tokenizer = "t"}};
        parts[i].made.anew = saved[i].before != saved[i].number;
        bytes_append(&parts[i].text, saved[i].text, strlen(saved[i].text));
        tok_ids_append(&parts[i].ids, 7, &err);
    }
    CHECK(t, chat_restore(&chat, parts + 4, 6));
    CHECK(t, chat_restore_others(&chat, parts, 4, &parts[0].language));
    CHECK(t, chat_rank(&chat, 0).count == 1 && chat_rank(&chat, 1).count == 1);
    CHECK(t, chat_rank(&chat, 2).count == 2 && chat_rank(&chat, 2).index == 1);
    CHECK_EQ(t, chat.turns[4].said, 12);
    CHECK_EQ(t, tree_turn(&chat, 5), 10); // 2, 3, 4 and 5 are before it
    CHECK_EQ(t, chat_beside(&chat, 2, -1), 4);
    for (size_t i = 0; i < 10; i++)
        part_release(&parts[i]);
    chat_release(&chat);
}

// The words in the place of a damaged answer have no time, but where they were fed: what stands behind them is said
// once.
static void what_is_fed_behind_damage_is_one(struct harness *t)
{
    static const struct {
        uint32_t number, before; // as in the test above
        int64_t after;
        const char *text;
    } saved[] = {{0, 0, PART_NONE, "one"}, {3, 1, 0, "lost"}, {4, 2, 3, "two"},
                 {5, 5, 4, "second"},      {1, 1, 0, "lost"}, {2, 2, 1, "two"}}; // the last two are the others
    for (uint64_t then = 0; then <= 70; then += 70) { // the second: answers of two times are two
        struct part parts[6];
        struct chat chat = {0};
        struct tok_err err;
        for (size_t i = 0; i < 6; i++) {
            uint32_t number = saved[i].number;
            parts[i] = (struct part){.number = number,
                                     .after = saved[i].after,
                                     .role = saved[i].before % 2 ? TOK_ASSISTANT : TOK_USER,
                                     .made = {.time = number == 1 ? then : 100,
                                              .before = saved[i].before,
                                              .anew = saved[i].before != number},
                                     .language = {.tokenizer = "t"}};
            bytes_append(&parts[i].text, saved[i].text, strlen(saved[i].text));
            tok_ids_append(&parts[i].ids, (int32_t)i, &err);
        }
        if (!CHECK(t, chat_restore(&chat, parts, 4)))
            break;
        CHECK(t, chat_restore_others(&chat, parts + 4, 2, &parts[0].language));
        CHECK_EQ(t, chat.turns[1].said, then ? 3 : 1);
        CHECK_EQ(t, chat.turns[2].said, then ? 4 : 2);
        CHECK_EQ(t, tree_turn(&chat, 4), then ? 3 : 5);
        for (size_t i = 0; i < 6; i++)
            part_release(&parts[i]);
        chat_release(&chat);
    }
}

// Behind what was lost the conversation is to be fed anew; saved under another name all of it is there.
static void what_stands_behind_a_lost_part_is_saved(struct harness *t)
{
    static const char *const texts[] = {"one", "first", "lost", "second", "three", "third"};
    struct part parts[6];
    struct chat chat = {0}, back = {0};
    struct tok_err err;
    for (size_t i = 0; i < 6; i++) {
        parts[i] = (struct part){
            .number = (uint32_t)i, .after = (int64_t)i - 1, .role = i % 2 ? TOK_ASSISTANT : TOK_USER, .lost = i == 2};
        bytes_append(&parts[i].text, texts[i], strlen(texts[i]));
        for (size_t n = 0; n < 4 && i != 2; n++)
            tok_ids_append(&parts[i].ids, 7, &err);
    }
    char root[] = "/tmp/moechat-chat-XXXXXX";
    struct store store;
    struct store_error error;
    struct saved *saved = NULL;
    struct saved_content content;
    if (!CHECK(t, mkdtemp(root) && store_init(&store, root) && saved_new(&store, "copy", &saved, &error) == STORE_OK))
        return;
    CHECK(t, chat_restore(&chat, parts, 6));
    CHECK_EQ(t, chat_position(&chat), 8);
    CHECK(t, chat_save(&chat, saved, &(struct part_language){.tokenizer = "t"}));
    CHECK_EQ(t, saved_commit(saved, NULL, &error), STORE_OK);
    saved_close(saved);
    CHECK_EQ(t, saved_read(&store, "copy", &content, &error), STORE_OK);
    CHECK(t, chat_restore(&back, content.parts, content.n_parts));
    check_texts(t, &back, "one|first|lost|second|three|third");
    CHECK_EQ(t, chat_position(&back), 8);
    saved_content_release(&content);
    store_remove(&store, "copy", &error);
    rmdir(root);
    CHECK(t, chat_set_system(&chat, "Be kind.", 8)); // all of it is another conversation now
    CHECK_EQ(t, saved_new(&store, "", &saved, &error), STORE_OK);
    CHECK(t, chat_save(&chat, saved, &(struct part_language){.tokenizer = "t"}));
    CHECK_EQ(t, saved_manifest(saved)->n_parts, 0);
    saved_close(saved);
    for (size_t i = 0; i < 6; i++)
        part_release(&parts[i]);
    chat_release(&chat);
    chat_release(&back);
}

// Words in an answer's place have its opening themselves, which the message before them was fed with, too.
static void the_message_before_a_lost_answer_is_fed_anew(struct harness *t)
{
    static const char *const texts[] = {"one", "first", "two", "lost", "three", "third"};
    struct part parts[6];
    struct chat chat = {0};
    struct tok_err err;
    for (size_t i = 0; i < 6; i++) {
        parts[i] = (struct part){
            .number = (uint32_t)i, .after = (int64_t)i - 1, .role = i % 2 ? TOK_ASSISTANT : TOK_USER, .lost = i == 3};
        bytes_append(&parts[i].text, texts[i], strlen(texts[i]));
        for (size_t n = 0; n < 4 && i != 3; n++)
            tok_ids_append(&parts[i].ids, (int32_t)i, &err);
    }
    for (size_t n = 4; n <= 6; n += 2) {
        CHECK(t, chat_restore(&chat, parts, n));
        CHECK_EQ(t, chat_position(&chat), 12);
        struct turn *turn = chat_request(&chat, "and?", 4);
        if (CHECK(t, turn && turn->n_turns == n - 1)) { // from the second message on
            CHECK_STR(t, turn->turns[0].text, "two");
            CHECK(t, turn->position == 8 && turn->fills);
            CHECK(t, turn->known.count == 4 && turn->known.ids[0] == 2); // its own, not those behind what is lost
            CHECK(t, turn->noted.n == 1 && turn->made[0].anew && turn->made[0].before == 2);
        }
        struct turn_result refused = {.reason = STOP_CONTEXT_FULL};
        CHECK(t, chat_accept(&chat, &refused, &(struct bytes){0}));
        CHECK_EQ(t, chat_position(&chat), 12); // as it was
        turn_free(turn);
    }
    CHECK(t, chat_restore(&chat, parts, 4)); // the message itself is answered anew as it is
    struct turn *again = chat_again(&chat);
    CHECK(t, again && again->position == 8 && again->known.count == 4);
    turn_free(again);
    for (size_t i = 0; i < 6; i++)
        part_release(&parts[i]);
    chat_release(&chat);
}

// An answer that the model ended at once, where no token ends one: it is fed where it is.
static void an_answer_without_tokens_is_fed(struct harness *t)
{
    static const char *const texts[] = {"one", "<think>", "two", "<think>so</think>second"};
    struct part parts[4];
    struct chat chat = {0};
    struct tok_err err;
    for (size_t i = 0; i < 4; i++) {
        parts[i] =
            (struct part){.number = (uint32_t)i, .after = (int64_t)i - 1, .role = i % 2 ? TOK_ASSISTANT : TOK_USER};
        bytes_append(&parts[i].text, texts[i], strlen(texts[i]));
        for (size_t n = 0; n < 4 && i != 1; n++)
            tok_ids_append(&parts[i].ids, 7, &err);
    }
    CHECK(t, chat_restore(&chat, parts, 2)); // its end
    CHECK_EQ(t, chat_position(&chat), 4);
    CHECK(t, chat_last_is_fed(&chat));
    struct turn *turn = chat_request(&chat, "and?", 4);
    if (CHECK(t, turn != NULL))
        CHECK(t, turn->n_turns == 1 && turn->position == 4);
    turn_free(turn);
    CHECK(t, chat_restore(&chat, parts, 4));
    CHECK_EQ(t, chat_position(&chat), 12);
    CHECK_EQ(t, chat_undo(&chat, 2), 2);
    CHECK(t, chat_go(&chat, 1)); // as /redo does
    CHECK_EQ(t, chat_position(&chat), 4);
    CHECK(t, chat_last_is_fed(&chat));
    CHECK(t, chat_go(&chat, 3));
    CHECK_EQ(t, chat_position(&chat), 12);
    for (size_t i = 0; i < 4; i++)
        part_release(&parts[i]);
    chat_release(&chat);
}

// Each message has another one in its place, which nothing follows: as deep as somebody's file may say.
static void a_tree_of_any_depth_is_printed(struct harness *t)
{
    enum { DEPTH = 50000 };
    struct chat chat = {0};
    struct part *parts = calloc(2 * DEPTH, sizeof *parts);
    char *text = NULL;
    size_t length = 0, n_lines = 0;
    FILE *out = open_memstream(&text, &length);
    if (!CHECK(t, parts && out))
        return;
    for (uint32_t i = 0; i < 2 * DEPTH; i++)
        parts[i] = (struct part){.number = i,
                                 .after = i < 2 ? PART_NONE : (int64_t)(i / 2 * 2 - 2),
                                 .role = i / 2 % 2 ? TOK_ASSISTANT : TOK_USER,
                                 .text = {.data = "one two", .length = 7}};
    CHECK_EQ(t, tree_turn(&chat, 1), PART_NONE); // nothing was said yet
    CHECK(t, chat_restore_others(&chat, parts, 2 * DEPTH, &(struct part_language){.tokenizer = "t"}));
    CHECK_EQ(t, tree_turn(&chat, 0), PART_NONE);
    CHECK_EQ(t, tree_turn(&chat, 1), 0);
    CHECK_EQ(t, tree_turn(&chat, 2 * DEPTH), 2 * DEPTH - 1);
    CHECK_EQ(t, tree_turn(&chat, 2 * DEPTH + 1), PART_NONE);
    CHECK(t, tree_print(out, &chat, 40) && fclose(out) == 0);
    for (size_t i = 0; i < length; i++)
        n_lines += text[i] == '\n';
    CHECK_EQ(t, n_lines, 2 * DEPTH);
    CHECK(t, strncmp(text, "       1    You: one two\n       3      Assistant: one two\n", 56) == 0);
    free(text);
    free(parts);
    chat_release(&chat);
}

static void words_end_with_a_character(struct harness *t)
{
    static const char text[] = " \xE4\xBD\xA0\xE5\xA5\xBD\n one  two";
    static const char *const wanted[] = {"", "", "", "\xE4\xBD\xA0", "\xE4\xBD\xA0"};
    for (size_t most = 1; most < 5; most++) {
        struct bytes line = {0};
        CHECK_EQ(t, tree_words(&line, &(struct bytes){.data = (char *)text, .length = sizeof text - 1}, most),
                 most > 2);
        CHECK_STR(t, line.data, wanted[most]);
        bytes_release(&line);
    }
    struct bytes line = {0};
    CHECK(t, tree_words(&line, &(struct bytes){.data = (char *)text, .length = sizeof text - 1}, SIZE_MAX));
    CHECK_STR(t, line.data, "\xE4\xBD\xA0\xE5\xA5\xBD one two");
    bytes_release(&line);
}

static bool has_thinking(const char *answer)
{
    char exact[64]; // what stands behind the answer is none of it
    snprintf(exact, sizeof exact, "%s</think>", answer);
    return chat_has_thinking(&(struct bytes){.data = exact, .length = strlen(answer)});
}

static void answers_with_thinking(struct harness *t)
{
    CHECK(t, has_thinking("<think>") && has_thinking("<think>why</think>yes"));
    CHECK(t, has_thinking("</think>") && has_thinking("why</think>yes")); // its beginning is the prompt's
    CHECK(t, !has_thinking("") && !has_thinking("<think") && !has_thinking("</think") && !has_thinking("yes"));
    CHECK(t, !has_thinking(" <think>yes") && !has_thinking("a long answer of many words"));
}

static void a_switch_of_thinking(struct harness *t)
{
    struct chat chat = {.about = {.name = "roles", .thinks = true, .can_switch = true}};
    struct engine engine = {0};
    exchange(t, &chat, &engine, "one", "first", true);
    chat.think = THINK_ON;
    CHECK(t, chat_again(&chat) == NULL); // another answer needs another prompt
    struct turn *turn = chat_request(&chat, "two", 3);
    CHECK(t, turn && turn->think == THINK_ON && turn->n_turns == 1);
    turn_free(turn);
    chat_undo(&chat, 1);
    int32_t ids[] = {TOK_USER, TOK_USER};
    const struct tok_ids begins[] = {[TOK_USER] = {.ids = ids, .count = 2}};
    chat.about.begins_anew = true;
    chat.about.begins = begins;
    chat.think = THINK_OFF;
    CHECK(t, chat_begins_anew(&chat, THINK_OFF) && !chat_begins_anew(&chat, THINK_ON));
    turn = chat_request(&chat, "two", 3);
    CHECK(t, turn && turn->position == 0 && turn->n_turns == 3);
    turn_free(turn);
    chat_undo(&chat, 1);
    CHECK(t, !chat_begins_anew(&chat, THINK_OFF)); // nothing is fed
    chat_release(&chat);
}

// The ids say how a conversation begins, not this chat's last request: one that was saved, or another branch.
static void what_is_fed_says_how_it_begins(struct harness *t)
{
    int32_t thought[] = {5, 6}, at_once[] = {5, 8, 9}, answer[] = {7};
    const struct tok_ids begins[] = {
        [TOK_SYSTEM] = {.ids = thought, .count = 1}, [TOK_USER] = {.ids = thought, .count = 2}};
    const struct tok_template_about about = {.name = "roles",
                                             .thinks = true,
                                             .can_switch = true,
                                             .thinks_unasked = true,
                                             .begins_anew = true,
                                             .begins = begins};
    struct part parts[] = {
        {.number = 0, .after = PART_NONE, .role = TOK_USER, .text = {"one", 3, 0}, .ids = {at_once, 3, 0}},
        {.number = 1, .after = 0, .role = TOK_ASSISTANT, .text = {"1", 1, 0}, .ids = {answer, 1, 0}}};
    struct part others[] = {
        {.number = 2, .after = PART_NONE, .role = TOK_USER, .text = {"two", 3, 0}, .ids = {thought, 2, 0}},
        {.number = 3, .after = 2, .role = TOK_ASSISTANT, .text = {"2", 1, 0}, .ids = {answer, 1, 0}}};
    for (enum think think = THINK_UNASKED; think <= THINK_OFF; think++) {
        struct chat chat = {.about = about, .think = think, .fed_think = think};
        CHECK(t, chat_restore(&chat, parts, 2) && chat_restore_others(&chat, others, 2, &parts[0].language));
        for (int branch = 0; branch < 2; branch++) {
            CHECK(t, chat_go(&chat, 1 + 2 * branch));
            bool anew = branch ? think == THINK_OFF : think != THINK_OFF;
            CHECK_EQ(t, chat_begins_anew(&chat, think), anew);
            struct turn *turn = chat_again(&chat);
            CHECK_EQ(t, !turn, anew);
            turn_free(turn);
            chat.again = false;
            CHECK(t, chat_go(&chat, 1 + 2 * branch));
            turn = chat_request(&chat, "three", 5);
            CHECK(t, turn && turn->n_turns == (anew ? 3 : 1) && turn->position == (anew ? 0 : branch ? 3 : 4));
            turn_free(turn);
        }
        chat_release(&chat);
    }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(thinking_is_fed_once),
        TEST(what_is_fed_behind_damage_is_one),
        TEST(what_stands_behind_a_lost_part_is_saved),
        TEST(the_message_before_a_lost_answer_is_fed_anew),
        TEST(an_answer_without_tokens_is_fed),
        TEST(a_tree_of_any_depth_is_printed),
        TEST(words_end_with_a_character),
        TEST(nothing_is_lost_by_undo),
        TEST(single_undos_are_brought_back_together),
        TEST(who_comes_back_is_where_they_last_spoke),
        TEST(an_old_end_of_an_undo_leads_on),
        TEST(other_first_messages_stand_side_by_side),
        TEST(a_system_message_goes_along),
        TEST(a_system_message_that_is_set_back_feeds_nothing_again),
        TEST(a_message_knows_what_it_stands_behind),
        TEST(words_for_a_lost_message_stand_behind_the_system_message),
        TEST(what_is_taken_back_is_fed_no_more_behind_another_beginning),
        TEST(a_saved_message_without_ids_is_tried_again),
        TEST(a_stopped_message_stays_as_a_branch),
        TEST(without_room_all_is_as_it_was),
        TEST(a_shared_turn_stays_with_its_branches),
        TEST(answers_with_thinking),
        TEST(what_is_known_of_a_turn_stays),
        TEST(what_was_fed_anew_is_one),
        TEST(a_switch_of_thinking),
        TEST(what_is_fed_says_how_it_begins),
        TEST(another_answer_feeds_nothing),
        TEST(a_saved_conversation_goes_on),
        TEST(feeds_only_what_is_new),
        TEST(undo_goes_back_to_a_border),
        TEST(a_system_message_feeds_all_again),
        TEST(new_keeps_the_system_message),
        TEST(a_failed_turn_can_be_sent_again),
    };
    return HARNESS_RUN(tests, argc, argv);
}
