# SPDX-License-Identifier: GPL-3.0-or-later
"""Small tokenizers with the patterns and flags of the real ones, and the ids that the libraries give. Run once by hand:
    python make_small_bpe.py data     (tokenizers 0.23, tiktoken 0.14)
Writes bpe-v2.json, bpe-v3.json, bpe-glm.json, bpe-qwen.json, kimi/, nasty.bin (length, text) and a .ids file for each: FNV-1a of each
text's ids, little endian. Sources of patterns: deepseek-ai/DeepSeek-V2-Lite and DeepSeek-V3's tokenizer.json,
zai-org/GLM-4's and Qwen/Qwen3-30B-A3B's tokenizer.json, moonshotai/Kimi-K2's tokenization_kimi.py.
"""
import base64
import json
import os
import struct
import sys

import tiktoken
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from compare_tokenizers import is_plain, without_marks
from nasty_texts import PARTS, texts

SPLIT = pre_tokenizers.Split
V2_LETTERS = "\\s?[" + "".join("-".join(chr(int(c, 16)) for c in r.split("-")) for r in (
    "41-5A 61-7A B5 C0-D6 D8-F6 F8-1BA 1BC-1BF 1C4-293 295-2AF 370-373 376 377 37B-37D 37F 386 388-38A "
    "38C 38E-3A1 3A3-3F5 3F7-481 48A-52F 531-556 10A0-10C5 13A0-13F5 13F8-13FD 1C90-1CBA 1CBD-1CBF "
    "1D00-1D2B 1D6B-1D77 1D79-1D9A 1E00-1F15 1F18-1F1D 1F20-1F45 1F48-1F4D 1F50-1F57 1F59 1F5B 1F5D "
    "1F5F-1F7D 1F80-1FB4 1FB6-1FBC 1FBE 1FC2-1FC4 1FC6-1FCC 1FD0-1FD3 1FD6-1FDB 1FE0-1FEC 1FF2-1FF4 "
    "1FF6-1FFC 2102 2107 210A-2113 2115 2119-211D 2124 2126 2128 212A-212D 212F-2134 2139 213C-213F "
    "2145-2149 214E 2183 2184 2C00-2C7B 2C7E-2CE4 2CEB-2CEE 2CF2 2CF3 A640-A66D A680-A69B A722-A76F "
    "A771-A787 A78B-A78E AB70-ABBF FB00-FB06 FB13-FB17 FF21-FF3A FF41-FF5A 10400-1044F 104B0-104D3 "
    "104D8-104FB 10C80-10CB2 10CC0-10CF2 118A0-118DF 1E900-1E943 ").split()) + "]+"
V2 = [SPLIT(Regex("[\r\n]"), "isolated"), SPLIT(Regex(V2_LETTERS), "isolated"),
      SPLIT(Regex("\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"), "isolated"), SPLIT(Regex("\\s+$"), "isolated"),
      SPLIT(Regex("[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"), "isolated"), pre_tokenizers.Digits(individual_digits=True)]
V3 = [SPLIT(Regex("\\p{N}{1,3}"), "isolated"), SPLIT(Regex("[一-龥\u3040-\u309f\u30a0-\u30ff]+"), "isolated"),
      SPLIT(Regex("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
                  " ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"), "isolated")]
GLM = [SPLIT(Regex("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
                   "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"), "isolated")]
