// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/options/options_table.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define AT(field)  offsetof(struct options, field)
#define FOR_TALK   (FOR(CHAT) | FOR(RUN))
#define FOR_ENGINE (FOR_TALK | FOR(EVAL) | FOR(BENCH))

const struct option_row options_table[] = {
    {.name = "model",
     .letter = 'm',
     .argument = "DIR",
     .variable = "MOECHAT_MODEL",
     .kind = KIND_STRING,
     .offset = AT(model),
     .commands = FOR_ENGINE | FOR(INFO),
     .help = "The model to use: a package, or a folder from the hub in MLX's layout. Without it: models/demo beside "
             "the program, else the installed demo model."},
    {.name = "prompt",
     .letter = 'p',
     .argument = "TEXT",
     .kind = KIND_STRING,
     .offset = AT(prompt),
     .commands = FOR(RUN),
     .help = "What to say to the model. Standard input, when it is not a terminal, is appended."},
    {.name = "prompt-file",
     .argument = "FILE",
     .kind = KIND_STRING,
     .offset = AT(prompt_file),
     .commands = FOR(RUN),
     .help = "Read the prompt from FILE; one newline at its end is dropped."},
    {.name = "system",
     .argument = "TEXT",
     .variable = "MOECHAT_SYSTEM",
     .kind = KIND_STRING,
     .offset = AT(system),
     .commands = FOR_TALK,
     .help = "The system message at the head of the conversation."},
    {.name = "template",
     .argument = "NAME",
     .variable = "MOECHAT_TEMPLATE",
     .kind = KIND_STRING,
     .offset = AT(template_name),
     .commands = FOR_TALK,
     .help =
         "How turns are written for the model, where its own template is not one this program knows; a name that is "
         "none lists them."},
    {.name = "think",
     .argument = "WHEN",
     .variable = "MOECHAT_THINK",
     .kind = KIND_CHOICE,
     .choices = "auto|on|off",
     .offset = AT(think),
     .commands = FOR_TALK,
     .help = "Whether answers begin with thinking, where the model leaves the choice: auto, on or off. [auto: as the "
             "model's template does it]"},
    {.name = "no-template",
     .kind = KIND_FLAG,
     .offset = AT(no_template),
     .commands = FOR(RUN),
     .help = "Continue the prompt as plain text, without the model's turn markers."},
    {.name = "temp",
     .argument = "T",
     .variable = "MOECHAT_TEMP",
     .kind = KIND_REAL,
     .offset = AT(temp),
     .most = 100,
     .commands = FOR_TALK,
     .settable = true,
     .help = "Sampling temperature; 0 always takes the likeliest token. [0.6]"},
    {.name = "top-k",
     .argument = "N",
     .variable = "MOECHAT_TOP_K",
     .kind = KIND_UINT32,
     .offset = AT(top_k),
     .most = UINT32_MAX,
     .commands = FOR_TALK,
     .settable = true,
     .help = "Sample among the N likeliest tokens; 0 is no limit. [0]"},
    {.name = "top-p",
     .argument = "P",
     .variable = "MOECHAT_TOP_P",
     .kind = KIND_REAL,
     .offset = AT(top_p),
     .most = 1,
     .commands = FOR_TALK,
     .settable = true,
     .help = "Sample among the likeliest tokens that together have probability P; 1 is no limit. [0.95]"},
    {.name = "min-p",
     .argument = "P",
     .variable = "MOECHAT_MIN_P",
     .kind = KIND_REAL,
     .offset = AT(min_p),
     .most = 1,
     .commands = FOR_TALK,
     .settable = true,
     .help = "Leave out tokens less likely than P times the likeliest; 0 is off. [0]"},
    {.name = "repeat-penalty",
     .argument = "X",
     .variable = "MOECHAT_REPEAT_PENALTY",
     .kind = KIND_REAL,
     .offset = AT(repeat_penalty),
     .least = 0.01,
     .most = 100,
     .commands = FOR_TALK,
     .settable = true,
     .help = "Make tokens of the last 256 less likely by this factor; 1 is off. [1]"},
    {.name = "seed",
     .argument = "N",
     .variable = "MOECHAT_SEED",
     .kind = KIND_UINT64,
     .offset = AT(seed),
     .commands = FOR_TALK,
     .settable = true,
     .help = "Seed of the sampling: the same seed, settings and device give the same answer. [random]"},
    {.name = "max-tokens",
     .argument = "N",
     .variable = "MOECHAT_MAX_TOKENS",
     .kind = KIND_UINT32,
     .offset = AT(max_tokens),
     .most = UINT32_MAX,
     .commands = FOR_TALK,
     .settable = true,
     .help = "Stop an answer after N tokens; 0 lets the model end it. [0]"},
    {.name = "context",
     .argument = "N",
     .variable = "MOECHAT_CONTEXT",
     .kind = KIND_UINT32,
     .offset = AT(context),
     .most = UINT32_MAX,
     .commands = FOR_TALK,
     .help = "Room for N tokens of conversation. [the model's limit, at most 8192]"},
    {.name = "kv",
     .argument = "f16|f32",
     .variable = "MOECHAT_KV",
     .kind = KIND_CHOICE,
     .choices = "f32|f16",
     .offset = AT(kv),
     .commands = FOR_ENGINE,
     .help = "Number format of the conversation's rows in memory. [f16; f32 for eval]"},
    {.name = "chunk",
     .argument = "N",
     .variable = "MOECHAT_CHUNK",
     .kind = KIND_UINT32,
     .offset = AT(chunk),
     .most = UINT32_MAX,
     .commands = FOR_ENGINE,
     .help = "Read prompts N tokens at a time; 1 reads them through the decode kernels, 0 chooses. [0]"},
    {.name = "group",
     .argument = "N",
     .variable = "MOECHAT_GROUP",
     .kind = KIND_UINT32,
     .offset = AT(group),
     .most = UINT32_MAX,
     .commands = FOR_ENGINE,
     .help = "Read each expert once for N tokens of a prompt; 0 chooses by memory. [0]"},
    {.name = "ring",
     .argument = "1|2",
     .variable = "MOECHAT_RING",
     .kind = KIND_UINT32,
     .offset = AT(ring),
     .least = 1,
     .most = 2,
     .commands = FOR_ENGINE | FOR(INFO),
     .help = "1 waits for a layer's experts before the next layer is given to the device, 2 does not; 2 needs an "
             "--expert-cache of twice a token's experts in one layer at least, 1 of half of that. [2]"},
    {.name = "prefetch",
     .argument = "auto|off|previous|router|router-shared",
     .variable = "MOECHAT_PREFETCH",
     .kind = KIND_CHOICE,
     .offset = AT(prefetch),
     .choices = "auto|off|previous|router|router-shared",
     .commands = FOR_ENGINE,
     .help =
         "Which experts are read before a layer asks for them: those of the token before, or what its router says "
         "of an earlier state, without or with the shared expert; auto measures and chooses. Where all experts have "
         "room, auto reads those that are missing. Answers are the same. [auto]"},
    {.name = "profile",
     .kind = KIND_FLAG,
     .offset = AT(profile),
     .commands = FOR(RUN) | FOR(BENCH),
     .help = "In the end print what each kernel took by the device's own clock; it is slower meanwhile."},
    {.name = "predict-log",
     .argument = "FILE",
     .variable = "MOECHAT_PREDICT_LOG",
     .kind = KIND_STRING,
     .offset = AT(predict_log),
     .commands = FOR_TALK | FOR(BENCH),
     .help = "Write to FILE how every way to guess experts would have done, a JSON line a token."},
    {.name = "expert-cache",
     .argument = "SIZE|N%|all|auto",
     .variable = "MOECHAT_EXPERT_CACHE",
     .kind = KIND_CACHE,
     .choices = "all|auto",
     .offset = AT(expert_cache),
     .commands = FOR_ENGINE | FOR(INFO),
     .help =
         "The device's memory for experts, such as 800M, 12GiB or 40% of what is free; all keeps every expert, auto "
         "keeps all when they fit in half of the free memory (three quarters of a device's own) and else fills "
         "that part. [auto]"},
    {.name = "host-cache",
     .argument = "SIZE|N%|all|auto|none",
     .variable = "MOECHAT_HOST_CACHE",
     .kind = KIND_CACHE,
     .choices = "all|auto|none",
     .offset = AT(host_cache),
     .commands = FOR_ENGINE | FOR(INFO),
     .help = "Host memory for experts that the device has no room for, where it has memory of its own; auto fills half "
             "of the free memory when that is more than the device holds, none keeps only what passes through. [auto]"},
    {.name = "io",
     .argument = "auto|direct|buffered",
     .variable = "MOECHAT_IO",
     .kind = KIND_CHOICE,
     .choices = "auto|direct|buffered",
     .offset = AT(io),
     .commands = FOR_ENGINE | FOR(INFO),
     .help = "Read experts past the page cache or through it; auto goes through it when the whole model fits into free "
             "memory, and else takes the way that is faster when the model is opened. [auto]"},
    {.name = "readers",
     .argument = "N",
     .variable = "MOECHAT_READERS",
     .kind = KIND_UINT32,
     .offset = AT(readers),
     .most = MOE_MAX_READERS,
     .commands = FOR_ENGINE | FOR(INFO),
     .help = "Threads that read experts from disk; 0 takes 8. [0]"},
    {.name = "trace",
     .argument = "FILE",
     .kind = KIND_STRING,
     .offset = AT(trace),
     .commands = FOR_ENGINE,
     .help =
         "Write to FILE which experts were asked for; moechat bench cache FILE says what caches of other sizes would "
         "have made of it."},
    {.name = "device",
     .argument = "NAME",
     .variable = "MOECHAT_DEVICE",
     .kind = KIND_STRING,
     .offset = AT(device),
     .commands = FOR_ENGINE,
     .help = "Device to compute on: a selector or part of a name from moechat devices, cpu, gpu, or ref for plain C. "
             "[the first GPU, else the first CPU]"},
    {.name = "kernel-cache",
     .argument = "DIR|none",
     .variable = "MOECHAT_KERNEL_CACHE",
     .kind = KIND_STRING,
     .offset = AT(kernel_cache),
     .commands = FOR_ENGINE,
     .help = "Where built kernels are kept between runs. [$XDG_CACHE_HOME/moechat/kernels]"},
    {.name = "tokens",
     .argument = "FILE",
     .kind = KIND_STRING,
     .offset = AT(tokens),
     .commands = FOR(EVAL),
     .help = "Evaluate the whitespace-separated token ids in FILE, nothing added."},
    {.name = "text",
     .argument = "FILE",
     .kind = KIND_STRING,
     .offset = AT(text),
     .commands = FOR(EVAL),
     .help = "Evaluate the text in FILE, after the token that begins a text."},
    {.name = "logits",
     .argument = "OUT",
     .kind = KIND_STRING,
     .offset = AT(logits),
     .commands = FOR(EVAL),
     .help = "Write all logits to OUT: little-endian float32, [tokens, vocabulary]."},
    {.name = "dump-layers",
     .argument = "DIR",
     .kind = KIND_STRING,
     .offset = AT(dump_layers),
     .commands = FOR(EVAL),
     .help = "Write the hidden states to DIR/stage-NNN.f32: 0 after the embedding, n after n layers; float32, "
             "[tokens, hidden]."},
    {.name = "verify",
     .kind = KIND_FLAG,
     .offset = AT(verify),
     .commands = FOR(INFO) | FOR(CONVERT),
     .help = "Compare every file of the package with its checksum; after convert, of the one that was made."},
    {.name = "bits",
     .argument = "4|8|auto",
     .kind = KIND_CHOICE,
     .choices = "auto|4|8",
     .offset = AT(bits),
     .commands = FOR(CONVERT),
     .help = "Bits of the routed experts; auto keeps what is quantised already, and makes 4 of the rest. [auto]"},
    {.name = "resident-bits",
     .argument = "4|8|auto",
     .kind = KIND_CHOICE,
     .choices = "auto|4|8",
     .offset = AT(resident_bits),
     .commands = FOR(CONVERT),
     .help =
         "Bits of all other matrices; auto keeps what is quantised already, and makes 8 of embeddings and head and 4 "
         "of the rest. Routers stay as they are. [auto]"},
    {.name = "group-size",
     .argument = "32|64|128|auto",
     .kind = KIND_CHOICE,
     .choices = "auto|32|64|128",
     .offset = AT(group_size),
     .commands = FOR(CONVERT),
     .help = "Inputs that share a scale in what is quantised; what is quantised already keeps its own. [64]"},
    {.name = "runs",
     .argument = "N",
     .kind = KIND_UINT32,
     .offset = AT(runs),
     .least = 1,
     .most = 1000,
     .commands = FOR(BENCH),
     .help = "Measure N times and report the medians. [5]"},
    {.name = "prefill-tokens",
     .argument = "N",
     .kind = KIND_UINT32,
     .offset = AT(prefill_tokens),
     .least = 1,
     .most = 1 << 20,
     .commands = FOR(BENCH),
     .help = "Length of the measured prompt. [512]"},
    {.name = "decode-tokens",
     .argument = "N",
     .kind = KIND_UINT32,
     .offset = AT(decode_tokens),
     .least = 1,
     .most = 1 << 20,
     .commands = FOR(BENCH),
     .help = "Length of the measured answer. [64]"},
    {.name = "only",
     .argument = "TEXT,...",
     .kind = KIND_STRING,
     .offset = AT(only),
     .commands = FOR(BENCH),
     .help = "Of bench stream, measure only the rows whose name has one of these TEXTs in it."},
    {.name = "json",
     .kind = KIND_FLAG,
     .offset = AT(json),
     .commands = FOR(RUN) | FOR(EVAL) | FOR(INFO) | FOR(DEVICES) | FOR(BENCH) | FOR(SESSIONS),
     .help = "Print one JSON object instead of text."},
    {.name = "jsonl",
     .kind = KIND_FLAG,
     .offset = AT(jsonl),
     .commands = FOR(RUN),
     .help = "Print a JSON object for each token as it comes, then the one of --json."},
    {.name = "continue",
     .letter = 'c',
     .kind = KIND_FLAG,
     .offset = AT(go_on),
     .commands = FOR_TALK,
     .help = "Go on with the session that was used last."},
    {.name = "session",
     .letter = 's',
     .argument = "NAME",
     .kind = KIND_STRING,
     .offset = AT(session),
     .commands = FOR_TALK,
     .help = "Go on with the session NAME, or begin it. Without it a chat begins a session of its own, and run saves "
             "nothing."},
    {.name = "no-session",
     .kind = KIND_FLAG,
     .variable = "MOECHAT_NO_SESSION",
     .offset = AT(no_session),
     .commands = FOR_TALK,
     .help = "Save nothing."},
    {.name = "kv-cap",
     .argument = "SIZE",
     .variable = "MOECHAT_KV_CAP",
     .kind = KIND_SIZE,
     .offset = AT(kv_cap),
     .commands = FOR_TALK,
     .help = "Disk space for the cache rows of all sessions; those of the longest unused go first, their text stays. 0 "
             "saves text alone. [4GiB]"},
    {.name = "plain",
     .variable = "MOECHAT_PLAIN",
     .kind = KIND_FLAG,
     .offset = AT(plain),
     .commands = FOR(CHAT),
     .help = "Append-only lines; also talks through a pipe, one message a line."},
    {.name = "ascii",
     .variable = "MOECHAT_ASCII",
     .kind = KIND_FLAG,
     .offset = AT(ascii),
     .commands = FOR(CHAT),
     .help = "No characters but ASCII on the screen beside the conversation's own."},
    {.name = "mouse",
     .variable = "MOECHAT_MOUSE",
     .kind = KIND_FLAG,
     .offset = AT(mouse),
     .commands = FOR(CHAT),
     .help = "The wheel scrolls; the terminal then selects text only with its own key held."},
    {.name = "clipboard",
     .variable = "MOECHAT_CLIPBOARD",
     .kind = KIND_FLAG,
     .offset = AT(clipboard),
     .commands = FOR(CHAT),
     .help = "Alt-w and /copy send to the terminal's clipboard (OSC 52)."},
    {.name = "color",
     .argument = "auto|always|never",
     .variable = "MOECHAT_COLOR",
     .kind = KIND_CHOICE,
     .choices = "auto|always|never",
     .offset = AT(color),
     .commands = FOR(CHAT),
     .help = "Colours; auto is never when NO_COLOR is set or the terminal is dumb. [auto]"},
    {.name = "config",
     .argument = "FILE|none",
     .variable = "MOECHAT_CONFIG",
     .kind = KIND_STRING,
     .offset = AT(config),
     .commands = FOR_ALL,
     .help = "Read settings from FILE, see moechat(5). [$XDG_CONFIG_HOME/moechat/config]"},
    {.name = "print-config",
     .kind = KIND_FLAG,
     .offset = AT(print_config),
     .commands = FOR_ALL,
     .help = "Print all settings as a configuration file, with where each comes from."},
    {.name = "completion",
     .argument = "bash|zsh|fish",
     .kind = KIND_CHOICE,
     .choices = "none|bash|zsh|fish",
     .offset = AT(completion),
     .commands = FOR(CHAT),
     .help = "Print what completes moechat's command lines in that shell."},
    {.name = "engine",
     .argument = "fake:FILE",
     .kind = KIND_STRING,
     .offset = AT(engine),
     .commands = FOR_TALK,
     .hidden = true,
     .help = "Play the script FILE instead of a model."},
    {.name = "dump-options",
     .argument = "mdoc|...",
     .kind = KIND_STRING,
     .offset = AT(dump_options),
     .commands = FOR(CHAT),
     .hidden = true,
     .help = "Print this table for the manual page."},
    {.name = "help", .letter = 'h', .kind = KIND_FLAG, .offset = AT(help), .commands = FOR_ALL, .help = "Show help."},
    {.name = "version",
     .letter = 'V',
     .kind = KIND_FLAG,
     .offset = AT(version),
     .commands = FOR_ALL,
     .help = "Show the version."},
};
enum { N_ROWS = sizeof options_table / sizeof options_table[0] };
_Static_assert(N_ROWS <= 64, "options.given has a bit for each row");

