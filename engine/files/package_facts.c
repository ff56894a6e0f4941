// SPDX-License-Identifier: GPL-3.0-or-later
// Layout of experts and fingerprint, for sources without a manifest.
#include "engine/files/package_facts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/file.h"
#include "engine/files/file_hash.h"

enum { SAMPLE_BYTES = 256, TYPES_OF_GGML = 1000 };

void package_name_after(char name[PACKAGE_NAME], const char *path)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    size_t length = end - begin < PACKAGE_NAME - 1 ? end - begin : PACKAGE_NAME - 1;
    for (size_t i = 0; i < length; i++) {
        char c = path[begin + i];
        name[i] = c > 0x20 && c < 0x7f ? c : '_';
    }
    name[length] = '\0';
}

int package_list_files(struct package *package, struct moe_err *err)
{
    const struct checkpoint *c = package->checkpoint;
    package->layers = calloc(package->shape.n_layers, sizeof *package->layers);
    package->files = calloc(c->n_shards, sizeof *package->files);
    if (!package->layers || !package->files)
        return moe_fail(err, MOE_NO_MEMORY, "%.300s: no memory for the list of layers", c->directory);
    for (; package->n_files < c->n_shards; package->n_files++) {
        struct package_file *file = &package->files[package->n_files];
        const struct tensor *tensors = c->shards[package->n_files].tensors;
        file->path = strdup(c->shards[package->n_files].path);
        if (!file->path)
            return moe_fail(err, MOE_NO_MEMORY, "%.300s: no memory for the list of shards", c->directory);
        for (size_t i = 0; i < c->shards[package->n_files].count; i++)
            if (tensors[i].offset + tensors[i].bytes > file->bytes)
                file->bytes = tensors[i].offset + tensors[i].bytes;
    }
    return MOE_OK;
}

int package_find_tokenizer(struct package *package, const char *directory, struct moe_err *err)
{
    static const struct {
        const char *file, *type;
    } kinds[] = {
        {"tokenizer.json", "huggingface"}, {"tiktoken.model", "tiktoken"}, {"tokenizer.model", "sentencepiece"}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char path[4200];
        int fd;
        snprintf(path, sizeof path, "%s/%s", directory, kinds[i].file);
        if (file_open(path, &fd, &package->tokenizer.bytes, NULL))
            continue;
        close(fd);
        package->tokenizer.path = strdup(path);
        if (!package->tokenizer.path)
            return moe_fail_file(err, MOE_NO_MEMORY, path, 0, "no memory for its path");
        snprintf(package->tokenizer_type, sizeof package->tokenizer_type, "%s", kinds[i].type);
        break;
    }
    return MOE_OK;
}

static bool has_states(const struct shape *s)
{
    return s->linear.n_value_heads > 0;
}

// Of models whose layers are of several kinds, and only there: others keep the fingerprints that they have had.
static bool add_linear(EVP_MD_CTX *hash, const struct shape *s)
{
    const struct linear_dims *d = &s->linear;
    const double settings[] = {s->n_kv_heads,     s->head_dim,    s->rotary_dim,    s->has_shared_gate,
                               s->norms_from_one, d->n_key_heads, d->n_value_heads, d->key_head_dim,
                               d->value_head_dim, d->conv_kernel, d->tiled};
    return EVP_DigestUpdate(hash, settings, sizeof settings) == 1 &&
           EVP_DigestUpdate(hash, s->layer_kinds, s->n_layers) == 1;
}

// The same of what chooses positions.
static bool add_indexer(EVP_MD_CTX *hash, const struct shape *s)
{
    const struct indexer_dims *d = &s->indexer;
    const double settings[] = {d->n_heads, d->head_dim, d->top_k, d->interleaved};
    return EVP_DigestUpdate(hash, settings, sizeof settings) == 1 &&
           EVP_DigestUpdate(hash, s->layer_kinds, s->n_layers) == 1;
}

// The same of what few models have: without it the others keep the fingerprints that older programs gave them.
static bool add_rare(EVP_MD_CTX *hash, const struct shape *s, bool *rare)
{
    enum { LATENT_EPS = 8 };
    static const double usual[] = {[LATENT_EPS] = 1e-6F};
    const double settings[] = {s->linear.bound,
                               s->bank_every,
                               s->situ_beta,
                               s->swiglu_limit,
                               s->hyper.eps,
                               s->hyper.n_streams,
                               s->hyper.iterations,
                               s->indexer.pool > 1 ? s->indexer.pool : 0,
                               [LATENT_EPS] = s->kv_lora_rank ? s->latent_norm_eps : usual[LATENT_EPS]};
    *rare = memcmp(settings, usual, sizeof usual) != 0;
    return !*rare || EVP_DigestUpdate(hash, settings, sizeof settings) == 1;
}

