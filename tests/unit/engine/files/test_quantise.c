// SPDX-License-Identifier: GPL-3.0-or-later
// Quantisation against MLX's own results, and every number of the small formats.
#include <math.h>
#include <stdlib.h>

#include "tests/harness.h"
#include "kernels/numbers.h"
#include "engine/files/quantise.h"

enum { MOST = 256 };

struct rows {
    uint32_t header[4]; // bits, group_size, rows, cols
    uint16_t x[8 * MOST];
    uint32_t words[8 * MOST / 4];
    uint16_t scales[8 * MOST / 32], biases[8 * MOST / 32];
};

static bool read_rows(FILE *file, struct rows *r)
{
    if (fread(r->header, sizeof r->header, 1, file) != 1)
        return false;
    size_t count = (size_t)r->header[2] * r->header[3];
    size_t words = count * r->header[0] / 32;
    size_t groups = count / r->header[1];
    return fread(r->x, 2, count, file) == count && fread(r->words, 4, words, file) == words &&
           fread(r->scales, 2, groups, file) == groups && fread(r->biases, 2, groups, file) == groups;
}

static void rows_are_quantised_as_mlx_does(struct harness *t)
{
    FILE *file = fopen("tests/unit/data/quantise.bin", "rb");
    if (!CHECK(t, file != NULL))
        return;
    static struct rows r;
    int cases = 0;
    while (read_rows(file, &r)) {
        struct quantisation how = {r.header[0], r.header[1]};
        uint32_t cols = r.header[3];
        uint32_t n_words = cols * how.bits / 32;
        uint32_t n_groups = cols / how.group_size;
        for (uint32_t row = 0; row < r.header[2]; row++) {
            float x[MOST], back[MOST];
            uint32_t words[MOST / 4];
            uint16_t scales[MOST / 32], biases[MOST / 32];
            const struct quantised_row out = {words, scales, biases};
            for (uint32_t i = 0; i < cols; i++)
                x[i] = number_from_bf16(r.x[row * cols + i]);
            CHECK(t, quantise_row(x, cols, how, &out));
            CHECK(t, memcmp(words, r.words + row * n_words, 4 * n_words) == 0);
            CHECK(t, memcmp(scales, r.scales + row * n_groups, 2 * n_groups) == 0);
            CHECK(t, memcmp(biases, r.biases + row * n_groups, 2 * n_groups) == 0);
            dequantise_row(&out, cols, how, back);
            for (uint32_t i = 0; i < cols; i++) // a step at the far end, and what bf16 takes from scale and bias
                CHECK(t, fabsf(back[i] - x[i]) <=
                             1.01f * fabsf(number_from_bf16(scales[i / how.group_size])) +
                                 0.004f * (fabsf(number_from_bf16(biases[i / how.group_size])) + fabsf(x[i])));
        }
        cases++;
    }
    CHECK_EQ(t, cases, 6);
    fclose(file);
}

static void what_is_not_finite_is_refused(struct harness *t)
{
    static const float bad[] = {INFINITY, -INFINITY, NAN, 3.4e38f}; // the last rounds up, to no bf16 number
    struct quantisation how = {4, 32};
    uint16_t scales[2];
    const struct quantised_row out = {.scales = scales};
    for (int b = 0; b < 4; b++)
        for (uint32_t at = 0; at < 64; at += 9) {
            float x[64];
            for (uint32_t i = 0; i < 64; i++)
                x[i] = (float)i;
            CHECK(t, quantise_row(x, 64, how, &out));
            x[at] = bad[b];
            CHECK(t, !quantise_row(x, 64, how, &out));
        }
}

static void every_small_number_is_itself(struct harness *t)
{
    for (uint32_t bits = 0; bits < 65536; bits++) {
        uint32_t exponent = bits >> 10 & 31u;
        double size = exponent ? ldexp(1024 + (bits & 1023u), (int)exponent - 25) : ldexp(bits & 1023u, -24);
        float half = number_from_half((uint16_t)bits);
        bool good = exponent == 31 ? (bits & 1023u ? isnan(half) : isinf(half)) && !!signbit(half) == (bits >> 15)
                                   : (double)half == (bits & 0x8000u ? -size : size);
        float wide = number_from_bf16((uint16_t)bits);
        good &= isnan(wide) ? isnan(number_from_bf16(number_to_bf16(wide))) : number_to_bf16(wide) == bits;
        if (!CHECK(t, good))
            return;
    }
    for (uint32_t bits = 0; bits < 256; bits++) {
        uint32_t exponent = bits >> 3 & 15u;
        double size = exponent ? ldexp(8 + (bits & 7u), (int)exponent - 10) : ldexp(bits & 7u, -9);
        float got = number_from_fp8((uint8_t)bits);
        CHECK(t, (bits & 127u) == 127 ? isnan(got) : (double)got == (bits & 128u ? -size : size));
    }
    CHECK(t, number_from_fp8(0x7e) == 448.0f && number_from_fp8(1) == 0.001953125f);
    // To nearest, and to even between two.
    CHECK_EQ(t, number_to_bf16(number_bits(0x3f808000)), 0x3f80);
    CHECK_EQ(t, number_to_bf16(number_bits(0x3f818000)), 0x3f82);
    CHECK_EQ(t, number_to_bf16(number_bits(0x3f808001)), 0x3f81);
    CHECK_EQ(t, number_to_bf16(number_bits(0x7f7fffff)), 0x7f80);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(rows_are_quantised_as_mlx_does), TEST(what_is_not_finite_is_refused), TEST(every_small_number_is_itself)};
    return HARNESS_RUN(tests, argc, argv);
}
