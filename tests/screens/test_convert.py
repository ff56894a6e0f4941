#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""moechat convert, and folders from the hub as they are, with the real program."""
import json
import os
import pty
import re
import select
import shutil
import subprocess

import rig
from rig import ROOT, SCRATCH, expect, run, same

GOLDEN = os.path.join(ROOT, "tests", "golden")
INT4 = os.path.join(GOLDEN, "ck-k25", "checkpoint")
CHAT = os.path.join(GOLDEN, "gguf-chat", "checkpoint", "chat.gguf")
MLX = os.path.join(GOLDEN, "ck-v3-groups-mlx", "checkpoint")


def told(result, *words):
    text = result.stderr.decode()
    for word in words:
        expect(word in text, "%r is said: %r" % (word, text))
    expect(all(line.startswith("moechat: ") for line in text.splitlines()), "every line says whose it is")


def amount(number):
    for unit in ("B", "KB", "MB"):
        if number < 999.5:
            return "%.*f %s" % (0 if unit == "B" or number >= 99.95 else 1 if number >= 9.995 else 2, number, unit)
        number /= 1000


def evaluate(model, tokens):
    result = run(["eval", "-m", model, "--device", "ref", "--json", "--tokens", tokens])
    same(result.returncode, 0)
    return json.loads(result.stdout)


def test_a_folder_becomes_a_package():
    target = os.path.join(SCRATCH, "int4")
    before = json.loads(run(["info", INT4, "--json"]).stdout)
    same((before["layout"], before["runs"]), ("int4 checkpoint", False))
    expect("NEWDIR" in run(["info", INT4]).stdout.decode(), "info says what to type")
    refused = run(["eval", "-m", INT4, "--tokens", os.path.join(GOLDEN, "ck-k25", "tokens.txt")])
    same(refused.returncode, 3)
    told(refused, "must be converted first: moechat convert ")
    made = run(["convert", INT4, target + "/", "--verify"])
    same((made.returncode, made.stdout), (0, b""))
    told(made, "int4 checkpoint with", "left out: 3 tensors of vision", "copied bit for bit, 4 bits in groups of 32",
         "no tokenizer found", "; try moechat eval -m ", " --tokens FILE")
    after = json.loads(run(["info", target, "--json", "--verify"]).stdout)
    same((after["layout"], after["runs"], after["verified"], after["name"]), ("package", True, True, "int4"))
    same(after["parameters"], before["parameters"])
    same(os.path.exists(target + ".partial"), False)
    again = run(["convert", INT4, target])
    same(again.returncode, 2)
    told(again, "already exists; remove it, or choose another name")


def test_sizes_are_the_same_before_and_after():
    """What info says that convert would make, what convert says before and after, and what info says of it."""
    beside = shutil.copytree(MLX, os.path.join(SCRATCH, "beside", "checkpoint"))  # with a file that goes along as it is
    open(os.path.join(beside, "LICENSE"), "w").write(" " * 123456)
    for source in (INT4, MLX, beside, os.path.join(GOLDEN, "ck-qwen3next", "checkpoint")):
        target = os.path.join(SCRATCH, "sizes-" + source.split("/")[-2])
        before, words = json.loads(run(["info", source, "--json"]).stdout), run(["info", source]).stdout.decode()
        said = run(["convert", source, target]).stderr.decode()
        after, words_after = json.loads(run(["info", target, "--json"]).stdout), run(["info", target]).stdout.decode()
        sizes = re.findall(r"the package takes ([0-9.]+ [KM]?B): |: done, ([0-9.]+ [KM]?B) \(|NEWDIR \(takes ([0-9.]+ [KM]?B); 67.1 MB more of the disk must be free\)", said + words)
        expect("other files; 67.1 MB more of the disk must be free" in said, said)
        same((len(sizes), len({size for each in sizes for size in each if size})), (2 if before["runs"] else 3, 1))
        files = {name: os.path.getsize(os.path.join(target, name)) for name in os.listdir(target)}
        same(after["package_bytes"], sum(files.values()))
        expect(abs(before["package_bytes"] - after["package_bytes"]) < 80, "but for the package's name and its template's")
        weights = sum(size for name, size in files.items() if name.endswith((".safetensors", ".experts", ".bin")))
        expect("%s of weights, %s of other files" % (amount(weights), amount(sum(files.values()) - weights)) in said, said)
        same(before["resident_bytes"], after["resident_bytes"])
        resident = [re.search(r"resident weights +([0-9.]+ [KM]?B)", text).group(1) for text in (words, words_after)]
        same(resident[0], resident[1])


