// SPDX-License-Identifier: GPL-3.0-or-later
// Any two texts, with a NUL between them, as config.json and as the header of model.safetensors: the folder is refused
// with one line, or described with every range inside its file; and a conversion of it is refused, or prepared with
// every byte in its place. The tensors' data are zeroes, as many as the largest number of the header.
#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/convert/job.h"
#include "engine/files/folder.h"
#include "engine/walk/weights.h"
#include "tests/fuzz/place.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint64_t most_bytes = 64 << 20;

static void must(bool so)
{
    if (!so)
        abort();
}

static void write_file(const char *folder, const char *name, const void *prefix, size_t n_prefix, const uint8_t *text,
                       size_t length, uint64_t zeroes)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    must(fd >= 0 && write(fd, prefix, n_prefix) == (ssize_t)n_prefix && write(fd, text, length) == (ssize_t)length);
    must(ftruncate(fd, (off_t)(n_prefix + length + zeroes)) == 0);
    close(fd);
}

static uint64_t largest_number(const uint8_t *text, size_t length)
{
    uint64_t largest = 0;
    for (size_t i = 0; i < length;) {
        uint64_t number = 0;
        for (; i < length && isdigit(text[i]); i++)
            number = number > most_bytes ? number : number * 10 + (uint64_t)(text[i] - '0');
        largest = number > largest && number <= most_bytes ? number : largest;
        i++;
    }
    return largest;
}

static void check_parts(const struct expert_layout *experts)
{
    struct expert_part parts[MAX_EXPERT_PARTS];
    must(matrix_is_shaped(&experts->gate) && matrix_is_shaped(&experts->up) && matrix_is_shaped(&experts->down));
    uint32_t n = package_parts(experts, parts);
    for (uint32_t i = 0; i < n; i++)
        must(parts[i].bytes > 0 && parts[i].offset + parts[i].bytes <= experts->blob_bytes);
}

static void check_spans(const struct package *p)
{
    const struct shape *s = &p->shape;
    for (uint32_t layer = s->first_k_dense_replace; p->kind == FOLDER_MLX && layer < s->n_layers; layer++) {
        struct expert_span spans[MAX_EXPERT_SPANS];
        uint32_t n = package_spans(p, layer, s->n_routed_experts - 1, spans);
        must(n >= 6 && n <= MAX_EXPERT_SPANS);
        for (uint32_t i = 0; i < n; i++)
            must(spans[i].file < p->n_files && spans[i].offset + spans[i].bytes <= p->files[spans[i].file].bytes &&
                 spans[i].at + spans[i].bytes <= package_experts(p, layer)->blob_bytes);
        check_parts(package_experts(p, layer));
    }
}

static void check_job(const struct package *p)
{
    struct job job = {.from = p->checkpoint, .shape = &p->shape, .source_layers = p->layers};
    struct moe_err err = {.text = ""};
    int code = job_make(&job, &err);
    if (code) {
        must((int)err.code == code && err.text[0] && !strchr(err.text, '\n'));
        return;
    }
    uint64_t end = job.header_bytes;
    for (size_t i = 0; i < job.count; i++) {
        must(job.tensors[i].offset == end);
        end += job.tensors[i].bytes;
    }
    must(end == job.resident_bytes);
    job_release(&job);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *middle = memchr(data, 0, size);
    if (!middle)
        return 0;
    const char *folder = place();
    size_t length = size - (size_t)(middle + 1 - data);
    uint64_t prefix = length;
    write_file(folder, "config.json", NULL, 0, data, (size_t)(middle - data), 0);
    write_file(folder, "model.safetensors", &prefix, sizeof prefix, middle + 1, length,
               largest_number(middle + 1, length));
    struct package package;
    struct moe_err err = {.text = ""};
    int code = weights_open_package(folder, &package, &err);
    if (code) {
        must((int)err.code == code && err.text[0] && !strchr(err.text, '\n'));
    } else {
        check_spans(&package);
        check_job(&package);
        package_release(&package);
    }
    char path[64];
    snprintf(path, sizeof path, "%s/config.json", folder);
    unlink(path);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    unlink(path);
    return 0;
}
