#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes tests/ops/data/kinds.bin: rows of every kind and what they are in float32. ggml's kinds by gguf-py (pip install
gguf), whose reading is the definition; MLX's by the formulas of mx.dequantize, in numpy.

Records, little end first: 16 bytes of name (as kinds.c has it), u32 scale type (0 bf16, 1 f16, 2 f32), group size,
inputs, rows, bytes of weights, of scales, of biases; then weights, scales, biases, and float32 [rows, inputs].
Rows of random bytes whose scales are: ordinary, a subnormal half, 0, negative, the largest, subnormal and negative."""
import struct
import sys

import gguf
import numpy as np

INPUTS = 256
rng = np.random.default_rng(20)
out = open(sys.argv[1] if len(sys.argv) > 1 else "tests/ops/data/kinds.bin", "wb")

# Super-scales as bits of halves, a row each: 0.0123, a subnormal, 0, -0.5, 65504, the least subnormal and negative; and
# three more ordinary ones, that matrices are put together from.
SUPERS = [0x224C, 0x0155, 0x0000, 0xB800, 0x7BFF, 0x8001, 0x2400, 0x1C31, 0xA0F0]


def record(name, weights, values, scales=b"", biases=b"", scale_type=0, group=0):
    rows = len(values)
    assert values.dtype == np.float32 and np.isfinite(values).all(), name
    out.write(struct.pack("<16s7I", name.encode(), scale_type, group, values.shape[1], rows,
                          len(weights), len(scales), len(biases)))
    out.write(weights + scales + biases + values.astype("<f4").tobytes())


# Where a block's halves lie that must be finite.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0], "IQ2_XXS": [0], "IQ2_XS": [0],
          "IQ2_S": [0], "IQ3_XXS": [0], "IQ3_S": [0], "IQ1_S": [0], "IQ1_M": [], "TQ1_0": [52], "TQ2_0": [64],
          "MXFP4": [], "NVFP4": []}
for name, places in HALVES.items():
    kind = gguf.GGMLQuantizationType[name]
    inputs, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (len(SUPERS), INPUTS // inputs, size), dtype=np.uint8)
    for row, bits in enumerate(SUPERS):
        for i, place in enumerate(places):
            blocks[row, :, place] = bits & 255
            blocks[row, :, place + 1] = bits >> 8
        if len(places) == 2 and row == 0: # the second of another size than the first
            blocks[row, :, places[1]:places[1] + 2] = [0x00, 0x28]
        if name == "IQ1_M": # its half is spread over four words' upper nibbles
            for i in range(4):
                blocks[row, :, 49 + 2 * i] = blocks[row, :, 49 + 2 * i] & 15 | (bits >> 4 * i & 15) << 4
        if name == "MXFP4":
            blocks[row, :, 0] = [120, 0, 1, 2, 200, 127, 119, 121, 122][row]
    if name == "NVFP4":
        blocks[0, 0, :4] = [0x00, 0x7F, 0x80, 0x01]
        blocks[1, 0, :4] = [0x7E, 0xFF, 0x08, 0x38]
    data = blocks.reshape(len(SUPERS), -1)
    record(name, data.tobytes(), gguf.quants.dequantize(data, kind).astype(np.float32))

for name, bits in [("F16", np.array(SUPERS + [0x3C00, 0x7BFF, 0x0001, 0x8000], np.uint16))]:
    halves = np.concatenate([bits, rng.integers(0, 0x7C00, INPUTS - len(bits)) | rng.integers(0, 2, INPUTS - len(bits)) << 15])
    halves = halves.astype("<u2").reshape(1, INPUTS)
    record(name, halves.tobytes(), halves.view("<f2").astype(np.float32))


def stream(q, bits):
    """q [rows, inputs] as rows of little-endian bit streams."""
    ones = (q[:, :, None] >> np.arange(bits) & 1).astype(np.uint8).reshape(len(q), -1)
    return np.packbits(ones, axis=1, bitorder="little")


def numbers(values, scale_type):
    """Values as a scale type holds them: their bytes, and float32."""
    values = values.astype(np.float32)
    if scale_type == 1:
        half = values.astype("<f2")
        return half.tobytes(), half.astype(np.float32)
    if scale_type == 2:
        return values.astype("<f4").tobytes(), values
    short = (values.view(np.uint32) >> 16).astype("<u2")
    return short.tobytes(), (short.astype(np.uint32) << 16).view(np.float32)


for bits in [2, 3, 4, 5, 6, 8]:
    for scale_type, group in [(0, 64), (1, 32), (2, 128), (1, 64)]:
        q = rng.integers(0, 1 << bits, (2, INPUTS))
        scale, s = numbers(rng.normal(size=(2, INPUTS // group)) * np.array([[0.01], [3e-6]]), scale_type)
        bias, b = numbers(rng.normal(size=(2, INPUTS // group)), scale_type)
        spread = lambda v: np.repeat(v, group, axis=1)
        values = q.astype(np.float32) * spread(s) + spread(b)
        record(f"{bits} bits", stream(q, bits).tobytes(), values, scale, bias, scale_type, group)

E2M1 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, -0.0, -.5, -1, -1.5, -2, -3, -4, -6], np.float32)
byte = np.arange(256)
E4M3 = np.where(byte >> 3 & 15, np.ldexp(8.0 + (byte & 7), (byte >> 3 & 15) - 10), np.ldexp(0.0 + (byte & 7), -9))
E4M3 = (np.where(byte >> 7, -1.0, 1.0) * E4M3).astype(np.float32)
finite = byte[byte & 0x7F != 0x7F]

q = rng.integers(0, 16, (2, INPUTS))
e = rng.integers(125, 129, (2, INPUTS // 32)).astype(np.uint8)
e[0, :3] = [1, 2, 250] # E8M0's 0 is half of float32's least normal number
record("mxfp4", stream(q, 4).tobytes(), E2M1[q] * np.repeat(np.ldexp(np.float32(1), e.astype(int) - 127), 32, axis=1),
       e.tobytes())
e = rng.choice(finite, (2, INPUTS // 16)).astype(np.uint8)
e[0, :4] = [0, 1, 0x81, 0x7E]
record("nvfp4", stream(q, 4).tobytes(), E2M1[q] * np.repeat(E4M3[e], 16, axis=1), e.tobytes())
q = rng.choice(finite, (2, INPUTS)).astype(np.uint8)
e = rng.integers(125, 129, (2, INPUTS // 32)).astype(np.uint8)
record("mxfp8", q.tobytes(), E4M3[q] * np.repeat(np.ldexp(np.float32(1), e.astype(int) - 127), 32, axis=1), e.tobytes())
