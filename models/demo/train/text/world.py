# SPDX-License-Identifier: GPL-3.0-or-later
"""The people, places and things that users of the demo talk about."""
from .draw import Values, below, held, pick

NAMES = Values("""
Zoe, Anna, Ben, Clara, David, Emma, Felix, Grace, Henry, Ida, Jack, Kate, Leo, Maya, Nora, Oscar, Paul, Quinn, Rosa, Sam,
Tom, Uma, Victor, Wendy, Xavier, Yara, Zack, Alice, Bob, Carol, Daniel, Eve, Frank, Gina, Hugo, Iris, James, Kim, Laura, Mark,
Nina, Oliver, Peter, Ruth, Simon, Tina, Ursula, Vera, Walter, Yusuf, Adam, Bella, Chloe, Dylan, Elena, Fiona, George, Hannah,
Isaac, Julia, Kevin, Lucy, Martin, Naomi, Otto, Petra, Robert, Sarah, Thomas, Violet, William, Ximena, Yvonne, Zara, Aaron,
Beth, Charles, Diana, Edward, Frida, Gavin, Helen, Ivan, Jane, Karl, Lily, Michael, Nadia, Owen, Paula, Ralph, Sofia, Theo,
Valerie, Wanda, Yasmin, Amir, Bianca, Cedric, Dora, Elias, Farah, Greta, Hassan, Ines, Jonas, Katya, Lars, Mina, Nils, Olga,
Pablo, Rania, Stefan, Tara, Umar, Vlad, Wei, Yuki, Zainab, Aisha, Bruno, Carmen, Dmitri, Esther, Fatima, Gustav, Heidi, Igor,
Jasmine, Kenji, Leila, Marco, Noor, Omar, Priya, Rafael, Sven, Tariq, Viktor, Wanjiru, Xiu, Yannick, Zeynep, Arjun, Bjorn,
Camille, Deepa, Emeka, Freya, Giulia, Hiro, Ingrid, Jamal, Kofi, Luca, Mei, Ngozi, Olena, Pierre, Rahul, Sakura, Tomas, Usha,
Vanya, Wale, Yael, Zofia, Abena, Bogdan, Chiara, Diego, Ebba, Farid, Goran, Hana, Ibrahim, Jorge, Klara, Lin, Mateo, Nkechi,
Oskar, Pilar, Ravi, Selma, Thabo, Ulrike, Vikram, Wiktor, Yoko, Zdenek, Anton, Brigitte, Connor, Delia, Enzo, Flora, Gerald,
Hilda, Isabel, Jerome, Kirsten, Lorenzo, Miriam, Nathan, Ophelia, Philip, Regina, Sebastian, Teresa, Vincent, Wilma, Amelia,
Barbara, Caleb, Dolores, Ethan, Faith, Gordon, Harriet, Irene, Joseph, Keith, Louise, Matilda, Norman, Olivia, Patrick, Rachel,
Stella, Timothy, Vivian, Wesley, Agnes, Bernard, Cecilia, Dennis, Eleanor, Florence, Gilbert, Hazel, Irma, Joanna, Kenneth,
Lydia, Maurice, Nicole, Penelope, Roger, Sylvia, Trevor, Veronica, Warren, Alan, Brenda, Colin, Daisy, Eric, Gloria, Howard,
Ivy, Jacob, Kelly, Liam, Mia, Noah, Ella, Ava, Mason, Logan, Lucas, Aiden, Jayden, Luna, Layla, Aria, Ellie, Nova, Hudson,
Ezra, Miles, Silas, Jasper, Milo, Finn, Arlo, Rowan, Sage, Juniper, Willow, Aurora, Hope, Joy, Pearl, Ruby, Opal, Amber, June,
May, April, Autumn, Summer, Robin, Jay, Wren, Dale, Glen, Cliff, Rocky, Max, Rex, Gus, Ned, Ted, Ed, Al, Jo, Bo, Ty, Kai, Ash,
Sky, Blake, Drew, Casey, Jordan, Taylor, Morgan, Riley, Avery, Charlie, Frankie, Alex, Chris, Pat, Terry, Lee, Dana, Jamie,
José, Zoë, Chloé, Renée, Søren, Łukasz, Márta, Björn, Jürgen, André, Inés, Nuño, Agnès, Beyza, Çağla, Ömer, Åsa, Øyvind, Jiří,
Žofie, Șerban, François, Noël, Mónica, Ramón, Åke, Bára, Zoltán, Gyöngyi, Ana-Maria, Jean-Luc, Mary Ann, Anne-Sophie, O'Neil,
Mohammed, Abdullah, Khadija, Sundar, Lakshmi, Anjali, Vijay, Kiran, Meera, Nikhil, Divya, Haruto, Aoi, Ren, Yui, Takeshi, Minh,
Linh, Thuy, Quang, Jisoo, Minjun, Seoyeon, Siti, Budi, Dewi, Putri, Malia, Keoni, Tane, Aroha, Chidi, Amara, Zuri, Kwame, Ayo,
Sipho, Lerato, Tendai, Chipo, Dembe, Nia, Yohannes, Selam, Aster, Bekele, Rustam, Aigul, Timur, Gulnara, Nino, Levan, Ani,
Armen, Davit, Leyla, Elvin, Emine, Mehmet, Ayşe, Panos, Eleni, Nikos, Despina, Giannis, Dragan, Milica, Ljuba, Ana, Ivo, Mirela,
Ilinca, Radu, Ondrej, Katka, Jaroslav, Agnieszka, Wojciech, Piotr, Gintaras, Rasa, Janis, Liga, Tiit, Kadri, Aino, Juhani, Eero,
Sigrun, Olafur, Maeve, Niamh, Siobhan, Eoin, Rhys, Carys, Angus, Morag, Iker, Nerea, Xabier, Joana, Tiago, Beatriz, Thiago, Lívia
""")
SCRIPTS = Values("Юлия, Иван, Ольга, Сергей, Мария, Νίκος, Ελένη, Γιώργος, 小明, 王芳, 李华, さくら, ひろし, 민준, 지우, علي, ليلى, אורי, נועה, "
                 "Оксана, Борис, Κώστας, 美咲, محمد, दीपा, रवि")
