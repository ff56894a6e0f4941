// SPDX-License-Identifier: GPL-3.0-or-later
// The command line: spellings, refusals, where values come from, /set, help.
#include "tests/harness.h"

#include <stdlib.h>

#include "app/options/options_table.h"

// Parses a command line of words parted by spaces.
static bool parse(struct options *options, const char *line, struct options_error *error)
{
    static char words[512];
    char *argv[32] = {(char *)"moechat"};
    int argc = 1;
    snprintf(words, sizeof words, "%s", line);
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    options_defaults(options);
    error->text[0] = 0;
    return options_parse(options, argc, argv, error);
}

static void reads_all_spellings(struct harness *t)
{
    struct options o;
    struct options_error e;
    CHECK(t, parse(&o, "run -mdir -p hi --temp=0.25 --top-k 40 --json --kv f32 --expert-cache 1.5G", &e));
    CHECK_EQ(t, o.command, COMMAND_RUN);
    CHECK_STR(t, o.model.directory, "dir");
    CHECK_STR(t, o.asked.prompt, "hi");
    CHECK(t, o.talk.temp == 0.25);
    CHECK_EQ(t, o.talk.top_k, 40);
    CHECK(t, o.asked.json);
    CHECK_EQ(t, o.model.kv, MOE_KV_F32);
    CHECK_EQ(t, o.model.expert_cache, 3ull << 29);
    CHECK(t, options_given(&o, "temp") && !options_given(&o, "seed"));
    CHECK(t, parse(&o, "", &e));
    CHECK_EQ(t, o.command, COMMAND_CHAT);
    CHECK_EQ(t, o.model.kv, MOE_KV_F16);
    CHECK_EQ(t, o.model.expert_cache, MOE_CACHE_AUTO);
    CHECK_EQ(t, o.model.host_cache, MOE_CACHE_AUTO);
    CHECK_EQ(t, o.model.ring, 2);
    CHECK(t, o.talk.temp == 0.6 && o.talk.top_p == 0.95 && o.talk.repeat_penalty == 1 && o.talk.top_k == 0);
    CHECK(t, o.talk.dry_base == 1.75 && o.talk.dry_allowed_length == 2 && o.talk.kv_cap == UINT64_C(4) << 30);
    CHECK(t, o.asked.runs == 5 && o.asked.prefill_tokens == 512 && o.asked.decode_tokens == 64);
    CHECK(t, parse(&o, "eval --text x", &e));
    CHECK_EQ(t, o.model.kv, MOE_KV_F32);
    CHECK(t, parse(&o, "eval --text x --kv f16", &e));
    CHECK_EQ(t, o.model.kv, MOE_KV_F16);
    CHECK(t, parse(&o, "info --expert-cache all some/dir", &e));
    CHECK_EQ(t, o.model.expert_cache, MOE_CACHE_ALL);
    CHECK_STR(t, o.asked.operand, "some/dir");
    CHECK(t, parse(&o, "run --expert-cache 40% --host-cache none", &e));
    CHECK_EQ(t, o.model.expert_cache, MOE_CACHE_SHARE(400));
    CHECK_EQ(t, o.model.host_cache, MOE_CACHE_NONE);
    CHECK(t, parse(&o, "run --host-cache 0.5% --io direct --readers 64", &e));
    CHECK_EQ(t, o.model.host_cache, MOE_CACHE_SHARE(5));
    CHECK_EQ(t, o.model.io, MOE_IO_DIRECT);
    CHECK_EQ(t, o.model.readers, 64);
    CHECK(t, parse(&o, "bench cache some/trace --json", &e));
    CHECK_STR(t, o.asked.operand, "cache");
    CHECK_STR(t, o.asked.more[0], "some/trace");
    CHECK(t, parse(&o, "run --temp 0.1 --temp 0.2", &e));
    CHECK(t, o.talk.temp == 0.2);
    CHECK(t, parse(&o, "info -- -dir", &e));
    CHECK_STR(t, o.asked.operand, "-dir");
    CHECK(t, parse(&o, "run --seed 18446744073709551615", &e));
    CHECK_EQ(t, o.talk.seed.number, UINT64_MAX);
}

