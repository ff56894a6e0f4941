#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What quantisation costs a trained model: its packages beside each other, by mean NLL of a text of its kind."""
import json
import os

import rig
from rig import ROOT, SCRATCH, expect, run, same

FOLDER = os.path.join(ROOT, "tests", "golden", "quality")
TEXT = os.path.join(FOLDER, "eval.txt")


def mean_nll(name, *options):
    target = os.path.join(SCRATCH, name)
    same(run(["convert", os.path.join(FOLDER, "checkpoint"), target] + list(options)).returncode, 0)
    result = run(["eval", "-m", target, "--device", "ref", "--json", "--text", TEXT])
    same(result.returncode, 0)
    got = json.loads(result.stdout)
    return got["mean_nll"], got["tokens"]


def test_what_bits_cost():
    with open(os.path.join(FOLDER, "nll.json")) as file:
        whole = json.load(file)
    eight, tokens = mean_nll("eight", "--bits", "8", "--resident-bits", "8")
    same(tokens, whole["tokens"])
    mixed, _ = mean_nll("mixed", "--resident-bits", "8")
    four, _ = mean_nll("four")
    fine, _ = mean_nll("fine", "--group-size", "32")
    costs = [nll - whole["mean_nll"] for nll in (eight, mixed, fine, four)]
    print("    mean NLL of %d tokens: bf16 %.4f; 8 bits %+.4f, 4-bit experts and 8 bits %+.4f, 4 bits in groups of 32 "
          "%+.4f, 4 bits (the default) %+.4f" % ((tokens, whole["mean_nll"]) + tuple(costs)))
    expect(abs(costs[0]) < 0.002, "8 bits cost next to nothing")
    expect(max(abs(cost) for cost in costs) < 0.015, "4 bits cost little")


if __name__ == "__main__":
    rig.main(globals())
