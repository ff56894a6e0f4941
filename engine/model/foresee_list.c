// SPDX-License-Identifier: GPL-3.0-or-later
// Which models a list of files holds, and what each will need.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/base/err.h"
#include "engine/base/file.h"
#include "engine/files/file_list.h"
#include "engine/model/foresee_bits.h"
#include "engine/model/numbered.h"
#include "kernels/gpu.h"

enum { MODELS_MOST = 1000 };

// ---- Models that are widely known, by a word of their names, in lower case: what their config.json files say.
// Routed experts have 3 * hidden_size * moe_intermediate_size weights; Kimi K3's hidden_size is theirs.
static const struct known {
    const char *word, *name;
    double billions; // of all weights
    uint32_t n_moe_layers, n_routed_experts, top_k, hidden_size, moe_intermediate_size;
} known_models[] = {
    {"deepseek-v2-lite", "DeepSeek-V2-Lite", 15.7, 26, 64, 6, 2048, 1408},
    {"deepseek-coder-v2-lite", "DeepSeek-V2-Lite", 15.7, 26, 64, 6, 2048, 1408},
    {"moonlight-16b", "Moonlight-16B-A3B", 16.0, 26, 64, 6, 2048, 1408},
    {"glm-4.7-flash", "GLM-4.7-Flash", 30, 46, 64, 4, 2048, 1536},
    {"deepseek-v2", "DeepSeek-V2", 235.7, 59, 160, 6, 5120, 1536},
    {"deepseek-v3", "DeepSeek-V3", 671, 58, 256, 8, 7168, 2048},
    {"deepseek-r1", "DeepSeek-V3", 671, 58, 256, 8, 7168, 2048},
    {"cogito-671b", "DeepSeek-V3", 671, 58, 256, 8, 7168, 2048},
    {"kimi-k2", "Kimi K2", 1026, 60, 384, 8, 7168, 2048},
    {"glm-5", "GLM-5", 744, 75, 256, 8, 6144, 2048},
    {"qwen3.6-35b-a3b", "Qwen3.6-35B-A3B", 34.7, 40, 256, 8, 2048, 512},
    {"qwen3.5-35b-a3b", "Qwen3.6-35B-A3B", 34.7, 40, 256, 8, 2048, 512},
    {"qwen3.5-397b-a17b", "Qwen3.5-397B-A17B", 397, 60, 512, 10, 4096, 1024},
    {"qwen3-next-80b", "Qwen3-Next-80B-A3B", 80, 48, 512, 10, 2048, 512},
    {"qwen3-coder-next", "Qwen3-Next-80B-A3B", 80, 48, 512, 10, 2048, 512},
    {"glm-5.3-flash", "GLM-5.3-Flash", 313, 42, 288, 8, 4096, 2048},
    {"kimi-k3", "Kimi K3", 2780, 92, 896, 16, 3584, 3072},
    {"kimi-linear-48b", "Kimi-Linear-48B-A3B", 49, 26, 256, 8, 2304, 1024},
};

static bool has_word(const char *text, const char *word)
{
    size_t length = strlen(word);
    for (; *text; text++)
        if (strncasecmp(text, word, length) == 0)
            return true;
    return false;
}

// The longest word that is in the text. Small models that were taught by a large one have its name, too.
static const struct known *find_known(const char *text)
{
    static const char *const others[] = {"distill", "qwen3-8b", "glm-5.3", "flash-", "draft"};
    const struct known *found = NULL;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (has_word(text, others[i]) && !has_word(text, "glm-4.7-flash") && !has_word(text, "glm-5.3-flash"))
            return NULL;
    for (size_t i = 0; i < sizeof known_models / sizeof *known_models; i++)
        if (has_word(text, known_models[i].word) && (!found || strlen(known_models[i].word) > strlen(found->word)))
            found = &known_models[i];
    return found;
}

static void take_known(const struct known *known, struct moe_listed_shape *shape)
{
    memset(shape, 0, sizeof *shape);
    if (!known)
        return;
    snprintf(shape->name, sizeof shape->name, "%s", known->name);
    shape->parameters = (uint64_t)(known->billions * 1e9);
    shape->n_moe_layers = known->n_moe_layers;
    shape->n_routed_experts = known->n_routed_experts;
    shape->top_k = known->top_k;
    shape->expert_parameters =
        (uint64_t)known->n_moe_layers * known->n_routed_experts * 3 * known->hidden_size * known->moe_intermediate_size;
}

// ---- Files of one model

static const char *suffix_of(const char *path)
{
    static const char *const suffixes[] = {".gguf", ".safetensors"};
    size_t length = strlen(path);
    for (size_t i = 0; i < 2; i++) {
        size_t tail = strlen(suffixes[i]);
        if (length > tail && strcasecmp(path + length - tail, suffixes[i]) == 0)
            return suffixes[i];
    }
    return NULL;
}

