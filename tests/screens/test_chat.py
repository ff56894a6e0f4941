#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The chat on a terminal, with a script in the model's place."""
import fcntl
import os
import pathlib
import re
import resource
import signal
import struct
import tempfile
import termios
import time

from rig import *

ECHO = "turn\necho\n"


def chat(text, *args, **more):
    terminal = Terminal(["--plain"] + script(text) + list(args), **more)
    terminal.wait("You:")
    return terminal


def leave(terminal):
    terminal.send("\x04")
    same(terminal.finish(), 0)
    same(terminal.settings(), terminal.before)


def test_a_terminal_that_takes_nothing_holds_no_signal_up():
    t = chat("turn\nrepeat 200000 word \n")
    t.send("go\r")
    time.sleep(2)  # nobody reads what it writes
    t.process.terminate()
    end = time.monotonic() + DEADLINE
    while t.process.poll() is None and time.monotonic() < end:
        time.sleep(0.1)
    expect(t.process.poll() in (-signal.SIGTERM, 143), t.process.poll())  # 143: the terminal had room when it looked
    same(t.settings(), t.before)


def test_a_turn():
    t = chat("name tiny\nturn\ncount 3 1 4096\ntext Hello there, friend.\n", columns=120)
    expect(b"tiny on a script" in t.output, "the model is named")
    expect(b"4096 tokens" in t.output and b"/help" in t.output, "context and help are named")
    t.send("hi\r")
    t.wait("Assistant:", "Hello there, friend.\r\n", "3 tokens", "tokens/s", "9 hits, 3 misses, 12.3 KB read",
           "context 10 of 4096", "prefetch", "off")
    t.wait("You:")
    leave(t)


def test_enter_rings_no_bell():
    t = chat("turn\necho\nturn\necho\n")
    for text in ("one", "two"):
        t.send(text + "\r")
        t.wait("Assistant:", text + "\r\n", "You:")
    expect(b"\a" not in t.output, repr(t.output[-300:]))
    t.send("\x07")  # one that is asked for is heard
    t.wait("\a")
    leave(t)


def test_the_next_turn_feeds_only_itself():
    t = chat("turn\ntext one\nturn\ntext two\n")
    t.send("a\r")
    t.wait("one", "context 7 of", "You:")  # begin, role, a, end, role; one, end
    t.send("b\r")
    t.wait("two", "context 13 of", "You:")
    leave(t)


def test_characters_need_no_locale():
    for names in (dict(LC_ALL="C"), dict(LC_ALL="", LANG="C"), dict(LC_ALL="", LC_CTYPE="POSIX", LANG=""), dict(LC_ALL="no_SUCH")):
        t = chat("turn\necho\n", env=environment(**names))
        t.send("\u65e5\u672c\u00e9\x7f!\r")
        t.wait("Assistant:", "\u65e5\u672c!\r\n", "You:")
        leave(t)


def test_a_message_is_one_in_the_other_faces_history_too():
    """What begins with ! is a message in plain lines; the full screen, which reads the same history, would have the shell run it."""
    env = environment(XDG_STATE_HOME=tempfile.mkdtemp(dir=SCRATCH))
    t = Terminal(["--plain", "--no-session"] + script("turn\necho\nturn\necho\n"), env=env)
    t.wait("You:")
    t.send("!touch x\r")
    t.wait("!touch x\r\n", "!touch x", "tokens/s", "You:")
    t.send("\x1b[A")
    t.wait("\\!touch x")
    t.send("\r")
    t.wait("Assistant:", "!touch x", "tokens/s", "You:")
    t.send("\x04")
    same(t.finish(), 0)
    with open(env["XDG_STATE_HOME"] + "/moechat/history") as file:
        same([line for line in file if line.startswith("!")], [])


def test_what_the_history_leaves_out_is_said_once():
    state = os.path.join(SCRATCH, "full")
    os.makedirs(os.path.join(state, "moechat"))
    os.symlink("/dev/full", os.path.join(state, "moechat", "history"))
    t = chat("turn\necho\nturn\necho\n", env=environment(XDG_STATE_HOME=state))
    t.send("one\r")
    t.wait("Not kept in the history of later chats: No space left", "Assistant:", "one", "You:")
    t.send("two\r")
    t.wait("Assistant:", "two", "You:")
    same(t.output.count(b"later chats"), 1)
    leave(t)


def test_ctrl_c_stops_and_keeps():
    t = chat("turn\ntext partial answer\nhang\nturn\necho\n")
    t.send("go\r")
    t.wait("partial answer")
    t.interrupt()
    t.wait("Stopped; what it said is kept", "context 9 of", "You:")
    t.send("more\r")
    t.wait("Assistant:", "more\r\n", "You:")
    leave(t)


def test_ctrl_c_before_the_answer_leaves_the_message():
    t = chat("turn\nprefill 60000\nturn\necho\n")
    t.send("go\r")
    t.wait("go")
    time.sleep(0.3)
    t.interrupt()
    t.wait("Stopping ...", "Stopped before the answer; the message stays, /retry answers it", "You:")
    t.send("/fork other\r")  # nothing of the message is the conversation's, nor need it ever be
    t.wait("Nothing to fork yet: your message has no answer; /retry answers it, a new", "message replaces it.", "You:")
    t.send("/retry\r")
    t.wait("You: go", "Assistant:", "go\r\n", "You:")
    leave(t)


def test_a_stopped_prompt_goes_on():
    # The demo with room for few experts, so that the prompt is one group: nothing of it has passed all layers.
    t = Terminal(["--plain", "--no-session", "-m", ROOT + "/models/demo", "--expert-cache", "4M", "--seed", "1", "--temp", "0",
                  "--max-tokens", "1"], columns=100, env=environment(ASAN_OPTIONS="detect_leaks=0:intercept_tls_get_addr=0:use_sigaltstack=0"))  # PoCL's are not ours
    t.wait("You:")
    t.send(" ".join("word%d is here," % i for i in range(500)) + "\r")
    t.wait("Reading prompt:")
    stopped = time.monotonic()
    t.interrupt()
    t.wait("Stopping ...", "% of the work on ", "tokens done, which is kept until you leave", "You:")
    expect(time.monotonic() - stopped < 5, "a stop is prompt, on a busy machine, too")
    share = int(re.search(rb"Stopped with (\d+) % of the work on \d+ tokens", t.output)[1])
    expect(0 < share < 100, share)
    # At once again: nothing that was kept goes.
    for _ in range(2):
        before = len(t.output)
        t.send("/retry\r")
        t.wait("You: word0")
        t.interrupt()
        t.wait("Stopped ", "/retry", "You:")
        again = re.search(rb"Stopped with (\d+) % of the work", t.output[before:])
        expect(not again or int(again[1]) >= share, again)  # none: it had not even looked at the message
    before = len(t.output)
    t.send("/retry\r")
    t.wait("Assistant:", "max-tokens", "You:")
    progress = re.findall(rb"Reading prompt: (\d+) of (\d+) tokens", t.output[before:])
    if progress:  # seldom none: on an idle machine the rest takes a second
        expect(100 * int(progress[0][0]) >= share * int(progress[0][1]), progress[0])
    leave(t)


def test_ctrl_c_never_leaves_and_keeps_the_draft():
    t = chat(ECHO)
    t.send("my draft")
    t.interrupt()  # overtakes the keys, which must not matter
    t.wait("^C", "You:")
    for _ in range(3):
        t.interrupt()
        t.wait("/quit", "You:")
    t.send("\x1b[A")
    t.wait("my draft")
    t.send("\r")
    t.wait("Assistant:", "my draft\r\n", "You:")
    leave(t)


def test_unknown_commands_are_never_sent():
    t = chat(ECHO)
    t.send("/nonsense\r")
    t.wait("Unknown command /nonsense", "You:")
    t.send("/help\r")
    t.wait("/undo [N]", "You:")
    t.send("/keys\r")
    t.wait("Alt-Enter", "You:")
    expect(b"Assistant" not in t.output, "nothing was sent")
    t.send("//slash\r")
    t.wait("Assistant:", "/slash\r\n", "You:")
    leave(t)


def test_stop_in_a_chat():
    t = chat(ECHO + ECHO, "--stop", "END")
    t.send("one END two\r")
    t.wait("Assistant:", " one \r\n", "You:")
    t.send("/set stop two words,\\n\r")
    t.wait("stop is now two words,\\n.", "You:")
    t.send("an END and two words more\r")
    t.wait("Assistant:", " an END and \r\n", "You:")
    t.send("/set stop ,\r")
    t.wait("stop has an empty text beside a comma; \\, is a comma that is meant.", "You:")
    t.send("/set stop none\r")
    t.wait("stop is now none.", "You:")
    leave(t)


def test_lines_end_between_words():
    t = chat("turn\ntext " + "word " * 30 + "\nturn\necho\n", columns=40)
    t.send("go\r")
    t.wait("tokens/s", "You:")
    shown = t.output[t.output.index(b"Assistant:"):].decode().split("\r\n")
    expect(all(re.fullmatch(r"(\x1b\S* ?|Assistant:|word| )*", line) for line in shown[:4]), shown[:5])
    expect("wor" not in [line.split()[-1] for line in shown[:4]], shown[:5])
    leave(t)


