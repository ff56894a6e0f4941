// SPDX-License-Identifier: GPL-3.0-or-later
// Writes a package of random weights in the true shape of a model, to measure with.
//
//     synthetic CONFIG.json OUTDIR [--layers N] [--distinct K] [--bits 4|8] [--skew S] [--correlation C] [--seed N]
//
// CONFIG.json is a config.json (tests/bench/configs has those of real models); --layers N keeps its first N layers;
// --distinct K writes K different files of experts and links the other layers to them (without it: as many as fit in
// 4/5 of the free space, and says so). Beside the package lies tokens.txt, ids for `moechat eval --tokens`.
//
// How it is made, so that numbers stay finite and routing is like a real model's in what a cache can feel:
// - Matrices are uniform in their quantised values, with standard deviation gain / sqrt(inputs): a product of a
//   normalised row has size `gain`. What is added to the residual stream has gain 1 / sqrt(2 layers), so the stream
//   stays near the embedding's size, and the layers' routers see related streams, as in trained models.
// - An embedding is sqrt(C) of its topic's vector + sqrt(1 - C) of its own + 0.5 of one vector common to all. A topic
// is a
//   64th of the vocabulary, so two tokens of one topic have router logits with correlation about C, others about 0. The
//   head leans to the topics' vectors, so that sampled text stays with a topic for some 20 tokens; tokens.txt walks
//   alike.
// - A router's row is random (logits of standard deviation 1.5) + S times a normal number of the expert's along the
// common
//   vector: a lasting advantage of S standard deviations. S 0: all experts alike; 1: a few are chosen most of the time.
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "engine/files/file_hash.h"
#include "engine/files/shape.h"
#include "tests/bench/synthetic_tensors.h"

enum { GROUP = 64, SMALL_GROUP = 32, BLOB_ALIGNMENT = 4096, PART_ALIGNMENT = 64, TOPICS = 64, N_TOKENS = 4096 };
enum { BUFFER_WORDS = 1 << 18, TEXT_TOPIC_TOKENS = 20 };

static const double common_part = 0.5;    // of an embedding, along the vector common to all
static const double router_gain = 1.5;    // standard deviation of the logits
static const double nibble_spread = 4.61; // standard deviation of 0 .. 15
static const double octet_spread = 73.9;  // of 0 .. 255

struct options {
    const char *config, *out;
    uint32_t layers, distinct, bits;
    double skew, correlation;
    uint64_t seed;
};

// A file being written and hashed; a failed write ends the program.
struct output {
    char path[4300];
    FILE *file;
    EVP_MD_CTX *hash;
    uint64_t bytes;
    char sha256[65];
};

struct maker {
    const struct options *options;
    struct shape shape;
    struct tensor_list list; // of the resident file
    uint64_t random;         // state
    uint32_t *words;         // [BUFFER_WORDS]
    struct output out;
};

__attribute__((format(printf, 1, 2), noreturn)) static void fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "synthetic: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    exit(1);
}

// splitmix64
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15U;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
    z = (z ^ z >> 27) * 0x94d049bb133111ebU;
    return z ^ z >> 31;
}

static uint64_t hash_of(uint64_t seed, uint64_t a, uint64_t b)
{
    uint64_t state = seed ^ (a * 0xd6e8feb86659fd93U + b);
    next_random(&state);
    return next_random(&state);
}

// Near enough to normal: the sum of four uniforms, standard deviation 1.
static double normal(uint64_t bits)
{
    double sum = 0;
    for (int i = 0; i < 4; i++)
        sum += (double)(bits >> 16 * i & 0xffff);
    return (sum / 65536 - 2) * 1.7320508;
}

