// SPDX-License-Identifier: GPL-3.0-or-later
// The face of the engine: tokens in, logits and telemetry out. Knows no text, no terminal and no OpenCL type; prints
// nothing.
//
// A moe_model is a package opened on a device, with its expert store. A moe_session is one timeline of tokens over it.
// Several models and several sessions of each may be open in one process and closed in any order, but a session before
// its model. Threads: a model and all its sessions belong to the thread that opened the model, but for
// moe_session_cancel. Errors: every int is 0 or a moe_code, and *err then says what, where and what to do. After an
// error the session stands where it stood before the call (but of a prefill that was cancelled, the whole groups that
// were done stay).
#ifndef MOECHAT_MOE_H
#define MOECHAT_MOE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct moe_model moe_model;
typedef struct moe_session moe_session;

enum moe_code {
    MOE_OK = 0,
    MOE_NOT_FOUND,    // a file or folder is not there
    MOE_FORMAT,       // a file is damaged or not what it says
    MOE_UNSUPPORTED,  // a model we do not speak, e.g. one without MLA
    MOE_NO_TENSOR,    // a tensor is missing, by name
    MOE_BUDGET,       // the expert cache is smaller than one layer in flight needs
    MOE_NO_MEMORY,    // host or device
    MOE_DEVICE,       // no device, or it failed
    MOE_IO,           // a read or a write failed: file, offset and errno are set
    MOE_CONTEXT_FULL, // the session's rows are used up
    MOE_POSITION,     // tokens were fed at another position than the session's length
    MOE_NOT_READY,    // nothing was fed yet, so there are no logits
    MOE_BAD_TOKEN,    // an id outside the vocabulary
    MOE_BAD_ARGUMENT, // the caller's mistake
    MOE_BAD_NUMBERS,  // the model produced values that are not finite
    MOE_CANCELLED,    // moe_session_cancel was called
    // Why a record of cache rows is not used; the rows can always be computed again from the tokens.
    MOE_RECORD_WEIGHTS,   // of other weights
    MOE_RECORD_KV_TYPE,   // of f16 rows for a session of f32 rows, or the other way round
    MOE_RECORD_SHAPE,     // of another number of layers, other rows or states, or another vocabulary
    MOE_RECORD_OLDER,     // of a format that is no longer read
    MOE_RECORD_NEWER,     // of a format that this version does not know yet
    MOE_RECORD_TRUNCATED, // the file ends before the record does
    MOE_RECORD_DAMAGED,   // a checksum does not match, or there is no record: file and offset are set
    MOE_RECORD_OTHER,     // a sound record, but not the one that was asked for
};

// What a remedy is chosen by where the code says too little.
enum moe_cause {
    MOE_CAUSE_OTHER,
    MOE_CAUSE_POINTER,  // the file is a Git LFS pointer to what was not fetched
    MOE_CAUSE_CONSUMED, // moe_convert gives the weights up, or may have: all of them were here once
};

struct moe_err {
    enum moe_code code;
    enum moe_cause cause;
    int layer;       // -1: none
    int expert;      // -1: none
    int sys_errno;   // 0: none
    uint64_t offset; // in file, when code is MOE_IO or MOE_RECORD_DAMAGED
    char file[256];  // the file's path as opened, "" if none
    char text[512];  // one line for people: what, where, the remedy
};

// Called on the model's thread during anything that may last over a second. unit: "bytes", "steps", "tokens".
struct moe_progress {
    const char *what; // "reading weights", "building kernels", "reading prompt"; this and unit live as the program does
    const char *unit;
    uint64_t done;
    uint64_t total;
    uint64_t bytes_read; // from disk so far, where that is not what is counted: of a prompt's experts
    uint64_t bytes_left; // about so many are still to be read; 0: none, or not known
    double seconds_left; // where more is known than `done` says; 0: it is not
};
typedef void moe_progress_fn(void *context, const struct moe_progress *progress);

// Budgets of the expert caches, besides a number of bytes.
#define MOE_CACHE_AUTO 0                // what leaves the machine usable, see moechat(1)
#define MOE_CACHE_ALL  UINT64_MAX       // every expert gets a slot
#define MOE_CACHE_NONE (UINT64_MAX - 1) // of the host's: no more than experts pass through on their way
// A share of the memory that is free, in 1/1000, 1 to 1000.
#define MOE_CACHE_SHARE(permille) (UINT64_MAX - 2000 + (permille))

enum moe_kv_type { MOE_KV_F32 = 0, MOE_KV_F16 = 1 };

// How expert files are read.
enum moe_io { MOE_IO_AUTO, MOE_IO_DIRECT, MOE_IO_BUFFERED };

// Does an expert that the device gives up and the host hasn't go back to the host? AUTO: where reads go past the page
// cache, so that a disk would have to bring it again.
enum moe_write_back { MOE_WRITE_BACK_AUTO, MOE_WRITE_BACK_OFF, MOE_WRITE_BACK_ON };

#define MOE_MAX_READERS 64
#define MOE_READ_WHOLE  UINT64_MAX // an expert, or each part of it in a folder, is one read

