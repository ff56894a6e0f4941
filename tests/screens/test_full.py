#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The full screen with a script in the model's place, compared with stored pictures of it."""
import base64
import os
import re
import signal
import subprocess
import tempfile
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
ECHO_TURN = "turn\necho\n"


def chat(text=STORY, *args, **more):
    s = Screen(["--no-session"] + script(text) + list(args), **more)
    s.until(lambda t: "idle" in t.text())
    s.keys("/new\r", "New conv")  # without the greeting, whose words are others' to change
    return s


SHOWS_MODE = "set show-mode-in-prompt on\n"


def vi_inputrc(name, more=""):
    path = os.path.join(SCRATCH, name)
    with open(path, "w") as out:
        out.write("set editing-mode vi\n" + more)
    return path


def leave(s):
    s.send("\x04")
    same(s.finish(), 0)
    same(s.settings(), s.before)


def answered(s, message="Tell me of rivers.", last=" tokens/s)"):
    s.keys(message + "\r", last)
    s.until(IDLE)


def no_draft(s):
    return s.text().rstrip().endswith("\n>")


def after_two_answers():
    s = chat("turn\necho\ntoken -a\nturn\necho\ntoken -b\nturn\necho\ntoken -c\n")
    answered(s, "one")
    answered(s, "two")
    return s


def test_a_message_that_does_not_fit_leaves_the_one_before_it_where_it_stands():
    s = chat("context 60\nturn\necho\nturn\nerror disk\nturn\necho\n", columns=120)
    answered(s, "one")
    s.keys("second\r", "stays; /retry answers it.")
    s.until(IDLE)
    s.keys("x" * 200 + "\r", "The message before it stays; /retry answers it.")
    s.until(lambda t: IDLE in t.text() and "xxx" not in t.text())
    s.keys("/retry\r", lambda t: t.text().count(" tokens/s)") == 2)
    s.until(IDLE)
    same(s.text().count("second"), 2) # it and its answer
    s.keys("/undo\r", "Took back 1")
    s.until(lambda t: "second" not in t.text())
    leave(s)


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
    s.keys("hi\r", "tokens/s)")
    s.until("idle")
    s.keys("draft", "draft")
    s.golden("chat-20x6")
    before = len(s.output)
    s.resize(1, 1)
    s.until(lambda t: len(t.output) > before)
    s.resize(80, 24)
    s.until("> draft")
    s.send("\x15")
    leave(s)
    for columns, rows in ((1, 1), (2, 3), (19, 5), (200, 2)):
        s = Screen(["--no-session"] + script(STORY), columns=columns, rows=rows)
        s.until(lambda t: len(t.output) > 50)
        before = len(s.output)
        s.send("hello\r")
        s.until(lambda t: len(t.output) > before)
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


def test_figures_on_wide_screens():
    for columns, rows in ((160, 24), (240, 30)):
        s = chat(columns=columns, rows=rows)
        answered(s)
        s.keys("\x1bs", "expert cache")
        s.golden("stats-%dx%d" % (columns, rows))
        leave(s)


def test_alt_i_sorts_the_layers_by_their_wait():
    def layers(t):
        rows = [line.split("\u2502")[-1].split() for line in t.text().split("\n")]
        return [(int(row[0]), row[-2]) for row in rows if row and row[0].isdigit() and row[-1] == "s"]

    s = chat(columns=120, rows=40)
    answered(s)
    s.keys("\x1bi", "waited \u2193")  # which opens the pane, too
    waits = [wait for _, wait in layers(s)]
    same(waits, sorted(waits, reverse=True))
    same([n for n, _ in layers(s)], [4, 2, 6, 1, 3, 5])
    s.keys("\x1bi", lambda t: "waited" in t.text() and "\u2193" not in t.text())
    same([n for n, _ in layers(s)], [1, 2, 3, 4, 5, 6])
    leave(s)


def test_inspect_has_the_width_that_the_figures_leave():
    seen = []
    for columns, more in ((63, ""), (120, "\x1bs")):
        s = chat(STORY, columns=columns, rows=40)
        answered(s)
        if more:
            s.keys(more, "expert cache")
        s.keys("/inspect\r", "/inspect N")
        s.keys("/inspect 3\r", lambda t: t.text().count("/inspect 3") > 0)
        seen.append([line.split("\u2502")[0].rstrip() for line in s.text().split("\n")[:38]])
        leave(s)
    same(seen[1], seen[0])


def test_figures_where_there_is_no_room():
    s = chat(columns=80, rows=12)
    answered(s)
    s.keys("\x1bs", "no room: Alt-z for the figures")
    s.keys("/heat\r", "no room: Alt-z for the heat map")
    s.keys("\x1bz", "disk only  ")
    s.keys("\x1bz", "tokens/s)")
    leave(s)


def test_help():
    s = chat(STORY, "--ascii", "--color=never")
    s.keys("/keys\r", "Enter")
    s.golden("help-80x24")
    s.keys("\x1b/Ctrl-Z\r", "match 1 of")
    s.keys("\x1b", "help;")
    s.keys("\x1b", "New conversation")
    s.keys("/help undo\r", "take back")
    expect("/rename" not in s.text(), "help about one word")
    s.keys("\x1bOP", "New conversation")
    leave(s)


def test_what_is_shown_fits_a_screen_that_changed():
    for command, wanted, end in (("/help save\r", "q closes", "q"), ("/stats\r", "answered", "")):
        seen = []
        for begin in (60, 130):
            s = chat(STORY, "--seed", "1", columns=begin, rows=30)
            answered(s)
            s.keys("/new\r", "New conversation")
            s.keys(command, wanted)
            if begin != 60:
                s.resize(60, 30)
                s.until(lambda t: max(map(len, t.text().split("\n"))) <= 60)
            seen.append([line for line in s.text().split("\n")[:-3]])
            s.send(end)
            leave(s)
        same(seen[1], seen[0])


def test_no_room_is_said_of_the_size_that_there_is():
    s = chat(columns=80, rows=12)
    answered(s)
    s.keys("/heat\r", "no room: Alt-z for the heat map")
    s.resize(80, 40)
    s.until(lambda t: "layers down" in t.text() and "no room" not in t.text())
    s.resize(80, 12)
    s.until("no room: Alt-z for the heat map")
    leave(s)


def test_what_a_command_says_is_seen_where_the_figures_had_the_screen():
    s = chat("turn\ntext first part\nhang\n", rows=30)
    for command, wanted in (("/stats", "read (prefill)"), ("/nothing", "/help lists"), ("/set top-k", "top-k")):
        s.keys("\x1bz", lambda t: "no experts used yet" in t.text() and wanted not in t.text())
        s.keys(command + "\r", lambda t: command in t.text() and wanted in t.text())
    s.keys("\x1bz", lambda t: "no /nothing" not in t.text())
    s.keys("/heat\r", lambda t: "no /nothing" not in t.text())  # asks for these
    s.keys("Tell me.\r", lambda t: " s \u00b7" in t.text() or "decod" in t.text() or "answer" in t.text())
    expect("first part" not in s.text(), "one looks on at the figures: %s" % s.text())
    s.keys("/stats\r", "stats; q closes")
    s.keys("q", lambda t: "q closes" not in t.text() and "first part" not in t.text())
    s.keys("\x1b", IDLE)
    s.keys("\x1bz", "first part")
    leave(s)


def test_leaving_while_the_figures_have_the_screen():
    env = environment(TERM="linux", MOECHAT_CLOCK="fake", XDG_DATA_HOME=os.path.join(SCRATCH, "zoomed"))
    for name, rows, columns in (("zoomed", 24, 80), ("tiny", 2, 3)):
        s = Screen(["--session", name, "--last-screen"] + script("turn\nexperts 6 32 4\necho\n"), env=env)
        s.until(lambda t: "idle" in t.text())
        answered(s)
        s.keys("\x1bs\x1bz", lambda t: "Tell me" not in t.text())
        s.resize(columns, rows)
        s.process.terminate()
        same(s.finish(), 143)
        left = s.output.decode().split("\033[?1049l")[-1]
        expect('Saved as "%s"' % name in left, left)
        expect(rows < 24 or "you \u203a Tell me of rivers." in left, left)


def test_a_search_is_seen_at_any_width():
    for columns, found in ((74, "found: n earlier, N later, Esc ends"), (73, "found: n, N, Esc"), (40, "found: n, N, Esc"), (20, "found:")):
        s = chat("turn\necho\n", columns=columns)
        s.keys("hi\r", "tokens/s)")
        s.until("idle")
        s.keys("\x1b/hi\r", lambda t: t.text().split("\n")[-1] == found)
        s.keys("\x1b", lambda t: t.text().split("\n")[-1] == ">")
        leave(s)
    for args, cut in (((), "\u2026"), (("--ascii",), "<")):
        s = chat("turn\necho\n", *args, columns=40)
        s.keys("a long line about rivers\r", "tokens/s)")
        s.until("idle")
        s.keys("\x12long", cut + "-i-search)`long': a long line")
        s.keys(" line about rivers", cut + "ne about rivers': a long line")
        s.keys("\x1b", lambda t: t.text().endswith("> a long line about rivers"))
        s.send("\x05\x15")
        leave(s)


def test_several_lines_between_quotes():
    s = chat("turn\necho\nturn\necho\n")
    s.keys('"""first\r', '"""first')
    s.keys("/second\r", "/second")
    expect("you" not in s.text(), "nothing was sent")
    s.keys('"""\r', " tokens/s)")
    expect("you \u203a first\n/second" in s.text().replace("\n      ", "\n"), s.text())
    leave(s)


def test_a_shell_command_fills_the_draft():
    s = chat("turn\necho\n")
    s.keys("!echo one; echo 'two three'\r", "Enter once more runs this in your shell")
    s.until("> !echo one")
    s.keys("\r", "two three")
    s.until(lambda t: "> one" in t.text())
    s.keys("\x15", lambda t: "two three" not in t.text().split("idle")[1])
    s.keys("!exit 3\r", "the command failed with status 3")
    s.keys("!true\r", "the command printed nothing")
    s.keys("!printf 'five\\000six\\000'\r", "NUL bytes of it became newlines")
    s.until(lambda t: "> five\n  six" in t.text())
    s.keys("\x15\x15", lambda t: "five" not in t.text().split("idle")[1])
    s.keys(" !word\r", " tokens/s)")  # with a space it is a message
    leave(s)


def test_what_comes_with_a_shell_command_does_not_consent():
    s = chat("turn\necho\n")
    mark = os.path.join(SCRATCH, "consented")
    s.send("!touch %s\r\r" % mark)
    s.until("Enter once more runs this in your shell")
    s.keys("\x15hello\x1b[32m\r!touch %s\rls\rlast" % mark, "taken for a paste: no line was run; 2 control characters left out")
    s.until("last")
    expect(not os.path.exists(mark), "nobody asked for it")
    s.keys("\x15\x15", lambda t: "last" not in t.text())
    s.keys("\x15\x15!touch %s\r" % mark, "the command printed nothing")  # one was told before
    expect(os.path.exists(mark), "now somebody did")
    leave(s)


def test_an_editor_that_leaves_a_pipe():
    s = chat("turn\necho\n", env=environment(VISUAL="leave() { rm $1; mkfifo $1; }; leave", **XTERM))
    s.keys("words\x18\x05", "the editor left a pipe or device in the file's place; draft unchanged")
    s.keys("more", "> wordsmore")
    s.keys("\x15", lambda t: "words" not in t.text())
    leave(s)


def test_a_shell_command_that_is_suspended_returns_at_once():
    s = Screen(["--no-session"] + script("turn\necho\n"), env=environment(**XTERM),
               shell='"$0" "$@"; echo "stopped"; read go; fg; echo "ended $?"')
    s.until(IDLE)
    mark = os.path.join(SCRATCH, "may-end")
    s.keys("!echo it be''gins >/dev/tty; until [ -e %s ]; do sleep 0.1; done; echo came back\r" % mark, "runs this in your shell")
    s.send("\r")
    s.wait("it begins")
    s.send("\x1a")
    s.until("stopped")
    open(mark, "w").close()
    s.keys("\n", "> came back")
    s.keys("\x15", lambda t: "came back" not in t.text())
    s.send("\x04")
    s.until("ended 0")
    s.finish()


def test_shell_commands_that_do_not_end():
    def run(command):
        before = len(s.output)
        s.send("\x15!" + command + "\r")
        while b"\033[?1049l" not in s.output[before:] and time.monotonic() < end:  # the chat's screen has gone
            s.read(0.1)

    end = time.monotonic() + 60
    s = chat("turn\necho\n", env=environment(TERM="xterm", MOECHAT_CLOCK="fake", TMPDIR="/nonexistent"))  # no file is made
    s.keys("!yes\r", "runs this in your shell")
    s.keys("\r", "the command printed more than 16 MB, and was ended")
    s.keys("!sleep 100 & echo $!\r", lambda t: re.search("(?m)^> [0-9]+$", t.text()))  # what runs on is not waited for
    os.kill(int(re.search("(?m)^> ([0-9]+)$", s.text()).group(1)), signal.SIGKILL)
    s.keys("\x15!printf '\\033[?1049h'; sleep 100\r", "the command needs the terminal; Ctrl-X Ctrl-E edits the draft")  # as vi does
    run("trap '' INT; sleep 100")
    for _ in range(2):  # the second gives it up
        time.sleep(0.5)
        s.send("\x03")
    s.until("the command was ended by signal 9")
    run("sleep 100")
    time.sleep(0.5)
    s.send("\x03")
    s.until("the command was stopped")
    run("sleep 100")
    time.sleep(0.5)
    s.process.send_signal(signal.SIGTERM)
    same(s.finish(), 143)


def test_how_to_leave_is_told_once():
    s = chat("turn\necho\n")
    s.keys(":q\r", "/quit or Ctrl-D leaves")
    expect("you \u203a" not in s.text(), "nothing was sent")
    s.keys(":q\r", "you \u203a :q")
    s.until(" tokens/s)")
    leave(s)


