// SPDX-License-Identifier: GPL-3.0-or-later
// How a conversation is to be held and shown. A talk keeps its own copy, which /set changes; what was asked for at the
// start stays as it was. Strings belong to whoever filled them in; NULL: not given.
#ifndef MOECHAT_APP_OPTIONS_TALK_SETTINGS_H
#define MOECHAT_APP_OPTIONS_TALK_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/moe.h"

enum color { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER };

struct face_settings {
    bool plain, ascii, mouse, clipboard;
    enum color color;
};

struct seed_setting {
    uint64_t number;
    bool given; // else it is drawn
};

// Where values come from: a bit for each row of options_table. What has none is as it is by default.
struct setting_sources {
    uint64_t given, environment, config; // at the start; of those given, by the environment or the configuration file
    uint64_t model;                      // the model's maker suggests it
    uint64_t changed;                    // by /set
};

struct talk_settings {
    struct setting_sources sources;
    const char *system;
    // Where it is saved.
    const char *session;
    bool go_on, no_session;
    uint64_t kv_cap; // bytes of all sessions' cache rows
    // How answers are sampled.
    double temp, top_p, min_p, repeat_penalty;
    uint32_t top_k;
    struct seed_setting seed;
    uint32_t max_tokens; // 0: no limit
    struct face_settings face;
};

uint64_t talk_settings_random_seed(void); // short enough to be typed again
struct moe_sampling talk_settings_sampling(const struct talk_settings *settings, uint64_t seed);

#endif
