// SPDX-License-Identifier: GPL-3.0-or-later
// Records of cache rows over a small random model: what comes back continues bit for bit as if it had never gone, and
// whatever is not exactly what was saved is refused by its own code and changes nothing.
#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "tests/harness.h"
#include "engine/session/kv_record.h"

#define MODEL_A "tests/golden/tiny-a/package"
#define MODEL_B "tests/golden/tiny-b/package" // other weights

enum { N_TOKENS = 45, N_DECODED = 6, BASE = 5, NEXT = N_TOKENS - BASE, SMALL_BLOCK = RECORD_SMALLEST_BLOCK };

static const char *const devices[] = {"ref", "cpu"};
enum { N_DEVICES = sizeof devices / sizeof devices[0] };

// A file in memory, with troubles. Reads come from several threads.
struct memory {
    unsigned char bytes[1 << 20];
    size_t size;
    size_t piece; // at most so many bytes a call; 0: all
    atomic_int calls;
    int trouble_at; // the call that fails, -1: none
    int trouble;    // its errno
    bool interrupted;
    moe_session *cancel; // cancelled at that call instead
};

static int troubled(struct memory *m)
{
    int call = atomic_fetch_add(&m->calls, 1);
    errno = m->trouble;
    if (call == m->trouble_at && m->cancel)
        moe_session_cancel(m->cancel);
    else if (call == m->trouble_at)
        return -1;
    errno = EINTR;
    return m->interrupted && call % 2 ? -1 : 0;
}

static ptrdiff_t read_memory(void *context, int fd, void *target, size_t length, uint64_t offset)
{
    struct memory *m = context;
    (void)fd;
    if (troubled(m))
        return -1;
    size_t left = offset < m->size ? m->size - offset : 0;
    if (m->piece && length > m->piece)
        length = m->piece;
    if (length > left)
        length = left;
    memcpy(target, m->bytes + offset, length);
    return (ptrdiff_t)length;
}

static ptrdiff_t write_memory(void *context, int fd, const void *source, size_t length, uint64_t offset)
{
    struct memory *m = context;
    (void)fd;
    if (troubled(m))
        return -1;
    if (m->piece && length > m->piece)
        length = m->piece;
    if (offset + length > sizeof m->bytes) {
        errno = ENOSPC;
        return -1;
    }
    memcpy(m->bytes + offset, source, length);
    m->size = offset + length > m->size ? offset + length : m->size;
    return (ptrdiff_t)length;
}

static struct memory file; // 1 MiB: too much for a stack

static struct moe_record_io file_io(void)
{
    file.trouble_at = -1;
    file.piece = 0;
    file.interrupted = false;
    file.cancel = NULL;
    atomic_store(&file.calls, 0);
    return (struct moe_record_io){.fd = -1, .path = "kv", .read = read_memory, .write = write_memory, .context = &file};
}

struct opened {
    moe_model *model;
    moe_session *session;
    uint32_t vocab;
};

struct setup {
    const char *directory;
    const char *device;
    uint64_t cache;
    struct moe_session_options session;
};

static int open_setup(struct harness *t, const struct setup *setup, struct opened *o)
{
    struct moe_model_options options = {.device = setup->device, .expert_cache_bytes = setup->cache};
    struct moe_err err;
    memset(o, 0, sizeof *o);
    if (moe_model_open(setup->directory, &options, &o->model, &err) ||
        moe_session_open(o->model, &setup->session, &o->session, &err)) {
        printf("%s on %s: %s\n", setup->directory, setup->device, err.text);
        return CHECK(t, 0);
    }
    o->vocab = moe_model_describe(o->model)->vocab_size;
    return 1;
}

static void close_opened(struct opened *o)
{
    moe_session_close(o->session);
    moe_model_close(o->model);
}

static void feed_from(struct harness *t, struct opened *o, uint32_t count, uint32_t seed)
{
    int32_t ids[N_TOKENS];
    struct moe_err err;
    for (uint32_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        ids[i] = (int32_t)((seed >> 8) % o->vocab);
    }
    struct moe_feed feed = {.ids = ids, .count = count, .position = moe_session_length(o->session)};
    CHECK_EQ(t, moe_session_prefill(o->session, &feed, &err), 0);
}

