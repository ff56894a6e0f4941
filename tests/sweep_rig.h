// SPDX-License-Identifier: GPL-3.0-or-later
// Every small change of a good file, and what a parser answers to each, compared with a stored table, for tests: what
// is let in, what is refused and in which words. UPDATE_GOLDEN=1 writes the table anew: read its diff, for it has only
// what was answered, right or wrong.
#ifndef MOECHAT_SWEEP_RIG_H
#define MOECHAT_SWEEP_RIG_H

#include <json-c/json.h>
#include <stdint.h>
#include <stdlib.h>

#include "tests/harness.h"

enum { SWEEP_ANSWER = 480, SWEEP_CHANGES = 32, SWEEP_PLACE = 256 };

// Answers to one change: `answer` becomes what is refused, in words, or "#" and a digest of what was read.
typedef void sweep_ask(void *context, const char *text, size_t length, char answer[SWEEP_ANSWER]);

struct sweep {
    sweep_ask *ask;
    void *context;
    FILE *table;
    char *text; // of the table, once it is flushed
    size_t length;
    char unchanged[SWEEP_ANSWER]; // what is answered to the good file
    // Of the place that is being changed: different answers, with the changes that got each.
    struct {
        char answer[SWEEP_ANSWER], changes[SWEEP_CHANGES * 16];
    } groups[SWEEP_CHANGES];
    size_t n_groups;
};

static inline struct sweep *sweep_begin(sweep_ask *ask, void *context)
{
    struct sweep *s = calloc(1, sizeof *s);
    if (!s || !(s->table = open_memstream(&s->text, &s->length)))
        exit(70);
    s->ask = ask;
    s->context = context;
    return s;
}

// FNV-1a of a text: what is too long for a table's line.
static inline uint64_t sweep_digest(uint64_t digest, const void *bytes, size_t length)
{
    digest = digest ? digest : 14695981039346656037u;
    for (size_t i = 0; i < length; i++)
        digest = (digest ^ ((const unsigned char *)bytes)[i]) * 1099511628211u;
    return digest;
}

// A refusal as the table has it: what a value is instead of what it must be differs with each change, and is left out.
static inline void sweep_refused(char answer[SWEEP_ANSWER], int code, const char *text)
{
    static const char *const ends[] = {"; it must be ", "; the model's config makes it "};
    const char *is = strstr(text, " is "), *must = NULL;
    for (size_t i = 0; i < sizeof ends / sizeof *ends && is && !must; i++)
        must = strstr(is, ends[i]);
    snprintf(answer, SWEEP_ANSWER, "%d %.*s%.240s", code, must ? (int)(is - text) : SWEEP_ANSWER - 256, text,
             must ? must : "");
}

// Asks for a text that was changed; each in a block of its own size, so that a sanitizer sees the first byte beyond.
static inline void sweep_try(struct sweep *s, const char *change, const char *text, size_t length)
{
    char answer[SWEEP_ANSWER] = "";
    char *exact = calloc(1, length ? length : 1);
    size_t i = 0;
    if (!exact)
        exit(70);
    memcpy(exact, text, length);
    s->ask(s->context, exact, length, answer);
    free(exact);
    while (i < s->n_groups && strcmp(s->groups[i].answer, answer) != 0)
        i++;
    if (i == s->n_groups) {
        if (++s->n_groups > SWEEP_CHANGES)
            exit(70);
        snprintf(s->groups[i].answer, SWEEP_ANSWER, "%s", answer);
        *s->groups[i].changes = 0;
    }
    size_t used = strlen(s->groups[i].changes);
    snprintf(s->groups[i].changes + used, sizeof s->groups[i].changes - used, "%s%s", used ? ", " : "", change);
}

// The place's lines: what was answered to which of its changes; all that was read in one.
static inline void sweep_place(struct sweep *s, const char *place)
{
    fprintf(s->table, "%s\n", place);
    for (size_t i = 0; i < s->n_groups; i++)
        if (*s->groups[i].answer != '#')
            fprintf(s->table, "  %s: %s\n", s->groups[i].changes, s->groups[i].answer);
    size_t n_read = 0;
    for (size_t i = 0; i < s->n_groups; i++) {
        bool same = strcmp(s->groups[i].answer, s->unchanged) == 0;
        if (*s->groups[i].answer == '#')
            fprintf(s->table, "%s%s %s", n_read++ ? "; " : "  ", s->groups[i].changes,
                    same ? "same" : s->groups[i].answer);
    }
    fputs(n_read ? "\n" : "", s->table);
    s->n_groups = 0;
}

