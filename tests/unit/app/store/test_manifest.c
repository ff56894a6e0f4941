// SPDX-License-Identifier: GPL-3.0-or-later
// session.json: what is read of one that has everything, each field at its edges, and what is written.
#include "app/store/manifest.h"

#include <stdlib.h>

#include "tests/sealed_rig.h"

// A conversation of two parts; another answer to its message, another beginning with an answer, and a message behind
// the answer.
static const char body[] =
    "\"format\":2,\"created\":1000,\"updated\":2000,\"updated_ns\":7,\"model\":{\"name\":\"m\",\"path\":\"/"
    "m\",\"weights\":\"w\","
    "\"tokenizer\":\"t\",\"template\":\"c\"},\"next_part\":6,\"undone\":4,\"parts\":["
    "{\"part\":0,\"role\":\"user\",\"offset\":0,\"bytes\":10,\"sum\":\"00000000000000a0\",\"tokens\":3},"
    "{\"part\":1,\"role\":\"assistant\",\"offset\":10,\"bytes\":20,\"sum\":\"00000000000000a1\",\"tokens\":4}],"
    "\"branches\":["
    "{\"part\":2,\"after\":0,\"role\":\"assistant\",\"offset\":30,\"bytes\":5,\"sum\":\"00000000000000a2\","
    "\"tokens\":2},"
    "{\"part\":3,\"after\":null,\"role\":\"user\",\"offset\":35,\"bytes\":6,\"sum\":\"00000000000000a3\",\"tokens\":1},"
    "{\"part\":4,\"after\":3,\"role\":\"assistant\",\"offset\":41,\"bytes\":9,\"sum\":\"00000000000000a4\","
    "\"tokens\":6},"
    "{\"part\":5,\"after\":1,\"role\":\"user\",\"offset\":50,\"bytes\":7,\"sum\":\"00000000000000a5\",\"tokens\":8}],"
    "\"kv\":{\"file\":\"kv.2.bin\",\"type\":\"f16\",\"layers\":2,\"row_width\":64,\"records\":["
    "{\"offset\":0,\"bytes\":24,\"sum\":\"00000000000000b0\",\"first\":0,\"tokens\":3,\"logits\":false},"
    "{\"offset\":24,\"bytes\":32,\"sum\":\"00000000000000b1\",\"first\":3,\"tokens\":4,\"logits\":true}],\"branches\":["
    "{\"offset\":56,\"bytes\":16,\"sum\":\"00000000000000b2\",\"first\":3,\"tokens\":2,\"logits\":true,\"part\":2},"
    "{\"offset\":72,\"bytes\":11,\"sum\":\"00000000000000b3\",\"first\":7,\"tokens\":8,\"logits\":true,\"part\":5}],"
    "\"states\":[{\"file\":\"state.0.bin\",\"bytes\":100,\"sum\":\"00000000000000c0\",\"after\":3},"
    "{\"file\":\"state.7.bin\",\"bytes\":200,\"sum\":\"00000000000000c1\",\"after\":7}]}";

static bool parse(struct harness *t, struct manifest *manifest)
{
    struct bytes line = {0};
    seal(body, sizeof body - 1, &line);
    const char *wrong = manifest_parse(line.data, line.length, manifest);
    bytes_release(&line);
    if (!CHECK(t, !wrong))
        printf("    %s\n", wrong);
    return !wrong;
}

