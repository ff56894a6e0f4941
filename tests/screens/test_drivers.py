#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What drivers do to the process that loads them: a library in their place has threads, handlers and destructors."""
import os
import re
import shutil
import signal
import subprocess
import time

from rig import *

SLOW = "load 100 100\n"  # ten seconds
LIBRARY = r"""
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void swallow(int number) { (void)number; }
static void *load(void *unused)
{
    static const int ours[] = {SIGQUIT, SIGABRT, SIGSEGV, SIGTERM};
    usleep(300000);
    for (int i = 0; i < 4; i++)
        signal(ours[i], swallow);
    return unused;
}
__attribute__((constructor)) static void begin(void)
{
    pthread_t thread;
    if (getenv("DRIVER_HANDLERS") && pthread_create(&thread, NULL, load, NULL) == 0)
        pthread_detach(thread);
}
// With the first thread that the program begins, which is while it opens its model.
int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *of)
{
    int (*begin)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = dlsym(RTLD_NEXT, "pthread_create");
    static int done;
    if (getenv("DRIVER_AT_THREAD") && !done++)
        signal(SIGQUIT, swallow);
    return begin(thread, how, run, of);
}
static int threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int count = -2; // . and ..
    while (tasks && readdir(tasks))
        count++;
    if (tasks)
        closedir(tasks);
    return count;
}
// As LLVM's: what it destroys, a thread that still compiles uses. One that was joined is listed for a moment more.
__attribute__((destructor)) static void end(void)
{
    for (int looks = 0; threads() > 1; looks++) {
        if (looks == 100)
            abort();
        usleep(10000);
    }
}
"""


def driver(**more):
    source, library = os.path.join(SCRATCH, "driver.c"), os.path.join(SCRATCH, "driver.so")
    if not os.path.exists(library):
        with open(source, "w") as out:
            out.write(LIBRARY)
        subprocess.run(["cc", "-shared", "-fPIC", "-pthread", "-o", library, source], check=True)
    return environment(LD_PRELOAD=library, **more)


def test_stopping_while_it_loads_destroys_nothing():
    for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)):
        for kind in (Terminal, Screen):
            chat = kind(["--no-session"] + (["--plain"] if kind is Terminal else []) + script(SLOW), env=driver())
            chat.wait("100")
            chat.process.send_signal(number)
            same((kind, number, chat.finish()), (kind, number, status))
            same(chat.settings(), chat.before)
        answer = Terminal(["run", "-p", "x"] + script(SLOW), env=driver())
        answer.wait("100")
        answer.process.send_signal(number)
        same((number, answer.finish()), (number, status))


def test_the_first_signal_counts_after_a_driver_came():
    loads = "load 10 60\nturn\ntext here\nhang\n"
    for number in (signal.SIGQUIT, signal.SIGABRT, signal.SIGTERM):
        ends = {signal.SIGTERM: 143, signal.SIGQUIT: 131}.get(number, -number)
        for kind in (Terminal, Screen):
            chat = kind(["--no-session"] + (["--plain"] if kind is Terminal else []) + script(loads),
                        env=driver(DRIVER_HANDLERS="1"))
            chat.wait("\x1b[1mYou:" if kind is Terminal else "\x1b[?2004h")
            time.sleep(1)
            chat.process.send_signal(number)
            same((kind, number, chat.finish()), (kind, number, ends))
            same(chat.settings(), chat.before)
        answer = Terminal(["run", "-p", "x"] + script(loads), env=driver(DRIVER_HANDLERS="1"))
        answer.wait("here")
        answer.process.send_signal(number)
        same((number, answer.finish()), (number, ends))


def test_a_quit_counts_while_a_driver_loads():
    """When the driver's handlers are there and no progress has come since."""
    loads = "load 1 2000\nturn\ntext here\n"
    for kind in (Terminal, Screen):
        chat = kind(["--no-session"] + (["--plain"] if kind is Terminal else []) + script(loads), env=driver(DRIVER_HANDLERS="1"))
        chat.wait("\x1b[?2004h")
        time.sleep(0.8)
        chat.process.send_signal(signal.SIGQUIT)
        same((kind, chat.finish()), (kind, 131))
    process = subprocess.Popen([PROGRAM, "run", "-p", "x"] + script(loads), env=driver(DRIVER_HANDLERS="1"), stdout=subprocess.PIPE)
    time.sleep(0.8)
    process.send_signal(signal.SIGQUIT)
    same((process.communicate(timeout=DEADLINE)[0], process.returncode), (b"", 131))


