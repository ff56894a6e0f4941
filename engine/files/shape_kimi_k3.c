// SPDX-License-Identifier: GPL-3.0-or-later
// What Kimi K3's text model has beyond Kimi-Linear, whose type it says it is: attention residuals, experts in a latent
// space, SiTU, gates of the latent attention's output, a bound of the decay. Fields are those of the makers' own
// config.json; no class of transformers reads them. Where one is missing or null there is no such thing.
#include "engine/files/shape_reader.h"

#include <json-c/json.h>
#include <string.h>

static void read_activation(struct fields *f, struct shape *s)
{
    const struct number_range betas = {1e-3, 1e6};
    char act[32] = "silu";
    if (fields_has(f, "hidden_act"))
        fields_text(f, "hidden_act", act, sizeof act);
    if (strcmp(act, "situ") == 0) {
        s->situ_beta = (float)fields_number(f, "activation_situ_beta", betas);
        s->swiglu_limit = (float)fields_number(f, "activation_situ_linear_beta", betas);
    } else if (strcmp(act, "silu") != 0) {
        fields_fail(f, MOE_UNSUPPORTED, "hidden_act", "is \"%s\"; moechat computes \"silu\" and \"situ\"", act);
    }
}

static void read_latent(struct fields *f, struct shape *s)
{
    const char *key = "routed_expert_hidden_size";
    if (!fields_has(f, key))
        return;
    s->latent_size = (uint32_t)fields_integer(f, key, (struct integer_range){32, MOST_WIDTH});
    shape_check_width(f, key, s->latent_size);
    if (!f->failed && (!fields_has(f, "latent_moe_use_norm") || !fields_flag(f, "latent_moe_use_norm")))
        fields_fail(f, MOE_UNSUPPORTED, "latent_moe_use_norm",
                    "is not true; moechat norms what comes of experts in a latent space");
}

static void read_bank(struct fields *f, struct shape *s)
{
    const char *key = "attn_res_block_size";
    if (!fields_has(f, key))
        return;
    s->bank_every = (uint32_t)fields_integer(f, key, (struct integer_range){1, MOST_LAYERS});
    if (!f->failed && (s->n_layers + s->bank_every - 1) / s->bank_every > MOST_BANK)
        fields_fail(f, MOE_UNSUPPORTED, key, "is %u: of %u layers more than %d residuals would be kept", s->bank_every,
                    s->n_layers, MOST_BANK);
}

static void read_linear(struct fields *linear, struct shape *s)
{
    if (fields_has(linear, "gate_lower_bound")) {
        s->linear.bound = (float)fields_number(linear, "gate_lower_bound", (struct number_range){-1e3, 0});
        if (!linear->failed && s->linear.bound >= 0)
            fields_fail(linear, MOE_FORMAT, "gate_lower_bound", "is 0; it must be below");
    }
    if (fields_has(linear, "use_full_rank_gate"))
        s->linear.full_gate = fields_flag(linear, "use_full_rank_gate");
}

void shape_read_kimi_k3(struct fields *f, struct fields *linear, struct shape *s)
{
    read_linear(linear, s);
    f->failed = linear->failed;
    if (fields_has(f, "mla_use_output_gate"))
        s->gated_latents = fields_flag(f, "mla_use_output_gate");
    read_activation(f, s);
    read_latent(f, s);
    read_bank(f, s);
}
