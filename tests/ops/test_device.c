// SPDX-License-Identifier: GPL-3.0-or-later
// Devices, buffers, fences, sticky errors and the cache of kernel binaries.
#include "tests/ops/rig.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

static struct rigs rigs; // opened once: building kernels takes seconds

static void lists(struct harness *t)
{
    struct gpu_info infos[4];
    unsigned n = gpu_list(infos, 4);
    CHECK(t, n >= 1);
    CHECK_STR(t, infos[0].selector, "ref");
    CHECK_EQ(t, infos[0].kind, GPU_KIND_REF);
    for (unsigned i = 0; i < n && i < 4; i++)
        CHECK(t, infos[i].global_bytes > 0 && infos[i].max_alloc_bytes > 0 && infos[i].name[0]);
    CHECK_EQ(t, gpu_list(NULL, 0), n);
}

static void refuses_unknown_devices(struct harness *t)
{
    static const char *const selectors[] = {"77", "no such thing"};
    for (int i = 0; i < 2; i++) {
        struct gpu_error err = {0};
        CHECK(t, gpu_open(&(struct gpu_options){.selector = selectors[i]}, &err) == NULL);
        CHECK_EQ(t, err.code, GPU_NO_DEVICE);
        CHECK(t, rigs.n < 2 || strstr(err.text, selectors[i]) != NULL);
    }
}

static void finds_devices_by_what_is_listed(struct harness *t)
{
    struct gpu_info infos[2];
    if (!CHECK(t, gpu_list(infos, 2) > 1))
        return;
    const char *const selectors[] = {infos[1].selector, infos[1].name, infos[1].platform};
    for (int i = 0; i < 3; i++) {
        struct gpu_error err = {0};
        gpu *g = gpu_open(&(struct gpu_options){.selector = selectors[i]}, &err);
        if (CHECK(t, g != NULL))
            CHECK_STR(t, gpu_describe(g)->selector, infos[1].selector);
        gpu_close(g);
    }
}

static void aligned_memory(struct harness *t)
{
    for (unsigned d = 0; d < rigs.n; d++) {
        gpu *g = rigs.items[d].g;
        struct gpu_error err = {0};
        void *host = gpu_host_alloc(g, 10000, &err);
        gpu_buf *buf = gpu_buf_new(g, 10001, &err);
        CHECK(t, host && (uintptr_t)host % 4096 == 0);
        CHECK(t, buf && gpu_buf_bytes(buf) == 10001);
        CHECK(t, gpu_describe(g)->shares_host_memory == (gpu_buf_host(buf) != NULL));
        CHECK(t, (uintptr_t)gpu_buf_host(buf) % 4096 == 0);
        CHECK(t, gpu_buf_new(g, 1ull << 60, &err) == NULL && err.code == GPU_OUT_OF_MEMORY);
        gpu_buf_free(buf);
        gpu_host_free(g, host);
    }
}

// Writes of every size between ops, from memory that is overwritten at once.
static void writes_keep_order(struct harness *t)
{
    enum { N = 9 << 20 };
    for (unsigned d = 0; d < rigs.n; d++) {
        gpu *g = rigs.items[d].g;
        struct gpu_error err = {0};
        char *source = must(malloc(N));
        char *got = must(malloc(N));
        memset(source, 1, N);
        gpu_buf *a = upload(g, source, N);
        gpu_buf *b = upload(g, source, N);
        gpu_buf *c = upload(g, source, N);
        gpu_op_copy(g, &(struct args_copy){N}, a, b);
        memset(source, 2, N);
        gpu_write(g, a, 0, source, N);
        memset(source, 3, N);
        gpu_write(g, a, 5, source, 1000);
        memset(source, 4, N);
        gpu_op_copy(g, &(struct args_copy){N}, a, c);
        gpu_write(g, a, 0, source, N);
        CHECK_EQ(t, gpu_read(g, b, 0, got, N, &err), 0);
        CHECK(t, got[0] == 1 && got[N - 1] == 1);
        CHECK_EQ(t, gpu_read(g, c, 0, got, N, &err), 0);
        CHECK(t, got[4] == 2 && got[5] == 3 && got[1004] == 3 && got[1005] == 2 && got[N - 1] == 2);
        CHECK_EQ(t, gpu_read(g, a, 0, got, N, &err), 0);
        CHECK(t, got[0] == 4 && got[5] == 4 && got[N - 1] == 4);
        gpu_buf_free(a), gpu_buf_free(b), gpu_buf_free(c);
        free(source), free(got);
    }
}

