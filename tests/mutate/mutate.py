#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Puts one-line mistakes into the sources and says which test noticed each: what none notices, none guards.

    mutate.py [--seed 1] [--count 200] [--minutes 0] [--only PATH]... [--quick] [--own] [--wide] [--sanitized] [--jobs 1] [--longest 0] [--reached [--budget 60]]
    mutate.py --at FILE:LINE            every mutation of that line
    mutate.py --again FILE              those that stand in what an earlier run printed as survivors
    mutate.py --list                    the choice of that seed, without trying it

A mutation turns a condition (turn), moves a comparison's edge (edge), is off by one (constant), leaves a call out (call) or
swallows a returned code (code); not made is what is the same by its form: the edge of "a < b ? a : b", one more byte of an
allocation, an assertion left out. It is made in a copy of the tree, build/mutate, built there, and tried on the tests that
tests/README.md names for its module, the quick ones first (of a kernel: those parts of tests/ops, in the shape and with the kind
of matrix that its line is compiled for; nothing of it runs elsewhere); what fails on a screen has to fail twice; then, with --sanitized, on its own tests under the sanitizers;
then, with --wide, on every other test, the goldens and the screens. HOME, TMPDIR and the XDG folders of what runs are
folders of their own, for nobody knows what a mutant does. The same seed and the same sources give the same choice. What does not
compile counts for nothing; what changes nothing stands in equivalent.txt, with the reason, and is not tried. With --jobs, as
many copies at a time, build/mutate/0 and so on; there each test is first tried on the tree as it is, and those that fail, or take
longer than --longest, are left out, which is said. With --reached a line of C is tried on the tests that run it (reach.py measured
which): those named for the module first, then whichever are quickest, --budget seconds of them, and half as many of them again
under the sanitizers.

