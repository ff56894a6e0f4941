#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is typed, and what an editor has written, while something else has the terminal: it outlives whatever ends them."""
import os
import shutil
import signal
import tempfile
import time

from rig import *

GONE = 'kill -9 $$'
STAYS = 'echo it be""gins >/dev/tty; exec sleep 100'


class Chat(Screen):
    """One whose editor runs `text` of a shell, with a history of its own."""

    def __init__(self, text="", state=None, plain=False, shell=None, columns=100):
        self.state = state or tempfile.mkdtemp(dir=SCRATCH)
        self.temporary = tempfile.mkdtemp(dir=SCRATCH)
        self.folder = os.path.join(self.state, "moechat")
        os.makedirs(self.folder, exist_ok=True)
        editor = os.path.join(self.temporary, "editor")
        with open(editor, "w") as out:
            out.write("#!/bin/sh\n" + text + "\n")
        os.chmod(editor, 0o700)
        super().__init__(["--no-session"] + ["--plain"] * plain + script("turn\necho\nturn\necho\n"), columns=columns, shell=shell,
                         env=environment(TERM="xterm", MOECHAT_CLOCK="fake", XDG_STATE_HOME=self.state, TMPDIR=self.temporary, VISUAL=editor))
        self.until("You:" if plain else "idle")

    def drafts(self):
        return [open(os.path.join(self.folder, n)).read() for n in os.listdir(self.folder) if n.startswith("draft-")]

    def soon(self, drafts):
        """Long before a paste without its end is over."""
        end = time.monotonic() + 3
        while self.drafts() != drafts and time.monotonic() < end:
            self.read(0.1)
        same(self.drafts(), drafts)

    def history(self):
        path = os.path.join(self.folder, "history")
        return open(path).read().split("\n")[:-1] if os.path.exists(path) else []

    def temporaries(self):
        """The editor's files, beside the drafts or where there is no place for it."""
        folders = [folder for folder in (self.folder, self.temporary) if os.path.isdir(folder)]
        return [os.path.join(folder, n) for folder in folders for n in os.listdir(folder) if n.startswith(("edit-", "moechat-"))]

    def left(self):
        """Ends it; what the history has then."""
        self.process.terminate()
        same(self.finish(), 143)
        same(self.temporaries(), [])
        return self.history()


def writes(text, then):
    return "printf '%s' > \"$1\"; %s" % (text, then)


def test_what_an_editor_has_written_outlives_the_end_of_the_chat():
    for number, status in ((signal.SIGTERM, 143), (signal.SIGHUP, 129), (None, 129)):
        s = Chat(writes("two lines\\nof it\\n", STAYS))
        s.keys("a draft\x18\x05", "it begins")
        if number:
            s.process.send_signal(number)
            same(s.finish(), status)
        else:  # the terminal has gone
            os.close(s.slave)
            os.close(s.master)
            same(s.process.wait(timeout=DEADLINE), status)
        same(s.temporaries(), [])
        same(s.history(), ["a draft", "two lines\\nof it"])
        t = Chat(state=s.state)
        t.keys("\x1b[A", "> two lines\n  of it")
        t.left()


def test_what_an_editor_has_written_before_it_was_killed_is_the_draft():
    for then in (GONE, "sh -c '%s'" % GONE.replace("$$", "$PPID"), "exit 143"):
        s = Chat(writes("much work\\n", then))
        s.keys("a draft\x18\x05", "the editor was killed, the draft is what it wrote; the history has the old one (Up)")
        s.until("> much work")
        same(s.drafts(), ["much work"])
        s.keys("\x1b[A", "> a draft")
        s.keys("\x1b[B", "> much work")
        same(s.left(), ["a draft", "much work"])
    s = Chat(writes("much work\\n", GONE))
    s.keys("\x18\x05", "the editor was killed, the draft is what it wrote")
    same(s.left(), ["much work"])
    s = Chat(writes("", GONE))  # it was about to write
    s.keys("a draft\x18\x05", "the editor was killed; draft unchanged")
    same(s.left(), ["a draft"])