def test_what_is_typed_before_the_start_is_sent():
    go = os.path.join(SCRATCH, "go-screen")
    s = Screen(["--no-session"] + script(ECHO_TURN * 3), shell=until_there(go))
    s.until("waits")
    s.send("one\r/think off\rtwo\rthr")
    s.until("thr")
    open(go, "w").close()
    s.until(lambda t: "> thr" in t.text() and t.text().count(" tokens/s)") == 2)
    s.send("ee\nfour")  # a newline, as ever
    s.until("three\n  four")
    s.send("\r")
    s.until(lambda t: t.text().count(" tokens/s)") == 3)
    leave(s)
    # What may have been pasted among it runs nothing.
    go, ran = os.path.join(SCRATCH, "go-paste"), os.path.join(SCRATCH, "ran")
    s = Screen(["--no-session"] + script(ECHO_TURN), shell=until_there(go))
    s.until("waits")
    s.send("one\r!touch %s\r" % ran)
    s.until("!touch")
    open(go, "w").close()
    s.until(lambda t: "> one\n  !touch" in t.text() and IDLE in t.text())
    expect(not os.path.exists(ran), "it was run")
    s.send("\x03")
    s.until(IDLE)
    leave(s)


def test_the_first_words():
    s = Screen(["--no-session"] + script("load 40 50\n" + ECHO_TURN))
    s.until(lambda t: "you can type already, and what you send waits" in t.text().replace("\n", " "), quiet=False)
    s.send("early\r")
    s.until("queued: early", quiet=False)
    s.send("/stats\r")
    s.until("The model is not open yet.", quiet=False)
    s.until(lambda t: "Alt-s shows figures" in t.text().replace("\n", " "))
    s.until(" tokens/s)")
    leave(s)


def test_figures_off_hides_no_progress():
    s = chat("turn\nprefill 60000\nturn\necho\n")
    for _ in range(3):
        s.send("\x1bs")
    s.until(lambda t: "idle" not in t.text() and "heat" not in t.text())
    s.send("go\r")
    s.until("reading prompt", quiet=False)
    s.send("\x1b")
    s.until("Stopped before")
    s.until(lambda t: "reading" not in t.text().splitlines()[-2])
    leave(s)


def test_the_last_screen_and_the_bell():
    s = chat("turn\ntext " + "a long answer " * 200 + "\nturn\ntext then\nhang\n", "--bell", "--last-screen")
    s.keys("go\r", " tokens/s)")
    expect(b"\a" not in s.output, "it was seen, and came at once")
    s.keys("short\r", "then")
    s.keys("\x1b[5~", "at ")
    s.send("\x1b")
    s.until(IDLE)
    expect(b"\a" in s.output, "it ended unseen")
    leave(s)
    expect(b"you \xe2\x80\xba short\r\n" in s.output[-4000:], "the last screen stands there")
    t = chat("turn\necho\n")
    t.keys("plain\r", " tokens/s)")
    leave(t)
    expect(b"you \xe2\x80\xba plain\r\n" not in t.output[-4000:], "nothing is left without being asked for")


def test_what_is_typed_meanwhile_waits():
    s = chat("turn\ntext first part\nhang\nturn\necho\nturn\necho\n")
    s.keys("go\r", "first part")
    s.keys("second\r", "queued: second")
    s.keys("third\r", "queued: third")
    s.golden("queue-80x24")
    s.keys("\x1b[1;3D", "other answers can be shown once this is done")
    s.keys("\x1b[A", lambda t: "> third" in t.text() and "queued: third" not in t.text())  # back to be edited
    s.keys(" edited\r", "queued: third edited")
    s.keys("\x1b", lambda t: "queued" not in t.text() and IDLE in t.text())  # Esc: stop, and send them
    text = s.text()
    expect("Stopped; what it said" in text, "the answer was stopped")
    expect(text.index("you \u203a second") < text.index("you \u203a third edited"), "in order")
    leave(s)


def test_what_waited_is_not_dropped_by_ctrl_c():
    s = chat("turn\ntext first part\nhang\n", columns=80)
    s.keys("go\r", "first part")
    s.keys("second\r", "queued: second")
    s.keys("\x03", "what waited is the draft; Enter sends it, Ctrl-C moves it to the history")
    s.keys("\x03", lambda t: "> second" not in t.text())
    s.keys("\x1b[A", "> second")
    s.keys("\x03", "draft moved to the history")
    leave(s)


def chat_with_a_queue(answers, *lines):
    s = chat("turn\ntext first part\nhang\n" + "turn\necho\n" * answers)
    s.keys("go\r", "first part")
    for line in lines:
        s.keys(line + "\r", "queued: " + line)
    return s


def test_commands_that_waited_are_not_sent_unsaid():
    s = chat_with_a_queue(2, "second", "/undo")
    s.keys("\x03", lambda t: "the 2 that waited are back in the draft" in t.text() and "Stopped; what it said" in t.text())
    s.keys("third\r", lambda t: "Not sent: /undo would be words of the message; Enter once more sends it so." in t.text()
           and re.search(r"> second *\n +/undo *\n +third", t.text()))
    s.keys("\r", lambda t: re.search("you \u203a second\n/undo\nthird\n", t.text()) and IDLE in t.text())
    s.keys("two\x1b\r/undo\r", lambda t: re.search("you \u203a two\n/undo\n", t.text()) and IDLE in t.text())  # as ever
    leave(s)


def test_a_command_that_waited_before_others_is_no_message():
    s = chat_with_a_queue(1, "/undo 99", "rest")
    s.keys("\x03", lambda t: "what waited is back in the draft, which begins with a command" in t.text())
    for _ in range(2):
        s.keys("\r", lambda t: "Not sent: the draft begins with the command /undo; / before it" in t.text()
               and re.search(r"> /undo 99 *\n +rest", t.text()))
    s.keys("\x01/\r", lambda t: re.search("you \u203a /undo 99\nrest\n", t.text()) and IDLE in t.text())
    leave(s)


def test_a_command_of_several_lines_that_waited_takes_no_message_along():
    s = chat_with_a_queue(1, "/system be nice", "What is a cow?")
    s.keys("\x03", lambda t: "which begins with a command" in t.text())
    s.keys("\r", lambda t: "Not sent: the draft begins with the command /system" in t.text()
           and re.search(r"> /system be nice *\n +What is a cow", t.text()))
    s.keys("\x03", "draft moved to the history")
    leave(s)


def chat_with_a_full_queue():
    s = chat("turn\ntext first part\nhang\n" + "turn\necho\n" * 20)
    s.keys("go\r", "first part")
    s.send("".join("say %d\r" % n for n in range(1, 17)))
    s.until("queued: 14 more, and room for no others")
    return s


def test_a_full_queue_loses_nothing_and_says_so():
    s = chat_with_a_full_queue()
    s.keys("say 17\r", "16 messages wait already; this one stays in the draft")
    s.send("say 18\r\r")
    s.keys("say 19", lambda t: re.search(r"> say 17\n +say 18\n\n +say 19", t.text()))
    s.keys("\r/stats\r", "stats; q closes")  # what may be done meanwhile is
    s.keys("\x1b", lambda t: re.search(r"> say 17\n +say 18\n\n +say 19\n", t.text()))
    s.keys("\x1b", lambda t: "queued" not in t.text() and "you \u203a say 16" in t.text() and IDLE in t.text())
    s.keys("\r", lambda t: "you \u203a say 17\n" in t.text() and "say 19\n" in t.text().split("> ")[0] and IDLE in t.text())
    leave(s)


def test_what_only_looks_done_at_once_finds_no_room_in_a_full_queue():
    s = chat_with_a_full_queue()
    s.keys("!\r", lambda t: "16 messages wait already; this one stays in the draft" in t.text() and "> !\n" in t.text())
    s.process.send_signal(signal.SIGTERM)
    same(s.finish(), 143)


def test_behind_what_comes_back_a_command_is_one():
    s = chat_with_a_queue(2, "second", "/etc is a folder")
    s.keys("\x03", lambda t: "the 2 that waited are back in the draft; Enter sends them as one" in t.text() and "Stopped; what it said" in t.text())
    expect(re.search(r"> second\n +/etc is a folder\n", s.text()), s.text())
    s.keys("/sets\r", "Unknown command /sets; did you mean /set?")
    s.keys("/set temp\r", lambda t: "temp is" in t.text() and re.search(r"> second\n +/etc is a folder\n", t.text()))
    s.keys("third\r", lambda t: re.search("you \u203a second\n/etc is a folder\nthird\n", t.text()) and IDLE in t.text())
    s.keys("two\x1b\r/quit\r", lambda t: re.search("you \u203a two\n/quit\n", t.text()) and IDLE in t.text())  # a message of two lines as ever
    leave(s)


def test_an_edit_behind_what_comes_back_says_where_that_goes():
    s = chat_with_a_queue(0, "/inspect", "hello there")
    s.keys("\x03", lambda t: "what waited is back in the draft, which begins with a command" in t.text() and "Stopped; what it said" in t.text())
    both = lambda t: re.search(r"> /inspect\n +hello there\n", t.text())
    s.keys("/edit 9\r", lambda t: "No such message to edit" in t.text() and both(t))  # nothing takes its place
    s.keys("/edit\r", lambda t: "> go" in t.text() and "draft moved to the history; Up brings it back" in t.text())
    s.keys("\x15\x1b[A", both)
    s.keys("\x03", "draft moved to the history")
    leave(s)


def test_an_edit_that_cannot_wait_keeps_what_came_back():
    """It stays behind that as it was typed, and is done once it can be."""
    s = chat_with_a_full_queue()
    s.keys("say 17\r", "this one stays in the draft")
    s.keys("/edit\r", lambda t: "/edit can't wait in the queue; Esc stops the answer" in t.text() and re.search(r"> say 17\n +/edit$", t.text()))
    s.keys("\x1b", lambda t: "queued" not in t.text() and "you \u203a say 16" in t.text() and IDLE in t.text())
    s.keys("\r", lambda t: "> say 16" in t.text() and "draft moved to the history; Up brings it back" in t.text())
    s.keys("\x15\x1b[A", "> say 17")
    s.keys("\x03", "draft moved to the history")
    leave(s)


def leave_by(s, way):
    """Keys that leave, or a signal, at which a draft is being written."""
    if isinstance(way, str):
        s.send(way)
    else:
        s.keys("a draft", "> a draft")
        s.process.send_signal(way)
    same(s.finish(), 0 if isinstance(way, str) else 143)


def test_what_waits_is_not_lost_when_one_leaves():
    for way in ("/quit\r", "\x04", signal.SIGTERM):
        s = chat("turn\ntext first part\nhang\n")
        s.keys("go\r", "first part")
        s.keys("second\r", "queued: second")
        s.keys("third\r", "queued: third")
        leave_by(s, way)
        expect(b"Not sent, as they were still waiting; the history of the next chat has them (Up, more than once):\r\n    second\r\n    third\r\n" in s.output,
               "it is said: %r" % s.output[-600:])
        s = chat("turn\necho\n")
        ups = ["/new"] + ([] if isinstance(way, str) else ["a draft"]) + (["/quit"] if way == "/quit\r" else []) + ["third", "second"]
        for words in ups:
            s.keys("\x1b[A", "> " + words)
        s.process.terminate()
        s.finish()


def test_what_waits_is_printed_where_no_history_takes_it():
    """Whole, and the draft, too: nowhere else are they."""
    long = "third " + "long " * 40
    for way in ("/quit\r", signal.SIGTERM):
        s = chat("turn\ntext first part\nhang\n",
                 env=environment(TERM="linux", MOECHAT_CLOCK="fake", XDG_STATE_HOME="/dev/null", TMPDIR="/nonexistent"))
        s.keys("go\r", "first part")
        s.keys("second\r", "queued: second")
        s.keys(long + "end\r", "queued: third")
        leave_by(s, way)
        draft = "" if isinstance(way, str) else "\r\na draft\r\n"
        expect(("Not sent, and no history or file takes them; here they are:\r\n\r\nsecond\r\n\r\n%send\r\n%s" % (long, draft)).encode() in s.output,
               "it is said: %r" % s.output[-900:])
        expect(b"the history of the next chat" not in s.output, s.output[-900:])


def test_what_no_history_takes_waits_in_the_drafts_file():
    """All of it, where that alone can be written: what waited, what came behind the line that left."""
    where = tempfile.mkdtemp(dir=SCRATCH)
    history = os.path.join(where, "moechat", "history")
    os.makedirs(history)  # a folder in its place
    env = environment(TERM="linux", MOECHAT_CLOCK="fake", XDG_STATE_HOME=where)
    s = chat("turn\ntext first part\nhang\n", env=env)
    s.keys("go\r", "first part")
    s.keys("second\r", "queued: second")
    s.keys("third\r", "queued: third")
    s.send("/quit\rsome text")
    same(s.finish(), 0)
    expect(b"Not sent, as they were still waiting; the history of the next chat has them (Up, more than once):\r\n    second\r\n    third\r\n"
           b"Not sent, as it came behind the line that left; the history of the next chat has it (Up):\r\n    some text\r\n" in s.output,
           "it is said: %r" % s.output[-600:])
    expect(b"no history or file" not in s.output, s.output[-600:])
    os.rmdir(history)
    s = chat("turn\necho\n", env=env)
    for words in "/new", "some text", "third", "second":
        s.keys("\x1b[A", "> " + words)
    s.process.terminate()
    s.finish()


def test_what_is_about_the_screen_does_not_wait():
    s = chat("turn\ntext first part\nhang\nturn\necho\n")
    s.keys("go\r", "first part")
    s.keys("/he\t\x07x\r", "queued: /hex")  # not rung on standard error, which is the log now
    s.keys("/log\r", lambda t: "state/moechat/log" in t.text() and "first part" not in t.text())
    expect("\u2407" not in s.text(), "bells in the log")
    expect("have printed nothing" in s.text(), "an empty log says that it is")
    s.keys("\x1b", "first part")
    s.keys("/keys\r", "Alt-Enter")
    s.keys("q", "first part")
    s.send("/quit\r")
    same(s.finish(), 0)


