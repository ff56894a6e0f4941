// SPDX-License-Identifier: GPL-3.0-or-later
// How an expert store is laid out: the slots that budgets make, of which sizes, layers that stay, and what is refused
// when it is opened and when it is asked.
#include "tests/expert_rig.h"

struct budget {
    uint64_t bytes;
    int code;
    uint64_t slots;
};

static void budgets(struct harness *t)
{
    static const struct budget cases[] = {
        {3 * RIG_BLOB, MOE_OK, 3},
        {4 * RIG_BLOB - 1, MOE_OK, 3},
        {RIG_ALL * RIG_BLOB - 1, MOE_OK, RIG_ALL - 1},
        {RIG_ALL * RIG_BLOB, MOE_OK, RIG_ALL},
        {UINT64_MAX - 1, MOE_OK, RIG_ALL},
        {MOE_CACHE_ALL, MOE_OK, RIG_ALL},
        {MOE_CACHE_AUTO, MOE_OK, RIG_ALL}, // half of the rig's memory is one expert more
        {3 * RIG_BLOB - 1, MOE_BUDGET, 0},
        {1, MOE_BUDGET, 0},
    };
    struct rig rig;
    CHECK(t, rig_open(&rig, true));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct expert_store_options options = {.cache_bytes = cases[i].bytes};
        expert_store *store;
        struct moe_err err;
        CHECK_EQ(t, expert_store_open(&rig.g, &rig.package, &options, &store, &err), cases[i].code);
        CHECK(t, !store == !!cases[i].code);
        if (!store)
            continue;
        struct moe_cache_plan plan = expert_store_plan(store);
        CHECK_EQ(t, plan.slots, cases[i].slots);
        CHECK_EQ(t, plan.slot_bytes, RIG_BLOB);
        CHECK_EQ(t, plan.cache_bytes, plan.slots * RIG_BLOB);
        CHECK_EQ(t, plan.smallest_bytes, 3 * RIG_BLOB);
        CHECK_EQ(t, plan.all, cases[i].slots == RIG_ALL);
        CHECK_EQ(t, rig.g.bytes_allocated, cases[i].slots * RIG_BLOB);
        expert_store_close(store);
    }
    rig.g.info.global_bytes = 2 * 7 * RIG_BLOB + 100;
    expert_store *store = rig_store(t, &rig, MOE_CACHE_AUTO, NULL);
    CHECK_EQ(t, expert_store_plan(store).slots, 7);
    CHECK(t, !expert_store_plan(store).all);
    expert_store_close(store);
    rig_close(&rig);
}

// Layers of three sizes: each budget that one size of slots could use works, whatever was chosen, and is kept.
static void slots_come_in_sizes(struct harness *t)
{
    struct rig rig;
    CHECK(t, rig_open(&rig, true));
    CHECK(t, rig_spread(&rig));
    uint64_t all = 0, largest = rig_slot_bytes(&rig);
    for (uint32_t layer = 1; layer < RIG_LAYERS; layer++)
        all += RIG_EXPERTS * rig.layers[layer].experts.blob_bytes;
    uint32_t with_sizes = 0, budgets_tried = 0;
    for (uint64_t bytes = RIG_TOP_K * largest; bytes < all + largest; bytes += largest - 1000, budgets_tried++) {
        struct expert_store_options options = {.cache_bytes = bytes};
        expert_store *store;
        CHECK_EQ(t, expert_store_open(&rig.g, &rig.package, &options, &store, NULL), MOE_OK);
        struct moe_cache_plan plan = expert_store_plan(store);
        CHECK_EQ(t, plan.smallest_bytes, RIG_TOP_K * largest);
        CHECK_EQ(t, plan.all, bytes >= all);
        CHECK(t, plan.cache_bytes <= bytes && rig.g.bytes_allocated == plan.cache_bytes);
        CHECK(t, plan.cache_bytes + 3 * largest > (bytes < all ? bytes : all));
        with_sizes += store->n_classes > 1;
        uint32_t least = UINT32_MAX;
        for (uint32_t layer = 1; layer < RIG_LAYERS; layer++)
            least = expert_slots(store, layer) < least ? expert_slots(store, layer) : least;
        CHECK_EQ(t, expert_least_slots(store), least);
        for (uint32_t layer = 1; layer < RIG_LAYERS; layer++) {
            CHECK(t, expert_slots(store, layer) >= RIG_TOP_K);
            CHECK(t, store->n_classes == 1 ||
                         store->classes[store->layer_class[layer]].slot_bytes == rig.layers[layer].experts.blob_bytes);
            CHECK(t, rig_use(store, layer, (int32_t[]){7, 2, 5}, 3) && rig_use(store, layer, (int32_t[]){1, 2, 0}, 3));
        }
        // Only this layer's slots are asked for more than there are.
        struct expert_place held[RIG_TOP_K], more;
        struct moe_err err;
        CHECK_EQ(t, rig_acquire(store, 2, (int32_t[]){0, 1, 2}, 3, held), MOE_OK);
        struct expert_request request = {.layer = 2, .ids = (int32_t[]){3}, .n = 1};
        int code = expert_acquire(store, &request, &more, &err);
        CHECK_EQ(t, code, expert_slots(store, 2) > RIG_TOP_K ? MOE_OK : MOE_BUDGET);
        if (!code)
            expert_release(store, &more, 1);
        expert_release(store, held, 3);
        expert_store_close(store);
        CHECK_EQ(t, rig.g.bytes_allocated, 0);
    }
    CHECK(t, with_sizes > budgets_tried / 2 && with_sizes < budgets_tried);
    rig.g.most = all / 8 * 7; // auto makes do with what the device gives, in sizes too
    expert_store *store = rig_store(t, &rig, MOE_CACHE_AUTO, NULL);
    CHECK(t, store && store->n_classes > 1 && rig.g.bytes_allocated <= rig.g.most);
    expert_store_close(store);
    rig_close(&rig);
}

