// SPDX-License-Identifier: GPL-3.0-or-later
// Figures as they are added up and as people are told them, in thousands of cases each.
#include <locale.h>
#include <stdlib.h>

#include "app/figures/figures.h"
#include "app/figures/why.h"
#include "app/view/inspect.h"
#include "app/view/plan_words.h"
#include "app/view/stats.h"
#include "tests/some_figures.h"

static void say_tally(struct cases *cases, const struct tally *tally)
{
    char read[96], found[TALLY_FOUND_SIZE];
    cases_say(cases, "%s; %s; %.6g %.6g %.6g %.6g %.6g %llu, %llu rows, %llu wasted, %s %s\n",
              tally_read_words(read, sizeof read, tally), tally_found_words(found, tally), tally_read_a_token(tally),
              tally_cached_a_token(tally), tally_hit_share(tally), tally_read_speed(tally), tally_answer_speed(tally),
              (unsigned long long)tally_used(tally), (unsigned long long)tally->rows, (unsigned long long)tally->wasted,
              tally->policy ? tally->policy : "-", tally->reason);
}

static void say_record(struct cases *cases, const struct moe_telemetry *record)
{
    if (!record) {
        cases_say(cases, "none\n");
        return;
    }
    cases_say(cases, "%llu %u %d %d%s %llu %llu %llu:", (unsigned long long)record->step, record->rows, record->decode,
              record->stopped, record->shared_out ? "~" : "", (unsigned long long)record->total_ns,
              (unsigned long long)record->launches, (unsigned long long)record->waits);
    for (int i = 0; i < MOE_INTERVALS; i++)
        cases_say(cases, " %llu", (unsigned long long)record->ns[i]);
    for (uint32_t i = 0; i < record->n_moe_layers; i++) {
        const struct moe_layer_record *layer = &record->layers[i];
        cases_say(cases, "\n  %u", layer->layer);
        for (int from = 0; from < MOE_ORIGINS; from++)
            cases_say(cases, " %u", layer->n_from[from]);
        cases_say(cases, " %u %llu %llu %llu %llu", layer->wasted, (unsigned long long)layer->bytes_disk,
                  (unsigned long long)layer->bytes_cached, (unsigned long long)layer->bytes_device,
                  (unsigned long long)layer->wait_ns);
    }
    cases_say(cases, "\n");
}

static void some_choices(struct cases *cases, struct moe_choice choices[MOST_LAYERS * TOP_K])
{
    for (uint32_t i = 0; i < MOST_LAYERS * TOP_K; i++)
        choices[i] = (struct moe_choice){.expert = (uint16_t)cases_draw(cases, MOST_EXPERTS),
                                         .origin = (uint8_t)cases_draw(cases, MOE_ORIGINS),
                                         .weight = (float)cases_draw(cases, 1000) / 500,
                                         .wait_us = cases_draw(cases, 3) ? 0 : (uint32_t)some_whole(cases) % 100000};
}

// A record whose number of layers stays, as a model's does.
static struct moe_telemetry some_step(struct cases *cases, const struct moe_layer_record *layers,
                                      const struct moe_choice *choices)
{
    struct moe_telemetry step = some_record(cases, layers);
    step.n_moe_layers = MOST_LAYERS;
    step.launches = some_whole(cases);
    step.waits = some_whole(cases);
    step.choices = step.decode && !step.stopped ? choices : NULL;
    return step;
}

// Lives of a chat's figures: steps of turns and between them, what comes late, new conversations, copies.
static void sums(struct harness *t)
{
    struct cases cases = cases_begin("sums");
    for (int life = 0; life < 60; life++) {
        struct figures figures = {0}, copy = {0};
        for (int act = 0; act < 40; act++) {
            struct moe_layer_record layers[MOST_LAYERS];
            struct moe_choice choices[MOST_LAYERS * TOP_K];
            uint32_t heat[MOST_LAYERS * MOST_EXPERTS];
            some_layers(&cases, layers);
            some_choices(&cases, choices);
            for (size_t i = 0; i < sizeof heat / sizeof heat[0]; i++)
                heat[i] = cases_draw(&cases, 5);
            struct moe_telemetry step = some_step(&cases, layers, choices);
            struct tally more = some_tally(&cases);
            bool between = cases_draw(&cases, 4) == 0;
            switch (cases_draw(&cases, 9)) {
            case 0:
                figures_begin_turn(&figures);
                break;
            case 1:
                figures_settle(&figures, &step, between);
                break;
            case 2:
                figures_count(&figures, &more, between);
                break;
            case 3:
                figures_take_heat(&figures, heat, between);
                break;
            case 4:
                if (act > 30)
                    figures_begin_conversation(&figures);
                break;
            default:
                CHECK(t, figures_take(&figures, &step, between, heat));
            }
            if (figures.tiers)
                figures.tiers[cases_draw(&cases, sizeof heat / sizeof heat[0])] =
                    (uint8_t)cases_draw(&cases, MOE_TIERS);
            cases_say(&cases, "copy %d, now %d, on device %llu\n", figures_copy(&copy, &figures), figures.last_is_now,
                      (unsigned long long)figures_on_device(&copy));
            say_record(&cases, copy.last);
            for (int of = 0; of < FIGURES_SUMS; of++) {
                say_record(&cases, copy.sums[of]);
                say_tally(&cases, &copy.tallies[of]);
            }
            for (size_t i = 0; copy.heat && i < sizeof heat / sizeof heat[0]; i++)
                cases_say(&cases, "%u%u", copy.heat[i], copy.tiers[i]);
        }
        figures_release(&figures);
        figures_release(&copy);
    }
    CHECK_CASES(t, &cases, 0x092fb371192450fa);
}