def test_several_lines_between_quotes():
    t = chat(ECHO)
    t.send('"""one\r')
    t.wait("You:")
    t.send('/two\r')
    t.wait("You:")
    t.send('"""\r')
    t.wait("Assistant:", "one\r\n/two\r\n", "You:")
    t.send(":q\r")
    t.wait("/quit or Ctrl-D leaves", "You:")
    t.send("q/help\r")  # closes a page that there is none of
    t.wait("Not sent: without the q it is a command; typed once more, q/help is sent as a", "You:")
    t.send("q/stats\r")  # another one is asked about, too
    t.wait("Not sent: without the q it is a command; typed once more, q/stats is sent as a", "You:")
    t.send("q/helping\r")
    t.wait("Assistant:", "q/helping\r\n", "You:")
    t.send("q/help\r")
    t.wait("Not sent: without the q it is a command; typed once more, q/help is sent as a", "You:")
    t.send("q/help\r")
    t.wait("Assistant:", "q/help\r\n", "You:")
    for meanwhile, said in (("so\r", "so\r\n"), ("/think\r", "think")):  # not at once: it is asked again
        t.send("q/help\r")
        t.wait("Not sent: without the q it is a command; typed once more, q/help is sent as a", "You:")
        t.send(meanwhile)
        t.wait(said, "You:")
    t.send("q/help\r")
    t.wait("Not sent: without the q it is a command; typed once more, q/help is sent as a", "You:")
    leave(t)


def test_a_system_message_that_comes_to_the_same_has_nothing_read_again():
    for args in (["--no-session"], ["--session", "same-system"]):
        out = run(script("turn\necho\n" * 3) + ["--plain"] + args,
                  stdin=b"/system -\n/system\none\n/system -\n/stats\n/system x\n/system x\n/system -\n/stats\ntwo\n/system x\nthree\n/system x\n"
                        b"/system y\n/undo\n/system x\n/redo\n/stats\n", together=True).stdout.decode()
        said = " ".join(out.split())
        same(said.count("Nothing changed."), 3)
        same(said.count("Nothing changed; it still waits for your next message."), 1)
        same(said.count("The system message is as it was before."), 2)
        same(said.count("the whole conversation is read again"), 3)
        same(said.count("tokens again"), 0 if "--session" in args else 2)  # what /undo dropped is read back from the disk
        expect("read anew" not in said, said)
        one, two, three = re.findall(r"context (\d+) of \d+ tokens, (\d) messages", said)
        expect(one == two and int(one[0]) > 0 and three[1] == "7" and int(three[0]) > 12, said)


def test_commands():
    t = chat("turn\nsystem\ntoken  |\necho\n")
    t.send("/system Be kind.\r")
    t.wait("Done.", "You:")
    t.send("one\r")
    t.wait("Be kind. |one", "You:")
    t.send("/system Be brief.\r")
    t.wait("read again", "You:")
    t.send("two\r")
    t.wait("Be brief. |two", "You:")
    t.send("/undo\r")
    t.wait("Took back 1 of your messages; 1 remains", "You:")
    t.send("/undo x\r")
    t.wait("number", "You:")
    t.send("/retry\r")
    t.wait("You: one", "Be brief. |one", "You:")
    t.send("/set temp 0.25\r")
    t.wait("temp is now 0.25.", "You:")
    t.send("/set temp\r")
    t.wait("temp is 0.25 (from /set).", "You:")
    t.send("/sett temp 0.5\r")
    t.wait("Unknown command /sett; did you mean /set?", "You:")
    for typed, said in (("parameter num_predict 5", 'Without "parameter": /set max-tokens 5.'), ("num_predict", "another name: /set max-tokens."),
                        ("parameter temperature 0.2", "/set temp 0.2."), ("parameter num_ctx 4096", "--context"), ("nothink", "/think off"), ("verbose", "/stats")):
        t.send("/set %s\r" % typed)
        t.wait(said, "You:")
    for typed, said in (("show system", "System message: Be brief."), ("show parameters", "max-tokens"), ("regen", "did you mean /retry?"),
                        ("reset", "did you mean /new?"), ("read x", "did you mean /file?"), ("model x", "moechat MODEL_DIR")):
        t.send("/%s\r" % typed)
        t.wait(said, "You:")
    t.send('/set stop "foo"\r')
    t.wait('stop is now "foo", the quotes included.', "You:")
    t.send("/set stop bar\r")
    t.wait("stop is now bar.", "You:")
    t.send("/export yaml x\r")
    t.wait('No format "yaml"; md, json and txt are.', "You:")
    t.send("\x1b[200~/tree\rand more\r\x1b[201~\r")
    t.wait("was taken for the command /tree", "You:")
    t.send("/set temp warm\r")
    t.wait("takes a number", "You:")
    t.send("/set model x\r")
    t.wait("Unknown setting", "You:")
    t.send("/set\r")
    t.wait("0.25", "max-tokens", "You:")
    t.send("/stats\r")
    t.wait("3 messages", "prefetch", "seed", "You:")  # the system's, ours and the answer
    t.send("/new\r")
    t.wait("New conversation", "You:")
    t.send("/undo\r")
    t.wait("No message to take back.", "You:")
    t.send("/quit\r")
    same(t.finish(), 0)
    same(t.settings(), t.before)


def test_hostile_output_is_shown_not_obeyed():
    answer = b"turn\ntoken \\e]0;title\\x07\ntoken \\x9b2J\\xc2\\x9b2J\ntoken \\x0d\\x08\\xe2\\x80\\xae\ntoken \\e]52;c;aGk=\\e\\\\\n"
    t = chat(b"name \x1b[2Jbad\n" + answer)
    t.send("hi\r")
    t.wait("Assistant:", "hits", "You:")
    shown = t.output[t.output.index(b"Assistant:") :]
    for bad in (b"\x1b]", b"\x07", b"\x9b2J", b"\xc2\x9b", b"\xe2\x80\xae", b"\x08", b"\x1b[2J"):
        expect(bad not in shown and (bad != b"\x1b[2J" or bad not in t.output), "%r reached the terminal" % bad)
    expect("\u241b]0;title".encode() in shown, "the escape is visible")
    leave(t)


def test_characters_are_whole():
    t = chat(b"turn\ntoken \\xe2\ndelay 50\ntoken \\x82\ntoken \\xac\ntoken \\xe2\\x82\n")
    t.send("hi\r")
    t.wait("\u20ac\ufffd\r\n", "You:")
    leave(t)


def test_type_ahead_waits_for_the_prompt():
    t = chat("turn\ndelay 100\ntext one two three four five\nturn\necho\n")
    t.send("go\r")
    t.wait("one")
    t.send("queued\r")
    t.wait("five\r\n", "You:", "queued", "Assistant:", "queued\r\n", "You:")
    answer = t.output[t.output.index(b"Assistant:") : t.output.index(b"five")]
    expect(b"queued" not in answer, "what was typed did not break into the answer")
    leave(t)


def test_what_is_typed_before_the_start_is_sent():
    go = os.path.join(SCRATCH, "go-lines")
    t = Terminal(["--plain", "--no-session"] + script(ECHO * 3), shell=until_there(go))
    t.wait("waits")
    t.send("one\rtwo\rthr")  # the terminal, which edits lines itself, makes each Enter a newline
    t.wait("thr")
    open(go, "w").close()
    t.wait("Assistant:", "one\r\n", "Assistant:", "two\r\n", "You:", "thr")
    t.send("ee\nfour\r")  # and this is one
    t.wait("Assistant:", "three\r\nfour\r\n", "You:")
    leave(t)


def test_a_message_of_several_lines():
    for newline in ("\x1b\r", "\n"):
        t = chat(ECHO)
        t.send("one" + newline + "two\r")
        t.wait("Assistant:", "one\r\ntwo\r\n", "You:")
        leave(t)


def test_esc_that_is_quoted_is_text():
    t = chat(ECHO)
    t.send("ab\x16")
    t.wait("ab")
    t.send("\x1b")
    t.wait("^[")
    t.send("xy\r")
    t.wait("Assistant:", "ab\u241bxy\r\n", "You:")
    leave(t)


def test_pasted_text_is_one_message():
    t = chat(ECHO)
    t.wait("\x1b[?2004h") if b"\x1b[?2004h" not in t.output else None
    t.send("\x1b[200~one\rtwo\x1b[201~")
    t.wait("two")
    t.send("\r")
    t.wait("Assistant:", "one\r\ntwo\r\n", "You:")
    t.send("\x1b[200~ring\x07 \x1b[31mred\x1b[201~")
    t.wait("(2 control characters left out of the paste.)", "You:", "ring [31mred")
    t.send("\r")
    t.wait("Assistant:", "ring [31mred\r\n", "You:")
    leave(t)
    expect(t.output.rindex(b"\x1b[?2004l") > t.output.rindex(b"\x1b[?2004h"), "the terminal is told that pastes are over")


def test_a_draft_is_drawn_without_what_moves_the_cursor():
    """The session is another's: what a message of it has is shown in a visible form at readline's prompt, too, and sent as it is."""
    said = "a\x9b31mb\x9d0;c\x9c\u202ed\u2066e \U0001F469\u200d\U0001F680 \u4f60"
    options = ["--session", "drawn", "--plain"] + script("turn\necho\n" * 4)
    run(options, stdin=said.encode() + b"\n")
    t = Terminal(options, columns=120)
    t.wait("You:")
    t.send("/edit\r")
    t.wait("Took back 1 of your messages", "You:", "a\uFFFD31mb\uFFFD0;c\uFFFD\u25AFd\u25AFe \U0001F469\u200d\U0001F680 \u4f60")
    t.send("\x01" + 8 * "\x1b[C" + "X\x05Y")  # it is edited where it stands
    t.wait("Y")
    t.send("\x1b[A\x1b[A\x1b[B\x1b[B\r")  # and in the history
    t.wait("Assistant:", "You:")
    leave(t)
    for bad in "\x9b", "\x9d", "\x9c", "\u202e", "\u2066":
        expect(bad.encode() not in t.output, "no %r: %r" % (bad, t.output))
    messages = json.loads(run(["sessions", "export", "drawn", "json"]).stdout)["messages"]
    same(messages[0]["text"], said[:8] + "X" + said[8:] + "Y")


