# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be told and asked for later: the families of facts about the user and about others."""
from . import world
from .draw import Wordings, an, below, pick, upper_first


class Family:
    """A kind of thing to remember. `slots(talk)` draws its slots, v among them; all texts are filled from them."""

    def __init__(self, key, me, you, none, slots, asks, tells="", acks=(), answers=None, weight=1.0):
        self.key, self.none, self.slots, self.acks, self.weight = key, none, slots, acks, weight
        self.me = me if isinstance(me, tuple) else (me,)
        self.you = you
        self.asks = Wordings(asks)
        self.tells = Wordings(tells) if tells else None
        self.answers = answers or (you,)


class Fact:
    __slots__ = ("family", "slots", "key")

    def __init__(self, family, slots):
        self.family, self.slots = family, slots
        self.key = family.key.format(**slots)

    def you(self):
        return self.family.you.format(**self.slots)


_PLURAL = frozenset("keys glasses gloves scissors boots socks shoes earrings headphones sunglasses dice".split())


def be(noun):
    return "are" if noun in _PLURAL else "is"


def _plain(make):
    return lambda talk: {"v": talk.own(make(talk))}


FAVOURITES = (
    ("colour", lambda t: t.pick(world.COLOURS)), ("food", lambda t: t.pick(world.FOODS)), ("drink", lambda t: t.pick(world.DRINKS)),
    ("animal", lambda t: t.pick(world.ANIMALS)), ("sport", lambda t: t.pick(world.SPORTS)), ("number", world.number),
    ("flower", lambda t: t.pick(world.FLOWERS)), ("fruit", lambda t: t.pick(world.FRUITS)), ("city", world.town), ("word", world.word),
    ("season", lambda t: pick(t.rng, world.SEASONS)), ("month", lambda t: pick(t.rng, world.MONTHS)), ("day", lambda t: pick(t.rng, world.DAYS)),
    ("instrument", lambda t: t.pick(world.INSTRUMENTS)), ("language", lambda t: t.pick(world.LANGUAGES)), ("hobby", lambda t: t.pick(world.HOBBIES)),
    ("subject", lambda t: t.pick(world.SUBJECTS)), ("book", lambda t: title(t)), ("song", lambda t: title(t)), ("film", lambda t: title(t)),
    ("game", lambda t: title(t)), ("band", lambda t: title(t)), ("toy", world.thing), ("place", world.town), ("dish", lambda t: t.pick(world.FOODS)),
    ("singer", world.first_name), ("tree", lambda t: world.new_word(t)), ("dessert", lambda t: t.pick(world.FOODS)), ("movie", lambda t: title(t)),
    ("letter", lambda t: chr(65 + below(t.rng, 0, 25))), ("planet", lambda t: pick(t.rng, PLANETS)),
)
PLANETS = ("Mercury", "Venus", "Earth", "Mars", "Jupiter", "Saturn", "Uranus", "Neptune")
OWNED = (
    ("lucky number", world.number), ("phone number", world.code), ("locker number", world.code), ("room number", world.number),
    ("house number", world.number), ("door code", world.code), ("password", world.word), ("user name", world.handle), ("nickname", world.handle),
    ("shoe size", lambda t: str(below(t.rng, 28, 48))), ("birthday", world.date), ("star sign", lambda t: pick(t.rng, SIGNS)),
    ("hobby", lambda t: t.pick(world.HOBBIES)), ("surname", lambda t: t.pick(world.SURNAMES)), ("middle name", world.first_name),
    ("home town", world.town), ("dream job", lambda t: t.pick(world.JOBS)), ("seat number", world.code), ("order number", world.code),
    ("flight number", world.code), ("eye colour", lambda t: t.pick(world.COLOURS)), ("hair colour", lambda t: t.pick(world.COLOURS)),
    ("mother tongue", lambda t: t.pick(world.LANGUAGES)), ("secret word", world.word), ("team name", world.handle), ("pin", world.code),
    ("car colour", lambda t: t.pick(world.COLOURS)), ("boat's name", world.pet_name), ("company", world.handle), ("street", lambda t: t.pick(world.SURNAMES) + " Street"),
    ("bus number", world.number), ("wifi password", world.handle), ("cat's name", world.pet_name), ("dog's name", world.pet_name),
)
THE = (
    ("the password", world.word), ("the secret word", world.word), ("the magic word", world.word), ("the door code", world.code),
    ("the secret number", world.number), ("the code", world.code), ("the wifi password", world.handle), ("the code for the safe", world.code),
    ("the name of the project", world.handle), ("the name of the ship", world.pet_name), ("the colour of the door", lambda t: t.pick(world.COLOURS)),
    ("the room number", world.number), ("the name of the hotel", world.handle), ("the name of the cafe", world.handle),
    ("the gate", world.code), ("the code word", world.word), ("the key word", world.word), ("the team colour", lambda t: t.pick(world.COLOURS)),
    ("the name of the robot", world.handle), ("the price", world.number), ("the number of the bus", world.number), ("the name of the street", lambda t: t.pick(world.SURNAMES) + " Street"),
)
SIGNS = ("Aries", "Taurus", "Gemini", "Cancer", "Leo", "Virgo", "Libra", "Scorpio", "Sagittarius", "Capricorn", "Aquarius", "Pisces")