static void tallies(struct harness *t)
{
    struct cases cases = cases_begin("tallies");
    for (int n = 0; n < 3000; n++) {
        struct tally tally = some_tally(&cases), more = some_tally(&cases);
        say_tally(&cases, &tally);
        tally_add(&tally, &more);
        say_tally(&cases, &tally);
        tally_clear(&tally);
        say_tally(&cases, &tally);
        uint64_t late = cases_draw(&cases, 9), hits = late + cases_draw(&cases, 99);
        struct moe_stats then = {.prefilled_tokens = 3,
                                 .prefill_ns = 7,
                                 .bytes_read = 100,
                                 .bytes_cached = 50,
                                 .wait_ns = 9,
                                 .prefetched = 4,
                                 .wasted = 1},
                         now = {.prefilled_tokens = 3 + cases_draw(&cases, 9),
                                .prefill_ns = 7 + some_whole(&cases),
                                .hits = hits,
                                .misses = cases_draw(&cases, 9),
                                .late = late,
                                .used = cases_draw(&cases, 9),
                                .bytes_read = 100 + some_whole(&cases),
                                .bytes_cached = 50 + cases_draw(&cases, 50),
                                .wait_ns = 9 + some_whole(&cases),
                                .prefetched = 4 + cases_draw(&cases, 9),
                                .wasted = 1 + cases_draw(&cases, 9),
                                .prefetch_policy = cases_draw(&cases, 2) ? "router" : NULL};
        tally = tally_between(&then, &now);
        say_tally(&cases, &tally);
        cases_say(&cases, "%llu %llu %llu\n", (unsigned long long)tally.ahead, (unsigned long long)tally.wait_ns,
                  (unsigned long long)tally.from[MOE_FROM_PREFETCH]);
    }
    CHECK_CASES(t, &cases, 0x115e92ed2a34fc88);
}

static size_t text_of(void *context, int32_t id, const char **bytes)
{
    static const char *const words[] = {
        " to", "a\nb\t", "", "abcdefghijklmnopqrstuvwxyz", "\"", "\\", "\346\227\245\346\234\254\350\252\236"};
    (void)context;
    *bytes = words[id];
    return strlen(words[id]);
}

static struct step_token some_token(struct cases *cases)
{
    static const float shares[] = {-1,   0,     0.00001F, 0.00005F, 0.0001F, 0.004F, 0.0999F,
                                   0.1F, 0.25F, 0.5F,     0.9949F,  0.996F,  1};
    struct step_token token = {.id = (int32_t)cases_draw(cases, 7),
                               .probability = shares[cases_draw(cases, 13)],
                               .n_candidates = cases_draw(cases, STEPS_CANDIDATES + 1)};
    for (uint32_t i = 0; i < token.n_candidates; i++)
        token.candidates[i] =
            (struct moe_candidate){.id = (int32_t)cases_draw(cases, 7), .probability = shares[cases_draw(cases, 13)]};
    return token;
}

// What a token took, and why it was slow.
static void looks(struct harness *t)
{
    struct cases cases = cases_begin("looks");
    for (int n = 0; n < 2500; n++) {
        struct moe_layer_record layers[MOST_LAYERS];
        struct moe_choice choices[MOST_LAYERS * TOP_K];
        char *said = NULL, why[WHY_SIZE];
        size_t length;
        some_layers(&cases, layers);
        some_choices(&cases, choices);
        struct moe_telemetry step = some_step(&cases, layers, choices);
        struct usual usual = {.tokens = cases_draw(&cases, 3)};
        for (int i = 0; i < MOE_INTERVALS; i++) { // near the step's own, so that some are just slow
            usual.ns[i] = step.ns[i] * (2 + cases_draw(&cases, 3)) / 4;
            usual.total_ns += usual.ns[i];
        }
        usual.shared_out = usual.tokens == 2;
        if (cases_draw(&cases, 8) == 0)
            step.total_ns = usual.total_ns * 3 / 2 + cases_draw(&cases, 3) - 1;
        cases_say(&cases, "%d %d %s\n", why_interval(&step, &usual), why_is_slow(&step, &usual),
                  why_words(why, &step, &usual));
        FILE *out = open_memstream(&said, &length);
        if (!CHECK(t, out != NULL))
            break;
        struct inspect inspect = {.out = out, .text = text_of, .columns = 30 + (int)cases_draw(&cases, 60)};
        for (uint32_t i = cases_draw(&cases, 12); i > 0; i--) {
            struct step_token listed = some_token(&cases);
            inspect_list(&inspect, 13 - i, &listed);
        }
        struct inspect_slow slowest[2] = {{3, &step}, {11, &step}};
        inspect_slowest(&inspect, &usual, slowest, (int)cases_draw(&cases, 3));
        struct step_token token = some_token(&cases);
        token.step = cases_draw(&cases, 6) ? &step : NULL;
        inspect_token(&inspect, (struct inspect_number){1 + cases_draw(&cases, 3), 1 + cases_draw(&cases, 3)}, &token,
                      &usual);
        fclose(out);
        cases_bytes(&cases, said, length);
        free(said);
    }
    CHECK_CASES(t, &cases, 0xd2cf929c9431ecf7);
}

