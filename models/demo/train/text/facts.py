# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts: relations over the tables of atlas.py, asked in many wordings. Every fact is trained; wordings are held out."""
import re

from . import atlas, world
from .draw import Wordings, below, pick, upper_first
from .talk import BARE, CLEAN, LOUD

NOUN_PHRASE = Wordings("""
What is {np}?
What is {np}?
What's {np}?
What is {np} called?
Do you know {np}?
Can you tell me {np}?
Tell me {np}.
Name {np}.
{np}?
I forgot {np}.
I would like to know {np}.
Please name {np}.
Quiz question: what is {np}?
What would be {np}?
Give me {np}.
{np}
Could you tell me what {np} is?
I need to know {np}.
Which is {np}?
What do you think is {np}?
I want to know {np}.
So what is {np}?
Do you know what {np} is?
Remind me what {np} is.
""")
ALSO = Wordings("""
And {x}?
What about {x}?
And what about {x}?
And for {x}?
How about {x}?
{x}?
And with {x}?
The same for {x}?
And {x}
""")


_ANIMAL = frozenset(("young", "sound", "class", "legs", "home", "sides"))
_PERSON = re.compile(r"^the (author|writer|painter|composer|first (person|woman))\b", re.IGNORECASE)
_ARTICLE = re.compile(r"\b([Aa]) ([aeioAEIO])")


class Relation:
    """Rows of slots; np: noun phrases that NOUN_PHRASE takes; asks: wordings of its own; also: the slot of a follow-up."""

    def __init__(self, name, rows, answer, accept, np="", asks="", weight=1.0, also=None):
        self.name, self.rows, self.answer, self.accept, self.weight, self.also = name, tuple(rows), answer, accept, weight, also
        self.np = Wordings(np) if np else None
        self.asks = Wordings(asks) if asks else None

    def turn(self, talk, row, follow=False):
        low = {key: talk.low(value) for key, value in row.items()}
        if follow:
            user = talk.user(ALSO, x=low[self.also])
        elif self.np and (not self.asks or talk.chance(0.5)):
            np = talk.pick(self.np.train if talk.chance(0.9) else self.np.eval)
            np = talk.low(pick(talk.rng, np)).format(**low) if talk.style != LOUD else np[0].format(**low)
            user = upper_if(talk, talk.user(NOUN_PHRASE, np=np))
            if _PERSON.search(np):
                user = user.replace("What is", "Who is").replace("what is", "who is").replace("What's", "Who's").replace("Whats ", "Who is ").replace("whats ", "whos ")
        else:
            user = upper_if(talk, talk.user(self.asks, **low))
        answer = upper_first(self.answer.format(**row))
        if self.name in _ANIMAL:
            user, answer = _ARTICLE.sub(r"\1n \2", user), _ARTICLE.sub(r"\1n \2", answer)
        return (user, answer, (self.accept.format(**row),), ())

    def ask(self, talk):
        row = pick(talk.rng, self.rows)
        turns = [self.turn(talk, row)]
        if self.also and talk.chance(0.22):
            for _ in range(below(talk.rng, 1, 2)):
                turns.append(self.turn(talk, pick(talk.rng, self.rows), True))
        return turns


def upper_if(talk, text):
    return upper_first(text) if talk.style in (CLEAN, BARE) else text


def rows(*names):
    """Rows of a table as dictionaries under these slot names."""
    return lambda table: [dict(zip(names, row)) for row in table]


def _one_way(pairs):
    """Pairs in both directions, but only where the way back has one answer."""
    keys = [a for a, _ in pairs] + [b for _, b in pairs]
    out = [{"a": a, "b": b} for a, b in pairs]
    return out + [{"a": b, "b": a} for a, b in pairs if keys.count(b) == 1]


def _cyclic(names, step):
    n = len(names)
    return [{"a": names[i], "b": names[(i + step) % n]} for i in range(n)]


_ORDER = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh", "twelfth")
_PLANETS = ("Mercury", "Venus", "Earth", "Mars", "Jupiter", "Saturn", "Uranus", "Neptune")
_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

