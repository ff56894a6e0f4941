#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""One conversation with stops, retries and loads, on the demo model: whatever tells a figure of it (status row, pane,
heat map, /stats, /inspect, the line after an answer, /sessions, export, JSON) tells the same."""
import json
import os
import re
import shutil
import struct
import tempfile
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
        at["ahead"], at["used"], at["wasted"], at["unused"] = (int(n or 0) for n in re.search(
            r"(\d+) read ahead, (\d+) used, (\d+) wasted(?:, (\d+) still unused)?", text).groups())
        same(at["unused"], max(0, at["ahead"] - at["used"] - at["wasted"]))
        since = re.search(r" since start +(\d+) tokens? read, (\d+) answered; experts: (\d+) hits?, (\d+) miss(?:es)?, ([0-9.]+ [KMG]?B) read", text)
        at["program"] = None
        if since:
            at["program"] = dict(zip(("read", "answered", "hits", "misses"), map(int, since.groups()[:4])), bytes=size(since.group(5)))
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
        read = re.search(r"(?:disk ([0-9.]+ [KMG]?B))?(?:, )?(?:page cache ([0-9.]+ [KMG]?B))? a token", line)
        at["token"] = [size(part or "0 B") for part in read.groups()] if read else None
        ahead = re.search(r"prefetch (?:off, )?(\d+) used, (\d+) wasted", line)
        at["prefetch"] = list(map(int, ahead.groups())) if ahead else [0, 0]
        return at

    def inspect(self, number, count):
        """What /inspect says of a token: experts in memory, asked for, bytes read; and of each layer which experts, and where from."""
        head = "Token %d of %d:" % (number, count)
        self.send("/inspect %d\r" % number)
        self.until(lambda t: head in t.text() and "/inspect" not in t.text().splitlines()[-1])
        text = re.sub("\u2502.*", "", self.text())
        text = text[text.rindex(head):]
        found = re.search(r"In memory: (\d+) of (\d+) experts; ([0-9.]+ [KMG]?B) read", text)
        if not found:
            return None
        layers = {int(layer): [(int(expert), origin) for expert, origin in re.findall(r"(\d+) [0-9.]+ (device|host|ahead|late|read)", line)]
                  for layer, line in re.findall(r"(?m)^ +(\d+)   (\d+ [0-9.]+ .*)$", text)}
        return int(found.group(1)), int(found.group(2)), size(found.group(3)), layers

    def heat(self):
        """The heat map: of (layer, expert) its kind of mark and how dense; how many uses each density stands for; its totals."""
        self.keys("\x1bs", lambda t: "experts used: " in t.text() or "no uses yet; of " in t.text())
        text = self.text()
        marks, steps = {}, ["\u2591\u2592\u2593\u2588", "_-=\u2261", " \u00b7:!"]
        for layer, line in re.findall(r"\u2502 +([1-6]) (.*)", text):
            for expert, mark in enumerate(line.ljust(32)[:32]):
                tier, = [i for i, kind in enumerate(steps) if mark in kind]
                marks[int(layer), expert] = ("device", "host", "disk")[tier], steps[tier].index(mark)
        uses = re.search(r"never, (.*) times?", text)
        totals = re.search(r"(\d+) of 192 experts used: (\d+) on disk only, (\d+) in host memory, (\d+) on the device", text)
        unused = re.search(r"no uses yet; of 192 experts (\d+) are on disk only, (\d+) in host memory, (\d+) on the device", text)
        self.send("\x1bs\x1bs\x1bs")
        self.until("since start")
        ranges = [tuple(map(int, (part + "-" + part).split("-")[:2])) for part in uses.group(1).split(", ")] if uses else []
        return marks, ranges, list(map(int, (totals or unused).groups())), bool(totals)

    def cached(self):
        """How many experts the pane says are cached."""
        return round(size(re.search(r"expert cache: ([0-9.]+ [KMG]?B) of", self.text()).group(1)) / EXPERT)

    def say(self, text):
        before = self.pane()["since start"] if "since start" in self.text() else None
        self.send(text + "\r")
        self.until(lambda t: " idle " in t.text().splitlines()[-2] and "since start" in t.text() and t.pane()["since start"] != before)
        return turns_in(self)[-1]


def tells_of(s, turn, passes):
    """What the row, the pane, the heat map and /inspect tell of the turn that is over, which is so many tokens through the
    model: `turn` is what the line after the answer says. Returns what /inspect says."""
    said, speed = turn
    pane, row = s.pane(), s.row()
    same(pane["layers"][:6], pane["turn"][:6])
    expect(near(pane["layers"][6], pane["turn"][6]), "bytes of the layers and of the turn: %r" % pane)
    device, host, ahead, late, missed, wasted, read = pane["turn"]
    same(row["hits"], round(100 * (device + host + ahead) / (device + host + ahead + late + missed)))
    same((row["mean"], row["prefetch"]), (speed, [ahead + late, wasted]))
    for a_token, whole in zip(row["token"], (pane["disk"]["turn"], read - pane["disk"]["turn"])):
        expect(abs(passes * a_token - whole) <= 0.006 * read + 0.006 * whole + passes, "a token's bytes by %d: %r, %r" % (passes, row, pane))
    tokens = [s.inspect(number + 1, said) for number in range(said)][1:]  # a prompt leads to the first
    same([token[1] for token in tokens], [24] * (said - 1))
    choices = [(layer, *choice) for token in tokens for layer, chosen in token[3].items() for choice in chosen]
    origins = [sum(origin == of for _, _, origin in choices) for of in ("device", "host", "ahead", "late", "read")]
    same((sum(origins[:3]), sum(origins)), (sum(token[0] for token in tokens), 24 * (said - 1)))
    expect(all(of_tokens <= of_turn for of_tokens, of_turn in zip(origins, pane["turn"])), "%r, %r" % (origins, pane))
    expect(sum(token[2] for token in tokens) <= 1.006 * read, "bytes of the tokens and of the turn: %r" % pane)
    tells_of_heat(s, [(layer, expert) for layer, expert, _ in choices], passes)
    return tokens


def tells_of_heat(s, uses, passes):
    """The map of a turn in which so many tokens used four experts of each layer, among others these."""
    cached, (marks, ranges, totals, used) = s.cached(), s.heat()
    expect(len(marks) == 192 and used, marks)
    inside = [sum(level > 0 and tier == kind for tier, level in marks.values()) for kind in ("disk", "host", "device")]
    same((totals, sum(tier == "device" for tier, _ in marks.values())), ([sum(inside)] + inside, cached))
    if len(ranges) == 3:
        least, most = ([0] + [part[end] for part in ranges] for end in (0, 1))
        for at, (_, level) in marks.items():
            expect(uses.count(at) <= most[level], "%r is used more often than its mark says: %r" % (at, ranges))
        sums = [sum(bound[level] for _, level in marks.values()) for bound in (least, most)]
        expect(sums[0] <= 24 * passes <= sums[1], "%d uses by %d tokens: %r" % (24 * passes, passes, sums))
    expect(all(marks[at][1] > 0 for at in uses), "all that were used have marks")


def tells_of_no_turn(s):
    """After /new or /load: nothing is left of the turn before, and the experts are where they are."""
    row, cached = s.row(), s.cached()
    same((row["hits"], row["mean"], row["token"], s.pane()["turn"]), (None, None, None, [0] * 7))
    marks, _, totals, used = s.heat()
    same((used, totals), (False, [192 - cached, 0, cached]))
    same([sum(tier == kind for tier, _ in marks.values()) for kind in ("disk", "host", "device")], totals)
    same({level for tier, level in marks.values()}, {0})
    s.keys("/inspect\r", "No answer to inspect")


def tells_of_all(s, at, told):
    """What /stats says of the program and the pane of it, and what was `told` until now: tokens answered and read before
    this conversation."""
    pane = s.pane()
    program = at["program"] or at
    device, host, ahead, late, missed, wasted, read = pane["since start"]
    same((device + host + ahead, late + missed), (program["hits"], program["misses"]))
    expect(near(read, program["bytes"]), "bytes: %r, %r" % (pane, at))
    same((program["answered"], program["read"]), (told["answered"] + at["answered"], told["read"] + at["read"]))
    off = "; prefetch off" in s.text()
    expect(not off or near((sum(pane["turn"][2:6])) * EXPERT, pane["turn"][6]), "%r" % pane)
    if at["program"]:
        return
    expect(abs(pane["disk"]["since start"] - at["disk"][0]) <= at["disk"][1], "bytes of the disk: %r, %r" % (pane, at))
    same((at["used"], at["wasted"]), (ahead + late, wasted))
    waiting = at["ahead"] - ahead - late - wasted  # read ahead, and neither used nor given up yet
    same(at["unused"], waiting)
    expect(0 <= waiting <= (0 if off else 24), "%r, %r" % (at, pane))
    fewest, most = (missed + at["ahead"] - waiting) * EXPERT, (missed + at["ahead"]) * EXPERT
    expect(0.994 * fewest - 1 <= read <= 1.006 * most + 1, "%r, %r" % (at, pane))


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
    expect("prefetch" not in s.text().splitlines()[-2] and "expert hits" not in s.text().splitlines()[-2], s.text())
    s.keys("hello there\r", answered)
    s.keys("chess and wood " * 200 + "\r", "reading the prompt")
    row = s.text().splitlines()[-2]
    expect("tokens/s" not in row and "mean" not in row, row)
    s.keys("\x1b", "the message stays")
    s.send("/quit\r")
    same(s.finish(), 0)


def tell_the_same(name, more):
    """A conversation on all faces; `left` is what an answer that was cut leaves to the next turn: its last token and its end."""
    left, told = 2, {"answered": 0, "read": 0}
    model = MODEL[:-1] + more
    s = Chat(model + ["--session", name, "--max-tokens", "7"], env=environment(TERM="linux"), columns=220, rows=70)
    s.until("Send a message")
    s.keys("\x1bs", "no experts used yet")
    turn = first, speed = s.say("hello there")
    at = s.stats()
    tokens = tells_of(s, turn, at["read"] + first - 1)
    same((at["answered"], at["messages"], at["program"], at["context"]), (first, 2, None, s.row()["context"]))
    same(at["speed"], speed)
    tells_of_all(s, at, told)
    tells_the_same_as_lines(s, model, tokens)
    turn = second, speed = s.say("/retry")
    tells_of(s, turn, left + second - 1)  # it begins where the first began: nothing is read
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
    tells_of_all(s, stopped, told)
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
    turn = third, speed = turns_in(s)[-1]
    at = s.stats()
    same(at["answered"], first + second + third)
    same(at["messages"], 4)
    same(at["context"], s.row()["context"])
    tells_of_all(s, at, told)
    tells_of(s, turn, at["read"] - stopped["read"] + third - 1)  # the message that was stopped had what was left
    s.send("/sessions\r")
    s.until(lambda t: re.search(r"%s( \(open\))? +just now, 4 messages,( 3 branches,)? %d tokens" % (name, at["context"]), t.text()))
    path = os.path.join(SCRATCH, name + ".json")
    s.send("/export json %s\r" % path)
    s.until("Wrote ")
    exported = json.load(open(path))["messages"]
    same([message["role"] for message in exported], ["user", "assistant"] * 2)
    same(sum(len(message["ids"]) for message in exported), at["context"])
    # another conversation: nothing of the one before, but for what its last answer left, which counts since the start
    asked = sum(s.pane()["since start"][:5])
    before, told = at, {key: at[key] for key in ("answered", "read")}
    s.send("/set max-tokens 7\r")
    s.until("max-tokens is now 7")
    s.send("/new\r")
    s.until("New conversation")
    at = s.stats()
    same([at[key] for key in ("context", "messages", "read", "answered", "hits", "misses", "bytes", "speed")], [0] * 8)
    tells_of_all(s, at, told)
    same(s.row()["context"], 0)
    tells_of_no_turn(s)
    same(sum(s.pane()["since start"][:5]), asked + 24 * left)
    turn = fourth, speed = s.say("hello there")
    at = s.stats()
    tells_of(s, turn, at["read"] + fourth - 1)
    tells_of_all(s, at, told)
    # the row is about an answer that is there
    s.send("/undo 99\r")
    s.until("Took back 1 of your messages; there were no more, context 0 of 4096. /redo brings it back.")
    same((s.row()["hits"], s.row()["mean"], s.row()["context"]), (None, None, 0))
    s.send("/inspect 1\r")
    s.until("Tokens of the last answer that was made, which is no longer in the conversation:")
    s.send("/redo\r")
    s.until(lambda t: t.row()["mean"] == speed)
    tells_of(s, turn, at["read"] + fourth - 1)
    same(s.stats()["answered"], fourth)
    told, asked = {key: told[key] + at[key] for key in told}, sum(s.pane()["since start"][:5])
    s.send("/load %s\r" % name)
    s.until("Nothing needs to be read again")
    at = s.stats()
    same((at["context"], at["messages"], at["read"], at["answered"], at["hits"]), (before["context"], 4, 0, 0, 0))
    tells_of_all(s, at, told)
    tells_of_no_turn(s)
    same(sum(s.pane()["since start"][:5]), asked + 24 * left)
    turn = fifth, speed = s.say("And then?")
    at = s.stats()
    tells_of(s, turn, at["read"] + fifth - 1)
    same((at["answered"], at["context"], at["messages"]), (fifth, s.row()["context"], 6))
    tells_of_all(s, at, told)
    turn = sixth, speed = s.say("/retry")
    tells_of(s, turn, left + sixth - 1)
    at = s.stats()
    same((at["answered"], at["context"], at["messages"]), (fifth + sixth, s.row()["context"], 6))
    tells_of_all(s, at, told)
    s.send("/quit\r")
    same(s.finish(), 0)
    same(session_named(name), (6, at["context"]))
    same(len(json.loads(run(["sessions", "export", name, "json"]).stdout)["messages"]), 6)
    goes_on_in_lines(name, model, at["context"])


def session_named(name):
    """How many messages and tokens it has, as `moechat sessions` says."""
    session, = [entry for entry in json.loads(run(["sessions", "--json"]).stdout)["sessions"] if entry["name"] == name]
    return session["message_count"], session["tokens"]


def tells_the_same_as_lines(s, model, tokens):
    """A process of its own for the first turn: without prefetch each token finds the same."""
    *lines, last = map(json.loads, run(["run", "--jsonl", *model, "--max-tokens", "7", "-p", "hello there"]).stdout.splitlines())
    steps = [line["step"]["layers"] for line in lines[1:]]
    asked = lambda layers, *of: sum(layer[origin] for layer in layers for origin in of)
    same([asked(layers, "device", "host", "prefetch", "late", "disk") for layers in steps], [token[1] for token in tokens])
    same([[sorted(choice["expert"] for choice in layer["experts"]) for layer in layers] for layers in steps],
         [[sorted(expert for expert, _ in chosen) for chosen in token[3].values()] for token in tokens])
    if last["experts"]["policy"] != "off":
        return
    same([asked(layers, "device", "host", "prefetch") for layers in steps], [token[0] for token in tokens])
    device, host, ahead, late, missed, wasted, read = s.pane()["turn"]
    same([last["experts"][key] for key in ("hits", "misses", "used", "wasted")], [device + host + ahead, late + missed, ahead + late, wasted])
    expect(near(last["experts"]["bytes_read"], read), "bytes: %r, %r" % (last, s.pane()))


def goes_on_in_lines(name, model, context):
    """Another process goes on with the session that the chat has left."""
    *lines, last = map(json.loads, run(["run", "--session", name, "--jsonl", *model, "--max-tokens", "7", "-p", "And then?"]).stdout.splitlines())
    check_sums(lines, last)
    same((len(lines), last["cached_tokens"]), (last["generated_tokens"], context))
    same(last["context_used"], context + last["prefilled_tokens"] + last["generated_tokens"] + (last["stop_reason"] != "end"))
    passes = sum(line["step"]["tokens"] for line in lines) + last["rest"]["tokens"]
    same(passes, last["prefilled_tokens"] + last["generated_tokens"] - 1 + (last["stop_reason"] == "end"))
    same(session_named(name), (8, last["context_used"]))
    exported = json.loads(run(["sessions", "export", name, "json"]).stdout)["messages"]
    same((len(exported), sum(len(message["ids"]) for message in exported)), (8, last["context_used"]))
    same(exported[-1]["text"], last["text"])


def turns_in(s):
    """Tokens and speed of each line that follows an answer on the screen."""
    return [(int(tokens), float(speed)) for tokens, speed in re.findall(r"\((\d+) tokens?, ([0-9.]+) tokens/s\)", s.text())]


def test_all_faces_tell_the_same():
    tell_the_same("faces", ["off"])


def test_all_faces_tell_the_same_of_prefetch_and_of_the_disk():
    tell_the_same("foretold", ["router", "--io", "direct"])


def read_by(process):
    """What disks delivered to it, as the system counts."""
    return int(re.search(r"\nread_bytes: (\d+)", open("/proc/%s/io" % process).read()).group(1))


def forget(folder):
    """Drops the experts of a model from the page cache. False: here it can't be, or nobody counts what disks deliver."""
    before = read_by("self")
    for name in os.listdir(folder):
        if name.endswith(".experts"):
            fd = os.open(os.path.join(folder, name), os.O_RDONLY)
            os.fsync(fd)  # what is not written yet stays
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)
    with open(os.path.join(folder, "layer-001.experts"), "rb") as file:
        file.read(EXPERT)
    return read_by("self") > before


