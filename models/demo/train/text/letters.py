# SPDX-License-Identifier: GPL-3.0-or-later
"""Letters and numbers as things: capitals, spelling, counting, first and last, order, larger and smaller.

A small model cannot spell a word whose letters it never saw, so what evaluation keeps back is the task for a
word, not the word: each word is trained in the other tasks.
"""
from . import world
from .draw import Wordings, below, held, pick

ALL_WORDS = tuple(w for w in dict.fromkeys(
    tuple(world.WORDS.all) + tuple(world.ANIMALS.all) + tuple(world.OBJECTS.all) + tuple(world.FRUITS.all) + tuple(world.FLOWERS.all)
    + tuple(n for n in world.NAMES.all) + tuple(world.COLOURS.all)) if w.isascii() and w.isalpha() and 3 <= len(w) <= 8)

UPPER = Wordings("""
Write {w} in capital letters.
Write {w} in capitals.
Put {w} in [capitals|capital letters].
Write {w} in upper case.
Make {w} upper case.
Can you write {w} in big letters?
Say {w} in capital letters.
Capitalise {w}.
How does {w} look in capital letters?
Turn {w} into capital letters.
{w} in capital letters
Uppercase {w}.
What is {w} in capital letters?
""")
COUNT = Wordings("""
How many letters does {w} have?
How many letters are in {w}?
How many letters are in the word {w}?
Count the letters of {w}.
Count the letters in {w}.
How long is the word {w}?
What is the number of letters in {w}?
Tell me how many letters {w} has.
How many letters has the word {w}?
{w} has how many letters?
""")
SPELL = Wordings("""
Spell {w}.
How do you spell {w}?
Can you spell {w}?
Spell the word {w}.
How is {w} spelled?
Please spell {w} for me.
Spell out {w}.
Tell me the letters of {w}.
What are the letters of {w}?
How do I spell {w}?
""")
FIRST = Wordings("""
What is the first letter of {w}?
Which letter does {w} begin with?
What letter does {w} start with?
First letter of {w}?
With which letter does {w} start?
Tell me the first letter of {w}.
How does {w} begin?
{w} starts with which letter?
""")
LAST = Wordings("""
What is the last letter of {w}?
Which letter does {w} end with?
What letter does {w} end in?
Last letter of {w}?
With which letter does {w} end?
Tell me the last letter of {w}.
How does {w} end?
{w} ends with which letter?
""")
BACKWARDS = Wordings("""
Write {w} backwards.
Spell {w} backwards.
What is {w} backwards?
Reverse {w}.
Say {w} backwards.
Turn {w} around.
Reverse the word {w}.
How does {w} look backwards?
""")


def _word(talk, task, longest=8):
    while True:
        word = pick(talk.rng, ALL_WORDS)
        if len(word) <= longest and held(task + word.lower(), 12) == (talk.split != "train"):
            return talk.own(word)


def _shown(talk, word):
    draw = talk.rng.random()
    return word if draw < 0.7 else '"%s"' % word if draw < 0.87 else "'%s'" % word


def _spelled(word):
    """Answers spell a word before they do something with its letters: what a small model has written, it can use."""
    return "-".join(word.lower())


def _ask(talk, wordings, word):
    return talk.user(wordings, w=_shown(talk, word))


def upper(talk):
    word = _word(talk, "u")
    return [(_ask(talk, UPPER, word), "%s: %s" % (_spelled(word), word.upper()), (word.upper(),), ())]


def count(talk):
    word = _word(talk, "c")
    answer = "The word %s, %s, has %d letters." % (word, _spelled(word), len(word))
    return [(_ask(talk, COUNT, word), answer, (str(len(word)),), ())]


def spell(talk):
    word = _word(talk, "s")
    spelled = _spelled(word)
    return [(_ask(talk, SPELL, word), spelled, (spelled,), ())]


def first(talk):
    word = _word(talk, "f")
    return [(_ask(talk, FIRST, word), "The first letter of %s is %s." % (word, word[0].upper()), ("is " + word[0].upper(),), ())]


def last(talk):
    word = _word(talk, "l")
    return [(_ask(talk, LAST, word), "The last letter of %s is %s." % (word, word[-1].upper()), ("is " + word[-1].upper(),), ())]


def backwards(talk):
    word = _word(talk, "b", 5)
    turned = word.lower()[::-1]
    return [(_ask(talk, BACKWARDS, word), "%s: %s" % (_spelled(word), turned), (turned,), ())]


