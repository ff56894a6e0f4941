# SPDX-License-Identifier: GPL-3.0-or-later
"""Short stories and poems with a hero, a place and a theme that the user asks for.

A story is a chain of beats: opening, wish, way, trouble, help, end, moral. A plot fixes what the beats are about,
so that the beginning and the end belong together; each beat has several wordings.
"""
from . import world
from .draw import Values, Wordings, an, pick, upper_first

KINDS = Values("""cat, dog, fox, bear, rabbit, owl, dragon, robot, mouse, penguin, hedgehog, wizard, pirate, knight, sailor, baker, frog, turtle,
otter, squirrel, wolf, lion, elephant, horse, duck, goose, snail, crow, princess, king, queen, farmer, fisherman, giant, ghost, clown, witch,
tailor, girl, boy, monkey, parrot, whale, beaver, badger, donkey, goat, hen, moose, panda, koala, seal, bee, ant, butterfly, teapot, cloud,
snowman, clock, lamp, train, boat, tree, star, kite, pencil""")
PLACES = Values("""by the sea, in the forest, on a small island, in the mountains, in an old castle, in a quiet village, on the moon, in a big city,
under the old bridge, in the desert, near the lake, in a lighthouse, on a farm, in the garden, in a library, in the snow, on a ship, in a valley,
at the edge of the wood, in a windmill, at the end of the street, in a bakery, on a hill, in a tower, by the river, in the north, in a train station""")
THEMES = ("friendship", "courage", "home", "patience", "kindness", "luck", "music", "the sea", "winter", "a journey", "a secret", "a storm", "a lost key", "honesty", "sharing", "dreams")

ASK = Wordings("""
Tell me a story about {h}.
Tell me a story about {h} {p}.
Write a story about {h}.
Write a short story about {h}.
Write a short story about {h} {p}.
Can you tell me a story about {h}?
I want a story about {h} {p}.
A story about {h}, please.
Make up a story about {h}.
Make up a story about {h} {p}.
Tell a short story about {h}.
I would like to hear a story about {h}.
Story about {h} {p}
Please tell me a tale about {h}.
Invent a story about {h}.
Let me hear a story about {h} {p}.
""")
ASK_NAMED = Wordings("""
Tell me a story about {h} called {n}.
Tell me a story about {h} named {n}.
Tell me a story about {h} named {n} {p}.
Write a story about {h} called {n}.
Write a short story about {h} called {n} {p}.
Make up a story about {n}, {h}.
A story about {h} called {n}, please.
Can you tell a story about {h} called {n}?
Tell me a story with {h} called {n}.
I want a story about {h} named {n}.
""")
ASK_NAME = Wordings("""
Tell me a story about {n}.
Write a story about {n}.
Can you tell me a story about {n}?
Tell me a story about {n} {p}.
A story about {n}, please.
Make up a story about {n}.
Tell a short story with {n}.
I want to hear a story about {n}.
""")
ASK_THEME = Wordings("""
Tell me a story about {h} and {t}.
Write a story about {h} and {t}.
Write a short story about {t} with {h}.
Tell me a story of {t} with {h}.
I want a story about {h} and {t}.
Make up a story about {h} and {t}.
""")
ASK_ANY = Wordings("""
Tell me a story.
Tell me a story!
Write a story.
Can you tell me a story?
I want to hear a story.
A story, please.
Tell me a bedtime story.
story
Please tell me a tale.
Do you know a story?
Write a short story.
Tell me something before I sleep.
""")

OPENINGS = (
    "Once there was {h} called {n} who lived {p}.", "{P} lived {h} called {n}.", "Long ago, {h} called {n} lived {p}.",
    "There was once {h} named {n}, and {n} lived {p}.", "{n} was {h} and lived {p}.",
)
NAME_OPENINGS = ("Once there was somebody called {n} who lived {p}.", "{P} lived {n}.", "Long ago, {n} lived {p}.", "{n} lived {p}, in a house with a blue door.")
MORNINGS = ("One morning", "One day", "On a cold morning", "On a bright day", "One evening", "On the first day of spring", "One rainy day", "On a windy afternoon")