static void everything_is_read(struct harness *t)
{
    struct manifest manifest;
    if (!parse(t, &manifest))
        return;
    const struct origin *origin = &manifest.origin;
    CHECK(t, manifest.created == 1000 && manifest.updated == 2000 && manifest.next_part == 6 && manifest.undone == 5);
    CHECK_STR(t, origin->model_name, "m");
    CHECK_STR(t, origin->model_path, "/m");
    CHECK_STR(t, origin->weights, "w");
    CHECK_STR(t, origin->language.tokenizer, "t");
    CHECK_STR(t, origin->language.template_name, "c");
    CHECK(t, origin->kv_type == MOE_KV_F16 && origin->n_layers == 2 && origin->row_width == 64);
    CHECK_STR(t, manifest_kv_name(manifest.kv_file), "kv.2.bin");
    static const struct manifest_part wanted[] = {
        {.number = 0, .after = -1, .role = TOK_USER, .offset = 0, .length = 10, .sum = 0xa0, .tokens = 3},
        {.number = 1, .after = 0, .role = TOK_ASSISTANT, .offset = 10, .length = 20, .sum = 0xa1, .tokens = 4},
        {.number = 2, .after = 0, .role = TOK_ASSISTANT, .offset = 30, .length = 5, .sum = 0xa2, .tokens = 2},
        {.number = 3, .after = -1, .role = TOK_USER, .offset = 35, .length = 6, .sum = 0xa3, .tokens = 1},
        {.number = 4, .after = 3, .role = TOK_ASSISTANT, .offset = 41, .length = 9, .sum = 0xa4, .tokens = 6},
        {.number = 5, .after = 1, .role = TOK_USER, .offset = 50, .length = 7, .sum = 0xa5, .tokens = 8},
    };
    CHECK(t, manifest.n_parts == 2 && manifest.n_others == 4);
    for (int64_t i = 0; i < 6; i++) {
        const struct manifest_part *part = manifest_find(&manifest, i), *want = &wanted[i];
        if (!CHECK(t, part && manifest_find_index(&manifest, i) == (size_t)i))
            continue;
        CHECK(t, part->number == want->number && part->after == want->after && part->role == want->role);
        CHECK(t, part->offset == want->offset && part->length == want->length && part->sum == want->sum);
        CHECK_EQ(t, part->tokens, want->tokens);
    }
    CHECK(t, !manifest_find(&manifest, 6) && !manifest_find(&manifest, PART_NONE));
    CHECK(t, manifest.n_records == 2 && manifest.n_other_records == 2 && manifest.n_states == 2);
    const struct moe_record *record = &manifest.records[1];
    CHECK(t, record->offset == 24 && record->bytes == 32 && record->checksum == 0xb1 && record->first == 3);
    CHECK(t, record->count == 4 && record->has_logits && !record->has_states && !manifest.records[0].has_logits);
    CHECK(t, manifest.other_records[0].part == 2 && manifest.other_records[1].part == 5);
    const struct manifest_state *state = &manifest.states[1];
    CHECK_STR(t, manifest_state_name(state->file), "state.7.bin");
    CHECK(t, state->record.bytes == 200 && state->record.checksum == 0xc1 && state->record.first == 7);
    CHECK(t, state->record.has_states);
    manifest_release(&manifest);
}

static void sums_are_of_all_that_is_there(struct harness *t)
{
    struct manifest manifest;
    if (!parse(t, &manifest))
        return;
    CHECK_EQ(t, manifest_tokens(&manifest), 7);
    CHECK_EQ(t, manifest_rows(&manifest), 7);
    CHECK_EQ(t, manifest_messages(&manifest), 2);
    CHECK(t, !manifest_unanswered(&manifest));
    CHECK_EQ(t, manifest_transcript_end(&manifest), 57);
    CHECK_EQ(t, manifest_kv_end(&manifest), 83);
    CHECK_EQ(t, manifest_row_bytes(&manifest), 56);
    CHECK_EQ(t, manifest_other_row_bytes(&manifest), 27);
    CHECK_EQ(t, manifest_state_bytes(&manifest), 300);
    manifest_forget_rows(&manifest, 7);
    CHECK(t, manifest.n_records == 2 && manifest.n_states == 2);
    CHECK(t, manifest_rows(&manifest) == 7 && manifest_cached(&manifest) == manifest.states[1].record.first);
    manifest_forget_rows(&manifest, 6); // within a record, which goes
    CHECK(t, manifest_rows(&manifest) == 3 && manifest.n_states == 1 && manifest_kv_end(&manifest) == 83);
    CHECK(t, manifest.states[0].record.first > 0 && manifest_cached(&manifest) == manifest.states[0].record.first);
    manifest_forget_rows(&manifest, 3);
    CHECK(t, manifest_rows(&manifest) == 3 && manifest.n_states == 1);
    manifest_forget_all_rows(&manifest);
    CHECK(t, manifest_rows(&manifest) == 0 && manifest.n_states == 0 && manifest_kv_end(&manifest) == 0);
    manifest.n_parts = 1;
    CHECK(t, manifest_unanswered(&manifest) == &manifest.parts[0]);
    manifest.n_others = 0;
    CHECK_EQ(t, manifest_transcript_end(&manifest), 10);
    manifest_release(&manifest);
}

