#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# What is checked and measured on a machine with a GPU, each part within its time, results written as they come.
# Usage, from the root of the tree: tests/bench/gpu_stream.sh BUILD DEVICE OUT SCRATCH PART...
# BUILD holds moechat and the built tests, OUT takes the results, SCRATCH 40 GB of synthetic packages. Parts, in order:
#   make     writes the packages in the background
#   check    every op against ref.c, every golden, checkpoints as they are and converted
#   bench    the demo: tokens/s and the device's copy; every op by itself in the shapes of real models
#   pinned   which host memory is best to read into and to copy from
#   moonlight-disk  moonlight-ram  moonlight-host    Moonlight's shape, whole: from its disk, the page cache, host memory
#   moonlight-tiers  a cache of 15 % on the device and 30 % in host memory, with what is given up coming back and without
#   resident its tokens when every expert is there
#   prefill  a long prompt of it
#   shapes   V2-Lite and GLM-4.7-Flash whole, K2 with two layers: tokens/s and peak memory
#   v3-disk  v3-ram                                  DeepSeek-V3's shape, five layers of experts
# SMALL=1 tries it all out with tiny sizes.
set -u
build=$1 device=$2 out=$3 scratch=$4
shift 4
moechat=$build/moechat configs=tests/bench/configs
export XDG_CACHE_HOME="$scratch/cache" MOECHAT_CONFIG=none
mkdir -p "$out" "$scratch"
began=$(date +%s)
if [ "${SMALL:-0}" = 1 ]; then
    only=moonlight layers='--layers 3' few='--layers 3' v3='--layers 4' size='--prefill-tokens 8 --decode-tokens 2' long=16
    tier=64M host=128M answer=3 prompt=16
    most=60 quarter=200M cache=200M short=$size
else
    layers='' few='' v3='--layers 8' size='--prefill-tokens 256 --decode-tokens 12' long=2048 most=600
    tier=1200MB host=2400MB answer=100 prompt=512
    quarter=2GB cache=400MB short='--prefill-tokens 8 --decode-tokens 10' # 16 V3 experts: hardly one is hit
fi

say() { echo "[$(($(date +%s) - began)) s] $*" | tee -a "$out/progress.txt"; }

# within SECONDS FILE COMMAND...: appends what it prints to FILE, and says when it failed or was cut off.
within() {
    limit=$1 file=$out/$2
    shift 2
    echo "\$ $*" | sed "s|$scratch/||g; s|$build/||g" >>"$file"
    [ "$limit" -lt "$most" ] || limit=$most
    timeout "$limit" "$@" >>"$file" 2>&1
    status=$?
    [ $status -eq 0 ] || say "$file: status $status of $*"
}

# One package in the background; NAME.made appears when it is whole.
make_package() {
    name=$1 config=${only:-$2}
    shift 2
    [ -e "$scratch/$name.made" ] && return
    "$build/tests/bench/synthetic" "$configs/$config.json" "$scratch/$name" "$@" >"$scratch/$name.log" 2>&1 &&
        touch "$scratch/$name.made"
    cat "$scratch/$name.log" >>"$out/packages.txt"
}

await() {
    for i in $(seq 200); do
        [ -e "$scratch/$1.made" ] && break
        sleep 1
    done
    say "$1: $(tail -n 1 "$scratch/$1.log")"
    sync
}

machine() {
    uname -r
    nproc
    grep -E 'MemTotal|MemAvailable' /proc/meminfo
    df -h "$scratch"
    "$moechat" devices
}

one_golden() {
    case $1 in
    */ck-*) timeout 100 "$build/tests/golden/golden" "$1" --device "$2" --chunk 1 --chunk 0 --convert "$moechat" ;;
    *) timeout 100 "$build/tests/golden/golden" "$1" --device "$2" --chunk 1 --chunk 7 --chunk 64 --chunk 0 ;;
    esac >"$scratch/golden.$(basename "$1")" 2>&1 || echo "FAIL $1: status $?" >>"$scratch/golden.$(basename "$1")"
}

