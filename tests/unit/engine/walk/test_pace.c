// SPDX-License-Identifier: GPL-3.0-or-later
// A prompt's time left, on simulated machines: a device that computes in order, a disk that reads in order some experts
// ahead, a cache, and a host between them. Nobody tells the pace how fast any of them is, and no step takes quite what
// it should; yet from the first tenth on the whole is known within 20 %.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness.h"
#include "engine/walk/pace.h"

enum { AHEAD = 16, BEHIND = 8, MOST_KEYS = 61 * 256, MOST_SAID = 1 << 18 };

static const struct shape demo = {.vocab_size = 2048,
                                  .hidden_size = 256,
                                  .n_layers = 7,
                                  .n_heads = 8,
                                  .kv_lora_rank = 64,
                                  .qk_nope_head_dim = 32,
                                  .qk_rope_head_dim = 16,
                                  .v_head_dim = 32,
                                  .intermediate_size = 768,
                                  .moe_intermediate_size = 192,
                                  .shared_intermediate_size = 192,
                                  .n_routed_experts = 32,
                                  .n_shared_experts = 1,
                                  .top_k = 4,
                                  .first_k_dense_replace = 1};
static const struct shape moonlight = {.vocab_size = 163840,
                                       .hidden_size = 2048,
                                       .n_layers = 27,
                                       .n_heads = 16,
                                       .kv_lora_rank = 512,
                                       .qk_nope_head_dim = 128,
                                       .qk_rope_head_dim = 64,
                                       .v_head_dim = 128,
                                       .intermediate_size = 11264,
                                       .moe_intermediate_size = 1408,
                                       .shared_intermediate_size = 2816,
                                       .n_routed_experts = 64,
                                       .n_shared_experts = 2,
                                       .top_k = 6,
                                       .first_k_dense_replace = 1};
static const struct shape v3 = {.vocab_size = 129280,
                                .hidden_size = 7168,
                                .n_layers = 61,
                                .n_heads = 128,
                                .q_lora_rank = 1536,
                                .kv_lora_rank = 512,
                                .qk_nope_head_dim = 128,
                                .qk_rope_head_dim = 64,
                                .v_head_dim = 128,
                                .intermediate_size = 18432,
                                .moe_intermediate_size = 2048,
                                .shared_intermediate_size = 2048,
                                .n_routed_experts = 256,
                                .n_shared_experts = 1,
                                .top_k = 8,
                                .first_k_dense_replace = 3};

// What the pace is not told.
struct machine {
    double ns[PACE_KINDS];   // of a multiplication
    double read_ns, read_by; // of a byte; what the disk is slower than when it was measured
    double noise;            // of a step
    uint64_t slots;
};

struct said {
    double at, left; // seconds
};

struct run {
    const struct machine *machine;
    const struct shape *shape;
    struct pace pace;
    uint64_t random;
    double now, device_free, disk_free, waited; // ns
    double bytes;
    uint8_t tiers[MOST_KEYS];
    uint64_t cached;
    uint32_t missing[64];
    double arrival[MOST_KEYS], done[MOST_KEYS]; // by the number of the expert in the group
    bool was_read[MOST_KEYS];
    uint32_t asked, taken, landed;
    size_t n_said;
    struct said said[MOST_SAID];
    double bytes_error; // of what was foretold to be read, when the prompt began
    bool stands;        // what is left stayed as it was where more had been read
};

static double uniform(struct run *run)
{
    run->random = run->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(run->random >> 40) / (1 << 24);
}

static double noisy(struct run *run, double ns)
{
    return ns * (1 + run->machine->noise * (2 * uniform(run) - 1));
}

static double expert_mult(const struct shape *s)
{
    return 3.0 * s->hidden_size * s->moe_intermediate_size;
}

static double expert_bytes(const struct shape *s)
{
    return expert_mult(s) * 0.5625;
}

static struct pace_clock now(const struct run *run)
{
    return (struct pace_clock){(uint64_t)run->now, (uint64_t)run->waited, (uint64_t)run->bytes};
}

static void say(struct run *run)
{
    if (run->n_said < MOST_SAID)
        run->said[run->n_said++] = (struct said){run->now / 1e9, pace_seconds_left(&run->pace)};
}

// The device gets so much to do.
static void enqueue(struct run *run, double ns)
{
    run->device_free = fmax(run->device_free, run->now) + noisy(run, ns);
}

static double matrices(const struct shape *s, bool moe)
{
    double hidden = s->hidden_size, heads = s->n_heads, head = s->qk_nope_head_dim + s->qk_rope_head_dim;
    double q = s->q_lora_rank ? s->q_lora_rank * (hidden + heads * head) : hidden * heads * head;
    double rest = hidden * (s->kv_lora_rank + s->qk_rope_head_dim) +
                  heads * s->kv_lora_rank * (s->qk_nope_head_dim + s->v_head_dim) + heads * s->v_head_dim * hidden;
    return q + rest + (moe ? hidden * s->n_routed_experts : 3 * hidden * s->intermediate_size);
}

