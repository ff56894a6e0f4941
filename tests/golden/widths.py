#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""True widths: a device's logits beside those of plain C.

    python3 tests/golden/widths.py [--device cpu] [--tokens 300] [--folder WHERE] [MODEL ...]      (half an hour, 3 GB of disk)

Packages of random weights (tests/bench/synthetic) in the widths, heads and indexers of V3.2 and GLM-5.2, and in those of
Qwen3.5-397B, Qwen3.6 and Kimi-Linear, whose layers keep states, but with few layers, 24 experts, a vocabulary of 4096 and
lists of 64, so that rows are chosen from the 65th token on. One token at a time, in chunks of 7 and as the program chooses;
all of a model's logits are compared. The limit is the goldens', but a token or two of
each hundred may be beyond it: where two scores at a list's border, or two experts, are nearer than rounding, the other one is
taken, and with one of 64 rows exchanged such a token's logits move by a hundredth of the largest. Sums that are wrong show in most
tokens.
"""

import array
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
MOST = 0.0005      # of the largest logit
MOST_TIES = 0.02   # of the tokens
VOCABULARY = 4096
FEW = dict(index_topk=64, vocab_size=VOCABULARY, n_routed_experts=24, num_experts=24)
LAYERS = {"deepseek-v3.2": 5,        # 3 of them dense
          "glm-5.2": 8,              # and with indexers 0, 1, 2 and 6
          "qwen3.5-397b-a17b": 4,    # the last one without a state
          "qwen3.6-35b-a3b": 4,      # the same
          "kimi-linear-48b-a3b": 4}  # the first one dense, the last one without a state


def make_package(name, folder):
    with open(os.path.join(ROOT, "tests", "bench", "configs", name + ".json")) as file:
        config = json.load(file)
    text = config.get("text_config", config)
    text.update({key: value for key, value in FEW.items() if key in text}, num_hidden_layers=LAYERS[name])
    if "layer_types" in text:
        text["layer_types"] = text["layer_types"][:LAYERS[name]]
    for kind in ("kda_layers", "full_attn_layers"):
        if "linear_attn_config" in text:
            lists = text["linear_attn_config"]
            lists[kind] = [layer for layer in lists[kind] if layer <= LAYERS[name]]
    for key in ("bos_token_id", "eos_token_id", "pad_token_id"):
        config.pop(key, None)
        text.pop(key, None)
    path = os.path.join(folder, name + ".json")
    with open(path, "w") as file:
        json.dump(config, file)
    package = os.path.join(folder, name)
    subprocess.run([os.path.join(ROOT, "build", "tests", "bench", "synthetic"), path, package, "--distinct", "2"], check=True,
                   stdout=subprocess.DEVNULL)
    return package


def logits(package, tokens, device, chunk):
    out = package + ".f32"
    subprocess.run([os.path.join(ROOT, "moechat"), "eval", "-m", package, "--tokens", tokens, "--device", device, "--chunk",
                    str(chunk), "--logits", out], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    values = array.array("f")
    with open(out, "rb") as file:
        values.frombytes(file.read())
    os.remove(out)
    return values


def compare(name, options, folder):
    package = make_package(name, folder)
    tokens = os.path.join(folder, "tokens")
    with open(os.path.join(package, "tokens.txt")) as file, open(tokens, "w") as out:
        out.write(" ".join(file.read().split()[:options.tokens]))
    truth = logits(package, tokens, "ref", 0)
    largest = max(map(abs, truth))
    good = True
    for chunk in (1, 7, 0):
        ours = logits(package, tokens, options.device, chunk)
        rows = [max(abs(a - b) for a, b in zip(ours[at:at + VOCABULARY], truth[at:at + VOCABULARY]))
                for at in range(0, len(truth), VOCABULARY)]
        beyond = [at for at, row in enumerate(rows) if row > MOST * largest]
        usual = max(row for at, row in enumerate(rows) if at not in beyond) / largest if len(beyond) < len(rows) else 1
        passed = len(ours) == len(truth) == options.tokens * VOCABULARY and len(beyond) <= MOST_TIES * options.tokens
        print("%s %s %s chunk %s: %.2g of %.3g%s" %
              ("PASS" if passed else "FAIL", name, options.device, chunk or "default", usual, largest,
               "; beyond the limit " + ", ".join("%.2g at token %d" % (rows[at] / largest, at) for at in beyond[:8]) if beyond else ""),
              flush=True)
        good = good and passed
    shutil.rmtree(package)
    return good


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tokens", type=int, default=300)
    parser.add_argument("--folder")
    parser.add_argument("models", nargs="*", metavar="MODEL", default=list(LAYERS), help="of " + ", ".join(LAYERS))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        return 0 if all([compare(name, options, folder) for name in options.models]) else 1


if __name__ == "__main__":
    sys.exit(main())
