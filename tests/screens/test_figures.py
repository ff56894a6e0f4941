#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""One conversation with stops, retries and loads, on the demo model: whatever tells a figure of it (status row, pane,
heat map, /stats, /inspect, the line after an answer, /sessions, export, JSON) tells the same."""
import json
import os
import re
import struct
import time

from rig import ROOT, SCRATCH, Screen, Terminal, environment, expect, main, run, same

MODEL = ["--model", ROOT + "/models/demo", "--device", "ref", "--config", "none", "--temp", "0", "--expert-cache", "2M", "--prefetch", "off"]
EXPERT = json.load(open(ROOT + "/models/demo/model.json"))["experts"]["blob_bytes"]
UNITS = {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9}


def size(text):
    number, unit = text.split()
    return float(number) * UNITS[unit]


def near(a, b, parts=1):
    return abs(a - b) <= (0.006 * max(abs(a), abs(b)) + 0.6) * parts  # as rounded to three digits, so many of b apart


class Chat(Screen):
    def stats(self):
        """The figures of /stats, by the words that they are called."""
        self.send("/stats\r")
        self.until(lambda t: t.text().count("\n  plan ") and "/stats" not in t.text().splitlines()[-1])
        text = re.sub("\u2502.*", "", self.text())  # the figures beside it
        text = re.sub(r" *\n +", " ", text[text.rindex("  context  "):])
        at = {}
        at["context"], at["messages"] = map(int, re.search(r"context +(\d+) of \d+ tokens(?: \(\d+ with the message that waits\))?, (\d+) message", text).groups())
        at["read"] = int(re.search(r"read \(prefill\) +(\d+) token", text).group(1))
        at["answered"] = int(re.search(r"answered +(\d+) token", text).group(1))
        speed = re.search(r"answered +\d+ tokens?, ([0-9.]+) tokens/s", text)
        at["speed"] = float(speed.group(1)) if speed else 0
        expect(" 0 hits, 0 misses" not in text.split(" since start   ")[0], text)
        text = re.sub(r"experts +none yet ", "experts 0 hits, 0 misses (0.0 % hits); 0 B read ", text)
        at["hits"], at["misses"] = map(int, re.search(r"(\d+) hits?, (\d+) miss(?:es)?", text).groups())
        bytes_read = re.search(r"hits\); ([0-9.]+ [KMG]?B) read(, (?:nearly )?all from|, ([0-9.]+ [KMG]?B) of it from)?", text)
        at["bytes"] = size(bytes_read.group(1))
        cached = at["bytes"] if (bytes_read.group(2) or "").endswith("all from") else size(bytes_read.group(3) or "0 B")
        at["disk"] = (at["bytes"] - cached, 0.006 * at["bytes"] + 1)  # as far as three digits of both tell
        found = re.search(r"(\d+) on the device, (\d+) in host memory, (\d+) prefetched; missed: (\d+) prefetched late, (\d+) read", text)
        if found:
            device, host, ahead, late, disk = map(int, found.groups())
            same((device + host + ahead, late + disk), (at["hits"], at["misses"]))
        process = re.search(r"whole process +([0-9.]+ [KMG]?B) from disks, as the system counts: ([0-9.]+ [KMG]?B) to start "
                            r"\(program, kernels, weights, disk probe\), ([0-9.]+ [KMG]?B) since", text)
        expect(process and near(size(process.group(1)), size(process.group(2)) + size(process.group(3)), parts=2), text)
        since = re.search(r" since start +(\d+) tokens? read, (\d+) answered; experts: (\d+) hits?, (\d+) miss(?:es)?, ([0-9.]+ [KMG]?B) read", text)
        at["program"] = dict(zip(("read", "answered", "hits", "misses"), map(int, since.groups()[:4]))) if since else None
        return at

    def pane(self):
        """Rows `turn` and `since start` of the pane, and the sums of its layers."""
        rows = {"layers": [0] * 7, "disk": {}}
        for line in self.text().splitlines():
            cells = re.search(r"(?:^|\u2502)(turn|since start|\d+) +(\d+) +(\d+) +(\d+) +(\d+) +(\d+) +(\d+) +([0-9.]+ [KMG]?B)"
                              r" +([0-9.]+ [KMG]?B) ", line)
            if cells and cells.group(1).isdigit():
                rows["layers"] = [a + b for a, b in zip(rows["layers"], list(map(int, cells.groups()[1:7])) + [size(cells.group(8))])]
            elif cells:
                rows[cells.group(1)] = list(map(int, cells.groups()[1:7])) + [size(cells.group(8))]
                rows["disk"][cells.group(1)] = size(cells.group(9))
        return rows

    def row(self):
        line = self.text().splitlines()[-2]
        at = {"context": int(re.search(r"context (\d+) of", line).group(1))}
        hits = re.search(r"expert hits (\d+) %", line)
        mean = re.search(r"mean ([0-9.]+)", line)
        at["hits"] = int(hits.group(1)) if hits else None
        at["mean"] = float(mean.group(1)) if mean else None
        return at

    def say(self, text):
        before = self.pane()["since start"] if "since start" in self.text() else None
        self.send(text + "\r")
        self.until(lambda t: " idle " in t.text().splitlines()[-2] and "since start" in t.text() and t.pane()["since start"] != before)
        tokens, speed = re.findall(r"\((\d+) tokens?, ([0-9.]+) tokens/s\)", self.text())[-1]
        return int(tokens), float(speed)


def check_turn(s, said, speed):
    """What the row and the pane say of the turn that is over."""
    pane, row = s.pane(), s.row()
    same(pane["layers"][:6], pane["turn"][:6])
    expect(near(pane["layers"][6], pane["turn"][6]), "bytes of the layers and of the turn: %r" % pane)
    device, host, ahead, late, missed, _, _ = pane["turn"]
    same(row["hits"], round(100 * (device + host + ahead) / (device + host + ahead + late + missed)))
    same(row["mean"], speed)
    s.send("/inspect 1\r")
    s.until(lambda t: "Token 1 of %d:" % said in t.text())


def check_reads(s):
    """Without prefetch, reads are misses, or of experts that were read ahead and used or wasted: also what a stop left unused."""
    pane, text = s.pane(), re.sub(" *\n +", " ", re.sub("\u2502.*", "", s.text()))
    for name in ("turn", "since start"):
        device, host, ahead, late, missed, wasted, read = pane[name]
        expect(near((ahead + late + missed + wasted) * EXPERT, read), "%s: %r" % (name, pane))
    foretold, used, wasted = map(int, re.findall(r"(\d+) read ahead, (\d+) used, (\d+) wasted", text)[-1])
    same((foretold, wasted), (used + wasted, pane["since start"][5]))


def traced(path):
    """The requests of a routing trace, as moechat-trace(5) has them: (is of a prompt, layer, tokens, experts)."""
    data, at = open(path, "rb").read(), 64
    while at + 10 <= len(data):
        kind, _, layer, tokens, n = struct.unpack_from("<BBHIH", data, at)
        yield kind, layer, tokens, n
        at += 10 + 2 * n


def test_a_trace_has_what_was_asked_for_and_by_how_many_tokens():
    path, prompt = SCRATCH + "/long.trace", " ".join(["fox wood king Ada chess boat"] * 20)
    got = json.loads(run(["run", "--json", *MODEL, "--group", "32", "--max-tokens", "2", "--trace", path, "-p", prompt]).stdout)
    experts, requests = got["experts"], list(traced(path))
    expect(experts["wasted"] > 0, "nothing was read ahead in vain: %r" % experts)
    same(sum(n for _, _, _, n in requests), experts["hits"] + experts["misses"])
    for layer in range(1, 7):
        same(sum(tokens * n for kind, at, tokens, n in requests if kind and at == layer), 4 * got["prefilled_tokens"])


def test_the_row_knows_whether_prefetch_is_on_and_what_is_of_the_turn_before():
    model = MODEL[:-1] + ["router"]
    s = Chat(model + ["--session", "row", "--max-tokens", "7"], env=environment(TERM="linux"), columns=220, rows=70)
    s.until("Send a message")
    expect("prefetch off" not in s.text() and "prefetch 0 used, 0 wasted" in s.text(), s.text())
    answered = lambda t: " idle " in t.text().splitlines()[-2] and "expert hits" in t.text().splitlines()[-2]
    s.keys("hello there\r", answered)
    s.keys("/undo\r", "Took back 1")
    expect("prefetch off" not in s.text() and "expert hits" not in s.text().splitlines()[-2], s.text())
    s.keys("hello there\r", answered)
    s.keys("chess and wood " * 200 + "\r", "reading the prompt")
    row = s.text().splitlines()[-2]
    expect("tokens/s" not in row and "mean" not in row, row)
    s.keys("\x1b", "the message stays")
    s.send("/quit\r")
    same(s.finish(), 0)


def test_all_faces_tell_the_same():
    s = Chat(MODEL + ["--session", "faces", "--max-tokens", "7"], env=environment(TERM="linux"), columns=220, rows=70)
    s.until("Send a message")
    s.keys("\x1bs", "no experts used yet")
    first, speed = s.say("hello there")
    check_turn(s, first, speed)
    at = s.stats()
    same((at["answered"], at["messages"], at["program"], at["context"]), (first, 2, None, s.row()["context"]))
    same(at["speed"], speed)
    pane = s.pane()
    expect(near(pane["since start"][6], at["bytes"]), "bytes: %r, %r" % (pane, at))
    expect(abs(pane["disk"]["since start"] - at["disk"][0]) <= at["disk"][1], "bytes of the disk: %r, %r" % (pane, at))
    same(sum(pane["since start"][:3]), at["hits"])
    same(sum(pane["since start"][3:5]), at["misses"])
    second, speed = s.say("/retry")
    check_turn(s, second, speed)
    s.send("/set max-tokens 0\r")
    s.until("max-tokens is now 0")
    # a long message that is stopped while it is read, and one that is stopped while it is answered
    s.send("and " * 1500 + "\r")
    s.until(lambda t: "reading prompt" in t.text().splitlines()[-2], quiet=False)
    s.send("\x1b")
    s.until("the message stays")
    s.send("/inspect\r")
    s.until("No answer to inspect yet")
    stopped = s.stats()
    expect(stopped["bytes"] >= at["bytes"], "what was read for it counts")
    check_reads(s)
    same((stopped["context"], s.row()["context"]), (at["context"], at["context"]))
    expect(re.search(r"\((1[5-9]\d\d) with the message that waits\)", s.text()), s.text())
    # its figures are there as long as it is
    row = s.row()
    expect(row["hits"] is not None and "bound by" in s.text().splitlines()[-2], row)
    s.send("/undo\r")
    s.until("Took back 1 of your messages")
    same((s.row()["hits"], s.row()["context"], "bound by" in s.text().splitlines()[-2]), (None, at["context"], False))
    s.send("/redo\r")
    s.until(lambda t: t.row() == row)
    s.send("Tell me a long story about a fox.\r")
    # one token has no speed: the stop comes behind several
    s.until(lambda t: re.search(r"about a fox\..*◆ \w+ \w+ \w+", t.text(), re.S), quiet=False)
    s.send("\x1b")
    s.until(lambda t: " idle " in t.text().splitlines()[-2] and "tokens/s)" in t.text())
    third = int(re.findall(r"\((\d+) tokens?, [0-9.]+ tokens/s\)", s.text())[-1])
    at = s.stats()
    same(at["answered"], first + second + third)
    same(at["messages"], 4)
    same(at["context"], s.row()["context"])
    pane = s.pane()
    same((sum(pane["since start"][:3]), sum(pane["since start"][3:5])), (at["hits"], at["misses"]))
    expect(near(pane["since start"][6], at["bytes"]), "bytes: %r, %r" % (pane, at))
    s.send("/sessions\r")
    s.until(lambda t: re.search(r"faces( \(open\))? +just now, 4 messages,( 3 branches,)? %d tokens" % at["context"], t.text()))
    check_reads(s)
    path = os.path.join(SCRATCH, "faces.json")
    s.send("/export json %s\r" % path)
    s.until("Wrote ")
    exported = json.load(open(path))["messages"]
    same([message["role"] for message in exported], ["user", "assistant"] * 2)
    same(sum(len(message["ids"]) for message in exported), at["context"])
    # another conversation: nothing of the one before
    before = at
    s.send("/new\r")
    s.until("New conversation")
    at = s.stats()
    same([at[key] for key in ("context", "messages", "read", "answered", "hits", "misses", "bytes", "speed")], [0] * 8)
    same([at["program"][key] for key in ("read", "answered")], [before["read"], before["answered"]])
    same((s.row()["hits"], s.row()["mean"], s.row()["context"]), (None, None, 0))
    same(s.pane()["turn"], [0] * 7)
    s.send("/inspect\r")
    s.until("No answer to inspect")
    s.keys("\x1bs", "no uses yet; of 192 experts ")
    s.send("\x1bs\x1bs\x1bs")
    s.until("since start")
    fourth, speed = s.say("hello there")
    check_turn(s, fourth, speed)
    # the row is about an answer that is there
    s.send("/undo 99\r")
    s.until("Took back 1 of your messages; there were no more, context 0 of 4096. /redo brings it back.")
    same((s.row()["hits"], s.row()["mean"], s.row()["context"]), (None, None, 0))
    s.send("/inspect 1\r")
    s.until("Tokens of the last answer that was made, which is no longer in the conversation:")
    s.send("/redo\r")
    s.until(lambda t: t.row()["mean"] == speed)
    check_turn(s, fourth, speed)
    at = s.stats()
    same((at["answered"], at["program"]["answered"]), (fourth, before["answered"] + fourth))
    s.send("/load faces\r")
    s.until("Nothing needs to be read again")
    at = s.stats()
    same((at["context"], at["messages"], at["read"], at["answered"], at["hits"]), (before["context"], 4, 0, 0, 0))
    same(at["program"]["answered"], before["answered"] + fourth)
    same(s.pane()["turn"], [0] * 7)
    fifth, speed = s.say("And then?")
    check_turn(s, fifth, speed)
    at = s.stats()
    same((at["answered"], at["context"], at["messages"]), (fifth, s.row()["context"], 6))
    s.send("/quit\r")
    same(s.finish(), 0)
    listed = json.loads(run(["sessions", "--json"]).stdout)["sessions"]
    session = [entry for entry in listed if entry["name"] == "faces"][0]
    same((session["message_count"], session["tokens"]), (6, at["context"]))
    same(len(json.loads(run(["sessions", "export", "faces", "json"]).stdout)["messages"]), 6)


def check_sums(tokens, last):
    """The steps of all lines, and what the last line says of those that led to no token, are the totals."""
    layers = [layer for line in tokens for layer in line["step"]["layers"]] + last["rest"]["layers"]
    total = {key: sum(layer[key] for layer in layers) for key in layers[0] if key != "layer"}
    same({"hits": total["device"] + total["host"] + total["prefetch"], "misses": total["late"] + total["disk"],
          "bytes_read": total["bytes_read"], "bytes_cached": total["bytes_cached"], "used": total["prefetch"] + total["late"],
          "wasted": total["wasted"]}, {key: last["experts"][key] for key in ("hits", "misses", "bytes_read", "bytes_cached", "used", "wasted")})


def stand_still(t):
    """Ctrl-Z and, 2 s later, fg; returns what that took."""
    began = time.monotonic()
    t.send("\x1a")
    t.wait("stopped")
    time.sleep(2)
    t.send("\n")
    return time.monotonic() - began


def test_no_figure_has_the_time_in_which_the_process_stood_still():
    t = Terminal(MODEL + ["--plain", "--no-session", "--logit-bias", "2=-inf", "--max-tokens", "60"], columns=200,
                 shell='"$0" "$@"; echo "stopped"; read go; fg; echo "stopped"; read go; fg; echo "ended $?"')
    t.wait("You:")
    began = time.monotonic()
    t.send("and " * 300 + "\r")
    t.wait("Reading prompt")
    stood = stand_still(t)
    t.wait("Assistant:")
    stood += stand_still(t)
    t.wait("(60 tokens, ")
    took = time.monotonic() - began - stood
    t.wait(" tokens/s")
    speed = float(t.output[:t.seen].decode().split("(60 tokens, ")[-1].split(" ")[0])
    expect(60 / speed < took + 1, "%g tokens/s, in %g s without the stop" % (speed, took))
    t.send("/stats\r")
    t.wait("read (prefill)", "plan")
    tokens, speed = re.search(r"read \(prefill\) +(\d+) tokens, ([0-9.]+) tokens/s", t.output.decode()).groups()
    expect(int(tokens) / float(speed) < took + 0.5, "%s tokens, %s tokens/s in %g s without the stop" % (tokens, speed, took))
    t.send("/inspect\r")
    t.wait("Slowest: ", "You:")
    slowest = re.search(r"Slowest: token \d+, ([0-9.]+) (m?s)", t.output.decode())
    expect(float(slowest.group(1)) < (1900 if slowest.group(2) == "ms" else 1.9), slowest.group())
    t.send("\x04")
    t.wait("ended 0")
    t.finish()


def test_json_lines_have_no_time_in_which_the_process_stood_still():
    path = os.path.join(SCRATCH, "stood.jsonl")
    t = Terminal(["run", "--jsonl", *MODEL, "--logit-bias", "2=-inf", "--max-tokens", "60", "-p", "and " * 300],
                 shell='"$0" "$@" > %s; echo "stopped"; read go; fg; echo "ended $?"' % path)
    end = time.monotonic() + 60
    while not os.path.exists(path) or open(path).read().count("\n") < 5:
        expect(time.monotonic() < end, "no tokens")
        time.sleep(0.01)
    stand_still(t)
    t.wait("ended 0")
    t.finish()
    *tokens, last = map(json.loads, open(path))
    same(last["generated_tokens"], 60)
    steps = [line["step"] for line in tokens] + [last["rest"]]
    slowest = max(step["total_ns"] for step in steps[1:-1])  # the first read the prompt, before it stood
    expect(slowest < 1.9e9, "no step is that long: %d ns" % slowest)
    # the answer's time is that of its steps, and the whole turn's has no more
    expect(59 / last["decode_tokens_per_s"] < 1.1 * sum(step["total_ns"] for step in steps) / 1e9 + 0.1, last["decode_tokens_per_s"])
    expect(last["seconds"] < 1.1 * sum(step["total_ns"] for step in steps) / 1e9 + 1.5, last["seconds"])


def test_json_lines_add_up():
    for more in (["-p", "hello there"], ["-p", "hello there", "--stop", "help"], ["-p", "and " * 40, "--max-tokens", "3"]):
        lines = [json.loads(line) for line in run(["run", "--jsonl", *MODEL, "--prefetch", "previous", *more]).stdout.splitlines()]
        last = lines.pop()
        check_sums(lines, last)
        same(len(lines), last["generated_tokens"])
        same(last["rest"]["steps"], 1 if last["stop_reason"] == "end" else 0)


def test_all_reads_of_a_prompt_are_counted():
    """So long a one asks for all of the next layer's experts before its router has chosen; a few are wanted by nobody."""
    for more in (["--prefetch", "off"], ["--prefetch", "previous"]):
        last = json.loads(run(["run", "--json", *MODEL, *more, "--io", "direct", "--max-tokens", "1", "-p", "lion " * 64]).stdout)
        experts, size = last["experts"], last["cache"]["slot_bytes"]
        expect(experts["wasted"] > 0 and experts["used"] + experts["wasted"] <= experts["prefetched"], experts)
        if more[1] == "off":
            same(experts["bytes_read"], (experts["misses"] + experts["prefetched"]) * size)


