#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# What is checked and measured on a machine with a GPU: every op against ref.c, the goldens at each chunk, sessions, bench.
# Usage: tests/bench/gpu.sh BUILD DEVICE, from the root of the tree; BUILD holds the built tests, DEVICE is a selector.
build=$1 device=$2
set -u
"$build/moechat" devices
"$build/tests/ops/test_ops"
for golden in tests/golden/*/golden.json; do
    "$build/tests/golden/golden" "${golden%/golden.json}" --device "$device" --chunk 1 --chunk 7 --chunk 64 --chunk 0
done
"$build/moechat" bench --device "$device"
for cache in 344K 8M all; do
    "$build/moechat" run --device "$device" --expert-cache "$cache" --seed 1 --temp 0.7 --json -p 'Tell me a story about a cat.'
done