def test_a_draft_line_begins_with_something_that_has_a_width():
    """readline 8.2 counts a column less than none otherwise, and compares memory without end."""
    options = ["--session", "wide", "--plain"] + script("turn\necho\n" * 2)
    run(options, stdin="\uFE0Fa\u0301".encode() + b"\n")
    t = Terminal(options, columns=80)
    t.wait("You:")
    t.send("/edit\r")
    t.wait("Took back 1 of your messages", "You:", "\uFFFDa\u0301")
    t.send("\r")
    t.wait("Assistant:", "You:")
    leave(t)
    same(json.loads(run(["sessions", "export", "wide", "json"]).stdout)["messages"][0]["text"], "\uFE0Fa\u0301")


def test_an_edit_that_is_left_or_typed_ahead():
    t = chat("turn\necho\n" * 4, columns=120)
    for text in ("one", "two"):
        t.send(text + "\r")
        t.wait("Assistant:", text + "\r\n", "You:")
    t.send("/edit 2\r")
    t.wait("Took back 2 of your messages; change this one and send it. /redo 2 brings them back.", "You:", "one")
    t.send(" more")
    t.interrupt()
    t.wait("^C\r\n", "The edit was given up; the conversation is as it was before.", "You:")
    t.send("/redo 2\r")
    t.wait("Nothing to bring back.", "You:")
    expect(t.output.count(b"before.\x1b[0m\r\n\x1b[1mYou:\x1b[0m /redo 2\r\n") == 1, "one prompt: %r" % t.output[-600:])
    t.send("/edit\r")
    t.wait("Took back 1 of your messages", "You:", "two")
    t.send("\x15")
    t.interrupt()  # also where nothing is left of the draft
    t.wait("^C\r\n", "The edit was given up; the conversation is as it was before.", "You:")
    t.send("/stats\r")
    t.wait("4 messages", "You:")
    t.send("/edit\r")
    t.wait("Took back 1 of your messages", "You:", "two")
    t.interrupt()  # as it was it is in the history once
    t.wait("^C\r\n", "The edit was given up", "You:")
    t.send("\x1b[A")
    t.wait("/edit")
    t.interrupt()
    t.wait("^C\r\n")
    t.interrupt()
    t.wait("Ctrl-D or /quit", "You:")
    t.send("/edit\rthree\r")  # what stands behind it is a message of its own, not the end of the old one
    t.wait("/edit takes the new text here: /edit 1 TEXT.", "Assistant:", "three\r\n", "You:")
    leave(t)


def test_an_edit_of_what_had_no_room_is_left():
    t = chat("context 64\n" + ECHO, columns=120)
    t.send("x" * 90 + "\r")
    t.wait("Not sent: ", "You:")
    t.send("/edit\r")
    t.wait("Change the message and send it.", "You:", "x" * 90)
    t.interrupt()
    t.wait("^C\r\n", "The edit was given up; the conversation is as it was before.", "You:")
    t.interrupt()
    t.wait("Ctrl-D or /quit", "You:")
    t.send("two\r")
    t.wait("Assistant:", "two\r\n", "You:")
    leave(t)


def test_words_that_are_near_are_answered():
    got = run(script("turn\necho\n") + ["--plain", "--no-session"], stdin=b"/set temp=0.5\n/set temp\n", together=True).stdout
    expect(b"A space stands between the two: /set temp 0.5." in got and b"temp is 0.6" in got, got)
    got = run(["-c", "2048"])
    expect(got.returncode == 2 and b'"2048"; --context 2048 sets the room, -c is --continue' in got.stderr, got)
    for args, words in ((["-v"], b"-v; use --version; figures are in /stats"), (["--nowordwrap"], b"lines are always wrapped at words"),
                        (["sessions", "remove", "x"], b'unknown verb "remove"; use rm'), (["sessions", "ls"], b'unknown verb "ls"; use list'),
                        (["run"] + script("turn\necho\n"), b"on standard input; moechat alone begins a chat")):
        got = run(args)
        expect(got.returncode == 2 and words in got.stderr, (args, got))
    got = run(["sessions", "--help"]).stdout
    for verb in ("list", "show", "tree", "rm", "rename", "export", "verify", "compact", "prune"):
        expect(re.search(rb"[ ,] *%s[ ,\n]" % verb.encode(), got.split(b"Verbs:")[1].split(b"Options:")[0]), verb)


def test_words_of_other_chats_are_answered():
    got = run(script("turn\necho\n") + ["--plain", "--no-session"],
              stdin=b"/set parameter num_ctx 512\n/pull qwen3\n/ps\n/show modelfile\n/model\n/glob *.c\n/search x\n/buffer close\n"
              b"/regen\n/read f\n/set repeat_last_n 64\n/set nothink\n/set system x\n/bye\n", together=True).stdout
    for words in (b"The context has room for 4096 tokens; --context", b"hf download", b"One model is open", b"moechat info MODEL", b"/quit, then moechat MODEL_DIR",
                  b"/file sends one file", b"Alt-/ searches", b"/sessions lists those", b"did you mean /retry?", b"did you mean /file?",
                  b"about the last 256 tokens", b"/think off say", b"/system shows and sets"):
        same((words, got.count(words)), (words, 1))
    got = got.replace(b"Unknown command /regen", b"").replace(b"Unknown command /read", b"")
    expect(b"Unknown" not in got, got)
    shown = run(script("turn\necho\n") + ["--plain", "--no-session", "--system", "Be kind."],
                stdin=b"/show info\n/show parameters\n/show system\n/show template\n/set parameter\n/show nonsense\n")
    for line in (r"  model            fake\n", r"  device           on a script|  device           a script", r"  context          room for 4096 tokens",
                 r"  template         \w", r"  plan             all 64 experts", r"  temp                   0\.6 \(default\)\n", r"System message: Be kind\.\n"):
        expect(re.search(line, shown.stdout.decode()), "%r: %r" % (line, shown.stdout))
    same((shown.stdout.count(b"  template  "), shown.stdout.count(b"  temp   "), shown.stderr.count(b"/stats takes no argument")), (2, 2, 1))


def test_what_is_meant_for_vi_and_shells_is_told_of_once():
    t = chat(ECHO * 9)
    for typed, said in ((":w notes", "/save NAME names"), (":help", "/help lists"), ("help", "/help lists"), (":set nu", "/set shows"), ("ZZ", "/quit or Ctrl-D"),
                        ("clear", "/new begins")):
        t.send(typed + "\r")
        t.wait(said, "typed once more, %s is" % typed, "You:")
        t.send(typed + "\r")
        t.wait("Assistant:", typed, "You:")
    t.send("help me\r")
    t.wait("Assistant:", "help me", "You:")
    leave(t)


def test_a_long_paste_without_marks_takes_no_square_of_its_length():
    text = b"a\tb\n"
    lines = 300
    t = chat(ECHO, columns=100, env=environment(TERM="dumb"))
    t.send(text * lines + b"the end\r")  # what is drawn late is taken whole all the same
    t.wait("the end\r\n", "Assistant:", "the end", "You:")
    same(t.output[t.output.rindex(b"Assistant:"):].count(b"b\r\n"), lines)
    for end, wanted in ((b"the end", "the end"), (b"\x03", "^C")):  # a Ctrl-C is heard in the middle of it
        began, at, whole = time.monotonic(), 0, text * 15000
        while at < len(whole):
            at += os.write(t.master, whole[at:at + 1000])
            while t.read(0):
                pass
        t.send(end)
        t.wait(wanted)
        expect(time.monotonic() - began < 10, "%g s" % (time.monotonic() - began))  # a minute before
    t.send("\x03")
    t.wait("You:")
    leave(t)


def test_an_inputrc_that_includes_itself_is_not_read():
    rc = os.path.join(SCRATCH, "circle")
    with open(rc, "w") as out:
        out.write("set editing-mode vi\n$include %s\n" % rc)
    t = chat(ECHO, env=environment(INPUTRC=rc))
    expect(("moechat: %s: includes itself, or too many others; not read" % rc).encode() in t.output, t.output)
    t.send("hello\r")
    t.wait("Assistant:", "hello", "You:")
    leave(t)


def test_vi_keys():
    rc = os.path.join(SCRATCH, "inputrc")
    with open(rc, "w") as out:
        out.write("set editing-mode vi\nset keyseq-timeout 600000\n$if moechat\n\"\\C-o\": \"macro\"\n$endif\n")
    t = chat(ECHO, env=environment(INPUTRC=rc))
    t.send("one\x1b\rtwo\x0f\r")
    t.wait("Assistant:", "one\r\ntwomacro\r\n", "You:")
    t.send("abc\x1b")
    t.wait("abc\b")  # command mode, long before readline would have had enough of waiting
    t.send("\r")  # no Alt-Enter
    t.wait("Assistant:", "abc\r\n", "You:")
    t.send("abc\x1b")
    t.wait("abc\b")
    t.send("0ix\r")
    t.wait("Assistant:", "xabc\r\n", "You:")
    leave(t)


def test_no_escape_on_a_dumb_terminal():
    t = chat("load 3 60\n" + ECHO, env=environment(TERM="dumb"))
    t.send("hi\r")
    t.wait("Assistant: hi\r\n", "You:")
    leave(t)
    expect(b"\x1b" not in t.output, "an escape came: %r" % t.output)


def colours(output):
    return [c for c in (b"\x1b[1", b"\x1b[2m", b"\x1b[0m") if c in output]


def test_colour_is_a_choice():
    for env, args, wanted in (({}, [], True), ({"NO_COLOR": "1"}, [], False), ({"NO_COLOR": ""}, [], True),
                              ({"NO_COLOR": "1"}, ["--color", "always"], True), ({}, ["--color=never"], False)):
        t = chat(ECHO, *args, env=environment(**env))
        t.send("hi\r")
        t.wait("Assistant:", "hi\r\n", "You:")
        leave(t)
        same(bool(colours(t.output)), wanted)


