// SPDX-License-Identifier: GPL-3.0-or-later
// What ops of the program of all ops share on the CPU; prelude.cl is also part of each kind's program.
#if SHAPE_CPU

static float sum_of_squares(__global const float *x, uint dim)
{
    float16 lanes = 0;
    uint whole = dim / 16;
    for (uint i = 0; i < whole; i++) {
        float16 v = vload16(i, x);
        lanes = fma(v, v, lanes);
    }
    float sum = sum16(lanes);
    for (uint i = 16 * whole; i < dim; i++)
        sum = fma(x[i], x[i], sum);
    return sum;
}

#endif
