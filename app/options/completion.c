// SPDX-License-Identifier: GPL-3.0-or-later
// Writes the scripts by which shells complete moechat's command lines.
#include "app/options/completion.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "app/options/options_table.h"

#define EXPORT_FORMATS  "md json txt" // of moechat sessions export NAME
#define SESSIONS_FOLDER "${XDG_DATA_HOME:-$HOME/.local/share}/moechat/sessions"

// What an option's value may be: words, as all and auto of "SIZE|all|auto", or a kind of name.
enum value { VALUE_NONE, VALUE_WORDS, VALUE_FILE, VALUE_FOLDER, VALUE_MODEL, VALUE_SESSION, VALUE_OTHER };

// "auto" and "8" are to be typed, "SIZE" stands for something.
static bool is_word(char first)
{
    return islower((unsigned char)first) || isdigit((unsigned char)first);
}

static bool names_words(const char *argument)
{
    for (const char *c = argument; *c; c++)
        if ((c == argument || c[-1] == '|') && is_word(*c))
            return true;
    return false;
}

static enum value value_of(const struct option_row *row)
{
    const char *argument = row->argument;
    if (!argument)
        return VALUE_NONE;
    if (strcmp(row->name, "session") == 0)
        return VALUE_SESSION;
    if (strcmp(row->name, "model") == 0)
        return VALUE_MODEL;
    if (strncmp(argument, "DIR", 3) == 0)
        return VALUE_FOLDER;
    if (strncmp(argument, "FILE", 4) == 0 || strcmp(argument, "OUT") == 0)
        return VALUE_FILE;
    return names_words(argument) || row->choices ? VALUE_WORDS : VALUE_OTHER;
}

// Those of "a|b" that are to be typed, a space between.
static void print_words(FILE *out, const char *words)
{
    for (int n = 0; *words; words += strspn(words, "|")) {
        size_t length = strcspn(words, "|");
        if (is_word(*words))
            fprintf(out, "%s%.*s", n++ ? " " : "", (int)length, words);
        words += length;
    }
}

// The words that an option takes, also where its argument is shown by another, as WHEN is.
static void print_values(FILE *out, const struct option_row *row)
{
    if (names_words(row->argument)) {
        print_words(out, row->argument);
        return;
    }
    for (const struct option_choice *choice = row->choices; choice->name; choice++)
        fprintf(out, "%s%s", choice == row->choices ? "" : " ", choice->name);
}

static bool belongs(const struct option_row *row, int command)
{
    return !row->hidden && (row->commands >> command & 1);
}

static bool takes_model(int command)
{
    return strstr(options_commands[command].operand, "DIR") != NULL;
}

// As convert does, after its model.
static bool takes_folder(int command)
{
    return strstr(options_commands[command].operand, "NEWDIR") != NULL;
}

// As bench cache does, after its verb.
static bool takes_file(int command)
{
    return command != COMMAND_SESSIONS && options_commands[command].words;
}

static void print_commands(FILE *out)
{
    for (int i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "%s%s", i ? " " : "", options_commands[i].name);
}

// ---- bash ----

// Names are data, whoever made them: compgen -W would run what stands in $() there, and words are not split at spaces.
static void bash_sessions(FILE *out)
{
    fputs("_moechat_sessions() {\n"
          "  local folder name\n"
          "  for folder in \"" SESSIONS_FOLDER "\"/*/; do\n"
          "    name=${folder%/} name=${name##*/}\n"
          "    [[ -d $folder && $name == \"$cur\"* ]] && COMPREPLY+=(\"$(printf %q \"$name\")\")\n"
          "  done\n"
          "}\n",
          out);
}

// A folder or a GGUF file; where none is called so, any file.
static void bash_models(FILE *out)
{
    fputs("_moechat_models() {\n"
          "  compopt -o filenames\n"
          "  mapfile -t COMPREPLY < <(compgen -d -- \"$cur\"; compgen -f -X '!*.[gG][gG][uU][fF]' -- \"$cur\")\n"
          "  [[ ${#COMPREPLY[@]} -gt 0 ]] || mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
          "}\n",
          out);
}

