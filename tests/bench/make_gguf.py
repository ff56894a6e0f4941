#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""A GGUF of random weights in the shape of a real model, which moechat and llama.cpp both open.

    python3 tests/bench/make_gguf.py CONFIG.json OUT.gguf [--mix MIX] [--layers N] [--vocab N] [--seed N]
                                                          (numpy, gguf 0.19)

CONFIG.json is one of tests/bench/configs (deepseek2's: DeepSeek, Kimi K2, Moonlight, GLM-4.7-Flash; qwen35moe's:
Qwen3.5 and 3.6). MIX says which types the matrices have, as people's files do:

    q4_k_m   llama-quantize's Q4_K_M: Q4_K, down in Q6_K in the first and last eighth of the layers and every third
             between; output Q6_K
    q2_k     experts Q2_K, down Q3_K; the rest Q4_K
    iq2      experts IQ2_XXS, down Q2_K; the rest Q8_0
    q4_0     experts Q4_0, as Kimi's own int4; the rest Q8_0
    q8_0     all Q8_0
    f32      all F32, which llama.cpp computes with float32 activations

Rows that are no 256s take what llama-quantize takes instead. Quanta are random and repeat themselves after some MiB,
scales make the weights as large as they should be; so a file is written about as fast as the disk takes it. There is no
vocabulary: ids go in and logits come out (moechat eval --tokens, llama-bench). --layers keeps the first N layers.
"""
import argparse
import json

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

FALLBACK = {"Q2_K": "Q4_0", "Q3_K": "Q4_0", "Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0"}
# Where a block's scale is, and its second one with what it must be, of the first, for weights around zero.
SCALES = {"Q2_K": (80, 82, 1.5), "Q3_K": (108, None, 0), "Q4_K": (0, 2, 7.5), "Q5_K": (0, 2, 15.5), "Q6_K": (208, None, 0)}
MIXES = {  # rest, gate and up, down, output
    "q4_k_m": ("Q4_K", "Q4_K", None, "Q6_K"), "q2_k": ("Q4_K", "Q2_K", "Q3_K", "Q6_K"),
    "iq2": ("Q8_0", "IQ2_XXS", "Q2_K", "Q8_0"), "q4_0": ("Q8_0", "Q4_0", "Q4_0", "Q8_0"),
    "q8_0": ("Q8_0", "Q8_0", "Q8_0", "Q8_0"), "f32": ("F32", "F32", "F32", "F32")}
POOL_BYTES = 16 << 20


class Constant(float):
    """In the place of a size: every weight is that."""


class Maker:
    """Tensors and keys of one architecture: a class below says which, by `layer` and `keys`."""
    architecture = None

    def __init__(self, args, config):
        self.c = config
        self.args, self.generator, self.pools = args, np.random.default_rng(args.seed), {}
        self.layers = args.layers or self.c["num_hidden_layers"]
        self.vocab = args.vocab or self.c["vocab_size"]
        self.out = (2 * self.layers) ** -0.5  # of what is added to the residual stream
        self.tensors = []  # name, shape, type, size of the weights

    def add(self, name, shape, kind, gain=1.0):
        if kind != "F32" and shape[-1] % gguf.GGML_QUANT_SIZES[Type[kind]][0]:
            kind = FALLBACK.get(kind, "IQ4_NL")
        self.tensors.append((name + ".weight", shape, kind, gain / shape[-1] ** 0.5))

    def ones(self, name, size):
        self.tensors.append((name + ".weight", (size,), "F32", Constant(1)))

    def more_bits(self, layer):
        """Where llama-quantize spends more on down."""
        eighth = self.layers // 8
        return layer < eighth or layer >= 7 * self.layers // 8 or (layer - eighth) % 3 == 2

    def experts(self, b, layer, count):
        hidden, m = self.c["hidden_size"], self.c["moe_intermediate_size"]
        _, experts, down, _ = MIXES[self.args.mix]
        self.add(b + "ffn_gate_inp", (count, hidden), "F32", 1.5)
        self.add(b + "ffn_gate_exps", (count, m, hidden), experts)
        self.add(b + "ffn_up_exps", (count, m, hidden), experts)
        self.add(b + "ffn_down_exps", (count, hidden, m), down or ("Q6_K" if self.more_bits(layer) else "Q4_K"), self.out)

    def dense(self, b, wide, tail=""):
        """What every token goes through: a dense layer, or with a tail of names a layer's shared expert."""
        hidden, rest = self.c["hidden_size"], MIXES[self.args.mix][0]
        self.add(b + f"ffn_gate{tail}", (wide, hidden), rest)
        self.add(b + f"ffn_up{tail}", (wide, hidden), rest)
        self.add(b + f"ffn_down{tail}", (hidden, wide), rest, self.out)

    def all_tensors(self):
        hidden = self.c["hidden_size"]
        rest, _, _, output = MIXES[self.args.mix]
        self.add("token_embd", (self.vocab, hidden), rest, hidden ** 0.5)
        for i in range(self.layers):
            self.layer(i)
        self.ones("output_norm", hidden)
        self.add("output", (self.vocab, hidden), output, 3.0)

    def keys(self, writer):
        c = self.c
        writer.add_name("random " + c["model_type"])
        writer.add_quantization_version(2)
        writer.add_block_count(self.layers)
        writer.add_context_length(c["max_position_embeddings"])
        writer.add_embedding_length(c["hidden_size"])
        writer.add_head_count(c["num_attention_heads"])
        writer.add_layer_norm_rms_eps(c["rms_norm_eps"])
        writer.add_rope_freq_base(c.get("rope_theta") or c["rope_parameters"]["rope_theta"])
        writer.add_expert_used_count(c["num_experts_per_tok"])
        writer.add_expert_feed_forward_length(c["moe_intermediate_size"])
        writer.add_vocab_size(self.vocab)
        writer.add_tokenizer_model("none")

    def set_scales(self, kind, blocks, size):
        first, second, ratio = SCALES.get(kind, (0, None, 0))
        for at, factor in ((first, 1), (second, ratio)):
            if at is not None:
                blocks[:, at:at + 2] = np.frombuffer(np.float16(size * factor).tobytes(), np.uint8)

    def pool(self, kind, size):
        """Random blocks whose weights are of the size."""
        if (kind, size) not in self.pools:
            width = gguf.GGML_QUANT_SIZES[Type[kind]][1]
            blocks = self.generator.integers(0, 256, (POOL_BYTES // width, width), dtype=np.uint8)
            sample = blocks[:4096].copy()
            self.set_scales(kind, sample, 1.0)
            self.set_scales(kind, blocks, size / gguf.quants.dequantize(sample, Type[kind]).std())
            self.pools[kind, size] = blocks
        return self.pools[kind, size]

    def data(self, shape, kind, size):
        if kind == "F32":
            return (np.full(shape, size) if isinstance(size, Constant) else
                    size * self.generator.standard_normal(shape)).astype(np.float32)
        inputs, width = gguf.GGML_QUANT_SIZES[Type[kind]]
        pool, count = self.pool(kind, size), int(np.prod(shape)) // inputs
        first = int(self.generator.integers(0, len(pool)))
        blocks = np.take(pool, np.arange(first, first + count), axis=0, mode="wrap")
        return blocks.reshape(shape[:-1] + (shape[-1] // inputs * width,))

    def write(self):
        writer = gguf.GGUFWriter(self.args.out, self.architecture)
        self.keys(writer)
        for name, shape, kind, _ in self.tensors:
            inputs, width = gguf.GGML_QUANT_SIZES[Type[kind]]
            stored = shape if kind == "F32" else shape[:-1] + (shape[-1] // inputs * width,)
            dtype = np.float32 if kind == "F32" else np.uint8
            writer.add_tensor_info(name, stored, np.dtype(dtype), int(np.prod(stored)) * np.dtype(dtype).itemsize,
                                   raw_dtype=Type[kind])
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for _, shape, kind, size in self.tensors:
            writer.write_tensor_data(self.data(shape, kind, size))
        writer.close()


class DeepSeek(Maker):
    """Latent attention, and dense layers before those with experts."""
    architecture = "deepseek2"

    def attention(self, b, rest):
        c = self.c
        heads, nope, rope, v = (c[k] for k in ("num_attention_heads", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
        hidden, kv, rank = c["hidden_size"], c["kv_lora_rank"], c.get("q_lora_rank")
        self.ones(b + "attn_norm", hidden)
        if rank:
            self.add(b + "attn_q_a", (rank, hidden), rest)
            self.ones(b + "attn_q_a_norm", rank)
            self.add(b + "attn_q_b", (heads * (nope + rope), rank), rest)
        else:
            self.add(b + "attn_q", (heads * (nope + rope), hidden), rest)
        self.add(b + "attn_kv_a_mqa", (kv + rope, hidden), rest)
        self.ones(b + "attn_kv_a_norm", kv)
        self.add(b + "attn_k_b", (heads, kv, nope), rest)
        self.add(b + "attn_v_b", (heads, v, kv), rest)
        self.add(b + "attn_output", (hidden, heads * v), rest, self.out)
        self.ones(b + "ffn_norm", hidden)

    def layer(self, i):
        c, b = self.c, f"blk.{i}."
        self.attention(b, MIXES[self.args.mix][0])
        if i < c["first_k_dense_replace"]:
            self.dense(b, c["intermediate_size"])
            return
        self.experts(b, i, c["n_routed_experts"])
        if c["model_type"] != "deepseek_v2":
            self.tensors.append((b + "exp_probs_b.bias", (c["n_routed_experts"],), "F32", Constant(0)))
        self.dense(b, c["moe_intermediate_size"] * c["n_shared_experts"], "_shexp")

    def keys(self, writer):
        super().keys(writer)
        c = self.c
        both = c["qk_nope_head_dim"] + c["qk_rope_head_dim"]
        writer.add_feed_forward_length(c["intermediate_size"])
        writer.add_head_count_kv(1)
        if c.get("q_lora_rank") or self.layers != c["num_hidden_layers"]:  # without it llama.cpp looks for it, but for V2-Lite's 27 layers
            writer.add_q_lora_rank(c.get("q_lora_rank") or 0)
        writer.add_kv_lora_rank(c["kv_lora_rank"])
        writer.add_key_length(c["kv_lora_rank"] + c["qk_rope_head_dim"])
        writer.add_value_length(c["kv_lora_rank"])
        writer.add_key_length_mla(both)
        writer.add_value_length_mla(c["v_head_dim"])
        writer.add_rope_dimension_count(c["qk_rope_head_dim"])
        writer.add_leading_dense_block_count(min(c["first_k_dense_replace"], self.layers))
        writer.add_expert_count(c["n_routed_experts"])
        writer.add_expert_shared_count(c["n_shared_experts"])
        writer.add_expert_weights_scale(c.get("routed_scaling_factor", 1.0))
        writer.add_expert_weights_norm(bool(c.get("norm_topk_prob")))
        sigmoid = c["model_type"] != "deepseek_v2"
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID if sigmoid else gguf.ExpertGatingFuncType.SOFTMAX)
        writer.add_expert_group_count(c.get("n_group") or 1)
        writer.add_expert_group_used_count(c.get("topk_group") or 1)
        yarn = c.get("rope_scaling")
        if yarn and yarn.get("type") == "yarn":
            writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
            writer.add_rope_scaling_factor(yarn["factor"])
            writer.add_rope_scaling_orig_ctx_len(yarn["original_max_position_embeddings"])
            writer.add_rope_scaling_yarn_log_mul(0.1 * yarn.get("mscale_all_dim", 0))
            writer.add_rope_scaling_yarn_beta_fast(yarn.get("beta_fast", 32.0))
            writer.add_rope_scaling_yarn_beta_slow(yarn.get("beta_slow", 1.0))


class Qwen(Maker):
    """Gated delta nets, but for one layer of several, which has gated attention."""
    architecture = "qwen35moe"

    def attention(self, b, rest):
        c = self.c
        hidden, heads, keys, size = (c[k] for k in ("hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim"))
        self.add(b + "attn_q", (2 * heads * size, hidden), rest)
        self.add(b + "attn_k", (keys * size, hidden), rest)
        self.add(b + "attn_v", (keys * size, hidden), rest)
        self.ones(b + "attn_q_norm", size)
        self.ones(b + "attn_k_norm", size)
        self.add(b + "attn_output", (hidden, heads * size), rest, self.out)

    def delta(self, b, rest):
        c = self.c
        hidden, heads = c["hidden_size"], c["linear_num_value_heads"]
        values = heads * c["linear_value_head_dim"]
        mixed = values + 2 * c["linear_num_key_heads"] * c["linear_key_head_dim"]
        self.add(b + "attn_qkv", (mixed, hidden), rest)
        self.add(b + "attn_gate", (values, hidden), rest)
        self.add(b + "ssm_beta", (heads, hidden), rest)
        self.add(b + "ssm_alpha", (heads, hidden), rest)
        self.add(b + "ssm_conv1d", (mixed, c["linear_conv_kernel_dim"]), "F32")
        self.tensors.append((b + "ssm_a", (heads,), "F32", Constant(-0.05)))
        self.tensors.append((b + "ssm_dt.bias", (heads,), "F32", Constant(1)))
        self.ones(b + "ssm_norm", c["linear_value_head_dim"])
        self.add(b + "ssm_out", (hidden, values), rest, self.out)

    def layer(self, i):
        c, b, rest = self.c, f"blk.{i}.", MIXES[self.args.mix][0]
        self.ones(b + "attn_norm", c["hidden_size"])
        (self.attention if c["layer_types"][i] == "full_attention" else self.delta)(b, rest)
        self.ones(b + "post_attention_norm", c["hidden_size"])
        self.experts(b, i, c["num_experts"])
        self.dense(b, c["shared_expert_intermediate_size"], "_shexp")
        self.tensors.append((b + "ffn_gate_inp_shexp.weight", (c["hidden_size"],), "F32", c["hidden_size"] ** -0.5))

    def keys(self, writer):
        super().keys(writer)
        c = self.c
        rope = c["rope_parameters"]
        writer.add_head_count_kv(c["num_key_value_heads"])
        writer.add_key_length(c["head_dim"])
        writer.add_value_length(c["head_dim"])
        writer.add_rope_dimension_count(int(c["head_dim"] * rope["partial_rotary_factor"]))
        writer.add_rope_dimension_sections(rope["mrope_section"] + [0])
        writer.add_expert_count(c["num_experts"])
        writer.add_expert_shared_feed_forward_length(c["shared_expert_intermediate_size"])
        writer.add_full_attention_interval(c["full_attention_interval"])
        writer.add_ssm_conv_kernel(c["linear_conv_kernel_dim"])
        writer.add_ssm_state_size(c["linear_key_head_dim"])
        writer.add_ssm_group_count(c["linear_num_key_heads"])
        writer.add_ssm_time_step_rank(c["linear_num_value_heads"])
        writer.add_ssm_inner_size(c["linear_num_value_heads"] * c["linear_value_head_dim"])


MAKERS = {"qwen3_5_moe": Qwen, "qwen3_5_moe_text": Qwen}  # the others are DeepSeek's


def main():
    parser = argparse.ArgumentParser(description="A GGUF of random weights in the shape of a real model.")
    parser.add_argument("config")
    parser.add_argument("out")
    parser.add_argument("--mix", choices=MIXES, default="q4_k_m")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--vocab", type=int)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    config = json.load(open(args.config, encoding="utf-8"))
    config = config.get("config", config)
    config = config.get("text_config", config)
    maker = MAKERS.get(config["model_type"], DeepSeek)(args, config)
    maker.all_tensors()
    maker.write()
    print(f"{maker.args.out}: {len(maker.tensors)} tensors, {maker.layers} layers, {maker.args.mix}")


if __name__ == "__main__":
    main()
