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

    What is copied from the user is then not always the same few pieces, so copying is learned, not words.
    """

    def __init__(self, tokenizer, rng, messages):
        self.plain = tokenizer
        self.cut = {}
        words = {word for role, body in messages if role == "user" for word in WORD.findall(body)}
        for word in sorted(words):
            if rng.random() < SPELL_WORDS:
                at = sorted(rng.sample(range(1, len(word)), min(len(word) - 1, rng.randint(1, 3))))
                parts = [word[a:b] for a, b in zip([0, *at], [*at, len(word)])]
                self.cut[word] = [id_ for part in parts for id_ in tokenizer.encode(part)]

    def encode(self, body):
        ids, start = [], 0
        for match in WORD.finditer(body):
            if match[0] in self.cut:
                ids += self.plain.encode(body[start:match.start()]) + self.cut[match[0]]
                start = match.end()
        return ids + self.plain.encode(body[start:])


def document(tokenizer, rng, long):
    """(ids, weights of predicting each id) of one conversation, at most MAX_LENGTH of them."""
    messages = text.long_conversation(rng, "train", rng.randint(*LONG_WORDS)) if long else text.conversation(rng, "train")
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
    while room:
        ids, weights = document(tokenizer, rng, long_room > 0)
        ids, weights = ids[:min(room, MAX_LENGTH)], weights[:min(room, MAX_LENGTH)]
        documents.append((ids, weights))
        room -= len(ids)
        long_room -= len(ids)
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