// A GGUF that is no language model: a vision tower, or what quantisation was steered by.
static bool is_companion(const char *path)
{
    const char *name = file_base_name(path);
    return has_word(name, "mmproj") || has_word(name, "imatrix");
}

static bool is_tokenizer(const char *path)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer.model", "tiktoken.model"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(file_base_name(path), names[i]) == 0)
            return true;
    return false;
}

// By the names of files; of a folder with safetensors the repository's may tell, too.
static void find_mix(struct moe_listed *model, const char *repository)
{
    static const struct {
        const char *word;
        double bits;
    } widths[] = {{"4bit", 4.5}, {"8bit", 8.5}, {"6bit", 6.5}, {"5bit", 5.5}, {"3bit", 3.5}, {"fp8", 8}, {"bf16", 16}};
    const char *name = file_base_name(model->name);
    if (model->gguf) {
        model->bits = foresee_bits_name(name, model->mix);
        if (model->bits <= 0 && name != model->name) // "Q4_K_M/model.gguf"
            model->bits = foresee_bits_name(model->name, model->mix);
        return;
    }
    for (size_t i = 0; i < sizeof widths / sizeof *widths && !*model->mix; i++)
        if (has_word(model->name, widths[i].word) || has_word(repository, widths[i].word)) {
            snprintf(model->mix, sizeof model->mix, "%s", widths[i].word);
            model->bits = widths[i].bits;
        }
}

// A list being made into models; the files come in the order of their paths.
struct gathering {
    struct moe_listing *listing;
    uint32_t *next; // of each model, the number that comes next
};

// Appends text of a name, in which a pattern's letters stand for themselves. A - that it begins with would be an
// option's.
static void put_literal(char *pattern, size_t size, const char *text, size_t length)
{
    size_t at = strlen(pattern);
    for (size_t i = 0; i < length && at + 4 <= size; i++) {
        const char *special = at ? "[*?" : "-[*?";
        at += (size_t)snprintf(pattern + at, size - at, strchr(special, text[i]) ? "[%c]" : "%c", text[i]);
    }
}

static struct moe_listed *model_of(struct gathering *g, const char *path, const char *suffix,
                                   const struct numbered *numbered)
{
    struct moe_listing *listing = g->listing;
    bool gguf = suffix[1] == 'g';
    for (uint32_t i = 0; numbered->number && i < listing->n_models; i++) {
        struct moe_listed *model = &listing->models[i];
        if (model->gguf == gguf && model->parts == numbered->count && strlen(model->name) == numbered->prefix &&
            memcmp(model->name, path, numbered->prefix) == 0)
            return model;
    }
    if (listing->n_models == MODELS_MOST || numbered->prefix >= MOE_LISTED_NAME - 40)
        return NULL;
    struct moe_listed *model = &listing->models[listing->n_models];
    g->next[listing->n_models++] = 1;
    *model = (struct moe_listed){.gguf = gguf, .parts = numbered->count, .sized = true};
    snprintf(model->name, sizeof model->name, "%.*s", (int)numbered->prefix, path);
    const char *behind = path + numbered->prefix;
    if (numbered->number == 0)
        model->parts = 0; // so that no numbered file is taken for its part
    else
        behind = strstr(behind, "-of-");
    put_literal(model->pattern, sizeof model->pattern, path, numbered->prefix);
    strcat(model->pattern, numbered->number ? "-*" : "");
    put_literal(model->pattern, sizeof model->pattern, behind, strlen(behind));
    return model;
}

// False: there are too many of them.
static bool take_weights(struct gathering *g, const struct file_listed *file, const char *suffix)
{
    struct numbered numbered = {0};
    if (!numbered_parse(file->path, suffix, &numbered))
        numbered = (struct numbered){.prefix = strlen(file->path) - strlen(suffix)};
    struct moe_listed *model = model_of(g, file->path, suffix, &numbered);
    if (!model)
        return false;
    uint32_t *next = &g->next[model - g->listing->models];
    if (numbered.number && numbered.number < *next)
        return true; // the same part under another name
    if (numbered.number > *next && !model->missing)
        model->missing = *next;
    *next = numbered.number + 1;
    model->listed++;
    model->sized &= file->sized;
    model->bytes += file->bytes;
    return true;
}

static bool gather(struct gathering *g, const struct file_list *list)
{
    struct moe_listing *listing = g->listing;
    listing->sized = true;
    for (size_t i = 0; i < list->count; i++) {
        const struct file_listed *file = &list->files[i];
        const char *suffix = suffix_of(file->path);
        listing->n_files++;
        listing->bytes += file->bytes;
        listing->sized &= file->sized;
        listing->has_config |= strcmp(file_base_name(file->path), "config.json") == 0;
        listing->has_tokenizer |= is_tokenizer(file->path);
        if (suffix && !is_companion(file->path)) {
            if (!take_weights(g, file, suffix))
                return false;
            continue;
        }
        listing->n_others++;
        if (suffix && !*listing->left_out)
            snprintf(listing->left_out, sizeof listing->left_out, "%.255s", file->path);
    }
    return true;
}

