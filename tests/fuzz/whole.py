#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole program as a fuzz target: folders of models, GGUFs, packages and saved sessions, changed by chance, opened by
info, eval, convert, run and sessions verify, show, export, compact, list.

    whole.py [--seed 1] [--count 0] [--seconds 60] [--lanes 2] [--program build/asan/moechat] [--again SEED]

A case is all that its number gives: which folder, which changes, which command. It must end by itself in TIMEOUT seconds with
one of the program's own statuses, wake no sanitizer, say why it failed, and say that without control characters. What does not is told with its number, kept in build/fuzz/whole, and made again by --again. `make whole` runs
WHOLE_SECONDS of it under the sanitizers, `make check` a few cases.
"""
import argparse
import atexit
import glob
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GOLDEN = os.path.join(ROOT, "tests/golden")
TIMEOUT = 60
STATUSES = {0, 1, 2, 3, 4}  # enum status, but for those of signals
LARGEST = 900 << 10  # of a folder that is copied for each case
CHATS = ("gguf-chat", "gguf-qwen35-chat")  # they have a vocabulary; layers of the second have states
SESSIONS = ("turn\necho\nturn\ntext <think>why</think>\\n\\nbecause\nturn\nerror layer 3: read failed\n", "turn\necho\n")

MODEL_COMMANDS = [
    ["info", "MODEL"], ["info", "MODEL", "--verify"], ["info", "MODEL", "--json"],
    ["eval", "-m", "MODEL", "--tokens", "TOKENS", "--device", "ref"],
    ["eval", "-m", "MODEL", "--tokens", "TOKENS", "--device", "ref", "--expert-cache", "30%", "--kv", "f16"],
    ["convert", "MODEL", "OUT"], ["convert", "MODEL", "OUT", "--verify"], ["convert", "MODEL", "OUT", "--consume", "--yes"],
    ["run", "-m", "MODEL", "--device", "ref", "-p", "hello", "--max-tokens", "2"],
]
SESSION_COMMANDS = [
    ["sessions", "list"], ["sessions", "list", "--json"], ["sessions", "verify", "talk"],
    ["sessions", "show", "talk"], ["sessions", "export", "talk", "md"], ["sessions", "export", "talk", "json"],
    ["sessions", "compact", "talk"], ["sessions", "rename", "talk", "other"], ["sessions", "rm", "talk"],
    ["run", "--session", "talk", "-p", "and then?", "--engine", "fake:SCRIPT"],
    ["run", "--session", "talk", "-m", "REAL", "--device", "ref", "-p", "hello", "--max-tokens", "2"],
]
NUMBERS = ["-1", "0", "1", "2", "255", "256", "65535", "65536", "2147483647", "2147483648", "4294967295", "4294967296",
           "9223372036854775807", "18446744073709551615", "18446744073709551616", "1e308", "1e999", "0.5", "-0.0", "null", "true",
           '""', "[]", "{}", '"\\u0000"', '"\\u001b[2J"', '"../../x"', '"%s%n"', "[" * 600]


def seeds():
    """Folders that are small enough; the rest has the same parsers."""
    found = []
    for path in sorted(glob.glob(GOLDEN + "/*/checkpoint") + glob.glob(GOLDEN + "/*/package")):
        if sum(os.path.getsize(os.path.join(path, name)) for name in os.listdir(path)) <= LARGEST:
            found.append(path)
    return found


# ---- changes ----
def change_bytes(draw, data):
    """A few bytes, a piece cut out, doubled or put elsewhere; headers sooner than weights."""
    data = bytearray(data)
    reach = len(data) if draw.random() < 0.3 else min(len(data), 4096)
    for _ in range(draw.choice((1, 1, 2, 4, 12))):
        if not data:
            break
        at = draw.randrange(max(1, min(reach, len(data))))
        span = draw.choice((1, 2, 4, 8, 16, 64))
        how = draw.randrange(7)
        if how == 0:
            data[at] ^= 1 << draw.randrange(8)
        elif how == 1:
            data[at:at + span] = bytes(draw.randrange(256) for _ in range(min(span, len(data) - at)))
        elif how == 2:
            data[at:at + 8] = draw.choice((b"\xff" * 8, b"\0" * 8, b"\xff" * 7 + b"\x7f", b"\0\0\0\0\1\0\0\0", b"\xff\xff\xff\xff\0\0\0\0"))
        elif how == 3:
            del data[at:at + span]
        elif how == 4:
            data[at:at] = data[at:at + span]
        elif how == 5:
            del data[at:]
        else:
            data[at:at] = bytes(span)
    return bytes(data)


def change_text(draw, data):
    """Of JSON and lines: a number, a word or a line becomes another, goes, or comes twice."""
    text = data.decode("utf-8", "surrogateescape")
    for _ in range(draw.choice((1, 1, 2, 5))):
        tokens = [m.span() for m in re.finditer(r'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?|true|false|null|[\[\]{},:]|[^\n]*\n', text[:200000])]
        if not tokens:
            break
        begin, end = draw.choice(tokens)
        other = tokens[draw.randrange(len(tokens))]
        new = draw.choice((draw.choice(NUMBERS), "", text[begin:end] * 2, text[other[0]:other[1]]))
        text = text[:begin] + new + text[end:]
    return text.encode("utf-8", "surrogateescape")


def change_file(draw, path):
    """What the file holds, or what stands under its name."""
    what = draw.random()
    if what < 0.9:
        with open(path, "rb") as source:
            data = source.read()
        text = b"\0" not in data[:4096] and draw.random() < 0.7
        if data[8:9] == b"{" and draw.random() < 0.6:  # safetensors: its header, with the length that it then has
            length = min(int.from_bytes(data[:8], "little"), len(data) - 8)
            header = change_text(draw, data[8:8 + length])
            data = len(header).to_bytes(8, "little") + header + data[8 + length:]
        else:
            data = (change_text if text else change_bytes)(draw, data)
        with open(path, "wb") as out:
            out.write(data)
        return
    os.remove(path)
    if what > 0.98:
        os.mkdir(path)
    elif what > 0.96:
        os.mkfifo(path)
    elif what > 0.94:
        os.symlink(draw.choice((path, "/dev/zero", "nowhere", "/")), path)
    elif what > 0.92:
        open(path, "wb").close()


def files_below(folder):
    return sorted(os.path.join(where, name) for where, _, names in os.walk(folder) for name in names
                  if name != "lock" and os.path.isfile(os.path.join(where, name)))


# ---- a case ----
class Lab:
    """The program, and the folders that cases are made from."""

    def __init__(self, program):
        self.program = os.path.abspath(program)
        self.folder = tempfile.mkdtemp(prefix="moechat-whole-")
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        self.models = seeds()
        plain, states = (os.path.join(GOLDEN, name, "checkpoint") for name in CHATS)
        self.scripts = []
        for i, text in enumerate(SESSIONS):
            self.scripts.append(os.path.join(self.folder, "script-%d" % i))
            with open(self.scripts[-1], "w") as out:
                out.write(text)
        self.sessions = [(self.session(["--engine", "fake:" + self.scripts[0]]), plain)]  # and the model that goes on
        for model in (plain, states):
            self.sessions.append((self.session(["-m", model, "--device", "ref", "--max-tokens", "3"]), model))

    def environment(self, home):
        env = {name: value for name, value in os.environ.items() if not name.startswith(("MOECHAT", "XDG_"))}
        env.update(HOME=home, LC_ALL="C.UTF-8", XDG_DATA_HOME=home + "/data", XDG_CONFIG_HOME=home + "/config", XDG_STATE_HOME=home + "/state",
                   XDG_CACHE_HOME=home + "/cache", MOECHAT_CONFIG="none", UBSAN_OPTIONS="print_stacktrace=1",
                   ASAN_OPTIONS="intercept_tls_get_addr=0:allocator_may_return_null=1:handle_abort=1:max_allocation_size_mb=4096")
        return env

    def session(self, how):
        """The sessions' folder after two messages."""
        home = tempfile.mkdtemp(dir=self.folder)
        for words in ("Tell me of rivers.", "why?"):
            made = subprocess.run([self.program, "run", "--session", "talk", "-p", words] + how, env=self.environment(home),
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            if made.returncode:
                sys.exit("whole.py: a session cannot be made: %s" % made.stderr.decode())
        return os.path.join(home, "data")

    def run(self, number):
        """One case. None, or what is wrong with it."""
        draw = random.Random(number)
        home = tempfile.mkdtemp(dir=self.folder)
        try:
            return self.run_in(draw, home)
        finally:
            shutil.rmtree(home, ignore_errors=True)

    def run_in(self, draw, home):
        if draw.random() < 0.6:
            seed = draw.choice(self.models)
            below, command = os.path.join(home, "model"), draw.choice(MODEL_COMMANDS)
            if command[0] == "run":
                seed = os.path.join(GOLDEN, draw.choice(CHATS), "checkpoint")
            shutil.copytree(seed, below)
            tokens, real = os.path.join(os.path.dirname(seed), "tokens.txt"), ""
        else:
            seed, real = draw.choice(self.sessions)
            below, command = os.path.join(home, "data"), draw.choice(SESSION_COMMANDS)
            shutil.copytree(seed, below)
            tokens = ""
        files = files_below(below)
        for _ in range(draw.choice((1, 1, 2))):
            path = draw.choice(files)
            if os.path.isfile(path):
                change_file(draw, path)
        model = below
        if tokens and len(files) == 1 and files[0].endswith(".gguf") and draw.random() < 0.5:
            model = files[0]
        places = {"MODEL": model, "TOKENS": tokens, "OUT": os.path.join(home, "out"), "SCRIPT": draw.choice(self.scripts), "REAL": real}
        return self.tried([re.sub("MODEL|TOKENS|OUT|SCRIPT|REAL", lambda m: places[m.group()], word) for word in command], home)

    def refused_settings(self):
        """A configuration that is refused: what was read of it is released."""
        with open(os.path.join(self.folder, "settings"), "w") as out:
            out.write("temp = 0.25\ntemper = 1\n")
        return self.tried(["devices", "--config", out.name], self.folder, (2,))

    def tried(self, arguments, home, statuses=STATUSES):
        """The program with these arguments. None, or what is wrong."""
        words = [self.program] + arguments
        try:
            ended = subprocess.run(words, env=self.environment(home), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, timeout=TIMEOUT, cwd=home)
        except subprocess.TimeoutExpired as late:
            return self.wrong("did not end in %d s" % TIMEOUT, words, late.stderr or b"")
        said = ended.stderr
        if ended.returncode not in statuses:
            return self.wrong("status %d" % ended.returncode, words, said)
        if re.search(rb"Sanitizer|runtime error:", said):
            return self.wrong("a sanitizer spoke", words, said)
        if re.search(rb"[\x00-\x08\x0b-\x1f\x7f]", said.replace(b"\r", b"")):
            return self.wrong("a control character on standard error", words, said)
        if ended.returncode and not said.strip():
            return self.wrong("status %d without a word" % ended.returncode, words, said)
        return None

    def wrong(self, what, words, said):
        return "%s: %s\n%s" % (what, " ".join(words[1:]), said.decode("utf-8", "backslashreplace")[-3000:])


def search(lab, options, numbers):
    """Cases in lanes until the count or the time is over. Returns how many ran, and {number: what is wrong}."""
    lock, found, state = threading.Lock(), {}, [0]
    end = time.monotonic() + options.seconds if options.seconds else None

    def lane():
        while True:
            with lock:
                number = next(numbers, None)
            if number is None or (end and time.monotonic() > end) or len(found) >= 20:
                return
            wrong = lab.run(number)
            with lock:
                state[0] += 1
                if wrong:
                    found[number] = wrong
                    print("case %d: %s" % (number, wrong), flush=True)
    lanes = [threading.Thread(target=lane) for _ in range(options.lanes)]
    for thread in lanes:
        thread.start()
    for thread in lanes:
        thread.join()
    return state[0], found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=0, help="0: as many as the time allows")
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--lanes", type=int, default=2)
    parser.add_argument("--program", default=os.path.join(ROOT, "build/asan/moechat"))
    parser.add_argument("--again", type=int, action="append")
    options = parser.parse_args()
    if not options.count and not options.seconds:
        options.seconds = 60
    lab = Lab(options.program)
    wrong = lab.refused_settings()
    if wrong:
        print("FAIL refused settings: %s" % wrong)
        return True
    began = time.monotonic()
    first = options.seed * 10**9
    numbers = iter(options.again or range(first, first + (options.count or 10**9)))
    ran, found = search(lab, options, numbers)
    seconds = time.monotonic() - began
    if found:
        kept = os.path.join(ROOT, "build/fuzz/whole")
        os.makedirs(kept, exist_ok=True)
        for number, wrong in found.items():
            with open(os.path.join(kept, "%d.txt" % number), "w") as out:
                out.write(wrong)
    print("%s whole program: %d folders and sessions opened (%.0f a minute), %d wrong" %
          ("FAIL" if found or not ran else "PASS", ran, 60 * ran / max(seconds, 0.001), len(found)))
    return bool(found) or not ran


if __name__ == "__main__":
    sys.exit(main())
