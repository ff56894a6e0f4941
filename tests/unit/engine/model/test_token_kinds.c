// SPDX-License-Identifier: GPL-3.0-or-later
// The kinds that kernels are built for, by the ops that take them; and those of a token's program: where a model has
// more than it takes, those that merge most launches.
#include "engine/model/formats.h"
#include "tests/harness.h"

// The model's formats are these, in their order: kinds by ops.
static void check_formats(struct harness *t, const char *folder, const struct gpu_format *want, unsigned n)
{
    struct package package;
    struct weights weights;
    struct formats formats = {.n = 0};
    struct moe_err err = {.text = ""};
    if (!CHECK_EQ(t, weights_open_package(folder, &package, &err), MOE_OK)) {
        printf("    %s\n", err.text);
        return;
    }
    struct weights_source source = {.package = &package};
    if (CHECK_EQ(t, weights_load(NULL, &source, &weights, &err), MOE_OK))
        formats_of(&package, &weights, &formats);
    CHECK_EQ(t, formats.n, n);
    for (unsigned i = 0; i < n && i < formats.n; i++) {
        const struct gpu_format *f = &formats.items[i];
        if (!CHECK(t, f->kind == want[i].kind && f->scale_type == want[i].scale_type && f->uses == want[i].uses))
            printf("    %s: %s with uses %x\n", folder, kind_name(f->kind), (unsigned)f->uses);
    }
    weights_release(&weights);
    package_release(&package);
}

#define CHECK_FORMATS(t, folder, want) check_formats(t, folder, want, sizeof(want) / sizeof *(want))

static void all_where_they_are_few(struct harness *t)
{
    static const struct gpu_format k2[] = {
        {KIND_Q8_0, 0, USE_ROWS | USE_PRODUCTS | USE_HEADS | USE_TOKEN},
        {KIND_F32, 0, USE_PRODUCTS},
        {KIND_Q4_0, 0, USE_EXPERTS | USE_TOKEN},
    };
    static const struct gpu_format qwen[] = {
        // Layers with states; the experts, shared ones beside them, have three kinds, which do not go together.
        {KIND_Q8_0, 0, USE_ROWS | USE_PRODUCTS | USE_TOKEN},
        {KIND_F32, 0, USE_PRODUCTS},
        {KIND_Q4_0, 0, USE_EXPERTS},
        {KIND_Q5_0, 0, USE_EXPERTS},
    };
    static const struct gpu_format plain[] = {
        {KIND_F32, 0, USE_ROWS | USE_PRODUCTS},
        {KIND_BF16, 0, USE_PRODUCTS | USE_EXPERTS | USE_HEADS},
    };
    CHECK_FORMATS(t, "tests/golden/gguf-k2-q4_0/checkpoint", k2);
    CHECK_FORMATS(t, "tests/golden/gguf-qwen35moe/checkpoint", qwen);
    CHECK_FORMATS(t, "tests/golden/gguf-plain/checkpoint", plain); // which needs no other program
}

// Sixteen kinds: latent attention's way out is the only launch whose kinds all go together, and are few enough.
static void as_many_as_a_program_takes(struct harness *t)
{
    static const struct gpu_format want[] = {
        {KIND_IQ2_XXS, 0, USE_ROWS},
        {KIND_F32, 0, USE_PRODUCTS},
        {KIND_IQ3_S, 0, USE_PRODUCTS},
        {KIND_Q6_K, 0, USE_PRODUCTS},
        {KIND_Q8_0, 0, USE_PRODUCTS},
        {KIND_Q3_K, 0, USE_PRODUCTS | USE_TOKEN},
        {KIND_IQ1_S, 0, USE_PRODUCTS},
        {KIND_IQ1_M, 0, USE_PRODUCTS},
        {KIND_IQ2_S, 0, USE_PRODUCTS},
        {KIND_Q4_1, 0, USE_HEADS},
        {KIND_Q5_K, 0, USE_PRODUCTS | USE_HEADS | USE_TOKEN},
        {KIND_Q4_K, 0, USE_PRODUCTS},
        {KIND_IQ4_XS, 0, USE_PRODUCTS},
        {KIND_IQ2_XS, 0, USE_EXPERTS},
        {KIND_IQ3_XXS, 0, USE_EXPERTS},
        {KIND_Q2_K, 0, USE_EXPERTS},
    };
    CHECK_FORMATS(t, "tests/golden/gguf-v3-ud/checkpoint", want);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(all_where_they_are_few), TEST(as_many_as_a_program_takes)};
    return HARNESS_RUN(tests, argc, argv);
}
