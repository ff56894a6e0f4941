#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands in pipes and files: bytes, exit statuses, JSON."""
import fcntl
import json
import os
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

from rig import *

ECHO = "turn\necho\n"
TINY = os.path.join(ROOT, "tests", "golden", "tiny-a", "package")


def refused(result, status, words):
    same(result.returncode, status)
    same(result.stdout, b"")
    expect(words.encode() in result.stderr, "%r is missing in %r" % (words, result.stderr))
    same(result.stderr.count(b"\n"), 1)


def test_only_the_answer_on_standard_output():
    answer = "load 2 150\nturn\nprefill 150\ntoken \\e[31mred\\x00\\xff\ntoken \\xe2\\x82\ntoken \\xac\n"
    result = run(["run", "-p", "hi"] + script(answer))
    same((result.returncode, result.stdout, result.stderr), (0, b"\x1b[31mred\x00\xff\xe2\x82\xac", b""))


def test_the_prompt_comes_from_everywhere():
    for args, stdin, wanted in ((["-p", "one"], b"", b"one"), ([], b"two\n", b"two"), (["-p", "one"], b"two\n", b"one\ntwo"),
                                ([], b"two\r\n", b"two"), ([], b"\n\nx\n\n", b"\n\nx\n"), (["-p", "\u20ac"], b"", "\u20ac".encode()),
                                ([], b"\xff\x00\n", b"\xff\x00")):
        result = run(["run"] + args + script(ECHO), stdin=stdin)
        same((result.returncode, result.stdout, result.stderr), (0, wanted, b""))
    path = os.path.join(SCRATCH, "prompt")
    with open(path, "w") as out:
        out.write("from a file\n")
    same(run(["run", "--prompt-file", path] + script(ECHO), stdin=b"and more").stdout, b"from a file\nand more")
    refused(run(["run", "--prompt-file", path + ".none"] + script(ECHO)), 2, "No such file")
    refused(run(["run", "--prompt-file", path, "-p", "x"] + script(ECHO)), 2, "use either --prompt or --prompt-file, not both")
    refused(run(["run", "x", "--prompt-file", path] + script(ECHO)), 2, 'use either "x" or --prompt-file, not both')
    system = run(["run", "-p", "x", "--system", "Be kind."] + script("turn\nsystem\n"))
    same(system.stdout, b"Be kind.")


def test_no_prompt_is_a_sentence():
    refused(run(["run"] + script(ECHO)), 2, "no prompt")
    refused(run(["run", "-p", ""] + script(ECHO), stdin=b"\n"), 2, "no prompt")


def test_exit_statuses():
    for text, status in (("turn\ntext fine\n", 0), ("turn\ntext one\nerror disk\n", 1), ("load-error no model\n", 3),
                         ("nonsense\n", 3), ("context 20\nturn\nrepeat 100 x\n", 4), ("context 8\nturn\necho\n", 4)):
        result = run(["run", "-p", "hello"] + script(text))
        same((text, result.returncode), (text, status))
        same(result.stderr.count(b"\n"), 0 if status == 0 else 1)
    same(run(["run", "-p", "x", "--temp", "hot"]).returncode, 2)
    same(run(["run", "-p", "x", "-m", SCRATCH + "/none"]).returncode, 3)
    same(run([]).returncode, 2)  # a chat into a pipe
    limited = run(["run", "-p", "x", "--max-tokens", "3"] + script("turn\nrepeat 9 ab\n"))
    same((limited.returncode, limited.stdout), (0, b"ababab"))


def test_misuse_is_a_sentence_and_status_2():
    echo, sessions = script(ECHO), {"show": "NAME", "tree": "NAME", "rm": "NAME", "rename": "NAME NEW-NAME", "export": "NAME [md|json|txt]", "verify": "NAME", "prune": "NAME"}
    for args, words in [(["sessions", verb], "usage: moechat sessions %s %s" % (verb, names)) for verb, names in sessions.items()] + [
            (["sessions", verb, "a", "b"], "usage: moechat sessions %s NAME" % verb) for verb in ("show", "tree", "rm", "verify", "prune")] + [
            (["sessions", "list", "a"], "usage: moechat sessions list"), (["sessions", "compact", "a", "b"], "usage: moechat sessions compact [NAME]"),
            (["sessions", "rename", "a"], "usage: moechat sessions rename NAME NEW-NAME"), (["sessions", "polish"], 'unknown verb "polish"'),
            (["sessions", "show", "../x"], "../x"), (["sessions", "export", "a", "pdf"], 'not "pdf"'),
            (["info", TINY, "--model", TINY], "info takes DIR or --model, not both"), (["info", "--list", "-", "--verify"], "--verify checks files"),
            (["eval", "-m", TINY], "eval needs either --tokens FILE or --text FILE"),
            (["eval", "-m", TINY, "--tokens", "a", "--text", "b"], "eval needs either --tokens FILE or --text FILE"),
            (["bench", "polish"], 'unknown benchmark "polish"'), (["bench", "cache"], "needs a trace"), (["bench", "-m", TINY, "--only", "baseline"], "--only is for bench stream"),
            (["bench", "stream", "-m", TINY, "--only", "nonsense"], '"nonsense"'), (["convert", TINY], "usage: moechat convert MODEL NEWDIR"), (["help", "polish"], "polish"),
            (["run", "--no-template", "--session", "a", "-p", "x"] + echo, "--no-template cannot be used with a session"),
            (["run", "--session", "../x", "-p", "x"] + echo, "../x"), (["--plain", "--session", "../x"] + echo, "../x"), (["--dump-options=html"], "--dump-options takes"), (["--nonsense"], "--nonsense")]:
        result = run(args)
        same((args, result.returncode, result.stdout, result.stderr.count(b"\n")), (args, 2, b"", 1))
        expect(words.encode() in result.stderr, "%r is missing in %r" % (words, result.stderr))


def test_json_is_one_valid_object():
    result = run(["run", "-p", "hi", "--json", "--seed", "7"] + script("name \"t\\\nturn\ncount 3 1 4096\ntoken a\\xff\n"))
    same((result.returncode, result.stderr), (0, b""))
    same(result.stdout.count(b"\n"), 1)
    got = json.loads(result.stdout)
    for key in ("text", "prefilled_tokens", "generated_tokens", "prefill_tokens_per_s", "decode_tokens_per_s", "experts",
                "stop_reason", "model", "device", "seed", "context_used", "context_total"):
        expect(key in got, key + " is missing")
    same(sorted(got["experts"]), sorted(["hits", "misses", "bytes_read", "bytes_cached", "prefetched", "used", "wasted", "unused", "policy"]))
    same((got["text"], got["text_hex"]), ("a\ufffd", "61ff"))
    same((got["generated_tokens"], got["prefilled_tokens"], got["seed"]), (1, 6, 7))
    same((got["experts"]["hits"], got["experts"]["bytes_read"], got["stop_reason"]), (3, 4096, "end"))
    for template, answer, marks in (([], 4, 1), ([], 1, 1), (["--no-template"], 4, 0), (["--no-template"], 1, 1)):  # the one that ends it, or closes the turn
        got = json.loads(run(["run", "-p", "hi", "--json", "--max-tokens", "4"] + template + script("turn\nrepeat %d x\n" % (9 if answer == 4 else 1))).stdout)
        same((template, got["generated_tokens"], got["context_used"]), (template, answer, got["prefilled_tokens"] + answer + marks))
    for text, status, reason in (("turn\nrepeat 9 x\nerror disk\n", 1, "error"), ("context 9\nturn\nrepeat 9 x\n", 4, "context_full"),
                                 ("context 4\nturn\nrepeat 9 x\n", 4, "context_full")):
        result = run(["run", "-p", "hi", "--json"] + script(text))
        same((result.returncode, json.loads(result.stdout)["stop_reason"]), (status, reason))
    limited = run(["run", "-p", "hi", "--json", "--max-tokens", "2"] + script("turn\nrepeat 9 x\n"))
    same(json.loads(limited.stdout)["stop_reason"], "max_tokens")
    hostile = run(["run", "-p", "hi", "--json"] + script(b"turn\ntoken \\x9b\\xc2\\x9b\\xe2\\x80\\xae\\xf3\\xa0\\x81\\x81\\e\\x7f\n"))
    for bad in (b"\x9b", b"\xe2\x80\xae", b"\xf3\xa0", b"\x1b", b"\x7f"):
        expect(bad not in hostile.stdout, "%r is in the JSON" % bad)
    same(json.loads(hostile.stdout)["text"], "\ufffd\x9b\u202e\U000e0041\x1b\x7f")