# A plot: sentences of a beginning, a middle and an end; {f} is a friend's name, {k} the friend's kind, {o} an object, {d} a way of life.
PLOTS = (
    (("{n} had a small {o} and kept it very safe.", "{n} owned only one thing, a small {o}.", "The dearest thing that {n} had was a small {o}."),
     ("{M} the {o} was gone.", "{M} {n} woke up, and the {o} was gone.", "{M} {n} could not find the {o}."),
     ("{n} looked under every stone and behind every door.", "{n} searched the whole day and asked everybody.", "{n} looked here and there, high and low, but found nothing."),
     ("Then {k} called {f} came by and said: \"I will help you look.\"", "At noon {n} met {k} named {f}, who offered to help.", "A voice said: \"Two see more than one.\" It was {f}, {ak} from next door."),
     ("Together they found the {o} in a nest, where a bird had used it as a pillow.", "{f} had good eyes and saw the {o} at the bottom of the well.", "They followed small tracks in the mud and found the {o} under a leaf."),
     ("{n} was so glad that they shared the {o} from that day on.", "From then on the {o} belonged to both of them.", "{n} thanked {f}, and they had tea until the stars came out.")),
    (("{n} wanted to see what lay behind the hill.", "All {n} ever wished for was to see the world behind the hill.", "Every evening {n} looked at the hill and wondered what was behind it."),
     ("{M} {n} packed some bread and a {o} and set off.", "{M} {n} took a {o} and a piece of cheese and started to walk.", "{M} {n} closed the door and left, with only a {o} to carry."),
     ("The way was long, and the wind was strong.", "The path was steep, and soon it began to rain.", "After an hour the path ended at a wide river."),
     ("{k} called {f} sat there and knew a better way.", "Luckily {n} met {k} called {f} who knew the way.", "There sat {f}, {ak}, who said: \"Come with me, I know the way.\""),
     ("Side by side they reached the top and saw a valley full of flowers.", "When they came to the top, they saw the sea shining in the sun.", "Behind the hill there was another hill, and on it a house with a light in the window."),
     ("In the evening {n} went home and had a story to tell.", "{n} wrote it all down and came back every year.", "\"The best part was the walk with you,\" said {n}.")),
    (("{n} was afraid of the dark.", "Everybody knew that {n} was afraid of the dark.", "{n} was brave by day, but afraid of the dark."),
     ("{M} a storm came up and all the lights went out.", "{M} black clouds came, and it grew dark at noon.", "{M} the wind blew out every lamp."),
     ("Then {n} heard somebody cry for help.", "Somewhere outside a small voice called for help.", "In the dark a voice was calling."),
     ("It was {f}, {ak} who had lost the way.", "It was {k} called {f}, alone in the rain.", "{f}, {ak}, was stuck in the mud and could not get out."),
     ("{n} took a deep breath, held the {o} tight and went out into the night.", "With a {o} in one hand {n} walked step by step towards the voice.", "{n} counted to ten, took a {o} and ran outside."),
     ("They came home wet but happy, and {n} was never afraid of the dark again.", "Later they sat by the fire, and the dark outside looked soft and friendly.", "\"You are very brave,\" said {f}, and {n} knew that it was true.")),
    (("{n} loved music more than anything.", "{n} made music all day long.", "Nobody loved music as much as {n} did."),
     ("{M} {n} found an old {o} and heard that it hummed.", "{M} {n} discovered that a {o} can make a fine sound.", "{M} {n} tapped on a {o}, and it rang like a bell."),
     ("At first the neighbours laughed.", "At first it sounded like a cat in a bucket.", "The first song was short and a little wrong."),
     ("But {f}, {ak}, stopped and listened.", "Only {k} called {f} stayed to listen.", "Then {f} came along, {ak} with a big drum."),
     ("They practised every evening, and the songs grew better and better.", "So they played together until the moon came up.", "Day after day they played, and more and more friends came to hear them."),
     ("In the end the whole place danced, and nobody laughed any more.", "At the summer feast they played for everybody, and it was the best feast of all.", "Even today you can hear them, if you are very quiet.")),
    (("{n} had no friend yet.", "{n} was new there and did not know anybody.", "{n} was kind, but very shy."),
     ("{M} {n} baked a big cake.", "{M} {n} made a pot of warm soup.", "{M} {n} put a table and two chairs outside."),
     ("\"Who will eat this with me?\" thought {n}.", "It was far too much for one.", "{n} waited and waited, and nobody came."),
     ("Then {k} called {f} came along the road, tired and hungry.", "Then it knocked at the door: it was {f}, {ak} with a small {o}.", "At last {f} looked around the corner, {ak} with hungry eyes."),
     ("\"There is enough for two,\" said {n}, and they ate until nothing was left.", "They ate and talked and laughed until late.", "{f} told a funny story, and {n} laughed for the first time in weeks."),
     ("Since that day they have eaten together every Sunday.", "The next day {f} came back, and the day after, too.", "That is how {n} found a friend for life.")),
    (("{n} wanted to build a boat.", "{n} had a plan: a boat of wood and paper.", "All winter {n} drew plans for a boat."),
     ("{M} {n} began with a {o} and a heap of old wood.", "{M} {n} fetched wood, rope and a {o} and started to build.", "{M} the first nail went into the wood, and a {o} became the flag."),
     ("The first boat sank at once.", "The first boat had a hole and filled with water.", "The first boat turned over and threw {n} into the water."),
     ("\"Try again,\" said {f}, {ak} who had been watching.", "{f}, {ak}, brought a rope and said: \"Once more!\"", "But {k} called {f} knew how to close the hole."),
     ("They worked for seven days, and the second boat floated like a duck.", "Bit by bit the boat grew strong, and it floated.", "The second boat was smaller, but it was as dry as bread."),
     ("Now they sail together whenever the sun shines.", "They sailed out and waved to everybody on the shore.", "On its side they painted one word: Patience.")),
    (("{n} found a strange egg.", "{n} found a round blue egg in the grass.", "Behind the house {n} found a warm egg."),
     ("{n} put it into a hat and kept it warm.", "{n} wrapped it up and sat beside it all night.", "{n} told it a story every evening."),
     ("{M} the egg began to crack.", "{M} there was a knock from inside the egg.", "{M} the egg shook and rolled across the floor."),
     ("Out came {k}, no bigger than a thumb.", "Out climbed {k}, very small and very wet.", "A tiny nose came out: it was {k}!"),
     ("{n} called it {f} and fed it with crumbs.", "\"I will call you {f},\" said {n}.", "It looked at {n} and sneezed, and {n} named it {f}."),
     ("{f} grew and grew, and the two were never apart.", "In autumn {f} left to see the world, but came back in spring.", "And when {n} was old, {f} told the stories.")),
    (("{n} wanted to be the fastest of all.", "{n} was slow and did not like it.", "There was a big race every year, and {n} had never won it."),
     ("{M} the race began, and everybody ran.", "{M} it was time for the race.", "{M} all runners stood in a row and waited for the bell."),
     ("{n} ran as fast as the wind.", "After a minute {n} was the last one.", "Halfway through, {n} was close to the front."),
     ("Then {n} saw {f}, {ak} who had fallen and hurt a foot.", "By the road sat {k} called {f} who could not go on.", "Suddenly {f}, {ak}, fell into a ditch."),
     ("{n} stopped, gave {f} a hand and carried the {o} for the rest of the way.", "{n} did not think twice and helped {f} up.", "{n} turned around and pulled {f} out."),
     ("They came in last, and everybody cheered the loudest for them.", "They lost the race but won a friend, and {n} thought that it was a good trade.", "The prize went to another, but {n} smiled all the way home.")),
    (("{n} planted a seed.", "{n} had one seed and a pot of earth.", "In spring {n} put a seed into the ground."),
     ("Every day {n} gave it water and waited.", "{n} sang to it and gave it water from a cup.", "{n} looked at it every morning, but nothing happened."),
     ("\"It will never grow,\" said the neighbours.", "A week went by, and then another.", "{n} almost lost hope."),
     ("Only {f}, {ak}, said: \"Good things need time.\"", "{k} called {f} sat down and waited, too.", "But {f}, {ak}, kept the birds away."),
     ("{M} a green tip came out of the earth.", "{M} there was a leaf, and then a second one.", "{M} a small plant stood there and stretched."),
     ("By autumn it was a tree, and its apples were enough for everybody.", "It became the tallest sunflower that anybody had ever seen.", "Today they sit in its shade and tell this story.")),
    (("{n} had a secret map.", "{n} found a map inside an old {o}.", "An old map hung in the kitchen of {n}."),
     ("It showed a cross, three trees and a river.", "On it there was a red cross and a drawing of a {o}.", "It said: go where the shadow ends at noon."),
     ("{M} {n} went to look for the treasure.", "{M} {n} took a lamp and followed the map.", "{M} {n} could not wait any longer and set out."),
     ("On the way {f}, {ak}, joined in.", "{k} called {f} asked: \"May I come along?\"", "At the river {f}, {ak}, helped to build a raft."),
     ("They dug until evening and found a wooden box.", "Under the third tree there was a box.", "At the red cross they dug a deep hole and found a chest."),
     ("Inside was a letter: \"The treasure is the one who digs with you.\"", "It was full of old toys, and they gave one to every child.", "There was only a mirror in it, and in the mirror they saw two friends.")),
)
MORALS = ("And that was the beginning of many more adventures.", "Since then, {n} sleeps well every night.", "And if you pass by, {n} will wave to you.",
          "That is the end of the story.", "So ends the story of {n}.", "And {n} still smiles when somebody tells this story.", "The end.", "")


