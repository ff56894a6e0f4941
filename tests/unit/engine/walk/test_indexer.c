// SPDX-License-Identifier: GPL-3.0-or-later
// The keys that an indexer appends in a whole model, against float64 of their own from the file's numbers: of ordinary
// size, and so faint that what the norm adds to the variance is as large as the variance.
#include <json-c/json.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/session/session.h"
#include "engine/walk/indexer.h"
#include "kernels/numbers.h"
#include "tests/folder_rig.h"
#include "tests/setup_rig.h"

#define MODEL "tests/golden/ck-v32-mlx/checkpoint"
#define LAYER "model.layers.0."
enum { HIDDEN = 64, DIM = 32, ROPE = 16, GROUP = 32, VOCABULARY = 128 };
static const char *const devices[] = {"ref", "cpu"};

// A tensor's bytes; the caller frees them.
static void *bytes_of(const struct checkpoint *ck, const char *name, uint64_t *bytes)
{
    const struct checkpoint_tensor *tensor = checkpoint_find(ck, name);
    struct moe_err err = {.text = "no such tensor"};
    void *target = made_memory(tensor ? tensor->at->bytes : 0);
    if (!tensor || checkpoint_read(ck, &(struct checkpoint_range){tensor, 0, tensor->at->bytes}, target, &err)) {
        printf("%s: %s\n", name, err.text);
        exit(70);
    }
    *bytes = tensor->at->bytes;
    return target;
}

// Of bf16.
static void read_vector(const struct checkpoint *ck, const char *name, double *vector)
{
    uint64_t bytes;
    uint16_t *numbers = bytes_of(ck, name, &bytes);
    for (uint64_t i = 0; i < bytes / 2; i++)
        vector[i] = (double)number_from_bf16(numbers[i]);
    free(numbers);
}

// Of rows of HIDDEN, as mlx-lm packs them.
static void read_matrix(const struct checkpoint *ck, const char *name, uint32_t bits, double *matrix)
{
    char part[160];
    double scales[VOCABULARY * HIDDEN / GROUP], biases[VOCABULARY * HIDDEN / GROUP];
    uint64_t bytes;
    snprintf(part, sizeof part, "%s.scales", name);
    read_vector(ck, part, scales);
    snprintf(part, sizeof part, "%s.biases", name);
    read_vector(ck, part, biases);
    snprintf(part, sizeof part, "%s.weight", name);
    uint32_t *packed = bytes_of(ck, part, &bytes), each = 32 / bits;
    for (uint64_t i = 0; i < bytes / 4 * each; i++) {
        uint32_t q = packed[i / each] >> (i % each * bits) & ((1U << bits) - 1);
        matrix[i] = scales[i / GROUP] * q + biases[i / GROUP];
    }
    free(packed);
}

// What the first layer's indexer makes of a token, before it is turned: transformers' LayerNorm of wk x, with 1e-6.
struct truth {
    double embedding[VOCABULARY * HIDDEN], norm[HIDDEN], wk[DIM * HIDDEN], weight[DIM], bias[DIM];
};

static struct truth *read_truth(const char *directory)
{
    struct truth *truth = made_memory(sizeof *truth);
    struct checkpoint ck;
    struct moe_err err;
    if (checkpoint_open_folder(directory, &ck, &err)) {
        printf("%s\n", err.text);
        exit(70);
    }
    read_matrix(&ck, "model.embed_tokens", 8, truth->embedding);
    read_vector(&ck, LAYER "input_layernorm.weight", truth->norm);
    read_matrix(&ck, LAYER "self_attn.indexer.wk", 4, truth->wk);
    read_vector(&ck, LAYER "self_attn.indexer.k_norm.weight", truth->weight);
    read_vector(&ck, LAYER "self_attn.indexer.k_norm.bias", truth->bias);
    checkpoint_release(&ck);
    return truth;
}

// Returns the variance of wk x.
static double true_key(const struct truth *truth, int32_t token, double key[DIM])
{
    const double *e = truth->embedding + (size_t)token * HIDDEN;
    double square = 0, mean = 0, variance = 0;
    for (int i = 0; i < HIDDEN; i++)
        square += e[i] * e[i] / HIDDEN;
    for (int c = 0; c < DIM; c++) {
        key[c] = 0;
        for (int i = 0; i < HIDDEN; i++)
            key[c] += truth->wk[c * HIDDEN + i] * e[i] * truth->norm[i] / sqrt(square + 1e-6);
        mean += key[c] / DIM;
    }
    for (int c = 0; c < DIM; c++)
        variance += (key[c] - mean) * (key[c] - mean) / DIM;
    for (int c = 0; c < DIM; c++)
        key[c] = (key[c] - mean) / sqrt(variance + 1e-6) * truth->weight[c] + truth->bias[c];
    return variance;
}

