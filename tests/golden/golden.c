// SPDX-License-Identifier: GPL-3.0-or-later
// Compares a model's logits and hidden states with those that transformers computed.
//
//     golden DIR [--device D] [--convert MOECHAT] [--chunk N]...
//
// Without --chunk: 1 (the decode kernels), 7, 64 and the default. With --convert a checkpoint's folder is also made
// into a package by `MOECHAT convert`, in a temporary folder, and that is compared; a folder that can't be opened as it
// is must say so and name convert.
//
// DIR holds golden.json {"model": package or checkpoint folder relative to DIR, "n_tokens", "vocab_size",
// "hidden_size", "n_layers", "rows": positions with whole rows, "top": positions with the 64 largest; optional are
// "parameters": of the model, "prompts": lengths of prompts that stand one after another in all the rest, "group_size":
// what convert is told, "single": the last tokens of each prompt that are decoded, "seed": for tokens that
// follow from it}; tokens.txt, ids between spaces, where there is no seed; and little-endian arrays: rows.f32 [rows,
// vocab], hidden.f32 (optional) [layers + 1, tokens, hidden], the stream after the embedding and after each layer; when
// "top" is not empty top_ids.i32 and top_values.f32 [top, 64], descending, and top_lse.f32 [top], the log-sum-exp of
// the whole row.
#include <ftw.h>
#include <getopt.h>
#include <json-c/json.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/moe.h"

enum { TOP = 64, MAX_CHUNKS = 16, MAX_PROMPTS = 16 };

static const double least_cosine = 0.999999;
static const double most_difference = 0.0005; // of the largest |logit|; of a stage's largest |value| for hidden states
static const double decisive_margin = 0.001;  // of the largest |logit|: from here on the argmax must agree

struct golden {
    char directory[1024];
    const char *name;
    char model[2048];
    uint32_t n_tokens, vocab, hidden_size, n_layers;
    uint64_t parameters;           // 0: not given
    unsigned group_size;           // that convert is told; 0: none
    uint32_t single;               // decoded
    uint32_t prompts[MAX_PROMPTS]; // lengths, n_tokens together
    size_t n_prompts;
    size_t n_rows, n_top;
    int32_t *ids;         // [n_tokens]
    int32_t *row_of;      // [n_tokens] index of the position's whole row, -1: none
    int32_t *top_of;      // [n_tokens] likewise of its 64 largest
    float *rows, *hidden; // hidden may be NULL
    int32_t *top_ids;
    float *top_values, *top_lse;
    double largest; // |logit|
};

// What one feed differed by.
struct comparison {
    const struct golden *golden;
    uint32_t first;           // token of the prompt being fed
    size_t positions, states; // compared
    double cosine, difference;
    double hidden; // the largest of the stages' relative differences
    double *stage_difference, *stage_largest;
    size_t other_argmax, first_other;
    bool finite;
    uint64_t hash; // of all rows' bits
};

static void *fail(const char *what, const char *where)
{
    fprintf(stderr, "golden: %s: %s\n", where, what);
    exit(2);
}

static void *numbers(const struct golden *g, const char *name, size_t count, bool optional)
{
    char path[2048];
    snprintf(path, sizeof path, "%s/%s", g->directory, name);
    FILE *file = fopen(path, "rb");
    if (!file && optional)
        return NULL;
    float *values = malloc(count * sizeof *values + 1);
    if (!file || !values || fread(values, sizeof *values, count, file) != count || fgetc(file) != EOF)
        return fail("not there, or not as long as golden.json says", path);
    fclose(file);
    return values;
}

static uint32_t field(struct json_object *root, const char *key)
{
    int64_t value = json_object_get_int64(json_object_object_get(root, key));
    return value > 0 && value < 1 << 24 ? (uint32_t)value : *(uint32_t *)fail("missing or absurd in golden.json", key);
}