const struct option_command options_commands[COMMAND_COUNT] = {
    [COMMAND_CHAT] = {"chat", "", "Chat in the terminal; so does no command at all."},
    [COMMAND_RUN] = {"run", "", "Answer one prompt on standard output."},
    [COMMAND_EVAL] = {"eval", "", "Score a text: mean NLL, perplexity, logits."},
    [COMMAND_INFO] = {"info", " [DIR]", "Describe a model: a package, or a folder from the hub."},
    [COMMAND_CONVERT] = {"convert", " DIR NEWDIR", "Make a package of a folder from the hub."},
    [COMMAND_DEVICES] = {"devices", "", "List the devices that can compute."},
    [COMMAND_BENCH] = {"bench", " [KIND]", "Measure speed. KIND: stream, or cache TRACE (replay it).", "stream|cache"},
    [COMMAND_SESSIONS] = {"sessions", " [VERB]", "List and keep the saved conversations.",
                          "list|show|rm|rename|export|verify|compact"},
    [COMMAND_HELP] = {"help", " [COMMAND]", "Explain a command."},
};

bool option_refuse(struct options_error *error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    return false;
}

void options_defaults(struct options *options)
{
    *options = (struct options){
        .temp = 0.6,
        .top_p = 0.95,
        .repeat_penalty = 1,
        .expert_cache = MOE_CACHE_AUTO,
        .host_cache = MOE_CACHE_AUTO,
        .kv = -1,
        .kv_cap = UINT64_C(4) << 30,
        .runs = 5,
        .ring = 2,
        .prefill_tokens = 512,
        .decode_tokens = 64,
    };
}

