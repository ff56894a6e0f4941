#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Writes the pictures of this folder: the chat with the demo model, as tmux shows it in 100 x 30 cells. The cache is
# smaller than the experts, so that there is something to see in the figures.
cd "$(dirname "$0")/../.." || exit 1
home=$(mktemp -d) && trap 'tmux -L pictures kill-server 2>/dev/null; rm -rf "$home"' EXIT
screen() { tmux -L pictures "$@"; }
wait_for() { # words on the screen
    for _ in $(seq 600); do
        screen capture-pane -p | grep -q "$1" && return
        sleep 0.1
    done
    echo "no \"$1\" came" >&2
    exit 1
}
picture() { screen capture-pane -p | sed 's/ *$//' >"docs/screens/$1.txt"; }

screen -f /dev/null new-session -d -x 100 -y 30 \
    "env HOME=$home LANG=C.UTF-8 ./moechat --config none --seed 3 --expert-cache 8M --session pictures"
wait_for 'idle'
screen send-keys 'My name is Ada and I like chess.' Enter
wait_for 'tokens/s)'
screen send-keys 'What do I like?' Enter
sleep 1
wait_for ' idle'
picture chat
screen send-keys M-s && wait_for 'since start' && picture stats
screen send-keys M-s && wait_for 'uses in this turn' && picture heat
screen send-keys M-s M-s && sleep 0.3 && screen send-keys '/help temp' Enter && wait_for 'Options of' && picture help
screen send-keys Escape C-d