static void takes_what_other_programs_take(struct harness *t)
{
    struct options o;
    struct options_error e;
    CHECK(t, parse(&o, "run Hello", &e));
    CHECK_STR(t, o.asked.prompt, "Hello");
    CHECK(t, !options_given(&o, "model"));
    CHECK(t, parse(&o, "run models/demo Hello --temp 0", &e));
    CHECK_STR(t, o.model.directory, "models/demo");
    CHECK_STR(t, o.asked.prompt, "Hello");
    CHECK(t, parse(&o, "run tests/golden/gguf-qwen35-chat/checkpoint Hello", &e)); // it has a .gguf
    CHECK_STR(t, o.asked.prompt, "Hello");
    CHECK(t, parse(&o, "run tests", &e)); // a folder, but no model
    CHECK_STR(t, o.asked.prompt, "tests");
    CHECK(t, parse(&o, "run -m models/demo models/demo", &e)); // the model is given, so it is asked about
    CHECK_STR(t, o.asked.prompt, "models/demo");
    CHECK(t, parse(&o, "models/demo --no-session", &e));
    CHECK_EQ(t, o.command, COMMAND_CHAT);
    CHECK_STR(t, o.model.directory, "models/demo");
    CHECK(t, options_typed(&o, "model"));
    CHECK(t, parse(&o, "--no-session ./not-there-Q4_K_M.GGUF", &e));
    CHECK_STR(t, o.model.directory, "./not-there-Q4_K_M.GGUF");
    CHECK(t, !parse(&o, "run What now?", &e)); // the shell took it apart
    CHECK(t, strstr(e.text, "quote the prompt") != NULL);
    CHECK(t, !parse(&o, "run -p What now?", &e));
    CHECK_STR(t, e.text, "unexpected argument \"now?\"; quote the prompt, and give a model by -m");
    CHECK(t, !parse(&o, "run What -p now?", &e)); // whichever comes first
    CHECK_STR(t, e.text, "-p is a second prompt, beside \"What\"; use one of them");
    CHECK(t, !parse(&o, "run models/demo What --prompt=now?", &e));
    CHECK_STR(t, e.text, "--prompt is a second prompt, beside \"What\"; use one of them");
    CHECK(t, parse(&o, "run models/demo -p What", &e));
    CHECK_STR(t, o.asked.prompt, "What");
    CHECK(t, !parse(&o, "models/demo models/demo", &e));
    CHECK(t, !parse(&o, "-m models/demo models/demo", &e));
    CHECK(t, !parse(&o, "eval models/demo", &e));
}

static void refuses_with_a_sentence(struct harness *t)
{
    static const char *const lines[] = {
        "nonsense",
        "run --nonsense",
        "run -x",
        "run --temp",
        "run --temp warm",
        "run --temp -1",
        "run --temp nan",
        "run --temp 1e999",
        "run --top-k -1",
        "run --top-k 1.5",
        "run --top-k 4294967296",
        "run --seed 18446744073709551616",
        "run --kv f8",
        "run --kv f",
        "run --kv f16|f32",
        "run --json=1",
        "run --tokens x",
        "devices --temp 1",
        "eval extra",
        "info a b",
        "run --expert-cache 0",
        "run --expert-cache 12Q",
        "run --expert-cache -5",
        "run --expert-cache everything",
        "run --top-p 1.01",
        "bench --runs 0",
        "-m x run",
        "run --=x",
        "run --temp=",
        "eval --readers 65",
        "run --expert-cache 0%",
        "run --expert-cache 101%",
        "run --expert-cache %",
        "run --expert-cache -4%",
        "run --expert-cache none",
        "run --host-cache 1e3%%",
        "run --io fast",
        "bench cache a b",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct options o;
        struct options_error e;
        if (!CHECK(t, !parse(&o, lines[i], &e)))
            printf("    taken: %s\n", lines[i]);
        CHECK(t, e.text[0] != 0);
    }
}