bool options_parse_size(const char *text, uint64_t *bytes)
{
    if (!isdigit((unsigned char)text[0]))
        return false;
    char *end;
    errno = 0;
    double number = strtod(text, &end);
    static const char letters[] = "KMGT";
    const char *letter = *end ? strchr(letters, toupper((unsigned char)*end)) : NULL;
    double unit = 1;
    if (letter) {
        end++;
        bool decimal = (*end == 'B' || *end == 'b') && !end[1];
        for (long i = letter - letters; i >= 0; i--)
            unit *= decimal ? 1000 : 1024;
        if (end[0] == 'i')
            end++;
    }
    if (*end == 'B' || *end == 'b')
        end++;
    double total = number * unit;
    if (errno || *end || !isfinite(total) || total >= 1.8e19)
        return false;
    *bytes = (uint64_t)total;
    return true;
}

static bool parse_whole(const char *text, uint64_t *value)
{
    if (!isdigit((unsigned char)text[0]))
        return false; // strtoull would take a sign or spaces
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return errno == 0 && *end == 0;
}

static bool parse_real(const char *text, double *value)
{
    char *end;
    errno = 0;
    *value = strtod(text, &end);
    return end != text && *end == 0 && errno == 0 && isfinite(*value) && !isspace((unsigned char)text[0]);
}

