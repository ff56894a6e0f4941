# SPDX-License-Identifier: GPL-3.0-or-later
"""Train the demo model: transformers' own class, bf16 compute, float32 master weights.

The schedule follows the clock: --minutes of steps, whatever the machine makes of them. The last part of them
(TAIL) sees the weights as the package will hold them.
"""

import argparse
import json
import os
import time
import types

import numpy as np
import torch
import torch.nn.functional as F
from transformers import DeepseekV3ForCausalLM
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

import model as demo
import package
import quant
from data import Batch, Probe, Stream
from muon import Muon
from tokenizer import Tokenizer

WARMUP, DECAY, TAIL = 0.02, 0.5, 0.8  # shares of the time: end of warm-up, start of decay, start of fake quantisation
MUON_RATE, ADAM_RATE, WEIGHT_DECAY = 4e-3, 2e-3, 0.05
BALANCE_RATES = ((0.3, 3e-3), (0.6, 1e-3), (0.95, 3e-4), (1.0, 0.0))  # until this share of the time
ATTENTION = "demo_documents"


class Documents:
    """Where the documents of the batch under way lie; attention stays inside them."""

    def __init__(self):
        self.pieces = []
        self.mask = None

    def set(self, batch, device):
        if device == "cpu":
            tokens = len(batch.weights)
            which = torch.searchsorted(torch.from_numpy(batch.bounds[1:]), torch.arange(tokens), right=True)
            self.mask = (which[:, None] == which) & torch.ones(tokens, tokens, dtype=torch.bool).tril()
            return
        self.pieces = []
        for first, last, longest in batch.plan:
            start, end = int(batch.bounds[first]), int(batch.bounds[last])
            bounds = torch.from_numpy(batch.bounds[first:last + 1] - start).to(device, non_blocking=True)
            self.pieces.append((start, end, bounds, longest))


DOCUMENTS = Documents()


@torch.library.custom_op("demo::attention", mutates_args=())
def flash(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
    """[tokens, heads, dim] with flash attention, bucket by bucket of document lengths."""
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[1], q.shape[0], dtype=torch.float32, device=q.device)
    for start, end, bounds, longest in DOCUMENTS.pieces:
        part, part_lse, *_ = torch.ops.aten._flash_attention_forward(
            q[start:end], k[start:end], v[start:end], bounds, bounds, longest, longest, 0.0, True,
            return_debug_mask=False, scale=scale)
        out[start:end] = part
        lse[:, start:end] = part_lse
    return out, lse


@flash.register_fake
def _(q, k, v, scale):
    return torch.empty(q.shape, dtype=q.dtype, device=q.device), q.new_empty(q.shape[1], q.shape[0], dtype=torch.float32)


@torch.library.custom_op("demo::attention_backward", mutates_args=())
def flash_backward(grad: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor,
                   lse: torch.Tensor, scale: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    grads = [torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v)]
    state = torch.zeros(2, dtype=torch.uint64, device=q.device)
    unused = torch.empty(0, device=q.device)
    for start, end, bounds, longest in DOCUMENTS.pieces:
        parts = torch.ops.aten._flash_attention_backward(
            grad[start:end], q[start:end], k[start:end], v[start:end], out[start:end], lse[:, start:end].contiguous(),
            bounds, bounds, longest, longest, 0.0, True, state, unused, scale=scale)
        for whole, part in zip(grads, parts):
            whole[start:end] = part
    return tuple(grads)


@flash_backward.register_fake
def _(grad, q, k, v, out, lse, scale):
    return tuple(torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))


def _save(ctx, inputs, output):
    q, k, v, ctx.scale = inputs
    ctx.save_for_backward(q, k, v, *output)


def _backward(ctx, grad, _):
    return *flash_backward(grad.contiguous(), *ctx.saved_tensors, ctx.scale), None


flash.register_autograd(_backward, setup_context=_save)