def test_the_disk_is_the_disk():
    """The figure called disk is what the system says that disks delivered, and is 0 where the page cache had all."""
    with tempfile.TemporaryDirectory(dir=ROOT + "/build") as scratch:  # /tmp may be memory
        copy = shutil.copytree(ROOT + "/models/demo", scratch + "/demo")
        if not os.path.exists("/proc/self/io") or not forget(copy):
            return
        model = ["--model", copy, *MODEL[2:], "--max-tokens", "7", "--io", "buffered"]
        for layer in range(1, 7):
            open(copy + "/layer-%03d.experts" % layer, "rb").read()
        s = Chat(model + ["--no-session"], env=environment(TERM="linux"), columns=220, rows=70)
        s.until("Send a message")
        s.keys("\x1bs", "no experts used yet")
        s.say("hello there")  # has the program's own pages, too
        delivered, disk = read_by(s.process.pid), s.pane()["disk"]["since start"]

        def turn(text):
            before = read_by(s.process.pid)
            s.say(text)
            return read_by(s.process.pid) - before, s.pane()["disk"]["turn"], s.pane()["turn"][6]

        for text in ("And then?", "hello there"):
            moved, told, read = turn(text)
            # a block of the file system's own may be missing, which is then the disk's, or a page of the program's; and one
            # may have come between the turns
            expect(read > 100 * EXPERT and told <= 1.006 * moved + 8192 and moved < 8 * EXPERT and told < EXPERT, "all is in the page cache: %d, %d" % (moved, told))
            expect(told or s.row()["token"][0] == 0, s.text())
        forget(copy)
        moved, told, read = turn("And then?")
        expect(read / 2 < told <= read and told <= 1.006 * moved, "%d of %d from the disk, %d by the system" % (told, read, moved))
        expect(s.row()["token"][0] > s.row()["token"][1], s.text())
        turn("hello there")  # what the system read ahead counts with the next reads
        moved, told = read_by(s.process.pid) - delivered, s.pane()["disk"]["since start"] - disk
        expect(abs(moved - told) < 0.02 * moved + 2 * EXPERT, "%d from the disk, %d by the system" % (told, moved))
        s.send("/quit\r")
        same(s.finish(), 0)
        forget(copy)
        last = json.loads(run(["run", "--json", *model, "-p", "hello there"]).stdout)
        disk = last["experts"]["bytes_read"] - last["experts"]["bytes_cached"]
        expect(0 < disk <= last["process"]["disk_bytes_since"] + EXPERT, last)