static int choice_index(const char *choices, const char *value)
{
    size_t length = strlen(value);
    for (int index = 0; *choices; index++) {
        size_t span = strcspn(choices, "|");
        if (span == length && strncmp(choices, value, span) == 0)
            return index;
        choices += span + (choices[span] == '|');
    }
    return -1;
}

// Reads a number for `row` and checks its range. Messages name the option as the user wrote it.
static bool store_number(void *field, const struct option_row *row, const char *as, const char *value,
                         struct options_error *error)
{
    double real = 0;
    uint64_t whole = 0;
    bool fine = row->kind == KIND_REAL ? parse_real(value, &real) : parse_whole(value, &whole);
    if (!fine)
        return option_refuse(error, "%s takes a number, not \"%.60s\"", as, value);
    if (row->kind == KIND_UINT64) {
        memcpy(field, &whole, sizeof whole);
        return true;
    }
    double number = row->kind == KIND_REAL ? real : (double)whole;
    if (number < row->least || number > row->most)
        return option_refuse(error, "%s must lie between %g and %.10g, and %.60s does not", as, row->least, row->most,
                             value);
    uint32_t small = (uint32_t)whole;
    if (row->kind == KIND_REAL)
        memcpy(field, &real, sizeof real);
    else
        memcpy(field, &small, sizeof small);
    return true;
}