def test_what_nano_saves_as_it_is_killed_is_the_draft():
    """It stands beside the file, and nano fails then. A chat that was killed with it leaves it to the next."""
    nano = "printf 'all of it\n' > \"$1.save\"; "
    for wrote, older in (("true; ", []), ("printf 'written\n' >\"$1\"; ", ["written"])):
        s = Chat(wrote + nano + "exit 1")
        s.keys("a draft\x18\x05", "the editor was killed, the draft is what it wrote; the history has the old one (Up)")
        s.until("> all of it")
        same(s.drafts()[0].split("\0")[0], "all of it")
        same(s.left(), older + ["a draft", "all of it"])
    s = Chat("printf 'a draft\n' > \"$1\"; cp \"$1\" \"$1.save\"; exit 1")
    s.keys("a draft\x18\x05", "> a draft")
    same(s.left(), ["a draft"])
    for number, status in ((signal.SIGTERM, 143), (signal.SIGHUP, 129)):
        s = Chat("trap 'printf all >\"$1.save\"; exit 1' TERM HUP; echo it be\"\"gins >/dev/tty; while :; do sleep 0.1; done")
        s.keys("a draft\x18\x05", "it begins")
        s.process.send_signal(number)
        same(s.finish(), status)
        same(s.temporaries(), [])
        same(s.history(), ["a draft", "all"])
    s = Chat(nano + STAYS)
    s.keys("a draft\x18\x05", "it begins")
    s.process.kill()
    s.finish()
    t = Chat(state=s.state)
    t.until("What was typed in a chat that was killed is in the history")
    same(t.left(), ["a draft", "all of it"])


def test_what_vim_had_not_written_is_named():
    """When it fails, when the chat ends and when others begin, until somebody has seen to it."""
    swap = "import os, sys; name = os.path.join(os.path.dirname(sys.argv[1]), '.' + os.path.basename(sys.argv[1]) + '.swp'); " \
           "open(name, 'wb').write(b'b0VIM 9.0'.ljust(24, b'\\0') + bytes(983) + b'U' + bytes(3088))"
    vim = "printf 'written\n' > \"$1\"; python3 -c \"%s\" \"$1\"; " % swap
    for then, seen in (("exit 1", "the editor failed, the history has what it wrote (Up); draft unchanged"), (STAYS, "it begins")):
        s = Chat(vim + then, columns=160)
        s.keys("a draft\x18\x05", seen)
        name, = [n for n in os.listdir(s.folder) if n.endswith(".swp")]
        words = "vim -r %s has what vim did not write; it stays until you remove that file." % os.path.join(s.folder, name)
        if then == "exit 1":
            s.until(words)
        s.process.terminate()
        same(s.finish(), 143)
        same(s.output[-600:].count(words.encode()), 1)
        for plain in (False, True):
            t = Chat(state=s.state, plain=plain, columns=160)
            t.until(words)
            t.process.kill()
            t.finish()
        os.unlink(os.path.join(s.folder, name))


def test_an_editor_that_fails_leaves_the_draft_and_loses_nothing():
    s = Chat(writes("much\\000work\\n\\n", "exit 1"))  # :w, then :cq
    s.keys("a draft\x18\x05", "the editor failed, the history has what it wrote (Up); draft unchanged")
    s.until("> a draft")
    s.keys("\x1b[A", "> much\n  work")
    s.keys("\x1b[B!", "> a draft!")
    s.keys("\x7f", lambda t: "draft!" not in t.text())
    same(s.left(), ["much\\nwork", "a draft"])
    s = Chat()
    os.unlink(os.path.join(s.temporary, "editor"))
    s.keys("a draft\x18\x05", "the editor %s was not found; draft unchanged" % os.path.join(s.temporary, "editor"))
    same(s.left(), ["a draft"])
    s = Chat("exit 1")
    s.keys("a draft\x18\x05", "the editor failed; draft unchanged")
    same(s.left(), ["a draft"])
    s = Chat(writes("much work", "exit 255"))  # no signal has that number
    s.keys("a draft\x18\x05", "the editor failed, the history has what it wrote (Up); draft unchanged")
    same(s.left(), ["much work", "a draft"])
    s = Chat(writes("much work", "kill -2 $$"))  # Ctrl-C
    s.keys("a draft\x18\x05", "the editor failed, the history has what it wrote (Up); draft unchanged")
    same(s.left(), ["much work", "a draft"])


