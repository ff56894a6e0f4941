#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole program on a disk that answers EIO at random (eio.c, preloaded): it ends with a status of its own and says why;
what it says it has done is done, what failed is as it was or goes on from there. MOECHAT_EIO_RUNS: how many of each."""
import filecmp
import json
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "screens"))
import rig
from rig import ROOT, SCRATCH, environment, expect, run, same, script

DISK = os.path.join(ROOT, "build/tests/fault/eio.so")
RUNS = int(os.environ.get("MOECHAT_EIO_RUNS", "12"))
GGUF = os.path.join(ROOT, "tests/golden/gguf-sizes/checkpoint")
TOKENS = os.path.join(ROOT, "tests/golden/gguf-sizes/tokens.txt")


def failing(seed, below):
    """One call in 40 at the lowest, one in 2 at the highest."""
    return environment(LD_PRELOAD=DISK, EIO_BELOW=below, EIO_SEED=str(seed), EIO_ONE_IN=str((400, 40, 7, 150, 2)[seed % 5]))


def sound(result):
    """It ended by itself, with a word if it failed. True: it says it did what it was asked to."""
    expect(result.returncode in (0, 1, 2, 3), "status %r: %r" % (result.returncode, result.stderr))
    expect(result.returncode == 0 or b"moechat: " in result.stderr, "it says why: %r" % result.stderr)
    return result.returncode == 0


def same_folders(a, b):
    names = sorted(os.listdir(a))
    same(sorted(os.listdir(b)), names)
    same(filecmp.cmpfiles(a, b, names, shallow=False)[0], names)


def test_conversions():
    good, target = os.path.join(SCRATCH, "good", "model"), os.path.join(SCRATCH, "eio", "model")
    os.makedirs(os.path.dirname(good))
    same(run(["convert", GGUF, good]).returncode, 0)
    failed = 0
    for seed in range(RUNS):
        shutil.rmtree(os.path.dirname(target), ignore_errors=True)
        os.makedirs(os.path.dirname(target))
        done = sound(run(["convert", GGUF, target], env=failing(seed, os.path.dirname(target))))
        failed += not done
        if not done and not os.path.exists(target):
            same(run(["convert", GGUF, target]).returncode, 0)  # goes on from there
        leftover = os.path.join(target, "convert.journal")
        if os.path.exists(leftover):
            same(run(["convert", GGUF, target]).returncode, 0)  # it ends what is left to do
            expect(not os.path.exists(leftover), "the journal is gone")
        same_folders(good, target)
    expect(failed > RUNS // 4, "some fail: %d of %d" % (failed, RUNS))


def test_answers_from_a_model_that_cannot_be_read():
    def evaluated(env=None):
        return run(["eval", "-m", GGUF, "--tokens", TOKENS, "--device", "ref", "--json", "--expert-cache", "30%"], env=env)
    right, failed = json.loads(evaluated().stdout)["mean_nll"], 0
    for seed in range(RUNS):
        result = evaluated(failing(seed, GGUF))
        if sound(result):
            same(json.loads(result.stdout)["mean_nll"], right)
        else:
            failed += 1
    expect(failed > RUNS // 4, "some fail: %d of %d" % (failed, RUNS))


def test_sessions():
    failed = 0
    play = script("turn\necho\nturn\necho\n")
    for seed in range(RUNS):
        home = os.path.join(SCRATCH, "home-%d" % seed)
        at_home = dict(HOME=home, XDG_DATA_HOME=home + "/data", XDG_STATE_HOME=home + "/state")
        calm = environment(**at_home)
        os.mkdir(home)
        same(run(["run", "--session", "talk", "-p", "first words"] + play, env=calm).returncode, 0)
        env = dict(failing(seed, home), **at_home)
        done = sound(run(["run", "--session", "talk", "-p", "second words"] + play, env=env))
        for command in (["verify", "talk"], ["show", "talk"], ["compact", "talk"], ["list"]):
            done_too = run(["sessions"] + command, env=dict(env, EIO_SEED=str(seed + 5)))
            expect(done_too.returncode in (0, 1, 2, 3), "status %r: %r" % (done_too.returncode, done_too.stderr))
        shown = run(["sessions", "show", "talk"], env=calm)
        same(shown.returncode, 0)
        expect(b"You: first words\n" in shown.stdout, "what was saved stays: %r" % shown.stdout)
        if done:
            expect(b"You: second words\n" in shown.stdout, "what is said to be saved is: %r" % shown.stdout)
        failed += not done
        same(run(["run", "--session", "talk", "-p", "third words"] + play, env=calm).returncode, 0)
        expect(b"You: third words\n" in run(["sessions", "show", "talk"], env=calm).stdout, "it goes on")
        shutil.rmtree(home)
    expect(failed > RUNS // 4, "some fail: %d of %d" % (failed, RUNS))


if __name__ == "__main__":
    rig.main(globals())
