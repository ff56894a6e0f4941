#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Run the chain where one command may take SECONDS at most: it goes on in the background, so the same call again
# waits on. When it has ended, what is worth keeping is in OUT.
#     all.sh WORK OUT SECONDS [arguments of all.py]
set -eu
work=$1 out=$2 seconds=$3
shift 3
here=$(dirname "$0")
mkdir -p "$work" "$out"
if [ ! -e "$work/started" ]; then
    : > "$work/started"
    PYTHONUNBUFFERED=1 setsid sh -c '
        work=$1 here=$2; shift 2
        python3 "$here/all.py" --work "$work" "$@" > "$work/log.txt" 2>&1 < /dev/null
        echo $? > "$work/ended"' sh "$work" "$here" "$@" &
fi
while [ ! -e "$work/ended" ] && [ "$seconds" -gt 0 ]; do
    sleep 1
    seconds=$((seconds - 1))
done
grep -v -i warn "$work/log.txt" | tail -n 60
if [ -e "$work/ended" ]; then
    cp "$work/log.txt" "$out"
    python3 "$here/all.py" --work "$work" --collect "$out"
    exit "$(cat "$work/ended")"
fi
