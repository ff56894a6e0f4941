# SPDX-License-Identifier: GPL-3.0-or-later
"""A small random Kimi K3, as the hub has it and as MLX does, with numbers of our own for it: transformers has no class.

    python3 tests/golden/make_kimi_k3.py [FOLDER [NAME...]]       (numpy, safetensors, torch to write bf16, gguf 0.19)

writes FOLDER/ck-kimi-k3 (experts in mxfp4 as compressed-tensors packs them, all else bf16), FOLDER/ck-kimi-k3-mlx
(everything in mxfp4, inputs of KDA joined), FOLDER/ck-kimi-k3-chat, the same with a vocabulary, to talk to, and
FOLDER/gguf-kimi-k3, as llama.cpp's converter makes it. The numbers are float64, computed here in numpy from the description of the
model alone (docs/models.md); float32 is run, too, to see how far it is off. Nothing here was taken from the engine.
"""

import json
import os
import shutil
import sys

import gguf
import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import make_checkpoints as ck  # noqa: E402
from make_checkpoints import package, write_json, write_shards  # noqa: E402

HIDDEN, LAYERS, EVERY = 64, 5, 2
HEADS, NOPE, ROPE, V, Q_LORA, KV_LORA = 2, 32, 16, 32, 32, 32
KDA_HEADS, D, TAPS, BOUND = 2, 32, 4, -5.0
EXPERTS, TOP, LATENT, INNER, SHARED, DENSE = 6, 2, 32, 64, 2, 96
FULL = (3, 5)  # counted from 1
EPS, LATENT_EPS = 1e-5, 1e-6
BETA, LINEAR_BETA, FACTOR = 3.0, 7.0, 1.5
WIDE = KDA_HEADS * D

TEXT = dict(
    architectures=["KimiLinearForCausalLM"], model_type="kimi_linear", dtype="bfloat16", hidden_size=HIDDEN,
    intermediate_size=DENSE, moe_intermediate_size=INNER, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
    num_key_value_heads=HEADS, head_dim=None, num_experts=EXPERTS, num_experts_per_token=TOP, num_shared_experts=SHARED,
    routed_expert_hidden_size=LATENT, latent_moe_use_norm=True, first_k_dense_replace=1, moe_layer_freq=1,
    moe_renormalize=True, moe_router_activation_func="sigmoid", topk_method="noaux_tc", use_grouped_topk=True,
    num_expert_group=1, topk_group=1, routed_scaling_factor=FACTOR, q_lora_rank=Q_LORA, kv_lora_rank=KV_LORA,
    qk_nope_head_dim=NOPE, qk_rope_head_dim=ROPE, v_head_dim=V, mla_use_nope=True, mla_use_output_gate=True,
    attn_res_block_size=EVERY, hidden_act="situ", activation_situ_beta=BETA, activation_situ_linear_beta=LINEAR_BETA,
    max_position_embeddings=256, rms_norm_eps=EPS, tie_word_embeddings=False, num_nextn_predict_layers=0, pad_token_id=2,
    bos_token_id=0, eos_token_id=1,
    linear_attn_config=dict(head_dim=D, num_heads=KDA_HEADS, short_conv_kernel_size=TAPS, gate_lower_bound=BOUND,
                            use_full_rank_gate=True, full_attn_layers=list(FULL),
                            kda_layers=[i for i in range(1, LAYERS + 1) if i not in FULL]))
GAINS = {"q_proj": 1.4, "q_b_proj": 2.5, "gate": 2.0, "lm_head": 2.0, "down_proj": 1.5, "o_proj": 1.5, "gate_proj": 2.0,
         "up_proj": 2.0, "b_proj": 1.5, "f_b_proj": 1.5}


# ---- tensors: matrices [out, in] by the hub's names without prefix; an expert's w1, w3, w2

