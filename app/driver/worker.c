// SPDX-License-Identifier: GPL-3.0-or-later
// The engine's thread: opens the model, runs turns, reports through the queue.
#include "app/driver/worker.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "app/driver/exchange.h"
#include "app/driver/move.h"
#include "app/driver/queue.h"
#include "app/driver/steps.h"
#include "app/driver/timeline.h"

enum { N_EVENTS = 128 };

enum job_kind { JOB_TURN, JOB_OPEN, JOB_GO, JOB_SAVE, JOB_SYSTEM, JOB_CLOSE, JOB_ANEW };

struct job {
    enum job_kind kind;
    struct turn *turn;
    struct worker_session session;
    struct worker_place place;
    char name[STORE_NAME_SIZE];
    struct bytes text; // the system message
    uint32_t number;
    uint64_t time;
};

struct worker {
    struct backend backend;
    int nice_value;
    pthread_t thread;
    struct queue *commands; // of struct job
    struct queue *events;
    unsigned sent;             // turns so far; face's thread
    atomic_uint cancelled;     // the newest turn that shall stop
    atomic_bool loaded, ready; // open has returned; and the model is open
    struct steps steps;
    // From here on: the engine's thread alone.
    struct timeline timeline;
    struct keeper keeper;
    struct exchange exchange;
    bool wrote_all; // what the backend's close said
};

void event_release(struct event *event)
{
    if (event->kind == EVENT_DONE)
        turn_result_free(event->result);
    if (event->kind == EVENT_TOKEN)
        free(event->token.step);
}

// Progress replaces progress that nobody has seen yet.
static bool supersedes(const void *last, const void *item)
{
    const struct event *a = last, *b = item;
    return a->kind == EVENT_PROGRESS && b->kind == EVENT_PROGRESS;
}

static void on_progress(void *context, const struct moe_progress *progress)
{
    struct worker *worker = context;
    struct event event = {.kind = EVENT_PROGRESS, .progress = *progress};
    const struct timeline *timeline = &worker->timeline;
    if (timeline->reading_unread && timeline->reading_again)
        event.progress.what = "reading again";
    uint32_t before = timeline->reading_unread ? timeline_reread(timeline) : worker->exchange.read_before;
    event.progress.done += before;
    event.progress.total += before;
    if (atomic_load(&worker->ready))
        steps_note(&worker->steps);
    queue_push(worker->events, &event, supersedes);
}

static void send_news(struct worker *worker, bool of_turn)
{
    struct keeper *keeper = &worker->keeper;
    struct event event = {.kind = EVENT_SESSION, .session = keeper->news};
    event.session.open = keeper->saved != NULL;
    event.session.of_turn = of_turn;
    event.session.hole = keeper->saved && keeper->hole;
    event.session.unsaved = event.session.hole || (keeper->saved && keeper->unsaved);
    if (keeper->saved)
        snprintf(event.session.name, sizeof event.session.name, "%s", saved_name(keeper->saved));
    event.session.blank = keeper->saved && (saved_is_blank(keeper->saved) || !saved_is_kept(keeper->saved));
    queue_push(worker->events, &event, NULL);
    keeper->news = (struct session_news){0};
}

static void lower_priority(int nice_value)
{
    // On Linux the 0 means this thread alone.
    if (nice_value && setpriority(PRIO_PROCESS, 0, nice_value) != 0) {
        // Only comfort depends on it.
    }
}

static void take_job(struct worker *worker, struct job *job)
{
    switch (job->kind) {
    case JOB_TURN:
        exchange_take(&worker->exchange, job->turn);
        if (worker->keeper.saved)
            send_news(worker, true);
        turn_free(job->turn);
        return;
    case JOB_OPEN:
        worker->keeper.think = job->session.think;
        move_to_session(&worker->keeper, &worker->timeline, &job->session);
        break;
    case JOB_GO:
        worker->keeper.think = job->place.think;
        move_conversation(&worker->keeper, &worker->timeline, &job->place);
        break;
    case JOB_SAVE:
        keeper_save_as(&worker->keeper, job->name);
        break;
    case JOB_SYSTEM:
        keeper_save_system(&worker->keeper, &job->text, job->number, job->time);
        bytes_release(&job->text);
        break;
    case JOB_CLOSE:
        keeper_close(&worker->keeper);
        break;
    case JOB_ANEW:
        steps_begin_conversation(&worker->steps);
        return;
    }
    send_news(worker, false);
}

