// SPDX-License-Identifier: GPL-3.0-or-later
// Opens a file of tensors by its format, and reads ranges of them.
#include "engine/files/tensor_file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct tensor *)a)->name, ((const struct tensor *)b)->name);
}

void tensor_file_sort(struct tensor_file *file)
{
    if (file->count)
        qsort(file->tensors, file->count, sizeof *file->tensors, by_name);
}

void tensor_file_forget(struct tensor_file *file)
{
    for (size_t i = 0; i < file->count; i++)
        free(file->tensors[i].name);
    free(file->tensors);
    file->tensors = NULL;
    file->count = 0;
}

void tensor_file_release(struct tensor_file *file)
{
    tensor_file_forget(file);
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}

const struct tensor *tensor_file_find(const struct tensor_file *file, const char *name)
{
    struct tensor key = {.name = (char *)name};
    return file->count ? bsearch(&key, file->tensors, file->count, sizeof *file->tensors, by_name) : NULL;
}

int tensor_file_read(const struct tensor_file *file, const struct tensor *tensor, void *target, struct moe_err *err)
{
    const struct file_range range = {file->fd, file->path, tensor->offset, (size_t)tensor->bytes};
    return file_read(&range, target, err);
}
