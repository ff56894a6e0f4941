// SPDX-License-Identifier: GPL-3.0-or-later
// moechat convert: what is quantised already keeps its bytes; whatever stops it, the package that comes of it in the
// end is the one that an undisturbed conversion makes, or there is none.
#include <signal.h>
#include <sys/wait.h>

#include "tests/convert_rig.h"
#include "kernels/numbers.h"
#include "kernels/ref.h"

#define PACKAGE_A "tests/golden/tiny-a/package" // groups of 32, tied embeddings, one dense layer
#define PACKAGE_C "tests/golden/tiny-c/package" // experts, head and router in 8 bits
#define BF16      "tests/golden/ck-glm/checkpoint"
#define FP8       "tests/golden/ck-v3-groups/checkpoint"
#define MLX       "tests/golden/ck-v3-groups-mlx/checkpoint" // a layer with 8-bit experts

static void make_source(const char *package)
{
    static struct made_folder made;
    struct json_object *config;
    made_remove(source);
    made_release(&made);
    made_from_package(&made, package, &config);
    made_write(&made, source, 2);
    made_write_config(source, config);
    made_text(source, "tokenizer.model", "not a real one");
    json_object_put(config);
    made_release(&made);
}

static void what_is_quantised_keeps_its_bytes(struct harness *t)
{
    static const char *const packages[] = {PACKAGE_A, PACKAGE_C};
    for (int i = 0; i < 2; i++) {
        struct moe_err err;
        struct moe_description a, b;
        make_source(packages[i]);
        clear();
        if (!CHECK_EQ(t, convert(source, &(struct moe_convert_options){.threads = 2, .verify = true}, &err), 0)) {
            printf("    %s\n", err.text);
            continue;
        }
        CHECK_EQ(t, moe_inspect(packages[i], &a, NULL), 0);
        CHECK_EQ(t, moe_inspect(target, &b, NULL), 0);
        for (uint32_t layer = a.n_layers - a.n_moe_layers; layer < a.n_layers; layer++) {
            char name[32];
            snprintf(name, sizeof name, "layer-%03u.experts", layer);
            CHECK(t, same_file(packages[i], target, name));
        }
        CHECK(t, a.resident_bytes == b.resident_bytes && a.all_experts_bytes == b.all_experts_bytes);
        CHECK_STR(t, b.tokenizer_type, "sentencepiece");
        CHECK_STR(t, b.name, "target");
        CHECK(t, access(partial, F_OK) != 0);
        fails(t, convert(source, NULL, &err), MOE_BAD_ARGUMENT, &err, "target: already exists");
        fails(t, moe_convert(target, undisturbed, &(struct moe_convert_options){.threads = 1}, &err), MOE_BAD_ARGUMENT,
              &err, "is already a package");
    }
}