static void bash_files(FILE *out, char kind)
{
    fprintf(out, "compopt -o filenames; mapfile -t COMPREPLY < <(compgen -%c -- \"$cur\");", kind);
}

static void bash_value(FILE *out, const struct option_row *row)
{
    enum value value = value_of(row);
    if (value == VALUE_NONE || row->hidden)
        return;
    fprintf(out, "    --%s", row->name);
    if (row->letter)
        fprintf(out, "|-%c", row->letter);
    fputs(") ", out);
    if (value == VALUE_WORDS) {
        fputs("COMPREPLY=($(compgen -W '", out);
        print_values(out, row);
        fputs("' -- \"$cur\"));", out);
    } else if (value == VALUE_FILE || value == VALUE_FOLDER) {
        bash_files(out, value == VALUE_FILE ? 'f' : 'd');
    } else if (value == VALUE_MODEL) {
        fputs("_moechat_models;", out);
    } else if (value == VALUE_SESSION) {
        fputs("_moechat_sessions;", out);
    }
    fputs(" return ;;\n", out);
}

static void bash_operand(FILE *out, int command)
{
    if (!takes_model(command) && !takes_file(command))
        return;
    fprintf(out, "    %s) ", options_commands[command].name);
    if (takes_folder(command)) {
        fputs("if [[ $COMP_CWORD -eq 2 ]]; then _moechat_models; else ", out);
        bash_files(out, 'd');
        fputs(" fi; return ;;\n", out);
    } else if (takes_model(command)) {
        fputs("_moechat_models; return ;;\n", out);
    } else {
        bash_files(out, 'f');
        fputs(" [[ $COMP_CWORD -eq 2 ]] || return ;;\n", out);
    }
}

static void bash(FILE *out)
{
    fputs("# bash completion of moechat, made by moechat --completion bash\n", out);
    bash_sessions(out);
    bash_models(out);
    fputs("_moechat() {\n"
          "  COMPREPLY=()\n"
          "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=chat words\n"
          "  [[ $COMP_CWORD -gt 1 && ${COMP_WORDS[1]} != -* ]] && command=${COMP_WORDS[1]}\n"
          "  case $prev in\n",
          out);
    for (size_t i = 0; i < options_count(); i++)
        bash_value(out, &options_table[i]);
    fputs("  esac\n  case $command in\n", out);
    for (int c = 0; c < COMMAND_COUNT; c++) {
        fprintf(out, "    %s) words='", options_commands[c].name);
        for (size_t i = 0; i < options_count(); i++)
            if (belongs(&options_table[i], c))
                fprintf(out, "--%s ", options_table[i].name);
        fputs("'", out);
        if (options_commands[c].words) {
            fputs("; [[ $COMP_CWORD -eq 2 && $cur != -* ]] && words='", out);
            print_words(out, options_commands[c].words);
            fputs("'", out);
        } else if (c == COMMAND_HELP) {
            fputs("; words='", out);
            print_commands(out);
            fputs("'", out);
        }
        fputs(" ;;\n", out);
    }
    fputs("  esac\n  [[ $COMP_CWORD -eq 1 && $cur != -* ]] && words='", out);
    print_commands(out);
    fputs("'\n  [[ $COMP_CWORD -gt 1 && $cur != -* ]] && case $command in\n", out);
    for (int c = 0; c < COMMAND_COUNT; c++)
        bash_operand(out, c);
    fputs("  esac\n"
          "  [[ $command == sessions && $COMP_CWORD -eq 3 ]] && { _moechat_sessions; return; }\n"
          "  [[ $command == sessions && $COMP_CWORD -eq 4 && ${COMP_WORDS[2]} == export && $cur != -* ]] && "
          "words='" EXPORT_FORMATS "'\n"
          "  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
          "}\n"
          "complete -F _moechat moechat\n",
          out);
}