// A hash of the logits that are there.
static uint64_t logits_hash(struct harness *t, const struct opened *o)
{
    struct moe_err err;
    const float *logits = moe_session_logits(o->session, &err);
    return CHECK(t, logits != NULL) ? kv_record_checksum(logits, o->vocab * sizeof *logits) : 0;
}

// Greedy decoding from the logits that are there: a hash of all that follow. Leaves the session as long as it was, but
// without logits.
static uint64_t decode_hash(struct harness *t, struct opened *o)
{
    struct moe_err err;
    uint64_t hashes[N_DECODED + 1] = {logits_hash(t, o)};
    uint32_t length = moe_session_length(o->session);
    moe_sampler *greedy = moe_sampler_new(&(struct moe_sampling){.top_p = 1, .repetition_penalty = 1}, o->vocab);
    for (int i = 0; i < N_DECODED; i++) {
        const float *logits = moe_session_logits(o->session, &err);
        int32_t id = logits ? moe_sample(greedy, logits, NULL, 0) : 0;
        CHECK_EQ(t, moe_session_decode(o->session, id, &err), 0);
        hashes[i + 1] = logits_hash(t, o);
    }
    moe_sampler_free(greedy);
    CHECK_EQ(t, moe_session_truncate(o->session, length, &err), 0);
    return kv_record_checksum(hashes, sizeof hashes);
}

// Writes rows [first, first + count) behind what the file holds; the last token's logits too when it ends there.
static struct moe_record append(struct harness *t, struct opened *o, uint32_t first, uint32_t count)
{
    struct moe_record_io io = file_io();
    struct moe_record record = {0};
    struct moe_err err;
    bool last = first + count == moe_session_length(o->session);
    struct moe_record_part part = {.offset = file.size,
                                   .first = first,
                                   .count = count,
                                   .logits = last ? moe_session_logits(o->session, &err) : NULL,
                                   .block_bytes = SMALL_BLOCK};
    if (!CHECK_EQ(t, moe_session_write_record(o->session, &io, &part, &record, &err), 0))
        printf("%s\n", err.text);
    CHECK(t, record.offset == part.offset && record.offset + record.bytes == file.size);
    CHECK(t, record.first == first && record.count == count && record.has_logits == last);
    return record;
}

static int restore(struct opened *o, const struct moe_record *record, struct moe_err *err)
{
    struct moe_record_io io = file_io();
    return moe_session_read_record(o->session, &io, record, err);
}

// Parts of one row, of seven, across chunks and blocks; on every device, of both row types, into any expert cache.
static void restored_goes_on_bit_for_bit(struct harness *t)
{
    static const uint32_t ends[] = {1, 8, 9, 30, N_TOKENS};
    enum { PARTS = sizeof ends / sizeof ends[0] };
    for (int round = 0; round < N_DEVICES * 2; round++) {
        struct setup setup = {MODEL_A, devices[round / 2], MOE_CACHE_ALL, {.prefill_chunk = 16}};
        setup.session.kv_type = round % 2 ? MOE_KV_F16 : MOE_KV_F32;
        struct moe_record records[PARTS];
        struct opened o;
        struct moe_err err;
        if (!open_setup(t, &setup, &o))
            continue;
        feed_from(t, &o, N_TOKENS, 1);
        file.size = 77; // a record may begin anywhere
        for (int i = 0; i < PARTS; i++)
            records[i] = append(t, &o, i ? ends[i - 1] : 0, ends[i] - (i ? ends[i - 1] : 0));
        uint64_t smallest = moe_model_cache(o.model).smallest_bytes;
        uint64_t want = decode_hash(t, &o);
        feed_from(t, &o, 20, 2);
        uint64_t want_after = decode_hash(t, &o);
        close_opened(&o);
        for (int cache = 0; cache < 2; cache++) {
            setup.cache = cache ? smallest : MOE_CACHE_ALL;
            setup.session.max_context = N_TOKENS + 20 + N_DECODED;
            if (!open_setup(t, &setup, &o))
                continue;
            for (int i = 0; i < PARTS; i++) {
                CHECK_EQ(t, restore(&o, &records[i], &err), 0);
                CHECK_EQ(t, moe_session_length(o.session), ends[i]);
                CHECK(t, (moe_session_logits(o.session, &err) != NULL) == (i == PARTS - 1));
            }
            CHECK_EQ(t, decode_hash(t, &o), want);
            feed_from(t, &o, 20, 2);
            CHECK_EQ(t, decode_hash(t, &o), want_after);
            struct moe_stats stats = moe_session_stats(o.session);
            CHECK_EQ(t, stats.prefilled_tokens, 20);
            close_opened(&o);
        }
    }
}

