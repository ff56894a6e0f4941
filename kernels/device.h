// SPDX-License-Identifier: GPL-3.0-or-later
// The kernels room's inside: what its .c files share. Nothing outside the room includes it but the tests of the ops,
// which force a shape of kernels with gpu_open_shape.
#ifndef MOECHAT_DEVICE_H
#define MOECHAT_DEVICE_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <limits.h>
#include <sys/stat.h>

#include "kernels/driver_seal.h"
#include "kernels/gpu.h"
#include "kernels/launch.h"
#include "kernels/profile.h"

struct program {
    cl_program binary;
    uint32_t uses;                   // of a single kind's
    bool by_address;                 // its kernels take addresses, not buffers
    char seal[SEAL_KEY];             // of what the driver keeps of it; "": none
    cl_kernel kernels[KERNEL_COUNT]; // NULL: it has no such kernel
    cl_kernel calls[KERNEL_COUNT];   // those that take all in one struct; NULL: it doesn't
};

// What attention_plain makes: numbers of rows, kv_b or its halves in float32 and as tensor cores want them, tiles of
// keys and values.
enum { PLAIN_NUMBERS, PLAIN_KEYS_OF, PLAIN_VALUES_OF, PLAIN_MAKERS_OF, PLAIN_TILES, PLAIN_BUFFERS };

// A growing queue of fences that have not been seen to pass, oldest first.
struct fence {
    uint64_t number;
    cl_event event;
};
struct fences {
    struct fence *items;
    size_t n, capacity;
    uint64_t last;     // handed out
    uint64_t passed;   // all up to it have passed
    uint64_t promised; // handed out before there was one: nothing, or last + 1, or what has come
};

// Host memory that the driver has page-locked: a gpu_host_alloc.
struct host_block {
    struct host_block *next;
    void *memory; // aligned
    uint64_t bytes;
    cl_mem pinned; // NULL where memory is shared: then `memory` came from gpu_pages
    void *mapped;
};

// What tells where a buffer lies, if kernels can take addresses (addresses.c).
struct addresses {
    cl_kernel of; // NULL: they can't
    cl_mem to;
};

// Groups that have been seen to run all at once, and so may wait for each other inside a kernel.
struct meeting {
    gpu_buf *count;    // two uint32: how many have come, and whether anybody gave up
    bool has_states;   // in delta_layer, too
    uint32_t groups;   // 0: none may
    uint32_t met;      // have come so far, in all launches; wraps
    uint32_t asked;    // of these, when the host last saw that nobody had given up
    uint32_t state[2]; // `count` as it was then
};

// Forced, a shape brings its memory too: the CPU's shared with the host, the GPU's reached by copies only.
enum gpu_shape { GPU_SHAPE_OF_DEVICE, GPU_SHAPE_CPU, GPU_SHAPE_GPU };

struct gpu {
    struct gpu_info info;
    enum gpu_shape shape; // as it was opened, and with which of the tests' options:
    bool always_cache, opened_mapping, opened_apart;
    bool cpu_shape;  // the kernels that were built
    bool has_mma;    // and those for NVIDIA's tensor cores
    bool divided;    // programs are built in parts (source.c),
    uint32_t parts;  // of which that of all ops has these
    bool calls;      // kernels reach the host's memory by its addresses (launch.c)
    bool warm_late;  // none is launched before it is needed
    unsigned mixers; // kernels of others neither; 0: there are none
    bool dirty;      // commands were enqueued since the host last waited for all
    bool fenced;     // no command was enqueued since the last fence
    struct gpu_error error;
    struct gpu_counts counts;
    struct profile *profile; // NULL: not asked for
    cl_platform_id platform;
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
    struct program program;                             // of all ops
    struct program *formats[KIND_COUNT][SCALE_F32 + 1]; // of the kinds that it doesn't know, those that were opened
    struct program *token;                              // of a token's launches of several kinds; NULL: there is none
    uint64_t token_kinds;                               // those kinds: bit KIND_X of each
    char *cache_folder;                                 // for binaries; NULL: none
    const char *const *helper;                          // as in the options
    struct helpers *helpers;                            // at work for the program of all ops; NULL: none
    unsigned n_helped;                                  // their jobs
    char notice[SEAL_NOTICE];                           // gpu_notice's
    struct fences fences;
    cl_command_queue copy_queue; // NULL until the first copy
    struct fences copies;        // one for each copy
    struct host_block *blocks;
    void *staging; // a gpu_host_alloc of two halves that writes pass through in turn
    uint64_t staging_used;
    uint64_t staging_fence; // of the half that is not in use
    gpu_buf *scratch;       // of the op under way
    gpu_buf *gates;         // of a swiglu of two kinds: gate's product
    gpu_buf *plain[PLAIN_BUFFERS];
    struct meeting meeting;
    struct addresses addresses;
};

struct gpu_buf {
    gpu *owner;
    cl_mem memory;    // NULL on the ref device
    uint64_t address; // 0: nobody has asked yet
    void *host;       // NULL unless memory is shared
    void *pages;      // our memory under it; NULL: the driver's
    void *mapped;     // NULL: not mapped
    uint64_t bytes;
};

gpu *gpu_open_shape(const struct gpu_options *options, enum gpu_shape shape, struct gpu_error *err);
// Without any kernels.
gpu *gpu_open_bare(const struct gpu_options *options, enum gpu_shape shape, struct gpu_error *err);

