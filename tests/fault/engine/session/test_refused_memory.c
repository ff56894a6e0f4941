// SPDX-License-Identifier: GPL-3.0-or-later
// Each allocation of the program's own refused once, one after the other, while tokenizers and models open and do some
// work, and models are converted: it is said, or all is as ever, and nothing that was taken on the way is left behind.
// The linker sends the calls of our own objects through here, those of libraries not: of json-c's, what it is asked to
// make is refused as a whole.
#include <json-c/json.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "engine/moe.h"
#include "tests/folder_rig.h"
#include "tests/harness.h"
#include "tokenizer/tok.h"

enum { MOST_LIVE = 1 << 16 }; // a power of 2
#ifdef __SANITIZE_ADDRESS__
enum { SLOWER = 4 };
#else
enum { SLOWER = 1 };
#endif

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *live[MOST_LIVE]; // what was taken and not given back, an open hash table
static unsigned n_live;
static long calls, refused_at = -1; // of those that may be refused, since `arm`
static bool armed, with_json;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
int __real_posix_memalign(void **memory, size_t alignment, size_t bytes);
char *__real_strdup(const char *text);
void __real_free(void *memory);
struct json_object *__real_json_object_new_object(void);
struct json_object *__real_json_object_new_array(void);
struct json_object *__real_json_object_new_string(const char *text);
struct json_object *__real_json_object_new_uint64(uint64_t number);
struct json_object *__real_json_object_new_int64(int64_t number);
struct json_object *__real_json_object_new_double(double number);
struct json_object *__real_json_object_new_boolean(json_bool flag);
int __real_json_object_object_add(struct json_object *to, const char *key, struct json_object *value);
int __real_json_object_array_add(struct json_object *to, struct json_object *value);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t bytes);
char *__wrap_strdup(const char *text);
void __wrap_free(void *memory);
struct json_object *__wrap_json_object_new_object(void);
struct json_object *__wrap_json_object_new_array(void);
struct json_object *__wrap_json_object_new_string(const char *text);
struct json_object *__wrap_json_object_new_uint64(uint64_t number);
struct json_object *__wrap_json_object_new_boolean(json_bool flag);
struct json_object *__wrap_json_object_new_double(double number);
struct json_object *__wrap_json_object_new_int64(int64_t number);
int __wrap_json_object_object_add(struct json_object *to, const char *key, struct json_object *value);
int __wrap_json_object_array_add(struct json_object *to, struct json_object *value);

static size_t home_of(const void *memory)
{
    return ((uintptr_t)memory >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 40 & (MOST_LIVE - 1);
}

static bool is_refused(void)
{
    pthread_mutex_lock(&lock);
    bool refused = armed && calls++ == refused_at;
    pthread_mutex_unlock(&lock);
    return refused;
}

static void *taken(void *memory)
{
    pthread_mutex_lock(&lock);
    if (memory && armed && n_live < MOST_LIVE / 2) {
        size_t at = home_of(memory);
        while (live[at])
            at = (at + 1) & (MOST_LIVE - 1);
        live[at] = memory;
        n_live++;
    }
    pthread_mutex_unlock(&lock);
    return memory;
}

// Those behind it move up.
static void given_back(const void *memory)
{
    pthread_mutex_lock(&lock);
    size_t at = home_of(memory);
    while (live[at] && live[at] != memory)
        at = (at + 1) & (MOST_LIVE - 1);
    if (memory && live[at]) {
        n_live--;
        live[at] = NULL;
        for (size_t next = (at + 1) & (MOST_LIVE - 1); live[next]; next = (next + 1) & (MOST_LIVE - 1)) {
            void *moved = live[next];
            size_t home = home_of(moved);
            live[next] = NULL;
            while (live[home])
                home = (home + 1) & (MOST_LIVE - 1);
            live[home] = moved;
        }
    }
    pthread_mutex_unlock(&lock);
}

void *__wrap_malloc(size_t bytes)
{
    return is_refused() ? NULL : taken(__real_malloc(bytes));
}

void *__wrap_calloc(size_t n, size_t bytes)
{
    return is_refused() ? NULL : taken(__real_calloc(n, bytes));
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    if (is_refused())
        return NULL;
    given_back(memory);
    return taken(__real_realloc(memory, bytes));
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return is_refused() ? NULL : taken(__real_aligned_alloc(alignment, bytes));
}

int __wrap_posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    int failed = is_refused() ? 12 : __real_posix_memalign(memory, alignment, bytes); // ENOMEM
    if (!failed)
        taken(*memory);
    return failed;
}

