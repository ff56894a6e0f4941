# SPDX-License-Identifier: GPL-3.0-or-later
"""Four random deepseek_v3 models of odd shapes as packages, with transformers' own numbers for them.

    python3 tests/golden/make_tiny.py [FOLDER [NAME...]]

writes FOLDER/tiny-a, -b, -c and -d, or those that are named (FOLDER is this file's by default; see golden.c for what a golden folder holds). The
numbers are float32, eager attention, on the weights as the package gives them back. Weights are scaled so that routing
is decisive and attention far from uniform; both are checked here, and how far float32 is from float64 is printed.
"""

import json
import os
import sys

import numpy as np
import torch
import transformers
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "models", "demo", "train"))
import package  # noqa: E402

TOP = 64
N_TOKENS = 72
LEAST_MARGIN = 2e-4  # between the last chosen and the first unchosen, in scores of about 1

COMMON = dict(bos_token_id=0, num_nextn_predict_layers=0, max_position_embeddings=256)

MODELS = {
    # q_lora, YaRN past its original length, groups, a dense layer, groups of 32 in widths of 160, tied embeddings
    "tiny-a": dict(
        seed=11, bits=4, group_size=32, bias=(0.0, 0.15), top_rows=False,
        config=COMMON | dict(
            vocab_size=320, hidden_size=160, intermediate_size=224, moe_intermediate_size=64, num_hidden_layers=3,
            num_attention_heads=6, num_key_value_heads=6, q_lora_rank=96, kv_lora_rank=64, qk_nope_head_dim=16,
            qk_rope_head_dim=16, v_head_dim=32, n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=1,
            n_group=4, topk_group=2, first_k_dense_replace=1, routed_scaling_factor=2.5, rms_norm_eps=1e-5,
            eos_token_id=[1, 2], tie_word_embeddings=True,
            rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=8.0, mscale=1.0, mscale_all_dim=1.0,
                                 original_max_position_embeddings=32, beta_fast=32.0, beta_slow=1.0))),
    # no q_lora, plain rope in halves, one group, no dense layer, two shared experts, weights not normalised
    "tiny-b": dict(
        seed=22, bits=4, group_size=64, bias=(0.0, 0.1), top_rows=False,
        config=COMMON | dict(
            vocab_size=301, hidden_size=128, intermediate_size=192, moe_intermediate_size=64, num_hidden_layers=3,
            num_attention_heads=5, num_key_value_heads=5, q_lora_rank=None, kv_lora_rank=64, qk_nope_head_dim=24,
            qk_rope_head_dim=8, v_head_dim=64, n_routed_experts=10, num_experts_per_tok=3, n_shared_experts=2,
            n_group=1, topk_group=1, first_k_dense_replace=0, routed_scaling_factor=0.8, rms_norm_eps=1e-2,
            eos_token_id=1, norm_topk_prob=False, rope_interleave=False,
            rope_parameters=dict(rope_type="default", rope_theta=50000.0))),
    # mscale other than mscale_all_dim, two dense layers, 8-bit experts and head, all choice scores below 0
    "tiny-c": dict(
        seed=33, bits=4, group_size=32, bias=(-1.5, 0.35), top_rows=True,
        bits_for=lambda name: 8 if ".mlp.experts." in name or name.startswith("lm_head") else 4,
        config=COMMON | dict(
            vocab_size=257, hidden_size=160, intermediate_size=96, moe_intermediate_size=32, num_hidden_layers=4,
            num_attention_heads=7, num_key_value_heads=7, q_lora_rank=64, kv_lora_rank=96, qk_nope_head_dim=20,
            qk_rope_head_dim=12, v_head_dim=32, n_routed_experts=9, num_experts_per_tok=4, n_shared_experts=1,
            n_group=3, topk_group=2, first_k_dense_replace=2, routed_scaling_factor=1.7, rms_norm_eps=3e-3,
            eos_token_id=1,
            rope_parameters=dict(rope_type="yarn", rope_theta=50000.0, factor=4.0, mscale=0.707, mscale_all_dim=1.3,
                                 original_max_position_embeddings=32, beta_fast=8.0, beta_slow=2.0))),
    # no shared expert, one expert a token
    "tiny-d": dict(
        seed=44, bits=8, group_size=32, bias=(0.0, 0.2), top_rows=True,
        config=COMMON | dict(
            vocab_size=160, hidden_size=64, intermediate_size=64, moe_intermediate_size=32, num_hidden_layers=2,
            num_attention_heads=2, num_key_value_heads=2, q_lora_rank=32, kv_lora_rank=32, qk_nope_head_dim=16,
            qk_rope_head_dim=8, v_head_dim=32, n_routed_experts=6, num_experts_per_tok=1, n_shared_experts=0,
            n_group=3, topk_group=2, first_k_dense_replace=0, routed_scaling_factor=1.3, rms_norm_eps=1e-6,
            eos_token_id=1, norm_topk_prob=False, rope_parameters=dict(rope_type="default", rope_theta=10000.0))),
}

