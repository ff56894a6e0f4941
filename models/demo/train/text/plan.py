# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole conversations: intents mixed by weight, with things told early and asked for later."""
from . import facts, help as manual, letters, recall, rules, smalltalk, stories, sums, unknown
from .draw import below
from .talk import Talk

_DISTRACTORS = (
    (sums.ask, 30), (sums.chain, 5), (sums.story, 5), (sums.special, 3),
    (facts.ask, 40), (facts.yes_or_no, 2), (facts.invented, 1), (facts.quiz, 1),
    (manual.goal, 20), (manual.what, 11), (manual.about, 8), (manual.no_such, 1),
    (letters.ask, 18), (smalltalk.chat, 22), (recall.repeat, 2), (recall.last_said, 2),
    (unknown.ask, 14), (unknown.foreign, 2), (stories.story, 4), (stories.poem, 2),
)
_REMEMBER = ((recall.tell, 10), (recall.tell_two, 4), (recall.tell_pair, 5), (recall.tell_name, 3))
_OPENERS = ((smalltalk.greet, 8), (recall.tell_name, 4), (smalltalk.chat, 2))


def _table(weighted):
    out = []
    for intent, weight in weighted:
        out += [intent] * weight
    return tuple(out)


DISTRACTORS, REMEMBER, OPENERS = _table(_DISTRACTORS), _table(_REMEMBER), _table(_OPENERS)


def _turns_wanted(rng):
    draw = rng.random()
    return below(rng, 1, 2) if draw < 0.3 else below(rng, 3, 5) if draw < 0.65 else below(rng, 6, 12)


def _next(talk, left):
    """The intent that comes next, by what was told so far and how many turns are left."""
    draw = talk.rng.random()
    if talk.told:
        ask = 0.6 if left == 1 else 0.26
        if draw < ask:
            return recall.ask
        if draw < ask + 0.035:
            return recall.correct
        if draw < ask + 0.055:
            return recall.about_me
        if draw < ask + 0.1:
            return recall.ask_untold
        if draw < ask + 0.16:
            return talk.pick(REMEMBER)
        if draw < ask + 0.24:
            return talk.pick(_OTHERWISE)
    elif draw < 0.045:
        return recall.ask_untold
    elif draw < 0.36 and left > 1:
        return talk.pick(REMEMBER)
    elif draw < 0.4:
        return talk.pick(_OTHERWISE)
    return talk.pick(DISTRACTORS)


_OTHERWISE = (recall.ask_back, recall.ask_back, recall.ask_loosely, recall.tell_and_ask)
_CHANGING = frozenset((recall.tell, recall.tell_and_ask, recall.tell_two, recall.tell_pair, recall.tell_name, recall.correct))


def go_on(talk, wanted):
    """Adds intents until there are as many turns as wanted; nothing is asked or told twice in the same words."""
    turns = talk.turns
    while len(turns) < wanted:
        intent = _next(talk, wanted - len(turns))
        more = intent(talk)
        if more and (intent in _CHANGING or not any(more[0][0] == turn[0] for turn in turns)):
            turns += more


def _flat(turns, system=None):
    out = [("system", system)] if system else []
    for user, answer, _accept, _reject in turns:
        out.append(("user", user))
        out.append(("assistant", answer))
    return out


def conversation(rng, split):
    """A list of (role, text): an optional "system", then 1 to 12 turns of "user" and "assistant"."""
    talk = Talk(rng, split)
    wanted = _turns_wanted(rng)
    if rng.random() < 0.06:
        system, bend, fitting = rules.open_with(talk)
        if fitting:
            while len(talk.turns) < wanted:
                talk.turns += talk.pick(fitting)(talk)
        else:
            go_on(talk, wanted)
        turns = talk.turns[:12]
        return _flat([bend(turn) for turn in turns] if bend else turns, system)
    if rng.random() < 0.3:
        talk.turns += talk.pick(OPENERS)(talk)
    go_on(talk, wanted)
    if rng.random() < 0.06:
        talk.turns += smalltalk.bye(talk)
    return _flat(talk.turns[:12])


def long_conversation(rng, split, min_words):
    """A conversation of at least min_words words, with as many turns as that takes."""
    talk = Talk(rng, split)
    words, seen = 0, 0
    while words < min_words:
        go_on(talk, len(talk.turns) + 1)
        for user, answer, _accept, _reject in talk.turns[seen:]:
            words += user.count(" ") + answer.count(" ") + 2
        seen = len(talk.turns)
    return _flat(talk.turns)
