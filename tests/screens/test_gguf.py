#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""GGUF files with the real program: a file, a part of a set, a folder; what info says, and an answer without more."""
import json
import os
import re
import shutil
import struct
import tempfile
import time

import rig
from rig import ROOT, SCRATCH, Terminal, expect, run, same

GOLDEN = os.path.join(ROOT, "tests", "golden")
CHAT = os.path.join(GOLDEN, "gguf-chat", "checkpoint", "chat.gguf")
PLAIN = os.path.join(GOLDEN, "gguf-plain", "checkpoint", "plain.gguf")


def told(result, status, *words):
    same(result.returncode, status)
    text = result.stderr.decode()
    for word in words:
        expect(word in text, "%r is said: %r" % (word, text))
    expect(all(line.startswith("moechat: ") for line in text.splitlines()), "every line says whose it is")


def answer(model, *more):
    result = run(["run", "-m", model, "--device", "ref", "-p", "Hello there", "--max-tokens", "8", "--temp", "0",
                  "--jsonl", *more])
    same(result.returncode, 0)
    lines = [json.loads(line) for line in result.stdout.decode().splitlines()]
    return [line["token"] for line in lines if "token" in line]


def test_a_file_answers_by_itself():
    alone = answer(CHAT)
    expect(alone, "there is an answer")
    same(answer(os.path.dirname(CHAT)), alone)
    same(answer(CHAT, "--template", "deepseek-v3"), alone)
    expect(answer(CHAT, "--template", "chatml") != alone, "the template matters")


def test_its_tokenizer_is_the_one_of_the_original():
    """Beside a tokenizer.json the GGUF's own goes first; with a name of words cut that is not known, the file does."""
    folder = os.path.join(SCRATCH, "beside")
    os.mkdir(folder)
    model = os.path.join(folder, "chat.gguf")
    with open(CHAT, "rb") as file:
        whole = file.read()
    at = whole.index(b"tokenizer.ggml.pre")
    at = whole.index(b"deepseek-v3", at)
    with open(model, "wb") as file:
        file.write(whole[:at] + b"deepseek-vX" + whole[at + 11:])
    told(run(["run", "-m", model, "--device", "ref", "-p", "x"]), 3, "deepseek-vX")
    shutil.copy(os.path.join(ROOT, "tests", "unit", "data", "bpe-v3.json"), os.path.join(folder, "tokenizer.json"))
    same(answer(model, "--template", "deepseek-v3"), answer(CHAT))


def test_files_of_v32_without_indexers():
    """Older ones are called dense, and their architecture deepseek2: they run as V3 does. One of its own is refused by what is missing."""
    folder = tempfile.mkdtemp(dir=SCRATCH)
    model = os.path.join(GOLDEN, "gguf-v32-chat", "checkpoint", "v32-chat.gguf")
    with open(model, "rb") as file:
        whole = file.read()
    for layer in range(3):  # to layers that the model has not, which are left out
        whole = whole.replace(b"blk.%d.indexer." % layer, b"blk.%d.indexer." % (layer + 6))

    def written(name, data):
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)
        return os.path.join(folder, name)

    lacks = written("lacks.gguf", whole)
    told(run(["run", "-m", lacks, "--device", "ref", "-p", "x"]), 3, "tensor blk.0.indexer.attn_q_b.weight is missing")
    keys = written("keys.gguf", whole.replace(b"indexer.head_count", b"indexer.head_xount"))
    told(run(["run", "-m", keys, "--device", "ref", "-p", "x"]), 3, "deepseek32.attention.indexer.head_count: is missing")
    shorter = re.sub(rb"(.)\0{7}deepseek32", lambda m: struct.pack("<Q", m[1][0] - 1) + b"deepseek2", whole, flags=re.S)
    cut, name = len(whole) - len(shorter), b"general.name" + struct.pack("<I", 8)
    at = shorter.index(name) + len(name)  # which gets as much longer, so that the data stay where they are
    length = struct.unpack_from("<Q", shorter, at)[0]
    dense = written("dense.gguf", shorter[:at] + struct.pack("<Q", length + cut) + b"x" * cut + shorter[at + 8:])

    def logits(path, n):
        tokens, out = os.path.join(folder, "tokens"), os.path.join(folder, "logits")
        with open(tokens, "w") as file:
            file.write(" ".join(str(i * 37 % 1500) for i in range(n)))
        result = run(["eval", "-m", path, "--tokens", tokens, "--device", "ref", "--logits", out])
        same((result.returncode, result.stderr), (0, b""))
        with open(out, "rb") as file:
            return file.read()

    same(logits(dense, 8), logits(model, 8))  # of which the indexers choose all
    expect(logits(dense, 60) != logits(model, 60), "beyond, they choose")
    same(json.loads(run(["info", dense, "--json"]).stdout)["runs"], True)