def test_reads_of_a_stopped_prompt_are_counted():
    """Those that nobody used because it was stopped were read ahead, and wasted."""
    t = Terminal(MODEL + ["--plain", "--no-session", "--io", "direct", "--chunk", "64"], columns=200)
    t.wait("You:")
    for more in range(2):
        t.send("and " * (1500 + more) + "\r")
        t.wait("and \r\n", "Reading prompt")
        while not re.search(rb"[1-9] [KM]B read,", t.output[t.seen:]):
            expect(t.read(90), "nothing was read")
        t.interrupt()
        t.wait("the message stays", "You:")
        t.send("/stats\r")
        t.wait("prefetch", "plan", "You:")
        text = re.sub(r"\s+", " ", t.output[t.output.rindex(b"  experts  "):].decode())
        read = re.search(r"(?:hits\)|none yet); ([0-9.]+ [KMG]?B) read", text)
        missed = re.search(r"prefetched late, (\d+) read;", text)  # none yet: the stop came before any was used
        ahead, used, wasted = re.search(r"(\d+) read ahead, (\d+) used, (\d+) wasted", text).groups()
        expect(near((int(missed.group(1) if missed else 0) + int(ahead)) * EXPERT, size(read.group(1))), text)
        same(int(ahead), int(used) + int(wasted))
        t.send("/undo\r")
        t.wait("You:")
    t.send("\x04")
    same(t.finish(), 0)


