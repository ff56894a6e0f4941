# SPDX-License-Identifier: GPL-3.0-or-later
"""The moechat package format (moechat-model(5)): quantise, write, read. numpy only.

Tensors travel as a dict of float32 arrays under the checkpoint's own names, every expert apart
(model.layers.N.mlp.experts.E.gate_proj.weight). A 2-d tensor is a matrix and is quantised along its
last axis; a 1-d tensor is a norm weight (bf16) or the router's correction bias (float32).
"""

import hashlib
import json
import os
import re

import numpy as np

ALIGNMENT = 4096
PART_ALIGNMENT = 64
SHRINKS = (1.0, 0.95, 0.9, 0.85)
PROJECTIONS = ("gate_proj", "up_proj", "down_proj")
EXPERT = re.compile(r"^model\.layers\.(\d+)\.mlp\.experts\.(\d+)\.(gate_proj|up_proj|down_proj)\.weight$")
FUSED = re.compile(r"^(model\.layers\.\d+\.mlp\.experts)\.(gate_up_proj|down_proj)$")
CORRECTION = "e_score_correction_bias"
NUMPY_TYPE = {"U32": np.dtype("<u4"), "BF16": np.dtype("<u2"), "F32": np.dtype("<f4")}


class PackageError(Exception):
    """A file or a tensor is not what the format says; the text names it."""


# bf16 as uint16: numpy has no such type

def to_bf16(x):
    """Nearest bf16, ties to even, as uint16."""
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(x):
    return (np.asarray(x, dtype=np.uint32) << 16).view(np.float32)


def round_bf16(x):
    return from_bf16(to_bf16(x))


# affine quantisation: w = q * scale + bias

