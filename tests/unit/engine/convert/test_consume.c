// SPDX-License-Identifier: GPL-3.0-or-later
// convert with consume: whatever stops it wherever, a layer's experts are whole in the package or whole in the source,
// and the package that comes of it in the end is the one of a plain conversion.
#define _GNU_SOURCE // fallocate
#include <fcntl.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "engine/walk/weights.h"
#include "tests/convert_rig.h"

#define GGUF "tests/golden/gguf-sizes/checkpoint"       // one file, two layers of different kinds
#define MLX  "tests/golden/ck-v3-groups-mlx/checkpoint" // shards; a layer with 8-bit experts
#define BF16 "tests/golden/ck-glm/checkpoint"
#define FP8  "tests/golden/ck-v3-groups/checkpoint"
#define INT4 "tests/golden/ck-k25/checkpoint"

static unsigned char *whole_file(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    struct stat status;
    if (!file || fstat(fileno(file), &status))
        exit(70);
    unsigned char *data = made_memory((size_t)status.st_size);
    *bytes = fread(data, 1, (size_t)status.st_size, file);
    fclose(file);
    return data;
}

// Copies a folder's files to `source`.
static void copy_source(const char *from)
{
    DIR *folder = opendir(from);
    made_remove(source);
    mkdir(source, 0700);
    for (struct dirent *entry = folder ? readdir(folder) : NULL; entry; entry = readdir(folder)) {
        char path[400];
        size_t bytes;
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%.200s", from, entry->d_name);
        unsigned char *data = whole_file(path, &bytes);
        snprintf(path, sizeof path, "%s/%.200s", source, entry->d_name);
        FILE *file = fopen(path, "wb");
        if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file))
            exit(70);
        free(data);
    }
    if (folder)
        closedir(folder);
}

// ---- Disturbances of what is removed

struct removal {
    struct disturbance writes;        // first: it is what disturbed_write takes
    int punches, before_at, after_at; // the process dies before or after which one, counted from 1; 0: never
    int error;                        // errno of all, or
    int error_at;                     // of that one and what follows; 0: they work
    bool refuses;                     // the answer
    struct moe_consumption heard;     // its texts are gone afterwards
    bool named;                       // they were the ones that were given
    bool without_direct, said;        // as moe_convert_options; that it was said
    unsigned resident_bits;           // as moe_convert_options
    char heard_text[200];
};

static int disturbed_punch(void *context, int fd, uint64_t offset, uint64_t bytes)
{
    struct removal *r = context;
    r->punches++;
    if (r->punches == r->before_at)
        _exit(9);
    errno = r->error;
    int code = r->error && r->punches >= r->error_at
                   ? -1
                   : fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes);
    if (r->punches == r->after_at)
        _exit(9);
    return code;
}

static bool answer(void *context, const struct moe_consumption *what)
{
    struct removal *r = context;
    r->heard = *what;
    r->named = strcmp(what->target, target) == 0 && strncmp(what->source, source, strlen(source)) == 0;
    return !r->refuses;
}

static void take_notice(void *context, const char *text)
{
    struct removal *r = context;
    if (!strstr(text, "direct I/O"))
        return;
    r->said = true;
    snprintf(r->heard_text, sizeof r->heard_text, "%s", text);
}

static int consume(struct removal *r, struct moe_err *err)
{
    const struct moe_convert_options options = {.threads = 2,
                                                .consume = true,
                                                .resident_bits = r->resident_bits,
                                                .confirm = answer,
                                                .context = r,
                                                .write = disturbed_write,
                                                .write_context = &r->writes,
                                                .punch = disturbed_punch,
                                                .notice = take_notice,
                                                .without_direct = r->without_direct,
                                                .punch_context = r};
    return convert(source, &options, err);
}

// Of a layer of the source: are its experts as they were in `from`, are they all zero? The file's other bytes must be
// as they were, always.
struct state {
    bool whole, gone;
};

