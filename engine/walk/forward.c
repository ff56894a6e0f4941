// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/walk/forward.h"

#include <math.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"

void pass_project(const struct pass *pass, const struct projection *p)
{
    struct args_matmul args = {
        .matrix = p->matrix->at,
        .n_rows = pass->rows,
        .in_stride = p->from.stride,
        .in_offset = p->from.offset,
        .out_stride = p->to.stride,
        .out_offset = p->to.offset,
        .add = p->add,
    };
    if (pass->decode)
        gpu_op_matvec(pass->gpu, &args, p->matrix->buf, p->from.buf, p->to.buf);
    else
        gpu_op_matmul(pass->gpu, &args, p->matrix->buf, p->from.buf, p->to.buf);
}

void pass_norm(const struct pass *pass, const struct normalisation *norm)
{
    struct args_rmsnorm args = {
        .weight = norm->weight->offset,
        .n_rows = pass->rows,
        .dim = norm->dim,
        .in_stride = norm->from.stride,
        .in_offset = norm->from.offset,
        .out_stride = norm->to.stride,
        .out_offset = norm->to.offset,
        .eps = norm->eps,
    };
    gpu_op_rmsnorm(pass->gpu, &args, norm->weight->buf, norm->from.buf, norm->to.buf);
}

bool pass_comes_normed(const struct pass *pass, uint32_t layer)
{
    return pass->decode && layer > 0 && shape_is_moe(pass->shape, layer - 1) &&
           !(pass->without & MOE_WITHOUT_FUSED_COMBINE);
}

void pass_mlp(const struct pass *pass, const struct layer_weights *layer)
{
    struct rows act = scratch_rows(pass->scratch, SCRATCH_MLP, layer->gate.at.out_dim);
    struct rows normed = pass_normed(pass);
    struct args_swiglu args = {
        .gate = layer->gate.at,
        .up = layer->up.at,
        .n_rows = pass->rows,
        .in_stride = normed.stride,
        .in_offset = normed.offset,
        .out_stride = act.stride,
    };
    if (pass->decode)
        gpu_op_swiglu_vec(pass->gpu, &args, layer->gate.buf, normed.buf, act.buf);
    else
        gpu_op_swiglu_mat(pass->gpu, &args, layer->gate.buf, normed.buf, act.buf);
    pass_project(pass, &(struct projection){&layer->down, act, pass_stream(pass), true});
}

static void embed(const struct pass *pass)
{
    struct args_embed args = {.table = pass->weights->embed.at, .n_rows = pass->rows};
    gpu_op_embed(pass->gpu, &args, pass->weights->embed.buf, pass->scratch->buf[SCRATCH_IDS],
                 pass->scratch->buf[SCRATCH_HIDDEN]);
}

// Shows the residual stream to whoever asked for it.
static int show_hidden(const struct pass *pass, uint32_t stage, struct moe_err *err)
{
    if (!pass->on_hidden)
        return MOE_OK;
    enum moe_interval before = telemetry_switch(pass->telemetry, MOE_ON_HOST);
    struct gpu_error device;
    float *rows = pass->scratch->host_rows;
    uint64_t bytes = sizeof *rows * pass->rows * pass->shape->hidden_size;
    if (gpu_read(pass->gpu, pass->scratch->buf[SCRATCH_HIDDEN], 0, rows, bytes, &device))
        return moe_fail_gpu(err, &device);
    pass->on_hidden(pass->context, stage, pass->position, pass->rows, rows);
    telemetry_switch(pass->telemetry, before);
    return MOE_OK;
}

struct moe_progress prompt_progress(const struct pass *pass, uint64_t tokens)
{
    return (struct moe_progress){
        .what = "reading prompt",
        .unit = "tokens",
        .done = tokens,
        .total = pass->total,
        .bytes_read = expert_store_counts(pass->store).bytes_read - pass->bytes_before,
    };
}

struct pace_clock pass_clock(const struct pass *pass)
{
    struct expert_counts counts = expert_store_counts(pass->store);
    return (struct pace_clock){clock_ns(), counts.wait_ns, counts.bytes_read};
}

static void report(const struct pass *pass)
{
    struct moe_progress at = prompt_progress(pass, (uint64_t)(pace_share(pass->pace) * (double)pass->total));
    at.seconds_left = pace_seconds_left(pass->pace);
    pass->progress(pass->context, &at);
}

void pass_did_chunk(const struct pass *pass, uint32_t layer)
{
    if (!pass->pace)
        return;
    struct pace_clock at = pass_clock(pass);
    pace_chunk(pass->pace, &(struct pace_chunk){layer, pass->position, pass->rows}, &at);
    report(pass);
}

void pass_begins_experts(const struct pass *pass, uint32_t layer)
{
    if (!pass->pace)
        return;
    struct pace_clock at = pass_clock(pass);
    uint32_t busy = 0;
    for (uint32_t e = 0; e < pass->shape->n_routed_experts; e++)
        busy += pass->scratch->expert_first[e + 1] > pass->scratch->expert_first[e];
    pace_layer(pass->pace, layer, busy, &at);
}

