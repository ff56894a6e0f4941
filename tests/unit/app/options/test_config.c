// SPDX-License-Identifier: GPL-3.0-or-later
// The configuration file: what it reads and prints, what goes before it, and where its mistakes are.
#include "app/options/config.h"

#include <stdlib.h>
#include <unistd.h>

#include "tests/harness.h"

// Reads `text` over what the command line "moechat ARGUMENTS" set. The options' strings live as long as *bytes.
static bool read_config(struct options *options, const char *arguments, const char *text, struct bytes *bytes,
                        struct options_error *error)
{
    char words[256], *argv[16] = {"moechat"};
    int argc = 1;
    snprintf(words, sizeof words, "%s", arguments);
    for (char *at = strtok(words, " "); at; at = strtok(NULL, " "))
        argv[argc++] = at;
    bytes->length = 0;
    bytes_append(bytes, text, strlen(text));
    options_defaults(options);
    return options_parse(options, argc, argv, error) && config_parse(options, "FILE", bytes, error);
}

static void reads_settings(struct harness *t)
{
    struct options o;
    struct options_error e;
    struct bytes text = {0};
    CHECK(t, read_config(&o, "",
                         "# mine\n\n  temp=0.2  \ntop_k = 40\r\nsystem = Be brief = short.\nplain = yes\n"
                         "expert-cache = 2GiB\ncolor = never\nno-session = off\nkv-cap = 0",
                         &text, &e));
    CHECK(t, o.talk.temp == 0.2 && o.talk.top_k == 40 && o.talk.face.plain &&
                 o.model.expert_cache == UINT64_C(2) << 30 && !o.talk.no_session);
    CHECK(t, o.talk.face.color == COLOR_NEVER && o.talk.kv_cap == 0);
    CHECK_STR(t, o.talk.system, "Be brief = short.");
    CHECK(t, options_given(&o, "temp") && options_given(&o, "no-session") && !options_given(&o, "ascii"));
    CHECK(t, read_config(&o, "", "", &text, &e) && o.talk.temp == 0.6);
    CHECK(t, read_config(&o, "", "\xEF\xBB\xBFtemp = 0.2\n", &text, &e) && o.talk.temp == 0.2);
    bytes_release(&text);
}

static void flag_and_environment_win(struct harness *t)
{
    struct options o;
    struct options_error e;
    struct bytes text = {0};
    setenv("MOECHAT_TOP_P", "0.5", 1);
    CHECK(t, read_config(&o, "--temp 0.1", "temp = 0.2\ntop-p = 0.3\nmin-p = 0.4\n", &text, &e));
    CHECK(t, o.talk.temp == 0.1 && o.talk.top_p == 0.5 && o.talk.min_p == 0.4);
    unsetenv("MOECHAT_TOP_P");
    static const char *const words[][2] = {{"yes", "no"}, {"true", "false"}, {"on", "off"}, {"1", "0"}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        setenv("MOECHAT_PLAIN", words[i][1], 1);
        setenv("MOECHAT_ASCII", words[i][0], 1);
        setenv("MOECHAT_BELL", "", 1); // as if it were not set
        CHECK(t, read_config(&o, "", "plain = yes\nascii = no\nbell = yes\n", &text, &e));
        CHECK(t, !o.talk.face.plain && o.talk.face.ascii && o.talk.face.bell);
    }
    unsetenv("MOECHAT_PLAIN");
    unsetenv("MOECHAT_ASCII");
    unsetenv("MOECHAT_BELL");
    CHECK(t, read_config(&o, "info", "temp = 0.2\n", &text, &e) && o.talk.temp == 0.6); // info has no use for it
    CHECK(t, !read_config(&o, "info", "temp = hot\n", &text, &e));                      // but says what is wrong
    bytes_release(&text);
}

