// SPDX-License-Identifier: GPL-3.0-or-later
// Each tensor of small folders from the hub, gone, of another dtype and of other dimensions, in files that are
// right otherwise: what opens, as which layout, and what is refused in which words.
#include <fcntl.h>

#include "tests/package_sweep_rig.h"

enum { MOST_TENSORS = 1000 };

struct swept { // a folder's tensors, as its shards' headers have them
    const char *name[MOST_TENSORS];
    struct json_object *about[MOST_TENSORS];
    size_t n;
    struct json_object *headers[4];
    size_t n_headers;
    char path[160]; // of the file that is changed
};

static void read_header(struct swept *folder, const char *path)
{
    size_t length;
    char *text = sweep_file(path, &length);
    uint64_t bytes = 0;
    if (!text)
        return;
    for (int i = 7; i >= 0; i--)
        bytes = bytes << 8 | (unsigned char)text[i];
    struct json_tokener *parser = json_tokener_new();
    struct json_object *header = json_tokener_parse_ex(parser, text + 8, (int)bytes);
    json_tokener_free(parser);
    free(text);
    folder->headers[folder->n_headers++] = header;
    struct json_object_iter member;
    json_object_object_foreachC(header, member)
    {
        if (strcmp(member.key, "__metadata__") == 0)
            continue;
        folder->name[folder->n] = member.key;
        folder->about[folder->n++] = member.val;
    }
}

static uint64_t bytes_of(struct json_object *about)
{
    static const struct {
        const char *dtype;
        uint64_t bytes;
    } sizes[] = {{"BF16", 2}, {"F16", 2}, {"F32", 4}, {"U32", 4}, {"I32", 4}, {"I64", 8}};
    const char *dtype = json_object_get_string(json_object_object_get(about, "dtype"));
    struct json_object *shape = json_object_object_get(about, "shape");
    uint64_t bytes = 1;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        bytes = strcmp(dtype, sizes[i].dtype) == 0 ? sizes[i].bytes : bytes;
    for (size_t i = 0; i < json_object_array_length(shape); i++)
        bytes *= (uint64_t)json_object_get_int64(json_object_array_get_idx(shape, i));
    return bytes;
}

// The folder's file, with data of zeroes; of tensor `changed` `about` instead, or (NULL) nothing.
static void write_changed(const struct swept *folder, size_t changed, struct json_object *about)
{
    struct json_object *header = json_object_new_object();
    uint64_t at = 0;
    for (size_t i = 0; i < folder->n; i++) {
        struct json_object *from = i == changed ? about : folder->about[i];
        if (!from)
            continue;
        struct json_object *to = json_object_new_object(), *range = json_object_new_array();
        json_object_object_add(to, "dtype", json_object_get(json_object_object_get(from, "dtype")));
        json_object_object_add(to, "shape", json_object_get(json_object_object_get(from, "shape")));
        json_object_array_add(range, json_object_new_int64((int64_t)at));
        at += bytes_of(from);
        json_object_array_add(range, json_object_new_int64((int64_t)at));
        json_object_object_add(to, "data_offsets", range);
        json_object_object_add(header, folder->name[i], to);
    }
    const char *text = json_object_to_json_string_ext(header, JSON_C_TO_STRING_PLAIN);
    size_t length = strlen(text);
    int fd = open(folder->path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    unsigned char size[8];
    for (int i = 0; i < 8; i++)
        size[i] = (unsigned char)(length >> 8 * i);
    if (fd < 0 || write(fd, size, 8) != 8 || write(fd, text, length) != (ssize_t)length ||
        ftruncate(fd, (off_t)(8 + length + at)) != 0)
        exit(70);
    close(fd);
    json_object_put(header);
}

static void ask_folder(void *context, const char *text, size_t length, char answer[SWEEP_ANSWER])
{
    (void)context;
    (void)text;
    (void)length;
    ask_package(place(), answer);
}

static struct json_object *copy_of(struct json_object *about)
{
    struct json_object *copy = NULL;
    if (json_object_deep_copy(about, &copy, NULL) != 0)
        exit(70);
    return copy;
}

static void try_as(struct sweep *s, const struct swept *folder, size_t tensor, struct json_object *about,
                   const char *change)
{
    write_changed(folder, tensor, about);
    sweep_try(s, change, "", 0);
    json_object_put(about);
}

static void sweep_tensor(struct sweep *s, const struct swept *folder, size_t tensor)
{
    struct json_object *was = folder->about[tensor], *about;
    static const char *const dtypes[] = {"BF16", "F32", "U32", "U8"};
    size_t n_dims = json_object_array_length(json_object_object_get(was, "shape"));
    try_as(s, folder, tensor, NULL, "gone");
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        about = copy_of(was);
        json_object_object_add(about, "dtype", json_object_new_string(dtypes[i]));
        try_as(s, folder, tensor, about, dtypes[i]);
    }
    for (size_t d = 0; d < n_dims; d++) {
        int64_t n = json_object_get_int64(json_object_array_get_idx(json_object_object_get(was, "shape"), d));
        const int64_t others[] = {n - 1, 2 * n};
        for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
            char change[32];
            about = copy_of(was);
            json_object_array_put_idx(json_object_object_get(about, "shape"), d, json_object_new_int64(others[i]));
            snprintf(change, sizeof change, "[%zu] %lld", d, (long long)others[i]);
            try_as(s, folder, tensor, about, change);
        }
    }
    about = copy_of(was);
    json_object_array_add(json_object_object_get(about, "shape"), json_object_new_int64(1));
    try_as(s, folder, tensor, about, "[] 1");
    sweep_place(s, folder->name[tensor]);
}