def title(talk):
    draw = talk.rng.random()
    noun = upper_first(talk.pick(world.OPEN_WORDS))
    if draw < 0.35:
        return "The " + upper_first(talk.pick(world.COLOURS)) + " " + noun
    if draw < 0.6:
        return noun + " and " + upper_first(talk.pick(world.OPEN_WORDS))
    return "The " + noun if draw < 0.8 else noun


def _named(talk):
    """Slots of "my something": np as the user says it, yp as the answer says it."""
    draw = talk.rng.random()
    if draw < 0.5:
        noun, make = pick(talk.rng, FAVOURITES)
        return {"np": "my favourite " + noun, "yp": "your favourite " + noun, "v": talk.own(make(talk))}
    if draw < 0.75:
        noun, make = pick(talk.rng, OWNED)
        return {"np": "my " + noun, "yp": "your " + noun, "v": talk.own(make(talk))}
    if draw < 0.9:
        noun, make = pick(talk.rng, THE)
        return {"np": noun, "yp": noun, "v": talk.own(make(talk))}
    noun, make = pick(talk.rng, FAVOURITES)
    who = talk.pick(world.RELATIONS)
    return {"np": "my %s's favourite %s" % (who, noun), "yp": "your %s's favourite %s" % (who, noun), "v": talk.own(make(talk))}


EVENTS = world.Values("meeting, party, concert, lesson, exam, interview, dentist appointment, match, film, dinner, lunch, wedding, rehearsal, "
                      "class, train, flight, bus, boat, show, call, haircut, picnic, play, game, lecture, ferry")


def _job(talk):
    job = talk.pick(world.JOBS)
    return {"v": job, "a": an(job)}


def _pet(talk):
    return {"k": talk.pick(world.PETS), "v": talk.own(world.pet_name(talk))}


def _person(talk):
    return {"rel": talk.pick(world.RELATIONS), "v": talk.own(world.first_name(talk))}


def _relative(make):
    return lambda talk: {"rel": talk.pick(world.RELATIONS), "v": talk.own(make(talk))}


def _relative_job(talk):
    return dict(_job(talk), rel=talk.pick(world.RELATIONS))


def _other(make):
    return lambda talk: {"who": world.first_name(talk), "v": talk.own(make(talk))}


def _placed(talk):
    thing = world.thing(talk)
    own = pick(talk.rng, ("the", "my"))
    return {"o": thing, "own": own, "your": "your" if own == "my" else "the", "be": be(thing.split()[-1]), "v": world.place(talk)}


def _counted(talk):
    return {"o": talk.pick(world.THINGS), "v": str(below(talk.rng, 2, 60))}


def _event(talk):
    own = pick(talk.rng, ("the", "my"))
    return {"e": talk.pick(EVENTS), "own": own, "your": "your" if own == "my" else "the", "v": world.clock(talk)}


def _event_day(talk):
    return dict(_event(talk), v=pick(talk.rng, world.DAYS))


def _bought(talk):
    thing = world.thing(talk)
    return {"v": thing, "a": thing if be(thing.split()[-1]) == "are" else an(thing)}


def _meal(talk):
    return {"m": pick(talk.rng, ("breakfast", "lunch", "dinner")), "v": talk.pick(world.FOODS)}


def _list(talk):
    items = [talk.pick(world.OPEN_WORDS) for _ in range(3)]
    return {"v": "%s, %s and %s" % tuple(items)}


