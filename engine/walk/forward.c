// SPDX-License-Identifier: GPL-3.0-or-later
// The model, as its paper has it: embeddings; in each layer attention, then a feed-forward net or experts; the head.
#include "engine/walk/forward.h"

#include "engine/base/err.h"
#include "engine/walk/ffn.h"
#include "engine/walk/mixer.h"
#include "kernels/numbers.h"

// The nearest border that these tokens come up to. 0: none, or the layer has no states.
static uint32_t next_border(const struct pass *pass, uint32_t layer)
{
    uint32_t nearest = 0;
    for (int i = 0; i < MOE_BORDERS && memory_has_states(pass->memory, layer); i++) {
        uint32_t position = pass->borders[i].position;
        if (position > pass->position && position - pass->position <= pass->rows && (!nearest || position < nearest))
            nearest = position;
    }
    return nearest;
}

// What the layer's states are now.
static int copy_states(const struct pass *pass, uint32_t layer, const struct pass_border *border, struct moe_err *err)
{
    struct gpu_range ranges[MIXER_STATES];
    char *target = border->states + memory_state_offset(pass->memory, layer);
    unsigned n = 0;
    for (unsigned i = 0; i < MIXER_STATES; i++) {
        uint64_t bytes = pass->memory->layers[layer].needs.states[i] * sizeof(float);
        if (bytes)
            ranges[n++] = (struct gpu_range){memory_state(pass->memory, layer, i, true).to, 0, target, bytes};
        target += bytes;
    }
    struct gpu_error device;
    return gpu_read_ranges(pass->gpu, ranges, n, &device) ? moe_fail_gpu(err, &device) : MOE_OK;
}

// For each border that stands here.
static int copy_at(const struct pass *pass, uint32_t layer, uint32_t position, struct moe_err *err)
{
    int code = MOE_OK;
    for (int i = 0; i < MOE_BORDERS && !code; i++)
        if (pass->borders[i].position == position)
            code = copy_states(pass, layer, &pass->borders[i], err);
    return code;
}

// A layer up to its routed experts, chunk by chunk, those that have come so far left out.
static int begin_layer(const struct pass *pass, uint32_t layer, struct moe_err *err)
{
    struct pass chunk = *pass;
    struct stream_reach *reach = &pass->stream->reach;
    int code = MOE_OK;
    for (uint32_t done = reach->rows; done < pass->rows && !code; done += chunk.rows) {
        uint32_t left = pass->rows - done;
        chunk.first = pass->first + done;
        chunk.position = pass->position + done;
        chunk.rows = left < pass->scratch->rows ? left : pass->scratch->rows;
        uint32_t border = next_border(&chunk, layer);
        if (border)
            chunk.rows = border - chunk.position;
        code = pass_goes_on(&chunk, err);
        if (code)
            break;
        pass_stage(&chunk, STAGE_ATTENTION, layer);
        mixer_of(pass->shape, layer)->run(&chunk, layer);
        if (border && (code = copy_at(&chunk, layer, border, err)))
            break;
        code = ffn_begin(&chunk, layer, err);
        if (code)
            break;
        reach->rows = done + chunk.rows;
        pass_stage(&chunk, STAGE_CHUNK, layer);
    }
    return code;
}

int forward_layers(const struct pass *pass, bool begins, struct moe_err *err)
{
    struct stream_reach *reach = &pass->stream->reach;
    pass_stage(pass, STAGE_ATTENTION, begins ? 0 : reach->layer);
    if (pass->decode)
        ffn_begin_token(pass);
    if (begins)
        stream_begin(pass);
    int code = begins ? pass_show(pass, 0, err) : MOE_OK;
    for (uint32_t layer = reach->layer; layer < pass->shape->n_layers && !code; layer++) {
        code = begin_layer(pass, layer, err);
        if (!code && shape_is_moe(pass->shape, layer))
            code = ffn_experts(pass, layer, err);
        if (!code)
            code = pass_show(pass, layer + 1, err);
        if (!code)
            *reach = (struct stream_reach){.layer = layer + 1};
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
    if (!n)
        return MOE_OK;
    struct gpu_error device;
    pass_stage(pass, STAGE_WAIT, pass->shape->n_layers);
    if (gpu_read_ranges(pass->gpu, ranges, n, &device))
        return moe_fail_gpu(err, &device);
    pass_stage(pass, STAGE_HOST, pass->shape->n_layers);
    int code = pass->decode && pass->routed->followed ? expert_confirm(pass->routed->store, err) : MOE_OK;
    return code ? code : ffn_take_choices(pass, err);
}

void forward_derive(const struct pass *pass)
{
    for (uint32_t layer = 0; layer < pass->shape->n_layers; layer++)
        if (mixer_of(pass->shape, layer)->derive)
            mixer_of(pass->shape, layer)->derive(pass, layer);
}

int forward_end(const struct pass *pass, struct moe_err *err)
{
    return read_back(pass, NULL, err);
}

// What is not finite has all bits of its exponent. Several side by side, for a decoded token waits for it.
static bool all_finite(const float *values, uint64_t n)
{
    enum { TOGETHER = 8 };
    const uint32_t size = 0x7fffffffu, infinite = 0x7f800000u;
    uint32_t most[TOGETHER] = {0};
    uint64_t i = 0;
    for (; i + TOGETHER <= n; i += TOGETHER)
        for (uint64_t j = 0; j < TOGETHER; j++) {
            uint32_t bits = number_pattern(values[i + j]) & size;
            most[j] = bits > most[j] ? bits : most[j];
        }
    bool finite = true;
    for (uint64_t j = 0; j < TOGETHER; j++)
        finite &= most[j] < infinite;
    for (; i < n; i++)
        finite &= (number_pattern(values[i]) & size) < infinite;
    return finite;
}

static int prove_logits(const struct pass *pass, const struct head_rows *rows, struct moe_err *err)
{
    uint64_t vocab = pass->shape->vocab_size;
    for (uint64_t r = 0; r < rows->count; r++)
        if (!all_finite(rows->logits + r * vocab, vocab))
            return moe_fail(err, MOE_BAD_NUMBERS,
                            "the logits of token %llu are not finite: the weights are damaged or the device fails; "
                            "`moechat info --verify` checks the files, `--device ref` the device",
                            (unsigned long long)(pass->position + rows->first + r));
    return MOE_OK;
}

int forward_head(const struct pass *pass, const struct head_rows *rows, struct moe_err *err)
{
    uint32_t vocab = pass->shape->vocab_size, n_layers = pass->shape->n_layers;
    struct pass some = *pass;
    some.first = rows->first;
    some.rows = rows->count;
    pass_stage(&some, STAGE_HEAD, n_layers);
    struct rows logits = scratch_rows(pass->scratch, SCRATCH_LOGITS, vocab);
    struct rows x = stream_in(&some, n_layers, SITE_HEAD);
    pass_project(&some, &(struct projection){&pass->weights->head, x, logits, false});
    if (pass->decode) { // the device has all it needs for a while
        pass_stage(pass, STAGE_HOST, n_layers);
        prefetch_idle(&pass->routed->prefetch, pass->routed->store);
    }
    uint64_t bytes = (uint64_t)rows->count * vocab * sizeof *rows->logits;
    int code = read_back(pass, &(struct gpu_range){logits.buf, 0, rows->logits, bytes}, err);
    return code ? code : prove_logits(pass, rows, err);
}
