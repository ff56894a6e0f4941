// SPDX-License-Identifier: GPL-3.0-or-later
// Commands that are given the terminal for a while.
#include "app/term/shell.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/term/term.h"

enum { TICK_MS = 50, LARGE = 64 << 20, INTERRUPTS = 2, MOST_FILES = 4096, BEGINNING = 65536 };

// Makes a process group the one that reads the terminal, where `from` is, or one that is gone and had it from that: a
// shell that has it back meanwhile keeps it. We may be in the background ourselves by then.
static void hand_terminal(pid_t from, pid_t group)
{
    pid_t has = tcgetpgrp(STDIN_FILENO);
    if (has < 0 || (has != from && (kill(-has, 0) == 0 || errno != ESRCH)))
        return;
    sigset_t stop, before;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTTOU);
    pthread_sigmask(SIG_BLOCK, &stop, &before);
    tcsetpgrp(STDIN_FILENO, group);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

// ---- In the command's process group

static _Noreturn void become(const struct shell_command *c, int output)
{
    if (output >= 0) {
        int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 ||
            dup2(output, STDERR_FILENO) < 0)
            _exit(127);
    }
    execl("/bin/sh", "sh", "-c", c->text, "sh", c->argument, (char *)NULL);
    _exit(127);
}

static volatile sig_atomic_t interrupts; // of the process that guards a command, see below

static void on_interrupt(int number)
{
    (void)number;
    interrupts++;
}

static volatile sig_atomic_t resumed; // the terminal's stop came to it, too, and was told already

static void on_suspend(int number)
{
    (void)number;
    raise(SIGSTOP);
    resumed = 1;
}

// A line of /proc/self/maps: a large piece of memory that is nobody's but ours is let go.
static void let_go(const char *line)
{
    static const char plain[] = " rw-p 00000000 00:00 0";
    char *end;
    uintptr_t from = strtoul(line, &end, 16);
    uintptr_t to = *end == '-' ? strtoul(end + 1, &end, 16) : 0;
    if (strncmp(end, plain, sizeof plain - 1) == 0 && !strchr(end, '[') && to > from && to - from >= LARGE)
        madvise((void *)from, to - from, MADV_DONTNEED);
}

// What a fork shares with the chat is copied where the chat writes: a cache of experts would be there twice.
static void let_memory_go(void)
{
    char text[8192];
    size_t have = 0;
    ssize_t got;
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && (got = read(fd, text + have, sizeof text - 1 - have)) > 0) {
        char *line = text, *end;
        have += (size_t)got;
        text[have] = '\0';
        for (; (end = strchr(line, '\n')); line = end + 1) {
            *end = '\0';
            let_go(line);
        }
        have -= (size_t)(line - text);
        memmove(text, line, have);
    }
    if (fd >= 0)
        close(fd);
}

// The terminal's Ctrl-C comes to this group and not to the chat's. A shell waits for what it runs, which may take no
// notice or be in a session of its own; so a process between counts. It ends as the shell does.
static _Noreturn void guard(const struct shell_command *c, int output)
{
    struct sigaction count = {.sa_handler = on_interrupt}; // a wait ends
    struct sigaction suspend = {.sa_handler = on_suspend, .sa_flags = SA_RESTART};
    pid_t shell = fork();
    if (shell < 0)
        _exit(127);
    if (shell == 0)
        become(c, output);
    // Not ours to hold: a chat that is killed meanwhile would leave its session locked, and its pipe open to be read.
    for (int fd = STDERR_FILENO + 1; fd < MOST_FILES; fd++)
        close(fd);
    let_memory_go();
    sigaction(SIGINT, &count, NULL);
    sigaction(SIGTSTP, &suspend, NULL);
    int status;
    for (;;) {
        if (waitpid(shell, &status, WUNTRACED) < 0) {
            if (errno != EINTR)
                _exit(127);
            if (interrupts >= INTERRUPTS)
                kill(0, SIGKILL);
        } else if (WIFSTOPPED(status) && resumed) { // of the same stop, which is over
            resumed = 0;
            kill(shell, SIGCONT);
        } else if (WIFSTOPPED(status)) {
            raise(SIGSTOP); // who continues us continues the group
        } else {
            break;
        }
    }
    if (WIFEXITED(status))
        _exit(WEXITSTATUS(status));
    signal(WTERMSIG(status), SIG_DFL);
    raise(WTERMSIG(status));
    _exit(128 + WTERMSIG(status));
}