static struct state state_of(struct harness *t, const char *from, uint32_t layer)
{
    struct state state = {true, true};
    struct package p;
    struct moe_err err;
    if (!CHECK_EQ(t, package_open(from, &p, &err), 0))
        return state;
    for (uint32_t i = 0; i < p.layers[layer].n_spans; i++) {
        const struct expert_span *span = &p.layers[layer].spans[i];
        uint64_t bytes = span->bytes * p.shape.n_routed_experts;
        unsigned char *a = made_memory(bytes), *b = made_memory(bytes), *zero = made_memory(bytes);
        char path[400];
        snprintf(path, sizeof path, "%s%s", source, strrchr(p.files[span->file].path, '/'));
        made_read(p.files[span->file].path, span->offset, a, bytes);
        made_read(path, span->offset, b, bytes);
        state.whole &= memcmp(a, b, bytes) == 0;
        state.gone &= memcmp(zero, b, bytes) == 0;
        free(a), free(b), free(zero);
    }
    package_release(&p);
    return state;
}

// What is no expert's is as it was.
static void the_rest_is_there(struct harness *t, const char *from)
{
    struct package a, b;
    struct moe_err err;
    if (!CHECK_EQ(t, package_open(from, &a, &err), 0) || !CHECK_EQ(t, package_open(source, &b, &err), 0))
        return;
    for (size_t i = 0; i < a.checkpoint->count; i++) {
        const struct checkpoint_tensor *x = &a.checkpoint->tensors[i], *y = &b.checkpoint->tensors[i];
        if (checkpoint_is_routed(x))
            continue;
        unsigned char *p = made_memory(x->at->bytes), *q = made_memory(x->at->bytes);
        CHECK_EQ(t, checkpoint_read(a.checkpoint, &(struct checkpoint_range){x, 0, x->at->bytes}, p, &err), 0);
        CHECK_EQ(t, checkpoint_read(b.checkpoint, &(struct checkpoint_range){y, 0, x->at->bytes}, q, &err), 0);
        CHECK(t, memcmp(p, q, x->at->bytes) == 0);
        free(p), free(q);
    }
    package_release(&a);
    package_release(&b);
}

static void nothing_is_lost(struct harness *t, const char *from)
{
    struct package p;
    struct moe_err err;
    if (!CHECK_EQ(t, package_open(from, &p, &err), 0))
        return;
    for (uint32_t layer = p.shape.first_k_dense_replace; layer < p.shape.n_layers; layer++) {
        char name[32];
        snprintf(name, sizeof name, "layer-%03u.experts", layer);
        bool packed = same_file(undisturbed, partial, name) || same_file(undisturbed, target, name);
        CHECK(t, packed || state_of(t, from, layer).whole);
    }
    package_release(&p);
    the_rest_is_there(t, from);
}

// ---- Tests

static void the_package_is_the_same_and_the_source_is_empty(struct harness *t)
{
    static const char *const folders[] = {GGUF, MLX};
    for (int i = 0; i < 2; i++) {
        struct removal r = {.punches = 0};
        struct moe_err err;
        make_undisturbed(t, folders[i]);
        copy_source(folders[i]);
        if (!CHECK_EQ(t, consume(&r, &err), 0)) {
            printf("    %s\n", err.text);
            continue;
        }
        CHECK(t, same_folder(undisturbed, target));
        CHECK(t, r.named && r.heard.n_files > 0 && r.heard.bytes > 10000);
        struct package p;
        CHECK_EQ(t, package_open(folders[i], &p, &err), 0);
        for (uint32_t layer = p.shape.first_k_dense_replace; layer < p.shape.n_layers; layer++)
            CHECK(t, state_of(t, folders[i], layer).gone);
        package_release(&p);
        the_rest_is_there(t, folders[i]);
        clear(); // and what is gone is not taken for weights
        fails(t, convert(source, NULL, &err), MOE_FORMAT, &err, "given up by convert --consume");
    }
}

// A child that is killed where `r` says; then the same command, to the end.
static void kill_and_go_on(struct harness *t, const char *from, struct removal r)
{
    struct removal rest = {.punches = 0};
    struct moe_err err;
    clear();
    copy_source(from);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(consume(&r, &err) ? 1 : 0);
    int status = 0;
    CHECK(t, child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 9);
    nothing_is_lost(t, from);
    if (!CHECK_EQ(t, consume(&rest, &err), 0))
        printf("    %s\n", err.text);
    CHECK(t, same_folder(undisturbed, target));
}

