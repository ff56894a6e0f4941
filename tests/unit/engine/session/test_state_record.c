// SPDX-License-Identifier: GPL-3.0-or-later
// Records of sessions whose layers have rows of several widths and states: what comes back is what was saved, byte for
// byte, and whatever is not exactly that is refused by its own code and changes nothing.
#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "tests/harness.h"
#include "engine/session/kv_record.h"
#include "tests/states_rig.h"

enum { BASE = 6, NEXT = 9, END = BASE + NEXT };

// A file in memory; one of its calls fails. Reads come from several threads.
struct file {
    unsigned char bytes[1 << 17];
    size_t size;
    atomic_int calls;
    int trouble_at; // -1: never
};

static ptrdiff_t read_file(void *context, int fd, void *target, size_t length, uint64_t offset)
{
    struct file *f = context;
    (void)fd;
    errno = EIO;
    if (atomic_fetch_add(&f->calls, 1) == f->trouble_at)
        return -1;
    size_t left = offset < f->size ? f->size - offset : 0;
    length = length < left ? length : left;
    memcpy(target, f->bytes + offset, length);
    return (ptrdiff_t)length;
}

static ptrdiff_t write_file(void *context, int fd, const void *source, size_t length, uint64_t offset)
{
    struct file *f = context;
    (void)fd;
    errno = ENOSPC;
    if (atomic_fetch_add(&f->calls, 1) == f->trouble_at || offset + length > sizeof f->bytes)
        return -1;
    memcpy(f->bytes + offset, source, length);
    f->size = offset + length > f->size ? offset + length : f->size;
    return (ptrdiff_t)length;
}

static struct file file;
static const struct moe_record_io io = {
    .fd = -1, .path = "kv", .read = read_file, .write = write_file, .context = &file};

// A session of END tokens, saved: rows of the first BASE, rows and logits of the others, and the states after BASE and
// after END.
struct scene {
    struct rig rig;
    struct moe_record base, next, state_base, state_end;
};

static int save(struct harness *t, struct rig *rig, struct moe_record_part part, struct moe_record *record)
{
    struct moe_err err = {.text = ""};
    part.offset = file.size;
    part.block_bytes = RECORD_SMALLEST_BLOCK;
    int code = moe_session_write_record(&rig->session, &io, &part, record, &err);
    if (code)
        printf("%s\n", err.text);
    CHECK_EQ(t, code, 0);
    return code;
}

static void set_scene(struct harness *t, struct scene *s)
{
    struct moe_err err;
    file.size = 0;
    file.trouble_at = -1;
    rig_open(t, &s->rig, 4);
    rig_step(&s->rig, BASE);
    CHECK_EQ(t, session_remember(&s->rig.session, true, &err), 0);
    save(t, &s->rig, (struct moe_record_part){.count = BASE}, &s->base);
    rig_step(&s->rig, END);
    for (int i = 0; i < RIG_VOCAB; i++)
        s->rig.logits[i] = (float)i + 0.25f;
    save(t, &s->rig, (struct moe_record_part){.first = BASE, .count = NEXT, .logits = s->rig.logits}, &s->next);
    save(t, &s->rig, (struct moe_record_part){.first = BASE, .states = true}, &s->state_base); // from the copy
    save(t, &s->rig, (struct moe_record_part){.first = END, .states = true}, &s->state_end);   // of now
}

static int restore(struct rig *rig, const struct moe_record *record, struct moe_err *err)
{
    *err = (struct moe_err){.text = ""};
    return moe_session_read_record(&rig->session, &io, record, err);
}