// Reads `length` bytes at `offset` of fd, as pread does; tests put their own here. Called on reader threads.
typedef ptrdiff_t moe_read_fn(void *context, int fd, void *target, size_t length, uint64_t offset);
// Writes `length` bytes at `offset` of fd, as pwrite does; tests put those that fail here.
typedef ptrdiff_t moe_write_fn(void *context, int fd, const void *from, size_t length, uint64_t offset);

struct moe_model_options {
    const char *device;               // NULL: see gpu.h; "ref" runs plain C
    const char *kernel_cache_dir;     // NULL: none
    const char *const *kernel_helper; // as gpu.h's, for as long as the model; NULL: none
    uint64_t expert_cache_bytes;      // of the device: a budget, or one of MOE_CACHE_
    uint64_t host_cache_bytes;        // of host memory, where the device has its own; the same
    uint32_t context;                 // rows of a conversation to set memory aside for; 0: chosen, see moe_cache_plan
    enum moe_kv_type kv_type;         // of those
    enum moe_io io;
    uint32_t ring;    // the deepest that its sessions ask for, 1 or 2; 0: 2. The smallest cache follows from it
    unsigned readers; // threads that read experts, at most MOE_MAX_READERS; 0: chosen
    uint64_t read_piece_bytes; // that one of them reads at once, a multiple of 4096, or MOE_READ_WHOLE; 0: chosen
    enum moe_write_back write_back;
    bool force_two_tiers;      // tests: a host cache also where the device shares our memory
    bool force_mapping;        // tests: memory that the device shares is mapped to be filled, as on integrated GPUs
    const char *trace_file;    // where to write which experts are asked for (moechat-trace(5)); NULL: nowhere
    bool profile;              // for moe_model_profile; makes the device slower
    int nice_value;            // of the device's own threads
    moe_progress_fn *progress; // may be NULL
    void *progress_context;
    moe_read_fn *read; // NULL: pread
    void *read_context;
};

// What a model says of its tokens, where it carries them itself, as GGUF files do: their keys tokenizer.ggml.* and
// tokenizer.chat_template. Const, and of one piece: moe_vocabulary_close releases it. Lengths are checked, ids and
// texts are as the file has them.
struct moe_text {
    const char *bytes; // not terminated; may hold anything
    size_t length;     // 0: the file does not say
};
struct moe_vocabulary {
    char where[256]; // the file's path, for messages
    struct moe_text model, pre, chat_template;
    const struct moe_text *tokens, *merges; // NULL: none
    const int32_t *types;                   // NULL: none
    size_t n_tokens, n_merges, n_types;
    int32_t bos, eos, eot, eom; // -1: none
};
// MOE_NOT_FOUND: the model carries none, but has a tokenizer's file, or none of either.
int moe_vocabulary_open(const char *directory, struct moe_vocabulary **vocabulary, struct moe_err *err);
void moe_vocabulary_close(struct moe_vocabulary *vocabulary); // NULL is fine

// What the model's maker suggests for sampling.
enum moe_suggests {
    MOE_SUGGESTS_TEMPERATURE = 1,
    MOE_SUGGESTS_TOP_K = 2,
    MOE_SUGGESTS_TOP_P = 4,
    MOE_SUGGESTS_MIN_P = 8,
};
struct moe_suggestion {
    unsigned given; // enum moe_suggests, a bit for each that there is
    uint32_t top_k; // 0: no limit
    bool from_gguf; // its keys say so, general.sampling.*; else generation_config.json does
    double temperature, top_p, min_p;
};

// An expert's of an MLX folder: words, scales and biases of three matrices.
enum { MOE_FOLDER_READS = 9 };

// Tensors of one use, of GGUF files. weights 0: there are none.
enum { MOE_GROUPS = 9 };
struct moe_group {
    const char *name; // "attention"
    char types[160];  // of its matrices, with how many there are of each: "Q4_K 52, Q6_K 26"
    uint64_t weights, bytes;
};

