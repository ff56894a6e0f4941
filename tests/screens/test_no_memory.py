#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every allocation that the program itself makes, one after the other, refused: what is saved can be read, and a status
of 0 means that all was done. (Of json-c's own, which it falls over at times, those are
tried that a session is read with, and a sample of a model's.)"""
import os
import resource
import shutil
import signal
import subprocess

from rig import *

ECHO = "turn\necho\n"
STORE = os.path.join(SCRATCH, "data", "moechat", "sessions")
LIBRARY = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
static atomic_long calls;
static long at = -1;
static uintptr_t begin, end;
static int find(struct dl_phdr_info *info, size_t size, void *library)
{
    (void)size;
    if (library && !strstr(info->dlpi_name, library))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
            begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            end = begin + info->dlpi_phdr[i].p_memsz;
        }
    return 1; // the first object is the program
}
__attribute__((constructor)) static void start(void)
{
    at = atol(getenv("REFUSE"));
    dl_iterate_phdr(find, getenv("REFUSE_IN"));
}
__attribute__((destructor)) static void count(void)
{
    FILE *out = fopen(getenv("REFUSE_COUNT"), "w");
    if (out && fprintf(out, "%ld", calls) > 0)
        fclose(out);
}
static int refused(void *caller)
{
    uintptr_t from = (uintptr_t)caller;
    if (from < begin || from >= end || atomic_fetch_add(&calls, 1) != at)
        return 0;
    errno = ENOMEM;
    return 1;
}
void *malloc(size_t n) { return refused(__builtin_return_address(0)) ? NULL : __libc_malloc(n); }
void *calloc(size_t a, size_t b) { return refused(__builtin_return_address(0)) ? NULL : __libc_calloc(a, b); }
void *realloc(void *p, size_t n) { return refused(__builtin_return_address(0)) ? NULL : __libc_realloc(p, n); }
char *strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = refused(__builtin_return_address(0)) ? NULL : __libc_malloc(size);
    return copy ? memcpy(copy, text, size) : NULL;
}
"""


def library():
    source, path = os.path.join(SCRATCH, "refuse.c"), os.path.join(SCRATCH, "refuse.so")
    if not os.path.exists(path):
        with open(source, "w") as out:
            out.write(LIBRARY)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", path, source], check=True)
    return path


def refusing(before, args, check, within=None, step=1):
    """Runs the command with its n-th allocation refused, for every n, each time after `before`."""
    count = os.path.join(SCRATCH, "count")
    n, statuses = 0, {}
    while True:
        before()
        env = environment(LD_PRELOAD=library(), REFUSE=str(n), REFUSE_COUNT=count)
        if within:
            env["REFUSE_IN"] = within
        result = run(args, env=env)
        falls = within == "libjson-c" and result.returncode == -signal.SIGSEGV  # over a name that it has no memory for
        expect(0 <= result.returncode <= 4 or falls, "allocation %d ends it with %d: %r" % (n, result.returncode, result.stderr))
        expect(result.returncode <= 0 or result.stderr + result.stdout, "allocation %d: nothing is said" % n)
        check(n, result)
        statuses[result.returncode] = statuses.get(result.returncode, 0) + 1
        with open(count) as file:
            calls = int(file.read())
        n += step
        if n >= calls and result.returncode == 0:
            break
    expect(n > 5 and len(statuses) > 1, "%d allocations, %r" % (n, statuses))


def fresh():
    shutil.rmtree(STORE, ignore_errors=True)
    same(run(["run", "-p", "one", "--session", "s"] + script(ECHO)).returncode, 0)


def held():
    """What the one session holds."""
    same([name for name in os.listdir(STORE) if not name.startswith(".")], ["s"])
    shown = run(["sessions", "show", "s"])
    same((shown.returncode, shown.stderr), (0, b""))
    return shown.stdout.decode().split("\n", 1)[1]


OLD = "You: one\nAssistant: one\n"
NEW = OLD + "You: two\nAssistant: two\n"


def test_a_session_is_as_before_or_as_after():
    def check(n, result):
        got = held()
        expect(got in (OLD, OLD + "You: two\n", NEW), "allocation %d left %r" % (n, got))
        expect(result.returncode or (got == NEW and result.stdout == b"two"), "allocation %d: %r %r" % (n, got, result.stdout))

    refusing(fresh, ["run", "-p", "two", "--session", "s"] + script(ECHO), check)


def test_sessions_are_listed_and_compacted_or_it_is_said():
    fresh()
    refusing(lambda: None, ["sessions", "list"],
             lambda n, r: expect(r.returncode or b"2 messages, 11 tokens" in r.stdout, "%d: %r" % (n, r.stdout)))
    refusing(lambda: None, ["sessions", "compact"], lambda n, r: same((n, held()), (n, OLD)))
    refusing(lambda: None, ["sessions", "show", "s"],
             lambda n, r: expect(r.returncode or OLD.encode() in r.stdout, "%d: %r" % (n, r.stdout)))


def test_what_json_c_leaves_out_of_a_session_is_noticed():
    shutil.rmtree(STORE, ignore_errors=True)
    # The byte is in a field that lines may lack.
    same(run(["run", "-p", "one", "--session", "s"] + script(b"turn\ntext a\xff\n")).returncode, 0)
    args = ["sessions", "export", "s", "json"]
    whole = run(args).stdout
    expect(b"61ff" in whole, "%r" % whole)
    refusing(lambda: None, args, lambda n, r: expect(r.returncode or r.stdout == whole, "%d: %r" % (n, r.stdout)), "libjson-c")


def test_a_model_answers_as_ever_or_says_why_not():
    # Every third of a GGUF's with its tokenizer, every 11th of a checkpoint's with states and banks.
    for model, step in (("gguf-chat", 3), ("ck-kimi-k3-chat", 11)):
        args = ["run", "--device", "ref", "-m", os.path.join(ROOT, "tests/golden", model, "checkpoint"), "-p", "one", "--temp", "0",
                "--max-tokens", "6", "--no-session"]
        answer = run(args).stdout

        def check(n, result):
            expect(result.returncode or result.stdout == answer, "%s, allocation %d: %r" % (model, n, result.stdout))
            expect(b"damaged" not in result.stderr and b"download" not in result.stderr, "allocation %d: %r" % (n, result.stderr))

        refusing(lambda: None, args, check, step=step)


def test_a_model_is_not_called_damaged():
    def check(n, result):
        for wrong in (b"JSON", b"download"):
            expect(wrong not in result.stderr, "allocation %d: %r" % (n, result.stderr))

    # A sample of json-c's own, those that it can do without falling over.
    refusing(lambda: None, ["info", os.path.join(ROOT, "tests", "golden", "tiny-a", "package")], check, "libjson-c", 37)


def test_a_driver_that_has_no_room_is_not_missing():
    def little():
        resource.setrlimit(resource.RLIMIT_AS, (256000000, 256000000))

    result = run(["run", "-m", os.path.join(ROOT, "models", "demo"), "--device", "cpu", "--max-tokens", "1", "hi"], preexec_fn=little)
    expect(result.returncode != 0 and b"memory" in result.stderr and b"install" not in result.stderr, "%r" % result.stderr)


if __name__ == "__main__":
    main(globals())
