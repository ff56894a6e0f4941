// SPDX-License-Identifier: GPL-3.0-or-later
// What leaves the program: numbers for people, progress, JSON, files that appear whole.
#include "tests/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "app/util/files.h"
#include "app/util/format.h"
#include "app/util/json_out.h"
#include "app/util/progress.h"
#include "app/util/quote.h"
#include "app/util/report.h"

static void numbers_for_people(struct harness *t)
{
    char out[FORMAT_SIZE];
    CHECK_STR(t, format_bytes(out, sizeof out, 0), "0 B");
    CHECK_STR(t, format_bytes(out, sizeof out, 999), "999 B");
    CHECK_STR(t, format_bytes(out, sizeof out, 1000), "1.00 KB");
    CHECK_STR(t, format_bytes(out, sizeof out, 999499), "999 KB");
    CHECK_STR(t, format_bytes(out, sizeof out, 999500), "1.00 MB");
    CHECK_STR(t, format_bytes(out, sizeof out, 12345678), "12.3 MB");
    CHECK_STR(t, format_bytes(out, sizeof out, UINT64_MAX), "18447 PB");
    CHECK_STR(t, format_bytes_up(out, sizeof out, 999), "999 B");
    CHECK_STR(t, format_bytes_up(out, sizeof out, 1001), "1.01 KB");
    CHECK_STR(t, format_bytes_up(out, sizeof out, 688128), "689 KB");
    CHECK_STR(t, format_bytes_up(out, sizeof out, 998001), "999 KB");
    CHECK_STR(t, format_bytes_up(out, sizeof out, 999001), "1.00 MB");
    CHECK_STR(t, format_bytes_up(out, sizeof out, 24700000), "24.7 MB");
    CHECK_STR(t, format_bytes_typed(out, sizeof out, 560), "560");
    CHECK_STR(t, format_bytes_typed(out, sizeof out, 2 * 800001), "1.61MB"); // no less
    CHECK_STR(t, format_count(out, sizeof out, 36300000), "36.3 million");
    CHECK_STR(t, format_tokens(out, sizeof out, 1, 0), "1 token");
    CHECK_STR(t, format_tokens(out, sizeof out, 2, 7.25), "2 tokens, 7.2 tokens/s");
    CHECK_STR(t, format_percent(out, sizeof out, 0.834, 0), "83");
    CHECK_STR(t, format_percent(out, sizeof out, 0.997, 0), "99");
    CHECK_STR(t, format_percent(out, sizeof out, 0.997, 1), "99.7");
    CHECK_STR(t, format_percent(out, sizeof out, 0.9997, 1), "99.9");
    CHECK_STR(t, format_percent(out, sizeof out, 1, 0), "100");
    CHECK_STR(t, format_percent(out, sizeof out, 1, 1), "100.0");
    CHECK_STR(t, format_percent(out, sizeof out, 0, 0), "0");
    CHECK_STR(t, format_duration(out, sizeof out, 0.44), "0.4 s");
    CHECK_STR(t, format_duration(out, sizeof out, 9.96), "10 s");
    CHECK_STR(t, format_duration(out, sizeof out, 59.6), "1 min 0 s");
    CHECK_STR(t, format_duration(out, sizeof out, 7890), "2 h 11 min");
}

static void progress_in_words(struct harness *t)
{
    char out[128];
    struct moe_progress f = {.what = "reading prompt", .unit = "tokens", .done = 100, .total = 400};
    CHECK_STR(t, progress_words(out, sizeof out, &f, -1), "Reading prompt: 100 of 400 tokens");
    CHECK_STR(t, progress_words(out, sizeof out, &f, 6), "Reading prompt: 100 of 400 tokens, 6.0 s left");
    CHECK(t, progress_seconds_left(&f, 0.2) < 0 && progress_seconds_left(&f, 2) == 6);
    f.seconds_left = 9;
    CHECK(t, progress_seconds_left(&f, 2) == 9);
    f.seconds_left = 0;
    f.bytes_read = 2500000;
    CHECK_STR(t, progress_words(out, sizeof out, &f, 6), "Reading prompt: 100 of 400 tokens, 2.50 MB read, 6.0 s left");
    f.bytes_left = 7500000000;
    CHECK_STR(t, progress_words(out, sizeof out, &f, 6),
              "Reading prompt: 100 of 400 tokens, 2.50 MB read, about 7.50 GB to read, 6.0 s left");
    f.bytes_read = 0;
    f.done = 400;
    CHECK_STR(t, progress_words(out, sizeof out, &f, progress_seconds_left(&f, 2)),
              "Reading prompt: 400 of 400 tokens");
    f = (struct moe_progress){.what = "building kernels", .unit = "steps", .done = 1, .total = 26};
    CHECK(t, progress_seconds_left(&f, 6) < 0); // it said two and a half minutes of 40 seconds
    f.done = 13;
    CHECK(t, progress_seconds_left(&f, 20) == 20);
    f = (struct moe_progress){.what = "reading weights", .unit = "bytes", .done = 0, .total = 20000000};
    CHECK_STR(t, progress_words(out, sizeof out, &f, progress_seconds_left(&f, 9)), "Reading weights: 0 B of 20.0 MB");
}