// An answer is taken back and given again from the logits before it, kept by the caller or by the record.
static void retry_needs_no_prefill(struct harness *t)
{
    struct setup setup = {MODEL_A, "cpu", MOE_CACHE_ALL, {0}};
    struct opened o;
    struct moe_err err;
    if (!open_setup(t, &setup, &o))
        return;
    file.size = 0;
    feed_from(t, &o, 30, 1);
    struct moe_record user = append(t, &o, 0, 30);
    float *kept = malloc(o.vocab * sizeof *kept);
    memcpy(kept, moe_session_logits(o.session, &err), o.vocab * sizeof *kept);
    uint64_t want = decode_hash(t, &o);
    CHECK(t, moe_session_logits(o.session, &err) == NULL);
    moe_session_set_logits(o.session, kept);
    CHECK_EQ(t, decode_hash(t, &o), want);
    // A record of the part may still be written when its logits are no longer the session's.
    struct moe_record_io io = file_io();
    struct moe_record_part part = {.offset = file.size, .count = 30, .logits = kept};
    struct moe_record late;
    feed_from(t, &o, 5, 2);
    CHECK_EQ(t, moe_session_write_record(o.session, &io, &part, &late, &err), 0);
    CHECK_EQ(t, moe_session_truncate(o.session, 0, &err), 0);
    CHECK_EQ(t, restore(&o, &late, &err), 0);
    CHECK_EQ(t, decode_hash(t, &o), want);
    CHECK_EQ(t, moe_session_read_logits(o.session, &io, &user, &err), 0);
    CHECK_EQ(t, moe_session_length(o.session), 30);
    CHECK_EQ(t, decode_hash(t, &o), want);
    CHECK_EQ(t, moe_session_truncate(o.session, 29, &err), 0);
    CHECK_EQ(t, moe_session_read_logits(o.session, &io, &user, &err), MOE_POSITION);
    CHECK_EQ(t, moe_session_truncate(o.session, 0, &err), 0);
    moe_session_set_logits(o.session, kept);
    CHECK(t, moe_session_logits(o.session, &err) == NULL);
    free(kept);
    close_opened(&o);
}

static void cut_regrown_and_appended(struct harness *t)
{
    for (int d = 0; d < N_DEVICES; d++) {
        struct setup setup = {MODEL_A, devices[d], MOE_CACHE_ALL, {0}};
        struct opened o;
        struct moe_err err;
        if (!open_setup(t, &setup, &o))
            continue;
        file.size = 0;
        feed_from(t, &o, 40, 1);
        struct moe_record first = append(t, &o, 0, 20);
        struct moe_record undone = append(t, &o, 20, 20);
        CHECK_EQ(t, moe_session_truncate(o.session, 20, &err), 0);
        feed_from(t, &o, 15, 2);
        file.size = undone.offset;
        struct moe_record second = append(t, &o, 20, 15);
        uint64_t want = decode_hash(t, &o);
        CHECK_EQ(t, moe_session_truncate(o.session, 0, &err), 0);
        feed_from(t, &o, 11, 3); // the rows must not have stayed
        CHECK_EQ(t, moe_session_truncate(o.session, 0, &err), 0);
        CHECK_EQ(t, restore(&o, &first, &err), 0);
        CHECK_EQ(t, restore(&o, &undone, &err), MOE_RECORD_OTHER);
        CHECK_EQ(t, restore(&o, &second, &err), 0);
        CHECK_EQ(t, decode_hash(t, &o), want);
        close_opened(&o);
    }
}

