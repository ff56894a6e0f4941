# SPDX-License-Identifier: GPL-3.0-or-later
"""Remembering: what the user tells is confirmed, asked for later, corrected, or was never told."""
from . import world
from .draw import Wordings, pick, upper_first
from .talk import LOWER, SLOPPY, styled
from .told import ABOUT_USER, BY_KEY, FAVOURITES, Fact, Family, OWNED, THE, WEIGHTED

TELL = Wordings("""
{me}.
{me}.
{me}.
By the way, {me}.
Please remember that {me}.
Remember: {me}.
I want you to [know|remember] that {me}.
[Just so you know|For your information|So you know], {me}.
Keep in mind that {me}.
[Note|Notice] that {me}.
I should [tell you|mention|say] that {me}.
[Well|So|Okay|Also], {me}.
You should know that {me}.
Let me tell you something: {me}.
{me}, [just so you know|by the way|if you want to know].
Don't forget that {me}.
Can you remember that {me}?
A little about me: {me}.
[Hi|Hello|Hey]! {me}.
I forgot to say that {me}.
""")
CORRECT = Wordings("""
Actually, {me}.
Sorry, {me}.
No, {me}.
Correction: {me}.
[Oh wait|Wait|Hold on], {me}.
I made a mistake: {me}.
I was wrong, {me}.
That was not right: {me}.
I meant to say that {me}.
[Oops|Ups], {me}, not {old}.
Sorry, I got that wrong. {me}.
No no, {me}, not {old}.
Things have changed: now {me}.
Change that: {me}.
Let me correct that: {me}.
""")
ACKS = ("Got it: {you}.", "I will remember that {you}.", "Thank you, noted: {you}.", "Good to know: {you}.", "All right, {you}.",
        "Okay, {you}. I will remember that.")
CORRECT_ACKS = ("Thank you for the correction: {you}.", "All right, so {you}.", "Got it now: {you}.", "No problem: {you}.")
NONE = ("You have not told me {none} yet.", "You have not told me {none} so far.", "I do not know: you have not told me {none}.")
NOT_TOLD = ("not told me", "have not told", "did not tell")
NAME_CORRECT = Wordings("""
Actually, my name is {v}.
Sorry, I meant {v}.
No, my name is {v}, not {old}.
I am not {old}, I am {v}.
My name is not {old}. It is {v}.
Oops, I meant {v}.
Call me {v} instead.
Please call me {v} instead of {old}.
Actually, call me {v}.
Wait, my real name is {v}.
""")
PUT_CORRECT = Wordings("""
I moved {own} {o}. Now {own} {o} {be} {v}.
I put {own} {o} somewhere else: {v}.
Now I put {own} {o} {v}.
I moved {own} {o}: {own} {o} {be} now {v}.
{own} {o} {be} now {v}.
I have moved {own} {o}, {own} {o} {be} {v} now.
Actually, I put {own} {o} {v}.
Sorry, {own} {o} {be} {v}, not {old}.
""")
ABOUT_ME = Wordings("""
What do you know about me?
What have I told you about [me|myself]?
Tell me what you know about me.
What do you remember about me?
Do you remember what I told you?
What did I tell you?
Tell me about me.
What can you say about me?
What do you know of me?
Sum up what I told you.
""")


def _sentence(talk, text):
    return text if talk.style in (LOWER, SLOPPY) else upper_first(text)


def _clause(talk, family, slots):
    return styled(talk.style, talk.pick(family.me)).format(**slots)


def _fill(talk, wordings, slots):
    text = talk.user(wordings, **slots)
    return _sentence(talk, text)


def _new_fact(talk):
    """A fact not told so far in this conversation, or None after a few tries."""
    for _ in range(4):
        family = pick(talk.rng, WEIGHTED)
        fact = Fact(family, family.slots(talk))
        if fact.key not in talk.told:
            return fact
    return None


