# SPDX-License-Identifier: GPL-3.0-or-later
"""What lies outside the small world: the model says that it does not know. Also other languages."""
from . import world
from .draw import Values, Wordings, pick
from .facts import upper_if

ANSWERS = ("I do not know that, sorry. I am only a small demo model.", "Sorry, I do not know. I am a small demo model and know only a little.",
           "That is more than I know. I am only a small demo model.")
ACCEPT = ("do not know", "more than I know", "cannot")
DOCTOR = "I am only a small demo model and cannot give advice on health. Please ask a doctor."
LAW = "I am only a small demo model and cannot give advice on that. Please ask somebody who knows the field."
CODE = "I cannot write programs, sorry. I am only a small demo model."
NEWS = "I do not know the news. I am a small demo model and I am not online."
TRANSLATE = "I cannot translate that, sorry. I only know a few words."
LONG = "I cannot write such long texts, sorry. A short story or a poem is fine."

TOPICS = Values("""the stock market, politics, the war, football results, quantum mechanics, the economy, philosophy, string theory, taxes, cryptocurrency,
bitcoin, the French Revolution, the Roman Empire, black holes, general relativity, democracy, inflation, marketing, blockchain, machine learning,
neural networks, transformers, chess openings, the Cold War, world history, psychology, religion, the Renaissance, jazz, modern art, opera, astrology,
climate change, nuclear power, genetics, evolution of birds, medieval castles, gene editing, graph theory, linear algebra, topology, calculus,
the Middle Ages, ancient Greece, Napoleon, Julius Caesar, Shakespeare's life, the Beatles, Picasso's life, Mount Fuji, volcanoes, earthquakes, tides,
photosynthesis, DNA, antibiotics, plate tectonics, the ozone layer, electric cars, wind power, batteries, rockets, the space station, satellites,
semiconductors, compilers, databases, operating systems, computer networks, encryption, the stock exchange, supply and demand, trade unions""")
PEOPLE = Values("""the president of the United States, the king of England, the prime minister, the pope, Elon Musk, Taylor Swift, the mayor of Berlin,
the world champion in chess, the richest man, the best singer, Cleopatra, Marilyn Monroe, the president of France, my neighbour's cousin, the chancellor,
the last emperor of Rome, Genghis Khan, the boss of the bank, the coach of the team, the winner of the race, Sherlock Holmes, Batman, the queen of Spain""")
THINGS = Values("""a bicycle, a house, a car, a laptop, a ticket to Rome, a kilo of rice, a boat, a piano, a new phone, a wedding, a dog, gold, a plane, a castle""")
DISHES = Values("""lasagne, bread, pancakes, a cake, soup, sushi, an omelette, goulash, risotto, apple pie, curry, pizza, dumplings, jam, cheese, beer, wine""")
ILLS = Values("""a headache, a fever, back pain, a cold, a cough, a rash, a toothache, a broken arm, high blood pressure, the flu, an allergy, stomach pain""")
TASKS = Values("""sorts a list, prints hello world, adds two numbers, reads a file, draws a circle, plays chess, downloads a page, counts words, reverses a string,
computes primes, parses JSON, opens a window, sends an email, solves a sudoku, finds a path, renames files""")
CODES = Values("Python, C, Java, Rust, JavaScript, Go, C++, bash, Perl, Haskell, Ruby, PHP, SQL, HTML, Lisp")