static struct record_header *header_at(const struct moe_record *record)
{
    return (struct record_header *)(void *)(file.bytes + record->offset);
}

// A session of BASE tokens, and a record of what follows that belongs to it.
struct scene {
    struct opened o;
    struct moe_record base, next;
    uint64_t logits; // of those
    uint64_t want;   // of decoding after the record
};

static int set_scene(struct harness *t, const char *device, struct scene *scene)
{
    struct setup setup = {MODEL_A, device, MOE_CACHE_ALL, {.max_context = N_TOKENS + N_DECODED}};
    struct moe_err err;
    if (!open_setup(t, &setup, &scene->o))
        return 0;
    file.size = 0;
    feed_from(t, &scene->o, BASE, 1);
    scene->logits = logits_hash(t, &scene->o);
    scene->base = append(t, &scene->o, 0, BASE);
    feed_from(t, &scene->o, NEXT, 2);
    scene->next = append(t, &scene->o, BASE, NEXT);
    scene->want = decode_hash(t, &scene->o);
    CHECK_EQ(t, moe_session_truncate(scene->o.session, 0, &err), 0);
    return CHECK_EQ(t, restore(&scene->o, &scene->base, &err), 0);
}

// The record was refused for `want`, in one line, and the session is what it was.
static void check_refused(struct harness *t, struct scene *scene, int code, int want, const struct moe_err *err)
{
    if (!CHECK_EQ(t, code, want))
        printf("%s\n", code ? err->text : "taken");
    CHECK(t, (int)err->code == code && err->text[0] && !strchr(err->text, '\n'));
    CHECK_EQ(t, moe_session_length(scene->o.session), BASE);
    CHECK_EQ(t, logits_hash(t, &scene->o), scene->logits);
}

// After all refusals the record itself is taken, and goes on as it should.
static void end_scene(struct harness *t, struct scene *scene)
{
    struct moe_err err;
    CHECK_EQ(t, restore(&scene->o, &scene->next, &err), 0);
    CHECK_EQ(t, decode_hash(t, &scene->o), scene->want);
    close_opened(&scene->o);
}

static void changed_header_is_refused(struct harness *t)
{
    struct scene scene;
    struct moe_err err;
    if (!set_scene(t, "ref", &scene))
        return;
    struct record_header *header = header_at(&scene.next);
    const struct record_header whole = *header;
    const struct {
        uint32_t *field;
        uint32_t value;
        int code;
        bool sealed;
    } changes[] = {
        {&header->version, 0, MOE_RECORD_OLDER, false},
        {&header->version, RECORD_STREAMS + 1, MOE_RECORD_NEWER, false},
        {&header->kv_type, MOE_KV_F16, MOE_RECORD_KV_TYPE, true},
        {&header->kv_type, 2, MOE_RECORD_DAMAGED, true},
        {&header->n_layers, whole.n_layers - 1, MOE_RECORD_SHAPE, true},
        {&header->row_width, whole.row_width + 1, MOE_RECORD_SHAPE, true},
        {&header->row_width, 1, MOE_RECORD_SHAPE, true},
        {&header->row_width, 0, MOE_RECORD_DAMAGED, true},
        {&header->n_layers, 1, MOE_RECORD_SHAPE, true},
        {&header->n_layers, 0, MOE_RECORD_DAMAGED, true},
        {&header->vocab_size, whole.vocab_size - 1, MOE_RECORD_SHAPE, true},
        {&header->vocab_size, 0, MOE_RECORD_OTHER, true},
        {&header->first, BASE - 1, MOE_RECORD_OTHER, true},
        {&header->count, NEXT - 1, MOE_RECORD_OTHER, true},
        {&header->count, 0, MOE_RECORD_DAMAGED, true},
        {&header->count, UINT32_MAX, MOE_RECORD_DAMAGED, true},
        {&header->n_layers, UINT32_MAX, MOE_RECORD_DAMAGED, true},
        {&header->block_bytes, 0, MOE_RECORD_DAMAGED, true},
        {&header->block_bytes, 5000, MOE_RECORD_DAMAGED, true},
        {&header->block_bytes, 8192, MOE_RECORD_OTHER, true},
        {&header->first, BASE - 1, MOE_RECORD_DAMAGED, false},
        {(uint32_t *)(void *)header->fingerprint, 0x30303030, MOE_RECORD_WEIGHTS, true},
        {(uint32_t *)(void *)header->fingerprint, 0x30300a30, MOE_RECORD_DAMAGED, true},
        {(uint32_t *)(void *)header->magic, 0x30303030, MOE_RECORD_DAMAGED, true},
    };
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        *changes[i].field = changes[i].value;
        if (changes[i].sealed)
            header->checksum = kv_record_sum(header, NULL);
        check_refused(t, &scene, restore(&scene.o, &scene.next, &err), changes[i].code, &err);
        CHECK_STR(t, err.file, "kv");
        *header = whole;
    }
    end_scene(t, &scene);
}

