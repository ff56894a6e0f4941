# SPDX-License-Identifier: GPL-3.0-or-later
"""GGUF files of true widths, too large to be kept, with transformers' own numbers for them.

    python3 tests/golden/make_true_widths.py FOLDER [NAME...]       (gguf 0.19, transformers 5.17.0; 1.6 GB of disk, 6 of memory)
    build/tests/golden/golden FOLDER/gguf-NAME --device cpu --chunk 1 --chunk 7 --chunk 0

writes FOLDER/gguf-NAME for every NAME below: the widths, heads and ranks of tests/bench/configs in llama-quantize's mixes, but
few layers, 8 experts and a vocabulary of 4096. See make_gguf.py for the blocks. The weights are never all there as float32:
transformers' model is empty, and a layer's weights are read from the file when it is that layer's turn.
"""

import json
import os
import shutil
import sys

import gguf
import numpy as np
import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import make_checkpoints as ck  # noqa: E402
import make_gguf as small  # noqa: E402
import package  # noqa: E402

CONFIGS = os.path.join(HERE, "..", "bench", "configs")
PROMPTS = (9, 72)
LEAST_MARGIN = 2e-5  # of routers; the two programs' scores differ by a tenth of it
FEW = dict(vocab_size=4096, n_routed_experts=8, bos_token_id=0, eos_token_id=1, num_nextn_predict_layers=0)
NOT_FIELDS = ("model_type", "architectures", "dtype", "pad_token_id", "head_dim", "qk_head_dim")


def shape_of(name, **others):
    """A spec as make_gguf's are, of a configuration of tests/bench."""
    with open(os.path.join(CONFIGS, name + ".json"), encoding="utf-8") as file:
        config = json.load(file)
    kind = config["model_type"]
    config = {key: value for key, value in config.items() if key not in NOT_FIELDS} | FEW | others
    config.setdefault("rope_theta", config.get("rope_parameters", {}).get("rope_theta"))
    return dict(model_type=kind, group=32, bias=(0.0, 0.2), how=set(), config=config)


# Down has more bits in some layers; 1408 is 5.5 times 256, so Moonlight's experts' down is Q8_0 and Q5_1.
MODELS = {
    "moonlight-true": shape_of("moonlight", num_hidden_layers=4) | dict(seed=61, types=small.types(
        "Q5_K", attn_v_b="Q6_K", output="Q6_K", **{f"blk.{at}": "Q6_K" for at in (
            "0.ffn_down", "1.ffn_down_exps", "1.ffn_down_shexp", "3.ffn_down_exps", "3.ffn_down_shexp")})),
    "flash-true": shape_of("glm-4.7-flash", num_hidden_layers=3) | dict(seed=62, types=small.types(
        "Q4_K", attn_v_b="Q6_K", output="Q6_K", **{f"blk.{at}": "Q6_K" for at in (
            "0.ffn_down", "2.ffn_down_exps", "2.ffn_down_shexp")})),
    "v3-true": shape_of("deepseek-v3", num_hidden_layers=2, first_k_dense_replace=1, num_experts_per_tok=3, n_group=4,
                        topk_group=2) | dict(seed=63, types=small.MODELS["v3-q2k"]["types"]),
    "glm-5-true": shape_of("glm-5", num_hidden_layers=2, first_k_dense_replace=1, num_experts_per_tok=3) | dict(
        seed=64, types=small.types("Q4_K", ffn_down_exps="Q6_K", ffn_down_shexp="Q6_K", attn_v_b="Q6_K", output="Q6_K",
                                   proj="F32")),
}


class Writer(small.Maker):
    """Keeps what goes into the file, and no numbers."""

    def add(self, name, shape, size):
        super().add(name, shape, size)
        return np.broadcast_to(np.float32(0), shape)


class Reader(small.Maker):
    """The same tensors' meaning, from the file."""

    def __init__(self, spec, path):
        super().__init__(spec)
        self.stored = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}

    def add(self, name, shape, size):
        tensor = self.stored[name]
        return gguf.quants.dequantize(tensor.data, tensor.tensor_type).reshape(shape)

    def add_vector(self, name, numbers, ours):
        self.meaning[ours] = np.array(self.stored[name].data)

    def layer_state(self, layer):
        self.layer(layer, f"model.layers.{layer}.")
        state = package.fuse_experts(self.meaning)
        self.meaning = {}
        prefix = f"model.layers.{layer}."
        return {name.removeprefix(prefix): torch.from_numpy(np.require(t, requirements="CW")) for name, t in state.items()}


def forget(layer):
    """All but the router, which is looked at afterwards."""
    empty = {name: t.to("meta") for name, t in layer.state_dict().items() if not name.startswith("mlp.gate.")}
    layer.load_state_dict(empty, strict=False, assign=True)


def streamed_model(spec, reader):
    config = ck.make_config(spec)
    with torch.device("meta"):
        model = ck.CLASSES[ck.transformers_type(spec["model_type"])][1](config).eval()
    model.model.rotary_emb = type(model.model.rotary_emb)(config)
    hidden, vocabulary = config.hidden_size, config.vocab_size
    reader.add_norm("output_norm.weight", hidden, "norm")
    for module, weight in ((model.model.norm, reader.meaning.pop("norm")),
                           (model.model.embed_tokens, reader.add("token_embd.weight", (vocabulary, hidden), 1)),
                           (model.lm_head, reader.add("output.weight", (vocabulary, hidden), 1))):
        module.load_state_dict({"weight": torch.from_numpy(weight)}, assign=True)
    for i, layer in enumerate(model.model.layers):
        layer.register_forward_pre_hook(
            lambda module, inputs, i=i: module.load_state_dict(reader.layer_state(i), assign=True) and None)
        layer.register_forward_hook(lambda module, inputs, output: forget(module))
    return model


def make(folder, name, spec):
    directory = os.path.join(folder, f"gguf-{name}")
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    writer = Writer(spec)
    writer.everything()
    small.write_files(os.path.join(directory, "checkpoint"), name, spec, writer.tensors)
    prompts = [writer.generator.integers(0, spec["config"]["vocab_size"], length).tolist() for length in PROMPTS]
    del writer
    model = streamed_model(spec, Reader(spec, os.path.join(directory, "checkpoint", f"{name}.gguf")))
    logits, least = [], float("inf")
    for ids in prompts:
        row, routed, attention = ck.run(model, ids)
        logits.append(row)
        least = min(least, ck.margin(routed))
    entropy = -(attention * attention.clamp_min(1e-30).log()).sum(-1)[:, :, 8:]
    spread = (entropy / torch.arange(9, len(ids) + 1).log()).mean().item()
    logits = torch.cat(logits)
    print(f"gguf-{name}: routing margin {least:.1e}, attention entropy {spread:.2f} of uniform, "
          f"largest logit {logits.abs().max():.1f}", flush=True)
    assert least > LEAST_MARGIN and spread < ck.MOST_SPREAD
    ck.write_numbers(spec, directory, model, prompts, list(range(len(logits))), logits)


def main():
    transformers.logging.set_verbosity_error()
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    for name in sys.argv[2:] or MODELS:
        make(sys.argv[1], name, MODELS[name])


if __name__ == "__main__":
    main()