def test_ctrl_c_has_three_states():
    s = chat("turn\ntext first part\nhang\nturn\necho\n")
    s.keys("go\r", "first part")
    s.keys("waits\r", "queued: waits")
    s.interrupt()
    s.until("Stopped; what it said")  # and what waited is a draft again
    s.until("> waits")
    s.interrupt()
    s.until("moved to the history")
    s.interrupt()
    s.until("Ctrl-D or /quit to leave")
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
    s.keys("\x1b[1;5H", "New conversation")
    s.keys("\x1bg", "prefetch off")
    s.keys("\x1b/top line\r", "match 1 of 1")
    s.golden("search-80x24")
    s.keys("n", "only match")
    s.keys("\x1b[5~", "match 1 of 1")  # what was said goes with the next key
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
    s.until("3 control characters left out of the paste")
    s.keys("\x15\x1b[200~\x07\x1b[201~", "1 control character left out of the paste")
    s.send("\x15")
    leave(s)


def test_a_paste_without_its_end():
    """Ctrl-C ends it where it comes alone, so does silence, and what came of it outlives the chat."""
    state = tempfile.mkdtemp(dir=SCRATCH)
    s = chat(ECHO_TURN, env=environment(TERM="linux", MOECHAT_CLOCK="fake", XDG_STATE_HOME=state))
    s.send("\x1b[200~by\x03 key")
    time.sleep(0.3)
    s.keys("\x03", "> by key")
    s.until("the paste had no end; 1 control character left out")
    s.keys(" typed", "> by key typed")
    s.keys("\x15\x1b[200~of silence", "> of silence")
    s.until("the paste had no end")
    s.send("\x15before \x1b[200~\ncut\noff\x1b[2")
    time.sleep(0.3)
    s.process.terminate()
    same(s.finish(), 143)
    with open(os.path.join(state, "moechat", "history")) as history:
        kept = history.read().split("\n")
    expect("before \\ncut\\noff" in kept, kept)


def processor_seconds(process):
    with open("/proc/%d/stat" % process.pid) as stat:
        return sum(map(int, stat.read().rpartition(")")[2].split()[11:13])) / os.sysconf("SC_CLK_TCK")


def test_a_paste_without_brackets_is_no_typing():
    s = chat("turn\necho\n")
    before = processor_seconds(s.process)
    s.send("x" * 100000)
    s.keys(" the end", "the end")
    spent = processor_seconds(s.process) - before
    expect(spent < 2, "a screen for each key would take minutes: %.1f s" % spent)
    s.send("\x15")
    leave(s)


def test_what_the_history_leaves_out_is_said_once():
    state = os.path.join(SCRATCH, "full")
    os.makedirs(os.path.join(state, "moechat"))
    os.symlink("/dev/full", os.path.join(state, "moechat", "history"))
    s = Screen(["--no-session"] + script("turn\necho\nturn\necho\nturn\necho\n"), columns=120,
               env=environment(TERM="linux", MOECHAT_CLOCK="fake", XDG_STATE_HOME=state))
    s.until("idle")
    s.keys("one\r", "not kept in the history of later chats: No space left on device")
    s.until(IDLE)
    expect("context" in [line for line in s.text().split("\n") if "not kept in the history" in line][0], "beside the figures")
    s.keys("\x1b[A", "> one")  # this one has it
    s.keys("\x15", lambda t: "> one" not in t.text())
    s.until(lambda t: "not kept in the history" not in t.text())  # its time is over
    s.keys("two\r", "two")
    s.until(IDLE)
    expect("not kept in the history" not in s.text(), "once")
    leave(s)


def test_an_inputrc_of_ours_binds_arrows():
    config = tempfile.mkdtemp(dir=SCRATCH)
    os.mkdir(os.path.join(config, "moechat"))
    with open(os.path.join(config, "moechat", "inputrc"), "w") as out:
        out.write('"\\e[A": history-search-backward\n')
    s = chat("turn\necho\n", env=environment(TERM="linux", MOECHAT_CLOCK="fake", XDG_CONFIG_HOME=config,
                                            XDG_STATE_HOME=tempfile.mkdtemp(dir=SCRATCH)))
    s.keys("Tell me\x03", "moved to the history")
    s.keys("other\x03", lambda t: "> other" not in t.text())
    s.keys("Tell\x1b[A", "> Tell me")
    s.keys("\x01\x0b", lambda t: "> Tell" not in t.text())
    leave(s)


def test_a_key_of_two_that_is_stopped():
    inputrc = vi_inputrc("vi-jk", 'set keymap vi-insert\n"jk": vi-movement-mode\n')
    s = chat("turn\necho\n", env=environment(TERM="linux", MOECHAT_CLOCK="fake", INPUTRC=inputrc))
    s.keys("abc ", "> abc")
    s.send("j\x03")
    s.until("moved to the history")
    s.keys("\x1b[A", "> abc j")
    expect("\u2407" not in s.text(), s.text())
    s.keys("\x03", lambda t: "abc j" not in t.text())
    leave(s)


def test_a_draft_of_any_bytes_is_there_the_next_day():
    state = environment(TERM="linux", MOECHAT_CLOCK="fake", XDG_STATE_HOME=os.path.join(SCRATCH, "any"))
    s = chat("turn\necho\n", env=state)
    s.keys("\x16\x07bell \x16\x1b[31m", "\u2407bell \u241b[31m")
    s.keys("\x03", "moved to the history")
    leave(s)
    s = chat("turn\necho\n", env=state)
    s.keys("\x1b[A", lambda t: "/new" in t.text().split("\n")[-1])  # what began this chat and the one before
    s.keys("\x1b[A", "> \u2407bell \u241b[31m")
    s.keys("\x15", lambda t: "bell" not in t.text())
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


def test_no_draft_is_lost_by_up():
    s = chat("turn\necho\nturn\necho\n")
    s.keys("first\r", "tokens/s)")
    s.keys("precious draft\x1b[A", "> first")
    s.keys("\r", lambda t: t.text().count("you \u203a first") == 2 and IDLE in t.text())
    s.keys("\x1b[A", "> first")
    s.keys("\x1b[A", "> precious draft")
    s.send("\x15")
    leave(s)
    s = chat("turn\ntext first part\nhang\nturn\necho\n")  # and what waits is taken out, not copied, whatever is typed
    s.keys("go\r", "first part")
    s.keys("second\r", "queued: second")
    s.keys("a draft\x1b[A", lambda t: "> second" in t.text() and "queued: second" not in t.text())
    s.keys("\r", "queued: second")
    expect(s.text().count("queued: second") == 1, s.text())
    s.keys("\x1b", lambda t: "queued" not in t.text() and IDLE in t.text())
    s.keys("\x1b[A\x1b[A", "> a draft")
    s.send("\x15")
    leave(s)


def test_no_draft_is_lost_by_leaving_or_a_search():
    state = tempfile.mkdtemp(dir=SCRATCH)
    where = dict(XDG_STATE_HOME=state, MOECHAT_CLOCK="fake")

    def begun(**more):
        s = chat("turn\necho\nturn\necho\n", env=environment(**dict(XTERM, **where, **more)))
        s.keys("a fox\r", "tokens/s)")
        return s

    def again(s):
        s.until(lambda t: t.text().count("you \u203a a fox") == 2 and IDLE in t.text())
        s.keys("\x1b[A", "> a fox")

    s = begun()
    s.keys("left one\x1b[A", "> a fox")
    s.keys("\x15", lambda t: "> a fox" not in t.text())
    leave(s)
    s = begun()
    s.keys("left two\x1b[A", "> a fox")
    s.process.terminate()
    same(s.finish(), 143)
    s = begun()
    s.keys("left three\x1b[A", "> a fox")
    s.keys("\x03left four", "> left four")  # what was kept aside first is not in the way of the next
    s.keys("\x1b[A", "> a fox")
    s.keys("\x15/quit\r", lambda t: t.process.poll() is not None)
    s = begun()
    s.keys("left up\x10", "> a fox")  # aside when the search begins
    s.keys("\x1bpnew\r", "> /new")
    s.keys("\x03", "moved to the history")
    s.keys("\x1b[A", "> /new")
    s.keys("\x1b[A", "> left up")
    s.keys("\x15", lambda t: "> left up" not in t.text())
    leave(s)
    s = begun()
    s.keys("left down\x10", "> a fox")
    s.keys("\x1bpnothing\r\x0e", "> left down")  # not found: it is still aside
    s.keys("\x01\x0b", lambda t: "> left down" not in t.text())
    leave(s)
    s = begun(INPUTRC=vi_inputrc("vi-left"))
    s.keys("left five\x1b", "> left five")
    s.keys("/fox\r", "> a fox")
    s.send("\r")
    again(s)
    s.keys("\x1b[A", "> left five")
    s.keys("\x15", lambda t: "left five" not in t.text())
    leave(s)
    kept = b"".join(open(os.path.join(at, name), "rb").read() for at, _, names in os.walk(state) for name in names)
    for text in (b"left one", b"left two", b"left three", b"left four", b"left five"):
        expect(text in kept, (text, kept))
    s = begun()
    s.keys("left six\x1bp", lambda t: "> left six" not in t.text())
    s.keys("fox\r", "> a fox")
    s.send("\r")
    again(s)
    s.keys("\x1b[A", "> left six")
    s.send("\x15")
    leave(s)
    s = begun()
    s.keys("left seven\x12fox", "`fox': a fox")
    s.send("\r")
    again(s)
    s.keys("\x1b[A", "> left seven")
    s.send("\x15")
    leave(s)
    s = begun()
    s.keys("left eight\x12fox", "`fox': a fox")
    s.process.terminate()
    same(s.finish(), 143)
    s = begun()
    s.keys("\x1b[A", "> a fox")
    s.keys("\x1b[A", "> /new")
    s.keys("\x1b[A", "> left eight")
    s.send("\x15")
    leave(s)


def test_long_drafts_are_not_lost_by_leaving():
    where = dict(XDG_STATE_HOME=tempfile.mkdtemp(dir=SCRATCH), **XTERM)
    for way, status in (("\x03\x04", 0), (signal.SIGTERM, 143)):
        s = chat(env=environment(**where))
        s.keys("\x1b[200~%s\x1b[201~" % ("long " * 16000), "pasted bytes]")
        s.keys(" behind %d" % status, "behind %d" % status)
        if status:
            s.process.send_signal(way)
        else:
            s.send(way)
        same(s.finish(), status)
    s = chat(env=environment(**where))
    s.keys("\x10\x10", "behind 143")  # over the /new of this chat
    s.keys("\x10\x10", "behind 0")
    s.send("\x15")
    leave(s)


def test_drafts_longer_than_the_history_takes_stay_in_their_file():
    text = "longer " * 700000
    for way, status in (("\x03\x04", 0), (signal.SIGTERM, 143), (signal.SIGKILL, -9)):
        env = environment(XDG_STATE_HOME=tempfile.mkdtemp(dir=SCRATCH), **XTERM)
        folder = os.path.join(env["XDG_STATE_HOME"], "moechat")

        def kept():
            return [os.path.join(folder, name) for name in os.listdir(folder) if name.startswith("draft-")]

        def content(path):
            with open(path) as file:
                return file.read()

        s = chat(env=env)
        s.keys("\x1b[200~%s\x1b[201~" % text, "4900000 pasted bytes]")
        if not status:
            s.keys("\x03", "of this chat alone")
            s.keys("\x10", "4900000 pasted bytes]")
            s.send("\x03\x04")
        else:
            s.until(lambda s: any(content(path) == text for path in kept()))  # a file is made longer before it is written
            s.process.send_signal(way)
        same(s.finish(), status)
        path = kept()[0]
        same((len(kept()), content(path) == text), (1, True))
        words = "%s has what was typed and is in no history: it stays there." % path
        expect(status == -9 or words.encode() in s.output, s.output[-600:])
        s = chat(env=env)
        expect(os.path.basename(path).encode() in s.output and b"stays there" in s.output, s.output[-3000:])
        leave(s)
        os.unlink(path)
        s = chat(env=env)
        expect(b"stays there" not in s.output, s.output[-3000:])
        leave(s)


def test_a_draft_outlives_kill_9():
    env = environment(TERM="linux", MOECHAT_CLOCK="fake", XDG_STATE_HOME=os.path.join(SCRATCH, "killed"))
    folder = os.path.join(SCRATCH, "killed", "moechat")

    def kept(wanted):
        end = time.monotonic() + DEADLINE
        while wanted != [open(os.path.join(folder, n)).read() for n in os.listdir(folder) if n.startswith("draft-")]:
            expect(time.monotonic() < end, os.listdir(folder))
            s.read(0.1)

    s = chat("turn\necho\n", env=env)
    s.keys("a draft\x1b\rof two lines", "of two lines")
    kept(["a draft\nof two lines"])
    s.keys("\x1b/words", "search: words")
    kept(["a draft\nof two lines"])  # what is searched for is none
    t = chat("turn\necho\n", env=env)  # another chat leaves it alone, as this one lives
    expect("killed" not in t.text(), t.text())
    leave(t)
    kept(["a draft\nof two lines"])
    s.process.kill()
    s.finish()
    s = Screen(["--no-session"] + script("turn\necho\n"), env=env)
    s.until("What was typed in a chat that was killed is in the history; Up brings it back.")
    kept([])
    s.keys("\x1b[A", "> a draft\n  of two lines")
    s.keys("\x15short", "> short")
    kept(["short"])
    s.keys("\r", " tokens/s)")
    kept([""])
    s.keys("during a search", "> during a search")
    kept(["during a search"])
    s.keys("\x12draft", "`draft': a draft")
    end = time.monotonic() + 0.8  # longer than it takes until what is typed is written
    while time.monotonic() < end:
        kept(["during a search"])
        s.read(0.05)
    s.keys("\x07", "> during a search")
    s.keys("\x15", lambda t: "during" not in t.text())
    leave(s)
    kept([])
    t = Terminal(["--plain", "--no-session"] + script("turn\necho\n"), env=env)
    t.wait("You:")
    t.send("in plain lines")
    t.wait("in plain lines")
    s = t
    kept(["in plain lines"])
    t.process.kill()
    t.finish()
    t = Terminal(["--plain", "--no-session"] + script("turn\necho\n"), env=env, columns=120)
    t.wait("What was typed in a chat that was killed is in the history; Up brings it back.", "You:")
    t.send("\x04")
    same(t.finish(), 0)