QWEN = [SPLIT(Regex("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
                    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"), "isolated")]
KIMI = "|".join([
    r"[\p{Han}]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])


def special(text):
    return AddedToken(text, special=True, normalized=False)


def mark(text, **flags):
    return AddedToken(text, special=False, normalized=False, **flags)


def plain(text, **flags):
    return AddedToken(text, special=False, **{"normalized": True, **flags})


V2_TOKENS = [special("<｜begin▁of▁sentence｜>"), special("<｜end▁of▁sentence｜>"), special("<｜▁pad▁｜>")] + \
            [plain(c) for c in "øöúÿõ÷ûýÀùÁþü"] + [plain("öö", lstrip=True), plain("üü", rstrip=True, normalized=False)]
V3_TOKENS = [special("<｜begin▁of▁sentence｜>"), special("<｜end▁of▁sentence｜>"), special("<｜▁pad▁｜>"),
             mark("<｜User｜>"), mark("<｜Assistant｜>"), mark("<|EOT|>"), mark("<think>"), mark("</think>"),
             special("<|im_start|>"), special("<|im_end|>")]
GLM_TOKENS = [special(t) for t in ("<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>",
                                   "<|observation|>")] + [mark("<think>"), mark("</think>"), mark("/nothink")]
QWEN_TOKENS = [special(t) for t in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")] + [mark("<think>"), mark("</think>"),
                                                                                       mark("<tool_call>")]
KIMI_CONTROLS = {0: "[BOS]", 1: "[EOS]", 2: "<|im_end|>", 3: "<|im_user|>", 4: "<|im_assistant|>", 9: "[EOT]",
                 10: "<|im_system|>", 17: "<|im_middle|>", 22: "<think>", 23: "</think>", 255: "[PAD]"}


def corpus():
    parts = [p for group in PARTS.values() for p in group]
    with open("/usr/share/common-licenses/GPL-3", encoding="utf-8") as file:
        licence = file.read()
    return licence.split("\n\n") + [g.join(parts[i:] + parts[:i]) for i in range(0, len(parts), 3) for g in ("", " ", "\n")]


def train(steps, size, alphabet, normalizer=None):
    made = Tokenizer(models.BPE())
    if normalizer:
        made.normalizer = normalizer
    made.pre_tokenizer = pre_tokenizers.Sequence(steps + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=size, show_progress=False, special_tokens=[],
                             initial_alphabet=alphabet))
    return made


def fnv(ids):
    value = 0x811c9dc5
    for byte in b"".join(struct.pack("<I", i) for i in ids):
        value = (value ^ byte) * 0x01000193 & 0xffffffff
    return value


def write_ids(path, reference, strings):
    with open(path, "wb") as file:
        file.write(b"".join(struct.pack("<I", fnv(reference(s))) for s in strings))


def write_json(folder, name, steps, tokens, strings, old_merges=False, normalizer=None, **model):
    added = {t.content for t in tokens}  # DeepSeek-V2's vocabulary has no bytes that UTF-8 has not
    made = train(steps, 1500, [c for c in pre_tokenizers.ByteLevel.alphabet() if c not in added], normalizer)
    made.add_tokens(tokens)
    content = json.loads(made.to_str())
    content["model"].update(model)
    if model.get("ignore_merges"):  # words that merges alone don't make
        content["model"]["merges"] = [m for i, m in enumerate(content["model"]["merges"]) if i % 7]
    if old_merges:
        content["model"]["merges"] = [" ".join(m) for m in content["model"]["merges"]]
    path = os.path.join(folder, name + ".json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(content, file, ensure_ascii=False, separators=(",", ":"))
        file.write("\n")
    library = without_marks(path)
    write_ids(os.path.join(folder, name + ".ids"), lambda s: library.encode(s, add_special_tokens=False).ids, strings)


def write_kimi(folder, strings):
    steps = [SPLIT(Regex(KIMI), "isolated")]
    made = train(steps, 1500, pre_tokenizers.ByteLevel.alphabet())
    alphabet = {}
    rest = iter(range(256, 512))
    for byte in range(256):
        printable = 0x21 <= byte <= 0x7e or 0xa1 <= byte <= 0xac or byte >= 0xae
        alphabet[chr(byte if printable else next(rest))] = byte
    pieces = sorted(made.get_vocab().items(), key=lambda item: item[1])
    ranks = {bytes(alphabet[c] for c in piece): rank for rank, (piece, _) in enumerate(pieces)}
    ranks[b"jqxz"] = len(ranks)  # a piece that no two others make
    os.makedirs(os.path.join(folder, "kimi"), exist_ok=True)
    with open(os.path.join(folder, "kimi", "tiktoken.model"), "wb") as file:
        for piece, rank in ranks.items():
            file.write(base64.b64encode(piece) + b" %d\n" % rank)
    with open(os.path.join(folder, "kimi", "tokenizer_config.json"), "w", encoding="utf-8") as file:
        json.dump({"added_tokens_decoder": {str(len(ranks) + i): {
            "content": t, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False,
            "special": "think" not in t} for i, t in KIMI_CONTROLS.items()}}, file, indent=1)
        file.write("\n")
    library = tiktoken.Encoding("kimi", pat_str=KIMI, mergeable_ranks=ranks, special_tokens={})
    write_ids(os.path.join(folder, "kimi.ids"), lambda s: library.encode(s, disallowed_special=()), strings)


def main(folder):
    strings = texts(5200)
    with open(os.path.join(folder, "nasty.bin"), "wb") as file:
        for text in strings:
            file.write(struct.pack("<H", len(text.encode())) + text.encode())
    write_json(folder, "bpe-v2", V2, V2_TOKENS, strings, old_merges=True)
    write_json(folder, "bpe-v3", V3, V3_TOKENS, strings)
    write_json(folder, "bpe-glm", GLM, GLM_TOKENS, strings, ignore_merges=True)
    write_json(folder, "bpe-qwen", QWEN, QWEN_TOKENS, strings, normalizer=normalizers.NFC())
    write_kimi(folder, strings)


if __name__ == "__main__":
    main(sys.argv[1])