// A name of so many letters, in a place of the model's.
#define LETTERS_16    "aaaaaaaaaaaaaaaa"
#define LETTERS_64    LETTERS_16 LETTERS_16 LETTERS_16 LETTERS_16
#define MOST_OFFSET   "4611686018427387903"
#define BEYOND_OFFSET "4611686018427387904"

static const struct sealed_change changes[] = {
    {"\"format\":2", "\"format\":3", false},
    {"\"format\":2", "\"format\":0", false},
    {"\"format\":2", "\"format\":1", true}, // and of one branch
    {"\"format\":2,", "", false},
    {"\"created\":1000", "\"created\":-1", false},
    {"\"created\":1000", "\"created\":9223372036854775807", true},
    {"\"created\":1000", "\"created\":9223372036854775808", false},
    {"\"updated\":2000", "\"updated\":9223372036854775807", true},
    {"\"updated\":2000", "\"updated\":9223372036854775808", false},
    {"\"updated_ns\":7", "\"updated_ns\":999999999", true},
    {"\"updated_ns\":7", "\"updated_ns\":1000000000", true}, // the file's own time has it
    {"\"model\":{\"name\":\"m\"", "\"model\":[],\"x\":{\"name\":\"m\"", false},
    {"\"name\":\"m\"", "\"name\":1", false},
    {"\"path\":\"/m\"", "\"path\":null", false},
    {"\"weights\":\"w\"", "\"weights\":\"" LETTERS_64 "\"", true},
    {"\"weights\":\"w\"", "\"weights\":\"" LETTERS_64 "a\"", false},
    {"\"tokenizer\":\"t\"", "\"tokenizer\":\"" LETTERS_64 "a\"", false},
    {"\"template\":\"c\"", "\"template\":\"" LETTERS_64 "\"", false},
    {"\"next_part\":6", "\"next_part\":5", false},
    {"\"next_part\":6", "\"next_part\":4293918719", true},
    {"\"next_part\":6", "\"next_part\":4293918720", false}, // a chat would count on beyond what there is
    {"\"next_part\":6", "\"next_part\":4294967295", false},
    {"\"undone\":4", "\"undone\":\"x\"", true}, // it is not known
    {"\"parts\":[", "\"ports\":[", false},
    {"\"role\":\"user\",\"offset\":0", "\"role\":\"robot\",\"offset\":0", false},
    {"\"role\":\"user\",\"offset\":0", "\"role\":\"system\",\"offset\":0", true},
    {"\"offset\":10", "\"offset\":" MOST_OFFSET, true},
    {"\"offset\":10", "\"offset\":" BEYOND_OFFSET, false},
    {"\"offset\":10", "\"offset\":-1", false},
    {"\"bytes\":20,", "\"bytes\":" MOST_OFFSET ",", true},
    {"\"bytes\":20,", "\"bytes\":" BEYOND_OFFSET ",", false},
    {"\"sum\":\"00000000000000a1\"", "\"sum\":\"0000000000000a1\"", false},
    {"00000000000000a3\",\"tokens\":1", "00000000000000a3\",\"tokens\":16777216", true},
    {"00000000000000a3\",\"tokens\":1", "00000000000000a3\",\"tokens\":16777217", false},
    {"00000000000000a1\",\"tokens\":4", "00000000000000a1\",\"tokens\":3", false}, // fewer than rows
    {"\"part\":1,\"role\"", "\"part\":0,\"role\"", false},
    {"{\"part\":1,\"role\"", "7,{\"part\":1,\"role\"", false},
    {"\"branches\":[{\"part\":2,\"after\"", "\"brunches\":[{\"part\":2,\"after\"", false},
    {"\"part\":2,\"after\":0", "\"part\":2,\"after\":2", false}, // itself
    {"\"part\":2,\"after\":0", "\"part\":2,\"after\":3", false},
    {"\"part\":2,\"after\":0", "\"part\":2", false},
    {"\"part\":2,\"after\":0", "\"part\":1,\"after\":0", false}, // of the conversation
    {"\"part\":3,\"after\":null", "\"part\":2,\"after\":null", false},
    {"\"part\":4,\"after\":3", "\"part\":4,\"after\":null", true},
    {"\"part\":4,\"after\":3", "\"part\":4,\"after\":2", true},
    {"\"part\":5,\"after\":1", "\"part\":5,\"after\":6", false},
    {"\"part\":5,\"after\":1", "\"part\":6,\"after\":1", false}, // not less than the next
    {"\"kv\":{", "\"kv\":7,\"x\":{", false},
    {"kv.2.bin", "kv.bin", true},
    {"kv.2.bin", "kv.3.bin", false},
    {"\"type\":\"f16\"", "\"type\":\"f32\"", true},
    {"\"type\":\"f16\"", "\"type\":\"f8\"", false},
    {"\"layers\":2", "\"layers\":4294967295", true},
    {"\"layers\":2", "\"layers\":4294967296", false},
    {"\"row_width\":64", "\"row_width\":4294967295", true},
    {"\"row_width\":64", "\"row_width\":4294967296", false},
    {"\"records\":[", "\"recards\":[", false},
    {"{\"offset\":24", "7,{\"offset\":24", false},
    {"{\"offset\":24", "{\"offset\":" MOST_OFFSET, true},
    {"{\"offset\":24", "{\"offset\":" BEYOND_OFFSET, false},
    {"\"bytes\":32", "\"bytes\":" MOST_OFFSET, true},
    {"\"bytes\":32", "\"bytes\":" BEYOND_OFFSET, false},
    {"00000000000000b1", "00000000000000B1", false},
    {"\"first\":0", "\"first\":1", false},
    {"b1\",\"first\":3", "b1\",\"first\":2", false},
    {"\"first\":3,\"tokens\":4", "\"first\":3,\"tokens\":5", false},
    {"\"first\":3,\"tokens\":4", "\"first\":3,\"tokens\":0", false},
    {"\"first\":0,\"tokens\":3,\"logits\":false", "\"first\":0,\"tokens\":3,\"logits\":0", false},
    {"\"first\":0,\"tokens\":3,\"logits\":false", "\"first\":0,\"tokens\":3", false},
    {"\"first\":3,\"tokens\":2", "\"first\":3,\"tokens\":3", false}, // beyond the branch's end
    {"\"first\":3,\"tokens\":2", "\"first\":3,\"tokens\":1", true},
    {"\"first\":3,\"tokens\":2", "\"first\":2,\"tokens\":1", false}, // it ends before the part does begin
    {"\"logits\":true,\"part\":2", "\"logits\":true,\"part\":1", false},
    {"\"logits\":true,\"part\":2", "\"logits\":true,\"part\":9", false},
    {"\"logits\":true,\"part\":2", "\"logits\":true", false},
    {"{\"offset\":56", "7,{\"offset\":56", false},
    {"state.7.bin", "state.12.bin", true},
    {"state.7.bin", "state.13.bin", false},
    {"state.7.bin", "state.0.bin", false}, // it is taken
    {"\"bytes\":200", "\"bytes\":" MOST_OFFSET, true},
    {"\"bytes\":200", "\"bytes\":" BEYOND_OFFSET, false},
    {"00000000000000c1", "c1", false},
    {"\"after\":7", "\"after\":8", false}, // beyond the rows
    {"\"after\":7", "\"after\":4", true},
    {"\"after\":7", "\"after\":3", false},
    {"c0\",\"after\":3", "c0\",\"after\":0", false},
    {"c0\",\"after\":3", "c0\",\"after\":1", true},
    {"{\"file\":\"state.7", "7,{\"file\":\"state.7", false},
};