static void fences_pass_in_order(struct harness *t)
{
    for (unsigned d = 0; d < rigs.n; d++) {
        gpu *g = rigs.items[d].g;
        struct gpu_error err = {0};
        float zero[1024] = {0};
        gpu_buf *a = upload(g, zero, sizeof zero);
        gpu_buf *b = upload(g, zero, sizeof zero);
        uint64_t last = gpu_fence(g);
        uint64_t first = 0;
        for (int i = 0; i < 200; i++) {
            gpu_op_copy(g, &(struct args_copy){sizeof zero}, a, b);
            uint64_t fence = gpu_fence(g);
            CHECK(t, fence > last);
            first = first ? first : fence;
            last = fence;
        }
        gpu_fence_wait(g, first);
        CHECK(t, gpu_fence_passed(g, first));
        uint64_t waits = gpu_counters(g).waits;
        gpu_fence_wait(g, first); // once more: not for those behind it
        CHECK_EQ(t, gpu_counters(g).waits, waits);
        gpu_fence_wait(g, last);
        CHECK(t, gpu_fence_passed(g, last) && gpu_fence_passed(g, first + 50));
        gpu_op_copy(g, &(struct args_copy){sizeof zero}, a, b);
        uint64_t fence = gpu_fence(g);
        CHECK_EQ(t, gpu_read(g, b, 0, zero, sizeof zero, &err), 0);
        CHECK(t, gpu_fence_passed(g, fence));
        CHECK_EQ(t, gpu_finish(g, &err), 0);
        CHECK(t, gpu_counters(g).launches >= 201);
        gpu_buf_free(a), gpu_buf_free(b);
    }
}

