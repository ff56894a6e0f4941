// SPDX-License-Identifier: GPL-3.0-or-later
// The face of the kernels room: devices, buffers and ops. Knows arrays; knows no layer, file or token.
//
// Threads: a gpu and everything made from it belong to one thread, the one that opened it, but for gpu_buf_host's
// memory, which readers may fill. Errors: calls that make something return NULL and fill *err. Ops, writes and fences
// return nothing: the first failure is kept in the gpu ("sticky"), later ops do nothing, and gpu_check or the next
// blocking gpu_read reports it and clears it. Order: ops, writes and reads take effect in the order of the calls (one
// in-order queue); copies have a queue of their own. What blocks: gpu_read and its kin, gpu_finish, gpu_fence_wait and
// gpu_copy_wait; gpu_write of page-locked memory, gpu_map and gpu_buf_free for what is under way.
#ifndef MOECHAT_GPU_H
#define MOECHAT_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/args.h"
#include "kernels/kinds.h"

typedef struct gpu gpu;
typedef struct gpu_buf gpu_buf;

enum gpu_code {
    GPU_OK = 0,
    GPU_NO_DEVICE,     // no OpenCL platform, or none that the selector names
    GPU_OUT_OF_MEMORY, // device or host
    GPU_BUILD,         // a kernel did not build, or the device lays args.h out differently
    GPU_LAUNCH,        // the driver refused or lost a command
    GPU_ARGUMENT,      // a caller's error: shapes or offsets outside a buffer
};

struct gpu_error {
    enum gpu_code code;
    int native;     // the driver's own number, 0 if none
    char text[248]; // one line: what failed, on which device, what to do
};

enum gpu_kind { GPU_KIND_REF, GPU_KIND_CPU, GPU_KIND_GPU };

struct gpu_info {
    char selector[16]; // what --device takes: "ref", "0", "1" ...
    char name[128];
    char platform[128];
    char driver[64];
    enum gpu_kind kind;
    bool shares_host_memory; // buffers are host memory: gpu_buf_host works, uploads cost nothing
    bool maps_host_memory;   // the same memory, but the host may fill a buffer only between gpu_map and gpu_unmap:
                             // integrated GPUs
    uint64_t global_bytes;   // for a CPU: what /proc/meminfo and the cgroup leave
    uint64_t max_alloc_bytes;
    uint64_t local_bytes;
    uint32_t compute_units;
};

// Called on the opening thread while kernels are built and warmed up; done <= total. A total of 0: none is built, as
// all that is made ready was kept from an earlier start.
typedef void gpu_progress(void *context, const char *what, unsigned done, unsigned total);

struct gpu_format;
struct gpu_options {
    const char *selector; // NULL or "": the first GPU, else the first CPU. "ref", an index, "cpu", "gpu", or part of a
                          // name or platform
    // Folder for program binaries, of drivers that keep none themselves; NULL: no cache. Made when missing, 0700.
    const char *cache_dir;
    gpu_progress *progress; // may be NULL
    void *progress_context;
    unsigned mixers; // USE_MIXERS of args.h: kernels of others are made ready when they are first used; 0: of all
    // A program's words, ended by NULL, that is started with one more, a job, to build kernels in processes of their
    // own: it hands the job to gpu_build. Used where a driver's compiler takes seconds, and there are a cache to leave
    // them in and processors to do it. What fails is built here, and gpu_notice says so. NULL: there is none, and all
    // is built here. Stays valid as long as the device.
    const char *const *helper;
    // What gpu_open_formats is going to be asked for, where that is known: helpers build it beside the rest. Read while
    // the device is opened.
    const struct gpu_format *formats;
    unsigned n_formats;
    bool profile;      // keep the device's own times of its kernels, which makes it slower
    int nice_value;    // for the threads a CPU driver starts, 0 to leave; set before the driver makes them
    bool always_cache; // tests: binaries of all drivers
    bool warm_late;    // tests: a driver makes machine code of a kernel when it is first used, not of all at the start
    bool map;          // tests: a device that shares our memory is taken for one that maps it
    bool apart;        // tests: launches pass their arguments one by one on all devices
    bool divide;       // tests: programs are built in parts, as where a compiler takes seconds
    bool refuse_mma;   // tests: a device with tensor cores whose driver does not build their kernels
};

