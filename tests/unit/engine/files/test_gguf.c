// SPDX-License-Identifier: GPL-3.0-or-later
// A GGUF header: what it says is found, and whatever is wrong with it is refused by name.
#include <unistd.h>

#include "tests/gguf_rig.h"
#include "tests/harness.h"

static char folder[] = "/tmp/moechat-gguf-XXXXXX";

static const char *path_of(const char *name)
{
    static char path[96];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void values_and_tensors_are_found(struct harness *t)
{
    struct made_gguf g = {.version = 2};
    struct gguf gguf;
    struct moe_err err = {.text = ""};
    made_string(&g, "general.architecture", "deepseek2");
    made_key(&g, "a.u64", GGUF_U64);
    made_put_number(&g.values, 1ULL << 40, 8);
    made_key(&g, "a.i8", GGUF_I8);
    made_put_number(&g.values, (uint64_t)-3, 1);
    made_f32(&g, "a.f32", 0.5F);
    made_bool(&g, "a.bool", true);
    made_array(&g, "a.tokens", GGUF_STRING, 3);
    made_put_string(&g.values, "one");
    made_put_string(&g.values, "");
    made_put_string(&g.values, "three");
    made_array(&g, "a.i32s", GGUF_I32, 2);
    made_put_number(&g.values, 7, 4);
    made_put_number(&g.values, (uint64_t)-7, 4);
    made_tensor(&g, "b.weight", 12, 2, (uint64_t[]){512, 3}); // Q4_K
    made_tensor(&g, "a.weight", 0, 1, (uint64_t[]){5});
    made_tensor(&g, "c.weight", 30, 3, (uint64_t[]){4, 3, 2});
    made_gguf_write(&g, path_of("found.gguf"));
    if (!CHECK_EQ(t, gguf_open(path_of("found.gguf"), &gguf, &err), MOE_OK)) {
        printf("    %s\n", err.text);
        return;
    }
    uint64_t number = 0;
    double real = 0;
    CHECK_EQ(t, gguf.n_values, 7);
    CHECK(t, !gguf_find(&gguf, "a") && !gguf_find(&gguf, "a.boolx"));
    CHECK(t, gguf_integer_at(gguf_find(&gguf, "a.u64"), 0, &number) && number == 1ULL << 40);
    CHECK(t, !gguf_integer_at(gguf_find(&gguf, "a.i8"), 0, &number));
    CHECK(t, gguf_integer_at(gguf_find(&gguf, "a.bool"), 0, &number) && number == 1);
    CHECK(t, gguf_number_at(gguf_find(&gguf, "a.f32"), 0, &real) && real > 0.49 && real < 0.51);
    CHECK(t, !gguf_number_at(gguf_find(&gguf, "a.bool"), 0, &real));
    CHECK(t, gguf_number_at(gguf_find(&gguf, "a.i8"), 0, &real) && real > -3.1 && real < -2.9);
    CHECK(t, !gguf_integer_at(gguf_find(&gguf, "a.f32"), 0, &number));
    const struct gguf_value *numbers = gguf_find(&gguf, "a.i32s");
    CHECK(t, numbers->array && numbers->count == 2 && gguf_integer_at(numbers, 0, &number) && number == 7);
    CHECK(t, !gguf_integer_at(numbers, 1, &number));
    const struct gguf_value *tokens = gguf_find(&gguf, "a.tokens");
    CHECK(t, tokens->array && tokens->type == GGUF_STRING && tokens->count == 3);
    const unsigned char *at = tokens->at;
    struct gguf_string strings[3];
    for (int i = 0; i < 3; i++)
        strings[i] = gguf_next_string(&at);
    CHECK(t, strings[0].length == 3 && memcmp(strings[0].text, "one", 3) == 0 && strings[1].length == 0 &&
                 strings[2].length == 5 && memcmp(strings[2].text, "three", 5) == 0);

    const struct tensor *b = tensor_file_find(&gguf.file, "b.weight");
    const struct tensor *c = tensor_file_find(&gguf.file, "c.weight");
    unsigned char bytes[48];
    CHECK_EQ(t, gguf.file.count, 3);
    if (CHECK(t, b && c)) {
        CHECK(t, b->dtype == DTYPE_GGML && b->ggml_type == 12 && b->dims[0] == 3 && b->dims[1] == 512);
        CHECK_EQ(t, b->bytes, 3 * 2 * 144);
        CHECK_EQ(t, b->offset, gguf.data_start);
        CHECK(t, c->dtype == DTYPE_BF16 && c->dims[0] == 2 && c->dims[2] == 4);
        CHECK_EQ(t, tensor_file_read(&gguf.file, c, bytes, &err), MOE_OK);
        CHECK_EQ(t, bytes[1], (864 + 32 + 1) & 255);
    }
    gguf_release(&gguf);
    made_gguf_release(&g);
}

// A header of `wrong` says `says`, whole and from a file; the file is as long as its tensors ask plus `more`.
static void refused(struct harness *t, const struct made_gguf *g, int64_t more, const char *says)
{
    struct made_bytes header = made_header(g);
    struct gguf gguf = {.file = {.path = "F", .fd = -1}};
    struct moe_err err = {.text = ""};
    uint64_t alignment = g->alignment ? g->alignment : 32;
    uint64_t start = (header.length + alignment - 1) / alignment * alignment;
    uint64_t bytes = g->data ? start + g->data : header.length;
    int code = gguf_parse(header.at, header.length, (uint64_t)((int64_t)bytes + more), &gguf, &err);
    if (!CHECK(t, code != MOE_OK && (int)err.code == code && strncmp(err.text, "F: ", 3) == 0 &&
                      strstr(err.text, says) && !strchr(err.text, '\n')))
        printf("    code %d \"%s\", not \"%s\"\n", code, err.text, says);
    CHECK(t, gguf.values == NULL && gguf.file.tensors == NULL);
    if (code == MOE_OK)
        gguf_release(&gguf);
    free(header.at);
}

static void refused_and_released(struct harness *t, struct made_gguf *g, const char *says)
{
    refused(t, g, 0, says);
    made_gguf_release(g);
}

static void versions_are_refused(struct harness *t)
{
    static const struct {
        uint32_t version;
        const char *says;
    } cases[] = {{1, "GGUF version 1, which nothing writes"},
                 {4, "GGUF version 4; this moechat reads 2 and 3"},
                 {0x03000000, "the big end first; get a file for little-endian machines"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused(t, &(struct made_gguf){.version = cases[i].version}, 0, cases[i].says);
    struct gguf gguf = {.file = {.path = "F", .fd = -1}};
    struct moe_err err = {.text = ""};
    CHECK_EQ(t, gguf_parse((const unsigned char *)"GGMLxxxxxxxx", 12, 12, &gguf, &err), MOE_FORMAT);
    CHECK(t, strstr(err.text, "not a GGUF file") != NULL);
    CHECK_EQ(t, gguf_parse((const unsigned char *)"GM", 2, 2, &gguf, &err), MOE_FORMAT);
    CHECK(t, strstr(err.text, "not a GGUF file") != NULL);
    for (size_t n = 1; n <= 30; n++) { // the beginning of one is one that was cut
        static const char whole[] = "GGUF\3\0\0\0\46\0\0\0\0\0\0\0\40\0\0\0\0\0\0\0\24\0\0\0\0\0";
        CHECK_EQ(t, gguf_parse((const unsigned char *)whole, n, n, &gguf, &err), MOE_FORMAT);
        CHECK_STR(t, err.text, "F: ends in the middle of its header: it is cut short, download it again");
    }
    CHECK_EQ(t, gguf_parse((const unsigned char *)"", 0, 0, &gguf, &err), MOE_FORMAT);
    CHECK_STR(t, err.text, "F: is empty; download it again");
}

static void counts_are_refused(struct harness *t)
{
    refused(t, &(struct made_gguf){.n_values = 65537}, 0, "has 65537 keys, more than 65536");
    refused(t, &(struct made_gguf){.n_tensors = UINT64_MAX}, 0, "tensors, more than 65536");
    refused(t, &(struct made_gguf){.n_tensors = 9}, 20, "ends in the middle of its header: it is cut short");
    refused(t, &(struct made_gguf){.n_values = 2}, 24, "ends in the middle of its header: it is cut short");
}

static void values_are_refused(struct harness *t)
{
    struct made_gguf g = {0};
    made_key(&g, "k", 13);
    made_put_number(&g.values, 0, 8);
    refused_and_released(t, &g, "k: its type, 13, is none of GGUF's");
    made_array(&g, "k", GGUF_ARRAY, 1);
    refused_and_released(t, &g, "k: its type, 9, is an array of arrays");
    made_array(&g, "k", GGUF_U8, UINT64_MAX);
    refused_and_released(t, &g, "k: has 18446744073709551615 elements, more than 4 Mi");
    made_array(&g, "k", GGUF_F64, 4);
    made_put_number(&g.values, 0, 8);
    refused_and_released(t, &g, "ends in the middle of its header: it is cut short");
    made_bool(&g, "k", true);
    g.values.at[g.values.length - 1] = 2;
    refused_and_released(t, &g, "k: is 2, neither false nor true");
    made_key(&g, "k", GGUF_STRING);
    made_put_number(&g.values, (16 << 20) + 1, 8);
    refused_and_released(t, &g, "k: a string of 16777217 bytes, more than 16 MiB");
    made_key(&g, "k", GGUF_STRING);
    made_put_number(&g.values, 5, 8);
    made_put(&g.values, "four", 4);
    refused_and_released(t, &g, "ends in the middle of its header: it is cut short");
    made_u32(&g, "twice", 1);
    made_u32(&g, "other", 1);
    made_u32(&g, "twice", 2);
    refused_and_released(t, &g, "twice: is there twice");
    made_u32(&g, "a key\n", 1);
    refused_and_released(t, &g, "a key is not printable ASCII");
    made_u32(&g, "", 1);
    refused_and_released(t, &g, "a key of 0 bytes; it must have 1 to 256");
    char key[300] = "";
    memset(key, 'k', 257);
    made_u32(&g, key, 1);
    refused_and_released(t, &g, "a key of 257 bytes");
}

static void alignments_are_refused(struct harness *t)
{
    static const uint32_t wrong[] = {0, 4, 48, 1U << 21};
    struct made_gguf g = {0};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        made_u32(&g, "general.alignment", wrong[i]);
        refused_and_released(t, &g, "it must be a power of two from 8 to 1 Mi");
    }
    made_u16(&g, "general.alignment", 32);
    refused_and_released(t, &g, "general.alignment: is no u32");
}

static void tensors_are_refused(struct harness *t)
{
    static const struct {
        const char *name;
        uint32_t type, n_dims;
        uint64_t dims[5];
        const char *says;
    } cases[] = {
        {"t", 0, 0, {1}, "tensor t: has 0 dimensions"},
        {"t", 0, 5, {1, 1, 1, 1, 1}, "tensor t: has 5 dimensions"},
        {"t", 0, 2, {3, 0}, "tensor t: a dimension is 0"},
        {"t", 0, 1, {1ULL << 63}, "tensor t: a dimension is 9223372036854775808"},
        {"t", 12, 2, {300, 1}, "tensor t: rows of 300 are no whole blocks of Q4_K (256)"},
        {"t", 4, 1, {32}, "tensor t: its type, 4, was taken out of llama.cpp"},
        {"t", 137, 1, {256}, "tensor t: its type, 137, is none of llama.cpp's: the file was made for ik_llama.cpp"},
        {"t", 42, 1, {256}, "tensor t: its type, 42, is Q2_0"},
        {"t", 0, 4, {1ULL << 32, 1ULL << 32, 1ULL << 32, 1ULL << 32}, "tensor t: reaches beyond the file's"},
        {"t", 0, 2, {1ULL << 62, 4}, "tensor t: reaches beyond the file's"},
        {"a b", 0, 1, {1}, "a tensor's name is not printable ASCII"},
        {"0123456789012345678901234567890123456789012345678901234567890123", 0, 1, {1}, "a tensor's name of 64 bytes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct made_gguf g = {0};
        made_tensor(&g, cases[i].name, cases[i].type, cases[i].n_dims, cases[i].dims);
        g.data = 0;
        refused(t, &g, 4, cases[i].says);
        made_gguf_release(&g);
    }
}

static void places_are_refused(struct harness *t)
{
    const uint64_t dims[] = {8, 2};
    struct made_gguf g = {0};
    made_tensor(&g, "a", 0, 2, dims);
    g.data = 32; // not 64
    made_tensor(&g, "b", 0, 2, dims);
    refused_and_released(t, &g, "tensor b: begins at 32 of the data, not at 64");
    made_tensor(&g, "a", 0, 2, dims);
    g.data = 128;
    made_tensor(&g, "b", 0, 2, dims);
    refused_and_released(t, &g, "tensor b: begins at 128 of the data, not at 64");
    made_tensor(&g, "a", 0, 2, dims);
    made_tensor(&g, "a", 0, 2, dims);
    refused_and_released(t, &g, "tensor a: is there twice");
    made_tensor(&g, "a", 0, 2, dims);
    made_tensor(&g, "b", 0, 2, dims);
    refused(t, &g, -1, "tensor b: reaches beyond the file's");
    refused(t, &g, -65, "tensor a: reaches beyond the file's");
    made_gguf_release(&g);
}

// Cut anywhere, a header is refused; and so is the file, at the same places.
static void truncation_is_refused_at_every_byte(struct harness *t)
{
    struct made_gguf g = {0};
    made_string(&g, "general.architecture", "deepseek2");
    made_array(&g, "tokens", GGUF_STRING, 2);
    made_put_string(&g.values, "one");
    made_put_string(&g.values, "two");
    made_tensor(&g, "a", 0, 2, (uint64_t[]){8, 2});
    struct made_bytes header = made_header(&g);
    struct gguf gguf = {.file = {.path = "F", .fd = -1}};
    struct moe_err err;
    for (size_t length = 0; length < header.length; length++) {
        unsigned char *exact = malloc(length + 1);
        memcpy(exact, header.at, length);
        CHECK_EQ(t, gguf_parse(exact, length, length, &gguf, &err), MOE_FORMAT);
        CHECK_EQ(t, gguf_parse(exact, length, 4096, &gguf, &err), MOE_FORMAT);
        free(exact);
    }
    free(header.at);
    made_gguf_release(&g);
}

// Longer than what is read at first.
static void long_headers_are_read(struct harness *t)
{
    enum { COUNT = 60000 };
    struct made_gguf g = {.alignment = 4096};
    struct gguf gguf;
    struct moe_err err = {.text = ""};
    made_u32(&g, "general.alignment", 4096);
    made_array(&g, "tokens", GGUF_STRING, COUNT);
    for (int i = 0; i < COUNT; i++) {
        char token[64];
        snprintf(token, sizeof token, "a token of a long vocabulary, number %d", i);
        made_put_string(&g.values, token);
    }
    made_tensor(&g, "a", 0, 1, (uint64_t[]){8});
    made_gguf_write(&g, path_of("long.gguf"));
    if (CHECK_EQ(t, gguf_open(path_of("long.gguf"), &gguf, &err), MOE_OK)) {
        CHECK_EQ(t, gguf_find(&gguf, "tokens")->count, COUNT);
        CHECK_EQ(t, gguf.data_start % 4096, 0);
        gguf_release(&gguf);
    } else {
        printf("    %s\n", err.text);
    }
    CHECK_EQ(t, truncate(path_of("long.gguf"), 1 << 20), 0);
    CHECK_EQ(t, gguf_open(path_of("long.gguf"), &gguf, &err), MOE_FORMAT);
    CHECK(t, strstr(err.text, "cut short") != NULL && gguf.file.fd == -1);
    made_gguf_release(&g);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(values_and_tensors_are_found), TEST(versions_are_refused),
        TEST(counts_are_refused),           TEST(values_are_refused),
        TEST(alignments_are_refused),       TEST(tensors_are_refused),
        TEST(places_are_refused),           TEST(truncation_is_refused_at_every_byte),
        TEST(long_headers_are_read),
    };
    if (!mkdtemp(folder))
        return 1;
    int status = HARNESS_RUN(tests, argc, argv);
    unlink(path_of("found.gguf"));
    unlink(path_of("long.gguf"));
    rmdir(folder);
    return status;
}
