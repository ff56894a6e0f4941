# SPDX-License-Identifier: GPL-3.0-or-later
"""Small random checkpoints as the hub has them, with transformers' own numbers for them.

    python3 tests/golden/make_checkpoints.py [FOLDER [NAME...]]       (transformers 5.17.0, mlx-lm)

writes FOLDER/ck-NAME (original layout) and FOLDER/ck-NAME-mlx (mlx-lm's) for every NAME below; see golden.c for what a
golden folder holds. In the original layout each matrix lies on a grid: (q - k) * scale with 4 bits of q (8 in routers,
embeddings and heads), q's least and largest value in every group. So any affine quantiser that maps a group's extremes
to its own finds the grid again, and one set of numbers holds for bf16, fp8 and int4 alike and for the package that
`moechat convert` makes of them. One model lies on no grid: its numbers are those of weights quantised by mx.quantize as
convert says that it does (4 bits, 8 in embeddings and head, routers as they are). The MLX folders are quantised by mlx-lm itself, and their numbers are those of the
weights as they stand there. Numbers are float32, eager attention. Weights are scaled so that routing is decisive and
attention far from uniform; both are checked here.
"""

import json
import os
import shutil
import sys

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import (DeepseekV2Config, DeepseekV2ForCausalLM, DeepseekV3Config, DeepseekV3ForCausalLM,
                          DeepseekV32Config, DeepseekV32ForCausalLM, Glm4MoeLiteConfig, Glm4MoeLiteForCausalLM,
                          GlmMoeDsaConfig, GlmMoeDsaForCausalLM)

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "models", "demo", "train"))
import package  # noqa: E402

PROMPTS = (9, 26, 72)  # tokens; the YaRN models' original length is 32
MOST_SPREAD = 0.85  # entropy of attention, of uniform
LEAST_MARGIN = 2e-4  # between the last chosen and the first unchosen, in scores of about 1
LEAST_INDEX_MARGIN = 1e-4  # the same of positions that an indexer chooses, of its scores' standard deviation
FP8_BLOCK = 128
CLASSES = {"deepseek_v2": (DeepseekV2Config, DeepseekV2ForCausalLM),
           "deepseek_v3": (DeepseekV3Config, DeepseekV3ForCausalLM),
           "glm4_moe_lite": (Glm4MoeLiteConfig, Glm4MoeLiteForCausalLM),
           "deepseek_v32": (DeepseekV32Config, DeepseekV32ForCausalLM),
           "glm_moe_dsa": (GlmMoeDsaConfig, GlmMoeDsaForCausalLM)}

COMMON = dict(vocab_size=128, max_position_embeddings=256, bos_token_id=0, eos_token_id=1, hidden_act="silu",
              attention_bias=False)


def yarn(**settings):
    return dict(type="yarn", original_max_position_embeddings=32, beta_fast=32, beta_slow=1) | settings