def test_a_line_of_a_turn_keeps_what_was_read_ahead_though_prefetch_is_off():
    asked = dict(cwd=SCRATCH, stdin=b"hello there\n/stats\n")
    out = run([*MODEL[:6], "--plain", "--no-session", "--temp", "0"], **asked, together=True).stdout.decode()
    counted = re.search(r"; prefetch (off, all experts fit; missing ones are read meanwhile): (\d+) used, (\d+) wasted\)", out)
    told = re.search(r"prefetch +(off, .*): \d+ read ahead, (\d+) used, (\d+) wasted", out)
    expect(counted and int(counted.group(2)) > 0, out)
    same(counted.groups(), told.groups())


def test_speeds_are_of_all_that_an_answer_takes():
    for more in (["--seed", "1", "--temp", "0", "-p", "Hi"],
                 ["--temp", "50", "--seed", "4", "--logit-bias", "2=-inf", "--max-tokens", "50", "-p", "Tell me a story"]):
        tokens = [json.loads(line) for line in run(["run", "--jsonl", *MODEL, *more]).stdout.splitlines()]
        last = tokens.pop()
        same(last["decode_tokens_per_s"], tokens[-1]["decode_tokens_per_s"])  # the mark that ends it is no token
        same(tokens[0]["decode_tokens_per_s"], 0)  # nothing came before it
        speed, follow = last["decode_tokens_per_s"], len(tokens) - 1
        for took in (tokens[-1]["seconds"] - tokens[0]["seconds"], sum(token["step"]["total_ns"] for token in tokens[1:]) / 1e9):
            expect(abs(took * speed - follow) < 0.05 * follow, "%g tokens/s, %d in %g s" % (speed, follow, took))
    expect(sum(token["step"]["ns"]["sampling"] for token in tokens) > 0, "sampling takes time")


