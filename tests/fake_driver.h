// SPDX-License-Identifier: GPL-3.0-or-later
// An OpenCL driver that a test holds in its hand, in the place of the real one's calls (by the linker: --wrap). It does
// nothing before it must: a command waits until somebody waits for it, for one behind it or looks at its event, so that
// memory that is used again too early shows. Any one of its calls can fail, any command be lost. What it was asked goes
// into cases (cases.h).
#ifndef MOECHAT_FAKE_DRIVER_H
#define MOECHAT_FAKE_DRIVER_H

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/device.h"
#include "tests/cases.h"

enum { FAKE_COMMANDS = 64, FAKE_QUEUES = 2 };

struct _cl_event {
    bool over, lost;
};
struct _cl_mem {
    char *bytes;
    bool ours; // not the caller's memory
    unsigned number;
};
struct fake_command {
    cl_event event; // NULL: nobody asked for it
    cl_event first; // of another queue's command that has to be over before
    void *to;       // NULL: it moves nothing
    const void *from;
    size_t bytes;
};
struct _cl_command_queue {
    struct fake_command commands[FAKE_COMMANDS];
    unsigned n, done;
    bool lost; // a command, since somebody waited for all
};

static struct fake_driver {
    struct cases *cases;
    struct _cl_command_queue queues[FAKE_QUEUES];
    unsigned n_queues;
    unsigned calls, fail_at; // counted from 1; 0: none
    unsigned moves, lose_at; // as above, of commands
    int events, memories;    // that were made and not released
    unsigned numbers;        // of memories
} fake;

// Notes a call. The code that it gives: may be that it fails.
static cl_int __attribute__((format(printf, 1, 2))) fake_call(const char *format, ...)
{
    char text[256];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    bool fails = ++fake.calls == fake.fail_at;
    cases_say(fake.cases, "  %s%s\n", text, fails ? ": fails" : "");
    return fails ? CL_OUT_OF_RESOURCES : CL_SUCCESS;
}

static unsigned fake_queue(cl_command_queue queue)
{
    return (unsigned)(queue - fake.queues);
}

static void fake_finish(cl_command_queue queue);

static bool fake_do(struct fake_command *command)
{
    bool lost = ++fake.moves == fake.lose_at;
    for (unsigned q = 0; command->first && !command->first->over && q < FAKE_QUEUES; q++)
        fake_finish(&fake.queues[q]);
    if (command->to && !lost)
        memcpy(command->to, command->from, command->bytes);
    if (command->event)
        command->event->over = true, command->event->lost = lost;
    return lost;
}

static void fake_step(cl_command_queue queue)
{
    if (queue->done < queue->n && fake_do(&queue->commands[queue->done++]))
        queue->lost = true;
    if (queue->done == queue->n)
        queue->done = queue->n = 0;
}

static void fake_finish(cl_command_queue queue)
{
    while (queue->n)
        fake_step(queue);
}

// Waits for all.
static cl_int fake_end(cl_command_queue queue)
{
    fake_finish(queue);
    cl_int rc = queue->lost ? CL_OUT_OF_RESOURCES : CL_SUCCESS;
    queue->lost = false;
    return rc;
}

static void fake_enqueue(cl_command_queue queue, struct fake_command command, cl_event *event)
{
    if (event) {
        *event = command.event = calloc(1, sizeof **event);
        fake.events++;
    }
    if (queue->n == FAKE_COMMANDS)
        fake_finish(queue);
    queue->commands[queue->n++] = command;
}

#define FAKE(type, name, ...)                                                                                          \
    type __wrap_##name(__VA_ARGS__);                                                                                   \
    type __wrap_##name(__VA_ARGS__)

FAKE(cl_command_queue, clCreateCommandQueue, cl_context context, cl_device_id device,
     cl_command_queue_properties properties, cl_int *rc)
{
    (void)context, (void)device;
    *rc = fake_call("queue, %u", (unsigned)properties);
    return *rc ? NULL : &fake.queues[fake.n_queues++];
}

FAKE(cl_int, clReleaseCommandQueue, cl_command_queue queue)
{
    (void)queue;
    fake.n_queues--;
    return CL_SUCCESS;
}