static void killed_anywhere_nothing_is_lost(struct harness *t)
{
    static const char *const folders[] = {GGUF, MLX};
    for (int i = 0; i < 2; i++) {
        struct removal all = {.punches = 0};
        struct moe_err err;
        make_undisturbed(t, folders[i]);
        copy_source(folders[i]);
        CHECK_EQ(t, consume(&all, &err), 0);
        CHECK(t, all.punches > 6 && all.writes.writes > 10);
        for (int at = 1; at <= all.punches; at += i ? 3 : 1) {
            kill_and_go_on(t, folders[i], (struct removal){.before_at = at});
            kill_and_go_on(t, folders[i], (struct removal){.after_at = at});
        }
        for (int at = 1; at <= all.writes.writes; at += i ? 7 : 3)
            kill_and_go_on(t, folders[i], (struct removal){.writes = {.write_at = at}});
    }
}

static void what_does_not_read_back_stays_in_the_source(struct harness *t)
{
    struct removal r = {.writes = {.flip = true, .within = "layer-000"}}, rest = {.punches = 0};
    struct moe_err err;
    char path[200];
    make_undisturbed(t, GGUF);
    copy_source(GGUF);
    fails(t, consume(&r, &err), MOE_FORMAT, &err, "layer-000.experts: does not read back as it was written");
    CHECK(t, state_of(t, GGUF, 0).whole && state_of(t, GGUF, 1).whole);
    fails(t, consume(&rest, &err), MOE_FORMAT, &err, "does not read back"); // nor the next time
    CHECK(t, state_of(t, GGUF, 0).whole);
    snprintf(path, sizeof path, "%s/layer-000.experts", partial);
    CHECK_EQ(t, unlink(path), 0);
    CHECK_EQ(t, consume(&rest, &err), 0);
    CHECK(t, same_folder(undisturbed, target));
}

static void flip_byte(const char *path)
{
    FILE *file = fopen(path, "r+b");
    if (!file)
        exit(70);
    int byte = fgetc(file);
    rewind(file);
    if (fputc(byte ^ 1, file) == EOF || fclose(file))
        exit(70);
}

// Stopped between two pieces of a layer, the package has what the source has no more: nobody is told to remove it.
static void what_is_half_removed_is_kept(struct harness *t)
{
    struct removal second_fails = {.error_at = 3, .error = EIO}, rest = {.punches = 0};
    struct moe_err err;
    char path[200];
    make_undisturbed(t, GGUF);
    copy_source(GGUF);
    CHECK_EQ(t, consume(&second_fails, &err), MOE_IO);
    snprintf(path, sizeof path, "%s/layer-000.experts", partial);
    flip_byte(path);
    fails(t, consume(&rest, &err), MOE_FORMAT, &err, "and a part of it may be gone from the source already; keep");
    fails(t, convert(source, NULL, &err), MOE_BAD_ARGUMENT, &err, "so do not remove it");
    flip_byte(path);
    CHECK_EQ(t, consume(&rest, &err), 0);
    CHECK(t, same_folder(undisturbed, target));
}

// Flips a bit of the source's first tensor that stays.
static void change_what_stays(struct harness *t)
{
    struct package p;
    struct moe_err err;
    if (!CHECK_EQ(t, package_open(source, &p, &err), 0))
        return;
    const struct checkpoint_tensor *tensor = p.checkpoint->tensors;
    while (checkpoint_is_routed(tensor))
        tensor++;
    int fd = open(checkpoint_path(p.checkpoint, tensor), O_RDWR);
    unsigned char byte = 0;
    CHECK_EQ(t, pread(fd, &byte, 1, (off_t)tensor->at->offset), 1);
    byte ^= 1;
    CHECK_EQ(t, pwrite(fd, &byte, 1, (off_t)tensor->at->offset), 1);
    close(fd);
    package_release(&p);
}

