// SPDX-License-Identifier: GPL-3.0-or-later
// /inspect: the list of tokens, one token, and why it was slow.
#include <stdlib.h>

#include "tests/harness.h"
#include "app/view/inspect.h"

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
    *inspect = (struct inspect){.out = fmemopen(text, size, "w"), .text = text_of, .columns = 78};
}

static void a_list_is_wrapped(struct harness *t)
{
    char text[2048];
    struct inspect inspect;
    struct step_token token = {
        .id = 3, .probability = 0.5F, .n_candidates = 1, .candidates = {{.id = 3, .probability = 0.5F}}};
    begin(&inspect, text, sizeof text);
    inspect_list(&inspect, 1, &token);
    token.id = 1; // not among the likeliest
    token.probability = 0.00001F;
    inspect_list(&inspect, 2, &token);
    token.id = 2;
    token.probability = -1;
    for (uint32_t i = 3; i < 10; i++)
        inspect_list(&inspect, i, &token);
    fclose(inspect.out);
    CHECK_STR(t, text,
              "  1 \"abcdefghijklmnopqrstuvwx...\" 50 %, 2 \"a\\nb\\t\" <0.01 %, 3 (a mark),\n"
              "  4 (a mark), 5 (a mark), 6 (a mark), 7 (a mark), 8 (a mark), 9 (a mark)");
}

static void lists_are_as_wide_as_asked(struct harness *t)
{
    char text[512] = "";
    struct inspect inspect;
    struct step_token token = {.id = 2, .probability = -1};
    begin(&inspect, text, sizeof text);
    inspect.columns = 30;
    for (uint32_t i = 3; i < 7; i++)
        inspect_list(&inspect, i, &token);
    fclose(inspect.out);
    CHECK_STR(t, text, "  3 (a mark), 4 (a mark),\n  5 (a mark), 6 (a mark)");
}

static void a_token_tells_its_experts(struct harness *t)
{
    struct moe_layer_record layers[] = {{.layer = 3,
                                         .n_from = {[MOE_FROM_DEVICE] = 1, [MOE_FROM_DISK] = 1},
                                         .bytes_disk = 86000,
                                         .bytes_cached = 60000},
                                        {.layer = 4, .n_from = {[MOE_FROM_LATE] = 2}}};
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
    struct step_token token = {.id = 0,
                               .probability = 0.25F,
                               .n_candidates = 2,
                               .candidates = {{.id = 3, .probability = 0.625F}, {.id = 0, .probability = 0.25F}}};
    struct inspect inspect;
    struct usual usual = {0};
    char text[2048];
    token.step = &step;
    begin(&inspect, text, sizeof text);
    inspect_token(&inspect, (struct inspect_number){2, 5}, &token, &usual);
    fclose(inspect.out);
    CHECK_STR(t, text,
              "Token 2 of 5: \" to\"\n"
              "   62.50 %       3  \"abcdefghijklmnopqrstuvwx...\"\n"
              "   25.00 %       0  \" to\"  taken\n"
              "Its step took 3.00 ms: reads 1.25 head 1.75\n"
              "Mostly computing the head (1.75 ms).\n"
              "In memory: 1 of 4 experts; 86.0 KB read, 60.0 KB of it from the page cache.\n"
              "layer   expert weight from, and time waited for it\n"
              "    3   7 0.750 read 1.25 ms, 500 0.250 device\n"
              "    4   1 1.500 late 0.01 ms, 2 0.000 ?\n");
    CHECK(t, !strstr(text, "estimated"));
    step.shared_out = true;
    begin(&inspect, text, sizeof text);
    inspect_token(&inspect, (struct inspect_number){2, 5}, &token, &usual);
    fclose(inspect.out);
    CHECK(t, strstr(text, "reads 1.25 head ~1.75\nAttention, router, experts and head are estimated") != NULL);
    CHECK(t, strstr(text, "\nMostly computing the head (about 1.75 ms).\n") != NULL);
    struct inspect_slow slowest[] = {{2, &step}};
    begin(&inspect, text, sizeof text);
    inspect_slowest(&inspect, &(struct usual){.total_ns = 2000000, .tokens = 5}, slowest, 1);
    fclose(inspect.out);
    CHECK_STR(t, text, "\nMedian 2.00 ms a token. Slowest: token 2, 3.00 ms (probably head).");
    token.probability = 0.0625F;
    token.id = 2; // not among the likeliest, and of a prompt's step
    step.decode = false;
    step.choices = NULL;
    begin(&inspect, text, sizeof text);
    inspect_token(&inspect, (struct inspect_number){1, 5}, &token, &usual);
    fclose(inspect.out);
    CHECK(t, strstr(text, "    6.25 %       2  (a mark)  taken, less likely than these\n") &&
                 strstr(text, "The prompt's last step before it took 3.00 ms"));
    CHECK(t, !strstr(text, "layer"));
}

