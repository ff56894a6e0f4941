// SPDX-License-Identifier: GPL-3.0-or-later
// Finds how a model's weights are quantised before they are here.
#include "engine/model/foresee_bits.h"

#include <ctype.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/base/err.h"
#include "engine/base/fields.h"
#include "engine/base/file.h"
#include "engine/files/folder.h"
#include "kernels/kinds.h"

enum { STEM_BYTES = 160 };

// What convert makes of weights that are not quantised: 4 bits in groups of 64, of embeddings and head 8.
static const double bits_of_four = FORESEE_BITS_CONVERTED, bits_of_eight = 8.5, bits_of_bf16 = 16;

// ---- config.json

// Of one matrix; affine scales and biases are taken for 16 bits each.
static double declared_bits(const struct declared *declared)
{
    if (declared->plain)
        return bits_of_bf16;
    return declared->bits + (declared->kind == KIND_NONE ? 32.0 : 8.0) / declared->group_size;
}

static int bits_of_stem(const struct checkpoint *c, const char *stem, double *bits, struct moe_err *err)
{
    struct declared declared;
    int code = folder_declared(c, stem, &declared, err);
    if (!code)
        *bits = declared_bits(&declared);
    return code;
}

// All projections of an expert have as many weights.
static int bits_of_experts(const struct checkpoint *c, const struct shape *s, double *bits, struct moe_err *err)
{
    static const char *const names[] = {"gate_proj", "up_proj", "down_proj"};
    double sum = 0;
    for (uint32_t layer = s->first_k_dense_replace; layer < s->n_layers; layer++)
        for (int i = 0; i < 3; i++) {
            char stem[STEM_BYTES];
            double own;
            snprintf(stem, sizeof stem, "model.layers.%" PRIu32 ".mlp.switch_mlp.%s", layer, names[i]);
            int code = bits_of_stem(c, stem, &own, err);
            if (code)
                return code;
            sum += own;
        }
    *bits = sum / 3 / (s->n_layers - s->first_k_dense_replace);
    return MOE_OK;
}

static int read_mlx(const struct checkpoint *c, const struct shape *s, struct foreseen_bits *bits, struct moe_err *err)
{
    double embedding, head;
    char router[STEM_BYTES];
    int code = bits_of_experts(c, s, &bits->experts, err);
    if (!code)
        code = bits_of_stem(c, "", &bits->rest, err);
    if (!code)
        code = bits_of_stem(c, "model.embed_tokens", &embedding, err);
    if (!code)
        code = bits_of_stem(c, "lm_head", &head, err);
    snprintf(router, sizeof router, "model.layers.%" PRIu32 ".mlp.gate", s->n_layers - 1);
    if (!code)
        code = bits_of_stem(c, router, &bits->delicate, err);
    if (code)
        return code;
    bits->embedding = s->tie_word_embeddings ? embedding : (embedding + head) / 2;
    snprintf(bits->from, sizeof bits->from, "as config.json's quantization says");
    return MOE_OK;
}

// Object `name` of `object`; NULL: it has none.
static struct json_object *inner(struct json_object *object, const char *name)
{
    struct json_object *found = NULL;
    return json_object_object_get_ex(object, name, &found) && json_object_is_type(found, json_type_object) ? found
                                                                                                           : NULL;
}

static const char *text_of(struct json_object *object, const char *name)
{
    struct json_object *found = NULL;
    return json_object_object_get_ex(object, name, &found) && json_object_is_type(found, json_type_string)
               ? json_object_get_string(found)
               : "";
}

static uint32_t integer_of(struct json_object *object, const char *name)
{
    struct json_object *found = NULL;
    bool is = json_object_object_get_ex(object, name, &found) && json_object_is_type(found, json_type_int);
    int64_t value = is ? json_object_get_int64(found) : 0;
    return value > 0 && value <= UINT16_MAX ? (uint32_t)value : 0;
}

