# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole chain: tokenizer, training with its fake-quantised tail, package, evaluation, goldens.

    python3 models/demo/train/all.py --work DIR --minutes 8            everything into DIR
    python3 models/demo/train/all.py --work DIR --collect OUT          what is worth keeping, in files of at most 15 MiB
"""

import argparse
import multiprocessing
import os
import random
import subprocess
import sys
import tarfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PART = 15 << 20


def some_texts(job):
    """Texts of one job's conversations, for the tokenizer."""
    import text
    rng = random.Random(f"tokenizer {job}")
    return {body for _ in range(400) for _, body in text.conversation(rng, "train")}


def make_tokenizer(path, jobs, workers, vocab_size):
    from tokenizer import Tokenizer, check, train
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        texts = sorted(set().union(*pool.map(some_texts, range(jobs), chunksize=1)))
    began = time.time()
    train(texts, path, vocab_size)
    tokenizer = Tokenizer(path)
    sample = random.Random(1).sample(texts, min(5000, len(texts)))
    checked = check(tokenizer, sample)
    size = sum(len(t.encode()) for t in sample) / sum(len(tokenizer.encode(t)) for t in sample)
    print(f"tokenizer: {len(tokenizer)} pieces from {len(texts)} texts in {time.time() - began:.0f} s, {checked} texts "
          f"came back byte for byte, {size:.2f} bytes a token", flush=True)


def call(script, *arguments):
    began = time.time()
    subprocess.run([sys.executable, script, *map(str, arguments)], check=True,
                   env=os.environ | {"PYTHONUNBUFFERED": "1"})
    print(f"{os.path.basename(script)}: {time.time() - began:.0f} s", flush=True)


def collect(work, out):
    os.makedirs(out, exist_ok=True)
    if os.path.exists(os.path.join(work, "package")):
        whole = os.path.join(work, "package.tar")
        with tarfile.open(whole, "w") as tar:
            tar.add(os.path.join(work, "package"), "package")
        with open(whole, "rb") as file:
            for i, part in enumerate(iter(lambda: file.read(PART), b"")):
                with open(os.path.join(out, f"package.tar.{i}"), "wb") as piece:
                    piece.write(part)
    with tarfile.open(os.path.join(out, "results.tar.gz"), "w:gz") as tar:
        for name in ("eval", "golden", "train.json", "tokenizer.model"):
            if os.path.exists(os.path.join(work, name)):
                tar.add(os.path.join(work, name), name)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", required=True)
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--jobs", type=int, default=160, help="of 400 conversations for the tokenizer")
    parser.add_argument("--vocab", type=int, default=4096)
    parser.add_argument("--share", type=float, default=1.0, help="of the evaluation's questions")
    parser.add_argument("--collect", metavar="OUT")
    options, training = parser.parse_known_args()
    if options.collect:
        collect(options.work, options.collect)
        return
    os.makedirs(options.work, exist_ok=True)
    began = time.time()
    path = os.path.join(options.work, "tokenizer.model")
    make_tokenizer(path, options.jobs, os.cpu_count(), options.vocab)
    call(os.path.join(HERE, "train.py"), "--tokenizer", path, "--out", options.work, "--minutes", options.minutes,
         *training)
    pack = os.path.join(options.work, "package")
    call(os.path.join(HERE, "evaluate.py"), "--package", pack, "--float", os.path.join(options.work, "float.pt"),
         "--out", os.path.join(options.work, "eval"), "--share", options.share)
    call(os.path.join(HERE, "../../../tests/golden/make_demo.py"), "--package", pack, "--out",
         os.path.join(options.work, "golden"))
    print(f"the whole chain: {time.time() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
