// SPDX-License-Identifier: GPL-3.0-or-later
// Any bytes as a list of a repository's files: refused with one line, or models whose parts and sizes add up.
#include <stdlib.h>
#include <string.h>

#include "engine/moe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool so)
{
    if (!so)
        abort();
}

static bool is_clean(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return false;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct moe_err err = {.text = ""};
    struct moe_listing listing;
    int code = moe_listing_read((const char *)data, size, "l", &listing, &err);
    if (code) {
        must((int)err.code == code && strncmp(err.text, "l: ", 3) == 0 && is_clean(err.text) && !listing.models);
        return 0;
    }
    uint64_t bytes = 0;
    must(listing.n_models >= 1 && is_clean(listing.repository) && is_clean(listing.left_out));
    for (uint32_t i = 0; i < listing.n_models; i++) {
        const struct moe_listed *model = &listing.models[i];
        struct moe_listed_needs needs;
        must(model->listed >= 1 && model->listed <= model->parts && *model->pattern && is_clean(model->name));
        must((model->missing == 0) == (model->listed == model->parts) && model->missing <= model->parts);
        must(model->sized || model->bytes == 0);
        bytes += model->bytes;
        if (moe_listed_needs(model, &needs))
            must(needs.cold_bytes <= needs.experts_bytes && needs.bytes > 0);
    }
    must(bytes <= listing.bytes);
    moe_listing_release(&listing);
    return 0;
}
