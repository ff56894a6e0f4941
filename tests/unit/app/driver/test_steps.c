// SPDX-License-Identifier: GPL-3.0-or-later
// What the worker keeps of its steps: the tokens of a turn for /inspect, bounded; and the likeliest candidates.
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "app/util/format.h"
#include "tests/harness.h"
#include "app/driver/steps.h"

enum { LAYERS = 3, TOP_K = 2, EXPERTS = 5, VOCAB = 3000, LONG_NS = 20000000 };

// A backend that only has steps.
struct played {
    struct moe_telemetry record;
    struct moe_layer_record layers[LAYERS];
    struct moe_choice choices[LAYERS * TOP_K];
    uint32_t heat[LAYERS * EXPERTS];
    int32_t next;
    struct moe_stats stats;
    uint8_t tier;                // of all experts
    struct moe_telemetry rest;   // with no layers: nothing to settle
    struct moe_telemetry so_far; // the step under way, without layers there is none
    uint32_t held;               // tokens of a prompt that was stopped
    unsigned looks;
    uint64_t sampling_ns;
};

static void sleep_ns(uint64_t ns)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
}

static const struct moe_telemetry *telemetry(void *self)
{
    return &((struct played *)self)->record;
}

static const struct moe_telemetry *so_far(void *self)
{
    const struct moe_telemetry *so_far = &((struct played *)self)->so_far;
    return so_far->layers ? so_far : NULL;
}

static uint32_t held(void *self)
{
    const struct played *played = self;
    return played->so_far.layers ? played->so_far.rows : played->held;
}

static const struct moe_telemetry *settle(void *self)
{
    const struct moe_telemetry *rest = &((struct played *)self)->rest;
    return rest->layers ? rest : NULL;
}

static const uint32_t *heat(void *self)
{
    return ((struct played *)self)->heat;
}

static void clear_heat(void *self)
{
    memset(((struct played *)self)->heat, 0, sizeof(uint32_t) * LAYERS * EXPERTS);
}

static void tiers(void *self, uint8_t *out)
{
    struct played *played = self;
    memset(out, played->tier, LAYERS * EXPERTS);
    played->looks++;
}

static int32_t sample(void *self, const int32_t *recent, size_t n_recent)
{
    (void)recent;
    (void)n_recent;
    struct played *played = self;
    sleep_ns(played->sampling_ns);
    return played->next++;
}

static size_t candidates(void *self, struct moe_candidate *out, size_t n)
{
    out[0] = (struct moe_candidate){((struct played *)self)->next, 0.75F};
    return n > 0;
}

static float probability(void *self, const struct moe_candidate *likeliest, int32_t id)
{
    (void)self;
    return likeliest->probability + (float)id;
}

static struct moe_stats stats(void *self)
{
    return ((struct played *)self)->stats;
}

static uint32_t length(void *self)
{
    return (uint32_t)((struct played *)self)->stats.decoded_tokens;
}

static const struct backend_ops ops = {.stats = stats,
                                       .length = length,
                                       .telemetry = telemetry,
                                       .so_far = so_far,
                                       .held = held,
                                       .settle = settle,
                                       .heat = heat,
                                       .clear_heat = clear_heat,
                                       .tiers = tiers,
                                       .sample = sample,
                                       .candidates = candidates,
                                       .probability = probability};

static void play(struct played *played, struct backend *backend)
{
    *played = (struct played){.record = {.decode = true,
                                         .rows = 1,
                                         .n_moe_layers = LAYERS,
                                         .top_k = TOP_K,
                                         .n_routed_experts = EXPERTS,
                                         .layers = played->layers,
                                         .choices = played->choices}};
    *backend = (struct backend){&ops, played};
}

static void step(struct steps *steps, struct played *played)
{
    played->record.step++;
    played->record.position++;
    played->record.total_ns = 1;
    played->record.ns[MOE_ON_HEAD] = 1;
    steps_note(steps);
    steps_sample(steps, NULL, 0);
    steps_keep(steps, steps_end(steps));
}

