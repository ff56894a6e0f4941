// SPDX-License-Identifier: GPL-3.0-or-later
// Affine quantisation of rows as MLX documents it (mx.quantize): the same numbers, bit for bit, for the same input.
// For each group: scale = max(max - min, bins * 1e-7) / bins, negative unless |min| > |max|; edge = whichever of both
// is larger in size; when edge / scale rounds to q0 != 0, scale = edge / q0 and bias = edge, else bias = 0; q =
// round((x - bias) / scale), kept within 0 .. bins. Scale and bias become bf16 after that.
#ifndef MOECHAT_ENGINE_FILES_QUANTISE_H
#define MOECHAT_ENGINE_FILES_QUANTISE_H

#include <stdbool.h>
#include <stdint.h>

struct quantisation {
    uint32_t bits;       // 4 or 8
    uint32_t group_size; // 32, 64 or 128; divides a row
};

// Where a row goes; NULL: that part is not wanted.
struct quantised_row {
    uint32_t *words;  // n * bits / 32
    uint16_t *scales; // n / group_size
    uint16_t *biases;
};

// False: the row has numbers that are not finite, or too large for bf16.
bool quantise_row(const float *x, uint32_t n, struct quantisation how, const struct quantised_row *out);
void dequantise_row(const struct quantised_row *row, uint32_t n, struct quantisation how, float *out);

#endif