static void reads_sizes(struct harness *t)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } sizes[] = {
        {"0", 0},      {"12", 12},          {"1K", 1024},        {"1k", 1024},      {"1KiB", 1024},
        {"1KB", 1000}, {"2MiB", 2 << 20},   {"2MB", 2000000},    {"1.5M", 3 << 19}, {"1G", 1 << 30},
        {"7B", 7},     {"1GB", 1000000000}, {"1TiB", 1ll << 40}, {"1Kib", 1024},    {"2.01MB", 2010000},
    };
    uint64_t bytes;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        bytes = 99;
        if (!CHECK(t, options_parse_size(sizes[i].text, &bytes) && bytes == sizes[i].bytes))
            printf("    %s gave %llu\n", sizes[i].text, (unsigned long long)bytes);
    }
    static const char *const wrong[] = {"",    "K",  "-1",   "+1",        " 1",  "1 K",  "1KK",
                                        "1iB", "1X", "1e30", "99999999T", "inf", "0x10Z"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (!CHECK(t, !options_parse_size(wrong[i], &bytes)))
            printf("    taken: %s\n", wrong[i]);
}

static void flag_beats_environment_beats_default(struct harness *t)
{
    struct options o;
    struct options_error e;
    setenv("MOECHAT_TEMP", "0.9", 1);
    setenv("MOECHAT_MODEL", "from-env", 1);
    CHECK(t, parse(&o, "run", &e));
    CHECK(t, o.talk.temp == 0.9);
    CHECK_STR(t, o.model.directory, "from-env");
    CHECK(t, parse(&o, "run --temp 0.1 -m flag", &e));
    CHECK(t, o.talk.temp == 0.1);
    CHECK_STR(t, o.model.directory, "flag");
    setenv("MOECHAT_TEMP", "warm", 1);
    CHECK(t, !parse(&o, "run", &e));
    CHECK(t, strstr(e.text, "MOECHAT_TEMP") != NULL);
    CHECK(t, parse(&o, "devices", &e)); // not its variable
    setenv("MOECHAT_TEMP", "", 1);
    CHECK(t, parse(&o, "run", &e));
    CHECK(t, o.talk.temp == 0.6);
    setenv("MOECHAT_PLAIN", "0", 1);
    CHECK(t, parse(&o, "chat", &e) && !o.talk.face.plain);
    setenv("MOECHAT_PLAIN", "1", 1);
    CHECK(t, parse(&o, "chat", &e) && o.talk.face.plain);
    CHECK(t, parse(&o, "chat --plain=no --mouse=yes", &e) && !o.talk.face.plain && o.talk.face.mouse);
    CHECK(t, parse(&o, "chat --plain --plain=no", &e) && !o.talk.face.plain);
    CHECK(t, !parse(&o, "chat --plain=nein", &e));
    CHECK_STR(t, e.text, "--plain takes yes or no, not \"nein\"");
    CHECK(t, !parse(&o, "chat --plain=", &e));
    CHECK(t, !parse(&o, "chat --continue=no", &e)); // has no other source
    CHECK_STR(t, e.text, "--continue takes no value");
    setenv("MOECHAT_NO_SESSION", "no", 1);
    CHECK(t, parse(&o, "chat", &e) && !o.talk.no_session);
    setenv("MOECHAT_NO_SESSION", "nein", 1);
    CHECK(t, !parse(&o, "chat", &e));
    CHECK_STR(t, e.text, "MOECHAT_NO_SESSION takes yes or no, not \"nein\"");
    CHECK(t, parse(&o, "--no-session", &e) && o.talk.no_session); // the flag goes before it
    CHECK(t, parse(&o, "--no-session=no", &e) && !o.talk.no_session && options_typed(&o, "no-session"));
    unsetenv("MOECHAT_NO_SESSION");
    unsetenv("MOECHAT_TEMP");
    unsetenv("MOECHAT_MODEL");
    unsetenv("MOECHAT_PLAIN");
}

