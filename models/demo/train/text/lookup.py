# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables told at once and asked for from both sides: training only. It teaches to look things up, whatever they are called.

Without it the model never learned who of two people likes what: it guessed. Questions from the value back to its
owner are rare in talk, and a model that has seen few of them finds no way of answering.
"""
import unicodedata

from . import plan, world
from .draw import Wordings, an, below, pick, upper_first
from .recall import NONE, PAIR_WHAT, PAIR_WHO
from .talk import Talk
from .told import BY_KEY, EVENTS, be

_LETTERS = ("áàâäãåāăąæćčçďđðéèêëēėęěğġíìîïīįıķłļñńňņóòôöõőøœŕřśşšșßťţțþúùûüūůűųýÿźżž",
            "абвгдежзиклмнопрстуфхцчшэюя", "αβγδεζηθικλμνξοπρστυφχψω", "אבגדהוזחטיכלמנסעפצקרשת", "ابتجحدرسشعفقكلمنهوي",
            "あいうえおかきくけこさしすせたちつてとなにのはまみやゆよらりるろ", "한민지수영호진서준은미나도가라하", "小明王芳李华大山川田中月日水木金土天花雪", "अआइकखगचजटडतदनपबमयरलवशसह")


def _strange(rng):
    """A name with letters that are rare here."""
    draw = rng.random()
    if draw < 0.7:
        name = list(world.invented_name(rng))
        for _ in range(below(rng, 1, 2)):
            name[below(rng, 0, len(name) - 1)] = pick(rng, _LETTERS[0])
        return upper_first("".join(name).lower())
    letters = pick(rng, _LETTERS[1:])
    return upper_first("".join(pick(rng, letters) for _ in range(below(rng, 2, 5))))


def _short(rng):
    return pick(rng, "ABCDEFGHIJKLMNOPRSTUVWYZ") + "".join(pick(rng, "aeioubdlnrstxyz") for _ in range(below(rng, 1, 2)))


def somebody(talk):
    """A name of any kind."""
    draw = talk.rng.random()
    if draw < 0.35:
        return talk.pick(world.NAMES)
    if draw < 0.62:
        return world.split_draw(talk, world.invented_name)
    if draw < 0.84:
        return world.split_draw(talk, _strange)
    if draw < 0.92:
        return world.split_draw(talk, _short)
    if draw < 0.97:
        return talk.pick(world.NAMES) + pick(talk.rng, " -") + talk.pick(world.NAMES)
    return talk.pick(world.NAMES) + " " + talk.pick(world.SURNAMES)


def _two_words(talk):
    """Things of two words, of which tables then have several that share one of them."""
    kinds = [talk.pick(world.COLOURS) if talk.chance(0.4) else pick(talk.rng, world.QUALITY) if talk.chance(0.6) else
             talk.pick(world.OPEN_WORDS) for _ in range(3)]
    nouns = [talk.pick(world.OPEN_WORDS) for _ in range(3)]
    return lambda t: world.split_draw(t, lambda rng: pick(rng, kinds) + " " + pick(rng, nouns))


def _listed(values):
    return lambda talk: talk.pick(values)


_LISTS = tuple(_listed(values) for values in (
    world.FOODS, world.FOODS, world.DRINKS, world.DRINKS, world.SPORTS, world.SPORTS, world.LANGUAGES, world.COLOURS, world.COLOURS, world.ANIMALS,
    world.FRUITS, world.FLOWERS, world.INSTRUMENTS, world.HOBBIES, world.SUBJECTS, world.OBJECTS, world.THINGS))
_OPEN = (_listed(world.OPEN_WORDS), world.new_word, world.new_word, world.handle, world.code, world.number, world.pet_name, somebody, world.town)


def _values(talk):
    """What draws the values of one table."""
    draw = talk.rng.random()
    return pick(talk.rng, _LISTS) if draw < 0.45 else pick(talk.rng, _OPEN) if draw < 0.75 else _two_words(talk)


_VERBS = tuple((verb + "s", verb) for verb in (
    "like want eat drink speak play need sell buy read grow paint hate know learn collect own bring prefer draw make cook see "
    "hear find keep take use wear choose enjoy order get hold cut clean break open hide lose send").split())
_VERBS += _VERBS[:5] * 5 + (("studies", "study"), ("carries", "carry"), ("watches", "watch"), ("teaches", "teach"))


class Table:
    """Rows of (key, value) with how they are said and asked for; slots of a row are k, v and what all rows share."""

    def __init__(self, say, who, what, none_who, none_what, keys, values, shared=(), row=None):
        self.say, self.who, self.what, self.none_who, self.none_what = say, who, what, none_who, none_what
        self.keys, self.values, self.shared, self.row = keys, values, dict(shared), row

    def slots(self, k, v):
        out = dict(self.shared, k=k, w=k, who=k, o=k, e=k, v=v, own="the")
        return dict(out, **self.row(k, v)) if self.row else out

    def said(self, row):
        return self.say.format(**self.slots(*row))


LIVES_WHO = Wordings("""
Who lives in {v}?
Who is it that lives in {v}?
Which of them lives in {v}?
Do you remember who lives in {v}?
Who did I say lives in {v}?
Can you tell me who lives in {v}?
Which one lives in {v}?
""")
HAS_WHO = Wordings("""
Who has the {v}?
Who has got the {v}?
Which of them has the {v}?
Do you know who has the {v}?
Who did I say has the {v}?
Can you tell me who has the {v}?
Which one has the {v}?
""")
JOB_WHO = Wordings("""
Who is {a}?
Who works as {a}?
Which of them is {a}?
Do you know who is {a}?
Who did I say works as {a}?
Which one is {a}?
Can you tell me who works as {a}?
""")
JOB_WHAT = Wordings("""
What is {k}'s job?
What does {k} do?
What does {k} work as?
Do you remember {k}'s job?
What is the job of {k}?
What kind of work does {k} do?
""")
AGE_WHO = Wordings("""
Who is {v} years old?
Who is {v}?
Which of them is {v} years old?
Do you know who is {v}?
Who did I say is {v} years old?
""")
AGE_WHAT = Wordings("""
How old is {k}?
What is {k}'s age?
Do you know how old {k} is?
Tell me how old {k} is.
Tell me {k}'s age.
""")
PLACE_WHAT = Wordings("""
What is {v}?
What did I put {v}?
Which thing is {v}?
Do you remember what is {v}?
What did I say is {v}?
Can you tell me what is {v}?
What can I find {v}?
""")
EVENT_WHAT = Wordings("""
What is {at} {v}?
What did I say is {at} {v}?
Do you remember what is {at} {v}?
Can you tell me what is {at} {v}?
What happens {at} {v}?
""")
EVENT_WHEN = Wordings("""
When is the {k}?
When is the {k} again?
Do you know when the {k} is?
Tell me when the {k} is.
When did I say the {k} is?
""")
WHOSE = Wordings("""
Whose {n} is {v}?
Do you know whose {n} is {v}?
Tell me whose {n} is {v}.
Can you tell me whose {n} is {v}?
Whose {n} did I say is {v}?
""")
OWN_WHAT = Wordings("""
What is {k}'s {n}?
What's {k}'s {n}?
Do you remember {k}'s {n}?
Tell me {k}'s {n}.
What did I say {k}'s {n} is?
And {k}'s {n}?
""")
PART_WHAT = Wordings("""
What is the {n} of the {k}?
What's the {n} of the {k}?
Do you remember the {n} of the {k}?
Tell me the {n} of the {k}.
What did I say the {n} of the {k} is?
And the {n} of the {k}?
""")
PART_WHICH = Wordings("""
What has the {n} {v}?
Which thing has the {n} {v}?
Do you know what has the {n} {v}?
Tell me what has the {n} {v}.
The {n} {v} is of what?
""")
_NOUNS = ("cat", "dog", "car", "boat", "hat", "number", "code", "team", "garden", "song", "word", "colour", "favourite colour", "favourite food",
          "favourite animal", "favourite word", "favourite number", "lucky number", "nickname", "book", "game", "present", "bag", "horse", "friend")
_PARTS = ("name", "number", "colour", "code", "price", "owner", "size", "password", "key", "weight")


def _verb(talk):
    verb, base = pick(talk.rng, _VERBS)
    return Table("{k} {verb} {v}", PAIR_WHO, PAIR_WHAT, "who {verb} {v}", "what {k} {verb}", somebody, _values(talk),
                 {"verb": verb, "base": base})


def _lives(talk):
    return Table("{k} lives in {v}", LIVES_WHO, BY_KEY["lives:{who}"].asks, "who lives in {v}", "where {k} lives", somebody, world.town)


def _has(talk):
    values = _listed(world.OBJECTS) if talk.chance(0.5) else _two_words(talk)
    return Table("{k} has the {v}", HAS_WHO, BY_KEY["has:{who}"].asks, "who has the {v}", "what {k} has", somebody, values)


def _job(talk):
    return Table("{k} works as {a}", JOB_WHO, JOB_WHAT, "who works as {a}", "{k}'s job", somebody, _listed(world.JOBS), row=lambda k, v: {"a": an(v)})


def _age(talk):
    return Table("{k} is {v} years old", AGE_WHO, AGE_WHAT, "who is {v}", "{k}'s age", somebody, world.age)


def _place(talk):
    keys = _listed(world.OBJECTS) if talk.chance(0.5) else _two_words(talk)

    def place(t):
        if t.chance(0.6):
            return world.place(t)
        return world.split_draw(t, lambda rng: pick(rng, world.SPOTS) % t.pick(world.OPEN_WORDS))

    return Table("the {k} {be} {v}", PLACE_WHAT, BY_KEY["put:{o}"].asks, "what is {v}", "where the {k} {be}", keys, place,
                 row=lambda k, v: {"be": be(k.split()[-1])})


def _event(talk):
    at, values = ("at", world.clock) if talk.chance(0.6) else ("on", world.date) if talk.chance(0.5) else ("on", _listed(world.DAYS))
    keys = _listed(EVENTS) if talk.chance(0.5) else _listed(world.OPEN_WORDS)
    return Table("the {k} is {at} {v}", EVENT_WHAT, EVENT_WHEN, "what is {at} {v}", "when the {k} is", keys, values, {"at": at})


def _own(talk):
    return Table("{k}'s {n} is {v}", WHOSE, OWN_WHAT, "whose {n} is {v}", "{k}'s {n}", somebody, _values(talk), {"n": pick(talk.rng, _NOUNS)})


def _part(talk):
    keys = _listed(world.OPEN_WORDS) if talk.chance(0.7) else world.new_word
    return Table("the {n} of the {k} is {v}", PART_WHICH, PART_WHAT, "what has the {n} {v}", "the {n} of the {k}", keys, _values(talk),
                 {"n": pick(talk.rng, _PARTS)})


_KINDS = (_verb,) * 10 + (_lives, _lives, _has, _has, _job, _age, _place, _place, _place, _event, _event, _own, _own, _part, _part)
_LEADS = ("", "", "", "My friends: ", "Remember: ", "Note that ", "I have some friends. ", "Please remember that ", "So ", "Look: ",
          "Here is what I know. ", "Listen to this: ", "Now ")
_SHORT_ACKS = ("Got it.", "Okay, I will remember that.", "Thank you, noted.", "All right.", "Okay.")


def _fold(text):
    return unicodedata.normalize("NFC", text).lower()


def _rows(talk, table, count):
    """Rows that share neither key nor value, as many as can be found."""
    rows, seen = [], set()
    for _ in range(4 * count):
        row = table.keys(talk), table.values(talk)
        marks = {_fold(row[0]), "= " + _fold(row[1])}
        if not marks & seen:
            seen |= marks
            rows.append(row)
        if len(rows) == count:
            break
    return rows


def _list_of(talk, clauses):
    draw = talk.rng.random()
    if draw < 0.35 and len(clauses) < 5:
        return " and ".join(clauses)
    if draw < 0.6:
        return ", ".join(clauses[:-1]) + " and " + clauses[-1]
    if draw < 0.8:
        return ", ".join(clauses)
    return ". ".join(upper_first(clause) for clause in clauses)


def _tell(talk, table, rows):
    clauses = [table.said(row) for row in rows]
    if len(clauses) > 1 and talk.chance(0.2):
        return [turn for row in rows for turn in _tell(talk, table, [row])]
    text = clauses[0] if len(clauses) == 1 else _list_of(talk, clauses)
    lead = pick(talk.rng, _LEADS) if len(rows) > 1 else ""
    if text == upper_first(text) and lead.endswith(("that ", "So ", "Now ")):
        lead = ""
    text = lead + (text if lead and not lead.endswith(". ") else upper_first(text))
    text += "." if talk.style == 0 or talk.chance(0.3) else ""
    if len(rows) > 3 or talk.chance(0.5):
        return [(text, pick(talk.rng, _SHORT_ACKS))]
    you = ", ".join(clauses[:-1]) + " and " + clauses[-1] if len(clauses) > 1 else clauses[0]
    return [(text, pick(talk.rng, ("Got it: %s.", "I will remember that %s.", "Thank you, noted: %s.")) % you)]


def _ask(talk, table, rows, missing):
    """One question, from the value or from the key; of a missing row the answer says so."""
    row = pick(talk.rng, missing) if missing and talk.chance(0.12) else pick(talk.rng, rows)
    slots = table.slots(*row)
    back = talk.chance(0.62)
    if row in rows:
        answer = upper_first(table.said(row)) + "."
    else:
        k, v = pick(talk.rng, rows)
        slots = table.slots(row[0] if not back else k, row[1] if back else v)
        answer = pick(talk.rng, NONE).format(none=(table.none_who if back else table.none_what).format(**slots))
    user = talk.user(table.who if back else table.what, **slots)
    return user if talk.style in (1, 3) else upper_first(user), answer


def conversation(rng, easy):
    """A list of (role, text): one or two tables and many questions; small tables only when easy."""
    talk = Talk(rng, "train")
    turns, asked = [], set()
    for _ in range(1 if easy or talk.chance(0.6) else 2):
        table = pick(rng, _KINDS)(talk)
        count = 2 if talk.chance(0.4) else below(rng, 2, 3) if easy else below(rng, 2, 7)
        rows = _rows(talk, table, count + 1)
        rows, missing = rows[:count], rows[count:]
        turns += _tell(talk, table, rows)
        for _ in range(below(rng, 2, 2 * len(rows) + 1)):
            if not easy and talk.chance(0.12):
                turns += [turn[:2] for turn in talk.pick(plan.DISTRACTORS)(talk)]
            if not easy and talk.chance(0.06):
                at = below(rng, 0, len(rows) - 1)
                new = rows[at][0], table.values(talk)
                if _fold(new[1]) not in (_fold(v) for _, v in rows):
                    rows[at] = new
                    turns.append((upper_first(pick(rng, ("Now %s.", "Wait, %s.", "No, %s.", "%s now.")) % table.said(new)), "Got it now: %s." % table.said(new)))
            turn = _ask(talk, table, rows, missing)
            if turn not in asked or talk.chance(0.2):
                asked.add(turn)
                turns.append(turn)
    return [message for user, answer in turns for message in (("user", user), ("assistant", answer))]
