# SPDX-License-Identifier: GPL-3.0-or-later
"""Small sums. An answer repeats the sum in digits and then gives the result: "12 + 7 = 19."

Pairs of numbers are partitioned for + and -: evaluation asks pairs that training never shows. For + the pair is
unordered, and pairs up to 10 are always trained. Products and quotients are facts, known or not: all are trained.
"""
from . import world
from .draw import Wordings, below, held, pick

_ONES = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
         "eighteen nineteen").split()
_TENS = "zero ten twenty thirty forty fifty sixty seventy eighty ninety".split()


def words(n):
    if n < 20:
        return _ONES[n]
    if n < 100:
        return _TENS[n // 10] + ("-" + _ONES[n % 10] if n % 10 else "")
    return str(n)


NAKED = Wordings("""
{a} {o} {b}
{a}{o}{b}
{a} {o} {b}?
{a}{o}{b}?
{a} {o} {b} =
{a}{o}{b}=
{a} {o} {b} = ?
What is {a} {o} {b}?
What is {a}{o}{b}?
What's {a} {o} {b}?
How much is {a} {o} {b}?
Calculate {a} {o} {b}.
[Compute|Work out] {a} {o} {b}.
What does {a} {o} {b} [make|give|equal]?
Can you [calculate|compute|solve] {a} {o} {b}?
Tell me {a} {o} {b}.
Do you know what {a} {o} {b} is?
What do you get for {a} {o} {b}?
Please [solve|add up|do] {a} {o} {b}.
I need {a} {o} {b}.
Give me the [result|answer] of {a} {o} {b}.
What is the [result|answer] of {a} {o} {b}?
How much does {a} {o} {b} make?
{a} {o} {b} is?
{a} {o} {b} makes?
Is it hard for you to work out {a} {o} {b}?
""")
PLUS_ASK = Wordings("""
What is the sum of {a} and {b}?
Add {a} and {b}.
Add {b} to {a}.
What do {a} and {b} make together?
Sum up {a} and {b}.
How much is {a} and {b}?
What do you get when you add {b} to {a}?
If I add {b} to {a}, what do I get?
{a} and {b} together?
What is {b} more than {a}?
Can you add {a} and {b}?
How much do {a} and {b} make?
""")
MINUS_ASK = Wordings("""
What is the difference between {a} and {b}?
Subtract {b} from {a}.
Take {b} away from {a}.
Take {b} from {a}.
What do you get when you take {b} away from {a}?
If I take {b} from {a}, what is left?
What is {a} less {b}?
What is {b} less than {a}?
How much is left when you take {b} from {a}?
{a} take away {b}
Can you subtract {b} from {a}?
""")
TIMES_ASK = Wordings("""
Multiply {a} by {b}.
What is the product of {a} and {b}?
What is {a} multiplied by {b}?
{a} multiplied by {b}
Multiply {a} and {b}.
Can you multiply {a} by {b}?
What do you get when you multiply {a} by {b}?
How much is {a} multiplied by {b}?
If I multiply {a} by {b}, what do I get?
""")
DIVIDE_ASK = Wordings("""
Divide {a} by {b}.
What is {a} divided by {b}?
{a} divided by {b}
How many times does {b} go into {a}?
How much is {a} divided by {b}?
Can you divide {a} by {b}?
How often does {b} fit into {a}?
If I divide {a} by {b}, what do I get?
Share {a} between {b}.
""")
ASKS = {"+": PLUS_ASK, "-": MINUS_ASK, "x": TIMES_ASK, "/": DIVIDE_ASK}
SIGNS = {"+": ("+", "+", "+", "plus"), "-": ("-", "-", "-", "minus"), "x": ("x", "*", "*", "times", "times"), "/": ("/", "/", "divided by")}
RESULT = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "x": lambda a, b: a * b, "/": lambda a, b: a // b}


def kept_back(op, a, b):
    """Whether evaluation owns this sum."""
    if op == "+":
        low, high = (a, b) if a < b else (b, a)
        return (low > 10 or high > 10) and held("%d+%d" % (low, high), 13)
    if op == "-":
        return (a > 20 or b > 10) and held("%d-%d" % (a, b), 13)
    return False


def _draw(rng, op):
    size = rng.random()
    if op in "+-":
        top = 20 if size < 0.25 else 99 if size < 0.93 else 999
        a, b = below(rng, 0, top), below(rng, 0, top if rng.random() < 0.7 else 12)
        if op == "-" and a < b and rng.random() < 0.9:
            a, b = b, a
        elif op == "+" and rng.random() < 0.5:
            a, b = b, a
        return a, b
    if op == "x":
        top = 10 if size < 0.45 else 12 if size < 0.85 else 20
        a, b = below(rng, 0 if size < 0.1 else 2, top), below(rng, 0 if size < 0.1 else 2, top)
        if size > 0.97:
            b = pick(rng, (10, 100))
        return a, b
    b = below(rng, 1, 12)
    return b * below(rng, 1, 12), b


def draw(talk, op):
    """A pair of numbers of this split. Evaluation stays below 100."""
    rng, train = talk.rng, talk.split == "train"
    while True:
        a, b = _draw(rng, op)
        if (op in "x/" or kept_back(op, a, b) != train) and (train or max(a, b) < 100):
            return a, b


def statement(op, a, b):
    return "%d %s %d = %d" % (a, op, b, RESULT[op](a, b))


def _turn(user, op, a, b):
    return (user, statement(op, a, b) + ".", ("%d" % RESULT[op](a, b),), ())


def _op(talk):
    draw_ = talk.rng.random()
    return "+" if draw_ < 0.38 else "-" if draw_ < 0.65 else "x" if draw_ < 0.92 else "/"


def ask(talk, op=None):
    op = op or _op(talk)
    a, b = draw(talk, op)
    as_words = talk.chance(0.18)
    x, y = (words(a), words(b)) if as_words else (str(a), str(b))
    if talk.chance(0.66):
        sign = pick(talk.rng, SIGNS[op])
        text = talk.pick(NAKED)
        if as_words and sign in "+-x*/":
            sign = SIGNS[op][-1]
        if len(sign) > 1:
            text = text.replace("{a}{o}{b}", "{a} {o} {b}")
        user = talk.user((text,), a=x, b=y, o=sign)
    else:
        user = talk.user(ASKS[op], a=x, b=y)
    return [_turn(user, op, a, b)]


CHAIN = {
    "+": Wordings("""
And plus {b}?
Plus {b}?
Now add {b}.
Add {b} to that.
And if you add {b}?
And {b} more?
Add {b} more.
Plus {b}
And what if I add {b}?
Now plus {b}.
"""),
    "-": Wordings("""
And minus {b}?
Minus {b}?
Now subtract {b}.
Take {b} away from that.
And if you take {b} away?
And {b} less?
Subtract {b} from that.
Minus {b}
Now minus {b}.
"""),
    "x": Wordings("""
And times {b}?
Times {b}?
Now multiply that by {b}.
Multiply it by {b}.
And that times {b}?
Now times {b}.
"""),
}


def chain(talk):
    """A sum and one to three steps that go on from its result."""
    turns = ask(talk, pick(talk.rng, "++-x"))
    value = int(turns[0][2][0])
    if value < 0 or value > 150:
        return turns
    for _ in range(below(talk.rng, 1, 3)):
        for _try in range(30):
            op = pick(talk.rng, "++--x") if value <= 12 else pick(talk.rng, "++-")
            b = below(talk.rng, 2, 12 if op == "x" else min(value, 50) if op == "-" else 50)
            train = talk.split == "train"
            if (op != "-" or 0 < b <= value) and (not kept_back(op, value, b) or not train):
                break
        else:
            return turns
        user = talk.user(CHAIN[op], plain=True, b=str(b))
        turns.append(_turn(user, op, value, b))
        value = RESULT[op](value, b)
        if value > 150:
            break
    return turns


STORY_PLUS = Wordings("""
{n} has {a} {things} and gets {b} more. How many {things} does {n} have?
I have {a} {things} and buy {b} more. How many {things} do I have now?
There are {a} {things} on the table and {b} on the floor. How many {things} are there in all?
{n} has {a} {things} and {m} has {b}. How many do they have together?
{n} found {a} {things} on Monday and {b} on Tuesday. How many {things} is that?
A box holds {a} {things}. I put {b} more in. How many {things} are in the box?
In the morning {n} counts {a} {things}, in the evening {b} more. How many in total?
I bought {a} {things} and {n} gave me {b}. How many {things} is that altogether?
If you have {a} {things} and I give you {b}, how many do you have?
""")
STORY_MINUS = Wordings("""
{n} has {a} {things} and gives away {b}. How many {things} are left?
I have {a} {things} and lose {b}. How many {things} do I have left?
There are {a} {things} in a basket. {n} takes {b}. How many remain?
{n} had {a} {things} and sold {b}. How many {things} does {n} still have?
From {a} {things}, {b} are broken. How many are whole?
I bought {a} {things} and gave {n} {b} of them. How many are left for me?
A shop has {a} {things} and sells {b}. How many {things} are left in the shop?
If I take {b} of {a} {things}, how many {things} are left?
""")
STORY_TIMES = Wordings("""
There are {a} boxes with {b} {things} each. How many {things} are there?
{n} buys {a} bags with {b} {things} in each. How many {things} is that?
A row has {b} {things}. How many {things} are in {a} rows?
{a} friends bring {b} {things} each. How many {things} do they bring?
{n} has {a} shelves with {b} {things} on each shelf. How many {things} in all?
Each of {a} children has {b} {things}. How many {things} do they have together?
""")
_TAILS = {"+": ("in all", "together"), "-": ("left", "left"), "x": ("in all", "in all")}


def story(talk):
    """A sum told as a small tale."""
    op = pick(talk.rng, "++--x")
    while True:
        a, b = draw(talk, op)
        if a >= 2 and b >= 2 and a < 100 and b < 100 and (op != "-" or a > b):
            break
    things = talk.pick(world.THINGS)
    wordings = {"+": STORY_PLUS, "-": STORY_MINUS, "x": STORY_TIMES}[op]
    user = talk.user(wordings, plain=True, a=str(a), b=str(b), things=things, n=talk.pick(world.NAMES), m=talk.pick(world.NAMES))
    result = RESULT[op](a, b)
    answer = "%s: %d %s %s." % (statement(op, a, b), result, things if result != 1 else "is", _TAILS[op][0])
    if result == 1:
        answer = statement(op, a, b) + ": only one is left."
    return [(user, answer, (str(result),), ())]


DOUBLE = Wordings("""
What is [double|twice] {a}?
Double {a}.
What is two times {a}?
How much is twice {a}?
What is the double of {a}?
Can you double {a}?
""")
HALF = Wordings("""
What is half of {a}?
Half of {a}?
Halve {a}.
How much is half of {a}?
What's one half of {a}?
Can you halve {a}?
""")
SQUARE = Wordings("""
What is {a} squared?
What is the square of {a}?
{a} squared
Square {a}.
How much is {a} squared?
""")


def special(talk):
    """Doubles, halves and squares, three numbers, and what is too big."""
    rng = talk.rng
    draw_ = rng.random()
    if draw_ < 0.25:
        a = below(rng, 1, 50)
        return [_turn(talk.user(DOUBLE, a=a), "x", 2, a)]
    if draw_ < 0.45:
        a = below(rng, 1, 50)
        return [_turn(talk.user(HALF, a=2 * a), "/", 2 * a, 2)]
    if draw_ < 0.6:
        a = below(rng, 1, 20)
        return [_turn(talk.user(SQUARE, a=a), "x", a, a)]
    if draw_ < 0.8:
        a, b, c = below(rng, 1, 20), below(rng, 1, 20), below(rng, 1, 20)
        user = talk.user(THREE, a=a, b=b, c=c)
        return [(user, "%d + %d + %d = %d." % (a, b, c, a + b + c), (str(a + b + c),), ())]
    op = pick(rng, "+-xx//")
    big = below(rng, 1000, 99999)
    other = below(rng, 21, 9999)
    if op == "x" and rng.random() < 0.5:
        big = below(rng, 21, 999)
    user = talk.user(NAKED, a=big, b=other, o=pick(rng, SIGNS[op]))
    return [(user, pick(rng, TOO_BIG), ("too big",), ())]


THREE = Wordings("""
{a} + {b} + {c}
{a}+{b}+{c}
What is {a} + {b} + {c}?
What is {a}+{b}+{c}?
How much is {a} plus {b} plus {c}?
Add {a}, {b} and {c}.
What is the sum of {a}, {b} and {c}?
""")
TOO_BIG = ("That is too big for me, sorry. I only do small sums.", "Those numbers are too big for me. Small sums work better.")
