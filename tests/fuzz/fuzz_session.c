// SPDX-License-Identifier: GPL-3.0-or-later
// A session's folder whose transcript is any lines, without a manifest or with a broken one: it is listed, read, shown,
// and goes on, under a new name where it is damaged, with all that could be read. The first byte says how: bytes as
// they are or with sums made right, or lines whose numbers, predecessors and roles the others choose.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/store/saved.h"
#include "app/store/sealed.h"
#include "app/talk/export.h"
#include "app/talk/sessions.h"
#include "app/talk/tree.h"
#include "tests/fuzz/place.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum how { SEALED = 1, CHOSEN = 2, EMPTY = 4, BROKEN = 8, WITH_ROWS = 16 };

static void check(bool fine)
{
    if (!fine)
        abort();
}

// Lines with right sums, of bytes that are cut at newlines.
static void seal_lines(const char *bytes, size_t size, struct bytes *file)
{
    enum { BODY = 26 }; // {"sum":"0123456789abcdef",
    for (size_t at = 0; at < size;) {
        const char *newline = memchr(bytes + at, '\n', size - at);
        size_t length = newline ? (size_t)(newline - bytes) - at : size - at;
        if (length > BODY) {
            struct bytes object = {0};
            check(bytes_append(&object, "{", 1) && bytes_append(&object, bytes + at + BODY, length - BODY - 1) &&
                  bytes_append(&object, "}", 1) && sealed_line(object.data, object.length, file));
            bytes_release(&object);
        } else {
            check(bytes_append(file, bytes + at, length) && bytes_append(file, "\n", newline != NULL));
        }
        at += length + 1;
    }
}

// Four bytes a line: its number, the one before it, its role and how it is damaged, its text.
static void choose_lines(const uint8_t *data, size_t size, struct bytes *file)
{
    enum { BYTES = 4 };
    for (; size >= BYTES; data += BYTES, size -= BYTES) {
        struct part part = {.number = data[0], .role = (enum tok_role)(data[2] % 3), .made.time = 1};
        struct tok_err err;
        part.after = data[1] < data[0] ? data[1] : PART_NONE;
        check(bytes_append(&part.text, "words and more", data[3] & 15 & -(data[3] & 1)));
        for (int i = data[3] >> 4 & 3; i > 0; i--)
            tok_ids_append(&part.ids, i, &err);
        snprintf(part.language.tokenizer, sizeof part.language.tokenizer, "%d", data[3] >> 6);
        size_t begin = file->length;
        check(part_render(&part, file));
        if (data[2] >> 6 == 1) // one digit of the sum
            file->data[begin + 8] ^= 1;
        if (data[2] >> 6 == 2) // cut off
            file->length -= file->length - begin > data[2] % 64u + 1 ? data[2] % 64u + 1 : 1;
        part_release(&part);
    }
}

static void put(const struct store *store, const char *file, const struct bytes *bytes)
{
    FILE *out = fopen(store_path(store, "x", file).text, "wb");
    check(out != NULL);
    check(fwrite(bytes->data ? bytes->data : "", 1, bytes->length, out) == bytes->length);
    check(fclose(out) == 0);
}

// Each part stands behind the one that it follows, and that is there.
static void check_parts(const struct saved_content *content)
{
    for (size_t i = 0; i < content->n_parts; i++) {
        check(content->parts[i].after == (i ? (int64_t)content->parts[i - 1].number : PART_NONE));
        check(!i || content->parts[i].number > content->parts[i - 1].number);
        check(!content->parts[i].lost || *content->damage);
    }
    for (size_t i = 0; i < content->n_others; i++)
        check(!i || content->others[i].number > content->others[i - 1].number);
}

static bool same_text(const struct bytes *a, const struct bytes *b)
{
    return a->length == b->length && (!a->length || memcmp(a->data, b->data, a->length) == 0);
}

// The session that goes on: all that could be read is saved in it. Closes it.
static void check_kept(const struct store *store, struct saved *saved, const struct saved_content *content)
{
    char name[STORE_NAME_SIZE];
    struct store_error error;
    struct saved_content kept;
    check(saved_commit(saved, NULL, &error) == STORE_OK);
    snprintf(name, sizeof name, "%s", saved_name(saved));
    saved_close(saved);
    check(saved_read(store, name, &kept, &error) == STORE_OK && !*kept.damage && kept.found && !kept.no_manifest);
    check_parts(&kept);
    check(kept.n_parts == content->n_parts);
    for (size_t i = 0; i < kept.n_parts; i++)
        check(kept.parts[i].number == content->parts[i].number && kept.parts[i].role == content->parts[i].role &&
              same_text(&kept.parts[i].text, &content->parts[i].text));
    saved_content_release(&kept);
    if (strcmp(name, "x") != 0)
        check(store_remove(store, name, &error) == STORE_OK);
}

// What is a conversation is shown, exported and saved under another name, whole.
static void check_chat(const struct store *store, const struct saved_content *content)
{
    struct chat chat = {0};
    struct bytes text = {0};
    struct saved *fork;
    struct store_error error;
    char *shown = NULL;
    size_t length;
    if (sessions_chat(content, &chat)) {
        FILE *out = open_memstream(&shown, &length);
        check(out && tree_print(out, &chat, 60) && fclose(out) == 0);
        check(export_chat(&text, EXPORT_MARKDOWN, &(struct export_head){"x", "m"}, &chat));
        check(saved_new(store, "", &fork, &error) == STORE_OK);
        check(chat_save(&chat, fork, &(struct part_language){.tokenizer = "t"}));
        if (content->n_parts) // else nobody has said anything
            check_kept(store, fork, content);
        else
            saved_close(fork);
    }
    free(shown);
    bytes_release(&text);
    chat_release(&chat);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct store store;
    struct store_list list;
    struct store_error error;
    struct saved_content content;
    struct saved *saved;
    struct bytes file = {0};
    if (size < 1)
        return 0;
    check(store_init(&store, place()));
    int how = data[0];
    check(bytes_append(&file, "", 0));
    if (how & CHOSEN)
        choose_lines(data + 1, size - 1, &file);
    else if (how & SEALED)
        seal_lines((const char *)data + 1, size - 1, &file);
    else
        check(bytes_append(&file, data + 1, size - 1));
    store_io_posix.mkdir(NULL, store_path(&store, "x", NULL).text);
    put(&store, "transcript.jsonl", &file);
    if (how & (EMPTY | BROKEN))
        put(&store, "session.json", &(struct bytes){.data = "{\"sum\":\"0\"}\n", .length = how & BROKEN ? 12 : 0});
    if (how & WITH_ROWS)
        put(&store, "kv.bin", &(struct bytes){.data = "rows", .length = 4});
    check(store_list(&store, &list, &error) == STORE_OK && list.n_entries <= 1);
    store_list_release(&list);
    if (saved_read(&store, "x", &content, &error) == STORE_OK) {
        check_parts(&content);
        check_chat(&store, &content);
        saved_content_release(&content);
        check(saved_open(&store, "x", &saved, &content, &error) == STORE_OK);
        check_parts(&content);
        check(strcmp(saved_name(saved), *content.damage ? "x-recovered" : "x") == 0);
        check_kept(&store, saved, &content);
        saved_content_release(&content);
    } else {
        check(*error.text);
    }
    check(store_remove(&store, "x", &error) == STORE_OK);
    bytes_release(&file);
    return 0;
}