static void sessions_of_another_kind_refuse(struct harness *t)
{
    struct scene scene;
    struct moe_err err;
    if (!set_scene(t, "cpu", &scene))
        return;
    const struct {
        struct setup setup;
        int code;
    } others[] = {
        {{MODEL_B, "cpu", MOE_CACHE_ALL, {0}}, MOE_RECORD_WEIGHTS},
        {{MODEL_A, "cpu", MOE_CACHE_ALL, {.kv_type = MOE_KV_F16}}, MOE_RECORD_KV_TYPE},
        {{MODEL_A, "cpu", MOE_CACHE_ALL, {.max_context = BASE - 1}}, MOE_CONTEXT_FULL},
        {{MODEL_A, "cpu", MOE_CACHE_ALL, {.max_context = BASE}}, 0},
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct opened o;
        if (!open_setup(t, &others[i].setup, &o))
            continue;
        CHECK_EQ(t, restore(&o, &scene.base, &err), others[i].code);
        CHECK_EQ(t, moe_session_length(o.session), others[i].code ? 0 : BASE);
        close_opened(&o);
    }
    struct moe_record record = scene.next;
    record.first = BASE - 1;
    check_refused(t, &scene, restore(&scene.o, &record, &err), MOE_POSITION, &err);
    check_refused(t, &scene, restore(&scene.o, &scene.base, &err), MOE_POSITION, &err);
    record = scene.next;
    record.checksum++;
    check_refused(t, &scene, restore(&scene.o, &record, &err), MOE_RECORD_OTHER, &err);
    record = scene.next;
    record.count = UINT32_MAX;
    check_refused(t, &scene, restore(&scene.o, &record, &err), MOE_CONTEXT_FULL, &err);
    record = scene.next;
    static const uint64_t far[] = {UINT64_MAX - 8, INT64_MAX, INT64_MAX / 2 + 1};
    for (size_t i = 0; i < sizeof far / sizeof far[0]; i++) {
        record.offset = far[i];
        check_refused(t, &scene, restore(&scene.o, &record, &err), MOE_BAD_ARGUMENT, &err);
        CHECK(t, strstr(err.text, "is beyond any file") != NULL);
    }
    end_scene(t, &scene);
}

static void cut_files_are_refused(struct harness *t)
{
    struct scene scene;
    struct moe_err err;
    if (!set_scene(t, "ref", &scene))
        return;
    size_t size = file.size;
    for (size_t left = 0; left < scene.next.bytes; left += left < 300 ? 1 : 97) {
        file.size = scene.next.offset + left;
        check_refused(t, &scene, restore(&scene.o, &scene.next, &err), MOE_RECORD_TRUNCATED, &err);
        CHECK(t, err.offset >= file.size);
    }
    file.size = size;
    end_scene(t, &scene);
}

