// SPDX-License-Identifier: GPL-3.0-or-later
// What a package is, without a device: its description, and its files against their checksums.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/files/checkpoint.h"
#include "engine/files/gguf_groups.h"
#include "engine/files/verify.h"
#include "engine/files/gguf_vocabulary.h"
#include "engine/files/package.h"
#include "engine/convert/beside.h"
#include "engine/convert/job.h"
#include "engine/convert/manifest.h"
#include "engine/base/amounts.h"
#include "engine/base/err.h"
#include "engine/base/file.h"
#include "engine/walk/memory.h"
#include "engine/files/spans.h"
#include "engine/walk/weights.h"
#include "engine/files/file_hash.h"

// Sizes of what the experts and the rest take as they are stored.
struct sizes {
    uint64_t one_expert, all_experts; // as files have them; the largest
    uint64_t resident, active;        // active: what a token reads
};

static bool is_embedding(const char *name)
{
    static const char embedding[] = "model.embed_tokens.";
    return strncmp(name, embedding, sizeof embedding - 1) == 0;
}

// All resident tensors but the embedding, of which a token reads one row (unless it is the head too), and top_k experts
// a MoE layer.
static struct sizes sum_sizes(const struct package *package, const struct checkpoint *from)
{
    const struct shape *s = &package->shape;
    struct sizes sizes = {0};
    for (uint32_t i = 0; package->layers && i < s->n_layers; i++) {
        uint64_t bytes = spans_bytes(&package->layers[i]);
        sizes.one_expert = bytes > sizes.one_expert ? bytes : sizes.one_expert;
    }
    for (size_t i = 0; i < from->count; i++) {
        const struct checkpoint_tensor *tensor = &from->tensors[i];
        bool routed = checkpoint_is_routed(tensor);
        *(routed ? &sizes.all_experts : &sizes.resident) += tensor->at->bytes;
        if (!routed && (s->tie_word_embeddings || !is_embedding(tensor->name)))
            sizes.active += tensor->at->bytes;
    }
    for (uint32_t i = 0; package->kind == PACKAGE && i < s->n_layers; i++)
        sizes.all_experts += package->layers[i].experts.blob_bytes * s->n_routed_experts;
    sizes.active += sizes.all_experts / s->n_routed_experts * s->top_k;
    if (package->kind == FOLDER_SOURCE)
        sizes.one_expert = sizes.all_experts / s->n_routed_experts / (s->n_layers - s->first_k_dense_replace);
    return sizes;
}

// What convert would make of a folder: a package of that name.
static int plan_sizes(const struct package *package, const struct job *job, struct moe_description *d,
                      struct moe_err *err)
{
    const struct manifest_facts facts = manifest_facts_of(package, job, package->name);
    char folder[BESIDE_FOLDER_SIZE];
    uint64_t manifest;
    int code = manifest_bytes(&facts, &manifest, err);
    if (code)
        return code;
    beside_folder(package, folder);
    d->weights_bytes = job->bytes;
    d->package_bytes = job->bytes + beside_bytes(folder, package) + manifest;
    return MOE_OK;
}

// What `moechat convert` would write with its defaults, for the folder itself never runs; one that it would refuse is
// refused.
static int describe_planned(const struct package *package, struct moe_description *d, struct moe_err *err)
{
    const struct shape *s = &package->shape;
    struct job job = {.from = package->checkpoint, .shape = &package->shape};
    int code = job_make(&job, err);
    if (code)
        return code;
    code = plan_sizes(package, &job, d, err);
    d->resident_bytes = 0;
    for (size_t i = 0; i < job.count; i++)
        d->resident_bytes += job.tensors[i].bytes; // as sum_sizes has it of the package
    d->all_experts_bytes = d->expert_bytes = 0;
    for (uint32_t i = s->first_k_dense_replace; i < s->n_layers; i++) {
        uint64_t bytes = job.layers[i].experts.blob_bytes;
        d->expert_bytes = bytes > d->expert_bytes ? bytes : d->expert_bytes;
        d->all_experts_bytes += bytes * s->n_routed_experts;
    }
    job_release(&job);
    return code;
}

static void say_left_out(const struct checkpoint *c, char text[256])
{
    const struct {
        const struct left_out *what;
        const char *name;
    } kinds[] = {{&c->vision, "vision"},
                 {&c->mtp, "multi-token prediction"},
                 {&c->buffers, "rope buffers"},
                 {&c->spare, "numbers that are not needed"}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t used = strlen(text);
        char bytes[AMOUNT_SIZE];
        if (kinds[i].what->count)
            snprintf(text + used, 256 - used, "%s%" PRIu32 " tensor%s of %s (%s)", used ? ", " : "",
                     kinds[i].what->count, kinds[i].what->count == 1 ? "" : "s", kinds[i].name,
                     amount_of_bytes(bytes, kinds[i].what->bytes));
    }
}

