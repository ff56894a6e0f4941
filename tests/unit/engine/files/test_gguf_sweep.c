// SPDX-License-Identifier: GPL-3.0-or-later
// Each key and each tensor of small GGUF files, renamed, of another type, at and beside its edges: which config.json
// and which vocabulary they make, what opens, and what is refused in which words.
#include <fcntl.h>

#include "engine/files/ggml_types.h"
#include "engine/files/gguf_config.h"
#include "tests/package_sweep_rig.h"

struct swept {
    char *bytes; // of the file
    size_t length;
    struct gguf gguf;
    char path[160]; // of the file that is changed
};

static struct swept *swept_open(const char *path)
{
    static struct swept f;
    struct moe_err err = {.text = ""};
    memset(&f, 0, sizeof f);
    snprintf(f.path, sizeof f.path, "%s/x.gguf", place());
    f.bytes = sweep_file(path, &f.length);
    snprintf(f.gguf.file.path, sizeof f.gguf.file.path, "F");
    f.gguf.file.fd = -1;
    if (!f.bytes || gguf_parse((const unsigned char *)f.bytes, f.length, f.length, &f.gguf, &err) != 0)
        exit(70);
    return &f;
}

static void swept_close(struct swept *f)
{
    unlink(f->path);
    gguf_release(&f->gguf);
    free(f->bytes);
}

// ---- keys ----
static void ask_keys(void *context, const char *text, size_t length, char answer[SWEEP_ANSWER])
{
    const struct swept *f = context;
    static struct shape shape; // large
    struct json_object *config = NULL;
    struct moe_err err = {.text = ""};
    struct gguf_set set = {.head = {.file = {.path = "F", .fd = -1}}};
    int code = gguf_parse((const unsigned char *)text, length, f->length, &set.head, &err);
    if (!code) {
        set.files = &set.head.file;
        set.n_files = 1;
        code = gguf_config_read(&set, &config, &shape, &err);
        gguf_release(&set.head);
    }
    if (code) {
        sweep_refused(answer, code, err.text + strlen("F: "));
        return;
    }
    const char *made = json_object_to_json_string_ext(config, JSON_C_TO_STRING_PLAIN);
    uint64_t digest = sweep_digest(0, made, strlen(made));
    snprintf(answer, SWEEP_ANSWER, "#%08x", (unsigned)(digest ^ digest >> 32));
    json_object_put(config);
}

static void print_text(FILE *out, const struct moe_text *text)
{
    fprintf(out, "%zu %.*s|", text->length, (int)text->length, text->length ? text->bytes : "");
}

static void ask_vocabulary(void *context, const char *text, size_t length, char answer[SWEEP_ANSWER])
{
    const struct swept *f = context;
    struct moe_vocabulary *v;
    struct moe_err err = {.text = ""};
    char *said = NULL;
    size_t said_length = 0;
    int fd = open(f->path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, text, length) != (ssize_t)length || ftruncate(fd, (off_t)f->length) != 0)
        exit(70);
    close(fd);
    int code = moe_vocabulary_open(f->path, &v, &err);
    if (code) {
        sweep_refused(answer, code, err.text + strlen(place()));
        return;
    }
    FILE *out = open_memstream(&said, &said_length);
    if (!out)
        exit(70);
    print_text(out, &v->model);
    print_text(out, &v->pre);
    print_text(out, &v->chat_template);
    for (size_t i = 0; i < v->n_tokens; i++)
        print_text(out, &v->tokens[i]);
    for (size_t i = 0; i < v->n_merges; i++)
        print_text(out, &v->merges[i]);
    for (size_t i = 0; i < v->n_types; i++)
        fprintf(out, "%d ", v->types[i]);
    fprintf(out, "%zu %zu %zu %d %d %d %d", v->n_tokens, v->n_merges, v->n_types, v->bos, v->eos, v->eot, v->eom);
    fclose(out);
    moe_vocabulary_close(v);
    uint64_t digest = sweep_digest(0, said, said_length);
    snprintf(answer, SWEEP_ANSWER, "#%08x", (unsigned)(digest ^ digest >> 32));
    free(said);
}