// One wrong call each; nothing may be written, the first error stays until it is reported.
static void refuses_wrong_shapes(struct harness *t)
{
    struct args_matrix shape = {.in_dim = 64, .out_dim = 8, .kind = KIND_MLX_4, .group_size = 32};
    struct test_matrices m = random_matrices(shape, 1, 5);
    for (unsigned d = 0; d < rigs.n; d++) {
        gpu *g = rigs.items[d].g;
        float *data = poisoned(64);
        gpu_buf *matrix = upload(g, m.bytes, m.size);
        gpu_buf *x = upload(g, data, 64 * 4);
        gpu_buf *y = upload(g, data, 64 * 4);
        struct args_matmul good = {.matrix = m.at[0], .n_rows = 1, .in_stride = 64, .out_stride = 8};
        for (int wrong = 0; wrong < 14; wrong++) {
            struct args_matmul a = good;
            switch (wrong) {
            case 0:
                a.matrix.kind = KIND_NONE;
                break;
            case 1:
                a.matrix.group_size = 0;
                break;
            case 2:
                a.matrix.group_size = 48;
                break;
            case 3:
                a.matrix.in_dim = 80;
                break;
            case 4:
                a.matrix.out_dim = 9;
                break;
            case 5:
                a.matrix.weight += 2;
                break;
            case 6:
                a.matrix.biases += 4;
                break;
            case 7:
                a.matrix.scales = UINT64_MAX - 3;
                break;
            case 8:
                a.in_offset = 1;
                break;
            case 9:
                a.out_offset = 57;
                break;
            case 10:
                a.in_offset = UINT32_MAX;
                break;
            case 11:
                a.n_rows = 2;
                break;
            case 12:
                a.n_rows = UINT32_MAX, a.out_stride = UINT32_MAX;
                break;
            default:
                a.matrix.in_dim = 0;
                break;
            }
            struct gpu_error err = {0};
            gpu_op_matmul(g, &a, matrix, x, y);
            gpu_op_matmul(g, &good, matrix, x, y); // must not run: an error is kept
            CHECK_EQ(t, gpu_read(g, y, 0, data, 64 * 4, &err), GPU_ARGUMENT);
            CHECK(t, strstr(err.text, "matmul") != NULL);
            CHECK_EQ(t, gpu_check(g, &err), 0);
            float *got = download(g, y);
            CHECK(t, got && memcmp(got, data, 64 * 4) == 0);
            free(got);
        }
        gpu_op_matvec(g, &(struct args_matmul){.matrix = m.at[0], .n_rows = 2}, matrix, x, y);
        CHECK_EQ(t, gpu_check(g, NULL), GPU_ARGUMENT);
        gpu_op_matmul(g, &good, NULL, x, y);
        CHECK_EQ(t, gpu_check(g, NULL), GPU_ARGUMENT);
        gpu_op_kv_append(
            g, &(struct args_kv_append){.n_rows = 2, .kv_lora_rank = 8, .rope_dim = 8, .in_stride = 16, .position = 3},
            &(struct gpu_kv_append_bufs){x, x, x, y, NULL});
        CHECK_EQ(t, gpu_check(g, NULL), GPU_ARGUMENT);
        gpu_op_router(g, &(struct args_router){.n_rows = 1, .n_experts = 8, .n_group = 3, .topk_group = 1, .top_k = 1},
                      &(struct gpu_router_bufs){x, x, y, y});
        CHECK_EQ(t, gpu_check(g, NULL), GPU_ARGUMENT);
        gpu_write(g, y, 250, data, 8);
        CHECK_EQ(t, gpu_check(g, NULL), GPU_ARGUMENT);
        CHECK_EQ(t, gpu_read(g, y, 256, data, 1, NULL), GPU_ARGUMENT);
        gpu_op_matmul(g, &good, matrix, x, y);
        CHECK_EQ(t, gpu_finish(g, NULL), 0);
        gpu_buf_free(matrix), gpu_buf_free(x), gpu_buf_free(y);
        free(data);
    }
    free(m.bytes);
}

struct steps {
    unsigned calls, last, total, backwards;
    bool builds; // told before any kernel was there
};

static void count_step(void *context, const char *what, unsigned done, unsigned total)
{
    struct steps *steps = context;
    steps->calls++;
    steps->builds = steps->builds || strcmp(what, "kernels") == 0;
    steps->backwards += done < steps->last || done > total || !what[0];
    steps->last = done;
    steps->total = total;
}

// The one file of a folder; false when there is not exactly one.
static int only_file(const char *folder, char *path, size_t bytes)
{
    int n = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (entry->d_name[0] != '.' && ++n)
            snprintf(path, bytes, "%s/%s", folder, entry->d_name);
    if (dir)
        closedir(dir);
    return n == 1;
}

static int open_with_cache(const char *folder, struct steps *steps)
{
    struct gpu_error err = {0};
    struct gpu_options options = {
        .selector = "0", .cache_dir = folder, .always_cache = true, .progress = count_step, .progress_context = steps};
    gpu *g = gpu_open(&options, &err);
    if (!g)
        printf("    %s\n", err.text);
    int good = g != NULL;
    gpu_close(g);
    return good;
}

static void damage(const char *path, long at)
{
    FILE *file = fopen(path, "r+b");
    if (file && fseek(file, at, at < 0 ? SEEK_END : SEEK_SET) == 0)
        fputc('#', file);
    if (file)
        fclose(file);
}

