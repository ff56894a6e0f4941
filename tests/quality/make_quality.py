# SPDX-License-Identifier: GPL-3.0-or-later
"""Make tests/quality/model: a small bf16 checkpoint with structure, as a hub folder, to judge quantisation by.

Run by hand on a GPU (transformers 5.17.0, torch, tokenizers):
    python3 tests/quality/make_quality.py --minutes 2
It trains transformers' DeepseekV3ForCausalLM of a Moonlight-like shape (no q_lora, one group of experts) on the
demo's text generator, saves it by save_pretrained with a byte-level BPE tokenizer.json, and writes text.txt, which
training never saw, with the mean NLL that the bf16 weights give it in float32 (reference.json).
"""

import argparse
import collections
import itertools
import json
import multiprocessing
import random
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "models/demo/train"))
import text  # noqa: E402

VOCABULARY, LENGTH, BATCH = 1024, 768, 16
BALANCE_RATE = 2e-3
SHAPE = dict(
    vocab_size=VOCABULARY, hidden_size=192, intermediate_size=384, moe_intermediate_size=64, num_hidden_layers=5,
    num_attention_heads=4, num_key_value_heads=4, q_lora_rank=None, kv_lora_rank=64, qk_nope_head_dim=32,
    qk_rope_head_dim=32, v_head_dim=32, n_routed_experts=16, num_experts_per_tok=4, n_shared_experts=1, n_group=1,
    topk_group=1, first_k_dense_replace=1, norm_topk_prob=True, routed_scaling_factor=1.5, rope_interleave=True,
    tie_word_embeddings=False, max_position_embeddings=2048, bos_token_id=0, eos_token_id=0,
    rope_parameters=dict(rope_type="default", rope_theta=10000.0))


def talk(rng, split):
    return "\n".join(body for _, body in text.conversation(rng, split)) + "\n\n"


def make_tokenizer(path):
    rng = random.Random("tokenizer")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=["<|begin|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator((talk(rng, "train") for _ in range(4000)), trainer)
    tokenizer.save(str(path))
    return tokenizer


def batch(job):
    rng, path = random.Random(f"train-{job[0]}"), job[1]
    tokenizer, ids = Tokenizer.from_file(path), []
    while len(ids) < BATCH * (LENGTH + 1):
        ids += tokenizer.encode(talk(rng, "train")).ids
    return ids[:BATCH * (LENGTH + 1)]


def batches(path):
    """Always new text, written by other processes: it is what would limit a GPU."""
    with multiprocessing.get_context("spawn").Pool(max(1, multiprocessing.cpu_count() - 2)) as pool:
        ahead = collections.deque(pool.apply_async(batch, ((n, str(path)),)) for n in range(32))
        for n in itertools.count(32):
            ahead.append(pool.apply_async(batch, ((n, str(path)),)))
            yield torch.tensor(ahead.popleft().get()).view(BATCH, LENGTH + 1)


def balance(gates, loads):
    """Aux-loss-free: lift the experts that got too little."""
    for gate, load in zip(gates, loads):
        gate.e_score_correction_bias += BALANCE_RATE * torch.sign(load.float().mean() - load.float())


def train(tokenizer_path, minutes):
    torch.manual_seed(7)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = DeepseekV3ForCausalLM(DeepseekV3Config(**SHAPE)).to(device)
    print(sum(p.numel() for p in model.parameters()), "parameters", flush=True)
    gates = [layer.mlp.gate for layer in model.model.layers if hasattr(layer.mlp, "gate")]
    loads = [None] * len(gates)
    for i, gate in enumerate(gates):
        gate.register_forward_hook(
            lambda _, __, out, i=i: loads.__setitem__(i, torch.bincount(out[2].flatten(), minlength=16)))
    optimiser = torch.optim.AdamW(model.parameters(), lr=1.0, betas=(0.9, 0.98), weight_decay=0.01)
    start, step = time.time(), 0
    for rows in batches(tokenizer_path):
        done = (time.time() - start) / (60 * minutes)
        if done >= 1:
            break
        for group in optimiser.param_groups:
            group["lr"] = 3e-3 * min(1, (step + 1) / 50) * max(0.02, 1 - done)
        rows = rows.to(device)
        logits = model(rows[:, :-1], use_cache=False).logits
        loss = F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        with torch.no_grad():
            balance(gates, loads)
        if step % 50 == 0:
            worst = max((load.max() / load.float().mean()).item() for load in loads)
            print(f"step {step} loss {loss.item():.3f} fullest expert {worst:.2f}", flush=True)
        step += 1
    return model.cpu().eval(), step


@torch.no_grad()
def mean_nll(model, ids):
    logits = model(torch.tensor([ids]), use_cache=False).logits[0].float()
    return F.cross_entropy(logits[:-1], torch.tensor(ids[1:])).item()


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=2)
    options.add_argument("--out", type=Path, default=HERE / "model")
    chosen = options.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    tokenizer = make_tokenizer(chosen.out / "tokenizer.json")
    model, steps = train(chosen.out / "tokenizer.json", chosen.minutes)
    model = model.to(torch.bfloat16)
    model.save_pretrained(chosen.out)
    loaded = DeepseekV3ForCausalLM.from_pretrained(chosen.out, dtype=torch.float32).eval()
    rng, said, ids = random.Random("held back"), "", []
    while len(ids) < LENGTH - 150:  # within the positions that it was trained on
        more = said + talk(rng, "eval")
        if len(tokenizer.encode(more).ids) <= LENGTH:
            said, ids = more, tokenizer.encode(more).ids
    (chosen.out.parent / "text.txt").write_text(said)
    figures = dict(steps=steps, tokens=len(ids), mean_nll=mean_nll(loaded, ids))
    (chosen.out.parent / "reference.json").write_text(json.dumps(figures, indent=1) + "\n")
    print(figures)


if __name__ == "__main__":
    main()
