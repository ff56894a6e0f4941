#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sessions of old builds, in data/old-sessions, with the demo model: they open with what they had, go on, and are exported.
one-branch is of the last build that knew no branches (format 1), with its rows; branches of one of the first that did
(format 2), without rows."""
import json
import os
import shutil

from rig import *

OLD = os.path.join(ROOT, "tests", "screens", "data", "old-sessions")
STORE = os.path.join(SCRATCH, "data", "moechat", "sessions")
MODEL = ["--model", os.path.join(ROOT, "models", "demo"), "--device", "ref", "--config", "none", "--temp", "0", "--max-tokens", "12"]


def bring(name, called=None):
    """A copy of the session, and what its files hold."""
    folder = shutil.copytree(os.path.join(OLD, name), os.path.join(STORE, called or name))
    os.chmod(folder, 0o700)  # git keeps no such modes
    for file in os.listdir(folder):
        os.chmod(os.path.join(folder, file), 0o600)
    return folder, {file: open(os.path.join(folder, file), "rb").read() for file in os.listdir(folder)}


def told(*args):
    result = run(["sessions", *args])
    same((args, result.returncode, result.stderr), (args, 0, b""))
    return result.stdout.decode()


def exported(name):
    """(role, text, ids) of each message of the conversation."""
    return [(message["role"], message["text"], message["ids"]) for message in json.loads(told("export", name, "json"))["messages"]]


def lines(files):
    return [json.loads(line) for line in files["transcript.jsonl"].splitlines()]


def chat(name, *typed):
    result = run(["--plain", *MODEL, "--session", name], stdin="".join(line + "\n" for line in typed).encode(), together=True)
    same(result.returncode, 0)
    return result.stdout.decode()


def test_one_of_the_time_before_branches_goes_on_with_its_rows():
    folder, files = bring("one-branch")
    had = [(line["role"], line["text"], line["ids"]) for line in lines(files)]
    same([text for _, text, _ in had], ["My name is Ada.", "Nice to meet"])
    expect(b'"format":1,' in files["session.json"], files["session.json"])
    expect("all checksums match (2 parts, 2 records, 48.0 KB)" in told("verify", "one-branch"), told("verify", "one-branch"))
    same(exported("one-branch"), had)
    same({file: open(os.path.join(folder, file), "rb").read() for file in files}, files)  # looked at, no more
    for text in (told("export", "one-branch", "md"), told("show", "one-branch")):
        expect("My name is Ada." in text and "Nice to meet" in text, text)
    refused = run(["--plain", *MODEL[2:], "--session", "one-branch"])  # it remembers where its model was
    expect(refused.returncode == 3 and b"--model PATH says where its model is now" in refused.stderr, refused)
    answer = json.loads(run(["run", "--json", *MODEL, "--session", "one-branch", "-p", "What is my name?"]).stdout)
    same((answer["cached_tokens"], answer["text"]), (14, "Your name is Ada."))
    same(exported("one-branch")[:2], had)
    same(open(folder + "/transcript.jsonl", "rb").read()[:len(files["transcript.jsonl"])], files["transcript.jsonl"])
    # now it gets branches, and keeps all
    text = chat("one-branch", "/undo 99", "I like chess.", "/tree 4")
    expect("Nothing needs to be read again." in text and "Assistant: Nice to meet\n" in text, text)
    same([text for _, text, _ in exported("one-branch")], ["My name is Ada.", "Nice to meet", "What is my name?", "Your name is Ada."])
    expect("I like chess." in told("tree", "one-branch"), told("tree", "one-branch"))
    expect("all checksums match" in told("verify", "one-branch"), told("verify", "one-branch"))


def test_one_size_of_a_session_is_told():
    folder, _ = bring("one-branch", "sized")
    with open(os.path.join(folder, "kv.bin"), "ab") as file:
        file.write(bytes(4096))  # as a save that was killed leaves
    for size, dead in (("52.1 KB", "; compact frees 4.10 KB"), ("48.0 KB", "")):
        expect("sized  " in told("list") and ", KV cache %s, " % size in told("list"), told("list"))
        same(told("verify", "sized"), "sized: all checksums match (2 parts, 2 records, %s%s)\n" % (size, dead))
        same(told("compact", "sized"), "sized: KV cache %s -> 48.0 KB\n" % size)
    told("rm", "sized")


def test_one_of_the_first_with_branches_keeps_and_continues_them():
    folder, files = bring("branches")
    had = {(line["text"], line["part"]): line["ids"] for line in lines(files)}
    same((len(had), b'"format":2,' in files["session.json"]), (7, True))
    expect("all checksums match (7 parts, 0 records, 0 B)" in told("verify", "branches"), told("verify", "branches"))
    tree = ("* 1  You: My name is Ada.\n"
            "  2    Assistant: Nice to meet you, Ada! How can I help\n"
            "* 3    Assistant: Nice to meet you, Ada! How can I help\n"
            "  4      You: What is my name?\n"
            "  5      Assistant: Your name is Ada.\n"
            "* 6      You: I like chess.\n"
            "* 7      Assistant: Got it: you like chess.\n")
    same(told("tree", "branches"), tree)
    same([text for _, text, _ in exported("branches")], ["My name is Ada.", "Nice to meet you, Ada! How can I help", "I like chess.", "Got it: you like chess."])
    all_of = json.loads(told("export", "branches", "json"))
    same({(part["text"], part["part"]): part["ids"] for part in all_of["messages"] + all_of["branches"]}, had)
    text = chat("branches", "/tree", "What is my name?")  # there are no rows of it: it is read again
    expect(tree in text and "Got it: you like chess." in text and "(Read 38 earlier tokens again.)" in text, text)
    same(exported("branches")[-1][1], "Your name is Ada.")
    text = chat("branches", "/tree 5", "And what do I like?")
    same([text for _, text, _ in exported("branches")][2:5], ["What is my name?", "Your name is Ada.", "And what do I like?"])
    all_of = json.loads(told("export", "branches", "json"))
    same({key: ids for key, ids in had.items() if key not in
          {(part["text"], part["part"]) for part in all_of["messages"] + all_of["branches"]}}, {})
    expect("all checksums match (11 parts, " in told("verify", "branches"), told("verify", "branches"))


main(globals())
