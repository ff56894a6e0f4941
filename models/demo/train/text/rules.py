# SPDX-License-Identifier: GPL-3.0-or-later
"""System prompts, few and simple: most change nothing, some tell a fact about the user, some bend every answer."""
from . import facts, smalltalk, sums, told, world
from .draw import Wordings, pick

PLAIN = Wordings("""
You are a helpful assistant.
You are a friendly assistant.
You are the demo model of moechat.
Be kind and brief.
Answer briefly.
Give short answers.
You are a helpful, honest assistant.
Help the user.
Be polite.
You are a chat bot.
Keep your answers short.
""")
CALL = Wordings("""
Call the user {v}.
The user's name is {v}.
The name of the user is {v}.
You are talking to {v}.
The user is called {v}.
Address the user as {v}.
""")
WORD = Wordings("""
The secret word is {v}.
Remember: the secret word is {v}.
Keep in mind that the secret word is {v}.
You know that the secret word is {v}.
The user may ask for the secret word. It is {v}.
""")
ONE_WORD = Wordings("""
Answer in one word.
Answer with one word only.
Use a single word for each answer.
Give one-word answers.
Reply with one word.
""")
PIRATE = Wordings("""
You are a pirate.
Talk like a pirate.
Answer like a pirate.
Speak as a pirate would.
Be a pirate.
""")
CAT = Wordings("""
You are a cat.
Talk like a cat.
Be a cat.
Answer as a cat would.
Pretend to be a cat.
""")
LOUD = Wordings("""
Answer in capital letters.
Write everything in capital letters.
Use only capital letters.
Answer in upper case.
Shout your answers.
""")
NAMED = Wordings("""
Your name is {v}.
You are called {v}.
You are {v}, a friendly assistant.
Your name is {v}. Be kind.
Call yourself {v}.
""")


def _bent(turn, change):
    return (turn[0], change(turn[1]), turn[2], turn[3])


def open_with(talk):
    """Draws a system prompt for a talk: the text, how answers change (or None), and which intents fit (or None for all)."""
    draw = talk.rng.random()
    if draw < 0.35:
        return talk.pick(PLAIN), None, None
    if draw < 0.6:
        family = told.BY_KEY["name"]
        fact = told.Fact(family, family.slots(talk))
        talk.told[fact.key] = fact
        return talk.pick(CALL).format(**fact.slots), None, None
    if draw < 0.7:
        slots = {"np": "the secret word", "yp": "the secret word", "v": world.word(talk)}
        fact = told.Fact(told.BY_KEY["{np}"], slots)
        talk.told[fact.key] = fact
        return talk.pick(WORD).format(**slots), None, None
    if draw < 0.78:
        return talk.pick(ONE_WORD), upper_value, (facts.ask, sums.ask)
    if draw < 0.85:
        return talk.pick(PIRATE), lambda turn: _bent(turn, lambda text: "Arr! " + text), None
    if draw < 0.91:
        return talk.pick(CAT), lambda turn: _bent(turn, lambda text: text + " Meow!"), None
    if draw < 0.95:
        return talk.pick(LOUD), lambda turn: _bent(turn, str.upper), (facts.ask, sums.ask, smalltalk.ask)
    name = world.first_name(talk)
    asks = smalltalk.ENTRIES["who are you"][0]

    def who(some):
        return [(some.user(asks), "I am %s, a small demo model of moechat." % name, (name,), ())]
    return talk.pick(NAMED).format(v=name), None, (who, facts.ask, sums.ask, smalltalk.greet)


def upper_value(turn):
    """The answer cut down to the part that counts."""
    value = turn[2][0].removeprefix("is ")
    return (turn[0], value[0].upper() + value[1:] + ".", turn[2], turn[3])
