// SPDX-License-Identifier: GPL-3.0-or-later
// The session store: what was saved comes back, in the same bytes; what is damaged or foreign is said and kept.
#define _GNU_SOURCE // F_OFD_SETLK
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "app/store/branches.h"
#include "app/store/saved_verify.h"
#include "app/store/sealed.h"
#include "tests/sealed_rig.h"
#include "tests/store_place.h"

static uint64_t size_of(const struct place *p, const char *name, const char *file)
{
    struct stat about;
    return stat(store_path(&p->store, name, file).text, &about) == 0 ? (uint64_t)about.st_size : 0;
}

static void change_byte(const struct place *p, const char *name, const char *file, long at)
{
    FILE *f = fopen(store_path(&p->store, name, file).text, "r+b");
    if (!f)
        abort();
    fseek(f, at, at < 0 ? SEEK_END : SEEK_SET);
    int c = fgetc(f);
    fseek(f, at, at < 0 ? SEEK_END : SEEK_SET);
    fputc(c ^ 1, f);
    fclose(f);
}

static void names_stay_in_the_store(struct harness *t)
{
    static const char *const bad[] = {"",
                                      ".",
                                      "..",
                                      "a/b",
                                      "/etc",
                                      "a.b",
                                      "-a",
                                      "a b",
                                      "a\n",
                                      "\xc3",
                                      "a\xe2\x80\xae", // right to left
                                      "a\xe2\x80\x8d", // joins
                                      "\xcc\x81z",     // a mark on nothing
                                      "\xe3\x85\xa4",  // a letter that is not seen
                                      "a234567890123456789012345678901234567890123456789012345678901234x"};
    struct place *p = open_place();
    int lock;
    struct saved *saved;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK(t, !store_name_valid(bad[i]));
        CHECK_EQ(t, store_lock(&p->store, bad[i], &lock, &p->error), STORE_NAME);
        CHECK_EQ(t, store_remove(&p->store, bad[i], &p->error), STORE_NAME);
        CHECK_EQ(t, store_rename(&p->store, "a", bad[i], false, &p->error), STORE_NAME);
        if (*bad[i])
            CHECK_EQ(t, saved_new(&p->store, bad[i], &saved, &p->error), STORE_NAME);
    }
    CHECK(t, store_name_valid("a_B-9"));
    close_place(p);
}

static void what_was_saved_comes_back(struct harness *t)
{
    struct place *p = open_place();
    struct saved *saved = new_session(t, p, "");
    CHECK_STR(t, saved_name(saved), "");
    CHECK(t, rig_append(saved, TOK_SYSTEM, "Be kind.", &p->engine));
    exchange(t, p, saved, "One two", "three");
    exchange(t, p, saved, "four", "");
    CHECK(t, strstr(saved_name(saved), "-one-two") != NULL);
    char name[STORE_NAME_SIZE];
    snprintf(name, sizeof name, "%s", saved_name(saved));
    saved_close(saved);
    check_session(t, p, name, "Be kind.|One two|three|four|", true);
    struct stat about;
    CHECK(t, stat(store_path(&p->store, name, NULL).text, &about) == 0 && (about.st_mode & 0777) == 0700);
    CHECK(t, stat(store_path(&p->store, name, "transcript.jsonl").text, &about) == 0 && (about.st_mode & 0777) == 0600);
    struct store_list list;
    CHECK_EQ(t, store_list(&p->store, &list, &p->error), STORE_OK);
    CHECK_EQ(t, list.n_entries, 1);
    CHECK_EQ(t, manifest_messages(&list.entries[0].manifest), 5);
    CHECK_EQ(t, manifest_tokens(&list.entries[0].manifest), p->engine.length);
    store_list_release(&list);
    close_place(p);
}

static void any_text_survives(struct harness *t)
{
    static const char odd[] = "\x00\xff\xc3\x28\"\\\n\xe2\x82\xac\x1b";
    struct part part = {.number = 4, .after = 2, .role = TOK_ASSISTANT, .made = {.stop = "cancelled", .time = 5}}, back;
    struct bytes line = {0};
    struct tok_err err;
    uint64_t sum;
    part.made.sampling = (struct moe_sampling){.temperature = 0.7f,
                                               .top_k = 40,
                                               .top_p = 0.9f,
                                               .min_p = 0.05f,
                                               .repetition_penalty = 1.1f,
                                               .seed = UINT64_MAX};
    tok_ids_append(&part.ids, INT32_MAX, &err);
    tok_ids_append(&part.ids, 0, &err);
    CHECK(t, bytes_append(&part.text, odd, sizeof odd - 1) && part_render(&part, &line));
    CHECK_EQ(t, memchr(line.data, '\n', line.length) == line.data + line.length - 1, 1);
    if (CHECK(t, part_parse(line.data, line.length - 1, &back, &sum))) {
        CHECK(t, back.text.length == sizeof odd - 1 && memcmp(back.text.data, odd, sizeof odd - 1) == 0);
        CHECK(t, back.ids.count == 2 && back.ids.ids[0] == INT32_MAX && back.after == 2 && back.number == 4);
        CHECK(t, memcmp(&back.made.sampling, &part.made.sampling, sizeof part.made.sampling) == 0);
        CHECK_STR(t, back.made.stop, "cancelled");
        CHECK_EQ(t, sum, sealed_sum(line.data, line.length));
        part_release(&back);
    }
    size_t refused = 0; // every flipped bit is noticed
    for (size_t i = 0; i < (line.length - 1) * 8; i++) {
        line.data[i / 8] ^= (char)(1 << i % 8);
        refused += !part_parse(line.data, line.length - 1, &back, &sum);
        line.data[i / 8] ^= (char)(1 << i % 8);
    }
    CHECK_EQ(t, refused, (line.length - 1) * 8);
    bytes_release(&line);
    part_release(&part);
}

static void go(struct harness *t, struct place *p, struct saved *saved, int64_t last)
{
    CHECK(t, saved_go(saved, last));
    CHECK_EQ(t, saved_commit(saved, NULL, &p->error), STORE_OK);
    CHECK(t, rig_restore(saved, &p->engine));
    CHECK_EQ(t, p->engine.length, manifest_tokens(saved_manifest(saved))); // with all its rows
}

static void undo_is_the_manifests_alone(struct harness *t)
{
    struct place *p = open_place();
    struct saved *saved = new_session(t, p, "talk");
    exchange(t, p, saved, "one", "first");
    uint32_t border = p->engine.length;
    exchange(t, p, saved, "two", "second");
    uint64_t transcript = size_of(p, "talk", "transcript.jsonl"), kv = size_of(p, "talk", "kv.bin");
    saved_cut(saved, border);
    p->engine.length = border;
    CHECK_EQ(t, saved_commit(saved, NULL, &p->error), STORE_OK);
    CHECK_EQ(t, size_of(p, "talk", "transcript.jsonl"), transcript);
    CHECK_EQ(t, size_of(p, "talk", "kv.bin"), kv);
    saved_close(saved);
    check_session(t, p, "talk", "one|first", true);
    struct saved_content content;
    CHECK_EQ(t, saved_open(&p->store, "talk", &saved, &content, &p->error), STORE_OK);
    CHECK_EQ(t, content.n_others, 2); // and nothing is lost
    CHECK_STR(t, content.n_others == 2 ? content.others[1].text.data : "", "second");
    saved_content_release(&content);
    exchange(t, p, saved, "2", "3");
    uint64_t grown = p->engine.length - border;
    CHECK_EQ(t, size_of(p, "talk", "kv.bin"), kv + grown * sizeof(uint64_t)); // what branches share is there once
    go(t, p, saved, 3);
    saved_close(saved);
    check_session(t, p, "talk", "one|first|two|second", true);
    CHECK_EQ(t, saved_open(&p->store, "talk", &saved, &content, &p->error), STORE_OK);
    saved_content_release(&content);
    go(t, p, saved, 5);
    saved_close(saved);
    check_session(t, p, "talk", "one|first|2|3", true);
    close_place(p);
}

// Of each other branch a session has, its text; sorted by the numbers of its parts.
static void check_others(struct harness *t, struct place *p, const char *name, const char *texts)
{
    struct saved_content content;
    char got[512] = "";
    size_t at = 0;
    CHECK_EQ(t, saved_read(&p->store, name, &content, &p->error), STORE_OK);
    for (size_t i = 0; i < content.n_others && at < sizeof got; i++)
        at += (size_t)snprintf(got + at, sizeof got - at, "%s%u<%d:%s", i ? " " : "", content.others[i].number,
                               (int)content.others[i].after, content.others[i].text.data);
    CHECK_STR(t, got, texts);
    CHECK_STR(t, content.damage, "");
    saved_content_release(&content);
}

