// SPDX-License-Identifier: GPL-3.0-or-later
// The engine's thread with a script in the model's place, for test_worker and test_keeper.
#ifndef MOECHAT_WORKER_RIG_H
#define MOECHAT_WORKER_RIG_H

#include <poll.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "app/driver/backend.h"
#include "app/driver/worker.h"
#include "app/util/files.h"
#include "tests/harness.h"

// Starts a worker on `script`, with some of the script's own doings exchanged.
typedef void change_fn(struct backend *backend);

static inline struct worker *start_changed(struct harness *t, const char *script, change_fn *change)
{
    char name[] = "/tmp/moechat-worker-XXXXXX";
    int fd = mkstemp(name);
    struct backend backend;
    struct moe_err err;
    files_write(fd, script, strlen(script));
    close(fd);
    bool made = backend_fake_new(&backend, name, &err);
    unlink(name);
    if (!CHECK(t, made))
        return NULL;
    if (change)
        change(&backend);
    return worker_new(&backend, 0);
}

static inline struct worker *start(struct harness *t, const char *script)
{
    return start_changed(t, script, NULL);
}

static inline void pause_us(long microseconds)
{
    nanosleep(&(struct timespec){.tv_nsec = microseconds * 1000}, NULL);
}

static inline bool next_event(struct worker *worker, struct event *event)
{
    struct pollfd fd = {.fd = worker_fd(worker), .events = POLLIN};
    while (!worker_event(worker, event))
        if (poll(&fd, 1, 20000) != 1)
            return false;
    return true;
}

static inline void await_ready(struct harness *t, struct worker *worker)
{
    struct event event = {0};
    while (next_event(worker, &event) && event.kind == EVENT_PROGRESS) {
    }
    CHECK_EQ(t, event.kind, EVENT_READY);
}

static inline void post(struct worker *worker, const char *text, uint32_t position, uint32_t max_tokens)
{
    struct turn *turn = turn_new();
    turn->position = position;
    turn->max_tokens = max_tokens;
    turn_add(turn, TOK_USER, text, strlen(text));
    worker_send(worker, turn);
}

// Collects the answer. With cancel_after, cancels once so many bytes of it have come.
static inline struct turn_result *collect(struct harness *t, struct worker *worker, struct bytes *answer,
                                          size_t cancel_after)
{
    struct event event;
    answer->length = 0;
    bytes_append(answer, "", 0);
    while (next_event(worker, &event)) {
        if (event.kind == EVENT_TEXT) {
            bytes_append(answer, event.text.bytes, event.text.length);
            if (cancel_after && answer->length >= cancel_after) {
                worker_cancel(worker);
                cancel_after = 0;
            }
        }
        if (event.kind == EVENT_DONE)
            return event.result;
    }
    CHECK(t, false && "the turn ended");
    return NULL;
}

#endif