char *__wrap_strdup(const char *text)
{
    return is_refused() ? NULL : taken(__real_strdup(text));
}

void __wrap_free(void *memory)
{
    given_back(memory);
    __real_free(memory);
}

struct json_object *__wrap_json_object_new_object(void)
{
    return with_json && is_refused() ? NULL : __real_json_object_new_object();
}

struct json_object *__wrap_json_object_new_array(void)
{
    return with_json && is_refused() ? NULL : __real_json_object_new_array();
}

struct json_object *__wrap_json_object_new_string(const char *text)
{
    return with_json && is_refused() ? NULL : __real_json_object_new_string(text);
}

struct json_object *__wrap_json_object_new_uint64(uint64_t number)
{
    return with_json && is_refused() ? NULL : __real_json_object_new_uint64(number);
}

struct json_object *__wrap_json_object_new_int64(int64_t number)
{
    return with_json && is_refused() ? NULL : __real_json_object_new_int64(number);
}

struct json_object *__wrap_json_object_new_double(double number)
{
    return with_json && is_refused() ? NULL : __real_json_object_new_double(number);
}

struct json_object *__wrap_json_object_new_boolean(json_bool flag)
{
    return with_json && is_refused() ? NULL : __real_json_object_new_boolean(flag);
}

// As where the name can't be copied: the value is the caller's still.
int __wrap_json_object_object_add(struct json_object *to, const char *key, struct json_object *value)
{
    return with_json && is_refused() ? -1 : __real_json_object_object_add(to, key, value);
}

int __wrap_json_object_array_add(struct json_object *to, struct json_object *value)
{
    return with_json && is_refused() ? -1 : __real_json_object_array_add(to, value);
}

static void arm(long at)
{
    pthread_mutex_lock(&lock);
    calls = 0;
    refused_at = at;
    armed = true;
    pthread_mutex_unlock(&lock);
}

// Of how many calls, since `arm`.
static long disarm(void)
{
    pthread_mutex_lock(&lock);
    armed = false;
    pthread_mutex_unlock(&lock);
    return calls;
}

// ---- Work, of which the same comes each time or a code
// --------------------------------------------------------------

struct work {
    const char *type, *path;        // type NULL: a model
    moe_model *model;               // that is open, NULL: it is opened each time
    int (*does)(struct work *work); // NULL: it answers
    uint64_t sum;                   // of what came of it
    char text[512];                 // why nothing did
    bool json;                      // what json-c makes is refused, too
};

static void add_to_sum(struct work *work, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        work->sum = (work->sum ^ ((const unsigned char *)bytes)[i]) * 1099511628211u;
}

static int encode(struct work *work)
{
    static const char text[] =
        "Two words, \xC3\xA9 \xE4\xB8\xAD\xE6\x96\x87\n\tand 1234567 <|end|> \xF0\x9F\x98\x80 a\xCC\x81 "
        "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghij\xFF";
    tok *tokenizer = NULL;
    struct tok_err err = {0};
    struct tok_ids ids = {0};
    int code = tok_open(work->type, work->path, &tokenizer, &err);
    if (!code)
        code = tok_encode(tokenizer, text, sizeof text - 1, &ids, &err);
    if (!code)
        add_to_sum(work, ids.ids, ids.count * sizeof *ids.ids);
    snprintf(work->text, sizeof work->text, "%s", code ? err.text : "");
    tok_ids_release(&ids);
    tok_close(tokenizer);
    return code == TOK_NO_MEMORY ? MOE_NO_MEMORY : code ? MOE_FORMAT : MOE_OK;
}