def _story(talk, hero, name, place):
    rng = talk.rng
    name = name or pick(rng, world.NAMES.train[:220])
    while True:
        friend = pick(rng, world.NAMES.train[:220])
        kind = pick(rng, KINDS.train[:40])
        if friend != name and kind != hero:
            break
    thing = pick(rng, ("spoon", "lamp", "bucket", "hat", "bell", "kite", "basket", "drum", "whistle", "compass", "ribbon", "teapot", "button", "mirror", "box"))
    place = place or pick(rng, PLACES.train)
    slots = {"n": name, "f": friend, "k": an(kind), "ak": an(kind), "o": thing, "p": place, "P": upper_first(place), "M": pick(rng, MORNINGS),
             "h": an(hero) if hero else ""}
    opening = pick(rng, OPENINGS if hero else NAME_OPENINGS)
    beats = [opening] + [pick(rng, beat) for beat in pick(rng, PLOTS)] + [pick(rng, MORALS)]
    sentences = [upper_first(beat.format(**slots)) for beat in beats if beat]
    return " ".join(sentences)


def _made(talk, hero, name, place):
    """A story of 60 words and more, in which no time of day comes twice."""
    while True:
        story_ = _story(talk, hero, name, place)
        if story_.count(" ") >= 60 and sum(story_.count(m) for m in MORNINGS) < 2:
            return story_