static void begin_chunk(struct run *run, const struct pace_chunk *chunk)
{
    const struct shape *s = run->shape;
    const double *ns = run->machine->ns;
    bool moe = shape_is_moe(s, chunk->layer);
    double pairs = chunk->rows * (chunk->position + (chunk->rows + 1) / 2.0);
    enqueue(run, chunk->rows * matrices(s, moe) * ns[PACE_DENSE]);
    enqueue(run, pairs * s->n_heads * (2.0 * s->kv_lora_rank + s->qk_rope_head_dim) * ns[PACE_ATTENTION]);
    run->now = fmax(run->now, run->device_free);
    if (moe)
        enqueue(run, chunk->rows * 3.0 * s->hidden_size * s->shared_intermediate_size * ns[PACE_DENSE]);
    struct pace_clock at = now(run);
    pace_chunk(&run->pace, chunk, &at);
    say(run);
}

// Experts are numbered through all layers of a group; some ahead are asked for, in the next layer too.
static void ask(struct run *run, uint32_t layer)
{
    const struct shape *s = run->shape;
    uint32_t moe_layers = s->n_layers - s->first_k_dense_replace;
    uint32_t end = (layer + 2 < moe_layers ? layer + 2 : moe_layers) * s->n_routed_experts;
    for (; run->asked < run->taken + AHEAD && run->asked < end; run->asked++) {
        run->arrival[run->asked] = run->now;
        run->was_read[run->asked] = run->tiers[run->asked] == MOE_TIER_DISK;
        if (!run->was_read[run->asked])
            continue;
        run->disk_free = fmax(run->disk_free, run->now) + noisy(run, expert_bytes(s) * run->machine->read_ns);
        run->arrival[run->asked] = run->disk_free;
        if (run->cached < run->machine->slots) { // what is read first stays
            run->tiers[run->asked] = MOE_TIER_DEVICE;
            run->cached++;
        }
    }
}

// What has arrived is counted when the host looks.
static void take_in(struct run *run)
{
    for (; run->landed < run->asked && run->arrival[run->landed] <= run->now; run->landed++)
        run->bytes += run->was_read[run->landed] * expert_bytes(run->shape);
}

static void run_experts(struct run *run, uint32_t layer, uint32_t rows)
{
    const struct shape *s = run->shape;
    uint32_t index = layer - s->first_k_dense_replace;
    double shares[256], sum = 0;
    for (uint32_t e = 0; e < s->n_routed_experts; e++)
        sum += shares[e] = 0.3 + uniform(run);
    ask(run, index);
    take_in(run);
    struct pace_clock at = now(run);
    pace_layer(&run->pace, layer, s->n_routed_experts, &at);
    double left = pace_bytes_left(&run->pace, at.bytes_read), next = pace_bytes_left(&run->pace, at.bytes_read + 1000);
    run->stands |= left >= 1000 && fabs(left - next - 1000) > 1;
    for (uint32_t e = 0; e < s->n_routed_experts; e++, run->taken++) {
        uint32_t n = run->taken, of = (uint32_t)(shares[e] / sum * rows * s->top_k);
        ask(run, index);
        if (run->arrival[n] > run->now) {
            run->waited += run->arrival[n] - run->now;
            run->now = run->arrival[n];
        }
        take_in(run);
        enqueue(run, (of + 8.0) * expert_mult(s) * run->machine->ns[PACE_EXPERTS]);
        run->done[n] = run->device_free;
        if (n >= BEHIND)
            run->now = fmax(run->now, run->done[n - BEHIND]);
        at = now(run);
        pace_expert(&run->pace, of, BEHIND, &at);
        say(run);
    }
}