def matrices(vocab):
    """(name, out, in)"""
    yield "model.embed_tokens", vocab, HIDDEN
    yield "lm_head", vocab, HIDDEN
    for i in range(LAYERS):
        attn, moe = f"model.layers.{i}.self_attn.", f"model.layers.{i}.block_sparse_moe."
        if i + 1 in FULL:
            yield attn + "q_a_proj", Q_LORA, HIDDEN
            yield attn + "q_b_proj", HEADS * (NOPE + ROPE), Q_LORA
            yield attn + "kv_a_proj_with_mqa", KV_LORA + ROPE, HIDDEN
            yield attn + "kv_b_proj", HEADS * (NOPE + V), KV_LORA
            yield attn + "g_proj", HEADS * V, HIDDEN
            yield attn + "o_proj", HIDDEN, HEADS * V
        else:
            for name in ("q_proj", "k_proj", "v_proj", "g_proj"):
                yield attn + name, WIDE, HIDDEN
            yield attn + "f_a_proj", D, HIDDEN
            yield attn + "f_b_proj", WIDE, D
            yield attn + "b_proj", KDA_HEADS, HIDDEN
            yield attn + "o_proj", HIDDEN, WIDE
        if i == 0:
            yield "model.layers.0.mlp.gate_proj", DENSE, HIDDEN
            yield "model.layers.0.mlp.up_proj", DENSE, HIDDEN
            yield "model.layers.0.mlp.down_proj", HIDDEN, DENSE
            continue
        yield moe + "gate", EXPERTS, HIDDEN
        yield moe + "routed_expert_down_proj", LATENT, HIDDEN
        yield moe + "routed_expert_up_proj", HIDDEN, LATENT
        for name, out, width in (("gate_proj", SHARED * INNER, HIDDEN), ("up_proj", SHARED * INNER, HIDDEN),
                                 ("down_proj", HIDDEN, SHARED * INNER)):
            yield f"{moe}shared_experts.{name}", out, width
        for e in range(EXPERTS):
            yield f"{moe}experts.{e}.w1", INNER, LATENT
            yield f"{moe}experts.{e}.w3", INNER, LATENT
            yield f"{moe}experts.{e}.w2", LATENT, INNER


def vectors(generator):
    """name -> array: norms away from 1, biases, and what decays are made of; the hub pads A_log."""
    out = {}

    def norm(name, width):
        out[name] = package.round_bf16((1 + 0.3 * generator.standard_normal(width)).astype(np.float32))

    def mixture(stem, width=HIDDEN):
        norm(stem + "_norm.weight", width)
        out[stem + "_proj.weight"] = package.round_bf16((0.25 * generator.standard_normal((1, width))).astype(np.float32))
    norm("model.norm.weight", HIDDEN)
    mixture("model.output_attn_res")
    for i in range(LAYERS):
        layer = f"model.layers.{i}."
        attn = layer + "self_attn."
        norm(layer + "input_layernorm.weight", HIDDEN)
        norm(layer + "post_attention_layernorm.weight", HIDDEN)
        mixture(layer + "self_attention_res")
        mixture(layer + "mlp_res")
        if i + 1 in FULL:
            norm(attn + "q_a_layernorm.weight", Q_LORA)
            norm(attn + "kv_a_layernorm.weight", KV_LORA)
        else:
            for key in "qkv":
                out[f"{attn}{key}_conv1d.weight"] = (0.6 * generator.standard_normal((WIDE, 1, TAPS))).astype(np.float32)
            out[attn + "A_log"] = generator.uniform(-1, 1, KDA_HEADS + 3).astype(np.float32)
            out[attn + "dt_bias"] = (generator.standard_normal(WIDE) - 1).astype(np.float32)
            norm(attn + "o_norm.weight", D)
        if i > 0:
            norm(layer + "block_sparse_moe.routed_expert_norm.weight", LATENT)
            out[layer + "block_sparse_moe.gate.e_score_correction_bias"] = (
                0.2 * generator.standard_normal(EXPERTS)).astype(np.float32)
    return out