// Of four bits that convert copies, by its first group of targets: the size of groups, of integers 32, 64 or 128, of
// mxfp4 32. 0: it is neither.
static uint32_t four_bits_group(struct json_object *quantised, bool *mxfp4)
{
    struct json_object *groups = inner(quantised, "config_groups");
    struct json_object *group = inner(groups, "group_0");
    struct json_object *weights = inner(group, "weights");
    uint32_t size = integer_of(weights, "group_size");
    bool is =
        strcmp(text_of(quantised, "quant_method"), "compressed-tensors") == 0 && integer_of(weights, "num_bits") == 4;
    *mxfp4 = strcmp(text_of(group, "format"), "mxfp4-pack-quantized") == 0 ||
             strcmp(text_of(quantised, "format"), "mxfp4-pack-quantized") == 0;
    if (*mxfp4)
        return is && size == 32 ? size : 0;
    is = is && strcmp(text_of(weights, "type"), "int") == 0;
    return is && (size == 32 || size == 64 || size == 128) ? size : 0;
}

// A word of the file that is shown to people.
static void say_word(char *out, size_t size, const char *word)
{
    size_t n = 0;
    for (; word[n] && n + 1 < size && n < 24 && (isalnum((unsigned char)word[n]) || strchr("_-.", word[n])); n++)
        out[n] = word[n];
    out[n] = '\0';
}

static void read_hub(struct json_object *config, struct foreseen_bits *bits)
{
    struct json_object *text = inner(config, "text_config");
    struct json_object *quantised = inner(config, "quantization_config");
    if (!quantised)
        quantised = inner(text, "quantization_config");
    const char *dtype = text_of(text, "torch_dtype");
    const char *const others[] = {text_of(text, "dtype"), text_of(config, "torch_dtype"), text_of(config, "dtype")};
    for (size_t i = 0; i < 3; i++)
        dtype = *dtype ? dtype : others[i];
    char word[32];
    say_word(word, sizeof word, quantised ? text_of(quantised, "quant_method") : dtype);
    *bits = (struct foreseen_bits){
        .experts = bits_of_four, .embedding = bits_of_eight, .rest = bits_of_four, .delicate = bits_of_bf16};
    bool mxfp4 = false;
    uint32_t group = quantised ? four_bits_group(quantised, &mxfp4) : 0;
    if (group) {
        bits->experts = 4 + (mxfp4 ? 8.0 : 32.0) / group;
        snprintf(bits->from, sizeof bits->from, "as moechat convert makes them: experts stay %s in groups of %" PRIu32,
                 mxfp4 ? "mxfp4" : "int4", group);
    } else if (quantised && strcmp(word, "fp8") != 0) {
        bits->guessed = true;
        snprintf(bits->from, sizeof bits->from, "a guess, for its quantisation%s%s may not be one that moechat reads",
                 *word ? " " : "", word);
    } else {
        snprintf(bits->from, sizeof bits->from, "as moechat convert makes them%s%s", *word ? " of " : "", word);
    }
}

int foresee_bits_config(struct json_object *config, const char *file, const struct shape *shape,
                        struct foreseen_bits *bits, struct moe_err *err)
{
    memset(bits, 0, sizeof *bits);
    if (!inner(config, "quantization")) {
        read_hub(config, bits);
        return MOE_OK;
    }
    struct checkpoint *c = calloc(1, sizeof *c); // as much of one as folder_declared looks at
    if (!c)
        return moe_fail_file(err, MOE_NO_MEMORY, file, 0, "no memory to look into it");
    file_folder(file, c->directory, sizeof c->directory);
    c->config = config;
    int code = read_mlx(c, shape, bits, err);
    free(c);
    return code;
}

// ---- The beginning of a GGUF

