// SPDX-License-Identifier: GPL-3.0-or-later
// The loop of the chat.
#include "app/term/loop.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "app/term/term.h"

static bool input_waits(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&input, 1, 0) > 0;
}

static void take_signals(const struct loop_face *face)
{
    struct talk *talk = face->talk;
    term_drain();
    for (size_t i = 0; i < TERM_STOPS; i++)
        if (term_stops[i] != SIGINT && term_signal_came(term_stops[i]))
            talk_leave(talk, term_exit_status(term_stops[i]));
    bool interrupted = term_signal_came(SIGINT), stopped = term_signal_came(SIGTSTP);
    // Signals overtake the keys that were typed before them.
    if ((interrupted || stopped) && face->typed && face->listens(face->self) && input_waits())
        face->read(face->self);
    term_stop_heeded(); // not before those keys: readline may be long about one
    if (interrupted && talk->state != TALK_LEAVING)
        face->interrupt(face->self);
    if (talk->state == TALK_LEAVING)
        return;
    if (stopped)
        face->suspend(face->self);
    if (term_signal_came(SIGWINCH))
        face->resize(face->self);
    if (term_signal_came(SIGCONT))
        face->resume(face->self);
}

// 0, or why nothing can be waited for.
static int run(const struct loop_face *face, int signals)
{
    struct talk *talk = face->talk;
    while (talk->state != TALK_LEAVING) {
        struct pollfd fds[] = {
            {.fd = signals, .events = POLLIN},
            {.fd = worker_fd(talk->worker), .events = POLLIN},
            {.fd = face->listens(face->self) ? STDIN_FILENO : -1, .events = POLLIN},
        };
        int came = poll(fds, 3, term_patience(face->patience(face->self)));
        if (came < 0 && errno != EINTR)
            return errno;
        bool loading = talk->state == TALK_LOADING;
        if (loading)
            term_keep_signals();
        if (came > 0 && fds[2].revents)
            face->read(face->self);
        take_signals(face);
        talk_take_events(talk);
        if (loading && talk->state != TALK_LOADING)
            term_let_quit();
        face->round(face->self);
    }
    return 0;
}

void loop_leave(const struct talk *talk)
{
    if (talk->left)
        term_leave(talk->status);
}

int loop_chat(const struct loop_face *face, const struct options *options)
{
    struct talk *talk = face->talk;
    talk->status = talk_prepare(talk, options);
    if (talk->status)
        return talk->status;
    bool fine = face->open(face->self);
    int signals = term_catch_signals(true); // in the place of curses' own
    term_hold_quit();
    fine = fine && signals >= 0 && talk_start(talk) && face->begin(face->self);
    int error = errno;
    if (fine) {
        talk_greet(talk);
        error = run(face, signals);
        if (error)
            talk_leave(talk, STATUS_FAILED);
    }
    face->close(face->self);
    if (fine && error)
        report("cannot wait for input: %s", strerror(error));
    if (!fine) {
        report("cannot start: %s", strerror(error));
        talk_leave(talk, STATUS_FAILED);
    }
    term_hurry_signals(); // a second one need not wait
    talk_finish(talk);
    return talk->status;
}