// Fills at most max entries (the ref device first) and returns how many devices there are.
unsigned gpu_list(struct gpu_info *infos, unsigned max);

gpu *gpu_open(const struct gpu_options *options, struct gpu_error *err);
void gpu_close(gpu *g); // NULL is fine; all its buffers must have been freed
const struct gpu_info *gpu_describe(const gpu *g);
// A sentence for people about what was wrong with kernels that were kept, and was mended, or about those that tokens
// have to do without; "": nothing.
const char *gpu_notice(const gpu *g);

// In a helper: does a job, ends when standard input does. 0, or a code with *err filled.
int gpu_build(const char *job, struct gpu_error *err);

// What the host has left for us now: of /proc/meminfo and of the memory cgroups (v1, v2) that we are in, whose page
// cache counts as free.
uint64_t gpu_host_memory_left(const gpu *g);

// A kind of matrix that ops are to compute with: of MLX's affine kinds, with scales of a type.
struct gpu_format {
    uint32_t kind;       // enum matrix_kind
    uint32_t scale_type; // enum scale_type; of other kinds 0
    uint32_t uses;       // USE_ of args.h: the ops that will have such matrices
};
// A token's merged launches can have several kinds beside each other, all in one program: how many that has at most,
// and which matrices it takes. Longer rows are faster op by op: x leaves their blocks too little room.
enum { MOST_TOKEN_KINDS = 4 };
bool gpu_goes_together(const struct args_matrix *m);
// The format of a matrix.
struct gpu_format gpu_format_of(const struct args_matrix *m, uint32_t uses);
// Makes n formats usable: what those need that gpu_open has not built is built (or taken from the cache), and proved on
// the device by blocks of bytes against plain C. F32, BF16, and 4 and 8 bits with bf16 scales need nothing, nor does
// what is open already; twice the same is fine. Ops refuse, by name, what was not opened. 0, or a code with *err
// filled: the device cannot be used for that kind. `progress` counts formats, and may be NULL.
int gpu_open_formats(gpu *g, const struct gpu_format *formats, unsigned n, const struct gpu_options *options,
                     struct gpu_error *err);

// Device memory of `bytes`, uninitialised. Never more than max_alloc_bytes: callers cut into slabs.
gpu_buf *gpu_buf_new(gpu *g, uint64_t bytes, struct gpu_error *err);
void gpu_buf_free(gpu_buf *buf); // NULL is fine; waits for commands that use it
uint64_t gpu_buf_bytes(const gpu_buf *buf);
// The buffer's memory as the host sees it, 4096-aligned, when shares_host_memory; else NULL. The host may write a range
// while no unfinished op uses that range.
void *gpu_buf_host(gpu_buf *buf);

// A buffer that the host fills in place where shares_host_memory or maps_host_memory; else as gpu_buf_new. OpenCL lets
// no kernel run over an object of which any part is mapped, so what is filled while other things are used needs a
// buffer of its own there.
gpu_buf *gpu_buf_new_shared(gpu *g, uint64_t bytes, struct gpu_error *err);
// Opens such a buffer, all of it and not yet mapped, for the host, on any thread; what it held is lost. NULL: a sticky
// error. Ops may use it when gpu_unmap's number, which is a copy's, has passed. Where shares_host_memory the two do
// nothing, and any range that no unfinished op uses may be filled.
void *gpu_map(gpu *g, gpu_buf *buf);
uint64_t gpu_unmap(gpu *g, gpu_buf *buf);

// Ordinary memory, 4096-aligned, for free() to release: in huge pages where the system has them, which direct reads
// fill in fewer and larger requests (measured: 2 to 3 times as fast). NULL: there is no more.
void *gpu_pages(uint64_t bytes);