# Standard deviation of a matrix is its gain / sqrt(inputs), so that a gain is what it does to a normalised input.
GAINS = {"q_proj": 2.0, "q_b_proj": 2.0, "kv_b_proj": 1.2, "mlp.gate": 1.5, "lm_head": 2.0, "down_proj": 2.0}


def random_tensors(config, generator, bias):
    model = DeepseekV3ForCausalLM(config)
    out = {}
    for name, tensor in package.split_experts({n: t.numpy() for n, t in model.state_dict().items()}).items():
        if (name == "lm_head.weight" and config.tie_word_embeddings) or tensor.size == 0:
            continue
        noise = generator.standard_normal(tensor.shape).astype(np.float32)
        if name.endswith(package.CORRECTION):
            out[name] = bias[0] + bias[1] * noise
        elif tensor.ndim == 1:
            out[name] = 1 + 0.3 * noise
        elif name == "model.embed_tokens.weight":
            out[name] = noise * np.float32(0.3 if config.tie_word_embeddings else 1)
        else:
            gain = next((gain for key, gain in GAINS.items() if name.endswith(key + ".weight")), 1.0)
            out[name] = noise * np.float32(gain / tensor.shape[1] ** 0.5)
    return out


def transformers_model(tensors, config_dict):
    config = DeepseekV3Config(**config_dict)
    config._attn_implementation = config._experts_implementation = "eager"
    model = DeepseekV3ForCausalLM(config).float().eval()
    state = {name: torch.from_numpy(np.ascontiguousarray(t)) for name, t in package.fuse_experts(tensors).items()}
    if config.tie_word_embeddings:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    state |= {name: tensor for name, tensor in model.state_dict().items() if tensor.numel() == 0}
    model.load_state_dict(state, strict=True)
    return model


@torch.no_grad()
def run(model, ids):
    """(logits, hidden after the embedding and each layer, what the routers saw, the heads' attention)."""
    hidden, routed, attention = [], [], []
    hooks = [model.model.embed_tokens.register_forward_hook(lambda m, i, o: hidden.append(o[0]))]
    for layer in model.model.layers:
        hooks.append(layer.register_forward_hook(lambda m, i, o: hidden.append(o[0])))
        hooks.append(layer.self_attn.register_forward_hook(lambda m, i, o: attention.append(o[1][0])))
        if hasattr(layer.mlp, "gate"):
            hooks.append(layer.mlp.gate.register_forward_hook(lambda m, i, o: routed.append((m, o))))
    logits = model(torch.tensor([ids]), use_cache=False).logits[0]
    for hook in hooks:
        hook.remove()
    return logits, torch.stack(hidden), routed, torch.stack(attention)


