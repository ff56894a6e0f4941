// SPDX-License-Identifier: GPL-3.0-or-later
// What the tests of the ops share: every device with every shape of kernels, random data, buffers, comparison.
#ifndef MOECHAT_RIG_H
#define MOECHAT_RIG_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/device.h"
#include "tests/harness.h"
#include "kernels/ref.h"

enum { MAX_RIGS = 16 };

struct rig {
    gpu *g;
    char label[64];
};

struct rigs {
    struct rig items[MAX_RIGS];
    unsigned n;
    bool warm_late; // build what is used only
};

// A float that no op makes: what has not been written keeps it.
static const uint32_t poison = 0x7fc0dead;

static inline uint32_t random_next(uint32_t *state)
{
    uint32_t x = *state;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return *state = x;
}

static inline float random_float(uint32_t *state)
{
    return (float)(int32_t)random_next(state) / 2147483648.0f;
}

static inline void *must(void *p)
{
    if (!p) {
        fprintf(stderr, "out of memory\n");
        exit(70);
    }
    return p;
}

static inline float *random_floats(size_t n, uint32_t seed)
{
    float *values = must(malloc(n * sizeof *values + 1));
    for (size_t i = 0; i < n; i++)
        values[i] = random_float(&seed);
    return values;
}

static inline float *poisoned(size_t n)
{
    float *values = must(malloc(n * sizeof *values + 1));
    for (size_t i = 0; i < n; i++)
        memcpy(&values[i], &poison, sizeof poison);
    return values;
}

// Memory as ref.c's functions take it.
#define HOST(memory) (&(gpu_buf){.host = (void *)(memory)})

static inline gpu_buf *upload(gpu *g, const void *data, size_t bytes)
{
    struct gpu_error err = {0};
    gpu_buf *buf = gpu_buf_new(g, bytes, &err);
    if (!buf) {
        fprintf(stderr, "%s\n", err.text);
        exit(70);
    }
    gpu_write(g, buf, 0, data, bytes);
    return buf;
}

// The buffer's whole content, or NULL (and the reason printed) when an op failed.
static inline void *download(gpu *g, gpu_buf *buf)
{
    struct gpu_error err = {0};
    size_t bytes = gpu_buf_bytes(buf);
    void *data = must(malloc(bytes));
    if (gpu_read(g, buf, 0, data, bytes, &err) == GPU_OK)
        return data;
    printf("    %s\n", err.text);
    free(data);
    return NULL;
}

// got[i] within tolerance * terms[i] of want[i] (terms NULL: of |want[i]|), and poison exactly where want has poison.
static inline int close_to(const char *what, const float *got, const float *want, const float *terms, size_t n,
                           double tolerance)
{
    for (size_t i = 0; got && i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &want[i], sizeof bits);
        double bound = tolerance * (terms ? (double)terms[i] : fabs((double)want[i])) + 1e-30;
        int good = bits == poison ? memcmp(&got[i], &want[i], sizeof bits) == 0
                                  : fabs((double)got[i] - (double)want[i]) <= bound;
        if (!good) {
            printf("    %s: element %zu of %zu is %.9g, ref has %.9g, bound %.3g\n", what, i, n, (double)got[i],
                   (double)want[i], bound);
            return 0;
        }
    }
    return got != NULL;
}

static inline void add_rig(struct rigs *rigs, const char *selector, enum gpu_shape shape)
{
    struct rig *rig = &rigs->items[rigs->n];
    struct gpu_error err = {0};
    struct gpu_options options = {
        .selector = selector,
        .cache_dir = getenv("MOECHAT_TEST_KERNEL_CACHE"),
        .warm_late = rigs->warm_late || getenv("MOECHAT_TEST_LATE")}; // by hand: of few tests, nothing else is built
    rig->g = gpu_open_shape(&options, shape, &err);
    if (!rig->g) {
        fprintf(stderr, "%s\n", err.text);
        exit(70);
    }
    const char *shape_name = shape == GPU_SHAPE_CPU ? "cpu" : "gpu";
    snprintf(rig->label, sizeof rig->label, "%s/%s", selector, strcmp(selector, "ref") == 0 ? "ref" : shape_name);
    rigs->n++;
}

