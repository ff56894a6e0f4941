// SPDX-License-Identifier: GPL-3.0-or-later
// A ring under a mutex, and a pipe whose read end can be polled.
#include "app/driver/queue.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/util/format.h"

struct queue {
    pthread_mutex_t mutex;
    pthread_cond_t changed; // by every push, pop and close
    size_t item_bytes, capacity;
    size_t first, count;
    bool closed;
    uint64_t waited_ns; // by pushes
    int wake[2];        // holds one byte exactly while count > 0
    unsigned char *items;
};

// The byte's way into the pipe and out of it. A kernel that has no page for the moment, or a signal, is asked again;
// the pipe is empty whenever the queue is, so the byte always fits.
static void put_wake(const struct queue *queue)
{
    while (write(queue->wake[1], "", 1) != 1)
        if (errno != EINTR && errno != EAGAIN && errno != ENOMEM)
            abort();
}

static void take_wake(const struct queue *queue)
{
    char byte;
    while (read(queue->wake[0], &byte, 1) != 1)
        if (errno != EINTR)
            abort();
}

static bool open_wake(int wake[2])
{
    if (pipe(wake) != 0)
        return false;
    for (int i = 0; i < 2; i++) {
        fcntl(wake[i], F_SETFD, FD_CLOEXEC);
        fcntl(wake[i], F_SETFL, O_NONBLOCK);
    }
    return true;
}

struct queue *queue_new(size_t item_bytes, size_t capacity)
{
    struct queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        return NULL;
    queue->item_bytes = item_bytes;
    queue->capacity = capacity;
    queue->items = calloc(capacity, item_bytes);
    if (!queue->items || !open_wake(queue->wake)) {
        int failed = errno;
        free(queue->items);
        free(queue);
        errno = failed;
        return NULL;
    }
    pthread_mutex_init(&queue->mutex, NULL);
    pthread_cond_init(&queue->changed, NULL);
    return queue;
}

void queue_free(struct queue *queue)
{
    if (!queue)
        return;
    close(queue->wake[0]);
    close(queue->wake[1]);
    pthread_cond_destroy(&queue->changed);
    pthread_mutex_destroy(&queue->mutex);
    free(queue->items);
    free(queue);
}

static unsigned char *item_at(const struct queue *queue, size_t index)
{
    return queue->items + (queue->first + index) % queue->capacity * queue->item_bytes;
}

// Under the mutex.
static void wait_for_room(struct queue *queue)
{
    if (queue->count < queue->capacity || queue->closed)
        return;
    uint64_t began = format_clock_ns();
    while (queue->count == queue->capacity && !queue->closed)
        pthread_cond_wait(&queue->changed, &queue->mutex);
    queue->waited_ns += format_clock_ns() - began;
}

bool queue_push(struct queue *queue, const void *item, queue_merge_fn *merge)
{
    pthread_mutex_lock(&queue->mutex);
    if (merge && queue->count > 0 && !queue->closed && merge(item_at(queue, queue->count - 1), item)) {
        memcpy(item_at(queue, queue->count - 1), item, queue->item_bytes);
        pthread_mutex_unlock(&queue->mutex);
        return true;
    }
    wait_for_room(queue);
    bool taken = !queue->closed;
    if (taken) {
        memcpy(item_at(queue, queue->count), item, queue->item_bytes);
        if (queue->count++ == 0)
            put_wake(queue);
        pthread_cond_broadcast(&queue->changed);
    }
    pthread_mutex_unlock(&queue->mutex);
    return taken;
}

uint64_t queue_waited(struct queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    uint64_t waited = queue->waited_ns;
    queue->waited_ns = 0;
    pthread_mutex_unlock(&queue->mutex);
    return waited;
}

static bool take(struct queue *queue, void *item)
{
    if (queue->count == 0)
        return false;
    memcpy(item, item_at(queue, 0), queue->item_bytes);
    queue->first = (queue->first + 1) % queue->capacity;
    if (--queue->count == 0)
        take_wake(queue);
    pthread_cond_broadcast(&queue->changed);
    return true;
}

bool queue_pop(struct queue *queue, void *item)
{
    pthread_mutex_lock(&queue->mutex);
    bool taken = take(queue, item);
    pthread_mutex_unlock(&queue->mutex);
    return taken;
}

bool queue_wait(struct queue *queue, void *item)
{
    pthread_mutex_lock(&queue->mutex);
    while (queue->count == 0 && !queue->closed)
        pthread_cond_wait(&queue->changed, &queue->mutex);
    bool taken = take(queue, item);
    pthread_mutex_unlock(&queue->mutex);
    return taken;
}

void queue_close(struct queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    queue->closed = true;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->mutex);
}

int queue_fd(const struct queue *queue)
{
    return queue->wake[0];
}