def test_what_an_editor_has_written_outlives_kill_9():
    """The next chat has it as it has drafts; one that runs meanwhile leaves it alone."""
    for draft, kept in (("a draft", ["a draft", "much\\nwork"]), ("", ["much\\nwork"])):
        s = Chat(writes("much\\nwork\\n\\n", STAYS))
        s.keys(draft + "\x18\x05", "it begins")
        same((os.stat(s.temporaries()[0]).st_mode & 0o777, os.path.dirname(s.temporaries()[0])), (0o600, s.folder))
        beside = Chat(state=s.state)
        same(beside.history(), [])
        beside.process.terminate()
        same(beside.finish(), 143)
        s.process.kill()
        s.finish()
        t = Chat(state=s.state)
        t.until("What was typed in a chat that was killed is in the history")
        t.keys("\x1b[A", "> much\n  work")
        same(t.left(), kept)
    s = Chat(STAYS)  # nothing is written yet
    s.keys("a draft\x18\x05", "it begins")
    s.process.kill()
    s.finish()
    same(Chat(state=s.state).left(), ["a draft"])
    s = Chat("cp \"$1\" \"$1~\"; printf 'much work' >\"$1\"")  # with a backup
    s.keys("a draft\x18\x05", "> much work")
    same(s.left(), ["much work"])
    same([n for n in os.listdir(s.folder) if n not in ("history", "log")], [])


def test_in_a_line_of_the_history_too():
    for then, line, kept in (("exit 1", "one more", ["a draft", "written", "one more"]), (GONE, "written", ["a draft", "one more", "written"])):
        s = Chat(writes("written", then))
        s.keys("one\r", "tokens/s)")
        s.until("idle")
        s.keys("a draft\x1b[A", "> one")
        s.keys(" more", "> one more")
        s.keys("\x18\x05", "the history has")
        s.until("> " + line)
        s.keys("\x1b[A\x1b[A\x1b[A", lambda t: t.text().split("\n")[-1] == "> one")
        same(s.left(), ["one"] + kept + ["one"])  # where one was


def test_a_file_that_was_not_changed_leaves_the_draft_as_it_is():
    s = Chat("true")
    s.keys("first\x1b\rsecond\x1b\r\x1b[A\x1b[A\x18\x05", "idle")
    s.keys("!", lambda t: "!" in t.text())
    expect(s.text().split("\n")[-3:] == ["> !first", "  second", ""], s.text())
    s.keys("\x08", lambda t: "!" not in t.text())
    s.process.terminate()
    same(s.finish(), 143)
    same(s.history(), ["first\\nsecond\\n"])


def test_an_editor_that_leaves_nothing_leaves_the_draft_in_the_history():
    for script in (": > \"$1\"", "echo > \"$1\""):
        s = Chat(script)
        s.keys("a draft\x18\x05", "the editor left nothing; the history has the draft (Up)")
        s.keys("\x1b[A", "> a draft")
        same(s.left(), ["a draft"])


def test_what_the_editor_left_and_cannot_be_read_stays():
    s = Chat("exec truncate -s 17M \"$1\"", columns=160)
    s.keys("a draft\x18\x05", "File too large; it stays there")
    left, = s.temporaries()
    words = "%s has what was typed and is in no history: it stays there." % left
    s.process.terminate()
    same(s.finish(), 143)
    expect(words.encode() in s.output[-600:], s.output[-600:])  # where it can be copied from
    for plain in (False, True):
        t = Chat(state=s.state, plain=plain, columns=160)
        t.until(words)  # until somebody has seen to it
        t.process.kill()
        t.finish()
    os.unlink(left)
    s = Chat("rm \"$1\"")
    s.keys("a draft\x18\x05", "the editor left no file; draft unchanged")
    same(s.left(), ["a draft"])