// The format that older programs read is left only where it must be.
static void check_format(struct harness *t, const struct place *p, const char *name, const char *wanted)
{
    struct bytes file = {0};
    CHECK_EQ(t, store_io_read(&store_io_posix, store_path(&p->store, name, "session.json").text, 1 << 20, &file), 0);
    CHECK(t, file.data && strstr(file.data, wanted));
    for (size_t less = 0; less < 2; less++) { // the limit is for what is larger
        struct bytes again = {0};
        struct store_path path = store_path(&p->store, name, "session.json");
        CHECK_EQ(t, store_io_read(&store_io_posix, path.text, file.length - less, &again), less ? EFBIG : 0);
        bytes_release(&again);
    }
    bytes_release(&file);
}

// Answers to the same message, and messages in the place of others, from the first on.
static void branches_stay_until_they_are_pruned(struct harness *t)
{
    struct place *p = open_place();
    struct saved *saved = new_session(t, p, "talk"), *fork;
    exchange(t, p, saved, "one", "first");
    check_format(t, p, "talk", "\"format\":1,");
    saved_cut(saved, 4); // a retry: cut and append in one commit
    p->engine.length = 4;
    CHECK(t, rig_append(saved, TOK_ASSISTANT, "another", &p->engine));
    commit(t, p, saved);
    check_format(t, p, "talk", "\"format\":2,");
    exchange(t, p, saved, "two", "second");
    saved_cut(saved, 0); // an edit of the first message
    p->engine.length = 0;
    exchange(t, p, saved, "uno", "primo");
    check_others(t, p, "talk", "0<-1:one 1<0:first 2<0:another 3<2:two 4<3:second");
    CHECK_EQ(t, branches_count(saved_manifest(saved)), 3);
    go(t, p, saved, 1);
    check_others(t, p, "talk", "2<0:another 3<2:two 4<3:second 5<-1:uno 6<5:primo");
    go(t, p, saved, 4);
    CHECK(t, !saved_go(saved, 7));
    uint64_t kv = store_kv_bytes(&p->store, "talk");
    CHECK_EQ(t, kv, (4 + 6 + 8 + 4 + 7 + 4 + 6) * sizeof(uint64_t));
    CHECK_EQ(t, saved_compact(saved, &p->error), STORE_OK); // nothing is dead
    CHECK_EQ(t, store_kv_bytes(&p->store, "talk"), kv);
    go(t, p, saved, 6);
    go(t, p, saved, 1);
    saved_drop(saved, 2); // "two" follows it
    saved_drop(saved, 0); // is what was said
    saved_drop(saved, 6);
    CHECK_EQ(t, saved_compact(saved, &p->error), STORE_OK);
    CHECK_EQ(t, store_kv_bytes(&p->store, "talk"), kv - 6 * sizeof(uint64_t));
    check_others(t, p, "talk", "2<0:another 3<2:two 4<3:second 5<-1:uno");
    go(t, p, saved, 4);
    saved_set_undone(saved, 1);
    CHECK_EQ(t, saved_commit(saved, NULL, &p->error), STORE_OK);
    CHECK_EQ(t, saved_fork(saved, &fork, &p->error), STORE_OK);
    CHECK_EQ(t, saved_manifest(fork)->undone, 1 + 1);
    CHECK_EQ(t, saved_commit(fork, NULL, &p->error), STORE_OK);
    check_others(t, p, "talk-2", "1<0:first 5<-1:uno");
    CHECK_EQ(t, saved_prune(fork, &p->error), STORE_OK);
    saved_close(fork);
    check_session(t, p, "talk-2", "one|another|two|second", false);
    check_format(t, p, "talk-2", "\"format\":1,");
    saved_close(saved);
    unlink(store_path(&p->store, "talk", "session.json").text); // the lines alone have all of it
    check_others(t, p, "talk", "0<-1:one 1<0:first 2<0:another 3<2:two 4<3:second");
    check_session(t, p, "talk", "uno", false);
    close_place(p);
}

static void saving_costs_what_the_turn_added(struct harness *t)
{
    struct place *p = open_place();
    struct saved *saved = new_session(t, p, "talk");
    for (int i = 0; i < 20; i++)
        exchange(t, p, saved, "hello there", "hello you");
    const struct manifest *manifest = saved_manifest(saved);
    CHECK_EQ(t, manifest->n_records, 40); // one a part
    for (size_t i = 0; i < manifest->n_records; i++)
        CHECK_EQ(t, manifest->records[i].count, manifest->parts[i].tokens);
    CHECK_EQ(t, size_of(p, "talk", "kv.bin"), p->engine.length * sizeof(uint64_t));
    saved_close(saved);
    close_place(p);
}

static void compact_leaves_what_lives(struct harness *t)
{
    struct place *p = open_place();
    struct saved *saved = new_session(t, p, "talk");
    exchange(t, p, saved, "one", "first");
    uint32_t border = p->engine.length;
    exchange(t, p, saved, "two", "second, which is long");
    saved_cut(saved, border); // a retry: cut and append in one commit
    p->engine.length = border;
    exchange(t, p, saved, "two", "another");
    uint64_t transcript = size_of(p, "talk", "transcript.jsonl");
    CHECK(t, branches_bytes(saved_manifest(saved)) > 0);
    CHECK_EQ(t, saved_prune(saved, &p->error), STORE_OK);
    CHECK_EQ(t, branches_bytes(saved_manifest(saved)), 0);
    CHECK(t, size_of(p, "talk", "transcript.jsonl") < transcript);
    CHECK_EQ(t, store_kv_bytes(&p->store, "talk"), p->engine.length * sizeof(uint64_t));
    saved_close(saved);
    check_session(t, p, "talk", "one|first|two|another", true);
    close_place(p);
}

// Nothing names a line then, and none stays; nor do those that a manifest of nothing was left with.
static void what_was_taken_back_leaves_nothing_when_pruned(struct harness *t)
{
    struct place *p = open_place();
    struct saved *saved = new_session(t, p, "talk");
    CHECK_EQ(t, saved_compact(saved, &p->error), STORE_OK); // nothing was said, and there is no file to be emptied
    exchange(t, p, saved, "one", "first");
    saved_cut(saved, 0);
    p->engine.length = 0;
    CHECK_EQ(t, saved_commit(saved, NULL, &p->error), STORE_OK);
    CHECK_EQ(t, saved_compact(saved, &p->error), STORE_OK);
    CHECK(t, size_of(p, "talk", "transcript.jsonl") > 0); // a branch has it
    struct bytes was = {0};
    struct store_path path = store_path(&p->store, "talk", "transcript.jsonl");
    CHECK_EQ(t, store_io_read(p->store.io, path.text, TRANSCRIPT_LIMIT, &was), 0);
    CHECK_EQ(t, saved_prune(saved, &p->error), STORE_OK);
    CHECK_EQ(t, size_of(p, "talk", "transcript.jsonl"), 0);
    CHECK_EQ(t, store_kv_bytes(&p->store, "talk"), 0);
    saved_close(saved);
    check_session(t, p, "talk", "", false);
    FILE *file = fopen(path.text, "w");
    CHECK(t, file && fwrite(was.data, 1, was.length, file) == was.length && fclose(file) == 0);
    bytes_release(&was);
    struct saved_content content;
    CHECK_EQ(t, saved_open(&p->store, "talk", &saved, &content, &p->error), STORE_OK);
    CHECK_EQ(t, saved_compact(saved, &p->error), STORE_OK);
    CHECK_EQ(t, size_of(p, "talk", "transcript.jsonl"), 0);
    exchange(t, p, saved, "two", "second");
    saved_content_release(&content);
    saved_close(saved);
    check_session(t, p, "talk", "two|second", true);
    close_place(p);
}

static void foreign_rows_are_forgotten(struct harness *t)
{
    struct place *p = open_place();
    struct saved *saved = new_session(t, p, "talk");
    exchange(t, p, saved, "one", "first");
    struct origin other = rig_origin();
    other.kv_type = MOE_KV_F16;
    saved_set_origin(saved, &other);
    CHECK_EQ(t, saved_manifest(saved)->n_records, 0);
    exchange(t, p, saved, "two", "second"); // the other file, from its beginning
    CHECK_EQ(t, size_of(p, "talk", "kv.bin"), 0);
    CHECK_EQ(t, size_of(p, "talk", "kv.2.bin"), p->engine.length * sizeof(uint64_t));
    saved_close(saved);
    check_session(t, p, "talk", "one|first|two|second", true);
    close_place(p);
}