static bool stays(expert_store *store, uint32_t layer)
{
    struct expert_row row;
    if (!expert_layer_stays(store, layer, &row))
        return false;
    bool good = true;
    for (uint32_t expert = 0; expert < RIG_EXPERTS; expert++)
        good =
            good && rig_holds(&(struct expert_place){
                        .buf = row.buf, .offset = row.offset + expert * row.stride, .layer = layer, .expert = expert});
    return good;
}

// A layer stays once all of its experts are there, whatever the order in which they came, if they lie in one slab.
static void layers_stay_where_each_expert_has_a_slot(struct harness *t)
{
    for (uint64_t slab = 5; slab <= 20; slab += 5)
        for (uint64_t missing = 0; missing < 2; missing++) {
            struct rig rig;
            CHECK(t, rig_open(&rig, true));
            rig.g.info.max_alloc_bytes = slab * RIG_BLOB + 100;
            expert_store *store = rig_store(t, &rig, RIG_ALL - missing, NULL);
            bool may = slab > RIG_EXPERTS && !missing;
            for (uint32_t layer = RIG_LAYERS - 1; layer > 0; layer--) {
                CHECK(t, rig_use(store, layer, (int32_t[]){7, 2, 5, 1}, 4));
                CHECK(t, rig_use(store, layer, (int32_t[]){0, 6, 4}, 3));
                CHECK(t, !stays(store, layer));
                CHECK(t, rig_use(store, layer, (int32_t[]){1, 3}, 2));
                CHECK_EQ(t, stays(store, layer), may);
                CHECK(t, layer == 1 || !stays(store, layer - 1));
            }
            for (uint32_t layer = 1; layer < RIG_LAYERS && may; layer++) {
                struct expert_layer_counts before, after;
                struct expert_place places[2];
                struct expert_request request = {.layer = layer, .ids = (int32_t[]){6, 1}, .n = 2};
                expert_store_layer(store, layer, &before);
                CHECK_EQ(t, expert_note_uses(store, &request, places, NULL), MOE_OK);
                expert_store_layer(store, layer, &after);
                CHECK_EQ(t, after.hits_device - before.hits_device, 2);
                CHECK(t, places[0].expert == 6 && places[1].expert == 1 && places[1].origin == MOE_FROM_DEVICE &&
                             rig_holds(&places[0]) && rig_holds(&places[1]));
                request.ids = (int32_t[]){6, 6};
                CHECK_EQ(t, expert_note_uses(store, &request, places, NULL), MOE_BAD_ARGUMENT);
                CHECK(t, stays(store, layer));
            }
            CHECK_EQ(t, expert_store_counts(store).evictions > 0, missing > 0);
            expert_store_close(store);
            rig_close(&rig);
        }
}

// The device has less than it says: auto takes what it gives, less a slab.
static void auto_makes_do(struct harness *t)
{
    struct rig rig;
    CHECK(t, rig_open(&rig, true));
    rig.g.most = 17 * RIG_BLOB; // three slabs of five
    expert_store *store = rig_store(t, &rig, MOE_CACHE_AUTO, NULL);
    struct moe_cache_plan plan = expert_store_plan(store);
    CHECK_EQ(t, plan.slots, 10);
    CHECK(t, !plan.all && !plan.per_layer);
    CHECK_EQ(t, rig.g.bytes_allocated, 10 * RIG_BLOB);
    for (uint32_t layer = 1; layer < RIG_LAYERS; layer++)
        CHECK(t, rig_use(store, layer, (int32_t[]){0, 1, 2, 3, 4, 5, 6, 7}, RIG_EXPERTS));
    expert_store_close(store);
    CHECK_EQ(t, rig.g.bytes_allocated, 0);
    rig_close(&rig);
}

static void check_refusal(struct harness *t, struct rig *rig, uint64_t cache_bytes, int code, const char *text)
{
    struct expert_store_options options = {.cache_bytes = cache_bytes};
    expert_store *store;
    struct moe_err err;
    CHECK_EQ(t, expert_store_open(&rig->g, &rig->package, &options, &store, &err), code);
    CHECK_STR(t, err.text, text);
    CHECK(t, !store && rig->g.bytes_allocated == 0);
}