# group: of the grid and of MLX; layout: of the original; shards; mlx: bits by module (a test of its path), gate: the
# router's form in the MLX folder; bias: mean and deviation of the correction bias.
MODELS = {
    # no q_lora, greedy, two shared experts, YaRN with one mscale, spelled the old way
    "v2-lite": dict(
        model_type="deepseek_v2", seed=1, group=64, layout="bf16", shards=2, gate="bf16",
        mlx={"embed_tokens": 8, "lm_head": 8},
        config=COMMON | dict(
            hidden_size=64, intermediate_size=128, moe_intermediate_size=64, num_hidden_layers=2,
            num_attention_heads=2, num_key_value_heads=2, q_lora_rank=None, kv_lora_rank=64, qk_nope_head_dim=32,
            qk_rope_head_dim=16, v_head_dim=32, n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=2,
            n_group=1, topk_group=1, topk_method="greedy", scoring_func="softmax", first_k_dense_replace=1,
            moe_layer_freq=1, routed_scaling_factor=1.0, norm_topk_prob=False, rms_norm_eps=1e-6,
            rope_theta=10000, rope_scaling=yarn(factor=4, mscale=0.707, mscale_all_dim=0.707))),
    # experts in 2 bits, down and attention in 3, as the smallest folders have them; weights on no grid; no original
    "narrow": dict(
        model_type="deepseek_v2", seed=13, grid=False, group=64, layout=None, shards=2, gate="bf16",
        mlx={"switch_mlp.down_proj": 3, "switch_mlp": 2, "shared_experts": 2, "self_attn": 3, "embed_tokens": 5, "lm_head": 6},
        config=COMMON | dict(
            hidden_size=128, intermediate_size=192, moe_intermediate_size=64, num_hidden_layers=2,
            num_attention_heads=2, num_key_value_heads=2, q_lora_rank=None, kv_lora_rank=64, qk_nope_head_dim=64,
            qk_rope_head_dim=16, v_head_dim=64, n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=2,
            n_group=1, topk_group=1, topk_method="greedy", scoring_func="softmax", first_k_dense_replace=1,
            moe_layer_freq=1, routed_scaling_factor=1.0, norm_topk_prob=False, rms_norm_eps=1e-6,
            rope_theta=10000, rope_scaling=yarn(factor=4, mscale=0.707, mscale_all_dim=0.707))),
    # q_lora, group_limited_greedy, no dense layer, no YaRN, a large factor; routers in float32
    "v2-groups": dict(
        model_type="deepseek_v2", seed=2, group=32, layout="bf16", shards=3, gate="f32",
        mlx={"embed_tokens": None},
        config=COMMON | dict(
            hidden_size=64, intermediate_size=96, moe_intermediate_size=32, num_hidden_layers=2,
            num_attention_heads=2, num_key_value_heads=2, q_lora_rank=32, kv_lora_rank=64, qk_nope_head_dim=32,
            qk_rope_head_dim=8, v_head_dim=32, n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=2,
            n_group=4, topk_group=2, topk_method="group_limited_greedy", scoring_func="softmax",
            first_k_dense_replace=0, routed_scaling_factor=6.0, norm_topk_prob=False, rms_norm_eps=1e-5,
            rope_theta=10000)),
    # fp8 in blocks, groups by their two best, two dense layers, YaRN, MTP tensors; a layer with 8-bit experts in MLX
    "v3-groups": dict(
        model_type="deepseek_v3", seed=3, group=32, layout="fp8", shards=3, gate="bf16", bias=(-1.5, 0.3),
        mlx={"layers.2.mlp.switch_mlp": 8, "self_attn.o_proj": 8, "lm_head": None},
        config=COMMON | dict(
            hidden_size=96, intermediate_size=160, moe_intermediate_size=32, num_hidden_layers=3,
            num_attention_heads=4, num_key_value_heads=4, q_lora_rank=160, kv_lora_rank=64, qk_nope_head_dim=32,
            qk_rope_head_dim=16, v_head_dim=32, n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=1,
            n_group=4, topk_group=2, topk_method="noaux_tc", scoring_func="sigmoid", first_k_dense_replace=2,
            moe_layer_freq=1, routed_scaling_factor=2.5, norm_topk_prob=True, num_nextn_predict_layers=1,
            rms_norm_eps=1e-6, rope_theta=10000, rope_scaling=yarn(factor=8, mscale=1.0, mscale_all_dim=1.0))),
    # no q_lora, one group, no dense layer, two shared experts, groups of 128 (embed_q's rows are too short and stay bf16), tied
    "moonlight": dict(
        model_type="deepseek_v3", seed=4, group=128, layout="bf16", shards=2, gate="bf16", bias=(0.0, 0.2), mlx={},
        config=COMMON | dict(
            hidden_size=128, intermediate_size=128, moe_intermediate_size=128, num_hidden_layers=1,
            num_attention_heads=2, num_key_value_heads=2, q_lora_rank=None, kv_lora_rank=128, qk_nope_head_dim=32,
            qk_rope_head_dim=16, v_head_dim=64, n_routed_experts=4, num_experts_per_tok=2, n_shared_experts=2,
            n_group=1, topk_group=1, topk_method="noaux_tc", scoring_func="sigmoid", first_k_dense_replace=0,
            moe_layer_freq=1, routed_scaling_factor=2.446, norm_topk_prob=True, rms_norm_eps=1e-5,
            rope_theta=50000.0, tie_word_embeddings=True)),
    # many experts in one group, both betas 1; routers in float32
    "k2": dict(
        model_type="kimi_k2", seed=5, group=32, layout="bf16", shards=2, gate="f32", bias=(0.0, 0.2),
        mlx={"embed_tokens": 8},
        config=COMMON | dict(
            hidden_size=64, intermediate_size=128, moe_intermediate_size=32, num_hidden_layers=2,
            num_attention_heads=2, num_key_value_heads=2, q_lora_rank=64, kv_lora_rank=64, qk_nope_head_dim=32,
            qk_rope_head_dim=16, v_head_dim=32, n_routed_experts=16, num_experts_per_tok=4, n_shared_experts=1,
            n_group=1, topk_group=1, topk_method="noaux_tc", scoring_func="sigmoid", first_k_dense_replace=1,
            moe_layer_freq=1, routed_scaling_factor=2.827, norm_topk_prob=True, num_nextn_predict_layers=0,
            rms_norm_eps=1e-5, rope_theta=50000.0,
            rope_scaling=yarn(factor=4.0, mscale=1.0, mscale_all_dim=1.0, beta_fast=1.0, beta_slow=1.0))),
    # the text model inside, int4 experts, vision tensors beside it
    "k25": dict(
        model_type="kimi_k25", seed=6, group=32, layout="int4", shards=3, gate="bf16", bias=(0.0, 0.2), mlx={},
        config=COMMON | dict(
            hidden_size=64, intermediate_size=96, moe_intermediate_size=32, num_hidden_layers=3,
            num_attention_heads=3, num_key_value_heads=3, q_lora_rank=32, kv_lora_rank=32, qk_nope_head_dim=32,
            qk_rope_head_dim=16, v_head_dim=32, n_routed_experts=12, num_experts_per_tok=4, n_shared_experts=1,
            n_group=1, topk_group=1, topk_method="noaux_tc", scoring_func="sigmoid", first_k_dense_replace=1,
            moe_layer_freq=1, routed_scaling_factor=2.827, norm_topk_prob=True, num_nextn_predict_layers=0,
            rms_norm_eps=1e-5, rope_theta=50000.0, rope_scaling=yarn(factor=4.0, mscale=1.0, mscale_all_dim=1.0))),
    # values wider than keys, plain rope of a large theta, several ends; routers in 8 bits; weights on no grid
    "glm": dict(
        model_type="glm4_moe_lite", seed=7, grid=False, group=64, layout="bf16", shards=2, gate="8-bit", bias=(0.0, 0.2),
        mlx={"embed_tokens": 8, "lm_head": 8},
        config=COMMON | dict(
            hidden_size=64, intermediate_size=128, moe_intermediate_size=64, num_hidden_layers=2,
            num_attention_heads=2, num_key_value_heads=2, q_lora_rank=64, kv_lora_rank=64, qk_nope_head_dim=64,
            qk_rope_head_dim=16, v_head_dim=96, n_routed_experts=8, num_experts_per_tok=2, n_shared_experts=1,
            n_group=1, topk_group=1, first_k_dense_replace=1, routed_scaling_factor=1.8, norm_topk_prob=True,
            eos_token_id=[1, 2, 3], num_nextn_predict_layers=1, partial_rotary_factor=1.0, rms_norm_eps=1e-3,
            rope_theta=1000000, rope_scaling=None)),
    # two dense layers by their list, two groups, rope in halves, YaRN spelled the new way with two mscales, tied
    "glm-list": dict(
        model_type="glm4_moe_lite", seed=8, group=32, layout="bf16", shards=2, gate="bf16", bias=(-1.2, 0.3), mlx={},
        config=COMMON | dict(
            hidden_size=64, intermediate_size=96, moe_intermediate_size=32, num_hidden_layers=3,
            num_attention_heads=2, num_key_value_heads=2, q_lora_rank=32, kv_lora_rank=64, qk_nope_head_dim=32,
            qk_rope_head_dim=12, v_head_dim=64, n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=1,
            n_group=2, topk_group=1, routed_scaling_factor=1.8, norm_topk_prob=True, rms_norm_eps=1e-5,
            mlp_layer_types=["dense", "dense", "sparse"], rope_interleave=False, tie_word_embeddings=True,
            rope_parameters=dict(rope_type="yarn", rope_theta=20000.0, factor=4.0, mscale=0.707, mscale_all_dim=1.3,
                                 original_max_position_embeddings=32, beta_fast=8.0, beta_slow=2.0))),
    # an indexer in each layer, in fp8 but for what makes its heads' weights; the prompts go far beyond what it chooses
    "v32": dict(
        model_type="deepseek_v32", seed=9, group=32, layout="fp8", shards=2, gate="bf16", bias=(0.0, 0.2),
        mlx={"embed_tokens": 8},
        config=COMMON | dict(
            hidden_size=64, intermediate_size=96, moe_intermediate_size=32, num_hidden_layers=3,
            num_attention_heads=2, num_key_value_heads=2, q_lora_rank=64, kv_lora_rank=64, qk_nope_head_dim=32,
            qk_rope_head_dim=16, v_head_dim=32, n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=1,
            n_group=4, topk_group=2, topk_method="noaux_tc", scoring_func="sigmoid", first_k_dense_replace=1,
            moe_layer_freq=1, routed_scaling_factor=2.5, norm_topk_prob=True, num_nextn_predict_layers=1,
            index_n_heads=32, index_head_dim=32, index_topk=8, rms_norm_eps=1e-6, rope_theta=10000,
            rope_scaling=yarn(factor=8, mscale=1.0, mscale_all_dim=1.0))),
    # index heads that turn neighbours; two layers share the choice of one before; norms of another epsilon than the
    # latents'; layers that share have an indexer all the same; mlx-lm 0.32.2 does not know shared ones
    "glm-dsa": dict(
        model_type="glm_moe_dsa", seed=10, spare=True, group=32, layout="bf16", shards=2, gate="bf16", bias=(0.0, 0.2), mlx=None,
        config=COMMON | dict(
            hidden_size=64, intermediate_size=96, moe_intermediate_size=32, num_hidden_layers=5,
            num_attention_heads=2, num_key_value_heads=2, q_lora_rank=32, kv_lora_rank=64, qk_nope_head_dim=48,
            qk_rope_head_dim=16, v_head_dim=64, n_routed_experts=8, num_experts_per_tok=2, n_shared_experts=1,
            n_group=1, topk_group=1, first_k_dense_replace=1, routed_scaling_factor=2.5, norm_topk_prob=True,
            eos_token_id=[1, 2, 3], index_n_heads=16, index_head_dim=64, index_topk=12, index_topk_freq=2,
            index_skip_topk_offset=2, indexer_rope_interleave=True, rms_norm_eps=1e-3,
            rope_parameters=dict(rope_type="default", rope_theta=1000000.0))),
    # the same without shared ones, for MLX
    "glm-5": dict(
        model_type="glm_moe_dsa", seed=11, group=32, layout=None, shards=2, gate="bf16", bias=(0.0, 0.2), mlx={},
        config=COMMON | dict(
            hidden_size=64, intermediate_size=96, moe_intermediate_size=32, num_hidden_layers=3,
            num_attention_heads=2, num_key_value_heads=2, q_lora_rank=32, kv_lora_rank=64, qk_nope_head_dim=32,
            qk_rope_head_dim=16, v_head_dim=64, n_routed_experts=8, num_experts_per_tok=2, n_shared_experts=1,
            n_group=1, topk_group=1, first_k_dense_replace=1, routed_scaling_factor=2.5, norm_topk_prob=True,
            index_n_heads=16, index_head_dim=32, index_topk=10, moe_layer_freq=1, scoring_func="sigmoid",
            topk_method="noaux_tc", rms_norm_eps=1e-5,
            rope_parameters=dict(rope_type="default", rope_theta=1000000.0))),
    # as GLM-5.2 lies there: fp8, an MTP block, index heads as wide and as many as the real ones (which tensor cores take),
    # every second layer sharing by frequency and offset; in MLX layers that share have no indexer
    "glm-52": dict(
        model_type="glm_moe_dsa", seed=12, group=32, layout="fp8", shards=2, gate="bf16", bias=(0.0, 0.2), mlx={},
        config=COMMON | dict(
            hidden_size=64, intermediate_size=96, moe_intermediate_size=32, num_hidden_layers=4,
            num_attention_heads=2, num_key_value_heads=2, q_lora_rank=32, kv_lora_rank=64, qk_nope_head_dim=32,
            qk_rope_head_dim=16, v_head_dim=64, n_routed_experts=8, num_experts_per_tok=2, n_shared_experts=1,
            n_group=1, topk_group=1, first_k_dense_replace=1, routed_scaling_factor=2.5, norm_topk_prob=True,
            num_nextn_predict_layers=1, index_n_heads=32, index_head_dim=128, index_topk=10, index_topk_freq=2,
            index_skip_topk_offset=1, indexer_rope_interleave=True, moe_layer_freq=1, scoring_func="sigmoid",
            topk_method="noaux_tc", rms_norm_eps=1e-5,
            rope_parameters=dict(rope_type="default", rope_theta=8000000.0))),
}

