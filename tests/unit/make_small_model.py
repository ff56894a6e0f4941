# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes data/small.model, a tokenizer of 600 pieces with the demo's flags, and data/small.ids: texts and their ids.

The ids are python sentencepiece's, so that test_tok.c compares our path with another one. One text a line, written with
\\n, \\t and \\\\, then a tab, then the ids. Run from anywhere; needs sentencepiece (0.2.x).
"""

import itertools
import pathlib
import sys

import sentencepiece

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "models/demo/train"))

from tokenizer import train  # noqa: E402

WHO = ("the miller", "a young fox", "my sister", "the old clock", "nobody", "our captain", "Ada", "the night train")
DID = ("carried", "forgot", "painted", "was looking for", "remembered", "borrowed", "counted", "opened")
WHAT = ("three green apples", "the second letter", "a box of nails", "her grandmother's map", "12 silver spoons",
        "every window of the house", "one more question", "a song about rain")
WHERE = ("before breakfast", "at the harbour", "under the bridge", "in 1907", "without a word", "again and again",
         "between two mountains", "for 3.50 a day")

TEXTS = (
    "", " ", "  ", "\n", "hello", "Hello, world!", "the miller carried three green apples before breakfast.",
    "two  spaces and   three", " leading and trailing ", "tab\there\nand\n\nlines", "12345 + 67 = 12412",
    "<|end|>", "<|user|>text<|end|><|assistant|>", "<s>", "</s><unk>", "<0x41><0xFF>", "\\n is not a newline",
    "naïve café Ärger", "привет", "日本語のテキスト", "😀 👩‍👩‍👧", "e\u0301 and \u00e9", "\ufffd", "\u00a0\u3000\u200b\ufeff",
    "if (x != 0) { return x->y[i] * 2; }", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "the the the the",
)


def sentences():
    for who, did, what, where in itertools.product(WHO, DID, WHAT, WHERE):
        yield f"{who} {did} {what} {where}."
        yield f"{where[0].upper()}{where[1:]}, {who} {did} {what}; why?"


def escape(text):
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")


def main():
    train(sentences(), HERE / "data/small.model", vocab_size=600)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(HERE / "data/small.model"))
    with open(HERE / "data/small.ids", "w", encoding="utf-8") as file:
        for text in TEXTS:
            file.write(f"{escape(text)}\t{' '.join(map(str, pieces.encode(text)))}\n")


main()