// Bytes of a header replaced for one question.
static void try_bytes(struct sweep *s, char *header, size_t length, size_t at, uint64_t number, size_t width,
                      const char *change)
{
    char was[8];
    memcpy(was, header + at, width);
    for (size_t i = 0; i < width; i++)
        header[at + i] = (char)(number >> 8 * i);
    sweep_try(s, change, header, length);
    memcpy(header + at, was, width);
}

static uint64_t number_at(const char *at, size_t width)
{
    uint64_t number = 0;
    for (size_t i = width; i > 0; i--)
        number = number << 8 | (unsigned char)at[i - 1];
    return number;
}

// Of a whole number or a flag: its neighbours and the ends of its type. Of a float: what no number may be.
static void sweep_number(struct sweep *s, struct swept *f, size_t at, enum gguf_type type, const char *name)
{
    static const size_t widths[GGUF_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    size_t width = widths[type], length = f->gguf.data_start;
    char change[64];
    if (type == GGUF_F32) {
        const uint64_t others[] = {0,          number_at(f->bytes + at, 4) ^ 1u << 31,  0x7F800000, 0x7FC00000,
                                   0x00000001, number_at(f->bytes + at, 4) + (1u << 23)};
        static const char *const names[] = {"0", "negative", "infinite", "NaN", "1e-45", "twice"};
        for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
            snprintf(change, sizeof change, "%s%s", name, names[i]);
            try_bytes(s, f->bytes, length, at, others[i], 4, change);
        }
        return;
    }
    uint64_t n = number_at(f->bytes + at, width), most = width == 8 ? UINT64_MAX : (1u << 4 * width << 4 * width) - 1;
    const uint64_t others[] = {0, 1, n - 1, n + 1, 2 * n, n / 2, 2147483647, most};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        bool said = others[i] == n;
        for (size_t k = 0; k < i; k++)
            said = said || others[k] == others[i];
        snprintf(change, sizeof change, "%s%llu", name, (unsigned long long)(others[i] & most));
        if (!said)
            try_bytes(s, f->bytes, length, at, others[i], width, change);
    }
}

static void sweep_key(struct sweep *s, struct swept *f, const struct gguf_value *value)
{
    size_t at = (size_t)((const char *)value->at - f->bytes), length = f->gguf.data_start;
    size_t type_at = at - (value->array ? 16 : 4), last = type_at - 1;
    try_bytes(s, f->bytes, length, last, (unsigned char)f->bytes[last] ^ 1u, 1, "renamed");
    if (value->type == GGUF_STRING) {
        struct gguf_string string = {NULL, (size_t)number_at(f->bytes + at, 8)};
        size_t end = at + 7 + string.length;
        if (string.length) {
            try_bytes(s, f->bytes, length, at + 8, 'y', 1, "y first");
            try_bytes(s, f->bytes, length, end, 'y', 1, "y last");
            try_bytes(s, f->bytes, length, end, 10, 1, "newline last");
        }
    } else {
        static const enum gguf_type alike[GGUF_TYPES] = {1, 0, 3, 2, GGUF_I32, GGUF_F32, GGUF_U32, 0, 0, 0, 11, 10, 10};
        size_t element = value->array ? at - 12 : type_at;
        try_bytes(s, f->bytes, length, element, alike[value->type], 4, "another type");
        sweep_number(s, f, at, value->type, value->array ? "[0] " : "");
        size_t width = value->count ? (size_t)(gguf_value_bytes(value) / value->count) : 0;
        if (value->array && value->count > 1)
            sweep_number(s, f, at + (size_t)(value->count - 1) * width, value->type, "last ");
    }
    sweep_place(s, value->key);
}