def test_loading_shows_progress():
    t = Terminal(["--plain"] + script("load 8 200\n" + ECHO))
    t.wait("Reading weights: ", " of 8.00 MB", "s left", "You:")
    leave(t)


def test_ctrl_c_while_loading_leaves():
    t = Terminal(["--plain"] + script("load 1000 100\n" + ECHO))
    t.wait("Reading weights: ")
    t.interrupt()
    same(t.finish(), 130)
    same(t.settings(), t.before)


def test_an_error_is_a_sentence():
    t = chat("turn\nerror layer 3, expert 7: \x1b[31mread failed\nturn\necho\n")
    t.send("go\r")
    t.wait("moechat: layer 3, expert 7: ", "read failed", "The message stays; /retry answers it.", "You:")
    expect(b"\x1b[31m" not in t.output, "an escape of the error reached the terminal")
    t.send("/retry\r")
    t.wait("Assistant:", "go\r\n", "You:")
    leave(t)


def test_a_message_that_does_not_fit_leaves_the_one_without_an_answer():
    tells = ("the message is too long: 11 of 60 tokens", "The message before it stays; /retry answers it.", "You:")
    for name, last in (("unfit-left", None), ("unfit-again", "/retry"), ("unfit-instead", "three")):
        t = chat("context 60\nturn\necho\nturn\nerror disk\nturn\necho\n", "--session", name, columns=300)
        t.send("one\r")
        t.wait("one\r\n", "You:")
        t.send("two\r")
        t.wait("The message stays; /retry answers it.", "You:")
        t.send("x" * 200 + "\r")
        t.wait(*tells)
        if last:
            t.send(last + "\r")
            t.wait("You: two" if last == "/retry" else "three", "tokens/s", "You:")
        leave(t)
        said = run(["sessions", "show", name]).stdout.decode()
        want = {None: "You: two\n", "/retry": "You: two\nAssistant: two\n\n", "three": "You: three\nAssistant: three\n\n"}[last]
        expect(said.rstrip().endswith("Assistant: one\n" + want.rstrip()), "%s: %r" % (name, said))
    t = chat("context 60\nturn\necho\n", "--session", "unfit-left", columns=300) # and in a chat that finds it so
    t.send("x" * 200 + "\r")
    t.wait("The message before it stays; /retry answers it.", "You:")
    t.send("/retry\r")
    t.wait("You: two", "two\r\n", "You:")
    leave(t)


def test_an_error_is_cut_between_words():
    t = chat("turn\nerror layer 3, expert 7: the disk has read 12 of 4096 bytes\n", columns=40)
    t.send("go\r")
    t.wait("moechat: layer 3, expert 7: the disk has\r\nread 12 of 4096 bytes\r\n", "You:")
    t.send("/load a-name-that-no-session-has\r")
    t.wait('moechat: no session\r\n"a-name-that-no-session-has"; /sessions\r\nlists them\r\n', "You:")
    leave(t)


def test_a_message_larger_than_the_context_alone():
    t = chat("context 24\nturn\necho\n", columns=120)
    t.send("a message that is too long for all of it\r")
    t.wait("Not sent: the message is too long: it needs 46 tokens of 24; a shorter one fits, --context makes more room.", "You:")
    leave(t)


def test_more_context_is_no_help_at_the_models_limit():
    long = b"a message that is too long for all of it"
    fake = script("context 24\nroom 24\n" + ECHO * 3)
    said = " ".join(run(["--plain", "--no-session"] + fake, stdin=long + b"\n01234567\nabcdefgh\n", together=True).stdout.decode().split())
    expect("Not sent: the message is too long: it needs 46 tokens of 24; a shorter one fits. This model takes at most 24 tokens." in said, said)
    expect("; /undo takes back messages, /new starts over. This model takes at most 24 tokens." in said and "--context" not in said, said)
    fake = script("context 24\nroom 24\nturn\nrepeat 99 x\n")
    for prompt, words in ((long, "it needs 46 tokens of 24; a shorter one fits. This model takes at most 24 tokens\n"),
                          (b"hi", "the context is full; a shorter prompt leaves the answer more room. This model takes at most 24 tokens\n")):
        got = run(["run", "-p", prompt] + fake)
        same((got.returncode, got.stderr.decode()[-len(words):]), (4, words))


def test_retry_means_no_message_that_had_no_room():
    long = b"a message that is too long for all of it\n"
    out = run(["--plain", "--no-session"] + script("context 24\n" + ECHO * 5), stdin=long + b"/retry\nhi\n" + long + b"/retry\n" + long + b"/undo\n/redo\n/retry\n"
              + long + b"/think off\n/edit\n/edit yo\n", together=True).stdout.decode()
    same(out.count("Not sent: "), 4)  # as often as it was sent
    same(out.count("No message to answer again."), 1)
    same(out.count("(Answer 3 of 3"), 1)
    expect("/edit takes the new text here" in out and "Assistant: yo" in out, out)  # it is still what /edit means
    out = run(["--plain", "--no-session"] + script("context 24\n" + ECHO * 5), stdin=b"0123\n/system a long message of the system\n/retry\n/system -\n/retry\n",
              together=True).stdout.decode()
    same((out.count("Not answered: "), out.count("Assistant: 0123\n")), (1, 2))  # what was said once can be sent again


def test_edit_counts_a_message_that_had_no_room():
    """As the last one, before those of the conversation, until that goes elsewhere."""
    long = "x" * 80
    for lines, said in ((["/edit 2 Mid"], "Hello|Mid"), (["/edit 3 Mid"], "Mid"), (["/edit 1 Mid"], "Hello|Again|Mid"),
                        (["/undo", "/redo", "/edit 1 Mid"], "Hello|Mid"), (["/undo", "/edit 1 Mid"], "Mid"), (["/tree 1", "/edit 1 Mid"], "Hello|Again|Mid")):
        path = os.path.join(tempfile.mkdtemp(dir=SCRATCH), "said.txt")
        lines = ["Hello", "Again", long] + lines + ["/export txt " + path]
        run(["--plain", "--no-session"] + script("context 64\n" + ECHO * 4), stdin="\n".join(lines).encode() + b"\n")
        with open(path) as out:
            same((lines, "|".join(re.findall("You: (.*)", out.read().split("---")[0]))), (lines, said))
    out = run(["--plain", "--no-session"] + script("context 64\n" + ECHO * 4), stdin=b"Hello\n" + long.encode() + b"\n/edit 2\n/edit\n/edit 3 x\n", together=True).stdout.decode()
    expect("new text here: /edit 2 TEXT." in out and "new text here: /edit 1 TEXT." in out and "No such message" in out, out)


def test_a_conversation_that_is_too_long_for_any_message():
    result = run(["--plain", "--no-session"] + script("context 24\n" + ECHO * 2), stdin=b"0123456\n/system x\n/stats\nHi\n/system -\n/undo\nb\n/stats\n", together=True)
    said = " ".join(result.stdout.decode().split())
    expect("context 0 of 24 tokens, 2 messages; your next message reads everything again" in said, said)
    expect("Not sent: the conversation is too long now: with this message it needs 29 tokens of 24; /undo takes back messages, "
           "/system - removes the system message, /new starts over, --context makes more room." in said, said)
    expect(said.count("reads everything again") == 1 and "context 7 of 24 tokens, 2 messages " in said, said)


def test_an_answer_that_a_full_context_ended_says_so_when_it_is_shown_again():
    t = chat("context 9\nturn\nrepeat 9 x\n")
    t.send("a\r")
    t.wait("Stopped: the context is full", "You:")
    t.send("/undo\r")
    t.wait("You:")
    t.send("/redo\r")
    t.wait("xx", "Stopped: the context was full.", "You:")
    leave(t)


def test_a_full_context_is_said():
    t = chat("context 24\nturn\necho\n")
    t.send("0123456\r")
    t.wait("0123456\r\n", "You:")
    t.send("a message that is too long\r")
    t.wait("Not sent", "19 of 24", "/new", "You:")
    t.send("/new\r")
    t.wait("You:")
    t.send("0123456789\r")
    t.wait("Stopped: the context is full", "You:")
    leave(t)


def test_signals_end_it_cleanly():
    for number, status in ((signal.SIGTERM, 143), (signal.SIGHUP, 129)):
        for busy in (False, True):
            t = chat("turn\ntext one\nhang\n")
            if busy:
                t.send("go\r")
                t.wait("one")
            t.process.send_signal(number)
            same(t.finish(), status)
            same(t.settings(), t.before)


def test_quotes_that_are_not_closed_are_told():
    for way in ("\x04", signal.SIGTERM):
        t = chat(ECHO, columns=200)
        t.send('"""abc\r')
        t.wait("You:")
        t.send("def\r")
        t.wait("You:")
        if way == "\x04":
            t.send(way)
        else:
            t.process.send_signal(way)
        t.wait('Not sent: the message after """ has no end; the same quotes end it.')
        if way == "\x04":  # the chat goes on, and has the lines
            t.wait("You:")
            t.send("\x1b[A")
            t.wait("abc", "def")
            t.send('"""\r')
            t.wait("Assistant:", "abc", "def", "You:")
            leave(t)
        else:
            same(t.finish(), 143)
        same(t.output.count(b"Not sent"), 1)