def quantise(matrix, bits, group_size):
    """(words u32 [out, in*bits/32], scales u16 [out, in/group], biases u16) of a float32 [out, in].

    Scales and biases are rounded to bf16 before q is chosen. Of a few shrunken ranges each group takes
    the one of the least squared error.
    """
    matrix = np.asarray(matrix, dtype=np.float32)
    rows, cols = matrix.shape
    if bits not in (4, 8) or cols % group_size or cols * bits % 32:
        raise PackageError(f"cannot quantise [{rows}, {cols}] to {bits} bits in groups of {group_size}")
    groups = matrix.reshape(rows, cols // group_size, group_size)
    top = np.float32(2**bits - 1)
    low, high = groups.min(axis=2, keepdims=True), groups.max(axis=2, keepdims=True)
    middle, half = (low + high) * np.float32(0.5), (high - low) * np.float32(0.5)
    best = None
    for shrink in SHRINKS:
        reach = half * np.float32(shrink)
        scale = round_bf16(reach * np.float32(2) / top)
        scale = np.where(scale > 0, scale, np.float32(1))
        bias = round_bf16(middle - reach)
        q = np.clip(np.rint((groups - bias) / scale), 0, top)
        error = np.square(q * scale + bias - groups).sum(axis=2, keepdims=True)
        if best is None:
            best = [error, scale, bias, q]
        else:
            better = error < best[0]
            best = [np.where(better, new, old) for new, old in zip((error, scale, bias, q), best)]
    _, scale, bias, q = best
    return pack(q.reshape(rows, cols), bits), to_bf16(scale[:, :, 0]), to_bf16(bias[:, :, 0])


def pack(q, bits):
    """q [out, in] to u32 words, the first input element in the lowest bits."""
    per_word = 32 // bits
    q = q.astype(np.uint32).reshape(q.shape[0], -1, per_word)
    shifts = np.arange(per_word, dtype=np.uint32) * np.uint32(bits)
    return np.bitwise_or.reduce(q << shifts, axis=2).astype(np.uint32)


def dequantise(words, scales, biases, cols):
    """float32 [out, cols]: q * scale + bias; the product is exact, so a fused multiply-add gives the same."""
    words = np.asarray(words, dtype=np.uint32)
    bits = words.shape[1] * 32 // cols
    rows, groups = scales.shape
    if bits not in (4, 8) or cols % groups or words.shape != (rows, cols * bits // 32) or biases.shape != scales.shape:
        raise PackageError(f"{words.shape} words with {scales.shape} scales do not make {cols} columns")
    shifts = np.arange(32 // bits, dtype=np.uint32) * np.uint32(bits)
    q = ((words[:, :, None] >> shifts) & np.uint32(2**bits - 1)).astype(np.float32)
    q = q.reshape(rows, groups, -1)
    return (q * from_bf16(scales)[:, :, None] + from_bf16(biases)[:, :, None]).reshape(rows, cols)


def input_width(name, config):
    """Columns of a matrix: the shapes of words and scales alone do not tell 4 from 8 bits."""
    kind = name.split(".")[-2]
    if kind == "q_b_proj":
        return config["q_lora_rank"]
    if kind == "kv_b_proj":
        return config["kv_lora_rank"]
    if kind == "o_proj":
        return config["num_attention_heads"] * config["v_head_dim"]
    if kind != "down_proj":
        return config["hidden_size"]
    if ".experts." in name:
        return config["moe_intermediate_size"]
    if ".shared_experts." in name:
        return config["moe_intermediate_size"] * config["n_shared_experts"]
    return config["intermediate_size"]


def is_router(name):
    return name.endswith(".mlp.gate.weight")


def bits_of(name, bits, bits_for):
    if is_router(name):
        return 8
    return bits_for(name) if bits_for else bits


def stored(name, tensor, bits, group_size, bits_for=None):
    """The arrays that stand for one tensor in a package: [(name, dtype, array)]."""
    tensor = np.asarray(tensor, dtype=np.float32)
    if not np.isfinite(tensor).all():
        raise PackageError(f"{name}: not every number is finite")
    if tensor.ndim == 2:
        words, scales, biases = quantise(tensor, bits_of(name, bits, bits_for), group_size)
        stem = name[: -len("weight")]
        return [(stem + "weight", "U32", words), (stem + "scales", "BF16", scales), (stem + "biases", "BF16", biases)]
    if tensor.ndim != 1:
        raise PackageError(f"{name}: {tensor.ndim} dimensions")
    if name.endswith(CORRECTION):
        return [(name, "F32", tensor)]
    return [(name, "BF16", to_bf16(tensor))]


def restored(parts, cols):
    """The float32 tensor of what `stored` returned; cols of a matrix."""
    if len(parts) == 3:
        return dequantise(parts[0][2], parts[1][2], parts[2][2], cols)
    _, dtype, array = parts[0]
    return from_bf16(array) if dtype == "BF16" else array.astype(np.float32)


def dequantised(tensors, bits=4, group_size=64, bits_for=None):
    """The same dict with every value as the package gives it back."""
    return {name: restored(stored(name, tensor, bits, group_size, bits_for), tensor.shape[-1])
            for name, tensor in tensors.items()}


# transformers keeps a layer's experts in two fused arrays

def split_experts(tensors):
    """gate_up_proj [E, 2*inter, hidden] and down_proj [E, hidden, inter] to one tensor an expert."""
    out = {}
    for name, tensor in tensors.items():
        match = FUSED.match(name)
        if not match:
            out[name] = tensor
            continue
        for e, matrix in enumerate(tensor):
            stem = f"{match[1]}.{e}."
            if match[2] == "down_proj":
                out[stem + "down_proj.weight"] = matrix
            else:
                gate, up = np.split(matrix, 2)
                out[stem + "gate_proj.weight"], out[stem + "up_proj.weight"] = gate, up
    return out


def fuse_experts(tensors):
    """The inverse of split_experts: names and shapes of transformers' state_dict."""
    out, layers = {}, {}
    for name, tensor in tensors.items():
        match = EXPERT.match(name)
        if match:
            layers.setdefault(int(match[1]), {})[int(match[2]), match[3]] = tensor
        else:
            out[name] = tensor
    for layer, parts in layers.items():
        stem = f"model.layers.{layer}.mlp.experts."
        count = 1 + max(e for e, _ in parts)
        out[stem + "gate_up_proj"] = np.stack(
            [np.concatenate([parts[e, "gate_proj"], parts[e, "up_proj"]]) for e in range(count)])
        out[stem + "down_proj"] = np.stack([parts[e, "down_proj"] for e in range(count)])
    return out


# files

def sha256(data):
    return hashlib.sha256(data).hexdigest()


def write_safetensors(path, entries):
    """entries: [(name, dtype, array)]. Returns the file's record for the manifest."""
    header, offset = {}, 0
    for name, dtype, array in entries:
        size = array.size * NUMPY_TYPE[dtype].itemsize
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % PART_ALIGNMENT)
    pieces = [len(text).to_bytes(8, "little"), text]
    pieces += [np.ascontiguousarray(array, dtype=NUMPY_TYPE[dtype]).tobytes() for _, dtype, array in entries]
    return write_file(path, b"".join(pieces))


def write_file(path, data):
    with open(path, "wb") as file:
        file.write(data)
    return {"file": os.path.basename(path), "bytes": len(data), "sha256": sha256(data)}


def expert_parts(tensors, layer, expert, bits, group_size, bits_for):
    """The nine parts of one expert: [(short name, dtype, array)]."""
    out = []
    for projection in PROJECTIONS:
        name = f"model.layers.{layer}.mlp.experts.{expert}.{projection}.weight"
        if name not in tensors:
            raise PackageError(f"{name}: missing")
        for full, dtype, array in stored(name, tensors[name], bits, group_size, bits_for):
            out.append((full.split(f".experts.{expert}.")[1], dtype, array))
    return out


def blob_layout(parts):
    """The manifest's `parts` and blob_bytes of one expert's parts."""
    layout, offset = [], 0
    for name, dtype, array in parts:
        size = array.size * NUMPY_TYPE[dtype].itemsize
        layout.append({"name": name, "dtype": dtype, "shape": list(array.shape), "offset": offset, "bytes": size})
        offset += size + -size % PART_ALIGNMENT
    return layout, offset + -offset % ALIGNMENT


def blob(parts, layout, blob_bytes):
    data = bytearray(blob_bytes)
    for (_, dtype, array), place in zip(parts, layout):
        start = place["offset"]
        data[start:start + place["bytes"]] = np.ascontiguousarray(array, dtype=NUMPY_TYPE[dtype]).tobytes()
    return bytes(data)


def write_package(directory, name, config_dict, tensors, bits=4, group_size=64, tokenizer_path=None, template=None,
                  bits_for=None):
    """Write the package; returns the manifest. bits_for(tensor name) overrides `bits`; the router is always 8-bit."""
    os.makedirs(directory, exist_ok=True)
    experts = {}
    for key in tensors:
        match = EXPERT.match(key)
        if match:
            experts.setdefault(int(match[1]), set()).add(int(match[2]))
    count = config_dict["n_routed_experts"]
    if not experts or any(found != set(range(count)) for found in experts.values()):
        raise PackageError(f"every MoE layer needs experts 0 to {count - 1}")
    resident = [part for key, tensor in tensors.items() if not EXPERT.match(key)
                for part in stored(key, tensor, bits, group_size, bits_for)]
    manifest = {"format": "moechat-model", "version": 1, "name": name, "config": config_dict,
                "resident": write_safetensors(os.path.join(directory, "resident.safetensors"), resident)}
    layout = blob_bytes = None
    layers = []
    for layer in sorted(experts):
        blobs = []
        for expert in range(count):
            parts = expert_parts(tensors, layer, expert, bits, group_size, bits_for)
            if layout is None:
                layout, blob_bytes = blob_layout(parts)
            elif blob_layout(parts)[0] != layout:
                raise PackageError(f"layer {layer}, expert {expert}: another shape than the first expert's")
            blobs.append(blob(parts, layout, blob_bytes))
        path = os.path.join(directory, f"layer-{layer:03d}.experts")
        layers.append({"layer": layer} | write_file(path, b"".join(blobs)))
    manifest["experts"] = {"alignment": ALIGNMENT, "blob_bytes": blob_bytes, "count": count, "parts": layout,
                           "layers": layers}
    if tokenizer_path:
        with open(tokenizer_path, "rb") as file:
            record = write_file(os.path.join(directory, "tokenizer.model"), file.read())
        manifest["tokenizer"] = {"type": "sentencepiece"} | record
    if template:
        manifest["template"] = template
    fingerprint = manifest["resident"]["sha256"] + "".join(layer["sha256"] for layer in layers)
    manifest["weights_fingerprint"] = sha256(fingerprint.encode())
    with open(os.path.join(directory, "model.json"), "w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=1, ensure_ascii=False)
        file.write("\n")
    return manifest


def read_checked(directory, record):
    path = os.path.join(directory, record["file"])
    with open(path, "rb") as file:
        data = file.read()
    if len(data) != record["bytes"] or sha256(data) != record["sha256"]:
        raise PackageError(f"{path}: not the bytes that model.json names")
    return data


def read_package(directory):
    """(dequantised float32 tensors under checkpoint names, config): what the packed files mean."""
    with open(os.path.join(directory, "model.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    if manifest.get("format") != "moechat-model" or manifest.get("version") != 1:
        raise PackageError(f"{directory}/model.json: not a moechat package of version 1")
    data = read_checked(directory, manifest["resident"])
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    arrays = {}
    for key, record in header.items():
        if key != "__metadata__":
            start, end = (8 + length + place for place in record["data_offsets"])
            arrays[key] = view(data[start:end], record)
    experts = manifest["experts"]
    for layer in experts["layers"]:
        data = read_checked(directory, layer)
        for expert in range(experts["count"]):
            for part in experts["parts"]:
                start = expert * experts["blob_bytes"] + part["offset"]
                key = f"model.layers.{layer['layer']}.mlp.experts.{expert}.{part['name']}"
                arrays[key] = view(data[start:start + part["bytes"]], part)
    return meaning(arrays, manifest["config"]), manifest["config"]


def view(data, record):
    return np.frombuffer(data, dtype=NUMPY_TYPE[record["dtype"]]).reshape(record["shape"])


def meaning(arrays, config):
    out = {}
    for key, array in arrays.items():
        stem = key.rpartition(".")[0]
        if key.endswith(".weight") and stem + ".scales" in arrays:
            out[key] = dequantise(array, arrays[stem + ".scales"], arrays[stem + ".biases"],
                                  input_width(key, config))
        elif not key.endswith((".scales", ".biases")):
            out[key] = from_bf16(array) if array.dtype == np.uint16 else array.astype(np.float32)
    return out
