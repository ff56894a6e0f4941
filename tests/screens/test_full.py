#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The full screen with a script in the model's place, compared with stored pictures of it."""
import os
import signal
import time

from rig import *

STORY = """name tiny
experts 6 16 4
turn
text # Rivers
token \\n
text A **river** runs `downhill`, and it takes the shortest way that it finds between the stones; so every one is bent.
token \\n\\n
text - It begins small.
token \\n
text - It ends \\xe6\\xb5\\xb7 in the sea.
token \\n```c\\nint main(void)\\n{\\n    return 0;\\n}\\n```\\n
text That is all.
turn
echo
"""
IDLE = " idle "


def chat(text=STORY, *args, **more):
    s = Screen(["--no-session"] + script(text) + list(args), **more)
    s.until(IDLE) if more.get("rows", 24) > 6 else s.until(lambda t: t.output)
    return s


def leave(s):
    s.send("\x04")
    same(s.finish(), 0)
    same(s.settings(), s.before)


def answered(s, message="Tell me of rivers.", last="prefetch off)"):
    s.keys(message + "\r", last)
    s.until(IDLE)


def test_sizes():
    for columns, rows in ((80, 24), (120, 40), (40, 10)):
        s = chat(columns=columns, rows=rows)
        answered(s)
        s.keys("a draft that is not sent", "not sent")
        s.golden("chat-%dx%d" % (columns, rows))
        s.keys("\x15", lambda t: "not sent" not in t.text())
        leave(s)


def test_tiny_screens():
    s = chat(columns=20, rows=6)
    s.keys("hi\r", "4096; prefetch")
    s.until("idle")
    s.keys("draft", "draft")
    s.golden("chat-20x6")
    s.resize(1, 1)
    s.until(lambda t: True)
    s.resize(80, 24)
    s.until("> draft")
    s.send("\x15")
    leave(s)
    for columns, rows in ((1, 1), (2, 3), (19, 5), (200, 2)):
        s = Screen(["--no-session"] + script(STORY), columns=columns, rows=rows)
        s.until(lambda t: len(t.output) > 50)
        s.send("hello\r")
        s.until(lambda t: True)
        s.send("\x04")
        same(s.finish(), 0)
        same(s.settings(), s.before)


def test_figures():
    s = chat(columns=120, rows=40)
    answered(s)
    s.keys("\x1bs", "expert cache")
    s.golden("stats-120x40")
    s.keys("\x1bs", "layers down")
    s.golden("heat-120x40")
    s.keys("\x1bz", lambda t: "Rivers" not in t.text())
    s.keys("\x1b[5~", "layers down")
    s.keys("\x1bz", "Rivers")
    s.keys("\x1bs", lambda t: "layers down" not in t.text() and "idle" not in t.text())
    s.keys("\x1bs", IDLE)
    leave(s)
    s = chat()
    answered(s)
    s.keys("\x1bs", "expert cache")
    s.golden("stats-80x24")
    leave(s)


def test_help():
    s = chat(STORY, "--ascii", "--color=never")
    s.keys("/keys\r", "Enter")
    s.golden("help-80x24")
    s.keys("\x1b/Ctrl-Z\r", "match 1 of")
    s.keys("\x1b", "help;")
    s.keys("\x1b", "Type /help")
    s.keys("/help undo\r", "take back")
    expect("/rename" not in s.text(), "help about one word")
    s.keys("\x1bOP", "Type /help")
    leave(s)


def test_what_is_typed_meanwhile_waits():
    s = chat("turn\ntext first part\nhang\nturn\necho\nturn\necho\n")
    s.keys("go\r", "first part")
    s.keys("second\r", "queued: second")
    s.keys("third\r", "queued: third")
    s.golden("queue-80x24")
    s.keys("\x1b[A", lambda t: "> third" in t.text() and "queued: third" not in t.text())  # back to be edited
    s.keys(" edited\r", "queued: third edited")
    s.keys("\x1b", lambda t: "queued" not in t.text() and IDLE in t.text())  # Esc: stop, and send them
    text = s.text()
    expect("Stopped; what is there" in text, "the answer was stopped")
    expect(text.index("you \u203a second") < text.index("you \u203a third edited"), "in order")
    leave(s)