def margin(routed):
    """The smallest distance between a chosen and an unchosen group or expert."""
    least = float("inf")
    for gate, (logits, _, chosen) in routed:
        choice = (logits.sigmoid() + gate.e_score_correction_bias).double()
        groups = choice.view(len(choice), gate.num_group, -1).topk(2, dim=-1)[0].sum(-1).sort(descending=True)
        if gate.topk_group < gate.num_group:
            gap = groups.values[:, gate.topk_group - 1] - groups.values[:, gate.topk_group]
            least = min(least, gap.min().item())
            allowed = torch.zeros_like(groups.values).scatter_(1, groups.indices[:, :gate.topk_group], 1)
            allowed = allowed.repeat_interleave(gate.num_experts // gate.num_group, dim=1).bool()
            choice = choice.masked_fill(~allowed, float("-inf"))
        ranked = choice.sort(descending=True)
        assert (ranked.indices[:, :gate.top_k].sort().values == chosen.sort().values).all()
        least = min(least, (ranked.values[:, gate.top_k - 1] - ranked.values[:, gate.top_k]).min().item())
    return least


def tokens(model, vocab_size, generator):
    """Random ids whose routing is decisive: a token that makes a near tie is drawn again."""
    best, ids = -1.0, generator.integers(0, vocab_size, N_TOKENS).tolist()
    for _ in range(40):
        new = generator.integers(0, vocab_size, N_TOKENS).tolist()
        found = margin(run(model, new)[2])
        if found > best:
            best, ids = found, new
    return ids


def write_golden(folder, model, ids, top_rows):
    logits, hidden, _, _ = run(model, ids)
    every = range(len(ids))
    rows = [p for p in every if not top_rows or p % 2 == 0]
    top = [p for p in every if p not in rows]
    config = model.config
    golden = {"model": "package", "n_tokens": len(ids), "vocab_size": config.vocab_size,
              "hidden_size": config.hidden_size, "n_layers": config.num_hidden_layers, "rows": rows, "top": top,
              "parameters": sum(p.numel() for p in model.parameters()), "transformers": transformers.__version__}
    with open(os.path.join(folder, "golden.json"), "w", encoding="utf-8") as file:
        json.dump(golden, file)
        file.write("\n")
    with open(os.path.join(folder, "tokens.txt"), "w", encoding="utf-8") as file:
        file.write(" ".join(map(str, ids)) + "\n")
    arrays = {"rows.f32": logits[rows], "hidden.f32": hidden}
    if top:
        best = logits[top].topk(TOP, dim=-1)
        arrays |= {"top_ids.i32": best.indices.int(), "top_values.f32": best.values,
                   "top_lse.f32": logits[top].double().logsumexp(-1).float()}
    for name, tensor in arrays.items():
        array = tensor.numpy()
        array.astype(array.dtype.newbyteorder("<")).tofile(os.path.join(folder, name))


def report(name, model, ids):
    logits, hidden, routed, attention = run(model, ids)
    exact, exact_hidden, _, _ = run(model.double(), ids)
    model.float()
    noise = (logits - exact).abs().max() / exact.abs().max()
    hidden_noise = ((hidden - exact_hidden).abs().amax((1, 2)) / exact_hidden.abs().amax((1, 2))).max()
    entropy = -(attention * attention.clamp_min(1e-30).log()).sum(-1)[:, :, 8:]
    uniform = torch.arange(9, len(ids) + 1).log()
    least = margin(routed)
    sizes = " ".join(f"{h.square().mean().sqrt().item():.2f}" for h in hidden)
    print(f"{name}: float32 is off float64 by {noise:.1e} (hidden {hidden_noise:.1e}), routing margin {least:.1e}, "
          f"attention entropy {(entropy / uniform).mean():.2f} of uniform, rms of hidden states {sizes}, "
          f"largest logit {logits.abs().max():.1f}")
    assert least > LEAST_MARGIN and noise < 1e-5 and (entropy / uniform).mean() < 0.8


def make(folder, name, spec):
    generator = np.random.default_rng(spec["seed"])
    torch.manual_seed(spec["seed"])
    config = DeepseekV3Config(**spec["config"])
    config.architectures = ["DeepseekV3ForCausalLM"]
    tensors = random_tensors(config, generator, spec["bias"])
    directory = os.path.join(folder, name, "package")
    package.write_package(directory, name, json.loads(config.to_json_string()), tensors, spec["bits"],
                          spec["group_size"], bits_for=spec.get("bits_for"))
    model = transformers_model(*package.read_package(directory))
    ids = tokens(model, config.vocab_size, generator)
    report(name, model, ids)
    write_golden(os.path.join(folder, name), model, ids, spec["top_rows"])


def main():
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    folder = sys.argv[1] if len(sys.argv) > 1 else HERE
    for name in sys.argv[2:] or MODELS:
        make(folder, name, MODELS[name])


if __name__ == "__main__":
    main()
