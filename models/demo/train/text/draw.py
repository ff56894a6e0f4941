# SPDX-License-Identifier: GPL-3.0-or-later
"""Drawing from lists, and the border between training and evaluation.

Every choice uses rng.random() only: its sequence for a seed is the same in every Python.
"""
import re
import zlib


def pick(rng, seq):
    return seq[int(rng.random() * len(seq))]


def below(rng, low, high):
    """A whole number from low to high, both included."""
    return low + int(rng.random() * (high - low + 1))


def held(value, share=9):
    """True for the values that only evaluation may use: one of `share`, by checksum, the same everywhere."""
    return zlib.crc32(value.lower().encode()) % share == 0


def an(noun):
    return ("an " if noun[0] in "aeiouAEIOU" else "a ") + noun


def upper_first(text):
    return text[:1].upper() + text[1:]


_CHOICE = re.compile(r"\[([^\[\]]*)\]")


def variants(text):
    """All texts of a wording in which [a|b] stands for a choice."""
    found = _CHOICE.search(text)
    if not found:
        return [text]
    out = []
    for part in found.group(1).split("|"):
        out += variants(text[: found.start()] + part + text[found.end():])
    return out


class Wordings:
    """The wordings of one intent. Of five and more, every eighth is kept back for evaluation."""

    def __init__(self, *bases):
        bases = [base for group in bases for base in group.strip().split("\n")]
        texts = [tuple(variants(base.strip())) for base in bases]
        self.count = len(texts)
        if len(texts) < 5:
            self.train = self.eval = tuple(texts)
        else:
            self.train = tuple(t for i, t in enumerate(texts) if i % 8 != 4)
            self.eval = tuple(t for i, t in enumerate(texts) if i % 8 == 4)


class Values:
    """A list of values; one of nine is kept back for evaluation."""

    def __init__(self, values):
        if isinstance(values, str):
            values = [v.strip() for v in re.split(r"[,\n]", values) if v.strip()]
        self.all = tuple(dict.fromkeys(values))
        self.eval = tuple(v for v in self.all if held(v))
        self.train = tuple(v for v in self.all if not held(v))
        if not self.eval or not self.train:
            self.eval = self.train = self.all