// Another download of the same sizes in the place of the first: what was removed of that one is in no other.
static void another_source_is_not_mixed_in(struct harness *t)
{
    static const char *const folders[] = {GGUF, MLX};
    for (int i = 0; i < 2; i++) {
        struct removal all = {.punches = 0}, rest = all;
        struct moe_err err;
        make_undisturbed(t, folders[i]);
        clear();
        copy_source(folders[i]);
        CHECK_EQ(t, consume(&all, &err), 0);
        clear();
        copy_source(folders[i]);
        struct removal stops = {.error_at = all.punches, .error = EIO};
        CHECK_EQ(t, consume(&stops, &err), MOE_IO);
        change_what_stays(t);
        fails(t, consume(&rest, &err), MOE_BAD_ARGUMENT, &err, "is not the model that this conversion was begun with");
        CHECK_EQ(t, rest.punches, rest.heard.n_files); // behind their ends: can it be done?
        change_what_stays(t);
        CHECK_EQ(t, consume(&rest, &err), 0);
        CHECK(t, same_folder(undisturbed, target));
    }
}

// Flips a bit of each of the source's layers, in its last expert.
static void change_experts(struct harness *t)
{
    struct package p;
    struct moe_err err;
    if (!CHECK_EQ(t, package_open(source, &p, &err), 0))
        return;
    for (uint32_t layer = p.shape.first_k_dense_replace; layer < p.shape.n_layers; layer++) {
        const struct expert_span *span = &p.layers[layer].spans[0];
        off_t at = (off_t)(span->offset + span->bytes * (p.shape.n_routed_experts - 1));
        int fd = open(p.files[span->file].path, O_RDWR);
        unsigned char byte = 0;
        CHECK_EQ(t, pread(fd, &byte, 1, at), 1);
        byte ^= 1;
        CHECK_EQ(t, pwrite(fd, &byte, 1, at), 1);
        close(fd);
    }
    package_release(&p);
}

// The same with a download that differs in its experts alone: of those that were removed it has its own. The first
// one, come again, is as good as what was left of it.
static void other_experts_are_not_mixed_in(struct harness *t)
{
    struct removal all = {.punches = 0}, rest = all;
    struct moe_err err;
    make_undisturbed(t, GGUF);
    clear();
    copy_source(GGUF);
    CHECK_EQ(t, consume(&all, &err), 0);
    clear();
    copy_source(GGUF);
    struct removal stops = {.error_at = all.punches, .error = EIO};
    CHECK_EQ(t, consume(&stops, &err), MOE_IO);
    copy_source(GGUF);
    change_experts(t);
    fails(t, consume(&rest, &err), MOE_BAD_ARGUMENT, &err,
          "is not the model that this conversion was begun with; put that one back, or convert this one to another");
    CHECK_EQ(t, rest.punches, rest.heard.n_files);
    copy_source(GGUF);
    CHECK_EQ(t, consume(&rest, &err), 0);
    CHECK(t, same_folder(undisturbed, target));
}

static void a_damaged_source_keeps_what_follows(struct harness *t)
{
    struct removal r = {.punches = 0};
    struct package p;
    struct moe_err err;
    char path[400];
    unsigned char kept[4];
    make_undisturbed(t, GGUF);
    copy_source(GGUF);
    CHECK_EQ(t, package_open(GGUF, &p, &err), 0);
    const struct expert_span *up = &p.layers[1].spans[1];
    snprintf(path, sizeof path, "%s%s", source, strrchr(p.files[0].path, '/'));
    made_read(path, up->offset + 64, kept, 4);
    int fd = open(path, O_RDWR);
    CHECK_EQ(t, pwrite(fd, "\xff\xff\xff\x7f", 4, (off_t)up->offset + 64), 4); // no number
    fails(t, consume(&r, &err), MOE_BAD_NUMBERS, &err, "numbers that are not finite");
    CHECK(t, strstr(err.text, "layers.1.") || strstr(err.text, "blk.1."));
    CHECK(t, state_of(t, GGUF, 0).gone && !state_of(t, GGUF, 1).gone);
    CHECK_EQ(t, pwrite(fd, kept, 4, (off_t)up->offset + 64), 4);
    close(fd);
    CHECK_EQ(t, consume(&r, &err), 0);
    CHECK(t, same_folder(undisturbed, target));
    package_release(&p);
}