// Page-locked host memory, 4096-aligned, for reads from disk that are then written to the device.
void *gpu_host_alloc(gpu *g, uint64_t bytes, struct gpu_error *err);
void gpu_host_free(gpu *g, void *memory);

// Copies `bytes` from host memory, which may be reused when the call returns.
void gpu_write(gpu *g, gpu_buf *buf, uint64_t offset, const void *source, uint64_t bytes);
// Starts a copy from page-locked memory beside the ops, on a queue of its own, and returns its number: the source and
// the range stay untouched, by ops too, until it has passed; what is enqueued after that sees the bytes. An error is
// sticky. Where memory is shared the bytes are copied at once.
uint64_t gpu_copy(gpu *g, gpu_buf *buf, uint64_t offset, const void *source, uint64_t bytes);
// The same from the device to page-locked memory; the two kinds run in the order of their calls.
uint64_t gpu_copy_back(gpu *g, gpu_buf *buf, uint64_t offset, void *target, uint64_t bytes);
bool gpu_copy_passed(gpu *g, uint64_t copy); // doesn't block
void gpu_copy_wait(gpu *g, uint64_t copy);
// Ops that are enqueued from now on run behind the copy and see its bytes; nobody waits here. Its source stays
// untouched until it has passed, as ever.
void gpu_follow(gpu *g, uint64_t copy);
// Blocks until all earlier commands are done and the bytes are there. 0, or a code with *err filled.
int gpu_read(gpu *g, gpu_buf *buf, uint64_t offset, void *target, uint64_t bytes, struct gpu_error *err);
// The same for several ranges, with one wait for all.
struct gpu_range {
    gpu_buf *buf;
    uint64_t offset;
    void *target;
    uint64_t bytes;
};
int gpu_read_ranges(gpu *g, const struct gpu_range *ranges, unsigned n, struct gpu_error *err);
// The same in two steps, so that ops that are given in between run while the host looks at the bytes. In between
// nothing writes to the ranges or looks at their targets.
uint64_t gpu_read_begin(gpu *g, const struct gpu_range *ranges, unsigned n); // a fence
int gpu_read_end(gpu *g, const struct gpu_range *ranges, unsigned n, uint64_t fence, struct gpu_error *err);

// Fences number the stream of commands: a fence has passed when everything enqueued before it is done.
uint64_t gpu_fence(gpu *g);
// The same where nobody may ever ask for it: the next fence, which costs no command of its own unless it is waited for
// before something else asks for one. The caller flushes.
uint64_t gpu_fence_to_come(gpu *g);
bool gpu_fence_passed(gpu *g, uint64_t fence); // does not block; after a blocking read all earlier fences have passed
void gpu_fence_wait(gpu *g, uint64_t fence);
// What was enqueued is begun now, as fences and reads see to by themselves: where neither comes for a while.
void gpu_flush(gpu *g);
// Is there a sticky error? It stays.
bool gpu_failed(const gpu *g);
// Reports and clears the sticky error without blocking. 0 when all is well.
int gpu_check(gpu *g, struct gpu_error *err);
// Waits for everything, then as gpu_check.
int gpu_finish(gpu *g, struct gpu_error *err);
// Commands enqueued and host waits since opening, for telemetry.
struct gpu_counts {
    uint64_t launches;
    uint64_t waits;
    uint64_t bytes_written; // by gpu_write and gpu_copy, when memory is not shared
};
struct gpu_counts gpu_counters(const gpu *g);
// With `profile`: what each kernel took since opening, of the commands that the host has waited for. Returns how many
// kernels were used; 0 where nothing was kept, as on the ref device.
struct gpu_kernel_time {
    const char *name;
    uint64_t launches, ns;
};
unsigned gpu_profile(const gpu *g, struct gpu_kernel_time *times, unsigned max);

