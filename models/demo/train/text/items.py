# SPDX-License-Identifier: GPL-3.0-or-later
"""Evaluation items: a conversation that ends in a user's turn, and what a right answer holds."""
import random
import re

from . import plan, recall, sums
from .draw import below
from .talk import Talk


def _recall_item(talk):
    turns = []
    for _ in range(below(talk.rng, 1, 3)):
        turns += talk.pick(plan.REMEMBER)(talk)
    if talk.chance(0.2):
        turns += recall.correct(talk)
    talk.turns = turns
    for _ in range(below(talk.rng, 0, 4)):
        turns += talk.pick(plan.DISTRACTORS)(talk)
    while True:
        last = recall.ask_untold(talk) if talk.chance(0.12) else recall.ask(talk)
        if last and last[-1][2]:
            return turns + last


def _plain(*intents):
    def make(talk):
        turns = []
        if talk.chance(0.3):
            turns += talk.pick(plan.DISTRACTORS)(talk)
        while True:
            last = talk.pick(intents)(talk)
            if last and last[-1][2]:
                return turns + last
    return make


KINDS = {
    "recall": (_recall_item, 150),
    "sums": (_plain(sums.ask, sums.ask, sums.ask, sums.chain, sums.story), 150),
}


def evaluation(seed, share=1.0):
    """Items of all kinds, on held-out wordings and values; share scales their number."""
    out = []
    for kind, (make, count) in KINDS.items():
        rng = random.Random("%s/%d" % (kind, seed))
        for _ in range(max(1, round(count * share))):
            turns = make(Talk(rng, "eval"))[-12:]
            flat = []
            for user, answer, _accept, _reject in turns:
                flat += [("user", user), ("assistant", answer)]
            answer = flat.pop()[1]
            out.append({"kind": kind, "turns": flat, "accept": list(turns[-1][2]), "reject": list(turns[-1][3]), "answer": answer})
    return out


def _holds(text, phrase):
    return re.search(r"(?<![\w])" + re.escape(phrase) + r"(?![\w])", text, re.IGNORECASE) is not None


def accepted(item, answer):
    """Whether an answer is right: it holds one of accept as whole words, and none of reject."""
    text = answer.strip()
    if item["kind"] == "sums" and "=" in text:
        text = text.split("=")[-1].strip()
        if not re.match(re.escape(item["accept"][0]) + r"(?![\w])", text):
            return False
    if any(_holds(text, phrase) for phrase in item["reject"]):
        return False
    return any(_holds(text, phrase) for phrase in item["accept"])