A line for each, the survivors with their change at the end, then the count; status 1 when the tree itself fails its tests.
"""
import argparse
import atexit
import collections
import functools
import glob
import itertools
import json
import multiprocessing
import os
import platform
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EQUIVALENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "equivalent.txt")
HOUSES = ("kernels", "engine", "tokenizer", "app")
UNCOMPILED = "the compiler"
UNRUN = ("ptx.cl",)  # NVIDIA's instructions, in whose place tests/emulate has functions of its own
LEAKS = os.path.join(ROOT, "tests/leaks.txt")
SANITIZED_SCREENS = ("test_chat.py", "test_full.py", "test_gguf.py")  # as tests/sanitized_screens.sh has them
WARPS = "{build}/tests/emulate/libOpenCL.so.1"
SAMPLES = ("Q4_0", "Q4_K", "Q6_K", "IQ2_XS", "nvfp4")  # test_kinds tries heads and swiglus with these
WARPS_HERE = platform.machine() == "x86_64" and shutil.which("clang") is not None  # what tests/emulate needs

Site = collections.namedtuple("Site", "path line kind old new")  # line counts from 1; old and new are whole lines
Test = collections.namedtuple("Test", "name targets command")  # what make builds, and what is run


# ---- what can be mutated ----
def masked(line):
    """The line with comments and what stands in quotes blanked, each character in its place."""
    out, quote, i = [], "", 0
    while i < len(line):
        c = line[i]
        if quote:
            if c == "\\":
                out.append(" ")
                i += 1
                c = " "
            elif c == quote:
                quote = ""
            out.append(" ")
        elif c in "\"'":
            quote = c
            out.append(" ")
        elif line.startswith("//", i):
            break
        else:
            out.append(c)
        i += 1
    return "".join(out).ljust(len(line))[:len(line)]


def balanced(text):
    depth = 0
    for c in text:
        depth += (c == "(") - (c == ")")
        if depth < 0:
            return False
    return depth == 0


OTHER = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&"}
DECLARED = re.compile(r"^\s*(?:(?:static|const|unsigned|struct|enum|volatile) )*[a-z_]\w* \**\w+(?:\[[^=]*\])+(?: = (?:\{.*\}| *))?(?:, .*)?;$")
CALL = re.compile(r"^\s*(?:\(void\))?[a-z_][\w.>-]*\(.*\);$")
CONDITION = re.compile(r"^(\s*(?:\} else )?if \()(.*)(\)(?: \{)?)$")
RETURNED = re.compile(r"^(\s*return )(-1|false|true|0|1|(?!NULL|STATUS_DONE|\w*_(?:OK|NONE)\b)[A-Z][A-Z0-9_]+);$")
NOTHING_HELD = re.compile(r"^\s*pthread_(?:cond|mutex)(?:attr)?_destroy\(") # which holds nothing in Linux's C libraries
EMPTY = re.compile(r"= \{0\}|\bcalloc\(1,") # one off is the same there
HANDED_ON = re.compile(r"^(\s*return )([a-z_]\w*\(.*\));$")


def chosen_alike(text, start, end):
    """Is the comparison that stands at [start, end) the question of "a < b ? a : b" or "a > b ? a - b : 0"? Then its edge is none: of
    two equal numbers either is the smaller, and nothing is left of one by the other."""
    choice = re.match(r"(.+?) \? (.+?) : (.+?)(?=[;,]| [?:] |\)*[;,)]|$)", text[end:].strip())
    if not choice:
        return False
    second, *given = (re.sub(r"\((?:u?int\d*_t|int|size_t|float|double|uint|unsigned)\)", "", part).strip() for part in choice.groups())
    given = [part[1:-1] if re.match(r"\([^()]*\)$", part) else part for part in given]
    first = text[:start].rstrip()

    def is_first(part):
        return re.search(r"(?:^|[\s(=,])%s$" % re.escape(part), first) is not None
    return (is_first(given[0]) and given[1] == second or is_first(given[1]) and given[0] == second or
            given[1] == "0" and given[0].endswith(" - " + second) and is_first(given[0][:-len(" - " + second)]))


def enlarges_memory(text, at):
    """Does the number at `at` stand among the arguments of an allocation? One more than enough changes nothing."""
    call = re.search(r"\b(?:[mc]alloc|realloc)\(", text[:at])
    depths = itertools.accumulate((c == "(") - (c == ")") for c in text[call.end():at]) if call else ()
    return call is not None and all(depth >= 0 for depth in depths)


def mutations(line, following):
    """(kind, the line as it would be) of every mutation of one line of a function's body."""
    text = masked(line).rstrip()
    if not text.strip() or text.lstrip().startswith("#") or re.search(r"static_assert|\bassert\(", text, re.I):
        return
    for match in re.finditer(r"(?<= )(<=|>=|<|>|==|!=|&&|\|\|)(?= |$)", text):
        sign = match.group(1)
        if sign[0] in "<>" and chosen_alike(text, match.start(), match.end()):
            continue
        yield ("edge" if sign[0] in "<>" else "turn", line[:match.start()] + OTHER[sign] + line[match.end():])
    for match in re.finditer(r"(?<![\w.'\"])(\d+)([uUlL]*)(?![\w.])", text):
        if DECLARED.match(text) or EMPTY.search(text):
            break
        if re.search(r"\bsizeof[ (]*[\w.>-]+\[$", text[:match.start()]):
            continue  # of whichever element, the size is the same
        value = int(match.group(1), 8 if len(match.group(1)) > 1 and match.group(1)[0] == "0" else 10)
        for other in (value + 1, value - 1):
            if other >= 0 and not (other > value and enlarges_memory(text, match.start())):
                yield "constant", line[:match.start()] + str(other) + match.group(2) + line[match.end():]
    condition = CONDITION.match(text)
    if condition and balanced(condition.group(2)):
        inner = line[condition.start(2):condition.end(2)]
        head, tail = line[:condition.start(2)], line[condition.end(2):]
        turned = inner[1:] if re.match(r"^![\w.>\[\]-]+$", inner) else "!(%s)" % inner
        yield "turn", head + turned + tail
        if "(" in inner and re.match(r"^\s*(return|goto|break|continue)\b", following):
            yield "code", head + "(%s) && 0" % inner + tail
    if CALL.match(text) and balanced(text) and not NOTHING_HELD.match(text):
        yield "call", line[:len(line) - len(line.lstrip())] + "; // " + line.lstrip()
    match = RETURNED.match(text)
    if match:
        swallowed = {"-1": "0", "false": "true", "true": "false", "0": "1", "1": "0"}.get(match.group(2), "0")
        yield "code", "%s%s;" % (match.group(1), swallowed)
    match = HANDED_ON.match(text)
    if match and balanced(match.group(2)):
        yield "code", "%s(%s, 0);" % (match.group(1), line[match.start(2):match.end(2)])


def sites_of(root, path):
    """Every mutation of a file, in the order of its lines."""
    with open(os.path.join(root, path), encoding="utf-8") as source:
        lines = source.read().split("\n")
    inside, ways = False, compiled_ways(os.path.join(root, path)) if path.endswith(".cl") else None
    for number, line in enumerate(lines):
        if line == "{" or line == "}":  # clang-format's: a function's body, and nothing else
            inside = line == "{"
        elif inside:
            following = lines[number + 1] if number + 1 < len(lines) else ""
            for kind, new in mutations(line, following):
                if "kill(" not in line and (not ways or ways[number].shapes):  # the wrong one would be ours; not compiled here
                    yield Site(path, number + 1, kind, line, new)