static bool append_in(struct saved *saved, enum tok_role role, const char *tokenizer)
{
    struct part part = {.role = role, .made.time = 1000};
    struct tok_err err;
    snprintf(part.language.tokenizer, sizeof part.language.tokenizer, "%s", tokenizer);
    snprintf(part.language.template_name, sizeof part.language.template_name, "turns");
    snprintf(part.made.stop, sizeof part.made.stop, "end");
    bool fine =
        bytes_append(&part.text, "a", 1) && tok_ids_append(&part.ids, 97, &err) == 0 && saved_append(saved, &part);
    part_release(&part);
    return fine;
}

// What was opened with another model and changed in nothing but its name is in the first one's language still.
static void ids_are_in_the_language_of_their_lines(struct harness *t)
{
    static const char *const answers[] = {"cc", "dd"}, *const told[] = {"cc", ""};
    for (int mixed = 0; mixed < 2; mixed++) {
        struct place *p = open_place();
        struct saved *saved = new_session(t, p, "talk");
        CHECK(t, append_in(saved, TOK_USER, "cc") && append_in(saved, TOK_ASSISTANT, answers[mixed]));
        CHECK_EQ(t, saved_commit(saved, NULL, &p->error), STORE_OK);
        struct origin other = rig_origin();
        snprintf(other.language.tokenizer, sizeof other.language.tokenizer, "dd");
        saved_set_origin(saved, &other);
        CHECK_EQ(t, saved_commit(saved, NULL, &p->error), STORE_OK);
        saved_close(saved);
        struct saved_content content;
        CHECK_EQ(t, saved_open(&p->store, "talk", &saved, &content, &p->error), STORE_OK);
        CHECK_STR(t, saved_manifest(saved)->origin.language.tokenizer, told[mixed]);
        saved_content_release(&content);
        saved_close(saved);
        close_place(p);
    }
}

// A first save that was killed before its manifest was there, also within its last line.
static void lines_without_a_manifest_are_adopted(struct harness *t)
{
    for (int torn = 0; torn < 3; torn++) {
        struct place *p = open_place();
        struct saved *saved = new_session(t, p, "talk");
        exchange(t, p, saved, "one", "first");
        uint32_t border = p->engine.length;
        exchange(t, p, saved, "two", "second");
        uint64_t last = saved_manifest(saved)->parts[3].offset;
        saved_cut(saved, border); // the lines alone know of no cut
        saved_close(saved);
        unlink(store_path(&p->store, "talk", "session.json").text);
        off_t cut = torn == 2 ? 5 : (off_t)last + 9;
        if (torn && truncate(store_path(&p->store, "talk", "transcript.jsonl").text, cut))
            abort();
        const char *texts = torn == 2 ? "" : torn ? "one|first|two" : "one|first|two|second";
        struct store_list list;
        CHECK_EQ(t, store_list(&p->store, &list, &p->error), STORE_OK);
        CHECK(t, list.n_entries == 1 && !list.entries[0].damaged);
        CHECK_EQ(t, list.n_entries ? manifest_messages(&list.entries[0].manifest) : 0,
                 torn == 2   ? 0
                 : torn == 1 ? 3
                             : 4);
        store_list_release(&list);
        check_session(t, p, "talk", texts, false);
        struct saved_content content;
        char after[64];
        CHECK_EQ(t, saved_open(&p->store, "talk", &saved, &content, &p->error), STORE_OK);
        CHECK_STR(t, saved_name(saved), "talk");
        CHECK_STR(t, saved_manifest(saved)->origin.language.tokenizer, "");
        saved_content_release(&content);
        CHECK(t, rig_append(saved, TOK_USER, "three", NULL));
        CHECK_EQ(t, saved_commit(saved, NULL, &p->error), STORE_OK);
        saved_close(saved);
        snprintf(after, sizeof after, "%s%sthree", texts, *texts ? "|" : "");
        check_session(t, p, "talk", after, false);
        close_place(p);
    }
}

// A hundred thousand parts whose places are not where the manifest says: each is found without looking at all others.
static void many_lines_are_found_soon(struct harness *t)
{
    enum { LINES = 100000 };
    struct part_lines transcript = {.lines = calloc(LINES, sizeof *transcript.lines), .n_lines = LINES};
    for (uint32_t i = 0; i < LINES; i++)
        transcript.lines[i].number = 3 * i + 1;
    clock_t began = clock();
    size_t found = 0, other = 0;
    for (uint32_t number = 0; number < 3 * LINES + 3; number++) {
        const struct part_line *line = part_lines_find(&transcript, LINES, number);
        found += line && line->number == number;
        other += line && line->number != number;
    }
    CHECK_EQ(t, found, LINES);
    CHECK_EQ(t, other, 0);
    CHECK(t, part_lines_find(&transcript, 5, 3 * 4 + 1) && !part_lines_find(&transcript, 5, 3 * 5 + 1));
    CHECK(t, clock() - began < 3 * CLOCKS_PER_SEC); // one after the other takes fifteen and more
    part_lines_release(&transcript);
}

// Without a manifest the lines tell, in whatever order somebody put them: the processor's time for so many, and how
// many parts there are then. Of each line the part before it is there, or, with `alone`, of none.
static clock_t time_of_lines(struct harness *t, bool descending, bool alone, size_t *n_parts)
{
    enum { LINES = 20000 };
    struct place *p = open_place();
    struct saved *saved = new_session(t, p, "talk");
    struct bytes lines = {0};
    exchange(t, p, saved, "one", "first");
    saved_close(saved);
    for (uint32_t i = 0; i < LINES; i++) {
        uint32_t number = descending ? LINES - i : i + 1;
        struct part part = {.number = alone ? 3 * number : number, .role = number % 2 ? TOK_USER : TOK_ASSISTANT};
        part.after = number > 1 || alone ? (int64_t)part.number - 1 : PART_NONE;
        CHECK(t, bytes_append(&part.text, "hi", 2) && part_render(&part, &lines));
        part_release(&part);
    }
    const char *const files[] = {"transcript.jsonl", "session.json"};
    for (int i = 0; i < 2; i++) {
        FILE *out = fopen(store_path(&p->store, "talk", files[i]).text, "wb");
        if (!out || fwrite(i ? "{}" : lines.data, i ? 2 : lines.length, 1, out) != 1)
            abort();
        fclose(out);
    }
    struct saved_content content;
    clock_t began = clock();
    CHECK_EQ(t, saved_read(&p->store, "talk", &content, &p->error), STORE_OK);
    began = clock() - began;
    *n_parts = content.n_parts + content.n_others;
    for (size_t i = 1; i < content.n_parts; i++)
        CHECK(t, content.parts[i].number > content.parts[i - 1].number);
    for (size_t i = 1; i < content.n_others; i++)
        CHECK(t, content.others[i].number > content.others[i - 1].number);
    saved_content_release(&content);
    bytes_release(&lines);
    close_place(p);
    return began;
}

static void lines_in_any_order_are_read_as_soon(struct harness *t)
{
    size_t n[4];
    clock_t usual = time_of_lines(t, false, false, &n[0]);
    clock_t descending = time_of_lines(t, true, false, &n[1]);
    clock_t alone = time_of_lines(t, false, true, &n[2]), both = time_of_lines(t, true, true, &n[3]);
    CHECK(t, n[0] == 20000 && n[1] == 20000 && n[2] == 40000 && n[3] == 40000);
    CHECK(t, descending < 4 * usual && alone < 4 * usual && both < 4 * usual); // not as their number squared
}