static void tokens_are_kept_with_their_steps(struct harness *t)
{
    struct played played;
    struct backend backend;
    struct steps steps;
    struct step_token token;
    uint32_t count;
    play(&played, &backend);
    steps_open(&steps, &backend);
    CHECK(t, !steps_token(&steps, 1, &token, &count) && count == 0);
    for (int turn = 0; turn < 2; turn++) {
        steps_begin_turn(&steps, format_clock_ns());
        int32_t first = played.next;
        for (int i = 0; i < 5; i++)
            step(&steps, &played);
        CHECK(t, !steps_token(&steps, 0, &token, &count) && !steps_token(&steps, 6, &token, &count));
        CHECK_EQ(t, count, 5);
        for (uint32_t n = 1; n <= 5; n++) {
            if (!CHECK(t, steps_token(&steps, n, &token, &count)))
                continue;
            CHECK_EQ(t, token.id, first + (int32_t)n - 1);
            CHECK(t, token.n_candidates == 1 && token.candidates[0].id == token.id);
            CHECK(t, token.probability == 0.75F + (float)token.id);
            CHECK_EQ(t, token.step->position, (uint32_t)turn * 5 + n);
            CHECK(t, token.step->ns[MOE_ON_HEAD] == 1 && token.step->ns[MOE_ON_HOST] > 0);
            free(token.step);
        }
    }
    steps_release(&steps);
}

static void old_tokens_make_room(struct harness *t)
{
    struct played played;
    struct backend backend;
    struct steps steps;
    struct step_token token;
    uint32_t count;
    play(&played, &backend);
    steps_open(&steps, &backend);
    steps_begin_turn(&steps, format_clock_ns());
    for (int i = 0; i < 2 * STEPS_KEPT; i++)
        step(&steps, &played);
    CHECK(t, !steps_token(&steps, 1, &token, &count));
    CHECK_EQ(t, count, 2 * STEPS_KEPT);
    CHECK(t, steps.n_tokens <= STEPS_KEPT && steps.n_tokens > STEPS_KEPT / 2);
    if (CHECK(t, steps_token(&steps, count, &token, &count))) {
        CHECK_EQ(t, token.id, 2 * STEPS_KEPT - 1);
        free(token.step);
    }
    CHECK_EQ(t, steps.tokens_bytes, steps.n_tokens * figures_bytes(&played.record));
    steps_release(&steps);
}

// Saving the conversation is a part by itself, not the host's work for the model.
static void saving_is_its_own_part(struct harness *t)
{
    struct played played;
    struct backend backend;
    struct steps steps;
    struct step_token token;
    uint32_t count;
    play(&played, &backend);
    steps_open(&steps, &backend);
    steps_begin_turn(&steps, format_clock_ns());
    steps_begin_saving(&steps);
    sleep_ns(LONG_NS);
    steps_end_saving(&steps);
    step(&steps, &played);
    step(&steps, &played);
    for (uint32_t n = 1; n <= 2 && CHECK(t, steps_token(&steps, n, &token, &count)); n++) {
        uint64_t saving = token.step->ns[MOE_ON_SAVING], sum = 0;
        for (int i = 0; i < MOE_INTERVALS; i++)
            sum += token.step->ns[i];
        CHECK(t, n == 1 ? saving >= LONG_NS : saving == 0);
        CHECK_EQ(t, sum, token.step->total_ns);
        free(token.step);
    }
    steps_release(&steps);
}

// Not with every token, but now and then, also while a step is under way, and in the end for sure.
static void where_experts_are_is_looked_up_now_and_then(struct harness *t)
{
    struct played played;
    struct backend backend;
    struct steps steps;
    struct figures figures = {0};
    play(&played, &backend);
    steps_open(&steps, &backend);
    steps_end_turn(&steps, 0);
    CHECK_EQ(t, played.looks, 0); // nothing is known of the model yet
    uint64_t began = format_clock_ns();
    steps_begin_turn(&steps, format_clock_ns());
    played.tier = MOE_TIER_HOST;
    for (int i = 0; i < 1000; i++)
        step(&steps, &played);
    CHECK(t, played.looks >= 1 && played.looks <= 2 + (format_clock_ns() - began) / STEPS_LOOK_NS);
    CHECK(t, steps_figures(&steps, &figures) && figures.tiers[LAYERS * EXPERTS - 1] == MOE_TIER_HOST);
    played.tier = MOE_TIER_DEVICE;
    played.heat[3] = 77;
    sleep_ns(STEPS_LOOK_NS + 1000000);
    steps_note(&steps); // no new step
    CHECK(t, steps_figures(&steps, &figures) && figures.tiers[0] == MOE_TIER_DEVICE && figures.heat[3] == 77);
    played.tier = MOE_TIER_DISK;
    steps_end_turn(&steps, 0);
    CHECK(t, steps_figures(&steps, &figures) && figures.tiers[0] == MOE_TIER_DISK);
    figures_release(&figures);
    steps_release(&steps);
}