def test_ctrl_c_ends_a_pattern_that_explodes():
    folder = os.path.join(SCRATCH, "explodes")
    os.mkdir(folder)
    model, message = os.path.join(folder, "chat.gguf"), os.path.join(folder, "message")
    with open(CHAT, "rb") as file:
        whole = file.read()
    at = whole.index(b"deepseek-v3", whole.index(b"tokenizer.ggml.pre"))
    with open(model, "wb") as file:
        file.write(whole[:at] + b"deepseek-vX" + whole[at + 11:])
    with open(os.path.join(ROOT, "tests", "unit", "data", "bpe-v3.json")) as file:
        tokenizer = file.read()
    with open(os.path.join(folder, "tokenizer.json"), "w") as file:
        file.write(tokenizer.replace('"Regex":"\\\\p{N}{1,3}"', '"Regex":"(x+x+)+y"'))
    with open(message, "w") as file:
        file.write(("x" * 14 + ".") * 60000 + "zy")  # its own limit would be 12 seconds
    begins = ["--plain", "-m", model, "--template", "deepseek-v3", "--device", "ref", "--max-tokens", "2"]
    t = Terminal(begins + ["--session", "explodes"], columns=200)
    t.wait("You:")
    for _ in range(2):  # the second takes the place of the first
        t.send("/file %s\r" % message)
        time.sleep(1)
        t.interrupt()
        t.wait("Stopped before the answer; the message stays, /retry answers it", "You:")
        t.send("/sessions\r")
        t.wait("explodes (open)", "1 message, the last unanswered", "You:")
    t.send("\x04")
    same(t.finish(), 0)
    expect(b"* 1  You: xxx" in run(["sessions", "tree", "explodes"]).stdout, "it is the conversation")
    t = Terminal(begins + ["--session", "explodes"], columns=200)
    t.wait("/retry answers it", "You:")
    t.send("hi\r")
    t.wait("Assistant:", "You:")
    t.send("\x04")
    same(t.finish(), 0)


def test_its_package_answers_the_same():
    """Vocabulary, template and what the maker suggests come along in the file of resident weights."""
    package = os.path.join(SCRATCH, "packed")
    told(run(["convert", CHAT, package]), 0, "copied bit for bit, BF16", "; try moechat -m ")
    same(answer(package), answer(CHAT))
    a, b = (json.loads(run(["info", m, "--json", "--verify"]).stdout) for m in (CHAT, package))
    for key in ("tokenizer", "template", "parameters", "resident_bytes", "groups", "runs", "verified"):
        same((key, a[key]), (key, b[key]))
    told(run(["convert", CHAT, package + "2", "--bits", "4"]), 2, "weights are packed as they are")


def test_info_says_what_it_holds():
    about = json.loads(run(["info", CHAT, "--json", "--verify"]).stdout)
    same((about["layout"], about["runs"], about["name"], about["verified"]), ("GGUF", True, "chat", True))
    same((about["tokenizer"], about["template"]), ("gguf", "deepseek-v3"))
    same(about["groups"]["experts' up"], {"types": "BF16", "weights": 16384, "bytes": 32768})
    told_of = sum(group["weights"] for group in about["groups"].values()) / about["parameters"]
    expect(0.95 < told_of <= 1, "groups of %.3f of the weights: all but norms and biases" % told_of)
    same(about["suggestion"], None)
    tiny = os.path.join(SCRATCH, "suggests")
    shutil.copytree(os.path.dirname(CHAT), tiny)
    with open(os.path.join(tiny, "generation_config.json"), "w") as file:
        file.write('{"temperature": 0.3, "top_k": 7}')
    os.rename(os.path.join(tiny, "chat.gguf"), os.path.join(tiny, "CHAT.GGUF"))
    suggests = json.loads(run(["info", tiny, "--json"]).stdout)
    same(suggests["suggestion"], {"temperature": 0.3, "top_k": 7, "source": "generation_config.json"})
    same(suggests["name"], "CHAT")
    text = run(["info", CHAT]).stdout.decode()
    expect("stored as         experts' gate: BF16; 32.8 KB, 16.00 bits a weight\n" in text, "types by use: " + text)
    expect("\ntokenizer         gguf, 1510 tokens\n" in text and "\nnext              moechat -m %s\n" % CHAT in text, "it can chat: " + text)
    expect("4 tensors of multi-token prediction" in text, "what is left out is said")
    expect("\nfile              " + CHAT in text and "8 in 1 layer," in text, "a file is none of many: " + text)
    mute = run(["info", os.path.join(ROOT, "tests", "golden", "gguf-legacy", "checkpoint")]).stdout.decode()
    expect("\nfolder " in mute and "\nnext              moechat eval -m " in mute, "it can't chat: " + mute)
    expect("convert" not in text, "there is nothing to convert")