static void a_damaged_transcript_is_kept(struct harness *t)
{
    for (int how = 0; how < 5; how++) {
        struct place *p = open_place();
        struct saved *saved = new_session(t, p, "talk");
        exchange(t, p, saved, "one", "first");
        exchange(t, p, saved, "two", "second");
        uint64_t third = saved_manifest(saved)->parts[2].offset;
        saved_close(saved);
        if (how == 0)
            change_byte(p, "talk", "transcript.jsonl", (long)third + 60);
        if ((how == 1 || how == 4) &&
            truncate(store_path(&p->store, "talk", "transcript.jsonl").text, (off_t)third + 9))
            abort();
        if (how == 2) {
            unlink(store_path(&p->store, "talk", "session.json").text);
            change_byte(p, "talk", "transcript.jsonl", (long)third + 60);
        }
        if (how == 3 || how == 4)
            change_byte(p, "talk", "session.json", 50); // of the time it was made
        uint64_t bytes = size_of(p, "talk", "transcript.jsonl");
        struct saved_content content;
        struct rig_engine *back = rig_engine_new(false);
        char texts[256];
        CHECK_EQ(t, saved_open(&p->store, "talk", &saved, &content, &p->error), STORE_OK);
        CHECK(t, *content.damage);
        rig_texts(&content, texts, sizeof texts);
#define MESSAGE "[This message is damaged on the disk and can't be read.]"
#define ANSWER  "[This answer is damaged on the disk and can't be read.]"
        static const char *const readable[] = {"one|first|" MESSAGE "|second", "one|first|" MESSAGE "|" ANSWER,
                                               "one|first|" MESSAGE "|second", "one|first|two|second", "one|first"};
        static const char *const why[] = {
            "1 of 4 messages can't be read", "2 of 4 messages can't be read",
            "3 messages of its transcript can be read, 1 can't",
            "its session.json is damaged, but all that it names of the transcript is there",
            "2 messages of its transcript can be read, 1 can't"};
        static const uint32_t rows[] = {4 + 6, 4 + 6, 0, 4 + 6 + 4 + 7, 0}; // before what is lost
        CHECK(t, strstr(content.damage, why[how]) != NULL);
        CHECK_EQ(t, content.n_parts > 2 && content.parts[2].lost, how < 3);
        CHECK(t, rig_restore(saved, back) && back->length == rows[how]);
        CHECK(t, memcmp(back->rows, p->engine.rows, back->length * sizeof back->rows[0]) == 0);
        CHECK_EQ(t, saved_has_others_rows(saved), how != 2 && how != 4);
        CHECK_STR(t, saved_why_no_rows(saved),
                  how == 2 || how == 4 ? "its session.json is damaged, and nothing else says what its KV cache is of"
                                       : "its KV cache is not saved");
        CHECK_STR(t, texts, readable[how]);
        CHECK_STR(t, saved_name(saved), "talk-recovered");
        saved_content_release(&content);
        p->engine.length = 0;
        CHECK(t, rig_append(saved, TOK_USER, "three", NULL));
        CHECK_EQ(t, saved_commit(saved, NULL, &p->error), STORE_OK);
        saved_close(saved);
        free(back);
        CHECK_EQ(t, size_of(p, "talk", "transcript.jsonl"), bytes);
        snprintf(texts, sizeof texts, "%s|three", readable[how]);
        check_session(t, p, "talk-recovered", texts, false);
        close_place(p);
    }
}