// Words stand for the values of enums, not for their places in the table.
static void words_are_values(struct harness *t)
{
    struct options o;
    struct options_error e;
    CHECK(t, parse(&o, "convert --bits 8 --resident-bits 4 --group-size 128 a b", &e));
    CHECK(t, o.asked.bits == 8 && o.asked.resident_bits == 4 && o.asked.group_size == 128);
    CHECK_STR(t, o.asked.more[0], "b");
    CHECK(t, parse(&o, "--completion fish --think off --color never --prefetch router-shared --io buffered", &e));
    CHECK_EQ(t, o.asked.completion, SHELL_FISH);
    CHECK_EQ(t, o.model.think, THINK_OFF);
    CHECK_EQ(t, o.talk.face.color, COLOR_NEVER);
    CHECK_EQ(t, o.model.prefetch, MOE_PREFETCH_ROUTER_SHARED);
    CHECK_EQ(t, o.model.io, MOE_IO_BUFFERED);
    CHECK(t, parse(&o, "--kv f32", &e) && o.model.kv == MOE_KV_F32);
    CHECK(t, !parse(&o, "--kv f8", &e));
    CHECK_STR(t, e.text, "--kv takes one of f16|f32, not \"f8\"");
    CHECK(t, !parse(&o, "--expert-cache none", &e));
    CHECK_STR(t, e.text,
              "--expert-cache takes a size such as 800M or 12GiB, a share such as 40%, or all|auto, not \"none\"");
}

// /set writes settings of a talk: a row that lies elsewhere would write beside them.
static void settings_are_a_talks(struct harness *t)
{
    for (size_t i = 0; i < options_count(); i++) {
        const struct option_row *row = &options_table[i];
        size_t end = offsetof(struct options, talk) + sizeof(struct talk_settings);
        if (row->settable && !CHECK(t, row->offset >= offsetof(struct options, talk) && row->offset < end))
            printf("    %s\n", row->name);
    }
    CHECK_STR(t, options_setting(0), "temp");
}

static const char *printed(const struct talk_settings *settings, const char *name)
{
    static char text[128];
    FILE *out = fmemopen(text, sizeof text, "w");
    options_print_settings(out, settings, name);
    fclose(out);
    return text;
}

static void texts_are_settings(struct harness *t)
{
    struct options o;
    struct options_error e;
    char value[TEXTS_SIZE + 40];
    CHECK(t, parse(&o, "--stop END,\\n --logit-bias 7=-inf", &e));
    CHECK_STR(t, o.talk.stop.line, "END,\\n");
    CHECK_STR(t, o.talk.logit_bias.line, "7=-inf");
    struct talk_settings talk = options_talk(&o);
    CHECK(t, options_set(&talk, "stop", "two words, and\nmore", &e));
    CHECK(t, options_get(value, sizeof value, &talk, "stop", true, &e) != NULL);
    CHECK_STR(t, value, "two words, and\\nmore (from /set)");
    CHECK(t, options_set(&talk, "stop", "none", &e) && !*talk.stop.line);
    memset(value, 'x', 200);
    value[200] = 0;
    CHECK(t, !options_set(&talk, "stop", value, &e));
    CHECK_STR(t, e.text, "stop has a text of more than 127 bytes");
    CHECK(t, !parse(&o, "--stop=", &e));
    CHECK_STR(t, e.text, "--stop takes TEXT,... or none, not \"\"");
    CHECK(t, !parse(&o, "--logit-bias=", &e));
    CHECK_STR(t, e.text, "--logit-bias takes ID=X,... or none, not \"\"");
    CHECK(t, parse(&o, "--stop=none --dry-sequence-breakers none", &e) && !*o.talk.stop.line);
}

static void numbers_are_asked_for_as_they_are(struct harness *t)
{
    struct options o;
    struct options_error e;
    CHECK(t, !parse(&o, "--seed -1", &e));
    CHECK_STR(t, e.text, "--seed takes a whole number from 0 on, not \"-1\"; where none is given it is random");
    CHECK(t, !parse(&o, "--seed 18446744073709551616", &e));
    CHECK_STR(t, e.text, "--seed must be at most 18446744073709551615, not 18446744073709551616");
    CHECK(t, parse(&o, "--seed 18446744073709551615", &e) && o.talk.seed.number == UINT64_MAX);
    CHECK(t, !parse(&o, "--max-tokens 18446744073709551616", &e));
    CHECK_STR(t, e.text, "--max-tokens must be between 0 and 4294967295, not 18446744073709551616");
    CHECK(t, !parse(&o, "--max-tokens -1", &e));
    CHECK_STR(t, e.text, "--max-tokens takes a whole number, not \"-1\"");
    CHECK(t, !parse(&o, "--temp x", &e));
    CHECK_STR(t, e.text, "--temp takes a number, not \"x\"");
}