// The ref device (which proves the plumbing) and all others with both shapes of kernels, or, by hand and in haste, the
// one that MOECHAT_TEST_SHAPE names. No device, or one that opens no rig, ends the test: ref beside ref would pass.
static inline struct rigs open_rigs_of(bool warm_late)
{
    struct gpu_info infos[MAX_RIGS / 2];
    struct rigs rigs = {.warm_late = warm_late};
    unsigned n = gpu_list(infos, MAX_RIGS / 2);
    const char *shape = getenv("MOECHAT_TEST_SHAPE"); // "cpu", "gpu"
    add_rig(&rigs, "ref", GPU_SHAPE_OF_DEVICE);
    for (unsigned i = 1; i < n && i < MAX_RIGS / 2; i++) {
        if (!shape || strcmp(shape, "gpu") != 0)
            add_rig(&rigs, infos[i].selector, GPU_SHAPE_CPU);
        if (!shape || strcmp(shape, "cpu") != 0)
            add_rig(&rigs, infos[i].selector, GPU_SHAPE_GPU);
    }
    if (n < 2) {
        printf(
            "FAIL no OpenCL device: the ops have nothing to be compared with (Debian: apt install pocl-opencl-icd)\n");
        exit(70);
    }
    return rigs;
}

static inline struct rigs open_rigs(void)
{
    return open_rigs_of(false);
}

static inline void close_rigs(struct rigs *rigs)
{
    for (unsigned i = 0; i < rigs->n; i++)
        gpu_close(rigs->items[i].g);
}

// MLX's affine kinds, and plain numbers of 16 and 32 bits.
static inline uint32_t kind_of(uint32_t bits)
{
    return bits == 32 ? KIND_F32 : bits == 16 ? KIND_BF16 : kind_affine(bits);
}

// A buffer with n matrices of one shape, and what describes them. Those with an odd number of rows lie at odd but legal
// offsets, the others as packages have them.
struct test_matrices {
    struct args_matrix at[2];
    unsigned char *bytes;
    size_t size;
};

static inline struct test_matrices random_matrices(struct args_matrix shape, unsigned n, uint32_t seed)
{
    struct test_matrices m = {.size = 4};
    size_t alignment = shape.out_dim % 2 ? 4 : 64;
    uint32_t bits = kind_bits(shape.kind);
    size_t weight = shape.out_dim * matrix_row_bytes(&shape);
    size_t groups = shape.out_dim * matrix_scale_bytes(&shape) / 2;
    size_t part = (2 * groups + 3) / 4 * 4;
    for (unsigned i = 0; i < n; i++) {
        m.size = (m.size + alignment - 1) / alignment * alignment;
        m.at[i] = shape;
        m.at[i].weight = m.size;
        m.at[i].scales = m.size + weight;
        m.at[i].biases = m.size + weight + part;
        m.size += weight + 2 * part;
    }
    m.size -= part - 2 * groups; // the last array ends at the buffer's end
    m.bytes = must(malloc(m.size + 4));
    for (size_t i = 0; i < m.size; i++)
        m.bytes[i] = (unsigned char)(random_next(&seed) >> 11);
    for (unsigned i = 0; bits > 8 && i < n; i++) // plain: any numbers of ordinary size
        for (size_t k = 0; k < weight; k += bits / 8) {
            float value = random_float(&seed);
            memcpy(m.bytes + m.at[i].weight + k, (unsigned char *)&value + (bits == 16 ? 2 : 0), bits / 8);
        }
    float most = bits == 4 ? 15.0f : 255.0f;
    for (unsigned i = 0; i < n; i++)
        for (size_t k = 0; k < groups; k++) {
            float scale = (0.5f + 0.5f * fabsf(random_float(&seed))) / most;
            float bias = -scale * most * (0.5f + 0.1f * random_float(&seed));
            uint32_t wide;
            memcpy(&wide, &scale, sizeof wide);
            memcpy(m.bytes + m.at[i].scales + 2 * k, (uint16_t[]){(uint16_t)(wide >> 16)}, 2);
            memcpy(&wide, &bias, sizeof wide);
            memcpy(m.bytes + m.at[i].biases + 2 * k, (uint16_t[]){(uint16_t)(wide >> 16)}, 2);
        }
    return m;
}

// sum_i (|W[o][i]| + |bias|) |x[i]|: what rounding errors of a product are measured by.
static inline float product_terms(const struct test_matrices *m, unsigned which, uint32_t row, const float *x)
{
    const struct args_matrix *at = &m->at[which];
    float *values = must(malloc(at->in_dim * sizeof *values));
    ref_matrix_row(at, m->bytes, row, values);
    double sum = 0;
    for (uint32_t i = 0; i < at->in_dim; i++) {
        float bias = 0;
        if (matrix_bias_bytes(at))
            bias = ref_scale(at->scale_type, m->bytes + at->biases,
                             (size_t)row * (at->in_dim / at->group_size) + i / at->group_size);
        sum += (fabs((double)values[i]) + fabs((double)bias)) * fabs((double)x[i]);
    }
    free(values);
    return (float)sum;
}

#endif