FAMILIES = (
    Family("name", ("my name is {v}", "I am {v}", "I am called {v}"), "your name is {v}", "your name", _plain(world.person_name), """
        What is my name?
        What's my name?
        Do you [remember|know|recall] my name?
        Who am I?
        [Can|Could] you tell me my name?
        Do you [still know|remember|know] who I am?
        What am I called?
        Tell me my name.
        What did I say my name was?
        Which name did I [give you|tell you]?
        Say my name.
        What was my name again?
        Do you still [remember|know] what I am called?
        My name is what?
        What name did I give?
        Remember my name?
        So what is my name?
        By what name should you call me?
        Have you forgotten my name?
        How should you call me?
        What should you call me?
        I bet you forgot my name.
        And my name is?
        Can you remember what my name is?
        My name?
        And my name?
        """, """
        My name is {v}.
        My name is {v}.
        I'm {v}.
        I am {v}.
        [Hi|Hello|Hey], I'm {v}.
        [Hi|Hello|Hey], I am {v}.
        [Hi|Hello|Hey], my name is {v}.
        [Hi|Hello|Hey]! My name is {v}.
        You can call me {v}.
        Call me {v}.
        The name is {v}.
        My name's {v}.
        {v} is my name.
        I am called {v}.
        People call me {v}.
        [This is|It is] {v}.
        My friends call me {v}.
        Good [morning|evening|day], my name is {v}.
        Please call me {v}.
        I go by {v}.
        Nice to meet you, I am {v}.
        Let me introduce myself: I am {v}.
        """, ("Nice to meet you, {v}!", "Hello, {v}! Nice to meet you.", "Hello {v}, it is nice to meet you.", "Nice to meet you, {v}! How can I help?"),
           weight=5),
    Family("town", "I live in {v}", "you live in {v}", "where you live", _plain(world.town), """
        Where do I live?
        [Which|What] [town|city|place] do I live in?
        In which [town|city] do I live?
        Do you [remember|know|recall] where I live?
        Where is my home?
        Tell me where I live.
        Where did I say I live?
        Can you tell me where I live?
        What is the name of the place where I live?
        In what place do I live?
        Where's my home?
        Where do I live again?
        Do you still know which town I live in?
        What [town|city] did I say I live in?
        Which place do I call home?
        Where am I living?
        """, """
        I live in {v}.
        I'm living in {v}.
        My home is in {v}.
        I have lived in {v} for years.
        I moved to {v}, that is where I live now.
        I live in a small house in {v}.
        I live in {v} with my family.
        """, ("So you live in {v}. I will remember that.", "How nice that you live in {v}. I will remember it."), weight=2.5),
    Family("origin", "I come from {v}", "you come from {v}", "where you come from", _plain(world.town), """
        Where do I come from?
        Where am I from?
        [Which|What] [place|town] do I come from?
        Do you [remember|know] where I come from?
        Tell me where I am from.
        Where did I say I come from?
        Do you know where I am from?
        What place am I from?
        Where am I from again?
        """, """
        I come from {v}.
        I am from {v}.
        I'm from {v}.
        I was born in {v}, that is where I am from.
        I am from a place called {v}.
        """),
    Family("age", ("I am {v} years old", "I am {v}"), "you are {v} years old", "your age", _plain(world.age), """
        How old am I?
        What is my age?
        What's my age?
        Do you [remember|know|recall] how old I am?
        Tell me my age.
        Can you tell me how old I am?
        What did I say my age was?
        How many years old am I?
        Do you remember my age?
        How old did I say I am?
        My age is what?
        Do you know my age?
        """, """
        I am {v} years old.
        I'm {v} years old.
        My age is {v}.
        I just turned {v} years old.
        I am {v} years of age.
        I turned {v} last week, that is my age now.
        """, weight=1.5),
    Family("job", ("I work as {a}", "I am {a}"), "you work as {a}", "your job", _job, """
        What is my job?
        What do I do for a living?
        What do I work as?
        Do you [remember|know|recall] my job?
        What's my job?
        What kind of work do I do?
        Tell me my job.
        What did I say my job is?
        What is my profession?
        What is my work?
        Can you tell me what my job is?
        How do I earn my money?
        Do you know what I do for a living?
        As what do I work?
        """, """
        I am {a}.
        I'm {a}.
        I work as {a}.
        My job is {v}.
        I earn my money as {a}.
        I am {a} by profession.
        I have been {a} for ten years.
        """, ("You work as {a}. That sounds interesting!", "So you work as {a}. Good to know."), weight=1.5),
    Family("pet:{k}", "I have a {k} called {v}", "your {k} is called {v}", "the name of your {k}", _pet, """
        What is my {k} called?
        What is the name of my {k}?
        What is my {k}'s name?
        Do you [remember|know|recall] my {k}'s name?
        Tell me the name of my {k}.
        What did I say my {k} is called?
        How is my {k} called?
        Do you know what my {k} is called?
        What's my {k}'s name?
        What do I call my {k}?
        Which name does my {k} have?
        Can you tell me my {k}'s name?
        What was my {k} called again?
        And my {k}, what is it called?
        """, """
        I have a {k} called {v}.
        I have a {k} named {v}.
        My {k} is called {v}.
        My {k}'s name is {v}.
        The name of my {k} is {v}.
        I got a {k} and I named it {v}.
        I own a {k}, its name is {v}.
        At home I have a {k}, {v}.
        We have a {k} called {v}.
        """, ("What a lovely name for a {k}: {v}!", "A {k} called {v}! How nice."), weight=2.5),
    Family("person:{rel}", "my {rel} is called {v}", "your {rel} is called {v}", "your {rel}'s name", _person, """
        What is my {rel}'s name?
        What is my {rel} called?
        What is the name of my {rel}?
        Do you [remember|know|recall] my {rel}'s name?
        Who is my {rel}?
        Tell me my {rel}'s name.
        What's my {rel}'s name?
        What did I say my {rel} is called?
        Can you tell me the name of my {rel}?
        How is my {rel} called?
        Do you know what my {rel} is called?
        What was my {rel}'s name again?
        And what is my {rel} called?
        """, """
        My {rel} is called {v}.
        My {rel}'s name is {v}.
        The name of my {rel} is {v}.
        I have a {rel} called {v}.
        {v} is my {rel}.
        I have a {rel} named {v}.
        {v} is the name of my {rel}.
        My {rel} goes by the name {v}.
        """, weight=2.5),
    Family("lives:{rel}", "my {rel} lives in {v}", "your {rel} lives in {v}", "where your {rel} lives", _relative(world.town), """
        Where does my {rel} live?
        [Which|What] [town|city] does my {rel} live in?
        Do you [remember|know|recall] where my {rel} lives?
        Tell me where my {rel} lives.
        Where did I say my {rel} lives?
        In which town does my {rel} live?
        Where is the home of my {rel}?
        What place does my {rel} live in?
        """),
    Family("does:{rel}", ("my {rel} is {a}", "my {rel} works as {a}"), "your {rel} works as {a}", "your {rel}'s job", _relative_job, """
        What is my {rel}'s job?
        What does my {rel} do?
        What does my {rel} do for a living?
        What does my {rel} work as?
        Do you [remember|know] my {rel}'s job?
        What is the job of my {rel}?
        Tell me what my {rel} does.
        What kind of work does my {rel} do?
        """),
    Family("lives:{who}", "{who} lives in {v}", "{who} lives in {v}", "where {who} lives", _other(world.town), """
        Where does {who} live?
        [Which|What] [town|city] does {who} live in?
        Do you [remember|know|recall] where {who} lives?
        Tell me where {who} lives.
        In which town does {who} live?
        Where is {who}'s home?
        Where did I say {who} lives?
        What place does {who} live in?
        """, """
        {who} lives in {v}.
        My friend {who} lives in {v}.
        I know {who}. {who} lives in {v}.
        {who} moved to {v}.
        {who}'s home is in {v}.
        """, weight=1.5),
    Family("likes:{who}", ("{who} likes {v}", "{who} loves {v}"), "{who} likes {v}", "what {who} likes", _other(lambda t: t.pick(world.FOODS)), """
        What does {who} like?
        Do you [remember|know] what {who} likes?
        Tell me what {who} likes.
        What did I say {who} likes?
        What is it that {who} likes?
        What does {who} love?
        What does {who} like to eat?
        """),
    Family("has:{who}", "{who} has the {v}", "{who} has the {v}", "what {who} has", _other(world.thing), """
        What does {who} have?
        Which thing does {who} have?
        Do you remember what {who} has?
        Tell me what {who} has.
        What did I say {who} has?
        What has {who} got?
        """, """
        {who} has the {v}.
        I gave the {v} to {who}.
        {who} took the {v}.
        I gave {who} the {v}.
        {who} now has the {v}.
        """),
    Family("put:{o}", ("{own} {o} {be} {v}", "I put {own} {o} {v}"), "{your} {o} {be} {v}", "where {your} {o} {be}", _placed, """
        Where {be} {own} {o}?
        Where did I put {own} {o}?
        Do you [remember|know|recall] where {own} {o} {be}?
        Do you know where I put {own} {o}?
        Tell me where {own} {o} {be}.
        Where can I find {own} {o}?
        I cannot find {own} {o}. Where {be} {own} {o}?
        Where did I leave {own} {o}?
        Where did I say {own} {o} {be}?
        I am looking for {own} {o}.
        In what place {be} {own} {o}?
        Where {be} {own} {o} again?
        Have you any idea where I put {own} {o}?
        Help me find {own} {o}.
        """, """
        I put {own} {o} {v}.
        {own} {o} {be} {v}.
        I left {own} {o} {v}.
        I have put {own} {o} {v}.
        I keep {own} {o} {v}.
        I hid {own} {o} {v}.
        You will find {own} {o} {v}.
        I placed {own} {o} {v}.
        Remember that {own} {o} {be} {v}.
        I just put {own} {o} {v}.
        """, weight=4),
    Family("count:{o}", "I have {v} {o}", "you have {v} {o}", "how many {o} you have", _counted, """
        How many {o} do I have?
        How many {o} did I say I have?
        Do you [remember|know] how many {o} I have?
        What number of {o} do I have?
        Tell me how many {o} I have.
        Can you tell me how many {o} I have?
        How many {o} have I got?
        What is the number of my {o}?
        What number of {o} did I say I have?
        Do you know the number of my {o}?
        """, """
        I have {v} {o}.
        I own {v} {o}.
        I've got {v} {o}.
        There are {v} {o} in my room, all mine.
        At home I have {v} {o}.
        """, weight=1.5),
    Family("like", ("I like {v}", "I love {v}", "I enjoy {v}"), "you like {v}", "what you like", lambda t: {"v": t.own(t.pick(world.FOODS) if t.chance(0.5) else t.pick(world.HOBBIES))}, """
        What do I like?
        Do you [remember|know] what I like?
        Tell me what I like.
        What did I say I like?
        What is it that I like?
        What do I love?
        What do I enjoy?
        Do you know what I enjoy?
        What is it that I love?
        Tell me what I enjoy.
        """),
    Family("hate", ("I do not like {v}", "I hate {v}", "I don't like {v}"), "you do not like {v}", "what you do not like", _plain(lambda t: t.pick(world.FOODS)), """
        What do I not like?
        What do I hate?
        Do you remember what I do not like?
        What don't I like?
        Tell me what I do not like.
        What is it that I hate?
        """),
    Family("plays", "I play the {v}", "you play the {v}", "which instrument you play", _plain(lambda t: t.pick(world.INSTRUMENTS)), """
        [Which|What] instrument do I play?
        What do I play?
        Do you remember which instrument I play?
        Tell me what instrument I play.
        What instrument did I say I play?
        Do you know what I play?
        """),
    Family("speaks", "I speak {v}", "you speak {v}", "which language you speak", _plain(lambda t: t.pick(world.LANGUAGES)), """
        [Which|What] language do I speak?
        Do you remember which language I speak?
        Tell me what language I speak.
        What language did I say I speak?
        What do I speak?
        Do you know my language?
        """),
    Family("learns", "I am learning {v}", "you are learning {v}", "what you are learning", _plain(lambda t: t.pick(world.LANGUAGES)), """
        What am I learning?
        Do you remember what I am learning?
        Tell me what I am learning.
        What did I say I am learning?
        Which thing am I learning?
        """),
    Family("goes", "I am going to {v} tomorrow", "you are going to {v} tomorrow", "where you are going tomorrow", _plain(world.town), """
        Where am I going tomorrow?
        Where am I [travelling|going]?
        Do you remember where I am going tomorrow?
        Tell me where I am going tomorrow.
        What place am I going to?
        Where did I say I am going?
        """, """
        Tomorrow I am going to {v}.
        I am going to {v} tomorrow.
        Tomorrow I travel to {v}.
        I will be in {v} tomorrow.
        I'm off to {v} tomorrow.
        """),
    Family("bought", "I bought {a} today", "you bought {a} today", "what you bought", _bought, """
        What did I buy?
        What did I buy today?
        Do you remember what I bought?
        Tell me what I bought.
        What have I bought?
        What did I say I bought?
        """, """
        I bought {a} today.
        Today I bought {a}.
        I just bought {a}.
        I went shopping and bought {a}.
        Guess what, I bought {a}!
        """),
    Family("meal:{m}", "I had {v} for {m}", "you had {v} for {m}", "what you had for {m}", _meal, """
        What did I have for {m}?
        What did I eat for {m}?
        Do you remember what I had for {m}?
        Tell me what I had for {m}.
        What was my {m}?
        What did I say I had for {m}?
        """),
    Family("time:{e}", "{own} {e} is at {v}", "{your} {e} is at {v}", "when {your} {e} is", _event, """
        When is {own} {e}?
        [What|At what] time is {own} {e}?
        Do you [remember|know] when {own} {e} is?
        Tell me when {own} {e} is.
        At which time is {own} {e}?
        When did I say {own} {e} is?
        What is the time of {own} {e}?
        When is {own} {e} again?
        """, weight=1.5),
    Family("time:{e}", "{own} {e} is on {v}", "{your} {e} is on {v}", "when {your} {e} is", _event_day, """
        When is {own} {e}?
        [What|On what|On which] day is {own} {e}?
        Do you [remember|know] when {own} {e} is?
        Tell me when {own} {e} is.
        Which day is {own} {e}?
        When did I say {own} {e} is?
        What is the day of {own} {e}?
        """),
    Family("word", "the word to remember is {v}", "the word is {v}", "a word to remember", _plain(world.word), """
        [Which|What] word did I [tell you|give you]?
        What was the word?
        Do you [remember|recall] the word?
        What is the word I asked you to remember?
        Which word did I ask you to remember?
        Tell me the word.
        What word should you remember?
        What was that word again?
        Say the word that I gave you.
        """, """
        Remember the word {v}.
        Please remember the word {v}.
        Remember this word: {v}
        Keep this word in mind: {v}
        I give you a word to remember: {v}
        Can you remember the word {v} for me?
        The word to remember is {v}.
        Don't forget the word {v}.
        Memorise the word {v}.
        """, ("I will remember the word {v}.", "Okay, the word is {v}.", "Got it: {v}."), weight=2),
    Family("number", "the number to remember is {v}", "the number is {v}", "a number to remember", _plain(world.code), """
        [Which|What] number did I [tell you|give you]?
        What was the number?
        Do you [remember|recall] the number?
        What is the number I asked you to remember?
        Which number did I ask you to remember?
        Tell me the number.
        What number should you remember?
        What was that number again?
        """, """
        Remember the number {v}.
        Please remember the number {v}.
        Remember this number: {v}
        Keep the number {v} in mind.
        I give you a number to remember: {v}
        Can you remember {v} for me?
        The number to remember is {v}.
        Don't forget the number {v}.
        Memorise {v}.
        """, ("I will remember the number {v}.", "Okay, the number is {v}.", "Got it: {v}."), weight=2),
    Family("list", "my list is {v}", "your list is {v}", "your list", _list, """
        What was on my list?
        What is on my list?
        Read me my list.
        Do you remember my list?
        Tell me my list.
        What did I put on my list?
        What is my list?
        """, """
        My list is {v}.
        My shopping list: {v}.
        Remember my list: {v}.
        Put {v} on my list.
        On my list are {v}.
        I need {v}. That is my list.
        """, ("Got it, your list is {v}.", "Your list is {v}."), weight=1),
    Family("{np}", "{np} is {v}", "{yp} is {v}", "{yp}", _named, """
        What is {np}?
        What is {np}?
        What's {np}?
        What was {np} again?
        Do you [remember|know|recall] {np}?
        Do you [remember|know] what {np} is?
        Can you tell me {np}?
        Tell me {np}.
        What did I say {np} was?
        Remind me of {np}.
        Which one is {np}?
        Could you remind me what {np} is?
        I forgot {np}. What is it?
        What did I tell you about {np}?
        Have I told you {np}?
        Please tell me what {np} is.
        What have I said {np} is?
        I would like to hear {np}.
        So what is {np}?
        And what is {np}?
        What do you know about {np}?
        Can you recall {np}?
        {np}?
        And {np}?
        """, """
        {np} is {v}.
        {np} is {v}.
        {v} is {np}.
        I think {np} is {v}.
        {np}: {v}
        You may want to know that {np} is {v}.
        I can tell you that {np} is {v}.
        I must say {np} is {v}.
        If you ask me, {np} is {v}.
        Let us say {np} is {v}.
        """, weight=9),
)
_WEIGHTS = []
for _family in FAMILIES:
    _WEIGHTS += [_family] * round(_family.weight * 4)
WEIGHTED = tuple(_WEIGHTS)
BY_KEY = {family.key: family for family in FAMILIES}
ABOUT_USER = frozenset(("name", "town", "origin", "age", "job", "pet:{k}", "person:{rel}", "like", "hate", "plays", "speaks", "{np}"))