def test_tab_quotes_paths_with_spaces():
    folder = os.path.join(tempfile.mkdtemp(dir=SCRATCH), "with spaces")
    os.mkdir(folder)
    for name in ("one two 1", "one two 2", "three"):
        pathlib.Path(folder, name).write_text("this is %s\n" % name)
    t = chat(ECHO * 3, columns=300)
    t.send("/file %s\t" % folder[:-9])
    t.wait('"%s/' % folder)
    t.send("th\t\r")
    t.wait("Assistant:", "this is three", "You:")
    t.send("/file %s\to\t" % folder[:-9])
    t.wait('ne two ')
    t.send("2\t\r")
    t.wait("Assistant:", "this is one two 2", "You:")
    pathlib.Path(folder).rename(folder[:-1])
    for name in ("b c d", "b c e"):
        pathlib.Path(folder[:-11], name).write_text("this is %s\n" % name)
    t.send("/file %sb\td\t\r" % folder[:-11])
    t.wait("Assistant:", "this is b c d", "You:")
    leave(t)


def test_what_is_said_of_leaving_begins_a_line():
    for number in (signal.SIGTERM, signal.SIGQUIT):
        for busy, stands in ((True, "Assistant:\x1b[0m one two\r\n"), (False, "You:\x1b[0m a draft\r\n")):
            t = chat("turn\necho\nturn\ntext one two\nhang\n", "--session", "leaves-%d-%d" % (number, busy), columns=200)
            t.send("hi\r")
            t.wait("Assistant:", "hi", "You:")
            t.send("go\r" if busy else "a draft")
            t.wait("one" if busy else "a draft")
            t.process.send_signal(number)
            t.finish()
            said = t.output.decode().split("tokens/s)")[-1].replace("\x1b[?2004l", "").replace("\x1b[2m", "")
            after = said[said.index(stands) + len(stands):]
            expect(after.startswith(("Saved as ", "\r\nSaved as", "Your last", "Not sent")), said)


def test_a_crash_restores_the_terminal():
    t = chat(ECHO)
    expect(t.settings() != t.before, "the terminal is in raw mode")
    t.process.send_signal(signal.SIGSEGV)
    same(t.finish(), -signal.SIGSEGV)
    same(t.settings(), t.before)


def test_a_chat_in_the_background_ends_when_it_is_told_to():
    """It waits for its terminal, stopped; by timeout, which has a group of its own, and as a job of a shell."""
    for how, status in (('set +m; timeout 1 "$0" "$@"; echo "ended $?"', "ended 124"),
                        ('"$0" "$@" & sleep 1; kill %1; kill -CONT %1; until jobs >$HOME/jobs; grep -E "143|Terminated" $HOME/jobs; do sleep 0.1; done; echo ended', "ended")):
        for face in (["--plain"], []):
            t = Terminal(["chat", "--no-session"] + face + script(ECHO), shell=how)
            t.wait(status)
            same(t.finish(), 0)
            same(t.settings(), t.before)


def test_suspend_and_return():
    t = chat(ECHO, shell='"$0" "$@"; echo "stopped"; read go; fg; echo "ended $?"')
    t.send("dra")
    t.wait("dra")
    t.send("\x1a")
    t.wait("stopped")
    same(t.settings(), t.before)
    t.send("\n")
    t.wait("You:", "dra")
    t.send("ft\r")
    t.wait("Assistant:", "draft\r\n", "You:")
    t.send("\x04")
    t.wait("ended 0")
    t.finish()
    same(t.settings(), t.before)


def test_what_is_typed_before_ctrl_z_stays_ours():
    t = Terminal(["--plain", "--no-session"] + script("turn\ntext one\nhang\nturn\necho\nturn\necho\n"),
                 shell='"$0" "$@"; echo "stopped"; read go; echo "read $go."; fg; echo "ended $?"')
    t.wait("You:")
    t.send("go\r")
    t.wait("one")
    t.send("first\rand \u00e4 dr")  # waits unseen for the next prompt
    time.sleep(0.3)
    t.send("\x1a")
    t.wait("stopped")
    t.send("x\n")
    t.wait("read x.")  # the shell has none of it
    time.sleep(0.3)
    t.send("\x03")
    t.wait("Stopped; what it said is kept", "You:", "first", "Assistant:", "first", "You:", "and \u00e4 dr")
    t.send("aft\r")
    t.wait("Assistant:", "and \u00e4 draft", "You:")
    t.send("\x04")
    t.wait("ended 0")
    t.finish()


def test_what_is_typed_during_an_answer_is_not_left_to_the_shell():
    """Nor lost: it is told, and the next chat has it; also when nobody could tell."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        state = tempfile.mkdtemp(dir=SCRATCH)
        t = chat("turn\ntext one\nhang\n", env=environment(XDG_STATE_HOME=state))
        t.send("go\r")
        t.wait("one")
        t.send("touch xy\x7f\x1b[D\rand \u00e4 draft")
        deadline = time.monotonic() + DEADLINE
        drafts = []
        while not any("draft" in text for text in drafts):  # half a second later what is typed is on the disk
            expect(time.monotonic() < deadline, drafts)
            t.read(0.05)
            drafts = [path.read_text(errors="replace") for path in pathlib.Path(state).glob("moechat/draft-*")]
        waiting = fcntl.ioctl(t.slave, termios.FIONREAD, struct.pack("i", 0))
        t.process.send_signal(number)
        same(t.finish(), 143 if number == signal.SIGTERM else -number)
        same(struct.unpack("i", waiting), (0,))
        if number == signal.SIGTERM:
            t.wait("Not sent; the history of the next chat has it", "touch x\x1b", "Not sent; the history", "and \u00e4 draft")
        t = Terminal(["--plain"] + script(ECHO), env=environment(XDG_STATE_HOME=state))
        if number == signal.SIGKILL:
            t.wait("What was typed in a chat that was killed is in the history")
        t.wait("You:")
        t.send("\x1b[A")
        t.wait("and \u00e4 draft")
        t.send("\x03")
        t.wait("You:")
        leave(t)


def test_a_terminal_that_was_stopped_as_the_chat_began_goes_on():
    """By Ctrl-S, while another process holds the history's lock: what is said of that is no wait that no signal ends."""
    state = tempfile.mkdtemp(dir=SCRATCH)
    os.mkdir(os.path.join(state, "moechat"))
    with open(os.path.join(state, "moechat", "history"), "w") as history:
        fcntl.lockf(history, fcntl.LOCK_EX)
        t = Terminal(["--plain", "--no-session"] + script(ECHO), env=environment(XDG_STATE_HOME=state))
        t.wait("Plain lines: ")
        time.sleep(0.5)
        t.send("\x13")
        t.wait("the history can't be read: another process holds a lock on it", "You:")
    t.process.terminate()
    same(t.finish(), 143)


def test_what_was_not_sent_is_printed_where_no_history_takes_it():
    t = chat("turn\ntext one\nhang\n", env=environment(XDG_STATE_HOME="/dev/null", TMPDIR="/nonexistent"))
    t.send("go\r")
    t.wait("Not kept in the history of later chats: Not a directory.", "one")
    t.send("typed ahead\rand a draft")
    time.sleep(0.3)
    t.process.send_signal(signal.SIGTERM)
    same(t.finish(), 143)
    t.wait("Not sent, and no history or file takes them; here they are:\r\n\r\ntyped ahead\r\n\r\nand a draft\r\n")
    expect(b"the history of the next chat" not in t.output, t.output[-500:])


def test_what_was_not_sent_waits_in_the_drafts_file_where_no_history_takes_it():
    state = tempfile.mkdtemp(dir=SCRATCH)
    history = os.path.join(state, "moechat", "history")
    os.makedirs(history)  # a folder in its place
    t = chat("turn\ntext one\nhang\n", env=environment(XDG_STATE_HOME=state))
    t.send("go\r")
    t.wait("one")
    t.send("typed ahead\rand a draft")
    time.sleep(0.3)
    t.process.send_signal(signal.SIGTERM)
    same(t.finish(), 143)
    t.wait("Not sent; the history of the next chat has it (Up):", "typed ahead", "Not sent; the history", "and a draft")
    expect("no history or file" not in t.output.decode(), t.output[-500:])
    os.rmdir(history)
    t = Terminal(["--plain"] + script(ECHO), env=environment(XDG_STATE_HOME=state))
    t.wait("What was typed in a chat that was killed is in the history", "You:")
    t.send("\x1b[A")
    t.wait("and a draft")
    t.send("\x1b[A")
    t.wait("typed ahead")
    t.send("\x03")
    t.wait("You:")
    leave(t)


def test_a_search_that_is_interrupted_gives_the_draft_back():
    """To the history, and where the chat is ended, too; what comes earlier there is found as ever."""
    state = tempfile.mkdtemp(dir=SCRATCH)
    for way in ("interrupt", "term"):
        t = chat(ECHO, env=environment(XDG_STATE_HOME=state))
        t.send("a fox\r")
        t.wait("tokens/s", "You:")
        t.send("left by " + way)
        t.wait("left by " + way)
        t.send("\x12fox")
        t.wait("search", "fox")  # what is found is marked
        if way == "interrupt":
            t.interrupt()
            t.wait("left by interrupt", "^C", "You:")
            t.send("\x1b[A")
            t.wait("left by interrupt")
            t.send("\x1b[A")
            t.wait("a fox")
            t.send("\x15")
            leave(t)
        else:
            t.process.terminate()
            same(t.finish(), 143)
    t = chat(ECHO, env=environment(XDG_STATE_HOME=state))
    t.send("\x1b[A")
    t.wait("left by term")
    t.send("\x15")
    leave(t)