static void note_later(struct steps *steps)
{
    sleep_ns(STEPS_LOOK_NS + 1000000);
    steps_note(steps);
}

// A prompt goes through the layers as one step, which may take minutes: it counts while it is under way, and once when
// it has ended.
static void a_step_under_way_counts(struct harness *t)
{
    struct played played;
    struct backend backend;
    struct steps steps;
    struct figures figures = {.last = NULL};
    play(&played, &backend);
    played.record.step = 0;
    steps_open(&steps, &backend);
    steps.seen = 0;
    steps_begin_turn(&steps, format_clock_ns());
    struct moe_layer_record layers[LAYERS] = {{.layer = 0}, {.layer = 1}, {.layer = 2}};
    for (uint32_t group = 0; group < 2; group++) {
        uint32_t done = 8 * group;
        uint64_t began = format_clock_ns();
        memset(layers, 0, sizeof layers);
        played.so_far = played.record;
        played.so_far.decode = false;
        played.so_far.choices = NULL;
        played.so_far.layers = layers;
        played.so_far.step = played.record.step + 1;
        memset(played.so_far.ns, 0, sizeof played.so_far.ns);
        for (uint32_t i = 1; i <= 2; i++) {
            played.so_far.rows = 3 * i;
            layers[0].n_from[MOE_FROM_DISK] = 5 * i;
            layers[1].bytes_disk = 7000 * i;
            played.so_far.ended_ns = format_clock_ns();
            played.so_far.total_ns = played.so_far.ns[MOE_ON_DISK] = played.so_far.ended_ns - began;
            note_later(&steps);
            if (!CHECK(t, steps_figures(&steps, &figures) && figures.last_is_now && figures.last_is_under_way))
                return;
            for (int of = FIGURES_TURN; of <= FIGURES_PROGRAM; of++) {
                const struct tally *tally = &figures.tallies[of];
                CHECK(t, tally->rows == done + 3 * i && tally->misses == 10 * group + 5 * i);
                CHECK_EQ(t, tally->bytes_read, 14000 * group + 7000 * i);
                CHECK_EQ(t, figures.sums[of]->layers[0].n_from[MOE_FROM_DISK], 10 * group + 5 * i);
            }
            CHECK_EQ(t, figures.last->ns[MOE_ON_DISK], played.so_far.total_ns);
            CHECK_EQ(t, figures.context, done + 3 * i);
            CHECK_EQ(t, figures.tallies[FIGURES_NEXT].rows, 0);
        }
        played.so_far.rows = 8;
        played.record = played.so_far; // it ends
        memcpy(played.layers, layers, sizeof layers);
        played.record.layers = played.layers;
        played.so_far = (struct moe_telemetry){.layers = NULL};
        played.stats.decoded_tokens += 8; // this backend's length
        steps_note(&steps);
        CHECK(t, steps_figures(&steps, &figures)); // while it is held, what was seen of it last stays
        CHECK_EQ(t, figures.tallies[FIGURES_TURN].misses, 10 * group + 10);
    }
    free(steps_end(&steps));
    CHECK(t, steps_figures(&steps, &figures) && figures.last_is_now && !figures.last_is_under_way);
    CHECK(t, figures.tallies[FIGURES_TURN].rows == 16 && figures.tallies[FIGURES_TURN].misses == 20);
    CHECK(t, figures.sums[FIGURES_TURN]->step == 2 && figures.context == 16);
    figures_release(&figures);
    steps_release(&steps);
}

// What a stopped prompt left is held until something else is fed; another answer, which reads nothing, begins without.
static void what_is_held_is_no_part_of_another_turn(struct harness *t)
{
    struct played played;
    struct backend backend;
    struct steps steps;
    struct figures figures = {.last = NULL};
    play(&played, &backend);
    played.stats.decoded_tokens = 40; // this backend's length
    played.held = 7;
    steps_open(&steps, &backend);
    steps_begin_turn(&steps, format_clock_ns());
    steps_turn_to(&steps, STEPS_ANSWERING);
    steps_figures(&steps, &figures);
    CHECK_EQ(t, figures.context, 40);
    step(&steps, &played);
    free(steps_end(&steps));
    steps_figures(&steps, &figures);
    CHECK_EQ(t, figures.context, 41);
    figures_release(&figures);
    steps_release(&steps);
}