def attention(module, query, key, value, mask, scaling, dropout=0.0, **_):
    """transformers' attention interface over documents: [1, heads, tokens, dim] to [1, tokens, heads, dim]."""
    if query.device.type == "cpu":
        out = F.scaled_dot_product_attention(query.to(value.dtype), key.to(value.dtype), value, DOCUMENTS.mask,
                                             scale=scaling)
        return out.transpose(1, 2), None
    width, dim = value.shape[-1], query.shape[-1]
    q, k = (x[0].transpose(0, 1).to(torch.bfloat16).contiguous() for x in (query, key))
    v = F.pad(value[0].transpose(0, 1).to(torch.bfloat16), (0, dim - width)).contiguous()
    out, _ = flash(q, k, v, scaling)
    return out[None, :, :, :width], None


def check_attention():
    """Raise unless the documents' attention gives what a masked one gives, gradients too."""
    lengths, dim, width = [100, 3, 300, 1500], 96, 64
    ids = [(np.zeros(n, np.uint16), np.zeros(n, np.float16)) for n in lengths]
    batch = Batch(ids, sum(lengths))
    DOCUMENTS.set(batch, "cpu")
    DOCUMENTS.set(batch, "cuda")
    q, k, v = (torch.randn(1, 6, sum(lengths), n, device="cuda", dtype=torch.bfloat16, requires_grad=True)
               for n in (dim, dim, width))
    found, _ = attention(None, q, k, v, None, 0.1)
    wanted = F.scaled_dot_product_attention(q.float(), k.float(), v.float(), DOCUMENTS.mask.cuda(), scale=0.1)
    wanted = wanted.transpose(1, 2)
    grad = torch.randn_like(wanted)
    for name, a, b in zip("oqkv", (found, *torch.autograd.grad(found, (q, k, v), grad.bfloat16())),
                          (wanted, *torch.autograd.grad(wanted, (q, k, v), grad))):
        error = (a.float() - b.float()).norm() / b.float().norm()
        if not error < 0.02:
            raise AssertionError(f"attention over documents: {name} is off by {error:.4f}")
    DOCUMENTS.mask = None


def no_mask(*_, **__):
    return None


ALL_ATTENTION_FUNCTIONS.register(ATTENTION, attention)
ALL_MASK_ATTENTION_FUNCTIONS.register(ATTENTION, no_mask)


def counted(gate, hidden):
    """The router in float32 whatever autocast says, with a count of what each expert was given."""
    with torch.autocast(hidden.device.type, enabled=False):
        logits, weights, chosen = type(gate).forward(gate, hidden)
    experts = torch.arange(gate.num_experts, device=chosen.device)
    gate.load += (chosen.flatten()[:, None] == experts).sum(0)
    return logits, weights, chosen


class Trainee(torch.nn.Module):
    """The model with its loss."""

    def __init__(self, model):
        super().__init__()
        self.lm = model
        self.gates = [layer.mlp.gate for layer in model.model.layers if hasattr(layer.mlp, "gate")]
        for gate in self.gates:
            gate.register_buffer("load", torch.zeros(gate.num_experts, dtype=torch.int64, device=gate.weight.device),
                                 persistent=False)
            gate.forward = types.MethodType(counted, gate)

    def forward(self, words, weights, at=None):
        """The losses, or the likeliest next ids after the tokens at `at`."""
        ids, positions, targets = words.long()
        hidden = self.lm.model(input_ids=ids[None], position_ids=positions[None], use_cache=False).last_hidden_state
        if at is not None:
            return F.linear(hidden[0, at], self.lm.lm_head.weight).argmax(-1)
        return self.judge(hidden[0], self.lm.lm_head.weight, targets, weights)

    @staticmethod
    def judge(hidden, head, targets, weights):
        """(weighted loss, mean loss of the answers' tokens)."""
        losses = F.cross_entropy(F.linear(hidden, head).float(), targets, reduction="none")
        answer = (weights == 1).float()
        return (losses * weights).sum() / weights.sum(), ((losses * answer).sum() / answer.sum()).detach()

    def compile_parts(self):
        """Compile a layer of each kind, once for all of them, and the head with its loss."""
        layers = self.lm.model.layers
        forward = torch.compile(type(layers[0]).forward, dynamic=False)
        for layer in layers:
            layer.forward = types.MethodType(forward, layer)
        self.judge = torch.compile(self.judge, dynamic=False)

    @torch.no_grad()
    def balance(self, rate):
        """Aux-loss-free balancing: lift the experts that got too little, lower the others. Returns the worst share."""
        loads = torch.stack([gate.load for gate in self.gates]).float()
        mean = loads.mean(dim=1, keepdim=True)
        for gate, step in zip(self.gates, rate * torch.sign(mean - loads)):
            gate.e_score_correction_bias += step
            gate.load.zero_()
        return (loads / mean).max()

    def plain(self):
        """Undo what training put on the model."""
        for gate in self.gates:
            del gate.forward, gate.load
        for layer in self.lm.model.layers:
            layer.__dict__.pop("forward", None)
        return self.lm


