// SPDX-License-Identifier: GPL-3.0-or-later
// What a program is made of, and the parts that it is built in where its compiler takes seconds.
#include "kernels/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/device.h"
#include "kernels/tiling.h"

// By embed.sh.
extern const char kernels_text[], kind_text[];
extern const size_t kernels_text_bytes, kind_text_bytes;
extern const char token_text[], token_names[], token_kind_text[], token_names_end[], token_last_text[];

// Parts by need, so that what a model has no use for is not built, and of about the same time, the longest first.
// Seconds of NVIDIA's compiler, nine of them at once.
static const struct {
    uint32_t parts, mixers; // built where the model has one of these; 0: always
} divisions[] = {
    {PART_PRODUCTS, 0},                            // 3.9
    {PART_TOKEN_LATENT | PART_LATENT, USE_LATENT}, // 3.6
    {PART_GATES | PART_TOKEN, 0},                  // 3.6
    {PART_TILES | PART_ELEMENTS, 0},               // 3.6
    {PART_PAIRS, 0},                               // 3.5
    {PART_LATENT_MMA | PART_PLAIN, USE_LATENT},    // 3.4
    {PART_EXPERTS, 0},                             // 3.3
    {PART_VECTORS, 0},                             // 3.1
    {PART_LISTS, USE_LISTS},                       // 3.0
    {PART_HEADS, USE_HEADS | USE_KEYS},            // 2.9
    {PART_STATES | PART_TOKEN_STATES, USE_STATES}, // 2.6
    {PART_INDEX, USE_LISTS},                       // 2.0
    {PART_GROUPS, USE_GROUPS},                     // 1.3
    {PART_STREAMS, USE_HYPER | USE_BANK},          // 0.6
};
static const uint32_t kind_divisions[] = {
    PART_ELEMENTS | PART_VECTORS | PART_EXPERTS,
    PART_PRODUCTS | PART_TILES | PART_HEADS,
    PART_PAIRS,
};
_Static_assert(sizeof divisions / sizeof *divisions <= MOST_PARTS, "there is room for all parts");

unsigned source_divide(const gpu *g, const struct wish *wish, uint32_t mixers, struct wish parts[MOST_PARTS])
{
    unsigned n = 0;
    bool divided = g->divided && wish->of != WISH_TOKEN;
    for (size_t i = 0; divided && wish->of == WISH_ALL && i < sizeof divisions / sizeof *divisions; i++)
        if (!mixers || !divisions[i].mixers || divisions[i].mixers & mixers) {
            parts[n] = *wish;
            parts[n++].parts = divisions[i].parts;
        }
    for (size_t i = 0; divided && wish->of == WISH_KIND && i < sizeof kind_divisions / sizeof *kind_divisions; i++)
        if (i == 0 || wish->format.uses & (USE_PRODUCTS | USE_EXPERTS | (i == 1 ? USE_HEADS | USE_KEYS : 0))) {
            parts[n] = *wish;
            parts[n++].parts = kind_divisions[i];
        }
    if (n == 0)
        parts[n++] = *wish;
    return n;
}

// No warnings: a compiler in our process may print them over the screen, as PoCL's does of loops it can't unroll.
static void begin_options(const gpu *g, struct source *s, bool of_kind)
{
    // A processor has a GPU's kernels for proofs alone; those of kinds take PoCL far longer to optimise than to run.
    bool as_written = of_kind && !g->cpu_shape && g->info.kind == GPU_KIND_CPU;
    snprintf(s->options, sizeof s->options, "-cl-std=CL1.2 -w%s -DSHAPE_CPU=%d -DNVIDIA_MMA=%d -DCALLS=%d",
             as_written ? " -cl-opt-disable" : "", g->cpu_shape, g->has_mma, g->calls);
    size_t n = strlen(s->options);
    if (s->parts)
        snprintf(s->options + n, sizeof s->options - n, " -DBUILD_PARTS=%u", s->parts);
}

uint32_t source_inputs_at_hand(uint32_t kind)
{
    switch (kind) {
    case KIND_Q6_K:
        return TEAM_SPAN_INPUTS * 3 / 4;
    case KIND_IQ2_S:
    case KIND_IQ3_S:
        return TEAM_SPAN_INPUTS;
    case KIND_Q2_K:
    case KIND_Q3_K:
    case KIND_IQ4_XS:
    case KIND_IQ1_S:
    case KIND_IQ1_M:
    case KIND_IQ2_XXS:
    case KIND_IQ2_XS:
    case KIND_IQ3_XXS:
        return TEAM_SPAN_MOST;
    default:
        return TEAM_MMA_INPUTS;
    }
}