SURNAMES = Values("""
Smith, Baker, Carter, Mason, Walker, Hill, Stone, Brook, Rivers, Woods, Fields, Green, Brown, White, Black, Gray, Young, King, Knight,
Fisher, Hunter, Miller, Taylor, Cook, Potter, Archer, Weaver, Garcia, Lopez, Silva, Santos, Rossi, Ferrari, Weber, Keller, Schmidt,
Novak, Kowalski, Horvat, Jensen, Larsen, Berg, Lindqvist, Virtanen, Ivanova, Petrov, Yilmaz, Haddad, Khan, Singh, Patel, Chen, Wang,
Tanaka, Suzuki, Kim, Nguyen, Okafor, Mensah, Dlamini, Moreau, Dubois, Lambert, Visser, Janssen, O'Brien, Murphy, Campbell, Lloyd
""")
TOWNS = Values("""
Lisbon, Porto, Madrid, Seville, Paris, Lyon, Nice, Lille, Rome, Milan, Turin, Naples, Venice, Berlin, Hamburg, Munich, Bremen, Cologne,
Vienna, Graz, Linz, Zurich, Basel, Geneva, Bern, Prague, Brno, Warsaw, Krakow, Gdansk, Budapest, Bucharest, Sofia, Athens, Istanbul,
Ankara, Izmir, Cairo, Tunis, Algiers, Rabat, Dakar, Accra, Lagos, Nairobi, Kampala, Lusaka, Harare, Durban, Cape Town, London, Leeds,
York, Bath, Oxford, Bristol, Cardiff, Swansea, Dublin, Cork, Galway, Belfast, Glasgow, Edinburgh, Aberdeen, Oslo, Bergen, Stockholm,
Malmo, Uppsala, Helsinki, Tampere, Turku, Tallinn, Tartu, Riga, Vilnius, Kaunas, Minsk, Kyiv, Lviv, Odesa, Moscow, Kazan, Samara,
Tbilisi, Yerevan, Baku, Tehran, Shiraz, Baghdad, Amman, Beirut, Haifa, Delhi, Mumbai, Pune, Chennai, Kochi, Lahore, Karachi, Dhaka,
Kathmandu, Colombo, Bangkok, Hanoi, Hue, Manila, Jakarta, Bandung, Singapore, Penang, Beijing, Shanghai, Wuhan, Xian, Seoul, Busan,
Tokyo, Osaka, Kyoto, Kobe, Nagoya, Sapporo, Sydney, Perth, Hobart, Darwin, Auckland, Wellington, Dunedin, Toronto, Ottawa, Montreal,
Quebec, Calgary, Vancouver, Halifax, Boston, New York, Chicago, Detroit, Denver, Dallas, Austin, Houston, Miami, Tampa, Atlanta,
Seattle, Portland, San Diego, Phoenix, Tucson, Reno, Omaha, Memphis, Mexico City, Puebla, Havana, Kingston, Panama City, Bogota, Cali,
Quito, Lima, Cusco, La Paz, Santiago, Rosario, Cordoba, Salta, Montevideo, Recife, Salvador, Curitiba, Manaus, Utrecht, Leiden, Delft,
Ghent, Bruges, Antwerp, Aarhus, Odense, Reykjavik, Nuuk, Split, Zagreb, Ljubljana, Maribor, Sarajevo, Belgrade, Nis, Skopje, Tirana,
Valletta, Nicosia, Zürich, Köln, Düsseldorf, Málaga, Łódź, Århus, Göteborg, São Paulo, Bogotá, A Coruña, Besançon, Springfield,
Green Hill, Little Bay, Old Harbour, Ashford, Millbrook, Stonefield, Riverton, Lakeside, Northgate, Hazelwood, Thornbury, Kingsford
""")
JOBS = Values("""
nurse, teacher, baker, carpenter, gardener, painter, pilot, farmer, doctor, dentist, librarian, programmer, cook, waiter, plumber,
electrician, tailor, writer, singer, actor, dancer, postman, driver, sailor, fisherman, florist, butcher, chemist, engineer,
architect, lawyer, judge, journalist, photographer, musician, cleaner, translator, biologist, geologist, astronomer, beekeeper,
shoemaker, clockmaker, hairdresser, mechanic, welder, miner, firefighter, police officer, bus driver, train driver, potter, weaver,
student, vet, designer, accountant, cashier, guard, roofer, mason, zookeeper, coach, referee, barber, jeweller, sculptor, poet
""")
COLOURS = Values("""red, blue, green, yellow, orange, purple, pink, brown, black, white, grey, turquoise, teal, violet, indigo, gold,
silver, beige, crimson, scarlet, navy blue, sky blue, light green, dark red, lilac, lavender, olive, maroon, magenta, cyan, coral,
peach, mint, cream, amber, bronze, copper, ivory, mustard, rose, ruby, emerald, lime green, dark blue""")
FOODS = Values("""pizza, pasta, soup, rice, bread, cheese, salad, sushi, curry, tacos, pancakes, waffles, noodles, dumplings, lasagne,
risotto, fish and chips, potatoes, beans, lentils, falafel, hummus, paella, goulash, ramen, couscous, omelette, chocolate, ice cream,
apple pie, carrot cake, honey, mushrooms, olives, tomato soup, onion soup, pumpkin pie, fried rice, roast chicken, spring rolls,
porridge, yoghurt, strawberries, blueberries, cherries, plums, peanut butter, gnocchi, pierogi, bibimbap, kimchi, tofu, burritos""")
DRINKS = Values("""tea, coffee, water, milk, apple juice, orange juice, lemonade, green tea, hot chocolate, mint tea, cocoa, iced tea,
tomato juice, mango juice, espresso, cappuccino, ginger tea, cherry juice, kefir, black tea, oat milk, coconut water, grape juice""")
ANIMALS = Values("""cat, dog, horse, rabbit, fox, owl, bear, wolf, lion, tiger, elephant, giraffe, penguin, dolphin, whale, otter, hedgehog,
squirrel, mouse, turtle, frog, parrot, eagle, swan, duck, goose, hen, cow, pig, sheep, goat, donkey, camel, zebra, monkey, panda,
koala, kangaroo, seal, octopus, crab, butterfly, bee, ant, snail, hamster, badger, beaver, deer, moose, crow, raven, robin, sparrow""")
PETS = Values("cat, dog, rabbit, hamster, parrot, turtle, goldfish, pony, mouse, lizard, snake, guinea pig, canary, ferret, kitten, puppy, hen, gecko")
PET_NAMES = Values("""Bella, Max, Luna, Rex, Milo, Whiskers, Biscuit, Pepper, Coco, Shadow, Ginger, Fluffy, Snowball, Patches, Toffee, Muffin,
Pickle, Nugget, Waffles, Bandit, Rusty, Socks, Mittens, Tiger, Pumpkin, Peanut, Cookie, Marble, Pebble, Ziggy, Sunny, Scout, Bruno,
Duke, Lucky, Daisy, Misty, Smokey, Oreo, Bubbles, Captain, Noodle, Sesame, Mango, Kiwi, Olive, Basil, Clover, Maple, Twix, Sushi, Pixel,
Gizmo, Turbo, Pluto, Comet, Nova, Domino, Tofu, Truffle, Pippin, Barnaby, Chewie, Mr Fish, Sir Hops, Lady Paws""")
OBJECTS = Values("""keys, phone, wallet, passport, glasses, book, notebook, umbrella, hat, scarf, gloves, ring, watch, camera, map, lamp, torch,
ticket, letter, coin, hammer, scissors, needle, brush, comb, candle, mirror, bottle, cup, spoon, knife, basket, bag, backpack, pen,
pencil, ruler, eraser, charger, remote, radio, guitar, flute, drum, ball, kite, doll, teddy bear, puzzle, dice, chess set, screwdriver,
tape, glue, rope, ladder, bucket, broom, towel, soap, pillow, blanket, jacket, coat, boots, socks, shoes, belt, tie, necklace, earrings,
headphones, laptop, tablet, mouse, keyboard, cable, battery, USB stick, diary, stamp, receipt, medicine, sunglasses, helmet, whistle,
compass, telescope, magnet, spare key, red pen, blue folder, house key, bike lock, recipe, shopping list, birthday present, old photo""")
PLACES = Values("""in the drawer, on the table, under the bed, in the kitchen, in my bag, on the shelf, behind the sofa, in the garden, in the car,
in the blue box, in the red box, under the pillow, on the roof, in the cellar, in the attic, behind the door, on the desk, in the cupboard,
in my pocket, under the chair, in the fridge, next to the lamp, on the window sill, in the wardrobe, behind the clock, in the basket,
in the shed, under the stairs, on the piano, in the top drawer, in the bottom drawer, in the green bag, in the garage, on the balcony,
under the mat, behind the books, in the tin, in the old chest, next to the door, by the window, in the bathroom, on the hook, in the jar,
under the plant, in the hallway, on the bookcase, in the suitcase, between the cushions, on top of the fridge, inside the teapot,
in the white envelope, beside the bed, under the carpet, in the boat, at the office, in the locker, in the piano stool, in the tent""")
RELATIONS = Values("""sister, brother, mother, father, aunt, uncle, cousin, grandmother, grandfather, friend, best friend, neighbour, boss, teacher,
daughter, son, wife, husband, niece, nephew, flatmate, doctor, dentist, colleague, partner, mum, dad, grandma, twin brother, twin sister""")
THINGS = Values("""apples, pears, books, coins, marbles, stamps, cats, hats, chairs, plants, pencils, cups, cousins, bikes, guitars, stones, shells,
cards, candles, eggs, lemons, oranges, plums, toys, boxes, keys, spoons, pillows, jackets, posters, records, dolls, kites, balloons""")
SPORTS = Values("football, tennis, swimming, running, chess, basketball, volleyball, rugby, cricket, hockey, skiing, rowing, judo, climbing, cycling, "
                "badminton, table tennis, golf, boxing, fencing, sailing, surfing, archery, karate, handball")
