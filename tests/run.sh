#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Runs test programs and scripts and counts their "PASS name" and "FAIL name" lines. A program that ends badly, or says
# neither, is a failure of its own; "SKIP why" lines are shown, and counted in a line before the last. What failed is said
# again at the end, for a log of an hour is often kept by its end alone. Each is followed by the seconds that it took and those
# that it, and whatever it waited for, computed. The last line is "N passed, N failed"; the status
# is 0 only if something passed and nothing failed.
#
#     tests/run.sh COMMAND...        each a program or script, with its arguments in the same word
#
# LANES (2) of them run side by side, taken in the order given; with LANES=1 one after the other. A word "--waiting A B C"
# stands for programs that wait more than they compute: when its turn comes they run one after the other in one lane
# more, which ends with them. What runs over LIMIT seconds is ended. MOECHAT_PROGRAM names the moechat that screen tests
# start (default: ./moechat).
LIMIT=${LIMIT:-600}
LANES=${LANES:-2}
export LIMIT

# One program: its report goes to standard output in one piece, its counts to a line of the file `counts`.
run_one() {
    results=$1 program=$2
    output=$(mktemp "$results/XXXXXX") || exit 1
    began=$(date +%s)
    times >"$output.before"
    case $program in
    *.py) timeout -k 5 "$LIMIT" python3 "$program" >"$output" 2>&1 ;;
    *.sh) timeout -k 5 "$LIMIT" sh "$program" >"$output" 2>&1 ;;
    *) timeout -k 5 "$LIMIT" sh -c "exec $program" >"$output" 2>&1 ;;
    esac
    status=$?
    times >"$output.after"
    computed=$(awk -F '[ms ]+' 'FNR == 2 { t = 60 * ($1 + $3) + $2 + $4; s = NR == 2 ? -t : s + t } END { printf "%.1f", s }' "$output.before" "$output.after")
    p=$(grep -ac '^PASS ' "$output")
    f=$(grep -ac '^FAIL ' "$output")
    s=$(grep -ac '^SKIP ' "$output")
    if [ "$f" -eq 0 ] && { [ "$status" -ne 0 ] || [ "$((p + s))" -eq 0 ]; }; then
        echo "FAIL $program (status $status, $p passed)" >>"$output"
        f=1
    fi
    {
        flock 9
        if [ "$f" -gt 0 ]; then
            echo "==== $program"
            grep -av '^PASS ' "$output"
            { echo "$program" && grep -av '^PASS ' "$output" | tail -n 12 | cut -c 1-300; } >>"$results/failures"
        elif [ "$s" -gt 0 ]; then
            grep -a '^SKIP ' "$output"
        fi
        echo "$program: $p passed, $f failed, $(($(date +%s) - began)) s, $computed computed"
        echo "$p $f $s" >>"$results/counts"
    } 9>"$results/lock"
    rm -f "$output" "$output.before" "$output.after"
}
# Those of "--waiting A B C", in a lane that our parent xargs adds and takes away again by these signals.
run_waiting() {
    results=$1
    shift
    [ "$LANES" -eq 1 ] || kill -USR1 $PPID
    for each; do
        run_one "$results" "$each"
    done
    [ "$LANES" -eq 1 ] || kill -USR2 $PPID
}
if [ "$1" = --one ]; then
    case $3 in
    "--waiting "*) run_waiting "$2" ${3#--waiting } ;;
    *) run_one "$2" "$3" ;;
    esac
    exit 0
fi

results=$(mktemp -d) || exit 1
trap 'rm -rf "$results"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
[ $# -eq 0 ] || printf '%s\0' "$@" | xargs -r -0 -n 1 -P "$LANES" sh "$0" --one "$results" || exit 1
touch "$results/counts"
asked=0
for each; do
    case $each in
    "--waiting "*) set -- ${each#--waiting } && asked=$((asked + $#)) ;;
    *) asked=$((asked + 1)) ;;
    esac
done
if [ -s "$results/failures" ]; then
    echo "==== once more, what failed"
    cat "$results/failures"
fi
# A lane that died counts nothing: then fewer programs are told of than were asked for.
awk -v asked=$asked '
{ passed += $1; failed += $2; skipped += $3 }
END {
    if (NR != asked) {
        print "FAIL " asked - NR " programs did not report"
        failed++
    }
    if (skipped)
        print skipped " skipped"
    print passed + 0 " passed, " failed + 0 " failed"
    exit failed || !passed
}' "$results/counts"