// Estimates that jump by half up and down every half second are shown as a count down, and a new truth is reached.
static void time_left_does_not_wander(struct harness *t)
{
    struct progress_eta eta = {0};
    CHECK(t, progress_steady(&eta, -1, 0) < 0);
    double last = progress_steady(&eta, 60, 1), most = 0;
    CHECK(t, last == 60);
    for (int i = 1; i <= 60; i++) {
        double now = 1 + i * 0.5, truth = 61 - now;
        double shown = progress_steady(&eta, truth * (i % 2 ? 1.5 : 0.5), now);
        most = shown - last > most ? shown - last : most;
        last = shown;
    }
    CHECK(t, most < 2 && last > 20 && last < 40);
    for (int i = 0; i < 60; i++) // it takes ten times as long after all
        last = progress_steady(&eta, 300 - i, 32 + i);
    CHECK(t, last > 235 && last < 245);
    CHECK(t, progress_steady(&eta, -1, 1000) == 0);
}

// 20 of 27 steps were in a cache: what they took says nothing of the others, and the line must not stand at nothing.
static void time_left_is_not_nothing_meanwhile(struct harness *t)
{
    struct progress_eta eta = {0};
    struct moe_progress at = {.what = "building kernels", .unit = "steps", .done = 20, .total = 27};
    for (double now = 0.125; now <= 8; now += 0.125) {
        double left = progress_seconds_left(&at, now), shown = progress_steady(&eta, left, now);
        CHECK(t, left < 0 ? shown < 0 : shown > left * 0.49);
    }
    CHECK(t, progress_steady(&eta, progress_seconds_left(&at, 8), 8) > 1);
}

static void reports_show_no_escape(struct harness *t)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    char hostile[1000];
    memset(hostile, 'a', sizeof hostile);
    memcpy(hostile + 254, "\033]0;x\a\x9b", 8); // across the pieces it is cleaned in
    report_text(out, hostile, sizeof hostile);
    fclose(out);
    CHECK(t, size > 1000);
    for (size_t i = 0; i < size; i++)
        CHECK(t, (unsigned char)text[i] >= 0x20 && text[i] != 0x7f);
    free(text);
}

// The JSON of one text.
static char *json_of(const char *text, size_t length)
{
    struct json_out out = {0};
    struct bytes line = {0};
    json_out_open(&out, NULL, '{');
    json_out_text(&out, "text", text, length);
    json_out_close(&out, '}');
    if (json_out_render(&out, &line) && line.length)
        line.data[line.length - 1] = 0; // its newline
    return line.data;
}