LEVELS = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def random_mxfp4(generator, out, width, gain):
    """(codes [out, width], scales [out, width / 32], what they mean)"""
    codes = generator.integers(0, 16, (out, width)).astype(np.uint8)
    exponent = int(np.round(np.log2(gain / width**0.5 / 2.9)))
    scales = (127 + exponent + generator.integers(-1, 2, (out, width // 32))).astype(np.uint8)
    values = LEVELS[codes & 7] * np.where(codes & 8, -1.0, 1.0)
    return codes, scales, values * 2.0 ** (np.repeat(scales, 32, axis=1).astype(np.float64) - 127)


def gain_of(name):
    return next((gain for key, gain in GAINS.items() if name.endswith("." + key) or name == key), 1.0)


def pack(codes):
    """Two in a byte, the lower four bits first."""
    return codes[..., ::2] | codes[..., 1::2] << 4


# ---- the model, as it is described

def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def rms(x, weight, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + x.dtype.type(eps)) * weight


def situ(gate, up):
    dtype = gate.dtype.type
    return dtype(BETA) * np.tanh(gate / dtype(BETA)) * sigmoid(gate) * (dtype(LINEAR_BETA) * np.tanh(up / dtype(LINEAR_BETA)))


def mixture(entries, norm, proj, eps):
    u = np.stack(entries)  # [entries, tokens, hidden]
    scores = (u * (norm * proj[0])).sum(-1) / np.sqrt((u * u).mean(-1) + u.dtype.type(eps))
    shares = np.exp(scores - scores.max(0))
    return ((shares / shares.sum(0))[..., None] * u).sum(0)


def delta(w, x, attn):
    n, dtype = len(x), x.dtype.type

    def conv(key):
        taps, y = w[f"{attn}{key}_conv1d.weight"][:, 0], x @ w[f"{attn}{key}_proj.weight"].T
        y = np.concatenate([np.zeros((TAPS - 1, WIDE), x.dtype), y])
        y = sum(y[j:j + n] * taps[:, j] for j in range(TAPS))
        return (y * sigmoid(y)).reshape(n, KDA_HEADS, D)
    q, k, v = conv("q"), conv("k"), conv("v")
    q = q / np.sqrt((q * q).sum(-1, keepdims=True) + dtype(1e-6)) * dtype(D**-0.5)
    k = k / np.sqrt((k * k).sum(-1, keepdims=True) + dtype(1e-6))
    beta = sigmoid(x @ w[attn + "b_proj.weight"].T)
    f = x @ w[attn + "f_a_proj.weight"].T @ w[attn + "f_b_proj.weight"].T + w[attn + "dt_bias"]
    rate = np.exp(w[attn + "A_log"][:KDA_HEADS])[:, None]
    decay = np.exp(dtype(BOUND) * sigmoid(rate * f.reshape(n, KDA_HEADS, D)))
    state, out = np.zeros((KDA_HEADS, D, D), x.dtype), np.empty_like(v)
    for t in range(n):
        state = decay[t][..., None] * state
        new = beta[t][:, None] * (v[t] - np.einsum("hkv,hk->hv", state, k[t]))
        state = state + k[t][..., None] * new[:, None]
        out[t] = np.einsum("hkv,hk->hv", state, q[t])
    gate = sigmoid(x @ w[attn + "g_proj.weight"].T).reshape(out.shape)
    return (rms(out, w[attn + "o_norm.weight"], EPS) * gate).reshape(n, -1) @ w[attn + "o_proj.weight"].T


def latent_attention(w, x, attn):
    n = len(x)
    q = rms(x @ w[attn + "q_a_proj.weight"].T, w[attn + "q_a_layernorm.weight"], LATENT_EPS) @ w[attn + "q_b_proj.weight"].T
    q = q.reshape(n, HEADS, NOPE + ROPE)
    kv = x @ w[attn + "kv_a_proj_with_mqa.weight"].T
    both = rms(kv[:, :KV_LORA], w[attn + "kv_a_layernorm.weight"], LATENT_EPS) @ w[attn + "kv_b_proj.weight"].T
    keys, values = np.split(both.reshape(n, HEADS, NOPE + V), [NOPE], axis=2)
    scores = np.einsum("thd,shd->hts", q[..., :NOPE], keys) + np.einsum("thd,sd->hts", q[..., NOPE:], kv[:, KV_LORA:])
    scores = scores * x.dtype.type((NOPE + ROPE)**-0.5) + np.where(np.tri(n, dtype=bool), 0, -np.inf).astype(x.dtype)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares = shares / shares.sum(-1, keepdims=True)
    out = np.einsum("hts,shd->thd", shares, values).reshape(n, -1)
    return (out * sigmoid(x @ w[attn + "g_proj.weight"].T)) @ w[attn + "o_proj.weight"].T, shares


def mlp(w, x, stem, names=("gate_proj", "up_proj", "down_proj")):
    gate, up, down = (w[f"{stem}{name}.weight"] for name in names)
    return situ(x @ gate.T, x @ up.T) @ down.T


def experts(w, x, moe, margins):
    scores = sigmoid(x @ w[moe + "gate.weight"].T)
    choice = scores + w[moe + "gate.e_score_correction_bias"]
    order = np.argsort(-choice, axis=-1, kind="stable")
    sorted_choice = np.take_along_axis(choice, order, -1)
    margins.append((sorted_choice[:, TOP - 1] - sorted_choice[:, TOP]).min())
    latent = x @ w[moe + "routed_expert_down_proj.weight"].T
    sums = np.zeros_like(latent)
    for t, chosen in enumerate(order[:, :TOP]):
        weights = scores[t, chosen] / (scores[t, chosen].sum() + x.dtype.type(1e-20)) * x.dtype.type(FACTOR)
        for e, weight in zip(chosen, weights):
            sums[t] += weight * mlp(w, latent[t], f"{moe}experts.{e}.", ("w1", "w3", "w2"))
    routed = rms(sums, w[moe + "routed_expert_norm.weight"], EPS) @ w[moe + "routed_expert_up_proj.weight"].T
    return routed + mlp(w, x, moe + "shared_experts.")


def forward(w, ids):
    """(logits, the least margin of a routing, attention of the last full layer)"""
    p, bank, margins, shares = w["model.embed_tokens.weight"][ids], [], [], None
    for i in range(LAYERS):
        layer = f"model.layers.{i}."

        def mixed(site):
            norm, proj = w[f"{layer}{site}_norm.weight"], w[f"{layer}{site}_proj.weight"]
            return mixture(bank + [p], norm, proj, EPS)
        x = rms(mixed("self_attention_res"), w[layer + "input_layernorm.weight"], EPS)
        if i + 1 in FULL:
            out, shares = latent_attention(w, x, layer + "self_attn.")
        else:
            out = delta(w, x, layer + "self_attn.")
        if i % EVERY == 0:
            bank.append(p)
            p = out
        else:
            p = p + out
        x = rms(mixed("mlp_res"), w[layer + "post_attention_layernorm.weight"], EPS)
        p = p + (experts(w, x, layer + "block_sparse_moe.", margins) if i else mlp(w, x, layer + "mlp."))
    x = mixture(bank + [p], w["model.output_attn_res_norm.weight"], w["model.output_attn_res_proj.weight"], EPS)
    return rms(x, w["model.norm.weight"], EPS) @ w["lm_head.weight"].T, min(margins), shares


# ---- files

def config(vocab, **more):
    return dict(architectures=["KimiK3ForConditionalGeneration"], model_type="kimi_k3", dtype="bfloat16",
                tie_word_embeddings=False, text_config=TEXT | dict(vocab_size=vocab, max_position_embeddings=2048 if vocab > 1000 else 256), vision_config=dict(vt_hidden_size=8)) | more


def vision():
    return {"vision_tower.encoder.blocks.0.wqkv.weight": torch.zeros(24, 8, dtype=torch.bfloat16),
            "mm_projector.proj.0.weight": torch.zeros(8, 8, dtype=torch.bfloat16)}


FLOATS = ("A_log", "dt_bias", "conv1d.weight", "e_score_correction_bias", "o_norm.weight")  # float32 in the hub's files


def original(generator, small, vocab):
    """(the hub's tensors, what they mean)"""
    spec = {"layout": "bf16", "group": 32, "config": {}}
    meaning, files = {}, {}
    ck.GAINS = GAINS
    for name, out, width in matrices(vocab):
        weight = name + ".weight"
        if ".experts." in name:
            codes, scales, meaning[weight] = random_mxfp4(generator, out, width, 1.6)
            files[name + ".weight_packed"] = torch.from_numpy(pack(codes))
            files[name + ".weight_scale"] = torch.from_numpy(scales)
            continue
        meaning[weight] = ck.on_grid(generator, spec, weight, (out, width))
        files[weight] = torch.from_numpy(meaning[weight]).bfloat16()
    for name, value in small.items():
        meaning[name] = value
        files[name] = torch.from_numpy(value) if name.endswith(FLOATS) else torch.from_numpy(value).bfloat16()
    quantisation = dict(quant_method="compressed-tensors", format="mxfp4-pack-quantized", config_groups=dict(
        group_0=dict(format="mxfp4-pack-quantized", targets=["Linear"],
                     weights=dict(num_bits=4, group_size=32, type="float", strategy="group", symmetric=True))))
    settings = config(vocab)
    settings["text_config"]["quantization_config"] = quantisation
    return {"language_model." + name: t for name, t in files.items()} | vision(), settings, meaning


def mlx(generator, small, vocab):
    """The same of an MLX folder: experts stacked, q, k and v of KDA one, kv_b by halves, the routers in 8 bits."""
    files, meaning, stacks = {}, {}, {}
    quantisation = dict(group_size=32, bits=4, mode="mxfp4")

    def words(codes):
        return torch.from_numpy(np.ascontiguousarray(pack(codes)).view(np.uint32).astype(np.int64)).to(torch.uint32)

    def put(name, codes, scales):
        files[name + ".weight"], files[name + ".scales"] = words(codes), torch.from_numpy(np.ascontiguousarray(scales))
    for name, out, width in matrices(vocab):
        ours = name.replace(".block_sparse_moe.", ".mlp.")
        if name.endswith(".gate"):
            q = generator.integers(0, 256, (out, width))
            meaning[name + ".weight"] = (q - 128.0) / 512
            files[ours + ".weight"] = torch.from_numpy(q.astype(np.uint8).view(np.uint32).astype(np.int64)).to(torch.uint32)
            files[ours + ".scales"] = torch.full((out, width // 64), 1 / 512, dtype=torch.bfloat16)
            files[ours + ".biases"] = torch.full((out, width // 64), -0.25, dtype=torch.bfloat16)
            quantisation["language_model." + ours] = dict(group_size=64, bits=8)
        elif name.endswith("kv_b_proj"):
            keys = [random_mxfp4(generator, KV_LORA, NOPE, 1.0) for _ in range(HEADS)]
            values = [random_mxfp4(generator, V, KV_LORA, 1.0) for _ in range(HEADS)]
            for part, stem in ((keys, "embed_q"), (values, "unembed_out")):
                put(ours.replace("kv_b_proj", stem), np.stack([p[0] for p in part]), np.stack([p[1] for p in part]))
            halves = [np.concatenate([k[2].T, v[2]]) for k, v in zip(keys, values)]
            meaning[name + ".weight"] = np.concatenate(halves)
        else:
            gain = 8.0 if name == "model.embed_tokens" else 1.6 if ".experts." in name else gain_of(name)
            codes, scales, meaning[name + ".weight"] = random_mxfp4(generator, out, width, gain)
            if ".experts." in name:
                moe, e, key = name.rsplit(".", 2)
                stem = moe.replace(".block_sparse_moe.experts", ".mlp.switch_mlp.")
                stem += {"w1": "gate_proj", "w3": "up_proj", "w2": "down_proj"}[key]
                stacks.setdefault(stem, []).append((codes, scales))
            elif name.endswith(("q_proj", "k_proj", "v_proj")):
                stacks.setdefault(ours[:-len("q_proj")] + "qkv_proj", []).append((codes, scales))
            else:
                put(ours, codes, scales)
    for stem, parts in stacks.items():
        join = np.concatenate if stem.endswith("qkv_proj") else np.stack
        put(stem, join([codes for codes, _ in parts]), join([scales for _, scales in parts]))
    for name, value in small.items():
        meaning[name] = value
        ours = name.replace(".block_sparse_moe.", ".mlp.").replace(".gate.e_score", ".e_score")
        if name.endswith("A_log"):
            value = value[:KDA_HEADS].copy()
        if name.endswith(("k_conv1d.weight", "v_conv1d.weight")):
            continue
        if name.endswith("q_conv1d.weight"):
            ours = ours.replace("q_conv1d", "qkv_conv.conv")
            value = np.concatenate([small[name.replace("q_conv", key + "_conv")] for key in "qkv"]).transpose(0, 2, 1).copy()
        files[ours] = torch.from_numpy(value) if name.endswith(FLOATS) else torch.from_numpy(value).bfloat16()
        if name.endswith("res_proj.weight"):
            quantisation["language_model." + ours[:-len(".weight")]] = False
    return {"language_model." + name: t for name, t in files.items()}, config(vocab, quantization=quantisation), meaning


GGUF_NAMES = {"q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output", "q_a_proj": "attn_q_a",
              "q_b_proj": "attn_q_b", "kv_a_proj_with_mqa": "attn_kv_a_mqa", "f_a_proj": "ssm_f_a", "f_b_proj": "ssm_f_b",
              "b_proj": "ssm_beta", "gate": "ffn_gate_inp", "routed_expert_down_proj": "ffn_routed_down",
              "routed_expert_up_proj": "ffn_routed_up", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
              "q_a_layernorm": "attn_q_a_norm", "kv_a_layernorm": "attn_kv_a_norm", "o_norm": "ssm_norm",
              "routed_expert_norm": "ffn_routed_norm", "w1": "ffn_gate_exps", "w3": "ffn_up_exps", "w2": "ffn_down_exps",
              "self_attention_res": "attn_res_score", "mlp_res": "ffn_res_score"}


def write_gguf(path, generator, small, vocab):
    """The same of a GGUF file, experts in MXFP4 and what is read for every token in Q8_0: what its tensors mean."""
    arch, meaning, stacks = "kimi-k3", {}, {}
    writer = gguf.GGUFWriter(path, arch)
    writer.add_name("random kimi_k3")
    writer.add_quantization_version(2)
    writer.add_block_count(LAYERS)
    writer.add_context_length(256)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(DENSE)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv([int(i + 1 in FULL) for i in range(LAYERS)])
    writer.add_layer_norm_rms_eps(EPS)
    writer.add_vocab_size(vocab)
    writer.add_q_lora_rank(Q_LORA)
    writer.add_kv_lora_rank(KV_LORA)
    writer.add_key_length(KV_LORA + ROPE)
    writer.add_value_length(KV_LORA)
    writer.add_key_length_mla(NOPE + ROPE)
    writer.add_value_length_mla(V)
    writer.add_rope_dimension_count(ROPE)
    writer.add_ssm_conv_kernel(TAPS)
    writer.add_kda_head_dim(D)
    writer.add_expert_count(EXPERTS)
    writer.add_expert_used_count(TOP)
    writer.add_expert_group_used_count(1)  # without expert_group_count, as its converter has it
    writer.add_expert_shared_count(SHARED)
    writer.add_expert_feed_forward_length(INNER)
    writer.add_expert_weights_scale(FACTOR)
    writer.add_expert_weights_norm(True)
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    writer.add_leading_dense_block_count(1)
    for key, value in (("kda.gate_lower_bound", BOUND), ("activation.situ_beta", BETA),
                       ("activation.situ_linear_beta", LINEAR_BETA)):
        writer.add_float32(f"{arch}.{key}", value)
    writer.add_uint32(f"{arch}.expert_latent_length", LATENT)
    writer.add_uint32(f"{arch}.attn_res.block_size", EVERY)
    tokens = [f"t{i}" for i in range(vocab)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("kimi-k2")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.CONTROL if i < 4 else gguf.TokenType.NORMAL for i in range(vocab)])
    writer.add_token_merges(["t 1"])
    writer.add_eos_token_id(1)

    def add(name, value, kind="F32"):
        kind = gguf.GGMLQuantizationType[kind]
        value = np.ascontiguousarray(value, dtype=np.float32)
        data = gguf.quants.quantize(value, kind)
        writer.add_tensor(name, data, raw_dtype=kind)
        return gguf.quants.dequantize(data, kind).reshape(value.shape)

    def place(name):
        """blk.N. and the last word of a name; neither for what is of no layer"""
        words = name.split(".")
        return (f"blk.{words[2]}." if ".layers." in name else ""), words[-1]
    for name, out, width in matrices(vocab):
        blk, word = place(name)
        value = (generator.standard_normal((out, width)) * gain_of(name) / width**0.5).astype(np.float32)
        if name == "model.embed_tokens" or name == "lm_head":
            stem = "token_embd" if name.startswith("model") else "output"
            meaning[name + ".weight"] = add(stem + ".weight", value * (8 if stem == "token_embd" else 1), "Q8_0")
        elif ".experts." in name:
            stacks.setdefault((blk + GGUF_NAMES[word], name.rsplit(".", 2)[0], word), []).append(1.6 * value)
        elif word == "kv_b_proj":
            keys, values = np.split(value.reshape(HEADS, NOPE + V, KV_LORA), [NOPE], axis=1)
            keys = add(blk + "attn_k_b.weight", keys.transpose(0, 2, 1), "Q8_0").transpose(0, 2, 1)
            both = np.concatenate([keys, add(blk + "attn_v_b.weight", values, "Q8_0")], axis=1)
            meaning[name + ".weight"] = both.reshape(-1, KV_LORA)
        else:
            stem = "ffn_" + word[:-len("_proj")] + "_shexp" if "shared_experts" in name else GGUF_NAMES.get(word)
            if word == "g_proj":
                stem = "attn_gate" if int(name.split(".")[2]) + 1 in FULL else "ssm_g"
            elif ".mlp." in name:
                stem = "ffn_" + word[:-len("_proj")]
            meaning[name + ".weight"] = add(f"{blk}{stem}.weight", value, "F32" if word == "gate" else "Q8_0")
    for (stem, moe, word), parts in stacks.items():
        for e, part in enumerate(add(stem + ".weight", np.stack(parts), "MXFP4")):
            meaning[f"{moe}.{e}.{word}.weight"] = part
    for name, value in small.items():
        if name.endswith("_proj.weight"):
            continue  # with its norm
        meaning[name] = value
        stem, _, last = name.rpartition(".")
        blk, word = place(stem)
        if name.endswith("_res_norm.weight"):
            score = value * small[name.replace("_norm.weight", "_proj.weight")][0]
            short = word[:-len("_norm")]
            add((blk + GGUF_NAMES[short] if blk else "output_res_score") + ".weight", score)
            meaning[name], meaning[name.replace("_norm.", "_proj.")] = np.ones_like(score), score[None]
        elif "conv1d" in name:
            add(f"{blk}ssm_conv1d_{word[0]}.weight", value.reshape(1, WIDE, 1, TAPS))
        elif last == "A_log":
            meaning[name] = np.log(-add(place(stem)[0] + "ssm_a", -np.exp(value[:KDA_HEADS])))
        elif last == "dt_bias":
            add(place(stem)[0] + "ssm_dt.bias", value)
        elif last == "e_score_correction_bias":
            add(blk + "exp_probs_b.bias", value)
        else:
            add((blk + GGUF_NAMES[word] if blk else "output_norm") + ".weight", value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return {name: meaning[name] for name in sorted(meaning)}


def add_vocabulary(directory):
    """Kimi's of the unit tests, with K3's symbols, and its makers' program by its name."""
    shutil.copy(os.path.join(HERE, "..", "unit", "data", "kimi", "tiktoken.model"), directory)
    symbols = ("[BOS]", "[EOS]", "<|end_of_msg|>", "<|open|>", "<|close|>", "<|sep|>")
    added = {str(1501 + i): dict(content=symbol, lstrip=False, normalized=False, rstrip=False, single_word=False, special=True)
             for i, symbol in enumerate(symbols)}
    write_json(os.path.join(directory, "tokenizer_config.json"), dict(added_tokens_decoder=added))
    with open(os.path.join(directory, "encoding_k3.py"), "w", encoding="utf-8") as file:
        file.write("# stands for the makers' program\n")


# ---- numbers

def write_golden(folder, meaning, generator):
    vocab = len(meaning["lm_head.weight"])
    exact = {name: value.astype(np.float64) for name, value in meaning.items()}
    single = {name: value.astype(np.float32) for name, value in meaning.items()}
    prompts = []
    for length in ck.PROMPTS:
        draws = [generator.integers(0, vocab, length).tolist() for _ in range(40)]
        prompts.append(max(draws, key=lambda ids: forward(exact, ids)[1]))
    rows, kept, start, noise, worst = [], [], 0, 0.0, float("inf")
    for ids in prompts:
        logits, margin, shares = forward(exact, ids)
        noise = max(noise, np.abs(forward(single, ids)[0] - logits).max() / np.abs(logits).max())
        worst = min(worst, margin)
        positions = [p for p in ck.compared(len(ids)) if vocab < 1000 or p % 18 == 0 or p == len(ids) - 1]  # rows are long
        rows += [start + p for p in positions]
        kept.append(logits[positions])
        start += len(ids)
    entropy = -(shares * np.log(np.maximum(shares, 1e-30))).sum(-1)[:, 8:]
    spread = (entropy / np.log(np.arange(9, len(ids) + 1))).mean()
    print(f"{os.path.basename(folder)}: float32 is off float64 by {noise:.1e}, routing margin {worst:.1e}, attention entropy "
          f"{spread:.2f} of uniform, largest logit {np.abs(np.concatenate(kept)).max():.1f}")
    assert worst > ck.LEAST_MARGIN and noise < 3e-5 and spread < ck.MOST_SPREAD
    parameters = sum(KDA_HEADS if name.endswith("A_log") else value.size for name, value in meaning.items()
                     if not name.endswith("e_score_correction_bias"))
    write_json(os.path.join(folder, "golden.json"),
               {"model": "checkpoint", "prompts": [len(ids) for ids in prompts], "n_tokens": start, "vocab_size": vocab,
                "hidden_size": HIDDEN, "n_layers": LAYERS, "rows": rows, "top": [], "group_size": 32,
                "parameters": parameters, "transformers": "none: float64 of our own"})
    with open(os.path.join(folder, "tokens.txt"), "w", encoding="utf-8") as file:
        for ids in prompts:
            file.write(" ".join(map(str, ids)) + "\n")
    np.concatenate(kept).astype("<f4").tofile(os.path.join(folder, "rows.f32"))


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else HERE
    wanted = sys.argv[2:]
    if not wanted or "gguf-kimi-k3" in wanted:
        generator = np.random.default_rng(74)
        directory = os.path.join(folder, "gguf-kimi-k3")
        shutil.rmtree(directory, ignore_errors=True)
        os.makedirs(os.path.join(directory, "checkpoint"))
        meaning = write_gguf(os.path.join(directory, "checkpoint", "kimi-k3.gguf"), generator, vectors(generator), 96)
        write_golden(directory, meaning, generator)
    for name, seed, make, vocab in (("ck-kimi-k3", 71, original, 96), ("ck-kimi-k3-mlx", 72, mlx, 96),
                                    ("ck-kimi-k3-chat", 73, mlx, 1760)):
        if wanted and name not in wanted:
            continue
        generator = np.random.default_rng(seed)
        files, settings, meaning = make(generator, vectors(generator), vocab)
        directory = os.path.join(folder, name)
        shutil.rmtree(directory, ignore_errors=True)
        os.makedirs(directory)
        write_shards(os.path.join(directory, "checkpoint"), files, 2, settings)
        if vocab > 1000:
            add_vocabulary(os.path.join(directory, "checkpoint"))
        write_golden(directory, meaning, generator)


if __name__ == "__main__":
    main()