def _ack(talk, fact):
    family = fact.family
    if family.acks and talk.chance(0.75):
        return upper_first(pick(talk.rng, family.acks).format(**fact.slots))
    return pick(talk.rng, ACKS).format(you=fact.you())


def tell(talk, family=None):
    if family:
        fact = Fact(family, family.slots(talk))
    else:
        fact = _new_fact(talk)
    if fact is None or fact.key in talk.told:
        return []
    talk.told[fact.key] = fact
    family = fact.family
    if family.tells and talk.chance(0.7):
        user = _fill(talk, family.tells, fact.slots)
    else:
        user = _sentence(talk, talk.user(TELL, me=_clause(talk, family, fact.slots)))
        if user.startswith(("Hi! ", "Hello! ", "Hey! ")):
            head, _, tail = user.partition(" ")
            user = head + " " + upper_first(tail)
    return [(user, _ack(talk, fact), (), ())]


def tell_name(talk):
    return tell(talk, BY_KEY["name"])


def tell_two(talk):
    facts = []
    for _ in range(2 if talk.chance(0.75) else 3):
        fact = _new_fact(talk)
        if fact and fact.family.key not in ("list", "word", "number"):
            talk.told[fact.key] = fact
            facts.append(fact)
    if not facts:
        return tell(talk)
    clauses = [_clause(talk, fact.family, fact.slots) for fact in facts]
    yours = [fact.you() for fact in facts]
    joint = pick(talk.rng, (" and ", " and ", ", and ", ". "))
    user = clauses[0]
    for clause in clauses[1:]:
        user += joint + (_sentence(talk, clause) if joint == ". " else clause)
    user = _sentence(talk, user) + ("." if talk.style == 0 else "")
    you = yours[0] if len(yours) == 1 else ", ".join(yours[:-1]) + " and " + yours[-1]
    if facts[0].key == "name" and len(facts) > 1 and talk.chance(0.5):
        you = yours[1] if len(yours) == 2 else yours[1] + " and " + yours[2]
        return [(user, "Nice to meet you, %s! I will remember that %s." % (facts[0].slots["v"], you), (), ())]
    return [(user, pick(talk.rng, ACKS).format(you=you), (), ())]


def correct(talk):
    """Changes something told before; the old value is wrong from now on."""
    keys = [key for key in talk.told if not key.startswith(("list", "pair"))]
    if not keys:
        return tell(talk)
    fact = talk.told[pick(talk.rng, keys)]
    family = fact.family
    for _ in range(6):
        drawn = family.slots(talk)
        if family.key == "{np}":
            np = fact.slots["np"]
            if drawn["np"] != np and not talk.chance(0.02):
                noun = np.split("favourite ")[-1]
                make = dict(FAVOURITES).get(noun) if "favourite" in np else dict(OWNED).get(np[3:]) or dict(THE).get(np)
                if not make:
                    return tell(talk)
                drawn["v"] = talk.own(make(talk))
        if drawn["v"].lower() != fact.slots["v"].lower():
            break
    else:
        return tell(talk)
    slots = dict(fact.slots, old=fact.slots["v"], v=drawn["v"])
    if "a" in drawn:
        slots["a"] = drawn["a"]
    talk.told[fact.key] = new = Fact(family, slots)
    if family.key == "name" and talk.chance(0.6):
        return [(_fill(talk, NAME_CORRECT, slots), "No problem, {v}! I will call you {v}.".format(v=slots["v"]), (), ())]
    if family.key == "put:{o}" and talk.chance(0.7):
        user = _fill(talk, PUT_CORRECT, slots)
    else:
        user = _sentence(talk, talk.user(CORRECT, me=_clause(talk, family, slots), old=slots["old"]))
        head, dot, tail = user.partition(". ")
        user = head + dot + _sentence(talk, tail) if dot else user
    return [(user, pick(talk.rng, CORRECT_ACKS).format(you=new.you()), (), ())]


