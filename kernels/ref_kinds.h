// SPDX-License-Identifier: GPL-3.0-or-later
// Every kind's weights in plain C, block by block, straight from the layouts: the oracle of the kernels, and the device
// "ref". Private to the room.
#ifndef MOECHAT_REF_KINDS_H
#define MOECHAT_REF_KINDS_H

#include "kernels/kinds.h"

// The numbers of a scale_type.
float ref_scale(uint32_t scale_type, const void *scales, uint64_t index);
// Dequantises row `row` of m, whose buffer begins at `matrix`, into out[0..in_dim). Callers have checked the ranges.
void ref_matrix_row(const struct args_matrix *m, const void *matrix, uint32_t row, float *out);

#endif
