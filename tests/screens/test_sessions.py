#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Conversations that come back: with a script in the model's place, and once with the demo model."""
import ctypes
import ctypes.util
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time

from rig import *

ECHO = "turn\necho\n"
STORE = os.path.join(SCRATCH, "data", "moechat", "sessions")
DEMO = os.environ.get("MOECHAT_DEMO", os.path.join(ROOT, "models", "demo"))


def chat(text, *args, **more):
    terminal = Terminal(["--plain"] + script(text) + list(args), **more)
    terminal.wait("\x1b[1mYou:")  # the prompt, not a message that is shown again
    return terminal


def leave(terminal):
    terminal.send("\x04")
    same(terminal.finish(), 0)
    same(terminal.settings(), terminal.before)


def ask(text, *args):
    """One message to a session; the JSON that comes back."""
    result = run(["run", "--json", "-p", text] + list(args))
    same(result.returncode, 0)
    return json.loads(result.stdout)


ABC = "turn\necho\ntoken -a\nturn\necho\ntoken -b\nturn\necho\ntoken -c\n"


def lines(name, *typed, status=0):
    """What a chat of plain lines has to say to these; and how many tokens it read for its prompts."""
    result = run(["--plain", "--session", name] + script(ABC), stdin="".join(line + "\n" for line in typed + (() if "/stats" in typed else ("/stats",))).encode(), together=True)
    same((typed, result.returncode), (typed, status))
    said = result.stdout.decode()
    return said, int((re.search("since start      ([0-9]+) tokens read", said) or re.search("read \\(prefill\\) +([0-9]+) tokens", said)).group(1))


