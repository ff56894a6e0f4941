#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# embed.sh DIR: writes, to standard output, a C file that holds the OpenCL program of DIR: args.h, tiling.h, rows.h,
# prelude.cl, quant.cl and then every other .cl file, as `const char kernels_text[]` (nul-terminated) of kernels_text_bytes bytes.
# A char array, not a string: C11 promises no literal longer than 4095 characters.
set -eu
dir=$1

program() {
    for name in args.h tiling.h rows.h prelude.cl quant.cl; do
        printf '#line 1 "%s"\n' "$name"
        cat "$dir/$name"
    done
    for file in "$dir"/*.cl; do
        name=${file##*/}
        case $name in prelude.cl | quant.cl) continue ;; esac
        printf '#line 1 "%s"\n' "$name"
        cat "$file"
    done
}

if program | grep -n '^ *# *define.*\.\.\.'; then
    echo "embed.sh: macros with '...' are refused by NVIDIA's compiler of OpenCL C" >&2
    exit 1
fi
echo '// Made by kernels/embed.sh. Do not edit.'
echo '#include <stddef.h>'
echo 'extern const char kernels_text[];'
echo 'extern const size_t kernels_text_bytes;'
echo 'const char kernels_text[] = {'
# An include of a header that stands above already would need a file: leave it out.
program | sed '/^#include "/d' | od -An -v -t u1 |
    awk '{ line = ""; for (i = 1; i <= NF; i++) line = line $i ","; print line }'
echo '0};'
echo 'const size_t kernels_text_bytes = sizeof kernels_text - 1;'