def test_what_is_left_for_another_line_of_the_history_is_kept():
    """The draft, and a line of the history that was changed: by kill -9, and by leaving."""
    state = os.path.join(SCRATCH, "left")
    folder = os.path.join(state, "moechat")
    env = environment(TERM="linux", MOECHAT_CLOCK="fake", XDG_STATE_HOME=state)
    os.makedirs(folder)

    def begin(plain):
        with open(os.path.join(folder, "history"), "w") as out:
            out.write("three\nanother\nlast\n")
        return again(plain)

    def again(plain):
        given = ["--no-session"] + script("turn\necho\n")
        s = Terminal(["--plain"] + given, env=env) if plain else Screen(given, env=env)
        s.wait("You:") if plain else s.until("idle")
        return s

    def keys(s, plain, *pairs):
        for key, seen in pairs:
            if plain:
                s.send(key)
                s.wait(seen)
            else:
                s.keys(key, "> " + seen)

    def kept(s, wanted):
        end = time.monotonic() + DEADLINE
        while wanted != [open(os.path.join(folder, n)).read() for n in os.listdir(folder) if n.startswith("draft-")]:
            expect(time.monotonic() < end, (wanted, os.listdir(folder)))
            s.read(0.1)

    def history():
        return open(os.path.join(folder, "history")).read().split("\n")[3:-1]

    for plain in (False, True):
        s = begin(plain)
        keys(s, plain, ("draft", "draft"))
        kept(s, ["draft"])
        keys(s, plain, ("\x1b[A", "last"), ("\x1b[A", "another"))
        end = time.monotonic() + 0.8  # longer than it takes until what is typed is written
        while time.monotonic() < end:
            kept(s, ["draft"])
            s.read(0.05)
        keys(s, plain, ("\x15changed", "changed"), ("\x1b[A", "three"))
        kept(s, ["draft\0changed"])
        keys(s, plain, (" now", " now" if plain else "three now"))
        kept(s, ["three now\0draft\0changed"])
        s.process.kill()
        s.finish()
        leave(again(False))
        same(history(), ["changed", "draft", "three now"])
        s = begin(plain)
        keys(s, plain, ("\x1b[A", "last"), ("\x15changed", "changed"), ("\x1b[A", "another"))
        s.process.terminate()
        same(s.finish(), 143)
        same(history(), ["changed", "another"])


def test_a_line_of_the_history_that_was_changed_twice_can_be_put_away_and_sent():
    """Up at the oldest line has readline keep it with what can be undone, and what is typed then lies on top of that."""
    for plain in (False, True):
        state = os.path.join(SCRATCH, "twice%d" % plain)
        os.makedirs(os.path.join(state, "moechat"))
        with open(os.path.join(state, "moechat", "history"), "w") as out:
            out.write("three\nanother\n")
        given = ["--no-session"] + script("turn\necho\n" * 2)
        env = environment(TERM="linux", MOECHAT_CLOCK="fake", XDG_STATE_HOME=state)
        s = Terminal(["--plain"] + given, env=env) if plain else Screen(given, env=env)
        s.wait("You:") if plain else s.until("idle")
        for key in ("\x1b[A", "\x1b[A", "a", "\x1b[A", "bc", "\x03", "\x1b[A", "\x1b[A", "\x1b[A", "\x1f\x1f\x1f", "d", "\r"):
            s.send(key)
            s.read(0.1)
        s.wait("tokens/s") if plain else s.until("idle", "threed")
        s.process.terminate()
        same(s.finish(), 143)
        same(open(os.path.join(state, "moechat", "history")).read().split("\n")[2:-1], ["threeabc", "threed"])


class Killed:
    """A chat with lines of the history, and what its draft's file has."""

    def __init__(self, name, **more):
        self.folder = os.path.join(SCRATCH, name, "moechat")
        os.makedirs(self.folder)
        with open(os.path.join(self.folder, "history"), "w") as out:
            out.write("three\nanother\nlast\n")
        env = environment(TERM="linux", MOECHAT_CLOCK="fake", XDG_STATE_HOME=os.path.join(SCRATCH, name), **more)
        self.screen = Screen(["--no-session"] + script("turn\necho\n"), env=env)
        self.screen.until("idle")

    def drafts(self):
        return [open(os.path.join(self.folder, n)).read() for n in os.listdir(self.folder) if n.startswith("draft-")]

    def kept(self, wanted, seconds=0):
        """It becomes so, and stays so."""
        end = time.monotonic() + DEADLINE
        while wanted != self.drafts():
            expect(time.monotonic() < end, (wanted, self.drafts()))
            self.screen.read(0.1)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.screen.read(0.05)
            same(self.drafts(), wanted)

    def history(self):
        self.screen.process.terminate()
        same(self.screen.finish(), 143)
        return open(os.path.join(self.folder, "history")).read().split("\n")[3:-1]


def test_what_takes_the_place_of_a_line_of_the_history_is_kept():
    """Behind a search of the chat it comes back as it was changed; the editor changes it, too."""
    editor = os.path.join(SCRATCH, "writes")
    with open(editor, "w") as out:
        out.write("#!/bin/sh\necho 'much work' > \"$1\"\n")
    os.chmod(editor, 0o700)
    for name, changes in (("searched", (("\x15much work", "> much work"), ("\x1b/words", "search: words"), ("\x1b", "> much work"))),
                          ("edited", (("\x18\x05", "> much work"),))):
        chat = Killed(name, VISUAL=editor)
        s = chat.screen
        s.keys("\x1b[A", "> last")
        for keys, seen in changes:
            s.keys(keys, seen)
        chat.kept(["much work"])
        s.keys("\x1b[A", "> another")
        chat.kept(["much work"], 0.8)
        s.keys("\x1b[B", "> much work")
        s.keys("\x1b[A", "> another")
        same(chat.history(), ["much work", "another"])


def test_a_draft_that_was_left_is_kept_during_a_search_of_the_chat():
    chat = Killed("left-aside")
    s = chat.screen
    s.keys("precious", "> precious")
    s.keys("\x1b[A", "> last")
    chat.kept(["precious"])
    s.keys("\x1b/words", "search: words")
    chat.kept(["precious"], 0.8) # longer than it takes until what is typed is written
    s.keys("\x1b", "> last")
    s.keys("\x15changed", "> changed")
    s.keys("\x1b/words", "search: words")
    chat.kept(["changed\0precious"], 0.8)
    s.keys("\x1b", "> changed")
    s.keys("\x1b[B", "> precious")
    same(chat.history(), ["changed", "precious"])


def test_a_draft_that_no_history_takes_waits_for_one_that_does():
    state = os.path.join(SCRATCH, "no-history")
    env = environment(TERM="linux", MOECHAT_CLOCK="fake", XDG_STATE_HOME=state)
    folder = os.path.join(state, "moechat")
    os.makedirs(folder)
    os.symlink("/dev/full", os.path.join(folder, "history"))

    def drafts():
        return [open(os.path.join(folder, n)).read() for n in os.listdir(folder) if n.startswith("draft-")]

    s = chat("turn\necho\n", env=env)
    s.keys("precious", "> precious")
    s.process.terminate()
    same(s.finish(), 143)
    same(drafts(), ["precious"])
    leave(chat("turn\necho\n", env=env))
    same(drafts(), ["precious"])
    os.unlink(os.path.join(folder, "history"))
    s = Screen(["--no-session"] + script("turn\necho\n"), env=env)
    s.until("What was typed in a chat that was killed is in the history; Up brings it back.")
    s.keys("\x1b[A", "> precious")
    same(drafts(), [])
    s.keys("\x15", lambda t: "> precious" not in t.text())
    leave(s)


def test_completion():
    s = chat("turn\necho\n", env=environment(TERM="linux", MOECHAT_CLOCK="fake"))
    s.keys("/s\t", "/sessions")
    s.golden("completion-80x24")
    s.keys("et te\t", "> /set temp")
    s.keys("0.5\r", " is now 0.5")
    rc = os.path.join(SCRATCH, "ambiguous")
    with open(rc, "w") as out:
        out.write("set show-all-if-ambiguous on\n$if moechat\n\"\\eq\": moechat-stats\n$endif\n")
    leave(s)
    s = chat("turn\necho\n", env=environment(TERM="linux", INPUTRC=rc))
    s.keys("/s\t", "/sessions")
    s.keys("\x15\x1bq", "no experts used")
    leave(s)


def test_completion_parts_no_letters():
    """Two names whose first letters begin with the same byte have nothing in common."""
    env = environment(TERM="linux", XDG_DATA_HOME=os.path.join(SCRATCH, "letters"))
    for name in ("\u00fcber", "\u00fanico"):
        same(run(["--session", name, "--plain"] + script(ECHO_TURN), stdin=b"hi\n", env=env).returncode, 0)
    s = Screen(["--no-session"] + script(ECHO_TURN), env=env)
    s.until(IDLE)
    s.keys("/load \t\t", lambda t: "\u00fcber" in t.text() and "\u00fanico" in t.text())
    same(s.text().split("\n")[-1], "> /load")
    s.keys("\u00fc\t", "> /load \u00fcber")
    s.keys("\x15", lambda t: "> /load" not in t.text())
    leave(s)


def test_the_first_answer_has_its_seed_while_it_comes():
    s = chat("turn\ntext So it is.\nhang\n", "--seed", "40")
    s.keys("why?\r", "So it is.")
    s.keys("/stats\r", "seed ")
    same(re.findall(r"seed +(\d+)", s.text()), ["40"])
    s.keys("q", "So it is.")
    s.keys("\x1b", "Stopped")
    leave(s)


def test_thinking_folds():
    s = chat("turn\ntext <think>\n" + "text thought %d of many words that fill a row of the screen, and then some\n" * 6 % tuple(range(6)) +
             "token </think>\ntext So it is.\nturn\ntext <think>endless\nhang\n")
    answered(s, "why?")
    expect("thought 0" not in s.text() and "thought 5" in s.text(), "only its end is shown")
    s.golden("thinking-80x24")
    s.keys("\x1bo", "thought 0")
    s.keys("\x1bo", lambda t: "thought 0" not in t.text())
    s.keys("again\r", " thinking ")
    s.keys("\x1b", "Stopped")
    thought = re.findall(r"^thought for .*, (\d+) token", s.text(), re.M)[-1]
    same(re.findall(r"^\((\d+) token", s.text(), re.M)[-1], thought)  # nothing else was said
    s.keys("/undo\r", "Took back")
    s.keys("/redo\r", "endless")
    expect("\u25c6" not in s.text().split("endless")[1], "nothing was said, and nothing stands there for it")
    leave(s)


XTERM = dict(TERM="xterm", MOECHAT_CLOCK="fake")


