#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes kernels/kind_grids.h from the grids of gguf-py (pip install gguf; gguf/quants.py): make_grids.py >kind_grids.h"""
import gguf.quants
import numpy

GRIDS = ["IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S"]

print("""// SPDX-License-Identifier: GPL-3.0-or-later
// The grids of ggml's IQ kinds: numbers of gguf-py's gguf/quants.py (MIT), made by make_grids.py. Do not edit. An entry
// is a u16: 8 values of 2 bits (IQ2: 8, 25, 43; IQ1: -1, 0, 1) or 4 of 3 bits (IQ3_XXS: 4, 12, 20, 28, 36, 44, 52, 62;
// IQ3_S: 1, 3 .. 15), the first in the lowest bits, each its place among these. IQ1_M has IQ1_S's. E makes of an entry
// what a table is to hold.
#ifndef MOECHAT_KIND_GRIDS_H
#define MOECHAT_KIND_GRIDS_H

// clang-format off""")
for name in GRIDS:
    kind = getattr(gguf.quants, name)
    kind.init_grid()
    grid = kind.grid.reshape(-1, kind.grid.shape[-1])
    values = numpy.unique(grid)
    bits = 2 if grid.shape[1] == 8 else 3
    assert len(values) <= 1 << bits and grid.shape[1] * bits <= 16
    codes = numpy.searchsorted(values, grid).astype(int)
    entries = [sum(code << bits * i for i, code in enumerate(row)) for row in codes]
    print(f"#define GRID_{name}_ENTRIES {len(entries)}")
    print(f"#define GRID_{name}(E) \\")
    for i in range(0, len(entries), 16):
        print("    " + ", ".join(f"E({e})" for e in entries[i:i + 16]) + ("" if i + 16 == len(entries) else ", \\"))
print("""// clang-format on

#endif""")
