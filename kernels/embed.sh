#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# embed.sh DIR: writes, to standard output, a C file that holds the OpenCL programs of DIR, as char arrays (nul-terminated)
# and their sizes. kernels_text, the program of all ops: what others need first, and then every other .cl file but kind_*.
# kind_text, the program that is built for each kind of matrix that the first doesn't know: the ops on matrices alone, with
# the kind_* files. A token's kernels for several kinds at once are of four texts: token_text, then for each kind
# token_names, token_kind_text and token_names_end, and token_last_text. What the kind's text defines has a name of its own
# in each, by SLOT: token_names says so of its functions, structs and tables, token_names_end forgets them and its macros.
# A char array, not a string: C11 promises no literal longer than 4095 characters.
set -eu
dir=$1
first='args.h tiling.h rows.h prelude.cl ptx.cl quant.cl row_norm.cl'
kinds='kind_grids.h kind_units.cl kind_grid_units.cl kind_tables.cl kind_bytes.cl kind_planes.cl kind_rows.cl kind_words.cl kind_streams.cl kind_lookups.cl kind_lookups_q2.cl kind_pairs.cl kind_pieces.cl kind_pieces_grid.cl kind_pieces_mlx.cl kind_pieces_end.cl kind_near.cl kind_spans.cl'
parts='route.cl append.cl merge.cl meet.cl'
teams='matvec_team.cl matvec_mma.cl'
states='delta.cl delta_token.cl'
slots='kind_units.cl kind_rows.cl kind_pairs.cl kind_pieces.cl kind_pieces_end.cl kind_near.cl kind_spans.cl matvec_team.cl matvec_mma.cl token_kind.cl'
matrices='embed.cl kind_dots.cl matvec_cpu.cl matvec_gpu.cl matmul_cpu.cl matmul_gpu.cl matmul_mma.cl q_prime_cpu.cl'

others() {
    for file in "$dir"/*.cl; do
        name=${file##*/}
        case " $first $parts $teams " in *" $name "*) continue ;; esac
        case $name in kind_* | token*.cl) continue ;; esac
        echo "$name"
    done
}

# Names of a kind's functions (some by a macro), structs, types and tables, and of its macros. struct team_space is the
# same for all.
slot_names() {
    echo scale_in sixteen_in eight_in | tr ' ' '\n'
    (cd "$dir" && cat $slots) | sed -n \
        -e 's/^\(INLINE\|static\) [^(]*[ *]\([a-z_0-9]*\)(.*/\2/p' -e 's/^struct \([a-z_]*\) {.*/\1/p' \
        -e 's/^typedef .* \([a-z_0-9]*\);/\1/p' | grep -vx 'team_space\|pick\|constant_8' | sort -u
}

slot_macros() {
    (cd "$dir" && cat $slots) | sed -n 's/^ *# *define \([A-Za-z_0-9]*\).*/\1/p' | sort -u
}

text() {
    echo "const char $1[] = {"
    od -An -v -t u1 | awk '{ line = ""; for (i = 1; i <= NF; i++) line = line $i ","; print line }'
    echo '0};'
    echo "const size_t ${1}_bytes = sizeof $1 - 1;"
}

# An include of a header that stands above already would need a file: leave it out.
array() {
    name=$1
    shift
    if (cd "$dir" && grep -n '^ *# *define.*\.\.\.' "$@" >&2); then
        echo "embed.sh: macros with '...' are refused by NVIDIA's compiler of OpenCL C" >&2
        exit 1
    fi
    for file in "$@"; do
        printf '#line 1 "%s"\n' "$file"
        cat "$dir/$file"
    done | sed '/^#include "/d' | text "$name"
}

echo '// Made by kernels/embed.sh. Do not edit.'
echo '#include <stddef.h>'
names='kernels_text kind_text token_text token_names token_kind_text token_names_end token_last_text'
for name in $names; do echo "extern const char $name[]; extern const size_t ${name}_bytes;"; done
array kernels_text $first $parts $teams $(others) token.cl token_moe.cl token_mla.cl token_delta.cl # which take functions of others'
array kind_text $first $kinds $teams $matrices
array token_text $first $parts $states token_segment.cl
slot_names | sed 's/.*/#define & OF_SLOT(&)/' | text token_names
array token_kind_text $slots
(slot_names && slot_macros) | sort -u | sed 's/.*/#undef &/' | text token_names_end
array token_last_text token_kinds.cl