static void text_is_always_utf8(struct harness *t)
{
    static const struct {
        const char *text, *json;
    } cases[] = {
        {"plain/text", "{\"text\":\"plain/text\"}"},
        {"\xe2\x82\xac\xf0\x9f\x99\x82", "{\"text\":\"\xe2\x82\xac\xf0\x9f\x99\x82\"}"},
        {"a\xff"
         "b",
         "{\"text\":\"a\xef\xbf\xbd"
         "b\",\"text_hex\":\"61ff62\"}"},
        {"\xe2\x82", "{\"text\":\"\xef\xbf\xbd\xef\xbf\xbd\",\"text_hex\":\"e282\"}"},
        {"\xc0\xaf", "{\"text\":\"\xef\xbf\xbd\xef\xbf\xbd\",\"text_hex\":\"c0af\"}"},                   // overlong
        {"\xed\xa0\x80", "{\"text\":\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\",\"text_hex\":\"eda080\"}"}, // surrogate
        {"\xf4\x90\x80\x80",
         "{\"text\":\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\",\"text_hex\":\"f4908080\"}"},
        {"", "{\"text\":\"\"}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *json = json_of(cases[i].text, strlen(cases[i].text));
        CHECK_STR(t, json, cases[i].json);
        free(json);
    }
    char *json = json_of("a\0b", 3);
    CHECK_STR(t, json, "{\"text\":\"a\\u0000b\"}");
    free(json);
}

// What a terminal acts on or hides, such as U+115F, U+3164, U+FE0F and U+1D173, is escaped in what is printed.
static void json_shows_all_of_it(struct harness *t)
{
    struct json_out object = {0};
    struct bytes line = {0};
    static const char hidden[] =
        "\xc2\x9b\xe1\x85\x9f\xe3\x85\xa4\xef\xb8\x8f\xf0\x9d\x85\xb3\xe2\x80\xae\x7f.\xc3\xa9\xe6\x97\xa5~";
    json_out_open(&object, NULL, '{');
    json_out_text(&object, "text", hidden, sizeof hidden - 1);
    json_out_close(&object, '}');
    CHECK(t, json_out_render(&object, &line));
    CHECK_STR(t, line.data,
              "{\"text\":\"\\u009b\\u115f\\u3164\\ufe0f\\ud834\\udd73\\u202e\\u007f.\xc3\xa9\xe6\x97\xa5~\"}\n");
    bytes_release(&line);
}

// What json-c reads of what is written is what was written, and in its order.
static void json_is_read_as_it_was_written(struct harness *t)
{
    struct json_out out = {0}, rows = {0};
    struct bytes line = {0};
    json_out_open(&rows, NULL, '[');
    json_out_number(&rows, NULL, INT64_MIN);
    json_out_whole(&rows, NULL, UINT64_MAX);
    json_out_close(&rows, ']');
    json_out_open(&out, NULL, '{');
    json_out_open(&out, "none", '[');
    json_out_close(&out, ']');
    json_out_flag(&out, "yes", true);
    json_out_flag(&out, "no", false);
    json_out_null(&out, "null");
    json_out_open(&out, "in", '{');
    json_out_string(&out, "\"\\\b\f\n\r\t/\x01", "\"\\\b\f\n\r\t/\x01");
    json_out_close(&out, '}');
    json_out_part(&out, "rows", &rows);
    json_out_close(&out, '}');
    CHECK(t, json_out_render(&out, &line) && !out.text.data && !rows.text.data);
    CHECK_STR(t, line.data,
              "{\"none\":[],\"yes\":true,\"no\":false,\"null\":null,"
              "\"in\":{\"\\\"\\\\\\b\\f\\n\\r\\t/\\u0001\":\"\\\"\\\\\\b\\f\\n\\r\\t/\\u0001\"},"
              "\"rows\":[-9223372036854775808,18446744073709551615]}\n");
    struct json_object *read = json_tokener_parse(line.data);
    CHECK_STR(t,
              json_object_to_json_string_ext(json_object_object_get(read, "in"),
                                             JSON_C_TO_STRING_NOSLASHESCAPE | JSON_C_TO_STRING_PLAIN),
              "{\"\\\"\\\\\\b\\f\\n\\r\\t/\\u0001\":\"\\\"\\\\\\b\\f\\n\\r\\t/\\u0001\"}");
    json_object_put(read);
    bytes_release(&line);
}

static void quoted(struct harness *t, const char *text, const char *want)
{
    struct bytes word = {0};
    CHECK(t, quote_shell(&word, text));
    CHECK_STR(t, word.data, want);
    bytes_release(&word);
}

static void called_again(struct harness *t, const char *argv0, const char *want)
{
    struct bytes word = {0};
    CHECK(t, quote_program(&word, argv0));
    CHECK_STR(t, word.data, want);
    bytes_release(&word);
}

static void words_for_a_shell(struct harness *t)
{
    quoted(t, "/models/DeepSeek-V3_Q4.gguf", "/models/DeepSeek-V3_Q4.gguf");
    quoted(t, "", "''");
    quoted(t, "a b;$(c)`d`", "'a b;$(c)`d`'");
    quoted(t, "it's", "'it'\\''s'");
    quoted(t, "-m", "./-m");
    quoted(t, "- m", "./'- m'");
    quoted(t, "~", "'~'");
    quoted(t, "caf\xc3\xa9 \xe6\x97\xa5", "'caf\xc3\xa9 \xe6\x97\xa5'");
    quoted(t, "a\x1b]0;x\a'\\", "$'a\\033]0;x\\007\\047\\134'");
    quoted(t, "a\nb\t", "$'a\\012b\\011'");
    quoted(t,
           "\xe2\x80\xae"
           "0",
           "$'\\342\\200\\2560'");
    quoted(t, "\xe2\x80", "$'\\342\\200'");
    quoted(t, "\xff.", "$'\\377.'");
    called_again(t, "./moechat", "./moechat");
    called_again(t, "/a b/moe=chat", "'/a b/moe=chat'");
    called_again(t, "build/asan/moechat", "build/asan/moechat");
    called_again(t, "moechat", "moechat");
    called_again(t, "mc", "moechat"); // whatever a shell or a login calls it
    called_again(t, NULL, "moechat");
}

static void reals_that_are_none_are_null(struct harness *t)
{
    struct json_out out = {0};
    json_out_open(&out, NULL, '{');
    json_out_real(&out, "a", 0.1);
    json_out_real(&out, "b", NAN);
    json_out_real(&out, "c", INFINITY);
    json_out_close(&out, '}');
    CHECK_STR(t, out.text.data, "{\"a\":0.1,\"b\":null,\"c\":null}");
    json_out_release(&out);
    CHECK(t, json_out_rate(10, 0) == 0 && json_out_rate(10, 2000000000) == 5);
}

static void a_tenth_of_a_second_goes_by(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 105000000}, NULL);
}

