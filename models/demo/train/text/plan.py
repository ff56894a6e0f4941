# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole conversations: intents mixed by weight, with things told early and asked for later."""
from . import recall, sums
from .draw import below
from .talk import Talk

_DISTRACTORS = (
    (sums.ask, 14), (sums.chain, 5), (sums.story, 4), (sums.special, 3),
    (recall.repeat, 3),
)
_REMEMBER = ((recall.tell, 10), (recall.tell_two, 4), (recall.tell_pair, 2), (recall.tell_name, 3))


def _table(weighted):
    out = []
    for intent, weight in weighted:
        out += [intent] * weight
    return tuple(out)


DISTRACTORS, REMEMBER = _table(_DISTRACTORS), _table(_REMEMBER)


def _turns_wanted(rng):
    draw = rng.random()
    return below(rng, 1, 2) if draw < 0.3 else below(rng, 3, 5) if draw < 0.65 else below(rng, 6, 12)


def _next(talk, left):
    """The intent that comes next, by what was told so far and how many turns are left."""
    draw = talk.rng.random()
    if talk.told:
        ask = 0.6 if left == 1 else 0.27
        if draw < ask:
            return recall.ask
        if draw < ask + 0.035:
            return recall.correct
        if draw < ask + 0.055:
            return recall.about_me
        if draw < ask + 0.085:
            return recall.ask_untold
        if draw < ask + 0.15:
            return talk.pick(REMEMBER)
    elif draw < 0.03:
        return recall.ask_untold
    elif draw < 0.32 and left > 1:
        return talk.pick(REMEMBER)
    return talk.pick(DISTRACTORS)


def _go_on(talk, wanted):
    turns = talk.turns
    while len(turns) < wanted:
        turns += _next(talk, wanted - len(turns))(talk)


def _flat(talk, turns):
    out = []
    for user, answer, _accept, _reject in turns:
        out.append(("user", user))
        out.append(("assistant", answer))
    return out


def conversation(rng, split):
    """A list of (role, text): an optional "system", then 1 to 12 turns of "user" and "assistant"."""
    talk = Talk(rng, split)
    wanted = _turns_wanted(rng)
    _go_on(talk, wanted)
    return _flat(talk, talk.turns[:12])


def long_conversation(rng, split, min_words):
    """A conversation of at least min_words words, with as many turns as that takes."""
    talk = Talk(rng, split)
    words, seen = 0, 0
    while words < min_words:
        _go_on(talk, len(talk.turns) + 1)
        for user, answer, _accept, _reject in talk.turns[seen:]:
            words += user.count(" ") + answer.count(" ") + 2
        seen = len(talk.turns)
    return _flat(talk, talk.turns)
