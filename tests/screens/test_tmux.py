#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The full screen with the demo model in tmux, from a shell, end to end."""
import os
import re
import signal
import subprocess
import time

from rig import *

sockets = []  # one for each server: the one before may still be on its way out
KERNELS = os.environ.get("XDG_CACHE_HOME", os.path.join(ROOT, "build", "cache")) + "/moechat/kernels"


def tmux(*args):
    return subprocess.run(["tmux", "-S", sockets[-1]] + list(args), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=DEADLINE).stdout.decode()


class Shell:
    def __init__(self, columns=90, rows=28, **env):
        sockets.append(os.path.join(SCRATCH, "tmux-%d" % len(sockets)))
        names = environment(LC_ALL="", LANG="C", PS1="$ ", **env)
        tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows), "env", "-i",
             *["%s=%s" % item for item in names.items()], "TERM=tmux-256color", "bash", "--norc", "--noprofile")
        tmux("set", "-g", "escape-time", "0")
        self.until("$")

    def text(self):
        return tmux("capture-pane", "-p")

    def until(self, wanted, times=1):
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            text = self.text()
            if wanted(text) if callable(wanted) else text.count(wanted) >= times:
                return text
            time.sleep(0.05)
        raise AssertionError("never came: %r; screen:\n%s" % (wanted, self.text()))

    def keys(self, *keys):
        tmux("send-keys", *keys)

    def start(self, *args):
        self.keys("clear; %s --kernel-cache %s --seed 3 %s" % (PROGRAM, KERNELS, " ".join(args)), "Enter")
        self.until(" idle ")

    def end(self):
        tmux("kill-server")


def settings(name):
    """What stty said, but for the size, which tmux passes on in its own time."""
    with open(os.path.join(SCRATCH, name)) as said:
        return said.read().split("\n")[1:]


def test_a_talk_from_a_shell():
    s = Shell()
    s.keys("stty -a > %s/before" % SCRATCH, "Enter")
    s.start("--session", "talk", "--device", "ref")  # slow enough to be caught answering
    s.keys("My name is Ada and I like chess.", "Enter", "What is my name?", "Enter")  # the second waits
    s.until(lambda t: t.count("tokens/s)") == 2 and "Ada" in t.split("What is my name?")[-1])
    # A paste that arrives in pieces is one draft.
    tmux("set-buffer", "".join("pasted %d\n" % i for i in range(200)))
    tmux("paste-buffer", "-p")
    s.until("[200 pasted lines]")
    s.keys("C-u", "C-u")
    s.until(lambda t: "pasted" not in t)
    # Ctrl-C: an answer, a draft, nothing.
    s.keys("Tell me a very long story.", "Enter")
    s.until("answering")
    s.keys("C-c")
    s.until("Stopped")
    s.keys("a draft")
    s.until("> a draft")
    s.keys("C-c")
    s.until("moved to the history")
    s.keys("C-c")
    s.until("/quit to leave")
    for i in range(40):
        tmux("resize-window", "-x", str(1 + i * 37 % 140), "-y", str(1 + i * 11 % 50))
    tmux("resize-window", "-x", "90", "-y", "28")
    s.keys("Up")
    s.until("> a draft")
    s.keys("C-z")
    s.until("Stopped")
    s.keys("stty -a > %s/stopped; fg" % SCRATCH, "Enter")
    s.until("> a draft")
    s.keys("C-u", "C-d")
    s.until('moechat --session talk')
    s.keys("stty -a > %s/after; echo o''ver" % SCRATCH, "Enter")
    s.until("over")
    same((settings("stopped"), settings("after")), (settings("before"),) * 2)
    # It comes back, and after kill -9 the shell's terminal is usable and nothing is lost.
    s.start("--session", "talk")
    s.until("What is my name?")
    shell = tmux("display", "-p", "#{pane_pid}").strip()
    with open("/proc/%s/task/%s/children" % (shell, shell)) as children:
        os.kill(int(children.read()), signal.SIGKILL)
    s.keys("stty -a > %s/killed" % SCRATCH, "Enter", "reset; clear; echo typed and seen", "Enter")
    s.until(lambda t: "typed and seen" in t and "echo" not in t)
    same(settings("killed"), settings("before"))
    s.start("--session", "talk")
    s.until("What is my name?")
    s.keys("C-d")
    s.until("--session talk")
    s.end()


def test_what_is_pasted_unmarked_with_a_page_is_not_eaten():
    s = Shell()
    s.start("--no-session")
    tmux("set-buffer", "/help\nwhat is a quick fox?\nsecond message\nq k")
    tmux("paste-buffer")
    s.until(lambda t: "q closes" in t and "> q k" in t)
    time.sleep(0.2)  # as somebody who has seen the page
    s.keys("q")
    s.until(lambda t: "you \u203a second message" in t and " idle " in t and "> q k" in t)
    s.until("what is a quick fox?")
    tmux("send-keys", "-l", "\x15/help\ragain?\rq j")
    s.until(lambda t: "q closes" in t and "> q j" in t)
    time.sleep(0.2)  # as somebody who has seen the page
    s.keys("q")
    s.until(lambda t: "you \u203a again?" in t and " idle " in t)
    s.keys("C-u", "C-d")
    s.until(lambda t: t.rstrip().endswith("$"))
    s.end()


def test_that_a_paste_was_cut_is_said():
    s = Screen(["--no-session"] + script("turn\necho\n"))  # here, as it is long for a program under sanitizers
    s.until(" idle ")
    s.keys("\x1b[200~%s\x1b[201~" % ("longer " * 2600000), "paste cut at 16 MiB")
    s.send("\x15\x04")
    same(s.finish(), 0)


def test_make_chat_ends_as_the_chat_does():
    """It is the second of two commands that a newcomer types: make has nothing to add."""
    env = environment(XDG_CACHE_HOME=os.path.dirname(os.path.dirname(KERNELS)))
    for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES"):
        env.pop(name, None)  # of the make that runs this
    s = Screen([], env=env, shell="cd %s && make chat; echo \"ended $?\"" % ROOT)
    s.until(" idle ")
    s.keys("/quit\r", "ended 0")
    s.finish()
    said = s.output[s.output.rindex(b"\x1b[?1049l"):].decode()
    expect("Saved as" not in said and "make" not in said, said)  # nothing was said, so nothing is kept


if __name__ == "__main__":
    main(globals())
