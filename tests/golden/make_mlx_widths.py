# SPDX-License-Identifier: GPL-3.0-or-later
"""An MLX folder whose matrices have other widths and scales than 4 bits and bf16, with the same numbers.

    python3 tests/golden/make_mlx_widths.py [FROM [TO]]       (numpy, safetensors)

takes tests/golden/ck-v3-groups-mlx and writes every matrix of 4 bits in 5, 6 or 8 bits, by turns, gate and up differently:
quanta stay what they are, so the weights do, and transformers' numbers hold. Scales and biases become f16 in every
second matrix where that holds each of them exactly, else float32. A matrix whose quanta are below 4 or 8 becomes 2 or 3 bits.
"""

import json
import os
import shutil
import sys

import numpy as np
from safetensors.numpy import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
FROM = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "ck-v3-groups-mlx")
TO = sys.argv[2] if len(sys.argv) > 2 else os.path.join(HERE, "mlx-widths")


def unpack(words, bits):
    flat = np.unpackbits(words.view(np.uint8), bitorder="little").reshape(*words.shape[:-1], -1, bits)
    return (flat.astype(np.uint32) << np.arange(bits, dtype=np.uint32)).sum(-1).astype(np.uint32)


def pack(quanta, bits):
    flat = (quanta[..., None] >> np.arange(bits, dtype=np.uint32) & 1).astype(np.uint8)
    flat = flat.reshape(*quanta.shape[:-1], -1)
    return np.packbits(flat, axis=-1, bitorder="little").view(np.uint32)


def read(path):
    """Tensors by name, bf16 as float32 with a mark: numpy has no bf16."""
    raw = open(path, "rb").read()
    n = int.from_bytes(raw[:8], "little")
    out = {}
    for name, at in json.loads(raw[8:8 + n]).items():
        if name == "__metadata__":
            continue
        data = raw[8 + n + at["data_offsets"][0]:8 + n + at["data_offsets"][1]]
        if at["dtype"] == "BF16":
            numbers = (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32)
        else:
            numbers = np.frombuffer(data, {"U32": np.uint32, "F32": np.float32, "F16": np.float16}[at["dtype"]])
        out[name] = (at["dtype"], numbers.reshape(at["shape"]))
    return out


def main():
    source = os.path.join(FROM, "checkpoint")
    target = os.path.join(TO, "checkpoint")
    shutil.rmtree(TO, ignore_errors=True)
    os.makedirs(target)
    for name in ("golden.json", "rows.f32", "tokens.txt"):
        shutil.copy(os.path.join(FROM, name), TO)
    config = json.load(open(os.path.join(source, "config.json")))
    tensors = {}
    for name in sorted(os.listdir(source)):
        if name.endswith(".safetensors"):
            tensors.update(read(os.path.join(source, name)))
    out = {}
    how = config["quantization"]
    count = 0
    widths = {}
    for name, (dtype, numbers) in tensors.items():
        if dtype == "U32":
            stem = name[:-len(".weight")]
            scales, biases = tensors[stem + ".scales"][1], tensors[stem + ".biases"][1]
            own = how.get(stem, how)
            inputs = numbers.shape[-1] * 32 // own["bits"]
            group = inputs // scales.shape[-1]
            quanta = unpack(np.ascontiguousarray(numbers), own["bits"])
            count += 1
            bits = own["bits"] if own["bits"] == 8 else (2 if quanta.max() < 4 else 3 if quanta.max() < 8 else (5, 6, 8)[count % 3])
            half = count % 2 and all((x.astype(np.float16).astype(np.float32) == x).all() for x in (scales, biases))
            kind = np.float16 if half else np.float32
            out[name] = pack(quanta, bits)
            out[stem + ".scales"], out[stem + ".biases"] = scales.astype(kind), biases.astype(kind)
            how[stem] = {"group_size": group, "bits": bits}
            widths[bits, half] = widths.get((bits, half), 0) + 1
        elif not name.endswith((".scales", ".biases")):
            out[name] = numbers  # bf16 as float32
    config["quantization_config"] = how
    json.dump(config, open(os.path.join(target, "config.json"), "w"), indent=1)
    save_file({k: np.ascontiguousarray(v) for k, v in out.items()}, os.path.join(target, "model.safetensors"))
    for name in os.listdir(source):
        if not name.endswith((".safetensors", ".index.json", "config.json")):
            shutil.copy(os.path.join(source, name), target)
    print("matrices by (bits, f16 scales):", widths)


main()