static void keys_at_their_edges(struct harness *t)
{
    static const char *const files[] = {"moonlight-q5km", "v3-q2k",      "flash-q8_0", "glm-dsa",  "glm5-next",
                                        "kimi-k3",        "kimi-linear", "qwen35moe",  "qwen3next"};
    struct sweep *s = sweep_begin(ask_keys, NULL);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[160];
        snprintf(path, sizeof path, "tests/golden/gguf-%s/checkpoint/%s.gguf", files[i], files[i]);
        struct swept *f = swept_open(path);
        s->context = f;
        s->ask = ask_keys;
        sweep_good(s, files[i], f->bytes, f->gguf.data_start);
        for (size_t k = 0; k < f->gguf.n_values; k++)
            if (strncmp(f->gguf.values[k].key, "tokenizer.", 10) != 0)
                sweep_key(s, f, &f->gguf.values[k]);
        swept_close(f);
    }
    sweep_end(t, s, "tests/unit/engine/files/data/gguf_keys.txt");
}

static void vocabularies_at_their_edges(struct harness *t)
{
    static const char *const files[] = {"chat", "qwen35-chat"};
    struct sweep *s = sweep_begin(ask_vocabulary, NULL);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[160];
        snprintf(path, sizeof path, "tests/golden/gguf-%s/checkpoint/%s.gguf", files[i], files[i]);
        struct swept *f = swept_open(path);
        s->context = f;
        sweep_good(s, files[i], f->bytes, f->gguf.data_start);
        for (size_t k = 0; k < f->gguf.n_values; k++)
            if (strncmp(f->gguf.values[k].key, "tokenizer.", 10) == 0)
                sweep_key(s, f, &f->gguf.values[k]);
        swept_close(f);
    }
    sweep_end(t, s, "tests/unit/engine/files/data/gguf_vocabularies.txt");
}

// ---- tensors ----
// An entry of the table: a name, its dimensions, a type and where its data begin.
struct entry {
    size_t name, name_length, dims, n_dims, type, offset;
};

static struct entry entry_at(const char *bytes, size_t at)
{
    struct entry e = {.name = at + 8, .name_length = (size_t)number_at(bytes + at, 8)};
    e.dims = e.name + e.name_length + 4;
    e.n_dims = (size_t)number_at(bytes + e.dims - 4, 4);
    e.type = e.dims + 8 * e.n_dims;
    e.offset = e.type + 4;
    return e;
}

static size_t table_of(const struct swept *f)
{
    size_t at = 24;
    for (size_t k = 0; k < f->gguf.n_values; k++) {
        const struct gguf_value *value = &f->gguf.values[k];
        size_t end = (size_t)((const char *)value->at - f->bytes) + (size_t)gguf_value_bytes(value);
        at = end > at ? end : at;
    }
    return at;
}

// Writes the header with each tensor's data behind those before it, as they are after a change, and asks for it.
static void ask_file(void *context, const char *text, size_t length, char answer[SWEEP_ANSWER])
{
    const struct swept *f = context;
    char *header = malloc(length);
    uint64_t data = 0;
    size_t at = table_of(f);
    if (!header)
        exit(70);
    memcpy(header, text, length);
    for (size_t k = 0; k < f->gguf.file.count; k++) {
        struct entry e = entry_at(header, at);
        struct ggml_type kind = {.block_inputs = 1};
        ggml_type_find((uint32_t)number_at(header + e.type, 4), &kind);
        uint64_t bytes = number_at(header + e.dims, 8) / kind.block_inputs * kind.bytes;
        for (size_t d = 1; d < e.n_dims; d++)
            bytes *= number_at(header + e.dims + 8 * d, 8);
        for (size_t i = 0; i < 8; i++)
            header[e.offset + i] = (char)(data >> 8 * i);
        data += (bytes + 31) / 32 * 32;
        at = e.offset + 8;
    }
    int fd = open(f->path, O_WRONLY | O_CREAT, 0600);
    if (fd < 0 || write(fd, header, length) != (ssize_t)length || ftruncate(fd, (off_t)(length + data)) != 0)
        exit(70);
    close(fd);
    free(header);
    ask_package(f->path, answer);
}

static bool is_swept(const char *name, const char *const *passed_over)
{
    for (; *passed_over; passed_over++)
        if (strstr(name, *passed_over))
            return false;
    return true;
}