static void one_process_at_a_time(struct harness *t)
{
    struct place *p = open_place();
    struct saved *saved = new_session(t, p, "talk"), *second;
    struct saved_content content;
    exchange(t, p, saved, "one", "first");
    pid_t child = fork();
    if (child == 0) {
        enum store_code code = saved_open(&p->store, "talk", &second, &content, &p->error);
        char holder[64];
        snprintf(holder, sizeof holder, "open in another moechat (pid %ld)", (long)getppid());
        _exit(code == STORE_BUSY && strstr(p->error.text, holder) ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    CHECK_EQ(t, status, 0);
    CHECK_EQ(t, store_remove(&p->store, "talk", &p->error), STORE_BUSY);
    CHECK_EQ(t, store_rename(&p->store, "talk", "other", false, &p->error), STORE_BUSY);
    saved_close(saved);
    check_session(t, p, "talk", "one|first", true);
    close_place(p);
}

static int lock_fails; // with this errno; 0: as usual

// In the place of the C library's.
int flock(int fd, int operation)
{
    (void)operation;
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    errno = lock_fails;
    return lock_fails ? -1 : fcntl(fd, F_OFD_SETLK, &whole);
}

static void a_lock_that_fails_is_no_other_process(struct harness *t)
{
    struct place *p = open_place();
    int lock;
    saved_close(new_session(t, p, "kept"));
    struct saved *saved = new_session(t, p, "talk");
    exchange(t, p, saved, "one", "first");
    saved_close(saved);
    lock_fails = EIO;
    CHECK_EQ(t, store_lock(&p->store, "talk", &lock, &p->error), STORE_IO);
    CHECK(t, strstr(p->error.text, "Input/output error") != NULL);
    lock_fails = EWOULDBLOCK;
    CHECK_EQ(t, store_lock(&p->store, "talk", &lock, &p->error), STORE_BUSY);
    char name[STORE_NAME_SIZE] = "talk";
    for (int i = 0; i < 2; i++) { // one that could not be begun leaves no folder, and its name free
        struct stat about;
        lock_fails = EIO;
        CHECK_EQ(t, store_make(&p->store, name, true, &lock, &p->error), STORE_IO);
        CHECK_STR(t, name, "talk");
        CHECK(t, stat(store_path(&p->store, "talk-2", NULL).text, &about) != 0);
    }
    lock_fails = 0;
    close_place(p);
}

// A folder that another finds before it is locked, saves a conversation in and leaves again.
struct finder {
    struct harness *t;
    struct place *place;
    struct store theirs;
    int removals; // that are to come
};

static int make_and_be_found(void *context, const char *path)
{
    struct finder *finder = context;
    if (store_io_posix.mkdir(store_io_posix.context, path) != 0)
        return -1;
    if (strcmp(path, store_path(&finder->theirs, "race", NULL).text) != 0)
        return 0;
    struct saved *saved;
    struct saved_content content;
    struct origin origin = rig_origin();
    CHECK_EQ(finder->t, saved_open(&finder->theirs, "race", &saved, &content, &finder->place->error), STORE_OK);
    saved_content_release(&content);
    saved_set_origin(saved, &origin);
    exchange(finder->t, finder->place, saved, "theirs", "kept");
    saved_close(saved);
    return 0;
}

static void what_is_found_before_it_is_locked_is_anothers(struct harness *t)
{
    for (int other = 0; other < 2; other++) {
        struct place *p = open_place();
        struct finder finder = {t, p, p->store, 0};
        struct store_io io = store_io_posix;
        io.context = &finder;
        io.mkdir = make_and_be_found;
        struct store ours = p->store;
        ours.io = &io;
        char name[STORE_NAME_SIZE] = "race";
        int lock;
        CHECK_EQ(t, store_make(&ours, name, other, &lock, &p->error), other ? STORE_OK : STORE_TAKEN);
        CHECK_STR(t, name, other ? "race-2" : "race");
        CHECK_EQ(t, lock >= 0, other);
        if (lock >= 0)
            close(lock);
        check_session(t, p, "race", "theirs|kept", true);
        close_place(p);
    }
}

// Another removes it before it is locked, `removals` times: it is made again under the same name, or a free one.
static int make_and_be_removed(void *context, const char *path)
{
    struct finder *finder = context;
    if (store_io_posix.mkdir(store_io_posix.context, path) != 0)
        return -1;
    if (strcmp(path, store_path(&finder->theirs, "race", NULL).text) == 0 && finder->removals > 0) {
        finder->removals--;
        CHECK_EQ(finder->t, store_remove(&finder->theirs, "race", &finder->place->error), STORE_OK);
    }
    return 0;
}

static void what_is_removed_before_it_is_locked_is_made_again(struct harness *t)
{
    for (int removals = 1; removals < 3; removals++)
        for (int other = 0; other < 2; other++) {
            struct place *p = open_place();
            struct finder finder = {t, p, p->store, removals};
            struct store_io io = store_io_posix;
            io.context = &finder;
            io.mkdir = make_and_be_removed;
            struct store ours = p->store;
            ours.io = &io;
            char name[STORE_NAME_SIZE] = "race";
            int lock;
            bool made = removals == 1 || other;
            CHECK_EQ(t, store_make(&ours, name, other, &lock, &p->error), made ? STORE_OK : STORE_NOT_FOUND);
            CHECK_STR(t, name, removals == 1 || !other ? "race" : "race-2");
            CHECK_EQ(t, lock >= 0, made);
            if (lock >= 0)
                close(lock);
            close_place(p);
        }
}

static bool before_1970;

// In the place of the C library's, as above.
time_t time(time_t *out)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (before_1970)
        now.tv_sec = -5;
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}

static void a_clock_before_1970_saves_as_any(struct harness *t)
{
    struct place *p = open_place();
    before_1970 = true;
    struct saved *saved = new_session(t, p, "early");
    exchange(t, p, saved, "one", "first");
    saved_close(saved);
    before_1970 = false;
    check_session(t, p, "early", "one|first", true);
    close_place(p);
}

// The session that was used last is not the one whose clock was ahead.
static void a_time_to_come_does_not_last(struct harness *t)
{
    struct place *p = open_place();
    static const char *const names[] = {"ahead", "now"};
    for (int i = 0; i < 2; i++) {
        struct saved *saved = new_session(t, p, names[i]);
        p->engine.length = 0;
        exchange(t, p, saved, "one", "first");
        saved_close(saved);
        used_at(t, p, names[i], i ? 0 : -(1 << 30));
        struct timespec times[2] = {{.tv_sec = time(NULL) - (i ? 0 : 100)}, {.tv_sec = time(NULL) - (i ? 0 : 100)}};
        CHECK_EQ(t, utimensat(AT_FDCWD, store_path(&p->store, names[i], "session.json").text, times, 0), 0);
    }
    struct store_list list;
    CHECK_EQ(t, store_list(&p->store, &list, &p->error), STORE_OK);
    CHECK(t, list.n_entries == 2 && strcmp(list.entries[0].name, "now") == 0);
    CHECK(t, list.n_entries == 2 && list.entries[1].updated <= (uint64_t)time(NULL));
    struct saved_content content; // and who reads it is told the same
    CHECK_EQ(t, saved_read(&p->store, "ahead", &content, &p->error), STORE_OK);
    CHECK_EQ(t, content.manifest.updated, list.entries[1].updated);
    CHECK_EQ(t, list.entries[1].manifest.updated, list.entries[1].updated);
    saved_content_release(&content);
    store_list_release(&list);
    close_place(p);
}

// Nor is it the last where its files are of that time, too, as such a clock makes them: then it was used when it was
// begun, or nobody knows. Seconds are no such thing.
static void files_to_come_do_not_last(struct harness *t)
{
    struct place *p = open_place();
    struct saved *saved = new_session(t, p, "ahead");
    exchange(t, p, saved, "one", "first");
    saved_close(saved);
    for (int far = 0; far < 2; far++) {
        uint64_t now = (uint64_t)time(NULL);
        int64_t ahead = (int64_t)now + (far ? 1 << 28 : 1000);
        const struct timespec times[2] = {{.tv_sec = ahead}, {.tv_sec = ahead}};
        for (int file = 0; file < 2; file++)
            CHECK_EQ(t,
                     utimensat(AT_FDCWD,
                               store_path(&p->store, "ahead", file ? "transcript.jsonl" : "session.json").text, times,
                               0),
                     0);
        struct manifest manifest = {.created = now - 5000, .updated = (uint64_t)ahead};
        store_note_use(&p->store, "ahead", &manifest);
        CHECK(t, far ? manifest.updated == manifest.created : manifest.updated >= now && manifest.updated <= now + 60);
        manifest.created = manifest.updated = (uint64_t)ahead;
        store_note_use(&p->store, "ahead", &manifest);
        CHECK(t, far ? manifest.updated == 0 : manifest.updated >= now && manifest.updated <= now + 60);
    }
    close_place(p);
}

// Of two that were used in one second the later comes first, whatever its name, and whichever file was replaced since.
static void the_later_of_a_second_comes_first(struct harness *t)
{
    struct place *p = open_place();
    static const char *const names[] = {"zebra", "middle", "apple"};
    struct store_list list;
    for (int i = 0; i < 3; i++) {
        struct saved_content content;
        struct saved *saved = new_session(t, p, names[i]);
        p->engine.length = 0;
        exchange(t, p, saved, "one", "first");
        saved_close(saved);
        CHECK_EQ(t, saved_read(&p->store, names[i], &content, &p->error), STORE_OK);
        CHECK(t, content.manifest.updated_ns > 0); // it says so itself
        saved_content_release(&content);
    }
    uint64_t second = (uint64_t)time(NULL) - 100;
    for (int i = 0; i < 3; i++) {
        const struct timespec times[2] = {{.tv_sec = (time_t)second, .tv_nsec = 1000 * i},
                                          {.tv_sec = (time_t)second, .tv_nsec = 1000 * i}};
        used_at(t, p, names[i], (int)((uint64_t)time(NULL) - second));
        CHECK_EQ(t, utimensat(AT_FDCWD, store_path(&p->store, names[i], "session.json").text, times, 0), 0);
    }
    for (int act = 0; act < 4; act++) { // nothing, compact, prune, lose the rows to the cap: none of them is a use
        for (int i = 0; i < 3 && act > 0 && act < 3; i++) {
            struct saved *saved;
            struct saved_content content;
            CHECK_EQ(t, saved_open(&p->store, names[2 - i], &saved, &content, &p->error), STORE_OK);
            CHECK_EQ(t, act == 1 ? saved_compact(saved, &p->error) : saved_prune(saved, &p->error), STORE_OK);
            saved_content_release(&content);
            saved_close(saved);
        }
        p->store.kv_cap = act == 3 ? 0 : UINT64_MAX;
        store_trim(&p->store, "", &p->error);
        CHECK_EQ(t, store_list(&p->store, &list, &p->error), STORE_OK);
        CHECK_EQ(t, list.n_entries, 3);
        for (size_t i = 0; i < list.n_entries && list.entries[0].updated == list.entries[2].updated; i++)
            CHECK_STR(t, list.entries[i].name, names[2 - i]);
        store_list_release(&list);
    }
    for (int file = 0; file < 2; file++) { // a damaged one of that second by its file
        const struct timespec times[2] = {{.tv_sec = (time_t)second, .tv_nsec = 5000},
                                          {.tv_sec = (time_t)second, .tv_nsec = 5000}};
        struct store_path path = store_path(&p->store, "middle", file ? "transcript.jsonl" : "session.json");
        CHECK(t, file || truncate(path.text, 9) == 0);
        CHECK_EQ(t, utimensat(AT_FDCWD, path.text, times, 0), 0);
    }
    CHECK_EQ(t, store_list(&p->store, &list, &p->error), STORE_OK);
    CHECK(t, list.n_entries == 3 && list.entries[0].damaged && strcmp(list.entries[0].name, "middle") == 0);
    store_list_release(&list);
    close_place(p);
}

// Housekeeping is no use of a session: it leaves the time and the order alone, whether or not anything is removed, and
// also a time that only the file tells, as the clock was ahead.
static void housekeeping_is_no_use(struct harness *t)
{
    struct place *p = open_place();
    static const char *const names[] = {"today", "ahead", "branches", "plain"};
    static const int ago[] = {0, 500, 1000, 2000};
    uint64_t used[4];
    struct store_list list;
    for (int i = 0; i < 4; i++) {
        struct saved *saved = new_session(t, p, names[i]);
        p->engine.length = 0;
        exchange(t, p, saved, "one", "first");
        if (i == 2) {
            saved_cut(saved, 4);
            p->engine.length = 4;
            CHECK(t, rig_append(saved, TOK_ASSISTANT, "another", &p->engine));
            commit(t, p, saved);
        }
        saved_close(saved);
        used_at(t, p, names[i], i == 1 ? -(1 << 30) : ago[i]);
    }
    struct timespec times[2] = {{.tv_sec = time(NULL) - 500}, {.tv_sec = time(NULL) - 500}};
    CHECK_EQ(t, utimensat(AT_FDCWD, store_path(&p->store, "ahead", "session.json").text, times, 0), 0);
    for (int act = 0; act < 4; act++) { // nothing, compact, prune, lose the rows to the cap
        for (int i = 1; i < 4 && act > 0 && act < 3; i++) {
            struct saved *saved;
            struct saved_content content;
            CHECK_EQ(t, saved_open(&p->store, names[i], &saved, &content, &p->error), STORE_OK);
            CHECK_EQ(t, act == 1 ? saved_compact(saved, &p->error) : saved_prune(saved, &p->error), STORE_OK);
            saved_content_release(&content);
            saved_close(saved);
        }
        p->store.kv_cap = act == 3 ? 0 : UINT64_MAX;
        store_trim(&p->store, "", &p->error);
        CHECK_EQ(t, store_list(&p->store, &list, &p->error), STORE_OK);
        CHECK_EQ(t, list.n_entries, 4);
        for (size_t i = 0; i < 4 && i < list.n_entries; i++) {
            CHECK_STR(t, list.entries[i].name, names[i]);
            CHECK_EQ(t, list.entries[i].updated, act ? used[i] : list.entries[i].updated);
            used[i] = act ? used[i] : list.entries[i].updated;
        }
        store_list_release(&list);
    }
    CHECK_EQ(t, store_kv_bytes(&p->store, "ahead"), 0);
    close_place(p);
}

// A disk on which another process saves as the rows are to be opened, so many times.
struct busy_disk {
    struct store store; // as that one sees it
    struct harness *t;
    int times;
};

static int open_on_busy_disk(void *context, const char *path, int flags)
{
    struct busy_disk *disk = context;
    const struct store_io *io = disk->store.io;
    if (strstr(path, "/kv.") && disk->times) {
        struct saved *saved;
        struct saved_content content;
        struct store_error error;
        disk->times--;
        CHECK_EQ(disk->t, saved_open(&disk->store, "talk", &saved, &content, &error), STORE_OK);
        CHECK(disk->t, rig_append(saved, TOK_USER, "more", NULL));
        CHECK_EQ(disk->t, saved_compact(saved, &error), STORE_OK); // the rows are in the other file now
        saved_content_release(&content);
        saved_close(saved);
    }
    return io->open(io->context, path, flags);
}

static int check_length(const struct moe_record_io *io, const struct moe_record *record, struct moe_err *err)
{
    struct stat about;
    snprintf(err->text, sizeof err->text, "%s: too short", io->path);
    return fstat(io->fd, &about) != 0 || (uint64_t)about.st_size < record->offset + record->bytes;
}

// What is replaced while it is verified is looked at again; what is damaged is called so, and a disk that never rests
// doesn't hold it up.
static void verifying_beside_a_chat_begins_again(struct harness *t)
{
    for (int times = 0; times < 200; times = times ? times * 5 : 1) {
        struct place *p = open_place();
        struct saved *saved = new_session(t, p, "talk");
        struct saved_verdict verdict;
        struct busy_disk disk = {p->store, t, times};
        struct store_io io = *p->store.io;
        io.context = &disk;
        io.open = open_on_busy_disk;
        exchange(t, p, saved, "one", "first");
        saved_close(saved);
        p->store.io = &io;
        CHECK_EQ(t, saved_verify(&p->store, "talk", check_length, &verdict, &p->error), STORE_OK);
        CHECK_EQ(t, verdict.wrong.length == 0, times < 20);
        CHECK_EQ(t, verdict.n_records, 2);
        bytes_release(&verdict.wrong);
        disk.times = 0;
        unlink(store_path(&p->store, "talk", "kv.bin").text);
        unlink(store_path(&p->store, "talk", "kv.2.bin").text);
        CHECK_EQ(t, saved_verify(&p->store, "talk", check_length, &verdict, &p->error), STORE_OK);
        CHECK(t, verdict.wrong.length && strstr(verdict.wrong.data, "10 tokens would be read again"));
        bytes_release(&verdict.wrong);
        close_place(p);
    }
}

static void names_are_never_overwritten(struct harness *t)
{
    struct place *p = open_place();
    struct saved *a = new_session(t, p, "a"), *b = new_session(t, p, "b"), *c;
    exchange(t, p, a, "one", "first");
    CHECK_EQ(t, saved_new(&p->store, "a", &c, &p->error), STORE_TAKEN);
    CHECK_EQ(t, saved_rename(b, "a", &p->error), STORE_TAKEN);
    CHECK_EQ(t, saved_rename(b, "c", &p->error), STORE_OK);
    CHECK_STR(t, saved_name(b), "c");
    CHECK(t, rig_append(b, TOK_USER, "x", NULL));
    CHECK_EQ(t, saved_commit(b, NULL, &p->error), STORE_OK);
    CHECK_EQ(t, saved_rename(a, "b", &p->error), STORE_OK);
    exchange(t, p, a, "two", "second"); // goes on under its new name
    saved_close(a);
    saved_close(b);
    CHECK_EQ(t, saved_open(&p->store, "a", &a, &(struct saved_content){0}, &p->error), STORE_NOT_FOUND);
    check_session(t, p, "b", "one|first|two|second", true);
    CHECK_EQ(t, store_rename(&p->store, "c", "b", false, &p->error), STORE_TAKEN);
    CHECK_EQ(t, store_remove(&p->store, "b", &p->error), STORE_OK);
    CHECK_EQ(t, store_remove(&p->store, "b", &p->error), STORE_NOT_FOUND);
    a = new_session(t, p, "");
    b = new_session(t, p, "");
    p->engine.length = 0;
    exchange(t, p, a, "hi", "x");
    p->engine.length = 0;
    exchange(t, p, b, "hi", "y");
    CHECK(t, strcmp(saved_name(a), saved_name(b)) != 0);
    saved_close(a);
    saved_close(b);
    close_place(p);
}

static unsigned state_files(const struct saved *saved)
{
    unsigned files = 0;
    for (unsigned i = 0; i < STATE_FILES; i++)
        files += access(saved_state_path(saved, i).text, F_OK) == 0;
    return files;
}

static void check_states(struct harness *t, const struct place *p, const struct saved *saved, const uint32_t *after,
                         size_t n)
{
    const struct manifest *manifest = saved_manifest(saved);
    CHECK_EQ(t, manifest->n_states, n);
    for (size_t i = 0; i < n && i < manifest->n_states; i++) {
        CHECK_EQ(t, manifest->states[i].record.first, after[i]);
        CHECK(t, rig_state_is_sound(saved, &p->engine, &manifest->states[i]));
    }
    CHECK_EQ(t, state_files(saved), n); // what is not named is not there
    CHECK_EQ(t, store_state_bytes(&p->store, saved_name(saved)), n * sizeof(uint64_t));
}
#define CHECK_STATES(t, p, saved, ...)                                                                                 \
    check_states(t, p, saved, (const uint32_t[]){__VA_ARGS__}, sizeof(const uint32_t[]){__VA_ARGS__} / sizeof(uint32_t))

// States are few: those of the last exchange, and those after the two answers before.
static void few_states_are_kept(struct harness *t)
{
    struct place *p = open_place();
    struct saved *saved = new_session(t, p, "talk");
    p->engine.states = true;
    exchange(t, p, saved, "ab", "c");
    CHECK_STATES(t, p, saved, 3, 5);
    exchange(t, p, saved, "ab", "c");
    CHECK_STATES(t, p, saved, 5, 8, 10);
    exchange(t, p, saved, "ab", "c");
    CHECK_STATES(t, p, saved, 5, 10, 13, 15);
    exchange(t, p, saved, "ab", "c");
    CHECK_STATES(t, p, saved, 10, 15, 18, 20);
    saved_close(saved);
    struct saved_content content;
    CHECK_EQ(t, saved_open(&p->store, "talk", &saved, &content, &p->error), STORE_OK);
    saved_content_release(&content);
    CHECK_STATES(t, p, saved, 10, 15, 18, 20);
    saved_cut(saved, 10); // undo two
    p->engine.length = 10;
    commit(t, p, saved);
    CHECK_STATES(t, p, saved, 10);
    exchange(t, p, saved, "xyz", "c");
    CHECK_STATES(t, p, saved, 10, 14, 16);
    saved_cut(saved, 5); // to where none is any more: the engine went back to the beginning
    p->engine.length = 0;
    commit(t, p, saved);
    CHECK_EQ(t, saved_manifest(saved)->n_states, 0);
    p->engine.length = 5;
    commit(t, p, saved);
    CHECK_STATES(t, p, saved, 5);
    CHECK_EQ(t, saved_compact(saved, &p->error), STORE_OK);
    CHECK_STATES(t, p, saved, 5);
    saved_close(saved);
    check_session(t, p, "talk", "ab|c", true);
    CHECK_EQ(t, store_remove(&p->store, "talk", &p->error), STORE_OK);
    CHECK_EQ(t, rmdir(p->store.root), 0); // nothing is left
    close_place(p);
}

// A turn of a template that leaves thinking out: what was said comes anew, shorter, and a border stands behind it and
// one before the thinking of the new prompt.
static void think(struct harness *t, struct place *p, struct saved *saved, const char *user)
{
    const struct manifest *manifest = saved_manifest(saved);
    bool first = !manifest->n_parts;
    uint32_t begin = manifest_tokens(manifest);
    if (!first)
        begin -= manifest->parts[manifest->n_parts - 1].tokens + manifest->parts[manifest->n_parts - 2].tokens;
    saved_cut(saved, begin);
    p->engine.length = begin;
    if (!first)
        CHECK(t, rig_append(saved, TOK_USER, "ab", &p->engine) && rig_append(saved, TOK_ASSISTANT, "c", &p->engine));
    uint32_t said = p->engine.length;
    CHECK(t, rig_append(saved, TOK_USER, user, &p->engine));
    struct saved_rows rows = rig_rows(&p->engine);
    rows.borders[0] = first ? 0 : said;
    rows.borders[1] = p->engine.length - 2;
    CHECK_EQ(t, saved_commit(saved, &rows, &p->error), STORE_OK);
    CHECK(t, rig_append(saved, TOK_ASSISTANT, "hm, c", &p->engine));
    commit(t, p, saved);
}

static void states_behind_what_comes_anew_are_kept(struct harness *t)
{
    struct place *p = open_place();
    struct saved *saved = new_session(t, p, "talk");
    p->engine.states = true;
    think(t, p, saved, "abhm");
    CHECK_STATES(t, p, saved, 3, 5, 11);
    think(t, p, saved, "abhm");
    CHECK_STATES(t, p, saved, 5, 8, 10, 16);
    think(t, p, saved, "abhm");
    CHECK_STATES(t, p, saved, 5, 10, 13, 15, 21);
    think(t, p, saved, "abhm");
    CHECK_STATES(t, p, saved, 10, 15, 18, 20, 26);
    saved_close(saved);
    struct saved_content content;
    CHECK_EQ(t, saved_open(&p->store, "talk", &saved, &content, &p->error), STORE_OK);
    saved_content_release(&content);
    CHECK_STATES(t, p, saved, 10, 15, 18, 20, 26);
    saved_cut(saved, 10); // undo two
    p->engine.length = 10;
    commit(t, p, saved);
    CHECK_STATES(t, p, saved, 10);
    saved_close(saved);
    close_place(p);
}

// A disk with room for so many bytes more. What is replaced gives nothing back.
struct small_disk {
    uint64_t room;
};

static uint64_t length_of(int fd)
{
    struct stat about;
    return fstat(fd, &about) == 0 ? (uint64_t)about.st_size : 0;
}

static ptrdiff_t write_on_small_disk(void *context, int fd, const void *source, size_t length, uint64_t offset)
{
    struct small_disk *disk = context;
    uint64_t now = length_of(fd), room = disk->room + (offset < now ? now - offset : 0);
    if (room == 0) {
        errno = ENOSPC;
        return -1;
    }
    ptrdiff_t wrote = pwrite(fd, source, length < room ? length : (size_t)room, (off_t)offset);
    disk->room -= length_of(fd) - now;
    return wrote;
}

static int truncate_on_small_disk(void *context, int fd, uint64_t length)
{
    struct small_disk *disk = context;
    uint64_t now = length_of(fd);
    if (length < now)
        disk->room += now - length;
    return ftruncate(fd, (off_t)length);
}

static int unlink_on_small_disk(void *context, const char *path)
{
    struct small_disk *disk = context;
    struct stat about;
    if (stat(path, &about) == 0)
        disk->room += (uint64_t)about.st_size;
    return unlink(path);
}

static ptrdiff_t rows_fail(void *context, int fd, const void *source, size_t length, uint64_t offset)
{
    char path[64], file[PATH_MAX];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t got = readlink(path, file, sizeof file - 1);
    file[got > 0 ? got : 0] = 0;
    errno = EIO;
    return strstr(file, "/kv.") ? -1 : write_on_small_disk(context, fd, source, length, offset);
}

static int renames_fail(void *context, const char *from, const char *to)
{
    (void)context, (void)from, (void)to;
    errno = EIO;
    return -1;
}

// Is a message saved that comes when there is so much room? Then it is there, and rows and states that are named are
// sound; files of states that are not named have given their room back.
static bool saves_with_room(struct harness *t, uint64_t room, uint64_t kv_cap, bool states)
{
    struct place *p = open_place();
    struct small_disk disk = {UINT64_MAX / 2};
    struct store_io io = store_io_posix;
    io.context = &disk;
    io.write = write_on_small_disk;
    io.truncate = truncate_on_small_disk;
    io.unlink = unlink_on_small_disk;
    p->store.io = &io;
    p->store.kv_cap = kv_cap;
    p->engine.states = states;
    struct saved *saved = new_session(t, p, "full");
    exchange(t, p, saved, "one", "two");
    disk.room = room;
    struct saved_rows rows = rig_rows(&p->engine);
    CHECK(t, rig_append(saved, TOK_USER, "a message of some words, so that its rows need more room than its text",
                        &p->engine));
    rows.length = p->engine.length;
    bool fine = saved_commit(saved, &rows, &p->error) == STORE_OK;
    uint32_t unsaved = manifest_tokens(saved_manifest(saved)) - manifest_rows(saved_manifest(saved));
    CHECK_EQ(t, strstr(p->error.text, "saved the text, but not") != NULL, fine && unsaved && kv_cap);
    CHECK(t, fine || strstr(p->error.text, "conversation not saved"));
    if (fine)
        CHECK_EQ(t, state_files(saved), saved_manifest(saved)->n_states);
    saved_close(saved);
    struct saved_content content;
    CHECK_EQ(t, saved_open(&p->store, "full", &saved, &content, &p->error), STORE_OK);
    CHECK_STR(t, content.damage, "");
    CHECK_EQ(t, content.n_parts, fine ? 3 : 2);
    CHECK(t, rig_restore(saved, &p->engine));
    CHECK_EQ(t, p->engine.length, kv_cap ? (fine && !unsaved ? 79 : 8) : 0);
    saved_content_release(&content);
    saved_close(saved);
    close_place(p);
    return fine;
}

static void rows_never_take_the_texts_place(struct harness *t)
{
    enum { STEP = 40, ENOUGH = 4000 };
    uint64_t room = 0;
    while (room < ENOUGH && !saves_with_room(t, room, 0, false))
        room += STEP;
    CHECK(t, room > 0 && room < ENOUGH);
    for (uint64_t end = room + 1500; room < end; room += STEP)
        for (int states = 0; states <= (room / STEP % 4 == 0); states++) // the manifest names records and states, too
            CHECK(t, saves_with_room(t, room + (states ? 800 : 400), UINT64_MAX, states));
}

// Why a session has no rows is known until it has some: a save of them that fails is none.
static void rows_that_fail_do_not_undo_the_cap(struct harness *t)
{
    struct place *p = open_place();
    struct small_disk disk = {UINT64_MAX / 2};
    struct store_io io = store_io_posix;
    io.context = &disk;
    io.write = write_on_small_disk;
    io.truncate = truncate_on_small_disk;
    io.unlink = unlink_on_small_disk;
    p->store.io = &io;
    p->store.kv_cap = 1;
    struct saved *saved = new_session(t, p, "capped");
    CHECK(t, rig_append(saved, TOK_USER, "one", &p->engine));
    struct saved_rows rows = rig_rows(&p->engine);
    CHECK_EQ(t, saved_commit(saved, &rows, &p->error), STORE_OK);
    CHECK(t, saved_manifest(saved)->capped);
    saved_close(saved);
    p->store.kv_cap = UINT64_MAX;
    struct saved_content content;
    CHECK_EQ(t, saved_open(&p->store, "capped", &saved, &content, &p->error), STORE_OK);
    saved_content_release(&content);
    disk.room = 8; // of the rows not all, of the manifest what the one before it gives back is not enough
    CHECK_EQ(t, saved_commit(saved, &rows, &p->error), STORE_IO);
    CHECK(t, saved_manifest(saved)->capped);
    disk.room = UINT64_MAX / 2;
    io.write = rows_fail;
    CHECK_EQ(t, saved_commit(saved, &rows, &p->error), STORE_OK);
    CHECK(t, strstr(p->error.text, "saved the text, but not the KV cache") && saved_manifest(saved)->capped);
    CHECK_STR(t, saved_why_no_rows(saved), "its KV cache was dropped to keep --kv-cap");
    io.write = write_on_small_disk;
    io.rename = renames_fail;
    CHECK_EQ(t, saved_commit(saved, &rows, &p->error), STORE_IO);
    CHECK(t, saved_manifest(saved)->capped && !saved_manifest(saved)->n_records);
    io.rename = store_io_posix.rename;
    CHECK_EQ(t, saved_commit(saved, &rows, &p->error), STORE_OK);
    CHECK(t, !saved_manifest(saved)->capped && saved_manifest(saved)->n_records);
    saved_close(saved);
    close_place(p);
}

// A manifest that names places outside of the transcript, with a right sum, is believed in nothing but the numbers.
static void lines_are_found_wherever_they_are_said_to_be(struct harness *t)
{
    static const char *const places[] = {"\"offset\":1000000000000,\"bytes\":",
                                         "\"offset\":4611686018427387903,\"bytes\":",
                                         "\"offset\":7,\"bytes\":",
                                         "\"offset\":0,\"bytes\":4611686018427387903,\"x\":",
                                         "\"offset\":0,\"bytes\":1,\"x\":",
                                         "\"offset\":0,\"bytes\":0,\"x\":"};
    enum { BODY = 26 };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct place *p = open_place();
        struct saved *saved = new_session(t, p, "talk");
        struct store_path path = store_path(&p->store, "talk", "session.json");
        struct bytes file = {0}, line = {0};
        char from[64], to[128];
        exchange(t, p, saved, "one", "two");
        saved_close(saved);
        CHECK_EQ(t, files_read(path.text, MANIFEST_LIMIT, &file), 0);
        snprintf(from, sizeof from, "\"part\":0,\"role\":\"user\",\"offset\":0,\"bytes\":");
        snprintf(to, sizeof to, "\"part\":0,\"role\":\"user\",%s", places[i]);
        file.data[file.length - 2] = 0; // without its last brace
        if (seal_changed(t, file.data + BODY, &(struct sealed_change){from, to, true}, &line)) {
            FILE *out = fopen(path.text, "wb");
            CHECK(t, out && fwrite(line.data, 1, line.length, out) == line.length && fclose(out) == 0);
            check_session(t, p, "talk", "one|two", true);
        }
        bytes_release(&file);
        bytes_release(&line);
        close_place(p);
    }
}

