# SPDX-License-Identifier: GPL-3.0-or-later
"""Conversations to batches: written and tokenised by many processes while the model trains.

A batch is one row of a fixed number of tokens: whole conversations one after another, sorted by length, each its
own document (positions start at 0, attention stays inside). Of long ones only the first MAX_LENGTH tokens are taken.
"""

import multiprocessing
import random
import threading

import numpy as np

import text
from tokenizer import Tokenizer

MAX_LENGTH = 4096
JOB_TOKENS = 60_000
LONG_SHARE = 0.15  # of the tokens
LONG_WORDS = (400, 2600)
PLAIN_SHARE = 0.03  # of the conversations: the bare text, as `eval --text` reads it
WEIGHTS = np.array([0.05, 0.1, 1.0], dtype=np.float32)  # structure, user, assistant
PLAIN_WEIGHT = 0.3
BUCKETS = (256, 1024, MAX_LENGTH)


def plain_text(messages):
    return "\n".join(body for _, body in messages) + "\n"


def document(tokenizer, rng, long):
    """(ids, weights of predicting each id) of one conversation."""
    messages = text.long_conversation(rng, "train", rng.randint(*LONG_WORDS)) if long else text.conversation(rng, "train")
    if rng.random() < PLAIN_SHARE:
        ids = [tokenizer.bos, *tokenizer.encode(plain_text(messages))]
        return ids, np.full(len(ids), PLAIN_WEIGHT, dtype=np.float32)
    ids, kinds = tokenizer.turns(messages)
    return ids, WEIGHTS[kinds]


_worker = None


def _start(path, seed):
    global _worker
    _worker = Tokenizer(path), seed


def _write(job):
    """One job's documents: (ids u16, weights f16, lengths)."""
    tokenizer, seed = _worker
    rng = random.Random(f"{seed}-{job}")
    ids, weights, lengths, long_tokens = [], [], [], 0
    while len(ids) < JOB_TOKENS:
        long = long_tokens < LONG_SHARE * len(ids)
        some, weight = document(tokenizer, rng, long)
        some, weight = some[:MAX_LENGTH], weight[:MAX_LENGTH]
        ids += some
        weights.append(weight)
        lengths.append(len(some))
        long_tokens += len(some) if long else 0
    return np.array(ids, np.uint16), np.concatenate(weights).astype(np.float16), np.array(lengths)


class Batch:
    """ids, positions, targets, weights: [tokens]; bounds: where documents start; plan: [(first document, last, longest)]."""

    def __init__(self, documents, tokens):
        documents.sort(key=lambda d: len(d[0]))
        lengths = np.array([len(d[0]) for d in documents])
        self.ids = np.zeros(tokens, np.int64)
        self.targets = np.zeros(tokens, np.int64)
        self.weights = np.zeros(tokens, np.float32)
        self.positions = np.zeros(tokens, np.int64)
        self.bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        for start, (ids, weights) in zip(self.bounds, documents):
            end = start + len(ids)
            self.ids[start:end] = ids
            self.targets[start:end - 1] = ids[1:]
            self.weights[start:end - 1] = weights[1:]
            self.positions[start:end] = np.arange(len(ids))
        cuts = [0, *np.searchsorted(lengths, BUCKETS, side="right")]
        self.plan = [(a, b, longest) for a, b, longest in zip(cuts, cuts[1:], BUCKETS) if b > a]


class Stream:
    """Batches without end. New text is taken as long as there is some; when the writers fall behind, old text again."""

    def __init__(self, tokenizer_path, seed, tokens, workers, ready=4):
        self.tokens = tokens
        self.jobs, self.fresh, self.again = [], 0, 0
        self.rng = random.Random(seed)
        self.pool = multiprocessing.get_context("spawn").Pool(workers, _start, (str(tokenizer_path), seed))
        self.lock = threading.Condition()
        self.batches, self.unused, self.stopped = [], [], False
        self.ready = ready
        self.carry = []
        self.outstanding = 0
        self.next_job = 0
        with self.lock:
            for _ in range(4 * workers):
                self._ask()
        self.thread = threading.Thread(target=self._pack, daemon=True)
        self.thread.start()

    def _ask(self):
        self.pool.apply_async(_write, (self.next_job,), callback=self._arrived, error_callback=self._failed)
        self.next_job += 1

    def _arrived(self, result):
        with self.lock:
            self.unused.append(result)
            if not self.stopped and len(self.unused) < 4000:
                self._ask()
            self.lock.notify_all()

    def _failed(self, error):
        with self.lock:
            self.stopped = error
            self.lock.notify_all()

    def _documents(self):
        """The documents of one job; waits only while nothing at all has been written."""
        with self.lock:
            while not self.unused and not self.jobs and not self.stopped:
                self.lock.wait()
            if self.stopped:
                return []
            if self.unused:
                job = self.unused.pop()
                self.jobs.append(job)
                self.fresh += len(job[0])
            else:
                job = self.rng.choice(self.jobs)
                self.again += len(job[0])
        ids, weights, lengths = job
        cuts = np.cumsum(lengths)[:-1]
        return list(zip(np.split(ids, cuts), np.split(weights, cuts)))

    def _pack(self):
        while not self.stopped:
            documents, room = [], self.tokens
            while room:
                if not self.carry:
                    self.carry = self._documents()
                    if not self.carry:
                        return
                ids, weights = self.carry.pop()
                documents.append((ids[:room], weights[:room]))
                room -= len(documents[-1][0])
            batch = Batch(documents, self.tokens)
            with self.lock:
                while len(self.batches) >= self.ready and not self.stopped:
                    self.lock.wait()
                self.batches.append(batch)
                self.lock.notify_all()

    def take(self):
        with self.lock:
            while not self.batches and not self.stopped:
                self.lock.wait()
            if isinstance(self.stopped, BaseException):
                raise self.stopped
            self.lock.notify_all()
            return self.batches.pop(0)

    def stop(self):
        with self.lock:
            self.stopped = self.stopped or True
            self.lock.notify_all()
        self.pool.terminate()
