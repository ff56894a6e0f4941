# SPDX-License-Identifier: GPL-3.0-or-later
"""A small random folder in MLX's fp modes, mxfp4, nvfp4 and mxfp8, with transformers' own numbers for it.

    python3 tests/golden/make_mlx_fp.py [FOLDER]       (numpy, safetensors, gguf 0.19, transformers 5.17.0)

writes FOLDER/mlx-fp; see golden.c for what a golden folder holds. Words and scales are random bytes of the right size;
what they mean is computed here, by MLX's layout: quanta in a stream of bits, a scale of a byte for each 32 (mxfp4, mxfp8:
E8M0) or 16 inputs (nvfp4: e4m3), and nvfp4's global_scale, 2688 times a factor of the whole matrix. config.json says a mode
for all, others by matrix, and affine where an entry has none.
"""

import json
import os
import shutil
import sys

import numpy as np
import torch
import transformers
from safetensors.numpy import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import make_checkpoints as ck  # noqa: E402
import make_gguf as mg  # noqa: E402

E2M1 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, -0.0, -.5, -1, -1.5, -2, -3, -4, -6], np.float32)
BYTE = np.arange(256)
E4M3 = np.where(BYTE >> 3 & 15, np.ldexp(8.0 + (BYTE & 7), (BYTE >> 3 & 15) - 10), np.ldexp(0.0 + (BYTE & 7), -9))
E4M3 = (np.where(BYTE >> 7, -1.0, 1.0) * E4M3).astype(np.float32)
FINITE = BYTE[BYTE & 0x7F != 0x7F]
POSITIVE = BYTE[:0x7F]
SIZES = {"mxfp4": (32, 4), "nvfp4": (16, 4), "mxfp8": (32, 8)}

SPEC = mg.V3 | dict(seed=51, group=32, how=set(), config=mg.V3["config"] | dict(
    num_hidden_layers=3, first_k_dense_replace=1, n_routed_experts=6, num_experts_per_tok=2, n_group=2, topk_group=1,
    hidden_size=96, intermediate_size=128, moe_intermediate_size=64, q_lora_rank=64, kv_lora_rank=64, qk_nope_head_dim=32,
    qk_rope_head_dim=16, v_head_dim=32, num_nextn_predict_layers=0))
NAMES = {"attn_k_b": "self_attn.embed_q", "attn_v_b": "self_attn.unembed_out", "ffn_gate_exps": "mlp.switch_mlp.gate_proj",
         "ffn_up_exps": "mlp.switch_mlp.up_proj", "ffn_down_exps": "mlp.switch_mlp.down_proj"}
MODES = {"model.embed_tokens": "affine", "lm_head": "mxfp8", "model.layers.0.mlp.down_proj": "mxfp8",
         "model.layers.1.self_attn.o_proj": "nvfp4", "model.layers.1.self_attn.embed_q": "nvfp4",
         "model.layers.2.mlp.switch_mlp.gate_proj": "nvfp4", "model.layers.2.mlp.switch_mlp.up_proj": "nvfp4",
         "model.layers.2.mlp.switch_mlp.down_proj": "mxfp8", "model.layers.2.self_attn.q_b_proj": "nvfp4"}
WITH_GLOBAL_SCALE = {"model.layers.2.mlp.switch_mlp.gate_proj", "model.layers.2.mlp.switch_mlp.up_proj",
                     "model.layers.1.self_attn.o_proj"}


def stream(quanta, bits):
    flat = (quanta[..., None] >> np.arange(bits) & 1).astype(np.uint8).reshape(*quanta.shape[:-1], -1)
    return np.packbits(flat, axis=-1, bitorder="little").view(np.uint32)


def nearest(values, codes):
    """Codes of e4m3 whose numbers are nearest."""
    order = np.argsort(E4M3[codes], kind="stable")
    table = E4M3[codes][order]
    at = np.clip(np.searchsorted(table, values), 1, len(table) - 1)
    at -= values - table[at - 1] < table[at] - values
    return codes[order[at]]


