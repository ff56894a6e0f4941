// SPDX-License-Identifier: GPL-3.0-or-later
// Any bytes as session.json: refused with a reason, or what was read renders to something that reads as the same. The
// first byte says whether the checksum is made right first.
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "app/store/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BODY = 26 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes file = {0}, first = {0}, second = {0};
    struct manifest manifest;
    if (size < 1 || !bytes_append(&file, data + 1, size - 1))
        return 0;
    if (data[0] & 1 && file.length > BODY + 1) {
        unsigned long long sum = XXH3_64bits(file.data + BODY, file.length - BODY - 1);
        for (int i = 0; i < 16; i++)
            file.data[8 + i] = "0123456789abcdef"[sum >> (60 - 4 * i) & 15];
    }
    const char *wrong = manifest_parse(file.data, file.length, &manifest);
    if (wrong && (!*wrong || manifest.parts || manifest.records))
        abort();
    if (!wrong) {
        if (manifest_rows(&manifest) > manifest_tokens(&manifest) || !manifest_render(&manifest, &first))
            abort();
        manifest_release(&manifest);
        // Labels may be cut once, where bytes that are no characters became longer.
        if (manifest_parse(first.data, first.length, &manifest) || !manifest_render(&manifest, &second))
            abort();
        manifest_release(&manifest);
        first.length = 0;
        if (manifest_parse(second.data, second.length, &manifest) || !manifest_render(&manifest, &first) ||
            first.length != second.length || memcmp(first.data, second.data, first.length) != 0)
            abort();
    }
    manifest_release(&manifest);
    // Whatever its sum is, what can be read is read the same, and is no more than a manifest may be.
    if (manifest_parse_broken(file.data, file.length, &manifest)
            ? !wrong
            : manifest_rows(&manifest) > manifest_tokens(&manifest))
        abort();
    manifest_release(&manifest);
    bytes_release(&file);
    bytes_release(&first);
    bytes_release(&second);
    return 0;
}
