#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""A random typist at the full screen, or with seeds that are odd at plain lines: typist.py [SEED [KEYS]]. The program has
to live through it and to give the terminal back. Not a part of `make check`; `make typist` runs it with the sanitizers."""
import fcntl
import random
import signal
import struct
import termios

from rig import *

SCRIPT = """experts 4 16 4
turn
delay 5
text <think>some thinking here</think>
text words of an answer that goes on and on
repeat 30 x\x20
turn
echo
turn
text one
hang
"""
PASTES = ["\x1b[200~", "\x1b[201~", "A" * 900, "\x1b[200~x\ry\x1b[201~", "\x1b[200~" + "l\r" * 20 + "\x1b[201~"]
COMMANDS = ["/help\r", "/heat\r", "/inspect\r", "/inspect 2\r", "/undo\r", "/retry\r", "/new\r", "/stats\r", "/set temp 1\r", "hello\r", "!true\r", '"""\r', ":q\r", "/set stop x,\\n\r"]
KEYS = (list("ab /nNq\r\n\t\x1b\x7f\x12\x13\x01\x05\x0b\x15\x19\x17\x1f\x07\x10\x0e\x14\x0c\x0f") + ["\u65e5", "\u00e9", "e\u0301", "\x16\x01"] +
        ["\x1b" + key for key in ("\r", "[A", "[B", "[C", "[D", "[5~", "[6~", "[3~", "[1;5H", "[1;5F", "OP", "[<64;1;1M", "[<65;1;1M",
                                  "[", "k", "j", "g", "/", "s", "z", "o", "w", "3", "b", "f", "d", "t", ".", "\x7f")] +
        ["\x18" + key for key in ("\x15", "(", ")", "e", "r", "\x12", "\x07")] + ["\x1b[1;5Q", "\x1b[99~", "\x1bp", "\x1b5"] + PASTES + COMMANDS)
HISTORY = ["\x1b[A", "\x1b[A", "\x1b[B", "a", "bc", "\x7f", "\x1f", "\x03", "\r", "\x12", "\x0f"]  # for a while these alone
INPUTRC = ('"\\C-o": "ab\\e[Dc\\eb\\C-a"\n"\\C-xr": "\\C-ax\\C-x"\n"\\C-t": "\\C-r\\C-x)ab"\n"\\C-v": "x\\C-v"\n'
           '"\\C-xs": "one\\rtwo\\r"\n"abc": "\\e5\\C-x)"\n"\\C-q\\C-q": complete\n')


def resize(s, columns, rows):
    if isinstance(s, Screen):
        s.resize(columns, rows)
    else:
        fcntl.ioctl(s.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        s.process.send_signal(signal.SIGWINCH)


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    draw = random.Random(seed)
    rc = os.path.join(SCRATCH, "inputrc")
    with open(rc, "w") as out:
        out.write(INPUTRC + ("set editing-mode vi\n" if seed % 3 == 0 else ""))
    plain = seed % 2 == 1
    env = environment(TERM="dumb" if plain and seed % 4 == 1 else "linux", INPUTRC=rc)
    args = ["--no-session", "--plain" if plain else "--mouse"] + script(SCRIPT)
    s = Terminal(args, env=env) if plain else Screen(args, env=env)
    if plain:
        s.wait("You:")
    else:
        s.until(" idle ")
    typed, remembers = [], 0
    while len(typed) < count and s.process.poll() is None:
        sizes = (draw.randint(1, 130), draw.randint(1, 50)), (draw.choice((20, 80, 500)), 1), (20, draw.randint(1, 24))
        remembers = remembers - 1 if remembers else 30 * (draw.random() < 0.02)
        typed.append(draw.choice(HISTORY if remembers else KEYS + ["\x03", draw.choice(sizes)]))
        if isinstance(typed[-1], tuple):
            resize(s, *typed[-1])
        else:
            s.send(typed[-1])
        if draw.random() < 0.5:
            Terminal.read(s, 0.01)
    expect(s.process.poll() is None, "seed %d: ended with %r after %r" % (seed, s.process.poll(), typed[-40:]))
    s.process.terminate()
    s.read = lambda seconds: Terminal.read(s, seconds)
    same(s.finish(), 143)
    same(s.settings(), s.before)
    print("PASS %d keys of typist %d" % (count, seed))


if __name__ == "__main__":
    main()