def _rejects(talk, fact, answer):
    """Other told values, and an old one, that the right answer does not hold."""
    wrong = ["not told me"]
    if "old" in fact.slots and fact.slots["old"].lower() not in answer.lower():
        wrong.append(fact.slots["old"])
    for other in talk.told.values():
        value = other.slots["v"]
        if other is not fact and value.lower() not in answer.lower():
            wrong.append(value)
    return tuple(wrong)


def ask(talk):
    """Asks for something told before."""
    if not talk.told:
        return tell(talk)
    keys = list(talk.told)
    key = keys[0] if talk.chance(0.35) else pick(talk.rng, keys)
    fact = talk.told[key]
    if fact.family is PAIR:
        return _ask_pair(talk, fact)
    return _ask(talk, fact, fact.slots)


def _ask(talk, fact, slots):
    user = _fill(talk, fact.family.asks, slots)
    answer = upper_first(pick(talk.rng, fact.family.answers).format(**slots)) + "."
    return [(user, answer, (slots["v"],), _rejects(talk, fact, answer))]


def ask_untold(talk):
    """Asks for something that was never told."""
    fact = _new_fact(talk)
    if talk.told and talk.chance(0.4):  # close to something told: another sister, another code
        family = pick(talk.rng, list(talk.told.values())).family
        near = Fact(family, family.slots(talk))
        if family is not PAIR and near.key not in talk.told:
            fact = near
    if fact is None:
        return []
    user = _fill(talk, fact.family.asks, fact.slots)
    none = fact.family.none.format(**fact.slots)
    return [(user, pick(talk.rng, NONE).format(none=none), NOT_TOLD, ())]


def about_me(talk):
    facts = [fact for fact in talk.told.values() if fact.family.key in ABOUT_USER][-3:]
    user = talk.user(ABOUT_ME)
    if not facts:
        if talk.told:
            return []
        return [(user, "You have not told me anything about you yet.", NOT_TOLD, ())]
    if len(facts) < 3 and len(talk.told) > len(facts):
        return []
    yours = [fact.you() for fact in facts]
    you = yours[0] if len(yours) == 1 else ", ".join(yours[:-1]) + " and " + yours[-1]
    return [(user, "You told me that %s." % you, (facts[-1].slots["v"],), ())]


PAIR = Family("pair", "{a} likes {x} and {b} likes {y}", "{a} likes {x} and {b} likes {y}", "that", lambda t: {"v": ""}, "Who?")
PAIR_TELL = Wordings("""
{a} {verb} {x} and {b} {verb} {y}.
{a} {verb} {x}, but {b} {verb} {y}.
{a} {verb} {x}, {b} {verb} {y}.
I have two friends. {a} {verb} {x} and {b} {verb} {y}.
My friends: {a} {verb} {x} and {b} {verb} {y}.
Remember: {a} {verb} {x} and {b} {verb} {y}.
{a} {verb} {x} while {b} {verb} {y}.
Note that {a} {verb} {x} and {b} {verb} {y}.
So {a} {verb} {x} and {b} {verb} {y}.
You know, {a} {verb} {x} and {b} {verb} {y}.
{a} {verb} {x}. And {b} {verb} {y}.
Two people: {a} {verb} {x}, and {b} {verb} {y}.
""")
PAIR_WHO = Wordings("""
Who {verb} {v}?
Which of them {verb} {v}?
Do you remember who {verb} {v}?
Tell me who {verb} {v}.
Which one {verb} {v}?
Who is it that {verb} {v}?
And who {verb} {v}?
Do you know who {verb} {v}?
Can you tell me who {verb} {v}?
Who was it that {verb} {v}?
Which of the two {verb} {v}?
Please tell me who {verb} {v}.
Tell me which of them {verb} {v}.
So who {verb} {v}?
Who did I say {verb} {v}?
Now tell me which one {verb} {v}.
""")
PAIR_WHAT = Wordings("""
What does {w} {base}?
Tell me what {w} {verb}.
Do you remember what {w} {verb}?
And what does {w} {base}?
What is it that {w} {verb}?
What did I say {w} {verb}?
Do you know what {w} {verb}?
Can you tell me what {w} {verb}?
Please tell me what {w} {verb}.
So what does {w} {base}?
Say what {w} {verb}.
""")
_VERBS = (("likes", "like", world.FOODS), ("likes", "like", world.SPORTS), ("wants", "want", world.DRINKS), ("speaks", "speak", world.LANGUAGES),
          ("drinks", "drink", world.DRINKS), ("eats", "eat", world.FOODS), ("likes", "like", world.COLOURS))


