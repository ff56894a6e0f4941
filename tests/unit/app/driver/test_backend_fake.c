// SPDX-License-Identifier: GPL-3.0-or-later
// The script that plays a model: what each of its lines does, which lines are none, and the records of what it played.
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "app/driver/backend.h"
#include "app/util/files.h"
#include "app/util/format.h"
#include "tests/harness.h"

enum { MOST_IDS = 64, END_OF_PROMPT = 258 + TOK_ASSISTANT, USER = 258 + TOK_USER };

// Progress as far as it came.
struct heard {
    unsigned calls;
    uint64_t done, total;
};

static void hear(void *context, const struct moe_progress *progress)
{
    struct heard *heard = context;
    heard->calls++;
    heard->done = progress->done;
    heard->total = progress->total;
}

static bool make(const char *script, struct backend *backend, struct moe_err *err)
{
    char name[] = "/tmp/moechat-script-XXXXXX";
    int fd = mkstemp(name);
    files_write(fd, script, strlen(script));
    close(fd);
    bool made = backend_fake_new(backend, name, err);
    unlink(name);
    return made;
}

// The model that the script plays, open. NULL ops: it is not, which is a failure of the test.
static struct backend open_script(struct harness *t, const char *script)
{
    struct backend backend = {.ops = NULL};
    static struct heard unheard;
    struct moe_err err = {.text = ""};
    if (!CHECK(t, make(script, &backend, &err)) ||
        !CHECK_EQ(t, backend.ops->open(backend.self, hear, &unheard, &err), 0))
        printf("    %s\n", err.text);
    return backend;
}

// What follows `message`, until the answer's end or so many tokens; text: NUL-terminated. Returns its tokens.
static unsigned answer(struct harness *t, const struct backend *backend, const char *message, struct bytes *text)
{
    struct moe_err err;
    struct tok_turn turn = {TOK_USER, message, strlen(message)};
    struct tok_ids ids = {0};
    size_t end;
    unsigned n = 0;
    struct backend_prompt prompt = {.turns = &turn, .n_turns = 1, .begin = backend->ops->length(backend->self) == 0};
    CHECK_EQ(t, backend->ops->encode(backend->self, &prompt, &ids, &end, &err), 0);
    CHECK_EQ(t, backend->ops->prefill(backend->self, ids.ids, ids.count, NULL, &err), 0);
    text->length = 0;
    bytes_append(text, "", 0);
    for (; n < MOST_IDS; n++) {
        int32_t id = backend->ops->sample(backend->self, NULL, 0);
        const char *bytes;
        if (backend->ops->is_end(backend->self, id))
            break;
        size_t length = backend->ops->bytes(backend->self, id, &bytes);
        bytes_append(text, bytes, length);
        CHECK_EQ(t, backend->ops->decode(backend->self, id, &err), 0);
    }
    CHECK_EQ(t, backend->ops->decode(backend->self, backend->ops->end_id(backend->self, false), &err), 0);
    tok_ids_release(&ids);
    return n;
}

static void says_of_itself_what_the_script_says(struct harness *t)
{
    struct backend_info info;
    struct backend backend = open_script(t, "");
    backend.ops->describe(backend.self, &info);
    CHECK_STR(t, info.name, "fake");
    CHECK(t, info.max_context == 4096 && info.context_limit == 0 && info.cache.state_bytes == 0);
    CHECK(t, !info.turns.can_switch);
    CHECK(t, backend.ops->close(backend.self));
    backend = open_script(t, "name A model\ncontext 100\nroom 300\nstates 1\nthinks\n# a remark\n\n");
    backend.ops->describe(backend.self, &info);
    CHECK_STR(t, info.name, "A model");
    CHECK(t, info.max_context == 100 && info.context_limit == 300 && info.cache.state_bytes == 1);
    CHECK(t, info.turns.can_switch && info.turns.forgets);
    backend.ops->make_room(backend.self, 10); // and what the engine adds is beyond its limit
    backend.ops->describe(backend.self, &info);
    CHECK_EQ(t, info.max_context, 300);
    backend.ops->close(backend.self);
}