// model.json has room for 63 bytes, and control characters are none of a name: neither is found out at the end only.
static void any_name_will_do(struct harness *t)
{
    static const char *const names[][2] = {
        {"a-name-of-more-than-sixty-three-bytes-as-people-give-them-to-folders-Q4_K_XL",
         "a-name-of-more-than-sixty-three-bytes-as-people-give-them-to-fo"},
        {"a\nb\x1b c", "a_b__c"},
        {"\xc3\xa9\xff", "___"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct moe_convert_options options = {.threads = 2};
        struct moe_description about;
        struct moe_err err = {.text = ""};
        char path[200];
        snprintf(path, sizeof path, "%s/%s", scratch, names[i][0]);
        if (!CHECK_EQ(t, moe_convert(BF16, path, &options, &err), 0))
            printf("    %s\n", err.text);
        CHECK_EQ(t, moe_inspect(path, &about, NULL), 0);
        CHECK_STR(t, about.name, names[i][1]);
        made_remove(path);
    }
}

// ---- Disturbances

static void stopped_it_goes_on(struct harness *t)
{
    make_undisturbed(t, BF16);
    struct disturbance all = {.writes = 0};
    struct moe_convert_options options = disturbed(&all);
    struct moe_err err;
    CHECK_EQ(t, convert(BF16, &options, &err), 0);
    CHECK(t, same_folder(undisturbed, target));
    int checks = all.checks;
    CHECK(t, checks > 20);
    for (int at = 1; at <= checks; at += 1 + checks / 12) {
        clear();
        struct disturbance d = {.check_at = at};
        options = disturbed(&d);
        fails(t, convert(BF16, &options, &err), MOE_CANCELLED, &err, "the same command goes on from here");
        CHECK(t, access(target, F_OK) != 0 && access(partial, F_OK) == 0);
        struct disturbance rest = {.writes = 0};
        options = disturbed(&rest);
        CHECK_EQ(t, convert(BF16, &options, &err), 0);
        CHECK(t, at + 7 < checks || rest.writes < all.writes); // what was whole is not written again
        CHECK(t, same_folder(undisturbed, target));
    }
}

// What lies beside the weights may have been corrected since the run before; no key has it.
static void what_lies_beside_is_as_it_is_now(struct harness *t)
{
    struct moe_err err;
    struct disturbance all = {.writes = 0};
    struct moe_convert_options options = disturbed(&all);
    make_source(PACKAGE_A);
    clear();
    CHECK_EQ(t, convert(source, &options, &err), 0);
    for (int again = 0; again < 2; again++) {
        clear();
        make_source(PACKAGE_A);
        made_text(source, "LICENSE", "as it was");
        struct disturbance d = {.check_at = all.checks - 2};
        options = disturbed(&d);
        CHECK_EQ(t, convert(source, &options, &err), MOE_CANCELLED);
        made_text(source, "tokenizer.model", "not a real two"); // as long as it was
        char gone[200];
        snprintf(gone, sizeof gone, "%s/LICENSE", source);
        CHECK_EQ(t, unlink(gone), 0);
        if (again) {
            options = disturbed(&(struct disturbance){.check_at = 4});
            CHECK_EQ(t, convert(source, &options, &err), MOE_CANCELLED);
        }
        struct disturbance rest = {.writes = 0};
        options = disturbed(&rest);
        CHECK_EQ(t, convert(source, &options, &err), 0);
        CHECK(t, same_file(source, target, "tokenizer.model"));
        snprintf(gone, sizeof gone, "%s/LICENSE", target);
        CHECK(t, access(gone, F_OK) != 0);
        CHECK(t, rest.writes < all.writes); // the weights are not written again
        struct moe_description about;
        CHECK_EQ(t, moe_inspect(target, &about, NULL), 0);
    }
}

static void killed_it_goes_on(struct harness *t)
{
    make_undisturbed(t, FP8);
    struct disturbance all = {.writes = 0};
    struct moe_convert_options options = disturbed(&all);
    struct moe_err err;
    CHECK_EQ(t, convert(FP8, &options, &err), 0);
    uint32_t random = 2463534242;
    for (int round = 0; round < 12; round++) {
        clear();
        for (int deaths = 0; deaths < 2; deaths++) { // twice, then to the end
            random ^= random << 13, random ^= random >> 17, random ^= random << 5;
            struct disturbance d = {.write_at = 1 + (int)(random % (uint32_t)all.writes)};
            pid_t child = fork();
            if (child == 0) {
                options = disturbed(&d);
                _exit(convert(FP8, &options, &err) ? 1 : 0);
            }
            int status = 0;
            CHECK(t, child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
            CHECK(t, WEXITSTATUS(status) == 9 || (deaths == 1 && WEXITSTATUS(status) == 0) ||
                         (deaths == 1 && WEXITSTATUS(status) == 1));
        }
        if (access(target, F_OK) != 0 && !CHECK_EQ(t, convert(FP8, NULL, &err), 0))
            printf("    %s\n", err.text);
        CHECK(t, same_folder(undisturbed, target));
    }
}

static void torn_journals_are_understood(struct harness *t)
{
    static const char *const tails[] = {"layer-00", "layer-001.experts 99 0123\n", "\n\n", "x\n",
                                        ("../../x 1 "
                                         "0000000000000000000000000000000000000000000000000000000000000000\n")};
    make_undisturbed(t, BF16);
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        struct disturbance d = {.check_at = 12};
        struct moe_convert_options options = disturbed(&d);
        struct moe_err err;
        clear();
        CHECK_EQ(t, convert(BF16, &options, &err), MOE_CANCELLED);
        char path[200];
        snprintf(path, sizeof path, "%s/convert.journal", partial);
        FILE *journal = fopen(path, "ab");
        CHECK(t, journal && fputs(tails[i], journal) >= 0 && fclose(journal) == 0);
        if (i == 0) { // nor is anything read that is far too long
            CHECK_EQ(t, truncate(path, (1 << 20) + 1), 0);
            fails(t, convert(BF16, NULL, &err), MOE_FORMAT, &err, "is not the journal of a conversion");
            CHECK_EQ(t, truncate(path, 0), 0);
        }
        CHECK_EQ(t, convert(BF16, NULL, &err), 0);
        CHECK(t, same_folder(undisturbed, target));
    }
}

static void a_file_that_lost_its_end_is_made_again(struct harness *t)
{
    make_undisturbed(t, BF16);
    struct disturbance d = {.write_at = 1, .error = EIO, .within = "layer-001"}; // the resident file is whole
    struct moe_convert_options options = disturbed(&d);
    struct moe_err err;
    char path[200];
    CHECK_EQ(t, convert(BF16, &options, &err), MOE_IO);
    snprintf(path, sizeof path, "%s/resident.safetensors", partial);
    CHECK_EQ(t, truncate(path, 5000), 0);
    CHECK_EQ(t, convert(BF16, NULL, &err), 0);
    CHECK(t, same_folder(undisturbed, target));
}

static void another_conversion_is_not_mixed_in(struct harness *t)
{
    struct disturbance d = {.check_at = 5};
    struct moe_convert_options options = disturbed(&d);
    struct moe_err err;
    clear();
    CHECK_EQ(t, convert(BF16, &options, &err), MOE_CANCELLED);
    struct moe_convert_options eight = {.threads = 1, .expert_bits = 8};
    fails(t, convert(BF16, &eight, &err), MOE_BAD_ARGUMENT, &err, "was left by another conversion");
    fails(t, convert(FP8, NULL, &err), MOE_BAD_ARGUMENT, &err, "was left by another conversion");
    clear();
    CHECK_EQ(t, convert(BF16, &eight, &err), 0);
    clear();
    struct moe_convert_options odd = {.expert_bits = 5};
    fails(t, convert(BF16, &odd, &err), MOE_BAD_ARGUMENT, &err, "bits must be 4 or 8");
}

// Where others can make names: what they lead to stays as it was.
static void planted_names_are_not_followed(struct harness *t)
{
    static const char *const names[] = {"convert.journal", "resident.safetensors", "layer-001.experts", "model.json"};
    struct moe_err err;
    char victim[200], path[200];
    snprintf(victim, sizeof victim, "%s/victim", scratch);
    clear();
    CHECK_EQ(t, mkdir(victim, 0700) + symlink(victim, partial), 0);
    fails(t, convert(BF16, NULL, &err), MOE_BAD_ARGUMENT, &err, "target.partial: is a symbolic link");
    CHECK_EQ(t, unlink(partial) + rmdir(victim), 0); // it is empty still
    CHECK_EQ(t, mkdir(partial, 0700), 0);
    made_text(partial, "resident.safetensors", "precious");
    fails(t, convert(BF16, NULL, &err), MOE_BAD_ARGUMENT, &err, "has files that no conversion left");
    CHECK_EQ(t, unlink((snprintf(path, sizeof path, "%s/resident.safetensors", partial), path)), 0);
    if (geteuid() == 0) {
        CHECK_EQ(t, chown(partial, 1, 1), 0);
        fails(t, convert(BF16, NULL, &err), MOE_BAD_ARGUMENT, &err, "is another user's");
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct disturbance d = {.check_at = 1}; // with a journal
        const struct moe_convert_options options = disturbed(&d);
        struct stat status;
        clear();
        CHECK_EQ(t, convert(BF16, &options, &err), MOE_CANCELLED);
        made_text(scratch, "victim", "precious");
        snprintf(path, sizeof path, "%s/%s", partial, names[i]);
        unlink(path);
        CHECK_EQ(t, symlink(victim, path), 0);
        CHECK(t, convert(BF16, NULL, &err) != 0 && strstr(err.text, names[i]));
        CHECK(t, stat(victim, &status) == 0 && status.st_size == 8);
    }
    unlink(victim);
}

static void failing_writes_are_said(struct harness *t)
{
    static const int errors[] = {ENOSPC, EIO};
    struct moe_err err;
    make_undisturbed(t, BF16);
    for (int i = 0; i < 2; i++)
        for (int at = 1; at < 30; at += 7) {
            struct disturbance d = {.write_at = at, .error = errors[i]};
            struct moe_convert_options options = disturbed(&d);
            clear();
            fails(t, convert(BF16, &options, &err), MOE_IO, &err, strerror(errors[i]));
            CHECK(t, err.sys_errno == errors[i] && strstr(err.file, ".partial/"));
            CHECK(t, access(target, F_OK) != 0);
            CHECK_EQ(t, convert(BF16, NULL, &err), 0);
            CHECK(t, same_folder(undisturbed, target));
        }
    struct disturbance d = {.most = 777};
    struct moe_convert_options options = disturbed(&d);
    clear();
    CHECK_EQ(t, convert(BF16, &options, &err), 0);
    CHECK(t, same_folder(undisturbed, target));
}

static void verify_reads_what_was_written(struct harness *t)
{
    struct moe_err err;
    for (int verify = 0; verify < 2; verify++) {
        struct disturbance d = {.flip = true, .within = "layer-001"};
        struct moe_convert_options options = disturbed(&d);
        options.verify = verify;
        clear();
        int code = convert(BF16, &options, &err);
        if (verify)
            fails(t, code, MOE_FORMAT, &err, "layer-001.experts: SHA-256 does not match model.json");
        else
            CHECK_EQ(t, code, 0);
        CHECK(t, (access(target, F_OK) == 0) == !verify);
    }
}

static void layers_may_differ(struct harness *t)
{
    struct moe_err err;
    struct package p, q;
    clear();
    CHECK_EQ(t, convert(MLX, NULL, &err), 0);
    CHECK_EQ(t, package_open(MLX, &p, &err), 0);
    CHECK_EQ(t, package_open(target, &q, &err), 0);
    for (uint32_t layer = p.shape.first_k_dense_replace; layer < p.shape.n_layers; layer++)
        CHECK(t, memcmp(package_experts(&p, layer), package_experts(&q, layer), sizeof(struct expert_layout)) == 0);
    CHECK_EQ(t, package_experts(&q, 2)->gate.kind, KIND_MLX_8);
    package_release(&q);
    struct moe_convert_options other = {.threads = 2, .expert_bits = 4, .resident_bits = 8, .group_size = 32};
    clear();
    CHECK_EQ(t, convert(MLX, &other, &err), 0);
    CHECK_EQ(t, package_open(target, &q, &err), 0);
    CHECK_EQ(t, package_experts(&q, 2)->gate.kind, KIND_MLX_4);
    package_release(&q);
    other = (struct moe_convert_options){.threads = 2, .expert_bits = 8, .group_size = 64};
    clear();
    CHECK_EQ(t, convert(MLX, &other, &err), 0);
    CHECK_EQ(t, package_open(target, &q, &err), 0); // of so many bits already: as they are, in groups of 32
    CHECK(t, memcmp(package_experts(&p, 2), package_experts(&q, 2), sizeof(struct expert_layout)) == 0);
    package_release(&p);
    package_release(&q);
}

static void remember_notice(void *context, const char *text)
{
    strncat(context, text, 1000);
    strncat(context, "\n", 2);
}

// config.json's word for the bits of every matrix, in groups of 32.
static void declare_widths(struct json_object *config, const struct made_folder *made)
{
    struct json_object *all = json_tokener_parse("{\"bits\":4,\"group_size\":32}");
    for (size_t i = 0; i < made->count; i++) {
        const struct made_tensor *words = &made->tensors[i];
        char stem[200];
        if (strcmp(words->dtype, "U32") != 0)
            continue;
        snprintf(stem, sizeof stem, "%.*s.scales", (int)(strlen(words->name) - strlen(".weight")), words->name);
        const struct made_tensor *scales = made_find((struct made_folder *)made, stem);
        uint64_t bits =
            words->dims[words->n_dims - 1] / scales->dims[scales->n_dims - 1]; // words of 32 bits, 32 inputs
        struct json_object *own = json_tokener_parse("{\"group_size\":32}");
        json_object_object_add(own, "bits", json_object_new_int((int)bits));
        stem[strlen(stem) - strlen(".scales")] = 0;
        json_object_object_add(all, stem, own);
    }
    json_object_object_add(config, "quantization", all);
}

// The first 6 of every 8 bits, which is what a matrix of 6 bits could hold.
static void narrow(struct made_tensor *words)
{
    uint64_t n = words->bytes / 4 / 4 * 3;
    words->dims[words->n_dims - 1] = words->dims[words->n_dims - 1] / 4 * 3;
    words->bytes = n * 4;
}

// Scales in f16, and gate in another width than up: as they are, each array of every expert.
static void scales_and_widths_stay_as_they_are(struct harness *t)
{
    static struct made_folder made;
    struct json_object *config;
    struct moe_err err;
    char said[4096] = "";
    clear();
    made_remove(source);
    made_from_package(&made, PACKAGE_C, &config);
    for (size_t i = 0; i < made.count; i++) {
        struct made_tensor *tensor = &made.tensors[i];
        bool routed = strstr(tensor->name, "switch_mlp") && !strstr(tensor->name, ".weight");
        for (size_t k = 0; routed && k < tensor->bytes; k += 2) {
            uint16_t bits;
            memcpy(&bits, tensor->data + k, 2);
            uint16_t half = ref_float_to_half(number_from_bf16(bits));
            memcpy(tensor->data + k, &half, 2);
        }
        if (strstr(tensor->name, "switch_mlp.gate_proj.weight"))
            narrow(tensor);
        if (routed)
            snprintf(tensor->dtype, sizeof tensor->dtype, "F16");
    }
    made_write(&made, source, 2);
    declare_widths(config, &made);
    made_write_config(source, config);
    json_object_put(config);
    made_release(&made);
    struct moe_convert_options options = {.threads = 2, .notice = remember_notice, .context = said};
    struct moe_description about;
    CHECK_EQ(t, moe_inspect(source, &about, &err), 0);
    CHECK(t, about.runs && strcmp(about.layout, "MLX folder") == 0);
    if (!CHECK_EQ(t, convert(source, &options, &err), 0)) {
        printf("    %s\n", err.text);
        return;
    }
    CHECK(t, strstr(said, "copied bit for bit") && !strstr(said, "loses some precision"));
    struct package a, b;
    CHECK_EQ(t, package_open(source, &a, &err), 0);
    CHECK_EQ(t, package_open(target, &b, &err), 0);
    CHECK_EQ(t, package_experts(&b, 2)->down.scale_type, SCALE_F16);
    CHECK(t, package_experts(&b, 2)->gate.kind == KIND_MLX_6 && package_experts(&b, 2)->up.kind == KIND_MLX_8);
    for (uint32_t layer = a.shape.first_k_dense_replace; layer < a.shape.n_layers; layer++)
        for (uint32_t expert = 0; expert < a.shape.n_routed_experts; expert++)
            CHECK(t, same_expert(&a, &b, layer, expert));
    package_release(&a);
    package_release(&b);
}

// ---- GGUF files

#define GGUF_SPLIT "tests/golden/gguf-v3-ud/checkpoint"      // in three parts; gate, up and down of three kinds
#define GGUF_FUSED "tests/golden/gguf-flash-q8_0/checkpoint" // gate and up in one
#define GGUF_CHAT  "tests/golden/gguf-chat/checkpoint"       // with a vocabulary

static void gguf_files_become_packages(struct harness *t)
{
    static const char *const files[] = {GGUF_SPLIT, GGUF_FUSED, GGUF_CHAT};
    // gguf-py's: tensors with rows and columns, three a layer of experts, none of multi-token prediction's.
    static const char copied[] = "\nmatrices: 24 copied unchanged, 0 quantised\n";
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct moe_err err;
        struct package a, b;
        struct moe_description x, y;
        char said[4000] = "";
        const struct moe_convert_options options = {
            .threads = 2, .verify = true, .notice = remember_notice, .context = said};
        clear();
        if (!CHECK_EQ(t, convert(files[i], &options, &err), 0)) {
            printf("    %s\n", err.text);
            continue;
        }
        if (!CHECK(t, strstr(said, copied) != NULL))
            printf("%s", said);
        CHECK_EQ(t, package_open(files[i], &a, &err), 0);
        CHECK_EQ(t, package_open(target, &b, &err), 0);
        CHECK(t, memcmp(&a.shape, &b.shape, sizeof a.shape) == 0);
        for (uint32_t layer = a.shape.first_k_dense_replace; layer < a.shape.n_layers; layer++)
            for (uint32_t expert = 0; expert < a.shape.n_routed_experts; expert++)
                CHECK(t, same_expert(&a, &b, layer, expert));
        CHECK_EQ(t, moe_inspect(files[i], &x, &err), 0);
        CHECK_EQ(t, moe_inspect(target, &y, &err), 0);
        CHECK(t, x.resident_bytes == y.resident_bytes && x.vocabulary == y.vocabulary && y.package);
        CHECK(t, memcmp(&x.suggestion, &y.suggestion, sizeof x.suggestion) == 0);
        for (size_t k = 0; i != 1 && k < MOE_GROUPS; k++) // fused ones are told apart in a package
            CHECK(t, x.groups[k].weights == y.groups[k].weights && strcmp(x.groups[k].types, y.groups[k].types) == 0);
        package_release(&a);
        package_release(&b);
    }
    struct moe_vocabulary *v, *w;
    struct moe_err err;
    if (!CHECK_EQ(t, moe_vocabulary_open(GGUF_CHAT, &v, &err), 0) ||
        !CHECK_EQ(t, moe_vocabulary_open(target, &w, &err), 0))
        return;
    CHECK(t, v->n_tokens == w->n_tokens && v->n_merges == w->n_merges && v->bos == w->bos && v->eos == w->eos);
    CHECK(t, v->chat_template.length > 0 && v->chat_template.length == w->chat_template.length &&
                 memcmp(v->chat_template.bytes, w->chat_template.bytes, v->chat_template.length) == 0);
    for (size_t i = 0; i < v->n_tokens && i < w->n_tokens; i++)
        CHECK(t, v->tokens[i].length == w->tokens[i].length &&
                     memcmp(v->tokens[i].bytes, w->tokens[i].bytes, v->tokens[i].length) == 0);
    moe_vocabulary_close(v);
    moe_vocabulary_close(w);
    clear();
    fails(t, convert(GGUF_CHAT, &(struct moe_convert_options){.expert_bits = 4}, &err), MOE_BAD_ARGUMENT, &err,
          "weights are packed as they are");
    CHECK(t, access(partial, F_OK) != 0);
}