static uint16_t to_bf16(double value)
{
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// A scale of 4 significant bits, so that scale and the middle of the range times it are exact in bf16.
static double short_scale(double value)
{
    int exponent;
    double mantissa = frexp(value, &exponent);
    return ldexp(rint(mantissa * 16) / 16, exponent);
}

// ---- files

static void open_output(struct output *out, const char *directory, const char *name)
{
    snprintf(out->path, sizeof out->path, "%s/%s", directory, name);
    out->bytes = 0;
    out->file = fopen(out->path, "wbx");
    out->hash = EVP_MD_CTX_new();
    if (!out->file)
        fail("%s: %s", out->path, strerror(errno));
    if (!out->hash || EVP_DigestInit_ex(out->hash, EVP_sha256(), NULL) != 1)
        fail("no SHA-256");
}

static void put(struct output *out, const void *data, size_t bytes)
{
    if (fwrite(data, 1, bytes, out->file) != bytes || EVP_DigestUpdate(out->hash, data, bytes) != 1)
        fail("%s: %s", out->path, strerror(errno));
    out->bytes += bytes;
}

static void pad_to(struct output *out, uint64_t alignment)
{
    static const char zeros[BLOB_ALIGNMENT];
    put(out, zeros, (size_t)((alignment - out->bytes % alignment) % alignment));
}

static void close_output(struct output *out)
{
    if (!file_hash_hex(out->hash, out->sha256) || fclose(out->file) != 0)
        fail("%s: %s", out->path, strerror(errno));
    EVP_MD_CTX_free(out->hash);
}

// ---- matrices

static uint32_t group_of(const struct tensor *t)
{
    return t->cols % GROUP ? SMALL_GROUP : GROUP;
}

static uint64_t words_bytes(const struct tensor *t)
{
    return (uint64_t)t->rows * t->cols * t->bits / 8;
}

static uint64_t scales_bytes(const struct tensor *t)
{
    return (uint64_t)t->rows * (t->cols / group_of(t)) * 2;
}

static double scale_of(const struct tensor *t)
{
    return short_scale(t->gain / sqrt(t->cols) / (t->bits == 4 ? nibble_spread : octet_spread));
}

// `count` times one bf16.
static void put_constant(struct maker *m, uint64_t count, double value)
{
    uint32_t twice = to_bf16(value) * 0x10001U;
    for (uint32_t i = 0; i < BUFFER_WORDS; i++)
        m->words[i] = twice;
    for (uint64_t left = count * 2; left > 0;) {
        size_t part = left < sizeof *m->words * BUFFER_WORDS ? (size_t)left : sizeof *m->words * BUFFER_WORDS;
        put(&m->out, m->words, part);
        left -= part;
    }
}

static void put_random_words(struct maker *m, uint64_t bytes)
{
    while (bytes > 0) {
        size_t part = bytes < sizeof *m->words * BUFFER_WORDS ? (size_t)bytes : sizeof *m->words * BUFFER_WORDS;
        for (uint32_t i = 0; i < (part + 7) / 8; i++) {
            uint64_t bits = next_random(&m->random);
            memcpy(m->words + 2 * (size_t)i, &bits, sizeof bits);
        }
        put(&m->out, m->words, part);
        bytes -= part;
    }
}

// Values of a table by the common vector's bit, the topic's 16 values and the token's own.
struct mixture {
    uint8_t value[2][16][16];
};

static void mix(struct mixture *mixture, double common, double topic, double own, uint32_t bits)
{
    double top = (1 << bits) - 1;
    double step = bits == 4 ? 1 : octet_spread / nibble_spread;
    for (int c = 0; c < 2; c++)
        for (int t = 0; t < 16; t++)
            for (int o = 0; o < 16; o++) {
                double value = (c ? common : -common) * nibble_spread + topic * (t - 7.5) + own * (o - 7.5);
                mixture->value[c][t][o] = (uint8_t)fmin(fmax(rint(top / 2 + step * value), 0), top);
            }
}

static uint64_t common_bits(uint64_t seed, uint32_t block) // signs of 64 elements
{
    return hash_of(seed, 1, block);
}

// Rows that lean to their topic: embeddings and the head. 16 elements at a time.
static void put_topical_words(struct maker *m, const struct tensor *t, const struct mixture *mixture)
{
    uint64_t seed = m->options->seed;
    uint32_t per_topic = (t->rows + TOPICS - 1) / TOPICS;
    uint8_t *row = malloc(t->cols);
    if (!row)
        fail("no memory");
    for (uint32_t r = 0; r < t->rows; r++) {
        uint64_t topic = 0, own = 0, signs = 0;
        for (uint32_t i = 0; i < t->cols; i++) {
            if (i % 16 == 0) {
                topic = hash_of(seed, 2 + r / per_topic, i);
                own = next_random(&m->random);
            }
            if (i % 64 == 0)
                signs = common_bits(seed, i / 64);
            uint32_t place = i % 16 * 4;
            uint8_t value = mixture->value[signs >> i % 64 & 1][topic >> place & 15][own >> place & 15];
            if (t->bits == 8)
                row[i] = value;
            else if (i % 2 == 0)
                row[i / 2] = value;
            else
                row[i / 2] |= (uint8_t)(value << 4);
        }
        put(&m->out, row, (size_t)t->cols * t->bits / 8);
    }
    free(row);
}

// A router's float rows, quantised to 8 bits between each group's extremes.
struct quantised {
    uint8_t *q;
    uint16_t *scales, *biases;
};

static void quantise_group(const double *values, uint32_t n, uint8_t *q, uint16_t *scale, uint16_t *bias)
{
    double low = values[0], high = values[0];
    for (uint32_t i = 1; i < n; i++) {
        low = fmin(low, values[i]);
        high = fmax(high, values[i]);
    }
    *scale = to_bf16((high - low) / 255 + 1e-9);
    *bias = to_bf16(low);
    uint32_t wide[2] = {(uint32_t)*scale << 16, (uint32_t)*bias << 16};
    float exact[2];
    memcpy(exact, wide, sizeof exact);
    for (uint32_t i = 0; i < n; i++)
        q[i] = (uint8_t)fmin(fmax(rint((values[i] - (double)exact[1]) / (double)exact[0]), 0), 255);
}

static void put_router(struct maker *m, const struct tensor *t)
{
    uint32_t group = group_of(t), groups = t->cols / group;
    struct quantised all = {malloc((size_t)t->rows * t->cols), malloc((size_t)t->rows * groups * 2),
                            malloc((size_t)t->rows * groups * 2)};
    if (!all.q || !all.scales || !all.biases)
        fail("no memory");
    // The common vector's share of a normalised row: its size in the stream over the stream's, about half way up.
    double share = common_part / sqrt(1.5 + common_part * common_part);
    double values[GROUP];
    for (uint32_t r = 0; r < t->rows; r++) {
        double advantage = m->options->skew * normal(next_random(&m->random)) / (t->cols * share);
        for (uint32_t g = 0; g < groups; g++) {
            for (uint32_t i = 0; i < group; i++) {
                uint32_t column = g * group + i;
                bool sign = common_bits(m->options->seed, column / 64) >> column % 64 & 1;
                values[i] = normal(next_random(&m->random)) / sqrt(t->cols) + (sign ? advantage : -advantage);
                values[i] *= router_gain;
            }
            size_t at = (size_t)r * groups + g;
            quantise_group(values, group, all.q + at * group, &all.scales[at], &all.biases[at]);
        }
    }
    put(&m->out, all.q, (size_t)t->rows * t->cols);
    put(&m->out, all.scales, (size_t)t->rows * groups * 2);
    put(&m->out, all.biases, (size_t)t->rows * groups * 2);
    free(all.q), free(all.scales), free(all.biases);
}

static void put_matrix(struct maker *m, const struct tensor *t, uint64_t alignment)
{
    double scale = scale_of(t);
    double c = m->options->correlation;
    struct mixture mixture;
    if (t->fill == ROUTER) {
        put_router(m, t);
        return;
    }
    if (t->fill == RANDOM) {
        put_random_words(m, words_bytes(t));
    } else {
        // 0.8 keeps most of the sum inside the range; the head's lean makes the topic's logits 7 larger.
        double share = sqrt(c / (1.5 + common_part * common_part));
        double lean = t->fill == HEAD ? fmin(7 / (share * sqrt(t->cols) + 7), 0.7) : sqrt(c) * 0.8;
        double own = t->fill == HEAD ? 0.8 * sqrt(1 - lean * lean) : sqrt(1 - c) * 0.8;
        mix(&mixture, t->fill == HEAD ? 0 : common_part * 0.8, lean, own, t->bits);
        put_topical_words(m, t, &mixture);
    }
    pad_to(&m->out, alignment);
    put_constant(m, scales_bytes(t) / 2, scale);
    pad_to(&m->out, alignment);
    put_constant(m, scales_bytes(t) / 2, -scale * (t->bits == 4 ? 7.5 : 127.5));
    pad_to(&m->out, alignment);
}

// ---- the resident file

static void describe_tensor(struct json_object *header, const char *name, const char *dtype, const uint64_t dims[2],
                            uint64_t *offset, uint64_t bytes)
{
    struct json_object *entry = json_object_new_object();
    struct json_object *shape = json_object_new_array();
    struct json_object *place = json_object_new_array();
    json_object_array_add(shape, json_object_new_uint64(dims[0]));
    if (dims[1])
        json_object_array_add(shape, json_object_new_uint64(dims[1]));
    json_object_array_add(place, json_object_new_uint64(*offset));
    json_object_array_add(place, json_object_new_uint64(*offset += bytes));
    json_object_object_add(entry, "dtype", json_object_new_string(dtype));
    json_object_object_add(entry, "shape", shape);
    json_object_object_add(entry, "data_offsets", place);
    json_object_object_add(header, name, entry);
}

// Of one that is no matrix.
static uint64_t numbers_of(const struct tensor *t)
{
    return (uint64_t)t->rows * (t->taps ? t->taps : 1);
}

static struct json_object *resident_header(const struct maker *m, uint64_t *bytes)
{
    struct json_object *header = json_object_new_object();
    *bytes = 0;
    for (size_t i = 0; i < m->list.n; i++) {
        const struct tensor *t = &m->list.tensors[i];
        if (!t->cols) {
            bool wide = t->fill == ZEROS;
            describe_tensor(header, t->name, wide ? "F32" : "BF16", (uint64_t[2]){t->rows, t->taps}, bytes,
                            numbers_of(t) * (wide ? 4U : 2U));
            continue;
        }
        static const char *const suffixes[] = {".weight", ".scales", ".biases"};
        for (int part = 0; part < 3; part++) {
            char name[112];
            uint64_t cols = part ? t->cols / group_of(t) : (uint64_t)t->cols * t->bits / 32;
            snprintf(name, sizeof name, "%s%s", t->name, suffixes[part]);
            describe_tensor(header, name, part ? "BF16" : "U32", (uint64_t[2]){t->rows, cols}, bytes,
                            part ? scales_bytes(t) : words_bytes(t));
        }
    }
    return header;
}

static void write_resident(struct maker *m)
{
    uint64_t bytes;
    struct json_object *header = resident_header(m, &bytes);
    const char *text = json_object_to_json_string_ext(header, JSON_C_TO_STRING_PLAIN);
    uint64_t length = strlen(text), padded = length + (PART_ALIGNMENT - (length + 8) % PART_ALIGNMENT) % PART_ALIGNMENT;
    open_output(&m->out, m->options->out, "resident.safetensors");
    put(&m->out, &padded, sizeof padded);
    put(&m->out, text, length);
    for (uint64_t i = length; i < padded; i++)
        put(&m->out, " ", 1);
    json_object_put(header);
    for (size_t i = 0; i < m->list.n; i++) {
        const struct tensor *t = &m->list.tensors[i];
        if (t->cols)
            put_matrix(m, t, 1);
        else // bf16 1, or float32 0
            put_constant(m, t->fill == ZEROS ? 2 * numbers_of(t) : numbers_of(t), t->fill == ZEROS ? 0 : 1);
    }
    if (m->out.bytes != bytes + 8 + padded)
        fail("resident.safetensors has %" PRIu64 " bytes, not the %" PRIu64 " of its header", m->out.bytes,
             bytes + 8 + padded);
    close_output(&m->out);
}

// ---- experts

static const char *const projections[] = {"gate_proj", "up_proj", "down_proj"};

static void expert_matrices(const struct maker *m, struct tensor matrices[3])
{
    const struct shape *s = &m->shape;
    // As large as a shared expert's part, whatever the chosen weights add up to.
    double weights =
        s->norm_topk_prob ? s->routed_scaling_factor / sqrt(s->top_k) : s->routed_scaling_factor / sqrt(s->top_k) / 2;
    for (int i = 0; i < 3; i++)
        matrices[i] = (struct tensor){.rows = i < 2 ? s->moe_intermediate_size : shape_expert_size(s),
                                      .cols = i < 2 ? shape_expert_size(s) : s->moe_intermediate_size,
                                      .bits = m->options->bits,
                                      .gain = i < 2 ? 1 : 1 / sqrt(2 * s->n_layers) / weights};
}

static uint64_t aligned(uint64_t bytes, uint64_t alignment)
{
    return (bytes + alignment - 1) / alignment * alignment;
}

// The manifest's list of an expert's parts, and how long its blob is.
static struct json_object *list_parts(const struct maker *m, uint64_t *blob_bytes)
{
    struct tensor matrices[3];
    struct json_object *parts = json_object_new_array();
    uint64_t offset = 0;
    expert_matrices(m, matrices);
    for (int i = 0; i < 9; i++) {
        static const char *const suffixes[] = {"weight", "scales", "biases"};
        const struct tensor *t = &matrices[i / 3];
        uint64_t cols = i % 3 ? t->cols / group_of(t) : (uint64_t)t->cols * t->bits / 32;
        uint64_t bytes = i % 3 ? scales_bytes(t) : words_bytes(t);
        struct json_object *part = json_object_new_object();
        struct json_object *shape = json_object_new_array();
        char name[32];
        snprintf(name, sizeof name, "%s.%s", projections[i / 3], suffixes[i % 3]);
        json_object_array_add(shape, json_object_new_uint64(t->rows));
        json_object_array_add(shape, json_object_new_uint64(cols));
        json_object_object_add(part, "name", json_object_new_string(name));
        json_object_object_add(part, "dtype", json_object_new_string(i % 3 ? "BF16" : "U32"));
        json_object_object_add(part, "shape", shape);
        json_object_object_add(part, "offset", json_object_new_uint64(offset));
        json_object_object_add(part, "bytes", json_object_new_uint64(bytes));
        json_object_array_add(parts, part);
        offset = aligned(offset + bytes, PART_ALIGNMENT);
    }
    *blob_bytes = aligned(offset, BLOB_ALIGNMENT);
    return parts;
}

static void write_layer(struct maker *m, const char *name)
{
    struct tensor matrices[3];
    expert_matrices(m, matrices);
    open_output(&m->out, m->options->out, name);
    for (uint32_t e = 0; e < m->shape.n_routed_experts; e++) {
        for (int i = 0; i < 3; i++)
            put_matrix(m, &matrices[i], PART_ALIGNMENT);
        pad_to(&m->out, BLOB_ALIGNMENT);
    }
    close_output(&m->out);
}

static void add_record(struct json_object *to, const char *file, uint64_t bytes, const char *sha256)
{
    json_object_object_add(to, "file", json_object_new_string(file));
    json_object_object_add(to, "bytes", json_object_new_uint64(bytes));
    json_object_object_add(to, "sha256", json_object_new_string(sha256));
}

// Layer files by turns; each further one is a hard link. Returns the manifest's list; adds the checksums to `all`.
static struct json_object *write_experts(struct maker *m, uint32_t distinct, uint64_t bytes, EVP_MD_CTX *all)
{
    struct json_object *layers = json_object_new_array();
    uint32_t first = m->shape.first_k_dense_replace;
    char(*sums)[65] = calloc(distinct, sizeof *sums);
    if (!sums)
        fail("no memory");
    for (uint32_t layer = first; layer < m->shape.n_layers; layer++) {
        char name[32], from[4300], to[4300];
        uint32_t turn = (layer - first) % distinct;
        snprintf(name, sizeof name, "layer-%03u.experts", layer);
        if (layer - first < distinct) {
            write_layer(m, name);
            memcpy(sums[turn], m->out.sha256, sizeof *sums);
        } else {
            snprintf(from, sizeof from, "%s/layer-%03u.experts", m->options->out, first + turn);
            snprintf(to, sizeof to, "%s/%s", m->options->out, name);
            if (link(from, to))
                fail("%s: %s", to, strerror(errno));
        }
        struct json_object *record = json_object_new_object();
        json_object_object_add(record, "layer", json_object_new_uint64(layer));
        add_record(record, name, bytes, sums[turn]);
        json_object_array_add(layers, record);
        if (EVP_DigestUpdate(all, sums[turn], 64) != 1)
            fail("no SHA-256");
    }
    free(sums);
    return layers;
}

// ---- the package

// How many different layer files: what was asked for, or what fits.
static uint32_t choose_distinct(const struct maker *m, uint64_t resident, uint64_t layer_bytes)
{
    struct statvfs disk;
    if (statvfs(m->options->out, &disk))
        fail("%s: %s", m->options->out, strerror(errno));
    uint64_t room = (uint64_t)disk.f_bavail * disk.f_frsize / 5 * 4;
    uint32_t n_moe = m->shape.n_layers - m->shape.first_k_dense_replace;
    uint64_t fit = room > resident ? (room - resident) / layer_bytes : 0;
    uint32_t distinct = m->options->distinct ? m->options->distinct : fit < n_moe ? (uint32_t)fit : n_moe;
    distinct = distinct < n_moe ? distinct : n_moe;
    if (distinct == 0 || distinct > fit)
        fail("%s: %.1f GB are needed, 4/5 of the free space are %.1f GB; ask for fewer --layers or --distinct",
             m->options->out, (double)(resident + layer_bytes * (distinct ? distinct : 1)) / 1e9, (double)room / 1e9);
    printf("%s: %u layers, %u with experts in %u different files%s; %.2f GB resident, %.2f GB of experts on disk\n",
           m->options->out, m->shape.n_layers, n_moe, distinct,
           distinct < n_moe ? " (the others are hard links: the page cache holds each once)" : "",
           (double)resident / 1e9, (double)(layer_bytes * distinct) / 1e9);
    return distinct;
}

static void write_tokens(struct maker *m)
{
    char path[4300];
    snprintf(path, sizeof path, "%s/tokens.txt", m->options->out);
    FILE *file = fopen(path, "wx");
    if (!file)
        fail("%s: %s", path, strerror(errno));
    uint32_t vocab = m->shape.vocab_size, per_topic = (vocab + TOPICS - 1) / TOPICS;
    uint64_t topic = 0;
    for (int i = 0; i < N_TOKENS; i++) {
        if (i == 0 || next_random(&m->random) % TEXT_TOPIC_TOKENS == 0)
            topic = next_random(&m->random) % TOPICS;
        uint64_t id = topic * per_topic + next_random(&m->random) % per_topic;
        fprintf(file, "%" PRIu64 "%c", id % vocab, i + 1 < N_TOKENS ? ' ' : '\n');
    }
    if (fclose(file))
        fail("%s: %s", path, strerror(errno));
}

static void write_manifest(const struct maker *m, struct json_object *manifest)
{
    char path[4300];
    snprintf(path, sizeof path, "%s/model.json", m->options->out);
    if (json_object_to_file_ext(path, manifest, JSON_C_TO_STRING_PRETTY))
        fail("%s: %s", path, json_util_get_last_err());
}

static void make_package(struct maker *m, struct json_object *config)
{
    struct json_object *manifest = json_object_new_object();
    struct json_object *resident = json_object_new_object();
    struct json_object *experts = json_object_new_object();
    EVP_MD_CTX *all = EVP_MD_CTX_new();
    uint64_t blob_bytes, resident_bytes;
    char fingerprint[65], name[64];
    if (!all || EVP_DigestInit_ex(all, EVP_sha256(), NULL) != 1)
        fail("no SHA-256");
    list_resident(&m->list);
    json_object_put(resident_header(m, &resident_bytes));
    struct json_object *parts = list_parts(m, &blob_bytes);
    uint64_t layer_bytes = blob_bytes * m->shape.n_routed_experts;
    uint32_t distinct = choose_distinct(m, resident_bytes, layer_bytes);
    write_resident(m);
    add_record(resident, "resident.safetensors", m->out.bytes, m->out.sha256);
    if (EVP_DigestUpdate(all, m->out.sha256, 64) != 1)
        fail("no SHA-256");
    json_object_object_add(experts, "alignment", json_object_new_int(BLOB_ALIGNMENT));
    json_object_object_add(experts, "blob_bytes", json_object_new_uint64(blob_bytes));
    json_object_object_add(experts, "count", json_object_new_uint64(m->shape.n_routed_experts));
    json_object_object_add(experts, "parts", parts);
    json_object_object_add(experts, "layers", write_experts(m, distinct, layer_bytes, all));
    if (!file_hash_hex(all, fingerprint))
        fail("no SHA-256");
    EVP_MD_CTX_free(all);
    snprintf(name, sizeof name, "synthetic %s", m->shape.model_type);
    json_object_object_add(manifest, "format", json_object_new_string("moechat-model"));
    json_object_object_add(manifest, "version", json_object_new_int(1));
    json_object_object_add(manifest, "name", json_object_new_string(name));
    json_object_object_add(manifest, "config", json_object_get(config));
    json_object_object_add(manifest, "resident", resident);
    json_object_object_add(manifest, "experts", experts);
    json_object_object_add(manifest, "weights_fingerprint", json_object_new_string(fingerprint));
    write_manifest(m, manifest);
    json_object_put(manifest);
    write_tokens(m);
}

static double number(const char *text, double least, double most)
{
    char *end;
    double value = strtod(text, &end);
    if (*end || !(value >= least && value <= most))
        fail("%s is not a number from %g to %g", text, least, most);
    return value;
}

static struct options read_options(int argc, char **argv)
{
    static const struct option names[] = {{"layers", required_argument, NULL, 'l'},
                                          {"distinct", required_argument, NULL, 'd'},
                                          {"bits", required_argument, NULL, 'b'},
                                          {"skew", required_argument, NULL, 's'},
                                          {"correlation", required_argument, NULL, 'c'},
                                          {"seed", required_argument, NULL, 'r'},
                                          {NULL, 0, NULL, 0}};
    struct options o = {.bits = 4, .skew = 0.5, .correlation = 0.5, .seed = 1};
    for (int c; (c = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        if (c == 'l')
            o.layers = (uint32_t)number(optarg, 1, 4096);
        else if (c == 'd')
            o.distinct = (uint32_t)number(optarg, 1, 4096);
        else if (c == 'b')
            o.bits = number(optarg, 4, 8) < 6 ? 4 : 8;
        else if (c == 's')
            o.skew = number(optarg, 0, 10);
        else if (c == 'c')
            o.correlation = number(optarg, 0, 0.99);
        else if (c == 'r')
            o.seed = (uint64_t)number(optarg, 0, 1e15);
        else
            exit(2);
    }
    if (optind + 2 != argc) {
        fprintf(stderr, "usage: synthetic CONFIG.json OUTDIR [--layers N] [--distinct K] [--bits 4|8] [--skew S] "
                        "[--correlation C] [--seed N]\n");
        exit(2);
    }
    o.config = argv[optind];
    o.out = argv[optind + 1];
    return o;
}

// The first of them: their number, and what lists them.
static void keep_layers(struct json_object *config, uint32_t layers)
{
    struct json_object *types = json_object_object_get(config, "layer_types");
    struct json_object *linear = json_object_object_get(config, "linear_attn_config");
    static const char *const lists[] = {"full_attn_layers", "kda_layers"}; // ascending, from 1 on
    json_object_object_add(config, "num_hidden_layers", json_object_new_int((int)layers));
    if (types && json_object_array_length(types) > layers)
        json_object_array_del_idx(types, layers, json_object_array_length(types) - layers);
    for (int i = 0; linear && i < 2; i++) {
        struct json_object *list = json_object_object_get(linear, lists[i]);
        size_t n = list ? json_object_array_length(list) : 0;
        while (n && json_object_get_int64(json_object_array_get_idx(list, n - 1)) > layers)
            json_object_array_del_idx(list, --n, 1);
    }
}

int main(int argc, char **argv)
{
    struct options options = read_options(argc, argv);
    struct maker m = {.options = &options, .random = options.seed};
    struct moe_err err = {.text = ""};
    struct json_object *config = json_object_from_file(options.config);
    if (!config)
        fail("%s: %s", options.config, json_util_get_last_err());
    struct json_object *text = json_object_object_get(config, "text_config");
    if (options.layers)
        keep_layers(text ? text : config, options.layers);
    if (shape_read(config, options.config, &m.shape, &err))
        fail("%s", err.text);
    m.words = malloc(sizeof *m.words * (BUFFER_WORDS + 2));
    if (!m.words)
        fail("no memory");
    m.list.shape = &m.shape;
    m.list.bits = options.bits;
    if (mkdir(options.out, 0777) && errno != EEXIST)
        fail("%s: %s", options.out, strerror(errno));
    make_package(&m, config);
    json_object_put(config);
    free(m.list.tensors);
    free(m.words);
    return 0;
}
