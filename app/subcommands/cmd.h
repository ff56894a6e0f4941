// SPDX-License-Identifier: GPL-3.0-or-later
// The subcommands. Each returns an exit status (report.h).
#ifndef MOECHAT_APP_SUBCOMMANDS_CMD_H
#define MOECHAT_APP_SUBCOMMANDS_CMD_H

#include "app/options/options.h"
#include "app/util/files.h"
#include "engine/moe.h"

int cmd_run(const struct options *options);
int cmd_eval(const struct options *options);
int cmd_info(const struct options *options);
int cmd_info_list(const struct options *options); // info --list FILE
int cmd_convert(const struct options *options);
int cmd_devices(const struct options *options);
int cmd_kernels(const struct options *options);
int cmd_bench(const struct options *options);
int cmd_bench_cache(const struct options *options);  // bench cache TRACE
int cmd_bench_stream(const struct options *options); // bench stream
int cmd_sessions(const struct options *options);

// What the model has to talk with: its tokenizer, or why it can't be used, in a line; and into about->template_name its
// template, or, where it has none that is known, what to do.
struct cmd_talk {
    char tokenizer[640];
    bool has_tokenizer;      // one that can be used
    const char *no_template; // "": about->template_name has it
};
struct cmd_talk cmd_find_talk(struct moe_description *about, const char *directory); // cmd_info.c
// Appends what to type, in a shell, with a model that runs as it is: to chat, or, where it has no tokenizer that works,
// to score tokens. False: no memory.
bool cmd_next(struct bytes *out, const struct options *options, const char *directory, const struct cmd_talk *talk);
// This program, as it was typed, and these words behind it: "./moechat sessions prune NAME". False: no memory.
bool cmd_typed(struct bytes *out, const struct options *options, const char *words);

#endif