INSTRUMENTS = Values("piano, guitar, violin, flute, drums, cello, trumpet, harp, clarinet, accordion, banjo, saxophone, ukulele, oboe, trombone")
LANGUAGES = Values("English, German, French, Spanish, Italian, Polish, Czech, Dutch, Danish, Swedish, Finnish, Greek, Turkish, Arabic, Hindi, Tamil, "
                   "Japanese, Korean, Chinese, Portuguese, Russian, Ukrainian, Hungarian, Romanian, Swahili, Hebrew, Thai, Welsh, Basque, Irish")
HOBBIES = Values("reading, painting, knitting, gardening, cooking, hiking, fishing, singing, dancing, baking, drawing, photography, pottery, "
                 "stargazing, bird watching, collecting stamps, writing poems, playing chess, sewing, camping, juggling, sailing, woodwork")
FLOWERS = Values("rose, tulip, lily, daisy, sunflower, orchid, violet, poppy, iris, daffodil, lavender, peony, jasmine, snowdrop, marigold, carnation")
FRUITS = Values("apple, pear, banana, cherry, plum, mango, peach, grape, orange, lemon, kiwi, melon, strawberry, raspberry, fig, pineapple, papaya, lychee")
SUBJECTS = Values("maths, history, physics, music, art, biology, chemistry, geography, Latin, English, sport, philosophy, drama, economics")
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
SEASONS = ("spring", "summer", "autumn", "winter")
WORDS = Values("""
apple, arrow, autumn, bacon, badge, banana, banjo, barrel, basket, beach, bell, berry, bicycle, bird, blanket, boat, bottle, bread, brick,
bridge, bucket, butter, button, cabin, cactus, cake, camel, candle, canoe, carpet, carrot, castle, cat, chair, cheese, cherry, circle,
clock, cloud, coffee, cookie, copper, corn, cotton, cow, crown, cup, dance, desert, diamond, dog, dolphin, donkey, door, dragon, dream,
drum, eagle, earth, egg, elephant, engine, farm, feather, fence, field, finger, fire, fish, flag, flower, forest, fork, fox, frog, garden,
garlic, ghost, giraffe, glass, gold, grape, grass, guitar, hammer, harbour, hat, heart, hill, honey, horse, hotel, house, island, jacket,
jam, jewel, juice, jungle, kettle, key, king, kitchen, kite, ladder, lake, lamp, leaf, lemon, letter, lion, lizard, magnet, mango, map,
market, meadow, melon, milk, mirror, money, monkey, moon, morning, mountain, mouse, music, needle, nest, night, north, nose, number,
ocean, olive, onion, orange, otter, oven, owl, paint, panda, paper, parrot, pasta, peach, pencil, penguin, pepper, piano, picture,
pillow, pilot, pirate, planet, plate, pocket, poem, pond, potato, puzzle, queen, rabbit, radio, rain, ribbon, rice, ring, river, robot,
rocket, roof, rope, rose, sail, salt, sand, school, shadow, shell, ship, shoe, silver, sister, snow, soap, sofa, soup, spider, spoon,
spring, square, star, stone, storm, story, street, sugar, summer, sun, table, teapot, tent, tiger, tomato, tooth, tower, train, tree,
tulip, turtle, umbrella, valley, violin, wagon, wall, water, whale, wheel, wind, window, winter, wolf, wood, wool, yellow, zebra, zoo,
hello, world, computer, science, friend, happy, orange, purple, secret, silent, simple, smile, sound, speed, steam, strong, sweet, thunder,
ticket, travel, truck, vegetable, village, voice, walnut, whisper, wizard, wonder, animal, answer, bakery, balloon, bedroom, bottle, bronze,
bubble, camera, cousin, dinner, doctor, easy, eight, family, famous, flute, gentle, giant, green, hidden, hobby, human, insect, jelly, jolly,
kind, laptop, laugh, light, lucky, magic, maple, marble, melody, memory, muffin, nature, noodle, office, orchard, palace, pebble, people,
pizza, plum, pretty, quick, quiet, recipe, sailor, saddle, salad, season, seven, shark, sheep, shirt, singer, small, spoken, stairs, sunny,
swan, teacher, temple, three, token, expert, model, tractor, turnip, under, velvet, wagon, wander, yogurt, young, zero, chat, disk, goose
""")
OPEN_WORDS = Values(tuple(WORDS.all) + tuple(OBJECTS.all) + tuple(ANIMALS.all) + tuple(FLOWERS.all))