// What a package, or a folder from the hub, says of itself. Strings belong to the description.
struct moe_description {
    char name[64];
    char model_type[32];
    char template_name[64];    // "" if none
    char tokenizer_type[32];   // "" if none
    char tokenizer_file[4096]; // full path, "" if none
    bool vocabulary;           // it carries one itself (moe_vocabulary_open), which goes before a file beside it
    char fingerprint[65];      // hex of the weights and of what is computed with them
    char fingerprint_once[65]; // what older programs had for it; "": the same
    uint32_t n_layers, n_moe_layers, n_routed_experts, n_shared_experts, top_k;
    uint32_t hidden_size, n_heads, q_lora_rank, kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim;
    uint32_t vocab_size, max_position_embeddings, original_max_position_embeddings; // the last 0 without YaRN
    int32_t bos_token_id;                                                           // -1 if none
    int32_t eos_token_ids[8];                                                       // n_eos of them
    uint32_t n_eos;
    uint64_t parameters;        // counted from the shapes
    uint64_t active_parameters; // of those, used for one token
    uint64_t active_bytes;      // packed weights that one token reads, its experts among them
    uint64_t resident_bytes;
    uint64_t expert_bytes; // one expert's blob
    uint32_t expert_reads; // that bring it in, MOE_FOLDER_READS of a folder's; 0: it does not run as it is
    uint64_t all_experts_bytes;
    char mixers[200];          // of layers that are not all MLA: how many of which kind, in words; "" otherwise
    uint64_t kv_row_bytes_f32; // one token, all layers
    uint64_t state_bytes;      // of layers that have states, for any number of tokens; 0: there are none
    bool package;              // else a folder or GGUF files
    bool runs;                 // as it is; else `moechat convert` makes a package of it
    char layout[40];           // "package", "MLX folder", "bf16 checkpoint" ...
    char left_out[256];        // of a folder: the tensors that are not used, in words; "" if none
    uint64_t package_bytes;    // of a package: all of its files; of a folder: those that convert would make of it
    uint64_t weights_bytes;    // of that the weights' files; a model that was opened has a folder's own
    struct moe_suggestion suggestion;
    struct moe_group groups[MOE_GROUPS]; // of GGUF files
    double foreseen_bits;    // of moe_foresee: sizes are what the experts' weights come to at so many bits each; else 0
    char foreseen_from[96];  // where those bits are known from, in words that go on from a size
    bool foreseen_guess;     // they are not declared
    uint64_t declared_bytes; // of moe_foresee: what the whole download says to take, 0: it does not say
    char missing[320];       // of moe_foresee: which files of weights are not here, or how much of them; "": not known
};

// Reads and checks the manifest and headers only: no device, no weights.
int moe_inspect(const char *directory, struct moe_description *description, struct moe_err *err);
// What can be told of a model before its weights are there: a config.json or a folder with one (and the index of its
// safetensors, if that is there), the first part of a split GGUF, or the beginning of a whole one. Sizes are about
// right.
int moe_foresee(const char *path, struct moe_description *description, struct moe_err *err);
// What a repository holds, by a list of its files (file_list.h says what such a list may be): before anything is here.
enum { MOE_LISTED_NAME = 256 };
// Of what shape a model is.
struct moe_listed_shape {
    char name[64]; // "": not known
    uint64_t parameters, expert_parameters;
    uint32_t n_moe_layers, n_routed_experts, top_k;
};
struct moe_listed {                    // a model, of one file or of parts
    char name[MOE_LISTED_NAME];        // the files' path, without what numbers them
    char pattern[3 * MOE_LISTED_NAME]; // that its files match and no other model's do, as shells and fnmatch have it
    char mix[16];                      // its quantisation by its name, "Q4_K_M", "4bit"; "": the name does not tell
    bool gguf;                         // else safetensors
    uint32_t parts, listed;            // of so many by their names; so many are in the list
    uint32_t missing;                  // the first that is not; 0: none
    uint64_t bytes;                    // of those that are listed
    bool sized;                        // the size of each of them is known; else `bytes` is 0
    double bits;                       // a weight, by `mix`; 0: not known
    struct moe_listed_shape shape;     // by its repository's name or its own, where that is widely known
};
struct moe_listing {
    char repository[160]; // "": the list does not say
    struct moe_listed *models;
    uint32_t n_models;
    uint64_t n_files, bytes;               // all of them; of those whose size is known
    uint64_t n_others;                     // files that are no model's weights
    char left_out[MOE_LISTED_NAME];        // a GGUF among them, such as mmproj (vision); "": none
    bool sized, has_config, has_tokenizer; // config.json; one of the files that a tokenizer is read from
    bool kib;                              // sizes are du's, taken for KiB
};
// `name` is for messages. MOE_FORMAT: it is no list. MOE_NOT_FOUND: no model is in it. On failure there is nothing to
// release.
int moe_listing_read(const char *text, size_t length, const char *name, struct moe_listing *listing,
                     struct moe_err *err);
void moe_listing_release(struct moe_listing *listing);
// What a model of it will read for a token when no expert is in memory, what stays in memory at most, and all its
// experts; about right. An 8-bit or wider folder counts as moechat convert makes it. False: not known.
struct moe_listed_needs {
    uint64_t bytes, cold_bytes, resident_bytes, experts_bytes;
    bool converted; // these are what convert makes of it
};
bool moe_listed_needs(const struct moe_listed *model, struct moe_listed_needs *needs);
// What the host has left for us now, by the system and by the limits on us.
uint64_t moe_memory_left(void);

// The clock of everything that is timed: nanoseconds that only go forward, and not while the process is suspended. Who
// suspends it says so: between the two calls the clock stands, in every thread. Any thread, signal handlers too; but
// one at a time stops the clock and has it go on.
uint64_t moe_clock_ns(void);
void moe_clock_stop(void);
void moe_clock_go_on(void);
// Looks at a few bytes of each layer's experts, of a model that runs as it is: MOE_FORMAT where they are holes, as
// convert --consume leaves them, or a download that has only its length.
int moe_check_holes(const char *directory, struct moe_err *err);
// Compares every file of a package with its checksum; of GGUF files and MLX folders, which have none, reads every
// tensor that is used: MOE_FORMAT names one that has scales or numbers that are not finite, or an expert that is all
// zero.
int moe_verify(const char *directory, moe_progress_fn *progress, void *context, struct moe_err *err);