// ---- In ours

// What there is to read. 0, EFBIG or ENOMEM; *fd becomes -1 when no more will come.
static int take_output(const struct shell_command *c, int *fd)
{
    char bytes[65536];
    ssize_t got = 0;
    while (*fd >= 0 && (got = read(*fd, bytes, sizeof bytes)) > 0) {
        if ((size_t)got > c->most - c->output->length)
            return EFBIG;
        if (!bytes_append(c->output, bytes, (size_t)got))
            return ENOMEM;
    }
    if (*fd >= 0 && (got == 0 || (errno != EAGAIN && errno != EINTR))) {
        close(*fd);
        *fd = -1;
    }
    return 0;
}

// Programs that draw begin with another screen. What they print is no text, and they wait for keys that may never come.
static bool draws(const struct bytes *output)
{
    static const char *const screens[] = {"\033[?1049h", "\033[?1047h", "\033[?47h"};
    bool begins = output && output->length && output->length < BEGINNING, found = false;
    for (size_t i = 0; i < sizeof screens / sizeof *screens && begins && !found; i++)
        found = strstr(output->data, screens[i]) != NULL;
    return found;
}

// The group is told, has a second (an editor keeps what it has), and is gone before the terminal is taken back.
static void end(pid_t child, int number)
{
    int status;
    pid_t gone = 0;
    kill(-child, number);
    kill(-child, SIGCONT);
    for (int ticks = 0; ticks < 1000 / TICK_MS; ticks++) {
        gone = gone ? gone : waitpid(child, &status, WNOHANG);
        if (gone && kill(-child, 0)) // what the shell ran may outlive it
            break;
        poll(NULL, 0, TICK_MS);
    }
    kill(-child, SIGKILL);
    while (!gone && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
}

// Until it ends. 0 and its status, or an errno.
static int await(const struct shell_command *c, pid_t child, int *fd, int *status)
{
    for (;;) {
        pid_t got = waitpid(child, status, WNOHANG | WUNTRACED);
        if (got == child && !WIFSTOPPED(*status))
            return take_output(c, fd); // what runs on in the background is not waited for
        if (got < 0 && errno != EINTR)
            return errno;
        if (got == child) {
            if (tcgetpgrp(STDIN_FILENO) != getpgrp()) { // else a shell gave us the terminal, and it wanted to read it
                hand_terminal(child, getpgrp());
                term_suspend();
            }
            hand_terminal(getpgrp(), child);
            kill(-child, SIGCONT);
        }
        int ends = 0;
        for (size_t i = 0; i < TERM_STOPS && !ends; i++)
            if (term_stops[i] != SIGINT && term_signal_pending(term_stops[i]))
                ends = term_stops[i];
        int wrong = take_output(c, fd);
        if (!wrong && draws(c->output))
            wrong = ENOTTY;
        if (ends || wrong) {
            end(child, ends ? ends : SIGTERM);
            return wrong ? wrong : EINTR;
        }
        struct pollfd output = {.fd = *fd, .events = POLLIN};
        poll(&output, 1, TICK_MS);
    }
}

int shell_run(const struct shell_command *c)
{
    int ends[2] = {-1, -1}, status = 0;
    if (c->output && pipe(ends))
        return -1;
    for (int i = 0; i < 2 && c->output; i++)
        fcntl(ends[i], F_SETFD, FD_CLOEXEC);
    if (c->output)
        fcntl(ends[0], F_SETFL, O_NONBLOCK);
    pid_t chat = getpgrp(); // the child's, too, until one of us two has made it a group of its own
    pid_t child = fork();
    int code = child < 0 ? errno : 0;
    if (child == 0) {
        setpgid(0, 0);
        hand_terminal(chat, getpid());
        term_release_signals();
        signal(SIGTSTP, SIG_DFL);
        signal(SIGPIPE, SIG_DFL); // we ignore it; what "| head" ends is to end in silence
        if (c->output)
            guard(c, ends[1]);
        become(c, -1);
    }
    if (c->output)
        close(ends[1]);
    if (!code) {
        setpgid(child, child); // whoever comes first
        hand_terminal(getpgrp(), child);
        code = await(c, child, &ends[0], &status);
        hand_terminal(child, getpgrp());
    }
    if (ends[0] >= 0)
        close(ends[0]);
    errno = code;
    return code ? -1 : status;
}