_ON = ("b", "d", "f", "g", "h", "j", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w", "z", "br", "ch", "dr", "fl", "gr", "kr", "pl", "sh",
       "st", "th", "tr", "qu", "sk", "y", "x", "c", "")
_MID = ("a", "e", "i", "o", "u", "a", "e", "i", "o", "ai", "ei", "ia", "oo", "ea", "ou", "y")
_OFF = ("", "", "", "n", "l", "r", "s", "m", "k", "t", "x", "nd", "rn", "ll", "sh", "th", "v", "z")
_NAME_END = ("a", "o", "us", "el", "in", "ia", "or", "is", "an", "en", "ix", "ara", "on", "y", "ette", "wyn", "ric", "elle", "ov", "ani")
_TOWN_END = ("ville", "ton", "burg", "ham", "ford", "stad", "mouth", "field", "bridge", "grad", "ia", "port", "dale", "wick", "by", "haven")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _syllables(rng, n):
    return "".join(pick(rng, _ON) + pick(rng, _MID) + pick(rng, _OFF) for _ in range(n))


def split_draw(talk, make):
    """Draws until the value lies on this split's side of the border."""
    wanted = talk.split != "train"
    while True:
        value = make(talk.rng)
        if held(value) == wanted:
            return value


def invented_name(rng):
    return (_syllables(rng, 1 if rng.random() < 0.7 else 2) + pick(rng, _NAME_END)).capitalize()


