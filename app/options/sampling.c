// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/options/sampling.h"

#include <fcntl.h>
#include <unistd.h>

#include "app/util/format.h"

uint64_t sampling_random_seed(void)
{
    uint32_t seed = 0;
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, &seed, sizeof seed) != (ssize_t)sizeof seed)
        seed = (uint32_t)(format_clock_ns() / 1000 ^ (uint64_t)getpid() << 16);
    if (fd >= 0)
        close(fd);
    return seed;
}

struct moe_sampling sampling_from(const struct options *options, uint64_t seed)
{
    return (struct moe_sampling){
        .temperature = (float)options->temp,
        .top_k = options->top_k,
        .top_p = (float)options->top_p,
        .min_p = (float)options->min_p,
        .repetition_penalty = (float)options->repeat_penalty,
        .seed = seed,
    };
}
