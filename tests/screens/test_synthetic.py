#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""tests/bench/synthetic: packages in the shape of any config.json, which moechat opens, verifies and runs."""
import json
import math

from rig import *

TOOL = os.path.abspath(os.environ.get("MOECHAT_SYNTHETIC", os.path.join(ROOT, "build", "tests", "bench", "synthetic")))


def make(folder, config, *options):
    return subprocess.run([TOOL, config, folder] + list(options), capture_output=True, timeout=DEADLINE)


def config_of(name, **changes):
    with open(os.path.join(ROOT, "tests", "golden", "ck-" + name, "checkpoint", "config.json")) as file:
        config = json.load(file)
    config.pop("quantization_config", None)
    config.update(changes)
    path = os.path.join(SCRATCH, "config-%d.json" % len(os.listdir(SCRATCH)))
    with open(path, "w") as file:
        json.dump(config, file)
    return path


def nll(folder, *options):
    tokens = os.path.join(SCRATCH, "tokens")
    with open(os.path.join(folder, "tokens.txt")) as file, open(tokens, "w") as out:
        out.write(" ".join(file.read().split()[:40]))
    result = run(["eval", "-m", folder, "--tokens", tokens, "--device", "ref", "--json"] + list(options))
    same((result.returncode, result.stderr), (0, b""))
    return json.loads(result.stdout)["mean_nll"]


def test_every_model_type_opens_and_runs():
    for name, changes in (("v2-lite", {}), ("v2-groups", {}), ("v3-groups", {}), ("moonlight", {}), ("k2", {}), ("k25", {}),
                          ("glm-list", {}), ("v32", {}), ("glm-52", {}), ("kimi-k3", {}), ("glm5-next", {}), ("v3-groups", {"n_shared_experts": 0})):
        folder = os.path.join(SCRATCH, name + ("-alone" if changes else ""))
        made = make(folder, config_of(name, **changes), "--skew", "1", "--bits", "8" if name == "k2" else "4")
        same((name, made.returncode, made.stderr), (name, 0, b""))
        verified = run(["info", "-m", folder, "--verify"])
        same((name, verified.returncode), (name, 0))
        value = nll(folder)
        # Not that of equal logits: numbers that overflow on the way end in those.
        expect(1 < value < 30 and abs(value - math.log(96 if name == "kimi-k3" else 128)) > 0.02, "%s: NLL %r of 128 tokens" % (name, value))
        same(nll(folder, "--expert-cache", "150K"), value)


def test_layers_share_files():
    folder = os.path.join(SCRATCH, "shared")
    made = make(folder, config_of("k25"), "--layers", "6", "--distinct", "2")
    same(made.returncode, 0)
    expect(b"5 with experts in 2 different files (the others are hard links" in made.stdout, made.stdout)
    files = [os.stat(os.path.join(folder, "layer-%03d.experts" % i)).st_ino for i in range(1, 6)]
    same([files.index(inode) for inode in files], [0, 1, 0, 1, 0])
    same(run(["info", "-m", folder, "--verify"]).returncode, 0)


def test_the_same_seed_gives_the_same_bytes():
    prints = []
    for i, seed in enumerate(("7", "7", "8")):
        folder = os.path.join(SCRATCH, "seed-%d" % i)
        same(make(folder, config_of("v2-lite"), "--seed", seed).returncode, 0)
        with open(os.path.join(folder, "model.json")) as file:
            prints.append(json.load(file)["weights_fingerprint"])
    expect(prints[0] == prints[1] != prints[2], prints)


def test_refusals():
    folder = os.path.join(SCRATCH, "refused")
    same(make(folder, config_of("v2-lite", model_type="llama")).returncode, 1)
    same(make(folder, config_of("v2-lite"), "--layers", "1").returncode, 1)
    same(make(folder, config_of("v2-lite")).returncode, 0)
    again = make(folder, config_of("v2-lite"))
    expect(again.returncode == 1 and b"File exists" in again.stderr, again.stderr)
    same(make(folder, config_of("v2-lite"), "--skew", "much").returncode, 1)


if __name__ == "__main__":
    main(globals())
