// SPDX-License-Identifier: GPL-3.0-or-later
// Any bytes as generation_config.json: refused with one line, or settings that the sampler takes.
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/fields.h"
#include "engine/files/suggestion.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool so)
{
    if (!so)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct moe_err err = {.text = ""};
    struct json_object *root = NULL;
    struct moe_suggestion s;
    int code = fields_parse((const char *)data, size, "g.json", &root, &err);
    if (!code)
        code = suggestion_take(root, "g.json", &s, &err);
    json_object_put(root);
    if (code) {
        must((int)err.code == code && strncmp(err.text, "g.json: ", 8) == 0 && !strchr(err.text, '\n'));
        return 0;
    }
    must(s.given < 16 && s.temperature >= 0 && s.temperature <= 100 && s.min_p >= 0 && s.min_p <= 1);
    must(s.given & MOE_SUGGESTS_TOP_P ? s.top_p > 0 && s.top_p <= 1 : s.top_p == 0);
    must(s.given & MOE_SUGGESTS_TOP_K || s.top_k == 0);
    return 0;
}
