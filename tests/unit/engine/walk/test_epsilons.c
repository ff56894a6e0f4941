// SPDX-License-Identifier: GPL-3.0-or-later
// Which epsilon each norm of a layer with a state is given: queries and keys have 1e-6 whatever the model's own is,
// which real models hide (Qwen's own is 1e-6, and Kimi's 1e-5 is small beside what is normed).
#include "engine/session/session.h"
#include "tests/setup_rig.h"

#define OWN 1e-3f // as if config.json said so

static struct {
    unsigned launches, wrong;
} scans, norms; // of all ways

void __real_gpu_op_delta(gpu *g, const struct args_delta *a, const struct gpu_delta_bufs *b);
void __wrap_gpu_op_delta(gpu *g, const struct args_delta *a, const struct gpu_delta_bufs *b);
void __real_gpu_op_gated_norm(gpu *g, const struct args_gated_norm *a, const struct gpu_gated_norm_bufs *b);
void __wrap_gpu_op_gated_norm(gpu *g, const struct args_gated_norm *a, const struct gpu_gated_norm_bufs *b);
void __real_gpu_op_delta_token(gpu *g, const struct args_delta_token *a, const struct gpu_delta_token_bufs *b);
void __wrap_gpu_op_delta_token(gpu *g, const struct args_delta_token *a, const struct gpu_delta_token_bufs *b);
void __real_gpu_op_delta_layer(gpu *g, const struct args_delta_layer *a, const struct gpu_delta_layer_bufs *b);
void __wrap_gpu_op_delta_layer(gpu *g, const struct args_delta_layer *a, const struct gpu_delta_layer_bufs *b);

static void see(const struct args_delta *scan, const struct args_gated_norm *norm)
{
    scans.launches += scan != NULL;
    scans.wrong += scan && scan->norm_eps != 1e-6f;
    norms.launches += norm != NULL;
    norms.wrong += norm && norm->eps != OWN;
}

void __wrap_gpu_op_delta(gpu *g, const struct args_delta *a, const struct gpu_delta_bufs *b)
{
    see(a, NULL);
    __real_gpu_op_delta(g, a, b);
}

void __wrap_gpu_op_gated_norm(gpu *g, const struct args_gated_norm *a, const struct gpu_gated_norm_bufs *b)
{
    see(NULL, a);
    __real_gpu_op_gated_norm(g, a, b);
}

void __wrap_gpu_op_delta_token(gpu *g, const struct args_delta_token *a, const struct gpu_delta_token_bufs *b)
{
    see(&a->scan, &a->norm);
    __real_gpu_op_delta_token(g, a, b);
}

void __wrap_gpu_op_delta_layer(gpu *g, const struct args_delta_layer *a, const struct gpu_delta_layer_bufs *b)
{
    see(&a->token.scan, &a->token.norm);
    __real_gpu_op_delta_layer(g, a, b);
}

// A prompt and decoded tokens, by launches that belong together and one by one.
static void queries_and_keys_have_their_own(struct harness *t)
{
    static const char *const models[] = {"ck-qwen35moe-mlx", "ck-qwen3next-mlx", "ck-kimi-linear-mlx",
                                         "ck-kimi-k3-mlx"};
    static const unsigned without[] = {0, MOE_WITHOUT_FUSED};
    for (size_t i = 0; i < 2 * sizeof models / sizeof *models; i++) {
        char directory[100];
        struct opened o;
        struct setup setup = {.directory = directory, .device = "ref", .cache = MOE_CACHE_ALL};
        setup.session = (struct moe_session_options){.prefetch = MOE_PREFETCH_OFF, .without = without[i % 2]};
        snprintf(directory, sizeof directory, "tests/golden/%s/checkpoint", models[i / 2]);
        scans.launches = norms.launches = 0;
        if (open_setup(t, &setup, &o)) {
            o.model->package.shape.rms_norm_eps = OWN;
            finish(t, &o);
        }
        CHECK(t, scans.launches > N_DECODED && scans.launches == norms.launches);
        close_opened(&o);
    }
    CHECK_EQ(t, scans.wrong, 0);
    CHECK_EQ(t, norms.wrong, 0);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(queries_and_keys_have_their_own)};
    return HARNESS_RUN(tests, argc, argv);
}
