// SPDX-License-Identifier: GPL-3.0-or-later
#include <stdlib.h>

#include "../harness.h"
#include "inspect.h"

static const char *const words[] = {" to", "a\nb\t", "", "abcdefghijklmnopqrstuvwxyz"};

static size_t text_of(void *context, int32_t id, const char **bytes)
{
    (void)context;
    *bytes = words[id];
    return strlen(words[id]);
}

static void begin(struct inspect *inspect, char *text, size_t size)
{
    memset(text, 0, size);
    *inspect = (struct inspect){.out = fmemopen(text, size, "w"), .text = text_of};
}

static void a_list_is_wrapped(struct harness *t)
{
    char text[2048];
    struct inspect inspect;
    struct step_token token = {.id = 3, .n_candidates = 1, .candidates = {{.id = 3, .probability = 0.5F}}};
    begin(&inspect, text, sizeof text);
    inspect_list(&inspect, 1, &token);
    token.id = 1;
    inspect_list(&inspect, 2, &token);
    token.id = 2;
    for (uint32_t i = 3; i < 10; i++)
        inspect_list(&inspect, i, &token);
    fclose(inspect.out);
    CHECK_STR(t, text,
              "  1 \"abcdefghijklmnopqrstuvwx...\" 50 %, 2 \"a\\nb\\t\", 3 (a mark), 4 (a mark),\n"
              "  5 (a mark), 6 (a mark), 7 (a mark), 8 (a mark), 9 (a mark)");
}

static void a_token_tells_its_experts(struct harness *t)
{
    struct moe_layer_record layers[] = {{.layer = 3}, {.layer = 4}};
    struct moe_choice choices[] = {{.expert = 7, .origin = MOE_FROM_DISK, .weight = 0.75F, .wait_us = 1250},
                                   {.expert = 500, .origin = MOE_FROM_DEVICE, .weight = 0.25F},
                                   {.expert = 1, .origin = MOE_FROM_LATE, .weight = 1.5F, .wait_us = 10},
                                   {.expert = 2, .origin = 250, .weight = 0}};
    struct moe_telemetry step = {.decode = true,
                                 .total_ns = 3000000,
                                 .ns = {[MOE_ON_DISK] = 1250000, [MOE_ON_HEAD] = 1750000},
                                 .n_moe_layers = 2,
                                 .top_k = 2,
                                 .layers = layers,
                                 .choices = choices};
    struct step_token token = {
        .id = 0, .n_candidates = 2, .candidates = {{.id = 3, .probability = 0.625F}, {.id = 0, .probability = 0.25F}}};
    struct inspect inspect;
    char text[2048];
    token.step = &step;
    begin(&inspect, text, sizeof text);
    inspect_token(&inspect, 2, 5, &token);
    fclose(inspect.out);
    CHECK_STR(t, text,
              "Token 2 of 5: \" to\"\n"
              "   62.50 %       3  \"abcdefghijklmnopqrstuvwx...\"\n"
              "   25.00 %       0  \" to\"  taken\n"
              "Its step took 3.00 ms: disk 1.25 head 1.75\n"
              "layer   expert weight from, and what the step waited for it\n"
              "    3   7 0.750 disk 1.25 ms, 500 0.250 device\n"
              "    4   1 1.500 late 0.01 ms, 2 0.000 ?\n");
    token.id = 2; // not among the likeliest, and of a prompt's step
    step.decode = false;
    step.choices = NULL;
    begin(&inspect, text, sizeof text);
    inspect_token(&inspect, 1, 5, &token);
    fclose(inspect.out);
    CHECK(t, strstr(text, "What was taken is not among them.") &&
                 strstr(text, "the prompt, whose last step took 3.00 ms"));
    CHECK(t, !strstr(text, "layer"));
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(a_list_is_wrapped), TEST(a_token_tells_its_experts)};
    return HARNESS_RUN(tests, argc, argv);
}
