// SPDX-License-Identifier: GPL-3.0-or-later
// Writing model.json (moechat-model(5)).
#ifndef MOECHAT_ENGINE_CONVERT_MANIFEST_H
#define MOECHAT_ENGINE_CONVERT_MANIFEST_H

#include "engine/convert/journal.h"
#include "engine/convert/job.h"
#include "engine/files/package.h"

struct manifest_facts {
    const char *name;
    const char *template_name; // NULL or "": none
    const struct job *job;
    const struct journal *journal; // has every file; NULL: nothing was written yet
    const char *tokenizer_type;    // "": none
    const char *tokenizer_file;    // in the package
    uint64_t tokenizer_bytes;
};

// A layer's file in the package.
void manifest_layer_file(uint32_t layer, char file[64]);
// Of the package `name` that `job` makes of `from`; they point into these.
struct manifest_facts manifest_facts_of(const struct package *from, const struct job *job, const char *name);
// That it will take.
int manifest_bytes(const struct manifest_facts *facts, uint64_t *bytes, struct moe_err *err);
int manifest_write(const char *folder, const struct manifest_facts *facts, struct moe_err *err);

#endif
