#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Holds tests/README.md to what there is: each module stands in the table of its room, and only what is there does; each
# test that is named exists, and each that exists is named. Each source opens with a line on what it is for. Prints PASS or FAIL lines as the test programs do.
cd "$(dirname "$0")/.." || exit 1
{
    find kernels engine tokenizer app -name '*.c' -o -name '*.cc' | sed 's/^/module /; s/\.cc*$//'
    find tests -name 'test_*.c' -o -name 'test_*.py' -o -name 'fuzz_*.c' |
        sed 's|.*/|test |; s/\.[a-z]*$//'
    find kernels engine tokenizer app tests -name '*.c' -o -name '*.cc' -o -name '*.cl' |
        xargs awk 'FNR == 2 && !/^\/\/ / { print "silent " FILENAME }'
    sed 's/^/table /' tests/README.md
} | awk '
function broken(which, what) { bad[which]++; print "  " what }
$1 == "module" { modules[$2] = 1; n_modules++ }
$1 == "test" { tests[$2] = 1; n_tests++ }
$1 == "silent" { broken(5, $2 ": its second line does not say what it is for") }
$1 == "table" && $2 == "###" { room = $3 }
$1 == "table" && $2 ~ /^##$/ { room = "" }
$1 == "table" && /^table \|/ && room {
    split($0, columns, "|")
    n = split(columns[2], names, /[ ,]+/)
    for (i = 1; i <= n; i++)
        if (names[i] ~ /^[a-z0-9_]+$/ && names[i] != "module")
            listed[room "/" names[i]]++
    covers = columns[3]
    if (columns[2] !~ /module|---/ && covers !~ /[a-z]/)
        broken(2, room ":" columns[2] "has no test")
}
$1 == "table" {
    line = $0
    while (match(line, /(test|fuzz)_[a-z0-9_]+/)) {
        named[substr(line, RSTART, RLENGTH)] = 1
        line = substr(line, RSTART + RLENGTH)
    }
}
END {
    for (path in modules)
        if (listed[path] != 1)
            broken(1, path ".c: " (listed[path] ? "stands twice" : "is in no table of tests/README.md"))
    for (path in listed)
        if (!(path in modules))
            broken(1, path ": is no module any more")
    for (test in named)
        if (!(test in tests) && test != "test_x")
            broken(3, test ": is no test")
    for (test in tests)
        if (!(test in named))
            broken(4, test ": is not named in tests/README.md")
    n = split("modules: each in the table of its room|tests: each module has some|named: each test is there|" \
              "there: each test is named|purpose: each source says what it is for", rule, "|")
    for (i = 1; i <= n; i++) {
        wrong = bad[i] || n_modules < 100 || n_tests < 50
        print (wrong ? "FAIL" : "PASS") " covered " rule[i]
        failed += wrong
    }
    exit failed > 0
}'
