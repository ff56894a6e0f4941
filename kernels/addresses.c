// SPDX-License-Identifier: GPL-3.0-or-later
// NVIDIA: kernels that take plain addresses in the place of buffers, for a launch costs its host the more the more
// buffers it has (4 us with addresses, whatever their count; 8 to 10 with twelve buffers). Its driver gives a program's
// PTX as its binary and takes it back; where a parameter isn't said to be a pointer it is a number. A kernel tells
// where a buffer lies. All of it is tried when the device is opened, and where it does not hold kernels take buffers as
// everywhere else. Building a program a second time costs the first start 10 s: it is done for models that keep states,
// for whom delta_layer's registers must be bounded, and whose launches are many.
#include <stdlib.h>
#include <string.h>

#include "kernels/device.h"

static const char own_text[] =
    "__kernel void address_of(__global uchar *buffer, __global ulong *to) { to[0] = (ulong)buffer; }\n"
    "__kernel void follow(__global const uint *from, __global uint *to) { to[1] = from[0] + 1; }\n";

char *ptx_with_addresses(const char *ptx)
{
    static const char pointer[] = " .ptr .global .align ";
    char *result = malloc(strlen(ptx) + 1), *to = result;
    for (const char *at; result && (at = strstr(ptx, pointer)); ptx = at) {
        memcpy(to, ptx, (size_t)(at - ptx));
        to += at - ptx;
        at += sizeof pointer - 1;
        at += strspn(at, "0123456789");
    }
    if (result)
        strcpy(to, ptx);
    return result;
}

char *program_ptx(cl_program program)
{
    enum { MOST_BYTES = 256 << 20 };
    size_t bytes = 0;
    if (clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, NULL) != CL_SUCCESS || bytes == 0 ||
        bytes > MOST_BYTES)
        return NULL;
    char *ptx = calloc(1, bytes + 1);
    unsigned char *to = (unsigned char *)ptx;
    if (ptx && clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof to, &to, NULL) == CL_SUCCESS &&
        strstr(ptx, ".entry")) // whatever stands behind the text
        return ptx;
    free(ptx);
    return NULL;
}

cl_program program_of_ptx(const gpu *g, const char *ptx)
{
    size_t bytes = strlen(ptx);
    const unsigned char *from = (const unsigned char *)ptx;
    cl_int rc, status = CL_SUCCESS;
    cl_program program = clCreateProgramWithBinary(g->context, 1, &g->device, &bytes, &from, &status, &rc);
    if (rc == CL_SUCCESS && status == CL_SUCCESS &&
        clBuildProgram(program, 1, &g->device, "", NULL, NULL) == CL_SUCCESS)
        return program;
    if (rc == CL_SUCCESS)
        clReleaseProgram(program);
    return NULL;
}

cl_program program_with_addresses(const gpu *g, cl_program program)
{
    char *ptx = program_ptx(program), *plain = ptx ? ptx_with_addresses(ptx) : NULL;
    char *text = plain ? ptx_of_two_groups(plain) : NULL;
    cl_program made = text && strcmp(plain, ptx) != 0 ? program_of_ptx(g, text) : NULL;
    free(text);
    free(ptx);
    free(plain);
    return made;
}

// One work-item, and what it leaves in `to`.
static bool run_one(gpu *g, cl_kernel kernel, void *result, size_t bytes)
{
    const size_t one = 1;
    return clEnqueueNDRangeKernel(g->queue, kernel, 1, NULL, &one, &one, 0, NULL, NULL) == CL_SUCCESS &&
           clEnqueueReadBuffer(g->queue, g->addresses.to, CL_TRUE, 0, bytes, result, 0, NULL, NULL) == CL_SUCCESS;
}

bool gpu_address(gpu *g, cl_mem memory, uint64_t *address)
{
    struct addresses *a = &g->addresses;
    return clSetKernelArg(a->of, 0, sizeof memory, &memory) == CL_SUCCESS &&
           clSetKernelArg(a->of, 1, sizeof a->to, &a->to) == CL_SUCCESS &&
           run_one(g, a->of, address, sizeof *address) && *address != 0;
}

// A number that only the address leads to comes back one higher.
static bool follows(gpu *g, cl_kernel follow, cl_mem memory)
{
    const uint32_t value = 0x5eed77;
    uint64_t from = 0, to = 0;
    uint32_t seen[2] = {0, 0};
    return clEnqueueWriteBuffer(g->queue, memory, CL_TRUE, 0, sizeof value, &value, 0, NULL, NULL) == CL_SUCCESS &&
           gpu_address(g, memory, &from) && gpu_address(g, g->addresses.to, &to) &&
           clSetKernelArg(follow, 0, sizeof from, &from) == CL_SUCCESS &&
           clSetKernelArg(follow, 1, sizeof to, &to) == CL_SUCCESS && run_one(g, follow, seen, sizeof seen) &&
           seen[1] == value + 1;
}

static bool is_proved(gpu *g, cl_program with_addresses)
{
    cl_int rc, other;
    cl_kernel follow = clCreateKernel(with_addresses, "follow", &rc);
    cl_mem memory = clCreateBuffer(g->context, CL_MEM_READ_WRITE, 64, NULL, &other);
    bool good = rc == CL_SUCCESS && other == CL_SUCCESS && follows(g, follow, memory);
    if (other == CL_SUCCESS)
        clReleaseMemObject(memory);
    if (rc == CL_SUCCESS)
        clReleaseKernel(follow);
    return good;
}

void gpu_open_addresses(gpu *g)
{
    struct addresses *a = &g->addresses;
    const char *source = own_text;
    size_t bytes = sizeof own_text - 1;
    cl_int rc;
    if ((g->mixers && !(g->mixers & USE_STATES)) || !g->has_mma || g->info.shares_host_memory ||
        g->info.maps_host_memory)
        return;
    cl_program program = clCreateProgramWithSource(g->context, 1, &source, &bytes, &rc), plain = NULL;
    if (rc != CL_SUCCESS)
        return;
    if (clBuildProgram(program, 1, &g->device, "-cl-std=CL1.2 -w", NULL, NULL) == CL_SUCCESS)
        plain = program_with_addresses(g, program);
    a->of = plain ? clCreateKernel(program, "address_of", &rc) : NULL;
    if (a->of)
        a->to = clCreateBuffer(g->context, CL_MEM_READ_WRITE, 64, NULL, &rc);
    if (!a->of || !a->to || !is_proved(g, plain))
        gpu_release_addresses(g);
    if (plain)
        clReleaseProgram(plain);
    clReleaseProgram(program);
}

void gpu_release_addresses(gpu *g)
{
    if (g->addresses.of)
        clReleaseKernel(g->addresses.of);
    if (g->addresses.to)
        clReleaseMemObject(g->addresses.to);
    g->addresses = (struct addresses){0};
}
