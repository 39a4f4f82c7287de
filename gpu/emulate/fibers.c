/* fibers.c - fibers by ucontext. Once a fiber has begun, it is changed to by setjmp() and longjmp(), which ask the
 * system nothing; sanitizers that follow stacks get swapcontext() alone. The longjmp() of _FORTIFY_SOURCE knows one
 * stack only. */
#undef _FORTIFY_SOURCE
#include "gpu/emulate/fibers.h"

#include <assert.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define STACK_NBYTES 65536
#define WARP_COUNT_MAX (FIBER_COUNT_MAX / FIBER_WARP)

#if defined(__SANITIZE_ADDRESS__)
#define JUMPS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define JUMPS 0
#endif
#endif
#ifndef JUMPS
#define JUMPS 1
#endif

/* Which of the fibers that are ready goes on. */
enum { ORDER_FIRST, ORDER_LAST, ORDER_ANY };

typedef struct fiber {
    ucontext_t context;
    jmp_buf place;
    int has_begun;
    uint32_t turn; /* exchanges so far */
} fiber;

/* The fibers of a warp, while they hand over values. */
typedef struct warp {
    uint32_t values[2][FIBER_WARP];
    uint32_t waiting[FIBER_WARP];
    uint32_t waiting_count;
} warp;

/* A thread block that is run. */
typedef struct fiber_set {
    fiber fibers[FIBER_COUNT_MAX];
    warp warps[WARP_COUNT_MAX];
    uint32_t ready[FIBER_COUNT_MAX];
    uint32_t ready_count;
    uint32_t waiting[FIBER_COUNT_MAX]; /* for all */
    uint32_t waiting_count;
    uint32_t count, ended_count, current;
    uint64_t random;
    unsigned order;
    ucontext_t caller;
    jmp_buf caller_place;
    void (*body)(void *);
    void *user;
    void *shared;
    unsigned char *stacks;
} fiber_set;

static fiber_set *set; /* the one that runs */

static uint32_t next_random(uint32_t below)
{
    set->random = set->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((set->random >> 32) * below >> 32);
}

/* The place of the fiber with the lowest number, or the highest one, among those that are ready. */
static uint32_t find_extreme(int is_highest)
{
    uint32_t found = 0;
    for (uint32_t i = 1; i < set->ready_count; i++)
        if ((set->ready[i] > set->ready[found]) == is_highest)
            found = i;
    return found;
}

static uint32_t take_ready(void)
{
    const uint32_t i =
        set->order == ORDER_ANY ? next_random(set->ready_count) : find_extreme(set->order == ORDER_LAST);
    const uint32_t taken = set->ready[i];
    set->ready[i] = set->ready[--set->ready_count];
    return taken;
}

/* Goes on with a fiber that is ready, or with the caller if there is none. Returns when the fiber that is left is taken
 * again. */
static void leave(fiber *left)
{
    if (set->ready_count == 0) {
        if (!JUMPS)
            swapcontext(&left->context, &set->caller);
        else if (setjmp(left->place) == 0)
            longjmp(set->caller_place, 1);
        return;
    }
    set->current = take_ready();
    fiber *const entered = &set->fibers[set->current];
    if (entered == left)
        return;
    if (JUMPS && entered->has_begun) {
        if (setjmp(left->place) == 0)
            longjmp(entered->place, 1);
        return;
    }
    entered->has_begun = 1;
    if (!JUMPS)
        swapcontext(&left->context, &entered->context);
    else if (setjmp(left->place) == 0)
        setcontext(&entered->context);
}

static void fiber_main(void)
{
    set->body(set->user);
    set->ended_count++;
    leave(&set->fibers[set->current]);
    assert(0); /* an ended fiber is never taken */
}

/* Puts the fibers that wait back among those that are ready. */
static void wake(const uint32_t *waiting, uint32_t count)
{
    memcpy(set->ready + set->ready_count, waiting, count * sizeof *waiting);
    set->ready_count += count;
}

uint32_t fiber_index(void)
{
    return set->current;
}

void *fiber_shared(void)
{
    return set->shared;
}

void fiber_barrier(void)
{
    set->waiting[set->waiting_count++] = set->current;
    if (set->waiting_count == set->count) {
        wake(set->waiting, set->count);
        set->waiting_count = 0;
    }
    leave(&set->fibers[set->current]);
}

const uint32_t *fiber_exchange(uint32_t value)
{
    fiber *const self = &set->fibers[set->current];
    warp *const own = &set->warps[set->current / FIBER_WARP];
    uint32_t *const values = own->values[self->turn++ % 2];
    values[set->current % FIBER_WARP] = value;
    own->waiting[own->waiting_count++] = set->current;
    if (own->waiting_count == FIBER_WARP) {
        wake(own->waiting, FIBER_WARP);
        own->waiting_count = 0;
    }
    leave(self);
    return values;
}

static void begin(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        fiber *const made = &set->fibers[i];
        getcontext(&made->context);
        made->context.uc_stack.ss_sp = set->stacks + (size_t)i * STACK_NBYTES;
        made->context.uc_stack.ss_size = STACK_NBYTES;
        made->context.uc_link = NULL;
        makecontext(&made->context, fiber_main, 0);
        set->ready[i] = i;
    }
    set->ready_count = count;
}

int fibers_run(uint32_t count, uint64_t seed, void (*body)(void *), void *user, void *shared)
{
    static fiber_set run;
    assert(count % FIBER_WARP == 0 && count <= FIBER_COUNT_MAX);
    unsigned char *const stacks = run.stacks ? run.stacks : malloc((size_t)FIBER_COUNT_MAX * STACK_NBYTES);
    if (!stacks)
        return 0;
    memset(&run, 0, sizeof run);
    run.stacks = stacks;
    run.count = count;
    run.random = seed;
    run.order = seed % 8 < ORDER_ANY ? (unsigned)(seed % 8) : ORDER_ANY; /* the others take longer to find */
    run.body = body;
    run.user = user;
    run.shared = shared;
    set = &run;
    begin(count);
    set->current = take_ready();
    fiber *const first = &set->fibers[set->current];
    first->has_begun = 1;
    if (!JUMPS)
        swapcontext(&set->caller, &first->context);
    else if (setjmp(set->caller_place) == 0)
        setcontext(&first->context);
    return set->ended_count == count;
}