// How often experts were used is of a turn: the backend forgets it when one ends, and what the answer's end leaves to
// be fed counts to the next.
static void heat_is_of_a_turn(struct harness *t)
{
    struct played played;
    struct backend backend;
    struct steps steps;
    struct figures figures = {0};
    play(&played, &backend);
    steps_open(&steps, &backend);
    steps_begin_turn(&steps, format_clock_ns());
    played.heat[1] = 5;
    step(&steps, &played);
    steps_turn_to(&steps, STEPS_ANSWERING);
    CHECK_EQ(t, played.heat[1], 5);
    step(&steps, &played);
    steps_turn_to(&steps, STEPS_BETWEEN);
    CHECK_EQ(t, played.heat[1], 0);
    CHECK(t, steps_figures(&steps, &figures) && figures.heat[1] == 5); // what is told of it stays
    played.heat[2] = 3;
    steps_begin_turn(&steps, format_clock_ns());
    CHECK(t, played.heat[2] == 3 && steps_figures(&steps, &figures) && figures.heat[1] == 0);
    figures_release(&figures);
    steps_release(&steps);
}

static struct tally tally_of(struct steps *steps, enum figures_of of)
{
    struct figures figures = {0};
    struct tally tally = steps_figures(steps, &figures) ? figures.tallies[of] : (struct tally){0};
    figures_release(&figures);
    return tally;
}

// Medians, the slowest, and what a larger cache would have held; the prompt's step is not among them.
static void a_turn_sums_itself_up(struct harness *t)
{
    struct played played;
    struct backend backend;
    struct steps steps;
    struct usual usual;
    uint32_t slowest[STEPS_SLOWEST];
    play(&played, &backend);
    steps_open(&steps, &backend);
    steps_usual(&steps, &usual, slowest);
    CHECK(t, usual.tokens == 0 && slowest[0] == 0 && steps_hits_with(&steps, 5) < 0);
    played.layers[0].n_from[MOE_FROM_DISK] = TOP_K;
    steps_begin_turn(&steps, format_clock_ns());
    played.record.decode = false;
    played.record.choices = NULL;
    step(&steps, &played);
    played.record.decode = true;
    played.record.choices = played.choices;
    for (uint32_t i = 0; i < LAYERS * TOP_K; i++)
        played.choices[i].expert = (uint16_t)(i % TOP_K);
    played.record.step++;
    steps_note(&steps); // a token of the prompt that goes through by itself
    free(steps_end(&steps));
    CHECK(t, steps_hits_with(&steps, 5) < 0 && tally_of(&steps, FIGURES_CONVERSATION).single_asked == 0);
    steps_turn_to(&steps, STEPS_ANSWERING);
    for (int i = 0; i < 9; i++) {
        step(&steps, &played);
        struct moe_telemetry *kept = steps.tokens[steps.n_tokens - 1].step;
        kept->total_ns = kept->ns[MOE_ON_DISK] = (uint64_t[]){5, 1, 9, 2, 8, 7, 3, 6, 4}[i] * 1000;
    }
    steps_usual(&steps, &usual, slowest);
    CHECK(t,
          usual.tokens == 9 && usual.total_ns == 5000 && usual.ns[MOE_ON_DISK] == 5000 && usual.ns[MOE_ON_HEAD] == 1);
    CHECK(t, slowest[0] == 4 && slowest[1] == 6 && slowest[2] == 7 && !usual.shared_out);
    steps.n_tokens--;
    steps_usual(&steps, &usual, slowest);
    CHECK(t, usual.tokens == 8 && usual.total_ns == 5500 && usual.ns[MOE_ON_DISK] == 5500); // between 5 and 6
    steps.n_tokens++;
    steps.tokens[steps.n_tokens - 1].step->shared_out = true;
    steps_usual(&steps, &usual, slowest);
    CHECK(t, usual.shared_out);
    const struct tally told = tally_of(&steps, FIGURES_CONVERSATION);
    CHECK(t, told.single_asked > 0 && told.single_asked * 11 == (told.hits + told.misses) * 9);
    steps_turn_to(&steps, STEPS_BETWEEN);
    played.record.step++;
    steps_note(&steps);
    free(steps_end(&steps));
    CHECK_EQ(t, tally_of(&steps, FIGURES_CONVERSATION).single_asked, told.single_asked);
    CHECK(t, steps_hits_with(&steps, LAYERS * TOP_K - 1) == 0);
    CHECK(t, steps_hits_with(&steps, LAYERS * TOP_K) > 0.88 && steps_hits_with(&steps, LAYERS * TOP_K) < 0.89);
    steps_release(&steps);
}