def test_stop_strings():
    over = script("turn\ntoken one t\ntoken wo\ntoken  three\n")
    stop = ["run", "-p", "hi", "--stop", "x,two"]
    same(run(stop + over).stdout, b"one ")
    lines = [json.loads(line) for line in run(stop + ["--jsonl"] + over).stdout.splitlines()]
    same(("".join(line["text"] for line in lines[:-1]), len(lines) - 1), ("one ", 2))
    same((lines[-1]["text"], lines[-1]["stop_reason"], lines[-1]["generated_tokens"]), ("one ", "stop", 2))
    same(run(["run", "-p", "hi", "--stop", "twofold,none"] + over).stdout, b"one two three")
    refused(run(["run", "-p", "hi", "--stop", "x" * 200] + over), 2, "--stop has a text of more than 127 bytes")
    refused(run(["run", "-p", "hi", "--stop", ""] + over), 2, '--stop takes TEXT,... or none, not ""')
    same(run(["run", "-p", "hi", "--stop", "none"] + over, env=environment(MOECHAT_STOP="two")).stdout, b"one two three")
    same(run(["run", "-p", "hi"] + over, env=environment(MOECHAT_STOP="")).stdout, b"one two three")  # as if it were not set
    refused(run(["run", "-p", "hi", "--logit-bias", "a=1"] + over), 2, "--logit-bias takes ID=X,...")
    refused(run(["run", "--logit-bias", "/etc/passwd", "--print-config"]), 2, "--logit-bias takes ID=X,...")
    # The demo's next token of choice is made impossible; and one outside its vocabulary is refused with the turn.
    first = lambda *more: json.loads(run(["run", "--device", "ref", "--jsonl", "--temp", "0", "--max-tokens", "1", "-p", "hi"] + list(more)).stdout.splitlines()[0])["token"]
    favourite = first()
    expect(first("--logit-bias", "%d=-inf" % favourite) != favourite, "a token is never taken")
    result = run(["run", "--device", "ref", "--logit-bias", "99999999=1", "-p", "hi"])
    refused(result, 2, "logit-bias: token 99999999 is outside the vocabulary of 4096 tokens")
    said = run(["--plain", "--no-session", "--device", "ref", "--logit-bias", "4096=1"], stdin=b"/set logit-bias 5000=1\n/set logit-bias 4095=-1\n", together=True)
    expect(b"token 4096 is outside the vocabulary of 4096 tokens; /set" in said.stdout and b"token 5000 is outside" in said.stdout and
           b"logit-bias is now 4095=-1" in said.stdout, said)


def stop_with(number, args):
    process = subprocess.Popen([PROGRAM, "run", "-p", "x"] + args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=environment())
    first = b""
    if "--json" in args:
        time.sleep(0.5)  # nothing shows that it is under way
    while "--json" not in args and len(first) < len(b"one two"):
        first += os.read(process.stdout.fileno(), 64)
    process.send_signal(number)
    out, err = process.communicate(timeout=DEADLINE)
    return process.returncode, first + out, err


def test_signals_keep_what_is_there():
    hang = script("turn\ntext one two\nhang\n")
    for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)):
        same(stop_with(number, hang), (status, b"one two", b""))
        code, out, err = stop_with(number, ["--json"] + hang)
        same((code, json.loads(out)["stop_reason"], json.loads(out)["text"], err), (status, "cancelled", "one two", b""))
    code, out, err = stop_with(signal.SIGINT, script("load 1000 100\n") + ["--json"])
    same((code, out, err), (130, b"", b""))


def test_a_chat_in_a_pipe_is_ended_by_a_signal():
    """While it answers and while it waits for a line, as whatever else is in the pipe: nobody is there to go on with it."""
    for text, first in (("turn\ntext one two\nhang\n", b"one two"), ("turn\ntext one two\n", b"one two\n")):
        process = subprocess.Popen([PROGRAM, "--plain", "--no-session"] + script(text), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=environment())
        process.stdin.write(b"x\n")
        process.stdin.flush()
        got = b""
        while first not in got:
            got += os.read(process.stdout.fileno(), 4096)
        process.send_signal(signal.SIGINT)
        process.wait(DEADLINE)  # its input is still open
        same(process.returncode, 130)
        process.communicate()


def test_lines_behind_a_signal_are_told():
    """As those behind /quit are, from a pipe and from a file: while it answers, loads, and waits for the end of a message."""
    hang, path = "turn\ntext one two\nhang\n", os.path.join(SCRATCH, "lines")
    for number, text, lines, first, words in (
            (signal.SIGINT, hang, b"x\n\ntwo\nthree", b"one two", b'two three'), (signal.SIGTERM, hang, b"x\ntwo\n", b"one two", b"two"),
            (signal.SIGHUP, hang, b"x\n" + b"y" * 9000, b"one two", b"y" * 60), (signal.SIGQUIT, hang, b"x\n \n\n", b"one two", None),
            (signal.SIGINT, "load 1000 100\n", b"x\ntwo\n", b"", b"x two"),
            (signal.SIGINT, "turn\ntext one two\n", b'x\n"""\nmy name\n', b"one two\n", b'""" my name')):
        for source in ("pipe", "file"):
            if source == "file" and b'"' in lines:
                continue  # its end ends the chat
            with open(path, "wb") as out:
                out.write(lines)
            with open(path) as file:
                process = subprocess.Popen([PROGRAM, "--plain", "--no-session"] + script(text), stdin=file if source == "file" else subprocess.PIPE,
                                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
            if source == "pipe":
                process.stdin.write(lines)
                process.stdin.flush()
            got = b""
            while first not in got:
                got += os.read(process.stdout.fileno(), 4096)
            if not first:
                time.sleep(0.5)  # nothing shows that it loads
            process.send_signal(number)
            process.wait(DEADLINE)
            out, err = process.communicate()
            expect((got + out).endswith(b"\n") or not got, "what is said begins a line: %r" % (got + out))
            told = re.findall(b"moechat: .*\n", err)
            same((number, process.returncode, told), (number, 128 + number, [b'moechat: not sent: the lines from "%s" on\n' % words] if words else []))


def test_a_log_that_can_not_be_made_is_said_by_the_status():
    for option in ("--trace", "--predict-log"):
        answer = ["run", "-p", "hi", "-m", os.path.join(ROOT, "models", "demo"), "--device", "ref", option, os.path.join(SCRATCH, "none", "x")]
        told = run(answer)
        same((told.returncode, told.stdout), (3, b""))
        expect(b"No such file or directory" in told.stderr, told.stderr)
    with open(os.path.join(ROOT, "man", "moechat.1")) as page:
        status = page.read().split(".It 3\n")[1].split(".It 4\n")[0]
    expect("-trace" in status and "-predict-log" in status, status)


def piped(text, stdin, **more):
    return run(["--plain", "--no-session"] + script(text), stdin=stdin, **more)


def test_a_piped_chat_tells_how_it_went():
    same(piped(ECHO, b"a\0b\n").stdout.count(b"Assistant: a\xe2\x90\x80b\n"), 1)
    for text, stdin, status in ((ECHO, b"one\n", 0), ("context 24\nturn\necho\n", b"0123456789\n", 4),
                                ("context 24\nturn\necho\n", b"a message that is too long\nx\n", 4),
                                ("turn\nerror disk\nturn\necho\n", b"one\ntwo\n", 1)):
        result = piped(text, stdin)
        same((text, result.returncode), (text, status))
    long = piped(ECHO, b"x" * (5 << 20))
    same((long.returncode, long.stderr.count(b"moechat: ")), (1, 1))
    expect(b"longer than 4 MiB" in long.stderr, "said: %r" % long.stderr)
    folder = os.open(SCRATCH, os.O_RDONLY)
    result = subprocess.run([PROGRAM, "--plain"] + script(ECHO), stdin=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env=environment(), timeout=DEADLINE)
    os.close(folder)
    same(result.returncode, 1)
    expect(b"cannot read standard input: Is a directory" in result.stderr, "said: %r" % result.stderr)
    with open("/dev/full", "wb") as full:
        result = piped("turn\n" + "text words to be written\n" * 5000, b"one\ntwo\n", stdout=full)
    same((result.returncode, result.stderr.count(b"moechat: ")), (1, 2))
    expect(b'not sent: the lines from "two" on' in result.stderr, "said: %r" % result.stderr)


def test_a_piped_command_that_is_not_done_is_a_failure():
    """As a turn that failed is, and what comes behind it is done all the same; what had nothing to do is none."""
    for command, status in (("/load nosuch", 1), ("/delete nosuch", 1), ("/nosuch", 1), ("/set temp hot", 1), ("/set num_ctx 9", 1), ("/undo", 1), ("/undo x", 1),
                            ("/retry", 1), ("/edit 9 x", 1), ("/tree 9", 1), ("/file /nosuch", 1), ("/export json /nosuch/x", 1), ("/export pdf x", 1),
                            ("/inspect 1", 1), ("/log", 1), ("/copy", 1), ("/new now", 1), ("/fork", 1), ("/rename", 1), ("/think maybe", 1), (" /stats", 1),
                            ("/stats", 0), ("/tree", 0), ("/system", 0), ("/sessions", 0), ("/heat", 0), ("/set", 0), ("/set temp", 0), ("/help", 0),
                            ("//nosuch", 0), ("/new", 0)):
        for end in ("", "/quit\n"):
            result = piped(ECHO * 2, (command + "\nhi\n" + end).encode(), cwd=SCRATCH)
            same((command, end, result.returncode, result.stdout.count(b"Assistant: hi\n")), (command, end, status, 1))
    same(piped("nonsense\n", b"/nosuch\nx\n").returncode, 3)  # a model that does not open comes first
    same(piped("context 24\nturn\necho\n", b"a message that is too long\n/nosuch\n").returncode, 4)  # the first counts


def test_a_reader_that_leaves_is_no_error():
    endless = script("context 30000\nturn\nrepeat 20000 " + "x" * 100 + "\n")
    for args in (["run", "-p", "x"] + endless, ["run", "-p", "x", "--json"] + endless):
        process = subprocess.Popen([PROGRAM] + args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=environment(), preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_DFL))
        if "--json" not in args:
            os.read(process.stdout.fileno(), 1)
        process.stdout.close()
        same((process.wait(DEADLINE), process.stderr.read()), (141, b""))
        process.stderr.close()