def test_a_quit_that_is_ignored_stays_so():
    """As who started the chat had it, though faults restore the terminal and a driver brings a handler of its own."""
    for kind in (Terminal, Screen):
        chat = kind(["--no-session"] + (["--plain"] if kind is Terminal else []) + script("load 10 60\nturn\ntext here\nhang\n"),
                    env=driver(DRIVER_HANDLERS="1"), shell="""trap '' QUIT; exec "$0" "$@" """)
        chat.wait("\x1b[1mYou:" if kind is Terminal else "\x1b[?2004h")
        time.sleep(1)
        chat.send("go\r")
        chat.wait("here")
        for _ in range(2):  # the second of those that are caught ends the process at once
            chat.process.send_signal(signal.SIGQUIT)
        time.sleep(0.3)
        chat.interrupt()
        chat.wait("Stopped; what it said is kept")
        time.sleep(0.3)
        chat.send("\x04")
        same((kind, chat.finish()), (kind, 0))
        same(chat.settings(), chat.before)


def test_eval_heeds_the_first_quit_after_a_driver_came():
    library = driver(DRIVER_AT_THREAD="1")
    text = os.path.join(SCRATCH, "long.txt")
    with open(text, "w") as out:
        out.write("The quick brown fox. " * 190)
    args = [PROGRAM, "eval", "--device", "ref", "--text", text, "--logits", os.path.join(SCRATCH, "logits")]
    process = subprocess.Popen(args, env=library, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    end = time.monotonic() + DEADLINE
    while not [n for n in os.listdir(SCRATCH) if n.startswith("logits")]:
        expect(time.monotonic() < end and process.poll() is None, "no output was begun: %r" % process.poll())
        time.sleep(0.02)
    process.send_signal(signal.SIGQUIT)
    process.communicate(timeout=DEADLINE)
    same(process.returncode, 131)


def test_kernels_that_others_may_write_are_not_run():
    """PoCL loads the libraries of its cache whoever put them there."""
    cache = os.path.join(SCRATCH, "shared-cache")
    folder = os.path.join(cache, "pocl", "kcache")
    os.makedirs(folder, mode=0o700)
    command = ["run", "-p", "hi", "--max-tokens", "1", "--model", os.path.join(ROOT, "models", "demo"), "--device", "cpu"]
    for place, mode, env in ((folder, 0o770, {"XDG_CACHE_HOME": cache}), (os.path.dirname(folder), 0o702, {"XDG_CACHE_HOME": cache}),
                             (folder, 0o777, {"POCL_CACHE_DIR": folder})):
        os.chmod(place, mode)
        result = run(command, env=environment(**env))
        os.chmod(place, 0o700)
        said = result.stderr.decode()
        same((result.returncode, result.stdout), (3, b""))
        expect("%s: can be written to by others, and PoCL would run the kernels in there: chmod go-w" % place in said, said)
    if os.geteuid() == 0:
        os.chown(folder, 12345, -1)
        said = run(command, env=environment(XDG_CACHE_HOME=cache)).stderr.decode()
        expect("%s: belongs to another user, and PoCL" % folder in said, said)


def test_torn_kernels_are_built_anew():
    """What a power cut has torn of PoCL's files: each start would end in a crash, or compute wrongly."""
    command = ["run", "-p", "hi", "--max-tokens", "3", "--temp", "0", "--model", os.path.join(ROOT, "models", "demo"), "--device", "cpu"]
    kept = os.environ.get("XDG_CACHE_HOME") or os.path.join(ROOT, "build", "cache")
    whole = run(command, env=environment(XDG_CACHE_HOME=kept))
    same(whole.returncode, 0)
    cache = os.path.join(kept, "pocl", "kcache")
    mine = os.path.join(SCRATCH, "torn", "pocl", "kcache")
    os.makedirs(mine, mode=0o700)
    for name in os.listdir(cache): # the programs that lists have, of which one is the demo's
        if name.startswith("moechat-") and name.endswith(".list"):
            with open(os.path.join(cache, name), "rb") as file:
                listed = file.read()
            if b"matvec_call" not in listed:
                continue
            for program in set(re.findall(rb"([A-P]{2}/[A-P]+)/program.bc", listed)):
                folder = program.decode()
                shutil.copytree(os.path.join(cache, folder), os.path.join(mine, folder), dirs_exist_ok=True)
            shutil.copy(os.path.join(cache, name), mine)
    torn = [os.path.join(at, n) for at, _, names in os.walk(mine) for n in names if n in ("embed.so", "matvec_call.so")]
    expect(len(torn) >= 2, torn)
    for path in torn:
        with open(path, "r+b") as file:
            file.truncate(os.path.getsize(path) // 2)
    for first in (True, False):
        result = run(command, env=environment(XDG_CACHE_HOME=os.path.join(SCRATCH, "torn")))
        same((result.returncode, result.stdout), (0, whole.stdout))
        said = r"moechat: [2-9] of the files that PoCL keeps of kernels in %s were damaged: removed, and built anew\n" % mine
        expect(re.fullmatch(said, result.stderr.decode()) if first else result.stderr == b"", result.stderr)
        same([n for n in os.listdir(mine) if n.endswith(".building")], [])


if __name__ == "__main__":
    main(globals())