goldens() {
    started=0
    one_golden tests/golden/tiny-a "$device" # builds the kernels, once
    for golden in tests/golden/*/golden.json; do
        one_golden "${golden%/golden.json}" "$device" &
        started=$((started + 1))
        [ $((started % 6)) -ne 0 ] || wait
    done
    wait
    cat "$scratch"/golden.* >"$out/goldens.txt"
    say "goldens: $(grep -c ^PASS "$out/goldens.txt") passed, $(grep -c ^FAIL "$out/goldens.txt") failed"
}

stream() { # FILE SECONDS NAME OPTIONS...
    file=$1 limit=$2 name=$3
    shift 3
    within "$limit" "$file" "$moechat" bench stream -m "$scratch/$name" --device "$device" $size "$@"
    say "$name $*: done"
}

warm() { cat "$scratch/$1"/* >/dev/null; }

peak() { # FILE SECONDS COMMAND...: and its peak memory
    file=$1 limit=$2
    shift 2
    within "$limit" "$file" python3 -c 'import resource, subprocess, sys
status = subprocess.call(sys.argv[1:])
print("  peak memory %.2f GB" % (resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e9))
sys.exit(status)' "$@"
}

run_part() {
    case $1 in
    make)
        machine >"$out/machine.txt" 2>&1
        (make_package moonlight moonlight $layers) &
        (
            make_package v3 deepseek-v3 $v3 --distinct 2
            make_package v2-lite deepseek-v2-lite $few --distinct 4
            make_package glm glm-4.7-flash $few --distinct 4
            make_package k2 kimi-k2 --layers 3 --distinct 1
        ) &
        ;;
    check)
        within 120 test_ops.txt "$build/tests/ops/test_ops"
        within 120 test_ops.txt "$build/tests/ops/test_experts"
        within 120 test_ops.txt "$build/tests/ops/test_bits"
        say "ops: $(grep -c ^PASS "$out/test_ops.txt") passed, $(grep -c ^FAIL "$out/test_ops.txt") failed"
        (goldens)
        ;;
    bench)
        within 60 demo.txt "$moechat" bench -m models/demo --device "$device"
        within 60 demo.txt "$moechat" bench -m models/demo --device "$device" --json
        within 60 kernels.txt "$build/tests/bench/bench_kernels" --device "$device"
        ;;
    pinned)
        await moonlight
        within 60 pinned.txt "$build/tests/bench/bench_pinned" "$scratch/moonlight" "$device" 5
        # A lone expert of a layer, after a layer's compute.
        within 60 pinned.txt "$build/tests/bench/bench_pinned" "$scratch/moonlight" "$device" 5 1
        within 60 pinned.txt "$build/tests/bench/bench_pinned" "$scratch/moonlight" "$device" 5 1 300
        say "pinned: done"
        ;;
    moonlight-disk)
        await moonlight
        stream moonlight-disk.txt 300 moonlight --io direct --host-cache none --runs 1
        ;;
    moonlight-ram)
        await moonlight
        warm moonlight
        stream moonlight-ram.txt 200 moonlight --io buffered --host-cache none --runs 2
        ;;
    moonlight-host)
        await moonlight
        stream moonlight-host.txt 180 moonlight --io buffered --host-cache all --expert-cache $quarter --runs 2
        ;;
    moonlight-tiers)
        await moonlight
        within 240 moonlight-tiers.txt "$moechat" bench stream -m "$scratch/moonlight" --device "$device" --io direct \
            --expert-cache $tier --host-cache $host --runs 2 --prefill-tokens 32 --decode-tokens $answer \
            --only 'no prefetch,write'
        say "moonlight-tiers: done"
        ;;
    resident)
        await moonlight
        warm moonlight
        all="--prefill-tokens $prompt --decode-tokens $answer --expert-cache all --host-cache none"
        within 60 resident.txt "$moechat" bench -m "$scratch/moonlight" --device "$device" --runs 3 $all
        within 60 resident.txt "$moechat" bench -m "$scratch/moonlight" --device "$device" --runs 1 --profile $all
        stream resident.txt 300 moonlight --runs 3 $all \
            --only 'baseline,no prefetch,experts one by one,unfused,no resident layers,waits not split'
        ;;
    prefill)
        await moonlight
        for io in direct buffered; do
            within 60 prefill.txt "$moechat" bench -m "$scratch/moonlight" --device "$device" --io $io --runs 2 \
                --host-cache none --expert-cache $quarter --prefill-tokens $long --decode-tokens 1 --json
        done
        say prefill: done
        ;;
    shapes)
        for name in v2-lite glm k2; do
            await $name
            peak shapes.txt 60 "$moechat" bench -m "$scratch/$name" --device "$device" --runs 1 \
                --expert-cache $quarter --host-cache none --prefill-tokens 128 --decode-tokens 8
        done
        ;;
    v3-disk)
        await v3
        stream v3-disk.txt 340 v3 $short --io direct --host-cache none --runs 1 --expert-cache $cache
        ;;
    v3-ram)
        await v3
        warm v3
        stream v3-ram.txt 260 v3 $short --io buffered --host-cache none --runs 1 --expert-cache $cache
        ;;
    *)
        say "no part named $1"
        ;;
    esac
}

for part; do
    say "part $part"
    run_part "$part"
done
say finished