def test_ctrl_c_has_three_states():
    s = chat("turn\ntext first part\nhang\nturn\necho\n")
    s.keys("go\r", "first part")
    s.keys("waits\r", "queued: waits")
    s.interrupt()
    s.until("Stopped; what is there")  # and what waited is a draft again
    s.until("> waits")
    s.interrupt()
    s.until("in the history")
    s.interrupt()
    s.until("Ctrl-D or /quit leaves")
    s.keys("\x1b[A", "> waits")
    s.keys("\r", "you \u203a waits")
    leave(s)


def test_scrolling_does_not_jump():
    s = chat("turn\ntext top line\ntoken \\n\n" + "text line\ntoken \\n\n" * 40 + "delay 40\n" + "text more\ntoken \\n\n" * 30)
    s.send("go\r")
    s.until("more", quiet=False)
    s.send("\x1b[5~\x1b[5~")
    s.until(lambda t: "new" in t.text(), quiet=False)
    top = s.text().split("\n")[0]
    s.until(lambda t: "more" not in t.text() and IDLE in t.text())
    same(s.text().split("\n")[0], top)
    s.keys("\x1b[1;5H", "Type /help")
    s.keys("\x1bg", "prefetch off")
    s.keys("\x1b/top line\r", "match 1 of 1")
    s.golden("search-80x24")
    s.keys("\x1b", IDLE)
    leave(s)


def test_pastes():
    s = chat("turn\necho\n")
    text = "".join("line %d\r" % i for i in range(30))
    s.send("\x1b[200~" + text[:50])  # cut anywhere, its end long after
    time.sleep(0.3)
    s.keys(text[50:] + "\x1b[201", lambda t: "pasted" not in t.text())
    s.keys("~", "[30 pasted lines]")
    s.keys("and words", "[30 pasted lines]and words")
    s.keys("\r", "line 29")
    s.until(IDLE)
    expect("> [" not in s.text(), "it was sent once")
    s.keys("\x1b[200~a\x1b[31mb\x07\x00c\x1b[201~", "> a[31mbc")
    s.send("\x15")
    leave(s)


def test_drafts_of_several_lines():
    s = chat("turn\necho\n")
    s.keys("first\x1b\rsecond\nthird", "  third")
    s.keys("\x1b[A!", "secon!d")
    s.keys("\x1b[A!", "first!")
    s.keys("\x1b[B\x1b[B?", "third?")
    s.keys("\r", "you \u203a first")
    s.until(IDLE)
    s.keys("\x12seco", "secon!d")  # Ctrl-R
    s.keys("\x1b", lambda t: "search" not in t.text() and "secon!d" in t.text())
    s.send("\x15\x0b\x15\x0b")
    s.keys("\u65e5\u672c\u00e9e\u0301\x1b[D\x1b[Dx", "x\u00e9")
    s.golden("wide-80x24")
    s.send("\x05\x15")
    leave(s)


def test_completion():
    s = chat("turn\necho\n", env=environment(TERM="linux", MOECHAT_CLOCK="fake"))
    s.keys("/s\t\t", "/sessions")
    s.golden("completion-80x24")
    s.keys("et te\t", "> /set temp")
    s.keys("0.5\r", "Done.")
    rc = os.path.join(SCRATCH, "ambiguous")
    with open(rc, "w") as out:
        out.write("set show-all-if-ambiguous on\n$if moechat\n\"\\eq\": moechat-stats\n$endif\n")
    leave(s)
    s = chat("turn\necho\n", env=environment(TERM="linux", INPUTRC=rc))
    s.keys("/s\t", "/sessions")
    s.keys("\x15\x1bq", "no experts were used")
    leave(s)


if __name__ == "__main__":
    main(globals())