def slowly_read(args, stdin, which, ends):
    """What comes through `ends`, whose end that is written to does not wait, to a reader that is late and slow; it is full by then."""
    reader, writer = ends
    os.set_blocking(writer, False)
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, which: writer}
    process = subprocess.Popen(["moechat"] + args, executable=PROGRAM, stdin=subprocess.PIPE, env=environment(), **streams)
    os.close(writer)
    process.stdin.write(stdin)
    process.stdin.close()
    time.sleep(0.2)
    output = b""
    while data := os.read(reader, 700):
        output += data
        time.sleep(0.0002)
    os.close(reader)
    return process.wait(DEADLINE), output


def test_an_output_that_does_not_wait_is_waited_for():
    """As a parent that shares it may leave a pipe, and node.js a pair of sockets."""
    def pipe():
        ends = os.pipe()
        fcntl.fcntl(ends[1], 1031, 4096)  # F_SETPIPE_SZ
        return ends

    def sockets():
        ends = socket.socketpair()
        ends[1].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2048)
        return [end.detach() for end in ends]

    same(run(["run", "--session", "not-waiting", "-p", "x " * 2000] + script("context 30000\nturn\necho\necho\n")).returncode, 0)
    talk, chat = script("context 30000\nturn\nrepeat 2000 abc\n"), ["--plain", "--no-session"]
    commands = [(["help", "chat"], b""), (["--completion", "zsh"], b""), (["sessions", "show", "not-waiting"], b""),
                (["sessions", "tree", "not-waiting"], b""), (["sessions", "export", "not-waiting", "md"], b""),
                (["sessions", "export", "not-waiting", "json"], b""), (["run", "-p", "x"] + talk, b""), (chat + talk, b"one\n")]
    for args, stdin in commands:
        wanted = run(args, stdin).stdout
        expect(len(wanted) > 4096 or "tree" in args, "%r: all of %d bytes would go at once" % (args, len(wanted)))
        for ends in (pipe(), sockets()):
            same((args, slowly_read(args, stdin, "stdout", ends)), (args, (0, wanted)))
    aside = (chat + script("turn\necho\n"), b"/nonsense\n" * 200)
    wanted = run(*aside)
    expect(len(wanted.stderr) > 4096, "%d bytes" % len(wanted.stderr))
    same(slowly_read(*aside, "stderr", pipe()), (wanted.returncode, wanted.stderr))
    for gone in (pipe(), sockets()):  # a reader that leaves ends it as ever
        os.set_blocking(gone[1], False)
        process = subprocess.Popen([PROGRAM, "help", "chat"], stdout=gone[1], stderr=subprocess.PIPE, env=environment(),
                                   preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_IGN))
        os.close(gone[1])
        time.sleep(0.2)
        os.close(gone[0])
        same((process.wait(DEADLINE), process.stderr.read()), (141, b""))
        process.stderr.close()


def test_a_full_disk_is_an_error():
    for args in (["run", "-p", "x"] + script(ECHO), ["run", "-p", "x", "--json"] + script(ECHO), ["help"], ["--version"],
                 ["devices"], ["devices", "--json"]):
        with open("/dev/full", "wb") as full:
            result = run(args, stdout=full)
        same((args[0], result.returncode), (args[0], 1))
        expect(b"No space left" in result.stderr, "said: %r" % result.stderr)


def test_kernels_are_built_ahead_of_time():
    result = run(["kernels", "--device", "ref"])
    same((result.returncode, result.stdout, result.stderr), (0, b"Kernels are ready for plain C on one thread.\n", b""))
    result = run(["kernels", "--device", "no such device"])
    same((result.returncode, result.stdout), (3, b""))
    expect(b"no such device" in result.stderr or b"no OpenCL device" in result.stderr, "said: %r" % result.stderr)
    result = run(["kernels", "--job", "nonsense"])  # what a helper is asked for
    same((result.returncode, result.stdout), (3, b""))
    expect(b"is no job" in result.stderr, "said: %r" % result.stderr)


def test_closed_streams_are_no_files():
    """What is opened first would get their numbers, and the answer would be written into it."""
    shell = 'exec "$@" %s'
    for args in (["run", "-p", "x"] + script(ECHO), ["devices"], ["eval", "-m", TINY, "--device", "ref", "--tokens", "/dev/stdin"]):
        for closed in (">&-", "<&- >&-"):
            status = subprocess.run(["sh", "-c", shell % closed, "sh", PROGRAM] + args, input=b"1 2", stderr=subprocess.PIPE,
                                    env=environment(), timeout=DEADLINE)
            same((args[0], closed, status.returncode, status.stderr.count(b"\n")), (args[0], closed, 1, 1))
    result = subprocess.run(["sh", "-c", shell % "<&- 2>&-", "sh", PROGRAM, "run", "-p", "x"] + script(ECHO), stdout=subprocess.PIPE,
                            env=environment(), timeout=DEADLINE)
    same((result.returncode, result.stdout), (0, b"x"))