static void rig_blob_bytes(struct rig *rig, uint64_t bytes)
{
    for (uint32_t layer = 1; layer < RIG_LAYERS; layer++)
        rig->layers[layer].experts.blob_bytes = bytes;
}

static void refusals_to_open(struct harness *t)
{
    struct rig rig;
    CHECK(t, rig_open(&rig, true));
    check_refusal(
        t, &rig, 10000, MOE_BUDGET,
        "an expert cache of 10.0KB holds 1 of the 3 experts that 1 layer in flight needs: give --expert-cache "
        "24.6KB or more");
    rig.g.info.global_bytes = 10 * RIG_BLOB;
    check_refusal(t, &rig, MOE_CACHE_ALL, MOE_NO_MEMORY,
                  "--expert-cache: 1 MiB are more than the 0 MiB of memory that are free; give it at most 0 MiB, a "
                  "share such as 50%, or auto");
    rig.g.info.global_bytes = 50 * RIG_BLOB;
    rig.g.most = 10 * RIG_BLOB;
    check_refusal(t, &rig, MOE_CACHE_ALL, MOE_NO_MEMORY,
                  "no room for 24 expert slots of 8192 bytes, try a smaller --expert-cache: the rig is full");
    rig.g.info.max_alloc_bytes = RIG_BLOB - 1;
    check_refusal(t, &rig, MOE_CACHE_ALL, MOE_NO_MEMORY,
                  "one expert takes 8192 bytes, rig allows allocations of 8191; choose another device");
    rig_blob_bytes(&rig, 5000);
    check_refusal(t, &rig, MOE_CACHE_ALL, MOE_FORMAT, "experts of 5000 bytes: not a multiple of 4096");
    rig_blob_bytes(&rig, 0);
    check_refusal(t, &rig, MOE_CACHE_ALL, MOE_FORMAT, "experts of 0 bytes: not a multiple of 4096");
    rig.package.shape.top_k = RIG_EXPERTS + 1;
    check_refusal(t, &rig, MOE_CACHE_ALL, MOE_UNSUPPORTED, "the model has no routed experts");
    rig_close(&rig);

    CHECK(t, rig_open(&rig, true));
    char path[4200];
    char text[5000];
    rig_path(&rig, 2, path);
    unlink(path);
    snprintf(text, sizeof text, "%s: cannot be opened: No such file or directory", path);
    check_refusal(t, &rig, MOE_CACHE_ALL, MOE_NOT_FOUND, text);
    struct expert_store_options many = {.cache_bytes = MOE_CACHE_ALL, .readers = 65};
    expert_store *store;
    CHECK(t, rig_write_layer(&rig, 2, RIG_EXPERTS * RIG_BLOB));
    CHECK_EQ(t, expert_store_open(&rig.g, &rig.package, &many, &store, NULL), MOE_BAD_ARGUMENT);
    for (uint64_t piece = 1; piece < 2 * RIG_BLOB; piece = 4 * piece + 1) {
        struct expert_store_options odd = {.cache_bytes = MOE_CACHE_ALL, .readers = 1, .read_piece_bytes = piece};
        CHECK_EQ(t, expert_store_open(&rig.g, &rig.package, &odd, &store, NULL), MOE_BAD_ARGUMENT);
    }
    rig_close(&rig);
}

static void refusals_to_acquire(struct harness *t)
{
    static const struct {
        uint32_t layer;
        int32_t ids[6];
        uint32_t n;
        const char *text;
    } cases[] = {
        {0, {1}, 1, "layer 0 has no routed experts"},
        {4, {1}, 1, "layer 4 has no routed experts"},
        {1, {0, 8}, 2, "layer 1: expert 8 is not one of 8"},
        {1, {0, -1}, 2, "layer 1: expert -1 is not one of 8"},
        {1, {3, 5, 3}, 3, "layer 1: expert 3 is asked for twice"},
        {1, {0, 1, 2, 3, 4, 5}, 6, "6 experts asked for at once, the cache has 5 slots"},
    };
    struct rig rig;
    CHECK(t, rig_open(&rig, true));
    expert_store *store = rig_store(t, &rig, 5, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct expert_request request = {.layer = cases[i].layer, .ids = cases[i].ids, .n = cases[i].n};
        struct expert_place places[6];
        struct moe_err err;
        CHECK_EQ(t, expert_acquire(store, &request, places, &err), MOE_BAD_ARGUMENT);
        CHECK_STR(t, err.text, cases[i].text);
    }
    struct expert_counts none = {0};
    struct expert_counts counts = expert_store_counts(store);
    CHECK(t, memcmp(&none, &counts, sizeof none) == 0);
    CHECK(t, rig_use(store, 1, (int32_t[]){0, 1, 2, 3, 4}, 5)); // nothing stayed pinned
    CHECK(t, rig_use(store, 1, NULL, 0));
    expert_store_close(store);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(budgets),
        TEST(auto_makes_do),
        TEST(slots_come_in_sizes),
        TEST(layers_stay_where_each_expert_has_a_slot),
        TEST(refusals_to_open),
        TEST(refusals_to_acquire),
    };
    return HARNESS_RUN(tests, argc, argv);
}
