# SPDX-License-Identifier: GPL-3.0-or-later
"""Small random GGUF files in the mixes that people have, with transformers' own numbers for them.

    python3 tests/golden/make_gguf.py [FOLDER [NAME...]]       (gguf 0.19, transformers 5.17.0)

writes FOLDER/gguf-NAME for every NAME below; see golden.c for what a golden folder holds. Matrices are blocks of the
types that llama-quantize gives them. gguf-py quantises where it can; of the other types it only reads the blocks, and
there blocks are random with scales that make the weights as large as they should be (which are subnormal halves, as in
most real files). Either way the numbers are transformers' in float32 of what gguf-py reads from the blocks.
"""

import json
import os
import shutil
import sys

import gguf
import numpy as np
import torch
import transformers
from gguf import GGMLQuantizationType as Type

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import make_checkpoints as ck  # noqa: E402

ARCHITECTURES = {"deepseek_v32": "deepseek32", "glm_moe_dsa": "glm-dsa"}
FLOATS = {"F32": np.float32, "F16": np.float16}
FALLBACK = {"Q2_K": "Q4_0", "Q3_K": "Q4_0", "Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0"}  # rows of no 256s
# Where a block's scale is, and its second one with what it must be, of the first, for weights around zero.
SCALES = {"Q2_K": (80, 82, 1.5), "Q3_K": (108, None, 0), "Q4_K": (0, 2, 7.5), "Q5_K": (0, 2, 15.5),
          "Q6_K": (208, None, 0), "TQ1_0": (52, None, 0), "TQ2_0": (64, None, 0)}


def types(default, **others):
    """The types of a file's matrices: by the end of the name in front of `.weight`, or all of it, or the default."""
    return {"": default} | others


V2_LITE = dict(
    model_type="deepseek_v2", group=32, config=ck.COMMON | dict(
        hidden_size=256, intermediate_size=256, moe_intermediate_size=256, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=2, q_lora_rank=None, kv_lora_rank=256, qk_nope_head_dim=64,
        qk_rope_head_dim=32, v_head_dim=128, n_routed_experts=3, num_experts_per_tok=2, n_shared_experts=2,
        n_group=1, topk_group=1, topk_method="greedy", scoring_func="softmax", first_k_dense_replace=0,
        moe_layer_freq=1, routed_scaling_factor=1.0, norm_topk_prob=False, rms_norm_eps=1e-6,
        rope_theta=10000, rope_scaling=ck.yarn(factor=4, mscale=0.707, mscale_all_dim=0.707)))
V2_GROUPS = dict(
    model_type="deepseek_v2", group=32, config=ck.COMMON | dict(
        hidden_size=64, intermediate_size=96, moe_intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, q_lora_rank=96, kv_lora_rank=64, qk_nope_head_dim=32,
        qk_rope_head_dim=16, v_head_dim=32, n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=2,
        n_group=4, topk_group=2, topk_method="group_limited_greedy", scoring_func="softmax",
        first_k_dense_replace=0, routed_scaling_factor=6.0, norm_topk_prob=False, rms_norm_eps=1e-6,
        rope_theta=10000, tie_word_embeddings=True))
V3 = dict(
    model_type="deepseek_v3", group=32, bias=(-1.5, 0.3), config=ck.COMMON | dict(
        hidden_size=256, intermediate_size=256, moe_intermediate_size=256, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=2, q_lora_rank=256, kv_lora_rank=256, qk_nope_head_dim=64,
        qk_rope_head_dim=32, v_head_dim=128, n_routed_experts=4, num_experts_per_tok=2, n_shared_experts=1,
        n_group=2, topk_group=1, topk_method="noaux_tc", scoring_func="sigmoid", first_k_dense_replace=0,
        moe_layer_freq=1, routed_scaling_factor=2.5, norm_topk_prob=True, num_nextn_predict_layers=1,
        rms_norm_eps=1e-6, rope_theta=10000, rope_scaling=ck.yarn(factor=8, mscale=1.0, mscale_all_dim=1.0)))
MOONLIGHT = dict(  # m 96 stands for 1408: times 32, but not 256
    model_type="deepseek_v3", group=32, bias=(0.0, 0.2), config=ck.COMMON | dict(
        hidden_size=256, intermediate_size=256, moe_intermediate_size=96, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, q_lora_rank=None, kv_lora_rank=256, qk_nope_head_dim=64,
        qk_rope_head_dim=32, v_head_dim=128, n_routed_experts=4, num_experts_per_tok=2, n_shared_experts=2,
        n_group=1, topk_group=1, topk_method="noaux_tc", scoring_func="sigmoid", first_k_dense_replace=1,
        moe_layer_freq=1, routed_scaling_factor=2.446, norm_topk_prob=True, rms_norm_eps=1e-5, rope_theta=50000.0))