// ---- Sources that are not as they should be

// What lies beside a GGUF may be another model's, as files of several are downloaded into one folder.
static void a_ggufs_package_suggests_what_the_gguf_does(struct harness *t)
{
    char folder[100], file[200], from[4096];
    struct moe_err err;
    struct moe_description x, y;
    snprintf(folder, sizeof folder, "%s/downloads", scratch);
    snprintf(file, sizeof file, "%s/chat.gguf", folder);
    clear();
    if (!CHECK(t, mkdir(folder, 0700) == 0 && realpath(GGUF_CHAT "/chat.gguf", from) && symlink(from, file) == 0))
        return;
    made_text(folder, "generation_config.json", "{\"temperature\":0.0,\"top_k\":1}");
    made_text(folder, "LICENSE", "as it is");
    CHECK_EQ(t, moe_inspect(file, &x, &err), 0);
    if (!CHECK_EQ(t, convert(file, NULL, &err), 0))
        printf("    %s\n", err.text);
    CHECK_EQ(t, moe_inspect(target, &y, &err), 0);
    CHECK(t, memcmp(&x.suggestion, &y.suggestion, sizeof x.suggestion) == 0);
    CHECK(t, same_file(folder, target, "LICENSE"));
    made_remove(folder);
}

static void bad_sources_are_refused_first(struct harness *t)
{
    static struct made_folder made;
    static const struct {
        const char *name, *rename, *dtype;
        uint64_t rows, cols; // 0: as they are
        const char *says;
    } cases[] = {
        {"model.layers.1.mlp.experts.3.up_proj.weight", "model.layers.1.mlp.experts.99.up_proj.weight", NULL, 0, 0,
         "experts.3.up_proj.weight is missing"},
        {"model.layers.1.mlp.experts.3.up_proj.weight", NULL, NULL, 2, 0, "experts.3.up_proj.weight has another shape"},
        {"model.layers.1.mlp.experts.3.up_proj.weight", NULL, "F32", 0, 0, NULL},
        {"model.layers.1.mlp.experts.3.up_proj.weight", NULL, "I8", 0, 0, "a dtype that moechat does not read"},
        {"model.layers.1.mlp.experts.3.up_proj.weight", NULL, "F8_E4M3", 0, 0, "up_proj.weight_scale_inv is missing"},
        {"model.norm.weight", "norm", NULL, 0, 0, "model.norm.weight is missing"},
        {"model.layers.0.self_attn.o_proj.weight", NULL, NULL, 3, 0, "model.layers.0.self_attn.o_proj.weight is ["},
        {NULL, "model.layers.0.self_attn.o_proj.bias", "BF16", 4, 0, "o_proj.bias is not one of this model's"},
        {NULL, "model.layers.1.mlp.experts.2.down_proj.bias", "BF16", 4, 0, "unexpected tensor"},
        {NULL, "model.layers.1.mlp.experts.99.down_proj.weight", "BF16", 4, 0,
         "has 1 tensors of experts beyond the model"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct checkpoint c;
        struct moe_err err;
        CHECK_EQ(t, checkpoint_open_folder(BF16, &c, &err), 0);
        made_release(&made);
        made_remove(source);
        clear();
        for (size_t k = 0; k < c.count; k++) {
            const struct checkpoint_tensor *from = &c.tensors[k];
            bool it = cases[i].name && strcmp(from->name, cases[i].name) == 0;
            uint64_t dims[4];
            memcpy(dims, from->at->dims, sizeof dims);
            dims[0] = it && cases[i].rows ? cases[i].rows : dims[0];
            const char *dtype = from->at->dtype == DTYPE_F32 ? "F32" : "BF16";
            struct made_tensor *to = made_add(&made, it && cases[i].rename ? cases[i].rename : from->name,
                                              it && cases[i].dtype ? cases[i].dtype : dtype, from->at->n_dims, dims);
            memset(to->data, 0x3c, it ? to->bytes : 0); // small numbers
            if (!it && checkpoint_read(&c, &(struct checkpoint_range){from, 0, (size_t)to->bytes}, to->data, &err))
                exit(70);
        }
        if (!cases[i].name)
            made_add(&made, cases[i].rename, cases[i].dtype, 1, &cases[i].rows);
        made_write(&made, source, 1);
        made_write_config(source, c.config);
        int code = convert(source, NULL, &err);
        if (cases[i].says)
            fails(t, code, err.code, &err, cases[i].says);
        CHECK(t, (code == 0) == !cases[i].says && access(partial, F_OK) != 0); // nothing was begun
        checkpoint_release(&c);
    }
    made_release(&made);
}

// A folder's tensors as they are.
static void remember_folder(struct harness *t, const char *folder, struct checkpoint *c, struct made_folder *made)
{
    struct moe_err err;
    static const char *const dtypes[] = {[DTYPE_F32] = "F32", [DTYPE_BF16] = "BF16", [DTYPE_U32] = "U32"};
    clear();
    made_remove(source);
    CHECK_EQ(t, checkpoint_open_folder(folder, c, &err), 0);
    for (size_t k = 0; k < c->count; k++) {
        const struct checkpoint_tensor *from = &c->tensors[k];
        struct made_tensor *to = made_add(made, from->name, dtypes[from->at->dtype], from->at->n_dims, from->at->dims);
        if (checkpoint_read(c, &(struct checkpoint_range){from, 0, (size_t)to->bytes}, to->data, &err))
            exit(70);
    }
}

static void numbers_that_are_not_finite_are_refused(struct harness *t)
{
    static const struct {
        const char *folder, *tensor;
        size_t at;
    } cases[] = {
        {BF16, "model.layers.1.mlp.experts.5.down_proj.weight", 200},
        {BF16, "model.norm.weight", 8},
        {MLX, "model.layers.2.mlp.switch_mlp.up_proj.scales", 40},
        {MLX, "model.layers.2.mlp.switch_mlp.down_proj.biases", 40},
        {MLX, "model.layers.0.self_attn.o_proj.scales", 6},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static struct made_folder made;
        struct checkpoint c;
        struct moe_err err;
        char says[200];
        remember_folder(t, cases[i].folder, &c, &made);
        memcpy(made_find(&made, cases[i].tensor)->data + cases[i].at, "\x80\x7f", 2);
        made_write(&made, source, 1);
        made_write_config(source, c.config);
        snprintf(says, sizeof says, "tensor %s has numbers that are not finite", cases[i].tensor);
        fails(t, convert(source, NULL, &err), MOE_BAD_NUMBERS, &err, says);
        checkpoint_release(&c);
        made_release(&made);
    }
}

// A float32 checkpoint's norms are no bf16 numbers; what is made of them must open.
static void wide_norms_are_rounded(struct harness *t)
{
    static struct made_folder made;
    struct checkpoint c, resident;
    struct moe_err err;
    char path[200];
    remember_folder(t, BF16, &c, &made);
    struct made_tensor *norm = made_find(&made, "model.norm.weight");
    uint64_t count = norm->bytes / 2;
    free(norm->data);
    snprintf(norm->dtype, sizeof norm->dtype, "F32");
    norm->data = made_memory(norm->bytes *= 2);
    for (uint64_t i = 0; i < count; i++)
        ((float *)(void *)norm->data)[i] = 1.0f + (float)i / 3000.0f;
    made_write(&made, source, 1);
    made_write_config(source, c.config);
    char heard[4096] = "";
    const struct moe_convert_options options = {.threads = 2, .notice = remember_notice, .context = heard};
    CHECK_EQ(t, convert(source, &options, &err), 0);
    CHECK(t, strstr(heard, "norms rounded to bf16: 1\n") != NULL);
    // All but the router: head, embeddings, 16 more, and an expert's three.
    CHECK(t, strstr(heard, "matrices: 1 copied unchanged, 21 quantised\n") != NULL);
    snprintf(path, sizeof path, "%s/resident.safetensors", target);
    CHECK_EQ(t, checkpoint_open_file(path, &resident, &err), 0);
    const struct checkpoint_tensor *made_norm = checkpoint_find(&resident, "model.norm.weight");
    uint16_t *numbers = made_memory(2 * count);
    bool same = made_norm && made_norm->at->dtype == DTYPE_BF16 && made_norm->at->bytes == 2 * count &&
                checkpoint_read(&resident, &(struct checkpoint_range){made_norm, 0, 2 * count}, numbers, &err) == 0;
    for (uint64_t i = 0; same && i < count; i++)
        same = numbers[i] == number_to_bf16(1.0f + (float)i / 3000.0f);
    CHECK(t, same);
    free(numbers);
    checkpoint_release(&resident);
    checkpoint_release(&c);
    made_release(&made);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(what_is_quantised_keeps_its_bytes),
        TEST(any_name_will_do),
        TEST(stopped_it_goes_on),
        TEST(killed_it_goes_on),
        TEST(what_lies_beside_is_as_it_is_now),
        TEST(torn_journals_are_understood),
        TEST(a_file_that_lost_its_end_is_made_again),
        TEST(another_conversion_is_not_mixed_in),
        TEST(planted_names_are_not_followed),
        TEST(failing_writes_are_said),
        TEST(verify_reads_what_was_written),
        TEST(layers_may_differ),
        TEST(scales_and_widths_stay_as_they_are),
        TEST(gguf_files_become_packages),
        TEST(a_ggufs_package_suggests_what_the_gguf_does),
        TEST(bad_sources_are_refused_first),
        TEST(numbers_that_are_not_finite_are_refused),
        TEST(wide_norms_are_rounded),
    };
    if (!begin_conversions())
        return 2;
    int code = HARNESS_RUN(tests, argc, argv);
    end_conversions();
    return code;
}