// For each token its place in the list of positions at key, or -1.
static int32_t *places(const struct golden *g, struct json_object *root, const char *key, size_t *count)
{
    struct json_object *list = json_object_object_get(root, key);
    int32_t *place = malloc(g->n_tokens * sizeof *place);
    *count = json_object_array_length(list);
    for (uint32_t i = 0; i < g->n_tokens; i++)
        place[i] = -1;
    for (size_t i = 0; i < *count; i++) {
        int64_t position = json_object_get_int64(json_object_array_get_idx(list, i));
        if (position < 0 || position >= g->n_tokens)
            fail("a position outside the tokens", key);
        place[position] = (int32_t)i;
    }
    return place;
}

// make_long.py has the same.
static void draw_tokens(struct golden *g, uint32_t seed)
{
    for (uint32_t i = 0; i < g->n_tokens; i++) {
        seed = seed * 1664525 + 1013904223;
        g->ids[i] = (int32_t)((seed >> 16) % g->vocab);
    }
}

static void read_tokens(struct golden *g)
{
    char path[2048];
    snprintf(path, sizeof path, "%s/tokens.txt", g->directory);
    FILE *file = fopen(path, "r");
    for (uint32_t i = 0; i < g->n_tokens; i++)
        if (!file || fscanf(file, "%d", &g->ids[i]) != 1)
            fail("fewer tokens than golden.json says", path);
    fclose(file);
}

static void read_prompts(struct golden *g, struct json_object *root)
{
    struct json_object *list = json_object_object_get(root, "prompts");
    uint64_t sum = 0;
    g->n_prompts = list ? json_object_array_length(list) : 1;
    if (g->n_prompts < 1 || g->n_prompts > MAX_PROMPTS)
        fail("too many or no prompts", g->directory);
    for (size_t i = 0; i < g->n_prompts; i++) {
        g->prompts[i] = list ? (uint32_t)json_object_get_int(json_object_array_get_idx(list, i)) : g->n_tokens;
        sum += g->prompts[i];
    }
    if (sum != g->n_tokens)
        fail("the prompts are not as long together as all tokens", g->directory);
}

static void read_golden(struct golden *g)
{
    char path[2048];
    snprintf(path, sizeof path, "%s/golden.json", g->directory);
    struct json_object *root = json_object_from_file(path);
    if (!root)
        fail("cannot be read", path);
    const char *slash = strrchr(g->directory, '/');
    g->name = slash ? slash + 1 : g->directory;
    const char *model = json_object_get_string(json_object_object_get(root, "model"));
    snprintf(g->model, sizeof g->model, "%s/%s", g->directory, model ? model : "");
    g->n_tokens = field(root, "n_tokens");
    g->vocab = field(root, "vocab_size");
    g->hidden_size = field(root, "hidden_size");
    g->n_layers = field(root, "n_layers");
    g->group_size = (unsigned)json_object_get_int(json_object_object_get(root, "group_size"));
    g->parameters = json_object_get_uint64(json_object_object_get(root, "parameters"));
    g->row_of = places(g, root, "rows", &g->n_rows);
    g->top_of = places(g, root, "top", &g->n_top);
    read_prompts(g, root);
    g->single = (uint32_t)json_object_get_int(json_object_object_get(root, "single"));
    g->ids = malloc(g->n_tokens * sizeof *g->ids);
    if (json_object_object_get(root, "seed"))
        draw_tokens(g, field(root, "seed"));
    else
        read_tokens(g);
    json_object_put(root);
    g->rows = numbers(g, "rows.f32", g->n_rows * g->vocab, false);
    g->hidden = numbers(g, "hidden.f32", (size_t)(g->n_layers + 1) * g->n_tokens * g->hidden_size, true);
    if (g->n_top) {
        g->top_ids = numbers(g, "top_ids.i32", g->n_top * TOP, false);
        g->top_values = numbers(g, "top_values.f32", g->n_top * TOP, false);
        g->top_lse = numbers(g, "top_lse.f32", g->n_top, false);
    }
    for (size_t i = 0; i < g->n_rows * g->vocab; i++)
        g->largest = fmax(g->largest, fabs((double)g->rows[i]));
    for (size_t i = 0; i < g->n_top * TOP; i++) {
        if (g->top_ids[i] < 0 || (uint32_t)g->top_ids[i] >= g->vocab)
            fail("an id outside the vocabulary", "top_ids.i32");
        g->largest = fmax(g->largest, fabs((double)g->top_values[i]));
    }
}

