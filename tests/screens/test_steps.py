#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What --jsonl says of each step, on the demo model: its parts add up, among themselves and to the run's totals."""
import json
import os
import re
import subprocess

from rig import ROOT, SCRATCH, Terminal, environment, expect, main, run, same, same_names

RUN = ["run", "--model", ROOT + "/models/demo", "--device", "ref", "--temp", "0", "--jsonl", "-p", "Tell me about the weather."]


def lines(*more):
    result = run(RUN + list(more))
    same(result.returncode, 0)
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_steps_add_up():
    *tokens, last = lines("--max-tokens", "12", "--expert-cache", "1M", "--chunk", "4", "--prefetch", "off")
    expect(3 <= len(tokens) <= 12, "a line a token")
    for before, token in zip([None] + tokens, tokens):
        step = token["step"]
        expect(abs(sum(step["ns"].values()) - step["total_ns"]) <= 0.02 * step["total_ns"], "intervals add up")
        same(step["decode"], before is not None)
        same(sum(layer["wait_ns"] for layer in step["layers"]), step["ns"]["disk"] + step["ns"]["copy"])
        if before:
            same(step["number"], before["step"]["number"] + 1)
            same(step["position"], before["step"]["position"] + before["step"]["tokens"])
            disk = sum(layer["disk"] + layer["late"] for layer in step["layers"])
            hits = sum(layer["device"] + layer["host"] + layer["prefetch"] for layer in step["layers"])
            same(disk, token["experts"]["misses"] - before["experts"]["misses"])
            same(hits, token["experts"]["hits"] - before["experts"]["hits"])
            same(sum(layer["bytes_read"] for layer in step["layers"]),
                 token["experts"]["bytes_read"] - before["experts"]["bytes_read"])
            for layer in step["layers"]:
                same([len(layer["experts"])], [4])
                same(sum(e["from"] == "disk" for e in layer["experts"]), layer["disk"])
    expect(tokens[0]["step"]["ns"]["sampling"] > 0, "sampling takes time")
    same(sum(token["step"]["ns"]["saving"] for token in tokens), 0)
    saved, *_ = lines("--max-tokens", "2", "--session", "saving")
    expect(0 < saved["step"]["ns"]["saving"] < saved["step"]["total_ns"], "saving is its own part")
    seconds = tokens[-1]["seconds"] - tokens[0]["seconds"]
    steps = sum(token["step"]["total_ns"] for token in tokens[1:]) / 1e9
    expect(abs(steps - seconds) <= 0.02 * seconds + 0.0005, "steps cover the turn: %g of %g s" % (steps, seconds))
    same(last["experts"]["misses"], tokens[-1]["experts"]["misses"])


def test_a_turn_without_steps_has_a_rest():
    """Refused, or stopped before the first one: a script that adds all layers up finds none."""
    for prefetch, reason in (("off", "as asked"), ("router", "as asked"), ("auto", "all experts fit; missing ones are read meanwhile")):
        result = run(RUN + ["--context", "8", "--prefetch", prefetch])
        same((result.returncode, result.stdout.count(b"\n")), (4, 1))
        last = json.loads(result.stdout)
        same(last["rest"], {"steps": 0, "tokens": 0, "total_ns": 0, "layers": []})
        same((last["experts"]["policy"], last["experts"].get("reason")), ("off" if prefetch == "auto" else prefetch, reason))


def test_profile_tells_of_kernels():
    for device, wanted in (("cpu", "matvec"), ("ref", "does not time")):
        result = run(["run", "--model", ROOT + "/models/demo", "--device", device, "--temp", "0", "-p", "hello",
                      "--max-tokens", "2", "--profile"])
        same(result.returncode, 0)
        expect(wanted in result.stderr.decode(), "%s in %r" % (wanted, result.stderr))
        if device == "cpu":
            said, = re.findall(r"(?m)^kernels of .* by the time that they took, ([0-9.]+) ms together:$", result.stderr.decode())
            rows = [(int(n), float(ms), float(share), float(each)) for n, ms, share, each in
                    re.findall(r"(?m)^  \w+ +(\d+) launches +([0-9.]+) ms +([0-9.]+) % +([0-9.]+) us each$", result.stderr.decode())]
            expect(len(rows) > 5 and abs(sum(row[1] for row in rows) - float(said)) < 0.001 * len(rows), result.stderr)
            same(rows, sorted(rows, key=lambda row: -row[1]))
            for n, ms, share, each in rows:
                expect(abs(share - 100 * ms / float(said)) < 0.06 + 100 * 0.001 / float(said) and abs(each - 1000 * ms / n) < 0.006 + 0.5 / n, (n, ms, share, each, said))
        expect(wanted not in result.stdout.decode(), "the answer stays alone")