// A session that begins with a system message has no name but the time; its first message gives it one, with a number
// where that is taken, unless people gave it theirs.
static void the_first_message_names_it_unless_people_did(struct harness *t)
{
    struct place *p = open_place();
    char first[STORE_NAME_SIZE] = "";
    for (int i = 0; i < 3; i++) {
        struct saved *saved = new_session(t, p, "");
        CHECK(t, rig_append(saved, TOK_SYSTEM, "be", NULL));
        CHECK_EQ(t, saved_commit(saved, NULL, &p->error), STORE_OK);
        if (i == 2)
            CHECK_EQ(t, saved_rename(saved, "mine", &p->error), STORE_OK);
        CHECK(t, rig_append(saved, TOK_USER, "hi", NULL));
        CHECK_EQ(t, saved_commit(saved, NULL, &p->error), STORE_OK);
        if (i == 0)
            snprintf(first, sizeof first, "%s", saved_name(saved));
        CHECK(t, strstr(first, "-hi") != NULL);
        CHECK_STR(t, saved_name(saved) + (i == 1 ? strlen(first) : 0), i == 0 ? first : i == 1 ? "-2" : "mine");
        saved_close(saved);
    }
    close_place(p);
}

// An answer that ended before it said anything, where no token ends one.
static bool append_silent(struct saved *saved)
{
    struct part part = {.role = TOK_ASSISTANT, .made = {.time = 1000, .stop = "end"}};
    bool fine = bytes_append(&part.text, "<think>", 7) && saved_append(saved, &part);
    part_release(&part);
    return fine;
}