// Every byte of a small record is under some checksum.
static void no_flipped_byte_is_taken(struct harness *t)
{
    struct scene scene;
    struct moe_err err;
    if (!set_scene(t, "ref", &scene))
        return;
    CHECK_EQ(t, restore(&scene.o, &scene.next, &err), 0);
    CHECK_EQ(t, moe_session_truncate(scene.o.session, BASE + 7, &err), 0);
    struct moe_record_io io = file_io();
    struct moe_record_part part = {.offset = file.size, .first = BASE, .count = 7, .block_bytes = SMALL_BLOCK};
    part.logits = calloc(scene.o.vocab, sizeof *part.logits);
    struct moe_record small;
    CHECK_EQ(t, moe_session_write_record(scene.o.session, &io, &part, &small, &err), 0);
    free((void *)(uintptr_t)part.logits);
    CHECK_EQ(t, moe_session_truncate(scene.o.session, 0, &err), 0);
    CHECK_EQ(t, restore(&scene.o, &scene.base, &err), 0);
    int taken = 0;
    int damaged = 0;
    for (size_t i = 0; i < small.bytes; i++) {
        unsigned char *byte = &file.bytes[small.offset + i];
        unsigned char before = *byte;
        *byte ^= (unsigned char)(1u << i % 8);
        int code = restore(&scene.o, &small, &err);
        taken += code == 0;
        damaged += code == MOE_RECORD_DAMAGED && err.offset >= small.offset && err.offset <= small.offset + i;
        *byte = before;
    }
    CHECK_EQ(t, taken, 0);
    CHECK_EQ(t, damaged, small.bytes - 4); // all but the version's bytes
    check_refused(t, &scene, MOE_RECORD_DAMAGED, MOE_RECORD_DAMAGED, &err);
    CHECK_EQ(t, restore(&scene.o, &small, &err), 0);
    CHECK_EQ(t, moe_session_truncate(scene.o.session, 0, &err), 0);
    CHECK_EQ(t, restore(&scene.o, &scene.base, &err), 0);
    end_scene(t, &scene);
}

// Logits that no sound session had, under checksums that are right.
static void logits_must_be_numbers(struct harness *t)
{
    struct scene scene;
    struct moe_err err;
    if (!set_scene(t, "ref", &scene))
        return;
    struct moe_record_io io = file_io();
    struct moe_record record;
    float *logits = calloc(scene.o.vocab, sizeof *logits);
    logits[scene.o.vocab - 1] = NAN;
    struct moe_record_part part = {.offset = file.size, .count = BASE, .logits = logits};
    CHECK_EQ(t, moe_session_write_record(scene.o.session, &io, &part, &record, &err), 0);
    check_refused(t, &scene, moe_session_read_logits(scene.o.session, &io, &record, &err), MOE_RECORD_DAMAGED, &err);
    part.logits = NULL;
    part.offset += record.bytes;
    CHECK_EQ(t, moe_session_write_record(scene.o.session, &io, &part, &record, &err), 0);
    check_refused(t, &scene, moe_session_read_logits(scene.o.session, &io, &record, &err), MOE_NOT_READY, &err);
    free(logits);
    // Rows without logits after a token that had some: there are none now.
    CHECK_EQ(t, restore(&scene.o, &scene.next, &err), 0);
    part = (struct moe_record_part){.offset = file.size, .first = BASE, .count = 3};
    CHECK_EQ(t, moe_session_write_record(scene.o.session, &io, &part, &record, &err), 0);
    CHECK_EQ(t, moe_session_truncate(scene.o.session, 0, &err), 0);
    CHECK_EQ(t, restore(&scene.o, &scene.base, &err), 0);
    CHECK(t, moe_session_logits(scene.o.session, &err) != NULL);
    CHECK_EQ(t, restore(&scene.o, &record, &err), 0);
    CHECK(t, moe_session_logits(scene.o.session, &err) == NULL && err.code == MOE_NOT_READY);
    CHECK_EQ(t, moe_session_truncate(scene.o.session, BASE, &err), 0);
    end_scene(t, &scene);
}