def test_inspect_tells_what_was_likely_and_where_experts_were():
    result = run(["--plain", "--no-session", "--config", "none", "--model", ROOT + "/models/demo", "--device", "ref", "--temp", "0",
                  "--max-tokens", "3", "--expert-cache", "1M", "--prefetch", "off"], b"hello there\n/inspect\n/inspect 2\n/inspect 9\n")
    text = result.stdout.decode() + result.stderr.decode()
    expect(re.search(r'^ +1 ".*" [0-9.]+ %, 2 ".*" [0-9.]+ %, 3 ".*" [0-9.]+ %$', text, re.M), "a list: " + text)
    expect(re.search(r"Token 2 of 3: .*\n(.*%.*\n)*.* [0-9.]+ %  +[0-9]+  \".*\"  taken\n", text), "one of the likely ones was taken")
    expect(len(re.findall(r"^ +[1-6]   [0-9]+ [0-9.]+ (?:device|read)", text, re.M)) == 6, "a row a layer")
    expect(re.search(r"^ +[1-6]   .* read", text, re.M), "some were read")
    expect("The last answer has 3 tokens." in text, "no token 9")
    expect(re.search(r"Median [0-9.]+ ms a token\. Slowest: token [23], [0-9.]+ ms \((?:probably )?(?:reads|experts|host|attention)\)", text),
           "the slowest: " + text)
    expect(re.search(r"^(?:Slow|As usual|Faster than usual).*[0-9.]+ ms", text, re.M), "in words: " + text)


def test_inspect_and_stats_are_about_what_was_answered():
    result = run(["--plain", "--no-session", "--config", "none", "--model", ROOT + "/models/demo", "--device", "ref", "--seed", "5", "--temp", "9",
                  "--max-tokens", "3", "--context", "256"], b"hello there\n/retry\n/inspect 1\n/tree 2\n/inspect 1\n" + b"and " * 900 + b"\n/inspect\n/stats\n", together=True)
    text = result.stdout.decode()
    same(text.count("Tokens of answer 2 of 2, the last that was made, which is not the one shown:\nToken 1 of 3:"), 1)
    refused = text[text.index("Not sent: the message is too long"):]
    expect(re.search(r"not the one shown:\n +1 .* %, 2 .* %, *\n? *3 .* %", refused), "the last answer is still there: " + refused)
    expect(re.search(r"\n  seed +5 in the last turn\n", refused) and re.search(r"answered +6 tokens", refused), "so are its figures: " + refused)
    expect(re.search(r"%  +[0-9]+  .*  taken, less likely than these\n", text), "it has its probability: " + text)


def test_one_of_a_thing_is_one():
    shown = [run(args + ["--device", "ref", "--prefetch", "off"], stdin, together=True).stdout.decode() for args, stdin in (
        (["bench", "-m", ROOT + "/models/demo", "--runs", "1", "--prefill-tokens", "1", "--decode-tokens", "1"], b""),
        (["--plain", "--session", "of-one", "--max-tokens", "1"], b"hi\n/inspect 9\n/stats\n/inspect 1\n/sessions\n"),
        (["--plain", "--session", "of-none", "--max-tokens", "1"], b"/system x\n/save\n/sessions\n"))]
    shown += [run(["sessions", verb, name]).stdout.decode() for verb in ("show", "verify", "tree") for name in ("of-one", "of-none")]
    for text in shown:
        same(re.findall(r"(?<![0-9.,] )(?<![0-9.,-])\b1 (?:tokens|messages|parts|records|states|hits|misses|branches|turns|experts|layers|slots)\b", text), [])
    expect(shown[0].count("(1 token)") == 2 and "The last answer has 1 token." in shown[1], shown)
    for name in ("of-one", "of-none"):
        run(["sessions", "rm", name])


def test_hits_without_prefetch_are_what_the_manual_says():
    """The sum is the same in each run; on the device that is done at once so are both."""
    kernels = environment(XDG_CACHE_HOME=os.environ.get("XDG_CACHE_HOME", SCRATCH + "/cache"))  # they are built there already
    tell = lambda *more: json.loads(run(["run", "--json", "--model", ROOT + "/models/demo", "--seed", "1", "--temp", "0", "--max-tokens", "9",
                                         "--prefetch", "off", "--expert-cache", "2M", "-p", "Tell me a story about a fox."] + list(more), env=kernels).stdout)["experts"]
    here, there = [tell("--device", "ref") for _ in range(3)], [tell() for _ in range(3)]
    for each in here + there:
        same((each["hits"] + each["misses"], each["prefetched"]), (here[0]["hits"] + here[0]["misses"], 0))
    same([each["hits"] for each in here], [here[0]["hits"]] * 3)


