// SPDX-License-Identifier: GPL-3.0-or-later
// Any bytes as model.safetensors.index.json: refused with one line that names the file, or a sorted list of plain names
// of shards, each once, that covers every tensor.
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "engine/files/checkpoint.h"
#include "engine/base/fields.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool so)
{
    if (!so)
        abort();
}

static void check_names(struct json_object *index, const struct index_names *names)
{
    for (uint32_t i = 0; i < names->count; i++) {
        must(!strchr(names->names[i], '/') && names->names[i][0] != '.' && strlen(names->names[i]) < 256);
        must(i == 0 || strcmp(names->names[i - 1], names->names[i]) < 0);
    }
    struct json_object_iter member;
    json_object_object_foreachC(json_object_object_get(index, "weight_map"), member)
    {
        bool found = false;
        for (uint32_t i = 0; i < names->count; i++)
            found |= strcmp(names->names[i], json_object_get_string(member.val)) == 0;
        must(found);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct json_object *index;
    struct index_names names;
    struct moe_err err = {.text = ""};
    int code = fields_parse((const char *)data, size, "I", &index, &err);
    if (!code)
        code = checkpoint_parse_index(index, "I", &names, &err);
    if (code) {
        must((int)err.code == code && strncmp(err.text, "I: ", 3) == 0 && !strchr(err.text, '\n'));
    } else {
        must(names.count > 0);
        check_names(index, &names);
        checkpoint_release_names(&names);
    }
    json_object_put(index);
    return 0;
}
