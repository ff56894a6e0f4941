// SPDX-License-Identifier: GPL-3.0-or-later
// CPU: the delta scan. A group takes a head, SCAN_TOKENS tokens at a time: keys, queries and decays are prepared for all
// columns of its state, which then go through these tokens VECTOR columns at a time.
#if SHAPE_CPU

#define SCAN_SUMS 4 // sums of a column beside each other
#define SCAN_WIDE 8 // vectors of columns that are at hand

// Tokens of a head; channels behind key_dim, up to `rows`, are zero.
struct prepared {
    uint rows; // key_dim, rounded up to SCAN_SUMS
    float keys[SCAN_TOKENS][MOST_KEY_DIM];
    float queries[SCAN_TOKENS][MOST_KEY_DIM];
    float decays[SCAN_TOKENS][MOST_KEY_DIM];
    float betas[SCAN_TOKENS];
};

static void delta_normed(const struct args_delta *a, __global const float *x, float factor, float *y)
{
    float scale = factor / sqrt(sum_of_squares(x, a->key_dim) + a->norm_eps);
    for (uint i = 0; i < a->key_dim; i++)
        y[i] = x[i] * scale;
    for (uint i = a->key_dim; i % SCAN_SUMS; i++)
        y[i] = 0;
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
    p->rows = (a->key_dim + SCAN_SUMS - 1) / SCAN_SUMS * SCAN_SUMS;
    for (uint i = a->key_dim; i < p->rows; i++)
        p->decays[t][i] = 0;
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

// A token through VECTOR columns of a state: s has padded_keys rows. Every SCAN_SUMS-th row is summed together.
static float16 scan_token(const struct prepared *p, uint t, float16 v, float16 *s)
{
    float16 known[SCAN_SUMS] = {0};
    float16 sums[SCAN_SUMS] = {0};
    for (uint i = 0; i < p->rows; i += SCAN_SUMS) {
        UNROLL
        for (uint j = 0; j < SCAN_SUMS; j++) {
            s[i + j] *= p->decays[t][i + j];
            known[j] = fma((float16)(p->keys[t][i + j]), s[i + j], known[j]);
        }
    }
    float16 d = p->betas[t] * (v - ((known[0] + known[2]) + (known[1] + known[3])));
    for (uint i = 0; i < p->rows; i += SCAN_SUMS) {
        UNROLL
        for (uint j = 0; j < SCAN_SUMS; j++) {
            s[i + j] = fma((float16)(p->keys[t][i + j]), d, s[i + j]);
            sums[j] = fma((float16)(p->queries[t][i + j]), s[i + j], sums[j]);
        }
    }
    return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

// The state's rows lie far apart in a column: they are read and written whole, as many vectors of them as SCAN_WIDE.
__kernel GROUP_SIZE(1, 1) void delta(const struct args_delta a, const struct tiling tiling, __global const uchar *rates,
                                     __global const uchar *dt_biases, __global const float *x,
                                     __global const float *gates, __global const float *from, __global float *to,
                                     __global float *out)
{
    struct prepared p;
    float16 s[SCAN_WIDE][MOST_KEY_DIM];
    struct scan_inputs in = {rates, dt_biases, x, gates};
    uint head = get_group_id(0);
    ulong state = (ulong)head * a.key_dim * a.value_dim;
    for (uint first = 0; first < a.n_rows; first += SCAN_TOKENS) {
        uint n_tokens = min(a.n_rows - first, (uint)SCAN_TOKENS);
        for (uint t = 0; t < n_tokens; t++)
            prepare(&a, &in, head, first + t, &p, t);
        __global const float *before = first ? to + a.to + state : from + a.from + state;
        __global float *after = to + a.to + state;
        for (uint begin = 0; begin < a.value_dim; begin += SCAN_WIDE * VECTOR) {
            uint end = min(begin + SCAN_WIDE * VECTOR, a.value_dim);
            for (uint i = 0; i < p.rows; i++)
                for (uint c = begin; c < end; c += VECTOR)
                    s[(c - begin) / VECTOR][i] =
                        i < a.key_dim ? take_columns(before + (ulong)i * a.value_dim + c, min(end - c, (uint)VECTOR)) : 0;
            for (uint c = begin; c < end; c += VECTOR)
                for (uint t = 0; t < n_tokens; t++) {
                    ulong row = first + t;
                    uint n = min(end - c, (uint)VECTOR);
                    float16 v = take_columns(x + row * a.in_stride + a.v_offset + head * a.value_dim + c, n);
                    put_columns(scan_token(&p, t, v, s[(c - begin) / VECTOR]),
                                out + row * a.out_stride + a.out_offset + head * a.value_dim + c, n);
                }
            for (uint i = 0; i < a.key_dim; i++)
                for (uint c = begin; c < end; c += VECTOR)
                    put_columns(s[(c - begin) / VECTOR][i], after + (ulong)i * a.value_dim + c, min(end - c, (uint)VECTOR));
        }
    }
}

#endif