def test_folder_and_package_compute_the_same_bits():
    target = os.path.join(SCRATCH, "mlx")
    tokens = os.path.join(GOLDEN, "ck-v3-groups-mlx", "tokens.txt")
    same(run(["convert", MLX, target]).returncode, 0)
    a, b = evaluate(MLX, tokens), evaluate(target, tokens)
    same(a["mean_nll"], b["mean_nll"])
    expect(b["mean_nll"] > 0, "there is something to compare")
    hint = run(["info", MLX]).stdout.decode()
    expect("moechat convert would make each expert one read" in hint, "packing is said to be faster")


def test_mistakes_are_sentences():
    for args, status, words in (
            (["convert"], 2, "usage: moechat convert MODEL NEWDIR"),
            (["convert", INT4], 2, "usage: moechat convert MODEL NEWDIR"),
            (["convert", INT4, "a", "b"], 2, "unexpected argument"),
            (["convert", INT4, "a", "--bits", "5"], 2, "--bits takes one of"),
            (["convert", "/nowhere", os.path.join(SCRATCH, "x")], 3, "/nowhere: cannot be opened: No such file"),
            (["convert", SCRATCH, os.path.join(SCRATCH, "x")], 3, SCRATCH + ": no model here; name a GGUF file"),
            (["convert", INT4, "/proc/nowhere/x"], 1, "cannot be created"),
            (["convert", os.path.join(ROOT, "models", "demo"), os.path.join(SCRATCH, "x")], 2, "is already a package")):
        result = run(args)
        same(result.returncode, status)
        told(result, words)
        expect(b"template" not in result.stderr, "of what was not converted nothing more is said")
    same(os.path.exists(os.path.join(SCRATCH, "x.partial")), False)


def test_what_is_wrong_with_a_package_is_a_sentence():
    """resident.gguf is not the beginning of a model: no figures are told, and no download is suggested that makes none."""
    def missing(path):
        os.unlink(path)

    def cut(path):
        os.truncate(path, 10000)

    def torn(path):
        with open(path, "w") as out:
            out.write("{")

    gone = "is missing from the package; get the package again"
    for source, resident in ((CHAT, "resident.gguf"), (MLX, "resident.safetensors")):
        whole, broken = (os.path.join(SCRATCH, resident + end) for end in ("-whole", "-broken"))
        same(run(["convert", source, whole]).returncode, 0)
        layer = sorted(name for name in os.listdir(whole) if name.endswith(".experts"))[0]
        for name, harm, words in ((layer, missing, gone), (resident, missing, gone), ("model.json", missing, gone),
                                  (layer, cut, "is 10000 bytes, model.json says "), (resident, cut, "is 10000 bytes, model.json says "),
                                  ("model.json", torn, "model.json: ")):
            shutil.copytree(whole, broken)
            harm(os.path.join(broken, name))
            for args in (["info"], ["info", "--json"], ["info", "--verify"], ["run", "--device", "ref", "-p", "x", "-m"]):
                result = run(args + [broken])
                same((args, name, result.returncode, result.stdout), (args, name, 3, b""))
                told(result, os.path.join(broken, name) + ": ", words)
                same(result.stderr.count(b"\n"), 1)
            shutil.rmtree(broken)
    same(run(["info", os.path.join(SCRATCH, "resident.gguf-whole", "resident.gguf")]).stdout, b"")  # which has no experts
    whole = os.path.join(SCRATCH, "resident.gguf-whole")  # one that convert was stopped in is none to be downloaded either
    os.rename(os.path.join(whole, "model.json"), os.path.join(whole, "convert.journal"))
    result = run(["info", whole])
    same((result.returncode, result.stdout), (3, b""))
    told(result, whole + ": is an unfinished convert; the same moechat convert command goes on with it")