def test_what_no_history_takes_stays_in_the_editors_file():
    state = tempfile.mkdtemp(dir=SCRATCH)
    s = Chat(writes("much work\\n", "exit 1"), state, columns=160)
    shutil.rmtree(s.folder)
    open(s.folder, "w").close()
    s.keys("a draft\x18\x05", "has what it wrote; draft unchanged")
    name = [path for path in s.temporaries() if "moechat-draft-" not in path][0]  # the draft has its own there, too
    expect(" the editor failed, " + name + " has" in s.text() and s.temporary in name, s.text())
    same(open(name).read(), "much work\n")
    s.process.terminate()
    same(s.finish(), 143)


def test_a_draft_that_no_history_takes_is_told_in_the_end():
    """One whose place an editor that was killed has taken, or one that the end of the chat has ended."""
    for then, seen in ((GONE, "the draft is what it wrote; this chat's history has the old one (Up)"), (STAYS, "it begins")):
        s = Chat(writes("much work\\n", then))
        shutil.rmtree(s.folder)
        open(s.folder, "w").close()
        s.keys("a draft\x18\x05", seen)
        s.process.terminate()
        same(s.finish(), 143)
        expect(b"/moechat-draft-" in s.output and b" has what was typed and is in no history." in s.output, s.output[-500:])
        same([open(path).read() for path in s.temporaries()], ["much work\0a draft"])


def test_what_was_just_typed_outlives_kill_9_while_something_else_has_the_terminal():
    for keys, seen in (("\x18\x05", "it begins"), ("\x1bv", "press any key")):
        s = Chat(STAYS)
        s.keys("precious" + keys, seen)
        same(s.drafts(), ["precious"])
        s.process.kill()
        s.finish()
    for plain in (False, True):
        s = Chat(shell='"$0" "$@"; echo stopped; read go; kill -9 %1', plain=plain)
        s.keys("precious\x1a", "stopped")
        same(s.drafts(), ["precious"])
        s.keys("\n", lambda t: t.process.poll() is not None)
    s = Chat()
    s.keys("one\r", "tokens/s)")
    s.until("idle")
    s.keys("!true\r", "Enter once more")
    s.keys("\r", "the command printed nothing")
    s.keys("\x1b[A\x1b[A more\x1b[B\x1b[B!%s\r" % STAYS, "it begins")  # what was changed in a line of the history
    same(s.drafts(), ["one more"])
    s.process.kill()
    s.finish()


def test_what_has_come_of_a_paste_outlives_kill_9():
    """Of one that takes long, in its place in the draft."""
    for plain in (False, True):
        s = Chat(plain=plain)
        s.keys("a draft\x1b[D\x1b[D\x1b[D", "a draft")
        s.send("\x1b[200~long\rpaste")
        s.soon(["a drlong\npasteaft"])
        s.process.kill()
        s.finish()
        same(Chat(state=s.state).left(), ["a drlong\\npasteaft"])
    s = Chat()
    s.send("\x1b[200~begun")
    s.soon(["begun"])
    s.keys(" and ended\x1b[201~", "> begun and ended")
    same(s.left(), ["begun and ended"])