K2 = dict(
    model_type="kimi_k2", group=32, bias=(0.0, 0.2), config=ck.COMMON | dict(
        hidden_size=128, intermediate_size=160, moe_intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, q_lora_rank=128, kv_lora_rank=128, qk_nope_head_dim=64,
        qk_rope_head_dim=32, v_head_dim=64, n_routed_experts=12, num_experts_per_tok=4, n_shared_experts=1,
        n_group=1, topk_group=1, topk_method="noaux_tc", scoring_func="sigmoid", first_k_dense_replace=1,
        moe_layer_freq=1, routed_scaling_factor=2.827, norm_topk_prob=True, num_nextn_predict_layers=0,
        rms_norm_eps=1e-5, rope_theta=50000.0,
        rope_scaling=ck.yarn(factor=4.0, mscale=1.0, mscale_all_dim=1.0, beta_fast=1.0, beta_slow=1.0)))
FLASH = dict(
    model_type="glm4_moe_lite", group=32, bias=(0.0, 0.2), config=ck.COMMON | dict(
        hidden_size=128, intermediate_size=160, moe_intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, q_lora_rank=128, kv_lora_rank=128, qk_nope_head_dim=96,
        qk_rope_head_dim=32, v_head_dim=128, n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=1,
        n_group=1, topk_group=1, first_k_dense_replace=1, routed_scaling_factor=1.8, norm_topk_prob=True,
        eos_token_id=[1, 2, 3], num_nextn_predict_layers=1, partial_rotary_factor=1.0, rms_norm_eps=1e-5,
        rope_theta=1000000, rope_scaling=None))

MOONLIGHT_1408 = MOONLIGHT | dict(config=MOONLIGHT["config"] | dict(  # its experts' true width, all else small
    hidden_size=32, moe_intermediate_size=1408, kv_lora_rank=64, v_head_dim=64, n_routed_experts=3, n_shared_experts=1,
    first_k_dense_replace=0))
FLASH_HEADS = FLASH | dict(config=FLASH["config"] | dict(  # its heads' true widths, which are GLM-5's
    hidden_size=64, moe_intermediate_size=256, num_hidden_layers=1, q_lora_rank=256, kv_lora_rank=256, qk_nope_head_dim=192,
    qk_rope_head_dim=64, v_head_dim=256, n_routed_experts=4, first_k_dense_replace=0, mlp_layer_types=["sparse"]))
V32 = V3 | dict(model_type="deepseek_v32", config=V3["config"] | dict(
    n_routed_experts=4, index_n_heads=32, index_head_dim=64,
    index_topk=9))
GLM_DSA = dict(
    model_type="glm_moe_dsa", group=32, bias=(0.0, 0.2), config=ck.COMMON | dict(
        hidden_size=64, intermediate_size=96, moe_intermediate_size=32, num_hidden_layers=5,
        num_attention_heads=2, num_key_value_heads=2, q_lora_rank=64, kv_lora_rank=64, qk_nope_head_dim=32,
        qk_rope_head_dim=16, v_head_dim=64, n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=1,
        n_group=1, topk_group=1, first_k_dense_replace=1, routed_scaling_factor=2.5, norm_topk_prob=True,
        eos_token_id=[1, 2, 3], num_nextn_predict_layers=1, index_n_heads=16, index_head_dim=32, index_topk=8,
        indexer_types=["full", "shared", "full", "shared", "shared"], rms_norm_eps=1e-4, rope_theta=1000000))

V3_DENSE = V3 | dict(config=V3["config"] | dict(num_hidden_layers=2, first_k_dense_replace=1))
V3_TINY = V3 | dict(config=V3["config"] | dict(
    vocab_size=1510, num_hidden_layers=2, first_k_dense_replace=1, n_routed_experts=8, num_experts_per_tok=3,
    n_group=4, topk_group=2, hidden_size=64, intermediate_size=96, moe_intermediate_size=32, q_lora_rank=64, kv_lora_rank=32,
    qk_nope_head_dim=32, qk_rope_head_dim=16, v_head_dim=32, max_position_embeddings=1024, bos_token_id=1500, eos_token_id=1501))