// As while the process is suspended.
static void stand_ns(uint64_t ns)
{
    moe_clock_stop();
    sleep_ns(ns);
    moe_clock_go_on();
}

// An answer's speed is of the time from one token to the next with all that is done there, as its steps tell it, too.
// Neither what leads to the first token nor what follows the last is part of it, nor is waiting for the face.
static void speed_is_of_the_time_between_tokens(struct harness *t)
{
    struct played played;
    struct backend backend;
    struct steps steps;
    play(&played, &backend);
    steps_open(&steps, &backend);
    for (int turn = 1; turn <= 2; turn++) {
        uint64_t told = 0;
        steps_begin_turn(&steps, format_clock_ns());
        sleep_ns(LONG_NS);
        steps_turn_to(&steps, STEPS_ANSWERING);
        for (int i = 0; i < 3; i++) {
            played.sampling_ns = LONG_NS;
            played.stats.decoded_tokens++; // its own count of them, and of less time
            step(&steps, &played);
            played.sampling_ns = 0;
            sleep_ns(LONG_NS); // what is done with the token
            told += i ? steps.tokens[i].step->total_ns : 0;
        }
        struct tally tally = steps_tally(&steps), all = tally_of(&steps, FIGURES_CONVERSATION);
        CHECK(t, tally.answered_tokens == 3 && tally.answer_steps == 2 && all.answer_steps == 2 * (uint64_t)turn);
        CHECK(t, tally.answer_ns >= 4 * (uint64_t)LONG_NS && all.answer_ns >= (uint64_t)turn * 4 * LONG_NS);
        uint64_t apart = tally.answer_ns > told ? tally.answer_ns - told : told - tally.answer_ns;
        CHECK(t, apart < 2 * (uint64_t)LONG_NS);
        played.stats.decoded_tokens++;
        played.record.step++;
        steps_note(&steps); // leads to the mark that ends the answer
        steps_sample(&steps, NULL, 0);
        sleep_ns(LONG_NS);
        steps_turn_to(&steps, STEPS_BETWEEN);
        steps_end_turn(&steps, 3);
        struct tally after = steps_tally(&steps);
        CHECK(t, after.answer_steps == 2 && after.answer_ns == tally.answer_ns);
    }
    steps_begin_turn(&steps, format_clock_ns());
    steps_turn_to(&steps, STEPS_ANSWERING);
    step(&steps, &played);
    uint64_t began = format_clock_ns();
    sleep_ns(20 * (uint64_t)LONG_NS);
    steps_were_held_up(&steps, format_clock_ns() - began);
    step(&steps, &played);
    struct tally tally = steps_tally(&steps);
    CHECK(t, tally.answer_steps == 1 && tally.answer_ns < 20 * (uint64_t)LONG_NS);
    steps_release(&steps);
}

// Ctrl-Z stops the clock with the process, in the midst of a step or between two.
static void a_stop_is_nobodys_time(struct harness *t)
{
    enum { MS = 1000000 };
    struct played played;
    struct backend backend;
    struct steps steps;
    struct figures figures = {0};
    play(&played, &backend);
    steps_open(&steps, &backend);
    steps_begin_turn(&steps, format_clock_ns());
    steps_turn_to(&steps, STEPS_ANSWERING);
    for (int i = 0; i < 4; i++) {
        uint64_t began = format_clock_ns();
        sleep_ns(5 * (uint64_t)MS);
        if (i > 1)
            stand_ns(200 * (uint64_t)MS);
        played.record.step++;
        played.record.total_ns = format_clock_ns() - began;
        played.record.ns[MOE_ON_HEAD] = played.record.total_ns;
        steps_note(&steps);
        steps_sample(&steps, NULL, 0);
        if (i == 1)
            stand_ns(200 * (uint64_t)MS);
        steps_keep(&steps, steps_end(&steps));
    }
    steps_end_turn(&steps, 3);
    CHECK(t, steps_figures(&steps, &figures));
    for (int i = FIGURES_TURN; i <= FIGURES_PROGRAM; i++)
        CHECK(t, figures.tallies[i].answer_ns >= 15 * (uint64_t)MS &&
                     figures.tallies[i].answer_ns < 150 * (uint64_t)MS && figures.tallies[i].answer_steps == 3);
    for (size_t i = 0; i < 4; i++)
        CHECK(t, steps.tokens[i].step->total_ns < 150 * (uint64_t)MS);
    CHECK(t, figures.sums[FIGURES_TURN]->ns[MOE_ON_HEAD] < 150 * (uint64_t)MS);
    figures_release(&figures);
    steps_release(&steps);
}

