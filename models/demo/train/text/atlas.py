# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts as plain tables."""


def table(text):
    """Rows of "a = b" separated by commas or line ends."""
    rows = [row.split("=") for row in text.replace("\n", ",").split(",") if row.strip()]
    return tuple(tuple(cell.strip() for cell in row) for row in rows)


CAPITALS = table("""
France=Paris, Germany=Berlin, Spain=Madrid, Italy=Rome, Portugal=Lisbon, Poland=Warsaw, Austria=Vienna, Switzerland=Bern, Belgium=Brussels
the Netherlands=Amsterdam, Denmark=Copenhagen, Norway=Oslo, Sweden=Stockholm, Finland=Helsinki, Iceland=Reykjavik, Ireland=Dublin
the United Kingdom=London, Greece=Athens, Turkey=Ankara, Hungary=Budapest, Romania=Bucharest, Bulgaria=Sofia, Serbia=Belgrade
Croatia=Zagreb, Slovenia=Ljubljana, Slovakia=Bratislava, the Czech Republic=Prague, Albania=Tirana, North Macedonia=Skopje
Montenegro=Podgorica, Estonia=Tallinn, Latvia=Riga, Lithuania=Vilnius, Ukraine=Kyiv, Belarus=Minsk, Moldova=Chisinau, Russia=Moscow
Malta=Valletta, Cyprus=Nicosia, Luxembourg=Luxembourg City, Monaco=Monaco, Andorra=Andorra la Vella, Liechtenstein=Vaduz, Georgia=Tbilisi
Armenia=Yerevan, Azerbaijan=Baku, Kazakhstan=Astana, Uzbekistan=Tashkent, Kyrgyzstan=Bishkek, Tajikistan=Dushanbe, Turkmenistan=Ashgabat
Afghanistan=Kabul, Pakistan=Islamabad, India=New Delhi, Nepal=Kathmandu, Bhutan=Thimphu, Bangladesh=Dhaka, Thailand=Bangkok
Vietnam=Hanoi, Laos=Vientiane, Cambodia=Phnom Penh, Malaysia=Kuala Lumpur, the Philippines=Manila, China=Beijing
Japan=Tokyo, South Korea=Seoul, North Korea=Pyongyang, Mongolia=Ulaanbaatar, Iran=Tehran, Iraq=Baghdad, Syria=Damascus, Lebanon=Beirut
Jordan=Amman, Saudi Arabia=Riyadh, Yemen=Sanaa, Oman=Muscat, Qatar=Doha, Kuwait=Kuwait City, Bahrain=Manama, the United Arab Emirates=Abu Dhabi
Egypt=Cairo, Libya=Tripoli, Tunisia=Tunis, Algeria=Algiers, Morocco=Rabat, Sudan=Khartoum, Ethiopia=Addis Ababa, Kenya=Nairobi
Uganda=Kampala, Rwanda=Kigali, Somalia=Mogadishu, Senegal=Dakar, Mali=Bamako, Ghana=Accra, Nigeria=Abuja, Cameroon=Yaounde
Angola=Luanda, Zambia=Lusaka, Zimbabwe=Harare, Mozambique=Maputo, Namibia=Windhoek, Botswana=Gaborone, Madagascar=Antananarivo
Niger=Niamey, Chad=N'Djamena, Gabon=Libreville, Liberia=Monrovia, Sierra Leone=Freetown, Guinea=Conakry, Togo=Lome, Malawi=Lilongwe
Canada=Ottawa, the United States=Washington, Mexico=Mexico City, Guatemala=Guatemala City, Honduras=Tegucigalpa, Nicaragua=Managua
Costa Rica=San Jose, Panama=Panama City, Cuba=Havana, Jamaica=Kingston, Haiti=Port-au-Prince, the Dominican Republic=Santo Domingo
El Salvador=San Salvador, Colombia=Bogota, Venezuela=Caracas, Ecuador=Quito, Peru=Lima, Brazil=Brasilia, Argentina=Buenos Aires
Chile=Santiago, Uruguay=Montevideo, Paraguay=Asuncion, Guyana=Georgetown, Suriname=Paramaribo, Australia=Canberra, New Zealand=Wellington
Fiji=Suva, Papua New Guinea=Port Moresby, Samoa=Apia, Tonga=Nuku'alofa, the Maldives=Male, Mauritius=Port Louis
South Africa=Pretoria, Tanzania=Dodoma, Bolivia=Sucre, Singapore=Singapore, Belize=Belmopan, Barbados=Bridgetown, Eritrea=Asmara
""")
CONTINENTS = table("""
France=Europe, Germany=Europe, Spain=Europe, Italy=Europe, Portugal=Europe, Poland=Europe, Norway=Europe, Sweden=Europe, Greece=Europe, Ireland=Europe
Finland=Europe, Austria=Europe, Hungary=Europe, Iceland=Europe, Denmark=Europe, China=Asia, Japan=Asia, India=Asia, Thailand=Asia, Vietnam=Asia
Nepal=Asia, Iran=Asia, Iraq=Asia, Mongolia=Asia, Pakistan=Asia, Jordan=Asia, Egypt=Africa, Kenya=Africa, Ghana=Africa, Nigeria=Africa, Morocco=Africa
Ethiopia=Africa, Algeria=Africa, Uganda=Africa, Senegal=Africa, Zambia=Africa, Canada=North America, Mexico=North America
the United States=North America, Cuba=North America, Jamaica=North America, Peru=South America, Brazil=South America, Argentina=South America
Chile=South America, Colombia=South America, Ecuador=South America, Bolivia=South America, Uruguay=South America, Fiji=Oceania, New Zealand=Oceania
""")
SPOKEN = table("""
France=French, Germany=German, Spain=Spanish, Italy=Italian, Portugal=Portuguese, Poland=Polish, Austria=German, Denmark=Danish, Norway=Norwegian
Sweden=Swedish, Finland=Finnish, Greece=Greek, Turkey=Turkish, Hungary=Hungarian, Romania=Romanian, Bulgaria=Bulgarian, Russia=Russian
Japan=Japanese, China=Chinese, Mexico=Spanish, Brazil=Portuguese, Argentina=Spanish, Egypt=Arabic, Australia=English, Iceland=Icelandic
the Netherlands=Dutch, Thailand=Thai, Vietnam=Vietnamese, South Korea=Korean, Iran=Persian, Cuba=Spanish, Peru=Spanish, Jamaica=English
""")
MONEY = table("""
France=euro, Germany=euro, Spain=euro, Italy=euro, Japan=yen, China=yuan, India=rupee, Russia=rouble, Poland=zloty, Sweden=krona, Norway=krone
Denmark=krone, Switzerland=franc, the United Kingdom=pound, the United States=dollar, Canada=dollar, Australia=dollar, Mexico=peso
Brazil=real, Turkey=lira, Hungary=forint, South Korea=won, Thailand=baht, Vietnam=dong, South Africa=rand, Ireland=euro, Greece=euro
""")
ELEMENTS = table("""
hydrogen=H=1, helium=He=2, lithium=Li=3, beryllium=Be=4, boron=B=5, carbon=C=6, nitrogen=N=7, oxygen=O=8, fluorine=F=9, neon=Ne=10, sodium=Na=11
magnesium=Mg=12, aluminium=Al=13, silicon=Si=14, phosphorus=P=15, sulfur=S=16, chlorine=Cl=17, argon=Ar=18, potassium=K=19, calcium=Ca=20
scandium=Sc=21, titanium=Ti=22, vanadium=V=23, chromium=Cr=24, manganese=Mn=25, iron=Fe=26, cobalt=Co=27, nickel=Ni=28, copper=Cu=29, zinc=Zn=30
gallium=Ga=31, germanium=Ge=32, arsenic=As=33, selenium=Se=34, bromine=Br=35, krypton=Kr=36, rubidium=Rb=37, strontium=Sr=38, yttrium=Y=39
zirconium=Zr=40, molybdenum=Mo=42, silver=Ag=47, cadmium=Cd=48, tin=Sn=50, antimony=Sb=51, iodine=I=53, xenon=Xe=54, caesium=Cs=55, barium=Ba=56
tungsten=W=74, platinum=Pt=78, gold=Au=79, mercury=Hg=80, lead=Pb=82, bismuth=Bi=83, radon=Rn=86, radium=Ra=88, thorium=Th=90, uranium=U=92
plutonium=Pu=94
""")
UNITS = table("""
seconds=a minute=60, minutes=an hour=60, hours=a day=24, days=a week=7, months=a year=12, weeks=a year=52, days=a year=365, days=a leap year=366
years=a decade=10, years=a century=100, years=a millennium=1000, seconds=an hour=3600, centimetres=a metre=100, metres=a kilometre=1000
millimetres=a centimetre=10, grams=a kilogram=1000, kilograms=a tonne=1000, millilitres=a litre=1000, inches=a foot=12, feet=a yard=3
ounces=a pound=16, pieces=a dozen=12, cents=a dollar=100, cents=a euro=100, pence=a pound sterling=100, bits=a byte=8, degrees=a circle=360
degrees=a right angle=90, letters=the English alphabet=26, vowels=the English alphabet=5, players=a football team=11, cards=a full deck=52
squares=a chessboard=64, colours=a rainbow=7, faces=a cube=6, strings=a violin=4, strings=a guitar=6, keys=a piano=88, seasons=a year=4
planets=the solar system=8, days=a fortnight=14, minutes=half an hour=30, millimetres=a metre=1000
quarters=a year=4, halves=a whole=2, players=a basketball team=5, rings=the Olympic symbol=5, stars=the flag of the United States=50
""")
OPPOSITES = table("""
hot=cold, big=small, up=down, left=right, day=night, black=white, open=closed, fast=slow, old=young, happy=sad, high=low, long=short, wet=dry
full=empty, hard=soft, heavy=light, in=out, on=off, rich=poor, strong=weak, thick=thin, true=false, wide=narrow, early=late, easy=difficult
clean=dirty, loud=quiet, near=far, new=old, good=bad, first=last, front=back, inside=outside, love=hate, begin=end, buy=sell, push=pull
win=lose, give=take, come=go, laugh=cry, ask=answer, north=south, east=west, summer=winter, top=bottom, always=never, everything=nothing
friend=enemy, war=peace, brave=cowardly, cheap=expensive, deep=shallow, sweet=sour, sharp=blunt, smooth=rough, tall=short, tight=loose
right=wrong, yes=no, before=after, above=below, over=under, more=less, many=few, most=least, here=there, arrive=leave, ascend=descend
accept=refuse, add=subtract, multiply=divide, asleep=awake, alive=dead, ancient=modern, beautiful=ugly, bright=dark, calm=stormy
careful=careless, float=sink, forget=remember, find=lose, freeze=melt, generous=mean, guilty=innocent, healthy=ill, hide=show, increase=decrease
kind=cruel, lazy=hard-working, light=dark, maximum=minimum, noisy=quiet, optimist=pessimist, polite=rude, positive=negative, possible=impossible
present=absent, public=private, raw=cooked, safe=dangerous, simple=complicated, single=married, solid=liquid, start=stop, straight=crooked
success=failure, together=apart, visible=invisible, warm=cool, whisper=shout, wild=tame, wise=foolish, tired=rested, entrance=exit
boring=interesting, build=destroy, lend=borrow, teach=learn, sunrise=sunset, question=answer, sit=stand, save=spend, repair=break
""")
YOUNG = table("""
cat=kitten, dog=puppy, cow=calf, horse=foal, sheep=lamb, goat=kid, pig=piglet, hen=chick, duck=duckling, goose=gosling, swan=cygnet, lion=cub
bear=cub, deer=fawn, kangaroo=joey, frog=tadpole, owl=owlet, eagle=eaglet, seal=pup, whale=calf, elephant=calf, fox=cub, wolf=pup, rabbit=kit
butterfly=caterpillar, tiger=cub, donkey=foal, giraffe=calf, koala=joey, fish=fry
""")
SOUNDS = table("""
cat=meows, dog=barks, cow=moos, horse=neighs, sheep=bleats, pig=oinks, duck=quacks, hen=clucks, rooster=crows, lion=roars, wolf=howls, frog=croaks
owl=hoots, bee=buzzes, snake=hisses, mouse=squeaks, donkey=brays, goose=honks, crow=caws, bird=sings, elephant=trumpets, bear=growls, dove=coos
""")
CLASSES = table("""
cat=mammal, dog=mammal, whale=mammal, dolphin=mammal, bat=mammal, elephant=mammal, mouse=mammal, horse=mammal, kangaroo=mammal, seal=mammal
eagle=bird, penguin=bird, owl=bird, hen=bird, swan=bird, ostrich=bird, sparrow=bird, parrot=bird, snake=reptile, lizard=reptile, turtle=reptile
crocodile=reptile, gecko=reptile, frog=amphibian, toad=amphibian, newt=amphibian, salamander=amphibian, salmon=fish, shark=fish, trout=fish
tuna=fish, cod=fish, goldfish=fish, ant=insect, bee=insect, butterfly=insect, beetle=insect, fly=insect, mosquito=insect, grasshopper=insect
spider=arachnid, scorpion=arachnid, crab=crustacean, lobster=crustacean, shrimp=crustacean, snail=mollusc, octopus=mollusc, squid=mollusc
""")
LEGS = table("""
dog=4, cat=4, horse=4, cow=4, spider=8, scorpion=8, ant=6, bee=6, fly=6, beetle=6, butterfly=6, hen=2, duck=2, owl=2, penguin=2, human=2, frog=4
lizard=4, elephant=4, snake=no, crab=10, lobster=10, mouse=4, snail=no, fish=no, ostrich=2, eagle=2, giraffe=4
""")
HOMES = table("""
bird=nest, bee=hive, dog=kennel, horse=stable, spider=web, rabbit=burrow, lion=den, fox=den, pig=sty, cow=barn, beaver=lodge, ant=anthill
squirrel=drey, eagle=eyrie, hen=coop, bear=den, badger=sett
""")
MIXES = (("red", "yellow", "orange"), ("blue", "yellow", "green"), ("red", "blue", "purple"), ("red", "white", "pink"), ("black", "white", "grey"),
         ("blue", "white", "light blue"), ("red", "green", "brown"), ("black", "red", "dark red"), ("blue", "green", "turquoise"))