// In the copied source, an array of the first matrix that has this in its name reads as zeroes.
static void make_hole(struct harness *t, const char *from, const char *matrix, const char *array)
{
    struct package p;
    struct moe_err err;
    if (!CHECK_EQ(t, weights_open_package(from, &p, &err), 0))
        return;
    const struct checkpoint_tensor *tensor = p.checkpoint->tensors;
    while (!strstr(tensor->name, matrix) || !strstr(tensor->name, array))
        tensor++;
    char path[400];
    snprintf(path, sizeof path, "%s%s", source, strrchr(checkpoint_path(p.checkpoint, tensor), '/'));
    unsigned char *zero = made_memory(tensor->at->bytes);
    int fd = open(path, O_RDWR);
    CHECK_EQ(t, pwrite(fd, zero, tensor->at->bytes, (off_t)tensor->at->offset), (ssize_t)tensor->at->bytes);
    close(fd);
    free(zero);
    package_release(&p);
}

// A hole where all layers' other matrices are is found before anybody is asked and anything is made, whatever becomes
// of the matrix: copied, or quantised into numbers that are hardly any.
static void a_hole_in_the_rest_is_refused_first(struct harness *t)
{
    static const struct {
        const char *from, *array;
        unsigned resident_bits;
        bool consumes;
    } cases[] = {{GGUF, ".weight", 0, true}, {MLX, ".weight", 0, true},  {MLX, ".weight", 4, true},
                 {MLX, ".weight", 8, true},  {MLX, ".scales", 4, true},  {MLX, ".scales", 8, true},
                 {MLX, ".biases", 8, true},  {BF16, ".weight", 0, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct removal r = {.resident_bits = cases[i].resident_bits};
        const struct moe_convert_options plainly = {.threads = 2, .resident_bits = cases[i].resident_bits};
        struct moe_err err;
        clear();
        copy_source(cases[i].from);
        make_hole(t, cases[i].from, "o_proj", cases[i].array);
        if (cases[i].consumes)
            fails(t, consume(&r, &err), MOE_FORMAT, &err,
                  "is all zero, as in a file that was not downloaded to its end");
        CHECK(t, r.punches == 0 && !r.named && access(partial, F_OK) != 0);
        fails(t, convert(source, &plainly, &err), MOE_FORMAT, &err, "is all zero");
        CHECK(t, access(partial, F_OK) != 0 && access(target, F_OK) != 0);
    }
}

// An expert's, where experts are not copied as they are: quantised it would look like an expert.
static void a_hole_in_an_expert_is_refused(struct harness *t)
{
    static const struct {
        const char *from, *array;
    } cases[] = {{BF16, ".weight"},
                 {FP8, ".weight"},
                 {FP8, ".weight_scale_inv"},
                 {INT4, ".weight_packed"},
                 {INT4, ".weight_scale"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct moe_err err;
        clear();
        copy_source(cases[i].from);
        make_hole(t, cases[i].from, "experts.1.down_proj", cases[i].array);
        fails(t, convert(source, NULL, &err), MOE_BAD_NUMBERS, &err, "experts.1.down_proj.weight");
        CHECK(t, strstr(err.text, ": expert 1 is all zero, as in a file that was not downloaded to its end") != NULL);
        CHECK(t, access(target, F_OK) != 0);
    }
}

static void what_is_not_ours_to_remove_is_refused(struct harness *t)
{
    struct removal r = {.punches = 0};
    struct moe_err err;
    char path[400], other[400];
    clear();
    copy_source(GGUF);
    snprintf(path, sizeof path, "%s/sizes.gguf", source);
    snprintf(other, sizeof other, "%s/other", scratch);
    CHECK_EQ(t, link(path, other), 0);
    fails(t, consume(&r, &err), MOE_BAD_ARGUMENT, &err, "has a second name");
    CHECK_EQ(t, unlink(path) + symlink(other, path), 0);
    fails(t, consume(&r, &err), MOE_BAD_ARGUMENT, &err, "is a symbolic link");
    CHECK_EQ(t, unlink(path) + rename(other, path), 0);
    CHECK_EQ(t, chmod(path, 0444), 0);
    CHECK(t, consume(&r, &err) == MOE_BAD_ARGUMENT); // root can open it all the same
    CHECK_EQ(t, chmod(path, 0644), 0);
    if (geteuid() == 0) {
        CHECK_EQ(t, chown(path, 1, 1), 0);
        fails(t, consume(&r, &err), MOE_BAD_ARGUMENT, &err, "is another user's");
        CHECK_EQ(t, chown(path, 0, 0), 0);
    }
    r.error = EOPNOTSUPP;
    fails(t, consume(&r, &err), MOE_BAD_ARGUMENT, &err, "a file system that cannot take a piece out of a file");
    r.error = 0;
    r.refuses = true;
    fails(t, consume(&r, &err), MOE_CANCELLED, &err, "nothing was converted");
    CHECK(t, access(partial, F_OK) != 0 && state_of(t, GGUF, 0).whole && state_of(t, GGUF, 1).whole);
    copy_source(BF16);
    fails(t, consume(&r, &err), MOE_BAD_ARGUMENT, &err, "would be quantised");
}

// By the time of a file's last change a conversion that was begun knows its source.
static void a_no_changes_nothing(struct harness *t)
{
    struct removal r = {.refuses = true};
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1000000000, .tv_nsec = 5}};
    struct moe_err err;
    struct stat status;
    char path[400];
    clear();
    copy_source(GGUF);
    snprintf(path, sizeof path, "%s/sizes.gguf", source);
    CHECK_EQ(t, utimensat(AT_FDCWD, path, times, 0), 0);
    CHECK_EQ(t, consume(&r, &err), MOE_CANCELLED);
    CHECK_EQ(t, r.punches, 1); // whether the file system can, behind the end
    CHECK(t, stat(path, &status) == 0 && status.st_mtim.tv_sec == 1000000000 && status.st_mtim.tv_nsec == 5);
}