SORT = Wordings("""
Sort {a}, {b} and {c}.
Sort {a}, {b}, {c}.
Put {a}, {b} and {c} in order.
Order {a}, {b}, {c}.
Put these numbers in order: {a}, {b}, {c}
Sort these numbers: {a} {b} {c}
Can you sort {a}, {b} and {c}?
Arrange {a}, {b} and {c} from small to large.
{a}, {b}, {c} in order
Sort {a} {b} {c} from the smallest to the largest.
Bring {a}, {b} and {c} into order.
What is the right order of {a}, {b} and {c}?
""")
DOWN = Wordings("""
Sort {a}, {b} and {c} from large to small.
Sort {a}, {b}, {c} in reverse order.
Put {a}, {b} and {c} in order, the largest first.
Order {a}, {b}, {c} from the largest to the smallest.
Arrange {a}, {b} and {c} from large to small.
Sort {a}, {b} and {c}, the largest first.
Put {a}, {b}, {c} in falling order.
Sort these numbers from large to small: {a} {b} {c}
""")
LARGER = Wordings("""
Which is [larger|bigger], {a} or {b}?
What is [more|larger|bigger], {a} or {b}?
Is {a} or {b} [larger|bigger]?
Which number is [larger|bigger]: {a} or {b}?
Tell me which is larger, {a} or {b}.
Which of {a} and {b} is larger?
{a} or {b}, which is [larger|bigger]?
What is the larger one of {a} and {b}?
""")
SMALLER = Wordings("""
Which is smaller, {a} or {b}?
What is [less|smaller], {a} or {b}?
Is {a} or {b} smaller?
Which number is smaller: {a} or {b}?
Tell me which is smaller, {a} or {b}.
Which of {a} and {b} is smaller?
{a} or {b}, which is smaller?
What is the smaller one of {a} and {b}?
""")
MOST = Wordings("""
Which is the largest of {a}, {b} and {c}?
What is the largest number of {a}, {b}, {c}?
Which is the biggest: {a}, {b} or {c}?
Find the largest of {a}, {b} and {c}.
Which number is the largest, {a}, {b} or {c}?
Tell me the largest of {a}, {b}, {c}.
""")
EVEN = Wordings("""
Is {a} even or odd?
Is {a} odd or even?
Is {a} an even number?
Is {a} an odd number?
Even or odd: {a}?
Tell me if {a} is even or odd.
{a}: even or odd?
Is the number {a} even?
""")
NEXT = Wordings("""
Which number comes after {a}?
What comes after {a}?
What is the next number after {a}?
Which number follows {a}?
What number is after {a}?
Tell me the number after {a}.
""")
PREVIOUS = Wordings("""
Which number comes before {a}?
What comes before {a}?
What number is before {a}?
Tell me the number before {a}.
What is the number just before {a}?
Which number is one less than {a}?
""")
COUNT_TO = Wordings("""
Count to {b}.
Can you count to {b}?
Count from 1 to {b}.
Count up to {b}.
Please count to {b} for me.
Count from one to {b}.
""")
COUNT_DOWN = Wordings("""
Count down from {b}.
Count backwards from {b}.
Count from {b} down to 1.
Can you count down from {b}?
Do a countdown from {b}.
Count back from {b} to 1.
""")
LETTER_AFTER = Wordings("""
Which letter comes after {a}?
What letter comes after {a}?
What is the letter after {a}?
Which letter follows {a} in the alphabet?
What comes after the letter {a}?
Tell me the letter after {a}.
""")
LETTER_BEFORE = Wordings("""
Which letter comes before {a}?
What letter comes before {a}?
What is the letter before {a}?
What comes before the letter {a}?
Which letter stands before {a} in the alphabet?
Tell me the letter before {a}.
""")


def _numbers(talk, n, top=99):
    while True:
        out = [below(talk.rng, 0, top if talk.chance(0.85) else 999) for _ in range(n)]
        if len(set(out)) == n and held(" ".join(map(str, out)), 9) == (talk.split != "train"):
            return out


def order(talk):
    numbers = _numbers(talk, 3)
    a, b, c = numbers
    down = talk.chance(0.25)
    sorted_ = ", ".join(map(str, sorted(numbers, reverse=down)))
    return [(talk.user(DOWN if down else SORT, a=a, b=b, c=c), sorted_ + ".", (sorted_,), ())]


def compare(talk):
    if talk.chance(0.25):
        numbers = _numbers(talk, 3)
        a, b, c = numbers
        most = max(numbers)
        return [(talk.user(MOST, a=a, b=b, c=c), "The largest is %d." % most, (str(most),), ())]
    a, b = _numbers(talk, 2)
    low, high = min(a, b), max(a, b)
    if talk.chance(0.6):
        return [(talk.user(LARGER, a=a, b=b), "%d is larger than %d." % (high, low), ("%d is larger" % high,), ())]
    return [(talk.user(SMALLER, a=a, b=b), "%d is smaller than %d." % (low, high), ("%d is smaller" % low,), ())]


def even(talk):
    a = below(talk.rng, 0, 200)
    kind = "odd" if a % 2 else "even"
    return [(talk.user(EVEN, a=a), "%d is %s." % (a, kind), (kind,), ("odd" if kind == "even" else "even",))]


def neighbour(talk):
    draw = talk.rng.random()
    if draw < 0.35:
        a = below(talk.rng, 0, 199)
        return [(talk.user(NEXT, a=a), "After %d comes %d." % (a, a + 1), (str(a + 1),), ())]
    if draw < 0.6:
        a = below(talk.rng, 1, 200)
        return [(talk.user(PREVIOUS, a=a), "Before %d comes %d." % (a, a - 1), (str(a - 1),), ())]
    i = below(talk.rng, 0, 24)
    a, b = chr(65 + i), chr(66 + i)
    if draw < 0.8:
        return [(talk.user(LETTER_AFTER, a=a), "After %s comes %s." % (a, b), ("comes " + b,), ())]
    return [(talk.user(LETTER_BEFORE, a=b), "Before %s comes %s." % (b, a), ("comes " + a,), ())]


def counting(talk):
    b = below(talk.rng, 3, 20)
    if talk.chance(0.7):
        said = ", ".join(map(str, range(1, b + 1)))
        return [(talk.user(COUNT_TO, b=b), said + ".", (said,), ())]
    said = ", ".join(map(str, range(min(b, 10), 0, -1)))
    return [(talk.user(COUNT_DOWN, b=min(b, 10)), said + ".", (said,), ())]


_TASKS = (upper,) * 5 + (count,) * 4 + (spell,) * 6 + (first,) * 3 + (last,) * 3 + (backwards,) + (order,) * 6 + (compare,) * 5 + (even,) * 2 + (neighbour,) * 3 + (counting,)


def ask(talk):
    return pick(talk.rng, _TASKS)(talk)