static void free_golden(struct golden *g)
{
    void *all[] = {g->ids, g->row_of, g->top_of, g->rows, g->hidden, g->top_ids, g->top_values, g->top_lse};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

// Takes `count` values of ours, at ids or in order when ids is NULL, against the reference's.
static void compare_values(struct comparison *c, const float *got, const int32_t *ids, const float *want, size_t count)
{
    double dot = 0;
    double got_norm = 0;
    double want_norm = 0;
    for (size_t i = 0; i < count; i++) {
        double g = (double)got[ids ? (size_t)ids[i] : i];
        double w = (double)want[i];
        c->finite &= isfinite(g) != 0;
        dot += g * w;
        got_norm += g * g;
        want_norm += w * w;
        c->difference = fmax(c->difference, fabs(g - w));
    }
    c->cosine = fmin(c->cosine, dot / sqrt(got_norm * want_norm));
}

static size_t largest_at(const float *row, size_t count)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (row[i] > row[best])
            best = i;
    return best;
}

static double log_sum_exp(const float *row, size_t count)
{
    double top = (double)row[largest_at(row, count)];
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += exp((double)row[i] - top);
    return top + log(sum);
}

// The reference's best id and how far the second is behind it.
static void check_argmax(struct comparison *c, uint32_t position, const float *logits, size_t best, double margin)
{
    if (margin <= decisive_margin * c->golden->largest || largest_at(logits, c->golden->vocab) == best)
        return;
    if (c->other_argmax++ == 0)
        c->first_other = position;
}

static uint64_t hash_bits(uint64_t hash, const float *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        hash = (hash ^ bits) * 0x100000001b3U;
    }
    return hash;
}

static int on_row(void *context, uint32_t position, const float *logits)
{
    struct comparison *c = context;
    const struct golden *g = c->golden;
    c->hash = hash_bits(c->hash, logits, g->vocab);
    position += c->first;
    if (position >= g->n_tokens)
        return MOE_BAD_ARGUMENT;
    if (g->row_of[position] >= 0) {
        const float *want = g->rows + (size_t)g->row_of[position] * g->vocab;
        size_t best = largest_at(want, g->vocab);
        double second = -INFINITY;
        for (size_t i = 0; i < g->vocab; i++)
            second = i == best ? second : fmax(second, (double)want[i]);
        compare_values(c, logits, NULL, want, g->vocab);
        check_argmax(c, position, logits, best, (double)want[best] - second);
        c->positions++;
    }
    if (g->top_of[position] >= 0) {
        size_t at = (size_t)g->top_of[position];
        const float *want = g->top_values + at * TOP;
        compare_values(c, logits, g->top_ids + at * TOP, want, TOP);
        check_argmax(c, position, logits, (size_t)g->top_ids[at * TOP], (double)want[0] - (double)want[1]);
        c->difference = fmax(c->difference, fabs(log_sum_exp(logits, g->vocab) - (double)g->top_lse[at]));
        c->positions++;
    }
    return MOE_OK;
}

static void on_hidden(void *context, uint32_t stage, uint32_t position, uint32_t rows, const float *hidden)
{
    struct comparison *c = context;
    const struct golden *g = c->golden;
    position += c->first;
    if (!g->hidden || stage > g->n_layers || rows > g->n_tokens || position > g->n_tokens - rows)
        return;
    const float *want = g->hidden + ((size_t)stage * g->n_tokens + position) * g->hidden_size;
    for (size_t i = 0; i < (size_t)rows * g->hidden_size; i++) {
        c->finite &= isfinite(hidden[i]) != 0;
        c->stage_difference[stage] = fmax(c->stage_difference[stage], fabs((double)hidden[i] - (double)want[i]));
        c->stage_largest[stage] = fmax(c->stage_largest[stage], fabs((double)want[i]));
    }
    c->states += rows;
}