// "30 gated delta nets (...), 10 of grouped attention (...)": what a layer's tokens are mixed by, where it is not MLA
// in all.
static void say_mixers(const struct shape *s, char text[200])
{
    uint32_t n[LAYER_KINDS] = {0};
    const struct linear_dims *d = &s->linear;
    char parts[LAYER_KINDS][100] = {""};
    for (uint32_t i = 0; i < s->n_layers; i++)
        n[shape_layer_kind(s, i)]++;
    if (n[LAYER_MLA] == s->n_layers)
        return;
    char pools[32] = "";
    if (s->indexer.pool > 1)
        snprintf(pools, sizeof pools, " in pools of %" PRIu32, s->indexer.pool);
    snprintf(parts[LAYER_DSA], sizeof *parts,
             "%" PRIu32 " that choose %" PRIu32 " positions%s (%" PRIu32 " index heads of %" PRIu32 ")", n[LAYER_DSA],
             s->indexer.top_k, pools, s->indexer.n_heads, s->indexer.head_dim);
    snprintf(parts[LAYER_DSA_SHARED], sizeof *parts, "%" PRIu32 " that take those chosen before", n[LAYER_DSA_SHARED]);
    snprintf(parts[LAYER_MLA], sizeof *parts, "%" PRIu32 " of latent attention without a rope", n[LAYER_MLA]);
    snprintf(parts[LAYER_GQA], sizeof *parts, "%" PRIu32 " of attention (%" PRIu32 " key head%s of %" PRIu32 ")",
             n[LAYER_GQA], s->n_kv_heads, s->n_kv_heads == 1 ? "" : "s", s->head_dim);
    snprintf(parts[LAYER_GDN], sizeof *parts,
             "%" PRIu32 " gated delta net%s (%" PRIu32 " states of %" PRIu32 " x %" PRIu32 ")", n[LAYER_GDN],
             n[LAYER_GDN] == 1 ? "" : "s", d->n_value_heads, d->key_head_dim, d->value_head_dim);
    snprintf(parts[LAYER_KDA], sizeof *parts,
             "%" PRIu32 " of Kimi delta attention (%" PRIu32 " states of %" PRIu32 " x %" PRIu32 ")", n[LAYER_KDA],
             d->n_value_heads, d->key_head_dim, d->value_head_dim);
    for (int kind = LAYER_KINDS; kind-- > 0;) {
        size_t used = strlen(text);
        if (n[kind])
            snprintf(text + used, 200 - used, "%s%s", used ? ", " : "", parts[kind]);
    }
    size_t used = strlen(text);
    if (s->hyper.n_streams)
        snprintf(text + used, 200 - used, "; %" PRIu32 " residual streams", s->hyper.n_streams);
}

void description_of_shape(const struct shape *s, struct moe_description *d)
{
    struct parameter_counts counts = shape_parameters(s);
    snprintf(d->model_type, sizeof d->model_type, "%s", s->model_type);
    d->parameters = counts.total;
    d->active_parameters = counts.active;
    d->n_layers = s->n_layers;
    d->n_moe_layers = s->n_layers - s->first_k_dense_replace;
    d->n_routed_experts = s->n_routed_experts;
    d->n_shared_experts = s->n_shared_experts;
    d->top_k = s->top_k;
    d->hidden_size = s->hidden_size;
    d->n_heads = s->n_heads;
    d->q_lora_rank = s->q_lora_rank;
    d->kv_lora_rank = s->kv_lora_rank;
    d->qk_nope_head_dim = s->qk_nope_head_dim;
    d->qk_rope_head_dim = s->qk_rope_head_dim;
    d->v_head_dim = s->v_head_dim;
    d->vocab_size = s->vocab_size;
    d->max_position_embeddings = s->max_position_embeddings;
    d->original_max_position_embeddings = s->original_max_position_embeddings;
    d->bos_token_id = s->bos_token_id;
    memcpy(d->eos_token_ids, s->eos_token_ids, sizeof d->eos_token_ids);
    d->n_eos = s->n_eos;
    say_mixers(s, d->mixers);
    d->kv_row_bytes_f32 = memory_row_bytes(s, MOE_KV_F32);
    d->state_bytes = memory_state_bytes(s);
}

static uint64_t package_weights_bytes(const struct package *package)
{
    uint64_t bytes = package->resident.bytes;
    for (uint32_t i = 0; i < package->n_files; i++)
        bytes += package->files[i].bytes;
    return bytes;
}

// Of all its files: the manifest, too.
static uint64_t package_file_bytes(const struct package *package)
{
    char path[4300];
    struct stat status;
    uint64_t bytes = package_weights_bytes(package) + beside_bytes(package->directory, NULL);
    snprintf(path, sizeof path, "%.4000s/model.json", package->directory);
    return bytes + (stat(path, &status) == 0 ? (uint64_t)status.st_size : 0);
}