def sources(root, only):
    found = [os.path.relpath(path, root) for house in HOUSES for end in ("c", "cc", "cl")
             for path in glob.glob("%s/%s/**/*.%s" % (root, house, end), recursive=True)]
    return sorted(path for path in found if not path.endswith(UNRUN) and (not only or path.startswith(tuple(only))))


def choose(root, seed, only):
    """All mutations in the order in which they are tried: files by their length, kinds by turns of chance."""
    draw = random.Random(seed)
    files, weights = [], []
    for path in sources(root, only):
        kinds = collections.OrderedDict()
        for site in sites_of(root, path):
            kinds.setdefault(site.kind, []).append(site)
        if kinds:
            files.append(kinds)
            weights.append(sum(1 for _ in open(os.path.join(root, path), encoding="utf-8")))
    while files:
        i = draw.choices(range(len(files)), weights)[0]
        kind = draw.choice(list(files[i]))
        sites = files[i][kind]
        yield sites.pop(draw.randrange(len(sites)))
        if not sites:
            del files[i][kind]
        if not files[i]:
            del files[i], weights[i]


def survivors_of(root, path):
    """The mutations of an earlier run's list, as far as the sources still have their lines."""
    with open(path, encoding="utf-8") as lines:
        listed = re.findall(r"^([\w./]+):(\d+): (\w+)\n-(.*)\n\+(.*)$", lines.read(), re.M)
    for at, line, kind, old, new in listed:
        sites = [s for s in sites_of(root, at) if (s.kind, s.old, s.new) == (kind, old, new)] if os.path.exists(os.path.join(root, at)) else []
        if sites:
            yield min(sites, key=lambda s: abs(s.line - int(line)))  # of lines that read alike: sources have moved a little
        else:
            print("%s: no longer there: %s" % (at, old.strip()))


def equivalents(path=EQUIVALENT):
    """{(file, old line, new line): reason}, lines without what stands before and behind."""
    known = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as lines:
            blocks = re.split(r"\n\s*\n", "".join(line for line in lines if not line.startswith("#")))
        for block in filter(str.strip, blocks):
            at, old, new, reason = block.strip().split("\n", 3)
            known[at.strip(), old[2:].strip(), new[2:].strip()] = reason.strip()
    return known


def is_known(known, site):
    return (site.path, site.old.strip(), site.new.strip()) in known


# ---- which tests guard it ----
Ways = collections.namedtuple("Ways", "shapes kinds")  # in which a line of OpenCL is compiled; no kinds: whatever kind


@functools.lru_cache(maxsize=None)
def compiled_ways(path):
    """What the #if's round each line of OpenCL say: the shapes for which it is compiled ("warps": only for NVIDIA, emulated), and
    the kinds of matrix. Knows the forms that kernels/ uses; what it doesn't know limits nothing."""
    with open(path, encoding="utf-8") as source:
        lines = source.read().split("\n")
    ways, stack, held = [], [], ""  # the stack: of (condition, the branches before it that were not taken)
    for each in lines:
        ways.append(ways_within(path, stack))
        held, each = (held + each[:-1], "") if each.endswith("\\") else ("", held + each)
        directive = re.match(r"#\s*(if|ifdef|ifndef|elif|else|endif)\b(.*)", each)
        if not directive:
            continue
        word, condition = directive.group(1), directive.group(2).strip()
        if word.startswith("if"):
            stack.append(({"ifdef": "defined(%s)", "ifndef": "!defined(%s)"}.get(word, "%s") % condition, []))
        elif word == "endif":
            stack.pop()
        else:
            stack[-1] = (condition, stack[-1][1] + [stack[-1][0]])
    return ways


def ways_within(path, stack):
    of_name = re.search(r"_(cpu|gpu)\.cl$", path)
    shapes, kinds = [of_name.group(1)] if of_name else ["cpu", "gpu"], []
    for condition, others in stack:
        needs = {term.strip() for term in condition.split("&&")}
        needs |= {other[1:] if other[0] == "!" else "!" + other for other in others if re.match(r"!?\w+$", other)}
        if "NVIDIA_MMA" in needs:
            shapes = ["warps"] * WARPS_HERE
        shapes = [s for s in shapes if ("!SHAPE_CPU" if s == "cpu" else "SHAPE_CPU") not in needs]
        kinds = re.findall(r"(?<!!)defined\(KIND_IS_(\w+)\)", condition) or kinds
    return Ways(shapes, [kind for kind in kinds if kind != "AFFINE"][:2])


