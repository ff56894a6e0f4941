# SPDX-License-Identifier: GPL-3.0-or-later
"""Small random models some of whose layers keep a state, as the hub has them, with transformers' own numbers for them.

    python3 tests/golden/make_hybrid.py [FOLDER [NAME...]]       (transformers 5.17.0, mlx-lm 0.32.2, gguf 0.19)

writes FOLDER/ck-NAME (original layout), FOLDER/ck-NAME-mlx (mlx-lm's own, where it has the class) and FOLDER/gguf-NAME for every NAME below; see
golden.c for what a golden folder holds, make_checkpoints.py for grids and for how prompts are drawn. Norms, A_log,
dt_bias and the routers' bias are random, too: as they are initialised they would hide a forgotten +1, a sign, a bias.
Vision and MTP tensors stand beside the text model where the hub's have them. GGUF files are made as llama.cpp's
converter makes them: value heads of qwen35moe tiled, ssm_a = -exp(A_log), norms with their 1. Whatever a layout rounds
is rounded in the numbers, too.
"""

import json
import os
import shutil
import sys
from types import SimpleNamespace

import gguf
import numpy as np
import torch
import transformers
from gguf import GGMLQuantizationType as Type
from safetensors.torch import load_file
from transformers import (Glm5NextTextConfig, KimiLinearConfig, KimiLinearForCausalLM, Qwen3_5MoeForCausalLM,
                          Qwen3_5MoeTextConfig, Qwen3NextConfig, Qwen3NextForCausalLM)
from transformers.models.glm5_next.modeling_glm5_next import Glm5NextTextModel

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "..", "unit", "data")
sys.path.insert(0, HERE)
import make_checkpoints as ck  # noqa: E402
from make_checkpoints import package, write_json, write_shards  # noqa: E402