def test_stats_sum_up():
    result = run(["--plain", "--no-session", "--config", "none", "--model", ROOT + "/models/demo", "--device", "ref", "--temp", "0",
                  "--max-tokens", "9", "--expert-cache", "2M"], b"hello there\n/stats\n")
    text = re.sub(r"\s+", " ", result.stdout.decode())
    time, bound = re.search(r" time ([0-9.]+ s: .*?); bound by (\w+)\b", text).groups()
    expect(abs(sum(float(share) for share in re.findall(r" ~?([0-9.]+) %", time)) - 100) < 0.5, "shares of the time: " + time)
    expect(bound in ("reads", "compute", "launches"), bound)
    found = re.search(r" found (\d+) on the device, 0 in host memory, (\d+) prefetched; missed: (\d+) prefetched late, (\d+) read; 0 B copied", text)
    hits, misses = map(int, re.search(r" experts (\d+) hits?, (\d+) miss(?:es)?", text).groups())
    device, ahead, late, disk = map(int, found.groups())
    same((device + ahead, late + disk), (hits, misses))
    curve, acting = text[text.index("hit curve"):text.rindex(" prefetch ")].split(";")
    expect(re.search(r" 24 \(2.07 MB: you are here\) \d+ %", curve), "where we are: " + curve)
    found, asked = int(re.search(r"hit (\d+) %", acting).group(1)), re.search(r"the policy that acts \(recency and frequency\)", acting)
    expect(asked and 0 < found < 100, acting)
    curve = [int(share) for share in re.findall(r" (\d+) %", curve)]
    expect(len(curve) == 5 and curve == sorted(curve) and 0 < curve[-1] < 100, "a hit curve: %r" % curve)
    expect("plan 4.55 MB of resident weights; 2" in text and " prefetch " in text, "plan and prefetch")


def test_the_heat_map_in_lines():
    result = run(["--plain", "--no-session", "--config", "none", "--model", ROOT + "/models/demo", "--device", "ref", "--temp", "0",
                  "--max-tokens", "3", "--expert-cache", "2M"], b"hello there\n/heat\n")
    text = result.stdout.decode()
    marks = "".join(re.findall(r"^ +[1-6] (.*)$", text, re.M))
    expect(set(marks) <= set(" .:!coO@") and re.search("[oO@]", marks), "one tier, in ASCII: " + text)
    totals = re.search(r"^([0-9]+) of 192 experts used: ([0-9]+) on disk only, 0 in host memory, ([0-9]+) on the device$", text, re.M)
    expect(totals, "their sums: " + text)
    used, disk, device = map(int, totals.groups())
    same((used, disk, device), (disk + device, len(re.findall("[.:!]", marks)), len(re.findall("[oO@]", marks))))
    expect("disk only  .:!  host memory _-=#  device coO@" in text, "a legend")