// On a terminal a line that is rewritten, and in the end gone; where nothing can be rewritten, one line for each
// subject.
static void progress_is_one_line(struct harness *t)
{
    for (int plain = 0; plain < 2; plain++) {
        char *said = NULL;
        size_t length = 0;
        struct progress progress = {.out = open_memstream(&said, &length), .plain = plain};
        struct moe_progress at = {.what = "reading", .unit = "bytes", .done = 3000, .total = 9000};
        progress_show(&progress, &at);
        progress_show(&progress, &at);
        CHECK(t, length == 0); // what is over soon is never shown
        a_tenth_of_a_second_goes_by();
        progress_show(&progress, &at);
        progress_show(&progress, &at);
        CHECK(t, length > 0 && !strchr(said + 1, '\r') && (said[0] == '\r') == !plain &&
                     (said[length - 1] == '\n') == plain);
        size_t once = length;
        a_tenth_of_a_second_goes_by();
        progress_show(&progress, &at);
        CHECK(t, (length > once) == !plain);
        progress_clear(&progress);
        CHECK(t, (said[length - 1] == '\r') == !plain);
        fclose(progress.out);
        free(said);
    }
}

// With the folders above it, for nobody else to look into.
static void places_are_made(struct harness *t)
{
    char folder[] = "/tmp/moechat-output-XXXXXX", deep[64], made[96];
    struct stat there;
    CHECK(t, mkdtemp(folder) != NULL);
    snprintf(deep, sizeof deep, "%s/a/b", folder);
    snprintf(made, sizeof made, "%s/moechat", deep);
    setenv("MOECHAT_TEST_PLACE", deep, 1);
    struct files_place place = {.variable = "MOECHAT_TEST_PLACE", .otherwise = ".x", .name = "f"};
    char *path = files_place(&place);
    CHECK(t, path && strncmp(path, made, strlen(made)) == 0 && strcmp(path + strlen(made), "/f") == 0);
    CHECK(t, stat(deep, &there) != 0);
    free(path);
    place.make = true;
    for (int i = 0; i < 2; i++) {
        path = files_place(&place);
        CHECK(t, path && stat(made, &there) == 0 && (there.st_mode & 0777) == 0700);
        free(path);
    }
    CHECK(t, rmdir(made) == 0);
    *strrchr(made, '/') = 0;
    CHECK(t, rmdir(made) == 0);
    *strrchr(made, '/') = 0;
    CHECK(t, rmdir(made) == 0 && rmdir(folder) == 0);
    setenv("MOECHAT_TEST_PLACE", "relative", 1);
    path = files_place(&(struct files_place){.variable = "MOECHAT_TEST_PLACE", .otherwise = ".x", .name = "f"});
    CHECK(t, !path || strncmp(path, "relative", 8) != 0);
    free(path);
    unsetenv("MOECHAT_TEST_PLACE");
}

