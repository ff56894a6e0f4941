// SPDX-License-Identifier: GPL-3.0-or-later
// What a model takes of the machine's memory: peak RSS less RSS when it was opened, against the plan of its caches. The
// budget is filled by reading a prompt that asks for every expert, then answering.
//
//     memory DIR BUDGET_MIB [HOST_MIB]     with HOST_MIB: two tiers, also where the device shares our memory
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/moe.h"

enum { PROMPT = 192, ANSWER = 8 };

// A line of /proc/self/status, in bytes.
static uint64_t status(const char *key)
{
    char line[256];
    uint64_t kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, key, strlen(key)) == 0)
            kib = strtoull(line + strlen(key), NULL, 10);
    if (file)
        fclose(file);
    return kib << 10;
}

static int use(moe_model *model, struct moe_err *err)
{
    int32_t ids[PROMPT];
    uint32_t vocab = moe_model_describe(model)->vocab_size;
    uint64_t state = 1;
    for (int i = 0; i < PROMPT; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        ids[i] = (int32_t)((state >> 33) % vocab);
    }
    moe_session *session;
    struct moe_session_options options = {.max_context = 256};
    int code = moe_session_open(model, &options, &session, err);
    if (code)
        return code;
    struct moe_feed feed = {.ids = ids, .count = PROMPT};
    code = moe_session_prefill(session, &feed, err);
    for (int i = 0; i < ANSWER && !code; i++)
        code = moe_session_decode(session, ids[i], err);
    moe_session_close(session);
    return code;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return fprintf(stderr, "memory DIR BUDGET_MIB [HOST_MIB]\n"), 2;
    struct moe_model_options options = {
        .device = "cpu",
        .kernel_cache_dir = "build/cache/kernels",
        .expert_cache_bytes = strtoull(argv[2], NULL, 10) << 20,
        .host_cache_bytes = argc > 3 ? strtoull(argv[3], NULL, 10) << 20 : MOE_CACHE_AUTO,
        .force_two_tiers = argc > 3,
    };
    moe_model *model;
    struct moe_err err;
    int code = moe_model_open(argv[1], &options, &model, &err);
    if (code)
        return fprintf(stderr, "%s\n", err.text), 1;
    struct moe_cache_plan plan = moe_model_cache(model);
    uint64_t planned = (plan.slots + plan.host_slots) * plan.slot_bytes;
    uint64_t before = status("VmRSS:");
    code = use(model, &err);
    uint64_t grown = status("VmHWM:") - before;
    moe_model_close(model);
    uint64_t after = status("VmRSS:");
    if (code)
        return fprintf(stderr, "%s\n", err.text), 1;
    const char *tiers = argc > 3 ? "two tiers" : "one tier";
    printf("planned %" PRIu64 " MiB, grown by %" PRIu64 " MiB from %" PRIu64 " MiB, %" PRIu64 " MiB when closed\n",
           planned >> 20, grown >> 20, before >> 20, after >> 20);
    bool within = grown <= planned + planned / 100 * 3 + (64 << 20);
    bool used = grown >= planned / 10 * 9;
    printf("%s %s: grows no further than planned\n", within ? "PASS" : "FAIL", tiers);
    printf("%s %s: uses what was planned\n", used ? "PASS" : "FAIL", tiers);
    return !(within && used);
}