V32_TINY = V3_TINY | dict(model_type="deepseek_v32", bias=(0.0, 0.2), few_rows=True, config=V3_TINY["config"] | dict(
    num_hidden_layers=3, n_group=1, topk_group=1, index_n_heads=16, index_head_dim=32, index_topk=16))
GLM_52_TINY = GLM_DSA | dict(few_rows=True, config=GLM_DSA["config"] | dict(
    vocab_size=1510, max_position_embeddings=1024, bos_token_id=1500, eos_token_id=[1500, 1504, 1506], index_topk=16))

# how: what is unusual about the file (see the functions below that look at it).
MODELS = {
    "plain": V2_GROUPS | dict(seed=31, how={"two_dims", "few_keys"}, types=types("BF16", token_embd="F16", attn_output="F32")),
    "chat": V3_TINY | dict(seed=30, how={"mtp"}, vocabulary=("bpe-v3.json", "deepseek-v3", "deepseek-v3.jinja"), types=types("BF16")),
    "sizes": V2_GROUPS | dict(seed=44, how=set(), types=types("BF16") | {  # experts of two sizes of slots
        f"blk.1.ffn_{part}_exps": "F32" for part in ("gate", "up", "down")}),
    "v2-lite-q4km": V2_LITE | dict(seed=32, how={"split"}, types=types(
        "Q4_K", ffn_down_exps="Q6_K", attn_v_b="Q6_K", output="Q6_K")),
    "v3-q2k": V3 | dict(seed=33, how={"mtp"}, types=types(
        "Q2_K", ffn_down_exps="Q3_K", ffn_down_shexp="Q3_K", ffn_down="Q3_K", attn_output="Q3_K", attn_v_b="Q4_K",
        output="Q6_K")),
    "v3-q3km": V3 | dict(seed=50, how=set(), types=types(
        "Q3_K", ffn_down_exps="Q4_K", ffn_down_shexp="Q5_K", attn_output="Q4_K", attn_v_b="Q5_K", output="Q6_K")),
    "moonlight-q5km": MOONLIGHT | dict(seed=34, how=set(), types=types(
        "Q5_K", ffn_down_shexp="Q6_K", attn_kv_a_mqa="Q6_K", token_embd="Q8_0", output="Q8_0")),
    "moonlight-1408": MOONLIGHT_1408 | dict(seed=51, how=set(), types=types(
        "Q4_K", output="Q6_K", **{"blk.0.ffn_down_exps": "Q6_K", "blk.0.ffn_down_shexp": "Q6_K"})),
    "flash-heads": FLASH_HEADS | dict(seed=52, how=set(), types=types(
        "Q4_K", ffn_down_exps="Q6_K", ffn_down_shexp="Q6_K", attn_v_b="Q6_K", output="Q6_K")),
    "k2-q4_0": K2 | dict(seed=35, how=set(), types=types(
        "Q8_0", ffn_gate_exps="Q4_0", ffn_up_exps="Q4_0", ffn_down_exps="Q4_0")),
    "flash-q8_0": FLASH | dict(seed=36, how={"fused", "mtp", "aligned"}, types=types("Q8_0", ffn_gate_inp="F16")),
    "v2-old": V2_LITE | dict(seed=37, how={"kv_b", "old_keys"}, types=types(
        "Q4_K", ffn_down_exps="Q5_K", attn_kv_b="Q5_K", output="Q6_K")),
    "legacy": K2 | dict(seed=38, how={"both_kv_b"}, types=types(
        "Q5_1", ffn_gate_exps="Q4_1", ffn_up_exps="Q4_1", ffn_down_exps="Q5_0", attn_q_b="IQ4_NL", attn_v_b="IQ4_NL")),
    "mxfp4": FLASH | dict(seed=39, how=set(), types=types(
        "Q8_0", ffn_gate_exps="MXFP4", ffn_up_exps="MXFP4", ffn_down_exps="MXFP4", attn_k_b="MXFP4", attn_v_b="MXFP4")),
    "v3-iq2": V3 | dict(seed=40, how=set(), types=types(
        "IQ4_XS", ffn_gate_exps="IQ2_XXS", ffn_up_exps="IQ2_XXS", ffn_down_exps="IQ2_S", ffn_gate_shexp="IQ3_S",
        ffn_up_shexp="IQ3_S", ffn_down_shexp="IQ3_XXS", attn_output="IQ2_XS", attn_k_b="IQ4_NL", token_embd="IQ3_S",
        output="Q5_K")),
    "v3-iq1": V3 | dict(seed=41, how=set(), types=types(
        "Q4_K", ffn_gate_exps="IQ1_S", ffn_up_exps="IQ1_S", ffn_down_exps="IQ1_M", output="Q6_K", token_embd="Q4_K")),
    "ternary": V3 | dict(seed=42, how=set(), types=types(
        "Q6_K", ffn_gate_exps="TQ1_0", ffn_up_exps="TQ1_0", ffn_down_exps="TQ2_0")),
    "nvfp4": FLASH | dict(seed=44, how=set(), types=types(
        "Q8_0", ffn_gate_exps="NVFP4", ffn_up_exps="NVFP4", ffn_down_exps="NVFP4", attn_output="NVFP4")),
    "nvfp4-factors": FLASH | dict(seed=45, how={"factors", "fused"}, types=types(
        "Q8_0", ffn_gate_up_exps="NVFP4", ffn_down_exps="NVFP4", ffn_down_shexp="NVFP4", attn_output="NVFP4", output="NVFP4")),
    "v32-q4k": V32 | dict(seed=46, how={"mtp"}, types=types(
        "Q4_K", ffn_down_exps="Q6_K", attn_v_b="Q6_K", output="Q6_K", **{"proj": "F32", "attn_k": "Q8_0"})),
    "glm-dsa": GLM_DSA | dict(seed=47, how={"mtp", "spare"}, types=types("Q8_0", **{"proj": "F32"})),
    # to talk to: layers that choose 16 positions. V3.2's makers ship no template, so that file has none
    "v32-chat": V32_TINY | dict(seed=48, how={"mtp"}, vocabulary=("bpe-v3.json", "deepseek-v3", None), types=types("Q8_0", **{"proj": "F32"})),
    "glm-52-chat": GLM_52_TINY | dict(seed=49, how={"mtp"}, vocabulary=("bpe-glm.json", "glm4", "glm-5.2.jinja"),
                                      types=types("Q8_0", **{"proj": "F32"})),
    "v3-ud": V3_DENSE | dict(seed=43, how={"split"}, types=types(
        "Q4_K", attn_kv_a_mqa="Q8_0", attn_k_b="Q4_1", attn_v_b="Q5_K", ffn_gate_exps="IQ2_XS", ffn_up_exps="IQ3_XXS",
        ffn_down_exps="Q2_K", ffn_gate_shexp="Q4_K",
        ffn_up_shexp="IQ4_XS", ffn_down_shexp="Q5_K", ffn_gate="IQ1_S", ffn_up="IQ1_M", ffn_down="IQ2_S",
        attn_output="Q3_K", attn_q_a="IQ3_S", attn_q_b="Q6_K", token_embd="IQ2_XXS", output="F16")),
}


