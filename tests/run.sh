#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Runs test programs and scripts and counts their "PASS name" and "FAIL name" lines. A program that ends badly, or says
# neither, is a failure of its own; "SKIP why" lines are shown. The last line is "N passed, N failed", with what was
# skipped if anything was; the status is 0 only if something passed and nothing failed.
#
#     tests/run.sh COMMAND...        each a program or script, with its arguments in the same word
#
# MOECHAT_PROGRAM names the moechat that screen tests start (default: ./moechat). What runs over LIMIT seconds is ended.
LIMIT=${LIMIT:-600}
passed=0 failed=0 skipped=0 more=
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
    s=$(grep -ac '^SKIP ' "$output")
    if [ "$f" -eq 0 ] && { [ "$status" -ne 0 ] || [ "$((p + s))" -eq 0 ]; }; then
        echo "FAIL $program (status $status, $p passed)" >>"$output"
        f=1
    fi
    if [ "$f" -gt 0 ]; then
        echo "==== $program"
        grep -av '^PASS ' "$output"
    elif [ "$s" -gt 0 ]; then
        grep -a '^SKIP ' "$output"
    fi
    echo "$program: $p passed, $f failed, $(($(date +%s) - began)) s"
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done
[ "$skipped" -eq 0 ] || more=", $skipped skipped"
echo "$passed passed, $failed failed$more"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
