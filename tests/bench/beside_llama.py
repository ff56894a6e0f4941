#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""moechat beside llama.cpp: the same files, the same device, by turns.

    python3 tests/bench/beside_llama.py gpu|cpu [--shape NAME[:LAYERS]]... [--mix MIX] [--rounds N] [--threads N]
                                        [--folder DIR] [--llama-bench FILE | --build-llama DIR] [--prompts N,...] [--depths N,...]
                                        [--experts SHARE]

Makes GGUFs of random weights in the shapes named (tests/bench/configs, with make_gguf.py: numpy and gguf), lets llama-bench
and `moechat bench` read prompts and decode behind them in turn, ROUNDS times, and prints a table in Markdown: medians,
their ratio and both versions. Everything is kept on the device, rows are float16; llama.cpp has flash attention and
batches of 2048. With --experts the device has that share of them and host memory all: moechat as its tiers (a slot is any
expert's), llama.cpp as the layers that --n-cpu-moe leaves there, the others' experts computed by the CPU. On a CPU a figure can be wall clock or, with --processor, tokens a second of processor time, which other
work on the machine disturbs less.

--build-llama takes llama.cpp's sources (those that llama-cpp-python's source package has in vendor/llama.cpp will do) and
builds llama-bench with CMake in DIR/build-gpu or build-cpu: with CUDA minutes on 16 cores, without it minutes on 2.
Without --llama-bench, --build-llama or a llama-bench in PATH it says so and ends with status 0, measuring nothing.
"""
import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


class Peer:
    """A program under measurement: tokens a second of a prompt, or of an answer behind one."""

    def __init__(self, args, file):
        self.args, self.file = args, file

    def run(self, command):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            sys.stderr.write(done.stderr.decode(errors="replace")[-2000:])
            sys.exit(f"beside_llama.py: status {done.returncode}: {' '.join(command)}")
        return done.stdout.decode(), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def processor(self, prompt, answer):
        """By processor time: what the longer of two runs takes more, for opening a model is in both."""
        _, short = self.time(prompt, answer)
        more_prompt, more_answer = (prompt * 3, answer) if not answer else (prompt, answer * 5)
        _, long = self.time(more_prompt, more_answer)
        tokens = more_prompt - prompt if not answer else more_answer - answer
        return tokens / (long - short)

    def figure(self, prompt, answer):
        return self.processor(prompt, answer) if self.args.processor else self.time(prompt, answer)[0]


class Moechat(Peer):
    name = "moechat"

    def version(self):
        return self.run([self.args.moechat, "--version"])[0].split("\n")[0].strip()

    def caches(self):
        if self.args.experts == 1:
            return ["--expert-cache", "all"]
        info = json.loads(self.run([self.args.moechat, "info", "-m", self.file, "--json"])[0])
        return ["--expert-cache", str(int(info["all_experts_bytes"] * self.args.experts)), "--host-cache", "all"]

    def time(self, prompt, answer):
        out, seconds = self.run([
            self.args.moechat, "bench", "-m", self.file, "--device", self.args.device,
            "--prefill-tokens", str(max(prompt, 1)), "--decode-tokens", str(max(answer, 1)), "--runs", "1", "--json"] + self.caches())
        figures = json.loads(out)
        return figures["decode_tokens_per_s" if answer else "prefill_tokens_per_s"], seconds


class Llama(Peer):
    """With AMX its build for a CPU alone aborts (GGML_ASSERT(*cur_backend_id != -1)) unless weights stay as they are."""
    name = "llama.cpp"
    more = []

    def version(self):
        figures = json.loads(self.run(self.command(1, 0))[0].splitlines()[0])
        said = " ".join(["", "with"] + self.more) if self.more else ""
        return f"llama.cpp {figures['build_number']} ({figures['build_commit']}), {figures['backends']}{said}"

    def command(self, prompt, answer):
        sizes = ["-p", "0", "-n", str(answer), "-d", str(prompt)] if answer else ["-p", str(prompt), "-n", "0"]
        gpu = self.args.device == "gpu"
        return [self.args.llama_bench, "-m", self.file, "-ngl", "99" if gpu else "0", "-fa", "1", "-ub", "2048",
                "-t", str(self.args.threads), "-r", "1", "-o", "jsonl"] + sizes + self.on_cpu() + self.more

    def on_cpu(self):
        if self.args.experts == 1:
            return []
        info = json.loads(self.run([self.args.moechat, "info", "-m", self.file, "--json"])[0])
        dense = info["n_layers"] - info["n_moe_layers"]  # --n-cpu-moe counts layers from the first
        return ["-ncmoe", str(dense + round(info["n_moe_layers"] * (1 - self.args.experts)))]

    def aborts(self):
        return subprocess.run(self.command(4, 0), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode

    def time(self, prompt, answer):
        out, seconds = self.run(self.command(prompt, answer))
        return json.loads(out.splitlines()[0])["avg_ts"], seconds


def build_llama(args):
    build = os.path.join(args.build_llama, "build-" + args.device)
    program = os.path.join(build, "bin", "llama-bench")
    if not os.path.exists(program):
        flags = ["GGML_NATIVE=ON", "LLAMA_CURL=OFF", "LLAMA_OPENSSL=OFF", "LLAMA_BUILD_TESTS=OFF", "LLAMA_BUILD_EXAMPLES=OFF",
                 "LLAMA_BUILD_SERVER=OFF", "LLAMA_BUILD_APP=OFF", "CMAKE_BUILD_TYPE=Release"]
        if args.device == "gpu":
            flags += ["GGML_CUDA=ON", "CMAKE_CUDA_ARCHITECTURES=native"]
        # Its version is its own repository's; without one it must not be that of a repository it lies in.
        above = dict(os.environ, GIT_CEILING_DIRECTORIES=os.path.dirname(os.path.abspath(args.build_llama)))
        subprocess.run(["cmake", "-S", args.build_llama, "-B", build] + ["-D" + flag for flag in flags], check=True,
                       stdout=sys.stderr, env=above)
        subprocess.run(["cmake", "--build", build, "--target", "llama-bench", "-j", str(os.cpu_count())], check=True,
                       stdout=sys.stderr)
    return program


def shape_file(args, shape):
    name, _, layers = shape.partition(":")
    path = os.path.join(args.folder, f"{name}-{layers or 'all'}-{args.mix}.gguf")
    if not os.path.exists(path):
        config = os.path.join(HERE, "configs", name + ".json")
        more = ["--layers", layers] if layers else []
        subprocess.run([sys.executable, os.path.join(HERE, "make_gguf.py"), config, path + ".part", "--mix", args.mix] + more,
                       check=True, stdout=sys.stderr)
        os.rename(path + ".part", path)
    return path


def measure(args, shape):
    """Rows of the shape's table: what, medians of both, the ratio's median over the rounds."""
    file = shape_file(args, shape)
    peers = [Moechat(args, file), Llama(args, file)]
    if args.device == "cpu" and peers[1].aborts():
        Llama.more = ["--repack", "0"]
    sizes = [(depth, args.answer) for depth in args.depths] + [(prompt, 0) for prompt in args.prompts]
    for peer in peers:  # kernels built, files in the page cache
        peer.time(64, 4)
    found = {(size, peer.name): [] for size in sizes for peer in peers}
    for turn in range(args.rounds):
        for size in sizes:
            for peer in peers if turn % 2 == 0 else peers[::-1]:
                found[size, peer.name].append(peer.figure(*size))
                print(shape, size, peer.name, round(found[size, peer.name][-1], 1), file=sys.stderr, flush=True)
    for size in sizes:
        ours, theirs = found[size, "moechat"], found[size, "llama.cpp"]
        what = f"decode behind {size[0]}" if size[1] else f"prompt of {size[0]}"
        ratio = statistics.median(a / b for a, b in zip(ours, theirs))
        there = "" if args.experts == 1 else f", {args.experts:.0%} of the experts on the device"
        print(f"| {shape.replace(':', ', layers: ')}{there} | {what} | {statistics.median(ours):.4g} | "
              f"{statistics.median(theirs):.4g} | {ratio:.2f} |", flush=True)
    return peers


def numbers(text):
    return [int(part) for part in text.split(",") if part]


def main():
    parser = argparse.ArgumentParser(description="moechat beside llama.cpp: the same files, the same device, by turns.")
    parser.add_argument("device", choices=["gpu", "cpu"])
    parser.add_argument("--shape", action="append", help="a config of tests/bench/configs and its first LAYERS")
    parser.add_argument("--mix", default="q4_k_m", help="as in make_gguf.py")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prompts", type=numbers)
    parser.add_argument("--depths", type=numbers)
    parser.add_argument("--answer", type=int, default=64, help="tokens decoded")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--processor", action="store_true", help="tokens a second of processor time")
    parser.add_argument("--experts", type=float, default=1.0, metavar="SHARE", help="of them on the device, all in host memory")
    parser.add_argument("--folder", default="build/beside_llama", help="where the files are made and kept")
    parser.add_argument("--moechat", default=os.path.join(ROOT, "moechat"))
    parser.add_argument("--llama-bench", default=shutil.which("llama-bench"))
    parser.add_argument("--build-llama", metavar="DIR", help="llama.cpp's sources")
    args = parser.parse_args()
    gpu = args.device == "gpu"
    args.shape = args.shape or (["moonlight", "deepseek-v3:6"] if gpu else ["moonlight:10"])
    args.prompts = args.prompts or ([512, 2048, 8192] if gpu else [512])
    args.depths = args.depths or ([16, 2048, 8192] if gpu else [16, 512])
    if args.build_llama:
        args.llama_bench = build_llama(args)
    if not args.llama_bench:
        print("SKIP beside_llama: no llama-bench; --llama-bench or --build-llama names one")
        return
    os.makedirs(args.folder, exist_ok=True)
    os.environ.setdefault("MOECHAT_CONFIG", "none")
    unit = "tokens a second of processor time" if args.processor else "tokens/s"
    print(f"| shape, {args.mix} | {unit} | moechat | llama.cpp | ratio |\n|---|---|---|---|---|", flush=True)
    for shape in args.shape:
        peers = measure(args, shape)
    print(f"\n{peers[0].version()}; {peers[1].version()}; {args.rounds} rounds by turns, medians")


if __name__ == "__main__":
    main()
