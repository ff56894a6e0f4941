// SPDX-License-Identifier: GPL-3.0-or-later
// The first of what is alike, in whatever order things come, and how many comparisons it takes.
#include "tests/cases.h"

#include <time.h>

#include "app/talk/chat.h"
#include "app/talk/firsts.h"
#include "app/talk/tree.h"

enum { MOST = 20000 };

static int by_value(const void *context, size_t a, size_t b)
{
    const uint32_t *values = context;
    return (values[a] > values[b]) - (values[a] < values[b]);
}

static size_t log2_of(size_t n)
{
    size_t log = 0;
    for (; n > 1; n /= 2)
        log++;
    return log;
}

// Each thing's first, from a table of all values. A tree of this kind is no deeper than twice the logarithm.
static void check_firsts(struct harness *t, const uint32_t *values, size_t n)
{
    struct firsts firsts = {.compare = by_value, .context = values};
    size_t *seen = calloc(MOST, sizeof *seen), wrong = 0;
    CHECK(t, seen && firsts_begin(&firsts, n));
    for (size_t i = 0; i < n; i++) {
        size_t *first = &seen[values[i] % MOST];
        *first = *first ? *first : i + 1;
        wrong += firsts_of(&firsts, i) != *first - 1;
        wrong += firsts_of(&firsts, i) != *first - 1; // found, and not put there once more
    }
    CHECK_EQ(t, wrong, 0);
    CHECK(t, firsts.compared <= 2 * n * 2 * (log2_of(n) + 1));
    free(seen);
    firsts_release(&firsts);
}

static void in_any_order(struct harness *t)
{
    static uint32_t values[MOST];
    struct cases draw = {.state = 7};
    for (size_t n = 0; n <= MOST; n = n < 9 ? n + 1 : 3 * n) {
        for (int order = 0; order < 5; order++) {
            for (uint32_t i = 0; i < n; i++)
                values[i] = order == 0   ? i
                            : order == 1 ? MOST - 1 - i
                            : order == 2 ? i % 2 ? i : MOST - 1 - i
                            : order == 3 ? cases_draw(&draw, MOST)
                                         : cases_draw(&draw, 3);
            check_firsts(t, values, n);
        }
    }
    for (uint32_t i = 0; i < MOST; i++)
        values[i] = i;
    check_firsts(t, values, MOST);
}

// As somebody's file may have them: each says that it was said before as a part that is gone, or was typed at a time
// such that a hash by shifts and products has all in one place. Processor time: a quadratic search takes seconds.
static void no_session_is_made_up_to_be_slow(struct harness *t)
{
    enum { PARTS = 32000, STEP = 65536 };
    struct part *parts = calloc(PARTS, sizeof *parts);
    if (!CHECK(t, parts != NULL))
        return;
    for (int times = 0; times < 2; times++) {
        struct chat chat = {0};
        FILE *out = fopen("/dev/null", "w");
        for (uint32_t i = 0; i < PARTS; i++) {
            parts[i] = (struct part){.number = STEP * i + 1, .after = PART_NONE, .role = TOK_USER};
            parts[i].made.time = times ? 2 * (uint64_t)STEP * (i + 1) : 0;
            parts[i].made.anew = !times;
            parts[i].made.before = times ? 0 : STEP * i;
        }
        clock_t began = clock();
        CHECK(t, chat_restore_others(&chat, parts, PARTS, &(struct part_language){.tokenizer = "t"}));
        CHECK_EQ(t, tree_turn(&chat, PARTS), STEP * (PARTS - 1) + 1);
        CHECK(t, out && tree_print(out, &chat, 40));
        double seconds = (double)(clock() - began) / CLOCKS_PER_SEC;
        if (!CHECK(t, seconds < 1))
            printf("    %.2f s of the processor\n", seconds);
        if (out)
            fclose(out);
        chat_release(&chat);
    }
    free(parts);
}

// Where each of its turns stands is asked when the screen opens, its ids when the worker has it, and all of it is taken
// back and forgotten in the end.
static void a_long_conversation_takes_as_long_as_it_is(struct harness *t)
{
    enum { PARTS = 40000 };
    struct part *parts = calloc(PARTS, sizeof *parts);
    if (!CHECK(t, parts != NULL))
        return;
    for (uint32_t i = 0; i < PARTS; i++)
        parts[i] = (struct part){.number = i, .after = (int64_t)i - 1, .role = i % 2 ? TOK_ASSISTANT : TOK_USER};
    struct chat chat = {0};
    struct tok_ids ids = {0};
    clock_t began = clock();
    size_t alone = 0;
    CHECK(t, chat_restore(&chat, parts, PARTS));
    for (size_t i = 0; i < chat.n_turns; i++)
        alone += chat_rank(&chat, i).count == 1;
    CHECK_EQ(t, alone, PARTS);
    CHECK(t, chat_timeline(&chat, &ids));
    CHECK_EQ(t, chat_undo(&chat, PARTS), PARTS / 2);
    CHECK_EQ(t, chat.n_others, PARTS);
    CHECK(t, chat_find(&chat, PARTS - 1) == &chat.others[PARTS - 1]);
    chat_release(&chat);
    CHECK(t, chat_restore(&chat, parts, PARTS));
    chat_release(&chat);
    double seconds = (double)(clock() - began) / CLOCKS_PER_SEC;
    if (!CHECK(t, seconds < 1))
        printf("    %.2f s of the processor\n", seconds);
    tok_ids_release(&ids);
    free(parts);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(in_any_order), TEST(no_session_is_made_up_to_be_slow),
                                                TEST(a_long_conversation_takes_as_long_as_it_is)};
    return HARNESS_RUN(tests, argc, argv);
}