// device.c
void gpu_error_set(struct gpu_error *err, enum gpu_code code, int native, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// Keeps the first failure.
void gpu_fail(gpu *g, enum gpu_code code, int native, const char *format, ...) __attribute__((format(printf, 4, 5)));

// memory.c: as gpu_host_memory_left, of the machine whose files are under `root` ("" for this one).
uint64_t memory_left(const char *root);

bool device_is_pocls(const struct gpu_info *info); // device.c

// driver_cache.c: ours or the administrator's, and for nobody else to write to?
bool cache_is_private(const struct stat *about);
// Is what PoCL has kept of compiled kernels? False with *err filled.
bool driver_cache_is_ours(struct gpu_error *err);
bool driver_cache_folder(char folder[PATH_MAX]); // where PoCL keeps it; false: nowhere

// addresses.c: tries whether kernels can take addresses, before any are built; and where a buffer lies.
void gpu_open_addresses(gpu *g);
void gpu_release_addresses(gpu *g);
bool gpu_address(gpu *g, cl_mem memory, uint64_t *address);
// A program's PTX, to be freed (NULL: its binary is something else), and a program of one (NULL: it does not build).
char *program_ptx(cl_program program);
cl_program program_of_ptx(const gpu *g, const char *ptx);
// The same kernels with addresses for buffers, as PTX (NULL: no memory) or built (NULL: they can't), those whose groups
// meet with registers for two groups of each unit.
char *ptx_with_addresses(const char *ptx);
cl_program program_with_addresses(const gpu *g, cl_program program);

// program.c: builds and warms up kernels and proves their arguments; false with *err filled.
bool program_open(gpu *g, const struct gpu_options *options, struct gpu_error *err);
// A kernel that the device's model was not thought to need: the part that has it is built now. NULL: it could not be.
cl_kernel program_open_late(gpu *g, enum kernel_id id);
// The program of one kind's matrices.
struct program *program_open_kind(gpu *g, const struct gpu_format *format, struct gpu_error *err);
// The program of a token's launches for these kinds, bit KIND_X of each.
struct program *program_open_token(gpu *g, uint64_t kinds, struct gpu_error *err);
// Builds one as a helper does: it is left in the cache, and where the driver keeps what it has compiled. Loads it where
// it is there already. False with *err filled.
struct wish;
bool program_build(gpu *g, const struct wish *wish, struct gpu_error *err);
// Does the driver keep what it has compiled by itself? PoCL does, unless told not to; asked for binaries it compiles
// all once more, as another variant than what it launches, for about as long as the first time.
bool driver_keeps(const gpu *g);
// Has the driver compile it anew with registers for two groups of each unit (a text of its own: PTX). False: it can't,
// and the program is as it was.
bool program_for_two_groups(gpu *g, struct program *p);
// PTX whose kernels that meet are to be compiled so, to be freed; NULL: no memory.
char *ptx_of_two_groups(const char *ptx);
void program_close(struct program *p);
void programs_close(gpu *g);

// jobs.c: starts helpers for what the program of all ops, and those of the options' formats, lack in the cache, where
// that is worth it; and waits for them, with progress. Returns how many there were.
void jobs_begin(gpu *g, const struct gpu_options *options);
unsigned jobs_wait(gpu *g, const struct gpu_options *options);
// The same, both, for formats alone.
void jobs_do_formats(gpu *g, const struct gpu_format *formats, unsigned n, const struct gpu_options *options);

// formats.c: the program for a matrix: NULL, that of all ops. False: it was not opened.
bool format_program(const gpu *g, const struct args_matrix *m, const struct program **program);
// Of n formats those whose programs are still to be built, which may be fewer. Returns how many.
unsigned formats_lacking(const gpu *g, const struct gpu_format *formats, unsigned n, struct gpu_format *lacking);
// The kinds of a token's launches that these formats ask for, of which there is no program yet; 0: none go together.
uint64_t formats_token_kinds(const gpu *g, const struct gpu_format *formats, unsigned n);

// buffer.c
// Sticky error when not.
bool gpu_in_range(gpu *g, const gpu_buf *buf, uint64_t offset, uint64_t bytes);
bool gpu_fences_passed(gpu *g, struct fences *f, uint64_t fence);
bool gpu_fences_wait(gpu *g, struct fences *f, uint64_t fence); // false: no event to wait for

// copy.c
void gpu_copies_finish(gpu *g);
void gpu_copies_release(gpu *g);

// buffer.c
// Memory for one op's intermediate values, at least `bytes`; its content is lost at the next op. NULL: sticky error.
gpu_buf *gpu_scratch(gpu *g, uint64_t bytes);
gpu_buf *gpu_gates(gpu *g, uint64_t bytes);                 // the same beside it
gpu_buf *gpu_plain(gpu *g, unsigned which, uint64_t bytes); // one of attention_plain's, of so many bytes at least
// Tries whether buffers made of host memory are really used in place; if not, the device is treated as a GPU's memory
// is.
void gpu_prove_sharing(gpu *g);
// ops_token.c: tries whether so many groups for each unit of the device can meet.
void gpu_prove_meeting(gpu *g, uint32_t per_unit);
// Whether the groups that meet can in a program of several kinds, too.
bool gpu_prove_token(gpu *g, const struct program *program);

void gpu_wait_for_all(gpu *g);
void gpu_release_all(gpu *g); // fences, staging, scratch

#endif