static void all_comes_back(struct harness *t)
{
    struct scene s;
    struct rig again;
    struct moe_err err;
    set_scene(t, &s);
    CHECK(t, !s.base.has_states && !s.base.has_logits && s.next.has_logits && s.state_end.has_states);
    CHECK_EQ(t, s.state_base.count, 0);
    CHECK_EQ(t, s.state_base.first, BASE);
    rig_open(t, &again, 4);
    CHECK_EQ(t, restore(&again, &s.base, &err), 0);
    CHECK_EQ(t, moe_session_floor(&again.session, END), 0); // rows alone are no place to stand
    CHECK_EQ(t, restore(&again, &s.state_end, &err), MOE_POSITION);
    CHECK_EQ(t, restore(&again, &s.next, &err), 0);
    CHECK_EQ(t, restore(&again, &s.state_end, &err), 0);
    CHECK_EQ(t, restore(&again, &s.state_base, &err), 0);
    CHECK_EQ(t, again.session.length, END);
    CHECK_EQ(t, moe_session_floor(&again.session, END), END);
    CHECK_EQ(t, rig_cut(&again.session, END, &err), 0);
    rig_check_states(t, &again, END);
    rig_check_rows(t, &again);
    CHECK(t, again.session.has_logits && memcmp(again.logits, s.rig.logits, sizeof again.logits) == 0);
    CHECK_EQ(t, moe_session_floor(&again.session, END - 1), BASE);
    CHECK_EQ(t, rig_cut(&again.session, BASE, &err), 0);
    rig_check_states(t, &again, BASE);
    rig_check_rows(t, &again);
    rig_close(&again);
    rig_close(&s.rig);
}

// Rows, states and logits in one record; and what is saved again is the same bytes.
static void one_record_has_it_all(struct harness *t)
{
    static unsigned char first[sizeof file.bytes];
    struct scene s;
    struct rig again;
    struct moe_record whole, copy;
    struct moe_err err;
    set_scene(t, &s);
    struct moe_record_part part = {.count = END, .logits = s.rig.logits, .states = true};
    file.size = 0;
    save(t, &s.rig, part, &whole);
    CHECK_EQ(t, whole.bytes, file.size);
    memcpy(first, file.bytes, file.size);
    CHECK_EQ(t, moe_record_verify(&io, &whole, &err), 0);
    struct moe_record_info info;
    CHECK_EQ(t, moe_record_inspect(&io, 0, &info, &err), 0);
    CHECK_EQ(t, info.rows_bytes, END * 4 * (4 + 2 + 3));
    CHECK_EQ(t, info.states_bytes, 4 * (5000 + 7 + 33));
    CHECK_EQ(t, info.row_width, 0);
    rig_open(t, &again, 2);
    CHECK_EQ(t, restore(&again, &whole, &err), 0);
    CHECK_EQ(t, rig_cut(&again.session, END, &err), 0);
    rig_check_states(t, &again, END);
    rig_check_rows(t, &again);
    part.logits = again.logits;
    file.size = 0;
    save(t, &again, part, &copy);
    CHECK(t, copy.checksum == whole.checksum && file.size == whole.bytes && memcmp(first, file.bytes, file.size) == 0);
    rig_close(&again);
    rig_close(&s.rig);
}

static void states_that_were_not_kept_cannot_be_saved(struct harness *t)
{
    struct scene s;
    struct moe_err err;
    struct moe_record record;
    set_scene(t, &s);
    struct moe_record_part part = {.first = BASE + 1, .states = true};
    CHECK_EQ(t, moe_session_write_record(&s.rig.session, &io, &part, &record, &err), MOE_NOT_READY);
    CHECK_STR(t, err.text, "the states after 7 tokens were not kept");
    part = (struct moe_record_part){.first = END + 1, .states = true};
    CHECK_EQ(t, moe_session_write_record(&s.rig.session, &io, &part, &record, &err), MOE_POSITION);
    part = (struct moe_record_part){.first = BASE};
    CHECK_EQ(t, moe_session_write_record(&s.rig.session, &io, &part, &record, &err), MOE_POSITION);
    static const struct mixer_needs rows[RIG_LAYERS] = {{.rows = {4}}, {.rows = {4}}, {.rows = {4}}};
    struct rig plain;
    rig_open_with(t, &plain, 2, rows);
    rig_step(&plain, BASE);
    part = (struct moe_record_part){.count = BASE, .states = true};
    CHECK_EQ(t, moe_session_write_record(&plain.session, &io, &part, &record, &err), MOE_BAD_ARGUMENT);
    rig_close(&plain);
    rig_close(&s.rig);
}

// What a session of nothing must still be.
static void check_untouched(struct harness *t, struct rig *rig)
{
    CHECK_EQ(t, rig->session.length, 0);
    CHECK_EQ(t, rig->session.snapshots.n, 0);
    CHECK(t, !rig->session.has_logits);
}