static void files_appear_whole(struct harness *t)
{
    char folder[] = "/tmp/moechat-output-XXXXXX", path[64];
    struct new_file file;
    struct bytes text = {0};
    struct stat there;
    CHECK(t, mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/out", folder);
    mode_t mask = umask(027);
    CHECK_EQ(t, files_create(&file, path), 0);
    CHECK_EQ(t, files_write_at(&file, "world", 5, 6), 0);
    CHECK_EQ(t, files_write_at(&file, "hello ", 6, 0), 0);
    CHECK(t, stat(path, &there) != 0); // not before it is complete
    CHECK_EQ(t, files_commit(&file), 0);
    CHECK(t, stat(path, &there) == 0 && (there.st_mode & 0777) == 0640); // as a shell's > makes it
    umask(mask);
    CHECK_EQ(t, files_read(path, 100, &text), 0);
    CHECK_STR(t, text.data, "hello world");
    text.length = 0;
    CHECK_EQ(t, files_read(path, 10, &text), EFBIG);
    CHECK_EQ(t, files_create(&file, path), 0);
    CHECK_EQ(t, files_write_at(&file, "other", 5, 0), 0);
    files_discard(&file);
    files_discard(&file);
    text.length = 0;
    CHECK_EQ(t, files_read(path, 100, &text), 0);
    CHECK_STR(t, text.data, "hello world");
    char link[64];
    snprintf(link, sizeof link, "%s/link", folder);
    CHECK_EQ(t, symlink("out", link), 0);
    CHECK_EQ(t, chmod(path, 0600), 0);
    CHECK_EQ(t, files_create(&file, link), 0); // a link stays one
    CHECK_EQ(t, files_write_at(&file, "through", 7, 0), 0);
    CHECK_EQ(t, files_commit(&file), 0);
    text.length = 0;
    CHECK_EQ(t, files_read(path, 100, &text), 0);
    CHECK_STR(t, text.data, "through");
    CHECK(t, lstat(link, &there) == 0 && S_ISLNK(there.st_mode));
    CHECK(t, stat(path, &there) == 0 && (there.st_mode & 0777) == 0600); // what was private stays private
    unlink(path);
    CHECK_EQ(t, files_create(&file, link), ENOENT); // and leads somewhere
    unlink(link);
    CHECK_EQ(t, rmdir(folder), 0);                  // no temporary is left
    CHECK_EQ(t, files_create(&file, path), ENOENT); // nor its folder
    bytes_release(&text);
}

// Standard output that a shell's other processes made one that does not wait.
static void what_does_not_wait_is_waited_for(struct harness *t)
{
    enum { BYTES = 300000 };
    int ends[2], status = 1;
    char *data = calloc(1, BYTES);
    CHECK(t, data && pipe(ends) == 0 && fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0);
    pid_t child = fork();
    if (child == 0) {
        char block[1000];
        size_t total = 0;
        close(ends[1]);
        usleep(50000); // the pipe is full by then
        for (ssize_t got; (got = read(ends[0], block, sizeof block)) > 0;)
            total += (size_t)got;
        _exit(total == BYTES ? 0 : 1);
    }
    CHECK_EQ(t, files_write(ends[1], data, BYTES), 0);
    close(ends[0]);
    close(ends[1]);
    waitpid(child, &status, 0);
    CHECK_EQ(t, status, 0);
    free(data);
}

static void devices_are_written_to_not_replaced(struct harness *t)
{
    struct new_file file;
    struct stat there;
    CHECK_EQ(t, files_create(&file, "/dev/full"), 0);
    CHECK_EQ(t, files_write_at(&file, "x", 1, 0), ENOSPC);
    files_discard(&file);
    CHECK_EQ(t, files_create(&file, "/dev/null"), 0);
    CHECK_EQ(t, files_write_at(&file, "x", 1, 0), 0);
    CHECK_EQ(t, files_commit(&file), 0);
    CHECK(t, stat("/dev/null", &there) == 0 && S_ISCHR(there.st_mode));
}

// A float's digits are those that it was given.
static void floats_are_as_short_as_they_were(struct harness *t)
{
    static const struct {
        float value;
        const char *wanted;
    } cases[] = {{0.6F, "0.6"}, {0.1F, "0.1"}, {1.0F, "1"}, {0.33333334F, "0.33333334"}, {16777217.0F, "16777216"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct json_out out = {0};
        json_out_float(&out, NULL, cases[i].value);
        CHECK_STR(t, out.text.data, cases[i].wanted);
        json_out_release(&out);
    }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(floats_are_as_short_as_they_were),
        TEST(numbers_for_people),
        TEST(progress_in_words),
        TEST(time_left_does_not_wander),
        TEST(time_left_is_not_nothing_meanwhile),
        TEST(text_is_always_utf8),
        TEST(reals_that_are_none_are_null),
        TEST(progress_is_one_line),
        TEST(places_are_made),
        TEST(files_appear_whole),
        TEST(devices_are_written_to_not_replaced),
        TEST(reports_show_no_escape),
        TEST(json_shows_all_of_it),
        TEST(json_is_read_as_it_was_written),
        TEST(words_for_a_shell),
        TEST(what_does_not_wait_is_waited_for),
    };
    return HARNESS_RUN(tests, argc, argv);
}
