# SPDX-License-Identifier: GPL-3.0-or-later
"""Conversations as transformers renders them with the models' own templates. Run once by hand, with transformers 5.17:
    python make_templates.py data encoding_dsv32.py     writes data/templates.json
The second is the encoder that deepseek-ai/DeepSeek-V3.2 ships in the place of a Jinja; sglang and vLLM have it, too.
Sources of data/templates/*.jinja: chat_template of deepseek-ai/DeepSeek-V2-Lite-Chat, DeepSeek-V3, DeepSeek-R1,
DeepSeek-V3.1, moonshotai/Kimi-K2-Instruct, Kimi-K2-Thinking, Moonlight-16B-A3B-Instruct, zai-org/GLM-4.7; ChatML's
usual form. kimi-k2-0905 and kimi-k2.5 are kimi-k2-thinking with the lines that moonshotai/Kimi-K2-Instruct-0905 and
Kimi-K2.5 have in the place of its own. cogito-v2 is written after ollama's Cogito renderer: the file that deepcogito ships was not at hand.
qwen3.5 is Qwen/Qwen3.6-35B-A3B's without its lines for tools, qwen3-thinking the one of Qwen3's models of July and of
Qwen3-Next-80B-A3B-Thinking, glm-5.3 zai-org/GLM-5.3's and GLM-5.3-Flash's, glm-5.2 GLM-5.2's as ik_llama.cpp has it,
qwen3-coder Qwen/Qwen3-Coder-Next's, without theirs. kimi-linear has the first half of moonshotai/Kimi-Linear-48B-A3B-Instruct's
and, where nothing more was at hand, Kimi-K2-Instruct's, whose lines the first half are but for the system prompt. kimi-k3 is
llama.cpp's without what it has for tools and pictures: test_template's strings are its renderings, see render_k3.
"""
import base64
import importlib.util
import json
import os
import sys

import tiktoken
import tokenizers
from transformers import PreTrainedTokenizerFast
from transformers.utils.chat_template_utils import render_jinja_template

from make_small_bpe import KIMI, KIMI_CONTROLS

TOKENIZERS = {"deepseek-v2": "bpe-v2.json", "deepseek-v3": "bpe-v3.json", "deepseek-r1": "bpe-v3.json",
              "deepseek-v3.1": "bpe-v3.json", "cogito-v2": "bpe-v3.json", "kimi-k2": "kimi/tiktoken.model",
              "kimi-k2-thinking": "kimi/tiktoken.model", "kimi-k2-0905": "kimi/tiktoken.model",
              "kimi-k2.5": "kimi/tiktoken.model", "moonlight": "kimi/tiktoken.model", "glm-4.7": "bpe-glm.json",
              "deepseek-v3.2": "bpe-v3.json", "glm-5.3": "bpe-glm.json", "glm-5.3-kept": "bpe-glm.json",
              "glm-5.2": "bpe-glm.json", "kimi-linear": "kimi/tiktoken.model",
              "qwen3-coder": "bpe-qwen.json", "qwen3-thinking": "bpe-qwen.json", "chatml": "bpe-v3.json", "qwen3.5": "bpe-qwen.json", "qwen3.5-kept": "bpe-qwen.json"}
SWITCHED = {"deepseek-v3.1": "thinking", "deepseek-v3.2": "thinking", "kimi-k2.5": "thinking", "cogito-v2": "enable_thinking", "glm-4.7": "enable_thinking",
            "glm-5.2": "enable_thinking", "qwen3.5": "enable_thinking", "qwen3.5-kept": "enable_thinking"}
# The same template, told to keep the thinking of earlier answers or not.
TOLD = {"qwen3.5-kept": ("qwen3.5", {"preserve_thinking": True}), "glm-5.3": ("glm-5.3", {"clear_thinking": True}),
        "glm-5.3-kept": ("glm-5.3", {})}
ENCODED = "deepseek-v3.2"
AT_THE_FIRST = ("deepseek-v3.1", ENCODED)  # where they cut thinking off; what follows of its marks is text, for us not a symbol
LATER, SYMBOL = "\x01", "<symbol>"
SPOKEN = {"qwen3-coder": "chatml"}  # which of our templates it is, where that has another name
ALWAYS = {"deepseek-r1", "kimi-k2-thinking", "glm-5.3", "glm-5.3-kept", "qwen3-thinking"}
THOUGHT = "<think>\nHm, 12 and 30.\n</think>\n\nThe sum is 42."
TALKS = [
    [("user", "Hello!")],
    [("system", "You are terse."), ("user", "What is 12 + 30?")],
    [("user", "hi"), ("assistant", "Hello, how can I help?"), ("user", "  Tell me\nmore.  \n")],
    [("system", "Be kind.\n"), ("user", "你好，世界"), ("assistant", "你好！"), ("user", "12345 ünï"), ("assistant", "No."), ("user", "\n\nWhy?")],
    [("user", "sum?"), ("assistant", THOUGHT), ("user", "And the product?")],
    [("system", "s"), ("user", "a"), ("assistant", THOUGHT), ("user", "b"), ("assistant", "x</think>y</think>\nz\n\u2003"), ("user", "c")],
    [("user", ""), ("assistant", ""), ("user", "?")],
    [("user", "code:\n```c\nint a;\n```"), ("assistant", "\tint b;\n"), ("user", "'s it ok? I'll")],
]


