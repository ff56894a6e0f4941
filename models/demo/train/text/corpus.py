# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints conversations to read, or measures how fast they are made."""
import argparse
import random
import sys
import time
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)
import text  # noqa: E402


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--split", choices=("train", "eval"), default="train")
    options.add_argument("--conversations", type=int, default=10)
    options.add_argument("--long", type=int, metavar="WORDS", help="conversations of at least so many words")
    options.add_argument("--items", action="store_true", help="print the evaluation items of the seed instead")
    options.add_argument("--time", action="store_true", help="print only the speed and the mean sizes")
    chosen = options.parse_args()
    if chosen.items:
        for item in text.evaluation(chosen.seed):
            print(item["kind"], "|", " / ".join(t for _, t in item["turns"][-3:]), "=>", item["answer"], item["accept"], item["reject"])
        return
    rng = random.Random(chosen.seed)
    start, turns, letters = time.perf_counter(), 0, 0
    for _ in range(chosen.conversations):
        if chosen.long:
            talk = text.long_conversation(rng, chosen.split, chosen.long)
        else:
            talk = text.conversation(rng, chosen.split)
        turns += len(talk)
        letters += sum(len(t) for _, t in talk)
        if not chosen.time:
            print("\n".join("%-10s %s" % (role, said) for role, said in talk), end="\n\n")
    if chosen.time:
        seconds = time.perf_counter() - start
        n = chosen.conversations
        print("%.0f conversations/s, %.1f messages and %.0f characters each" % (n / seconds, turns / n, letters / n))


if __name__ == "__main__":
    main()
