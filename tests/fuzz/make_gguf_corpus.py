# SPDX-License-Identifier: GPL-3.0-or-later
"""The corpora of fuzz_gguf, fuzz_gguf_table, fuzz_gguf_set and fuzz_gguf_model, from files that gguf-py writes.

    python3 tests/fuzz/make_gguf_corpus.py [FOLDER]       (gguf 0.19)
"""

import os
import struct
import sys
import tempfile

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import GGUFEndian, GGUFReader, GGUFWriter

HERE = os.path.dirname(os.path.abspath(__file__))


def every_kind_of_value(writer):
    writer.add_uint8("k.u8", 1)
    writer.add_int8("k.i8", -1)
    writer.add_uint16("k.u16", 2)
    writer.add_int16("k.i16", -2)
    writer.add_uint32("k.u32", 3)
    writer.add_int32("k.i32", -3)
    writer.add_float32("k.f32", 0.5)
    writer.add_bool("k.bool", True)
    writer.add_string("k.string", "text")
    writer.add_uint64("k.u64", 1 << 40)
    writer.add_int64("k.i64", -(1 << 40))
    writer.add_float64("k.f64", 0.25)
    writer.add_array("k.strings", ["one", "two", ""])
    writer.add_array("k.ints", [1, 2, 3])
    writer.add_array("k.floats", [0.5, 1.5])


def no_values(_writer):
    pass


def few_tensors(writer):
    writer.add_tensor("a.weight", np.zeros((3, 4), np.float32))
    writer.add_tensor("b.weight", np.zeros((2, 34), np.uint8), raw_dtype=Type.Q8_0)
    writer.add_tensor("c.weight", np.zeros((2, 2, 144), np.uint8), raw_dtype=Type.Q4_K)
    writer.add_tensor("d.bias", np.zeros(7, np.float16))


def no_tensors(_writer):
    pass


def written(values, tensors, alignment=None, endian=GGUFEndian.LITTLE):
    """A whole file's bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.gguf")
        writer = GGUFWriter(path, "deepseek2", endianess=endian)
        if alignment:
            writer.add_custom_alignment(alignment)
        values(writer)
        tensors(writer)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        with open(path, "rb") as file:
            return file.read()


def table_of(tensors):
    """The bytes of the table alone, how many tensors, and those of the data."""
    whole = written(no_values, tensors)
    count, = struct.unpack_from("<Q", whole, 8)
    without = written(no_values, no_tensors)  # the same magic, counts and values
    start = len(without)
    while whole[start:start + 8] != struct.pack("<Q", len("a.weight")):
        start -= 1
    at = start
    for _ in range(count):
        length, = struct.unpack_from("<Q", whole, at)
        n_dims, = struct.unpack_from("<I", whole, at + 8 + length)
        at += 8 + length + 4 + 8 * n_dims + 4 + 8
    return whole[start:at], count, len(whole) - at


def part(number, count, total, tensors):
    def values(writer):
        writer.add_uint16("split.no", number)
        writer.add_uint16("split.count", count)
        writer.add_int32("split.tensors.count", total)
    return written(values, tensors)


def folder_of(*files):
    """As fuzz_gguf_set.c numbers names."""
    return b"".join(struct.pack("<BH", name, len(data)) + data for name, data in files)


# The least model that opens: a dense layer and one of two experts.
MODEL = {"context_length": 64, "embedding_length": 32, "feed_forward_length": 32, "attention.head_count": 1,
         "attention.kv_lora_rank": 32, "attention.key_length_mla": 64, "attention.value_length_mla": 32,
         "rope.dimension_count": 32, "leading_dense_block_count": 1, "expert_count": 2, "expert_used_count": 1,
         "expert_shared_count": 1, "expert_feed_forward_length": 32, "block_count": 2, "vocab_size": 4}
YARN = {"factor": 4.0, "yarn_log_multiplier": 0.1, "yarn_beta_fast": 32.0, "yarn_beta_slow": 1.0}


def model_values(writer, variant):
    for key, value in MODEL.items():
        writer.add_uint32("deepseek2." + key, value + ("mtp" in variant and key == "block_count"))
    writer.add_float32("deepseek2.attention.layer_norm_rms_epsilon", 1e-6)
    if "v3" in variant:
        writer.add_uint32("deepseek2.expert_gating_func", 2)
        writer.add_uint32("deepseek2.expert_group_count", 1)
        writer.add_uint32("deepseek2.expert_group_used_count", 1)
        writer.add_uint32("deepseek2.attention.q_lora_rank", 32)
        writer.add_string("deepseek2.rope.scaling.type", "yarn")
        writer.add_uint32("deepseek2.rope.scaling.original_context_length", 16)
        for key, value in YARN.items():
            writer.add_float32("deepseek2.rope.scaling." + key, value)
    if "mtp" in variant:
        writer.add_uint32("deepseek2.nextn_predict_layers", 1)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("deepseek-v3")
    writer.add_token_list(["a", "b", "ab", "<end>"])
    writer.add_token_types([1, 1, 1, 3])
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(3)
    writer.add_eos_token_id(3)
    writer.add_chat_template("{{ messages }}")


def model_tensors(writer, variant):
    def add(name, *shape, kind=np.float32):
        writer.add_tensor(name, np.zeros(shape, kind))
    add("token_embd.weight", 4, 32, kind=np.float16)
    add("output_norm.weight", 32)
    if "v3" in variant:
        add("output.weight", 4, 32)
    for block in range(3 if "mtp" in variant else 2):
        prefix = f"blk.{block}."
        add(prefix + "attn_norm.weight", 32)
        if block == 2:
            add(prefix + "nextn.eh_proj.weight", 32, 64)
            continue
        add(prefix + "ffn_norm.weight", 32)
        add(prefix + "attn_kv_a_norm.weight", 32)
        add(prefix + "attn_kv_a_mqa.weight", 64, 32)
        if "v3" in variant:
            add(prefix + "attn_q_a.weight", 32, 32)
            add(prefix + "attn_q_a_norm.weight", 32)
            add(prefix + "attn_q_b.weight", 64, 32)
            add(prefix + "attn_k_b.weight", 1, 32, 32)
            add(prefix + "attn_v_b.weight", 32, 32)
        else:
            add(prefix + "attn_q.weight", 64, 32)
            add(prefix + "attn_kv_b.weight", 64, 32)
        add(prefix + "attn_output.weight", 32, 32)
        stem = "ffn_{}.weight" if block == 0 else "ffn_{}_shexp.weight"
        for part in ("gate", "up", "down"):
            add(prefix + stem.format(part), 32, 32)
        if block == 1:
            model_experts(add, prefix, variant)


def model_experts(add, prefix, variant):
    add(prefix + "ffn_gate_inp.weight", 2, 32)
    if "v3" in variant:
        add(prefix + "exp_probs_b.bias", 2)
    if "fused" in variant:
        add(prefix + "ffn_gate_up_exps.weight", 2, 64, 32)
    else:
        add(prefix + "ffn_gate_exps.weight", 2, 32, 32)
        add(prefix + "ffn_up_exps.weight", 2, 32, 32)
    add(prefix + "ffn_down_exps.weight", 2, 32, 32)


def model_seed(*variant):
    """The header, with how many bytes of data it needs in front."""
    whole = written(lambda w: model_values(w, variant), lambda w: model_tensors(w, variant))
    header = len(whole.rstrip(b"\0")) // 32 * 32 + 64
    return struct.pack("<I", len(whole) - header) + whole[:header]


# Layers of other kinds, as make_gguf.py wrote them.
GOLDENS = {"factors": "nvfp4-factors", "glm5-next": "glm5-next", "kimi-k3": "kimi-k3", "kimi-linear": "kimi-linear",
           "qwen35moe": "qwen35moe", "qwen3next": "qwen3next"}


def golden_seed(name):
    """The header of a golden's file, with how many bytes of data it needs in front."""
    path = os.path.join(HERE, "..", "golden", "gguf-" + name, "checkpoint", name + ".gguf")
    with open(path, "rb") as file:
        whole = file.read()
    header = GGUFReader(path).data_offset
    return struct.pack("<I", len(whole) - header) + whole[:header]


