#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# What people type at the lines and at the full screen, to the program that `make asan-tests` has built: a byte read behind
# an array ends it. Arguments choose tests of these two by part of their name.
cd "$(dirname "$0")/.." || exit 1
MOECHAT_PROGRAM=build/asan/moechat
ASAN_OPTIONS=detect_leaks=0:intercept_tls_get_addr=0 # readline and curses keep what they have to their end
export MOECHAT_PROGRAM ASAN_OPTIONS
python3 tests/screens/test_chat.py "$@"
failed=$?
python3 tests/screens/test_full.py "$@" && exit $failed
