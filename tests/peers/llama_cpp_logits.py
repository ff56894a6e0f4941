# SPDX-License-Identifier: GPL-3.0-or-later
"""The logits of llama.cpp itself beside moechat's, of the same GGUF and the same ids.

    python3 tests/peers/llama_cpp_logits.py [MOECHAT]      (numpy, gguf 0.19, llama-cpp-python; without: a sentence)

Files come from tests/bench/make_gguf.py, in shapes that llama.cpp takes. With quantised weights it rounds activations to
8 bits, which changes which experts are chosen now and then, so logits are not the same: compared are the mean
Kullback-Leibler divergence over the text and how often the likeliest token is the same one. Each bound is more than twice
what was measured (docs/lab.md), and below what one wrong setting does: each line tells what YaRN left out would do.
"""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
N_IDS, VOCAB = 256, 2048
SMALL_V3 = {
    "model_type": "deepseek_v3", "vocab_size": VOCAB, "hidden_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 8,
    "q_lora_rank": 512, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
    "intermediate_size": 2048, "moe_intermediate_size": 256, "n_routed_experts": 32, "n_shared_experts": 1,
    "num_experts_per_tok": 4, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1, "topk_method": "noaux_tc",
    "scoring_func": "sigmoid", "norm_topk_prob": True, "routed_scaling_factor": 2.5, "rms_norm_eps": 1e-6,
    "rope_theta": 10000, "max_position_embeddings": 4096,
    "rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 512, "mscale": 1.0,
                     "mscale_all_dim": 1.0, "beta_fast": 32, "beta_slow": 1}}
FEW_EXPERTS = SMALL_V3 | {"n_routed_experts": 8, "num_hidden_layers": 3}
# Shape, mix, most divergence, least agreement. Float32 is not rounded on the way, so there it is the same computation.
CASES = [(FEW_EXPERTS, "f32", 1e-6, 1.0), (SMALL_V3, "q8_0", 0.05, 0.85), (SMALL_V3, "q4_k_m", 0.05, 0.85),
         (SMALL_V3, "iq2", 0.05, 0.85)]


def of_llama_cpp(llama, path, ids):
    """[ids, vocabulary] in float64, with K and V in float32 and no repacked weights."""
    llama.llama_backend_init()
    how = llama.llama_model_default_params()
    how.n_gpu_layers = 0
    how.use_extra_bufts = False
    model = llama.llama_model_load_from_file(path.encode(), how)
    if not model:
        raise SystemExit(f"llama.cpp does not open {path}")
    how = llama.llama_context_default_params()
    how.n_ctx = how.n_batch = how.n_ubatch = len(ids)
    how.n_threads = how.n_threads_batch = os.cpu_count()
    how.type_k = how.type_v = 0  # F32
    how.flash_attn_type = llama.LLAMA_FLASH_ATTN_TYPE_DISABLED
    context = llama.llama_init_from_model(model, how)
    batch = llama.llama_batch_init(len(ids), 0, 1)
    batch.n_tokens = len(ids)
    for i, token in enumerate(ids):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = token, i, 1, 0, 1
    if llama.llama_decode(context, batch):
        raise SystemExit("llama.cpp does not compute it")
    rows = [np.ctypeslib.as_array(llama.llama_get_logits_ith(context, i), (VOCAB,)).astype(np.float64)
            for i in range(len(ids))]
    llama.llama_batch_free(batch)
    llama.llama_free(context)
    llama.llama_model_free(model)
    return np.stack(rows)


def of_moechat(program, path, ids, folder):
    tokens, logits = os.path.join(folder, "ids.txt"), os.path.join(folder, "logits.f32")
    with open(tokens, "w", encoding="ascii") as file:
        file.write(" ".join(map(str, ids)))
    subprocess.run([program, "eval", "-m", path, "--device", "ref", "--tokens", tokens, "--logits", logits], check=True,
                   stdout=subprocess.DEVNULL, env=os.environ | {"MOECHAT_CONFIG": "none"})
    return np.fromfile(logits, "<f4").astype(np.float64).reshape(len(ids), -1)


def log_softmax(rows):
    rows = rows - rows.max(-1, keepdims=True)
    return rows - np.log(np.exp(rows).sum(-1, keepdims=True))


def compare(ours, theirs):
    a, b = log_softmax(ours), log_softmax(theirs)
    return (np.exp(a) * (a - b)).sum(-1).mean(), (ours.argmax(-1) == theirs.argmax(-1)).mean()


def make(folder, name, config, mix):
    path, model = os.path.join(folder, name + ".json"), os.path.join(folder, name + ".gguf")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    subprocess.run([sys.executable, os.path.join(ROOT, "tests", "bench", "make_gguf.py"), path, model, "--mix", mix],
                   check=True, stdout=subprocess.DEVNULL)
    return model


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "moechat")
    try:
        import gguf  # noqa: F401
        import llama_cpp as llama
    except ImportError as error:
        print(f"SKIP llama.cpp: {error.name} is not installed here (pip install llama-cpp-python gguf)")
        return 0
    ids = np.random.default_rng(3).integers(0, VOCAB, N_IDS).tolist()
    good = True
    with tempfile.TemporaryDirectory() as folder:
        for shape, mix, most, least in CASES:
            model = make(folder, mix, shape, mix)
            theirs = of_llama_cpp(llama, model, ids)
            divergence, same = compare(of_moechat(program, model, ids, folder), theirs)
            other = make(folder, mix + "-plain", shape | {"rope_scaling": None}, mix)  # the same weights
            wrong, _ = compare(of_moechat(program, other, ids, folder), theirs)
            fine = divergence <= most and same >= least and wrong > 2 * most
            good &= fine
            print(f"    mean divergence {divergence:.2g}, {100 * same:.1f} % have the same likeliest token; "
                  f"without YaRN it would be {wrong:.3f}")
            print(f"{'PASS' if fine else 'FAIL'} llama.cpp {llama.__version__} {mix}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
