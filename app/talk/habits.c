// SPDX-License-Identifier: GPL-3.0-or-later
// The words of other programs, in tables.
#include "app/talk/habits.h"

#include <string.h>

#include "app/util/words.h"

const char *habits_command(const char *name, size_t length)
{
    static const char *const commands[][2] = {
        {"model|models", "Another model is another start: /quit, then moechat MODEL_DIR; --continue goes on with this "
                         "conversation."},
        {"pull|run", "Models are fetched outside the chat, with hf download or the like: docs/models.md says how, "
                     "moechat info what to type for one."},
        {"ps", "One model is open, this chat's; /stats shows what it takes."},
        {"stop", "Esc or Ctrl-C stops an answer; /quit leaves."},
        {"glob", "/file sends one file; of several, !cat on the full screen makes the draft."},
        {"image|audio|video", "Only text can be sent; /file sends a text file."},
        {"search|grep|find", "Alt-/ searches the chat on the full screen, then n and N go on."},
        {"history", "Up and Ctrl-R bring back what was typed; /tree lists what was said."},
        {"buffer|close|join|part|query|msg|window|connect|server",
         "One conversation is open: /sessions lists those that are saved, /load opens one, /new begins another."},
        {"version", "moechat --version, in the shell, says that; /show info says which model is open."},
    };
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (words_are(commands[i][0], name, length))
            return commands[i][1];
    return NULL;
}

const char *habits_our_command(const char *name, size_t length)
{
    static const char *const commands[][2] = {
        {"regen|regenerate|again", "retry"},
        {"read", "file"},
        {"context|info", "stats"},
        {"nothink", "think off"},
        {"reset|restart", "new"},
        {"config|settings|parameters|parameter|options", "set"},
        {"rm|remove", "delete"},
        {"open", "load"},
        {"write|w", "save"},
        {"wq|q!", "quit"},
    };
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (words_are(commands[i][0], name, length))
            return commands[i][1];
    return NULL;
}

const char *habits_message(const char *text, size_t length, unsigned *which)
{
    static const char leaves[] = "/quit or Ctrl-D leaves", saves[] = "/save NAME names the conversation",
                      helps[] = "/help lists commands and keys";
    static const struct {
        const char *text, *words;
        bool begins; // and more behind a space
    } messages[] = {
        {":q", leaves, false},
        {":q!", leaves, false},
        {":qa", leaves, false},
        {":wq", leaves, false},
        {":x", leaves, false},
        {"ZZ", leaves, false},
        {"q", leaves, false},
        {"quit", leaves, false},
        {"exit", leaves, false},
        {"bye", leaves, false},
        {"exit()", leaves, false},
        {"quit()", leaves, false},
        {":w", saves, true},
        {":h", helps, true},
        {":help", helps, true},
        {"help", helps, false},
        {"?", helps, false},
        {":e", "/load NAME opens a conversation, /file PATH sends a file", true},
        {":set", "/set shows and changes settings", true},
        {":u", "/undo takes back the last message", false},
        {"clear", "/new begins another conversation, Ctrl-L redraws", false},
    };
    _Static_assert(sizeof messages / sizeof messages[0] <= HABITS_MESSAGES, "each has its number");
    for (unsigned i = 0; i < sizeof messages / sizeof messages[0]; i++) {
        size_t own = strlen(messages[i].text);
        bool whole = length == own || (messages[i].begins && length > own && text[own] == ' ');
        if (!whole || memcmp(messages[i].text, text, own) != 0)
            continue;
        *which = i;
        return messages[i].words;
    }
    return NULL;
}

const struct habits_setting *habits_setting(const char *name)
{
    static const struct habits_setting settings[] = {
        {"temperature", "temp", NULL},
        {"num_predict|n_predict|predict", "max-tokens", NULL},
        {"num_ctx|ctx_size|context", NULL, "--context sets it when moechat is started"}, // behind how long it is
        {"system", NULL, "/system shows and sets the system message."},
        {"think|nothink", NULL, "/think on and /think off say whether it thinks first."},
        {"verbose|quiet", NULL, "/stats shows the figures; on the full screen Alt-s shows and hides them."},
        {"wordwrap|nowordwrap", NULL, "Lines are always wrapped at words."},
        {"history|nohistory", NULL, "What is typed is always kept in the history; Up brings it back."},
        {"format|noformat", NULL, "A chat has no formats; moechat run --json answers in JSON."},
        {"repeat_last_n|repeat-last-n", NULL, "The repetition penalty is always about the last 256 tokens."},
        {"num_gpu|n_gpu_layers", NULL, "--expert-cache says how many experts are on the device; auto chooses."},
    };
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        if (words_are(settings[i].names, name, strlen(name)))
            return &settings[i];
    return NULL;
}
