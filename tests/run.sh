#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Runs test programs and scripts and counts their "PASS name" and "FAIL name" lines. A program that ends badly, or says
# neither, is a failure of its own. The last line is "N passed, N failed"; the status is 0 only if something passed and
# nothing failed.
#
#     tests/run.sh COMMAND...        each a program or script, with its arguments in the same word
#
# MOECHAT_PROGRAM names the moechat that screen tests start (default: ./moechat). What runs over LIMIT seconds is ended.
LIMIT=${LIMIT:-600}
passed=0 failed=0
output=$(mktemp) || exit 1
trap 'rm -f "$output"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

for program in "$@"; do
    began=$(date +%s)
    case $program in
    *.py) timeout -k 5 "$LIMIT" python3 "$program" >"$output" 2>&1 ;;
    *.sh) timeout -k 5 "$LIMIT" sh "$program" >"$output" 2>&1 ;;
    *) timeout -k 5 "$LIMIT" sh -c "exec $program" >"$output" 2>&1 ;;
    esac
    status=$?
    p=$(grep -ac '^PASS ' "$output")
    f=$(grep -ac '^FAIL ' "$output")
    if [ "$f" -eq 0 ] && { [ "$status" -ne 0 ] || [ "$p" -eq 0 ]; }; then
        echo "FAIL $program (status $status, $p passed)" >>"$output"
        f=1
    fi
    if [ "$f" -gt 0 ]; then
        echo "==== $program"
        grep -av '^PASS ' "$output"
    fi
    echo "$program: $p passed, $f failed, $(($(date +%s) - began)) s"
    passed=$((passed + p)) failed=$((failed + f))
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