static void prints_settings(struct harness *t)
{
    struct options o;
    struct options_error e;
    char text[1024] = "";
    CHECK(t, parse(&o, "--temp 0.25 --seed 7", &e));
    FILE *out = fmemopen(text, sizeof text, "w");
    struct talk_settings talk = options_talk(&o);
    CHECK(t, options_print_settings(out, &talk, NULL) && !options_print_settings(out, &talk, "model"));
    fclose(out);
    CHECK_STR(t, text,
              "  temp                   0.25 (from the command line)\n"
              "  top-k                  0 (default)\n"
              "  top-p                  0.95 (default)\n"
              "  min-p                  0 (default)\n"
              "  repeat-penalty         1 (default)\n"
              "  dry-multiplier         0 (default)\n"
              "  dry-base               1.75 (default)\n"
              "  dry-allowed-length     2 (default)\n"
              "  dry-penalty-last-n     0 (default)\n"
              "  dry-sequence-breakers  \\n,:,\",* (default)\n"
              "  logit-bias             none (default)\n"
              "  stop                   none (default)\n"
              "  seed                   7 (from the command line)\n"
              "  max-tokens             0 (default)\n");
    CHECK_STR(t, printed(&talk, "top_p"), "  top-p                  0.95 (default)\n");
    CHECK_STR(t, printed(&(struct talk_settings){0}, "seed"), "  seed                   0 (random)\n");
    CHECK_STR(t, options_get(text, sizeof text, &talk, "top_p", false, &e), "top-p");
    CHECK_STR(t, text, "0.95");
    CHECK_STR(t, options_get(text, sizeof text, &talk, "temp", true, &e), "temp");
    CHECK_STR(t, text, "0.25 (from the command line)");
    CHECK(t, !options_get(text, sizeof text, &talk, "model", true, &e));
    CHECK_STR(t, e.text, "Unknown setting \"model\"; /set lists them");
    CHECK(t, !options_set(&o.talk, "tempp", "1", &e));
    CHECK_STR(t, e.text, "Unknown setting \"tempp\" (did you mean temp?); /set lists them");
}

// What the model's maker suggests goes behind what anybody gave.
static void suggestions_are_taken(struct harness *t)
{
    const struct moe_suggestion all = {.given = 15, .temperature = 0.3, .top_k = 20, .top_p = 0.8, .min_p = 0.01};
    const struct moe_suggestion none = {.temperature = 0.3}, other = {.given = 1, .temperature = 1};
    struct options o;
    struct options_error e;
    char said[100];
    setenv("MOECHAT_TOP_K", "5", 1);
    CHECK(t, parse(&o, "--temp 0.25", &e));
    unsetenv("MOECHAT_TOP_K");
    struct talk_settings talk = options_talk(&o);
    options_suggest(&talk, &none, said, sizeof said);
    CHECK(t, !*said && talk.top_p == 0.95);
    options_suggest(&talk, &all, said, sizeof said);
    CHECK_STR(t, said, "top-p 0.8, min-p 0.01");
    CHECK(t, talk.temp == 0.25 && talk.top_k == 5 && talk.top_p == 0.8 && talk.min_p == 0.01);
    CHECK_STR(t, printed(&talk, "top-k"), "  top-k                  5 (from the environment)\n");
    CHECK_STR(t, printed(&talk, "top-p"), "  top-p                  0.8 (from the model)\n");
    static const char *const outside[] = {"0", "0.0", "-1", "1.01", "1e-300", "1e-46"}; // the last two are 0 as floats
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        snprintf(said, sizeof said, "top-p must be above 0 and at most 1, not %s", outside[i]);
        CHECK(t, !options_set(&talk, "top-p", outside[i], &e));
        CHECK_STR(t, e.text, said);
    }
    CHECK(t, options_set(&talk, "top-p", "1e-40", &e) && (float)talk.top_p > 0);
    CHECK(t, options_set(&talk, "repeat-penalty", "0.01", &e)); // more than it is as a float
    CHECK(t, options_set(&talk, "repeat-penalty", "1", &e));
    CHECK(t, options_set(&talk, "top-p", "1", &e) && talk.top_p == 1);
    CHECK(t, options_set(&talk, "top-p", "0.5", &e) && talk.top_p == 0.5);
    CHECK_STR(t, printed(&talk, "top-p"), "  top-p                  0.5 (from /set)\n");
    options_suggest(&talk, &all, said, 8); // another model's; cut where the room ends
    CHECK(t, talk.top_p == 0.5 && strcmp(said, "min-p 0") == 0);
    options_defaults(&o);
    talk = options_talk(&o);
    options_suggest(&talk, &other, said, sizeof said);
    CHECK_STR(t, said, "temp 1");
    CHECK(t, talk.temp == 1 && o.talk.temp == 0.6);
}

