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


_SLOT = re.compile(r"\{[a-z_0-9]*\}")


def _plain(text):
    """A wording as the laziest user types it: two that differ only in points and capitals are the same."""
    return " ".join(re.sub(r"[^\w{} ]", "", text).lower().split())


def _words(texts):
    return set(" ".join(_SLOT.sub(" ", _plain(text)) for text in texts).split())


def _kept_back(texts, count):
    """Which `count` wordings evaluation owns: sentences never trained, but of words that the others have too.

    The longest of those and never the shortest of all, so that what people type most stays in training.
    """
    out = []
    shortest = min(range(len(texts)), key=lambda i: len(texts[i][0]))
    while len(out) < count:
        others = [i for i in range(len(texts)) if i not in out]

        def strangeness(i):
            rest = [text for j in others if j != i for text in texts[j]]
            same = {_plain(text) for text in texts[i]} & {_plain(text) for text in rest}
            return bool(same), len(_words(texts[i]) - _words(rest)), -len(texts[i][0])

        out.append(min((i for i in others if i != shortest), key=strangeness))
    return out


_KEPT = set()  # every wording that is kept back, filled while this package is imported


def is_kept_back(text):
    """True for a wording, slots and all, that some intent keeps back for evaluation."""
    return _plain(text) in _KEPT


class Wordings:
    """The wordings of one intent. Of five and more, one in eight is kept back for evaluation."""

    def __init__(self, *bases):
        bases = [base for group in bases for base in group.strip().split("\n")]
        texts = [tuple(variants(base.strip())) for base in bases]
        self.count = len(texts)
        if len(texts) < 5:
            self.train = self.eval = tuple(texts)
        else:
            kept = _kept_back(texts, (len(texts) + 3) // 8)
            self.train = tuple(t for i, t in enumerate(texts) if i not in kept)
            self.eval = tuple(t for i, t in enumerate(texts) if i in kept)
            _KEPT.update(_plain(text) for base in self.eval for text in base)


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