RELATIONS = [
    Relation("capital", rows("c", "k")(atlas.CAPITALS), "The capital of {c} is {k}.", "{k}", """
        the capital of {c}
        the capital of {c}
        the capital city of {c}
        {c}'s capital
        """, """
        Which city is the capital of {c}?
        What is the capital of {c}?
        Capital of {c}?
        Capital of {c}
        What city is the capital of {c}?
        {c} has which capital?
        Where does the government of {c} sit? I mean the capital.
        Which is {c}'s capital city?
        What capital does {c} have?
        {c}: capital?
        Do you happen to know the capital of {c}?
        What is the name of the capital of {c}?
        """, 9, "c"),
    Relation("capital of", rows("c", "k")(atlas.CAPITALS), "{k} is the capital of {c}.", "{c}", """
        the country whose capital is {k}
        the country with the capital {k}
        """, """
        {k} is the capital of which country?
        Which country has the capital {k}?
        Of which country is {k} the capital?
        What country is {k} the capital of?
        Which country is {k} the capital of?
        {k} is the capital of what?
        Whose capital is {k}?
        Of what country is {k} the capital?
        """, 4),
    Relation("continent", rows("c", "k")(atlas.CONTINENTS), "{c} is in {k}.", "{k}", "the continent of {c}", """
        On which continent is {c}?
        Which continent is {c} in?
        Where is {c}?
        What continent is {c} on?
        In which part of the world is {c}?
        Which continent does {c} belong to?
        Where can I find {c}?
        Tell me where {c} is.
        Where on Earth is {c}?
        """, 3),
    Relation("spoken", rows("c", "k")(atlas.SPOKEN), "People in {c} speak {k}.", "{k}", "the language of {c}", """
        [Which|What] language do people speak in {c}?
        What do they speak in {c}?
        Which language is spoken in {c}?
        What language do they speak in {c}?
        What is spoken in {c}?
        Tell me which language people speak in {c}.
        In {c}, what language do people speak?
        """, 2),
    Relation("money", rows("c", "k")(atlas.MONEY), "The currency of {c} is the {k}.", "{k}", "the currency of {c}\nthe money of {c}", """
        [Which|What] currency does {c} have?
        What money do they use in {c}?
        How do people pay in {c}?
        Which currency is used in {c}?
        What is the name of the money in {c}?
        With what money do I pay in {c}?
        """, 1.5),
    Relation("symbol", rows("e", "s", "n")(atlas.ELEMENTS), "The symbol of {e} is {s}.", "is {s}", """
        the symbol of {e}
        the chemical symbol of {e}
        the symbol for {e}
        the chemical symbol for {e}
        """, """
        What symbol does {e} have?
        Which symbol stands for {e}?
        How is {e} written in chemistry?
        Which letters stand for {e}?
        What is the short form of {e} in chemistry?
        What does {e} look like in the periodic table?
        Chemical symbol of {e}?
        Symbol for {e}?
        """, 4, "e"),
    Relation("element", rows("e", "s", "n")(atlas.ELEMENTS), "{s} is the symbol of {e}.", "{e}", """
        the element with the symbol {s}
        the chemical element {s}
        """, """
        Which element has the symbol {s}?
        What does {s} stand for in chemistry?
        Which element is {s}?
        What element is {s}?
        {s} is the symbol of which element?
        In the periodic table, what is {s}?
        Which chemical element is written {s}?
        What is {s} in chemistry?
        """, 3),
    Relation("number", rows("e", "s", "n")(atlas.ELEMENTS), "{e} is element number {n}.", "{n}", """
        the atomic number of {e}
        the number of {e} in the periodic table
        """, """
        [Which|What] atomic number does {e} have?
        How many protons does {e} have?
        Atomic number of {e}?
        Which number does {e} have in the periodic table?
        Where is {e} in the periodic table?
        What number is {e}?
        """, 2),
    Relation("number of", [r for r in rows("e", "s", "n")(atlas.ELEMENTS) if int(r["n"]) <= 36], "Element number {n} is {e}.", "{e}",
             "the element with the atomic number {n}\nelement number {n}\nthe element with the number {n}", """
        Which element has the number {n}?
        What element has the atomic number {n}?
        Which element has {n} protons?
        What is the element number {n}?
        Name the element with {n} protons.
        """, 1),
    Relation("unit", rows("u", "w", "n")(atlas.UNITS), "{w} has {n} {u}.", "{n}", "the number of {u} in {w}", """
        How many {u} are in {w}?
        How many {u} does {w} have?
        How many {u} are there in {w}?
        How many {u} in {w}?
        Tell me how many {u} {w} has.
        Do you know how many {u} are in {w}?
        {w} has how many {u}?
        Can you tell me how many {u} there are in {w}?
        How many {u} has {w}?
        """, 4),
    Relation("opposite", _one_way(atlas.OPPOSITES), "The opposite of {a} is {b}.", "{b}", """
        the opposite of {a}
        the opposite of "{a}"
        the antonym of {a}
        """, """
        What is the opposite of {a}?
        Opposite of {a}?
        {a} is the opposite of what?
        What is the contrary of {a}?
        Which word means the opposite of {a}?
        What is not {a}, but the opposite?
        Give me a word that is the opposite of {a}.
        The opposite of {a} is?
        """, 7, "a"),
    Relation("young", rows("a", "b")(atlas.YOUNG), "A baby {a} is called a {b}.", "{b}", """
        the name of a baby {a}
        the name for a young {a}
        the word for a baby {a}
        the name of the young of a {a}
        """, """
        What is a baby {a} called?
        What do you call a young {a}?
        What is the young of a {a} called?
        How is a baby {a} called?
        What's the word for a baby {a}?
        A young {a} is called what?
        """, 2.5, None),
    Relation("sound", rows("a", "b")(atlas.SOUNDS), "A {a} {b}.", "{b}", "the sound of a {a}", """
        What sound does a {a} make?
        What does a {a} say?
        What noise does a {a} make?
        Which sound does a {a} make?
        How does a {a} sound?
        What sound do you hear from a {a}?
        What does the {a} do when it makes a sound?
        """, 2),
    Relation("class", rows("a", "b")(atlas.CLASSES), "A {a} is a {b}.", "{b}", "", """
        What kind of animal is a {a}?
        What is a {a}?
        Which animal class is a {a}?
        Is a {a} a mammal, a bird, a fish or what?
        What class of animal is a {a}?
        What type of animal is a {a}?
        To which group of animals does a {a} belong?
        Which kind of animal is a {a}?
        """, 3, None),
    Relation("legs", rows("a", "b")(atlas.LEGS), "A {a} has {b} legs.", "{b}", "the number of legs of a {a}", """
        How many legs does a {a} have?
        How many legs has a {a} got?
        Count the legs of a {a}.
        Tell me how many legs a {a} has.
        A {a} has how many legs?
        Do you know how many legs a {a} has?
        On how many legs does a {a} walk?
        """, 2),
    Relation("home", rows("a", "b")(atlas.HOMES), "A {a} lives in a {b}.", "{b}", "the home of a {a}", """
        Where does a {a} live?
        What is the home of a {a} called?
        In what does a {a} live?
        What does a {a} live in?
        Where does a {a} sleep?
        What do you call the home of a {a}?
        """, 1.5),
    Relation("mix", [{"a": x, "b": y, "c": z} for p, q, z in atlas.MIXES for x, y in ((p, q), (q, p))], "{a} and {b} make {c}.", "{c}",
             "the mix of {a} and {b}", """
        What do {a} and {b} make?
        Which colour do {a} and {b} make?
        What colour do you get when you mix {a} and {b}?
        Mix {a} and {b}.
        If I mix {a} with {b}, what colour do I get?
        What happens when I mix {a} and {b}?
        {a} and {b} mixed give what?
        {a} + {b} = which colour?
        """, 2.5),
    Relation("colour", rows("a", "b")(atlas.COLOUR_OF), "{a} is {b}.", "{b}", "the colour of {a}", """
        What colour is {a}?
        What colour does {a} have?
        Which colour is {a}?
        What is the colour of {a}?
        Tell me the colour of {a}.
        {a} is what colour?
        Of what colour is {a}?
        """, 2),
    Relation("sides", rows("a", "b")(atlas.SIDES), "A {a} has {b} sides.", "{b}", "the number of sides of a {a}", """
        How many sides does a {a} have?
        How many corners does a {a} have?
        How many sides has a {a}?
        A {a} has how many sides?
        Tell me how many sides a {a} has.
        Count the sides of a {a}.
        """, 1.5),
    Relation("plural", rows("a", "b")(atlas.PLURALS), "The plural of {a} is {b}.", "{b}", "the plural of {a}\nthe plural form of {a}", """
        What is the plural of {a}?
        One {a}, two what?
        One {a}, many what?
        How do you say more than one {a}?
        Plural of {a}?
        I have one {a}. You have two what?
        """, 2, "a"),
    Relation("past", rows("a", "b")(atlas.PASTS), "The past tense of {a} is {b}.", "{b}", "the past tense of {a}\nthe past of {a}\nthe past form of {a}", """
        What is the past tense of {a}?
        How do you say {a} in the past?
        Today I {a}, yesterday I what?
        Past tense of {a}?
        Put {a} into the past.
        What is {a} in the past tense?
        """, 2.5, "a"),
    Relation("author", rows("a", "b")(atlas.BOOKS), "{a} was written by {b}.", "{b}", "the author of {a}\nthe writer of {a}", """
        Who wrote {a}?
        Who is the author of {a}?
        By whom was {a} written?
        Who was it that wrote {a}?
        Tell me who wrote {a}.
        Do you know who wrote {a}?
        Which writer wrote {a}?
        """, 2.5),
    Relation("painter", rows("a", "b")(atlas.ART), "{a} was painted by {b}.", "{b}", "the painter of {a}", """
        Who painted {a}?
        By whom was {a} painted?
        Which painter made {a}?
        Do you know who painted {a}?
        Tell me who painted {a}.
        """),
    Relation("composer", rows("a", "b")(atlas.MUSIC), "{a} was composed by {b}.", "{b}", "the composer of {a}", """
        Who composed {a}?
        Who wrote the music of {a}?
        By whom is {a}?
        Do you know who composed {a}?
        Tell me who composed {a}.
        """, 0.6),
    Relation("maker", rows("a", "b")(atlas.MADE), "{a}: that was {b}.", "{b}", "", """
        Who [invented|discovered|made|created] {a}?
        Who was it that [invented|discovered|created] {a}?
        Who gave us {a}?
        Who is behind {a}?
        Do you know who came up with {a}?
        Tell me who came up with {a}.
        """, 1.2),
    Relation("after day", _cyclic(world.DAYS, 1), "After {a} comes {b}.", "{b}", "the day after {a}", """
        Which day comes after {a}?
        What comes after {a}?
        What day follows {a}?
        If today is {a}, what is tomorrow?
        Today is {a}. What day is tomorrow?
        Which day is after {a}?
        """, 1.5, "a"),
    Relation("before day", _cyclic(world.DAYS, -1), "Before {a} comes {b}.", "{b}", "the day before {a}", """
        Which day comes before {a}?
        What comes before {a}?
        If today is {a}, what was yesterday?
        Today is {a}. What day was yesterday?
        Which day is before {a}?
        """, 1.2, "a"),
    Relation("after month", _cyclic(world.MONTHS, 1), "After {a} comes {b}.", "{b}", "the month after {a}", """
        Which month comes after {a}?
        What month follows {a}?
        What comes after {a}?
        What is the next month after {a}?
        Which month is after {a}?
        """, 1.5, "a"),
    Relation("before month", _cyclic(world.MONTHS, -1), "Before {a} comes {b}.", "{b}", "the month before {a}", """
        Which month comes before {a}?
        What comes before {a}?
        Which month is before {a}?
        What month was before {a}?
        Tell me which month comes before {a}.
        """, 1.2, "a"),
    Relation("nth month", [{"a": _ORDER[i], "b": m} for i, m in enumerate(world.MONTHS)], "The {a} month is {b}.", "{b}", "the {a} month\nthe {a} month of the year", """
        Which month is the {a}?
        Which month is the {a} one?
        What is the name of the {a} month?
        Tell me the {a} month of the year.
        Which is the {a} month in the year?
        """),
    Relation("nth day", [{"a": _ORDER[i], "b": m} for i, m in enumerate(world.DAYS)], "The {a} day of the week is {b}.", "{b}", "the {a} day of the week", """
        Which day is the {a} of the week?
        Which is the {a} day of the week?
        What is the name of the {a} day of the week?
        Tell me the {a} day of the week.
        Which day of the week is the {a}?
        """, 0.7),
    Relation("month days", [{"a": m, "b": str(d)} for m, d in zip(world.MONTHS, _MONTH_DAYS)], "{a} has {b} days.", "{b}", "the number of days in {a}", """
        How many days does {a} have?
        How many days are in {a}?
        How many days are there in {a}?
        How long is {a}?
        {a} has how many days?
        Tell me how many days {a} has.
        """, 1.2),
    Relation("nth planet", [{"a": _ORDER[i], "b": p} for i, p in enumerate(_PLANETS)], "The {a} planet from the sun is {b}.", "{b}",
             "the {a} planet\nthe {a} planet from the sun", """
        Which planet is the {a} from the sun?
        Which is the {a} planet?
        What is the name of the {a} planet?
        Tell me the {a} planet from the sun.
        Counted from the sun, which is the {a} planet?
        """),
    Relation("planet order", [{"a": _ORDER[i], "b": p} for i, p in enumerate(_PLANETS)], "{b} is the {a} planet from the sun.", "{a}", "the place of {b} among the planets", """
        Which planet is {b}, counted from the sun?
        Where is {b} in the solar system?
        Which place has {b} among the planets?
        What number is {b} among the planets?
        Is {b} the first, the second or which planet?
        """, 0.7),
    Relation("rhythm", [{"l": row[0], "w": what, "x": row[i]} for row in atlas.HELLO for i, what in ((1, "hello"), (2, "thank you"), (3, "goodbye"), (4, "yes"))],
             '"{w}" in {l} is "{x}".', "{x}", 'the {l} word for {w}\n"{w}" in {l}', """
        How do you say {w} in {l}?
        What is {w} in {l}?
        Say {w} in {l}.
        How do I say {w} in {l}?
        What does one say in {l} for {w}?
        Translate {w} into {l}.
        {w} in {l}?
        What is the {l} word for {w}?
        """, 2.5),
]