class Guards:
    """What the tables of tests/README.md say of each module."""

    def __init__(self, root):
        self.root = root
        self.rows, self.kernels = {}, {}
        self.all = [os.path.relpath(path, root) for end in ("c", "py") for path in
                    glob.glob("%s/tests/**/test_*.%s" % (root, end), recursive=True)]
        self.all = sorted(path for path in self.all if not path.startswith("tests/mutate/"))
        room = None
        with open(os.path.join(root, "tests/README.md"), encoding="utf-8") as page:
            for line in page:
                if line.startswith("#"):
                    room = line[4:].strip() if line.startswith("### ") else None
                elif re.match(r"\| \w+\.cl", line):
                    self.kernels.update((text, line.split("|")[2].strip()) for text in re.findall(r"\w+\.cl", line.split("|")[1]))
                elif room and line.startswith("| ") and not line.startswith("| module"):
                    modules, tests = line.split("|")[1:3]
                    for module in re.findall(r"\w+", modules):
                        self.rows[room + "/" + module] = tests

    def of(self, path, line=1, alone=False):
        """The tests of a source: its own, then (alone: only if it has none) those that cover it through others."""
        if path.endswith(".cl"):
            return self.of_kernel(path, line)
        own, _, others = self.rows.get(os.path.splitext(path)[0], "").partition("(")
        tests = self.named(own)
        return tests if alone and tests else tests + self.named(others)

    def of_kernel(self, path, line):
        """The parts of tests/ops that a kernel's text is named for, as the line is compiled."""
        ways = compiled_ways(os.path.join(self.root, path))[line - 1]
        tests = []
        for part in self.kernels.get(os.path.basename(path), "").split(","):
            name, *parts = part.split()
            target = "{build}/tests/ops/" + name
            for shape in ways.shapes:
                on = ["sh", "tests/emulate/warps.sh", WARPS] if shape == "warps" else []
                for kind in (ways.kinds or parts) if name == "test_kinds" else [None]:
                    env = ["env", "MOECHAT_TEST_LATE=1", "MOECHAT_TEST_SHAPE=" + shape] + (["MOECHAT_TEST_KIND=" + kind] if kind else [])
                    chosen = ["weights", "products"] + ["heads", "swiglus"] * bool(on and kind in SAMPLES) if kind else parts  # what every kind has
                    tests.append(Test(" ".join([name] + ([kind] if kind else parts) + [shape]), [target] + on[2:],
                                      env + on + [target] + chosen))
        return tests

    def named(self, words):
        tests, screens = [], False
        if "screens" in words and not re.search(r"screens:? test_|screens; ", words):
            tests += [self.test(t) for t in self.all if t.startswith("tests/screens/")]
        for word in re.findall(r"screens|golden|test_\w+|fuzz_\w+|fault", words):
            if word == "screens":
                screens = True
            elif word == "golden":
                tests += self.goldens()
            elif word.startswith("fuzz_"):
                tests.append(self.fuzz(word))
            elif word.startswith("test_"):
                files = [t for t in self.all if os.path.splitext(os.path.basename(t))[0] == word]
                chosen = [t for t in files if t.endswith(".py") == screens] or files
                tests += [self.test(t) for t in chosen]
            elif word == "fault":
                screens = False
        return tests

    def test(self, path):
        if path.endswith(".py"):
            return Test(os.path.basename(path), ["moechat", "{build}/tests/bench/synthetic"], ["python3", path])
        program = os.path.splitext(path)[0]
        return Test(os.path.basename(program), ["{build}/" + program], ["{build}/" + program])

    def fuzz(self, name):
        return Test(name, ["{build}/tests/fuzz/" + name], ["{build}/tests/fuzz/" + name, "tests/fuzz/corpus/" + name[5:]])

    def goldens(self):
        tests = []
        for folder in sorted(glob.glob(os.path.join(self.root, "tests/golden/*/golden.json"))):
            name = os.path.basename(os.path.dirname(folder))
            if re.match(r"demo-(480|1100|1500)$", name):
                continue
            for device in ("ref", "cpu"):
                packed = name.startswith("ck-") or (device == "ref" and name.startswith(("gguf-", "mlx-")))
                more = ["--convert", "moechat"] if packed else []
                tests.append(Test("golden %s %s" % (name, device), ["{build}/tests/golden/golden"] + more[1:],
                                  ["{build}/tests/golden/golden", "tests/golden/" + name, "--device", device,
                                   "--chunk", "1", "--chunk", "0"] + [w.replace("moechat", "./moechat") for w in more]))
        return tests

    def wide(self):
        c_tests = [self.test(t) for t in self.all if t.endswith(".c")]
        fuzzers = [self.fuzz(os.path.splitext(os.path.basename(p))[0])
                   for p in sorted(glob.glob(os.path.join(self.root, "tests/fuzz/fuzz_*.c")))]
        return c_tests + fuzzers + self.goldens() + [self.test(t) for t in self.all if t.endswith(".py")]