class Glm5NextForText(torch.nn.Module):
    """The text model and a head: transformers' own class with one has the vision model, too."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.model = Glm5NextTextModel(config)
        self.lm_head = torch.nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, ids, use_cache=False):
        state = self.model(input_ids=ids, use_cache=use_cache).last_hidden_state
        return SimpleNamespace(logits=self.lm_head(state))


CLASSES = {"qwen3_5_moe": (Qwen3_5MoeTextConfig, Qwen3_5MoeForCausalLM),
           "qwen3_next": (Qwen3NextConfig, Qwen3NextForCausalLM),
           "kimi_linear": (KimiLinearConfig, KimiLinearForCausalLM),
           "glm5_next": (Glm5NextTextConfig, Glm5NextForText)}
GAINS = {"q_proj": 1.4, "in_proj_qkv": 1.2, "in_proj_qkvz": 1.2, "mlp.gate": 2.0, "lm_head": 2.0, "down_proj": 1.5,
         "out_proj": 1.5, "shared_expert_gate": 1.5}

QWEN = dict(
    vocab_size=96, hidden_size=64, num_attention_heads=2, num_key_value_heads=1, head_dim=32, hidden_act="silu",
    max_position_embeddings=256, rms_norm_eps=1e-6, attention_bias=False, bos_token_id=None, eos_token_id=1,
    linear_conv_kernel_dim=4, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=16,
    linear_value_head_dim=16, moe_intermediate_size=32, shared_expert_intermediate_size=32, num_experts=4,
    num_experts_per_tok=2)
GLM_NEXT = dict(
    vocab_size=96, hidden_size=64, intermediate_size=96, moe_intermediate_size=32, num_hidden_layers=5,
    num_attention_heads=2, num_key_value_heads=2, n_shared_experts=1, n_routed_experts=6, num_experts_per_tok=2,
    routed_scaling_factor=2.5, norm_topk_prob=True, n_group=1, topk_group=1, kv_lora_rank=32, q_lora_rank=32,
    qk_rope_head_dim=0, qk_nope_head_dim=32, v_head_dim=32, head_dim=40, hidden_act="silu", attention_bias=False,
    max_position_embeddings=256, rms_norm_eps=1e-3, tie_word_embeddings=False, pad_token_id=2, bos_token_id=None,
    eos_token_id=[1, 3], swiglu_limit=1.25, index_topk=16, index_head_dim=32, index_n_heads=16, index_kpool=4,
    index_kpool_always_select_tail=True, first_k_dense_replace=1,
    mlp_layer_types=["dense"] + 4 * ["sparse"], indexer_types=5 * ["full"],
    layer_types=["linear_attention", "deepseek_sparse_attention", "linear_attention", "deepseek_sparse_attention",
                 "linear_attention"],
    hc_mult=4, hc_sinkhorn_iters=4, hc_eps=1e-6,
    linear_attn_config=dict(head_dim=32, num_heads=2, short_conv_kernel_size=4, gate_lower_bound=-5.0,
                            safe_gate=True, kda_layers=[0, 2, 4], full_attn_layers=[1, 3]))

KIMI_LINEAR = dict(
    vocab_size=96, hidden_size=64, intermediate_size=96, moe_intermediate_size=32, num_hidden_layers=3,
    num_attention_heads=2, num_key_value_heads=2, num_experts=6, num_experts_per_token=2, num_shared_experts=1,
    kv_lora_rank=32, q_lora_rank=None, qk_nope_head_dim=32, qk_rope_head_dim=16, v_head_dim=32, head_dim=40,
    first_k_dense_replace=1, moe_layer_freq=1, moe_renormalize=True, moe_router_activation_func="sigmoid",
    num_expert_group=1, topk_group=1, use_grouped_topk=True, routed_scaling_factor=2.446, mla_use_nope=True,
    hidden_act="silu", model_max_length=256, rms_norm_eps=1e-5, rope_theta=10000.0, rope_scaling=None,
    tie_word_embeddings=False, pad_token_id=2, bos_token_id=0, eos_token_id=1,
    linear_attn_config=dict(head_dim=32, num_heads=2, short_conv_kernel_size=4, full_attn_layers=[3],
                            kda_layers=[1, 2]))

MODELS = {
    # three layers by their list, one with attention between two that keep states; two value heads to a key head
    "qwen35moe": dict(
        model_type="qwen3_5_moe", seed=61, group=32, layout="bf16", shards=2,
        config=QWEN | dict(
            num_hidden_layers=3, full_attention_interval=2,
            layer_types=["linear_attention", "full_attention", "linear_attention"],
            rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.25,
                                 mrope_section=[2, 1, 1], mrope_interleaved=True))),
    # joined inputs, layers by the interval, three value heads to a key head, values narrower than keys, tied
    "qwen3next": dict(
        model_type="qwen3_next", seed=62, group=32, layout="bf16", shards=2,
        config=QWEN | dict(
            num_hidden_layers=2, full_attention_interval=2, linear_num_value_heads=6, linear_key_head_dim=32,
            intermediate_size=64, decoder_sparse_step=1, mlp_only_layers=[],
            num_attention_heads=4, num_key_value_heads=2, rope_theta=5000000.0, partial_rotary_factor=0.5,
            shared_expert_intermediate_size=64, norm_topk_prob=True, tie_word_embeddings=True)),
    # one to talk to: as GGUF and as an MLX folder, with a vocabulary and a template
    "qwen35-chat": dict(
        model_type="qwen3_5_moe", seed=64, group=32, layout="bf16", shards=1, vocabulary="bpe-qwen.json", folder="qwen",
        template="qwen3.5.jinja",
        config=QWEN | dict(
            vocab_size=1506, num_hidden_layers=2, full_attention_interval=2, max_position_embeddings=2048,
            eos_token_id=1502, tie_word_embeddings=True,
            rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.25))),
    # two layers that choose pools of four positions, four streams, a dense layer first, and a limit that many are beyond
    "glm5-next": dict(
        model_type="glm5_next", seed=69, group=32, layout="bf16", shards=2, bias=(0.0, 0.2),
        config=GLM_NEXT),
    # one to talk to, of the same kinds of layers
    "glm5-next-chat": dict(
        model_type="glm5_next", seed=70, group=32, layout="bf16", bias=(0.0, 0.2), vocabulary="bpe-glm.json", template="glm-5.3.jinja",
        config=GLM_NEXT | dict(vocab_size=1510, max_position_embeddings=2048, pad_token_id=1500, eos_token_id=[1500, 1504])),
    # a dense layer first, attention without a rope in the third
    "kimi-linear": dict(
        model_type="kimi_linear", seed=63, group=32, layout="bf16", shards=2, bias=(0.0, 0.2),
        config=KIMI_LINEAR),
    # one to talk to: an MLX folder with Kimi's vocabulary and turns
    "kimi-linear-chat": dict(
        model_type="kimi_linear", seed=71, group=32, layout="bf16", shards=1, bias=(0.0, 0.2), folder="kimi", template="kimi-linear.jinja",
        config=KIMI_LINEAR | dict(vocab_size=1760, model_max_length=2048, pad_token_id=1756, bos_token_id=1501, eos_token_id=1503)),
}


# ---- tensors, under the names of transformers' state_dict

def make_config(spec):
    config = CLASSES[spec["model_type"]][0](**json.loads(json.dumps(spec["config"])))
    config._attn_implementation = config._experts_implementation = "eager"
    return config


def random_vector(generator, spec, name, shape):
    noise = generator.standard_normal(shape).astype(np.float32)
    if name.endswith(package.CORRECTION):
        return (spec["bias"][0] + spec["bias"][1] * noise).astype(np.float32)
    if name.endswith("A_log"):
        return np.log(generator.uniform(0.05, 3, shape)).astype(np.float32)
    if name.endswith("dt_bias"):
        return package.round_bf16(noise - 1)
    if name.endswith("k_norm.bias"):
        return package.round_bf16(0.4 * noise)
    if "_hc." in name:  # streams that differ, and are mixed differently
        return package.round_bf16({"fn": 1.5 / shape[-1]**0.5, "base": 0.7, "scale": 0.5}[name.rsplit(".", 1)[1]] * noise
                                  + name.endswith("scale"))
    if name.endswith("compress_gate"):
        return package.round_bf16(noise / shape[1]**0.5 * 2)
    if name.endswith("compress_ape"):
        return package.round_bf16(0.7 * noise)
    if name.endswith("conv1d.weight"):
        return package.round_bf16(0.6 * noise)
    if name.endswith(("q_norm.weight", "k_norm.weight")):
        return package.round_bf16(0.6 + 0.3 * noise)  # attention far from uniform
    plus_one = spec["model_type"].startswith("qwen") and not name.endswith("linear_attn.norm.weight")
    return package.round_bf16(0.3 * noise + (0 if plus_one else 1))


FREE = ("_hc.fn", "compress_gate", "compress_ape")  # matrices that no layout quantises


def random_tensors(spec, generator):
    model = CLASSES[spec["model_type"]][1](make_config(spec))
    out = {}
    ck.GAINS = GAINS
    for name, tensor in model.state_dict().items():
        shape = tuple(tensor.shape)
        if name == "lm_head.weight" and spec["config"].get("tie_word_embeddings"):
            continue
        if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            out[name] = np.stack([ck.on_grid(generator, spec, name + ".weight", shape[1:]) for _ in range(shape[0])])
        elif len(shape) == 2 and not name.endswith(FREE):
            out[name] = ck.on_grid(generator, spec, name, shape)
        else:
            out[name] = random_vector(generator, spec, name, shape)
    return out


def transformers_model(spec, tensors):
    config = make_config(spec)
    model = CLASSES[spec["model_type"]][1](config).float().eval()
    state = {name: torch.from_numpy(np.ascontiguousarray(t)) for name, t in tensors.items()}
    if config.tie_word_embeddings:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state, strict=True)
    return model


# ---- the original layouts

FLOATS = ("A_log", package.CORRECTION, "linear_attn.norm.weight", "_hc.base", "_hc.scale")  # float32 in the hub's files


def stored(name, tensor):
    tensor = torch.from_numpy(np.ascontiguousarray(tensor))
    return tensor if name.endswith(FLOATS) else tensor.bfloat16()


def split_experts(name, tensor):
    """One tensor an expert: what qwen3_next's and kimi_linear's files have."""
    stem = name.rsplit(".", 1)[0]
    for e, matrix in enumerate(tensor):
        if name.endswith("down_proj"):
            yield f"{stem}.{e}.down_proj.weight", matrix
        else:
            gate, up = np.split(matrix, 2)
            yield f"{stem}.{e}.gate_proj.weight", gate
            yield f"{stem}.{e}.up_proj.weight", up


KIMI = {".mlp.": ".block_sparse_moe.", ".gate_proj.": ".w1.", ".up_proj.": ".w3.", ".down_proj.": ".w2."}


def kimi_name(name):
    name = name.replace(".self_attn.forget_gate.", ".self_attn.")
    if ".mlp.experts." in name:
        for ours, theirs in KIMI.items():
            name = name.replace(ours, theirs)
    elif ".mlp.gate." in name or ".mlp.shared_experts." in name:
        name = name.replace(".mlp.", ".block_sparse_moe.")
    return name


def glm_name(name):
    name = name.replace(".self_attn.forget_gate.", ".self_attn.")
    for site in ("attn", "ffn"):
        name = name.replace(f".{site}_hc.", f".hc_{site}_")
    return name.replace("model.", "model.language_model.", 1)


def original_glm(spec, tensors):
    """All under the text model's own prefix, with an MTP layer and some vision beside it."""
    out, hidden, layers = {}, spec["config"]["hidden_size"], spec["config"]["num_hidden_layers"]
    for name, tensor in tensors.items():
        if ".mlp.experts." in name:
            out |= {glm_name(n): stored(n, t) for n, t in split_experts(name, tensor)}
        elif name.endswith("conv1d.weight"):
            for key, part in zip("qkv", np.split(tensor, 3)):
                out[glm_name(name.replace("conv1d", key + "_conv1d"))] = stored(name, part)
        else:
            out[glm_name(name) if name != "lm_head.weight" else name] = stored(name, tensor)
    mtp = f"model.language_model.layers.{layers}."
    out[mtp + "eh_proj.weight"] = torch.zeros(hidden, 2 * hidden, dtype=torch.bfloat16)
    out[mtp + "input_layernorm.weight"] = out[mtp + "shared_head.norm.weight"] = torch.ones(hidden, dtype=torch.bfloat16)
    out["model.visual.patch_embed.proj.weight"] = torch.zeros(8, 3, 2, 2, 2, dtype=torch.bfloat16)
    out["model.visual.merger.gate_proj.weight"] = torch.zeros(8, 8, dtype=torch.bfloat16)
    text = {"model_type": "glm5_next_text", "num_nextn_predict_layers": 1, "mhc": True, "mla_use_nope": True,
            "scoring_func": "sigmoid", "topk_method": "noaux_tc", "dtype": "bfloat16"} | spec["config"]
    return out, {"architectures": ["Glm5NextForConditionalGeneration"], "model_type": "glm5_next", "image_token_id": 90,
                 "tie_word_embeddings": False, "text_config": text,
                 "vision_config": {"model_type": "glm5_next_vision", "depth": 1, "hidden_size": 8}}


