// SPDX-License-Identifier: GPL-3.0-or-later
// Common ground of the delta scan's two shapes: gates.

static float softplus(float x)
{
    return x > 20.0f ? x : log1p(exp_near(x));
}

// What a state is multiplied with; f is the decay's input with its bias.
static float decay_of(const struct args_delta *a, float rate, float f)
{
    if (a->decay == DECAY_CHANNEL_BOUNDED)
        return exp_near(a->bound * sigmoid(rate * f));
    return exp_near(-rate * softplus(f));
}

static float rate_of(const struct args_delta *a, __global const uchar *rates, uint head)
{
    float rate = ((__global const float *)(rates + a->rate))[head];
    return a->rate_given ? -rate : exp_near(rate);
}

static uint key_head_of(const struct args_delta *a, uint head)
{
    return a->tiled_heads ? head % a->n_key_heads : head / (a->n_value_heads / a->n_key_heads);
}