def test_a_message_between_quotes_is_one_line_of_the_history():
    """In plain lines, too: when it is sent, given up, or ended with the chat, which may be killed; also typed ahead."""
    quotes, sent = '"""', '"""\\nfirst\\nsecond\\n"""'
    s = Chat(plain=True)
    for line in (quotes, "first", "second"):
        s.keys(line + "\r", line + "\n")
    s.soon([quotes + "\nfirst\nsecond"])
    s.keys(quotes + "\r", "tokens/s;")
    same(s.history(), [sent])
    s.send(quotes + "\rone\rtwo")
    s.until("two")
    s.keys("\x03", "^C")
    same(s.history(), [sent, quotes + "\\none\\ntwo"])
    s.send(quotes + "\rthree\r")
    s.until("three")
    s.keys("\x04", "Not sent: the message after")
    same(s.history()[2:], [quotes + "\\nthree"])
    s.send(quotes + "\rfour\rfi")
    s.until("fi")
    same(s.left()[3:], [quotes + "\\nfour\\nfi"])
    for ends, kept in ((signal.SIGKILL, quotes + "\\nsix"), (signal.SIGTERM, quotes + "\\nsix")):
        s = Chat(plain=True)
        s.keys(quotes + "\rsix\r", "six\n")
        s.soon([quotes + "\nsix"])
        s.process.send_signal(ends)
        s.finish()
        same(Chat(state=s.state).left(), [kept])
    s = Chat(plain=True)
    s.send("go\r" + quotes + "\rahead\r" + quotes + "\r")
    s.until(lambda t: t.text().count("tokens/s;") == 2)
    s.keys("\x1b[A", lambda t: t.text().rstrip().endswith(quotes))
    same(s.history(), ["go", quotes + "\\nahead\\n" + quotes])
    s.process.kill()
    s.finish()


def test_what_the_starter_blocked_or_ignored_of_signals_is_no_matter():
    """Children's ends that nobody is told of, and signals that would never come."""
    masks = """exec python3 -c 'import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))
os.execv(sys.argv[1], sys.argv[1:])' "$0" "$@" """
    s = Chat(writes("two lines\\nof it\\n", "exit 0"), shell=masks)
    s.keys("a draft\x18\x05", "two lines\n  of it")
    s.keys("\x15\x15\x15\x15!echo o\"\"k\r", "runs")
    s.send("\r")
    s.until("> ok")
    s.left()


def test_one_that_goes_on_in_the_background_leaves_the_terminal_to_the_shell():
    """Suspended with its editor or command, continued by bg or from elsewhere, ended by kill %1."""
    waits = """"$0" "$@"; echo stopped; read go; %s; sleep 0.6; if read more; then echo "the shell read $more"; fi"""
    ends = """; kill %1; kill -CONT %1; until jobs >$HOME/jobs; grep "(143)" $HOME/jobs; do sleep 0.1; done; echo ended; if read more; then echo "and read $more"; fi"""
    command = "!%s" % STAYS
    for keys, seen, kept in ((["a draft\x18\x05"], "it begins", ["a draft", "much work"]), ([command + "\r", "\r"], "it begins", [command]),
                             (["a draft"], "> a draft", ["a draft"])):
        for go_on in ("bg", "kill -CONT %1"):
            s = Chat(writes("much work\\n", STAYS), shell=waits % go_on + ends)
            before = s.before
            for key in keys[:-1]:
                s.keys(key, "runs this in your shell")
            s.keys(keys[-1], seen)
            s.keys("\x1a", "stopped")
            s.keys("\nwords\n", "the shell read words")
            s.until("(143)")
            s.until("ended")
            s.keys("others\n", "and read others")
            same(s.finish(), 0)
            same(s.settings(), before)
            same(s.temporaries(), [])
            same(s.history(), kept)
    s = Chat(writes("much work", "echo it be\"\"gins; read line; exit 0"), shell=waits % "bg" + """; fg; echo "ended $?\"""")
    s.keys("a draft\x18\x05", "it begins")
    s.keys("\x1a", "stopped")
    s.keys("\nwords\n", "the shell read words")
    s.keys("\n", "> much work")  # the editor has the terminal again, and the chat after it
    s.keys("\x15\x04", "ended 0")
    same(s.finish(), 0)
    same(s.settings(), s.before)


if __name__ == "__main__":
    main(globals())
