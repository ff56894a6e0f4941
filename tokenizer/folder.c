// SPDX-License-Identifier: GPL-3.0-or-later
// Finds a folder's tokenizer and recognises its chat template.
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tokenizer/json_text.h"
#include "tokenizer/tok_err.h"
#include "tokenizer/tok_file.h"

enum { PATH_ROOM = 4200 };

static bool is_there(const char *directory, const char *file)
{
    char path[PATH_ROOM];
    return snprintf(path, sizeof path, "%s/%s", directory, file) < (int)sizeof path && access(path, F_OK) == 0;
}

static int read_beside(const char *directory, const char *file, char **text, size_t *length, struct tok_err *err)
{
    char path[PATH_ROOM];
    snprintf(path, sizeof path, "%s/%s", directory, file);
    return tok_file_read(path, file, text, length, err);
}

static struct json_object *member(struct json_object *object, const char *key, enum json_type type)
{
    struct json_object *value = NULL;
    json_object_object_get_ex(object, key, &value);
    return json_object_is_type(value, type) ? value : NULL;
}

// chat_template: a text, or a list of {"name", "template"} of which the default counts.
static struct json_object *template_of(struct json_object *config)
{
    struct json_object *list = member(config, "chat_template", json_type_array);
    for (size_t i = 0; list && i < json_object_array_length(list); i++) {
        struct json_object *entry = json_object_array_get_idx(list, i);
        struct json_object *name = member(entry, "name", json_type_string);
        if (name && strcmp(json_object_get_string(name), "default") == 0)
            return member(entry, "template", json_type_string);
    }
    return list ? NULL : member(config, "chat_template", json_type_string);
}

static void take_template(struct tok_folder *folder, const char *text, size_t length)
{
    const char *name = tok_template_detect(text, length);
    folder->has_template = true;
    snprintf(folder->template_name, sizeof folder->template_name, "%s", name ? name : "");
}

static int read_config(struct tok_folder *folder, const char *directory, struct tok_err *err)
{
    static const char file[] = "tokenizer_config.json";
    char path[PATH_ROOM], *text = NULL;
    size_t length = 0;
    struct json_object *config = NULL;
    snprintf(path, sizeof path, "%s/%s", directory, file);
    int failed = read_beside(directory, file, &text, &length, err);
    if (!failed)
        failed = json_text_parse(text, length, path, &config, err);
    struct json_object *found = config ? template_of(config) : NULL;
    if (found)
        take_template(folder, json_object_get_string(found), (size_t)json_object_get_string_len(found));
    json_object_put(config);
    free(text);
    return failed;
}

static void add_file(struct tok_folder *folder, const char *file)
{
    snprintf(folder->files[folder->n_files], sizeof folder->files[0], "%s", file);
    folder->n_files++;
}

int tok_folder_read(const char *directory, struct tok_folder *folder, struct tok_err *err)
{
    static const char *const kinds[][2] = {
        {"tokenizer.json", "huggingface"}, {"tiktoken.model", "tiktoken"}, {"tokenizer.model", "sentencepiece"}};
    memset(folder, 0, sizeof *folder);
    for (size_t i = 0; i < 3 && !folder->n_files; i++) {
        if (!is_there(directory, kinds[i][0]))
            continue;
        add_file(folder, kinds[i][0]);
        snprintf(folder->type, sizeof folder->type, "%s", kinds[i][1]);
    }
    if (!folder->n_files)
        return TOK_OK;
    int failed = TOK_OK;
    if (is_there(directory, "tokenizer_config.json")) {
        add_file(folder, "tokenizer_config.json");
        failed = read_config(folder, directory, err);
    }
    if (!failed && is_there(directory, "chat_template.jinja")) { // counts for more, as for transformers
        char *text = NULL;
        size_t length = 0;
        add_file(folder, "chat_template.jinja");
        failed = read_beside(directory, "chat_template.jinja", &text, &length, err);
        if (!failed)
            take_template(folder, text, length);
        free(text);
    }
    // Some come with a program in the place of a template.
    static const char *const programs[][2] = {{"encoding/encoding_dsv32.py", "deepseek-v3.2"},
                                              {"encoding_k3.py", "kimi-k3"}};
    for (size_t i = 0; i < 2 && !failed && !folder->has_template; i++)
        if (is_there(directory, programs[i][0])) {
            folder->has_template = true;
            snprintf(folder->template_name, sizeof folder->template_name, "%s", programs[i][1]);
        }
    return failed;
}
