// SPDX-License-Identifier: GPL-3.0-or-later
// Fibers, barriers, what the lanes of a warp do together, and groups that wait for each other.
#define _GNU_SOURCE
#include "tests/emulate/group.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/emulate/halves.h"

#ifndef __x86_64__
#error "fibers are switched by x86-64's instructions"
#endif

enum { LANES = 32, MOST_WARPS = MOST_ITEMS / LANES, STACK_BYTES = 256 << 10, MOST_COPIES = 64 };
enum { MOST_RESIDENT = 8 }; // groups that live at once: two for each unit

// What a work-item waits for. All lanes of a warp, or all work-items of the group, must wait for the same.
enum wait { WAIT_NONE, WAIT_ENDED, WAIT_BARRIER, WAIT_WARP_BARRIER, WAIT_OF_LANE, WAIT_MMA };
static const char *const wait_names[] = {
    "nothing", "nothing, for it has ended", "barrier", "bar.warp.sync", "shfl.sync", "mma.sync (mma)"};

typedef float four_floats __attribute__((vector_size(16)));
typedef uint32_t four_words __attribute__((vector_size(16)));

struct copy {
    void *to;
    const void *from;
    uint32_t bytes, group;
};

struct item {
    void *stack; // lowest byte
    void *at;    // stack pointer of the fiber while another runs
    enum wait wait;
    const void *site; // where in the kernel it waits
    float value;      // of_lane, from_lane
    uint32_t from;
    float *sums; // mma: the lane's four of C
    uint32_t a[4], b[2];
    struct copy copies[MOST_COPIES]; // on their way
    uint32_t n_copies, n_groups;     // groups of them that are closed
};

// A group that has begun, while `lives`, or its fibers for the next one.
struct resident {
    bool lives;
    size_t id[3];
    struct item *items;
    size_t n_made;              // items that have a stack
    unsigned char *local;       // its local memory while another group runs
    size_t local_room;          // bytes
    uint32_t ready[MOST_WARPS]; // lanes that may go on
    uint32_t ready_warps;
    uint32_t arrived[MOST_WARPS]; // lanes that wait for the others of their warp
    uint32_t n_arrived;           // work-items at the barrier
    uint32_t n_ended;
    uint32_t patience; // fibers of a warp that go on before another warp may
};

// One grid at a time: fibers keep no argument that could lead to it.
static struct {
    const struct grid *grid;
    size_t n_begun; // groups
    void *outside;  // stack pointer of run_grid
    struct resident residents[MOST_RESIDENT];
    struct resident *group; // that runs
    struct item *now;
    uint64_t random;
} all;

// Saves what a function must keep, leaves the stack pointer in *from, and goes on where `to` was left.
void emulate_switch(void **from, void *to);
__asm__(".text\n"
        ".globl emulate_switch\n"
        ".hidden emulate_switch\n"
        ".type emulate_switch, @function\n"
        "emulate_switch:\n"
        "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n    pushq %r13\n    pushq %r14\n    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbx\n    popq %rbp\n"
        "    ret\n"
        ".size emulate_switch, . - emulate_switch\n");

// The functions that the kernels call.
size_t emulate_local_id(void);
size_t emulate_group_id(uint32_t axis);
size_t emulate_groups(uint32_t axis);
size_t emulate_group_items(void);
void emulate_barrier(void);
void emulate_warp_barrier(void);
float emulate_of_lane(float value, uint32_t apart);
float emulate_from_lane(float value, uint32_t lane);
void emulate_mma(four_floats *c, four_words a, uint32_t b0, uint32_t b1);
void emulate_copy(void *to, const void *from, uint32_t bytes);
void emulate_copies_wait(void);
void emulate_copies_group(void);
void emulate_copies_wait_but_two(void);
float emulate_of_half(uint16_t half);
uint16_t emulate_half(float value);
uint32_t emulate_halves_fma(uint32_t a, uint32_t b, uint32_t c);
void emulate_come(volatile uint32_t *count);
uint32_t emulate_look(const volatile uint32_t *count);

