// SPDX-License-Identifier: GPL-3.0-or-later
// Reads the command line and runs the command that it names.
#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/subcommands/cmd.h"
#include "app/talk/commands.h"
#include "app/options/completion.h"
#include "app/options/config.h"
#include "app/term/keys.h"
#include "app/options/options.h"
#include "app/talk/sessions.h"
#include "app/term/plain.h"
#include "app/util/output.h"
#include "app/util/report.h"
#include "app/term/term.h"
#include "app/term/tui_face.h"

#ifndef MOECHAT_VERSION
#define MOECHAT_VERSION "0.1"
#endif

// Characters as the terminal has them; containers often name no locale at all. Numbers keep their points.
static void set_locale(void)
{
    setlocale(LC_CTYPE, "");
    setlocale(LC_MESSAGES, "");
    // readline looks at the environment again, and would go back to what stands there.
    if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0 && setlocale(LC_CTYPE, "C.UTF-8"))
        setenv("LC_ALL", "C.UTF-8", 1);
}

// A stream that we were started without must not become the first file that is opened: where it was, something stands
// that refuses to be read, or written, as a closed stream does.
static void fill_closed_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
            return;
}

static int help(const struct options *options)
{
    for (int i = 0; options->asked.operand && i < COMMAND_COUNT; i++) {
        if (strcmp(options->asked.operand, options_command_name((enum command)i)) == 0) {
            options_help(stdout, (enum command)i);
            return STATUS_DONE;
        }
    }
    if (options->asked.operand) {
        report("unknown command \"%.60s\"", options->asked.operand);
        return STATUS_USAGE;
    }
    options_help(stdout, COMMAND_HELP);
    return STATUS_DONE;
}

// The full screen where there can be one.
static int chat(const struct options *options)
{
    bool terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    const char *refusal = terminal ? tui_refusal(&options->talk.face) : NULL;
    int status = terminal && !refusal ? tui_chat(options) : -1;
    if (status >= 0)
        return status;
    if (terminal && !refusal && !term_is_dumb() && !term_is_described())
        refusal = "this system has no description (terminfo) of what TERM names; TERM=xterm-256color may do";
    if (terminal)
        printf("Plain lines: %s.\n", refusal ? refusal : "this terminal cannot move its cursor");
    return plain_chat(options);
}

static bool talks(const struct options *options)
{
    return options->command == COMMAND_CHAT || options->command == COMMAND_RUN;
}

// What a conversation and its folder need at once must be there before anything is made.
static bool may_talk(const struct options *options)
{
    enum { FILES = 32 };
    unsigned most;
    if (!talks(options) || files_may_open(FILES, &most))
        return true;
    report("no more than %u files may be open at once; a conversation needs %d: see ulimit -n", most, FILES);
    return false;
}

// A conversation goes on with the model that it was saved with, unless the command line names one. The path is
// *found's.
static bool take_model_of_session(struct options *options, struct sessions_model *found)
{
    if (!talks(options) || options->model.engine || options_typed(options, "model") ||
        !sessions_find_model(&options->talk, found))
        return true;
    if (access(found->origin.model_path, F_OK) != 0) {
        report("session \"%s\" was saved with %s, which cannot be found: %s; --model PATH says where its model is now",
               found->session, found->origin.model_path, strerror(errno));
        return false;
    }
    options->model.directory = found->origin.model_path;
    return true;
}

static int dispatch(struct options *options)
{
    struct sessions_model of_session;
    if (options->asked.version) {
        puts("moechat " MOECHAT_VERSION);
        return STATUS_DONE;
    }
    if (options->asked.help) {
        options_help(stdout, options->command);
        return STATUS_DONE;
    }
    if (options->asked.print_config) {
        config_print(stdout, options);
        return STATUS_DONE;
    }
    if (options->asked.completion) {
        completion_print(stdout, options->asked.completion);
        return STATUS_DONE;
    }
    if (options->asked.dump_options) {
        if (options_dump(stdout, options->asked.dump_options))
            return STATUS_DONE;
        bool of_keys = strcmp(options->asked.dump_options, "mdoc-keys") == 0;
        if (of_keys || strcmp(options->asked.dump_options, "mdoc-commands") == 0) {
            of_keys ? keys_dump(stdout) : commands_dump(stdout);
            return STATUS_DONE;
        }
        report("--dump-options takes mdoc, mdoc-commands or mdoc-keys");
        return STATUS_USAGE;
    }
    if (!take_model_of_session(options, &of_session))
        return STATUS_MODEL;
    if (!may_talk(options))
        return STATUS_FAILED;
    switch (options->command) {
    case COMMAND_RUN:
        return cmd_run(options);
    case COMMAND_EVAL:
        return cmd_eval(options);
    case COMMAND_INFO:
        return cmd_info(options);
    case COMMAND_CONVERT:
        return cmd_convert(options);
    case COMMAND_DEVICES:
        return cmd_devices(options);
    case COMMAND_KERNELS:
        return cmd_kernels(options);
    case COMMAND_BENCH:
        return cmd_bench(options);
    case COMMAND_SESSIONS:
        return cmd_sessions(options);
    case COMMAND_HELP:
        return help(options);
    case COMMAND_CHAT:
    case COMMAND_COUNT:
        break;
    }
    return chat(options);
}

int main(int argc, char **argv)
{
    struct options options;
    struct options_error error;
    fill_closed_streams();
    output_begin();
    signal(SIGXFSZ, SIG_IGN); // a file beyond ulimit -f is an error of the write, said in words
    set_locale();
    options_defaults(&options);
    if (!options_parse(&options, argc, argv, &error)) {
        report("%s", error.text);
        return STATUS_USAGE;
    }
    struct bytes config = {0};
    bool asks = !options.asked.version && !options.asked.help && options.command != COMMAND_HELP;
    if (asks && !(config_load(&options, &config, &error) && options_settle(&options, &error))) {
        report("%s", error.text);
        bytes_release(&config);
        return STATUS_USAGE;
    }
    int status = dispatch(&options);
    bytes_release(&config);
    return report_flush(status);
}
