# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of tokenizer/composed.c. Run once by hand, with unicodedata2 18.0 and tokenizers 0.23:
    python make_composed.py >../../tokenizer/composed_tables.h && clang-format -i ../../tokenizer/composed_tables.h
Unicode's canonical decompositions and combining classes, as far as the tokenizers library has them.
"""
import unicodedata2 as unicode
from tokenizers.normalizers import NFC, NFD

LAST = 0x110000
nfc, nfd = NFC().normalize_str, NFD().normalize_str


def codes():
    return (c for c in range(LAST) if not 0xD800 <= c < 0xE000 and not 0xAC00 <= c < 0xD7A4)


def combining(code):
    """The class, 0 where the library does not reorder the character."""
    order = unicode.combining(chr(code))
    lower, higher = ("\u0334", 1), ("\u0345", 240)
    known = order and (order == 1 or nfd("b" + chr(code) + lower[0])[1] == lower[0]) and \
        (order >= 240 or nfd("b" + higher[0] + chr(code))[-1] == higher[0])
    return order if known else 0


def main():
    rows = []
    for code in codes():
        parts = unicode.decomposition(chr(code))
        if not parts or parts.startswith("<") or nfd(chr(code)) == chr(code):
            continue
        first, second = ([int(p, 16) for p in parts.split()] + [0])[:2]
        composes = second and nfc(chr(first) + chr(second)) == chr(code)
        rows.append((code, first, second, composes))
    print("// SPDX-License-Identifier: GPL-3.0-or-later\n// Made by tests/unit/make_composed.py.\n#include <stdint.h>\n")
    print("// Character, first, second (0: none), by the character.\nstatic const uint32_t parts[][3] = {")
    print(",".join("{0x%X,0x%X,0x%X}" % row[:3] for row in rows) + "};\n")
    print("// Places in that table of what is composed again, by first and second.\nstatic const uint16_t pairs[] = {")
    print(",".join(str(i) for _, _, i in sorted((r[1], r[2], i) for i, r in enumerate(rows) if r[3])) + "};\n")
    ranges = []
    for code in codes():
        order = combining(code)
        if order and ranges and ranges[-1][1:] == [code - 1, order]:
            ranges[-1][1] = code
        elif order:
            ranges.append([code, code, order])
    print("// First, last, combining class.\nstatic const uint32_t classes[][3] = {")
    print(",".join("{0x%X,0x%X,%d}" % tuple(r) for r in ranges) + "};")


if __name__ == "__main__":
    main()
