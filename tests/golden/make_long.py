# SPDX-License-Identifier: GPL-3.0-or-later
"""Goldens beyond 32768 tokens: transformers' own numbers, in float32, of small random checkpoints.

    python3 tests/golden/make_long.py [FOLDER [NAME...]]       (transformers 5.17.0)

writes FOLDER/long-NAME as make_checkpoints.py writes its folders. Tokens follow from a seed (golden.c), whole rows of
logits are kept at a few places: around powers of 2, at the end and where the last tokens come one at a time. Eager
attention over all at once would take gigabytes, so transformers reads the tokens in pieces with its own cache. Of so many
tokens some have near ties in their routes or lists, and such a token may differ: so the experts are in the last layer
alone, and kept are, near each place, the tokens that are decided clearest. float64 proves that the rest does not show;
where that takes an hour, moechat's own sums in another order do.
"""

import os
import shutil
import sys

import numpy as np
import torch
import transformers

import make_checkpoints as checkpoints

LENGTH = 32968
SINGLE = 40  # the last of them, one at a time
PIECE = 256
PLACES = (0, 1000, 2047, 4090, 8191, 16384, 24000, 32000, 32760, 32767, 32768, 32800, 32900, 32926, 32930, 32960)
LEAST_MARGIN = 2e-3      # of routes, in scores of about 1, at those places
LEAST_INDEX_MARGIN = 1e-4  # of lists, in deviations of a row's scores
MOST_NOISE = 1e-4        # float32 against float64, of the largest logit

SHAPE = checkpoints.COMMON | dict(
    vocab_size=64, hidden_size=64, intermediate_size=64, moe_intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
    num_key_value_heads=2, q_lora_rank=32, kv_lora_rank=32, qk_nope_head_dim=32, qk_rope_head_dim=16, v_head_dim=32,
    n_routed_experts=4, num_experts_per_tok=2, n_shared_experts=1, n_group=1, topk_group=1, topk_method="noaux_tc",
    scoring_func="sigmoid", first_k_dense_replace=1, moe_layer_freq=1, routed_scaling_factor=2.5, norm_topk_prob=True,
    num_nextn_predict_layers=0, rms_norm_eps=1e-6, rope_theta=10000, max_position_embeddings=65536,
    rope_scaling=dict(type="yarn", factor=16, original_max_position_embeddings=4096, beta_fast=32, beta_slow=1,
                      mscale=1.0, mscale_all_dim=1.0))

MODELS = {
    # all rows are looked at
    "v3": dict(model_type="deepseek_v3", seed=21, group=32, layout="fp8", shards=1, gate="bf16", bias=(0.0, 0.2),
               config=SHAPE),
    # 256 of them are, by index keys as wide as those of the real models
    "v32": dict(model_type="deepseek_v32", seed=22, exact=False, group=32, layout="fp8", shards=1, gate="bf16", bias=(0.0, 0.2),
                config=SHAPE | dict(index_n_heads=16, index_head_dim=128, index_topk=256)),
}


def draw(seed, vocab):
    """golden.c has the same."""
    ids, state = [], seed
    for _ in range(LENGTH):
        state = (state * 1664525 + 1013904223) % 2**32
        ids.append((state >> 16) % vocab)
    return ids