static void no_flipped_byte_is_taken(struct harness *t)
{
    struct scene s;
    struct rig again;
    struct moe_record whole;
    struct moe_err err;
    set_scene(t, &s);
    file.size = 0;
    save(t, &s.rig, (struct moe_record_part){.count = END, .logits = s.rig.logits, .states = true}, &whole);
    rig_open(t, &again, 2);
    unsigned taken = 0, silent = 0;
    for (size_t i = 0; i < file.size; i += i < 400 ? 1 : 37) {
        file.bytes[i] ^= 0x10;
        taken += restore(&again, &whole, &err) == 0;
        silent += !err.text[0];
        file.bytes[i] ^= 0x10;
    }
    CHECK_EQ(t, taken, 0);
    CHECK_EQ(t, silent, 0);
    for (size_t size = file.size - 1; size > 0; size -= size > 1000 ? 211 : size < 7 ? 1 : 7) {
        size_t full = file.size;
        file.size = size;
        taken += restore(&again, &whole, &err) == 0;
        file.size = full;
    }
    CHECK_EQ(t, taken, 0);
    check_untouched(t, &again);
    CHECK_EQ(t, restore(&again, &whole, &err), 0);
    rig_close(&again);
    rig_close(&s.rig);
}

static void layers_of_another_model_are_refused(struct harness *t)
{
    static const struct mixer_needs others[][RIG_LAYERS] = {
        {{.rows = {4, 2}}, {.states = {5000, 8}}, {.rows = {3}, .states = {0, 33}}},
        {{.rows = {4, 2}}, {.states = {5000, 7}}, {.rows = {3}, .states = {33, 0}}},
        {{.rows = {4, 2}}, {.rows = {3}, .states = {5000, 7}}, {.states = {0, 33}}},
        {{.rows = {4, 3}}, {.states = {5000, 7}}, {.rows = {3}, .states = {0, 33}}},
        {{.rows = {4, 2}}, {.rows = {1}}, {.rows = {3}}},
        {{.rows = {4}}, {.rows = {4}}, {.rows = {4}}},
    };
    struct scene s;
    struct moe_record whole;
    struct moe_err err;
    set_scene(t, &s);
    save(t, &s.rig, (struct moe_record_part){.count = END, .states = true}, &whole);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct rig other;
        rig_open_with(t, &other, 2, others[i]);
        CHECK_EQ(t, restore(&other, &whole, &err), MOE_RECORD_SHAPE);
        CHECK_STR(t, err.text, "kv: saved from 3 layers with other rows or states than the 3 layers of this model");
        check_untouched(t, &other);
        rig_close(&other);
    }
    rig_close(&s.rig);
}

// Streams that no session of ours writes, with sums that are right.
static void impossible_streams_are_refused(struct harness *t)
{
    struct scene s;
    struct moe_err err;
    set_scene(t, &s);
    struct record_header header;
    struct record_stream streams[6];
    memcpy(&header, file.bytes + s.state_end.offset, sizeof header);
    const struct record_stream good[3] = {{1, 0, 5000, 0}, {1, 1, 7, 0}, {2, 1, 33, 0}};
    memcpy(streams, file.bytes + s.state_end.offset + sizeof header, 3 * sizeof *streams);
    CHECK(t, header.version == RECORD_STREAMS && header.n_streams == 3 && memcmp(streams, good, sizeof good) == 0);
    const struct {
        uint32_t at;
        struct record_stream stream;
    } changes[] = {
        {0, {3, 0, 5000, 0}}, // no such layer
        {0, {1, 9, 5000, 0}}, // no such part
        {0, {1, 0, 0, 0}},    {0, {1, 0, UINT32_MAX, 0}},
        {0, {1, 0, 5000, 2}}, {0, {1, 0, 5000, 1}}, // rows, and none are counted
        {1, {1, 0, 7, 0}},                          // twice
        {1, {0, 1, 7, 0}},                          // out of order
        {2, {2, 1, 33, 1}},                         // rows behind states
    };
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        memcpy(streams, good, sizeof good);
        streams[changes[i].at] = changes[i].stream;
        header.checksum = kv_record_sum(&header, streams);
        memcpy(file.bytes + s.state_end.offset, &header, sizeof header);
        memcpy(file.bytes + s.state_end.offset + sizeof header, streams, sizeof good);
        CHECK_EQ(t, restore(&s.rig, &s.state_end, &err), MOE_RECORD_DAMAGED);
        CHECK(t, strstr(err.text, "impossible values") != NULL);
    }
    header.n_streams = UINT32_MAX;
    memcpy(file.bytes + s.state_end.offset, &header, sizeof header);
    CHECK_EQ(t, restore(&s.rig, &s.state_end, &err), MOE_RECORD_DAMAGED);
    rig_check_states(t, &s.rig, END);
    rig_close(&s.rig);
}