// ---- zsh and fish ----

// The first sentence of a help text without what a quoted word of the shell can't hold.
static void print_sentence(FILE *out, const char *text, const char *without)
{
    const char *end = strstr(text, ". ");
    size_t length = end ? (size_t)(end - text) : strlen(text);
    for (size_t i = 0; i < length; i++)
        if (!strchr(without, text[i]))
            fputc(text[i], out);
}

static void zsh_option(FILE *out, const struct option_row *row)
{
    char names[2][40] = {"", ""};
    snprintf(names[0], sizeof names[0], "--%s", row->name);
    if (row->letter)
        snprintf(names[1], sizeof names[1], "-%c", row->letter);
    for (int i = 0; i < 2 && *names[i]; i++) {
        fprintf(out, "        '%s[", names[i]);
        print_sentence(out, row->help, "[]':\\");
        fputs("]", out);
        switch (value_of(row)) {
        case VALUE_NONE:
            break;
        case VALUE_WORDS:
            fputs(":value:(", out);
            print_values(out, row);
            fputs(")", out);
            break;
        case VALUE_FILE:
            fputs(":file:_files", out);
            break;
        case VALUE_FOLDER:
            fputs(":folder:_files -/", out);
            break;
        case VALUE_MODEL:
            fputs(":model:_moechat_models", out);
            break;
        case VALUE_SESSION:
            fputs(":session:_moechat_sessions", out);
            break;
        case VALUE_OTHER:
            fputs(":value:", out);
            break;
        }
        fputs("'\n", out);
    }
}

static void zsh(FILE *out)
{
    fputs("#compdef moechat\n"
          "# zsh completion of moechat, made by moechat --completion zsh\n"
          "_moechat_sessions() { compadd -- ${(f)\"$(command ls \"" SESSIONS_FOLDER "\" 2>/dev/null)\"} }\n"
          "_moechat_models() { _files -g '*.[gG][gG][uU][fF]' }\n"
          "_moechat() {\n"
          "  local command=chat\n"
          "  local -a choices names\n"
          "  names=(",
          out);
    print_commands(out);
    fputs(")\n"
          "  (( CURRENT > 2 )) && [[ ${words[2]} != -* ]] && command=${words[2]}\n"
          "  if (( CURRENT == 2 )) && [[ ${words[2]} != -* ]]; then compadd -- $names; return; fi\n"
          "  case $command in\n",
          out);
    for (int c = 0; c < COMMAND_COUNT; c++) {
        fprintf(out, "    %s) choices=(\n", options_commands[c].name);
        for (size_t i = 0; i < options_count(); i++)
            if (belongs(&options_table[i], c))
                zsh_option(out, &options_table[i]);
        if (options_commands[c].words) {
            fputs("        '2:verb:(", out);
            print_words(out, options_commands[c].words);
            fputs(takes_file(c) ? ")'\n        '3:file:_files'\n" : ")'\n        '3:session:_moechat_sessions'\n", out);
        } else if (takes_model(c)) {
            fputs(takes_folder(c) ? "        '2:model:_moechat_models'\n        '3:folder:_files -/'\n"
                                  : "        '*:model:_moechat_models'\n",
                  out);
        } else {
            fputs("        '*:argument:'\n", out); // the command itself; without it no option behind is completed
        }
        fputs("      ) ;;\n", out);
    }
    fputs("  esac\n"
          "  [[ $command == sessions && ${words[3]} == export ]] && choices+=('4:format:(" EXPORT_FORMATS ")')\n"
          "  [[ $command == help ]] && { compadd -- $names; return }\n"
          "  _arguments $choices\n"
          "}\n"
          "_moechat \"$@\"\n",
          out);
}

#define FISH_FOLDERS "(__fish_complete_directories)"
#define FISH_MODELS  "(__fish_complete_suffix .gguf)" // those first, then others

