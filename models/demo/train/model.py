# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo's shape: transformers' DeepseekV3ForCausalLM, unmodified, with every feature of the big ones."""

import json

import numpy as np
import torch
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

import package

NAME = "moechat-demo"
TEMPLATE = "moechat-demo"
BITS, GROUP_SIZE = 4, 64
BYTES_LIMIT = 24_000_000

SHAPE = dict(
    hidden_size=384, intermediate_size=768, moe_intermediate_size=128, num_hidden_layers=7,
    num_attention_heads=6, num_key_value_heads=6, q_lora_rank=128, kv_lora_rank=128,
    qk_nope_head_dim=64, qk_rope_head_dim=32, v_head_dim=64,
    n_routed_experts=32, num_experts_per_tok=4, n_shared_experts=1, n_group=4, topk_group=2,
    first_k_dense_replace=1, norm_topk_prob=True, routed_scaling_factor=2.0)
MICRO = SHAPE | dict(hidden_size=128, intermediate_size=128, moe_intermediate_size=64, num_hidden_layers=3,
                     num_attention_heads=2, num_key_value_heads=2, n_routed_experts=8)


def bits_for(_):
    """Bits of a matrix by name; the router is 8-bit whatever this says."""
    return BITS


def config(tokenizer, shape=None):
    return DeepseekV3Config(
        **(shape or SHAPE), vocab_size=len(tokenizer), bos_token_id=tokenizer.bos, eos_token_id=tokenizer.end,
        max_position_embeddings=4096, rope_interleave=True, tie_word_embeddings=False, num_nextn_predict_layers=0,
        rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=1024,
                             beta_fast=32.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0))


def tensors_of(model):
    """float32 numpy tensors under checkpoint names."""
    state = {name: t.detach().float().cpu().numpy() for name, t in model.state_dict().items()}
    return package.split_experts(state)


def load(tensors, config_dict, device="cpu", **options):
    """A float32 transformers model of dequantised tensors, every one of them used and none missing."""
    model = DeepseekV3ForCausalLM(DeepseekV3Config(**config_dict)).float()
    for name, value in options.items():
        setattr(model.config, name, value)
    state = {name: torch.from_numpy(np.ascontiguousarray(t)) for name, t in package.fuse_experts(tensors).items()}
    model.load_state_dict(state, strict=True)
    return model.to(device).eval()


def write(model, directory, tokenizer_path):
    """Pack a trained model; returns the manifest."""
    model.config.architectures = ["DeepseekV3ForCausalLM"]
    settings = json.loads(model.config.to_json_string())  # what save_pretrained writes to config.json
    return package.write_package(directory, NAME, settings, tensors_of(model), BITS, GROUP_SIZE, tokenizer_path,
                                 TEMPLATE, bits_for)


def count(model):
    """(all parameters, parameters that one token uses)."""
    settings = model.config
    total = sum(p.numel() for p in model.parameters())
    experts = sum(p.numel() for name, p in model.named_parameters() if ".experts." in name and "shared" not in name)
    idle = experts * (1 - settings.num_experts_per_tok / settings.n_routed_experts)
    return total, int(total - idle - model.model.embed_tokens.weight.numel())