// Makes a package of a folder from the hub. Writes into `target`.partial and renames that in the end; a run that was
// stopped goes on where it was when the same conversion is asked for again. Refuses a target that is there,
// unless only the journal of such a run is left to be removed from it.
//
// With `consume` the source is given up on the way: each layer's experts are removed from its files (the files keep
// their sizes, their disk blocks are freed) when the package's own are durable, were read back from disk and compared.
// Only what is copied bit for bit is consumed; consume.h says what is refused.
//
// It does not begin without so much disk space beyond what the package takes: for the manifest and what folders take.
#define MOE_CONVERT_SPARE (UINT64_C(64) << 20)
struct moe_consumption {
    const char *source, *target; // live as long as the question
    uint32_t n_files;
    uint64_t bytes; // of experts that will be removed
};
// As fallocate(fd, PUNCH_HOLE | KEEP_SIZE, ...): 0, or -1 with errno.
typedef int moe_punch_fn(void *context, int fd, uint64_t offset, uint64_t bytes);

struct moe_convert_options {
    uint32_t expert_bits;      // 4 or 8; 0: the source's own when it is quantised, else 4
    uint32_t resident_bits;    // of everything else but routers: 4 or 8; 0: the source's own, else 8 for embeddings and
                               // head, 4 for the rest
    uint32_t group_size;       // of what is quantised: 32, 64 or 128; 0: 64. A matrix that it does not divide gets less
    const char *template_name; // for the manifest; NULL or "": none
    bool verify;               // read what was written again and compare checksums
    bool consume;
    bool (*confirm)(void *context, const struct moe_consumption *what); // of consume: false: no, and nothing is done
    unsigned threads;                                                   // 0: one a core
    moe_progress_fn *progress;
    void (*notice)(void *context, const char *text); // one line about what is left out, copied, quantised; may be NULL
    bool (*cancelled)(void *context);                // may be NULL; then MOE_CANCELLED
    void *context;                                   // of these four
    moe_write_fn *write;                             // NULL: pwrite
    void *write_context;
    moe_punch_fn *punch; // NULL: fallocate
    void *punch_context;
    bool without_direct; // tests: what is read back passes the page cache, as where a file system has no direct I/O
};
int moe_convert(const char *source, const char *target, const struct moe_convert_options *options, struct moe_err *err);

int moe_model_open(const char *directory, const struct moe_model_options *options, moe_model **model,
                   struct moe_err *err);
void moe_model_close(moe_model *model); // NULL is fine
// Writes the end of the trace and closes it; nothing is recorded from then on. Without this call closing the model does
// the same, but nobody hears that the disk was full.
int moe_model_end_trace(moe_model *model, struct moe_err *err);
const struct moe_description *moe_model_describe(const moe_model *model);
const char *moe_model_device(const moe_model *model); // its name, for people
// What was wrong with the device's kernels as they were kept, and was mended; "": nothing.
const char *moe_model_notice(const moe_model *model);

// What each kernel took by the device's own clock, of the work that the host has waited for. Returns how many were
// used, at most max; 0 without options.profile, and where the device keeps no times.
struct moe_kernel_time {
    const char *name;
    uint64_t launches, ns;
};
unsigned moe_model_profile(const moe_model *model, struct moe_kernel_time *times, unsigned max);

// The expert caches as they were laid out.
struct moe_cache_plan {
    uint64_t slots;            // of the device's cache
    uint64_t slot_bytes;       // what an expert takes of the caches; where layers differ in size, on average
    uint64_t cache_bytes;      // of all slots of the device's cache
    uint64_t host_cache_bytes; // of the host's
    uint64_t smallest_bytes;   // the smallest budget that works
    bool all;                  // every expert has a slot
    uint64_t host_slots;       // of the host's; 0: the device's is in host memory already
    bool host_only_passes;     // the host's slots are those that experts pass through, no more
    uint64_t experts;          // of all layers
    uint64_t token_experts;    // that one token asks for
    bool per_layer;            // slots < token_experts: each layer keeps a share of its own
    uint64_t resident_bytes;   // of the weights that never leave the device
    unsigned readers;
    bool direct;                 // reads go past the page cache
    bool direct_refused;         // asked for, but some file's system does not take it
    uint64_t disk_bytes_per_s;   // measured when the model was opened, with these readers; 0: it could not be, as where
                                 // a small model's files come from some cache
    const char *disk_doubt;      // why it could not, in a few words; NULL: it could, or nobody tried
    uint64_t probed_bytes_per_s; // what the probe gave, wherever it came from: a first guess of what reads will take
    uint64_t cold_bytes;         // read for a token when no expert is in memory
    uint64_t state_bytes;        // of a session's states: it has them twice on the device
    uint64_t snapshot_bytes;     // of host memory, set aside for copies of them
    uint64_t free_bytes; // of the device's memory, beside the weights and what is set aside; the cache is of these
    uint64_t row_bytes;  // of a token's rows, all layers
    uint32_t context;    // tokens that there is room for: as asked, or what fits (moechat(1)); allocated in use
    bool context_chosen; // nobody asked
    bool foreseen;       // before the weights are there: about right, and nothing is known of their disk
};
struct moe_cache_plan moe_model_cache(const moe_model *model);
// Where an expert is; the better tier is the larger. A device that shares the host's memory has no MOE_TIER_HOST.
enum moe_tier { MOE_TIER_DISK, MOE_TIER_HOST, MOE_TIER_DEVICE, MOE_TIERS };
// Where each routed expert is now: [n_moe_layers * n_routed_experts] of enum moe_tier. What is on its way has not
// arrived yet. Takes time by the number of slots and experts, some microseconds; also within a call, from its progress
// function.
void moe_model_tiers(const moe_model *model, uint8_t *tiers);
// What they would be, were the model opened in host memory with these options: no weights are read and no device is
// needed, but the disk is measured. Of a folder that must be converted: of the package that convert would make,
// foreseen.
int moe_plan(const char *directory, const struct moe_model_options *options, struct moe_cache_plan *plan,
             struct moe_err *err);