def test_the_tokenizer_and_its_template_come_along():
    source, target = os.path.join(SCRATCH, "talks"), os.path.join(SCRATCH, "talks-packed")
    shutil.copytree(MLX, source)
    shutil.copy(os.path.join(ROOT, "models", "demo", "tokenizer.model"), source)
    with open(os.path.join(source, "tokenizer_config.json"), "w") as file:
        file.write('{"chat_template": "{{ something new }}"}')
    made = run(["convert", source, target])
    same(made.returncode, 0)
    told(made, "unknown chat template; choose one with --template")
    for name in ("tokenizer.model", "tokenizer_config.json"):
        with open(os.path.join(source, name), "rb") as a, open(os.path.join(target, name), "rb") as b:
            same(a.read(), b.read())
    with open(os.path.join(target, "model.json")) as file:
        same(json.load(file)["tokenizer"]["type"], "sentencepiece")
    about = json.loads(run(["info", target, "--json"]).stdout)
    same(about["tokenizer"], "sentencepiece")
    same(about["package_bytes"], sum(os.path.getsize(os.path.join(target, name)) for name in os.listdir(target)))


def test_what_convert_suggests_is_what_info_does():
    """Without a template a chat does not begin, so that one must be named."""
    for name, more in (("quality", " --template NAME"), ("gguf-chat", "")):
        target = os.path.join(SCRATCH, "suggested-" + name)
        made = run(["convert", os.path.join(GOLDEN, name, "checkpoint"), target])
        told(made, "; try moechat -m %s%s\n" % (target, more))
        expect(b"\nnext              moechat -m %s%s\n" % (target.encode(), more.encode()) in run(["info", target]).stdout, "info says so, too")


def test_info_of_a_checkpoint_is_of_what_convert_makes():
    source, target = os.path.join(GOLDEN, "ck-moonlight", "checkpoint"), os.path.join(SCRATCH, "foretold")
    same(run(["convert", source, target]).returncode, 0)
    planned, about = (json.loads(run(["info", path, "--json"]).stdout) for path in (source, target))
    for key in ("expert_bytes", "all_experts_bytes", "cold_token_bytes"):
        same(planned[key], about[key])
    expect(abs(planned["resident_bytes"] / about["resident_bytes"] - 1) < 0.1, "and the rest: %r, %r" % (planned, about))
    expect(abs(planned["package_bytes"] / about["package_bytes"] - 1) < 0.1, "and all: %r, %r" % (planned, about))


def asked(source, target, typed):
    """convert --consume at a terminal, and what is typed there: status and all that it said."""
    ours, its = pty.openpty()
    child = subprocess.Popen([rig.PROGRAM, "convert", source, target, "--consume"], stdin=its, stdout=its, stderr=its,
                             env=rig.environment(), start_new_session=True)
    os.close(its)
    said = b""
    while b"type yes to continue: " not in said:
        expect(select.select([ours], [], [], rig.DEADLINE)[0], "it never asked: %r" % said)
        said += os.read(ours, 4096)
    os.write(ours, typed)
    try:
        while True:
            said += os.read(ours, 4096)
    except OSError:  # it has ended
        pass
    os.close(ours)
    return child.wait(60), said.decode()