# ---- the copy in which it is tried ----
class Scratch:
    """A copy of the tree, with what has been built already. Owns its folder; `build` names the plain build's."""

    def __init__(self, root, folder):
        self.root, self.folder = root, folder
        self.times = {}  # of each command, in seconds
        self.sound = {}  # of each command that failed on a mutant: does it pass on the tree as it is?
        self.original = self.mutant = ""  # the file that is mutated
        self.private = tempfile.mkdtemp(prefix="mutant-")  # short, for paths stand on the screens
        atexit.register(shutil.rmtree, self.private, ignore_errors=True)
        self.log = os.path.join(folder, "make.log")

    def copy(self):
        """Sources anew, each with its time, so that make builds what differs and nothing else."""
        listed = subprocess.run(["git", "ls-files", "-z", "-c", "-o", "--exclude-standard"], cwd=self.root, stdout=subprocess.PIPE,
                                check=True).stdout.decode().split("\0")
        for path in sorted(filter(None, listed)):
            here, there = os.path.join(self.root, path), os.path.join(self.folder, path)
            if os.path.islink(here) or not os.path.isfile(here):
                continue
            with open(here, "rb") as source:
                content = source.read()
            os.makedirs(os.path.dirname(there), exist_ok=True)
            if not os.path.exists(there) or open(there, "rb").read() != content:
                existed = os.path.exists(there)
                shutil.copy2(here, there)
                if existed:
                    os.utime(there)
        for folder in ("build", "build/asan"):
            for entry in ("app", "engine", "kernels", "tokenizer", "kernels_cl.c", "kernels_cl.o", "libmoechat.a", "cache", "tests"):
                here, there = (os.path.join(base, folder, entry) for base in (self.root, self.folder))
                if os.path.isdir(here) and not os.path.exists(there):
                    shutil.copytree(here, there, copy_function=shutil.copy2)
                elif os.path.isfile(here) and not os.path.exists(there):
                    shutil.copy2(here, there)
        try:
            with open(os.path.join(self.folder, "times.json"), encoding="utf-8") as kept:
                self.times = json.load(kept)
        except (OSError, ValueError):
            pass

    def keep_times(self):
        with open(os.path.join(self.folder, "times.json"), "w", encoding="utf-8") as out:
            json.dump(self.times, out)

    def write(self, path, content):
        with open(os.path.join(self.folder, path), "w", encoding="utf-8") as out:
            out.write(content)

    def environment(self):
        env = {name: value for name, value in os.environ.items() if not re.match(r"MAKE|MFLAGS|MOECHAT", name)}
        private = self.private
        for name in ("/tmp", "/run", "/config", "/data", "/state"):
            shutil.rmtree(private + name, ignore_errors=True)
            os.makedirs(private + name, mode=0o700)
        env.update(HOME=private, TMPDIR=private + "/tmp", XDG_CONFIG_HOME=private + "/config", XDG_DATA_HOME=private + "/data",
                   XDG_STATE_HOME=private + "/state", XDG_RUNTIME_DIR=private + "/run", MOECHAT_CONFIG="none",
                   XDG_CACHE_HOME=os.path.join(self.folder, "build/cache"), ASAN_OPTIONS="intercept_tls_get_addr=0:use_sigaltstack=0")
        return env

    def make(self, targets, sanitized=False):
        """True: they are built."""
        command = ["make", "-s", "-j2"] + sorted(set(targets))
        if sanitized:
            command += ["BUILD=build/asan", "SANITIZE=address undefined", "OPT=-O1 -g1 -fno-omit-frame-pointer", "TEST_OPT=-O0"]
        with open(self.log, "w", encoding="utf-8") as log:
            return subprocess.run(command, cwd=self.folder, env=self.environment(), stdout=log, stderr=log).returncode == 0

    def passes(self, command, seconds):
        """Runs a test to its end, its first FAIL, or its time. What fails on a screen, where time matters, must do so again."""
        good, failed = self.runs(command, seconds)
        return good or ("python3" in command and self.runs(command + failed, seconds)[0])

    def runs(self, command, seconds):
        """Whether it passes, and the name of what failed first."""
        env = self.environment()
        process = subprocess.Popen(command, cwd=self.folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=heed_interrupts)
        said, end = b"\n", time.monotonic() + seconds
        try:
            # Not to the end of its output: what it started may hold that open for ever.
            while b"\nFAIL " not in said and time.monotonic() < end:
                ready, _, _ = select.select([process.stdout], [], [], 0.2)
                more = os.read(process.stdout.fileno(), 65536) if ready else b""
                said += more
                if not more and process.poll() is not None:
                    break
        finally:
            end_group(process)  # and what it left behind
            status = process.wait()
            process.stdout.close()
        failed = [name.decode() for name in re.findall(rb"\nFAIL (\w+)\n", said)]
        return b"\nFAIL " not in said and status == 0 and (b"\nPASS " in said or b"\nSKIP " in said), failed[:1]


