// SPDX-License-Identifier: GPL-3.0-or-later
// The device's own times of its kernels, when they are asked for: an event a launch, read once its command is done.
#ifndef MOECHAT_PROFILE_H
#define MOECHAT_PROFILE_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "kernels/launch.h"

enum { PROFILE_EVENTS = 8192 };

struct profile {
    struct {
        cl_event event;
        enum kernel_id kernel;
    } items[PROFILE_EVENTS];
    unsigned n;
    uint64_t ns[KERNEL_COUNT], launches[KERNEL_COUNT];
};

// Takes the event over. False: there is no room until the events' commands are done and were taken in.
bool profile_add(struct profile *profile, cl_event event, enum kernel_id kernel);
// All commands are done.
void profile_take_in(struct profile *profile);

#endif
