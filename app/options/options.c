// SPDX-License-Identifier: GPL-3.0-or-later
// Reads the command line and the environment by the table's rows.
#include "app/options/options_table.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "app/util/words.h"

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
        .model = {.expert_cache = MOE_CACHE_AUTO,
                  .host_cache = MOE_CACHE_AUTO,
                  .ring = 2,
                  .kv = MOE_KV_F16}, // the demo's NLL moves by less than 0.01 % with it
        .talk = {.temp = 0.6,
                 .top_p = 0.95,
                 .repeat_penalty = 1,
                 .dry_base = 1.75,
                 .dry_allowed_length = 2,
                 .dry_breakers = {"\\n,:,\",*"},
                 .kv_cap = UINT64_C(4) << 30},
        .asked = {.runs = 5, .prefill_tokens = 512, .decode_tokens = 64},
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
    double total = round(number * unit); // 2.01 * 1e6 is less than 2010000
    if (errno || *end || !isfinite(total) || total >= 1.8e19)
        return false;
    *bytes = (uint64_t)total;
    return true;
}

// One that is larger than UINT64_MAX is `huge`, and *value that.
static bool parse_whole(const char *text, uint64_t *value, bool *huge)
{
    if (!isdigit((unsigned char)text[0]))
        return false; // strtoull would take a sign or spaces
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 10);
    *huge = errno == ERANGE;
    return *end == 0;
}

static bool parse_real(const char *text, double *value)
{
    char *end;
    errno = 0;
    *value = strtod(text, &end);
    return end != text && *end == 0 && errno == 0 && isfinite(*value) && !isspace((unsigned char)text[0]);
}

static const struct option_choice *find_choice(const struct option_row *row, const char *name)
{
    for (const struct option_choice *choice = row->choices; choice->name; choice++)
        if (strcmp(choice->name, name) == 0)
            return choice;
    return NULL;
}

const char *option_choice_name(const struct option_row *row, uint64_t value)
{
    for (const struct option_choice *choice = row->choices; choice->name; choice++)
        if (choice->value == value)
            return choice->name;
    return NULL;
}

// "a|b|c". Returns out.
static char *list_choices(char *out, size_t size, const struct option_row *row)
{
    size_t used = 0;
    *out = 0;
    for (const struct option_choice *choice = row->choices; choice->name && used < size; choice++)
        used += (size_t)snprintf(out + used, size - used, "%s%s", used ? "|" : "", choice->name);
    return out;
}

// Reads a number for `row` and checks its range. Messages name the option as the user wrote it.
static bool store_number(void *field, const struct option_row *row, const char *as, const char *value,
                         struct options_error *error)
{
    double real = 0;
    uint64_t whole = 0;
    bool huge = false;
    bool fine = row->kind == KIND_REAL ? parse_real(value, &real) : parse_whole(value, &whole, &huge);
    if (!fine && row->kind == KIND_SEED)
        return option_refuse(
            error, "%s takes a whole number from 0 on, not \"%.60s\"; where none is given it is random", as, value);
    if (!fine)
        return option_refuse(error, "%s takes a %snumber, not \"%.60s\"", as, row->kind == KIND_REAL ? "" : "whole ",
                             value);
    if (row->kind == KIND_SEED && huge)
        return option_refuse(error, "%s must be at most %" PRIu64 ", not %.60s", as, UINT64_MAX, value);
    if (row->kind == KIND_SEED) {
        *(struct seed_setting *)field = (struct seed_setting){.number = whole, .given = true};
        return true;
    }
    double number = row->kind == KIND_REAL ? real : (double)whole;
    bool outside = number < row->least || number > row->most;
    if (row->above && (outside || (float)number <= (float)row->least)) // a float is what it becomes
        return option_refuse(error, "%s must be above %g and at most %.10g, not %.60s", as, row->least, row->most,
                             value);
    if (outside)
        return option_refuse(error, "%s must be between %g and %.10g, not %.60s", as, row->least, row->most, value);
    uint32_t small = (uint32_t)whole;
    if (row->kind == KIND_REAL)
        memcpy(field, &real, sizeof real);
    else
        memcpy(field, &small, sizeof small);
    return true;
}