// A size, a share of free memory, or a word of "all|auto|none".
static bool parse_budget(const char *value, int word, uint64_t *bytes)
{
    static const uint64_t words[] = {MOE_CACHE_ALL, MOE_CACHE_AUTO, MOE_CACHE_NONE};
    if (word >= 0) {
        *bytes = words[word];
        return true;
    }
    char number[16];
    size_t length = strlen(value);
    if (length < 2 || value[length - 1] != '%')
        return options_parse_size(value, bytes) && *bytes > 0;
    double percent;
    snprintf(number, sizeof number, "%.*s", (int)length - 1, value);
    if (length > sizeof number || !parse_real(number, &percent) || percent < 0.1 || percent > 100)
        return false;
    *bytes = MOE_CACHE_SHARE((uint64_t)(percent * 10 + 0.5));
    return true;
}

bool option_store(struct options *options, const struct option_row *row, const char *as, const char *value,
                  struct options_error *error)
{
    char *field = (char *)options + row->offset;
    bool yes = true;
    uint64_t bytes = MOE_CACHE_AUTO;
    int index;
    switch (row->kind) {
    case KIND_FLAG:
        memcpy(field, &yes, sizeof yes);
        break;
    case KIND_STRING:
        memcpy(field, &value, sizeof value);
        break;
    case KIND_CACHE:
        if (!parse_budget(value, choice_index(row->choices, value), &bytes))
            return option_refuse(error,
                                 "%s takes a size such as 800M or 12GiB, a share such as 40%%, or %s, not \"%.60s\"",
                                 as, row->choices, value);
        memcpy(field, &bytes, sizeof bytes);
        break;
    case KIND_SIZE:
        if (!options_parse_size(value, &bytes))
            return option_refuse(error, "%s takes a size such as 800M or 12GiB, not \"%.60s\"", as, value);
        memcpy(field, &bytes, sizeof bytes);
        break;
    case KIND_CHOICE:
        index = choice_index(row->choices, value);
        if (index < 0)
            return option_refuse(error, "%s takes one of %s, not \"%.60s\"", as, row->choices, value);
        memcpy(field, &index, sizeof index);
        break;
    case KIND_UINT32:
    case KIND_UINT64:
    case KIND_REAL:
        if (!store_number(field, row, as, value, error))
            return false;
        break;
    }
    options->given |= UINT64_C(1) << (row - options_table);
    return true;
}