// From /set, each goes back to what it was and to where that came from.
static void settings_are_taken_back(struct harness *t)
{
    const struct moe_suggestion model = {.given = 15, .temperature = 0.3, .top_k = 20, .top_p = 0.8, .min_p = 0.01};
    struct options o;
    struct options_error e;
    char said[100], before[128];
    CHECK(t, parse(&o, "--top-k 7 --stop END", &e));
    struct talk_settings began = options_talk(&o), talk;
    options_suggest(&began, &model, said, sizeof said);
    talk = began;
    for (size_t i = 0; options_setting(i); i++) {
        const char *name = options_setting(i);
        snprintf(before, sizeof before, "%s", printed(&began, name));
        CHECK(t, options_set(&talk, name, strcmp(name, "logit-bias") == 0 ? "5=1" : "1", &e));
        CHECK(t, strcmp(printed(&talk, name), before) != 0 && strstr(printed(&talk, name), "(from /set)"));
        CHECK(t, options_take_back(&talk, &began, name, &e));
        if (strcmp(name, "seed") == 0)
            CHECK(t, strstr(printed(&talk, name), " (random)\n") != NULL && talk.seed.number != 1);
        else
            CHECK_STR(t, printed(&talk, name), before);
    }
    CHECK_STR(t, printed(&talk, "temp"), "  temp                   0.3 (from the model)\n");
    CHECK_STR(t, printed(&talk, "top-k"), "  top-k                  7 (from the command line)\n");
    CHECK_STR(t, printed(&talk, "max-tokens"), "  max-tokens             0 (default)\n");
    CHECK(t, !options_take_back(&talk, &began, "model", &e));
}

static void slips_are_told(struct harness *t)
{
    static const char *const lines[][2] = {
        {"--tmep 1", "unknown option --tmep; did you mean --temp?"},
        {"run --sesion x", "unknown option --sesion; did you mean --session?"},
        {"--expert 1G", "unknown option --expert; did you mean --expert-cache?"},
        {"llama3", "unknown command \"llama3\"; see moechat help, or give a model by -m"},
        {"chat hello", "unexpected argument \"hello\"; use moechat run, for a prompt"},
        {"--temp 1 run", "unexpected argument \"run\"; the command comes first"},
        {"pull x",
         "unknown command \"pull\"; models are fetched with hf download or the like; docs/models.md says how"},
        {"run llama3 hello", "unexpected argument \"hello\"; quote the prompt, and give a model by -m"},
        {"rm x", "unknown command \"rm\"; use moechat sessions rm NAME, for conversations; a model is a file or a "
                 "folder of yours"},
        {"--temperature 1", "unknown option --temperature; use --temp T"},
        {"--nothing-like-it", "unknown option --nothing-like-it; see moechat help chat"},
        {"-x", "unknown option -x; see moechat help chat"},
        {"eval --promt x", "unknown option --promt; see moechat help eval"}, // not eval's
    };
    struct options o;
    struct options_error e;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        CHECK(t, !parse(&o, lines[i][0], &e));
        CHECK_STR(t, e.text, lines[i][1]);
    }
}