def original(spec, tensors):
    """(the hub's tensors, its config.json)"""
    if spec["model_type"] == "glm5_next":
        return original_glm(spec, tensors)
    config = {"architectures": [CLASSES[spec["model_type"]][1].__name__], "model_type": spec["model_type"],
              "dtype": "bfloat16"} | spec["config"]
    out = {}
    for name, tensor in tensors.items():
        if spec["model_type"] == "qwen3_5_moe":
            out[name.replace("model.", "model.language_model.", 1)] = stored(name, tensor)
        elif ".mlp.experts." in name:
            out |= {kimi_name(n) if spec["model_type"] == "kimi_linear" else n: stored(n, t)
                    for n, t in split_experts(name, tensor)}
        elif spec["model_type"] == "kimi_linear" and name.endswith("conv1d.weight"):
            for key, part in zip("qkv", np.split(tensor, 3)):
                out[name.replace("conv1d", key + "_conv1d")] = stored(name, part)
        elif spec["model_type"] == "kimi_linear":
            out[kimi_name(name)] = stored(name, tensor)
        else:
            out[name] = stored(name, tensor)
    hidden = spec["config"]["hidden_size"]
    if spec["model_type"] != "kimi_linear":
        out["mtp.fc.weight"] = torch.zeros(hidden, 2, dtype=torch.bfloat16)
        out["mtp.layers.0.input_layernorm.weight"] = torch.zeros(hidden, dtype=torch.bfloat16)
    if spec["model_type"] == "qwen3_5_moe":
        out["model.visual.patch_embed.proj.weight"] = torch.zeros(8, 3, 2, 2, 2, dtype=torch.bfloat16)
        out["model.visual.blocks.0.norm1.weight"] = torch.ones(8, dtype=torch.bfloat16)
        text = {"model_type": "qwen3_5_moe_text", "attn_output_gate": True,
                "mamba_ssm_dtype": "float32", "mlp_only_layers": [], "mtp_num_hidden_layers": 1} | spec["config"]
        config = {"architectures": ["Qwen3_5MoeForConditionalGeneration"], "model_type": "qwen3_5_moe",
                  "image_token_id": 90, "tie_word_embeddings": text.get("tie_word_embeddings", False), "text_config": text,
                  "vision_config": {"model_type": "qwen3_5_moe", "depth": 1, "hidden_size": 8}}
    return out, config


# ---- MLX

def write_mlx(spec, tensors, directory, scratch):
    import mlx.core as mx
    from pathlib import Path
    from mlx_lm import utils
    plain = os.path.join(scratch, "plain")
    shutil.rmtree(plain, ignore_errors=True)
    given, config = original(spec, tensors)
    write_shards(plain, given, 1, config)
    model, loaded = utils.load_model(Path(plain), lazy=True)

    def predicate(path, _module):
        if path.endswith(("mlp.gate", "shared_expert_gate")) and spec["model_type"] != "kimi_linear":
            return {"group_size": 64, "bits": 8}  # as mlx-lm's own
        return True
    model, quantised = utils.quantize_model(model, loaded, spec["group"], 4, quant_predicate=predicate)
    arrays = dict(ck.mlx_flatten(model))
    for name in arrays:
        if arrays[name].dtype == mx.float32 and not name.endswith(FLOATS):
            raise SystemExit(f"{name} is float32")
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    ck.save_mlx_shards(mx, arrays, directory, spec["shards"])
    utils.save_config(quantised, config_path=os.path.join(directory, "config.json"))
    shutil.rmtree(plain)


