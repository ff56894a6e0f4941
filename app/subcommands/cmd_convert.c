// SPDX-License-Identifier: GPL-3.0-or-later
// Makes a package of a folder from the hub, or of GGUF files.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/subcommands/cmd.h"
#include "app/util/format.h"
#include "app/util/progress.h"
#include "app/util/report.h"
#include "app/term/term.h"
#include "tokenizer/tok.h"

struct converting {
    struct progress progress;
    int signal_number; // that stopped us, 0: none
    bool yes;
};

static void on_progress(void *context, const struct moe_progress *progress)
{
    struct converting *converting = context;
    progress_show(&converting->progress, progress);
}

static void on_notice(void *context, const char *text)
{
    struct converting *converting = context;
    progress_clear(&converting->progress);
    report("%s", text);
}

static bool stopped(void *context)
{
    struct converting *converting = context;
    for (size_t i = 0; i < TERM_STOPS && !converting->signal_number; i++)
        if (term_signal_came(term_stops[i]))
            converting->signal_number = term_stops[i];
    return converting->signal_number != 0;
}

// What --consume is about to do, and whether it may.
static bool confirm(void *context, const struct moe_consumption *what)
{
    struct converting *converting = context;
    char bytes[FORMAT_SIZE], answer[16] = "";
    progress_clear(&converting->progress);
    report(
        "--consume: %s of experts will be removed from %s (%u file%s), layer by layer, once %s has them and they read "
        "back the same",
        format_bytes(bytes, sizeof bytes, what->bytes), what->source, (unsigned)what->n_files, format_s(what->n_files),
        what->target);
    report("once begun, the source is good only for resuming this command, which may be stopped at any time");
    if (converting->yes)
        return true;
    fprintf(stderr, "moechat: type yes to continue: ");
    fflush(stderr);
    bool answered = fgets(answer, sizeof answer, stdin);
    if (!answered)
        fputc('\n', stderr);
    return !stopped(converting) && answered && (strcmp(answer, "yes\n") == 0 || strcmp(answer, "yes") == 0);
}

static void say_end(const struct options *options, const char *target)
{
    struct rusage usage;
    struct moe_description *about = calloc(1, sizeof *about);
    char size[FORMAT_SIZE], memory[FORMAT_SIZE];
    struct moe_err err;
    struct bytes word = {0};
    struct cmd_talk talk;
    if (!about || moe_inspect(target, about, &err) || getrusage(RUSAGE_SELF, &usage))
        goto release;
    talk = cmd_find_talk(about, target);
    if (cmd_next(&word, options, target, &talk))
        report("%s: done, %s (peak memory %s); try %s", target, format_bytes(size, sizeof size, about->package_bytes),
               format_bytes(memory, sizeof memory, (uint64_t)usage.ru_maxrss * 1024), word.data);
release:
    bytes_release(&word);
    free(about);
}

// The template of what is converted: a folder's goes into the package by name. A GGUF's own stays among its keys, which
// the package has, too. *missing then says that it has none that is known.
static int find_template(const char *source, struct tok_folder *folder, const char **missing)
{
    struct moe_vocabulary *vocabulary = NULL;
    struct tok_err tok_err;
    struct moe_err err;
    struct stat status;
    if (moe_vocabulary_open(source, &vocabulary, &err) == 0) {
        const struct moe_text *text = &vocabulary->chat_template;
        bool unknown = text->length && !tok_template_detect(text->bytes, text->length);
        bool own = text->length > 0;
        moe_vocabulary_close(vocabulary);
        if (unknown)
            *missing = "unknown chat template";
        if (own)
            return STATUS_DONE;
    }
    if (stat(source, &status) || !S_ISDIR(status.st_mode))
        return STATUS_DONE; // what is wrong with it is said when it is opened
    if (tok_folder_read(source, folder, &tok_err)) {
        report("%s", tok_err.text);
        return STATUS_MODEL;
    }
    if (folder->type[0] && !folder->template_name[0])
        *missing = folder->has_template ? "unknown chat template" : "no chat template";
    return STATUS_DONE;
}

int cmd_convert(const struct options *options)
{
    struct converting converting = {.progress = {.out = isatty(STDERR_FILENO) ? stderr : NULL, .plain = term_is_dumb()},
                                    .yes = options->asked.yes};
    struct tok_folder folder = {.type = ""};
    if (!options->asked.operand || !options->asked.more[0]) {
        report("usage: moechat convert MODEL NEWDIR");
        return STATUS_USAGE;
    }
    if (options->asked.consume && !options->asked.yes && !(isatty(STDIN_FILENO) && isatty(STDERR_FILENO))) {
        report("--consume asks before it removes anything, and there is no terminal to ask on; --yes answers yes");
        return STATUS_USAGE;
    }
    const char *no_template = NULL;
    int status = find_template(options->asked.operand, &folder, &no_template);
    if (status)
        return status;
    const struct moe_convert_options conversion = {
        .template_name = folder.template_name,
        .expert_bits = options->asked.bits,
        .resident_bits = options->asked.resident_bits,
        .group_size = options->asked.group_size,
        .verify = options->asked.verify,
        .consume = options->asked.consume,
        .confirm = confirm,
        .progress = on_progress,
        .notice = on_notice,
        .cancelled = stopped,
        .context = &converting,
    };
    if (term_catch_signals(false) < 0) {
        report("cannot catch signals");
        return STATUS_FAILED;
    }
    struct moe_err err;
    int code = moe_convert(options->asked.operand, options->asked.more[0], &conversion, &err);
    progress_clear(&converting.progress);
    term_release_signals();
    if (!code) {
        if (no_template)
            report("%s; choose one with --template when you chat", no_template);
        say_end(options, options->asked.more[0]);
        if (options->asked.consume)
            report("%s: has no experts left and may be removed", options->asked.operand);
        return STATUS_DONE;
    }
    report("%s", err.text);
    if (converting.signal_number)
        return term_exit_status(converting.signal_number);
    if (code == MOE_BAD_ARGUMENT)
        return STATUS_USAGE;
    return code == MOE_IO || code == MOE_NO_MEMORY || code == MOE_CANCELLED ? STATUS_FAILED : STATUS_MODEL;
}
