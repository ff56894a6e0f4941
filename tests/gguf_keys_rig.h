// SPDX-License-Identifier: GPL-3.0-or-later
// GGUF files of keys made by hand, read as a model's shape or refused, for test_gguf_config and test_gguf_kimi.
#ifndef MOECHAT_GGUF_KEYS_RIG_H
#define MOECHAT_GGUF_KEYS_RIG_H

#include <json-c/json.h>

#include "engine/files/gguf_config.h"
#include "tests/gguf_rig.h"
#include "tests/harness.h"

struct key {
    const char *key;
    uint32_t value;
};

// Whole numbers of an architecture, but for those that `without` names between spaces.
static inline void put_keys(struct made_gguf *g, const char *architecture, const struct key *keys, size_t n,
                            const char *without)
{
    char text[128];
    for (size_t i = 0; i < n; i++) {
        snprintf(text, sizeof text, " %s ", keys[i].key);
        if (strstr(without, text))
            continue;
        snprintf(text, sizeof text, "%s.%s", architecture, keys[i].key);
        made_u32(g, text, keys[i].value);
    }
}

// Reads them, of a whole model or its first part alone; the caller puts the config.
static inline int read_part(struct made_gguf *g, bool head_only, struct json_object **config, struct shape *shape,
                            struct moe_err *err)
{
    struct made_bytes header = made_header(g);
    struct gguf_set set = {.head_only = head_only, .head = {.file = {.path = "F", .fd = -1}}};
    *config = NULL;
    int code = gguf_parse(header.at, header.length, 1U << 30, &set.head, err);
    if (!code) {
        set.files = &set.head.file;
        set.n_files = 1;
        code = gguf_config_read(&set, config, shape, err);
        gguf_release(&set.head);
    }
    free(header.at);
    made_gguf_release(g);
    return code;
}

static inline int read_set(struct made_gguf *g, struct json_object **config, struct shape *shape, struct moe_err *err)
{
    return read_part(g, false, config, shape, err);
}

static inline bool reads(struct harness *t, struct made_gguf *g, struct shape *shape)
{
    struct json_object *config;
    struct moe_err err = {.text = ""};
    int code = read_set(g, &config, shape, &err);
    json_object_put(config);
    if (!CHECK_EQ(t, code, MOE_OK))
        printf("    %s\n", err.text);
    return code == MOE_OK;
}

static inline void refused(struct harness *t, struct made_gguf *g, const char *says)
{
    struct json_object *config;
    struct shape shape;
    struct moe_err err = {.text = ""};
    int code = read_set(g, &config, &shape, &err);
    if (!CHECK(t, code != MOE_OK && (int)err.code == code && !config && strncmp(err.text, "F: ", 3) == 0 &&
                      strstr(err.text, says)))
        printf("    code %d \"%s\", not \"%s\"\n", code, err.text, says);
    json_object_put(config);
}

#endif