def _new_town(rng):
    draw = rng.random()
    if draw < 0.8:
        return (_syllables(rng, 1) + pick(rng, _TOWN_END)).capitalize()
    return pick(rng, ("New ", "Old ", "San ", "Port ", "Upper ", "Little ", "Saint ")) + invented_name(rng)


def _handle(rng):
    draw = rng.random()
    if draw < 0.35:
        return pick(rng, WORDS.all).capitalize() + pick(rng, WORDS.all).capitalize()
    if draw < 0.5:
        return pick(rng, WORDS.all) + str(below(rng, 1, 999))
    if draw < 0.6:
        return pick(rng, WORDS.all) + pick(rng, "_-.") + pick(rng, WORDS.all)
    if draw < 0.8:
        return "".join(pick(rng, _LETTERS) for _ in range(below(rng, 3, 7)))
    return "".join(pick(rng, _LETTERS) for _ in range(below(rng, 2, 4))).upper()


def new_word(talk):
    return split_draw(talk, lambda rng: _syllables(rng, below(rng, 1, 3)) or "odd")


def new_town(talk):
    return split_draw(talk, _new_town)


def handle(talk):
    return split_draw(talk, _handle)


def person_name(talk):
    """A first name: mostly real, often invented, sometimes a whole name, a nickname or another script."""
    draw = talk.rng.random()
    if draw < 0.55:
        return talk.pick(NAMES)
    if draw < 0.83:
        return split_draw(talk, invented_name)
    if draw < 0.92:
        return talk.pick(NAMES) + " " + talk.pick(SURNAMES)
    if draw < 0.985:
        return handle(talk)
    return talk.pick(SCRIPTS)