static void sets_only_what_may_change(struct harness *t)
{
    struct options o;
    struct options_error e;
    options_defaults(&o);
    CHECK(t, options_set(&o.talk, "top_k", "7", &e) && o.talk.top_k == 7);
    CHECK(t, options_set(&o.talk, "repeat-penalty", "1.1", &e) && o.talk.repeat_penalty == 1.1);
    CHECK(t, options_set(&o.talk, "seed", "5", &e) && o.talk.seed.given && o.talk.seed.number == 5);
    CHECK(t, !options_set(&o.talk, "model", "x", &e));
    CHECK(t, !options_set(&o.talk, "nonsense", "x", &e));
    CHECK(t, !options_set(&o.talk, "", "x", &e));
    CHECK(t, !options_set(&o.talk, "temp", "hot", &e));
    CHECK(t, o.talk.temp == 0.6);
}

// Each option of a command is in its help, and nothing of others.
static void help_lists_what_belongs(struct harness *t)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    options_help(out, COMMAND_EVAL);
    fclose(out);
    CHECK(t, strstr(text, "--tokens FILE") && strstr(text, "-m, --model DIR") && strstr(text, "--help"));
    CHECK(t, !strstr(text, "--prompt") && !strstr(text, "--engine"));
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        CHECK(t, strlen(line) < 80);
    free(text);
    for (int command = 0; command < COMMAND_COUNT; command++) { // only sessions has verbs
        out = open_memstream(&text, &size);
        options_help(out, (enum command)command);
        fclose(out);
        CHECK_EQ(t, strstr(text, "rename NAME NEW-NAME") != NULL, command == COMMAND_SESSIONS);
        free(text);
    }
    out = open_memstream(&text, &size);
    options_help(out, COMMAND_CHAT);
    fclose(out);
    CHECK(t,
          strstr(text, "\n      --plain[=no]          Append") && strstr(text, "\n      --no-session[=no]     Save"));
    CHECK(t, strstr(text, "\n  -c, --continue            Resume") != NULL);
    free(text);
    out = open_memstream(&text, &size);
    CHECK(t, options_dump(out, "mdoc") && !options_dump(out, "html"));
    fclose(out);
    CHECK(t, strstr(text, ".It Fl m , Fl -model Ar DIR\n") != NULL);
    CHECK(t, strstr(text, ".It Fl -plain Ns Op = Ns Cm no\n") != NULL);
    CHECK(t, !strstr(text, "engine"));
    free(text);
}

static void sessions_have_verbs(struct harness *t)
{
    struct options o;
    struct options_error e;
    CHECK(t, parse(&o, "sessions rename one two", &e));
    CHECK_EQ(t, o.command, COMMAND_SESSIONS);
    CHECK_STR(t, o.asked.operand, "rename");
    CHECK_STR(t, o.asked.more[0], "one");
    CHECK_STR(t, o.asked.more[1], "two");
    CHECK(t, !parse(&o, "sessions rename one two three", &e));
    CHECK(t, parse(&o, "-c --kv-cap 2GiB", &e) && o.talk.go_on);
    CHECK_EQ(t, o.talk.kv_cap, UINT64_C(2) << 30);
    CHECK(t, parse(&o, "run -s trip --kv-cap 0 --jsonl", &e) && o.asked.jsonl && o.talk.kv_cap == 0);
    CHECK_STR(t, o.talk.session, "trip");
    CHECK(t, !parse(&o, "--kv-cap all", &e));
    CHECK(t, !parse(&o, "eval --session trip", &e));
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(sessions_have_verbs),     TEST(reads_all_spellings),  TEST(takes_what_other_programs_take),
        TEST(refuses_with_a_sentence), TEST(reads_sizes),          TEST(flag_beats_environment_beats_default),
        TEST(words_are_values),        TEST(settings_are_a_talks), TEST(numbers_are_asked_for_as_they_are),
        TEST(prints_settings),         TEST(texts_are_settings),   TEST(suggestions_are_taken),
        TEST(settings_are_taken_back), TEST(slips_are_told),       TEST(sets_only_what_may_change),
        TEST(help_lists_what_belongs),
    };
    return HARNESS_RUN(tests, argc, argv);
}