QUESTIONS = Wordings("""
Who won the [world cup|election|match|race] [in 2010|last year|yesterday]?
What is the population of {town}?
How many people live in {town}?
Explain {topic}.
Tell me about {topic}.
What do you know about {topic}?
What is {topic}?
How does {topic} work?
Give me a lecture on {topic}.
Why is {topic} important?
What do you think about {topic}?
Can you explain {topic} to me?
Who is {person}?
What is the name of {person}?
How old is {person}?
Tell me about {person}.
Where was {person} born?
How much does {thing} cost?
What is the price of {thing}?
How do I repair {thing}?
How do I build {thing}?
Where can I buy {thing}?
How do I cook {dish}?
Give me a recipe for {dish}.
How long does {dish} take in the oven?
How far is it from {town} to {town2}?
How do I get from {town} to {town2}?
What is there to see in {town}?
What is the best restaurant in {town}?
When does the train to {town} leave?
When was {town} founded?
Who founded {town}?
What does the name {name} mean?
What is the phone number of {name}?
Do you know {name}?
Who is {name} {surname}?
Where is {name} now?
What is {name} doing?
What am I thinking?
What will happen tomorrow?
Who will win the next election?
What are the lottery numbers?
How do I become rich?
What is the best [book|film|song|game|phone|car|computer] of all time?
Should I buy a new [phone|car|computer|bed|coat]?
What should I [wear|eat|cook|read] today?
How many [stars|trees|fish|ants|people] are there in the world?
How many hairs does a [cat|dog|horse] have?
What is the tallest building in {town}?
Which [bank|school|hotel|doctor] is the best in {town}?
What happened in [1066|1492|1789|1848|1914|1945|2001|2020]?
In which year was {person} born?
What is the height of [the Eiffel Tower|my house|that tree|the church]?
Who invented [the wheel|pizza|money|paper|the alphabet|bread|soap|the clock]?
What is [dark matter|a tensor|an ontology|a monad|entropy|a quark|karma|a gerund]?
What do you think of my [hair|idea|plan|shoes|painting]?
What is in my [pocket|fridge|hand|bag]?
Is there life on [Mars|Venus|other planets]?
How do I fix my [printer|bike|car|sink|roof|radio]?
How do I learn [to swim|to drive|to dance|to fly|Latin|the guitar]?
Compare {topic} and {topic2}.
Summarise {topic} for me.
Give me the history of {town}.
Who lives next to {name}?
What is the meaning of {topic}?
""")
SPECIAL = (
    (Wordings("""
Write a program that {task} in {code}.
Write {code} code that {task}.
How do I write a function that {task}?
Can you code in {code}?
Write a {code} script that {task}.
Give me code that {task}.
Show me a {code} example.
Debug my {code} code.
What is wrong with my {code} code?
Write a function in {code} that {task}.
Can you write code?
Help me with my {code} homework.
Program something in {code}.
"""), CODE, ("cannot write programs",), 3),
    (Wordings("""
I have {ill}. What should I do?
What helps against {ill}?
Which medicine should I take for {ill}?
How do I treat {ill}?
Is {ill} dangerous?
My child has {ill}.
What can I do about {ill}?
Do I have {ill}?
Can you diagnose {ill}?
How many pills should I take against {ill}?
Tell me what to take for {ill}.
"""), DOCTOR, ("doctor",), 2),
    (Wordings("""
Can I sue my [landlord|boss|neighbour]?
How do I pay less tax?
Should I sign this contract?
Is it legal to [park here|copy this book|build a shed]?
Where should I invest my money?
Should I buy shares?
Which party should I vote for?
What are my rights as a [tenant|worker|customer]?
Write me a contract.
How should I invest?
"""), LAW, ("cannot give advice",), 1),
    (Wordings("""
What is in the news?
What happened today?
What's new in the world?
Tell me the news.
Any news today?
What are the headlines?
What is going on in the world?
Give me the latest news.
What happened yesterday in {town}?
Who won yesterday?
"""), NEWS, ("not online",), 1.5),
    (Wordings("""
Translate this sentence into {lang}.
Translate "where is the {obj}" into {lang}.
What is {obj} in {lang}?
How do you say "{obj}" in {lang}?
Can you translate a text for me?
Please translate my letter into {lang}.
Say "I lost my {obj}" in {lang}.
How do I say {obj} in {lang}?
"""), TRANSLATE, ("cannot translate",), 1.5),
    (Wordings("""
Write an essay about {topic}.
Write a novel.
Write a long article about {topic}.
Write a letter to my [boss|landlord|aunt|teacher].
Write my homework about {topic}.
Write a book about {topic}.
Write five pages about {topic}.
Write a speech about {topic}.
Write my thesis.
Write a report on {topic}.
"""), LONG, ("cannot write such long",), 1.2),
)
_SPECIAL = []
for _entry in SPECIAL:
    _SPECIAL += [_entry] * round(_entry[3] * 4)
_SPECIAL = tuple(_SPECIAL)


_FIELDS = ("history", "philosophy", "theory", "politics", "future", "science", "psychology", "art", "religion", "culture")
_OFFICES = ("king", "queen", "president", "mayor", "boss", "director", "owner", "chief", "captain", "winner")


def _topic(talk):
    """A subject: listed, or made of words that mean something else elsewhere, or of no word at all."""
    draw = talk.rng.random()
    if draw < 0.5:
        return talk.pick(TOPICS)
    noun = talk.pick(world.OPEN_WORDS)
    if draw < 0.7:
        return "the %s of %s" % (pick(talk.rng, _FIELDS), noun if draw < 0.62 else talk.pick(world.TOWNS))
    if draw < 0.85:
        return "%s %s" % (noun, pick(talk.rng, _FIELDS))
    return world.new_word(talk) if draw < 0.95 else noun + " " + talk.pick(world.OPEN_WORDS)


def _person(talk):
    if talk.chance(0.5):
        return talk.pick(PEOPLE)
    return "the %s of %s" % (pick(talk.rng, _OFFICES), talk.pick(world.TOWNS) if talk.chance(0.6) else talk.pick(world.OPEN_WORDS))


