// SPDX-License-Identifier: GPL-3.0-or-later
// A bounded queue of fixed-size items between two threads, with one coalesced wake-up: a pipe's read end turns readable
// when the queue stops being empty, so that a poll loop can wait for items and keys alike. Items are copied in and out.
#ifndef MOECHAT_APP_DRIVER_QUEUE_H
#define MOECHAT_APP_DRIVER_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct queue;

// NULL with errno when memory or file descriptors run out.
struct queue *queue_new(size_t item_bytes, size_t capacity);
void queue_free(struct queue *queue); // NULL is fine; no thread may use it any more

// May a new item take the place of the last one? For news that only matter in their latest form.
typedef bool queue_merge_fn(const void *last, const void *item);

// Waits while the queue is full. merge may be NULL. False once the queue is closed: the item was not taken.
bool queue_push(struct queue *queue, const void *item, queue_merge_fn *merge);
// For how long pushes have waited for room since this was asked last, in nanoseconds.
uint64_t queue_waited(struct queue *queue);
// False when nothing is there. Clears the wake-up with the last item.
bool queue_pop(struct queue *queue, void *item);
// Waits for an item. False once the queue is closed and empty.
bool queue_wait(struct queue *queue, void *item);
// Nothing more goes in; those who wait return.
void queue_close(struct queue *queue);
// Readable while the queue is not empty. Only for poll: queue_pop reads it.
int queue_fd(const struct queue *queue);

#endif