// What is answered to the good file: "same", where it is answered to one of its changes.
static inline void sweep_good(struct sweep *s, const char *title, const char *text, size_t length)
{
    char place[SWEEP_PLACE], good[SWEEP_ANSWER];
    snprintf(place, sizeof place, "== %s", title);
    *s->unchanged = 0;
    sweep_try(s, "as it is", text, length);
    memcpy(good, s->groups[0].answer, sizeof good);
    sweep_place(s, place);
    memcpy(s->unchanged, good, sizeof good);
}

// ---- JSON ----
struct sweep_at { // a value in its object or array
    struct json_object *root, *parent;
    const char *key; // NULL: of an array
    size_t index;
    char path[SWEEP_PLACE];
};

// The caller's `value` becomes the parent's.
static inline void sweep_put(const struct sweep_at *at, struct json_object *value)
{
    if (at->key)
        json_object_object_add(at->parent, at->key, value);
    else
        json_object_array_put_idx(at->parent, at->index, value);
}

static inline void sweep_as(struct sweep *s, const struct sweep_at *at, const char *change, struct json_object *value)
{
    sweep_put(at, value);
    const char *text = json_object_to_json_string_ext(at->root, JSON_C_TO_STRING_PLAIN);
    sweep_try(s, change, text, strlen(text));
}

static inline void sweep_integers(struct sweep *s, const struct sweep_at *at, int64_t n)
{
    const int64_t values[] = {-1, 0, 1, n - 1, n + 1, n / 2, 2 * n, INT32_MAX, (int64_t)UINT32_MAX + 1};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char name[32];
        bool said = values[i] == n;
        for (size_t k = 0; k < i; k++)
            said = said || values[k] == values[i];
        snprintf(name, sizeof name, "%lld", (long long)values[i]);
        if (!said)
            sweep_as(s, at, name, json_object_new_int64(values[i]));
    }
    sweep_as(s, at, "0.5", json_object_new_double(0.5));
}