class Weights:
    """What the forward pass sees of the master weights: bf16 matrices; embedding, norms and routers in float32.

    Matrices of one kind are laid out as one row of quantisation groups, so that a few kernels serve all.
    """

    def __init__(self, params, straight_through):
        self.params, self.straight_through = params, straight_through
        self.kinds = {}
        for name, p in params.items():
            if p.dim() > 1:
                wide = "embed_tokens" in name or package.is_router(name)
                self.kinds.setdefault((package.bits_of(name, demo.BITS, demo.bits_for), wide), []).append(name)

    def __call__(self, quantised):
        out = {"lm." + name: p for name, p in self.params.items() if p.dim() == 1}
        for (bits, wide), names in self.kinds.items():
            groups = [self.params[name].reshape(-1, demo.GROUP_SIZE) for name in names]
            flat = torch.cat(groups)
            if quantised:
                flat = self.straight_through(flat, bits)
            parts = (flat if wide else flat.bfloat16()).split([len(g) for g in groups])
            out |= {"lm." + name: part.view_as(self.params[name]) for name, part in zip(names, parts)}
        return out


def optimisers(model):
    """Muon for the hidden matrices, Adam for embedding, head, norms and routers."""
    inner = model.config.moe_intermediate_size
    matrices, others = [], []
    for name, p in model.named_parameters():
        if p.dim() < 2 or any(part in name for part in ("embed_tokens", "lm_head", ".mlp.gate.")):
            others.append(p)
        else:
            matrices.append((p, inner if name.endswith("gate_up_proj") else p.shape[-2], p.shape[-1]))
    return [Muon(matrices, lr=MUON_RATE, weight_decay=WEIGHT_DECAY),
            torch.optim.AdamW(others, lr=ADAM_RATE, betas=(0.9, 0.98), weight_decay=0.0,
                              fused=others[0].is_cuda)]


def rate(progress):
    if progress < WARMUP:
        return progress / WARMUP
    return 1.0 if progress < DECAY else max(0.02, (1 - progress) / (1 - DECAY))


def to_device(batch, device):
    return tuple(torch.from_numpy(a).to(device, non_blocking=True) for a in (batch.words, batch.weights))