static bool judge(struct comparison *c)
{
    const struct golden *g = c->golden;
    size_t states = g->hidden ? (size_t)(g->n_layers + 1) * g->n_tokens : 0;
    printf("    cosine 1 - %.1e, difference %.5f %% of %.2f", 1 - c->cosine, 100 * c->difference / g->largest,
           g->largest);
    for (uint32_t stage = 0; g->hidden && stage <= g->n_layers; stage++) {
        double relative = c->stage_difference[stage] / c->stage_largest[stage];
        c->hidden = fmax(c->hidden, relative);
        printf("%s%.1e", stage ? " " : ", hidden states by stage ", relative);
    }
    printf("\n");
    if (c->positions != g->n_rows + g->n_top || c->states != states)
        printf("    compared %zu of %zu positions, %zu of %zu states\n", c->positions, g->n_rows + g->n_top, c->states,
               states);
    if (c->other_argmax)
        printf("    another argmax at %zu positions, first %zu\n", c->other_argmax, c->first_other);
    if (!c->finite)
        printf("    not all numbers are finite\n");
    return c->finite && c->positions == g->n_rows + g->n_top && c->states == states && c->other_argmax == 0 &&
           c->cosine >= least_cosine && c->difference <= most_difference * g->largest && c->hidden <= most_difference;
}

// A prompt: at once, but for its last tokens where the golden says that they are decoded.
static int feed_prompt(const struct golden *g, moe_session *session, struct moe_feed feed, struct moe_err *err)
{
    uint32_t end = (uint32_t)feed.count;
    feed.count -= g->single < end ? g->single : 0;
    int code = moe_session_prefill(session, &feed, err);
    for (uint32_t at = (uint32_t)feed.count; at < end && !code; at++) {
        code = moe_session_decode(session, feed.ids[at], err);
        const float *logits = code ? NULL : moe_session_logits(session, err);
        code = logits ? feed.on_row(feed.context, at, logits) : (int)err->code;
    }
    return code;
}

// Each prompt in a session of its own.
static int feed_prompts(moe_model *model, uint32_t chunk, struct comparison *c, struct moe_err *err)
{
    const struct golden *g = c->golden;
    int code = MOE_OK;
    for (size_t i = 0; i < g->n_prompts && !code; c->first += g->prompts[i++]) {
        struct moe_session_options options = {.max_context = g->prompts[i], .prefill_chunk = chunk};
        struct moe_feed feed = {.ids = g->ids + c->first, .count = g->prompts[i], .on_row = on_row, .context = c};
        feed.on_hidden = g->hidden ? on_hidden : NULL;
        moe_session *session = NULL;
        code = moe_session_open(model, &options, &session, err);
        if (!code)
            code = feed_prompt(g, session, feed, err);
        moe_session_close(session);
    }
    return code;
}

// Returns also a hash of every logit's bits.
static bool check_chunk(const struct golden *g, moe_model *model, const char *label, uint32_t chunk, uint64_t *hash)
{
    char number[16] = "default";
    if (chunk)
        snprintf(number, sizeof number, "%u", chunk);
    struct comparison c = {.golden = g, .cosine = 1, .finite = true};
    c.stage_difference = calloc(g->n_layers + 1, sizeof *c.stage_difference);
    c.stage_largest = calloc(g->n_layers + 1, sizeof *c.stage_largest);
    struct moe_err err = {.text = ""};
    bool good = false;
    if (feed_prompts(model, chunk, &c, &err))
        printf("    %s\n", err.text);
    else
        good = judge(&c);
    printf("%s %s chunk %s\n", good ? "PASS" : "FAIL", label, number);
    fflush(stdout);
    *hash = c.hash;
    free(c.stage_difference);
    free(c.stage_largest);
    return good;
}

struct check {
    const struct golden *golden;
    const char *device;
    uint32_t chunks[MAX_CHUNKS];
    int n_chunks;
    uint64_t hashes[MAX_CHUNKS]; // of the model that was checked last
};

static bool check_model(struct check *check, const char *folder, const char *label)
{
    const struct golden *g = check->golden;
    struct moe_model_options options = {.device = check->device};
    struct moe_err err;
    moe_model *model;
    if (moe_model_open(folder, &options, &model, &err)) {
        printf("    %s\nFAIL %s opens\n", err.text, label);
        return false;
    }
    const struct moe_description *d = moe_model_describe(model);
    bool good = d->vocab_size == g->vocab && d->hidden_size == g->hidden_size && d->n_layers == g->n_layers &&
                (g->parameters == 0 || d->parameters == g->parameters);
    if (!good)
        printf("    the folder is another model, or its parameters are counted wrongly\nFAIL %s opens\n", label);
    int passed = 0;
    for (int i = 0; good && i < check->n_chunks; i++)
        passed += check_chunk(g, model, label, check->chunks[i], &check->hashes[i]);
    moe_model_close(model);
    return good && passed == check->n_chunks;
}