static void a_lost_file_is_said_to_be_lost(struct harness *t)
{
    struct removal r = {.writes = {.write_at = 1, .error = ENOSPC, .within = "layer-001"}};
    struct moe_err err;
    char path[200];
    clear();
    copy_source(GGUF);
    CHECK_EQ(t, consume(&r, &err), MOE_IO);
    CHECK(t, state_of(t, GGUF, 0).gone && state_of(t, GGUF, 1).whole);
    snprintf(path, sizeof path, "%s/layer-000.experts", partial);
    CHECK_EQ(t, truncate(path, 4096), 0);
    fails(t, consume(&r, &err), MOE_FORMAT, &err, "layer-000.experts is not there as it was written");
    CHECK(t, state_of(t, GGUF, 1).whole);
    fails(t, convert(source, NULL, &err), MOE_BAD_ARGUMENT, &err, "so do not remove it"); // it has what is nowhere else
}

// All that is not experts comes first: what is wrong with it is known while the source is whole.
static void the_rest_is_written_first(struct harness *t)
{
    struct removal fails_to_write = {.writes = {.write_at = 1, .error = ENOSPC, .within = "resident"}},
                   reads_otherwise = {.writes = {.flip = true, .within = "resident"}};
    struct moe_err err;
    clear();
    copy_source(GGUF);
    CHECK_EQ(t, consume(&fails_to_write, &err), MOE_IO);
    CHECK_EQ(t, fails_to_write.punches, 1); // behind the end of the file
    fails(t, consume(&reads_otherwise, &err), MOE_FORMAT, &err, "resident.gguf: does not read back");
    CHECK_EQ(t, reads_otherwise.punches, 1);
    CHECK(t, state_of(t, GGUF, 0).whole && state_of(t, GGUF, 1).whole);
}

// What is read back comes from the disk, or it is said that it may not.
static void reading_from_memory_is_said(struct harness *t)
{
    static const char words[] = "has no direct I/O";
    for (int without = 0; without < 2; without++) {
        struct removal r = {.punches = 0};
        struct moe_err err;
        clear();
        copy_source(GGUF);
        r.without_direct = without;
        CHECK_EQ(t, consume(&r, &err), 0);
        // as other file systems may be without, too
        int fd = open(source, O_RDONLY | O_DIRECTORY), file = openat(fd, "sizes.gguf", O_RDONLY | O_DIRECT);
        CHECK_EQ(t, r.said, without || file < 0);
        CHECK(t, !r.said || strstr(r.heard_text, words));
        close(file);
        close(fd);
    }
}