// The same of what moe_foresee tells of: foreseen. Refuses what moe_plan would, as far as sizes that are about right
// say.
int moe_plan_foreseen(const char *path, const struct moe_model_options *options, struct moe_cache_plan *plan,
                      struct moe_err *err);
// MOE_BAD_ARGUMENT: a context of so many tokens is over the model's limit.
int moe_check_context(const struct moe_description *about, uint32_t context, struct moe_err *err);

// A routing trace (moechat-trace(5)) replayed against caches of several sizes.
enum { MOE_TRACE_LRU, MOE_TRACE_LFU, MOE_TRACE_OURS, MOE_TRACE_BELADY, MOE_TRACE_POLICIES, MOE_TRACE_ROWS = 12 };
struct moe_trace_row {
    uint64_t slots;
    uint64_t decode_hits[MOE_TRACE_POLICIES], prefill_hits[MOE_TRACE_POLICIES];
};
struct moe_trace_replayed {
    char model[25]; // as the trace says
    uint32_t n_moe_layers, n_routed_experts, top_k;
    uint64_t slot_bytes;
    uint64_t tokens;                    // decoded
    uint64_t decode_uses, prefill_uses; // experts asked for
    bool cut;                           // the file ends inside a request
    struct moe_trace_row rows[MOE_TRACE_ROWS];
    uint32_t n_rows;
};
int moe_trace_replay(const char *path, struct moe_trace_replayed *replayed, struct moe_err *err);

// The disk's ceiling, to compare with: whole experts read from random places by plain threads, for so long.
struct moe_raw_reads {
    unsigned threads; // at most MOE_MAX_READERS
    bool direct;      // past the page cache
    double seconds;
    uint64_t seed;
};
int moe_model_measure_reads(const moe_model *model, const struct moe_raw_reads *how, double *bytes_per_s,
                            struct moe_err *err);
// The copy's ceiling: pieces of an expert's size from page-locked memory, several on their way. 0: none is needed, the
// device shares our memory.
int moe_model_measure_copies(moe_model *model, double seconds, double *bytes_per_s, struct moe_err *err);
// The device's own copy, the best of a few rounds, in bytes read and written a second: what its memory allows kernels.
// It takes half a gigabyte beside the model, on a GPU two. 0: it could not be measured, for there was no room.
double moe_model_measure_device(moe_model *model);
// What the expert caches reach by themselves: random experts fetched as tokens fetch them, a layer's at a time and the
// next layer's before those are waited for where there is room, and nothing computed with them. Changes what the caches
// hold. Ends early when no expert is left to fetch.
struct moe_fetches {
    bool from_host; // those that the host's cache has and the device's has not, after filling it; else those that must
                    // be read
    double seconds;
    uint64_t seed;
};
int moe_model_measure_fetches(moe_model *model, const struct moe_fetches *how, double *bytes_per_s,
                              struct moe_err *err);

// Which experts are read before they are asked for. Those that predict, from MOE_PREFETCH_PREVIOUS on, are predictors.
enum moe_prefetch {
    MOE_PREFETCH_AUTO,          // whichever was faster lately
    MOE_PREFETCH_OFF,           // none
    MOE_PREFETCH_PREVIOUS,      // those of the token before
    MOE_PREFETCH_ROUTER,        // what the next layer's router says of the state before this layer's experts
    MOE_PREFETCH_ROUTER_SHARED, // the same, of the state with the shared expert added
};
enum { MOE_PREDICTORS = 3 };
// How a predictor did in a token's layers, acting or not.
struct moe_prediction {
    uint32_t predicted, right; // experts
    uint32_t useful, late; // right and not in memory, so that a read saves a wait; of those, too late to save all of it
    uint64_t wasted_bytes; // that wrong predictions had read
};
// After each decoded token: [MOE_PREDICTORS] in the order of enum moe_prefetch.
typedef void moe_predictions_fn(void *context, uint32_t position, const struct moe_prediction *predictions);

// What measurements switch off.
enum {
    MOE_WITHOUT_HITS_FIRST = 1,   // experts compute in rank order once all are there
    MOE_WITHOUT_SHARED_FIRST = 2, // the shared expert computes after them
    MOE_WITHOUT_READ_AHEAD = 4,   // a prefill reads no expert of a layer before it begins
    MOE_WITHOUT_MARKS = 8,        // waits for the device are not told apart, all count for what they end with
    MOE_WITHOUT_BATCHES = 16,     // each expert of a decoded token is launched by itself (and each layer is streamed)
    MOE_WITHOUT_FUSED = 32,       // a decoded token's norms, shared experts and sums are launches of their own
    MOE_WITHOUT_RESIDENT = 64,    // layers whose experts all have slots are streamed too, with a wait each
};

