#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The mutation tool itself, by few mutations of one small source: what a test catches, what none does, what is no C."""
import argparse
import contextlib
import io
import itertools
import os
import re
import sys
import tempfile

import mutate
import reach
from mutate import ROOT, Site, Test

SOURCE = "app/util/words.c"


def mutated(line, following=""):
    return {(kind, new.strip()) for kind, new in mutate.mutations(line, following)}


def makes_each_kind():
    assert mutated("    if (at < end && !failed)", "        return -1;") == {
        ("edge", "if (at <= end && !failed)"), ("turn", "if (at < end || !failed)"), ("turn", "if (!(at < end && !failed))")}
    assert mutated("    if (read_all(fd))", "        goto failed;") == {("turn", "if (!(read_all(fd)))"), ("code", "if ((read_all(fd)) && 0)")}
    assert mutated("    sync_all(fd);") == {("call", "; // sync_all(fd);")}
    assert mutated("    n = a[i + 2];") == {("constant", "n = a[i + 3];"), ("constant", "n = a[i + 1];")}
    assert mutated("    return -1;") >= {("code", "return 0;")}
    assert mutated("    return send(fd);") == {("code", "return (send(fd), 0);")}


def what_is_the_same_by_its_form_is_not_made():
    assert not {each for each in mutated("    n = a->b < 60 ? (int)a->b : 60;") if each[0] == "edge"}
    assert not {each for each in mutated("    n = rows > top ? rows - top : 0;") if each[0] == "edge"}
    assert not {each for each in mutated("    wait = sooner(wait, at->end > now ? (int)(at->end - now) : 0);") if each[0] == "edge"}
    assert ("edge", "n = rows >= top ? rows - top : 1;") in mutated("    n = rows > top ? rows - top : 1;")
    assert ("edge", "n = a <= b ? b : c;") in mutated("    n = a < b ? b : c;")
    assert mutated("    p = malloc(n + 1);") == {("constant", "p = malloc(n + 0);")}
    assert not mutated("    assert(n > 2);") and not mutated("    _Static_assert(N == 2, \"two\");")
    assert mutated("    n = sizeof names / sizeof names[0];") == set() and mutated("    memcpy(a, b, sizeof(list->at[0]));") == {("call", "; // memcpy(a, b, sizeof(list->at[0]));")}
    assert ("constant", "p = realloc(p, n) + 2;") in mutated("    p = realloc(p, n) + 1;")


def leaves_words_alone():
    assert not mutated('    text = "a < 2"; // b == 3')
    assert not mutated("    char path[512];")
    assert not mutated("#if A < 2")


def the_seed_chooses():
    def first(seed):
        return list(itertools.islice(mutate.choose(ROOT, seed, []), 60))
    assert first(1) == first(1) and first(1) != first(2)
    assert {site.path.split("/")[0] for site in first(1)} == set(mutate.HOUSES)
    assert {site.kind for site in first(1)} == {"turn", "edge", "constant", "call", "code"}


def equivalents_are_still_there():
    for path, old, new in mutate.equivalents():
        assert (old, new) in {(s.old.strip(), s.new.strip()) for s in mutate.sites_of(ROOT, path)}, (path, old, new)


def earlier_survivors_are_found_where_they_stood():
    source = "int f(int a)\n{\n    if (a)\n        return -1;\n    return -1;\n}\n"
    with tempfile.TemporaryDirectory() as root, contextlib.redirect_stdout(io.StringIO()) as said:
        for name, text in ("x.c", source), ("said.txt", "x.c:5: code\n-%s\n+%s\nx.c:9: call\n-    gone();\n+    ;\n" % ("    return -1;", "    return 0;")):
            with open(os.path.join(root, name), "w", encoding="utf-8") as out:
                out.write(text)
        assert [site.line for site in mutate.survivors_of(root, os.path.join(root, "said.txt"))] == [5]
        assert "no longer there" in said.getvalue()


def every_source_has_a_guard():
    guards = mutate.Guards(ROOT)
    assert not [path for path in mutate.sources(ROOT, []) if not guards.of(path)]


def parts_of_kernels_tests_are_there():
    for tests in mutate.Guards(ROOT).kernels.values():
        for name, *parts in map(str.split, tests.split(",")):
            with open(os.path.join(ROOT, "tests/ops/%s.c" % name), encoding="utf-8") as source:
                names = re.findall(r"TEST\((\w+)\)", source.read())
            if name == "test_kinds":
                with open(os.path.join(ROOT, "kernels/kinds.c"), encoding="utf-8") as source:
                    names = re.findall(r"\"(\w+)\"", source.read())
            for part in parts:
                assert any(part in each for each in names), (name, part)