def wait_saved(name, records):
    """Waits until a session has so many records of rows."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        found = json.loads(run(["sessions", "list", "--json"]).stdout)["sessions"]
        for session in found:
            if session["name"] == name and os.path.exists(os.path.join(STORE, name, "session.json")):
                with open(os.path.join(STORE, name, "session.json")) as file:
                    if len(json.load(file)["kv"]["records"]) >= records:
                        return
        time.sleep(0.02)
    raise AssertionError("%s was not saved: %r" % (name, found))


def names():
    return [s["name"] for s in json.loads(run(["sessions", "list", "--json"]).stdout)["sessions"]]


def test_a_talk_comes_back():
    t = chat(ECHO)
    t.send("One two\r")
    t.wait("One two\r\n", "You:")
    time.sleep(0.3)  # so that the turn has been saved before we leave
    leave(t)
    name = [n for n in names() if n.endswith("-one-two")][0]
    expect(("Saved as \"%s\"" % name).encode() in t.output, "it says under which name")
    t = chat(ECHO, "--continue", columns=200)
    t_output = t.output.decode()
    for words in ('Session "%s"' % name, "2 messages", "tokens", "just now", "model fake", "Nothing needs to be read again",
                  "You: One two", "Assistant: One two"):
        expect(words in t_output, "%r is not said: %r" % (words, t_output))
    t.send("three\r")
    t.wait("three\r\n", "You:")
    leave(t)
    got = ask("x", "--session", name, *script(ECHO))
    # begin, role, 7 bytes, end, role | 7, end | role, 5, end, role | 5, end
    same((got["session"], got["cached_tokens"], got["prefilled_tokens"]), (name, 11 + 8 + 8 + 6, 4))


def test_kill_9_loses_nothing():
    t = chat("turn\necho\nturn\ntext half an\nhang\n", "--session", "killed")
    t.send("first\r")
    t.wait("first\r\n", "You:")
    wait_saved("killed", 2)
    t.send("second\r")
    t.wait("half an")
    t.process.kill()
    t.finish()
    t = chat(ECHO, "--session", "killed", columns=200)
    expect(b"You: second" in t.output and b"No answer to this message yet" in t.output, "saved before its answer: %r" % t.output)
    t.send("/retry\r")
    t.wait("You: second", "second\r\n", "You:")
    leave(t)
    got = ask("x", "--session", "killed", *script(ECHO))
    same((got["cached_tokens"], got["prefilled_tokens"]), (1 + 8 + 6 + 9 + 7, 4))


def test_a_read_error_keeps_what_was_said():
    t = chat("turn\ntext half an\nerror layer 3, expert 7: read failed\nturn\necho\n", "--session", "failed")
    t.send("first\r")
    t.wait("half an", "read failed", "What it said is kept; /retry answers anew.", "You:")
    t.send("/retry\r")
    t.wait("first\r\n", "You:")
    leave(t)
    out = run(["sessions", "tree", "failed"]).stdout
    expect(b"half an" in out, "both answers are there: %r" % out)
    result = run(["run", "--session", "stays", "-p", "x"] + script("turn\ntext half an\nerror disk\n"))
    same((result.returncode, result.stdout), (1, b"half an"))
    t = chat(ECHO, "--session", "stays", columns=200)
    expect(b"Assistant: half an" in t.output, "a stopped answer: %r" % t.output)
    t.send("/undo\r")
    t.wait("You:")
    leave(t)


def test_what_is_read_again_before_a_message_without_an_answer():
    for name, typed_line in (("unread-new", "new"), ("unread-retry", "/retry")):
        for words in ("one one", "two two"):
            ask(words, "--session", name, *script(ECHO))
        same(run(["run", "-p", "three", "--session", name] + script("turn\nerror disk\n")).returncode, 1)
        os.remove(os.path.join(STORE, name, "kv.bin"))
        said = lines(name, typed_line)[0]
        expect("its KV cache is missing; your next message reads 37 of its 45 tokens again, /retry 45." in said, "said: %r" % said)
        expect("(Read 37 earlier tokens again.)" in said, "its own were never read: %r" % said)


def test_a_retry_that_fails_leaves_the_message_without_an_answer_on_disk_too():
    name = "retry-fails"
    ask("hello", "--session", name, "--kv-cap", "0", *script(ECHO))
    t = Terminal(["--plain", "--session", name, "--kv-cap", "0"] + script("turn\nerror disk\nturn\necho\n"))
    t.wait("You:")
    t.send("/retry\r")
    t.wait("disk", "You:")
    leave(t)
    expect(run(["sessions", "show", name]).stdout.endswith(b"You: hello\n"), run(["sessions", "show", name]).stdout)
    said = lines(name, "/tree")[0]
    expect("Assistant: hello" in said, "the answer is another branch: %r" % said)


def test_retry_prefills_nothing():
    t = chat("turn\necho\n", "--session", "retry")
    t.send("abc\r")
    t.wait("abc\r\n", "You:")
    leave(t)
    t = chat("turn\necho\n", "--session", "retry")
    t.send("/retry\r")
    t.wait("You: abc", "Assistant:", "abc\r\n", "You:")
    t.send("/stats\r")
    t.wait("read (prefill)   0 tokens", "You:")
    t.send("/retry\r")
    t.wait("You: abc", "Assistant:", "abc\r\n", "You:")
    t.send("/stats\r")
    t.wait("read (prefill)   0 tokens", "You:")
    leave(t)


def test_retry_after_load_knows_nothing_of_the_other_talk():
    """Two talks whose messages end at the same token: kept logits belong to one of them."""
    ask("aaa", "--session", "other", *script(ECHO))
    t = chat(ECHO, "--session", "here", columns=200)
    t.send("bbb\r")
    t.wait("bbb\r\n", "You:")
    t.send("/load other\r")
    t.wait("Nothing needs to be read again", "You: aaa", "You:")
    t.send("/retry\r")
    t.wait("You: aaa", "Assistant:", "aaa\r\n", "You:")
    leave(t)


def test_signals_save():
    for number, status in ((signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGQUIT, 131)):
        name = "signal-run-%d" % number
        t = Terminal(["run", "-p", "go", "--session", name] + script("turn\ntext partial answer\nhang\n"))
        t.wait("partial answer")
        t.process.send_signal(number)
        same((number, t.finish()), (number, status))
        expect(b"You: go\nAssistant: partial answer\n" in run(["sessions", "show", name]).stdout, "saved by run: %d" % number)
        name = "signal-%d" % number
        t = chat("turn\ntext partial answer\nhang\n", "--session", name)
        t.send("go\r")
        t.wait("partial answer")
        t.process.send_signal(number)
        same(t.finish(), status)
        shown = run(["sessions", "show", name]).stdout
        expect(b"You: go\nAssistant: partial answer\n" in shown, "saved: %r" % shown)
        same(ask("x", "--session", name, *script(ECHO))["cached_tokens"], 6 + 3)


def test_signals_that_come_twice_save():
    """A shell whose terminal closes tells the chat, and so does the system; timeout tells it and its group."""
    for number, status in ((signal.SIGTERM, 143), (signal.SIGHUP, 129)):
        for pause in (0, 0.001, 0.003, 0.01, 0.03):
            for begun in ("run", "chat"):
                name = "twice-%s-%d-%d" % (begun, number, 1000 * pause)
                if begun == "run":
                    t = Terminal(["run", "-p", "go", "--session", name] + script("turn\ntext partial answer\nhang\n"))
                else:
                    t = chat("turn\ntext partial answer\nhang\n", "--session", name)
                    t.send("go\r")
                t.wait("partial answer")
                t.process.send_signal(number)
                time.sleep(pause)
                t.process.send_signal(number)
                same((name, t.finish()), (name, status))
                same(ask("x", "--session", name, *script(ECHO))["cached_tokens"], 6 + 3)


def test_ctrl_c_and_limits_save():
    t = chat("turn\ntext partial answer\nhang\n", "--session", "stopped")
    t.send("go\r")
    t.wait("partial answer")
    t.interrupt()
    t.wait("Stopped", "You:")
    leave(t)
    same(ask("x", "--session", "stopped", *script(ECHO))["cached_tokens"], 6 + 3)
    same(run(["run", "-p", "go", "--session", "limit", "--max-tokens", "2"] + script("turn\nrepeat 9 ab\n")).stdout, b"abab")
    same(ask("x", "--session", "limit", *script(ECHO))["cached_tokens"], 6 + 3)


def test_a_stopped_message_is_saved_when_one_leaves():
    t = chat("turn\nprefill 60000\n", "--session", "unread")
    stop_while_read(t, "go")
    t.send("/stats\r")
    t.wait("context          0 of 4096 tokens (6 with the message that waits), 1 message", "You:")
    t.send("/quit\r")
    t.wait("Your last message is saved without an answer; /retry answers it.", 'Saved as "unread"')
    same(t.finish(), 0)
    t = chat(ECHO, "--session", "unread", columns=200)
    t.send("/stats\r")
    t.wait("context          0 of 4096 tokens (6 with the message that waits), 1 message", "You:")  # as before
    expect(b"But its last message was not answered: 6 of its 6 tokens are unread." in t.output, t.output)
    expect(b"You: go\r\n" in t.output and b"No answer to this message yet" in t.output, t.output)
    t.send("/retry\r")
    t.wait("You: go", "Assistant:", "go\r\n", "You:")
    expect(b"earlier token" not in t.output, t.output)  # they are its own, and were never read
    leave(t)
    expect(run(["sessions", "show", "unread"]).stdout.endswith(b"You: go\nAssistant: go\n"), "it is answered")


def test_a_stopped_message_is_the_last_one_everywhere():
    """What is stopped while it is read stays, with what was read of it, whatever is done to send it again or otherwise."""
    long, more = "word " * 60 + "end", "turn\nprefill 40\n" * 9

    def read(t):
        t.send("/stats\r")
        t.wait("read (prefill)", "You:")
        return int(re.findall("read \\(prefill\\) +([0-9]+) tokens", t.output.decode())[-1])

    def faces(t, name):
        t.send("/stats\r")
        t.wait("context", "You:")
        context, waiting, messages = re.findall("context +([0-9]+) of [0-9]+ tokens(?: \\(([0-9]+) with the message that waits\\))?, "
                                                "([0-9]+) messages?", t.output.decode())[-1]
        expect(not waiting or int(context) < int(waiting), t.output)
        t.send("/tree\r")
        t.wait("* 1  You: word", "You:")
        session = [s for s in json.loads(run(["sessions", "--json"]).stdout)["sessions"] if s["name"] == name][0]
        same([str(session[key]) for key in ("tokens", "message_count")], [waiting or context, messages])
        same((session["message_count"], session["taken_back"], session["branch_count"]), (1, 0, 1))
        expect("* 1  You: word" in run(["sessions", "tree", name]).stdout.decode(), "the same tree")

    for name, keys in (("as-it-is", ()), ("undone", ("/undo", "/redo")), ("redone", ("/redo",)), ("edited", ("/undo", "/edit 1", "/redo"))):
        t = chat(more, "--session", name, columns=200)
        stop_while_read(t, long)
        expect(b"/edit changes it" in t.output, t.output)
        faces(t, name)
        for key in keys:
            t.send(key + "\r")
            t.wait("\r\n", "You:")
            time.sleep(0.1)
        expect(b"your next" not in t.output and b"not kept here" not in t.output, t.output)
        part = read(t)
        faces(t, name)
        t.send("/retry\r")
        t.wait("You: word", "Assistant:", "You:")
        total = read(t)
        expect(0 < part < total, (part, total))
        same(total, len(long) + 4)  # nothing was read twice
        leave(t)
        same(run(["sessions", "rm", name]).returncode, 0)


def test_a_stopped_message_is_edited():
    t = chat("turn\nprefill 60000\nturn\necho\n", "--session", "better", columns=120)
    stop_while_read(t, "go")
    t.send("/edit come\r")
    t.wait("Assistant:", "come\r\n", "You:")
    t.send("/tree\r")
    t.wait("  1    You: go", "* 2    You: come", "You:")
    leave(t)
    same(run(["sessions", "rm", "better"]).returncode, 0)


def test_the_list_is_cut_between_words():
    name = "a-name-of-some-length"
    lines(name, "one")
    t = Terminal(["sessions"], columns=44)
    same(t.finish(), 0)
    rows = t.output.decode().split("\r\n")
    expect(max(map(len, rows)) <= 44, rows)
    at = rows.index(name)
    expect(all(row.startswith("    ") for row in rows[at + 1:at + 4]) and rows[at + 3].strip() == "one", rows)
    listed = next(line for line in run(["sessions"]).stdout.decode().splitlines() if line.startswith(name))  # in a pipe whole
    same(rows[at + 1].strip() + " " + rows[at + 2].strip(), listed[len(name):].strip())
    same(run(["sessions", "rm", name]).returncode, 0)


def test_a_dash_is_no_file():
    said = run(["--plain", "--no-session"] + script(ECHO), b"hi\n/export json -\n", cwd=SCRATCH, together=True).stdout.decode()
    expect("/export writes a file; ./- is one of that name" in said and not os.path.exists(os.path.join(SCRATCH, "-")), said)


def test_a_message_that_waits_is_told_of():
    t = chat("turn\nprefill 60000\n", "--session", "waits")
    stop_while_read(t, "go")
    leave(t)
    listed = run(["sessions"]).stdout.decode()
    expect(re.search(r"waits .*, 1 message, the last unanswered, 6 tokens", listed), listed)
    result = run(["run", "-p", "x", "--session", "waits"] + script(ECHO))
    expect(b"has no answer; this one takes its place" in result.stderr and b"your next message" not in result.stderr, result.stderr)


def test_a_stopped_message_that_was_gone_back_to_is_told_of():
    t = chat("turn\necho\nturn\nprefill 60000\n", "--session", "back-to", columns=120)
    t.send("one\r")
    t.wait("Assistant:", "one\r\n", "You:")
    stop_while_read(t, "go")
    t.send("/undo\r")
    t.wait("/redo brings it back", "You:")
    t.send("/redo\r")
    t.wait("You: go", "You:")
    t.send("/quit\r")
    t.wait("Your last message is saved without an answer; /retry answers it.", 'Saved as "back-to"')
    same(t.finish(), 0)
    t = chat("turn\necho\n", "--session", "back-to", columns=120)
    t.send("/undo\r")
    t.wait("/redo brings it back", "You:")
    t.send("/quit\r")
    t.wait('Saved as "back-to"')
    same(t.finish(), 0)
    expect(b"without an answer" not in t.output, "the last one has one")


def test_what_does_not_fit_is_not_saved():
    ask("a" * 60, "--session", "big", *script(ECHO))
    said = run(["--plain", "--session", "big"] + script("name other\ncontext 50\n" + ECHO), b"hi\n/quit\n", together=True).stdout.decode()
    expect('But it was saved with different weights or settings (a script), so "big" stays as it is, and this goes on as "big-2"; the conversation\'s 125 '
           "tokens do not fit into a context of 50" in said, said)
    expect("Saved as" not in said and 'Nothing was added, and nothing saved as "big-2"' in said, said)
    expect(b"big-2" not in run(["sessions"]).stdout, "and so it is")


def test_a_message_is_saved_before_it_is_read():
    t = chat("turn\nprefill 60000\n", "--session", "sent")
    t.send("go\r")
    end = time.monotonic() + DEADLINE
    while b"You: go" not in run(["sessions", "show", "sent"]).stdout:
        expect(time.monotonic() < end, "it is not there")
    t.interrupt()
    t.wait("the message stays", "You:")
    t.process.kill()  # after it was stopped
    t.finish()
    t = chat("turn\nprefill 60000\n", "--session", "sent")
    expect(b"You: go\r\n" in t.output and b"No answer to this message yet" in t.output, t.output)
    t.send("instead\r")
    time.sleep(0.3)
    t.process.kill()  # and while another one is read in its place
    t.finish()
    expect(run(["sessions", "show", "sent"]).stdout.endswith(b"You: instead\n"), "the newer one")
    t = chat(ECHO, "--session", "sent")
    t.send("/retry\r")
    t.wait("You: instead", "Assistant:", "instead\r\n", "You:")
    leave(t)


def test_a_system_message_is_saved_before_anything_is_said():
    t = chat(ECHO, columns=200)
    t.send("/system Be kind.\r")
    t.wait("Done.", "You:")
    t.send("/quit\r")
    t.wait("Saved as ")
    same(t.finish(), 0)
    name = t.output.decode().split('Saved as "')[1].split('"')[0]
    same(run(["sessions", "export", name, "txt"]).stdout, b"System: Be kind.\n")
    t = chat(ECHO, "--session", name, columns=200)
    expect(b'"%s": 1 message,' % name.encode() in t.output, t.output)
    t.send("/system\r")
    t.wait("System message: Be kind.", "You:")
    t.send("/system Be brief.\r")
    t.wait("Done.", "You:")
    t.process.kill()
    t.finish()
    t = chat(ECHO, "--session", name)
    t.send("one\r")
    t.wait("Assistant:", "one\r\n", "You:")
    t.send("/system Be long.\r")
    t.wait("Done; with your next message the whole conversation is read again, and this", "You:")
    t.send("/quit\r")
    t.wait("The system message that you set is not saved: no message followed it.", "Saved as ")
    same(t.finish(), 0)
    same(run(["sessions", "export", name, "txt"]).stdout, b"System: Be brief.\n\nYou: one\n\nAssistant: one\n")
    got = ask("x", "--session", name, *script(ECHO))
    expect(got["prefilled_tokens"] == 4, "nothing is read again: %r" % got)
    t = chat(ECHO)  # in a new talk the name is still that of the first message
    t.send("/system Be kind.\r")
    t.wait("Done.", "You:")
    t.send("Hello there\r")
    t.wait("Assistant:", "Hello there", "You:")
    t.send("/quit\r")
    t.wait("-hello-there")
    same(t.finish(), 0)
    for one in names():
        if one == name or one.endswith("-hello-there"):
            run(["sessions", "rm", one])


def test_where_nothing_can_be_written_no_session_stays():
    for args in (["run", "--session", "no-room", "-p", "x"], ["run", "--session", "no-room", "--system", "s", "-p", "x"]):
        got = subprocess.run(["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", PROGRAM] + args + script(ECHO), stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), timeout=DEADLINE)
        expect(got.returncode == 1 and b"File too large" in got.stderr, got)
        expect("no-room" not in os.listdir(os.path.join(SCRATCH, "data", "moechat", "sessions")), "an empty one is left")
    before = set(os.listdir(os.path.join(SCRATCH, "data", "moechat", "sessions")))
    got = subprocess.run(["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", PROGRAM, "--plain"] + script(ECHO), input=b"one\n",
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), timeout=DEADLINE)
    expect(b"File too large" in got.stderr + got.stdout, got)
    same(set(os.listdir(os.path.join(SCRATCH, "data", "moechat", "sessions"))), before)


def test_nothing_said_is_nothing_kept():
    run(["--plain", "--session", "said"] + script(ECHO), stdin=b"one\n")
    before = names()
    t = chat(ECHO)
    t.send("/system Be kind.\r")
    t.wait("Done.", "You:")
    same(len(names()), len(before) + 1)
    t.send("/load said\r")
    t.wait("Assistant:", "one\r\n", "You:")
    same(names(), before)
    t.send("/new\r")
    t.wait('kept as "said"', "You:")
    t.send("/system Be brief.\r")
    t.wait("Done.", "You:")
    t.send("/new\r")
    t.wait("New conversation.\x1b[0m\r\n", "You:")
    same(len(names()), len(before) + 1)  # the system message goes along, the session without a name does not
    t.send("/system\r")
    t.wait("System message: Be brief.", "You:")
    t.send("/system Be long.\r")
    t.wait("Done.", "You:")
    t.send("/save mine\r")
    t.wait('saved as "mine"', "You:")
    t.send("/load said\r")  # what was named stays
    t.wait("Assistant:", "one\r\n", "You:")
    leave(t)
    same(sorted(names()), sorted(before + ["mine"]))
    for one in ("said", "mine"):
        same(run(["sessions", "rm", one]).returncode, 0)


def test_what_new_takes_along_is_saved_before_the_next_command():
    run(["--plain", "--session", "said"] + script(ECHO), stdin=b"one\n")
    said, made = said_by("/system Be brief.", "/new", "/load said")
    expect("model fake. Nothing needs to be read again.\n" in said, said)  # /load is answered by its own news
    same(made, [])
    same(run(["sessions", "rm", "said"]).returncode, 0)


def test_what_new_takes_along_is_saved_though_one_leaves_at_once():
    t = chat(ECHO, "--session", "leaves")
    t.send("hi\r")
    t.wait("hi\r\n", "You:")
    t.send("/system Be brief.\r")
    t.wait("You:")
    before = names()
    t.send("/new\r\x04")
    same(t.finish(), 0)
    made = [name for name in names() if name not in before]
    same(len(made), 1)
    expect(b"System: Be brief." in run(["sessions", "show", made[0]]).stdout, made)
    for one in made + ["leaves"]:
        same(run(["sessions", "rm", one]).returncode, 0)
    said, made = said_by("a", "b", "/undo", "c", "/system -", "/tree", "/tree 1", args=("--system", "S"))
    expect("* 1  System: S" in said and "That message is in the conversation as it is" in said, said)  # a star is what it says
    same(run(["sessions", "rm", made[0]]).returncode, 0)


def test_a_run_that_is_stopped_while_rows_are_read_back_sends_nothing():
    run(["--plain", "--session", "back"] + script(ECHO), stdin=b"one\n")
    before = run(["sessions", "export", "back", "json"]).stdout
    for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGQUIT, 131)):
        process = subprocess.Popen([PROGRAM, "run", "--json", "-p", "x", "--session", "back"] + script("restore 3000\n" + ECHO), env=environment(),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(0.5)
        process.send_signal(number)
        out, err = process.communicate(timeout=DEADLINE)
        same((process.returncode, out, err), (status, b"", b""))
        same(run(["sessions", "export", "back", "json"]).stdout, before)
    same(run(["sessions", "rm", "back"]).returncode, 0)


def test_a_system_message_by_itself_is_the_same_everywhere():
    """Its time, and whether it is one of the conversation's messages, one of a branch's, or none yet."""
    path = os.path.join(SCRATCH, "lone.json")
    run(["--plain", "--session", "lone"] + script(ECHO), stdin=b"/system Be brief.\n/export json %s\n" % path.encode())
    written, exported = json.load(open(path)), json.loads(run(["sessions", "export", "lone", "json"]).stdout)
    expect(written["messages"][0]["time"] > 0, written)
    same(written["messages"], exported["messages"])
    os.remove(path)
    t = chat("turn\nprefill 2000\ntext here\n", "--session", "lone")
    t.send("hi\r")
    time.sleep(0.3)
    t.interrupt()
    t.wait("Stopped", "You:")
    t.send("/export json %s\r" % path)
    t.wait("lone.json", "You:")
    leave(t)
    written, exported = json.load(open(path)), json.loads(run(["sessions", "export", "lone", "json"]).stdout)
    same((written["messages"], written["branches"]), (exported["messages"], []))
    same(exported["branches"], [])
    listed = [s for s in json.loads(run(["sessions", "--json"]).stdout)["sessions"] if s["name"] == "lone"][0]
    same((listed["message_count"], listed["branch_count"], listed["branch_bytes"]), (2, 1, 0))
    same(run(["sessions", "rm", "lone"]).returncode, 0)
    for args in ((), ("--no-session",)):
        said, made = said_by("/stats", "/tree", "x", "/stats", "/system B", "/stats", "/tree", "/system -", "/stats", "/tree", "y", "/stats",
                             args=("--system", "A") + args)
        same([line.split(" tokens, ")[1] for line in said.split("\n") if line.startswith("  context ")],
             ["0 messages"] + ["3 messages"] + ["3 messages; your next message reads everything again"] * 2 + ["4 messages"])
        expect("Nothing was said yet." in said and said.count("* 1  System: A\n* 2  You: x\n* 3  Assistant: x\n* is the") == 2, said)
        for one in made:
            same(run(["sessions", "rm", one]).returncode, 0)


def said_by(*typed, args=(), status=0):
    """What a chat of plain lines says to these, and the names of the sessions that it makes."""
    before = set(names())
    result = run(["--plain", *args] + script("turn\necho\n" * 9), stdin="".join(line + "\n" for line in typed).encode(), together=True)
    same((typed, result.returncode), (typed, status))
    return result.stdout.decode(), sorted(set(names()) - before)


def test_a_name_that_was_given_stays():
    said, made = said_by("/system Be a pirate", "/save sysy", "hi there")
    expect('saved as "sysy"' in said, said)
    same(made, ["sysy"])
    said, made = said_by("/system Be a pirate", "hi there", "/save named2", "hello")
    expect('Each turn is saved as "named2"' in said and 'Saved as "named2"' in said, said)
    same(made, ["named2"])
    both = [said_by("/system Be a pirate", "Ahoy matey")[1][0] for _ in range(2)]  # the same name is wanted twice
    expect(both[0].endswith("-ahoy-matey") and both[1].endswith("-ahoy-matey-2"), both)
    for one in ["sysy", "named2"] + both:
        same(run(["sessions", "rm", one]).returncode, 0)


LOST = "The system message that you set is not saved: no message followed it."


def test_a_system_message_that_waits_is_lost_by_no_way():
    said, _ = said_by("other", args=("--session", "way-b"))
    saved = ("--session", "way-a")
    for typed, wanted, n_lost in (
            (("one", "two", "/system A pirate.", "/undo", "/redo", "/system"), "System message: A pirate.", 1),
            (("/undo 9", "/system A pirate.", "/redo", "/redo", "/system"), "System message: A pirate.", 1),
            (("/retry", "/system A pirate.", "/tree 2", "/system"), "System message: A pirate.", 1),
            (("/system A pirate.", "/system -", "/tree 1"), "That message is in the conversation", 0),
            (("/system A pirate.", "/load way-b", "/system"), "No system message.", 1),
            (("/system A pirate.", "/fork fork-a", "four", "/tree"), "You: four", 0),
            (("/system -", "/undo 9", "/redo 9", "/system"), "No system message.", 0)):
        said, made = said_by(*typed, args=saved, status=int("/fork fork-a" in typed))
        expect(wanted in said, "%r: %s" % (typed, said))
        same((typed, said.count(LOST)), (typed, n_lost))
        same((typed, said.count("That the system message was removed is not saved")), (typed, int("/system -" in typed and "/redo 9" in typed)))
        if "/fork fork-a" in typed:
            expect("Not yet: the system message changed, and with it the whole conversation; your next message has it read, then /fork." in said, said)
            same(made, [])
    tree = run(["sessions", "tree", "way-a"]).stdout.decode()
    same(tree.count("System: A pirate."), 1)
    expect(re.search(r"\* +[0-9]+ +System: A pirate", tree) and re.search(r"\* +[0-9]+ +You: four", tree), tree)
    said, _ = said_by("one", "/system A.", "/save x", args=("--no-session",), status=1)
    expect("then /save." in said, said)
    for one in ("way-a", "way-b"):
        same(run(["sessions", "rm", one]).returncode, 0)


def test_a_system_message_that_goes_along_with_new_is_saved_at_once():
    """It is in no other session, whether it waits there or nothing else was said."""
    for typed in (["one", "/system A pirate.", "/new"], ["/system A pirate.", "/new"], ["/system A pirate.", "/new", "/new"]):
        data = tempfile.mkdtemp(dir=SCRATCH)
        result = run(["--plain"] + script(ABC), "".join(line + "\n" for line in typed).encode(), env=environment(XDG_DATA_HOME=data))
        same(result.returncode, 0)
        found = json.loads(run(["sessions", "list", "--json"], env=environment(XDG_DATA_HOME=data)).stdout)["sessions"]
        alone = [session["name"] for session in found if session["message_count"] == 1]
        same((typed, len(alone), len(found)), (typed, 1, 1 + ("one" in typed)))
        same(run(["sessions", "tree", alone[0]], env=environment(XDG_DATA_HOME=data)).stdout, b"* 1  System: A pirate.\n")


def test_what_is_said_behind_two_news_is_saved():
    for begin in (["/system A", "one"], ["one"]):
        said, made = said_by(*begin, "/new", "/new", "two", args=[] if "/system A" in begin else ["--system", "A"])
        expect("not saved" not in said, said)
        same(sum(run(["sessions", "tree", name]).stdout.decode().count("You: two") for name in made), 1)


def test_stats_and_sessions_count_the_same_messages():
    for system in ([], ["--system", "Be brief."]):
        for typed in (["/system A pirate."], ["one"], ["one", "/system A pirate."], ["one", "/system -"], ["one", "/system A pirate.", "two"],
                      ["one", "/undo"], ["one", "two", "/system A pirate.", "/undo"]):
            said, _ = said_by(*typed, "/stats", "/sessions", args=["--session", "sum"] + system)
            counts = re.findall(r"tokens, (\d+) messages?\b", said) + re.findall(r"\bsum +[^,]*, (\d+) messages?\b", said)
            same((system, typed, len(counts), len(set(counts))), (system, typed, 2, 1))
            same(run(["sessions", "rm", "sum"]).returncode, 0)


def test_a_system_message_behind_one_that_waits_is_in_each_figure():
    s = Screen(["--session", "behind-waiting"] + script("turn\necho\nturn\nprefill 60000\nturn\nprefill 60000\nturn\necho\n"), columns=120, rows=110)
    s.until("Type /help")
    s.keys("hello\r", "tokens/s)")
    s.keys("go on\r", "reading prompt")
    s.keys("\x1b", "Stopped before the answer; the message stays")
    s.keys("/stats\r", "context          15 of 4096 tokens (23 with the message that waits), 3 messages")
    s.keys("/system new\r", "with your next message the whole conversation is read again")
    anew = "context          0 of 4096 tokens, %d messages; your next message reads everything again"
    for keys, words, messages in (("", "", 3), ("/undo\r", "Took back 1", 2), ("/redo\r", "you \u203a go on", 3)):
        s.keys(keys, words)
        time.sleep(0.3)  # what follows is done while the worker is busy, or behind that
        s.keys("/stats\r", lambda t: t.text().split("/stats\n")[-1].count(anew % messages) and " context 0 of 4096 " in t.text())
    s.keys("/retry\r", "reading prompt")
    s.keys("/stats\r", " tokens, 4 messages\n")  # with the system's, which is sent with it
    found = [s for s in json.loads(run(["sessions", "list", "--json"]).stdout)["sessions"] if s["name"] == "behind-waiting"][0]
    same(found["message_count"], 4)
    s.keys("q\x1b", "Stopped")
    s.send("\x04")
    same(s.finish(), 0)


def test_a_system_message_that_nobody_spoke_behind_goes_along():
    """So it is no branch, in no list; and is not left behind either where the chat was another."""
    for again in (False, True):
        name, begin = "alone-%d" % again, ("/system A", "Hello", "/undo", "/system B")
        said, _ = lines(name, *begin, *(() if again else ("/redo",)))
        if again:
            said, _ = lines(name, "/redo")
        expect("The system message that you set is not saved: no message followed it." in said, said)
        about = [s for s in json.loads(run(["sessions", "list", "--json"]).stdout)["sessions"] if s["name"] == name][0]
        same((about["message_count"], about["branch_count"], about["branch_bytes"]), (3, 1, 0))
        tree = "* 1  System: A\n* 2  You: Hello\n* 3  Assistant: Hello-a\n"
        same(run(["sessions", "tree", name]).stdout.decode(), tree)
        said, _ = lines(name, "/system B", "/undo", "Hi", "/tree")
        expect("  1    System: A\n" in said and "* 4    System: B\n* 5    You: Hi\n" in said, said)


def test_a_system_message_whose_first_message_failed_is_there_once():
    out = [os.path.join(SCRATCH, "export-%d.json" % n) for n in range(2)]
    model = ["--plain", "--session", "failed-first"] + script("turn\nerror disk\nturn\necho\n")
    run(model, b"/system A\nhi\nho\n/export json %s\n" % out[0].encode())
    run(model, b"/export json %s\n" % out[1].encode())
    with open(out[0]) as first, open(out[1]) as second:
        same(first.read(), second.read())


def test_a_first_message_that_failed_is_changed_behind_the_system_message():
    failing = script("turn\nerror disk\n" + "turn\necho\n" * 5)
    for typed in (("same", "/edit 1 other", "more"), ("same", "/retry", "/edit 1 other", "more"), ("same", "/undo", "other", "more")):
        result = run(["--plain", "--session", "changed-first", "--system", "S"] + failing, "".join(line + "\n" for line in typed).encode(), together=True)
        said = result.stdout.decode()
        same((typed, "Assistant: other" in said, "Assistant: more" in said, "past the end" in said), (typed, True, True, False))
        tree = run(["sessions", "tree", "changed-first"]).stdout.decode()
        expect(re.search(r"\* +1 +System: S\n", tree) and tree.count("System: S") == 1 and re.search(r"\* +[0-9]+ +You: more\n", tree), tree)
        same(run(["sessions", "rm", "changed-first"]).returncode, 0)


def test_what_was_said_to_another_system_message_stays():
    said, _ = said_by("hi there", "/system Talk like a pirate", "hello", "/tree", args=("--session", "sy", "--system", "Be brief."))
    for wanted in ("  1    System: Be brief.", "  2    You: hi there", "* 4    System: Talk like a pirate", "You: hello"):
        expect(wanted in said, "%r is missing in %s" % (wanted, said))
    tree = run(["sessions", "tree", "sy"]).stdout.decode()
    expect(tree.count("hi there") == 4 and tree.count("System: ") == 2, tree)
    same(run(["sessions", "compact", "sy"]).returncode, 0)
    same(run(["sessions", "tree", "sy"]).stdout.decode(), tree)
    said, _ = said_by("/tree 1", "/system", args=("--session", "sy"))
    expect("System message: Be brief." in said, said)
    said, _ = said_by("/system -", "again", "/tree", args=("--session", "sy"))
    expect(said.count("System: ") == 2 and "You: again" in said, said)
    same(run(["sessions", "rm", "sy"]).returncode, 0)


def test_a_message_without_room_for_an_answer_stays():
    """Saved with more room than there is now; it is not answered beyond the end of the context."""
    message = "a message that is somewhat long and unanswered here yes"
    t = chat("turn\nprefill 60000\n", "--session", "no-room")
    t.send(message + "\r")
    time.sleep(0.3)
    t.send("\x03")
    t.wait("Stopped", "You:")
    leave(t)
    tree = run(["sessions", "tree", "no-room"]).stdout
    for room, more in ((40, ", and no room for one; a"), (59, ", and no room for one; a"), (60, ", and no room for one; a")):
        t = chat("context %d\n" % room + ECHO, "--session", "no-room", columns=300)
        expect("No answer to this message yet%s new message replaces it." % more in t.output.decode(), t.output)
        t.send("/retry\r")
        t.wait("Not answered: the conversation up to this message has 59 tokens of %d, which leaves no room for an answer; it stays, /edit changes it, "
               "/undo takes back messages, /new starts over, --context makes more room." % room, "You:")
        leave(t)
        same(run(["sessions", "tree", "no-room"]).stdout, tree)
    t = chat("context 61\n" + ECHO, "--session", "no-room", columns=300)  # a token and the one that closes it, as below
    expect("No answer to this message yet: /retry answers it, a new message replaces it." in t.output.decode(), t.output)
    leave(t)
    t = chat("context 40\n" + ECHO, "--session", "no-room")
    t.send("/retry\r")
    t.wait("Not answered", "You:")
    t.send("/edit short\r")
    t.wait("short", "short", "Version 2 of 2", "You:")
    leave(t)
    t = chat("context 61\n" + ECHO, "--session", "no-room")
    t.send("/tree 1\r")
    t.wait(message, "You:")
    t.send("/retry\r")
    t.wait("Assistant:", "a\r\n", "Stopped: the context is full", "context 61 of 61", "You:")
    leave(t)
    same(run(["sessions", "rm", "no-room"]).returncode, 0)


def test_what_a_full_disk_does_not_compact_is_saved_all_the_same():
    t = chat(ECHO * 3, "--session", "no-disk")
    for text in ("one\r", "/edit 1 two\r"):
        t.send(text)
        t.wait("tokens/s", "You:")
    leave(t)
    for verb, words in (("compact", b"not compacted: "), ("prune", b"not pruned: ")):
        got = subprocess.run(["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", PROGRAM, "sessions", verb, "no-disk"], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, env=environment(), timeout=DEADLINE)
        same((got.returncode, words in got.stderr or b"cannot compact: " in got.stderr, b"not saved" in got.stderr), (1, True, False))
    expect(b"two" in run(["sessions", "show", "no-disk"]).stdout, "it is as it was")
    same(run(["sessions", "rm", "no-disk"]).returncode, 0)


def test_what_has_no_room_takes_nothing_back():
    """A message that is said or answered again, with more room than there is now."""
    long, short = "x" * 80, "Not sent: the message is too long: "
    t = chat("context 120\n" + ECHO * 3, "--session", "takes", columns=300)
    for message in ("Hello", "Again", "a third that is longer"):
        t.send(message + "\r")
        t.wait(message, message, "You:")
    leave(t)
    tree, shown = (run(["sessions", command, "takes"]).stdout for command in ("tree", "show"))
    for words, said in (("/edit 1 " + long, short + "29 of 90 tokens are used and this message needs 85 more; a shorter one fits, /undo takes back messages, "),
                        ("/edit 2 " + long + "y", short + "15 of 90 tokens are used and this message needs 86 more; "),
                        ("/edit 3 " + long + "yyyyyy", short + "it needs 92 tokens of 90; a shorter one fits, --context makes more room.")):
        t = chat("context 90\n" + ECHO, "--session", "takes", columns=300)
        t.send(words + "\r")
        t.wait(said, "Nothing was taken back.", "You:")
        t.send("/tree\r")
        t.wait("* 6", "longer", "You:")
        leave(t)
        same([run(["sessions", command, "takes"]).stdout for command in ("tree", "show")], [tree, shown])
    t = chat("context 90\n" + ECHO * 2, "--session", "takes", columns=300)
    t.send("/edit 1\r")  # the same with the message as the draft
    t.wait("Took back 1", "a third that is longer")
    t.send(long + "\r")
    t.wait(short, "Nothing was taken back.", "You:")
    t.send("/edit 1 short\r")  # and then it means what is there
    t.wait("short", "short", "Version 2 of 2", "You:")
    t.send("/tree 5\r")
    t.wait("a third that is longer", "You:")
    leave(t)
    tree, shown = (run(["sessions", command, "takes"]).stdout for command in ("tree", "show"))
    for room in (30, 54, 55):
        t = chat("context %d\n" % room + ECHO, "--session", "takes", columns=300)
        t.send("/retry\r")
        t.wait("Not answered: the conversation up to this message has 54 tokens of %d, which leaves no room for an answer; its answer stays, "
               "/undo takes back messages, /new starts over, --context makes more room." % room, "You:")
        leave(t)
        same([run(["sessions", command, "takes"]).stdout for command in ("tree", "show")], [tree, shown])
    same(run(["sessions", "rm", "takes"]).returncode, 0)


def test_a_stopped_message_stays_as_a_branch():
    for more in ((), ("--system", "Be kind.")):
        t = chat("turn\necho\nturn\nprefill 60000\nturn\nprefill 60000\nturn\nprefill 60000\nturn\necho\n", "--session", "stopped", *more, columns=120)
        t.send("first\r")
        t.wait("Assistant:", "first\r\n", "You:")
        if more:  # what is stopped is the first of all
            t.send("/undo\r")
            t.wait("Took back", "You:")
        for text in ("river", "river", "lake"):  # stopped, sent again and stopped, another one and stopped
            stop_while_read(t, text)
        t.send("other\r")
        t.wait("Assistant:", "other\r\n", "You:")
        t.send("/tree\r")
        t.wait("You: other", "goes to the branch", "You:")
        tree = t.output.decode()[t.output.decode().rindex("/tree\r"):]
        same([tree.count("You: " + word) for word in ("river", "lake", "other")], [1, 1, 1])
        leave(t)
        tree = run(["sessions", "tree", "stopped"]).stdout.decode()
        same([tree.count("You: " + word) for word in ("river", "lake", "other")], [1, 1, 1])
        numbers = sorted(int(n) for n in re.findall("^[* ] +([0-9]+) ", tree, re.M))
        same(numbers, list(range(1, len(numbers) + 1)))  # whatever came to nothing in between
        number = re.search("([0-9]+) +You: river", tree).group(1)
        t = chat("turn\necho\n", "--session", "stopped", columns=120)
        t.send("/tree %s\r" % number)
        t.wait("You: river", "You:")
        t.send("/retry\r")
        t.wait("Assistant:", "river\r\n", "You:")
        leave(t)
        tree = run(["sessions", "tree", "stopped"]).stdout.decode()
        same([tree.count("You: " + word) for word in ("river", "lake", "other")], [1, 1, 1])
        same(run(["sessions", "rm", "stopped"]).returncode, 0)


def test_pipes_hold_nothing_up():
    pipe = os.path.join(SCRATCH, "pipe")
    os.mkfifo(pipe)
    result = run(["--plain", "--no-session"] + script(ECHO), ("hi\n/export %s\n/file %s x\nlast\n" % (pipe, pipe)).encode())
    said = (result.stdout + result.stderr).decode()
    expect("cannot write %s: nobody reads that pipe" % pipe in said and "Not sent: %s: it is no regular file." % pipe in said and "last" in said, said)
    t = chat(ECHO, env=environment(INPUTRC=pipe))
    for device in ("/dev/tty", "/dev/ptmx", "/dev/stdin"):
        t.send("/file %s x\r" % device)
        t.wait("Not sent: %s: it is no regular file." % device, "You:")
    leave(t)
    expect(b"pipe: is a pipe; not read" in t.output, t.output)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # which never reads
    result = run(["--plain", "--no-session"] + script("context 100000\n" + ECHO), ("x" * 40000 + "\n/export %s\nlast\n" % pipe).encode())
    said = (result.stdout + result.stderr).decode()
    expect("cannot write %s: the reader of that pipe has stopped reading" % pipe in said and "last" in said, said[-500:])
    os.close(reader)
    os.remove(pipe)


def test_an_export_is_the_same_in_the_chat_and_in_the_shell():
    path = os.path.join(SCRATCH, "talk.json")
    t = chat(ABC, "--session", "told", "--seed", "7", "--temp", "0.5")
    for line, wanted in (("one", "one-a"), ("/retry", "one-b"), ("two", "two-c"), ("/undo", "Took back"), ("/export json " + path, "Wrote"),
                         ("/redo", "two-c"), ("/system be", "Done"), ("three", "three-a")):
        t.send(line + "\r")
        t.wait(line, wanted, "You:")
    with open(path) as file:
        told = json.load(file)
    wanted = [("user", None), ("assistant", 7)]
    same([(m["role"], m.get("seed")) for m in told["messages"]], wanted)
    t.send("/export json " + path + "\r")
    t.wait("exists already", "You:")
    t.send("/export json " + path + "\r")
    t.wait("Wrote", "You:")
    t.send("/fork twin\r")
    t.wait('saved as "twin"', "You:")
    leave(t)
    with open(path) as file:
        same(file.read(), run(["sessions", "export", "told", "json"]).stdout.decode())
    told, twin = (json.loads(run(["sessions", "export", name, "json"]).stdout)["messages"] for name in ("told", "twin"))
    known = [[(m["text"], m["time"], m.get("seed"), m.get("temp"), m.get("stop_reason")) for m in messages] for messages in (told, twin)]
    same(known[0], known[1])  # of what was read again for the new system message, too
    expect(all(m[1] > 1700000000 for m in known[0]), "times: %r" % known[0])
    same([m[2:] for m in known[0] if m[4]], [(7, 0.5, "end"), (8, 0.5, "end"), (9, 0.5, "end")])


def test_single_undos_count_and_come_back_together():
    for text in ("A", "B", "C"):
        ask(text, "--session", "steps", *script(ECHO))
    back = lambda: [(s["message_count"], s["taken_back"]) for s in json.loads(run(["sessions", "--json"]).stdout)["sessions"] if s["name"] == "steps"][0]
    lines("steps", "/undo", "/undo", "/undo", "/undo", status=1)
    same(back(), (0, 6))
    expect("0 messages, 6 taken back (/redo)" in run(["sessions"]).stdout.decode(), "in the list")
    said, read = lines("steps", "/redo")
    same(back(), (2, 4))
    said, read = lines("steps", "/redo 2", "/undo", "/undo", "/redo 9")  # over two runs
    expect("Brought back 2; no more was taken back here." in said, said)
    same(back(), (6, 0))
    expect("Brought back" not in lines("steps", "/undo 3", "/redo 3")[0], "all that were asked for came")
    same(back(), (6, 0))


def test_a_branch_ends_where_one_last_spoke():
    for name, there in (("spoke-1", ("/undo", "/redo")), ("spoke-99", ("/undo 99", "/redo 99"))):
        said = lines(name, "one", "/edit 1 two", "three", *there, "four", "/tree 1", "/tree 3")[0].split("You: two")[-1]
        expect("You: three" in said and "You: four" in said and "/redo" not in said, "in one process: %r" % said)
        lines(name, "/tree 1")
        said = lines(name, "/tree 3", "/undo 2", "/redo")[0].split("You: two")[-1]
        expect("You: four" in said.split("Took back")[0], "in another: %r" % said)
        expect("You: four" not in said.split("Took back")[1] and "1 more follows; /redo brings it back." in said, "in part: %r" % said)


def test_an_edit_that_is_left_open_changes_nothing():
    whole = lambda: [m["text"] for m in json.loads(run(["sessions", "export", "edited", "json"]).stdout)["messages"]]
    for text in ("one", "two"):
        ask(text, "--session", "edited", *script(ECHO))
    for leaves in ("/quit", "term", "kill"):
        t = chat(ECHO, "--session", "edited", columns=120)
        t.send("/edit 2\r")
        t.wait("Took back 2 of your messages", "You:", "one")
        t.process.kill() if leaves == "kill" else t.process.terminate() if leaves == "term" else t.send("\x15/quit\r")
        if leaves != "kill":
            t.wait("The edit was given up; the conversation is as it was before.", 'Saved as "edited"')
        same(t.finish(), {"/quit": 0, "term": 143, "kill": -9}[leaves])
        same(whole(), ["one", "one", "two", "two"])
    t = chat(ECHO, "--no-session", columns=120)
    t.send("one\r")
    t.wait("tokens/s", "You:")
    t.send("/edit\r")
    t.wait("Took back 1 of your messages", "You:", "one")
    t.send("\x15/quit\r")
    same(t.finish(), 0)
    expect(b"given up" not in t.output, "nothing is saved, so nothing is as it was")
    said, read = lines("edited", "/undo", "/edit 1 ONE")  # while what is sent is no edit any more
    expect("given up" not in said, said)
    same(whole()[:2], ["ONE", "ONE-a"])


def test_a_name_that_it_has_is_no_error():
    said, read = lines("named", "one", "/save named", "/rename named")
    same(said.count('Each turn is saved as "named".'), 2)
    expect("already exists" not in said, said)


def test_an_undone_conversation_is_no_empty_one():
    for text in ("one", "two"):
        ask(text, "--session", "undone", *script(ECHO))
    said, read = lines("undone", "/undo 9")
    listed = run(["sessions"]).stdout.decode().split("\n")[0]
    expect(listed.startswith("undone  just now, 0 messages, 4 taken back (/redo), 2 branches, 0 tokens, "), "listed: %r" % listed)
    said = run(["--plain", "--no-session"] + script(ECHO), stdin=b"/sessions\n").stdout.decode()
    expect("4 taken back (/redo), 2 branches, 0 tokens" in said and "\n    two\n" in said, "in the chat: %r" % said)
    session = [s for s in json.loads(run(["sessions", "--json"]).stdout)["sessions"] if s["name"] == "undone"][0]
    same((session["message_count"], session["taken_back"], session["branch_count"], session["last_message"]), (0, 4, 2, "two"))
    lines("undone", "other", "/tree 4", "/undo 9")
    session = [s for s in json.loads(run(["sessions", "--json"]).stdout)["sessions"] if s["name"] == "undone"][0]
    same((session["taken_back"], session["branch_count"], session["last_message"]), (4, 3, "two"))
    said, read = lines("undone", "/redo 9")  # as it said, though another one is newer
    expect("You: two" in said and "You: other" not in said, "said: %r" % said)
    lines("undone", "/undo 9")
    said, read = lines("undone", "/redo 1")
    expect('Session "undone": 0 messages, 4 taken back (/redo), 3 branches, 0 tokens' in said, "on opening: %r" % said)
    expect(", 2 messages, 2 taken back (/redo), 3 branches, " in run(["sessions"]).stdout.decode(), "in part")
    said = run(["sessions", "compact", "undone"]).stdout.decode()
    expect("undone: 2 other branches, " in said, "it counts as the list does: %r" % said)
    said = run(["sessions", "prune", "undone"]).stdout.decode()
    expect("removed 2 other branches, " in said, "said: %r" % said)
    expect("undone  just now, 2 messages, 11 tokens" in run(["sessions"]).stdout.decode(), "one branch is not told of")


def test_one_branch_is_pruned_with_its_text():
    lines("one-other", "one", "/undo", "two")
    said = run(["sessions", "prune", "one-other"]).stdout
    expect(re.search(rb"one-other: removed 1 other branch, [0-9.]+ K?B with its text\n", said), said)


def test_a_pipe_deletes_without_being_asked():
    ask("x", "--session", "unasked", *script(ECHO))
    done = run(script(ECHO) + ["--plain", "--no-session"], stdin=b"/delete unasked\n", together=True)
    expect(b"Deleted." in done.stdout and "unasked" not in names(), done.stdout)


def test_undo_is_saved():
    t = chat(ECHO, "--session", "undo")
    for text in ("one", "two", "three"):
        t.send(text + "\r")
        t.wait(text + "\r\n", "You:")
    t.send("/undo 2\r")
    t.wait("Took back 2", "You:")
    leave(t)
    expect(run(["sessions", "show", "undo"]).stdout.endswith(b"You: one\nAssistant: one\n"), "two turns are gone")
    got = ask("x", "--session", "undo", *script(ECHO))
    same((got["cached_tokens"], got["prefilled_tokens"]), (1 + 6 + 4, 4))
    t = chat(ECHO, "--session", "undo")
    t.send("/undo 9\r")
    t.wait("Took back 2 of your messages; there were no more", "/redo 2", "brings them", "You:")
    leave(t)
    t = chat(ECHO, "--session", "undo")  # another process still knows all of it, with its rows
    t.send("/redo 9\r")
    t.wait("You: one", "Assistant: one", "You: x", "Assistant: x", "You:")
    t.send("/redo\r")
    t.wait("Nothing to bring back", "You:")
    t.send("/undo\r")
    t.wait("Took back 1", "You:")
    t.send("four\r")
    t.wait("four\r\n", "You:")
    t.send("/stats\r")
    t.wait("7 tokens", "You:")  # of all that nothing but this message
    t.send("/undo 9\r")
    t.wait("there were no more", "You:")
    leave(t)
    t = chat(ECHO, "--session", "undo")
    expect(b'Session "undo": 0 messages' in t.output, "it is no new one")
    leave(t)


def test_branches_stay_and_are_gone_to():
    said, read = lines("tree", "one", "/retry", "two", "/edit zwei", "/tree", "/edit", "/edit 3 x", "/edit 0 x", "/tree 9", "/tree 0", status=1)
    expect("(Answer 2 of 2; /tree lists them.)" in said and "(Version 2 of 2 of this message; /tree lists them.)" in said, "said: %r" % said)
    expect("* 1  You: one\n  2    Assistant: one-a\n* 3    Assistant: one-b\n  4      You: two\n  5      Assistant: two-c\n"
           "* 6      You: zwei\n* 7      Assistant: zwei-a\n" in said, "the tree: %r" % said)
    expect("/edit takes the new text here: /edit 1 TEXT." in said and said.count("No such message to edit") == 2, "said: %r" % said)
    same(said.count("No such message; /tree lists them"), 2)
    same(read, 7 + 6 + 7)  # of the prompts alone
    said, read = lines("tree", "/tree 2", "/tree 5", "/tree 7", "/tree 7", "/undo 9", "/redo", "/redo 9", "three")
    same(read, 3 + 5)  # in another process, too
    for words in ("You: one\nAssistant: one-a\n(Answer 1 of 2;", "You: one\nAssistant: one-b\n(Answer 2 of 2; /tree lists them.)\nYou: two\n",
                  "You: zwei\n(Version 2 of 2 of this message; /tree lists them.)\nAssistant: zwei-a\n", "in the conversation as it is", "Assistant: three-a"):
        expect(words in said, "%r is not said: %r" % (words, said))
    expect("tokens again" not in said, "nothing is read again: %r" % said)
    kv = os.path.getsize(os.path.join(STORE, "tree", "kv.bin"))
    said, read = lines("tree", "/fork tree", "/fork leaf", "four", "/load tree", "/tree 2", "/fork", status=1)
    same(read, 7)
    expect('"tree" stays as it is, /load returns to it. Each turn is now saved as "leaf".' in said, "said: %r" % said)
    expect(os.path.getsize(os.path.join(STORE, "tree", "kv.bin")) == kv, "nobody touched its rows")
    expect(run(["sessions", "show", "leaf"]).stdout.endswith(b"You: three\nAssistant: three-a\nYou: four\nAssistant: four-a\n"), "it goes on there")
    t = run(["sessions", "tree", "tree"]).stdout.decode()
    expect(t.startswith("* 1  You: one\n* 2    Assistant: one-a\n  3    Assistant: one-b\n"), "the tree: %r" % t)
    expect(b", 2 messages, 3 branches, 12 tokens, " in run(["sessions"]).stdout, "it is listed with its branches")
    text = run(["sessions", "export", "tree", "txt"]).stdout.decode()
    for words in ("You: one\n\nAssistant: one-a\n\n--- Another branch, after \"one\"\n\nAssistant: one-b\n\nYou: two\n\nAssistant: two-c\n",
                  "--- Another branch, after \"one-b\"\n\nYou: zwei\n"):
        expect(words in text, "%r is not in %r" % (words, text))
    got = json.loads(run(["sessions", "export", "tree", "json"]).stdout)
    same([(m["part"], m["after"]) for m in got["messages"] + got["branches"]],
         [(0, None), (1, 0), (2, 0), (3, 2), (4, 3), (5, 2), (6, 5), (7, 6), (8, 7)])
    result = run(["sessions", "compact", "tree"]).stdout.decode()
    expect("tree: 2 other branches, " in result and "kept; moechat sessions prune tree removes them" in result, "said: %r" % result)
    same(os.path.getsize(os.path.join(STORE, "tree", "kv.2.bin")), kv)  # nothing was dead
    result = run(["sessions", "prune", "tree"]).stdout.decode()
    expect(" -> 48 B\ntree: removed 2 other branches, " in result, "said: %r" % result)
    same(run(["sessions", "tree", "tree"]).stdout.decode(), "* 1  You: one\n* 2  Assistant: one-a\n")
    same(run(["sessions", "prune"]).returncode, 2)
    said, read = lines("leaf", "five")
    same(read, 7)  # all of it was saved
    said, read = lines("leaf", "/system be", "six")
    expect(read > 60, "all of it is read again")
    said, read = lines("leaf", "/undo 3", "/redo 3", "/tree")
    same(read, 0)
    expect("(Version" not in said, "what was fed otherwise is no other message: %r" % said)


def test_what_was_saved_later_or_forked_is_answered_again_without_a_token():
    """The logits after the last message go with it."""
    model = ["--plain", "--model", DEMO, "--device", "ref", "--temp", "0", "--max-tokens", "4"]
    for begins, typed in (("--no-session",), "My name is Ada.\nWhat is my name?\n/save later\n"), (("--session", "forks"), "My name is Ada.\n/fork forked\n"):
        same(run([*model, *begins], stdin=typed.encode()).returncode, 0)
        name = typed.split()[-1]
        said = run([*model, "--session", name], stdin=b"/retry\n", together=True).stdout.decode()
        expect("Nothing needs to be read again." in said and "(Answer 2 of 2" in said and "(Read " not in said, said)
        same(run(["sessions", "rm", name]).returncode, 0)
    same(run(["sessions", "rm", "forks"]).returncode, 0)


def test_without_a_session_branches_are_read_again():
    said = run(["--plain", "--no-session"] + script(ABC), stdin=b"one\n/retry\ntwo\n/tree 2\n/tree 5\nthree\n/fork x\n/save\n/tree 2\n/quit\n", together=True).stdout.decode()
    expect("This conversation is not saved; your next message reads 2 of its 12 tokens again" in said, "said: %r" % said)
    expect("reads 13 of its 23 tokens again" in said and "This conversation is not saved; /save saves it." in said, "said: %r" % said)
    name = said.split('Each turn is now saved as "')[1].split('"')[0]
    expect(name[15:].startswith("-one"), "named by its first message: %r" % name)
    expect("(Read 13 earlier tokens again.)" in said, "as was announced: %r" % said)
    expect(said.count("your next message reads") == 3, "its text was saved, not the rows of what is elsewhere: %r" % said)
    said, read = lines(name, "/tree")
    expect("* 2    Assistant: one-a\n  3    Assistant: one-b\n  4    You: two" in said, "the tree: %r" % said)


def test_commands():
    t = chat(ECHO, columns=200)
    t.send("/save\r")
    t.wait("Nothing to save yet", "You:")
    t.send("/system Be kind.\r")
    t.wait("Done.", "You:")
    t.send("one\r")
    t.wait("one\r\n", "You:")
    t.send("/save first\r")
    t.wait('saved as "first"', "You:")
    t.send("/new\r")
    t.wait("old one is kept", "You:")
    t.send("two\r")
    t.wait("two\r\n", "You:")
    t.send("/rename first\r")
    t.wait("already", "You:")
    t.send("/rename second\r")
    t.wait('saved as "second"', "You:")
    t.send("/rename ../../etc\r")
    t.wait("invalid session name", "You:")
    t.send("/sessions\r")
    t.wait("second (open)  just now, 3 messages", "first  just now, 3 messages", "You:")
    t.send("/load second\r")
    t.wait("the conversation you are in", "You:")
    t.send("/delete second\r")
    t.wait("/new first", "You:")
    t.send("/load nowhere\r")
    t.wait("no session", "You:")
    t.send("/load first\r")
    t.wait('Session "first": 3 messages', "Nothing needs to be read again", "You: one", "You:")
    for _ in range(2):  # a question, which another line takes back
        t.send("/delete second\r")
        t.wait('Session "second": 3 messages', "/delete second once more deletes it for good.", "You:")
        t.send("/stats\r")
        t.wait("tokens", "You:")
    expect("second" in names(), "nothing is deleted yet")
    t.send("/delete second\r")
    t.wait("once more deletes it", "You:")
    t.send("/delete second\r")
    t.wait("Deleted.", "You:")
    t.send("three\r")
    t.wait("three\r\n", "You:")
    leave(t)
    same("second" in names(), False)
    text = run(["sessions", "export", "first", "txt"]).stdout
    same(text, b"System: Be kind.\nYou: one\nAssistant: one\nYou: three\nAssistant: three\n".replace(b"\nYou", b"\n\nYou").replace(b"\nAssistant", b"\n\nAssistant"))


def test_what_is_deleted_is_what_was_told_of():
    ask("hello", "--session", "announced", *script(ECHO))
    ask("a story", "--session", "another", *script(ECHO))
    ask("a fox", "--session", "another", *script(ECHO))
    t = chat(ECHO, columns=200)
    t.send("/delete announced\r")
    t.wait('Session "announced": 2 messages', "/delete announced once more deletes it for good.", "You:")
    same(run(["sessions", "rm", "announced"]).returncode, 0)
    same(run(["sessions", "rename", "another", "announced"]).returncode, 0)
    t.send("/delete announced\r")
    t.wait('Not deleted: session "announced" has changed meanwhile.', 'Session "announced": 4 messages', "/delete announced once more deletes it for good.", "You:")
    ask("more", "--session", "announced", *script(ECHO))
    t.send("/delete announced\r")
    t.wait("Not deleted", 'Session "announced": 6 messages', "/delete announced once more", "You:")
    expect("announced" in names(), "nothing is deleted that was not told of")
    t.send("/delete announced\r")
    t.wait("Deleted.", "You:")
    leave(t)
    same("announced" in names(), False)


def test_a_loaded_conversation_thinks_as_asked():
    t = chat("thinks\nturn\ntext why</think>said\n")
    t.send("/think on\r")
    t.wait("thinks first", "You:")
    t.send("one\r")
    t.wait("Thinking:", "why", "Assistant:", "said", "You:")
    t.send("/save thought\r")
    t.wait("You:")
    t.send("/new\r")
    t.wait("You:")
    t.send("/load thought\r")
    t.wait("You: one", "You:")
    t.send("two\r")
    t.wait("two\r\n", "Thinking:", "why", "Assistant:", "said", "You:")
    leave(t)
    run(["sessions", "rm", "thought"])


def test_long_names_are_found_by_any_part_and_keep_to_the_row():
    long = "2026-11-21-tell-me-a-long-story-about-a-walrus-and-the-sea"
    for name in (long, "2026-11-20-walrus"):
        same(run(["run", "-p", "x", "--session", name] + script(ECHO)).returncode, 0)
    rows = run(["sessions"]).stdout.decode().split("\n")
    expect([row for row in rows if row.startswith(long + "  just now, 2 messages")], "a line each for scripts: %r" % rows)
    t = chat(ECHO)
    t.send("/sessions\r")
    t.wait("KV cache 28 B", "KV cache 28 B", "You:")
    for row in (long + "\r\n    just now, 2 messages", "2026-11-20-walrus  just now, 2 messages"):
        expect(row.encode() in t.output, "%r in %r" % (row, t.output))
    t.send("/load story-about\t\r")
    t.wait("/load story-about", long, 'Session "%s"' % long, "You:")
    t.send("/load walrus\t\t")  # two have it
    t.wait("2026-11-20-walrus", "/load walrus")
    t.send("\x15")
    leave(t)


def test_a_conversation_that_the_context_is_too_small_for_is_cached_as_saved():
    """Only the rows of its first messages are read back then, and as none is computed, that is no figure of the turn's."""
    for _ in range(2):
        all_of_it = json.loads(run(["run", "-p", "hi", "-s", "too-long", "--json"] + script("turn\nrepeat 50 x\n")).stdout)["context_used"]
    got = run(["run", "-p", "hi", "-s", "too-long", "--json"] + script("context 100\nturn\nrepeat 50 x\n"))
    same(got.returncode, 4)
    got = json.loads(got.stdout)
    same((got["cached_tokens"], got["prefilled_tokens"], got["context_used"]), (all_of_it, 0, all_of_it))