struct moe_session_options {
    uint32_t max_context; // rows; 0: as the model's plan has it for this kv_type
    enum moe_kv_type kv_type;
    uint32_t prefill_chunk; // tokens a chunk; 0: the default; 1: every token through the decode kernels
    uint32_t prefill_group; // tokens that each expert is read for once; at least a chunk. 0: as memory allows
    uint32_t ring;          // layers' experts in flight: 1 waits for them before the next layer, 2 (and 0) does not
    enum moe_prefetch prefetch;
    moe_predictions_fn *on_predictions; // all predictors are asked, for the record; NULL: only the one that acts
    void *predictions_context;
    unsigned without; // 0, but for measurements
    // Of models whose layers have states:
    uint32_t snapshots;      // kept at most, 2 or more; 0: as the plan has it
    uint32_t snapshot_every; // tokens of a prompt, at the next group's end; 0: 4096
};

int moe_session_open(moe_model *model, const struct moe_session_options *options, moe_session **session,
                     struct moe_err *err);
void moe_session_close(moe_session *session); // NULL is fine

// Logits of one position, vocab_size floats, valid during the call. Non-zero stops the feed with that code.
typedef int moe_row_fn(void *context, uint32_t position, const float *logits);
// Hidden states of `rows` tokens from `position` on, [rows, hidden_size]: stage 0 after the embedding, n after layer n
// - 1.
typedef void moe_hidden_fn(void *context, uint32_t stage, uint32_t position, uint32_t rows, const float *hidden);

enum { MOE_BORDERS = 2 };
struct moe_feed {
    const int32_t *ids;
    size_t count;
    uint32_t position;             // of ids[0]; must be the session's length
    uint32_t borders[MOE_BORDERS]; // positions within them at which states are kept, too; 0: none
    moe_row_fn *on_row;            // NULL: the head runs at the last position only
    moe_hidden_fn *on_hidden;      // NULL: states stay on the device
    moe_progress_fn *progress; // often; `done`: finished groups, and of this one moe_session_held_tokens. May be NULL
    void *context;
};

// Feeds tokens in groups of chunks (prefill kernels; decode kernels when prefill_chunk is 1).
int moe_session_prefill(moe_session *session, const struct moe_feed *feed, struct moe_err *err);
// Feeds one token at the session's end through the decode kernels.
int moe_session_decode(moe_session *session, int32_t id, struct moe_err *err);
// The logits after the last token, vocab_size floats, valid until the next call with this session. NULL with
// MOE_NOT_READY.
const float *moe_session_logits(const moe_session *session, struct moe_err *err);
uint32_t moe_session_length(const moe_session *session);
uint32_t moe_session_max_context(const moe_session *session);
// A conversation of so many tokens is to go on: where nobody asked for a context, it becomes large enough, up to the
// model's limit.
void moe_session_make_room(moe_session *session, uint32_t tokens);
// The largest position, at most `length` and the session's own, that it can be cut back to. Rows can be cut anywhere,
// states only where they were kept: at 0, before and after each prefill, now and then within a long one, as far as
// there is room (see snapshot_bytes of the plan).
uint32_t moe_session_floor(const moe_session *session, uint32_t length);
// Forgets all tokens from `length` on; logits are gone unless length is unchanged. MOE_POSITION when length is beyond
// the end, or no floor. States are those of a session that was never longer, bit for bit.
int moe_session_truncate(moe_session *session, uint32_t length, struct moe_err *err);
// Any thread, at any time: the feed under way stops within one expert read with MOE_CANCELLED. Groups of a prompt that
// are finished stay. The flag stays set until moe_session_resume.
void moe_session_cancel(moe_session *session);
bool moe_session_is_cancelled(const moe_session *session); // any thread
// The group in which a prefill was cancelled is held where it is: the next prefill, if it begins with the same tokens
// at the same place, goes on there, to the same bits; where no layer has states, the tokens that are the same do, if
// they are half of it. Anything else that is fed, restored or cut before it lets go of it. Its tokens times the share
// of their way that is done; 0: nothing is held. While a prompt is read, of the group under way.
double moe_session_held(const moe_session *session);
uint32_t moe_session_held_tokens(const moe_session *session); // rounded down: progress, counts and records have these
void moe_session_resume(moe_session *session);

// Puts back logits, vocab_size floats, that moe_session_logits once gave after the same tokens: kept from before the
// session was cut to this length.
void moe_session_set_logits(moe_session *session, const float *logits);

