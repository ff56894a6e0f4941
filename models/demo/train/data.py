# SPDX-License-Identifier: GPL-3.0-or-later
"""Conversations to batches: written and tokenised by many processes while the model trains.

A batch is one row of a fixed number of tokens: whole conversations one after another, sorted by length, each its
own document (positions start at 0, attention stays inside). Of long ones only the first MAX_LENGTH tokens are taken.
"""

import collections
import multiprocessing
import random
import re

import numpy as np

import text
from tokenizer import Tokenizer

MAX_LENGTH = 4096
SPELL_SHARE, SPELL_WORDS = 0.25, 0.3  # of the conversations, of the words in them
BYTES_SHARE = 0.05  # of the parts of a word that is cut: spelled in bytes
LOOKUP_SHARE, EARLY_LOOKUP_SHARE = 0.1, 0.4  # of the tokens: tables and questions about them
EARLY, EASY = 2800, 600  # batches with the larger share; with small tables only
LONG_SHARE = 0.15  # of the tokens
LONG_WORDS = (400, 2600)
PLAIN_SHARE = 0.03  # of the conversations: the bare text, as `eval --text` reads it
WEIGHTS = np.array([0.05, 0.2, 1.0], dtype=np.float32)  # structure, user, assistant
PLAIN_WEIGHT = 0.3
BUCKETS = (256, 1024, MAX_LENGTH)


def plain_text(messages):
    return "\n".join(body for _, body in messages) + "\n"


WORD = re.compile(r" ?[^\W\d_]{3,}")


class Spelling:
    """The tokenizer, but some of the user's words are cut into other pieces, alike in the whole conversation.

    What is copied from the user is then not always the same few pieces, so copying is learned, not words. A word is
    cut at the same letters with and without a space before it; now and then a part is spelled in byte pieces.
    """

    def __init__(self, tokenizer, rng, messages):
        self.plain = tokenizer
        self.cut = {}
        words = {word.strip().lower() for role, body in messages if role == "user" for word in WORD.findall(body)}
        for word in sorted(words):
            if rng.random() < SPELL_WORDS:
                at = sorted(rng.sample(range(1, len(word)), min(len(word) - 1, rng.randint(1, 3))))
                self.cut[word] = at, {i for i in range(len(at) + 1) if rng.random() < BYTES_SHARE}

    def encode_word(self, word, at, in_bytes):
        shift = word[0] == " "
        at = [0, *(i + shift for i in at if i + shift < len(word)), len(word)]
        ids = []
        for i, (a, b) in enumerate(zip(at, at[1:])):
            ids += [self.plain.byte[c] for c in word[a:b].encode()] if i in in_bytes else self.plain.encode(word[a:b])
        return ids

    def encode(self, body):
        ids, start = [], 0
        for match in WORD.finditer(body):
            cut = self.cut.get(match[0].strip().lower())
            if cut:
                ids += self.plain.encode(body[start:match.start()]) + self.encode_word(match[0], *cut)
                start = match.end()
        return ids + self.plain.encode(body[start:])


def document(tokenizer, rng, messages):
    """(ids, weights of predicting each id) of one conversation."""
    if rng.random() < PLAIN_SHARE:
        ids = [tokenizer.bos, *tokenizer.encode(plain_text(messages))]
        return ids, np.full(len(ids), PLAIN_WEIGHT, dtype=np.float32)
    encode = Spelling(tokenizer, rng, messages).encode if rng.random() < SPELL_SHARE else tokenizer.encode
    ids, kinds = tokenizer.turns(messages, encode=encode)
    return ids, WEIGHTS[kinds]


class Batch:
    """words: int32 [3, tokens] of ids, positions, targets; weights: of the targets; bounds: where documents start;
    plan: [(first document, last, longest)]."""

    def __init__(self, documents, tokens):
        documents.sort(key=lambda d: len(d[0]))
        lengths = np.array([len(d[0]) for d in documents])
        self.words = np.zeros((3, tokens), np.int32)
        self.weights = np.zeros(tokens, np.float32)
        self.bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        for start, (ids, weights) in zip(self.bounds, documents):
            end = start + len(ids)
            self.words[0, start:end] = ids
            self.words[1, start:end] = np.arange(len(ids))
            self.words[2, start:end - 1] = ids[1:]
            self.weights[start:end - 1] = weights[1:]
        cuts = [0, *np.searchsorted(lengths, BUCKETS, side="right").tolist()]
        self.plan = [(a, b, longest) for a, b, longest in zip(cuts, cuts[1:], BUCKETS) if b > a]


_worker = None


def _start(path, seed, tokens):
    global _worker
    _worker = Tokenizer(path), seed, tokens


def _write(job):
    """Batch number `job`; its last document may be cut."""
    tokenizer, seed, tokens = _worker
    rng = random.Random(f"{seed}-{job}")
    documents, room, long_room = [], tokens, int(LONG_SHARE * tokens)
    lookup_room = int((EARLY_LOOKUP_SHARE if job < EARLY else LOOKUP_SHARE) * tokens)
    while room:
        long, lookup = long_room > 0, long_room <= 0 and lookup_room > 0
        messages = (text.long_conversation(rng, "train", rng.randint(*LONG_WORDS)) if long else
                    text.lookups(rng, job < EASY) if lookup else text.conversation(rng, "train"))
        ids, weights = document(tokenizer, rng, messages)
        ids, weights = ids[:min(room, MAX_LENGTH)], weights[:min(room, MAX_LENGTH)]
        documents.append((ids, weights))
        room -= len(ids)
        long_room -= long * len(ids)
        lookup_room -= lookup * len(ids)
    return Batch(documents, tokens)


class Stream:
    """Batches without end, always new text; `ahead` of them are under way or waiting."""

    def __init__(self, tokenizer_path, seed, tokens, workers, ahead=24):
        self.pool = multiprocessing.get_context("spawn").Pool(workers, _start, (str(tokenizer_path), seed, tokens))
        self.next_job = ahead
        self.waiting = collections.deque(self.pool.apply_async(_write, (job,)) for job in range(ahead))

    def take(self):
        batch = self.waiting.popleft().get()
        self.waiting.append(self.pool.apply_async(_write, (self.next_job,)))
        self.next_job += 1
        return batch

    def stop(self):
        self.pool.terminate()


class Probe:
    """Unseen recall questions in one batch: how many are answered right, token by token, while the model trains."""

    KINDS = ("who", "what", "other")

    def __init__(self, tokenizer_path, tokens):
        tokenizer, rng = Tokenizer(tokenizer_path), random.Random("probe")
        documents, room = [], tokens
        while room:
            kind, messages = text.recall_question(rng)
            ids, kinds = tokenizer.turns(messages)
            weights = np.zeros(len(ids), np.float32)
            weights[len(ids) - len(tokenizer.encode(messages[-1][1])) - 1:] = 1 + self.KINDS.index(kind)
            documents.append((ids[:room], weights[:room]))
            room -= len(documents[-1][0])
        self.batch = Batch(documents, tokens)
        self.at = np.flatnonzero(self.batch.weights)
        self.asked = np.searchsorted(self.batch.bounds, self.at, side="right")

    def judge(self, likeliest):
        """{kind: share of questions with every token of the answer right}, of the likeliest ids at `at`."""
        kinds, wrong = self.batch.weights[self.at], likeliest != self.batch.words[2][self.at]
        out = {}
        for i, kind in enumerate(self.KINDS):
            asked = set(self.asked[kinds == i + 1])
            out[kind] = 1 - len(set(self.asked[(kinds == i + 1) & wrong])) / max(1, len(asked))
        return out