def _singles():
    return [Relation("single", [{}], answer, accept, np) for np, answer, accept in atlas.SINGLE] + \
           [Relation("odd", [{}], answer, accept, "", asks) for asks, answer, accept in atlas.ODD]


SINGLES = tuple(_singles())
_TABLE = []
for _relation in RELATIONS:
    _TABLE += [_relation] * round(_relation.weight * 10)
TABLE = tuple(_TABLE)


def ask(talk):
    if talk.chance(0.17):
        return pick(talk.rng, SINGLES).ask(talk)
    return pick(talk.rng, TABLE).ask(talk)


RIGHT = Wordings("""
Is {k} the capital of {c}?
Is the capital of {c} {k}?
Is it true that {k} is the capital of {c}?
{k} is the capital of {c}, right?
The capital of {c} is {k}, isn't it?
Am I right that {k} is the capital of {c}?
I think {k} is the capital of {c}. Is that right?
""")


def yes_or_no(talk):
    country, capital = pick(talk.rng, atlas.CAPITALS)
    if talk.chance(0.5):
        return [(upper_if(talk, talk.user(RIGHT, c=talk.low(country), k=talk.low(capital))), "Yes, %s is the capital of %s." % (capital, country), ("Yes",), ())]
    other = pick(talk.rng, atlas.CAPITALS)[1]
    if other == capital:
        return []
    user = talk.user(RIGHT, c=talk.low(country), k=talk.low(other))
    return [(upper_if(talk, user), "No, the capital of %s is %s." % (country, capital), (capital,), ("Yes",))]


