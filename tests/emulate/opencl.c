// SPDX-License-Identifier: GPL-3.0-or-later
// OpenCL as far as moechat calls it, with one device: a GPU of NVIDIA's with tensor cores, of 32 lanes a warp, which is
// this machine's processor. Built as libOpenCL.so.1, it is loaded where LD_LIBRARY_PATH leads to it. Kernels are
// compiled by clang, groups run one after the other, and each command is done when its call returns.
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/emulate/program.h"

enum { MOST_ARGUMENTS = 24, MOST_BYTES = 1920, LOCAL_BYTES = 48 << 10, ALIGNMENT = 256 };

struct _cl_platform_id {
    int unused;
};
struct _cl_device_id {
    int unused;
};
struct _cl_context {
    int unused;
};
struct _cl_command_queue {
    int unused;
};
struct _cl_event {
    cl_ulong start, end;
};
struct _cl_mem {
    struct _cl_mem *next; // of all that there are
    unsigned char *data;
    size_t bytes;
    bool is_ours;
};
struct _cl_program {
    char *text, *log;
    size_t text_bytes;
    struct bytes library;
    void *loaded;
    bool by_address; // kernels take numbers, not buffers
    unsigned users;  // its kernels and its maker
};
struct argument {
    unsigned char bytes[MOST_BYTES];
    size_t n; // 0: not set
};
struct _cl_kernel {
    struct _cl_program *program;
    char name[64];
    struct loaded_kernel loaded;
    struct argument arguments[MOST_ARGUMENTS];
};

static struct _cl_platform_id platform;
static struct _cl_device_id device;
static struct _cl_context context;
static struct _cl_command_queue queue;
static struct _cl_mem *memories;

static cl_int give(const void *value, size_t bytes, size_t room, void *to, size_t *n)
{
    if (n)
        *n = bytes;
    if (to && room < bytes)
        return CL_INVALID_VALUE;
    if (to)
        memcpy(to, value, bytes);
    return CL_SUCCESS;
}

static cl_int give_text(const char *text, size_t room, void *to, size_t *n)
{
    return give(text, strlen(text) + 1, room, to, n);
}

static cl_ulong now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (cl_ulong)t.tv_sec * 1000000000u + (cl_ulong)t.tv_nsec;
}

static void *made(void *object, cl_int failure, cl_int *rc)
{
    if (rc)
        *rc = object ? CL_SUCCESS : failure;
    return object;
}

// ---- the device

cl_int clGetPlatformIDs(cl_uint room, cl_platform_id *to, cl_uint *n)
{
    if (n)
        *n = 1;
    if (to && room)
        *to = &platform;
    return CL_SUCCESS;
}

cl_int clGetPlatformInfo(cl_platform_id p, cl_platform_info what, size_t room, void *to, size_t *n)
{
    (void)p;
    return give_text(what == CL_PLATFORM_VERSION ? "OpenCL 1.2 emulated" : "NVIDIA CUDA (emulated)", room, to, n);
}

cl_int clGetDeviceIDs(cl_platform_id p, cl_device_type type, cl_uint room, cl_device_id *to, cl_uint *n)
{
    (void)p;
    (void)type;
    if (n)
        *n = 1;
    if (to && room)
        *to = &device;
    return CL_SUCCESS;
}

cl_int clGetDeviceInfo(cl_device_id d, cl_device_info what, size_t room, void *to, size_t *n)
{
    (void)d;
    const cl_device_type type = CL_DEVICE_TYPE_GPU;
    const cl_ulong global = (cl_ulong)4 << 30, local = LOCAL_BYTES;
    const cl_uint major = 8, units = 4;
    const cl_bool no = CL_FALSE;
    switch (what) {
    case CL_DEVICE_NAME:
        return give_text("warps on the processor", room, to, n);
    case CL_DRIVER_VERSION:
    case CL_DEVICE_VERSION:
        return give_text("OpenCL 1.2 emulated", room, to, n);
    case CL_DEVICE_TYPE:
        return give(&type, sizeof type, room, to, n);
    case CL_DEVICE_GLOBAL_MEM_SIZE:
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
        return give(&global, sizeof global, room, to, n);
    case CL_DEVICE_LOCAL_MEM_SIZE:
        return give(&local, sizeof local, room, to, n);
    case CL_DEVICE_MAX_COMPUTE_UNITS:
        return give(&units, sizeof units, room, to, n);
    case CL_DEVICE_HOST_UNIFIED_MEMORY:
        return give(&no, sizeof no, room, to, n);
    case CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV:
        return give(&major, sizeof major, room, to, n);
    default:
        return CL_INVALID_VALUE;
    }
}