def test_a_line_of_the_history_that_is_changed_again_is_kept_so():
    """Also where readline would have added what is typed to what was typed there before."""
    for mode, up, down in (("emacs", "\x10", "\x0e"), ("vi", "\x1bkA", "\x1bjA")):
        rc, state = os.path.join(SCRATCH, "changed.inputrc"), tempfile.mkdtemp(dir=SCRATCH)
        with open(rc, "w") as out:
            out.write("set editing-mode %s\n" % mode)
        t = chat(ECHO * 2, env=environment(XDG_STATE_HOME=state, INPUTRC=rc))
        for line in ("one", "two"):
            t.send(line + "\r")
            t.wait("tokens/s", "You:")
        for key in (up, "A", up, down, "B", up, "C", up, "D", "\x1f\x1f" if mode == "emacs" else "", "E", down, down):
            t.send(key)
            t.read(0.1)
            time.sleep(0.2)  # Esc stands alone
        t.process.terminate()
        same(t.finish(), 143)
        with open(os.path.join(state, "moechat", "history")) as history:
            kept = history.read().split("\n")
        wanted = {"twoAB", "oneE" if mode == "emacs" else "oneCDE"}
        expect(wanted <= set(kept), kept)


def test_a_draft_is_kept_before_a_search_takes_its_place():
    """Not half a second later, when the search may still be open and the chat killed."""
    rc = os.path.join(SCRATCH, "search.inputrc")
    for mode, key in (("emacs", "\x12"), ("emacs", "\x13"), ("emacs", "\x1bp"), ("vi", "\x1b/"), ("vi", "\x12")):
        for full in (False, True):
            with open(rc, "w") as out:
                out.write("set editing-mode %s\n" % mode)
            env = environment(TERM="linux", INPUTRC=rc, XDG_STATE_HOME=tempfile.mkdtemp(dir=SCRATCH), MOECHAT_CLOCK="fake")
            t = Screen(script(ECHO) + ["--no-session"], env=env) if full else Terminal(["--plain"] + script(ECHO), env=env)
            t.until(" idle ") if full else t.wait("You:")
            t.send("a draft")
            if key == "\x1b/":
                t.send("\x1b")
                time.sleep(0.2)  # it stands alone
            t.send(key[-1] if key == "\x1b/" else key)
            time.sleep(1)
            t.process.kill()
            t.finish()
            drafts = [path.read_text() for path in pathlib.Path(env["XDG_STATE_HOME"]).glob("moechat/draft-*")]
            expect(drafts == ["a draft"], (mode, key, full, drafts))


def test_a_search_goes_on_to_older_lines():
    """As in any readline, also by keys that an inputrc has bound, from a line of the history, and once more behind a search."""
    rc, state = os.path.join(SCRATCH, "older.inputrc"), tempfile.mkdtemp(dir=SCRATCH)
    os.mkdir(os.path.join(state, "moechat"))
    with open(os.path.join(state, "moechat", "history"), "w") as out:
        out.write("zebra 1\nzebra 2\nzebra 3\nlast\n")
    back, forth = "`zebra': zebra %d", "(i-search)`zebra': zebra %d"
    for mode, begin, older, newer in (("emacs", "", "\x12", "\x13"), ("emacs", "\x1b[A", "\x18b", "\x18f"), ("vi", "", "\x12", "\x13"),
                                      ("vi", "\x1b", "\x12", "\x13"), ("vi", "\x1bk", "\x12", "\x13")):
        for full in (False, True):
            with open(rc, "w") as out:
                out.write('set editing-mode %s\n"\\C-xb": reverse-search-history\n"\\C-xf": forward-search-history\n' % mode)
            env = environment(TERM="linux", INPUTRC=rc, XDG_STATE_HOME=state, MOECHAT_CLOCK="fake")
            t = Screen((["--no-session"] if full else ["--plain", "--no-session"]) + script(ECHO), env=env)
            t.until(" idle " if full else "You:")
            t.keys("a draft", "a draft")
            for key in begin:
                t.send(key)
                time.sleep(0.2 if key == "\x1b" and mode == "vi" else 0)
            for _ in range(2):
                t.keys(older + "zebra", back % 3)
                t.keys(older, back % 2)
                t.keys(older, back % 1)
                t.keys(newer, forth % 1)  # turns round
                t.keys(newer, forth % 2)
                t.keys(newer, forth % 3)
                t.keys("\x07", lambda t: "search)" not in t.text())
            t.process.terminate()
            same(t.finish(), 143)


def test_vi_has_the_keys_of_the_list_in_both_modes():
    rc = os.path.join(SCRATCH, "both-modes.inputrc")
    with open(rc, "w") as out:
        out.write("set editing-mode vi\n")
    for full in (False, True):
        env = environment(TERM="linux", INPUTRC=rc, MOECHAT_CLOCK="fake")
        t = Screen((["--no-session"] if full else ["--plain", "--no-session"]) + script(ECHO), env=env)
        t.until(" idle " if full else "You:")
        for before in ("", "\x1b"):
            word = "cmnd" if before else "inst"
            t.keys(word, word)
            t.send(before)
            time.sleep(0.3)  # Esc stands alone
            t.keys("\x0a", lambda t: "cmnd" not in t.text() and "cmn" in t.text()) if before else t.keys("\x0aefg", "efg")
            expect("tokens/s" not in t.text() and "Assistant:" not in t.text(), "it was sent: " + t.text())
            t.keys("\x03", "You:" if not full else "moved to the history")
        if not full:
            for before in ("", "\x1b"):
                t.keys("words", "words")
                t.send(before)
                time.sleep(0.3)
                t.keys("\x0c", lambda t: t.text().startswith("You: words\n") and "^L" not in t.text() and "Plain lines" not in t.text())
                t.keys("\x03", "^C")
        t.process.terminate()
        same(t.finish(), 143)


def test_what_has_no_place_beside_the_history_is_kept_in_tmpdir():
    """The draft and a message that is being read, which outlive a kill; and that is said once."""
    for full in (False, True):
        temporary, state = tempfile.mkdtemp(dir=SCRATCH), tempfile.mkdtemp(dir=SCRATCH)
        env = environment(TERM="linux", XDG_STATE_HOME="/proc/nowhere", MOECHAT_CLOCK="fake", TMPDIR=temporary)

        def begun(**changes):
            t = Screen((["--no-session"] if full else ["--plain", "--no-session"]) + script("turn\nhang\n"), columns=160, env=dict(env, **changes))
            t.until(" idle " if full else "You:")
            return t

        def kept(wanted):
            time.sleep(0.8)
            same([path.read_text() for path in pathlib.Path(temporary).iterdir()], wanted)
            same([path.name[:14] for path in pathlib.Path(temporary).iterdir()], ["moechat-draft-"] * len(wanted))

        t = begun()
        t.keys("one", lambda t: "it is kept in %s/moechat-draft-" % temporary in " ".join(t.text().split()))
        kept(["one"])
        t.keys("\r", "Not kept" if not full else "not kept")
        time.sleep(0.5)
        t.send("two")
        kept(["two\0one"])
        same(t.text().count("it is kept in"), 1)
        t.process.kill()
        t.finish()
        t = begun(XDG_STATE_HOME=state)
        t.until("What was typed in a chat that was killed is in the history")
        t.keys("\x1b[A", "two")
        t.keys("\x1b[A", "one")
        kept([])
        t.process.terminate()
        same(t.finish(), 143)
        t = begun()
        t.keys("three", "it is kept in")
        os.kill(t.process.pid, signal.SIGHUP)
        same(t.finish(), 129)
        kept(["three"])
        expect("has what was typed and is in no history." in t.text().replace("\n", " "), t.text())
        t = begun(TMPDIR="/nonexistent")
        t.keys("four", "if the chat is killed it is lost")
        t.process.kill()
        t.finish()


def test_what_a_terminal_answers_is_not_typed():
    answers = "\x1b]11;rgb:1e1e/dddd/4040\x07", "\x1bP>|xterm(370)\x1b\\", "\x1b_Gi=1;OK\x1b\\"
    for mode in ("emacs", "vi"):
        rc = os.path.join(SCRATCH, "answers.inputrc")
        with open(rc, "w") as out:
            out.write("set editing-mode %s\n" % mode)
        for full in (False, True):
            args = script("turn\ntext [\necho\ntext ]\n") + ["--no-session"]
            env = environment(TERM="linux", INPUTRC=rc, MOECHAT_CLOCK="fake")
            t = Screen(args, env=env) if full else Terminal(["--plain"] + args, env=env)
            t.until(" idle ") if full else t.wait("You:")
            t.send("one")
            for answer in answers:
                t.send(answer)
                time.sleep(0.05)
            t.send(" two\r")
            t.until("[one two]") if full else t.wait("[one two]")
            t.process.terminate()
            same(t.finish(), 143)


def test_ctrl_c_and_a_paste_end_a_quoted_insert():
    for full in (False, True):
        args = script("turn\ntext [\necho\ntext ]\n" * 2) + ["--no-session"]
        t = Screen(args) if full else Terminal(["--plain"] + args)
        t.until(" idle ") if full else t.wait("You:")
        for first, wanted in (("\x11\x1b[200~pasted\x1b[201~", "pastedab"), ("\x11\x03", "ab")):
            t.send(first)
            time.sleep(0.3)
            t.send("\x05ab\r")
            t.until("[%s]" % wanted) if full else t.wait("[%s]" % wanted, "You:")
            t.until(" idle ") if full else None
        t.process.terminate()
        same(t.finish(), 143)


