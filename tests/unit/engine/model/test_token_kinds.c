// SPDX-License-Identifier: GPL-3.0-or-later
// Which kinds a token's program is built for: where a model has more than it takes, those that merge most launches.
#include "engine/model/formats.h"
#include "tests/harness.h"

// Of the model's formats: how many there are, and bit KIND_X of each that has USE_TOKEN.
static uint64_t token_kinds_of(struct harness *t, const char *folder, unsigned *n)
{
    struct package package;
    struct weights weights;
    struct formats formats;
    struct moe_err err = {.text = ""};
    uint64_t kinds = 0;
    if (!CHECK_EQ(t, weights_open_package(folder, &package, &err), MOE_OK)) {
        printf("    %s\n", err.text);
        return 0;
    }
    struct weights_source source = {.package = &package};
    if (CHECK_EQ(t, weights_load(NULL, &source, &weights, &err), MOE_OK)) {
        formats_of(&package, &weights, &formats);
        *n = formats.n;
        for (unsigned i = 0; i < formats.n; i++)
            if (formats.items[i].uses & USE_TOKEN)
                kinds |= UINT64_C(1) << formats.items[i].kind;
    }
    weights_release(&weights);
    package_release(&package);
    return kinds;
}

#define BIT(kind) (UINT64_C(1) << (kind))

static void all_where_they_are_few(struct harness *t)
{
    unsigned n;
    CHECK_EQ(t, token_kinds_of(t, "tests/golden/gguf-k2-q4_0/checkpoint", &n), BIT(KIND_Q4_0) | BIT(KIND_Q8_0));
    // Layers with states, and shared experts beside them.
    CHECK_EQ(t, token_kinds_of(t, "tests/golden/gguf-qwen35moe/checkpoint", &n),
             BIT(KIND_Q4_0) | BIT(KIND_Q5_0) | BIT(KIND_Q8_0));
    CHECK_EQ(t, token_kinds_of(t, "tests/golden/ck-moonlight-mlx/checkpoint", &n), 0); // MLX's need no other program
}

static void as_many_as_a_program_takes(struct harness *t)
{
    unsigned n = 0;
    // Latent attention's way out: of its launches the only one whose kinds all go together.
    CHECK_EQ(t, token_kinds_of(t, "tests/golden/gguf-v3-ud/checkpoint", &n), BIT(KIND_Q3_K) | BIT(KIND_Q5_K));
    CHECK(t, n > 10);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(all_where_they_are_few), TEST(as_many_as_a_program_takes)};
    return HARNESS_RUN(tests, argc, argv);
}