def story(talk):
    draw = talk.rng.random()
    place = talk.pick(PLACES)
    if draw < 0.38:
        hero = talk.pick(KINDS)
        user = _placed(talk, ASK, place, h=an(hero))
        text = _made(talk, hero, None, place if place in user.lower() else None)
        accept = (hero,)
    elif draw < 0.66:
        hero, name = talk.pick(KINDS), world.first_name(talk)
        user = _placed(talk, ASK_NAMED, place, h=an(hero), n=name)
        text = _made(talk, hero, name, place if place in user.lower() else None)
        accept = (name,)
    elif draw < 0.84:
        name = world.first_name(talk)
        user = _placed(talk, ASK_NAME, place, n=name)
        text = _made(talk, None, name, place if place in user.lower() else None)
        accept = (name,)
    elif draw < 0.92:
        hero = talk.pick(KINDS)
        user = talk.user(ASK_THEME, plain=True, h=an(hero), t=pick(talk.rng, THEMES))
        text = _made(talk, hero, None, None)
        accept = (hero,)
    else:
        user = talk.user(ASK_ANY, plain=True)
        text = _made(talk, talk.pick(KINDS), None, None)
        accept = ()
    return [(user, text, accept, ())]


def _placed(talk, wordings, place, **slots):
    return talk.user(wordings, plain=True, p=talk.low(place), **slots)


