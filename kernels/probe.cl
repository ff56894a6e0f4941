// SPDX-License-Identifier: GPL-3.0-or-later
// Reports how this device lays out the structs of args.h: size and place of the last field of each.

#define PROBE(type, last)                                                                                              \
    {                                                                                                                  \
        struct type value;                                                                                             \
        *out++ = sizeof value;                                                                                         \
        *out++ = (uint)((__private char *)&value.last - (__private char *)&value);                                     \
    }
#define PROBE_ROW(id, name, args, last, n_buffers, cpu, gpu, uses) PROBE(args, last)

#if CALLS
struct call_reach {
    ulong from, to;
};

// Is the host's memory where the host has it?
__kernel GROUP_SIZE(1, 1) void reach(const struct call_reach c)
{
    *(__global uint *)c.to = *(__global const uint *)c.from + 1;
}
#endif

__kernel GROUP_SIZE(1, 1) void probe(__global uint *out)
{
    KERNEL_ROWS(PROBE_ROW)
    INNER_STRUCTS(PROBE)
}