static void *run(void *argument)
{
    struct worker *worker = argument;
    const struct backend *backend = &worker->backend;
    lower_priority(worker->nice_value);
    struct event event = {.kind = EVENT_FAILED};
    if (backend->ops->open(backend->self, on_progress, worker, &event.failed) == 0) {
        steps_begin_conversation(&worker->steps); // which policy of prefetch it has is known from now on
        atomic_store(&worker->ready, true);
        atomic_store(&worker->loaded, true);
        event = (struct event){.kind = EVENT_READY};
        backend->ops->describe(backend->self, &event.ready);
        event.ready.to_start = process_reads_now();
        queue_push(worker->events, &event, NULL);
        struct job job;
        while (queue_wait(worker->commands, &job))
            take_job(worker, &job);
        keeper_close(&worker->keeper);
    } else {
        atomic_store(&worker->loaded, true);
        queue_push(worker->events, &event, NULL);
    }
    worker->wrote_all = backend->ops->close(backend->self);
    return NULL;
}

static void job_release(struct job *job)
{
    turn_free(job->turn);
    saved_close(job->session.saved);
    tok_ids_release(&job->session.ids);
    tok_ids_release(&job->place.ids);
    bytes_release(&job->text);
}

static void post(struct worker *worker, const struct job *job)
{
    struct job copy = *job;
    if (!queue_push(worker->commands, &copy, NULL))
        job_release(&copy);
}

static void release(struct worker *worker)
{
    struct event event;
    struct job job;
    while (worker->events && queue_pop(worker->events, &event))
        event_release(&event);
    while (worker->commands && queue_pop(worker->commands, &job))
        job_release(&job);
    queue_free(worker->events);
    queue_free(worker->commands);
    timeline_release(&worker->timeline);
    exchange_release(&worker->exchange);
    steps_release(&worker->steps);
    free(worker);
}

struct worker *worker_new(const struct backend *backend, int nice_value)
{
    struct worker *worker = calloc(1, sizeof *worker);
    if (!worker) {
        backend->ops->close(backend->self);
        return NULL;
    }
    worker->backend = *backend;
    worker->keeper = (struct keeper){.backend = &worker->backend, .progress = on_progress, .progress_context = worker};
    steps_open(&worker->steps, &worker->backend);
    worker->timeline = (struct timeline){.backend = &worker->backend, .steps = &worker->steps};
    worker->nice_value = nice_value;
    worker->commands = queue_new(sizeof(struct job), 4);
    worker->events = worker->commands ? queue_new(sizeof(struct event), N_EVENTS) : NULL;
    int failed = worker->events ? 0 : errno;
    worker->exchange = (struct exchange){.backend = &worker->backend,
                                         .timeline = &worker->timeline,
                                         .steps = &worker->steps,
                                         .keeper = &worker->keeper,
                                         .answer = {.timeline = &worker->timeline,
                                                    .text = {.backend = &worker->backend, .events = worker->events},
                                                    .cancelled = &worker->cancelled}};
    // Signals are the face's: this thread and those that drivers start from it inherit a full mask.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (!failed)
        failed = pthread_create(&worker->thread, NULL, run, worker);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        backend->ops->close(backend->self);
        release(worker);
        errno = failed;
        return NULL;
    }
    return worker;
}

bool worker_free(struct worker *worker)
{
    if (!worker)
        return true;
    worker_cancel(worker);
    queue_close(worker->commands);
    queue_close(worker->events);
    pthread_join(worker->thread, NULL);
    bool wrote_all = worker->wrote_all;
    release(worker);
    return wrote_all;
}

