# SPDX-License-Identifier: GPL-3.0-or-later
"""Ids of our tokenizer against those of the tokenizers library: compare_tokenizers.py TEST_BPE TOKENIZER_JSON, or
TEST_PIECES TOKENIZER_JSON PRE, which makes the arrays of a GGUF of it.

Control symbols and marks are taken out of the library's copy first: what people type never becomes one.
"""
import json
import subprocess
import sys

from nasty_texts import texts


def is_plain(content):
    return not any((" " < c < "\x7f" and not c.isalnum()) or c in "\uff5c\u2581\x7f" for c in content)


def without_marks(path):
    from tokenizers import Tokenizer
    with open(path, encoding="utf-8") as file:
        made = json.load(file)
    for token in made["added_tokens"]:  # by names that are in no text, so that the others keep their ids
        if token["special"] or not is_plain(token["content"]):
            token["content"] = f"\U0010fffd\ue123{token['id']}\U0010fffd"
    return Tokenizer.from_str(json.dumps(made))


def ours(program, kind, path, strings):
    lines = "".join(s.encode().hex() + "\n" for s in strings)
    with open(path, encoding="utf-8") as file:  # spaces that an added token takes in don't come back, nor what NFC composes
        content = file.read().replace(" ", "")
    changes = '"lstrip":true' in content or '"type":"NFC"' in content
    done = subprocess.run([program, "--ids-only" if changes else "--ids", kind, path], input=lines, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"FAIL {path}: {done.stderr}")
    return [[int(i) for i in line.split()] for line in done.stdout.split("\n")[:-1]]


def compare(program, kind, path, reference, count=20000):
    strings = texts(count)
    wrong = 0
    for text, got in zip(strings, ours(program, kind, path, strings), strict=True):
        want = reference(text)
        if got != want:
            wrong += 1
            if wrong <= 10:
                print(f"    {text!r}: got {got}, want {want}")
    made = "" if kind == "huggingface" else f" as {kind}"
    print(f"{'FAIL' if wrong else 'PASS'} ids of {path}{made} are the library's ({len(strings)} texts, {wrong} differ)")
    return wrong


if __name__ == "__main__":
    library = without_marks(sys.argv[2])
    sys.exit(compare(sys.argv[1], sys.argv[3] if sys.argv[3:] else "huggingface", sys.argv[2],
                     lambda s: library.encode(s, add_special_tokens=False).ids) > 0)