void pass_did_expert(const struct pass *pass, uint32_t rows)
{
    if (!pass->pace)
        return;
    struct pace_clock at = pass_clock(pass);
    pace_expert(pass->pace, rows, SWEEP_BEHIND, &at);
    report(pass);
}

// A layer up to its routed experts.
static int begin_layer(const struct pass *pass, uint32_t layer, struct moe_err *err)
{
    struct pass chunk = *pass;
    int code = MOE_OK;
    for (uint32_t done = 0; done < pass->rows && !code; done += chunk.rows) {
        uint32_t left = pass->rows - done;
        if (atomic_load(pass->cancel))
            return moe_fail(err, MOE_CANCELLED, "stopped");
        chunk.first = pass->first + done;
        chunk.position = pass->position + done;
        chunk.rows = left < pass->scratch->rows ? left : pass->scratch->rows;
        telemetry_switch(pass->telemetry, MOE_ON_ATTENTION);
        attn_layer(&chunk, layer);
        telemetry_mark(pass->telemetry, pass->gpu, MOE_ON_ATTENTION);
        code = ffn_begin(&chunk, layer, err);
        if (!code)
            pass_did_chunk(&chunk, layer);
    }
    return code;
}

int forward_layers(const struct pass *pass, struct moe_err *err)
{
    telemetry_switch(pass->telemetry, MOE_ON_ATTENTION);
    if (pass->decode)
        ffn_begin_token(pass);
    embed(pass);
    int code = show_hidden(pass, 0, err);
    for (uint32_t layer = 0; layer < pass->shape->n_layers && !code; layer++) {
        code = begin_layer(pass, layer, err);
        if (!code && shape_is_moe(pass->shape, layer))
            code = ffn_experts(pass, layer, err);
        if (!code)
            code = show_hidden(pass, layer + 1, err);
    }
    return code;
}

// One wait for what the caller wants, which may be nothing, and for what the token's layers have left to be seen.
static int read_back(const struct pass *pass, const struct gpu_range *wanted, struct moe_err *err)
{
    struct gpu_range ranges[3];
    unsigned n = ffn_choices(pass, ranges);
    if (wanted)
        ranges[n++] = *wanted;
    struct gpu_error device;
    if (n && gpu_read_ranges(pass->gpu, ranges, n, &device))
        return moe_fail_gpu(err, &device);
    enum moe_interval before = telemetry_switch(pass->telemetry, MOE_ON_HOST);
    int code = ffn_take_choices(pass, err);
    telemetry_switch(pass->telemetry, before);
    return code;
}

int forward_end(const struct pass *pass, struct moe_err *err)
{
    struct gpu_range ranges[2];
    if (!ffn_choices(pass, ranges))
        return MOE_OK;
    telemetry_settle(pass->telemetry, pass->gpu, MOE_ON_EXPERTS);
    return read_back(pass, NULL, err);
}

int forward_head(const struct pass *pass, const struct head_rows *rows, struct moe_err *err)
{
    uint32_t hidden = pass->shape->hidden_size;
    uint32_t vocab = pass->shape->vocab_size;
    struct pass some = *pass;
    some.rows = rows->count;
    telemetry_switch(pass->telemetry, MOE_ON_HEAD);
    struct rows stream = scratch_rows(pass->scratch, SCRATCH_HIDDEN, hidden);
    stream.offset = rows->first * hidden;
    struct rows normed = scratch_rows(pass->scratch, SCRATCH_NORMED, hidden);
    struct rows logits = scratch_rows(pass->scratch, SCRATCH_LOGITS, vocab);
    if (!pass_comes_normed(pass, pass->shape->n_layers))
        pass_norm(&some,
                  &(struct normalisation){&pass->weights->norm, stream, normed, hidden, pass->shape->rms_norm_eps});
    pass_project(&some, &(struct projection){&pass->weights->head, normed, logits, false});
    if (pass->decode) { // the device has all it needs for a while
        telemetry_switch(pass->telemetry, MOE_ON_HOST);
        prefetch_idle(pass->prefetch, pass->store);
    }
    telemetry_settle(pass->telemetry, pass->gpu, MOE_ON_HEAD);
    uint64_t count = (uint64_t)rows->count * vocab;
    int code = read_back(pass, &(struct gpu_range){logits.buf, 0, rows->logits, count * sizeof *rows->logits}, err);
    if (code)
        return code;
    for (uint64_t i = 0; i < count; i++)
        if (!isfinite(rows->logits[i]))
            return moe_fail(err, MOE_BAD_NUMBERS,
                            "the logits of token %llu are not finite: the weights are damaged or the device fails; "
                            "`moechat info --verify` checks the files, `--device ref` the device",
                            (unsigned long long)(pass->position + rows->first + i / vocab));
    return MOE_OK;
}