static const struct option_row *find_row(const char *name, size_t length, char letter)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (letter ? options_table[i].letter == letter
                   : strlen(options_table[i].name) == length && !strncmp(options_table[i].name, name, length))
            return &options_table[i];
    return NULL;
}

const struct option_row *option_find(const char *name, size_t length)
{
    return find_row(name, length, 0);
}

size_t options_count(void)
{
    return N_ROWS;
}

// Reads argv[*at] and, when it needs one, its value in argv[*at + 1].
static bool parse_option(struct options *options, int argc, char **argv, int *at, struct options_error *error)
{
    const char *word = argv[*at];
    bool is_long = word[1] == '-';
    const char *name = is_long ? word + 2 : word + 1;
    size_t length = is_long ? strcspn(name, "=") : 1;
    const char *command = options_command_name(options->command);
    const struct option_row *row = find_row(name, length, is_long ? 0 : name[0]);
    char as[64];
    snprintf(as, sizeof as, "%.*s", (int)((is_long ? 2 : 1) + length), word);
    if (!row)
        return option_refuse(error, "there is no option %s; see moechat help %s", as, command);
    if (!(row->commands & (1u << options->command)))
        return option_refuse(error, "%s does not belong to %s; see moechat help %s", as, command, command);
    const char *rest = name + length;
    if (row->kind == KIND_FLAG) {
        if (*rest)
            return option_refuse(error, "%s takes no value", as);
        return option_store(options, row, as, NULL, error);
    }
    const char *value = is_long && *rest == '=' ? rest + 1 : !is_long && *rest ? rest : NULL;
    if (!value) {
        if (*at + 1 >= argc)
            return option_refuse(error, "%s needs a value: %s %s", as, as, row->argument);
        value = argv[++*at];
    }
    return option_store(options, row, as, value, error);
}

