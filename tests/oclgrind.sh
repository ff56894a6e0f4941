#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# The tests of the ops, odd sizes and all, on oclgrind's simulated device: reads and writes out of bounds, and data races
# between work-items. Prints PASS, FAIL or SKIP lines. By `make oclgrind`: hours, for it interprets every instruction.
#
#     tests/oclgrind.sh [PROGRAM [TEST...]]       one of tests/ops, and tests of it by part of their names
#
# Debian's oclgrind 21.10 knows fewer of LLVM's intrinsics than its compiler makes of inlined functions and optimised
# code: without both it knows all.
cd "$(dirname "$0")/.." || exit 1
command -v oclgrind >/dev/null || {
    echo "SKIP no oclgrind (Debian: apt install oclgrind)"
    exit 0
}
programs=${1:-test_ops test_bits test_experts test_fused test_mixers test_index test_hyper test_bank}
[ $# -eq 0 ] || shift
said=$(mktemp) || exit 1
cache=$(mktemp -d) || exit 1
trap 'rm -rf "$said" "$cache"' EXIT
export XDG_CACHE_HOME="$cache" MOECHAT_CONFIG=none
failed=0
for program in $programs; do
    for shape in cpu gpu; do
        MOECHAT_TEST_SHAPE=$shape oclgrind --local-mem-size 131072 --max-errors 20 --data-races --build-options \
            "-Dalways_inline=noinline -cl-opt-disable" "build/tests/ops/$program" "$@" >"$said" 2>&1
        status=$?
        if [ $status -eq 0 ] && grep -q '^PASS ' "$said" && ! grep -Eq '^(Invalid|.*data race|Oclgrind:|OCLGRIND)' "$said"; then
            echo "PASS oclgrind $program $shape ($(grep -c '^PASS ' "$said") tests)"
        else
            echo "FAIL oclgrind $program $shape (status $status)"
            head -80 "$said"
            failed=1
        fi
    done
done
exit $failed