def heed_interrupts():
    """A shell that starts us in the background has us ignore these, and the tests' programs with us."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def end_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def commands(tests, sanitized):
    build = "build/asan" if sanitized else "build"
    for test in tests:
        command = [word.format(build=build) for word in test.command]
        if sanitized and command[0] == "python3":
            if test.name.split()[0] in SANITIZED_SCREENS:
                yield Test(test.name + " (sanitized)", ["build/asan/moechat"],
                           ["env", "MOECHAT_PROGRAM=build/asan/moechat", "LSAN_OPTIONS=suppressions=%s:print_suppressions=0" % LEAKS] + command)
            continue
        if sanitized and test.name.startswith("golden"):
            continue
        if sanitized and test.name == "test_kinds":
            command.append("unopened")
        yield Test(test.name + (" (sanitized)" if sanitized else ""), [target.format(build=build) for target in test.targets], command)


def is_sound(scratch, test, site, sanitized):
    """Does the test pass on the tree as it is? Only then its failing says something. Takes the mutation back for that."""
    key = " ".join(test.command)
    if key not in scratch.sound:
        scratch.write(site.path, scratch.original)
        scratch.sound[key] = scratch.make(test.targets, sanitized) and scratch.passes(test.command, 900)
        if not scratch.sound[key]:
            print("the tree itself fails %s" % test.name, flush=True)
        scratch.write(site.path, scratch.mutant)
    return scratch.sound[key]


def usual_time(scratch, test):
    """Seconds that it took once, or a guess, for the order."""
    return scratch.times.get(" ".join(test.command), 20 if "python3" in test.command else 3 if "golden" in test.name else 1)


def catch(scratch, site, tests, sanitized=False):
    """The first of the tests that fails on what has been mutated, the quickest first, else None."""
    chosen = {tuple(t.command): t for t in commands(tests, sanitized) if scratch.sound.get(" ".join(t.command), True)}
    chosen = sorted(chosen.values(), key=lambda t: usual_time(scratch, t))
    built = set()
    for i, test in enumerate(chosen):
        key, fails = " ".join(test.command), False
        if not built.issuperset(test.targets):
            ahead = {target for t in chosen[i:i + 2] for target in t.targets}
            fails = not scratch.make(ahead, sanitized)
            built |= ahead
            if fails and not scratch.make([object_of(site)]):
                return UNCOMPILED
        began = time.monotonic()
        limit = 20 + 10 * scratch.times.get(key, 24) + (300 if site.path.endswith(".cl") else 0)
        if fails or not scratch.passes(test.command, limit):
            if is_sound(scratch, test, site, sanitized):
                return test.name
            built = set()
        else:
            scratch.times[key] = time.monotonic() - began
    return None


# ---- many at a time ----
lane = None  # of a worker's process: its copy of the tree, its guards, the options


class Lane:
    def __init__(self, folders, options):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's
        self.scratch = Scratch(ROOT, folders.get())
        self.scratch.copy()
        self.guards, self.options = Guards(self.scratch.folder), options


def enter_lane(folders, options):
    global lane
    lane = Lane(folders, options)


def survey(test, sanitized):
    """How a test does on the tree as it is: its command, whether it passes, its seconds."""
    scratch = lane.scratch
    passed = scratch.make(test.targets, sanitized)
    began = time.monotonic()
    passed = passed and scratch.passes(test.command, lane.options.longest or 900)
    return test.name, " ".join(test.command), passed, time.monotonic() - began


def attempt_in_lane(site, sound, times):
    lane.scratch.sound = dict(sound, **lane.scratch.sound)
    lane.scratch.times = dict(times, **lane.scratch.times)
    return attempt(lane.scratch, site, lane.guards, lane.options)


def asked_for(sites, guards, options):
    """Every test that may be run for these sites, with whether it is a sanitized one, once each."""
    found = {}
    for site in sites:
        tests = tests_of(guards, site, options) + (guards.wide() if options.wide else [])
        found.update({(t.name, False): t for t in commands(tests, False)})
        if options.sanitized and not site.path.endswith(".cl"):
            found.update({(t.name, True): t for t in commands(tests, True)})
    return [(test, sanitized) for (_, sanitized), test in found.items()]


def looked_over(pool, tests):
    """Each test tried once on the tree as it is: whether it passes and its seconds, by command."""
    looks = [pool.apply_async(survey, look) for look in sorted(tests, key=lambda look: "python3" not in look[0].command)]
    looks = [look.get() for look in looks]
    for name, _, passed, seconds in looks:
        if not passed:
            print("left out, for the tree itself fails it: %s (%.0f s)" % (name, seconds))
    print("%d tests, %.0f s of them" % (len(looks), sum(seconds for *_, seconds in looks)))
    return {command: passed for _, command, passed, _ in looks}, {command: seconds for _, command, _, seconds in looks}


def in_lanes(order, options, outcomes):
    """Tries the mutations of `order` in options.jobs processes; appends to outcomes as they come. Returns the unsound tests."""
    folders = multiprocessing.Queue()
    for i in range(options.jobs):
        folders.put(os.path.join(options.scratch, str(i)))
    end = time.monotonic() + 60 * options.minutes if options.minutes else float("inf")
    with multiprocessing.Pool(options.jobs, enter_lane, (folders, options)) as pool:
        first = list(itertools.islice(order, options.count))
        sound, times = looked_over(pool, asked_for(first, Guards(ROOT), options))
        following, waiting, tried = itertools.chain(first, order), [], 0
        while True:
            room = min(options.jobs, options.count - tried) - len(waiting) if time.monotonic() < end else 0
            for site in itertools.islice(following, max(room, 0)):
                waiting.append(pool.apply_async(attempt_in_lane, (site, sound, times)))
            if not waiting:
                break
            done = [w for w in waiting if w.ready()]
            waiting = [w for w in waiting if not w.ready()]
            for outcome in (w.get() for w in done):
                outcomes.append(outcome)
                tried += outcome.verdict != "uncompiled"
                print(told(outcome))
            time.sleep(0.05)
    return [command for command, passed in sound.items() if not passed]


def object_of(site):
    if site.path.endswith(".cl"):
        return "build/kernels_cl.o"
    return "build/%s.o" % os.path.splitext(site.path)[0]


def reached(guards, site, options, sanitized=False):
    """The tests that run the line, the module's own first, as many as the budget has seconds for; at least one."""
    named, left, tests = {t.name for t in guards.of(site.path)}, options.budget / (2 if sanitized else 1), []
    for test, seconds in sorted(options.reach.of(site.path, site.line), key=lambda each: (each[0].name.split()[0] not in named, each[1])):
        if sanitized and not list(commands([test], True)):
            continue
        left -= seconds
        if left >= 0 or not tests:
            tests.append(test)
    return tests


