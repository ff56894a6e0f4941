// SPDX-License-Identifier: GPL-3.0-or-later
// Parses JSON from outside with json-c, which says little of memory and takes much.
#include "tokenizer/json_text.h"

#include <stdbool.h>

#include "tokenizer/tok_err.h"

struct named {
    size_t members; // colons outside strings
    size_t objects;
};

static struct named named_in(const char *text, size_t length)
{
    struct named named = {0};
    bool inside = false;
    for (size_t i = 0; i < length; i++) {
        named.members += !inside && text[i] == ':';
        named.objects += !inside && text[i] == '{';
        inside ^= text[i] == '"';
        i += inside && text[i] == '\\';
    }
    return named;
}

static size_t members_of(struct json_object *node) // as deep as the parser allows
{
    size_t count = 0;
    if (json_object_is_type(node, json_type_object)) {
        count = (size_t)json_object_object_length(node);
        struct json_object_iter member;
        json_object_object_foreachC(node, member) count += members_of(member.val);
    } else if (json_object_is_type(node, json_type_array)) {
        for (size_t i = 0; i < json_object_array_length(node); i++)
            count += members_of(json_object_array_get_idx(node, i));
    }
    return count;
}

// json-c leaves a member out whose name it has no memory for, and says nothing of it: without one a file would be
// damaged, or its ids others. A name that stands twice is one member, but in each reading.
static bool has_all(struct json_object *root, struct json_tokener *parser, const char *text, size_t length,
                    size_t members)
{
    size_t count = members_of(root);
    if (count == members)
        return true;
    json_tokener_reset(parser);
    struct json_object *again = json_tokener_parse_ex(parser, text, (int)length);
    bool same = again && members_of(again) == count;
    json_object_put(again);
    return same;
}

static bool is_blank(const char *text, size_t length)
{
    size_t i = 0;
    while (i < length && (text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n'))
        i++;
    return i == length;
}

int json_text_parse(const char *text, size_t length, const char *path, struct json_object **root, struct tok_err *err)
{
    // The shortest that files are full of have 20 bytes and more.
    enum { DEPTH = 32, SMALLEST = 16, FEW = 1024 };
    *root = NULL;
    struct named named = named_in(text, length);
    if (named.objects > length / SMALLEST + FEW)
        return tok_fail(err, TOK_FORMAT, "%.300s: it is full of empty objects: fetch the file again", path);
    struct json_tokener *parser = length > INT32_MAX ? NULL : json_tokener_new_ex(DEPTH);
    if (!parser)
        return tok_fail(err, TOK_NO_MEMORY, "%.300s: out of memory", path);
    // From 0.17 on strict is too strict: it refuses numbers like the model_max_length of 1e30 that transformers writes,
    // and in 0.18 any letter beyond ASCII.
    bool strict = json_c_version_num() < 17 << 8;
    json_tokener_set_flags(parser, JSON_TOKENER_VALIDATE_UTF8 | (strict ? JSON_TOKENER_STRICT : 0));
    struct json_object *parsed = json_tokener_parse_ex(parser, text, (int)length);
    int failed = TOK_OK;
    size_t end = json_tokener_get_parse_end(parser);
    if (!json_object_is_type(parsed, json_type_object) || end > length || !is_blank(text + end, length - end))
        failed = tok_fail(err, TOK_FORMAT, "%.300s: it is not a JSON object: fetch the file again", path);
    else if (!has_all(parsed, parser, text, length, named.members))
        failed = tok_fail(err, TOK_NO_MEMORY, "%.300s: out of memory", path);
    json_tokener_free(parser);
    if (failed)
        json_object_put(parsed);
    else
        *root = parsed;
    return failed;
}
