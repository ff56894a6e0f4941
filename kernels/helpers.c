// SPDX-License-Identifier: GPL-3.0-or-later
// Processes that do a job each beside this one.
#define _GNU_SOURCE // pipe2
#include "kernels/helpers.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { MOST_AT_ONCE = 16, MOST_WORDS = 8 };

struct helper {
    pid_t pid;   // 0: there is none here
    int in, out; // our ends of its standard streams
    size_t n;
    char said[HELPER_SAID];
};

struct helpers {
    const char *words[MOST_WORDS + 2]; // of the command, then the job
    unsigned n_words, n_jobs, begun, failed, most;
    char **jobs;
    char said[HELPER_SAID]; // by the first that failed
    struct helper at[MOST_AT_ONCE];
};

static void close_pipe(const int ends[2])
{
    for (int i = 0; i < 2; i++)
        if (ends[i] >= 0)
            close(ends[i]);
}

static void keep_failure(struct helpers *h, const char *said)
{
    if (h->failed++ == 0)
        snprintf(h->said, sizeof h->said, "%.*s", (int)strcspn(said, "\n"), said);
}

// In a process group of its own, so that keys that mean us don't end it, and with signals as a program begins.
static int spawn(struct helpers *h, struct helper *to, const int in[2], const int out[2])
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int rc = posix_spawn_file_actions_init(&files);
    if (rc != 0)
        return rc;
    rc = posix_spawnattr_init(&how);
    if (rc == 0) {
        rc = posix_spawn_file_actions_adddup2(&files, in[0], STDIN_FILENO);
        rc = rc ? rc : posix_spawn_file_actions_adddup2(&files, out[1], STDOUT_FILENO);
        rc = rc ? rc : posix_spawn_file_actions_adddup2(&files, out[1], STDERR_FILENO);
        rc =
            rc ? rc
               : posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        rc = rc ? rc : posix_spawnattr_setsigmask(&how, &none);
        rc = rc ? rc : posix_spawnattr_setsigdefault(&how, &all);
        // posix_spawn changes no word of it
        rc = rc ? rc : posix_spawn(&to->pid, h->words[0], &files, &how, (char *const *)(uintptr_t)h->words, environ);
        posix_spawnattr_destroy(&how);
    }
    posix_spawn_file_actions_destroy(&files);
    return rc;
}

static void begin(struct helpers *h, struct helper *to)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1};
    h->words[h->n_words] = h->jobs[h->begun++];
    *to = (struct helper){0};
    // At once so: a child that another thread starts meanwhile must not have our ends, or a helper's input never ends.
    bool piped = pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0;
    int rc = piped ? spawn(h, to, in, out) : errno;
    if (rc != 0) {
        keep_failure(h, strerror(rc));
        close_pipe(in);
        close_pipe(out);
        to->pid = 0;
        return;
    }
    close(in[0]);
    close(out[1]);
    to->in = in[1];
    to->out = out[0];
}

static void begin_more(struct helpers *h)
{
    for (unsigned i = 0; i < h->most; i++)
        while (h->at[i].pid == 0 && h->begun < h->n_jobs)
            begin(h, &h->at[i]);
}

struct helpers *helpers_start(const char *const *command, const char *const *jobs, unsigned n)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    struct helpers *h = calloc(1, sizeof *h);
    if (!h || !(h->jobs = calloc(n, sizeof *h->jobs))) {
        free(h);
        return NULL;
    }
    while (h->n_words < MOST_WORDS && command[h->n_words]) {
        h->words[h->n_words] = command[h->n_words];
        h->n_words++;
    }
    for (unsigned i = 0; i < n; i++, h->n_jobs++)
        if (!(h->jobs[i] = strdup(jobs[i]))) {
            helpers_release(h);
            return NULL;
        }
    h->most = processors < 1 ? 1 : processors > MOST_AT_ONCE ? MOST_AT_ONCE : (unsigned)processors;
    begin_more(h);
    return h;
}

// It has closed its output: it ends, or did.
static void reap(struct helpers *h, struct helper *from)
{
    int status = 0;
    pid_t got;
    close(from->in);
    close(from->out);
    while ((got = waitpid(from->pid, &status, 0)) < 0 && errno == EINTR) {
    }
    from->said[from->n] = 0;
    if (got != from->pid)
        snprintf(from->said, sizeof from->said, "%s", strerror(errno)); // where children are not waited for
    else if (WIFSIGNALED(status))
        snprintf(from->said, sizeof from->said, "it was killed by signal %d", WTERMSIG(status));
    else if (from->n == 0)
        snprintf(from->said, sizeof from->said, "it ended with status %d", WEXITSTATUS(status));
    if (got != from->pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        keep_failure(h, from->said);
    from->pid = 0;
}

// Reads what it says, beyond what is kept, too. False: that was all.
static bool listen(struct helper *from)
{
    char rest[256];
    size_t room = sizeof from->said - 1 - from->n;
    ssize_t n = room ? read(from->out, from->said + from->n, room) : read(from->out, rest, sizeof rest);
    if (n > 0 && room)
        from->n += (size_t)n;
    return n > 0 || (n < 0 && errno == EINTR);
}

bool helpers_next(struct helpers *h)
{
    for (;;) {
        struct pollfd of[MOST_AT_ONCE];
        struct helper *who[MOST_AT_ONCE];
        nfds_t n = 0;
        for (unsigned i = 0; i < h->most; i++)
            if (h->at[i].pid) {
                of[n] = (struct pollfd){.fd = h->at[i].out, .events = POLLIN};
                who[n++] = &h->at[i];
            }
        if (n == 0)
            return false;
        if (poll(of, n, -1) < 0 && errno != EINTR)
            return false;
        for (nfds_t i = 0; i < n; i++)
            if (of[i].revents && !listen(who[i])) {
                reap(h, who[i]);
                begin_more(h);
                return true;
            }
    }
}

unsigned helpers_failed(const struct helpers *h, char said[HELPER_SAID])
{
    if (h->failed)
        snprintf(said, HELPER_SAID, "%s", h->said);
    return h->failed;
}

void helpers_release(struct helpers *h)
{
    if (!h)
        return;
    for (unsigned i = 0; i < h->most; i++)
        if (h->at[i].pid) {
            kill(h->at[i].pid, SIGKILL);
            reap(h, &h->at[i]);
        }
    for (unsigned i = 0; h->jobs && i < h->n_jobs; i++)
        free(h->jobs[i]);
    free(h->jobs);
    free(h);
}

static void *follow(void *nothing)
{
    char byte;
    ssize_t n;
    (void)nothing;
    while ((n = read(STDIN_FILENO, &byte, 1)) > 0 || (n < 0 && errno == EINTR)) {
    }
    _exit(1);
}

void helper_follows(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, follow, NULL) == 0)
        pthread_detach(thread);
}