// What is computed with the same tensors: a file that comes out again with another rope makes other rows.
static bool add_settings(EVP_MD_CTX *hash, const struct shape *s)
{
    const double settings[] = {s->n_heads,
                               s->top_k,
                               s->scoring,
                               s->topk_method,
                               s->n_group,
                               s->topk_group,
                               s->rms_norm_eps,
                               s->routed_scaling_factor,
                               s->norm_topk_prob,
                               s->rope_interleave,
                               s->rope_type,
                               s->rope_theta,
                               s->factor,
                               s->beta_fast,
                               s->beta_slow,
                               s->truncate,
                               s->softmax_scale,
                               s->rope_scale,
                               s->qk_rope_head_dim,
                               s->qk_nope_head_dim,
                               s->v_head_dim,
                               s->has_correction_bias,
                               s->original_max_position_embeddings};
    return EVP_DigestUpdate(hash, settings, sizeof settings) == 1 && (!has_states(s) || add_linear(hash, s)) &&
           (!s->indexer.n_heads || add_indexer(hash, s));
}

int package_bind_settings(struct package *package, struct moe_err *err)
{
    bool rare;
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    memcpy(package->fingerprint_once, package->fingerprint, sizeof package->fingerprint_once);
    bool good = hash && EVP_DigestInit_ex(hash, EVP_sha256(), NULL) == 1 &&
                EVP_DigestUpdate(hash, package->fingerprint_once, 64) == 1 && add_settings(hash, &package->shape) &&
                add_rare(hash, &package->shape, &rare) && file_hash_hex(hash, package->fingerprint);
    EVP_MD_CTX_free(hash);
    return good ? MOE_OK : moe_fail(err, MOE_NO_MEMORY, "%.300s: libcrypto could not hash it", package->directory);
}

static int add_tensor(EVP_MD_CTX *hash, const struct checkpoint *c, const struct checkpoint_tensor *tensor, bool *good,
                      struct moe_err *err)
{
    unsigned char sample[SAMPLE_BYTES];
    char line[320];
    size_t bytes = tensor->at->bytes < SAMPLE_BYTES ? (size_t)tensor->at->bytes : SAMPLE_BYTES;
    const struct checkpoint_range range = {tensor, (tensor->at->bytes - bytes) / 2, bytes};
    int type = tensor->at->dtype == DTYPE_GGML ? TYPES_OF_GGML + (int)tensor->at->ggml_type : (int)tensor->at->dtype;
    int length = snprintf(line, sizeof line, "%s %d %" PRIu64 "\n", tensor->name, type, tensor->at->bytes);
    int code = checkpoint_read(c, &range, sample, err);
    *good = EVP_DigestUpdate(hash, line, (size_t)length) == 1 && EVP_DigestUpdate(hash, sample, bytes) == 1;
    return code;
}

int package_take_fingerprint(struct package *package, struct moe_err *err)
{
    const struct checkpoint *c = package->checkpoint;
    EVP_MD_CTX *hash = EVP_MD_CTX_new(), *once = EVP_MD_CTX_new();
    int code = MOE_OK;
    bool rare = false;
    bool good = hash && once && EVP_DigestInit_ex(hash, EVP_sha256(), NULL) == 1 && add_settings(hash, &package->shape);
    for (size_t i = 0; good && !code && i < c->count; i++)
        code = add_tensor(hash, c, &c->tensors[i], &good, err);
    good = good && !code && EVP_MD_CTX_copy_ex(once, hash) == 1 && add_rare(hash, &package->shape, &rare) &&
           file_hash_hex(hash, package->fingerprint);
    *package->fingerprint_once = 0;
    good = good && (!rare || file_hash_hex(once, package->fingerprint_once));
    EVP_MD_CTX_free(hash);
    EVP_MD_CTX_free(once);
    return code || good ? code : moe_fail(err, MOE_NO_MEMORY, "%.300s: libcrypto could not hash it", c->directory);
}
