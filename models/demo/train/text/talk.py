# SPDX-License-Identifier: GPL-3.0-or-later
"""One conversation in the making: its random source, its split, how its user types, what it was told.

Intents are functions that take a Talk and return a list of turns; a turn is (user, answer, accept, reject):
accept and reject are what evaluation looks for in the model's answer, () where nothing is looked for.
"""
import re

from .draw import Values, Wordings, is_kept_back, pick, upper_first

CLEAN, LOWER, BARE, SLOPPY, LOUD = range(5)

_FIELD = re.compile(r"(\{[a-z_0-9]*\})")
_SLANG = (("please", "pls"), ("What is", "Whats"), ("what is", "whats"), ("thank you", "thx"), (" you ", " u "),
          (" and ", " n "), ("do not", "dont"), ("cannot", "cant"), ("I am", "im"), ("favourite", "fav"))
BEFORE = ("please ", "hey, ", "ok, ", "so, ", "hmm, ", "quick question: ", "now ", "well, ", "tell me, ", "okay: ", "listen: ",
          "one more thing: ", "hey there, ", "um, ", "alright, ")
BEFORE_HELD = ("listen, ", "by the way, ")
AFTER = (" please", ", please", " pls", " thanks", ", thanks", " then", ", ok", " now", " thank you", " if you can")
AFTER_HELD = (", if you can", ", thank you")
_IDLE = frozenset("please do does can could is are the a to of me it that tell so and now".split())  # a question does without
_IDLER = ("please", "just", "now", "then", "really", "exactly", "maybe", "quickly", "here", "again", "actually", "also")


def _lower(text):
    return text.lower().replace("'", "")


def _bare(text):
    return text.rstrip(".!? ")


def _outside(text, change):
    return "".join(part if part.startswith("{") else change(part) for part in _FIELD.split(text))


def _sloppy(text):
    for long, short in _SLANG:
        text = text.replace(long, short)
    return _bare(_outside(text, _lower))


_STYLES = {
    LOWER: lambda text: _outside(text, _lower),
    BARE: _bare,
    SLOPPY: _sloppy,
    LOUD: lambda text: _outside(text, str.upper),
}
_CACHE = {}


def styled(style, text):
    if style == CLEAN:
        return text
    key = (style, text)
    if key not in _CACHE:
        _CACHE[key] = _STYLES[style](text) or text
    return _CACHE[key]


class Talk:
    __slots__ = ("rng", "split", "style", "low_values", "told", "turns")

    def __init__(self, rng, split):
        self.rng = rng
        self.split = split
        draw = rng.random()
        self.style = CLEAN if draw < 0.5 else LOWER if draw < 0.72 else BARE if draw < 0.86 else SLOPPY if draw < 0.98 else LOUD
        self.low_values = self.style in (LOWER, SLOPPY) and rng.random() < 0.6
        self.told = {}      # slot key -> recall.Fact
        self.turns = []

    def chance(self, p):
        return self.rng.random() < p

    def pick(self, seq):
        """From a plain list, from the split's part of Values, or a text of the split's Wordings."""
        random = self.rng.random
        if isinstance(seq, Wordings):
            base = seq.train if self.split == "train" else seq.eval
            base = base[int(random() * len(base))]
            return base[int(random() * len(base))] if len(base) > 1 else base[0]
        if isinstance(seq, Values):
            seq = seq.train if self.split == "train" else seq.eval
        return seq[int(random() * len(seq))]

    def low(self, value):
        """A word that the user need not copy exactly, as this user types it."""
        if self.style in (LOWER, SLOPPY):
            return value.lower()
        return value.upper() if self.style == LOUD else value

    def own(self, value):
        """A value to be remembered, as this user types it; answers repeat it letter by letter."""
        return value.lower() if self.low_values else value

    def user(self, wordings, plain=False, **slots):
        """A user's text from wordings, or from one of them, in this user's style."""
        text = wordings if isinstance(wordings, str) else self.pick(wordings)
        draw = self.rng.random()
        style = self.style
        if style != CLEAN and draw > 0.9:
            style = CLEAN
        if not plain and self.split == "train" and draw > 0.4 and draw < 0.52:
            text = self.loosened(text, draw < 0.46)
        if not plain and draw < 0.10:
            text = self._decorated(text, draw)
        text = styled(style, text)
        if style == SLOPPY and draw > 0.6 and draw < 0.75 and not plain:
            text = self._typo(text)
        return text.format(**slots) if "{" in text else text

    def _decorated(self, text, draw):
        train = self.split == "train"
        if draw < 0.06:
            front = pick(self.rng, BEFORE if train else BEFORE_HELD)
            if not text.startswith(("{", "I ", "I'", "/", "Hi", "Hello", "Hey")):
                text = text[0].lower() + text[1:]
            if not text.startswith(("Hi", "Hello", "Hey", "{", "/")):
                text = front[0].upper() + front[1:] + text
            return text
        tail = pick(self.rng, AFTER if train else AFTER_HELD)
        end = text[-1] if text[-1] in ".!?" else ""
        return text[:-1].rstrip() + tail + end if end else text

    def loosened(self, text, longer):
        """One idle word more, or one less, unless that makes a wording that is kept back. Training only: so that a
        question is known by more than its exact words."""
        words = text.split(" ")
        idle = [i for i, word in enumerate(words) if word.lower() in _IDLE]
        if len(words) < 4 or not (longer or idle):
            return text
        if longer:
            words.insert(1 + int(self.rng.random() * (len(words) - 1)), pick(self.rng, _IDLER))
        else:
            del words[pick(self.rng, idle)]
            words[0] = upper_first(words[0]) if text[0].isupper() else words[0]
        out = " ".join(words)
        return text if is_kept_back(out) else out

    def _typo(self, text):
        """Swaps or drops one inner letter of one long word outside the slots."""
        places = [m.start() for m in re.finditer(r"[a-z]{5,}", text) if "{" not in text[max(0, m.start() - 1): m.start()]]
        if not places:
            return text
        at = pick(self.rng, places) + 1 + int(self.rng.random() * 2)
        if self.chance(0.5):
            return text[:at] + text[at + 1] + text[at] + text[at + 2:]
        return text[:at] + text[at + 1:]
