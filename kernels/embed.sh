#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# embed.sh DIR: writes, to standard output, a C file that holds the OpenCL programs of DIR, as char arrays (nul-terminated)
# and their sizes. kernels_text, the program of all ops: what others need first, and then every other .cl file but kind_*.
# kind_text, the program that is built for each kind of matrix that the first doesn't know: the ops on matrices alone, with
# the kind_* files.
# A char array, not a string: C11 promises no literal longer than 4095 characters.
set -eu
dir=$1
first='args.h tiling.h rows.h prelude.cl ptx.cl quant.cl row_norm.cl'
kinds='kind_grids.h kind_units.cl kind_grid_units.cl kind_tables.cl kind_bytes.cl kind_planes.cl kind_rows.cl kind_words.cl kind_streams.cl kind_pairs.cl kind_pieces.cl kind_pieces_grid.cl kind_pieces_mlx.cl kind_pieces_end.cl kind_spans.cl'
teams='matvec_team.cl matvec_mma.cl'
matrices='embed.cl kind_dots.cl matvec_cpu.cl matvec_gpu.cl matmul_cpu.cl matmul_gpu.cl matmul_mma.cl q_prime_cpu.cl'

others() {
    for file in "$dir"/*.cl; do
        name=${file##*/}
        case " $first $teams " in *" $name "*) continue ;; esac
        case $name in kind_* | token*.cl) continue ;; esac
        echo "$name"
    done
}

# An include of a header that stands above already would need a file: leave it out.
array() {
    name=$1
    shift
    if (cd "$dir" && grep -n '^ *# *define.*\.\.\.' "$@" >&2); then
        echo "embed.sh: macros with '...' are refused by NVIDIA's compiler of OpenCL C" >&2
        exit 1
    fi
    echo "const char $name[] = {"
    for file in "$@"; do
        printf '#line 1 "%s"\n' "$file"
        cat "$dir/$file"
    done | sed '/^#include "/d' | od -An -v -t u1 |
        awk '{ line = ""; for (i = 1; i <= NF; i++) line = line $i ","; print line }'
    echo '0};'
    echo "const size_t ${name}_bytes = sizeof $name - 1;"
}

echo '// Made by kernels/embed.sh. Do not edit.'
echo '#include <stddef.h>'
echo 'extern const char kernels_text[], kind_text[];'
echo 'extern const size_t kernels_text_bytes, kind_text_bytes;'
array kernels_text $first $teams $(others) token.cl token_moe.cl token_mla.cl # which take functions of others'
array kind_text $first $kinds $teams $matrices