static bool read_environment(struct options *options, struct options_error *error)
{
    for (size_t i = 0; i < N_ROWS; i++) {
        const struct option_row *row = &options_table[i];
        const char *value = row->variable ? getenv(row->variable) : NULL;
        bool wanted = value && *value && !(options->given >> i & 1) && (row->commands & (1u << options->command));
        if (wanted && !(row->kind == KIND_FLAG && strcmp(value, "0") == 0) &&
            !option_store(options, row, row->variable, value, error))
            return false;
        if (wanted)
            options->from_environment |= options->given & UINT64_C(1) << i;
    }
    return true;
}

static bool find_command(const char *name, enum command *command)
{
    for (int i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(options_commands[i].name, name) == 0) {
            *command = (enum command)i;
            return true;
        }
    }
    return false;
}

bool options_parse(struct options *options, int argc, char **argv, struct options_error *error)
{
    int at = 1;
    if (at < argc && argv[at][0] != '-') {
        if (!find_command(argv[at], &options->command))
            return option_refuse(error, "there is no command \"%.60s\"; see moechat help", argv[at]);
        at++;
    }
    bool ended = false;
    for (; at < argc; at++) {
        const char *word = argv[at];
        bool is_option = !ended && word[0] == '-' && word[1];
        if (is_option && strcmp(word, "--") == 0) {
            ended = true;
        } else if (is_option) {
            if (!parse_option(options, argc, argv, &at, error))
                return false;
        } else if (!options->operand && *options_commands[options->command].operand) {
            options->operand = word;
        } else if ((options->command == COMMAND_CONVERT || options->command == COMMAND_BENCH) && !options->more[0]) {
            options->more[0] = word;
        } else if (options->command == COMMAND_SESSIONS && !options->more[1]) {
            options->more[options->more[0] != NULL] = word;
        } else {
            const char *hint = options->command == COMMAND_RUN    ? "; give the prompt with -p"
                               : options->command == COMMAND_CHAT ? "; a command comes before the options"
                                                                  : "";
            return option_refuse(error, "\"%.60s\" is one word too many%s", word, hint);
        }
    }
    return read_environment(options, error);
}

bool options_set(struct options *options, const char *name, const char *value, struct options_error *error)
{
    char spelled[64];
    snprintf(spelled, sizeof spelled, "%s", name);
    for (char *c = spelled; *c; c++)
        if (*c == '_')
            *c = '-';
    const struct option_row *row = find_row(spelled, strlen(spelled), 0);
    if (!row || !row->settable)
        return option_refuse(error, "there is no setting \"%.40s\"; /set alone lists them", name);
    return option_store(options, row, name, value, error);
}

bool options_given(const struct options *options, const char *name)
{
    const struct option_row *row = find_row(name, strlen(name), 0);
    return row && (options->given >> (row - options_table) & 1);
}

const char *options_command_name(enum command command)
{
    return options_commands[command].name;
}