// A driver that refuses the kernels for tensor cores gets those without, and nobody is left to wonder at the speed.
static void what_is_done_without_is_named(struct harness *t)
{
    struct gpu_error err = {0};
    struct gpu_options options = {.selector = "cpu", .warm_late = true};
    gpu *as_usual = gpu_open_shape(&options, GPU_SHAPE_GPU, &err);
    options.refuse_mma = true;
    gpu *without = gpu_open_shape(&options, GPU_SHAPE_GPU, &err);
    if (CHECK(t, as_usual && without)) {
        CHECK(t, !strstr(gpu_describe(as_usual)->name, "tensor cores"));
        CHECK(t, strstr(gpu_describe(without)->name, "(its driver builds no kernels for tensor cores)") != NULL);
    }
    gpu_close(without);
    gpu_close(as_usual);
}

// Two products of a normed row, in several groups each.
static float *normed_products(gpu *g, const struct test_matrices *m, const float *x)
{
    uint32_t in = m->at[0].in_dim, out = m->at[0].out_dim;
    float *blank = poisoned(2 * (size_t)out);
    gpu_buf *matrix = upload(g, m->bytes, m->size), *row = upload(g, x, in * sizeof *x);
    gpu_buf *normed = upload(g, x, in * sizeof *x), *y = upload(g, blank, 2 * (size_t)out * sizeof *blank);
    struct args_norm_matvecs a = {
        .matrix = {m->at[0], m->at[1]}, .out_offset = {0, out}, .n = 2, .eps = 1e-6f, .plus_one = 1};
    gpu_op_norm_matvecs(g, &a, &(struct gpu_norm_matvecs_bufs){row, row, normed, {matrix, matrix}, {y, y}});
    float *got = download(g, y);
    gpu_buf_free(matrix), gpu_buf_free(row), gpu_buf_free(normed), gpu_buf_free(y);
    free(blank);
    return got;
}

// Launches that pass all in one struct compute what those do that pass their arguments one by one.
static void calls_are_launches(struct harness *t)
{
    const struct args_matrix shape = {.in_dim = 384, .out_dim = 2048, .kind = KIND_MLX_4, .group_size = 64};
    struct gpu_error err = {0};
    struct gpu_options options = {.selector = "cpu", .warm_late = true};
    gpu *in_one = gpu_open_shape(&options, GPU_SHAPE_CPU, &err);
    options.apart = true;
    gpu *apart = gpu_open_shape(&options, GPU_SHAPE_CPU, &err);
    struct test_matrices m = random_matrices(shape, 2, 9);
    float *x = random_floats(shape.in_dim, 10);
    if (CHECK(t, in_one && apart)) {
        bool pocl = strstr(gpu_describe(in_one)->platform, "Portable Computing Language");
        CHECK_EQ(t, in_one->program.calls[KERNEL_NORM_MATVECS] != NULL, pocl);
        CHECK(t, !apart->program.calls[KERNEL_NORM_MATVECS]);
        float *one = normed_products(in_one, &m, x), *other = normed_products(apart, &m, x);
        CHECK(t, one && other && memcmp(one, other, 2 * sizeof *one * shape.out_dim) == 0);
        free(one), free(other);
    }
    gpu_close(in_one);
    gpu_close(apart);
    free(m.bytes), free(x);
}

