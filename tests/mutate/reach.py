#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measures which tests run which line: each by itself, in a build that counts (gcov).

    reach.py [--only NAME]... [--longest 60]    measures into build/reach/lines.json; with --only, those tests anew
    reach.py --bare [PATH]...                   the mutations of lines that no test runs, by file

What is measured: each program of unit/, ops/ and fault/ (one that takes long: each of its tests), the fuzzers on their corpus, the
goldens in plain C, each test of the screens. Left out, which is said: what fails there, and what takes longer than --longest.
A line that begins no statement counts as the one before it that does. mutate.py --reached tries a mutation on what runs its line.
"""
import argparse
import collections
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import time

import mutate
from mutate import ROOT, Test

BUILD = "build/reach"
LINES = os.path.join(ROOT, BUILD, "lines.json")
WATCH = os.path.join(ROOT, BUILD, "watch")  # where processes leave their counts
LONG = 4  # seconds from which on a program's tests are measured by themselves


class Watched(mutate.Scratch):
    """The tree itself, built with counters that each process adds to at its end."""

    def __init__(self):
        super().__init__(ROOT, ROOT)
        self.log = os.path.join(ROOT, BUILD, "make.log")
        self.counts = WATCH + ROOT

    def environment(self):
        env = super().environment()
        env.update(GCOV_PREFIX=WATCH, MOECHAT_PROGRAM=os.path.join(ROOT, BUILD, "moechat"))
        return env

    def make(self, targets, sanitized=False):
        os.makedirs(os.path.dirname(self.log), exist_ok=True)
        targets = sorted({BUILD + "/moechat" if target == "moechat" else target.replace("{build}", BUILD) for target in targets})
        with open(self.log, "w", encoding="utf-8") as log:
            return subprocess.run(["make", "-s", "-j2"] + targets + ["BUILD=" + BUILD, "OPT=-O1 -g --coverage"], cwd=ROOT, stdout=log,
                                  stderr=log, env=dict(super().environment(), LDFLAGS="--coverage")).returncode == 0

    def forget(self):
        """No counts any more, and beside where they will lie what gcov needs to read them."""
        shutil.rmtree(WATCH, ignore_errors=True)
        for house in mutate.HOUSES:
            for notes in glob.glob("%s/%s/%s/**/*.gcno" % (ROOT, BUILD, house), recursive=True):
                os.makedirs(os.path.dirname(WATCH + notes), exist_ok=True)
                os.symlink(notes, WATCH + notes)

    def counted(self, end):
        """{source: (lines that are run, lines that could be)} of the counts, or (end: gcno) of the notes alone."""
        found = {}
        files = [path for house in mutate.HOUSES for path in glob.glob("%s/%s/%s/**/*.%s" % (self.counts, BUILD, house, end), recursive=True)]
        if not files:
            return found
        said = subprocess.run(["gcov", "--json-format", "--stdout"] + files, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
        for each in filter(None, said.stdout.split(b"\n")):
            for file in json.loads(each)["files"]:
                if file["file"].startswith(tuple(house + "/" for house in mutate.HOUSES)) and file["file"].endswith((".c", ".cc")):
                    run, could = found.get(file["file"], (0, 0))
                    for line in file["lines"]:
                        could |= 1 << line["line_number"]
                        run |= (line["count"] > 0) << line["line_number"]
                    found[file["file"]] = run, could
        return found


class Reach:
    """What was measured: for a line, the tests that run it."""

    def __init__(self, path=LINES):
        self.could, self.tests = {}, {}
        if os.path.exists(path):
            with open(path, encoding="utf-8") as lines:
                stored = json.load(lines)
            self.could = {source: int(bits, 16) for source, bits in stored["could"].items()}
            self.tests = {name: (Test(name, *test[:2]), test[2], {source: int(bits, 16) for source, bits in test[3].items()})
                          for name, test in stored["tests"].items()}

    def store(self, path=LINES):
        stored = {"could": {source: "%x" % bits for source, bits in self.could.items()},
                  "tests": {name: (test.targets, test.command, seconds, {source: "%x" % bits for source, bits in lines.items()})
                            for name, (test, seconds, lines) in self.tests.items()}}
        with open(path + ".new", "w", encoding="utf-8") as out:
            json.dump(stored, out)
        os.replace(path + ".new", path)

    def statement(self, source, line):
        could = self.could.get(source, 0)
        while line and not could >> line & 1:
            line -= 1
        return line

    def of(self, source, line):
        """[(test, its seconds)], the quickest first."""
        line = self.statement(source, line)
        found = [(test, seconds) for test, seconds, lines in self.tests.values() if lines.get(source, 0) >> line & 1]
        return sorted(found, key=lambda each: each[1])


def candidates(guards):
    """(test, the names of its parts) in the order in which they are measured."""
    for path in sorted(guards.all, key=lambda path: (not path.startswith("tests/unit/"), not path.startswith("tests/screens/"))):
        with open(os.path.join(ROOT, path), encoding="utf-8") as source:
            text = source.read()
        if path.startswith("tests/screens/"):
            for name in re.findall(r"^def (test_\w+)\(\):", text, re.M):
                whole = guards.test(path)
                yield whole._replace(name="%s %s" % (whole.name, name[5:]), command=whole.command + [name]), []
        elif path.endswith(".c"):
            yield guards.test(path), re.findall(r"\bTEST\((\w+)\)", text)
    for path in sorted(glob.glob(os.path.join(ROOT, "tests/fuzz/fuzz_*.c"))):
        yield guards.fuzz(os.path.splitext(os.path.basename(path))[0]), []
    for test in guards.goldens():
        if test.name.endswith(" ref"):
            yield test, []


def measure(watched, reach, test, limit):
    """Runs a test and keeps what it ran. Returns its seconds; None: it failed, or took too long."""
    watched.forget()
    began = time.monotonic()
    passed = watched.runs([word.replace("{build}", BUILD).replace("./moechat", BUILD + "/moechat") for word in test.command], limit)[0]
    seconds = time.monotonic() - began
    if passed:
        lines = {source: run for source, (run, _) in watched.counted("gcda").items() if run}
        reach.tests[test.name] = test, seconds, lines
    print("%6.1f s  %s%s" % (seconds, test.name, "" if passed else ": left out, it fails or takes too long"), flush=True)
    return seconds if passed else None


def measure_all(options):
    watched, guards = Watched(), mutate.Guards(ROOT)
    tests = [(t, parts) for t, parts in candidates(guards) if not options.only or any(part in t.name for part in options.only)]
    if not watched.make(["moechat"] + [target for test, _ in tests for target in test.targets]):
        sys.exit("it does not build: %s" % watched.log)
    reach = Reach() if options.only else Reach("")
    watched.forget()
    reach.could = {source: could for source, (_, could) in watched.counted("gcno").items()}
    for test, parts in tests:
        seconds = measure(watched, reach, test, options.longest)
        if len(parts) > 1 and (seconds is None or seconds > LONG):
            reach.tests.pop(test.name, None)
            for part in parts:
                measure(watched, reach, Test("%s %s" % (test.name, part), test.targets, test.command + [part]), options.longest)
        reach.store()
    shutil.rmtree(WATCH, ignore_errors=True)


def bare(options):
    reach, all_of, bare_of = Reach(), collections.Counter(), collections.defaultdict(list)
    for path in mutate.sources(ROOT, options.paths):
        for site in [] if path.endswith(".cl") else mutate.sites_of(ROOT, path):
            all_of[path] += 1
            if not reach.of(path, site.line):
                bare_of[path].append(site)
    for path in sorted(bare_of, key=lambda path: -len(bare_of[path])):
        print("%s: %d of %d" % (path, len(bare_of[path]), all_of[path]))
        for line in sorted({site.line for site in bare_of[path]}) if options.paths else []:
            print("    %d: %s" % (line, next(s.old.strip() for s in bare_of[path] if s.line == line)))
    count = sum(map(len, bare_of.values()))
    print("%d of %d mutations stand in lines that no test runs (%.1f %%)" % (count, sum(all_of.values()), 100 * count / sum(all_of.values())))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--longest", type=float, default=60)
    parser.add_argument("--bare", action="store_true")
    parser.add_argument("paths", nargs="*", metavar="PATH")
    options = parser.parse_args()
    if options.bare:
        bare(options)
    else:
        measure_all(options)


if __name__ == "__main__":
    main()