// --session and --continue, which are only typed, go before a no-session that is not.
static void a_session_that_is_typed_wins(struct harness *t)
{
    static const struct {
        const char *arguments, *variable, *file, *refusal; // NULL: taken
        bool saves;
    } cases[] = {
        {"-s foo", "", "no-session = yes\n", NULL, true},
        {"-c", "", "no-session = yes\n", NULL, true},
        {"run -s foo", "yes", "", NULL, true},
        {"-c", "1", "no-session = yes\n", NULL, true},
        {"--no-session", "no", "no-session = no\n", NULL, false},
        {"", "yes", "no-session = no\n", NULL, false},
        {"", "no", "no-session = yes\n", NULL, true},
        {"info", "yes", "no-session = yes\n", NULL, true}, // has no use for it
        {"-s foo --no-session", "", "", "the command line has both --session and --no-session; use one of them", false},
        {"--no-session -c", "no", "", "the command line has both --continue and --no-session; use one of them", false},
        {"-c -s foo", "", "", "the command line has both --session and --continue; use one of them", false},
        {"-c -s foo", "yes", "", "the command line has both --session and --continue; use one of them", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct options o;
        struct options_error e = {""};
        struct bytes text = {0};
        setenv("MOECHAT_NO_SESSION", cases[i].variable, 1);
        CHECK(t, read_config(&o, cases[i].arguments, cases[i].file, &text, &e));
        CHECK_EQ(t, options_settle(&o, &e), !cases[i].refusal);
        CHECK_STR(t, e.text, cases[i].refusal ? cases[i].refusal : "");
        if (!cases[i].refusal && !CHECK_EQ(t, o.talk.no_session, !cases[i].saves))
            printf("    case %zu\n", i);
        bytes_release(&text);
    }
    setenv("MOECHAT_NO_SESSION", "yes", 1);
    struct options o;
    struct options_error e;
    struct bytes text = {0};
    char *printed = NULL;
    size_t size;
    CHECK(t, read_config(&o, "-s foo", "no-session = yes\n", &text, &e) && options_settle(&o, &e));
    unsetenv("MOECHAT_NO_SESSION");
    FILE *out = open_memstream(&printed, &size);
    config_print(out, &o);
    fclose(out);
    CHECK(t, strstr(printed, "# from the command line\nno-session = no\n") != NULL);
    free(printed);
    bytes_release(&text);
}

static void mistakes_have_a_place(struct harness *t)
{
    static const char *const cases[][2] = {
        {"temp", "FILE line 1: expected \"key = value\", not \"temp\""},
        {"\n\ntemp = x", "FILE line 3: temp takes a number, not \"x\""},
        {"colour = red", "FILE line 1: unknown setting \"colour\""},
        {"prompt = hi", "FILE line 1: unknown setting \"prompt\""},
        {"config = x", "FILE line 1: unknown setting \"config\""},
        {"temp = 1\ntemp = 2", "FILE line 2: temp is set twice"},
        {"temp =", "FILE line 1: temp has no value; remove the line for the default"},
        {"= 1", "FILE line 1: expected \"key = value\", not \"= 1\""},
        {"plain = maybe", "FILE line 1: plain takes yes or no, not \"maybe\""},
        {"system = a\x1B[2J", "FILE line 1: not valid text"},
        {"system = \xFF", "FILE line 1: not valid text"},
    };
    struct options o;
    struct options_error e;
    struct bytes text = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CHECK(t, !read_config(&o, "", cases[i][0], &text, &e));
        CHECK_STR(t, e.text, cases[i][1]);
    }
    text.length = 0;
    bytes_append(&text, "temp = 1\0\n", 10);
    CHECK(t, !config_parse(&o, "FILE", &text, &e));
    bytes_release(&text);
}

// What is printed is such a file, and reading it gives the same settings.
static void prints_what_it_reads(struct harness *t)
{
    static const char text[] = "temp = 0.1\nexpert-cache = all\nkv = f32\nseed = 18446744073709551615\nplain = yes\n"
                               "bell = no\nmodel = /a b/c\n";
    struct options first, second;
    struct options_error e;
    struct bytes one = {0}, two = {0};
    char *printed[2] = {NULL, NULL};
    size_t size;
    CHECK(t, read_config(&first, "--top-k 3", text, &one, &e));
    FILE *out = open_memstream(&printed[0], &size);
    config_print(out, &first);
    fclose(out);
    CHECK(t, strstr(printed[0], "# from the command line\ntop-k = 3\n") != NULL);
    CHECK(t, strstr(printed[0], "# from the configuration file\ntemp = 0.1\n") != NULL);
    CHECK(t, strstr(printed[0], "# by default: the model's, else 0.95\n#top-p = 0.95\n") != NULL);
    CHECK(t, strstr(printed[0], "#context = 0\n") != NULL);
    CHECK(t, strstr(printed[0], "# from the configuration file\nbell = no\n") != NULL);
    CHECK(t, read_config(&second, "", printed[0], &two, &e));
    CHECK(t, second.talk.temp == first.talk.temp && second.model.expert_cache == first.model.expert_cache &&
                 second.model.kv == first.model.kv);
    CHECK(t, second.talk.seed.number == first.talk.seed.number && second.talk.face.plain && second.talk.top_k == 3);
    CHECK_STR(t, second.model.directory, "/a b/c");
    out = open_memstream(&printed[1], &size);
    first.talk.system = "two\nlines";
    config_print(out, &first);
    fclose(out);
    CHECK(t, strstr(printed[1], "a line can't hold its value\n#system = \n") != NULL);
    free(printed[0]);
    free(printed[1]);
    bytes_release(&one);
    bytes_release(&two);
}