static void describe(const struct package *package, const struct checkpoint *from, struct moe_description *d)
{
    const struct shape *s = &package->shape;
    memset(d, 0, sizeof *d);
    snprintf(d->name, sizeof d->name, "%s", package->name);
    snprintf(d->template_name, sizeof d->template_name, "%s", package->template_name);
    snprintf(d->tokenizer_type, sizeof d->tokenizer_type, "%s", package->tokenizer_type);
    snprintf(d->fingerprint, sizeof d->fingerprint, "%s", package->fingerprint);
    snprintf(d->fingerprint_once, sizeof d->fingerprint_once, "%s", package->fingerprint_once);
    if (from->gguf)
        gguf_groups(package, from, d->groups);
    d->vocabulary = from->gguf && gguf_has_vocabulary(from->gguf);
    if (package->tokenizer.path) // directories have at most 4000 bytes, names 63
        memcpy(d->tokenizer_file, package->tokenizer.path, strlen(package->tokenizer.path) + 1);
    description_of_shape(s, d);
    d->suggestion = package->suggestion;
    struct sizes sizes = sum_sizes(package, from);
    d->resident_bytes = sizes.resident;
    d->expert_bytes = sizes.one_expert;
    d->expert_reads = package->layers ? package->layers[s->first_k_dense_replace].n_spans : 0;
    d->all_experts_bytes = sizes.all_experts;
    d->active_bytes = sizes.active;
    d->runs = package->kind != FOLDER_SOURCE;
    d->package = package->kind == PACKAGE;
    snprintf(d->layout, sizeof d->layout, "%s", d->package ? "package" : package->layout);
    d->weights_bytes = d->package ? package_weights_bytes(package) : sizes.resident + sizes.all_experts;
    d->package_bytes = d->package ? package_file_bytes(package) : d->weights_bytes;
    say_left_out(from, d->left_out);
}

int package_describe(const struct package *package, struct moe_description *description, struct moe_err *err)
{
    if (package->checkpoint) {
        describe(package, package->checkpoint, description);
        return description->runs ? MOE_OK : describe_planned(package, description, err);
    }
    struct checkpoint file;
    int code = package_open_resident(package, &file, err);
    if (code)
        return code;
    describe(package, &file, description);
    checkpoint_release(&file);
    return MOE_OK;
}

// What convert would make of a folder that runs as it is; where it would refuse, the sizes stay the folder's own.
static int plan_package(const struct package *package, struct moe_description *d, struct moe_err *err)
{
    struct job job = {.from = package->checkpoint, .shape = &package->shape, .source_layers = package->layers};
    int code = job_make(&job, err);
    if (code)
        return code == MOE_NO_MEMORY ? code : MOE_OK;
    code = plan_sizes(package, &job, d, err);
    job_release(&job);
    return code;
}

int moe_inspect(const char *directory, struct moe_description *description, struct moe_err *err)
{
    struct package package;
    int code = weights_open_package(directory, &package, err);
    if (code)
        return code;
    code = package_describe(&package, description, err);
    if (!code && package.checkpoint && description->runs)
        code = plan_package(&package, description, err);
    package_release(&package);
    return code;
}

int moe_check_holes(const char *directory, struct moe_err *err)
{
    struct package package;
    int code = weights_open_package(directory, &package, err);
    if (code)
        return code;
    code = verify_no_holes(&package, err);
    package_release(&package);
    return code;
}

// One walk over all files of a package.
struct comparison {
    const struct package *package;
    moe_progress_fn *on_progress;
    void *context;
    struct moe_progress progress;
    struct moe_err *err;
};

static void advanced(void *context, uint64_t bytes)
{
    struct comparison *v = context;
    v->progress.done += bytes;
    if (v->on_progress)
        v->on_progress(v->context, &v->progress);
}

static int verify_file(struct comparison *v, const struct package_file *file)
{
    char hex[65] = "";
    const struct file_hashing how = {.path = file->path, .bytes = file->bytes, .advanced = advanced, .context = v};
    int code = file_hash(&how, hex, v->err);
    if (code || strcmp(hex, file->sha256) == 0)
        return code;
    return moe_fail_file(v->err, MOE_FORMAT, file->path, 0,
                         "SHA-256 does not match model.json: the file is damaged, download the package again");
}

static int verify_files(struct comparison *v)
{
    const struct package *p = v->package;
    v->progress = (struct moe_progress){
        .what = "comparing checksums", .unit = "bytes", .total = p->resident.bytes + p->tokenizer.bytes};
    for (uint32_t i = 0; i < p->n_files; i++)
        v->progress.total += p->files[i].bytes;
    int code = verify_file(v, &p->resident);
    for (uint32_t i = 0; !code && i < p->n_files; i++)
        code = verify_file(v, &p->files[i]);
    if (!code && p->tokenizer.path)
        code = verify_file(v, &p->tokenizer);
    return code;
}

int moe_verify(const char *directory, moe_progress_fn *progress, void *context, struct moe_err *err)
{
    struct package package;
    int code = weights_open_package(directory, &package, err);
    if (code)
        return code;
    if (package.kind == FOLDER_SOURCE) {
        package_release(&package);
        return moe_fail(err, MOE_UNSUPPORTED,
                        "%.300s is a folder from the hub that must be converted first; it has no checksums to compare, "
                        "and `moechat convert` checks its numbers",
                        directory);
    }
    if (package.kind != PACKAGE) {
        code = verify_weights(&(struct verification){&package, progress, context}, err);
        package_release(&package);
        return code;
    }
    struct comparison v = {.package = &package, .on_progress = progress, .context = context, .err = err};
    code = verify_files(&v);
    package_release(&package);
    return code;
}
