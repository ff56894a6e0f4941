// SPDX-License-Identifier: GPL-3.0-or-later
// A work-group on one thread of this machine: each work-item is a fiber, 32 of them a warp. They go on in an order that
// MOECHAT_WARPS_SEED shuffles, so that what only a barrier orders comes in another order where the barrier is missing.
// Groups run one after the other, but where one looks whether others have come (ptx.cl's look) any of eight may go on.
#ifndef MOECHAT_EMULATE_GROUP_H
#define MOECHAT_EMULATE_GROUP_H

#include <stddef.h>
#include <stdint.h>

enum { MOST_ITEMS = 1024, MOST_STACK_ARGUMENTS = 4096, REGISTER_ARGUMENTS = 6 };

// As x86-64's calling convention has them: what lies on the stack, and pointers in registers.
struct stack_arguments {
    _Alignas(16) unsigned char bytes[MOST_STACK_ARGUMENTS];
};
typedef void kernel_function(struct stack_arguments, void *, void *, void *, void *, void *, void *);

// A kernel's local memory: the arrays of its own, in a list of `n_arrays`.
struct local_array {
    uint32_t *words;
    size_t bytes;
};

struct grid {
    const char *name; // of the kernel
    kernel_function *function;
    const struct stack_arguments *stacked;
    void *const *registers; // REGISTER_ARGUMENTS
    size_t groups[3];
    size_t items;                     // of a group, along x alone
    const struct local_array *arrays; // which each group finds filled with what is no number
    size_t n_arrays;
};

// All groups, in the calling thread. A mistake of the kernel that a GPU would hang or fail on ends
// the program, with a line that says what and where.
void run_grid(const struct grid *grid);

// A float, two float16 and two bfloat16 that are no numbers; an index that leads nowhere.
static const uint32_t poisoned_word = 0x7fff7fff;

#endif
