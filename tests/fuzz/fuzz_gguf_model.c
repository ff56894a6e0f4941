// SPDX-License-Identifier: GPL-3.0-or-later
// Any bytes as a GGUF file, with as many zeroes behind them as the first four bytes say (16 MiB at most): refused with
// one line, or a model whose experts lie within the file and have room in their slots, with a vocabulary that can be
// looked at, or is refused with one line.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/walk/weights.h"
#include "tests/fuzz/place.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool so)
{
    if (!so)
        abort();
}

static bool one_line(int code, const struct moe_err *err)
{
    return (int)err->code == code && err->text[0] && !strchr(err->text, '\n');
}

static void check_spans(const struct package *p)
{
    const struct shape *s = &p->shape;
    for (uint32_t layer = s->first_k_dense_replace; layer < s->n_layers; layer++) {
        struct expert_span spans[MAX_EXPERT_SPANS];
        uint32_t n = package_spans(p, layer, s->n_routed_experts - 1, spans);
        const struct expert_layout *experts = package_experts(p, layer);
        must(n >= 2 && n <= 6); // gate, up, down, and factors
        for (uint32_t i = 0; i < n; i++)
            must(spans[i].file < p->n_files && spans[i].offset + spans[i].bytes <= p->files[spans[i].file].bytes &&
                 spans[i].at + spans[i].bytes <= experts->blob_bytes);
        must(matrix_is_shaped(&experts->gate) && matrix_is_shaped(&experts->up) && matrix_is_shaped(&experts->down));
        struct expert_part parts[MAX_EXPERT_PARTS];
        for (uint32_t i = 0, n_parts = package_parts(experts, parts); i < n_parts; i++)
            must(parts[i].offset + parts[i].bytes <= experts->blob_bytes);
    }
}

static void check_vocabulary(const char *path)
{
    struct moe_vocabulary *v;
    struct moe_err err = {.text = ""};
    int code = moe_vocabulary_open(path, &v, &err);
    uint64_t sum = 0;
    if (code) {
        must(one_line(code, &err) && !v);
        return;
    }
    for (size_t i = 0; i < v->n_tokens; i++)
        for (size_t k = 0; k < v->tokens[i].length; k++)
            sum += (unsigned char)v->tokens[i].bytes[k];
    for (size_t i = 0; i < v->n_types; i++)
        sum += (uint32_t)v->types[i];
    must(sum != 1 || v->n_tokens || v->n_types);
    moe_vocabulary_close(v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    struct package package;
    struct moe_err err = {.text = ""};
    if (size < 4)
        return 0;
    uint32_t zeroes = (data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16) % (16 << 20);
    snprintf(path, sizeof path, "%s/x.gguf", place());
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    must(fd >= 0 && write(fd, data + 4, size - 4) == (ssize_t)(size - 4));
    must(ftruncate(fd, (off_t)(size - 4 + zeroes)) == 0);
    close(fd);
    int code = weights_open_package(path, &package, &err);
    if (code) {
        must(one_line(code, &err));
    } else {
        check_spans(&package);
        package_release(&package);
    }
    check_vocabulary(path);
    unlink(path);
    return 0;
}
