// SPDX-License-Identifier: GPL-3.0-or-later
// Reads generation_config.json.
#include "engine/files/suggestion.h"

#include <json-c/json.h>
#include <stdio.h>

#include "engine/base/fields.h"

enum { MAX_BYTES = 1 << 20 };

static double number(struct fields *f, const char *key, struct number_range range, unsigned bit,
                     struct moe_suggestion *suggestion)
{
    if (!fields_has(f, key))
        return 0;
    suggestion->given |= bit;
    return fields_number(f, key, range);
}

static uint32_t top_k(struct fields *f, struct moe_suggestion *suggestion)
{
    static const struct integer_range any = {0, UINT32_MAX};
    struct json_object *value = json_object_object_get(f->object, "top_k");
    if (!fields_has(f, "top_k"))
        return 0;
    suggestion->given |= MOE_SUGGESTS_TOP_K;
    bool none = json_object_is_type(value, json_type_int) && json_object_get_int64(value) == -1;
    return none ? 0 : (uint32_t)fields_integer(f, "top_k", any);
}

int suggestion_take(struct json_object *root, const char *file, struct moe_suggestion *suggestion, struct moe_err *err)
{
    static const struct number_range heat = {0, 100}, share = {0, 1}, some = {1e-6, 1};
    struct fields f = {.object = root, .file = file, .prefix = "", .err = err};
    *suggestion = (struct moe_suggestion){0};
    if (fields_has(&f, "do_sample") && !fields_flag(&f, "do_sample"))
        return f.failed;
    suggestion->temperature = number(&f, "temperature", heat, MOE_SUGGESTS_TEMPERATURE, suggestion);
    suggestion->top_k = top_k(&f, suggestion);
    suggestion->top_p = number(&f, "top_p", some, MOE_SUGGESTS_TOP_P, suggestion);
    suggestion->min_p = number(&f, "min_p", share, MOE_SUGGESTS_MIN_P, suggestion);
    return f.failed;
}

int suggestion_read(const char *directory, struct moe_suggestion *suggestion, struct moe_err *err)
{
    char path[4200];
    struct json_object *root = NULL;
    *suggestion = (struct moe_suggestion){0};
    snprintf(path, sizeof path, "%s/generation_config.json", directory);
    int code = fields_read(path, MAX_BYTES, &root, err);
    if (code == MOE_NOT_FOUND)
        return MOE_OK;
    if (!code)
        code = suggestion_take(root, path, suggestion, err);
    json_object_put(root);
    return code;
}
