#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# The house's one-way includes: app -> engine/moe.h, tokenizer/tok.h; engine -> kernels/gpu.h (and its args.h);
# kernels -> OpenCL; tokenizer -> its libraries. Prints PASS or FAIL lines as the test programs do.
cd "$(dirname "$0")/.." || exit 1
failed=0

# forbid NAME PATTERN FILE...: no file may have an include that matches
forbid() {
    name=$1 pattern=$2
    shift 2
    if grep -nE "^ *# *include *[<\"]($pattern)[>\"]" "$@" /dev/null; then
        echo "FAIL layers $name"
        failed=1
    else
        echo "PASS layers $name"
    fi
}
headers() { # of a room, but those that are its face
    room=$1 face=$2
    for h in "$room"/*.h; do basename "$h"; done | grep -vxE "$face" | sed 's/\./\\./' | paste -sd'|'
}
sources() { ls "$1"/*.[ch] "$1"/*.cc 2>/dev/null; }

engine=$(headers engine 'moe\.h')
kernels=$(headers kernels 'gpu\.h')
tokenizer=$(headers tokenizer 'tok\.h')
app=$(headers app 'none')
# shellcheck disable=SC2046
{
    forbid 'OpenCL only in kernels' 'CL/.*' $(sources engine) $(sources tokenizer) $(sources app)
    forbid 'app sees only moe.h, tok.h' "$engine|$kernels|$tokenizer" $(sources app)
    forbid 'only bench and devices see gpu.h' 'gpu\.h' $(sources app | grep -vE 'cmd_(bench|devices)\.c')
    forbid 'engine sees gpu.h, args.h' "$(headers kernels '(gpu|args)\.h')|$tokenizer|tok\.h|$app" $(sources engine)
    forbid 'kernels see nobody' "$engine|moe\.h|$tokenizer|tok\.h|$app" $(sources kernels)
    forbid 'tokenizer sees nobody' "$engine|moe\.h|$kernels|gpu\.h|$app" $(sources tokenizer)
    forbid 'curses and readline behind the wall' '(n?curses|ncursesw|readline)[/.].*' \
        $(sources app | grep -vE 'app/(tui|term|prompt)\.') $(sources engine) $(sources kernels) $(sources tokenizer)
}
exit $failed
