#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# The house's one-way includes. A file may include headers of its own room, of the rooms that stand before it in its own
# house, and the faces of other houses: app -> engine/moe.h, tokenizer/tok.h; engine -> kernels/gpu.h, args.h, kinds.h,
# numbers.h. Since the order is strict, no rooms include each other in a circle. Prints PASS or FAIL lines as the test
# programs do.
cd "$(dirname "$0")/.." || exit 1

find kernels engine tokenizer app -name '*.[ch]' -o -name '*.cc' | sort | xargs grep -nHE '^ *# *include *[<"]' | awk '
BEGIN {
    n = split("kernels tokenizer " \
              "engine/base engine/files engine/experts engine/walk engine/convert engine/model engine/session " \
              "app/util app/store app/figures app/driver app/view app/options app/talk app/term app/subcommands app", order, " ")
    for (i = 1; i <= n; i++)
        place[order[i]] = i
    place["engine"] = place["engine/base"] # the face itself: sees nothing of the engine
    faces["engine"] = " kernels/gpu.h kernels/args.h kernels/kinds.h kernels/numbers.h "
    faces["app"] = " engine/moe.h tokenizer/tok.h "
    rules = "rooms: each file stands in a room|faces: other houses by their face|order: rooms below only|" \
            "root: includes name their room|OpenCL: in kernels only|terminal: curses and readline in app/term only"
    n_rules = split(rules, rule, "|")
}
function house(path) { sub("/.*", "", path); return path }
function room(path) { sub("/[^/]*$", "", path); return path }
function broken(which) { bad[which]++; print "  " $0 }
{
    split($0, at, ":")
    from = at[1]
    header = $0
    sub(/.*# *include *[<"]/, "", header)
    sub(/[>"].*/, "", header)
    own = $0 ~ /include *"/
    n_includes++
    if (!(room(from) in place))
        broken(1)
    if (header ~ /^CL\// && house(from) != "kernels")
        broken(5)
    if (header ~ /^(n?cursesw?|term|readline)[.\/]/ && room(from) != "app/term")
        broken(6)
    if (!own)
        next
    to = room(header)
    if (!(to in place)) {
        broken(4)
    } else if (house(from) != house(header)) {
        # The commands that are about devices alone may speak to them.
        devices = header == "kernels/gpu.h" && from ~ /^app\/subcommands\/cmd_(bench|devices|kernels)\.c$/
        if (!devices && !index(faces[house(from)], " " header " "))
            broken(2)
    } else if (header != "engine/moe.h" && place[to] > place[room(from)]) {
        broken(3)
    }
}
END {
    for (i = 1; i <= n_rules; i++) {
        print (bad[i] || n_includes < 100 ? "FAIL" : "PASS") " layers " rule[i]
        failed += bad[i] || n_includes < 100
    }
    exit failed > 0
}'