# ---- blocks

def type_of(spec, name, cols):
    """A tensor's type: that of the mix, or what llama-quantize takes where rows are no whole blocks."""
    stem = name.split(".")[-2]
    if stem in ("ffn_gate_inp",) and stem not in spec["types"]:
        return "F32"
    wanted = spec["types"].get(name.removesuffix(".weight"), spec["types"].get(stem, spec["types"][""]))
    inputs, _ = gguf.GGML_QUANT_SIZES[Type[wanted]]
    if cols % inputs:
        wanted = FALLBACK.get(wanted, "IQ4_NL")
    return wanted


def random_halves(values):
    return values.astype(np.float16).view(np.uint8).reshape(len(values), 2)


def set_scales(kind, blocks, size):
    """size: of each block's weights, if those of scale 1 are of size 1."""
    if kind == "IQ1_M":
        bits = size.astype(np.float16).view(np.uint16)
        for i in range(4):
            blocks[:, 49 + 2 * i] = blocks[:, 49 + 2 * i] & 0x0f | ((bits >> (4 * i) & 15) << 4).astype(np.uint8)
    elif kind == "NVFP4":  # a step is 1/8 of the size or less: bytes of e4m3 around 2^-6
        blocks[:, :4] = 8 + blocks[:, :4] % 8
    else:
        first, second, ratio = SCALES.get(kind, (0, None, 0))
        blocks[:, first:first + 2] = random_halves(size)
        if second is not None:
            blocks[:, second:second + 2] = random_halves(size * ratio)