def dense_mlx(spec, directory):
    """Every tensor as float32, under the name that it has there."""
    arrays = {name.removeprefix("language_model."): t for name, t in ck.read_original(directory).items()}
    with open(os.path.join(directory, "config.json"), encoding="utf-8") as file:
        quantisation = json.load(file)["quantization"]
    dense = {}
    for name, array in arrays.items():
        stem = name[:-len(".weight")]
        if name.endswith((".scales", ".biases")):
            continue
        if stem + ".scales" not in arrays:
            dense[name] = array.float().numpy()
            continue
        setting = quantisation.get(stem, quantisation.get("language_model." + stem, quantisation))
        scales, biases = (arrays[stem + part].float().numpy()[..., None] for part in (".scales", ".biases"))
        shifts = np.arange(32 // setting["bits"], dtype=np.uint32) * np.uint32(setting["bits"])
        q = (array.numpy().view(np.uint32)[..., None] >> shifts) & np.uint32(2**setting["bits"] - 1)
        q = q.reshape(scales.shape[:-1] + (setting["group_size"],)).astype(np.float32)
        dense[name] = (q * scales + biases).reshape(scales.shape[:-2] + (-1,))
    return dense


BAKED = ("input_layernorm.weight", "post_attention_layernorm.weight", "model.norm.weight", "q_norm.weight",
         "k_norm.weight")


def mlx_meaning(spec, directory):
    dense = dense_mlx(spec, directory)
    out = {}
    for name, value in dense.items():
        stem = name.rsplit(".mlp.", 1)[0]
        if name.endswith("conv1d.weight"):
            out[name] = value.transpose(0, 2, 1)
        elif name.endswith("q_conv.conv.weight"):
            parts = [dense[name.replace("q_conv", key + "_conv")].transpose(0, 2, 1) for key in "qkv"]
            out[name.replace("q_conv.conv", "conv1d")] = np.concatenate(parts)
        elif name.endswith("_conv.conv.weight"):
            continue
        elif name.endswith(BAKED) and spec["model_type"] != "kimi_linear":
            out[name] = value - np.float32(1)
        elif ".switch_mlp.gate_proj" in name:
            out[f"{stem}.mlp.experts.gate_up_proj"] = np.concatenate([value, dense[name.replace("gate_", "up_")]], axis=1)
        elif ".switch_mlp.down_proj" in name:
            out[f"{stem}.mlp.experts.down_proj"] = value
        elif ".switch_mlp." in name:
            continue
        elif name.endswith("mlp.e_score_correction_bias"):
            out[name.replace(".mlp.", ".mlp.gate.")] = value
        elif name.endswith("embed_q.weight"):
            both = np.concatenate([value.transpose(0, 2, 1), dense[name.replace("embed_q", "unembed_out")]], axis=1)
            out[name.replace("embed_q", "kv_b_proj")] = both.reshape(-1, both.shape[-1])
        elif not name.endswith("unembed_out.weight"):
            out[forget_gate(spec, name)] = value
    return out


def forget_gate(spec, name):
    if spec["model_type"] == "kimi_linear" and name.endswith(("A_log", "dt_bias", "f_a_proj.weight", "f_b_proj.weight")):
        return name.replace(".self_attn.", ".self_attn.forget_gate.")
    return name


# ---- GGUF, as llama.cpp's converter writes it

def tile(matrix, spec, head_dim, axis=0):
    """Value heads from those of one key head side by side to one of each key head."""
    c = spec["config"]
    nk, each = c["linear_num_key_heads"], c["linear_num_value_heads"] // c["linear_num_key_heads"]
    moved = np.moveaxis(matrix, axis, 0)
    shape = moved.shape
    moved = moved.reshape((nk, each, head_dim) + shape[1:]).swapaxes(0, 1).reshape(shape)
    return np.moveaxis(moved, 0, axis)


def untile(matrix, spec, head_dim, axis=0):
    c = spec["config"]
    nk, each = c["linear_num_key_heads"], c["linear_num_value_heads"] // c["linear_num_key_heads"]
    moved = np.moveaxis(matrix, axis, 0)
    shape = moved.shape
    moved = moved.reshape((each, nk, head_dim) + shape[1:]).swapaxes(0, 1).reshape(shape)
    return np.moveaxis(moved, 0, axis)


class Writer:
    """Quantises what it is given, and keeps what it means."""

    def __init__(self, spec, tensors):
        self.spec, self.tensors, self.given, self.meaning = spec, [], tensors, {}

    def add(self, name, value, kind):
        value = np.ascontiguousarray(value, dtype=np.float32)
        if kind == "F32":
            data = value
        else:
            data = gguf.quants.quantize(value, Type[kind])
            value = gguf.quants.dequantize(data, Type[kind]).reshape(value.shape)
        self.tensors.append((name, data, kind))
        return value

    def matrix(self, name, theirs, there=lambda m: m, back=lambda m: m, kind="Q8_0"):
        self.meaning[theirs] = back(self.add(name + ".weight", there(self.given[theirs]), kind))

    def vector(self, name, theirs, there=lambda v: v, back=lambda v: v):
        self.meaning[theirs] = back(self.add(name, there(self.given[theirs]), "F32"))

    def norm(self, name, theirs, baked):
        one = np.float32(1 if baked else 0)
        self.vector(name + ".weight", theirs, lambda w: w + one, lambda w: w - one)

    def experts(self, blk, ours):
        gate_up = self.given[ours + "mlp.experts.gate_up_proj"]
        half = gate_up.shape[1] // 2
        gate = self.add(blk + "ffn_gate_exps.weight", gate_up[:, :half], "Q4_0")
        up = self.add(blk + "ffn_up_exps.weight", gate_up[:, half:], "Q4_0")
        self.meaning[ours + "mlp.experts.gate_up_proj"] = np.concatenate([gate, up], axis=1)
        self.matrix(blk + "ffn_down_exps", ours + "mlp.experts.down_proj", kind="Q5_0")
        self.matrix(blk + "ffn_gate_inp", ours + "mlp.gate.weight", kind="F32")

    def ends(self):
        self.matrix("token_embd", "model.embed_tokens.weight")
        self.norm("output_norm", "model.norm.weight", self.spec["model_type"].startswith("qwen"))
        if not self.spec["config"].get("tie_word_embeddings"):
            self.matrix("output", "lm_head.weight")


def gguf_delta_qwen(w, blk, ours):
    spec, c = w.spec, w.spec["config"]
    keys, dv = 2 * c["linear_num_key_heads"] * c["linear_key_head_dim"], c["linear_value_head_dim"]
    tiled = spec["model_type"] == "qwen3_5_moe"
    heads = lambda m, head=1, axis=0: tile(m, spec, head, axis) if tiled else m  # noqa: E731
    grouped = lambda m, head=1, axis=0: untile(m, spec, head, axis) if tiled else m  # noqa: E731
    tail = lambda how: lambda m: np.concatenate([m[:keys], how(m[keys:], dv)])  # noqa: E731
    if tiled:
        w.matrix(blk + "attn_qkv", ours + "in_proj_qkv.weight", tail(heads), tail(grouped))
        w.matrix(blk + "attn_gate", ours + "in_proj_z.weight", lambda m: heads(m, dv), lambda m: grouped(m, dv))
        w.matrix(blk + "ssm_beta", ours + "in_proj_b.weight", heads, grouped)
        w.matrix(blk + "ssm_alpha", ours + "in_proj_a.weight", heads, grouped)
    else:
        joined = w.given[ours + "in_proj_qkvz.weight"]
        nk, dk = c["linear_num_key_heads"], c["linear_key_head_dim"]
        each = c["linear_num_value_heads"] // nk * dv
        q, k, v, z = np.split(joined.reshape(nk, -1, joined.shape[1]), np.cumsum([dk, dk, each]), axis=1)
        flat = lambda m: m.reshape(-1, joined.shape[1])  # noqa: E731
        qkv = w.add(blk + "attn_qkv.weight", np.concatenate([flat(q), flat(k), flat(v)]), "Q8_0")
        z = w.add(blk + "attn_gate.weight", flat(z), "Q8_0").reshape(nk, each, -1)
        q, k, v = (part.reshape(nk, -1, joined.shape[1]) for part in np.split(qkv, np.cumsum([nk * dk, nk * dk])))
        w.meaning[ours + "in_proj_qkvz.weight"] = flat(np.concatenate([q, k, v, z], axis=1))
        w.matrix(blk + "ssm_ba", ours + "in_proj_ba.weight")
    conv = lambda m: tail(heads)(m[:, 0])  # noqa: E731
    w.vector(blk + "ssm_conv1d.weight", ours + "conv1d.weight", conv, lambda m: tail(grouped)(m)[:, None])
    w.vector(blk + "ssm_a", ours + "A_log", lambda a: -np.exp(heads(a)), lambda a: np.log(-grouped(a)))
    w.vector(blk + "ssm_dt.bias", ours + "dt_bias", heads, grouped)
    w.norm(blk + "ssm_norm", ours + "norm.weight", False)
    w.matrix(blk + "ssm_out", ours + "out_proj.weight", lambda m: heads(m, dv, 1), lambda m: grouped(m, dv, 1))


def gguf_qwen(w):
    for layer, kind in enumerate(make_config(w.spec).layer_types):
        blk, ours = f"blk.{layer}.", f"model.layers.{layer}."
        w.norm(blk + "attn_norm", ours + "input_layernorm.weight", True)
        if kind == "linear_attention":
            gguf_delta_qwen(w, blk, ours + "linear_attn.")
        else:
            for key in "qkv":
                w.matrix(blk + "attn_" + key, ours + f"self_attn.{key}_proj.weight")
            w.matrix(blk + "attn_output", ours + "self_attn.o_proj.weight")
            w.norm(blk + "attn_q_norm", ours + "self_attn.q_norm.weight", True)
            w.norm(blk + "attn_k_norm", ours + "self_attn.k_norm.weight", True)
        w.norm(blk + "post_attention_norm", ours + "post_attention_layernorm.weight", True)
        w.experts(blk, ours)
        for key in ("gate", "up", "down"):
            w.matrix(f"{blk}ffn_{key}_shexp", f"{ours}mlp.shared_expert.{key}_proj.weight")
        w.vector(blk + "ffn_gate_inp_shexp.weight", ours + "mlp.shared_expert_gate.weight", lambda g: g[0],
                 lambda g: g[None])
    w.ends()


def gguf_kda(w, blk, attn):
    gate = attn + "forget_gate."
    for key in "qkv":
        w.matrix(blk + "attn_" + key, attn + f"{key}_proj.weight")
    convs = [w.add(f"{blk}ssm_conv1d_{key}.weight", part.reshape(1, -1, 1, 4), "F32").reshape(-1, 1, 4)
             for key, part in zip("qkv", np.split(w.given[attn + "conv1d.weight"], 3))]
    w.meaning[attn + "conv1d.weight"] = np.concatenate(convs)
    for name, theirs in (("ssm_f_a", gate + "f_a_proj"), ("ssm_f_b", gate + "f_b_proj"),
                         ("ssm_beta", attn + "b_proj"), ("ssm_g_a", attn + "g_a_proj"),
                         ("ssm_g_b", attn + "g_b_proj")):
        w.matrix(blk + name, theirs + ".weight")
    w.vector(blk + "ssm_a", gate + "A_log", lambda a: -np.exp(a), lambda a: np.log(-a))
    w.vector(blk + "ssm_dt.bias", gate + "dt_bias")
    w.norm(blk + "ssm_norm", attn + "o_norm.weight", False)


def gguf_latent(w, blk, attn):
    c = w.spec["config"]
    w.matrix(blk + "attn_kv_a_mqa", attn + "kv_a_proj_with_mqa.weight")
    w.norm(blk + "attn_kv_a_norm", attn + "kv_a_layernorm.weight", False)
    kv_b = w.given[attn + "kv_b_proj.weight"].reshape(c["num_attention_heads"], -1, c["kv_lora_rank"])
    keys, values = np.split(kv_b, [c["qk_nope_head_dim"]], axis=1)
    keys = w.add(blk + "attn_k_b.weight", keys.transpose(0, 2, 1), "Q8_0").transpose(0, 2, 1)
    values = w.add(blk + "attn_v_b.weight", values, "Q8_0")
    both = np.concatenate([keys, values], axis=1)
    w.meaning[attn + "kv_b_proj.weight"] = both.reshape(-1, both.shape[-1])


def gguf_deepseek_ffn(w, blk, ours, dense):
    if dense:
        for key in ("gate", "up", "down"):
            w.matrix(f"{blk}ffn_{key}", f"{ours}mlp.{key}_proj.weight")
        return
    w.experts(blk, ours)
    w.vector(blk + "exp_probs_b.bias", ours + "mlp.gate.e_score_correction_bias")
    for key in ("gate", "up", "down"):
        w.matrix(f"{blk}ffn_{key}_shexp", f"{ours}mlp.shared_experts.{key}_proj.weight")


def gguf_kimi(w):
    for layer, kind in enumerate(make_config(w.spec).layer_types):
        blk, ours = f"blk.{layer}.", f"model.layers.{layer}."
        attn = ours + "self_attn."
        w.norm(blk + "attn_norm", ours + "input_layernorm.weight", False)
        w.matrix(blk + "attn_output", attn + "o_proj.weight")
        if kind == "linear_attention":
            gguf_kda(w, blk, attn)
        else:
            w.matrix(blk + "attn_q", attn + "q_proj.weight")
            gguf_latent(w, blk, attn)
        w.norm(blk + "ffn_norm", ours + "post_attention_layernorm.weight", False)
        gguf_deepseek_ffn(w, blk, ours, layer < w.spec["config"]["first_k_dense_replace"])
    w.ends()


def gguf_glm(w):
    c = w.spec["config"]
    for layer, kind in enumerate(make_config(w.spec).layer_types):
        blk, ours = f"blk.{layer}.", f"model.layers.{layer}."
        attn = ours + "self_attn."
        w.norm(blk + "attn_norm", ours + "input_layernorm.weight", False)
        w.matrix(blk + "attn_output", attn + "o_proj.weight")
        for site in ("attn", "ffn"):
            for key in ("fn", "base", "scale"):
                w.vector(f"{blk}hc_{site}_{key}.weight", f"{ours}{site}_hc.{key}")
        if kind == "linear_attention":
            gguf_kda(w, blk, attn)
        else:
            for key in ("q_a", "q_b"):
                w.matrix(f"{blk}attn_{key}", f"{attn}{key}_proj.weight")
            w.norm(blk + "attn_q_a_norm", attn + "q_a_layernorm.weight", False)
            gguf_latent(w, blk, attn)
            for name, theirs in (("attn_k", "wk"), ("attn_q_b", "wq_b")):
                w.matrix(f"{blk}indexer.{name}", f"{attn}indexer.{theirs}.weight")
            w.matrix(blk + "indexer.proj", attn + "indexer.weights_proj.weight", kind="F32")
            for key in ("weight", "bias"):
                w.vector(f"{blk}indexer.k_norm.{key}", f"{attn}indexer.k_norm.{key}")
            for key in ("gate", "ape"):
                w.vector(f"{blk}indexer_compressor_{key}.weight", f"{attn}indexer.index_kpool_compress_{key}")
        w.norm(blk + "ffn_norm", ours + "post_attention_layernorm.weight", False)
        gguf_deepseek_ffn(w, blk, ours, layer < c["first_k_dense_replace"])
    w.ends()


ARCHITECTURES = {"glm5_next": "glm5-next", "qwen3_5_moe": "qwen35moe", "qwen3_next": "qwen3next", "kimi_linear": "kimi-linear"}


def add_qwen_keys(writer, spec):
    c, config = spec["config"], make_config(spec)
    writer.add_head_count_kv(c["num_key_value_heads"])
    writer.add_key_length(c["head_dim"])
    writer.add_value_length(c["head_dim"])
    rope = config.rope_parameters
    writer.add_rope_dimension_count(int(c["head_dim"] * rope["partial_rotary_factor"]))
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_expert_count(c["num_experts"])
    writer.add_expert_used_count(c["num_experts_per_tok"])
    writer.add_expert_feed_forward_length(c["moe_intermediate_size"])
    writer.add_expert_shared_feed_forward_length(c["shared_expert_intermediate_size"])
    writer.add_ssm_conv_kernel(c["linear_conv_kernel_dim"])
    writer.add_ssm_state_size(c["linear_key_head_dim"])
    writer.add_ssm_group_count(c["linear_num_key_heads"])
    writer.add_ssm_time_step_rank(c["linear_num_value_heads"])
    writer.add_ssm_inner_size(c["linear_value_head_dim"] * c["linear_num_value_heads"])
    writer.add_full_attention_interval(c.get("full_attention_interval", 4))
    if spec["model_type"] == "qwen3_5_moe":
        writer.add_rope_dimension_sections([2, 1, 1, 0])


def add_glm_keys(writer, spec):
    c, arch = spec["config"], ARCHITECTURES["glm5_next"]
    blocks = c["num_hidden_layers"] + (spec["model_type"] in NEXTN)
    writer.add_q_lora_rank(c["q_lora_rank"])
    writer.add_value_length(c["kv_lora_rank"])
    writer.add_layer_norm_eps(1e-6)
    writer.add_expert_group_count(c["n_group"])
    writer.add_expert_group_used_count(c["topk_group"])
    writer.add_expert_weights_norm(c["norm_topk_prob"])
    writer.add_indexer_head_count(c["index_n_heads"])
    writer.add_indexer_key_length(c["index_head_dim"])
    writer.add_indexer_top_k(c["index_topk"])
    writer.add_uint32(f"{arch}.attention.indexer.kpool", c["index_kpool"])
    writer.add_bool(f"{arch}.attention.indexer.kpool_select_tail", c["index_kpool_always_select_tail"])
    writer.add_array(f"{arch}.attention.indexer.types", [kind == "full" for kind in c["indexer_types"]])
    writer.add_float32(f"{arch}.kda.gate_lower_bound", c["linear_attn_config"]["gate_lower_bound"])
    writer.add_uint32(f"{arch}.hyper_connection.count", c["hc_mult"])
    writer.add_uint32(f"{arch}.hyper_connection.sinkhorn_iterations", c["hc_sinkhorn_iters"])
    writer.add_float32(f"{arch}.hyper_connection.epsilon", c["hc_eps"])
    for key in ("exp", "shexp"):
        writer.add_array(f"{arch}.swiglu_clamp_{key}", [c["swiglu_limit"]] * blocks)
    add_kimi_keys(writer, spec)


def add_kimi_keys(writer, spec):
    c = spec["config"]
    full = [kind != "linear_attention" for kind in make_config(spec).layer_types]
    writer.add_head_count_kv([int(f) for f in full] + [1] * (spec["model_type"] in NEXTN))
    writer.add_feed_forward_length(c["intermediate_size"])
    writer.add_kv_lora_rank(c["kv_lora_rank"])
    writer.add_key_length(c["kv_lora_rank"] + c["qk_rope_head_dim"])
    writer.add_key_length_mla(c["qk_nope_head_dim"] + c["qk_rope_head_dim"])
    writer.add_value_length_mla(c["v_head_dim"])
    writer.add_rope_dimension_count(c["qk_rope_head_dim"])
    if "rope_theta" in c:
        writer.add_rope_freq_base(c["rope_theta"])
    writer.add_expert_count(c.get("num_experts", c.get("n_routed_experts")))
    writer.add_expert_used_count(c.get("num_experts_per_token", c.get("num_experts_per_tok")))
    writer.add_expert_shared_count(c.get("num_shared_experts", c.get("n_shared_experts")))
    writer.add_expert_feed_forward_length(c["moe_intermediate_size"])
    writer.add_expert_weights_scale(c["routed_scaling_factor"])
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    writer.add_leading_dense_block_count(c["first_k_dense_replace"])
    if spec["model_type"] == "kimi_linear":
        writer.add_expert_group_used_count(c["topk_group"])  # without expert_group_count, as its converter has it
    writer.add_ssm_conv_kernel(4)
    writer.add_kda_head_dim(c["linear_attn_config"]["head_dim"])


NEXTN = ("qwen3_5_moe", "glm5_next")  # files that have an MTP layer
KEYS = {"kimi_linear": add_kimi_keys, "glm5_next": add_glm_keys}


def write_gguf(path, spec, tensors):
    c = spec["config"]
    writer = gguf.GGUFWriter(path, ARCHITECTURES[spec["model_type"]])
    writer.add_name("random " + spec["model_type"])
    writer.add_quantization_version(2)
    nextn = spec["model_type"] in NEXTN
    writer.add_block_count(c["num_hidden_layers"] + nextn)
    if nextn:
        writer.add_nextn_predict_layers(1)
    writer.add_context_length(c.get("max_position_embeddings", c.get("model_max_length")))
    writer.add_embedding_length(c["hidden_size"])
    writer.add_head_count(c["num_attention_heads"])
    writer.add_layer_norm_rms_eps(c["rms_norm_eps"])
    KEYS.get(spec["model_type"], add_qwen_keys)(writer, spec)
    add_vocabulary(writer, spec)
    for name, data, kind in tensors:
        writer.add_tensor(name, data, raw_dtype=Type[kind])
    if nextn:
        blk = f"blk.{c['num_hidden_layers']}."
        writer.add_tensor(blk + "attn_norm.weight", np.zeros(c["hidden_size"], np.float32))
        writer.add_tensor(blk + "nextn.eh_proj.weight", np.zeros((8, 2 * c["hidden_size"]), np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_vocabulary(writer, spec):
    c = spec["config"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre({"qwen3_5_moe": "qwen35", "qwen3_next": "qwen2", "kimi_linear": "kimi-k2", "glm5_next": "glm4"}[spec["model_type"]])
    tokens = [f"t{i}" for i in range(c["vocab_size"])]
    types = [gguf.TokenType.CONTROL if i < 4 else gguf.TokenType.NORMAL for i in range(c["vocab_size"])]
    merges = ["t 1"]
    if "vocabulary" in spec:  # a tokenizer.json of tests/unit/data
        with open(os.path.join(DATA, spec["vocabulary"]), encoding="utf-8") as file:
            tokenizer = json.load(file)
        for text, i in tokenizer["model"]["vocab"].items():
            tokens[i], types[i] = text, gguf.TokenType.NORMAL
        for added in tokenizer["added_tokens"]:
            tokens[added["id"]] = added["content"]
            types[added["id"]] = gguf.TokenType.CONTROL if added["special"] else gguf.TokenType.USER_DEFINED
        merges = [" ".join(pair) for pair in tokenizer["model"]["merges"]]
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    ends = c["eos_token_id"] if isinstance(c["eos_token_id"], list) else [c["eos_token_id"]]
    writer.add_eos_token_id(ends[0])
    if len(ends) > 1:
        writer.add_eot_token_id(ends[1])
    if "template" in spec:
        with open(os.path.join(DATA, "templates", spec["template"]), encoding="utf-8") as file:
            writer.add_chat_template(file.read())


# ---- numbers

def pool_scores(indexer, x, q_lora):
    """[tokens, pools] of one indexer, by its own projections."""
    size = indexer.index_kpool
    q = indexer.wq_b(q_lora).unflatten(-1, (indexer.n_heads, indexer.head_dim))[0]
    k, gate = (indexer.k_norm(indexer.wk(x))[0], (x @ indexer.index_kpool_compress_gate.T)[0])
    n = len(k) // size
    k, gate = (part[:n * size].unflatten(0, (n, size)) for part in (k, gate))
    keys = ((gate + indexer.index_kpool_compress_ape).softmax(1) * k).sum(1)
    return torch.einsum("th,thp->tp", indexer.weights_proj(x)[0], torch.einsum("thd,pd->thp", q, keys).relu())


@torch.no_grad()
def pool_margin(model, ids):
    """As ck.index_margin, of pools; and that the class has chosen these, and the open pool's positions."""
    least, hooks = [], []

    def look(indexer, _, inputs, chosen):
        scores, size = pool_scores(indexer, inputs["hidden_states"], inputs["q_resid"]), indexer.index_kpool
        top_k = indexer.index_topk // size
        for t in range(len(scores)):
            complete = (t + 1) // size
            ranked = scores[t, :complete].sort(descending=True)
            want = {int(p) * size + j for p in ranked.indices[:top_k] for j in range(size)}
            assert want | set(range(complete * size, t + 1)) == set(chosen[0, t].tolist()) - {-1}
            if complete > top_k:
                least.append(((ranked.values[top_k - 1] - ranked.values[top_k]) / ranked.values.std()).item())
    for layer in model.model.layers:
        if hasattr(layer.self_attn, "indexer"):
            hooks.append(layer.self_attn.indexer.register_forward_hook(look, with_kwargs=True))
    model(torch.tensor([ids]))
    for hook in hooks:
        hook.remove()
    return min(least, default=float("inf"))


def write_numbers(name, spec, folder, tensors, generator):
    model = transformers_model(spec, tensors)
    if spec["model_type"] == "glm5_next":
        ck.index_margin = pool_margin
    if "template" in spec:  # rows are long
        ck.compared = lambda length: [p for p in range(length) if p % 20 == 0 or p == length - 1]
    ck.write_golden(name, spec, folder, model, ck.draw_prompts(model, generator))


NO_MLX = ("glm5_next",)  # mlx-lm 0.32.2 has no such class


QWEN35_PIECES = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|"
                 r"\s*[\r\n]+|\s+(?!\S)|\s+")


def write_qwen_tokenizer(spec, checkpoint):
    """That of tests/unit/data with Qwen 3.5's pieces, and what stands beside it on the hub."""
    with open(os.path.join(DATA, spec["vocabulary"]), encoding="utf-8") as file:
        tokenizer = json.load(file)
    tokenizer["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = QWEN35_PIECES
    with open(os.path.join(checkpoint, "tokenizer.json"), "w", encoding="utf-8") as file:
        json.dump(tokenizer, file, ensure_ascii=False, separators=(",", ":"))
    flags = ("content", "lstrip", "normalized", "rstrip", "single_word", "special")
    write_json(os.path.join(checkpoint, "tokenizer_config.json"), {
        "add_prefix_space": False,
        "added_tokens_decoder": {str(added["id"]): {key: added[key] for key in flags} for added in tokenizer["added_tokens"]},
        "bos_token": None, "clean_up_tokenization_spaces": False, "eos_token": "<|im_end|>", "errors": "replace",
        "model_max_length": spec["config"]["max_position_embeddings"], "pad_token": "<|endoftext|>", "split_special_tokens": False,
        "tokenizer_class": "Qwen2Tokenizer", "unk_token": None})


def make_folder(folder, name, spec, tensors, generator):
    """MLX's alone, with the files of a tokenizer."""
    directory = os.path.join(folder, f"ck-{name}")
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    checkpoint = os.path.join(directory, "checkpoint")
    write_mlx(spec, tensors, checkpoint, directory)
    if "vocabulary" in spec:
        write_qwen_tokenizer(spec, checkpoint)
    else:
        for file in ("tiktoken.model", "tokenizer_config.json"):
            shutil.copy(os.path.join(DATA, spec["folder"], file), checkpoint)
    shutil.copy(os.path.join(DATA, "templates", spec["template"]), os.path.join(checkpoint, "chat_template.jinja"))
    write_numbers(f"ck-{name}", spec, directory, mlx_meaning(spec, checkpoint), generator)


def make(folder, name, spec):
    generator = np.random.default_rng(spec["seed"])
    torch.manual_seed(spec["seed"])
    tensors = random_tensors(spec, generator)
    if "folder" in spec:
        beside = "vocabulary" in spec  # a GGUF, whose draws are its own
        make_folder(folder, name, spec, tensors, np.random.default_rng(spec["seed"]) if beside else generator)
        if not beside:
            return
    first, mlx, ggml = (os.path.join(folder, n) for n in (f"ck-{name}", f"ck-{name}-mlx", f"gguf-{name}"))
    for directory in (ggml,) if "vocabulary" in spec else (first, ggml) if spec["model_type"] in NO_MLX else (first, mlx, ggml):
        shutil.rmtree(directory, ignore_errors=True)
        os.makedirs(directory)
    if "vocabulary" not in spec:
        given, config = original(spec, tensors)
        write_shards(os.path.join(first, "checkpoint"), given, spec["shards"], config)
        write_numbers(f"ck-{name}", spec, first, tensors, generator)
        if spec["model_type"] not in NO_MLX:
            write_mlx(spec, tensors, os.path.join(mlx, "checkpoint"), mlx)
            write_numbers(f"ck-{name}-mlx", spec, mlx, mlx_meaning(spec, os.path.join(mlx, "checkpoint")), generator)
    writer = Writer(spec, tensors)
    {"kimi_linear": gguf_kimi, "glm5_next": gguf_glm}.get(spec["model_type"], gguf_qwen)(writer)
    os.makedirs(os.path.join(ggml, "checkpoint"))
    write_gguf(os.path.join(ggml, "checkpoint", f"{name}.gguf"), spec, writer.tensors)
    write_numbers(f"gguf-{name}", spec, ggml, writer.meaning, generator)


def main():
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    folder = sys.argv[1] if len(sys.argv) > 1 else HERE
    for name in sys.argv[2:] or MODELS:
        make(folder, name, MODELS[name])


if __name__ == "__main__":
    main()