// The model with the first layer's wk times 2^-9, which its scales and biases can be multiplied with exactly.
static void write_faint(const char *directory)
{
    static const char *const parts[] = {LAYER "self_attn.indexer.wk.scales", LAYER "self_attn.indexer.wk.biases"};
    struct checkpoint ck;
    struct moe_err err;
    char path[4400], to[4400];
    if (checkpoint_open_folder(MODEL, &ck, &err))
        exit(70);
    for (uint32_t s = 0; s < ck.n_shards; s++) {
        struct stat is;
        snprintf(to, sizeof to, "%s%s", directory, strrchr(ck.shards[s].path, '/'));
        FILE *file = fopen(to, "wb");
        if (!file || stat(ck.shards[s].path, &is))
            exit(70);
        char *bytes = made_memory((size_t)is.st_size);
        made_read(ck.shards[s].path, 0, bytes, (size_t)is.st_size);
        for (int i = 0; i < 2; i++) {
            const struct checkpoint_tensor *tensor = checkpoint_find(&ck, parts[i]);
            for (uint64_t k = 0; tensor->shard == s && k < tensor->at->bytes; k += 2) {
                uint16_t number;
                memcpy(&number, bytes + tensor->at->offset + k, 2);
                number = (uint16_t)((number >> 7 & 255) > 9 ? number - (9 << 7) : 0);
                memcpy(bytes + tensor->at->offset + k, &number, 2);
            }
        }
        if (fwrite(bytes, 1, (size_t)is.st_size, file) != (size_t)is.st_size || fclose(file))
            exit(70);
        free(bytes);
    }
    checkpoint_release(&ck);
    static const char *const texts[] = {"config.json", "model.safetensors.index.json"};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", MODEL, texts[i]);
        struct json_object *text = json_object_from_file(path);
        made_text(directory, texts[i], json_object_to_json_string(text));
        json_object_put(text);
    }
}

// Those behind the rope's numbers, which no position turns. Returns the largest variance.
static double check_keys(struct harness *t, const char *directory, const char *device)
{
    struct setup setup = {.directory = directory, .device = device, .cache = MOE_CACHE_ALL};
    struct truth *truth = read_truth(directory);
    struct opened o;
    struct moe_err err;
    struct gpu_error failed;
    float got[N_TOKENS][DIM];
    double worst = 0, most = 0;
    if (open_setup(t, &setup, &o) && CHECK_EQ(t, prefill(&o, N_TOKENS, &err), 0)) {
        gpu_buf *keys = o.session->memory.layers[0].rows[INDEXER_STREAM];
        CHECK_EQ(t, gpu_read(o.model->gpu, keys, 0, got, sizeof got, &failed), 0);
        for (int i = 0; i < N_TOKENS; i++) {
            double key[DIM];
            most = fmax(most, true_key(truth, o.ids[i], key));
            for (int c = i ? ROPE : 0; c < DIM; c++)
                worst = fmax(worst, fabs((double)got[i][c] - key[c]));
        }
        if (!CHECK(t, worst < 5e-6))
            printf("    %s on %s: a key is off by %.3g\n", directory, device, worst);
    }
    close_opened(&o);
    free(truth);
    return most;
}

static void keys_are_normed_as_by_transformers(struct harness *t)
{
    for (int i = 0; i < 2; i++)
        CHECK(t, check_keys(t, MODEL, devices[i]) > 0.1);
}

static void so_are_faint_ones(struct harness *t)
{
    char faint[] = "/tmp/moechat-indexer-XXXXXX";
    if (!CHECK(t, mkdtemp(faint) != NULL))
        return;
    write_faint(faint);
    for (int i = 0; i < 2; i++)
        CHECK(t, check_keys(t, faint, devices[i]) < 1e-4);
    made_remove(faint);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(keys_are_normed_as_by_transformers),
        TEST(so_are_faint_ones),
    };
    struct setup first = {.directory = MODEL, .device = "ref", .cache = MOE_CACHE_ALL};
    open_driver(&first);
    return HARNESS_RUN(tests, argc, argv);
}
