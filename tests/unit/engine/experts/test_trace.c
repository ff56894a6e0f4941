// SPDX-License-Identifier: GPL-3.0-or-later
// Routing traces: what is written is read back, damage is told with its place, and replays count what a cache would
// hit.
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/experts/sim.h"
#include "tests/harness.h"

static const struct trace_header header = {
    .model = "a model", .n_layers = 4, .first_moe_layer = 1, .n_routed_experts = 300, .top_k = 2, .slot_bytes = 4096};

struct file {
    unsigned char bytes[8192];
    size_t length;
};

static void read_back(const char *path, struct file *file)
{
    FILE *in = fopen(path, "rb");
    file->length = in ? fread(file->bytes, 1, sizeof file->bytes, in) : 0;
    if (in)
        fclose(in);
}

// `tokens` tokens over three layers; the experts of a token are ids[token].
static bool write_trace_of(const struct trace_header *of, const char *path, const uint16_t (*ids)[2], uint32_t tokens)
{
    trace_writer *writer;
    if (trace_create(path, of, &writer, NULL))
        return false;
    bool good = true;
    for (uint32_t i = 0; i < tokens; i++) {
        for (uint32_t layer = 1; layer < 4; layer++) {
            struct trace_request request = {.layer = layer, .rows = 1, .n = 2, .ids = {ids[i][0], ids[i][1]}};
            good = good && trace_write(writer, &request, NULL) == MOE_OK;
        }
    }
    trace_finish(writer, NULL);
    return good;
}

static bool write_trace(const char *path, const uint16_t (*ids)[2], uint32_t tokens)
{
    return write_trace_of(&header, path, ids, tokens);
}

static void what_is_written_is_read(struct harness *t)
{
    char path[] = "/tmp/moechat-trace-XXXXXX";
    close(mkstemp(path));
    static const uint16_t ids[][2] = {{0, 299}, {256, 7}};
    CHECK(t, write_trace(path, ids, 2));
    struct file file;
    read_back(path, &file);
    CHECK_EQ(t, file.length, TRACE_HEADER_BYTES + 6 * (TRACE_REQUEST_BYTES + 4));
    for (size_t length = 0; length <= file.length; length++) { // cut anywhere
        struct trace_reader reader = {.bytes = file.bytes, .length = length};
        struct trace_request request;
        struct moe_err err;
        int code = trace_read_header(&reader, path, &err);
        CHECK_EQ(t, code, length < TRACE_HEADER_BYTES ? MOE_FORMAT : MOE_OK);
        if (code)
            continue;
        CHECK_STR(t, reader.header.model, "a model");
        CHECK_EQ(t, reader.header.slot_bytes, 4096);
        uint32_t n = 0;
        while (trace_next(&reader, path, &request, &err) > 0) {
            CHECK_EQ(t, request.layer, 1 + n % 3);
            CHECK_EQ(t, request.rows, 1);
            CHECK_EQ(t, request.n, 2);
            CHECK_EQ(t, request.ids[0], ids[n / 3][0]);
            CHECK_EQ(t, request.ids[1], ids[n / 3][1]);
            n++;
        }
        CHECK_EQ(t, n, (length - TRACE_HEADER_BYTES) / (TRACE_REQUEST_BYTES + 4));
        CHECK_EQ(t, reader.cut, (length - TRACE_HEADER_BYTES) % (TRACE_REQUEST_BYTES + 4) != 0);
    }
    unlink(path);
}

struct damage {
    size_t at;
    unsigned char value;
    const char *text;
};

static void damage_is_told(struct harness *t)
{
    static const struct damage cases[] = {
        {0, 'x', "is no routing trace; moechat run --trace FILE writes one"},
        {8, 2, "is a trace of another version; record it again"},
        {12, 1, "has a header that no model could have; record it again"},
        {22, 9, "has a header that no model could have; record it again"},
        {24, 0, "has a header that no model could have; record it again"},
        {64, 2, "request at byte 64: neither decoding nor prefill; record it again"},
        {65, 1, "request at byte 64: neither decoding nor prefill; record it again"},
        {66, 0, "request at byte 64: a layer without experts; record it again"},
        {66, 4, "request at byte 64: a layer without experts; record it again"},
        {72, 0, "request at byte 64: more experts than the layer has, or none; record it again"},
        {73, 9, "request at byte 64: more experts than the layer has, or none; record it again"},
        {77, 9, "request at byte 64: an expert that the layer hasn't, or one twice; record it again"},
        {76, 5, "request at byte 64: an expert that the layer hasn't, or one twice; record it again"},
    };
    char path[] = "/tmp/moechat-trace-XXXXXX";
    close(mkstemp(path));
    static const uint16_t ids[][2] = {{5, 9}};
    CHECK(t, write_trace(path, ids, 1));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct file file;
        read_back(path, &file);
        file.bytes[cases[i].at] = cases[i].value;
        struct sim_trace trace;
        struct moe_err err = {0};
        CHECK_EQ(t, sim_load(file.bytes, file.length, "T", &trace, &err), MOE_FORMAT);
        if (!CHECK(t, strstr(err.text, cases[i].text) != NULL))
            printf("    %s\n", err.text);
    }
    unlink(path);
    struct moe_err err;
    struct moe_trace_replayed replayed;
    CHECK_EQ(t, moe_trace_replay(path, &replayed, &err), MOE_NOT_FOUND);
    trace_writer *writer;
    CHECK_EQ(t, trace_create("/nowhere/trace", &header, &writer, &err), MOE_IO);
    CHECK(t, !writer && strstr(err.text, "the trace can't be made"));
    struct file kept;
    CHECK(t, write_trace(path, (const uint16_t[1][2]){{0}}, 1));
    FILE *model = fopen(path, "r+"); // any other file, as a model is
    CHECK(t, model && fputs("GGUF", model) >= 0 && fclose(model) == 0);
    CHECK_EQ(t, trace_create(path, &header, &writer, &err), MOE_IO);
    CHECK(t, strstr(err.text, "is no trace") != NULL);
    read_back(path, &kept);
    CHECK(t, kept.length > TRACE_HEADER_BYTES && memcmp(kept.bytes, "GGUFrace", 8) == 0);
    unlink(path);
    if (access("/dev/full", W_OK) == 0) {
        CHECK_EQ(t, trace_create("/dev/full", &header, &writer, &err), MOE_IO);
        CHECK(t, strstr(err.text, "leave out --trace") != NULL);
    }
}