static struct moe_cache_plan some_plan(struct cases *cases)
{
    struct moe_cache_plan plan = {.slots = cases_draw(cases, 200),
                                  .slot_bytes = some_whole(cases),
                                  .cache_bytes = some_whole(cases),
                                  .host_cache_bytes = cases_draw(cases, 2) ? 0 : some_whole(cases),
                                  .smallest_bytes = some_whole(cases),
                                  .all = cases_draw(cases, 5) == 0,
                                  .host_slots = cases_draw(cases, 2) ? 0 : cases_draw(cases, 100),
                                  .host_only_passes = cases_draw(cases, 3) == 0,
                                  .experts = cases_draw(cases, 130),
                                  .token_experts = cases_draw(cases, 60),
                                  .per_layer = cases_draw(cases, 3) == 0,
                                  .resident_bytes = some_whole(cases),
                                  .readers = 1 + cases_draw(cases, 3),
                                  .direct = cases_draw(cases, 2),
                                  .direct_refused = cases_draw(cases, 4) == 0,
                                  .disk_bytes_per_s = cases_draw(cases, 3) ? 1000 * some_whole(cases) : 0,
                                  .cold_bytes = some_whole(cases),
                                  .state_bytes = some_whole(cases),
                                  .snapshot_bytes = some_whole(cases),
                                  .free_bytes = some_whole(cases),
                                  .row_bytes = some_whole(cases),
                                  .context = (uint32_t)some_whole(cases),
                                  .context_chosen = cases_draw(cases, 2)};
    return plan;
}

static void plans_and_stats(struct harness *t)
{
    struct cases cases = cases_begin("plans_and_stats");
    for (int n = 0; n < 3000; n++) {
        char text[PLAN_WORDS_SIZE], *said = NULL;
        size_t length;
        struct moe_layer_record layers[MOST_LAYERS];
        some_layers(&cases, layers);
        struct moe_telemetry sum = some_record(&cases, layers);
        struct backend_info info = {.name = "small",
                                    .device = "a device",
                                    .cache = some_plan(&cases),
                                    .max_context = (uint32_t)some_whole(&cases),
                                    .context_limit = (uint32_t)some_whole(&cases),
                                    .row_bytes = some_whole(&cases)};
        cases_say(&cases, "%s\n", plan_words(text, sizeof text, &info.cache));
        struct context_figures context = {info.max_context, info.context_limit, info.row_bytes, 0, 0};
        cases_say(&cases, "%s\n", plan_context(text, sizeof text, &context));
        cases_say(&cases, "%s\n", plan_warning(text, sizeof text, &info.cache, cases_draw(&cases, 2)));
        info.to_start = (struct process_reads){cases_draw(&cases, 2), some_whole(&cases), some_whole(&cases)};
        struct stats stats = {.info = &info,
                              .conversation = some_tally(&cases),
                              .program = some_tally(&cases),
                              .sum = cases_draw(&cases, 4) ? &sum : NULL,
                              .context_used = (uint32_t)some_whole(&cases),
                              .context_then = (uint32_t)some_whole(&cases),
                              .messages = cases_draw(&cases, 4),
                              .to_read_anew = cases_draw(&cases, 4) == 0,
                              .seed = some_whole(&cases),
                              .seed_was_used = cases_draw(&cases, 2)};
        stats.process = (struct process_reads){info.to_start.known, info.to_start.device_bytes + some_whole(&cases),
                                               info.to_start.call_bytes + some_whole(&cases)};
        stats_rooms(&stats);
        for (int i = 0; i < stats.n_rooms; i++)
            stats.rooms[i].share = (double)cases_draw(&cases, 102) / 100 - 0.01;
        FILE *out = open_memstream(&said, &length);
        if (!CHECK(t, out != NULL))
            break;
        stats_print(out, &stats);
        fclose(out);
        cases_bytes(&cases, said, length);
        free(said);
    }
    CHECK_CASES(t, &cases, 0x14bc27ffbdefbe56);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(sums), TEST(tallies), TEST(looks), TEST(plans_and_stats)};
    setlocale(LC_CTYPE, "C.UTF-8");
    return HARNESS_RUN(tests, argc, argv);
}
