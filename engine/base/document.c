// SPDX-License-Identifier: GPL-3.0-or-later
// Puts JSON together.
#include "engine/base/document.h"

struct json_object *document_object(struct document *d)
{
    struct json_object *object = json_object_new_object();
    d->lost |= !object;
    return object;
}

struct json_object *document_array(struct document *d)
{
    struct json_object *array = json_object_new_array();
    d->lost |= !array;
    return array;
}

struct json_object *document_add(struct document *d, struct json_object *to, const char *key, struct json_object *value)
{
    if (to && value && json_object_object_add(to, key, value) == 0)
        return value;
    d->lost = true;
    json_object_put(value);
    return NULL;
}

void document_append(struct document *d, struct json_object *to, struct json_object *value)
{
    if (to && value && json_object_array_add(to, value) == 0)
        return;
    d->lost = true;
    json_object_put(value);
}

void document_add_text(struct document *d, struct json_object *to, const char *key, const char *text)
{
    document_add(d, to, key, json_object_new_string(text));
}

void document_add_number(struct document *d, struct json_object *to, const char *key, uint64_t number)
{
    document_add(d, to, key, json_object_new_uint64(number));
}

void document_add_null(struct document *d, struct json_object *to, const char *key)
{
    d->lost |= !to || json_object_object_add(to, key, NULL) != 0;
}

void document_append_number(struct document *d, struct json_object *to, uint64_t number)
{
    document_append(d, to, json_object_new_uint64(number));
}

void document_append_text(struct document *d, struct json_object *to, const char *text)
{
    document_append(d, to, json_object_new_string(text));
}

const char *document_text(const struct document *d, struct json_object *root, int flags)
{
    return d->lost ? NULL : json_object_to_json_string_ext(root, flags);
}
