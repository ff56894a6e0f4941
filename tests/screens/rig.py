# SPDX-License-Identifier: GPL-3.0-or-later
"""The real program on a pseudo-terminal or in pipes, for the tests beside this file. Standard library only."""
import atexit
import fcntl
import json
import os
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import traceback

sys.path.append("/usr/lib/python3/dist-packages")  # for a python3 that is not the system's

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.abspath(os.environ.get("MOECHAT_PROGRAM", os.path.join(ROOT, "moechat")))
SCRATCH = tempfile.mkdtemp(prefix="moechat-screens-")
TEMPORARY = tempfile.mkdtemp(prefix="moechat-screens-tmp-")  # what chats leave in $TMPDIR is no other test's
atexit.register(shutil.rmtree, SCRATCH, ignore_errors=True)
atexit.register(shutil.rmtree, TEMPORARY, ignore_errors=True)
DEADLINE = 90


def environment(**changes):
    env = {k: v for k, v in os.environ.items() if not k.startswith("MOECHAT_") and k not in ("NO_COLOR", "INPUTRC", "ACCESSIBLE", "VISUAL", "EDITOR",
                                                                               "SSH_CONNECTION", "LINES", "COLUMNS")}
    env.update(TERM="xterm", LC_ALL="C.UTF-8", INPUTRC="/dev/null", HOME=SCRATCH, XDG_CACHE_HOME=SCRATCH + "/cache",
               XDG_DATA_HOME=SCRATCH + "/data", XDG_STATE_HOME=SCRATCH + "/state", XDG_CONFIG_HOME=SCRATCH + "/config", TMPDIR=TEMPORARY)
    env.update(changes)
    return env


def script(text):
    """The options that make the program play `text` (see app/backend_fake.c)."""
    path = os.path.join(SCRATCH, "script-%d" % len(os.listdir(SCRATCH)))
    with open(path, "wb") as out:
        out.write(text if isinstance(text, bytes) else text.encode())
    return ["--engine", "fake:" + path]


def run(args, stdin=b"", env=None, together=False, **more):
    """With `together` its standard error goes where its standard output does, in their order. As typed where it is installed."""
    more.setdefault("stdout", subprocess.PIPE)
    more.setdefault("executable", PROGRAM)
    return subprocess.run(["moechat"] + args, input=stdin, stderr=subprocess.STDOUT if together else subprocess.PIPE,
                          env=env or environment(), timeout=DEADLINE, **more)


class Terminal:
    """The program with its own terminal as standard input, output and error, but for what `files` names."""

    def __init__(self, args, env=None, columns=80, rows=24, shell=None, **files):
        self.master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.slave = slave  # kept open: settings can be read after the program has gone
        self.before = termios.tcgetattr(slave)
        self.output = b""
        self.seen = 0
        files = {name: files.get(name, slave) for name in ("stdin", "stdout", "stderr")}

        def own_terminal():
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

        command = ["sh", "-mc", shell, PROGRAM] + args if shell else ["moechat"] + args  # the shell's $0 and $@
        self.process = subprocess.Popen(command, executable=None if shell else PROGRAM, env=env or environment(),
                                        preexec_fn=own_terminal, **files)

    def read(self, seconds):
        ready, _, _ = select.select([self.master], [], [], seconds)
        if ready:
            self.output += os.read(self.master, 65536)
        return bool(ready)

    def wait(self, *wanted):
        """Waits for each of these texts, one after the other, in what came since the last wait."""
        end = time.monotonic() + DEADLINE
        for text in wanted:
            text = text.encode() if isinstance(text, str) else text
            while text not in self.output[self.seen:]:
                if time.monotonic() > end or (not self.read(0.1) and self.process.poll() is not None):
                    raise AssertionError("never came: %r; screen: %r" % (text, self.output[-2000:]))
            self.seen = self.output.index(text, self.seen) + len(text)

    def send(self, text):
        os.write(self.master, text.encode() if isinstance(text, str) else text)

    def interrupt(self):
        self.send(b"\x03")

    def finish(self):
        """Waits for the end; returns the exit status."""
        end = time.monotonic() + DEADLINE
        while self.process.poll() is None:
            if time.monotonic() > end:
                self.process.kill()
                raise AssertionError("did not end; screen: %r" % self.output[-2000:])
            self.read(0.02)
        while self.read(0):
            pass
        return self.process.returncode

    def settings(self):
        return termios.tcgetattr(self.slave)


# What a shell does first: it waits, as before a start that takes its time, until `go` is there.
def until_there(go):
    return "echo waits; while [ ! -e '%s' ]; do sleep 0.05; done; \"$0\" \"$@\"" % go