static void caches_kernels(struct harness *t)
{
    if (!CHECK(t, rigs.n > 1))
        return;
    char parent[] = "/tmp/moechat-kernels-XXXXXX";
    CHECK(t, mkdtemp(parent) != NULL);
    char folder[64];
    char path[512] = "";
    snprintf(folder, sizeof folder, "%s/a/b", parent);
    struct steps steps = {0};
    CHECK(t, open_with_cache(folder, &steps));
    CHECK(t, steps.calls > 2 && steps.backwards == 0 && steps.last == steps.total && steps.builds);
    struct stat st = {0};
    CHECK(t, stat(folder, &st) == 0 && (st.st_mode & 0777) == 0700);
    CHECK(t, only_file(folder, path, sizeof path));
    CHECK(t, stat(path, &st) == 0 && (st.st_mode & 0777) == 0600);
    off_t size = st.st_size;
    ino_t made = st.st_ino;
    CHECK(t, size > 1000);
    steps = (struct steps){0};
    CHECK(t, open_with_cache(folder, &steps) && steps.backwards == 0 && steps.total == 0 && !steps.builds);
    CHECK(t, stat(path, &st) == 0 && st.st_ino == made); // used, not replaced
    static const long places[] = {3, 20, 200, -1};
    for (int i = 0; i < 4; i++) { // a damaged file costs a build and is replaced
        damage(path, places[i]);
        CHECK(t, stat(path, &st) == 0);
        made = st.st_ino;
        CHECK(t, open_with_cache(folder, &(struct steps){0}));
        CHECK(t, only_file(folder, path, sizeof path));
        CHECK(t, stat(path, &st) == 0 && st.st_ino != made);
    }
    CHECK(t, truncate(path, size / 2) == 0);
    CHECK(t, open_with_cache(folder, &(struct steps){0}));
    CHECK(t, stat(path, &st) == 0 && st.st_size > size / 2);
    CHECK(t, unlink(path) == 0 && mkfifo(path, 0600) == 0); // nobody will ever write into it
    CHECK(t, open_with_cache(folder, &(struct steps){0}));
    CHECK(t, stat(path, &st) == 0 && S_ISREG(st.st_mode));
    // Code that others may have written is not run: it is built anew.
    made = st.st_ino;
    CHECK(t, chmod(path, 0622) == 0);
    CHECK(t, open_with_cache(folder, &(struct steps){0}));
    CHECK(t, stat(path, &st) == 0 && st.st_ino != made && (st.st_mode & 0777) == 0600);
    // Nor is anything kept, or taken, where others may put it.
    CHECK(t, unlink(path) == 0 && chmod(folder, 0777) == 0);
    CHECK(t, open_with_cache(folder, &(struct steps){0}));
    CHECK(t, stat(path, &st) != 0);
    unlink(path);
    rmdir(folder);
    snprintf(folder, sizeof folder, "%s/a", parent);
    rmdir(folder);
    CHECK(t, rmdir(parent) == 0);
}

struct names {
    char text[4096];
    unsigned done, total;
};

static void keep_name(void *context, const char *what, unsigned done, unsigned total)
{
    struct names *names = context;
    size_t used = strlen(names->text);
    snprintf(names->text + used, sizeof names->text - used, "%s ", what);
    names->done = done;
    names->total = total;
}

// A model of grouped attention waits for no kernel of latent attention, of lists or of states.
static void makes_ready_what_a_model_needs(struct harness *t)
{
    if (!CHECK(t, rigs.n > 1))
        return;
    struct gpu_error err = {0};
    struct names some = {0}, all = {0};
    struct gpu_options options = {
        .selector = "0", .mixers = USE_GROUPS, .progress = keep_name, .progress_context = &some};
    gpu *g = gpu_open(&options, &err);
    CHECK(t, g && some.done == some.total);
    gpu_close(g);
    options.mixers = 0;
    options.progress_context = &all;
    g = gpu_open(&options, &err);
    CHECK(t, g && all.done == all.total && strlen(all.text) > strlen(some.text));
    gpu_close(g);
    static const char *const others[] = {"attention_tiles ", "index_scores ", "list_tiles ", "delta ", "q_prime "};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        CHECK(t, strstr(all.text, others[i]) && !strstr(some.text, others[i]));
    CHECK(t, strstr(some.text, "gqa_tiles ") && strstr(some.text, "matvec "));
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(lists),
        TEST(refuses_unknown_devices),
        TEST(finds_devices_by_what_is_listed),
        TEST(aligned_memory),
        TEST(writes_keep_order),
        TEST(fences_pass_in_order),
        TEST(refuses_wrong_shapes),
        TEST(what_is_done_without_is_named),
        TEST(calls_are_launches),
        TEST(caches_kernels),
        TEST(makes_ready_what_a_model_needs),
    };
    rigs = open_rigs();
    int failed = HARNESS_RUN(tests, argc, argv);
    close_rigs(&rigs);
    return failed;
}