def kernels_are_tried_as_they_are_compiled():
    text = """#if SHAPE_CPU
a
#else
b
#ifdef KIND_IS_Q6_K
c
#endif
#if NVIDIA_MMA
d
#elif defined(KIND_IS_Q4_0) || \\
    defined(KIND_IS_Q4_1)
e
#endif
#endif
#if defined(KIND) && PIECES && !SHAPE_CPU
f
#endif
g
"""
    want = {"a": (["cpu"], []), "b": (["gpu"], []), "c": (["gpu"], ["Q6_K"]), "d": (["warps"] * mutate.WARPS_HERE, []), "e": (["gpu"], ["Q4_0", "Q4_1"]),
            "f": (["gpu"], []), "g": (["cpu", "gpu"], [])}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.cl")
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
        got = mutate.compiled_ways(path)
        assert {line: tuple(got[i]) for i, line in enumerate(text.split("\n")) if line in want and line} == want


def what_runs_the_line_is_tried():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "lines.json")
        measured = reach.Reach(path)
        measured.could = {"app/util/words.c": 1 << 4 | 1 << 9}
        for name, seconds, lines in (("test_words", 7, 1 << 4), ("test_full.py slow", 30, 1 << 4), ("test_full.py quick", 1, 1 << 4), ("test_pipes.py other", 1, 1 << 9),
                                     ("golden x ref", 2, 1 << 4)):
            measured.tests[name] = Test(name, [], ["python3", name] if ".py" in name else [name]), seconds, {"app/util/words.c": lines}
        measured.store(path)
        options = argparse.Namespace(reach=reach.Reach(path), budget=10)

    def tried(line, sanitized=False):
        site = Site("app/util/words.c", line, "edge", "", "")
        return [t.name for t in mutate.reached(mutate.Guards(ROOT), site, options, sanitized)]
    assert tried(4) == ["test_words", "test_full.py quick", "golden x ref"]  # its own first, then the quickest that fit
    assert tried(8) == tried(4)  # of a statement of several lines
    assert tried(9) == ["test_pipes.py other"] and tried(3) == []
    assert tried(4, True) == ["test_words"]  # half of the budget, what can be sanitized
    assert tried(9, True) == []


def says_which_test_caught_it():
    options = argparse.Namespace(quick=False, sanitized=False, wide=False)
    guards = mutate.Guards(ROOT)
    sites = {(s.old.strip(), s.new.strip()): s for s in mutate.sites_of(ROOT, SOURCE)}
    with tempfile.TemporaryDirectory(dir=os.path.join(ROOT, "build")) as folder:
        scratch = mutate.Scratch(ROOT, folder)
        scratch.copy()

        def outcome(site):
            o = mutate.attempt(scratch, site, guards, options)
            return o.verdict, o.by
        caught = sites["if (i == length)", "if (i != length)"]
        assert outcome(caught) == ("caught", "test_words")
        with open(os.path.join(ROOT, SOURCE), encoding="utf-8") as source:
            either = "    return a < b ? a : b;"
            at = source.read().split("\n").index(either) + 1
        assert outcome(Site(SOURCE, at, "edge", either, either.replace("<", "<="))) == ("survives", None)
        assert outcome(Site(SOURCE, caught.line, "turn", caught.old, "    if (")) == ("uncompiled", None)
        with open(os.path.join(folder, SOURCE), "rb") as there, open(os.path.join(ROOT, SOURCE), "rb") as here:
            assert there.read() == here.read()
        assert all(scratch.sound.values())


TESTS = [makes_each_kind, what_is_the_same_by_its_form_is_not_made, leaves_words_alone, the_seed_chooses, equivalents_are_still_there,
         earlier_survivors_are_found_where_they_stood, every_source_has_a_guard,
         parts_of_kernels_tests_are_there, kernels_are_tried_as_they_are_compiled, what_runs_the_line_is_tried, says_which_test_caught_it]


def main():
    failed = 0
    for test in TESTS:
        if len(sys.argv) > 1 and not any(part in test.__name__ for part in sys.argv[1:]):
            continue
        try:
            test()
            print("PASS " + test.__name__, flush=True)
        except AssertionError:
            sys.excepthook(*sys.exc_info())
            print("FAIL " + test.__name__, flush=True)
            failed += 1
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