def test_what_is_not_a_model_is_said():
    mmproj = os.path.join(SCRATCH, "mmproj-x.gguf")
    with open(CHAT, "rb") as file:
        whole = file.read()
    with open(mmproj, "wb") as file:
        file.write(whole.replace(b"deepseek2", b"deepseek9", 1))
    told(run(["info", mmproj]), 3, "general.architecture: is \"deepseek9\"; moechat speaks deepseek2: ")
    cut = os.path.join(SCRATCH, "cut.gguf")
    with open(cut, "wb") as file:
        file.write(whole[:300000])
    told(run(["info", cut]), 3, "it is cut short, download it again")
    part = os.path.join(SCRATCH, "x-00002-of-00003.gguf")
    with open(part, "wb") as file:
        file.write(whole)
    told(run(["info", part]), 3, "x-00001-of-00003.gguf: is not there: it is part 1 of 3")
    told(run(["info", os.path.join(SCRATCH, "none.gguf")]), 3, "none.gguf: cannot be opened")


def test_info_before_the_download():
    """A first part, the beginning of a file, a config.json: what it will be, and how to get the rest."""
    folder = os.path.join(SCRATCH, "before")
    os.mkdir(folder)
    whole = os.path.join(ROOT, "tests", "golden", "gguf-v3-ud", "checkpoint", "v3-ud-00001-of-00003.gguf")
    first = shutil.copy(whole, folder)
    complete, part = (json.loads(run(["info", path, "--json"]).stdout) for path in (whole, first))
    for key in ("model_type", "parameters", "active_parameters", "n_layers", "n_routed_experts", "kv_row_bytes_f32"):
        same(part[key], complete[key])
    result = run(["info", first])
    text = result.stdout.decode()
    same((result.returncode, part["runs"], part["layout"]), (0, False, "GGUF, part 1 of 3"))
    expect("v3-ud-00002-of-00003.gguf" in text and "hf download" in text and "weights           about" in text, text)
    begun = os.path.join(folder, "begun.gguf")
    with open(CHAT, "rb") as source, open(begun, "wb") as out:
        out.write(source.read(500000))
    result = run(["info", begun])
    same(result.returncode, 3)  # it is not complete, or damaged
    expect(b"cut short" in result.stderr and b"GGUF, its beginning" in result.stdout, result)
    chat, begun = (json.loads(run(["info", path, "--json"]).stdout) for path in (CHAT, begun))
    same((begun["all_experts_bytes"], begun["parameters"]), (chat["all_experts_bytes"], chat["parameters"]))
    expect(begun["declared_bytes"] >= chat["resident_bytes"] + chat["all_experts_bytes"], "with what is left out")
    same(begun["declared_bytes"], os.path.getsize(CHAT))
    expect(b" 1 gated delta net (" in run(["info", os.path.join(GOLDEN, "gguf-qwen35-chat", "checkpoint", "qwen35-chat.gguf")]).stdout, "one")
    model = os.path.join(ROOT, "tests", "golden", "ck-moonlight", "checkpoint")
    named = shutil.copy(os.path.join(model, "config.json"), os.path.join(folder, "moon-9b.json"))
    same(json.loads(run(["info", named, "--json"]).stdout)["name"], "moon-9b")
    os.unlink(named)
    config = shutil.copy(os.path.join(model, "config.json"), folder)
    for path in (config, folder + "/alone"):
        if path != config:
            os.mkdir(path)
            shutil.copy(config, path)
            with open(path + "/model.safetensors.index.json", "w") as out:
                out.write('{"metadata": {"total_size": 32000000000}, "weight_map": {"a": "model-00001-of-00002.safetensors"}}')
        result = run(["info", path])
        same((result.returncode, result.stderr), (0, b""))
        expect(b"config.json alone" in result.stdout and b"as moechat convert makes them" in result.stdout, result)
    expect(b"download          32.0 GB in all\n" in result.stdout, result)
    package, foreseen = (json.loads(run(["info", path, "--json"]).stdout) for path in (model, config))
    same(foreseen["parameters"], package["parameters"])
    same(foreseen["name"], "before")
    same(json.loads(run(["info", folder + "/alone//", "--json"]).stdout)["name"], "alone")
    expect(0.7 < foreseen["package_bytes"] / package["package_bytes"] < 1.3, "about what convert makes: %r, %r" % (foreseen, package))
    for name in ("glm5-next", "kimi-k3", "kimi-linear", "qwen35moe", "v32"):
        whole = os.path.join(ROOT, "tests", "golden", "ck-" + name, "checkpoint")
        package, foreseen = (json.loads(run(["info", path, "--json"]).stdout)["resident_bytes"] for path in
                             (whole, shutil.copy(os.path.join(whole, "config.json"), config)))
        expect(0.8 < foreseen / package <= 1, "%s: %d of %d bytes" % (name, foreseen, package))  # a header, groups of 32
    told(run(["info", folder + "/nothing.json"]), 3, "No such file")
    for name, states in (("qwen3.6-35b-a3b", True), ("glm-5.3-flash", True), ("deepseek-v3", False)):
        path = os.path.join(ROOT, "tests", "bench", "configs", name + ".json")
        about, shown = json.loads(run(["info", path, "--json"]).stdout), run(["info", path]).stdout.decode()
        told_of = re.search(r"^conversation .* in f16(; and [0-9.]+ [KMG]B of states, however long it is)?(?:; about room for .*)?$", shown, re.M)[1]
        same((name, "state_bytes" in about, told_of is not None), (name, states, states))