static void add_kind(struct source *s, const struct gpu_format *format)
{
    const struct kind_info *info = kind_info(format->kind);
    size_t n = strlen(s->options);
    char name[32];
    if (info->scales == SCALES_AFFINE)
        snprintf(name, sizeof name, "AFFINE=%u", info->quantum_bits);
    else
        snprintf(name, sizeof name, "%s", info->name);
    snprintf(s->options + n, sizeof s->options - n,
             " -DKIND=%u -DKIND_IS_%s -DBLOCK_INPUTS=%u -DBLOCK_BYTES=%u -DPIECES=%d -DSCALE_TYPE=%u -DUSES=%u"
             " -DAT_HAND=%u",
             format->kind, name, info->block_inputs, info->block_bytes, info->by_pieces, format->scale_type,
             format->uses, source_inputs_at_hand(format->kind));
}

// What a kind's text is told of it.
static void tell_kind(FILE *out, uint32_t kind, unsigned slot)
{
    const struct kind_info *info = kind_info(kind);
    fprintf(out,
            "#define SLOT %u\n#define KIND %u\n#define KIND_IS_%s 1\n#define BLOCK_INPUTS %u\n#define BLOCK_BYTES %u\n"
            "#define PIECES 1\n#define SCALE_TYPE 0\n",
            slot, kind, info->name, info->block_inputs, info->block_bytes);
}

static void forget_kind(FILE *out, uint32_t kind)
{
    fprintf(out,
            "\n#undef SLOT\n#undef KIND\n#undef KIND_IS_%s\n#undef BLOCK_INPUTS\n#undef BLOCK_BYTES\n#undef PIECES\n"
            "#undef SCALE_TYPE\n",
            kind_info(kind)->name);
}

char *source_token_text(uint64_t kinds)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    fprintf(out,
            "%s\n#define OF_SLOT__(name, slot) name##_##slot\n#define OF_SLOT_(name, slot) OF_SLOT__(name, slot)\n"
            "#define OF_SLOT(name) OF_SLOT_(name, SLOT)\n",
            token_text);
    for (uint32_t kind = 0, slot = 0; kind < KIND_COUNT; kind++)
        if (kinds >> kind & 1) {
            tell_kind(out, kind, slot++);
            fprintf(out, "%s\n%s\n%s", token_names, token_kind_text, token_names_end);
            forget_kind(out, kind);
        }
    fputs("#define RUN_KINDS(kind) ", out);
    for (uint32_t kind = 0, slot = 0; kind < KIND_COUNT; kind++)
        if (kinds >> kind & 1)
            fprintf(out, "if ((kind) == %u) segment_run_%u(segment, &space, scale, &staged, meeting); else ", kind,
                    slot++);
    fprintf(out, "segment_run_plain(segment, &space, scale, &staged);\n%s", token_last_text);
    bool good = !ferror(out);
    if (fclose(out) == 0 && good)
        return text;
    free(text);
    return NULL;
}

static bool has_mixer(const gpu *g, unsigned uses)
{
    return !g->mixers || g->mixers & uses;
}

bool source_of(const gpu *g, const struct wish *wish, struct source *s)
{
    *s = (struct source){.text = kernels_text, .bytes = kernels_text_bytes, .parts = wish->parts};
    if (wish->of == WISH_TOKEN) {
        s->made = source_token_text(wish->kinds);
        if (!s->made)
            return false;
        s->text = s->made;
        s->bytes = strlen(s->made);
        s->uses = USE_TOKEN;
        snprintf(s->options, sizeof s->options,
                 "-cl-std=CL1.2 -w -DSHAPE_CPU=0 -DNVIDIA_MMA=1 -DTOKEN_PROGRAM -DTOKEN_LATENT=%d -DTOKEN_STATES=%d",
                 has_mixer(g, USE_LATENT), has_mixer(g, USE_STATES));
        return true;
    }
    begin_options(g, s, wish->of == WISH_KIND);
    if (wish->of == WISH_KIND) {
        s->text = kind_text;
        s->bytes = kind_text_bytes;
        s->uses = wish->format.uses;
        add_kind(s, &wish->format);
    }
    return true;
}

void source_release(struct source *source)
{
    free(source->made);
}

bool source_key(const gpu *g, const struct source *source, struct digest *key)
{
    char version[256] = "";
    char device_version[256] = "";
    clGetPlatformInfo(g->platform, CL_PLATFORM_VERSION, sizeof version - 1, version, NULL);
    clGetDeviceInfo(g->device, CL_DEVICE_VERSION, sizeof device_version - 1, device_version, NULL);
    const char *const texts[] = {source->options,  g->info.name, g->info.driver,
                                 g->info.platform, version,      device_version};
    enum { N_TEXTS = sizeof texts / sizeof *texts };
    struct digested parts[N_TEXTS + 1] = {{source->text, source->bytes}};
    for (size_t i = 0; i < N_TEXTS; i++)
        parts[i + 1] = (struct digested){texts[i], strlen(texts[i])};
    return digest(parts, N_TEXTS + 1, key);
}

bool wish_is_kept(const gpu *g, const struct wish *wish)
{
    struct source source;
    struct digest key;
    if (!g->cache_folder || !source_of(g, wish, &source))
        return false;
    bool kept = source_key(g, &source, &key) && cache_has(g->cache_folder, &key);
    source_release(&source);
    return kept;
}