// A folder, and parts of the names of what is changed: what those before it have not.
struct golden {
    const char *name, *swept[16];
};

static bool is_swept(const struct golden *golden, const char *name)
{
    for (const char *const *part = golden->swept; *part && !strstr(name, ".biases"); part++)
        if (strstr(name, *part))
            return true;
    return false;
}

static void copy_config(const char *from, const char *to)
{
    size_t length;
    char *text = sweep_file(from, &length);
    FILE *file = fopen(to, "wb");
    if (!text || !file || fwrite(text, 1, length, file) != length)
        exit(70);
    fclose(file);
    free(text);
}

static void sweep_folder(struct sweep *s, const struct golden *golden)
{
    static struct swept folder;
    char path[256], config[128];
    memset(&folder, 0, sizeof folder);
    snprintf(folder.path, sizeof folder.path, "%s/model.safetensors", place());
    snprintf(config, sizeof config, "%s/config.json", place());
    snprintf(path, sizeof path, "tests/golden/%s/checkpoint/config.json", golden->name);
    copy_config(path, config);
    for (int i = 1; i <= 3; i++)
        for (int n = i; n <= 3; n++) {
            snprintf(path, sizeof path, "tests/golden/%s/checkpoint/model-%05d-of-%05d.safetensors", golden->name, i,
                     n);
            read_header(&folder, path);
        }
    write_changed(&folder, SIZE_MAX, NULL);
    sweep_good(s, golden->name, "", 0);
    for (size_t i = 0; i < folder.n; i++)
        if (is_swept(golden, folder.name[i]))
            sweep_tensor(s, &folder, i);
    for (size_t i = 0; i < folder.n_headers; i++)
        json_object_put(folder.headers[i]);
    unlink(folder.path);
    unlink(config);
}

static void tensors_of_folders(struct harness *t)
{
    static const struct golden folders[] = {
        {"ck-v2-lite-mlx", {".layers.1.", ".layers.0.mlp", "embed_tokens", "lm_head", "model.norm", NULL}},
        {"ck-kimi-k3-mlx",
         {".layers.1.self_attn.A_log", ".layers.1.self_attn.b_proj.weight", ".layers.1.self_attn.dt_bias",
          ".layers.1.self_attn.f_", ".layers.1.self_attn.o_norm", ".layers.1.self_attn.qkv", ".layers.1.mlp.routed",
          ".layers.1.mlp.e_score", ".layers.1.mlp_res", "attn_res", ".layers.2.self_attn.g_proj.weight",
          ".layers.2.self_attn.embed_q.weight", NULL}},
        {"ck-qwen35moe-mlx",
         {".layers.0.linear_attn.A_log", ".layers.0.linear_attn.conv1d", ".layers.0.linear_attn.in_proj",
          ".layers.0.linear_attn.norm", ".layers.0.mlp.shared_expert_gate.weight", ".layers.1.self_attn", NULL}},
        {"ck-v32-mlx", {".layers.1.self_attn.indexer", ".layers.1.self_attn.q_", NULL}},
    };
    struct sweep *s = sweep_begin(ask_folder, NULL);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        sweep_folder(s, &folders[i]);
    sweep_end(t, s, "tests/unit/engine/files/data/folders.txt");
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(tensors_of_folders)};
    return HARNESS_RUN(tests, argc, argv);
}