_BY_NAME = {relation.name: relation for relation in RELATIONS}
_OPPOSED = frozenset(word for pair in atlas.OPPOSITES for word in pair)


def invented(talk):
    """Asked about a country, an element, a book or an opposite that does not exist: says so."""
    draw = talk.rng.random()
    if draw < 0.5:
        name = world.new_town(talk)
        user = talk.user(_BY_NAME["capital"].asks, c=name) if talk.chance(0.7) else talk.user(NOUN_PHRASE, np="the capital of " + name)
        answer = "I do not know a country called %s, sorry." % name
    elif draw < 0.65:
        name = world.new_word(talk)
        user, answer = talk.user(_BY_NAME["symbol"].asks, e=name), "I do not know an element called %s, sorry." % name
    elif draw < 0.8:
        name = "The " + upper_first(talk.pick(world.OPEN_WORDS)) + " of " + world.new_town(talk)
        user, answer = talk.user(_BY_NAME["author"].asks, a=name), "I do not know the book %s, sorry." % name
    else:
        name = talk.pick(world.OPEN_WORDS)
        if name in _OPPOSED:
            return []
        user, answer = talk.user(_BY_NAME["opposite"].asks, a=name), "I do not know an opposite of %s, sorry." % name
    return [(upper_if(talk, user), answer, ("not know",), ())]