// States of no token would be kept, and be nowhere to stand at.
static void states_after_no_token_are_refused(struct harness *t)
{
    struct scene s;
    struct rig fresh;
    struct moe_record_info info;
    struct moe_err err;
    set_scene(t, &s);
    struct record_header header;
    unsigned char *at = file.bytes + s.state_end.offset;
    memcpy(&header, at, sizeof header);
    struct record_stream streams[3];
    memcpy(streams, at + sizeof header, sizeof streams);
    header.first = 0;
    header.checksum = kv_record_sum(&header, streams);
    memcpy(at, &header, sizeof header);
    CHECK_EQ(t, moe_record_inspect(&io, s.state_end.offset, &info, &err), MOE_RECORD_DAMAGED);
    rig_open(t, &fresh, 4);
    s.state_end.first = 0;
    CHECK_EQ(t, restore(&fresh, &s.state_end, &err), MOE_RECORD_DAMAGED);
    CHECK(t, strstr(err.text, "impossible values") != NULL);
    CHECK_EQ(t, fresh.session.snapshots.n, 0);
    rig_close(&fresh);
    rig_close(&s.rig);
}

static void states_must_be_numbers(struct harness *t)
{
    struct scene s;
    struct moe_err err;
    set_scene(t, &s);
    struct gpu_error device;
    float nan = NAN;
    gpu_write(s.rig.model.gpu, memory_state(&s.rig.session.memory, 2, 1, false).from, 4 * 32, &nan, sizeof nan);
    CHECK_EQ(t, gpu_check(s.rig.model.gpu, &device), 0);
    snapshots_cut(&s.rig.session.snapshots, 0);
    struct moe_record record;
    save(t, &s.rig, (struct moe_record_part){.first = END, .states = true}, &record);
    struct rig again;
    rig_open(t, &again, 2);
    again.session.length = END;
    CHECK_EQ(t, restore(&again, &record, &err), MOE_RECORD_DAMAGED);
    CHECK_STR(t, err.text, "kv: the states saved after 15 tokens are not all finite");
    CHECK_EQ(t, again.session.snapshots.n, 0);
    rig_close(&again);
    rig_close(&s.rig);
}

// Each call once: the session is as before, and the next try is fine.
static void troubles_change_nothing(struct harness *t)
{
    struct scene s;
    struct moe_err err;
    set_scene(t, &s);
    struct moe_record record;
    struct moe_record_part part = {.offset = file.size, .first = END, .states = true, .block_bytes = 4096};
    int calls = 0;
    for (int code = 1; code; calls++) {
        file.calls = 0;
        file.trouble_at = calls;
        code = moe_session_write_record(&s.rig.session, &io, &part, &record, &err);
        CHECK(t, code == 0 || (code == MOE_IO && err.sys_errno == ENOSPC));
        rig_check_states(t, &s.rig, END);
    }
    CHECK(t, calls > 5); // blocks and header
    struct rig again;
    rig_open(t, &again, 2);
    again.session.length = END;
    calls = 0;
    for (int code = 1; code; calls++) {
        file.calls = 0;
        file.trouble_at = calls;
        code = restore(&again, &record, &err);
        CHECK(t, code == 0 || (code == MOE_IO && err.sys_errno == EIO));
        CHECK_EQ(t, again.session.snapshots.n, code == 0);
    }
    CHECK(t, calls > 7);
    CHECK_EQ(t, rig_cut(&again.session, END, &err), 0);
    rig_check_states(t, &again, END);
    rig_close(&again);
    rig_close(&s.rig);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(all_comes_back),
        TEST(one_record_has_it_all),
        TEST(states_that_were_not_kept_cannot_be_saved),
        TEST(no_flipped_byte_is_taken),
        TEST(layers_of_another_model_are_refused),
        TEST(impossible_streams_are_refused),
        TEST(states_after_no_token_are_refused),
        TEST(states_must_be_numbers),
        TEST(troubles_change_nothing),
    };
    return HARNESS_RUN(tests, argc, argv);
}