def tell_pair(talk):
    """Two people and what each of them likes: asked for from both sides."""
    if "pair" in talk.told:
        return []
    verb, base, values = pick(talk.rng, _VERBS)
    a, b = world.first_name(talk), world.first_name(talk)
    x, y = talk.pick(values), talk.pick(values)
    if a == b or x == y:
        return []
    slots = {"a": a, "b": b, "x": x, "y": y, "verb": verb, "base": base, "v": x}
    fact = Fact(PAIR, slots)
    talk.told["pair"] = fact
    user = _fill(talk, PAIR_TELL, slots)
    answer = pick(talk.rng, ("Got it: {a} {verb} {x} and {b} {verb} {y}.", "I will remember that {a} {verb} {x} and {b} {verb} {y}."))
    return [(user, answer.format(**slots), (), ())]


def _ask_pair(talk, fact):
    s = fact.slots
    first = talk.chance(0.5)
    who, what, other, others = (s["a"], s["x"], s["b"], s["y"]) if first else (s["b"], s["y"], s["a"], s["x"])
    answer = upper_first("%s %s %s." % (who, s["verb"], what))
    if talk.chance(0.5):
        user = talk.user(PAIR_WHO, verb=s["verb"], v=what)
        return [(user, answer, (who,), (other,))]
    user = talk.user(PAIR_WHAT, verb=s["verb"], base=s["base"], w=who)
    return [(user, answer, (what,), (others,))]


def tell_and_ask(talk):
    """Tells something and asks for it in one message."""
    known = set(talk.told)
    turns = talk.pick((tell, tell, tell_name, tell_two, tell_pair))(talk)
    fresh = [fact for key, fact in talk.told.items() if key not in known]
    if not fresh or "?" in turns[0][0]:
        return turns
    fact = talk.pick(fresh)
    (user, answer, accept, reject), = _ask_pair(talk, fact) if fact.family is PAIR else _ask(talk, fact, fact.slots)
    told = turns[0][0].rstrip(".! ")
    return [(told + talk.pick((". ", ". ", ". ", "! ", ", ", ". So ", ". Now ", " - ", "\n")) + user, answer, accept, reject)]


def _place_loosely(talk, fact):
    """The same thing by fewer words: its colour left out, "my" for "the"."""
    *front, noun = fact.slots["o"].split()
    same = [f for f in talk.told.values() if f.family is fact.family and f.slots["o"].endswith(noun)]
    slots = dict(fact.slots)
    if front and len(same) == 1 and " ".join(front) in world.COLOURS.all + ("spare", "old", "house", "birthday"):
        slots["o"] = noun
    if talk.chance(0.5):
        slots["own"], slots["your"] = ("the", "the") if slots["own"] == "my" else ("my", "your")
    return slots