// A prompt in groups and a token, saved in three records and read into another session.
static int answer(struct work *work, moe_model *model, struct moe_err *err)
{
    struct moe_session_options how = {.max_context = 64, .prefill_chunk = 3, .prefill_group = 6, .snapshot_every = 6};
    bool states = moe_model_describe(model)->state_bytes > 0;
    FILE *file = tmpfile();
    struct moe_record_io io = {.fd = file ? fileno(file) : -1, .path = "records"};
    struct moe_record records[2];
    int32_t ids[10];
    moe_session *session = NULL, *again = NULL;
    for (int i = 0; i < 10; i++)
        ids[i] = 5 + 7 * i;
    struct moe_feed feed = {.ids = ids, .count = 10, .borders = {4}};
    struct moe_record_part part = {.count = 4};
    int code = moe_session_open(model, &how, &session, err);
    if (!code)
        code = moe_session_prefill(session, &feed, err);
    if (!code)
        code = moe_session_decode(session, 3, err);
    part.states = states && !code && moe_session_floor(session, 4) == 4; // copies that have no memory are done without
    if (!code)
        code = moe_session_write_record(session, &io, &part, &records[0], err);
    if (!code) {
        part = (struct moe_record_part){records[0].bytes, 4, 7, moe_session_logits(session, NULL), states, 0};
        code = moe_session_write_record(session, &io, &part, &records[1], err);
    }
    if (!code)
        code = moe_session_open(model, &how, &again, err);
    for (int i = 0; i < 2 && !code; i++)
        code = moe_session_read_record(again, &io, &records[i], err);
    if (!code)
        code = moe_session_truncate(again, 11, err);
    if (!code)
        code = moe_session_decode(again, 8, err);
    if (!code)
        add_to_sum(work, moe_session_logits(again, NULL), moe_model_describe(model)->vocab_size * sizeof(float));
    moe_session_close(session);
    moe_session_close(again);
    if (file)
        fclose(file);
    return code;
}

static int open_and_answer(struct work *work)
{
    struct moe_model_options options = {.device = "ref", .readers = 1, .io = MOE_IO_BUFFERED, .context = 64};
    struct moe_err err = {0};
    moe_model *model = work->model;
    int code = model ? MOE_OK : moe_model_open(work->path, &options, &model, &err);
    if (!code)
        code = answer(work, model, &err);
    snprintf(work->text, sizeof work->text, "%s", code ? err.text : "");
    if (!work->model)
        moe_model_close(model);
    return code;
}

// Its manifest has the checksums of all else; it is there when it succeeds, and only then.
static int convert(struct work *work)
{
    static char folder[] = "/tmp/moechat-refused-XXXXXX";
    char target[64], partial[80];
    struct moe_err err = {0};
    bool made = mkdtemp(folder) != NULL;
    snprintf(target, sizeof target, "%s/package", folder);
    snprintf(partial, sizeof partial, "%s/package.partial", folder);
    int code = moe_convert(work->path, target, &(struct moe_convert_options){.threads = 1}, &err);
    snprintf(work->text, sizeof work->text, "%s", code ? err.text : "");
    char manifest[96], bytes[4096];
    snprintf(manifest, sizeof manifest, "%s/model.json", target);
    FILE *file = fopen(manifest, "rb");
    for (size_t n = 1; file && (n = fread(bytes, 1, sizeof bytes, file)) > 0;)
        add_to_sum(work, bytes, n);
    if (!file != !!code)
        code = MOE_FORMAT;
    if (file)
        fclose(file);
    made_remove(target);
    made_remove(partial);
    if (made)
        rmdir(folder);
    snprintf(folder + strlen(folder) - 6, 7, "XXXXXX");
    return code;
}

static void add_description(struct work *work, const struct moe_description *about)
{
    const uint64_t facts[] = {about->n_layers,
                              about->n_moe_layers,
                              about->top_k,
                              about->q_lora_rank,
                              about->v_head_dim,
                              about->max_position_embeddings,
                              about->n_eos,
                              about->parameters,
                              about->resident_bytes,
                              about->kv_row_bytes_f32,
                              about->all_experts_bytes,
                              about->package_bytes};
    const double suggested[] = {about->suggestion.temperature, about->suggestion.top_p, about->suggestion.min_p};
    add_to_sum(work, about->model_type, strlen(about->model_type));
    add_to_sum(work, about->template_name, strlen(about->template_name));
    add_to_sum(work, &about->bos_token_id, sizeof about->bos_token_id);
    add_to_sum(work, about->eos_token_ids, about->n_eos * sizeof *about->eos_token_ids);
    add_to_sum(work, facts, sizeof facts);
    add_to_sum(work, suggested, sizeof suggested);
}