// The same matrix `bytes` further on in its buffer.
static inline struct args_matrix gpu_matrix_behind(const struct args_matrix *m, uint64_t bytes)
{
    struct args_matrix behind = *m;
    behind.weight += bytes;
    behind.scales += bytes;
    behind.biases += bytes;
    return behind;
}

// The ops. Each launches kernels of its own choosing (per device kind) and checks shapes and ranges against the buffers
// (GPU_ARGUMENT, sticky). args.h holds the formulas; buffers are named in the comments there.
void gpu_op_embed(gpu *g, const struct args_embed *a, gpu_buf *table, gpu_buf *ids, gpu_buf *out);
void gpu_op_rmsnorm(gpu *g, const struct args_rmsnorm *a, gpu_buf *weight, gpu_buf *x, gpu_buf *y);
void gpu_op_matvec(gpu *g, const struct args_matmul *a, gpu_buf *matrix, gpu_buf *x, gpu_buf *y);
void gpu_op_matmul(gpu *g, const struct args_matmul *a, gpu_buf *matrix, gpu_buf *x, gpu_buf *y);
struct gpu_norm_matvecs_bufs {
    gpu_buf *norm;
    gpu_buf *x;
    gpu_buf *normed;              // not x
    gpu_buf *matrix[MOST_BESIDE]; // n of them, as
    gpu_buf *y[MOST_BESIDE];      // these
};
// One launch, or one for each op where the matrices' kinds have no kernel in common.
void gpu_op_norm_matvecs(gpu *g, const struct args_norm_matvecs *a, const struct gpu_norm_matvecs_bufs *b);
void gpu_op_swiglu_vec(gpu *g, const struct args_swiglu *a, gpu_buf *matrices, gpu_buf *x, gpu_buf *y);
void gpu_op_swiglu_mat(gpu *g, const struct args_swiglu *a, gpu_buf *matrices, gpu_buf *x, gpu_buf *y);
// matmul and swiglu_mat for n of one layout at once, MOST_EACH at most, each with rows of its own: the same bits.
// swiglu_each may have an index where gpu_has_swiglu_index says so: then x has `indexed` rows, the same for all, from
// its beginning on, and a matrix's row r is row index[in_offset + r] of it.
struct gpu_product_bufs {
    gpu_buf *matrices;
    gpu_buf *x;
    gpu_buf *y;
    gpu_buf *index; // int32, each less than `indexed`; NULL: none
};
bool gpu_has_swiglu_index(const gpu *g, const struct args_matrix *gate, const struct args_matrix *up);
void gpu_op_matmul_each(gpu *g, const struct args_matmul *a, uint32_t n, const struct gpu_product_bufs *b);
void gpu_op_swiglu_each(gpu *g, const struct args_swiglu *a, uint32_t n, const struct gpu_product_bufs *b);
struct gpu_experts_bufs {
    gpu_buf *matrices;
    gpu_buf *ids; // int32, a router's; NULL without by_id
    gpu_buf *x;
    gpu_buf *y;
    gpu_buf *shared; // the shared expert's matrices; may be NULL where there is none, and for matvec_experts
    gpu_buf *gate;   // a number, with is_gated; else may be NULL
};
void gpu_op_swiglu_experts(gpu *g, const struct args_swiglu_experts *a, const struct gpu_experts_bufs *b);
void gpu_op_matvec_experts(gpu *g, const struct args_matvec_experts *a, const struct gpu_experts_bufs *b);
struct gpu_add_experts_bufs {
    struct gpu_experts_bufs of; // y is not used
    gpu_buf *weight;
    gpu_buf *partial; // a row for each, the shared one's too: what stands in it afterwards means nothing
    gpu_buf *out;
};
// The shared expert goes with the others where their kinds have a kernel in common, else by itself.
void gpu_op_add_experts(gpu *g, const struct args_add_experts *a, const struct gpu_add_experts_bufs *b);
// All four in one launch, where the device's groups can meet and the matrices are MLX's of 4 and 8 bits; else one by
// one.
struct gpu_moe_token_bufs {
    gpu_buf *norm;
    gpu_buf *router;
    gpu_buf *bias; // may be NULL without one
    gpu_buf *experts;
    gpu_buf *shared; // gate and up; this and the next may be NULL where there is no shared expert
    gpu_buf *shared_down;
    gpu_buf *shared_factor; // this and `factor` may be NULL without one
    gpu_buf *logits;
    gpu_buf *ids;
    gpu_buf *weights;
    gpu_buf *act;     // a row for each chosen expert; the shared one's at shared_offset, times its factor or not yet
    gpu_buf *factor;  // of the shared expert: its product
    gpu_buf *partial; // a row for each, the shared one's too: what stands in it afterwards means nothing
    gpu_buf *normed;  // nor here
    gpu_buf *out;
};
void gpu_op_moe_token(gpu *g, const struct args_moe_token *a, const struct gpu_moe_token_bufs *b);
void gpu_op_rope(gpu *g, const struct args_rope *a, gpu_buf *inv_freq, gpu_buf *x);
struct gpu_kv_append_bufs {
    gpu_buf *norm;
    gpu_buf *inv_freq; // rope_dim / 2
    gpu_buf *x;
    gpu_buf *cache; // rows of kv_lora_rank + rope_dim, kv_type
    gpu_buf *q;     // rows of heads; may be NULL without any
};
void gpu_op_kv_append(gpu *g, const struct args_kv_append *a, const struct gpu_kv_append_bufs *b);
void gpu_op_q_prime(gpu *g, const struct args_kv_b *a, gpu_buf *kv_b, gpu_buf *q, gpu_buf *out);
void gpu_op_heads(gpu *g, const struct args_heads *a, gpu_buf *matrix, gpu_buf *x, gpu_buf *out);
// decode: n_rows is 1, the keys are split over work-groups. prefill: any n_rows, independent of the chunk.
struct gpu_attention_bufs {
    gpu_buf *q_latent; // [n_rows, n_heads, kv_lora_rank], q_prime's output
    gpu_buf *q;        // rows of heads, rope already applied
    gpu_buf *cache;    // rows of kv_lora_rank + rope_dim, kv_type
    gpu_buf *out;      // [n_rows, n_heads, kv_lora_rank]
    gpu_buf *list;     // uint32, each less than the cache's rows; NULL without n_listed
};
void gpu_op_attention_decode(gpu *g, const struct args_attention *a, const struct gpu_attention_bufs *b);
void gpu_op_attention_prefill(gpu *g, const struct args_attention *a, const struct gpu_attention_bufs *b);
// Has the device kernels for it? Where it has, a prompt's attention takes a third of what it takes absorbed; what makes
// keys and values of the rows before counts for less from some 100 rows of a prompt on.
bool gpu_has_attention_plain(const gpu *g, const struct args_attention_plain *a);
struct gpu_attention_plain_bufs {
    gpu_buf *keys;
    gpu_buf *values; // may be NULL where keys has them
    gpu_buf *q;      // rows of heads, rope already applied
    gpu_buf *cache;  // rows of kv_lora_rank + rope_dim, kv_type
    gpu_buf *out;
};
void gpu_op_attention_plain(gpu *g, const struct args_attention_plain *a, const struct gpu_attention_plain_bufs *b);
// What stands before a token's attention in one launch, and all behind its tiles in another, where the device's groups
// can meet and the matrices are MLX's of 4 and 8 bits; else one by one.
struct gpu_mla_in_bufs {
    gpu_buf *norm;
    gpu_buf *x;
    gpu_buf *normed; // what stands in it afterwards means nothing; so in lora_normed
    gpu_buf *q_first;
    gpu_buf *q_last; // NULL without q_lora, as the next three
    gpu_buf *lora_norm;
    gpu_buf *lora;
    gpu_buf *lora_normed;
    gpu_buf *kv_a;
    gpu_buf *latent_norm;
    gpu_buf *inv_freq;
    gpu_buf *kv_b;
    gpu_buf *q;
    gpu_buf *kv;
    gpu_buf *cache;
    gpu_buf *latent; // q_prime's output
};
void gpu_op_mla_in(gpu *g, const struct args_mla_in *a, const struct gpu_mla_in_bufs *b);
struct gpu_mla_out_bufs {
    struct gpu_attention_bufs attention;
    gpu_buf *values;
    gpu_buf *heads;
    gpu_buf *o;
    gpu_buf *out;
};
void gpu_op_mla_out(gpu *g, const struct args_mla_out *a, const struct gpu_mla_out_bufs *b);
struct gpu_index_append_bufs {
    gpu_buf *norm;
    gpu_buf *bias;
    gpu_buf *inv_freq; // rope_dim / 2
    gpu_buf *x;
    gpu_buf *cache; // rows of dim, kv_type
};
void gpu_op_index_append(gpu *g, const struct args_index_append *a, const struct gpu_index_append_bufs *b);
struct gpu_index_scores_bufs {
    gpu_buf *q; // turned
    gpu_buf *weight;
    gpu_buf *cache;
    gpu_buf *scores;
};
void gpu_op_index_scores(gpu *g, const struct args_index_scores *a, const struct gpu_index_scores_bufs *b);
void gpu_op_index_pool(gpu *g, const struct args_index_pool *a, gpu_buf *ape, gpu_buf *cache, gpu_buf *pools);
void gpu_op_index_choice(gpu *g, const struct args_index_choice *a, gpu_buf *scores, gpu_buf *list);
struct gpu_gqa_append_bufs {
    gpu_buf *q_norm;
    gpu_buf *k_norm;
    gpu_buf *inv_freq; // rope_dim / 2; may be NULL when that is 0
    gpu_buf *q;        // in place
    gpu_buf *kv;       // rows with k and v
    gpu_buf *cache;
};
void gpu_op_gqa_append(gpu *g, const struct args_gqa_append *a, const struct gpu_gqa_append_bufs *b);
// decode and prefill as with attention.
struct gpu_gqa_bufs {
    gpu_buf *q; // as gqa_append leaves it
    gpu_buf *cache;
    gpu_buf *out; // [n_rows, n_heads, head_dim]
};
void gpu_op_gqa_decode(gpu *g, const struct args_gqa *a, const struct gpu_gqa_bufs *b);
void gpu_op_gqa_prefill(gpu *g, const struct args_gqa *a, const struct gpu_gqa_bufs *b);
struct gpu_short_conv_bufs {
    gpu_buf *weight;
    gpu_buf *x;
    gpu_buf *from; // history; may be one buffer with `to`
    gpu_buf *to;
    gpu_buf *y; // not x
};
void gpu_op_short_conv(gpu *g, const struct args_short_conv *a, const struct gpu_short_conv_bufs *b);
// One op for one token and for many.
struct gpu_delta_bufs {
    gpu_buf *rate;
    gpu_buf *dt_bias;
    gpu_buf *x;    // rows with q, k and v
    gpu_buf *gate; // rows with b and the decay's inputs
    gpu_buf *from; // states; may be one buffer with `to`
    gpu_buf *to;
    gpu_buf *out; // neither x nor gate
};
void gpu_op_delta(gpu *g, const struct args_delta *a, const struct gpu_delta_bufs *b);
struct gpu_gated_norm_bufs {
    gpu_buf *weight;
    gpu_buf *x;
    gpu_buf *gate;
    gpu_buf *y;
};
void gpu_op_gated_norm(gpu *g, const struct args_gated_norm *a, const struct gpu_gated_norm_bufs *b);
// The bits of short_conv, delta and gated_norm of one row; conv.y, which is scan.x, need not be written.
struct gpu_delta_token_bufs {
    struct gpu_short_conv_bufs conv;
    struct gpu_delta_bufs scan; // out is norm.x
    struct gpu_gated_norm_bufs norm;
};
void gpu_op_delta_token(gpu *g, const struct args_delta_token *a, const struct gpu_delta_token_bufs *b);
// The same with what stands before and behind it, in one launch where moe_token is one, else one by one.
struct gpu_delta_layer_bufs {
    struct gpu_norm_matvecs_bufs in; // x is the stream; y: conv.x, the norm's gate, and the scan's twice
    struct gpu_delta_token_bufs token;
    gpu_buf *last;
};
void gpu_op_delta_layer(gpu *g, const struct args_delta_layer *a, const struct gpu_delta_layer_bufs *b);
void gpu_op_gate_product(gpu *g, const struct args_gate_product *a, gpu_buf *gate, gpu_buf *y); // gate is not y
struct gpu_router_bufs {
    gpu_buf *logits;  // [n_rows, n_experts]
    gpu_buf *bias;    // float32 at args.bias; unused, may be NULL, without has_bias
    gpu_buf *ids;     // out, int32 [n_rows, top_k] from args.first on
    gpu_buf *weights; // out, float32, the same
};
void gpu_op_router(gpu *g, const struct args_router *a, const struct gpu_router_bufs *b);
void gpu_op_gather(gpu *g, const struct args_gather *a, gpu_buf *x, gpu_buf *index, gpu_buf *out);
struct gpu_scatter_bufs {
    gpu_buf *y;
    gpu_buf *index;
    gpu_buf *weight;
    gpu_buf *chain; // uint32 [][2], beside index
    gpu_buf *out;
};
void gpu_op_scatter_add(gpu *g, const struct args_gather *a, const struct gpu_scatter_bufs *b);
void gpu_op_combine(gpu *g, const struct args_combine *a, gpu_buf *partial, gpu_buf *weight, gpu_buf *out);
// The bits of combine and rmsnorm one after the other.
struct gpu_combine_bufs {
    gpu_buf *partial;
    gpu_buf *weight;
    gpu_buf *out;
    gpu_buf *norm;
    gpu_buf *y;
};
void gpu_op_combine_norm(gpu *g, const struct args_combine_norm *a, const struct gpu_combine_bufs *b);
struct gpu_hyper_mix_bufs {
    gpu_buf *base;
    gpu_buf *scale;
    gpu_buf *streams; // [.., HYPER_STREAMS * dim]
    gpu_buf *logits;  // [.., HYPER_LOGITS]
    gpu_buf *parts;   // out, [.., HYPER_PARTS]
    gpu_buf *y;       // out, [.., dim], not the streams
};
void gpu_op_hyper_mix(gpu *g, const struct args_hyper_mix *a, const struct gpu_hyper_mix_bufs *b);
struct gpu_hyper_spread_bufs {
    gpu_buf *parts; // parts and from are not read with args.begins
    gpu_buf *out;   // [.., dim]
    gpu_buf *from;  // [.., HYPER_STREAMS * dim]
    gpu_buf *to;    // the same; hyper_mean's is [.., dim], and no input
};
void gpu_op_hyper_spread(gpu *g, const struct args_hyper_spread *a, const struct gpu_hyper_spread_bufs *b);
void gpu_op_hyper_mean(gpu *g, const struct args_hyper_spread *a, const struct gpu_hyper_spread_bufs *b);
void gpu_op_clear(gpu *g, const struct args_clear *a, gpu_buf *y);
struct gpu_bank_bufs {
    gpu_buf *norm;
    gpu_buf *proj;
    gpu_buf *x;    // [.., dim]
    gpu_buf *bank; // [.., most, dim]
    gpu_buf *y;    // out, [.., dim], neither of them
};
void gpu_op_bank_mix(gpu *g, const struct args_bank_mix *a, const struct gpu_bank_bufs *b);
void gpu_op_copy(gpu *g, const struct args_copy *a, gpu_buf *src, gpu_buf *dst);

#endif