static void replays_count_hits(struct harness *t)
{
    char path[] = "/tmp/moechat-trace-XXXXXX";
    close(mkstemp(path));
    // Tokens A B A C A B: 36 uses; all slots: the first time of each of three pairs in three layers misses.
    static const uint16_t ids[][2] = {{1, 2}, {3, 4}, {1, 2}, {5, 6}, {1, 2}, {3, 4}};
    CHECK(t, write_trace(path, ids, 6));
    struct moe_trace_replayed replayed;
    CHECK_EQ(t, moe_trace_replay(path, &replayed, NULL), MOE_OK);
    CHECK_EQ(t, replayed.tokens, 6);
    CHECK_EQ(t, replayed.decode_uses, 36);
    CHECK_EQ(t, replayed.prefill_uses, 0);
    CHECK(t, !replayed.cut);
    const struct moe_trace_row *all = &replayed.rows[replayed.n_rows - 1];
    CHECK_EQ(t, all->slots, 900);
    for (int p = 0; p < MOE_TRACE_POLICIES; p++) {
        CHECK_EQ(t, all->decode_hits[p], 36 - 18);
        for (uint32_t row = 0; row < replayed.n_rows; row++)
            CHECK(t, replayed.rows[row].decode_hits[p] <= replayed.rows[row].decode_hits[MOE_TRACE_BELADY]);
    }
    struct file file;
    read_back(path, &file);
    struct sim_trace trace;
    CHECK_EQ(t, sim_load(file.bytes, file.length, path, &trace, NULL), MOE_OK);
    struct sim_hits hits;
    // Room for two tokens: A stays for LRU too (A B | A C | A B), B and C push each other out.
    CHECK_EQ(t, sim_replay(&trace, &(struct sim_run){.kind = CACHE_LRU, .n_slots = 12}, &hits, NULL), MOE_OK);
    CHECK_EQ(t, hits.decode, 12);
    CHECK_EQ(t, sim_replay(&trace, &(struct sim_run){.kind = CACHE_LRU, .n_slots = 4}, &hits, NULL), MOE_OK);
    CHECK_EQ(t, hits.decode, 0);
    CHECK_EQ(t, sim_replay(&trace, &(struct sim_run){.kind = CACHE_BELADY, .n_slots = 4}, &hits, NULL), MOE_OK);
    CHECK(t, hits.decode > 0);
    sim_release(&trace);
    struct trace_header few = header; // of 24 experts 0, 5 and 10 % come to the same: what a token needs
    few.n_routed_experts = 8;
    CHECK(t, write_trace_of(&few, path, ids, 6));
    CHECK_EQ(t, moe_trace_replay(path, &replayed, NULL), MOE_OK);
    CHECK_EQ(t, replayed.n_rows, 10);
    CHECK_EQ(t, replayed.rows[0].slots, 2);
    for (uint32_t row = 1; row < replayed.n_rows; row++)
        CHECK(t, replayed.rows[row].slots > replayed.rows[row - 1].slots);
    unlink(path);
}

// A disk that fills up within a request, and then has room again: the trace goes on where it stopped.
static void a_full_disk_loses_nothing(struct harness *t)
{
    char path[] = "/tmp/moechat-trace-XXXXXX";
    close(mkstemp(path));
    static const uint16_t ids[][2] = {{0, 299}, {256, 7}, {1, 2}, {3, 4}};
    CHECK(t, write_trace(path, ids, 4));
    struct file want, file;
    read_back(path, &want);
    struct rlimit before, small = {TRACE_HEADER_BYTES + 17, 0};
    getrlimit(RLIMIT_FSIZE, &before);
    small.rlim_max = before.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    trace_writer *writer;
    struct moe_err err;
    CHECK_EQ(t, trace_create(path, &header, &writer, &err), MOE_OK);
    unsigned refused = 0;
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t layer = 1; layer < 4; layer++) {
            struct trace_request request = {.layer = layer, .rows = 1, .n = 2, .ids = {ids[i][0], ids[i][1]}};
            setrlimit(RLIMIT_FSIZE, &small);
            int code = trace_write(writer, &request, &err);
            setrlimit(RLIMIT_FSIZE, &before);
            if (code) {
                refused++;
                code = trace_write(writer, &request, &err);
            }
            CHECK_EQ(t, code, MOE_OK);
        }
    CHECK(t, refused > 0);
    trace_finish(writer, NULL);
    read_back(path, &file);
    CHECK_EQ(t, file.length, want.length);
    CHECK(t, memcmp(file.bytes, want.bytes, want.length) == 0);
    unlink(path);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(what_is_written_is_read),
        TEST(damage_is_told),
        TEST(a_full_disk_loses_nothing),
        TEST(replays_count_hits),
    };
    return HARNESS_RUN(tests, argc, argv);
}
