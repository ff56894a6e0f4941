// SPDX-License-Identifier: GPL-3.0-or-later
// Collects events of launches, and adds them up by kernel.
#include "kernels/profile.h"

#include "kernels/device.h"

bool profile_add(struct profile *profile, cl_event event, enum kernel_id kernel)
{
    profile->items[profile->n].event = event;
    profile->items[profile->n++].kernel = kernel;
    return profile->n < PROFILE_EVENTS;
}

void profile_take_in(struct profile *profile)
{
    for (unsigned i = 0; i < profile->n; i++) {
        cl_ulong from = 0, to = 0;
        cl_event event = profile->items[i].event;
        cl_int rc = clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof from, &from, NULL);
        if (rc == CL_SUCCESS)
            rc = clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof to, &to, NULL);
        if (rc == CL_SUCCESS && to > from)
            profile->ns[profile->items[i].kernel] += to - from;
        profile->launches[profile->items[i].kernel]++;
        clReleaseEvent(event);
    }
    profile->n = 0;
}

unsigned gpu_profile(const gpu *g, struct gpu_kernel_time *times, unsigned max)
{
    unsigned n = 0;
    for (int id = 0; g->profile && id < KERNEL_COUNT; id++)
        if (g->profile->launches[id] && n < max)
            times[n++] = (struct gpu_kernel_time){kernel_info((enum kernel_id)id)->name, g->profile->launches[id],
                                                  g->profile->ns[id]};
    return n;
}