def test_bench_stream():
    result = run(["bench", "stream", "--model", ROOT + "/models/demo", "--device", "ref", "--runs", "1",
                  "--prefill-tokens", "6", "--decode-tokens", "3", "--expert-cache", "2M", "--json"])
    same(result.returncode, 0)
    seen = json.loads(result.stdout)
    same_names("bench stream", result.stdout)
    same(seen["same_answers"], True)
    expect(len(seen["rows"]) >= 12 and all(row["decode_tokens_per_s"] > 0 for row in seen["rows"]), "a row a technique")
    expect(all(rate > 0 for rate in seen["reads_bytes_per_s"]), "reads were measured")
    if os.path.exists("/proc/self/io"):  # where what was read can be known, it is, though it be 0
        expect(0 <= seen["reads_from_disk_share"] <= 1, seen["reads_from_disk_share"])
    expect(seen["fetched_from_disk"]["bytes_per_s"] > 0 and seen["fetched_from_disk"]["ratio"] > 0, "and the cache beside it")
    same(seen["fetched_from_host"], None)
    expect(all(row["bound_holds"] == (row["time_to_bound"] >= 0.95) for row in seen["rows"]), "what can't be is flagged")
    # Of the two that say how they read, the speed of one kind was not measured, which is no speed that stayed the same.
    now = {row["name"]: row["reads_now_to_first"] for row in seen["rows"]}
    try:
        os.close(os.open(ROOT + "/models/demo/layer-001.experts", os.O_RDONLY | os.O_DIRECT))
        expect((now["direct reads"] is None) != (now["buffered reads"] is None) and now["baseline"] > 0, now)
    except OSError:
        pass  # here all reads go one way
    # The demo was read before, so what is read again comes from the page cache, and is not called the disk's.
    shares = [(row["disk_bytes_per_token"], row["page_cache_bytes_per_token"]) for row in seen["rows"]]
    expect(all(disk >= 0 and cached >= 0 for disk, cached in shares) and sum(cached for _, cached in shares) > 9 * sum(disk for disk, _ in shares), shares)
    text = run(["bench", "stream", "--model", ROOT + "/models/demo", "--device", "ref", "--runs", "1", "--only", "baseline",
                "--prefill-tokens", "6", "--decode-tokens", "3", "--expert-cache", "2M"]).stdout.decode()
    expect(", one run; 6 tokens of prompt" in text and re.search(r"random reads of whole experts \(0\.09 MB\), (past|through) the page cache: ", text), text)
    if seen["reads_from_disk_share"] is not None and seen["reads_from_disk_share"] < 0.5:
        expect(re.search(r"of these bytes the disk delivered [0-9]+ %; the others were in the page cache", text), text)
    expect(re.search(r"experts read, no compute: [0-9.]+ GB/s, plain reads beside them [0-9.]+; "
                     r"by turns, [0-9]+ %\*? of them in the median of 5 pairs", text), "whose share it is: " + text)
    table = [line for line in text.splitlines() if re.match(" {26} +(cache|tokens/s) |  baseline ", line)]
    same("better than possible" in text, re.search(r"\d(?: %)?\*", text) is not None)  # in the table or the line above
    same([len(line) for line in table][1:], [len(table[-1])] * 2)  # a line a row, however long, where no terminal cuts it
    s = Terminal(["bench", "stream", "--model", ROOT + "/models/demo", "--device", "ref", "--runs", "1", "--only", "baseline",
                  "--prefill-tokens", "6", "--decode-tokens", "3", "--expert-cache", "2M"], stderr=subprocess.DEVNULL)
    same(s.finish(), 0)
    shown = s.output.decode().replace("\r", "")
    expect(max(map(len, shown.splitlines())) <= 80, shown)
    expect(re.search(r"\n  baseline\n    cache 2\.\d+ MB, prefill [0-9.]+ tokens/s, read ", shown), shown)
    expect(re.search(r", waits [0-9.]+/token, bound [0-9.]+\*? x, reads (-|[0-9.]+\*? x), now \d+ % about so many ms of a token on: disk ",
                     " ".join(shown.split())), shown)
    wrong = run(["bench", "stream", "--only", "baseline,nonsense"])
    same((wrong.returncode, wrong.stdout), (2, b""))
    expect(b'"nonsense"' in wrong.stderr and b"baseline, no prefetch, " in wrong.stderr, "which, and what there is")
    same(run(["bench", "--only", "baseline"]).returncode, 2)


def test_bench_cache_replays_what_was_asked_for():
    trace = os.path.join(SCRATCH, "trace")
    *tokens, last = lines("--max-tokens", "9", "--trace", trace)
    text, got = run(["bench", "cache", trace]), json.loads(run(["bench", "cache", trace, "--json"]).stdout)
    same((text.returncode, text.stderr, got["model"], got["cut"]), (0, b"", "moechat-demo", False))
    decoded = [token for token in tokens if token["step"]["decode"]]
    same(got["tokens"], len(decoded))
    asked = sum(len(layer["experts"]) for token in decoded for layer in token["step"]["layers"])
    same(got["decode_uses"], asked)
    said = [line.split() for line in text.stdout.decode().splitlines() if re.match(r"  \d", line)]
    same(len(said), 2 * len(got["rows"]))
    for kind, table in ("decode", said[:len(got["rows"])]), ("prefill", said[len(got["rows"]):]):
        uses, before = got[kind + "_uses"], {"belady": 0}
        for row, words in zip(got["rows"], table):
            hits = row[kind + "_hits"]
            same(sorted(hits), ["belady", "lfu", "lru", "moechat"])
            expect(max(hits.values()) == hits["belady"] and before["belady"] <= hits["belady"] <= uses, (kind, row))
            same([words[0]] + words[-4:], [str(row["slots"])] + ["%.1f" % (100 * hits[name] / uses) for name in ("lru", "lfu", "moechat", "belady")])
            size = float(words[3]) * {"KB": 1e3, "MB": 1e6}[words[4]]
            expect(1 - 1e-9 < size / (row["slots"] * got["slot_bytes"]) < 1.011, (words, row))  # a budget for as many
            before = hits
        same(len(set(hits.values())), 1)  # with room for all
    expect(b"%d tokens decoded" % got["tokens"] in text.stdout, text.stdout)
    with open(trace, "rb") as whole, open(trace + "-cut", "wb") as cut:
        cut.write(whole.read()[:-3])
    same(json.loads(run(["bench", "cache", trace + "-cut", "--json"]).stdout)["cut"], True)
    expect(b"ends in the middle of a request" in run(["bench", "cache", trace + "-cut"]).stdout, "said")
    gone = run(["bench", "cache", trace + "-gone"])
    expect(gone.returncode == 1 and b"-gone" in gone.stderr, gone)


main(globals())