bool worker_abandon(struct worker *worker, bool *left)
{
    *left = worker && !atomic_load(&worker->loaded);
    return *left || worker_free(worker);
}

void worker_send(struct worker *worker, struct turn *turn)
{
    worker->sent++;
    post(worker, &(struct job){.kind = JOB_TURN, .turn = turn});
}

void worker_open_session(struct worker *worker, struct worker_session session)
{
    post(worker, &(struct job){.kind = JOB_OPEN, .session = session});
}

// At once for whoever looks, and again behind what the worker still does for the last turn.
void worker_begin_conversation(struct worker *worker)
{
    steps_forget(&worker->steps);
    post(worker, &(struct job){.kind = JOB_ANEW});
}

void worker_go(struct worker *worker, struct worker_place place)
{
    post(worker, &(struct job){.kind = JOB_GO, .place = place});
}

void worker_save_session(struct worker *worker, const char *name)
{
    struct job job = {.kind = JOB_SAVE};
    snprintf(job.name, sizeof job.name, "%s", name);
    post(worker, &job);
}

void worker_save_system(struct worker *worker, struct bytes text, uint32_t number, uint64_t time)
{
    post(worker, &(struct job){.kind = JOB_SYSTEM, .text = text, .number = number, .time = time});
}

void worker_close_session(struct worker *worker)
{
    post(worker, &(struct job){.kind = JOB_CLOSE});
}

bool worker_finish_session(struct worker *worker, struct session_news *news)
{
    struct pollfd fd = {.fd = worker_fd(worker), .events = POLLIN};
    struct event event;
    *news = (struct session_news){0};
    if (!atomic_load(&worker->ready))
        return false;
    worker_cancel(worker);
    worker_close_session(worker);
    for (;;) {
        if (!worker_event(worker, &event)) {
            if (poll(&fd, 1, -1) < 0 && errno != EINTR)
                return false;
            continue;
        }
        event_release(&event);
        if (event.kind == EVENT_SESSION && event.session.open)
            *news = event.session;
        else if (event.kind == EVENT_SESSION)
            break;
    }
    if (news->failed && news->of_turn && !event.session.failed) // closing saved it after all
        *news->text = 0;
    news->failed = event.session.failed;
    news->unanswered = event.session.unanswered;
    if (*event.session.name) // it may have got it only now
        snprintf(news->name, sizeof news->name, "%s", event.session.name);
    if (*event.session.text) // closing had something to say, too
        snprintf(news->text, sizeof news->text, "%s", event.session.text);
    return true;
}

void worker_cancel(struct worker *worker)
{
    // The number first: a turn that has not begun yet sees it, one that has is stopped by the backend.
    atomic_store(&worker->cancelled, worker->sent);
    if (atomic_load(&worker->ready))
        worker->backend.ops->cancel(worker->backend.self);
}

int worker_fd(const struct worker *worker)
{
    return queue_fd(worker->events);
}

bool worker_event(struct worker *worker, struct event *event)
{
    return queue_pop(worker->events, event);
}

bool worker_inspect(struct worker *worker, uint32_t n, struct step_token *token, uint32_t *count)
{
    return steps_token(&worker->steps, n, token, count);
}

void worker_usual(struct worker *worker, struct usual *usual, uint32_t slowest[STEPS_SLOWEST])
{
    steps_usual(&worker->steps, usual, slowest);
}

double worker_hits_with(struct worker *worker, uint64_t room)
{
    return steps_hits_with(&worker->steps, room);
}

size_t worker_bytes(const struct worker *worker, int32_t id, const char **bytes)
{
    return worker->backend.ops->bytes(worker->backend.self, id, bytes);
}

bool worker_figures(struct worker *worker, struct figures *figures)
{
    bool known = steps_figures(&worker->steps, figures);
    if (figures->turn != worker->sent)
        figures_begin_turn(figures);
    return known;
}