def test_json_tells_the_same():
    more = ["run", "-p", "hello there", "--max-tokens", "7", "--seed", "3"]
    tokens = [json.loads(line) for line in run(more[:1] + MODEL + more[1:] + ["--jsonl"]).stdout.splitlines()]
    last = tokens.pop()
    alone = json.loads(run(more[:1] + MODEL + more[1:] + ["--json"]).stdout)
    for key in ("text", "prefilled_tokens", "generated_tokens", "context_used"):
        same(last[key], alone[key])
    same([last["experts"][key] for key in ("hits", "misses", "bytes_read")],
         [alone["experts"][key] for key in ("hits", "misses", "bytes_read")])
    same(len(tokens), last["generated_tokens"])
    check_sums(tokens, last)
    hits = sum(layer["device"] + layer["host"] + layer["prefetch"] for token in tokens for layer in token["step"]["layers"])
    misses = sum(layer["late"] + layer["disk"] for token in tokens for layer in token["step"]["layers"])
    same((last["experts"]["hits"], last["experts"]["misses"]), (hits, misses))
    # what arrived after the last of them is the rest's
    same(last["experts"]["bytes_read"], sum(layer["bytes_read"] for part in [token["step"] for token in tokens] + [last["rest"]]
                                            for layer in part["layers"]))
    plain = run(["--plain", "--no-session"] + MODEL + more[3:], b"hello there\n/stats\n", together=True).stdout.decode()
    tokens, hits, misses = map(int, re.search(r"\((\d+) tokens, [0-9.]+ tokens/s; experts: (\d+) hits?, (\d+) miss(?:es)?", plain).groups())
    same((tokens, hits, misses), (last["generated_tokens"], last["experts"]["hits"], last["experts"]["misses"]))
    expect(re.search(r"answered +%d tokens" % tokens, plain), plain)


main(globals())