def bad_bytes(output):
    """What a terminal could obey but curses never sends."""
    own = re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[()][0B]|\x1b[=>78MHD]|\x1b\[[0-9;?]*\$p", b"", output)
    text = own.decode("utf-8", "replace")
    return [c for c in text if (ord(c) < 32 and c not in "\r\n\b\t\x0e\x0f") or 0x7f <= ord(c) < 0xa0 or
            0x202a <= ord(c) <= 0x202e or 0x2066 <= ord(c) <= 0x2069 or 0xe0000 <= ord(c) <= 0xe007f or
            ord(c) in (0x200b, 0x200e, 0x200f, 0x2028, 0x2029, 0xfeff)]


def test_hostile_output_never_reaches_the_terminal():
    everything = b"".join(b"token <\\x%02x>\n" % i for i in range(256))
    sequences = [b"\x1b]0;title\x07", b"\x1b]52;c;aGk=\x1b\\\\", b"\x1bP1$r0m\x1b\\\\", b"\x1b[2J\x1b[H", b"\x1b[?1049l",
                 b"\xc2\x9b2J", b"\x9b2J", b"\xe2\x80\xae", b"\xe2\x81\xa7", b"\xf3\xa0\x81\x81", b"\xe2\x80\x8b", b"\xef\xbb\xbf",
                 b"\xe2\x80\xa8", b"\xff\xfe\xe2\x82", b"\xed\xa0\x80", b"a" + b"\xcc\x81" * 60]
    script_text = (b"name \x1b[2Jbad\x9b\xe2\x80\xae\nturn\n" + everything + b"".join(b"token " + q + b"\n" for q in sequences) +
                   b"turn\nrepeat 1000 " + b"x" * 1000 + b"\ntoken end of it\nturn\nerror \x1b]0;t\x07\xe2\x80\xae disk\n")
    s = chat(script_text, env=environment(**XTERM))
    answered(s, "one")
    s.keys("two\r", "end of it")
    s.until(IDLE)
    s.keys("\x1b[5~", lambda t: "end of it" not in t.text())
    s.keys("\x1bg", "end of it")
    s.keys("three\r", "disk")
    s.keys("\x1b[1;5H", "\u241b]0;title")
    s.keys("\x1bv", "press any key to return")  # the bare view, too
    s.keys("x", IDLE)
    same(bad_bytes(s.output), [])
    same(s.output.count(b"]0;"), s.output.count("\u241b]0;".encode()))
    expect(b"]52;" not in s.output.replace("\u241b]52;".encode(), b""), "nothing went to the clipboard")
    leave(s)


def test_signals_and_crashes_give_the_terminal_back():
    for number, status in ((signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGSEGV, -signal.SIGSEGV),
                           (signal.SIGABRT, -signal.SIGABRT), (signal.SIGQUIT, 131)):
        s = chat("turn\ntext one\nhang\n", "--mouse", env=environment(**XTERM))
        s.keys("go\r", "one")
        expect(s.settings() != s.before, "the terminal is in raw mode")
        s.process.send_signal(number)
        same((number, s.finish()), (number, status))
        same(s.settings(), s.before)
        for on, off in ((b"\x1b[?1049h", b"\x1b[?1049l"), (b"\x1b[?2004h", b"\x1b[?2004l"), (b"\x1b[?1000h", b"\x1b[?1000l")):
            expect(0 <= s.output.rfind(on) < s.output.rfind(off), "%r is undone" % on)


def test_suspend_and_return():
    s = Screen(["--no-session"] + script("turn\necho\n"), env=environment(**XTERM), shell='"$0" "$@"; echo "stopped"; read go; fg; echo "ended $?"')
    s.until(IDLE)
    s.keys("dra", "> dra")
    s.send("\x1a")
    s.until("stopped")
    same(s.settings(), s.before)
    expect(s.output.rfind(b"\x1b[?1049l") > s.output.rfind(b"\x1b[?1049h"), "the other screen is left")
    s.keys("\n", "> dra")
    s.keys("ft\r", "you \u203a draft")
    s.until(IDLE)
    s.send("\x04")
    s.until("ended 0")
    s.finish()
    same(s.settings(), s.before)


def test_an_edit_without_room_leaves_the_screen_as_it_was():
    s = chat("context 64\n" + ECHO_TURN * 4)
    answered(s, "Hello", "Hello")
    answered(s, "Again", "Again")
    for keys in (["/edit 2 " + "x" * 80 + "\r"], ["/edit 2\r", "x" * 80 + "\r"]):
        for key in keys:
            s.keys(key, lambda t: "Nothing was taken back." in t.text() or "Esc brings them" in t.text())
            s.until(IDLE)
        text = s.text()
        same([text.count(words) for words in ("you \u203a Hello", "you \u203a Again", "\u25c6 Hello", "\u25c6 Again", "Not sent: ")], [1, 1, 1, 1, 1])
        expect("x" * 20 not in text and "context 29 of 64" in text, text)
        s.keys("\x1b[A", "x" * 70)
        s.keys("\x15/redo\r", "Nothing to bring back.")
        s.keys("/undo\r", "Took back 1")
        s.keys("/redo\r", "Again")
        s.until(IDLE)
    leave(s)


def test_a_retry_without_room_leaves_the_screen_as_it_was():
    run(["--plain", "--session", "small"] + script(ECHO_TURN * 2), stdin=b"Hello\nAgain and again\n")
    s = Screen(["--session", "small"] + script("context 32\n" + ECHO_TURN), columns=100)
    s.until("\u25c6 Again and again")
    s.until(IDLE)
    for _ in range(2):
        s.keys("/retry\r", "its answer stays, ")
        s.until(IDLE)
        text = s.text()
        same([text.count(words) for words in ("you \u203a Hello", "\u25c6 Hello", "you \u203a Again and again", "\u25c6 Again and again", "Not answered: ")], [1] * 5)
    s.keys("/undo\r", "Took back 1")
    s.keys("/retry\r", "Answer 2 of 2")
    leave(s)
    same(run(["sessions", "rm", "small"]).returncode, 0)


def test_it_ends_in_the_background():
    """Stopped by another than the terminal, then told to end and continued: the terminal is as it was, or as who has it set it."""
    for kind, args in ((Terminal, ["--plain", "--no-session"]), (Screen, ["--no-session"])):
        for sets in (":", "stty tostop", "stty sane erase x"):
            t = kind(args + script("turn\ntext one\nhang\n"), env=environment(**XTERM),
                     shell="""%s; kill %%1; kill -CONT %%1; until jobs >$HOME/jobs; grep "(143)" $HOME/jobs; do sleep 0.1; done; echo "ended\"""" % ('"$0" "$@"; ' + sets))
            t.wait("\x1b[1mYou:" if kind is Terminal else "\x1b[?2004h")
            time.sleep(0.3)
            t.send("go\r")
            t.wait("one")
            os.kill(os.tcgetpgrp(t.master), signal.SIGSTOP)
            t.wait("(143)", "ended")
            t.finish()
            expect(t.output.rfind(b"\x1b[?2004l") > t.output.rfind(b"\x1b[?2004h"), "marked pastes are undone")
            same((kind, sets, t.settings() == t.before), (kind, sets, sets == ":"))


def test_keys_are_no_signals_for_the_shell_of_a_script():
    s = Screen(["--no-session"] + script("turn\ntext one\nhang\n"), env=environment(**XTERM),
               shell="""exec sh -c '"$0" "$@"; echo "after $?"' "$0" "$@" """)
    s.until(IDLE)
    s.keys("go\r", "one")
    s.keys("\x03", "Stopped")
    s.keys("dra\x03ft", "> ft")  # what came before it is dropped, what came after is not
    s.send("\x15\x04")
    s.until("after 0")  # dash ends at a signal though its command did not
    s.finish()
    same(s.settings(), s.before)


def test_a_script_stops_with_us():
    s = Screen(["--no-session"] + script("turn\necho\n"), env=environment(**XTERM),
               shell="""sh -c '"$0" "$@"; echo "after $?"' "$0" "$@"; echo "stopped"; read go; fg; echo "ended $?" """)
    s.until(IDLE)
    s.send("\x1a")
    s.until("stopped")
    same(s.settings(), s.before)
    s.keys("\ndraft", "> draft")
    s.send("\x15\x04")
    s.until("after 0")
    s.until("ended 0")
    s.finish()
    s = Screen(["--no-session"] + script("turn\necho\n"), env=environment(**XTERM),
               shell="""exec sh -c 'trap "" TSTP; "$0" "$@"; echo "after $?"' "$0" "$@" """)
    s.until(IDLE)
    s.keys("\x1adraft", "> draft")  # where nobody would wake us
    s.send("\x15\x04")
    s.until("after 0")
    s.finish()


def test_a_stopped_editor_stops_us_and_comes_back():
    editor = os.path.join(SCRATCH, "stopped-editor")
    with open(editor, "w") as out:
        out.write("#!/bin/sh\necho editing; kill -TSTP 0; echo 'came back' >> \"$1\"\n")
    os.chmod(editor, 0o700)
    s = Screen(["--no-session"] + script("turn\necho\n"), env=environment(VISUAL=editor, **XTERM),
               shell='"$0" "$@"; echo "stopped"; read go; fg; echo "ended $?"')
    s.until(IDLE)
    s.send("\x18\x05")
    s.until("stopped")
    same(s.settings(), s.before)
    s.keys("\n", "came back")
    s.keys("\r", "you \u203a came back")
    s.until(IDLE)
    s.send("\x04")
    s.until("ended 0")
    s.finish()
    same(s.settings(), s.before)
    alone = chat("turn\necho\n", env=environment(VISUAL=editor, **XTERM))  # nobody could wake us: it goes on at once
    alone.keys("\x18\x05", "came back")
    alone.send("\x15")
    leave(alone)


def test_figures_during_an_answer():
    s = chat("turn\ntext one\nhang\n")
    s.keys("go\r", "one")
    s.keys("/stats\r", "stats")
    expect("prefill" in s.text() and "one" not in s.text().split("\n")[2], "they are shown at once: %s" % s.text())
    s.keys("\x1b", "one")  # one press closes it, the next one stops
    s.keys("\x1b", "Stopped")
    leave(s)


def test_other_answers_are_gone_to_by_alt_arrows():
    s = chat("turn\necho\ntoken -a\nturn\necho\ntoken -b\nturn\necho\ntoken -c\n")
    s.keys("\x1b[1;3D", "nothing was said yet")
    answered(s, "one")
    s.keys("\x1b[1;3D", "no other answers; /retry makes one")
    s.keys("/retry\r", "(Answer 2 of 2.)\nAlt-Left shows answer 1 of 2.\n\n")  # above the draft, with the keys that lead on
    answered(s, "two")  # two-c
    expect("Alt-Left" not in s.text() and "(Answer 2 of 2.)" in s.text(), "what the keys do is told of where one is: %s" % s.text())
    s.keys("\x1b[1;3D", lambda t: "one-a" in t.text() and "two-c" not in t.text() and "one-b" not in t.text())
    s.until(lambda t: "(Answer 1 of 2.)\n" in t.text() and t.text().split(IDLE)[0].rstrip().endswith("\nAlt-Right shows answer 2 of 2."))
    s.keys("\x1b[1;3D", "this is the first one")
    s.keys("\x1b[1;3C", lambda t: "one-b" in t.text() and "two-c" in t.text() and "one-a" not in t.text())
    s.keys("two words\x1b[1;3D\x1b[1;3D-", "> -two words")  # in a draft they are readline's
    s.keys("\x15\x0b", lambda t: "two words" not in t.text())
    s.keys("/edit 2\r", lambda t: "> one" in t.text() and "one-b" not in t.text())  # the draft has it
    s.keys(" more\r", "(Version 2 of 2 of this message.)\nAlt-Left shows version 1 of 2.\n\n")
    expect("one more-a" in s.text() and "Took back" not in s.text(), s.text())
    s.keys("\x1b[1;3D", lambda t: "two-c" in t.text() and "one more" not in t.text())
    s.until("Alt-Left shows version 1 of 2 of an earlier answer, Alt-Right")
    s.keys("\x1b[1;3C", lambda t: "one more-a" in t.text() and "two-c" not in t.text())  # where one was
    s.keys("\x1b[1;3C", "this is the last one")
    s.keys("\x1b[1;3D", lambda t: "two-c" in t.text() and "one more" not in t.text())
    s.keys("/tree\r", "\n  7    Assistant: one more-a")
    s.keys("/undo 2\r", "0 remain, context 0")
    s.keys("/redo 2\r", "two-c")
    leave(s)


def test_two_earlier_places_are_told_apart():
    s = chat("turn\necho\n" * 8, columns=120)
    answered(s, "one")
    s.keys("/edit\r", "> one")
    answered(s, " more", "(Version 2 of 2 of this message.)")
    answered(s, "two")
    s.keys("/edit\r", "> two")
    answered(s, "!", "Alt-Left shows version 1 of 2.")
    s.keys("\x1b[1;3D", "Alt-Right shows version 2 of 2.")
    answered(s, "three")
    s.keys("\x1b[1;3C", lambda t: "two!" in t.text() and "three" not in t.text())
    s.keys("\x1b[1;3D", "Alt-Left shows version 1 of 2 of an earlier message, Alt-Right shows version 2 of 2 of one after that.")
    s.keys("/edit 2\r", "> two")
    answered(s, "?", "Alt-Left shows version 2 of 3.")
    s.keys("\x1b[1;3D", "two!")
    answered(s, "four")
    s.keys("\x1b[1;3D", "three")
    s.keys("\x1b[1;3C", "Alt-Left shows version 1 of 3 of an earlier message, Alt-Right shows version 3 of 3 of it.")
    leave(s)


def test_what_is_said_for_now_goes_with_what_it_is_about():
    s = after_two_answers()
    before = s.text().split(IDLE)[0].rstrip()
    s.keys("/undo\r", "Took back 1 of your messages; 1 remains")
    s.keys("/redo\r", lambda t: "your next message reads" in t.text() and IDLE in t.text())
    same(s.text().split("\nThis conversation is not saved")[0], before)  # with the figures that came, without the notice
    s.keys("/undo\r", "Took back 1")
    s.keys("/stats\r", "prefill")  # in the middle
    s.keys("three\r", "three-c")
    s.until(IDLE)
    expect("Took back" not in s.text() and "your next" not in s.text() and "prefill" in s.text() and "one-a" in s.text(), s.text())
    s.keys("/undo\r", lambda t: "three-c" not in t.text())  # what stood behind it is found where it is now
    s.keys("/undo\r", lambda t: "one-a" not in t.text() and "Took back" in t.text())
    leave(s)


def test_tab_offers_words_on_a_small_screen():
    s = Screen(["--no-session"] + script(ECHO_TURN), columns=20, rows=5)
    s.keys("/s\t\t", lambda t: "/save" in t.text() and " more" in t.text())
    s.keys("\x15/\t\t", lambda t: "/bye" in t.text() and " more" in t.text())
    expect(s.text().split("\n")[4] == "> /", s.text())
    s.keys("\x15", lambda t: " more" not in t.text())
    leave(s)


def test_the_bare_view_follows_the_terminal():
    s = chat(ECHO_TURN, columns=60, rows=14)
    s.keys("a message of so many words that no terminal of forty columns has it in a line\r", "tokens/s)")
    s.keys("\x1bv", "(moechat: press any key to return)")
    s.resize(40, 14)  # this terminal cuts off what stands there
    s.until(lambda t: t.text().count("forty columns has") == 2 and t.text().rstrip().endswith("to return)"))
    s.keys("\x1b[A", IDLE)  # a key of three bytes is one key
    expect("> [A" not in s.text() and "> A" not in s.text() and "press any key" not in s.text(), s.text())
    s.resize(80, 24)
    s.keys("\x1bv", "(moechat: press any key to return)")
    s.keys("\x03", IDLE)
    for came, draft in (("typed at once", "typed at once"), ("\x1b[200~pasted\x1b[201~", "pasted"), ("\x1b[Aq", "q"), ("\u00e9", "")):
        s.keys("\x1bv", "(moechat: press any key to return)")
        s.keys(came, lambda t: t.text().rstrip().endswith(("> " + draft).rstrip()))  # the key, and nothing else, is gone
        s.send("\x15")
    leave(s)


def test_what_is_pasted_over_the_bare_view_is_the_draft():
    """Wherever a terminal cuts it, and however much it is: nothing of it is a key or a message, and none of it is echoed."""
    few, many = ("".join("line %d of it\r" % i for i in range(n)) for n in (3, 2000))
    # Esc by itself waits for more 30 ms, and 100 over a network: a busy machine may keep us from sending on for the former.
    s = chat("turn\necho\n" * 2, env=environment(TERM="linux", MOECHAT_CLOCK="fake", SSH_CONNECTION="here"))
    for text, cut, draft in [(few, n, "> line 0 of it\n  line 1 of it\n  line 2 of it") for n in (1, 2, 3, 5, 6, 8)] + \
                            [(many, 4000, "> [2000 pasted lines]"), (many, 3, "> [2000 pasted lines]")]:
        s.keys("\x1bv", "(moechat: press any key to return)")
        pasted, before = "\x1b[200~" + text + "\x1b[201~", len(s.output)
        s.send(pasted[:cut])
        time.sleep(0.01)
        for at in range(cut, len(pasted), 1000):
            s.send(pasted[at:at + 1000])
            s.read(0)
        s.until(lambda t: draft in t.text() and IDLE in t.text())
        same((b"of it\r\n" in s.output[before:], b"?2004l" in s.output[before:]), (False, False))
        s.keys("\x15", lambda t: "> Send a message" in t.text())
    s.keys("\x1bv", "(moechat: press any key to return)")
    s.send("t")  # not marked, and cut
    s.keys("yped", "> typed")
    s.keys("\x15\x1bv", "(moechat: press any key to return)")
    s.keys("\x1bv\x1bvx", "(moechat: press any key to return)")  # a key, and one that shows it again
    s.keys("q", "> x")
    s.keys("\x15", "> Send a message")
    leave(s)


def test_an_unmarked_paste_runs_nothing():
    made = os.path.join(SCRATCH, "ran")
    s = chat("turn\necho\n" * 3)
    s.keys("!true\r", "Enter once more runs this")  # who knows what it does
    s.keys("\r", "the command printed nothing")
    s.send("some text\r!touch %s\rmore\r" % made)
    s.until("taken for a paste, as it came at once; no line of it was run")
    expect("> some text\n  !touch" in s.text() and not os.path.exists(made), s.text())
    s.keys("\r", lambda t: "some text\n!touch" in t.text().replace("  !", "!") and " tokens/s)" in t.text())
    expect(not os.path.exists(made), "sent as a message")
    leave(s)


def test_what_nobody_typed_is_no_command():
    """Neither what /edit brings, nor what a command printed, nor lines that were pasted: Enter sends it as it is."""
    mark, note, out = (os.path.join(SCRATCH, name) for name in ("ran", "note", "said.json"))
    for text in ("!touch %s" % mark, "!note to all\ntouch %s\nthanks" % mark, '"""q', "/export md %s" % mark):
        with open(note, "w") as file:
            file.write(text)
        s = chat(ECHO_TURN * 3, columns=120)
        s.keys("!true\r", "Enter once more runs this")
        s.keys("\r", "the command printed nothing")
        ways = ["!cat %s\r" % note, "/edit\r"] + ["\x1b[200~%s\x1b[201~" % text] * ("\n" in text)
        last = text.split("\n")[-1]
        for way in ways:
            s.keys(way, lambda t: last in t.text().split("\n>")[-1])  # it is the draft
            s.keys("\r", lambda t: last not in t.text().split("\n>")[-1])
        s.keys("/export json %s\r" % out, "Wrote")
        leave(s)
        with open(out) as file:
            said = [message["text"] for message in json.load(file)["messages"] if message["role"] == "user"]
        os.unlink(out)
        same((os.path.exists(mark), said), (False, [text] * (len(ways) - 1)))  # /edit's is in the place of the first


def test_what_is_pasted_behind_what_waited_is_no_command():
    out = os.path.join(SCRATCH, "stolen.md")
    s = chat("turn\ntext first part\nhang\n" + ECHO_TURN * 4, columns=120)
    s.keys("go\r", "first part")
    s.keys("one\r", "queued: one")
    s.keys("\x03", "what waited is the draft")
    s.keys("\x1b[200~look at this:\n/export md %s\x1b[201~" % out, "stolen.md")
    s.keys("\r", "would be words of the message; Enter once more sends it so")
    s.keys("\r", lambda t: "stolen.md" not in t.text().split("\n>")[-1])
    s.keys("/undo\r", "Took back 1")
    expect(not os.path.exists(out), "it was pasted")
    leave(s)


def test_esc_leaves_an_edit():
    s = after_two_answers()
    before = s.text().split(IDLE)[0].rstrip()
    s.keys("/edit 2\r", "Esc brings them back.")
    s.keys(" changed", "> one changed")
    s.keys("\x1b", lambda t: "your next message" in t.text() and "draft moved to the history" in t.text())
    same(s.text().split("\nThis conversation is not saved")[0], before)
    s.keys("\x1b[A", "> one changed")
    s.keys("\x15\x1b", lambda t: "> one" not in t.text())  # leaves nothing more
    s.keys("/edit\r", "Esc brings it back.")
    s.keys("\x1b", lambda t: "your next message" in t.text())  # as it was it is in the history once
    expect("draft moved" not in s.text(), s.text())
    s.keys("\x1b[A", "> /edit")
    s.keys("\x15", "your next message")
    expect("two-b" in s.text(), s.text())
    s.keys("/edit\r", "Esc brings it back.")
    s.keys(" too\r", "two too-c")  # sent: nothing to leave
    s.until(IDLE)
    s.keys("\x1b", lambda t: "two too-c" in t.text())
    leave(s)


def test_esc_leaves_an_edit_of_what_had_no_room():
    """It is no part of the conversation, and stays the last one for /edit."""
    s = chat("context 64\n" + ECHO_TURN * 3)
    answered(s, "one")
    s.keys("x" * 70 + "\r", "Not sent: ")
    s.until(lambda t: IDLE in t.text() and "xxx" not in t.text())
    before = s.text().split(IDLE)[0]
    for changed in ("", " changed", ""):
        s.keys("/edit\r", lambda t: "Change the message and send it." in t.text() and "x" * 50 in t.text())
        if changed:
            s.keys(changed, changed)
        s.keys("\x1b", lambda t: no_draft(t) and ("draft moved" in t.text()) == bool(changed))
        same(s.text().split(IDLE)[0], before)
    s.keys("\x1b[A", "> /edit")
    s.keys("\x1b[A", "xx changed")
    s.keys("\x15\x1b", no_draft)
    s.keys("/edit\r", "Change the message and send it.")
    s.keys("\x15two\r", "\u25c6 two")  # sent: nothing to leave
    s.until(IDLE)
    s.keys("three\x1b", "> three")
    s.keys("\x15", no_draft)
    leave(s)


def test_esc_that_is_quoted_is_text():
    """Behind Ctrl-V, as any other byte; it leaves nothing."""
    s = after_two_answers()
    for keys in (["ab\x16\x1b"], ["ab\x16", "\x1b"]):
        s.keys("/edit\r", "Esc brings it back.")
        s.keys("\x15", lambda t: "> two" not in t.text())
        for key in keys:
            s.send(key)
        s.until("> ab\u241b")
        s.keys("xy", "> ab\u241bxy")
        expect("Esc brings it back." in s.text(), s.text())
        s.keys("\x1b", "two-b")
        s.until(no_draft)
    s.keys("\x1b/", "search")
    s.keys("ab\x16", "ab")
    s.keys("\x1b", "ab\u241b")
    s.keys("\x1b", no_draft)
    s.keys("ab\x16\x1bxy\r", "\u25c6 ab\u241bxy")
    leave(s)


def test_vi_begins_in_insert_mode_behind_an_edit():
    """Left by Esc, of which the first ends insert mode."""
    s = chat("turn\necho\n", env=environment(INPUTRC=vi_inputrc("vi-edit", SHOWS_MODE), **XTERM))
    answered(s, "one")
    for keys in ("", " more"):
        s.keys("/edit\r", "Esc brings it back.")
        s.keys(keys + "\x1b", "(cmd)")
        s.keys("\x1b", lambda t: "(ins)" in t.text() and "(cmd)" not in t.text() and "> one" not in t.text())
        s.keys("words", "words")
        s.keys("\x15", lambda t: "words" not in t.text())
    leave(s)


def test_ctrl_c_leaves_an_edit_and_commands_do_not():
    s = after_two_answers()
    before = s.text().split(IDLE)[0].rstrip()
    s.keys("/edit\r", "Esc brings it back.")
    s.keys("\x15/copy 9\r", lambda t: t.text().rstrip().endswith(">"))
    s.keys("/edit 1\r", lambda t: "Esc brings it back." in t.text() and "> one" in t.text())
    s.keys("\x15/keys enter\r", "q closes")
    s.keys("q", "Esc brings it back.")
    s.keys("changed\x03", lambda t: "draft moved to the history" in t.text() and "one-a" in t.text())
    s.keys("/redo\r", "two-b")
    s.keys("\x1b[A", "> /redo")
    s.keys("\x1b[A", "> changed")
    s.keys("\x15/undo 2\r", "/redo 2 brings them")
    s.keys("/redo 2\r", lambda t: "two-b" in t.text())
    leave(s)


def test_an_edit_does_not_wait_in_the_queue():
    s = chat("turn\ntext first part\nhang\nturn\necho\n")
    s.keys("go\r", "first part")
    s.keys("/edit\r", "/edit can't wait in the queue; Esc stops the answer")
    s.until("> /edit")
    expect("queued" not in s.text(), s.text())
    s.keys("\x15/edit 1 went\r", "queued: /edit 1 went")  # with its text it can
    s.keys("\x1b", lambda t: "went\n" in t.text() and " tokens/s)" in t.text())
    leave(s)


def test_a_draft_is_not_lost_to_an_edit_and_the_queue_waits_for_it():
    s = Screen(script("turn\necho\n" * 3), env=environment(TERM="linux", MOECHAT_CLOCK="fake", XDG_STATE_HOME=SCRATCH + "/edit-state", XDG_DATA_HOME=SCRATCH + "/edit-data"))
    s.until(IDLE)
    answered(s, "one")
    s.send("/undo\r/redo\r/edit\rtwo\r")  # while the worker goes to and fro
    s.until(lambda t: "> one" in t.text() or "you \u203a two" in t.text())
    s.until(IDLE)
    if "> one" in s.text():  # else all was done at once
        expect("you \u203a two" not in s.text(), s.text())
        s.keys("\x1b", "you \u203a two")
    s.until(IDLE)
    s.keys("/edit\r", "Esc brings it back.")
    s.keys("\x15/pull x\r", lambda t: "\n/pull x\nModels are fetched outside" in t.text())
    s.keys("/fork\r", lambda t: "Each turn is now" in t.text() and "Esc brings" not in t.text())  # in the copy there is nothing to bring
    s.send("\x15\x04")
    same(s.finish(), 0)


def test_what_is_said_of_a_command_stands_below_it():
    """Behind an empty line, also of those whose page or pane needs no mention, and while an answer is under way."""
    s = chat("turn\ntext first part\nhang\n", rows=40)
    lines = ("/heat 3", "/log x", "/quit now", "/stats x", "/sessions x", "/new x")
    for line in lines:
        s.keys(line + "\r", line.split()[0] + " takes no argument")
    said = lambda line: "\n%s\n%s takes no argument; // starts a message with a slash.\n" % (line, line.split()[0])
    expect("New conversation.\n" + "".join(map(said, lines)) in s.text(), s.text())
    s.keys("/heat\r", "no experts used in this turn yet")
    s.keys("\x1bs\x1bs", lambda t: "no experts" not in t.text())
    s.keys("/log\r", "q closes")
    s.keys("q", lambda t: "/log x\n" in t.text() and "/log\n" not in t.text() and "/heat\n" not in t.text())
    s.keys("go\r", "first part")
    s.keys("/heat 3\r", lambda t: t.text().count(said("/heat 3")) == 2)
    expect("first part\n" + said("/heat 3") in s.text(), s.text())
    leave(s)


def test_an_answer_goes_on_before_what_is_said_meanwhile():
    s = chat("turn\ntoken first\ndelay 700\ntoken  second\ntoken  third\nturn\necho\n")
    s.keys("go\r", "first")
    s.keys("/heat 3\r", "/heat takes no argument")
    s.keys("!date\r", lambda t: "Enter once more runs this in your shell" in t.text() and IDLE in t.text())
    expect("\u25c6 first second third\n\n/heat 3\n/heat takes no argument; " in s.text(), s.text())
    expect(" it is a message.\n\n(3 tokens, " in s.text(), "what is said of the answer stands apart: " + s.text())
    s.keys("\x03", no_draft)
    began = len(s.output)
    s.send("\x1bv")
    s.until(lambda t: b"(3 tokens, " in t.output[began:])
    expect(b"third\r\n\r\n/heat 3\r\n" in s.output[began:], s.output[began:])
    s.keys("q", IDLE)
    leave(s)


def test_below_a_page_keys_of_the_screen_leave_the_draft_alone():
    """Also where an inputrc has others for them, and where they are readline's elsewhere."""
    rc = os.path.join(SCRATCH, "below.rc")
    with open(rc, "w") as out:
        out.write('"\\C-t": moechat-up\n')
    s = chat("turn\necho\n", env=environment(INPUTRC=rc, **XTERM))
    s.keys("hi\r", "tokens/s)")
    s.keys("half a draft\x1bOP", lambda t: "q closes" in t.text() and "> half a draft" in t.text())
    s.send("\x1b[1;3D\x1b[1;3D")
    s.keys("G\x14", lambda t: "> half a draft" in t.text())
    s.keys("q", lambda t: "closes" not in t.text())
    s.keys("Z", "> half a draftZ")
    s.keys("\x15", no_draft)
    leave(s)


def test_over_an_answer_a_slash_begins_a_command():
    s = chat("turn\ntext first part\nhang\nturn\necho\n")
    s.keys("go\r", "first part")
    s.keys("/stats\r", "stats; q closes, Space and b page, / begins a command")
    s.keys("/keys stop\r", " help; q closes")
    expect("search" not in s.text().split("help;")[0].split("\n")[-1], s.text())
    s.keys("/esc\r", "match ")  # the help is searched, as less does
    s.keys("q", "first part")
    s.keys("\x1b", IDLE)
    leave(s)


def test_what_comes_behind_a_quit_is_told():
    state = os.path.join(SCRATCH, "behind")
    env = environment(TERM="linux", MOECHAT_CLOCK="fake", XDG_STATE_HOME=state)
    s = chat("turn\necho\n", env=env)
    s.send("/quit\rsome text\rand more\r")
    same(s.finish(), 0)
    expect(b"Not sent, as it came behind the line that left; the history of the next chat has it (Up):\r\n    some text" in s.output, repr(s.output[-500:]))
    s = chat("turn\necho\n", env=env)
    s.keys("\x1b[A\x1b[A", "and more")
    expect("> some text" in s.text(), s.text())
    s.send("\x15/quit\r\r")
    same(s.finish(), 0)
    expect(b"Not sent" not in s.output, "nothing was")


def test_pages_have_the_keys_of_less():
    s = chat("turn\necho\n")
    s.keys("/help\r", "q closes")
    first = s.text()
    s.keys("j", lambda t: t.text() != first)
    s.keys("k", lambda t: t.text() == first)
    s.keys("\x1b[B", lambda t: t.text() != first)
    s.keys("\x1bOA", lambda t: t.text() == first)
    s.keys("G", "Ctrl-L")
    s.keys("g", lambda t: t.text() == first)
    s.keys(" b", lambda t: t.text() == first)
    s.keys("/rename\r", "match ")
    s.keys("\x1b", "q closes")  # the search's own end
    s.keys("g/saved\r", "match 1 of")
    s.keys("n", "match 2 of")
    s.keys("N", "match 1 of")
    s.keys("q", IDLE)
    expect("q closes" not in s.text(), "it is closed")
    s.keys("/log\r", " log; q closes")  # each is called what it is
    s.keys("q/keys stop\r", " help; q closes")
    s.keys("q", IDLE)
    s.keys("/help\r", "q closes")
    first = s.text()
    for down, up in (("\r", "y"), ("e", "\x10"), ("\x0e", "k"), ("d", "u"), ("\x04", "\x15"), ("\x06", "\x02"), ("z", "w"),
                     (">", "<"), ("\x1b[F", "\x1b[H"), ("\x1b[4~", "\x1b[1~"), ("\x1bOF", "\x1bOH"), ("d", "g")):
        s.keys(down, lambda t: t.text() != first)
        s.keys(up, lambda t: t.text() == first)
    s.keys("G?ctrl\r", "found: n earlier")  # from the end upwards
    back = int(s.text().split("match ")[1].split()[0])
    s.keys("n", "match %d of" % (back - 1))
    s.keys("N", "match %d of" % back)
    s.keys("\x1b[H", lambda t: "/help" in t.text())
    s.keys("\x1b", "q closes")
    s.keys("x5What", "q or Esc closes this page")
    expect("> x" not in s.text(), s.text())
    time.sleep(1.2)  # and are forgotten
    s.keys("\x1b[200~What? \x1b[201~", lambda t: "> What?" in t.text() and "q closes" not in t.text())  # one sees what one writes
    s.keys("j/k q\r", "you \u203a What? j/k q")
    s.keys("/log\r", " log; q closes")
    s.keys("\x04\x04", " log; q closes")
    s.keys("q", IDLE)
    s.keys("\x1bz", lambda t: IDLE not in t.text() or "you" not in t.text())
    s.keys("\x04alive", "> alive")  # nor does it leave where the figures stand in the chat's place
    s.keys("\x15\x1bz", "What?")
    s.keys("draft\x1b#", "> draft")  # readline would send it as "#draft"
    s.send("\x15")
    leave(s)


def test_a_page_eats_nothing_that_came_with_its_command():
    """In one piece, as a paste that is not marked. Behind it, the keys are the page's. Over a network, for a busy machine may
    keep us from sending on for 30 ms."""
    soon = lambda: time.sleep(0.15)
    s = chat("turn\necho\n" * 3, rows=40, env=environment(SSH_CONNECTION="here", **XTERM))
    s.keys("/help\rwhat is a quick fox?\rsecond message\rq jkG", lambda t: "q closes" in t.text() and "> q jkG" in t.text())
    soon()
    s.keys("G", lambda t: "Ctrl-L" in t.text() and t.text().rstrip().endswith("> q jkG"))
    s.keys("q", lambda t: "you \u203a what is a quick fox?" in t.text() and "you \u203a second message" in t.text() and t.text().rstrip().endswith("> q jkG"))
    s.keys("\x15/log\r/help\r" + "word " * 4000 + "end", lambda t: " help; q closes" in t.text() and "word word end" in t.text())
    soon()
    s.keys("q", lambda t: IDLE in t.text() and "word word end" in t.text())
    s.send("\x15")
    leave(s)
    s = chat("turn\ntext first part\nhang\nturn\necho\n")
    s.keys("go\r", "first part")
    s.keys("/stats\rwhat is a cow?\r/sto", lambda t: "stats; q closes" in t.text() and "queued: what is a cow?" in t.text() and "> /sto" in t.text())
    soon()
    s.keys("x", "q or Esc closes this page")
    time.sleep(1.2)
    s.keys("q", lambda t: "first part" in t.text() and t.text().rstrip().endswith("> /sto"))
    s.keys("\x15\x1b", "you \u203a what is a cow?")
    s.until(IDLE)
    leave(s)


def test_a_message_that_is_typed_on_a_page_is_whole():
    """Nobody looks up who types. What would take it apart gives the draft all of it; keys alone, and after a pause, are the page's."""
    s = chat("turn\ntext first part\nhang\n" + "turn\necho\n" * 3)
    s.keys("go\r", "first part")
    over = lambda draft: lambda t: "q closes" not in t.text() and "first part" in t.text() and t.text().rstrip().endswith(draft)
    for typed, draft in (("Is my quick question answered?", "> Is my quick question answered?"), ("either/or", "> either/or"),
                         ("What? Where?", "> What? Where?"), ("Helo\x7flo queen", "> Hello queen"), ("Ab\x1b[DQ", "> AQb"), ("\u00fc q", "> \u00fc q"),
                         ("Is\x1b[A\x1b[Bit q", "> Isit q"),
                         ("Look at \x1b[200~quick\nthat\x1b[201~", "> Look at quick\n  that"),
                         ("what is this\r", "> what is this"), ("jk q", "\n>"), ("jq/keys", "> /keys"),
                         ("S" + "j" * 5000, "j" * 8)):
        s.keys("/stats\r", "stats; q closes")
        time.sleep(0.15)  # not of one piece with it
        s.keys(typed, over(draft))
        expect("queued" not in s.text(), s.text())
        s.keys("\x15" * 3 + "\x0b" + "\x7f" * 3, over("\n>"))
    s.keys("/stats\r", "stats; q closes")
    time.sleep(0.15)
    s.keys("Mr \x1bsXq", over("> Mr Xq"))  # figures go on below the page
    s.keys("\x15" + "\x1bs" * 3, over("\n>"))
    s.keys("half ", "> half")  # it goes where it would without the page
    s.keys("\x1bOP", "help; q closes")
    s.keys("/the \r", "match 1 of")
    s.keys("n", "match 2 of")
    time.sleep(1.2)
    s.keys("Mr q", lambda t: over("> half Mr q")(t) and "page closed: what was typed on it is in the draft" in t.text())
    s.keys("\x1bOP", "help; q closes")
    s.keys("on\r", lambda t: over("> half Mr qon")(t) and "page closed: what was typed on it is in the draft" in t.text())
    s.keys("\r", "queued: half Mr qon")
    s.keys("\x1b", "you \u203a half Mr qon")
    s.until(IDLE)
    s.keys("/log\r", "log; q closes")
    time.sleep(0.15)
    s.keys("Good?\r", "you \u203a Good?")
    s.until(IDLE)
    leave(s)


def test_lines_pasted_into_a_search_are_the_draft():
    """One line is words to search for; several are none, and Esc would take them."""
    s = chat("turn\necho\n")
    s.keys("before ", "> before")
    s.keys("\x1b/", "search")
    s.keys("\x1b[200~one line\x1b[201~", "one line")
    s.keys("\x1b[200~first of three\rsecond\rthird\x1b[201~", lambda t: "> before first of three\n  second\n  third" in t.text() and "search" not in t.text())
    s.keys("\x15\x15\x15", "")
    s.send("\x1b[1;5H\x15" + "\x7f" * 60)
    s.until("> Send a message")
    s.keys("/help\r", "q closes")
    time.sleep(0.15)
    s.keys("/", "Esc ends the search")
    s.keys("\x1b[200~some\rlines\x1b[201~", lambda t: "> some\n  lines" in t.text() and "q closes" not in t.text())
    s.keys("\r", lambda t: "you \u203a some\n" in t.text())
    leave(s)


def test_a_page_leaves_the_draft_alone():
    """Over a draft, and during an answer, the keys are the page's, and what was typed is there when it closes."""
    s = chat("turn\ntext first part\nhang\nturn\necho\n", rows=16)
    s.keys("go\r", "first part")
    s.keys("half a mess", "> half a mess")
    for opens, closes in (("\x1bOP", "q"), ("\x1bOP", "Q"), ("\x1bOP", "\x1bOP"), ("\x1bOP", "\x1b")):
        s.keys(opens, lambda t: " help; q closes, Space and b page, / searches" in t.text() and "> half a mess" in t.text())
        first = s.text()
        for down, up in ((" ", "b"), ("j", "k"), ("\x1b[B", "\x1b[A"), ("\x1b[6~", "\x1b[5~"), ("\r", "y"), ("d", "u")):
            s.keys(down, lambda t: t.text() != first)
            s.keys(up, lambda t: t.text() == first)
        for key in ("\x7f\x17", "\x0f", "\x1br", "\x01", "\x14", "\x12", "\x1b5", "\x18\x15", "\x1bu", "x"):  # nor does it go, or begin to
            s.keys("j", lambda t: "q or Esc closes" not in t.text())
            s.keys(key, lambda t: "q or Esc closes this page" in t.text() and "> half a mess" in t.text())
        time.sleep(1.1)  # the x begins no message
        s.keys("k\x1b[1;3D\x1bs\x1bs\x1bs\x1bs", lambda t: "> half a mess" in t.text())  # the screen's own keys go on
        s.keys("g", lambda t: t.text() == first)
        s.keys(closes, lambda t: "> half a mess" in t.text() and "first part" in t.text() and "closes" not in t.text())
    s.keys("\x1bOP", "q closes")
    s.keys("/the \r", "match 1 of")
    count = int(s.text().split("match 1 of ")[1].split()[0])
    expect(count > 4, s.text())
    s.keys("n", "match 2 of")
    s.keys("j ", "match 2 of")  # other keys of the page end no search
    s.keys("n", "match 3 of")
    s.keys("N", "match 2 of")
    s.keys("?", "Esc ends the search")
    s.keys("the \r", "match ")
    now = int(s.text().split("match ")[1].split()[0])
    s.keys("n", "match %d of" % ((now - 2) % count + 1))  # upwards is on, as in less
    s.keys("kN", "match %d of" % now)
    s.keys("q", lambda t: "> half a mess" in t.text() and "first part" in t.text())
    s.keys("\x1bOP", "q closes")
    s.keys("\x03", lambda t: "first part" not in t.text() and " help; q closes" in t.text() and IDLE in t.text())  # the answer
    s.keys("\x03", lambda t: "> half a mess" in t.text() and "first part" in t.text() and "closes" not in t.text())  # the page
    s.keys("age", "> half a message")
    expect("history" not in s.text(), s.text())
    s.keys("\r", "you \u203a half a message")
    s.until(IDLE)
    s.keys("/keys\r", "q closes")
    s.keys("\x03", lambda t: "half a message" in t.text() and "closes" not in t.text())
    expect("leave" not in s.text(), s.text())
    s.keys("\x03", "Ctrl-D or /quit to leave")
    leave(s)


def test_vi_says_its_mode_and_esc_closes_help_at_one_press():
    s = chat("turn\necho\n", env=environment(INPUTRC=vi_inputrc("vi-mode", SHOWS_MODE), **XTERM))
    s.keys("abc", "(ins)> abc")
    s.keys("\x1b", "(cmd)> abc")
    s.keys("S/help\r", "/sessions")
    s.until("(ins)>")
    s.keys("\x1b", lambda t: "/sessions" not in t.text())
    s.until("(ins)>")  # it was closed, and no more
    s.keys("\x1b", "(cmd)>")
    s.keys("\x1bOP", "/sessions")  # our keys are there in the command mode, too
    s.keys("q", lambda t: "/sessions" not in t.text())
    leave(s)


def test_the_editor_has_the_environment_as_it_was():
    state, pipe = os.path.join(SCRATCH, "own-env"), os.path.join(SCRATCH, "a-pipe")
    os.mkfifo(pipe)
    s = chat("turn\necho\n", env=environment(TERM="linux", MOECHAT_CLOCK="fake", XDG_STATE_HOME=state, INPUTRC=pipe, VISUAL="printf %s $INPUTRC >"))
    s.keys("\x18\x05", "> " + pipe)
    s.send("\x15")
    leave(s)


def test_the_editor_and_standard_error():
    editor = os.path.join(SCRATCH, "editor")
    with open(editor, "w") as out:
        out.write("#!/bin/sh\necho 'from the editor' >> \"$1\"\n")
    os.chmod(editor, 0o700)
    vi = chat("turn\necho\n", env=environment(VISUAL=editor, INPUTRC=vi_inputrc("vi-editor", SHOWS_MODE), **XTERM))
    s = chat("turn\necho\n", env=environment(VISUAL=editor, **XTERM))
    s.keys("typed and ", "typed")
    s.keys("\x18\x05", "from the editor")
    s.keys("\r", "you \u203a typed and")
    s.until(IDLE)
    s.keys("\x1bOP", "help; q closes")
    s.keys("on a page \x18\x05", lambda t: "> on a page from the editor" in t.text() and "q closes" not in t.text())
    s.keys("\x15\x15", "\n>")
    for keys, seen in (("typed and ", "typed and"), ("\x1b", "(cmd)> typed and"), ("v", "from the editor")):
        vi.keys(keys, seen)  # as bash has it
    vi.keys("\x03", lambda t: "from the editor" not in t.text())
    leave(vi)
    with open("/proc/%d/fd/2" % s.process.pid, "a") as err:
        err.write("a driver says \x1b]0;bad\x07\n")
    s.keys("/log\r", "a driver says \u241b")
    s.keys("\x1b", IDLE)
    s.send("\x04")
    same(s.finish(), 0)
    told = s.output[s.output.rfind(b"\x1b[?1049l"):]
    expect("a driver says \u241b]0;bad".encode() in told and b"\n\r\n" not in told, told)  # at the end, and without a line more


def test_where_there_is_no_screen():
    described = os.path.join(SCRATCH, "described")
    subprocess.run(["tic", "-o", described, "-"], input=b"one-row|no cursor that moves,\n\tam, cols#80, cr=^M, ind=^J,\n", check=True)
    for env, words in (({"TERM": "dumb"}, "dumb"), ({"TERM": "one-row", "TERMINFO": described}, "cannot move its cursor"), ({"TERM": "no-such-terminal"}, "has no description (terminfo)"), ({"ACCESSIBLE": "1"}, "ACCESSIBLE"),
                       ({"MOECHAT_PLAIN": "1"}, "--plain")):
        t = Terminal(["--no-session"] + script("turn\necho\n"), env=environment(**env))
        t.wait("Plain lines: ", words, "You:")
        expect(b"\x1b[?1049h" not in t.output, "no screen")
        t.send("hi\r")
        t.wait("Assistant:", "hi\r\n", "You:")
        t.send("\x04")
        same(t.finish(), 0)
        same(t.settings(), t.before)
    for columns, rows in ((65535, 24), (80, 4097)):
        t = Terminal(["--no-session"] + script("turn\necho\n"), columns=columns, rows=rows)
        t.wait("Plain lines: this terminal says that it is larger than any screen", "You:")
        t.send("\x04")
        same(t.finish(), 0)
    for term in ("vt100", "linux", "xterm-256color", "tmux"):
        s = chat("turn\necho\n", env=environment(TERM=term, ACCESSIBLE={"linux": "0"}.get(term, "")))
        s.keys("hi\r", "you")
        leave(s)


def test_no_colour_and_no_locale():
    for env, args, wanted in (({"NO_COLOR": "1"}, [], False), ({}, ["--color=never"], False), ({}, [], True),
                              ({"NO_COLOR": "1"}, ["--color=always"], True)):
        s = chat("turn\necho\n", *args, env=environment(**dict(XTERM, **env)))
        s.keys("hi\r", "tokens/s)")
        leave(s)
        same(bool(re.search(rb"\x1b\[[0-9;]*3[0-7]m", s.output)), wanted)
    for names in (dict(LC_ALL="C"), dict(LC_ALL="", LANG="C")):
        s = chat("turn\necho\n", env=environment(**dict(XTERM, **names)))
        s.keys("\u65e5\u672c\u00e9\x7f!\r", "you \u203a \u65e5")
        leave(s)


def test_the_row_says_no_place_where_a_resize_shows_all():
    s = chat("turn\necho\n", columns=120, rows=40)
    s.keys("/help\r", "at 0 %")
    s.resize(120, 160)
    s.until(lambda t: "Ctrl-L" in t.text() and "q closes" in t.text() and " %" not in t.text().split("q closes")[1])
    s.resize(120, 40)
    s.until("at 0 %")
    s.keys("q", IDLE)
    leave(s)


def test_a_long_draft_in_the_smallest_windows():
    for start in ((1, 1), (80, 24)):
        s = Screen(["--no-session"] + script(ECHO_TURN), columns=start[0], rows=start[1])
        s.until(lambda t: len(t.output) > 0)
        s.resize(80, 24)
        s.until("idle")
        s.keys("\x1b[200~begin \u65e5\u672c\rwith a line\x1b[201~" + "x" * 200, "xx")
        typed = "x" * 200
        for size in list(range(9)) + list(range(9, -1, -1)):
            s.resize(*((size % 3 + 1, size // 3 + 1) if size < 9 else (80, 24)))
            s.read(0.03)
            s.send("ab\x01\x12be\x07\x05\t\x7f")
            typed += "ab"
            s.read(0.03)
        s.resize(400, 24)
        s.until(typed)
        s.send("\r")
        s.until(lambda t: t.text().count(typed) == 2)
        leave(s)


def test_a_resize_storm():
    s = chat(STORY)
    answered(s)
    s.keys("kept", "> kept")
    for i in range(60):
        s.resize(1 + i * 7 % 130, 1 + i * 5 % 50)
        s.read(0.005)
    s.resize(65535, 3)
    s.resize(80, 24)
    s.until("> kept")
    s.golden("after-resizes-80x24")
    s.send("\x15")
    leave(s)


def test_vi_keys():
    s = chat("turn\ntext one\nhang\nturn\necho\n", env=environment(INPUTRC=vi_inputrc("vi"), **XTERM))
    s.keys("go\r", "one")
    s.keys("\x1b", "Esc once more stops it")  # it left insert mode
    s.keys("iabc\x1b", "abc")
    s.keys("0ix\x1b", "> xabc")
    s.keys("\x1b", "Stopped")  # Esc in vi's command mode
    s.keys("A!\x1b\rline\r", "you \u203a xabc!")
    leave(s)


def test_esc_leaves_vis_replace_mode():
    """And stops no answer by that."""
    s = chat("turn\ntext one\nhang\n", env=environment(INPUTRC=vi_inputrc("vi-replace", SHOWS_MODE), **XTERM))
    s.keys("go\r", "one")
    s.keys("base text\x1b", "(cmd)> base text")
    s.keys("0RXY", "(ins)> XYse text")  # as bash says it
    s.keys("\x1b", "(cmd)> XYse text")
    s.keys("x", "(cmd)> Xse text")
    s.keys("u", "(cmd)> XYse text")
    s.keys("u", "(cmd)> base text")
    expect("Stopped" not in s.text(), s.text())
    s.keys("\x1b", "Stopped")
    s.send("\x03")
    leave(s)


def test_what_vi_does_again_waits_for_no_character():
    s = chat("turn\necho\n", env=environment(INPUTRC=vi_inputrc("vi-again"), **XTERM))
    s.keys("abc\x1b", "> abc")
    s.keys("0rx", "> xbc")
    s.keys("l.", "> xxc")
    s.keys("\x1b", "> xxc")
    s.keys("x", "> xc")  # of no key that Esc began
    s.send("\x03")
    leave(s)


def test_ctrl_d_in_a_draft_of_vi_sends_it():
    """As in a shell: readline has it so."""
    s = chat("turn\necho\nturn\necho\n", env=environment(INPUTRC=vi_inputrc("vi-eof"), **XTERM))
    s.keys("one\x04", lambda t: "you \u203a one" in t.text() and IDLE in t.text())
    s.keys("two\x1b", "> two")
    time.sleep(0.2)  # else Esc begins a key
    s.keys("\x04", lambda t: "you \u203a two" in t.text() and IDLE in t.text())
    leave(s)


def test_vi_begins_in_insert_mode_behind_ctrl_c():
    """As bash does. A draft that stays, as what stops is an answer, stays in its mode."""
    env = environment(INPUTRC=vi_inputrc("vi-interrupt", SHOWS_MODE), **XTERM)
    s = chat("turn\ntext one\nhang\nturn\necho\n", env=env)
    s.keys("abc\x1b", "(cmd)> abc")
    s.keys("\x03", lambda t: t.text().endswith("(ins)>"))
    s.keys("\x1b", "(cmd)>")
    s.keys("\x03", lambda t: t.text().endswith("(ins)>"))  # and without a draft
    s.keys("abc\x1b", "(cmd)> abc")
    s.keys("Rx", "> abx")  # readline has a keymap of its own for that
    s.keys("\x03", lambda t: t.text().endswith("(ins)>"))
    s.keys("hello\x1b[D\x1b[D", "(ins)> hello")
    s.keys("XYZ", "(ins)> helXYZlo")
    s.keys("\x03", lambda t: t.text().endswith("(ins)>"))
    s.keys("go\r", "one")
    s.keys("abc\x1b", "(cmd)> abc")
    s.keys("\x03", lambda t: "Stopped" in t.text() and "(cmd)> abc" in t.text())
    s.keys("S/edit\r", "(ins)> go")
    s.keys("\x1b", "(cmd)> go")
    s.keys("\x03", lambda t: t.text().endswith("(ins)>"))
    leave(s)
    t = Screen(["--plain", "--no-session"] + script("turn\necho\n"), env=env)
    t.until("(ins)You:")
    t.keys("abc\x1b", "(cmd)You: abc")
    t.keys("\x03", lambda t: t.text().rstrip().endswith("(ins)You:"))
    t.keys("abc\x1b", "(cmd)You: abc")
    t.keys("Rx", "You: abx")
    t.keys("\x03", lambda t: t.text().rstrip().endswith("(ins)You:"))
    t.keys("wor\x1b[Dds\x1b[C", lambda t: t.text().rstrip().endswith("(ins)You: wodsr"))
    t.keys("\r", "Assistant: wodsr")
    t.send("\x04")
    same(t.finish(), 0)


def test_vi_searches_by_typed_words_and_moves_by_rows():
    s = chat("turn\necho\nturn\necho\n", env=environment(INPUTRC=vi_inputrc("vi-search", SHOWS_MODE), **XTERM))
    s.keys("a cat sat\r", "tokens/s)")
    s.keys("draft\x1b", "(cmd)> draft")
    s.keys("\x1b/cat\r", "match 2 of 2")
    s.keys("\x1b", "(cmd)> draft")  # as it was left
    s.keys("\x1b", lambda t: "match" not in t.text())
    s.keys("\x1b/\r", "match 2 of 2")  # the same once more, as in less and vi
    s.keys("\x1b/nowhere\r", "not found: nowhere")
    s.keys("x", "(cmd)> draf")
    expect("draft" not in s.text(), s.text())
    s.keys("S\x1b", lambda t: "(cmd)>" in t.text() and "draf" not in t.text())
    s.keys("\x1bOP", "q closes")
    s.keys("/undo\r", "match 1 of")
    s.keys("q", IDLE)
    s.keys("ione\x1b\rtwo\x1b\rthree\x1b", "three")
    s.keys("kkx", lambda t: "> on\n" in t.text())
    s.keys("jx", lambda t: " tw\n" in t.text())
    s.keys("kk", "> a cat sat")  # above it is the history
    s.keys("j", "three")
    s.keys("S", lambda t: "three" not in t.text())
    leave(s)


def test_vi_searches_long_lines_at_once():
    """By patterns, as readline has it, each of these takes five seconds."""
    state = tempfile.mkdtemp(dir=SCRATCH)
    os.mkdir(os.path.join(state, "moechat"))
    with open(os.path.join(state, "moechat", "history"), "w") as out:
        out.write("the one with a fox\n" + "".join("%d%s\n" % (i, "long " * 12000) for i in range(8)))
    s = chat("turn\necho\n", env=environment(INPUTRC=vi_inputrc("vi-long", SHOWS_MODE), XDG_STATE_HOME=state, **XTERM))
    s.keys("draft\x1bS\x1b", "(cmd)>")
    s.keys("/a fox\r", "> the one with a fox")
    s.keys("n", lambda t: True)
    with open("/proc/%d/stat" % s.process.pid) as stat:
        ticks = sum(map(int, stat.read().rsplit(")", 1)[1].split()[11:13]))
    expect(ticks < 5 * os.sysconf("SC_CLK_TCK"), "no pattern is tried at each letter: %d ticks" % ticks)
    s.keys("S\x1b", lambda t: "fox" not in t.text())
    leave(s)


def test_vi_lives_with_a_draft_that_ends_within_a_character():
    """readline 8.2 never came back from E and *, and no stop was heard."""
    for keys in "0E", "0*":
        s = chat("turn\necho\n", env=environment(INPUTRC=vi_inputrc("vi-cut", SHOWS_MODE), **XTERM))
        s.send(b"\xf0\x9f\xf0\x9f")  # two beginnings; the second one proves that the first is none
        s.keys("\x1b", "(cmd)>")
        s.send(keys)
        s.keys("\x1b", "(cmd)>")  # from the insertion that * begins
        s.keys("Sand on\x1b", "> and on")
        s.keys("S\x1b", lambda t: "and on" not in t.text())
        leave(s)


def test_vi_searches_among_edited_lines():
    """The draft and a line of the history had one list of what can be undone, which readline 8.2 freed twice."""
    for end in ("", "/nosuch\r\x0e", "n\x10n\x0eN", "/sa\x07k", "/one\ru/save\ruu"):
        state = tempfile.mkdtemp(dir=SCRATCH)
        os.mkdir(os.path.join(state, "moechat"))
        with open(os.path.join(state, "moechat", "history"), "w") as out:
            out.write("one\nsave two\nthree\n")
        env = environment(INPUTRC=vi_inputrc("vi-edits", SHOWS_MODE), XDG_STATE_HOME=state, GLIBC_TUNABLES="glibc.malloc.perturb=165", **XTERM)
        s = chat("turn\necho\n" * 2, env=env)
        s.keys("draft\x1b", "(cmd)> draft")
        s.keys("\x1b[A\x1b[Ax", "(cmd)> hree")
        s.keys("/save\r", "(cmd)> save two")
        s.keys("x", "(cmd)> ")
        s.send("\x1b[Ax" + end + "x\r")
        s.until(lambda t: t.text().count("\u25c6") == 1 and IDLE in t.text())
        s.keys("alive\r", lambda t: t.text().count("\u25c6") == 2 and IDLE in t.text())
        leave(s)


def test_keys_within_a_search_and_macros():
    """Each of these ended readline 8.2 when it was given to it as it is."""
    s = chat("turn\necho\n")
    s.keys("some text\r", "tokens/s)")
    for text, keys, then in (("", "\x12\x18e", ""), ("", "\x12te\x18e", ""), ("", "\x12\x1b[A", ""),
                             ("", "\x18(\x18e\x18)\x18e", ""), ("", "\x18\x03", "/quit to leave"),
                             ("draft", "\x1b3\x18\x03", "moved to the history")):
        s.keys(text, text)
        s.keys(keys, then)  # a signal and what is typed beside it may overtake each other
        s.send("\x05\x15")
        s.keys("alive", "> alive")
        s.send("\x15")
    leave(s)


def test_copying_and_the_wheel_are_asked_for():
    words = "turn\n" + "text line\ntoken \\n\n" * 60 + "text last\n"
    s = chat(words, env=environment(**XTERM))
    answered(s, "go")
    s.keys("\x1bw", "copying is off")
    expect(b"\x1b]52" not in s.output and b"\x1b[?1000h" not in s.output, "nothing was sent, the mouse is the terminal's")
    leave(s)
    s = chat(words, "--clipboard", "--mouse", env=environment(**XTERM))
    answered(s, "go")
    s.keys("\x1bw", "bytes copied")
    sent = re.search(rb"\x1b\]52;c;([A-Za-z0-9+/=]*)\x1b.", s.output).group(1)
    same(base64.b64decode(sent), b"line\n" * 60 + b"last")
    s.keys("\r", lambda t: "bytes copied" not in t.text())
    s.keys("/copy\r", "304 bytes copied")  # said by a command as by the key, and it stays
    s.keys("\x1b[<64;3;3M" * 3, lambda t: "last" not in t.text())
    s.keys("\x1b[<65;3;3M" * 3, "last")
    leave(s)


if __name__ == "__main__":
    main(globals())