// Every read of a restore fails once, or cancels; reads of seven bytes and interrupted ones succeed.
static void troubled_reads(struct harness *t)
{
    for (int d = 0; d < N_DEVICES; d++) {
        struct scene scene;
        struct moe_err err;
        if (!set_scene(t, devices[d], &scene))
            continue;
        struct moe_record_io io = file_io();
        CHECK_EQ(t, moe_session_read_record(scene.o.session, &io, &scene.next, &err), 0);
        int reads = atomic_load(&file.calls);
        CHECK_EQ(t, moe_session_truncate(scene.o.session, 0, &err), 0);
        CHECK_EQ(t, restore(&scene.o, &scene.base, &err), 0);
        CHECK(t, reads > 2 + RECORD_STAGES);
        for (int at = 0; at < reads; at++) {
            io = file_io();
            file.trouble_at = at;
            file.trouble = EIO;
            int code = moe_session_read_record(scene.o.session, &io, &scene.next, &err);
            check_refused(t, &scene, code, MOE_IO, &err);
            CHECK(t, err.sys_errno == EIO && err.offset >= scene.next.offset && strstr(err.text, "error"));
            io = file_io();
            file.trouble_at = at;
            file.cancel = scene.o.session;
            code = moe_session_read_record(scene.o.session, &io, &scene.next, &err);
            check_refused(t, &scene, code, MOE_CANCELLED, &err);
            moe_session_resume(scene.o.session);
        }
        io = file_io();
        file.piece = 7;
        file.interrupted = true;
        CHECK_EQ(t, moe_session_read_record(scene.o.session, &io, &scene.next, &err), 0);
        CHECK_EQ(t, decode_hash(t, &scene.o), scene.want);
        CHECK_EQ(t, moe_session_truncate(scene.o.session, 0, &err), 0);
        CHECK_EQ(t, restore(&scene.o, &scene.base, &err), 0);
        end_scene(t, &scene);
    }
}

// Every write fails once: what is left is never taken for a record, and what lies before it is untouched.
static void troubled_writes(struct harness *t)
{
    struct scene scene;
    struct moe_err err;
    if (!set_scene(t, "cpu", &scene))
        return;
    CHECK_EQ(t, restore(&scene.o, &scene.next, &err), 0);
    uint64_t logits = logits_hash(t, &scene.o);
    struct moe_record record;
    struct moe_record_part part = {.offset = scene.next.offset,
                                   .first = BASE,
                                   .count = NEXT,
                                   .logits = moe_session_logits(scene.o.session, &err),
                                   .block_bytes = SMALL_BLOCK};
    for (size_t piece = 0; piece <= 1000; piece += 1000) {
        int writes = 1;
        for (int at = 0; at < writes; at++) {
            struct moe_record_io io = file_io();
            memset(file.bytes + part.offset, 0, sizeof file.bytes - part.offset);
            file.size = part.offset;
            file.piece = piece;
            CHECK_EQ(t, moe_session_write_record(scene.o.session, &io, &part, &record, &err), 0);
            CHECK(t, record.checksum == scene.next.checksum && record.bytes == scene.next.bytes);
            writes = atomic_load(&file.calls);
            memset(file.bytes + part.offset, 0, sizeof file.bytes - part.offset);
            io = file_io();
            file.piece = piece;
            file.trouble_at = at;
            file.trouble = ENOSPC;
            CHECK_EQ(t, moe_session_write_record(scene.o.session, &io, &part, &record, &err), MOE_IO);
            CHECK(t, err.sys_errno == ENOSPC && err.offset >= part.offset && strstr(err.text, "space"));
            CHECK_EQ(t, moe_session_length(scene.o.session), N_TOKENS);
            CHECK_EQ(t, logits_hash(t, &scene.o), logits);
            io = file_io();
            CHECK(t, moe_record_verify(&io, &scene.next, &err) >= MOE_RECORD_WEIGHTS);
            CHECK_EQ(t, moe_record_verify(&io, &scene.base, &err), 0);
        }
        CHECK(t, writes >= 8);
    }
    struct moe_record_io io = file_io();
    file.interrupted = true;
    CHECK_EQ(t, moe_session_write_record(scene.o.session, &io, &part, &record, &err), 0);
    CHECK_EQ(t, decode_hash(t, &scene.o), scene.want);
    CHECK_EQ(t, moe_session_truncate(scene.o.session, BASE, &err), 0);
    end_scene(t, &scene);
}

