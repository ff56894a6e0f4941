# SPDX-License-Identifier: GPL-3.0-or-later
"""A small trained model in bf16, for what quantisation costs: python3 tests/golden/make_quality.py OUTDIR [MINUTES]

OUTDIR/checkpoint, a folder in the hub's layout with the tokenizer that the demo has now; OUTDIR/eval.txt, a text of the
same kind that it was not trained on; OUTDIR/nll.json, how likely transformers finds that text with these weights.
Trained on the demo's texts for MINUTES by the clock. Random weights would not do: their errors do not cost what those of
a trained model cost.
"""

import json
import os
import random
import shutil
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import save_file
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path.insert(0, os.path.join(ROOT, "models", "demo", "train"))
import package  # noqa: E402
import text  # noqa: E402
from tokenizer import Tokenizer  # noqa: E402

ROWS, LENGTH, RATE, BALANCE = 2, 512, 3e-3, 2e-3
EVAL_TOKENS = 500
CONFIG = dict(
    hidden_size=192, intermediate_size=384, moe_intermediate_size=64, num_hidden_layers=4, num_attention_heads=4,
    num_key_value_heads=4, q_lora_rank=64, kv_lora_rank=64, qk_nope_head_dim=32, qk_rope_head_dim=16, v_head_dim=32,
    n_routed_experts=16, num_experts_per_tok=4, n_shared_experts=1, n_group=4, topk_group=2, first_k_dense_replace=1,
    norm_topk_prob=True, routed_scaling_factor=1.5, max_position_embeddings=4096, rope_interleave=True,
    tie_word_embeddings=True, num_nextn_predict_layers=0, rms_norm_eps=1e-6,
    rope_parameters=dict(rope_type="default", rope_theta=10000.0))


def stream(tokenizer, seed):
    """Rows of LENGTH + 1 ids: texts one after another, each behind the token that begins one."""
    rng, ids = random.Random(seed), []
    while True:
        while len(ids) <= ROWS * LENGTH:
            messages = text.conversation(rng, "train")
            ids += [tokenizer.bos, *tokenizer.encode("\n".join(body for _, body in messages) + "\n")]
        rows = [ids[i * LENGTH:(i + 1) * LENGTH + 1] for i in range(ROWS)]
        ids = ids[ROWS * LENGTH:]
        yield torch.tensor(rows)


def train(tokenizer, minutes):
    torch.manual_seed(1)
    config = DeepseekV3Config(**CONFIG, vocab_size=len(tokenizer), bos_token_id=tokenizer.bos,
                              eos_token_id=tokenizer.end)
    config._attn_implementation, config._experts_implementation = "sdpa", "eager"
    model = DeepseekV3ForCausalLM(config).float()
    chosen = {}
    for layer in model.model.layers:
        if hasattr(layer.mlp, "gate"):
            layer.mlp.gate.register_forward_hook(lambda m, i, o: chosen.__setitem__(m, o[2]))
    weights = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=RATE, betas=(0.9, 0.95), weight_decay=0.01)
    began, step, seen = time.time(), 0, 0
    for rows in stream(tokenizer, "quality"):
        share = (time.time() - began) / (60 * minutes)
        if share >= 1:
            break
        rate = RATE * min(1, step / 50) * (1 if share < 0.3 else max(0.02, (1 - share) / 0.7))
        for group in optimizer.param_groups:
            group["lr"] = rate
        logits = model(rows[:, :-1], use_cache=False).logits
        loss = F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        with torch.no_grad():
            for gate, ids in chosen.items():
                used = torch.bincount(ids.flatten(), minlength=CONFIG["n_routed_experts"]).float()
                gate.e_score_correction_bias -= BALANCE * torch.sign(used - used.mean())
        step, seen = step + 1, seen + rows[:, 1:].numel()
        if step % 100 == 0:
            print(f"{time.time() - began:.0f} s: step {step}, {seen / 1e6:.2f} million tokens, loss {loss:.3f}", flush=True)
    return model.eval()


@torch.no_grad()
def mean_nll(model, ids):
    logits = model(torch.tensor([ids]), use_cache=False).logits[0]
    return F.cross_entropy(logits[:-1].double(), torch.tensor(ids[1:])).item()


def write(path, body):
    with open(path, "w", encoding="utf-8") as file:
        file.write(body + "\n")


def main():
    out, minutes = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 10
    folder = os.path.join(out, "checkpoint")
    os.makedirs(folder, exist_ok=True)
    shutil.copy(os.path.join(ROOT, "models", "demo", "tokenizer.model"), folder)
    tokenizer = Tokenizer(os.path.join(folder, "tokenizer.model"))
    model = train(tokenizer, minutes)
    state = {name: t.numpy() for name, t in model.state_dict().items()}
    tensors = {}
    for name, tensor in package.split_experts(state).items():
        if name != "lm_head.weight":
            tensor = torch.from_numpy(np.ascontiguousarray(tensor))
            tensors[name] = tensor if name.endswith(package.CORRECTION) else tensor.bfloat16()
    save_file(tensors, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    settings = json.loads(model.config.to_json_string())
    settings["architectures"] = ["DeepseekV3ForCausalLM"]
    write(os.path.join(folder, "config.json"), json.dumps(settings, indent=1, sort_keys=True))
    rounded = package.fuse_experts({n: t.float().numpy() for n, t in tensors.items()})
    rounded["lm_head.weight"] = rounded["model.embed_tokens.weight"]
    model.load_state_dict({n: torch.from_numpy(np.ascontiguousarray(t)) for n, t in rounded.items()}, strict=True)
    body = ""
    rng = random.Random("quality eval")
    while len(tokenizer.encode(body)) < EVAL_TOKENS:
        body += "\n".join(body for _, body in text.conversation(rng, "train")) + "\n"
    with open(os.path.join(out, "eval.txt"), "w", encoding="utf-8") as file:
        file.write(body)
    ids = [tokenizer.bos, *tokenizer.encode(body)]
    count = sum(p.numel() for p in model.parameters())
    write(os.path.join(out, "nll.json"), json.dumps({"mean_nll": mean_nll(model, ids), "tokens": len(ids),
                                                     "parameters": count, "transformers": transformers.__version__}))
    print(open(os.path.join(out, "nll.json"), encoding="utf-8").read())


if __name__ == "__main__":
    main()