static void fish_option(FILE *out, const struct option_row *row)
{
    fputs("complete -c moechat -n '", out);
    if (row->commands != FOR_ALL) {
        fputs("__moechat_is", out);
        for (int c = 0; c < COMMAND_COUNT; c++)
            if (row->commands >> c & 1)
                fprintf(out, " %s", options_commands[c].name);
    }
    fprintf(out, "' -l %s", row->name);
    if (row->letter)
        fprintf(out, " -s %c", row->letter);
    switch (value_of(row)) {
    case VALUE_NONE:
        break;
    case VALUE_WORDS:
        fputs(" -x -a '", out);
        print_values(out, row);
        fputs("'", out);
        break;
    case VALUE_FILE:
        fputs(" -r -F", out);
        break;
    case VALUE_FOLDER:
        fputs(" -x -a '" FISH_FOLDERS "'", out);
        break;
    case VALUE_MODEL:
        fputs(" -x -a '" FISH_MODELS "'", out);
        break;
    case VALUE_SESSION:
        fputs(" -x -a '(__moechat_sessions)'", out);
        break;
    case VALUE_OTHER:
        fputs(" -x", out);
        break;
    }
    fputs(" -d '", out);
    print_sentence(out, row->help, "'\\");
    fputs("'\n", out);
}

// What a command takes where so many words stand before it.
static void fish_operand(FILE *out, int command, const char *words, const char *what)
{
    fprintf(out, "complete -c moechat -n '__moechat_is %s; and test (count (commandline -opc)) %s' %s\n",
            options_commands[command].name, words, what);
}

static void fish(FILE *out)
{
    fputs("# fish completion of moechat, made by moechat --completion fish\n"
          "function __moechat_is\n"
          "  set -l words (commandline -opc)\n"
          "  set -l command chat\n"
          "  if test (count $words) -gt 1; and not string match -q -- '-*' $words[2]\n"
          "    set command $words[2]\n"
          "  end\n"
          "  contains -- $command $argv\n"
          "end\n"
          "function __moechat_sessions\n"
          "  set -l data $XDG_DATA_HOME\n"
          "  test -n \"$data\"; or set data $HOME/.local/share\n"
          "  command ls $data/moechat/sessions 2>/dev/null\n"
          "end\n"
          "complete -c moechat -f\n",
          out);
    for (int c = 0; c < COMMAND_COUNT; c++) {
        fprintf(out, "complete -c moechat -n 'test (count (commandline -opc)) -eq 1' -a %s -d '",
                options_commands[c].name);
        print_sentence(out, options_commands[c].summary, "'\\");
        fputs("'\n", out);
        if (!options_commands[c].words)
            continue;
        fprintf(out, "complete -c moechat -n '__moechat_is %s; and test (count (commandline -opc)) -eq 2' -a '",
                options_commands[c].name);
        print_words(out, options_commands[c].words);
        fputs("'\n", out);
    }
    fputs("complete -c moechat -n '__moechat_is help' -a '", out);
    print_commands(out);
    fputs("'\n", out);
    for (int c = 0; c < COMMAND_COUNT; c++) {
        if (takes_model(c))
            fish_operand(out, c, takes_folder(c) ? "-eq 2" : "-gt 1", "-a '" FISH_MODELS "'");
        if (takes_folder(c))
            fish_operand(out, c, "-gt 2", "-a '" FISH_FOLDERS "'");
        if (takes_file(c))
            fish_operand(out, c, "-gt 2", "-F");
    }
    fish_operand(out, COMMAND_SESSIONS, "-eq 3", "-a '(__moechat_sessions)'");
    fish_operand(out, COMMAND_SESSIONS, "-eq 4; and contains -- export (commandline -opc)[3]",
                 "-a '" EXPORT_FORMATS "'");
    for (size_t i = 0; i < options_count(); i++)
        if (!options_table[i].hidden)
            fish_option(out, &options_table[i]);
}

void completion_print(FILE *out, enum shell shell)
{
    if (shell == SHELL_BASH)
        bash(out);
    else if (shell == SHELL_ZSH)
        zsh(out);
    else
        fish(out);
}