// As `moechat info` looks at a file or folder, before its download too, and at its vocabulary.
static int look(struct work *work)
{
    static struct moe_description about; // large
    struct moe_vocabulary *vocabulary = NULL;
    struct moe_err err = {0};
    memset(&about, 0, sizeof about);
    int code = moe_inspect(work->path, &about, &err);
    if (!code)
        add_description(work, &about);
    if (!code && strstr(work->path, "gguf-chat"))
        code = moe_vocabulary_open(work->path, &vocabulary, &err);
    if (!code)
        code = moe_verify(work->path, NULL, NULL, &err);
    moe_vocabulary_close(vocabulary);
    snprintf(work->text, sizeof work->text, "%s", code ? err.text : "");
    return code;
}

static int do_work(struct work *work)
{
    work->sum = 14695981039346656037u;
    return work->type ? encode(work) : work->does ? work->does(work) : open_and_answer(work);
}

// One of each `step`, from the first on.
static void refuse_each(struct harness *t, struct work work, long first, long step)
{
    enum { LEAST = 5 };
    long said = 0;
    with_json = work.json;
    arm(-1);
    if (!CHECK_EQ(t, do_work(&work), MOE_OK))
        printf("    %s: %s\n", work.path, work.text);
    CHECK_EQ(t, n_live, 0);
    uint64_t want = work.sum;
    long all = disarm();
    for (long n = first % step; n < all; n += step) {
        unsigned before = n_live;
        arm(n);
        int code = do_work(&work);
        disarm();
        said += code == MOE_NO_MEMORY;
        bool good = code ? code == MOE_NO_MEMORY && work.text[0] && !strchr(work.text, '\n') : work.sum == want;
        if (!CHECK(t, good) || !CHECK_EQ(t, n_live, before))
            printf("    %s, allocation %ld: %d, %s\n", work.path, n, code, work.text);
    }
    CHECK(t, said * step >= LEAST);
}

static void tokenizers_say_it(struct harness *t)
{
    static const struct work works[] = {{.type = "sentencepiece", .path = "tests/unit/data/small.model"},
                                        {.type = "huggingface", .path = "tests/unit/data/bpe-v3.json"},
                                        {.type = "huggingface", .path = "tests/unit/data/bpe-qwen.json"},
                                        {.type = "tiktoken", .path = "tests/unit/data/kimi/tiktoken.model"}};
    for (size_t i = 0; i < sizeof works / sizeof *works; i++)
        refuse_each(t, works[i], 0, 1);
}

// All of a session's where that is quick, and some of those that open its model; all of them took 15 s, and passed.
static void models_say_it(struct harness *t)
{
    static const struct {
        const char *path;
        long opening, session; // of so many allocations one is refused
    } models[] = {{"tests/golden/tiny-a/package", 7, 3},
                  {"tests/golden/gguf-legacy/checkpoint", 15, 8},
                  {"tests/golden/ck-qwen35moe-mlx/checkpoint", 11, 1}};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct moe_model_options options = {.device = "ref", .readers = 1, .io = MOE_IO_BUFFERED, .context = 64};
        struct work work = {.path = models[i].path};
        refuse_each(t, work, 3 * (long)i, models[i].opening * SLOWER);
        if (CHECK_EQ(t, moe_model_open(work.path, &options, &work.model, NULL), MOE_OK))
            refuse_each(t, work, (long)i, models[i].session * SLOWER);
        moe_model_close(work.model);
    }
}

static void looks_say_it(struct harness *t)
{
    static const char *const paths[] = {"tests/golden/tiny-a/package", "tests/golden/gguf-chat/checkpoint",
                                        "tests/golden/gguf-qwen35moe/checkpoint",
                                        "tests/golden/ck-kimi-k3-mlx/checkpoint"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        refuse_each(t, (struct work){.path = paths[i], .does = look, .json = true}, (long)i, (i < 2 ? 1 : 3) * SLOWER);
}

static void conversions_say_it(struct harness *t)
{
    refuse_each(t, (struct work){.path = "tests/golden/ck-glm/checkpoint", .does = convert, .json = true}, 0,
                2 * SLOWER);
    refuse_each(t, (struct work){.path = "tests/golden/gguf-v2-lite-q4km/checkpoint", .does = convert}, 1, 2 * SLOWER);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(tokenizers_say_it), TEST(models_say_it), TEST(looks_say_it),
                                                TEST(conversions_say_it)};
    return HARNESS_RUN(tests, argc, argv);
}