# Poems: couplets whose second line rhymes; {x} is what the poem is about and never stands at the end of a line.
POEM_ASK = Wordings("""
Write a poem about {x}.
Write me a poem about {x}.
Write a short poem about {x}.
Can you write a poem about {x}?
A poem about {x}, please.
Make a poem about {x}.
I want a poem about {x}.
Tell me a poem about {x}.
Write a rhyme about {x}.
Make up a rhyme about {x}.
poem about {x}
Give me a poem about {x}.
Please write some verses about {x}.
Compose a poem about {x}.
I would like a rhyme about {x}.
""")
POEM_ANY = Wordings("""
Write a poem.
Write me a poem.
Tell me a poem.
Can you write a poem?
A poem, please.
poem
Write a rhyme.
Do you know a poem?
Make a rhyme.
Give me a poem.
""")
SUBJECTS = Values("""the sea, the moon, the rain, the wind, the snow, the sun, the stars, the night, the morning, the river, the forest, the mountain, my cat,
my dog, a cat, a dog, a robot, a computer, a bird, a friend, my mother, my friend, winter, summer, spring, autumn, love, home, music, tea, coffee, bread,
cheese, a tree, a flower, a rose, a train, a ship, a book, the library, a clock, time, the city, the garden, a snail, a fox, an owl, a mouse, a bee,
the sky, a cloud, the fog, a lamp, my bed, my hat, a spoon, a teapot, an old shoe, the colour blue, an expert, a disk, a token, peace, hope, luck, silence, dreams""")
COUPLETS = (
    ("I think of {x} when I wake up at night,", "and all of the room is a little more bright."),
    ("I wrote a small line about {x} today,", "and folded it up, and it sailed far away."),
    ("If {x} were a song, it would start very low,", "and rise like the lamps on a street in the snow."),
    ("I looked for {x} and I looked for a rhyme,", "and found both of them if you give me some time."),
    ("Oh, {x}, I will sing you a song without end,", "for nobody else is so quiet a friend."),
    ("They ask me of {x}, and I never know why,", "I nod and I point to the birds in the sky."),
    ("Some people want gold, and some want a crown,", "but {x} is the thing that I want in this town."),
    ("The days may be grey and the evenings be long,", "but {x} is enough for a smile and a song."),
    ("I told the old clock about {x}, and it said:", "that is worth a good hour before you see bed."),
    ("There is nothing like {x} when the summer is here,", "and nothing so good at the end of the year."),
)
BRIDGES = (
    ("The morning is soft and the kettle is warm,", "and far in the west goes a small, tired storm."),
    ("A bird on the roof has a story to tell,", "it ends with a laugh and the ring of a bell."),
    ("The moon is a boat on a very dark sea,", "it carries a lamp, and it shines upon me."),
    ("The wind in the leaves has a secret to keep,", "it whispers it once and then falls fast asleep."),
    ("So let us sit down and be still for a while,", "the world can be wide, and a word be a mile."),
    ("The road may be long and the shoes may be old,", "but hearts that are warm do not care for the cold."),
    ("And when the day ends and the colours grow deep,", "the hills pull the clouds up like sheets for their sleep."),
    ("The stars come out slowly, by one and by two,", "they look for a window and find me and you."),
)
ENDINGS = (
    ("So here is my poem, it is short, it is done,", "and {x} is the reason that writing was fun."),
    ("And now I will stop, for the page is so small,", "but {x}, that is clear, is the best thing of all."),
    ("Good night, little poem, good night, little light,", "and {x}, may you keep us all safe through the night."),
    ("That is all that I know, it is simple and true:", "I gave it to {x}, and I give it to you."),
)


def poem(talk):
    rng = talk.rng
    if talk.chance(0.12):
        subject = shown = pick(rng, SUBJECTS.train)
        user, accept = talk.user(POEM_ANY, plain=True), ()
    else:
        if talk.chance(0.75):
            shown = talk.pick(SUBJECTS)
        else:
            shown = pick(rng, ("my ", "the ", "my ")) + talk.pick(world.OBJECTS) if talk.chance(0.6) else world.first_name(talk)
        user = talk.user(POEM_ASK, plain=True, x=talk.low(shown) if shown[0].islower() else shown)
        subject = "your " + shown[3:] if shown.startswith("my ") else shown
        accept = (subject,)
    couplets = [pick(rng, COUPLETS)]
    couplets.append(pick(rng, BRIDGES))
    if talk.chance(0.35):
        other = pick(rng, BRIDGES)
        if other not in couplets:
            couplets.append(other)
    couplets.append(pick(rng, ENDINGS))
    text = "\n".join(a + "\n" + b for a, b in couplets).replace("{x}", subject)
    return [(user, text.replace("\nyour", "\nYour"), accept, ())]