def stop_while_read(terminal, text):
    """Sends a message that takes long to read to a chat in plain lines, stops it, and waits until it was stopped."""
    terminal.send(text + "\r")
    terminal.wait(text, "\r\n")  # the line is taken
    time.sleep(0.3)
    terminal.interrupt()
    terminal.wait("the message stays", "You:")


class Screen(Terminal):
    """The full screen, as a terminal shows it: Debian's python3-pyte draws it."""

    def __init__(self, args, env=None, columns=80, rows=24, **more):
        import pyte
        self.shown = pyte.Screen(columns, rows)
        self.stream = pyte.ByteStream(self.shown)
        self.fed = 0
        super().__init__(args, env or environment(TERM="linux", MOECHAT_CLOCK="fake"), columns, rows, **more)

    def read(self, seconds):
        more = super().read(seconds)
        self.stream.feed(self.output[self.fed:])
        self.fed = len(self.output)
        return more

    def text(self):
        return "\n".join(line.rstrip() for line in self.shown.display)

    def until(self, wanted, quiet=True):
        """Waits until the screen has this text, or until a function of this object says so, and nothing more comes."""
        end = time.monotonic() + DEADLINE
        met = wanted if callable(wanted) else lambda t: wanted in t.text()
        while True:
            came, over = self.read(0.08), self.process.poll() is not None
            if not (quiet and came) and met(self):
                return
            if time.monotonic() > end or (over and not came):
                raise AssertionError("never came: %r; screen:\n%s" % (wanted, self.text()))

    def keys(self, text, wanted):
        self.send(text)
        self.until(wanted)

    def resize(self, columns, rows):
        self.shown.resize(rows, columns)
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process.send_signal(signal.SIGWINCH)

    def picture(self):
        """Text, cursor and what stands out: a letter for a colour, large when bold, # reversed, _ underlined."""
        lines = ["cursor %d,%d" % (self.shown.cursor.y, self.shown.cursor.x)]
        for y, text in enumerate(self.shown.display):
            looks = "".join("#" if c.reverse else "_" if c.underscore else
                            "." if c.fg == "default" and not c.bold else
                            ("n" if c.fg == "default" else c.fg[0]).upper() if c.bold else c.fg[0]
                            for c in (self.shown.buffer[y][x] for x in range(self.shown.columns)))
            lines.append("|" + text.rstrip())
            if looks.strip("."):
                lines.append("~" + looks.rstrip("."))
        return "\n".join(lines) + "\n"

    def golden(self, name):
        path = os.path.join(ROOT, "tests", "screens", "golden", name + ".txt")
        picture = self.picture()
        if os.environ.get("UPDATE_GOLDEN"):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as out:
                out.write(picture)
        with open(path) as stored:
            wanted = stored.read()
        expect(picture == wanted, "the screen is not %s.txt (UPDATE_GOLDEN=1 writes it anew); got:\n%swanted:\n%s"
               % (name, picture, wanted))


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def same(got, wanted):
    expect(got == wanted, "got %r, wanted %r" % (got, wanted))


def names_in(value, at=""):
    """The places of all that a JSON value names: a.b, and a[].b of lists."""
    if isinstance(value, dict):
        return {at}.union(*(names_in(inside, at + "." * bool(at) + key) for key, inside in value.items())) - {""}
    if isinstance(value, list):
        return {at}.union(*(names_in(inside, at + "[]") for inside in value))
    return {at}


def same_names(command, text):
    """All names in the object that a command printed are those of golden/json.txt, and none is missing (UPDATE_GOLDEN=1 writes them anew).
    But for reason, which is there only where there is one."""
    path = os.path.join(ROOT, "tests", "screens", "golden", "json.txt")
    got = {"%s: %s" % (command, name) for name in names_in(json.loads(text)) if not name.endswith(".reason")}
    with open(path) as stored:
        lines = set(stored.read().splitlines())
    wanted = {line for line in lines if line.startswith(command + ": ")}
    if os.environ.get("UPDATE_GOLDEN") and got != wanted:
        with open(path, "w") as out:
            out.write("".join(line + "\n" for line in sorted(lines - wanted | got)))
        wanted = got
    same((sorted(got - wanted), sorted(wanted - got)), ([], []))


def main(tests):
    """Runs every function of the module whose name begins with test_; arguments choose by part of it, or with a - leave out."""
    failed = 0
    wanted = [word for word in sys.argv[1:] if not word.startswith("-")]
    left_out = [word[1:] for word in sys.argv[1:] if word.startswith("-")]
    for name, test in list(tests.items()):
        if not name.startswith("test_") or (wanted and not any(w in name for w in wanted)) or any(w in name for w in left_out):
            continue
        try:
            test()
            print("PASS " + name[5:], flush=True)
        except Exception:
            traceback.print_exc(file=sys.stdout)
            print("FAIL " + name[5:], flush=True)
            failed += 1
    sys.exit(1 if failed else 0)
