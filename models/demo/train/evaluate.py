# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge the packed model, in transformers on the values that its files hold: greedy answers to unseen questions,
by kind, and the mean NLL of packed and float weights on the same tokens. Writes a report, the failures, some chats.
"""

import argparse
import json
import os
import random
import time

import torch
import torch.nn.functional as F
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

import model as demo
import package
import text
from data import plain_text
from tokenizer import Tokenizer

TARGETS = {"recall": 0.95, "sums": 0.95, "facts": 0.95, "help": 0.9}
EXPERTS = "demo_every_expert"
CHUNK = 16384
EVAL_TOKENS = 4000
CHATS = (
    ("Hello!", "Who are you?", "My name is Mirabel and I live in Ghent.", "What is 17 + 25?", "Where do I live?",
     "And what is my name?", "Thanks, bye!"),
    ("hi", "tell me a story about a fox named Pim", "how do i save this conversation?", "what is the capital of japan",
     "What did I ask you to tell me a story about?"),
    ("I put the blue umbrella in the cellar.", "What is the opposite of early?", "Count the letters in garden.",
     "Where is my umbrella?", "Order 41, 7 and 23."),
    ("What can you do?", "Explain quantum chromodynamics.", "Who will win the next election?", "write a rhyme about snow"),
)


def every_expert(experts, hidden, chosen, weights):
    """All experts on all tokens, then the chosen ones: no loop, for small batches of float32."""
    out = []
    for h, c, w in zip(hidden.split(CHUNK), chosen.split(CHUNK), weights.split(CHUNK)):
        gate, up = torch.einsum("nh,eih->eni", h, experts.gate_up_proj).chunk(2, dim=-1)
        every = torch.einsum("eni,ehi->enh", experts.act_fn(gate) * up, experts.down_proj)
        full = torch.zeros(len(h), experts.num_experts, dtype=w.dtype, device=h.device).scatter_(1, c, w)
        out.append(torch.einsum("enh,ne->nh", every, full))
    return torch.cat(out)


ALL_EXPERTS_FUNCTIONS.register(EXPERTS, every_expert)


@torch.inference_mode()
def answers(model, tokenizer, prompts, batch, limit):
    """Greedy answers to lists of ids, each up to <|end|> or `limit` tokens."""
    device = model.lm_head.weight.device
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    out = [None] * len(prompts)
    for start in range(0, len(order), batch):
        some = order[start:start + batch]
        width = max(len(prompts[i]) for i in some)
        ids = torch.full((len(some), width), tokenizer.end, dtype=torch.long)
        mask = torch.zeros((len(some), width), dtype=torch.long)
        for row, i in enumerate(some):
            ids[row, width - len(prompts[i]):] = torch.tensor(prompts[i])
            mask[row, width - len(prompts[i]):] = 1
        made = model.generate(ids.to(device), attention_mask=mask.to(device), do_sample=False, max_new_tokens=limit,
                              eos_token_id=tokenizer.end, pad_token_id=tokenizer.end)[:, width:].tolist()
        for row, i in zip(made, some):
            row = row[:row.index(tokenizer.end)] if tokenizer.end in row else row
            out[i] = tokenizer.decode(row)
    return out


@torch.inference_mode()
def losses(model, ids):
    """NLL of ids[1:], each given all before it."""
    device = model.lm_head.weight.device
    ids = torch.tensor(ids, device=device)
    logits = model(ids[None], use_cache=False).logits[0, :-1].float()
    return F.cross_entropy(logits, ids[1:], reduction="none").cpu()


def eval_text(tokenizer):
    """A long unseen conversation as bare text, at most EVAL_TOKENS tokens with <s>."""
    messages = text.long_conversation(random.Random("eval text"), "eval", EVAL_TOKENS)
    while len(tokenizer.encode(plain_text(messages))) >= EVAL_TOKENS:
        messages.pop()
    return plain_text(messages)


def nll_table(models, tokenizer, conversations):
    """Rows (what, tokens, mean NLL of each model)."""
    rng = random.Random("nll")
    documents = [tokenizer.turns(text.conversation(rng, "eval")) for _ in range(conversations)]
    rows = [("conversations, all tokens", None, [0, 1, 2]), ("conversations, answers", None, [2])]
    plain = [tokenizer.bos, *tokenizer.encode(eval_text(tokenizer))]
    sums = {name: [[0.0, 0] for _ in range(3)] for name in models}
    for name, model in models.items():
        for ids, kinds in documents:
            each, kinds = losses(model, ids), torch.tensor(kinds[1:])
            for total, (_, _, wanted) in zip(sums[name], rows):
                keep = torch.isin(kinds, torch.tensor(wanted))
                total[0] += each[keep].sum().item()
                total[1] += int(keep.sum())
        each = losses(model, plain)
        sums[name][2] = [each.sum().item(), len(each)]
    whats = [row[0] for row in rows] + ["eval.txt"]
    return [(what, sums["packed"][i][1], *(sums[name][i][0] / sums[name][i][1] for name in models))
            for i, what in enumerate(whats)]


def chats(model, tokenizer, batch, limit):
    out = []
    for script in CHATS:
        messages = []
        for said in script:
            messages.append(("user", said))
            messages.append(("assistant", answers(model, tokenizer, [tokenizer.turns(messages)[0]], batch, limit)[0]))
        out.append("\n".join(f"{'> ' if role == 'user' else ''}{body}" for role, body in messages))
    return "\n\n---\n\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--package", required=True)
    parser.add_argument("--float", help="state_dict of the float original")
    parser.add_argument("--out", required=True, help="folder for evaluation.json, failures.txt, chats.txt, eval.txt")
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--share", type=float, default=1.0, help="scale the number of questions")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--limit", type=int, default=320, help="tokens of an answer")
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer = Tokenizer(os.path.join(options.package, "tokenizer.model"))
    tensors, settings = package.read_package(options.package)
    models = {"packed": demo.load(tensors, settings, device, _experts_implementation=EXPERTS)}
    began = time.time()
    items = text.evaluation(options.seed, options.share)
    given = answers(models["packed"], tokenizer, [tokenizer.turns(item["turns"])[0] for item in items], options.batch,
                    options.limit)
    table, failures = {}, []
    for item, answer in zip(items, given):
        right = bool(text.accepted(item, answer))
        counts = table.setdefault(item["kind"], [0, 0])
        counts[0] += right
        counts[1] += 1
        if not right:
            said = "\n".join(f"  {role}: {body}" for role, body in item["turns"])
            failures.append(f"[{item['kind']}]\n{said}\n  GAVE: {answer}\n  WANT: {item['answer']}\n"
                            f"  accept {item['accept']} reject {item['reject']}\n")
    print(f"{len(items)} questions answered in {time.time() - began:.0f} s")
    if options.float:
        original = DeepseekV3ForCausalLM(DeepseekV3Config(**settings)).float()
        original.load_state_dict(torch.load(options.float, map_location="cpu"))
        original.config._experts_implementation = EXPERTS
        models["float"] = original.to(device).eval()
    nll = nll_table(models, tokenizer, max(4, round(400 * options.share)))
    for kind, (right, asked) in table.items():
        target = f" (target {100 * TARGETS[kind]:.0f} %)" if kind in TARGETS else ""
        print(f"{kind:12} {right:4}/{asked:<4} {100 * right / asked:5.1f} %{target}")
    for what, tokens, *values in nll:
        print(f"NLL {what}: {tokens} tokens, " + ", ".join(f"{n} {v:.4f}" for n, v in zip(models, values)))
    with open(os.path.join(options.out, "evaluation.json"), "w", encoding="utf-8") as file:
        json.dump({"seed": options.seed, "table": table, "models": list(models), "nll": nll}, file, indent=1)
        file.write("\n")
    for name, content in (("failures.txt", "\n".join(failures)), ("eval.txt", eval_text(tokenizer)),
                          ("chats.txt", chats(models["packed"], tokenizer, options.batch, options.limit))):
        with open(os.path.join(options.out, name), "w", encoding="utf-8") as file:
            file.write(content)


if __name__ == "__main__":
    main()