static uint32_t number_of(const struct item *item)
{
    return (uint32_t)(item - all.group->items);
}

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "FAIL kernel %s, group %zu %zu %zu, work-item %u: %s\n", all.grid->name, all.group->id[0],
            all.group->id[1], all.group->id[2], number_of(all.now), what);
    for (size_t i = 0; i < all.grid->items; i++)
        if (i == 0 || all.group->items[i].wait != all.group->items[i - 1].wait ||
            all.group->items[i].site != all.group->items[i - 1].site)
            fprintf(stderr, "    from work-item %zu on: waits for %s at %p\n", i, wait_names[all.group->items[i].wait],
                    all.group->items[i].site);
    fflush(stderr);
    abort();
}

static uint32_t draw(void)
{
    all.random = all.random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(all.random >> 33);
}

// Any of the bits that are set, of which there is one at least.
static uint32_t any_of(uint32_t bits)
{
    uint32_t turn = draw() % 32;
    uint32_t turned = bits >> turn | (turn ? bits << (32 - turn) : 0);
    return ((uint32_t)__builtin_ctz(turned) + turn) % 32;
}

static uint32_t lanes_of(uint32_t warp)
{
    size_t left = all.grid->items - (size_t)warp * LANES;
    return left >= LANES ? ~0u : (1u << left) - 1;
}

static void make_ready(uint32_t warp)
{
    all.group->ready[warp] = lanes_of(warp);
    all.group->ready_warps |= 1u << warp;
}

// The next fiber. In every second group a warp runs as far ahead of the others as it can, in the rest they take turns.
static struct item *next_item(uint32_t warp)
{
    if (!all.group->ready[warp] || draw() % all.group->patience == 0) {
        if (!all.group->ready_warps)
            fail("it waits for others that will not come");
        warp = any_of(all.group->ready_warps);
    }
    uint32_t lane = any_of(all.group->ready[warp]);
    all.group->ready[warp] &= ~(1u << lane);
    if (!all.group->ready[warp])
        all.group->ready_warps &= ~(1u << warp);
    return &all.group->items[warp * LANES + lane];
}

static void go_on_elsewhere(void)
{
    struct item *here = all.now;
    all.now = next_item(number_of(here) / LANES);
    if (all.now != here)
        emulate_switch(&here->at, all.now->at);
}

// ---- the group

// All that wait wait at one place: a loop that some leave earlier is a mistake, whatever comes next.
static void check_sites(uint32_t first, uint32_t n)
{
    for (uint32_t i = first + 1; i < first + n; i++)
        if (all.group->items[i].wait != all.group->items[first].wait ||
            all.group->items[i].site != all.group->items[first].site)
            fail("others wait at another place");
}

void emulate_barrier(void)
{
    struct item *here = all.now;
    here->wait = WAIT_BARRIER;
    here->site = __builtin_return_address(0);
    if (++all.group->n_arrived == all.grid->items) {
        check_sites(0, (uint32_t)all.grid->items);
        all.group->n_arrived = 0;
        for (uint32_t warp = 0; warp * LANES < all.grid->items; warp++)
            make_ready(warp);
    }
    go_on_elsewhere();
    here->wait = WAIT_NONE;
}

size_t emulate_local_id(void)
{
    return number_of(all.now);
}

size_t emulate_group_id(uint32_t axis)
{
    return axis < 3 ? all.group->id[axis] : 0;
}

size_t emulate_groups(uint32_t axis)
{
    return axis < 3 ? all.grid->groups[axis] : 1;
}

size_t emulate_group_items(void)
{
    return all.grid->items;
}

// ---- warps

// The lane that comes last does for all what they came for.
static bool is_last_of_warp(enum wait wait, const void *site)
{
    struct item *here = all.now;
    uint32_t n = number_of(here), warp = n / LANES;
    here->wait = wait;
    here->site = site;
    if (lanes_of(warp) != ~0u)
        fail("a warp of fewer than 32 lanes");
    all.group->arrived[warp] |= 1u << n % LANES;
    if (all.group->arrived[warp] != ~0u)
        return false;
    check_sites(n / LANES * LANES, LANES);
    all.group->arrived[warp] = 0;
    make_ready(warp);
    return true;
}