# Standard deviation of a matrix is its gain / sqrt(inputs), so that a gain is what it does to a normalised input.
GAINS = {"q_proj": 1.6, "q_b_proj": 1.6, "kv_b_proj": 1.2, "mlp.gate": 2.0, "lm_head": 2.0, "down_proj": 1.5}


INDEX_NORMS = ("indexer.k_norm.weight", "indexer.k_norm.bias")


def transformers_type(model_type):
    return "deepseek_v3" if model_type.startswith("kimi") else model_type


def make_config(spec):
    config = CLASSES[transformers_type(spec["model_type"])][0](**json.loads(json.dumps(spec["config"])))
    config._attn_implementation = config._experts_implementation = "eager"
    return config


def bits_of(name):
    return 8 if name.endswith(".mlp.gate.weight") or name.startswith(("lm_head", "model.embed_tokens")) else 4


def on_grid(generator, spec, name, shape):
    """A matrix of (q - k) * scale; with fp8 one scale for each block, and int4's k is 8."""
    rows, cols = shape
    bits, group = bits_of(name), spec["group"]
    top = 2**bits - 1
    gain = next((gain for key, gain in GAINS.items() if name.endswith(key + ".weight")), 1.0)
    if name == "model.embed_tokens.weight":
        gain = (0.4 if spec["config"].get("tie_word_embeddings") else 1.0) * cols**0.5
    q = generator.integers(0, top + 1, (rows, cols // group, group))
    ends = generator.permuted(np.broadcast_to(np.arange(group), q.shape), axis=2)
    np.put_along_axis(q, ends[:, :, :1], 0, axis=2)
    np.put_along_axis(q, ends[:, :, 1:2], top, axis=2)
    middle = np.full(q.shape[:2] + (1,), (top + 1) // 2)
    if spec["layout"] == "bf16":
        middle = middle + generator.integers(-top // 8, top // 8 + 1, middle.shape)
    unit = gain / cols**0.5 / (top / 12**0.5)
    if bits == 8:  # (q - k) fills bf16's 8 bits
        scale = np.full(middle.shape, 2.0 ** np.round(np.log2(unit)))
    else:
        blocks = (-(-rows // FP8_BLOCK), -(-cols // FP8_BLOCK)) if spec["layout"] == "fp8" else q.shape[:2]
        mantissa = generator.integers(8, 16, blocks) / 8  # 4 significant bits
        scale = mantissa * 2.0 ** np.round(np.log2(unit / 1.5))
        if spec["layout"] == "fp8":
            scale = np.repeat(np.repeat(scale, FP8_BLOCK, 0)[:rows], FP8_BLOCK // group, 1)[:, :q.shape[1]]
        scale = scale[:, :, None]
    matrix = ((q - middle) * scale).reshape(rows, cols).astype(np.float32)
    assert (package.round_bf16(matrix) == matrix).all()
    return matrix


def random_tensors(spec, generator):
    model = CLASSES[transformers_type(spec["model_type"])][1](make_config(spec))
    out = {}
    state = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    for name, tensor in package.split_experts(state).items():
        if name == "lm_head.weight" and spec["config"].get("tie_word_embeddings"):
            continue
        noise = generator.standard_normal(tensor.shape).astype(np.float32)
        if name.endswith(package.CORRECTION):
            out[name] = (spec["bias"][0] + spec["bias"][1] * noise).astype(np.float32)
        elif name.endswith(INDEX_NORMS):
            value = (name.endswith("weight") + 0.4 * noise).astype(np.float32)
            out[name] = value if spec["layout"] == "fp8" else package.round_bf16(value)
        elif tensor.ndim == 1:
            out[name] = package.round_bf16(1 + 0.3 * noise)
        elif spec.get("grid", True):
            out[name] = on_grid(generator, spec, name, tensor.shape)
        else:
            gain = next((gain for key, gain in GAINS.items() if name.endswith(key + ".weight")), 1.0)
            size = 1.0 if name == "model.embed_tokens.weight" else gain / tensor.shape[1] ** 0.5
            out[name] = package.round_bf16(noise * np.float32(size))
    return out


def requantised(spec, tensors):
    """What MLX's own quantisation makes of bf16 weights, as float32."""
    import mlx.core as mx
    out = dict(tensors)
    for name, tensor in tensors.items():
        if tensor.ndim == 2 and not name.endswith(".mlp.gate.weight"):
            words, scales, biases = mx.quantize(mx.array(tensor).astype(mx.bfloat16), spec["group"], bits_of(name))
            parts = (np.array(part.astype(mx.float32)) for part in (scales, biases))
            parts = (package.to_bf16(part) for part in parts)
            out[name] = package.dequantise(np.array(words), *parts, tensor.shape[1])
    return out


def transformers_model(spec, tensors):
    config = make_config(spec)
    model = CLASSES[transformers_type(spec["model_type"])][1](config).float().eval()
    state = {name: torch.from_numpy(np.ascontiguousarray(t)) for name, t in package.fuse_experts(tensors).items()}
    if config.tie_word_embeddings:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state, strict=True)
    return model


# ---- the original layouts

def write_shards(directory, tensors, count, config):
    """count files of about one size, with their index, as save_pretrained names them."""
    os.makedirs(directory)
    names = list(tensors)
    total = sum(t.numel() * t.element_size() for t in tensors.values())
    shards, weight_map, used = [{} for _ in range(count)], {}, 0
    for name in names:
        shard = min(used * count // total, count - 1)
        shards[shard][name] = tensors[name].contiguous().clone()
        weight_map[name] = f"model-{shard + 1:05d}-of-{count:05d}.safetensors"
        used += tensors[name].numel() * tensors[name].element_size()
    for i, shard in enumerate(shards):
        save_file(shard, os.path.join(directory, f"model-{i + 1:05d}-of-{count:05d}.safetensors"), {"format": "pt"})
    write_json(os.path.join(directory, "model.safetensors.index.json"),
               {"metadata": {"total_size": total}, "weight_map": weight_map})
    write_json(os.path.join(directory, "config.json"), config)


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
        file.write("\n")


def as_bf16(tensors):
    return {name: torch.from_numpy(t) if name.endswith(package.CORRECTION) else torch.from_numpy(t).bfloat16()
            for name, t in tensors.items()}


def as_fp8(tensors, config):
    """DeepSeek's: every matrix of a layer but the router in e4m3, one float32 weight_scale_inv for 128 x 128."""
    out = as_bf16(tensors)
    for name, tensor in tensors.items():
        if name.endswith(INDEX_NORMS + ("indexer.weights_proj.weight",)):
            out[name] = torch.from_numpy(tensor)
            continue
        if tensor.ndim != 2 or name.endswith(".mlp.gate.weight") or not name.startswith("model.layers."):
            continue
        rows, cols = tensor.shape
        inverse = np.zeros((-(-rows // FP8_BLOCK), -(-cols // FP8_BLOCK)), np.float32)
        small = np.zeros_like(tensor)
        for i, j in np.ndindex(inverse.shape):
            block = np.s_[i * FP8_BLOCK:(i + 1) * FP8_BLOCK, j * FP8_BLOCK:(j + 1) * FP8_BLOCK]
            steps = np.unique(np.abs(tensor[block]))
            inverse[i, j] = np.min(np.diff(steps)) / 16
            small[block] = tensor[block] / inverse[i, j]
        e4m3 = torch.from_numpy(small).to(torch.float8_e4m3fn)
        back = e4m3.float().numpy() * np.repeat(np.repeat(inverse, FP8_BLOCK, 0), FP8_BLOCK, 1)[:rows, :cols]
        assert (back == tensor).all(), name
        out[name] = e4m3
        out[name + "_scale_inv"] = torch.from_numpy(inverse)
    config["quantization_config"] = {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
                                     "weight_block_size": [FP8_BLOCK, FP8_BLOCK]}
    return out


def as_int4(tensors, config):
    """compressed-tensors' pack-quantized: routed experts, groups of 32, q - 8 times a bf16 scale."""
    out = {}
    for name, tensor in as_bf16(tensors).items():
        if ".mlp.experts." not in name:
            out[name] = tensor
            continue
        rows, cols = tensor.shape
        groups = tensors[name].reshape(rows, -1, 32)
        scale = (groups.max(2) - groups.min(2)) / 15
        q = np.rint(groups / scale[:, :, None] + 8)
        assert ((q - 8) * scale[:, :, None] == groups).all() and q.min() == 0 and q.max() == 15, name
        stem = name[:-len("weight")]
        out[stem + "weight_packed"] = torch.from_numpy(package.pack(q.reshape(rows, cols), 4).view(np.int32))
        out[stem + "weight_scale"] = torch.from_numpy(scale.astype(np.float32)).bfloat16()
        out[stem + "weight_shape"] = torch.tensor([rows, cols], dtype=torch.int32)
    weights = {"actorder": None, "block_structure": None, "dynamic": False, "group_size": 32, "num_bits": 4,
               "observer": "minmax", "strategy": "group", "symmetric": True, "type": "int"}
    config["quantization_config"] = {
        "config_groups": {"group_0": {"input_activations": None, "output_activations": None, "targets": ["Linear"],
                                      "weights": weights}},
        "format": "pack-quantized", "kv_cache_scheme": None, "quant_method": "compressed-tensors",
        "ignore": ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*",
                   "re:.*mlp\\.(gate|up|gate_up|down)_proj.*"], "quantization_status": "compressed"}
    return out


def nest(tensors, config):
    """kimi_k25's: the text model under language_model, a vision tower and a projector beside it."""
    out = {"language_model." + name: tensor for name, tensor in tensors.items()}
    out["vision_tower.patch_embed.proj.weight"] = torch.zeros(8, 3, 2, 2, dtype=torch.bfloat16)
    out["vision_tower.encoder.blocks.0.norm0.weight"] = torch.ones(8, dtype=torch.bfloat16)
    out["mm_projector.proj.0.weight"] = torch.zeros(16, 8, dtype=torch.bfloat16)
    text = {key: value for key, value in config.items() if key != "architectures"} | {"model_type": "kimi_k2"}
    return out, {"architectures": ["KimiK25ForConditionalGeneration"], "model_type": "kimi_k25",
                 "tie_word_embeddings": config.get("tie_word_embeddings", False), "text_config": text,
                 "vision_config": {"model_type": "kimi_k25_vision", "hidden_size": 8}}


def mtp_tensors(tensors, layer):
    """The layer after the last, which predicts a further token: a copy of the last (one expert does) with its own."""
    last = f"model.layers.{layer - 1}."
    out = {name.replace(last, f"model.layers.{layer}."): t for name, t in tensors.items()
           if name.startswith(last) and (".mlp.experts." not in name or ".mlp.experts.0." in name)}
    hidden = tensors["model.norm.weight"].shape[0]
    eh_proj = np.concatenate([tensors[last + "self_attn.o_proj.weight"][:, :1]] * (2 * hidden), axis=1)
    norm = tensors["model.norm.weight"]
    return out | {f"model.layers.{layer}.{key}": value for key, value in
                  {"enorm.weight": norm, "hnorm.weight": norm, "shared_head.norm.weight": norm,
                   "eh_proj.weight": eh_proj}.items()}


def config_json(spec):
    kind = CLASSES[transformers_type(spec["model_type"])][1].__name__
    return {"architectures": [kind], "model_type": spec["model_type"], "torch_dtype": "bfloat16"} | spec["config"]


def write_original(spec, tensors, directory):
    config = config_json(spec)
    if spec["layout"] == "bf16" and spec["model_type"] in CLASSES:
        save_with_transformers(spec, tensors, directory)
        return
    if config.get("num_nextn_predict_layers"):
        tensors = tensors | mtp_tensors(tensors, config["num_hidden_layers"])
    layouts = {"bf16": lambda: as_bf16(tensors), "fp8": lambda: as_fp8(tensors, config),
               "int4": lambda: as_int4(tensors, config)}
    stored = layouts[spec["layout"]]()
    if spec["model_type"] == "kimi_k25":
        stored, config = nest(stored, config)
    write_shards(directory, stored, spec["shards"], config)


def save_with_transformers(spec, tensors, directory):
    """save_pretrained's files; its config.json where the model's own fields say the same, else the fields as given."""
    model = transformers_model(spec, tensors).to(torch.bfloat16)
    for name, buffer in model.named_buffers():
        if name.endswith(package.CORRECTION):
            buffer.data = torch.from_numpy(tensors[name])
    size = sum(t.nbytes for t in tensors.values()) // 2
    for divisor in (1.0, 0.97, 0.94, 0.9, 0.85, 0.8, 0.7):
        shutil.rmtree(directory, ignore_errors=True)
        model.save_pretrained(directory, max_shard_size=int(size / spec["shards"] / divisor) + 1)
        if len([f for f in os.listdir(directory) if f.endswith(".safetensors")]) == spec["shards"]:
            break
    else:
        raise SystemExit(f"{directory}: not {spec['shards']} shards")
    for name in os.listdir(directory):
        if name == "generation_config.json":
            os.remove(os.path.join(directory, name))
    if spec.get("spare"):
        add_spare_indexers(tensors, directory)
    if "rope_parameters" not in spec["config"]:
        write_json(os.path.join(directory, "config.json"), config_json(spec))


def spare_indexers(tensors):
    """Indexers for layers that share another's: layer 0's."""
    first, out = "model.layers.0.self_attn.indexer.", {}
    layers = {name.split(".")[2] for name in tensors if name.startswith("model.layers.")}
    own = {name.split(".")[2] for name in tensors if ".indexer." in name}
    for layer in sorted(layers - own) if own else ():
        for name in (name for name in tensors if name.startswith(first)):
            out[name.replace("layers.0.", f"layers.{layer}.")] = tensors[name]
    return out


def add_spare_indexers(tensors, directory):
    """Some files have an indexer in layers that share another's, too."""
    path = os.path.join(directory, "model.safetensors.index.json")
    with open(path, encoding="utf-8") as file:
        index = json.load(file)
    shard = sorted(set(index["weight_map"].values()))[-1]
    stored = load_file(os.path.join(directory, shard))
    for name, tensor in as_bf16(spare_indexers(tensors)).items():
        stored[name] = tensor
        index["weight_map"][name] = shard
    save_file(stored, os.path.join(directory, shard), {"format": "pt"})
    write_json(path, index)


def read_original(directory):
    out = {}
    for name in sorted(os.listdir(directory)):
        if name.endswith(".safetensors"):
            out |= load_file(os.path.join(directory, name))
    return out


# ---- MLX

def write_mlx(spec, tensors, directory, scratch):
    import mlx.core as mx
    from mlx_lm import utils
    plain = os.path.join(scratch, "plain")
    shutil.rmtree(plain, ignore_errors=True)
    stored, config = as_bf16(tensors), config_json(spec)
    if spec["config"].get("tie_word_embeddings"):  # mlx-lm's classes want a head; it is taken off again below
        stored["lm_head.weight"] = stored["model.embed_tokens.weight"].clone()
    if spec["model_type"] == "kimi_k25":
        stored, config = nest(stored, config)
    if "mlp_layer_types" in config:  # mlx-lm's class looks at the number
        config["first_k_dense_replace"] = config["mlp_layer_types"].count("dense")
    if spec["model_type"] == "deepseek_v2" and "rope_scaling" not in config:
        config["rope_scaling"] = {"type": "default", "factor": 1.0}  # mlx-lm's class wants one; transformers reads it as none
    spares = spare_indexers(tensors)  # mlx-lm's class wants one in each layer; they are taken off again below
    stored |= as_bf16(spares)
    write_shards(plain, stored, 1, config)
    from pathlib import Path
    model, loaded = utils.load_model(Path(plain), lazy=True)

    def predicate(path, _module):
        for part, bits in spec["mlx"].items():
            if part in path:
                return False if bits is None else {"group_size": spec["group"], "bits": bits}
        return True
    model, quantised = utils.quantize_model(model, loaded, spec["group"], 4, quant_predicate=predicate)
    arrays = dict(mlx_flatten(model))
    for name in list(arrays):
        stem = name[:-len(".weight")]
        if name.endswith("mlp.gate.weight") and spec["gate"] == "f32":
            arrays[name] = arrays[name].astype(mx.float32)
        elif name.endswith("mlp.gate.weight") and spec["gate"] == "8-bit":
            parts = mx.quantize(arrays[name], spec["group"], 8)
            arrays |= dict(zip((name, stem + ".scales", stem + ".biases"), parts))
            for key in ("quantization", "quantization_config"):
                quantised[key][stem] = {"group_size": spec["group"], "bits": 8}
        elif "lm_head" in name and spec["config"].get("tie_word_embeddings") or name.split(".indexer.")[0] in {
                spare.split(".indexer.")[0] for spare in spares}:
            del arrays[name]
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    save_mlx_shards(mx, arrays, directory, spec["shards"])
    utils.save_config(quantised, config_path=os.path.join(directory, "config.json"))
    shutil.rmtree(plain)


def mlx_flatten(model):
    from mlx.utils import tree_flatten
    return tree_flatten(model.parameters())


def save_mlx_shards(mx, arrays, directory, count):
    total = sum(a.nbytes for a in arrays.values())
    shards, weight_map, used = [{} for _ in range(count)], {}, 0
    for name, array in arrays.items():
        shard = min(used * count // total, count - 1)
        shards[shard][name] = array
        weight_map[name] = f"model-{shard + 1:05d}-of-{count:05d}.safetensors"
        used += array.nbytes
    for i, shard in enumerate(shards):
        mx.save_safetensors(os.path.join(directory, f"model-{i + 1:05d}-of-{count:05d}.safetensors"), shard,
                            metadata={"format": "mlx"})
    write_json(os.path.join(directory, "model.safetensors.index.json"),
               {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))})


def mlx_meaning(spec, directory):
    """The float32 tensors, under transformers' names, that an MLX folder stands for."""
    arrays = {name.removeprefix("language_model."): t for name, t in read_original(directory).items()}
    with open(os.path.join(directory, "config.json"), encoding="utf-8") as file:
        quantisation = json.load(file)["quantization"]
    dense = {}
    for name, array in arrays.items():
        stem = name[:-len(".weight")]
        if name.endswith((".scales", ".biases")):
            continue
        if stem + ".scales" in arrays:
            setting = quantisation.get(stem, quantisation.get("language_model." + stem, quantisation))
            array = array.numpy()
            scales = arrays[stem + ".scales"].float().numpy()
            biases = arrays[stem + ".biases"].float().numpy()
            stream = np.unpackbits(np.ascontiguousarray(array).view(np.uint8), axis=-1, bitorder="little")
            q = stream.reshape(scales.shape + (setting["group_size"], setting["bits"])) @ 2.0**np.arange(setting["bits"])
            q = q.astype(np.float32)
            value = q * scales[..., None] + biases[..., None]
            dense[name] = value.reshape(scales.shape[:-1] + (-1,))
        else:
            dense[name] = array.float().numpy()
    out = {}
    for name, value in dense.items():
        if ".switch_mlp." in name:
            for e, matrix in enumerate(value):
                out[name.replace(".switch_mlp.", f".experts.{e}.")] = matrix
        elif name.endswith("embed_q.weight"):
            keys = value.transpose(0, 2, 1)
            both = np.concatenate([keys, dense[name.replace("embed_q", "unembed_out")]], axis=1)
            out[name.replace("embed_q", "kv_b_proj")] = both.reshape(-1, both.shape[-1])
        elif not name.endswith("unembed_out.weight"):
            out[name] = value
    return out


# ---- numbers

@torch.no_grad()
def run(model, ids):
    """(logits, what the routers saw, the heads' attention)."""
    routed, attention, hooks = [], [], []
    for layer in model.model.layers:
        if hasattr(layer, "self_attn") and not hasattr(layer.self_attn, "conv1d"):  # those keep a state
            hooks.append(layer.self_attn.register_forward_hook(lambda m, i, o: attention.append(o[1][0])))
        if hasattr(layer.mlp, "gate"):
            hooks.append(layer.mlp.gate.register_forward_hook(lambda m, i, o: routed.append((m, o))))
    logits = model(torch.tensor([ids]), use_cache=False).logits[0]
    for hook in hooks:
        hook.remove()
    return logits, routed, torch.stack(attention)


def margin(routed):
    """The smallest distance between a chosen and an unchosen group or expert, in scores (softmax: in logits)."""
    least = float("inf")
    for gate, (logits, _, chosen) in routed:
        noaux = hasattr(gate, "e_score_correction_bias")
        choice = (logits.sigmoid() + gate.e_score_correction_bias if noaux else logits).double()
        if noaux or getattr(gate, "topk_method", "") == "group_limited_greedy":
            groups = choice.view(len(choice), gate.num_group, -1)
            groups = (groups.topk(2, dim=-1)[0].sum(-1) if noaux else groups.max(-1)[0]).sort(descending=True)
            if gate.topk_group < gate.num_group:
                gap = groups.values[:, gate.topk_group - 1] - groups.values[:, gate.topk_group]
                least = min(least, gap.min().item())
            allowed = torch.zeros_like(groups.values).scatter_(1, groups.indices[:, :gate.topk_group], 1)
            allowed = allowed.repeat_interleave(gate.num_experts // gate.num_group, dim=1).bool()
            choice = choice.masked_fill(~allowed, float("-inf"))
        ranked = choice.sort(descending=True)
        assert (ranked.indices[:, :gate.top_k].sort().values == chosen.sort().values).all()
        least = min(least, (ranked.values[:, gate.top_k - 1] - ranked.values[:, gate.top_k]).min().item())
    return least


def index_scores(indexer, x, q_lora, turns):
    """[tokens, positions] of one indexer, by its own projections."""
    rope = sys.modules[type(indexer).__module__]
    turn = getattr(rope, "apply_rotary_pos_emb", rope.apply_rotary_pos_emb_interleave)
    q = indexer.wq_b(q_lora).unflatten(-1, (indexer.n_heads, indexer.head_dim))
    k = indexer.k_norm(indexer.wk(x)).unsqueeze(2)
    parts = [part.split([indexer.qk_rope_head_dim, indexer.head_dim - indexer.qk_rope_head_dim], dim=-1) for part in (q, k)]
    turned = turn(parts[0][0], parts[1][0], *turns, unsqueeze_dim=2)
    q, k = (torch.cat([head, rest], dim=-1) for head, (_, rest) in zip(turned, parts))
    products = torch.einsum("bthd,bsd->bths", q, k[:, :, 0]).relu()
    return torch.einsum("bth,bths->bts", indexer.weights_proj(x), products)[0]


@torch.no_grad()
def index_margin(model, ids):
    """The smallest distance, of a row's deviation, between the last chosen and the first unchosen position."""
    least, hooks = [], []

    def look(indexer, inputs, chosen):
        scores, top_k = index_scores(indexer, *inputs[:3]), indexer.index_topk
        for t in range(top_k, len(scores)):
            ranked = scores[t, :t + 1].sort(descending=True)
            assert (ranked.indices[:top_k].sort().values == chosen[0, t].long().sort().values).all()
            least.append(((ranked.values[top_k - 1] - ranked.values[top_k]) / ranked.values.std()).item())
    for layer in model.model.layers:
        if getattr(getattr(layer, "self_attn", None), "indexer", None) is not None:
            hooks.append(layer.self_attn.indexer.register_forward_hook(look))
    if hooks:
        model(torch.tensor([ids]), use_cache=False)
    for hook in hooks:
        hook.remove()
    return min(least, default=float("inf"))


def draw_prompts(model, generator):
    """Random ids whose routing is decisive, and whose positions are: of many draws the most decisive one."""
    vocab, prompts = model.config.vocab_size, []
    for length in PROMPTS:
        draws = [generator.integers(0, vocab, length).tolist() for _ in range(100)]
        prompts.append(max(draws, key=lambda ids: min(margin(run(model, ids)[1]) / LEAST_MARGIN,
                                                      index_margin(model, ids) / LEAST_INDEX_MARGIN)))
    return prompts


def compared(length):
    """Positions whose whole rows are kept: all of a short prompt, every sixth and the last of a long one."""
    return [p for p in range(length) if length < 12 or p % 6 == 0 or p == length - 1]


def write_golden(name, spec, folder, model, prompts):
    rows, kept, start, worst, index_worst, noise = [], [], 0, float("inf"), float("inf"), 0.0
    flat = []
    for ids in prompts:
        logits, routed, attention = run(model, ids)
        exact, _, _ = run(model.double(), ids)
        model.float()
        noise = max(noise, ((logits - exact).abs().max() / exact.abs().max()).item())
        worst = min(worst, margin(routed))
        index_worst = min(index_worst, index_margin(model, ids))
        positions = compared(len(ids))
        rows += [start + p for p in positions]
        kept.append(logits[positions])
        start += len(ids)
        flat.append(attention)
    entropy = -(flat[-1] * flat[-1].clamp_min(1e-30).log()).sum(-1)[:, :, 8:]
    uniform = torch.arange(9, len(prompts[-1]) + 1).log()
    spread = (entropy / uniform).mean().item()
    size = sum(os.path.getsize(os.path.join(folder, "checkpoint", f)) for f in
               os.listdir(os.path.join(folder, "checkpoint")))
    print(f"{name}: float32 is off float64 by {noise:.1e}, routing margin {worst:.1e}, positions' {index_worst:.1e}, attention entropy {spread:.2f} of "
          f"uniform, largest logit {torch.cat(kept).abs().max():.1f}, {size / 1e3:.0f} kB")
    assert index_worst > LEAST_INDEX_MARGIN and worst > LEAST_MARGIN and noise < 3e-5 and spread < MOST_SPREAD
    write_numbers(spec, folder, model, prompts, rows, torch.cat(kept))


def write_numbers(spec, folder, model, prompts, rows, logits):
    """rows: the positions, of all prompts one behind the other, whose logits these are."""
    config = model.config
    write_json(os.path.join(folder, "golden.json"),
               {"model": "checkpoint", "prompts": [len(ids) for ids in prompts],
                "n_tokens": sum(map(len, prompts)), "vocab_size": config.vocab_size, "hidden_size": config.hidden_size,
                "n_layers": config.num_hidden_layers, "rows": rows, "top": [],
                "group_size": spec["group"],
                "parameters": sum(p.numel() for p in model.parameters()), "transformers": transformers.__version__})
    with open(os.path.join(folder, "tokens.txt"), "w", encoding="utf-8") as file:
        for ids in prompts:
            file.write(" ".join(map(str, ids)) + "\n")
    logits.numpy().astype("<f4").tofile(os.path.join(folder, "rows.f32"))


def make(folder, name, spec):
    generator = np.random.default_rng(spec["seed"])
    torch.manual_seed(spec["seed"])
    tensors = random_tensors(spec, generator)
    original, mlx = (os.path.join(folder, f"ck-{name}{suffix}") for suffix in ("", "-mlx"))
    for directory, made in ((original, spec["layout"]), (mlx, spec["mlx"] is not None)):
        shutil.rmtree(directory, ignore_errors=True)
        if made:
            os.makedirs(directory)
    if spec["layout"]:
        write_original(spec, tensors, os.path.join(original, "checkpoint"))
        model = transformers_model(spec, tensors if spec.get("grid", True) else requantised(spec, tensors))
        prompts = draw_prompts(model, generator)
        write_golden(f"ck-{name}", spec, original, model, prompts)
    if spec["mlx"] is None:
        return
    write_mlx(spec, tensors, os.path.join(mlx, "checkpoint"), mlx)
    model = transformers_model(spec, mlx_meaning(spec, os.path.join(mlx, "checkpoint")))
    write_golden(f"ck-{name}-mlx", spec, mlx, model, draw_prompts(model, generator))


def main():
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    folder = sys.argv[1] if len(sys.argv) > 1 else HERE
    for name in sys.argv[2:] or MODELS:
        make(folder, name, MODELS[name])


if __name__ == "__main__":
    main()
