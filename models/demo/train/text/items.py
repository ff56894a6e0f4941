# SPDX-License-Identifier: GPL-3.0-or-later
"""Evaluation items: a conversation that ends in a user's turn, and what a right answer holds."""
import random
import re

from . import facts, help as manual, letters, plan, recall, smalltalk, stories, sums, unknown
from .draw import below, upper_first
from .talk import Talk


def _recall_item(talk):
    turns = []
    tells = below(talk.rng, 1, 3)
    while tells > 0 or not talk.told:  # an intent may decline, and a question needs something told
        turns += talk.pick(plan.REMEMBER)(talk)
        tells -= 1
    if talk.chance(0.2):
        turns += recall.correct(talk)
    for _ in range(below(talk.rng, 0, 4)):
        if len(turns) < 8:
            turns += talk.pick(plan.DISTRACTORS)(talk)
    while True:
        last = recall.ask_untold(talk) if talk.chance(0.12) else recall.ask(talk)
        if last and last[-1][2]:
            return turns + last


def recall_question(rng):
    """(who, what or other; messages that end in the right answer) of an unseen recall question about something told."""
    while True:
        talk = Talk(rng, "eval")
        turns = _recall_item(talk)
        answer, accept = turns[-1][1], turns[-1][2]
        if accept is recall.NOT_TOLD:
            continue
        pair = talk.told["pair"].slots if "pair" in talk.told else None
        of_pair = pair and answer in [upper_first("%s %s %s." % (pair[k], pair["verb"], pair[v])) for k, v in ("ax", "by")]
        kind = "other" if not of_pair else "who" if accept[0] in (pair["a"], pair["b"]) else "what"
        return kind, [message for user, said, _, _ in turns for message in (("user", user), ("assistant", said))]


def _plain(*intents):
    """An item of one of these intents, sometimes with something else before it."""
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
    "recall": (_recall_item, 200),
    "sums": (_plain(sums.ask, sums.ask, sums.ask, sums.chain, sums.story), 200),
    "facts": (_plain(facts.ask), 300),
    "help": (_plain(manual.goal, manual.goal, manual.what, manual.what, manual.about), 200),
    "letters": (_plain(letters.ask), 100),
    "smalltalk": (_plain(smalltalk.ask), 60),
    "unknown": (_plain(unknown.ask, unknown.ask, unknown.ask, unknown.foreign, facts.invented), 60),
    "story": (_plain(stories.story, stories.story, stories.poem), 40),
}


def evaluation(seed, share=1.0):
    """Items of all kinds, on held-out wordings and values; share scales their number."""
    out = []
    for kind, (make, count) in KINDS.items():
        rng = random.Random("%s/%d" % (kind, seed))
        for _ in range(max(1, round(count * share))):
            turns = make(Talk(rng, "eval"))
            flat = []
            for user, answer, _accept, _reject in turns:
                flat += [("user", user), ("assistant", answer)]
            answer = flat.pop()[1]
            item = {"kind": kind, "turns": flat, "accept": list(turns[-1][2]), "reject": list(turns[-1][3]), "answer": answer}
            if kind == "story":
                item["words"] = (25, 200) if "\n" in answer else (45, 200)
            out.append(item)
    return out


def _holds(text, phrase):
    return re.search(r"(?<!\w)" + re.escape(phrase) + r"(?!\w)", text, re.IGNORECASE) is not None


def _well_told(item, text):
    low, high = item["words"]
    if not low <= len(text.split()) <= high:
        return False
    sentences = [s.strip() for s in re.split(r"[.!?\n]+", text) if s.strip()]
    return len(set(sentences)) == len(sentences)


_EVASIONS = ("do not know", "not told me", "small demo model", "too big for me")


def accepted(item, answer):
    """Whether an answer is right: it holds one of accept as whole words, and none of reject.

    A sum counts by what stands behind the last "="; a story also by its length and by saying no sentence twice.
    """
    text = answer.strip()
    if item["kind"] == "sums" and "=" in text:
        return re.match(r"\s*" + re.escape(item["accept"][0]) + r"(?!\w|\.\d)", text.split("=")[-1]) is not None
    if item["kind"] == "story" and not _well_told(item, text):
        return False
    if item["kind"] in ("sums", "facts", "letters") and any(phrase in text for phrase in _EVASIONS):
        return False
    if any(_holds(text, phrase) for phrase in item["reject"]):
        return False
    return any(_holds(text, phrase) for phrase in item["accept"])
