// SPDX-License-Identifier: GPL-3.0-or-later
// CPU: the delta scan. A group takes a head, SCAN_TOKENS tokens at a time: keys, queries and decays are prepared for all
// columns of its state, which then go through these tokens VECTOR columns at a time.
#if SHAPE_CPU

struct prepared {
    float keys[SCAN_TOKENS][MOST_KEY_DIM];
    float queries[SCAN_TOKENS][MOST_KEY_DIM];
    float decays[SCAN_TOKENS][MOST_KEY_DIM];
    float betas[SCAN_TOKENS];
};

static void delta_normed(const struct args_delta *a, __global const float *x, float factor, float *y)
{
    float16 lanes = 0;
    uint whole = a->key_dim / 16;
    for (uint i = 0; i < whole; i++) {
        float16 v = vload16(i, x);
        lanes = fma(v, v, lanes);
    }
    float sum = sum16(lanes);
    for (uint i = 16 * whole; i < a->key_dim; i++)
        sum = fma(x[i], x[i], sum);
    float scale = factor / sqrt(sum + a->norm_eps);
    for (uint i = 0; i < a->key_dim; i++)
        y[i] = x[i] * scale;
}

struct scan_inputs {
    __global const uchar *rates;
    __global const uchar *dt_biases;
    __global const float *x;
    __global const float *gates;
};

static void prepare(const struct args_delta *a, const struct scan_inputs *in, uint head, uint row, struct prepared *p,
                    uint t)
{
    uint key_head = key_head_of(a, head);
    __global const float *x = in->x + (ulong)row * a->in_stride;
    __global const float *gate = in->gates + (ulong)row * a->gate_stride;
    __global const float *dt_bias = (__global const float *)(in->dt_biases + a->dt_bias);
    float rate = rate_of(a, in->rates, head);
    delta_normed(a, x + a->q_offset + key_head * a->key_dim, 1.0f / sqrt((float)a->key_dim), p->queries[t]);
    delta_normed(a, x + a->k_offset + key_head * a->key_dim, 1.0f, p->keys[t]);
    p->betas[t] = sigmoid(gate[a->beta_offset + head]);
    gate += a->decay_offset;
    if (a->decay == DECAY_HEAD) {
        float decay = decay_of(a, rate, gate[head] + dt_bias[head]);
        for (uint i = 0; i < a->key_dim; i++)
            p->decays[t][i] = decay;
        return;
    }
    uint first = head * a->key_dim;
    for (uint i = 0; i < a->key_dim; i++)
        p->decays[t][i] = decay_of(a, rate, gate[first + i] + dt_bias[first + i]);
}

// n columns of a row; the others are zero.
static float16 take_columns(__global const float *from, uint n)
{
    if (n == VECTOR)
        return vload16(0, from);
    float columns[VECTOR] = {0};
    for (uint j = 0; j < n; j++)
        columns[j] = from[j];
    return vload16(0, columns);
}

static void put_columns(float16 value, __global float *to, uint n)
{
    if (n == VECTOR) {
        vstore16(value, 0, to);
        return;
    }
    float columns[VECTOR];
    vstore16(value, 0, columns);
    for (uint j = 0; j < n; j++)
        to[j] = columns[j];
}

__kernel GROUP_SIZE(1, 1) void delta(const struct args_delta a, const struct tiling tiling, __global const uchar *rates,
                                     __global const uchar *dt_biases, __global const float *x,
                                     __global const float *gates, __global const float *from, __global float *to,
                                     __global float *out)
{
    struct prepared p;
    struct scan_inputs in = {rates, dt_biases, x, gates};
    uint head = get_group_id(0);
    for (uint first = 0; first < a.n_rows; first += SCAN_TOKENS) {
        uint n_tokens = min(a.n_rows - first, (uint)SCAN_TOKENS);
        for (uint t = 0; t < n_tokens; t++)
            prepare(&a, &in, head, first + t, &p, t);
        ulong state = (ulong)head * a.key_dim * a.value_dim;
        __global const float *before = first ? to + a.to + state : from + a.from + state;
        __global float *after = to + a.to + state;
        for (uint column = 0; column < a.value_dim; column += VECTOR) {
            uint n = min(a.value_dim - column, (uint)VECTOR);
            float16 s[MOST_KEY_DIM];
            for (uint i = 0; i < a.key_dim; i++)
                s[i] = take_columns(before + (ulong)i * a.value_dim + column, n);
            for (uint t = 0; t < n_tokens; t++) {
                ulong row = first + t;
                float16 v = take_columns(x + row * a.in_stride + a.v_offset + head * a.value_dim + column, n);
                float16 known = 0;
                for (uint i = 0; i < a.key_dim; i++) {
                    s[i] *= p.decays[t][i];
                    known = fma((float16)(p.keys[t][i]), s[i], known);
                }
                float16 d = p.betas[t] * (v - known);
                float16 sum = 0;
                for (uint i = 0; i < a.key_dim; i++) {
                    s[i] = fma((float16)(p.keys[t][i]), d, s[i]);
                    sum = fma((float16)(p.queries[t][i]), s[i], sum);
                }
                put_columns(sum, out + row * a.out_stride + a.out_offset + head * a.value_dim + column, n);
            }
            for (uint i = 0; i < a.key_dim; i++)
                put_columns(s[i], after + (ulong)i * a.value_dim + column, n);
        }
    }
}

#endif