QUIZ = Wordings("""
Quiz me.
Ask me a question.
Ask me something.
Let's play a quiz.
Can you quiz me?
Test me.
Give me a quiz question.
I want to play a quiz.
Test my knowledge.
Let us do a quiz!
""")
MORE_QUIZ = Wordings("Another one.\nNext question.\nMore.\nAgain.\nOne more.\nAnother question please.")


def quiz(talk):
    """The model asks, the user answers, the model judges."""
    turns = []
    user = talk.user(QUIZ)
    for _ in range(below(talk.rng, 1, 3)):
        country, capital = pick(talk.rng, atlas.CAPITALS)
        turns.append((user, "What is the capital of %s?" % country, (), ()))
        guess = capital if talk.chance(0.55) else pick(talk.rng, atlas.CAPITALS)[1]
        said = talk.user(("{g}", "{g}.", "It is {g}.", "I think it is {g}.", "{g}?"), g=talk.low(guess))
        if talk.chance(0.1):
            said, guess = talk.user(("I do not know.", "No idea.", "Tell me.")), ""
        if guess == capital:
            answer = "Correct! The capital of %s is %s." % (country, capital)
        else:
            answer = "%s. The capital of %s is %s." % ("Not quite" if guess else "No problem", country, capital)
        turns.append((said, answer, (), ()))
        user = talk.user(MORE_QUIZ)
    return turns