def random_blocks(generator, kind, shape, size):
    inputs, width = gguf.GGML_QUANT_SIZES[Type[kind]]
    count = int(np.prod(shape)) // inputs
    blocks = generator.integers(0, 256, (count, width), dtype=np.uint8)
    sample = blocks[:4096].copy()
    set_scales(kind, sample, np.ones(len(sample)))
    one = gguf.quants.dequantize(sample, Type[kind]).std()
    set_scales(kind, blocks, size / one * generator.uniform(0.6, 1.4, count))
    return blocks.reshape(shape[:-1] + (shape[-1] // inputs * width,))


def stored(generator, kind, shape, size):
    """Random numbers of that size as they lie in a file, and as float32."""
    numbers = (size * generator.standard_normal(shape)).astype(np.float32)
    if kind in FLOATS:
        data = numbers.astype(FLOATS[kind])
        return data, data.astype(np.float32)
    try:
        data = gguf.quants.quantize(numbers, Type[kind])
    except NotImplementedError:
        data = random_blocks(generator, kind, shape, size)
    return data, gguf.quants.dequantize(data, Type[kind]).reshape(shape)


# ---- tensors

def layer_shapes(c, how, layer):
    """(GGUF's name, shape, transformers' name, its inputs) of a layer's matrices; experts by their stack."""
    heads, nope, rope, v = (c[k] for k in ("num_attention_heads", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
    hidden, kv, m, n = c["hidden_size"], c["kv_lora_rank"], c["moe_intermediate_size"], c["n_routed_experts"]
    out = []
    if c["q_lora_rank"]:
        out += [("attn_q_a", (c["q_lora_rank"], hidden), "self_attn.q_a_proj"),
                ("attn_q_b", (heads * (nope + rope), c["q_lora_rank"]), "self_attn.q_b_proj")]
    else:
        out += [("attn_q", (heads * (nope + rope), hidden), "self_attn.q_proj")]
    out += [("attn_kv_a_mqa", (kv + rope, hidden), "self_attn.kv_a_proj_with_mqa")]
    if "kv_b" in how:
        out += [("attn_kv_b", (heads * (nope + v), kv), "self_attn.kv_b_proj")]
    else:
        out += [("attn_k_b", (heads, kv, nope), None), ("attn_v_b", (heads, v, kv), None)]
    out += [("attn_output", (hidden, heads * v), "self_attn.o_proj")]
    if has_indexer(c, layer):
        out += [(f"indexer.{name}", shape, f"self_attn.indexer.{their}") for name, shape, their in indexer_shapes(c)]
    if layer < c["first_k_dense_replace"]:
        wide = c["intermediate_size"]
        return out + [("ffn_gate", (wide, hidden), "mlp.gate_proj"), ("ffn_up", (wide, hidden), "mlp.up_proj"),
                      ("ffn_down", (hidden, wide), "mlp.down_proj")]
    shared = m * c["n_shared_experts"]
    out += [("ffn_gate_inp", (n, hidden), "mlp.gate"),
            ("ffn_gate_shexp", (shared, hidden), "mlp.shared_experts.gate_proj"),
            ("ffn_up_shexp", (shared, hidden), "mlp.shared_experts.up_proj"),
            ("ffn_down_shexp", (hidden, shared), "mlp.shared_experts.down_proj")]
    if "fused" in how:
        out += [("ffn_gate_up_exps", (n, 2 * m, hidden), "gate_up_proj")]
    else:
        out += [("ffn_gate_exps", (n, m, hidden), "gate_proj"), ("ffn_up_exps", (n, m, hidden), "up_proj")]
    return out + [("ffn_down_exps", (n, hidden, m), "down_proj")]


def has_indexer(c, layer):
    return "index_n_heads" in c and c.get("indexer_types", ["full"] * (layer + 1))[layer] == "full"


def indexer_shapes(c):
    heads, dim = c["index_n_heads"], c["index_head_dim"]
    return [("attn_q_b", (heads * dim, c["q_lora_rank"]), "wq_b"), ("attn_k", (dim, c["hidden_size"]), "wk"),
            ("proj", (heads, c["hidden_size"]), "weights_proj")]


def norm_names(c):
    out = [("attn_norm", c["hidden_size"], "input_layernorm"), ("ffn_norm", c["hidden_size"], "post_attention_layernorm"),
           ("attn_kv_a_norm", c["kv_lora_rank"], "self_attn.kv_a_layernorm")]
    if c["q_lora_rank"]:
        out += [("attn_q_a_norm", c["q_lora_rank"], "self_attn.q_a_layernorm")]
    return out


class Maker:
    def __init__(self, spec):
        self.spec, self.config = spec, spec["config"]
        self.generator = np.random.default_rng(spec["seed"])
        self.tensors = []  # (name, data, type) as the file has them, in its order
        self.meaning = {}  # under transformers' names

    def add(self, name, shape, size):
        kind = type_of(self.spec, name, shape[-1])
        data, numbers = stored(self.generator, kind, shape, size)
        if "two_dims" in self.spec["how"] and name.endswith(("attn_k_b.weight", "attn_v_b.weight")):
            data = data.reshape(-1, data.shape[-1])
        self.tensors.append((name, data, kind))
        return self.with_factors(name, numbers) if kind == "NVFP4" and "factors" in self.spec["how"] else numbers

    def with_factors(self, name, numbers):
        """What NVIDIA's own tools leave beside NVFP4: a factor of each matrix, and one for activations that nobody needs."""
        factors = self.generator.uniform(0.5, 2, numbers.shape[0] if numbers.ndim == 3 else 1).astype(np.float32)
        self.tensors.append((name.replace(".weight", ".scale"), factors, "F32"))
        self.tensors.append((name.replace(".weight", ".input_scale"), np.ones(1, np.float32), "F32"))
        return numbers * factors.reshape((-1,) + (1,) * (numbers.ndim - 1))

    def add_norm(self, name, dim, ours):
        self.add_vector(name, 1 + 0.3 * self.generator.standard_normal(dim), ours)  # bf16 would round it

    def add_vector(self, name, numbers, ours):
        data = numbers.astype(np.float32)
        self.tensors.append((name, data, "F32"))
        self.meaning[ours] = data

    def add_index_norm(self, prefix, ours):
        dim = self.config["index_head_dim"]
        self.add_norm(f"{prefix}indexer.k_norm.weight", dim, f"{ours}self_attn.indexer.k_norm.weight")
        bias = 0.4 * self.generator.standard_normal(dim)
        self.add_vector(f"{prefix}indexer.k_norm.bias", bias, f"{ours}self_attn.indexer.k_norm.bias")

    def layer(self, block, ours):
        c, prefix = self.config, f"blk.{block}."
        for name, dim, their in norm_names(c):
            self.add_norm(f"{prefix}{name}.weight", dim, f"{ours}{their}.weight")
        if has_indexer(c, block):
            self.add_index_norm(prefix, ours)
        elif "spare" in self.spec["how"]:  # a layer that shares another's indexer has one all the same
            kept = dict(self.meaning)
            self.add_index_norm(prefix, "x")
            for name, shape, _ in indexer_shapes(c):
                self.add(f"{prefix}indexer.{name}.weight", shape, 1.0)
            self.meaning = kept
        numbers = {}
        for name, shape, their in layer_shapes(c, self.spec["how"], block):
            gain = next((g for key, g in ck.GAINS.items() if their and f"{their}.weight".endswith(key + ".weight")), 1.0)
            inputs = shape[-1]
            if name in ("attn_k_b", "attn_v_b"):
                gain, inputs = ck.GAINS["kv_b_proj"], c["kv_lora_rank"]
            numbers[name] = self.add(f"{prefix}{name}.weight", shape, gain / inputs**0.5)
            if their and not name.endswith("_exps"):
                self.meaning[f"{ours}{their}.weight"] = numbers[name]
        if "attn_k_b" in numbers:
            both = np.concatenate([numbers["attn_k_b"].transpose(0, 2, 1), numbers["attn_v_b"]], axis=1)
            self.meaning[f"{ours}self_attn.kv_b_proj.weight"] = both.reshape(-1, both.shape[-1])
            if "both_kv_b" in self.spec["how"]:
                data = np.zeros_like(both.reshape(-1, both.shape[-1]))  # not what the halves say: must not be used
                self.tensors.append((f"{prefix}attn_kv_b.weight", data, "F32"))
        self.add_experts(numbers, ours)
        if "ffn_gate_inp" in numbers and "bias" in self.spec:
            mean, deviation = self.spec["bias"]
            bias = mean + deviation * self.generator.standard_normal(c["n_routed_experts"])
            self.add_vector(f"{prefix}exp_probs_b.bias", bias, f"{ours}mlp.gate.e_score_correction_bias")

    def add_experts(self, numbers, ours):
        fused = numbers.get("ffn_gate_up_exps")
        half = self.config["moe_intermediate_size"]
        for e in range(self.config["n_routed_experts"] if "ffn_down_exps" in numbers else 0):
            parts = {"gate_proj": fused[e, :half] if fused is not None else numbers["ffn_gate_exps"][e],
                     "up_proj": fused[e, half:] if fused is not None else numbers["ffn_up_exps"][e],
                     "down_proj": numbers["ffn_down_exps"][e]}
            for key, matrix in parts.items():
                self.meaning[f"{ours}mlp.experts.{e}.{key}.weight"] = matrix

    def mtp_block(self):
        """As the last layer, with tensors of its own; transformers has none of it."""
        block, hidden = self.config["num_hidden_layers"], self.config["hidden_size"]
        kept, self.meaning = self.meaning, {}
        self.add_norm(f"blk.{block}.attn_norm.weight", hidden, "x")
        self.add_norm(f"blk.{block}.nextn.enorm.weight", hidden, "x")
        self.add_norm(f"blk.{block}.nextn.hnorm.weight", hidden, "x")
        self.tensors.append((f"blk.{block}.nextn.eh_proj.weight", np.zeros((8, 2 * hidden), np.float16), "F16"))
        self.meaning = kept

    def everything(self):
        c = self.config
        tied = c.get("tie_word_embeddings")
        size = 0.4 if tied else 1.0
        self.meaning["model.embed_tokens.weight"] = self.add("token_embd.weight", (c["vocab_size"], c["hidden_size"]), size)
        for layer in range(c["num_hidden_layers"]):
            self.layer(layer, f"model.layers.{layer}.")
        if "mtp" in self.spec["how"]:
            self.mtp_block()
        self.add_norm("output_norm.weight", c["hidden_size"], "model.norm.weight")
        if not tied:
            size = ck.GAINS["lm_head"] / c["hidden_size"]**0.5
            self.meaning["lm_head.weight"] = self.add("output.weight", (c["vocab_size"], c["hidden_size"]), size)


# ---- keys, as llama.cpp's converter writes them

def add_keys(writer, spec):
    c, how = spec["config"], spec["how"]
    nextn = 1 if "mtp" in how else 0
    sigmoid = spec["model_type"] != "deepseek_v2"
    both = c["qk_nope_head_dim"] + c["qk_rope_head_dim"]
    writer.add_name("random " + spec["model_type"])
    writer.add_quantization_version(2)
    writer.add_block_count(c["num_hidden_layers"] + nextn)
    if nextn:
        writer.add_nextn_predict_layers(nextn)
    writer.add_context_length(c["max_position_embeddings"])
    writer.add_embedding_length(c["hidden_size"])
    writer.add_feed_forward_length(c["intermediate_size"])
    writer.add_head_count(c["num_attention_heads"])
    writer.add_head_count_kv(c["num_attention_heads"] if "old_keys" in how else 1)
    if c["q_lora_rank"]:
        writer.add_q_lora_rank(c["q_lora_rank"])
    writer.add_kv_lora_rank(c["kv_lora_rank"])
    if "old_keys" in how:
        writer.add_key_length(both)
        writer.add_value_length(c["v_head_dim"])
    else:
        writer.add_key_length(c["kv_lora_rank"] + c["qk_rope_head_dim"])
        writer.add_value_length(c["kv_lora_rank"])
        writer.add_key_length_mla(both)
        writer.add_value_length_mla(c["v_head_dim"])
    writer.add_rope_dimension_count(c["qk_rope_head_dim"])
    writer.add_layer_norm_rms_eps(c["rms_norm_eps"])
    writer.add_leading_dense_block_count(c["first_k_dense_replace"])
    writer.add_expert_count(c["n_routed_experts"])
    writer.add_expert_used_count(c["num_experts_per_tok"])
    writer.add_expert_shared_count(c["n_shared_experts"])
    writer.add_expert_feed_forward_length(c["moe_intermediate_size"])
    writer.add_expert_weights_scale(c["routed_scaling_factor"])
    if "few_keys" not in how:
        writer.add_vocab_size(c["vocab_size"])
        writer.add_rope_freq_base(c["rope_theta"])
        writer.add_expert_weights_norm(c["norm_topk_prob"])
    if sigmoid or not how & {"old_keys", "few_keys"}:
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID if sigmoid else gguf.ExpertGatingFuncType.SOFTMAX)
    if c["n_group"] > 1 or "old_keys" not in how:
        writer.add_expert_group_count(c["n_group"])
        writer.add_expert_group_used_count(c["topk_group"])
    if "index_n_heads" in c:
        writer.add_indexer_head_count(c["index_n_heads"])
        writer.add_indexer_key_length(c["index_head_dim"])
        writer.add_indexer_top_k(c["index_topk"])
    if "indexer_types" in c:
        writer.add_array("glm-dsa.attention.indexer.types", [kind == "full" for kind in c["indexer_types"]] + [True] * nextn)
    if c.get("rope_scaling"):
        yarn = c["rope_scaling"]
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(yarn["factor"])
        writer.add_rope_scaling_orig_ctx_len(yarn["original_max_position_embeddings"])
        writer.add_rope_scaling_yarn_log_mul(0.1 * yarn["mscale_all_dim"])
        if "old_keys" not in how:
            writer.add_rope_scaling_yarn_beta_fast(yarn["beta_fast"])
            writer.add_rope_scaling_yarn_beta_slow(yarn["beta_slow"])
    add_vocabulary(writer, spec)


def add_vocabulary(writer, spec):
    c = spec["config"]
    ends = c["eos_token_id"] if isinstance(c["eos_token_id"], list) else [c["eos_token_id"]]
    writer.add_tokenizer_model("gpt2")
    writer.add_bos_token_id(c["bos_token_id"])
    for end, add in zip(ends, (writer.add_eos_token_id, writer.add_eot_token_id, writer.add_eom_token_id)):
        add(end)
    if "vocabulary" in spec:
        add_real_vocabulary(writer, spec["vocabulary"], c["vocab_size"])
        return
    writer.add_tokenizer_pre("deepseek-v3")
    writer.add_token_list([f"t{i}" for i in range(c["vocab_size"])])
    writer.add_token_types([gguf.TokenType.CONTROL if i < 4 else gguf.TokenType.NORMAL for i in range(c["vocab_size"])])
    writer.add_token_merges(["t 1"])


def add_real_vocabulary(writer, vocabulary, size):
    """A model that can be talked to: a tokenizer.json of tests/unit/data as the converter writes it, and a template."""
    data, (name, pre, template) = os.path.join(HERE, "..", "unit", "data"), vocabulary
    with open(os.path.join(data, name), encoding="utf-8") as file:
        tokenizer = json.load(file)
    tokens, types = [f"[PAD{i}]" for i in range(size)], [gguf.TokenType.UNUSED] * size
    for text, i in tokenizer["model"]["vocab"].items():
        tokens[i], types[i] = text, gguf.TokenType.NORMAL
    for added in tokenizer["added_tokens"]:
        control = added["special"] or added["content"].startswith(("<|", "<｜"))
        tokens[added["id"]] = added["content"]
        types[added["id"]] = gguf.TokenType.CONTROL if control else gguf.TokenType.USER_DEFINED
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges([" ".join(pair) for pair in tokenizer["model"]["merges"]])
    if template:
        with open(os.path.join(data, "templates", template), encoding="utf-8") as file:
            writer.add_chat_template(file.read())


def write_file(path, spec, tensors, part=None):
    """part: (number, count, tensors of all)."""
    writer = gguf.GGUFWriter(path, ARCHITECTURES.get(spec["model_type"], "deepseek2"))
    if "aligned" in spec["how"]:
        writer.add_custom_alignment(4096)
    if not part or part[0] == 0:
        add_keys(writer, spec)
    if part:
        writer.add_uint16("split.no", part[0])
        writer.add_uint16("split.count", part[1])
        writer.add_int32("split.tensors.count", part[2])
    for name, data, kind in tensors:
        writer.add_tensor(name, data, raw_dtype=Type[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_files(directory, name, spec, tensors):
    os.makedirs(directory)
    if "split" not in spec["how"]:
        write_file(os.path.join(directory, f"{name}.gguf"), spec, tensors)
        return
    parts = [[], tensors[::2], tensors[1::2]]  # gate, up and down of a layer lie apart
    for i, part in enumerate(parts):
        path = os.path.join(directory, f"{name}-{i + 1:05d}-of-{len(parts):05d}.gguf")
        write_file(path, spec, part, (i, len(parts), len(tensors)))


def make(folder, name, spec):
    torch.manual_seed(spec["seed"])
    maker = Maker(spec)
    maker.everything()
    directory = os.path.join(folder, f"gguf-{name}")
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    write_files(os.path.join(directory, "checkpoint"), name, spec, maker.tensors)
    model = ck.transformers_model(spec, maker.meaning)
    if spec.get("few_rows"):
        ck.compared = lambda length: [p for p in range(length) if p % 20 == 0 or p == length - 1]
    ck.write_golden(f"gguf-{name}", spec, directory, model, ck.draw_prompts(model, maker.generator))


def main():
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    folder = sys.argv[1] if len(sys.argv) > 1 else HERE
    for name in sys.argv[2:] or MODELS:
        make(folder, name, MODELS[name])


if __name__ == "__main__":
    main()