def test_info_says_how_fast():
    """Of a model that is here and of what will be one in the same words: of this disk, where it could be measured."""
    row = re.compile(r"^speed +(.*) tokens/s with nothing cached, (.*) with the cache full: of (.*), without the time to compute$", re.M)
    told = lambda *asked: row.search(run(["info", *asked]).stdout.decode()).groups()
    ahead = ("over 50", "no reads", "a disk of 1 to 7 GB/s")
    same(told(os.path.join(ROOT, "tests", "golden", "ck-moonlight", "checkpoint", "config.json")), ahead)
    same(told(os.path.join(ROOT, "tests", "golden", "ck-moonlight", "checkpoint")), ahead)  # needs convert first
    large = told(os.path.join(ROOT, "tests", "bench", "configs", "deepseek-v3.json"), "--expert-cache", "184GB")
    same(large, ("0.087-0.61", "0.17-1.2", "a disk of 1 to 7 GB/s"))
    demo = os.path.join(ROOT, "models", "demo")
    for asked, full in ((["8M"], "over 50"), (["all"], "no reads")):  # too small to measure a disk with, however busy the machine is
        same(told(demo, "--expert-cache", *asked), ("over 50", full, "a disk of 1 to 7 GB/s (this one could not be measured: the model is too small)"))


def test_info_says_which_file_lacks_how_much():
    """Of a split GGUF and of a folder of two safetensors, of which one is cut or not there, by any name of it."""
    for model, last, own in (("gguf-v3-ud", "v3-ud-00003-of-00003.gguf", "GGUF, 2 of 3 parts"),
                             ("ck-qwen35moe", "model-00002-of-00002.safetensors", "1 of 2 safetensors files")):
        source = os.path.join(GOLDEN, model, "checkpoint")
        folder = shutil.copytree(source, os.path.join(SCRATCH, "lacks-" + model))
        cut, whole = os.path.join(folder, last), os.path.getsize(os.path.join(source, last))
        ways = [folder] + [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".gguf")]
        for left, says in ((0, "is empty"), (5, "ends after 5 B, in its header"), (500, "ends after 500 B, in its header"),
                           (100000, "lacks %.3g KB of %.3g KB" % ((whole - 100000) / 1e3, whole / 1e3)), (None, "is not there")):
            os.unlink(cut)
            if left is not None:
                with open(os.path.join(source, last), "rb") as file, open(cut, "wb") as out:
                    out.write(file.read(left))
            for path in ways if left is not None else [folder]:
                result = run(["info", path])
                told(result, 0 if left is None else 3, "" if left is None else last + ": ")
                text = result.stdout.decode()
                expect("\nlayout            %s\n" % own in text and "\nmissing           %s %s\n" % (last, says) in text, text)
                same(json.loads(run(["info", path, "--json"]).stdout)["missing"], last + " " + says)
        if not model.startswith("ck"):  # a page of an error, under its name
            with open(cut, "w") as out:
                out.write("<html>Not found</html>")
            expect("\nmissing           %s is no GGUF file\n" % last in run(["info", folder]).stdout.decode(), "a page")
        if model.startswith("ck"):  # without an index their names say how many there are
            os.unlink(os.path.join(folder, "model.safetensors.index.json"))
            expect("\nmissing           %s is not there\n" % last in run(["info", folder]).stdout.decode(), "by name")