class Margins:
    """Of each token the smallest distance between what is taken and what is not, by routers and by indexers."""

    def __init__(self, model):
        self.routes, self.lists, self.attention, self.hooks = [], [], [], []
        for layer in model.model.layers:
            if hasattr(layer.mlp, "gate"):
                self.hooks.append(layer.mlp.gate.register_forward_hook(self.look_at_routes))
            self.hooks.append(layer.self_attn.register_forward_hook(self.look_at_attention))
        self.top_k = getattr(model.config, "index_topk", None)
        self.topk = torch.Tensor.topk

    def __enter__(self):
        if self.top_k:
            torch.Tensor.topk = lambda scores, k, **rest: self.look_at_scores(scores, k, rest)
        return self

    def __exit__(self, *_):
        torch.Tensor.topk = self.topk
        for hook in self.hooks:
            hook.remove()

    def look_at_routes(self, gate, _, output):
        ranked = (output[0].sigmoid() + gate.e_score_correction_bias).sort(descending=True).values
        self.routes.append(ranked[:, gate.top_k - 1] - ranked[:, gate.top_k])

    def look_at_attention(self, *call):
        weights = call[2][1][0, :, -1].double()
        self.attention.append((-(weights * weights.clamp_min(1e-300).log()).sum(-1) / np.log(weights.shape[-1])).mean())

    def look_at_scores(self, scores, k, rest):
        if scores.dim() != 3 or scores.shape[-1] < PIECE:  # a router's
            pass
        elif k == self.top_k and scores.shape[-1] > k:
            best = self.topk(scores, k + 1, dim=-1).values[0]
            known = scores[0] > -1e30
            mean = scores[0].where(known, 0).sum(-1) / known.sum(-1)
            deviation = (((scores[0] - mean[:, None]) ** 2).where(known, 0).sum(-1) / known.sum(-1)).sqrt()
            self.lists.append((best[:, k - 1] - best[:, k]) / deviation)
        else:
            self.lists.append(torch.full((scores.shape[1],), float("inf")))
        return self.topk(scores, k, **rest)


@torch.no_grad()
def read(model, ids):
    """(logits, margins of routes and of lists by token, the attention's entropy of uniform)."""
    cache, logits = transformers.DynamicCache(config=model.config), []
    with Margins(model) as margins:
        for first in range(0, len(ids), PIECE):
            out = model(torch.tensor([ids[first:first + PIECE]]), past_key_values=cache, use_cache=True)
            logits.append(out.logits[0])
    lists = [margins.lists[i::model.config.num_hidden_layers] for i in range(model.config.num_hidden_layers)]
    lists = torch.stack([torch.cat(layer) for layer in lists]).min(0).values if margins.lists else None
    return torch.cat(logits), torch.cat(margins.routes), lists, torch.stack(margins.attention).mean().item()


def clearest(place, routes, lists):
    """Near the place, the token with the largest margins."""
    def worst(token):
        return min(routes[token] / LEAST_MARGIN, lists[token] / LEAST_INDEX_MARGIN if lists is not None else np.inf)
    near = range(place, min(place + (1 if place in (32767, 32768) else 16), LENGTH))
    return max(near, key=worst), max(map(worst, near))


def make(folder, name, spec):
    generator = np.random.default_rng(spec["seed"])
    torch.manual_seed(spec["seed"])
    tensors = checkpoints.random_tensors(spec, generator)
    directory = os.path.join(folder, f"long-{name}")
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    checkpoints.write_original(spec, tensors, os.path.join(directory, "checkpoint"))
    model = checkpoints.transformers_model(spec, tensors)
    ids = draw(spec["seed"], model.config.vocab_size)
    logits, routes, lists, spread = read(model, ids)
    rows, worst = zip(*(clearest(place, routes, lists) for place in PLACES))
    exact = read(model.double(), ids)[0] if spec.get("exact", True) else logits
    noise = ((logits - exact).abs().amax(-1) / exact.abs().max())
    print(f"{name}: worst margin {min(worst):.1f} of the least, attention's entropy {spread:.2f} of uniform")
    if exact is not logits:
        print(f"float32 is off float64 by {noise[list(rows)].max():.1e} in the rows kept, {noise.max():.1e} at most")
    assert noise[list(rows)].max() < MOST_NOISE and min(worst) > 1 and spread < checkpoints.MOST_SPREAD
    checkpoints.write_json(os.path.join(directory, "golden.json"), {
        "model": "checkpoint", "n_tokens": LENGTH, "seed": spec["seed"], "single": SINGLE,
        "vocab_size": model.config.vocab_size, "hidden_size": model.config.hidden_size,
        "n_layers": model.config.num_hidden_layers, "rows": list(rows), "top": [], "group_size": spec["group"],
        "parameters": sum(p.numel() for p in model.parameters()), "transformers": transformers.__version__})
    logits[list(rows)].float().numpy().astype("<f4").tofile(os.path.join(directory, "rows.f32"))


def main():
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(2)
    checkpoints.GAINS = checkpoints.GAINS | {"q_b_proj": 4.0}
    folder = sys.argv[1] if len(sys.argv) > 1 else checkpoints.HERE
    for name in sys.argv[2:] or MODELS:
        make(folder, name, MODELS[name])


if __name__ == "__main__":
    main()