// Reads a prompt; returns the largest error of the whole, from a tenth to 95 %.
static double read_prompt(struct run *run, uint32_t tokens, struct pace_groups groups, uint32_t position)
{
    const struct shape *s = run->shape;
    struct pace_plan plan = {.shape = s,
                             .groups = groups,
                             .position = position,
                             .tokens = tokens,
                             .tiers = run->tiers,
                             .missing = run->missing,
                             .slots = run->machine->slots,
                             .ahead = AHEAD,
                             .expert_bytes = (uint64_t)expert_bytes(s),
                             .disk_bytes_per_s = 1e9 * run->machine->read_by / run->machine->read_ns};
    double began = run->now, worst = 0, bytes = run->bytes, foretold = 0;
    struct pace_clock at = now(run);
    run->n_said = 0;
    pace_begin(&run->pace, &plan, &at);
    for (uint32_t done = 0, rows; done < tokens; done += rows) {
        rows = pace_group(groups, tokens - done);
        run->asked = run->taken = run->landed = 0;
        pace_begin_group(&run->pace, rows);
        foretold = done ? foretold : pace_bytes_left(&run->pace, (uint64_t)run->bytes);
        for (uint32_t layer = 0; layer < s->n_layers; layer++) {
            for (uint32_t first = 0; first < rows; first += groups.chunk)
                begin_chunk(run, &(struct pace_chunk){layer, position + done + first,
                                                      rows - first < groups.chunk ? rows - first : groups.chunk});
            if (shape_is_moe(s, layer))
                run_experts(run, layer, rows);
        }
        run->now = fmax(run->now, run->device_free);
    }
    run->bytes_error = foretold > 0 ? fabs((run->bytes - bytes) / foretold - 1) : run->bytes > bytes;
    double whole = (run->now - began) / 1e9;
    for (size_t i = 0; i < run->n_said; i++) {
        double so_far = run->said[i].at - began / 1e9, error = (so_far + run->said[i].left) / whole - 1;
        if (so_far >= 0.1 * whole && so_far <= 0.95 * whole)
            worst = fmax(worst, fabs(error));
    }
    return worst;
}

// Two prompts, the second with what the first has left behind.
static void check_machine(struct harness *t, const struct shape *shape, const struct machine *machine, const char *what)
{
    static const struct {
        uint32_t tokens;
        struct pace_groups groups;
    } prompts[] = {{300, {512, 8192}}, {2000, {512, 8192}}, {3000, {512, 2048}}, {4000, {512, 1024}}, {640, {64, 192}}};
    struct run *run = calloc(1, sizeof *run);
    for (size_t i = 0; run && i < sizeof prompts / sizeof prompts[0]; i++) {
        *run = (struct run){.machine = machine, .shape = shape, .random = i + 1};
        for (uint32_t prompt = 0; prompt < 2; prompt++) {
            double worst = read_prompt(run, prompts[i].tokens, prompts[i].groups, prompt * prompts[i].tokens);
            if (!CHECK(t, run->bytes_error <= 0.2))
                printf("    %s, %u tokens, prompt %u: bytes %.1f %%\n", what, prompts[i].tokens, prompt + 1,
                       100 * run->bytes_error);
            CHECK(t, !run->stands);
            if (!CHECK(t, worst <= 0.2))
                printf("    %s, %u layers, %u tokens in groups of %u, prompt %u: %.1f %%\n", what, shape->n_layers,
                       prompts[i].tokens, prompts[i].groups.largest, prompt + 1, 100 * worst);
        }
    }
    free(run);
}

// Of the experts' reads and compute that one is the longer, by so much; a cache of such a part of the experts.
static void check_shape(struct harness *t, const struct shape *shape)
{
    static const double ratios[] = {0.05, 0.7, 1.4, 20}, parts[] = {0.02, 0.5, 1},
                        kinds[][3] = {{1, 1, 1}, {1.2, 0.9, 1}, {1, 1.2, 1.2}, {1, 1.3, 0.85}},
                        disks[] = {1, 0.87, 1.15};
    uint64_t experts = (uint64_t)(shape->n_layers - shape->first_k_dense_replace) * shape->n_routed_experts;
    for (size_t r = 0; r < 4; r++)
        for (size_t p = 0; p < 3; p++)
            for (size_t k = 0; k < 4; k++) {
                double ns = 0.01 * (double)(1 + k);
                double rows = 2000.0 * shape->top_k / shape->n_routed_experts;
                struct machine machine = {
                    .ns = {ns * kinds[k][0], 2 * ns * kinds[k][1], ns * kinds[k][2]},
                    .read_ns = ratios[r] * rows * ns / 0.5625,
                    .read_by = disks[(r + p + k) % 3],
                    .noise = 0.1,
                    .slots = (uint64_t)(parts[p] * (double)experts),
                };
                char what[80];
                snprintf(what, sizeof what, "reads %.2f x compute, cache %.2f, kinds %zu, disk %.1f", ratios[r],
                         parts[p], k, machine.read_by);
                check_machine(t, shape, &machine, what);
            }
}

static void time_left_of_the_demo(struct harness *t)
{
    check_shape(t, &demo);
}

static void time_left_of_moonlight(struct harness *t)
{
    check_shape(t, &moonlight);
}

static void time_left_of_v3(struct harness *t)
{
    check_shape(t, &v3);
}

static void time_left_of_five_layers_of_v3(struct harness *t)
{
    struct shape few = v3;
    few.n_layers = 5;
    check_shape(t, &few);
}