static void what_is_no_line_is_refused_with_its_number(struct harness *t)
{
    static const struct {
        const char *script, *line;
    } wrong[] = {
        {"tune\n", "line 1 "},
        {"turn\n\ntekst a\n", "line 3 "},
        {"context 0\n", "line 1 "},
        {"room 0", "line 1 "},
        {"turn\nstates 0\n", "line 2 "},
        {"states\n", "line 1 "},
        {"experts 0 8 1\n", "line 1 "},
        {"experts 65 8 1\n", "line 1 "},
        {"experts 1 0 1\n", "line 1 "},
        {"experts 1 1025 1\n", "line 1 "},
        {"experts 1 8 0\n", "line 1 "},
        {"experts 1 8 17\n", "line 1 "},
        {"repeat 1048577 a\n", "line 1 "}, // more than a script may have
    };
    struct backend backend;
    struct moe_err err;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        if (!CHECK(t, !make(wrong[i].script, &backend, &err)))
            printf("    %s\n", wrong[i].script);
        CHECK(t, err.code == MOE_FORMAT && strstr(err.text, wrong[i].line));
    }
    CHECK(t, !backend_fake_new(&backend, "/nowhere/at/all", &err));
    CHECK(t, err.code == MOE_NOT_FOUND && strstr(err.text, "/nowhere/at/all: "));
    backend = open_script(t, "experts 64 1024 16\ncontext 1\nroom 1\nstates 1\nrepeat 0 a\n");
    backend.ops->close(backend.self);
}

static void answers_are_played_in_turn(struct harness *t)
{
    struct backend backend = open_script(t, "turn\ntext Two  words\ntoken  a \\n\\t\\e\\\\\\x41.\nrepeat 3 ab\n"
                                            "turn\necho\nturn\ntoken <\nsystem\ntoken >\ncontext 4000\n");
    struct bytes text = {0};
    CHECK_EQ(t, answer(t, &backend, "hi", &text), 6);
    CHECK_STR(t, text.data, "Two  words a \n\t\033\\A.ababab");
    CHECK_EQ(t, answer(t, &backend, "\xc3\xa9!", &text), 3); // a token for each byte
    CHECK_STR(t, text.data, "\xc3\xa9!");
    CHECK_EQ(t, answer(t, &backend, "and", &text), 2); // there is no system message
    CHECK_STR(t, text.data, "<>");
    CHECK_EQ(t, answer(t, &backend, "again", &text), 6); // behind the last comes the first
    bytes_release(&text);
    backend.ops->close(backend.self);
}

static void errors_come_once_and_waits_end_when_they_are_cancelled(struct harness *t)
{
    struct backend backend = open_script(t, "turn\ntoken a\nerror the disk\ntoken b\nhang\ntoken c\n");
    struct moe_err err;
    CHECK_EQ(t, backend.ops->prefill(backend.self, (int32_t[]){USER, 'x', END_OF_PROMPT}, 3, NULL, &err), 0);
    int32_t id = backend.ops->sample(backend.self, NULL, 0);
    CHECK_EQ(t, backend.ops->decode(backend.self, id, &err), MOE_IO);
    CHECK_STR(t, err.text, "the disk");
    CHECK_EQ(t, backend.ops->length(backend.self), 3);
    CHECK_EQ(t, backend.ops->decode(backend.self, id, &err), 0);
    backend.ops->cancel(backend.self);
    id = backend.ops->sample(backend.self, NULL, 0);
    CHECK_EQ(t, backend.ops->decode(backend.self, id, &err), MOE_CANCELLED);
    backend.ops->resume(backend.self);
    CHECK_EQ(t, backend.ops->decode(backend.self, id, &err), 0); // an answer that was stopped does not hang any more
    CHECK_EQ(t, backend.ops->length(backend.self), 5);
    backend.ops->close(backend.self);
}

