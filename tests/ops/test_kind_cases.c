// SPDX-License-Identifier: GPL-3.0-or-later
// The table of formats and what follows from it, and what rows of any bytes are in plain C: of every kind, by digests.
// They were taken when test_kinds, test_quantise and the goldens of GGUF files, which hold these numbers to others',
// passed.
#include <stdlib.h>

#include "kernels/ref_kinds.h"
#include "tests/cases.h"

static void facts_of_kinds(struct harness *t)
{
    struct cases c = cases_begin("facts_of_kinds");
    for (uint32_t kind = 0; kind < KIND_COUNT + 2; kind++) {
        const struct kind_info *info = kind_info(kind);
        cases_say(&c, "%u %s %d %u %d\n", kind, kind_name(kind), info != NULL, kind_bits(kind),
                  kind_takes_factor(kind));
        if (info)
            cases_say(&c, "%u %u %u %d %u %u %u\n", info->block_inputs, info->block_bytes, info->quantum_bits,
                      info->scales, info->halves.count, info->halves.at[0], info->halves.at[1]);
        if (info)
            cases_say(&c, "%s is %u\n", info->name, kind_named(info->name));
    }
    for (uint32_t bits = 0; bits < 18; bits++)
        cases_say(&c, "%u bits: %u\n", bits, kind_affine(bits));
    cases_say(&c, "%u %u %u\n", kind_named(""), kind_named("Q4_"), kind_named("q4_0"));
    CHECK_CASES(t, &c, 0x44d747dac3ed2b22);
}

static void shapes_and_sizes(struct harness *t)
{
    static const uint32_t dims[] = {0, 1, 16, 31, 32, 33, 48, 64, 96, 128, 160, 255, 256, 257, 512, 4096};
    static const uint32_t groups[] = {0, 16, 32, 64, 96, 128, 256};
    struct cases c = cases_begin("shapes_and_sizes");
    for (uint32_t kind = 0; kind <= KIND_COUNT; kind++)
        for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
            for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
                for (uint32_t scale = 0; scale <= SCALE_F32 + 1u; scale++)
                    for (uint32_t factor = 0; factor <= FACTOR_OF_LARGEST + 1u; factor++) {
                        struct args_matrix m = {.kind = kind,
                                                .in_dim = dims[d],
                                                .out_dim = 3,
                                                .group_size = groups[g],
                                                .scale_type = scale,
                                                .factor = factor};
                        if (!matrix_is_shaped(&m)) {
                            cases_say(&c, "-");
                            continue;
                        }
                        cases_say(&c, "%u %u %u %u %u: %llu %llu %llu %llu %llu\n", kind, dims[d], groups[g], scale,
                                  factor, (unsigned long long)matrix_row_bytes(&m),
                                  (unsigned long long)matrix_scale_bytes(&m), (unsigned long long)matrix_bias_bytes(&m),
                                  (unsigned long long)matrix_factor_bytes(&m), (unsigned long long)matrix_bytes(&m));
                        m.out_dim = 0;
                        CHECK(t, !matrix_is_shaped(&m));
                    }
    CHECK_CASES(t, &c, 0xc35075f08d388117);
}

// Bytes whose float16 scales are finite, so that every number is one.
static void fill(struct cases *c, const struct args_matrix *m, unsigned char *bytes)
{
    const struct kind_info *info = kind_info(m->kind);
    uint64_t all = matrix_bytes(m), weights = m->out_dim * matrix_row_bytes(m);
    for (uint64_t i = 0; i < all; i++)
        bytes[i] = (unsigned char)cases_draw(c, 256);
    for (uint64_t block = 0; block + info->block_bytes <= weights; block += info->block_bytes)
        for (int k = 0; k < info->halves.count; k++)
            bytes[block + info->halves.at[k] + 1u] = (unsigned char)(0x20 + cases_draw(c, 0x18));
    for (uint64_t i = weights + 1; i < all && info->scales == SCALES_AFFINE; i += 2) // of whichever float type
        bytes[i] = (unsigned char)(0x38 + cases_draw(c, 4));
    if (m->factor) {
        float factor = 1.5F;
        memcpy(bytes + all - sizeof factor, &factor, sizeof factor);
    }
}

static void rows_of_any_bytes(struct harness *t)
{
    struct cases c = cases_begin("rows_of_any_bytes");
    for (uint32_t kind = KIND_NONE + 1; kind < KIND_COUNT; kind++)
        for (uint32_t scale = 0; scale <= (kind_info(kind)->scales == SCALES_AFFINE ? SCALE_F32 : 0u); scale++)
            for (uint32_t factor = 0; factor <= (kind_takes_factor(kind) ? FACTOR_OF_LARGEST : 0u); factor++) {
                struct args_matrix m = {
                    .kind = kind, .in_dim = 512, .out_dim = 4, .group_size = 64, .scale_type = scale, .factor = factor};
                uint64_t rows = m.out_dim * matrix_row_bytes(&m), scales = m.out_dim * matrix_scale_bytes(&m);
                m.scales = rows;
                m.biases = rows + scales;
                unsigned char *bytes = malloc(matrix_bytes(&m)); // no byte more: a sanitizer sees the first beyond
                float out[512];
                if (!bytes || !CHECK(t, matrix_is_shaped(&m)))
                    exit(70);
                fill(&c, &m, bytes);
                cases_say(&c, "kind %u, scales %u, factor %u\n", kind, scale, factor);
                for (uint32_t row = 0; row < m.out_dim; row++) {
                    ref_matrix_row(&m, bytes, row, out);
                    for (uint32_t i = 0; i < m.in_dim; i++)
                        if (out[i] != out[i])
                            cases_say(&c, "nan\n");
                        else
                            cases_say(&c, "%.9g\n", (double)out[i]);
                }
                free(bytes);
            }
    CHECK_CASES(t, &c, 0xae961a84697c21af);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(facts_of_kinds), TEST(shapes_and_sizes), TEST(rows_of_any_bytes)};
    return HARNESS_RUN(tests, argc, argv);
}
