# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows quantised by MLX itself (mlx, its CPU build): python3 tests/unit/make_quantise.py > tests/unit/data/quantise.bin

For each number of bits and each group size: u32 bits, u32 group_size, u32 rows, u32 cols, then bf16 x [rows, cols], u32
words, bf16 scales, bf16 biases, all little-endian."""
import struct
import sys

import mlx.core as mx
import numpy as np

ROWS, COLS = 8, 256


def bf16(array):
    return np.array(array.astype(mx.bfloat16).view(mx.uint16)).astype("<u2").tobytes()


def rows(generator):
    x = generator.standard_normal((ROWS, COLS)).astype(np.float32) * 0.02
    x[1] = 0
    x[2] = 0.5
    x[3] = -np.abs(x[3])
    x[4] = np.abs(x[4]) + 1
    x[5, ::7] *= 40
    x[6] *= 1e-7
    x[7, :128] = 0
    return mx.array(x).astype(mx.bfloat16)


generator = np.random.default_rng(7)
for bits in (4, 8):
    for group_size in (32, 64, 128):
        x = rows(generator)
        words, scales, biases = mx.quantize(x, group_size=group_size, bits=bits)
        out = sys.stdout.buffer
        out.write(struct.pack("<4I", bits, group_size, ROWS, COLS) + bf16(x))
        out.write(np.array(words).astype("<u4").tobytes() + bf16(scales) + bf16(biases))