// Records: the cache rows of tokens [first, first + count) of all layers in a range of a file, and if wanted the logits
// after the last of them and the states that are then (moechat-session(5)). A record checks itself block by block and
// is bound to its weights, KV type and shape; it knows neither its tokens nor its place, so it may be copied elsewhere
// byte for byte. Restored rows, states and logits are the saved ones bit for bit.
// How a record's file is reached. Short reads and writes and EINTR are resumed. Nothing is synced: that is for whoever
// then names the record.
struct moe_record_io {
    int fd;
    const char *path;          // for messages
    moe_read_fn *read;         // NULL: pread. Called on reader threads, several at once
    moe_write_fn *write;       // NULL: pwrite. Called on the caller's thread
    void *context;             // of both
    moe_progress_fn *progress; // after each block, in bytes of this record; may be NULL
    void *progress_context;
};

// Where a record is and what it must be: what a manifest keeps.
struct moe_record {
    uint64_t offset, bytes; // in the file
    uint64_t checksum;      // of the header, which holds those of the blocks
    uint32_t first, count;  // tokens
    bool has_logits;
    bool has_states; // those after first + count tokens
};

struct moe_record_part {
    uint64_t offset;       // where in the file it goes; existing bytes are overwritten
    uint32_t first, count; // rows within the session's length, at least one; or none, with states
    const float *logits;   // after row first + count - 1: moe_session_logits, or a copy made then. NULL: none
    bool states;           // the states after first + count tokens, where the session could stand (moe_session_floor)
    uint32_t block_bytes;  // of a checksum, a power of two from 4 KiB to 4 MiB; 0: 2 MiB
};

// Writes the header last, so a record that was cut off is never taken for one. After a failure the file's bytes from
// part->offset on are anything; the session is as before, always. Not stopped by moe_session_cancel.
int moe_session_write_record(moe_session *session, const struct moe_record_io *io, const struct moe_record_part *part,
                             struct moe_record *record, struct moe_err *err);
// Appends a record's rows to a session whose length is record->first (else MOE_POSITION; MOE_CONTEXT_FULL when they do
// not fit), and takes its logits if it has any. Its states are kept, as a border that one can stand at; they may come
// after the rows, by a record without any. Of a model whose layers have states, rows alone are not enough to go on
// from: once all records are read, cut the session to its floor, which brings the states back. Nothing of the session
// changes on failure, but that a kept state may have gone to make room for the record's. Stops at moe_session_cancel.
int moe_session_read_record(moe_session *session, const struct moe_record_io *io, const struct moe_record *record,
                            struct moe_err *err);
// Only the logits of a record, for a session that was cut to its end: the length must be first + count.
int moe_session_read_logits(moe_session *session, const struct moe_record_io *io, const struct moe_record *record,
                            struct moe_err *err);

// What the header of a record says, for lists and for messages. Any file may be given; only the header is read, and
// checked against its own checksum.
struct moe_record_info {
    struct moe_record record;
    enum moe_kv_type kv_type;
    uint32_t n_layers, row_width, vocab_size; // row_width 0: not the same in all layers
    uint64_t rows_bytes, states_bytes;
    char fingerprint[65];
};
int moe_record_inspect(const struct moe_record_io *io, uint64_t offset, struct moe_record_info *info,
                       struct moe_err *err);
// Reads a whole record and compares every checksum; no model is needed.
int moe_record_verify(const struct moe_record_io *io, const struct moe_record *record, struct moe_err *err);

// Counters since the session was opened, those of a call under way included; subtract two to get a turn's. Expert
// counters are the model's store's, counted for this session's own requests.
struct moe_stats {
    uint64_t prefilled_tokens, decoded_tokens; // the former as steps' rows, see moe_telemetry
    uint64_t prefill_ns, decode_ns;
    uint64_t hits, misses; // expert requests answered from a slot, or by a read
    uint64_t late;         // of the hits, those whose slot was still being read into
    uint64_t bytes_read;   // from expert files
    uint64_t bytes_cached; // of those, at least so many were in the system's page cache
    // Experts read ahead; of those, later asked for; evicted unasked, or let go of unused by what was stopped.
    uint64_t prefetched, used, wasted;
    uint64_t wait_ns;                    // the engine thread waiting for expert bytes
    uint64_t evictions, launches, waits; // slots reused; commands and host waits on the device
    const char *prefetch_policy;         // that acts: "off", "previous", "router", "router-shared"
    char prefetch_reason[96];            // why that one
};
struct moe_stats moe_session_stats(const moe_session *session);

