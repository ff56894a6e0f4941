// SPDX-License-Identifier: GPL-3.0-or-later
// Common ground of the delta scan's shapes: gates, and how a GPU's group shares a head.
#if !SHAPE_CPU
#define SCAN_SLICES (SCAN_ITEMS / SCAN_COLUMNS)
#define SCAN_ROWS (MOST_KEY_DIM / SCAN_SLICES)
#define SCAN_FOURS (SCAN_ROWS / 4)
#define SCAN_TEAM (SCAN_ITEMS / SCAN_TOKENS)    // work-items that prepare a token
#define SCAN_EACH (MOST_KEY_DIM / SCAN_TEAM)    // channels of each
#define KEY_FOURS (MOST_KEY_DIM / 4)
#endif

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