// What cannot be opened as it is says what can be done.
static bool check_refusal(const struct check *check, const char *label)
{
    struct moe_model_options options = {.device = check->device};
    struct moe_err err;
    moe_model *model;
    bool good = false;
    if (moe_model_open(check->golden->model, &options, &model, &err) == MOE_OK)
        moe_model_close(model);
    else
        good = strstr(err.text, "moechat convert") != NULL;
    printf("%s %s says that it is to be converted\n", good ? "PASS" : "FAIL", label);
    return good;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info, (void)kind, (void)at;
    return remove(path);
}

static bool convert(const char *program, const char *from, const char *to, unsigned group_size)
{
    int status = -1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (!freopen("/dev/null", "w", stdout))
            _exit(126);
        char number[16];
        snprintf(number, sizeof number, "%u", group_size);
        execl(program, program, "convert", from, to, "--group-size", group_size ? number : "auto", (char *)NULL);
        _exit(127);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool check_converted(struct check *check, const char *program, const char *label)
{
    char folder[] = "/tmp/moechat-golden-XXXXXX";
    char package[64];
    if (!mkdtemp(folder))
        fail("no temporary folder", folder);
    snprintf(package, sizeof package, "%s/package", folder);
    bool good = convert(program, check->golden->model, package, check->golden->group_size);
    if (good)
        good = check_model(check, package, label);
    else
        printf("FAIL %s: no package came of it\n", label);
    nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    return good;
}

// The package, or a checkpoint as it is and by way of convert.
static bool check_all(struct check *check, const char *program)
{
    const struct golden *g = check->golden;
    const char *device = check->device ? check->device : "device";
    struct moe_description description;
    struct moe_err err;
    char label[160];
    if (moe_inspect(g->model, &description, &err)) {
        printf("    %s\nFAIL %s opens\n", err.text, g->name);
        return false;
    }
    snprintf(label, sizeof label, "%.60s %.40s", g->name, device);
    bool good = description.runs ? check_model(check, g->model, label) : check_refusal(check, label);
    if (!program)
        return good;
    uint64_t hashes[MAX_CHUNKS];
    memcpy(hashes, check->hashes, sizeof hashes);
    snprintf(label, sizeof label, "%.60s %.40s converted", g->name, device);
    good &= check_converted(check, program, label);
    if (description.runs) {
        bool same = memcmp(hashes, check->hashes, sizeof hashes) == 0;
        printf("%s %s gives the folder's bits\n", same ? "PASS" : "FAIL", label);
        good &= same;
    }
    return good;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"device", required_argument, NULL, 'd'},
                                            {"chunk", required_argument, NULL, 'c'},
                                            {"convert", required_argument, NULL, 'v'},
                                            {NULL, 0, NULL, 0}};
    struct golden golden = {.name = ""};
    struct check check = {.golden = &golden, .chunks = {1, 7, 64, 0}};
    const char *program = NULL;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == 'd')
            check.device = optarg;
        else if (option == 'v')
            program = optarg;
        else if (option == 'c' && check.n_chunks < MAX_CHUNKS)
            check.chunks[check.n_chunks++] = (uint32_t)strtoul(optarg, NULL, 10);
        else
            return 2;
    }
    if (optind + 1 != argc) {
        fprintf(stderr, "usage: golden DIR [--device D] [--convert MOECHAT] [--chunk N]...\n");
        return 2;
    }
    if (!check.n_chunks)
        check.n_chunks = 4;
    snprintf(golden.directory, sizeof golden.directory, "%s", argv[optind]);
    size_t length = strlen(golden.directory);
    while (length > 1 && golden.directory[length - 1] == '/')
        golden.directory[--length] = '\0';
    read_golden(&golden);
    bool good = check_all(&check, program);
    free_golden(&golden);
    return good ? 0 : 1;
}