def test_a_full_disk_is_no_place_that_was_saved_to():
    """No file may grow, as on a disk without room."""
    def full(*typed):
        command = ["dash", "-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\"", PROGRAM, "--plain", "--kernel-cache", "none"]
        result = subprocess.run(command + script(ECHO), input="".join(line + "\n" for line in typed).encode(), env=environment(),
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=DEADLINE)
        same(result.returncode, 1)  # not all of it is saved
        return result.stdout.decode()
    said = full("one", "/save kept", "/save", "/rename held")
    same(said.count("conversation not saved: "), 5)  # of the turn, of three commands and at the end
    expect(said.index("conversation not saved: ") < said.index("Assistant: one"), "it is told before the message is read: %r" % said)
    expect("aved as" not in said, "it claims to have saved: %r" % said)
    said = full("one", "/save", "/new", "/load nowhere", "/load nowhere", "two")  # each is told by itself
    for command in ("/new", "/load"):
        expect(said.count("are not saved, and would be lost: /save tries again; %s once more drops them" % command) == 1, "said: %r" % said)
    expect("no session" in said and "Assistant: two" in said, "said: %r" % said)
    expect("were not saved." in full("one", "/save", "/new", "/new"), "it is dropped")
    expect("goes on" not in said, "no command made another session of it: %r" % said)
    said = full("one", "/undo", "/redo")
    expect("\nmoechat: The conversation's KV cache is not saved; your next message reads 11 of its 11 tokens again; conversation not saved: " in said, said)
    said = full("one", "/fork elsewhere")
    expect('The conversation goes on as "elsewhere"; the next turn tries again to save it.\n' in said, "said: %r" % said)
    for command in ("/rename", "/save"):  # the name is another all the same
        said = full("one", command + " other" + command[1:], command + " other" + command[1:])
        same(said.count('It was renamed to "other%s" all the same; the next turn tries again to save what is missing.\n' % command[1:]), 1)
        same(said.count("conversation not saved: "), 4)