// Of a prompt in several groups all but the last are seen when the next one is under way already.
static void no_time_counts_twice(struct harness *t)
{
    enum { MS = 1000000, GROUPS = 3 };
    struct played played;
    struct backend backend;
    struct steps steps;
    struct figures figures = {0};
    play(&played, &backend);
    played.record.decode = false;
    played.record.choices = NULL;
    steps_open(&steps, &backend);
    uint64_t turn_began = format_clock_ns(), own = 0;
    steps_begin_turn(&steps, turn_began);
    sleep_ns(3 * (uint64_t)MS);
    uint64_t began = format_clock_ns();
    for (int i = 0; i < GROUPS; i++) {
        sleep_ns(10 * (uint64_t)MS);
        uint64_t ended = played.record.ended_ns = format_clock_ns();
        if (i + 1 < GROUPS)
            sleep_ns(20 * (uint64_t)MS); // the next one's
        played.record.step++;
        played.record.total_ns = played.record.ns[MOE_ON_ATTENTION] = ended - began;
        own += ended - began;
        began = ended;
        steps_note(&steps);
    }
    steps_end_turn(&steps, 3);
    uint64_t took = format_clock_ns() - turn_began;
    CHECK(t, steps_figures(&steps, &figures));
    const struct moe_telemetry *sum = figures.sums[FIGURES_TURN];
    uint64_t parts = 0;
    for (int i = 0; i < MOE_INTERVALS; i++)
        parts += sum->ns[i];
    CHECK(t, sum->ns[MOE_ON_ATTENTION] == own && parts == sum->total_ns);
    CHECK(t, sum->total_ns <= took && took - sum->total_ns < 2 * (uint64_t)MS + took / 10);
    figures_release(&figures);
    steps_release(&steps);
}

// Else the pane would tell of another message's step while the first of this one is under way.
static void a_turn_has_no_last_step_before_its_first(struct harness *t)
{
    struct played played;
    struct backend backend;
    struct steps steps;
    struct figures figures = {.last = NULL};
    play(&played, &backend);
    steps_open(&steps, &backend);
    for (int turn = 0; turn < 2; turn++) {
        steps_begin_turn(&steps, format_clock_ns());
        CHECK_EQ(t, steps_figures(&steps, &figures), turn > 0);
        CHECK(t, !figures.last_is_now);
        step(&steps, &played);
        free(steps_end(&steps));
        CHECK(t, steps_figures(&steps, &figures) && figures.last_is_now);
        steps_end_turn(&steps, 1);
        steps_turn_to(&steps, STEPS_BETWEEN);
    }
    figures_release(&figures);
    steps_release(&steps);
}

