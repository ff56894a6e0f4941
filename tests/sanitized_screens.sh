#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# What people type at the lines and at the full screen, to the program that `make asan-tests` has built: a byte read behind
# an array ends it, and so does memory that nothing holds any more. Sessions, too, where branches, lists and exports are
# walked through, and what info says of GGUF files. Then the benchmarks. Arguments choose tests of the screens by part of their name.
cd "$(dirname "$0")/.." || exit 1
MOECHAT_PROGRAM=build/asan/moechat
ASAN_OPTIONS=intercept_tls_get_addr=0:use_sigaltstack=0
LSAN_OPTIONS=suppressions=$PWD/tests/leaks.txt:print_suppressions=0
export MOECHAT_PROGRAM ASAN_OPTIONS LSAN_OPTIONS
python3 tests/screens/test_chat.py "$@"
failed=$?
# readline makes room in steps of 256 bytes, and the sanitizer copies the line each time: a minute for 5 MB.
python3 tests/screens/test_full.py -longer_than_the_history "$@" || failed=1
python3 tests/screens/test_editor.py "$@" || failed=1
[ $# -eq 0 ] || exit $failed
python3 tests/screens/test_sessions.py branch undo tree export list || failed=1
python3 tests/screens/test_steps.py inspect || failed=1
python3 tests/screens/test_gguf.py info_says_what info_ends || failed=1
for more in "" "stream --only baseline --expert-cache 2M"; do
    said=$($MOECHAT_PROGRAM bench $more --model models/demo --device ref --runs 1 --prefill-tokens 3 --decode-tokens 2 2>&1)
    if [ $? -eq 0 ]; then
        echo "PASS bench${more:+ stream} leaves no memory"
    else
        echo "$said"
        echo "FAIL bench${more:+ stream} leaves no memory"
        failed=1
    fi
done
exit $failed