static inline void sweep_numbers(struct sweep *s, const struct sweep_at *at, double n)
{
    const double values[] = {-n, 0, n / 2, 2 * n, 1, 1e-50, 1e50};
    static const char *const names[] = {"negative", "0", "half", "twice", "1.0", "1e-50", "1e50"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        sweep_as(s, at, names[i], json_object_new_double(values[i]));
}

static inline void sweep_texts(struct sweep *s, const struct sweep_at *at, const char *text)
{
    char longer[600];
    sweep_as(s, at, "\"\"", json_object_new_string(""));
    snprintf(longer, sizeof longer, "%.500sx", text);
    sweep_as(s, at, "longer", json_object_new_string(longer));
    if (*text)
        sweep_as(s, at, "shorter", json_object_new_string_len(text, (int)strlen(text) - 1));
    memset(longer, 'y', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    sweep_as(s, at, "long", json_object_new_string(longer));
}

static inline void sweep_arrays(struct sweep *s, const struct sweep_at *at, struct json_object *array)
{
    size_t n = json_object_array_length(array);
    for (size_t length = n ? n - 1 : 0; length <= n + 1; length += 2) {
        struct json_object *other = json_object_new_array();
        for (size_t i = 0; i < length; i++)
            json_object_array_add(other, json_object_get(json_object_array_get_idx(array, i < n ? i : n - 1)));
        sweep_as(s, at, length < n ? "shorter" : "longer", other);
    }
}

// One value: gone, of each other type, and near what it is.
static inline void sweep_value(struct sweep *s, const struct sweep_at *at)
{
    struct json_object *was = json_object_get(at->key ? json_object_object_get(at->parent, at->key)
                                                      : json_object_array_get_idx(at->parent, at->index));
    enum json_type type = json_object_get_type(was);
    if (at->key) {
        json_object_object_del(at->parent, at->key);
        const char *text = json_object_to_json_string_ext(at->root, JSON_C_TO_STRING_PLAIN);
        sweep_try(s, "gone", text, strlen(text));
    }
    sweep_as(s, at, "null", NULL);
    if (type != json_type_boolean)
        sweep_as(s, at, "true", json_object_new_boolean(1));
    if (type != json_type_int)
        sweep_as(s, at, "7", json_object_new_int(7));
    if (type != json_type_string)
        sweep_as(s, at, "\"x\"", json_object_new_string("x"));
    sweep_as(s, at, "[]", json_object_new_array());
    sweep_as(s, at, "{}", json_object_new_object());
    if (type == json_type_boolean)
        sweep_as(s, at, "turned", json_object_new_boolean(!json_object_get_boolean(was)));
    else if (type == json_type_int)
        sweep_integers(s, at, json_object_get_int64(was));
    else if (type == json_type_double)
        sweep_numbers(s, at, json_object_get_double(was));
    else if (type == json_type_string)
        sweep_texts(s, at, json_object_get_string(was));
    else if (type == json_type_array)
        sweep_arrays(s, at, was);
    sweep_put(at, was);
    sweep_place(s, at->path);
}

// All that stands in an object or an array; of arrays and long objects the first two and the last.
static inline void sweep_below(struct sweep *s, struct json_object *root, struct json_object *parent, const char *path)
{
    bool object = json_object_is_type(parent, json_type_object);
    size_t n = object ? (size_t)json_object_object_length(parent) : json_object_array_length(parent);
    const char **keys = calloc(n + 1, sizeof *keys);
    size_t n_keys = 0;
    if (object) {
        struct json_object_iter member;
        json_object_object_foreachC(parent, member) keys[n_keys++] = strdup(member.key);
    }
    for (size_t i = 0; i < n; i++) {
        struct sweep_at at = {root, parent, keys[i], i, ""};
        if ((!object || n > 200) && i > 1 && i + 1 < n) {
            free((char *)keys[i]);
            continue;
        }
        if (object)
            snprintf(at.path, sizeof at.path, "%s%s%s", path, *path ? "." : "", keys[i]);
        else
            snprintf(at.path, sizeof at.path, "%s[%zu]", path, i);
        sweep_value(s, &at);
        struct json_object *value =
            object ? json_object_object_get(parent, keys[i]) : json_object_array_get_idx(parent, i);
        if (json_object_is_type(value, json_type_object) || json_object_is_type(value, json_type_array))
            sweep_below(s, root, value, at.path);
        free((char *)keys[i]);
    }
    free(keys);
}

// Every value of a JSON text, which is `title` in the table.
static inline void sweep_json(struct sweep *s, const char *title, const char *text, size_t length)
{
    struct json_tokener *parser = json_tokener_new();
    struct json_object *root = json_tokener_parse_ex(parser, text, (int)length);
    json_tokener_free(parser);
    if (!root)
        exit(70);
    sweep_good(s, title, text, length);
    sweep_below(s, root, root, "");
    json_object_put(root);
}

// ---- the stored table ----
static inline char *sweep_file(const char *path, size_t *length)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    *length = 0;
    if (!file)
        return NULL;
    fseek(file, 0, SEEK_END);
    long end = ftell(file);
    rewind(file);
    text = malloc((size_t)end + 1);
    if (!text || fread(text, 1, (size_t)end, file) != (size_t)end)
        exit(70);
    fclose(file);
    text[end] = 0;
    *length = (size_t)end;
    return text;
}

// Shows the first line that differs, under its place.
static inline void sweep_differs(const char *got, const char *stored)
{
    const char *line = got, *other = stored, *place = got;
    while (*line && *other) {
        size_t n = strcspn(line, "\n"), m = strcspn(other, "\n");
        if (*line != ' ')
            place = line;
        if (n != m || memcmp(line, other, n) != 0)
            break;
        line += n + (line[n] != 0);
        other += m + (other[m] != 0);
    }
    printf("    at %.*s\n    got    %.*s\n    stored %.*s\n", (int)strcspn(place, "\n"), place,
           (int)strcspn(line, "\n"), line, (int)strcspn(other, "\n"), other);
}

// Ends the sweep: its table is the stored one.
static inline void sweep_end(struct harness *t, struct sweep *s, const char *path)
{
    size_t length;
    fclose(s->table);
    if (getenv("UPDATE_GOLDEN")) {
        FILE *file = fopen(path, "wb");
        if (!file || fwrite(s->text, 1, s->length, file) != s->length)
            exit(70);
        fclose(file);
    }
    char *stored = sweep_file(path, &length);
    if (!CHECK(t, stored && length == s->length && length > 0 && memcmp(stored, s->text, length) == 0)) {
        printf("    %s; UPDATE_GOLDEN=1 writes it anew\n", path);
        sweep_differs(s->text, stored ? stored : "");
    }
    free(stored);
    free(s->text);
    free(s);
}

#endif