def test_esc_and_ctrl_c_end_a_key_that_waits_for_its_character():
    """It took the first letter of the next line."""
    rc = os.path.join(SCRATCH, "waiting.inputrc")
    cases = {"emacs": [("base", key, "\x03", "%s") for key in ("\x1d", "\x1b\x1d", "\x1b3\x1d")],
             "vi": [("base", "\x1b", key, "\x03", "%s") for key in ("r", "m", "`", "3r")]
             + [("%sd", "\x1b", key, "\x1b", "x") for key in ("r", "m", "`")]}
    for mode in cases:
        with open(rc, "w") as out:
            out.write("set editing-mode %s\n" % mode)
        for full in (False, True):
            args = script("turn\ntext [\necho\ntext ]\n" * len(cases[mode])) + ["--no-session"]
            env = environment(TERM="linux", INPUTRC=rc, MOECHAT_CLOCK="fake")
            t = Screen(args, env=env) if full else Terminal(["--plain"] + args, env=env)
            t.until(" idle ") if full else t.wait("You:")
            for number, keys in enumerate(cases[mode]):
                word = "words%d" % number
                for key in keys + ("\r",):
                    t.send(key.replace("%s", word))
                    time.sleep(0.2)  # Esc stands alone
                t.until(lambda t: "[%s]" % word in t.text() and " idle " in t.text()) if full else t.wait("[%s]" % word, "You:")
            t.process.terminate()
            same(t.finish(), 143)


def test_keys_that_readline_does_not_survive():
    rc = os.path.join(SCRATCH, "hostile.inputrc")
    for mode, bindings, keys, wanted in (
            ("emacs", "", ["\x12", "\x18)", "ab"], "ab"),  # an unbound key ends a search
            ("emacs", "", ["\x12", "\x18e", "\x1b[99~ab"], "ab"),
            ("emacs", '"\\C-o": "\\C-r\\C-x)ab"\n', ["\x0f"], "ab"),
            ("emacs", '"\\C-o": "x\\C-o"\n', ["\x0f", "\x15ab"], "ab"),  # it calls itself
            ("emacs", '"\\C-xo": start-kbd-macro\n"\\C-xp": end-kbd-macro\n"\\C-xq": call-last-kbd-macro\n',
             ["\x18oab\x18q\x18p\x18q"], "ab"),
            ("emacs", "", ["\x12", b"\xe9", "t", "\x18e", "x", "\x15ab"], "ab"),  # a character that is not whole
            ("vi", "", ["\x1b[1;5H", "ab"], "ab"),
            ("vi", '"jkl": "ab"\n', ["jkl\x1b[1;5Q"], "ab")):
        for full in (False, True):
            with open(rc, "w") as out:
                out.write("set editing-mode %s\n%s" % (mode, bindings))
            args = script("turn\ntext [\necho\ntext ]\n") + ["--no-session"]
            if full:
                t = Screen(args, env=environment(TERM="linux", INPUTRC=rc, MOECHAT_CLOCK="fake"))
                t.until(" idle ")
            else:
                t = Terminal(["--plain"] + args, env=environment(INPUTRC=rc))
                t.wait("You:")
            for key in keys:
                t.send(key)
                t.read(0.03)
            t.send("\r")
            if full:
                t.until("[%s]" % wanted)
            else:
                t.wait("[%s]" % wanted, "You:")
            t.process.terminate()
            same(t.finish(), 143)


def test_a_macro_of_several_lines():
    rc = os.path.join(SCRATCH, "lines.inputrc")
    with open(rc, "w") as out:
        out.write('"\\C-o": "one\\rtwo\\r"\n')
    t = chat(ECHO * 2, env=environment(INPUTRC=rc))
    t.send("\x0f")
    t.wait("Assistant:", "one", "You:", "two", "Assistant:", "two", "You:")
    leave(t)


def test_a_paste_that_is_under_way_when_the_answer_ends():
    t = chat("turn\ndelay 10\nrepeat 50 x\nturn\ntext [\necho\ntext ]\n")
    t.send("hello\r")
    t.wait("Assistant:")
    t.send("\x1b[200~" + "A" * 64)
    t.wait("You:")
    t.read(0.3)
    t.send("more\rline2\rline3\x1b[2")
    t.read(0.1)
    t.send("01~!")
    t.wait("line3", "!")
    expect(b"Assistant:" not in t.output[t.seen:], "nothing is sent")
    t.send("\r")
    t.wait("[" + "A" * 64 + "more", "line2", "line3!]", "You:")
    leave(t)


def test_ctrl_c_ends_a_paste_without_its_end():
    t = chat(ECHO)
    t.send("\x1b[200~one\rtwo")
    t.read(0.2)
    t.interrupt()
    t.wait("one", "two", "^C", "You:")
    t.send("\x1b[A\r")  # it is in the history
    t.wait("Assistant:", "one", "two", "You:")
    leave(t)


def test_a_paste_that_comes_no_further_is_over():
    state = tempfile.mkdtemp(dir=SCRATCH)
    t = chat(ECHO, env=environment(XDG_STATE_HOME=state))
    t.send("\x1b[200~one")
    t.wait("one", "(The paste had no end.)")
    t.send(" and a key\r")
    t.wait("Assistant:", "one and a key", "You:")
    t.send("before \x1b[200~cut\noff")
    time.sleep(0.3)
    t.process.terminate()
    same(t.finish(), 143)
    with open(os.path.join(state, "moechat", "history")) as history:
        same(history.read().split("\n"), ["one and a key", "before cut\\noff", ""])


def test_a_long_draft_on_one_row():
    t = Terminal(["--plain"] + script(ECHO), columns=500, rows=1)
    t.wait("You:")
    t.send("a" * 900)
    t.wait("aaaa")
    fcntl.ioctl(t.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 1, 80, 0, 0))
    t.process.send_signal(signal.SIGWINCH)
    t.send("b" * 100 + "\r")
    t.wait("Assistant:", "ab", "You:")
    leave(t)


def test_a_line_that_scrolls_sideways():
    """readline goes round for ever there, if the label has colours and the screen is about as wide as their bytes."""
    rc = os.path.join(SCRATCH, "sideways")
    with open(rc, "w") as out:
        out.write("set horizontal-scroll-mode on\n")
    modes = os.path.join(SCRATCH, "sideways-modes")
    with open(modes, "w") as out:
        out.write("set horizontal-scroll-mode on\nset show-mode-in-prompt on\nset emacs-mode-string \\1\\e[36m\\2@\\1\\e[0m\\2\n")
    later = os.path.join(SCRATCH, "sideways-later")
    for env in (dict(TERM="no-such-terminal"), dict(INPUTRC=rc), dict(INPUTRC=modes), dict(TERM="no-such-terminal", INPUTRC=modes), dict(INPUTRC=later)):
        for columns in range(16, 23):
            if os.path.exists(later):
                os.remove(later)
            t = chat(ECHO, columns=columns, env=environment(**env))
            if env.get("INPUTRC") == later:
                shutil.copy(modes, later)
                t.send("\x18\x12")
            t.send("hello there my friend how are you\x0c")
            t.wait("are you")
            t.send("?\r")
            t.wait("Assistant:", "you?", "You:")
            leave(t)
    t = Terminal(script(ECHO), columns=200, env=environment(TERM="no-such-terminal"))
    t.wait("Plain lines: this system has no description (terminfo) of what TERM names; TERM=xterm-256color may do.", "You:")
    leave(t)


def test_drafts_on_dumb_terminals():
    for size in (900, 1010, 1024, 1600):  # near what readline's lines begin with: for the sanitizers
        t = chat(ECHO, columns=100, env=environment(TERM="dumb"))
        t.send("a" * (size - 40))
        t.wait("a" * 50)
        for _ in range(60):
            t.send("b")
            t.read(0.003)
        t.send("\x01x\x05\r")
        t.wait("Assistant:")
        begin = t.seen
        t.wait("\r\n(")
        answer = t.output[begin:t.seen].replace(b"\r\n", b"")
        expect(b"x" + b"a" * (size - 40) + b"b" * 60 in answer, answer)
        t.wait("You:")
        leave(t)
    for columns, rows in ((2, 1), (3, 1), (1, 24)):
        t = chat(ECHO, env=environment(TERM="dumb"))
        t.send("some draft")
        t.wait("some draft")
        fcntl.ioctl(t.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        t.process.send_signal(signal.SIGWINCH)
        t.send("xyz")
        t.wait("z")
        fcntl.ioctl(t.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        t.process.send_signal(signal.SIGWINCH)
        t.send("\r")
        t.wait("Assistant:", "some draftxyz", "You:")
        leave(t)


def test_a_resize_keeps_the_draft():
    t = chat(ECHO)
    t.send("some words of a draft")
    t.wait("draft")
    seen = len(t.output)
    fcntl.ioctl(t.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 5, 70, 0, 0))
    t.process.send_signal(signal.SIGWINCH)
    t.read(0.3)
    drawn = t.output[seen:]
    expect(drawn.startswith(b"\r") and drawn.count(b"some words") == 1, "in the line's place: %r" % drawn)
    for columns in (10, 2, 1, 120, 80):
        fcntl.ioctl(t.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 5, columns, 0, 0))
        t.process.send_signal(signal.SIGWINCH)
        time.sleep(0.1)
    t.send("\r")
    t.wait("Assistant:", "some words of a draft\r\n", "You:")
    leave(t)