def first_name(talk):
    return talk.pick(NAMES) if talk.chance(0.7) else split_draw(talk, invented_name)


def pet_name(talk):
    draw = talk.rng.random()
    return talk.pick(PET_NAMES) if draw < 0.5 else first_name(talk) if draw < 0.75 else split_draw(talk, invented_name)


def town(talk):
    return talk.pick(TOWNS) if talk.chance(0.65) else new_town(talk)


def word(talk):
    """A word to keep: common, invented or odd."""
    draw = talk.rng.random()
    return talk.pick(OPEN_WORDS) if draw < 0.6 else new_word(talk) if draw < 0.8 else handle(talk)


def _code(rng):
    draw = rng.random()
    if draw < 0.45:
        return str(below(rng, 1000, 9999))
    if draw < 0.6:
        return str(below(rng, 100, 999))
    if draw < 0.7:
        return str(below(rng, 10000, 999999))
    letters = "".join(pick(rng, _LETTERS) for _ in range(below(rng, 1, 3))).upper()
    if draw < 0.85:
        return letters + str(below(rng, 10, 999))
    return letters + "-" + str(below(rng, 10, 9999))


def code(talk):
    return split_draw(talk, _code)


def number(talk):
    return split_draw(talk, lambda rng: str(below(rng, 1, 99 if rng.random() < 0.7 else 999)))


def age(talk):
    return str(below(talk.rng, 5, 95))


def clock(talk):
    rng = talk.rng
    if rng.random() < 0.4:
        return "%d %s" % (below(rng, 1, 12), pick(rng, ("am", "pm")))
    return "%d:%02d" % (below(rng, 6, 22), pick(rng, (0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55)))


def date(talk):
    return "%d %s" % (below(talk.rng, 1, 28), pick(talk.rng, MONTHS))


SPOTS = ("in the %s box", "in the %s bag", "in the %s drawer", "under the %s chair", "under the %s pillow", "behind the %s door", "on the %s shelf",
          "next to the %s lamp", "in the %s cup", "under the %s carpet", "in the %s tin", "behind the %s book", "on the %s table", "in the %s basket",
          "beside the %s vase", "in the %s coat", "under the %s hat", "in the %s suitcase", "on the %s chair", "inside the %s pot")
QUALITY = ("old", "new", "small", "big", "wooden", "round", "square", "broken", "heavy", "empty", "striped", "second", "third", "left", "right", "open")


def place(talk):
    """Where a thing is: a usual place, or a piece of furniture of some colour or kind."""
    if talk.chance(0.5):
        return talk.pick(PLACES)
    return split_draw(talk, lambda rng: pick(rng, SPOTS) % pick(rng, COLOURS.all if rng.random() < 0.5 else QUALITY))


def thing(talk):
    return talk.pick(OBJECTS) if talk.chance(0.8) else talk.pick(COLOURS) + " " + talk.pick(OBJECTS)