def read_encoder(path):
    spec = importlib.util.spec_from_file_location("encoder", path)
    encoder = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(encoder)
    return encoder


def encode(encoder, talk, thinking):
    """As clients give it V3.2's answers, which it takes apart at the first mark itself (parse_message_from_completion_text)."""
    messages = []
    for role, content in talk:
        thought, mark, said = content.partition("</think>")
        apart = role == "assistant" and mark
        messages.append({"role": role, "content": said if apart else content} |
                        ({"reasoning_content": thought.removeprefix("<think>")} if apart else {}))
    return encoder.encode_messages(messages, "thinking" if thinking else "chat")


def set_later_apart(talk):
    return [(r, LATER.join(c.replace("</think>", "\0", 1).split("</think>")).replace("\0", "</think>") if r == "assistant" else c) for r, c in talk]


def with_other_symbol(path):
    """A tokenizer to which </think> is text."""
    with open(path, encoding="utf-8") as file:
        whole = json.load(file)
    for token in whole["added_tokens"]:
        token["content"] = SYMBOL if token["content"] == "</think>" else token["content"]
    whole["model"]["vocab"] = {SYMBOL if token == "</think>" else token: i for token, i in whole["model"]["vocab"].items()}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizers.Tokenizer.from_str(json.dumps(whole)))


def render_k3(folder, thinking):
    """What test_template's kimi_k3_speaks_in_sections wants, with its <, >, | and $ in the place of the symbols."""
    talk = [("system", "Be kind.", None), ("user", "Hi", None), ("assistant", "Hello there!", "A guest."), ("user", "And?", None),
            ("assistant", "No thought.", None), ("user", "Bye", None), ("assistant", "", "stopped her"), ("user", "Go on", None)]
    with open(os.path.join(folder, "templates", "kimi-k3.jinja"), encoding="utf-8") as file:
        text = render_jinja_template([[{"role": r, "content": c, "reasoning_content": t} for r, c, t in talk]],
                                     chat_template=file.read(), add_generation_prompt=True, thinking=thinking)[0][0]
    for symbol, mark in (("<|open|>", "\x01"), ("<|close|>", "\x02"), ("<|sep|>", "|"), ("<|end_of_msg|>", "$")):
        text = text.replace(symbol, mark)
    return text.replace("\x01", "<").replace("\x02", ">")


def main(folder, encoder_file):
    encoder = read_encoder(encoder_file)
    ranks = {base64.b64decode(line.split()[0]): int(line.split()[1])
             for line in open(os.path.join(folder, "kimi", "tiktoken.model"), "rb")}
    kimi = tiktoken.Encoding("kimi", pat_str=KIMI, mergeable_ranks=ranks,
                             special_tokens={t: len(ranks) + i for i, t in KIMI_CONTROLS.items()})
    cases = []
    for name, tokenizer in TOKENIZERS.items():
        template = None
        if name != ENCODED:
            with open(os.path.join(folder, "templates", TOLD.get(name, (name,))[0] + ".jinja"), encoding="utf-8") as file:
                template = file.read()
        path = os.path.join(folder, tokenizer if tokenizer.endswith(".json") else "bpe-v3.json")
        library = PreTrainedTokenizerFast(tokenizer_file=path, bos_token="<｜begin▁of▁sentence｜>",
                                          eos_token="<｜end▁of▁sentence｜>", clean_up_tokenization_spaces=False)
        for thinking in [False, True] if name in SWITCHED else [name in ALWAYS]:
            for talk in TALKS:
                thoughts = [c for r, c in talk if r == "assistant" and "</think>" in c]
                if thoughts and name in ("deepseek-v2", "kimi-k2", "kimi-k2-0905", "kimi-linear", "moonlight", "chatml", "qwen3-coder"):
                    continue  # they know of no thinking: for us its marks are text there
                if name == "deepseek-v2" and talk[1:2] == [("assistant", "")]:
                    continue  # "Assistant: " with nothing behind it: as said, the space is the model's
                shown = talk
                if name in ("kimi-k2-thinking", "kimi-k2.5"):  # it is given thinking apart, and leaves it out
                    shown = [(r, c.split("</think>")[-1] if r == "assistant" else c) for r, c in talk]
                if name in AT_THE_FIRST:
                    shown = set_later_apart(talk)
                text = encode(encoder, shown, thinking) if name == ENCODED else library.apply_chat_template([{"role": r, "content": c} for r, c in shown], chat_template=template,
                                                   tokenize=False, add_generation_prompt=True,
                                                   **({SWITCHED[name]: thinking} if name in SWITCHED else {}),
                                                   **TOLD.get(name, (name, {}))[1])
                ids = kimi.encode(text, allowed_special="all") if "kimi" in tokenizer else \
                    library(text, add_special_tokens=False)["input_ids"]
                if LATER in text:
                    text = text.replace("</think>", SYMBOL).replace(LATER, "</think>")
                    ids = with_other_symbol(path)(text, add_special_tokens=False)["input_ids"]
                cases.append({"template": SPOKEN.get(name, name), "file": tokenizer, "thinking": thinking, "turns": talk, "ids": ids})
    for thinking in (False, True):
        print(render_k3(folder, thinking))
    with open(os.path.join(folder, "templates.json"), "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(json.dumps(c, ensure_ascii=False, separators=(",", ":")) for c in cases) + "\n]\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