cl_context clCreateContext(const cl_context_properties *properties, cl_uint n, const cl_device_id *devices,
                           void (*notify)(const char *, const void *, size_t, void *), void *user, cl_int *rc)
{
    (void)properties, (void)n, (void)devices, (void)notify, (void)user;
    return made(&context, CL_SUCCESS, rc);
}

cl_int clReleaseContext(cl_context c)
{
    (void)c;
    return CL_SUCCESS;
}

cl_command_queue clCreateCommandQueue(cl_context c, cl_device_id d, cl_command_queue_properties properties, cl_int *rc)
{
    (void)c, (void)d, (void)properties;
    return made(&queue, CL_SUCCESS, rc);
}

cl_int clReleaseCommandQueue(cl_command_queue q)
{
    (void)q;
    return CL_SUCCESS;
}

cl_int clFlush(cl_command_queue q)
{
    (void)q;
    return CL_SUCCESS;
}

cl_int clFinish(cl_command_queue q)
{
    (void)q;
    return CL_SUCCESS;
}

// ---- events: what they stand for is over

static cl_int put_event(cl_event *to, cl_ulong start)
{
    if (!to)
        return CL_SUCCESS;
    *to = calloc(1, sizeof **to);
    if (!*to)
        return CL_OUT_OF_HOST_MEMORY;
    (*to)->start = start;
    (*to)->end = now();
    return CL_SUCCESS;
}

cl_int clEnqueueMarkerWithWaitList(cl_command_queue q, cl_uint n, const cl_event *list, cl_event *event)
{
    (void)q, (void)n, (void)list;
    return put_event(event, now());
}

cl_int clWaitForEvents(cl_uint n, const cl_event *list)
{
    (void)n, (void)list;
    return CL_SUCCESS;
}

cl_int clGetEventInfo(cl_event event, cl_event_info what, size_t room, void *to, size_t *n)
{
    (void)event;
    const cl_int complete = CL_COMPLETE;
    return what == CL_EVENT_COMMAND_EXECUTION_STATUS ? give(&complete, sizeof complete, room, to, n) : CL_INVALID_VALUE;
}

cl_int clGetEventProfilingInfo(cl_event event, cl_profiling_info what, size_t room, void *to, size_t *n)
{
    return give(what == CL_PROFILING_COMMAND_START ? &event->start : &event->end, sizeof event->end, room, to, n);
}

cl_int clReleaseEvent(cl_event event)
{
    free(event);
    return CL_SUCCESS;
}

// Only tests/ops/test_copy.c asks for them, to hold up a queue, and there is none that could wait.
cl_event clCreateUserEvent(cl_context c, cl_int *rc)
{
    (void)c;
    return made(NULL, CL_OUT_OF_RESOURCES, rc);
}

cl_int clSetUserEventStatus(cl_event event, cl_int status)
{
    (void)event, (void)status;
    return CL_INVALID_EVENT;
}

// ---- memory

cl_mem clCreateBuffer(cl_context c, cl_mem_flags flags, size_t bytes, void *host, cl_int *rc)
{
    (void)c;
    struct _cl_mem *memory = calloc(1, sizeof *memory);
    if (!memory)
        return made(NULL, CL_OUT_OF_HOST_MEMORY, rc);
    void *data = host;
    memory->bytes = bytes;
    memory->is_ours = !(flags & CL_MEM_USE_HOST_PTR);
    if (memory->is_ours && posix_memalign(&data, ALIGNMENT, bytes)) {
        free(memory);
        return made(NULL, CL_MEM_OBJECT_ALLOCATION_FAILURE, rc);
    }
    memory->data = data;
    for (size_t i = 0; memory->is_ours && i + 4 <= bytes; i += 4)
        memcpy(memory->data + i, &poisoned_word, 4);
    memory->next = memories;
    memories = memory;
    return made(memory, CL_SUCCESS, rc);
}