def test_a_session_in_which_nothing_was_saved_is_none():
    """As a chat leaves one that is killed on a full disk: the list has none, so there is none to show."""
    env = environment(XDG_DATA_HOME=tempfile.mkdtemp(dir=SCRATCH))
    empty = os.path.join(env["XDG_DATA_HOME"], "moechat", "sessions", "empty")
    os.makedirs(empty)
    expect(b"No saved sessions" in run(["sessions", "list"], env=env).stdout, "it is listed")
    for verb in ("show", "tree", "export", "verify", "compact"):
        result = run(["sessions", verb, "empty"], env=env)
        same((result.returncode, result.stdout), (1, b""))
        expect(b'session "empty": nothing was saved in it; moechat sessions rm removes' in result.stderr, result.stderr)
    same(run(["sessions", "rm", "empty"], env=env).returncode, 0)
    expect(not os.path.exists(empty), "it is still there")


def test_who_leaves_once_the_disk_has_room_loses_nothing():
    """Nor is it said: the save is tried first."""
    full = "trap '' XFSZ; ulimit -S -f 0; exec \"$0\" \"$@\""
    for number, command in enumerate(("/quit\r", "\x04", "/new\r", "/load other\r")):
        t = chat(ECHO, "--session", "other", "--kernel-cache", "none")
        t.send("other\r")
        t.wait("tokens/s", "You:")
        leave(t)
        t = Terminal(["--plain", "--kernel-cache", "none", "--session", "roomy-%d" % number] + script(ECHO), columns=200, shell=full)
        t.wait("You:")
        t.send("one\r")
        t.wait("one", "not saved: ", "You:")
        resource.prlimit(t.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        t.send(command)
        if command[:2] in ("/n", "/l"):
            t.wait("kept as \"roomy-%d\"" % number, "You:")
            t.send("\x04")
        same(t.finish(), 0)
        expect(b"would be lost" not in t.output, t.output)
        expect("one" in run(["sessions", "show", "roomy-%d" % number]).stdout.decode(), command)


def test_who_would_lose_something_by_leaving_is_told_once():
    """By /quit and Ctrl-D; a signal and a pipe's lines mean what they say."""
    words = "are not saved, and would be lost: /save tries again; /quit or Ctrl-D once more drops them."
    full = "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\""
    for first, then in (("/quit\r", "/quit\r"), ("\x04", "\x04"), ("/quit\r", "\x04"), ("/quit\r", signal.SIGTERM)):
        t = Terminal(["--plain", "--kernel-cache", "none"] + script(ECHO), columns=200, shell=full)
        t.wait("You:")
        t.send("one\r" + first)  # while it is saved or before
        t.wait("one", "not saved: ", words, "You:")
        if isinstance(then, str):
            t.send("/save\r")
            t.wait("not saved: ", "You:")  # from here on they are told again
            t.send(first)
            t.wait(words, "You:")
            t.send("/new\r")  # of which nobody was told yet
            t.wait("/new once more drops them.", "You:")
            t.send(first)
            t.wait(words, "You:")
            t.send(then)
        else:
            t.process.send_signal(then)
        same(t.finish(), 1 if isinstance(then, str) else 143)
        same(t.output.count(words.encode()), 3 if isinstance(then, str) else 1)
    for leave_by in ("/quit\r", "\x04"):
        s = Screen(["--kernel-cache", "none"] + script(ECHO), shell=full, columns=150)
        s.until("Type /help")
        s.keys("one\r", "not saved: ")
        s.keys(leave_by, words)
        s.send(leave_by)
        same(s.finish(), 1)
    command = ["dash", "-c", full, PROGRAM, "--plain", "--kernel-cache", "none"] + script(ECHO)
    for typed in (b"one\n/quit\n", b"one\n"):
        result = subprocess.run(command, input=typed, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=DEADLINE)
        same((result.returncode, b"once more" in result.stdout), (1, False))


def test_a_long_talk_gets_room():
    """What was saved with more room than there would be now is opened all the same, and goes on."""
    t = chat("context 300\n" + ECHO, "--session", "long")
    t.send("x" * 60 + "\r")
    t.wait("x" * 60 + "\r\n", "You:")
    t.send("one two three\r")
    t.wait("one two three\r\n", "You:")
    time.sleep(0.3)
    leave(t)
    t = chat("context 40\nroom 200\n" + ECHO, "--session", "long", columns=200)
    expect(b"Room for 40 tokens" in t.output, "the room is said first: %r" % t.output)
    expect(b"It is a long one, and gets more: room for 200 tokens of conversation" in t.output, "then more: %r" % t.output)
    expect(b"Nothing needs to be read again" in t.output, "its rows are back: %r" % t.output)
    t.send("four\r")
    t.wait("four\r\n", "of 200", "You:")
    leave(t)
    # Where there is no more room, as with --context, the rest of its rows stays where it is, and the remedy is said.
    before = run(["sessions", "--json"]).stdout
    t = chat("context 140\n" + ECHO, "--session", "long", columns=300)
    expect(b"gets more" not in t.output and b"But the conversation's 167 tokens do not fit into a context of 140, so nothing can follow them here; with "
           b"--context 2048 it goes on, and /undo goes back to where there is room." in t.output, "%r" % t.output)
    t.send("five\r")
    t.wait("Not sent: the context is full: this conversation has 167 tokens of 140", "You:")
    leave(t)
    kept = [[s for s in json.loads(text)["sessions"] if s["name"] == "long"][0] for text in (before, run(["sessions", "--json"]).stdout)]
    same(kept[0], dict(kept[1], updated=kept[0]["updated"]))
    same((kept[1]["tokens"], kept[1]["cached_tokens"]), (167, 167))
    t = chat("context 140\nroom 150\n" + ECHO, "--session", "long", columns=300)  # nothing that the model does not take is advised
    expect(b"do not fit into a context of 150, so nothing can follow them here; /undo goes back to where there is room." in t.output, t.output)
    leave(t)
    t = chat("context 140\n" + ECHO, "--session", "long", columns=300)
    t.send("/undo\r")
    t.wait("Took back 1", "do not fit into a context of 140", "You:")
    t.send("/undo\r")
    t.wait("Took back 1", "You:")
    t.send("five\r")
    t.wait("Assistant:", "five\r\n", "You:")
    t.send("/stats\r")
    t.wait("read (prefill)   7 tokens", "You:")
    leave(t)
    t = chat("context 300\n" + ECHO, "--session", "long", columns=300)
    t.send("/tree\r")
    t.wait("You: four", "You:")
    t.send("/tree 5\r")
    t.wait("You: four", "Assistant: four", "You:")
    t.send("six\r")
    t.wait("Assistant:", "six\r\n", "You:")
    t.send("/stats\r")
    t.wait("read (prefill)   6 tokens", "You:")  # of all that was taken back nothing is lost
    leave(t)


def test_the_preview_is_of_what_the_user_said():
    ask("mine", "--session", "whose", *script("turn\ntext and the model's\n"))
    listed = [s for s in json.loads(run(["sessions", "--json"]).stdout)["sessions"] if s["name"] == "whose"]
    same((listed[0]["message_count"], listed[0]["last_message"]), (2, "mine"))
    same(run(["sessions", "rm", "whose"]).returncode, 0)


def test_names_and_previews_are_of_any_script():
    for text, name in (("Привет,  как дела?\nВсё хорошо", "Привет-как-дела-Вс"), ("你好，世界！", "你好-世界"), ("🎉 👋", None)):
        t = run(["--plain"] + script(ECHO), stdin=text.replace("\n", " ").encode() + b"\n", together=True)
        saved = t.stdout.decode().split("Saved as \"")[1].split('"')[0]
        expect(saved[len("2026-11-22-0621"):] == ("-" + name if name else ""), "a name of the words: %r" % saved)
        expect(("You: " + text.replace("\n", " ")).encode() in run(["sessions", "export", saved, "txt"]).stdout, "it is found by it")
        listed = [s for s in json.loads(run(["sessions", "--json"]).stdout)["sessions"] if s["name"] == saved]
        same(listed[0]["last_message"], " ".join(text.split()))
        same(run(["sessions", "rm", saved]).returncode, 0)
    ask("x" * 70 + " \x1b[2J 世界世界世界", "--session", "long-last", *script(ECHO))
    said = run(["--plain", "--no-session"] + script(ECHO), stdin=b"/sessions\n").stdout.decode()
    expect("\n    " + "x" * 70 + " \u241b[...\n" in said, "a line that fits: %r" % said)
    for bad in ("\u202eabc", "\u0301a", "a\u200db"):
        same(run(["run", "-p", "x", "--session", bad] + script(ECHO)).returncode, 2)


def test_new_keeps_the_systems_rows():
    t = chat(ECHO, "--system", "Be kind.", "--session", "sys-a")
    t.send("one\r")
    t.wait("one\r\n", "You:")
    t.send("/new\r")
    t.wait("You:")
    t.send("/save sys-b\r")
    t.wait("sys-b", "You:")
    t.send("two\r")
    t.wait("two\r\n", "You:")
    t.send("/stats\r")
    t.wait("read (prefill)   6 tokens", "since start      %d tokens read" % (11 + 6 + 6), "You:")
    leave(t)
    got = ask("x", "--session", "sys-b", *script(ECHO))
    same((got["cached_tokens"], got["prefilled_tokens"]), (11 + 6 + 4, 4))


def test_what_is_over_the_cap_takes_nothing_from_others():
    env = environment(XDG_DATA_HOME=tempfile.mkdtemp(dir=SCRATCH))  # what others have kept would make prompts too long
    kept = lambda: {s["name"]: s["kv_bytes"] for s in json.loads(run(["sessions", "list", "--json"], env=env).stdout)["sessions"]}
    same(run(["run", "-p", "one", "--session", "beside"] + script(ECHO), env=env).returncode, 0)
    before = kept()
    total = sum(before.values())
    result = run(["run", "-p", "x" * (total // 4 + 50), "--session", "over", "--kv-cap", str(total + 4)] + script(ECHO), env=env)
    same(result.returncode, 0)
    expect(b"the KV cache of this conversation reached " in result.stderr and b"; only the text is saved" in result.stderr, "said: %r" % result.stderr)
    same(kept(), dict(before, over=0))
    before = kept()
    result = run(["run", "-p", "x", "--session", "text", "--kv-cap", "0"] + script(ECHO), env=env)  # text alone needs no room
    expect(b"--kv-cap" not in result.stderr, result.stderr)
    same(kept(), dict(before, text=0))
    result = run(["run", "-p", "x" * 20, "--session", "late", "--kv-cap", str(max(before.values()) + 100)] + script("turn\ntext " + "y " * 400 + "\n"), env=env)
    expect(b"; only the text is saved" in result.stderr and b"dropped those" not in result.stderr, result.stderr)  # with its answer it is over it
    same(kept(), dict(before, text=0, late=0))
    result = run(["run", "-p", "x", "--session", "lower", "--kv-cap", "50"] + script(ECHO), env=env)  # rows that are kept need it
    expect(b"saved KV caches reached --kv-cap: dropped those of " in result.stderr and 0 < sum(kept().values()) <= 50, "%r, %r" % (result.stderr, kept()))


def test_two_processes_are_told_apart():
    t = chat(ECHO, "--session", "mine")
    result = run(["run", "-p", "x", "--session", "mine"] + script(ECHO))
    same((result.returncode, result.stdout), (1, b""))
    expect(b"open in another moechat (pid %d)" % t.process.pid in result.stderr, "said: %r" % result.stderr)
    result = run(["sessions", "rm", "mine"])
    same(result.returncode, 1)
    leave(t)
    same("mine" in names(), False)  # nothing was said in it
    ask("one", "--session", "mine", *script(ECHO))
    t, other = chat(ECHO, "--session", "mine"), chat(ECHO, columns=100)
    other.send("/delete mine\r")  # without a question whose answer would be no
    other.wait("open in another moechat (pid %d)" % t.process.pid, "You:")
    expect("once more" not in other.output.decode(), "said: %r" % other.output)
    leave(other)
    leave(t)
    run(["sessions", "rm", "mine"])


def test_lost_rows_are_said():
    name = "rows"
    ask("hello", "--session", name, *script(ECHO))
    kv = os.path.join(STORE, name, "kv.bin")
    with open(kv, "r+b") as file:
        file.seek(45)
        byte = file.read(1)
        file.seek(45)
        file.write(bytes([byte[0] ^ 1]))
    t = chat(ECHO, "--session", name, columns=250)
    expect(b"But " in t.output and b"reads 6 of its 15 tokens again" in t.output, "said: %r" % t.output)
    t.send("more\r")
    t.wait("more\r\n", "You:")
    t.send("/stats\r")
    t.wait("read (prefill)   13 tokens", "You:")  # 6 and the message's 7
    leave(t)
    same(ask("x", "--session", name, *script(ECHO))["cached_tokens"], 15 + 7 + 5)
    os.unlink(kv)
    result = run(["run", "--json", "-p", "x", "--session", name] + script(ECHO))
    got = json.loads(result.stdout)
    same((got["cached_tokens"], got["prefilled_tokens"]), (0, 27 + 6 + 4))
    expect(b"KV cache is missing; your next message reads 33 of its 33" in result.stderr, "said: %r" % result.stderr)
    result = run(["run", "--json", "-p", "x", "--session", name] + script("name other\n" + ECHO))
    expect(b'different weights or settings (a script), so "rows" stays as it is, and this goes on as "rows-2"; ' in result.stderr, "said: %r" % result.stderr)
    same(json.loads(result.stdout)["cached_tokens"], 0)
    same(ask("y", "--session", name, *script(ECHO))["cached_tokens"], 39)  # nothing of it was lost
    expect(run(["sessions", "show", "rows-2"]).stdout.endswith(b"You: x\nAssistant: x\n"), "it went on")
    ask("mine", "--session", "bare", "--kv-cap", "0", *script(ECHO))  # without rows it is its model's all the same
    result = run(["run", "-p", "x", "--session", "bare"] + script("name other\n" + ECHO))
    expect(b'so "bare" stays as it is, and this goes on as "bare-2"; your next message reads ' in result.stderr, "said: %r" % result.stderr)
    same(run(["sessions", "show", "bare"]).stdout.count(b"You: "), 1)


def test_thinking_that_is_left_out_costs_no_more_than_its_answer():
    model = ["-m", os.path.join(ROOT, "tests", "golden", "gguf-qwen35-chat", "checkpoint"), "--device", "ref", "--max-tokens", "6"]
    turns = [ask("turn %d hello" % i, "--session", "gated", "--temp", "0", *model) for i in range(4)]
    for before, now in zip(turns[1:], turns[2:]):  # the states before the last answer were saved, and each answer is as long
        same(now["prefilled_tokens"], before["prefilled_tokens"])
        same(now["cached_tokens"] - before["cached_tokens"], now["context_used"] - before["context_used"])
    expect(turns[3]["prefilled_tokens"] < turns[3]["context_used"] / 2, "nothing before it is read again: %r" % turns[3])
    t = Terminal(["--plain", "--session", "anew", "--temp", "0"] + model, columns=200)
    t.wait("\x1b[1mYou:")
    for i in range(4):
        t.send("turn %d hello\r" % i)
        t.wait("(6 tokens", "You:")
    t.send("/stats\r")
    t.wait("context          %d of" % turns[3]["context_used"])  # as one process has it, and without a word
    expect(b"kept only before" not in t.output, "said: %r" % t.output)
    leave(t)


def test_a_message_read_again_as_an_earlier_one_is_one_with_all_its_answers():
    model = ["-m", os.path.join(ROOT, "tests", "golden", "gguf-qwen35-chat", "checkpoint"), "--device", "ref", "--seed", "5", "--max-tokens", "6"]

    def chat(*lines):
        result = run(["--plain", "--session", "once"] + model, stdin="".join(line + "\n" for line in lines).encode())
        same(result.returncode, 0)
        return result.stdout.decode(errors="replace")

    def tree(shown):  # of the last one: whose each is, and what is the conversation's
        lines = re.findall(r"^(\* |  )(\d)  ( *)(You|Assistant)", shown[shown.rindex("1  You: alpha") - 2:], re.M)
        return "".join(mark.strip() + number + "-" * (len(inset) // 2) + who[0] + " " for mark, number, inset, who in lines)

    shown = chat("alpha", "/retry", "beta", "/tree")
    same(tree(shown), "*1Y 2-A *3-A *4-Y *5-A ")  # beta has alpha fed once more, without the opening of an answer
    shown = chat("/tree 2", "/tree")
    same(tree(shown), "*1Y *2-A 3-A 4-Y 5-A ")
    expect("(Version" not in shown, "alpha was typed once: %r" % shown)
    chat("/tree 4")
    shown = chat("/undo", "/retry", "/tree")
    same(tree(shown), "*1Y 2-A 3-A 4-Y 5-A *6-A ")
    parts = json.loads(run(["sessions", "export", "once", "json"]).stdout)
    alphas = [part for part in parts["messages"] + parts["branches"] if part["text"] == "alpha"]
    same(alphas[0]["ids"], min(alphas[1:], key=lambda part: part["part"])["ids"])  # an answer follows its opening
    text = run(["sessions", "export", "once", "md"]).stdout.decode(errors="replace")
    same(text.count("\nalpha\n"), 1)


def read_so_far(terminal):
    """Tokens that this process has read, and those of the context."""
    terminal.send("/stats\r")
    terminal.wait("read (prefill)", "  plan ", "You:")
    shown = terminal.output[:terminal.seen].decode(errors="replace")
    return [int(re.findall(what, shown)[-1].replace(",", "")) for what in (r"read \(prefill\)   ([\d,]+) tokens", r"context          ([\d,]+) of")]


def ten_turns_two_undone_and_the_next_day(golden, device, name):
    cache = os.environ.get("XDG_CACHE_HOME", SCRATCH + "/cache")  # where kernels are built already
    model = ["-m", os.path.join(ROOT, "tests", "golden", golden, "checkpoint"), "--device", device, "--max-tokens", "6", "--temp", "0"]

    def begin(*wanted):
        t = Terminal(["--plain", "--session", name] + model, environment(XDG_CACHE_HOME=cache), columns=250)
        t.wait(*wanted, "\x1b[1mYou:")
        return t

    def say(t, i):
        t.send("turn %d hello\r" % (i % 10))
        t.wait("(6 tokens", "You:")
        return read_so_far(t)

    def undo(t, *left):
        for n in left:
            t.send("/undo\r")
            t.wait("Took back 1 of your messages; %d remain" % n)

    t = begin()
    said = [say(t, i) for i in range(10)]
    message = said[0][0]
    costs = [b[0] - a[0] for a, b in zip(said, said[1:])]
    same(set(costs), {costs[0]})  # a message, and the answer before it without its thinking: nothing older
    undo(t, 9, 8)
    leave(t)
    same(entry(name)["cached_tokens"], entry(name)["tokens"])
    t = begin("16 messages", "Nothing needs to be read again.")
    read, context = say(t, 8)
    same(read, message + 1)  # its message, and the end of the line before it
    same(context, said[8][1])
    same([say(t, i)[0] - read for i in (9, 10)], [costs[0], 2 * costs[0]])
    leave(t)
    t = begin("Nothing needs to be read again.")  # and two of yesterday's taken back today
    undo(t, 10, 9)
    same(say(t, 9), [read, said[9][1]])
    expect(b" again" not in t.output.split(b"Took back")[1], "nothing is read again: %r" % t.output[-400:])
    leave(t)
    listed = run(["sessions", "list"]).stdout.decode()
    expect(re.search(r"^%s .* KV cache [\d.]+ KB, states (1\d|2\d)\.\d KB" % name, listed, re.M), "three to five states: %r" % listed)
    expect(b"%s: KV cache and states " % name.encode() in run(["sessions", "compact", name]).stdout, "what its figure has")
    s = Screen(["--session", name] + model, environment(TERM="linux", MOECHAT_CLOCK="fake", XDG_CACHE_HOME=cache), columns=120, rows=40)
    s.until("idle")
    s.keys("hello\r", "tokens/s")
    s.keys("\x1bs", lambda s: re.search(r"rows [\d.]+ KB, states 5.63 KB", s.text()))
    s.send("\x04")
    same(s.finish(), 0)


def test_ten_turns_two_undone_and_the_next_day():
    """Of a GGUF and of an MLX folder; by the kernels, too."""
    ten_turns_two_undone_and_the_next_day("gguf-qwen35-chat", "ref", "days")
    ten_turns_two_undone_and_the_next_day("ck-qwen35-chat", "ref", "days-of-a-folder")
    ten_turns_two_undone_and_the_next_day("ck-qwen35-chat", "cpu", "days-on-a-processor")


def test_lost_states_are_told_and_read_again():
    """Rows are no place to go on from without states: what follows the last that are there is read again, and the answer is the same."""
    def cut(path):
        os.truncate(path, 100)

    def flip(path):
        with open(path, "r+b") as file:
            file.seek(3000)
            byte = file.read(1)
            file.seek(3000)
            file.write(bytes([byte[0] ^ 1]))

    def replace(path):
        os.unlink(path)
        os.mkdir(path)

    gone, bad = "are gone", "can't be used"
    damages = ((1, os.unlink, "its states are missing", gone, " is missing"), (1, flip, "is damaged: its checksum does not match", bad, None),
               (1, cut, "inside a record", bad, " is cut off"), (1, replace, "its states cannot be opened", gone, None),
               (3, os.unlink, "its states are missing", gone, " is missing"), (99, os.unlink, "its states are missing", gone, " is missing"))
    for golden, forgets in ("gguf-qwen35-chat", True), ("ck-kimi-linear-chat", False):  # qwen3.5's turns leave old thinking out
        model = ["-m", os.path.join(ROOT, "tests", "golden", golden, "checkpoint"), "--device", "ref", "--max-tokens", "6", "--temp", "0"]
        whole = run(["--plain", "--session", golden] + model, stdin=b"".join(b"turn %d hello\n" % i for i in range(5)))
        same(whole.returncode, 0)
        wanted = json.loads(run(["sessions", "export", golden, "json"]).stdout)["messages"][-1]
        for i in range(4):
            ask("turn %d hello" % i, "--session", golden + "-saved", *model)
        saved = os.path.join(STORE, golden + "-saved")
        with open(os.path.join(saved, "session.json")) as file:
            states = [(state["file"], state["after"]) for state in json.load(file)["kv"]["states"]]
        tokens = entry(golden + "-saved")["tokens"]
        same((len(states) > 3, states[-1][1]), (True, tokens))
        shutil.copytree(saved, os.path.join(STORE, golden + "-as-it-was"))
        usual = ask("turn 4 hello", "--session", golden + "-as-it-was", *model)
        for i, (n, damage, why, verdict, damaged) in enumerate(damages):
            name = "%s-%d" % (golden, i)
            shutil.copytree(saved, os.path.join(STORE, name))
            for file, _ in states[-n:]:
                damage(os.path.join(STORE, name, file))
            result = run(["sessions", "verify", name])
            same((result.returncode, [line.rpartition("; ")[2] for line in result.stderr.decode().splitlines()]),
                 (1, ["the states after %d tokens %s" % (after, verdict) for _, after in states[-n:]]))
            if damage != replace:  # how long a folder is, each file system says for itself
                same(entry(name).get("damage"), damaged and states[-n:][0][0] + damaged)
            kept = [0] + [after for _, after in states[:-n]]
            result = run(["run", "--json", "-p", "turn 4 hello", "--session", name] + model)
            got, missing = json.loads(result.stdout), tokens - kept[-1]
            said = "%s; your next message reads %s%d of its %d tokens again" % (why, "up to " * forgets, missing, tokens)
            expect(said in result.stderr.decode(), "said: %r" % result.stderr)
            stands = max(after for after in kept if after <= usual["cached_tokens"])
            again = usual["cached_tokens"] - stands
            same((got["cached_tokens"], got["prefilled_tokens"]), (stands, usual["prefilled_tokens"] + again))
            expect(again <= missing if forgets else again == missing, "as it was said: %d of %d" % (again, missing))
            same(json.loads(run(["sessions", "export", name, "json"]).stdout)["messages"][-1]["ids"], wanted["ids"])
            same(run(["sessions", "verify", name]).returncode, 0)


def test_why_earlier_tokens_are_read_again():
    """Of a model with states whose rows are gone, too, it is not that states were kept further back."""
    model = ["-m", os.path.join(ROOT, "tests", "golden", "ck-kimi-linear-chat", "checkpoint"), "--device", "ref", "--max-tokens", "6", "--seed", "5"]
    for lost in "missing", "capped":
        name = "why-" + lost
        for text in "one", "two":
            ask(text, "--session", name, *model, *(["--kv-cap", "1"] if lost == "capped" else []))
        for file in os.listdir(os.path.join(STORE, name)):
            if file.startswith("kv."):
                os.unlink(os.path.join(STORE, name, file))
        out = run(["--plain", "--session", name] + model, stdin=b"three\n", together=True).stdout
        expect(b" tokens again." in out and re.search(rb"\(Read \d+ earlier tokens again\.\)", out), out)


def test_a_chat_reads_again_what_has_no_states():
    model = ["-m", os.path.join(ROOT, "tests", "golden", "gguf-qwen35-chat", "checkpoint"), "--device", "ref", "--max-tokens", "6", "--temp", "0",
             "--chunk", "1", "--group", "1"]  # so that what is read again takes long enough to be seen
    first = "a long one" + 550 * " and so on"
    for name in "whole-chat", "lost-chat":
        for text in first, "two", "three", "four":
            ask(text, "--session", name, *model)
    usual = ask("five", "--session", "whole-chat", *model)
    for file in os.listdir(os.path.join(STORE, "lost-chat")):
        if file.startswith("state."):
            os.unlink(os.path.join(STORE, "lost-chat", file))
    tokens = entry("lost-chat")["tokens"]
    t = Terminal(["--plain", "--session", "lost-chat"] + model, columns=250)
    t.wait("But its states are missing; your next message reads up to %d of its %d tokens again." % (tokens, tokens), "You:")
    t.send("five\r")
    t.wait("Reading again: ", " of %d tokens" % usual["cached_tokens"], "(6 tokens", "earlier tokens again.)")
    again = int(re.findall(rb"\(Read (\d+) earlier", t.output)[-1])
    expect(usual["cached_tokens"] <= again <= tokens, "no more than was announced: %d of %d" % (again, tokens))
    t.wait("You:")
    same(read_so_far(t), [usual["cached_tokens"] + usual["prefilled_tokens"], usual["context_used"]])
    leave(t)
    got, wanted = (json.loads(run(["sessions", "export", name, "json"]).stdout)["messages"][-1]["ids"] for name in ("lost-chat", "whole-chat"))
    same(got, wanted)


def test_words_in_an_answers_place_have_one_opening():
    model = ["-m", os.path.join(ROOT, "tests", "golden", "gguf-v32-chat", "checkpoint"), "--device", "ref", "--max-tokens", "6", "--temp", "0"]
    transcript = os.path.join(STORE, "openings", "transcript.jsonl")
    same(run(["--plain", *model, "--session", "openings"], stdin=b"hi\nagain\n").returncode, 0)
    with open(transcript, "rb") as file:
        begin, end = file.read().rsplit(b'"text":"', 1)
    with open(transcript, "wb") as file:
        file.write(begin + b'"text":"Z' + end)
    result = run(["--plain", *model, "--session", "openings"], stdin=b"and?\n", together=True)
    same(result.returncode, 0)
    expect(b"tokens again" not in result.stdout.split(b"and?")[-1] and b"Read " not in result.stdout, result.stdout.decode())
    messages = json.loads(run(["sessions", "export", "openings-recovered", "json"]).stdout)["messages"]
    same([message["role"] for message in messages], ["user", "assistant"] * 3)
    expect("damaged" in messages[3]["text"], messages)
    ids = [id for message in messages for id in message["ids"]]
    same(ids.count(1504), 3)  # <|Assistant|>


def glm(name, *typed, silent=False):
    """What a GLM says to these lines; silent: it ends its answers at once, until a line says otherwise. In its template no
    token ends an answer, so such a one has none."""
    model = ["-m", os.path.join(ROOT, "tests", "golden", "gguf-glm5-next-chat", "checkpoint"), "--device", "ref", "--max-tokens", "6", "--temp", "0"]
    result = run(["--plain", *model, "--session", name] + ["--logit-bias", "1504=1000"] * silent,
                 stdin="".join(line + "\n" for line in typed).encode(), together=True)
    expect(result.returncode == 0, (typed, result))
    return result.stdout.decode()


TALKS = "/set logit-bias none"


def glm_exported(name):
    exported = json.loads(run(["sessions", "export", name, "json"]).stdout)
    return [(message["role"], message["text"], message["ids"]) for message in exported["messages"]]


def test_an_answer_without_tokens_is_fed_the_next_day_as_at_once():
    glm("silent-once", "hi", TALKS, "and then?", silent=True)
    glm("silent-twice", "hi", silent=True)
    same([(role, text, len(ids)) for role, text, ids in glm_exported("silent-twice")[1:]], [("assistant", "<think>", 0)])
    said = glm("silent-twice", "and then?")
    expect("Nothing needs to be read again." in said, said)
    same(glm_exported("silent-twice"), glm_exported("silent-once"))
    glm("silent-redone", "hi", TALKS, "/undo", "/redo", "and then?", silent=True)
    same(glm_exported("silent-redone"), glm_exported("silent-once"))


def test_another_answer_than_one_without_tokens_stands_beside_it():
    said = glm("silent-retry", "hi", TALKS, "/retry", silent=True)
    expect("(Answer 2 of 2; /tree lists them.)" in said, said)
    first, told = glm_exported("silent-retry"), glm("silent-retry", "more", "/tree")
    expect("2 messages, 2 branches" in told and "Nothing needs to be read again." in told, told)
    expect("\n  2    Assistant: \n* 3    Assistant: <think>" in told, told)
    same([text for _, text, _ in glm_exported("silent-retry")][:3], ["hi", first[1][1], "more"])


def test_models_that_choose_their_rows_and_kimi_linear_go_on_the_next_day():
    """Layers, vocabularies and turns of DeepSeek-V3.2, GLM-5.2, GLM-5.3-Flash and Kimi-Linear, as files that people fetch."""
    for name, template in ("gguf-v32", "deepseek-v3.2"), ("gguf-glm-52", "glm-5.2"), ("gguf-glm5-next", "glm-5.3"), ("ck-kimi-linear", "kimi-linear"):
        file = os.path.join(ROOT, "tests", "golden", name + "-chat", "checkpoint")
        expect(re.search(rb"^turn template +%s$" % template.encode(), run(["info", file]).stdout, re.M), "its turns")

        def begin(*wanted):
            t = Terminal(["--plain", "--session", name, "-m", file, "--device", "ref", "--max-tokens", "6", "--temp", "0"], columns=250)
            t.wait(*wanted, "\x1b[1mYou:")
            return t

        def say(t, i):
            """What it answers, the tokens that this process has read, and those of the context."""
            t.send("tell me %d\r" % i)
            t.wait("(6 tokens", "You:")
            return re.findall(rb"tell me %d\r\n(.*?)Stopped at" % i, t.output, re.S)[-1:] + read_so_far(t)

        t = begin()
        said = [say(t, i) for i in range(6)]
        cost = said[2][1] - said[1][1]
        same([b[1] - a[1] for a, b in zip(said[1:], said[2:])], 4 * [cost])  # nothing that is older than the last answer
        for left in (5, 4):
            t.send("/undo\r")
            t.wait("Took back 1 of your messages; %d remain" % left)
        leave(t)
        t = begin("Nothing needs to be read again.")
        again = [say(t, i) for i in (4, 5)]
        same([a[0] for a in again], [a[0] for a in said[4:]])  # on the rows that were chosen yesterday
        same([a[2] for a in again], [a[2] for a in said[4:]])
        expect(again[0][1] <= cost and again[1][1] - again[0][1] == cost, "its own tokens: %r of %d" % (again, cost))
        leave(t)


def test_what_the_cap_keeps_of_rows_and_states():
    """Of models whose layers choose their rows, and that have states: a byte less than a conversation takes, and as much."""
    for name in "gguf-v32", "gguf-glm5-next":
        model = ["-m", os.path.join(ROOT, "tests", "golden", name + "-chat", "checkpoint"), "--device", "ref", "--max-tokens", "6", "--temp", "0"]

        def say(session, i, *cap):
            """What it answers, how many tokens it had and read, and what else it said."""
            env = environment(XDG_DATA_HOME=os.path.join(SCRATCH, session))  # the cap is over all sessions of a place
            result = run(["run", "--json", "-p", "tell me %d" % i, "--session", "one"] + model + list(cap), env=env)
            same(result.returncode, 0)
            got = json.loads(result.stdout)
            return (got["thinking"], got["cached_tokens"], got["prefilled_tokens"]), result.stderr.decode()

        def kept(session):
            return json.loads(run(["sessions", "--json"], env=environment(XDG_DATA_HOME=os.path.join(SCRATCH, session))).stdout)["sessions"][0]

        whole = name + "-whole"
        turns = [say(whole, i)[0] for i in range(3)]
        same(run(["sessions", "compact", "one"], env=environment(XDG_DATA_HOME=os.path.join(SCRATCH, whole))).returncode, 0)
        about = kept(whole)  # without what its answers thought, which goes first
        size = about["kv_bytes"]
        same("state_bytes" in about, name == "gguf-glm5-next")
        turns.append(say(whole, 3)[0])
        for session, cap, keeps in (name + "-less", size - 1, False), (name + "-enough", size, True):
            said = [say(session, i, "--kv-cap", str(cap)) for i in range(3)]
            same([s[0] for s in said], turns[:3])
            expect("--kv-cap" not in said[0][1], said[0])
            expect((", over --kv-cap (" in said[2][1] and " would have kept it); only the text is saved" in said[2][1]) != keeps, said[2])
            expect(("nears --kv-cap (" in said[2][1]) == keeps, said[2])
            same((kept(session)["kv_bytes"], kept(session)["cached_tokens"]), (size, about["cached_tokens"]) if keeps else (0, 0))
            then, words = say(session, 3)
            same(then, turns[3] if keeps else (turns[3][0], 0, turns[3][1] + turns[3][2]))
            expect(("its KV cache was dropped to keep --kv-cap; your next message reads" in words) != keeps, words)
            expect(kept(session)["cached_tokens"] == kept(session)["tokens"] > about["tokens"], "all of it is there again: %r" % kept(session))


def test_kimi_k3_talks_in_sections():
    model = ["-m", os.path.join(ROOT, "tests", "golden", "ck-kimi-k3-chat", "checkpoint"), "--device", "ref", "--max-tokens", "5", "--temp", "0"]
    first = ask("Hello", "--session", "k3", *model)  # stopped in its thinking, which is closed and kept
    expect(first["thinking"] and not first["text"], "it thinks: %r" % first)
    second = ask("And?", "--session", "k3", *model)
    same(second["cached_tokens"], first["context_used"])
    closing = second["context_used"] - second["prefilled_tokens"] - second["cached_tokens"] - 5
    expect(6 < closing < 18, "an id or more a word, and five symbols: %d" % closing)
    said = ask("Hello", "--session", "k3-says", "--think", "off", *model)
    expect(said["text"] and not said.get("thinking"), "it says: %r" % said)
    expect(said["prefilled_tokens"] < first["prefilled_tokens"], "no word of efforts: %r" % said)
    t = Terminal(["--plain", "--session", "k3"] + model, columns=250)
    t.wait("Nothing needs to be read again.", "You:")
    t.send("/retry\r")
    t.wait("Thinking:", "(5 tokens", "You:")
    t.send("Go on\r")
    t.wait("Thinking:", "(5 tokens", "You:")
    expect(b" again" not in t.output.split(b"/retry")[-1], "nothing is read again: %r" % t.output[-600:])
    leave(t)


def fed_as(session, lines, *options):
    """The ids of a conversation of these lines, up to its last answer."""
    run(["--plain", "--session", session, "--device", "ref", "--temp", "0"] + list(options), stdin=lines)
    messages = json.loads(run(["sessions", "export", session, "json"]).stdout)["messages"]
    return [message["ids"] for message in messages[:-1]]


def test_a_beginning_that_was_there_before_is_that_one():
    """Its tree is what the next process has of it, message by message, by the same numbers."""
    typed = "One\n/system S1\nTwo\n/system -\nThree\n/tree\n"
    model = ["--plain", "--model", DEMO, "--device", "ref", "--temp", "0", "--max-tokens", "2", "--session", "beginning"]
    said = run(model, typed.encode()).stdout.decode()
    tree = run(["sessions", "tree", "beginning"]).stdout.decode()
    same(tree.count("You: One\n"), 2)  # behind S1, and behind nothing
    expect(tree in said, (tree, said))


def test_another_beginning_by_thinking_has_one_figure():
    """All of it is read again, which is said by one sentence, and in /stats; and what is said behind one that was there is that one."""
    model = ["--plain", "--model", ROOT + "/tests/golden/ck-kimi-k3-chat/checkpoint", "--device", "ref", "--temp", "0", "--max-tokens", "2", "--session", "thinking"]
    typed = ("one", "/think off", "two", "/undo", "/think on", "/redo", "/stats", "/retry", "/tree")
    said = run(model, "".join(line + "\n" for line in typed).encode(), together=True).stdout.decode()
    redone = said[said.index("brings it back"):]
    same((redone.count("ll be read again"), redone.count("tokens again")), (2, 0))  # of /think, and of /redo
    expect(re.search("context .*; your next message reads everything again\n", redone), redone)
    tree = run(["sessions", "tree", "thinking"]).stdout.decode()
    expect(tree in said, (tree, said))


def test_rows_are_of_the_settings_too_that_made_them():
    """The same tensors with another rope make other rows: of a package, too, whose manifest has sums of files alone."""
    model = shutil.copytree(DEMO, os.path.join(SCRATCH, "another-rope"))
    about = ["--model", model, "--device", "ref", "--temp", "0", "--max-tokens", "4", "--session", "rope"]
    same(ask("My name is Ada.", *about)["cached_tokens"], 0)
    expect(ask("What is my name?", *about)["cached_tokens"] > 0, "its rows are of use")
    path = os.path.join(model, "model.json")
    with open(path) as file:
        manifest = json.load(file)
    manifest["config"]["rope_parameters"]["rope_theta"] *= 2
    with open(path, "w") as file:
        json.dump(manifest, file)
    result = run(["run", "--json", "-p", "What is my name?"] + about)
    answer = json.loads(result.stdout)
    same((answer["session"], answer["cached_tokens"]), ("rope-2", 0))
    expect(b'it was saved with different weights or settings (' in result.stderr, result.stderr)
    shutil.rmtree(model)


def test_symbols_beside_the_ranks_are_of_the_tokenizer():
    """A tokenizer_config.json that gives the symbols of turns other ids makes another tokenizer of the same tiktoken.model."""
    model = shutil.copytree(os.path.join(ROOT, "tests", "golden", "ck-kimi-linear-chat", "checkpoint"), os.path.join(SCRATCH, "symbols"))
    about = ["--model", model, "--device", "ref", "--temp", "0", "--max-tokens", "4", "--session", "symbols"]

    def rename(**names):
        path = os.path.join(model, "tokenizer_config.json")
        with open(path) as file:
            config = json.load(file)
        for symbol in config["added_tokens_decoder"].values():
            symbol["content"] = names.get(symbol["content"].strip("<|[]>"), symbol["content"])
        with open(path, "w") as file:
            json.dump(config, file)

    def fed(text):
        """Whether it is told of, what of the context was there, and where the turns of people begin."""
        result = run(["run", "--json", "-p", text] + about)
        messages = json.loads(run(["sessions", "export", "symbols", "json"]).stdout)["messages"]
        return (b"it was saved with a different tokenizer or template; your next message reads all of it again" in result.stderr,
                json.loads(result.stdout)["cached_tokens"] > 0, {m["ids"][0] for m in messages if m["role"] == "user"})

    same(fed("My name is Ada."), (False, False, {1504}))
    rename(BOS="[ANY]", PAD="[NONE]")  # which no turn has
    same(fed("What is my name?"), (False, True, {1504}))
    rename(im_user="<|im_assistant|>", im_assistant="<|im_user|>")
    same(fed("What is my name?"), (True, False, {1505}))
    same(fed("What is it?"), (False, True, {1505}))
    shutil.rmtree(model)


def test_kimi_k3_says_the_first_message_behind_the_system_message():
    """Where all was taken back, or the first message is answered once more, no answer precedes it to be closed."""
    options = ["-m", os.path.join(ROOT, "tests", "golden", "ck-kimi-k3-chat", "checkpoint"), "--max-tokens", "3", "--system", "You."]
    hello = fed_as("k3-behind", b"hello\n", *options)
    same(len(hello), 2)
    for i, lines in enumerate((b"xx\n/undo\nhello\n", b"xx\n/edit 1 hello\n", b"hello\n/retry\n", b"xx\nyy\n/undo 2\nhello\n")):
        same(fed_as("k3-behind-%d" % i, lines, *options), hello)


def test_marks_around_nothing_are_no_text():
    """An answer without tokens, or without a thought, is shown again as when it came."""
    silent = ["-m", os.path.join(ROOT, "tests", "golden", "gguf-glm5-next-chat", "checkpoint"), "--device", "ref", "--logit-bias", "1504=1000"]
    at_once = ["--think", "on"] + script("thinks\nturn\ntext </think>yes\n")
    for name, options, answer in (("silent", silent, b""), ("at-once", at_once, b"yes")):
        chat = ["--plain", "--session", "marks-" + name] + options
        said = run(chat, stdin=b"hi\n/undo\n/redo\n/tree\n", together=True).stdout
        said += run(chat, stdin=b"/tree\n", together=True).stdout
        same(re.findall(rb"Assistant: (.*)", said), 5 * [answer])
        expect(b"think>" not in said, said)


def test_another_models_ids_stay_another_models():
    """Whatever was done with a session of another tokenizer before anything of it was fed: what follows reads its words."""
    def with_model(name):
        return ["-m", os.path.join(ROOT, "tests", "golden", name, "checkpoint"), "--max-tokens", "3"]

    def begins_as(session, said, other):
        messages = json.loads(run(["sessions", "export", session, "json"]).stdout)["messages"]
        same([m["text"] for m in messages if m["role"] == "user"], said)
        first = fed_as(session + "-alone", "".join(line + "\n" for line in said).encode(), *with_model(other))[0]
        same(messages[0]["ids"], first[:len(messages[0]["ids"])])

    for other in "gguf-qwen35-chat", "ck-kimi-linear-chat":
        for i, (lines, said) in enumerate(((b"/undo\n", ["one"]), (b"/save\n", ["one", "two"]), (b"/undo 2\n/redo 1\n", ["one"]), (b"/undo 2\n", []))):
            session = "others-%s-%d" % (other, i)
            fed_as(session, b"one\ntwo\n", *with_model("gguf-v32-chat"))
            out = run(["--plain", "--session", session, "--device", "ref"] + with_model(other), stdin=lines, together=True).stdout.decode()
            left = re.search('goes on as "([^"]*)"', out).group(1)
            told = run(["--plain", "--session", left, "--device", "ref", "--temp", "0"] + with_model(other), stdin=b"three\n", together=True).stdout
            same(b"different tokenizer" in told, said != [])
            begins_as(left, said + ["three"], other)
        session = "others-%s-undone" % other  # all is taken back, and comes again with the other
        fed_as(session, b"one\n/undo\n", *with_model("gguf-v32-chat"))
        fed_as(session, b"/redo\nthree\n", *with_model(other))
        begins_as(session, ["one", "three"], other)


def test_thinking_that_is_kept_is_closed():
    """An answer that was stopped while it thought is fed as the template has an earlier one, whatever follows it, and whatever room there is."""
    for model, template, closes in (("gguf-glm-52-chat", "glm-5.3-kept", [1508]), ("gguf-qwen35-chat", "qwen3.5-kept", [198, 1504, 259, 1502])):
        options = ["-m", os.path.join(ROOT, "tests", "golden", model, "checkpoint"), "--template", template, "--logit-bias", "64=1000"]
        ids = fed_as("kept-" + model, b"hi\nand then?\n", "--max-tokens", "2", *options)
        same(ids[1], [64, 64] + closes)
        options += ["--device", "ref"]
        once = json.loads(run(["run", "--json", "-p", "Hello", "--max-tokens", "1"] + options).stdout)["context_used"]
        for context in once, once + 1:
            got = json.loads(run(["run", "--json", "-p", "Hello", "--context", str(context)] + options).stdout)
            same((got["stop_reason"], got["context_used"], got["generated_tokens"]), ("context_full", context, context - once + 1))


def test_what_a_session_begins_with_is_told_from_its_ids():
    """Resumed to think or not to think, with a template that says so at the beginning, it is fed as in one chat; and so is another branch."""
    for model in "ck-kimi-k3-chat", "gguf-glm-52-chat":
        options = ["-m", os.path.join(ROOT, "tests", "golden", model, "checkpoint"), "--max-tokens", "4"]
        begins = "begins-" + model
        for i, (first, then) in enumerate((("on", "off"), ("off", "on"))):
            one = fed_as("%s-%d" % (begins, i), b"hi\n/think %s\nand then?\n" % then.encode(), "--think", first, *options)
            parted = "%s-parted-%d" % (begins, i)
            fed_as(parted, b"hi\n", "--think", first, *options)
            plain = ["--plain", "--session", parted, "--device", "ref", "--temp", "0"] + options
            kept = run(plain + ["--think", first], stdin=b"", together=True).stdout
            expect(b"Nothing needs to be read again" in kept and b"changes how" not in kept, kept)
            told = run(plain + ["--think", then], stdin=b"and then?\n", together=True).stdout
            expect(b"so all of it will be read again; /think %s keeps it" % first.encode() in told, told)
            expect(b"Nothing needs to be read" not in told, told)
            same([m["ids"] for m in json.loads(run(["sessions", "export", parted, "json"]).stdout)["messages"][:-1]], one)
        lines = b"hi\nyy\n/undo\n/think off\nand then?\n/tree 4\nzz\n"  # the branch has the other beginning
        off = fed_as(begins + "-off", b"hi\nzz\n", "--think", "off", *options)
        again = fed_as(begins + "-branch", lines, "--think", "on", *options)
        same(again[0], off[0][:len(again[0])])
        same(again[-1], off[-1])
        ran = [begins + "-run", "--device", "ref", "--temp", "0"] + options
        ask("Hello", "--session", *ran, "--think", "off")
        again = run(["run", "--json", "-p", "And?", "--session"] + ran + ["--think", "on"])
        expect(b"to think first changes how the session begins, so all of it is read again; --think off keeps it" in again.stderr, again.stderr)
        same(json.loads(again.stdout)["cached_tokens"], 0)


def test_what_was_said_once_is_there_once():
    """Fed anew without its thinking, as often as branches want it: in the chat, and when one comes back."""
    model = ["-m", os.path.join(ROOT, "tests", "golden", "gguf-qwen35-chat", "checkpoint"), "--device", "ref", "--max-tokens", "10", "--seed", "5"]

    def listed(out):
        return re.findall(r"^[* ] ([0-9]+) +(?:You|Assistant)", out.decode(), re.M)

    said = run(["--plain", "--session", "said-once"] + model, stdin=b"Hello there\nSecond\n/undo\n/retry\nThird\n/tree\n").stdout
    same(listed(said), [str(n) for n in range(1, 8)])
    t = Terminal(["--plain", "--session", "said-once-stopped"] + model, columns=200)
    t.wait("You:")
    t.send("Other words\r")
    t.wait("max-tokens", "You:")
    long = os.path.join(SCRATCH, "long")
    open(long, "w").write("the quick brown fox " * 200)
    t.send("/file %s Read:\r" % long)
    t.wait("\r\n")
    time.sleep(0.05)
    t.interrupt()
    t.wait("/retry answers it", "You:")
    leave(t)
    for session, n in ("said-once", 7), ("said-once-stopped", 3):
        same(listed(run(["sessions", "tree", session]).stdout), [str(i) for i in range(1, n + 1)])
        again = run(["--plain", "--session", session] + model, stdin=b"/tree\n", together=True).stdout
        same(listed(again), [str(i) for i in range(1, n + 1)])
        expect(b"(Answer" not in again and b"(Version" not in again, again)
    shown = run(["sessions", "export", "said-once", "md"]).stdout
    expect(b"Third" in shown and b"# Another beginning" not in shown, shown)


def test_kimi_k3_fills_its_context_and_no_more():
    model = ["-m", os.path.join(ROOT, "tests", "golden", "ck-kimi-k3-chat", "checkpoint"), "--device", "ref", "--seed", "5"]
    prompt = json.loads(run(["run", "--json", "-p", "Hello", "--max-tokens", "1"] + model).stdout)
    whole = prompt["context_used"]  # of an answer of one token, and what closes its thinking
    for context in (whole, whole + 1, whole + 22):
        got = json.loads(run(["run", "--json", "-p", "Hello", "--context", str(context)] + model).stdout)
        same((got["stop_reason"], got["context_used"], got["generated_tokens"]), ("context_full", context, context - whole + 1))
    refused = run(["run", "--json", "-p", "Hello", "--context", str(whole - 1)] + model)
    same(json.loads(refused.stdout)["context_used"], 0)
    expect(b"needs %d tokens of %d" % (whole, whole - 1) in refused.stderr, refused.stderr)


def test_kimi_k3_is_stopped_while_it_thinks():
    """What it said until then is kept, its thinking closed, as with other models."""
    model = ["-m", os.path.join(ROOT, "tests", "golden", "ck-kimi-k3-chat", "checkpoint"), "--device", "ref", "--seed", "5"]
    t = Terminal(["--plain", "--session", "k3-stopped"] + model, columns=250)
    for message in ("Hello", "And?"):
        t.wait("You:")
        t.send(message + "\r")
        t.wait("Thinking:")
        time.sleep(0.2)
        t.interrupt()
        t.wait("Stopped; what it said is kept.")
    t.wait("You:")
    leave(t)
    t = Terminal(["run", "--jsonl", "-p", "More", "--session", "k3-stopped"] + model)
    t.wait('{"token":')
    t.process.send_signal(signal.SIGTERM)
    same(t.finish(), 143)
    expect(b'"stop_reason":"cancelled"' in t.output, t.output[-600:])
    same(run(["sessions", "show", "k3-stopped"]).stdout.count(b"Assistant:"), 3)


def test_a_session_opens_its_own_model():
    folder = tempfile.mkdtemp(dir=SCRATCH)
    demo = os.path.join(folder, "demo of mine")
    os.symlink(os.path.realpath(DEMO), demo)
    ask("hello", "--session", "own", "--device", "ref", "-m", demo)
    manifest = os.path.join(STORE, "own", "session.json")
    expect(os.path.realpath(DEMO).encode() in open(manifest, "rb").read(), "it says where")
    empty = os.path.join(folder, "empty")
    os.mkdir(empty)
    os.environ["MOECHAT_MODEL"] = empty  # the model of every day is another
    try:
        got = ask("again", "--session", "own", "--device", "ref")
        expect(got["cached_tokens"] > 0, "its rows are there: %r" % got)
        expect(ask("more", "--continue", "--device", "ref")["cached_tokens"] > got["cached_tokens"], "the last one's, too")
        same(run(["run", "-p", "x", "--session", "own", "--device", "ref", "-m", empty]).returncode, 3)
    finally:
        del os.environ["MOECHAT_MODEL"]


def test_a_model_that_went_away_is_named():
    copy = os.path.join(tempfile.mkdtemp(dir=SCRATCH), "moved")
    shutil.copytree(DEMO, copy)
    ask("hello", "--session", "moved", "--device", "ref", "-m", copy)
    os.rename(copy, copy + "-on")
    result = run(["run", "-p", "x", "--session", "moved", "--device", "ref"])
    same((result.returncode, result.stdout), (3, b""))
    expect(b'session "moved" was saved with ' in result.stderr and b"--model PATH says where its model is now" in result.stderr, "said: %r" % result.stderr)
    expect(ask("again", "--session", "moved", "--device", "ref", "-m", copy + "-on")["cached_tokens"] > 0, "its rows are there")


def typed(keys):
    t = chat(ECHO, "--no-session", columns=120)
    t.send(keys)
    t.finish()
    return t.output.decode()


def test_a_conversation_that_was_taken_back_is_named_as_one_leaves():
    """It is kept all the same."""
    for args in ((), ("--session", "emptied")):
        s = chat(ECHO, *args)
        s.send("precious words\r")
        s.wait("tokens/s;")
        s.send("/undo\r")
        s.wait("brings it back", "You:")
        leave(s)
        name = "emptied" if args else re.search('Saved as "([^"]*-precious-words)"', s.output.decode()).group(1)
        expect(('Saved as "%s"' % name).encode() in s.output and os.path.isdir(os.path.join(STORE, name)), s.output[-500:])
        s = chat(ECHO, "--session", name)  # nor only by who took it back
        leave(s)
        expect(('Saved as "%s"' % name).encode() in s.output, s.output[-500:])
    for args in ((), ("--session", "never-said")):
        s = chat(ECHO, *args)
        leave(s)
        expect(b"Saved as" not in s.output, s.output[-500:])


def test_the_command_that_resumes_is_not_cut():
    for name, line in (("short", b'Saved as "short"; moechat --session short resumes it.'), ("n" * 40, b'this resumes it:')):
        t = chat(ECHO, "--session", name, columns=80)
        t.send("one\r")
        t.wait("tokens/s", "You:")
        leave(t)
        end = re.sub(rb"\x1b\[[0-9;?]*[a-z]", b"", t.output)[-300:]
        expect(line in end and (len(name) < 40 or b"\r\nmoechat --session " + name.encode() + b"\r\n" in end), end)


def test_what_is_printed_can_be_typed():
    """The command that resumes, and what info says is next, as the program was called: from a clone it is not in PATH."""
    folder = tempfile.mkdtemp(prefix="it's here ", dir=SCRATCH)
    os.symlink(PROGRAM, os.path.join(folder, "moechat"))
    env = environment(PATH=folder + ":" + os.environ["PATH"])
    elsewhere = environment(PATH="/usr/bin:/bin")
    for typed, where, env in (("./moechat", folder, elsewhere), (folder + "/moechat", "/", elsewhere), ("moechat", "/", env)):
        name = "typed-%d" % len(names())
        more = ["--plain"] + script(ECHO)
        run_there = lambda args, **more: subprocess.run(args, cwd=where, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=DEADLINE, **more)
        said = run_there([typed, "--session", name] + more, input=b"one\n").stdout.decode()
        command = re.search(r'(?m)^Saved as "%s"; (.*) resumes it\.$|^(.*moechat.* --session %s)$' % (name, name), said)
        command = command.group(1) or command.group(2)
        same(command.startswith("moechat "), typed == "moechat")
        again = run_there(["sh", "-c", command + ' "$@"', "sh"] + more, input=b"")
        same(again.returncode, 0)
        expect(b'Session "%s": 2 messages' % name.encode() in again.stdout, again.stdout)
        told = run_there([typed, "info", DEMO]).stdout.decode()
        command = re.search("(?m)^next +(.*)$", told).group(1)
        again = run_there(["sh", "-c", command + " --plain --no-session --device ref --max-tokens 2", "sh"], input=b"hello\n")
        same((again.returncode, b"moechat-demo on plain C" in again.stdout), (0, True))
        same(command.startswith("moechat "), typed == "moechat")
        run(["sessions", "rm", name])


DAMAGED = b"[This message is damaged on the disk and can't be read.]"


def changed(name, file, change):
    """Changes a session's file; what it is then."""
    path = os.path.join(STORE, name, file)
    with open(path, "rb") as old:
        data = change(old.read())
    with open(path, "wb") as new:
        new.write(data)
    return data


def entry(name):
    return next(s for s in json.loads(run(["sessions", "--json"]).stdout)["sessions"] if s["name"] == name)


def test_a_damaged_transcript_is_offered():
    for text in ("one", "two", "six"):
        ask(text, "--session", "broken", *script(ECHO))
    path = os.path.join(STORE, "broken", "transcript.jsonl")
    damaged = changed("broken", "transcript.jsonl", lambda old: old.replace(b"two", b"2wo", 1))  # the message, not its answer
    same(entry("broken")["damaged"], None)  # the file's size is right, and nothing else was looked at
    shown = run(["sessions", "show", "broken"])
    expect(b"1 of 6 messages can't be read" in shown.stderr and b"6 messages," not in shown.stdout + shown.stderr, shown)
    same(shown.stdout, b"You: one\nAssistant: one\nYou: " + DAMAGED + b"\nAssistant: two\nYou: six\nAssistant: six\n")
    messages = json.loads(run(["sessions", "export", "broken", "json"]).stdout)["messages"]
    same([m.get("damaged") for m in messages], [None, None, True, None, None, None])
    expect(b"## You\n\n" + DAMAGED + b"\n\n## Assistant\n\ntwo\n" in run(["sessions", "export", "broken"]).stdout, "the damage has its place")
    same(run(["sessions", "verify", "broken"]).returncode, 1)
    for form in ("md", "txt", "json"):  # what can be read is there, and the status says that it is not all
        exported = run(["sessions", "export", "broken", form])
        expect(exported.returncode == 1 and exported.stdout.count(b"one") > exported.stdout.count(b"two") == 1, exported)
    same((run(["sessions", "compact", "broken"]).returncode, run(["sessions", "prune", "broken"]).returncode), (1, 1))
    expect("Session \"broken\" is damaged. /delete broken once more" in typed("/delete broken\r/quit\r"), "what would be deleted")
    t = chat(ECHO, "--session", "broken", columns=400)
    expect(b"left as it is" in t.output and b"1 of 6 messages can't be read" in t.output and b"broken-recovered" in t.output, "said: %r" % t.output)
    expect(b"reads 14 of its 25 tokens again, and the words in the place of what is lost" in t.output, "said: %r" % t.output)
    t.send("three\r")
    t.wait("three\r\n", "You:")
    t.send("/stats\r")
    t.wait("read (prefill)", "You:")
    read = int(re.search(rb"read \(prefill\) +([0-9]+) tokens", t.output).group(1))
    leave(t)
    with open(path, "rb") as file:
        same(file.read(), damaged)
    end = b"You: one\nAssistant: one\nYou: " + DAMAGED + b"\nAssistant: two\nYou: six\nAssistant: six\nYou: three\nAssistant: three\n"
    expect(run(["sessions", "show", "broken-recovered"]).stdout.endswith(end), "it went on")
    whole = ask("x", "--session", "broken-recovered", *script(ECHO))
    same(read, whole["cached_tokens"] - 11 - 6)  # not the exchange before it, and the answer was said
    same(run(["sessions", "compact", "broken-recovered"]).returncode, 0)
    expect(end in run(["sessions", "show", "broken-recovered"]).stdout, "nothing was dropped")


def test_a_recovered_session_is_there_once_it_is_kept():
    """Nothing was said in it: leaving it leaves nothing. /fork and /save keep all of it, what is lost has its place."""
    for text in ("one", "two", "six"):
        ask(text, "--session", "mended", *script(ECHO))
    changed("mended", "transcript.jsonl", lambda old: old.replace(b"two", b"2wo", 1))
    whole = b"You: one\nAssistant: one\nYou: " + DAMAGED + b"\nAssistant: two\nYou: six\nAssistant: six\n"

    def said(*typed, session="mended"):
        result = run(["--plain", "--session", session] + script(ECHO), stdin="".join(line + "\n" for line in typed).encode(), together=True)
        same(result.returncode, 0)
        return result.stdout.decode()

    nothing = 'Nothing was added, and nothing saved as "mended-recovered".'
    for typed, words in ((("/new",), "New conversation. " + nothing), (("/load other",), nothing), ((), nothing)):
        ask("hi", "--session", "other", *script(ECHO))
        text = said(*typed)
        expect(words in text and "returns to it" not in text and "mended-recovered" not in names(), text)
    text = said("/fork whole")
    expect('Each turn is now saved as "whole".' in text and "stays as it is, /load" not in text, text)
    same([name for name in names() if name.startswith("mended")], ["mended"])
    expect(run(["sessions", "show", "whole"]).stdout.endswith(whole), "all of it")
    expect('Saved as "mended-recovered"; moechat --session mended-recovered resumes it.' in said("/save"), "it is kept")
    expect(run(["sessions", "show", "mended-recovered"]).stdout.endswith(whole), "all of it")
    text = said("/new", session="unborn")
    expect("unborn" not in text.split("New conversation.")[1] and "unborn" not in names(), text)


def test_the_tree_is_as_wide_as_the_terminal():
    long = "word " * 300 + "end"
    ask(long, "--session", "wide", *script(ECHO))
    same(run(["sessions", "tree", "wide"]).stdout.decode(), "* 1  You: %s\n* 2  Assistant: %s\n" % (long, long))
    for columns in (40, 80, 120):
        t = Terminal(["sessions", "tree", "wide"], columns=columns)
        same(t.finish(), 0)
        lines = [line for line in t.output.decode().split("\r\n") if line]
        same([(len(line), line.endswith("...")) for line in lines], [(columns, True)] * 2)


def test_a_damaged_manifest_keeps_what_can_be_checked():
    """One digit of session.json: all that it says of lines and rows has sums of its own. Half of it: nothing tells."""
    for name in ("digit", "half"):
        lines(name, "one", "two", "/undo", "three")
    changed("digit", "session.json", lambda old: re.sub(b'"updated":1', b'"updated":2', old))
    changed("half", "session.json", lambda old: old[:len(old) // 2])
    same([entry(name)["damaged"] for name in ("digit", "half")], [True, True])
    whole = b"You: one\nAssistant: one-a\nYou: three\nAssistant: three-c\n"
    for name, cached, why in (("digit", True, b"its session.json is damaged, but all that it names of the transcript is there"),
                              ("half", False, b"its session.json is damaged, and nothing else says what its KV cache is of; ")):
        shown = run(["sessions", "show", name])
        same(shown.stdout, whole)
        expect(b"two-b" in run(["sessions", "export", name]).stdout, "the other branch")
        result = run(["run", "--json", "-p", "x", "--session", name] + script(ECHO))
        expect(why in result.stderr, "said: %r" % result.stderr)
        same((result.returncode, json.loads(result.stdout)["cached_tokens"] > 0), (0, cached))
        expect(b"two-b" in run(["sessions", "export", name + "-recovered"]).stdout, "the other branch stays")


def test_a_damaged_session_without_a_transcript_has_no_age():
    ask("one", "--session", "ageless", *script(ECHO))
    changed("ageless", "session.json", lambda old: old[:len(old) // 2])
    os.unlink(os.path.join(STORE, "ageless", "transcript.jsonl"))
    line = next(line for line in run(["sessions"]).stdout.decode().splitlines() if line.startswith("ageless"))
    expect("at an unknown time, damaged" in line and "days ago" not in line, line)
    same((entry("ageless")["updated"], entry("ageless")["damaged"]), (0, True))


def sealed(body):
    """A line with its sum, over what stands behind the comma that follows it."""
    xxhash = ctypes.CDLL(ctypes.util.find_library("xxhash") or "libxxhash.so.0")
    xxhash.XXH3_64bits.restype = ctypes.c_uint64
    return b'{"sum":"%016x",%s\n' % (xxhash.XXH3_64bits(body, ctypes.c_size_t(len(body))), body)


def numbered(name, part, number, *files):
    """Gives a part that number, with sums that are right."""
    def anew(old):
        bodies = [line[len(b'{"sum":"0123456789abcdef",'):] for line in old.splitlines()]
        return b"".join(sealed(re.sub(b'"part":%d,' % part, b'"part":%d,' % number, body)) for body in bodies)

    for file in files:
        changed(name, file, anew)


def test_a_session_whose_numbers_run_out_goes_on():
    lines("high", "one", "two")
    numbered("high", 3, 4294967293, "transcript.jsonl")  # the last answer
    changed("high", "session.json", lambda old: old[:len(old) // 2])
    for name, words in (("high", b"go on"), ("high-recovered", b"and on")):
        result = run(["run", "--session", name, "-p", words.decode()] + script(ECHO))
        same((result.returncode, result.stdout), (0, words))
        expect(b"not saved" not in result.stderr, result.stderr)
    shown = run(["sessions", "show", "high-recovered"]).stdout
    expect(b"Assistant: and on" in shown and b"You: go on" in shown and b"You: one" in shown, shown)
    same(re.findall(b'"part":([0-9]+)', run(["sessions", "export", "high-recovered", "json"]).stdout), [b"%d" % n for n in range(8)])
    lines("last", "one", "two")
    numbered("last", 3, 4294967293, "transcript.jsonl")
    transcript = open(os.path.join(STORE, "last", "transcript.jsonl"), "rb").read().splitlines()[3]

    def named(old):
        body = re.sub(b'"part":3,', b'"part":4294967293,', old.rstrip(b"\n")[len(b'{"sum":"0123456789abcdef",'):])
        body = re.sub(b'"next_part":4', b'"next_part":4294967294', body)
        at = body.index(b'"part":4294967293')
        line = transcript + b"\n"
        body = body[:at] + re.sub(b'"bytes":[0-9]+,"sum":"[0-9a-f]+"', b'"bytes":%d,"sum":"%s"' % (len(line), line[8:24]), body[at:], 1)
        return sealed(body)

    changed("last", "session.json", named)
    shown = run(["sessions", "show", "last"]).stdout
    expect(all(b"Assistant: " + word in shown for word in (b"one", b"two")), shown)
    result = run(["run", "--session", "last", "-p", "go on"] + script(ECHO))
    same((result.returncode, result.stdout), (0, b"go on"))
    expect(b"not saved" not in result.stderr and b'continues as "last-recovered"' in result.stderr, result.stderr)
    same(re.findall(b'"part":([0-9]+)', run(["sessions", "export", "last-recovered", "json"]).stdout), [b"%d" % n for n in range(6)])
    result = run(["--plain", "--session", "last-recovered"] + script(ECHO), stdin=b"more\n/retry\n/undo\n/redo\n/tree\n")
    same(result.returncode, 0)  # a chat that counted beyond them went round for ever


def test_a_session_of_a_newer_moechat_is_refused_and_left():
    lines("newer", "one", "two")
    while names()[0] != "newer":  # another one was used in the same second
        lines("newer", "three")
    folder = os.path.join(STORE, "newer")

    def made_newer(old):
        body = old.rstrip(b"\n")[len(b'{"sum":"0123456789abcdef",'):]
        same(sealed(body), old)
        return sealed(re.sub(b'"format":[0-9]+', b'"format":7', body))

    changed("newer", "session.json", made_newer)
    before = {file: open(os.path.join(folder, file), "rb").read() for file in os.listdir(folder)}
    there = sorted(names())
    said = b'session "newer" is of a newer moechat: its format is 7, and this one knows up to 2; update moechat to open it\n'
    for command in (["sessions", "show", "newer"], ["sessions", "export", "newer"], ["sessions", "verify", "newer"], ["sessions", "compact", "newer"],
                    ["run", "-p", "x", "--session", "newer"] + script(ECHO), ["run", "-p", "x", "--continue"] + script(ECHO),
                    ["--plain", "--session", "newer"] + script(ECHO)):
        result = run(command)
        same((command[:2], result.returncode, result.stderr), (command[:2], 5, b"moechat: " + said))
    told = entry("newer")
    same(told["damage"], "of a newer moechat: format 7, this one reads up to 2")
    expect(b"can't be opened (of a newer moechat: format 7" in run(["sessions", "list"]).stdout, run(["sessions", "list"]).stdout)
    result = run(["--plain", "--no-session"] + script(ECHO), stdin=b"/load newer\n", together=True)
    expect(said in result.stdout, result.stdout)
    same(sorted(names()), there)
    for file, bytes_before in before.items():
        if file != "lock":
            expect(open(os.path.join(folder, file), "rb").read() == bytes_before, file + " is as it was")
    same(run(["sessions", "rm", "newer"]).returncode, 0)


def test_few_open_files_are_told_and_leave_nothing():
    before = sorted(os.listdir(STORE))
    for most in (5, 6, 8, 12, 31):
        limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        for command in (["run", "-p", "x", "--session", "few"], ["--plain", "--session", "few"]):
            result = run(command + script(ECHO), preexec_fn=limit)
            same((result.returncode, result.stdout), (1, b""))
            same(result.stderr, b"moechat: no more than %d files may be open at once; a conversation needs 32: see ulimit -n\n" % most)
    same(sorted(os.listdir(STORE)), before)
    # Where only the soft limit is low it is raised.
    limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (6, 64))
    result = run(["run", "-p", "x", "--session", "few"] + script(ECHO), preexec_fn=limit)
    same((result.returncode, result.stdout), (0, b"x"))


def test_a_lost_beginning_is_no_answer():
    """What stands before a message is taken for an answer, but no conversation begins with one."""
    for text in ("one", "two"):
        ask(text, "--system", "Be kind.", "--session", "headless", *script(ECHO))
    changed("headless", "transcript.jsonl", lambda old: old.replace(b"one", b"0ne"))
    os.unlink(os.path.join(STORE, "headless", "session.json"))
    same(run(["run", "-p", "x", "--session", "headless"] + script(ECHO)).returncode, 0)
    shown = run(["sessions", "show", "headless-recovered"]).stdout
    expect(shown.endswith(b"You: two\nAssistant: two\nYou: x\nAssistant: x\n"), "it goes on: %r" % shown)


def test_rows_that_the_cap_took_are_told_from_others():
    ask("one", "--session", "given-up", *script(ECHO))
    size = entry("given-up")["kv_bytes"]
    ask("one", "--session", "newer", "--kv-cap", str(size + size // 2), *script(ECHO))
    same((entry("given-up")["kv_bytes"], entry("given-up")["damaged"]), (0, None))
    result = run(["run", "-p", "x", "--session", "given-up"] + script(ECHO))
    expect(b"But its KV cache was dropped to keep --kv-cap; your next" in result.stderr, "said: %r" % result.stderr)
    expect(b"not saved" not in run(["run", "-p", "x", "--session", "given-up"] + script(ECHO)).stderr, "it has one again")


def test_rows_that_were_never_saved_have_no_other_format():
    model = ["-m", os.path.join(ROOT, "tests", "golden", "gguf-qwen35-chat", "checkpoint"), "--device", "ref", "--max-tokens", "6", "--seed", "5"]
    for cap, why in (["--kv-cap", "1"], b"its KV cache was dropped to keep --kv-cap"), ([], b"its KV cache has another number format (--kv)"):
        name = "format-" + "-".join(cap)
        ask("one", "--session", name, *model, *cap)
        result = run(["run", "-p", "two", "--session", name, "--kv", "f32"] + model)
        expect(b"But " + why in result.stderr, "said: %r" % result.stderr)


def test_the_list_sees_what_is_missing_or_cut_off():
    for name in ("list-a", "list-b", "list-c", "list-d"):
        ask("one", "--session", name, *script(ECHO))
    os.unlink(os.path.join(STORE, "list-a", "kv.bin"))
    changed("list-b", "kv.bin", lambda old: old[:-1])
    changed("list-c", "transcript.jsonl", lambda old: old[:-1])
    shown = run(["sessions"]).stdout.decode()
    for name, why in (("list-a", "kv.bin is missing"), ("list-b", "kv.bin is cut off"), ("list-c", "transcript.jsonl is cut off")):
        expect(re.search("%s  just now, damaged \\(%s\\), 2 messages, " % (name, re.escape(why)), shown), shown)
        same((entry(name)["damaged"], entry(name)["damage"]), (True, why))
    same((entry("list-d")["damaged"], "damage" in entry("list-d")), (None, False))


def test_words_for_one_are_no_plural():
    t = chat("turn\nprefill 60000\n", "--session", "single")
    stop_while_read(t, "go")
    leave(t)
    changed("single", "transcript.jsonl", lambda old: old.replace(b'"go"', b'"og"'))
    expect(b"1 of 1 message can't be read" in run(["sessions", "show", "single"]).stderr, "one message")
    ask("one", "--session", "pair", *script(ECHO))
    changed("pair", "transcript.jsonl", lambda old: old.splitlines(True)[0])
    changed("pair", "session.json", lambda old: b"")
    expect(b"; 1 message of its transcript can be read, which is all" in run(["sessions", "show", "pair"]).stderr, "one line")


def test_lost_manifest_and_compact():
    name = "lost"
    ask("one", "--session", name, *script(ECHO))
    os.unlink(os.path.join(STORE, name, "session.json"))
    result = run(["sessions", "verify", name])
    expect(result.returncode == 1 and b"session.json is missing, so that " in result.stderr and not result.stdout, result)
    before = names()
    t = chat(ECHO, "--session", name, columns=300)
    expect(b"session.json is missing, and nothing else says what its KV cache is of; " in t.output, "said: %r" % t.output)  # not: a different tokenizer
    leave(t)
    same(names(), before)  # no name-recovered: the lines are sound
    same(run(["sessions", "compact", name]).returncode, 0)
    expect(os.path.exists(os.path.join(STORE, name, "session.json")), "it has a manifest again")
    os.unlink(os.path.join(STORE, name, "session.json"))
    path = os.path.join(STORE, name, "transcript.jsonl")
    with open(path, "ab") as file:
        file.write(b'{"sum":"0"}\n')
    result = run(["sessions", "compact", name])
    expect(result.returncode == 1 and b"is damaged and was not compacted" in result.stderr, "said: %r" % result.stderr)
    with open(path, "rb") as file:
        damaged = file.read()
    with open(path, "wb") as file:
        file.write(damaged.replace(b'"one"', b'"eno"', 1))  # the message, not its answer
    result = run(["run", "-p", "x", "--session", name] + script(ECHO))
    expect(result.returncode == 0 and b"1 message of its transcript can be read, 2 can't" in result.stderr, "said: %r" % result.stderr)
    same(run(["sessions", "show", name]).stdout, b"You: " + DAMAGED + b"\nAssistant: one\n")
    expect(run(["sessions", "show", "lost-recovered"]).stdout.endswith(b"You: " + DAMAGED + b"\nAssistant: one\nYou: x\nAssistant: x\n"), "it went on")
    result = run(["sessions", "compact", "nobody"])
    expect(result.returncode == 1 and b'no session "nobody"' in result.stderr, "said: %r" % result.stderr)


def test_no_place_for_sessions():
    home = environment()
    del home["HOME"], home["XDG_DATA_HOME"]
    t = chat(ECHO, env=home, columns=200)
    expect(b"is not saved: nowhere to save sessions" in t.output, "said: %r" % t.output)
    t.send("one\r")
    t.wait("one\r\n", "You:")
    t.send("/sessions\r")
    t.wait("nowhere to save sessions: neither HOME nor", "You:")
    leave(t)
    same(run(["run", "-p", "x", "--session", "s"] + script(ECHO), env=home).returncode, 1)
    blocked = os.path.join(SCRATCH, "no-folder")
    with open(blocked, "w"):
        t = chat(ECHO, env=environment(XDG_DATA_HOME=blocked), columns=200)
    t.send("one\r")
    t.wait("one\r\n", "conversation not saved: cannot create the session: " + blocked, "Not a directory", "You:")
    t.send("\x04")
    t.wait("once more drops them.", "You:")
    t.send("\x04")
    same(t.finish(), 1)  # not what was asked for


def test_run_tells_of_a_system_message_that_another_keeps_out():
    said = [run(["run", "-p", "x", "--session", "kind", "--system", text] + script(ECHO)).stderr for text in ("Be kind.", "Be kind.", "Be brief.")]
    same([b"--system is ignored" in words for words in said], [False, False, True])


def test_nothing_is_saved_when_asked():
    before = names()
    t = chat(ECHO, "--no-session")
    t.send("one\r")
    t.wait("one\r\n", "You:")
    leave(t)
    run(["run", "-p", "x"] + script(ECHO))
    same(names(), before)
    same(run(["run", "-p", "x", "--no-session", "--continue"] + script(ECHO)).returncode, 2)


def test_jsonl_has_a_line_a_token():
    result = run(["run", "--jsonl", "-p", "hi"] + script("turn\ncount 3 1 4096\ntoken a\ntoken \\xff\n"))
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    same([line.get("text") for line in lines], ["a", "\ufffd", "a\ufffd"])
    same((lines[1]["text_hex"], lines[2]["generated_tokens"], lines[2]["session"]), ("ff", 2, None))
    expect(all("experts" in line and "seconds" in line and "prefilled_tokens" in line for line in lines), "figures")


def test_the_demo_model_remembers():
    """The promise of the whole: nothing of the old turns is computed again."""
    model = ["-m", DEMO, "--temp", "0"]
    kernels = environment(XDG_CACHE_HOME=os.environ.get("XDG_CACHE_HOME", SCRATCH + "/cache"))
    t = Terminal(model + ["--plain", "--session", "zoe"], columns=200, env=kernels)
    t.wait("You:")
    t.send("My name is Zoe.\r")
    t.wait("Assistant:", "You:")
    wait_saved("zoe", 2)
    t.process.kill()
    t.finish()
    for question in range(2):
        result = run(["run", "--json", "-p", "What is my name?", "--continue"] + model, env=kernels)
        got = json.loads(result.stdout)
        expect("Zoe" in got["text"], "it said %r" % got["text"])
        expect(got["prefilled_tokens"] < 16 and got["cached_tokens"] >= 14, "tokens: %r" % got)
        same(got["cached_tokens"] + got["prefilled_tokens"] + got["generated_tokens"] + 1, got["context_used"])
    same(run(["sessions", "verify", "zoe"]).returncode, 0)
    t = Terminal(model + ["--plain", "--continue"], columns=200, env=kernels)
    t.wait('Session "zoe": 6 messages', "model", "Nothing needs to be read again", "You: What is my name?", "You:")
    t.send("/retry\r")
    t.wait("Assistant:", "Zoe", "You:")
    t.send("/stats\r")
    t.wait("read (prefill)   0 tokens", "You:")
    leave(t)


SLOW = r"""
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <stdio.h>
#include <unistd.h>
// A slow disk from the second time on that rows are written, which is the answer's: it was told of before.
int fsync(int fd)
{
    static int times;
    char link[40], path[4096] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (readlink(link, path, sizeof path - 1) > 0 && strstr(path, "/kv") && times++ > 0) {
        long ms = atol(getenv("SLOW_MS"));
        nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
    }
    return (int)syscall(SYS_fsync, fd);
}
"""


def slow_disk(ms, **more):
    source, library = os.path.join(SCRATCH, "slow.c"), os.path.join(SCRATCH, "slow.so")
    if not os.path.exists(library):
        with open(source, "w") as out:
            out.write(SLOW)
        subprocess.run(["cc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", library, source], check=True)
    return environment(LD_PRELOAD=library, SLOW_MS=str(ms), **more)


def test_commands_wait_for_the_save_of_the_first_answer():
    data = os.path.join(SCRATCH, "slow")
    env = slow_disk(300, XDG_DATA_HOME=data)

    def said(*typed):
        shutil.rmtree(data, ignore_errors=True)
        same(run(["run", "-p", "x", "--session", "other"] + script(ECHO), env=environment(XDG_DATA_HOME=data)).returncode, 0)
        result = run(["--plain"] + script(ECHO), stdin="".join(line + "\n" for line in typed).encode(), env=env, together=True)
        same((result.returncode, b"moechat: " in result.stdout), (0, False))
        return result.stdout.decode()

    name = r'"[-0-9]+-first"'
    left = r'The old one is kept as (%s); /load [-0-9]+-first returns to it\.' % name
    for typed, words in (("/fork two", name + r' stays as it is, /load returns to it\. Each turn is now saved as "two"'),
                         ("/new", "New conversation\\. " + left), ("/clear", "New conversation\\. " + left), ("/load other", left),
                         ("/rename mine", 'It was ' + name + r' before\. Each turn is saved as "mine"'),
                         ("/save mine", 'It was ' + name + r' before\. Each turn is saved as "mine"')):
        out = said("first", typed)
        expect(re.search(words, out), "%s after the first answer said %r" % (typed, out))
    listed = said("first", "/sessions")
    later = run(["sessions"], env=environment(XDG_DATA_HOME=data)).stdout.decode()
    own = re.search(r"([-0-9]+-first) \(open\)\s+(just now, [^\n]*)", listed)
    expect(own and own.group(2) in later, "the open session, and what is listed of it later: %r, %r" % (listed, later))


def test_json_is_refused_by_the_verbs_that_print_none():
    env = environment(XDG_DATA_HOME=SCRATCH + "/no-json")
    same(run(["run", "-p", "one", "--session", "kept"] + script(ECHO), env=env).returncode, 0)
    for args in (["tree", "kept"], ["verify", "kept"], ["compact"], ["compact", "kept"], ["prune", "kept"], ["rename", "kept", "other"],
                 ["export", "kept", "txt"], ["rm", "kept"]):
        result = run(["sessions"] + args + ["--json"], env=env)
        same((result.returncode, result.stdout), (2, b""))
        same(result.stderr, b"moechat: sessions " + args[0].encode() + b" has no --json; list and show have, and sessions export NAME json\n")
    same([s["name"] for s in json.loads(run(["sessions", "--json"], env=env).stdout)["sessions"]], ["kept"])  # rm did nothing


def test_what_save_begins_goes_on_and_says_so():
    """--no-session ends with /save: another conversation is saved, too, and nobody is left to find that out."""
    env = environment(XDG_DATA_HOME=SCRATCH + "/saved-after-all")
    told = "It is saved, too: /save and /load end --no-session."
    for typed, says in (("one\n/save kept\n/new\ntwo\n", True), ("one\n/new\ntwo\n", False), ("/load kept\n/new\nthree\n", True)):
        said = run(["--plain", "--no-session"] + script(ECHO), stdin=typed.encode(), env=env, together=True).stdout.decode()
        same(told in said, says)
    names = [s["name"] for s in json.loads(run(["sessions", "--json"], env=env).stdout)["sessions"]]
    same((len(names), "kept" in names), (3, True))


def test_a_fork_over_the_cap_says_where_it_goes_on():
    """What the cap took is said besides, not in its place."""
    only = ", over --kv-cap (20 B; 88 would have kept it); only the text is saved\n"
    for typed, args, words in (("/fork apart", ["--session", "over-cap"], '"over-cap" stays as it is, /load returns to it. Each turn is now saved as "apart".'),
                               ("/save late", ["--no-session"], 'Each turn is now saved as "late".')):
        result = run(["--plain", "--kv-cap", "20"] + args + script(ECHO), stdin=("one\n" + typed + "\n").encode(),
                     env=environment(XDG_DATA_HOME=SCRATCH + "/over-cap"), together=True)
        same(result.returncode, 0)
        expect(only + words + "\n" in result.stdout.decode(), "%s said %r" % (typed, result.stdout))
        told = "of conversation (16.4 KB when full; beyond 5, in many turns sooner, only its text is saved, see --kv-cap)"
        same(told in result.stdout.decode(), "--no-session" not in args)


def test_a_command_that_waits_for_a_save_is_stopped_and_queued():
    data = os.path.join(SCRATCH, "slow-lines")
    t = chat(ECHO, env=slow_disk(2500, XDG_DATA_HOME=data))
    t.send("first\r")
    t.wait("Assistant:", "first", "You:")
    t.send("/clear\r")
    t.wait("/clear\r\n")
    t.interrupt()
    t.wait("Stopped; /clear is not done.", "You:")
    t.send("/delete %s\r" % [n for n in os.listdir(os.path.join(data, "moechat", "sessions")) if n.endswith("-first")][0])
    t.wait("That is the conversation you are in", "You:")
    leave(t)
    s = Screen(script(ECHO), columns=100, env=slow_disk(300, TERM="linux", MOECHAT_CLOCK="fake", XDG_DATA_HOME=os.path.join(SCRATCH, "slow-screen")))
    s.until("Type /help")
    s.send("first\r/clear\r")
    s.until("New conversation. The old one is kept as")
    expect("-first\"" in s.text(), s.text())
    s.send("\x04")
    same(s.finish(), 0)


def test_a_session_that_another_program_changes_is_left_alone_and_forked():
    for how, words in (("cut", 'session "d" was changed by another program (its transcript.jsonl is shorter than it was)'),
                       ("gone", 'the folder of session "d" was removed or moved')):
        data = os.path.join(SCRATCH, "changed-" + how)
        folder = os.path.join(data, "moechat", "sessions", "d")
        t = chat(ECHO, "--session", "d", columns=300, env=environment(XDG_DATA_HOME=data))
        for typed in ("first", "second", "/undo", "third"):
            t.send(typed + "\r")
            t.wait("Took back" if typed == "/undo" else "tokens/s", "You:")
        if how == "gone":
            os.rename(folder, os.path.join(data, "moved"))  # at once, for the last save may still be under way
        else:
            os.truncate(os.path.join(folder, "transcript.jsonl"), 100)
        t.send("fourth\r")
        t.wait("conversation not saved: " + words + "; /fork NAME saves this conversation under a new name", "You:")
        t.send("/save\r")
        t.wait("conversation not saved: " + words, "You:")
        t.send("/fork other\r")
        t.wait('Each turn is now saved as "other".', "You:")
        leave(t)
        tree = run(["sessions", "tree", "other"], env=environment(XDG_DATA_HOME=data)).stdout.decode()
        for word in ("first", "second", "third", "fourth"):
            expect(word in tree, "the fork lacks %s: %r" % (word, tree))
        found = json.loads(run(["sessions", "list", "--json"], env=environment(XDG_DATA_HOME=data)).stdout)["sessions"]
        expect([s for s in found if s["name"] == "other" and s["kv_bytes"] > 0], "the fork has rows: %r" % found)


def test_what_is_not_there_is_said():
    """Commands before anything was said or saved; what each answers stands in a line or two, and nothing else does."""
    home = dict(HOME=SCRATCH, XDG_DATA_HOME=SCRATCH + "/nothing-yet", XDG_STATE_HOME=SCRATCH + "/nothing-yet")
    asked = (("/sessions", "No saved sessions."), ("/load", "/load takes the name of a session:\nNo saved sessions."),
             ("/delete", "/delete takes the name of a session; /sessions lists them."), ("/redo x", "/redo takes a number of messages."),
             ("/tree", "Nothing was said yet."), ("/heat", "No experts used yet."), ("/undo", "No message to take back."),
             ("/retry", "No message to answer again."), ("/save", "Nothing to save yet; each turn will be saved."),
             ("/edit 3", "No such message to edit; /edit takes its number from the end and the new text."),
             ("/keys zzz", "Keys\n  No such key."), ("/help zzz", "Nothing found; /help lists all commands and keys."))
    result = run(["--plain"] + script("turn\necho\n"), "".join(command + "\n" for command, _ in asked).encode(), env=environment(**home), together=True)
    said = result.stdout.decode()
    same(said[said.index("for help.\n") + 10:], "".join(answer + "\n" for _, answer in asked))
    for args, note in ((["--session", "talk"], 'New session "talk".'), (["--continue"], 'Session "talk": 2 messages, 9 tokens, used just now, model fake.')):
        result = run(["run", "-p", "hi"] + args + script("turn\necho\n"), env=environment(**home))
        same((result.returncode, result.stderr.decode()), (0, "moechat: %s\n" % note))
    same(run(["--plain", "--continue"] + script("turn\necho\n"), b"", env=environment(**dict(home, XDG_DATA_HOME=SCRATCH + "/none"))).stderr.count(
        b"No session yet; this starts one."), 1)
    result = run(["--plain"] + script("echo\n"), b"/system A bird.\n/tree\n", env=environment(**home))
    expect(b"* 1  System: A bird.\n" in result.stdout, result)  # which is a message


def test_ages_of_sessions():
    """By what was written last, where neither the manifest nor a line says when it was used."""
    home = dict(HOME=SCRATCH, XDG_DATA_HOME=SCRATCH + "/ages", XDG_STATE_HOME=SCRATCH + "/ages")
    same(run(["run", "-p", "hi", "--session", "first"] + script("turn\necho\n"), env=environment(**home)).returncode, 0)
    sessions = SCRATCH + "/ages/moechat/sessions/"
    os.remove(sessions + "first/session.json")
    with open(sessions + "first/transcript.jsonl", "w") as file:
        file.write("what is no line\n")
    ages = ((30, "just now"), (70, "1 min ago"), (3590, "59 min ago"), (3610, "1 h ago"), (2 * 86400 - 30, "47 h ago"), (2 * 86400 + 30, "2 days ago"),
            (-3600, "just now"), (400 * 86400 + 30, "400 days ago"))
    now = time.time()
    for i, (seconds, _) in enumerate(ages):
        shutil.copytree(sessions + "first", sessions + "s%d" % i)
        os.utime(sessions + "s%d/transcript.jsonl" % i, (now - seconds, now - seconds))
    shutil.rmtree(sessions + "first")
    said = run(["sessions"], env=environment(**home)).stdout.decode()
    told = dict(re.findall(r"(?m)^ *(s\d)\s+(.*), damaged; /load or --session offers what can be read$", said))
    same(told, {"s%d" % i: words for i, (_, words) in enumerate(ages)})
    same([line.split()[0] for line in said.splitlines() if line.strip()][-1], "s7")  # the oldest


if __name__ == "__main__":
    main(globals())