def test_info_ends_as_run_would():
    for command in (["info", CHAT], ["info", CHAT, "--json"], ["run", "-m", CHAT, "--device", "ref", "-p", "Hello"]):
        told(run(command + ["--context", "9999999"]), 3, "is over the model's limit of 1024")
    expect(b"\ncan't run         a context of 9999999 tokens is over" in run(["info", CHAT, "--context", "9999999"]).stdout, "row")
    expect(b"room for 1 token of" in run(["info", CHAT, "--context", "1"]).stdout, "one is no number of many")


def test_info_ends_so_before_the_download():
    """Of a config.json, a folder with one, a first part, and a folder that convert has yet to go through: as of a whole one."""
    config = os.path.join(ROOT, "tests", "bench", "configs", "deepseek-v3.json")
    folder = tempfile.mkdtemp(dir=SCRATCH)
    shutil.copy(config, os.path.join(folder, "config.json"))
    part = shutil.copy(os.path.join(GOLDEN, "gguf-v3-ud", "checkpoint", "v3-ud-00001-of-00003.gguf"), tempfile.mkdtemp(dir=SCRATCH))
    for path in (config, folder, part, os.path.join(GOLDEN, "ck-moonlight", "checkpoint")):
        for how in ([], ["--json"]):
            result = run(["info", path, "--context", "9999999"] + how)
            told(result, 3, "a context of 9999999 tokens is over the model's limit of ")
        shown = run(["info", path, "--context", "9999999"]).stdout.decode()
        expect("\ncan't run         a context of 9999999 tokens is over" in shown and "it runs" not in shown, shown)
        shown = run(["info", path, "--context", "16"])
        expect(shown.returncode == 0 and b"; room for 16 tokens of conversation (" in shown.stdout, shown)
        chosen = run(["info", path]).stdout.decode()
        expect("; about room for " in chosen or "too little" in chosen, chosen)
        same(json.loads(run(["info", path, "--context", "16", "--json"]).stdout)["cache"]["io"], None)  # nobody knows
    small = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") < 300 << 30  # a machine that has no 300 GiB
    refused = [(["--expert-cache", "20M"], "an expert cache of 21.0MB holds 0 of the 16 experts")]
    if small:
        refused.append((["--expert-cache", "300G"], "--expert-cache: 307196 MiB are more than the "))
    for path in (config, folder):
        for asked, says in refused:
            result = run(["info", path] + asked)
            told(result, 3, says)
            shown = result.stdout.decode()
            expect("\ncan't run         " + says in shown and re.search("^here .* of memory: (it does not run with these options|too little)$", shown, re.M), shown)
            same("cache" in json.loads(run(["info", path, "--json"] + asked).stdout), False)
    listed = b"DeepSeek-V3-Q4_K_M.gguf 404400000000\n"
    same([json.loads(run(["info", "--json", "--list", "-", "--expert-cache", size], listed).stdout)["models"][0]["fits_memory"]
          for size in ("300G", "all") if small], [False, False][:2 * small])
    told(run(["info", "--list", "-", config, "--context", "200000"], listed), 3, "a context of 200000 tokens is over the model's limit of 163840")
    text = run(["info", "--list", "-", config, "--context", "8192"], listed).stdout.decode()
    expect("\nconversation      576 MB for its 8192 tokens are set aside of it\n" in text, text)
    text = run(["info", "--list", "-", "--context", "8192"], listed).stdout.decode()
    expect("\nconversation      what its tokens take is not known by a list, nor counted" in text, text)


def info_of(config):
    """The JSON and the text of info of a config.json."""
    path = os.path.join(tempfile.mkdtemp(dir=SCRATCH), "config.json")
    with open(path, "w") as out:
        json.dump(config, out)
    shown = run(["info", path])
    same((shown.returncode, shown.stderr), (0, b""))
    return json.loads(run(["info", path, "--json"]).stdout), shown.stdout.decode()


def config_of(golden):
    with open(os.path.join(GOLDEN, golden, "checkpoint", "config.json")) as file:
        return json.load(file)