// What is known of each when all files were seen.
static void finish(struct gathering *g)
{
    struct moe_listing *listing = g->listing;
    const struct known *repository = find_known(listing->repository);
    for (uint32_t i = 0; i < listing->n_models; i++) {
        struct moe_listed *model = &listing->models[i];
        if (model->parts == 0)
            model->parts = 1;
        else if (!model->missing && g->next[i] <= model->parts)
            model->missing = g->next[i];
        if (!model->sized)
            model->bytes = 0;
        find_mix(model, listing->repository);
        take_known(*listing->repository ? repository : find_known(model->name), &model->shape);
    }
}

// One that convert made is here already, and no repository's.
static bool is_package(const struct file_list *list)
{
    bool resident = false, experts = false;
    for (size_t i = 0; i < list->count; i++) {
        const char *name = file_base_name(list->files[i].path);
        size_t length = strlen(name);
        resident |= strcmp(name, "resident.safetensors") == 0;
        experts |= length > 8 && strcmp(name + length - 8, ".experts") == 0;
    }
    return resident && experts;
}

int moe_listing_read(const char *text, size_t length, const char *name, struct moe_listing *listing,
                     struct moe_err *err)
{
    struct file_list list;
    memset(listing, 0, sizeof *listing);
    int code = file_list_read(text, length, name, &list, err);
    if (code)
        return code;
    struct gathering g = {.listing = listing, .next = calloc(MODELS_MOST, sizeof *g.next)};
    listing->models = calloc(MODELS_MOST, sizeof *listing->models);
    snprintf(listing->repository, sizeof listing->repository, "%s", list.repository);
    listing->kib = list.kib;
    if (!g.next || !listing->models)
        code = moe_fail_file(err, MOE_NO_MEMORY, name, 0, "no memory to look into it");
    else if (is_package(&list))
        code = moe_fail(
            err, MOE_FORMAT,
            "%.300s: names the files of a package, which moechat convert made; moechat info DIR tells of it", name);
    else if (!gather(&g, &list))
        code = moe_fail(err, MOE_FORMAT, "%.300s: names more than %d models, or one whose name is too long; list less",
                        name, MODELS_MOST);
    else if (listing->n_models == 0)
        code = moe_fail(err, MOE_NOT_FOUND,
                        "%.300s: names no .gguf and no .safetensors file, so no model; is it a list of the whole "
                        "repository (tree/main?recursive=true)?",
                        name);
    else
        finish(&g);
    free(g.next);
    file_list_release(&list);
    if (code)
        moe_listing_release(listing);
    return code;
}

void moe_listing_release(struct moe_listing *listing)
{
    free(listing->models);
    memset(listing, 0, sizeof *listing);
}

// ---- What one needs

bool moe_listed_needs(const struct moe_listed *model, struct moe_listed_needs *needs)
{
    enum { WIDE = 7, RESIDENT_BITS = 8 };
    const struct moe_listed_shape *shape = &model->shape;
    memset(needs, 0, sizeof *needs);
    if (!shape->parameters || !shape->n_routed_experts || model->missing)
        return false;
    double weights = (double)shape->parameters, experts = (double)shape->expert_parameters;
    double bits = model->sized ? 8 * (double)model->bytes / weights : model->bits;
    if (bits < 1 || bits > 40 ||
        (model->sized && model->bits > 0 && (bits > 1.7 * model->bits || bits < 0.6 * model->bits)))
        return false; // it is of another shape than its name says
    needs->bytes = model->sized ? model->bytes : (uint64_t)(weights * bits / 8);
    needs->converted = !model->gguf && bits > WIDE && strcmp(model->mix, "8bit") != 0;
    if (needs->converted)
        bits = FORESEE_BITS_CONVERTED;
    double resident_bits = bits > RESIDENT_BITS ? bits : RESIDENT_BITS, fits = 1;
    double routed = experts * bits / 8, resident = (weights - experts) * resident_bits / 8;
    if (!needs->converted && model->sized) // both together are what the files are
        fits = (double)model->bytes / (routed + resident);
    else if (!needs->converted)
        needs->bytes = (uint64_t)(routed + resident);
    needs->experts_bytes = (uint64_t)(routed * fits);
    needs->cold_bytes = needs->experts_bytes / shape->n_routed_experts * shape->top_k;
    needs->resident_bytes = (uint64_t)(resident * fits);
    return true;
}

uint64_t moe_memory_left(void)
{
    return gpu_host_memory_left(NULL);
}