static void time_passes_where_the_script_says(struct harness *t)
{
    struct backend backend;
    struct heard heard = {0};
    struct moe_err err;
    struct bytes text = {0};
    uint64_t began = format_clock_ns();
    if (!CHECK(t, make("load 3 10\nload-error the file is gone\n", &backend, &err)))
        return;
    CHECK_EQ(t, backend.ops->open(backend.self, hear, &heard, &err), MOE_FORMAT);
    CHECK_STR(t, err.text, "the file is gone");
    CHECK(t, heard.calls == 3 && heard.done == 2000000 && heard.total == 3000000);
    CHECK(t, format_clock_ns() - began >= 30000000);
    backend.ops->close(backend.self);
    backend = open_script(t, "turn\nprefill 10\ndelay 20\ntoken a\ntoken b\n");
    began = format_clock_ns();
    answer(t, &backend, "17 tokens with it", &text); // in two pieces of 16 at most
    CHECK(t, format_clock_ns() - began >= 2 * 10000000 + 20000000);
    bytes_release(&text);
    backend.ops->close(backend.self);
}

static void tokens_leave_records_of_made_up_experts(struct harness *t)
{
    struct backend backend = open_script(t, "experts 2 8 3\nturn\ntoken a\ntoken b\n");
    struct bytes text = {0};
    uint8_t tiers[16];
    CHECK(t, !backend.ops->telemetry(backend.self)); // none before the first
    answer(t, &backend, "hi", &text);
    const struct moe_telemetry *step = backend.ops->telemetry(backend.self);
    if (!CHECK(t, step != NULL))
        return;
    CHECK(t, step->step == 3 && step->n_moe_layers == 2 && step->top_k == 3 && step->n_routed_experts == 8);
    uint64_t ns = 0;
    for (int i = 0; i < MOE_INTERVALS; i++)
        ns += step->ns[i];
    CHECK(t, ns == step->total_ns && ns == 50000000);
    const uint32_t *heat = backend.ops->heat(backend.self);
    for (uint32_t l = 0; l < 2; l++) {
        uint32_t uses = 0, requests = 0;
        for (int e = 0; e < 8; e++)
            uses += heat[l * 8 + (uint32_t)e];
        for (int i = 0; i < MOE_ORIGINS; i++)
            requests += step->layers[l].n_from[i];
        CHECK(t, uses == 9 && requests == 3 && step->layers[l].layer == 1 + l);
        CHECK_EQ(t, step->layers[l].bytes_disk, step->layers[l].n_from[MOE_FROM_DISK] * UINT64_C(2000000));
    }
    memset(tiers, 255, sizeof tiers);
    backend.ops->tiers(backend.self, tiers);
    for (size_t i = 0; i < sizeof tiers; i++)
        CHECK(t, tiers[i] < MOE_TIERS);
    backend.ops->clear_heat(backend.self);
    for (int i = 0; i < 16; i++)
        CHECK_EQ(t, heat[i], 0);
    backend.ops->close(backend.self);
    backend = open_script(t, "turn\ncount 5 2 700\ntoken a\n");
    answer(t, &backend, "hi", &text);
    step = backend.ops->telemetry(backend.self);
    if (CHECK(t, step && step->n_moe_layers == 1)) {
        const struct moe_layer_record *layer = &step->layers[0];
        CHECK(t, layer->n_from[MOE_FROM_DEVICE] == 5 && layer->n_from[MOE_FROM_DISK] == 2 && layer->bytes_disk == 700);
    }
    bytes_release(&text);
    backend.ops->close(backend.self);
}

