// SPDX-License-Identifier: GPL-3.0-or-later
// The clock stands while the process is said to, goes on where it stood, and never goes back in any thread.
#include "engine/base/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "engine/moe.h"
#include "tests/harness.h"

enum { MS = 1000000 };

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * MS}, NULL);
}

static void it_stands_while_the_process_does(struct harness *t)
{
    uint64_t began = clock_ns(), stood[2];
    sleep_ms(5);
    for (int i = 0; i < 2; i++) { // what it has left out adds up
        moe_clock_stop();
        stood[0] = clock_ns();
        moe_clock_stop(); // stands already
        sleep_ms(300);
        stood[1] = moe_clock_ns();
        CHECK_EQ(t, stood[0], stood[1]);
        moe_clock_go_on();
        moe_clock_go_on(); // goes already
        CHECK(t, clock_ns() >= stood[1]);
    }
    uint64_t left_out = clock_ns();
    CHECK(t, left_out - began >= 5 * MS && left_out - began < 300 * MS);
    sleep_ms(5);
    CHECK(t, clock_ns() - left_out >= 5 * MS);
}

struct reader {
    atomic_bool ends;
    atomic_uint_fast64_t shown;
    uint64_t back;
};

static void *read_on(void *context)
{
    struct reader *reader = context;
    for (uint64_t last = 0; !atomic_load(&reader->ends); reader->shown++) {
        uint64_t now = clock_ns();
        reader->back += now < last;
        last = now;
    }
    return NULL;
}

static void it_never_goes_back(struct harness *t)
{
    struct reader reader = {.back = 0};
    pthread_t thread;
    CHECK_EQ(t, pthread_create(&thread, NULL, read_on, &reader), 0);
    for (int i = 0; i < 20000; i++) {
        moe_clock_stop();
        moe_clock_go_on();
    }
    for (int i = 0; i < 10000 && atomic_load(&reader.shown) < 2; i++) // it may get no turn for a while
        sleep_ms(1);
    atomic_store(&reader.ends, true);
    pthread_join(thread, NULL);
    CHECK(t, atomic_load(&reader.shown) > 1);
    CHECK_EQ(t, reader.back, (uint64_t)0);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(it_stands_while_the_process_does), TEST(it_never_goes_back)};
    return HARNESS_RUN(tests, argc, argv);
}