// A size, a share of free memory, or a word.
static bool parse_budget(const struct option_row *row, const char *value, uint64_t *bytes)
{
    const struct option_choice *word = find_choice(row, value);
    if (word) {
        *bytes = word->value;
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

// What says whether a flag is set. False: it says neither.
static bool parse_flag(const char *value, bool *set)
{
    static const char *const words[][2] = {{"yes", "no"}, {"true", "false"}, {"on", "off"}, {"1", "0"}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        for (int no = 0; no < 2; no++)
            if (strcmp(value, words[i][no]) == 0) {
                *set = !no;
                return true;
            }
    return false;
}

// Reads a value into the row's field; a flag without one is set. Messages name the option `as` the user wrote it.
static bool store_value(void *field, const struct option_row *row, const char *as, const char *value,
                        struct options_error *error)
{
    const struct option_choice *choice;
    const char *wrong;
    char words[100];
    bool yes = true;
    uint64_t bytes;
    uint32_t chosen;
    switch (row->kind) {
    case KIND_FLAG:
        if (value && !parse_flag(value, &yes))
            return option_refuse(error, "%s takes yes or no, not \"%.60s\"", as, value);
        memcpy(field, &yes, sizeof yes);
        return true;
    case KIND_STRING:
        memcpy(field, &value, sizeof value);
        return true;
    case KIND_CACHE:
        if (!parse_budget(row, value, &bytes))
            return option_refuse(error,
                                 "%s takes a size such as 800M or 12GiB, a share such as 40%%, or %s, not \"%.60s\"",
                                 as, list_choices(words, sizeof words, row), value);
        memcpy(field, &bytes, sizeof bytes);
        return true;
    case KIND_SIZE:
        if (!options_parse_size(value, &bytes))
            return option_refuse(error, "%s takes a size such as 800M or 12GiB, not \"%.60s\"", as, value);
        memcpy(field, &bytes, sizeof bytes);
        return true;
    case KIND_TEXTS:
        if (!*value) // a script's variable that is not set
            return option_refuse(error, "%s takes %s or none, not \"\"", as, row->argument);
        value = strcmp(value, "none") == 0 ? "" : value;
        wrong = texts_check(value);
        wrong = wrong || !row->check ? wrong : row->check(value);
        if (wrong)
            return option_refuse(error, "%s %s", as, wrong);
        snprintf(((struct texts *)field)->line, sizeof((struct texts *)field)->line, "%s", value);
        return true;
    case KIND_CHOICE:
        choice = find_choice(row, value);
        if (!choice)
            return option_refuse(error, "%s takes one of %s, not \"%.60s\"", as, list_choices(words, sizeof words, row),
                                 value);
        chosen = (uint32_t)choice->value;
        memcpy(field, &chosen, sizeof chosen);
        return true;
    case KIND_UINT32:
    case KIND_SEED:
    case KIND_REAL:
        break;
    }
    return store_number(field, row, as, value, error);
}

bool option_store(struct options *options, const struct option_row *row, const char *as, const char *value,
                  struct options_error *error)
{
    if (!store_value((char *)options + row->offset, row, as, value, error))
        return false;
    option_set_add(&options->given, (size_t)(row - options_table));
    return true;
}

static const struct option_row *find_row(const char *name, size_t length, char letter)
{
    for (size_t i = 0; i < options_count(); i++)
        if (letter ? options_table[i].letter == letter
                   : strlen(options_table[i].name) == length && !strncmp(options_table[i].name, name, length))
            return &options_table[i];
    return NULL;
}

const struct option_row *option_find(const char *name, size_t length)
{
    return find_row(name, length, 0);
}

static bool is_settable(const struct option_row *row, enum command command)
{
    (void)command;
    return row->settable;
}

static bool belongs(const struct option_row *row, enum command command)
{
    return !row->hidden && (row->commands & (1u << command));
}

// The name that an unknown one may be a slip for. NULL: none is near.
static const char *find_near(const char *name, size_t length, bool (*fits)(const struct option_row *, enum command),
                             enum command command)
{
    const char *near = NULL;
    int nearest = 0;
    for (size_t i = 0; i < options_count(); i++) {
        int slip = fits(&options_table[i], command) ? words_slip(name, length, options_table[i].name) : 0;
        if (slip && (!nearest || slip < nearest)) {
            near = options_table[i].name;
            nearest = slip;
        }
    }
    return near;
}

// What other programs call an option or a command, "a|b", and what to type here.
static const struct foreign_word {
    const char *words, *ours;
} foreign_words[] = {
    {"-v", "use --version; figures are in /stats of a chat, and --json of moechat run"},
    {"--nowordwrap|--wordwrap", "lines are always wrapped at words"},
    {"--verbose", "use /stats in a chat, and --json of moechat run"},
    {"-n|--n-predict|--predict|--num-predict", "use --max-tokens N"},
    {"-f|--file", "use --prompt-file FILE, of moechat run"},
    {"-p|--prompt", "use moechat run -p PROMPT"},
    {"--ctx-size", "use --context N"},
    {"--temperature", "use --temp T"},
    {"--format", "use --json, of moechat run"},
    {"-cnv|--conversation", "nothing is needed: moechat begins a chat"},
    {"-ngl|--n-gpu-layers", "use --expert-cache SIZE; what a device holds is chosen by itself"},
    {"list|ls", "use moechat sessions, for conversations, or moechat info, for a model"},
    {"ps", "use moechat info or moechat devices"},
    {"show", "use moechat info MODEL"},
    {"serve", "there is no server; moechat run answers in pipes"},
    {"pull", "models are fetched with hf download or the like; docs/models.md says how"},
    {"rm", "use moechat sessions rm NAME, for conversations; a model is a file or a folder of yours"},
    {"cp", "models are files and folders of yours"},
    {"create", "use moechat convert MODEL NEWDIR"},
    {"version", "use --version"},
};

static const char *find_foreign(const char *word)
{
    for (size_t i = 0; i < sizeof foreign_words / sizeof foreign_words[0]; i++)
        if (words_are(foreign_words[i].words, word, strlen(word)))
            return foreign_words[i].ours;
    return NULL;
}

static bool refuse_unknown(const struct options *options, const char *as, const char *name, struct options_error *error)
{
    const char *whole = as[1] == '-' ? NULL : find_foreign(name - 1), // "-ngl", of which `as` is one letter
        *foreign = whole ? whole : find_foreign(as);
    if (foreign)
        return option_refuse(error, "unknown option %s; %s", whole ? name - 1 : as, foreign);
    const char *near = find_near(name, strcspn(name, "="), belongs, options->command);
    if (near)
        return option_refuse(error, "unknown option %s; did you mean --%s?", as, near);
    return option_refuse(error, "unknown option %s; see moechat help %s", as, options_command_name(options->command));
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
        return refuse_unknown(options, as, name, error);
    const char *foreign = find_foreign(as);
    if (!(row->commands & (1u << options->command)))
        return foreign ? option_refuse(error, "%s is not an option of %s; %s", as, command, foreign)
                       : option_refuse(error, "%s is not an option of %s; see moechat help %s", as, command, command);
    const char *rest = name + length;
    if (row->kind == KIND_FLAG) {
        if (*rest && find_foreign(word))
            return refuse_unknown(options, as, name, error);
        bool takes = !*rest || (is_long && row->variable); // what another source may say can be taken back
        return takes ? option_store(options, row, as, *rest ? rest + 1 : NULL, error)
                     : option_refuse(error, "%s takes no value", as);
    }
    const char *value = is_long && *rest == '=' ? rest + 1 : !is_long && *rest ? rest : NULL;
    if (!value) {
        if (*at + 1 >= argc)
            return option_refuse(error, "%s needs a value: %s %s", as, as, row->argument);
        value = argv[++*at];
    }
    if (options->command == COMMAND_RUN && options->asked.operand && strcmp(row->name, "prompt") == 0)
        return option_refuse(error, "%s is a second prompt, beside \"%.60s\"; use one of them", as,
                             options->asked.operand);
    return option_store(options, row, as, value, error);
}

static bool read_environment(struct options *options, struct options_error *error)
{
    for (size_t i = 0; i < options_count(); i++) {
        const struct option_row *row = &options_table[i];
        const char *value = row->variable ? getenv(row->variable) : NULL;
        bool wanted =
            value && *value && !option_set_has(&options->given, i) && (row->commands & (1u << options->command));
        if (wanted && !option_store(options, row, row->variable, value, error))
            return false;
        if (wanted)
            option_set_add(&options->from_environment, i);
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

static bool is_gguf(const char *name)
{
    size_t length = strlen(name);
    return length > 5 && strcasecmp(name + length - 5, ".gguf") == 0;
}

// Does a folder hold what a model is? A prompt of one word may be any folder's name.
static bool holds_model(const char *path)
{
    DIR *folder = opendir(path);
    bool found = false;
    for (struct dirent *entry; folder && !found && (entry = readdir(folder));)
        found = strcmp(entry->d_name, "model.json") == 0 || strcmp(entry->d_name, "config.json") == 0 ||
                is_gguf(entry->d_name);
    if (folder)
        closedir(folder);
    return found;
}

// A folder, or a GGUF file. Of a chat, also what can only be meant as one: whoever opens it says that it isn't there.
static bool names_model(const struct options *options, const char *word)
{
    struct stat status;
    if (stat(word, &status) == 0)
        return is_gguf(word) || (S_ISDIR(status.st_mode) && (options->command == COMMAND_CHAT || holds_model(word)));
    return options->command == COMMAND_CHAT && (is_gguf(word) || strchr(word, '/'));
}

// What hands that know other programs type: `moechat MODEL`, `moechat run [MODEL] PROMPT`.
static bool take_operand(struct options *options, const char *word, struct options_error *error)
{
    bool runs = options->command == COMMAND_RUN;
    if (!runs && options->command != COMMAND_CHAT)
        return option_refuse(error, "unexpected argument \"%.60s\"", word);
    bool model = names_model(options, word) && !options_given(options, "model");
    if (!runs && !model && options->talk.go_on && word[strspn(word, "0123456789")] == 0)
        return option_refuse(error, "unexpected argument \"%.60s\"; --context %.60s sets the room, -c is --continue",
                             word, word);
    enum command other;
    if (!model && (!runs || options_given(options, "prompt")))
        return option_refuse(error, "unexpected argument \"%.60s\"; %s", word,
                             runs                         ? "quote the prompt, and give a model by -m"
                             : find_command(word, &other) ? "the command comes first"
                                                          : "use moechat run, for a prompt");
    const char *name = model ? "model" : "prompt";
    if (!model)
        options->asked.operand = word;
    return option_store(options, find_row(name, strlen(name), 0), name, word, error);
}

static bool refuse_command(const char *word, struct options_error *error)
{
    const char *foreign = find_foreign(word);
    return option_refuse(error, "unknown command \"%.60s\"; %s", word,
                         foreign ? foreign : "see moechat help, or give a model by -m");
}

bool options_parse(struct options *options, int argc, char **argv, struct options_error *error)
{
    int at = 1;
    options->program = argc > 0 ? argv[0] : NULL;
    if (at < argc && argv[at][0] != '-') {
        if (find_command(argv[at], &options->command))
            at++;
        else if (!names_model(options, argv[at]))
            return refuse_command(argv[at], error);
    }
    if (options->command == COMMAND_EVAL)
        options->model.kv = MOE_KV_F32; // its numbers are compared with others'
    if (options->command == COMMAND_CHAT)
        options->model.nice_value = MODEL_CHAT_NICE;
    bool ended = false;
    for (; at < argc; at++) {
        const char *word = argv[at];
        bool is_option = !ended && word[0] == '-' && word[1];
        if (is_option && strcmp(word, "--") == 0) {
            ended = true;
        } else if (is_option) {
            if (!parse_option(options, argc, argv, &at, error))
                return false;
        } else if (!options->asked.operand && *options_commands[options->command].operand &&
                   options->command != COMMAND_RUN) {
            options->asked.operand = word;
        } else if ((options->command == COMMAND_CONVERT || options->command == COMMAND_BENCH) &&
                   !options->asked.more[0]) {
            options->asked.more[0] = word;
        } else if (options->command == COMMAND_SESSIONS && !options->asked.more[1]) {
            options->asked.more[options->asked.more[0] != NULL] = word;
        } else if (!take_operand(options, word, error)) {
            return false;
        }
    }
    return read_environment(options, error);
}

const struct option_row *option_find_setting(const char *name, struct options_error *error)
{
    char spelled[64];
    snprintf(spelled, sizeof spelled, "%s", name);
    for (char *c = spelled; *c; c++)
        if (*c == '_')
            *c = '-';
    const struct option_row *row = find_row(spelled, strlen(spelled), 0);
    if (row && row->settable)
        return row;
    const char *near = strcmp(spelled, "temperature") == 0
                           ? "temp, as in /set temp 0.5"
                           : find_near(spelled, strlen(spelled), is_settable, COMMAND_CHAT);
    option_refuse(error, "Unknown setting \"%.40s\"%s%s%s; /set lists them", name, near ? " (did you mean " : "",
                  near ? near : "", near ? "?)" : "");
    return NULL;
}

bool options_set(struct talk_settings *settings, const char *name, const char *value, struct options_error *error)
{
    const struct option_row *row = option_find_setting(name, error);
    if (!row ||
        !store_value((char *)settings + (row->offset - offsetof(struct options, talk)), row, name, value, error))
        return false;
    option_set_add(&settings->sources.changed, (size_t)(row - options_table));
    return true;
}

// Does a set have the row in the place of what another said of it?
static void copy_row(struct option_set *to, const struct option_set *from, size_t row)
{
    to->bits[row / 64] &= ~(UINT64_C(1) << row % 64);
    if (option_set_has(from, row))
        option_set_add(to, row);
}

static size_t size_of(enum kind kind)
{
    static const size_t sizes[] = {
        [KIND_FLAG] = sizeof(bool),     [KIND_STRING] = sizeof(const char *),      [KIND_UINT32] = sizeof(uint32_t),
        [KIND_REAL] = sizeof(double),   [KIND_SEED] = sizeof(struct seed_setting), [KIND_CACHE] = sizeof(uint64_t),
        [KIND_SIZE] = sizeof(uint64_t), [KIND_CHOICE] = sizeof(uint32_t),          [KIND_TEXTS] = sizeof(struct texts)};
    return sizes[kind];
}

bool options_take_back(struct talk_settings *settings, const struct talk_settings *began, const char *name,
                       struct options_error *error)
{
    const struct option_row *row = option_find_setting(name, error);
    if (!row)
        return false;
    size_t at = (size_t)(row - options_table), field = row->offset - offsetof(struct options, talk);
    memcpy((char *)settings + field, (const char *)began + field, size_of(row->kind));
    if (row->kind == KIND_SEED && !settings->seed.given)
        settings->seed.number = talk_settings_random_seed();
    copy_row(&settings->sources.changed, &began->sources.changed, at);
    copy_row(&settings->sources.model, &began->sources.model, at);
    return true;
}

struct talk_settings options_talk(const struct options *options)
{
    struct talk_settings settings = options->talk;
    settings.sources = (struct setting_sources){
        .given = options->given, .environment = options->from_environment, .config = options->from_config};
    return settings;
}

void options_suggest(struct talk_settings *settings, const struct moe_suggestion *suggestion, char *said, size_t room)
{
    const struct {
        const char *name;
        unsigned bit;
        double number;
    } all[] = {{"temp", MOE_SUGGESTS_TEMPERATURE, suggestion->temperature},
               {"top-k", MOE_SUGGESTS_TOP_K, suggestion->top_k},
               {"top-p", MOE_SUGGESTS_TOP_P, suggestion->top_p},
               {"min-p", MOE_SUGGESTS_MIN_P, suggestion->min_p}};
    size_t used = 0;
    *said = 0;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        char value[32];
        struct options_error error;
        const struct option_row *row = option_find_setting(all[i].name, &error);
        size_t at = (size_t)(row - options_table);
        const struct setting_sources *sources = &settings->sources;
        snprintf(value, sizeof value, "%.10g", all[i].number);
        if (!(suggestion->given & all[i].bit) || option_set_has(&sources->given, at) ||
            option_set_has(&sources->changed, at) ||
            !store_value((char *)settings + (row->offset - offsetof(struct options, talk)), row, row->name, value,
                         &error))
            continue;
        option_set_add(&settings->sources.model, at);
        if (used < room)
            used += (size_t)snprintf(said + used, room - used, "%s%s %s", used ? ", " : "", row->name, value);
    }
}

bool options_given(const struct options *options, const char *name)
{
    const struct option_row *row = find_row(name, strlen(name), 0);
    return row && option_set_has(&options->given, (size_t)(row - options_table));
}

bool options_typed(const struct options *options, const char *name)
{
    const struct option_row *row = find_row(name, strlen(name), 0);
    size_t at = row ? (size_t)(row - options_table) : 0;
    return row && option_set_has(&options->given, at) && !option_set_has(&options->from_environment, at) &&
           !option_set_has(&options->from_config, at);
}

bool options_settle(struct options *options, struct options_error *error)
{
    const struct talk_settings *talk = &options->talk;
    const char *asked = talk->session ? "--session" : talk->go_on ? "--continue" : NULL;
    const char *against = talk->session && talk->go_on                               ? "--continue"
                          : talk->no_session && options_typed(options, "no-session") ? "--no-session"
                                                                                     : NULL;
    if (asked && against)
        return option_refuse(error, "the command line has both %s and %s; use one of them", asked, against);
    if (!asked || !talk->no_session)
        return true;
    static const char name[] = "no-session";
    const struct option_row *row = option_find(name, strlen(name));
    size_t at = (size_t)(row - options_table);
    copy_row(&options->from_environment, &(struct option_set){0}, at);
    copy_row(&options->from_config, &(struct option_set){0}, at);
    return option_store(options, row, name, "no", error);
}

const char *options_command_name(enum command command)
{
    return options_commands[command].name;
}