// What arrived after the last step is the turn's that ends; what arrived since, the next one's. Neither is a step.
static void what_arrives_after_the_last_step_is_counted_once(struct harness *t)
{
    struct played played;
    struct backend backend;
    struct steps steps;
    struct figures figures = {0};
    struct moe_layer_record late[LAYERS] = {{.bytes_disk = 100, .bytes_cached = 40, .bytes_device = 7, .wasted = 1}};
    play(&played, &backend);
    steps_open(&steps, &backend);
    steps_begin_turn(&steps, format_clock_ns());
    steps_turn_to(&steps, STEPS_ANSWERING);
    played.layers[0].bytes_disk = 1000;
    step(&steps, &played);
    played.rest = played.record;
    played.rest.rows = 0;
    played.rest.total_ns = played.rest.ns[MOE_ON_HEAD] = 0;
    played.rest.choices = NULL;
    played.rest.layers = late;
    steps_end_turn(&steps, 1);
    steps_turn_to(&steps, STEPS_BETWEEN);
    CHECK(t, steps_figures(&steps, &figures));
    for (int i = FIGURES_TURN; i <= FIGURES_PROGRAM; i++) {
        const struct tally *tally = &figures.tallies[i];
        CHECK(t, tally->bytes_read == 1100 && tally->bytes_cached == 40 && tally->bytes_copied == 7);
        CHECK(t, tally->wasted == 1 && tally->rows == 1 && figures.sums[i]->step == 1 && figures.sums[i]->rows == 1);
        CHECK_EQ(t, figures.sums[i]->layers[0].bytes_disk, 1100);
    }
    CHECK_EQ(t, figures.last->layers[0].bytes_disk, 1000);
    CHECK_EQ(t, figures.tallies[FIGURES_NEXT].bytes_read, 0);
    late[0] = (struct moe_layer_record){.bytes_disk = 30};
    steps_begin_turn(&steps, format_clock_ns());
    CHECK(t, steps_figures(&steps, &figures));
    CHECK_EQ(t, figures.tallies[FIGURES_TURN].bytes_read, 30);
    CHECK_EQ(t, figures.tallies[FIGURES_PROGRAM].bytes_read, 1130);
    late[0].bytes_disk = 5;
    steps_begin_conversation(&steps); // leaves the turn that way
    CHECK(t, steps_figures(&steps, &figures));
    CHECK_EQ(t, figures.tallies[FIGURES_PROGRAM].bytes_read, 1135);
    CHECK_EQ(t, figures.tallies[FIGURES_TURN].bytes_read, 0);
    figures_release(&figures);
    steps_release(&steps);
}

static void candidates_are_the_likeliest(struct harness *t)
{
    static float logits[VOCAB];
    uint32_t state = 7;
    double sum = 0;
    for (int i = 0; i < VOCAB; i++) {
        state = state * 1664525u + 1013904223u;
        logits[i] = (float)(state >> 8) / 16777216.0F * 30 - 20;
    }
    logits[17] = logits[2000] = 15; // of equals the lower id first
    logits[3] = -INFINITY;
    for (int i = 0; i < VOCAB; i++)
        sum += exp((double)logits[i]);
    struct moe_candidate found[10];
    CHECK_EQ(t, moe_candidates(logits, VOCAB, found, 10), 10);
    CHECK(t, found[0].id == 17 && found[1].id == 2000);
    for (int k = 0; k < 10; k++) {
        double want = exp((double)logits[found[k].id]) / sum;
        CHECK(t, fabs((double)found[k].probability - want) < 0.01 * want);
        CHECK(t, fabs((double)moe_probability(logits, found, found[k].id) - want) < 0.01 * want);
        CHECK(t, k == 0 || found[k - 1].probability >= found[k].probability);
        int better = 0;
        for (int i = 0; i < VOCAB; i++)
            better += logits[i] > logits[found[k].id];
        CHECK(t, better <= k);
    }
    CHECK(t, fabs((double)moe_probability(logits, found, 5) * sum / exp((double)logits[5]) - 1) < 0.01);
    CHECK_EQ(t, moe_candidates(logits, 4, found, 10), 3);
    double whole = (double)found[0].probability;
    logits[3] = INFINITY; // no candidate, and no part of what they share
    CHECK_EQ(t, moe_candidates(logits, 4, found, 10), 3);
    CHECK(t, (double)found[0].probability == whole);
    CHECK(t, fabs((double)(found[0].probability + found[1].probability + found[2].probability) - 1) < 0.001);
    logits[0] = logits[1] = logits[2] = -INFINITY;
    CHECK_EQ(t, moe_candidates(logits, 4, found, 10), 0);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(tokens_are_kept_with_their_steps),
        TEST(old_tokens_make_room),
        TEST(saving_is_its_own_part),
        TEST(where_experts_are_is_looked_up_now_and_then),
        TEST(a_step_under_way_counts),
        TEST(what_is_held_is_no_part_of_another_turn),
        TEST(heat_is_of_a_turn),
        TEST(a_turn_sums_itself_up),
        TEST(speed_is_of_the_time_between_tokens),
        TEST(a_stop_is_nobodys_time),
        TEST(no_time_counts_twice),
        TEST(a_turn_has_no_last_step_before_its_first),
        TEST(what_arrives_after_the_last_step_is_counted_once),
        TEST(candidates_are_the_likeliest),
    };
    return HARNESS_RUN(tests, argc, argv);
}