cl_int clReleaseMemObject(cl_mem memory)
{
    for (struct _cl_mem **link = &memories; *link; link = &(*link)->next)
        if (*link == memory) {
            *link = memory->next;
            break;
        }
    if (memory->is_ours)
        free(memory->data);
    free(memory);
    return CL_SUCCESS;
}

static bool holds(const struct _cl_mem *memory, size_t offset, size_t bytes)
{
    return offset <= memory->bytes && bytes <= memory->bytes - offset;
}

cl_int clEnqueueReadBuffer(cl_command_queue q, cl_mem memory, cl_bool blocking, size_t offset, size_t bytes, void *to,
                           cl_uint n, const cl_event *list, cl_event *event)
{
    (void)q, (void)blocking, (void)n, (void)list;
    cl_ulong start = now();
    if (!holds(memory, offset, bytes))
        return CL_INVALID_VALUE;
    memcpy(to, memory->data + offset, bytes);
    return put_event(event, start);
}

cl_int clEnqueueWriteBuffer(cl_command_queue q, cl_mem memory, cl_bool blocking, size_t offset, size_t bytes,
                            const void *from, cl_uint n, const cl_event *list, cl_event *event)
{
    (void)q, (void)blocking, (void)n, (void)list;
    cl_ulong start = now();
    if (!holds(memory, offset, bytes))
        return CL_INVALID_VALUE;
    memcpy(memory->data + offset, from, bytes);
    return put_event(event, start);
}

void *clEnqueueMapBuffer(cl_command_queue q, cl_mem memory, cl_bool blocking, cl_map_flags flags, size_t offset,
                         size_t bytes, cl_uint n, const cl_event *list, cl_event *event, cl_int *rc)
{
    (void)q, (void)blocking, (void)flags, (void)n, (void)list;
    bool good = holds(memory, offset, bytes) && put_event(event, now()) == CL_SUCCESS;
    return made(good ? memory->data + offset : NULL, CL_INVALID_VALUE, rc);
}

cl_int clEnqueueUnmapMemObject(cl_command_queue q, cl_mem memory, void *mapped, cl_uint n, const cl_event *list,
                               cl_event *event)
{
    (void)q, (void)memory, (void)mapped, (void)n, (void)list;
    return put_event(event, now());
}

// ---- programs
// As NVIDIA's, a program's binary is text, PTX: here of one parameter, for all of them, and the library in digits
// behind it. Where that parameter is no pointer any more kernels take addresses.

static const char ptx_head[] = "//\n.visible .entry all(\n\t.param .u64";
static const char ptx_pointer[] = " .ptr .global .align 1";
static const char ptx_tail[] = " all_param_2\n)\n.reqntid 256, 1, 1\n{\n}\n//";

static char *ptx_of(const struct bytes *library)
{
    size_t first = strlen(ptx_head) + strlen(ptx_pointer) + strlen(ptx_tail);
    char *ptx = malloc(first + 2 * library->n + 1);
    if (!ptx)
        return NULL;
    int at = sprintf(ptx, "%s%s%s", ptx_head, ptx_pointer, ptx_tail);
    for (size_t i = 0; i < library->n; i++) {
        unsigned byte = (unsigned char)((const char *)library->data)[i];
        ptx[at++] = "0123456789abcdef"[byte / 16];
        ptx[at++] = "0123456789abcdef"[byte % 16];
    }
    ptx[at] = 0;
    return ptx;
}