static struct item *warp_of_now(void)
{
    return all.group->items + number_of(all.now) / LANES * LANES;
}

static void leave_warp(void)
{
    struct item *here = all.now;
    go_on_elsewhere();
    here->wait = WAIT_NONE;
}

void emulate_warp_barrier(void)
{
    is_last_of_warp(WAIT_WARP_BARRIER, __builtin_return_address(0));
    leave_warp();
}

// `from`: the lane whose value is wanted.
static float value_of_lane(float value, uint32_t from, const void *site)
{
    struct item *here = all.now;
    here->value = value;
    here->from = from;
    if (is_last_of_warp(WAIT_OF_LANE, site)) {
        struct item *lanes = warp_of_now();
        float given[LANES];
        for (uint32_t i = 0; i < LANES; i++) {
            if (lanes[i].from >= LANES)
                fail("the value of a lane that there is none of");
            given[i] = lanes[lanes[i].from].value;
        }
        for (uint32_t i = 0; i < LANES; i++)
            lanes[i].value = given[i];
    }
    leave_warp();
    return here->value;
}

float emulate_of_lane(float value, uint32_t apart)
{
    return value_of_lane(value, number_of(all.now) % LANES ^ apart, __builtin_return_address(0));
}

float emulate_from_lane(float value, uint32_t lane)
{
    return value_of_lane(value, lane, __builtin_return_address(0));
}

// The sum of a row's 16 products and of C, which the units cut off towards zero.
static float cut_off(double sum)
{
    float rounded = (float)sum;
    if ((rounded > 0 && (double)rounded > sum) || (rounded < 0 && (double)rounded < sum))
        rounded = number_bits(number_pattern(rounded) - 1);
    return rounded;
}

// PTX ISA, fragments of mma.m16n8k16: as kernels/ptx.cl says, with the registers of A in the order (g, low), (g + 8,
// low), (g, high), (g + 8, high) and those of B low, high, where the inputs 8 and up are high.
static void multiply(struct item *lanes)
{
    double a[16][16], b[16][8], sums[16][8];
    for (uint32_t lane = 0; lane < LANES; lane++) {
        uint32_t g = lane / 4, j = lane % 4;
        for (uint32_t half = 0; half < 2; half++) {
            for (uint32_t r = 0; r < 4; r++)
                a[g + r % 2 * 8][r / 2 * 8 + 2 * j + half] =
                    (double)number_from_half((uint16_t)(lanes[lane].a[r] >> half * 16));
            for (uint32_t r = 0; r < 2; r++)
                b[r * 8 + 2 * j + half][g] = (double)number_from_half((uint16_t)(lanes[lane].b[r] >> half * 16));
        }
        for (uint32_t r = 0; r < 4; r++)
            sums[g + r / 2 * 8][2 * j + r % 2] = (double)lanes[lane].sums[r];
    }
    for (uint32_t row = 0; row < 16; row++)
        for (uint32_t k = 0; k < 16; k++)
            for (uint32_t column = 0; column < 8; column++)
                sums[row][column] += a[row][k] * b[k][column];
    for (uint32_t lane = 0; lane < LANES; lane++)
        for (uint32_t r = 0; r < 4; r++)
            lanes[lane].sums[r] = cut_off(sums[lane / 4 + r / 2 * 8][2 * (lane % 4) + r % 2]);
}

void emulate_mma(four_floats *c, four_words a, uint32_t b0, uint32_t b1)
{
    struct item *here = all.now;
    here->sums = (float *)c;
    memcpy(here->a, &a, sizeof here->a);
    here->b[0] = b0;
    here->b[1] = b1;
    if (is_last_of_warp(WAIT_MMA, __builtin_return_address(0)))
        multiply(warp_of_now());
    leave_warp();
}

// ---- copies under way