static const char *why(const struct moe_telemetry *step, const struct usual *usual)
{
    static char sentence[WHY_SIZE];
    return why_words(sentence, step, usual);
}

// What is compared with what the others took, not the largest part, is what made a token slow.
static void why_a_token_was_slow(struct harness *t)
{
    struct moe_layer_record layers[] = {
        {.layer = 3, .n_from = {[MOE_FROM_DISK] = 1, [MOE_FROM_DEVICE] = 1}, .bytes_disk = 5000, .bytes_device = 7000},
        {.layer = 4, .n_from = {[MOE_FROM_LATE] = 1, [MOE_FROM_HOST] = 1}, .bytes_disk = 1000}};
    struct moe_choice choices[] = {
        {.expert = 7, .wait_us = 1250}, {.expert = 500}, {.expert = 1, .wait_us = 6000}, {.expert = 2}};
    struct moe_telemetry step = {.decode = true,
                                 .total_ns = 10000000,
                                 .ns = {[MOE_ON_DISK] = 4000000, [MOE_ON_EXPERTS] = 6000000},
                                 .n_moe_layers = 2,
                                 .top_k = 2,
                                 .layers = layers,
                                 .choices = choices};
    struct usual usual = {
        .total_ns = 7000000, .ns = {[MOE_ON_DISK] = 1000000, [MOE_ON_EXPERTS] = 5500000}, .tokens = 9};
    CHECK(t, !why_is_slow(&step, &usual));
    CHECK_STR(t, why(&step, &usual), "As usual (7.00 ms), mostly computing experts (6.00 ms).");
    usual.total_ns = 15000000;
    CHECK_STR(t, why(&step, &usual), "Faster than usual (15.00 ms), mostly computing experts (6.00 ms).");
    usual.total_ns = 14900000;
    CHECK(t, strncmp(why(&step, &usual), "As usual (14.90 ms)", 19) == 0);
    usual.total_ns = 5000000;
    CHECK(t, why_is_slow(&step, &usual) && why_interval(&step, &usual) == MOE_ON_DISK);
    CHECK_STR(t, why(&step, &usual),
              "Slow, 2.0 times the usual 5.00 ms: 4.00 ms waiting for reads, usually 1.00; 2 of its 4 experts were "
              "read (6.00 KB), the longest wait for expert 1 of layer 4, 6.00 ms.");
    usual.ns[MOE_ON_DISK] = 4000000;
    CHECK_STR(
        t, why(&step, &usual),
        "Slow, 2.0 times the usual 5.00 ms: 6.00 ms computing experts, usually 5.50; other programs may have slowed it "
        "down.");
    step.shared_out = usual.shared_out = true; // only the sum of these parts was measured
    CHECK(t, strstr(why(&step, &usual), ": about 6.00 ms computing experts, usually about 5.50; other") != NULL);
    step.shared_out = usual.shared_out = false;
    step.ns[MOE_ON_COPY] = 20000000;
    step.choices = NULL;
    CHECK_STR(t, why(&step, &usual),
              "Slow, 2.0 times the usual 5.00 ms: 20.00 ms waiting for copies to the device, usually 0.00; 3 of its 4 "
              "experts "
              "were not on the device (7.00 KB).");
    step.decode = false; // a prompt's steps are longer
    CHECK(t, !why_is_slow(&step, &usual));
    step.ns[MOE_ON_COPY] = 0;
    CHECK_STR(t, why(&step, &usual), "Mostly computing experts (6.00 ms).");
}

static void the_slowest_end_the_list(struct harness *t)
{
    struct moe_telemetry slow = {.decode = true, .total_ns = 9000000, .ns = {[MOE_ON_DISK] = 8000000}};
    struct moe_telemetry less = {.decode = true, .total_ns = 5000000, .ns = {[MOE_ON_HOST] = 3000000}};
    struct usual usual = {.total_ns = 2000000, .tokens = 5};
    struct inspect_slow slowest[] = {{12, &slow}, {3, &less}};
    struct inspect inspect;
    char text[512];
    begin(&inspect, text, sizeof text);
    inspect_slowest(&inspect, &usual, slowest, 2);
    fclose(inspect.out);
    CHECK_STR(t, text, "\nMedian 2.00 ms a token. Slowest: token 12, 9.00 ms (reads); 3, 5.00 ms (host).");
    usual.tokens = 0;
    begin(&inspect, text, sizeof text);
    inspect_slowest(&inspect, &usual, slowest, 2);
    fclose(inspect.out);
    CHECK_STR(t, text, "");
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(a_list_is_wrapped), TEST(lists_are_as_wide_as_asked),
                                                TEST(a_token_tells_its_experts), TEST(why_a_token_was_slow),
                                                TEST(the_slowest_end_the_list)};
    return HARNESS_RUN(tests, argc, argv);
}
