# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts that tokenizers get wrong: the same ones every time. Used by make_small_bpe.py and compare_tokenizers.py."""
import random

SPACES = "\t\n\x0b\x0c\r \x85\xa0\u1680\u180e\u2000\u2001\u2007\u200a\u200b\u2028\u2029\u202f\u205f\u2060\u3000\ufeff"
NEWER = "\u0897\u0cf3\u1c89\u1c8a\u2427\u2ffc\u31ef\ua7cb\ua7da\U00010d4a\U00010d6f\U00011f02\U0001d2c0\U0001e4f0" \
        "\U0001fa75\U0001fae8\U0002b739\U0002ebf0\U0002ee5d\U00031350\U000323af\U00016140\U00018d80\U0001ccf0"
PARTS = {
    "latin": "the quick brown Fox jumped over THE lazy dog's back, didn't it? I'LL say: we've 'Re 's 'ſ 'T'm'D".split(" "),
    "words": ["camelCaseWord", "snake_case", "HTTPServer2", "naïve", "Ünïcödé", "ﬁnal", "ǅungla", "ßtraße", "İstanbul",
              "ªº", "ⅣⅤ", "x²³", "½cup", "ʰello", "don\u2019t", "A\u0301\u0327b", "e\u0301\u0301\u0301"],
    "code": ["{\"a\": [1,2]}", "for(i=0;i<10;++i){", "->", "::", "//", "/*\n*/", "#include", "\\n", "$x", "<html>", "a&&b",
             "==", "!!", "...", "\t\treturn", "    if", "```\n", "|||", "~/.x", "%s%%", "@user", "^_^", "--option=1"],
    "digits": ["1", "12", "123", "1234", "12345678901", "3.14159", "1,000,000", "٣٤٥٦", "१२३४", "１２３４", "𝟙𝟚𝟛𝟜",
               "①②③", "0x1F", "2024-01-02", "Ⅷ", "〇一二", "৪২", "¼½¾", "𐄇𐄈"],
    "cjk": ["你好世界", "中文，没有空格。", "日本語のテキスト", "カタカナ", "ひらがな", "한국어텍스트", "㐀㐁", "𠀀𠀁", "豈更",
            "々〆〤", "⺀⺁", "龥龦鿿", "ー", "～！，。、", "ｱｲｳ", "ㄅㄆ", "〡〢", "中a中1中 中", "寧\U0002f800"],
    "scripts": ["Привет", "мир", "مرحبا", "שלום", "नमस्ते", "สวัสดี", "ไทยไม่มีช่องว่าง", "ქართული", "Ελληνικά",
                "አማርኛ", "ខ្មែរ", "བོད", "தமிழ்", "ᠮᠣᠩ\u180eᠭᠣᠯ", "Հայ", "ꙮ", "𐐷𐐨", "𞤀𞤁", "ᏣᎳᎩ", "ⴰⵎ"],
    "emoji": ["😀", "👍🏽", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪🇫🇷", "❤️", "☕︎", "1️⃣", "#️⃣", "🧑🏿‍🚀", "🫨", "©®™", "→⇒", "♔♕", "𝒜𝓑", "\u200d", "\ufe0f"],
    "special": ["<think>", "</think>", "<s>", "</s>", "<|im_end|>", "<|im_user|>", "<｜User｜>", "<｜end▁of▁sentence｜>",
                "<|EOT|>", "[gMASK]", "<sop>", "<|user|>", "<|endoftext|>", "｜", "▁", "<｜", "[BOS]", "[EOT]", "<0x0A>",
                "<unk>", "<|reserved_token_900|>", "<｜tool▁calls▁begin｜>", "ü", "ööö", "üü", "üü  \u3000", "pi\u00f1ata"],
    "newlines": ["\n", "\r", "\r\n", "\n\n", "\n\r", " \n", "\n ", "\t\n", "\n\n\n\n", "\r\r\n\n", "\x0b\n", "\u2028\n", "\x85"],
}
LONG = "the license program conveying source permission covered corresponding of in any other to and th er ing con".split()


def one(rng, i):
    kind = i % 12
    if kind == 0:  # every plane
        return "".join(chr(c) for c in (rng.randrange(0x110000) for _ in range(rng.randrange(1, 12))) if not 0xD800 <= c < 0xE000)
    if kind == 1:  # the BMP, where most rules are
        return "".join(chr(c) for c in (rng.randrange(0x20, 0x3100) for _ in range(rng.randrange(1, 16))))
    if kind == 2:
        return "".join(rng.choice(SPACES) if rng.random() < 0.6 else rng.choice("aZ1.中'é") for _ in range(rng.randrange(1, 14)))
    if kind == 3:
        return "".join(rng.choice(NEWER) if rng.random() < 0.4 else rng.choice("aB1 .\n中é!") for _ in range(rng.randrange(1, 10)))
    if kind == 4:
        base = rng.choice("aeéñ中अก가😀1 .")
        return "".join(base + "".join(chr(rng.randrange(0x300, 0x370)) for _ in range(rng.randrange(4))) for _ in range(rng.randrange(1, 6)))
    names = list(PARTS)
    if kind == 5:  # one kind alone
        name = rng.choice(names)
        return rng.choice(["", " "]).join(rng.choice(PARTS[name]) for _ in range(rng.randrange(1, 6)))
    if kind == 6:
        return "".join(rng.choice("AaBbÇçЖжǅ中ɑ'sTLl ") for _ in range(rng.randrange(1, 20)))
    if kind == 7:
        return "".join(rng.choice("0123456789٣१①½.,- ") for _ in range(rng.randrange(1, 20)))
    if kind == 8:
        return "".join(chr(rng.randrange(0x20, 0x7f)) for _ in range(rng.randrange(1, 24)))
    if kind == 9:  # words that take many merges
        return rng.choice(["", " ", "A"]) + "".join(rng.choice(LONG) for _ in range(rng.randrange(4, 30)))
    glue = rng.choice(["", "", " ", "  ", "\n", "\t", "\r\n"])
    return glue.join(rng.choice(PARTS[rng.choice(names)]) for _ in range(rng.randrange(1, 7)))


def texts(count=5000, seed=20260101):
    rng = random.Random(seed)
    whole = ["", " ", "  ", "a", "\n", "\r\n", "\x00", "\x7f", "a\x00b", " \n \n x", "x   ", "   x", "\n\n \n\nb", "'", "'s", " 's",
             "jqxz", " jqxz", "jqxzz jqxz!"]
    whole += [part for parts in PARTS.values() for part in parts] + list(SPACES) + list(NEWER)
    whole += ["a" * 300, "A" * 300, "中" * 100, " " * 100 + "x", "\n" * 70, "1" * 100, "." * 90, "é" * 120, "ab" * 150,
              "ก" * 80, "e\u0301" * 60, "😀" * 50, "aA" * 90, " a" * 100, "the" * 60, "\t" * 40 + "\n" * 3 + " " * 9]
    while len(whole) < count:
        whole.append(one(rng, len(whole)))
    return whole