// Sizes as people write them, to the byte; nothing that acts on a terminal.
static void prints_for_people(struct harness *t)
{
    static const struct {
        const char *text, *printed;
    } cases[] = {
        {"kv-cap = 4294967296", "\nkv-cap = 4GiB\n"},
        {"kv-cap = 1536M", "\nkv-cap = 1536MiB\n"},
        {"kv-cap = 12000000", "\nkv-cap = 12MB\n"},
        {"kv-cap = 1000K", "\nkv-cap = 1000KiB\n"},
        {"kv-cap = 1000001", "\nkv-cap = 1000001\n"},
        {"kv-cap = 0", "\nkv-cap = 0\n"},
        {"expert-cache = 12GB", "\nexpert-cache = 12GB\n"},
        {"expert-cache = 40%", "\nexpert-cache = 40%\n"},
        {"stop = a\\n,b", "\nstop = a\\n,b\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct options o;
        struct options_error e;
        struct bytes file = {0};
        char *printed = NULL;
        size_t size;
        CHECK(t, read_config(&o, "", cases[i].text, &file, &e));
        for (int escape = 0; escape < 2; escape++) {
            if (escape)
                snprintf(o.talk.stop.line, sizeof o.talk.stop.line, "\33[31m,b");
            FILE *out = open_memstream(&printed, &size);
            config_print(out, &o);
            fclose(out);
            if (!CHECK(t, escape ? strstr(printed, "\n#stop = \n") && !strchr(printed, 27)
                                 : strstr(printed, cases[i].printed) != NULL))
                printf("    %s\n", cases[i].text);
            free(printed);
        }
        bytes_release(&file);
    }
}

// What a line would lose is not written into one: the blanks at the ends of it.
static void says_what_a_line_cannot_hold(struct harness *t)
{
    static const struct {
        const char *stop;
        bool fits;
    } cases[] = {{" You:, x", false}, {"x ", false},  {" ", false},    {"a, ", false},
                 {"a b", true},       {"a, b", true}, {"\tx\n", true}, {"\t ", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct options o, again;
        struct options_error e;
        struct bytes none = {0}, file = {0};
        char *printed = NULL;
        size_t size;
        CHECK(t, read_config(&o, "--stop x --dry-sequence-breakers x", "", &none, &e));
        snprintf(o.talk.stop.line, sizeof o.talk.stop.line, "%s", cases[i].stop);
        snprintf(o.talk.dry_breakers.line, sizeof o.talk.dry_breakers.line, "%s", cases[i].stop);
        FILE *out = open_memstream(&printed, &size);
        config_print(out, &o);
        fclose(out);
        CHECK_EQ(t, strstr(printed, "a line can't hold its value\n#stop = \n") == NULL, cases[i].fits);
        CHECK_EQ(t, strstr(printed, "a line can't hold its value\n#dry-sequence-breakers = \n") == NULL, cases[i].fits);
        CHECK(t, read_config(&again, "", printed, &file, &e));
        char value[2][TEXTS_SIZE + 40];
        struct talk_settings before = options_talk(&o), after = options_talk(&again);
        options_get(value[0], sizeof value[0], &before, "stop", false, &e);
        options_get(value[1], sizeof value[1], &after, "stop", false, &e);
        CHECK_STR(t, value[1], cases[i].fits ? value[0] : "none");
        free(printed);
        bytes_release(&none);
        bytes_release(&file);
    }
}

static void finds_the_file(struct harness *t)
{
    char folder[] = "/tmp/moechat-config-XXXXXX", command[128];
    struct options o;
    struct options_error e;
    struct bytes text = {0};
    if (!CHECK(t, mkdtemp(folder) != NULL))
        return;
    setenv("XDG_CONFIG_HOME", folder, 1);
    options_defaults(&o);
    CHECK(t, config_load(&o, &text, &e)); // there is none
    snprintf(command, sizeof command, "mkdir %s/moechat && echo temp = 0.3 > %s/moechat/config", folder, folder);
    CHECK_EQ(t, system(command), 0);
    CHECK(t, config_load(&o, &text, &e) && o.talk.temp == 0.3);
    options_defaults(&o);
    text.length = 0;
    o.asked.config = "none";
    CHECK(t, config_load(&o, &text, &e) && o.talk.temp == 0.6);
    o.asked.config = "/nowhere/config";
    CHECK(t, !config_load(&o, &text, &e) && strstr(e.text, "/nowhere/config: No such file"));
    o.asked.config = "/dev/zero";
    text.length = 0;
    CHECK(t, !config_load(&o, &text, &e) && strstr(e.text, "larger than 64 KB"));
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK_EQ(t, system(command), 0);
    unsetenv("XDG_CONFIG_HOME");
    bytes_release(&text);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(reads_settings),        TEST(flag_and_environment_win),
        TEST(mistakes_have_a_place), TEST(a_session_that_is_typed_wins),
        TEST(prints_what_it_reads),  TEST(prints_for_people),
        TEST(finds_the_file),        TEST(says_what_a_line_cannot_hold),
    };
    return HARNESS_RUN(tests, argc, argv);
}