static void groups_are_alike(struct harness *t)
{
    for (uint32_t tokens = 1; tokens < 400; tokens++)
        for (uint32_t largest = 7; largest < 70; largest += 7)
            for (uint32_t left = tokens, n = 0, first = 0; left; n++) {
                uint32_t rows = pace_group((struct pace_groups){7, largest}, left);
                first = first ? first : rows;
                CHECK(t, rows && rows <= left && rows <= largest && (rows % 7 == 0 || rows == left));
                CHECK(t, n < (tokens - 1) / largest + 1 && rows <= first);
                left -= rows;
            }
}

// A token that chooses looks at no more than so many positions, and scores all.
static void what_chooses_looks_at_few(struct harness *t)
{
    enum { POSITION = 1000, TOKENS = 3000, CHOSEN = 2048 };
    static uint32_t missing[61];
    static const uint8_t tiers[61 * 256];
    static struct pace dense, chosen;
    struct shape shape = v3;
    struct pace_plan plan = {
        .shape = &v3, .groups = {512, 512}, .position = POSITION, .tokens = TOKENS, .tiers = tiers, .missing = missing};
    const struct pace_clock at = {0};
    pace_begin(&dense, &plan, &at);
    memset(shape.layer_kinds, LAYER_DSA, sizeof shape.layer_kinds);
    shape.indexer = (struct indexer_dims){.n_heads = 64, .head_dim = 128, .top_k = CHOSEN, .pool = 1};
    plan.shape = &shape;
    pace_begin(&chosen, &plan, &at);
    double all = 0, looked_at = 0;
    for (uint32_t seen = POSITION + 1; seen <= POSITION + TOKENS; seen++) {
        all += seen;
        looked_at += seen < CHOSEN ? seen : CHOSEN;
    }
    double pair = 128.0 * (2 * 512 + 64), score = 64.0 * 128, want = (looked_at * pair + all * score) / (all * pair);
    CHECK(t, fabs(chosen.rest[PACE_ATTENTION] / dense.rest[PACE_ATTENTION] - want) < 1e-9);
    CHECK(t, chosen.rest[PACE_DENSE] > dense.rest[PACE_DENSE]);
}

// Each layer's matrices once a token, and the vocabulary's where every token's logits are asked for.
static void each_matrix_is_counted(struct harness *t)
{
    enum { TOKENS = 100 };
    static const struct shape *const shapes[] = {&demo, &moonlight, &v3};
    static uint32_t missing[61];
    static const uint8_t tiers[MOST_KEYS];
    static struct pace pace;
    const struct pace_clock at = {0};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const struct shape *s = shapes[i];
        struct pace_plan plan = {.shape = s, .groups = {64, 64}, .tokens = TOKENS, .tiers = tiers, .missing = missing};
        double want = 0;
        for (uint32_t layer = 0; layer < s->n_layers; layer++) {
            bool moe = shape_is_moe(s, layer);
            want += TOKENS * (matrices(s, moe) + (moe ? 3.0 * s->hidden_size * s->shared_intermediate_size : 0));
        }
        pace_begin(&pace, &plan, &at);
        CHECK(t, fabs(pace.rest[PACE_DENSE] / want - 1) < 1e-9);
        plan.all_logits = true;
        pace_begin(&pace, &plan, &at);
        CHECK(t, fabs(pace.rest[PACE_DENSE] / (want + (double)TOKENS * s->hidden_size * s->vocab_size) - 1) < 1e-9);
    }
}

// A stopped prompt that goes on: what other prompts had read before is none of its.
static void what_was_read_before_is_no_part(struct harness *t)
{
    static uint32_t missing[61];
    static uint8_t tiers[MOST_KEYS];
    static struct pace pace;
    double left[2];
    memset(tiers, MOE_TIER_DISK, sizeof tiers);
    for (int i = 0; i < 2; i++) {
        const struct pace_clock at = {.bytes_read = i ? UINT64_C(5000000000) : 0};
        struct pace_plan plan = {.shape = &demo,
                                 .groups = {128, 128},
                                 .tokens = 128,
                                 .tiers = tiers,
                                 .missing = missing,
                                 .slots = 8,
                                 .ahead = AHEAD,
                                 .expert_bytes = 1000000};
        pace = (struct pace){.layer = 0};
        pace_begin(&pace, &plan, &at);
        pace_begin_group(&pace, 128);
        pace_skip(&pace, 3, 0);
        left[i] = pace_bytes_left(&pace, at.bytes_read);
    }
    CHECK(t, left[0] > 1e6);
    CHECK_EQ(t, (uint64_t)left[1], (uint64_t)left[0]);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(time_left_of_the_demo),
                                                TEST(time_left_of_moonlight),
                                                TEST(time_left_of_five_layers_of_v3),
                                                TEST(time_left_of_v3),
                                                TEST(groups_are_alike),
                                                TEST(what_chooses_looks_at_few),
                                                TEST(each_matrix_is_counted),
                                                TEST(what_was_read_before_is_no_part)};
    return HARNESS_RUN(tests, argc, argv);
}