// Until its work-item has waited nobody may read what is copied to, or what lay there.
void emulate_copy(void *to, const void *from, uint32_t bytes)
{
    struct item *here = all.now;
    if ((uintptr_t)to % bytes || (uintptr_t)from % bytes)
        fail("cp.async to or from a place that is no multiple of its size");
    if (here->n_copies == MOST_COPIES)
        fail("more copies under way than the emulator keeps");
    here->copies[here->n_copies++] = (struct copy){to, from, bytes, here->n_groups};
    for (uint32_t i = 0; i < bytes; i += 4)
        memcpy((char *)to + i, &poisoned_word, 4);
}

// Of groups below `end`.
static void end_copies(struct item *here, uint32_t end)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < here->n_copies; i++) {
        struct copy copy = here->copies[i];
        if (copy.group < end)
            memcpy(copy.to, copy.from, copy.bytes);
        else
            here->copies[left++] = copy;
    }
    here->n_copies = left;
}

void emulate_copies_wait(void)
{
    end_copies(all.now, UINT32_MAX);
}

void emulate_copies_group(void)
{
    all.now->n_groups++;
}

void emulate_copies_wait_but_two(void)
{
    struct item *here = all.now;
    end_copies(here, here->n_groups > 2 ? here->n_groups - 2 : 0);
}

// ---- halves

float emulate_of_half(uint16_t half)
{
    return number_from_half(half);
}

uint16_t emulate_half(float value)
{
    return (uint16_t)half_of(value);
}

// x87's long double holds the sum of a float16 and a product of two exactly; rounded to odd, it may be rounded once
// more.
static uint32_t half_fma(uint16_t a, uint16_t b, uint16_t c)
{
    long double sum =
        (long double)number_from_half(a) * (long double)number_from_half(b) + (long double)number_from_half(c);
    float near = (float)sum;
    uint32_t bits = number_pattern(near);
    if ((bits & 0x7f800000) == 0x7f800000 || (long double)near == sum)
        return half_of(near);
    if (near > 0 ? (long double)near > sum : (long double)near < sum)
        bits--;
    return half_of(number_bits(bits | 1));
}

uint32_t emulate_halves_fma(uint32_t a, uint32_t b, uint32_t c)
{
    return half_fma((uint16_t)a, (uint16_t)b, (uint16_t)c) |
           half_fma((uint16_t)(a >> 16), (uint16_t)(b >> 16), (uint16_t)(c >> 16)) << 16;
}

// ---- groups that wait for each other

static size_t groups_of(const struct grid *grid)
{
    return grid->groups[0] * grid->groups[1] * grid->groups[2];
}

static uint32_t n_living(void)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < MOST_RESIDENT; i++)
        n += all.residents[i].lives;
    return n;
}

static struct resident *any_living(void)
{
    uint32_t left = draw() % n_living(), i = 0;
    while (!all.residents[i].lives || left--)
        i++;
    return &all.residents[i];
}

// A grid's arrays lie at one place for all groups, so a group that lets others run takes its own away.
static void keep_local(struct resident *g, bool back)
{
    size_t n = 0;
    for (size_t i = 0; i < all.grid->n_arrays; n += all.grid->arrays[i++].bytes)
        if (!back && n + all.grid->arrays[i].bytes > g->local_room) {
            g->local_room = n + all.grid->arrays[i].bytes;
            g->local = realloc(g->local, g->local_room);
            if (!g->local)
                fail("there is no memory for its local memory");
        }
    n = 0;
    for (size_t i = 0; i < all.grid->n_arrays; n += all.grid->arrays[i++].bytes)
        memcpy(back ? (void *)all.grid->arrays[i].words : g->local + n,
               back ? g->local + n : (void *)all.grid->arrays[i].words, all.grid->arrays[i].bytes);
}

// A group that had let others run goes on: the stack pointer of one of its fibers.
static void *enter(struct resident *g)
{
    keep_local(g, true);
    all.group = g;
    all.now = next_item(any_of(g->ready_warps));
    return all.now->at;
}

static void begin_group(struct resident *g);

void emulate_come(volatile uint32_t *count)
{
    ++*count;
}