// Another answer to its message has it in its place; a message has it before itself.
static void an_answer_without_tokens_is_cut_by_what_follows(struct harness *t)
{
    for (int again = 0; again < 2; again++) {
        char root[64], texts[200];
        struct store store = rig_store(root);
        struct store_error error;
        struct saved_content content;
        struct saved *saved = NULL;
        CHECK_EQ(t, saved_new(&store, "talk", &saved, &error), STORE_OK);
        CHECK(t, rig_append(saved, TOK_USER, "one", NULL) && append_silent(saved));
        again ? saved_cut_for_answer(saved, 4) : saved_cut(saved, 4);
        CHECK(t, rig_append(saved, again ? TOK_ASSISTANT : TOK_USER, "next", NULL));
        CHECK_EQ(t, saved_commit(saved, NULL, &error), STORE_OK);
        saved_close(saved);
        CHECK_EQ(t, saved_read(&store, "talk", &content, &error), STORE_OK);
        rig_texts(&content, texts, sizeof texts);
        CHECK_STR(t, texts, again ? "one|next" : "one|<think>|next");
        CHECK_EQ(t, content.n_others, again);
        if (again && content.n_others)
            CHECK(t, content.others[0].number == 1 && content.others[0].after == 0 && content.parts[1].after == 0);
        saved_content_release(&content);
        rig_clean(root);
    }
}