FAKE(cl_mem, clCreateBuffer, cl_context context, cl_mem_flags flags, size_t bytes, void *host, cl_int *rc)
{
    (void)context;
    *rc = fake_call("buffer of %zu, %u", bytes, (unsigned)flags);
    if (*rc)
        return NULL;
    cl_mem memory = calloc(1, sizeof *memory);
    *memory = (struct _cl_mem){host ? host : calloc(1, bytes), !host, ++fake.numbers};
    fake.memories++;
    return memory;
}

FAKE(cl_int, clReleaseMemObject, cl_mem memory)
{
    if (memory->ours)
        free(memory->bytes);
    free(memory);
    fake.memories--;
    return CL_SUCCESS;
}

FAKE(cl_int, clReleaseEvent, cl_event event)
{
    for (unsigned q = 0; q < FAKE_QUEUES; q++) // they outlive their commands
        for (unsigned i = 0; i < fake.queues[q].n; i++) {
            struct fake_command *command = &fake.queues[q].commands[i];
            command->event = command->event == event ? NULL : command->event;
            command->first = command->first == event ? NULL : command->first;
        }
    free(event);
    fake.events--;
    return CL_SUCCESS;
}

FAKE(cl_int, clEnqueueWriteBuffer, cl_command_queue queue, cl_mem memory, cl_bool blocking, size_t offset, size_t bytes,
     const void *from, cl_uint n, const cl_event *first, cl_event *event)
{
    (void)n, (void)first;
    cl_int rc =
        fake_call("queue %u: write %u of %zu at %zu to %u", fake_queue(queue), blocking, bytes, offset, memory->number);
    if (rc)
        return rc;
    fake_enqueue(queue, (struct fake_command){.to = memory->bytes + offset, .from = from, .bytes = bytes}, event);
    return blocking ? fake_end(queue) : CL_SUCCESS;
}

FAKE(cl_int, clEnqueueReadBuffer, cl_command_queue queue, cl_mem memory, cl_bool blocking, size_t offset, size_t bytes,
     void *to, cl_uint n, const cl_event *first, cl_event *event)
{
    (void)n, (void)first;
    cl_int rc = fake_call("queue %u: read %u of %zu at %zu from %u", fake_queue(queue), blocking, bytes, offset,
                          memory->number);
    if (rc)
        return rc;
    fake_enqueue(queue, (struct fake_command){.to = to, .from = memory->bytes + offset, .bytes = bytes}, event);
    return blocking ? fake_end(queue) : CL_SUCCESS;
}

FAKE(void *, clEnqueueMapBuffer, cl_command_queue queue, cl_mem memory, cl_bool blocking, cl_map_flags flags,
     size_t offset, size_t bytes, cl_uint n, const cl_event *first, cl_event *event, cl_int *rc)
{
    (void)n, (void)first, (void)event;
    *rc = fake_call("queue %u: map %u, %u of %zu at %zu of %u", fake_queue(queue), blocking, (unsigned)flags, bytes,
                    offset, memory->number);
    fake_finish(queue);
    return *rc ? NULL : memory->bytes + offset;
}

FAKE(cl_int, clEnqueueUnmapMemObject, cl_command_queue queue, cl_mem memory, void *mapped, cl_uint n,
     const cl_event *first, cl_event *event)
{
    (void)mapped, (void)n, (void)first;
    cl_int rc = fake_call("queue %u: unmap %u", fake_queue(queue), memory->number);
    if (rc == CL_SUCCESS)
        fake_enqueue(queue, (struct fake_command){0}, event);
    return rc;
}

FAKE(cl_int, clEnqueueMarkerWithWaitList, cl_command_queue queue, cl_uint n, const cl_event *first, cl_event *event)
{
    (void)first;
    cl_int rc = fake_call("queue %u: marker behind %u", fake_queue(queue), n);
    if (rc == CL_SUCCESS)
        fake_enqueue(queue, (struct fake_command){0}, event);
    return rc;
}

FAKE(cl_int, clEnqueueBarrierWithWaitList, cl_command_queue queue, cl_uint n, const cl_event *first, cl_event *event)
{
    cl_int rc = fake_call("queue %u: barrier behind %u", fake_queue(queue), n);
    if (rc == CL_SUCCESS)
        fake_enqueue(queue, (struct fake_command){.first = *first}, event);
    return rc;
}