def test_info_foresees_the_declared_quantisation():
    k25 = config_of("ck-k25")
    k25["text_config"].update(
        vocab_size=163840, hidden_size=7168, intermediate_size=18432, moe_intermediate_size=2048, num_hidden_layers=61,
        num_attention_heads=64, num_key_value_heads=64, q_lora_rank=1536, kv_lora_rank=512, qk_nope_head_dim=128,
        qk_rope_head_dim=64, v_head_dim=128, n_routed_experts=384, num_experts_per_tok=8)
    told_json, text = info_of(k25)  # README's table
    same((told_json["foreseen_bits"], round(told_json["all_experts_bytes"] / 1e9), round(told_json["cold_token_bytes"] / 1e8),
          round(told_json["resident_bytes"] / 1e9)), (5.0, 634, 132, 8))
    expect("experts stay int4 in groups of 32" in text and "(5.00 bits a weight)" in text, text)
    bits = {}
    for width in (4, 8):
        mlx = config_of("ck-moonlight-mlx")
        mlx["quantization"] = {"bits": width, "group_size": 32}
        told_json, text = info_of(mlx)
        bits[width] = told_json["foreseen_bits"]
        expect("as config.json's quantization says" in text and "convert" not in text, text)
    same(bits, {4: 5.0, 8: 9.0})
    for golden in ("ck-glm-mlx", "ck-v3-groups-mlx", "mlx-fp"):  # whose scales have 16 bits
        whole = json.loads(run(["info", os.path.join(GOLDEN, golden, "checkpoint"), "--json"]).stdout)
        told_json, text = info_of(config_of(golden))
        expect(abs(told_json["all_experts_bytes"] / whole["all_experts_bytes"] - 1) < 0.001, (golden, told_json, whole))
    expect("as moechat convert makes them of fp8" in info_of(config_of("ck-v3-groups"))[1], "fp8 is made 4 bits of")
    expect("as moechat convert makes them of bfloat16" in info_of(config_of("ck-moonlight"))[1], "so is bf16")
    path = os.path.join(tempfile.mkdtemp(dir=SCRATCH), "config.json")
    with open(path, "w") as out:
        json.dump(dict(config_of("ck-moonlight-mlx"), quantization={"bits": 4, "group_size": 32, "mode": "odd"}), out)
    told(run(["info", path]), 3, "quantization.mode: is \"odd\"")
    awq = dict(config_of("ck-moonlight"), quantization_config={"quant_method": "awq", "bits": 4})
    expect("a guess, for its quantisation awq" in info_of(awq)[1], "what is not read is not promised")


def test_info_of_a_first_part_says_where_its_bits_are_from():
    """llama.cpp's first parts may hold keys alone."""
    folder = tempfile.mkdtemp(dir=SCRATCH)
    source = os.path.join(GOLDEN, "gguf-v3-ud", "checkpoint", "v3-ud-00001-of-00003.gguf")
    with open(source, "rb") as file:
        head = bytearray(file.read())
    key = b"general.file_type"
    typed = struct.pack("<Q", len(key)) + key + struct.pack("<II", 4, 24)  # IQ1_S
    n = struct.unpack_from("<Q", head, 16)[0]
    struct.pack_into("<Q", head, 16, n + 1)
    head[24:24] = typed
    for name, begin, bits, words in (
            ("x-Q4_K_M", head, 1.6, "general.file_type, IQ1_S"),
            ("x-UD-IQ1_M", None, 1.8, "the file's name, IQ1_M"),
            ("x", None, 4.5, "neither its keys nor its name")):
        path = os.path.join(folder, name + "-00001-of-00003.gguf")
        if begin is None:
            shutil.copy(source, path)
        else:
            with open(path, "wb") as out:
                out.write(begin + bytes(-len(begin) % 32))
        shown = run(["info", path])
        same(shown.returncode, 0)
        expect("a guess" in shown.stdout.decode() and words in shown.stdout.decode(), shown.stdout)
        same(json.loads(run(["info", path, "--json"]).stdout)["foreseen_bits"], bits)
    # A part that has experts, among others that are not here.
    with open(os.path.join(GOLDEN, "gguf-legacy", "checkpoint", "legacy.gguf"), "rb") as file:
        whole = bytearray(file.read())
    for key, value in ((b"split.no", 0), (b"split.count", 2)):
        struct.pack_into("<Q", whole, 16, struct.unpack_from("<Q", whole, 16)[0] + 1)
        whole[24:24] = struct.pack("<Q", len(key)) + key + struct.pack("<IH", 2, value)
    path = os.path.join(folder, "y-00001-of-00002.gguf")
    with open(path, "wb") as out:
        out.write(whole + bytes(64))  # the tensors begin later now
    shown = run(["info", path])
    expect(b"a guess from the experts in this part" in shown.stdout, "%r" % shown)
    # It is one by its keys, whatever its name is; so its tensors are not all that there are.
    renamed = json.loads(run(["info", shutil.copy(path, os.path.join(folder, "renamed.gguf")), "--json"]).stdout)
    own = json.loads(run(["info", path, "--json"]).stdout)
    same((renamed["layout"], own["layout"]), ("GGUF, part 1 of 2",) * 2)
    same(*([about[key] for key in ("all_experts_bytes", "resident_bytes", "package_bytes")] for about in (renamed, own)))
    shown = run(["info", os.path.join(folder, "renamed.gguf")])
    expect(b"is part 1 of 2, but not named so; give all parts their names back" in shown.stdout and b"download  " not in shown.stdout, "%r" % shown)


