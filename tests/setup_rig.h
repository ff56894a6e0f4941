// SPDX-License-Identifier: GPL-3.0-or-later
// A model and a session of it, opened in some way, and what is fed to it: prompts, then decoded tokens. What came of it
// is a hash of logits, for tests that say that ways never change a bit.
#ifndef MOECHAT_SETUP_RIG_H
#define MOECHAT_SETUP_RIG_H

#include <stdio.h>
#include <stdlib.h>

#include "tests/harness.h"
#include "engine/moe.h"

enum { N_TOKENS = 80, N_DECODED = 5 };

struct setup {
    const char *directory, *device;
    uint64_t cache;
    struct moe_session_options session;
    moe_read_fn *read;
    void *context;
};

struct opened {
    moe_model *model;
    moe_session *session;
    uint32_t vocab;
    int32_t ids[N_TOKENS + N_DECODED];
};

// In the place of "cpu" MOECHAT_TEST_DEVICE, where that is set: "gpu" on real or emulated tensor cores.
static inline const char *device_of(const struct setup *setup)
{
    const char *other = getenv("MOECHAT_TEST_DEVICE");
    return other && strcmp(setup->device, "cpu") == 0 ? other : setup->device;
}

static inline bool open_setup(struct harness *t, const struct setup *setup, struct opened *o)
{
    struct moe_model_options options = {.device = device_of(setup),
                                        .expert_cache_bytes = setup->cache,
                                        .io = MOE_IO_BUFFERED,
                                        .readers = 2,
                                        .read = setup->read,
                                        .read_context = setup->context};
    struct moe_err err;
    *o = (struct opened){.model = NULL};
    if (moe_model_open(setup->directory, &options, &o->model, &err) ||
        moe_session_open(o->model, &setup->session, &o->session, &err)) {
        printf("%s on %s: %s\n", setup->directory, setup->device, err.text);
        return CHECK(t, 0);
    }
    o->vocab = moe_model_describe(o->model)->vocab_size;
    for (uint32_t i = 0; i < N_TOKENS + N_DECODED; i++)
        o->ids[i] = (int32_t)((i * 7919 + 13 * (i / 3)) % o->vocab);
    return true;
}

static inline void close_opened(struct opened *o)
{
    moe_session_close(o->session);
    moe_model_close(o->model);
}

static inline uint64_t hash_of(uint64_t hash, const struct opened *o)
{
    struct moe_err err;
    const unsigned char *bytes = (const unsigned char *)moe_session_logits(o->session, &err);
    for (size_t i = 0; bytes && i < o->vocab * sizeof(float); i++)
        hash = (hash ^ bytes[i]) * 1099511628211u;
    return hash;
}

static inline int prefill(struct opened *o, uint32_t end, struct moe_err *err)
{
    uint32_t length = moe_session_length(o->session);
    struct moe_feed feed = {.ids = o->ids + length, .count = end - length, .position = length};
    return moe_session_prefill(o->session, &feed, err);
}

static inline int decode(struct opened *o, uint32_t end, struct moe_err *err)
{
    int code = 0;
    while (moe_session_length(o->session) < end && code == 0)
        code = moe_session_decode(o->session, o->ids[moe_session_length(o->session)], err);
    return code;
}

// The rest of the tokens, N_TOKENS of them as prompts and the others decoded: a hash of logits on the way.
static inline uint64_t finish(struct harness *t, struct opened *o)
{
    struct moe_err err = {.text = ""};
    if (moe_session_length(o->session) < N_TOKENS)
        CHECK_EQ(t, prefill(o, N_TOKENS, &err), 0);
    uint64_t hash = hash_of(7, o);
    CHECK_EQ(t, decode(o, N_TOKENS + N_DECODED, &err), 0);
    if (*err.text)
        printf("%s\n", err.text);
    return hash_of(hash, o);
}

static inline uint64_t run(struct harness *t, const struct setup *setup)
{
    struct opened o;
    uint64_t hash = open_setup(t, setup, &o) ? finish(t, &o) : 0;
    close_opened(&o);
    return hash;
}

static inline uint64_t smallest(struct harness *t, const struct setup *setup)
{
    struct opened o;
    uint64_t bytes = open_setup(t, setup, &o) ? moe_model_cache(o.model).smallest_bytes : 0;
    close_opened(&o);
    return bytes;
}

// What a driver opens with its first device, and keeps, is no test's: a device that MOECHAT_TEST_DEVICE names is opened
// once before the tests, which fail when they leave files open.
static inline void open_driver(const struct setup *setup)
{
    struct harness t = {0, 0};
    struct setup other = *setup;
    other.device = "cpu";
    if (getenv("MOECHAT_TEST_DEVICE"))
        smallest(&t, &other);
}

// Chunks and groups of a prompt, with all experts in memory and with as few as may be, and feeds that end there: the
// bits of one feed.
struct splits {
    struct {
        uint32_t chunk, group;
    } sizes[8]; // up to a chunk of 0
    uint32_t ends[5];
};
static inline uint64_t check_splits(struct harness *t, const struct setup *usual, const struct splits *splits)
{
    struct setup setup = *usual;
    struct opened o;
    struct moe_err err;
    uint64_t want = run(t, &setup), least = smallest(t, &setup);
    for (size_t c = 0; c < sizeof splits->sizes / sizeof *splits->sizes && splits->sizes[c].chunk; c++) {
        setup.session.prefill_chunk = splits->sizes[c].chunk;
        setup.session.prefill_group = splits->sizes[c].group;
        setup.cache = c % 2 ? MOE_CACHE_ALL : least;
        CHECK_EQ(t, run(t, &setup), want);
    }
    if (!open_setup(t, usual, &o))
        return want;
    for (size_t c = 0; c < sizeof splits->ends / sizeof *splits->ends; c++)
        CHECK_EQ(t, prefill(&o, splits->ends[c], &err), 0);
    CHECK_EQ(t, finish(t, &o), want);
    close_opened(&o);
    return want;
}

// Feeds of 1, 3, 64 and 65 tokens, of a prompt, each until it is read: the same logits, and the same decoded ones.
static inline void check_feeds(struct harness *t, const struct setup *usual)
{
    static const uint32_t lengths[] = {1, 3, 64, 65};
    uint64_t want = run(t, usual);
    struct opened o;
    struct moe_err err;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths && open_setup(t, usual, &o); i++) {
        for (uint32_t end = lengths[i]; end < N_TOKENS; end += lengths[i])
            CHECK_EQ(t, prefill(&o, end, &err), 0);
        if (!CHECK_EQ(t, finish(t, &o), want))
            printf("    %s on %s: feeds of %u\n", usual->directory, usual->device, (unsigned)lengths[i]);
        close_opened(&o);
    }
}

#endif