static void with_states_it_stands_at_borders_alone(struct harness *t)
{
    struct backend backend = open_script(t, "states 8\nturn\ntoken a\ntoken b\n");
    struct bytes text = {0};
    struct moe_err err;
    answer(t, &backend, "hi", &text); // the beginning and who speaks, hi, its end, the answer's role, a b and its end
    uint32_t length = backend.ops->length(backend.self), prompt = length - 3;
    CHECK_EQ(t, length, 9);
    CHECK_EQ(t, backend.ops->floor(backend.self, length), length);
    CHECK_EQ(t, backend.ops->floor(backend.self, length - 1), prompt);
    CHECK_EQ(t, backend.ops->floor(backend.self, prompt), prompt);
    CHECK_EQ(t, backend.ops->floor(backend.self, prompt - 1), 0);
    CHECK_EQ(t, backend.ops->truncate(backend.self, length - 1, &err), MOE_POSITION);
    CHECK_EQ(t, backend.ops->length(backend.self), length);
    backend.ops->keep_logits(backend.self);
    CHECK_EQ(t, backend.ops->truncate(backend.self, prompt, &err), 0);
    CHECK_EQ(t, backend.ops->length(backend.self), prompt);
    CHECK(t, !backend.ops->recall_logits(backend.self)); // those behind the answer are gone
    backend.ops->close(backend.self);
    backend = open_script(t, "turn\ntoken a\n");
    answer(t, &backend, "hi", &text);
    CHECK_EQ(t, backend.ops->floor(backend.self, 4), 4);
    CHECK_EQ(t, backend.ops->truncate(backend.self, 4, &err), 0);
    CHECK_EQ(t, backend.ops->length(backend.self), 4);
    bytes_release(&text);
    backend.ops->close(backend.self);
}

static ptrdiff_t write_at(void *context, int fd, const void *bytes, size_t length, uint64_t offset)
{
    (void)context;
    return pwrite(fd, bytes, length, (off_t)offset);
}

static void records_bring_back_what_was_said_and_nothing_else(struct harness *t)
{
    char name[] = "/tmp/moechat-record-XXXXXX";
    int fd = mkstemp(name);
    unlink(name);
    struct moe_record_io io = {.fd = fd, .path = "rows", .write = write_at};
    struct backend backend = open_script(t, "turn\ntoken a\n"), other = open_script(t, "context 4\n");
    struct bytes text = {0};
    struct moe_err err;
    struct moe_record record;
    answer(t, &backend, "hi", &text);
    uint32_t length = backend.ops->length(backend.self);
    CHECK_EQ(t,
             backend.ops->write_record(backend.self, &(struct saved_slot){.io = &io, .offset = 16, .count = length},
                                       &record, &err),
             0);
    CHECK(t, record.offset == 16 && record.bytes == 4 * length && record.count == length);
    CHECK_EQ(t, other.ops->read_record(other.self, &io, &record, false, &err), MOE_CONTEXT_FULL);
    CHECK_EQ(t, backend.ops->truncate(backend.self, 0, &err), 0);
    CHECK_EQ(t, backend.ops->read_record(backend.self, &io, &record, false, &err), 0);
    CHECK_EQ(t, backend.ops->length(backend.self), length);
    CHECK_EQ(t, backend.ops->truncate(backend.self, 0, &err), 0);
    CHECK_EQ(t, pwrite(fd, "?", 1, 17), 1);
    CHECK_EQ(t, backend.ops->read_record(backend.self, &io, &record, false, &err), MOE_RECORD_DAMAGED);
    CHECK_EQ(t, backend.ops->length(backend.self), 0);
    bytes_release(&text);
    backend.ops->close(backend.self);
    other.ops->close(other.self);
    close(fd);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(says_of_itself_what_the_script_says),
        TEST(what_is_no_line_is_refused_with_its_number),
        TEST(answers_are_played_in_turn),
        TEST(errors_come_once_and_waits_end_when_they_are_cancelled),
        TEST(time_passes_where_the_script_says),
        TEST(tokens_leave_records_of_made_up_experts),
        TEST(with_states_it_stands_at_borders_alone),
        TEST(records_bring_back_what_was_said_and_nothing_else),
    };
    return HARNESS_RUN(tests, argc, argv);
}