// llama.cpp's mixes: LLAMA_FTYPE of llama.h, and what the experts of DeepSeek's shape come to with its llama-quantize,
// which gives some matrices more than the name says.
static const struct mix {
    const char *name;
    uint32_t id;
    double bits;
} mixes[] = {
    {"F32", 0, 32},
    {"F16", 1, 16},
    {"Q4_0", 2, 4.5},
    {"Q4_1", 3, 5},
    {"Q8_0", 7, 8.5},
    {"Q5_0", 8, 5.5},
    {"Q5_1", 9, 6},
    {"Q2_K", 10, 2.9},
    {"Q3_K_S", 11, 3.44},
    {"Q3_K_M", 12, 3.8},
    {"Q3_K_L", 13, 4.2},
    {"Q4_K_S", 14, 4.55},
    {"Q4_K_M", 15, 4.84},
    {"Q5_K_S", 16, 5.5},
    {"Q5_K_M", 17, 5.68},
    {"Q6_K", 18, 6.56},
    {"IQ2_XXS", 19, 2.1},
    {"IQ2_XS", 20, 2.35},
    {"Q2_K_S", 21, 2.63},
    {"IQ3_XS", 22, 3.3},
    {"IQ3_XXS", 23, 3.1},
    {"IQ1_S", 24, 1.6},
    {"IQ4_NL", 25, 4.5},
    {"IQ3_S", 26, 3.44},
    {"IQ3_M", 27, 3.6},
    {"IQ2_S", 28, 2.5},
    {"IQ2_M", 29, 2.7},
    {"IQ4_XS", 30, 4.25},
    {"IQ1_M", 31, 1.8},
    {"BF16", 32, 16},
    {"TQ1_0", 36, 1.69},
    {"TQ2_0", 37, 2.06},
    {"MXFP4", 38, 4.25},
    {"NVFP4", 39, 4.5},
    // Mixes of others, which have no number of their own.
    {"Q3_K_XL", 0xffff, 3.6},
    {"Q4_K_XL", 0xffff, 4.7},
    {"Q5_K_XL", 0xffff, 5.7},
    {"Q6_K_XL", 0xffff, 6.7},
    {"Q8_K_XL", 0xffff, 9},
    {"Q2_K_L", 0xffff, 2.95},
    {"Q2_K_XL", 0xffff, 2.95},
};

enum { N_MIXES = sizeof mixes / sizeof *mixes };

// The longest name in the file's, in whatever letters; NULL: none.
static const struct mix *mix_in_name(const char *name)
{
    const struct mix *found = NULL;
    for (size_t i = 0; i < N_MIXES; i++) {
        size_t length = strlen(mixes[i].name);
        for (const char *at = name; *at; at++)
            if (strncasecmp(at, mixes[i].name, length) == 0 && (at == name || !isalnum((unsigned char)at[-1])) &&
                (!found || length > strlen(found->name)))
                found = &mixes[i];
    }
    return found;
}

double foresee_bits_name(const char *name, char mix[16])
{
    const struct mix *found = mix_in_name(name);
    snprintf(mix, 16, "%s", found ? found->name : "");
    return found ? found->bits : 0;
}

static const struct mix *mix_of_type(const struct gguf *gguf)
{
    const struct gguf_value *value = gguf_find(gguf, "general.file_type");
    uint64_t id;
    if (!value || value->array || !gguf_integer_at(value, 0, &id))
        return NULL;
    for (size_t i = 0; i < N_MIXES; i++)
        if (mixes[i].id == id && id != 0xffff)
            return &mixes[i];
    return NULL;
}

void foresee_bits_gguf(const struct gguf_set *set, const char *name, struct foreseen_bits *bits)
{
    const struct tensor_file *file = &set->files[0];
    double weights[2] = {0}, bytes[2] = {0};
    for (size_t i = 0; i < file->count; i++) {
        const struct tensor *tensor = &file->tensors[i];
        bool expert = strstr(tensor->name, "_exps.") != NULL;
        double n = 1;
        for (uint32_t k = 0; k < tensor->n_dims; k++)
            n *= (double)tensor->dims[k];
        weights[expert] += n;
        bytes[expert] += (double)tensor->bytes;
    }
    const struct mix *typed = mix_of_type(&set->head), *named = mix_in_name(name), *mix = typed ? typed : named;
    memset(bits, 0, sizeof *bits);
    bits->guessed = set->head_only || weights[1] == 0;
    bits->experts = weights[1] > 0 ? 8 * bytes[1] / weights[1] : mix ? mix->bits : bits_of_four;
    bits->rest = bits->embedding = bits->delicate = weights[0] > 0 ? 8 * bytes[0] / weights[0] : bits->experts;
    if (!bits->guessed)
        snprintf(bits->from, sizeof bits->from, "as its list of tensors says");
    else if (weights[1] > 0)
        snprintf(bits->from, sizeof bits->from, "a guess from the experts in this part");
    else if (mix)
        snprintf(bits->from, sizeof bits->from, "a guess from %s, %s", typed ? "general.file_type" : "the file's name",
                 mix->name);
    else
        snprintf(bits->from, sizeof bits->from, "a guess: neither its keys nor its name tell the quantisation");
}