def train(options):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(options.seed)
    torch.set_float32_matmul_precision("high")
    if device == "cuda":
        check_attention()
    tokenizer = Tokenizer(options.tokenizer)
    stream = Stream(options.tokenizer, options.seed, options.tokens, options.workers)
    model = DeepseekV3ForCausalLM(demo.config(tokenizer, demo.MICRO if options.micro else None)).to(device)
    model.config._attn_implementation = ATTENTION
    model.config._experts_implementation = "grouped_mm"
    trainee = Trainee(model)
    params = dict(model.named_parameters())
    parts = optimisers(model)

    weights = Weights(params, torch.compile(quant.straight_through, dynamic=False) if options.compile else
                      quant.straight_through)
    if options.compile:
        trainee.compile_parts()

    def step(progress):
        batch = stream.take()
        DOCUMENTS.set(batch, device)
        with torch.autocast(device, torch.bfloat16):
            loss, answer = torch.func.functional_call(trainee, weights(progress >= TAIL), to_device(batch, device))
        loss.backward()
        for part, base in zip(parts, (MUON_RATE, ADAM_RATE)):
            for group in part.param_groups:
                group["lr"] = base * rate(progress)
            part.step()
            part.zero_grad()
        return answer, trainee.balance(next(r for until, r in BALANCE_RATES if progress <= until))

    probe = Probe(options.tokenizer, options.tokens)

    def probed():
        """What the probe says of the weights as they are; with gradients, which the compiled layers expect."""
        DOCUMENTS.set(probe.batch, device)
        at = torch.from_numpy(probe.at).to(device)
        with torch.autocast(device, torch.bfloat16):
            likeliest = torch.func.functional_call(trainee, weights(False), (*to_device(probe.batch, device), at))
        for gate in trainee.gates:
            gate.load.zero_()
        return {kind: round(100 * share, 1) for kind, share in probe.judge(likeliest.cpu().numpy()).items()}

    began = time.time()
    for progress in (1.0, 1.0, 0.0, 0.0):  # compiles both forms; the rate is next to nothing
        step(progress)[0].item()
    compiled = time.time() - began
    print(f"compiled in {compiled:.0f} s; parameters {demo.count(model)}", flush=True)

    if options.profile:
        with torch.profiler.profile() as profile:
            for _ in range(5):
                step(0.0)
            torch.cuda.synchronize()
        print(profile.key_averages().table(sort_by="self_cuda_time_total", row_limit=40, max_name_column_width=60))

    start, steps, history, sums = time.time(), 0, [], []
    span = 60 * options.minutes - (compiled if options.all_in else 0)
    while (progress := (time.time() - start) / span) < 1:
        sums.append(torch.stack(step(progress)))
        steps += 1
        if steps % options.every == 0:
            answer, worst = torch.stack(sums).mean(0).tolist()
            sums = []
            speed = steps * options.tokens / (time.time() - start)
            right = probed()
            history.append((steps, round(progress, 4), round(answer, 4), *right.values()))
            print(f"step {steps} {100 * progress:.1f} % answer loss {answer:.4f} worst load {worst:.2f} "
                  f"{speed / 1000:.0f} k tokens/s; right of unseen recall, in %: {right}", flush=True)
    stream.stop()
    record = dict(steps=steps, tokens=steps * options.tokens, tokens_per_step=options.tokens, seconds=time.time() - start,
                  compile_seconds=compiled, device=torch.cuda.get_device_name() if
                  device == "cuda" else "cpu", history=history, parameters=demo.count(model), seed=options.seed,
                  memory=torch.cuda.max_memory_allocated() if device == "cuda" else 0,
                  correction={str(i): [round(float(x), 4) for x in (g.e_score_correction_bias.min(),
                              g.e_score_correction_bias.max())] for i, g in enumerate(trainee.gates)})
    model = trainee.plain()
    torch.save(model.state_dict(), os.path.join(options.out, "float.pt"))
    demo.write(model, os.path.join(options.out, "package"), options.tokenizer)
    with open(os.path.join(options.out, "train.json"), "w", encoding="utf-8") as file:
        json.dump(record, file)
        file.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--all-in", action="store_true", help="the minutes include compiling")
    parser.add_argument("--tokens", type=int, default=65536, help="tokens of a step")
    parser.add_argument("--workers", type=int, default=max(1, min(12, (os.cpu_count() or 2) - 2)))
    parser.add_argument("--every", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--micro", action="store_true", help="a microscopic shape, to try the chain")
    parser.add_argument("--profile", action="store_true", help="print where the time of five steps goes")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    train(options)


if __name__ == "__main__":
    main()