COLOUR_OF = table("""
a banana=yellow, grass=green, the sky=blue, snow=white, coal=black, a lemon=yellow, a tomato=red, a carrot=orange, a flamingo=pink, milk=white
blood=red, a polar bear=white, a crow=black, chocolate=brown, a strawberry=red, an emerald=green, a ruby=red, a sapphire=blue, gold=yellow
an elephant=grey, a frog=green, a lime=green, an aubergine=purple, salt=white, a fire engine=red, a pumpkin=orange, a violet=purple, a leaf=green
""")
SIDES = table("""triangle=3, square=4, rectangle=4, pentagon=5, hexagon=6, heptagon=7, octagon=8, nonagon=9, decagon=10, rhombus=4, dodecagon=12""")
PLURALS = table("""
mouse=mice, man=men, woman=women, child=children, foot=feet, tooth=teeth, goose=geese, person=people, ox=oxen, leaf=leaves, knife=knives
wife=wives, wolf=wolves, life=lives, sheep=sheep, fish=fish, deer=deer, cactus=cacti, louse=lice, half=halves, shelf=shelves, thief=thieves
potato=potatoes, tomato=tomatoes, hero=heroes, baby=babies, city=cities, box=boxes, bus=buses, church=churches, loaf=loaves, story=stories
""")
PASTS = table("""
go=went, see=saw, eat=ate, drink=drank, run=ran, come=came, give=gave, take=took, make=made, do=did, have=had, be=was, know=knew, think=thought
buy=bought, bring=brought, catch=caught, teach=taught, fly=flew, swim=swam, sing=sang, write=wrote, speak=spoke, break=broke, drive=drove
ride=rode, fall=fell, feel=felt, find=found, get=got, grow=grew, hear=heard, hold=held, keep=kept, leave=left, lose=lost, meet=met, pay=paid
read=read, say=said, sell=sold, send=sent, sit=sat, sleep=slept, stand=stood, steal=stole, tell=told, throw=threw, wear=wore, win=won
begin=began, build=built, choose=chose, draw=drew, forget=forgot, freeze=froze, hide=hid, ring=rang, shake=shook, shine=shone, wake=woke
""")
BOOKS = table("""
Hamlet=William Shakespeare, Macbeth=William Shakespeare, Romeo and Juliet=William Shakespeare, Pride and Prejudice=Jane Austen, Emma=Jane Austen
Oliver Twist=Charles Dickens, Don Quixote=Miguel de Cervantes, War and Peace=Leo Tolstoy, Anna Karenina=Leo Tolstoy, Faust=Goethe
The Divine Comedy=Dante, The Odyssey=Homer, The Iliad=Homer, Frankenstein=Mary Shelley, Dracula=Bram Stoker, The Metamorphosis=Franz Kafka
Moby Dick=Herman Melville, Les Miserables=Victor Hugo, The Hobbit=J. R. R. Tolkien, Alice in Wonderland=Lewis Carroll, Pinocchio=Carlo Collodi
The Little Prince=Antoine de Saint-Exupery, Treasure Island=Robert Louis Stevenson, Jane Eyre=Charlotte Bronte, Crime and Punishment=Fyodor Dostoevsky
The Jungle Book=Rudyard Kipling, Winnie-the-Pooh=A. A. Milne, Robinson Crusoe=Daniel Defoe, Peter Pan=J. M. Barrie, Ulysses=James Joyce
""")
ART = table("""
the Mona Lisa=Leonardo da Vinci, The Starry Night=Vincent van Gogh, Guernica=Pablo Picasso, The Scream=Edvard Munch, The Night Watch=Rembrandt
Girl with a Pearl Earring=Johannes Vermeer, The Last Supper=Leonardo da Vinci, The Birth of Venus=Sandro Botticelli, The Kiss=Gustav Klimt
""")
MUSIC = table("""The Magic Flute=Mozart, the Ninth Symphony with the Ode to Joy=Beethoven, The Four Seasons=Vivaldi, Swan Lake=Tchaikovsky, Carmen=Bizet, Aida=Verdi""")
MADE = table("""
the telephone=Alexander Graham Bell, the theory of relativity=Albert Einstein, penicillin=Alexander Fleming, radium=Marie Curie, dynamite=Alfred Nobel
the law of gravity=Isaac Newton, the C language=Dennis Ritchie, Linux=Linus Torvalds, the World Wide Web=Tim Berners-Lee, Python=Guido van Rossum
the diesel engine=Rudolf Diesel, the printing press in Europe=Johannes Gutenberg, the first computer program=Ada Lovelace, the theory of evolution=Charles Darwin
""")
HELLO = (
    ("French", "bonjour", "merci", "au revoir", "oui"), ("German", "hallo", "danke", "auf Wiedersehen", "ja"), ("Spanish", "hola", "gracias", "adios", "si"),
    ("Italian", "ciao", "grazie", "arrivederci", "si"), ("Portuguese", "ola", "obrigado", "adeus", "sim"), ("Dutch", "hallo", "dank je", "tot ziens", "ja"),
    ("Polish", "czesc", "dziekuje", "do widzenia", "tak"), ("Swedish", "hej", "tack", "hej da", "ja"), ("Japanese", "konnichiwa", "arigato", "sayonara", "hai"),
    ("Russian", "privet", "spasibo", "do svidaniya", "da"), ("Turkish", "merhaba", "tesekkurler", "hosca kal", "evet"), ("Danish", "hej", "tak", "farvel", "ja"),
)
# The noun phrase asked for, a whole answer, and the part of it that counts.
SINGLE = (
    ("the largest ocean", "The largest ocean is the Pacific.", "Pacific"), ("the smallest ocean", "The smallest ocean is the Arctic Ocean.", "Arctic"),
    ("the highest mountain [in the world|on Earth]", "The highest mountain is Mount Everest.", "Everest"),
    ("the highest mountain in Africa", "The highest mountain in Africa is Kilimanjaro.", "Kilimanjaro"),
    ("the highest mountain in the Alps", "The highest mountain in the Alps is Mont Blanc.", "Mont Blanc"),
    ("the highest mountain in South America", "The highest mountain in South America is Aconcagua.", "Aconcagua"),
    ("the largest country [in the world|by area]", "The largest country by area is Russia.", "Russia"),
    ("the smallest country in the world", "The smallest country is Vatican City.", "Vatican"),
    ("the largest continent", "The largest continent is Asia.", "Asia"), ("the smallest continent", "The smallest continent is Australia.", "Australia"),
    ("the coldest continent", "The coldest continent is Antarctica.", "Antarctica"),
    ("the largest desert of sand", "The largest desert of sand is the Rub al Khali in Arabia.", "Rub al Khali"),
    ("the largest hot desert", "The largest hot desert is the Sahara.", "Sahara"), ("the largest island", "The largest island is Greenland.", "Greenland"),
    ("the longest river in Africa", "The longest river in Africa is the Nile.", "Nile"),
    ("the longest river in South America", "The longest river in South America is the Amazon.", "Amazon"),
    ("the longest river in Europe", "The longest river in Europe is the Volga.", "Volga"),
    ("the deepest lake", "The deepest lake is Lake Baikal in Russia.", "Baikal"), ("the highest waterfall", "The highest waterfall is Angel Falls in Venezuela.", "Angel Falls"),
    ("the deepest place in the ocean", "The deepest place in the ocean is the Mariana Trench.", "Mariana"),
    ("the largest animal", "The largest animal is the blue whale.", "blue whale"), ("the largest land animal", "The largest land animal is the African elephant.", "elephant"),
    ("the fastest land animal", "The fastest land animal is the cheetah.", "cheetah"), ("the tallest animal", "The tallest animal is the giraffe.", "giraffe"),
    ("the largest bird", "The largest bird is the ostrich.", "ostrich"), ("the fastest bird", "The fastest bird is the peregrine falcon.", "falcon"),
    ("the smallest bird", "The smallest bird is the bee hummingbird.", "hummingbird"), ("the largest fish", "The largest fish is the whale shark.", "whale shark"),
    ("the slowest mammal", "The slowest mammal is the sloth.", "sloth"), ("the largest cat", "The largest cat is the tiger.", "tiger"),
    ("the largest planet", "The largest planet is Jupiter.", "Jupiter"), ("the smallest planet", "The smallest planet is Mercury.", "Mercury"),
    ("the hottest planet", "The hottest planet is Venus.", "Venus"), ("the red planet", "The red planet is Mars.", "Mars"),
    ("the planet closest to the sun", "The planet closest to the sun is Mercury.", "Mercury"),
    ("the planet farthest from the sun", "The planet farthest from the sun is Neptune.", "Neptune"),
    ("the planet with the big rings", "The planet with the big rings is Saturn.", "Saturn"), ("the planet that we live on", "We live on the planet Earth.", "Earth"),
    ("the star closest to Earth", "The star closest to Earth is the Sun.", "Sun"), ("the name of the moon of Earth", "The moon of Earth is called the Moon.", "Moon"),
    ("the name of our galaxy", "Our galaxy is the Milky Way.", "Milky Way"), ("the largest moon of Saturn", "The largest moon of Saturn is Titan.", "Titan"),
    ("the largest moon of Jupiter", "The largest moon of Jupiter is Ganymede.", "Ganymede"),
    ("the chemical formula of water", "The chemical formula of water is H2O.", "H2O"), ("the lightest element", "The lightest element is hydrogen.", "hydrogen"),
    ("the chemical formula of table salt", "The chemical formula of table salt is NaCl.", "NaCl"),
    ("the chemical formula of carbon dioxide", "The chemical formula of carbon dioxide is CO2.", "CO2"),
    ("the boiling point of water", "Water boils at 100 degrees Celsius.", "100"), ("the freezing point of water", "Water freezes at 0 degrees Celsius.", "0"),
    ("the normal temperature of the human body", "The human body is about 37 degrees Celsius warm.", "37"),
    ("the speed of light", "Light travels about 300,000 kilometres in a second.", "300,000"),
    ("the speed of sound in air", "Sound travels about 340 metres in a second in air.", "340"), ("the value of pi", "Pi is about 3.14159.", "3.14159"),
    ("the hardest natural material", "The hardest natural material is diamond.", "diamond"), ("the gas that we need to breathe", "We need oxygen to breathe.", "oxygen"),
    ("the most common gas in the air", "The most common gas in the air is nitrogen.", "nitrogen"), ("the metal that is liquid at room temperature", "The metal that is liquid at room temperature is mercury.", "mercury"),
    ("the largest organ of the human body", "The largest organ of the human body is the skin.", "skin"), ("the longest bone in the human body", "The longest bone is the thigh bone.", "thigh"),
    ("the organ that pumps the blood", "The heart pumps the blood.", "heart"), ("the organ that we think with", "We think with the brain.", "brain"),
    ("the first month of the year", "The first month of the year is January.", "January"), ("the last month of the year", "The last month of the year is December.", "December"),
    ("the shortest month of the year", "The shortest month of the year is February.", "February"), ("the first day of the week", "The first day of the week is Monday here.", "Monday"),
    ("the first letter of the alphabet", "The first letter of the alphabet is A.", "is A"), ("the last letter of the alphabet", "The last letter of the alphabet is Z.", "Z"),
    ("the smallest prime number", "The smallest prime number is 2.", "2"), ("the square root of 9", "The square root of 9 is 3.", "3"),
    ("the square root of 16", "The square root of 16 is 4.", "4"), ("the square root of 25", "The square root of 25 is 5.", "5"),
    ("the square root of 36", "The square root of 36 is 6.", "6"), ("the square root of 49", "The square root of 49 is 7.", "7"),
    ("the square root of 64", "The square root of 64 is 8.", "8"), ("the square root of 81", "The square root of 81 is 9.", "9"),
    ("the square root of 100", "The square root of 100 is 10.", "10"), ("the square root of 4", "The square root of 4 is 2.", "2"),
    ("the answer to life, the universe and everything", "They say that it is 42.", "42"), ("the meaning of life", "They say that it is 42, but I am a small model.", "42"),
    ("the colour of the sun seen from space", "Seen from space, the sun is white.", "white"), ("the largest city in Australia", "The largest city in Australia is Sydney.", "Sydney"),
    ("the river that flows through Paris", "The Seine flows through Paris.", "Seine"), ("the river that flows through London", "The Thames flows through London.", "Thames"),
    ("the river that flows through Vienna", "The Danube flows through Vienna.", "Danube"), ("the river that flows through Cairo", "The Nile flows through Cairo.", "Nile"),
    ("the river that flows through Rome", "The Tiber flows through Rome.", "Tiber"), ("the city of the Eiffel Tower", "The Eiffel Tower is in Paris.", "Paris"),
    ("the city of the Colosseum", "The Colosseum is in Rome.", "Rome"), ("the city of Big Ben", "Big Ben is in London.", "London"),
    ("the country of the pyramids of Giza", "The pyramids of Giza are in Egypt.", "Egypt"), ("the country of the Taj Mahal", "The Taj Mahal is in India.", "India"),
    ("the country of Machu Picchu", "Machu Picchu is in Peru.", "Peru"), ("the country of the Great Wall", "The Great Wall is in China.", "China"),
    ("the city of the Statue of Liberty", "The Statue of Liberty is in New York.", "New York"), ("the city of the Brandenburg Gate", "The Brandenburg Gate is in Berlin.", "Berlin"),
    ("the city of the Acropolis", "The Acropolis is in Athens.", "Athens"), ("the first person on the Moon", "The first person on the Moon was Neil Armstrong.", "Armstrong"),
    ("the first person in space", "The first person in space was Yuri Gagarin.", "Gagarin"), ("the first woman in space", "The first woman in space was Valentina Tereshkova.", "Tereshkova"),
    ("the year of the first Moon landing", "The first Moon landing was in 1969.", "1969"), ("the year in which the Berlin Wall fell", "The Berlin Wall fell in 1989.", "1989"),
    ("the largest number with two digits", "The largest number with two digits is 99.", "99"), ("the instrument with 88 keys", "The piano has 88 keys.", "piano"),
    ("the king of the animals", "The lion is called the king of the animals.", "lion"), ("the animal with the longest neck", "The giraffe has the longest neck.", "giraffe"),
)
# Questions that fit no noun phrase: wordings, answer, part that counts.
ODD = (
    ("How many continents are there?\nHow many continents does the Earth have?\nCount the continents.\nWhat is the number of continents?\nTell me how many continents there are.", "There are 7 continents.", "7"),
    ("How many oceans are there?\nHow many oceans does the Earth have?\nWhat is the number of oceans?\nTell me how many oceans there are.\nCount the oceans.", "There are 5 oceans.", "5"),
    ("How many planets are there?\nHow many planets are in our solar system?\nTell me how many planets there are.\nWhat is the number of planets?\nDo you know how many planets there are?", "There are 8 planets.", "8"),
    ("Name the planets.\nWhat are the planets?\nList the planets.\nCan you name all planets?\nWhich planets are there?\nTell me all the planets.", "The planets are Mercury, Venus, Earth, Mars, Jupiter, Saturn, Uranus and Neptune.", "Mercury, Venus, Earth, Mars, Jupiter, Saturn, Uranus and Neptune"),
    ("Name the days of the week.\nWhat are the days of the week?\nList the days of the week.\nCan you name the days of the week?\nTell me the days of the week.\nWhich days does a week have?", "The days are Monday, Tuesday, Wednesday, Thursday, Friday, Saturday and Sunday.", "Monday, Tuesday, Wednesday, Thursday, Friday, Saturday and Sunday"),
    ("Name the months.\nWhat are the months of the year?\nList the months.\nCan you name all months?\nTell me the months of the year.\nWhich months are there?", "The months are January, February, March, April, May, June, July, August, September, October, November and December.", "October, November and December"),
    ("Name the seasons.\nWhat are the seasons?\nList the four seasons.\nWhich seasons are there?\nTell me the seasons.", "The seasons are spring, summer, autumn and winter.", "spring, summer, autumn and winter"),
    ("Name the oceans.\nWhat are the oceans?\nList the oceans.\nWhich oceans are there?\nTell me the names of the oceans.", "The oceans are the Pacific, the Atlantic, the Indian, the Southern and the Arctic Ocean.", "Pacific"),
    ("Name the continents.\nWhat are the continents?\nList the continents.\nWhich continents are there?\nTell me the continents.", "The continents are Africa, Antarctica, Asia, Australia, Europe, North America and South America.", "Africa, Antarctica, Asia"),
    ("What are the colours of the rainbow?\nName the colours of the rainbow.\nList the rainbow colours.\nWhich colours does a rainbow have?\nTell me the colours of the rainbow.", "The colours of the rainbow are red, orange, yellow, green, blue, indigo and violet.", "indigo and violet"),
    ("What are the primary colours?\nName the primary colours.\nWhich are the primary colours?\nTell me the primary colours.\nList the primary colours.", "The primary colours of paint are red, yellow and blue.", "red, yellow and blue"),
    ("What are the vowels?\nName the vowels.\nWhich letters are vowels?\nTell me the vowels.\nList the vowels.", "The vowels are a, e, i, o and u.", "a, e, i, o and u"),
    ("Say the alphabet.\nWhat is the alphabet?\nWrite the alphabet.\nRecite the alphabet.\nCan you say the alphabet?\nTell me the ABC.", "A B C D E F G H I J K L M N O P Q R S T U V W X Y Z.", "X Y Z"),
    ("Why is the sky blue?\nHow come the sky is blue?\nWhat makes the sky blue?\nCan you explain why the sky is blue?\nTell me why the sky is blue.", "Because air scatters blue light more than red light.", "scatters"),
    ("Why is the sea salty?\nWhat makes the sea salty?\nHow come the sea is salty?\nTell me why the sea is salty.\nWhy is sea water salty?", "Rivers carry salt from the rocks into the sea, and it stays there.", "salt from the rocks"),
    ("Why do we have seasons?\nWhat causes the seasons?\nWhy are there seasons?\nTell me why there are seasons.\nHow do the seasons come about?", "Because the axis of the Earth is tilted on its way around the sun.", "tilted"),
    ("What do bees make?\nWhat comes from bees?\nWhat do we get from bees?\nTell me what bees make.\nWhich food do bees make?", "Bees make honey.", "honey"),
    ("What do pandas eat?\nWhat is the food of pandas?\nTell me what pandas eat.\nWhat does a panda eat?\nDo you know what pandas eat?", "Pandas eat bamboo.", "bamboo"),
    ("What do cows give?\nWhat do cows give us?\nWhat do we get from cows?\nTell me what cows give us.\nWhich drink comes from cows?", "Cows give milk.", "milk"),
    ("What is ice made of?\nWhat is ice?\nTell me what ice is.\nWhat is ice, really?\nDo you know what ice is?", "Ice is frozen water.", "frozen water"),
    ("What is bread made of?\nHow is bread made?\nWhat do you need for bread?\nTell me what bread is made of.\nWhat is in bread?", "Bread is made of flour, water, salt and yeast.", "flour"),
    ("What is glass made of?\nFrom what is glass made?\nTell me what glass is made of.\nHow is glass made?\nWhat do you need for glass?", "Glass is made of sand.", "sand"),
    ("What is paper made of?\nFrom what is paper made?\nTell me what paper is made of.\nWhat do you need to make paper?\nHow is paper made?", "Paper is made of wood.", "wood"),
    ("What is cheese made of?\nFrom what is cheese made?\nTell me what cheese is made of.\nWhat do you need to make cheese?\nHow is cheese made?", "Cheese is made of milk.", "milk"),
    ("Is a whale a fish?\nAre whales fish?\nIs the whale a fish?\nIs a whale a kind of fish?\nTell me if whales are fish.", "No, a whale is a mammal.", "mammal"),
    ("Is a tomato a fruit?\nAre tomatoes fruit?\nIs the tomato a fruit?\nIs a tomato a fruit or a vegetable?\nTell me if a tomato is a fruit.", "Yes, a tomato is a fruit, though we cook it as a vegetable.", "Yes"),
    ("Is the Earth flat?\nIs the Earth round?\nWhat shape does the Earth have?\nWhat is the shape of the Earth?\nTell me if the Earth is round.", "The Earth is round like a ball.", "round"),
    ("Does the sun go around the Earth?\nDoes the Earth go around the sun?\nWhat goes around what, Earth or sun?\nDoes the Earth move around the sun?\nWhat does the Earth go around?", "The Earth goes around the sun.", "Earth goes around the sun"),
    ("How long does the Earth take around the sun?\nHow long is one trip of the Earth around the sun?\nIn what time does the Earth go around the sun?\nHow many days does the Earth need around the sun?\nTell me how long the Earth takes around the sun.", "The Earth takes one year around the sun.", "one year"),
    ("How many legs does a spider have, and is it an insect?\nIs a spider an insect?\nAre spiders insects?\nTell me if a spider is an insect.\nIs the spider an insect?", "No, a spider is an arachnid and has 8 legs.", "arachnid"),
    ("Can penguins fly?\nDo penguins fly?\nTell me if penguins can fly.\nIs a penguin able to fly?\nIs it true that penguins cannot fly?", "No, penguins cannot fly, but they swim very well.", "cannot fly"),
    ("How many teeth does an adult have?\nHow many teeth do adults have?\nHow many teeth does a grown person have?\nTell me how many teeth people have.\nWhat is the number of teeth of an adult?", "An adult has 32 teeth.", "32"),
    ("How many bones does a human have?\nHow many bones are in the human body?\nTell me how many bones people have.\nHow many bones does an adult have?\nWhat is the number of bones in the body?", "An adult has 206 bones.", "206"),
    ("How many fingers do I have?\nHow many fingers does a hand have?\nHow many fingers are on one hand?\nTell me how many fingers a hand has.\nCount the fingers of a hand.", "A hand has 5 fingers, the thumb included.", "5"),
    ("How many hearts does an octopus have?\nTell me how many hearts an octopus has.\nHow many hearts has an octopus got?\nDo you know how many hearts an octopus has?\nWhat is the number of hearts of an octopus?", "An octopus has 3 hearts.", "3"),
    ("How many arms does an octopus have?\nTell me how many arms an octopus has.\nHow many arms has an octopus got?\nDo you know how many arms an octopus has?\nWhat is the number of arms of an octopus?", "An octopus has 8 arms.", "8"),
    ("How many days does February have?\nHow long is February?\nHow many days are in February?\nTell me how many days February has.\nWhat is the number of days in February?", "February has 28 days, or 29 in a leap year.", "28"),
    ("Which months have 31 days?\nTell me the months with 31 days.\nWhat months have 31 days?\nName the months that have 31 days.\nList the months with 31 days.", "January, March, May, July, August, October and December have 31 days.", "March, May, July, August"),
    ("Which is heavier, a kilogram of feathers or a kilogram of iron?\nWhat is heavier, a kilo of iron or a kilo of feathers?\nIs a kilo of iron heavier than a kilo of feathers?\nWhat weighs more, a kilo of feathers or a kilo of iron?\nAre a kilo of feathers and a kilo of iron the same?", "They are the same: both weigh one kilogram.", "same"),
    ("Which came first, the chicken or the egg?\nWhat was first, the egg or the chicken?\nChicken or egg?\nWas the chicken or the egg first?\nTell me what came first, chicken or egg.", "The egg: animals laid eggs long before there were chickens.", "egg"),
)