def test_info_of_a_first_part_without_a_q_lora():
    """That there is none some say by 0, as where the key is left out. What can't be is said, though other parts lack."""
    folder = tempfile.mkdtemp(dir=SCRATCH)
    with open(os.path.join(GOLDEN, "gguf-v3-ud", "checkpoint", "v3-ud-00001-of-00003.gguf"), "rb") as file:
        head = bytearray(file.read())
    at = head.index(b"deepseek2.attention.q_lora_rank") + len(b"deepseek2.attention.q_lora_rank") + 4
    for rank in (0, 7):
        struct.pack_into("<I", head, at, rank)
        path = os.path.join(folder, "q%d-00001-of-00003.gguf" % rank)
        with open(path, "wb") as out:
            out.write(head)
        shown = run(["info", path])
        if rank:
            told(shown, 3, "q_lora_rank")
        else:
            expect(shown.returncode == 0 and b"GGUF, part 1 of 3" in shown.stdout and b"q rank" not in shown.stdout, "%r" % shown)


def test_info_tells_what_a_repository_holds():
    """By a list of its files: what is whole, how large it is, what a token reads, and which to fetch."""
    entries = [{"type": "file", "path": "config.json", "size": 900}]
    for mix, parts, size in (("Q4_K_M", 2, 404400000000), ("UD-IQ1_S", 4, 170000000000), ("Q8_0", 3, 713300000000)):
        entries += [{"type": "file", "path": "%s/DeepSeek-V3.1-%s-%05d-of-%05d.gguf" % (mix, mix, i + 1, parts), "size": 135,
                     "lfs": {"size": size // parts}} for i in range(parts)]
    entries.remove([entry for entry in entries if "Q8_0-00002" in entry["path"]][0])
    whole = {"id": "unsloth/DeepSeek-V3.1-GGUF", "siblings": [dict(entry, rfilename=entry["path"]) for entry in entries]}
    path = os.path.join(SCRATCH, "list.json")
    for listed, how in ((entries, [path]), (whole, [path]), (whole, ["-"])):
        with open(path, "w") as out:
            json.dump(listed, out)
        told_json = json.loads(run(["info", "--json", "--list"] + how, json.dumps(listed).encode()).stdout)
        same(told_json["shape"], "DeepSeek-V3")
        models = {model["quantisation"]: model for model in told_json["models"]}
        same(sorted((name, model["files"], model["complete"], model.get("first_missing_file")) for name, model in models.items()),
             [("IQ1_S", 4, True, None), ("Q4_K_M", 2, True, None), ("Q8_0", 3, False, 2)])
        same((models["Q4_K_M"]["bytes"], round(models["Q4_K_M"]["cold_token_bytes"] / 1e8)), (404400000000, 121))
        for model in (model for model in models.values() if model["complete"]):
            expect(model["resident_bytes"] + model["all_experts_bytes"] <= model["bytes"], "they are of these bytes: %r" % model)
        disk = os.statvfs(ROOT)
        expect(abs(told_json["disk_free_bytes"] / (disk.f_bavail * disk.f_frsize) - 1) < 0.1, told_json)
        same(models["Q4_K_M"]["fits_disk"], told_json["disk_free_bytes"] >= 404400000000)
    shown = run(["info", "--list", path])
    text = shown.stdout.decode()
    same((shown.returncode, shown.stderr, max(map(len, text.splitlines()[:-2])) <= 110), (0, b"", True))
    expect(re.search(r"Q4_K_M +2 +404 GB +12\.1 GB +0\.083-0\.58 ", text) and "part 2 is not listed" in text, text)
    expect("hf download unsloth/DeepSeek-V3.1-GGUF --include 'UD-IQ1_S/DeepSeek-V3.1-UD-IQ1_S-*-of-00004.gguf'" in text
           or "Q4_K_M-*-of-00002.gguf" in text, text)
    lines = b"[dry-run] Will download 2 files\nx-Q4_K_M.gguf 22.9G\nmmproj.gguf -\n"
    config = os.path.join(GOLDEN, "ck-moonlight", "checkpoint", "config.json")
    expect(b"not known by the names" in run(["info", "--list", "-"], lines).stdout, "a shape is not made up")
    expect(b"deepseek_v3: 384 thousand parameters" in run(["info", "--list", "-", config], lines).stdout, "it is read")
    mixed = b"DeepSeek-V3.1-UD-IQ1_S.gguf\nQwen3.6-35B-A3B-UD-Q4_K_XL.gguf\nx-Q4_K_M.gguf\nmmproj-F16.gguf\n"
    told_json = json.loads(run(["info", "--json", "--list", "-"], mixed).stdout)
    same((told_json["shape"], [(model["quantisation"], model["shape"]) for model in told_json["models"]]),  # the smallest first
         ("", [("Q4_K_M", ""), ("Q4_K_XL", "Qwen3.6-35B-A3B"), ("IQ1_S", "DeepSeek-V3")]))
    text = run(["info", "--list", "-"], mixed).stdout.decode()
    expect(re.search(r"^shape +DeepSeek-V3: .*\n +Qwen3.6-35B-A3B: .*\n +one model's is not known by its name$", text, re.M), text)
    expect(re.search(r"^Qwen\S+ +1 +~\d\d\.\d GB +\d{3} MB ", text, re.M) and re.search(r"^x-Q4_K_M +1 +\? +\? ", text, re.M), text)
    guessed = run(["info", "--list", "-"], b"DeepSeek-V3.1-BF16.gguf\n").stdout.decode()
    same((guessed.count(" ~1.34 TB"), guessed.count("1.34 TB")), (2, 2))  # in the table, and of what to fetch
    told(run(["info", "--list", "-"], b'{"error":"Repository not found"}'), 3, "not a list: Repository not found")
    told(run(["info", "--list", "-"], b'{"a":'), 3, "is not JSON: unexpected end at byte 5; give what the hub's API answers")
    told(run(["info", "--list", path, "--verify"]), 2, "--list has names alone")
    cached = json.loads(run(["info", "--json", "--expert-cache", "16GB", "--list", path]).stdout)["models"][0]
    expect(abs(cached["cached_share"] - 16e9 / cached["all_experts_bytes"]) < 1e-3, cached)
    told(run(["info", "--list", path + ".none"]), 3, "No such file")
    large = b"x-Q4_K_M.gguf 9000G\nx-Q8_0.gguf 30000G\n"  # of no known shape; no disk here holds them
    none = run(["info", "--list", "-"], large).stdout.decode()
    expect("there is no room here for any" in none and "\nfetch" not in none and "\nnext" not in none, none)
    same(json.loads(run(["info", "--json", "--list", "-"], large).stdout)["fetch"], "")
    blocks = run(["info", "--list", "-"], b"400\tq/a-Q4_K_M.gguf\n404\tq\n").stdout.decode()
    expect("1 file, 410 KB; 1 model" in blocks and "KiB, as du -a" in blocks, blocks)
    told(run(["info", "--list", "-"], b"1 resident.safetensors\n2 layer-001.experts\n"), 3, "which moechat convert made")
    text = info_of(dict(config_of("ck-moonlight"), hidden_size=4096, moe_intermediate_size=8192))[1]
    expect("tokens/s with nothing cached" in text and "on the disk of this folder: it fits" in text, text)


def test_pointers_of_git_lfs_are_called_so():
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 4000000000\n"
    folder = os.path.join(tempfile.mkdtemp(dir=SCRATCH), "model")
    shutil.copytree(os.path.join(GOLDEN, "ck-k25", "checkpoint"), folder)
    parts = os.path.join(tempfile.mkdtemp(dir=SCRATCH), "set")
    shutil.copytree(os.path.join(GOLDEN, "gguf-v3-ud", "checkpoint"), parts)
    for path in (os.path.join(folder, "model-00002-of-00003.safetensors"), os.path.join(parts, "v3-ud-00002-of-00003.gguf")):
        os.chmod(path, 0o644)
        with open(path, "w") as out:
            out.write(pointer)
    for model in (folder, os.path.join(parts, "v3-ud-00001-of-00003.gguf")):
        shown = run(["info", model])
        words = shown.stdout.decode() + shown.stderr.decode()
        expect("Git LFS pointer" in words and "git lfs pull, then" in words and "not complete" not in words, words)
        told(run(["convert", model, os.path.join(SCRATCH, "never")]), 3, "Git LFS pointer", "git lfs pull")
        told(run(["run", "-m", model, "--device", "ref", "-p", "Hello", "--max-tokens", "1"]), 3, "Git LFS pointer")


if __name__ == "__main__":
    rig.main(globals())