def left_over(experts):
    """Of those read ahead since the start some were used, some wasted, and the rest is unused."""
    same(experts["prefetched"], experts["used"] + experts["wasted"] + experts["unused"])


def check_sums(tokens, last):
    """The steps of all lines, and what the last line says of those that led to no token, are the totals."""
    layers = [layer for line in tokens for layer in line["step"]["layers"]] + last["rest"]["layers"]
    total = {key: sum(layer[key] for layer in layers) for key in layers[0] if key != "layer"}
    same({"hits": total["device"] + total["host"] + total["prefetch"], "misses": total["late"] + total["disk"],
          "bytes_read": total["bytes_read"], "bytes_cached": total["bytes_cached"], "used": total["prefetch"] + total["late"],
          "wasted": total["wasted"]}, {key: last["experts"][key] for key in ("hits", "misses", "bytes_read", "bytes_cached", "used", "wasted")})
    left_over(last["experts"])


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
        expect(experts["wasted"] > 0, experts)
        left_over(experts)
        if more[1] == "off":
            same(experts["bytes_read"], (experts["misses"] + experts["prefetched"]) * size)


def test_a_benchmark_counts_what_the_run_before_had_read_ahead():
    """The warm-up's last token reads ahead what the next run's prompt drops."""
    for runs in ("1", "2", "3"):
        got = run(["bench", "--json", "--device", "ref", "--expert-cache", "4M", "--runs", runs, "--prefill-tokens", "4", "--decode-tokens", "1"])
        experts = json.loads(got.stdout)["experts"]
        left_over(experts)


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