def test_few_descriptors_are_said():
    path = os.path.join(SCRATCH, "few")
    with open(path, "w") as out:
        out.write("1 2 3")
    for limit in range(5, 24):
        result = subprocess.run(["sh", "-c", 'ulimit -n %d; exec "$@"' % limit, "sh", PROGRAM, "eval", "-m", TINY, "--device", "ref",
                                 "--tokens", path, "--logits", path + ".f32"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                stdin=subprocess.DEVNULL, env=environment(), timeout=DEADLINE)
        same((limit, result.returncode == 0), (limit, result.stderr == b""))
    same(result.returncode, 0)


def test_answers_to_a_terminal_are_clean():
    t = Terminal(["run", "-p", "x"] + script("turn\ntoken \\e]0;t\\x07\ntoken end\n"))
    same(t.finish(), 0)
    expect(t.output.endswith(b"end\r\n"), "the last line is ended: %r" % t.output)
    expect(b"\x1b" not in t.output and b"\x07" not in t.output, "nothing acts on the terminal")


def test_progress_only_on_a_terminal():
    slow = script("load 5 150\nturn\nprefill 300\ntoken end\n")
    prompt = ["run", "-p", "x" * 100]
    t = Terminal(prompt + slow, stdout=subprocess.DEVNULL)
    same(t.finish(), 0)
    expect(b"Reading weights" in t.output and b"Reading prompt" in t.output, "progress: %r" % t.output)
    expect(t.output.endswith(b" \r"), "and it is wiped away: %r" % t.output)
    same(run(prompt + slow).stderr, b"")


def test_the_first_start_shows_that_kernels_are_built():
    if len(json.loads(run(["devices", "--json"]).stdout)["devices"]) < 2:
        return  # plain C builds nothing
    path = os.path.join(SCRATCH, "first")
    with open(path, "w") as out:
        out.write("1 2 3")
    env = environment(XDG_CACHE_HOME=SCRATCH + "/empty", POCL_CACHE_DIR=SCRATCH + "/empty")
    os.mkdir(SCRATCH + "/empty")
    t = Terminal(["eval", "-m", TINY, "--tokens", path], env=env, stdout=subprocess.DEVNULL)
    same(t.finish(), 0)
    expect(re.search(rb"Building kernels: \d+ of \d+", t.output), "progress: %r" % t.output)
    expect(b"warning" not in t.output, "the driver's compiler says nothing: %r" % t.output)


def test_a_kernel_cache_that_cannot_be_is_said():
    file = os.path.join(SCRATCH, "a file in the way")
    open(file, "w").close()
    result = run(["bench", "-m", TINY, "--device", "ref", "--runs", "1", "--prefill-tokens", "4", "--decode-tokens", "1",
                  "--kernel-cache", file + "/kernels"])
    same(result.returncode, 0)
    expect(b"cannot cache kernels in" in result.stderr and b"Not a directory" in result.stderr, result.stderr)
    result = run(["bench", "-m", TINY, "--device", "ref", "--runs", "1", "--prefill-tokens", "4", "--decode-tokens", "1",
                  "--kernel-cache="])
    same(result.returncode, 0)
    expect(b'cannot cache kernels in "": No such file' in result.stderr, result.stderr)
    folder = os.path.join(SCRATCH, "for-everybody")
    os.mkdir(folder)
    os.chmod(folder, 0o777)
    result = run(["bench", "-m", TINY, "--device", "ref", "--runs", "1", "--prefill-tokens", "4", "--decode-tokens", "1",
                  "--kernel-cache", folder])
    same(result.returncode, 0)
    expect(b"cannot cache kernels in" in result.stderr and b"others may write to it" in result.stderr, result.stderr)


def test_what_was_said_is_exported_byte_for_byte():
    folder = os.path.join(SCRATCH, "exports")
    os.mkdir(folder)
    said = "turn\ntoken \\e[31m\\xff\\n```c\\nint x;\\n```\n"
    lines = "hi\n/export\n/export\n/export\n/export json a.json\n/export /nowhere/x\n/copy\n/copy 9\n/log\n/think show\n /quit\n"
    result = run(["--plain", "--no-session"] + script(said), stdin=lines.encode(), cwd=folder, together=True)
    same(result.returncode, 1)  # the last commands are not done
    with open(os.path.join(folder, "conversation.md"), "rb") as file:
        same(file.read(), b"## You\n\nhi\n\n## Assistant\n\n\x1b[31m\xff\n```c\nint x;\n```\n")
    with open(os.path.join(folder, "a.json"), "rb") as file:
        messages = json.load(file)["messages"]
    same((messages[0]["text"], bytes.fromhex(messages[1]["text_hex"])), ("hi", b"\x1b[31m\xff\n```c\nint x;\n```"))
    said = result.stdout.decode()
    expect(len(re.findall(r"Wrote \d+ bytes to ", said)) == 3 and said.count("repeat the command to replace it") == 1, said)
    for words in ("Copying needs the full screen", "No such answer", "No log", "/think takes", "Not sent: "):
        expect(words in said, "%s: %s" % (words, said))
    expect(b"/nowhere/x: No such file" in result.stdout, result.stdout)
    same(sorted(os.listdir(folder)), ["a.json", "conversation.md"])


def test_a_file_is_sent():
    path = os.path.join(SCRATCH, "a file")
    with open(path, "w") as file:
        file.write("one\ntwo\n\n")
    empty = os.path.join(SCRATCH, "empty-file")
    open(empty, "w").close()
    said = piped(ECHO, b'/file "%s" Sum up:\n/file /nowhere/x\n/file "x\n/file /dev/null\n/file "%s"\n' % (path.encode(), empty.encode()))
    expect("Assistant: Sum up:\n\none\ntwo\n" in said.stdout.decode(), said.stdout)
    for words in ("Not sent: /nowhere/x: No such file", "/file takes a path", "Not sent: /dev/null: it is no regular file.",
                  "Not sent: %s is empty." % empty):
        expect(words in said.stderr.decode(), said.stderr)


def completes(code, *words):
    """What bash would offer for the last of the words."""
    shell = code + "\ncompopt() { :; }\nCOMP_WORDS=(%s)\nCOMP_CWORD=%d\n_moechat\necho \"${COMPREPLY[*]}\"" % (
        " ".join("'%s'" % word for word in words), len(words) - 1)
    return subprocess.run(["bash", "-c", shell], capture_output=True).stdout.decode().strip()


def test_shells_complete_from_the_table():
    code = run(["--completion", "bash"]).stdout.decode()
    same(subprocess.run(["bash", "-n", "-c", code]).returncode, 0)
    same(completes(code, "moechat", "de"), "devices")
    same(completes(code, "moechat", "--min"), "--min-p")
    same(completes(code, "moechat", "--color", ""), "auto always never")
    same(completes(code, "moechat", "run", "--think", ""), "auto on off")
    same(completes(code, "moechat", "convert", "--bits", ""), "4 8 auto")
    same(completes(code, "moechat", "run", "--prompt"), "--prompt --prompt-file")
    same(completes(code, "moechat", "sessions", "ex"), "export")
    same(completes(code, "moechat", "sessions", "export", "ada", ""), "md json txt")
    same(completes(code, "moechat", "sessions", "export", "ada", "--j"), "--json")
    expect("txt" not in completes(code, "moechat", "sessions", "rename", "ada", ""), "a format of what has none")
    same(completes(code, "moechat", "help", "ev"), "eval")
    same(completes(code, "moechat", "info", ROOT + "/eng"), ROOT + "/engine")
    same(completes(code, "moechat", "--kernel-cache", ROOT + "/READ"), "")  # a folder's; a file is none
    same(completes(code, "moechat", "--kernel-cache", ROOT + "/eng"), ROOT + "/engine")
    same(completes(code, "moechat", "--trace", ROOT + "/READ"), ROOT + "/README.md")
    same(completes(code, "moechat", "--seed", ROOT + "/eng"), "")
    with tempfile.TemporaryDirectory() as data:  # names are data, however they came there
        sessions = os.path.join(data, "moechat", "sessions")
        for name in ("ada", "$(touch${IFS}ran)", "adé", "x y"):
            os.makedirs(os.path.join(sessions, name))
        here = "cd %s; export XDG_DATA_HOME=$PWD LC_ALL=C.UTF-8\n" % data
        for words in (("--session",), ("sessions", "show")):
            same(completes(here + code, "moechat", *words, "ad"), "ada adé")
            expect("touch" in completes(here + code, "moechat", *words, ""), "quoted")
            expect("ran" not in os.listdir(data), "a name ran")
            same(completes(here + code, "moechat", *words, "x"), "x\\ y")
    with tempfile.TemporaryDirectory() as folder:
        open(os.path.join(folder, "a b.gguf"), "w").close()
        for name in ("c.GGUF", "config.json"):
            open(os.path.join(folder, name), "w").close()
        os.mkdir(os.path.join(folder, "d"))
        for words in (("--model",), ("-m",), ("run", "-m"), ("info",), ("convert",)):
            same(completes(code, "moechat", *words, folder + "/a"), folder + "/a b.gguf")
            offered = completes(code, "moechat", *words, folder + "/")
            same([name in offered for name in ("/a b.gguf", "/c.GGUF", "/d", "/config.json")], [True, True, True, False])
            same(completes(code, "moechat", *words, folder + "/con"), folder + "/config.json")  # what has another name may be one, too
        same(completes(code, "moechat", "convert", "x", folder + "/"), folder + "/d")
    options = {command: set(re.findall(r"--[a-z-]+", completes(code, "moechat", command, "--"))) for command in ("chat", "info", "convert")}
    expect("--mouse" in options["chat"] - options["info"] and "--bits" in options["convert"] - options["chat"], options)
    for shell, wanted in (("zsh", ("--think[Think before answering, where the model can be told auto, on or off]:value:(auto on off)", "'4:format:(md json txt)'",
                                   "'2:model:_moechat_models'\n        '3:folder:_files -/'", "'*:model:_moechat_models'", "]:model:_moechat_models'")),
                          ("fish", ("-l think -x -a 'auto on off'", "-a 'md json txt'", "-l model -s m -x -a '(__fish_complete_suffix .gguf)'"))):
        for words in wanted:
            expect(words in run(["--completion", shell]).stdout.decode(), (shell, words))
    commands = re.findall(r"    (\w+)\) choices=\((.*?)\) ;;", run(["--completion", "zsh"]).stdout.decode(), re.S)
    expect(len(commands) > 9 and all(re.search(r"\n +'[*2]:", specs) for _, specs in commands), "a word that no option is stops zsh")
    for shell, checker in (("zsh", ["zsh", "-n"]), ("fish", ["fish", "-n"])):
        text = run(["--completion", shell]).stdout
        listed = set(re.findall(rb"--([a-z-]+)\[" if shell == "zsh" else rb" -l ([a-z-]+)", text))
        expect(listed >= set(re.findall(rb"--([a-z-]+)[ \[]", run(["help", "chat"]).stdout)) - {b"help"}, shell)
        letters = set(re.findall(rb"'-([A-Za-z])\[" if shell == "zsh" else rb" -s ([A-Za-z]) ", text))
        same(letters, set(re.findall(rb"(?m)^ +-([A-Za-z]), --", b"".join(run(["help", command]).stdout for command in ("chat", "run", "info", "sessions", "bench", "convert", "eval")))))
        if shutil.which(checker[0]):
            same(subprocess.run(checker, input=text).returncode, 0)
    same(run(["--completion", "tcsh"]).returncode, 2)


def test_words_of_other_programs_are_answered():
    for args, words in ((["--verbose"], "use /stats"), (["-n", "5"], "-n; use --max-tokens N"), (["-p", "x"], "use moechat run -p"), (["-f", "x"], "--prompt-file"),
                        (["--ctx-size", "5"], "--context N"), (["-cnv"], "moechat begins a chat"), (["-ngl", "5"], "-ngl; use --expert-cache"), (["list"], "use moechat sessions"),
                        (["show"], "moechat info"), (["serve"], "there is no server"), (["--predict", "5"], "--max-tokens N"), (["sessions", "delete"], "use rm"), (["sessions", "ls"], "use list")):
        refused(run(args), 2, words)


def test_a_seed_of_less_than_nothing():
    refused(run(["run", "--seed", "-1", "-p", "x"]), 2, '--seed takes a whole number from 0 on, not "-1"; where none is given it is random')


def test_settings_come_from_a_file():
    path = os.path.join(SCRATCH, "settings")
    with open(path, "w") as file:
        file.write("# mine\ntemp = 0.25\n")
    printed = run(["--config", path, "--top-k", "3", "--print-config"]).stdout.decode()
    expect("# from the configuration file\ntemp = 0.25\n" in printed and "top-k = 3\n" in printed, printed)
    with open(path, "a") as file:
        file.write("temper = 1\n")
    result = run(["info", "--config", path])
    same(result.returncode, 2)
    expect(b"settings line 3: unknown setting \"temper\"" in result.stderr, result.stderr)
    same(run(["--config", path, "--help"]).returncode, 0)


def test_what_the_model_suggests_is_heeded():
    suggests = os.path.join(SCRATCH, "suggests")
    shutil.copytree(os.path.join(ROOT, "models", "demo"), suggests)
    with open(os.path.join(suggests, "generation_config.json"), "w") as file:
        file.write('{"do_sample": true, "temperature": 2.5, "top_k": 50, "top_p": 0.99}')
    told = ["--temp", "2.5", "--top-k", "50", "--top-p", "0.99"]
    same_seed = ["run", "--seed", "3", "-p", "hello", "-m"]
    plain, suggested = run(same_seed + [os.path.join(ROOT, "models", "demo")]), run(same_seed + [suggests])
    same((suggested.returncode, suggested.stdout), (0, run(same_seed + [os.path.join(ROOT, "models", "demo")] + told).stdout))
    expect(suggested.stdout != plain.stdout, "the settings change the answer")
    same(run(same_seed + [suggests, "--temp", "0.6", "--top-k", "0", "--top-p", "0.95"]).stdout, plain.stdout)
    chat = run(["--plain", "--no-session", "-m", suggests, "--top-k", "7"], stdin=b"/set min-p 0.02\n/set\n", together=True).stdout.decode()
    chat = re.sub(" +", " ", chat)
    for line in ("The model suggests temp 2.5, top-p 0.99; /set", "\n temp 2.5 (from the model)\n", "\n top-k 7 (from the command line)\n",
                 "\n top-p 0.99 (from the model)\n", "\n min-p 0.02 (from /set)\n", "\n max-tokens 0 (default)\n"):
        expect(line in chat, "%r is missing in %r" % (line, chat))
    back = run(["--plain", "--no-session", "-m", suggests, "--top-k", "7"], stdin="".join(
        "/set %s 1\n/set %s default\n" % (key, key) for key in ("temp", "top_k", "min-p", "max-tokens", "stop")).encode(), together=True).stdout.decode()
    drawn = run(["--plain", "--no-session", "-m", suggests], stdin=b"/set seed 7\n/set seed default\n", together=True).stdout
    expect(re.search(rb"\nseed is \d+ \(random\)\.", drawn), drawn)  # not again: it may be another one
    for line in ("temp is again 2.5 (from the model).", "top-k is again 7 (from the command line).", "min-p is again 0 (default).",
                 "max-tokens is again 0 (default).", "stop is again none (default)."):
        expect(line in back, "%r is missing in %r" % (line, back))
    expect(b"sampling          temp 2.5, top-k 50, top-p 0.99, as its maker suggests\n" in run(["info", suggests]).stdout, "info")
    with open(os.path.join(suggests, "generation_config.json"), "w") as file:
        file.write('{"top_p": 7}')
    refused(run(same_seed + [suggests]), 3, "generation_config.json: top_p: is 7")
    shutil.rmtree(suggests)


def test_help_and_manual_know_every_option():
    overview = run(["help"])
    same(overview.returncode, 0)
    with open(os.path.join(ROOT, "man", "moechat.1")) as page:
        manual = page.read()
    dumped = run(["--dump-options=mdoc"]).stdout.decode()
    expect(len(dumped) > 1000 and dumped in manual, "OPTIONS in man/moechat.1 is `moechat --dump-options=mdoc`")
    for part, status in (("", 0), ("-commands", 0), ("-keys", 0), ("-", 2)):
        same(run(["--dump-options=mdoc" + part]).returncode, status)
    for part in ("commands", "keys"):
        dumped_part = run(["--dump-options=mdoc-" + part]).stdout.decode()
        expect(len(dumped_part) > 500 and dumped_part in manual, part + " in man/moechat.1: --dump-options=mdoc-" + part)
        expect("(null)" not in dumped_part and "Op " not in dumped_part, "Op would take in the rest of a line")
    with open(os.path.join(ROOT, "app", "term", "keys.def")) as keys:
        functions = re.findall(r'"(moechat-[a-z-]+)"', keys.read())
    expect(len(functions) > 15 and not [name for name in functions if name not in manual], "an inputrc's names are in the manual")
    expect(not re.search(r"^\.Fl [^\n]*; [a-z]", manual, re.M), "what follows a flag in its line would be flags")
    for bound in ("reads", "copy", "compute", "launches"):  # what the status row calls them
        expect(".Em %s\n" % bound in manual and ".It %s\n" % bound in manual, bound + " in moechat(1)")
    listed = set()
    for command in ("chat", "run", "eval", "info", "convert", "devices", "kernels", "bench", "help"):
        expect(command in overview.stdout.decode(), command)
        text = run(["help", command]).stdout.decode()
        same(text if command != "help" else "", run([command, "--help"]).stdout.decode() if command != "help" else "")
        listed |= set(re.findall(r"--([a-z-]+)", text))
        expect(all(len(line) < 80 for line in text.splitlines()), "lines fit")
    for name in re.findall(r"Fl -([a-z-]+)", dumped):
        expect(name in listed, "--%s is in no help" % name)
    same(run(["help", "nonsense"]).returncode, 2)
    expect(re.match(rb"moechat \d", run(["--version"]).stdout), "--version")


def test_the_manual_knows_what_json_says():
    with open(os.path.join(ROOT, "man", "moechat.1")) as page:
        known = set(re.findall(r"^\.Va (\w+)", page.read(), re.MULTILINE))

    def names(value):
        inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return set(value if isinstance(value, dict) else ()).union(*map(names, inside))

    got = run(["run", "--device", "ref", "--jsonl", "--max-tokens", "2", "-p", "hi"])
    same((got.returncode, got.stdout.count(b"\n")), (0, 3))
    thought = run(["run", "--think", "on", "--json", "-p", "hi"] + script(b"thinks\nturn\ntext a\xff</think>\ntext b\xff\n"))
    last = json.loads(thought.stdout)
    same((last["thinking"], last["thinking_hex"], last["text_hex"]), ("a\ufffd", "61ff", "62ff"))
    for line in got.stdout.splitlines() + thought.stdout.splitlines():
        same(names(json.loads(line)) - known, set())


def test_names_in_json_mean_one_thing():
    """A list of messages is `messages` wherever there is one, and how many there are `message_count`."""
    run(["run", "--session", "one-name", "-p", "hi"] + script("turn\necho\n"))
    listed = json.loads(run(["sessions", "--json"]).stdout)["sessions"]
    shown, exported = (json.loads(run(["sessions"] + args).stdout) for args in (["show", "one-name", "--json"], ["export", "one-name", "json"]))
    same([s["message_count"] for s in listed if s["name"] == "one-name"], [2])
    same([(o["messages"], o["branches"]) for o in (shown,)], [(exported["messages"], exported["branches"])])
    same([m["part"] for m in shown["messages"]], [0, 1])
    models = json.loads(run(["info", "--json", "--list", "-"], b"a-Q6_K-00001-of-00002.gguf\nb.gguf\n").stdout)["models"]
    same([(m["files"], m["listed_files"], m["complete"]) for m in models], [(2, 1, False), (1, 1, True)])
    for object in [shown, exported] + listed + models:
        expect("parts" not in object and all(isinstance(object.get(key, []), list) for key in ("messages", "branches")), object)


def test_json_says_all_that_it_did():
    same_names("run", run(["run", "--device", "ref", "--json", "--max-tokens", "2", "-p", "hi"]).stdout)
    token, *_, last = run(["run", "--device", "ref", "--jsonl", "--max-tokens", "2", "-p", "hi"]).stdout.splitlines()
    same_names("run, a token", token)
    same_names("run, the last line", last)
    apart = environment(XDG_DATA_HOME=SCRATCH + "/json")
    same_names("run, a script", run(["run", "--json", "--session", "one", "-p", "hi"] + script("experts 2 8 2\nturn\necho\n"), env=apart).stdout)
    same_names("eval", eval_tokens(b"1 2 3", "--json").stdout)
    same_names("info", run(["info", "--json", "-m", TINY]).stdout)
    same_names("info --list", run(["info", "--json", "--list", "-"], b"a-Q6_K-00001-of-00002.gguf\n").stdout)
    same_names("bench", run(["bench", "-m", TINY, "--device", "ref", "--runs", "1", "--prefill-tokens", "3", "--decode-tokens", "2", "--json"]).stdout)
    same_names("devices", json.dumps(json.loads(run(["devices", "--json"]).stdout)["devices"][0]))
    run(["--plain", "--session", "one"] + script("turn\necho\n"), b"/retry\nmore\n/undo\n", env=apart)
    for verb in (["list", "--json"], ["show", "one", "--json"], ["export", "one", "json"]):
        same_names("sessions " + verb[0], run(["sessions"] + verb, env=apart).stdout)


def eval_tokens(text, *args):
    path = os.path.join(SCRATCH, "tokens")
    with open(path, "wb") as out:
        out.write(text)
    return run(["eval", "-m", TINY, "--device", "ref", "--tokens", path] + list(args))


def test_eval_reads_standard_input():
    path = os.path.join(SCRATCH, "ids.txt")
    with open(path, "w") as file:
        file.write("1 2 3")
    for kind in ("--tokens", "--text"):
        model = ["-m", TINY] if kind == "--tokens" else []
        named, piped = (run(["eval", "--device", "ref", kind, of, "--json"] + model, stdin=b"1 2 3") for of in (path, "-"))
        same((named.returncode, piped.returncode), (0, 0))
        same(json.loads(piped.stdout)["mean_nll"], json.loads(named.stdout)["mean_nll"])
        refused(run(["eval", kind, "-"] + model), 1, "standard input: empty file")


def test_eval_refuses_bad_tokens():
    for text, words in ((b"", "empty file"), (b" \n\t ", "no tokens"), (b"1 two 3", 'entry 2, "two"'), (b"1 -2", "not a token id"),
                        (b"1 2.5", "not a token id"), (b"7 99999999999999999999999", "entry 2"), (b"1 1000000", "vocabulary"),
                        (b"1\x002", "not a token id"), (b"1 " + b"a" * 50, '"%s"' % ("a" * 40)), (b"1 \x1b[2J", "not a token id"), (b"1 " * 200000, "takes at most")):
        result = eval_tokens(text)
        refused(result, 1, words)
        expect(b"\x1b" not in result.stderr, "no escape in the sentence")
    same(run(["eval", "-m", TINY]).returncode, 2)
    same(run(["eval", "-m", TINY, "--tokens", "a", "--text", "b"]).returncode, 2)
    refused(run(["eval", "-m", TINY, "--tokens", SCRATCH + "/none"]), 1, "No such file")
    refused(run(["eval", "-m", TINY, "--text", __file__]), 1, "no tokenizer")


def test_eval_of_a_text_begins_as_a_conversation_does():
    path = os.path.join(SCRATCH, "hello")
    with open(path, "w") as file:
        file.write("Hello")
    scored = json.loads(run(["eval", "-m", os.path.join(ROOT, "models", "demo"), "--device", "ref", "--json", "--text", path]).stdout)
    same((scored["tokens"], scored["scored_tokens"]), (2, 1))  # <s> before it


def test_eval_scores_its_own_logits():
    import math
    info = json.loads(run(["info", "--json", TINY]).stdout)
    logits_file, layers = os.path.join(SCRATCH, "logits"), os.path.join(SCRATCH, "layers")
    ids = [1, 5, 9, 3, 1, 2, 7]
    result = eval_tokens(" ".join(map(str, ids)).encode(), "--json", "--logits", logits_file, "--dump-layers", layers)
    same((result.returncode, result.stderr), (0, b""))
    got = json.loads(result.stdout)
    vocab, hidden = info["vocab_size"], info["hidden_size"]
    with open(logits_file, "rb") as data:
        values = struct.unpack("<%df" % (len(ids) * vocab), data.read())
    nll = 0.0
    for i, following in enumerate(ids[1:]):
        row = values[i * vocab : (i + 1) * vocab]
        largest = max(row)
        nll += largest + math.log(sum(math.exp(v - largest) for v in row)) - row[following]
    expect(abs(nll / 6 - got["mean_nll"]) < 1e-9, "mean NLL %r of the logits, %r reported" % (nll / 6, got["mean_nll"]))
    expect(abs(math.exp(got["mean_nll"]) / got["perplexity"] - 1) < 1e-9, "perplexity")
    same(sorted(os.listdir(layers)), ["stage-%03d.f32" % i for i in range(info["n_layers"] + 1)])
    for name in os.listdir(layers):
        same(os.path.getsize(os.path.join(layers, name)), len(ids) * hidden * 4)
    alone = json.loads(eval_tokens(b"5", "--json").stdout)
    same((alone["mean_nll"], alone["tokens"]), (None, 1))
    expect(b"1 token, not scored: nothing comes before it; " in eval_tokens(b"5").stdout, "no figure stands for what is none")
    with open("/dev/full", "wb"):
        refused(eval_tokens(b"1 2", "--logits", "/dev/full"), 1, "No space left")
    same([f for f in os.listdir(SCRATCH) if f.startswith("logits.")], [])


def test_other_outputs_that_are_lost_are_errors():
    """The answer is given, and the status says that the rest of what was asked for is missing."""
    answer = ["run", "-p", "hi", "-m", os.path.join(ROOT, "models", "demo"), "--device", "ref", "--max-tokens", "3", "--seed", "1"]
    bench = ["bench", "-m", TINY, "--device", "ref", "--runs", "1", "--prefill-tokens", "9", "--decode-tokens", "3"]
    chat = ["--plain", "--no-session"] + answer[3:]
    with open(os.path.join(SCRATCH, "ids"), "w") as out:
        out.write("1 2 3")
    scores = ["eval", "-m", TINY, "--device", "ref", "--tokens", os.path.join(SCRATCH, "ids")]
    for args, stdin in ((answer, b""), (bench, b""), (chat, b"hi\n")):
        whole = run(args, stdin=stdin)
        lost = run(args + ["--predict-log", "/dev/full"], stdin=stdin)
        same((args[0], whole.returncode, lost.returncode), (args[0], 0, 1))
        for line in re.findall(rb"^(?:Hello.*|Assistant: .*|logits .*)", whole.stdout, re.M):
            expect(line in lost.stdout, "the answer: %r" % lost.stdout)
        expect(b"cannot write the prediction log: No space left" in lost.stderr, "said: %r" % lost.stderr)
    trace = os.path.join(SCRATCH, "trace")
    for args, stdin in ((answer, b""), (bench, b""), (chat, b"hi\n"), (scores, b"")):
        same(run(args + ["--trace", trace], stdin=stdin).returncode, 0)
        # A chat that ends gives up what it still feeds of its turn, after so many layers as it comes to.
        room = os.path.getsize(trace) - (200 if args is chat else 1)

        def small():
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

        lost = run(args + ["--trace", trace], stdin=stdin, preexec_fn=small)
        same((args[0], lost.returncode, os.path.getsize(trace)), (args[0], 1, room))
        expect(b"Hello" in lost.stdout or args[0] in ("bench", "eval") and lost.stdout, "the answer")
        expect(b"the trace can't be written" in lost.stderr, "said: %r" % lost.stderr)
        if args is not chat:
            refused(run(args + ["--trace", os.path.join(SCRATCH, "no", "where")]), 3, "the trace can't be made")


def test_what_is_read_is_not_written_over():
    folder = tempfile.mkdtemp(dir=SCRATCH)
    model, ids = os.path.join(folder, "chat.gguf"), os.path.join(folder, "ids")
    shutil.copy(os.path.join(ROOT, "tests", "golden", "gguf-chat", "checkpoint", "chat.gguf"), model)
    with open(ids, "w") as out:
        out.write("1 2 3")
    os.symlink(ids, os.path.join(folder, "link"))
    scores, answer = ["eval", "-m", model, "--device", "ref", "--tokens", ids], ["run", "-m", model, "--device", "ref", "-p", "hi", "--max-tokens", "2"]
    before = [open(path, "rb").read() for path in (model, ids)]
    for args in (answer + ["--trace", model], answer + ["--predict-log", model], scores + ["--trace", ids], scores + ["--logits", model],
                 scores + ["--logits", ids], scores + ["--logits", os.path.join(folder, "link")], answer + ["--trace", ids, "--predict-log", ids]):
        lost = run(args)
        expect(lost.returncode and b"name another file" in lost.stderr, (args, lost))
        same([open(path, "rb").read() for path in (model, ids)], before)
    for option in ("--trace", "--predict-log"):  # one that was made before is made anew
        for _ in range(2):
            same(run(answer + [option, os.path.join(folder, option)]).returncode, 0)
        for _ in range(3):  # nor has it to hold anything: one token is that of the prompt
            same(run(answer[:-1] + ["1", option, os.path.join(folder, option + "-nothing")]).returncode, 0)
    for _ in range(2):
        same(run(scores + ["--logits", os.path.join(folder, "logits")]).returncode, 0)
    both = os.path.join(folder, "both")
    stages = os.path.join(folder, "stages")
    one = os.path.join(stages, ".", "stage-001.f32")
    os.mkdir(stages)
    for there in (False, True):  # one that is there already, as well
        refused(run(scores + ["--logits", both, "--trace", both]), 1, "is the trace's, too; name another file for --logits")
        for option in ("--logits", "--trace"):
            refused(run(scores + ["--dump-layers", stages, option, one]), 1, "is one of --dump-layers, too; name another file for " + option)
        same([os.path.exists(path) for path in (both, one)], [there, there])
        for path in (both, one):
            open(path, "w").close()
    same(run(scores + ["--logits", "/dev/null", "--trace", "/dev/null"]).returncode, 0)


def test_a_config_that_is_a_pipe_holds_nothing_up():
    home = tempfile.mkdtemp(dir=SCRATCH)
    os.mkdir(os.path.join(home, "moechat"))
    os.mkfifo(os.path.join(home, "moechat", "config"))
    env = environment(XDG_CONFIG_HOME=home)
    env.pop("MOECHAT_CONFIG", None)
    refused(run(["info", TINY], env=env), 2, "it is no regular file")


def test_a_pipe_is_waited_for_aloud():
    """As a shell's > does, an output that is a pipe waits for its reader; it says so, and Ctrl-C ends it."""
    pipe, ids = os.path.join(SCRATCH, "out-pipe"), os.path.join(SCRATCH, "ids")
    os.mkfifo(pipe)
    with open(ids, "w") as out:
        out.write("1 2 3")
    scores = ["eval", "-m", TINY, "--device", "ref", "--tokens", ids]
    answer = ["run", "-p", "hi", "-m", os.path.join(ROOT, "models", "demo"), "--device", "ref", "--max-tokens", "3"]
    bench = ["bench", "-m", TINY, "--device", "ref", "--runs", "1", "--prefill-tokens", "9", "--decode-tokens", "3"]
    words = ("moechat: %s: a pipe; waiting for its reader\n" % pipe).encode()
    # The status of a Ctrl-C while it waits: 130 where signals are caught by then, else the signal's own.
    for args, interrupted in ((scores + ["--logits", pipe], 130), (scores + ["--trace", pipe], -signal.SIGINT), (answer + ["--trace", pipe], 130),
                              (answer + ["--predict-log", pipe], 130), (bench + ["--trace", pipe], -signal.SIGINT)):
        for stopped in (True, False):
            process = subprocess.Popen([PROGRAM] + args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
                                       preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # a shell's background has none
            same(process.stderr.readline(), words)
            if stopped:
                process.send_signal(signal.SIGINT)
            else:
                with open(pipe, "rb") as reader:
                    got = reader.read()
                expect(len(got) > 100, got)
            out, err = process.communicate(timeout=DEADLINE)
            same((args[-2], process.returncode, err), (args[-2], interrupted if stopped else 0, b""))
            expect(bool(out) != stopped, out)
        if args[-2] == "--logits":
            path = os.path.join(SCRATCH, "logits")
            run(scores + ["--logits", path])
            with open(path, "rb") as file:
                same(file.read(), got)
    other = os.path.join(SCRATCH, "other-pipe")
    os.mkfifo(other)
    process = subprocess.Popen([PROGRAM] + answer + ["--trace", pipe, "--predict-log", other], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=environment())
    same([process.stderr.readline(), process.stderr.readline()], [words, words.replace(b"out-pipe", b"other-pipe")])
    process.kill()
    process.communicate()
    result = run(answer + ["--trace", "/dev/stdout"])  # which somebody reads already
    expect(len(result.stdout) > 100, result.stdout)
    same((result.returncode, result.stderr), (0, b""))
    os.remove(pipe)
    os.remove(other)


def test_an_installed_program_finds_its_model():
    place = os.path.join(SCRATCH, "usr")
    os.makedirs(place + "/bin")
    shutil.copy(PROGRAM, place + "/bin/moechat")
    shutil.copytree(TINY, place + "/share/moechat/models/demo")
    os.symlink(place + "/bin/moechat", SCRATCH + "/linked")
    for program in (place + "/bin/moechat", SCRATCH + "/linked"):
        result = subprocess.run([program, "info"], stdout=subprocess.PIPE, env=environment(), timeout=DEADLINE)
        expect(b"/usr/bin/../share/moechat/models/demo\n" in result.stdout, "%r" % result.stdout)


def test_what_is_to_be_typed_is_one_word():
    folder = os.path.join(SCRATCH, "it's a; echo $(id) \x1b]0;t\x07")
    os.symlink(TINY, folder)
    next_line = [l for l in run(["info", folder]).stdout.splitlines() if l.startswith(b"next")][0]
    expect(b"\x1b" not in next_line, "nothing acts on the terminal: %r" % next_line)
    words = next_line[len(b"next"):].strip()
    typed = subprocess.run(["bash", "-c", b"printf '%s\\n' " + words], stdout=subprocess.PIPE).stdout
    same(typed, b"moechat\neval\n-m\n" + folder.encode() + b"\n--tokens\nFILE\n")  # it has no tokenizer


def test_an_export_to_a_terminal_is_clean():
    said = script("turn\ntoken \\e]0;t\\x07\\e[31m\ntoken end\n")
    same(run(["run", "-p", "x", "--session", "red"] + said).returncode, 0)
    expect(b"\x1b]0;t\x07" in run(["sessions", "export", "red"]).stdout, "the bytes as they are")
    t = Terminal(["sessions", "export", "red"])
    same(t.finish(), 0)
    expect(b"end" in t.output and b"\x1b" not in t.output and b"\x07" not in t.output, "made visible: %r" % t.output)


def test_vectors_that_are_no_numbers_are_refused_by_name():
    broken = os.path.join(SCRATCH, "not-finite")
    shutil.copytree(TINY, broken)
    path = os.path.join(broken, "resident.safetensors")
    with open(path, "rb") as file:
        whole = file.read()
    size = struct.unpack("<Q", whole[:8])[0]
    tensors = {name: at for name, at in json.loads(whole[8:8 + size]).items() if name != "__metadata__"}
    vectors = [name for name, at in tensors.items() if len(at["shape"]) == 1 and at["dtype"] in ("F32", "BF16")]
    expect(any("e_score_correction_bias" in name for name in vectors) and len(vectors) > 5, vectors)
    for i, name in enumerate(vectors):
        end = 8 + size + tensors[name]["data_offsets"][1]
        bad = b"\x00\x00\xc0\x7f" if i % 2 else b"\x00\x00\x80\xff"  # a NaN, -inf; their upper halves as bf16
        bad = bad if tensors[name]["dtype"] == "F32" else bad[2:]
        with open(path, "wb") as file:
            file.write(whole[:end - len(bad)] + bad + whole[end:])
        refused(run(["run", "-p", "x", "-m", broken, "--device", "ref"]), 3, "resident.safetensors: tensor " + name + " has numbers")


def test_info_and_bench():
    text = run(["info", TINY])
    same((text.returncode, text.stderr), (0, b""))
    expect(b"a token reads " in text.stdout, "the floor of a cold token")
    got = json.loads(run(["info", "--json", "--verify", "-m", TINY, "--expert-cache", "all"]).stdout)
    same((got["verified"], got["slots"]), (True, got["experts"]))
    same(got["cold_token_bytes"], got["n_moe_layers"] * got["top_k"] * got["expert_bytes"])
    refused(run(["info", SCRATCH]), 3, "no model here")
    bench = ["bench", "-m", TINY, "--device", "ref", "--runs", "2", "--prefill-tokens", "9", "--decode-tokens", "3"]
    first, second = (json.loads(run(bench + ["--json"]).stdout) for _ in range(2))
    same(first["logits_hash"], second["logits_hash"])
    # The same 12 tokens, and one more: whatever was read and whatever decoded is in the last logits.
    parts = [["6", "6"], ["10", "3"]]
    others = [json.loads(run(bench[:-5] + ["1", "--prefill-tokens", a, "--decode-tokens", b, "--json"]).stdout)["logits_hash"] for a, b in parts]
    same([hash == first["logits_hash"] for hash in others], [True, False])
    for key in ("prefill_tokens_per_s", "decode_tokens_per_s", "weights_gb_per_s", "copy_gb_per_s", "ratio_to_copy"):
        expect(first[key] > 0, key)
    expect(first["logits_hash"].encode() in run(bench).stdout, "the table has the hash")
    listed = json.loads(run(["devices", "--json"]).stdout)["devices"]
    same(listed[0]["selector"], "ref")
    expect(all(device["name"] for device in listed), listed)


NO_POLL = r"""
#include <errno.h>
#include <poll.h>
int poll(struct pollfd *fds, nfds_t n, int ms)
{
    (void)fds;
    if (n < 2) // a look whether something has come
        return ms != 0;
    errno = ENOMEM;
    return -1;
}
"""


def test_what_cannot_wait_says_so():
    source, library = os.path.join(SCRATCH, "no_poll.c"), os.path.join(SCRATCH, "no_poll.so")
    with open(source, "w") as out:
        out.write(NO_POLL)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    env = environment(LD_PRELOAD=library)
    for args, what in ((["--plain", "--no-session"], "input"), (["run", "-p", "x", "--no-session"], "the answer")):
        result = run(args + script("turn\necho\n"), b"one\ntwo\n", env=env)
        same((args, result.returncode), (args, 1))
        expect(b"cannot wait for %s: Cannot allocate memory\n" % what.encode() in result.stderr, result.stderr)


if __name__ == "__main__":
    main(globals())
