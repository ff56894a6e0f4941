// SPDX-License-Identifier: GPL-3.0-or-later
// The queue between the engine and a face: order, the wake pipe, merging, two threads, closing.
#include "tests/harness.h"

#include <sys/resource.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <time.h>

#include "app/driver/queue.h"

static bool readable(struct queue *queue)
{
    struct pollfd fd = {.fd = queue_fd(queue), .events = POLLIN};
    return poll(&fd, 1, 0) == 1;
}

static void keeps_order_and_wraps(struct harness *t)
{
    struct queue *queue = queue_new(sizeof(int), 3);
    int next = 0, got;
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 2; i++)
            CHECK(t, queue_push(queue, &(int){round * 2 + i}, NULL));
        for (int i = 0; i < 2; i++, next++) {
            CHECK(t, queue_pop(queue, &got));
            CHECK_EQ(t, got, next);
        }
    }
    CHECK(t, !queue_pop(queue, &got));
    queue_free(queue);
}

static void wakes_while_not_empty(struct harness *t)
{
    struct queue *queue = queue_new(sizeof(int), 4);
    int item = 1;
    CHECK(t, !readable(queue));
    queue_push(queue, &item, NULL);
    queue_push(queue, &item, NULL);
    CHECK(t, readable(queue));
    queue_pop(queue, &item);
    CHECK(t, readable(queue));
    queue_pop(queue, &item);
    CHECK(t, !readable(queue));
    queue_push(queue, &item, NULL);
    CHECK(t, readable(queue));
    queue_free(queue);
}

static bool same_sign(const void *last, const void *item)
{
    return (*(const int *)last < 0) == (*(const int *)item < 0);
}

static void merges_with_the_last_only(struct harness *t)
{
    struct queue *queue = queue_new(sizeof(int), 8);
    static const int items[] = {1, 2, -3, 4, 5, 6};
    int got;
    for (size_t i = 0; i < sizeof items / sizeof items[0]; i++)
        CHECK(t, queue_push(queue, &items[i], same_sign)); // merged or not, it has it
    static const int want[] = {2, -3, 6};
    for (size_t i = 0; i < 3; i++) {
        CHECK(t, queue_pop(queue, &got));
        CHECK_EQ(t, got, want[i]);
    }
    CHECK(t, !queue_pop(queue, &got));
    queue_free(queue);
}

enum { MANY = 20000 };

static void *produce(void *context)
{
    for (int i = 0; i < MANY; i++)
        if (!queue_push(context, &i, NULL))
            return NULL;
    return context;
}

static void two_threads_lose_nothing(struct harness *t)
{
    struct queue *queue = queue_new(sizeof(int), 7);
    pthread_t thread;
    int got, wrong = 0;
    pthread_create(&thread, NULL, produce, queue);
    for (int i = 0; i < MANY; i++) {
        if (i % 2)
            wrong += !queue_wait(queue, &got) || got != i;
        else {
            struct pollfd fd = {.fd = queue_fd(queue), .events = POLLIN};
            wrong += poll(&fd, 1, 10000) != 1 || !queue_pop(queue, &got) || got != i;
        }
    }
    pthread_join(thread, NULL);
    CHECK_EQ(t, wrong, 0);
    queue_free(queue);
}

static void *take_later(void *context)
{
    int got;
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    return queue_wait(context, &got) ? context : NULL;
}

static void tells_how_long_pushes_waited(struct harness *t)
{
    struct queue *queue = queue_new(sizeof(int), 1);
    pthread_t thread;
    CHECK(t, queue_push(queue, &(int){1}, NULL) && queue_waited(queue) == 0);
    pthread_create(&thread, NULL, take_later, queue);
    CHECK(t, queue_push(queue, &(int){2}, NULL));
    pthread_join(thread, NULL);
    uint64_t waited = queue_waited(queue);
    CHECK(t, waited > 20000000 && waited < UINT64_C(60000000000) && queue_waited(queue) == 0);
    queue_free(queue);
}

static void closing_releases_both_sides(struct harness *t)
{
    struct queue *queue = queue_new(sizeof(int), 2);
    pthread_t thread;
    void *result = queue;
    int got;
    pthread_create(&thread, NULL, produce, queue); // fills it and waits
    while (!queue_wait(queue, &got)) {
    }
    queue_close(queue);
    pthread_join(thread, &result);
    CHECK(t, result == NULL);
    CHECK(t, !queue_push(queue, &got, NULL));
    while (queue_wait(queue, &got)) {
    }
    CHECK(t, !queue_pop(queue, &got));
    queue_free(queue);
}

static void no_descriptor_is_told_from_no_memory(struct harness *t)
{
    struct rlimit before, none;
    CHECK_EQ(t, getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
    CHECK_EQ(t, setrlimit(RLIMIT_NOFILE, &none), 0);
    errno = 0;
    struct queue *queue = queue_new(1, 1);
    int failed = errno;
    CHECK_EQ(t, setrlimit(RLIMIT_NOFILE, &before), 0);
    CHECK(t, queue == NULL);
    CHECK_EQ(t, failed, EMFILE);
    queue_free(queue);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(keeps_order_and_wraps),
        TEST(wakes_while_not_empty),
        TEST(merges_with_the_last_only),
        TEST(two_threads_lose_nothing),
        TEST(closing_releases_both_sides),
        TEST(tells_how_long_pushes_waited),
        TEST(no_descriptor_is_told_from_no_memory),
    };
    return HARNESS_RUN(tests, argc, argv);
}
