# SPDX-License-Identifier: GPL-3.0-or-later
"""Goldens of the demo model: transformers' logits in float32 on the values that the packed files hold.

Six beginnings of unseen conversations, 8 to 1500 tokens, two of them past the original YaRN length (1024). Each is a
folder demo-LENGTH: tokens.txt, golden.json (which positions), rows.f32 (whole rows of logits at a few positions) and
top_ids.i32, top_values.f32, top_lse.f32 (the 64 largest and the log-sum-exp of the row at every STRIDE-th other).
"""

import argparse
import json
import os
import random
import sys

import numpy as np
import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../models/demo/train"))

import model as demo  # noqa: E402
import package  # noqa: E402
import text  # noqa: E402
from tokenizer import Tokenizer  # noqa: E402

LENGTHS = (8, 33, 150, 480, 1100, 1500)
ROWS, TOP, STRIDE = 8, 64, 3


def prompt(tokenizer, length):
    """The first `length` ids of a long unseen conversation."""
    rng = random.Random(f"golden {length}")
    ids, _ = tokenizer.turns(text.long_conversation(rng, "eval", length))
    return ids[:length]


def positions(length):
    """Whole rows: the first, the last, and some spread between; of the others every STRIDE-th has its top."""
    rows = sorted({round(i * (length - 1) / (ROWS - 1)) for i in range(ROWS)})
    return rows, [p for p in range(0 if length < 100 else 1, length, 1 if length < 100 else STRIDE) if p not in rows]


def write(directory, name, dtype, array):
    array.contiguous().numpy().astype(dtype).tofile(os.path.join(directory, name))


@torch.inference_mode()
def make(model, ids, directory, package_path):
    os.makedirs(directory, exist_ok=True)
    logits = model(torch.tensor([ids]), use_cache=False).logits[0]
    rows, top = positions(len(ids))
    values, which = logits[top].topk(TOP, dim=-1)
    write(directory, "rows.f32", "<f4", logits[rows])
    write(directory, "top_ids.i32", "<i4", which)
    write(directory, "top_values.f32", "<f4", values)
    write(directory, "top_lse.f32", "<f4", torch.logsumexp(logits[top].double(), dim=-1))
    with open(os.path.join(directory, "tokens.txt"), "w", encoding="ascii") as file:
        file.write("\n".join(" ".join(map(str, ids[i:i + 20])) for i in range(0, len(ids), 20)) + "\n")
    settings = model.config
    with open(os.path.join(directory, "golden.json"), "w", encoding="ascii") as file:
        json.dump({"model": package_path, "n_tokens": len(ids), "vocab_size": settings.vocab_size,
                   "hidden_size": settings.hidden_size, "n_layers": settings.num_hidden_layers, "rows": rows,
                   "top": top, "transformers": transformers.__version__}, file)
        file.write("\n")
    nll = torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(ids[1:])).item()
    print(f"{directory}: {len(ids)} tokens, mean NLL {nll:.4f}, largest |logit| {logits.abs().max():.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--package", default=os.path.join(HERE, "../../models/demo"))
    parser.add_argument("--out", default=HERE)
    options = parser.parse_args()
    if transformers.__version__ != "5.17.0":
        sys.exit(f"goldens are made with transformers 5.17.0, this is {transformers.__version__}")
    tensors, settings = package.read_package(options.package)
    model = demo.load(tensors, settings, _attn_implementation="eager", _experts_implementation="eager")
    tokenizer = Tokenizer(os.path.join(options.package, "tokenizer.model"))
    for length in LENGTHS:
        make(model, prompt(tokenizer, length), os.path.join(options.out, f"demo-{length}"), "../../../models/demo")


if __name__ == "__main__":
    main()