// However its path is written and from wherever, it is the same source.
static void a_path_may_be_written_otherwise(struct harness *t)
{
    struct removal r = {.writes = {.write_at = 1, .error = ENOSPC, .within = "layer-001"}};
    struct moe_err err;
    char was[sizeof source], here[400];
    clear();
    copy_source(GGUF);
    CHECK_EQ(t, consume(&r, &err), MOE_IO);
    CHECK(t, state_of(t, GGUF, 0).gone);
    memcpy(was, source, sizeof source);
    CHECK(t, getcwd(here, sizeof here) && chdir(scratch) == 0);
    snprintf(source, sizeof source, "./%s/.", strrchr(was, '/') + 1);
    r = (struct removal){.punches = 0};
    if (!CHECK_EQ(t, consume(&r, &err), 0))
        printf("    %s\n", err.text);
    memcpy(source, was, sizeof source);
    CHECK_EQ(t, chdir(here), 0);
    make_undisturbed(t, GGUF);
}

static void a_source_in_use_is_refused(struct harness *t)
{
    struct removal r = {.punches = 0};
    struct moe_err err;
    char path[400], other[100], was[16];
    clear();
    copy_source(GGUF);
    snprintf(path, sizeof path, "%s/sizes.gguf", source);
    int fd = open(path, O_RDWR);
    CHECK_EQ(t, flock(fd, LOCK_EX | LOCK_NB), 0);
    CHECK_EQ(t, prctl(PR_GET_NAME, was), 0);
    CHECK_EQ(t, prctl(PR_SET_NAME, "moechat"), 0);
    fails(t, consume(&r, &err), MOE_BAD_ARGUMENT, &err, "(moechat convert --consume), so its weights");
    CHECK_EQ(t, err.cause, MOE_CAUSE_CONSUMED);
    snprintf(other, sizeof other, "is being consumed by process %ld", (long)getpid());
    CHECK(t, strstr(err.text, other) || strstr(err.text, "is being consumed by another process")); // as /proc says
    struct package p;
    fails(t, package_open(source, &p, &err), MOE_BAD_ARGUMENT, &err, "wait for it, and use its package");
    // Another program that holds it takes nothing out of it, whatever it calls itself.
    CHECK_EQ(t, prctl(PR_SET_NAME, "back\033up"), 0);
    fails(t, package_open(source, &p, &err), MOE_BAD_ARGUMENT, &err, "consumed by");
    CHECK_EQ(t, prctl(PR_SET_NAME, "backup"), 0);
    snprintf(other, sizeof other, "is being kept locked by process %ld (backup): wait for it", (long)getpid());
    fails(t, package_open(source, &p, &err), MOE_BAD_ARGUMENT, &err, "");
    CHECK(t, strstr(err.text, other) || strstr(err.text, "is being consumed by another process"));
    CHECK(t, !strstr(err.text, "(backup)") || err.cause != MOE_CAUSE_CONSUMED);
    CHECK_EQ(t, prctl(PR_SET_NAME, was), 0);
    close(fd);
    CHECK(t, r.punches == 0 && access(partial, F_OK) != 0);
    // Who reads it, a chat or a plain conversion, loses nothing.
    CHECK_EQ(t, package_open(source, &p, &err), 0);
    fails(t, consume(&r, &err), MOE_BAD_ARGUMENT, &err, "which would lose its weights: end it first");
    CHECK(t, strstr(err.text, "sizes.gguf") && r.punches == 0 && access(partial, F_OK) != 0);
    CHECK_EQ(t, convert(source, NULL, &err), 0);
    clear();
    package_release(&p);
    CHECK_EQ(t, consume(&r, &err), 0);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(the_package_is_the_same_and_the_source_is_empty),
        TEST(killed_anywhere_nothing_is_lost),
        TEST(what_does_not_read_back_stays_in_the_source),
        TEST(what_is_half_removed_is_kept),
        TEST(a_hole_in_the_rest_is_refused_first),
        TEST(a_hole_in_an_expert_is_refused),
        TEST(a_damaged_source_keeps_what_follows),
        TEST(another_source_is_not_mixed_in),
        TEST(other_experts_are_not_mixed_in),
        TEST(what_is_not_ours_to_remove_is_refused),
        TEST(a_no_changes_nothing),
        TEST(a_lost_file_is_said_to_be_lost),
        TEST(the_rest_is_written_first),
        TEST(reading_from_memory_is_said),
        TEST(a_path_may_be_written_otherwise),
        TEST(a_source_in_use_is_refused),
    };
    if (!begin_conversions())
        return 2;
    int code = HARNESS_RUN(tests, argc, argv);
    end_conversions();
    return code;
}