static void bad_parts_are_refused(struct harness *t)
{
    struct scene scene;
    struct moe_err err;
    if (!set_scene(t, "ref", &scene))
        return;
    const struct {
        struct moe_record_part part;
        int code;
    } bad[] = {
        {{.first = 0, .count = 0}, MOE_POSITION},
        {{.first = 0, .count = BASE + 1}, MOE_POSITION},
        {{.first = BASE + 1, .count = 1}, MOE_POSITION},
        {{.first = 5, .count = UINT32_MAX}, MOE_POSITION},
        {{.count = BASE, .block_bytes = 1}, MOE_BAD_ARGUMENT},
        {{.count = BASE, .block_bytes = 5000}, MOE_BAD_ARGUMENT},
        {{.count = BASE, .block_bytes = 8 << 20}, MOE_BAD_ARGUMENT},
        {{.count = BASE, .offset = UINT64_MAX - 5}, MOE_BAD_ARGUMENT},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct moe_record_io io = file_io();
        struct moe_record record;
        CHECK_EQ(t, moe_session_write_record(scene.o.session, &io, &bad[i].part, &record, &err), bad[i].code);
        CHECK_EQ(t, atomic_load(&file.calls), 0);
    }
    end_scene(t, &scene);
}

struct seen {
    uint64_t done, total;
    int calls;
};

static void see(void *context, const struct moe_progress *progress)
{
    struct seen *seen = context;
    seen->calls += progress->done > seen->done && progress->done <= progress->total;
    seen->done = progress->done;
    seen->total = progress->total;
}

// Inspecting and verifying need no model; a record may lie elsewhere; progress ends with the whole.
static void records_stand_alone(struct harness *t)
{
    struct scene scene;
    struct moe_err err;
    if (!set_scene(t, "ref", &scene))
        return;
    struct moe_record_io io = file_io();
    struct seen seen = {0, 0, 0};
    struct moe_record_info info;
    struct moe_record copy = scene.next;
    io.progress = see;
    io.progress_context = &seen;
    copy.offset = file.size + 13;
    memcpy(file.bytes + copy.offset, file.bytes + scene.next.offset, copy.bytes);
    file.size = copy.offset + copy.bytes;
    CHECK_EQ(t, moe_record_verify(&io, &copy, &err), 0);
    CHECK(t, seen.calls > RECORD_STAGES && seen.done == seen.total && seen.total > copy.bytes * 9 / 10);
    CHECK_EQ(t, moe_record_inspect(&io, copy.offset, &info, &err), 0);
    CHECK(t, memcmp(&info.record, &copy, sizeof copy) == 0);
    CHECK_STR(t, info.fingerprint, moe_model_describe(scene.o.model)->fingerprint);
    CHECK(t, info.kv_type == MOE_KV_F32 && info.n_layers == 3 && info.row_width == 80 && info.vocab_size == 320);
    seen = (struct seen){0, 0, 0};
    CHECK_EQ(t, moe_session_read_record(scene.o.session, &io, &copy, &err), 0);
    CHECK(t, seen.calls > RECORD_STAGES && seen.done == seen.total);
    CHECK_EQ(t, decode_hash(t, &scene.o), scene.want);
    file.bytes[copy.offset + copy.bytes - 1] ^= 1;
    CHECK_EQ(t, moe_record_verify(&io, &copy, &err), MOE_RECORD_DAMAGED);
    CHECK(t, strstr(err.text, "block 11 of 11 (1280 bytes") != NULL);
    CHECK_EQ(t, moe_record_inspect(&io, copy.offset - 1, &info, &err), MOE_RECORD_DAMAGED);
    CHECK_EQ(t, moe_record_inspect(&io, file.size, &info, &err), MOE_RECORD_TRUNCATED);
    CHECK_EQ(t, moe_session_truncate(scene.o.session, BASE, &err), 0);
    end_scene(t, &scene);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(restored_goes_on_bit_for_bit),
        TEST(retry_needs_no_prefill),
        TEST(cut_regrown_and_appended),
        TEST(changed_header_is_refused),
        TEST(sessions_of_another_kind_refuse),
        TEST(cut_files_are_refused),
        TEST(no_flipped_byte_is_taken),
        TEST(logits_must_be_numbers),
        TEST(troubled_reads),
        TEST(troubled_writes),
        TEST(bad_parts_are_refused),
        TEST(records_stand_alone),
    };
    return HARNESS_RUN(tests, argc, argv);
}
