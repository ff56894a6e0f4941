# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo's tokenizer: SentencePiece BPE that gives back every byte it was given.

SentencePiece writes a space as U+2581 and so cannot tell a typed U+2581 from a space; `encode` spells that
character, and any byte that is not UTF-8, in byte pieces. Control symbols never come out of text.
"""

import io
import random

import sentencepiece

CONTROL = ("<|system|>", "<|user|>", "<|assistant|>", "<|end|>")
SPACE_MARK = b"\xe2\x96\x81"
VOCAB_SIZE = 4096


def train(texts, path, vocab_size=VOCAB_SIZE):
    """Train on an iterable of texts and write `path`; the same texts give the same file."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=model, model_type="bpe", vocab_size=vocab_size,
        byte_fallback=True, split_digits=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
        add_dummy_prefix=False, allow_whitespace_only_pieces=True, character_coverage=1.0,
        max_sentence_length=65536, control_symbols=list(CONTROL), unk_id=0, bos_id=1, eos_id=2, pad_id=-1,
        num_threads=1, minloglevel=1)
    with open(path, "wb") as file:
        file.write(model.getvalue())


class Tokenizer:
    def __init__(self, path):
        self.pieces = sentencepiece.SentencePieceProcessor(model_file=str(path))
        self.bos = self.pieces.bos_id()
        self.system, self.user, self.assistant, self.end = (self.pieces.piece_to_id(c) for c in CONTROL)
        self.byte = [self.pieces.piece_to_id(f"<0x{b:02X}>") for b in range(256)]
        self.byte_of = {id_: b for b, id_ in enumerate(self.byte)}
        self.role = {"system": self.system, "user": self.user, "assistant": self.assistant}

    def __len__(self):
        return self.pieces.get_piece_size()

    def encode(self, text):
        """ids of a str or of any bytes."""
        if isinstance(text, str):
            if "\u2581" not in text:
                return self.pieces.encode(text)
            text = text.encode()
        ids = []
        for run, plain in runs(text):
            ids += self.pieces.encode(run.decode()) if plain else [self.byte[b] for b in run]
        return ids

    def decode_bytes(self, ids):
        """The bytes of ids; control symbols and bos are silent."""
        out = bytearray()
        for id_ in ids:
            if id_ in self.byte_of:
                out.append(self.byte_of[id_])
            elif not self.pieces.is_control(id_):
                out += self.pieces.id_to_piece(id_).encode().replace(SPACE_MARK, b" ")
        return bytes(out)

    def decode(self, ids):
        return self.decode_bytes(ids).decode(errors="replace")

    def turns(self, messages, answer=True, encode=None):
        """(ids, weights class) of a conversation: class 0 structure, 1 user or system text, 2 assistant text and its end.

        With answer=True and a last turn of the user's, the ids end with <|assistant|>.
        """
        ids, kinds = [self.bos], [0]
        for role, text in messages:
            body = (encode or self.encode)(text)
            kind = 2 if role == "assistant" else 1
            ids += [self.role[role], *body, self.end]
            kinds += [0, *[kind] * len(body), 2 if role == "assistant" else 0]
        if answer and messages[-1][0] != "assistant":
            ids.append(self.assistant)
            kinds.append(0)
        return ids, kinds


def runs(data):
    """Cut bytes into (run, True) of plain UTF-8 and (run, False) of bytes to be spelled."""
    start = 0
    while start < len(data):
        mark = data.find(SPACE_MARK, start)
        end = len(data) if mark < 0 else mark
        while start < end:
            try:
                data[start:end].decode()
                yield data[start:end], True
                start = end
            except UnicodeDecodeError as error:
                if error.start:
                    yield data[start:start + error.start], True
                yield data[start + error.start:start + error.end], False
                start += error.end
        if mark >= 0:
            yield SPACE_MARK, False
            start = mark + len(SPACE_MARK)


def check(tokenizer, texts):
    """Raise unless every text, and a set of hard ones, comes back byte for byte."""
    rng = random.Random(7)
    hard = ["", " ", "  ", "\n", "\n\n\t x\r\n", " leading", "trailing ", "two  spaces   three", "tab\there",
            "\u2581", "a\u2581 b", "😀 👩‍👩‍👧 é e\u0301 ﬁ Å", "".join(map(chr, range(256))), "<s></s><unk>",
            "".join(CONTROL), "<0x41>", "１２３ ½ 12345678901", "\ufeff\u200b\u00a0 \u3000x", "\ufffd"]
    hard += ["".join(chr(rng.choice((rng.randrange(32, 127), rng.randrange(0xD800), rng.randrange(0xE000, 0x110000))))
                     for _ in range(40)) for _ in range(200)]
    data = [text.encode() for text in [*hard, *texts]]
    data += [bytes(range(256)), *(rng.randbytes(60) for _ in range(200))]
    for text in data:
        ids = tokenizer.encode(text)
        if tokenizer.decode_bytes(ids) != text:
            raise AssertionError(f"{text!r} came back as {tokenizer.decode_bytes(ids)!r}")
        if any(tokenizer.pieces.is_control(id_) or id_ == tokenizer.pieces.unk_id() for id_ in ids):
            raise AssertionError(f"{text!r} made a control symbol")
    for name in (*CONTROL, "<s>"):
        if not tokenizer.pieces.is_control(tokenizer.pieces.piece_to_id(name)):
            raise AssertionError(f"{name} is no control symbol")
    return len(data)