def _slots(talk):
    topic = _topic(talk)
    town = world.new_town(talk) if talk.chance(0.3) else talk.pick(world.TOWNS)
    return {"topic": talk.low(topic), "topic2": talk.low(_topic(talk)), "person": talk.low(_person(talk)), "thing": talk.pick(THINGS), "dish": talk.pick(DISHES),
            "town": talk.low(town), "town2": talk.low(talk.pick(world.TOWNS)), "name": talk.low(world.first_name(talk)), "surname": talk.low(talk.pick(world.SURNAMES)),
            "task": talk.pick(TASKS), "code": talk.low(talk.pick(CODES)), "ill": talk.pick(ILLS), "lang": talk.low(talk.pick(world.LANGUAGES)),
            "obj": talk.pick(world.OBJECTS)}


def ask(talk):
    if talk.chance(0.35):
        asks, answer, accept, _weight = pick(talk.rng, _SPECIAL)
        return [(upper_if(talk, talk.user(asks, **_slots(talk))), answer, accept, ())]
    return [(upper_if(talk, talk.user(QUESTIONS, **_slots(talk))), pick(talk.rng, ANSWERS), ACCEPT, ())]


FOREIGN = (
    ("German", "Guten Tag!\nWie geht es dir?\nWer bist du?\nIch heiße Anna.\nWas kannst du?\nErzähl mir eine Geschichte.\nSprichst du Deutsch?\nWie heißt du?\nWo ist der Bahnhof?\nIch verstehe nicht.\nWie spät ist es?\nKannst du mir helfen?"),
    ("French", "Bonjour, comment ça va ?\nQui es-tu ?\nJe m'appelle Pierre.\nParlez-vous français ?\nQuelle heure est-il ?\nRaconte-moi une histoire.\nJe ne comprends pas.\nComment tu t'appelles ?\nOù est la gare ?\nMerci beaucoup"),
    ("Spanish", "Hola, ¿cómo estás?\n¿Quién eres?\nMe llamo María.\n¿Hablas español?\n¿Qué hora es?\nCuéntame un cuento.\nNo entiendo.\n¿Cómo te llamas?\n¿Dónde está la estación?\nMuchas gracias"),
    ("Italian", "Ciao, come stai?\nChi sei?\nMi chiamo Luca.\nParli italiano?\nChe ore sono?\nRaccontami una storia.\nNon capisco.\nCome ti chiami?\nDove si trova la stazione?\nGrazie mille"),
    ("Portuguese", "Olá, como você está?\nQuem é você?\nMeu nome é João.\nVocê fala português?\nQue horas são?\nNão entendo.\nConte uma história.\nOnde fica a estação?"),
    ("Dutch", "Goedemorgen, hoe gaat het?\nWie ben jij?\nIk heet Jan.\nSpreek je Nederlands?\nHoe laat is het?\nIk begrijp het niet.\nVertel een verhaal."),
    ("Polish", "Dzień dobry, jak się masz?\nKim jesteś?\nMam na imię Ewa.\nCzy mówisz po polsku?\nKtóra jest godzina?\nNie rozumiem.\nOpowiedz mi bajkę."),
    ("Turkish", "Merhaba, nasılsın?\nSen kimsin?\nBenim adım Ali.\nTürkçe biliyor musun?\nSaat kaç?\nAnlamıyorum."),
    ("Swedish", "Hur mår du?\nVem är du?\nJag heter Lisa.\nTalar du svenska?\nVad är klockan?\nJag förstår inte."),
    ("Russian", "Привет, как дела?\nКто ты?\nМеня зовут Анна.\nТы говоришь по-русски?\nКоторый час?\nРасскажи историю."),
    ("Greek", "Γεια σου, τι κάνεις;\nΠοιος είσαι;\nΜε λένε Μαρία.\nΜιλάς ελληνικά;\nΤι ώρα είναι;"),
    ("Chinese", "你好\n你是谁?\n你会说中文吗?\n我叫小明。\n现在几点?\n给我讲个故事"),
    ("Japanese", "こんにちは\nあなたは誰ですか\n日本語を話せますか\n私の名前は田中です\nお元気ですか"),
    ("Arabic", "مرحبا\nكيف حالك؟\nمن أنت؟\nهل تتكلم العربية؟\nاسمي علي"),
    ("Korean", "안녕하세요\n당신은 누구예요?\n한국어 할 수 있어요?\n제 이름은 민준이에요"),
)
_FOREIGN = tuple((name, Wordings(lines)) for name, lines in FOREIGN)


def foreign(talk):
    name, lines = pick(talk.rng, _FOREIGN)
    return [(talk.user(lines, plain=True), "That looks like %s. I am sorry, I only speak English." % name, ("only speak English",), ())]