def tests_of(guards, site, options):
    if getattr(options, "reach", None) and not site.path.endswith(".cl"):
        return reached(guards, site, options)
    tests = guards.of(site.path, site.line, getattr(options, "own", False))
    if options.quick:
        tests = [t for t in tests if t.command[0] != "python3" and not t.name.startswith("golden")]
    return tests


Outcome = collections.namedtuple("Outcome", "site verdict by") # verdict: "caught", "survives", "uncompiled"


def attempt(scratch, site, guards, options):
    """Makes the mutation, tries the tests, takes it back."""
    with open(os.path.join(scratch.folder, site.path), encoding="utf-8") as source:
        scratch.original = source.read()
    lines = scratch.original.split("\n")
    assert lines[site.line - 1] == site.old, site
    lines[site.line - 1] = site.new
    scratch.mutant = "\n".join(lines)
    tests = tests_of(guards, site, options)
    try:
        scratch.write(site.path, scratch.mutant)
        by = catch(scratch, site, tests)
        if by == UNCOMPILED or not tests and not scratch.make([object_of(site)]):
            return Outcome(site, "uncompiled", None)
        if not by and options.sanitized and not site.path.endswith(".cl"):
            by = catch(scratch, site, reached(guards, site, options, True) if options.reach else tests, sanitized=True)
        if not by and options.wide:
            named = {tuple(t.command) for t in tests}
            by = catch(scratch, site, [t for t in guards.wide() if tuple(t.command) not in named])
    finally:
        scratch.write(site.path, scratch.original)
    return Outcome(site, "caught" if by else "survives", by or (None if tests else "no test runs it"))


def one_by_one(order, scratch, guards, options, outcomes):
    """As in_lanes, in one copy of the tree."""
    began, tried = time.monotonic(), 0
    for site in order:
        if tried == options.count or (options.minutes and time.monotonic() - began > 60 * options.minutes):
            break
        outcomes.append(attempt(scratch, site, guards, options))
        tried += outcomes[-1].verdict != "uncompiled"
        print(told(outcomes[-1]))
        scratch.keep_times()
    return [command for command, passed in scratch.sound.items() if not passed]