class Maker(mg.Maker):
    def __init__(self, spec):
        super().__init__(spec)
        self.out = {}
        self.how = {"group_size": 32, "bits": 4, "mode": "mxfp4"}

    def theirs(self, name):
        if not name.startswith("blk."):
            return {"token_embd.weight": "model.embed_tokens", "output.weight": "lm_head"}[name]
        _, block, stem, _ = name.split(".")
        ordinary = {gguf: theirs for gguf, _, theirs in mg.layer_shapes(self.config, self.spec["how"], int(block))}
        return f"model.layers.{block}.{NAMES.get(stem) or ordinary[stem]}"

    def affine(self, stem, shape, size):
        q = self.generator.integers(0, 256, shape)
        groups = shape[:-1] + (shape[-1] // 32,)
        scales = (size / 74 * self.generator.uniform(.6, 1.4, groups)).astype(np.float16)
        biases = (-128 * scales.astype(np.float32)).astype(np.float16)
        self.out |= {f"{stem}.weight": stream(q, 8), f"{stem}.scales": scales, f"{stem}.biases": biases}
        self.how[stem] = {"group_size": 32, "bits": 8}
        spread = lambda v: np.repeat(v.astype(np.float32), 32, axis=-1)
        return q.astype(np.float32) * spread(scales) + spread(biases)

    def fp(self, stem, mode, shape, size):
        group, bits = SIZES[mode]
        groups = shape[:-1] + (shape[-1] // group,)
        if mode == "mxfp8":
            q = nearest(self.generator.standard_normal(shape).astype(np.float32), FINITE)
            numbers, deviation = E4M3[q], 1
        else:
            q = self.generator.integers(0, 16, shape)
            numbers, deviation = E2M1[q], 2.93
        wanted = size / deviation * self.generator.uniform(.6, 1.4, groups)
        factor = None
        if stem in WITH_GLOBAL_SCALE:
            largest = self.generator.uniform(20, 60, shape[:1] if len(shape) == 3 else (1,)).astype(np.float32)
            self.out[f"{stem}.global_scale"] = largest
            factor = (largest / np.float32(2688)).reshape((-1,) + (1,) * (len(shape) - 1))
            wanted = wanted / factor
        if mode == "nvfp4":
            codes = nearest(wanted.astype(np.float32), POSITIVE)
            scales = E4M3[codes]
        else:
            codes = (np.round(np.log2(wanted)) + 127).astype(int)
            scales = np.ldexp(np.float32(1), codes - 127)
        self.out |= {f"{stem}.weight": stream(q, bits), f"{stem}.scales": codes.astype(np.uint8)}
        if mode != self.how["mode"]:
            self.how[stem] = {"group_size": group, "bits": bits, "mode": mode}
        weights = numbers * np.repeat(scales, group, axis=-1)
        return (weights if factor is None else weights * factor).astype(np.float32)

    def add(self, name, shape, size):
        stem = self.theirs(name)
        if stem.endswith(".mlp.gate"):
            numbers = (size * self.generator.standard_normal(shape)).astype(np.float32)
            self.out[f"{stem}.weight"] = numbers
            return numbers
        mode = MODES.get(stem, "mxfp4")
        return self.affine(stem, shape, size) if mode == "affine" else self.fp(stem, mode, shape, size)


def main():
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    folder = os.path.join(sys.argv[1] if len(sys.argv) > 1 else HERE, "mlx-fp")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(os.path.join(folder, "checkpoint"))
    torch.manual_seed(SPEC["seed"])
    maker = Maker(SPEC)
    maker.everything()
    for name, numbers in maker.meaning.items():
        if numbers.ndim == 1:  # norms and the router's bias
            maker.out[name] = numbers
    save_file({k: np.ascontiguousarray(v) for k, v in maker.out.items()}, os.path.join(folder, "checkpoint", "model.safetensors"))
    config = SPEC["config"] | dict(model_type=SPEC["model_type"], quantization=maker.how)
    with open(os.path.join(folder, "checkpoint", "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file, indent=1)
    model = ck.transformers_model(SPEC, maker.meaning)
    ck.write_golden("mlx-fp", SPEC, folder, model, ck.draw_prompts(model, maker.generator))


if __name__ == "__main__":
    main()