FAKE(cl_int, clEnqueueNDRangeKernel, cl_command_queue queue, cl_kernel kernel, cl_uint n, const size_t *offset,
     const size_t *global, const size_t *local, cl_uint n_first, const cl_event *first, cl_event *event)
{
    (void)offset, (void)n_first, (void)first;
    cl_int rc = fake_call("queue %u: kernel %" PRIuPTR ", %u, %zu %zu %zu by %zu %zu %zu", fake_queue(queue),
                          (uintptr_t)kernel, n, global[0], global[1], global[2], local[0], local[1], local[2]);
    if (rc == CL_SUCCESS)
        fake_enqueue(queue, (struct fake_command){0}, event);
    return rc;
}

FAKE(cl_int, clSetKernelArg, cl_kernel kernel, cl_uint at, size_t bytes, const void *value)
{
    (void)kernel;
    if (at < 2) { // structs of numbers
        for (size_t i = 0; i + 4 <= bytes; i += 4)
            cases_say(fake.cases, " %x", *(const unsigned *)((const char *)value + i));
        return fake_call("%u: %zu bytes", at, bytes);
    }
    return fake_call("%u: buffer %u", at, (*(const cl_mem *)value)->number);
}

FAKE(cl_int, clFinish, cl_command_queue queue)
{
    cl_int rc = fake_call("queue %u: finish", fake_queue(queue));
    return rc ? rc : fake_end(queue);
}

FAKE(cl_int, clFlush, cl_command_queue queue)
{
    return fake_call("queue %u: flush", fake_queue(queue));
}

FAKE(cl_int, clWaitForEvents, cl_uint n, const cl_event *events)
{
    cl_int rc = fake_call("wait for %u", n);
    for (unsigned q = 0; !(*events)->over && q < FAKE_QUEUES; q++)
        for (unsigned i = 0; i < fake.queues[q].n && !(*events)->over; i++)
            if (fake.queues[q].commands[i].event == *events)
                while (!(*events)->over)
                    fake_step(&fake.queues[q]);
    return (*events)->lost ? CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST : rc;
}

FAKE(cl_int, clGetEventInfo, cl_event event, cl_event_info what, size_t bytes, void *value, size_t *size)
{
    (void)what, (void)bytes, (void)size;
    cl_int rc = fake_call("look at an event");
    bool over = event->over; // as it is; then time goes on
    *(cl_int *)value = !over ? CL_QUEUED : event->lost ? CL_OUT_OF_RESOURCES : CL_COMPLETE;
    for (unsigned q = 0; q < FAKE_QUEUES; q++)
        fake_step(&fake.queues[q]);
    return rc;
}

FAKE(cl_int, clGetEventProfilingInfo, cl_event event, cl_profiling_info what, size_t bytes, void *value, size_t *size)
{
    (void)event, (void)bytes, (void)size;
    *(cl_ulong *)value = what == CL_PROFILING_COMMAND_END ? 1100 : 1000;
    return fake_call("an event's time");
}

FAKE(cl_int, clReleaseContext, cl_context context)
{
    (void)context;
    return CL_SUCCESS;
}

// A device of the fake's, with kernels of these numbers: their id and one more. To be freed by fake_close.
static gpu *fake_open(struct cases *cases, bool cpu_shape)
{
    gpu *g = calloc(1, sizeof *g);
    fake = (struct fake_driver){.cases = cases, .n_queues = 1};
    g->info = (struct gpu_info){.selector = "0", .name = "fake", .max_alloc_bytes = 1 << 28, .compute_units = 6};
    g->info.kind = cpu_shape ? GPU_KIND_CPU : GPU_KIND_GPU;
    g->info.shares_host_memory = cpu_shape;
    g->cpu_shape = cpu_shape;
    g->context = (cl_context)g;
    g->queue = fake.queues;
    for (uintptr_t id = 0; id < KERNEL_COUNT; id++)
        g->program.kernels[id] = (cl_kernel)(id + 1);
    return g;
}

static void fake_close(gpu *g)
{
    gpu_release_all(g);
    free(g->profile);
    free(g);
}

#endif