static void each_field_is_checked(struct harness *t)
{
    struct bytes line = {0};
    struct manifest manifest;
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        if (!seal_changed(t, body, &changes[i], &line))
            continue;
        const char *wrong = manifest_parse(line.data, line.length, &manifest);
        if (!CHECK_EQ(t, wrong == NULL, changes[i].fine))
            printf("    %s -> %s: %s\n", changes[i].from, changes[i].to, wrong ? wrong : "");
        CHECK(t, !wrong || (!manifest.parts && !manifest.others && !manifest.records && !manifest.n_states));
        manifest_release(&manifest);
    }
    seal(body, sizeof body - 1, &line);
    CHECK(t, manifest_parse(line.data, line.length - 1, &manifest) != NULL); // the newline is missing
    CHECK(t, manifest_parse(line.data, 0, &manifest) != NULL);
    bytes_release(&line);
}

static void what_was_read_is_written_the_same(struct harness *t)
{
    struct bytes line = {0}, written = {0};
    struct manifest manifest;
    if (!parse(t, &manifest))
        return;
    seal(body, sizeof body - 1, &line);
    CHECK(t, bytes_append(&written, "before", 6) && manifest_render(&manifest, &written));
    CHECK_STR(t, written.data + 6, line.data);
    manifest.parts[1].after = PART_NONE; // as no file can have it
    CHECK(t, !manifest_render(&manifest, &written));
    manifest.parts[1].after = 0;
    manifest.next_part = 5;
    CHECK(t, !manifest_render(&manifest, &written));
    manifest.next_part = 6;
    manifest.n_others = manifest.n_other_records = 0;
    written.length = 0;
    CHECK(t, manifest_render(&manifest, &written)); // without branches, as older programs read it
    CHECK(t, strstr(written.data, "\"format\":1,") && !strstr(written.data, "branches"));
    CHECK(t, !strstr(written.data, "undone"));
    manifest.n_states = 0;
    written.length = 0;
    struct manifest back;
    CHECK(t, manifest_render(&manifest, &written) && strstr(written.data, "\"states\":[]")); // there are none now
    CHECK_EQ(t, manifest_parse(written.data, written.length, &back), NULL);
    CHECK(t, back.origin.states && manifest_rows(&back) > 0 && manifest_cached(&back) == 0);
    manifest_release(&back);
    manifest.origin.states = false; // another model
    written.length = 0;
    CHECK(t, manifest_render(&manifest, &written) && !strstr(written.data, "states"));
    CHECK_EQ(t, manifest_parse(written.data, written.length, &back), NULL);
    CHECK(t, !back.origin.states && manifest_cached(&back) == manifest_rows(&back));
    manifest_release(&back);
    manifest_release(&manifest);
    bytes_release(&line);
    bytes_release(&written);
}

