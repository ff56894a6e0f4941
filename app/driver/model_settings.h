// SPDX-License-Identifier: GPL-3.0-or-later
// How a model is to be opened, as people asked for it. Plain values: filled before the model is opened, the same ever
// after. Strings belong to whoever filled them in; NULL: not given.
#ifndef MOECHAT_APP_DRIVER_MODEL_SETTINGS_H
#define MOECHAT_APP_DRIVER_MODEL_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/moe.h"

enum { MODEL_CHAT_NICE = 5 }; // so that keys are echoed at once while the engine uses every core

enum think { THINK_UNASKED, THINK_ON, THINK_OFF }; // shall an answer begin with thinking?

struct model_settings {
    const char *directory;
    const char *engine; // "fake:FILE": a script in the model's place
    const char *device, *kernel_cache;
    int nice_value; // of the engine's threads
    // Its turns.
    const char *template_name;
    bool no_template; // none is needed
    enum think think; // what answers begin with; refused when the template leaves no such choice
    // Its experts: budgets are bytes or MOE_CACHE_*.
    uint64_t expert_cache, host_cache;
    enum moe_io io;
    uint32_t readers, ring;
    enum moe_prefetch prefetch;
    // Its sessions.
    uint32_t context, chunk, group;
    enum moe_kv_type kv;
    // What is written beside its answers.
    bool profile;
    const char *trace, *predict_log;
};

// Settings as the engine takes them; the strings are the settings' own but for *kernel_cache, which the caller frees.
struct moe_model_options model_settings_open(const struct model_settings *settings, char **kernel_cache);
// How this program builds kernels in processes of their own: words that a job follows.
extern const char *const model_settings_helper[];
enum { MODEL_SETTINGS_WRITTEN = 2 };
// Of the files to be written, one that is a pipe: the model is opened once somebody reads it. NULL: it is none.
const char *model_settings_pipe(const struct model_settings *settings, size_t which);
void model_settings_say_pipe(const struct model_settings *settings); // of each, on standard error
// All but callbacks.
struct moe_session_options model_settings_session(const struct model_settings *settings);

#endif