// As it was left by builds of before: what answers its message again stood behind it, in any branch.
static void an_answer_behind_one_without_tokens_is_beside_it(struct harness *t)
{
    for (int bare = 0; bare < 2; bare++) { // of the lines alone, too
        char root[64], texts[200];
        struct store store = rig_store(root);
        struct store_error error;
        struct saved_content content;
        struct saved *saved = NULL, *fork = NULL;
        CHECK_EQ(t, saved_new(&store, "talk", &saved, &error), STORE_OK);
        CHECK(t, rig_append(saved, TOK_USER, "one", NULL) && append_silent(saved) && append_silent(saved));
        CHECK(t, rig_append(saved, TOK_ASSISTANT, "first", NULL) && rig_append(saved, TOK_USER, "two", NULL));
        CHECK(t, append_silent(saved) && rig_append(saved, TOK_ASSISTANT, "second", NULL));
        saved_cut(saved, 4 + 6); // back to the first, and on from there
        CHECK(t, rig_append(saved, TOK_USER, "three", NULL) && append_silent(saved));
        CHECK_EQ(t, manifest_messages(saved_manifest(saved)), 4);
        CHECK_EQ(t, saved_commit(saved, NULL, &error), STORE_OK);
        CHECK(t, !bare || unlink(store_path(&store, "talk", "session.json").text) == 0);
        CHECK_EQ(t, saved_read(&store, "talk", &content, &error), STORE_OK);
        rig_texts(&content, texts, sizeof texts);
        CHECK_STR(t, texts, "one|first|three|<think>");
        const int64_t wanted[] = {1, 0, 2, 0, 4, 3, 5, 4, 6, 4}; // each with what it follows
        CHECK(t, content.n_parts == 4 && content.parts[1].after == 0 && content.parts[3].after == 7);
        CHECK_EQ(t, content.n_others, 5);
        for (size_t i = 0; i < content.n_others && i < 5; i++)
            CHECK(t, content.others[i].number == wanted[2 * i] && content.others[i].after == wanted[2 * i + 1]);
        saved_content_release(&content);
        if (!bare && CHECK_EQ(t, saved_fork(saved, &fork, &error), STORE_OK)) { // it is so on the disk there
            CHECK_EQ(t, saved_manifest(fork)->n_parts, 4);
            CHECK_EQ(t, saved_manifest(fork)->n_others, 5);
        }
        saved_close(fork);
        saved_close(saved);
        rig_clean(root);
    }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(an_answer_without_tokens_is_cut_by_what_follows),
        TEST(an_answer_behind_one_without_tokens_is_beside_it),
        TEST(the_first_message_names_it_unless_people_did),
        TEST(rows_never_take_the_texts_place),
        TEST(rows_that_fail_do_not_undo_the_cap),
        TEST(lines_are_found_wherever_they_are_said_to_be),
        TEST(names_stay_in_the_store),
        TEST(what_was_saved_comes_back),
        TEST(any_text_survives),
        TEST(undo_is_the_manifests_alone),
        TEST(branches_stay_until_they_are_pruned),
        TEST(saving_costs_what_the_turn_added),
        TEST(compact_leaves_what_lives),
        TEST(what_was_taken_back_leaves_nothing_when_pruned),
        TEST(foreign_rows_are_forgotten),
        TEST(ids_are_in_the_language_of_their_lines),
        TEST(a_damaged_transcript_is_kept),
        TEST(many_lines_are_found_soon),
        TEST(lines_in_any_order_are_read_as_soon),
        TEST(lines_without_a_manifest_are_adopted),
        TEST(one_process_at_a_time),
        TEST(a_lock_that_fails_is_no_other_process),
        TEST(a_clock_before_1970_saves_as_any),
        TEST(files_to_come_do_not_last),
        TEST(a_time_to_come_does_not_last),
        TEST(housekeeping_is_no_use),
        TEST(the_later_of_a_second_comes_first),
        TEST(verifying_beside_a_chat_begins_again),
        TEST(names_are_never_overwritten),
        TEST(what_is_found_before_it_is_locked_is_anothers),
        TEST(what_is_removed_before_it_is_locked_is_made_again),
        TEST(few_states_are_kept),
        TEST(states_behind_what_comes_anew_are_kept),
    };
    return HARNESS_RUN(tests, argc, argv);
}