static struct bytes library_of(const char *ptx, size_t bytes)
{
    const char *tail = strstr(ptx, "{\n}\n//"), *from = tail ? tail + 6 : ptx + bytes;
    struct bytes library = {calloc(1, bytes / 2 + 1), (size_t)(ptx + bytes - from) / 2};
    for (size_t i = 0; library.data && i < 2 * library.n; i++) {
        unsigned digit = (unsigned)(from[i] <= '9' ? from[i] - '0' : from[i] - 'a' + 10);
        ((unsigned char *)library.data)[i / 2] |= (unsigned char)(i % 2 ? digit : digit << 4);
    }
    return library;
}

cl_program clCreateProgramWithSource(cl_context c, cl_uint n, const char **texts, const size_t *lengths, cl_int *rc)
{
    (void)c;
    struct _cl_program *program = n == 1 ? calloc(1, sizeof *program) : NULL;
    if (program) {
        program->users = 1;
        program->text = strndup(*texts, *lengths);
        program->text_bytes = *lengths;
    }
    return made(program, CL_OUT_OF_HOST_MEMORY, rc);
}

cl_program clCreateProgramWithBinary(cl_context c, cl_uint n, const cl_device_id *devices, const size_t *lengths,
                                     const unsigned char **binaries, cl_int *status, cl_int *rc)
{
    (void)c, (void)devices;
    struct _cl_program *program = n == 1 ? calloc(1, sizeof *program) : NULL;
    if (program) {
        program->users = 1;
        char *ptx = strndup((const char *)*binaries, *lengths);
        program->library = library_of(ptx, strlen(ptx));
        program->by_address = !strstr(ptx, ptx_pointer);
        free(ptx);
    }
    if (status)
        *status = CL_SUCCESS;
    return made(program, CL_OUT_OF_HOST_MEMORY, rc);
}

cl_int clBuildProgram(cl_program program, cl_uint n, const cl_device_id *devices, const char *options,
                      void (*notify)(cl_program, void *), void *user)
{
    (void)n, (void)devices, (void)notify, (void)user;
    free(program->log);
    program->log = NULL;
    if (program->text)
        program->library = program_compile(program->text, program->text_bytes, options, &program->log);
    if (program->library.data)
        program->loaded = program_load(&program->library, &program->log);
    if (!program->loaded)
        fprintf(stderr, "%s\n", program->log ? program->log : "clang gave no library");
    return program->loaded ? CL_SUCCESS : CL_BUILD_PROGRAM_FAILURE;
}

cl_int clGetProgramBuildInfo(cl_program program, cl_device_id d, cl_program_build_info what, size_t room, void *to,
                             size_t *n)
{
    (void)d, (void)what;
    return give_text(program->log ? program->log : "", room, to, n);
}

cl_int clGetProgramInfo(cl_program program, cl_program_info what, size_t room, void *to, size_t *n)
{
    char *ptx = what == CL_PROGRAM_BINARY_SIZES || what == CL_PROGRAM_BINARIES ? ptx_of(&program->library) : NULL;
    size_t bytes = ptx ? strlen(ptx) : 0;
    cl_int rc = ptx ? CL_SUCCESS : CL_INVALID_VALUE;
    if (ptx && what == CL_PROGRAM_BINARY_SIZES)
        rc = give(&bytes, sizeof bytes, room, to, n);
    else if (ptx)
        memcpy(*(unsigned char **)to, ptx, bytes);
    free(ptx);
    return rc;
}

cl_int clReleaseProgram(cl_program program)
{
    if (--program->users)
        return CL_SUCCESS;
    if (program->loaded)
        dlclose(program->loaded);
    free(program->library.data);
    free(program->text);
    free(program->log);
    free(program);
    return CL_SUCCESS;
}

// ---- kernels

cl_kernel clCreateKernel(cl_program program, const char *name, cl_int *rc)
{
    struct _cl_kernel *kernel = calloc(1, sizeof *kernel);
    if (!kernel)
        return made(NULL, CL_OUT_OF_HOST_MEMORY, rc);
    snprintf(kernel->name, sizeof kernel->name, "%s", name);
    kernel->loaded = program_kernel(program->loaded, name);
    if (!kernel->loaded.function) {
        free(kernel);
        return made(NULL, CL_INVALID_KERNEL_NAME, rc);
    }
    kernel->program = program;
    program->users++;
    return made(kernel, CL_SUCCESS, rc);
}