static void sweep_entry(struct sweep *s, struct swept *f, const struct entry *e)
{
    size_t length = f->gguf.data_start;
    char title[SWEEP_PLACE], change[64];
    snprintf(title, sizeof title, "%.*s", (int)e->name_length, f->bytes + e->name);
    size_t letter = e->name + e->name_length - 2;
    try_bytes(s, f->bytes, length, letter, (unsigned char)f->bytes[letter] ^ 1u, 1, "renamed");
    static const unsigned types[] = {0, 1, 8, 12, 30};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        snprintf(change, sizeof change, "type %u", types[i]);
        try_bytes(s, f->bytes, length, e->type, types[i], 4, change);
    }
    for (size_t d = 0; d < e->n_dims; d++) {
        uint64_t n = number_at(f->bytes + e->dims + 8 * d, 8);
        const uint64_t others[] = {n - 1, 2 * n};
        for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
            snprintf(change, sizeof change, "[%zu] %llu", d, (unsigned long long)others[i]);
            try_bytes(s, f->bytes, length, e->dims + 8 * d, others[i], 8, change);
        }
    }
    sweep_place(s, title);
}

static void tensors_at_their_edges(struct harness *t)
{
    static const struct {
        const char *name, *passed_over[12];
    } files[] = {
        {"v2-old", {"blk.2.", "blk.3.", NULL}},
        {"nvfp4-factors", {"blk.0.", "blk.2.", "blk.3.", NULL}},
        {"kimi-k3", {"blk.0.", "blk.2.", "blk.4.", "blk.5.", "blk.6.", "blk.7.", "blk.8.", NULL}},
        {"qwen35moe", {"blk.0.", "blk.1.", "blk.4.", "blk.5.", "blk.6.", NULL}},
        {"glm-dsa", {"blk.0.", "blk.2.", "blk.3.", NULL}},
    };
    struct sweep *s = sweep_begin(ask_file, NULL);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[160];
        snprintf(path, sizeof path, "tests/golden/gguf-%s/checkpoint/%s.gguf", files[i].name, files[i].name);
        struct swept *f = swept_open(path);
        s->context = f;
        sweep_good(s, files[i].name, f->bytes, f->gguf.data_start);
        size_t at = table_of(f);
        for (size_t k = 0; k < f->gguf.file.count; k++) {
            struct entry e = entry_at(f->bytes, at);
            char name[SWEEP_PLACE];
            snprintf(name, sizeof name, "%.*s", (int)e.name_length, f->bytes + e.name);
            if (is_swept(name, files[i].passed_over))
                sweep_entry(s, f, &e);
            at = e.offset + 8;
        }
        swept_close(f);
    }
    sweep_end(t, s, "tests/unit/engine/files/data/gguf_tensors.txt");
}

// ---- types
static void ask_type(void *context, const char *text, size_t length, char answer[SWEEP_ANSWER])
{
    const uint32_t *id = context;
    struct ggml_type type;
    (void)text;
    (void)length;
    if (ggml_type_find(*id, &type))
        snprintf(answer, SWEEP_ANSWER, "%s, %u inputs in %u bytes, kind %u, back %u", type.name, type.block_inputs,
                 type.bytes, type.kind, ggml_type_of(type.kind));
    else
        snprintf(answer, SWEEP_ANSWER, "%s", ggml_type_refusal(*id));
}

static void types_by_their_numbers(struct harness *t)
{
    uint32_t id;
    struct sweep *s = sweep_begin(ask_type, &id);
    for (id = 0; id < 50; id++) {
        char title[16];
        snprintf(title, sizeof title, "%u", id);
        sweep_try(s, "is", "", 0);
        sweep_place(s, title);
    }
    CHECK_EQ(t, ggml_type_of(KIND_NONE), GGML_TYPES);
    CHECK_EQ(t, ggml_type_of(KIND_MLX_4), GGML_TYPES);
    sweep_end(t, s, "tests/unit/engine/files/data/ggml_types.txt");
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(keys_at_their_edges), TEST(vocabularies_at_their_edges),
                                                TEST(tensors_at_their_edges), TEST(types_by_their_numbers)};
    return HARNESS_RUN(tests, argc, argv);
}