def unknown(order, known, passed_over):
    """The mutations of `order` but for those known to change nothing, which go to passed_over."""
    for site in order:
        if is_known(known, site):
            passed_over.append(site)
        else:
            yield site


def told(outcome):
    site = outcome.site
    ending = {"caught": "caught by %s" % outcome.by, "survives": "SURVIVES" + (", " + outcome.by if outcome.by else ""), "uncompiled": "does not compile"}[outcome.verdict]
    return "%s:%d: %s: %s" % (site.path, site.line, site.kind, ending)


def changed(site):
    return "%s:%d: %s\n-%s\n+%s" % (site.path, site.line, site.kind, site.old, site.new)


def report(outcomes, n_known, seconds):
    counts = collections.Counter(o.verdict for o in outcomes)
    tried = counts["caught"] + counts["survives"]
    houses = collections.Counter((o.site.path.split("/")[0], o.verdict) for o in outcomes)
    kinds = collections.Counter((o.site.kind, o.verdict) for o in outcomes)
    survivors = [o.site for o in outcomes if o.verdict == "survives"]
    if survivors:
        print("\nsurvivors:")
        for site in survivors:
            print(changed(site))
    print()
    for name in list(HOUSES) + ["turn", "edge", "constant", "call", "code"]:
        table = houses if name in HOUSES else kinds
        if table[name, "caught"] + table[name, "survives"]:
            print("%-10s %4d caught %4d survive" % (name, table[name, "caught"], table[name, "survives"]))
    print("%d mutations in %d min: %d caught (%.1f %%), %d survive; besides, %d did not compile and %d are known to change nothing" %
          (tried, seconds // 60, counts["caught"], 100.0 * counts["caught"] / max(tried, 1), counts["survives"],
           counts["uncompiled"], n_known), flush=True)


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=0, help="no new mutation after so many (0: as long as it takes)")
    parser.add_argument("--only", action="append", default=[], metavar="PATH", help="sources whose path begins so")
    parser.add_argument("--without", action="append", default=[], metavar="END", help="no sources whose path ends so")
    parser.add_argument("--at", metavar="FILE:LINE")
    parser.add_argument("--again", metavar="FILE")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--quick", action="store_true", help="neither goldens nor screens: for a first look")
    parser.add_argument("--own", action="store_true", help="the module's own tests alone, where it has any: for a first look")
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("--sanitized", action="store_true")
    parser.add_argument("--reached", action="store_true")
    parser.add_argument("--budget", type=float, default=60, help="with --reached: seconds of tests for a mutation")
    parser.add_argument("--jobs", type=int, default=1, help="copies of the tree, tried at a time")
    parser.add_argument("--longest", type=float, default=0, help="with --jobs: leave out tests that take longer")
    parser.add_argument("--scratch", default=os.path.join(ROOT, "build/mutate"))
    return parser.parse_args()


def main():
    options = parsed()
    sys.stdout.reconfigure(line_buffering=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    began, known, passed_over = time.monotonic(), equivalents(), []
    scratch = Scratch(ROOT, options.scratch)
    options.reach = None
    if options.reached:
        import reach  # which needs what stands above
        options.reach = reach.Reach()
    copied = not options.list and options.jobs == 1
    if copied:
        scratch.copy()
    tree = options.scratch if copied else ROOT  # the copy stays as it is while people write on
    for test, seconds, _ in options.reach.tests.values() if options.reach else ():
        key = " ".join(next(commands([test], False)).command)
        scratch.times.setdefault(key, seconds)
        scratch.sound.setdefault(key, True)  # it passed when it was measured
    guards = Guards(tree)
    if options.at:
        path, line = options.at.rsplit(":", 1)
        order = [site for site in sites_of(tree, path) if site.line == int(line)]
    elif options.again:
        order = list(survivors_of(tree, options.again))
    else:
        order = choose(tree, options.seed, options.only)
    order = (site for site in order if not site.path.endswith(tuple(options.without) or ("//",)))
    if options.list:
        for site, _ in zip(order, range(options.count)):
            print(changed(site))
        return 0
    order = unknown(order, known, passed_over)
    outcomes, unsound = [], []
    try:
        if options.jobs > 1:
            unsound = in_lanes(order, options, outcomes)
        else:
            unsound = one_by_one(order, scratch, guards, options, outcomes)
    finally:
        report(outcomes, len(passed_over), time.monotonic() - began)
    return 1 if unsound else 0


if __name__ == "__main__":
    sys.exit(main())