def save(folder, target, name, data):
    directory = os.path.join(folder, target)
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, name), "wb") as file:
        file.write(data)


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "corpus")
    nothing = struct.pack("<H", 0)
    whole = written(every_kind_of_value, few_tensors)
    save(folder, "gguf", "whole", nothing + whole)
    save(folder, "gguf", "values", nothing + written(every_kind_of_value, no_tensors))
    save(folder, "gguf", "tensors", nothing + written(no_values, few_tensors))
    save(folder, "gguf", "aligned", nothing + written(no_values, few_tensors, alignment=256))
    save(folder, "gguf", "big_endian", nothing + written(no_values, few_tensors, endian=GGUFEndian.BIG))
    save(folder, "gguf", "version_1", nothing + whole[:4] + struct.pack("<I", 1) + whole[8:])
    save(folder, "gguf", "cut", nothing + whole[:len(whole) // 2])
    save(folder, "gguf", "header_only", struct.pack("<H", 2000) + whole[:len(whole) // 2 // 32 * 32])
    table, count, data = table_of(few_tensors)
    for name, log, more in (("sound", 2, data), ("too_short", 2, data // 2), ("coarse", 9, 5000), ("huge", 2, 1 << 39)):
        save(folder, "gguf_table", name, struct.pack("<BBIB", count, log, more & 0xffffffff, more >> 32) + table)
    first, second = part(0, 2, 4, no_tensors), part(1, 2, 4, few_tensors)
    save(folder, "gguf_set", "set", folder_of((0, first), (1, second)))
    save(folder, "gguf_set", "missing", folder_of((0, first)))
    save(folder, "gguf_set", "swapped", folder_of((0, second), (1, first)))
    save(folder, "gguf_set", "two_models", folder_of((0, first), (1, second), (4, whole)))
    save(folder, "gguf_set", "one", folder_of((4, whole), (5, whole)))
    save(folder, "gguf_set", "piece", folder_of((6, whole[:100])))
    save(folder, "gguf_set", "renamed", folder_of((4, second)))
    save(folder, "gguf_set", "other_count", folder_of((0, part(0, 3, 4, no_tensors)), (1, second)))
    save(folder, "gguf_set", "one_of_one", folder_of((7, whole)))
    for variant in ((), ("v3",), ("fused",), ("v3", "fused", "mtp")):
        save(folder, "gguf_model", "_".join(variant) or "v2", model_seed(*variant))
    for name, golden in GOLDENS.items():
        save(folder, "gguf_model", name, golden_seed(golden))


if __name__ == "__main__":
    main()