// Others come in any order, and stand by number; lists grow as they must.
static void parts_of_branches_stand_by_number(struct harness *t)
{
    struct manifest manifest = {0};
    for (uint32_t i = 0; i < 40; i++) {
        CHECK(t, manifest_add_other(&manifest, &(struct manifest_part){.number = i * 7 % 40, .tokens = i}));
        CHECK(t, manifest_add_other_record(&manifest, &(struct branch_record){.part = i}));
        CHECK(t, manifest_add_part(&manifest, &(struct manifest_part){.number = 100 + i}));
        CHECK(t, manifest_add_record(&manifest, &(struct moe_record){.first = i, .count = 1}));
    }
    for (uint32_t i = 0; i < 40; i++) {
        CHECK(t, manifest.others[i].number == i && manifest.others[i].tokens * 7 % 40 == i);
        CHECK(t, manifest.other_records[i].part == i && manifest.parts[i].number == 100 + i);
        CHECK(t, manifest.records[i].first == i);
        CHECK_EQ(t, manifest_find_index(&manifest, i), 40 + i);
        CHECK_EQ(t, manifest_find_index(&manifest, 100 + i), i);
    }
    CHECK(t, manifest_find_index(&manifest, 40) == SIZE_MAX && manifest_find_index(&manifest, 140) == SIZE_MAX);
    manifest_release(&manifest);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(everything_is_read),
        TEST(sums_are_of_all_that_is_there),
        TEST(each_field_is_checked),
        TEST(what_was_read_is_written_the_same),
        TEST(parts_of_branches_stand_by_number),
    };
    return HARNESS_RUN(tests, argc, argv);
}
