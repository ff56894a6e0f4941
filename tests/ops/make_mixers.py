#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""make_mixers.py FILE: writes inputs and outputs of transformers' own modules for what mixes tokens, in float32, as
tests/ops/test_mixers.c reads them: arrays, one behind the other, each a u32 number of float32 and these. Needs torch and
transformers 5.17. The sizes stand in both; the order here is the order there."""
import struct
import sys
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from transformers.models.glm5_next import modeling_glm5_next as glm
from transformers.models.kimi_linear import modeling_kimi_linear as kimi
from transformers.models.qwen3_next import modeling_qwen3_next as qwen

torch.manual_seed(13)
torch.set_grad_enabled(False)
out = open(sys.argv[1], "wb")


def put(*arrays):
    for a in arrays:
        values = a.detach().float().contiguous().flatten().numpy().astype("<f4")
        out.write(struct.pack("<I", values.size) + values.tobytes())


def fill(module):
    for p in module.parameters():
        p.copy_(torch.randn(p.shape) * 0.7)
    return module


# Convolution: 9 rows of 19 channels behind a history of 3.
x, history, weight = torch.randn(9, 19), torch.randn(3, 19), torch.randn(19, 4)
y = qwen.causal_conv1d_fn(torch.cat([history, x]).T[None], weight, None, "silu")[0].T[-9:]
put(weight, history, x, y)

# Gated delta net: 2 key heads of 16, 4 value heads of 24, 11 tokens, from a state.
T, NK, NV, DK, DV = 11, 2, 4, 16, 24
q, k, v = torch.randn(T, NK, DK), torch.randn(T, NK, DK), torch.randn(T, NV, DV)
a, b, A_log, dt_bias = torch.randn(T, NV) * 4, torch.randn(T, NV), torch.randn(NV), torch.randn(NV)
a[0, 0] = 25.0
state = torch.randn(NV, DK, DV)
g = -A_log.float().exp() * F.softplus(a.float() + dt_bias)
wide = lambda t: t.repeat_interleave(NV // NK, dim=1)[None]
o, last = qwen.torch_recurrent_gated_delta_rule(wide(q), wide(k), v[None], g=g[None], beta=b.sigmoid()[None],
                                                initial_state=state[None], output_final_state=True,
                                                use_qk_l2norm_in_kernel=True)
put(A_log, dt_bias, torch.cat([q.flatten(1), k.flatten(1), v.flatten(1)], 1), torch.cat([b, a], 1), state, last, o)

# KDA: 3 heads of 16, 7 tokens; the decay of Kimi-Linear, then GLM-5.3's, bounded.
T, H, D = 7, 3, 16
config = dict(linear_head_dim=D, linear_num_heads=H, hidden_size=32)
for gate in [kimi.KimiLinearForgetGate(SimpleNamespace(**config)),
             glm.Glm5NextTextForgetGate(SimpleNamespace(linear_lower_bound=-5.0, **config))]:
    fill(gate)
    x = torch.randn(1, T, 32) * 2
    f = gate.f_b_proj(gate.f_a_proj(x))[0]
    q, k, v, b = torch.randn(T, H, D), torch.randn(T, H, D), torch.randn(T, H, D), torch.randn(T, H)
    state = torch.randn(H, D, D)
    o, last = kimi.recurrent_kimi_delta_attention(q[None], k[None], v[None], g=gate(x), beta=b.sigmoid()[None],
                                                  initial_state=state[None], output_final_state=True,
                                                  use_qk_l2norm_in_kernel=True)
    put(gate.A_log, gate.dt_bias, torch.cat([q.flatten(1), k.flatten(1), v.flatten(1)], 1), torch.cat([b, f], 1), state,
        last, o)

# Gated norms: 5 rows of 3 heads of 24.
for norm in [fill(qwen.Qwen3NextRMSNormGated(24, eps=1e-6)), fill(kimi.KimiLinearRMSNormGated(24, eps=1e-5))]:
    x, gate = torch.randn(5, 3, 24), torch.randn(5, 3, 24) * 3
    put(norm.weight, x, gate, norm(x, gate))

# Grouped attention, whole but for its last product: 6 tokens, 4 heads over 2 of 32, 8 of them turned; gated.
T, H, KV, D, TURNED = 6, 4, 2, 32, 8
config = SimpleNamespace(head_dim=D, num_attention_heads=H, num_key_value_heads=KV, hidden_size=40, attention_dropout=0.0,
                         attention_bias=False, rms_norm_eps=1e-6, _attn_implementation="eager")
attention = fill(qwen.Qwen3NextAttention(config, 0))
attention.o_proj = torch.nn.Identity()
x = torch.randn(1, T, 40) * 0.3
inv_freq = 1e4 ** -(torch.arange(0, TURNED, 2).float() / TURNED)
angles = torch.arange(T).float()[:, None] * inv_freq
angles = torch.cat([angles, angles], 1)[None]
mask = torch.full((T, T), float("-inf")).triu(1)[None, None]
y, _ = attention(x, (angles.cos(), angles.sin()), mask)
put(attention.q_norm.weight, attention.k_norm.weight, inv_freq, attention.q_proj(x)[0],
    torch.cat([attention.k_proj(x)[0], attention.v_proj(x)[0]], 1), y[0])

# The router: 5 rows, 3 of 13 experts. Logits; weights; experts as float32.
router = qwen.Qwen3NextTopKRouter(SimpleNamespace(num_experts_per_tok=3, num_experts=13, norm_topk_prob=True, hidden_size=16))
logits, weights, experts = fill(router)(torch.randn(5, 16))
put(logits, weights, experts)

# A shared expert's gate: 4 rows of 30, a gate each.
x, gate = torch.randn(4, 30), torch.randn(4, 1) * 2
put(x, gate, F.sigmoid(gate) * x)