cl_int clReleaseKernel(cl_kernel kernel)
{
    clReleaseProgram(kernel->program);
    free(kernel);
    return CL_SUCCESS;
}

cl_int clGetKernelWorkGroupInfo(cl_kernel kernel, cl_device_id d, cl_kernel_work_group_info what, size_t room, void *to,
                                size_t *n)
{
    (void)kernel, (void)d, (void)what;
    const size_t most = MOST_ITEMS;
    return give(&most, sizeof most, room, to, n);
}

cl_int clSetKernelArg(cl_kernel kernel, cl_uint at, size_t bytes, const void *value)
{
    if (at >= MOST_ARGUMENTS || bytes > MOST_BYTES)
        return CL_INVALID_ARG_SIZE;
    memcpy(kernel->arguments[at].bytes, value, bytes);
    kernel->arguments[at].n = bytes;
    return CL_SUCCESS;
}

static const struct _cl_mem *memory_of(const struct argument *argument)
{
    const struct _cl_mem *memory = memories;
    while (memory && (argument->n != sizeof memory || memcmp(argument->bytes, &memory, sizeof memory) != 0))
        memory = memory->next;
    return memory;
}

// Buffers' addresses in registers while there are some, and structs, by value, and what is left behind each other on
// the stack. Buffers stand behind structs, or alone; a handle where a number is wanted would be taken for an address,
// so it is refused.
static bool lay_out(const struct _cl_kernel *kernel, struct stack_arguments *stacked, void **registers)
{
    size_t used = 0, n_registers = 0;
    for (size_t i = 0; i < MOST_ARGUMENTS && kernel->arguments[i].n; i++) {
        const struct argument *argument = &kernel->arguments[i];
        const struct _cl_mem *memory = memory_of(argument);
        bool is_number = kernel->program->by_address && argument->n == sizeof(void *) &&
                         (i > 1 || kernel->arguments[1].n == sizeof(void *) || !kernel->arguments[1].n);
        const void *bytes = memory ? (const void *)&memory->data : argument->bytes;
        if (memory && kernel->program->by_address)
            return false;
        if ((memory || is_number) && n_registers < REGISTER_ARGUMENTS) {
            memcpy(&registers[n_registers++], bytes, sizeof(void *));
            continue;
        }
        if (used + argument->n > sizeof stacked->bytes)
            return false;
        memcpy(stacked->bytes + used, bytes, argument->n);
        used += (argument->n + 7) / 8 * 8;
    }
    return true;
}

cl_int clEnqueueNDRangeKernel(cl_command_queue q, cl_kernel kernel, cl_uint axes, const size_t *offset,
                              const size_t *global, const size_t *local, cl_uint n, const cl_event *list,
                              cl_event *event)
{
    (void)q, (void)n, (void)list;
    struct stack_arguments stacked;
    void *registers[REGISTER_ARGUMENTS] = {0};
    cl_ulong start = now();
    struct grid grid = {.name = kernel->name,
                        .function = kernel->loaded.function,
                        .stacked = &stacked,
                        .registers = registers,
                        .groups = {1, 1, 1},
                        .items = local[0],
                        .arrays = kernel->loaded.arrays,
                        .n_arrays = kernel->loaded.n_arrays};
    if (kernel->loaded.local_bytes > LOCAL_BYTES) {
        fprintf(stderr, "FAIL kernel %s has %zu bytes of local memory, and a GPU %d\n", kernel->name,
                kernel->loaded.local_bytes, LOCAL_BYTES);
        return CL_OUT_OF_RESOURCES;
    }
    if (offset || local[0] > MOST_ITEMS || !lay_out(kernel, &stacked, registers))
        return CL_INVALID_VALUE;
    for (cl_uint i = 0; i < axes; i++) {
        if (local[i] == 0 || global[i] % local[i] || (i > 0 && local[i] != 1))
            return CL_INVALID_WORK_GROUP_SIZE;
        grid.groups[i] = global[i] / local[i];
    }
    run_grid(&grid);
    return put_event(event, start);
}
