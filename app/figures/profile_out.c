// SPDX-License-Identifier: GPL-3.0-or-later
// Prints what --profile measured.
#include "app/figures/profile_out.h"

#include <inttypes.h>
#include <stdlib.h>

enum { MAX_KERNELS = 64 };

static int longest_first(const void *a, const void *b)
{
    const struct moe_kernel_time *x = a, *y = b;
    return (x->ns < y->ns) - (x->ns > y->ns);
}

void profile_print(const moe_model *model, FILE *out)
{
    struct moe_kernel_time times[MAX_KERNELS];
    unsigned n = moe_model_profile(model, times, MAX_KERNELS);
    uint64_t total = 0;
    if (n == 0)
        fprintf(out, "%s does not time its kernels\n", moe_model_device(model));
    qsort(times, n, sizeof *times, longest_first);
    for (unsigned i = 0; i < n; i++)
        total += times[i].ns;
    if (n)
        fprintf(out, "kernels of %s by the time that they took, %.3f ms together:\n", moe_model_device(model),
                (double)total / 1e6);
    for (unsigned i = 0; i < n; i++)
        fprintf(out, "  %-24s %10" PRIu64 " launches %10.3f ms %6.1f %% %9.2f us each\n", times[i].name,
                times[i].launches, (double)times[i].ns / 1e6, total ? 100.0 * (double)times[i].ns / (double)total : 0,
                (double)times[i].ns / 1e3 / (double)times[i].launches);
}
