#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the full screen costs: echo of keys while the CPU decodes, bytes a frame, idle CPU, keys in a 5 MB chat.
Prints each figure with its limit and ends with 1 when one is over it."""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "screens"))
from rig import *

over = False


def tell(what, value, limit, unit):
    global over
    over = over or value > limit
    print("%-58s %9.2f %s (limit %g)%s" % (what, value, unit, limit, "  OVER" if value > limit else ""), flush=True)


def start(args, **env):
    s = Screen(["--no-session"] + args, env=environment(TERM="linux", **env), columns=100, rows=40)
    s.until(" idle ")
    return s


def ticks(process):
    with open("/proc/%d/stat" % process.pid) as stat:
        fields = stat.read().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def echo(s, count, keys=b"abcdefghijklmnopqrstuvwxyz"):
    """Seconds until each key is seen, the shown cursor's place telling."""
    times = []
    for i in range(count):
        key = keys[i % len(keys):i % len(keys) + 1]
        began, seen = time.monotonic(), len(s.output)
        s.send(key)
        while key not in s.output[seen:] and time.monotonic() - began < 5:
            Terminal.read(s, 0.005)
        times.append(time.monotonic() - began)
        time.sleep(0.02)
    return sorted(times)


def percentile(times, share):
    return 1e3 * times[min(len(times) - 1, int(share * len(times)))]


def main():
    kernels = os.environ.get("XDG_CACHE_HOME", os.path.join(ROOT, "build", "cache")) + "/moechat/kernels"
    demo = ["-m", os.path.join(ROOT, "models", "demo"), "--kernel-cache", kernels]
    print("load average %s" % open("/proc/loadavg").read().split()[0])

    # One answer ends too soon: queues of messages keep it decoding.
    s = start(demo + ["--temp", "1.5", "--seed", "1"])
    times = []
    for _ in range(8):
        s.send("\x15/new\r" + "Tell me a story.\r" * 14)
        s.until(lambda t: " queued" in t.text() or "queue is full" in t.text(), quiet=False)
        times += echo(s, 25)
    times.sort()
    tell("echo while the CPU decodes, 99th of 200 keys", percentile(times, 0.99), 50, "ms")
    tell("echo while the CPU decodes, median", percentile(times, 0.5), 40, "ms")
    s.interrupt()
    s.send("\x15\x15")
    s.process.terminate()
    s.finish()

    words = 400
    s = start(script("turn\ndelay 40\ntext " + " word" * words + "\n"), MOECHAT_CLOCK="fake")
    s.send("go\r")
    s.until("word", quiet=False)
    seen, began = len(s.output), time.monotonic()
    time.sleep(5)
    while Terminal.read(s, 0):
        pass
    tell("bytes sent a streamed word", (len(s.output) - seen) / (5 / 0.04), 200, "bytes")
    s.process.terminate()
    s.finish()

    s = start(script("turn\necho\n"))
    before = ticks(s.process)
    time.sleep(10)
    tell("CPU while idle", 100 * (ticks(s.process) - before) / 10, 0.5, "%")
    s.process.terminate()
    s.finish()

    line = "A line of text with some **bold** words and `code`, long enough to wrap around the edge of the screen once. " * 2
    s = start(script("context 65000\nturn\n" + "".join("token %s\\n\n" % line for _ in range(24000))))
    s.send("go\r")
    s.until(" idle ")
    before = ticks(s.process)
    times = echo(s, 200)
    tell("CPU a key in a chat of 5 MB", 1e3 * (ticks(s.process) - before) / 200, 5, "ms")
    before = ticks(s.process)
    for _ in range(100):
        s.send("\x1b[5~")
        Terminal.read(s, 0.04)
    tell("CPU a page up in it", 1e3 * (ticks(s.process) - before) / 100, 5, "ms")
    s.process.terminate()
    s.finish()
    sys.exit(over)


if __name__ == "__main__":
    main()