def window(fd, columns, rows):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def test_a_long_draft_in_the_smallest_windows():
    for terminal in ("xterm", "dumb"):
        for inputrc in ("", "set editing-mode vi\n", "set horizontal-scroll-mode on\n"):
            rc = os.path.join(SCRATCH, "smallest-inputrc")
            with open(rc, "w") as out:
                out.write(inputrc)
            t = Terminal(["--plain"] + script(ECHO), env=environment(TERM=terminal, INPUTRC=rc), columns=1, rows=1)
            t.wait("help.")
            t.send("begin " + "\u65e5 " * 100 + "x" * 300)
            typed = "x" * 300
            for size in list(range(9)) + list(range(9, -1, -1)):
                window(t.slave, *((size % 3 + 1, size // 3 + 1) if size < 9 else (80, 24)))
                t.process.send_signal(signal.SIGWINCH)
                t.read(0.02)
                t.send("ab")
                typed += "ab"
                t.read(0.02)
                if "vi" in inputrc:
                    t.send("\x1b")
                    t.read(0.05)
                    t.send("0\x12\x07$a")  # to the beginning and back
                else:
                    t.send("\x01\x12be\x07\x05")
                t.read(0.02)
            t.process.send_signal(signal.SIGTSTP)
            t.read(0.1)
            window(t.slave, 2, 1)
            t.process.send_signal(signal.SIGCONT)
            t.send("c")
            t.read(0.1)
            window(t.slave, 500, 24)
            t.process.send_signal(signal.SIGWINCH)
            t.send("\r")
            t.wait("Assistant:", typed + "c\r\n", "You:")
            leave(t)


def test_a_window_of_one_column_is_left_as_any_other():
    t = chat(ECHO, rows=5)
    t.send("some draft")
    t.wait("some draft")
    for columns, rows in ((1, 5), (80, 5)):
        t.read(0.3)
        seen = len(t.output)
        window(t.slave, columns, rows)
        t.process.send_signal(signal.SIGWINCH)
        t.read(1)
        expect(len(t.output) > seen, "drawn anew in %d columns" % columns)
    t.send("\x15")
    leave(t)


def test_a_size_that_the_window_does_not_have():
    """readline asks the terminal that is typed at, or the environment; a window that is being resized has another by the time that it is looked at."""
    for columns, rows, changes in ((2, 24, {}), (2, 1, {}), (2, 0, {}), (3, 1, {}), (0, 0, {"COLUMNS": "2", "LINES": "1"})):
        for terminal in ("xterm", "dumb"):
            typed, keys = os.openpty()
            window(keys, columns, rows)
            rc = os.path.join(SCRATCH, "along-one-row")
            with open(rc, "w") as out:
                out.write("set horizontal-scroll-mode on\n")
            t = Terminal(["--plain"] + script(ECHO), env=environment(TERM=terminal, INPUTRC=rc, **changes), stdin=keys)
            t.wait("for help.")
            os.write(typed, b"some words of a draft")
            t.read(0.1)
            os.write(typed, b"\x01")
            t.read(0.1)
            window(keys, 2, 3)
            t.process.send_signal(signal.SIGWINCH)
            os.write(typed, b"\x05 more\x01\x05")
            t.read(0.1)
            os.write(typed, b"\r")
            t.wait("Assistant:", "words of a draft more\r\n")
            t.read(0.1)
            os.write(typed, b"\x04")
            same(t.finish(), 0)
            os.close(typed)
            os.close(keys)


def test_signals_do_not_cut_what_is_written():
    t = chat("turn\n" + "text lots of words to write out again and again\n" * 400 + "text the end.\nturn\necho\n")
    t.send("go\r")
    end = time.monotonic() + DEADLINE
    while b"the end." not in t.output[t.seen:] and time.monotonic() < end:
        t.process.send_signal(signal.SIGWINCH)
        t.read(0)
    t.wait("the end.", "You:")
    t.send("more\r")
    t.wait("Assistant:", "more\r\n", "You:")
    leave(t)


def test_a_closed_terminal_ends_it():
    for draft in ("", "words", '"quoted'):
        t = chat(ECHO)
        t.send(draft)
        if draft:
            t.wait(draft)
        os.close(t.slave)
        os.close(t.master)
        same(t.process.wait(DEADLINE), 129)


def test_redirected_chat_is_refused():
    with open(os.devnull, "r+b") as nowhere:
        t = Terminal(script(ECHO), stdout=nowhere)
        same(t.finish(), 2)
        expect(b"moechat run" in t.output, "it says what to use")
        t = Terminal(script(ECHO), stdin=nowhere)
        same(t.finish(), 2)


def test_a_stopped_message_keeps_its_seed():
    t = chat("turn\nprefill 60000\nturn\necho\nturn\nprefill 60000\nturn\necho\n", "--seed", "3")

    def seed():
        t.send("/stats\r")
        t.wait("seed", "You:")
        return int(re.findall(r"seed +([0-9]+)", t.output.decode())[-1])
    stop_while_read(t, "go")
    same(seed(), 3)
    t.send("/retry\r")
    t.wait("Assistant:", "go\r\n", "You:")
    same(seed(), 3)
    stop_while_read(t, "next")
    same(seed(), 4)  # it is about this one, as the figures are
    t.send("other\r")
    t.wait("Assistant:", "other\r\n", "You:")
    same(seed(), 4)
    leave(t)


def test_an_answer_is_given_again_with_its_seed():
    """In the chat that it came in and in a later one, whatever was sent in between; not where another was set since."""
    def told(t, *lines):
        seeds = []
        for line in lines:
            t.send(line + "\r/stats\r")
            t.wait("seed  ", "in the last turn", "You:")
            seeds.append(int(re.findall(r"seed +([0-9]+) in", t.output.decode())[-1]))
        return seeds
    start = lambda: chat("turn\necho\n" * 8, "--seed", "3", "--session", "seeds", columns=200)
    t = start()
    same(told(t, "one", "two", "/retry"), [3, 4, 4])
    t.send("/undo\r")
    t.wait("Took back")
    same(told(t, "/retry", "three"), [3, 5])
    leave(t)
    t = start()
    same(told(t, "/retry", "/retry", "four", "/retry"), [5, 5, 3, 3])
    t.send("/set seed 9\r")
    t.wait("seed is now 9")
    same(told(t, "/retry", "/retry", "five"), [9, 9, 10])
    leave(t)
    t = chat("turn\necho\n" * 8, "--session", "seeds", columns=200)
    again = told(t, "/retry", "/retry")
    expect(again[0] != again[1] and 10 not in again, again)  # another answer
    leave(t)
    t = chat("turn\necho\nturn\ntext half\nhang\nturn\necho\n", "--session", "seed-of-another", "--seed", "3", columns=200)
    same(told(t, "one"), [3])
    t.send("/retry\r")
    t.wait("half")
    t.interrupt()
    t.wait("Stopped", "You:")
    same(told(t, "/retry"), [3])
    leave(t)


def test_plain_reads_messages_from_a_pipe():
    result = run(script(ECHO) + ["--plain"], stdin=b"one\n/undo\ntwo\n/nonsense\nexit\nlast without newline")
    same((result.returncode, result.stdout), (1, b"Assistant: one\nAssistant: two\nAssistant: exit\nAssistant: last without newline\n"))
    text = result.stdout + result.stderr
    expect(b"\x1b" not in text, "no escapes")
    quoted = run(script(ECHO) + ["--plain"], stdin=b'"""\nmy name\n\nis Bob"""\nand\n')
    same((quoted.returncode, quoted.stdout.count(b"Assistant:")), (0, 2))
    expect(b"Assistant: my name\n\nis Bob\n" in quoted.stdout, quoted.stdout)
    open_end = run(script(ECHO) + ["--plain"], stdin=b'"""\nmy name\n')
    same((open_end.returncode, open_end.stdout.count(b"Assistant:")), (2, 0))
    expect(b"has no end" in open_end.stderr, open_end.stderr)
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    same(run(script(ECHO) + ["--plain"], stdin=b'"""\n' + b"\n" * 300000).returncode, 2)
    expect(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 5, "each blank line is looked at once")
    behind = run(script(ECHO) + ["--plain"], stdin=b"one\n/quit\n\ntwo\nthree")
    same((behind.returncode, behind.stdout.count(b"Assistant:"), re.findall(b"moechat: .*\n", behind.stderr)),
         (0, 1, [b'moechat: not sent: what follows the line that left, from "two three" on\n']))
    expect(b"moechat: " not in run(script(ECHO) + ["--plain"], stdin=b"/quit\n \n\n").stderr, "all was read")
    long = run(script(ECHO) + ["--plain"], stdin=b"/quit\n" + b"x" * 59 + "\u00e9\u00e9".encode()).stderr
    expect(b'from "' + b"x" * 59 + b'" on' in long, "whole characters: %r" % long)
    for wanted in (b"Assistant: one\n", b"Took back 1", b"Assistant: two\n", b"Unknown command", b"Assistant: exit\n", b"Assistant: last without newline\n"):
        expect(wanted in text, "%r is missing in %r" % (wanted, text))


def test_a_pipe_gets_answers_alone():
    """Of one kind all goes to one stream: what was asked for to standard output, what is said of it to standard error."""
    wrong = ("/sett x", "/set temp warm", "/load nothing", "/undo", "/edit 7", "/export yaml x", "/save a/b", "/file nofile", "/rename a/b", "/delete nothing", "/tree 9",
             "/inspect 3", "/redo", "/fork a/b", "/copy 3", "/think x", "/log", "/new now")
    result = run(script(ECHO) + ["--plain", "--no-session"], stdin="\n".join(("hi",) + wrong + ("/retry", "")).encode())
    same((result.returncode, result.stdout), (1, b"Assistant: hi\nAssistant: hi\n"))
    expect(len(result.stderr.splitlines()) > len(wrong), result.stderr)
    for args in ([], ["--session", "piped-answers"], ["--session", "piped-answers"]):
        one = run(["run", "-p", "x"] + args + script("turn\ntext b\n")) if args else run(script(ECHO) + ["--plain"], stdin=b"b\n/system x\n/set temp 1\n")
        same(one.stdout, b"b" if args else b"Assistant: b\n")
    listed = run(script(ECHO) + ["--plain", "--no-session"], stdin=b"/set\n/help temp\n/sessions\n")  # what commands were asked for
    for words in (b"temp                   0.6 (default)", b"--temp T", b"piped-answers"):
        expect(words in listed.stdout and words not in listed.stderr, listed)
    run(["sessions", "rm", "piped-answers"])


if __name__ == "__main__":
    main(globals())
