// SPDX-License-Identifier: GPL-3.0-or-later
// Lines with a checksum: what is written byte for byte, what is read of each kind of field, and at its edges.
#include "app/store/sealed.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "tests/sealed_rig.h"

enum { BODY = 26 }; // {"sum":"16 digits",

// The object of a body whose sum is right. NULL: it is no such line.
static struct json_object *parsed(const char *body)
{
    struct bytes line = {0};
    uint64_t sum;
    seal(body, strlen(body), &line);
    struct json_object *object = line.length ? sealed_parse(line.data, line.length - 1, &sum) : NULL;
    bytes_release(&line);
    return object;
}

static void fields_are_written_plainly(struct harness *t)
{
    struct bytes out = {0};
    struct json_out json = {0};
    bytes_append(&out, "before\n", 7);
    json_out_open(&json, NULL, '{');
    json_out_whole(&json, "whole", UINT64_MAX);
    json_out_real(&json, "real", 0.1);
    json_out_real(&json, "none", INFINITY);
    json_out_hex(&json, "hex", 0xabc);
    json_out_string(&json, "text", "a \"b\" \\ / \n\r\t\b\f\x1f~");
    json_out_flag(&json, "yes", true);
    json_out_flag(&json, "no", false);
    json_out_null(&json, "null");
    json_out_open(&json, "list", '[');
    json_out_whole(&json, NULL, 0);
    json_out_whole(&json, NULL, 10);
    json_out_open(&json, NULL, '{');
    json_out_string(&json, "in", "");
    json_out_close(&json, '}');
    json_out_close(&json, ']');
    json_out_text(&json, "raw", "a\xff\x0f", 3);
    json_out_close(&json, '}');
    CHECK(t, sealed_render(&json, &out));
    CHECK(t, strncmp(out.data, "before\n{\"sum\":\"", 15) == 0);
    CHECK_STR(t, out.data + 7 + BODY,
              "\"whole\":18446744073709551615,\"real\":0.1,\"none\":null,\"hex\":\"0000000000000abc\","
              "\"text\":\"a \\\"b\\\" \\\\ / \\n\\r\\t\\b\\f\\u001f~\",\"yes\":true,\"no\":false,\"null\":null,"
              "\"list\":[0,10,{\"in\":\"\"}],\"raw\":\"a\xef\xbf\xbd\\u000f\",\"raw_hex\":\"61ff0f\"}\n");
    uint64_t sum = 0;
    struct json_object *object = sealed_parse(out.data + 7, out.length - 8, &sum);
    CHECK(t, object && sum == sealed_sum(out.data + 7, out.length - 8) && sum != 0);
    json_object_put(object);
    for (size_t i = 7; i + 1 < out.length; i++) { // any byte changed, and any end
        uint64_t other;
        out.data[i] ^= 1;
        object = sealed_parse(out.data + 7, out.length - 8, &other);
        CHECK(t, !object);
        json_object_put(object);
        out.data[i] ^= 1;
        CHECK(t, !sealed_parse(out.data + 7, i - 7, &other));
    }
    bytes_release(&out);
}

static void numbers_have_their_edges(struct harness *t)
{
    struct json_object *o =
        parsed("\"n\":7,\"zero\":0,\"less\":-1,\"big\":18446744073709551615,\"real\":2.5,\"word\":\"7\"");
    uint64_t n = 1;
    double real = 0;
    if (!CHECK(t, o != NULL))
        return;
    CHECK(t, sealed_whole(o, "n", 7, &n) && n == 7);
    CHECK(t, !sealed_whole(o, "n", 6, &n) && sealed_whole(o, "n", 8, &n));
    CHECK(t, sealed_whole(o, "zero", 0, &n) && n == 0);
    CHECK(t, !sealed_whole(o, "less", UINT64_MAX, &n) && !sealed_whole(o, "none", 9, &n));
    CHECK(t, sealed_whole(o, "big", UINT64_MAX, &n) && n == UINT64_MAX && !sealed_whole(o, "big", UINT64_MAX - 1, &n));
    CHECK(t, !sealed_whole(o, "real", 9, &n) && !sealed_whole(o, "word", 9, &n));
    CHECK(t, sealed_real(o, "real", &real) && real <= 2.5 && real >= 2.5);
    CHECK(t, sealed_real(o, "less", &real) && real < 0 && sealed_real(o, "n", &real) && real > 6);
    CHECK(t, !sealed_real(o, "word", &real) && !sealed_real(o, "none", &real));
    json_object_put(o);
    o = parsed("\"huge\":1e999");
    CHECK(t, !o || !sealed_real(o, "huge", &real));
    json_object_put(o);
}