// Where a step's time went, and its experts came from. The intervals are exclusive and by the host's clock: while it
// waits for the device, for what the device was given to do. Where it hardly waits, since experts keep their slots, a
// token in 64 is waited for part by part, and what the others took on the device is shared out as in that one. They add
// up to total_ns.
enum moe_interval {
    MOE_ON_DISK,      // waiting for experts' bytes from disk
    MOE_ON_COPY,      // waiting for them on their way to the device
    MOE_ON_ATTENTION, // with the embedding before and the norms of it
    MOE_ON_ROUTER,
    MOE_ON_EXPERTS, // routed, shared and dense
    MOE_ON_HEAD,
    MOE_ON_SAMPLING, // the worker's, as
    MOE_ON_SAVING,   // of the conversation, to disk
    MOE_ON_HOST,     // all else
    MOE_INTERVALS
};
// Where a chosen expert was when it was asked for.
enum moe_origin {
    MOE_FROM_DEVICE,   // in a slot
    MOE_FROM_HOST,     // in host memory
    MOE_FROM_PREFETCH, // in a slot, thanks to a prefetch that nobody had asked for before
    MOE_FROM_LATE,     // on its way for such a prefetch
    MOE_FROM_DISK,
    MOE_ORIGINS
};
struct moe_layer_record {
    uint32_t layer;               // its number in the model
    uint32_t n_from[MOE_ORIGINS]; // experts
    // Since the layer's last record, prefetches included; wasted: experts read ahead that were dropped
    // unasked, or unused by what was stopped.
    uint32_t wasted;
    uint64_t bytes_disk, bytes_device, wait_ns;
    uint64_t bytes_cached; // of bytes_disk, at least so many were in the system's page cache
};
struct moe_choice {
    uint16_t expert;
    uint8_t origin; // enum moe_origin
    float weight;
    uint32_t wait_us; // that the step stood still for it
};
// Of one step: a decoded token, or the tokens of a prefill that went through the layers together.
struct moe_telemetry {
    uint64_t step; // counts the session's from 1
    uint32_t position;
    uint32_t rows; // tokens whose work was done in it: of a group that was stopped as many as
                   // moe_session_held_tokens has; those that are left are of the step that goes on there
    bool decode;
    bool shared_out; // ns of attention, router, experts, copies and head are estimates: one time was measured for all,
                     // and parted as an earlier token's was
    bool stopped;    // it failed or was cancelled on the way: choices NULL, the rest what it did until then
    uint64_t total_ns, ns[MOE_INTERVALS];
    uint64_t ended_ns;        // by moe_clock_ns
    uint64_t launches, waits; // commands and host waits on the device
    uint32_t n_moe_layers, first_moe_layer, top_k, n_routed_experts;
    const struct moe_layer_record *layers; // [n_moe_layers]
    const struct moe_choice *choices;      // [n_moe_layers * top_k], in rank order; NULL unless decode
};
// Of the last step; NULL before the first. Valid until the next call that feeds this session.
const struct moe_telemetry *moe_session_telemetry(const moe_session *session);
// Of the step under way of a prompt, as it is now: what its record would be if it was stopped here. For the progress of
// a feed; NULL: no such step is under way. Valid until it is asked for again, or the step ends.
const struct moe_telemetry *moe_session_so_far(moe_session *session);
// What was read for this session's experts and is in no step's record yet, as a record of no step, tokens or time; what
// is still on its way counts when it has arrived. From then on the records add up to moe_session_stats. NULL: no step
// was yet, or another one came between. Valid until the next call that feeds this session.
const struct moe_telemetry *moe_session_settle(moe_session *session);
// How often each expert was chosen since the session was opened or this was cleared: [n_moe_layers * n_routed_experts].
const uint32_t *moe_session_heat(const moe_session *session);
void moe_session_clear_heat(moe_session *session);

// Sampling, on the host. Zero temperature is greedy: the largest logit, the lowest id of equals.
//
// DRY ("don't repeat yourself", p-e-w, text-generation-webui pull 5677): where the last n tokens were there before, the
// token that followed them then loses multiplier * base^(n - allowed_length), for the longest such n >= allowed_length.
struct moe_dry {
    float multiplier; // 0: off
    float base;
    uint32_t allowed_length;
    uint32_t last_n;         // of the recent ids, those that are looked at; 0: all
    const uint8_t *breakers; // [vocab_size], 1: no repetition reaches beyond this id, nor is it penalised; NULL: none
};
struct moe_logit_bias {
    int32_t id;
    float bias; // added to its logit; -INFINITY: never
};
struct moe_sampling {
    float temperature;
    uint32_t top_k;             // 0: off
    float top_p;                // 1: off
    float min_p;                // 0: off
    float repetition_penalty;   // 1: off
    uint32_t repetition_last_n; // of the recent ids, those that it is about; 0: all
    struct moe_dry dry;
    const struct moe_logit_bias *biases; // [n_biases]; of one id the last counts
    size_t n_biases;
    uint64_t seed;
};
typedef struct moe_sampler moe_sampler;
// Copies all that the settings point to. NULL: no memory or bad settings, such as a bias of an id that there is not.
moe_sampler *moe_sampler_new(const struct moe_sampling *sampling, uint32_t vocab_size);
void moe_sampler_free(moe_sampler *sampler);
// NULL when the settings are fine, else what is wrong with them.
const char *moe_sampling_check(const struct moe_sampling *sampling);
// Returns an id, or -1 when no logit is finite, or there is no memory to look for repetitions. recent: the ids before
// it, the last one last.
int32_t moe_sample(moe_sampler *sampler, const float *logits, const int32_t *recent, size_t n_recent);

// The likeliest tokens by their logits, before any setting is applied: at most n, in descending order; returns how
// many. Probabilities are of the softmax over all, good to a percent of themselves: for people to look at.
struct moe_candidate {
    int32_t id;
    float probability;
};
size_t moe_candidates(const float *logits, uint32_t vocab_size, struct moe_candidate *candidates, size_t n);
// The probability of any other token beside one of those, by the same logits.
float moe_probability(const float *logits, const struct moe_candidate *likeliest, int32_t id);

#endif