def ask_loosely(talk):
    """Asks where a thing is, but not by the words it was told with."""
    facts = [fact for fact in talk.told.values() if fact.family is BY_KEY["put:{o}"]]
    if not facts:
        own = pick(talk.rng, ("the", "my"))
        slots = dict(BY_KEY["put:{o}"].slots(talk), own=own, your="your" if own == "my" else "the")
        if " " not in slots["o"]:
            slots["o"] = talk.pick(world.COLOURS) + " " + slots["o"]
        fact = Fact(BY_KEY["put:{o}"], slots)
        talk.told[fact.key] = fact
        return [(_fill(talk, fact.family.tells, slots), _ack(talk, fact), (), ())]
    fact = talk.pick(facts)
    return _ask(talk, fact, _place_loosely(talk, fact))


WHO_IS = Wordings("""
Who is {v}?
Do you know who {v} is?
Can you tell me who {v} is?
Do you remember who {v} is?
And who is {v}?
Who was {v} again?
""")
_BACK = (  # of a family: which, the wordings that ask from the value, what is answered
    ("person:{rel}", WHO_IS, "{v} is your {rel}", "{rel}"),
    ("pet:{k}", WHO_IS, "{v} is your {k}", "{k}"),
    ("lives:{rel}", "Who lives in {v}?\nDo you know who lives in {v}?\nTell me again who lives in {v}.", "your {rel} lives in {v}", "{rel}"),
    ("lives:{who}", "Who lives in {v}?\nDo you know who lives in {v}?\nWho did I say lives in {v}?", "{who} lives in {v}", "{who}"),
    ("has:{who}", "Who has the {v}?\nDo you know who has the {v}?\nWho did I give the {v} to?", "{who} has the {v}", "{who}"),
    ("likes:{who}", "Who likes {v}?\nDo you know who likes {v}?\nWho did I say likes {v}?", "{who} likes {v}", "{who}"),
    ("put:{o}", "What is {v}?\nWhat did I put {v}?\nDo you know what is {v}?\nWhat did I leave {v}?", "{your} {o} {be} {v}", "{o}"),
)
_BACKS = {key: (asks if isinstance(asks, Wordings) else Wordings(asks), answer, value) for key, asks, answer, value in _BACK}


def ask_back(talk):
    """Asks from the value: who or what it belongs to."""
    facts = [fact for fact in talk.told.values() if fact.family.key in _BACKS]
    if not facts:
        return tell(talk, BY_KEY[pick(talk.rng, _BACK)[0]])
    fact = talk.pick(facts)
    asks, answer, value = _BACKS[fact.family.key]
    if sum(other.slots["v"].lower() == fact.slots["v"].lower() for other in talk.told.values()) > 1:
        return []
    return [(_fill(talk, asks, fact.slots), upper_first(answer.format(**fact.slots)) + ".", (value.format(**fact.slots),), ())]


REPEAT = Wordings("""
Repeat after me: {v}
Say {v}.
Repeat: {v}
Please say {v}.
Can you say {v}?
Say this: {v}
Type {v}.
Repeat the word {v}.
Write {v}.
Just answer with {v}.
""")


def repeat(talk):
    value = talk.own(world.word(talk) if talk.chance(0.6) else world.person_name(talk))
    return [(talk.user(REPEAT, plain=True, v=value), value, (value,), ())]


SAID = Wordings("""
What did I just say?
What did I say before?
What was my last message?
What did I write last?
Repeat what I said.
What was the last thing I said?
Can you repeat what I just said?
Which message did I send last?
What did I just write?
""")
AGAIN = Wordings("""
What did you just say?
What did you say?
Say that again.
Can you repeat that?
Please repeat that.
Once more, please.
Repeat your last answer.
Could you say that again?
Say it again.
Repeat that.
""")


def last_said(talk):
    """The last message of the user, or the last answer, once more."""
    if not talk.turns:
        return []
    user, answer, _accept, _reject = talk.turns[-1]
    if talk.chance(0.5):
        if len(user) > 60 or '"' in user:
            return []
        return [(talk.user(SAID), 'You said: "%s"' % user, (user,), ())]
    if len(answer) > 90:
        return []
    return [(talk.user(AGAIN), answer, (answer,), ())]