static void words_have_their_edges(struct harness *t)
{
    char word[5];
    uint64_t hex = 0;
    struct json_object *o =
        parsed("\"four\":\"abcd\",\"five\":\"abcde\",\"ends\":\" ~\",\"low\":\"\\u001f\",\"del\":\"\\u007f\",\"more\":"
               "\"\\u00e9\",\"wide\":\"ab\\u20ac\",\"hex\":\"00000000000000ff\",\"short\":\"00ff\",\"no\":"
               "\"00000000000000fg\","
               "\"n\":1,\"list\":[1,2,3]");
    if (!CHECK(t, o != NULL))
        return;
    CHECK(t, sealed_string(o, "four", word, sizeof word));
    CHECK_STR(t, word, "abcd");
    CHECK(t, !sealed_string(o, "five", word, sizeof word) && sealed_string(o, "ends", word, sizeof word));
    CHECK(t, !sealed_string(o, "low", word, sizeof word) && !sealed_string(o, "del", word, sizeof word));
    CHECK(t, !sealed_string(o, "more", word, sizeof word) && !sealed_string(o, "n", word, sizeof word));
    CHECK(t, sealed_label(o, "four", word, sizeof word) && strcmp(word, "abcd") == 0);
    CHECK(t, sealed_label(o, "five", word, sizeof word) && strcmp(word, "abcd") == 0);
    CHECK(t, sealed_label(o, "wide", word, sizeof word) && strcmp(word, "ab") == 0); // between characters
    CHECK(t, sealed_label(o, "more", word, sizeof word) && strcmp(word, "\xc3\xa9") == 0);
    CHECK(t, !sealed_label(o, "n", word, sizeof word) && !sealed_label(o, "none", word, sizeof word));
    CHECK(t, sealed_hex(o, "hex", &hex) && hex == 255);
    CHECK(t, !sealed_hex(o, "short", &hex) && !sealed_hex(o, "no", &hex));
    CHECK(t, sealed_array(o, "list", 3) && !sealed_array(o, "list", 2) && !sealed_array(o, "n", 3));
    json_object_put(o);
}

static void what_is_no_such_line(struct harness *t)
{
    CHECK(t, !parsed("\"open\":[1")); // the sum is right, the JSON is not
    CHECK(t, !parsed("\"a\":1}{\"b\":2"));
    CHECK(t, !parsed("\"a\":1}x{"));
    CHECK(t, !parsed("\"bytes\":\"\xff\""));
    struct json_object *empty = parsed("\"a\":1");
    CHECK(t, empty != NULL);
    json_object_put(empty);
    uint64_t sum;
    CHECK(t, !sealed_parse("", 0, &sum) && !sealed_parse("{}", 2, &sum));
}

// What json-c makes of a line is held against the line, so whatever a line can say has to be weighed as json-c does.
static void whole_lines_are_whole(struct harness *t)
{
    static const char *const whole[] = {
        "\"\":\"\"",
        "\"a\\u00e9\":\"\\u0000\\u007f\\u0080\\u07ff\\u0800\\uffff\"",
        "\"s\":\"\\ud83d\\ude00 \\ud83d \\ud83d\\u0041 \\ude00 \\ud83d\"",
        "\"s\":\"\\\\\\\" , : n [ { \\/ \\n\\r\\t\\b\\f\xc3\xa9\",\"n\":null,\"l\":[null,[],{},[1 , "
        "2],true,false,{\"m\" : 0.5}]",
    };
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        struct json_object *object = parsed(whole[i]);
        if (!CHECK(t, object != NULL))
            printf("    %s\n", whole[i]);
        json_object_put(object);
    }
    CHECK(t, !parsed("\"a\":1,\"a\":1")); // which of the two?
}

// A line of a few megabytes takes json-c gigabytes where it is full of objects with nothing in them.
static void objects_with_nothing_in_them(struct harness *t)
{
    static const char *const empty[] = {"{}", "[]", "{\"a\":[]}"};
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++)
        for (size_t n = 20; n <= 200000; n *= 10000) {
            struct bytes object = {0}, line = {0};
            uint64_t sum;
            bool fine = bytes_append(&object, "{\"parts\":[1", 11);
            for (size_t k = 0; k < n && fine; k++)
                fine = bytes_append(&object, ",", 1) && bytes_append(&object, empty[i], strlen(empty[i]));
            fine = fine && bytes_append(&object, "]}", 2) && sealed_line(object.data, object.length, &line);
            if (!CHECK(t, fine))
                return;
            struct json_object *parsed = sealed_parse(line.data, line.length - 1, &sum);
            CHECK_EQ(t, parsed != NULL, n == 20);
            json_object_put(parsed);
            bytes_release(&object);
            bytes_release(&line);
        }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(objects_with_nothing_in_them), TEST(fields_are_written_plainly),
                                                TEST(numbers_have_their_edges),     TEST(words_have_their_edges),
                                                TEST(what_is_no_such_line),         TEST(whole_lines_are_whole)};
    return HARNESS_RUN(tests, argc, argv);
}