def test_the_size_of_experts_that_differ_is_that_of_the_largest():
    for name, words in (("gguf-sizes", "16 of up to 24.6 KB, 295 KB in total"), ("mlx-fp", "12 of up to 13.3 KB, 139 KB in total"), ("ck-moonlight-mlx", None)):
        said = re.search(r"routed experts +(.*)", run(["info", os.path.join(GOLDEN, name, "checkpoint")]).stdout.decode()).group(1)
        expect(said == words if words else "up to" not in said, "said: %s" % said)


def test_the_smallest_cache_is_one_that_works():
    """Typed as it is shown, by info and by what refuses less; one digit less is refused."""
    for name in ("gguf-chat", "ck-glm", "gguf-sizes"):
        model = os.path.join(GOLDEN, name, "checkpoint")
        if name == "ck-glm":
            made = os.path.join(SCRATCH, "smallest")
            same(run(["convert", model, made]).returncode, 0)
            model = made
        least = re.search(r"minimum ([0-9.]+) ([KM]B)", run(["info", model]).stdout.decode())
        for typed in (least.group(1) + least.group(2), "1"):
            result = run(["info", model, "--expert-cache", typed])
            same(result.returncode, 0 if typed != "1" else 3)
        expect(b"an expert cache of 1B holds 0 of the " in result.stderr, "in the unit that was typed: %r" % result.stderr)
        same(re.search(rb"give --expert-cache (\S+) or more", result.stderr).group(1).decode(), least.group(1) + least.group(2))
        less = re.sub(r"[1-9](?=0*$)", lambda digit: str(int(digit.group()) - 1), least.group(1).replace(".", ""))
        if "." in least.group(1):
            at = least.group(1).index(".")
            less = less[:at] + "." + less[at:]
        refused = run(["info", model, "--expert-cache", less + least.group(2)])
        same(refused.returncode, 3)
        told(refused, "an expert cache of ")


def test_consume_asks_and_empties_the_source():
    source, target = os.path.join(SCRATCH, "eaten"), os.path.join(SCRATCH, "eaten-packed")
    shutil.copytree(os.path.join(GOLDEN, "gguf-sizes", "checkpoint"), source)
    path = os.path.join(source, "sizes.gguf")
    blocks = os.stat(path).st_blocks
    refused = run(["convert", source, target, "--consume"])
    same(refused.returncode, 2)
    told(refused, "there is no terminal to ask on; --yes answers yes")
    status, said = asked(source, target, b"no\n")
    same(status, 1)
    expect("of experts will be removed from " in said and "nothing was converted" in said, said)
    same((os.stat(path).st_blocks, os.path.exists(target + ".partial")), (blocks, False))
    status, said = asked(source, target, b"\x04")  # the line ends, though nobody ended it
    same(status, 1)
    expect(re.search(r"type yes to continue: (\^D\x08\x08)?\r\nmoechat: ", said), said)
    status, said = asked(source, target, b"yes\n")
    same(status, 0)
    expect("has no experts left and may be removed" in said, said)
    expect(os.stat(path).st_blocks < blocks / 2, "the disk has its blocks back")
    again = os.path.join(SCRATCH, "eaten-again")
    for command in (["info", source], ["convert", source, again], ["convert", source, again, "--consume", "--yes"],
                    ["run", "-m", source, "-p", "Hello"]):
        emptied = run(command)
        same((emptied.returncode, emptied.stdout), (3, b""))
        told(emptied, "given up by convert --consume")
    expect(not os.path.exists(again + ".partial"), "nothing was begun")
    shutil.copytree(os.path.join(GOLDEN, "gguf-sizes", "checkpoint"), source, dirs_exist_ok=True)
    same(run(["convert", source, again, "--consume", "--yes"]).returncode, 0)
    tokens = os.path.join(GOLDEN, "gguf-sizes", "tokens.txt")
    same(evaluate(again, tokens)["mean_nll"], evaluate(os.path.join(GOLDEN, "gguf-sizes", "checkpoint"), tokens)["mean_nll"])


if __name__ == "__main__":
    rig.main(globals())