// Other groups run, those that have not begun as well as any that looked, unless it draws itself.
uint32_t emulate_look(const volatile uint32_t *count)
{
    struct item *here = all.now;
    struct resident *g = all.group;
    uint32_t n = number_of(here), n_others = n_living();
    g->ready[n / LANES] |= 1u << n % LANES;
    g->ready_warps |= 1u << n / LANES;
    bool begins = all.n_begun < groups_of(all.grid) && n_others < MOST_RESIDENT && draw() % (n_others + 1) == 0;
    struct resident *next = begins ? all.residents : any_living();
    while (begins && next->lives)
        next++;
    if (next == g) {
        go_on_elsewhere();
        return *count;
    }
    keep_local(g, false);
    void *to;
    if (begins) {
        begin_group(next);
        all.now = next_item(any_of(next->ready_warps));
        to = all.now->at;
    } else {
        to = enter(next);
    }
    emulate_switch(&here->at, to);
    return *count;
}

// ---- fibers

// A fiber runs its work-item of one group, and of the next one when it is switched to again.
static _Noreturn void live(void)
{
    for (;;) {
        const struct grid *grid = all.grid;
        void *const *r = grid->registers;
        grid->function(*grid->stacked, r[0], r[1], r[2], r[3], r[4], r[5]);
        struct item *here = all.now;
        here->wait = WAIT_ENDED;
        here->site = NULL;
        if (here->n_copies)
            fail("it ends with copies under way");
        void *next = all.outside;
        if (++all.group->n_ended < grid->items) {
            all.now = next_item(number_of(here) / LANES);
            next = all.now->at;
        } else {
            all.group->lives = false;
            if (n_living())
                next = enter(any_living());
        }
        emulate_switch(&here->at, next);
    }
}

static bool make_fibers(struct resident *g, size_t n)
{
    if (!g->items)
        g->items = calloc(MOST_ITEMS, sizeof *g->items);
    for (; g->items && g->n_made < n; g->n_made++) {
        struct item *item = &g->items[g->n_made];
        item->stack =
            mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (item->stack == MAP_FAILED)
            return false;
        mprotect(item->stack, 4096, PROT_NONE); // a stack that overflows is seen
        // six registers, where to go, and what a call would have left: no return address
        void **top = (void **)((char *)item->stack + STACK_BYTES) - 8;
        memset(top, 0, 8 * sizeof *top);
        void (*begin)(void) = live;
        memcpy(&top[6], &begin, sizeof begin);
        item->at = top;
    }
    return g->items != NULL;
}

static void poison(const struct grid *grid)
{
    for (size_t i = 0; i < grid->n_arrays; i++)
        for (size_t k = 0; k < grid->arrays[i].bytes / 4; k++)
            grid->arrays[i].words[k] = poisoned_word;
}

// The next group of the grid, as the one that runs.
static void begin_group(struct resident *g)
{
    const struct grid *grid = all.grid;
    if (!make_fibers(g, grid->items)) {
        fprintf(stderr, "FAIL no memory for %zu fibers\n", grid->items);
        abort();
    }
    size_t n = all.n_begun++;
    all.group = g;
    g->id[0] = n % grid->groups[0];
    g->id[1] = n / grid->groups[0] % grid->groups[1];
    g->id[2] = n / grid->groups[0] / grid->groups[1];
    g->lives = true;
    poison(grid);
    g->patience = draw() % 2 ? 16 : 65536;
    g->n_arrived = g->n_ended = g->ready_warps = 0;
    for (uint32_t warp = 0; warp * LANES < grid->items; warp++) {
        g->arrived[warp] = 0;
        make_ready(warp);
    }
    for (size_t i = 0; i < grid->items; i++)
        g->items[i].wait = WAIT_NONE;
}

void run_grid(const struct grid *grid)
{
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&one);
    if (!all.random) {
        const char *seed = getenv("MOECHAT_WARPS_SEED");
        all.random = seed ? strtoull(seed, NULL, 10) : 1;
    }
    all.grid = grid;
    all.n_begun = 0;
    while (all.n_begun < groups_of(grid)) {
        begin_group(&all.residents[0]);
        all.now = next_item(any_of(all.group->ready_warps));
        emulate_switch(&all.outside, all.now->at);
    }
    all.grid = NULL;
    pthread_mutex_unlock(&one);
}
